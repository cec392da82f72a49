/* SPDX-License-Identifier: Apache-2.0
 * An overlay's layer of a bounded size: a disk image of its own, which each who needs it (stage, a look from outside) mounts for itself, in its
 * own mount namespace. So nothing has to be unmounted, whoever dies when: the loop device goes with the last mount. The kernel gives all of them
 * one file system. */
#include "stage.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fs.h>
#include <loop.h>
#include <util.h>

static int give_folder(const struct ag_stage *s, int disk, const char *name, mode_t mode)
{
    SB_CLOSE int fd = sb_open_dir(disk, name, mode);

    return fd < 0 ? fd : fchown(fd, s->plan->map.uid_start, s->plan->map.gid_start) < 0 ? -errno : 0;
}

int ag_stage_open_disk(const struct ag_stage *s, const char *folder)
{
    char path[600];
    SB_CLOSE int image = -1, disk = -1;
    int r;

    snprintf(path, sizeof path, "%s/image", folder);
    image = sb_open_beneath(SB_FD_ROOT, path, O_RDWR | O_NOFOLLOW, 0);
    if (image < 0)
        ag_die("disk", -image, "the layer's disk can't be opened");
    disk = sb_loop_mount(image, "ext4", MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV);
    if (disk < 0)
        ag_die("disk", -disk, "the layer's disk can't be mounted");
    r = sb_remove_tree(disk, "work"); /* left by a volatile overlay, it would refuse the next mount */
    if (!r)
        r = give_folder(s, disk, "upper", 0755);
    if (!r)
        r = give_folder(s, disk, "work", 0700);
    if (r || fchownat(disk, "", s->plan->map.uid_start, s->plan->map.gid_start, AT_EMPTY_PATH) < 0)
        ag_die("disk", r ? -r : errno, "no folders can be made on the layer's disk");
    return SB_TAKE_FD(disk);
}
