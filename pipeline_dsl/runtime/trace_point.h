/*
 * trace_point: the places where a tracer may hook into a built server.
 * probes/contract.h has the table of points and their arguments; this file makes one nop, one ELF note and one semaphore of each.
 *
 * Each point is a single byte, 0x90: a 5-byte nop would be turned into a call that overwrites the red zone (Linux 6.18), and
 * anything else costs a single step. The arguments lie in fixed registers, so that a probe needs no parser for the note. A
 * semaphore counts the tracers that look; the kernel keeps the count, so that a tracer that dies leaves it at 0.
 *
 * Units: none.
 * Owns: nothing.
 * Threads: any.
 * Errors: none. Elsewhere than on x86-64 a point compiles to nothing and its semaphore stays 0.
 */
#ifndef WEIR_RUNTIME_TRACE_POINT_H
#define WEIR_RUNTIME_TRACE_POINT_H

#include <stdint.h>

/* Volatile, since the kernel writes them behind the compiler's back. */
#define WEIR_TRACE_SEMAPHORE(name) volatile uint16_t weir_##name##_semaphore
/* For functions that must exist exactly once, under their own name. */
#if defined(__clang__)
#define WEIR_STANDS_ALONE __attribute__((used, noinline))
#else
#define WEIR_STANDS_ALONE __attribute__((used, noinline, noclone))
#endif

#define WEIR_TRACE_HIDDEN __attribute__((visibility("hidden")))

extern WEIR_TRACE_HIDDEN WEIR_TRACE_SEMAPHORE(thread_start);
extern WEIR_TRACE_HIDDEN WEIR_TRACE_SEMAPHORE(items_flush);
extern WEIR_TRACE_HIDDEN WEIR_TRACE_SEMAPHORE(trace_on);
extern WEIR_TRACE_HIDDEN WEIR_TRACE_SEMAPHORE(trace_exact);

#if defined(__x86_64__)

/* A point belongs in a function that stands alone, or its note appears twice. The layout of the note is that
 * of SystemTap's sys/sdt.h, version 3. */
#define WEIR_TRACE_POINT(name, first, second, third)                                                                           \
    do {                                                                                                                       \
        register uint64_t rdi_ __asm__("rdi") = (uint64_t)(first);                                                             \
        register uint64_t rsi_ __asm__("rsi") = (uint64_t)(second);                                                            \
        register uint64_t rdx_ __asm__("rdx") = (uint64_t)(third);                                                             \
        __asm__ volatile("990: .byte 0x90\n"                                                                                   \
                         ".pushsection .note.stapsdt,\"?\",\"note\"\n"                                                         \
                         ".balign 4\n"                                                                                         \
                         ".4byte 992f-991f, 994f-993f, 3\n"                                                                    \
                         "991: .asciz \"stapsdt\"\n"                                                                           \
                         "992: .balign 4\n"                                                                                    \
                         "993: .8byte 990b\n"                                                                                  \
                         ".8byte _.stapsdt.base\n"                                                                             \
                         ".8byte weir_" #name "_semaphore\n"                                                                   \
                         ".asciz \"weir\"\n"                                                                                   \
                         ".asciz \"" #name "\"\n"                                                                              \
                         ".asciz \"8@%%rdi 8@%%rsi 8@%%rdx\"\n"                                                                \
                         "994: .balign 4\n"                                                                                    \
                         ".popsection\n"                                                                                       \
                         ".ifndef _.stapsdt.base\n"                                                                            \
                         ".pushsection .stapsdt.base,\"aG\",\"progbits\",.stapsdt.base,comdat\n"                               \
                         ".weak _.stapsdt.base\n"                                                                              \
                         ".hidden _.stapsdt.base\n"                                                                            \
                         "_.stapsdt.base: .space 1\n"                                                                          \
                         ".size _.stapsdt.base, 1\n"                                                                           \
                         ".popsection\n"                                                                                       \
                         ".endif\n"                                                                                            \
                         :                                                                                                     \
                         : "r"(rdi_), "r"(rsi_), "r"(rdx_)                                                                     \
                         : "memory");                                                                                          \
    } while (0)

#else

#define WEIR_TRACE_POINT(name, first, second, third) ((void)(first), (void)(second), (void)(third))

#endif

#endif
