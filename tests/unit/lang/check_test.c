/* Every rule and warning by its code and the words it points at. */
#include "tests/unit/lang/findings.h"

static void clean(void **state)
{
    (void)state;
    expect_findings(SERVER, "");
    expect_findings(SERVER_WITH("index\n", ""), "");
    expect_findings(SERVER_WITH("index ttl 5min limit 10\nbusy 10us pause 1ms\ncall 'x.c' _fn__1\n", ""), "");
    /* Keywords are contextual, and what is used may be defined later. */
    expect_findings(
        "pipeline tcp {\nlisten tcp localhost:0 on pool\nframe length32 max 1KiB\nhandoff frame limit 1KiB full reject as as\n"
        "decode riemann as max\nencode riemann\nreply\n}\npool pool threads 1\npool frame threads 1\n"
        "expect {\ncpu(tcp.as) < 1%\ncpu(tcp.max) < 1%\nstarved(pool pool) < 1%\n}\n",
        "");
}

static void names(void **state)
{
    (void)state;
    expect_findings(POOLS "pool io threads 3\n" HEAD HANDOFF "decode riemann\n" TAIL, "E030:io");
    expect_findings(SERVER "pool p threads 1\n", "E030:p");
    expect_findings(SERVER HEAD "decode riemann\n" TAIL, "E030:p E034:127.0.0.1:5555");
    expect_findings(SERVER_WITH("busy 1us\nbusy 2us\nbusy 3us as busy2\nbusy 4us as busy\n", ""), "E031:busy E031:busy");
    expect_findings(POOLS HEAD "handoff workes limit 64MiB full block\ndecode riemann\n" TAIL, "E032:workes");
    expect_findings(POOLS HEAD "handoff p limit 64MiB full block\ndecode riemann\n" TAIL, "E032:p");
    expect_findings("pool io threads 1\npipeline p {\nlisten tcp 127.0.0.1:1 on oi\nframe length32 max 1B\ndecode riemann\n" TAIL,
                    "E032:oi");
}

static void addresses(void **state)
{
    (void)state;
    static const struct {
        const char *address, *code; /* null: good */
    } rows[] = {
        { "127.0.0.1:5555", NULL },
        { "127.8.9.1:0", NULL },
        { "[::1]:65535", NULL },
        { "localhost:1", NULL },
        { "LOCALHOST:1", NULL },
        { "0.0.0.0:1", "W107" },
        { "[::]:1", "W107" },
        { "example.org:80", "W107" },
        { "a-b:1", "W107" },
        { "10.0.0.1:1", "W107" },
        { "127.0.0.1", "E018" },
        { "127.0.0.1:", "E018" },
        { ":1", "E018" },
        { "127.0.0.1:65536", "E018" },
        { "127.0.0.1:x", "E018" },
        { "300.1.1.1:1", "E018" },
        { "::1:1", "E018" },
        { "[::g]:1", "E018" },
        { "-a:1", "E018" },
        { "a_b:1", "E018" },
        { "127.0.0.1:99999999999999999999", "E018" },
        { "[]:1", "E018" },
        { "1:1", "E018" },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char text[512], expected[128] = "";
        snprintf(text, sizeof text,
                 "pool io threads 1\npipeline p {\nlisten tcp %s on io\nframe length32 max 1MiB\ndecode riemann\n" TAIL,
                 rows[i].address);
        if (rows[i].code)
            snprintf(expected, sizeof expected, "%s:%s", rows[i].code, rows[i].address);
        expect_findings(text, expected);
    }
}

static void order(void **state)
{
    (void)state;
    expect_findings(POOLS "pipeline p {\nframe length32 max 1MiB\nlisten tcp 127.0.0.1:1 on io\n" HANDOFF "decode riemann\n" TAIL,
                    "E040:listen");
    expect_findings(POOLS HEAD "listen tcp 127.0.0.1:2 on io\n" HANDOFF "decode riemann\n" TAIL, "E041:listen");
    expect_findings(POOLS HEAD HANDOFF "decode riemann\nencode riemann\n}\n", "E042:encode riemann");
    expect_findings(SERVER "pipeline q {\n}\n", "E042:q");
    expect_findings(SERVER_WITH("encode riemann as e\nreply as r\nbusy 1us\n", ""), "E043:busy");
    expect_findings("pool io threads 1\npipeline p {\nlisten tcp 127.0.0.1:1 on io\ndecode riemann\n" TAIL, "E044:decode");
    expect_findings("pool io threads 1\npipeline p {\nlisten tcp 127.0.0.1:1 on io\nreply\n}\n", "E044:reply E047:reply");
    expect_findings(POOLS "pipeline p {\nlisten tcp 127.0.0.1:1 on io\n" HANDOFF "decode riemann\n" TAIL, "E044:handoff");
    expect_findings(POOLS HEAD HANDOFF "index\ndecode riemann\n" TAIL, "E045:index");
    expect_findings(POOLS HEAD HANDOFF TAIL, "E045:encode");
    expect_findings(SERVER_WITH("frame length32 max 1B\n", ""), "E046:frame");
    expect_findings(SERVER_WITH("encode riemann\nreply\n", ""), "E043:encode");
    expect_findings(SERVER_WITH("decode riemann as d2\n", ""), "E046:decode");
    expect_findings(SERVER_WITH("encode riemann as e2\n", ""), "E046:encode");
    expect_findings(SERVER_WITH("encode riemann as e2\nindex\nreply as r2\n}\n"
                                "pipeline q {\nlisten tcp 127.0.0.1:2 on io\n"
                                "frame length32 max 1B\ndecode riemann\n",
                                ""),
                    "E046:index");
    expect_findings(POOLS HEAD HANDOFF "decode riemann\nreply\n}\n", "E047:reply");
    expect_findings(POOLS HEAD HANDOFF "reply\n}\n", "E047:reply");
    expect_findings(POOLS HEAD HANDOFF "decode riemann\ndrop\n}\n", "E048:drop");
    expect_findings(POOLS "pipeline p {\nindex\ndrop\n}\n", "E049:p");
}

static void handoffs(void **state)
{
    (void)state;
    expect_findings(SERVER_WITH("handoff workers limit 64MiB full block as h2\n", ""), "E060:workers");
    expect_findings(SERVER_WITH("handoff io limit 64MiB full reject as h2\n", ""), "E061:io");
    expect_findings(POOLS HEAD "handoff workers full block\ndecode riemann\n" TAIL, "E021:handoff workers full block");
    expect_findings(POOLS HEAD "handoff workers limit 16MiB\ndecode riemann\n" TAIL, "E021:handoff workers limit 16MiB");
    expect_findings(POOLS HEAD "handoff workers\ndecode riemann\n" TAIL, "E021:handoff workers");
    expect_findings(POOLS HEAD "handoff workers limit 16MiB full block limit 1B\ndecode riemann\n" TAIL, "E020:limit");
    /* A limit equal to the largest item is legal; after decode the largest is decode's max, by bytes the frame's. */
    expect_findings(POOLS HEAD "handoff workers limit 16MiB full block\ndecode riemann\n" TAIL, "");
    expect_findings(POOLS HEAD "handoff workers limit 16777215B full block\ndecode riemann\n" TAIL, "E062:16777215B");
    expect_findings(POOLS HEAD "decode riemann\nhandoff workers limit 64MiB full block\n" TAIL, "");
    expect_findings(POOLS HEAD "decode riemann\nhandoff workers limit 63MiB full block\n" TAIL, "E062:63MiB");
    expect_findings(POOLS HEAD "decode riemann max 63MiB\nhandoff workers limit 63MiB full block\n" TAIL, "");
    expect_findings(POOLS HEAD "decode riemann\nhandoff workers limit 16MiB sized bytes full block\n" TAIL, "W106:sized bytes");
    expect_findings(POOLS HEAD "handoff workers limit 64MiB sized arena full block\ndecode riemann\n" TAIL, "E063:sized arena");
    expect_findings(POOLS HEAD "handoff workers limit 64MiB sized typed full block\ndecode riemann\n" TAIL, "E063:sized typed");
    expect_findings(POOLS HEAD "handoff workers limit 64MiB sized reflect full block\ndecode riemann\n" TAIL,
                    "E063:sized reflect");
    expect_findings(POOLS HEAD "handoff workers limit 64MiB sized bytes full block\ndecode riemann\n" TAIL, "");
    expect_findings(POOLS HEAD "decode riemann\nhandoff workers limit 64MiB sized typed full block\n" TAIL, "");
    expect_findings(POOLS HEAD "decode riemann\nhandoff workers limit 64MiB sized reflect full block\n" TAIL,
                    "W101:sized reflect");
}

static void cycles(void **state)
{
    (void)state;
#define THREE                                                                                                                    \
    "pool io threads 1\npool a threads 1\npool b threads 1\n" HEAD "decode riemann max 1KiB\nhandoff a limit 1MiB full block\n"
    expect_findings(THREE "handoff b limit 1MiB full block as h2\n" TAIL, "");
    expect_findings(THREE "handoff b limit 1MiB full block as h2\nhandoff a limit 1MiB full block as h3\n" TAIL,
                    "E064:full block");
    expect_findings(THREE "handoff b limit 1MiB full block as h2\nhandoff a limit 1MiB full reject as h3\n" TAIL, "");
    expect_findings(THREE "handoff b limit 1MiB full drop oldest as h2\nhandoff a limit 1MiB full block as h3\n" TAIL, "");
    /* Two pipelines make one together. */
    expect_findings(THREE "handoff b limit 1MiB full block as h2\n" TAIL
                          "pipeline q {\nlisten tcp 127.0.0.1:2 on io\nframe length32 max 1KiB\n"
                          "handoff b limit 1MiB full block\nhandoff a limit 1MiB full block as h2\ndecode riemann\n" TAIL,
                    "E064:full block");
}

static void warnings(void **state)
{
    (void)state;
    expect_findings(POOLS HEAD "decode riemann\ncall 'x.c' f\n" HANDOFF TAIL, "W102:call");
    expect_findings(POOLS HEAD "decode riemann\nbusy 1us pause 1us\n" HANDOFF TAIL, "W102:busy");
    expect_findings(POOLS HEAD "decode riemann\nbusy 1us pause 0us\n" HANDOFF TAIL, "");
    expect_findings(SERVER "pool spare threads 1\n", "W105:spare");
    expect_findings(SERVER "pool spare threads 1000\n", "W109:spare W105:spare");
    expect_findings(SERVER "pipeline t {\nindex\nreply\n}\n", "W105:t");
}

static void queries(void **state)
{
    (void)state;
    expect_findings(POOLS HEAD HANDOFF "decode riemann\nfilter 'state = \"ok\"'\n" TAIL, "");
    expect_findings(POOLS HEAD HANDOFF "filter 'state'\ndecode riemann\n" TAIL, "E045:filter");
    expect_findings(POOLS HEAD HANDOFF "decode riemann\nfilter 'state == 1'\nfilter 'metric > x' as f\n" TAIL, "E070:== E070:x");
    expect_findings(POOLS HEAD HANDOFF "decode riemann\nfilter \"\\\"\\\\\\\\\\\" == 1\"\n" TAIL, "E070:==");
    expect_findings(POOLS HEAD HANDOFF "decode riemann\nfilter ''\n" TAIL, "E070:'");
    expect_findings(POOLS HEAD HANDOFF "decode riemann\nfilter \"(a = \\\"b\"\n" TAIL, "E070:\\\"b");
    /* In a pipeline that has another mistake, too. */
    expect_findings(POOLS HEAD HANDOFF "decode riemann\nbusy 1\nfilter 'a b'\n" TAIL, "E016:1 E070:b");
}

#define TCP "listen tcp 127.0.0.1:1 on io\nframe length32 max 1MiB\n"
#define TCP2 "listen tcp 127.0.0.1:2 on io\nframe length32 max 1MiB\n"

static void tails(void **state)
{
    (void)state;
    expect_findings(POOLS "pipeline a {\n" TCP "then t\n}\npipeline b {\n" TCP2 "then t\n}\npipeline t {\n" HANDOFF
                          "decode riemann\nindex\n" TAIL, "");
    expect_findings(POOLS "pipeline a {\n" TCP HANDOFF "decode riemann\ntee t\n" TAIL "pipeline t {\nindex\ndrop\n}\n", "");
    /* names */
    expect_findings(POOLS "pipeline a {\n" TCP "then workers\n}\n", "E035:workers");
    expect_findings(POOLS "pipeline a {\n" TCP HANDOFF "then tail1\n}\npipeline tail {\ndecode riemann\n" TAIL, "E035:tail1");
    expect_findings(POOLS "pipeline a {\n" TCP HANDOFF "decode riemann\ntee b\n" TAIL "pipeline b {\n" TCP2 HANDOFF "decode riemann\n" TAIL,
                    "E050:b");
    /* circles */
    expect_findings(POOLS "pipeline a {\n" TCP HANDOFF "decode riemann\nthen t\n}\npipeline t {\nindex\nthen u\n}\n"
                          "pipeline u {\ntee t\n" TAIL, "E051:t");
    expect_findings(POOLS "pipeline a {\n" TCP HANDOFF "decode riemann\nthen t\n}\npipeline t {\nthen t\n}\n", "E051:t");
    /* forms */
    expect_findings(POOLS "pipeline a {\n" TCP "then t\n}\npipeline b {\n" TCP2 "decode riemann\nthen t\n}\npipeline t {\n" HANDOFF
                          "index\n" TAIL, "E052:t");
    expect_findings(POOLS "pipeline a {\n" TCP "then t\n}\npipeline t {\n" HANDOFF "index\n" TAIL, "E045:index");
    expect_findings(POOLS "pipeline a {\n" TCP "decode riemann\nthen t\n}\npipeline t {\ndecode riemann\n" HANDOFF "index\n" TAIL,
                    "E046:decode");
    expect_findings(POOLS "pipeline a {\nlisten tcp 127.0.0.1:1 on io\nthen t\n}\npipeline t {\n" HANDOFF "decode riemann\n" TAIL,
                    "E044:then");
    expect_findings(POOLS "pipeline a {\n" TCP "then t\n}\npipeline t {\nhandoff workers limit 1KiB full block\ndecode riemann\n" TAIL,
                    "E062:1KiB");
    expect_findings(POOLS "pipeline a {\nlisten udp 127.0.0.1:1 on io\nthen t\n}\npipeline t {\nframe length32 max 1KiB\n" HANDOFF
                          "decode riemann\ndrop\n}\n", "E046:frame W104:full block");
    expect_findings(POOLS "pipeline a {\nlisten udp 127.0.0.1:1 on io\nthen t\n}\npipeline t {\nhandoff workers limit 1KiB full block\n"
                          "decode riemann\ndrop\n}\n", "E062:1KiB W104:full block");
    /* replies */
    expect_findings(POOLS "pipeline a {\n" TCP HANDOFF "decode riemann\nthen t\n}\npipeline t {\ndrop\n}\n", "E048:drop");
    expect_findings(POOLS "pipeline a {\n" TCP HANDOFF "decode riemann\nthen t\n}\npipeline t {\nindex\nreply\n}\n", "E047:reply");
    expect_findings(POOLS "pipeline a {\n" TCP HANDOFF "decode riemann\nbatch 10 within 1s\n" TAIL, "E053:batch");
    expect_findings(POOLS "pipeline a {\n" TCP HANDOFF "decode riemann\nthen t\n}\npipeline t {\nbatch 10 within 1s\n" TAIL,
                    "E053:batch");
    expect_findings(POOLS "pipeline a {\n" TCP HANDOFF "decode riemann\ntee t\n" TAIL "pipeline t {\nbatch 10 within 1s\ndrop\n}\n", "");
    expect_findings(POOLS "pipeline a {\n" TCP HANDOFF "decode riemann\ntee t\n" TAIL "pipeline t {\nbatch 10 within 0s\ndrop\n}\n",
                    "E017:0s");
    /* pools: each way in brings its own */
    expect_findings(POOLS "pool io2 threads 1\npipeline a {\nlisten tcp 127.0.0.1:1 on io2\nframe length32 max 1MiB\nthen t\n}\n"
                          "pipeline b {\n" TCP2 HANDOFF "then t\n}\npipeline t {\n" HANDOFF "decode riemann\n" TAIL,
                    "E060:workers");
    expect_findings(POOLS "pool io2 threads 1\npipeline a {\n" TCP "decode riemann\nthen t\n}\n"
                          "pipeline b {\nlisten tcp 127.0.0.1:2 on io2\nframe length32 max 1MiB\n" HANDOFF "decode riemann\nthen t\n}\n"
                          "pipeline t {\ncall 'x.c' f\n" TAIL, "W102:call");
    expect_findings("pool io threads 1\npool x threads 1\npool y threads 1\npipeline a {\n" TCP "handoff x limit 1MiB full block\nthen t\n}\n"
                    "pipeline b {\n" TCP2 "then u\n}\npipeline t {\nhandoff y limit 1MiB full block\nthen u\n}\n"
                    "pipeline u {\nhandoff x limit 1MiB full block\ndecode riemann\n" TAIL, "E064:full block");
    expect_findings("pool x threads 1\n" POOLS "pipeline a {\n" TCP HANDOFF "decode riemann\ntee t\n" TAIL
                    "pipeline b {\n" TCP2 "handoff x limit 1MiB full block\ndecode riemann\ntee t\n" TAIL
                    "pipeline t {\nforward riemann h:1 connections 1 in_flight 2\ndrop\n}\n",
                    "E057:forward");
    expect_findings("pool x threads 1\n" POOLS "pipeline a {\n" TCP HANDOFF "decode riemann\ntee t\n" TAIL
                    "pipeline b {\n" TCP2 HANDOFF "decode riemann\ntee t\n" TAIL
                    "pipeline t {\nhandoff x limit 64MiB full block\nforward riemann h:1 connections 1 in_flight 2\ndrop\n}\n",
                    "");
    /* what nothing enters */
    expect_findings(SERVER "pipeline t {\nthen u\n}\npipeline u {\nindex\n" TAIL, "W105:t W105:u");
    expect_findings("pool io threads 1\npipeline t {\nthen u\n}\npipeline u {\nindex\n" TAIL, "E049:t");
}

static void slots(void **state)
{
    (void)state;
#define STORE(conninfo) "store postgres " conninfo " table t connections 1 in_flight 2\n"
    static const struct {
        const char *lines, *expected;
    } rows[] = {
        { "forward riemann 127.0.0.1:1 connections 1 in_flight 2\n", "" },
        { "store postgres 'dbname=x' table t create connections 1 in_flight 2 on_loss retry\n", "" },
        { "store postgres 'dbname=x' table t connections 4 in_flight 5000 on_loss report as db\n", "" },
        { "forward riemann h:1 connections 1 in_flight 1\n", "W103:1 in_flight 1" },
        { "forward riemann h:1 connections 2 in_flight 1\n", "" },
        { "forward riemann h connections 1 in_flight 2\n", "E018:h" },
        { "forward riemann h:0 connections 1 in_flight 2\n", "E018:h:0" },
        { "forward riemann h:1 connections 65535 in_flight 4294967295\n", "E017:65535 in_flight 4294967295" },
        { "forward riemann h:1 connections 0 in_flight 1\n", "E017:0" },
        { STORE("'host=h password=x'"), "W108:password=" },
        { STORE("'PASSWORD = x'"), "W108:PASSWORD =" },
        { STORE("'passfile=/p'"), "" },
        { STORE("'service=password'"), "" },
        { STORE("'postgres://u:geheim@h/db'"), "W108:geheim" },
        { STORE("'postgresql://u@h/db?x=1&password=y'"), "W108:password=" },
        { STORE("'postgres://u@h:1/db'"), "" },
    };
#undef STORE
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char text[1024];
        snprintf(text, sizeof text, POOLS HEAD HANDOFF "decode riemann\n%s" TAIL, rows[i].lines);
        expect_findings(text, rows[i].expected);
    }
    expect_findings(POOLS HEAD "decode riemann\nforward riemann h:1 connections 1 in_flight 1\n" HANDOFF TAIL, "W102:forward");
    expect_findings(POOLS HEAD HANDOFF "store postgres '' table t connections 1 in_flight 2\ndecode riemann\n" TAIL, "E045:store");
    expect_findings(SERVER_WITH("forward riemann h:1 connections 1 in_flight 2\n",
                                "expect {\nwait(p.forward) < 1ms\nfill(p.forward) < 50%\nstarved(pool workers) < 10%\n"
                                "cpu(p.forward.push) < 1%\n}\n"),
                    "");
    expect_findings(SERVER_WITH("forward riemann h:1 connections 1 in_flight 2\n",
                                "expect {\ncpu(p.forward.size) < 1%\ndrops(p.forward) < 1\n}\n"),
                    "E080:size E080:p.forward");
}

static void not_built(void **state)
{
    (void)state;
    static const struct {
        const char *lines, *expected;
    } rows[] = {
        { "stage x at fn\n", "E013:stage" },
        { "queue x push a pop b depth n\n", "E013:queue" },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char text[1024];
        snprintf(text, sizeof text, POOLS HEAD HANDOFF "decode riemann\n%s" TAIL, rows[i].lines);
        expect_findings(text, rows[i].expected);
    }
    expect_findings("process 'redis'\npool io matches 'a*', 'b'\npipeline p {\nstage x at fn\n}\n",
                    "E013:process 'redis' E013:matches 'a*', 'b' E013:stage");
}

/* Two mistakes are two findings, and nothing follows from either. */
static void no_cascade(void **state)
{
    (void)state;
    /* Three pipelines of one name, with the same stages. */
    expect_findings(
        "pool io threads 1\npipeline p {\nlisten tcp [::1]:0 on io\nframe length32 max 1B\ndecode riemann\nindex\n" TAIL
        "pipeline p {\nlisten tcp [::1]:0 on io\nframe length32 max 1B\ndecode riemann\nindex\n" TAIL
        "pipeline p {\nlisten tcp [::1]:0 on io\nframe length32 max 1B\ndecode riemann\nindex\n" TAIL
        "expect {\nwait(p.index) < 1s\n}\n",
        "E030:p E030:p E080:p.index");
    /* The `as` of a line with a mistake in front of it. */
    expect_findings(SERVER_WITH("busy 10 as x\nbusy 1us\n", ""), "E016:10");
    expect_findings(POOLS "pipeline p {\nlisten tcp 127.0.0.1:5555 on io\nframe length32\n" HANDOFF
                          "decode riemann\nbsy 1us\n" TAIL "expect {\ncpu(p.bsy) < 1%\ncpu(p.handof) < 1%\n}\n",
                    "E021:frame length32 E012:bsy");
    expect_findings("pool io threads 0\n" HEAD "decode riemann\n" TAIL, "E017:0");
    expect_findings("pol io threads 1\n" HEAD "decode riemann\n" TAIL, "E011:pol");
    expect_findings("#\n" HEAD "decode riemann\n" TAIL "pool workers threads 2", "E032:io");
    expect_findings(POOLS "pool workers2 threads 1\n" HEAD "handoff worker limit 64MiB full block\ndecode riemann\n" TAIL,
                    "E032:worker");
}

/* Each is an item, and no reply is owed. */
static void datagrams(void **state)
{
    (void)state;
#define UDP "pipeline p {\nlisten udp 127.0.0.1:5555 on io\n"
#define DROPS "handoff workers limit 64MiB full drop newest\n"
    expect_findings(POOLS UDP DROPS "decode riemann\nindex\ndrop\n}\n", "");
    expect_findings(POOLS UDP DROPS "decode riemann\nindex\nreply\n}\n", "");
    expect_findings(POOLS UDP DROPS "decode riemann\nindex\nencode riemann\nreply\n}\n", "");
    expect_findings(POOLS UDP HANDOFF "decode riemann\nindex\ndrop\n}\n", "W104:full block");
    expect_findings(POOLS UDP "frame length32 max 1KiB\n" DROPS "decode riemann\nindex\ndrop\n}\n", "E046:frame");
    expect_findings(POOLS UDP "handoff workers limit 16KiB full reject\ndecode riemann\nindex\ndrop\n}\n", "");
    expect_findings(POOLS UDP "handoff workers limit 16383B full reject\ndecode riemann\nindex\ndrop\n}\n", "E062:16383B");
    expect_findings(POOLS UDP DROPS "index\ndrop\n}\n", "E045:index");
    expect_findings(POOLS "pipeline p {\nlisten udp 0.0.0.0:5555 on io\n" DROPS "decode riemann\nindex\ndrop\n}\n",
                    "W107:0.0.0.0:5555");
    expect_findings(POOLS "pipeline p {\nlisten udp 127.0.0.1 on io\n" DROPS "decode riemann\nindex\ndrop\n}\n", "E018:127.0.0.1");
    /* The same port of TCP is another one. */
    expect_findings(SERVER "pipeline q {\nlisten udp 127.0.0.1:5555 on io\n" DROPS "decode riemann\ndrop\n}\n", "");
}

/* Bundled into items; no reply is owed. */
static void lines(void **state)
{
    (void)state;
#define STREAM "pipeline p {\nlisten tcp 127.0.0.1:2003 on io\n"
    expect_findings(POOLS STREAM "frame lines max 1KiB\n" HANDOFF "decode graphite\nindex\ndrop\n}\n", "");
    expect_findings(POOLS STREAM "frame lines max 1KiB\n" HANDOFF "decode graphite\nindex\nencode riemann\nreply\n}\n", "");
    expect_findings(POOLS STREAM "frame lines max 1KiB\nhandoff workers limit 16KiB full block\ndecode graphite\ndrop\n}\n", "");
    expect_findings(POOLS STREAM "frame lines max 1KiB\nhandoff workers limit 16383B full block\ndecode graphite\ndrop\n}\n",
                    "E062:16383B");
    expect_findings(POOLS STREAM "frame lines max 1MiB\nhandoff workers limit 1MiB full block\ndecode graphite\ndrop\n}\n", "E062:1MiB");
    expect_findings(POOLS STREAM "frame lines max 1KiB\n" HANDOFF "decode riemann\nindex\ndrop\n}\n", "E055:decode riemann");
    expect_findings(POOLS STREAM "frame length32 max 1KiB\n" HANDOFF "decode graphite\nindex\n" TAIL, "E055:decode graphite");
    expect_findings("pool io threads 1\n" STREAM "decode graphite\nindex\ndrop\n}\n", "E044:decode");
    expect_findings(POOLS STREAM "frame lines\n" HANDOFF "decode graphite\ndrop\n}\n", "E021:frame lines");
    expect_findings(POOLS STREAM "frame lines max 0B\n" HANDOFF "decode graphite\ndrop\n}\n", "E017:0B");
    expect_findings(POOLS STREAM "frame lines max 1KiB\ndecode graphite\nhandoff workers limit 64MiB sized reflect full block\ndrop\n}\n",
                    "E063:sized reflect");
    expect_findings(POOLS "pipeline p {\nlisten udp 127.0.0.1:2003 on io\nhandoff workers limit 1MiB full reject\ndecode graphite\n"
                          "index\ndrop\n}\n", "");
}

static void local_sockets(void **state)
{
    (void)state;
#define LOCAL(name, path) "pipeline " name " {\nlisten unix " path " on io\nframe length32 max 1KiB\ndecode riemann\n" TAIL
    expect_findings("pool io threads 1\n" LOCAL("p", "'/run/s'"), "");
    expect_findings("pool io threads 1\n" LOCAL("p", "''"), "E018:''");
    expect_findings("pool io threads 1\n" LOCAL("p", "'/run/s'") LOCAL("q", "'/run/s'"), "E034:'/run/s'");
    expect_findings("pool io threads 1\n" LOCAL("p", "'/12345678901234567890123456789012345678901234567890123456789012345678901234567890"
                                                     "123456789012345678901234567'"),
                    "E018:'/12345678901234567890123456789012345678901234567890123456789012345678901234567890123456789012345678901234567'");
}

/* Who may come, and who can read along. */
static void guards(void **state)
{
    (void)state;
#define GUARDED(listen) POOLS "pipeline p {\nlisten " listen "\nframe length32 max 1KiB\n" HANDOFF "decode riemann\n" TAIL
#define FILES "tls cert '/dev/null' key '/dev/null'"
    expect_findings(GUARDED("tcp 127.0.0.1:1 on io " FILES " client_ca '/dev/null' allow 10.0.0.0/8 ::1/128 as l"), "");
    expect_findings(GUARDED("tcp 0.0.0.0:1 on io"), "W107:0.0.0.0:1");
    expect_findings(GUARDED("tcp 0.0.0.0:1 on io " FILES), "");
    expect_findings(GUARDED("tcp [::]:1 on io allow fd00::/8"), "");
    expect_findings(GUARDED("tcp 127.0.0.1:1 on io tls cert '/no/c' key '/dev/null' client_ca '/no/a'"), "W110:'/no/c' W110:'/no/a'");
    expect_findings(GUARDED("tcp 127.0.0.1:1 on io allow 10.0.0.1/8 host 10.0.0.0/33 ::1"), "E018:10.0.0.1/8 E018:host E018:10.0.0.0/33");
    expect_findings(GUARDED("tcp 127.0.0.1:1 on io allow"), "E010:");
    expect_findings(GUARDED("tcp 127.0.0.1:1 on io tls cert '/dev/null'"), "E010:");
    expect_findings(GUARDED("unix '/s' on io " FILES), "E056:" FILES);
    expect_findings(GUARDED("unix '/s' on io allow 10.0.0.0/8 ::1"), "E056:allow 10.0.0.0/8 ::1");
    expect_findings(POOLS "pipeline p {\nlisten udp 127.0.0.1:1 on io " FILES "\nhandoff workers limit 1MiB full reject\ndecode riemann\ndrop\n}\n",
                    "E056:" FILES);
    expect_findings(POOLS "pipeline p {\nlisten udp 0.0.0.0:1 on io allow 10.0.0.0/8\nhandoff workers limit 1MiB full reject\n"
                          "decode riemann\ndrop\n}\n", "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(clean),    cmocka_unit_test(names),     cmocka_unit_test(addresses),
        cmocka_unit_test(order),    cmocka_unit_test(handoffs),  cmocka_unit_test(cycles),
        cmocka_unit_test(warnings), cmocka_unit_test(queries),   cmocka_unit_test(slots),
        cmocka_unit_test(not_built), cmocka_unit_test(tails),    cmocka_unit_test(no_cascade),
        cmocka_unit_test(datagrams), cmocka_unit_test(lines),     cmocka_unit_test(local_sockets),
        cmocka_unit_test(guards),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
