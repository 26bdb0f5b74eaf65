/*
 * DESIGN: OpenSSL reads and writes the socket itself. Its buffers never hold more than the record that is being read, and a read
 * always has room for a whole record, so that after each one nothing is left inside that the loop's poll would not tell of.
 *
 * Partial writes are on: one record of at most 16 KiB goes out at a time and what it took is reported, so that the caller's offset
 * is right after each of them. A record that could not be written stays with OpenSSL, which wants to be offered the same bytes again.
 */
#include "pipeline_dsl/runtime/tls.h"

#include <errno.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"

#define RECORD_MOST 16384u

/* --- the files ----------------------------------------------------------------------------------------------------------- */

/* A key with a pass phrase: nobody is there to type it. */
static int no_pass_phrase(char *text, int size, int writing, void *asked)
{
    (void)text, (void)size, (void)writing;
    *(bool *)asked = true;
    return -1;
}

static int complain(const struct weir_plan_way *way, const char *what, const char *path, struct weir_error *error)
{
    unsigned long code = ERR_peek_error();
    const char *why = ERR_SYSTEM_ERROR(code) ? strerror(ERR_GET_REASON(code)) : ERR_reason_error_string(code);
    bool no_start = ERR_GET_LIB(code) == ERR_LIB_PEM && ERR_GET_REASON(code) == PEM_R_NO_START_LINE;
    if (no_start || (ERR_GET_LIB(code) == ERR_LIB_OSSL_DECODER && ERR_GET_REASON(code) == ERR_R_UNSUPPORTED))
        why = "it is not in the PEM format";
    int rc = weir_error_set(error, WEIR_EXIT_USAGE, EINVAL, "can't use %s %s of pipeline %s for TLS: %s", what, path, way->name,
                            why ? why : "OpenSSL does not say why");
    ERR_clear_error();
    return rc;
}

static int load_clients(SSL_CTX *context, const struct weir_plan_way *way, struct weir_error *error)
{
    STACK_OF(X509_NAME) *names = SSL_load_client_CA_file(way->tls_client_ca);
    if (!names || SSL_CTX_load_verify_file(context, way->tls_client_ca) != 1) {
        sk_X509_NAME_pop_free(names, X509_NAME_free);
        return complain(way, "the clients' authorities", way->tls_client_ca, error);
    }
    SSL_CTX_set_client_CA_list(context, names);
    SSL_CTX_set_verify(context, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, NULL);
    return 0;
}

static int load(SSL_CTX *context, const struct weir_plan_way *way, struct weir_error *error)
{
    bool asked = false;
    SSL_CTX_set_default_passwd_cb(context, no_pass_phrase);
    SSL_CTX_set_default_passwd_cb_userdata(context, &asked);
    if (SSL_CTX_use_certificate_chain_file(context, way->tls_cert) != 1)
        return complain(way, "the certificate", way->tls_cert, error);
    if (SSL_CTX_use_PrivateKey_file(context, way->tls_key, SSL_FILETYPE_PEM) != 1 || SSL_CTX_check_private_key(context) != 1)
        return asked ? weir_error_set(error, WEIR_EXIT_USAGE, EINVAL, "can't use the key %s of pipeline %s for TLS: it has a pass phrase, "
                                      "and a server has nobody to ask for it", way->tls_key, way->name)
                     : complain(way, "the key", way->tls_key, error);
    return way->tls_client_ca ? load_clients(context, way, error) : 0;
}

static int context_new(const struct weir_plan_way *way, void **made, struct weir_error *error)
{
    ERR_clear_error();
    SSL_CTX *context = SSL_CTX_new(TLS_server_method());
    if (!context)
        return weir_error_set(error, WEIR_EXIT_USAGE, ENOMEM, "no memory for the TLS of pipeline %s", way->name);
    SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION);
    /* A frame's length tells whether it is whole; a client that just closes is no attack. */
    SSL_CTX_set_options(context, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_TICKET | SSL_OP_IGNORE_UNEXPECTED_EOF | SSL_OP_CIPHER_SERVER_PREFERENCE);
    SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
    SSL_CTX_set_num_tickets(context, 0);
    SSL_CTX_set_mode(context, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER | SSL_MODE_RELEASE_BUFFERS);
    int rc = load(context, way, error);
    if (rc == 0)
        *made = context;
    else
        SSL_CTX_free(context);
    return rc;
}

static void context_free(void *context)
{
    SSL_CTX_free(context);
}

/* --- a session ----------------------------------------------------------------------------------------------------------- */

static void free_session(struct weir_tls *tls)
{
    SSL_free(tls->ssl);
    free(tls);
}

static struct weir_tls *open_session(void *context, int fd)
{
    struct weir_tls *tls = calloc(1, sizeof *tls);
    if (!tls)
        return NULL;
    tls->ssl = SSL_new(context);
    if (!tls->ssl || SSL_set_fd(tls->ssl, fd) != 1) {
        free_session(tls);
        return NULL;
    }
    SSL_set_accept_state(tls->ssl);
    tls->since_ns = weir_clock_ns();
    return tls;
}

/* What a call came to that did nothing: 0 at the end of the stream, -EAGAIN, or another -errno. */
static int outcome(struct weir_tls *tls, int code)
{
    int saved = errno;
    switch (SSL_get_error(tls->ssl, code)) {
    case SSL_ERROR_ZERO_RETURN:
        return 0;
    case SSL_ERROR_WANT_READ:
        return -EAGAIN;
    case SSL_ERROR_WANT_WRITE:
        tls->wants_write = true;
        return -EAGAIN;
    case SSL_ERROR_SYSCALL:
        tls->broken = true;
        return saved ? -saved : -ECONNRESET;
    default:
        tls->broken = true;
        tls->reason = ERR_reason_error_string(ERR_peek_error());
        return -EPROTO;
    }
}

static ptrdiff_t receive(struct weir_tls *tls, void *span, size_t room)
{
    size_t got = 0;
    int code = 1;
    tls->wants_write = false;
    while (room - got >= RECORD_MOST) {
        ERR_clear_error();
        errno = 0;
        code = SSL_read(tls->ssl, (uint8_t *)span + got, (int)(room - got));
        if (code <= 0)
            break;
        got += (size_t)code;
    }
    int rc = code > 0 ? 0 : outcome(tls, code);
    if (tls->since_ns && SSL_is_init_finished(tls->ssl))
        tls->since_ns = 0;
    tls->at_end = got && rc != -EAGAIN && code <= 0;
    return got ? (ptrdiff_t)got : rc;
}

static ptrdiff_t send_some(struct weir_tls *tls, const void *data, size_t size)
{
    ERR_clear_error();
    errno = 0;
    tls->wants_write = false;
    int code = SSL_write(tls->ssl, data, size > RECORD_MOST ? (int)RECORD_MOST : (int)size);
    if (code > 0)
        return code;
    int rc = outcome(tls, code);
    if (rc == 0)
        return -EPIPE;
    return rc != -EAGAIN ? rc : tls->wants_write ? 0 : -EPROTO;
}

static void close_session(struct weir_tls *tls)
{
    if (!tls->broken && !tls->since_ns) {
        ERR_clear_error();
        SSL_shutdown(tls->ssl);
    }
    ERR_clear_error();
    free_session(tls);
}

const struct weir_tls_driver weir_tls = {
    .context_new = context_new,
    .context_free = context_free,
    .open = open_session,
    .receive = receive,
    .send = send_some,
    .close = close_session,
};
