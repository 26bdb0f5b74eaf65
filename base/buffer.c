#include "base/buffer.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool reserve(struct weir_buffer *buffer, size_t more)
{
    if (buffer->failed)
        return false;
    if (more < buffer->capacity - buffer->length)
        return true;
    size_t capacity = buffer->capacity ? buffer->capacity : 256;
    while (capacity - buffer->length <= more) {
        if (capacity > SIZE_MAX / 2) {
            buffer->failed = true;
            return false;
        }
        capacity *= 2;
    }
    char *data = realloc(buffer->data, capacity);
    if (!data) {
        buffer->failed = true;
        return false;
    }
    buffer->data = data;
    buffer->capacity = capacity;
    return true;
}

void weir_buffer_add(struct weir_buffer *buffer, const void *data, size_t size)
{
    if (size == 0 || !reserve(buffer, size))
        return;
    memcpy(buffer->data + buffer->length, data, size);
    buffer->length += size;
    buffer->data[buffer->length] = '\0';
}

char *weir_buffer_extend(struct weir_buffer *buffer, size_t size)
{
    if (!reserve(buffer, size))
        return NULL;
    char *at = buffer->data + buffer->length;
    buffer->length += size;
    buffer->data[buffer->length] = '\0';
    return at;
}

void weir_buffer_cut(struct weir_buffer *buffer, size_t length)
{
    if (length >= buffer->length)
        return;
    buffer->length = length;
    buffer->data[length] = '\0';
}

void weir_buffer_puts(struct weir_buffer *buffer, const char *text)
{
    weir_buffer_add(buffer, text, strlen(text));
}

void weir_buffer_putc(struct weir_buffer *buffer, char byte)
{
    weir_buffer_add(buffer, &byte, 1);
}

void weir_buffer_printf(struct weir_buffer *buffer, const char *format, ...)
{
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    int length = vsnprintf(NULL, 0, format, args);
    if (length >= 0 && reserve(buffer, (size_t)length)) {
        vsnprintf(buffer->data + buffer->length, (size_t)length + 1, format, again);
        buffer->length += (size_t)length;
    }
    va_end(again);
    va_end(args);
}

const char *weir_buffer_text(const struct weir_buffer *buffer)
{
    return buffer->length ? buffer->data : "";
}

void weir_buffer_clear(struct weir_buffer *buffer)
{
    buffer->length = 0;
    if (buffer->data)
        buffer->data[0] = '\0';
}

void weir_buffer_release(struct weir_buffer *buffer)
{
    free(buffer->data);
    *buffer = (struct weir_buffer)WEIR_BUFFER_INIT;
}
