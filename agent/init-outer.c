/* SPDX-License-Identifier: Apache-2.0
 * What a reset of an overlay needs while the sandbox runs, kept by init, which can do nothing with it.
 *
 * The sandbox's mounts are a locked copy: nobody inside, init neither, can take one away. Only the namespace that they were copied from can:
 * what is mounted or unmounted there goes on to the copy. So where a sandbox has overlays that namespace is kept, by a descriptor, and for
 * each of them what it is mounted on. To enter it takes rights over the user namespace that it belongs to, the caller's, which nothing here
 * has; a reset's helper, started from outside, has them (stage-reset.c). */
#include "init-loop.h"
#include "stage.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mount.h>
#include <unistd.h>

#include <util.h>

static int outer = -1, first_target, n_targets;
static uint32_t numbers[SB_PLAN_MAX_MOUNTS];

static uint32_t count_overlays(const struct sb_plan *plan)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < plan->n_mounts; i++)
        n += plan->mounts[i].type == SB_PLAN_MOUNT_OVERLAY;
    return n;
}

void ag_outer_open(struct ag_stage *s)
{
    SB_CLOSE int fd = -1;

    s->outer = -1;
    if (!count_overlays(s->plan))
        return;
    /* the copy of what is shared receives, and sends nothing */
    if (mount(NULL, "/", NULL, MS_REC | MS_SHARED, NULL) < 0)
        ag_die("outer", errno, "the mounts can't be tied to their copy");
    fd = openat(s->proc, "self/ns/mnt", O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        ag_die("outer", errno, "the mount namespace can't be kept");
    /* out of the way of init's own numbers */
    s->outer = fcntl(fd, F_DUPFD_CLOEXEC, SB_FD_OOM_SCORE + 1);
    for (uint32_t i = 0; i < s->plan->n_mounts; i++)
        if (s->plan->mounts[i].type == SB_PLAN_MOUNT_OVERLAY)
            s->targets[i] = fcntl(s->targets[i], F_DUPFD_CLOEXEC, SB_FD_OOM_SCORE + 1);
}

/* Whoever started us may have left us few descriptors: then this sandbox is reset when it is stopped. */
int ag_outer_keep(const struct ag_stage *s, int first)
{
    int n = (int)count_overlays(s->plan), high[SB_PLAN_MAX_MOUNTS + 1], kept = 0;

    if (s->outer < 0)
        return first;
    high[0] = fcntl(s->outer, F_DUPFD_CLOEXEC, first + n + 1);
    for (uint32_t i = 0; i < s->plan->n_mounts && high[kept] >= 0; i++)
        if (s->plan->mounts[i].type == SB_PLAN_MOUNT_OVERLAY) {
            numbers[kept] = s->plan->mounts[i].number;
            high[++kept] = fcntl(s->targets[i], F_DUPFD_CLOEXEC, first + n + 1);
        }
    if (high[kept] < 0 || kept != n)
        return first;
    for (int i = 0; i <= n; i++)
        if (dup3(high[i], first + i, O_CLOEXEC) < 0)
            return first;
    outer = first;
    first_target = first + 1;
    n_targets = n;
    return first + n + 1;
}

void ag_outer_give(struct ag_slot *s, const struct sb_request *q)
{
    const struct sb_reply r = { .type = SB_REPLY_DIALED };
    int fd = q->port == -1 ? outer : -1;

    for (int i = 0; i < n_targets && fd < 0; i++)
        if (q->port >= 0 && numbers[i] == (uint32_t)q->port)
            fd = first_target + i;
    if (fd < 0)
        ag_fail(s, SB_STEP_REQUEST, ENOTSUP);
    else
        ag_reply(s, &r, fd);
}
