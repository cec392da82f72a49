/* SPDX-License-Identifier: Apache-2.0
 * So many bytes of a command's stdout, from before its start to after its end, read by 1 MiB.
 *   stdout plain PIPE_BYTES PROGRAM BYTES         through a pipe of this program's, no sandbox; 0: the pipe's default size
 *   stdout sandbox ROOT IMAGE PROGRAM BYTES       through the exec's pipe */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "host.h"
#include "sample.h"

struct stream {
    struct sandbox *sandbox;
    char *program, *bytes;
    int pipe_bytes;
};

static int64_t once_plain(void *data)
{
    struct stream *s = data;
    char *argv[] = { s->program, (char *)"write", s->bytes, NULL };
    int64_t begin = bench_now_ns(), got;
    int fds[2], pid, status;

    if (pipe2(fds, O_CLOEXEC) < 0 || (s->pipe_bytes && fcntl(fds[0], F_SETPIPE_SZ, s->pipe_bytes) < 0))
        bench_fail("pipe: %s", strerror(errno));
    pid = bench_spawn(argv, fds[1]);
    close(fds[1]);
    got = bench_drain(fds[0]);
    status = bench_reap(pid);
    close(fds[0]);
    if (status || got != strtoll(s->bytes, NULL, 10))
        bench_fail("status 0x%x, %lld bytes", (unsigned int)status, (long long)got);
    return bench_now_ns() - begin;
}

static int64_t once_sandbox(void *data)
{
    struct stream *s = data;
    const char *argv[] = { s->program, "write", s->bytes, NULL };
    struct sandbox_exec *exec = NULL;
    struct sandbox_error *error = NULL;
    int64_t begin = bench_now_ns(), got;
    int fd = -1;

    bench_check(sandbox_exec(s->sandbox, argv, NULL, &exec, &error), &error, "exec");
    bench_check(sandbox_exec_take_stdout(exec, &fd, &error), &error, "take stdout");
    got = bench_drain(fd);
    bench_wait_exec(exec);
    close(fd);
    sandbox_exec_unref(exec);
    if (got != strtoll(s->bytes, NULL, 10))
        bench_fail("%lld bytes", (long long)got);
    return bench_now_ns() - begin;
}

int main(int argc, char **argv)
{
    struct stream s = { 0 };
    struct sandbox_host *host;
    struct sandbox_spec *spec;

    if (argc == 5 && !strcmp(argv[1], "plain")) {
        s.pipe_bytes = atoi(argv[2]);
        s.program = argv[3];
        s.bytes = argv[4];
        bench_serve(once_plain, &s);
        return 0;
    }
    if (argc != 6 || strcmp(argv[1], "sandbox"))
        bench_fail("usage: stdout plain PIPE_BYTES PROGRAM BYTES | sandbox ROOT IMAGE PROGRAM BYTES");
    host = bench_open_host(argv[2]);
    spec = bench_new_spec(argv[3]);
    s.program = argv[4];
    s.bytes = argv[5];
    s.sandbox = bench_start_sandbox(host, spec);
    bench_serve(once_sandbox, &s);
    bench_delete_sandbox(s.sandbox);
    sandbox_spec_unref(spec);
    sandbox_host_unref(host);
    return 0;
}
