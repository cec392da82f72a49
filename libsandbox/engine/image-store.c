/* SPDX-License-Identifier: Apache-2.0
 * See image-store.h: records, names and the document that is shown. What is read may have been damaged: every member is
 * checked, and nothing in a record is a path. */
#include "image-store.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include <errors.h>
#include <fs.h>
#include <json.h>
#include <reference.h>

enum { RECORD_MAX = 12 << 20, SCHEMA = 1 };

int sb_images_lock(const struct sb_images *images, struct sandbox_error **error)
{
    SB_CLOSE int fd = openat(images->images, "lock", O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);

    if (fd < 0 || SB_RETRY(flock(fd, LOCK_EX)) < 0)
        return sb_fail_errno(error, errno, "state", "locking the images");
    return SB_TAKE_FD(fd);
}

/* ---- records */

void sb_image_record_clear(struct sb_image_record *record)
{
    free(record->manifest);
    free(record->config);
    free(record->layers);
    *record = (struct sb_image_record){ 0 };
}

static void record_name(const char *digest, char name[80])
{
    snprintf(name, 80, "%s.json", digest + strlen("sha256:"));
}

int sb_image_record_write(const struct sb_images *images, const struct sb_image_record *record, struct sandbox_error **error)
{
    SB_JSON json_t *layers = json_array();
    SB_JSON json_t *json = NULL;
    SB_FREE char *text = NULL;
    char name[80];
    int r = 0;

    for (size_t i = 0; i < record->n_layers; i++) {
        const struct sb_layer *layer = &record->layers[i];

        r |= json_array_append_new(layers, json_pack("{s:s, s:I, s:I, s:i, s:i}", "diff_id", layer->diff_id, "bytes", (json_int_t)layer->bytes,
                                                     "skipped", (json_int_t)layer->skipped, "opaque", layer->root_opaque, "own", layer->own));
    }
    json = json_pack("{s:i, s:s, s:s, s:s, s:s, s:O}", "schema", SCHEMA, "digest", record->digest, "config_digest", record->config_digest,
                     "manifest", record->manifest, "config", record->config, "layers", layers);
    text = r || !json ? NULL : sb_json_dump(json);
    if (!text)
        return sb_fail(error, SB_ARGS(SANDBOX_ENOMEM, .retryable = 1), "recording the image: out of memory");
    record_name(record->digest, name);
    r = sb_write_file(images->images, name, text, strlen(text), 1);
    return r ? sb_fail_errno(error, -r, "state", "recording the image") : 0;
}

static int damaged(struct sandbox_error **error, const char *digest, const char *why)
{
    return sb_fail(error, SB_ARGS(SANDBOX_EDAMAGED, .phase = "state", .hint = "remove it by its digest and import it again"),
                   "the record of image %s %s", digest, why);
}

static int read_layers(const json_t *list, struct sb_image_record *record)
{
    const json_t *entry;
    size_t i;

    if (!json_is_array(list) || json_array_size(list) > SB_OCI_LAYERS_MAX)
        return -1;
    record->layers = calloc(json_array_size(list) + 1, sizeof *record->layers);
    if (!record->layers)
        return -1;
    json_array_foreach(list, i, entry) {
        struct sb_layer *layer = &record->layers[i];
        const char *diff_id = sb_json_str(entry, "diff_id");

        layer->bytes = sb_json_int(entry, "bytes", -1);
        layer->skipped = sb_json_int(entry, "skipped", -1);
        layer->root_opaque = sb_json_int(entry, "opaque", 0) != 0;
        layer->own = sb_json_int(entry, "own", 0) != 0;
        if (!sb_digest_valid(diff_id) || layer->bytes < 0 || layer->skipped < 0)
            return -1;
        memcpy(layer->diff_id, diff_id, sizeof layer->diff_id);
        record->n_layers++;
    }
    return 0;
}

static int parse_record(const json_t *json, const char *digest, struct sb_image_record *record)
{
    const char *config_digest = sb_json_str(json, "config_digest"), *own = sb_json_str(json, "digest");
    const char *manifest = sb_json_str(json, "manifest"), *config = sb_json_str(json, "config");

    if (sb_json_int(json, "schema", 0) != SCHEMA || !own || strcmp(own, digest) || !sb_digest_valid(config_digest) || !manifest || !config)
        return -1;
    memcpy(record->digest, digest, sizeof record->digest);
    memcpy(record->config_digest, config_digest, sizeof record->config_digest);
    record->manifest = strdup(manifest);
    record->config = strdup(config);
    return record->manifest && record->config ? read_layers(json_object_get(json, "layers"), record) : -1;
}

int sb_image_record_read(const struct sb_images *images, const char *digest, struct sb_image_record *ret, struct sandbox_error **error)
{
    struct sb_image_record record = { 0 };
    SB_JSON json_t *json = NULL;
    SB_FREE char *text = NULL;
    char name[80];
    size_t size;
    int r;

    record_name(digest, name);
    r = sb_read_file(images->images, name, RECORD_MAX, &text, &size);
    if (r == -ENOENT)
        return sb_fail(error, SB_ARGS(SANDBOX_ENOTFOUND, .field = "image"), "there is no image %s", digest);
    if (r)
        return sb_fail_errno(error, -r, "state", "reading the record of image %s", digest);
    r = sb_json_parse(text, size, "the image's record", &json, NULL);
    if (r == SANDBOX_ENOMEM)
        return sb_fail(error, SB_ARGS(SANDBOX_ENOMEM, .retryable = 1), "reading the record of image %s: out of memory", digest);
    if (r)
        return damaged(error, digest, "is not JSON");
    if (parse_record(json, digest, &record) < 0) {
        sb_image_record_clear(&record);
        return damaged(error, digest, "lacks something, or is of another version");
    }
    *ret = record;
    return 0;
}

static int by_text(const void *a, const void *b)
{
    return strcmp(a, b);
}

static DIR *list_folder(int dir)
{
    int fd = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *stream = fd < 0 ? NULL : fdopendir(fd);

    if (!stream)
        sb_close(fd);
    return stream;
}

int sb_image_records(const struct sb_images *images, char (**ret_digests)[SB_DIGEST_SIZE], size_t *ret_n, struct sandbox_error **error)
{
    SB_FREE char(*digests)[SB_DIGEST_SIZE] = NULL;
    size_t n = 0, room = 0;
    DIR *stream = list_folder(images->images);
    struct dirent *d;

    if (!stream)
        return sb_fail_errno(error, errno, "state", "listing the images");
    while ((d = readdir(stream))) {
        char hex[SB_ID_SIZE];

        if (strlen(d->d_name) != 69 || strcmp(d->d_name + 64, ".json"))
            continue;
        snprintf(hex, sizeof hex, "%.64s", d->d_name);
        if (!sb_id_valid(hex))
            continue;
        if (n == room) {
            void *more = reallocarray(digests, room ? room * 2 : 16, sizeof *digests);

            if (!more) {
                closedir(stream);
                return sb_fail(error, SB_ARGS(SANDBOX_ENOMEM, .retryable = 1), "listing the images: out of memory");
            }
            digests = more;
            room = room ? room * 2 : 16;
        }
        snprintf(digests[n++], SB_DIGEST_SIZE, "sha256:%s", hex);
    }
    closedir(stream);
    if (n)
        qsort(digests, n, sizeof *digests, by_text);
    *ret_digests = SB_TAKE_PTR(digests);
    *ret_n = n;
    return 0;
}

/* ---- names */

/* The file of a name, or of a reference, whatever way it is written: 0 or -EINVAL. No name has the two signs that stand for others. */
static int file_of(const char *name, char file[SB_REFERENCE_MAX + 1])
{
    struct sb_reference reference;

    if (sb_name_valid(name)) {
        snprintf(file, SB_REFERENCE_MAX + 1, "%s", name);
        return 0;
    }
    if (!sb_reference_is(name) || sb_reference_parse(name, &reference))
        return -EINVAL;
    sb_reference_format(&reference, file);
    for (char *c = file; *c; c++)
        *c = *c == '/' ? '%' : *c == ':' ? '=' : *c;
    return 0;
}

/* The reverse: 0 when it is a file's name that file_of() makes. */
static int name_of(const char *file, char name[SB_REFERENCE_MAX + 1])
{
    char again[SB_REFERENCE_MAX + 1];

    if (strlen(file) > SB_REFERENCE_MAX)
        return -EINVAL;
    snprintf(name, SB_REFERENCE_MAX + 1, "%s", file);
    for (char *c = name; *c; c++)
        *c = *c == '%' ? '/' : *c == '=' ? ':' : *c;
    return file_of(name, again) || strcmp(again, file) ? -EINVAL : 0;
}

static int read_name(const struct sb_images *images, const char *name, char digest[SB_DIGEST_SIZE])
{
    SB_FREE char *text = NULL;
    char file[SB_REFERENCE_MAX + 1];
    int r = file_of(name, file);

    if (r)
        return r;
    r = sb_read_file(images->names, file, 128, &text, NULL);

    if (r)
        return r;
    text[strcspn(text, "\n")] = 0;
    if (!sb_digest_valid(text))
        return -EBADMSG;
    memcpy(digest, text, SB_DIGEST_SIZE);
    return 0;
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(json_string_value(*(json_t *const *)a), json_string_value(*(json_t *const *)b));
}

static json_t *sorted(json_t *names)
{
    size_t n = json_array_size(names);
    json_t **items = calloc(n + 1, sizeof *items), *result = json_array();

    for (size_t i = 0; items && i < n; i++)
        items[i] = json_array_get(names, i);
    if (items && n)
        qsort(items, n, sizeof *items, compare_names);
    for (size_t i = 0; items && i < n; i++)
        json_array_append(result, items[i]);
    free(items);
    return result;
}

int sb_image_names(const struct sb_images *images, const char *digest, json_t **ret_names, struct sandbox_error **error)
{
    SB_JSON json_t *names = json_array();
    DIR *stream = list_folder(images->names);
    struct dirent *d;

    if (!stream)
        return sb_fail_errno(error, errno, "state", "listing the images' names");
    while ((d = readdir(stream))) {
        char holds[SB_DIGEST_SIZE], name[SB_REFERENCE_MAX + 1];

        if (name_of(d->d_name, name) == 0 && read_name(images, name, holds) == 0 && (!digest || !strcmp(holds, digest)))
            json_array_append_new(names, json_string(name));
    }
    closedir(stream);
    *ret_names = sorted(names);
    return 0;
}

int sb_image_name_write(const struct sb_images *images, const char *name, const char *digest, struct sandbox_error **error)
{
    char text[SB_DIGEST_SIZE + 1], file[SB_REFERENCE_MAX + 1];
    int n = snprintf(text, sizeof text, "%s\n", digest);
    int r = file_of(name, file);

    if (!r)
        r = sb_write_file(images->names, file, text, (size_t)n, 1);

    return r ? sb_fail_errno(error, -r, "state", "naming the image '%s'", name) : 0;
}

int sb_image_name_remove(const struct sb_images *images, const char *name, struct sandbox_error **error)
{
    char file[SB_REFERENCE_MAX + 1];

    if (file_of(name, file) == 0 && unlinkat(images->names, file, 0) < 0 && errno != ENOENT)
        return sb_fail_errno(error, errno, "remove", "removing the name '%s'", name);
    return 0;
}

static int find_by_config(const struct sb_images *images, const char *ref, char digest[SB_DIGEST_SIZE], struct sandbox_error **error)
{
    SB_FREE char(*digests)[SB_DIGEST_SIZE] = NULL;
    size_t n;
    int r = sb_image_records(images, &digests, &n, error);

    for (size_t i = 0; !r && i < n; i++) {
        struct sb_image_record record = { 0 };
        int same = sb_image_record_read(images, digests[i], &record, NULL) == 0 && !strcmp(record.config_digest, ref);

        sb_image_record_clear(&record);
        if (same) {
            memcpy(digest, digests[i], SB_DIGEST_SIZE);
            return 0;
        }
    }
    return r ? r : sb_fail(error, SB_ARGS(SANDBOX_ENOTFOUND, .field = "image"), "there is no image %s", ref);
}

int sb_image_find(const struct sb_images *images, const char *ref, char digest[SB_DIGEST_SIZE], struct sandbox_error **error)
{
    char name[80];
    int r;

    if (ref && !strncmp(ref, "sha256:", 7)) {
        if (!sb_digest_valid(ref))
            return sb_fail(error, SB_ARGS(SANDBOX_EINVALID, .field = "image", .hint = "a digest is \"sha256:\" and 64 lowercase hexadecimal digits"),
                           "'%.100s' is not a digest", ref);
        record_name(ref, name);
        if (faccessat(images->images, name, F_OK, AT_SYMLINK_NOFOLLOW) < 0)
            return find_by_config(images, ref, digest, error);
        memcpy(digest, ref, SB_DIGEST_SIZE);
        return 0;
    }
    r = ref ? read_name(images, ref, digest) : -EINVAL;
    if (r == -EINVAL)
        return sb_fail(error, SB_ARGS(SANDBOX_EINVALID, .field = "image"), "'%.100s' is not an image's name", ref ? ref : "");
    if (r == -ENOENT && sb_reference_is(ref)) {
        struct sb_reference reference;

        if (sb_reference_parse(ref, &reference) == 0 && reference.digest[0]) /* what is here has no need of its registry */
            return sb_image_find(images, reference.digest, digest, error);
        return sb_fail(error, SB_ARGS(SANDBOX_ENOTFOUND, .field = "image", .hint = "pull it, or look which ones there are"), "there is no image '%s'", ref);
    }
    if (r == -ENOENT)
        return sb_fail(error, SB_ARGS(SANDBOX_ENOTFOUND, .field = "image", .hint = "import it, or look which ones there are"), "there is no image '%s'", ref);
    if (r == -EBADMSG || r == -EFBIG)
        return sb_fail(error, SB_ARGS(SANDBOX_EDAMAGED, .phase = "state", .hint = "import the image again under this name"),
                       "the name '%s' stands for no digest", ref);
    return r ? sb_fail_errno(error, -r, "state", "reading the name '%s'", ref) : 0;
}

int sb_image_document(const struct sb_images *images, const struct sb_image_record *record, json_t **ret_json, struct sandbox_error **error)
{
    SB_JSON json_t *config = NULL;
    SB_JSON json_t *names = NULL;
    SB_JSON json_t *layers = json_array();
    const char *created;
    json_t *inner;
    int64_t bytes = 0, skipped = 0;
    int r = sb_json_parse(record->config, strlen(record->config), "the image's config", &config, error);

    if (!r)
        r = sb_image_names(images, record->digest, &names, error);
    if (r)
        return r;
    for (size_t i = 0; i < record->n_layers; i++) {
        bytes += record->layers[i].bytes;
        skipped += record->layers[i].skipped;
        json_array_append_new(layers, json_string(record->layers[i].diff_id));
    }
    created = sb_json_str(config, "created");
    inner = json_object_get(config, "config");
    inner = json_is_object(inner) ? json_incref(inner) : json_object();
    *ret_json = json_pack("{s:s, s:s, s:O, s:I, s:I, s:s, s:s, s:O, s:o}", "digest", record->digest, "config_digest", record->config_digest,
                          "names", names, "bytes", (json_int_t)bytes, "skipped", (json_int_t)skipped, "architecture",
                          sb_json_str(config, "architecture") ? sb_json_str(config, "architecture") : "", "created", created ? created : "",
                          "layers", layers, "config", inner);
    return *ret_json ? 0 : sb_fail(error, SB_ARGS(SANDBOX_ENOMEM, .retryable = 1), "describing the image: out of memory");
}
