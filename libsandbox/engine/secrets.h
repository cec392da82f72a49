/* SPDX-License-Identifier: Apache-2.0
 * Names of secrets in host folders that a spec mounts (sandbox_spec_set_secrets()). What was found at the last start is in the
 * sandbox's folder as "secrets": [{"target", "path", "type"}]. */
#ifndef SB_ENGINE_SECRETS_H
#define SB_ENGINE_SECRETS_H

#include "engine.h"

/* Before a start: looks for them as the spec says. EDENIED when they are to be refused. */
int sb_secrets_check(struct sb_engine *engine, const struct sb_record *record, struct sandbox_error **error);
/* What was found. New reference. */
json_t *sb_secrets_found(const struct sb_record *record);

#endif
