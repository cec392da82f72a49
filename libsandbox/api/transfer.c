/* SPDX-License-Identifier: Apache-2.0
 * Uploads and downloads. */
#include "handles.h"
#include "options.h"

#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>

static const struct sandbox_host *host_of(const struct sandbox *sandbox)
{
    return sandbox ? sandbox->host : NULL;
}

/* A descriptor of the caller's, which goes inside: nothing that leads further out of the sandbox than its own bytes. */
static int check_fd(int fd, int wanted, const char *field, struct sandbox_error **error)
{
    int flags = fcntl(fd, F_GETFL);
    struct stat st;

    if (flags < 0 || fstat(fd, &st) < 0)
        return sb_fail(error, SB_ARGS(SANDBOX_EINVALID, .field = field), "%s is no open descriptor", field);
    if (S_ISDIR(st.st_mode) || (flags & O_PATH))
        return sb_fail(error, SB_ARGS(SANDBOX_EINVALID, .field = field), "%s is a folder or a path: it would lead out of the sandbox", field);
    if ((flags & O_ACCMODE) != O_RDWR && (flags & O_ACCMODE) != wanted)
        return sb_fail(error, SB_ARGS(SANDBOX_EINVALID, .field = field), "%s is not open for %s", field, wanted == O_RDONLY ? "reading" : "writing");
    return 0;
}

/* A path of this machine, or a descriptor with a format: one of them. */
static int check_end(const char *path, int fd, int wanted, int format, const char *field, const char *fd_field, struct sandbox_error **error)
{
    if (format < SANDBOX_STREAM_AUTO || format > SANDBOX_STREAM_FILE)
        return sb_fail(error, SB_ARGS(SANDBOX_EINVALID, .field = "format"), "format is not a sandbox_stream");
    if (!path && fd < 0)
        return sb_fail_null(error, field);
    if (path && fd >= 0)
        return sb_fail(error, SB_ARGS(SANDBOX_EINVALID, .field = fd_field), "%s and %s are both given", field, fd_field);
    if (path && (!path[0] || strnlen(path, PATH_MAX) == PATH_MAX))
        return sb_fail(error, SB_ARGS(SANDBOX_EINVALID, .field = field), "%s is empty or longer than %d bytes", field, PATH_MAX - 1);
    if (!path && format == SANDBOX_STREAM_AUTO)
        return sb_fail(error, SB_ARGS(SANDBOX_EINVALID, .field = "format"), "say what format a descriptor's bytes have");
    return path ? 0 : check_fd(fd, wanted, fd_field, error);
}

static int check_caps(int64_t bytes, int64_t entries, unsigned int flags, unsigned int known, struct sandbox_error **error)
{
    if (bytes < 0 || entries < 0)
        return sb_fail(error, SB_ARGS(SANDBOX_EINVALID, .field = bytes < 0 ? "max_bytes" : "max_entries"), "a limit is negative");
    if (flags & ~known)
        return sb_fail(error, SB_ARGS(SANDBOX_EINVALID, .field = "flags"), "flags has bits that this call does not know");
    return 0;
}

static int upload_begin(struct sandbox *sandbox, const char *source, const char *target, const struct sandbox_upload_options *options,
                        struct sandbox_op **ret_op, struct sandbox_error **error)
{
    struct sandbox_upload_options known = SANDBOX_UPLOAD_OPTIONS_INIT;
    struct sandbox_host *host;
    struct sb_op *op;
    int r = sb_sandbox_check(sandbox, error);

    if (!r)
        r = sb_options_read(&known, sizeof known, SB_SIZE_TO(struct sandbox_upload_options, max_entries), options, error);
    if (!r)
        r = check_end(source, known.source_fd, O_RDONLY, known.format, "source", "source_fd", error);
    if (!r)
        r = sb_check_inside_path(target, "target", error);
    if (!r)
        r = check_caps(known.max_bytes, known.max_entries, known.flags, SANDBOX_FILE_PARENTS | SANDBOX_FILE_EXCLUSIVE, error);
    if (!r && (known.mode < -1 || known.mode > 07777))
        r = sb_fail(error, SB_ARGS(SANDBOX_EINVALID, .field = "mode"), "mode %d is not within 0 to 07777", known.mode);
    if (!r)
        r = sb_check_owner(known.uid, "uid", error);
    if (!r)
        r = sb_check_owner(known.gid, "gid", error);
    if (!r && !ret_op)
        r = sb_fail_null(error, "ret_op");
    if (r)
        return r;
    host = sandbox->host;
    if (!host->driver->ops->upload)
        return sb_fail_slot(error, host, "upload", NULL);
    r = host->driver->ops->upload(host->driver, sandbox->id, source, target, &known, &op, error);
    return r ? r : sb_op_new(op, host, NULL, "upload", host->driver->ops->name, ret_op, error);
}

int sandbox_upload_begin(struct sandbox *sandbox, const char *source, const char *target, const struct sandbox_upload_options *options,
                         struct sandbox_op **ret_op, struct sandbox_error **error)
{
    struct sandbox_error *failure = NULL;

    return sb_leave(upload_begin(sandbox, source, target, options, ret_op, &failure), &failure, error, "upload", host_of(sandbox));
}

int sandbox_upload(struct sandbox *sandbox, const char *source, const char *target, const struct sandbox_upload_options *options,
                   int64_t timeout_ms, struct sandbox_error **error)
{
    struct sandbox_error *failure = NULL;
    struct sandbox_op *op = NULL;
    int r = sb_check_timeout(timeout_ms, "timeout_ms", &failure);

    if (!r)
        r = upload_begin(sandbox, source, target, options, &op, &failure);
    if (!r)
        r = sb_op_run(op, timeout_ms, &failure);
    sandbox_op_unref(op);
    return sb_leave(r, &failure, error, "upload", host_of(sandbox));
}

static int check_top(const char *top, struct sandbox_error **error)
{
    if (!top || (top[0] && strnlen(top, NAME_MAX + 1) <= NAME_MAX && !strchr(top, '/') && strcmp(top, "..")))
        return 0;
    return sb_fail(error, SB_ARGS(SANDBOX_EINVALID, .field = "top"), "top is not a plain name");
}

static int download_begin(struct sandbox *sandbox, const char *source, const char *target,
                          const struct sandbox_download_options *options, struct sandbox_op **ret_op, struct sandbox_error **error)
{
    struct sandbox_download_options known = SANDBOX_DOWNLOAD_OPTIONS_INIT;
    unsigned int flags = target ? SANDBOX_FILE_EXCLUSIVE | SANDBOX_FILE_MERGE | SANDBOX_FILE_KEEP_OWNERS : 0;
    struct sandbox_host *host;
    struct sb_op *op;
    int r = sb_sandbox_check(sandbox, error);

    if (!r)
        r = sb_options_read(&known, sizeof known, SB_SIZE_TO(struct sandbox_download_options, max_entries), options, error);
    if (!r)
        r = check_end(target, known.target_fd, O_WRONLY, known.format, "target", "target_fd", error);
    if (!r)
        r = sb_check_inside_path(source, "source", error);
    if (!r)
        r = check_caps(known.max_bytes, known.max_entries, known.flags, flags, error);
    if (!r)
        r = check_top(known.top, error);
    if (!r && !ret_op)
        r = sb_fail_null(error, "ret_op");
    if (r)
        return r;
    host = sandbox->host;
    if (!host->driver->ops->download)
        return sb_fail_slot(error, host, "download", NULL);
    r = host->driver->ops->download(host->driver, sandbox->id, source, target, &known, &op, error);
    return r ? r : sb_op_new(op, host, NULL, "download", host->driver->ops->name, ret_op, error);
}

int sandbox_download_begin(struct sandbox *sandbox, const char *source, const char *target,
                           const struct sandbox_download_options *options, struct sandbox_op **ret_op, struct sandbox_error **error)
{
    struct sandbox_error *failure = NULL;

    return sb_leave(download_begin(sandbox, source, target, options, ret_op, &failure), &failure, error, "download", host_of(sandbox));
}

int sandbox_download(struct sandbox *sandbox, const char *source, const char *target, const struct sandbox_download_options *options,
                     int64_t timeout_ms, struct sandbox_error **error)
{
    struct sandbox_error *failure = NULL;
    struct sandbox_op *op = NULL;
    int r = sb_check_timeout(timeout_ms, "timeout_ms", &failure);

    if (!r)
        r = download_begin(sandbox, source, target, options, &op, &failure);
    if (!r)
        r = sb_op_run(op, timeout_ms, &failure);
    sandbox_op_unref(op);
    return sb_leave(r, &failure, error, "download", host_of(sandbox));
}
