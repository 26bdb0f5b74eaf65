#include <arpa/inet.h>
#include <errno.h>
#include <string.h>
#include <strings.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/network.h"
#include "pipeline_dsl/lang/checker.h"

#define HOST_MAX 253 /* RFC 1035 */
#define PATH_MOST (sizeof((struct sockaddr_un *)NULL)->sun_path - 1)

struct address {
    char host[HOST_MAX + 1];
    bool numeric, loopback;
};

static bool is_host_name(const char *host)
{
    for (const char *at = host; *at; at++)
        if (!((*at >= 'a' && *at <= 'z') || (*at >= 'A' && *at <= 'Z') || (*at >= '0' && *at <= '9') || *at == '-' || *at == '.'))
            return false;
    return host[0] && host[0] != '-' && host[0] != '.' && strspn(host, "0123456789.") != strlen(host);
}

/* Null when `text` is an address, else what is wrong with it. */
static const char *read_address(const char *text, size_t length, struct address *address)
{
    const char *colon = memrchr(text, ':', length);
    if (!colon)
        return "an address needs a port";
    size_t host_length = (size_t)(colon - text), digits = length - host_length - 1;
    unsigned port = 0;
    for (size_t i = 1; i <= digits; i++) {
        if (colon[i] < '0' || colon[i] > '9')
            return "the port of an address is a number";
        port = port * 10 + (unsigned)(colon[i] - '0');
        if (port > 65535)
            return "a port is between 0 and 65535";
    }
    if (digits == 0)
        return "the address has no port behind its colon";
    bool brackets = host_length >= 2 && text[0] == '[' && text[host_length - 1] == ']';
    if (!brackets && memchr(text, ':', host_length))
        return "an IPv6 address stands in brackets";
    if (brackets)
        text++, host_length -= 2;
    if (host_length == 0)
        return "the address has no host before its colon";
    if (host_length > HOST_MAX)
        return "the host of an address has at most 253 characters";
    memcpy(address->host, text, host_length);
    address->host[host_length] = '\0';
    struct in_addr four;
    struct in6_addr six;
    if (brackets) {
        if (inet_pton(AF_INET6, address->host, &six) != 1)
            return "that is no IPv6 address";
        address->loopback = IN6_IS_ADDR_LOOPBACK(&six);
        address->numeric = true;
    } else if (inet_pton(AF_INET, address->host, &four) == 1) {
        address->loopback = ntohl(four.s_addr) >> 24 == 127;
        address->numeric = true;
    } else if (is_host_name(address->host)) {
        address->loopback = strcasecmp(address->host, "localhost") == 0;
    } else {
        return strspn(address->host, "0123456789.") == host_length ? "that is no IPv4 address" : "that is no host's name";
    }
    return NULL;
}

/* Null when `span` is no address, which has been said then. */
static const char *read_span(struct weir_checker *checker, struct weir_span span, struct address *address)
{
    const char *text = weir_checker_text(checker, span);
    const char *wrong = read_address(text, span.length, address);
    if (!wrong)
        return text;
    struct weir_diag *diag = weir_diag_add(checker->bag, WEIR_E018_BAD_ADDRESS, span, "%s", wrong);
    weir_diag_hint(checker->bag, diag, "an address is written like 127.0.0.1:5555, [::1]:5555 or localhost:5555");
    return NULL;
}

static bool ends_in_port_0(const char *text, size_t length)
{
    return length > 2 && memcmp(text + length - 2, ":0", 2) == 0;
}

void weir_check_peer(struct weir_checker *checker, const struct weir_tree_stage *node, uint32_t stage)
{
    struct address address = { .loopback = false };
    const char *text = read_span(checker, node->address_span, &address);
    if (!text)
        return;
    checker->topology->stages[stage].address = weir_checker_dup(checker, node->address_span);
    if (!ends_in_port_0(text, node->address_span.length))
        return;
    struct weir_diag *diag = weir_diag_add(checker->bag, WEIR_E018_BAD_ADDRESS, node->address_span, "nobody can connect to port 0");
    weir_diag_hint(checker->bag, diag, "name the port that the other server listens on, such as 5555");
}

/* E034. The same port of TCP and of UDP are two. */
static void check_taken(struct weir_checker *checker, struct weir_span span, enum weir_transport transport, const char *address, uint32_t stage)
{
    static const char *const transports[] = { "tcp", "udp", "unix" };
    const char *key = weir_arena_printf(&checker->bag->arena, "%s %s", transports[transport], address);
    checker->bag->failed |= !key;
    uint32_t before = key ? weir_names_add(&checker->names, key, strlen(key), stage) : WEIR_NAMES_NOT_FOUND;
    if (before == WEIR_NAMES_NOT_FOUND)
        return;
    struct weir_diag *diag = weir_diag_add(checker->bag, WEIR_E034_ADDRESS_TAKEN, span, "another pipeline listens on %s", address);
    weir_diag_relate(checker->bag, diag, checker->stage_nodes[before]->address_span, "here");
    weir_diag_hint(checker->bag, diag, transport == WEIR_UNIX ? "choose another path" : "choose another port");
}

static void check_path(struct weir_checker *checker, const struct weir_tree_stage *node, uint32_t stage)
{
    const char *path = weir_checker_full_path(checker, node->address_span);
    if (!path)
        return;
    if (node->address_span.length == 2 || strlen(path) > PATH_MOST) {
        struct weir_diag *diag = weir_diag_add(checker->bag, WEIR_E018_BAD_ADDRESS, node->address_span,
                                               "the path of a socket has between 1 and %zu characters", PATH_MOST);
        if (node->address_span.length > 2)
            weir_diag_hint(checker->bag, diag, "with the folder of this file it is %s", path);
        return;
    }
    checker->topology->stages[stage].address = path;
    check_taken(checker, node->address_span, WEIR_UNIX, path, stage);
}

static void not_this_listener(struct weir_checker *checker, struct weir_span span, const char *text)
{
    weir_diag_hint(checker->bag, weir_diag_add(checker->bag, WEIR_E056_NOT_THIS_LISTENER, span, "%s", text), "remove it");
}

static const char *read_file_path(struct weir_checker *checker, struct weir_span span)
{
    if (!span.length)
        return NULL;
    const char *path = weir_checker_full_path(checker, span);
    if (!path || access(path, R_OK) == 0)
        return path;
    struct weir_diag *diag = weir_diag_add(checker->bag, WEIR_W110_NO_FILE, span, "this file can't be read here: %s", strerror(errno));
    weir_diag_hint(checker->bag, diag, "the server will look for it at %s", path);
    return path;
}

static void check_tls(struct weir_checker *checker, const struct weir_tree_stage *node, struct weir_topology_stage *stage)
{
    if (!node->tls_span.length)
        return;
    if (node->transport != WEIR_TCP) {
        not_this_listener(checker, node->tls_span, node->transport == WEIR_UDP ? "datagrams can't be encrypted by `tls`"
                                                                               : "a local socket needs no `tls`: nobody else sees it");
        return;
    }
    stage->tls_cert = read_file_path(checker, node->cert_span);
    stage->tls_key = read_file_path(checker, node->key_span);
    stage->tls_client_ca = read_file_path(checker, node->client_ca_span);
}

/* The networks, with a blank between them. */
static void check_allow(struct weir_checker *checker, const struct weir_tree_stage *node, struct weir_topology_stage *stage)
{
    if (node->allow && node->transport == WEIR_UNIX) {
        not_this_listener(checker, node->allow_span, "the peers of a local socket have no address");
        return;
    }
    for (const struct weir_word *word = node->allow; word; word = word->next) {
        struct weir_network network;
        const char *text = weir_checker_text(checker, word->span);
        const char *wrong = weir_network_read(&network, text, word->span.length);
        if (wrong)
            weir_diag_hint(checker->bag, weir_diag_add(checker->bag, WEIR_E018_BAD_ADDRESS, word->span, "%s", wrong),
                           "a network is written like 10.0.0.0/8, fd00::/8 or 127.0.0.1");
        stage->allow = weir_arena_printf(checker->arena, "%s%s%.*s", stage->allow ? stage->allow : "", stage->allow ? " " : "",
                                         (int)word->span.length, text);
        checker->bag->failed |= !stage->allow;
    }
}

void weir_check_address(struct weir_checker *checker, const struct weir_tree_stage *node, uint32_t stage)
{
    check_tls(checker, node, &checker->topology->stages[stage]);
    check_allow(checker, node, &checker->topology->stages[stage]);
    if (node->transport == WEIR_UNIX) {
        check_path(checker, node, stage);
        return;
    }
    struct weir_span span = node->address_span;
    struct address address = { .loopback = false };
    const char *text = read_span(checker, span, &address);
    if (!text)
        return;
    checker->topology->stages[stage].address = weir_checker_dup(checker, span);
    if (!checker->topology->stages[stage].address)
        return;
    if (!ends_in_port_0(text, span.length))
        check_taken(checker, span, node->transport, checker->topology->stages[stage].address, stage);
    if (!address.loopback && !node->tls_span.length && !node->allow) {
        struct weir_diag *diag = weir_diag_add(checker->bag, WEIR_W107_OPEN_LISTENER, span,
                                               "other machines can reach this listener, and its protocol has no log-in");
        weir_diag_hint(checker->bag, diag, "listen on 127.0.0.1, or say who may come: `allow 10.0.0.0/8`%s",
                       node->transport == WEIR_TCP ? ", `tls … client_ca`" : "");
    }
}
