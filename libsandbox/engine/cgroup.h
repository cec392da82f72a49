/* SPDX-License-Identifier: Apache-2.0
 * cgroups: what this machine has (v1, v2 or both at once), and one sandbox's folders in them.
 *
 * cgroup2, where it can be written, gives each sandbox a folder, in which init is, with leaves for daemon and execs: killing all at once
 * and, where its controllers are delegated, limits. v1 hierarchies get a folder only for a limit that was asked for. */
#ifndef SB_ENGINE_CGROUP_H
#define SB_ENGINE_CGROUP_H

#include <idmap.h>
#include <jansson.h>
#include <limit-set.h>
#include <sandbox.h>
#include <stdatomic.h>
#include <stdint.h>

enum sb_controller { SB_CONTROLLER_PIDS, SB_CONTROLLER_MEMORY, SB_CONTROLLER_CPU, SB_CONTROLLER_IO, SB_CONTROLLERS };

struct sb_cgroups {
    char *unified;             /* our folder in cgroup2, "…/libsandbox"; NULL: none that we may write */
    unsigned int delegated;    /* bits of enum sb_controller that are enabled for its children */
    unsigned int crowded;      /* those that are there, and can't be enabled while our own group has processes */
    char *v1[SB_CONTROLLERS];  /* our folder in that v1 hierarchy; NULL: none */
    char *scopes;              /* where systemd makes our scopes (scope.c); the others are NULL then. NULL: not systemd's machine */
    atomic_llong scopes_retry_ms; /* systemd refused one: none are asked for until then (sb_now_ms()) */
};

/* Bits of enum sb_controller that a file such as cgroup.controllers names. */
unsigned int sb_cgroups_controllers(const char *path);
/* Whether a record's folders have the leaves in cgroup2 (SB_PLAN_CGROUP). */
int sb_cgroups_has_leaves(const json_t *folders);
/* Reads /proc/self/cgroup and mountinfo. Having none is no error. */
int sb_cgroups_detect(struct sb_cgroups *ret, struct sandbox_error **error);
void sb_cgroups_clear(struct sb_cgroups *cgroups);

/* 1: these limits need the controller. */
int sb_cgroups_wanted(const struct sb_limits *limits, int controller);
/* 1: they need one that nothing stands in for. */
int sb_cgroups_needed(const struct sb_limits *limits);
/* 1: a group counts the processes of a sandbox with these folders. */
int sb_cgroups_counts_pids(const struct sb_cgroups *cgroups, const json_t *folders, const struct sb_limits *limits);

/* The absolute folders that a sandbox with these limits gets, in the order they are made: for the record of intent. New
 * reference. EUNSUPPORTED (field "memory" or "cpu") when a limit can't be enforced here. */
int sb_cgroups_plan(const struct sb_cgroups *cgroups, const char *id, const struct sb_limits *limits, json_t **ret_folders,
                    struct sandbox_error **error);
/* Makes a record's folders, sets the limits, gives the cgroup2 folders to the map's root. */
int sb_cgroups_make(const struct sb_cgroups *cgroups, const json_t *folders, const char *id, const struct sb_limits *limits,
                    const struct sb_idmap *map, struct sandbox_error **error);
/* SIGKILLs everything in the sandbox's cgroup2 folder; 1 when there was one to write to. */
int sb_cgroups_kill(const json_t *folders, const char *id);
/* Removes the folders of a record, last first, also after a reboot. Processes must be gone; a folder busy for a moment is tried
 * again for up to 500 ms. Only paths that end in /libsandbox/ID[/leaf]
 * or /libsandbox-ID.scope/box[/leaf] are touched; the scope's end is waited for. 0 or -errno. */
int sb_cgroups_remove(const json_t *folders, const char *id);

/* The file that counts whom the kernel killed in a sandbox's groups for want of memory (SB_FD_MEMORY); -1: there is none. */
int sb_cgroups_open_memory(const json_t *folders, const char *id);
/* ---- for cgroup-limits.c, exec-leaf.c and stats.c ---- */
const char *sb_cgroups_name(int controller);
int sb_cgroups_is_ours(const char *path, const char *id);
/* 0 or -errno. */
int sb_cgroups_write(const char *folder, const char *file, const char *text);
/* ---- cgroup-limits.c ---- */
/* "MAJOR:MINOR" of a disk by sb_io_limit.device. EINVALID, ENOTFOUND. */
#define SB_DISK_SIZE 32
int sb_cgroups_disk(const char *device, char ret[SB_DISK_SIZE], struct sandbox_error **error);
/* Write the limits of the delegated controllers into a folder of cgroup2, of one controller into one of its v1 hierarchy. A fresh
 * folder has no limits and no processes yet. EBUSY: more memory is in use. */
int sb_cgroups_write_v2(const char *folder, unsigned int delegated, const struct sb_limits *limits, int fresh,
                        struct sandbox_error **error);
int sb_cgroups_write_v1(const char *folder, int controller, const struct sb_limits *limits, int fresh,
                        struct sandbox_error **error);
/* The same for all folders of a sandbox that lives. EUNSUPPORTED when it lacks one. */
int sb_cgroups_change(const struct sb_cgroups *cgroups, const json_t *folders, const char *id, const struct sb_limits *limits,
                      const struct sb_limits *before, struct sandbox_error **error);
/* The folder that has a controller's numbers, or NULL; *ret_v2: it is in cgroup2. */
const char *sb_cgroups_folder_of(const struct sb_cgroups *cgroups, const json_t *folders, const char *id, int controller, int *ret_v2);

#endif
