/* SPDX-License-Identifier: Apache-2.0
 * Much data, many commands: F03, F06, F17, F19, F63. */
#include "contract.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

static struct sandbox_error *error;

/* Both ends say what arrived: sha256sum inside, and what it sent back here. */
static void whole(struct sandbox *sandbox, size_t size)
{
    void *data = row_data(size);
    char want[65], back[65];
    struct row_output run;

    row_sha256(data, size, want);
    run = row_run_command(sandbox, ROW_ARGV("/bin/sh", "-c", "tee /dev/shm/in | sha256sum >&2; cat /dev/shm/in; rm /dev/shm/in"),
                          NULL, data, size);
    row_sha256(run.output.out, run.output.out_size, back);
    ROW_CHECK(run.result.code == 0 && run.output.err_size >= 64 && !strncmp(run.output.err, want, 64),
              "%zu bytes arrive as others inside", size);
    ROW_CHECK(run.output.out_size == size && !strcmp(back, want), "%zu bytes come back as %zu others", size, run.output.out_size);
    sandbox_output_clear(&run.output);
    free(data);
}

static void f03_stdin_whole(void)
{
    static const size_t sizes[] = { 0, 1, 65535, 65536, 65537, (4 << 20) - 1, 4 << 20, (4 << 20) + 1 };
    struct sandbox *sandbox = row_start(NULL);

    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        whole(sandbox, sizes[i]);
}

static void f03_stdin_large(void)
{
    size_t size = 64 << 20;
    void *data = row_data(size);
    char want[65];
    struct row_output run;

    row_sha256(data, size, want);
    run = row_run_command(row_start(NULL), ROW_ARGV("sha256sum"), NULL, data, size);
    ROW_CHECK(run.result.code == 0 && run.output.out_size >= 64 && !strncmp(run.output.out, want, 64),
              "64 MiB arrive as others inside");
    sandbox_output_clear(&run.output);
    free(data);
}

static size_t drain(int fd, char want)
{
    static char buffer[1 << 16];
    size_t n = 0, got;

    while ((got = row_read(fd, buffer, sizeof buffer, 60000)) > 0) {
        for (size_t i = 0; i < got; i++)
            ROW_CHECK(buffer[i] == want, "the streams are mixed");
        n += got;
    }
    return n;
}

static void f06_two_streams(void)
{
    static const char script[] =
        "/tmp/contract-guest flood 10485760 o 2>&- & exec >&-; /tmp/contract-guest flood 10485760 e 1>&2; wait";
    struct sandbox *sandbox = row_start(NULL);
    struct sandbox_exec *exec;
    struct row_output run;
    int out, err;

    row_bring_guest(sandbox);
    run = row_run_command(sandbox, ROW_ARGV("/bin/sh", "-c", script), NULL, NULL, 0);
    ROW_CHECK(run.output.out_size == 10485760 && run.output.err_size == 10485760, "%zu bytes on stdout, %zu on stderr",
              run.output.out_size, run.output.err_size);
    for (size_t i = 0; i < run.output.out_size; i++)
        ROW_CHECK(run.output.out[i] == 'o' && run.output.err[i] == 'e', "the streams are mixed");
    sandbox_output_clear(&run.output);
    exec = row_begin(sandbox, ROW_ARGV("/bin/sh", "-c", script), NULL);
    out = row_take(sandbox_exec_take_stdout, exec);
    err = row_take(sandbox_exec_take_stderr, exec);
    ROW_CHECK(drain(out, 'o') == 10485760, "stdout is not whole");
    ROW_CHECK(drain(err, 'e') == 10485760, "stderr is not whole");
    ROW_CHECK(row_end(exec, 20000).code == 0, "it failed");
    sandbox_exec_unref(exec);
}

static void f17_many(void)
{
    static const char look[] =
        "wc -l </proc/self/mounts; ls /proc/1/fd 2>/dev/null | wc -l; cat /proc/[0-9]*/stat 2>/dev/null | grep -c ') Z '; true";
    struct sandbox *sandbox = row_start(NULL);
    char *before = row_sh(sandbox, NULL, look);
    int64_t until = row_now() + 20000;
    int n = 0;

    for (; n < 1000 && row_now() < until; n++) {
        struct sandbox_exec *exec = row_begin(sandbox, ROW_ARGV("true"), NULL);

        ROW_CHECK(row_end(exec, 20000).code == 0, "true failed the %d. time", n + 1);
        sandbox_exec_unref(exec);
    }
    ROW_CHECK(n >= 50, "only %d commands in 20 s", n);
    row_says(sandbox, NULL, look, before);
    free(before);
}

/* A reader that stopped: the writer waits, and nobody in this process hoards what it writes. */
static void f19_flood(void)
{
    struct sandbox *sandbox = row_start(NULL);
    struct sandbox_exec *exec;
    struct rusage begun, now;
    char *one, *two;

    row_bring_guest(sandbox);
    getrusage(RUSAGE_SELF, &begun);
    exec =
        row_begin(sandbox, ROW_ARGV("/bin/sh", "-c", "/tmp/contract-guest flood 10737418240 x & echo $! >/tmp/pid; wait"), NULL);
    row_await(sandbox, "test -s /tmp/pid", "it starts");
    row_sleep(1000);
    one =
        row_sh(sandbox, NULL, "grep ^wchar /proc/$(cat /tmp/pid)/io 2>/dev/null || cut -d' ' -f14,15 /proc/$(cat /tmp/pid)/stat");
    row_sleep(1000);
    two =
        row_sh(sandbox, NULL, "grep ^wchar /proc/$(cat /tmp/pid)/io 2>/dev/null || cut -d' ' -f14,15 /proc/$(cat /tmp/pid)/stat");
    ROW_CHECK(!strcmp(one, two), "the writer goes on with nobody reading: %.50s, then %.50s", one, two);
    getrusage(RUSAGE_SELF, &now);
    ROW_CHECK(now.ru_maxrss - begun.ru_maxrss < 64 << 10, "this process grew by %ld KiB", now.ru_maxrss - begun.ru_maxrss);
    row_need(sandbox_exec_kill(exec, 9, SANDBOX_KILL_DESCENDANTS, &error), &error, "kill");
    row_end(exec, 20000);
    sandbox_exec_unref(exec);
    free(one);
    free(two);
}

/* A bomb ends at the limit, and the sandbox still answers. */
static void f63_pids(void)
{
    struct sandbox_spec *spec = row_spec();
    struct sandbox_exec_options options = SANDBOX_EXEC_OPTIONS_INIT;
    struct sandbox *sandbox;
    struct sandbox_exec *bomb, *one = NULL;
    int64_t begun;
    int r;

    row_need(sandbox_spec_set_pids_max(spec, 40, &error), &error, "limit processes");
    sandbox = row_start(spec);
    options.stderr_fd = SANDBOX_STDIO_NULL;
    options.stdout_fd = SANDBOX_STDIO_NULL;
    bomb = row_begin(sandbox,
                     ROW_ARGV("/bin/sh", "-c", "(i=0; while [ $i -lt 200 ]; do sleep 1000 & i=$((i+1)); done); exec sleep 1000"),
                     &options);
    row_sleep(1500);
    begun = row_now();
    row_state(sandbox, SANDBOX_STATE_RUNNING);
    r = sandbox_exec(sandbox, ROW_ARGV("true"), NULL, &one, &error);
    ROW_CHECK(r == 0 || r == SANDBOX_ELIMIT, "a command beside the bomb: %s", sandbox_code_name(r));
    error = sandbox_error_unref(error);
    ROW_CHECK(row_now() - begun < 5000, "it took %lld ms to answer", (long long)(row_now() - begun));
    if (!r)
        row_end(one, 20000);
    sandbox_exec_unref(one);
    row_need(sandbox_exec_kill(bomb, 9, SANDBOX_KILL_DESCENDANTS, &error), &error, "kill the bomb");
    row_end(bomb, 20000);
    row_await(sandbox, "test $(ls -d /proc/[0-9]* | wc -l) -lt 10", "the bomb's processes are gone");
    ROW_CHECK(row_now() - begun < 15000, "it took %lld ms to end the bomb", (long long)(row_now() - begun));
    sandbox_exec_unref(bomb);
}

/* The limit holds: of 60 processes that a command starts, no more than it allows are there at once. */
static void f63_pids_limit(void)
{
    struct sandbox_spec *spec = row_spec();
    struct row_output run;
    struct sandbox *sandbox;

    row_need(sandbox_spec_set_pids_max(spec, 30, &error), &error, "limit processes");
    sandbox = row_start(spec);
    run = row_run_command(
        sandbox, ROW_ARGV("/bin/sh", "-c", "i=0; while [ $i -lt 60 ]; do sleep 1000 & i=$((i+1)); echo $i; done; exit 0"), NULL,
        NULL, 0);
    ROW_CHECK(run.result.code != 0 && atoi(strrchr(run.output.out ? run.output.out : "", '\n') ? run.output.out : "0") < 60 &&
                  !strstr(run.output.out, "\n60\n"),
              "60 processes could be started under a limit of 30");
    sandbox_output_clear(&run.output);
}

static const struct row rows[] = {
    { "f03_stdin_whole", f03_stdin_whole },
    { "f03_stdin_large", f03_stdin_large },
    { "f06_two_streams", f06_two_streams },
    { "f17_many", f17_many },
    { "f19_flood", f19_flood },
    { "f63_pids", f63_pids },
    { "f63_pids_limit", f63_pids_limit },
};
const struct rows rows_flow = { rows, sizeof rows / sizeof *rows };
