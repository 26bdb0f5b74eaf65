#include "pipeline_dsl/lang/names.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/topology.h"

/* FNV-1a, 64 bits. */
static uint64_t hash(const char *key, size_t length)
{
    uint64_t value = 0xcbf29ce484222325u;
    for (size_t i = 0; i < length; i++)
        value = (value ^ (unsigned char)key[i]) * 0x100000001b3u;
    return value ^ value >> 32;
}

static struct weir_names_slot *slot_of(const struct weir_names *names, const char *key, size_t length)
{
    size_t mask = names->capacity - 1;
    for (size_t i = hash(key, length) & mask;; i = (i + 1) & mask) {
        struct weir_names_slot *slot = &names->slots[i];
        if (!slot->key || (slot->length == length && memcmp(slot->key, key, length) == 0))
            return slot;
    }
}

static bool grow(struct weir_names *names)
{
    struct weir_names larger = { .capacity = names->capacity ? names->capacity * 2 : 64, .count = names->count };
    larger.slots = calloc(larger.capacity, sizeof *larger.slots);
    if (!larger.slots) {
        names->failed = true;
        return false;
    }
    for (size_t i = 0; i < names->capacity; i++)
        if (names->slots[i].key)
            *slot_of(&larger, names->slots[i].key, names->slots[i].length) = names->slots[i];
    free(names->slots);
    *names = larger;
    return true;
}

uint32_t weir_names_add(struct weir_names *names, const char *key, size_t length, uint32_t value)
{
    if (names->count * 2 >= names->capacity && !grow(names))
        return WEIR_NAMES_NOT_FOUND;
    struct weir_names_slot *slot = slot_of(names, key, length);
    if (slot->key)
        return slot->value;
    *slot = (struct weir_names_slot){ key, length, value };
    names->count++;
    return WEIR_NAMES_NOT_FOUND;
}

uint32_t weir_names_find(const struct weir_names *names, const char *key, size_t length)
{
    if (names->capacity == 0)
        return WEIR_NAMES_NOT_FOUND;
    const struct weir_names_slot *slot = slot_of(names, key, length);
    return slot->key ? slot->value : WEIR_NAMES_NOT_FOUND;
}

void weir_names_release(struct weir_names *names)
{
    free(names->slots);
    *names = (struct weir_names)WEIR_NAMES_INIT;
}

/* Distances are in half edits: a difference of case alone costs one, anything else two. */
#define EDIT 2u
#define LONGEST (WEIR_NAME_MAX + 1)

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

static size_t change(char a, char b)
{
    if (a == b)
        return 0;
    return tolower((unsigned char)a) == tolower((unsigned char)b) ? 1 : EDIT;
}

/* Optimal string alignment: insert, delete, change, swap neighbours. Both lengths are at most LONGEST. */
static size_t distance(const char *a, size_t a_length, const char *b, size_t b_length)
{
    size_t rows[3][LONGEST + 1];
    size_t *before = rows[0], *above = rows[1], *row = rows[2];
    for (size_t j = 0; j <= b_length; j++)
        above[j] = j * EDIT;
    for (size_t i = 1; i <= a_length; i++) {
        row[0] = i * EDIT;
        for (size_t j = 1; j <= b_length; j++) {
            size_t best = least(above[j] + EDIT, row[j - 1] + EDIT);
            best = least(best, above[j - 1] + change(a[i - 1], b[j - 1]));
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                best = least(best, before[j - 2] + EDIT);
            row[j] = best;
        }
        size_t *free_row = before;
        before = above;
        above = row;
        row = free_row;
    }
    return above[b_length];
}

struct weir_nearest weir_nearest(const char *wanted, size_t length)
{
    return (struct weir_nearest){ .wanted = wanted, .length = length, .best_distance = SIZE_MAX };
}

void weir_nearest_offer(struct weir_nearest *nearest, const char *candidate, size_t length)
{
    if (nearest->length > LONGEST || length > LONGEST || length == 0 || nearest->length == 0)
        return;
    size_t longer = length > nearest->length ? length : nearest->length;
    size_t allowed = EDIT * (longer < 6 ? 1 : longer / 3);
    size_t gap = EDIT * (longer - least(length, nearest->length));
    if (gap > allowed || gap >= nearest->best_distance)
        return;
    bool only_case = gap == 0 && strncasecmp(nearest->wanted, candidate, length) == 0;
    size_t found = only_case ? change('a', 'A') : distance(nearest->wanted, nearest->length, candidate, length);
    /* Words that share nothing are not near, however short they are. */
    if (found > allowed || found >= EDIT * longer || found >= nearest->best_distance)
        return;
    nearest->best = candidate;
    nearest->best_length = length;
    nearest->best_distance = found;
}
