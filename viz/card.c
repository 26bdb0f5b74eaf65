/*
 * DESIGN: a card is one HTML table of two columns, label and value. All widths that matter are fixed, so that text which comes out
 * a little wider in another renderer is not clipped: a bar of WIDTH points sets the card's least width, and texts that a target
 * chooses are cut in the middle, where names differ least.
 */
#include "viz/card.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "viz/escape.h"
#include "viz/figure.h"
#include "viz/heat.h"
#include "viz/view.h"

#define WIDTH 226         /* of the bar in a stage's card */
#define QUEUE_WIDTH 272   /* and in a queue's */
#define BAR_HEIGHT 5
#define SMALL_COLUMNS 38u
#define SYMBOL_COLUMNS 28u
#define HOT_LEAST 0.05
#define HOT_LEAST_OF_PART 0.02 /* a part is small, and the function in it is what it is about */
#define HOT_MOST 3u
#define CONTENTION_LEAST 0.01
#define WAKEUPS_LEAST 0.1
#define WAIT_LEAST 0.05
#define WAITS_MOST 2u

/* A bar whose first `share` is filled. */
static void bar(const struct weir_card *card, double share, int whole, const char *filled, const char *track)
{
    int width = isfinite(share) ? (int)lrint(share * whole) : 0;
    if (share > 0 && width == 0)
        width = 1;
    if (width > whole)
        width = whole;
    weir_buffer_printf(card->out, "<TR><TD COLSPAN=\"2\"><TABLE ALIGN=\"LEFT\" BORDER=\"0\" CELLBORDER=\"0\" "
                       "CELLSPACING=\"0\" CELLPADDING=\"0\" FIXEDSIZE=\"TRUE\" WIDTH=\"%d\" HEIGHT=\"%d\"><TR>", whole, BAR_HEIGHT);
    const char *const colors[] = { filled, track };
    const int widths[] = { width, whole - width };
    for (int i = 0; i < 2; i++)
        if (widths[i])
            weir_buffer_printf(card->out, "<TD FIXEDSIZE=\"TRUE\" WIDTH=\"%d\" HEIGHT=\"%d\" BGCOLOR=\"%s\"></TD>", widths[i],
                               BAR_HEIGHT, colors[i]);
    weir_card_put(card, "</TR></TABLE></TD></TR>");
}

/* Graphviz takes no empty text between tags. */
static void small(const struct weir_card *card, const char *text, const char *ink)
{
    if (!*text)
        return;
    weir_card_font(card, 9, ink);
    weir_escape_html(card->out, text, SMALL_COLUMNS);
    weir_card_put(card, "</FONT>");
}

/* One small row: label left, value right. Coloured, it is one cell, since two side by side leave a seam between them. */
static void row(const struct weir_card *card, const char *label, const char *value, const char *paper, const char *ink)
{
    if (paper)
        weir_buffer_printf(card->out, "<TR><TD COLSPAN=\"2\" CELLPADDING=\"0\" BGCOLOR=\"%s\"><TABLE BORDER=\"0\" CELLBORDER=\"0\" "
                           "CELLSPACING=\"0\" CELLPADDING=\"2\">", paper);
    weir_card_put(card, "<TR><TD ALIGN=\"LEFT\">");
    small(card, label, ink);
    weir_card_put(card, "</TD><TD ALIGN=\"RIGHT\">");
    small(card, value, ink);
    weir_card_put(card, paper ? "</TD></TR></TABLE></TD></TR>" : "</TD></TR>");
}

static void wide_row(const struct weir_card *card, const char *text, const char *ink)
{
    weir_card_put(card, "<TR><TD ALIGN=\"LEFT\" COLSPAN=\"2\">");
    small(card, text, ink);
    weir_card_put(card, "</TD></TR>");
}

static void head(const struct weir_card *card, const char *name, const char *value, const char *ink)
{
    weir_card_put(card, "<TR><TD ALIGN=\"LEFT\">");
    weir_card_font(card, 13, ink);
    weir_card_put(card, "<B>");
    weir_escape_html(card->out, *name ? name : " ", WEIR_CARD_NAME_COLUMNS);
    weir_card_put(card, "</B></FONT></TD><TD ALIGN=\"RIGHT\">");
    weir_card_font(card, 13, ink);
    weir_card_put(card, "<B>");
    weir_escape_html(card->out, *value ? value : " ", WEIR_CARD_NAME_COLUMNS);
    weir_card_put(card, "</B></FONT></TD></TR>");
}

/* The outer table has the border, and keeps the inner one off its round corners. */
static void open_table(const struct weir_card *card, const char *line, const char *paper)
{
    weir_buffer_printf(card->out, "<<TABLE BORDER=\"1\" COLOR=\"%s\" CELLBORDER=\"0\" CELLSPACING=\"0\" CELLPADDING=\"6\" "
                       "STYLE=\"ROUNDED\" BGCOLOR=\"%s\"><TR><TD>"
                       "<TABLE BORDER=\"0\" CELLBORDER=\"0\" CELLSPACING=\"0\" CELLPADDING=\"2\">", line, paper);
}

static void close_table(const struct weir_card *card)
{
    weir_card_put(card, "</TABLE></TD></TR></TABLE>>");
}

/* --- stage ------------------------------------------------------------------------------------------------------------------ */

static void listen_row(const struct weir_card *card, const struct weir_topology_stage *stage, const char *ink)
{
    uint32_t way = card->topology->pipelines[stage->pipeline].way;
    if (stage->verb != WEIR_LISTEN || way == WEIR_NONE)
        return;
    const struct weir_profile_way_count *end = &card->profile->ways[way].end;
    char text[96];
    snprintf(text, sizeof text, "%s connection%s", weir_figure_count(end->connections).text, end->connections == 1 ? "" : "s");
    row(card, text, "", NULL, ink);
}

/* CPU for each item, and how long an item is in the stage. Times below the cost of a stamp are not the target's. */
static void cost_row(const struct weir_card *card, const struct weir_profile_row *measured, const char *ink)
{
    double late = weir_view_quantile(measured->service, 0.99);
    char left[64] = "", right[64] = "";
    if (isfinite(weir_view_ns_per_item(card->profile, measured)))
        snprintf(left, sizeof left, "%s CPU an item", weir_view_item_cost(card->profile, measured).text);
    if (isfinite(late))
        snprintf(right, sizeof right, "service p99 %s%s", late < card->profile->probe_floor_ns ? "≤ " : "",
                 weir_figure_ns(fmax(late, card->profile->probe_floor_ns)).text);
    if (*left || *right)
        row(card, left, right, NULL, ink);
}

static void hot_rows(const struct weir_card *card, const struct weir_profile_row *measured, double least, const char *ink)
{
    for (uint32_t i = 0; i < measured->hot_count && i < HOT_MOST; i++) {
        const struct weir_profile_hot *hot = &measured->hot[i];
        if (hot->share < least)
            break;
        weir_card_put(card, "<TR><TD ALIGN=\"LEFT\">");
        weir_buffer_printf(card->out, "<FONT POINT-SIZE=\"9\" FACE=\"DejaVu Sans Mono\" COLOR=\"%s\">&#160;&#160;", ink);
        weir_escape_html(card->out, hot->symbol, SYMBOL_COLUMNS);
        weir_card_put(card, "</FONT></TD><TD ALIGN=\"RIGHT\">");
        small(card, weir_figure_percent(hot->share).text, ink);
        weir_card_put(card, "</TD></TR>");
    }
}

/* The slots of a stage: what the file gives it, and how they were used. */
static void slot_rows(const struct weir_card *card, uint32_t index, const char *ink)
{
    const struct weir_topology_stage *stage = &card->topology->stages[index];
    const struct weir_profile_slots *slots = card->profile ? weir_view_slots(card->profile, index) : NULL;
    char left[128], right[128];
    if (!weir_topology_has_slots(stage))
        return;
    snprintf(left, sizeof left, "%u connection%s × %s slots", stage->connections, stage->connections == 1 ? "" : "s",
             weir_figure_count(stage->in_flight).text);
    snprintf(right, sizeof right, "%s open", slots ? weir_figure_number(slots->open_mean).text : "");
    row(card, left, slots ? right : "", NULL, ink);
    if (!slots || card->compact)
        return;
    snprintf(left, sizeof left, "in use mean · max");
    snprintf(right, sizeof right, "%s · %s of %s", weir_figure_number(slots->in_use_mean).text,
             weir_figure_number(weir_view_max(&slots->in_use)).text,
             weir_figure_count(weir_view_slots_capacity(card->profile, slots)).text);
    row(card, left, right, NULL, ink);
    row(card, "all in use", weir_figure_percent(weir_view_slots_full(card->profile, slots)).text, NULL, ink);
    if (slots->wait.count) {
        snprintf(right, sizeof right, "%s · %s", weir_figure_ns(weir_view_quantile(&slots->wait, 0.5)).text,
                 weir_figure_ns(weir_view_quantile(&slots->wait, 0.99)).text);
        row(card, "wait for one p50 · p99", right, NULL, ink);
    }
    if (slots->service.count) {
        snprintf(right, sizeof right, "%s · %s", weir_figure_ns(weir_view_quantile(&slots->service, 0.5)).text,
                 weir_figure_ns(weir_view_quantile(&slots->service, 0.99)).text);
        row(card, "answered in p50 · p99", right, NULL, ink);
    }
    const struct weir_histogram *done = stage->queue != WEIR_NONE ? &card->profile->queues[stage->queue].wait : NULL;
    if (done && done->count) {
        snprintf(right, sizeof right, "%s · %s", weir_figure_ns(weir_view_quantile(done, 0.5)).text,
                 weir_figure_ns(weir_view_quantile(done, 0.99)).text);
        row(card, "then for a worker p50 · p99", right, NULL, ink);
    }
    uint32_t pool = stage->queue != WEIR_NONE ? card->topology->queues[stage->queue].from_pool : WEIR_NONE;
    if (pool != WEIR_NONE && card->profile->duration_ns) {
        double cpus = card->profile->pools[pool].state_ns[WEIR_STATE_RUNNING] / (double)card->profile->duration_ns;
        snprintf(right, sizeof right, "%s of one CPU", weir_figure_percent(cpus).text);
        row(card, "its own threads run", right, NULL, ink);
    }
    double bad = (double)weir_profile_grown(slots->begin.failed, slots->end.failed) +
                 (double)weir_profile_grown(slots->begin.lost, slots->end.lost);
    if (bad > 0)
        row(card, "failed or lost", weir_figure_rate(weir_view_per_s(card->profile, bad)).text, NULL, ink);
}

void weir_card_stage(const struct weir_card *card, uint32_t index)
{
    const struct weir_topology_stage *stage = &card->topology->stages[index];
    const struct weir_profile_row *measured = card->profile ? weir_view_row(card->profile, index, WEIR_PART_NONE) : NULL;
    double share = card->profile ? weir_view_share(card->profile, measured) : NAN;
    const struct weir_heat *heat = weir_heat_of(share);
    struct weir_buffer text = WEIR_BUFFER_INIT;
    open_table(card, WEIR_HEAT_LINE, heat->paper);
    head(card, card->topology->pipeline_count > 1 ? stage->full_name : stage->name,
         card->profile ? weir_figure_percent(share).text : "", heat->ink);
    if (card->profile)
        bar(card, share, WIDTH, heat->bar, heat->track);
    else
        weir_buffer_printf(card->out, "<TR><TD COLSPAN=\"2\" CELLPADDING=\"0\" WIDTH=\"%d\"></TD></TR>", WIDTH);
    weir_view_words(card->topology, stage, &text);
    if (text.length && !(card->compact && card->profile))
        wide_row(card, text.data, heat->faint);
    if (card->profile && !card->compact)
        listen_row(card, stage, heat->ink);
    slot_rows(card, index, heat->ink);
    if (measured && !weir_view_empty(card->profile)) {
        cost_row(card, measured, heat->ink);
        hot_rows(card, measured, HOT_LEAST, heat->ink);
    }
    close_table(card);
    weir_buffer_release(&text);
}

/* --- queue ------------------------------------------------------------------------------------------------------------------ */

static void part_row(const struct weir_card *card, uint32_t stage, enum weir_part part, const char *label)
{
    const struct weir_profile_row *measured = weir_view_row(card->profile, stage, part);
    if (!measured)
        return;
    double share = weir_view_share(card->profile, measured);
    const struct weir_heat *heat = weir_heat_of(share);
    bool hot = share >= weir_heat_step(1)->least;
    row(card, label, weir_figure_percent(share).text, hot ? heat->paper : NULL, hot ? heat->ink : WEIR_HEAT_INK);
    if (!weir_view_empty(card->profile))
        hot_rows(card, measured, HOT_LEAST_OF_PART, WEIR_HEAT_INK);
}

static void pair_row(const struct weir_card *card, const char *label, struct weir_figure a, struct weir_figure b)
{
    char text[80];
    bool none = strcmp(a.text, b.text) == 0 && strcmp(a.text, weir_figure_ns(NAN).text) == 0;
    snprintf(text, sizeof text, none ? "%s" : "%s · %s", a.text, b.text);
    row(card, label, text, NULL, WEIR_HEAT_INK);
}

static void depth_rows(const struct weir_card *card, uint32_t index)
{
    const struct weir_profile_queue *queue = &card->profile->queues[index];
    double limit = weir_view_limit_items(card->profile, index);
    char text[128];
    if (!queue->depth_items.count && !queue->depth_bytes.count) {
        row(card, "depth", "–", NULL, WEIR_HEAT_INK);
        return;
    }
    snprintf(text, sizeof text, "%s · %s of %s", weir_figure_number(queue->depth_items_mean).text,
             weir_figure_number(weir_view_max(&queue->depth_items)).text,
             isfinite(limit) ? weir_figure_count((uint64_t)limit).text : weir_figure_number(limit).text);
    row(card, "items mean · max", text, NULL, WEIR_HEAT_INK);
    snprintf(text, sizeof text, "%s · %s of %s", weir_figure_bytes(queue->depth_bytes_mean).text,
             weir_figure_bytes(weir_view_max(&queue->depth_bytes)).text,
             weir_figure_bytes(weir_view_limit_bytes(card->profile, index)).text);
    row(card, "bytes mean · max", text, NULL, WEIR_HEAT_INK);
}

static void refusal_rows(const struct weir_card *card, const struct weir_profile_queue *queue)
{
    const uint64_t begin[] = { queue->begin.rejected, queue->begin.dropped }, end[] = { queue->end.rejected, queue->end.dropped };
    static const char *const labels[] = { "rejected", "dropped" };
    for (int i = 0; i < 2; i++)
        if (end[i] > begin[i])
            row(card, labels[i], weir_figure_rate(weir_view_per_s(card->profile, (double)(end[i] - begin[i]))).text, WEIR_HEAT_INK,
                "#ffffff");
}

/* Only what is worth its room. */
static void contention_rows(const struct weir_card *card, uint32_t index)
{
    const struct weir_profile_queue *queue = &card->profile->queues[index];
    double push = weir_view_lock_ns(card->profile, index, WEIR_PART_PUSH), pop = weir_view_lock_ns(card->profile, index, WEIR_PART_POP);
    if (push + pop >= CONTENTION_LEAST * (double)card->profile->duration_ns)
        pair_row(card, "its lock, push · pop", weir_figure_ns(weir_view_lock_ns_per_item(card->profile, index, WEIR_PART_PUSH)),
                 weir_figure_ns(weir_view_lock_ns_per_item(card->profile, index, WEIR_PART_POP)));
    if (weir_view_wakeups_per_item(card->profile, index) >= WAKEUPS_LEAST)
        pair_row(card, "wakeups an item · unused", weir_figure_number(weir_view_wakeups_per_item(card->profile, index)),
                 weir_figure_percent(weir_view_wakeup_share(queue, queue->wakeups_unused)));
}

static void queue_measured(const struct weir_card *card, uint32_t index)
{
    const struct weir_topology_queue *shape = &card->topology->queues[index];
    const struct weir_profile_queue *queue = &card->profile->queues[index];
    char label[64];
    if (shape->kind == WEIR_QUEUE_HANDOFF) {
        snprintf(label, sizeof label, "size (%s)", weir_sized_name(shape->sized));
        part_row(card, shape->stage, WEIR_PART_SIZE, label);
    }
    /* Of several rings nobody knows which one a part's time went to. */
    bool sole = weir_topology_is_sole(card->topology, index);
    if (sole)
        part_row(card, shape->stage, WEIR_PART_PUSH, "push");
    pair_row(card, "wait p50 · p99", weir_figure_ns(weir_view_quantile(&queue->wait, 0.5)),
             weir_figure_ns(weir_view_quantile(&queue->wait, 0.99)));
    pair_row(card, "wakeup p50 · p99", weir_figure_ns(weir_view_quantile(&queue->wakeup, 0.5)),
             weir_figure_ns(weir_view_quantile(&queue->wakeup, 0.99)));
    if (sole)
        part_row(card, shape->stage, WEIR_PART_POP, "pop");
    contention_rows(card, index);
    depth_rows(card, index);
    refusal_rows(card, queue);
}

static void queue_structure(const struct weir_card *card, const struct weir_topology_queue *shape)
{
    char text[96];
    if (shape->kind == WEIR_QUEUE_HANDOFF) {
        row(card, "sized by", weir_sized_name(shape->sized), NULL, WEIR_HEAT_INK);
        row(card, "when full", weir_full_name(shape->full), NULL, WEIR_HEAT_INK);
    }
    snprintf(text, sizeof text, "%s, %s items", weir_figure_bytes((double)shape->limit_bytes).text,
             weir_figure_count(shape->limit_items).text);
    row(card, shape->kind == WEIR_QUEUE_REPLY ? "limit each connection" : "limit", text, NULL, WEIR_HEAT_INK);
}

void weir_card_queue(const struct weir_card *card, uint32_t index)
{
    const struct weir_topology_queue *shape = &card->topology->queues[index];
    const struct weir_topology_stage *stage = &card->topology->stages[shape->stage];
    const struct weir_profile_row *measured = card->profile ? weir_view_row(card->profile, shape->stage, WEIR_PART_NONE) : NULL;
    struct weir_buffer name = WEIR_BUFFER_INIT;
    bool handoff = shape->kind == WEIR_QUEUE_HANDOFF;
    bool sole = weir_topology_is_sole(card->topology, index);
    weir_buffer_puts(&name, !sole ? shape->name : card->topology->pipeline_count > 1 ? stage->full_name : stage->name);
    if (!handoff)
        weir_buffer_puts(&name, " ring");
    if (shape->to_pool != WEIR_NONE)
        weir_buffer_printf(&name, " → %s", card->topology->pools[shape->to_pool].name);
    open_table(card, WEIR_HEAT_QUEUE, "#ffffff");
    struct weir_figure share = weir_figure_percent(card->profile ? weir_view_share(card->profile, measured) : NAN);
    head(card, weir_buffer_text(&name), card->profile && handoff ? share.text : "", WEIR_HEAT_INK);
    double fill = card->profile ? weir_view_fill(card->profile, index) : 0;
    if (card->profile)
        bar(card, fill, QUEUE_WIDTH, WEIR_HEAT_QUEUE, WEIR_HEAT_TRACK);
    if (card->profile) {
        char text[64];
        snprintf(text, sizeof text, isfinite(fill) ? "%s full on average" : "nothing passed", weir_figure_percent(fill).text);
        row(card, text, "", NULL, WEIR_HEAT_QUEUE);
        queue_measured(card, index);
    } else {
        queue_structure(card, shape);
    }
    close_table(card);
    weir_buffer_release(&name);
}

/* --- pool ------------------------------------------------------------------------------------------------------------------- */

/* Dark is work, light is rest; the words below stand in the same order. */
static const struct {
    enum weir_state state;
    const char *color;
} states[] = {
    { WEIR_STATE_RUNNING, "#35302c" },  { WEIR_STATE_RUNNABLE, "#6d655e" },      { WEIR_STATE_LOCK, "#877e76" },
    { WEIR_STATE_STARVED, "#9d948c" },  { WEIR_STATE_BACKPRESSURED, "#b3aba3" }, { WEIR_STATE_IO, "#c6bfb8" },
    { WEIR_STATE_OTHER, "#d8d2cc" },    { WEIR_STATE_IDLE, "#efebe7" },
};
#define STATES (sizeof states / sizeof *states)

static void state_bar(const struct weir_card *card, uint32_t pool)
{
    int left = WIDTH;
    weir_buffer_printf(card->out, "<TR><TD><TABLE ALIGN=\"LEFT\" BORDER=\"0\" CELLBORDER=\"0\" CELLSPACING=\"0\" "
                       "CELLPADDING=\"0\" FIXEDSIZE=\"TRUE\" WIDTH=\"%d\" HEIGHT=\"%d\"><TR>", WIDTH, BAR_HEIGHT);
    for (size_t i = 0; i < STATES && left > 0; i++) {
        double share = weir_view_state(card->profile, pool, states[i].state);
        int width = i + 1 == STATES ? left : isfinite(share) ? (int)lrint(share * WIDTH) : 0;
        width = width > left ? left : width;
        if (width > 0)
            weir_buffer_printf(card->out, "<TD FIXEDSIZE=\"TRUE\" WIDTH=\"%d\" HEIGHT=\"%d\" BGCOLOR=\"%s\"></TD>", width, BAR_HEIGHT,
                               states[i].color);
        left -= width > 0 ? width : 0;
    }
    weir_card_put(card, "</TR></TABLE></TD></TR>");
}

static void state_words(const struct weir_card *card, uint32_t pool)
{
    unsigned shown = 0;
    weir_card_put(card, "<TR><TD ALIGN=\"LEFT\">");
    weir_card_font(card, 9, WEIR_HEAT_FAINT);
    for (size_t i = 0; i < STATES; i++) {
        double share = weir_view_state(card->profile, pool, states[i].state);
        if (!(share >= 0.005))
            continue;
        weir_card_put(card, !shown ? "" : shown % 3 ? " · " : "<BR ALIGN=\"LEFT\"/>");
        weir_buffer_printf(card->out, "%s %s", weir_state_name(states[i].state), weir_figure_whole_percent(share).text);
        shown++;
    }
    weir_card_put(card, shown ? "<BR ALIGN=\"LEFT\"/></FONT></TD></TR>" : "no thread seen</FONT></TD></TR>");
}

/* What the pool's threads wait for most, beside work and a CPU. */
static void wait_words(const struct weir_card *card, uint32_t pool)
{
    const struct weir_profile *profile = card->profile;
    unsigned shown = 0;
    for (uint32_t i = 0; i < profile->sleep_count && shown < WAITS_MOST; i++) {
        const struct weir_profile_sleep *sleep = &profile->sleeps[i];
        double share = weir_view_sleep_share(profile, sleep);
        if (sleep->pool != pool || sleep->state == WEIR_STATE_IDLE || sleep->state == WEIR_STATE_RUNNABLE || !(share >= WAIT_LEAST))
            continue;
        weir_card_put(card, shown++ ? "" : "<TR><TD ALIGN=\"LEFT\">");
        weir_card_font(card, 9, WEIR_HEAT_INK);
        weir_buffer_printf(card->out, "%s %s in ", weir_state_name(sleep->state), weir_figure_whole_percent(share).text);
        weir_escape_html(card->out, sleep->site ? sleep->site : profile->rows[sleep->row].name, SYMBOL_COLUMNS);
        weir_card_put(card, "<BR ALIGN=\"LEFT\"/></FONT>");
    }
    weir_card_put(card, shown ? "</TD></TR>" : "");
}

void weir_card_pool(const struct weir_card *card, uint32_t pool)
{
    const struct weir_topology_pool *shape = &card->topology->pools[pool];
    uint32_t threads = card->profile && card->profile->pools[pool].threads ? card->profile->pools[pool].threads : shape->threads;
    weir_card_put(card, "<<TABLE BORDER=\"0\" CELLSPACING=\"0\" CELLPADDING=\"1\"><TR><TD ALIGN=\"LEFT\">");
    weir_card_font(card, 12, WEIR_HEAT_INK);
    weir_card_put(card, "pool&#160;<B>");
    weir_escape_html(card->out, shape->name, WEIR_CARD_NAME_COLUMNS);
    weir_buffer_printf(card->out, "</B>&#160;· %u thread%s</FONT></TD></TR>", threads, threads == 1 ? "" : "s");
    if (card->profile) {
        state_bar(card, pool);
        state_words(card, pool);
        wait_words(card, pool);
    }
    weir_card_put(card, "</TABLE>>");
}
