/* SPDX-License-Identifier: Apache-2.0
 * See cgroup.h. */
#include "cgroup.h"
#include "scope.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <time.h>
#include <unistd.h>

#include <errors.h>
#include <fs.h>
#include <json.h>
#include <util.h>

static const char *const controller_names[SB_CONTROLLERS] = { "pids", "memory", "cpu", "io" };
static const char *const v1_names[SB_CONTROLLERS] = { "pids", "memory", "cpu", "blkio" };
static const char *const leaves[] = { "exec", "daemon" };

static int has_word(const char *list, const char *word, const char *separators)
{
    size_t n = strlen(word);

    for (const char *p = list; *p;) {
        size_t len = strcspn(p, separators);

        if (len == n && !strncmp(p, word, n))
            return 1;
        p += len + strspn(p + len, separators);
    }
    return 0;
}

/* The path of this process in the hierarchy of a controller ("" for cgroup2), from /proc/self/cgroup. malloc'ed. */
static char *own_path(const char *text, const char *controller)
{
    SB_FREE char *copy = strdup(text);
    char *save = NULL;

    if (!copy)
        return NULL;
    for (char *line = strtok_r(copy, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
        char *list = strchr(line, ':'), *path = list ? strchr(list + 1, ':') : NULL;

        if (!path)
            continue;
        *path++ = 0;
        list++;
        if (*controller ? has_word(list, controller, ",") : !*list && !strncmp(line, "0:", 2))
            return strdup(path);
    }
    return NULL;
}

/* Undoes mountinfo's \ooo. */
static void unescape(char *s)
{
    char *to = s;

    for (; *s; s++)
        if (s[0] == '\\' && s[1] >= '0' && s[1] <= '3' && s[2] && s[3]) {
            *to++ = (char)((s[1] - '0') << 6 | (s[2] - '0') << 3 | (s[3] - '0'));
            s += 3;
        } else {
            *to++ = *s;
        }
    *to = 0;
}

/* Where a hierarchy is mounted, and which of its folders is the mount's root. */
static int find_mount(const char *mountinfo, const char *controller, char **ret_point, char **ret_root)
{
    SB_FREE char *copy = strdup(mountinfo);
    char *save = NULL;

    if (!copy)
        return -ENOMEM;
    for (char *line = strtok_r(copy, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
        char *dash = strstr(line, " - "), root[4096], point[4096], type[64], options[4096];

        if (!dash || sscanf(line, "%*s %*s %*s %4095s %4095s", root, point) != 2 ||
            sscanf(dash + 3, "%63s %*s %4095s", type, options) != 2)
            continue;
        if (*controller ? strcmp(type, "cgroup") != 0 || !has_word(options, controller, ",") : strcmp(type, "cgroup2") != 0)
            continue;
        unescape(root);
        unescape(point);
        *ret_point = strdup(point);
        *ret_root = strdup(root);
        return *ret_point && *ret_root ? 0 : -ENOMEM;
    }
    return -ENOENT;
}

/* Our folder in a hierarchy: below the group this process is in; NULL when there is none or it can't be written. */
static char *our_folder(const char *mountinfo, const char *own, const char *controller)
{
    SB_FREE char *point = NULL, *root = NULL, *path = own_path(own, controller);
    const char *below;
    char *folder = NULL;

    if (!path || find_mount(mountinfo, controller, &point, &root))
        return NULL;
    below = path;
    if (strcmp(root, "/") && !strncmp(path, root, strlen(root)))
        below = path + strlen(root); /* the mount shows only a part of the hierarchy */
    if (asprintf(&folder, "%s%s%s", point, !strcmp(below, "/") ? "" : below, "/libsandbox") < 0)
        return NULL;
    folder[strlen(folder) - strlen("/libsandbox")] = 0;
    if (access(folder, W_OK) < 0) {
        free(folder);
        return NULL;
    }
    folder[strlen(folder)] = '/';
    return folder;
}

int sb_cgroups_write(const char *folder, const char *file, const char *text)
{
    char path[4200];
    SB_CLOSE int fd = -1;

    if (snprintf(path, sizeof path, "%s/%s", folder, file) >= (int)sizeof path)
        return -ENAMETOOLONG;
    fd = open(path, O_WRONLY | O_CLOEXEC);
    return fd < 0 ? -errno : sb_write_all(fd, text, strlen(text));
}

unsigned int sb_cgroups_controllers(const char *path)
{
    SB_FREE char *text = NULL;
    unsigned int bits = 0;

    if (!sb_read_file(AT_FDCWD, path, 4096, &text, NULL))
        for (int c = 0; c < SB_CONTROLLERS; c++)
            if (has_word(text, controller_names[c], " \n"))
                bits |= 1u << c;
    return bits;
}

const char *sb_cgroups_name(int controller)
{
    return controller_names[controller];
}

int sb_cgroups_has_leaves(const json_t *folders)
{
    const char *top = json_string_value(json_array_get(folders, 0)), *first = json_string_value(json_array_get(folders, 1));

    return top && first && !strncmp(first, top, strlen(top)) && !strcmp(first + strlen(top), "/exec"); /* v1 has one for each controller */
}

/* Which controllers the children of a cgroup2 folder have; asks for those that are there and not on yet. */
static unsigned int delegate(const char *folder)
{
    char path[4200];
    SB_FREE char *have = NULL;

    snprintf(path, sizeof path, "%s/cgroup.controllers", folder);
    if (sb_read_file(AT_FDCWD, path, 4096, &have, NULL))
        return 0;
    for (int c = 0; c < SB_CONTROLLERS; c++) {
        char text[16];

        if (!has_word(have, controller_names[c], " \n"))
            continue;
        snprintf(text, sizeof text, "+%s", controller_names[c]);
        sb_cgroups_write(folder, "cgroup.subtree_control", text);
    }
    snprintf(path, sizeof path, "%s/cgroup.subtree_control", folder);
    return sb_cgroups_controllers(path);
}

static int has_file(const char *folder, const char *file)
{
    char path[4200];

    return snprintf(path, sizeof path, "%s/%s", folder, file) < (int)sizeof path && access(path, F_OK) == 0;
}

static int has_processes(const char *folder)
{
    char path[4200], byte;
    SB_CLOSE int fd = -1;

    if (snprintf(path, sizeof path, "%s/cgroup.procs", folder) >= (int)sizeof path)
        return 1;
    fd = open(path, O_RDONLY | O_CLOEXEC);
    return fd < 0 || SB_RETRY(read(fd, &byte, 1)) != 0;
}

/* Whether its owner left the groups below it to us: a user's own group; as root one that systemd marked, or any where there is no systemd. */
static int is_ours_to_divide(const char *folder)
{
    static const char *const marks[] = { "trusted.delegate", "user.delegate" };
    char value[4];

    if (access(folder, W_OK) < 0)
        return 0;
    for (size_t i = 0; i < SB_ELEMENTS(marks); i++)
        if (getxattr(folder, marks[i], value, sizeof value) == 1 && *value == '1')
            return 1;
    return geteuid() != 0 || access("/run/systemd/system", F_OK) < 0;
}

/* Which controllers our groups can have. A group with processes gives memory to none, and pids and cpu at the price of being the root of
 * threads: then no group below it may have a process at all. So our own group, in which we are, is asked for nothing unless it is the root
 * of all; but who moved into a leaf of a group that is its own finds our folder beside that leaf, with limits. 0: no memory. */
static int take_controllers(struct sb_cgroups *found)
{
    SB_FREE char *own = strndup(found->unified, strlen(found->unified) - strlen("/libsandbox")), *parent = own ? strdup(own) : NULL;
    char *slash = parent ? strrchr(parent, '/') : NULL, path[4200];

    if (!slash)
        return 0;
    *slash = 0;
    if (!has_file(own, "cgroup.type")) { /* the root of all */
        found->delegated = delegate(own);
    } else if (has_file(parent, "cgroup.type") && !has_processes(parent) && is_ours_to_divide(parent)) {
        char *folder;

        if (asprintf(&folder, "%s/libsandbox", parent) < 0)
            return 0;
        free(found->unified);
        found->unified = folder;
        found->delegated = delegate(parent);
        return 1;
    }
    if (snprintf(path, sizeof path, "%s/cgroup.controllers", own) < (int)sizeof path)
        found->crowded = sb_cgroups_controllers(path) & ~found->delegated;
    return 1;
}

int sb_cgroups_detect(struct sb_cgroups *ret, struct sandbox_error **error)
{
    struct sb_cgroups found = { 0 };
    SB_FREE char *own = NULL, *mountinfo = NULL;

    if (sb_read_file(AT_FDCWD, "/proc/self/cgroup", 1 << 20, &own, NULL) ||
        sb_read_file(AT_FDCWD, "/proc/self/mountinfo", 16 << 20, &mountinfo, NULL)) {
        *ret = found; /* a kernel without cgroups */
        return 0;
    }
    found.unified = our_folder(mountinfo, own, "");
    if (found.unified && !take_controllers(&found)) {
        *ret = (struct sb_cgroups){ 0 };
        sb_cgroups_clear(&found);
        return sb_fail(error, SB_ARGS(SANDBOX_ENOMEM, .sys_errno = ENOMEM), "out of memory");
    }
    for (int c = 0; c < SB_CONTROLLERS; c++)
        if (!(found.delegated >> c & 1))
            found.v1[c] = our_folder(mountinfo, own, v1_names[c]);
    *ret = found;
    return 0;
}

void sb_cgroups_clear(struct sb_cgroups *cgroups)
{
    free(cgroups->unified);
    free(cgroups->scopes);
    for (int c = 0; c < SB_CONTROLLERS; c++)
        free(cgroups->v1[c]);
    cgroups->unified = cgroups->scopes = NULL;
    cgroups->delegated = cgroups->crowded = 0;
    memset(cgroups->v1, 0, sizeof cgroups->v1);
}

/* The folder of a sandbox in cgroup2, which has its leaves. 0, -ENOENT: there is none; -ENAMETOOLONG. */
static int top_folder(const struct sb_cgroups *cgroups, const char *id, char path[4200])
{
    int n;

    if (sb_scopes_usable(cgroups))
        n = snprintf(path, 4200, "%s/libsandbox-%s.scope/box", cgroups->scopes, id);
    else if (cgroups->unified)
        n = snprintf(path, 4200, "%s/%s", cgroups->unified, id);
    else
        return -ENOENT;
    return n < 4100 ? 0 : -ENAMETOOLONG;
}

int sb_cgroups_plan(const struct sb_cgroups *cgroups, const char *id, const struct sb_limits *limits, json_t **ret_folders,
                    struct sandbox_error **error)
{
    SB_JSON json_t *folders = json_array();
    unsigned int delegated = 0;
    char top[4200];
    int r = folders ? 0 : -1;

    if (!r && !top_folder(cgroups, id, top)) {
        delegated = cgroups->delegated;
        r = json_array_append_new(folders, json_string(top));
        for (size_t i = 0; i < SB_ELEMENTS(leaves) && !r; i++)
            r = json_array_append_new(folders, json_sprintf("%s/%s", top, leaves[i]));
    }
    for (int c = 0; c < SB_CONTROLLERS && !r; c++) {
        if (!sb_cgroups_wanted(limits, c) || (delegated >> c & 1))
            continue;
        if (cgroups->v1[c])
            r = json_array_append_new(folders, json_sprintf("%s/%s", cgroups->v1[c], id));
        else if (c != SB_CONTROLLER_PIDS) /* RLIMIT_NPROC stands in for that one */
            return sb_fail(error,
                           SB_ARGS(SANDBOX_EUNSUPPORTED, .phase = "cgroup", .field = controller_names[c],
                                   .hint = cgroups->crowded >> c & 1
                                               ? "the caller's own cgroup has processes in it: move them into a leaf of it first, or let systemd "
                                                 "give a scope (D-Bus, libsystemd)"
                                               : "run as root, or where a cgroup with this controller is delegated to you: on a machine with systemd "
                                                 "as a user who is logged in"),
                           "a %s limit can't be enforced here: no cgroup with the %s controller can be written",
                           controller_names[c], controller_names[c]);
    }
    if (r)
        return sb_fail(error, SB_ARGS(SANDBOX_ENOMEM, .sys_errno = ENOMEM), "out of memory");
    *ret_folders = SB_TAKE_PTR(folders);
    return 0;
}

/* "libsandbox" itself comes with the first sandbox and goes with the last; another process may take it away between two steps of ours. */
static int make_folder(const char *path, unsigned int delegated, struct sandbox_error **error)
{
    SB_FREE char *parent = strdup(path);
    char *slash = parent ? strrchr(parent, '/') : NULL;

    if (!slash)
        return sb_fail(error, SB_ARGS(SANDBOX_ENOMEM, .sys_errno = ENOMEM), "out of memory");
    *slash = 0;
    for (int tries = 0; tries < 100; tries++) {
        if (mkdir(path, 0755) == 0 || errno == EEXIST) {
            if (delegated && (delegate(parent) & delegated) != delegated)
                return sb_fail(error, SB_ARGS(SANDBOX_EDENIED, .phase = "cgroup"), "controllers can't be enabled in %s", parent);
            return 0;
        }
        if (errno != ENOENT || (mkdir(parent, 0755) < 0 && errno != EEXIST))
            break;
    }
    return sb_fail_errno(error, errno, "cgroup", "%s can't be made", path);
}

/* The sandbox's init, which is in the top, puts its children into the leaves, which takes the right to write cgroup.procs in them and their parent, and makes
 * leaves of its own below `top`, which no cgroup namespace inside shows. The limits' files stay root's, and so do the leaves themselves: a
 * daemon that gets at cgroup2 sees its own leaf. */
static int give(const char *folder, int top, const struct sb_idmap *map, struct sandbox_error **error)
{
    const uid_t uid = map->uid_start + map->count - 1; /* init's own, see SB_PLAN_INIT_ID */
    const gid_t gid = map->gid_start + map->count - 1;
    char path[4200];

    if (map->privilege != SB_PRIVILEGE_ROOT)
        return 0;
    if (snprintf(path, sizeof path, "%s/cgroup.procs", folder) >= (int)sizeof path)
        return sb_fail_errno(error, ENAMETOOLONG, "cgroup", "%s can't be given to the sandbox", folder);
    if ((top && chown(folder, uid, gid) < 0) || chown(path, uid, gid) < 0)
        return sb_fail_errno(error, errno, "cgroup", "%s can't be given to the sandbox", path);
    /* init pauses what is in the leaves; a kernel before 5.2 has no such file, and then it does that by signals */
    if (!top && snprintf(path, sizeof path, "%s/cgroup.freeze", folder) < (int)sizeof path && chown(path, uid, gid) < 0 && errno != ENOENT)
        return sb_fail_errno(error, errno, "cgroup", "%s can't be given to the sandbox", path);
    return 0;
}

/* Nobody inside can make folders without end there, which would cost the machine memory and keep ours from being removed. (In
 * a user's mode the daemon's id owns the leaf it might see. Kernels before 4.14 don't have these files.) */
static void cap_folders(const char *top)
{
    sb_cgroups_write(top, "cgroup.max.depth", "1");
    sb_cgroups_write(top, "cgroup.max.descendants", "2048");
}

/* A record is only believed as far as its paths have our shape. */
int sb_cgroups_is_ours(const char *path, const char *id)
{
    char mark[SB_ID_SIZE + 32];
    const char *at = NULL;

    if (!path || !sb_path_absolute_safe(path))
        return 0;
    for (size_t i = 0; i < 2 && !at; i++) {
        snprintf(mark, sizeof mark, i ? "/libsandbox-%s.scope/box" : "/libsandbox/%s", id);
        at = strstr(path, mark);
    }
    if (!at)
        return 0;
    at += strlen(mark);
    if (!*at)
        return 1;
    for (size_t i = 0; i < SB_ELEMENTS(leaves); i++)
        if (*at == '/' && !strcmp(at + 1, leaves[i]))
            return 1;
    return 0;
}

int sb_cgroups_make(const struct sb_cgroups *cgroups, const json_t *folders, const char *id, const struct sb_limits *limits,
                    const struct sb_idmap *map, struct sandbox_error **error)
{
    char folder[4200];
    int r = 0;

    for (size_t i = 0; sb_cgroups_has_leaves(folders) && i <= SB_ELEMENTS(leaves) && !r; i++) {
        const char *path = json_string_value(json_array_get(folders, i));

        if (!sb_cgroups_is_ours(path, id))
            return sb_fail(error, SB_ARGS(SANDBOX_EDAMAGED, .phase = "cgroup"), "the record names a cgroup that can't be the sandbox's");
        r = make_folder(path, i == 0 ? cgroups->delegated : 0, error);
        if (!r && i == 0)
            r = sb_cgroups_write_v2(path, cgroups->delegated, limits, 1, error);
        if (!r)
            r = give(path, i == 0, map, error);
        if (i == 0)
            cap_folders(path);
    }
    for (int c = 0; c < SB_CONTROLLERS && !r; c++)
        if (sb_cgroups_wanted(limits, c) && !(cgroups->delegated >> c & 1) && cgroups->v1[c]) {
            snprintf(folder, sizeof folder, "%s/%s", cgroups->v1[c], id);
            r = make_folder(folder, 0, error);
            if (!r)
                r = sb_cgroups_write_v1(folder, c, limits, 1, error);
        }
    return r;
}

int sb_cgroups_kill(const json_t *folders, const char *id)
{
    const char *first = json_string_value(json_array_get(folders, 0));
    char path[4200];

    if (!sb_cgroups_is_ours(first, id) || snprintf(path, sizeof path, "%s/cgroup.kill", first) >= (int)sizeof path || access(path, F_OK) < 0)
        return 0;
    return sb_cgroups_write(first, "cgroup.kill", "1") == 0;
}

/* Those of execs, which init makes itself, and whatever else somebody managed to leave there. Takes the descriptor. */
static void remove_below(int dir, int depth)
{
    DIR *stream = fdopendir(dir);
    struct dirent *d;

    if (!stream) {
        sb_close(dir);
        return;
    }
    while ((d = readdir(stream))) {
        int below;

        if (d->d_type != DT_DIR || d->d_name[0] == '.' || unlinkat(dirfd(stream), d->d_name, AT_REMOVEDIR) == 0)
            continue;
        below = depth < 32 ? openat(dirfd(stream), d->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC) : -1;
        if (below < 0)
            continue;
        remove_below(below, depth + 1);
        unlinkat(dirfd(stream), d->d_name, AT_REMOVEDIR);
    }
    closedir(stream);
}

static void remove_left(const char *folder)
{
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

    if (fd >= 0)
        remove_below(fd, 0);
}

/* "libsandbox" above a sandbox's folder, if it was the last. */
static void remove_ours(const char *path)
{
    SB_FREE char *parent = strdup(path);
    char *slash = parent ? strrchr(parent, '/') : NULL;

    if (!slash)
        return;
    *slash = 0;
    if (strlen(parent) > 11 && !strcmp(parent + strlen(parent) - 11, "/libsandbox"))
        rmdir(parent);
}

int sb_cgroups_remove(const json_t *folders, const char *id)
{
    int first_error = 0;

    for (size_t i = json_array_size(folders); i-- > 0;) {
        const char *path = json_string_value(json_array_get(folders, i));
        int64_t until = sb_now_ms() + 500;

        if (!sb_cgroups_is_ours(path, id))
            continue;
        while (rmdir(path) < 0 && errno != ENOENT) {
            int why = errno;

            remove_left(path);
            if (why != EBUSY || sb_now_ms() >= until) {
                first_error = first_error ? first_error : -why;
                break;
            }
            nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
        }
        remove_ours(path);
        if (strlen(path) > 4 && !strcmp(path + strlen(path) - 4, "/box"))
            sb_scope_wait_gone(path);
    }
    return first_error;
}

int sb_cgroups_open_memory(const json_t *folders, const char *id)
{
    static const char *const files[] = { "memory.events", "memory.oom_control" }; /* v2, v1: both have a line "oom_kill N" */
    const json_t *folder;
    int fd = -1;
    size_t i;

    json_array_foreach(folders, i, folder)
    {
        const char *path = json_string_value(folder);

        for (size_t f = 0; f < SB_ELEMENTS(files) && fd < 0 && sb_cgroups_is_ours(path, id); f++) {
            char file[4300];

            snprintf(file, sizeof file, "%s/%s", path, files[f]);
            fd = open(file, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
        }
    }
    return fd;
}
