/* SPDX-License-Identifier: Apache-2.0
 * Disk images by loop devices. One image has one loop device on a kernel, whoever mounts it in whatever mount namespace: two devices would be two
 * file systems on the same blocks. So whoever looks for one holds the image's lock until it is mounted or given up. */
#ifndef SB_BASE_LOOP_H
#define SB_BASE_LOOP_H

#include <stddef.h>

/* A loop device that has this image, found or made, and its path: a descriptor, or -errno. It goes with its last user. */
int sb_loop_open(int image, char *path, size_t size);
/* The file system on the image, as a detached mount with such attributes (MOUNT_ATTR_…), or -errno. */
int sb_loop_mount(int image, const char *file_system, unsigned int attributes);

#endif
