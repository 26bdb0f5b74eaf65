#include "pipeline_dsl/stages/stages.h"

enum weir_outcome weir_stage_then(struct weir_thread *thread, struct weir_item *item, uint32_t lane)
{
    (void)thread;
    item->lane = lane;
    return WEIR_NEXT;
}
