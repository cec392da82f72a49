/* SPDX-License-Identifier: Apache-2.0
 * relay LISTEN TO: what a forward is compared with. A plain relay between two ports of 127.0.0.1: a process for each connection, which
 * reads and writes 64 KiB at a time. */
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "sample.h"

static char block[65536];

/* 0: its end was passed on. */
static int pass(int from, int to)
{
    ssize_t n = read(from, block, sizeof block);

    for (ssize_t at = 0, w; at < n; at += w)
        if ((w = write(to, block + at, (size_t)(n - at))) <= 0)
            _exit(1);
    if (n > 0)
        return 1;
    shutdown(to, SHUT_WR);
    return 0;
}

static _Noreturn void carry(int client, int server)
{
    struct pollfd p[] = { { .fd = client, .events = POLLIN }, { .fd = server, .events = POLLIN } };

    while (p[0].fd >= 0 || p[1].fd >= 0) {
        poll(p, 2, -1);
        if (p[0].revents && !pass(client, server))
            p[0].fd = -1;
        if (p[1].revents && !pass(server, client))
            p[1].fd = -1;
    }
    _exit(0);
}

int main(int argc, char **argv)
{
    struct sockaddr_in address = { .sin_family = AF_INET, .sin_addr = { htonl(INADDR_LOOPBACK) } };
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), one = 1;

    if (argc != 3)
        bench_fail("usage: relay LISTEN TO");
    signal(SIGCHLD, SIG_IGN);
    address.sin_port = htons((uint16_t)atoi(argv[1]));
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (bind(listener, (struct sockaddr *)&address, sizeof address) < 0 || listen(listener, 64) < 0)
        bench_fail("listen: %s", strerror(errno));
    address.sin_port = htons((uint16_t)atoi(argv[2]));
    for (;;) {
        int client = accept4(listener, NULL, NULL, SOCK_CLOEXEC), server;

        if (client >= 0 && fork() == 0) {
            server = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
            if (connect(server, (struct sockaddr *)&address, sizeof address) == 0)
                carry(client, server);
            _exit(1);
        }
        close(client);
    }
}
