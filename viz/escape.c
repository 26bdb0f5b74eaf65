#include "viz/escape.h"

#include <stdint.h>
#include <string.h>

#include "base/utf8.h"

/* Length of the code point at `text` (a NUL ends it), 0 when it is no UTF-8; then `*point` is the byte. */
static size_t point_at(const unsigned char *text, uint32_t *point)
{
    size_t length = weir_utf8_length((const char *)text, strnlen((const char *)text, 4));
    *point = length < 2 ? text[0] : text[0] & (0x7fu >> length);
    for (size_t i = 1; i < length; i++)
        *point = *point << 6 | (text[i] & 0x3f);
    return length;
}

/* Also the controls of C1, and what turns a line's direction round or hides in it. */
static bool is_control(uint32_t point)
{
    return point < 0x20 || (point >= 0x7f && point < 0xa0) || (point >= 0x200b && point <= 0x200f) ||
           (point >= 0x2028 && point <= 0x202e) || (point >= 0x2060 && point <= 0x206f) || point == 0xfeff || point == 0xfffe ||
           point == 0xffff;
}

static void plain(struct weir_buffer *out, const char *text)
{
    const unsigned char *at = (const unsigned char *)text;
    uint32_t point;
    while (*at) {
        size_t length = point_at(at, &point);
        if (length && !is_control(point)) {
            weir_buffer_add(out, at, length);
        } else {
            length = length ? length : 1;
            for (size_t i = 0; i < length; i++)
                weir_buffer_printf(out, "\\x%02x", at[i]);
        }
        at += length;
    }
}

size_t weir_escape_columns(const char *text, size_t size)
{
    size_t columns = 0;
    for (size_t i = 0; i < size; i++)
        columns += ((unsigned char)text[i] & 0xc0) != 0x80;
    return columns;
}

/* The byte where column `column` starts. */
static size_t byte_of(const char *text, size_t size, size_t column)
{
    size_t at = 0;
    for (size_t seen = 0; at < size; at++)
        if (((unsigned char)text[at] & 0xc0) != 0x80 && seen++ == column)
            break;
    return at;
}

void weir_escape_plain(struct weir_buffer *out, const char *text, size_t columns)
{
    struct weir_buffer whole = WEIR_BUFFER_INIT;
    plain(&whole, text);
    size_t have = weir_escape_columns(weir_buffer_text(&whole), whole.length);
    if (have <= columns) {
        weir_buffer_add(out, weir_buffer_text(&whole), whole.length);
    } else {
        size_t tail = (columns - 1) / 2, head = columns - 1 - tail;
        size_t from = byte_of(whole.data, whole.length, have - tail);
        weir_buffer_add(out, whole.data, byte_of(whole.data, whole.length, head));
        weir_buffer_puts(out, "…");
        weir_buffer_add(out, whole.data + from, whole.length - from);
    }
    if (whole.failed)
        out->failed = true;
    weir_buffer_release(&whole);
}

void weir_escape_html(struct weir_buffer *out, const char *text, size_t columns)
{
    struct weir_buffer harmless = WEIR_BUFFER_INIT;
    weir_escape_plain(&harmless, text, columns);
    for (const char *at = weir_buffer_text(&harmless); *at; at++) {
        switch (*at) {
        case '&': weir_buffer_puts(out, "&amp;"); break;
        case '<': weir_buffer_puts(out, "&lt;"); break;
        case '>': weir_buffer_puts(out, "&gt;"); break;
        case '"': weir_buffer_puts(out, "&quot;"); break;
        case '\'': weir_buffer_puts(out, "&#39;"); break;
        default: weir_buffer_putc(out, *at);
        }
    }
    if (harmless.failed)
        out->failed = true;
    weir_buffer_release(&harmless);
}

void weir_escape_utf8(struct weir_buffer *out, const char *text)
{
    const unsigned char *at = (const unsigned char *)text;
    uint32_t point;
    while (*at) {
        size_t length = point_at(at, &point);
        if (length)
            weir_buffer_add(out, at, length);
        else
            weir_buffer_puts(out, "\xef\xbf\xbd");
        at += length ? length : 1;
    }
}
