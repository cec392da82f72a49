/* SPDX-License-Identifier: Apache-2.0
 * create + start + exec + wait + delete through the C API, and each part of it.
 *   lifecycle ROOT IMAGE COMMAND */
#include "host.h"
#include "sample.h"

struct lifecycle {
    struct sandbox_host *host;
    struct sandbox_spec *spec;
    const char *command;
};

static int64_t part(const char *name, int64_t since)
{
    int64_t now = bench_now_ns();

    bench_part(name, now - since);
    return now;
}

static int64_t once(void *data)
{
    struct lifecycle *l = data;
    struct sandbox_exec_options options = SANDBOX_EXEC_OPTIONS_INIT;
    const char *argv[] = { l->command, NULL };
    struct sandbox *sandbox = NULL;
    struct sandbox_exec *exec = NULL;
    struct sandbox_error *error = NULL;
    int64_t begin = bench_now_ns(), at = begin;

    options.stdout_fd = options.stderr_fd = SANDBOX_STDIO_NULL; /* as the commands it is compared with */
    bench_check(sandbox_create(l->host, l->spec, 10000, &sandbox, &error), &error, "create");
    at = part("create", at);
    bench_check(sandbox_start(sandbox, 10000, &error), &error, "start");
    at = part("start", at);
    bench_check(sandbox_exec(sandbox, argv, &options, &exec, &error), &error, "exec");
    at = part("exec", at);
    bench_wait_exec(exec);
    sandbox_exec_unref(exec);
    at = part("wait", at);
    bench_delete_sandbox(sandbox);
    at = part("delete", at);
    return at - begin;
}

int main(int argc, char **argv)
{
    struct lifecycle l = { 0 };

    if (argc != 4)
        bench_fail("usage: lifecycle ROOT IMAGE COMMAND");
    l.host = bench_open_host(argv[1]);
    l.spec = bench_new_spec(argv[2]);
    l.command = argv[3];
    bench_serve(once, &l);
    sandbox_spec_unref(l.spec);
    sandbox_host_unref(l.host);
    return 0;
}
