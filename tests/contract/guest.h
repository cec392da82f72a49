/* SPDX-License-Identifier: Apache-2.0
 * guest-fuse.c: a FUSE file system without a library on each folder: "hello" says where it is mounted, "note" takes what is
 * written into it. Says "mounted N" and serves until it is ended; a SIGUSR1 makes it unmount by umount2(path, 0) and say how that
 * went, folder by folder. 0, or an exit status. */
#ifndef CONTRACT_GUEST_H
#define CONTRACT_GUEST_H

int guest_fuse(int n, char **folders);

#endif
