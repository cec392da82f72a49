/* SPDX-License-Identifier: Apache-2.0
 * What a proxy reads, cut off at each byte and with each byte changed: refused or waited for, never read beyond its end (the sanitized build looks). */
#include <sbtest.h>

#include <stdlib.h>
#include <string.h>

#include "proxy.h"
#include "util.h"

static const char get[] = "GET http://ok.test:8000/a?b#c HTTP/1.1\r\nHost: OK.test:8000\r\nConnection: keep-alive\r\nProxy-Authorization: x\r\nX: y\r\n\r\n";

static int parse(const char *text, size_t size, struct px_request *ret)
{
    char *copy = malloc(size ? size : 1); /* so that its end is an end */
    const char *why = NULL;
    int r;

    memcpy(copy, text, size);
    r = px_parse_request(copy, size, ret, &why);
    free(copy);
    return r;
}

START_TEST(heads)
{
    struct px_request r;
    char to[1024];
    size_t n;

    ck_assert_int_eq(parse(get, sizeof get - 1, &r), 0);
    ck_assert_str_eq(r.host.name, "ok.test");
    ck_assert_int_eq(r.port, 8000);
    n = px_rewrite_request(get, &r, to, sizeof to);
    ck_assert_uint_gt(n, 0);
    to[n] = 0;
    ck_assert_str_eq(to, "GET /a?b HTTP/1.1\r\nHost: ok.test:8000\r\nConnection: close\r\nX: y\r\n\r\n");
    ck_assert_uint_eq(px_rewrite_request(get, &r, to, 20), 0);
    for (size_t i = 0; i < sizeof get - 1; i++)
        ck_assert_int_eq(parse(get, i, &r), 1);
    for (size_t i = 0; i < sizeof get - 1; i++)
        for (int c = 0; c < 256; c++) {
            char text[sizeof get];

            memcpy(text, get, sizeof get);
            text[i] = (char)c;
            parse(text, sizeof get - 1, &r);
        }
}
END_TEST

static const unsigned char hello[] = { 0x16, 3, 1, 0, 63, 1, 0, 0, 59, 3, 3, [11 ... 42] = 7, 0, 0, 2, 0x13, 1, 1, 0,
                                       0, 16, 0, 0, 0, 12, 0, 10, 0, 0, 7, 'o', 'k', '.', 't', 'e', 's', 't' };

START_TEST(hellos)
{
    struct px_request r = { .is_connect = 1, .port = 443, .host.name = "ok.test" };
    const char *why;
    unsigned char *copy;

    ck_assert_int_eq(px_check_tunnel(hello, sizeof hello, &r, &why), 0);
    r.host.name[0] = r.host.name[1] = 'n'; /* two bytes away */
    ck_assert_int_eq(px_check_tunnel(hello, sizeof hello, &r, &why), -1);
    for (size_t i = 0; i < sizeof hello; i++) {
        copy = malloc(i ? i : 1);
        memcpy(copy, hello, i);
        ck_assert_int_eq(px_check_tunnel(copy, i, &r, &why), 1);
        free(copy);
    }
    for (size_t i = 1; i < sizeof hello; i++)
        for (int c = 0; c < 256; c++) {
            unsigned char text[sizeof hello];

            memcpy(text, hello, sizeof hello);
            text[i] = (unsigned char)c;
            ck_assert_int_ne(px_check_tunnel(text, sizeof text, &r, &why), 0);
        }
}
END_TEST

START_TEST(questions)
{
    static const unsigned char query[] = { 1, 2, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 2, 'o', 'K', 4, 't', 'e', 's', 't', 0, 0, 1, 0, 1 };
    const unsigned char address[1][16] = { { [10] = 0xff, [11] = 0xff, [12] = 192, [13] = 0, [14] = 2, [15] = 1 } };
    struct px_question q;
    unsigned char to[512];
    size_t n;

    ck_assert_int_eq(px_parse_question(query, sizeof query, &q), 0);
    ck_assert_str_eq(q.name, "ok.test");
    n = px_write_answer(query, &q, 0, address, 1, to, sizeof to);
    ck_assert_uint_eq(n, sizeof query + 16);
    ck_assert(to[2] == 0x81 && to[3] == 0x80 && to[7] == 1 && !memcmp(to + n - 4, address[0] + 12, 4));
    for (size_t i = 0; i < sizeof query; i++) {
        unsigned char *copy = malloc(i ? i : 1);

        memcpy(copy, query, i);
        ck_assert_int_eq(px_parse_question(copy, i, &q), -1);
        free(copy);
    }
    for (size_t i = 0; i < sizeof query; i++)
        for (int c = 0; c < 256; c++) {
            unsigned char text[sizeof query];

            memcpy(text, query, sizeof query);
            text[i] = (unsigned char)c;
            if (px_parse_question(text, sizeof text, &q) == 0)
                ck_assert_uint_le(q.size, sizeof text);
        }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("proxy-parse");
    TCase *tc = sbtest_case("parse");

    tcase_add_test(tc, heads);
    tcase_add_test(tc, hellos);
    tcase_add_test(tc, questions);
    suite_add_tcase(suite, tc);
    return sbtest_main(suite);
}
