/* SPDX-License-Identifier: Apache-2.0
 * See overlay.h. */
#include "overlay.h"
#include "overlay-look.h"
#include "volume.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <errors.h>
#include <fs.h>
#include <json.h>
#include <rules.h>

enum { DOCUMENT_MAX = 1 << 20 };

void sb_overlay_place(const struct sb_record *record, size_t mount, char *path, size_t size)
{
    snprintf(path, size, "sandboxes/%s/mounts/%zu", record->id, mount);
}

int sb_owner_possible(const struct sb_engine *engine, const char *owner)
{
    uint32_t uid, gid;

    return !sb_parse_owner(owner, &uid, &gid) &&
           (engine->map.privilege == SB_PRIVILEGE_ROOT || (uid == engine->map.uid && gid == engine->map.gid));
}

static int give(const struct sb_record *record, int fd)
{
    const struct sb_idmap *map = &record->map;
    struct stat st;

    if (map->privilege != SB_PRIVILEGE_ROOT)
        return 0;
    if (fstat(fd, &st) < 0)
        return -errno;
    if (st.st_uid == map->uid_start && st.st_gid == map->gid_start)
        return 0;
    return fchown(fd, map->uid_start, map->gid_start) < 0 ? -errno : 0;
}

static int make_one(struct sb_record *record, int all, const char *name)
{
    static const struct {
        const char *name;
        mode_t mode;
    } parts[] = { { "upper", 0755 }, { "work", 0700 } };
    SB_CLOSE int folder = -1;
    int r;

    folder = sb_open_dir(all, name, 0700);
    if (folder < 0)
        return folder;
    r = sb_remove_tree(folder, "work"); /* left by a volatile overlay, it would refuse the next mount */
    for (size_t i = 0; i < SB_ELEMENTS(parts) && !r; i++) {
        SB_CLOSE int fd = sb_open_dir(folder, parts[i].name, parts[i].mode);

        r = fd < 0 ? fd : give(record, fd);
    }
    return r ? r : give(record, folder);
}

int sb_overlay_throw(struct sb_engine *engine, const struct sb_record *record, const char *name)
{
    char path[256], trash[SB_ID_SIZE];
    int r = sb_id_new(trash);

    if (r)
        return r;
    snprintf(path, sizeof path, "sandboxes/%s/mounts/%s", record->id, name);
    if (faccessat(engine->root, path, F_OK, AT_SYMLINK_NOFOLLOW) < 0)
        return errno == ENOENT ? 0 : -errno;
    sb_owner_enter(engine, trash); /* whoever opens after our death removes the rest */
    if (renameat(engine->root, path, engine->trash, trash) < 0)
        return -errno;
    sb_look_remove(engine, engine->trash, trash, NULL); /* else the next open of the state root does */
    return 0;
}

/* A layer of a bounded size is within a disk image; who needs it mounts that for himself (agent/stage-disk.c). */
static int make_image(struct sb_engine *engine, const struct sb_record *record, int all, const char *name, int64_t bytes,
                      struct sandbox_error **error)
{
    SB_CLOSE int folder = sb_open_dir(all, name, 0700);
    SB_FREE char *path = NULL;

    if (folder < 0)
        return sb_fail_errno(error, -folder, "overlay", "the folder for the layer's disk can't be made");
    if (faccessat(folder, "image", F_OK, AT_SYMLINK_NOFOLLOW) == 0)
        return 0;
    /* one that is half made must not be taken for whole */
    if ((unlinkat(folder, SB_DISK_UNFINISHED, 0) < 0 && errno != ENOENT) ||
        asprintf(&path, "%s/sandboxes/%s/mounts/%s", engine->root_path, record->id, name) < 0)
        return sb_fail_errno(error, errno, "overlay", "the layer's disk can't be made");
    return sb_disk_make(engine, folder, path, "ext4", bytes, error);
}

static int make_layer(struct sb_engine *engine, struct sb_record *record, size_t mount, int next, struct sandbox_error **error)
{
    const int64_t bytes = record->spec->mounts[mount].max_bytes;
    char name[24], fresh[32];
    SB_CLOSE int all = sb_open_dir(record->dir, "mounts", 0700);
    int r;

    snprintf(name, sizeof name, "%zu", mount);
    snprintf(fresh, sizeof fresh, "%s%s", name, SB_RESET_SUFFIX);
    r = all < 0 ? all : sb_overlay_throw(engine, record, fresh); /* of a reset that was cut short */
    if (!r && bytes)
        return make_image(engine, record, all, next ? fresh : name, bytes, error);
    if (!r)
        r = make_one(record, all, next ? fresh : name);
    return r ? sb_fail_errno(error, -r, "overlay", "the layer for %s can't be made", record->spec->mounts[mount].target) : 0;
}

int sb_overlays_make(struct sb_engine *engine, struct sb_record *record, struct sandbox_error **error)
{
    int r = 0;

    for (size_t i = 0; i < record->spec->n_mounts && !r; i++)
        if (record->spec->mounts[i].type == SANDBOX_MOUNT_OVERLAY)
            r = make_layer(engine, record, i, 0, error);
    return r;
}

int sb_overlay_make_next(struct sb_engine *engine, struct sb_record *record, size_t mount, struct sandbox_error **error)
{
    return make_layer(engine, record, mount, 1, error);
}

void sb_overlays_note(json_t **json, const struct sb_control *message)
{
    char key[16], kind[sizeof message->phase + 1] = "", reason[sizeof message->detail + 1] = "";

    memcpy(kind, message->phase, sizeof message->phase);
    memcpy(reason, message->detail, sizeof message->detail);
    if (!*json)
        *json = json_object();
    snprintf(key, sizeof key, "%d", message->pid);
    json_object_set_new(*json, key, json_pack("{s:s, s:o}", "kind", kind, "reason", sb_json_bytes(reason)));
}

int sb_overlays_keep(struct sb_engine *engine, const char *id, const json_t *json, struct sandbox_error **error)
{
    SB_FREE char *text = json ? sb_json_dump(json) : NULL;
    SB_CLOSE int dir = -1;
    int r;

    if (!json)
        return 0;
    if (!text)
        return sb_fail(error, SB_ARGS(SANDBOX_ENOMEM, .sys_errno = ENOMEM), "out of memory");
    dir = sb_open_beneath(engine->sandboxes, id, O_RDONLY | O_DIRECTORY, 0);
    r = dir < 0 ? dir : sb_write_file(dir, "overlays", text, strlen(text), 0);
    return r ? sb_fail_errno(error, -r, "state", "what came of the overlays can't be written") : 0;
}

static int has_overlays(const struct sandbox_spec *spec)
{
    for (size_t i = 0; i < spec->n_mounts; i++)
        if (spec->mounts[i].type == SANDBOX_MOUNT_OVERLAY)
            return 1;
    return 0;
}

json_t *sb_overlays_document(const struct sb_record *record)
{
    json_t *mounts = json_deep_copy(json_object_get(json_object_get(record->json, "spec"), "mounts")), *mount;
    SB_JSON json_t *found = NULL;
    SB_FREE char *text = NULL;
    size_t size, i;

    if (!has_overlays(record->spec))
        return mounts ? mounts : json_array();
    if (!sb_read_file(record->dir, "overlays", DOCUMENT_MAX, &text, &size) && sb_json_parse(text, size, "overlays", &found, NULL))
        found = NULL;
    json_array_foreach(mounts, i, mount)
    {
        char key[24];
        json_t *overlay;

        snprintf(key, sizeof key, "%zu", i);
        overlay = json_object_get(found, key);
        if (record->spec->mounts[i].type == SANDBOX_MOUNT_OVERLAY)
            json_object_set_new(mount, "overlay",
                                overlay ? json_incref(overlay) : json_pack("{s:s, s:s}", "kind", "", "reason", "not yet started"));
    }
    return mounts ? mounts : json_array();
}
