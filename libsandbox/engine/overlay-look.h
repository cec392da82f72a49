/* SPDX-License-Identifier: Apache-2.0
 * One run of `sandbox-agent layer` (layer-plan.h) as an operation, whose result is a document. */
#ifndef SB_ENGINE_OVERLAY_LOOK_H
#define SB_ENGINE_OVERLAY_LOOK_H

#include "engine.h"

struct sb_look_job {
    const char *job;   /* "usage diff tar scan remove" */
    int place, lower, words; /* borrowed; -1: none */
    const struct sb_idmap *map; /* of the sandbox whose layer it is; NULL: the caller's */
    int data;          /* tar: borrowed; 0: none */
    const char *name;  /* remove */
    int64_t most;
};

/* {"entries": [{"path", "kind", "type", "bytes"}], "bytes", "count", "truncated"} */
int sb_look_begin(struct sb_engine *engine, const struct sb_look_job *job, struct sb_op **ret_op, struct sandbox_error **error);
/* Starts the removal of `name` below `folder` and lets it be: whoever opens the state root next goes on if it is cut short. */
int sb_look_remove(struct sb_engine *engine, int folder, const char *name, struct sandbox_error **error);

#endif
