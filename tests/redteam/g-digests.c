/* SPDX-License-Identifier: Apache-2.0
 * G03, F52: images whose documents, digests, sizes or machine don't agree: nothing of them is taken. */
#include "g-oci.h"
#include "g-store.h"

#include <fcntl.h>
#include <oci.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static struct layout made(struct layout layout)
{
    struct tar tar = { 0 };

    layout.folder = in_dir("layout");
    TAR(&tar, .name = "bin/sh", .data = "program", .mode = 0755);
    tar_end(&tar);
    layout_write(&layout, &tar);
    return layout;
}
#define MADE(...) made((struct layout){ __VA_ARGS__ })

static void expect_refused(int code, const char *word)
{
    refused(in_dir("layout"), NULL, code, word);
}

/* Changes one byte without changing the size. */
static void damage(const char *path)
{
    int fd = open(path, O_RDWR | O_CLOEXEC);
    char byte;

    ck_assert_int_eq(pread(fd, &byte, 1, 3), 1);
    byte ^= 1;
    ck_assert_int_eq(pwrite(fd, &byte, 1, 3), 1);
    close(fd);
}

START_TEST(a_right_one)
{
    struct sandbox_image_import_options options = SANDBOX_IMAGE_IMPORT_OPTIONS_INIT;
    struct layout layout = MADE(0);
    struct sandbox_error *error = NULL;
    SB_JSON json_t *image = NULL, *by_config = NULL;

    sbtest_ok(import(in_dir("layout"), NULL, &image, &error), &error);
    ck_assert_str_eq(json_string_value(json_object_get(image, "digest")), layout.manifest);
    ck_assert_str_eq(json_string_value(json_object_get(image, "config_digest")), layout.config);
    ck_assert_str_eq(json_string_value(json_array_get(json_object_get(image, "layers"), 0)), layout.diff_id);
    sbtest_ok(sb_image_inspect(store, layout.config, &by_config, &error), &error);
    ck_assert(json_equal(image, by_config));
    options.digest = layout.manifest;
    sbtest_ok(import(in_dir("layout"), &options, NULL, &error), &error);
    options.digest = layout.config;
    sbtest_ok(import(in_dir("layout"), &options, NULL, &error), &error);
}
END_TEST

START_TEST(another_than_promised)
{
    struct sandbox_image_import_options options = SANDBOX_IMAGE_IMPORT_OPTIONS_INIT;
    struct layout layout = MADE(0);

    options.digest = layout.layer;
    refused(in_dir("layout"), &options, SANDBOX_EDIGEST, layout.layer);
    options.digest = "sha256:1234";
    refused(in_dir("layout"), &options, SANDBOX_EINVALID, NULL);
    options.digest = "";
    refused(in_dir("layout"), &options, SANDBOX_EINVALID, NULL);
}
END_TEST

START_TEST(rootfs_another_than_promised)
{
    struct sandbox_image_import_options options = SANDBOX_IMAGE_IMPORT_OPTIONS_INIT;
    struct layout layout = MADE(0);
    const char *blob = layout_blob(&layout, layout.layer);

    options.digest = layout.manifest;
    refused(blob, &options, SANDBOX_EDIGEST, "promised");
}
END_TEST

START_TEST(blobs_that_were_changed)
{
    struct layout layout = MADE(0);

    damage(layout_blob(&layout, layout.layer));
    expect_refused(SANDBOX_EDIGEST, layout.layer);
    layout = MADE(0);
    damage(layout_blob(&layout, layout.config));
    expect_refused(SANDBOX_EDIGEST, layout.config);
    layout = MADE(0);
    damage(layout_blob(&layout, layout.manifest));
    expect_refused(SANDBOX_EDIGEST, layout.manifest);
}
END_TEST

START_TEST(sizes_that_differ)
{
    MADE(.layer_size_add = 1);
    expect_refused(SANDBOX_EDIGEST, "promises");
    MADE(.layer_size_add = -512);
    expect_refused(SANDBOX_EDIGEST, "promises");
    MADE(.manifest_size_add = 1);
    expect_refused(SANDBOX_EDIGEST, "promises");
}
END_TEST

START_TEST(diff_ids_that_differ)
{
    MADE(.diff_id_text = "sha256:0000000000000000000000000000000000000000000000000000000000000000");
    expect_refused(SANDBOX_EDIGEST, "0000000000");
    MADE(.diff_id_text = "md5:00");
    expect_refused(SANDBOX_EDAMAGED, "diff_id");
    MADE(.diff_id_text = "sha256:../../../../../../../../../../../../../../etc/passwd00000000000000");
    expect_refused(SANDBOX_EDAMAGED, "diff_id");
}
END_TEST

START_TEST(blobs_that_are_missing_or_links)
{
    struct layout layout = MADE(0);
    const char *blob = layout_blob(&layout, layout.layer);

    ck_assert_int_eq(rename(blob, in_dir("elsewhere")), 0);
    expect_refused(SANDBOX_ENOTFOUND, layout.layer + 7);
    ck_assert_int_eq(symlink(in_dir("elsewhere"), blob), 0);
    expect_refused(SANDBOX_EDAMAGED, "link");
    ck_assert_int_eq(unlink(blob), 0);
    ck_assert_int_eq(mkfifo(blob, 0600), 0);
    expect_refused(SANDBOX_EDAMAGED, "regular");
}
END_TEST

START_TEST(other_machines)
{
    MADE(.architecture = "riscv64");
    expect_refused(SANDBOX_EUNSUPPORTED, "riscv64");
    MADE(.architecture = "");
    expect_refused(SANDBOX_EUNSUPPORTED, NULL);
    MADE(.config_text = "{\"os\":\"linux\",\"rootfs\":{\"type\":\"layers\",\"diff_ids\":[]}}");
    expect_refused(SANDBOX_EDAMAGED, "architecture");
}
END_TEST

/* CVE-2021-41190: one document that is an index to one reader and a manifest to another. */
START_TEST(two_things_at_once)
{
    struct layout layout = MADE(0);
    char text[2048];

    MADE(.manifest_type = "application/vnd.oci.image.index.v1+json");
    expect_refused(SANDBOX_EDAMAGED, "index");
    MADE(.manifest_text = "{\"schemaVersion\":2,\"manifests\":[]}");
    expect_refused(SANDBOX_EDAMAGED, "manifest");
    snprintf(text, sizeof text,
             "{\"schemaVersion\":2,\"manifests\":[],\"config\":{\"mediaType\":\"application/vnd.oci.image.config.v1+json\",\"digest\":\"%s\",\"size\":%zu},"
             "\"layers\":[]}",
             layout.config, layout.config_size);
    MADE(.manifest_text = text);
    expect_refused(SANDBOX_EDAMAGED, "index");
    snprintf(text, sizeof text,
             "{\"schemaVersion\":2,\"layers\":[],\"manifests\":[{\"mediaType\":\"application/vnd.oci.image.manifest.v1+json\","
             "\"digest\":\"%s\",\"size\":%zu}]}",
             layout.manifest, layout.manifest_size);
    MADE(.index_text = text);
    expect_refused(SANDBOX_EDAMAGED, "two ways");
    MADE(.manifest_text = "{\"schemaVersion\":2,\"schemaVersion\":2,\"layers\":[]}");
    expect_refused(SANDBOX_EDAMAGED, "manifest");
}
END_TEST

START_TEST(unknown_types)
{
    MADE(.layer_type = "application/vnd.oci.image.layer.v1.tar+encrypted");
    expect_refused(SANDBOX_EUNSUPPORTED, "encrypted");
    MADE(.manifest_type = "application/vnd.example.thing");
    expect_refused(SANDBOX_EDAMAGED, "no image");
    MADE(.layout_text = "{\"imageLayoutVersion\":\"9.0.0\"}");
    expect_refused(SANDBOX_EUNSUPPORTED, "9.0.0");
    MADE(.layout_text = "not json");
    expect_refused(SANDBOX_EDAMAGED, NULL);
    MADE(.index_text = "{\"schemaVersion\":2,\"manifests\":[]}");
    expect_refused(SANDBOX_EDAMAGED, "no image");
    MADE(.config_text = "{\"architecture\":\"amd64\",\"os\":\"linux\",\"config\":{\"Env\":[\"NOVALUE\"]},\"rootfs\":{\"type\":\"layers\",\"diff_ids\":[]}}");
    expect_refused(strcmp(sb_oci_architecture(), "amd64") ? SANDBOX_EUNSUPPORTED : SANDBOX_EDAMAGED, NULL);
}
END_TEST

/* A docker archive in which a name that is a digest holds something else. */
START_TEST(docker_configs_by_digest)
{
    static const char config[] = "{\"architecture\":\"amd64\",\"os\":\"linux\",\"rootfs\":{\"type\":\"layers\",\"diff_ids\":[]}}";
    char digest[DIGEST], name[100], manifest[300];
    struct tar tar = { 0 };

    digest_of(config, strlen(config), digest);
    digest[7] = digest[7] == '0' ? '1' : '0';
    snprintf(name, sizeof name, "%s.json", digest + 7);
    snprintf(manifest, sizeof manifest, "[{\"Config\":\"%s\",\"RepoTags\":null,\"Layers\":[]}]", name);
    TAR(&tar, .name = name, .data = config);
    TAR(&tar, .name = "manifest.json", .data = manifest);
    tar_end(&tar);
    tar_save(&tar, in_dir("docker.tar"));
    refused(in_dir("docker.tar"), NULL, SANDBOX_EDIGEST, digest);
    TAR(&tar, .name = "manifest.json", .data = "[{\"Config\":\"../../etc/passwd\",\"Layers\":[]}]");
    tar_save(&tar, in_dir("docker.tar"));
    refused(in_dir("docker.tar"), NULL, SANDBOX_ENOTFOUND, NULL);
    TAR(&tar, .name = "manifest.json", .data = manifest);
    TAR(&tar, .name = "manifest.json", .data = "[]");
    tar_save(&tar, in_dir("docker.tar"));
    refused(in_dir("docker.tar"), NULL, SANDBOX_EDAMAGED, "twice");
}
END_TEST

START_TEST(damaged_records)
{
    struct layout layout = MADE(0);
    struct sandbox_error *error = NULL;
    struct sb_image_ref ref = SB_IMAGE_REF_INIT;
    SB_JSON json_t *list = NULL, *again = NULL;
    char path[700];

    sbtest_ok(import(in_dir("layout"), NULL, NULL, &error), &error);
    snprintf(path, sizeof path, "%s/state/images/%s.json", sbtest_dir(), layout.manifest + 7);
    save(path, "{\"schema\":1}", 12);
    sbtest_fails(sb_image_resolve(store, layout.manifest, &ref, &error), SANDBOX_EDAMAGED, &error);
    sbtest_ok(sb_image_list(store, &list, &error), &error);
    ck_assert_uint_eq(json_array_size(list), 1);
    ck_assert_ptr_nonnull(json_object_get(json_array_get(list, 0), "damaged"));
    sbtest_ok(import(in_dir("layout"), NULL, NULL, &error), &error);
    sbtest_ok(sb_image_list(store, &again, &error), &error);
    ck_assert_ptr_null(json_object_get(json_array_get(again, 0), "damaged"));
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {
        a_right_one, another_than_promised, rootfs_another_than_promised, blobs_that_were_changed, sizes_that_differ, diff_ids_that_differ,
        blobs_that_are_missing_or_links, other_machines, two_things_at_once, unknown_types, docker_configs_by_digest, damaged_records,
    };
    Suite *suite = suite_create("digests");
    TCase *cases = sbtest_case("digests");

    tcase_add_checked_fixture(cases, store_open, store_close);
    for (size_t i = 0; i < SB_ELEMENTS(tests); i++)
        tcase_add_test(cases, tests[i]);
    suite_add_tcase(suite, cases);
    return sbtest_main(suite);
}
