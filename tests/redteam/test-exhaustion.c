/* SPDX-License-Identifier: Apache-2.0
 * The red team's rows C: using things up, and hanging. The sandbox goes on answering, and its deletion is quick. */
#include "box.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static struct sandbox_host *host;
static struct sandbox *sandbox;
static struct sandbox_error *error;

static void set_up(void)
{
    host = box_host();
}

/* Deletion in 5 s, whatever goes on inside. */
static void tear_down(void)
{
    long begun = box_now();
    int had = sandbox != NULL;

    if (had) {
        sbtest_ok(sandbox_delete(sandbox, 20000, &error), &error);
        ck_assert_int_lt(box_now() - begun, sbtest_slowly(5000));
        sandbox = sandbox_unref(sandbox);
    }
    box_end(&host, NULL);
}

static struct sandbox_exec *begin(const char *user, const char *const *argv, int *ret_out)
{
    struct sandbox_exec_options options = SANDBOX_EXEC_OPTIONS_INIT;
    struct sandbox_exec *exec = NULL;

    options.user = user;
    sbtest_ok(sandbox_exec(sandbox, argv, &options, &exec, &error), &error);
    sbtest_ok(sandbox_exec_take_stdout(exec, ret_out, &error), &error);
    return exec;
}

static void read_line(int fd, char *line, size_t size)
{
    size_t n = 0;

    while (n < size - 1 && read(fd, line + n, 1) == 1)
        if (line[n++] == '\n')
            break;
    line[n] = 0;
}

static int state_now(void)
{
    struct sandbox_info *info = NULL;
    long begun = box_now();
    int state;

    sbtest_ok(sandbox_inspect(sandbox, &info, &error), &error);
    ck_assert_int_lt(box_now() - begun, sbtest_slowly(1000));
    state = sandbox_info_get_state(info);
    sandbox_info_unref(info);
    return state;
}

START_TEST(redteam_c01)
{
    struct sandbox_spec *spec = box_spec();
    struct sandbox_exec *bomb, *exec = NULL;
    char line[64];
    long begun;
    int out, r;

    sbtest_ok(sandbox_spec_set_pids_max(spec, 200, &error), &error);
    sandbox = box_start(host, spec);
    bomb = begin(box_user(), BOX_ARGV("/guest/bombs", "fork"), &out);
    read_line(out, line, sizeof line);
    ck_assert_ptr_nonnull(strstr(line, "EAGAIN"));
    ck_assert_int_lt(atoi(line + 6), 200);
    for (int i = 0; i < 10; i++) {
        ck_assert_int_eq(state_now(), SANDBOX_STATE_RUNNING);
        begun = box_now();
        r = sandbox_exec(sandbox, BOX_ARGV("true"), NULL, &exec, NULL);
        ck_assert_int_lt(box_now() - begun, sbtest_slowly(1000));
        ck_assert(r == 0 || r == SANDBOX_ELIMIT);
        exec = sandbox_exec_unref(exec);
    }
    close(out);
    sandbox_exec_unref(bomb);
}
END_TEST

/* The deadline ends a fork bomb, all of it. */
START_TEST(redteam_c01_deadline)
{
    struct sandbox_exec_options options = SANDBOX_EXEC_OPTIONS_INIT;
    struct sandbox_exec_result result = SANDBOX_EXEC_RESULT_INIT;
    struct sandbox_spec *spec = box_spec();
    struct sandbox_exec *bomb = NULL;
    char *text;
    long begun;

    sbtest_ok(sandbox_spec_set_pids_max(spec, 200, &error), &error);
    sandbox = box_start(host, spec);
    options.deadline_ms = 1000;
    options.stdout_fd = SANDBOX_STDIO_NULL;
    begun = box_now();
    sbtest_ok(sandbox_exec(sandbox, BOX_ARGV("/guest/bombs", "fork"), &options, &bomb, &error), &error);
    sbtest_ok(sandbox_exec_wait(bomb, 15000, &result, &error), &error);
    ck_assert_int_eq(result.kind, SANDBOX_EXEC_DEADLINE);
    ck_assert_int_lt(box_now() - begun, sbtest_slowly(6000));
    /* what is dead may wait for pid 1 to reap it */
    text = box_sh(sandbox, NULL, "grep -l '^Name:.bombs' /proc/[0-9]*/status 2>/dev/null | xargs -r grep -L '^State:.Z' 2>/dev/null; :");
    ck_assert_str_eq(text, "");
    free(text);
    sandbox_exec_unref(bomb);
}
END_TEST

START_TEST(redteam_c02)
{
    static const char *const bombs[] = { "mem", "memfd", "shm", "pipes" };
    struct sandbox_exec_options options = SANDBOX_EXEC_OPTIONS_INIT;
    struct sandbox_exec_result result = SANDBOX_EXEC_RESULT_INIT;
    struct sandbox_spec *spec = box_spec();
    struct sandbox_exec *bomb = NULL;
    char *text;

    sbtest_ok(sandbox_spec_set_memory_max(spec, 64 << 20, &error), &error);
    if (!box_limits()) {
        sbtest_fails(sandbox_create(host, spec, 10000, &sandbox, &error), SANDBOX_EUNSUPPORTED, &error);
        sandbox_spec_unref(spec);
        sbtest_skip("memory limits need a control group, which this user has none of");
    }
    sandbox = box_start(host, spec);
    options.user = box_user();
    options.stdout_fd = options.stderr_fd = SANDBOX_STDIO_NULL;
    options.deadline_ms = 20000;
    sbtest_ok(sandbox_exec(sandbox, BOX_ARGV("/guest/bombs", bombs[_i]), &options, &bomb, &error), &error);
    sbtest_ok(sandbox_exec_wait(bomb, 30000, &result, &error), &error);
    if (_i < 2) { /* what can't be had is taken by force; pipes and /dev/shm have bounds of their own */
        ck_assert(result.kind == SANDBOX_EXEC_OOM || (result.kind == SANDBOX_EXEC_SIGNALLED && result.signal == SIGKILL));
    } else {
        ck_assert_int_ne(result.kind, SANDBOX_EXEC_DEADLINE);
        ck_assert_int_ne(result.kind, SANDBOX_EXEC_LOST);
    }
    sandbox_exec_unref(bomb);
    ck_assert_int_eq(state_now(), SANDBOX_STATE_RUNNING);
    text = box_sh(sandbox, NULL, "rm -f /dev/shm/bomb; echo alive");
    ck_assert_str_eq(text, "alive");
    free(text);
}
END_TEST

START_TEST(redteam_c03)
{
    struct sandbox_exec *opens;
    char line[64], *text;
    int out;

    sandbox = box_start(host, NULL);
    opens = begin(NULL, BOX_ARGV("/guest/bombs", "opens"), &out);
    read_line(out, line, sizeof line);
    ck_assert_ptr_nonnull(strstr(line, "EMFILE"));
    text = box_sh(sandbox, NULL, "ls / > /dev/null && echo fine");
    ck_assert_str_eq(text, "fine");
    free(text);
    close(out);
    sandbox_exec_unref(opens);
}
END_TEST

/* A memory file system fills up at its bound, by one file, by a sparse one, by entries; and can be emptied again. */
START_TEST(redteam_c04)
{
    struct sandbox_mount_options mount = SANDBOX_MOUNT_OPTIONS_INIT;
    struct sandbox_spec *spec = box_spec();
    char *text;

    mount.type = SANDBOX_MOUNT_TMPFS;
    mount.target = "/small";
    mount.max_bytes = 1 << 20;
    sbtest_ok(sandbox_spec_add_mount(spec, &mount, &error), &error);
    sandbox = box_start(host, spec);
    text = box_sh(sandbox, box_user(), "head -c 5000000 /dev/zero > /small/one 2>/dev/null && echo all; wc -c < /small/one");
    ck_assert_int_le(atoi(text), 1 << 20);
    ck_assert_ptr_null(strstr(text, "all"));
    free(text);
    ck_assert_int_eq(box_code(sandbox, box_user(), "rm /small/one && truncate -s 1T /small/sparse && rm /small/sparse"), 0);
    ck_assert_int_ne(box_code(sandbox, box_user(), "cd /small && seq 20000 | xargs mkdir 2>/dev/null"), 0);
    ck_assert_int_eq(box_code(sandbox, box_user(), "rm -rf /small/* && echo x > /small/y"), 0);
    text = box_sh(sandbox, NULL, "head -c 999999999 /dev/zero > /dev/shm/x 2>/dev/null; rm /dev/shm/x; echo fine");
    ck_assert_str_eq(text, "fine");
    free(text);
}
END_TEST

START_TEST(redteam_c05)
{
    struct sandbox_exec *orphans;
    struct sandbox_exec_result result = SANDBOX_EXEC_RESULT_INIT;
    int out, worst = 0;

    sandbox = box_start(host, NULL);
    orphans = begin(box_user(), BOX_ARGV("/guest/bombs", "orphans", "20000"), &out);
    while (sandbox_exec_wait(orphans, 0, &result, NULL) == SANDBOX_ETIMEDOUT) {
        char *text = box_sh(sandbox, NULL, "grep -l '^State:.Z' /proc/[0-9]*/status 2>/dev/null | wc -l");

        worst = atoi(text) > worst ? atoi(text) : worst;
        free(text);
    }
    ck_assert_int_eq(result.code, 0);
    ck_assert_int_le(worst, 100);
    for (int i = 0; i < 100; i++) {
        char *text = box_sh(sandbox, NULL, "grep -l '^State:.Z' /proc/[0-9]*/status 2>/dev/null | wc -l");

        worst = atoi(text);
        free(text);
        if (!worst)
            break;
        usleep(10000);
    }
    ck_assert_int_eq(worst, 0);
    close(out);
    sandbox_exec_unref(orphans);
}
END_TEST

static struct sandbox *hung(void)
{
    struct sandbox_spec *spec = box_spec();

    sbtest_ok(sandbox_spec_set_fuse(spec, 1, &error), &error);
    sbtest_ok(sandbox_spec_add_capability(spec, "SYS_ADMIN", &error), &error);
    sbtest_ok(sandbox_spec_set_daemon(spec, BOX_ARGV("/guest/hungfuse", "/hung"), &error), &error);
    if (box_privilege() != BOX_ROOT && access("/dev/fuse", R_OK | W_OK) < 0) {
        sbtest_fails(sandbox_create(host, spec, 10000, &sandbox, &error), SANDBOX_EDENIED, &error);
        sandbox_spec_unref(spec);
        return NULL;
    }
    return box_start(host, spec);
}

/* A FUSE daemon that hangs, then is stopped; commands stuck in its mount, with their folder in it; others go on; delete is quick. */
START_TEST(redteam_c08_b16)
{
    struct sandbox_exec_options options = SANDBOX_EXEC_OPTIONS_INIT;
    struct sandbox_exec *stuck[3] = { NULL }, *exec = NULL;
    char *text;
    long begun;

    sandbox = hung();
    if (!sandbox)
        sbtest_skip("this user may not open /dev/fuse");
    for (int i = 0; i < 200 && box_code(sandbox, NULL, "grep -q ' /hung ' /proc/self/mountinfo"); i++)
        usleep(10000);
    for (int i = 0; i < 3; i++)
        sbtest_ok(sandbox_exec(sandbox, BOX_ARGV("stat", "/hung/file"), NULL, &stuck[i], &error), &error);
    sbtest_ok(sandbox_kill(sandbox, SIGSTOP, &error), &error);
    options.workdir = "/hung/folder";
    begun = box_now();
    ck_assert_int_lt(sandbox_exec(sandbox, BOX_ARGV("pwd"), &options, &exec, NULL), 0);
    ck_assert_int_lt(box_now() - begun, sbtest_slowly(8000));
    for (int i = 0; i < 10; i++) {
        begun = box_now();
        text = box_sh(sandbox, NULL, "echo fine");
        ck_assert_str_eq(text, "fine");
        ck_assert_int_lt(box_now() - begun, sbtest_slowly(1000));
        free(text);
        ck_assert_int_eq(state_now(), SANDBOX_STATE_RUNNING);
    }
    for (int i = 0; i < 3; i++)
        sandbox_exec_unref(stuck[i]);
}
END_TEST

/* Other commands start while one is stuck on its way into a hung folder. */
START_TEST(redteam_b16_start)
{
    struct sandbox_exec_options options = SANDBOX_EXEC_OPTIONS_INIT;
    struct sandbox_exec *exec = NULL;
    pid_t pid;
    int status;

    sandbox = hung();
    if (!sandbox)
        sbtest_skip("this user may not open /dev/fuse");
    for (int i = 0; i < 200 && box_code(sandbox, NULL, "grep -q ' /hung ' /proc/self/mountinfo"); i++)
        usleep(10000);
    pid = fork(); /* a second program with the same sandbox: its start hangs for 5 s */
    ck_assert_int_ge(pid, 0);
    if (pid == 0) {
        struct sandbox_host *own = box_host();
        struct sandbox *same = NULL;
        int r;

        options.workdir = "/hung/folder";
        sbtest_ok(sandbox_open(own, sandbox_get_id(sandbox), &same, &error), &error);
        r = sandbox_exec(same, BOX_ARGV("pwd"), &options, &exec, NULL);
        _exit(r < 0 ? 0 : 1);
    }
    usleep(300000);
    for (int i = 0; i < 10; i++) {
        long begun = box_now();

        ck_assert_int_eq(box_code(sandbox, NULL, "exit 4"), 4);
        ck_assert_int_lt(box_now() - begun, sbtest_slowly(1000));
    }
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert_int_eq(status, 0);
}
END_TEST

START_TEST(redteam_c09)
{
    struct sandbox_exec *exec = NULL;
    char folder[4096], path[4200];
    int fd;

    sandbox = box_start(host, NULL);
    if (!box_cgroup(sandbox, folder, sizeof folder))
        sbtest_skip("there is no control group to freeze");
    snprintf(path, sizeof path, "%s/cgroup.freeze", folder);
    sbtest_ok(sandbox_exec(sandbox, BOX_ARGV("sleep", "60"), NULL, &exec, &error), &error);
    fd = open(path, O_WRONLY | O_CLOEXEC);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(write(fd, "1", 1), 1);
    close(fd);
    usleep(100000);
    sandbox_exec_unref(exec);
    /* tear_down() deletes it, in time */
}
END_TEST

/* More handles than init takes: who is turned away is told so, what runs is not taken for ended, and there is room for all else. */
START_TEST(redteam_c10_handles)
{
    enum { MOST = 1100 };
    static const char script[] = "trap 'exit 3' TERM; echo up; while :; do sleep 0.05; done";
    static struct sandbox_exec *handles[MOST];
    struct sandbox_exec_result result = SANDBOX_EXEC_RESULT_INIT;
    struct sandbox_spec *spec = box_spec();
    struct sandbox_exec *exec = NULL;
    struct rlimit before, more;
    int n, r = 0, out;
    char line[16];

    sbtest_ok(sandbox_spec_set_daemon(spec, BOX_ARGV("/bin/sh", "-c", script), &error), &error);
    sandbox = box_start(host, spec);
    sbtest_ok(sandbox_log_wait(sandbox, "up", 2, 0, 10000, NULL, &error), &error);
    exec = begin(NULL, BOX_ARGV("/bin/sh", "-c", "echo on; sleep 1000"), &out);
    read_line(out, line, sizeof line);
    ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &before), 0);
    more = before;
    more.rlim_cur = more.rlim_max;
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &more), 0);
    for (n = 0; n < MOST && !r; n += !r)
        r = sandbox_exec_open(sandbox, sandbox_exec_get_id(exec), &handles[n], &error);
    sbtest_fails(r, SANDBOX_EBUSY, &error);
    ck_assert_int_gt(n, 1000);
    ck_assert_int_eq(sandbox_exec_wait(handles[n - 1], 0, &result, NULL), SANDBOX_ETIMEDOUT); /* and not LOST */
    ck_assert_int_eq(box_code(sandbox, NULL, "exit 7"), 7);
    sbtest_ok(sandbox_stop(sandbox, 5000, sbtest_slowly(10000), &error), &error);
    sbtest_ok(sandbox_wait(sandbox, sbtest_slowly(5000), &result, &error), &error);
    ck_assert_int_eq(result.kind, SANDBOX_EXEC_EXITED); /* its SIGTERM came through */
    ck_assert_int_eq(result.code, 3);
    while (n > 0)
        sandbox_exec_unref(handles[--n]);
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &before), 0);
    close(out);
    sandbox_exec_unref(exec);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("redteam-exhaustion");
    TCase *tc = sbtest_case("exhaustion");

    tcase_add_checked_fixture(tc, set_up, tear_down);
    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, redteam_c01);
    tcase_add_test(tc, redteam_c01_deadline);
    tcase_add_loop_test(tc, redteam_c02, 0, 4);
    tcase_add_test(tc, redteam_c03);
    tcase_add_test(tc, redteam_c04);
    tcase_add_test(tc, redteam_c05);
    tcase_add_test(tc, redteam_c08_b16);
    tcase_add_test(tc, redteam_b16_start);
    tcase_add_test(tc, redteam_c09);
    tcase_add_test(tc, redteam_c10_handles);
    suite_add_tcase(suite, tc);
    return box_main(suite);
}
