/* SPDX-License-Identifier: Apache-2.0
 * Who inside has something of a mount in use, by name. */
#ifndef SB_AGENT_RESET_HOLDERS_H
#define SB_AGENT_RESET_HOLDERS_H

#include <stddef.h>
#include <sys/types.h>

/* Looks at the processes below `init` (its pid in this procfs) for files, folders and maps at or below `path`, as they see it. The number of
 * those found; what a reader wants to know of the first ones is in text. */
int ag_holders_find(int proc, pid_t init, const char *path, char *text, size_t size);
/* 1 and its place: another mount is below `path` inside that `known` doesn't know. */
int ag_holders_mount(int proc, pid_t init, const char *path, int (*known)(const void *data, const char *place), const void *data, char *text,
                     size_t size);

#endif
