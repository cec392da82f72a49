/* SPDX-License-Identifier: Apache-2.0
 * Downloads. First the server says what is there. A file is then written by it into a nameless one of this machine, which gets its name
 * when it is whole, so that nothing is left of it whoever dies meanwhile. (Where something has that name already, the new file needs a name
 * of its own for the moment between two system calls; where the file system knows no nameless files, all the time: temporary.c.) A folder is unpacked
 * by a helper, which gives it its name, or removes it when this process is gone. */
#include "transfer.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <errors.h>

enum { LOOKING = 1, COPYING };

static int fail_target(const struct sb_transfer *t, int sys_errno, const char *what, struct sandbox_error **error)
{
    int code = sys_errno == EISDIR || sys_errno == ENOTEMPTY || sys_errno == ENOTDIR ? SANDBOX_EEXISTS : sb_code_from_errno(sys_errno);

    return sb_fail(error, SB_ARGS(code, .sys_errno = sys_errno, .phase = "target", .field = "target"), "%s '%s': %s", what, t->target,
                   strerrordesc_np(sys_errno) ? strerrordesc_np(sys_errno) : "?");
}

/* The folder that the target is in, by the caller's own path; and its name. */
static int open_parent(struct sb_transfer *t, struct sandbox_error **error)
{
    size_t end = strlen(t->target);
    SB_FREE char *folder = NULL;
    char *slash;

    while (end > 1 && t->target[end - 1] == '/')
        t->target[--end] = 0;
    slash = strrchr(t->target, '/');
    snprintf(t->name, sizeof t->name, "%s", slash ? slash + 1 : t->target);
    if (!t->name[0] || !strcmp(t->name, ".") || !strcmp(t->name, "..") || strlen(slash ? slash + 1 : t->target) > NAME_MAX)
        return sb_fail(error, SB_ARGS(SANDBOX_EINVALID, .field = "target"), "the target '%s' does not end with a name", t->target);
    folder = slash ? strndup(t->target, slash == t->target ? 1 : (size_t)(slash - t->target)) : strdup(".");
    if (!folder)
        return sb_fail(error, SB_ARGS(SANDBOX_ENOMEM, .retryable = 1), "out of memory");
    t->parent = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return t->parent < 0 ? fail_target(t, errno == ENOTDIR ? ENOENT : errno, "opening the folder of", error) : 0;
}

/* ---- a file */

static int make_file(struct sb_transfer *t, struct sandbox_error **error)
{
    t->file = openat(t->parent, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (t->file >= 0)
        return 0;
    if (errno != EOPNOTSUPP && errno != EISDIR && errno != EINVAL && errno != ENOENT)
        return fail_target(t, errno, "making", error);
    t->file = sb_temporary_make(t->parent, t->name, t->temporary);
    if (t->file >= 0)
        return 0;
    t->temporary[0] = 0;
    return fail_target(t, -t->file, "making", error);
}

static int set_attributes(struct sb_transfer *t, struct sandbox_error **error)
{
    int64_t nanos = t->stat.mtime_ns % 1000000000, seconds = t->stat.mtime_ns / 1000000000;
    struct timespec time = { seconds - (nanos < 0), nanos < 0 ? nanos + 1000000000 : nanos }, times[2] = { time, time };

    if ((t->options.flags & SANDBOX_FILE_KEEP_OWNERS) && fchown(t->file, (uid_t)t->stat.uid, (gid_t)t->stat.gid) < 0)
        return fail_target(t, errno, "setting the owner of", error);
    /* nobody's rights come along */
    if (t->options.format != SANDBOX_STREAM_TAR && (fchmod(t->file, (mode_t)t->stat.mode & 0777) < 0 || futimens(t->file, times) < 0))
        return fail_target(t, errno, "setting mode and time of", error);
    return 0;
}

static int name_file(struct sb_transfer *t, struct sandbox_error **error)
{
    unsigned int flags = t->options.flags & SANDBOX_FILE_EXCLUSIVE ? RENAME_NOREPLACE : 0;
    char path[64];
    int r;

    if (!t->temporary[0]) {
        snprintf(path, sizeof path, "/proc/self/fd/%d", t->file);
        if (linkat(AT_FDCWD, path, t->parent, t->name, AT_SYMLINK_FOLLOW) == 0)
            return 0;
        if (errno != EEXIST || flags)
            return fail_target(t, errno, "making", error);
        r = sb_temporary_link(t->parent, t->name, t->file, t->temporary);
        if (r) {
            t->temporary[0] = 0;
            return fail_target(t, -r, "making", error);
        }
    }
    if (renameat2(t->parent, t->temporary, t->parent, t->name, flags) < 0)
        return fail_target(t, errno, "replacing", error);
    t->temporary[0] = 0;
    (void)flock(t->file, LOCK_UN); /* it is the caller's now */
    return 0;
}

static int finish_file(struct sb_transfer *t, struct sandbox_error **error)
{
    int r = t->has_stat ? set_attributes(t, error)
                        : sb_fail(error, SB_ARGS(SANDBOX_EPROTOCOL, .phase = "files"), "the sandbox's file server did not say what the file is");

    return r ? r : name_file(t, error);
}

/* ---- asking */

static struct sb_files_request request_of(const struct sb_transfer *t, enum sb_files_op op)
{
    struct sb_files_request q = SB_FILES_REQUEST_INIT;

    q.op = op;
    q.max_bytes = t->options.max_bytes ? t->options.max_bytes : -1;
    q.max_entries = t->options.max_entries ? t->options.max_entries : -1;
    if (op == SB_FILES_GET_FILE)
        q.flags |= SB_FILES_XATTRS;
    return q;
}

static int get_file(struct sb_transfer *t, struct sandbox_error **error)
{
    struct sb_files_request q = request_of(t, t->options.format == SANDBOX_STREAM_TAR ? SB_FILES_GET_TAR : SB_FILES_GET_FILE);
    int r = make_file(t, error);

    t->stage = COPYING;
    t->conclude = finish_file;
    return r ? r : sb_transfer_ask(t, &q, t->source, t->top ? t->top : "", t->file, error);
}

static int done(struct sb_transfer *t, struct sandbox_error **error)
{
    (void)t;
    (void)error;
    return 0;
}

static int get_folder(struct sb_transfer *t, struct sandbox_error **error)
{
    struct sb_unpack_plan plan = { .job = SB_UNPACK_TREE, .map = t->engine->unpack };
    struct sb_files_request q = request_of(t, SB_FILES_GET_TAR);
    SB_CLOSE int out = -1, in = -1, dest = -1;
    char random[SB_ID_SIZE];
    int pipes[2], r;

    if (plan.map.privilege != SB_PRIVILEGE_ROOT) {
        plan.map.privilege = SB_PRIVILEGE_SINGLE;
        plan.map.count = 1;
    }
    plan.max_bytes = t->options.max_bytes ? t->options.max_bytes : INT64_MAX / 4;
    plan.max_entries = t->options.max_entries ? t->options.max_entries : INT64_MAX;
    plan.length = -1;
    plan.flags = (t->options.flags & SANDBOX_FILE_MERGE ? SB_UNPACK_MERGE : 0) |
                 (t->options.flags & SANDBOX_FILE_KEEP_OWNERS ? SB_UNPACK_KEEP_OWNERS : 0);
    if (t->options.flags & SANDBOX_FILE_MERGE) {
        dest = openat(t->parent, t->name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (dest < 0 && errno == ENOENT)
            plan.flags &= ~(uint32_t)SB_UNPACK_MERGE; /* then it appears as a whole */
        else if (dest < 0)
            return fail_target(t, errno, "opening", error);
    }
    r = sb_id_new(random);
    if (r)
        return sb_fail_errno(error, -r, "target", "no random name");
    snprintf(plan.name, sizeof plan.name, ".sandbox-%.32s", random); /* the helper's to remove */
    snprintf(plan.final, sizeof plan.final, "%s", t->name);
    if (pipe2(pipes, O_CLOEXEC) < 0)
        return sb_fail_errno(error, errno, "files", "no pipe");
    out = pipes[0];
    in = pipes[1];
    fcntl(in, F_SETPIPE_SZ, 1 << 20);
    t->stage = COPYING;
    t->conclude = done;
    r = sb_transfer_help(t, &plan, out, dest, t->parent, error);
    return r ? r : sb_transfer_ask(t, &q, t->source, ".", in, error);
}

/* The look is over: what is there decides. */
static int after_look(struct sb_transfer *t, struct sandbox_error **error)
{
    int is_folder = t->has_stat && t->stat.type == SANDBOX_FILE_FOLDER, r;

    if (!t->has_stat)
        return sb_fail(error, SB_ARGS(SANDBOX_EPROTOCOL, .phase = "files"), "the sandbox's file server did not say what the file is");
    if (is_folder && t->options.format == SANDBOX_STREAM_AUTO)
        r = get_folder(t, error);
    else if (t->stat.type == SANDBOX_FILE_REGULAR || t->options.format == SANDBOX_STREAM_TAR)
        r = get_file(t, error);
    else
        return sb_fail(error, SB_ARGS(is_folder ? SANDBOX_EINVALID : SANDBOX_EUNSUPPORTED, .field = "source"), "'%s' is %s", t->source,
                       is_folder ? "a folder" : "neither a file nor a folder");
    return r ? r : 1;
}

static void release(struct sb_transfer *t)
{
    if (t->temporary[0])
        unlinkat(t->parent, t->temporary, 0);
    sb_close(t->file);
    sb_close(t->parent);
    free(t->source);
    free(t->top);
    free(t->target);
}

static int begin(struct sb_transfer *t, struct sandbox_error **error)
{
    struct sb_files_request q = request_of(t, SB_FILES_STAT);
    int r;

    if (t->target) {
        r = open_parent(t, error);
        q.flags = SB_FILES_FOLLOW;
        t->stage = LOOKING;
        t->conclude = after_look;
        return r ? r : sb_transfer_ask(t, &q, t->source, NULL, -1, error);
    }
    q = request_of(t, t->options.format == SANDBOX_STREAM_TAR ? SB_FILES_GET_TAR : SB_FILES_GET_FILE);
    q.flags = 0;
    t->stage = COPYING;
    return sb_transfer_ask(t, &q, t->source, t->top ? t->top : "", t->options.target_fd, error);
}

int sb_engine_download(struct sb_driver *driver, const char *id, const char *source, const char *target,
                       const struct sandbox_download_options *options, struct sb_op **ret_op, struct sandbox_error **error)
{
    struct sb_engine *engine = (struct sb_engine *)driver;
    struct sb_transfer *t;
    int r;

    if ((options->flags & SANDBOX_FILE_KEEP_OWNERS) && engine->map.privilege != SB_PRIVILEGE_ROOT)
        return sb_fail(error, SB_ARGS(SANDBOX_EDENIED, .field = "flags"), "only root can give files to others");
    t = sb_transfer_new(engine, id, "download", error);
    if (!t)
        return SANDBOX_ENOMEM;
    t->release = release;
    t->options = *options;
    t->source = strdup(source);
    t->top = options->top ? strdup(options->top) : NULL;
    t->target = target ? strdup(target) : NULL;
    r = t->source && (t->top || !options->top) && (t->target || !target) ? begin(t, error)
                                                                        : sb_fail(error, SB_ARGS(SANDBOX_ENOMEM, .retryable = 1), "out of memory");
    if (!r)
        *ret_op = &t->op;
    else
        sb_transfer_free(t);
    return r;
}
