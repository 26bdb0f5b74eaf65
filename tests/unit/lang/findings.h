/*
 * findings: what lang says about a text, as one line that a test can compare: each finding's code and the words under its carets,
 * "E032:workes W105:spare". Wording is never compared.
 *
 * Units: none.
 * Owns: a struct findings owns its bag, arena and text, until findings_release().
 * Threads: owner only.
 * Errors: asserts.
 */
#ifndef TESTS_UNIT_LANG_FINDINGS_H
#define TESTS_UNIT_LANG_FINDINGS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "pipeline_dsl/lang/lang.h"

struct findings {
    struct weir_arena arena;
    struct weir_diag_bag bag;
    struct weir_topology topology;
    struct weir_error error;
    struct weir_buffer text;
    int rc;
};

static inline void findings_load_bytes(struct findings *findings, const void *data, size_t size)
{
    *findings = (struct findings){ .text = WEIR_BUFFER_INIT };
    weir_arena_init(&findings->arena, 0, SIZE_MAX);
    weir_diag_bag_init(&findings->bag);
    findings->rc = weir_lang_load_memory("dir/test.weir", data, size, &findings->arena, &findings->topology, &findings->bag, &findings->error);
    for (size_t i = 0; i < findings->bag.count; i++) {
        const struct weir_diag *diag = &findings->bag.diags[i];
        weir_buffer_printf(&findings->text, "%s%s:%.*s", i ? " " : "", weir_code_name(diag->code), (int)diag->span.length,
                           findings->bag.source.text + diag->span.offset);
    }
    /* The words of each finding are whole sentences, and everything can be drawn. */
    struct weir_buffer drawn = WEIR_BUFFER_INIT;
    weir_diag_render(&findings->bag, true, &drawn);
    assert_int_equal(drawn.length == 0, findings->bag.count == 0);
    weir_buffer_release(&drawn);
    assert_int_equal(findings->rc == 0, findings->bag.error_count == 0);
    assert_int_equal(findings->rc == 0, findings->error.text[0] == '\0');
}

static inline void findings_load(struct findings *findings, const char *text)
{
    findings_load_bytes(findings, text, strlen(text));
}

static inline void findings_release(struct findings *findings)
{
    weir_buffer_release(&findings->text);
    weir_diag_bag_release(&findings->bag);
    weir_arena_release(&findings->arena);
}

/* Loads `text` and compares. */
static inline void expect_findings(const char *text, const char *expected)
{
    struct findings findings;
    findings_load(&findings, text);
    if (strcmp(weir_buffer_text(&findings.text), expected) != 0)
        print_error("%s\n", text);
    assert_string_equal(weir_buffer_text(&findings.text), expected);
    findings_release(&findings);
}

/* A server around some lines between `decode` and `encode`, and around others anywhere behind it. */
#define POOLS "pool io threads 1\npool workers threads 2\n"
#define HEAD "pipeline p {\nlisten tcp 127.0.0.1:5555 on io\nframe length32 max 16MiB\n"
#define HANDOFF "handoff workers limit 64MiB full block\n"
#define TAIL "encode riemann\nreply\n}\n"
#define SERVER_WITH(lines, behind) POOLS HEAD HANDOFF "decode riemann\n" lines TAIL behind
#define SERVER SERVER_WITH("", "")

#endif
