/* SPDX-License-Identifier: Apache-2.0
 * hungfuse FOLDER: a FUSE daemon without a library that mounts at FOLDER, answers INIT and the first GETATTR of its root, and then
 * never again: whatever looks below FOLDER hangs. Needs /dev/fuse and CAP_SYS_ADMIN in the sandbox. */
#include "guest.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

static _Alignas(8) char request[1 << 17];

static int answer(int fd, uint64_t unique, int error, const void *data, size_t size)
{
    struct fuse_out_header header = { .len = (uint32_t)(sizeof header + size), .error = error, .unique = unique };
    struct iovec parts[] = { { &header, sizeof header }, { (void *)data, size } };

    return writev(fd, parts, size ? 2 : 1) < 0 ? -1 : 0;
}

static int init_reply(int fd, const struct fuse_in_header *in)
{
    struct fuse_init_out out = { .major = FUSE_KERNEL_VERSION, .minor = 31, .max_write = 4096, .max_background = 4 };

    return answer(fd, in->unique, 0, &out, sizeof out);
}

static int root_reply(int fd, const struct fuse_in_header *in)
{
    struct fuse_attr_out out = { .attr = { .ino = 1, .mode = S_IFDIR | 0755, .nlink = 2 } };

    return answer(fd, in->unique, 0, &out, sizeof out);
}

int main(int argc, char **argv)
{
    const struct fuse_in_header *in = (const struct fuse_in_header *)request;
    char options[128];
    int fd;

    guest_only_in_a_sandbox();
    if (argc != 2)
        return 2;
    fd = open("/dev/fuse", O_RDWR | O_CLOEXEC);
    if (fd < 0) {
        perror("/dev/fuse");
        return 3;
    }
    mkdir(argv[1], 0755);
    snprintf(options, sizeof options, "fd=%d,rootmode=40000,user_id=0,group_id=0,allow_other", fd);
    if (mount("hungfuse", argv[1], "fuse", MS_NOSUID | MS_NODEV, options) < 0) {
        perror("mount");
        return 4;
    }
    printf("mounted\n");
    fflush(stdout);
    for (;;) {
        if (read(fd, request, sizeof request) < 0) {
            if (errno == EINTR || errno == EAGAIN || errno == ENOENT)
                continue;
            return 5;
        }
        if (in->opcode == FUSE_INIT)
            init_reply(fd, in);
        else if (in->opcode == FUSE_GETATTR && in->nodeid == 1)
            root_reply(fd, in);
        else if (in->opcode == FUSE_ACCESS && in->nodeid == 1)
            answer(fd, in->unique, 0, NULL, 0);
        /* and nothing else, ever */
    }
}
