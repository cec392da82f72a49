/* SPDX-License-Identifier: Apache-2.0
 * Names in archives, made plain before they are used. ".." is refused and not resolved: no honest archive has it. */
#include "tree.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <string.h>

const char *au_path_clean(const char *path, char clean[AU_PATH_MAX])
{
    size_t n = 0;
    int depth = 0;

    while (*path) {
        size_t length;

        while (*path == '/')
            path++;
        length = strcspn(path, "/");
        if (length == 0)
            break;
        if (length == 1 && path[0] == '.') {
            path++;
            continue;
        }
        if (length == 2 && path[0] == '.' && path[1] == '.')
            return "has \"..\" in its path";
        if (length > NAME_MAX)
            return "has a name of more than 255 bytes";
        if (++depth > AU_DEPTH_MAX)
            return "is nested deeper than 128 folders";
        if (n + length + 2 > AU_PATH_MAX)
            return "has a path of more than 4095 bytes";
        if (n)
            clean[n++] = '/';
        memcpy(clean + n, path, length);
        n += length;
        path += length;
    }
    clean[n] = 0;
    return NULL;
}

const char *au_path_split(const char *clean, char parent[AU_PATH_MAX])
{
    const char *slash = strrchr(clean, '/');

    if (!slash) {
        parent[0] = 0;
        return clean;
    }
    memcpy(parent, clean, (size_t)(slash - clean));
    parent[slash - clean] = 0;
    return slash + 1;
}

int au_wait(int fd, short events)
{
    struct pollfd p = { .fd = fd, .events = events };

    while (poll(&p, 1, -1) < 0)
        if (errno != EINTR)
            return -errno;
    return 0;
}
