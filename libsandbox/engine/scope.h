/* SPDX-License-Identifier: Apache-2.0
 * systemd's scopes: see scope.c. */
#ifndef SB_ENGINE_SCOPE_H
#define SB_ENGINE_SCOPE_H

#include <jansson.h>
#include <process.h>
#include <sandbox.h>
#include <scope-plan.h>
#include <sys/types.h>

struct sb_cgroups;
struct sb_engine;

/* Sets cgroups.scopes and delegated, and clears the rest, where systemd can be asked for scopes; else changes nothing. 0 or -errno. */
int sb_scopes_detect(struct sb_engine *engine);
int sb_scopes_usable(const struct sb_cgroups *cgroups);
/* Whether a record's folders are in a scope. */
int sb_scopes_named(const json_t *folders);
/* What the program says, as far as it was read. */
struct sb_scope_report {
    int fd, timer; /* to poll for input; -1: nothing is waited for */
    size_t n;
    char text[SB_SCOPE_REPORT_MAX + 1];
};
#define SB_SCOPE_REPORT_INIT { .fd = -1, .timer = -1 }
void sb_scope_report_clear(struct sb_scope_report *report);

/* Starts the agent program (SB_FD_STAGE_END descriptors) as sb_spawn_watched() does, in a new scope of the sandbox. The report is
 * the caller's to clear. 0 or -errno. */
int sb_scope_spawn(struct sb_engine *engine, const char *id, int agent, char *const agent_argv[], const struct sb_spawn_fd *fds,
                   struct sb_scope_report *ret_report, pid_t *ret_pid, int *ret_pidfd);
/* 0: the program is in its scope; 1: not yet; EUNSUPPORTED: it won't be, and has ended or must be ended. */
int sb_scope_step(struct sb_cgroups *cgroups, const char *id, struct sb_scope_report *report, struct sandbox_error **error);
/* Waits (bounded) until systemd has taken the scope away that a box was in, whose processes have ended. */
void sb_scope_wait_gone(const char *box);

#endif
