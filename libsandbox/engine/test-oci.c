/* SPDX-License-Identifier: Apache-2.0
 * The documents of images: which one of an index is taken, what is refused, and that made ones are always the same. */
#include "oci.h"

#include <json.h>
#include <sbtest.h>
#include <stdio.h>
#include <string.h>
#include <util.h>

#define A "sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define B "sha256:bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
#define MANIFEST "\"mediaType\":\"application/vnd.oci.image.manifest.v1+json\",\"size\":7"

static struct sandbox_error *error;

static json_t *parse(const char *text)
{
    json_t *json = NULL;

    sbtest_ok(sb_json_parse(text, strlen(text), "test", &json, &error), &error);
    return json;
}

static int choose(const char *text, const char *select, const char *digest, struct sb_oci_descriptor *ret)
{
    SB_JSON json_t *json = parse(text);

    return sb_oci_choose(json, select, digest, ret, &error);
}

static const char *other(void)
{
    return strcmp(sb_oci_architecture(), "amd64") ? "amd64" : "arm64";
}

START_TEST(by_machine)
{
    struct sb_oci_descriptor chosen;
    char text[1024];

    snprintf(text, sizeof text,
             "{\"schemaVersion\":2,\"manifests\":[{" MANIFEST ",\"digest\":\"" A "\",\"platform\":{\"os\":\"linux\",\"architecture\":\"%s\"}},"
             "{" MANIFEST ",\"digest\":\"" B "\",\"platform\":{\"os\":\"linux\",\"architecture\":\"%s\"}}]}",
             other(), sb_oci_architecture());
    sbtest_ok(choose(text, NULL, NULL, &chosen), &error);
    ck_assert_str_eq(chosen.digest, B);
    ck_assert_int_eq(chosen.size, 7);
    snprintf(text, sizeof text,
             "{\"schemaVersion\":2,\"manifests\":[{" MANIFEST ",\"digest\":\"" A "\",\"platform\":{\"os\":\"linux\",\"architecture\":\"%s\"}}]}", other());
    sbtest_fails(choose(text, NULL, NULL, &chosen), SANDBOX_EUNSUPPORTED, &error);
    sbtest_fails(choose(text, NULL, A, &chosen), SANDBOX_EUNSUPPORTED, &error);
}
END_TEST

START_TEST(by_name_or_digest)
{
    static const char text[] = "{\"schemaVersion\":2,\"manifests\":["
                               "{" MANIFEST ",\"digest\":\"" A "\",\"annotations\":{\"org.opencontainers.image.ref.name\":\"one\"}},"
                               "{" MANIFEST ",\"digest\":\"" B "\",\"annotations\":{\"org.opencontainers.image.ref.name\":\"two\"}}]}";
    struct sb_oci_descriptor chosen;

    sbtest_ok(choose(text, "two", NULL, &chosen), &error);
    ck_assert_str_eq(chosen.digest, B);
    sbtest_ok(choose(text, NULL, A, &chosen), &error);
    ck_assert_str_eq(chosen.digest, A);
    sbtest_fails(choose(text, NULL, NULL, &chosen), SANDBOX_EINVALID, &error);
    sbtest_fails(choose(text, "three", NULL, &chosen), SANDBOX_ENOTFOUND, &error);
}
END_TEST

START_TEST(one_image_twice_is_one)
{
    struct sb_oci_descriptor chosen;

    sbtest_ok(choose("{\"schemaVersion\":2,\"manifests\":[{" MANIFEST ",\"digest\":\"" A "\"},{" MANIFEST ",\"digest\":\"" A "\"}]}", NULL, NULL, &chosen),
              &error);
    ck_assert_str_eq(chosen.digest, A);
}
END_TEST

START_TEST(attestations_are_no_images)
{
    struct sb_oci_descriptor chosen;

    sbtest_ok(choose("{\"schemaVersion\":2,\"manifests\":[{" MANIFEST ",\"digest\":\"" A "\"},{" MANIFEST ",\"digest\":\"" B
                     "\",\"platform\":{\"os\":\"unknown\",\"architecture\":\"unknown\"}}]}",
                     NULL, NULL, &chosen),
              &error);
    ck_assert_str_eq(chosen.digest, A);
}
END_TEST

START_TEST(indexes_that_are_refused)
{
    static const struct {
        const char *text;
        int code;
    } cases[] = {
        { "[]", SANDBOX_EDAMAGED }, { "{}", SANDBOX_EDAMAGED }, { "{\"schemaVersion\":1,\"manifests\":[]}", SANDBOX_EDAMAGED },
        { "{\"schemaVersion\":2,\"manifests\":{}}", SANDBOX_EDAMAGED }, { "{\"schemaVersion\":2,\"manifests\":[]}", SANDBOX_EDAMAGED },
        { "{\"schemaVersion\":2,\"manifests\":[7]}", SANDBOX_EDAMAGED }, { "{\"schemaVersion\":2,\"manifests\":[{}]}", SANDBOX_EDAMAGED },
        { "{\"schemaVersion\":2,\"manifests\":[{" MANIFEST ",\"digest\":\"sha256:AAAA\"}]}", SANDBOX_EDAMAGED },
        { "{\"schemaVersion\":2,\"manifests\":[{" MANIFEST ",\"digest\":\"../../x\"}]}", SANDBOX_EDAMAGED },
        { "{\"schemaVersion\":2,\"manifests\":[{" MANIFEST ",\"digest\":\"sha512:00\"}]}", SANDBOX_EUNSUPPORTED },
        { "{\"schemaVersion\":2,\"manifests\":[{\"mediaType\":\"x\",\"size\":-1,\"digest\":\"" A "\"}]}", SANDBOX_EDAMAGED },
        { "{\"schemaVersion\":2,\"config\":{},\"manifests\":[{" MANIFEST ",\"digest\":\"" A "\"}]}", SANDBOX_EDAMAGED },
    };
    struct sb_oci_descriptor chosen;

    for (size_t i = 0; i < SB_ELEMENTS(cases); i++)
        sbtest_fails(choose(cases[i].text, NULL, NULL, &chosen), cases[i].code, &error);
}
END_TEST

START_TEST(configs)
{
    char text[512];
    struct sb_oci_config config = { 0 };
    SB_JSON json_t *json = NULL;

    snprintf(text, sizeof text, "{\"architecture\":\"%s\",\"os\":\"linux\",\"config\":null,\"rootfs\":{\"type\":\"layers\",\"diff_ids\":[\"" A "\"]}}",
             sb_oci_architecture());
    json = parse(text);
    sbtest_ok(sb_oci_read_config(json, 1, &config, &error), &error);
    ck_assert_str_eq(config.diff_ids[0], A);
    sb_oci_config_clear(&config);
    sbtest_fails(sb_oci_read_config(json, 2, &config, &error), SANDBOX_EDAMAGED, &error);
    sbtest_fails(sb_oci_read_config(json, 0, &config, &error), SANDBOX_EDAMAGED, &error);
}
END_TEST

START_TEST(docker_archives)
{
    struct sb_oci_docker docker = { 0 };
    SB_JSON json_t *two = parse("[{\"Config\":\"a.json\",\"RepoTags\":[\"x:1\"],\"Layers\":[\"l\"]},"
                               "{\"Config\":\"b.json\",\"RepoTags\":[\"y:2\"],\"Layers\":[]}]");
    SB_JSON json_t *bad = parse("[{\"Config\":\"a.json\",\"Layers\":[7]}]");
    SB_JSON json_t *none = parse("[]");

    sbtest_ok(sb_oci_choose_docker(two, "x:1", &docker, &error), &error);
    ck_assert_str_eq(docker.config, "a.json");
    ck_assert_uint_eq(docker.n_layers, 1);
    ck_assert_str_eq(docker.layers[0], "l");
    sb_oci_docker_clear(&docker);
    sbtest_fails(sb_oci_choose_docker(two, NULL, &docker, &error), SANDBOX_EINVALID, &error);
    sbtest_fails(sb_oci_choose_docker(two, "z", &docker, &error), SANDBOX_ENOTFOUND, &error);
    sbtest_fails(sb_oci_choose_docker(bad, NULL, &docker, &error), SANDBOX_EDAMAGED, &error);
    sbtest_fails(sb_oci_choose_docker(none, NULL, &docker, &error), SANDBOX_EDAMAGED, &error);
}
END_TEST

/* The digests of made documents are identities: their bytes may never change. */
START_TEST(made_documents)
{
    static const char ids[1][SB_DIGEST_SIZE] = { A };
    const struct sb_oci_made_layer layer = { A, 10240 };
    SB_FREE char *config = sb_oci_make_config(ids, 1), *manifest = sb_oci_make_manifest(B, 163, &layer, 1);
    char expected[512];

    snprintf(expected, sizeof expected, "{\"architecture\":\"%s\",\"config\":{},\"os\":\"linux\",\"rootfs\":{\"diff_ids\":[\"" A "\"],\"type\":\"layers\"}}",
             sb_oci_architecture());
    ck_assert_str_eq(config, expected);
    ck_assert_str_eq(manifest, "{\"config\":{\"digest\":\"" B "\",\"mediaType\":\"application/vnd.oci.image.config.v1+json\",\"size\":163},"
                               "\"layers\":[{\"digest\":\"" A "\",\"mediaType\":\"application/vnd.oci.image.layer.v1.tar\",\"size\":10240}],"
                               "\"mediaType\":\"application/vnd.oci.image.manifest.v1+json\",\"schemaVersion\":2}");
}
END_TEST

int main(void)
{
    const TTest *const tests[] = { by_machine, by_name_or_digest, one_image_twice_is_one, attestations_are_no_images, indexes_that_are_refused,
                                   configs, docker_archives, made_documents };
    Suite *suite = suite_create("oci");
    TCase *cases = sbtest_case("oci");

    for (size_t i = 0; i < SB_ELEMENTS(tests); i++)
        tcase_add_test(cases, tests[i]);
    suite_add_tcase(suite, cases);
    return sbtest_main(suite);
}
