/* SPDX-License-Identifier: Apache-2.0
 * B6 and F40 to F47: a port of the daemon, reached privately; and nothing else that is reached. */
#include "contract.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { PORT = 30421 };
static struct sandbox_error *error;

static void b6_dial(void)
{
    struct sandbox *sandbox = row_guest_daemon(NULL, "serve 30421");
    int fd = row_dial(sandbox, PORT);
    char text[16] = "";

    row_write(fd, "ping", 4);
    ROW_CHECK(row_read(fd, text, 4, 20000) == 4 && !memcmp(text, "ping", 4), "\"%.10s\" came back", text);
    close(fd);
}

static void b6_closed_port(void)
{
    struct sandbox *sandbox = row_start(NULL);
    int64_t begun = row_now();
    int fd = -1;

    row_refused(sandbox_dial(sandbox, PORT, 10000, &fd, &error), SANDBOX_EIO, &error, "dial a port where nobody listens");
    ROW_CHECK(row_now() - begun < 5000, "the refusal took %lld ms", (long long)(row_now() - begun));
}

/* The other end hears our end, and may still speak. */
static void f40_half_close(void)
{
    struct sandbox *sandbox = row_guest_daemon(NULL, "serve 30421");
    int fd = row_dial(sandbox, PORT);
    size_t size = 1 << 20;
    char *data = row_data(size), *back = malloc(size + 4);
    int child_in[2];

    ROW_CHECK(back && socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, child_in) == 0, "no memory");
    for (size_t sent = 0; sent < size; sent += 65536) { /* what is echoed is read in step, so that nobody's buffers fill */
        row_write(fd, data + sent, 65536);
        ROW_CHECK(row_read(fd, back + sent, 65536, 20000) == 65536, "the echo ends");
    }
    ROW_CHECK(shutdown(fd, SHUT_WR) == 0, "shutdown failed");
    ROW_CHECK(row_read(fd, back + size, 4, 20000) == 3 && !memcmp(back + size, "bye", 3),
              "no answer comes after the end was sent");
    ROW_CHECK(!memcmp(data, back, size), "other bytes came back");
    close(fd);
    close(child_in[0]);
    close(child_in[1]);
    free(data);
    free(back);
}

static void f40_many(void)
{
    struct sandbox *sandbox = row_guest_daemon(NULL, "serve 30421");
    char text[4];
    int fd = row_dial(sandbox, PORT), n = 0;

    close(fd);
    for (int64_t until = row_now() + 20000; n < 500 && row_now() < until; n++) {
        fd = row_dial(sandbox, PORT);
        row_write(fd, "x", 1);
        ROW_CHECK(row_read(fd, text, 1, 20000) == 1, "the %d. connection gives no echo", n + 1);
        close(fd);
    }
    ROW_CHECK(n >= 50, "only %d connections in 20 s", n);
}

/* One that does not read what is sent to it holds up nobody else. */
static void f41_slow_client(void)
{
    struct sandbox *sandbox = row_guest_daemon(NULL, "serve 30421");
    int slow = row_dial(sandbox, PORT), fast;
    char *data = row_data(65536), text[4];
    struct timeval bound = { .tv_usec = 200000 };

    setsockopt(slow, SOL_SOCKET, SO_SNDTIMEO, &bound, sizeof bound);
    for (int i = 0; i < 1000 && send(slow, data, 65536, MSG_NOSIGNAL) > 0; i++)
        ;
    fast = row_dial(sandbox, PORT);
    row_write(fast, "x", 1);
    ROW_CHECK(row_read(fast, text, 1, 5000) == 1, "the fast connection gives no echo");
    close(slow);
    close(fast);
    free(data);
}

static void f45_no_network(void)
{
    struct sandbox *sandbox = row_start(NULL);

    row_says(sandbox, NULL, "tail -n +3 /proc/net/dev | cut -d: -f1 | tr -d ' '", "lo");
    row_says(sandbox, NULL, "tail -n +2 /proc/net/route | wc -l | tr -d ' '", "0");
}

/* Two sandboxes have the same port, each its own. */
static void f46_own_ports(void)
{
    struct sandbox *a = row_guest_daemon(NULL, "serve 30421"), *b = row_start(NULL);
    int fd = row_dial(a, PORT);

    close(fd);
    fd = -1;
    row_refused(sandbox_dial(b, PORT, 10000, &fd, &error), SANDBOX_EIO, &error, "dial the other sandbox's port");
}

static const struct row rows[] = {
    { "b6_dial", b6_dial },
    { "b6_closed_port", b6_closed_port },
    { "f40_half_close", f40_half_close },
    { "f40_many", f40_many },
    { "f41_slow_client", f41_slow_client },
    { "f45_no_network", f45_no_network },
    { "f46_own_ports", f46_own_ports },
};
const struct rows rows_network = { rows, sizeof rows / sizeof *rows };
