/* SPDX-License-Identifier: Apache-2.0
 * Locks of files and folders of the state root, bounded, and who holds them. */
#ifndef SB_ENGINE_LOCKS_H
#define SB_ENGINE_LOCKS_H

#include <sys/types.h>

struct sandbox_error;

struct sb_lock_holder {
    pid_t pid;   /* 0: not to be found out (this process itself, or one of another pid namespace) */
    int stopped; /* by a signal or a debugger: it does not go on by itself */
};
/* flock(2) of a folder of the state root, by a description of its own, so that threads exclude each other, too: a descriptor, or a code (EBUSY,
 * naming the holder, after 5 s). Who looks at what is in it and then acts on what he saw must be alone. */
int sb_folder_lock(int folder, int how, struct sandbox_error **error);
/* Negative: nothing is done. */
void sb_folder_unlock(int fd);
/* Who holds the flock of an open file. */
void sb_lock_holder(int fd, struct sb_lock_holder *ret);
/* EBUSY, naming the holder and what is locked. */
int sb_lock_busy(const struct sb_lock_holder *holder, const char *what, struct sandbox_error **error);

static inline void sb_cleanup_unlockp(int *fd)
{
    sb_folder_unlock(*fd);
}
#define SB_UNLOCK __attribute__((cleanup(sb_cleanup_unlockp)))

#endif
