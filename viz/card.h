/*
 * card: what stands in one node of the graph, as one of Graphviz's HTML labels: a stage, a queue, a pool's head, the title.
 * It stands inside viz, behind dot.
 *
 * Units: points.
 * Owns: nothing.
 * Threads: any.
 * Errors: none; the buffer remembers.
 */
#ifndef WEIR_VIZ_CARD_H
#define WEIR_VIZ_CARD_H

#include "base/buffer.h"
#include "base/profile.h"
#include "base/verdict.h"

/* What a card is made from. `profile` is null when only the structure is drawn. */
struct weir_card {
    const struct weir_topology *topology;
    const struct weir_profile *profile;
    const struct weir_verdict *verdict; /* or null */
    struct weir_buffer *out;
    bool compact; /* stages show their figures only, so that a tall pool stays readable */
};

#define WEIR_CARD_NAME_COLUMNS 30u /* of a name that the target chose */

/* What the parts of a label are put together from: markup as it is, and the beginning of a text that </FONT> ends. */
static inline void weir_card_put(const struct weir_card *card, const char *markup)
{
    weir_buffer_puts(card->out, markup);
}

static inline void weir_card_font(const struct weir_card *card, int points, const char *color)
{
    weir_buffer_printf(card->out, "<FONT POINT-SIZE=\"%d\" COLOR=\"%s\">", points, color);
}

void weir_card_title(const struct weir_card *card);
void weir_card_pool(const struct weir_card *card, uint32_t pool);
void weir_card_stage(const struct weir_card *card, uint32_t stage);
/* A handoff, or a reply ring. */
void weir_card_queue(const struct weir_card *card, uint32_t queue);

#endif
