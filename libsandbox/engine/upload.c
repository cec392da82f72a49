/* SPDX-License-Identifier: Apache-2.0
 * Uploads: a file goes in by its descriptor, a stream by the caller's, a folder through a helper that packs it (agent/unpack-pack.c) with
 * the caller's rights, and confined, since its names and contents may be anybody's. */
#include "transfer.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <errors.h>

struct end {
    int fd; /* opened here */
    struct stat st;
};

static int open_source(const char *source, struct end *ret, struct sandbox_error **error)
{
    SB_CLOSE int fd = open(source, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    int r;

    if (fd < 0 || fstat(fd, &ret->st) < 0) {
        r = sb_fail_errno(error, errno, "open", "opening '%s'", source);
        sb_error_set_field(error, "source");
        return r;
    }
    if (!S_ISREG(ret->st.st_mode) && !S_ISDIR(ret->st.st_mode))
        return sb_fail(error, SB_ARGS(SANDBOX_EINVALID, .field = "source"), "'%s' is neither a file nor a folder", source);
    ret->fd = SB_TAKE_FD(fd);
    return 0;
}

/* The caller's own becomes root's inside; others keep their number. */
static int64_t id_inside(const struct sb_engine *engine, uint32_t id, uint32_t own)
{
    return engine->map.privilege == SB_PRIVILEGE_SINGLE || id == own ? 0 : (int64_t)id;
}

static int64_t nanoseconds(const struct timespec *t)
{
    int64_t most = INT64_MAX / 1000000000 - 1;
    int64_t seconds = t->tv_sec > most ? most : t->tv_sec < -most ? -most : t->tv_sec;

    return seconds * 1000000000 + t->tv_nsec;
}

static int begin_file(struct sb_transfer *t, const struct end *end, const char *target, struct sb_files_request *q,
                      struct sandbox_error **error)
{
    q->op = SB_FILES_WRITE;
    q->flags |= SB_FILES_XATTRS;
    q->mode = q->mode < 0 ? (int32_t)(end->st.st_mode & 07777) : q->mode;
    q->uid = q->uid < 0 ? id_inside(t->engine, end->st.st_uid, t->engine->map.uid) : q->uid;
    q->gid = q->gid < 0 ? id_inside(t->engine, end->st.st_gid, t->engine->map.gid) : q->gid;
    q->mtime_ns = nanoseconds(&end->st.st_mtim);
    t->op.progress.total = end->st.st_size;
    return sb_transfer_ask(t, q, target, NULL, end->fd, error);
}

static int begin_folder(struct sb_transfer *t, const struct end *end, const char *target, struct sb_files_request *q,
                        struct sandbox_error **error)
{
    struct sb_unpack_plan plan = { .job = SB_UNPACK_PACK, .map = t->engine->map, .max_bytes = q->max_bytes, .max_entries = q->max_entries };
    SB_CLOSE int in = -1, out = -1;
    int pipes[2], r;

    if (pipe2(pipes, O_CLOEXEC) < 0)
        return sb_fail_errno(error, errno, "files", "no pipe");
    out = pipes[0];
    in = pipes[1];
    fcntl(in, F_SETPIPE_SZ, 1 << 20);
    if (t->engine->map.privilege == SB_PRIVILEGE_SINGLE)
        plan.flags |= SB_UNPACK_ONE_OWNER;
    q->op = SB_FILES_PUT_TAR;
    r = sb_transfer_ask(t, q, target, NULL, out, error); /* first, so that a sandbox that isn't there is an error at once */
    return r ? r : sb_transfer_help(t, &plan, end->fd, in, -1, error);
}

static int begin(struct sb_transfer *t, const char *source, const char *target, const struct sandbox_upload_options *options,
                 struct sandbox_error **error)
{
    struct sb_files_request q = SB_FILES_REQUEST_INIT;
    struct end end = { .fd = -1 };
    int r = source ? open_source(source, &end, error) : 0, fd = source ? end.fd : options->source_fd;

    if (r)
        return r;
    q.flags = options->flags & (SANDBOX_FILE_PARENTS | SANDBOX_FILE_EXCLUSIVE);
    q.mode = options->mode;
    q.uid = options->uid;
    q.gid = options->gid;
    q.max_bytes = options->max_bytes ? options->max_bytes : -1;
    q.max_entries = options->max_entries ? options->max_entries : -1;
    if (t->engine->map.privilege == SB_PRIVILEGE_SINGLE)
        q.flags |= SB_FILES_ROOT_OWNS;
    if (source && options->format != SANDBOX_STREAM_AUTO && S_ISDIR(end.st.st_mode)) {
        r = sb_fail(error, SB_ARGS(SANDBOX_EINVALID, .field = "format"), "'%s' is a folder and no stream", source);
    } else if (source && S_ISDIR(end.st.st_mode)) {
        r = begin_folder(t, &end, target, &q, error);
    } else if (options->format == SANDBOX_STREAM_TAR) {
        q.op = SB_FILES_PUT_TAR;
        r = sb_transfer_ask(t, &q, target, NULL, fd, error);
    } else if (source) {
        r = begin_file(t, &end, target, &q, error);
    } else {
        q.op = SB_FILES_WRITE;
        r = sb_transfer_ask(t, &q, target, NULL, fd, error);
    }
    sb_close(end.fd);
    return r;
}

int sb_engine_upload(struct sb_driver *driver, const char *id, const char *source, const char *target,
                     const struct sandbox_upload_options *options, struct sb_op **ret_op, struct sandbox_error **error)
{
    struct sb_transfer *t = sb_transfer_new((struct sb_engine *)driver, id, "upload", error);
    int r = t ? begin(t, source, target, options, error) : SANDBOX_ENOMEM;

    if (!r)
        *ret_op = &t->op;
    else if (t)
        sb_transfer_free(t);
    return r;
}
