/* SPDX-License-Identifier: Apache-2.0
 * Folders of this machine: packed as a tar, for an image or for a sandbox; unpacked from what a sandbox sends. */
#include "put.h"
#include "unpack.h"

#include <errno.h>
#include <unistd.h>

void au_job_pack(const struct sb_unpack_plan *plan, int out)
{
    struct au_pack how = {
        .source = SB_UNPACK_FD_SOURCE, .out = out, .top = ".", .one_owner = plan->map.privilege == SB_PRIVILEGE_SINGLE,
        .own_uid = -1, .own_gid = -1, .max_bytes = -1, .max_entries = -1,
    };
    struct stat st;

    if (fstat(SB_UNPACK_FD_DEST, &st) < 0)
        au_fail_errno(errno, "examining the destination");
    how.dest_dev = st.st_dev;
    how.dest_ino = st.st_ino;
    au_pack(&how);
}

void au_job_pack_live(const struct sb_unpack_plan *plan, int out)
{
    static struct sb_unpack_result result;
    struct au_pack how = {
        .source = SB_UNPACK_FD_SOURCE, .out = out, .top = ".", .live = 1, .one_owner = !!(plan->flags & SB_UNPACK_ONE_OWNER),
        .own_uid = plan->map.uid, .own_gid = plan->map.gid, .max_bytes = plan->max_bytes, .max_entries = plan->max_entries,
    };

    au_notes = 1;
    au_pack(&how);
    au_send_result(&result);
}

/* What a sandbox has becomes a folder of the machine: its owner is who asked for it, and nobody's rights come along. */
void au_job_tree(const struct sb_unpack_plan *plan, int root)
{
    int keep = !!(plan->flags & SB_UNPACK_KEEP_OWNERS);
    struct au_put how = {
        .in = SB_UNPACK_FD_SOURCE, .root = root, .root_made = !(plan->flags & SB_UNPACK_MERGE), .map = &plan->map, .uid = keep ? -1 : 0,
        .gid = keep ? -1 : 0, .mode = -1, .tame = 1, .max_bytes = plan->max_bytes, .max_entries = plan->max_entries,
    };
    int64_t bytes, entries;

    au_put(&how, &bytes, &entries);
}
