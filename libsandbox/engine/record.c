/* SPDX-License-Identifier: Apache-2.0
 * A sandbox's folder and what is written in it.
 *
 * "record" is written once, before any resource is made, and names every one that will be: it is the list of intent that delete
 * and repair undo. "run" is the part that changes. Both are one JSON document behind a line with its checksum, replaced by rename.
 * The folder's "lock" is flock'ed by whoever changes the sandbox; the kernel lets go of it when that process dies. */
#include "engine.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <errors.h>
#include <fs.h>
#include <json.h>

enum { RECORD_MAX = 16 << 20, LOOK_MS = 500, STOPPED_MS = 2000 };

void sb_record_unlock(struct sb_record *record)
{
    /* said, not just closed: a child that the host program forked meanwhile has a copy of the descriptor, and would hold the lock for its life */
    if (record->lock >= 0)
        flock(record->lock, LOCK_UN);
    record->lock = sb_close(record->lock);
}

void sb_record_clear(struct sb_record *record)
{
    if (record->known) {
        sb_known_drop(record->known);
    } else {
        json_decref(record->json);
        sb_spec_free(record->spec);
    }
    record->dir = sb_close(record->dir);
    sb_record_unlock(record);
    *record = (struct sb_record)SB_RECORD_INIT;
}

/* FNV-1a: finds truncation, NULs and bit rot; who can write here needs no forging. */
static uint64_t checksum(const char *data, size_t size)
{
    uint64_t hash = 0xcbf29ce484222325u;

    for (size_t i = 0; i < size; i++)
        hash = (hash ^ (unsigned char)data[i]) * 0x100000001b3u;
    return hash;
}

static int write_document(int dir, const char *name, const json_t *json, int durable, struct sandbox_error **error)
{
    SB_FREE char *text = sb_json_dump(json), *whole = NULL;
    int n, r;

    if (!text)
        return sb_fail(error, SB_ARGS(SANDBOX_ENOMEM, .sys_errno = ENOMEM), "out of memory");
    n = asprintf(&whole, "libsandbox 1 %016llx\n%s\n", (unsigned long long)checksum(text, strlen(text)), text);
    if (n < 0) {
        whole = NULL;
        return sb_fail(error, SB_ARGS(SANDBOX_ENOMEM, .sys_errno = ENOMEM), "out of memory");
    }
    r = sb_write_file(dir, name, whole, (size_t)n, durable);
    return r ? sb_fail_errno(error, -r, "state", "the record %s can't be written", name) : 0;
}

/* What is behind the head line, in the text itself; NULL: damaged. The head is "libsandbox VERSION SUM\n". */
static const char *check_document(const char *text, size_t size, const char *name, size_t *ret_size, struct sandbox_error **error)
{
    unsigned long long sum;
    int version, at = 0;
    size_t head;

    if (sscanf(text, "libsandbox %d %16llx%n", &version, &sum, &at) != 2 || !at || text[at] != '\n') {
        sb_fail(error, SB_ARGS(SANDBOX_EDAMAGED, .phase = "state"), "the record %s is damaged", name);
        return NULL;
    }
    if (version != 1) {
        sb_fail(error, SB_ARGS(SANDBOX_EDAMAGED, .phase = "state", .hint = "use the version of the library that made it"),
                "the record %s has the schema version %d", name, version);
        return NULL;
    }
    head = (size_t)at + 1;
    if (size <= head || text[size - 1] != '\n' || checksum(text + head, size - head - 1) != sum) {
        sb_fail(error, SB_ARGS(SANDBOX_EDAMAGED, .phase = "state"), "the record %s is damaged: its checksum is wrong", name);
        return NULL;
    }
    *ret_size = size - head - 1;
    return text + head;
}

/* What stands where a document should be is none: a folder, a link, a pipe. That is damage, and no fault of the disk. */
static int cannot_read(int sys_errno, const char *name, struct sandbox_error **error)
{
    if (sys_errno == EISDIR || sys_errno == ELOOP || sys_errno == ENXIO || sys_errno == ENOTDIR || sys_errno == ESPIPE || sys_errno == EINVAL)
        return sb_fail(error, SB_ARGS(SANDBOX_EDAMAGED, .sys_errno = sys_errno, .phase = "state"), "the record %s is no file", name);
    return sb_fail_errno(error, sys_errno, "state", "the record %s can't be read", name);
}

static int read_document(int dir, const char *name, json_t **ret, struct sandbox_error **error)
{
    SB_CLOSE int fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    char small[8192]; /* most are; a list reads a thousand of them */
    SB_FREE char *large = NULL;
    const char *text = small, *body;
    size_t size = 0;
    ssize_t n;

    if (fd < 0)
        return cannot_read(errno, name, error);
    n = SB_RETRY(pread(fd, small, sizeof small - 1, 0));
    if (n < 0)
        return cannot_read(errno, name, error);
    size = (size_t)n;
    small[size] = 0;
    if (size == sizeof small - 1) {
        int r = sb_read_file(dir, name, RECORD_MAX, &large, &size);

        if (r)
            return sb_fail_errno(error, -r, "state", "the record %s can't be read", name);
        text = large;
    }
    body = check_document(text, size, name, &size, error);
    return body ? sb_json_parse(body, size, name, ret, error) : SANDBOX_EDAMAGED;
}

static int lock_folder(struct sb_record *record, enum sb_record_lock how, struct sandbox_error **error)
{
    if (how == SB_LOCK_NONE)
        return 0;
    record->lock = openat(record->dir, "lock", O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600);
    if (record->lock < 0 && errno != EMFILE && errno != ENFILE && errno != ENOMEM) /* lost or replaced, maybe on a full disk: then the folder */
        record->lock = openat(record->dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (record->lock < 0)
        return sb_fail_errno(error, errno, "state", "the lock can't be opened");
    if (flock(record->lock, LOCK_EX | LOCK_NB) == 0)
        return 0;
    if (errno != EWOULDBLOCK)
        return sb_fail_errno(error, errno, "state", "the sandbox can't be locked");
    return sb_fail(error,
                   SB_ARGS(SANDBOX_EBUSY, .phase = "state", .retryable = 1, .hint = "try again when the other call has ended"),
                   "another process or call is changing this sandbox");
}

/* Makers share the lock of sandboxes/ from a folder's making until they hold the folder's own; who takes a folder for dead has it alone. */
int sb_record_make(struct sb_engine *engine, const char *id, struct sb_record *ret, struct sandbox_error **error)
{
    struct sb_record record = SB_RECORD_INIT;
    int all = sb_folder_lock(engine->sandboxes, LOCK_SH, error), r;

    if (all < 0)
        return all;
    memcpy(record.id, id, SB_ID_SIZE);
    r = sb_owner_enter(engine, id);
    if (!r && mkdirat(engine->sandboxes, id, 0700) < 0)
        r = -errno;
    if (r) {
        sb_folder_unlock(all);
        sb_owner_leave(engine, &engine->self, id);
        return sb_fail_errno(error, -r, "state", "the sandbox's folder can't be made");
    }
    record.dir = openat(engine->sandboxes, id, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    r = record.dir < 0 || fchmod(record.dir, 0700) < 0
            ? sb_fail_errno(error, errno, "state", "the sandbox's folder can't be opened")
            : lock_folder(&record, SB_LOCK_EXCLUSIVE, error);
    sb_folder_unlock(all);
    if (r) {
        sb_record_clear(&record);
        sb_remove_tree(engine->sandboxes, id);
        sb_owner_leave(engine, &engine->self, id);
        return r;
    }
    *ret = record;
    return 0;
}

int sb_lock_wait(struct sb_engine *engine, const char *id, struct sb_lock_wait *wait, struct sandbox_error **error)
{
    struct sb_lock_holder holder;
    int64_t now = sb_now_ms();
    char path[SB_ID_SIZE + 8];
    SB_CLOSE int fd = -1;

    if (now < wait->next)
        return 1;
    if (!wait->next) { /* most wait for a moment only */
        wait->next = now + LOOK_MS;
        return 1;
    }
    wait->next = now + LOOK_MS;
    snprintf(path, sizeof path, "%s/lock", id);
    fd = openat(engine->sandboxes, path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        return 1;
    sb_lock_holder(fd, &holder);
    if (!holder.stopped || holder.pid != wait->pid || !wait->since) {
        wait->since = holder.stopped ? now : 0;
        wait->pid = holder.pid;
        return 1;
    }
    return now - wait->since < STOPPED_MS ? 1 : sb_lock_busy(&holder, "this sandbox", error);
}

int sb_record_take(struct sb_engine *engine, const char *id, struct sb_record *ret, struct sandbox_error **error)
{
    int all = sb_folder_lock(engine->sandboxes, LOCK_EX, error), r;

    if (all < 0)
        return all;
    r = sb_record_open(engine, id, SB_LOCK_EXCLUSIVE, ret, error);
    sb_folder_unlock(all);
    return r;
}

int sb_document_read(int dir, const char *name, json_t **ret, struct sandbox_error **error)
{
    return read_document(dir, name, ret, error);
}

int sb_document_write(int dir, const char *name, const json_t *json, struct sandbox_error **error)
{
    return write_document(dir, name, json, 1, error);
}

static int durable(const struct sb_record *record)
{
    /* an owned sandbox ends with its owner, so also with the power: there is nothing to be kept for it */
    return !record->spec || record->spec->lifetime == SANDBOX_LIFETIME_DETACHED;
}

int sb_record_write(struct sb_record *record, struct sandbox_error **error)
{
    return write_document(record->dir, "record", record->json, durable(record), error);
}

/* A folder of the image store or a skeleton, and no way out of it. */
static int is_layer(const char *path)
{
    return path && (!strncmp(path, "layers/", 7) || !strncmp(path, "skeletons/", 10)) && !strstr(path, "..");
}

static int interpret(struct sb_record *record, struct sandbox_error **error)
{
    const json_t *spec = json_object_get(record->json, "spec"), *layers = json_object_get(record->json, "layers"), *layer;
    size_t i;
    const json_t *map = json_object_get(record->json, "map");
    const char *id = sb_json_str(record->json, "id");
    int r;

    if (!id || strcmp(id, record->id))
        return sb_fail(error, SB_ARGS(SANDBOX_EDAMAGED, .phase = "state"), "the record is another sandbox's");
    record->map = (struct sb_idmap){
        .privilege = (uint32_t)sb_json_int(map, "privilege", 99),
        .uid = (uint32_t)sb_json_int(map, "uid", 0),
        .gid = (uint32_t)sb_json_int(map, "gid", 0),
        .uid_start = (uint32_t)sb_json_int(map, "uid_start", 0),
        .gid_start = (uint32_t)sb_json_int(map, "gid_start", 0),
        .count = (uint32_t)sb_json_int(map, "count", 0),
    };
    if (record->map.privilege > SB_PRIVILEGE_SINGLE || !record->map.count ||
        (record->map.privilege == SB_PRIVILEGE_ROOT && !sb_ids_are_range(&record->map))) /* never the machine's own ids */
        return sb_fail(error, SB_ARGS(SANDBOX_EDAMAGED, .phase = "state"), "the record's id map does not verify");
    json_array_foreach(layers, i, layer)
    {
        if (!is_layer(json_string_value(layer)))
            return sb_fail(error, SB_ARGS(SANDBOX_EDAMAGED, .phase = "state"), "the record's layers do not verify");
    }
    if (!i || !sb_json_str(spec, "lifetime") || !sb_json_str(spec, "image")) /* what decides over deletion must be there */
        return sb_fail(error, SB_ARGS(SANDBOX_EDAMAGED, .phase = "state"), "the record is not whole");
    r = sb_spec_from_json(spec, &record->spec, error);
    if (!r && json_object_get(record->json, "limits")) /* as they are now; older records have what was asked for alone */
        r = sb_limits_from_json(json_object_get(record->json, "limits"), &record->spec->limits, error);
    return r;
}

int sb_record_open(struct sb_engine *engine, const char *id, enum sb_record_lock lock, struct sb_record *ret,
                   struct sandbox_error **error)
{
    struct sb_record record = SB_RECORD_INIT;
    int r;

    if (!sb_id_valid(id))
        return sb_fail(error, SB_ARGS(SANDBOX_EINVALID, .field = "id", .hint = "an id is 64 lowercase hexadecimal digits"),
                       "this is no id");
    memcpy(record.id, id, SB_ID_SIZE);
    record.dir = openat(engine->sandboxes, id, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (record.dir < 0 && (errno == ENOTDIR || errno == ELOOP)) { /* somebody's file of this name: it can be deleted, and nothing else */
        *ret = record;
        return sb_fail(error, SB_ARGS(SANDBOX_EDAMAGED, .sys_errno = errno, .phase = "state"), "the sandbox's folder is something else");
    }
    if (record.dir < 0)
        return errno == ENOENT ? sb_fail(error, SB_ARGS(SANDBOX_ENOTFOUND, .sys_errno = ENOENT, .field = "id"),
                                         "there is no sandbox %.12s", id)
                               : sb_fail_errno(error, errno, "state", "the sandbox's folder can't be opened");
    r = lock_folder(&record, lock, error);
    if (r) {
        sb_record_clear(&record);
        return r;
    }
    r = read_document(record.dir, "record", &record.json, error);
    if (!r)
        r = interpret(&record, error);
    if (r) {
        /* nothing of it is believed: it may be another sandbox's */
        json_decref(SB_TAKE_PTR(record.json));
        record.spec = sb_spec_free(record.spec);
        record.map = (struct sb_idmap){ 0 };
        if (r == SANDBOX_ENOTFOUND || r == SANDBOX_EINVALID) /* of the record, not of the sandbox */
            r = SANDBOX_EDAMAGED;
        if (r != SANDBOX_EDAMAGED) {
            sb_record_clear(&record);
            return r;
        }
    }
    *ret = record;
    return r;
}

int sb_record_load(struct sb_engine *engine, const char *id, struct sb_record *ret, struct sandbox_error **error)
{
    struct sb_record record = SB_RECORD_INIT;
    char path[SB_ID_SIZE + 16];
    int r;

    memcpy(record.id, id, SB_ID_SIZE);
    snprintf(path, sizeof path, "%s/record", id);
    r = read_document(engine->sandboxes, path, &record.json, error);
    if (!r)
        r = interpret(&record, error);
    *ret = record;
    return r;
}

char *sb_record_holder_prefix(const struct sb_engine *engine)
{
    struct statx stx;
    char *text;

    /* the folder itself, not its path: in another mount namespace the same path is another folder, with sandboxes that we don't see. With the
     * time of its birth: a root that was removed by hand leaves its claims, and its inode to the next one */
    if (statx(engine->root, "", AT_EMPTY_PATH, STATX_INO | STATX_BTIME, &stx) < 0)
        return NULL;
    return asprintf(&text, "%x:%x:%llx:%llx.%x\t", stx.stx_dev_major, stx.stx_dev_minor, (unsigned long long)stx.stx_ino,
                    stx.stx_mask & STATX_BTIME ? (unsigned long long)stx.stx_btime.tv_sec : 0,
                    stx.stx_mask & STATX_BTIME ? stx.stx_btime.tv_nsec : 0) < 0
               ? NULL
               : text;
}

char *sb_record_holder(const struct sb_engine *engine, const char *id)
{
    SB_FREE char *prefix = sb_record_holder_prefix(engine);
    char *text;

    return !prefix || asprintf(&text, "%s%s\t%s\n", prefix, engine->root_path, id) < 0 ? NULL : text;
}

json_t *sb_record_read_run(const struct sb_engine *engine, const struct sb_record *record)
{
    char path[SB_ID_SIZE + 16];
    json_t *json;

    if (record->dir >= 0)
        return read_document(record->dir, "run", &json, NULL) ? NULL : json;
    snprintf(path, sizeof path, "%s/run", record->id);
    return read_document(engine->sandboxes, path, &json, NULL) ? NULL : json;
}

int sb_record_write_run(struct sb_record *record, const char *state, const struct sb_identity *init,
                        const struct sb_identity *keeper, const char *cause, struct sandbox_error **error)
{
    SB_JSON json_t *json = json_pack("{s:s, s:o, s:o, s:s}", "state", state, "init", sb_identity_to_json(init), "keeper",
                                     sb_identity_to_json(keeper), "cause", cause);

    if (!json)
        return sb_fail(error, SB_ARGS(SANDBOX_ENOMEM, .sys_errno = ENOMEM), "out of memory");
    return write_document(record->dir, "run", json, durable(record), error);
}

int sb_record_keep(struct sb_engine *engine, const struct sb_record *record, struct sandbox_error **error)
{
    if (!durable(record))
        return 0;
    if (fsync(engine->sandboxes) < 0 || (record->spec->name && fsync(engine->names) < 0) ||
        (record->spec->idempotency_key && fsync(engine->keys) < 0))
        return sb_fail_errno(error, errno, "state", "the sandbox's folder can't be flushed to the disk");
    return 0;
}

void sb_record_note_failure(struct sb_engine *engine, struct sb_record *record, const struct sandbox_error *why)
{
    SB_JSON json_t *run = record->spec && why ? sb_record_read_run(engine, record) : NULL;
    struct sb_identity init, keeper;
    char cause[200];

    if (!run)
        return;
    sb_identity_from_json(json_object_get(run, "init"), &init);
    sb_identity_from_json(json_object_get(run, "keeper"), &keeper);
    snprintf(cause, sizeof cause, "its start failed: %s", sandbox_error_get_message(why));
    if (sb_utf8_valid(cause, strlen(cause)))
        sb_record_write_run(record, sb_json_str(run, "state") ? sb_json_str(run, "state") : "created", &init, &keeper, cause, NULL);
}

int sb_record_uses_image(const struct sb_record *record, const char *digest)
{
    const char *mine = sb_json_str(json_object_get(record->json, "image"), "digest");

    return mine && !strcmp(mine, digest);
}

int sb_engine_find(struct sb_engine *engine, int (*wanted)(const struct sb_record *record, const char *what), const char *what,
                   char id[SB_ID_SIZE])
{
    int copy = openat(engine->sandboxes, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), found = 0;
    DIR *stream = copy < 0 ? NULL : fdopendir(copy);
    struct dirent *d;

    if (!stream) {
        sb_close(copy);
        return 0;
    }
    while (!found && (d = readdir(stream))) {
        struct sb_record record = SB_RECORD_INIT;

        if (sb_id_valid(d->d_name) && !sb_record_open(engine, d->d_name, SB_LOCK_NONE, &record, NULL) && wanted(&record, what)) {
            memcpy(id, d->d_name, SB_ID_SIZE);
            found = 1;
        }
        sb_record_clear(&record);
    }
    closedir(stream);
    return found;
}
