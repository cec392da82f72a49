/* SPDX-License-Identifier: Apache-2.0
 * exec of a command in a sandbox that lives, until its end is known.
 *   exec ROOT IMAGE null COMMAND    all three streams /dev/null, as the commands that it is compared with
 *   exec ROOT IMAGE pipes COMMAND   the default: both outputs by pipes, read to their ends by communicate */
#include <string.h>

#include "host.h"
#include "sample.h"

struct runner {
    struct sandbox *sandbox;
    const char *command;
    int pipes;
};

static int64_t once(void *data)
{
    struct runner *r = data;
    struct sandbox_exec_options options = SANDBOX_EXEC_OPTIONS_INIT;
    struct sandbox_communicate_options communicate = SANDBOX_COMMUNICATE_OPTIONS_INIT;
    struct sandbox_output output = SANDBOX_OUTPUT_INIT;
    struct sandbox_exec *exec = NULL;
    struct sandbox_error *error = NULL;
    const char *argv[] = { r->command, NULL };
    int64_t begin = bench_now_ns();

    if (!r->pipes)
        options.stdout_fd = options.stderr_fd = SANDBOX_STDIO_NULL;
    bench_check(sandbox_exec(r->sandbox, argv, &options, &exec, &error), &error, "exec");
    bench_part("exec", bench_now_ns() - begin);
    if (r->pipes)
        bench_check(sandbox_exec_communicate(exec, &communicate, &output, NULL, &error), &error, "communicate");
    bench_wait_exec(exec);
    sandbox_exec_unref(exec);
    sandbox_output_clear(&output);
    return bench_now_ns() - begin;
}

int main(int argc, char **argv)
{
    struct sandbox_host *host;
    struct sandbox_spec *spec;
    struct runner r = { 0 };

    if (argc != 5)
        bench_fail("usage: exec ROOT IMAGE null|pipes COMMAND");
    host = bench_open_host(argv[1]);
    spec = bench_new_spec(argv[2]);
    r.pipes = !strcmp(argv[3], "pipes");
    r.command = argv[4];
    r.sandbox = bench_start_sandbox(host, spec);
    bench_serve(once, &r);
    bench_delete_sandbox(r.sandbox);
    sandbox_spec_unref(spec);
    sandbox_host_unref(host);
    return 0;
}
