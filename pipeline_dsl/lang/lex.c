#include "pipeline_dsl/lang/lex.h"

#include <string.h>

#include "base/utf8.h"


void weir_lexer_init(struct weir_lexer *lexer, struct weir_diag_bag *bag, struct weir_arena *arena)
{
    *lexer = (struct weir_lexer){ .source = &bag->source, .bag = bag, .arena = arena };
    lexer->comments_end = &lexer->comments;
}

/* Not <ctype.h>: the language doesn't change with the locale. */
static bool is_digit(int c)
{
    return c >= '0' && c <= '9';
}

static bool is_word(int c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || is_digit(c);
}

static int peek(const struct weir_lexer *lexer, size_t ahead)
{
    size_t at = lexer->offset + ahead;
    return at < lexer->source->length ? (unsigned char)lexer->source->text[at] : -1;
}

bool weir_lexer_check_text(struct weir_diag_bag *bag)
{
    const struct weir_source *source = &bag->source;
    const unsigned char *text = (const unsigned char *)source->text;
    const char *nul = memchr(source->text, 0, source->length);
    if (nul) {
        struct weir_diag *diag = weir_diag_add(bag, WEIR_E001_NUL_BYTE, (struct weir_span){ (size_t)(nul - source->text), 1 },
                                               "a pipeline file is text, and here is a NUL byte");
        bool utf16 = source->length > 1 && ((text[0] == 0xff && text[1] == 0xfe) || (text[0] == 0xfe && text[1] == 0xff));
        if (utf16)
            weir_diag_hint(bag, diag, "the file looks like UTF-16: save it as UTF-8");
        return false;
    }
    for (size_t i = 0; i < source->length;) {
        size_t length = weir_utf8_length(source->text + i, source->length - i);
        if (length == 0) {
            struct weir_diag *diag =
                weir_diag_add(bag, WEIR_E002_NOT_UTF8, (struct weir_span){ i, 1 }, "byte 0x%02x is not UTF-8 here", text[i]);
            weir_diag_hint(bag, diag, "save the file as UTF-8, or convert it with iconv");
            return false;
        }
        i += length;
    }
    return true;
}

static struct weir_token bad(struct weir_lexer *lexer, size_t length)
{
    struct weir_token token = { WEIR_TOKEN_BAD, { lexer->offset, length } };
    lexer->offset += length;
    return token;
}

static void keep_comment(struct weir_lexer *lexer)
{
    size_t begin = lexer->offset;
    while (peek(lexer, 0) != -1 && peek(lexer, 0) != '\n')
        lexer->offset++;
    size_t end = lexer->offset;
    while (end > begin && strchr(" \t\r", lexer->source->text[end - 1]))
        end--;
    struct weir_comment *comment = weir_arena_zalloc(lexer->arena, sizeof *comment);
    if (!comment) {
        lexer->bag->failed = true;
        return;
    }
    comment->span = (struct weir_span){ begin, end - begin };
    *lexer->comments_end = comment;
    lexer->comments_end = &comment->next;
}

/* The length of a `\`, the blanks behind it and the end of the line; 0 when something else follows. */
static size_t continuation(const struct weir_lexer *lexer)
{
    size_t length = 1;
    while (peek(lexer, length) == ' ' || peek(lexer, length) == '\t' || peek(lexer, length) == '\r')
        length++;
    if (peek(lexer, length) == '\n')
        return length + 1;
    return peek(lexer, length) == -1 ? length : 0;
}

static void skip_blanks(struct weir_lexer *lexer)
{
    for (;;) {
        int c = peek(lexer, 0);
        if (c == ' ' || c == '\t' || (c == '\r' && (peek(lexer, 1) == '\n' || peek(lexer, 1) == -1)))
            lexer->offset++;
        else if (c == '\\' && continuation(lexer))
            lexer->offset += continuation(lexer);
        else if (c == '#')
            keep_comment(lexer);
        else
            return;
    }
}

static struct weir_token take(struct weir_lexer *lexer, enum weir_token_kind kind, size_t length)
{
    struct weir_token token = { kind, { lexer->offset, length } };
    lexer->offset += length;
    return token;
}

/* NUMBER = INT [ "." INT ] and whatever unit stands behind it: the parser knows which units are right where. */
static struct weir_token lex_number(struct weir_lexer *lexer)
{
    size_t length = 0;
    while (is_digit(peek(lexer, length)))
        length++;
    if (peek(lexer, length) == '.' && is_digit(peek(lexer, length + 1)))
        for (length++; is_digit(peek(lexer, length));)
            length++;
    if (peek(lexer, length) == '%')
        return take(lexer, WEIR_TOKEN_NUMBER, length + 1);
    if (peek(lexer, length) == '/' && is_word(peek(lexer, length + 1)))
        length++;
    while (is_word(peek(lexer, length)))
        length++;
    return take(lexer, WEIR_TOKEN_NUMBER, length);
}

/* STR = '"' … '"' with the escapes \" \\ \n \t, or "'" … "'" raw. */
static struct weir_token lex_string(struct weir_lexer *lexer)
{
    int quote = peek(lexer, 0);
    size_t length = 1;
    bool good = true;
    while (peek(lexer, length) != quote) {
        int c = peek(lexer, length);
        if (c == -1 || c == '\n') {
            if (peek(lexer, length - 1) == '\r')
                length--;
            if (!lexer->quiet) {
                struct weir_diag *diag =
                    weir_diag_add(lexer->bag, WEIR_E004_OPEN_STRING, (struct weir_span){ lexer->offset, length },
                                  "this string has no end on its line");
                weir_diag_hint(lexer->bag, diag, "close it with %c", quote);
            }
            return bad(lexer, length);
        }
        if (c == '\\' && quote == '"') {
            int escape = peek(lexer, length + 1);
            if (escape != '"' && escape != '\\' && escape != 'n' && escape != 't') {
                if (good && !lexer->quiet && escape != '\n' && escape != -1) {
                    struct weir_diag *diag =
                        weir_diag_add(lexer->bag, WEIR_E005_BAD_ESCAPE, (struct weir_span){ lexer->offset + length, 2 },
                                      "a string knows the escapes \\\" \\\\ \\n \\t and no others");
                    weir_diag_hint(lexer->bag, diag, "write \\\\ for a backslash, or quote the string with ' instead of \"");
                }
                good = good && (escape == '\n' || escape == -1);
                length++;
                continue;
            }
            length++;
        }
        length++;
    }
    return good ? take(lexer, WEIR_TOKEN_STRING, length + 1) : bad(lexer, length + 1);
}

/* What people write from other habits, or what an editor made of it. */
static const struct {
    const char *bytes, *hint;
} habits[] = {
    { "\u201c", "it looks like \", but is another character; write \"" },
    { "\u201d", "it looks like \", but is another character; write \"" },
    { "\u201e", "it looks like \", but is another character; write \"" },
    { "\u2018", "it looks like ', but is another character; write '" },
    { "\u2019", "it looks like ', but is another character; write '" },
    { "\u2264", "write <=" },
    { "\u2265", "write >=" },
    { "\u00a0", "it looks like a blank, but is another character; write a blank" },
    { ";", "a line needs no mark at its end; remove it" },
    { "/", "a comment begins with #, and a path stands in double quotes" },
    { "=", "values are compared with < <= > >=; clauses are separated by blanks alone" },
    { "&", "write `and`" },
    { "|", "write `or`" },
    { "-", "names are made of the letters a to z and A to Z, digits, and _" },
    { "[", "brackets stand only around the IPv6 address of a `listen tcp`" },
};

static struct weir_token lex_stray(struct weir_lexer *lexer)
{
    const unsigned char *at = (const unsigned char *)lexer->source->text + lexer->offset;
    size_t length = weir_utf8_length((const char *)at, lexer->source->length - lexer->offset);
    if (length == 0)
        length = 1;
    if (!lexer->quiet) {
        struct weir_span span = { lexer->offset, length };
        struct weir_diag *diag;
        if (at[0] == '\\')
            diag =
                weir_diag_add(lexer->bag, WEIR_E003_STRAY_BYTE, span, "a `\\` continues a line only as the last character of it");
        else if (at[0] == '-' && is_digit(peek(lexer, 1)))
            diag = weir_diag_add(lexer->bag, WEIR_E017_BAD_NUMBER, span, "there are no negative numbers in this language");
        else if (at[0] < 0x20 || at[0] == 0x7f)
            diag = weir_diag_add(lexer->bag, WEIR_E003_STRAY_BYTE, span, "the control byte 0x%02x means nothing here", at[0]);
        else
            diag =
                weir_diag_add(lexer->bag, WEIR_E003_STRAY_BYTE, span, "'%.*s' means nothing here", (int)length, (const char *)at);
        if (at[0] >= 0x80)
            weir_diag_hint(lexer->bag, diag, "names are made of the letters a to z and A to Z, digits, and _");
        bool number = at[0] == '-' && is_digit(peek(lexer, 1));
        for (size_t i = 0; i < sizeof habits / sizeof *habits && !number; i++)
            if (strlen(habits[i].bytes) == length && memcmp(at, habits[i].bytes, length) == 0)
                weir_diag_hint(lexer->bag, diag, "%s", habits[i].hint);
    }
    return bad(lexer, length);
}

struct weir_token weir_lexer_next(struct weir_lexer *lexer)
{
    skip_blanks(lexer);
    int c = peek(lexer, 0);
    if (c == -1)
        return take(lexer, WEIR_TOKEN_END, 0);
    if (c == '\n')
        return take(lexer, WEIR_TOKEN_NEWLINE, 1);
    if (is_digit(c))
        return lex_number(lexer);
    if (is_word(c)) {
        size_t length = 1;
        while (is_word(peek(lexer, length)))
            length++;
        return take(lexer, WEIR_TOKEN_WORD, length);
    }
    if (c == '"' || c == '\'')
        return lex_string(lexer);
    if (c == '<' || c == '>')
        return take(lexer, WEIR_TOKEN_MARK, peek(lexer, 1) == '=' ? 2 : 1);
    if (strchr("{}(),.", c))
        return take(lexer, WEIR_TOKEN_MARK, 1);
    return lex_stray(lexer);
}

struct weir_token weir_lexer_raw(struct weir_lexer *lexer)
{
    skip_blanks(lexer);
    size_t length = 0;
    for (int c; (c = peek(lexer, length)) != -1 && c != ' ' && c != '\t' && c != '\n' && c != '\r';)
        length++;
    return length ? take(lexer, WEIR_TOKEN_RAW, length) : weir_lexer_next(lexer);
}

char *weir_lexer_string(const struct weir_source *source, struct weir_span span, struct weir_arena *arena)
{
    char *text = weir_arena_alloc(arena, span.length + 1);
    if (!text)
        return NULL;
    const char *from = source->text + span.offset;
    size_t used = 0;
    for (size_t i = 1; i + 1 < span.length; i++) {
        if (from[0] == '"' && from[i] == '\\') {
            i++;
            text[used++] = from[i] == 'n' ? '\n' : from[i] == 't' ? '\t' : from[i];
        } else {
            text[used++] = from[i];
        }
    }
    text[used] = '\0';
    return text;
}
