/* SPDX-License-Identifier: Apache-2.0
 * So many bytes of a daemon's stdout into its log, from the daemon's start until its end stands in the log.
 *   log plain FILE PROGRAM BYTES            the program, piped into cat, which writes a file; no sandbox
 *   log sandbox ROOT IMAGE PROGRAM BYTES    a sandbox's daemon, with the default cap of its log */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "host.h"
#include "sample.h"

struct log {
    struct sandbox *sandbox;
    char *file, *program, *bytes;
};

static int64_t once_plain(void *data)
{
    struct log *l = data;
    char *script[] = { (char *)"/bin/sh", (char *)"-c", (char *)"\"$1\" write \"$2\" | cat > \"$3\"", (char *)"sh", l->program, l->bytes, l->file, NULL };
    int64_t begin = bench_now_ns(), took;
    int status = bench_reap(bench_spawn(script, -1));
    struct stat st;

    took = bench_now_ns() - begin;
    if (status || stat(l->file, &st) < 0 || st.st_size != strtoll(l->bytes, NULL, 10))
        bench_fail("status 0x%x: %s", (unsigned int)status, strerror(errno));
    unlink(l->file);
    return took;
}

static int64_t once_sandbox(void *data)
{
    struct sandbox_log_options options = SANDBOX_LOG_OPTIONS_INIT;
    struct sandbox_log_record record = SANDBOX_LOG_RECORD_INIT;
    struct sandbox_exec_result result = SANDBOX_EXEC_RESULT_INIT;
    struct log *l = data;
    struct sandbox_error *error = NULL;
    struct sandbox_log *log = NULL;
    int64_t begin = bench_now_ns(), took;
    int r;

    bench_check(sandbox_start(l->sandbox, 10000, &error), &error, "start");
    bench_check(sandbox_wait(l->sandbox, 60000, &result, &error), &error, "wait");
    options.follow = 1;
    options.tail = 0;
    bench_check(sandbox_log_open(l->sandbox, &options, &log, &error), &error, "log");
    while ((r = sandbox_log_read(log, 60000, &record, &error)) == 1)
        ;
    took = bench_now_ns() - begin;
    bench_check(r, &error, "read");
    sandbox_log_close(log);
    if (result.kind != SANDBOX_EXEC_EXITED || result.code)
        bench_fail("the daemon ended by kind %d, code %d", result.kind, result.code);
    return took;
}

int main(int argc, char **argv)
{
    struct sandbox_error *error = NULL;
    struct log l = { 0 };
    struct sandbox_host *host;
    struct sandbox_spec *spec;
    const char *daemon[4] = { NULL };

    if (argc == 5 && !strcmp(argv[1], "plain")) {
        l.file = argv[2];
        l.program = argv[3];
        l.bytes = argv[4];
        bench_serve(once_plain, &l);
        return 0;
    }
    if (argc != 6 || strcmp(argv[1], "sandbox"))
        bench_fail("usage: log plain FILE PROGRAM BYTES | sandbox ROOT IMAGE PROGRAM BYTES");
    host = bench_open_host(argv[2]);
    spec = bench_new_spec(argv[3]);
    daemon[0] = argv[4];
    daemon[1] = "write";
    daemon[2] = argv[5];
    bench_check(sandbox_spec_set_daemon(spec, daemon, &error), &error, "daemon");
    bench_check(sandbox_create(host, spec, 20000, &l.sandbox, &error), &error, "create");
    bench_serve(once_sandbox, &l);
    bench_delete_sandbox(l.sandbox);
    sandbox_spec_unref(spec);
    sandbox_host_unref(host);
    return 0;
}
