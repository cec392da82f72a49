/* SPDX-License-Identifier: Apache-2.0
 * Names of secrets in folders that are about to be mounted: told, refused, hidden. */
#include "box.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static struct sandbox_host *host;
static struct sandbox *sandbox;
static struct sandbox_error *error;
static char folder[600];

static void set_up(void)
{
    char path[1000];

    host = box_host();
    snprintf(folder, sizeof folder, "%s/project", sbtest_dir());
    ck_assert_int_eq(mkdir(folder, 0755), 0);
    box_write(folder, "main.c", "int main;\n");
    box_write(folder, "id_map.c", "no key\n");
    box_write(folder, ".ENV", "KEY=1\n");
    box_write(folder, ".env.example", "KEY=\n");
    snprintf(path, sizeof path, "%s/sub", folder);
    ck_assert_int_eq(mkdir(path, 0755), 0);
    box_write(path, "id_ed25519", "key\n");
    box_write(path, "id_ed25519.pub", "public\n");
    box_write(path, "my.secret", "own\n");
    snprintf(path, sizeof path, "%s/sub/.ssh", folder);
    ck_assert_int_eq(mkdir(path, 0700), 0);
    box_write(path, "known_hosts", "h\n");
    snprintf(path, sizeof path, "%s/loop", folder);
    ck_assert_int_eq(symlink(".", path), 0);
    snprintf(path, sizeof path, "%s/etc", folder);
    ck_assert_int_eq(symlink("/etc", path), 0);
}

static void tear_down(void)
{
    box_end(&host, &sandbox);
}

static struct sandbox_spec *spec_with(int type, int mode, const char *const *patterns)
{
    struct sandbox_mount_options mount = SANDBOX_MOUNT_OPTIONS_INIT;
    struct sandbox_spec *spec = box_spec();

    mount.type = type;
    mount.source = folder;
    mount.target = "/project";
    sbtest_ok(sandbox_spec_add_mount(spec, &mount, &error), &error);
    sbtest_ok(sandbox_spec_set_secrets(spec, mode, patterns, &error), &error);
    return spec;
}

static char *found(int64_t most, int *ret_truncated)
{
    static const char *const own[] = { "*.secret", NULL };
    struct sandbox_diff *diff = NULL;
    char *text = NULL;
    size_t size;
    FILE *f = open_memstream(&text, &size);

    sbtest_ok(sandbox_secrets_scan(host, folder, own, most, 20000, &diff, &error), &error);
    for (size_t i = 0; i < sandbox_diff_get_count(diff); i++) {
        struct sandbox_diff_entry e = SANDBOX_DIFF_ENTRY_INIT;

        ck_assert_int_eq(sandbox_diff_get(diff, i, &e), 0);
        ck_assert_int_eq(e.kind, SANDBOX_DIFF_FOUND);
        fprintf(f, "%s ", e.path);
    }
    *ret_truncated = sandbox_diff_get_truncated(diff);
    sandbox_diff_unref(diff);
    fclose(f);
    return text;
}

START_TEST(secrets_scan)
{
    int truncated;
    char *text = found(0, &truncated);

    ck_assert_str_eq(text, ".ENV sub/.ssh sub/id_ed25519 sub/my.secret ");
    ck_assert_int_eq(truncated, 0);
    free(text);
    free(found(3, &truncated));
    ck_assert_int_eq(truncated, 1);
}
END_TEST

START_TEST(secrets_refused)
{
    static const char *const allowed[] = { "!.env", "!id_ed25519", "!.ssh/", NULL };
    struct sandbox_spec *spec = spec_with(SANDBOX_MOUNT_OVERLAY, SANDBOX_SECRETS_REFUSE, NULL);
    struct sandbox *none = NULL;
    struct sandbox_error *why = NULL;

    ck_assert_int_eq(sandbox_create(host, spec, 20000, &none, &why), SANDBOX_EDENIED);
    ck_assert_ptr_nonnull(strstr(sandbox_error_get_message(why), "sub/id_ed25519"));
    sandbox_error_unref(why);
    sandbox_spec_unref(spec);
    sandbox = box_start(host, spec_with(SANDBOX_MOUNT_OVERLAY, SANDBOX_SECRETS_REFUSE, allowed));
}
END_TEST

START_TEST(secrets_told)
{
    struct sandbox_info *info = NULL;
    json_t *json, *list;

    sandbox = box_start(host, spec_with(SANDBOX_MOUNT_BIND, SANDBOX_SECRETS_WARN, NULL));
    sbtest_ok(sandbox_inspect(sandbox, &info, &error), &error);
    json = json_loads(sandbox_info_get_json(info), 0, NULL);
    list = json_object_get(json, "secrets");
    ck_assert_uint_eq(json_array_size(list), 3);
    ck_assert_str_eq(json_string_value(json_object_get(json_array_get(list, 0), "path")), ".ENV");
    ck_assert_str_eq(json_string_value(json_object_get(json_array_get(list, 0), "target")), "/project");
    json_decref(json);
    sandbox_info_unref(info);
    ck_assert_int_eq(box_code(sandbox, NULL, "test -e /project/.ENV"), 0);
}
END_TEST

START_TEST(secrets_hidden)
{
    static const char *const own[] = { "*.secret", NULL };
    char path[700], *text;

    ck_assert_int_eq(chmod(folder, 0777), 0);
    sandbox = box_start(host, spec_with(_i ? SANDBOX_MOUNT_BIND : SANDBOX_MOUNT_OVERLAY, SANDBOX_SECRETS_HIDE, own));
    text = box_sh(sandbox, NULL, "cd /project; cat main.c .env.example sub/id_ed25519.pub id_map.c | tr '\\n' ' '");
    ck_assert_str_eq(text, "int main; KEY= public no key ");
    free(text);
    ck_assert_int_ne(box_code(sandbox, NULL, "cat /project/.ENV 2>/dev/null"), 0);
    ck_assert_int_ne(box_code(sandbox, NULL, "cat /project/sub/id_ed25519 2>/dev/null"), 0);
    ck_assert_int_ne(box_code(sandbox, NULL, "cat /project/sub/my.secret 2>/dev/null"), 0);
    ck_assert_int_ne(box_code(sandbox, NULL, "cat /project/sub/.ssh/known_hosts 2>/dev/null"), 0);
    ck_assert_int_ne(box_code(sandbox, NULL, "cat /project/loop/.ENV 2>/dev/null"), 0);
    /* neither moving what it is in, nor a second name, uncovers it */
    ck_assert_int_ne(box_code(sandbox, NULL, "cd /project; mv sub elsewhere 2>/dev/null; cat elsewhere/my.secret 2>/dev/null"), 0);
    ck_assert_int_ne(box_code(sandbox, NULL, "cd /project; ln .ENV name 2>/dev/null && cat name 2>/dev/null"), 0);
    ck_assert_int_ne(box_code(sandbox, NULL, "cd /project; rm -f .ENV 2>/dev/null && cat .ENV 2>/dev/null"), 0);
    snprintf(path, sizeof path, "%s/.ENV", folder);
    text = box_read(path);
    ck_assert_str_eq(text, "KEY=1\n");
    free(text);
}
END_TEST

START_TEST(secrets_wrong)
{
    static const char *const bad[] = { "", "/", "!", "a/b", "/etc/passwd" };
    struct sandbox_spec *spec = box_spec();
    struct sandbox_diff *none = NULL;

    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        sbtest_fails(sandbox_spec_set_secrets(spec, SANDBOX_SECRETS_WARN, (const char *const[]){ bad[i], NULL }, &error), SANDBOX_EINVALID,
                     &error);
    sbtest_fails(sandbox_spec_set_secrets(spec, 4, NULL, &error), SANDBOX_EINVALID, &error);
    sbtest_fails(sandbox_spec_set_secrets(spec, -1, NULL, &error), SANDBOX_EINVALID, &error);
    sbtest_fails(sandbox_secrets_scan(host, "relative", NULL, 0, 1000, &none, &error), SANDBOX_EINVALID, &error);
    sbtest_fails(sandbox_secrets_scan(host, "/nothing/there", NULL, 0, 1000, &none, &error), SANDBOX_ENOTFOUND, &error);
    sandbox_spec_unref(spec);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("integration-secrets");
    TCase *tc = sbtest_case("secrets");

    tcase_add_checked_fixture(tc, set_up, tear_down);
    tcase_add_test(tc, secrets_scan);
    tcase_add_test(tc, secrets_refused);
    tcase_add_test(tc, secrets_told);
    tcase_add_loop_test(tc, secrets_hidden, 0, 2);
    tcase_add_test(tc, secrets_wrong);
    suite_add_tcase(suite, tc);
    return box_main(suite);
}
