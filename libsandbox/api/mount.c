/* SPDX-License-Identifier: Apache-2.0
 * Overlay mounts of a sandbox: what was changed, how much it takes, and to begin anew. */
#include "handles.h"
#include "options.h"
#include "rules.h"

#include <errno.h>
#include <fcntl.h>
#include <json.h>
#include <string.h>

enum { ENTRIES = 100000, ENTRIES_MOST = 1000000 };

struct entry {
    char *path;
    int kind, type;
    int64_t bytes;
};

struct sandbox_diff {
    int truncated;
    size_t count;
    struct entry entries[];
};

static int index_of(const char *text, const char *const *names, size_t n)
{
    for (size_t i = 1; text && i < n; i++)
        if (!strcmp(names[i], text))
            return (int)i;
    return 0;
}

static int read_entry(const json_t *json, struct entry *ret)
{
    static const char *const kinds[] = { "", "added", "changed", "removed", "found" };
    static const char *const types[] = { "", "regular", "folder", "link", "fifo", "socket", "device" };

    ret->kind = index_of(sb_json_str(json, "kind"), kinds, SB_ELEMENTS(kinds));
    ret->type = index_of(sb_json_str(json, "type"), types, SB_ELEMENTS(types));
    ret->bytes = sb_json_int(json, "bytes", -1);
    ret->path = sb_json_get_bytes(json_object_get(json, "path"));
    return ret->kind && ret->type && ret->bytes >= 0 && ret->path;
}

/* Takes the document. */
int sb_diff_new(json_t *document, struct sandbox_diff **ret_diff, struct sandbox_error **error)
{
    const json_t *list = json_object_get(document, "entries");
    size_t n = json_array_size(list);
    struct sandbox_diff *diff = json_is_array(list) ? calloc(1, sizeof *diff + n * sizeof *diff->entries) : NULL;
    int r = 0;

    if (!diff)
        r = json_is_array(list) ? sb_fail_memory(error) : sb_fail(error, SB_ARGS(SANDBOX_EPROTOCOL), "the host's answer is no list of changes");
    for (size_t i = 0; !r && i < n; i++) {
        diff->count = i + 1;
        if (!read_entry(json_array_get(list, i), &diff->entries[i]))
            r = sb_fail(error, SB_ARGS(SANDBOX_EPROTOCOL), "an entry of the host's list of changes makes no sense");
    }
    if (!r)
        diff->truncated = json_is_true(json_object_get(document, "truncated"));
    json_decref(document);
    if (r)
        sandbox_diff_unref(diff);
    else
        *ret_diff = diff;
    return r;
}

struct sandbox_diff *sandbox_diff_unref(struct sandbox_diff *diff)
{
    for (size_t i = 0; diff && i < diff->count; i++)
        free(diff->entries[i].path);
    free(diff);
    return NULL;
}

size_t sandbox_diff_get_count(const struct sandbox_diff *diff)
{
    return diff ? diff->count : 0;
}

int sandbox_diff_get_truncated(const struct sandbox_diff *diff)
{
    return diff ? diff->truncated : 0;
}

int sandbox_diff_get(const struct sandbox_diff *diff, size_t index, struct sandbox_diff_entry *ret_entry)
{
    struct sandbox_diff_entry entry = SANDBOX_DIFF_ENTRY_INIT;

    if (!diff || !ret_entry || sb_options_check(ret_entry, sizeof entry, SB_SIZE_TO(struct sandbox_diff_entry, bytes), NULL))
        return SANDBOX_EINVALID;
    if (index >= diff->count)
        return SANDBOX_ENOTFOUND;
    entry.path = diff->entries[index].path;
    entry.kind = diff->entries[index].kind;
    entry.type = diff->entries[index].type;
    entry.bytes = diff->entries[index].bytes;
    sb_options_write(ret_entry, &entry, sizeof entry);
    return 0;
}

static int check(struct sandbox *sandbox, const char *target, const void *ret, const char *field, struct sandbox_error **error)
{
    int r = sb_sandbox_check(sandbox, error);

    if (r)
        return r;
    if (!target)
        return sb_fail_null(error, "target");
    if (!sb_path_absolute_safe(target))
        return sb_fail(error, SB_ARGS(SANDBOX_EINVALID, .field = "target"), "target is not an absolute path without \"..\"");
    return ret ? 0 : sb_fail_null(error, field);
}

static int diff_begin(struct sandbox *sandbox, const char *target, const struct sandbox_diff_options *options, struct sandbox_op **ret_op,
                      struct sandbox_error **error)
{
    struct sandbox_diff_options with = SANDBOX_DIFF_OPTIONS_INIT;
    const struct sb_driver_ops *ops;
    struct sb_op *op;
    int r = check(sandbox, target, ret_op, "ret_op", error);

    if (!r)
        r = sb_options_read(&with, sizeof with, SB_SIZE_TO(struct sandbox_diff_options, max_entries), options, error);
    if (!r && (with.max_entries < 0 || with.max_entries > ENTRIES_MOST))
        r = sb_fail(error, SB_ARGS(SANDBOX_EINVALID, .field = "max_entries"), "max_entries is outside 0 to %d", ENTRIES_MOST);
    if (r)
        return r;
    ops = sandbox->host->driver->ops;
    if (!ops->mount_diff)
        return sb_fail_slot(error, sandbox->host, "mount diff", NULL);
    r = ops->mount_diff(sandbox->host->driver, sandbox->id, target, with.max_entries ? with.max_entries : ENTRIES, &op, error);
    return r ? r : sb_op_new(op, sandbox->host, NULL, "diff", ops->name, ret_op, error);
}

int sandbox_mount_diff_begin(struct sandbox *sandbox, const char *target, const struct sandbox_diff_options *options,
                             struct sandbox_op **ret_op, struct sandbox_error **error)
{
    struct sandbox_error *failure = NULL;

    return sb_leave(diff_begin(sandbox, target, options, ret_op, &failure), &failure, error, "diff", sandbox ? sandbox->host : NULL);
}

int sandbox_mount_diff(struct sandbox *sandbox, const char *target, const struct sandbox_diff_options *options, int64_t timeout_ms,
                       struct sandbox_diff **ret_diff, struct sandbox_error **error)
{
    struct sandbox_error *failure = NULL;
    struct sandbox_op *op = NULL;
    int r = ret_diff ? sb_check_timeout(timeout_ms, "timeout_ms", &failure) : sb_fail_null(&failure, "ret_diff");

    if (!r)
        r = diff_begin(sandbox, target, options, &op, &failure);
    if (!r)
        r = sb_op_run(op, timeout_ms, &failure);
    if (!r)
        r = sandbox_op_take_diff(op, ret_diff, &failure);
    sandbox_op_unref(op);
    return sb_leave(r, &failure, error, "diff", sandbox ? sandbox->host : NULL);
}

static int tar_begin(struct sandbox *sandbox, const char *target, int fd, struct sandbox_op **ret_op, struct sandbox_error **error)
{
    const struct sb_driver_ops *ops;
    struct sb_op *op;
    int r = check(sandbox, target, ret_op, "ret_op", error);

    if (r)
        return r;
    if (fcntl(fd, F_GETFD) < 0)
        return sb_fail(error, SB_ARGS(SANDBOX_EINVALID, .sys_errno = errno, .field = "fd"), "fd is no open descriptor");
    ops = sandbox->host->driver->ops;
    if (!ops->mount_tar)
        return sb_fail_slot(error, sandbox->host, "mount tar", NULL);
    r = ops->mount_tar(sandbox->host->driver, sandbox->id, target, fd, &op, error);
    return r ? r : sb_op_new(op, sandbox->host, NULL, "diff", ops->name, ret_op, error);
}

int sandbox_mount_tar_begin(struct sandbox *sandbox, const char *target, int fd, struct sandbox_op **ret_op, struct sandbox_error **error)
{
    struct sandbox_error *failure = NULL;

    return sb_leave(tar_begin(sandbox, target, fd, ret_op, &failure), &failure, error, "diff", sandbox ? sandbox->host : NULL);
}

int sandbox_mount_tar(struct sandbox *sandbox, const char *target, int fd, int64_t timeout_ms, int *ret_truncated, struct sandbox_error **error)
{
    struct sandbox_error *failure = NULL;
    struct sandbox_diff *diff = NULL;
    struct sandbox_op *op = NULL;
    int r = sb_check_timeout(timeout_ms, "timeout_ms", &failure);

    if (!r)
        r = tar_begin(sandbox, target, fd, &op, &failure);
    if (!r)
        r = sb_op_run(op, timeout_ms, &failure);
    if (!r)
        r = sandbox_op_take_diff(op, &diff, &failure);
    if (!r && ret_truncated)
        *ret_truncated = sandbox_diff_get_truncated(diff);
    sandbox_diff_unref(diff);
    sandbox_op_unref(op);
    return sb_leave(r, &failure, error, "diff", sandbox ? sandbox->host : NULL);
}

typedef int begin_fn(struct sb_driver *driver, const char *id, const char *target, struct sb_op **ret_op, struct sandbox_error **error);

/* What needs no more than a target. `slot` is the driver's, NULL where it has none. */
static int begin(struct sandbox *sandbox, const char *target, begin_fn *slot, const char *name, struct sandbox_op **ret_op,
                 struct sandbox_error **error)
{
    struct sb_op *op;
    int r;

    if (!slot)
        return sb_fail_slot(error, sandbox->host, name, NULL);
    r = slot(sandbox->host->driver, sandbox->id, target, &op, error);
    return r ? r : sb_op_new(op, sandbox->host, NULL, name, sandbox->host->driver->ops->name, ret_op, error);
}

static int usage_begin(struct sandbox *sandbox, const char *target, struct sandbox_op **ret_op, struct sandbox_error **error)
{
    int r = check(sandbox, target, ret_op, "ret_op", error);

    return r ? r : begin(sandbox, target, sandbox->host->driver->ops->mount_usage, "usage", ret_op, error);
}

int sandbox_mount_usage_begin(struct sandbox *sandbox, const char *target, struct sandbox_op **ret_op, struct sandbox_error **error)
{
    struct sandbox_error *failure = NULL;

    return sb_leave(usage_begin(sandbox, target, ret_op, &failure), &failure, error, "usage", sandbox ? sandbox->host : NULL);
}

int sandbox_mount_usage(struct sandbox *sandbox, const char *target, int64_t timeout_ms, struct sandbox_mount_usage *ret_usage,
                        struct sandbox_error **error)
{
    struct sandbox_error *failure = NULL;
    struct sandbox_op *op = NULL;
    int r = ret_usage ? sb_check_timeout(timeout_ms, "timeout_ms", &failure) : sb_fail_null(&failure, "ret_usage");

    if (!r)
        r = usage_begin(sandbox, target, &op, &failure);
    if (!r)
        r = sb_op_run(op, timeout_ms, &failure);
    if (!r)
        r = sandbox_op_get_mount_usage(op, ret_usage, &failure);
    sandbox_op_unref(op);
    return sb_leave(r, &failure, error, "usage", sandbox ? sandbox->host : NULL);
}

static int reset_begin(struct sandbox *sandbox, const char *target, struct sandbox_op **ret_op, struct sandbox_error **error)
{
    int r = check(sandbox, target, ret_op, "ret_op", error);

    return r ? r : begin(sandbox, target, sandbox->host->driver->ops->mount_reset, "reset", ret_op, error);
}

int sandbox_mount_reset_begin(struct sandbox *sandbox, const char *target, struct sandbox_op **ret_op, struct sandbox_error **error)
{
    struct sandbox_error *failure = NULL;

    return sb_leave(reset_begin(sandbox, target, ret_op, &failure), &failure, error, "reset", sandbox ? sandbox->host : NULL);
}

int sandbox_mount_reset(struct sandbox *sandbox, const char *target, int64_t timeout_ms, struct sandbox_error **error)
{
    struct sandbox_error *failure = NULL;
    struct sandbox_op *op = NULL;
    int r = sb_check_timeout(timeout_ms, "timeout_ms", &failure);

    if (!r)
        r = reset_begin(sandbox, target, &op, &failure);
    if (!r)
        r = sb_op_run(op, timeout_ms, &failure);
    sandbox_op_unref(op);
    return sb_leave(r, &failure, error, "reset", sandbox ? sandbox->host : NULL);
}

static int scan_begin(struct sandbox_host *host, const char *folder, const char *const *patterns, int64_t max_names,
                      struct sandbox_op **ret_op, struct sandbox_error **error)
{
    const struct sb_driver_ops *ops;
    struct sb_op *op;
    int r = sb_host_check(host, error);

    if (!r)
        r = sb_check_patterns(patterns, error);
    if (r)
        return r;
    if (!folder || folder[0] != '/')
        return sb_fail(error, SB_ARGS(SANDBOX_EINVALID, .field = "folder"), "folder is not an absolute path");
    if (max_names < 0)
        return sb_fail(error, SB_ARGS(SANDBOX_EINVALID, .field = "max_names"), "max_names is negative");
    if (!ret_op)
        return sb_fail_null(error, "ret_op");
    ops = host->driver->ops;
    if (!ops->secrets_scan)
        return sb_fail_slot(error, host, "secrets scan", NULL);
    r = ops->secrets_scan(host->driver, folder, (char *const *)(uintptr_t)patterns, max_names, &op, error);
    return r ? r : sb_op_new(op, host, NULL, "secrets", ops->name, ret_op, error);
}

int sandbox_secrets_scan_begin(struct sandbox_host *host, const char *folder, const char *const *patterns, int64_t max_names,
                               struct sandbox_op **ret_op, struct sandbox_error **error)
{
    struct sandbox_error *failure = NULL;

    return sb_leave(scan_begin(host, folder, patterns, max_names, ret_op, &failure), &failure, error, "secrets", host);
}

int sandbox_secrets_scan(struct sandbox_host *host, const char *folder, const char *const *patterns, int64_t max_names, int64_t timeout_ms,
                         struct sandbox_diff **ret_diff, struct sandbox_error **error)
{
    struct sandbox_error *failure = NULL;
    struct sandbox_op *op = NULL;
    int r = ret_diff ? sb_check_timeout(timeout_ms, "timeout_ms", &failure) : sb_fail_null(&failure, "ret_diff");

    if (!r)
        r = scan_begin(host, folder, patterns, max_names, &op, &failure);
    if (!r)
        r = sb_op_run(op, timeout_ms, &failure);
    if (!r)
        r = sandbox_op_take_diff(op, ret_diff, &failure);
    sandbox_op_unref(op);
    return sb_leave(r, &failure, error, "secrets", host);
}
