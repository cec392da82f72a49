/* SPDX-License-Identifier: Apache-2.0
 * B6 and F40 to F47: a port of the daemon, reached privately; and nothing else that is reached. */
#include "contract.h"

#include <arpa/inet.h>
#include <netinet/in.h>
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

static int connect_to(int port)
{
    struct sockaddr_in address = { .sin_family = AF_INET,
                                   .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
                                   .sin_port = htons((uint16_t)port) };
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    ROW_CHECK(fd >= 0 && connect(fd, (struct sockaddr *)&address, sizeof address) == 0, "nobody listens on 127.0.0.1:%d", port);
    return fd;
}

static struct sandbox_forward *forward(struct sandbox *sandbox)
{
    struct sandbox_forward *f = NULL;

    close(row_dial(sandbox, PORT)); /* the daemon listens */
    row_need(sandbox_forward_open(sandbox, PORT, 0, &f, &error), &error, "forward");
    ROW_CHECK(sandbox_forward_get_port(f) > 0, "a forward has no port");
    return f;
}

static void b6_forward(void)
{
    struct sandbox_forward_status status = SANDBOX_FORWARD_STATUS_INIT;
    struct sandbox_forward *f = forward(row_guest_daemon(NULL, "serve 30421"));
    int fd = connect_to(sandbox_forward_get_port(f)), port = sandbox_forward_get_port(f);
    char text[16] = "";

    row_write(fd, "ping", 4);
    ROW_CHECK(row_read(fd, text, 4, 20000) == 4 && !memcmp(text, "ping", 4), "\"%.10s\" came back", text);
    ROW_CHECK(shutdown(fd, SHUT_WR) == 0 && row_read(fd, text, 4, 20000) == 3 && !memcmp(text, "bye", 3),
              "half-close does not pass");
    for (int64_t until = row_now() + 5000; status.bytes_out != 7 && row_now() < until;
         row_sleep(20)) /* counted after they were carried */
        row_need(sandbox_forward_get_status(f, &status, &error), &error, "status");
    ROW_CHECK(status.healthy == 1 && status.accepted == 1 && status.bytes_in == 4 && status.bytes_out == 7,
              "its status is healthy %d, accepted %lld, %lld in, %lld out", status.healthy, (long long)status.accepted,
              (long long)status.bytes_in, (long long)status.bytes_out);
    close(fd);
    sandbox_forward_close(f);
    fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ROW_CHECK(connect(fd,
                      (struct sockaddr *)&(struct sockaddr_in){
                          .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK), .sin_port = htons((uint16_t)port) },
                      sizeof(struct sockaddr_in)) < 0,
              "it still listens after its close");
    close(fd);
}

/* The sandbox is stopped and started: the forward says so, and serves again. */
static void f42_forward_rebuilt(void)
{
    struct sandbox_forward_status status = SANDBOX_FORWARD_STATUS_INIT;
    struct sandbox *sandbox = row_guest_daemon(NULL, "serve 30421");
    struct sandbox_forward *f = forward(sandbox);
    char text[4];
    int fd;

    row_need(sandbox_stop(sandbox, 0, 60000, &error), &error, "stop");
    row_need(sandbox_forward_get_status(f, &status, &error), &error, "status");
    ROW_CHECK(!status.healthy && *status.cause, "a forward to a stopped sandbox is told as healthy");
    row_need(sandbox_start(sandbox, 60000, &error), &error, "start");
    close(row_dial(sandbox, PORT));
    fd = connect_to(sandbox_forward_get_port(f));
    row_write(fd, "x", 1);
    ROW_CHECK(row_read(fd, text, 1, 20000) == 1, "no echo after the restart");
    close(fd);
    sandbox_forward_close(f);
}

static void f40_forward_many(void)
{
    struct sandbox_forward *f = forward(row_guest_daemon(NULL, "serve 30421"));
    struct sandbox_forward_status status = SANDBOX_FORWARD_STATUS_INIT;
    char text[4];
    int n = 0;

    for (int64_t until = row_now() + 20000; n < 1000 && row_now() < until; n++) {
        int fd = connect_to(sandbox_forward_get_port(f));

        row_write(fd, "x", 1);
        ROW_CHECK(row_read(fd, text, 1, 20000) == 1, "the %d. connection gives no echo", n + 1);
        close(fd);
    }
    ROW_CHECK(n >= 50, "only %d connections in 20 s", n);
    for (int64_t until = row_now() + 10000;; row_sleep(20)) {
        row_need(sandbox_forward_get_status(f, &status, &error), &error, "status");
        if (!status.active)
            break;
        ROW_CHECK(row_now() < until, "%lld connections stand 10 s after the last was closed", (long long)status.active);
    }
    ROW_CHECK(status.accepted == n && status.failed == 0, "%lld were accepted, %lld failed of %d", (long long)status.accepted,
              (long long)status.failed, n);
    sandbox_forward_close(f);
}

/* A forward is on this machine's loopback and nowhere else. */
static void f47_loopback_only(void)
{
    struct sandbox_forward *f = forward(row_guest_daemon(NULL, "serve 30421"));
    char port[16], line[256];
    FILE *in;
    int seen = 0, wrong = 0;

    snprintf(port, sizeof port, ":%04X ", sandbox_forward_get_port(f));
    for (int i = 0; i < 2; i++) {
        in = fopen(i ? "/proc/net/tcp6" : "/proc/net/tcp", "re");
        while (in && fgets(line, sizeof line, in)) {
            char *at = strstr(line, port), *state = strstr(line, " 0A ");

            if (!at || !state || at > state || strchr(line, ':') + 2 > at)
                continue;
            seen++;
            wrong += i || strncmp(at - 8, "0100007F", 8) != 0;
        }
        if (in)
            fclose(in);
    }
    ROW_CHECK(seen == 1 && !wrong, "it listens on %d addresses, %d of them others than 127.0.0.1", seen, wrong);
    sandbox_forward_close(f);
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
    { "b6_forward", b6_forward },
    { "f40_half_close", f40_half_close },
    { "f40_forward_many", f40_forward_many },
    { "f42_forward_rebuilt", f42_forward_rebuilt },
    { "f47_loopback_only", f47_loopback_only },
    { "f40_many", f40_many },
    { "f41_slow_client", f41_slow_client },
    { "f45_no_network", f45_no_network },
    { "f46_own_ports", f46_own_ports },
};
const struct rows rows_network = { rows, sizeof rows / sizeof *rows };
