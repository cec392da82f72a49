/* SPDX-License-Identifier: Apache-2.0
 * What the library and the programs of a network say to each other (plan.h is about sandboxes).
 *
 *   library --BEGIN--> sandbox-agent network                (control socket, SB_FD_CONTROL)
 *   it --READY or FAILED (struct sb_control)--> library     READY: network and user namespace [, proxy's listeners: TCP, UDP]
 *   library --JOIN, MEMBER, HELPER--> it                    on the control socket, or a connection to its socket (SB_FD_LISTEN)
 *
 * It holds the namespaces and stays until nobody is connected and every member has ended; then it ends the helpers. */
#ifndef SB_PLAN_NETWORK_PLAN_H
#define SB_PLAN_NETWORK_PLAN_H

#include <stdint.h>

#include "idmap.h"

struct sb_network_begin {
    struct sb_idmap map;
    uint32_t proxy; /* 1: with listeners */
};

enum sb_network_say {
    SB_NETWORK_JOIN = 1, /* answered by READY, with the namespaces */
    SB_NETWORK_MEMBER,   /* pidfd of an init; answered by READY */
    SB_NETWORK_HELPER,   /* pidfd of a process that is to end with the network; answered by READY */
    SB_NETWORK_COUNT     /* answered by READY, whose pid is the number of members, and of others that are connected: on their way in */
};
struct sb_network_request {
    uint32_t say;
};

#define SB_NETWORK_MEMBERS_MAX 512
#define SB_NETWORK_HELPERS_MAX 4
/* In the sandbox, on 127.0.0.1. */
#define SB_PROXY_PORT 3128
#define SB_PROXY_DNS_PORT 53

/* sandbox-network, which does what needs netlink and nftables:
 *   up NUMBER | down NUMBER | inside nat ADDRESS… | inside proxy
 * On descriptor 2 it says SB_NETWORK_DONE, or why not. */
#define SB_NETWORK_DONE "done"
enum sb_network_fd { SB_NETWORK_FD_NET = 3, SB_NETWORK_FD_USER = 4 /* or /dev/null */, SB_NETWORK_FD_END = 5 };

/* Root's networks have numbers, unique on the machine. */
#define SB_NETWORK_NUMBERS 16384
#define SB_NETWORK_FIRST_ADDRESS 0x0af50000u /* 10.245.0.0: four addresses each, the host's is the second, the sandbox's the third */
#define SB_NETWORK_LINK "sbn%d"
#define SB_NETWORK_TABLE "libsandbox_%d"

#endif
