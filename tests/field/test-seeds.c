/* SPDX-License-Identifier: Apache-2.0
 * Two stories from the field, told end to end. Seed 004: a data folder beside a project, too large to copy, that an agent may write next to and must
 * never change. Seed 001: whether the kernel's overlay can be had is found by trying, and what comes of it has the right reason. */
#include "box.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

static struct sandbox_host *host;
static struct sandbox *sandbox;
static struct sandbox_error *error;
static char folder[500];

static void set_up(void)
{
    host = box_host();
    snprintf(folder, sizeof folder, "%s/scenes", sbtest_dir());
    ck_assert_int_eq(mkdir(folder, 0755), 0);
    box_write(folder, "scene.xml", "<scene/>\n");
}

static void tear_down(void)
{
    box_end(&host, &sandbox);
}

static struct sandbox_spec *spec_over(const char *source)
{
    struct sandbox_mount_options mount = SANDBOX_MOUNT_OPTIONS_INIT;
    struct sandbox_spec *spec = box_spec();

    mount.type = SANDBOX_MOUNT_OVERLAY;
    mount.source = source;
    mount.target = "/work/scenes"; /* beside /work/project */
    sbtest_ok(sandbox_spec_add_mount(spec, &mount, &error), &error);
    return spec;
}

static void expect(const char *script, const char *output)
{
    char *text = box_sh(sandbox, NULL, script);

    ck_assert_str_eq(text, output);
    free(text);
}

static void expect_kind(const char *kind, const char *words)
{
    struct sandbox_info *info = NULL;
    json_t *json, *mount, *overlay = NULL;
    size_t i;

    sbtest_ok(sandbox_inspect(sandbox, &info, &error), &error);
    json = json_loads(sandbox_info_get_json(info), 0, NULL);
    json_array_foreach(json_object_get(json, "mounts"), i, mount)
        if (json_object_get(mount, "overlay"))
            overlay = json_object_get(mount, "overlay");
    ck_assert_str_eq(json_string_value(json_object_get(overlay, "kind")), kind);
    if (!strstr(json_string_value(json_object_get(overlay, "reason")), words))
        ck_abort_msg("the reason is \"%s\", not \"%s\"", json_string_value(json_object_get(overlay, "reason")), words);
    json_decref(json);
    sandbox_info_unref(info);
}

/* The sibling path is visible, a write inside succeeds, the host's file is as it was, the usage shows the layer, and a reset brings it back. */
START_TEST(seed004_data_folder)
{
    struct sandbox_mount_usage usage = SANDBOX_MOUNT_USAGE_INIT;
    char path[600], *text;
    struct stat before, after;

    snprintf(path, sizeof path, "%s/scene.xml", folder);
    ck_assert_int_eq(stat(path, &before), 0);
    sandbox = box_start(host, spec_over(folder));
    expect("mkdir -p /work/project; cd /work/project; cat ../scenes/scene.xml", "<scene/>");
    expect("cd /work/project; echo '<changed/>' > ../scenes/scene.xml; head -c 300000 /dev/zero > ../scenes/render; cat ../scenes/scene.xml", "<changed/>");
    text = box_read(path);
    ck_assert_str_eq(text, "<scene/>\n");
    free(text);
    ck_assert_int_eq(stat(path, &after), 0);
    ck_assert_int_eq(memcmp(&before.st_mtim, &after.st_mtim, sizeof before.st_mtim), 0);
    ck_assert_int_eq(memcmp(&before.st_ctim, &after.st_ctim, sizeof before.st_ctim), 0);
    ck_assert_int_eq(box_entries(folder), 1);
    sbtest_ok(sandbox_mount_usage(sandbox, "/work/scenes", 20000, &usage, &error), &error);
    ck_assert_int_ge(usage.bytes, 300000);
    ck_assert_int_eq((int)usage.entries, 2);
    sbtest_ok(sandbox_mount_reset(sandbox, "/work/scenes", 20000, &error), &error);
    expect("cd /work/project; cat ../scenes/scene.xml; ls ../scenes", "<scene/>\nscene.xml");
    sbtest_ok(sandbox_mount_usage(sandbox, "/work/scenes", 20000, &usage, &error), &error);
    ck_assert_int_eq((int)usage.entries, 0);
    snprintf(path, sizeof path, "%s/trash", box_root());
    for (int i = 0; i < 400 && box_entries(path) > 0; i++)
        usleep(50000);
}
END_TEST

/* A plain host, no container in sight, with and without privilege: the kernel's. */
START_TEST(seed001_plain_host)
{
    sandbox = box_start(host, spec_over(folder));
    expect_kind("kernel", "could be mounted");
}
END_TEST

static void mount_overlay(const char *on, const char *options)
{
    ck_assert_int_eq(mkdir(on, 0755), 0);
    ck_assert_int_eq(mount("overlay", on, "overlay", 0, options), 0);
}

/* With all the privilege there is, a lower that can't be had: the fallback, and why. */
START_TEST(seed001_fallback)
{
    char on[600], empty[600], options[1300];

    if (geteuid() != 0)
        sbtest_skip("only root can mount an overlay to stand on");
    snprintf(on, sizeof on, "%s/on", sbtest_dir());
    snprintf(empty, sizeof empty, "%s/empty", sbtest_dir());
    ck_assert_int_eq(mkdir(empty, 0755), 0);
    snprintf(options, sizeof options, "lowerdir=%s:%s", folder, empty);
    mount_overlay(on, options);
    sandbox = box_start(host, spec_over(on));
    expect_kind("copy", "can't map ids");
    expect("cd /work/scenes; echo '<changed/>' > scene.xml; cat scene.xml", "<changed/>");
    sbtest_ok(sandbox_delete(sandbox, 20000, &error), &error);
    sandbox = sandbox_unref(sandbox);
    ck_assert_int_eq(umount2(on, 0), 0);
}
END_TEST

/* The state root, and with it the upper, on an overlay: here not even the sandbox's own root can be had. It is said, with the way out. */
START_TEST(seed001_upper_on_overlay)
{
    struct sandbox_host_options options = SANDBOX_HOST_OPTIONS_INIT;
    char on[600], up[600], work[600], root[700], how[2000];
    struct sandbox_host *other = NULL;
    struct sandbox *none = NULL;
    struct sandbox_spec *spec;

    if (geteuid() != 0)
        sbtest_skip("only root can mount an overlay to stand on");
    snprintf(on, sizeof on, "%s/on", sbtest_dir());
    snprintf(up, sizeof up, "%s/up", sbtest_dir());
    snprintf(work, sizeof work, "%s/work", sbtest_dir());
    snprintf(root, sizeof root, "%s/state", on);
    ck_assert_int_eq(mkdir(up, 0755) | mkdir(work, 0755), 0);
    snprintf(how, sizeof how, "lowerdir=%s,upperdir=%s,workdir=%s", folder, up, work);
    mount_overlay(on, how);
    options.state_root = root;
    sbtest_ok(sandbox_host_open("local:", &options, 20000, &other, &error), &error);
    spec = spec_over(folder);
    ck_assert_int_eq(sandbox_create(other, spec, 20000, &none, &error), SANDBOX_EUNSUPPORTED);
    ck_assert_ptr_nonnull(strstr(sandbox_error_get_hint(error), "put the state root on ext4"));
    error = sandbox_error_unref(error);
    sandbox_spec_unref(spec);
    sandbox_host_unref(other);
    ck_assert_int_eq(umount2(on, 0), 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("field-seeds");
    TCase *tc = sbtest_case("seeds");

    tcase_add_checked_fixture(tc, set_up, tear_down);
    tcase_add_test(tc, seed004_data_folder);
    tcase_add_test(tc, seed001_plain_host);
    tcase_add_test(tc, seed001_fallback);
    tcase_add_test(tc, seed001_upper_on_overlay);
    suite_add_tcase(suite, tc);
    return box_main(suite);
}
