/* SPDX-License-Identifier: Apache-2.0
 * Leaks: one of each kind is made by hand, and must be found by a dry run that touches nothing, then removed; a host at work, and what is
 * another's, must give no finding. */
#include "box.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static struct sandbox_host *host;
static struct sandbox_error *error;

#define LOST "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

static void set_up(void)
{
    host = box_host();
}

static struct sandbox_findings *look(unsigned int flags)
{
    struct sandbox_findings *report = NULL;

    sbtest_ok(sandbox_host_reconcile(host, flags, 60000, &report, &error), &error);
    return report;
}

static size_t count(unsigned int flags)
{
    struct sandbox_findings *report = look(flags);
    size_t n = sandbox_findings_get_count(report);

    if (n)
        fprintf(stderr, "%s\n", sandbox_findings_get_json(report));
    sandbox_findings_unref(report);
    return n;
}

static void tear_down(void)
{
    ck_assert_uint_eq(count(SANDBOX_RECONCILE_DRY_RUN), 0);
    box_end(&host, NULL);
}

/* Exactly this one: told by a dry run, which leaves it; removed then; and gone. */
static void expect_one(const char *kind, const char *part)
{
    for (int dry = 1; dry >= 0; dry--) {
        struct sandbox_findings *report = look(dry ? SANDBOX_RECONCILE_DRY_RUN : 0);

        ck_assert_msg(sandbox_findings_get_count(report) == 1, "%s: %s", kind, sandbox_findings_get_json(report));
        ck_assert_str_eq(sandbox_findings_get_kind(report, 0), kind);
        ck_assert_msg(strstr(sandbox_findings_get_name(report, 0), part) != NULL, "%s", sandbox_findings_get_name(report, 0));
        ck_assert_str_eq(sandbox_findings_get_action(report, 0), dry ? "found" : "removed");
        ck_assert_str_ne(sandbox_findings_get_why(report, 0), "");
        ck_assert_ptr_null(sandbox_findings_get_kind(report, 1));
        sandbox_findings_unref(report);
    }
    ck_assert_uint_eq(count(SANDBOX_RECONCILE_DRY_RUN), 0);
}

static const char *path_of(const char *folder, const char *name)
{
    static char path[1024];

    snprintf(path, sizeof path, "%s/%s/%s", box_root(), folder, name);
    return path;
}

static void make_folder(const char *path)
{
    if (mkdir(path, 0700) < 0)
        ck_abort_msg("%s: %s", path, strerror(errno));
}

START_TEST(redteam_leaks_in_the_state_root)
{
    char path[1200];

    /* a folder whose maker died before the record, without an entry that would tell */
    make_folder(path_of("sandboxes", LOST));
    expect_one("sandbox", LOST);
    ck_assert_int_lt(access(path_of("sandboxes", LOST), F_OK), 0);
    /* what is left of a delete */
    make_folder(path_of("trash", LOST));
    snprintf(path, sizeof path, "%s/deep", path_of("trash", LOST));
    make_folder(path);
    expect_one("trash", LOST);
    ck_assert_int_lt(access(path_of("trash", LOST), F_OK), 0);
    /* claims without a sandbox */
    ck_assert_int_eq(symlink(LOST, path_of("names", "web")), 0);
    expect_one("name", "web");
    ck_assert_int_eq(symlink(LOST, path_of("keys", "job:1")), 0);
    expect_one("key", "job:1");
    /* a volume and a layer that were never finished */
    make_folder(path_of("volumes", ".new-" LOST));
    expect_one("volume", LOST);
    snprintf(path, sizeof path, "%s/skeletons", box_root());
    if (access(path, F_OK) < 0)
        make_folder(path);
    make_folder(path_of("skeletons", "tmp-" LOST));
    expect_one("layer", LOST);
    /* a process that is no more */
    make_folder(path_of("owners", "11111111-2222-4333-8444-555555555555.4711.99.0"));
    expect_one("owner", "4711");
    /* what isn't ours is left alone */
    make_folder(path_of("sandboxes", "somebody"));
    make_folder(path_of("trash", "somebody"));
    ck_assert_int_eq(symlink("elsewhere", path_of("names", "other")), 0);
    ck_assert_uint_eq(count(0), 0);
    ck_assert_int_eq(rmdir(path_of("sandboxes", "somebody")), 0);
    ck_assert_int_eq(rmdir(path_of("trash", "somebody")), 0);
    ck_assert_int_eq(unlink(path_of("names", "other")), 0);
}
END_TEST

static struct sandbox *started(int lifetime)
{
    struct sandbox_spec *spec = box_spec();

    sbtest_ok(sandbox_spec_set_lifetime(spec, lifetime, &error), &error);
    return box_start(host, spec);
}

/* An owner that died after this host was opened. */
START_TEST(redteam_leaks_of_a_dead_owner)
{
    struct sandbox_findings *report;
    int seen = 0, said[2];
    char byte;
    pid_t pid;

    ck_assert_int_eq(pipe2(said, O_CLOEXEC), 0);
    pid = fork();
    if (pid == 0) {
        host = box_host();
        started(SANDBOX_LIFETIME_OWNED);
        close(said[1]);
        for (;;)
            pause();
    }
    close(said[1]);
    ck_assert_int_eq(read(said[0], &byte, 1), 0);
    close(said[0]);
    ck_assert_uint_eq(count(0), 0); /* while it lives, it is no leak */
    kill(pid, SIGKILL);
    ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
    report = look(0);
    for (size_t i = 0; i < sandbox_findings_get_count(report); i++)
        seen |= !strcmp(sandbox_findings_get_kind(report, i), "sandbox")   ? 1
                : !strcmp(sandbox_findings_get_kind(report, i), "owner") ? 2
                                                                        : 4;
    ck_assert_msg(seen == 3, "%s", sandbox_findings_get_json(report));
    sandbox_findings_unref(report);
    while (waitpid(-1, NULL, WNOHANG | __WALL) > 0)
        ;
}
END_TEST

/* Somebody removed the folder of a sandbox that runs: its processes, groups, range and claims are what is left. */
START_TEST(redteam_leaks_of_a_removed_folder)
{
    struct sandbox *sandbox;
    struct sandbox_findings *report;
    char command[1400];
    int process = 0, range = 0, n;

    if (geteuid() != 0)
        sbtest_skip("only root's sandboxes have id ranges that tell whose they are");
    sandbox = started(SANDBOX_LIFETIME_DETACHED);
    snprintf(command, sizeof command, "rm -rf %s", path_of("sandboxes", sandbox_get_id(sandbox)));
    n = fork();
    if (n == 0) {
        execl("/bin/sh", "sh", "-c", command, (char *)NULL);
        _exit(127);
    }
    ck_assert_int_eq(waitpid(n, NULL, 0), n);
    report = look(0);
    for (size_t i = 0; i < sandbox_findings_get_count(report); i++) {
        process += !strcmp(sandbox_findings_get_kind(report, i), "process");
        range += !strcmp(sandbox_findings_get_kind(report, i), "range");
        ck_assert_str_eq(sandbox_findings_get_action(report, i), "removed");
    }
    ck_assert_msg(process >= 1 && range == 1, "%s", sandbox_findings_get_json(report));
    sandbox_findings_unref(report);
    sandbox_unref(sandbox);
    while (waitpid(-1, NULL, WNOHANG | __WALL) > 0)
        ;
}
END_TEST

/* A program of this name that holds a keeper's log folder open: of a sandbox that is there, and of one that is no more. */
START_TEST(redteam_leaks_keeper)
{
    char path[1200];
    int said[2], status;
    char byte;
    pid_t pid;

    make_folder(path_of("trash", LOST));
    snprintf(path, sizeof path, "%s/log", path_of("trash", LOST));
    make_folder(path);
    ck_assert_int_eq(pipe2(said, O_CLOEXEC), 0);
    pid = fork();
    if (pid == 0) {
        int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

        if (fd != 7)
            dup3(fd, 7, O_CLOEXEC);
        prctl(PR_SET_NAME, "sandbox-keeper");
        rmdir(path);
        rmdir(path_of("trash", LOST));
        close(said[1]);
        for (;;)
            pause();
    }
    close(said[1]);
    ck_assert_int_eq(read(said[0], &byte, 1), 0);
    close(said[0]);
    expect_one("process", "0123456789ab");
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}
END_TEST

/* Another state root's keeper, whose path reads like one of ours: what lives there is not ours to judge, wherever it lies. */
START_TEST(redteam_leaks_other_keeper)
{
    const char *const parts[] = { "other", "other/sandboxes", "other/sandboxes/" LOST, "other/sandboxes/" LOST "/log" };
    char path[1200];
    int said[2];
    char byte;
    pid_t pid;

    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        snprintf(path, sizeof path, "%s/%s", box_root(), parts[i]);
        make_folder(path);
    }
    ck_assert_int_eq(pipe2(said, O_CLOEXEC), 0);
    pid = fork();
    if (pid == 0) {
        int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

        if (fd != 7)
            dup3(fd, 7, O_CLOEXEC);
        prctl(PR_SET_NAME, "sandbox-keeper");
        close(said[1]);
        for (;;)
            pause();
    }
    close(said[1]);
    ck_assert_int_eq(read(said[0], &byte, 1), 0);
    close(said[0]);
    ck_assert_uint_eq(count(0), 0);
    ck_assert_int_eq(waitpid(pid, NULL, WNOHANG), 0);
    kill(pid, SIGKILL);
    ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
    for (size_t i = sizeof parts / sizeof *parts; i > 0; i--) {
        snprintf(path, sizeof path, "%s/%s", box_root(), parts[i - 1]);
        ck_assert_int_eq(rmdir(path), 0);
    }
}
END_TEST

/* Our folder in cgroup2, as the kernel shows it for a sandbox that runs. */
static int group_folder(struct sandbox *sandbox, char *folder, size_t size)
{
    char path[1200], *text, *at, *end;

    snprintf(path, sizeof path, "%s/record", path_of("sandboxes", sandbox_get_id(sandbox)));
    text = box_read(path);
    at = strstr(text, "\"cgroups\":[\"");
    if (!at) {
        free(text);
        return 0;
    }
    at += strlen("\"cgroups\":[\"");
    end = strstr(at, sandbox_get_id(sandbox));
    if (!strncmp(end + SANDBOX_ID_LENGTH, ".scope", 6)) { /* systemd's: none of it outlives its processes */
        free(text);
        return 0;
    }
    snprintf(folder, size, "%.*s", (int)(end - at), at);
    free(text);
    return 1;
}

/* As a process would that made a sandbox in the state root, and died. */
static void claim_range(const char *path, unsigned int other_inode, unsigned int older)
{
    FILE *f = fopen(path, "we");
    struct statx stx;

    ck_assert_ptr_nonnull(f);
    ck_assert_int_eq(statx(AT_FDCWD, box_root(), 0, STATX_INO | STATX_BTIME, &stx), 0);
    fprintf(f, "%x:%x:%llx:%llx.%x\t%s\t%s\n", stx.stx_dev_major, stx.stx_dev_minor, (unsigned long long)stx.stx_ino + other_inode,
            (unsigned long long)stx.stx_btime.tv_sec - older, stx.stx_btime.tv_nsec, box_root(), LOST);
    fclose(f);
}

START_TEST(redteam_leaks_in_the_kernel)
{
    struct sandbox *sandbox;
    char groups[1024], lost[1200], leaf[1300], range[128];

    if (geteuid() != 0)
        sbtest_skip("only root makes control groups, mounts and id ranges everywhere");
    sandbox = started(SANDBOX_LIFETIME_OWNED);
    if (group_folder(sandbox, groups, sizeof groups)) {
        snprintf(lost, sizeof lost, "%s" LOST, groups);
        snprintf(leaf, sizeof leaf, "%s/init", lost);
        make_folder(lost);
        make_folder(leaf);
        expect_one("cgroup", LOST);
        ck_assert_int_lt(access(lost, F_OK), 0);
    }
    /* a range of this state root; one of another, and one of a root that had this one's inode before, which stay */
    snprintf(range, sizeof range, "/run/libsandbox/ranges/%u", 0x7ffd0000u);
    claim_range(range, 0, 0);
    expect_one("range", LOST);
    ck_assert_int_lt(access(range, F_OK), 0);
    claim_range(range, 1, 0);
    ck_assert_uint_eq(count(0), 0);
    claim_range(range, 0, 1);
    ck_assert_uint_eq(count(0), 0);
    ck_assert_int_eq(unlink(range), 0);
    sbtest_ok(sandbox_delete(sandbox, 20000, &error), &error);
    sandbox_unref(sandbox);
}
END_TEST

START_TEST(redteam_leaks_mount)
{
    struct sandbox_findings *report;
    char path[1200];
    int mounts = 0, rest = 0;

    if (geteuid() != 0)
        sbtest_skip("no permission to mount");
    make_folder(path_of("trash", LOST));
    snprintf(path, sizeof path, "%s/m", path_of("trash", LOST));
    make_folder(path);
    ck_assert_int_eq(mount("lost", path, "tmpfs", 0, "size=64k"), 0);
    report = look(0);
    for (size_t i = 0; i < sandbox_findings_get_count(report); i++) {
        mounts += !strcmp(sandbox_findings_get_kind(report, i), "mount");
        rest += !strcmp(sandbox_findings_get_kind(report, i), "trash");
        ck_assert_str_eq(sandbox_findings_get_action(report, i), "removed");
    }
    ck_assert_msg(mounts == 1 && rest == 1, "%s", sandbox_findings_get_json(report));
    sandbox_findings_unref(report);
}
END_TEST

enum { WORKERS = 3, WORK_MS = 4000 };

/* Creates, starts and deletes all the time, with all that has a claim. */
static void work(int number)
{
    struct sandbox_host *own = box_host();
    long until = box_now() + WORK_MS;
    char name[32];

    snprintf(name, sizeof name, "busy-%d", number);
    while (box_now() < until) {
        struct sandbox_volume_options any = SANDBOX_VOLUME_OPTIONS_INIT;
        struct sandbox_spec *spec = box_spec();
        struct sandbox *sandbox = NULL;

        any.flags = SANDBOX_VOLUME_ANY_FILE_SYSTEM;
        sbtest_ok(sandbox_spec_set_name(spec, name, &error), &error);
        sbtest_ok(sandbox_spec_set_idempotency_key(spec, name, &error), &error);
        sbtest_ok(sandbox_spec_set_lifetime(spec, number % 2 ? SANDBOX_LIFETIME_OWNED : SANDBOX_LIFETIME_DETACHED, &error), &error);
        sbtest_ok(sandbox_create(own, spec, 20000, &sandbox, &error), &error);
        sbtest_ok(sandbox_start(sandbox, 20000, &error), &error);
        ck_assert_int_eq(box_code(sandbox, NULL, "exit 3"), 3);
        sbtest_ok(sandbox_delete(sandbox, 20000, &error), &error);
        sandbox_unref(sandbox);
        sandbox_spec_unref(spec);
        sbtest_ok(sandbox_volume_create_with(own, name, &any, &error), &error);
        sbtest_ok(sandbox_volume_remove(own, name, &error), &error);
    }
    sandbox_host_unref(own);
}

START_TEST(redteam_leaks_none_at_work)
{
    struct sandbox *still = started(SANDBOX_LIFETIME_DETACHED);
    long until = box_now() + WORK_MS;
    pid_t pids[WORKERS];
    int looks = 0, status;

    for (int i = 0; i < WORKERS; i++) {
        pids[i] = fork();
        if (pids[i] == 0) {
            work(i);
            _exit(0);
        }
    }
    while (box_now() < until) {
        ck_assert_uint_eq(count(looks % 2 ? SANDBOX_RECONCILE_DRY_RUN : 0), 0);
        looks++;
    }
    for (int i = 0; i < WORKERS; i++) {
        ck_assert_int_eq(waitpid(pids[i], &status, 0), pids[i]);
        ck_assert_int_eq(status, 0);
    }
    ck_assert_int_gt(looks, 3);
    ck_assert_int_eq(box_code(still, NULL, "exit 4"), 4);
    sbtest_ok(sandbox_delete(still, 20000, &error), &error);
    sandbox_unref(still);
}
END_TEST

START_TEST(redteam_leaks_arguments)
{
    struct sandbox_findings *report = NULL;
    struct sandbox_op *op = NULL;
    int r;

    ck_assert_int_eq(sandbox_host_reconcile(host, 1u << 7, 1000, &report, &error), SANDBOX_EINVALID);
    ck_assert_str_eq(sandbox_error_get_field(error), "flags");
    error = sandbox_error_unref(error);
    sbtest_ok(sandbox_host_reconcile_begin(host, 0, &op, &error), &error);
    sbtest_fails(sandbox_op_take_findings(op, &report, &error), SANDBOX_ENOTFOUND, &error);
    sbtest_ok(sandbox_op_cancel(op), NULL);
    r = sandbox_op_wait(op, 20000, &error);
    ck_assert_int_eq(r, SANDBOX_ECANCELLED);
    error = sandbox_error_unref(error);
    sandbox_op_unref(op);
    sbtest_ok(sandbox_host_reconcile_begin(host, 0, &op, &error), &error);
    sbtest_ok(sandbox_op_wait(op, 20000, &error), &error);
    sbtest_ok(sandbox_op_take_findings(op, &report, &error), &error);
    sbtest_fails(sandbox_op_take_findings(op, &report, &error), SANDBOX_ENOTFOUND, &error);
    ck_assert_str_eq(sandbox_findings_get_json(report), "[]");
    sandbox_findings_unref(report);
    sandbox_op_unref(op);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("redteam-reconcile");
    TCase *tc = sbtest_case("reconcile");

    tcase_add_checked_fixture(tc, set_up, tear_down);
    tcase_add_test(tc, redteam_leaks_in_the_state_root);
    tcase_add_test(tc, redteam_leaks_of_a_dead_owner);
    tcase_add_test(tc, redteam_leaks_of_a_removed_folder);
    tcase_add_test(tc, redteam_leaks_keeper);
    tcase_add_test(tc, redteam_leaks_other_keeper);
    tcase_add_test(tc, redteam_leaks_in_the_kernel);
    tcase_add_test(tc, redteam_leaks_mount);
    tcase_add_test(tc, redteam_leaks_none_at_work);
    tcase_add_test(tc, redteam_leaks_arguments);
    suite_add_tcase(suite, tc);
    return box_main(suite);
}
