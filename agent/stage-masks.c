/* SPDX-License-Identifier: Apache-2.0
 * What of /proc is hidden or read-only. Everything is found below the descriptor of the procfs that this child has just mounted, so
 * that no path of the image has a say, and a mask's source is checked to be the null device before it is used. */
#include "stage.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <fs.h>
#include <util.h>

static const char *const read_only[] = { "sys", "bus", "fs", "irq", "sysrq-trigger" };
/* Only what others than the machine's root may read: nobody inside is that root, and the rest of /proc says so by its modes. */
static const char *const hidden_files[] = {
    "kcore",      "keys",        "key-users",  "kallsyms", "kmsg",    "latency_stats",
    "timer_list", "sched_debug", "interrupts", "iomem",    "ioports", "config.gz",
};
static const char *const hidden_folders[] = { "acpi", "scsi" };

static int clone_at(int dir, const char *path, int flags)
{
    return open_tree(dir, path, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | flags);
}

static void make_read_only(int procfs, const char *name)
{
    struct mount_attr attr = { .attr_set = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC };
    SB_CLOSE int tree = clone_at(procfs, name, AT_SYMLINK_NOFOLLOW);

    if (tree < 0 && errno == ENOENT)
        return;
    if (tree < 0 || mount_setattr(tree, "", AT_EMPTY_PATH, &attr, sizeof attr) < 0 ||
        move_mount(tree, "", procfs, name, MOVE_MOUNT_F_EMPTY_PATH) < 0)
        ag_die("masks", errno, "/proc/%s can't be made read-only", name);
}

/* Covers with a clone of source; or with source itself when it is not attached yet: older kernels clone only what is. Returns 1 when done. */
static int cover(int procfs, const char *name, int source, int attached)
{
    SB_CLOSE int target = sb_open_beneath(procfs, name, O_PATH, 0), tree = -1;

    if (target == -ENOENT)
        return 0;
    if (target < 0)
        ag_die("masks", -target, "/proc/%s can't be opened", name);
    if (attached && (tree = clone_at(source, "", AT_EMPTY_PATH)) < 0)
        ag_die("masks", errno, "the mask for /proc/%s can't be cloned", name);
    if (move_mount(attached ? tree : source, "", target, "", MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH) < 0)
        ag_die("masks", errno, "/proc/%s can't be masked", name);
    return 1;
}

static int empty_folder(void)
{
    SB_CLOSE int fs = fsopen("tmpfs", FSOPEN_CLOEXEC);
    int mnt;

    if (fs < 0 || fsconfig(fs, FSCONFIG_SET_STRING, "nr_inodes", "2", 0) < 0 ||
        fsconfig(fs, FSCONFIG_SET_STRING, "mode", "0555", 0) < 0 || fsconfig(fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0)
        ag_die("masks", errno, "no memory file system");
    mnt = fsmount(fs, FSMOUNT_CLOEXEC, MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC);
    if (mnt < 0)
        ag_die("masks", errno, "no memory file system");
    return mnt;
}

void ag_child_masks(int procfs, int null)
{
    struct stat st;
    SB_CLOSE int empty = -1;
    int attached = 0;

    if (fstat(null, &st) < 0 || !S_ISCHR(st.st_mode) || st.st_rdev != makedev(1, 3))
        ag_die("masks", ENODEV, "/dev/null is not the null device");
    for (size_t i = 0; i < SB_ELEMENTS(read_only); i++)
        make_read_only(procfs, read_only[i]);
    for (size_t i = 0; i < SB_ELEMENTS(hidden_files); i++)
        cover(procfs, hidden_files[i], null, 1);
    empty = empty_folder();
    for (size_t i = 0; i < SB_ELEMENTS(hidden_folders); i++)
        attached |= cover(procfs, hidden_folders[i], empty, attached);
}
