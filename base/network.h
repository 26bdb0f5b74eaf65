/*
 * network: a range of addresses, "10.0.0.0/8" or "fd00::/8", and whether a peer is in it.
 * The language reads them; a listener asks them who may come.
 *
 * An IPv4 peer on an IPv6 socket comes as ::ffff:a.b.c.d and counts as what it is, an IPv4 address; ranges written like that too.
 * No range of the one family holds an address of the other.
 *
 * Units: bits.
 * Owns: nothing.
 * Threads: any.
 * Errors: what is wrong with a text, as words for a sentence.
 */
#ifndef WEIR_BASE_NETWORK_H
#define WEIR_BASE_NETWORK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sockaddr;

struct weir_network {
    uint8_t address[16]; /* of an IPv4 network the first 4 */
    uint8_t bits;        /* that must be equal */
    bool four;
};

/* "10.0.0.0/8", or one address. Returns null, or what is wrong. The bits behind the prefix must be 0. */
const char *weir_network_read(struct weir_network *network, const char *text, size_t length);
/* A peer of another family than IPv4 and IPv6 is in none. */
bool weir_network_has(const struct weir_network *networks, size_t count, const struct sockaddr *peer);

#endif
