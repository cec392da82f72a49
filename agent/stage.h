/* SPDX-License-Identifier: Apache-2.0
 * What the two halves of the stage share: the parent, which parks every mount, and the child, which becomes init. */
#ifndef SB_AGENT_STAGE_H
#define SB_AGENT_STAGE_H

#include <plan.h>

#define AG_NORETURN __attribute__((noreturn))

struct ag_stage {
    const struct sb_plan *plan;
    int proc;          /* the machine's procfs */
    int go[2];         /* the child waits for a byte, or the end, here */
    int null;          /* O_PATH on a real /dev/null for masks: the sandbox's own */
    const char *park;  /* folder that the parked mounts hide */
    /* parent only: detached mounts on their way to the park */
    int rw, dev, layers[SB_PLAN_MAX_LAYERS], mounts[SB_PLAN_MAX_MOUNTS];
};

int ag_stage_main(int argc, char **argv);

/* stage-mounts.c: the parent half's mounts */
void ag_stage_open_trees(struct ag_stage *s);
void ag_stage_make_dev(struct ag_stage *s);
void ag_stage_park(struct ag_stage *s);

/* stage-child.c, stage-masks.c: in the clone */
AG_NORETURN void ag_child_main(struct ag_stage *s);
void ag_child_masks(int procfs, int null);
/* Opens `path` (absolute, inside) below root, with missing parts made; the last one a folder or an empty file. */
int ag_child_target(int root, const char *path, int folder);

/* Tells the library why and ends this process. */
AG_NORETURN void ag_die(const char *phase, int sys_errno, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* init.c */
AG_NORETURN void ag_init_main(const struct sb_plan *plan, int procfs);

#endif
