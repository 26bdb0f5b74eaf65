/*
 * value: single values as JSON, by the rule that what nobody knows is null: no number is infinite, no text breaks the encoding.
 * Every JSON that weir writes is put together from these.
 *
 * Units: none.
 * Owns: nothing; each returns a reference that is the caller's.
 * Threads: any.
 * Errors: null, where there is not enough memory for a text.
 */
#ifndef WEIR_VIZ_VALUE_H
#define WEIR_VIZ_VALUE_H

#include <jansson.h>
#include <stdint.h>

/* Null when it is no number. */
json_t *weir_value_number(double value);
/* Above what JSON's readers take for a whole number it is the largest of these. */
json_t *weir_value_count(uint64_t value);
/* Null for no text. Bytes that are no UTF-8 are escaped: a target may have named anything anyhow. */
json_t *weir_value_text(const char *value);

#endif
