/* SPDX-License-Identifier: Apache-2.0
 * reroot [--user UID:GID] -- COMMAND …: runs a test in a mount namespace whose real root is what "/" is now. The kernel
 * refuses user namespaces in a chroot (current_chrooted() gives EPERM), and test machines made from packages are often
 * just that: a chroot at a plain folder, with no mount below it. Needs root; for anybody else it only executes the command,
 * and a test that needs user namespaces then skips with its reason.
 *
 * Order: the folder must be opened after unshare (a descriptor into the old namespace can't be cloned from) and before
 * setns, which moves us to the namespace's own root; the clone is put on top of that root, which is where the kernel
 * looks when it decides whether a process is chrooted. */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/mount.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/syscall.h>
#include <unistd.h>

static int fail(const char *what)
{
    fprintf(stderr, "reroot: %s: %s\n", what, strerror(errno));
    return 125;
}

static int new_root(void)
{
    char path[4096];
    const char *cwd = getcwd(path, sizeof path);
    int root, self, tree;

    if (unshare(CLONE_NEWNS) < 0)
        return fail("unshare(CLONE_NEWNS)");
    root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
    self = (int)syscall(SYS_pidfd_open, getpid(), 0);
    if (root < 0 || self < 0)
        return fail("open / and this process");
    if (setns(self, CLONE_NEWNS) < 0)
        return fail("setns to the namespace's own root");
    if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
        return fail("make mounts private");
    tree = (int)syscall(SYS_open_tree, root, "", OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_EMPTY_PATH | AT_RECURSIVE);
    if (tree < 0)
        return fail("open_tree of the current root");
    if (syscall(SYS_move_mount, tree, "", AT_FDCWD, "/", MOVE_MOUNT_F_EMPTY_PATH) < 0)
        return fail("move_mount onto /");
    if (fchdir(tree) < 0 || chroot(".") < 0)
        return fail("enter the new root");
    close(tree);
    close(self);
    close(root);
    if ((!cwd || chdir(cwd) < 0) && chdir("/") < 0)
        return fail("chdir");
    return 0;
}

int main(int argc, char **argv)
{
    unsigned int uid = 0, gid = 0;
    int drop = 0, at = 1, r;

    if (argc > 2 && strcmp(argv[1], "--user") == 0) {
        if (sscanf(argv[2], "%u:%u", &uid, &gid) != 2) {
            fprintf(stderr, "reroot: --user wants UID:GID\n");
            return 125;
        }
        drop = 1;
        at = 3;
    }
    if (argc > at && strcmp(argv[at], "--") == 0)
        at++;
    if (at >= argc) {
        fprintf(stderr, "usage: reroot [--user UID:GID] -- COMMAND …\n");
        return 125;
    }
    if (geteuid() == 0) {
        r = new_root();
        if (r != 0)
            return r;
        if (drop && (setgroups(0, NULL) < 0 || setresgid(gid, gid, gid) < 0 || setresuid(uid, uid, uid) < 0))
            return fail("drop to the user");
    }
    execvp(argv[at], argv + at);
    fail(argv[at]);
    return errno == ENOENT ? 127 : 126;
}
