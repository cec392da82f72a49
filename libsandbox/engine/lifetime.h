/* SPDX-License-Identifier: Apache-2.0
 * How long sandboxes of this kernel live: what the library does of it. The keeper (agent/keeper-life.c) does the rest. */
#ifndef SB_ENGINE_LIFETIME_H
#define SB_ENGINE_LIFETIME_H

#include "engine.h"

/* What a create asks for that can't be had here. */
int sb_lifetime_check(const struct sandbox_spec *spec, struct sandbox_error **error);

#endif
