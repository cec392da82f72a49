/* SPDX-License-Identifier: Apache-2.0
 * WWW-Authenticate as registries send it, and as nobody should. */
#include <sbtest.h>

#include "pull-challenge.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static struct pull_challenge challenge;

static int parse(const char *text)
{
    memset(&challenge, 0, sizeof challenge);
    return pull_challenge_parse(text, strlen(text), &challenge);
}

START_TEST(challenge_bearer)
{
    ck_assert_int_eq(parse("Bearer realm=\"https://auth.example/token\",service=\"registry\",scope=\"repository:a/b:pull\""), 0);
    ck_assert_int_eq(challenge.bearer, 1);
    ck_assert_int_eq(challenge.basic, 0);
    ck_assert_str_eq(challenge.realm, "https://auth.example/token");
    ck_assert_str_eq(challenge.service, "registry");
    ck_assert_str_eq(challenge.scope, "repository:a/b:pull");
    ck_assert_int_eq(parse("bEARER  scope = \"x,y\" , error=\"invalid_token\", REALM=https://a/b:1?c"), 0);
    ck_assert_str_eq(challenge.realm, "https://a/b:1?c");
    ck_assert_str_eq(challenge.scope, "x,y");
    ck_assert_str_eq(challenge.service, "");
    ck_assert_int_eq(parse("Bearer realm=\"a\\\"b\\\\c\""), 0);
    ck_assert_str_eq(challenge.realm, "a\"b\\c");
}
END_TEST

START_TEST(challenge_several)
{
    ck_assert_int_eq(parse("Basic realm=\"x\", Bearer realm=\"y\",service=s, Basic realm=z"), 0);
    ck_assert_int_eq(challenge.basic, 1);
    ck_assert_int_eq(challenge.bearer, 1);
    ck_assert_str_eq(challenge.realm, "y");
    ck_assert_str_eq(challenge.service, "s");
    ck_assert_int_eq(parse("Negotiate dG9r/ZW4=, ,Bearer realm=\"y\",,"), 0);
    ck_assert_str_eq(challenge.realm, "y");
    ck_assert_int_eq(parse("Negotiate"), 0);
    ck_assert_int_eq(challenge.basic + challenge.bearer, 0);
    ck_assert_int_eq(parse("Bearer service=\"no realm\", Bearer realm=\"first\", Bearer realm=\"second\""), 0);
    ck_assert_str_eq(challenge.realm, "first");
    ck_assert_str_eq(challenge.service, "");
    ck_assert_int_eq(parse(""), 0);
    /* a second header adds to the first */
    ck_assert_int_eq(parse("Basic realm=\"x\""), 0);
    ck_assert_int_eq(pull_challenge_parse("Bearer realm=r", 14, &challenge), 0);
    ck_assert_int_eq(challenge.basic, 1);
    ck_assert_str_eq(challenge.realm, "r");
}
END_TEST

START_TEST(challenge_refused)
{
    static const char *const texts[] = {
        "Bearer realm=\"open", "Bearer realm=\"x\\", "Bearer realm=\"a\nb\"", "Bearer realm=\"a\x7f\"", "=", "\"Bearer\"",
        "Bearer realm=\"x\" service=\"y\"", "Bearer realm=\"x\",realm=\"y\"", "Bearer/x realm=y", "Bearer realm=\"x\"y",
    };
    char text[4200] = "Bearer realm=\"";
    size_t prefix = strlen(text);

    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        ck_assert_msg(parse(texts[i]) == -EINVAL, "'%s' was taken: realm '%s'", texts[i], challenge.realm);
    for (size_t n = sizeof challenge.realm - 2; n < sizeof challenge.realm + 2; n++) {
        memset(text + prefix, 'a', n);
        memcpy(text + prefix + n, "\"", 2);
        ck_assert_int_eq(parse(text), n < sizeof challenge.realm ? 0 : -EINVAL);
    }
}
END_TEST

/* Whatever comes: no byte beyond the end is read (the sanitizer watches), every string ends. */
START_TEST(challenge_any_bytes)
{
    static const char seed[] = "Basic realm=\"x\", Bearer realm=\"https://a\",service=s,scope=\"a\\\"b\", Negotiate abc==";
    const size_t size = sizeof seed - 1;

    srand(1);
    for (int round = 0; round < 20000; round++) {
        size_t n = (size_t)rand() % (size + 1);
        char *text = malloc(n ? n : 1);

        memcpy(text, seed, n);
        for (int i = rand() % 4; i > 0 && n; i--)
            text[(size_t)rand() % n] = (char)rand();
        memset(&challenge, 0, sizeof challenge);
        if (pull_challenge_parse(text, n, &challenge))
            ck_assert_int_eq(challenge.basic + challenge.bearer, 0);
        ck_assert(memchr(challenge.realm, 0, sizeof challenge.realm) && memchr(challenge.scope, 0, sizeof challenge.scope) &&
                  memchr(challenge.service, 0, sizeof challenge.service));
        free(text);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("pull-challenge");
    TCase *tc = sbtest_case("challenge");

    tcase_add_test(tc, challenge_bearer);
    tcase_add_test(tc, challenge_several);
    tcase_add_test(tc, challenge_refused);
    tcase_add_test(tc, challenge_any_bytes);
    suite_add_tcase(suite, tc);
    return sbtest_main(suite);
}
