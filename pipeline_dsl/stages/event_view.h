/*
 * event_view: how a query looks at a decoded event.
 * It stands between query, which knows no message, and wire, which knows no query.
 *
 * Units: as query.h.
 * Owns: nothing.
 * Threads: any.
 * Errors: none.
 */
#ifndef WEIR_STAGES_EVENT_VIEW_H
#define WEIR_STAGES_EVENT_VIEW_H

#include "pipeline_dsl/query/query.h"

/* Its events are `const struct weir_event *`. */
extern const struct weir_query_view weir_event_view;

#endif
