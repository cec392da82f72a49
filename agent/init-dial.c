/* SPDX-License-Identifier: Apache-2.0
 * A connection to a port of the sandbox's loopback, made inside for somebody outside. */
#include "init-loop.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <util.h>

static int open_to(int family, const void *address, socklen_t size, int *ret_connected)
{
    SB_CLOSE int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    if (fd < 0)
        return -errno;
    *ret_connected = connect(fd, address, size) == 0;
    if (!*ret_connected && errno != EINPROGRESS)
        return -errno;
    /* on loopback the answer is there by now, as a rule */
    *ret_connected = *ret_connected || poll(&(struct pollfd){ .fd = fd, .events = POLLOUT }, 1, 0) > 0;
    return SB_TAKE_FD(fd);
}

static int connect_to(uint16_t port, int *family, int *ret_connected)
{
    struct sockaddr_in v4 = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK), .sin_port = htons(port) };
    struct sockaddr_in6 v6 = { .sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT, .sin6_port = htons(port) };
    int fd;

    if (*family == AF_INET) {
        fd = open_to(AF_INET, &v4, sizeof v4, ret_connected);
        if (fd != -ECONNREFUSED)
            return fd;
        *family = AF_INET6; /* some servers listen on ::1 alone */
    }
    fd = open_to(AF_INET6, &v6, sizeof v6, ret_connected);
    return fd < 0 ? -ECONNREFUSED : fd;
}

void ag_end_dial(struct ag_slot *s)
{
    s->dial_fd = ag_forget(s->dial_fd);
    s->kind = s->fd >= 0 ? IDLE : FREE;
    s->until = 0;
}

static void begin_dial(struct ag_slot *s)
{
    int connected;

    s->dial_fd = connect_to(s->port, &s->family, &connected);
    if (s->dial_fd < 0) {
        ag_fail(s, SB_STEP_DIAL, -s->dial_fd);
        s->dial_fd = -1;
        ag_end_dial(s);
    } else if (connected) {
        ag_on_dialed(s);
    } else {
        ag_watch(s->dial_fd, ON_DIAL, (size_t)(s - ag_loop.slots), EPOLLOUT);
    }
}

void ag_on_dialed(struct ag_slot *s)
{
    struct sb_reply r = { .type = SB_REPLY_DIALED };
    int error = 0;
    socklen_t size = sizeof error;

    if (s->kind != DIALING)
        return;
    if (getsockopt(s->dial_fd, SOL_SOCKET, SO_ERROR, &error, &size) < 0)
        error = errno;
    if (error == ECONNREFUSED && s->family == AF_INET) {
        s->dial_fd = ag_forget(s->dial_fd);
        s->family = AF_INET6;
        begin_dial(s);
        return;
    }
    if (error) {
        ag_fail(s, SB_STEP_DIAL, error);
    } else {
        fcntl(s->dial_fd, F_SETFL, 0); /* the caller's descriptor is blocking */
        ag_life_dialed(s->dial_fd);
        ag_reply(s, &r, s->dial_fd);
    }
    ag_end_dial(s);
}

void ag_dial(struct ag_slot *s, const struct sb_request *q)
{
    if (q->port < 1 || q->port > 65535) {
        ag_fail(s, SB_STEP_REQUEST, EINVAL);
        return;
    }
    if (ag_count_kind(DIALING) >= AG_DIALS_MAX) { /* their servers don't accept */
        ag_fail(s, SB_STEP_BUSY, EAGAIN);
        return;
    }
    s->kind = DIALING;
    s->port = (uint16_t)q->port;
    s->family = AF_INET;
    s->until = q->timeout_ms > 0 ? ag_after(q->timeout_ms) : 0;
    begin_dial(s);
}
