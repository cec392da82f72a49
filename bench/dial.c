/* SPDX-License-Identifier: Apache-2.0
 * A connection to a TCP server, from the call to the first byte, then 64 MiB over another one, then 100 more one after the other.
 *   dial raw SERVER               to a server on this host's loopback that this program starts
 *   dial relay SERVER PROGRAM [ARGUMENT …]  the same through a relay; in its arguments LISTEN_PORT and TO_PORT stand
 *                           for the port to listen on and the one to lead to
 *   dial sandbox ROOT IMAGE SERVER  to one that is the daemon of a sandbox, by sandbox_dial()
 *   dial forward ROOT IMAGE SERVER  the same through a forward
 * The sample is open and first byte; the part "bulk" is the 64 MiB, "many" the 100 connections; with sandbox, "first" is
 * the first connection to a new server from the moment when that said that it listens. */
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

enum { INSIDE_PORT = 7000, BULK = 64 << 20, MANY = 100 };

struct target {
    struct sandbox *sandbox; /* NULL: raw */
    int port;
    const char *server; /* sandbox: the program that listens */
};

/* A port that was free a moment ago. */
static int free_port(void)
{
    struct sockaddr_in address = { .sin_family = AF_INET, .sin_addr = { htonl(INADDR_LOOPBACK) } };
    socklen_t size = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (fd < 0 || bind(fd, (struct sockaddr *)&address, size) < 0 || getsockname(fd, (struct sockaddr *)&address, &size) < 0)
        bench_fail("no port: %s", strerror(errno));
    close(fd);
    return ntohs(address.sin_port);
}

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

/* The first connection to a server from the moment when it says that it listens. */
static void first(const struct target *t)
{
    struct sandbox_exec_options options = SANDBOX_EXEC_OPTIONS_INIT;
    const char *argv[] = { t->server, "serve", "0", NULL };
    struct target fresh = { .sandbox = t->sandbox };
    struct sandbox_exec *exec = NULL;
    struct sandbox_error *error = NULL;
    char text[16] = { 0 };
    int64_t ready;
    int out;

    bench_check(sandbox_exec(t->sandbox, argv, &options, &exec, &error), &error, "exec");
    bench_check(sandbox_exec_take_stdout(exec, &out, &error), &error, "stdout");
    if (read(out, text, sizeof text - 1) <= 0)
        bench_fail("the server did not start");
    ready = bench_now_ns();
    fresh.port = atoi(text);
    fetch(&fresh, 1);
    bench_part("first", bench_now_ns() - ready);
    bench_check(sandbox_exec_kill(exec, SIGKILL, 0, &error), &error, "kill");
    sandbox_exec_unref(exec);
    close(out);
}

static int64_t once(void *data)
{
    const struct target *t = data;
    int64_t begin = bench_now_ns(), opened, bulk;

    fetch(data, 1);
    opened = bench_now_ns();
    fetch(data, BULK);
    bulk = bench_now_ns();
    bench_part("bulk", bulk - opened);
    for (int i = 0; i < MANY; i++)
        fetch(data, 1);
    bench_part("many", bench_now_ns() - bulk);
    if (t->server)
        first(t);
    return opened - begin;
}

/* Starts the relay and waits until it listens; its pid. */
static int start_relay(char **command, struct target *t)
{
    struct sockaddr_in address = { .sin_family = AF_INET, .sin_addr = { htonl(INADDR_LOOPBACK) } };
    int listen_port = free_port(), pid, fd;

    for (char **a = command; *a; a++) {
        char *listen = strstr(*a, "LISTEN_PORT"), *to = strstr(*a, "TO_PORT"), *made = NULL;

        if ((listen && asprintf(&made, "%.*s%d%s", (int)(listen - *a), *a, listen_port, listen + strlen("LISTEN_PORT")) < 0) ||
            (to && asprintf(&made, "%.*s%d%s", (int)(to - *a), *a, t->port, to + strlen("TO_PORT")) < 0))
            bench_fail("out of memory");
        if (made)
            *a = made;
    }
    pid = bench_spawn(command, -1);
    t->port = listen_port;
    address.sin_port = htons((uint16_t)listen_port);
    for (int tries = 1000; tries; tries--) {
        fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (fd >= 0 && connect(fd, (struct sockaddr *)&address, sizeof address) == 0) {
            close(fd);
            return pid;
        }
        close(fd);
        usleep(5000);
    }
    bench_fail("the relay does not listen");
}

static void serve_raw(char *server, char **relay)
{
    char *argv[] = { server, (char *)"serve", (char *)"0", NULL }, text[16] = { 0 };
    struct target t = { 0 };
    int fds[2], pid, relay_pid;

    if (pipe2(fds, O_CLOEXEC) < 0)
        bench_fail("pipe: %s", strerror(errno));
    pid = bench_spawn(argv, fds[1]);
    close(fds[1]);
    if (read(fds[0], text, sizeof text - 1) <= 0)
        bench_fail("the server did not start");
    t.port = atoi(text);
    relay_pid = relay ? start_relay(relay, &t) : 0;
    bench_serve(once, &t);
    if (relay) {
        kill(relay_pid, SIGKILL);
        bench_reap(relay_pid);
    }
    kill(pid, SIGKILL);
    bench_reap(pid);
    close(fds[0]);
}

static void serve_sandbox(const char *root, const char *image, const char *server, int forwarded)
{
    struct sandbox_host *host = bench_open_host(root);
    struct sandbox_spec *spec = bench_new_spec(image);
    struct target t = { .port = INSIDE_PORT };
    struct sandbox_forward *forward = NULL;
    struct sandbox *sandbox;
    struct sandbox_error *error = NULL;
    const char *argv[] = { server, "serve", "7000", NULL };
    int fd = -1, r;

    bench_check(sandbox_spec_set_daemon(spec, argv, &error), &error, "daemon");
    sandbox = t.sandbox = bench_start_sandbox(host, spec);
    for (int tries = 1000; (r = sandbox_dial(t.sandbox, INSIDE_PORT, 1000, &fd, &error)) == SANDBOX_EIO && tries; tries--) {
        error = sandbox_error_unref(error); /* it does not listen yet */
        usleep(5000);
    }
    bench_check(r, &error, "dial");
    close(fd);
    if (!forwarded) {
        t.server = server;
    } else {
        bench_check(sandbox_forward_open(sandbox, INSIDE_PORT, 0, &forward, &error), &error, "forward");
        t = (struct target){ .port = sandbox_forward_get_port(forward) };
    }
    bench_serve(once, &t);
    sandbox_forward_close(forward);
    bench_delete_sandbox(sandbox);
    sandbox_spec_unref(spec);
    sandbox_host_unref(host);
}

int main(int argc, char **argv)
{
    if (argc == 3 && !strcmp(argv[1], "raw"))
        serve_raw(argv[2], NULL);
    else if (argc >= 4 && !strcmp(argv[1], "relay"))
        serve_raw(argv[2], argv + 3);
    else if (argc == 5 && (!strcmp(argv[1], "sandbox") || !strcmp(argv[1], "forward")))
        serve_sandbox(argv[2], argv[3], argv[4], !strcmp(argv[1], "forward"));
    else
        bench_fail("usage: dial raw SERVER | relay SERVER PROGRAM … | sandbox ROOT IMAGE SERVER | forward ROOT IMAGE SERVER");
    return 0;
}
