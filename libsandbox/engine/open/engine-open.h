/* SPDX-License-Identifier: Apache-2.0
 * All that the local backend knows of the engine. */
#ifndef SB_ENGINE_OPEN_H
#define SB_ENGINE_OPEN_H

#include <driver.h>

/* Opens a state root (NULL: the default) and repairs it. agent_dir NULL: the installed or carried programs. Of options (NULL: none) the
 * ceiling counts. */
int sb_engine_open(const char *root, const char *agent_dir, const struct sandbox_host_options *options, struct sb_driver **ret_driver,
                   struct sandbox_error **error);

#endif
