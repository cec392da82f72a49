/* SPDX-License-Identifier: Apache-2.0
 * A FUSE daemon by the kernel's own protocol (linux/fuse.h): one process, one device descriptor and one mount for each folder,
 * with the mount options of LayerFS. Two files below each root: "hello", which names the folder, and "note", which holds up to
 * 64 KiB that anybody may write. See guest.h. */
#include "guest.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

enum { MOUNTS_MAX = 64, NOTE_MAX = 65536, ROOT = 1, HELLO = 2, NOTE = 3 };

static struct workspace {
    const char *folder;
    char hello[256];
    char *note;
    size_t note_size;
    uint32_t note_uid, note_gid;
    int fd;
} spaces[MOUNTS_MAX];
static _Alignas(8) char request[NOTE_MAX * 4];

static void answer(struct workspace *w, uint64_t unique, int error, const void *data, size_t size)
{
    struct fuse_out_header header = { .len = (uint32_t)(sizeof header + (error ? 0 : size)), .error = -error, .unique = unique };
    struct iovec parts[] = { { &header, sizeof header }, { (void *)data, size } };

    if (writev(w->fd, parts, error || !size ? 1 : 2) < 0 && errno != ENOENT) /* ENOENT: it was interrupted */
        perror("answer");
}

static struct fuse_attr attributes(const struct workspace *w, uint64_t node)
{
    struct fuse_attr a = { .ino = node, .nlink = 1, .blksize = 4096 };

    a.mode = node == ROOT ? S_IFDIR | 0755 : node == HELLO ? S_IFREG | 0444 : S_IFREG | 0666;
    a.nlink = node == ROOT ? 2 : 1;
    a.size = node == HELLO ? strlen(w->hello) : node == NOTE ? w->note_size : 0;
    a.uid = node == NOTE ? w->note_uid : 0;
    a.gid = node == NOTE ? w->note_gid : 0;
    return a;
}

static void look_up(struct workspace *w, const struct fuse_in_header *in, const char *name)
{
    struct fuse_entry_out out = { 0 };

    out.nodeid = !strcmp(name, "hello") ? HELLO : !strcmp(name, "note") ? NOTE : 0;
    out.attr = attributes(w, out.nodeid);
    answer(w, in->unique, out.nodeid ? 0 : ENOENT, &out, sizeof out);
}

static void get_attributes(struct workspace *w, const struct fuse_in_header *in)
{
    struct fuse_attr_out out = { .attr = attributes(w, in->nodeid) };

    answer(w, in->unique, 0, &out, sizeof out);
}

static void set_attributes(struct workspace *w, const struct fuse_in_header *in, const struct fuse_setattr_in *set)
{
    if (in->nodeid != NOTE) {
        answer(w, in->unique, EPERM, NULL, 0);
        return;
    }
    if (set->valid & FATTR_SIZE) {
        size_t size = set->size < NOTE_MAX ? set->size : NOTE_MAX;

        if (size > w->note_size)
            memset(w->note + w->note_size, 0, size - w->note_size);
        w->note_size = size;
    }
    if (set->valid & FATTR_UID)
        w->note_uid = set->uid;
    if (set->valid & FATTR_GID)
        w->note_gid = set->gid;
    get_attributes(w, in);
}

static void read_file(struct workspace *w, const struct fuse_in_header *in, const struct fuse_read_in *r)
{
    const char *data = in->nodeid == HELLO ? w->hello : w->note;
    size_t size = in->nodeid == HELLO ? strlen(w->hello) : w->note_size;
    size_t at = r->offset < size ? r->offset : size, n = size - at < r->size ? size - at : r->size;

    answer(w, in->unique, 0, data + at, n);
}

static void write_file(struct workspace *w, const struct fuse_in_header *in, const struct fuse_write_in *wr)
{
    struct fuse_write_out out = { .size = wr->size };

    if (in->nodeid != NOTE || wr->offset > NOTE_MAX || wr->size > NOTE_MAX - wr->offset) {
        answer(w, in->unique, in->nodeid == NOTE ? ENOSPC : EACCES, NULL, 0);
        return;
    }
    if (wr->offset > w->note_size)
        memset(w->note + w->note_size, 0, wr->offset - w->note_size);
    memcpy(w->note + wr->offset, wr + 1, wr->size);
    if (wr->offset + wr->size > w->note_size)
        w->note_size = wr->offset + wr->size;
    w->note_uid = in->uid;
    w->note_gid = in->gid;
    answer(w, in->unique, 0, &out, sizeof out);
}

static size_t add_entry(char *to, size_t at, uint64_t node, const char *name)
{
    struct fuse_dirent *d = (struct fuse_dirent *)(to + at);

    *d = (struct fuse_dirent){ .ino = node, .off = node, .namelen = (uint32_t)strlen(name), .type = S_IFREG >> 12 };
    memcpy(d->name, name, strlen(name));
    return at + FUSE_DIRENT_SIZE(d);
}

static void read_folder(struct workspace *w, const struct fuse_in_header *in, const struct fuse_read_in *r)
{
    _Alignas(8) char entries[256] = { 0 };
    size_t n = 0;

    if (r->offset < HELLO)
        n = add_entry(entries, n, HELLO, "hello");
    if (r->offset < NOTE)
        n = add_entry(entries, n, NOTE, "note");
    answer(w, in->unique, 0, entries, n < r->size ? n : 0);
}

static void serve_one(struct workspace *w, const struct fuse_in_header *in, const void *body)
{
    struct fuse_init_out init = {
        .major = FUSE_KERNEL_VERSION, .minor = 31, .max_write = NOTE_MAX, .max_background = 16, .max_readahead = 131072
    };
    struct fuse_open_out opened = { .open_flags = FOPEN_DIRECT_IO };
    struct fuse_statfs_out stat = { .st = {
                                        .bsize = 4096, .frsize = 4096, .blocks = 16, .bfree = 8, .bavail = 8, .namelen = 255 } };

    switch (in->opcode) {
    case FUSE_INIT:
        answer(w, in->unique, 0, &init, sizeof init);
        break;
    case FUSE_LOOKUP:
        look_up(w, in, body);
        break;
    case FUSE_GETATTR:
        get_attributes(w, in);
        break;
    case FUSE_SETATTR:
        set_attributes(w, in, body);
        break;
    case FUSE_OPEN:
    case FUSE_OPENDIR:
        answer(w, in->unique, 0, &opened, sizeof opened);
        break;
    case FUSE_READ:
        read_file(w, in, body);
        break;
    case FUSE_WRITE:
        write_file(w, in, body);
        break;
    case FUSE_READDIR:
        read_folder(w, in, body);
        break;
    case FUSE_STATFS:
        answer(w, in->unique, 0, &stat, sizeof stat);
        break;
    case FUSE_FLUSH:
    case FUSE_RELEASE:
    case FUSE_RELEASEDIR:
    case FUSE_ACCESS:
        answer(w, in->unique, 0, NULL, 0);
        break;
    case FUSE_FORGET:
    case FUSE_BATCH_FORGET:
    case FUSE_INTERRUPT:
        break; /* these have no answer */
    default:
        answer(w, in->unique, ENOSYS, NULL, 0);
    }
}

static int mount_one(struct workspace *w, const char *folder)
{
    char options[200];

    w->folder = folder;
    snprintf(w->hello, sizeof w->hello, "hello from %s\n", folder);
    w->note = calloc(1, NOTE_MAX);
    w->fd = open("/dev/fuse", O_RDWR | O_CLOEXEC | O_NONBLOCK);
    if (!w->note || w->fd < 0) {
        perror("/dev/fuse");
        return -1;
    }
    mkdir(folder, 0755);
    snprintf(options, sizeof options, "fd=%d,rootmode=40000,user_id=0,group_id=0,allow_other,default_permissions,max_read=131072",
             w->fd);
    if (mount("contract", folder, "fuse", MS_NOSUID | MS_NODEV | MS_NOATIME, options) < 0) {
        perror(folder);
        return -1;
    }
    return 0;
}

/* In a process of its own: an unmount asks the file system, which only this one serves. */
static void unmount_all(int n)
{
    if (fork() != 0)
        return;
    for (int i = 0; i < n; i++)
        printf("umount %s: %s\n", spaces[i].folder, umount2(spaces[i].folder, 0) < 0 ? strerrorname_np(errno) : "ok");
    fflush(stdout);
    _exit(0);
}

int guest_fuse(int n, char **folders)
{
    struct pollfd fds[MOUNTS_MAX + 1];
    sigset_t signals;

    if (n > MOUNTS_MAX)
        return 2;
    for (int i = 0; i < n; i++)
        if (mount_one(&spaces[i], folders[i]))
            return 4;
    signal(SIGCHLD, SIG_IGN);
    sigemptyset(&signals);
    sigaddset(&signals, SIGUSR1);
    sigprocmask(SIG_BLOCK, &signals, NULL);
    fds[n] = (struct pollfd){ .fd = signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK), .events = POLLIN };
    printf("mounted %d\n", n);
    fflush(stdout);
    for (;;) {
        struct signalfd_siginfo told;
        int left = 0;

        for (int i = 0; i < n; i++) {
            fds[i] = (struct pollfd){ .fd = spaces[i].fd, .events = POLLIN };
            left += spaces[i].fd >= 0;
        }
        if (!left)
            return 0;
        poll(fds, (nfds_t)n + 1, -1);
        if (read(fds[n].fd, &told, sizeof told) == sizeof told)
            unmount_all(n);
        for (int i = 0; i < n; i++) {
            ssize_t got = fds[i].revents ? read(spaces[i].fd, request, sizeof request) : -1;
            const struct fuse_in_header *in = (const struct fuse_in_header *)request;

            if (got >= (ssize_t)sizeof *in) {
                serve_one(&spaces[i], in, in + 1);
            } else if (fds[i].revents && errno == ENODEV) { /* unmounted */
                close(spaces[i].fd);
                spaces[i].fd = -1;
            }
        }
    }
}
