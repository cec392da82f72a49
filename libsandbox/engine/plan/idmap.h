/* SPDX-License-Identifier: Apache-2.0
 * How ids inside a sandbox's user namespace map to ids of this kernel, in the three privileges a caller can have. A value
 * type: it goes into plans as it is and is applied by agent/userns.c. */
#ifndef SB_PLAN_IDMAP_H
#define SB_PLAN_IDMAP_H

#include <stdint.h>

enum sb_privilege {
    SB_PRIVILEGE_ROOT = 0,   /* root: inside 0 … count-1 is start … start+count-1, a range of the sandbox's own */
    SB_PRIVILEGE_SUBIDS = 1, /* a user with ranges in /etc/subuid and subgid: inside 0 is the user, 1 … count-1 the ranges; by newuidmap */
    SB_PRIVILEGE_SINGLE = 2  /* a user without: inside 0 is the user, there is nobody else; setgroups is denied */
};

struct sb_idmap {
    uint32_t privilege; /* enum sb_privilege */
    uint32_t uid, gid;  /* of the caller, outside */
    uint32_t uid_start, gid_start; /* first id outside (ROOT: of inside 0; SUBIDS: of inside 1) */
    uint32_t count;     /* ids inside, 0 … count-1; 1 for SINGLE */
};

#endif
