/* SPDX-License-Identifier: Apache-2.0
 * What hosts answer: sandboxes, images and volumes as documents, whole and damaged. */
#include "fake.h"

#include <sbtest.h>

#include <stdio.h>
#include <string.h>

static struct sandbox_host *host;
static struct sandbox *sandbox;

static void begin(void)
{
    fake_reset();
    host = fake_host();
    sandbox = fake_sandbox(host);
}

static void end(void)
{
    sandbox = sandbox_unref(sandbox);
    host = sandbox_host_unref(host);
}

START_TEST(an_info_tells)
{
    struct sandbox_error *error = NULL;
    struct sandbox_info *info = NULL;

    sbtest_ok(sandbox_inspect(sandbox, &info, &error), &error);
    ck_assert_str_eq(sandbox_info_get_id(info), FAKE_ID);
    ck_assert_str_eq(sandbox_info_get_name(info), "box");
    ck_assert_int_eq(sandbox_info_get_state(info), SANDBOX_STATE_RUNNING);
    ck_assert_str_eq(sandbox_info_get_image(info), "debian");
    ck_assert_str_eq(sandbox_info_get_image_digest(info), FAKE_DIGEST);
    ck_assert_int_eq(sandbox_info_get_created_ms(info), 1234567890123);
    ck_assert_str_eq(sandbox_info_get_label(info, "k"), "v");
    ck_assert_ptr_null(sandbox_info_get_label(info, "absent"));
    ck_assert_ptr_null(sandbox_info_get_label(info, NULL));
    ck_assert_ptr_nonnull(strstr(sandbox_info_get_json(info), "\"labels\":{\"k\":\"v\"}"));
    ck_assert_ptr_null(sandbox_info_unref(info));
    ck_assert_ptr_null(sandbox_info_unref(NULL));
    ck_assert_str_eq(sandbox_info_get_id(NULL), "");
    ck_assert_int_eq(sandbox_info_get_state(NULL), SANDBOX_EINVALID);
    ck_assert_str_eq(sandbox_info_get_json(NULL), "");
}
END_TEST

START_TEST(every_state_is_known)
{
    static const char *const names[] = { "creating", "created", "running", "stopped", "failed", "damaged", "paused" };
    struct sandbox_info *info = NULL;
    char text[600];

    for (int i = 0; i < (int)SB_ELEMENTS(names); i++) {
        snprintf(text, sizeof text, "{\"id\":\"%s\",\"name\":\"\",\"state\":\"%s\",\"image\":{\"ref\":\"\",\"digest\":\"\"},\"labels\":{}}", FAKE_ID,
                 names[i]);
        fake.answer = text;
        ck_assert_int_eq(sandbox_inspect(sandbox, &info, NULL), 0);
        ck_assert_int_eq(sandbox_info_get_state(info), i);
        info = sandbox_info_unref(info);
    }
}
END_TEST

static const char *const wrong_infos[] = {
    "{}", "[]", "1", "null",
    "{\"id\":\"0123\",\"name\":\"\",\"state\":\"running\",\"image\":{\"ref\":\"\",\"digest\":\"\"},\"labels\":{}}",
    "{\"id\":\"" FAKE_ID "\",\"name\":null,\"state\":\"running\",\"image\":{\"ref\":\"\",\"digest\":\"\"},\"labels\":{}}",
    "{\"id\":\"" FAKE_ID "\",\"name\":\"\",\"state\":\"flying\",\"image\":{\"ref\":\"\",\"digest\":\"\"},\"labels\":{}}",
    "{\"id\":\"" FAKE_ID "\",\"name\":\"\",\"state\":\"running\",\"image\":\"x\",\"labels\":{}}",
    "{\"id\":\"" FAKE_ID "\",\"name\":\"\",\"state\":\"running\",\"image\":{\"ref\":\"\"},\"labels\":{}}",
    "{\"id\":\"" FAKE_ID "\",\"name\":\"\",\"state\":\"running\",\"image\":{\"ref\":\"\",\"digest\":\"\"},\"labels\":[]}",
};

START_TEST(a_wrong_info_is_a_broken_protocol)
{
    struct sandbox_error *error = NULL;
    struct sandbox_info *info = NULL;

    fake.answer = wrong_infos[_i];
    sbtest_fails(sandbox_inspect(sandbox, &info, &error), SANDBOX_EPROTOCOL, &error);
    ck_assert_ptr_null(info);
}
END_TEST

START_TEST(lists_are_filtered_by_the_host)
{
    struct sandbox_list_options options = SANDBOX_LIST_OPTIONS_INIT;
    struct sandbox_error *error = NULL;
    struct sandbox_list *list = NULL;
    char text[2000];

    snprintf(text, sizeof text, "[%s,%s]", fake_document, fake_document);
    fake.answer = text;
    sbtest_ok(sandbox_host_list(host, NULL, &list, &error), &error);
    ck_assert_str_eq(fake.called, "list - - -");
    ck_assert_uint_eq(sandbox_list_get_count(list), 2);
    ck_assert_str_eq(sandbox_info_get_name(sandbox_list_get(list, 1)), "box");
    ck_assert_ptr_null(sandbox_list_get(list, 2));
    list = sandbox_list_unref(list);
    fake.answer = "[]";
    options.name_prefix = "b";
    options.label_key = "k";
    options.label_value = "v";
    sbtest_ok(sandbox_host_list(host, &options, &list, &error), &error);
    ck_assert_str_eq(fake.called, "list b k v");
    ck_assert_uint_eq(sandbox_list_get_count(list), 0);
    sandbox_list_unref(list);
    ck_assert_uint_eq(sandbox_list_get_count(NULL), 0);
    ck_assert_ptr_null(sandbox_list_get(NULL, 0));
    ck_assert_ptr_null(sandbox_list_unref(NULL));
    snprintf(text, sizeof text, "[%s,{}]", fake_document);
    fake.answer = text;
    sbtest_fails(sandbox_host_list(host, NULL, &list, &error), SANDBOX_EPROTOCOL, &error);
}
END_TEST

START_TEST(list_options_are_checked)
{
    struct sandbox_list_options options = SANDBOX_LIST_OPTIONS_INIT;
    struct sandbox_error *error = NULL;
    struct sandbox_list *list = NULL;
    char prefix[SANDBOX_NAME_MAX + 2];

    options.label_value = "v";
    sbtest_fails(sandbox_host_list(host, &options, &list, &error), SANDBOX_EINVALID, &error);
    options.label_key = "";
    sbtest_fails(sandbox_host_list(host, &options, &list, &error), SANDBOX_EINVALID, &error);
    options.label_key = options.label_value = NULL;
    memset(prefix, 'x', sizeof prefix - 1);
    prefix[sizeof prefix - 1] = 0;
    options.name_prefix = prefix;
    sbtest_fails(sandbox_host_list(host, &options, &list, &error), SANDBOX_EINVALID, &error);
}
END_TEST

START_TEST(images_tell)
{
    struct sandbox_error *error = NULL;
    struct sandbox_image *image = NULL;
    struct sandbox_image_list *list = NULL;
    char text[1000];

    fake.answer = fake_image;
    sbtest_ok(sandbox_image_open(host, "debian", &image, &error), &error);
    ck_assert_str_eq(sandbox_image_get_digest(image), FAKE_DIGEST);
    ck_assert_str_eq(sandbox_image_get_config_digest(image), FAKE_DIGEST);
    ck_assert_str_eq(sandbox_image_get_name(image), "debian");
    ck_assert_int_eq(sandbox_image_get_bytes(image), 123);
    ck_assert_ptr_nonnull(strstr(sandbox_image_get_json(image), "\"architecture\":\"amd64\""));
    image = sandbox_image_unref(image);
    fake.answer = "{\"digest\":\"\",\"config_digest\":\"\",\"names\":[]}";
    sbtest_ok(sandbox_image_open(host, FAKE_DIGEST, &image, &error), &error);
    ck_assert_str_eq(sandbox_image_get_name(image), "");
    ck_assert_int_eq(sandbox_image_get_bytes(image), 0);
    image = sandbox_image_unref(image);
    snprintf(text, sizeof text, "[%s]", fake_image);
    fake.answer = text;
    sbtest_ok(sandbox_host_list_images(host, &list, &error), &error);
    ck_assert_uint_eq(sandbox_image_list_get_count(list), 1);
    ck_assert_str_eq(sandbox_image_get_name(sandbox_image_list_get(list, 0)), "debian");
    ck_assert_ptr_null(sandbox_image_list_get(list, 1));
    list = sandbox_image_list_unref(list);
    fake.answer = "[{\"digest\":\"\",\"config_digest\":\"\",\"names\":[1]}]";
    sbtest_fails(sandbox_host_list_images(host, &list, &error), SANDBOX_EPROTOCOL, &error);
    sbtest_ok(sandbox_image_remove(host, FAKE_DIGEST, &error), &error);
    sbtest_fails(sandbox_image_remove(host, "host", &error), SANDBOX_EINVALID, &error);
    sbtest_fails(sandbox_image_remove(host, "a//b", &error), SANDBOX_EINVALID, &error);
    sbtest_fails(sandbox_image_open(host, "a//b", &image, &error), SANDBOX_EINVALID, &error);
    ck_assert_ptr_null(sandbox_image_unref(NULL));
    ck_assert_uint_eq(sandbox_image_list_get_count(NULL), 0);
    ck_assert_str_eq(sandbox_image_get_digest(NULL), "");
}
END_TEST

START_TEST(imports_are_checked)
{
    struct sandbox_image_import_options options = SANDBOX_IMAGE_IMPORT_OPTIONS_INIT;
    struct sandbox_error *error = NULL;
    struct sandbox_image *image = NULL;

    fake.answer = NULL;
    options.name = "debian";
    options.format = SANDBOX_IMAGE_FORMAT_OCI_LAYOUT;
    options.digest = FAKE_DIGEST;
    sbtest_ok(sandbox_image_import(host, "relative/is/fine", &options, -1, &image, &error), &error);
    ck_assert_str_eq(fake.called, "import relative/is/fine debian");
    image = sandbox_image_unref(image);
    sbtest_fails(sandbox_image_import(host, NULL, NULL, -1, &image, &error), SANDBOX_EINVALID, &error);
    sbtest_fails(sandbox_image_import(host, "", NULL, -1, &image, &error), SANDBOX_EINVALID, &error);
#define BAD(field, value, good)                                                                                                  \
    options.field = value;                                                                                                       \
    ck_assert_int_eq(sandbox_image_import(host, "/x", &options, -1, &image, &error), SANDBOX_EINVALID);                            \
    ck_assert_str_eq(sandbox_error_get_field(error), #field);                                                                      \
    error = sandbox_error_unref(error);                                                                                           \
    options.field = good
    BAD(name, "host", NULL);
    BAD(name, "a/b", NULL);
    BAD(format, 5, 0);
    BAD(format, -1, 0);
    BAD(digest, "sha256:1", NULL);
    BAD(select, "", NULL);
    BAD(max_bytes, -1, 0);
    BAD(max_entries, -1, 0);
#undef BAD
}
END_TEST

START_TEST(volumes_tell)
{
    struct sandbox_error *error = NULL;
    struct sandbox_volume *volume = NULL;
    struct sandbox_volume_list *list = NULL;
    char text[200];

    sbtest_ok(sandbox_volume_create(host, "store", &error), &error);
    ck_assert_str_eq(fake.called, "change store");
    fake.answer = fake_volume;
    sbtest_ok(sandbox_volume_open(host, "store", &volume, &error), &error);
    ck_assert_str_eq(sandbox_volume_get_name(volume), "store");
    ck_assert_str_eq(sandbox_volume_get_path(volume), "/srv/store");
    volume = sandbox_volume_unref(volume);
    snprintf(text, sizeof text, "[%s]", fake_volume);
    fake.answer = text;
    sbtest_ok(sandbox_host_list_volumes(host, &list, &error), &error);
    ck_assert_uint_eq(sandbox_volume_list_get_count(list), 1);
    ck_assert_str_eq(sandbox_volume_get_name(sandbox_volume_list_get(list, 0)), "store");
    ck_assert_ptr_null(sandbox_volume_list_get(list, 1));
    list = sandbox_volume_list_unref(list);
    fake.answer = "[{\"name\":\"../x\",\"path\":\"\"}]";
    sbtest_fails(sandbox_host_list_volumes(host, &list, &error), SANDBOX_EPROTOCOL, &error);
    sbtest_fails(sandbox_volume_create(host, "../x", &error), SANDBOX_EINVALID, &error);
    sbtest_fails(sandbox_volume_open(host, "", &volume, &error), SANDBOX_EINVALID, &error);
    sbtest_fails(sandbox_volume_remove(host, NULL, &error), SANDBOX_EINVALID, &error);
    fake.refuses = SANDBOX_EBUSY;
    sbtest_fails(sandbox_volume_remove(host, "store", &error), SANDBOX_EBUSY, &error);
    ck_assert_ptr_null(sandbox_volume_unref(NULL));
    ck_assert_ptr_null(sandbox_volume_list_unref(NULL));
    ck_assert_str_eq(sandbox_volume_get_path(NULL), "");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("api-documents");
    TCase *tc = sbtest_case("documents");

    tcase_add_checked_fixture(tc, begin, end);
    tcase_add_test(tc, an_info_tells);
    tcase_add_test(tc, every_state_is_known);
    tcase_add_loop_test(tc, a_wrong_info_is_a_broken_protocol, 0, (int)SB_ELEMENTS(wrong_infos));
    tcase_add_test(tc, lists_are_filtered_by_the_host);
    tcase_add_test(tc, list_options_are_checked);
    tcase_add_test(tc, images_tell);
    tcase_add_test(tc, imports_are_checked);
    tcase_add_test(tc, volumes_tell);
    suite_add_tcase(suite, tc);
    return sbtest_main(suite);
}
