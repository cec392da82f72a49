/* SPDX-License-Identifier: Apache-2.0
 * Docker's config.json: whose credentials are taken, and that what is in it never gets into an error. */
#include "docker-config.h"

#include <sbtest.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct sandbox_error *error;
static struct sb_docker_config config;

static int read_for(const char *text, const char *name)
{
    struct sb_reference reference;

    ck_assert_int_eq(sb_reference_parse(name, &reference), 0);
    sb_credentials_clear(&config.stored);
    config = (struct sb_docker_config){ 0 };
    return sb_docker_config_read(text, strlen(text), &reference, &config, &error);
}

static void expect(const char *text, const char *name, int kind, const char *user, const char *secret)
{
    sbtest_ok(read_for(text, name), &error);
    ck_assert_int_eq((int)config.stored.kind, kind);
    if (kind) {
        ck_assert_str_eq(config.stored.user, user);
        ck_assert_str_eq(config.stored.secret, secret);
    }
    sb_credentials_clear(&config.stored);
}

START_TEST(config_auths)
{
    static const char text[] = "{\"auths\":{\"https://index.docker.io/v1/\":{\"auth\":\"YTpi\"},\"example.org:5000\":{\"auth\":\"dTpwOnE=\"},"
                               "\"example.org:5000/team\":{\"auth\":\"dDp0\"},\"http://plain.example/v2/\":{\"auth\":\"eDp5\"},"
                               "\"id.example\":{\"auth\":\"dTo=\",\"identitytoken\":\"IT\"},\"tok.example\":{\"registrytoken\":\"RT\"},"
                               "\"old.example\":{\"username\":\"o\",\"password\":\"w\"},\"empty.example\":{}}}";

    expect(text, "debian", SB_CREDENTIALS_PASSWORD, "a", "b");
    expect(text, "example.org:5000/app", SB_CREDENTIALS_PASSWORD, "u", "p:q");
    expect(text, "example.org:5000/team/app", SB_CREDENTIALS_PASSWORD, "t", "t");
    expect(text, "example.org:5000/teamwork/app", SB_CREDENTIALS_PASSWORD, "u", "p:q");
    expect(text, "plain.example/app", SB_CREDENTIALS_PASSWORD, "x", "y");
    expect(text, "id.example/app", SB_CREDENTIALS_IDENTITY, "u", "IT");
    expect(text, "tok.example/app", SB_CREDENTIALS_BEARER, "", "RT");
    expect(text, "old.example/app", SB_CREDENTIALS_PASSWORD, "o", "w");
    expect(text, "empty.example/app", SB_CREDENTIALS_NONE, NULL, NULL);
    /* neither another port nor a longer or shorter name is the same host */
    expect(text, "example.org/app", SB_CREDENTIALS_NONE, NULL, NULL);
    expect(text, "example.org:50000/app", SB_CREDENTIALS_NONE, NULL, NULL);
    expect(text, "sub.old.example/app", SB_CREDENTIALS_NONE, NULL, NULL);
    expect("{}", "debian", SB_CREDENTIALS_NONE, NULL, NULL);
}
END_TEST

START_TEST(config_helpers)
{
    static const char text[] = "{\"credsStore\":\"store\",\"credHelpers\":{\"a.example\":\"one\",\"docker.io\":\"two\",\"none.example\":\"\"},"
                               "\"auths\":{\"b.example\":{\"auth\":\"dTpw\"}}}";

    sbtest_ok(read_for(text, "a.example/x"), &error);
    ck_assert_str_eq(config.helper, "one");
    ck_assert_str_eq(config.server, "a.example");
    sbtest_ok(read_for(text, "debian"), &error);
    ck_assert_str_eq(config.helper, "two");
    ck_assert_str_eq(config.server, "https://index.docker.io/v1/");
    sbtest_ok(read_for(text, "b.example/x"), &error);
    ck_assert_str_eq(config.helper, "store");
    ck_assert_str_eq(config.stored.user, "u");
    sbtest_ok(read_for(text, "none.example/x"), &error);
    ck_assert_str_eq(config.helper, "");
    sb_credentials_clear(&config.stored);
    for (int i = 0; i < 6; i++) { /* a name leads to a program: never to another folder */
        static const char *const names[] = { "../evil", "/bin/sh", "a/b", ".x", "a b", "-x" };
        char bad[128];

        snprintf(bad, sizeof bad, "{\"credsStore\":\"%s\"}", names[i]);
        sbtest_fails(read_for(bad, "a.example/x"), SANDBOX_EDAMAGED, &error);
    }
}
END_TEST

START_TEST(config_damaged)
{
    static const char *const texts[] = {
        "", "[]", "{", "{\"auths\":[]}", "{\"credHelpers\":1}", "{\"credHelpers\":{\"a.example\":1}}",
        "{\"auths\":{\"a.example\":{\"auth\":\"c2VjcmV0\"}}}", "{\"auths\":{\"a.example\":{\"auth\":\"secret!\"}}}",
        "{\"auths\":{\"a.example\":{\"auth\":\"dTpzZWNyZXQAeA==\"}}}", "{\"secret\":1,\"secret\":2}",
    };

    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        int r = read_for(texts[i], "a.example/x");

        ck_assert_msg(r == SANDBOX_EDAMAGED, "%s: %d", texts[i], r);
        ck_assert(!strstr(sandbox_error_get_message(error), "ecret"));
        error = sandbox_error_unref(error);
    }
    expect("{\"auths\":{\"a.example\":{\"auth\":\"dTpwAAA=\"}}}", "a.example/x", SB_CREDENTIALS_PASSWORD, "u", "p");
}
END_TEST

START_TEST(config_answers)
{
    static const char *const bad[] = { "", "garbage", "[]", "{}", "{\"Username\":\"u\"}", "{\"Username\":1,\"Secret\":\"s\"}",
                                        "{\"Username\":\"u\",\"Secret\":\"hush\"} x" };
    static const char good[] = "{\"ServerURL\":\"x\",\"Username\":\"u\",\"Secret\":\"s\"}\n", token[] = "{\"Username\":\"<token>\",\"Secret\":\"t\"}";
    struct sb_credentials credentials = { 0 };
    char *big = malloc(20000);

    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        ck_assert_int_eq(sb_docker_config_read_answer(bad[i], strlen(bad[i]), &credentials, &error), SANDBOX_EPROTOCOL);
        ck_assert(!strstr(sandbox_error_get_message(error), "hush"));
        error = sandbox_error_unref(error);
    }
    sbtest_ok(sb_docker_config_read_answer(good, strlen(good), &credentials, &error), &error);
    ck_assert_int_eq((int)credentials.kind, SB_CREDENTIALS_PASSWORD);
    ck_assert_str_eq(credentials.secret, "s");
    sb_credentials_clear(&credentials);
    sbtest_ok(sb_docker_config_read_answer(token, strlen(token), &credentials, &error), &error);
    ck_assert_int_eq((int)credentials.kind, SB_CREDENTIALS_IDENTITY);
    sb_credentials_clear(&credentials);
    snprintf(big, 20000, "{\"Username\":\"u\",\"Secret\":\"%010000d\"}", 0);
    sbtest_fails(sb_docker_config_read_answer(big, strlen(big), &credentials, &error), SANDBOX_ELIMIT, &error);
    free(big);
    ck_assert_int_eq(sb_docker_config_is_not_found("credentials not found in native keychain\n", 41), 1);
    ck_assert_int_eq(sb_docker_config_is_not_found("credentials not found", 21), 0);
    ck_assert_int_eq(sb_docker_config_is_not_found("", 0), 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("engine-docker-config");
    TCase *tc = sbtest_case("config");

    tcase_add_test(tc, config_auths);
    tcase_add_test(tc, config_helpers);
    tcase_add_test(tc, config_damaged);
    tcase_add_test(tc, config_answers);
    suite_add_tcase(suite, tc);
    return sbtest_main(suite);
}
