/* SPDX-License-Identifier: Apache-2.0
 * echo-server PORT [6]: says "listening", then gives each connection back what it sends, and the end when it has sent its end.
 * With 6 it listens on ::1 alone. */
#include "guest.h"

#include <netinet/in.h>
#include <arpa/inet.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

static void echo(int fd)
{
    char buffer[1 << 16];
    ssize_t n;

    while ((n = read(fd, buffer, sizeof buffer)) > 0)
        for (ssize_t at = 0, w; at < n; at += w) {
            w = write(fd, buffer + at, (size_t)(n - at));
            if (w <= 0)
                _exit(1);
        }
    _exit(0);
}

int main(int argc, char **argv)
{
    struct sockaddr_in v4 = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    struct sockaddr_in6 v6 = { .sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT };
    int six = argc > 2, one = 1, fd;

    if (argc < 2)
        return 2;
    v4.sin_port = v6.sin6_port = htons((unsigned short)atoi(argv[1]));
    signal(SIGCHLD, SIG_IGN);
    fd = socket(six ? AF_INET6 : AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (bind(fd, six ? (struct sockaddr *)&v6 : (struct sockaddr *)&v4, six ? sizeof v6 : sizeof v4) < 0 || listen(fd, 64) < 0) {
        perror("listen");
        return 3;
    }
    printf("listening\n");
    fflush(stdout);
    for (;;) {
        int c = accept4(fd, NULL, NULL, SOCK_CLOEXEC);

        if (c < 0)
            continue;
        if (fork() == 0)
            echo(c);
        close(c);
    }
}
