/* SPDX-License-Identifier: Apache-2.0
 * B7: a command, as it is started, as what it runs, and how its end is told. */
#include "contract.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct sandbox_error *error;

static void b7_argv(void)
{
    struct sandbox *sandbox = row_start(NULL);
    struct row_output run =
        row_run_command(sandbox, ROW_ARGV("printf", "%s|", "a b", "$HOME", "", "*", "\xff\xfe", "q\"'`;"), NULL, NULL, 0);

    ROW_CHECK(run.result.code == 0 && !strcmp(run.output.out, "a b|$HOME||*|\xff\xfe|q\"'`;|"),
              "the arguments arrive as \"%.100s\"", run.output.out);
    sandbox_output_clear(&run.output);
}

static void b7_exit_code(void)
{
    struct sandbox *sandbox = row_start(NULL);
    static const int codes[] = { 0, 1, 2, 126, 127, 137, 255 };

    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++) {
        char script[32];
        struct row_output run;

        snprintf(script, sizeof script, "exit %d", codes[i]);
        run = row_run_command(sandbox, ROW_ARGV("/bin/sh", "-c", script), NULL, NULL, 0);
        ROW_CHECK(run.result.kind == SANDBOX_EXEC_EXITED && run.result.code == codes[i] && run.result.signal == 0,
                  "exit %d is told as kind %d, code %d, signal %d", codes[i], run.result.kind, run.result.code,
                  run.result.signal);
        sandbox_output_clear(&run.output);
    }
}

static void b7_signal(void)
{
    struct sandbox *sandbox = row_start(NULL);
    struct row_output run = row_run_command(sandbox, ROW_ARGV("/bin/sh", "-c", "kill -USR1 $$"), NULL, NULL, 0);

    ROW_CHECK(run.result.kind == SANDBOX_EXEC_SIGNALLED && run.result.signal == SIGUSR1 && run.result.code == -1,
              "an end by SIGUSR1 is told as kind %d, code %d, signal %d", run.result.kind, run.result.code, run.result.signal);
    sandbox_output_clear(&run.output);
}

static void b7_not_there(void)
{
    struct sandbox *sandbox = row_start(NULL);
    struct sandbox_exec_options options = SANDBOX_EXEC_OPTIONS_INIT;
    struct sandbox_exec *exec = NULL;

    row_refused(sandbox_exec(sandbox, ROW_ARGV("contract-no-such-command"), NULL, &exec, &error), SANDBOX_ENOTFOUND, &error,
                "no such command");
    free(row_sh(sandbox, NULL, "mkdir -p /tmp; echo text >/tmp/not-executable"));
    row_refused(sandbox_exec(sandbox, ROW_ARGV("/tmp/not-executable"), NULL, &exec, &error), SANDBOX_ENOTEXECUTABLE, &error,
                "a file that is no program");
    options.workdir = "/contract/no/such/folder";
    row_refused(sandbox_exec(sandbox, ROW_ARGV("true"), &options, &exec, &error), SANDBOX_ENOTFOUND, &error, "no such folder");
}

static void b7_streams(void)
{
    struct row_output run =
        row_run_command(row_start(NULL), ROW_ARGV("/bin/sh", "-c", "cat; echo err >&2; echo out"), NULL, "in\n", 3);

    ROW_CHECK(!strcmp(run.output.out, "in\nout\n") && !strcmp(run.output.err, "err\n"), "stdout is \"%.50s\", stderr \"%.50s\"",
              run.output.out, run.output.err);
    sandbox_output_clear(&run.output);
}

static void b7_ids(void)
{
    struct sandbox *sandbox = row_start(NULL);
    struct sandbox_exec *a = row_begin(sandbox, ROW_ARGV("true"), NULL), *b = row_begin(sandbox, ROW_ARGV("true"), NULL);
    const char *x = sandbox_exec_get_id(a), *y = sandbox_exec_get_id(b);

    ROW_CHECK(strlen(x) == SANDBOX_ID_LENGTH && strspn(x, "0123456789abcdef") == SANDBOX_ID_LENGTH, "\"%.80s\" is no id", x);
    ROW_CHECK(strcmp(x, y) != 0, "two commands have one id");
    row_end(a, 20000);
    row_end(b, 20000);
    sandbox_exec_unref(a);
    sandbox_exec_unref(b);
}

/* What the command itself reads of itself. */
static void expect_status(struct sandbox *sandbox, const char *user, const char *ids)
{
    char want[300];

    snprintf(want, sizeof want,
             "%sCapInh: 0000000000000000\nCapPrm: 0000000000000000\nCapEff: 0000000000000000\nCapBnd: 0000000000000000\n"
             "CapAmb: 0000000000000000\nNoNewPrivs: 1\nSeccomp: 2",
             ids);
    row_says(sandbox, user, "grep -E '^(Uid|Gid|Cap...|NoNewPrivs|Seccomp):' /proc/self/status | tr '\\t' ' '", want);
}

static void b7_privileges(void)
{
    expect_status(row_start(NULL), NULL, "Uid: 0 0 0 0\nGid: 0 0 0 0\n");
}

static void b7_user(void)
{
    struct sandbox *sandbox = row_start(NULL);

    expect_status(sandbox, "501:20", "Uid: 501 501 501 501\nGid: 20 20 20 20\n");
    row_says(sandbox, "501:20",
             "mkdir -p /dev/shm/mine && echo x >/dev/shm/mine/file && stat -c %u:%g /dev/shm/mine/file; "
             "grep ^Groups: /proc/self/status | tr -d ' \\t'",
             "501:20\nGroups:");
}

static void b7_no_user_namespaces(void)
{
    struct sandbox *sandbox = row_start(NULL);

    row_bring_guest(sandbox);
    row_says(sandbox, NULL, "/tmp/contract-guest calls",
             "unshare-user: EPERM\nclone-user: EPERM\nclone3: ENOSYS\nmount: EPERM\nbpf: EPERM\nkeyctl: ENOSYS");
}

static void b7_descriptors(void)
{
    struct row_output run = row_run_command(
        row_start(NULL), ROW_ARGV("/bin/sh", "-c", "exec 3</proc/self/fd 2>/dev/null; ls /proc/$$/fd"), NULL, NULL, 0);

    ROW_CHECK(!strcmp(run.output.out, "0\n1\n2\n3\n"), "the command has descriptors \"%.100s\"",
              run.output.out); /* 3 is the one it opened */
    sandbox_output_clear(&run.output);
}

/* A regular file of the caller's as stdin and stdout: given back as it was. */
static void b7_given_descriptors(void)
{
    struct sandbox_exec_options options = SANDBOX_EXEC_OPTIONS_INIT;
    struct sandbox *sandbox = row_start(NULL);
    struct sandbox_exec *exec;
    FILE *in = tmpfile(), *out = tmpfile();
    char text[32] = "";

    ROW_CHECK(in && out && fputs("through files", in) >= 0 && fflush(in) == 0, "no temporary files");
    rewind(in);
    options.stdin_fd = fileno(in);
    options.stdout_fd = fileno(out);
    exec = row_begin(sandbox, ROW_ARGV("cat"), &options);
    ROW_CHECK(row_end(exec, 20000).code == 0, "cat failed");
    ROW_CHECK(pread(fileno(out), text, sizeof text - 1, 0) == 13 && !strcmp(text, "through files"), "the file holds \"%.30s\"",
              text);
    sandbox_exec_unref(exec);
    fclose(in);
    fclose(out);
}

static void f01_stdin_null(void)
{
    row_says(row_start(NULL), NULL, "readlink /proc/self/fd/0; wc -c | tr -d ' '", "/dev/null\n0");
}

static void f02_stdin_open(void)
{
    struct sandbox_exec_options options = SANDBOX_EXEC_OPTIONS_INIT;
    struct sandbox_exec *exec;
    int in;

    options.stdin_fd = SANDBOX_STDIO_PIPE;
    exec = row_begin(row_start(NULL), ROW_ARGV("/bin/sh", "-c", "exit 9"), &options);
    in = row_take(sandbox_exec_take_stdin, exec); /* and stays open */
    ROW_CHECK(row_end(exec, 20000).code == 9, "another exit code than 9");
    close(in);
    sandbox_exec_unref(exec);
}

static void f04_stdin_closed_early(void)
{
    size_t size = 4 << 20;
    void *data = row_data(size);
    struct row_output run;

    signal(SIGPIPE, SIG_DFL);
    run = row_run_command(row_start(NULL), ROW_ARGV("/bin/sh", "-c", "exec <&-; sleep 0.2; exit 5"), NULL, data, size);
    ROW_CHECK(run.result.kind == SANDBOX_EXEC_EXITED && run.result.code == 5, "kind %d, code %d", run.result.kind,
              run.result.code);
    sandbox_output_clear(&run.output);
    free(data);
}

/* `cat` ends as soon as its input does: the time beside that of a command that does nothing is bounded. */
static void f05_stdin_eof(void)
{
    struct sandbox_exec_options options = SANDBOX_EXEC_OPTIONS_INIT;
    struct sandbox *sandbox = row_start(NULL);
    struct sandbox_exec *exec;
    int64_t begun = row_now(), usual, took;
    char byte;
    int in, out;

    row_says(sandbox, NULL, "echo x", "x");
    usual = row_now() - begun;
    options.stdin_fd = SANDBOX_STDIO_PIPE;
    exec = row_begin(sandbox, ROW_ARGV("cat"), &options);
    in = row_take(sandbox_exec_take_stdin, exec);
    out = row_take(sandbox_exec_take_stdout, exec);
    row_write(in, "x", 1);
    ROW_CHECK(row_read(out, &byte, 1, 20000) == 1 && byte == 'x', "a byte does not come back while stdin is open");
    begun = row_now();
    close(in);
    ROW_CHECK(row_read(out, &byte, 1, 20000) == 0, "something follows");
    ROW_CHECK(row_end(exec, 20000).code == 0, "cat failed");
    took = row_now() - begun;
    ROW_CHECK(took <= 100 + 4 * usual, "cat ended %lld ms after its stdin", (long long)took);
    close(out);
    sandbox_exec_unref(exec);
}

static void f07_pipe_held(void)
{
    struct sandbox_communicate_options options = SANDBOX_COMMUNICATE_OPTIONS_INIT;
    struct sandbox_exec_result result = SANDBOX_EXEC_RESULT_INIT;
    struct sandbox_output output = SANDBOX_OUTPUT_INIT;
    struct sandbox *sandbox = row_start(NULL);
    struct sandbox_exec *exec = row_begin(sandbox, ROW_ARGV("/bin/sh", "-c", "sleep 1000 & echo ready; exit 7"), NULL);
    int64_t begun = row_now();

    options.timeout_ms = 30000;
    options.drain_ms = 300;
    row_need(sandbox_exec_communicate(exec, &options, &output, &result, &error), &error, "communicate");
    ROW_CHECK(result.kind == SANDBOX_EXEC_EXITED && result.code == 7 && result.pipe_held == 1, "kind %d, code %d, held %d",
              result.kind, result.code, result.pipe_held);
    ROW_CHECK(!strcmp(output.out, "ready\n") && row_now() - begun < 10000, "the end came late, or the output is \"%.30s\"",
              output.out);
    sandbox_output_clear(&output);
    sandbox_exec_unref(exec);
}

/* How many processes run `sleep` with that argument, as a command in the sandbox sees them. */
static int sleepers(struct sandbox *sandbox, const char *seconds)
{
    char script[200], *text;
    int n;

    snprintf(script, sizeof script,
             "n=0; for p in /proc/[0-9]*; do [ \"$(tr '\\0' ' ' 2>/dev/null <$p/cmdline)\" != 'sleep %s ' ] || n=$((n+1)); done; "
             "echo $n",
             seconds);
    text = row_sh(sandbox, NULL, script);
    n = atoi(text);
    free(text);
    return n;
}

static void await_sleepers(struct sandbox *sandbox, const char *seconds, int n)
{
    for (int64_t until = row_now() + 20000; sleepers(sandbox, seconds) != n; row_sleep(20))
        ROW_CHECK(row_now() < until, "not %d processes but %d run `sleep %s` after 20 s", n, sleepers(sandbox, seconds), seconds);
}

static const char scatter[] =
    "sleep 4321 & (sleep 4321 & ) ; setsid sleep 4321 & (setsid sh -c 'sleep 4321 & sleep 4321' &) ; sleep 4321";

static void f08_deadline_kills_all(void)
{
    struct sandbox_exec_options options = SANDBOX_EXEC_OPTIONS_INIT;
    struct sandbox_exec_result result;
    struct sandbox *sandbox = row_start(NULL);
    struct sandbox_exec *exec;

    options.deadline_ms = 4000;
    exec = row_begin(sandbox, ROW_ARGV("/bin/sh", "-c", scatter), &options);
    await_sleepers(sandbox, "4321", 6);
    result = row_end(exec, 20000);
    ROW_CHECK(result.kind == SANDBOX_EXEC_DEADLINE && result.code == -1, "kind %d, code %d", result.kind, result.code);
    ROW_CHECK(sleepers(sandbox, "4321") == 0, "descendants live after the deadline was told");
    sandbox_exec_unref(exec);
}

static void f09_deadline_is_told(void)
{
    struct sandbox_exec_options options = SANDBOX_EXEC_OPTIONS_INIT;
    struct sandbox_exec_result result;
    struct sandbox *sandbox = row_start(NULL);
    struct sandbox_exec *exec;
    int64_t begun = row_now();

    options.deadline_ms = 400;
    exec = row_begin(sandbox, ROW_ARGV("/bin/sh", "-c", "trap 'exit 0' TERM INT HUP; while :; do sleep 0.05; done"), &options);
    result = row_end(exec, 20000);
    ROW_CHECK(result.kind == SANDBOX_EXEC_DEADLINE && result.code == -1, "kind %d, code %d", result.kind, result.code);
    ROW_CHECK(row_now() - begun >= 390 && row_now() - begun < 10000, "told after %lld ms", (long long)(row_now() - begun));
    sandbox_exec_unref(exec);
}

static void f10_no_deadline(void)
{
    struct sandbox_exec *exec = row_begin(row_start(NULL), ROW_ARGV("/bin/sh", "-c", "sleep 4; exit 3"), NULL);

    ROW_CHECK(row_end(exec, 20000).code == 3, "a command without a deadline did not end by itself");
    sandbox_exec_unref(exec);
}

static void f12_wait_is_bounded(void)
{
    struct sandbox_exec *exec = row_begin(row_start(NULL), ROW_ARGV("sleep", "1000"), NULL);
    struct sandbox_exec_result result = SANDBOX_EXEC_RESULT_INIT;
    int64_t begun = row_now();

    row_refused(sandbox_exec_wait(exec, 300, &result, &error), SANDBOX_ETIMEDOUT, &error, "wait 300 ms for what lasts longer");
    ROW_CHECK(row_now() - begun >= 290 && row_now() - begun < 5000, "it took %lld ms", (long long)(row_now() - begun));
    row_refused(sandbox_exec_wait(exec, 0, &result, &error), SANDBOX_ETIMEDOUT, &error, "poll");
    sandbox_exec_unref(exec);
}

static void f13_not_running(void)
{
    struct sandbox *sandbox = row_start(NULL);
    struct sandbox_exec *exec = NULL;
    int64_t begun;

    row_need(sandbox_stop(sandbox, 0, 60000, &error), &error, "stop");
    begun = row_now();
    row_refused(sandbox_exec(sandbox, ROW_ARGV("true"), NULL, &exec, &error), SANDBOX_ENOTRUNNING, &error,
                "exec in a stopped sandbox");
    ROW_CHECK(row_now() - begun < 5000, "the refusal took %lld ms", (long long)(row_now() - begun));
    row_need(sandbox_delete(sandbox, 60000, &error), &error, "delete");
    row_refused(sandbox_exec(sandbox, ROW_ARGV("true"), NULL, &exec, &error), SANDBOX_ENOTFOUND, &error,
                "exec in a deleted sandbox");
}

static void f14_env_cwd(void)
{
    static const char *const env[] = { "FROM_EXEC=two words", "BOTH=exec", NULL };
    struct sandbox_exec_options options = SANDBOX_EXEC_OPTIONS_INIT;
    struct sandbox_spec *spec = row_spec();
    struct row_output run;

    row_need(sandbox_spec_add_env(spec, "FROM_SPEC", "one", &error), &error, "environment");
    row_need(sandbox_spec_add_env(spec, "BOTH", "spec", &error), &error, "environment");
    options.env = env;
    options.workdir = "/proc";
    run = row_run_command(row_start(spec),
                          ROW_ARGV("/bin/sh", "-c", "echo $FROM_SPEC $FROM_EXEC $BOTH; pwd; env | grep -c ^LD_ || true"),
                          &options, NULL, 0);
    ROW_CHECK(!strcmp(run.output.out, "one two words exec\n/proc\n0\n"), "it sees \"%.100s\"", run.output.out);
    sandbox_output_clear(&run.output);
}

static void f15_no_shared_shell(void)
{
    struct sandbox *sandbox = row_start(NULL);
    struct sandbox_exec *stuck = row_begin(sandbox, ROW_ARGV("/bin/sh", "-c", "export X=1; cd /proc; kill -STOP $$"), NULL);
    struct row_output run;

    row_sleep(200);
    row_says(sandbox, NULL, "echo [$X]; pwd", "[]\n/");
    run = row_run_command(sandbox, ROW_ARGV("/bin/sh", "-c", "if ((( ' \" `"), NULL, NULL, 0);
    ROW_CHECK(run.result.kind == SANDBOX_EXEC_EXITED && run.result.code != 0, "a malformed command succeeds");
    sandbox_output_clear(&run.output);
    row_says(sandbox, NULL, "echo fine", "fine");
    row_need(sandbox_exec_kill(stuck, SIGKILL, 0, &error), &error, "kill");
    row_end(stuck, 20000);
    sandbox_exec_unref(stuck);
}

static void f16_kill_one(void)
{
    struct sandbox_exec_result result;
    struct sandbox *sandbox = row_start(NULL);
    struct sandbox_exec *one = row_begin(sandbox, ROW_ARGV("/bin/sh", "-c", "setsid sleep 5432 & exec sleep 6543"), NULL),
                        *two = row_begin(sandbox, ROW_ARGV("sleep", "7654"), NULL);

    await_sleepers(sandbox, "5432", 1);
    await_sleepers(sandbox, "6543", 1);
    await_sleepers(sandbox, "7654", 1);
    row_need(sandbox_exec_kill(one, SIGTERM, 0, &error), &error, "kill one");
    result = row_end(one, 20000);
    ROW_CHECK(result.kind == SANDBOX_EXEC_KILLED && result.signal == SIGTERM && result.code == -1, "kind %d, signal %d",
              result.kind, result.signal);
    ROW_CHECK(sleepers(sandbox, "7654") == 1, "another command ended, too");
    ROW_CHECK(sleepers(sandbox, "5432") == 1, "what it had started on purpose ended, too");
    row_need(sandbox_exec_kill(two, SIGKILL, 0, &error), &error, "kill the other");
    row_end(two, 20000);
    sandbox_exec_unref(one);
    sandbox_exec_unref(two);
}

static void f16_kill_descendants(void)
{
    struct sandbox *sandbox = row_start(NULL);
    struct sandbox_exec *exec = row_begin(sandbox, ROW_ARGV("/bin/sh", "-c", scatter), NULL);

    await_sleepers(sandbox, "4321", 6);
    row_need(sandbox_exec_kill(exec, SIGKILL, SANDBOX_KILL_DESCENDANTS, &error), &error, "kill with descendants");
    ROW_CHECK(row_end(exec, 20000).kind == SANDBOX_EXEC_KILLED, "it is not told as killed");
    await_sleepers(sandbox, "4321", 0);
    sandbox_exec_unref(exec);
}

static const struct row rows[] = {
    { "b7_argv", b7_argv },
    { "b7_exit_code", b7_exit_code },
    { "b7_signal", b7_signal },
    { "b7_not_there", b7_not_there },
    { "b7_streams", b7_streams },
    { "b7_ids", b7_ids },
    { "b7_privileges", b7_privileges },
    { "b7_user", b7_user },
    { "b7_no_user_namespaces", b7_no_user_namespaces },
    { "b7_descriptors", b7_descriptors },
    { "b7_given_descriptors", b7_given_descriptors },
    { "f01_stdin_null", f01_stdin_null },
    { "f02_stdin_open", f02_stdin_open },
    { "f04_stdin_closed_early", f04_stdin_closed_early },
    { "f05_stdin_eof", f05_stdin_eof },
    { "f07_pipe_held", f07_pipe_held },
    { "f08_deadline_kills_all", f08_deadline_kills_all },
    { "f09_deadline_is_told", f09_deadline_is_told },
    { "f10_no_deadline", f10_no_deadline },
    { "f12_wait_is_bounded", f12_wait_is_bounded },
    { "f13_not_running", f13_not_running },
    { "f14_env_cwd", f14_env_cwd },
    { "f15_no_shared_shell", f15_no_shared_shell },
    { "f16_kill_one", f16_kill_one },
    { "f16_kill_descendants", f16_kill_descendants },
};
const struct rows rows_exec = { rows, sizeof rows / sizeof *rows };
