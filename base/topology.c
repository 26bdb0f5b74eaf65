#include "base/topology.h"

static const char *const verbs[WEIR_VERB_COUNT] = {
    "listen", "frame", "decode", "encode", "handoff", "index", "filter", "batch",
    "forward", "store", "busy", "call", "tee", "then", "reply", "drop",
};

const char *weir_verb_name(enum weir_verb_kind verb)
{
    return (unsigned)verb < WEIR_VERB_COUNT ? verbs[verb] : "?";
}

const char *weir_sized_name(enum weir_sized sized)
{
    static const char *const names[] = { "bytes", "arena", "typed", "reflect" };
    return (unsigned)sized < sizeof names / sizeof *names ? names[sized] : "?";
}

const char *weir_full_name(enum weir_full full)
{
    static const char *const names[] = { "block", "reject", "drop newest", "drop oldest" };
    return (unsigned)full < sizeof names / sizeof *names ? names[full] : "?";
}

const char *weir_part_name(enum weir_part part)
{
    static const char *const names[] = { "", "size", "push", "pop" };
    return (unsigned)part < sizeof names / sizeof *names ? names[part] : "?";
}
