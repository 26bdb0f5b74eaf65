#include "pipeline_dsl/runtime/loop.h"
#include "pipeline_dsl/stages/stages.h"

enum weir_outcome weir_stage_drop(struct weir_thread *thread, struct weir_item *item)
{
    weir_loop_discard(thread, item);
    return WEIR_GONE;
}
