/*
 * view: what every view asks of a profile: which row belongs to a stage, a rate, a cost for each item, how full a queue is.
 * It stands between the profile and the table, the JSON and the graph, so that all of them say the same.
 *
 * Units: ns, bytes, items, per second; shares 0 to 1. NAN means "no data", never 0.
 * Owns: nothing.
 * Threads: any (reads only).
 * Errors: none.
 */
#ifndef WEIR_VIZ_VIEW_H
#define WEIR_VIZ_VIEW_H

#include "base/profile.h"
#include "base/verdict.h"
#include "viz/figure.h"

/* Is there nothing to show: no CPU time, or nothing that says where it went? */
bool weir_view_empty(const struct weir_profile *profile);

/* The row of a stage (part NONE) or of a part, over all ways in; null when it has none. */
const struct weir_profile_row *weir_view_row(const struct weir_profile *profile, uint32_t stage, enum weir_part part);
const struct weir_profile_edge *weir_view_edge(const struct weir_profile *profile, uint32_t from, uint32_t to);
/* Bytes that passed it; NAN where items did and nobody knows their size. */
double weir_view_edge_bytes(const struct weir_profile_edge *edge);
/* Is it a short way: taken by items that its stage gave up, straight to the reply? */
bool weir_view_edge_is_short(const struct weir_profile *profile, const struct weir_profile_edge *edge);

double weir_view_share(const struct weir_profile *profile, const struct weir_profile_row *row);
double weir_view_per_s(const struct weir_profile *profile, double count);
/* Items that entered the row's stage per second; NAN for parts and for rows that are no stage. */
double weir_view_items_per_s(const struct weir_profile *profile, const struct weir_profile_row *row);
/* CPU time for each item or event of the row's stage (of a part: of the stage that it is part of). Where a stage doesn't know its
 * events, they are those of the decoder, as far as both saw the same items; else NAN. */
double weir_view_ns_per_item(const struct weir_profile *profile, const struct weir_profile_row *row);
double weir_view_ns_per_event(const struct weir_profile *profile, const struct weir_profile_row *row);
/* The same as text. Where no sample fell into the row that is not 0, but "≤" what its interval allows. */
struct weir_figure weir_view_item_cost(const struct weir_profile *profile, const struct weir_profile_row *row);
struct weir_figure weir_view_event_cost(const struct weir_profile *profile, const struct weir_profile_row *row);

/* `histogram` may be null. */
double weir_view_quantile(const struct weir_histogram *histogram, double q);
double weir_view_max(const struct weir_histogram *histogram);

/* Mean depth over the limit, of items or of bytes, whichever is fuller. A reply ring's limit counts for each open connection. */
double weir_view_fill(const struct weir_profile *profile, uint32_t queue);
double weir_view_limit_items(const struct weir_profile *profile, uint32_t queue);
double weir_view_limit_bytes(const struct weir_profile *profile, uint32_t queue);

/* Of slots: the share of the window in which all were in use (NAN: unknown), and how many there are. */
double weir_view_slots_full(const struct weir_profile *profile, const struct weir_profile_slots *slots);
uint64_t weir_view_slots_capacity(const struct weir_profile *profile, const struct weir_profile_slots *slots);
/* The slots of a stage; null: it has none. */
const struct weir_profile_slots *weir_view_slots(const struct weir_profile *profile, uint32_t stage);

/* Of the time of the pool's threads. */
double weir_view_sleep_share(const struct weir_profile *profile, const struct weir_profile_sleep *sleep);
double weir_view_state(const struct weir_profile *profile, uint32_t pool, enum weir_state state);

/* Time that threads waited for a queue's lock, or inside its push or pop for another. NAN where nobody looked. */
double weir_view_lock_ns(const struct weir_profile *profile, uint32_t queue, enum weir_part part);
/* The same for each item that came out of it, and times that its takers were woken for each. */
double weir_view_lock_ns_per_item(const struct weir_profile *profile, uint32_t queue, enum weir_part part);
double weir_view_wakeups_per_item(const struct weir_profile *profile, uint32_t queue);
/* `part` of the wakeups of a queue; NAN when there were none. */
double weir_view_wakeup_share(const struct weir_profile_queue *queue, uint64_t part);

/* What the file says about a stage, in a few words. */
void weir_view_words(const struct weir_topology *topology, const struct weir_topology_stage *stage, struct weir_buffer *out);

/* What a row that is no stage stands for, to go on "12 % of CPU is": "outside the pools", … */
const char *weir_view_no_stage(const struct weir_profile_row *row);
/* The sentence on top: the verdict where there is one, else where most CPU time goes. */
void weir_view_headline(const struct weir_profile *profile, const struct weir_verdict *verdict, struct weir_buffer *out);
/* How much came in, and the CPU time that it took: "1.21 M events/s in 12.1 k messages/s · 1.80 of 2 CPUs". */
void weir_view_load(const struct weir_profile *profile, struct weir_buffer *out);
/* What was lost or does not add up, in one sentence; nothing when all is well. */
void weir_view_losses(const struct weir_profile *profile, struct weir_buffer *out);

#endif
