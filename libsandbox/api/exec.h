/* SPDX-License-Identifier: Apache-2.0
 * The exec handle, shared by exec.c and communicate.c. */
#ifndef SB_API_EXEC_H
#define SB_API_EXEC_H

#include "handles.h"

struct sandbox_exec {
    atomic_int refs;
    struct sandbox_host *host;
    char id[SB_ID_SIZE];
    char sandbox_id[SB_ID_SIZE];
    int attached; /* by its id: it has no pipes here */
    struct sb_exec *exec;
    pthread_mutex_t lock;
    /* under the lock */
    int pipes[3]; /* the caller's ends that were not taken, else -1 */
    int ended;
    struct sandbox_exec_result result;
    int communicating; /* one at a time: the fields below belong to it */
    int fds[3];        /* pipes that communicate took and that have not ended */
    int had[3];        /* 1: communicate took such a pipe */
    int terminal_taken;
    char *rest;        /* input that a call whose time passed had not written */
    size_t rest_size;
};

int sb_exec_check(const struct sandbox_exec *exec, struct sandbox_error **error);
/* 0: it has ended, and exec->result says how; 1: it still runs; negative: failed. Takes the lock. */
int sb_exec_collect(struct sandbox_exec *exec, struct sandbox_error **error);

/* terminal.c: the options that concern one. */
int sb_check_terminal(const struct sandbox_exec_options *options, struct sandbox_error **error);

#endif
