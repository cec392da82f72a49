/* SPDX-License-Identifier: Apache-2.0
 * What was written over a host's folder as a tar, read by this machine's own tar. */
#include "box.h"

#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static struct sandbox_host *host;
static struct sandbox *sandbox;
static struct sandbox_error *error;
static char folder[600];

static void set_up(void)
{
    char path[700];

    host = box_host();
    snprintf(folder, sizeof folder, "%s/lower", sbtest_dir());
    snprintf(path, sizeof path, "%s/sub", folder);
    ck_assert_int_eq(mkdir(folder, 0755) | mkdir(path, 0755), 0);
    box_write(folder, "file", "as it was\n");
    box_write(folder, "other", "stays\n");
    box_write(path, "deep", "deep\n");
}

static void tear_down(void)
{
    box_end(&host, &sandbox);
}

static void start_over(const char *source)
{
    struct sandbox_mount_options mount = SANDBOX_MOUNT_OPTIONS_INIT;
    struct sandbox_spec *spec = box_spec();

    mount.type = SANDBOX_MOUNT_OVERLAY;
    mount.source = source;
    mount.target = "/project/data";
    sbtest_ok(sandbox_spec_add_mount(spec, &mount, &error), &error);
    sandbox = box_start(host, spec);
}

static void expect(const char *script, const char *output)
{
    char *text = box_sh(sandbox, NULL, script);

    ck_assert_str_eq(text, output);
    free(text);
}

/* What a command on this machine prints, in the test's folder, must be this. */
static void expect_of_tar(const char *command, const char *output)
{
    char whole[1500], path[700], *text;
    char *argv[] = { (char *)"sh", (char *)"-c", whole, NULL };
    int status;
    pid_t pid;

    snprintf(whole, sizeof whole, "cd '%s' && { %s; } > output", sbtest_dir(), command);
    ck_assert_int_eq(posix_spawn(&pid, "/bin/sh", NULL, NULL, argv, environ), 0);
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert_int_eq(status, 0);
    snprintf(path, sizeof path, "%s/output", sbtest_dir());
    text = box_read(path);
    ck_assert_str_eq(text, output);
    free(text);
}

/* 1: something was left out. */
static int write_tar(void)
{
    char path[700];
    int fd, truncated = -1;

    snprintf(path, sizeof path, "%s/diff.tar", sbtest_dir());
    fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    ck_assert_int_ge(fd, 0);
    sbtest_ok(sandbox_mount_tar(sandbox, "/project/data", fd, 20000, &truncated, &error), &error);
    close(fd);
    return truncated;
}

/* The changes as a layer of an OCI image: read by the machine's own tar. */
START_TEST(overlay_tar)
{
    char path[700];
    int pipes[2];

    snprintf(path, sizeof path, "%s/gone", folder);
    ck_assert_int_eq(mkdir(path, 0755), 0);
    box_write(path, "one", "1");
    start_over(folder);
    ck_assert_int_eq(write_tar(), 0);
    expect_of_tar("tar -tf diff.tar", "");
    expect("cd /project/data; echo changed > file; chmod 640 file; mkdir -p new/er; echo deep > new/er/a; ln new/er/a new/same; ln -s ../x new/l; mkfifo new/f;"
           "rm other; rm -r gone; mkdir gone; echo 2 > gone/two; rm sub/deep; dd if=/dev/zero of=new/holes bs=1 count=0 seek=8M 2>/dev/null",
           "");
    ck_assert_int_eq(write_tar(), 0);
    expect_of_tar("tar -tf diff.tar | LC_ALL=C sort",
                  ".wh.other\nfile\ngone/\ngone/.wh.one\ngone/two\nnew/\nnew/er/\nnew/er/a\nnew/f\nnew/holes\nnew/l\nnew/same\nsub/\nsub/.wh.deep\n");
    expect_of_tar("tar -tvf diff.tar --numeric-owner file | cut -c 1-14", "-rw-r----- 0/0\n"); /* the inside's ids */
    expect_of_tar("tar -xOf diff.tar file gone/two", "changed\n2\n");
    expect_of_tar("mkdir out && tar -xf diff.tar -C out && cat out/new/same && stat -c '%h %s %b' out/new/er/a out/new/holes && readlink out/new/l",
                  "deep\n2 5 8\n1 8388608 0\n../x\n");
    /* a file that would take something away where the layer is used */
    expect("cd /project/data; echo evil > .wh.file", "");
    ck_assert_int_eq(write_tar(), 1);
    expect_of_tar("tar -tf diff.tar | grep -c wh.file || true", "0\n");
    /* who reads goes away */
    expect("cd /project/data; head -c 4000000 /dev/zero > large", "");
    ck_assert_int_eq(pipe2(pipes, O_CLOEXEC), 0);
    close(pipes[0]);
    sbtest_fails(sandbox_mount_tar(sandbox, "/project/data", pipes[1], 20000, NULL, &error), SANDBOX_EIO, &error);
    close(pipes[1]);
    sbtest_fails(sandbox_mount_tar(sandbox, "/project/data", -1, 20000, NULL, &error), SANDBOX_EINVALID, &error);
    sbtest_fails(sandbox_mount_tar(sandbox, "/guest", 2, 20000, NULL, &error), SANDBOX_EINVALID, &error);
    sbtest_fails(sandbox_mount_tar(sandbox, "/nothing", 2, 20000, NULL, &error), SANDBOX_ENOTFOUND, &error);
}
END_TEST

/* Of a copy: what is not as it was. */
START_TEST(overlay_tar_of_a_copy)
{
    if (box_privilege() == BOX_SUBIDS)
        sbtest_skip("the machine's root is nobody to a user's sandbox: nothing there can be written to");
    start_over("/proc/sys/kernel/random");
    expect("cd /project/data; echo mine > write_wakeup_threshold", "");
    ck_assert_int_eq(write_tar(), 0);
    expect_of_tar("tar -tf diff.tar | grep -c -e wh -e write_wake", "1\n");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("integration-mount-tar");
    TCase *tc = sbtest_case("tar");

    tcase_add_checked_fixture(tc, set_up, tear_down);
    tcase_add_test(tc, overlay_tar);
    tcase_add_test(tc, overlay_tar_of_a_copy);
    suite_add_tcase(suite, tc);
    return box_main(suite);
}
