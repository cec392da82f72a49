/* SPDX-License-Identifier: Apache-2.0
 * What reconcile's two files share: reconcile.c has the operation and what is in the state root, reconcile-kernel.c what is outside of it. */
#ifndef SB_ENGINE_RECONCILE_H
#define SB_ENGINE_RECONCILE_H

#include "engine.h"

struct sb_reconcile {
    struct sb_op op;
    struct sb_engine *engine;
    int dry, cancelled;
    size_t phase;
    json_t *report;  /* what was found: {"kind", "name", "why", "action"} */
    json_t *pending; /* of the phase: names still to be looked at; NULL: the phase begins */
    int64_t again;   /* of the phase: not before this time, on sb_now_ms() */
};

/* A phase does a piece of work: 0: it is over, 1: more is left. */
typedef int sb_phase_fn(struct sb_reconcile *rc);
sb_phase_fn sb_reconcile_mounts, sb_reconcile_processes, sb_reconcile_cgroups, sb_reconcile_ranges, sb_reconcile_networks;

/* Writes down a finding. `r`: what became of it (0, or -errno), when this is no dry run. */
void sb_reconcile_found(struct sb_reconcile *rc, const char *kind, const char *name, const char *why, int r);
/* 1: no sandbox of this id is there, in the trash or being made or deleted by a process that may live. */
int sb_reconcile_is_gone(struct sb_reconcile *rc, const char *id);

#endif
