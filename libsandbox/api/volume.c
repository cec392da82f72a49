/* SPDX-License-Identifier: Apache-2.0
 * Volumes: create, open, list, remove. */
#include "handles.h"
#include "options.h"
#include "rules.h"

#include <json.h>
#include <string.h>

struct sandbox_volume {
    json_t *document;
    char *text; /* of it */
};

struct sandbox_volume_list {
    size_t count;
    struct sandbox_volume *volumes[];
};

/* Takes the document. */
static int volume_new(json_t *document, struct sandbox_volume **ret_volume, struct sandbox_error **error)
{
    struct sandbox_volume *volume;

    if (!sb_name_valid(sb_json_str(document, "name")) || !sb_json_str(document, "path")) {
        json_decref(document);
        return sb_fail(error, SB_ARGS(SANDBOX_EPROTOCOL), "the host's answer is not a volume's document");
    }
    volume = calloc(1, sizeof *volume);
    if (!volume) {
        json_decref(document);
        return sb_fail_memory(error);
    }
    volume->document = document;
    volume->text = sb_json_dump(document);
    if (!volume->text) {
        sandbox_volume_unref(volume);
        return sb_fail_memory(error);
    }
    *ret_volume = volume;
    return 0;
}

static int volume_create(struct sandbox_host *host, const char *name, struct sandbox_error **error)
{
    int r = sb_host_check(host, error);

    if (!r)
        r = sb_check_name(name, "name", error);
    if (r)
        return r;
    if (!host->driver->ops->volume_create)
        return sb_fail_slot(error, host, "volume create", NULL);
    return host->driver->ops->volume_create(host->driver, name, error);
}

int sandbox_volume_create(struct sandbox_host *host, const char *name, struct sandbox_error **error)
{
    struct sandbox_error *failure = NULL;

    return sb_leave(volume_create(host, name, &failure), &failure, error, "volume create", host);
}

static int invalid(const char *field, const char *problem, struct sandbox_error **error)
{
    return sb_fail(error, SB_ARGS(SANDBOX_EINVALID, .field = field), "%s %s", field, problem);
}

static int check_options(const struct sandbox_volume_options *o, struct sandbox_error **error)
{
    uint32_t uid, gid;

    if (o->kind != SANDBOX_VOLUME_FOLDER && o->kind != SANDBOX_VOLUME_DISK)
        return invalid("kind", "is not a sandbox_volume_kind", error);
    if (o->flags & ~SANDBOX_VOLUME_ANY_FILE_SYSTEM)
        return invalid("flags", "has bits that this version does not know", error);
    if (o->owner && sb_parse_owner(o->owner, &uid, &gid))
        return invalid("owner", "is not UID:GID in digits", error);
    if (o->kind == SANDBOX_VOLUME_FOLDER)
        return o->bytes ? invalid("bytes", "is for disks only", error) : o->file_system ? invalid("file_system", "is for disks only", error) : 0;
    if (o->bytes < 1 << 20 || o->bytes > (int64_t)1 << 50)
        return invalid("bytes", "of a disk is 1 MiB or more", error);
    if (o->file_system && strcmp(o->file_system, "ext4") && strcmp(o->file_system, "xfs") && strcmp(o->file_system, "btrfs"))
        return invalid("file_system", "is not ext4, xfs or btrfs", error);
    return 0;
}

static int create_with(struct sandbox_host *host, const char *name, const struct sandbox_volume_options *options, struct sandbox_error **error)
{
    struct sandbox_volume_options with = SANDBOX_VOLUME_OPTIONS_INIT;
    int r = sb_host_check(host, error);

    if (!r)
        r = sb_check_name(name, "name", error);
    if (!r)
        r = sb_options_read(&with, sizeof with, SB_SIZE_TO(struct sandbox_volume_options, flags), options, error);
    if (!r)
        r = check_options(&with, error);
    if (r)
        return r;
    if (!host->driver->ops->volume_create_with)
        return sb_fail_slot(error, host, "volume create with options", NULL);
    return host->driver->ops->volume_create_with(host->driver, name, &with, error);
}

int sandbox_volume_create_with(struct sandbox_host *host, const char *name, const struct sandbox_volume_options *options,
                               struct sandbox_error **error)
{
    struct sandbox_error *failure = NULL;

    return sb_leave(create_with(host, name, options, &failure), &failure, error, "volume create", host);
}

static int volume_open(struct sandbox_host *host, const char *name, struct sandbox_volume **ret_volume, struct sandbox_error **error)
{
    json_t *document;
    int r = sb_host_check(host, error);

    if (!r)
        r = sb_check_name(name, "name", error);
    if (r)
        return r;
    if (!ret_volume)
        return sb_fail_null(error, "ret_volume");
    if (!host->driver->ops->volume_inspect)
        return sb_fail_slot(error, host, "volume open", NULL);
    r = host->driver->ops->volume_inspect(host->driver, name, &document, error);
    return r ? r : volume_new(document, ret_volume, error);
}

int sandbox_volume_open(struct sandbox_host *host, const char *name, struct sandbox_volume **ret_volume, struct sandbox_error **error)
{
    struct sandbox_error *failure = NULL;

    return sb_leave(volume_open(host, name, ret_volume, &failure), &failure, error, "volume open", host);
}

struct sandbox_volume *sandbox_volume_unref(struct sandbox_volume *volume)
{
    if (volume) {
        json_decref(volume->document);
        free(volume->text);
        free(volume);
    }
    return NULL;
}

const char *sandbox_volume_get_name(const struct sandbox_volume *volume)
{
    return volume ? sb_json_str(volume->document, "name") : "";
}

const char *sandbox_volume_get_path(const struct sandbox_volume *volume)
{
    return volume ? sb_json_str(volume->document, "path") : "";
}

const char *sandbox_volume_get_json(const struct sandbox_volume *volume)
{
    return volume ? volume->text : "";
}

static int list_volumes(struct sandbox_host *host, struct sandbox_volume_list **ret_list, struct sandbox_error **error)
{
    struct sandbox_volume_list *all;
    json_t *documents;
    size_t n;
    int r = sb_host_check(host, error);

    if (r)
        return r;
    if (!ret_list)
        return sb_fail_null(error, "ret_list");
    if (!host->driver->ops->volume_list)
        return sb_fail_slot(error, host, "volume list", NULL);
    r = host->driver->ops->volume_list(host->driver, &documents, error);
    if (r)
        return r;
    n = json_array_size(documents);
    all = calloc(1, sizeof *all + n * sizeof *all->volumes);
    if (!all)
        r = sb_fail_memory(error);
    for (size_t i = 0; !r && i < n; i++) {
        r = volume_new(json_incref(json_array_get(documents, i)), &all->volumes[i], error);
        if (!r)
            all->count++;
    }
    json_decref(documents);
    if (r)
        sandbox_volume_list_unref(all);
    else
        *ret_list = all;
    return r;
}

int sandbox_host_list_volumes(struct sandbox_host *host, struct sandbox_volume_list **ret_list, struct sandbox_error **error)
{
    struct sandbox_error *failure = NULL;

    return sb_leave(list_volumes(host, ret_list, &failure), &failure, error, "volume list", host);
}

size_t sandbox_volume_list_get_count(const struct sandbox_volume_list *list)
{
    return list ? list->count : 0;
}

const struct sandbox_volume *sandbox_volume_list_get(const struct sandbox_volume_list *list, size_t index)
{
    return list && index < list->count ? list->volumes[index] : NULL;
}

struct sandbox_volume_list *sandbox_volume_list_unref(struct sandbox_volume_list *list)
{
    for (size_t i = 0; list && i < list->count; i++)
        sandbox_volume_unref(list->volumes[i]);
    free(list);
    return NULL;
}

static int volume_remove(struct sandbox_host *host, const char *name, struct sandbox_error **error)
{
    int r = sb_host_check(host, error);

    if (!r)
        r = sb_check_name(name, "name", error);
    if (r)
        return r;
    if (!host->driver->ops->volume_remove)
        return sb_fail_slot(error, host, "volume remove", NULL);
    return host->driver->ops->volume_remove(host->driver, name, error);
}

int sandbox_volume_remove(struct sandbox_host *host, const char *name, struct sandbox_error **error)
{
    struct sandbox_error *failure = NULL;

    return sb_leave(volume_remove(host, name, &failure), &failure, error, "volume remove", host);
}
