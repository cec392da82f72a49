/* SPDX-License-Identifier: Apache-2.0
 * Volumes: folders that outlive sandboxes. A volume's data is below a 0700 folder of the state root's owner: what a sandbox's root
 * leaves in it (a setuid file, say) is out of reach for the machine's other users. */
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

static int check_name(const char *name, struct sandbox_error **error)
{
    return sb_name_valid(name)
               ? 0
               : sb_fail(error, SB_ARGS(SANDBOX_EINVALID, .field = "name", .hint = "[A-Za-z0-9][A-Za-z0-9_.-]{0,127}"),
                         "this is no volume name");
}

static int make_volume(struct sb_engine *engine, const char *name, const char *temporary, struct sandbox_error **error)
{
    SB_CLOSE int fd = sb_open_dir(engine->volumes, temporary, 0700), data = fd < 0 ? fd : sb_open_dir(fd, "data", 0755);

    if (data < 0 || fchmod(data, 0755) < 0)
        return sb_fail_errno(error, data < 0 ? -data : errno, "volume", "the volume's folder can't be made");
    if (renameat2(engine->volumes, temporary, engine->volumes, name, RENAME_NOREPLACE) == 0)
        return 0;
    return errno == EEXIST
               ? sb_fail(error, SB_ARGS(SANDBOX_EEXISTS, .sys_errno = errno, .field = "name"), "there is a volume %s already", name)
               : sb_fail_errno(error, errno, "volume", "the volume can't be made");
}

int sb_engine_volume_create(struct sb_driver *driver, const char *name, struct sandbox_error **error)
{
    struct sb_engine *engine = (struct sb_engine *)driver;
    char temporary[SB_ID_SIZE + 8] = ".new-"; /* no volume name begins with a dot */
    int r = check_name(name, error);

    if (r)
        return r;
    r = sb_id_new(temporary + 5);
    if (!r)
        r = sb_owner_enter(engine, temporary + 5); /* if we die here, the next open removes it */
    if (r)
        return sb_fail_errno(error, -r, "volume", "the volume can't be made");
    r = make_volume(engine, name, temporary, error);
    if (r)
        sb_remove_tree(engine->volumes, temporary);
    sb_owner_leave(engine, &engine->self, temporary + 5);
    return r;
}

int sb_engine_volume_inspect(struct sb_driver *driver, const char *name, json_t **ret_json, struct sandbox_error **error)
{
    struct sb_engine *engine = (struct sb_engine *)driver;
    struct stat st;
    json_t *json;
    int r = check_name(name, error);

    if (r)
        return r;
    if (fstatat(engine->volumes, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return sb_fail(error, SB_ARGS(errno == ENOENT ? SANDBOX_ENOTFOUND : SANDBOX_EIO, .sys_errno = errno, .field = "name"),
                       "there is no volume %s", name);
    json = json_pack("{s:s, s:o, s:I}", "name", name, "path", json_sprintf("%s/volumes/%s/data", engine->root_path, name),
                     "created_ms", (json_int_t)st.st_ctim.tv_sec * 1000);
    if (!json)
        return sb_fail(error, SB_ARGS(SANDBOX_ENOMEM, .sys_errno = ENOMEM), "out of memory");
    *ret_json = json;
    return 0;
}

int sb_engine_volume_list(struct sb_driver *driver, json_t **ret_json, struct sandbox_error **error)
{
    struct sb_engine *engine = (struct sb_engine *)driver;
    int copy = openat(engine->volumes, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *stream = copy < 0 ? NULL : fdopendir(copy);
    json_t *list = json_array();
    struct dirent *d;

    if (!stream) {
        sb_close(copy);
        json_decref(list);
        return sb_fail_errno(error, errno, "volume", "the volumes can't be read");
    }
    while ((d = readdir(stream))) {
        json_t *json;

        if (sb_name_valid(d->d_name) && !sb_engine_volume_inspect(driver, d->d_name, &json, NULL))
            json_array_append_new(list, json);
    }
    closedir(stream);
    *ret_json = list;
    return 0;
}

static int uses_volume(const struct sb_record *record, const char *name)
{
    for (size_t i = 0; i < record->spec->n_mounts; i++)
        if (record->spec->mounts[i].type == SANDBOX_MOUNT_VOLUME && !strcmp(record->spec->mounts[i].source, name))
            return 1;
    return 0;
}

int sb_engine_volume_remove(struct sb_driver *driver, const char *name, struct sandbox_error **error)
{
    struct sb_engine *engine = (struct sb_engine *)driver;
    char user[SB_ID_SIZE], trash[SB_ID_SIZE];
    int r = check_name(name, error), lock, used;

    if (r)
        return r;
    r = sb_id_new(trash);
    if (r)
        return sb_fail_errno(error, -r, "volume", "no random bytes");
    lock = sb_folder_lock(engine->volumes, LOCK_EX, error);
    if (lock < 0)
        return lock;
    sb_owner_enter(engine, trash); /* whoever opens after our death removes the rest; on a full disk only a reconcile does */
    used = sb_engine_find(engine, uses_volume, name, user);
    r = used || renameat(engine->volumes, name, engine->trash, trash) == 0 ? 0 : errno;
    sb_folder_unlock(lock);
    if (used || r)
        sb_owner_leave(engine, &engine->self, trash);
    if (used)
        return sb_fail(error, SB_ARGS(SANDBOX_EBUSY, .sys_errno = EBUSY, .field = "name", .hint = "delete that sandbox first"),
                       "sandbox %.12s uses the volume %s", user, name);
    if (r)
        return sb_fail(error, SB_ARGS(r == ENOENT ? SANDBOX_ENOTFOUND : SANDBOX_EIO, .sys_errno = r, .field = "name"),
                       r == ENOENT ? "there is no volume %s" : "the volume %s can't be removed", name);
    r = sb_remove_tree(engine->trash, trash);
    if (r == -EACCES || r == -EPERM) { /* files of a user's other ids */
        const struct sb_idmap none = { .privilege = engine->map.privilege };
        int more;

        while ((more = sb_undo_trash(engine, trash, &none, NULL)) == 1)
            ;
        r = more ? r : 0;
    }
    if (!r)
        sb_owner_leave(engine, &engine->self, trash);
    return r ? sb_fail_errno(error, -r, "volume", "parts of the volume's data can't be removed; the next open tries again") : 0;
}
