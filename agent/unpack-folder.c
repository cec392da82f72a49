/* SPDX-License-Identifier: Apache-2.0
 * The packer's job: a folder of this machine as a tar, for an image or for a sandbox. */
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
