#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/buffer.h"

static void it_grows(void **state)
{
    (void)state;
    struct weir_buffer buffer = WEIR_BUFFER_INIT;
    for (int i = 0; i < 10000; i++)
        weir_buffer_putc(&buffer, (char)('a' + i % 26));
    assert_int_equal(buffer.length, 10000);
    assert_int_equal(buffer.data[10000], 0);
    for (int i = 0; i < 10000; i++)
        assert_int_equal(buffer.data[i], 'a' + i % 26);
    weir_buffer_release(&buffer);
}

static void every_length_has_its_nul(void **state)
{
    (void)state;
    for (size_t n = 0; n < 1100; n++) {
        struct weir_buffer buffer = WEIR_BUFFER_INIT;
        weir_buffer_printf(&buffer, "%*s", (int)n, "");
        assert_int_equal(buffer.length, n);
        assert_int_equal(weir_buffer_text(&buffer)[n], 0);
        weir_buffer_release(&buffer);
    }
}

static void empty_and_cleared(void **state)
{
    (void)state;
    struct weir_buffer buffer = WEIR_BUFFER_INIT;
    assert_string_equal(weir_buffer_text(&buffer), "");
    weir_buffer_add(&buffer, NULL, 0);
    assert_null(buffer.data);
    weir_buffer_clear(&buffer);
    weir_buffer_puts(&buffer, "one");
    weir_buffer_clear(&buffer);
    assert_string_equal(weir_buffer_text(&buffer), "");
    weir_buffer_printf(&buffer, "%s %d", "two", 2);
    assert_string_equal(weir_buffer_text(&buffer), "two 2");
    weir_buffer_release(&buffer);
    assert_int_equal(buffer.length, 0);
}

static void it_is_cut_but_never_lengthened(void **state)
{
    (void)state;
    struct weir_buffer buffer = WEIR_BUFFER_INIT;
    weir_buffer_cut(&buffer, 0);
    assert_null(buffer.data);
    weir_buffer_puts(&buffer, "abcdef");
    weir_buffer_cut(&buffer, 9);
    assert_string_equal(weir_buffer_text(&buffer), "abcdef");
    weir_buffer_cut(&buffer, 2);
    assert_string_equal(weir_buffer_text(&buffer), "ab");
    assert_int_equal(buffer.length, 2);
    weir_buffer_release(&buffer);
}

static void bytes_may_be_nul(void **state)
{
    (void)state;
    struct weir_buffer buffer = WEIR_BUFFER_INIT;
    weir_buffer_add(&buffer, "a\0b", 3);
    assert_int_equal(buffer.length, 3);
    assert_memory_equal(buffer.data, "a\0b", 4);
    weir_buffer_release(&buffer);
}

static void a_failed_buffer_stays_failed(void **state)
{
    (void)state;
    struct weir_buffer buffer = WEIR_BUFFER_INIT;
    weir_buffer_puts(&buffer, "kept");
    buffer.failed = true;
    weir_buffer_puts(&buffer, "lost");
    weir_buffer_printf(&buffer, "%d", 1);
    assert_string_equal(weir_buffer_text(&buffer), "kept");
    weir_buffer_release(&buffer);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(it_grows), cmocka_unit_test(every_length_has_its_nul),
                                        cmocka_unit_test(empty_and_cleared), cmocka_unit_test(it_is_cut_but_never_lengthened),
                                        cmocka_unit_test(bytes_may_be_nul),
                                        cmocka_unit_test(a_failed_buffer_stays_failed) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
