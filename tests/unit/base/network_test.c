/* Who is in a network, and which texts name one. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/un.h>

#include <cmocka.h>

#include "base/network.h"

static bool has(const char *text, const char *peer)
{
    struct weir_network network;
    struct sockaddr_in four = { .sin_family = AF_INET };
    struct sockaddr_in6 six = { .sin6_family = AF_INET6 };
    assert_null(weir_network_read(&network, text, strlen(text)));
    if (inet_pton(AF_INET, peer, &four.sin_addr) == 1)
        return weir_network_has(&network, 1, (struct sockaddr *)&four);
    assert_int_equal(inet_pton(AF_INET6, peer, &six.sin6_addr), 1);
    return weir_network_has(&network, 1, (struct sockaddr *)&six);
}

static void peers(void **state)
{
    (void)state;
    assert_true(has("10.0.0.0/8", "10.255.1.2"));
    assert_false(has("10.0.0.0/8", "11.0.0.0"));
    assert_true(has("192.168.4.0/22", "192.168.7.255"));
    assert_false(has("192.168.4.0/22", "192.168.8.0"));
    assert_true(has("127.0.0.1", "127.0.0.1"));
    assert_false(has("127.0.0.1", "127.0.0.2"));
    assert_true(has("0.0.0.0/0", "255.255.255.255"));
    assert_true(has("fd00::/8", "fdff::1"));
    assert_false(has("fd00::/8", "fe80::1"));
    assert_true(has("::1", "::1"));
    assert_true(has("2001:db8::/33", "2001:db8:7fff::1"));
    assert_false(has("2001:db8::/33", "2001:db8:8000::1"));
}

static void the_two_families(void **state)
{
    (void)state;
    assert_true(has("10.0.0.0/8", "::ffff:10.1.2.3")); /* as an IPv6 socket shows it */
    assert_false(has("10.0.0.0/8", "::ffff:11.1.2.3"));
    assert_true(has("::ffff:10.0.0.0/104", "10.1.2.3"));
    assert_true(has("::ffff:10.0.0.0/104", "::ffff:10.1.2.3"));
    assert_false(has("::/0", "10.1.2.3"));
    assert_false(has("::/0", "::ffff:10.1.2.3"));
    assert_false(has("0.0.0.0/0", "::1"));
}

static void others_are_in_none(void **state)
{
    (void)state;
    struct weir_network network;
    struct sockaddr_un local = { .sun_family = AF_UNIX };
    assert_null(weir_network_read(&network, "0.0.0.0/0", 9));
    assert_false(weir_network_has(&network, 1, (struct sockaddr *)&local));
    struct sockaddr_in four = { .sin_family = AF_INET };
    assert_false(weir_network_has(&network, 0, (struct sockaddr *)&four));
}

static void texts(void **state)
{
    (void)state;
    static const char *const bad[] = { "", "/8", "10.0.0.0/", "10.0.0.0/33", "10.0.0.0/-1", "10.0.0.0/+8", "10.0.0.0/8x", "10.0.0/8",
                                       "10.0.0.1/8", "::/129", "fd00::1/8", "host/8", "10.0.0.0/0008", "1.2.3.4.5", "::ffff:10.0.0.1/104",
                                       "11111111111111111111111111111111111111111111111111/8" };
    struct weir_network network;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        if (!weir_network_read(&network, bad[i], strlen(bad[i])))
            fail_msg("%s", bad[i]);
    assert_null(weir_network_read(&network, "10.0.0.0/8 and more", 10)); /* only so much of it is read */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(peers),
        cmocka_unit_test(the_two_families),
        cmocka_unit_test(others_are_in_none),
        cmocka_unit_test(texts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
