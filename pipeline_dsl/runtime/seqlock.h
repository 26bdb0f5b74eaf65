/*
 * seqlock: how the blocks of the contract are written, so that a reader in another process never uses a torn snapshot.
 * Every word is stored with release order behind the odd sequence number; no fence is needed, and thread sanitizers follow it.
 *
 * Units: none.
 * Owns: nothing.
 * Threads: one writer at a time, any number of readers.
 * Errors: none.
 */
#ifndef WEIR_RUNTIME_SEQLOCK_H
#define WEIR_RUNTIME_SEQLOCK_H

#include <stdint.h>
#include <string.h>

#include "probes/contract.h"

static inline void weir_seqlock_begin(weir_u32 *sequence)
{
    __atomic_store_n(sequence, *sequence + 1, __ATOMIC_RELAXED);
}

static inline void weir_seqlock_end(weir_u32 *sequence)
{
    __atomic_store_n(sequence, *sequence + 1, __ATOMIC_RELEASE);
}

/* Words that only one thread at a time writes, and others may read at any moment. */
static inline void weir_word_add(weir_u64 *word, weir_u64 more)
{
    __atomic_store_n(word, *word + more, __ATOMIC_RELEASE);
}

static inline void weir_word_sub(weir_u64 *word, weir_u64 less)
{
    __atomic_store_n(word, *word - less, __ATOMIC_RELEASE);
}

/* A copy of a block of `size` bytes that starts with its sequence number and consists of whole 8-byte words. */
static inline void weir_seqlock_read(const void *block, void *copy, size_t size)
{
    const weir_u32 *sequence = block;
    weir_u32 before, after;
    do {
        before = __atomic_load_n(sequence, __ATOMIC_ACQUIRE);
        for (size_t i = 1; i < size / sizeof(weir_u64); i++)
            ((weir_u64 *)copy)[i] = __atomic_load_n((const weir_u64 *)block + i, __ATOMIC_ACQUIRE);
        after = __atomic_load_n(sequence, __ATOMIC_RELAXED);
    } while (before != after || (before & 1));
    /* The first word holds the sequence and a half word more, which is read by itself. */
    weir_u32 halves[2] = { before, __atomic_load_n(sequence + 1, __ATOMIC_RELAXED) };
    memcpy(copy, halves, sizeof halves);
}

#endif
