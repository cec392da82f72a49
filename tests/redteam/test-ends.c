/* SPDX-License-Identifier: Apache-2.0
 * The red team's rows C06 and C07: an init that dies of its own fault or for want of memory, and a daemon that can't live. */
#include "box.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/user.h>
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

/* The next thing it does is a jump to address 0. */
static int crash(pid_t pid)
{
    struct user_regs_struct regs;
    struct iovec iov = { &regs, sizeof regs };
    int status;

    if (ptrace(PTRACE_SEIZE, pid, 0, 0) < 0)
        return -errno;
    ck_assert_int_eq(ptrace(PTRACE_INTERRUPT, pid, 0, 0), 0);
    ck_assert_int_eq(waitpid(pid, &status, __WALL), pid);
    ck_assert_int_eq(ptrace(PTRACE_GETREGSET, pid, (void *)NT_PRSTATUS, &iov), 0);
#ifdef __x86_64__
    regs.rip = 0;
    regs.orig_rax = (unsigned long long)-1; /* no system call is to be begun again */
#else
    regs.pc = 0;
#endif
    ck_assert_int_eq(ptrace(PTRACE_SETREGSET, pid, (void *)NT_PRSTATUS, &iov), 0);
    ck_assert_int_eq(ptrace(PTRACE_DETACH, pid, 0, 0), 0);
    return 0;
}

static void write_text(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC);

    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    close(fd);
}

/* Failed, with a cause, within a second; what ran is lost and has no exit code; nothing of it is left; the others don't notice. */
static void expect_failed(struct sandbox_exec *exec, struct sandbox *other, pid_t init)
{
    struct sandbox_exec_result result = SANDBOX_EXEC_RESULT_INIT;
    struct sandbox_info *info = NULL;
    long begun = box_now();
    char *text, path[64];
    int state;

    sbtest_ok(sandbox_exec_wait(exec, sbtest_slowly(5000), &result, &error), &error);
    ck_assert_int_eq(result.kind, SANDBOX_EXEC_LOST);
    ck_assert_int_eq(result.code, -1);
    do {
        info = sandbox_info_unref(info);
        sbtest_ok(sandbox_inspect(sandbox, &info, &error), &error);
        state = sandbox_info_get_state(info);
    } while (state != SANDBOX_STATE_FAILED && box_now() - begun < sbtest_slowly(3000));
    ck_assert_int_eq(state, SANDBOX_STATE_FAILED);
    ck_assert_ptr_null(strstr(sandbox_info_get_json(info), "\"cause\":\"\""));
    sandbox_info_unref(info);
    snprintf(path, sizeof path, "/proc/%d/root/.", (int)init);
    ck_assert_int_ne(access(path, F_OK), 0);
    sbtest_fails(sandbox_exec(sandbox, BOX_ARGV("true"), NULL, &exec, &error), SANDBOX_ENOTRUNNING, &error);
    text = box_sh(other, NULL, "echo unharmed");
    ck_assert_str_eq(text, "unharmed");
    free(text);
}

/* 0: without a daemon, a child of this process; 1: with one, a child of the keeper */
static struct sandbox_spec *spec_of_kind(int with_daemon)
{
    struct sandbox_spec *spec = box_spec();

    if (with_daemon)
        sbtest_ok(sandbox_spec_set_daemon(spec, BOX_ARGV("/bin/sh", "-c", "sleep 1000 & exec sleep 1000"), &error), &error);
    return spec;
}

START_TEST(redteam_c06_fault)
{
    struct sandbox *other;
    struct sandbox_exec *exec = NULL;
    pid_t init;

    if (geteuid() != 0)
        sbtest_skip("only root may trace a sandbox's init");
    sandbox = box_start(host, spec_of_kind(_i));
    other = box_start(host, NULL);
    sbtest_ok(sandbox_exec(sandbox, BOX_ARGV("/bin/sh", "-c", "setsid sleep 1000 & exec sleep 1000"), NULL, &exec, &error),
              &error);
    init = box_init(sandbox);
    ck_assert_int_eq(crash(init), 0);
    expect_failed(exec, other, init);
    sandbox_exec_unref(exec);
    sbtest_ok(sandbox_delete(other, 10000, &error), &error);
    sandbox_unref(other);
}
END_TEST

START_TEST(redteam_c06_memory)
{
    struct sandbox_spec *spec = spec_of_kind(_i);
    struct sandbox_exec_options options = SANDBOX_EXEC_OPTIONS_INIT;
    struct sandbox *other;
    struct sandbox_mount_options mount = SANDBOX_MOUNT_OPTIONS_INIT;
    struct sandbox_exec *exec = NULL, *bomb = NULL;
    char path[64];
    pid_t init;

    if (geteuid() != 0) {
        sandbox_spec_unref(spec);
        sbtest_skip("only root may offer a sandbox's init to the OOM killer");
    }
    mount.type = SANDBOX_MOUNT_TMPFS;
    mount.target = "/big";
    mount.max_bytes = 256 << 20;
    sbtest_ok(sandbox_spec_add_mount(spec, &mount, &error), &error);
    sbtest_ok(sandbox_spec_set_memory_max(spec, 64 << 20, &error), &error);
    sandbox = box_start(host, spec);
    other = box_start(host, NULL);
    sbtest_ok(sandbox_exec(sandbox, BOX_ARGV("sleep", "1000"), NULL, &exec, &error), &error);
    init = box_init(sandbox);
    options.stdout_fd = options.stderr_fd = SANDBOX_STDIO_NULL;
    sbtest_ok(sandbox_exec(sandbox, BOX_ARGV("/bin/sh", "-c", "sleep 1.5; exec dd if=/dev/zero of=/big/file bs=64k count=3000"),
                           &options, &bomb, &error),
              &error);
    snprintf(path, sizeof path, "/proc/%d/oom_score_adj", (int)init);
    write_text(path, "1000"); /* init gives itself its own back whenever it begins something: nothing is begun from here on */
    expect_failed(exec, other, init);
    sandbox_exec_unref(exec);
    sandbox_exec_unref(bomb);
    sbtest_ok(sandbox_delete(other, 10000, &error), &error);
    sandbox_unref(other);
}
END_TEST

/* ---- C07 ---- */

enum { CYCLES = 12 };

/* The end of its log: the last record's text. */
static void expect_last_line(const char *wanted)
{
    struct sandbox_log_options options = SANDBOX_LOG_OPTIONS_INIT;
    struct sandbox_log *log = NULL;
    char text[256] = "";
    int r;

    options.follow = 1;
    for (int pass = 0; pass < 2; pass++) { /* to its end, so that all of it is there; then its last line */
        *text = 0;
        sbtest_ok(sandbox_log_open(sandbox, &options, &log, &error), &error);
        for (;;) {
            struct sandbox_log_record record = SANDBOX_LOG_RECORD_INIT;

            r = sandbox_log_read(log, 10000, &record, &error);
            if (r <= 0)
                break;
            if (record.kind == SANDBOX_LOG_OUTPUT)
                snprintf(text + strlen(text), sizeof text - strlen(text), "%.*s", (int)record.data_size,
                         (const char *)record.data);
        }
        sbtest_ok(r, &error);
        sandbox_log_close(log);
        options.follow = 0;
        options.tail = 1;
    }
    ck_assert_str_eq(text, wanted);
}

/* A daemon that crashes whenever it is started: nobody starts it again but who asks for it, each end is told, the log keeps the last one's
 * words within its bound, and no process or folder more is there after the last than after the first. */
START_TEST(redteam_c07)
{
    struct sandbox_spec *spec = box_spec();
    struct sandbox_exec_result result;
    char wanted[64];

    sbtest_ok(sandbox_spec_set_log_max(spec, 16384, &error), &error);
    sbtest_ok(sandbox_spec_set_daemon(
                  spec,
                  BOX_ARGV("/bin/sh", "-c",
                           "n=$(($(cat /count 2>/dev/null || echo 0) + 1)); echo $n >/count; i=0; while [ $i -lt 200 ]; do "
                           "echo noise noise noise noise noise $i; i=$((i+1)); done; echo crash $n; kill -SEGV $$"),
                  &error),
              &error);
    sbtest_ok(sandbox_create(host, spec, 10000, &sandbox, &error), &error);
    sandbox_spec_unref(spec);
    for (int i = 1; i <= CYCLES; i++) {
        sbtest_ok(sandbox_start(sandbox, 10000, &error), &error);
        result = (struct sandbox_exec_result)SANDBOX_EXEC_RESULT_INIT;
        sbtest_ok(sandbox_wait(sandbox, 10000, &result, &error), &error);
        ck_assert_int_eq(result.kind, SANDBOX_EXEC_SIGNALLED);
        ck_assert_int_eq(result.signal, SIGSEGV);
        usleep(i == CYCLES ? 500000 : 0);
        snprintf(wanted, sizeof wanted, "%d", i);
        if (i == CYCLES) { /* nobody started it again meanwhile */
            char *count = box_sh(sandbox, NULL, "cat /count");

            ck_assert_str_eq(count, wanted);
            free(count);
        }
        snprintf(wanted, sizeof wanted, "crash %d\n", i);
        expect_last_line(wanted);
        sbtest_ok(sandbox_stop(sandbox, 0, 10000, &error), &error);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("redteam-ends");
    TCase *tc = sbtest_case("ends");

    tcase_add_checked_fixture(tc, set_up, tear_down);
    tcase_set_timeout(tc, 60);
    tcase_add_loop_test(tc, redteam_c06_fault, 0, 2);
    tcase_add_loop_test(tc, redteam_c06_memory, 0, 2);
    tcase_add_test(tc, redteam_c07);
    suite_add_tcase(suite, tc);
    return box_main(suite);
}
