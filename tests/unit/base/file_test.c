#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dirent.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/file.h"

static char folder[64], path[128];

static int set_up(void **state)
{
    (void)state;
    strcpy(folder, "/tmp/weir-file-XXXXXX");
    if (!mkdtemp(folder))
        return -1;
    snprintf(path, sizeof path, "%s/x", folder);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    unlink(path);
    return rmdir(folder); /* fails when a temporary file was left behind */
}

static void expect_content(const char *content)
{
    char text[64] = "";
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    fclose(file);
    assert_string_equal(text, content);
}

static void the_new_replaces_the_old(void **state)
{
    (void)state;
    struct weir_error error = WEIR_ERROR_INIT;
    struct stat status;
    mode_t mask = umask(027);
    assert_int_equal(weir_file_write(path, "one", 3, "the thing", &error), 0);
    assert_int_equal(weir_file_write(path, "two", 3, "the thing", &error), 0);
    umask(mask);
    expect_content("two");
    assert_int_equal(stat(path, &status), 0);
    assert_int_equal(status.st_mode & 0777, 0640);
}

/* A device keeps being one: it is written to, not replaced. */
static void a_device_stays_a_device(void **state)
{
    (void)state;
    struct weir_error error = WEIR_ERROR_INIT;
    struct stat status;
    if (geteuid() != 0 || mknod(path, S_IFCHR | 0666, makedev(1, 7)) != 0)
        skip(); /* needs root, to make a /dev/full of its own */
    assert_true(weir_file_write(path, "x", 1, "the thing", &error) < 0);
    assert_non_null(strstr(error.text, "can't write the thing to "));
    assert_non_null(strstr(error.text, "the disk is full"));
    assert_int_equal(stat(path, &status), 0);
    assert_true(S_ISCHR(status.st_mode));
}

static void a_failure_leaves_nothing(void **state)
{
    (void)state;
    struct weir_error error = WEIR_ERROR_INIT;
    char missing[160];
    snprintf(missing, sizeof missing, "%s/no/such", folder);
    assert_true(weir_file_write(missing, "x", 1, "the thing", &error) < 0);
    assert_int_equal(error.exit, WEIR_EXIT_USAGE);
    assert_int_equal(mkdir(path, 0700), 0);
    assert_true(weir_file_write(path, "x", 1, "the thing", &error) < 0);
    assert_int_equal(rmdir(path), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_new_replaces_the_old, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_device_stays_a_device, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_failure_leaves_nothing, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
