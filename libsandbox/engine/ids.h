/* SPDX-License-Identifier: Apache-2.0
 * Which ids this caller can map, and the machine-wide claims on ranges that root's sandboxes use. */
#ifndef SB_ENGINE_IDS_H
#define SB_ENGINE_IDS_H

#include <idmap.h>
#include <sandbox.h>

#define SB_RANGE_COUNT 65536u
#define SB_RANGE_FIRST 0x70000000u
#define SB_RANGE_LAST 0x7ffdffffu

/* The caller's privilege; for SUBIDS and SINGLE the whole map, for ROOT all but the range. */
int sb_ids_detect(struct sb_idmap *ret_map, struct sandbox_error **error);

/* Claims a range nobody else on this machine has: a file /run/libsandbox/ranges/START that names the holder (state root and sandbox). Ranges that
 * /etc/subuid or /etc/subgid give to users are passed over. `holder` is at most 4 KiB, one line. Sets the map's starts. One whose holder is
 * gone is taken over. */
struct sb_ids_others {
    const char *prefix;                           /* only holders that begin like this are asked about */
    int (*gone)(void *data, const char *holder);  /* 1: it is no more (and then no process has one of its ids, which is looked at) */
    void *data;
};
int sb_ids_claim(struct sb_idmap *map, const char *holder, const struct sb_ids_others *others, struct sandbox_error **error);
/* Claims exactly the range that the map has; success when this holder has it already. EBUSY when another has. */
int sb_ids_claim_again(const struct sb_idmap *map, const char *holder, const struct sb_ids_others *others, struct sandbox_error **error);
/* Gives it back, if this holder has it. */
void sb_ids_release(const struct sb_idmap *map, const char *holder);
/* Asks about each holder on this machine; releases the claims of those that are gone. */
void sb_ids_sweep(const struct sb_ids_others *others);

/* 1 when it is one whole block of the pool. */
int sb_ids_are_range(const struct sb_idmap *map);

#endif
