/*
 * Any bytes as a pipeline file: loads them, draws the diagnostics, and when they parse, holds fmt to its promises: formatting twice
 * is the same as once, and what is formatted means the same.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/profile.h"
#include "pipeline_dsl/lang/lang.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void fail(const char *what, const struct weir_buffer *a, const struct weir_buffer *b)
{
    fprintf(stderr, "lang_fuzz: %s\n--- one\n%s\n--- other\n%s\n", what, weir_buffer_text(a), weir_buffer_text(b));
    abort();
}

/* The topology as bytes, empty when there are errors. Spans are checked on the way. */
static void load(const void *data, size_t size, struct weir_buffer *topology_bytes)
{
    struct weir_arena arena;
    struct weir_topology topology;
    struct weir_diag_bag bag;
    struct weir_error error = WEIR_ERROR_INIT;
    struct weir_buffer drawn = WEIR_BUFFER_INIT;
    weir_arena_init(&arena, 0, SIZE_MAX);
    weir_diag_bag_init(&bag);
    int rc = weir_lang_load_memory("fuzz.weir", data, size, &arena, &topology, &bag, &error);
    if ((rc == 0) != (bag.error_count == 0))
        fail("the result and the bag disagree", &drawn, &drawn);
    for (size_t i = 0; i < bag.count; i++)
        if (bag.diags[i].span.offset > bag.source.length ||
            bag.diags[i].span.length > bag.source.length - bag.diags[i].span.offset)
            fail("a span outside of the source", &drawn, &drawn);
    weir_diag_render(&bag, true, &drawn);
    if (rc == 0 && weir_topology_write(&topology, topology_bytes, &error) != 0)
        fail(error.text, &drawn, &drawn);
    weir_buffer_release(&drawn);
    weir_diag_bag_release(&bag);
    weir_arena_release(&arena);
}

static int format(const void *data, size_t size, struct weir_buffer *out)
{
    struct weir_diag_bag bag;
    weir_diag_bag_init(&bag);
    int rc = weir_lang_format_memory("fuzz.weir", data, size, out, &bag, NULL);
    weir_diag_bag_release(&bag);
    return rc;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct weir_buffer before = WEIR_BUFFER_INIT, after = WEIR_BUFFER_INIT, once = WEIR_BUFFER_INIT, twice = WEIR_BUFFER_INIT;
    load(data, size, &before);
    if (format(data, size, &once) == 0) {
        if (format(weir_buffer_text(&once), once.length, &twice) != 0)
            fail("what fmt printed doesn't parse", &once, &twice);
        if (once.length != twice.length || memcmp(weir_buffer_text(&once), weir_buffer_text(&twice), once.length) != 0)
            fail("fmt twice is not fmt once", &once, &twice);
        load(weir_buffer_text(&once), once.length, &after);
        if (before.length != after.length || memcmp(weir_buffer_text(&before), weir_buffer_text(&after), before.length) != 0)
            fail("fmt changed the topology", &once, &twice);
    } else if (before.length) {
        fail("it loads, and fmt refuses it", &once, &twice);
    }
    weir_buffer_release(&before);
    weir_buffer_release(&after);
    weir_buffer_release(&once);
    weir_buffer_release(&twice);
    return 0;
}
