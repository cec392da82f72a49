/* SPDX-License-Identifier: Apache-2.0
 * Cases from the field about storage that runs out. Each test is named after its case. */
#include "box.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

static struct sandbox_error *error;

/* A state root on a small disk: what a sandbox writes until it is full ends there; it goes on answering, the machine's own disk keeps its
 * room, another sandbox of the root says ENOSPC and nothing worse, and deleting gives all of it back. */
START_TEST(storage_f54)
{
    struct sandbox_host_options options = SANDBOX_HOST_OPTIONS_INIT;
    struct sandbox_host *host = NULL;
    struct sandbox *one, *two, *made = NULL;
    struct sandbox_spec *spec;
    const char *why;
    char disk[600], root[700], *text;
    int r;

    snprintf(disk, sizeof disk, "%s/disk", sbtest_dir());
    snprintf(root, sizeof root, "%s/state", disk);
    why = box_small_disk(disk, _i ? "size=64m,nr_inodes=1500,mode=0700" : "size=8m,mode=0700");
    if (why)
        sbtest_skip(why);
    options.state_root = root;
    sbtest_ok(sandbox_host_open("local:", &options, 10000, &host, &error), &error);
    one = box_start(host, NULL);
    two = box_start(host, NULL);
    if (_i == 0)
        text = box_sh(one, NULL, "head -c 100000000 /dev/zero 2>/dev/null >/fill && echo all || echo full");
    else
        text = box_sh(one, NULL,
                      "i=0; while [ $i -lt 3000 ]; do mkdir /d$i 2>/dev/null || break; i=$((i+1)); done; [ $i -lt 3000 ] && echo "
                      "full || echo all");
    ck_assert_str_eq(text, "full");
    free(text);
    text = box_sh(one, NULL, "echo answers"); /* state is written, or not needed, all the same */
    ck_assert_str_eq(text, "answers");
    free(text);
    text = box_sh(two, NULL, "echo x 2>/dev/null >/new && [ -s /new ] && echo room || echo full; echo still here");
    ck_assert_str_eq(text, "full\nstill here");
    free(text);
    spec = box_spec();
    r = sandbox_create(host, spec, 10000, &made, &error);
    ck_assert_int_eq(r, SANDBOX_ENOSPACE);
    error = sandbox_error_unref(error);
    /* deleting works, and gives back what it held */
    sbtest_ok(sandbox_delete(one, 20000, &error), &error);
    sandbox_unref(one);
    sbtest_ok(sandbox_create(host, spec, 10000, &made, &error), &error);
    sandbox_spec_unref(spec);
    sbtest_ok(sandbox_delete(made, 10000, &error), &error);
    sandbox_unref(made);
    text = box_sh(two, NULL, "echo x >/new && cat /new");
    ck_assert_str_eq(text, "x");
    free(text);
    sbtest_ok(sandbox_delete(two, 10000, &error), &error);
    sandbox_unref(two);
    sandbox_host_unref(host);
    ck_assert_int_eq(umount2(disk, 0), 0);
}
END_TEST

/* The same within one sandbox, for everybody: a memory file system of its own has a bound that is seen as ENOSPC and nothing else. */
START_TEST(storage_f54_tmpfs)
{
    struct sandbox_mount_options mount = SANDBOX_MOUNT_OPTIONS_INIT;
    struct sandbox_spec *spec = box_spec();
    struct sandbox_host *host = box_host();
    struct sandbox *sandbox;
    char *text;

    mount.type = SANDBOX_MOUNT_TMPFS;
    mount.target = "/small";
    mount.max_bytes = 1 << 20;
    sbtest_ok(sandbox_spec_add_mount(spec, &mount, &error), &error);
    sandbox = box_start(host, spec);
    text = box_sh(
        sandbox, NULL,
        "head -c 5000000 /dev/zero 2>/dev/null >/small/fill && echo all || echo full; "
        "i=0; while [ $i -lt 100000 ]; do true 2>/dev/null >/small/$i || break; i=$((i+1)); done; [ $i -lt 100000 ] && echo full; "
        "rm -r /small/*; echo again >/small/file; cat /small/file");
    ck_assert_str_eq(text, "full\nfull\nagain");
    free(text);
    box_end(&host, &sandbox);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("field-storage");
    TCase *tc = sbtest_case("storage");

    tcase_set_timeout(tc, 60);
    tcase_add_loop_test(tc, storage_f54, 0, 2);
    tcase_add_test(tc, storage_f54_tmpfs);
    suite_add_tcase(suite, tc);
    return sbtest_main(suite);
}
