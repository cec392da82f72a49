/* SPDX-License-Identifier: Apache-2.0
 * The networks that sandboxes are in. */
#ifndef SB_ENGINE_NETWORK_H
#define SB_ENGINE_NETWORK_H

#include "engine.h"

/* Whether what a spec asks for goes together, and this machine has it. */
int sb_network_check(struct sb_engine *engine, const struct sandbox_spec *spec, struct sandbox_error **error);

#endif
