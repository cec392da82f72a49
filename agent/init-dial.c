/* SPDX-License-Identifier: Apache-2.0
 * A connection to a port of the sandbox's loopback, made inside for somebody outside. */
#include "init.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <util.h>

static int start(int family, const void *address, socklen_t size, int *ret_connected)
{
    SB_CLOSE int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    if (fd < 0)
        return -errno;
    *ret_connected = connect(fd, address, size) == 0;
    return *ret_connected || errno == EINPROGRESS ? SB_TAKE_FD(fd) : -errno;
}

int ag_dial(uint16_t port, int *family, int *ret_connected)
{
    struct sockaddr_in v4 = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK), .sin_port = htons(port) };
    struct sockaddr_in6 v6 = { .sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT, .sin6_port = htons(port) };
    int fd;

    if (*family == AF_INET) {
        fd = start(AF_INET, &v4, sizeof v4, ret_connected);
        if (fd != -ECONNREFUSED)
            return fd;
        *family = AF_INET6; /* some servers listen on ::1 alone */
    }
    fd = start(AF_INET6, &v6, sizeof v6, ret_connected);
    return fd < 0 ? -ECONNREFUSED : fd;
}
