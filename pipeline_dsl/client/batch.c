#include "pipeline_dsl/client/batch.h"

#include <errno.h>

#include "base/clock.h"
#include "pipeline_dsl/wire/frame.h"

void weir_batch_init(struct weir_batch *batch, size_t most, uint64_t linger_ns)
{
    *batch = (struct weir_batch){ .most = most, .linger_ns = linger_ns, .bytes = WEIR_BUFFER_INIT };
    pthread_mutex_init(&batch->mutex, NULL);
    atomic_init(&batch->due, WEIR_WAKE_NEVER);
}

void weir_batch_release(struct weir_batch *batch)
{
    weir_buffer_release(&batch->bytes);
    pthread_mutex_destroy(&batch->mutex);
}

int weir_batch_add(struct weir_batch *batch, struct weir_promise *promise)
{
    static const char blank[WEIR_FRAME_HEADER];
    size_t before = batch->bytes.length;
    if (!batch->count)
        weir_buffer_add(&batch->bytes, blank, sizeof blank);
    weir_buffer_add(&batch->bytes, promise->frame.data, promise->frame.length);
    if (batch->bytes.failed) {
        batch->bytes.failed = false;
        batch->bytes.length = before;
        return -ENOMEM;
    }
    weir_buffer_clear(&promise->frame);
    if (batch->last)
        batch->last->member = promise;
    else
        batch->first = promise;
    batch->last = promise;
    if (!batch->count++)
        atomic_store(&batch->due, weir_clock_ns() + batch->linger_ns);
    return 0;
}

struct weir_promise *weir_batch_take(struct weir_batch *batch)
{
    struct weir_promise *first = batch->first;
    if (!first)
        return NULL;
    weir_frame_header((uint8_t *)batch->bytes.data, (uint32_t)(batch->bytes.length - WEIR_FRAME_HEADER));
    struct weir_buffer spare = first->frame;
    first->frame = batch->bytes;
    first->size = first->frame.length;
    batch->bytes = spare;
    batch->first = batch->last = NULL;
    batch->count = 0;
    atomic_store(&batch->due, WEIR_WAKE_NEVER);
    return first;
}

void weir_batch_untake(struct weir_batch *batch, struct weir_promise *first)
{
    struct weir_buffer spare = batch->bytes;
    batch->bytes = first->frame;
    first->frame = spare;
    batch->first = first;
    for (struct weir_promise *member = first; member; member = member->member) {
        batch->last = member;
        batch->count++;
    }
    atomic_store(&batch->due, 0);
}
