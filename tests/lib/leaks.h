/* SPDX-License-Identifier: Apache-2.0
 * What a process holds at one moment, as lists of names. */
#ifndef SBTEST_LEAKS_H
#define SBTEST_LEAKS_H

#include <stddef.h>
#include <sys/types.h>

struct leaks_list {
    char **names;
    size_t n;
};

enum leaks_kind { LEAKS_DESCRIPTOR, LEAKS_ZOMBIE, LEAKS_PROCESS, LEAKS_MOUNT, LEAKS_CGROUP, LEAKS_KINDS };

struct leaks_snapshot {
    struct leaks_list lists[LEAKS_KINDS];
};

/* Of the calling process; `runner` adopts what its descendants leave (0: there is none). Ends the process when it can't. */
void leaks_take(struct leaks_snapshot *snapshot, pid_t runner);
void leaks_clear(struct leaks_snapshot *snapshot);
/* Writes what `now` has and `then` has not as text; returns how much it is. `kinds` is a set of 1 << kind. */
size_t leaks_compare(const struct leaks_snapshot *then, const struct leaks_snapshot *now, unsigned int kinds, char *text, size_t size);

#endif
