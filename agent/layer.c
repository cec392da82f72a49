/* SPDX-License-Identifier: Apache-2.0
 * sandbox-agent layer: looks at what a sandbox wrote over a host folder, and removes it (layer-plan.h).
 *
 * Theory of operation. All below `upper` is the sandbox's: names, links, marks, and it may change while we look. So nothing is followed:
 * each step opens one name below a descriptor with O_NOFOLLOW; no file is opened at all, only folders; sizes are what the file system
 * says it gave. A tree deeper or larger than is sensible ends the look with a mark that says so. An ordinary user's layer has files of
 * ids that only its own user namespace reaches: for that the helper enters one. What it does not need it gives up first. */
#include "layer.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <layer-plan.h>
#include <linux/capability.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "files.h"
#include "filter.h"
#include "layer-tar.h"
#include "userns.h"

#include <fs.h>
#include <loop.h>
#include <util.h>

enum { DEEPEST = 800, LINKS = 1 << 18, PROGRESS_EVERY = 20000 };

struct look {
    int diff;           /* else only the sums */
    int tar;            /* as a diff, but what differs goes into a tar */
    int copy;           /* a whole copy, not an overlay's upper */
    int64_t most, told; /* records */
    struct sb_layer_record end;
    uint64_t *links;    /* hashes of files with several names that were counted; a set with open addressing */
    size_t n_links;
    struct pattern *patterns; /* scan */
    size_t n_patterns;
    char path[SB_LAYER_PATH_MAX];
    char buffer[1 << 16];
    size_t used;
};

static void flush(struct look *l)
{
    if (sb_write_all(SB_LAYER_FD_OUT, l->buffer, l->used))
        _exit(1); /* nobody listens any more */
    l->used = 0;
}

static void put(struct look *l, struct sb_layer_record *r, const char *path)
{
    size_t n = strlen(path);

    r->size = (uint16_t)(sizeof *r + n);
    if (l->used + r->size > sizeof l->buffer)
        flush(l);
    memcpy(l->buffer + l->used, r, sizeof *r);
    memcpy(l->buffer + l->used + sizeof *r, path, n);
    l->used += r->size;
}

static AG_LAYER_NORETURN void fail(struct look *l, int sys_errno, const char *path)
{
    struct sb_layer_record r = { .kind = SB_LAYER_FAILED, .bytes = sys_errno };

    put(l, &r, path);
    flush(l);
    _exit(0);
}

static uint8_t type_of(mode_t mode)
{
    switch (mode & S_IFMT) { /* enum sandbox_file_type */
    case S_IFREG:
        return 1;
    case S_IFDIR:
        return 2;
    case S_IFLNK:
        return 3;
    case S_IFIFO:
        return 4;
    case S_IFSOCK:
        return 5;
    default:
        return 6;
    }
}

/* `dir` and `name` are where it is, dir -1: it is no more. */
static void tell(struct look *l, enum sb_layer_kind kind, int dir, const char *name, const struct stat *st, int64_t bytes)
{
    struct sb_layer_record r = { .kind = (uint8_t)kind, .type = type_of(st->st_mode), .bytes = bytes };

    if (l->tar) {
        if (ag_layer_tar_put(l->path, dir, name, st))
            l->end.truncated = 1;
        return;
    }
    if (l->told >= l->most) {
        l->end.truncated = 1;
        return;
    }
    l->told++;
    put(l, &r, l->path);
}

/* 1 the first time. A file with several names takes its blocks once. */
static int is_first(struct look *l, const struct stat *st)
{
    uint64_t key = ((uint64_t)st->st_ino * 0x9e3779b97f4a7c15u ^ (uint64_t)st->st_dev) | 1;

    if (st->st_nlink < 2 || S_ISDIR(st->st_mode))
        return 1;
    if (!l->links && !(l->links = calloc(LINKS, sizeof *l->links)))
        return 1;
    for (size_t i = key >> 40;; i++) {
        uint64_t *slot = &l->links[i % LINKS];

        if (*slot == key)
            return 0;
        if (*slot)
            continue;
        if (l->n_links < LINKS / 2) {
            *slot = key;
            l->n_links++;
        }
        return 1;
    }
}

static int is_opaque(int folder)
{
    char value[4];

    return fgetxattr(folder, "user.overlay.opaque", value, sizeof value) == 1 && value[0] == 'y';
}

static int open_folder(int dir, const char *name)
{
    return openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
}

static DIR *list(int folder)
{
    int copy = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *stream = copy < 0 ? NULL : fdopendir(copy);

    if (!stream)
        sb_close(copy);
    return stream;
}

static int is_dot(const char *name)
{
    return !strcmp(name, ".") || !strcmp(name, "..");
}

/* Appends a name to the path: the length before, or -1 where no path is that long. */
static int enter(struct look *l, const char *name)
{
    size_t length = strlen(l->path), n = strlen(name);

    if (length + n + 2 > sizeof l->path) {
        l->end.truncated = 1;
        return -1;
    }
    if (length)
        l->path[length] = '/';
    memcpy(l->path + length + (length != 0), name, n + 1);
    return (int)length;
}

/* What is in the host's folder and no more in the layer. */
static void tell_missing(struct look *l, int upper, int lower)
{
    DIR *stream = list(lower);
    struct dirent *d;

    while (stream && (d = readdir(stream))) {
        struct stat st, ours;
        int length;

        if (is_dot(d->d_name) || fstatat(upper, d->d_name, &ours, AT_SYMLINK_NOFOLLOW) == 0 ||
            fstatat(lower, d->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0 || (length = enter(l, d->d_name)) < 0)
            continue;
        if (!l->copy || !(S_ISCHR(st.st_mode) || S_ISBLK(st.st_mode))) /* devices are never copied */
            tell(l, SB_LAYER_REMOVED, -1, d->d_name, &st, 0);
        l->path[length] = 0;
    }
    if (stream)
        closedir(stream);
}

static int same_link(int a, int b, const char *name)
{
    char one[4096], two[4096];
    ssize_t n = readlinkat(a, name, one, sizeof one), m = readlinkat(b, name, two, sizeof two);

    return n >= 0 && n == m && !memcmp(one, two, (size_t)n);
}

/* Of a copy: whether it is as it was made. */
static int is_same(int upper, int lower, const char *name, const struct stat *a, const struct stat *b)
{
    if ((a->st_mode & (S_IFMT | 07777)) != (b->st_mode & (S_IFMT | 07777)))
        return 0;
    if (S_ISLNK(a->st_mode))
        return same_link(upper, lower, name);
    if (!S_ISREG(a->st_mode))
        return 1;
    return a->st_size == b->st_size && a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec;
}

static void look_at(struct look *l, int upper, int lower, int depth);

static void look_into(struct look *l, int upper, int lower, const char *name, int depth)
{
    SB_CLOSE int in = -1, below = -1;

    if (depth >= DEEPEST || (in = open_folder(upper, name)) < 0) {
        if (depth >= DEEPEST || (errno != ENOENT && errno != ENOTDIR && errno != ELOOP)) /* swapped meanwhile: as good as gone */
            l->end.truncated = 1;
        return;
    }
    if (lower >= 0)
        below = open_folder(lower, name);
    look_at(l, in, below, depth + 1);
}

static void look_at_entry(struct look *l, int upper, int lower, const char *name, int depth)
{
    struct stat st, was;
    int had, is_folder;
    int64_t bytes;

    if (fstatat(upper, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return;
    bytes = is_first(l, &st) ? (int64_t)st.st_blocks * 512 : 0;
    l->end.entries++;
    l->end.bytes += bytes;
    is_folder = S_ISDIR(st.st_mode);
    if (l->diff) {
        had = lower >= 0 && fstatat(lower, name, &was, AT_SYMLINK_NOFOLLOW) == 0;
        if (!l->copy && S_ISCHR(st.st_mode) && st.st_rdev == 0) { /* an overlay's mark for what was removed */
            if (had)
                tell(l, SB_LAYER_REMOVED, -1, name, &was, 0);
            return;
        }
        if (!had)
            tell(l, SB_LAYER_ADDED, upper, name, &st, bytes);
        else if (is_folder && S_ISDIR(was.st_mode) ? (st.st_mode & 07777) != (was.st_mode & 07777)
                                                   : !l->copy || !is_same(upper, lower, name, &st, &was))
            tell(l, SB_LAYER_CHANGED, upper, name, &st, bytes);
        else if (l->tar && !l->copy) /* a folder that is passed through, with the times that it has now */
            tell(l, SB_LAYER_CHANGED, upper, name, &st, bytes);
    }
    if (is_folder)
        look_into(l, upper, lower, name, depth);
}

static void look_at(struct look *l, int upper, int lower, int depth)
{
    DIR *stream = list(upper);
    struct dirent *d;

    if (!stream) {
        l->end.truncated = 1;
        return;
    }
    while ((d = readdir(stream))) {
        int length;

        if (is_dot(d->d_name))
            continue;
        length = l->diff ? enter(l, d->d_name) : 0;
        if (length < 0)
            continue;
        look_at_entry(l, upper, lower, d->d_name, depth);
        if (l->diff)
            l->path[length] = 0;
    }
    closedir(stream);
    if (l->diff && lower >= 0 && (l->copy || is_opaque(upper)))
        tell_missing(l, upper, lower);
}

/* A layer of a bounded size is on a disk, which is mounted here for us alone. While we may. */
static void open_disk(struct look *l)
{
    SB_CLOSE int image = openat(SB_LAYER_FD_PLACE, "image", O_RDWR | O_NOFOLLOW | O_CLOEXEC);
    int disk;

    if (image < 0)
        return;
    disk = sb_loop_mount(image, "ext4", MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC | MOUNT_ATTR_RDONLY);
    if (disk < 0 || dup3(disk, SB_LAYER_FD_PLACE, O_CLOEXEC) < 0)
        fail(l, disk < 0 ? -disk : errno, "");
    close(disk);
}

static void look_at_layer(struct look *l)
{
    SB_CLOSE int top = open_folder(SB_LAYER_FD_PLACE, "copy");

    l->copy = top >= 0;
    if (top < 0)
        top = open_folder(SB_LAYER_FD_PLACE, "upper");
    if (top < 0 && errno == ENOENT) { /* on a disk that was never used */
        return;
    }
    if (top < 0)
        fail(l, errno, "");
    look_at(l, top, l->diff ? SB_LAYER_FD_LOWER : -1, 0);
}

/* ---- names of secrets */

/* Most patterns are a word, or one with a star before or after it, and there are many names: those are told by a length and a letter before
 * anything is compared. Names count without regard to case; a pattern that ends in '/' is for folders; the last that matches decides, and
 * '!' takes a name out. */
enum match { WORD, ENDS, BEGINS, OTHER };
struct pattern {
    char text[256];
    size_t n;
    enum match match;
    int is_out, for_folders;
};

static int lower(char c)
{
    return c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : (unsigned char)c;
}

static int matches(const struct pattern *p, const char *name, size_t length)
{
    switch (p->match) {
    case WORD:
        return length == p->n && lower(name[0]) == lower(p->text[0]) && !strcasecmp(p->text, name);
    case ENDS:
        return length >= p->n && lower(name[length - 1]) == lower(p->text[p->n - 1]) && !strcasecmp(p->text, name + length - p->n);
    case BEGINS:
        return length >= p->n && lower(name[0]) == lower(p->text[0]) && !strncasecmp(p->text, name, p->n);
    default:
        return !fnmatch(p->text, name, FNM_CASEFOLD);
    }
}

static int is_secret(const struct look *l, const char *name, int is_folder)
{
    size_t length = strlen(name);

    for (size_t i = l->n_patterns; i-- > 0;) {
        const struct pattern *p = &l->patterns[i];

        if (p->for_folders == is_folder && matches(p, name, length))
            return !p->is_out;
    }
    return 0;
}

static void read_pattern(struct pattern *p, const char *word)
{
    static const char special[] = "*?[\\";
    size_t n;

    p->is_out = word[0] == '!';
    word += p->is_out;
    n = strlen(word);
    p->for_folders = n && word[n - 1] == '/';
    n -= (size_t)p->for_folders;
    p->match = OTHER;
    if (n && n < sizeof p->text && strcspn(word, special) >= n) {
        p->match = WORD;
    } else if (n > 1 && n < sizeof p->text && word[0] == '*' && strcspn(word + 1, special) >= n - 1) {
        p->match = ENDS;
        word++;
        n--;
    } else if (n > 1 && n < sizeof p->text && strcspn(word, special) == n - 1 && word[n - 1] == '*') {
        p->match = BEGINS;
        n--;
    }
    if (n >= sizeof p->text)
        n = 0;
    memcpy(p->text, word, n);
    p->n = n;
}

static void scan(struct look *l, int folder, int depth)
{
    DIR *stream = list(folder);
    struct dirent *d;

    if (!stream) {
        l->end.truncated = 1; /* what we can't see the sandbox may be able to */
        return;
    }
    while ((d = readdir(stream))) {
        struct stat st = { .st_mode = DTTOIF(d->d_type) };
        int length;

        if (is_dot(d->d_name))
            continue;
        if (d->d_type == DT_UNKNOWN && fstatat(folder, d->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
            continue;
        if (l->end.entries >= l->most) {
            l->end.truncated = 1;
            break;
        }
        if (++l->end.entries % PROGRESS_EVERY == 0) {
            put(l, &(struct sb_layer_record){ .kind = SB_LAYER_PROGRESS, .entries = l->end.entries }, "");
            flush(l);
        }
        length = enter(l, d->d_name);
        if (length < 0)
            continue;
        if (is_secret(l, d->d_name, S_ISDIR(st.st_mode))) {
            put(l, &(struct sb_layer_record){ .kind = SB_LAYER_FOUND, .type = type_of(st.st_mode) }, l->path);
        } else if (S_ISDIR(st.st_mode)) {
            SB_CLOSE int in = depth < DEEPEST ? open_folder(folder, d->d_name) : -1;

            if (in >= 0)
                scan(l, in, depth + 1);
            else
                l->end.truncated = 1;
        }
        l->path[length] = 0;
    }
    closedir(stream);
}

static void read_words(struct look *l)
{
    char *text = NULL;
    size_t size = 0;
    int r = sb_read_fd(SB_LAYER_FD_WORDS, 1 << 20, &text, &size);

    for (const char *w = text; !r && w < text + size; w += strlen(w) + 1)
        l->n_patterns++;
    l->patterns = r ? NULL : calloc(l->n_patterns + 1, sizeof *l->patterns);
    if (!l->patterns)
        fail(l, r ? -r : ENOMEM, "");
    l->n_patterns = 0;
    for (const char *w = text; w < text + size; w += strlen(w) + 1)
        if (*w)
            read_pattern(&l->patterns[l->n_patterns++], w);
    free(text);
}

/* ---- the process */

/* An ordinary user: root of a user namespace in which all ids of the layer have a number. */
static int enter_namespace(const struct sb_idmap *map)
{
    SB_CLOSE int proc = open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC);
    int pipes[2], status = 0;
    char byte = 0;
    pid_t writer;

    if (proc < 0 || !ag_is_procfs(proc) || pipe2(pipes, O_CLOEXEC) < 0)
        return -ENODEV;
    writer = fork();
    if (writer == 0) {
        close(pipes[1]);
        _exit(SB_RETRY(read(pipes[0], &byte, 1)) == 1 ? -ag_userns_map(proc, getppid(), map) : 1);
    }
    if (writer < 0 || unshare(CLONE_NEWUSER) < 0 || SB_RETRY(write(pipes[1], &byte, 1)) != 1 ||
        SB_RETRY(waitpid(writer, &status, 0)) < 0 || status || setresgid(0, 0, 0) < 0 || setresuid(0, 0, 0) < 0)
        return -EPERM;
    close(pipes[0]);
    close(pipes[1]);
    return 0;
}

/* It reads, or it removes, whatever the modes are; nothing else. */
static void keep_only(uint32_t capabilities)
{
    struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
    struct __user_cap_data_struct data[2] = { 0 };
    struct rlimit files;

    if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
        files.rlim_cur = files.rlim_max;
        setrlimit(RLIMIT_NOFILE, &files);
    }
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    if (syscall(SYS_capget, &header, data) < 0)
        _exit(1);
    data[0].permitted &= capabilities;
    data[0].effective = data[0].permitted;
    data[0].inheritable = 0;
    data[1] = (struct __user_cap_data_struct){ 0 };
    if (syscall(SYS_capset, &header, data) < 0)
        _exit(1);
}

static int read_numbers(char **argv, struct sb_idmap *map, int64_t *most)
{
    uint32_t *const to[] = { &map->privilege, &map->uid, &map->gid, &map->uid_start, &map->gid_start, &map->count };
    int64_t value;

    for (size_t i = 0; i < SB_ELEMENTS(to); i++) {
        if (sb_parse_int(argv[i], 0, UINT32_MAX, &value))
            return -1;
        *to[i] = (uint32_t)value;
    }
    return sb_parse_int(argv[SB_ELEMENTS(to)], 0, INT64_MAX, most);
}

static struct look look; /* large, and so not in the program's file */

static void tar_failed(int code, int sys_errno, const char *message)
{
    struct sb_layer_record r = { .kind = SB_LAYER_FAILED, .bytes = sys_errno, .entries = code };

    put(&look, &r, message);
    flush(&look);
}

/* The one job that opens files, and whose bytes somebody inside chose: it keeps the calls for that and no others. */
static void begin_tar(const struct sb_idmap *map)
{
    static const int allowed[] = {
        SYS_read, SYS_write, SYS_lseek, SYS_close, SYS_fstat, SYS_newfstatat, SYS_statx, SYS_fstatfs, SYS_openat, SYS_openat2, SYS_getdents64,
        SYS_fcntl, SYS_readlinkat, SYS_fgetxattr, SYS_flistxattr, SYS_ppoll,
#ifdef SYS_poll
        SYS_poll,
#endif
        SYS_munmap, SYS_mremap, SYS_brk, SYS_madvise, SYS_futex, SYS_rt_sigaction, SYS_rt_sigprocmask, SYS_rt_sigreturn, SYS_restart_syscall,
        SYS_sendto, SYS_clock_gettime, SYS_gettimeofday, SYS_getpid, SYS_gettid, SYS_tgkill, SYS_exit, SYS_exit_group,
    };
    int r;

    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN);
    ag_files_report_to(tar_failed);
    r = ag_filter_calls(allowed, SB_ELEMENTS(allowed));
    if (r)
        fail(&look, -r, "");
    ag_layer_tar_begin(map);
}

int ag_layer_main(int argc, char **argv)
{
    const char *job = argc > 2 ? argv[2] : "";
    struct sb_idmap map;

    if (argc < 10 || read_numbers(argv + 3, &map, &look.most))
        return 2;
    look.end.kind = SB_LAYER_END;
    close_range(SB_LAYER_FD_END, ~0u, 0);
    if (strcmp(job, "scan") && map.privilege != SB_PRIVILEGE_ROOT && enter_namespace(&map))
        fail(&look, EPERM, "");
    if (!strcmp(job, "remove")) {
        if (argc < 11 || strchr(argv[10], '/') || is_dot(argv[10]))
            return 2;
        keep_only(1u << CAP_DAC_OVERRIDE | 1u << CAP_FOWNER);
        return sb_remove_tree(SB_LAYER_FD_PLACE, argv[10]) ? 1 : 0;
    }
    if (strcmp(job, "scan") && map.privilege == SB_PRIVILEGE_ROOT)
        open_disk(&look);
    keep_only(1u << CAP_DAC_READ_SEARCH);
    if (!strcmp(job, "scan")) {
        read_words(&look);
        scan(&look, SB_LAYER_FD_PLACE, 0);
    } else {
        look.tar = !strcmp(job, "tar");
        look.diff = look.tar || !strcmp(job, "diff");
        if (look.tar)
            begin_tar(&map);
        look_at_layer(&look);
        if (look.tar)
            ag_layer_tar_end();
    }
    put(&look, &look.end, "");
    flush(&look);
    return 0;
}
