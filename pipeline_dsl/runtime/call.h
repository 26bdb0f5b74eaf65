/*
 * call: what a stage written by the user sees; installed as <weir/call.h>, with nothing else to include.
 *
 *     int FN(struct weir_item *item, struct weir_call *call);
 *
 * 0 passes the item on; a positive value drops it (its sender is told, where a reply is owed); a negative one fails it, with the
 * reason from weir_call_fail(). Several threads may run the function at once, each with an item of its own.
 *
 * Units: bytes; time in us since the epoch; ttl in s.
 * Owns: nothing; what an accessor returns is borrowed until the function returns.
 * Threads: owner only.
 * Errors: an index beyond the end reads as absent.
 */
#ifndef WEIR_CALL_H
#define WEIR_CALL_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct weir_item;
struct weir_call;

/* A byte string; may hold NULs. Data null: absent, which differs from empty. */
struct weir_call_bytes {
    const char *data;
    size_t size;
};

enum weir_call_metric { WEIR_CALL_METRIC_NONE, WEIR_CALL_METRIC_INT, WEIR_CALL_METRIC_DOUBLE };

/* Events in the message; 0 before `decode`. */
size_t weir_item_event_count(const struct weir_item *item);
struct weir_call_bytes weir_item_host(const struct weir_item *item, size_t event);
struct weir_call_bytes weir_item_service(const struct weir_item *item, size_t event);
struct weir_call_bytes weir_item_state(const struct weir_item *item, size_t event);
struct weir_call_bytes weir_item_description(const struct weir_item *item, size_t event);
size_t weir_item_tag_count(const struct weir_item *item, size_t event);
struct weir_call_bytes weir_item_tag(const struct weir_item *item, size_t event, size_t tag);
/* The value of an attribute by its key (a C string); of two with one key, the last one's. */
struct weir_call_bytes weir_item_attribute(const struct weir_item *item, size_t event, const char *key);
enum weir_call_metric weir_item_metric(const struct weir_item *item, size_t event, int64_t *integer, double *real);
/* Whether it has one; then it is stored. */
int weir_item_time_us(const struct weir_item *item, size_t event, int64_t *time_us);
int weir_item_ttl(const struct weir_item *item, size_t event, float *ttl);
/* The message as it came, without its frame; absent behind a `tee` of what was decoded, and of what was born inside. */
struct weir_call_bytes weir_item_payload(const struct weir_item *item);

/* Memory that lives as long as the item; null when the message may take no more. */
void *weir_call_alloc(struct weir_call *call, size_t size);
/* The reason for a failure, copied. Returns -1, so that the function can `return weir_call_fail(...)`. */
int weir_call_fail(struct weir_call *call, const char *reason);

#ifdef __cplusplus
}
#endif

#endif
