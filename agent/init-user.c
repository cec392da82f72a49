/* SPDX-License-Identifier: Apache-2.0
 * Users by name. The files read are the image's, so hostile: opened without following links out of the root or blocking on a
 * pipe, at most 1 MiB of them looked at, and what is found is only ever a number within the id map. Nothing of the machine's
 * name services is asked. */
#include "init.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <util.h>

static char text[1024 * 1024 + 1];

static int load(const char *path)
{
    SB_CLOSE int fd = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    struct stat st;
    size_t have = 0;
    ssize_t n;

    if (fd < 0)
        return -errno;
    if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
        return -EINVAL;
    while (have < sizeof text - 1 && (n = SB_RETRY(read(fd, text + have, sizeof text - 1 - have))) > 0)
        have += (size_t)n;
    text[have] = 0;
    return 0;
}

/* The field of a colon-separated line, NUL-terminated in place; NULL when there are fewer. */
static char *field(char **line)
{
    char *at = *line, *colon;

    if (!at)
        return NULL;
    colon = strchr(at, ':');
    if (colon)
        *colon = 0;
    *line = colon ? colon + 1 : NULL;
    return at;
}

/* The line of `path` whose first field is `name` (or whose third is `id`): its third and fourth field as numbers. */
static int find(const char *path, const char *name, int64_t id, int64_t *ret_third, int64_t *ret_fourth)
{
    char *save = NULL;
    int r = load(path);

    if (r)
        return r == -ENOENT ? -ENOENT : r;
    for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
        char *first = field(&line), *third, *fourth;
        int64_t a, b = -1;

        field(&line);
        third = field(&line);
        fourth = field(&line);
        if (!first || !third || sb_parse_int(third, 0, UINT32_MAX - 1, &a))
            continue;
        if (name ? strcmp(first, name) != 0 : a != id)
            continue;
        if (fourth && sb_parse_int(fourth, 0, UINT32_MAX - 1, &b))
            b = -1;
        *ret_third = a;
        *ret_fourth = b;
        return 0;
    }
    return -ENOENT;
}

int ag_resolve_user(const char *user, uid_t *ret_uid, gid_t *ret_gid)
{
    char name[256];
    const char *colon = strchr(user, ':');
    size_t n = colon ? (size_t)(colon - user) : strlen(user);
    int64_t uid = 0, gid = -1, unused;
    int r;

    if (n >= sizeof name)
        return -EINVAL;
    memcpy(name, user, n);
    name[n] = 0;
    if (!n) {
        uid = 0;
    } else if (!sb_parse_int(name, 0, UINT32_MAX - 1, &uid)) {
        if (!colon && find("/etc/passwd", NULL, uid, &unused, &gid))
            gid = -1; /* a number needs no entry; without one its group is 0, as container engines do */
    } else {
        r = find("/etc/passwd", name, 0, &uid, &gid);
        if (r)
            return r;
    }
    if (colon && colon[1]) {
        if (sb_parse_int(colon + 1, 0, UINT32_MAX - 1, &gid)) {
            r = find("/etc/group", colon + 1, 0, &gid, &unused);
            if (r)
                return r;
        }
    }
    *ret_uid = (uid_t)uid;
    *ret_gid = (gid_t)(gid < 0 ? 0 : gid);
    return 0;
}
