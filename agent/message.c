/* SPDX-License-Identifier: Apache-2.0
 * See message.h. */
#include "message.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include <util.h>

int ag_send(int socket, const void *data, size_t size, int fd, int flags)
{
    union {
        struct cmsghdr header;
        char space[CMSG_SPACE(sizeof(int))];
    } control = { 0 };
    struct iovec iov = { .iov_base = (void *)data, .iov_len = size };
    struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };

    if (fd >= 0) {
        struct cmsghdr *c;

        msg.msg_control = control.space;
        msg.msg_controllen = sizeof control.space;
        c = CMSG_FIRSTHDR(&msg);
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN(sizeof fd);
        memcpy(CMSG_DATA(c), &fd, sizeof fd);
    }
    return SB_RETRY(sendmsg(socket, &msg, flags | MSG_NOSIGNAL)) < 0 ? -errno : 0;
}
