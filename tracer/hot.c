/*
 * DESIGN. Stacks are named once, at the end. Addresses repeat from stack to stack, so they are sorted and each is named once;
 * names repeat too (many addresses of one function), so the names are sorted and numbered.
 */
#include "tracer/aggregate.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define HOT_MOST 10u

struct address {
    uint64_t at;
    uint32_t is_return;
    uint32_t symbol; /* index in profile->symbols */
    const char *name;
};

static int by_address(const void *a, const void *b)
{
    const struct address *x = a, *y = b;
    if (x->at != y->at)
        return x->at < y->at ? -1 : 1;
    return (int)x->is_return - (int)y->is_return;
}

static int by_name(const void *a, const void *b)
{
    const struct address *const *x = a, *const *y = b;
    return strcmp((*x)->name, (*y)->name);
}

static size_t collect(const struct weir_stacks *stacks, struct address *all)
{
    size_t count = 0, unique = 0;
    for (uint32_t i = 0; i < stacks->capacity; i++)
        for (uint32_t k = 0; stacks->entries[i].samples && k < stacks->entries[i].frame_count; k++)
            all[count++] = (struct address){ .at = stacks->entries[i].frames[k], .is_return = k > 0 };
    qsort(all, count, sizeof *all, by_address);
    for (size_t i = 0; i < count; i++)
        if (unique == 0 || by_address(&all[unique - 1], &all[i]) != 0)
            all[unique++] = all[i];
    return unique;
}

/* Gives each address its name, and each different name a number. */
static int name_all(struct weir_profile *profile, struct weir_symbols *symbols, struct address *all, size_t count)
{
    struct address **sorted = malloc((count + 1) * sizeof *sorted);
    profile->symbols = weir_arena_alloc(&profile->arena, (count + 1) * sizeof *profile->symbols);
    int rc = sorted && profile->symbols ? 0 : -ENOMEM;
    for (size_t i = 0; !rc && i < count; i++) {
        char text[512];
        weir_symbols_name(symbols, all[i].at, (int)all[i].is_return, text, sizeof text);
        all[i].name = weir_arena_dup(&profile->arena, text, strlen(text));
        sorted[i] = &all[i];
        if (!all[i].name)
            rc = -ENOMEM;
    }
    profile->symbol_count = 0;
    if (!rc)
        qsort(sorted, count, sizeof *sorted, by_name);
    for (size_t i = 0; !rc && i < count; i++) {
        if (i == 0 || strcmp(sorted[i]->name, sorted[i - 1]->name) != 0)
            profile->symbols[profile->symbol_count++] = sorted[i]->name;
        sorted[i]->symbol = profile->symbol_count - 1;
    }
    free(sorted);
    return rc;
}

static int copy_stacks(struct weir_profile *profile, const struct weir_stacks *stacks, const struct address *all, size_t count)
{
    profile->stacks = weir_arena_alloc(&profile->arena, ((size_t)stacks->used + 1) * sizeof *profile->stacks);
    profile->stack_count = 0;
    for (uint32_t i = 0; profile->stacks && i < stacks->capacity; i++) {
        const struct weir_stacks_entry *entry = &stacks->entries[i];
        if (!entry->samples)
            continue;
        struct weir_profile_stack *stack = &profile->stacks[profile->stack_count];
        *stack = (struct weir_profile_stack){ .row = entry->row, .samples = entry->samples, .frame_count = entry->frame_count };
        stack->frames = weir_arena_alloc(&profile->arena, entry->frame_count * sizeof *stack->frames);
        if (!stack->frames)
            return -ENOMEM;
        for (uint32_t k = 0; k < entry->frame_count; k++) {
            struct address key = { .at = entry->frames[k], .is_return = k > 0 };
            const struct address *found = bsearch(&key, all, count, sizeof *all, by_address);
            stack->frames[k] = found ? found->symbol : 0;
        }
        profile->stack_count++;
    }
    return profile->stacks ? 0 : -ENOMEM;
}

/* --- hot functions ---------------------------------------------------------------------------------------------------------- */

static int by_samples(const void *a, const void *b)
{
    const struct weir_profile_hot *x = a, *y = b;
    if (x->samples != y->samples)
        return x->samples > y->samples ? -1 : 1;
    return strcmp(x->symbol, y->symbol);
}

static bool is_within(const struct weir_profile *profile, uint32_t row, uint32_t whole)
{
    for (; row < profile->row_count; row = profile->rows[row].part_of)
        if (row == whole)
            return true;
    return false;
}

/* The innermost functions that a row's samples showed. Their share of the row's samples is their share of its CPU time. */
static int set_hot(struct weir_profile *profile, uint32_t index, uint64_t *counts)
{
    struct weir_profile_row *row = &profile->rows[index];
    uint64_t all = 0;
    uint32_t different = 0;
    memset(counts, 0, profile->symbol_count * sizeof *counts);
    for (uint32_t i = 0; i < profile->stack_count; i++) {
        const struct weir_profile_stack *stack = &profile->stacks[i];
        if (!is_within(profile, stack->row, index))
            continue;
        all += stack->samples;
        different += counts[stack->frames[0]] == 0;
        counts[stack->frames[0]] += stack->samples;
    }
    if (!different)
        return 0;
    struct weir_profile_hot *hot = malloc(different * sizeof *hot);
    uint32_t count = 0;
    for (uint32_t i = 0; hot && i < profile->symbol_count; i++)
        if (counts[i])
            hot[count++] =
                (struct weir_profile_hot){ profile->symbols[i], counts[i], row->share * (double)counts[i] / (double)all };
    if (hot)
        qsort(hot, count, sizeof *hot, by_samples);
    row->hot_count = count < HOT_MOST ? count : HOT_MOST;
    row->hot = hot ? (void *)weir_arena_dup(&profile->arena, hot, row->hot_count * sizeof *hot) : NULL;
    free(hot);
    return row->hot ? 0 : -ENOMEM;
}

int weir_aggregate_stacks(struct weir_window *window, struct weir_symbols *symbols)
{
    struct weir_profile *profile = window->profile;
    const struct weir_stacks *stacks = &window->stacks;
    struct address *all = malloc(((size_t)stacks->used * WEIR_STACK_FRAMES + 1) * sizeof *all);
    uint64_t *counts = NULL;
    if (!all)
        return -ENOMEM;
    size_t count = collect(stacks, all);
    int rc = name_all(profile, symbols, all, count);
    if (!rc)
        rc = copy_stacks(profile, stacks, all, count);
    if (!rc && !(counts = malloc((profile->symbol_count + 1) * sizeof *counts)))
        rc = -ENOMEM;
    for (uint32_t i = 0; !rc && i < profile->row_count; i++)
        rc = set_hot(profile, i, counts);
    free(counts);
    free(all);
    return rc;
}
