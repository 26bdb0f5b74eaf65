#include "base/utf8.h"

#include <string.h>

/* Length of the well-formed sequence at `at`, or 0, and then `*bad` is the length of the ill-formed part. */
static size_t sequence(const uint8_t *at, size_t left, size_t *bad)
{
    uint8_t first = at[0], low = 0x80, high = 0xbf;
    size_t length;
    *bad = 1;
    if (first < 0x80)
        return 1;
    if (first >= 0xc2 && first <= 0xdf)
        length = 2;
    else if (first >= 0xe0 && first <= 0xef)
        length = 3;
    else if (first >= 0xf0 && first <= 0xf4)
        length = 4;
    else
        return 0;
    /* The second byte's range shuts out overlong forms, surrogates and what lies above U+10FFFF. */
    if (first == 0xe0)
        low = 0xa0;
    else if (first == 0xed)
        high = 0x9f;
    else if (first == 0xf0)
        low = 0x90;
    else if (first == 0xf4)
        high = 0x8f;
    for (size_t i = 1; i < length; i++) {
        *bad = i;
        if (i >= left || at[i] < low || at[i] > high)
            return 0;
        low = 0x80;
        high = 0xbf;
    }
    return length;
}

size_t weir_utf8_length(const char *text, size_t left)
{
    size_t bad;
    return sequence((const uint8_t *)text, left, &bad);
}

size_t weir_utf8_cut(const char *text, size_t length, size_t most)
{
    if (length <= most)
        return length;
    while (most > 0 && ((unsigned char)text[most] & 0xc0) == 0x80)
        most--;
    return most;
}

/* How many of the first bytes are ASCII, eight at a time: most text is nothing else. */
static size_t ascii_run(const uint8_t *data, size_t size)
{
    size_t at = 0;
    for (uint64_t word; size - at >= sizeof word; at += sizeof word) {
        memcpy(&word, data + at, sizeof word);
        if (word & 0x8080808080808080u)
            break;
    }
    return at;
}

bool weir_utf8_valid(const void *data, size_t size)
{
    const uint8_t *bytes = data;
    size_t at = 0, bad;
    while (at < size) {
        at += ascii_run(bytes + at, size - at);
        if (at == size)
            break;
        size_t length = sequence(bytes + at, size - at, &bad);
        if (!length)
            return false;
        at += length;
    }
    return true;
}

uint8_t *weir_utf8_repair(struct weir_arena *arena, const void *data, size_t *size)
{
    const uint8_t *bytes = data;
    size_t bad, repaired = 0;
    for (size_t at = 0; at < *size;) {
        size_t length = sequence(bytes + at, *size - at, &bad);
        repaired += length ? length : 3;
        at += length ? length : bad;
    }
    uint8_t *copy = weir_arena_alloc(arena, repaired ? repaired : 1);
    if (!copy)
        return NULL;
    uint8_t *to = copy;
    for (size_t at = 0; at < *size;) {
        size_t length = sequence(bytes + at, *size - at, &bad);
        memcpy(to, length ? bytes + at : (const uint8_t *)"\xef\xbf\xbd", length ? length : 3);
        to += length ? length : 3;
        at += length ? length : bad;
    }
    *size = repaired;
    return copy;
}
