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

#define PNG_DPI 96.0
#define PNG_MOST 32767 /* pixels each way: cairo's limit */
#define PAD 18.0    /* points around the graph; weir's own graphs ask for 0.25 inches */

static char complaint[256];

static int keep_first(char *message)
{
    size_t size = strlen(complaint);
    /* The prefix "Error: " comes by itself, then the text in pieces. */
    if (size + 1 < sizeof complaint && !strchr(complaint, '\n'))
        strncat(complaint, message, sizeof complaint - size - 1);
    return 0;
}

/* Graphviz would shrink it until nobody can read it, and say so on stderr. */
static int check_size(Agraph_t *graph, struct weir_error *error)
{
    double scale = PNG_DPI / POINTS_PER_INCH, width = (GD_bb(graph).UR.x + 2 * PAD) * scale, height = (GD_bb(graph).UR.y + 2 * PAD) * scale;
    if (width <= PNG_MOST && height <= PNG_MOST)
        return 0;
    return weir_error_set(error, WEIR_EXIT_USAGE, EFBIG,
                          "the graph is too large for a PNG: %.0f x %.0f pixels, where %d are possible each way; draw it as .svg", width,
                          height, PNG_MOST);
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
    int rc = laid && strcmp(format, "png") == 0 ? check_size(graph, error) : 0;
    bool drawn = laid && !rc && gvRenderData(context, graph, format, &data, &length) == 0 && data;
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
    if (rc)
        return rc;
    if (!drawn) {
        complaint[strcspn(complaint, "\n")] = '\0';
        return weir_error_set(error, WEIR_EXIT_USAGE, EINVAL, "Graphviz can't draw the graph as %s: %s", format,
                              complaint[0] ? complaint : "it says no reason; write a .dot file instead");
    }
    return out->failed ? weir_error_set(error, WEIR_EXIT_USAGE, ENOMEM, "there is not enough memory for the picture") : 0;
}
