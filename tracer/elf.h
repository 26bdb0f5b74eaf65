/*
 * elf: what the tracer needs to know of an executable file: where a symbol and where the trace points lie.
 * It stands at the start of an attach, between the opened executable and the addresses that target and probe work with.
 *
 * Units: addresses as the file's program headers have them (add the load bias for a running process); file offsets in bytes.
 * Owns: the reading handle, until weir_elf_close(); the descriptor stays the caller's.
 * Threads: owner only.
 * Errors: WEIR_EXIT_CANNOT and a sentence. Every number in the file is taken as hostile.
 */
#ifndef WEIR_TRACER_ELF_H
#define WEIR_TRACER_ELF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

struct weir_elf;

/* One place of a trace point; a point may have several. */
struct weir_elf_point {
    char name[32];
    uint64_t address, offset;                     /* of the nop */
    uint64_t semaphore_address, semaphore_offset; /* 0: it has none */
};

int weir_elf_open(struct weir_elf **elf, int fd, struct weir_error *error);
void weir_elf_close(struct weir_elf *elf);

/* Finds a defined data symbol in .dynsym that is at least `size` bytes long. False when there is none. */
bool weir_elf_symbol(struct weir_elf *elf, const char *name, size_t size, uint64_t *address);

/* File offset of `address`, by the loadable segments; the byte must be in the file. `flags` are the PF_* that the segment needs. */
bool weir_elf_offset(const struct weir_elf *elf, uint64_t address, uint32_t flags, uint64_t *offset);

/* First loadable segment: its page-aligned file offset and address; the load bias is where that offset is mapped minus the address. */
void weir_elf_base(const struct weir_elf *elf, uint64_t *offset, uint64_t *address);

/* Is it position independent, so that a bias applies? */
bool weir_elf_is_shared(const struct weir_elf *elf);

/* The executable's code: where the segment that holds section .text begins and ends, and where .text itself begins: what lies before it
 * are the jumps into libraries. All 0 when there is no such section. */
void weir_elf_code(struct weir_elf *elf, uint64_t *segment, uint64_t *text, uint64_t *end);

/* Up to `limit` places of `provider`'s points (note "stapsdt", type 3). Returns how many; places that no segment holds are left out. */
size_t weir_elf_points(struct weir_elf *elf, const char *provider, struct weir_elf_point *points, size_t limit);

#endif
