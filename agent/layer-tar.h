/* SPDX-License-Identifier: Apache-2.0
 * What a sandbox changed, as a tar: see layer-tar.c. */
#ifndef SB_AGENT_LAYER_TAR_H
#define SB_AGENT_LAYER_TAR_H

#include <idmap.h>
#include <sys/stat.h>

/* Onto SB_LAYER_FD_DATA. For root the layer's ids are those of the map's range. */
void ag_layer_tar_begin(const struct sb_idmap *map);
/* One entry, `name` in the folder `dir`, which the tar calls `path`; dir -1: a mark that it is gone. 1: it can't be told, and was left out. */
int ag_layer_tar_put(const char *path, int dir, const char *name, const struct stat *st);
void ag_layer_tar_end(void);

#endif
