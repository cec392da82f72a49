/* SPDX-License-Identifier: Apache-2.0
 * The plan of a sandbox (plan.h) from its record. */
#ifndef SB_ENGINE_PLAN_BUILD_H
#define SB_ENGINE_PLAN_BUILD_H

#include "engine.h"

/* A sealed memfd, or a negative code. */
int sb_plan_build(struct sb_engine *engine, const struct sb_record *record, struct sandbox_error **error);

#endif
