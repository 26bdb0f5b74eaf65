/*
 * verdict_rule: what the rules of the verdict share: the draft that they write into, their thresholds, and their list.
 * A rule looks at the facts and writes any number of causes; it knows of no other rule. verdict.c calls them and puts what they
 * found in order.
 *
 * Units: shares are 0 to 1.
 * Owns: nothing; texts lie in the draft's arena.
 * Threads: owner only.
 * Errors: memory that is missing sets `failed`; the draft is then thrown away.
 */
#ifndef WEIR_TRACER_VERDICT_RULE_H
#define WEIR_TRACER_VERDICT_RULE_H

#include "base/verdict.h"
#include "tracer/verdict_facts.h"

/* --- thresholds ------------------------------------------------------------------------------------------------------------- */

/* A pool with less than a tenth of its time to spare holds the others back: at 0.9 a queue in front of it is nine items long
 * (M/M/1), and nothing that is done elsewhere gives more than a ninth. */
#define WEIR_RULE_SATURATED 0.9
/* A stage that takes half of its pool's time is the pool's limit; below that it is the pool itself, and no single stage. */
#define WEIR_RULE_MAIN_STAGE 0.5
/* A pool that has no time to spare, but works less than a third of it, mostly waits: for a CPU, a slot or a lock. */
#define WEIR_RULE_OWN 0.33
/* A pool with less than a quarter to spare, before which items wait all the same, is fed in fits: too little to say it idles. */
#define WEIR_RULE_SPARE 0.25
/* A pool that works three quarters of its time is near its limit, even if requests come one at a time. */
#define WEIR_RULE_BUSY 0.75
/* What explains less than a tenth is within what two runs of the same server differ by. */
#define WEIR_RULE_LEAST 0.1
/* Sizing in constant time costs less than a thousandth; a hundredth is an estimate, told from that even in a short window. */
#define WEIR_RULE_SIZE 0.01
/* A fifth of all CPU time for a number that could be known is a finding even where nothing is at its limit. */
#define WEIR_RULE_SIZE_WASTE 0.2
/* All CPUs but a twentieth are used: the scheduler has no more to give. */
#define WEIR_RULE_CPU_BUSY 0.95
/* The server alone uses that much of the CPUs: then their being used up is its own doing. Also where nobody knows of the others. */
#define WEIR_RULE_CPU_OWN 0.8
/* An answer that takes twice as long as one to a lone request waits for others, not for the way there and back. */
#define WEIR_RULE_SLOW 2.0
/* Slots at capacity that often are the limit, if workers waited for them. */
#define WEIR_RULE_SLOTS_FULL 0.3
/* No line is drawn farther than that from what was measured: eight times the threads, slots or connections of now. */
#define WEIR_RULE_MOST_GROWTH 8.0
/* Samples, before a share of CPU time is called one. */
#define WEIR_RULE_SAMPLES 50u
/* Losses up to a hundredth move no figure across a threshold. */
#define WEIR_RULE_LOSSES 0.01
/* A window in which a thread switches a few times only. */
#define WEIR_RULE_WINDOW_NS 200000000ull

/* --- the draft -------------------------------------------------------------------------------------------------------------- */

#define WEIR_DRAFT_CAUSES 16u
#define WEIR_DRAFT_EVIDENCE 64u

struct weir_draft {
    struct weir_arena *arena;
    struct weir_verdict_cause causes[WEIR_DRAFT_CAUSES];
    uint32_t cause_count;
    bool failed;
};

/* Begins a cause, which those below then fill; `stage` may be WEIR_NONE. */
void weir_draft_cause(struct weir_draft *draft, const struct weir_facts *facts, const char *kind, uint32_t stage, double explained);
void weir_draft_text(struct weir_draft *draft, const char *format, ...) __attribute__((format(printf, 2, 3)));
void weir_draft_evidence(struct weir_draft *draft, const char *format, ...) __attribute__((format(printf, 2, 3)));
void weir_draft_change(struct weir_draft *draft, const char *line, const char *where);

/* --- lines of the file ------------------------------------------------------------------------------------------------------ */

/* Each returns a line as `weir fmt` prints it; null when memory ran out. */
const char *weir_line_pool(struct weir_arena *arena, const struct weir_topology_pool *pool, uint32_t threads);
/* The handoff as it would stand above the decoder: bytes of known size. */
const char *weir_line_handoff_of_bytes(struct weir_arena *arena, const struct weir_topology *topology, uint32_t stage);
const char *weir_line_slots(struct weir_arena *arena, const struct weir_topology_stage *stage, uint32_t connections, uint32_t in_flight);

/* --- the rules -------------------------------------------------------------------------------------------------------------- */

typedef void weir_rule(const struct weir_facts *facts, struct weir_draft *draft);

weir_rule weir_rule_size;       /* verdict_size.c */
weir_rule weir_rule_saturated;  /* verdict_saturated.c: kinds "stage" and "pool" */
weir_rule weir_rule_one_thread; /* kind "pool": one of its threads */
weir_rule weir_rule_cpu;
weir_rule weir_rule_round_trip; /* verdict_waits.c */
weir_rule weir_rule_starved;
weir_rule weir_rule_lock;
weir_rule weir_rule_downstream;
weir_rule weir_rule_far_end;    /* verdict_far_end.c: kind "downstream" */

/* Is that pool's own time used up? */
bool weir_rule_is_saturated(const struct weir_facts *facts, uint32_t pool);
/* Are all CPUs of the machine used up, by the server more than by all others? */
bool weir_rule_owns_cpus(const struct weir_facts *facts);
/* Slots that nobody waits for, in which the requests under way spend their time, far longer than one alone; null: none. */
const struct weir_profile_slots *weir_rule_slow_slots(const struct weir_facts *facts);
/* Evidence: the queues that are full because of `pool`, who waits for room in them, and what was refused. */
void weir_rule_say_upstream(const struct weir_facts *facts, struct weir_draft *draft, uint32_t pool);
/* Evidence: the states of a pool that are not 0. */
void weir_rule_say_states(const struct weir_facts *facts, struct weir_draft *draft, uint32_t pool);

#endif
