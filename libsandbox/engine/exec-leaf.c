/* SPDX-License-Identifier: Apache-2.0
 * A cgroup of its own for a command with limits. Limits are written from here, outside, and the group's files stay with whom the library
 * runs as: init may put a process into it and no more.
 *
 * cgroup2 gives controllers only to groups below one that has no processes itself. init stands in the sandbox's top folder, and leaves it when the
 * first such command comes: see agent/init-leaf.c. A group that can't be removed at the command's end, since something of it lives on, goes with
 * the sandbox. */
#include "exec.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <errors.h>

enum { MOVE_MS = 5000 };

uint32_t sb_exec_files_max(const struct sb_record *record, const struct sb_limits *limits)
{
    int64_t most = record->spec->limits.files_max;

    if (limits && limits->files_max && (!most || limits->files_max < most))
        most = limits->files_max;
    return (uint32_t)most;
}

static unsigned int wanted(const struct sb_limits *limits)
{
    unsigned int bits = 0;

    for (int c = 0; c < SB_CONTROLLERS; c++)
        bits |= (unsigned int)sb_cgroups_wanted(limits, c) << c;
    return bits;
}

static int unsupported(unsigned int missing, struct sandbox_error **error)
{
    static const char *const names[SB_CONTROLLERS] = { "limits.pids_max", "limits.memory_max", "limits.cpu_max", "limits.io" };
    int c = 0;

    while (!(missing >> c & 1))
        c++;
    return sb_fail(error,
                   SB_ARGS(SANDBOX_EUNSUPPORTED, .phase = "cgroup", .field = names[c],
                           .hint = "limit the sandbox instead, or run where cgroup v2 has this controller and it is delegated"),
                   "a command can't be given %s of its own here: the sandbox has no cgroup v2 with the controller", names[c] + strlen("limits."));
}

/* init puts what it starts into a group whose cgroup.procs it may write; and nobody from elsewhere can move a process here, for that the right to
 * a group above both is needed. */
static int give(const struct sb_record *record, const char *folder, struct sandbox_error **error)
{
    const struct sb_idmap *map = &record->map;
    char path[4400];
    int r = 0;

    snprintf(path, sizeof path, "%s/cgroup.procs", folder);
    if (map->privilege == SB_PRIVILEGE_ROOT)
        r = chown(path, map->uid_start + map->count - 1, map->gid_start + map->count - 1);
    else if (map->privilege == SB_PRIVILEGE_SUBIDS)
        r = chmod(path, 0666);
    for (size_t i = 0; i < 2 && !r && map->privilege == SB_PRIVILEGE_ROOT; i++) { /* it kills at a deadline, and pauses */
        snprintf(path, sizeof path, "%s/%s", folder, i ? "cgroup.freeze" : "cgroup.kill");
        if (chown(path, map->uid_start + map->count - 1, map->gid_start + map->count - 1) < 0 && errno != ENOENT)
            r = -1;
    }
    return r ? sb_fail_errno(error, errno, "cgroup", "%s can't be given to init", path) : 0;
}

static int open_group(const char *path, int *ret_fd, struct sandbox_error **error)
{
    *ret_fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return *ret_fd < 0 ? sb_fail_errno(error, errno, "cgroup", "%s can't be opened", path) : 0;
}

static int move_init(struct sb_engine *engine, const struct sb_record *record, const char *leaf, struct sandbox_error **error)
{
    struct sb_request request = { .type = SB_REQUEST_MOVE };
    SB_CLOSE int link = -1, fd = -1;
    struct sb_reply reply;
    int r = open_group(leaf, &fd, error);

    if (!r)
        r = sb_link_open(engine, record->id, &link, error);
    if (!r)
        r = sb_link_send(link, &request, NULL, &fd, 1, error);
    if (!r)
        r = sb_link_await(link, engine->driver.close_fd, MOVE_MS, &reply, NULL, error);
    if (!r && reply.type != SB_REPLY_DONE)
        r = sb_fail_errno(error, reply.sys_errno, "cgroup", "init can't leave the sandbox's own cgroup");
    return r;
}

/* The top's leaves get controllers. Several callers may be at it: each step may be done twice. */
static int divide(struct sb_engine *engine, const struct sb_record *record, const char *top, struct sandbox_error **error)
{
    char path[4300], text[64] = "";
    size_t n = 0;
    int r;

    snprintf(path, sizeof path, "%s/cgroup.subtree_control", top);
    if ((sb_cgroups_controllers(path) & engine->cgroups.delegated) == engine->cgroups.delegated)
        return 0;
    snprintf(path, sizeof path, "%s/init", top);
    if (mkdir(path, 0755) < 0 && errno != EEXIST)
        return sb_fail_errno(error, errno, "cgroup", "%s can't be made", path);
    r = give(record, path, error);
    if (!r)
        r = move_init(engine, record, path, error);
    if (r)
        return r;
    for (int c = 0; c < SB_CONTROLLERS; c++)
        if (engine->cgroups.delegated >> c & 1)
            n += (size_t)snprintf(text + n, sizeof text - n, "%s+%s", n ? " " : "", sb_cgroups_name(c));
    r = sb_cgroups_write(top, "cgroup.subtree_control", text);
    return r ? sb_fail_errno(error, -r, "cgroup", "controllers can't be enabled in %s", top) : 0;
}

static int tell_init(const struct sb_exec_request *request, int link, const char *path, struct sandbox_error **error)
{
    struct sb_request leaf = { .type = SB_REQUEST_LEAF };
    SB_CLOSE int fd = -1;
    int r = open_group(path, &fd, error);

    if (!r && sb_exec_id_parse(request->id, leaf.exec_id))
        r = sb_fail(error, SB_ARGS(SANDBOX_EINTERNAL, .field = "id"), "the exec's id is no id");
    return r ? r : sb_link_send(link, &leaf, NULL, &fd, 1, error);
}

int sb_exec_leaf(struct sb_engine *engine, const struct sb_record *record, const struct sb_exec_request *request, int link, char **ret_path,
                 struct sandbox_error **error)
{
    const json_t *folders = json_object_get(record->json, "cgroups");
    unsigned int bits = wanted(request->limits), have = sb_cgroups_has_leaves(folders) ? engine->cgroups.delegated : 0;
    const char *top = json_string_value(json_array_get(folders, 0));
    SB_FREE char *path = NULL;
    int r;

    if (!bits)
        return 0;
    if (bits & ~have)
        return unsupported(bits & ~have, error);
    if (!sb_cgroups_is_ours(top, record->id))
        return sb_fail(error, SB_ARGS(SANDBOX_EDAMAGED, .phase = "cgroup"), "the record names a cgroup that can't be the sandbox's");
    r = divide(engine, record, top, error);
    if (r)
        return r;
    if (asprintf(&path, "%s/x-%.*s", top, 2 * SB_LEAF_BYTES, request->id) < 0) {
        path = NULL;
        return sb_fail(error, SB_ARGS(SANDBOX_ENOMEM, .sys_errno = ENOMEM), "out of memory");
    }
    if (mkdir(path, 0755) < 0)
        return sb_fail_errno(error, errno, "cgroup", "%s can't be made", path);
    r = sb_cgroups_write_v2(path, bits, request->limits, 1, error);
    if (!r)
        r = give(record, path, error);
    if (!r)
        r = tell_init(request, link, path, error);
    if (r)
        rmdir(path);
    else
        *ret_path = SB_TAKE_PTR(path);
    return r;
}
