/* SPDX-License-Identifier: Apache-2.0
 * A file with holes in a tar: GNU's form 1.0, a map of decimal numbers in front of the data. */
#include "pack.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <util.h>

enum { PARTS_MAX = 65536 }; /* a file in more pieces is packed whole */

struct part {
    int64_t offset, size;
};

/* Where the data is, as it is at this moment; -1 when that can't be told. */
static long find_parts(int fd, int64_t end, struct part **ret_parts)
{
    SB_FREE struct part *parts = NULL;
    size_t n = 0, room = 0;
    int64_t at = 0;

    while (at < end) {
        int64_t data = lseek(fd, at, SEEK_DATA), hole;

        if (data < 0 && errno == ENXIO)
            break;
        hole = data < 0 ? -1 : lseek(fd, data, SEEK_HOLE);
        if (hole <= data || n == PARTS_MAX)
            return -1;
        if (data >= end)
            break;
        if (n == room) {
            struct part *more = reallocarray(parts, room = room ? room * 2 : 64, sizeof *more);

            if (!more)
                return -1;
            parts = more;
        }
        parts[n++] = (struct part){ data, (hole < end ? hole : end) - data };
        at = hole;
    }
    *ret_parts = SB_TAKE_PTR(parts);
    return (long)n;
}

/* "N\n", then offset and size of each, padded to a block. GNU tar ends it with an empty piece at the end. malloc'ed. */
static char *make_map(const struct part *parts, size_t n, int64_t end, size_t *ret_size)
{
    size_t room = (n + 2) * 48 + TAR_BLOCK, used;
    char *map = calloc(1, room);

    if (!map)
        return NULL;
    used = (size_t)snprintf(map, room, "%zu\n", n + 1);
    for (size_t i = 0; i < n; i++)
        used += (size_t)snprintf(map + used, room - used, "%lld\n%lld\n", (long long)parts[i].offset, (long long)parts[i].size);
    used += (size_t)snprintf(map + used, room - used, "%lld\n0\n", (long long)end);
    *ret_size = (used + TAR_BLOCK - 1) / TAR_BLOCK * TAR_BLOCK;
    return map;
}

int au_pack_sparse(struct au_packing *pack, int fd, const struct stat *st)
{
    SB_FREE struct part *parts = NULL;
    SB_FREE char *map = NULL;
    int64_t bytes = 0;
    size_t map_size;
    long n = find_parts(fd, st->st_size, &parts);

    map = n < 0 ? NULL : make_map(parts, (size_t)n, st->st_size, &map_size);
    if (!map) {
        if (lseek(fd, 0, SEEK_SET) < 0)
            au_fail_errno(errno, "reading '%s' in the folder", pack->path);
        return 0;
    }
    for (long i = 0; i < n; i++)
        bytes += parts[i].size;
    au_pack_entry(pack, st, '0', NULL, fd, (int64_t)map_size + bytes);
    au_pack_put(pack, map, map_size);
    for (long i = 0; i < n; i++) {
        if (lseek(fd, parts[i].offset, SEEK_SET) < 0)
            au_fail_errno(errno, "reading '%s' in the folder", pack->path);
        au_pack_body(pack, fd, parts[i].size);
    }
    au_pack_pad(pack, bytes);
    return 1;
}
