/* SPDX-License-Identifier: Apache-2.0
 * Removing a tree that belongs to ids of this caller's range: root and a user with no range do it themselves, a user with
 * one does it as root of a user namespace, in the unpack helper. */
#ifndef SB_ENGINE_SWEEP_H
#define SB_ENGINE_SWEEP_H

#include "helper.h"

#include <idmap.h>

/* Removes `name` below `dir` and all in it, waiting at most timeout_ms (-1: as long as it takes). Absent is success. */
int sb_sweep(const struct sb_idmap *map, int exe, int dir, const char *name, int64_t timeout_ms, struct sandbox_error **error);
/* The same by the helper, without waiting: step it as helper.h says. */
int sb_sweep_start(struct sb_helper *helper, const struct sb_idmap *map, int exe, int epoll, int dir, const char *name,
                   struct sandbox_error **error);

#endif
