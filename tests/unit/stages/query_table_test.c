/* Every case of tests/cases/query, asked of decoded events; a system test asks the same of a server. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <glob.h>

#include "pipeline_dsl/stages/event_view.h"
#include "tests/query_table.h"

#define CASES_LEAST 150u

static bool complain(const struct query_table *table, const struct query_table_case *one, const char *what)
{
    fprintf(stderr, "%s:%u: %s\n    %s\n", table->path, one->line, one->expression, what);
    return false;
}

static bool error_is_right(const struct query_table *table, const struct query_table_case *one, const struct weir_query_place *place,
                           const struct weir_error *error)
{
    if (!one->error || !strstr(error->text, one->error))
        return complain(table, one, error->text);
    if (one->error_line && (one->error_line != place->line || one->error_column != place->column))
        return complain(table, one, error->text);
    return true;
}

static bool case_holds(const struct query_table *table, const struct query_table_case *one)
{
    struct weir_query *query;
    struct weir_query_place place = { 0 };
    struct weir_error error = WEIR_ERROR_INIT;
    if (weir_query_parse(&query, one->expression, strlen(one->expression), &place, &error) != 0)
        return error_is_right(table, one, &place, &error);
    struct weir_query_scratch scratch = WEIR_QUERY_SCRATCH_INIT;
    bool holds = true, failed = false;
    for (size_t i = 0; i < table->event_count && !failed; i++) {
        int rc = weir_query_match(query, &scratch, &weir_event_view, &table->events[i], &error);
        failed = rc < 0;
        if (rc >= 0 && !one->error && rc != (int)(one->matching >> i & 1))
            holds = complain(table, one, table->names[i]);
    }
    if (failed || one->error)
        holds = error_is_right(table, one, &place, &error);
    weir_query_scratch_release(&scratch);
    weir_query_free(query);
    return holds;
}

static void every_case_holds(void **state)
{
    (void)state;
    glob_t found;
    size_t cases = 0;
    bool hold = true;
    assert_int_equal(glob("tests/cases/query/*.table", 0, NULL, &found), 0);
    for (size_t i = 0; i < found.gl_pathc; i++) {
        struct query_table *table = malloc(sizeof *table);
        query_table_load(table, found.gl_pathv[i]);
        for (size_t k = 0; k < table->case_count; k++)
            hold &= case_holds(table, &table->cases[k]);
        cases += table->case_count;
        query_table_release(table);
        free(table);
    }
    globfree(&found);
    print_message("%zu cases\n", cases);
    assert_true(hold);
    assert_true(cases >= CASES_LEAST);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_case_holds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
