/*
 * names: a hash table from names to small numbers, and the nearest known name to a misspelt one.
 * The checker finds pools, pipelines and stages through it, so that a thousand stages cost no more than a thousand look-ups.
 *
 * Units: none.
 * Owns: its slots; keys are borrowed and must outlive it.
 * Threads: owner only.
 * Errors: running out of memory sets `failed`.
 */
#ifndef WEIR_LANG_NAMES_H
#define WEIR_LANG_NAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct weir_names_slot {
    const char *key; /* null: free */
    size_t length;
    uint32_t value;
};

struct weir_names {
    struct weir_names_slot *slots;
    size_t capacity, count; /* capacity is a power of two */
    bool failed;
};

#define WEIR_NAMES_INIT { NULL, 0, 0, false }
#define WEIR_NAMES_NOT_FOUND UINT32_MAX

/* Adds it unless it is there. Returns the value it had, or NOT_FOUND when it is new. */
uint32_t weir_names_add(struct weir_names *names, const char *key, size_t length, uint32_t value);
uint32_t weir_names_find(const struct weir_names *names, const char *key, size_t length);
void weir_names_release(struct weir_names *names);

/* The nearest name so far to a misspelt one. */
struct weir_nearest {
    const char *wanted;
    size_t length;
    const char *best; /* null: nothing is near enough */
    size_t best_length;
    size_t best_distance;
};

struct weir_nearest weir_nearest(const char *wanted, size_t length);
/* Considers one candidate: near enough is a third of the longer word, at least one, in single edits or swaps of
 * neighbours; case counts half. */
void weir_nearest_offer(struct weir_nearest *nearest, const char *candidate, size_t length);

#endif
