/* SPDX-License-Identifier: Apache-2.0
 * See ids.h. A claim is one file made by link(2) from a temporary one, so it is there with its content or not at all; /run is
 * emptied by a reboot, which also ends every sandbox: one that is started again claims its old range again. The folder is
 * root's alone (0700), so no user can claim ranges away. */
#include "ids.h"

#include "locks.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <errors.h>
#include <fs.h>
#include <util.h>

static const char folder[] = "/run/libsandbox/ranges";

static int have_root_capabilities(void)
{
    static const int needed[] = { CAP_SYS_ADMIN,    CAP_SETUID, CAP_SETGID, CAP_CHOWN,
                                  CAP_DAC_OVERRIDE, CAP_FOWNER, CAP_MKNOD,  CAP_KILL, CAP_NET_ADMIN };
    struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
    struct __user_cap_data_struct data[2];

    if (syscall(SYS_capget, &header, data) < 0)
        return 0;
    for (size_t i = 0; i < SB_ELEMENTS(needed); i++)
        if (!(data[needed[i] / 32].effective >> (needed[i] % 32) & 1))
            return 0;
    return 1;
}

/* 1 when this process sees all ids, so is not within a container's user namespace. */
static int sees_all_ids(void)
{
    SB_FREE char *text = NULL;
    unsigned long long inside, outside, count;

    if (sb_read_file(AT_FDCWD, "/proc/self/uid_map", 4096, &text, NULL))
        return 0;
    return sscanf(text, "%llu %llu %llu", &inside, &outside, &count) == 3 && inside == 0 && outside == 0 &&
           count >= 4294967295ull;
}

/* The account's name from the machine's own file: name services are not asked, they may block or load anything. */
static int account_name(uid_t uid, char *name, size_t size)
{
    FILE *file = fopen("/etc/passwd", "re");
    char buffer[4096];
    struct passwd entry, *found;
    int r = -ENOENT;

    if (!file)
        return -errno;
    while (r && !fgetpwent_r(file, &entry, buffer, sizeof buffer, &found))
        if (entry.pw_uid == uid)
            r = snprintf(name, size, "%s", entry.pw_name) < (int)size ? 0 : -ENAMETOOLONG;
    fclose(file);
    return r;
}

/* Calls each(data, name, start, count) for every well-formed line of /etc/subuid or /etc/subgid. */
static void each_range(const char *path, void (*each)(void *, const char *, uint64_t, uint64_t), void *data)
{
    SB_FREE char *text = NULL;
    char *save = NULL;

    if (sb_read_file(AT_FDCWD, path, 1 << 20, &text, NULL))
        return;
    for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
        char *first = strchr(line, ':'), *second = first ? strchr(first + 1, ':') : NULL;
        int64_t start, count;

        if (!second)
            continue;
        *first = *second = 0;
        if (!sb_parse_int(first + 1, 0, UINT32_MAX, &start) && !sb_parse_int(second + 1, 1, UINT32_MAX, &count))
            each(data, line, (uint64_t)start, (uint64_t)count);
    }
}

struct own_range {
    const char *name;
    char number[16];
    uint64_t start, count;
};

static void largest_of_mine(void *data, const char *name, uint64_t start, uint64_t count)
{
    struct own_range *mine = data;

    if ((!strcmp(name, mine->name) || !strcmp(name, mine->number)) && count > mine->count) {
        mine->start = start;
        mine->count = count;
    }
}

static int detect_subids(struct sb_idmap *map)
{
    struct own_range uids = { 0 }, gids = { 0 };
    char name[256] = "";

    if (access("/usr/bin/newuidmap", X_OK) < 0 && access("/bin/newuidmap", X_OK) < 0)
        return 0;
    if (access("/usr/bin/newgidmap", X_OK) < 0 && access("/bin/newgidmap", X_OK) < 0)
        return 0;
    account_name(map->uid, name, sizeof name);
    uids.name = gids.name = name;
    snprintf(uids.number, sizeof uids.number, "%u", map->uid);
    snprintf(gids.number, sizeof gids.number, "%u", map->uid); /* subgid is by user, too */
    each_range("/etc/subuid", largest_of_mine, &uids);
    each_range("/etc/subgid", largest_of_mine, &gids);
    if (!uids.count || !gids.count)
        return 0;
    map->uid_start = (uint32_t)uids.start;
    map->gid_start = (uint32_t)gids.start;
    map->count = (uint32_t)(uids.count < gids.count ? uids.count : gids.count) + 1;
    if (map->count > SB_RANGE_COUNT)
        map->count = SB_RANGE_COUNT;
    map->privilege = SB_PRIVILEGE_SUBIDS;
    return 1;
}

int sb_ids_detect(struct sb_idmap *ret_map, struct sandbox_error **error)
{
    struct sb_idmap map = { .uid = geteuid(), .gid = getegid(), .count = 1, .privilege = SB_PRIVILEGE_SINGLE };

    if (map.uid == 0 && sees_all_ids()) {
        if (!have_root_capabilities())
            return sb_fail(error,
                           SB_ARGS(SANDBOX_EDENIED, .phase = "privilege",
                                   .hint = "give them to the container (podman, docker: --privileged), or run as an ordinary user"),
                           "root lacks capabilities that making a sandbox needs (SYS_ADMIN, NET_ADMIN, SETUID, SETGID, CHOWN, MKNOD, …)");
        map.privilege = SB_PRIVILEGE_ROOT;
        map.count = SB_RANGE_COUNT;
    } else {
        detect_subids(&map);
    }
    *ret_map = map;
    return 0;
}

struct overlap {
    uint64_t start;
    int taken;
};

static void overlaps(void *data, const char *name, uint64_t start, uint64_t count)
{
    struct overlap *o = data;

    (void)name;
    if (start < o->start + SB_RANGE_COUNT && o->start < start + count)
        o->taken = 1;
}

static int open_folder(struct sandbox_error **error)
{
    SB_CLOSE int run = open("/run", O_RDONLY | O_DIRECTORY | O_CLOEXEC), top = -1;
    int fd = -ENOENT, lock;
    struct stat st;

    if (run < 0 && errno == ENOENT && mkdir("/run", 0755) == 0)
        run = open("/run", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (run >= 0) {
        top = sb_open_dir(run, "libsandbox", 0700);
        fd = top < 0 ? top : sb_open_dir(top, "ranges", 0700);
    }
    if (fd < 0)
        return sb_fail_errno(error, -fd, "ids", "%s can't be opened", folder);
    if (fstat(fd, &st) < 0 || st.st_uid != 0 || (st.st_mode & 077)) {
        sb_close(fd);
        return sb_fail(error, SB_ARGS(SANDBOX_EDENIED, .phase = "ids", .hint = "make it root's with mode 0700"),
                       "%s is open to others", folder);
    }
    /* what is read here must still be so when it is acted upon; held for the moment that a call takes */
    lock = sb_folder_lock(fd, LOCK_EX, error);
    sb_close(fd);
    return lock;
}

/* 0: claimed; 1: somebody has it; negative: failed. */
static int claim(int dir, uint32_t start, const char *holder, struct sandbox_error **error)
{
    char name[32], temporary[64];
    SB_CLOSE int fd = openat(dir, ".", O_WRONLY | O_TMPFILE | O_CLOEXEC, 0600);
    int r;

    snprintf(name, sizeof name, "%u", start);
    if (fd < 0)
        return sb_fail_errno(error, errno, "ids", "a claim can't be made in %s", folder);
    r = sb_write_all(fd, holder, strlen(holder));
    if (r)
        return sb_fail_errno(error, -r, "ids", "a claim can't be written in %s", folder);
    snprintf(temporary, sizeof temporary, "/proc/self/fd/%d", fd);
    if (linkat(AT_FDCWD, temporary, dir, name, AT_SYMLINK_FOLLOW) == 0)
        return 0;
    return errno == EEXIST ? 1 : sb_fail_errno(error, errno, "ids", "a claim can't be made in %s", folder);
}

/* Somebody removed a sandbox's folder by hand, and it still runs? */
static int is_used(uint64_t start)
{
    DIR *proc = opendir("/proc");
    struct dirent *d;
    int used = 0;

    while (proc && !used && (d = readdir(proc))) {
        SB_FREE char *text = NULL;
        unsigned long long uid;
        char path[300];
        const char *line;

        snprintf(path, sizeof path, "/proc/%s/status", d->d_name);
        if (isdigit((unsigned char)d->d_name[0]) && !sb_read_file(AT_FDCWD, path, 65536, &text, NULL) && !strstr(text, "\nState:\tZ") &&
            (line = strstr(text, "\nUid:")) && sscanf(line + 5, "%llu", &uid) == 1)
            used = uid >= start && uid < start + SB_RANGE_COUNT;
    }
    if (proc)
        closedir(proc);
    return used;
}

static int is_gone(const struct sb_ids_others *others, const char *name, const char *holder)
{
    return !strncmp(holder, others->prefix, strlen(others->prefix)) && others->gone(others->data, holder) &&
           !is_used(strtoull(name, NULL, 10));
}

/* As claim(), and takes it over from a holder that is gone. */
static int claim_or_take(int dir, uint32_t start, const char *holder, const struct sb_ids_others *others, struct sandbox_error **error)
{
    int r = claim(dir, start, holder, error);
    SB_FREE char *text = NULL;
    char name[32];

    snprintf(name, sizeof name, "%u", start);
    if (r != 1 || sb_read_file(dir, name, 8192, &text, NULL) || !is_gone(others, name, text))
        return r;
    unlinkat(dir, name, 0);
    return claim(dir, start, holder, error);
}

int sb_ids_claim(struct sb_idmap *map, const char *holder, const struct sb_ids_others *others, struct sandbox_error **error)
{
    const uint32_t blocks = (SB_RANGE_LAST - SB_RANGE_FIRST + 1) / SB_RANGE_COUNT - 1; /* the first is the unpack helper's */
    SB_UNLOCK int dir = open_folder(error);
    uint32_t first = 0;

    if (dir < 0)
        return dir;
    if (getrandom(&first, sizeof first, 0) < 0)
        first = (uint32_t)getpid();
    for (uint32_t i = 0; i < blocks; i++) {
        struct overlap o = { .start = SB_RANGE_FIRST + (uint64_t)(1 + (first + i) % blocks) * SB_RANGE_COUNT };
        int r;

        each_range("/etc/subuid", overlaps, &o);
        each_range("/etc/subgid", overlaps, &o);
        if (o.taken)
            continue;
        r = claim_or_take(dir, (uint32_t)o.start, holder, others, error);
        if (r < 0)
            return r;
        if (r == 0) {
            map->uid_start = map->gid_start = (uint32_t)o.start;
            return 0;
        }
    }
    return sb_fail(error, SB_ARGS(SANDBOX_ENOSPACE, .phase = "ids", .hint = "delete sandboxes that are no longer needed"),
                   "all %u id ranges of this machine are in use", blocks);
}

static int is_held_by(int dir, const char *name, const char *holder)
{
    SB_FREE char *text = NULL;

    /* by the sandbox's id, the last field, which nobody else has: its state root may be called by another path or be mounted anew */
    return !sb_read_file(dir, name, 8192, &text, NULL) && strrchr(text, '\t') &&
           !strcmp(strrchr(text, '\t'), strrchr(holder, '\t'));
}

int sb_ids_claim_again(const struct sb_idmap *map, const char *holder, const struct sb_ids_others *others, struct sandbox_error **error)
{
    SB_UNLOCK int dir = open_folder(error);
    char name[32];
    int r;

    if (dir < 0)
        return dir;
    snprintf(name, sizeof name, "%u", map->uid_start);
    r = claim_or_take(dir, map->uid_start, holder, others, error);
    if (r == 1 && is_held_by(dir, name, holder))
        r = 0;
    if (r == 1)
        return sb_fail(error, SB_ARGS(SANDBOX_EBUSY, .phase = "ids", .hint = "delete the other sandbox first"),
                       "another sandbox has this one's id range %u", map->uid_start);
    return r;
}

void sb_ids_release(const struct sb_idmap *map, const char *holder)
{
    SB_UNLOCK int dir = map->privilege == SB_PRIVILEGE_ROOT && map->uid_start ? open_folder(NULL) : -1;
    char name[32];

    if (dir < 0)
        return;
    snprintf(name, sizeof name, "%u", map->uid_start);
    if (is_held_by(dir, name, holder))
        unlinkat(dir, name, 0);
}

void sb_ids_sweep(const struct sb_ids_others *others)
{
    SB_UNLOCK int dir = open_folder(NULL);
    int copy = dir < 0 ? -1 : openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *stream = copy < 0 ? NULL : fdopendir(copy);
    struct dirent *d;

    if (!stream) {
        sb_close(copy);
        return;
    }
    while ((d = readdir(stream))) {
        SB_FREE char *text = NULL;

        if (!isdigit((unsigned char)d->d_name[0]) || sb_read_file(dir, d->d_name, 8192, &text, NULL))
            continue;
        if (is_gone(others, d->d_name, text))
            unlinkat(dir, d->d_name, 0);
    }
    closedir(stream);
}

int sb_ids_are_range(const struct sb_idmap *map)
{
    return map->uid_start == map->gid_start && map->count == SB_RANGE_COUNT &&
           map->uid_start >= SB_RANGE_FIRST + SB_RANGE_COUNT && map->uid_start <= SB_RANGE_LAST - SB_RANGE_COUNT + 1 &&
           (map->uid_start - SB_RANGE_FIRST) % SB_RANGE_COUNT == 0;
}
