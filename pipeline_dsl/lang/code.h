/*
 * code: every error and warning of the language, by number, name and story. The one table of them.
 * The parser and the checker name codes by the enum; people see "E032", and `weir lint --explain E032` prints the story.
 *
 * Units: none.
 * Owns: nothing.
 * Threads: any.
 * Errors: none.
 */
#ifndef WEIR_LANG_CODE_H
#define WEIR_LANG_CODE_H

#include <stdbool.h>
#include <stddef.h>

enum weir_code {
    /* text */
    WEIR_E001_NUL_BYTE, WEIR_E002_NOT_UTF8, WEIR_E003_STRAY_BYTE, WEIR_E004_OPEN_STRING, WEIR_E005_BAD_ESCAPE,
    /* grammar */
    WEIR_E010_UNEXPECTED, WEIR_E011_UNKNOWN_WORD, WEIR_E012_UNKNOWN_VERB, WEIR_E013_NOT_BUILT, WEIR_E014_BAD_NAME,
    WEIR_E015_BAD_SIZE, WEIR_E016_BAD_DURATION, WEIR_E017_BAD_NUMBER, WEIR_E018_BAD_ADDRESS, WEIR_E019_BRACES,
    WEIR_E020_TWICE, WEIR_E021_MISSING_CLAUSE, WEIR_E022_EMPTY_FILE,
    /* names */
    WEIR_E030_NAME_TAKEN, WEIR_E031_STAGE_TAKEN, WEIR_E032_NO_POOL, WEIR_E033_NO_STAGE, WEIR_E034_ADDRESS_TAKEN,
    WEIR_E035_NO_PIPELINE,
    /* order */
    WEIR_E040_LISTEN_FIRST, WEIR_E041_LISTEN_TWICE, WEIR_E042_NO_END, WEIR_E043_AFTER_END, WEIR_E044_NEEDS_FRAME,
    WEIR_E045_NEEDS_DECODE, WEIR_E046_DONE_BEFORE, WEIR_E047_NEEDS_ENCODE, WEIR_E048_REPLY_OWED, WEIR_E049_NO_LISTENER,
    WEIR_E050_ENTERS_LISTENER, WEIR_E051_CIRCLE, WEIR_E052_FORMS_DIFFER, WEIR_E053_BATCH_OWED, WEIR_E054_TOO_MANY_WAYS,
    WEIR_E055_WRONG_CODEC, WEIR_E056_NOT_THIS_LISTENER, WEIR_E057_SEVERAL_POOLS,
    /* handoffs */
    WEIR_E060_OWN_POOL, WEIR_E061_POOL_LISTENS, WEIR_E062_LIMIT_TOO_SMALL, WEIR_E063_SIZED_BEFORE_DECODE, WEIR_E064_CYCLE,
    /* queries */
    WEIR_E070_BAD_QUERY,
    /* expectations */
    WEIR_E080_BAD_REFERENCE, WEIR_E081_BAD_UNIT, WEIR_E082_BAD_STATISTIC, WEIR_E083_OUT_OF_RANGE, WEIR_E084_NOT_MEASURED,
    /* warnings */
    WEIR_W101_REFLECT, WEIR_W102_BLOCKS_LISTENER, WEIR_W103_FEW_SLOTS, WEIR_W104_BLOCK_BEHIND_UDP, WEIR_W105_UNUSED,
    WEIR_W106_BYTES_AFTER_DECODE, WEIR_W107_OPEN_LISTENER, WEIR_W108_PASSWORD, WEIR_W109_MANY_THREADS, WEIR_W110_NO_FILE,
    WEIR_CODE_COUNT
};

const char *weir_code_name(enum weir_code code);  /* "E032" */
const char *weir_code_title(enum weir_code code); /* "there is no such pool" */
const char *weir_code_story(enum weir_code code); /* paragraphs with an example, ends with a newline */
bool weir_code_warns(enum weir_code code);
/* "E032", in either case; WEIR_CODE_COUNT when there is none of that name. */
enum weir_code weir_code_find(const char *name);

#endif
