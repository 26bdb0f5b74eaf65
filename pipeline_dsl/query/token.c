/*
 * DESIGN: names and numbers are both runs of the same bytes, as in Riemann, where `a-b`, `x.y` and `a:b` are one name each; what the
 * run begins with decides which of them it is. The bytes of operators are in no name, so that `state="ok"` and `metric>5` need no
 * blanks. A run of them is one operator or none: `==` is not an `=` with something behind it.
 */
#include "pipeline_dsl/query/token.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/utf8.h"

/* --- errors -------------------------------------------------------------------------------------------------------------- */

struct weir_query_quote weir_query_quote(const void *data, size_t size)
{
    enum { MOST = 40 };
    struct weir_query_quote quote;
    const char *text = data;
    size_t out = 0, at = 0;
    while (at < size && at < MOST) {
        size_t length = weir_utf8_length(text + at, size - at);
        unsigned char first = (unsigned char)text[at];
        if (length == 0 || first < 0x20 || first == 0x7f || (first == 0xc2 && (unsigned char)text[at + 1] < 0xa0)) {
            quote.text[out++] = '?';
            at += length ? length : 1;
            continue;
        }
        memcpy(quote.text + out, text + at, length);
        out += length;
        at += length;
    }
    memcpy(quote.text + out, at < size ? "..." : "", at < size ? 4 : 1);
    return quote;
}

int weir_query_fail(const struct weir_query_lexer *lexer, size_t offset, size_t length, const char *format, ...)
{
    struct weir_query_place place = { .offset = offset, .length = length, .line = 1, .column = 1 };
    for (size_t i = 0; i < offset && i < lexer->size; i++) {
        if (lexer->text[i] == '\n') {
            place.line++;
            place.column = 1;
        } else if ((lexer->text[i] & 0xc0) != 0x80) {
            place.column++;
        }
    }
    char text[sizeof lexer->error->text];
    int used = snprintf(text, sizeof text, "parse error: line %u, column %u: ", place.line, place.column);
    place.sentence = (size_t)used;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text + used, sizeof text - (size_t)used, format, arguments);
    va_end(arguments);
    if (lexer->place)
        *lexer->place = place;
    return weir_error_set(lexer->error, WEIR_EXIT_USAGE, EINVAL, "%s", text);
}

/* --- strings ------------------------------------------------------------------------------------------------------------- */

static size_t put_utf8(uint8_t *out, uint32_t character)
{
    if (character < 0x80) {
        out[0] = (uint8_t)character;
        return 1;
    }
    if (character < 0x800) {
        out[0] = (uint8_t)(0xc0 | character >> 6);
        out[1] = (uint8_t)(0x80 | (character & 0x3f));
        return 2;
    }
    if (character < 0x10000) {
        out[0] = (uint8_t)(0xe0 | character >> 12);
        out[1] = (uint8_t)(0x80 | (character >> 6 & 0x3f));
        out[2] = (uint8_t)(0x80 | (character & 0x3f));
        return 3;
    }
    out[0] = (uint8_t)(0xf0 | character >> 18);
    out[1] = (uint8_t)(0x80 | (character >> 12 & 0x3f));
    out[2] = (uint8_t)(0x80 | (character >> 6 & 0x3f));
    out[3] = (uint8_t)(0x80 | (character & 0x3f));
    return 4;
}

/* The 16 bits of `\uXXXX` at `at`; -1 when that is none. */
static int32_t read_unit(const struct weir_query_lexer *lexer, size_t at)
{
    int32_t unit = 0;
    if (lexer->size - at < 6 || lexer->text[at] != '\\' || lexer->text[at + 1] != 'u')
        return -1;
    for (size_t i = at + 2; i < at + 6; i++) {
        uint8_t c = lexer->text[i];
        if (c >= '0' && c <= '9')
            unit = unit * 16 + (c - '0');
        else if ((c | 0x20) >= 'a' && (c | 0x20) <= 'f')
            unit = unit * 16 + ((c | 0x20) - 'a' + 10);
        else
            return -1;
    }
    return unit;
}

/* `\uXXXX`, or a pair of them for a character beyond 16 bits. Moves `*at` behind it. */
static int unicode_escape(struct weir_query_lexer *lexer, size_t *at, uint8_t *out, size_t *written)
{
    int32_t unit = read_unit(lexer, *at);
    if (unit < 0)
        return weir_query_fail(lexer, *at, 2, "`\\u` needs four hexadecimal digits behind it");
    uint32_t character = (uint32_t)unit;
    size_t length = 6;
    if (character >= 0xd800 && character < 0xe000) {
        int32_t low = character < 0xdc00 ? read_unit(lexer, *at + 6) : -1;
        if (low < 0xdc00 || low >= 0xe000)
            return weir_query_fail(lexer, *at, 6, "`%s` is half of a surrogate pair, which is no character",
                                   weir_query_quote(lexer->text + *at, 6).text);
        character = 0x10000 + ((character - 0xd800) << 10) + ((uint32_t)low - 0xdc00);
        length = 12;
    }
    *written += put_utf8(out + *written, character);
    *at += length;
    return 0;
}

static int take_string(struct weir_query_lexer *lexer, struct weir_query_token *token)
{
    static const char names[] = "trnbf\\\"", means[] = "\t\r\n\b\f\\\"";
    size_t at = token->offset + 1;
    const uint8_t *text = lexer->text;
    /* No escape is shorter than what it means. The end is looked for first, so that many strings cost no more than their sum. */
    size_t end = at;
    while (end < lexer->size && text[end] != '"')
        end += text[end] == '\\' ? 2 : 1;
    if (end >= lexer->size)
        return weir_query_fail(lexer, token->offset, lexer->size - token->offset, "the string that begins here has no closing quote");
    uint8_t *out = weir_arena_alloc(lexer->arena, end - at + 1);
    size_t written = 0;
    if (!out)
        return -ENOMEM;
    while (at < end) {
        if (text[at] != '\\') {
            out[written++] = text[at++];
            continue;
        }
        if (text[at + 1] == 'u') {
            int rc = unicode_escape(lexer, &at, out, &written);
            if (rc != 0)
                return rc;
            continue;
        }
        const char *name = text[at + 1] ? strchr(names, text[at + 1]) : NULL;
        if (!name) {
            size_t length = 1 + weir_utf8_length((const char *)text + at + 1, end - at - 1);
            return weir_query_fail(lexer, at, length,
                                   "`%s` is no escape: strings have \\t \\r \\n \\b \\f \\\\ \\\" \\uXXXX, and a backslash for a regular "
                                   "expression is written \\\\",
                                   weir_query_quote(text + at, length).text);
        }
        out[written++] = (uint8_t)means[name - names];
        at += 2;
    }
    lexer->at = end + 1;
    token->length = lexer->at - token->offset;
    token->kind = WEIR_QUERY_TOKEN_VALUE;
    token->value = (struct weir_query_value){ .kind = WEIR_QUERY_TEXT, .text = { out, written } };
    return 0;
}

/* --- numbers ------------------------------------------------------------------------------------------------------------- */

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static const char *skip_digits(const char *c)
{
    while (is_digit(*c))
        c++;
    return c;
}

static int bad_number(const struct weir_query_lexer *lexer, const struct weir_query_token *token, const char *text)
{
    const char *behind = skip_digits(text + (*text == '-'));
    struct weir_query_quote quote = weir_query_quote(text, token->length);
    if ((*behind == 'L' || *behind == 'l') && !behind[1])
        return weir_query_fail(lexer, token->offset, token->length, "`%s` is no number: an integer has no L behind it", quote.text);
    if (*text == '+' || strchr(text, '+'))
        return weir_query_fail(lexer, token->offset, token->length, "`%s` is no number: numbers are written without a `+`", quote.text);
    if (text[*text == '-'] == '.')
        return weir_query_fail(lexer, token->offset, token->length, "`%s` is no number: a digit comes before the point, as in 0.5",
                               quote.text);
    return weir_query_fail(lexer, token->offset, token->length, "`%s` is no number; numbers are written -5, 5N, 1.5, 1e5, 1E-5, "
                           "-Infinity or NaN", quote.text);
}

/* An integer that fits 64 bits is one, whether N is behind it or not; a larger one keeps its digits. */
static int take_integer(const struct weir_query_lexer *lexer, struct weir_query_token *token, const char *text, bool is_big)
{
    errno = 0;
    long long integer = strtoll(text, NULL, 10);
    if (errno == 0) {
        token->value = weir_query_integer(integer);
        return 0;
    }
    if (!is_big) {
        struct weir_query_quote quote = weir_query_quote(text, token->length);
        return weir_query_fail(lexer, token->offset, token->length, "`%s` doesn't fit 64 bits: an N behind it makes it an integer of "
                               "any size", quote.text);
    }
    const char *digits = text + (*text == '-');
    const char *behind = skip_digits(digits);
    while (*digits == '0')
        digits++;
    size_t size = (size_t)(behind - digits) + (*text == '-');
    char *out = weir_arena_alloc(lexer->arena, size);
    if (!out)
        return -ENOMEM;
    *out = '-';
    memcpy(out + (*text == '-'), digits, (size_t)(behind - digits));
    token->value = (struct weir_query_value){ .kind = WEIR_QUERY_BIG, .text = { (const uint8_t *)out, size } };
    return 0;
}

/* `text` ends in a NUL. */
static int take_number(const struct weir_query_lexer *lexer, struct weir_query_token *token, const char *text)
{
    const char *c = text + (*text == '-');
    if (!is_digit(*c))
        return bad_number(lexer, token, text);
    c = skip_digits(c);
    if (!*c)
        return take_integer(lexer, token, text, false);
    if (*c == 'N' && !c[1])
        return take_integer(lexer, token, text, true);
    if (*c == '.') {
        if (!is_digit(c[1]))
            return bad_number(lexer, token, text);
        c = skip_digits(c + 1);
    }
    if (*c == 'e' || *c == 'E') {
        c += 1 + (c[1] == '-');
        if (!is_digit(*c))
            return bad_number(lexer, token, text);
        c = skip_digits(c);
    }
    if (*c)
        return bad_number(lexer, token, text);
    double real = strtod(text, NULL);
    if (isinf(real)) {
        struct weir_query_quote quote = weir_query_quote(text, token->length);
        return weir_query_fail(lexer, token->offset, token->length, "`%s` is beyond every double; the largest value is written Infinity",
                               quote.text);
    }
    token->value = weir_query_real(real);
    return 0;
}

/* --- words --------------------------------------------------------------------------------------------------------------- */

static bool is_operator_byte(uint8_t c)
{
    return c == '=' || c == '!' || c == '<' || c == '>' || c == '~';
}

/* How long the character of a name at `at` is; 0 when there is none. Spaces, quotes and dashes from a word processor are none:
 * as part of a name they would be a field that no event has. */
static size_t name_character(const struct weir_query_lexer *lexer, size_t at)
{
    const uint8_t *text = lexer->text + at;
    size_t left = lexer->size - at;
    if (left == 0)
        return 0;
    if (*text < 0x80) {
        bool alphanumeric = (*text >= '0' && *text <= '9') || ((*text | 0x20) >= 'a' && (*text | 0x20) <= 'z');
        return alphanumeric || (*text && strchr("_.-:/+*?$%&#@|", *text)) ? 1 : 0;
    }
    size_t length = weir_utf8_length((const char *)text, left);
    if (length == 2 && text[0] == 0xc2 && text[1] <= 0xa0)
        return 0;
    if (length == 3 && ((text[0] == 0xe2 && text[1] <= 0x81) || (text[0] == 0xe3 && text[1] == 0x80 && text[2] == 0x80)))
        return 0;
    return length;
}

struct keyword {
    const char *name;
    enum weir_query_token_kind kind;
    struct weir_query_value value;
};

static int take_word(struct weir_query_lexer *lexer, struct weir_query_token *token)
{
    static const struct keyword keywords[] = {
        { "and", WEIR_QUERY_TOKEN_AND, { 0 } },
        { "or", WEIR_QUERY_TOKEN_OR, { 0 } },
        { "not", WEIR_QUERY_TOKEN_NOT, { 0 } },
        { "tagged", WEIR_QUERY_TOKEN_TAGGED, { 0 } },
        { "nil", WEIR_QUERY_TOKEN_VALUE, { .kind = WEIR_QUERY_NIL } },
        { "null", WEIR_QUERY_TOKEN_VALUE, { .kind = WEIR_QUERY_NIL } },
        { "true", WEIR_QUERY_TOKEN_VALUE, { .kind = WEIR_QUERY_BOOL, .boolean = true } },
        { "false", WEIR_QUERY_TOKEN_VALUE, { .kind = WEIR_QUERY_BOOL, .boolean = false } },
        { "NaN", WEIR_QUERY_TOKEN_VALUE, { .kind = WEIR_QUERY_DOUBLE, .real = (double)NAN } },
        { "Infinity", WEIR_QUERY_TOKEN_VALUE, { .kind = WEIR_QUERY_DOUBLE, .real = (double)INFINITY } },
        { "-Infinity", WEIR_QUERY_TOKEN_VALUE, { .kind = WEIR_QUERY_DOUBLE, .real = (double)-INFINITY } },
    };
    size_t end = token->offset;
    for (size_t length; (length = name_character(lexer, end)) > 0;)
        end += length;
    token->length = end - token->offset;
    lexer->at = end;
    char *word = weir_arena_dup(lexer->arena, lexer->text + token->offset, token->length);
    if (!word)
        return -ENOMEM;
    for (size_t i = 0; i < sizeof keywords / sizeof *keywords; i++)
        if (strcmp(word, keywords[i].name) == 0) {
            token->kind = keywords[i].kind;
            token->value = keywords[i].value;
            return 0;
        }
    if (is_digit(*word) || ((*word == '-' || *word == '+' || *word == '.') && (is_digit(word[1]) || word[1] == '.'))) {
        token->kind = WEIR_QUERY_TOKEN_VALUE;
        return take_number(lexer, token, word);
    }
    if (strchr("-.:/+*?%&#|", *word)) {
        struct weir_query_quote quote = weir_query_quote(word, token->length);
        const char *instead = strcmp(word, "&&") == 0 ? "; write `and`" : strcmp(word, "||") == 0 ? "; write `or`" : "";
        return weir_query_fail(lexer, token->offset, token->length, "`%s` means nothing in a query%s", quote.text, instead);
    }
    token->kind = WEIR_QUERY_TOKEN_NAME;
    token->value = (struct weir_query_value){ .kind = WEIR_QUERY_TEXT, .text = { (const uint8_t *)word, token->length } };
    return 0;
}

static int take_operator(struct weir_query_lexer *lexer, struct weir_query_token *token)
{
    static const struct {
        const char *name;
        enum weir_query_token_kind kind;
    } operators[] = {
        { "=", WEIR_QUERY_TOKEN_EQUAL }, { "!=", WEIR_QUERY_TOKEN_NOT_EQUAL }, { "<", WEIR_QUERY_TOKEN_LESS },
        { "<=", WEIR_QUERY_TOKEN_LESS_EQUAL }, { ">", WEIR_QUERY_TOKEN_GREATER }, { ">=", WEIR_QUERY_TOKEN_GREATER_EQUAL },
        { "=~", WEIR_QUERY_TOKEN_LIKE }, { "~=", WEIR_QUERY_TOKEN_REGEX },
    };
    static const char *const slips[][2] = {
        { "==", "=" }, { "===", "=" }, { "<>", "!=" }, { "!==", "!=" }, { "=<", "<=" }, { "=>", ">=" }, { "~", "~= or =~" }, { "!", "not" },
    };
    const uint8_t *text = lexer->text + token->offset;
    while (lexer->at < lexer->size && is_operator_byte(lexer->text[lexer->at]))
        lexer->at++;
    token->length = lexer->at - token->offset;
    for (size_t i = 0; i < sizeof operators / sizeof *operators; i++)
        if (strlen(operators[i].name) == token->length && memcmp(operators[i].name, text, token->length) == 0) {
            token->kind = operators[i].kind;
            return 0;
        }
    struct weir_query_quote quote = weir_query_quote(text, token->length);
    for (size_t i = 0; i < sizeof slips / sizeof *slips; i++)
        if (strlen(slips[i][0]) == token->length && memcmp(slips[i][0], text, token->length) == 0)
            return weir_query_fail(lexer, token->offset, token->length, "`%s` is no operator; write %s", quote.text, slips[i][1]);
    return weir_query_fail(lexer, token->offset, token->length, "`%s` is no operator; they are = != < <= > >= =~ ~=", quote.text);
}

static int bad_character(const struct weir_query_lexer *lexer, size_t at)
{
    const uint8_t *text = lexer->text + at;
    size_t length = weir_utf8_length((const char *)text, lexer->size - at);
    if (length == 0)
        return weir_query_fail(lexer, at, 1, "the byte 0x%02x is no UTF-8", *text);
    struct weir_query_quote quote = weir_query_quote(text, length);
    if (*text == '\'' || (length == 3 && text[0] == 0xe2 && text[1] == 0x80 && text[2] >= 0x98 && text[2] <= 0x9f))
        return weir_query_fail(lexer, at, length, "`%s` is no quote here: strings stand in \"double quotes\"", quote.text);
    if (*text < 0x20 || *text == 0x7f)
        return weir_query_fail(lexer, at, length, "the control character 0x%02x may only stand in a string", *text);
    return weir_query_fail(lexer, at, length, "`%s` means nothing in a query", quote.text);
}

int weir_query_token_next(struct weir_query_lexer *lexer, struct weir_query_token *token)
{
    const uint8_t *text = lexer->text;
    while (lexer->at < lexer->size && (text[lexer->at] == ' ' || text[lexer->at] == '\t' || text[lexer->at] == '\r' ||
                                       text[lexer->at] == '\n' || text[lexer->at] == ','))
        lexer->at++;
    *token = (struct weir_query_token){ .kind = WEIR_QUERY_TOKEN_END, .offset = lexer->at };
    if (lexer->at == lexer->size)
        return 0;
    uint8_t c = text[lexer->at];
    if (c == '(' || c == ')') {
        token->kind = c == '(' ? WEIR_QUERY_TOKEN_OPEN : WEIR_QUERY_TOKEN_CLOSE;
        token->length = 1;
        lexer->at++;
        return 0;
    }
    if (c == '"')
        return take_string(lexer, token);
    if (is_operator_byte(c))
        return take_operator(lexer, token);
    if (name_character(lexer, lexer->at) > 0)
        return take_word(lexer, token);
    return bad_character(lexer, lexer->at);
}
