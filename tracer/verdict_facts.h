/*
 * verdict_facts: what the rules of the verdict ask of a profile, worked out once: what the threads of each pool did with their time,
 * in which stage, and how much of the machine is used.
 * It stands between the profile and the rules.
 *
 * Units: ns; shares are 0 to 1; CPUs are CPU time / window.
 * Owns: nothing; arrays lie in the arena given.
 * Threads: any (read only, once made).
 * Errors: -ENOMEM.
 */
#ifndef WEIR_TRACER_VERDICT_FACTS_H
#define WEIR_TRACER_VERDICT_FACTS_H

#include <stdbool.h>

#include "base/profile.h"

struct weir_facts_pool {
    double whole_ns;                /* thread time; 0: nobody looked */
    double share[WEIR_STATE_COUNT]; /* of it */
    double stage_cpu_ns;            /* CPU time of its threads in stages; what else they ran is the runtime's */
    double held; /* neither idle nor waiting for what comes after it: the time that its own work takes, waits for CPU and slots included */
};

struct weir_facts {
    const struct weir_profile *profile;
    const struct weir_topology *topology;
    struct weir_facts_pool *pools; /* [pool_count] */
    double *work_ns;    /* [pool_count x stage_count]: time of the pool's threads in the stage, on CPU, pausing or in IO */
    double server_cpus; /* used by the server */
    double busy_cpus;   /* used by everybody, steal included; NAN: unknown */
    double cpus;
    bool has_shares;    /* the profile says where CPU time went */
};

int weir_facts_of(const struct weir_profile *profile, struct weir_arena *arena, struct weir_facts *facts);

/* Share of the pool's thread time that goes to the stage. */
double weir_facts_work(const struct weir_facts *facts, uint32_t pool, uint32_t stage);
/* The stage that takes most of the pool's time; WEIR_NONE: none takes any. */
uint32_t weir_facts_top_stage(const struct weir_facts *facts, uint32_t pool);
/* The pool with the least time to spare; WEIR_NONE: there are no pools. */
uint32_t weir_facts_busiest(const struct weir_facts *facts);
/* The row of a stage, or of a part, over all ways in; null: none. */
const struct weir_profile_row *weir_facts_row(const struct weir_profile *profile, uint32_t stage, enum weir_part part);
/* The CPUs that nobody used. */
double weir_facts_free_cpus(const struct weir_facts *facts);
/* Do the clients of a way in wait for each answer before they ask again? `silent_ns` is how long after it they ask. */
bool weir_facts_one_by_one(const struct weir_facts *facts, uint32_t way, double *silent_ns);
/* Items that wait for a thread of the pool, on average. */
double weir_facts_waiting(const struct weir_facts *facts, uint32_t pool);
/* Does a connection of the slots serve one request after the other? Then one that comes last waits for all before it, and service
 * grows with the number in use, from what a request takes that has its connection to itself. */
bool weir_facts_serial(const struct weir_facts *facts, const struct weir_profile_slots *slots);
/* Does each of several connections get less than one request's time alone would let through, though all have several under way? Then they
 * share what is behind them, and more of them only wait longer. */
bool weir_facts_far_end_full(const struct weir_facts *facts, const struct weir_profile_slots *slots);
/* What a request takes on average, ns, by Little's law: what is in use is so for as long as its service takes; 0: none came back. */
double weir_facts_service_ns(const struct weir_facts *facts, const struct weir_profile_slots *slots);
/* What such a request takes at best, ns; 0: unknown. */
double weir_facts_alone_ns(const struct weir_profile_slots *slots);
/* How full the queue was on average, by items or bytes, whichever is nearer to its limit; NAN: unknown. Of one connection for a ring. */
double weir_facts_fill(const struct weir_facts *facts, uint32_t queue);
/* Full most of the time, so that whoever pushes waits or is refused. */
bool weir_facts_full(const struct weir_facts *facts, uint32_t queue);

#endif
