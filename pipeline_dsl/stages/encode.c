#include "pipeline_dsl/stages/stages.h"

enum weir_outcome weir_stage_encode(struct weir_thread *thread, struct weir_item *item)
{
    (void)thread;
    if (weir_item_owes_reply(item))
        weir_item_encode_reply(item);
    return WEIR_NEXT;
}
