/* SPDX-License-Identifier: Apache-2.0
 * See image-store.h: layers' folders. */
#include "image-store.h"
#include "sweep.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <errors.h>
#include <fs.h>
#include <json.h>

void sb_layer_name(const struct sb_images *images, const char *diff_id, const char *config_digest, char name[NAME_MAX + 1])
{
    const struct sb_idmap *map = &images->map;
    char key[2 * SB_ID_SIZE];

    snprintf(key, sizeof key, "%s%s%s", diff_id + strlen("sha256:"), config_digest ? "-" : "",
             config_digest ? config_digest + strlen("sha256:") : "");
    switch (map->privilege) {
    case SB_PRIVILEGE_ROOT:
        snprintf(name, NAME_MAX + 1, "%s", key);
        break;
    case SB_PRIVILEGE_SUBIDS: /* other ranges are other owners on disk */
        snprintf(name, NAME_MAX + 1, "%s.%u-%u-%u-%u-%u", key, map->uid, map->gid, map->uid_start, map->gid_start, map->count);
        break;
    default:
        snprintf(name, NAME_MAX + 1, "%s.single", key);
    }
}

static void figures_name(const char *layer_name, char name[NAME_MAX + 1])
{
    snprintf(name, NAME_MAX + 1, "%.240s.json", layer_name);
}

static int read_figures(const struct sb_images *images, const char *layer_name, struct sb_layer *ret)
{
    SB_JSON json_t *json = NULL;
    SB_FREE char *text = NULL;
    char name[NAME_MAX + 1];
    size_t size;

    figures_name(layer_name, name);
    if (sb_read_file(images->layers, name, 4096, &text, &size) != 0 || sb_json_parse(text, size, "the layer's record", &json, NULL) != 0)
        return -1;
    ret->bytes = sb_json_int(json, "bytes", -1);
    ret->stream_bytes = sb_json_int(json, "stream_bytes", -1);
    ret->source_bytes = sb_json_int(json, "source_bytes", -1);
    ret->skipped = sb_json_int(json, "skipped", -1);
    ret->root_opaque = sb_json_int(json, "opaque", 0) != 0;
    ret->implied = sb_json_int(json, "implied", 0) != 0;
    return ret->bytes < 0 || ret->stream_bytes < 0 || ret->source_bytes < 0 || ret->skipped < 0 ? -1 : 0;
}

static int is_folder(int dir, const char *name)
{
    struct stat st;

    return fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(st.st_mode);
}

static int find(const struct sb_images *images, const char *diff_id, const char *config_digest, struct sb_layer *ret)
{
    char name[NAME_MAX + 1];

    sb_layer_name(images, diff_id, config_digest, name);
    return is_folder(images->layers, name) && read_figures(images, name, ret) == 0;
}

int sb_layer_find(const struct sb_images *images, const char *diff_id, const char *config_digest, size_t index, struct sb_layer *ret)
{
    struct sb_layer layer = { 0 };

    if (index && config_digest && find(images, diff_id, config_digest, &layer))
        layer.own = 1;
    else if (!find(images, diff_id, NULL, &layer) || (index && layer.implied))
        return 0; /* one that was unpacked with nothing below it is not the one that is wanted above others */
    memcpy(layer.diff_id, diff_id, sizeof layer.diff_id);
    *ret = layer;
    return 1;
}

static int random_name(char name[NAME_MAX + 1])
{
    char id[SB_ID_SIZE];
    int r = sb_id_new(id);

    if (!r)
        snprintf(name, NAME_MAX + 1, SB_TEMPORARY_PREFIX "%.32s", id);
    return r;
}

int sb_layer_begin(const struct sb_images *images, char name[NAME_MAX + 1], struct sandbox_error **error)
{
    int r = 0;

    for (int tries = 0; !r && tries < 16; tries++) { /* a sweep may lock and remove it before it is locked here */
        SB_CLOSE int fd = -1;

        r = random_name(name);
        if (!r && mkdirat(images->layers, name, 0700) < 0)
            r = -errno;
        if (!r)
            fd = openat(images->layers, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0 && faccessat(images->layers, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
            return SB_TAKE_FD(fd);
        if (!r && errno != EWOULDBLOCK && errno != ENOENT)
            r = -errno;
    }
    return sb_fail_errno(error, r ? -r : EBUSY, "unpack", "making a folder for the layer");
}

int sb_layer_commit(const struct sb_images *images, const char *temporary, const struct sb_layer *layer, const char *config_digest,
                    struct sandbox_error **error)
{
    SB_JSON json_t *json = json_pack("{s:I, s:I, s:I, s:I, s:i, s:i}", "bytes", (json_int_t)layer->bytes, "stream_bytes",
                                     (json_int_t)layer->stream_bytes, "source_bytes", (json_int_t)layer->source_bytes, "skipped",
                                     (json_int_t)layer->skipped, "opaque", layer->root_opaque, "implied", layer->implied);
    SB_FREE char *text = json ? sb_json_dump(json) : NULL;
    char name[NAME_MAX + 1], figures[NAME_MAX + 1];
    struct sb_layer there = { 0 };
    SB_CLOSE int lock = -1;
    int r;

    if (!text)
        return sb_fail(error, SB_ARGS(SANDBOX_ENOMEM, .retryable = 1), "recording the layer: out of memory");
    lock = sb_images_lock(images, error);
    if (lock < 0)
        return lock;
    sb_layer_name(images, layer->diff_id, layer->own ? config_digest : NULL, name);
    figures_name(name, figures);
    if (is_folder(images->layers, name) && read_figures(images, name, &there) == 0)
        return 0;
    r = sb_write_file(images->layers, figures, text, strlen(text), 1);
    if (!r && renameat2(images->layers, temporary, images->layers, name, RENAME_NOREPLACE) < 0)
        r = errno == EEXIST ? 0 : -errno; /* one without figures, which it has now */
    if (!r && fsync(images->layers) < 0)
        r = -errno;
    return r ? sb_fail_errno(error, -r, "state", "keeping the layer %s", layer->diff_id) : 0;
}

int sb_layer_take_away(const struct sb_images *images, const char *layer_name, char name[NAME_MAX + 1], struct sandbox_error **error)
{
    char figures[NAME_MAX + 1];
    int r = random_name(name);

    if (!r && renameat2(images->layers, layer_name, images->layers, name, RENAME_NOREPLACE) < 0) {
        if (errno == ENOENT)
            return 0;
        r = -errno;
    }
    if (r)
        return sb_fail_errno(error, -r, "remove", "taking the layer %s away", layer_name);
    figures_name(layer_name, figures);
    unlinkat(images->layers, figures, 0);
    return 1;
}

static DIR *list_layers(const struct sb_images *images)
{
    int fd = openat(images->layers, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *stream = fd < 0 ? NULL : fdopendir(fd);

    if (!stream)
        sb_close(fd);
    return stream;
}

/* Removes an entry of layers/ unless somebody else is at it. */
static int remove_now(const struct sb_images *images, const char *name, struct sandbox_error **error)
{
    SB_CLOSE int held = openat(images->layers, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    int exe = -1;

    if (held >= 0 && flock(held, LOCK_EX | LOCK_NB) < 0)
        return 0;
    if (images->map.privilege == SB_PRIVILEGE_SUBIDS) {
        exe = images->unpack_exe(images->data, error);
        if (exe < 0)
            return exe;
    }
    return sb_sweep(&images->map, exe, images->layers, name, -1, error);
}

int sb_layers_sweep(const struct sb_images *images, struct sandbox_error **error)
{
    DIR *stream = list_layers(images);
    struct dirent *d;
    int r = 0;

    if (!stream)
        return sb_fail_errno(error, errno, "state", "listing the layers");
    while ((d = readdir(stream)))
        if (!strncmp(d->d_name, SB_TEMPORARY_PREFIX, strlen(SB_TEMPORARY_PREFIX))) {
            int failed = remove_now(images, d->d_name, r ? NULL : error);

            r = r ? r : failed;
        }
    closedir(stream);
    return r;
}

int sb_layers_have_size(const struct sb_images *images, int64_t size)
{
    DIR *stream = list_layers(images);
    struct dirent *d;
    int found = 0;

    while (stream && !found && (d = readdir(stream))) {
        struct sb_layer layer = { 0 };

        if (d->d_name[0] != '.' && !strstr(d->d_name, ".json") && read_figures(images, d->d_name, &layer) == 0)
            found = layer.stream_bytes == size || layer.source_bytes == size;
    }
    if (stream)
        closedir(stream);
    return found;
}

/* ---- collecting */

/* A layer's name without the id map. */
static void note_key(json_t *used, const struct sb_layer *layer, const char *config_digest)
{
    char key[2 * SB_ID_SIZE];

    snprintf(key, sizeof key, "%s%s%s", layer->diff_id + strlen("sha256:"), layer->own ? "-" : "",
             layer->own ? config_digest + strlen("sha256:") : "");
    json_object_set_new(used, key, json_true());
}

/* All layers' folder names that images name; -1 when a record can't be read, and so nothing may be removed. */
static int note_used(const struct sb_images *images, json_t *used)
{
    SB_FREE char(*digests)[SB_DIGEST_SIZE] = NULL;
    size_t n;

    if (sb_image_records(images, &digests, &n, NULL) < 0)
        return -1;
    for (size_t i = 0; i < n; i++) {
        struct sb_image_record record = { 0 };

        if (sb_image_record_read(images, digests[i], &record, NULL) < 0)
            return -1;
        for (size_t j = 0; j < record.n_layers; j++)
            note_key(used, &record.layers[j], record.config_digest);
        sb_image_record_clear(&record);
    }
    return 0;
}

static int is_used(const json_t *used, const char *layer_name)
{
    char key[2 * SB_ID_SIZE];

    if (strspn(layer_name, "0123456789abcdef") != 64)
        return 1; /* nothing of ours */
    snprintf(key, sizeof key, "%.*s", (int)strcspn(layer_name, "."), layer_name);
    return json_object_get(used, key) != NULL;
}

int sb_layers_hold(const struct sb_images *images, struct sandbox_error **error)
{
    SB_CLOSE int fd = openat(images->images, "layers.lock", O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);

    if (fd < 0 || SB_RETRY(flock(fd, LOCK_SH)) < 0) /* held exclusively for a moment only */
        return sb_fail_errno(error, errno, "state", "locking the layers");
    return SB_TAKE_FD(fd);
}

int sb_layers_left(const struct sb_images *images)
{
    return faccessat(images->images, "layers.collect", F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

/* The mark is set before the lock is tried: an import that keeps us from it sees the mark when it ends. -1: left to it. */
static int claim_layers(const struct sb_images *images)
{
    SB_CLOSE int mark = openat(images->images, "layers.collect", O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    SB_CLOSE int fd = openat(images->images, "layers.lock", O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);

    if (mark < 0 || fd < 0 || flock(fd, LOCK_EX | LOCK_NB) < 0)
        return -1;
    return SB_TAKE_FD(fd);
}

int sb_layers_take_unused(const struct sb_images *images, json_t *taken, struct sb_collected *collected, struct sandbox_error **error)
{
    struct sb_layer layer = { 0 };
    SB_JSON json_t *used = json_object();
    SB_CLOSE int lock = sb_images_lock(images, error);
    SB_CLOSE int claim = -1;
    char name[NAME_MAX + 1];
    struct dirent *d;
    DIR *stream;
    int r = 0;

    if (lock < 0)
        return lock;
    claim = claim_layers(images);
    if (claim < 0)
        return 0;
    unlinkat(images->images, "layers.collect", 0);
    if (note_used(images, used) < 0)
        return 0;
    stream = list_layers(images);
    if (!stream)
        return sb_fail_errno(error, errno, "state", "listing the layers");
    while (!r && (d = readdir(stream))) {
        if (d->d_name[0] == '.' || !is_folder(images->layers, d->d_name) || is_used(used, d->d_name))
            continue;
        layer.bytes = 0;
        read_figures(images, d->d_name, &layer);
        r = sb_layer_take_away(images, d->d_name, name, error);
        if (r == 1 && collected) {
            collected->layers++;
            collected->bytes += layer.bytes > 0 ? layer.bytes : 0;
        }
        if (r == 1)
            r = json_array_append_new(taken, json_string(name)) < 0 ? SANDBOX_ENOMEM : 0;
    }
    closedir(stream);
    return r;
}

int sb_layers_collect(const struct sb_images *images, struct sandbox_error **error)
{
    SB_JSON json_t *taken = json_array();
    int r = sb_layers_take_unused(images, taken, NULL, error);

    for (size_t i = 0; i < json_array_size(taken); i++) { /* without the lock: it may take long */
        int failed = remove_now(images, json_string_value(json_array_get(taken, i)), r ? NULL : error);

        r = r ? r : failed;
    }
    return r;
}
