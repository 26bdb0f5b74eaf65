#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "viz/escape.h"

static void plain(const char *text, size_t columns, const char *want)
{
    struct weir_buffer out = WEIR_BUFFER_INIT;
    weir_escape_plain(&out, text, columns);
    assert_string_equal(weir_buffer_text(&out), want);
    weir_buffer_release(&out);
}

static void control_bytes_are_shown(void **state)
{
    (void)state;
    plain("", 10, "");
    plain("riemann.handoff", WEIR_ESCAPE_ANY, "riemann.handoff");
    plain("a\x1b[31mb\n", WEIR_ESCAPE_ANY, "a\\x1b[31mb\\x0a");
    plain("\x7f", WEIR_ESCAPE_ANY, "\\x7f");
    plain("\xc2\x9b" "31m", WEIR_ESCAPE_ANY, "\\xc2\\x9b31m");
    plain("\xe2\x80\xae", WEIR_ESCAPE_ANY, "\\xe2\\x80\\xae"); /* turns the direction of writing */
}

static void broken_utf8_is_shown(void **state)
{
    (void)state;
    plain("grüße", WEIR_ESCAPE_ANY, "grüße");
    plain("\xff\xc3", WEIR_ESCAPE_ANY, "\\xff\\xc3");
    plain("\xc0\xaf", WEIR_ESCAPE_ANY, "\\xc0\\xaf");         /* overlong */
    plain("\xed\xa0\x80", WEIR_ESCAPE_ANY, "\\xed\\xa0\\x80"); /* surrogate */
    plain("\xf4\x90\x80\x80", WEIR_ESCAPE_ANY, "\\xf4\\x90\\x80\\x80");
    plain("\xe2\x82", WEIR_ESCAPE_ANY, "\\xe2\\x82"); /* cut short */
}

static void the_middle_goes_first(void **state)
{
    (void)state;
    plain("abcdefghij", 10, "abcdefghij");
    plain("abcdefghij", 5, "ab…ij");
    plain("abcdefghij", 4, "ab…j");
    plain("abcdefghij", 1, "…");
    plain("größergrößer", 6, "grö…er");
}

static void html_is_quoted(void **state)
{
    (void)state;
    struct weir_buffer out = WEIR_BUFFER_INIT;
    weir_escape_html(&out, "<b>\"&'\\", WEIR_ESCAPE_ANY);
    assert_string_equal(out.data, "&lt;b&gt;&quot;&amp;&#39;\\");
    weir_buffer_release(&out);
}

static void json_gets_utf8(void **state)
{
    (void)state;
    struct weir_buffer out = WEIR_BUFFER_INIT;
    weir_escape_utf8(&out, "a\xff\x1b");
    assert_string_equal(out.data, "a\xef\xbf\xbd\x1b");
    weir_buffer_release(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(control_bytes_are_shown), cmocka_unit_test(broken_utf8_is_shown),
                                        cmocka_unit_test(the_middle_goes_first), cmocka_unit_test(html_is_quoted),
                                        cmocka_unit_test(json_gets_utf8) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
