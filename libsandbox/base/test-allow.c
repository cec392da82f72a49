/* SPDX-License-Identifier: Apache-2.0
 * What rules allow, and what is no rule. */
#include <sbtest.h>

#include <string.h>

#include "allow.h"
#include "util.h"

static struct sb_allow rule(const char *text)
{
    struct sb_allow r;

    ck_assert_msg(sb_allow_parse(text, &r) == 0, "%s", text);
    return r;
}

static int allows_name(const char *text, const char *name, int port)
{
    struct sb_allow r = rule(text);

    return sb_allow_has_name(&r, 1, name, port);
}

static int allows_address(const char *text, const char *address, int port)
{
    struct sb_allow r = rule(text);
    struct sb_host_name h;

    ck_assert_int_eq(sb_host_parse(address, strlen(address), &h), 0);
    ck_assert_int_eq(h.is_address, 1);
    return sb_allow_has_address(&r, 1, h.address, port);
}

START_TEST(names)
{
    ck_assert(allows_name("example.org", "example.org", 443));
    ck_assert(allows_name("Example.ORG.", "example.org", 80));
    ck_assert(!allows_name("example.org", "example.org", 8080));
    ck_assert(!allows_name("example.org", "www.example.org", 443));
    ck_assert(!allows_name("example.org", "example.org.evil.test", 443));
    ck_assert(allows_name("example.org:8080", "example.org", 8080));
    ck_assert(!allows_name("example.org:8080", "example.org", 443));
    ck_assert(allows_name("example.org:*", "example.org", 22));
    ck_assert(allows_name("*.example.org", "a.b.example.org", 443));
    ck_assert(!allows_name("*.example.org", "example.org", 443));
    ck_assert(!allows_name("*.example.org", "notexample.org", 443));
    ck_assert(!allows_name("*.example.org", ".example.org", 443));
    ck_assert(allows_name("*", "anything.test", 443));
    ck_assert(!allows_name("192.0.2.1", "192.0.2.1", 443));
}
END_TEST

START_TEST(addresses)
{
    ck_assert(allows_address("192.0.2.1", "192.0.2.1", 443));
    ck_assert(!allows_address("192.0.2.1", "192.0.2.2", 443));
    ck_assert(allows_address("10.0.0.0/8:*", "10.200.3.4", 5432));
    ck_assert(!allows_address("10.0.0.0/8:*", "11.0.0.0", 5432));
    ck_assert(allows_address("0.0.0.0/0", "8.8.8.8", 80));
    ck_assert(!allows_address("0.0.0.0/0", "[2001:4860::8888]", 80));
    ck_assert(allows_address("[fd00::/8]:99", "[fd12::1]", 99));
    ck_assert(allows_address("::1", "::1", 80));
    ck_assert(allows_address("[::1]:8080", "[::1]", 8080));
    ck_assert(!allows_address("*:*", "8.8.8.8", 80));
}
END_TEST

START_TEST(no_rules)
{
    static const char *const bad[] = { "",        ":80",     "a..b",    ".a",        "a b",       "-a.org",   "a:0",     "a:65536", "a:80:90",  "[::1",
                                       "1.2.3",   "127.1",   "1.2.3.4.5", "0x7f.1",  "a.7",       "*a.org",   "*.",      "a.*",     "10.0.0.0/33", "[a.org]",
                                       "http://a", "a/b",    "[fd00::/129]", "a:http", "10.0.0.0/", "a\n.org" };
    struct sb_allow r;

    for (size_t i = 0; i < SB_ELEMENTS(bad); i++)
        ck_assert_msg(sb_allow_parse(bad[i], &r) < 0, "\"%s\"", bad[i]);
}
END_TEST

START_TEST(hosts)
{
    static const char *const bad[] = { "127.1", "2130706433", "0x7f000001", "017700000001", "[127.0.0.1]", "[]", "", ".", "a%2e", "127.0.0.1.", "[::1]x",
                                       "[fe80::1%eth0]" };
    struct sb_host_name h;

    for (size_t i = 0; i < SB_ELEMENTS(bad); i++)
        ck_assert_msg(sb_host_parse(bad[i], strlen(bad[i]), &h) < 0 || !h.is_address, "\"%s\" is %s", bad[i], h.name);
    for (size_t i = 0; i < 4; i++) /* what a resolver of the C library takes for an address is no name either */
        ck_assert_msg(sb_host_parse(bad[i], strlen(bad[i]), &h) < 0, "\"%s\" is %s", bad[i], h.name);
    ck_assert_int_eq(sb_host_parse("::ffff:127.0.0.1", 16, &h), 0);
    ck_assert(!sb_address_is_public(h.address));
}
END_TEST

START_TEST(public_addresses)
{
    static const char *const yes[] = { "8.8.8.8", "1.1.1.1", "172.32.0.1", "100.128.0.1", "2606:4700::1111" };
    static const char *const no[] = { "127.0.0.1", "10.1.2.3", "172.31.255.255", "192.168.0.1", "169.254.169.254", "100.64.0.1", "0.0.0.0", "224.0.0.1",
                                      "255.255.255.255", "::1", "::", "fe80::1", "fd00::1", "ff02::1", "64:ff9b::7f00:1", "2002:7f00:1::", "2001::1",
                                      "::ffff:10.0.0.1", "::127.0.0.1" };
    struct sb_host_name h;

    for (size_t i = 0; i < SB_ELEMENTS(yes); i++)
        ck_assert_msg(sb_host_parse(yes[i], strlen(yes[i]), &h) == 0 && sb_address_is_public(h.address), "%s", yes[i]);
    for (size_t i = 0; i < SB_ELEMENTS(no); i++)
        ck_assert_msg(sb_host_parse(no[i], strlen(no[i]), &h) == 0 && !sb_address_is_public(h.address), "%s", no[i]);
}
END_TEST

START_TEST(servers)
{
    unsigned char address[16];
    int port;

    ck_assert_int_eq(sb_server_parse("127.0.0.1:5353", address, &port), 0);
    ck_assert_int_eq(port, 5353);
    ck_assert_int_eq(sb_server_parse("[::1]:53", address, &port), 0);
    ck_assert_int_eq(sb_server_parse("2606:4700::1", address, &port), 0);
    ck_assert_int_eq(port, 0);
    ck_assert_int_lt(sb_server_parse("dns.example", address, &port), 0);
    ck_assert_int_lt(sb_server_parse("1.2.3.4:*", address, &port), 0);
    ck_assert_int_lt(sb_server_parse("1.2.3.0/24", address, &port), 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("allow");
    TCase *tc = sbtest_case("rules");

    tcase_add_test(tc, names);
    tcase_add_test(tc, addresses);
    tcase_add_test(tc, no_rules);
    tcase_add_test(tc, hosts);
    tcase_add_test(tc, public_addresses);
    tcase_add_test(tc, servers);
    suite_add_tcase(suite, tc);
    return sbtest_main(suite);
}
