/* SPDX-License-Identifier: Apache-2.0
 * See message.h. */
#include "message.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include <util.h>

int ag_send(int socket, const void *data, size_t size, int fd, int flags)
{
    return ag_send_fds(socket, data, size, &fd, fd >= 0, flags);
}

int ag_send_fds(int socket, const void *data, size_t size, const int *fds, size_t n_fds, int flags)
{
    union {
        struct cmsghdr header;
        char space[CMSG_SPACE(4 * sizeof(int))];
    } control = { 0 };
    struct iovec iov = { .iov_base = (void *)data, .iov_len = size };
    struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };

    if (n_fds > 4)
        return -EINVAL;
    if (n_fds) {
        struct cmsghdr *c;

        msg.msg_control = control.space;
        msg.msg_controllen = CMSG_SPACE(n_fds * sizeof(int));
        c = CMSG_FIRSTHDR(&msg);
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN(n_fds * sizeof(int));
        memcpy(CMSG_DATA(c), fds, n_fds * sizeof(int));
    }
    return SB_RETRY(sendmsg(socket, &msg, flags | MSG_NOSIGNAL)) < 0 ? -errno : 0;
}

ssize_t ag_receive(int socket, void *data, size_t size, int fds[4], size_t *ret_n_fds)
{
    union {
        struct cmsghdr header;
        char space[CMSG_SPACE(4 * sizeof(int))];
    } control;
    struct iovec iov = { .iov_base = data, .iov_len = size };
    struct msghdr msg = {
        .msg_iov = &iov, .msg_iovlen = 1, .msg_control = control.space, .msg_controllen = sizeof control.space
    };
    ssize_t n = sb_recvmsg(socket, &msg, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);

    *ret_n_fds = 0;
    if (n < 0)
        return -errno;
    for (struct cmsghdr *c = CMSG_FIRSTHDR(&msg); c; c = CMSG_NXTHDR(&msg, c))
        if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS) {
            *ret_n_fds = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
            memcpy(fds, CMSG_DATA(c), *ret_n_fds * sizeof(int));
        }
    return msg.msg_flags & (MSG_TRUNC | MSG_CTRUNC) ? -EMSGSIZE : n;
}
