/* SPDX-License-Identifier: Apache-2.0
 * Names of images in registries: what they mean, and what is none. */
#include <sbtest.h>

#include "reference.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define HEX "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"

static const char *full(const char *text)
{
    static char result[SB_REFERENCE_MAX + 1];
    struct sb_reference reference;

    if (sb_reference_parse(text, &reference))
        return "refused";
    sb_reference_format(&reference, result);
    return result;
}

START_TEST(reference_means)
{
    static const char *const pairs[][2] = {
        { "debian", "docker.io/library/debian:latest" },
        { "docker://debian:12", "docker.io/library/debian:12" },
        { "index.docker.io/library/debian", "docker.io/library/debian:latest" },
        { "team/app:v1", "docker.io/team/app:v1" },
        { "localhost/app", "localhost/app:latest" },
        { "LocalHost:5000/app", "localhost:5000/app:latest" },
        { "example.org/a/b/c:T_1.x-y", "example.org/a/b/c:T_1.x-y" },
        { "127.0.0.1:5000/a__b/c-d.e:1", "127.0.0.1:5000/a__b/c-d.e:1" },
        { "[::1]:5000/app", "[::1]:5000/app:latest" },
        { "example.org/app@sha256:" HEX, "example.org/app@sha256:" HEX },
        { "example.org/app:tag@sha256:" HEX, "example.org/app@sha256:" HEX },
    };

    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
        ck_assert_str_eq(full(pairs[i][0]), pairs[i][1]);
}
END_TEST

START_TEST(reference_refused)
{
    static const char *const texts[] = {
        "", "docker://", "/", "a/", "/a", "a//b", "UPPER", "a/Upper", "a:", "a:.x", "a:-x", "a:b:c", "a@", "a@sha256:12", "a@sha512:" HEX,
        "a@sha256:" HEX "0", "example.org:0/a", "example.org:65536/a", "example.org:/a", "example.org:x/a", "-a.b/c", "a..b/c", ".a/b",
        "a.b-/c", "[::1/a", "[]:5000/a", "[::g]/a", "[::1]x/a", "a___b", "a..b", "a._b", "_a", "a_", "a b", "a\n", "a?x=1", "a/../b", "a/./b",
        "http://example.org/a", "example.org/a#f", "user:pass@example.org/a", "exa\xcc\x81mple.org/a", "a:\xc3\xa9",
    };
    char text[1200];
    struct sb_reference reference;

    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        ck_assert_msg(!strcmp(full(texts[i]), "refused"), "'%s' became '%s'", texts[i], full(texts[i]));
    ck_assert_int_eq(sb_reference_parse(NULL, &reference), -EINVAL);
    memset(text, 'a', sizeof text);
    for (size_t n = 1; n < sizeof text; n++) { /* every length: nothing is cut in silence */
        text[n] = 0;
        ck_assert_int_eq(sb_reference_parse(text, &reference), n <= SB_REFERENCE_MAX - strlen("docker.io/library/:latest") ? 0 : -EINVAL);
        text[n] = 'a';
    }
    snprintf(text, sizeof text, "a:%0129d", 0);
    ck_assert_int_eq(sb_reference_parse(text, &reference), -EINVAL);
    snprintf(text, sizeof text, "a:%0128d", 0);
    ck_assert_int_eq(sb_reference_parse(text, &reference), 0);
}
END_TEST

START_TEST(reference_kinds)
{
    ck_assert_int_eq(sb_reference_is("debian"), 0);
    ck_assert_int_eq(sb_reference_is("sha256:" HEX), 0);
    ck_assert_int_eq(sb_reference_is(NULL), 0);
    ck_assert_int_eq(sb_reference_is("debian:12"), 1);
    ck_assert_int_eq(sb_reference_is("docker://debian"), 1);
    ck_assert_int_eq(sb_reference_is("a/b"), 1);
    ck_assert_int_eq(sb_reference_is_loopback("localhost"), 1);
    ck_assert_int_eq(sb_reference_is_loopback("localhost:5000"), 1);
    ck_assert_int_eq(sb_reference_is_loopback("127.1.2.3:1"), 1);
    ck_assert_int_eq(sb_reference_is_loopback("[::1]:5000"), 1);
    ck_assert_int_eq(sb_reference_is_loopback("localhost.example.org"), 0);
    ck_assert_int_eq(sb_reference_is_loopback("127.0.0.1.example.org"), 0);
    ck_assert_int_eq(sb_reference_is_loopback("128.0.0.1"), 0);
    ck_assert_int_eq(sb_reference_is_loopback("127.0.0.1x:5"), 0);
    ck_assert_int_eq(sb_reference_is_loopback("[::2]"), 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("base-reference");
    TCase *tc = sbtest_case("reference");

    tcase_add_test(tc, reference_means);
    tcase_add_test(tc, reference_refused);
    tcase_add_test(tc, reference_kinds);
    suite_add_tcase(suite, tc);
    return sbtest_main(suite);
}
