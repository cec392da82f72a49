/* SPDX-License-Identifier: Apache-2.0
 * Opening a state root, and the driver table of this kernel. */
#include "lifetime.h"
#include "network.h"
#include "scope.h"

#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <errors.h>
#include <fs.h>
#include <json.h>

static void engine_free(struct sb_driver *driver)
{
    struct sb_engine *engine = (struct sb_engine *)driver;

    if (!engine)
        return;
    sb_children_reap(engine);
    for (size_t i = 0; i < engine->n_children; i++)
        sb_close(engine->children[i]);
    free(engine->children);
    sb_images_free(engine->images);
    sb_cgroups_clear(&engine->cgroups);
    sb_owner_close(engine);
    sb_known_free(engine);
    sb_close(engine->agent);
    sb_close(engine->unpack_program);
    sb_close(engine->scope_program);
    sb_close(engine->pull_program);
    sb_close(engine->network_program);
    sb_close(engine->proxy_program);
    sb_close(engine->networks);
    sb_close(engine->sandboxes);
    sb_close(engine->names);
    sb_close(engine->keys);
    sb_close(engine->trash);
    sb_close(engine->volumes);
    sb_close(engine->owners);
    sb_close(engine->timers);
    sb_close(engine->root);
    sb_close(engine->null);
    pthread_mutex_destroy(&engine->lock);
    free(engine->agent_dir);
    free(engine->root_path);
    free(engine);
}

static int image_import(struct sb_driver *driver, const char *source, const struct sandbox_image_import_options *options,
                        struct sb_op **ret_op, struct sandbox_error **error)
{
    return sb_image_import(((struct sb_engine *)driver)->images, source, options, ret_op, error);
}

static int image_inspect(struct sb_driver *driver, const char *name, json_t **ret_json, struct sandbox_error **error)
{
    return sb_image_inspect(((struct sb_engine *)driver)->images, name, ret_json, error);
}

static int image_list(struct sb_driver *driver, json_t **ret_json, struct sandbox_error **error)
{
    return sb_image_list(((struct sb_engine *)driver)->images, ret_json, error);
}

/* For image removal: the sandbox that stands on an image, from the records. */
static int image_in_use(void *data, const char *digest, char who[SB_ID_SIZE])
{
    return sb_engine_find(data, sb_record_uses_image, digest, who);
}

static int image_remove(struct sb_driver *driver, const char *name, struct sandbox_error **error)
{
    return sb_image_remove(((struct sb_engine *)driver)->images, name, image_in_use, driver, error);
}

static int image_pull(struct sb_driver *driver, const char *reference, const struct sandbox_image_pull_options *options, struct sb_op **ret_op,
                      struct sandbox_error **error)
{
    return sb_image_pull(((struct sb_engine *)driver)->images, reference, options, ret_op, error);
}

static int images_collect(struct sb_driver *driver, unsigned int flags, struct sb_op **ret_op, struct sandbox_error **error)
{
    return sb_images_collect(((struct sb_engine *)driver)->images, flags, image_in_use, driver, ret_op, error);
}

static const struct sb_driver_ops driver_ops = {
    .name = "local",
    .free = engine_free,
    .create = sb_engine_create,
    .start = sb_engine_start,
    .stop = sb_engine_stop,
    .remove = sb_engine_remove,
    .kill = sb_engine_kill,
    .open = sb_engine_open_sandbox,
    .reconcile = sb_engine_reconcile,
    .inspect = sb_engine_inspect,
    .list = sb_engine_list,
    .exec = sb_engine_exec,
    .exec_open = sb_engine_exec_open, .terminal_detach = sb_engine_terminal_detach, .terminal_attach = sb_engine_terminal_attach,
    .log_open = sb_engine_log_open,
    .dial = sb_engine_dial,
    .forward_open = sb_engine_forward_open,
    .events_open = sb_engine_events_open,
    .image_import = image_import,
    .image_pull = image_pull,
    .images_collect = images_collect,
    .image_inspect = image_inspect,
    .image_list = image_list,
    .image_remove = image_remove,
    .secrets_scan = sb_engine_secrets_scan,
    .mount_diff = sb_engine_mount_diff,
    .mount_tar = sb_engine_mount_tar,
    .mount_usage = sb_engine_mount_usage,
    .mount_reset = sb_engine_mount_reset,
    .volume_create = sb_engine_volume_create,
    .volume_create_with = sb_engine_volume_create_with,
    .volume_inspect = sb_engine_volume_inspect,
    .volume_list = sb_engine_volume_list,
    .volume_remove = sb_engine_volume_remove,
    .set_allowed = sb_engine_set_allowed,
    .network_create = sb_engine_network_create,
    .network_set_allowed = sb_engine_network_set_allowed,
    .network_remove = sb_engine_network_remove,
    .network_list = sb_engine_network_list,
    .file = sb_engine_file,
    .folder_open = sb_engine_folder_open,
    .doctor = sb_engine_doctor,
    .pause = sb_engine_pause,
    .resume = sb_engine_resume,
    .extend = sb_engine_extend,
    .upload = sb_engine_upload,
    .download = sb_engine_download,
    .set_limits = sb_engine_set_limits,
    .get_stats = sb_engine_get_stats,
};

/* Root: /var/lib/libsandbox; a user: by the account's home, from the machine's own file. No environment variable is read. */
static char *default_root(void)
{
    FILE *file;
    char buffer[4096], *path = NULL;
    struct passwd entry, *found;

    if (geteuid() == 0)
        return strdup("/var/lib/libsandbox");
    file = fopen("/etc/passwd", "re");
    while (file && !path && !fgetpwent_r(file, &entry, buffer, sizeof buffer, &found))
        if (entry.pw_uid == geteuid() && asprintf(&path, "%s/.local/share/libsandbox", entry.pw_dir) < 0)
            path = NULL;
    if (file)
        fclose(file);
    if (!path && asprintf(&path, "/var/tmp/libsandbox-%u", geteuid()) < 0)
        path = NULL;
    return path;
}

static int open_root(struct sb_engine *engine, const char *root, struct sandbox_error **error)
{
    struct stat st;

    if (root && !sb_path_absolute_safe(root))
        return sb_fail(error, SB_ARGS(SANDBOX_EINVALID, .field = "state_root", .hint = "give an absolute path without \"..\""),
                       "the state root %s is no path", root);
    engine->root_path = root ? strdup(root) : default_root();
    if (!engine->root_path)
        return sb_fail(error, SB_ARGS(SANDBOX_ENOMEM, .sys_errno = ENOMEM), "out of memory");
    engine->root = sb_make_path(engine->root_path);
    if (engine->root == -ELOOP || engine->root == -ENOTDIR)
        return sb_fail(error,
                       SB_ARGS(SANDBOX_EDENIED, .sys_errno = -engine->root, .phase = "state", .field = "state_root",
                               .hint = "name the folder itself"),
                       "the state root %s is a symbolic link or not a folder", engine->root_path);
    if (engine->root < 0) {
        int r = sb_fail_errno(error, -engine->root, "state", "the state root %s can't be opened", engine->root_path);

        sb_error_set_field(error, "state_root");
        return r;
    }
    if (fstat(engine->root, &st) < 0)
        return sb_fail_errno(error, errno, "state", "the state root can't be read");
    if (st.st_uid != geteuid())
        return sb_fail(error,
                       SB_ARGS(SANDBOX_EDENIED, .phase = "state", .field = "state_root", .hint = "use a state root of your own"),
                       "the state root %s belongs to uid %u", engine->root_path, st.st_uid);
    if (st.st_mode & 077)
        return sb_fail(
            error,
            SB_ARGS(SANDBOX_EDENIED, .phase = "state", .field = "state_root", .hint = "chmod 700 it, if nobody else wrote there"),
            "the state root %s is open to others (mode %03o)", engine->root_path, st.st_mode & 0777);
    return 0;
}

static int open_folders(struct sb_engine *engine, struct sandbox_error **error)
{
    const struct {
        const char *name;
        int *fd;
    } folders[] = { { "sandboxes", &engine->sandboxes },
                    { "names", &engine->names },
                    { "keys", &engine->keys },
                    { "trash", &engine->trash },
                    { "volumes", &engine->volumes },
                    { "owners", &engine->owners },
                    { "networks", &engine->networks },
                    { "timers", &engine->timers } };

    for (size_t i = 0; i < SB_ELEMENTS(folders); i++) {
        *folders[i].fd = sb_open_dir(engine->root, folders[i].name, 0700);
        if (*folders[i].fd < 0)
            return sb_fail_errno(error, -*folders[i].fd, "state", "%s/%s can't be opened", engine->root_path, folders[i].name);
    }
    engine->null = open("/dev/null", O_RDWR | O_CLOEXEC);
    return engine->null < 0 ? sb_fail_errno(error, errno, "state", "/dev/null can't be opened") : 0;
}

static int unpack_exe(void *data, struct sandbox_error **error)
{
    int fd, r = sb_engine_program(data, "sandbox-unpack", &fd, error);

    return r ? r : fd;
}

static int pull_exe(void *data, struct sandbox_error **error)
{
    int fd, r = sb_engine_program(data, "sandbox-pull", &fd, error);

    return r ? r : fd;
}

int sb_engine_open(const char *root, const char *agent_dir, const struct sandbox_host_options *options, struct sb_driver **ret_driver,
                   struct sandbox_error **error)
{
    struct sb_engine *engine = calloc(1, sizeof *engine);
    int r;

    if (!engine)
        return sb_fail(error, SB_ARGS(SANDBOX_ENOMEM, .sys_errno = ENOMEM), "out of memory");
    engine->driver.ops = &driver_ops;
    engine->root = engine->sandboxes = engine->names = engine->keys = engine->trash = engine->volumes = engine->owners = engine->timers = engine->null =
        engine->agent = engine->unpack_program = -1;
    engine->pull_program = -1;
    engine->scope_program = engine->network_program = engine->proxy_program = engine->networks = -1;
    pthread_mutex_init(&engine->lock, NULL);
    if (agent_dir && !(engine->agent_dir = strdup(agent_dir)))
        r = sb_fail(error, SB_ARGS(SANDBOX_ENOMEM, .sys_errno = ENOMEM), "out of memory");
    else
        r = open_root(engine, root, error);
    if (!r)
        r = open_folders(engine, error);
    if (!r && options)
        r = sb_ceiling_open(engine, options, error);
    if (!r)
        r = sb_ids_detect(&engine->map, error);
    if (!r && (r = sb_identity_boot(engine->self.boot)))
        r = sb_fail_errno(error, -r, "state", "the boot id can't be read; is /proc mounted?");
    if (!r && (r = sb_identity_read(getpid(), engine->self.boot, &engine->self)))
        r = sb_fail_errno(error, -r, "state", "this process can't be found in /proc; is it that of another pid namespace?");
    if (!r)
        r = sb_cgroups_detect(&engine->cgroups, error);
    if (!r && (r = sb_scopes_detect(engine)))
        r = sb_fail_errno(error, -r, "cgroup", "systemd's scopes can't be found");
    if (!r) {
        engine->unpack = engine->map;
        if (engine->unpack.privilege == SB_PRIVILEGE_ROOT) /* the first block, which sb_ids_claim() never gives away */
            engine->unpack.uid_start = engine->unpack.gid_start = SB_RANGE_FIRST;
        r = sb_images_open(engine->root, &engine->unpack, unpack_exe, engine, &engine->images, error);
    }
    if (!r) {
        sb_images_set_pull_program(engine->images, pull_exe);
        r = sb_repair(engine, error);
    }
    if (!r)
        sb_lifetime_sweep(engine);
    if (r) {
        engine_free(&engine->driver);
        return r;
    }
    *ret_driver = &engine->driver;
    return 0;
}
