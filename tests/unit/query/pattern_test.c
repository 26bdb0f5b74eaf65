/* `=~` against a definition of it that is too slow to be used, on all short patterns and texts. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "pipeline_dsl/query/pattern.h"

/* A % is nothing, or any character but a newline and a % again. */
static bool like_by_definition(const uint8_t *pattern, size_t pattern_size, const uint8_t *text, size_t size)
{
    if (pattern_size == 0)
        return size == 0;
    if (*pattern == '%')
        return like_by_definition(pattern + 1, pattern_size - 1, text, size) ||
               (size > 0 && *text != '\n' && like_by_definition(pattern, pattern_size, text + 1, size - 1));
    return size > 0 && *text == *pattern && like_by_definition(pattern + 1, pattern_size - 1, text + 1, size - 1);
}

/* Number `n` in the digits of `letters`, behind a first digit that gives the length. */
static struct weir_bytes spell(const char *letters, size_t count, size_t length, size_t n, uint8_t *out)
{
    for (size_t i = 0; i < length; i++, n /= count)
        out[i] = (uint8_t)letters[n % count];
    return (struct weir_bytes){ out, length };
}

static size_t power(size_t base, size_t exponent)
{
    return exponent ? base * power(base, exponent - 1) : 1;
}

static void like_is_what_its_definition_says(void **state)
{
    (void)state;
    static const char in_patterns[] = "%ab\n", in_texts[] = "ab\n";
    uint8_t pattern_bytes[8], text_bytes[8];
    size_t yes = 0;
    for (size_t p = 0; p <= 5; p++)
        for (size_t i = 0; i < power(4, p); i++)
            for (size_t t = 0; t <= 5; t++)
                for (size_t k = 0; k < power(3, t); k++) {
                    struct weir_bytes pattern = spell(in_patterns, 4, p, i, pattern_bytes), text = spell(in_texts, 3, t, k, text_bytes);
                    bool wanted = like_by_definition(pattern.data, p, text.data, t);
                    if (weir_query_like(pattern, text) != wanted)
                        fail_msg("pattern \"%.*s\", text \"%.*s\": not %d", (int)p, pattern_bytes, (int)t, text_bytes, wanted);
                    yes += wanted;
                }
    assert_true(yes > 1000);
}

/* A pattern of many % on a long text: in proportion to both, or this would take hours. */
static void like_is_linear(void **state)
{
    (void)state;
    enum { PATTERN = 60000, TEXT = 4 << 20 };
    uint8_t *pattern = malloc(PATTERN), *text = malloc(TEXT);
    memset(text, 'a', TEXT);
    for (size_t i = 0; i < PATTERN; i++)
        pattern[i] = i % 2 ? 'a' : '%';
    assert_true(weir_query_like((struct weir_bytes){ pattern, PATTERN - 1 }, (struct weir_bytes){ text, TEXT }));
    memset(pattern + 1, 'a', PATTERN - 2);
    pattern[PATTERN - 2] = 'b';
    pattern[PATTERN - 1] = '%';
    assert_false(weir_query_like((struct weir_bytes){ pattern, PATTERN }, (struct weir_bytes){ text, TEXT }));
    free(pattern);
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(like_is_what_its_definition_says),
        cmocka_unit_test(like_is_linear),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
