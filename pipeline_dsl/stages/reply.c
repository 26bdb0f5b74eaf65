#include "pipeline_dsl/runtime/loop.h"
#include "pipeline_dsl/stages/stages.h"

enum weir_outcome weir_stage_reply(struct weir_thread *thread, struct weir_item *item)
{
    weir_loop_finish(thread, item);
    return WEIR_GONE;
}
