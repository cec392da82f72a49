/* SPDX-License-Identifier: Apache-2.0
 * Whole messages over a SEQPACKET socket, with descriptors. */
#ifndef SB_AGENT_MESSAGE_H
#define SB_AGENT_MESSAGE_H

#include <stddef.h>
#include <sys/types.h>

/* 0 or -errno. fd -1: none. flags as for sendmsg(2); MSG_NOSIGNAL is added. */
int ag_send(int socket, const void *data, size_t size, int fd, int flags);
/* The same with up to 4 descriptors. */
int ag_send_fds(int socket, const void *data, size_t size, const int *fds, size_t n_fds, int flags);

/* Without waiting: the message's size, 0 at the end of the connection, -errno (EAGAIN: none is there; EMSGSIZE: it was cut). Up
 * to 4 descriptors, close-on-exec, come with it, also when it was cut. */
ssize_t ag_receive(int socket, void *data, size_t size, int fds[4], size_t *ret_n_fds);

#endif
