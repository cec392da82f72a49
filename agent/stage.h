/* SPDX-License-Identifier: Apache-2.0
 * What the two halves of the stage share: the parent, which parks every mount, and the child, which becomes init. */
#ifndef SB_AGENT_STAGE_H
#define SB_AGENT_STAGE_H

#include <plan.h>
#include <sys/types.h>

#define AG_NORETURN __attribute__((noreturn))

#define AG_DEVICES 7

struct ag_stage {
    const struct sb_plan *plan;
    struct sb_idmap inner; /* the sandbox's user namespace, as seen from where this program is */
    int proc;              /* the machine's procfs */
    int inside;            /* the sandbox's user namespace */
    int given_net, given_user; /* SB_PLAN_NETWORK_GIVEN; -1: none */
    pid_t network_maker;
    int network;           /* where its namespace comes from */
    const char *park;      /* folder behind which layers are attached */
    /* detached mounts, -1: none */
    int rw, dev, layers[SB_PLAN_MAX_LAYERS], mounts[SB_PLAN_MAX_MOUNTS], devices[AG_DEVICES];
    int uppers[SB_PLAN_MAX_MOUNTS];   /* of overlays; mounts[] is what lies below, and then the overlay itself */
    int cover_file, cover_folder;     /* in the park, when something is to be covered */
    int targets[SB_PLAN_MAX_MOUNTS];  /* of overlays, once mounted: what lies below them */
    int outer;                        /* the namespace that these are in; -1: not kept */
    int unmapped[SB_PLAN_MAX_MOUNTS]; /* of overlays: why the lower's ids could not be mapped; 0: they are */
};

int ag_stage_main(int argc, char **argv);
/* What a reset's helper does as the stage does it. */
const struct sb_plan *ag_stage_load_plan(void);
void ag_stage_open_proc(struct ag_stage *s);
void ag_stage_leave_chroot(struct ag_stage *s);
void ag_stage_make_inside(struct ag_stage *s);
void ag_stage_become_mapped_root(const struct ag_stage *s); /* of the outer user namespace that this process entered */
void ag_stage_reopen_root(void);

/* stage-trees.c: what of the machine goes inside, as detached mounts */
void ag_stage_open_trees(struct ag_stage *s);  /* clones them, by the machine's paths */
void ag_stage_set_trees(struct ag_stage *s);   /* their id maps and flags; needs s->inside */

/* The same for one of the plan's mounts. */
void ag_stage_open_tree(struct ag_stage *s, uint32_t i, const char *upper);
void ag_stage_set_tree(struct ag_stage *s, uint32_t i);

/* stage-disk.c: the layer's disk, mounted with the folders of a layer in it. */
int ag_stage_open_disk(const struct ag_stage *s, const char *folder);

/* A private detached clone of one mount. */
int ag_clone_tree(int dir, const char *path, const char *what);

/* stage-overlay.c: host folders with a layer of the sandbox's own */
void ag_park_overlays(struct ag_stage *s, int park); /* attaches their parts */
void ag_child_overlays(struct ag_stage *s);          /* makes them, in s->mounts, and tells the library how; cwd is the park */
void ag_child_overlay(struct ag_stage *s, uint32_t i);
/* stage-secrets.c: only when the plan hides something */
void ag_park_covers(struct ag_stage *s, int park);
void ag_child_secrets(const struct ag_stage *s, int root); /* covers the plan's hidden paths */
void ag_cover_below(const struct ag_stage *s, int root, const char *target); /* those below a path, which `root` is */
/* stage-reset.c: a new layer for an overlay of a sandbox that runs */
int ag_reset_main(int argc, char **argv);
/* init-outer.c: what a reset needs, kept by init */
void ag_outer_open(struct ag_stage *s);                 /* while this process has its rights */
int ag_outer_keep(const struct ag_stage *s, int first); /* moves it to numbers from `first` on: the next that is free */
/* stage-copy.c */
void ag_copy_tree(const struct ag_stage *s, uint32_t mount, int from, int to, const char *where);
ssize_t ag_getdents(int fd, void *buffer, size_t size);

/* stage-dev.c */
void ag_stage_open_devices(struct ag_stage *s);
void ag_stage_make_dev(struct ag_stage *s);
/* Attaches /dev and what is in it; a descriptor of the sandbox's null device. */
int ag_child_dev(struct ag_stage *s, int root);

/* outer.c: a user's own user namespace, a new one or (given >= 0) that of a network; flags: what else is new then */
void ag_outer_enter(int proc, const struct sb_idmap *map, int given, int flags);
void ag_outer_become_root(const struct sb_idmap *map); /* of one that was entered */

/* stage-network.c */
void ag_network_start(struct ag_stage *s); /* begins to make it */
void ag_network_enter(struct ag_stage *s); /* in the clone */
void ag_network_end(struct ag_stage *s);   /* in the stage, at its end */

/* stage-child.c, stage-masks.c: in the clone */
AG_NORETURN void ag_child_main(struct ag_stage *s);
void ag_child_masks(int procfs, int null);
int ag_child_park(struct ag_stage *s); /* a folder out of everybody's sight to attach mounts in */
void ag_leave_reserves(void);          /* of the file system that an overlay writes to */
/* A new file system of a type; options without a value are flags. */
int ag_make_fs(const char *type, const char *const options[][2], size_t n, unsigned int attributes, const char *phase);
/* A memory file system for the sandbox's ids, bounded in bytes and in files (an empty file costs the machine memory, too). */
int ag_make_tmpfs(const struct ag_stage *s, uint64_t bytes, unsigned int attributes, const char *phase);
/* Attaches a mount below the park, closes its descriptor. */
void ag_park_tree(int park, const char *name, int *tree);
void ag_move_onto(int mnt, int target, const char *phase, const char *what);
/* A folder right below the root that is mounted over: the image must not have turned it into something else. */
int ag_fixed_folder(int root, const char *name, mode_t mode);

/* Tells the library why and ends this process. */
AG_NORETURN void ag_die(const char *phase, int sys_errno, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* init.c */
AG_NORETURN void ag_init_main(const struct sb_plan *plan, int procfs);

#endif
