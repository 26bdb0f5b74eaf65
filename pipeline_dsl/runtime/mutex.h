/*
 * mutex: a lock that clang's thread-safety analysis knows (`make lint`), so that "lock held" is checked and not only said.
 *
 * Units: none.
 * Owns: nothing.
 * Threads: any.
 * Errors: none; a mutex of this kind can't fail.
 */
#ifndef WEIR_RUNTIME_MUTEX_H
#define WEIR_RUNTIME_MUTEX_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#if defined(__clang__)
#define WEIR_ANALYSIS(...) __attribute__((__VA_ARGS__))
#else
#define WEIR_ANALYSIS(...)
#endif

/* Behind a function's parameters: the caller holds it; the function takes it, lets go of it, or knows that it is held. */
#define WEIR_REQUIRES(...) WEIR_ANALYSIS(requires_capability(__VA_ARGS__))
#define WEIR_ACQUIRES(...) WEIR_ANALYSIS(acquire_capability(__VA_ARGS__))
#define WEIR_RELEASES(...) WEIR_ANALYSIS(release_capability(__VA_ARGS__))
#define WEIR_HOLDS(...) WEIR_ANALYSIS(assert_capability(__VA_ARGS__))
#define WEIR_NOT_ANALYSED WEIR_ANALYSIS(no_thread_safety_analysis)

struct WEIR_ANALYSIS(capability("mutex")) weir_mutex {
    pthread_mutex_t raw;
};

static inline void weir_mutex_init(struct weir_mutex *mutex)
{
    pthread_mutex_init(&mutex->raw, NULL);
}

static inline void weir_mutex_release(struct weir_mutex *mutex)
{
    pthread_mutex_destroy(&mutex->raw);
}

static inline void weir_mutex_lock(struct weir_mutex *mutex) WEIR_ACQUIRES(*mutex) WEIR_NOT_ANALYSED
{
    pthread_mutex_lock(&mutex->raw);
}

static inline bool weir_mutex_try(struct weir_mutex *mutex) WEIR_ANALYSIS(try_acquire_capability(true, *mutex)) WEIR_NOT_ANALYSED
{
    return pthread_mutex_trylock(&mutex->raw) == 0;
}

static inline void weir_mutex_unlock(struct weir_mutex *mutex) WEIR_RELEASES(*mutex) WEIR_NOT_ANALYSED
{
    pthread_mutex_unlock(&mutex->raw);
}

/* A condition whose time is CLOCK_MONOTONIC's. */
static inline void weir_condition_init(pthread_cond_t *condition)
{
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(condition, &attributes);
    pthread_condattr_destroy(&attributes);
}

/* The same as below, at most until `until_ns` of CLOCK_MONOTONIC. */
static inline void weir_mutex_wait_until(struct weir_mutex *mutex, pthread_cond_t *condition, uint64_t until_ns) WEIR_REQUIRES(*mutex)
{
    struct timespec until = { (time_t)(until_ns / 1000000000u), (long)(until_ns % 1000000000u) };
    pthread_cond_timedwait(condition, &mutex->raw, &until);
}

/* The mutex is free while the thread waits, and held again when it returns. */
static inline void weir_mutex_wait(struct weir_mutex *mutex, pthread_cond_t *condition) WEIR_REQUIRES(*mutex)
{
    pthread_cond_wait(condition, &mutex->raw);
}

#endif
