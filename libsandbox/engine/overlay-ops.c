/* SPDX-License-Identifier: Apache-2.0
 * What can be asked of an overlay mount: what was changed, and how much it takes. */
#include "overlay-look.h"
#include "overlay.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <errors.h>
#include <fs.h>
#include <json.h>

int sb_overlay_find(const struct sb_record *record, const char *target, size_t *ret, struct sandbox_error **error)
{
    for (size_t i = record->spec->n_mounts; i-- > 0;) {
        const struct sb_mount *m = &record->spec->mounts[i];

        if (strcmp(m->target, target))
            continue;
        if (m->type != SANDBOX_MOUNT_OVERLAY)
            return sb_fail(error, SB_ARGS(SANDBOX_EINVALID, .field = "target"), "what is mounted at %s is no overlay", target);
        *ret = i;
        return 0;
    }
    return sb_fail(error, SB_ARGS(SANDBOX_ENOTFOUND, .field = "target", .hint = "name a target of the spec's mounts"),
                   "nothing of the spec is mounted at %s", target);
}

static int open_place(struct sb_engine *engine, const struct sb_record *record, size_t mount)
{
    char path[256];

    sb_overlay_place(record, mount, path, sizeof path);
    return sb_open_beneath(engine->root, path, O_RDONLY | O_DIRECTORY, 0);
}

static int begin_look(struct sb_engine *engine, const char *id, const char *target, const char *job, int64_t most, int data, struct sb_op **ret_op,
                      struct sandbox_error **error)
{
    struct sb_record record = SB_RECORD_INIT;
    struct sb_look_job look = { .job = job, .place = -1, .lower = -1, .words = -1, .most = most, .data = data };
    size_t mount;
    int r = sb_record_open(engine, id, SB_LOCK_NONE, &record, error);

    if (!r)
        r = sb_overlay_find(&record, target, &mount, error);
    if (!r && (look.place = open_place(engine, &record, mount)) < 0)
        r = sb_fail_errno(error, -look.place, "layer", "the layer of %s can't be opened", target);
    if (!r && strcmp(job, "usage") != 0) {
        look.lower = open(record.spec->mounts[mount].source, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (look.lower < 0)
            r = sb_fail_errno(error, errno, "layer", "the host's folder %s can't be read", record.spec->mounts[mount].source);
    }
    look.map = &record.map;
    if (!r)
        r = sb_look_begin(engine, &look, ret_op, error);
    sb_close(look.place);
    sb_close(look.lower);
    sb_record_clear(&record);
    return r;
}

int sb_engine_mount_diff(struct sb_driver *driver, const char *id, const char *target, int64_t most, struct sb_op **ret_op,
                         struct sandbox_error **error)
{
    return begin_look((struct sb_engine *)driver, id, target, "diff", most, 0, ret_op, error);
}

int sb_engine_mount_usage(struct sb_driver *driver, const char *id, const char *target, struct sb_op **ret_op, struct sandbox_error **error)
{
    return begin_look((struct sb_engine *)driver, id, target, "usage", 0, 0, ret_op, error);
}

int sb_engine_mount_tar(struct sb_driver *driver, const char *id, const char *target, int fd, struct sb_op **ret_op, struct sandbox_error **error)
{
    /* a copy that is not 0, 1 or 2: the host program may have closed those */
    SB_CLOSE int data = fcntl(fd, F_DUPFD_CLOEXEC, 3);

    if (data < 0)
        return sb_fail_errno(error, errno, "layer", "the descriptor can't be passed on");
    return begin_look((struct sb_engine *)driver, id, target, "tar", 0, data, ret_op, error);
}
