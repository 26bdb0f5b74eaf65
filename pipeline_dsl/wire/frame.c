#include "pipeline_dsl/wire/frame.h"

struct weir_frame weir_frame_cut(const void *data, size_t size, size_t max)
{
    const uint8_t *bytes = data;
    if (size < WEIR_FRAME_HEADER)
        return (struct weir_frame){ .kind = WEIR_FRAME_MORE, .total = WEIR_FRAME_HEADER };
    size_t length = (size_t)bytes[0] << 24 | (size_t)bytes[1] << 16 | (size_t)bytes[2] << 8 | bytes[3];
    if (length > max)
        return (struct weir_frame){ .kind = WEIR_FRAME_BAD, .length = length };
    size_t total = WEIR_FRAME_HEADER + length;
    if (size < total)
        return (struct weir_frame){ .kind = WEIR_FRAME_MORE, .length = length, .total = total };
    return (struct weir_frame){ .kind = WEIR_FRAME_WHOLE, .offset = WEIR_FRAME_HEADER, .length = length, .total = total };
}

void weir_frame_header(uint8_t header[WEIR_FRAME_HEADER], uint32_t length)
{
    header[0] = (uint8_t)(length >> 24);
    header[1] = (uint8_t)(length >> 16);
    header[2] = (uint8_t)(length >> 8);
    header[3] = (uint8_t)length;
}
