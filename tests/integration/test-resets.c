/* SPDX-License-Identifier: Apache-2.0
 * Overlays that begin anew while the sandbox runs: what is seen then, who keeps one from it, and what is left when it is cut short. */
#include "box.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define TARGET "/project/data"

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
    box_write(path, "deep", "deep\n");
    box_write(folder, ".env", "KEY=1\n");
}

static void tear_down(void)
{
    box_end(&host, &sandbox);
}

static void add(struct sandbox_spec *spec, int type, const char *source, const char *target)
{
    struct sandbox_mount_options mount = SANDBOX_MOUNT_OPTIONS_INIT;

    mount.type = type;
    mount.source = source;
    mount.target = target;
    sbtest_ok(sandbox_spec_add_mount(spec, &mount, &error), &error);
}

static struct sandbox_spec *spec_over(const char *source, const char *target)
{
    struct sandbox_spec *spec = box_spec();

    sbtest_ok(sandbox_spec_set_lifetime(spec, SANDBOX_LIFETIME_DETACHED, &error), &error);
    add(spec, SANDBOX_MOUNT_OVERLAY, source, target);
    return spec;
}

static void expect(const char *script, const char *output)
{
    char *text = box_sh(sandbox, NULL, script);

    ck_assert_str_eq(text, output);
    free(text);
}

static void reset(const char *target)
{
    sbtest_ok(sandbox_mount_reset(sandbox, target, 20000, &error), &error);
}

static size_t count_changes(void)
{
    struct sandbox_diff *diff = NULL;
    size_t n;

    sbtest_ok(sandbox_mount_diff(sandbox, TARGET, NULL, 20000, &diff, &error), &error);
    n = sandbox_diff_get_count(diff);
    sandbox_diff_unref(diff);
    return n;
}

/* The old layers' removal goes on after the calls: it must come to its end. */
static void wait_for_trash(void)
{
    char trash[700];
    long until = box_now() + 20000;

    snprintf(trash, sizeof trash, "%s/trash", box_root());
    while (box_entries(trash) > 0 && box_now() < until)
        usleep(10000);
    ck_assert_int_eq(box_entries(trash), 0);
    usleep(50000);
}

/* Where the layers of the sandbox are; two entries and more are a reset that was not ended. */
static void path_of_layers(char *path, size_t size)
{
    snprintf(path, size, "%s/sandboxes/%s/mounts", box_root(), sandbox_get_id(sandbox));
}

START_TEST(reset_running)
{
    char path[900];

    sandbox = box_start(host, spec_over(folder, TARGET));
    for (int i = 0; i < 3; i++) {
        expect("cd " TARGET "; echo changed > file; rm -r sub; mkdir sub; echo 1 > sub/fresh; cat file; ls sub", "changed\nfresh");
        ck_assert_uint_eq(count_changes(), 3);
        reset(TARGET);
        ck_assert_uint_eq(count_changes(), 0);
        expect("cd " TARGET "; ls; cat file sub/deep; grep -c ' " TARGET " ' /proc/self/mountinfo", "file\nsub\nas it was\ndeep\n1");
    }
    path_of_layers(path, sizeof path);
    ck_assert_int_eq(box_entries(path), 1);
    expect("echo kept > " TARGET "/file; cat " TARGET "/file", "kept");
    sbtest_ok(sandbox_stop(sandbox, 0, 20000, &error), &error);
    sbtest_ok(sandbox_start(sandbox, 20000, &error), &error);
    expect("cat " TARGET "/file", "kept");
    reset(TARGET);
    expect("cat " TARGET "/file", "as it was");
    sbtest_fails(sandbox_mount_reset(sandbox, "/guest", 20000, &error), SANDBOX_EINVALID, &error);
    sbtest_fails(sandbox_mount_reset(sandbox, "/nothing", 20000, &error), SANDBOX_ENOTFOUND, &error);
    snprintf(path, sizeof path, "%s/file", folder);
    char *text = box_read(path);
    ck_assert_str_eq(text, "as it was\n");
    free(text);
    wait_for_trash();
}
END_TEST

/* The new mount has the flags of the old one, and they are as locked. */
START_TEST(reset_keeps_the_flags)
{
    struct sandbox_spec *spec = spec_over(folder, TARGET);
    char *out = NULL;

    sbtest_ok(sandbox_spec_set_daemon(spec, BOX_ARGV("/bin/sh", "-c", "until test -e /go; do sleep 0.05; done; exec /guest/probe -o /found -n mounts"),
                                      &error), &error);
    sbtest_ok(sandbox_spec_add_capability(spec, "SYS_ADMIN", &error), &error);
    sandbox = box_start(host, spec);
    reset(TARGET);
    ck_assert_int_eq(box_code(sandbox, NULL, "touch /go"), 0);
    for (int i = 0; i < 200 && !(out && strstr(out, "end: probe")); i++) {
        free(out);
        out = box_sh(sandbox, NULL, "cat /found 2>/dev/null; :");
        usleep(50000);
    }
    ck_assert_ptr_nonnull(strstr(out, "end: probe"));
    ck_assert_ptr_nonnull(strstr(out, "clear nosuid by setattr " TARGET));
    ck_assert_ptr_nonnull(strstr(out, "clear nodev by setattr " TARGET));
    box_expect_all(out, "clear ", "EPERM|EINVAL|EACCES|ENOSYS|EBUSY|ENOENT");
    free(out);
    wait_for_trash();
}
END_TEST

static const struct {
    const char *script, *words;
} holders[] = {
    { "cd " TARGET "/sub && exec sleep 1000", "(sleep) works in " TARGET "/sub" },
    { "exec 7< " TARGET "/file; exec sleep 1000", "(sleep) has open " TARGET "/file" },
    { "exec 7> " TARGET "/gone; rm " TARGET "/gone; exec sleep 1000", "(sleep) has open " TARGET "/gone" },
    { "cp /bin/sleep " TARGET "/nap && exec " TARGET "/nap 1000", "(nap) runs " TARGET "/nap" },
    { "cp $(ls /lib/*/libm.so.6 /usr/lib/*/libm.so.6 2>/dev/null | head -n 1) " TARGET "/libm.so.6 && LD_PRELOAD=" TARGET "/libm.so.6 exec sleep 1000",
      "(sleep) has mapped " TARGET "/libm.so.6" },
};

/* What something inside has in use is not taken away; who it is, is told. */
START_TEST(reset_busy)
{
    struct sandbox_exec_options options = SANDBOX_EXEC_OPTIONS_INIT;
    struct sandbox_exec_result result = SANDBOX_EXEC_RESULT_INIT;
    struct sandbox_exec *exec = NULL;
    long until = box_now() + 20000;
    char *text = NULL;
    int r;

    sandbox = box_start(host, spec_over(folder, TARGET));
    expect("echo changed > " TARGET "/file", "");
    options.stdout_fd = options.stderr_fd = SANDBOX_STDIO_NULL;
    sbtest_ok(sandbox_exec(sandbox, BOX_ARGV("/bin/sh", "-c", holders[_i].script), &options, &exec, &error), &error);
    do { /* until it has got there it may be named with something else, or not be there */
        free(text);
        usleep(20000);
        r = sandbox_mount_reset(sandbox, TARGET, 20000, &error);
        text = strdup(error ? sandbox_error_get_message(error) : "no error");
        error = sandbox_error_unref(error);
        if (!r)
            expect("echo changed > " TARGET "/file", "");
    } while ((r != SANDBOX_EBUSY || !strstr(text, holders[_i].words)) && box_now() < until);
    if (!strstr(text, holders[_i].words))
        ck_abort_msg("the error is \"%s\", not about \"%s\"", text, holders[_i].words);
    expect("cat " TARGET "/file", "changed");
    sbtest_ok(sandbox_exec_kill(exec, 9, 0, &error), &error);
    sbtest_ok(sandbox_exec_wait(exec, 20000, &result, &error), &error);
    sandbox_exec_unref(exec);
    reset(TARGET);
    expect("cat " TARGET "/file", "as it was");
    free(text);
    wait_for_trash();
}
END_TEST

/* What covers a secret covers it in the new mount as well, and at no moment nothing does. */
START_TEST(reset_keeps_secrets_hidden)
{
    struct sandbox_exec_options options = SANDBOX_EXEC_OPTIONS_INIT;
    struct sandbox_spec *spec = spec_over(folder, TARGET);
    struct sandbox_exec *exec = NULL;

    sbtest_ok(sandbox_spec_set_secrets(spec, SANDBOX_SECRETS_HIDE, NULL, &error), &error);
    sandbox = box_start(host, spec);
    options.stdout_fd = options.stderr_fd = SANDBOX_STDIO_NULL;
    sbtest_ok(sandbox_exec(sandbox, BOX_ARGV("/bin/sh", "-c", "while :; do read x < " TARGET "/.env && echo $x > /seen; done 2>/dev/null"), &options, &exec,
                           &error), &error);
    for (int i = 0; i < 10; i++) {
        expect("echo changed > " TARGET "/file", "");
        reset(TARGET);
        expect("cat " TARGET "/file", "as it was");
    }
    sbtest_ok(sandbox_exec_kill(exec, 9, SANDBOX_KILL_DESCENDANTS, &error), &error);
    sandbox_exec_unref(exec);
    ck_assert_int_ne(box_code(sandbox, NULL, "cat " TARGET "/.env 2>/dev/null"), 0);
    ck_assert_int_ne(box_code(sandbox, NULL, "test -s /seen"), 0);
    wait_for_trash();
}
END_TEST

/* A mount of the spec lies on it: it would be hidden. */
START_TEST(reset_below_another)
{
    struct sandbox_spec *spec = spec_over(folder, TARGET);

    add(spec, SANDBOX_MOUNT_TMPFS, NULL, TARGET "/sub");
    sandbox = box_start(host, spec);
    expect("echo changed > " TARGET "/file", "");
    sbtest_fails(sandbox_mount_reset(sandbox, TARGET, 20000, &error), SANDBOX_EBUSY, &error);
    expect("cat " TARGET "/file", "changed");
    sbtest_ok(sandbox_stop(sandbox, 0, 20000, &error), &error);
    reset(TARGET);
    sbtest_ok(sandbox_start(sandbox, 20000, &error), &error);
    expect("cat " TARGET "/file", "as it was");
    wait_for_trash();
}
END_TEST

/* What the place is called now makes no difference. */
START_TEST(reset_of_a_moved_place)
{
    sandbox = box_start(host, spec_over(folder, "/opt2/deep/work"));
    expect("echo changed > /opt2/deep/work/file; mv /opt2 /opt3; mkdir -p /opt2/deep; ln -s /etc /opt2/deep/work; cat /opt3/deep/work/file", "changed");
    reset("/opt2/deep/work");
    expect("cat /opt3/deep/work/file; readlink /opt2/deep/work", "as it was\n/etc");
    wait_for_trash();
}
END_TEST

/* Of a copy: a new one. */
START_TEST(reset_of_a_copy)
{
    if (box_privilege() == BOX_SUBIDS)
        sbtest_skip("the machine's root is nobody to a user's sandbox: nothing there can be written to");
    sandbox = box_start(host, spec_over("/proc/sys/kernel/random", TARGET));
    expect("cd " TARGET "; echo mine > write_wakeup_threshold; cat write_wakeup_threshold", "mine");
    reset(TARGET);
    ck_assert_int_eq(box_code(sandbox, NULL, "cd " TARGET "; test -f uuid && ! grep mine write_wakeup_threshold"), 0);
    wait_for_trash();
}
END_TEST

/* Cut short anywhere, it leaves a layer that is whole, the old or the new one, and the next reset ends it. */
START_TEST(reset_cut_short)
{
    char path[900];
    int ended = 0;

    sandbox = box_start(host, spec_over(folder, TARGET));
    path_of_layers(path, sizeof path);
    for (int i = 0; i < 24; i++) {
        struct sandbox_op *op = NULL;

        expect("echo changed > " TARGET "/file; echo new > " TARGET "/new", "");
        sbtest_ok(sandbox_mount_reset_begin(sandbox, TARGET, &op, &error), &error);
        for (long until = box_now() + i; box_now() < until;)
            if (sandbox_op_wait(op, 1, &error) == SANDBOX_ETIMEDOUT)
                error = sandbox_error_unref(error);
        sandbox_op_cancel(op);
        if (!sandbox_op_wait(op, 20000, &error))
            ended++;
        error = sandbox_error_unref(error);
        sandbox_op_unref(op);
        sbtest_ok(sandbox_mount_reset(sandbox, TARGET, 20000, &error), &error);
        expect("cat " TARGET "/file; ls " TARGET, "as it was\nfile\nsub");
        ck_assert_int_eq(box_entries(path), 1);
    }
    ck_assert_int_lt(ended, 24); /* some were cut */
    wait_for_trash();
}
END_TEST

/* What an earlier reset left in the sandbox's folder goes with the next start. */
START_TEST(reset_leftover)
{
    char path[900], inner[1000];

    sandbox = box_start(host, spec_over(folder, TARGET));
    expect("echo changed > " TARGET "/file", "");
    sbtest_ok(sandbox_stop(sandbox, 0, 20000, &error), &error);
    path_of_layers(path, sizeof path);
    snprintf(inner, sizeof inner, "%s/1.new", path);
    ck_assert_int_eq(mkdir(inner, 0700), 0);
    box_write(inner, "left", "1");
    sbtest_ok(sandbox_start(sandbox, 20000, &error), &error);
    ck_assert_int_eq(box_entries(path), 1);
    expect("cat " TARGET "/file", "changed");
    wait_for_trash();
}
END_TEST

/* A layer of a bounded size: full is full for it alone, a reset is a new one, and nothing of its disk stays behind. */
START_TEST(upper_limit)
{
    struct sandbox_mount_options mount = SANDBOX_MOUNT_OPTIONS_INIT;
    struct sandbox_mount_usage usage = SANDBOX_MOUNT_USAGE_INIT;
    struct sandbox_spec *spec = box_spec();
    struct sandbox *none = NULL;

    mount.type = SANDBOX_MOUNT_OVERLAY;
    mount.source = folder;
    mount.target = TARGET;
    mount.max_bytes = 16 << 20;
    sbtest_ok(sandbox_spec_set_lifetime(spec, SANDBOX_LIFETIME_DETACHED, &error), &error);
    sbtest_ok(sandbox_spec_add_mount(spec, &mount, &error), &error);
    if (geteuid() != 0) {
        sbtest_fails(sandbox_create(host, spec, 20000, &none, &error), SANDBOX_EUNSUPPORTED, &error);
        sandbox_spec_unref(spec);
        return;
    }
    sandbox = box_start(host, spec);
    for (int i = 0; i < 2; i++) {
        expect("cd " TARGET "; echo changed > file; cat file", "changed");
        expect("cd " TARGET "; dd if=/dev/zero of=big bs=1M count=64 2>&1 | grep -c 'No space left'", "1");
        sbtest_ok(sandbox_mount_usage(sandbox, TARGET, 20000, &usage, &error), &error);
        ck_assert_int_gt(usage.bytes, 1 << 20);
        ck_assert_int_le(usage.bytes, 16 << 20);
        ck_assert_uint_eq(count_changes(), 2);
        sbtest_ok(sandbox_stop(sandbox, 0, 20000, &error), &error);
        ck_assert_uint_eq(count_changes(), 2);
        sbtest_ok(sandbox_start(sandbox, 20000, &error), &error);
        expect("cat " TARGET "/file; rm " TARGET "/big; echo more > " TARGET "/more; ls " TARGET, "changed\nfile\nmore\nsub");
        reset(TARGET);
        ck_assert_uint_eq(count_changes(), 0);
        expect("cat " TARGET "/file", "as it was");
    }
    wait_for_trash();
}
END_TEST

/* Overwrites the beginning of a disk image. */
static void damage(const char *folder_of_it)
{
    char path[1100], zeros[8192] = "";
    int fd;

    snprintf(path, sizeof path, "%s/image", folder_of_it);
    fd = open(path, O_WRONLY | O_CLOEXEC);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq((int)write(fd, zeros, sizeof zeros), (int)sizeof zeros);
    close(fd);
}

/* A disk that does not verify is said to be damaged, and can be reset. */
START_TEST(upper_damaged)
{
    struct sandbox_mount_options mount = SANDBOX_MOUNT_OPTIONS_INIT;
    struct sandbox_spec *spec;
    char path[1000];

    if (geteuid() != 0)
        sbtest_skip("only root can mount a disk");
    spec = box_spec();
    mount.type = SANDBOX_MOUNT_OVERLAY;
    mount.source = folder;
    mount.target = TARGET;
    mount.max_bytes = 16 << 20;
    sbtest_ok(sandbox_spec_set_lifetime(spec, SANDBOX_LIFETIME_DETACHED, &error), &error);
    sbtest_ok(sandbox_spec_add_mount(spec, &mount, &error), &error);
    sandbox = box_start(host, spec);
    sbtest_ok(sandbox_stop(sandbox, 0, 20000, &error), &error);
    path_of_layers(path, sizeof path);
    snprintf(path + strlen(path), sizeof path - strlen(path), "/1");
    usleep(200000); /* the loop device goes a moment after the sandbox */
    damage(path);
    sbtest_fails(sandbox_start(sandbox, 20000, &error), SANDBOX_EDAMAGED, &error);
    reset(TARGET);
    sbtest_ok(sandbox_start(sandbox, 20000, &error), &error);
    expect("cat " TARGET "/file", "as it was");
    wait_for_trash();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("integration-resets");
    TCase *tc = sbtest_case("resets");

    tcase_set_timeout(tc, 60);
    tcase_add_checked_fixture(tc, set_up, tear_down);
    tcase_add_test(tc, reset_running);
    tcase_add_test(tc, reset_keeps_the_flags);
    tcase_add_loop_test(tc, reset_busy, 0, (int)(sizeof holders / sizeof *holders));
    tcase_add_test(tc, reset_keeps_secrets_hidden);
    tcase_add_test(tc, reset_below_another);
    tcase_add_test(tc, reset_of_a_moved_place);
    tcase_add_test(tc, reset_of_a_copy);
    tcase_add_test(tc, reset_cut_short);
    tcase_add_test(tc, reset_leftover);
    tcase_add_test(tc, upper_limit);
    tcase_add_test(tc, upper_damaged);
    suite_add_tcase(suite, tc);
    return box_main(suite);
}
