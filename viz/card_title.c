/* The title: the verdict or the file's name, what was measured, what was lost, and the legend of the heat. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "viz/card.h"
#include "viz/escape.h"
#include "viz/figure.h"
#include "viz/heat.h"
#include "viz/view.h"

#define NO_STAGE_LEAST 0.01
#define TITLE_COLUMNS 78u
#define FAINT_COLUMNS 110u
/* About how wide a character is of the title, of the lines below it and of the losses, and how wide the legend. */
#define TITLE_POINTS 10.0
#define FAINT_POINTS 5.6
#define LOSSES_POINTS 6.3
#define LEGEND_WIDTH 390.0

/* Breaks at blanks, so that a long sentence doesn't make the picture wide. */
static void wrapped(const struct weir_card *card, const char *text)
{
    while (*text) {
        size_t size = strlen(text), cut = size;
        if (weir_escape_columns(text, size) > TITLE_COLUMNS) {
            for (cut = TITLE_COLUMNS; cut > 0 && text[cut] != ' '; cut--)
                ;
            cut = cut ? cut : size;
        }
        char line[1024];
        snprintf(line, sizeof line, "%.*s", (int)(cut < sizeof line ? cut : sizeof line - 1), text);
        weir_escape_html(card->out, line, WEIR_ESCAPE_ANY);
        text += cut;
        while (*text == ' ')
            text++;
        if (*text)
            weir_card_put(card, "<BR ALIGN=\"LEFT\"/>");
    }
    weir_card_put(card, "<BR ALIGN=\"LEFT\"/>");
}

/* A second cell takes what the texts above are wider, about: the rest of their width would stretch the legend. */
static void legend(const struct weir_card *card, double title_width)
{
    weir_card_put(card, "<TR><TD ALIGN=\"LEFT\"><TABLE BORDER=\"0\" CELLBORDER=\"0\" CELLSPACING=\"1\" CELLPADDING=\"2\"><TR><TD>");
    weir_card_font(card, 9, WEIR_HEAT_FAINT);
    weir_card_put(card, "share of CPU&#160;</FONT></TD>");
    for (unsigned i = 0; i < WEIR_HEAT_STEPS; i++) {
        const struct weir_heat *heat = weir_heat_step(i);
        weir_buffer_printf(card->out, "<TD WIDTH=\"44\" BGCOLOR=\"%s\">", heat->paper);
        weir_card_font(card, 9, heat->ink);
        if (i == 0)
            weir_card_put(card, "&lt; 1 %</FONT></TD>");
        else
            weir_buffer_printf(card->out, "≥ %.0f %%</FONT></TD>", heat->least * 100);
    }
    weir_buffer_printf(card->out, "</TR></TABLE></TD><TD WIDTH=\"%d\"></TD></TR>",
                       title_width > LEGEND_WIDTH ? (int)(title_width - LEGEND_WIDTH) : 0);
}

/* The CPU time that no stage has, so that the picture accounts for all of it. */
static void no_stage(const struct weir_card *card)
{
    const struct weir_profile *profile = card->profile;
    bool any = false;
    for (uint32_t i = 0; i < profile->row_count && !weir_view_empty(profile); i++) {
        const struct weir_profile_row *measured = &profile->rows[i];
        if (measured->stage != WEIR_NONE || measured->part_of != WEIR_NONE || measured->share < NO_STAGE_LEAST)
            continue;
        if (!any) {
            weir_card_put(card, "<TR><TD ALIGN=\"LEFT\" COLSPAN=\"2\">");
            weir_card_font(card, 10, WEIR_HEAT_INK);
        }
        weir_card_put(card, any ? "&#160;· " : "in no stage: ");
        any = true;
        weir_escape_html(card->out, measured->name, WEIR_CARD_NAME_COLUMNS);
        weir_card_put(card, "&#160;<B>");
        weir_escape_html(card->out, weir_figure_percent(measured->share).text, WEIR_CARD_NAME_COLUMNS);
        weir_card_put(card, "</B>");
    }
    if (any)
        weir_card_put(card, "</FONT></TD></TR>");
}

/* Returns its width in points, about. */
static double faint_line(const struct weir_card *card, struct weir_buffer *text)
{
    size_t columns = weir_escape_columns(weir_buffer_text(text), text->length);
    weir_card_put(card, "<TR><TD ALIGN=\"LEFT\" COLSPAN=\"2\">");
    weir_card_font(card, 10, WEIR_HEAT_FAINT);
    weir_escape_html(card->out, text->length ? text->data : " ", FAINT_COLUMNS);
    weir_card_put(card, "</FONT></TD></TR>");
    weir_buffer_clear(text);
    return (double)(columns < FAINT_COLUMNS ? columns : FAINT_COLUMNS) * FAINT_POINTS;
}

static void measured_lines(const struct weir_card *card, double title_width)
{
    const struct weir_profile *profile = card->profile;
    struct weir_buffer text = WEIR_BUFFER_INIT;
    const char *exe = profile->exe ? strrchr(profile->exe, '/') : NULL;
    exe = exe ? exe + 1 : profile->exe ? profile->exe : "";
    weir_buffer_printf(&text, "%s · %s, pid %u · %s %s · ", card->topology->name, exe, profile->pid,
                       weir_figure_ns((double)profile->duration_ns).text, weir_mode_name(profile->mode));
    weir_buffer_printf(&text, "%s samples, %s lost", weir_figure_count(profile->samples_kept).text,
                       weir_figure_count(profile->samples_lost).text);
    title_width = fmax(title_width, faint_line(card, &text));
    weir_view_load(profile, &text);
    title_width = fmax(title_width, faint_line(card, &text));
    no_stage(card);
    weir_view_losses(profile, &text);
    if (text.length) {
        weir_card_put(card, "<TR><TD ALIGN=\"LEFT\" COLSPAN=\"2\" BGCOLOR=\"" WEIR_HEAT_INK "\" CELLPADDING=\"4\">");
        weir_card_font(card, 11, "#ffffff");
        weir_card_put(card, "<B>Lossy profile: ");
        weir_escape_html(card->out, text.data, 110);
        weir_card_put(card, ". Its figures may be wrong.</B></FONT></TD></TR>");
        title_width = fmax(title_width, (double)(text.length + 42) * LOSSES_POINTS);
    }
    weir_buffer_release(&text);
    legend(card, title_width);
}

void weir_card_title(const struct weir_card *card)
{
    struct weir_buffer text = WEIR_BUFFER_INIT;
    const struct weir_topology *topology = card->topology;
    weir_card_put(card, "<<TABLE BORDER=\"0\" CELLSPACING=\"0\" CELLPADDING=\"2\"><TR><TD ALIGN=\"LEFT\" COLSPAN=\"2\">");
    weir_card_font(card, 16, WEIR_HEAT_INK);
    weir_card_put(card, "<B>");
    if (card->profile)
        weir_view_headline(card->profile, card->verdict, &text);
    else
        weir_buffer_puts(&text, topology->name ? topology->name : "");
    wrapped(card, weir_buffer_text(&text));
    weir_card_put(card, "</B></FONT></TD></TR>");
    if (card->profile) {
        size_t columns = weir_escape_columns(weir_buffer_text(&text), text.length);
        measured_lines(card, (double)(columns < TITLE_COLUMNS ? columns : TITLE_COLUMNS) * TITLE_POINTS);
    } else {
        weir_card_put(card, "<TR><TD ALIGN=\"LEFT\" COLSPAN=\"2\">");
        weir_card_font(card, 10, WEIR_HEAT_FAINT);
        /* A stage with slots is drawn with its threads and what they have finished. */
        uint32_t slots = weir_topology_slots(topology);
        weir_buffer_printf(card->out, "%u stages, %u pools, %u queues; nothing is measured here</FONT></TD></TR>", topology->stage_count,
                           topology->pool_count - slots, topology->queue_count - slots);
    }
    weir_card_put(card, "</TABLE>>");
    weir_buffer_release(&text);
}
