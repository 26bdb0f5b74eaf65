/*
 * DESIGN: Graphviz prints what it dislikes to stderr, which belongs to the command line: its message hook keeps the first
 * complaint instead, and shows it only when the layout fails. What it says while all goes well (a font that is replaced, a label
 * a little larger than its cell) helps nobody.
 *
 * There is one context for the process: Graphviz 2.43's text plugin remembers a font's name beyond the context that owns it.
 */
#include "viz/render.h"

#include <graphviz/cgraph.h>
#include <graphviz/gvc.h>
#include <string.h>

static char complaint[256];

static int keep_first(char *message)
{
    size_t size = strlen(complaint);
    /* The prefix "Error: " comes by itself, then the text in pieces. */
    if (size + 1 < sizeof complaint && !strchr(complaint, '\n'))
        strncat(complaint, message, sizeof complaint - size - 1);
    return 0;
}

int weir_render_dot(const char *dot, const char *format, struct weir_buffer *out, struct weir_error *error)
{
    complaint[0] = '\0';
    agusererrf old = agseterrf(keep_first);
    agerrlevel_t level = agseterr(AGERR);
    static GVC_t *context;
    if (!context)
        context = gvContext();
    Agraph_t *graph = context ? agmemread(dot) : NULL;
    char *data = NULL;
    unsigned length = 0;
    bool laid = graph && gvLayout(context, graph, "dot") == 0;
    bool drawn = laid && gvRenderData(context, graph, format, &data, &length) == 0 && data;
    if (drawn)
        weir_buffer_add(out, data, length);
    if (data)
        gvFreeRenderData(data);
    if (laid)
        gvFreeLayout(context, graph);
    if (graph)
        agclose(graph);
    agseterr(level);
    agseterrf(old);
    if (!drawn) {
        complaint[strcspn(complaint, "\n")] = '\0';
        return weir_error_set(error, WEIR_EXIT_USAGE, EINVAL, "Graphviz can't draw the graph as %s: %s", format,
                              complaint[0] ? complaint : "it says no reason; write a .dot file instead");
    }
    return out->failed ? weir_error_set(error, WEIR_EXIT_USAGE, ENOMEM, "there is not enough memory for the picture") : 0;
}
