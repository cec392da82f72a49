/* SPDX-License-Identifier: Apache-2.0
 * What the library and sandbox-proxy say to each other.
 *
 * It is started with its rules in a file (a line each: "allow RULE", "dns SERVER"), says one byte when it serves, and ends with the process that
 * SB_PROXY_FD_HOLDER is. Whoever connects to its socket may send one SB_PROXY_RULES, with such a file, answered by one byte, or SB_PROXY_WATCH, answered
 * by struct sb_proxy_event: those of the past that it still knows, and then each as it happens. */
#ifndef SB_PLAN_PROXY_PLAN_H
#define SB_PLAN_PROXY_PLAN_H

#include <stdint.h>

enum sb_proxy_fd { /* 0, 1, 2 are /dev/null */
    SB_PROXY_FD_TCP = 3,     /* listeners, of the sandbox's loopback */
    SB_PROXY_FD_UDP = 4,
    SB_PROXY_FD_CONTROL = 5, /* a listening SEQPACKET socket */
    SB_PROXY_FD_HOLDER = 6,  /* pidfd */
    SB_PROXY_FD_RULES = 7,
    SB_PROXY_FD_READY = 8,   /* a pipe */
    SB_PROXY_FD_END = 9
};

enum sb_proxy_say { SB_PROXY_RULES = 1, SB_PROXY_WATCH };
struct sb_proxy_request {
    uint32_t say;
};

#define SB_PROXY_RULES_BYTES (512 * 1024)
#define SB_PROXY_EVENTS_KEPT 128

struct sb_proxy_event {
    uint32_t allowed; /* 0: denied */
    uint32_t port;    /* 0: a question for the name */
    int64_t wall_ms;
    char host[256];   /* as it was asked for, at most that */
    char why[64];     /* denied: for people */
};

#endif
