/* SPDX-License-Identifier: Apache-2.0
 * doctor: what this machine can enforce, found out by trying it. doctor-look.c asks the kernel and the state root, doctor-judge.c reads
 * what sandboxes that were made for it saw, doctor.c makes them one after the other and removes them. */
#ifndef SB_ENGINE_DOCTOR_H
#define SB_ENGINE_DOCTOR_H

#include "engine.h"

/* One line of the report. `level` is "enforced", "wrapped", "advisory" or "impossible"; cause and remedy are "" for the first. */
void sb_doctor_say(json_t *entries, const char *feature, const char *level, const char *probe, const char *cause, const char *remedy);

/* ---- doctor-look.c ---- */
json_t *sb_doctor_host(const struct sb_engine *engine); /* kernel, machine, user, privilege, state root. New reference */
void sb_doctor_look(struct sb_engine *engine, json_t *entries);
/* network-doctor.c */
void sb_doctor_networks(struct sb_engine *engine, json_t *entries);
/* In a sandbox's own group; NULL: it has none in cgroup2. */
void sb_doctor_kill(const char *folder, json_t *entries);
/* Needs a user namespace to map by: that of a sandbox's init. */
void sb_doctor_idmap(struct sb_engine *engine, int64_t init_pid, json_t *entries);

/* ---- doctor-judge.c ---- */
/* A sandbox to be made, and a command in it. */
struct sb_doctor_trial {
    const char *feature; /* what is impossible when the sandbox can't be made; others depend on the first alone */
    int (*fill)(struct sandbox_spec *spec, struct sandbox_error **error);
    const char *script;
    int64_t deadline_ms;
    void (*judge)(struct sb_engine *engine, const char *output, const struct sandbox_exec_result *result, json_t *entries);
};
extern const struct sb_doctor_trial sb_doctor_trials[];
extern const size_t sb_doctor_n_trials;

#endif
