/* SPDX-License-Identifier: Apache-2.0
 * port-server PORT MODE [BYTES]: a TCP server that behaves in a chosen way. It says "listening" and then, by mode,
 *   push   sends BYTES of a pattern and its end, then reads to the peer's end and says "got N HASH" (FNV-1a)
 *   echo   gives back what comes, each connection by a thread of its own, and its end after the peer's
 *   hold   accepts and does nothing else
 *   deaf   never accepts, with a queue of one
 *   reset  reads one byte and resets the connection
 *   storm  resets each connection at once
 *   tiny   has the smallest window and reads a byte at a time */
#include "guest.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdint.h>
#include <sys/socket.h>
#include <unistd.h>

static void put(int fd, const char *data, size_t size)
{
    while (size > 0) {
        ssize_t n = send(fd, data, size, MSG_NOSIGNAL);

        if (n <= 0)
            return;
        data += n;
        size -= (size_t)n;
    }
}

static void push(int fd, size_t bytes)
{
    static char block[1 << 16];
    uint64_t hash = 0xcbf29ce484222325u, got = 0;
    ssize_t n;

    for (size_t at = 0; at < bytes; at += sizeof block) {
        for (size_t i = 0; i < sizeof block; i++)
            block[i] = (char)((at + i) * 2654435761u >> 11);
        put(fd, block, bytes - at < sizeof block ? bytes - at : sizeof block);
    }
    shutdown(fd, SHUT_WR);
    while ((n = read(fd, block, sizeof block)) > 0) {
        got += (uint64_t)n;
        for (ssize_t i = 0; i < n; i++)
            hash = (hash ^ (unsigned char)block[i]) * 0x100000001b3u;
    }
    printf("got %llu %016llx%s\n", (unsigned long long)got, (unsigned long long)hash, n < 0 ? " broken" : "");
    fflush(stdout);
    close(fd);
}

static void *echo(void *data)
{
    int fd = (int)(intptr_t)data;
    char buffer[1 << 14];
    ssize_t n;

    while ((n = read(fd, buffer, sizeof buffer)) > 0)
        put(fd, buffer, (size_t)n);
    close(fd);
    return NULL;
}

static void reset(int fd)
{
    struct linger l = { 1, 0 };

    setsockopt(fd, SOL_SOCKET, SO_LINGER, &l, sizeof l);
    close(fd);
}

static void serve(int fd, const char *mode, size_t bytes)
{
    pthread_t thread;
    char byte;

    if (!strcmp(mode, "push")) {
        push(fd, bytes);
    } else if (!strcmp(mode, "echo")) {
        pthread_attr_t attr;

        pthread_attr_init(&attr);
        pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
        pthread_attr_setstacksize(&attr, 1 << 16);
        if (pthread_create(&thread, &attr, echo, (void *)(intptr_t)fd))
            close(fd);
        pthread_attr_destroy(&attr);
    } else if (!strcmp(mode, "reset")) {
        if (read(fd, &byte, 1) >= 0)
            reset(fd);
    } else if (!strcmp(mode, "storm")) {
        reset(fd);
    } else if (!strcmp(mode, "tiny")) {
        while (read(fd, &byte, 1) == 1)
            put(fd, &byte, 1);
        close(fd);
    }
}

int main(int argc, char **argv)
{
    struct sockaddr_in address = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    int fd, one = 1;

    if (argc < 3)
        return 2;
    address.sin_port = htons((unsigned short)atoi(argv[1]));
    fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (!strcmp(argv[2], "tiny"))
        setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &one, sizeof one);
    if (bind(fd, (struct sockaddr *)&address, sizeof address) < 0 || listen(fd, strcmp(argv[2], "deaf") ? 4096 : 0) < 0) {
        perror("listen");
        return 3;
    }
    printf("listening\n");
    fflush(stdout);
    for (;;) {
        int c = strcmp(argv[2], "deaf") ? accept4(fd, NULL, NULL, SOCK_CLOEXEC) : (pause(), -1);

        if (c >= 0)
            serve(c, argv[2], argc > 3 ? (size_t)atoll(argv[3]) : 0);
    }
}
