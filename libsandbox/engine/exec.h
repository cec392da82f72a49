/* SPDX-License-Identifier: Apache-2.0
 * The handle of an exec, shared by who runs it (exec.c) and who attaches to it (attach.c). */
#ifndef SB_ENGINE_EXEC_H
#define SB_ENGINE_EXEC_H

#include "engine.h"

struct sb_local_exec {
    struct sb_exec exec; /* its descriptor is the connection to init */
    pthread_mutex_t lock;
    int ended;
    struct sandbox_exec_result result;
    char *leaf; /* its own group, to be removed; NULL: none */
};

/* exec-leaf.c: a group with the limits of the request (cgroup2), and init told of it on the connection; *ret_path NULL: they need none.
 * EUNSUPPORTED, naming the field. */
int sb_exec_leaf(struct sb_engine *engine, const struct sb_record *record, const struct sb_exec_request *request, int link, char **ret_path,
                 struct sandbox_error **error);
/* RLIMIT_NOFILE by the sandbox's limits and those of an exec (NULL: none). */
uint32_t sb_exec_files_max(const struct sb_record *record, const struct sb_limits *limits);

/* attest.c: what a STARTED says of the command. */
void sb_exec_attest(struct sb_exec *exec, const struct sb_reply *reply);

int sb_local_exec_new(struct sb_local_exec **ret, struct sandbox_error **error);

/* pty.c: a descriptor that came from inside must be the outer end of a terminal and nothing else. */
int sb_pty_check(int fd, struct sandbox_error **error);
int sb_pty_resize(struct sb_exec *exec, int rows, int columns, int width, int height, struct sandbox_error **error);

#endif
