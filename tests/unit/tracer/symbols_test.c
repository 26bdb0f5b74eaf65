/* Names for addresses of this very process. */
#include <dlfcn.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "tracer/symbols.h"

__attribute__((noinline)) static int a_function_of_ours(int x)
{
    __asm__ volatile("" : "+r"(x));
    return x + 1;
}

static void names_what_it_knows(void **state)
{
    (void)state;
    char exe[4096], text[256];
    ssize_t length = readlink("/proc/self/exe", exe, sizeof exe - 1);
    assert_true(length > 0);
    exe[length] = 0;
    int fd = open(exe, O_RDONLY | O_CLOEXEC);
    struct weir_symbols *symbols = weir_symbols_open(getpid(), fd, exe);
    assert_non_null(symbols);
    a_function_of_ours(1);
    weir_symbols_name(symbols, (uintptr_t)a_function_of_ours, 0, text, sizeof text);
    assert_string_equal(text, "a_function_of_ours");
    weir_symbols_name(symbols, (uintptr_t)a_function_of_ours + 1, 1, text, sizeof text);
    assert_string_equal(text, "a_function_of_ours");
    weir_symbols_name(symbols, (uintptr_t)a_function_of_ours, 0, text, 5); /* as much as there is room for */
    assert_string_equal(text, "a_fu");
    weir_symbols_name(symbols, 0, 1, text, sizeof text);
    assert_string_equal(text, "[unknown]");
    weir_symbols_name(symbols, UINT64_MAX, 0, text, sizeof text);
    assert_string_equal(text, "[unknown]");
    weir_symbols_refresh(symbols);
    weir_symbols_name(symbols, (uintptr_t)a_function_of_ours, 0, text, sizeof text);
    assert_string_equal(text, "a_function_of_ours");
    weir_symbols_close(symbols);
    close(fd);
}

int cloned(int x) __asm__("a_clone.constprop.0.isra.1");
__attribute__((noinline)) int cloned(int x)
{
    __asm__ volatile("" : "+r"(x));
    return x + 2;
}

/* A symbol's version is no part of a function's name; what the compiler did to it is. */
static void versions_go_and_clones_stay(void **state)
{
    (void)state;
    char exe[4096], text[256];
    ssize_t length = readlink("/proc/self/exe", exe, sizeof exe - 1);
    assert_true(length > 0);
    exe[length] = 0;
    int fd = open(exe, O_RDONLY | O_CLOEXEC);
    struct weir_symbols *symbols = weir_symbols_open(getpid(), fd, exe);
    weir_symbols_name(symbols, (uintptr_t)cloned, 0, text, sizeof text);
    assert_string_equal(text, "a_clone.constprop.0.isra.1");
    weir_symbols_name(symbols, (uintptr_t)dlsym(RTLD_DEFAULT, "pthread_cond_signal"), 0, text, sizeof text);
    assert_non_null(strstr(text, "pthread_cond_signal"));
    assert_null(strchr(text, '@'));
    weir_symbols_close(symbols);
    close(fd);
}

static void without_a_process(void **state)
{
    (void)state;
    char text[64];
    assert_null(weir_symbols_open(2147483646, -1, "/no/such"));
    weir_symbols_name(NULL, 0x1234, 0, text, sizeof text);
    assert_string_equal(text, "[unknown]");
    weir_symbols_refresh(NULL);
    weir_symbols_close(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_what_it_knows),
        cmocka_unit_test(versions_go_and_clones_stay),
        cmocka_unit_test(without_a_process),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
