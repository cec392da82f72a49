/* SPDX-License-Identifier: Apache-2.0
 * Files of a sandbox: quick calls and listings. */
#include "handles.h"
#include "options.h"

#include <string.h>

struct sandbox_folder {
    struct sandbox_host *host;
    struct sb_folder *folder;
};

static const struct sandbox_host *host_of(const struct sandbox *sandbox)
{
    return sandbox ? sandbox->host : NULL;
}

int sb_check_inside_path(const char *path, const char *field, struct sandbox_error **error)
{
    if (!path)
        return sb_fail_null(error, field);
    if (sb_path_absolute_safe(path))
        return 0;
    return sb_fail(error, SB_ARGS(SANDBOX_EINVALID, .field = field, .hint = "paths inside begin with / and have no .."),
                   "%s is not an absolute path without \"..\" of at most 4095 bytes", field);
}

static int check_flags(unsigned int flags, unsigned int known, struct sandbox_error **error)
{
    if (!(flags & ~known))
        return 0;
    return sb_fail(error, SB_ARGS(SANDBOX_EINVALID, .field = "flags"), "flags has bits that this call does not know");
}

static int check_mode(int mode, struct sandbox_error **error)
{
    if (mode >= -1 && mode <= 07777)
        return 0;
    return sb_fail(error, SB_ARGS(SANDBOX_EINVALID, .field = "mode"), "mode %d is not within 0 to 07777", mode);
}

int sb_check_owner(int64_t id, const char *field, struct sandbox_error **error)
{
    if (id >= -1 && id < UINT32_MAX)
        return 0;
    return sb_fail(error, SB_ARGS(SANDBOX_EINVALID, .field = field), "%s %lld is no id", field, (long long)id);
}

static int run(struct sandbox *sandbox, const struct sb_file_call *call, struct sb_file_answer *answer, struct sandbox_error **error)
{
    int r = sb_sandbox_check(sandbox, error);

    if (!r)
        r = sb_check_inside_path(call->path, call->op == SB_FILE_RENAME ? "from" : "path", error);
    if (!r && call->op == SB_FILE_RENAME)
        r = sb_check_inside_path(call->other, "to", error);
    if (!r)
        r = sb_check_timeout(call->timeout_ms, "timeout_ms", error);
    if (!r && !sandbox->host->driver->ops->file)
        r = sb_fail_slot(error, sandbox->host, "file", NULL);
    return r ? r : sandbox->host->driver->ops->file(sandbox->host->driver, sandbox->id, call, answer, error);
}

static struct sb_file_call call_of(enum sb_file_op op, const char *path, unsigned int flags, int64_t timeout_ms)
{
    return (struct sb_file_call){ .op = op, .path = path, .flags = flags, .mode = -1, .uid = -1, .gid = -1, .timeout_ms = timeout_ms };
}

static int file_stat(struct sandbox *sandbox, const char *path, unsigned int flags, int64_t timeout_ms, struct sandbox_file_info *info,
                     struct sandbox_error **error)
{
    struct sb_file_call call = call_of(SB_FILE_STAT, path, flags, timeout_ms);
    struct sb_file_answer answer = { 0 };
    int r = check_flags(flags, SANDBOX_FILE_FOLLOW, error);

    if (!r && !info)
        r = sb_fail_null(error, "info");
    if (!r)
        r = sb_options_check(info, sizeof *info, SB_SIZE_TO(struct sandbox_file_info, mtime_ns), error);
    if (!r)
        r = run(sandbox, &call, &answer, error);
    if (!r)
        sb_options_write(info, &answer.info, sizeof answer.info);
    free(answer.data);
    return r;
}

int sandbox_file_stat(struct sandbox *sandbox, const char *path, unsigned int flags, int64_t timeout_ms, struct sandbox_file_info *info,
                      struct sandbox_error **error)
{
    struct sandbox_error *failure = NULL;

    return sb_leave(file_stat(sandbox, path, flags, timeout_ms, info, &failure), &failure, error, "stat", host_of(sandbox));
}

static int read_link(struct sandbox *sandbox, const char *path, int64_t timeout_ms, char **ret_target, struct sandbox_error **error)
{
    struct sb_file_call call = call_of(SB_FILE_STAT, path, 0, timeout_ms);
    struct sb_file_answer answer = { 0 };
    int r = ret_target ? run(sandbox, &call, &answer, error) : sb_fail_null(error, "ret_target");

    if (r)
        return r;
    if (!answer.data)
        return sb_fail(error, SB_ARGS(SANDBOX_EINVALID, .field = "path"), "it is no symbolic link");
    *ret_target = answer.data;
    return 0;
}

int sandbox_file_read_link(struct sandbox *sandbox, const char *path, int64_t timeout_ms, char **ret_target, struct sandbox_error **error)
{
    struct sandbox_error *failure = NULL;

    return sb_leave(read_link(sandbox, path, timeout_ms, ret_target, &failure), &failure, error, "read link", host_of(sandbox));
}

static int file_read(struct sandbox *sandbox, const char *path, int64_t offset, size_t max, int64_t timeout_ms, char **ret_data,
                     size_t *ret_size, struct sandbox_error **error)
{
    struct sb_file_call call = call_of(SB_FILE_READ, path, 0, timeout_ms);
    struct sb_file_answer answer = { 0 };
    int r;

    if (!ret_data || !ret_size)
        return sb_fail_null(error, ret_data ? "ret_size" : "ret_data");
    if (offset < 0)
        return sb_fail(error, SB_ARGS(SANDBOX_EINVALID, .field = "offset"), "offset is %lld", (long long)offset);
    call.offset = offset;
    call.size = max;
    r = run(sandbox, &call, &answer, error);
    if (r)
        return r;
    *ret_data = answer.data;
    *ret_size = answer.size;
    return 0;
}

int sandbox_file_read(struct sandbox *sandbox, const char *path, int64_t offset, size_t max, int64_t timeout_ms, char **ret_data,
                      size_t *ret_size, struct sandbox_error **error)
{
    struct sandbox_error *failure = NULL;

    return sb_leave(file_read(sandbox, path, offset, max, timeout_ms, ret_data, ret_size, &failure), &failure, error, "read",
                    host_of(sandbox));
}

void sandbox_buffer_free(char *buffer)
{
    free(buffer);
}

static int file_write(struct sandbox *sandbox, const char *path, const void *data, size_t size,
                      const struct sandbox_file_write_options *options, int64_t timeout_ms, struct sandbox_error **error)
{
    struct sandbox_file_write_options known = SANDBOX_FILE_WRITE_OPTIONS_INIT;
    struct sb_file_call call = call_of(SB_FILE_WRITE, path, 0, timeout_ms);
    struct sb_file_answer answer = { 0 };
    int r = sb_options_read(&known, sizeof known, SB_SIZE_TO(struct sandbox_file_write_options, gid), options, error);

    if (!r && !data && size)
        r = sb_fail_null(error, "data");
    if (!r)
        r = check_flags(known.flags, SANDBOX_FILE_APPEND | SANDBOX_FILE_EXCLUSIVE | SANDBOX_FILE_PARENTS, error);
    if (!r)
        r = check_mode(known.mode, error);
    if (!r)
        r = sb_check_owner(known.uid, "uid", error);
    if (!r)
        r = sb_check_owner(known.gid, "gid", error);
    if (r)
        return r;
    call.flags = known.flags;
    call.mode = known.mode;
    call.uid = known.uid;
    call.gid = known.gid;
    call.data = data;
    call.size = size;
    return run(sandbox, &call, &answer, error);
}

int sandbox_file_write(struct sandbox *sandbox, const char *path, const void *data, size_t size,
                       const struct sandbox_file_write_options *options, int64_t timeout_ms, struct sandbox_error **error)
{
    struct sandbox_error *failure = NULL;

    return sb_leave(file_write(sandbox, path, data, size, options, timeout_ms, &failure), &failure, error, "write", host_of(sandbox));
}

static int change(struct sandbox *sandbox, struct sb_file_call *call, unsigned int known, struct sandbox_error **error)
{
    struct sb_file_answer answer = { 0 };
    int r = check_flags(call->flags, known, error);

    if (!r)
        r = check_mode(call->mode, error);
    return r ? r : run(sandbox, call, &answer, error);
}

int sandbox_file_remove(struct sandbox *sandbox, const char *path, unsigned int flags, int64_t timeout_ms, struct sandbox_error **error)
{
    struct sb_file_call call = call_of(SB_FILE_REMOVE, path, flags, timeout_ms);
    struct sandbox_error *failure = NULL;

    return sb_leave(change(sandbox, &call, SANDBOX_FILE_RECURSIVE, &failure), &failure, error, "remove", host_of(sandbox));
}

int sandbox_file_make_folder(struct sandbox *sandbox, const char *path, int mode, unsigned int flags, int64_t timeout_ms,
                             struct sandbox_error **error)
{
    struct sb_file_call call = call_of(SB_FILE_MAKE_FOLDER, path, flags, timeout_ms);
    struct sandbox_error *failure = NULL;

    call.mode = mode;
    return sb_leave(change(sandbox, &call, SANDBOX_FILE_EXCLUSIVE | SANDBOX_FILE_PARENTS, &failure), &failure, error, "make folder",
                    host_of(sandbox));
}

int sandbox_file_rename(struct sandbox *sandbox, const char *from, const char *to, unsigned int flags, int64_t timeout_ms,
                        struct sandbox_error **error)
{
    struct sb_file_call call = call_of(SB_FILE_RENAME, from, flags, timeout_ms);
    struct sandbox_error *failure = NULL;

    call.other = to;
    return sb_leave(change(sandbox, &call, SANDBOX_FILE_EXCLUSIVE | SANDBOX_FILE_PARENTS, &failure), &failure, error, "rename",
                    host_of(sandbox));
}

static int folder_open(struct sandbox *sandbox, const char *path, int64_t timeout_ms, struct sandbox_folder **ret_folder,
                       struct sandbox_error **error)
{
    struct sandbox_folder *folder;
    int r = sb_sandbox_check(sandbox, error);

    if (!r)
        r = sb_check_inside_path(path, "path", error);
    if (!r)
        r = sb_check_timeout(timeout_ms, "timeout_ms", error);
    if (!r && !ret_folder)
        r = sb_fail_null(error, "ret_folder");
    if (!r && !sandbox->host->driver->ops->folder_open)
        r = sb_fail_slot(error, sandbox->host, "folder", NULL);
    if (r)
        return r;
    folder = calloc(1, sizeof *folder);
    if (!folder)
        return sb_fail_memory(error);
    r = sandbox->host->driver->ops->folder_open(sandbox->host->driver, sandbox->id, path, timeout_ms, &folder->folder, error);
    if (r) {
        free(folder);
        return r;
    }
    folder->host = sandbox_host_ref(sandbox->host);
    *ret_folder = folder;
    return 0;
}

int sandbox_folder_open(struct sandbox *sandbox, const char *path, int64_t timeout_ms, struct sandbox_folder **ret_folder,
                        struct sandbox_error **error)
{
    struct sandbox_error *failure = NULL;

    return sb_leave(folder_open(sandbox, path, timeout_ms, ret_folder, &failure), &failure, error, "list", host_of(sandbox));
}

static int folder_next(struct sandbox_folder *folder, int64_t timeout_ms, const char **ret_name, struct sandbox_file_info *info,
                       struct sandbox_error **error)
{
    struct sandbox_file_info seen = SANDBOX_FILE_INFO_INIT;
    const char *name;
    int r = folder ? sb_host_check(folder->host, error) : sb_fail_null(error, "folder");

    if (!r)
        r = sb_check_timeout(timeout_ms, "timeout_ms", error);
    if (!r && !ret_name)
        r = sb_fail_null(error, "ret_name");
    if (!r && info)
        r = sb_options_check(info, sizeof *info, SB_SIZE_TO(struct sandbox_file_info, mtime_ns), error);
    if (!r)
        r = folder->folder->ops->next(folder->folder, timeout_ms, &name, &seen, error);
    if (r)
        return r;
    if (name && info)
        sb_options_write(info, &seen, sizeof seen);
    *ret_name = name;
    return 0;
}

int sandbox_folder_next(struct sandbox_folder *folder, int64_t timeout_ms, const char **ret_name, struct sandbox_file_info *info,
                        struct sandbox_error **error)
{
    struct sandbox_error *failure = NULL;

    return sb_leave(folder_next(folder, timeout_ms, ret_name, info, &failure), &failure, error, "list", folder ? folder->host : NULL);
}

struct sandbox_folder *sandbox_folder_close(struct sandbox_folder *folder)
{
    if (!folder)
        return NULL;
    if (!sb_host_forked(folder->host)) /* else its descriptors' numbers may be somebody else's */
        folder->folder->ops->free(folder->folder);
    sandbox_host_unref(folder->host);
    free(folder);
    return NULL;
}
