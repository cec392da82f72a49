/* SPDX-License-Identifier: Apache-2.0
 * Volumes that are disk images: made by the machine's own mkfs, mounted by a loop device. Root alone can mount one. The image is below
 * a 0700 folder and what is on it was written through a mounted file system only, so the kernel may believe it. */
#include "volume.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <errors.h>
#include <fs.h>
#include <loop.h>
#include <process.h>

enum { MKFS_MS = 120000 };

static int find_program(const char *name)
{
    static const char *const folders[] = { "/usr/sbin", "/sbin", "/usr/bin", "/bin", "/usr/local/sbin" };
    char path[64];
    int fd = -ENOENT;

    for (size_t i = 0; i < SB_ELEMENTS(folders) && fd < 0; i++) {
        snprintf(path, sizeof path, "%s/%s", folders[i], name);
        fd = open(path, O_RDONLY | O_CLOEXEC);
    }
    return fd < 0 ? -ENOENT : fd;
}

/* The last line that mkfs wrote, for people. */
static void last_words(int output, char *text, size_t size)
{
    SB_FREE char *all = NULL;
    size_t n = 0;
    char *line;

    *text = 0;
    if (lseek(output, 0, SEEK_SET) < 0 || sb_read_fd(output, 1 << 16, &all, &n))
        return;
    while (n && all[n - 1] == '\n')
        all[--n] = 0;
    line = strrchr(all, '\n');
    snprintf(text, size, "%s", line ? line + 1 : all);
    for (char *p = text; *p; p++)
        if ((unsigned char)*p < 32 || *p == 127)
            *p = '?';
}

static int run_mkfs(struct sb_engine *engine, const char *name, char *const argv[], struct sandbox_error **error)
{
    SB_CLOSE int exe = find_program(name), output = memfd_create("mkfs", MFD_CLOEXEC), pidfd = -1;
    struct sb_spawn_fd fds[] = { { engine->null, 0 }, { output, 1 }, { output, 2 } };
    siginfo_t info = { 0 };
    char words[200];
    int r;

    if (exe < 0)
        return sb_fail(error,
                       SB_ARGS(SANDBOX_EUNSUPPORTED, .sys_errno = ENOENT, .phase = "mkfs", .field = "file_system",
                               .hint = "install e2fsprogs, xfsprogs or btrfs-progs"),
                       "this machine has no %s", name);
    if (output < 0)
        return sb_fail_errno(error, errno, "mkfs", "no memory for the output of %s", name);
    r = sb_spawn_watched(exe, argv, fds, SB_ELEMENTS(fds), NULL, &pidfd);
    if (r == -ESRCH) /* how it ended is nobody's to know: a mount will tell */
        return 0;
    if (r)
        return sb_fail_errno(error, -r, "mkfs", "%s can't be started", name);
    if (SB_RETRY(poll(&(struct pollfd){ .fd = pidfd, .events = POLLIN }, 1, MKFS_MS)) != 1) {
        syscall(SYS_pidfd_send_signal, pidfd, SIGKILL, NULL, 0);
        sb_children_add(engine, pidfd);
        return sb_fail(error, SB_ARGS(SANDBOX_ETIMEDOUT, .phase = "mkfs"), "%s did not end within %d ms", name, MKFS_MS);
    }
    if (SB_RETRY(waitid(P_PIDFD, (id_t)pidfd, &info, WEXITED | WNOHANG)) == 0 && info.si_pid &&
        (info.si_code != CLD_EXITED || info.si_status)) {
        last_words(output, words, sizeof words);
        return sb_fail(error, SB_ARGS(SANDBOX_EINVALID, .phase = "mkfs", .field = "bytes"), "%s failed: %s", name, words);
    }
    return 0;
}

int sb_disk_make(struct sb_engine *engine, int folder, const char *path, const char *file_system, int64_t bytes, struct sandbox_error **error)
{
    static char quiet[] = "-q", force[] = "-F", force_small[] = "-f";
    SB_CLOSE int image = openat(folder, SB_DISK_UNFINISHED, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    char name[16], file[4200];
    char *const ext4[] = { name, quiet, force, file, NULL }, *const others[] = { name, quiet, force_small, file, NULL };
    int r;

    if (image < 0 || ftruncate(image, bytes) < 0)
        return sb_fail_errno(error, errno, "volume", "the disk's image of %lld bytes can't be made", (long long)bytes);
    snprintf(name, sizeof name, "mkfs.%s", file_system);
    snprintf(file, sizeof file, "%s/" SB_DISK_UNFINISHED, path);
    r = run_mkfs(engine, name, strcmp(file_system, "ext4") ? others : ext4, error);
    if (!r && (fsync(image) < 0 || renameat(folder, SB_DISK_UNFINISHED, folder, "image") < 0))
        r = sb_fail_errno(error, errno, "volume", "the disk's image can't be written");
    return r;
}

int sb_disk_is_mounted(int folder)
{
    struct stat inner, outer;

    return fstatat(folder, "data", &inner, AT_SYMLINK_NOFOLLOW) == 0 && fstat(folder, &outer) == 0 && inner.st_dev != outer.st_dev;
}

int sb_disk_mount(int folder, const char *path, const char *file_system, struct sandbox_error **error)
{
    SB_CLOSE int image = -1, loop = -1;
    char device[64], target[4200];

    if (sb_disk_is_mounted(folder))
        return 0;
    image = openat(folder, "image", O_RDWR | O_NOFOLLOW | O_CLOEXEC);
    if (image < 0)
        return sb_fail_errno(error, errno, "volume", "the volume's image can't be opened");
    loop = sb_loop_open(image, device, sizeof device);
    if (loop < 0)
        return sb_fail(error,
                       SB_ARGS(loop == -EPERM || loop == -EACCES ? SANDBOX_EDENIED : SANDBOX_EUNSUPPORTED, .sys_errno = -loop, .phase = "loop",
                               .hint = "a disk needs root and /dev/loop-control; make a folder volume"),
                       "no loop device for the volume's disk: %s", strerrordesc_np(-loop));
    snprintf(target, sizeof target, "%s/data", path);
    if (mount(device, target, file_system, MS_NOSUID | MS_NODEV, NULL) < 0)
        return sb_fail(error,
                       SB_ARGS(errno == EUCLEAN || errno == EINVAL ? SANDBOX_EDAMAGED : sb_code_from_errno(errno), .sys_errno = errno,
                               .phase = "mount", .hint = "see the kernel's log; fsck its image while no sandbox has it"),
                       "the volume's %s can't be mounted: %s", file_system, strerrordesc_np(errno));
    return 0;
}
