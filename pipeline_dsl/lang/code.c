/*
 * DESIGN: the story of a code says what the rule protects against, not what the message says again. Numbers are never given
 * to another rule; the gaps leave room for the verbs to come.
 */
#include "pipeline_dsl/lang/code.h"

#include <strings.h>

struct row {
    const char *name, *title, *story;
};

static const struct row rows[WEIR_CODE_COUNT] = {
    [WEIR_E001_NUL_BYTE] = {
        "E001", "the file has a NUL byte",
        "A pipeline file is text. A NUL byte says that this is another kind of file: a binary, UTF-16, or\n"
        "a text that was cut and padded by a crash. weir reads nothing after it rather than guess.\n",
    },
    [WEIR_E002_NOT_UTF8] = {
        "E002", "the file is not UTF-8",
        "Comments and strings may hold any character, as UTF-8. A byte that is none is usually Latin-1\n"
        "from an old editor: `iconv -f latin1 -t utf-8 FILE` converts it.\n",
    },
    [WEIR_E003_STRAY_BYTE] = {
        "E003", "a character that means nothing here",
        "Outside of comments and strings the language has names, numbers, strings and the marks { } ( ) ,\n"
        ". < > % and a \\ at the end of a line, which continues it. Typographic quotes and dashes from a\n"
        "word processor are the usual cause.\n",
    },
    [WEIR_E004_OPEN_STRING] = {
        "E004", "a string without its end",
        "A string ends on the line it begins on. \"...\" knows the escapes \\\" \\\\ \\n \\t; '...' takes\n"
        "everything as it is, which suits queries.\n",
    },
    [WEIR_E005_BAD_ESCAPE] = {
        "E005", "an unknown escape in a string",
        "\"...\" knows \\\" \\\\ \\n \\t and no others, so that a typing error is found here and not in a query\n"
        "at run time. A string with many backslashes reads better as '...', where they mean nothing.\n",
    },
    [WEIR_E010_UNEXPECTED] = {
        "E010", "something else was expected",
        "The words of a line come in a fixed order; the message says which word could have come at the\n"
        "carets. One line is one stage: a `\\` at the end continues it on the next.\n",
    },
    [WEIR_E011_UNKNOWN_WORD] = {
        "E011", "no line begins like this",
        "Outside of braces a line begins with `pool`, `pipeline` or `expect`:\n"
        "\n"
        "    pool workers threads 2\n"
        "    pipeline riemann { ... }\n"
        "    expect { ... }\n",
    },
    [WEIR_E012_UNKNOWN_VERB] = {
        "E012", "there is no such verb",
        "Each line of a pipeline is one stage and begins with its verb:\n"
        "listen frame decode encode handoff index filter batch forward store busy call tee then reply drop.\n"
        "To add a stage of your own, write it in C and name it with `call \"file.c\" function`.\n",
    },
    [WEIR_E013_NOT_BUILT] = {
        "E013", "this version of weir doesn't build that yet",
        "The language is larger than what this version builds. It builds servers from pipelines; what binds a\n"
        "file to a server that already runs is known and not built: `process`, `stage NAME at`, `queue NAME\n"
        "push`, and pools that match threads by name. `weir fmt` knows the whole language.\n",
    },
    [WEIR_E014_BAD_NAME] = {
        "E014", "that can't be a name",
        "A name begins with a letter, goes on with letters, digits and single underscores, and has at\n"
        "most 63 bytes. Each stage becomes the function PIPELINE__STAGE in the server, which every\n"
        "profiler shows: therefore no double underscore.\n",
    },
    [WEIR_E015_BAD_SIZE] = {
        "E015", "that is not a size",
        "A size is a whole number with its unit behind it, without a blank: B, KiB, MiB or GiB. The unit\n"
        "is never left out, since `limit 64` could mean anything; MB and M are not taken, since half of\n"
        "the world means 1000 by them.\n",
    },
    [WEIR_E016_BAD_DURATION] = {
        "E016", "that is not a duration",
        "A duration is a whole number with its unit behind it, without a blank: ns, us, ms, s, min or h.\n",
    },
    [WEIR_E017_BAD_NUMBER] = {
        "E017", "a number out of its range",
        "The message says what the number may be. Sizes and durations must fit 64 bits: a number that\n"
        "doesn't is never cut, so that `limit 99999999999GiB` can't become a small queue.\n",
    },
    [WEIR_E018_BAD_ADDRESS] = {
        "E018", "that is not an address",
        "An address is a host and a port: 127.0.0.1:5555, [::1]:5555, localhost:5555. An IPv6 address\n"
        "stands in brackets, since it has colons of its own. Port 0 lets the kernel choose; the server\n"
        "prints the one it got.\n",
    },
    [WEIR_E019_BRACES] = {
        "E019", "a brace is missing or left over",
        "`pipeline NAME {` and `expect {` end with a `}` on a line of its own. After the first brace that\n"
        "doesn't fit, weir says nothing about the others, since they would only be its echo.\n",
    },
    [WEIR_E020_TWICE] = {
        "E020", "a clause that was said before",
        "Each clause of a `handoff` comes once. Two limits contradict each other, or one of them is\n"
        "forgotten.\n",
    },
    [WEIR_E021_MISSING_CLAUSE] = {
        "E021", "a clause that must be there is missing",
        "What must be thought about has no default. How much may wait in a queue, and what happens when\n"
        "it is full, are the two decisions that most often turn out wrong in production; a queue without\n"
        "a bound is how a fast client and a slow stage fill the heap. `frame` needs `max` since a peer's\n"
        "four bytes must never decide how much memory is taken.\n",
    },
    [WEIR_E022_EMPTY_FILE] = {
        "E022", "the file has no pipeline",
        "The least that makes a server is one pool and one pipeline that listens:\n"
        "\n"
        "    pool io threads 1\n"
        "\n"
        "    pipeline hello {\n"
        "        listen tcp 127.0.0.1:5555 on io\n"
        "        frame  length32 max 1MiB\n"
        "        decode riemann\n"
        "        encode riemann\n"
        "        reply\n"
        "    }\n",
    },
    [WEIR_E030_NAME_TAKEN] = {
        "E030", "that name is taken",
        "Pools and pipelines share one name space, so that a name in a report or an expectation means one\n"
        "thing.\n",
    },
    [WEIR_E031_STAGE_TAKEN] = {
        "E031", "two stages of one name",
        "A stage is named by its verb, or by `as`. Its full name PIPELINE.STAGE is how reports, graphs\n"
        "and expectations speak of it, so the second use of a verb in a pipeline needs a name of its own:\n"
        "`busy 10us as parse`.\n",
    },
    [WEIR_E032_NO_POOL] = {
        "E032", "there is no such pool",
        "`on NAME` and `handoff NAME` name a pool of the file: `pool workers threads 2`. It may stand\n"
        "anywhere in it.\n",
    },
    [WEIR_E033_NO_STAGE] = {
        "E033", "an expectation about something that isn't there",
        "An expectation speaks of a stage (`riemann.handoff`), a pipeline (`riemann`) or a pool (`pool\n"
        "workers`). One that names nothing would pass for ever, and guard nothing.\n",
    },
    [WEIR_E034_ADDRESS_TAKEN] = {
        "E034", "two listeners on one address",
        "The second could not be bound. A server binds everything before it accepts anything, so it would\n"
        "not start at all.\n",
    },
    [WEIR_E035_NO_PIPELINE] = {
        "E035", "there is no such pipeline",
        "`then NAME` and `tee NAME` name a pipeline of the file that has no `listen` of its own. It may stand\n"
        "anywhere in it.\n",
    },
    [WEIR_E040_LISTEN_FIRST] = {
        "E040", "`listen` must come first",
        "A pipeline begins where its messages come in. What stands above `listen` could never run.\n",
    },
    [WEIR_E041_LISTEN_TWICE] = {
        "E041", "a second `listen`",
        "A pipeline has one way in. Two listeners are two pipelines; they can share what follows by going\n"
        "on in one tail.\n",
    },
    [WEIR_E042_NO_END] = {
        "E042", "nothing finishes the item",
        "The last line says what becomes of an item: `reply` answers it, `drop` ends it, `then NAME` goes\n"
        "on elsewhere. An item that nobody finishes would hold its memory, and its place in the order of\n"
        "replies, for ever.\n",
    },
    [WEIR_E043_AFTER_END] = {
        "E043", "a stage after the end",
        "After `reply`, `drop` or `then` there is no item any more that a stage could work on.\n",
    },
    [WEIR_E044_NEEDS_FRAME] = {
        "E044", "a stream that nobody cut into messages",
        "TCP is a stream of bytes without borders. `frame length32 max SIZE` cuts it into messages;\n"
        "before that there is nothing to decode, hand over or count.\n",
    },
    [WEIR_E045_NEEDS_DECODE] = {
        "E045", "bytes where a message is needed",
        "`index` and `encode` work on events. Before `decode` an item is a run of bytes, which is a good\n"
        "place for a handoff, and for little else.\n",
    },
    [WEIR_E046_DONE_BEFORE] = {
        "E046", "that was done before",
        "A message is framed, decoded and encoded once, in this order, and what needs its events stands\n"
        "between `decode` and `encode`.\n",
    },
    [WEIR_E047_NEEDS_ENCODE] = {
        "E047", "a reply without its bytes",
        "`reply` writes what `encode` made. A protocol with replies needs one: `encode riemann` turns\n"
        "what the stages above found (ok, an error, or events) into the bytes that the client waits for.\n",
    },
    [WEIR_E048_REPLY_OWED] = {
        "E048", "a request that would never be answered",
        "Riemann over TCP owes one reply for each request, in order, and has no numbers to match them by.\n"
        "If one is missing, each later reply is taken for the answer to the request before, and the\n"
        "client's last one waits for ever.\n",
    },
    [WEIR_E049_NO_LISTENER] = {
        "E049", "nothing listens",
        "A pipeline without `listen` is a tail that others reach by `then` or `tee`. A file with only\n"
        "tails makes no server.\n",
    },
    [WEIR_E050_ENTERS_LISTENER] = {
        "E050", "a pipeline that listens can't be entered by others",
        "Its first stages stand on the bytes of a connection, and whoever reads the file takes it that all of\n"
        "its items came in by its own listener. What several ways in share is a tail, a pipeline without\n"
        "`listen`:\n"
        "\n"
        "    pipeline tcp   { listen tcp ... then core }\n"
        "    pipeline local { listen unix ... then core }\n"
        "    pipeline core  { index ... reply }\n",
    },
    [WEIR_E051_CIRCLE] = {
        "E051", "pipelines that lead in a circle",
        "An item that follows `then` or `tee` round a circle never ends, and with `tee` it multiplies.\n",
    },
    [WEIR_E052_FORMS_DIFFER] = {
        "E052", "a tail that is entered in different forms",
        "All that enters a tail must have come equally far: bytes that are to be decoded there, or messages\n"
        "that are. A tail that begins with `decode` can't take messages, and one that begins with `index`\n"
        "can't take bytes. Decode in the pipelines that listen, or in the tail, but the same for all.\n",
    },
    [WEIR_E053_BATCH_OWED] = {
        "E053", "a batch of requests that are owed a reply",
        "`batch` makes one item of many, so that only one reply could be sent for all of them. Riemann over\n"
        "TCP owes one for each request. Batch what a `tee` copies, which owes none, or what comes in by UDP or\n"
        "as Graphite.\n",
    },
    [WEIR_E054_TOO_MANY_WAYS] = {
        "E054", "more ways through tails than can be told apart",
        "Each stage of a shared tail is measured once for each way in, and there are 65,000 numbers for that.\n",
    },
    [WEIR_E055_WRONG_CODEC] = {
        "E055", "a codec that doesn't go with the frame",
        "Riemann sends frames with a 4-byte length in front, Graphite sends lines. One cut as the other gives\n"
        "only garbage:\n"
        "\n"
        "    frame  length32 max 16MiB          frame  lines max 4KiB\n"
        "    decode riemann                     decode graphite\n",
    },
    [WEIR_E056_NOT_THIS_LISTENER] = {
        "E056", "a clause that this kind of listener can't have",
        "`tls` needs a stream over the network: `listen tcp`. `allow` asks for the peer's address, which a\n"
        "local socket's peer hasn't got: there the permissions of its file say who may come.\n",
    },
    [WEIR_E057_SEVERAL_POOLS] = {
        "E057", "a pool of slots that several pools of threads share",
        "A thread of `forward` and `store` waits for a slot only, and what is finished comes back to its pool: that\n"
        "each thread goes on with it before it takes anything new is what bounds the queue there. The threads\n"
        "of another pool would fill it without a bound. One handoff at the top of the tail brings all of them\n"
        "to one pool.\n",
    },
    [WEIR_E060_OWN_POOL] = {
        "E060", "a handoff to its own pool",
        "It would cost a queue and gain nothing, since the same threads go on. With `full block` it would\n"
        "also lock up: when the queue is full, all the threads that could empty it wait for room in it.\n",
    },
    [WEIR_E061_POOL_LISTENS] = {
        "E061", "a pool that listens and takes handoffs",
        "The threads of a listening pool wait for sockets; those of a worker pool wait for a queue. A\n"
        "thread can't wait for both, and a stage that works there would keep every connection waiting.\n",
    },
    [WEIR_E062_LIMIT_TOO_SMALL] = {
        "E062", "an item that the queue can never take",
        "An item is admitted when what waits plus its size is at most the limit. One that is larger than\n"
        "the limit by itself would wait for ever (`full block`) or always be refused, and whoever tests\n"
        "with small messages never sees it. The largest item is the frame's `max` before `decode`, and\n"
        "decode's `max` (64 MiB unless said) after it.\n",
    },
    [WEIR_E063_SIZED_BEFORE_DECODE] = {
        "E063", "sized by a message that doesn't exist yet",
        "`arena`, `typed` and `reflect` measure a decoded message. Before `decode` an item is bytes,\n"
        "whose size is known at no cost: `sized bytes`, which is the default there. It is also why the\n"
        "best place of a handoff is above `decode`.\n",
    },
    [WEIR_E064_CYCLE] = {
        "E064", "a cycle of blocking queues",
        "Each pool in the cycle waits for room in the next one's queue when it is full. Once all of them\n"
        "are full none can move: the server stands still, at full load first. One queue of the cycle must\n"
        "be able to say no (`full reject` or `full drop`).\n",
    },
    [WEIR_E070_BAD_QUERY] = {
        "E070", "that is no query",
        "A filter speaks the language of Riemann's queries, as an index does:\n"
        "\n"
        "    filter 'state = \"critical\" or service =~ \"disk%\" and not tagged \"test\"'\n"
        "    filter 'metric >= 0.95 and host ~= \"^web\\\\d+$\" and (ttl = nil or ttl > 10)'\n"
        "\n"
        "`not` binds closer than `and`, `and` closer than `or`. Fields are host service state description\n"
        "metric tags time ttl; any other name is an attribute. `=` is strict: the integer 1 is not 1.0, nil\n"
        "is not \"\". < <= > >= take a number on the right and are false for what is none. =~ takes the whole\n"
        "text, with % for any run in it; ~= finds a regular expression anywhere.\n"
        "\n"
        "Where Riemann ignores what it can't read, weir says so: the query must be read to its end, NOT and\n"
        "== are errors, and operators need no blanks around them. An escape in a query's string is EDN's, so\n"
        "that a regular expression has \\\\d for a digit. A query has at most 64 KiB, 1024 comparisons and 200\n"
        "parentheses in each other; a message on which a regular expression takes too many steps is answered\n"
        "as an error, since neither a match nor none would be true.\n",
    },
    [WEIR_E080_BAD_REFERENCE] = {
        "E080", "a metric that this thing doesn't have",
        "cpu, under                  a stage, a part of a handoff (size, push, pop) or of a reply (push,\n"
        "                            pop), a pipeline, a pool\n"
        "wait, wakeup, depth, fill   a queue: a handoff, or the ring of a reply\n"
        "service                     a stage\n"
        "throughput                  a stage, a pipeline\n"
        "starved                     a pool\n"
        "drops                       a handoff, a pipeline\n",
    },
    [WEIR_E081_BAD_UNIT] = {
        "E081", "a value in the wrong unit",
        "cpu, under, fill, starved    a share: 5%\n"
        "wait, wakeup, service        a duration: 20ms, 1.5us\n"
        "depth                        items: 100, or bytes: 1MiB\n"
        "throughput                   200000/s\n"
        "drops                        a count: 0, a rate: 10/s, or a share of what was offered: 1%\n",
    },
    [WEIR_E082_BAD_STATISTIC] = {
        "E082", "a statistic that the metric doesn't have",
        "wait, wakeup, depth, fill and service are measured item by item or over time, so they have mean,\n"
        "p50, p90, p99, p999 and max. cpu, under, throughput, starved and drops are one figure for the\n"
        "window: they have no percentile.\n",
    },
    [WEIR_E083_OUT_OF_RANGE] = {
        "E083", "an expectation that says nothing",
        "A share is between 0 % and 100 %. `cpu(x) < 150%` would pass whatever happens: it looks like a\n"
        "guard, and is none.\n",
    },
    [WEIR_E084_NOT_MEASURED] = {
        "E084", "an expectation about something that never runs",
        "Nothing enters this pipeline, so nothing of it is ever measured. An expectation that can't fail\n"
        "guards nothing, and one that is never measured would make every check inconclusive.\n",
    },
    [WEIR_W101_REFLECT] = {
        "W101", "each message is walked to guess its size",
        "A Riemann server once placed its handoff below the decoder. Its queue was bounded by memory, so\n"
        "each decoded message was walked by reflection to guess its size, and that was 38 % of all CPU.\n"
        "Moving the handoff one line up, where the size of the bytes is known, doubled the throughput and\n"
        "halved the latency. It took 15 hours to find.\n"
        "\n"
        "    handoff workers limit 64MiB full block     # above decode: sized by bytes, at no cost\n"
        "    decode  riemann\n"
        "\n"
        "Where it must stay below: `sized arena`, which knows the memory a message took without looking\n"
        "at it.\n",
    },
    [WEIR_W102_BLOCKS_LISTENER] = {
        "W102", "a stage that can block on a pool that listens",
        "While a listening thread sleeps it reads no socket: all its connections wait, not only the one\n"
        "whose message it is. Hand off to a pool of workers first.\n",
    },
    [WEIR_W103_FEW_SLOTS] = {
        "W103", "fewer slots than threads that want one",
        "connections x in_flight requests can be under way. With fewer than the pool has threads, some\n"
        "always wait for a slot, without CPU, IO or memory being short. A metrics server once stopped\n"
        "scaling at 1,000 clients for this reason alone.\n",
    },
    [WEIR_W104_BLOCK_BEHIND_UDP] = {
        "W104", "`full block` behind a datagram listener",
        "A stream can be stopped; a datagram can't. When the queue is full the listener stops reading,\n"
        "the socket's buffer fills, and the kernel drops instead: whichever datagrams come just then, in no\n"
        "stage that the picture shows. The way in counts them as `kernel_drops`. `full drop newest` drops\n"
        "where it belongs, at the queue.\n",
    },
    [WEIR_W105_UNUSED] = {
        "W105", "a pool that nothing uses, or a tail that nothing enters",
        "A pool without work still costs its threads, and usually means that a `handoff` names another by\n"
        "mistake. A pipeline without `listen` only runs when another goes on in it by `then` or `tee`;\n"
        "weir checks it, and leaves it out.\n",
    },
    [WEIR_W106_BYTES_AFTER_DECODE] = {
        "W106", "a decoded message sized by its bytes",
        "A decoded message can take 84 times the memory of its frame (two bytes make an empty event of\n"
        "168), so a queue that counts bytes of frames bounds nothing. `sized arena` counts what the\n"
        "message really holds, at no cost.\n",
    },
    [WEIR_W107_OPEN_LISTENER] = {
        "W107", "a listener that others can reach",
        "Riemann's protocol has no log-in: who reaches the port can write and query. Off the loopback\n"
        "interface a listener wants TLS with client certificates, or `allow`, or a firewall that you have\n"
        "thought about.\n",
    },
    [WEIR_W108_PASSWORD] = {
        "W108", "a password in the file",
        "Pipeline files are committed, and their text is part of the server's executable. Leave the password\n"
        "out and set PGPASSWORD or PGPASSFILE, or name a service of pg_service.conf: \"service=metrics\".\n",
    },
    [WEIR_W109_MANY_THREADS] = {
        "W109", "more threads than a tracer can see",
        "A server shows 256 of its threads to a tracer. The others work like all the rest, but nobody sees\n"
        "what they do: every profile is called lossy, and `weir check` can't tell. Threads beyond a few per\n"
        "CPU rarely help; a stage that waits wants more slots, not more threads.\n",
    },
    [WEIR_W110_NO_FILE] = {
        "W110", "a file of `tls` that can't be read here",
        "The server reads its certificate, its key and its clients' authorities when it starts, and does not\n"
        "start without them. Paths are relative to the pipeline file. Where the server will run on another\n"
        "machine, this is no mistake.\n",
    },
};

const char *weir_code_name(enum weir_code code)
{
    return (unsigned)code < WEIR_CODE_COUNT ? rows[code].name : "?";
}

const char *weir_code_title(enum weir_code code)
{
    return (unsigned)code < WEIR_CODE_COUNT ? rows[code].title : "?";
}

const char *weir_code_story(enum weir_code code)
{
    return (unsigned)code < WEIR_CODE_COUNT ? rows[code].story : "?";
}

bool weir_code_warns(enum weir_code code)
{
    return weir_code_name(code)[0] == 'W';
}

enum weir_code weir_code_find(const char *name)
{
    for (unsigned i = 0; i < WEIR_CODE_COUNT; i++)
        if (strcasecmp(rows[i].name, name) == 0)
            return (enum weir_code)i;
    return WEIR_CODE_COUNT;
}
