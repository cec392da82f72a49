/* SPDX-License-Identifier: Apache-2.0
 * Faults of keeper and init, and what something inside could do to logs, exit records and journals. Nothing hangs, an exit code is
 * true or it is lost, and what a sandbox writes harms nobody but its own log. */
#include "box.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
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

static void tear_down(void)
{
    box_end(&host, &sandbox);
}

static int deep(void)
{
    const char *value = getenv("SBTEST_DEEP");

    return value && *value;
}

static struct sandbox *start_daemon(const char *script, int64_t log_max)
{
    struct sandbox_spec *spec = box_spec();

    sbtest_ok(sandbox_spec_set_daemon(spec, BOX_ARGV("/bin/sh", "-c", script), &error), &error);
    sbtest_ok(sandbox_spec_set_log_max(spec, log_max, &error), &error);
    return box_start(host, spec);
}

/* Of a process that may end at any moment: free() it; NULL: it is gone. */
static char *read_status(const char *pid)
{
    char path[300], *text = calloc(1, 65536);
    int fd;

    snprintf(path, sizeof path, "/proc/%s/status", pid);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || read(fd, text, 65535) <= 0) {
        free(text);
        text = NULL;
    }
    if (fd >= 0)
        close(fd);
    return text;
}

/* The child of this process whose name is "sandbox-keeper", or the child of that. */
static pid_t find_child(pid_t parent)
{
    DIR *proc = opendir("/proc");
    struct dirent *e;
    pid_t found = 0;

    while (proc && (e = readdir(proc))) {
        char *status, *parent_text, *state;

        if (e->d_name[0] < '1' || e->d_name[0] > '9' || !(status = read_status(e->d_name)))
            continue;
        parent_text = box_finding(status, "PPid");
        state = box_finding(status, "State");
        if (parent_text && atoi(parent_text + 1) == parent && state && !strchr(state, 'Z'))
            found = atoi(e->d_name);
        free(status);
        free(parent_text);
        free(state);
    }
    if (proc)
        closedir(proc);
    return found;
}

static pid_t keeper_pid(void)
{
    pid_t pid = find_child(getpid());

    ck_assert_int_gt(pid, 0);
    return pid;
}

static struct sandbox_exec *begin(const char *script)
{
    struct sandbox_exec_options options = SANDBOX_EXEC_OPTIONS_INIT;
    struct sandbox_exec *exec = NULL;

    options.stdout_fd = options.stderr_fd = SANDBOX_STDIO_NULL;
    sbtest_ok(sandbox_exec(sandbox, BOX_ARGV("/bin/sh", "-c", script), &options, &exec, &error), &error);
    return exec;
}

static void expect_end(struct sandbox_exec *exec, int kind, int code)
{
    struct sandbox_exec_result result = SANDBOX_EXEC_RESULT_INIT;

    sbtest_ok(sandbox_exec_wait(exec, 10000, &result, &error), &error);
    ck_assert_int_eq(result.kind, kind);
    ck_assert_int_eq(result.code, code);
}

static void expect_state(int state, const char *cause)
{
    struct sandbox_info *info = NULL;

    for (long until = box_now() + sbtest_slowly(5000);; usleep(10000)) { /* an init that was told to end is not gone yet */
        sbtest_ok(sandbox_inspect(sandbox, &info, &error), &error);
        if (sandbox_info_get_state(info) == state || box_now() > until)
            break;
        info = sandbox_info_unref(info);
    }
    if (sandbox_info_get_state(info) != state || !strstr(sandbox_info_get_json(info), cause))
        ck_abort_msg("not state %d with \"%s\": %s", state, cause, sandbox_info_get_json(info));
    sandbox_info_unref(info);
}

/* How many bytes of output a log has, and how many it lost; what else it says must hold together. */
static void measure(uint64_t *ret_got, uint64_t *ret_lost, int follow)
{
    struct sandbox_log_options options = SANDBOX_LOG_OPTIONS_INIT;
    struct sandbox_log_record record = SANDBOX_LOG_RECORD_INIT;
    struct sandbox_log *log = NULL;
    int64_t position = -1;
    int r;

    *ret_got = *ret_lost = 0;
    options.follow = follow;
    sbtest_ok(sandbox_log_open(sandbox, &options, &log, &error), &error);
    while ((r = sandbox_log_read(log, 20000, &record, &error)) == 1) {
        if (position >= 0)
            ck_assert_int_eq(record.position, position);
        position = record.position + (int64_t)record.data_size + (record.kind == SANDBOX_LOG_LOST ? record.lost : 0);
        *ret_got += record.data_size;
        if (record.kind == SANDBOX_LOG_LOST) {
            ck_assert_int_gt(record.lost, 0);
            *ret_lost += (uint64_t)record.lost;
        }
    }
    sbtest_ok(r, &error);
    sandbox_log_close(log);
}

/* A sandbox without its keeper ends: at once, whole, and said. */
START_TEST(keeper_is_killed)
{
    struct sandbox_exec_result result = SANDBOX_EXEC_RESULT_INIT;
    struct sandbox_log_options options = SANDBOX_LOG_OPTIONS_INIT;
    struct sandbox_log_record record = SANDBOX_LOG_RECORD_INIT;
    struct sandbox_log *log = NULL;
    struct sandbox_exec *exec;
    uint64_t got, lost;
    long begun;
    int r;

    sandbox = start_daemon("echo up; while :; do sleep 1; done", 0);
    sbtest_ok(sandbox_log_wait(sandbox, "up\n", 3, 0, 10000, NULL, &error), &error);
    exec = begin("sleep 60");
    options.follow = 1;
    sbtest_ok(sandbox_log_open(sandbox, &options, &log, &error), &error);
    begun = box_now();
    ck_assert_int_eq(kill(keeper_pid(), SIGKILL), 0);
    expect_end(exec, SANDBOX_EXEC_LOST, -1);
    while ((r = sandbox_log_read(log, 10000, &record, &error)) == 1)
        ;
    sbtest_ok(r, &error);
    sandbox_log_close(log);
    sbtest_ok(sandbox_wait(sandbox, 10000, &result, &error), &error);
    ck_assert_int_eq(result.kind, SANDBOX_EXEC_LOST);
    sbtest_fails(sandbox_log_wait(sandbox, "x", 1, 0, 10000, NULL, &error), SANDBOX_ENOTRUNNING, &error);
    ck_assert_int_lt(box_now() - begun, sbtest_slowly(5000));
    while (waitpid(-1, NULL, WNOHANG | __WALL) > 0)
        ;
    expect_state(SANDBOX_STATE_FAILED, "its keeper was killed");
    measure(&got, &lost, 0);
    ck_assert_uint_eq(got, 3);
    sandbox_exec_unref(exec);
    /* and is started again as any other that failed */
    sbtest_ok(sandbox_start(sandbox, 10000, &error), &error);
    sbtest_ok(sandbox_log_wait(sandbox, "up\n", 3, 0, 10000, NULL, &error), &error);
    measure(&got, &lost, 0);
    ck_assert_uint_eq(got, 6);
}
END_TEST

/* A keeper that is stopped holds up the daemon's output and nothing else; what it did not see then it sees later. */
START_TEST(keeper_is_stopped)
{
    static char ids[400][SANDBOX_ID_LENGTH + 1];
    struct sandbox_exec *exec;
    uint64_t got, lost;
    pid_t keeper;
    long begun;

    sandbox = start_daemon("until [ -e /tmp/go ]; do sleep .05; done; head -c 3000000 /dev/zero; touch /tmp/written; exec sleep 600", 16 << 20);
    keeper = keeper_pid();
    ck_assert_int_eq(kill(keeper, SIGSTOP), 0);
    begun = box_now();
    for (size_t i = 0; i < (deep() ? 400 : 120); i++) { /* more than the socket takes at once */
        exec = begin(i % 2 ? "exit 1" : "exit 0");
        snprintf(ids[i], sizeof ids[i], "%s", sandbox_exec_get_id(exec));
        expect_end(exec, SANDBOX_EXEC_EXITED, i % 2);
        sandbox_exec_unref(exec);
        sbtest_ok(sandbox_exec_open(sandbox, ids[i], &exec, &error), &error);
        expect_end(exec, SANDBOX_EXEC_EXITED, i % 2);
        sandbox_exec_unref(exec);
    }
    ck_assert_int_eq(box_code(sandbox, NULL, "touch /tmp/go; sleep 1; [ ! -e /tmp/written ]"), 0); /* back-pressure, and no more than that */
    ck_assert_int_lt(box_now() - begun, sbtest_slowly(60000));
    ck_assert_int_eq(kill(keeper, SIGCONT), 0);
    ck_assert_int_eq(box_code(sandbox, NULL, "until [ -e /tmp/written ]; do sleep .05; done"), 0);
    sbtest_ok(sandbox_stop(sandbox, 0, 10000, &error), &error);
    measure(&got, &lost, 1);
    ck_assert_uint_eq(got + lost, 3000000);
    for (size_t i = 0; i < (deep() ? 400 : 120); i++) {
        sbtest_ok(sandbox_exec_open(sandbox, ids[i], &exec, &error), &error);
        expect_end(exec, SANDBOX_EXEC_EXITED, i % 2);
        sandbox_exec_unref(exec);
    }
}
END_TEST

START_TEST(keeper_is_stopped_for_good)
{
    struct sandbox_exec_options with = SANDBOX_EXEC_OPTIONS_INIT;
    struct sandbox_exec *exec = NULL;
    long begun;
    int r = 0;

    sandbox = start_daemon("exec sleep 600", 0);
    ck_assert_int_eq(kill(keeper_pid(), SIGSTOP), 0);
    /* journals need it: refused, or begun, and never waited for */
    with.journal_max = 8192;
    begun = box_now();
    for (int i = 0; i < 400 && r == 0; i++) {
        r = sandbox_exec(sandbox, BOX_ARGV("true"), &with, &exec, &error);
        if (r == 0)
            expect_end(exec, SANDBOX_EXEC_EXITED, 0);
        exec = sandbox_exec_unref(exec);
    }
    ck_assert_int_lt(box_now() - begun, sbtest_slowly(60000));
    sbtest_fails(r, SANDBOX_EBUSY, &error);
    begun = box_now();
    sbtest_ok(sandbox_stop(sandbox, 100, 10000, &error), &error);
    ck_assert_int_lt(box_now() - begun, sbtest_slowly(8000));
    expect_state(SANDBOX_STATE_STOPPED, "stopped");
}
END_TEST

/* An init that is stopped answers nothing; who reads a log does not wait for it. */
START_TEST(init_is_stopped)
{
    struct sandbox_log_options options = SANDBOX_LOG_OPTIONS_INIT;
    struct sandbox_log_record record = SANDBOX_LOG_RECORD_INIT;
    struct sandbox_log *log = NULL;
    pid_t init;
    long begun;
    int r;

    sandbox = start_daemon("echo hi", 0);
    sbtest_ok(sandbox_wait(sandbox, 10000, NULL, &error), &error);
    options.follow = 1;
    sbtest_ok(sandbox_log_open(sandbox, &options, &log, &error), &error);
    init = find_child(keeper_pid());
    ck_assert_int_eq(init > 0 && kill(init, SIGSTOP) == 0, 1);
    begun = box_now();
    while ((r = sandbox_log_read(log, 0, &record, &error)) == 1)
        ;
    ck_assert_int_lt(box_now() - begun, sbtest_slowly(500));
    sbtest_fails(r, SANDBOX_ETIMEDOUT, &error);
    sbtest_fails(sandbox_log_read(log, 200, &record, &error), SANDBOX_ETIMEDOUT, &error);
    ck_assert_int_lt(box_now() - begun, sbtest_slowly(1500));
    ck_assert_int_eq(kill(init, SIGCONT), 0);
    sbtest_ok(sandbox_log_read(log, sbtest_slowly(5000), &record, &error), &error); /* the end */
    sandbox_log_close(log);
}
END_TEST

/* A log that nobody reads: the daemon runs at full speed, memory and disk stay bounded. */
START_TEST(exec_f19_log)
{
    char script[128], *status, *peak, path[64];
    uint64_t got, lost, bytes = deep() ? UINT64_C(10) << 30 : UINT64_C(256) << 20;
    pid_t keeper;

    snprintf(script, sizeof script, "head -c %llu /dev/zero; echo end; exec sleep 600", (unsigned long long)bytes);
    sandbox = start_daemon(script, 1 << 20);
    keeper = keeper_pid();
    sbtest_ok(sandbox_log_wait(sandbox, "end\n", 4, 0, 300000, NULL, &error), &error);
    snprintf(path, sizeof path, "/proc/%d/status", (int)keeper);
    status = box_read(path);
    peak = box_finding(status, "VmHWM");
    ck_assert_ptr_nonnull(peak);
    ck_assert_int_lt(atoi(peak + strspn(peak, "\t ")), 64 << 10); /* kB */
    free(peak);
    free(status);
    measure(&got, &lost, 0);
    ck_assert_uint_le(got, 1 << 20);
    ck_assert_uint_ge(got, 1 << 18);
    {
        struct sandbox_log_options options = SANDBOX_LOG_OPTIONS_INIT;
        struct sandbox_log_record record = SANDBOX_LOG_RECORD_INIT;
        struct sandbox_log *log = NULL;

        options.position = 1;
        sbtest_ok(sandbox_log_open(sandbox, &options, &log, &error), &error);
        ck_assert_int_eq(sandbox_log_read(log, 0, &record, &error), 1);
        ck_assert_int_eq(record.kind, SANDBOX_LOG_LOST);
        ck_assert_uint_eq((uint64_t)record.lost + 1 + got, bytes + 4);
        sandbox_log_close(log);
    }
}
END_TEST

/* The disk that the log is on is full: the daemon goes on, the log says what it lost, the exit is written down in the room kept for it. */
START_TEST(log_on_a_full_disk)
{
    struct sandbox_host_options options = SANDBOX_HOST_OPTIONS_INIT;
    struct sandbox_host *small = NULL;
    struct sandbox_spec *spec;
    const char *why;
    char disk[600], root[700];
    uint64_t got, lost;

    snprintf(disk, sizeof disk, "%s/disk", sbtest_dir());
    snprintf(root, sizeof root, "%s/state", disk);
    why = box_small_disk(disk, "size=8m,mode=0700");
    if (why)
        sbtest_skip(why);
    options.state_root = root;
    sbtest_ok(sandbox_host_open("local:", &options, 10000, &small, &error), &error);
    spec = box_spec();
    sbtest_ok(sandbox_spec_set_daemon(spec, BOX_ARGV("/bin/sh", "-c", "head -c 30000000 /dev/zero; exit 9"), &error), &error);
    sandbox = box_start(small, spec);
    {
        struct sandbox_exec_result result = SANDBOX_EXEC_RESULT_INIT;

        sbtest_ok(sandbox_wait(sandbox, 20000, &result, &error), &error);
        ck_assert_int_eq(result.code, 9);
    }
    sbtest_ok(sandbox_stop(sandbox, 0, 10000, &error), &error);
    measure(&got, &lost, 0);
    ck_assert_uint_gt(got, 1 << 20);
    ck_assert_uint_lt(got, 8 << 20);
    ck_assert_uint_gt(lost, 0);
    sbtest_ok(sandbox_delete(sandbox, 10000, &error), &error);
    sandbox = sandbox_unref(sandbox);
    sandbox_host_unref(small);
    ck_assert_int_eq(umount2(disk, 0), 0);
}
END_TEST

/* What poses as records, as an end, as another segment: bytes among bytes. */
START_TEST(log_of_a_liar)
{
    static const char script[] =
        "printf 'SBRING1\\n\\1\\0\\0\\0\\0\\0\\0\\0'; for i in 1 2 3 4 5 6 7 8; do printf '\\0\\0\\0\\0\\0\\0\\0\\0\\377\\377\\377\\377"
        "\\377\\377\\377\\377\\7\\0\\0\\0\\0\\0\\0\\0'; done; printf '\\33]0;title\\7\\33[2J\\r\\n{\"schema\":1}' >&2; exit 0";
    struct sandbox_log_options options = SANDBOX_LOG_OPTIONS_INIT;
    struct sandbox_log_record record = SANDBOX_LOG_RECORD_INIT;
    struct sandbox_log *log = NULL;
    uint64_t got = 0;
    int r, ended = 0;

    sandbox = start_daemon(script, 8192);
    options.follow = 1;
    sbtest_ok(sandbox_log_open(sandbox, &options, &log, &error), &error);
    while ((r = sandbox_log_read(log, 10000, &record, &error)) == 1) {
        ck_assert_int_eq(ended, 0);
        ended += record.kind == SANDBOX_LOG_ENDED;
        ck_assert_int_ne(record.kind, SANDBOX_LOG_LOST);
        got += record.data_size;
    }
    sbtest_ok(r, &error);
    ck_assert_int_eq(ended, 1);
    ck_assert_uint_eq(got, 16 + 8 * 24 + 28);
    sandbox_log_close(log);
}
END_TEST

/* Neither the daemon nor a command holds a socket of init's or keeper's, finds one, or reaches one by /proc. */
START_TEST(events_cant_be_forged)
{
    static const char look[] =
        "for f in /proc/self/fd/* /proc/*/fd/*; do l=$(readlink $f 2>/dev/null); case $l in socket:*) echo $f $l;; esac; done;"
        "for f in 8 9 10; do [ -e /proc/1/fd/$f ] && echo reached $f; done; (echo x > /proc/1/fd/10) 2>/dev/null && echo written; true";
    struct sandbox_spec *spec = box_spec();
    struct sandbox_exec *exec = NULL;
    char script[600], id[SANDBOX_ID_LENGTH + 1] = "", *text;
    uint64_t got, lost;

    snprintf(script, sizeof script, "%s; echo looked; exec sleep 600", look);
    sbtest_ok(sandbox_spec_set_daemon(spec, BOX_ARGV("/bin/sh", "-c", script), &error), &error);
    sbtest_ok(sandbox_spec_add_capability(spec, "SYS_ADMIN", &error), &error);
    sandbox = box_start(host, spec);
    sbtest_ok(sandbox_log_wait(sandbox, "looked\n", 7, 0, 20000, NULL, &error), &error);
    measure(&got, &lost, 0);
    ck_assert_uint_eq(got, 7);
    text = box_sh(sandbox, NULL, look);
    ck_assert_str_eq(text, "");
    free(text);
    /* ids are guessed in vain */
    for (int i = 0; i < 64; i++) {
        memset(id, "0123456789abcdef"[i % 16], SANDBOX_ID_LENGTH);
        id[i] = 'f';
        sbtest_fails(sandbox_exec_open(sandbox, id, &exec, &error), SANDBOX_ENOTFOUND, &error);
    }
}
END_TEST

/* ---- SIGKILL at sampled system calls of keeper and of init ---- */

static const char *const sampled[] = { "read", "recvmsg", "pwritev", "pwrite64", "openat", "renameat", "fdatasync", "poll", "sendmsg,sendto", "clone3",
                                       "epoll_wait", "accept4", "wait4", "close", "write", "unlinkat", "waitid", "clock_gettime,fstat" };
enum { SAMPLED = sizeof sampled / sizeof *sampled };

/* strace on one process; returns when it has it. */
static pid_t trace(pid_t victim, const char *inject)
{
    char pid[16];
    pid_t tracer;

    snprintf(pid, sizeof pid, "%d", (int)victim);
    tracer = fork();

    ck_assert_int_ge(tracer, 0);
    if (tracer == 0) {
        int null = open("/dev/null", O_WRONLY | O_CLOEXEC);

        dup2(null, 2);
        setenv("ASAN_OPTIONS", "detect_leaks=0", 1);
        execl("/usr/bin/strace", "strace", "-qq", "-o", "/dev/null", "-e", inject, "-p", pid, (char *)NULL);
        _exit(125);
    }
    for (long until = box_now() + sbtest_slowly(5000); box_now() < until; usleep(2000)) {
        char *status = read_status(pid), *by = status ? box_finding(status, "TracerPid") : NULL;
        int done = !status || (by && atoi(by + strspn(by, "\t ")) != 0);

        free(by);
        free(status);
        if (done)
            break;
    }
    return tracer;
}

/* What a caller does meanwhile: all of it may fail, none of it may hang, and a code that is told is the true one. */
static void work(void)
{
    struct sandbox_exec_options with = SANDBOX_EXEC_OPTIONS_INIT;
    struct sandbox_log_options options = SANDBOX_LOG_OPTIONS_INIT;
    struct sandbox_log_record record = SANDBOX_LOG_RECORD_INIT;
    struct sandbox_log *log = NULL;

    with.stdout_fd = with.stderr_fd = SANDBOX_STDIO_NULL;
    for (int i = 0; i < 4; i++) {
        struct sandbox_exec_result result = SANDBOX_EXEC_RESULT_INIT;
        struct sandbox_exec *exec = NULL, *other = NULL;
        char script[16];
        int r;

        with.journal_max = i % 2 ? 8192 : 0;
        snprintf(script, sizeof script, "exit %d", 20 + i);
        if (sandbox_exec(sandbox, BOX_ARGV("/bin/sh", "-c", script), &with, &exec, NULL) < 0)
            continue;
        r = sandbox_exec_wait(exec, 10000, &result, NULL);
        ck_assert_int_eq(r, 0);
        ck_assert_int_eq(result.kind == SANDBOX_EXEC_LOST ? result.code == -1 : result.code == 20 + i, 1);
        if (sandbox_exec_open(sandbox, sandbox_exec_get_id(exec), &other, NULL) == 0) {
            r = sandbox_exec_wait(other, 10000, &result, NULL);
            ck_assert_int_eq(r, 0);
            ck_assert_int_eq(result.kind == SANDBOX_EXEC_LOST ? result.code == -1 : result.code == 20 + i, 1);
        }
        sandbox_exec_unref(other);
        sandbox_exec_unref(exec);
    }
    if (sandbox_log_open(sandbox, &options, &log, NULL) == 0)
        while (sandbox_log_read(log, 1000, &record, NULL) == 1)
            ;
    sandbox_log_close(log);
}

static int lives(pid_t pid)
{
    char text[16], *status, *state;
    int r;

    snprintf(text, sizeof text, "%d", (int)pid);
    status = read_status(text);
    state = status ? box_finding(status, "State") : NULL;
    r = state && !strchr(state, 'Z') && !strchr(state, 'X');
    free(state);
    free(status);
    return r;
}

static void kill_at(int of_init)
{
    static const int when[] = { 1, 2, 3, 5, 8, 13 };
    unsigned int seed = (unsigned int)of_init * 131;
    int killed = 0;

    for (int s = 0; s < SAMPLED; s++)
        for (int k = 0; k < (deep() ? 4 : 1); k++) {
            char inject[128];
            struct sandbox_exec *exec = NULL;
            pid_t keeper, victim, tracer;
            long begun = box_now();

            seed = seed * 1103515245u + 12345u;
            snprintf(inject, sizeof inject, "inject=%s:signal=SIGKILL:when=%d", sampled[s], when[(seed >> 16) % 6]);
            sandbox = start_daemon("i=0; while :; do i=$((i+1)); echo line $i; sleep .01; done", 8192);
            keeper = keeper_pid();
            victim = of_init ? find_child(keeper) : keeper;
            ck_assert_int_gt(victim, 0);
            tracer = trace(victim, inject);
            work();
            killed += !lives(victim);
            sandbox_stop(sandbox, 200, 10000, NULL);
            kill(tracer, SIGKILL);
            waitpid(tracer, NULL, 0);
            if (box_now() - begun > 25000)
                ck_abort_msg("%s of %s took %ld ms", inject, of_init ? "init" : "keeper", box_now() - begun);
            /* whatever was left: it is told, can be started again or deleted, and the log goes on */
            while (waitpid(-1, NULL, WNOHANG | __WALL) > 0)
                ;
            host = sandbox_host_unref(host);
            host = box_host();
            {
                struct sandbox *same = NULL;

                sbtest_ok(sandbox_open(host, sandbox_get_id(sandbox), &same, &error), &error);
                sandbox_unref(sandbox);
                sandbox = same;
            }
            sbtest_ok(sandbox_start(sandbox, 10000, &error), &error);
            sbtest_ok(sandbox_log_wait(sandbox, "line 3\n", 7, 0, 10000, NULL, &error), &error);
            exec = begin("exit 3");
            expect_end(exec, SANDBOX_EXEC_EXITED, 3);
            sandbox_exec_unref(exec);
            sbtest_ok(sandbox_delete(sandbox, 20000, &error), &error);
            sandbox = sandbox_unref(sandbox);
        }
    ck_assert_int_ge(killed, SAMPLED / 4); /* some are never called so often */
}

START_TEST(keeper_killed_at)
{
    if (geteuid() != 0)
        sbtest_skip("only root can trace them");
    if (access("/usr/bin/strace", X_OK) < 0)
        sbtest_skip("there is no strace");
    kill_at(0);
}
END_TEST

START_TEST(init_killed_at)
{
    if (geteuid() != 0)
        sbtest_skip("only root can trace them");
    if (access("/usr/bin/strace", X_OK) < 0)
        sbtest_skip("there is no strace");
    kill_at(1);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("redteam-keeper");
    TCase *tc = sbtest_case("keeper");

    tcase_add_checked_fixture(tc, set_up, tear_down);
    tcase_set_timeout(tc, deep() ? 600 : 120);
    tcase_add_test(tc, keeper_is_killed);
    tcase_add_test(tc, keeper_is_stopped);
    tcase_add_test(tc, keeper_is_stopped_for_good);
    tcase_add_test(tc, init_is_stopped);
    tcase_add_test(tc, exec_f19_log);
    tcase_add_test(tc, log_on_a_full_disk);
    tcase_add_test(tc, log_of_a_liar);
    tcase_add_test(tc, events_cant_be_forged);
    tcase_add_test(tc, keeper_killed_at);
    tcase_add_test(tc, init_killed_at);
    suite_add_tcase(suite, tc);
    return box_main(suite);
}
