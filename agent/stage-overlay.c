/* SPDX-License-Identifier: Apache-2.0
 * Folders of the machine that can be written to inside and never change: an overlay with the folder below and a layer of the sandbox's
 * own above, or, where the kernel makes none of it, a copy.
 *
 * Whether it does depends on the file systems on both sides, on what they are themselves mounted on, on the kernel and on the privilege;
 * nobody has ever guessed it right. So it is tried, at each start: the real mount, at the real place, in the namespace of a sandbox
 * that nothing has been promised of yet. What came of it goes to the library with the kernel's own words.
 *
 * Always `userxattr`: one dialect for root and for users, and the layer can be read with no privilege. */
#include "stage.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <fs.h>
#include <util.h>

#include "message.h"

#define COPY "copy" /* in the place of the upper, once it is whole */
#define UNFINISHED "copy.new"

static int is_overlay(const struct ag_stage *s, uint32_t i)
{
    return s->plan->mounts[i].type == SB_PLAN_MOUNT_OVERLAY;
}

void ag_park_overlays(struct ag_stage *s, int park)
{
    char name[16];

    for (uint32_t i = 0; i < s->plan->n_mounts; i++) {
        if (!is_overlay(s, i))
            continue;
        snprintf(name, sizeof name, "m%u", i);
        ag_park_tree(park, name, &s->mounts[i]);
        snprintf(name, sizeof name, "u%u", i);
        ag_park_tree(park, name, &s->uppers[i]);
    }
}

/* The last thing that the kernel said about a mount it refused; the plain errno when it said nothing. */
static void explain(int fs, int sys_errno, char *reason, size_t size)
{
    char line[256];
    ssize_t n;

    snprintf(reason, size, "the kernel makes no overlay here: %s", strerror(sys_errno));
    while ((n = read(fs, line, sizeof line - 1)) > 0) {
        line[n] = 0;
        line[strcspn(line, "\n")] = 0;
        if (line[0] == 'e' && line[1] == ' ')
            snprintf(reason, size, "the kernel makes no overlay here: %.150s", line + 2);
    }
}

static int set(int fs, const char *key, const char *folder, uint32_t i, const char *below)
{
    char path[32];

    snprintf(path, sizeof path, "%s%u%s", folder, i, below);
    return fsconfig(fs, FSCONFIG_SET_STRING, key, path, 0);
}

/* A detached mount, or -1 and why. Names are relative to the park, where this process stands. */
static int try_kernel(const struct ag_stage *s, uint32_t i, char *reason, size_t size)
{
    SB_CLOSE int fs = fsopen("overlay", FSOPEN_CLOEXEC), mnt = -1;
    struct statvfs st;

    if (fs < 0) {
        snprintf(reason, size, "this kernel has no overlay file system: %s", strerror(errno));
        return -1;
    }
    if (set(fs, "lowerdir", "m", i, "") < 0 || set(fs, "upperdir", "u", i, "/upper") < 0 || set(fs, "workdir", "u", i, "/work") < 0 ||
        fsconfig(fs, FSCONFIG_SET_FLAG, "userxattr", NULL, 0) < 0 ||
        ((s->plan->flags & SB_PLAN_VOLATILE) && fsconfig(fs, FSCONFIG_SET_FLAG, "volatile", NULL, 0) < 0) ||
        fsconfig(fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0) {
        explain(fs, errno, reason, size);
        return -1;
    }
    mnt = fsmount(fs, FSMOUNT_CLOEXEC, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV);
    if (mnt < 0 || fstatvfs(mnt, &st) < 0) {
        snprintf(reason, size, "the overlay can't be mounted: %s", strerror(errno));
        return -1;
    }
    if (st.f_flag & ST_RDONLY) { /* what the kernel makes of a work folder that it can't use */
        snprintf(reason, size, "the kernel's overlay would be read-only here: the upper's file system lacks what it needs");
        return -1;
    }
    return SB_TAKE_FD(mnt);
}

/* A layer that was written to belongs to its overlay: a copy beside it would hide what is in it. */
static int is_empty(int folder, const char *name)
{
    SB_CLOSE int fd = sb_open_beneath(folder, name, O_RDONLY | O_DIRECTORY, 0);
    char entries[1024];
    ssize_t n = fd < 0 ? 0 : ag_getdents(fd, entries, sizeof entries), more = n > 0 ? ag_getdents(fd, entries, 64) : 0;

    return n <= 0 || (n <= 48 && more <= 0); /* "." and ".." take 24 bytes each */
}

static int copy_instead(struct ag_stage *s, uint32_t i, int place, const char *reason)
{
    const char *where = SB_PLAN_STRING(s->plan, s->plan->mounts[i].target);
    char name[16], path[32];
    SB_CLOSE int lower = -1, copy = -1;
    int r;

    if (!is_empty(place, "upper"))
        ag_die("overlay", EXDEV, "what was written at %s can't be shown: %s", where, reason);
    snprintf(name, sizeof name, "m%u", i);
    lower = sb_open_beneath(AT_FDCWD, name, O_RDONLY | O_DIRECTORY, 0);
    if (lower < 0)
        ag_die("overlay", -lower, "the folder for %s can't be read", where);
    r = sb_remove_tree(place, UNFINISHED); /* of a start that was cut short */
    if (r || mkdirat(place, UNFINISHED, 0700) < 0 || (copy = sb_open_beneath(place, UNFINISHED, O_RDONLY | O_DIRECTORY, 0)) < 0)
        ag_die("overlay", r ? -r : errno, "no folder for a copy for %s", where);
    ag_copy_tree(s, i, lower, copy, where);
    if (renameat(place, UNFINISHED, place, COPY) < 0)
        ag_die("overlay", errno, "the copy for %s can't be kept", where);
    snprintf(path, sizeof path, "u%u/" COPY, i);
    return ag_clone_tree(AT_FDCWD, path, "the copy for");
}

static void tell(const struct ag_stage *s, uint32_t i, const char *kind, const char *reason)
{
    struct sb_control message = { .type = SB_CONTROL_OVERLAY, .pid = (int32_t)s->plan->mounts[i].number };

    snprintf(message.phase, sizeof message.phase, "%s", kind);
    snprintf(message.detail, sizeof message.detail, "%s", reason);
    (void)ag_send(SB_FD_CONTROL, &message, sizeof message, -1, 0); /* nobody to hear it: no COMMIT will come either */
}

void ag_child_overlay(struct ag_stage *s, uint32_t i)
{
    char reason[228] = "", path[32];
    SB_CLOSE int place = -1;
    int have_copy;

    snprintf(path, sizeof path, "u%u", i);
    place = sb_open_beneath(AT_FDCWD, path, O_RDONLY | O_DIRECTORY, 0);
    if (place < 0)
        ag_die("overlay", -place, "the layer for %s can't be opened", SB_PLAN_STRING(s->plan, s->plan->mounts[i].target));
    have_copy = faccessat(place, COPY, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
    if (have_copy)
        snprintf(reason, sizeof reason, "the kernel made no overlay here at an earlier start: the copy is kept until a reset");
    else if (s->unmapped[i])
        snprintf(reason, sizeof reason, "the folder's file system can't map ids: %s", strerror(s->unmapped[i]));
    else
        s->mounts[i] = try_kernel(s, i, reason, sizeof reason);
    if (s->mounts[i] >= 0) {
        tell(s, i, "kernel", "the kernel's overlay could be mounted");
        return;
    }
    snprintf(path, sizeof path, "u%u/" COPY, i);
    s->mounts[i] = have_copy ? ag_clone_tree(AT_FDCWD, path, "the copy for") : copy_instead(s, i, place, reason);
    if (mount_setattr(s->mounts[i], "", AT_EMPTY_PATH, &(struct mount_attr){ .attr_set = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV },
                      sizeof(struct mount_attr)) < 0)
        ag_die("overlay", errno, "the flags of a copy can't be set");
    tell(s, i, "copy", reason);
}

void ag_child_overlays(struct ag_stage *s)
{
    for (uint32_t i = 0; i < s->plan->n_mounts; i++)
        if (is_overlay(s, i))
            ag_child_overlay(s, i);
}
