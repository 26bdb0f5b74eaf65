#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/error.h"

static void a_sentence_and_a_code(void **state)
{
    (void)state;
    struct weir_error error = WEIR_ERROR_INIT;
    assert_int_equal(weir_error_set(&error, WEIR_EXIT_CANNOT, ENOENT, "there is no %s", "server"), -ENOENT);
    assert_int_equal(error.exit, WEIR_EXIT_CANNOT);
    assert_string_equal(error.text, "there is no server");
    assert_int_equal(weir_error_set(NULL, WEIR_EXIT_USAGE, EINVAL, "%s", "nobody listens"), -EINVAL);
}

static void a_long_sentence_is_cut(void **state)
{
    (void)state;
    struct weir_error error = WEIR_ERROR_INIT;
    char name[3000];
    memset(name, 'x', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    weir_error_set(&error, WEIR_EXIT_USAGE, EINVAL, "%s", name);
    assert_int_equal(strlen(error.text), sizeof error.text - 1);
}

static void a_bug_aborts_with_what_it_saw(void **state)
{
    (void)state;
    int pipes[2], status;
    char text[256] = "";
    assert_int_equal(pipe(pipes), 0);
    pid_t child = fork();
    if (child == 0) {
        dup2(pipes[1], 2);
        signal(SIGABRT, SIG_DFL);
        weir_bug("queue %d is %s", 7, "torn");
    }
    close(pipes[1]);
    size_t size = 0;
    for (ssize_t got; (got = read(pipes[0], text + size, sizeof text - 1 - size)) > 0;)
        size += (size_t)got;
    close(pipes[0]);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status));
    assert_non_null(strstr(text, "queue 7 is torn"));
    assert_non_null(strstr(text, "error_test.c:"));
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(a_sentence_and_a_code), cmocka_unit_test(a_long_sentence_is_cut),
                                        cmocka_unit_test(a_bug_aborts_with_what_it_saw) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
