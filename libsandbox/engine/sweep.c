/* SPDX-License-Identifier: Apache-2.0
 * See sweep.h. */
#include "sweep.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <errors.h>
#include <fs.h>
#include <util.h>

int sb_sweep_start(struct sb_helper *helper, const struct sb_idmap *map, int exe, int epoll, int dir, const char *name,
                   struct sandbox_error **error)
{
    struct sb_unpack_plan plan = { .job = SB_UNPACK_REMOVE, .map = *map };

    if (strlen(name) >= sizeof plan.name || strchr(name, '/') || !strcmp(name, ".") || !strcmp(name, "..") || !name[0])
        return sb_fail(error, SB_ARGS(SANDBOX_EINTERNAL), "removing '%s': not a plain name", name);
    snprintf(plan.name, sizeof plan.name, "%s", name);
    return sb_helper_start(helper, exe, epoll, &plan, -1, dir, -1, error);
}

static int by_helper(const struct sb_idmap *map, int exe, int dir, const char *name, int64_t timeout_ms, struct sandbox_error **error)
{
    SB_CLOSE int epoll = epoll_create1(EPOLL_CLOEXEC);
    struct sb_helper helper = SB_HELPER_INIT;
    int64_t deadline = sb_deadline(timeout_ms);
    int r;

    if (epoll < 0)
        return sb_fail_errno(error, errno, "remove", "removing '%s'", name);
    r = sb_sweep_start(&helper, map, exe, epoll, dir, name, error);
    if (!r)
        while ((r = sb_helper_step(&helper, error)) == 1) {
            struct pollfd fd = { .fd = epoll, .events = POLLIN };

            if (poll(&fd, 1, sb_left_ms(deadline)) == 0) {
                r = sb_fail(error, SB_ARGS(SANDBOX_ETIMEDOUT, .retryable = 1), "removing '%s' took more than %lld ms", name,
                            (long long)timeout_ms);
                break;
            }
        }
    sb_helper_clear(&helper);
    return r;
}

int sb_sweep(const struct sb_idmap *map, int exe, int dir, const char *name, int64_t timeout_ms, struct sandbox_error **error)
{
    struct stat st;
    int r;

    if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0 && errno == ENOENT)
        return 0;
    if (map->privilege == SB_PRIVILEGE_SUBIDS)
        return by_helper(map, exe, dir, name, timeout_ms, error);
    r = sb_remove_tree(dir, name);
    return r ? sb_fail_errno(error, -r, "remove", "removing '%s'", name) : 0;
}
