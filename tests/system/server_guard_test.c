/* Who may come, and who can read along: `allow`, and TLS with real certificates. */
#include <arpa/inet.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/system/harness.h"

static const char secret[] = "pool io threads 1\npool workers threads 2\n"
                             "pipeline riemann {\n    listen tcp 127.0.0.1:0 on io tls cert \"server.pem\" key \"server.key\" client_ca \"ca.pem\"\n"
                             "    frame length32 max 16MiB\n    handoff workers limit 64MiB full block\n    decode riemann\n    index\n"
                             "    encode riemann\n    reply\n}\n";

/* An authority, and a server and a client that it vouches for; a stranger vouches for itself. */
static const char make_files[] =
    "cd %s && exec 2>log; k='-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2'; "
    "openssl req -x509 $k -keyout ca.key -out ca.pem -subj /CN=ca && openssl req -x509 $k -keyout stranger.key -out stranger.pem -subj /CN=s && "
    "for n in server client; do openssl req $k -keyout $n.key -out $n.csr -subj /CN=localhost && printf 'subjectAltName=IP:127.0.0.1' >ext && "
    "openssl x509 -req -in $n.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 -out $n.pem -extfile ext || break; done; "
    "[ -s client.pem ] || { cat log; exit 1; }";
static char files[] = "/tmp/weir-test-files-XXXXXX";

static int make_all(void **state)
{
    (void)state;
    char command[1536];
    if (!mkdtemp(files))
        return -1;
    snprintf(command, sizeof command, make_files, files);
    return system(command) == 0 ? 0 : -1;
}

static int remove_all(void **state)
{
    (void)state;
    char command[128];
    snprintf(command, sizeof command, "rm -rf -- %s", files);
    return system(command) == 0 ? 0 : -1;
}

static void run(const char *format, const struct harness_server *server, int expected)
{
    char command[1536];
    snprintf(command, sizeof command, format, server->folder);
    int status = system(command);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), expected);
}

static void start(struct harness_server *server)
{
    harness_build(server, secret, NULL, NULL);
    char command[256];
    snprintf(command, sizeof command, "cp %s/*.pem %s/*.key %%s", files, files);
    run(command, server, 0);
    harness_start(server, NULL);
}

static uint64_t way(struct harness_server *server, const char *name, const char *field)
{
    harness_counters_refresh(server);
    return harness_counter(server, "ways_in", name, field);
}

static void wait_for(struct harness_server *server, const char *field, uint64_t count)
{
    for (int i = 0; i < 500 && way(server, "riemann", field) != count; i++)
        usleep(20000);
    assert_int_equal(way(server, "riemann", field), count);
}

/* --- a client ------------------------------------------------------------------------------------------------------------ */

struct client {
    SSL_CTX *context;
    SSL *ssl;
    int fd;
};

/* `name`: whose certificate it shows, or null. Returns whether the handshake came to an end on this side. */
static bool dial(struct client *client, const struct harness_server *server, const char *name, int receive_bytes)
{
    char path[128];
    client->context = SSL_CTX_new(TLS_client_method());
    snprintf(path, sizeof path, "%s/ca.pem", server->folder);
    SSL_CTX_load_verify_file(client->context, path);
    SSL_CTX_set_verify(client->context, SSL_VERIFY_PEER, NULL);
    if (name) {
        snprintf(path, sizeof path, "%s/%s.pem", server->folder, name);
        assert_int_equal(SSL_CTX_use_certificate_chain_file(client->context, path), 1);
        snprintf(path, sizeof path, "%s/%s.key", server->folder, name);
        assert_int_equal(SSL_CTX_use_PrivateKey_file(client->context, path, SSL_FILETYPE_PEM), 1);
    }
    client->ssl = SSL_new(client->context);
    client->fd = harness_connect(server->port);
    if (receive_bytes)
        setsockopt(client->fd, SOL_SOCKET, SO_RCVBUF, &receive_bytes, sizeof receive_bytes);
    SSL_set_fd(client->ssl, client->fd);
    return SSL_connect(client->ssl) == 1;
}

static void hang_up(struct client *client)
{
    SSL_free(client->ssl);
    SSL_CTX_free(client->context);
    close(client->fd);
}

static bool read_all(struct client *client, void *data, size_t size, size_t step)
{
    for (size_t got = 0; got < size;) {
        int code = SSL_read(client->ssl, (uint8_t *)data + got, (int)(size - got < step ? size - got : step));
        if (code <= 0)
            return false;
        got += (size_t)code;
    }
    return true;
}

/* --- TLS ----------------------------------------------------------------------------------------------------------------- */

static void a_real_client(void **state)
{
    (void)state;
    struct harness_server server;
    start(&server);
    char command[512];
    snprintf(command, sizeof command, "cd %%s && riemann-client send -G -o cafile=ca.pem -o certfile=client.pem -o keyfile=client.key -h h -S secret "
             "-i 7 127.0.0.1 %d >/dev/null", server.port);
    run(command, &server, 0);
    snprintf(command, sizeof command, "cd %%s && riemann-client query -G -o cafile=ca.pem -o certfile=client.pem -o keyfile=client.key "
             "'service = \"secret\"' 127.0.0.1 %d | grep -q 'metric_sint64 = 7'", server.port);
    run(command, &server, 0);
    harness_stop(&server);
}

static void requests_in_any_pieces(void **state)
{
    (void)state;
    enum { MANY = 3000 };
    struct harness_server server;
    struct client client;
    uint8_t message[256], acks[6 * MANY];
    start(&server);
    assert_true(dial(&client, &server, "client", 0));
    size_t size = harness_message(message, sizeof message, 1, "pieces");
    for (size_t i = 0; i < size; i++) /* a record for each byte */
        assert_int_equal(SSL_write(client.ssl, message + i, 1), 1);
    assert_true(read_all(&client, acks, 6, 6));
    uint8_t *many = malloc(size * MANY);
    for (size_t i = 0; i < MANY; i++)
        memcpy(many + i * size, message, size);
    assert_int_equal(SSL_write(client.ssl, many, (int)(size * 1000)), size * 1000);
    assert_true(read_all(&client, acks, 6000, 5));
    for (size_t i = 0; i < 1000; i++)
        assert_memory_equal(acks + i * 6, "\0\0\0\2\x10\1", 6);
    /* The end of the stream comes in one flight with the last requests, which are answered all the same. */
    assert_int_equal(SSL_write(client.ssl, many, (int)(size * 10)), size * 10);
    SSL_shutdown(client.ssl);
    assert_true(read_all(&client, acks, 60, 60));
    assert_int_equal(SSL_read(client.ssl, acks, 1), 0);
    assert_int_equal(SSL_get_error(client.ssl, 0), SSL_ERROR_ZERO_RETURN); /* and it says good-bye */
    free(many);
    hang_up(&client);
    wait_for(&server, "connections", 0);
    assert_int_equal(way(&server, "riemann", "answered"), 1011);
    harness_stop(&server);
}

static void put_varint(uint8_t **at, size_t value)
{
    for (; value >= 0x80; value >>= 7)
        *(*at)++ = (uint8_t)value | 0x80;
    *(*at)++ = (uint8_t)value;
}

/* Its reply goes out in many records, each of which the socket takes only in part. */
static void a_large_reply_to_a_slow_reader(void **state)
{
    (void)state;
    enum { SIZE = 4 << 20 };
    struct harness_server server;
    struct client client;
    static const uint8_t query[] = { 0, 0, 0, 8, 0x2a, 6, 0x0a, 4, 't', 'r', 'u', 'e' };
    uint8_t *message = malloc(SIZE + 64), *at = message + 4, header[4], ack[6];
    start(&server);
    assert_true(dial(&client, &server, "client", 65536));
    *at++ = 0x32; /* an event whose description is all x but for a counter every KiB */
    put_varint(&at, SIZE + 5);
    *at++ = 0x2a;
    put_varint(&at, SIZE);
    uint8_t *description = at;
    memset(at, 'x', SIZE);
    for (uint32_t i = 0; i < SIZE / 1024; i++)
        snprintf((char *)at + (size_t)i * 1024, 8, "%06u", i), at[(size_t)i * 1024 + 6] = 'x';
    at += SIZE;
    size_t size = (size_t)(at - message);
    uint32_t length = htonl((uint32_t)(size - 4));
    memcpy(message, &length, 4);
    for (size_t sent = 0; sent < size;) {
        int code = SSL_write(client.ssl, message + sent, size - sent < 100000 ? (int)(size - sent) : 100000);
        assert_true(code > 0);
        sent += (size_t)code;
    }
    assert_true(read_all(&client, ack, 6, 6));
    assert_int_equal(SSL_write(client.ssl, query, sizeof query), sizeof query);
    assert_true(read_all(&client, header, 4, 4));
    memcpy(&length, header, 4);
    length = ntohl(length);
    assert_true(length > SIZE && length < SIZE + 200);
    uint8_t *reply = malloc(length);
    assert_true(read_all(&client, reply, length, 1024));
    const uint8_t *found = memmem(reply, length, description, 1024);
    assert_non_null(found);
    assert_memory_equal(found, description, SIZE);
    free(reply);
    free(message);
    hang_up(&client);
    harness_stop(&server);
}

static void strangers_are_turned_away(void **state)
{
    (void)state;
    struct harness_server server;
    struct client client;
    uint8_t byte;
    start(&server);
    /* In TLS 1.3 the client is done before the server has judged it. */
    if (dial(&client, &server, NULL, 0))
        assert_true(SSL_read(client.ssl, &byte, 1) <= 0);
    hang_up(&client);
    wait_for(&server, "failed_handshakes", 1);
    if (dial(&client, &server, "stranger", 0))
        assert_true(SSL_read(client.ssl, &byte, 1) <= 0);
    hang_up(&client);
    wait_for(&server, "failed_handshakes", 2);
    int fd = harness_connect(server.port); /* in the clear */
    assert_true(harness_send(fd, "\0\0\0\0", 4));
    char rest[64];
    while (recv(fd, rest, sizeof rest, 0) > 0) /* an alert, perhaps */
        ;
    close(fd);
    fd = harness_connect(server.port);
    close(fd);
    wait_for(&server, "failed_handshakes", 4);
    char command[256];
    snprintf(command, sizeof command, "cd %%s && ! openssl s_client -connect 127.0.0.1:%d -tls1_1 -cipher ALL:@SECLEVEL=0 -cert client.pem "
             "-key client.key </dev/null >/dev/null 2>&1", server.port);
    run(command, &server, 0);
    wait_for(&server, "failed_handshakes", 5);
    ERR_clear_error();
    assert_true(dial(&client, &server, "client", 0)); /* who may come is served all the while */
    assert_int_equal(SSL_write(client.ssl, "\0\0\0\0", 4), 4);
    uint8_t ack[6];
    assert_true(read_all(&client, ack, 6, 6));
    hang_up(&client);
    assert_int_equal(way(&server, "riemann", "accepted"), 1);
    harness_stop(&server);
}

/* Who begins a handshake and says no more is given up after 10 s; who is done is not. */
static void a_handshake_takes_its_time_and_no_more(void **state)
{
    (void)state;
    struct harness_server server;
    struct client client;
    uint8_t ack[6];
    start(&server);
    assert_true(dial(&client, &server, "client", 0));
    int silent = harness_connect(server.port), half = harness_connect(server.port);
    assert_true(harness_send(half, "\x16\x03\x01\x02\x00\x01", 6));
    assert_int_equal(harness_drain(silent), 0); /* waits for the end, at most 20 s */
    assert_int_equal(harness_drain(half), 0);
    assert_int_equal(way(&server, "riemann", "failed_handshakes"), 2);
    assert_int_equal(SSL_write(client.ssl, "\0\0\0\0", 4), 4);
    assert_true(read_all(&client, ack, 6, 6));
    close(silent);
    close(half);
    hang_up(&client);
    harness_stop(&server);
}

/* --- allow --------------------------------------------------------------------------------------------------------------- */

/* A socket whose own address is `from`. */
static int dial_from(const char *from, int type, int port)
{
    struct sockaddr_in own = { .sin_family = AF_INET }, peer = { .sin_family = AF_INET, .sin_port = htons((uint16_t)port),
                                                                 .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    struct timeval patience = { 20, 0 };
    int fd = socket(AF_INET, type | SOCK_CLOEXEC, 0);
    inet_pton(AF_INET, from, &own.sin_addr);
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    assert_int_equal(bind(fd, (struct sockaddr *)&own, sizeof own), 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&peer, sizeof peer), 0);
    return fd;
}

/* The listener is one of IPv6, to which IPv4 peers come mapped. */
static void only_who_may_come(void **state)
{
    (void)state;
    struct harness_server server;
    harness_run(&server, "pool io threads 2\n"
                         "pipeline riemann {\n    listen tcp [::]:0 on io allow 127.0.0.2 10.0.0.0/8 fd00::/8\n    frame length32 max 1MiB\n"
                         "    decode riemann\n    encode riemann\n    reply\n}\n");
    uint8_t ack[6];
    int good = dial_from("127.0.0.2", SOCK_STREAM, server.port), bad = dial_from("127.0.0.1", SOCK_STREAM, server.port);
    assert_true(harness_send(good, "\0\0\0\0", 4));
    assert_true(harness_receive(good, ack, 6));
    assert_true(recv(bad, ack, 1, 0) <= 0);
    close(good);
    close(bad);
    assert_int_equal(way(&server, "riemann", "refused"), 1);
    assert_int_equal(way(&server, "riemann", "opened"), 1);
    harness_stop(&server);
}

static void only_datagrams_that_may_come(void **state)
{
    (void)state;
    struct harness_server server;
    harness_run(&server, "pool io threads 1\n"
                         "pipeline riemann {\n    listen udp 127.0.0.1:0 on io allow 127.0.0.2\n    decode riemann\n    drop\n}\n");
    int good = dial_from("127.0.0.2", SOCK_DGRAM, server.port), bad = dial_from("127.0.0.1", SOCK_DGRAM, server.port);
    for (int i = 0; i < 10; i++) {
        assert_int_equal(send(bad, "\x32\0", 2, 0), 2);
        assert_int_equal(send(good, "\x32\0", 2, 0), 2);
    }
    wait_for(&server, "accepted", 10);
    wait_for(&server, "refused", 10);
    close(good);
    close(bad);
    harness_stop(&server);
}

int main(void)
{
    signal(SIGPIPE, SIG_IGN);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_real_client),
        cmocka_unit_test(requests_in_any_pieces),
        cmocka_unit_test(a_large_reply_to_a_slow_reader),
        cmocka_unit_test(strangers_are_turned_away),
        cmocka_unit_test(a_handshake_takes_its_time_and_no_more),
        cmocka_unit_test(only_who_may_come),
        cmocka_unit_test(only_datagrams_that_may_come),
    };
    return cmocka_run_group_tests(tests, make_all, remove_all);
}
