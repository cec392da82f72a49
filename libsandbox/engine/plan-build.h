/* SPDX-License-Identifier: Apache-2.0
 * The plan of a sandbox (plan.h) from its record. */
#ifndef SB_ENGINE_PLAN_BUILD_H
#define SB_ENGINE_PLAN_BUILD_H

#include "engine.h"

/* Writes it into an empty memfd and seals that. */
int sb_plan_write(struct sb_engine *engine, const struct sb_record *record, int memfd, struct sandbox_error **error);

#endif
