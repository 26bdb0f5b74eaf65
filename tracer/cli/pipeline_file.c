#include "tracer/cli/pipeline_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "pipeline_dsl/lang/lang.h"
#include "tracer/cli/verb.h"

void weir_cli_print_diags(const struct weir_diag_bag *bag)
{
    struct weir_buffer text = WEIR_BUFFER_INIT;
    const char *no_color = getenv("NO_COLOR");
    weir_diag_render(bag, isatty(STDERR_FILENO) && !(no_color && *no_color), &text);
    fwrite(weir_buffer_text(&text), 1, text.length, stderr);
    weir_buffer_release(&text);
}

int weir_cli_load_pipeline(const char *verb, const char *path, struct weir_arena *arena, struct weir_topology *topology)
{
    struct weir_diag_bag bag;
    struct weir_error error = WEIR_ERROR_INIT;
    weir_diag_bag_init(&bag);
    int rc = weir_lang_load(path, arena, topology, &bag, &error);
    weir_cli_print_diags(&bag);
    /* Errors in the text have been printed with their places; what remains is a file that couldn't be read. */
    if (rc != 0)
        rc = bag.error_count ? WEIR_EXIT_USAGE : weir_cli_fail(verb, &error);
    weir_diag_bag_release(&bag);
    return rc;
}
