/* SPDX-License-Identifier: Apache-2.0
 * See image.h: opening the store, finding images for sandboxes and people, removing. Imports are in image-import*.c. */
#include "image-store.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include <errors.h>
#include <fs.h>
#include <json.h>

static int no_memory(struct sandbox_error **error)
{
    return sb_fail(error, SB_ARGS(SANDBOX_ENOMEM, .retryable = 1), "reading the image: out of memory");
}

struct sb_images *sb_images_free(struct sb_images *images)
{
    if (!images)
        return NULL;
    sb_close(images->names);
    sb_close(images->images);
    sb_close(images->layers);
    sb_close(images->root);
    free(images);
    return NULL;
}

static int open_folders(struct sb_images *images, int root, struct sandbox_error **error)
{
    const struct {
        int *at, *ret;
        const char *name;
    } folders[] = { { &images->root, &images->images, "images" }, { &images->images, &images->names, "names" }, { &images->root, &images->layers, "layers" } };

    images->root = fcntl(root, F_DUPFD_CLOEXEC, 0);
    if (images->root < 0)
        return sb_fail_errno(error, errno, "state", "opening the state root");
    for (size_t i = 0; i < SB_ELEMENTS(folders); i++) {
        int fd = sb_open_dir(*folders[i].at, folders[i].name, 0700);

        if (fd < 0)
            return sb_fail_errno(error, -fd, "state", "opening the state root's folder '%s'", folders[i].name);
        *folders[i].ret = fd;
    }
    return 0;
}

int sb_images_open(int root, const struct sb_idmap *map, int (*unpack_exe)(void *data, struct sandbox_error **error), void *data,
                   struct sb_images **ret_images, struct sandbox_error **error)
{
    struct sb_images *images = calloc(1, sizeof *images);
    int r;

    if (!images)
        return no_memory(error);
    *images = (struct sb_images){ .root = -1, .images = -1, .names = -1, .layers = -1, .map = *map, .unpack_exe = unpack_exe, .data = data };
    r = open_folders(images, root, error);
    if (r) {
        sb_images_free(images);
        return r;
    }
    sb_layers_sweep(images, NULL); /* what can't be removed now is no reason to refuse work */
    if (sb_layers_left(images))
        sb_layers_collect(images, NULL);
    *ret_images = images;
    return 0;
}

void sb_images_set_pull_program(struct sb_images *images, int (*pull_exe)(void *data, struct sandbox_error **error))
{
    images->pull_exe = pull_exe;
}

/* ---- for a create */

void sb_image_ref_clear(struct sb_image_ref *ref)
{
    for (size_t i = 0; ref->layers && i < ref->n_layers; i++)
        free(ref->layers[i]);
    for (size_t i = 0; ref->env && ref->env[i]; i++)
        free(ref->env[i]);
    for (size_t i = 0; ref->cmd && ref->cmd[i]; i++)
        free(ref->cmd[i]);
    free(ref->layers);
    free(ref->env);
    free(ref->cmd);
    free(ref->user);
    free(ref->workdir);
    if (ref->digest[0]) /* else it was never filled, and 0 is somebody's descriptor */
        sb_close(ref->pin);
    *ref = (struct sb_image_ref)SB_IMAGE_REF_INIT;
}

/* The strings of two lists, one after the other. */
static char **copy_lists(const json_t *first, const json_t *second)
{
    const json_t *lists[] = { first, second };
    char **copy = calloc(json_array_size(first) + json_array_size(second) + 1, sizeof *copy);
    size_t n = 0;

    for (size_t i = 0; copy && i < 2; i++)
        for (size_t j = 0; j < json_array_size(lists[i]); j++) {
            const char *text = json_string_value(json_array_get(lists[i], j));

            copy[n] = text ? strdup(text) : NULL;
            n += copy[n] != NULL;
        }
    return copy;
}

static int take_layers(const struct sb_images *images, const struct sb_image_record *record, struct sb_image_ref *ref, struct sandbox_error **error)
{
    char name[NAME_MAX + 1];
    struct sb_layer layer;
    size_t first = 0;

    for (size_t i = 0; i < record->n_layers; i++) /* what a layer hides as a whole needn't be mounted */
        first = record->layers[i].root_opaque ? i : first;
    ref->layers = calloc(record->n_layers + 1, sizeof *ref->layers);
    if (!ref->layers)
        return no_memory(error);
    for (size_t i = first; i < record->n_layers; i++) {
        if (!sb_layer_find(images, record->layers[i].diff_id, record->config_digest, i, &layer))
            return sb_fail(error, SB_ARGS(SANDBOX_EDAMAGED, .field = "image", .phase = "state", .hint = "import the image again"),
                           "the layer %s of image %s is not unpacked here", record->layers[i].diff_id, record->digest);
        sb_layer_name(images, record->layers[i].diff_id, layer.own ? record->config_digest : NULL, name);
        if (asprintf(&ref->layers[ref->n_layers], "layers/%s", name) < 0) {
            ref->layers[ref->n_layers] = NULL;
            return no_memory(error);
        }
        ref->n_layers++;
    }
    return 0;
}

static int take_defaults(const struct sb_image_record *record, struct sb_image_ref *ref, struct sandbox_error **error)
{
    SB_JSON json_t *config = NULL;
    const json_t *inner;
    const char *user, *workdir;
    int r = sb_json_parse(record->config, strlen(record->config), "the image's config", &config, error);

    if (r)
        return r;
    inner = json_object_get(config, "config");
    user = sb_json_str(inner, "User");
    workdir = sb_json_str(inner, "WorkingDir");
    ref->env = copy_lists(json_object_get(inner, "Env"), NULL);
    ref->cmd = copy_lists(json_object_get(inner, "Entrypoint"), json_object_get(inner, "Cmd"));
    ref->user = strdup(user ? user : "");
    ref->workdir = strdup(workdir ? workdir : "");
    return ref->env && ref->cmd && ref->user && ref->workdir ? 0 : no_memory(error);
}

static int open_record(const struct sb_images *images, const char *digest, int operation)
{
    char name[80];
    int fd;

    snprintf(name, sizeof name, "%s.json", digest + strlen("sha256:"));
    fd = openat(images->images, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    if (flock(fd, operation | LOCK_NB) < 0) {
        int r = -errno;

        sb_close(fd);
        return r;
    }
    return fd;
}

int sb_image_resolve(struct sb_images *images, const char *ref, struct sb_image_ref *ret, struct sandbox_error **error)
{
    struct sb_image_ref result = SB_IMAGE_REF_INIT;
    struct sb_image_record record = { 0 };
    char digest[SB_DIGEST_SIZE];
    SB_CLOSE int lock = sb_images_lock(images, error);
    int r;

    if (lock < 0)
        return lock;
    r = sb_image_find(images, ref, digest, error);
    if (!r)
        r = sb_image_record_read(images, digest, &record, error);
    if (!r) {
        result.pin = open_record(images, digest, LOCK_SH);
        r = result.pin < 0 ? sb_fail_errno(error, -result.pin, "state", "holding the image %s", digest) : 0;
    }
    if (!r) {
        memcpy(result.digest, record.digest, sizeof result.digest);
        memcpy(result.config_digest, record.config_digest, sizeof result.config_digest);
        r = take_layers(images, &record, &result, error);
    }
    if (!r)
        r = take_defaults(&record, &result, error);
    sb_image_record_clear(&record);
    if (r) {
        sb_image_ref_clear(&result);
        return r;
    }
    *ret = result;
    return 0;
}

/* ---- for people */

static int inspect(struct sb_images *images, const char *digest, json_t **ret_json, struct sandbox_error **error)
{
    struct sb_image_record record = { 0 };
    int r = sb_image_record_read(images, digest, &record, error);

    if (!r)
        r = sb_image_document(images, &record, ret_json, error);
    sb_image_record_clear(&record);
    return r;
}

int sb_image_inspect(struct sb_images *images, const char *name, json_t **ret_json, struct sandbox_error **error)
{
    char digest[SB_DIGEST_SIZE];
    int r = sb_image_find(images, name, digest, error);

    return r ? r : inspect(images, digest, ret_json, error);
}

int sb_image_list(struct sb_images *images, json_t **ret_json, struct sandbox_error **error)
{
    SB_FREE char(*digests)[SB_DIGEST_SIZE] = NULL;
    SB_JSON json_t *list = json_array();
    size_t n;
    int r = sb_image_records(images, &digests, &n, error);

    if (r)
        return r;
    for (size_t i = 0; i < n; i++) {
        struct sandbox_error *why = NULL;
        json_t *json = NULL;

        r = inspect(images, digests[i], &json, &why);
        if (r && r != SANDBOX_ENOTFOUND) /* not found: removed while the list was made */
            json = json_pack("{s:s, s:s}", "digest", digests[i], "damaged", sandbox_error_get_message(why));
        sandbox_error_unref(why);
        if (json && json_array_append_new(list, json) < 0)
            return no_memory(error);
    }
    *ret_json = SB_TAKE_PTR(list);
    return 0;
}

/* ---- removing */

static int unlink_in(int dir, const char *name, struct sandbox_error **error)
{
    if (unlinkat(dir, name, 0) < 0 && errno != ENOENT)
        return sb_fail_errno(error, errno, "remove", "removing '%s'", name);
    return 0;
}

static int check_free(const struct sb_images *images, const char *digest, int (*in_use)(void *data, const char *digest, char who[SB_ID_SIZE]),
                      void *data, struct sandbox_error **error)
{
    char who[SB_ID_SIZE] = "";
    SB_CLOSE int held = open_record(images, digest, LOCK_EX);

    if (held == -EWOULDBLOCK)
        return sb_fail(error, SB_ARGS(SANDBOX_EBUSY, .field = "image", .retryable = 1), "a sandbox is being made from the image %s", digest);
    if (in_use && in_use(data, digest, who))
        return sb_fail(error, SB_ARGS(SANDBOX_EBUSY, .field = "image", .hint = "delete the sandbox first"), "the sandbox %.64s stands on the image %s",
                       who, digest);
    return 0;
}

/* Under the lock. */
static int remove_record(const struct sb_images *images, const char *digest, const json_t *names, struct sandbox_error **error)
{
    char record[80];
    int r = 0;

    for (size_t i = 0; !r && i < json_array_size(names); i++)
        r = sb_image_name_remove(images, json_string_value(json_array_get(names, i)), error);
    snprintf(record, sizeof record, "%s.json", digest + strlen("sha256:"));
    return r ? r : unlink_in(images->images, record, error);
}

int sb_image_remove(struct sb_images *images, const char *name, int (*in_use)(void *data, const char *digest, char who[SB_ID_SIZE]),
                    void *data, struct sandbox_error **error)
{
    SB_JSON json_t *names = NULL;
    char digest[SB_DIGEST_SIZE];
    SB_CLOSE int lock = sb_images_lock(images, error);
    int r;

    if (lock < 0)
        return lock;
    r = sb_image_find(images, name, digest, error);
    if (!r)
        r = sb_image_names(images, digest, &names, error);
    if (r)
        return r;
    if (strncmp(name, "sha256:", 7) && json_array_size(names) > 1)
        return sb_image_name_remove(images, name, error);
    r = check_free(images, digest, in_use, data, error);
    if (!r)
        r = remove_record(images, digest, names, error);
    lock = sb_close(lock);
    return r ? r : sb_layers_collect(images, error);
}

int sb_images_prune(struct sb_images *images, unsigned int flags, int (*in_use)(void *data, const char *digest, char who[SB_ID_SIZE]), void *data,
                    int64_t *ret_n, struct sandbox_error **error)
{
    SB_FREE char(*digests)[SB_DIGEST_SIZE] = NULL;
    SB_CLOSE int lock = sb_images_lock(images, error);
    int64_t removed = 0;
    size_t n = 0;
    int r = lock < 0 ? lock : sb_image_records(images, &digests, &n, error);

    for (size_t i = 0; !r && i < n; i++) {
        SB_JSON json_t *names = NULL;

        r = sb_image_names(images, digests[i], &names, error);
        if (r || (!(flags & SANDBOX_COLLECT_UNUSED) && json_array_size(names)) || check_free(images, digests[i], in_use, data, NULL))
            continue;
        r = remove_record(images, digests[i], names, error);
        removed += !r;
    }
    if (!r)
        *ret_n = removed;
    return r;
}
