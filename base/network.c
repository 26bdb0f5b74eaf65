#include "base/network.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <string.h>

static const uint8_t mapped[12] = { 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff };

/* The first `bits` are equal. */
static bool equal(const uint8_t *a, const uint8_t *b, unsigned bits)
{
    unsigned bytes = bits / 8, rest = bits % 8;
    return memcmp(a, b, bytes) == 0 && (!rest || ((a[bytes] ^ b[bytes]) >> (8 - rest)) == 0);
}

/* Digits without a sign, or -1. */
static int read_bits(const char *text, size_t length, int most)
{
    int bits = 0;
    for (size_t i = 0; i < length; i++) {
        if (text[i] < '0' || text[i] > '9' || i == 3)
            return -1;
        bits = bits * 10 + (text[i] - '0');
    }
    return length && bits <= most ? bits : -1;
}

const char *weir_network_read(struct weir_network *network, const char *text, size_t length)
{
    char address[INET6_ADDRSTRLEN] = "";
    const char *slash = memchr(text, '/', length);
    size_t size = slash ? (size_t)(slash - text) : length;
    static const uint8_t zeros[16];
    *network = (struct weir_network){ .four = true };
    if (size >= sizeof address)
        return "that is no address";
    memcpy(address, text, size);
    if (inet_pton(AF_INET, address, network->address) != 1) {
        network->four = false;
        if (inet_pton(AF_INET6, address, network->address) != 1)
            return "that is no address";
    }
    int most = network->four ? 32 : 128, bits = slash ? read_bits(slash + 1, length - size - 1, most) : most;
    if (bits < 0)
        return network->four ? "the prefix of an IPv4 network is between 0 and 32" : "the prefix of an IPv6 network is between 0 and 128";
    if (!network->four && bits >= 96 && memcmp(network->address, mapped, sizeof mapped) == 0) {
        memmove(network->address, network->address + 12, 4);
        memset(network->address + 4, 0, 12);
        network->four = true;
        bits -= 96;
        most = 32;
    }
    network->bits = (uint8_t)bits;
    uint8_t behind[16];
    memcpy(behind, network->address, sizeof behind);
    for (int i = 0; i < bits; i++)
        behind[i / 8] &= (uint8_t)~(0x80 >> i % 8);
    return memcmp(behind, zeros, sizeof behind) == 0 ? NULL : "the network's address has bits set behind its prefix";
}

bool weir_network_has(const struct weir_network *networks, size_t count, const struct sockaddr *peer)
{
    const uint8_t *address;
    bool four = peer->sa_family == AF_INET;
    if (four) {
        address = (const uint8_t *)&((const struct sockaddr_in *)peer)->sin_addr;
    } else if (peer->sa_family == AF_INET6) {
        address = (const uint8_t *)&((const struct sockaddr_in6 *)peer)->sin6_addr;
        four = memcmp(address, mapped, sizeof mapped) == 0;
        address += four ? sizeof mapped : 0;
    } else {
        return false;
    }
    for (size_t i = 0; i < count; i++)
        if (networks[i].four == four && equal(networks[i].address, address, networks[i].bits))
            return true;
    return false;
}
