/* SPDX-License-Identifier: Apache-2.0
 * A connection to a TCP server, from the call to the first byte, and then 64 MiB over another one.
 *   dial raw SERVER               to a server on this host's loopback that this program starts
 *   dial sandbox ROOT IMAGE SERVER  to one that is the daemon of a sandbox, by sandbox_dial()
 * The sample is open and first byte; the part "bulk" is the 64 MiB. */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "host.h"
#include "sample.h"

enum { INSIDE_PORT = 7000, BULK = 64 << 20 };

struct target {
    struct sandbox *sandbox; /* NULL: raw */
    int port;
};

static int connect_to(const struct target *t)
{
    struct sockaddr_in address = { .sin_family = AF_INET, .sin_port = htons((uint16_t)t->port), .sin_addr = { htonl(INADDR_LOOPBACK) } };
    struct sandbox_error *error = NULL;
    int fd = -1;

    if (t->sandbox) {
        bench_check(sandbox_dial(t->sandbox, t->port, 10000, &fd, &error), &error, "dial");
        return fd;
    }
    fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof address) < 0)
        bench_fail("connect: %s", strerror(errno));
    return fd;
}

static void fetch(const struct target *t, uint64_t bytes)
{
    int fd = connect_to(t);

    if (send(fd, &bytes, sizeof bytes, MSG_NOSIGNAL) != (ssize_t)sizeof bytes)
        bench_fail("send: %s", strerror(errno));
    if (bench_drain(fd) != (int64_t)bytes)
        bench_fail("the connection ended early");
    close(fd);
}

static int64_t once(void *data)
{
    int64_t begin = bench_now_ns(), opened;

    fetch(data, 1);
    opened = bench_now_ns();
    fetch(data, BULK);
    bench_part("bulk", bench_now_ns() - opened);
    return opened - begin;
}

static void serve_raw(char *server)
{
    char *argv[] = { server, (char *)"serve", (char *)"0", NULL }, text[16] = { 0 };
    struct target t = { 0 };
    int fds[2], pid;

    if (pipe2(fds, O_CLOEXEC) < 0)
        bench_fail("pipe: %s", strerror(errno));
    pid = bench_spawn(argv, fds[1]);
    close(fds[1]);
    if (read(fds[0], text, sizeof text - 1) <= 0)
        bench_fail("the server did not start");
    t.port = atoi(text);
    bench_serve(once, &t);
    kill(pid, SIGKILL);
    bench_reap(pid);
    close(fds[0]);
}

static void serve_sandbox(const char *root, const char *image, const char *server)
{
    struct sandbox_host *host = bench_open_host(root);
    struct sandbox_spec *spec = bench_new_spec(image);
    struct target t = { .port = INSIDE_PORT };
    struct sandbox_error *error = NULL;
    const char *argv[] = { server, "serve", "7000", NULL };
    int fd = -1, r;

    bench_check(sandbox_spec_set_daemon(spec, argv, &error), &error, "daemon");
    t.sandbox = bench_start_sandbox(host, spec);
    for (int tries = 1000; (r = sandbox_dial(t.sandbox, INSIDE_PORT, 1000, &fd, &error)) == SANDBOX_EIO && tries; tries--) {
        error = sandbox_error_unref(error); /* it does not listen yet */
        usleep(5000);
    }
    bench_check(r, &error, "dial");
    close(fd);
    bench_serve(once, &t);
    bench_delete_sandbox(t.sandbox);
    sandbox_spec_unref(spec);
    sandbox_host_unref(host);
}

int main(int argc, char **argv)
{
    if (argc == 3 && !strcmp(argv[1], "raw"))
        serve_raw(argv[2]);
    else if (argc == 5 && !strcmp(argv[1], "sandbox"))
        serve_sandbox(argv[2], argv[3], argv[4]);
    else
        bench_fail("usage: dial raw SERVER | sandbox ROOT IMAGE SERVER");
    return 0;
}
