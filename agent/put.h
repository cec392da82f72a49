/* SPDX-License-Identifier: Apache-2.0
 * A tar unpacked into a live folder: see put.c. */
#ifndef SB_AGENT_PUT_H
#define SB_AGENT_PUT_H

#include "tree.h"

struct au_put {
    int in;        /* the tar, read to its end */
    int root;      /* the folder */
    int root_made; /* it is new: an entry for it says how it is to be */
    const struct sb_idmap *map;
    int64_t uid, gid; /* of everything; -1: as it comes */
    int mode;         /* of what is no folder; -1: as it comes */
    int tame;         /* 1: set-id bits are dropped */
    int64_t max_bytes, max_entries; /* -1: any */
};
void au_put(const struct au_put *how, int64_t *ret_bytes, int64_t *ret_entries);

#endif
