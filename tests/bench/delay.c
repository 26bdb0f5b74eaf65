/* delay HOST:PORT DELAY_US: a link to an IPv4 address that takes so long in each direction; says where it listens. */
#include "tests/unit/client/delay.h"

int main(int argc, char **argv)
{
    struct delay_proxy proxy = { .target = { .sin_family = AF_INET } };
    char *colon = argc == 3 ? strrchr(argv[1], ':') : NULL;
    if (!colon) {
        fprintf(stderr, "usage: delay 127.0.0.1:5555 DELAY_US\n");
        return 2;
    }
    *colon = '\0';
    proxy.target.sin_port = htons((uint16_t)atoi(colon + 1));
    proxy.delay_ns = strtoull(argv[2], NULL, 10) * 1000;
    if (inet_pton(AF_INET, argv[1], &proxy.target.sin_addr) != 1) {
        fprintf(stderr, "delay: '%s' is no IPv4 address\n", argv[1]);
        return 2;
    }
    delay_listen(&proxy);
    printf("delay: listening on tcp %s\n", proxy.address);
    fflush(stdout);
    delay_run(&proxy);
    return 0;
}
