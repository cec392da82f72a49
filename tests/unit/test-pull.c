/* SPDX-License-Identifier: Apache-2.0
 * What a pull and a collect take from their caller: each wrong argument is named, and secrets never get into an error. */
#include "fake.h"

#include <sbtest.h>

#include <string.h>

static struct sandbox_host *host;

static void begin(void)
{
    fake_reset();
    host = fake_host();
}

static void end(void)
{
    host = sandbox_host_unref(host);
}

static void refused(const char *reference, const struct sandbox_image_pull_options *options, const char *field)
{
    struct sandbox_error *error = NULL;
    struct sandbox_op *op = NULL;
    int r = sandbox_image_pull_begin(host, reference, options, &op, &error);

    ck_assert_int_eq(r, SANDBOX_EINVALID);
    ck_assert_ptr_null(op);
    ck_assert_str_eq(sandbox_error_get_field(error), field);
    ck_assert(!strstr(sandbox_error_get_message(error), "hush"));
    sandbox_error_unref(error);
}

START_TEST(pull_arguments)
{
    static const char *const env[] = { "no-equals-sign", NULL };
    struct sandbox_image_pull_options options;
    char large[8300];

    memset(large, 'h', sizeof large);
    large[sizeof large - 1] = 0;
    refused(NULL, NULL, "reference");
    refused("", NULL, "reference");
    refused("a//b", NULL, "reference");
    refused("sha256:0123", NULL, "reference");
#define REFUSED(name, ...)                                                                                                       \
    do {                                                                                                                         \
        options = (struct sandbox_image_pull_options)SANDBOX_IMAGE_PULL_OPTIONS_INIT;                                            \
        __VA_ARGS__;                                                                                                             \
        refused("a/b", &options, name);                                                                                          \
    } while (0)
    REFUSED("policy", options.policy = 2);
    REFUSED("flags", options.flags = 1u << 7);
    REFUSED("name", options.name = "a/b");
    REFUSED("name", options.name = "host");
    REFUSED("digest", options.digest = "sha256:12");
    REFUSED("password", options.username = "u");
    REFUSED("password", options.username = "u", options.password = "");
    REFUSED("password", options.password = large);
    REFUSED("username", options.username = "u:v", options.password = "hush");
    REFUSED("username", options.username = "", options.password = "hush");
    REFUSED("docker_config", options.password = "hush", options.docker_config = "/f");
    REFUSED("docker_config", options.docker_config = "");
    REFUSED("helper_env", options.helper_env = env);
    REFUSED("ca_file", options.ca_file = "");
    REFUSED("proxy", options.proxy = "");
    REFUSED("max_bytes", options.max_bytes = -1);
    REFUSED("max_entries", options.max_entries = -1);
    REFUSED("parallel", options.parallel = 17);
    REFUSED("parallel", options.parallel = -1);
}
END_TEST

/* A host that can't says so, with the call's name. */
START_TEST(pull_unsupported)
{
    struct sandbox_collected collected = SANDBOX_COLLECTED_INIT;
    struct sandbox_error *error = NULL;
    struct sandbox_image *image = NULL;

    ck_assert_int_eq(sandbox_image_pull(host, "docker://a/b:1", NULL, -1, &image, &error), SANDBOX_EUNSUPPORTED);
    ck_assert_ptr_nonnull(strstr(sandbox_error_get_message(error), "image pull"));
    error = sandbox_error_unref(error);
    sbtest_fails(sandbox_image_pull(host, "a/b", NULL, -2, &image, &error), SANDBOX_EINVALID, &error);
    sbtest_fails(sandbox_image_pull(host, "a/b", NULL, -1, NULL, &error), SANDBOX_EINVALID, &error);
    sbtest_fails(sandbox_image_pull(NULL, "a/b", NULL, -1, &image, &error), SANDBOX_EINVALID, &error);
    sbtest_fails(sandbox_images_collect(host, 0, -1, &collected, &error), SANDBOX_EUNSUPPORTED, &error);
    sbtest_fails(sandbox_images_collect(host, 1u << 5, -1, &collected, &error), SANDBOX_EINVALID, &error);
    sbtest_fails(sandbox_op_get_collected(NULL, &collected, &error), SANDBOX_EINVALID, &error);
    ck_assert_ptr_null(image);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("api-pull");
    TCase *tc = sbtest_case("pull");

    tcase_add_checked_fixture(tc, begin, end);
    tcase_add_test(tc, pull_arguments);
    tcase_add_test(tc, pull_unsupported);
    suite_add_tcase(suite, tc);
    return sbtest_main(suite);
}
