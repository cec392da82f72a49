/* SPDX-License-Identifier: Apache-2.0
 * sandbox-agent reset NUMBER: gives an overlay of a sandbox that runs a new layer (plan.h: enum sb_reset_fd).
 *
 * Theory of operation. This program is of the caller, as the stage is. It makes the new overlay as the stage would, over an empty layer that
 * waits beside the old one, in a mount namespace of its own, so that all that can fail has failed before anything changes. Then it enters the
 * namespace that the sandbox's mounts were copied from (init-outer.c), and does three things there, which go on to the sandbox's copy:
 *   1. it unmounts the old overlay. The kernel refuses that as long as anything inside has it in use;
 *   2. it exchanges the two layers' folders on disk: from here on a start takes the new one;
 *   3. it mounts the new overlay.
 * Killed between them it leaves the sandbox with an empty folder at the place, and a next reset or start with the one layer or the other, whole.
 *
 * What comes from init is not trusted: a namespace is entered when it belongs to the caller's own user namespace, or to one that the caller
 * made, as no namespace within a sandbox does. No name of the sandbox's is looked up with these rights, but the one of the place itself,
 * which nobody inside can rename. */
#include "stage.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/nsfs.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/socket.h>
#include <unistd.h>

#include "message.h"
#include "reset-holders.h"

#include <fs.h>
#include <util.h>

struct reset {
    struct ag_stage stage;
    uint32_t mount;         /* in the plan */
    int own;                /* the user namespace of this process */
    int overlay;            /* the new one, detached */
    int covered;            /* it has covers of secrets, which are mounts of their own */
    char where[4096];       /* its place now, as inside sees it */
    char base[256];         /* the last part of it */
    char folder[512], name[24];
};

static int same_file(int a, int b)
{
    struct stat one, two;

    return fstat(a, &one) == 0 && fstat(b, &two) == 0 && one.st_dev == two.st_dev && one.st_ino == two.st_ino;
}

/* Enters the user namespace that the sandbox's mounts belong to, when that is not ours already. */
static void check_outer(struct reset *c)
{
    SB_CLOSE int owner = -1, parent = -1;
    uid_t uid;

    if (ioctl(SB_RESET_FD_OUTER, NS_GET_NSTYPE) != CLONE_NEWNS || (owner = ioctl(SB_RESET_FD_OUTER, NS_GET_USERNS)) < 0)
        ag_die("outer", errno, "what the sandbox's init gave is no mount namespace of this caller");
    fcntl(owner, F_SETFD, FD_CLOEXEC);
    if (same_file(owner, c->own)) {
        if (c->stage.plan->map.privilege != SB_PRIVILEGE_ROOT)
            ag_die("outer", EPERM, "the sandbox's init gave a namespace of the machine's own");
        return;
    }
    parent = ioctl(owner, NS_GET_PARENT);
    if (c->stage.plan->map.privilege == SB_PRIVILEGE_ROOT || parent < 0 || !same_file(parent, c->own) ||
        ioctl(owner, NS_GET_OWNER_UID, &uid) < 0 || uid != geteuid())
        ag_die("outer", EPERM, "the sandbox's init gave a namespace that is not the caller's");
    fcntl(parent, F_SETFD, FD_CLOEXEC);
    if (setns(owner, CLONE_NEWUSER) < 0 || unshare(CLONE_NEWNS) < 0)
        ag_die("outer", errno, "the sandbox's outer namespace can't be entered");
    ag_stage_become_mapped_root(&c->stage);
    ag_stage_reopen_root();
}

static uint32_t find_mount(const struct sb_plan *plan, const char *number)
{
    int64_t wanted;

    if (!sb_parse_int(number, 0, UINT32_MAX, &wanted))
        for (uint32_t i = 0; i < plan->n_mounts; i++)
            if (plan->mounts[i].type == SB_PLAN_MOUNT_OVERLAY && plan->mounts[i].number == (uint32_t)wanted)
                return i;
    ag_die("plan", EBADMSG, "the plan has no such overlay");
}

/* What the new overlay is made of, as detached mounts. */
static void open_parts(struct reset *c)
{
    struct ag_stage *s = &c->stage;
    char upper[600];

    snprintf(upper, sizeof upper, "%s%s", SB_PLAN_STRING(s->plan, s->plan->mounts[c->mount].upper), SB_RESET_SUFFIX);
    ag_stage_open_tree(s, c->mount, upper);
    if (s->plan->map.privilege == SB_PRIVILEGE_ROOT) {
        ag_stage_leave_chroot(s);
        ag_stage_make_inside(s);
    }
    ag_stage_set_tree(s, c->mount);
}

static void make_overlay(struct reset *c)
{
    struct ag_stage *s = &c->stage;
    const char *target = SB_PLAN_STRING(s->plan, s->plan->mounts[c->mount].target);
    SB_CLOSE int park = -1, root = -1;
    char name[16];

    if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
        ag_die("overlay", errno, "no mount namespace to make it in");
    park = ag_child_park(s);
    snprintf(name, sizeof name, "m%u", c->mount);
    ag_park_tree(park, name, &s->mounts[c->mount]);
    snprintf(name, sizeof name, "u%u", c->mount);
    ag_park_tree(park, name, &s->uppers[c->mount]);
    ag_park_covers(s, park);
    ag_leave_reserves();
    if (chdir(s->park) < 0)
        ag_die("park", errno, "the park can't be entered");
    ag_child_overlay(s, c->mount);
    c->overlay = s->mounts[c->mount];
    if (!s->plan->n_hidden)
        return;
    if (mkdirat(park, "whole", 0700) < 0 || move_mount(c->overlay, "", park, "whole", MOVE_MOUNT_F_EMPTY_PATH) < 0 ||
        (root = openat(park, "whole", O_PATH | O_DIRECTORY | O_CLOEXEC)) < 0)
        ag_die("secrets", errno, "the new overlay can't be covered");
    ag_cover_below(s, root, target);
    sb_close(c->overlay);
    c->overlay = open_tree(root, "", OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_RECURSIVE | AT_EMPTY_PATH);
    if (c->overlay < 0)
        ag_die("secrets", errno, "the covered overlay can't be taken along");
    c->covered = 1;
}

static void read_place(struct reset *c)
{
    const char *folder = SB_PLAN_STRING(c->stage.plan, c->stage.plan->mounts[c->mount].upper), *slash = strrchr(folder, '/');
    char link[16], *last;
    SB_CLOSE int fds = openat(c->stage.proc, "self/fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    ssize_t n;

    snprintf(link, sizeof link, "%d", SB_RESET_FD_TARGET);
    n = fds < 0 ? -1 : readlinkat(fds, link, c->where, sizeof c->where - 1);
    last = n > 0 ? memrchr(c->where, '/', (size_t)n) : NULL;
    if (!last || !slash || (size_t)(slash - folder) >= sizeof c->folder || strlen(slash + 1) >= sizeof c->name ||
        (size_t)(c->where + n - last) > sizeof c->base || n < 2)
        ag_die("outer", ENOTDIR, "the sandbox's init gave no place that is mounted on");
    c->where[n] = 0;
    snprintf(c->base, sizeof c->base, "%s", last + 1);
    snprintf(c->folder, sizeof c->folder, "%.*s", (int)(slash - folder), folder);
    snprintf(c->name, sizeof c->name, "%s", slash + 1);
}

static int is_hidden(const void *data, const char *place)
{
    const struct reset *c = data;
    const struct sb_plan *plan = c->stage.plan;
    const char *path = SB_PLAN_STRING(plan, plan->hidden), *end = (const char *)plan + plan->size;
    const char *target = SB_PLAN_STRING(plan, plan->mounts[c->mount].target);

    /* the place may have another name by now, what is below it not */
    for (uint32_t i = 0; i < plan->n_hidden && path < end; i++, path += strlen(path) + 1)
        if (!strncmp(path, target, strlen(target)) && !strcmp(path + strlen(target), place + strlen(c->where)))
            return 1;
    return 0;
}

static void refuse_holders(const struct reset *c, pid_t init)
{
    char text[200];

    if (ag_holders_find(c->stage.proc, init, c->where, text, sizeof text))
        ag_die("busy", 0, "%s", text);
    if (ag_holders_mount(c->stage.proc, init, c->where, is_hidden, c, text, sizeof text))
        ag_die("busy", 0, "%s is mounted inside", text);
}

/* A second mount of the old overlay, nowhere attached: with it the file system itself, whose end may have to wait for the disk, outlives
 * the exchange. -1: none is mounted. */
static int hold_old(const struct reset *c)
{
    SB_CLOSE int above = openat(SB_RESET_FD_TARGET, "..", O_PATH | O_DIRECTORY | O_CLOEXEC);
    SB_CLOSE int old = above < 0 ? -1 : openat(above, c->base, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

    return old < 0 || same_file(old, SB_RESET_FD_TARGET) ? -1 : open_tree(old, "", OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_EMPTY_PATH);
}

static void exchange(struct reset *c)
{
    SB_CLOSE int folder = sb_open_beneath(SB_FD_ROOT, c->folder, O_PATH | O_DIRECTORY, 0), old = -1;
    SB_CLOSE int fds = openat(c->stage.proc, "self/fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    char link[16], fresh[40];

    snprintf(link, sizeof link, "%d", SB_RESET_FD_TARGET);
    snprintf(fresh, sizeof fresh, "%s%s", c->name, SB_RESET_SUFFIX);
    if (folder < 0 || fds < 0)
        ag_die("reset", folder < 0 ? -folder : errno, "the layers' folder can't be opened");
    if (setns(SB_RESET_FD_OUTER, CLONE_NEWNS) < 0 || fchdir(fds) < 0)
        ag_die("outer", errno, "the namespace of the sandbox's mounts can't be entered");
    old = hold_old(c);
    /* EINVAL: nothing is mounted there, after a reset that was cut short */
    if (umount2(link, c->covered ? MNT_DETACH : 0) < 0 && errno != EINVAL)
        ag_die(errno == EBUSY ? "busy" : "reset", errno == EBUSY ? 0 : errno,
               errno == EBUSY ? "something inside, such as a descriptor on its way between processes or a thread's own folder"
                              : "the overlay can't be unmounted");
    if (renameat2(folder, c->name, folder, fresh, RENAME_EXCHANGE) < 0)
        ag_die("reset", errno, "the new layer can't take the old one's place");
    if (move_mount(c->overlay, "", SB_RESET_FD_TARGET, "", MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH) < 0)
        ag_die("reset", errno, "the new overlay can't be mounted");
}

/* argv: reset NUMBER PID-OF-INIT */
int ag_reset_main(int argc, char **argv)
{
    static struct reset c = { .stage = { .proc = -1, .outer = -1, .inside = -1 }, .overlay = -1 };
    struct sb_control message = { .type = SB_CONTROL_READY };
    int64_t init;

    if (argc != 4 || sb_parse_int(argv[3], 1, INT32_MAX, &init))
        return 2;
    close_range(SB_RESET_FD_END, ~0u, 0);
    for (int fd = SB_RESET_FD_PLAN; fd < SB_RESET_FD_END; fd++)
        fcntl(fd, F_SETFD, FD_CLOEXEC);
    umask(0);
    c.stage.plan = ag_stage_load_plan();
    c.mount = find_mount(c.stage.plan, argv[2]);
    ag_stage_open_proc(&c.stage);
    if (c.stage.plan->map.privilege == SB_PRIVILEGE_ROOT)
        prctl(PR_SET_DUMPABLE, 0);
    c.own = openat(c.stage.proc, "self/ns/user", O_RDONLY | O_CLOEXEC);
    if (c.own < 0)
        ag_die("proc", errno, "this process's user namespace can't be read");
    read_place(&c);
    check_outer(&c);
    refuse_holders(&c, (pid_t)init);
    open_parts(&c);
    make_overlay(&c);
    exchange(&c);
    (void)ag_send(SB_FD_CONTROL, &message, sizeof message, -1, 0);
    return 0;
}
