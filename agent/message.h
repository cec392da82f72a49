/* SPDX-License-Identifier: Apache-2.0
 * One whole message over a SEQPACKET socket, with at most one descriptor. */
#ifndef SB_AGENT_MESSAGE_H
#define SB_AGENT_MESSAGE_H

#include <stddef.h>

/* 0 or -errno. fd -1: none. flags as for sendmsg(2); MSG_NOSIGNAL is added. */
int ag_send(int socket, const void *data, size_t size, int fd, int flags);

#endif
