/* SPDX-License-Identifier: Apache-2.0
 * Volumes: folders and disks that outlive sandboxes. A volume's data is below a 0700 folder of the state root's owner: what a sandbox's root
 * leaves in it (a setuid file, say) is out of reach for the machine's other users. */
#include "overlay.h"
#include "volume.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <errors.h>
#include <fs.h>
#include <json.h>
#include <rules.h>

static int check_name(const char *name, struct sandbox_error **error)
{
    return sb_name_valid(name)
               ? 0
               : sb_fail(error, SB_ARGS(SANDBOX_EINVALID, .field = "name", .hint = "[A-Za-z0-9][A-Za-z0-9_.-]{0,127}"),
                         "this is no volume name");
}

/* What locks, WAL files and shared maps were tried on. Others are taken when they are asked for. */
static const char *file_system_of(int fd)
{
    struct statfs fs;

    if (fstatfs(fd, &fs) < 0)
        return "";
    switch ((unsigned long)fs.f_type) {
    case 0xef53:
        return "ext4";
    case 0x58465342:
        return "xfs";
    case 0x9123683e:
        return "btrfs";
    default:
        return "";
    }
}

static int check_options(const struct sb_engine *engine, const struct sandbox_volume_options *o, struct sandbox_error **error)
{
    if (o->owner && !sb_owner_possible(engine, o->owner))
        return sb_fail(error, SB_ARGS(SANDBOX_EUNSUPPORTED, .field = "owner", .hint = "leave it out: the caller is 0:0 inside"),
                       "only root can map the owner %s; this caller's only one is itself", o->owner);
    if (o->kind == SANDBOX_VOLUME_DISK && engine->map.privilege != SB_PRIVILEGE_ROOT)
        return sb_fail(error, SB_ARGS(SANDBOX_EUNSUPPORTED, .field = "kind", .hint = "make a folder volume"),
                       "only root can mount a disk");
    return 0;
}

static int write_record(int fd, const struct sandbox_volume_options *o, const char *file_system, struct sandbox_error **error)
{
    SB_JSON json_t *json = json_pack("{s:s, s:s, s:I, s:s, s:b}", "kind", o->kind == SANDBOX_VOLUME_DISK ? "disk" : "folder", "file_system",
                                     file_system, "bytes", (json_int_t)o->bytes, "owner", o->owner ? o->owner : "", "vm", 0);
    SB_FREE char *text = json ? sb_json_dump(json) : NULL;
    int r = text ? sb_write_file(fd, "record", text, strlen(text), 1) : -ENOMEM;

    return r ? sb_fail_errno(error, -r, "volume", "the volume's record can't be written") : 0;
}

/* Its top folder belongs to whoever is 0:0 inside. */
static int give_data(struct sb_engine *engine, int fd, const struct sandbox_volume_options *o, struct sandbox_error **error)
{
    SB_CLOSE int data = sb_open_beneath(fd, "data", O_RDONLY | O_DIRECTORY, 0);
    uint32_t uid = 0, gid = 0;

    if (o->owner)
        sb_parse_owner(o->owner, &uid, &gid);
    if (data < 0 || fchmod(data, 0755) < 0 || (engine->map.privilege == SB_PRIVILEGE_ROOT && fchown(data, uid, gid) < 0))
        return sb_fail_errno(error, data < 0 ? -data : errno, "volume", "the volume's folder can't be made");
    return 0;
}

static int make_disk(struct sb_engine *engine, int fd, const char *temporary, const struct sandbox_volume_options *o,
                     struct sandbox_error **error)
{
    const char *file_system = o->file_system ? o->file_system : "ext4";
    SB_FREE char *path = NULL;
    int r;

    if (asprintf(&path, "%s/volumes/%s", engine->root_path, temporary) < 0)
        return sb_fail(error, SB_ARGS(SANDBOX_ENOMEM, .sys_errno = ENOMEM), "out of memory");
    r = sb_disk_make(engine, fd, path, file_system, o->bytes, error);
    if (!r)
        r = sb_disk_mount(fd, path, file_system, error);
    if (!r)
        r = give_data(engine, fd, o, error);
    if (sb_disk_is_mounted(fd)) { /* it was to be seen that it can be; from here on whoever needs it mounts it */
        SB_FREE char *data = NULL;

        if (asprintf(&data, "%s/data", path) < 0 || (umount2(data, 0) < 0 && umount2(data, MNT_DETACH) < 0))
            r = r ? r : sb_fail_errno(error, errno, "volume", "the new disk can't be put away");
    }
    return r;
}

static int make_volume(struct sb_engine *engine, const char *name, const char *temporary, const struct sandbox_volume_options *o,
                       struct sandbox_error **error)
{
    SB_CLOSE int fd = sb_open_dir(engine->volumes, temporary, 0700), data = fd < 0 ? fd : sb_open_dir(fd, "data", 0755);
    const char *file_system;
    int r;

    if (data < 0)
        return sb_fail_errno(error, -data, "volume", "the volume's folder can't be made");
    file_system = file_system_of(data);
    if (!*file_system && !(o->flags & SANDBOX_VOLUME_ANY_FILE_SYSTEM))
        return sb_fail(error,
                       SB_ARGS(SANDBOX_EUNSUPPORTED, .phase = "volume",
                               .hint = "put the state root on one of them, or ask for any (SANDBOX_VOLUME_ANY_FILE_SYSTEM)"),
                       "the state root is not on ext4, xfs or btrfs, where databases and locks of several sandboxes are safe");
    r = o->kind == SANDBOX_VOLUME_DISK ? make_disk(engine, fd, temporary, o, error) : give_data(engine, fd, o, error);
    if (!r)
        r = write_record(fd, o, o->kind != SANDBOX_VOLUME_DISK ? file_system : o->file_system ? o->file_system : "ext4", error);
    if (r)
        return r;
    if (renameat2(engine->volumes, temporary, engine->volumes, name, RENAME_NOREPLACE) == 0)
        return 0;
    return errno == EEXIST
               ? sb_fail(error, SB_ARGS(SANDBOX_EEXISTS, .sys_errno = errno, .field = "name"), "there is a volume %s already", name)
               : sb_fail_errno(error, errno, "volume", "the volume can't be made");
}

int sb_engine_volume_create_with(struct sb_driver *driver, const char *name, const struct sandbox_volume_options *options,
                                 struct sandbox_error **error)
{
    struct sb_engine *engine = (struct sb_engine *)driver;
    char temporary[SB_ID_SIZE + 8] = ".new-"; /* no volume name begins with a dot */
    int r = check_name(name, error);

    if (!r)
        r = check_options(engine, options, error);
    if (r)
        return r;
    r = sb_id_new(temporary + 5);
    if (!r)
        r = sb_owner_enter(engine, temporary + 5); /* if we die here, the next open removes it */
    if (r)
        return sb_fail_errno(error, -r, "volume", "the volume can't be made");
    r = make_volume(engine, name, temporary, options, error);
    if (r)
        sb_remove_tree(engine->volumes, temporary);
    sb_owner_leave(engine, &engine->self, temporary + 5);
    return r;
}

int sb_engine_volume_create(struct sb_driver *driver, const char *name, struct sandbox_error **error)
{
    const struct sandbox_volume_options defaults = SANDBOX_VOLUME_OPTIONS_INIT;

    return sb_engine_volume_create_with(driver, name, &defaults, error);
}

int sb_volume_record(int folder, const char *name, json_t **ret_json, struct sandbox_error **error)
{
    SB_FREE char *text = NULL;
    size_t size;
    int r = sb_read_file(folder, "record", 65536, &text, &size);

    if (r == -ENOENT) { /* of a version that made folders only */
        *ret_json = json_pack("{s:s, s:s, s:i, s:s, s:b}", "kind", "folder", "file_system", "", "bytes", 0, "owner", "", "vm", 0);
        return *ret_json ? 0 : sb_fail(error, SB_ARGS(SANDBOX_ENOMEM, .sys_errno = ENOMEM), "out of memory");
    }
    if (r)
        return sb_fail_errno(error, -r, "volume", "the record of the volume %s can't be read", name);
    return sb_json_parse(text, size, "the volume's record", ret_json, error);
}

/* Two kernels on one volume would each keep what the other wrote in its own cache. A volume that was last used by this kernel, or by this
 * machine before it was started again, may be used. */
static int claim_kernel(struct sb_engine *engine, int folder, const char *name, struct sandbox_error **error)
{
    SB_JSON json_t *now = NULL, *then = NULL;
    SB_FREE char *text = NULL, *machine = NULL, *written = NULL;
    struct utsname system;
    size_t size;
    int r;

    if (sb_read_file(AT_FDCWD, "/etc/machine-id", 256, &machine, NULL) == 0)
        machine[strcspn(machine, "\n")] = 0;
    if ((!machine || !*machine) && uname(&system) == 0) {
        free(machine);
        machine = strdup(system.nodename);
    }
    now = json_pack("{s:s, s:o}", "boot", engine->self.boot, "machine", sb_json_bytes(machine ? machine : ""));
    if (!sb_read_file(folder, "kernel", 4096, &text, &size) && !sb_json_parse(text, size, "kernel", &then, NULL)) {
        const char *boot = sb_json_str(then, "boot");

        if (json_equal(now, then) || (boot && !strcmp(boot, engine->self.boot)))
            return 0;
        if (!json_equal(json_object_get(now, "machine"), json_object_get(then, "machine")))
            return sb_fail(error,
                           SB_ARGS(SANDBOX_EBUSY, .sys_errno = EBUSY, .phase = "volume", .field = "mounts",
                                   .hint = "if no kernel uses it any more, remove the file \"kernel\" in the volume's folder"),
                           "the volume %s belongs to the kernel of another machine", name);
    }
    written = now ? sb_json_dump(now) : NULL;
    r = written ? sb_write_file(folder, "kernel", written, strlen(written), 1) : -ENOMEM;
    return r ? sb_fail_errno(error, -r, "volume", "the volume %s can't be claimed", name) : 0;
}

int sb_volume_attach(struct sb_engine *engine, const char *name, struct sandbox_error **error)
{
    SB_CLOSE int folder = sb_open_beneath(engine->volumes, name, O_RDONLY | O_DIRECTORY, 0);
    SB_JSON json_t *record = NULL;
    SB_FREE char *path = NULL;
    int lock, r;

    if (folder < 0)
        return sb_fail(error, SB_ARGS(folder == -ENOENT ? SANDBOX_ENOTFOUND : SANDBOX_EIO, .sys_errno = -folder, .field = "mounts"),
                       "there is no volume %s", name);
    r = sb_volume_record(folder, name, &record, error);
    if (r)
        return r;
    if (json_is_true(json_object_get(record, "vm")))
        return sb_fail(error, SB_ARGS(SANDBOX_EDENIED, .phase = "volume", .field = "mounts", .hint = "use it in a VM only"),
                       "the volume %s was attached to a VM: what is on it is not for this kernel", name);
    lock = sb_folder_lock(folder, LOCK_EX, error);
    if (lock < 0)
        return lock;
    r = claim_kernel(engine, folder, name, error);
    if (!r && !strcmp(sb_json_str(record, "kind") ? sb_json_str(record, "kind") : "", "disk")) {
        const char *file_system = sb_json_str(record, "file_system");

        r = asprintf(&path, "%s/volumes/%s", engine->root_path, name) < 0 || !file_system
                ? sb_fail(error, SB_ARGS(SANDBOX_EDAMAGED, .phase = "volume"), "the record of the volume %s is damaged", name)
                : sb_disk_mount(folder, path, file_system, error);
    }
    sb_folder_unlock(lock);
    return r;
}

int sb_volumes_attach(struct sb_engine *engine, const struct sandbox_spec *spec, struct sandbox_error **error)
{
    int r = 0;

    for (size_t i = 0; i < spec->n_mounts && !r; i++)
        if (spec->mounts[i].type == SANDBOX_MOUNT_VOLUME)
            r = sb_volume_attach(engine, spec->mounts[i].source, error);
    return r;
}

int sb_volume_owner(struct sb_engine *engine, const char *name, uint32_t *ret_uid, uint32_t *ret_gid)
{
    SB_CLOSE int folder = sb_open_beneath(engine->volumes, name, O_RDONLY | O_DIRECTORY, 0);
    SB_JSON json_t *record = NULL;
    const char *owner;

    *ret_uid = *ret_gid = 0;
    if (folder < 0 || sb_volume_record(folder, name, &record, NULL))
        return -EIO;
    owner = sb_json_str(record, "owner");
    return owner && *owner ? sb_parse_owner(owner, ret_uid, ret_gid) : 0;
}

static int describe(struct sb_engine *engine, const char *name, json_t **ret_json, struct sandbox_error **error)
{
    SB_CLOSE int folder = -1;
    SB_JSON json_t *record = NULL;
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
    folder = sb_open_beneath(engine->volumes, name, O_RDONLY | O_DIRECTORY, 0);
    if (!json || folder < 0 || sb_volume_record(folder, name, &record, error) || json_object_update(json, record)) {
        json_decref(json);
        return sb_fail(error, SB_ARGS(SANDBOX_EIO, .phase = "volume"), "the volume %s can't be looked at", name);
    }
    *ret_json = json;
    return 0;
}

int sb_engine_volume_inspect(struct sb_driver *driver, const char *name, json_t **ret_json, struct sandbox_error **error)
{
    struct sb_engine *engine = (struct sb_engine *)driver;
    json_t *json;
    int r = describe(engine, name, &json, error);

    if (r)
        return r;
    /* who opens a volume is given a path that leads to its data, or none */
    if (sb_volume_attach(engine, name, NULL))
        json_object_set_new(json, "path", json_string(""));
    *ret_json = json;
    return 0;
}

int sb_engine_volume_list(struct sb_driver *driver, json_t **ret_json, struct sandbox_error **error)
{
    struct sb_engine *engine = (struct sb_engine *)driver;
    DIR *stream = sb_read_folder(engine->volumes);
    json_t *list = json_array();
    struct dirent *d;

    if (!stream) {
        json_decref(list);
        return sb_fail_errno(error, errno, "volume", "the volumes can't be read");
    }
    while ((d = readdir(stream))) {
        json_t *json;

        if (sb_name_valid(d->d_name) && !describe(engine, d->d_name, &json, NULL))
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

/* A disk that the machine itself has in use stays. */
static int put_away(struct sb_engine *engine, const char *name)
{
    SB_CLOSE int folder = sb_open_beneath(engine->volumes, name, O_RDONLY | O_DIRECTORY, 0);
    SB_FREE char *data = NULL;

    while (folder >= 0 && sb_disk_is_mounted(folder)) {
        free(data);
        if (asprintf(&data, "%s/volumes/%s/data", engine->root_path, name) < 0) {
            data = NULL;
            return ENOMEM;
        }
        if (umount2(data, UMOUNT_NOFOLLOW) < 0)
            return errno;
    }
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
    r = used ? 0 : put_away(engine, name);
    if (!r && !used && renameat(engine->volumes, name, engine->trash, trash) < 0)
        r = errno;
    sb_folder_unlock(lock);
    if (used || r)
        sb_owner_leave(engine, &engine->self, trash);
    if (used)
        return sb_fail(error, SB_ARGS(SANDBOX_EBUSY, .sys_errno = EBUSY, .field = "name", .hint = "delete that sandbox first"),
                       "sandbox %.12s uses the volume %s", user, name);
    if (r)
        return sb_fail(error, SB_ARGS(r == ENOENT ? SANDBOX_ENOTFOUND : r == EBUSY ? SANDBOX_EBUSY : SANDBOX_EIO, .sys_errno = r, .field = "name"),
                       r == ENOENT  ? "there is no volume %s"
                       : r == EBUSY ? "a process of the machine has files of the volume %s open"
                                    : "the volume %s can't be removed",
                       name);
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
