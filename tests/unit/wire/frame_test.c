/* frame: whatever the pieces, the same frames. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "pipeline_dsl/wire/frame.h"

static void a_header_is_needed_first(void **state)
{
    (void)state;
    for (size_t size = 0; size < 4; size++) {
        struct weir_frame frame = weir_frame_cut("\0\0\0\2ab", size, 100);
        assert_int_equal(frame.kind, WEIR_FRAME_MORE);
        assert_int_equal(frame.total, 4);
    }
    struct weir_frame frame = weir_frame_cut("\0\0\0\2a", 5, 100);
    assert_int_equal(frame.kind, WEIR_FRAME_MORE);
    assert_int_equal(frame.total, 6);
}

static void a_whole_frame_is_cut(void **state)
{
    (void)state;
    struct weir_frame frame = weir_frame_cut("\0\0\0\2abrest", 10, 2);
    assert_int_equal(frame.kind, WEIR_FRAME_WHOLE);
    assert_int_equal(frame.offset, 4);
    assert_int_equal(frame.length, 2);
    assert_int_equal(frame.total, 6);
    frame = weir_frame_cut("\0\0\0\0", 4, 0);
    assert_int_equal(frame.kind, WEIR_FRAME_WHOLE);
    assert_int_equal(frame.length, 0);
}

static void a_bad_length_is_known_from_the_header(void **state)
{
    (void)state;
    struct weir_frame frame = weir_frame_cut("\0\0\0\3", 4, 2);
    assert_int_equal(frame.kind, WEIR_FRAME_BAD);
    assert_int_equal(frame.length, 3);
    frame = weir_frame_cut("\xff\xff\xff\xff", 4, (size_t)16 << 20);
    assert_int_equal(frame.kind, WEIR_FRAME_BAD);
    assert_int_equal(frame.length, 0xffffffffu);
}

static void a_header_is_read_back(void **state)
{
    (void)state;
    static const uint32_t lengths[] = { 0, 1, 255, 256, 65536, 0x01020304, 0x7fffffff };
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        uint8_t header[WEIR_FRAME_HEADER];
        weir_frame_header(header, lengths[i]);
        struct weir_frame frame = weir_frame_cut(header, sizeof header, lengths[i]);
        assert_int_equal(frame.length, lengths[i]);
        assert_int_equal(frame.kind, lengths[i] ? WEIR_FRAME_MORE : WEIR_FRAME_WHOLE);
    }
}

/* 50 frames in one stream, offered byte by byte and in pieces of every size up to 64. */
static void any_pieces_give_the_same_frames(void **state)
{
    (void)state;
    uint8_t stream[50 * (4 + 50)];
    size_t size = 0;
    for (uint32_t i = 0; i < 50; i++) {
        weir_frame_header(stream + size, i);
        memset(stream + size + 4, (int)i, i);
        size += 4 + i;
    }
    for (size_t piece = 1; piece < 64; piece++) {
        size_t at = 0, end = 0;
        uint32_t next = 0;
        while (next < 50) {
            struct weir_frame frame = weir_frame_cut(stream + at, end - at, 50);
            if (frame.kind == WEIR_FRAME_WHOLE) {
                assert_int_equal(frame.length, next);
                for (size_t k = 0; k < frame.length; k++)
                    assert_int_equal(stream[at + frame.offset + k], next);
                at += frame.total;
                next++;
                continue;
            }
            assert_int_equal(frame.kind, WEIR_FRAME_MORE);
            assert_true(end < size);
            assert_true(frame.total > end - at);
            end = end + piece < size ? end + piece : size;
        }
        assert_int_equal(at, size);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_header_is_needed_first),
        cmocka_unit_test(a_whole_frame_is_cut),
        cmocka_unit_test(a_bad_length_is_known_from_the_header),
        cmocka_unit_test(a_header_is_read_back),
        cmocka_unit_test(any_pieces_give_the_same_frames),
    };
    return cmocka_run_group_tests_name("frame", tests, NULL, NULL);
}
