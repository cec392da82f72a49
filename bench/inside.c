/* SPDX-License-Identifier: Apache-2.0
 * The static program that runs inside every contender, and outside for the figure it is compared with:
 *   inside write BYTES      writes so many bytes to stdout, 64 KiB at a time
 *   inside serve PORT       listens on 127.0.0.1 (port 0: any; printed); to each connection that sends a 64-bit number
 *                           in this machine's order it sends so many bytes and closes
 *   inside pause            waits to be killed */
#include <errno.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static char block[65536];

static int send_bytes(int fd, uint64_t bytes)
{
    while (bytes) {
        ssize_t n = write(fd, block, bytes < sizeof block ? (size_t)bytes : sizeof block);

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return 1;
        bytes -= (uint64_t)n;
    }
    return 0;
}

static int serve(int port)
{
    struct sockaddr_in address = { .sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr = { htonl(INADDR_LOOPBACK) } };
    socklen_t size = sizeof address;
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), one = 1;

    signal(SIGPIPE, SIG_IGN);
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (listener < 0 || bind(listener, (struct sockaddr *)&address, sizeof address) < 0 || listen(listener, 64) < 0 ||
        getsockname(listener, (struct sockaddr *)&address, &size) < 0) {
        perror("listen");
        return 1;
    }
    printf("%d\n", ntohs(address.sin_port));
    fflush(stdout);
    for (;;) {
        int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
        uint64_t bytes;

        if (fd < 0)
            continue;
        if (recv(fd, &bytes, sizeof bytes, MSG_WAITALL) == (ssize_t)sizeof bytes)
            send_bytes(fd, bytes);
        close(fd);
    }
}

int main(int argc, char **argv)
{
    if (argc == 3 && !strcmp(argv[1], "write"))
        return send_bytes(1, strtoull(argv[2], NULL, 10));
    if (argc == 3 && !strcmp(argv[1], "serve"))
        return serve(atoi(argv[2]));
    if (argc == 2 && !strcmp(argv[1], "pause"))
        for (;;)
            pause();
    fputs("usage: inside write BYTES | serve PORT | pause\n", stderr);
    return 2;
}
