/* SPDX-License-Identifier: Apache-2.0
 * Images: import, open, list, remove. */
#include "handles.h"
#include "options.h"
#include "rules.h"

#include <json.h>
#include <limits.h>
#include <string.h>

struct sandbox_image {
    json_t *document;
    char *text;
};

struct sandbox_image_list {
    size_t count;
    struct sandbox_image *images[];
};

int sb_image_new(json_t *document, struct sandbox_image **ret_image, struct sandbox_error **error)
{
    const json_t *names = json_object_get(document, "names");
    struct sandbox_image *image;
    int valid = sb_json_str(document, "digest") && sb_json_str(document, "config_digest") && json_is_array(names);

    for (size_t i = 0; valid && i < json_array_size(names); i++)
        valid = json_is_string(json_array_get(names, i));
    if (!valid) {
        json_decref(document);
        return sb_fail(error, SB_ARGS(SANDBOX_EPROTOCOL), "the host's answer is not an image's document");
    }
    image = calloc(1, sizeof *image);
    if (!image || !(image->text = sb_json_dump(document))) {
        free(image);
        json_decref(document);
        return sb_fail_memory(error);
    }
    image->document = document;
    *ret_image = image;
    return 0;
}

static int check_text(const char *text, size_t max, const char *field, struct sandbox_error **error)
{
    size_t n = strnlen(text, max + 1);

    if (n && n <= max)
        return 0;
    return sb_fail(error, SB_ARGS(SANDBOX_EINVALID, .field = field), "%s is empty or longer than %zu bytes", field, max);
}

static int check_import(const char *source, const struct sandbox_image_import_options *options, struct sandbox_error **error)
{
    int r = source ? check_text(source, PATH_MAX - 1, "source", error) : sb_fail_null(error, "source");

    if (!r && options->name)
        r = sb_check_name(options->name, "name", error);
    if (!r && options->name && !strcmp(options->name, "host"))
        r = sb_fail(error, SB_ARGS(SANDBOX_EINVALID, .field = "name", .hint = "choose another name"),
                    "\"host\" is the name of this machine's own files");
    if (!r && (options->format < SANDBOX_IMAGE_FORMAT_AUTO || options->format > SANDBOX_IMAGE_FORMAT_DOCKER_ARCHIVE))
        r = sb_fail(error, SB_ARGS(SANDBOX_EINVALID, .field = "format"), "format is not a sandbox_image_format");
    if (!r && options->digest && !sb_digest_valid(options->digest))
        r = sb_fail(error, SB_ARGS(SANDBOX_EINVALID, .field = "digest"),
                    "digest is not \"sha256:\" and 64 lowercase hexadecimal digits");
    if (!r && options->select)
        r = check_text(options->select, 1024, "select", error);
    if (!r)
        r = sb_check_limit(options->max_bytes, 1, INT64_MAX, "max_bytes", error);
    if (!r)
        r = sb_check_limit(options->max_entries, 1, INT64_MAX, "max_entries", error);
    return r;
}

static int import_begin(struct sandbox_host *host, const char *source, const struct sandbox_image_import_options *options,
                        struct sandbox_op **ret_op, struct sandbox_error **error)
{
    struct sandbox_image_import_options known = SANDBOX_IMAGE_IMPORT_OPTIONS_INIT;
    struct sb_op *op;
    int r = sb_host_check(host, error);

    if (!r)
        r = sb_options_read(&known, sizeof known, SB_SIZE_TO(struct sandbox_image_import_options, max_entries), options, error);
    if (!r)
        r = check_import(source, &known, error);
    if (r)
        return r;
    if (!ret_op)
        return sb_fail_null(error, "ret_op");
    if (!host->driver->ops->image_import)
        return sb_fail_slot(error, host, "image import", NULL);
    r = host->driver->ops->image_import(host->driver, source, &known, &op, error);
    return r ? r : sb_op_new(op, host, NULL, "import", host->driver->ops->name, ret_op, error);
}

int sandbox_image_import_begin(struct sandbox_host *host, const char *source, const struct sandbox_image_import_options *options,
                               struct sandbox_op **ret_op, struct sandbox_error **error)
{
    struct sandbox_error *failure = NULL;

    return sb_leave(import_begin(host, source, options, ret_op, &failure), &failure, error, "import", host);
}

int sandbox_image_import(struct sandbox_host *host, const char *source, const struct sandbox_image_import_options *options,
                         int64_t timeout_ms, struct sandbox_image **ret_image, struct sandbox_error **error)
{
    struct sandbox_error *failure = NULL;
    struct sandbox_op *op = NULL;
    int r = ret_image ? sb_check_timeout(timeout_ms, "timeout_ms", &failure) : sb_fail_null(&failure, "ret_image");

    if (!r)
        r = import_begin(host, source, options, &op, &failure);
    if (!r)
        r = sb_op_run(op, timeout_ms, &failure);
    if (!r)
        r = sandbox_op_take_image(op, ret_image, &failure);
    sandbox_op_unref(op);
    return sb_leave(r, &failure, error, "import", host);
}

static int image_open(struct sandbox_host *host, const char *name, struct sandbox_image **ret_image, struct sandbox_error **error)
{
    json_t *document;
    int r = sb_host_check(host, error);

    if (!r)
        r = sb_check_image(name, "name", error);
    if (r)
        return r;
    if (!ret_image)
        return sb_fail_null(error, "ret_image");
    if (!host->driver->ops->image_inspect)
        return sb_fail_slot(error, host, "image open", NULL);
    r = host->driver->ops->image_inspect(host->driver, name, &document, error);
    return r ? r : sb_image_new(document, ret_image, error);
}

int sandbox_image_open(struct sandbox_host *host, const char *name, struct sandbox_image **ret_image, struct sandbox_error **error)
{
    struct sandbox_error *failure = NULL;

    return sb_leave(image_open(host, name, ret_image, &failure), &failure, error, "image open", host);
}

struct sandbox_image *sandbox_image_unref(struct sandbox_image *image)
{
    if (image) {
        json_decref(image->document);
        free(image->text);
        free(image);
    }
    return NULL;
}

const char *sandbox_image_get_digest(const struct sandbox_image *image)
{
    return image ? sb_json_str(image->document, "digest") : "";
}

const char *sandbox_image_get_config_digest(const struct sandbox_image *image)
{
    return image ? sb_json_str(image->document, "config_digest") : "";
}

const char *sandbox_image_get_name(const struct sandbox_image *image)
{
    const char *name = image ? json_string_value(json_array_get(json_object_get(image->document, "names"), 0)) : NULL;

    return name ? name : "";
}

int64_t sandbox_image_get_bytes(const struct sandbox_image *image)
{
    return image ? sb_json_int(image->document, "bytes", 0) : 0;
}

const char *sandbox_image_get_json(const struct sandbox_image *image)
{
    return image ? image->text : "";
}

static int list_images(struct sandbox_host *host, struct sandbox_image_list **ret_list, struct sandbox_error **error)
{
    struct sandbox_image_list *all;
    json_t *documents;
    size_t n;
    int r = sb_host_check(host, error);

    if (r)
        return r;
    if (!ret_list)
        return sb_fail_null(error, "ret_list");
    if (!host->driver->ops->image_list)
        return sb_fail_slot(error, host, "image list", NULL);
    r = host->driver->ops->image_list(host->driver, &documents, error);
    if (r)
        return r;
    n = json_array_size(documents);
    all = calloc(1, sizeof *all + n * sizeof *all->images);
    if (!all)
        r = sb_fail_memory(error);
    for (size_t i = 0; !r && i < n; i++) {
        r = sb_image_new(json_incref(json_array_get(documents, i)), &all->images[i], error);
        if (!r)
            all->count++;
    }
    json_decref(documents);
    if (r)
        sandbox_image_list_unref(all);
    else
        *ret_list = all;
    return r;
}

int sandbox_host_list_images(struct sandbox_host *host, struct sandbox_image_list **ret_list, struct sandbox_error **error)
{
    struct sandbox_error *failure = NULL;

    return sb_leave(list_images(host, ret_list, &failure), &failure, error, "image list", host);
}

size_t sandbox_image_list_get_count(const struct sandbox_image_list *list)
{
    return list ? list->count : 0;
}

const struct sandbox_image *sandbox_image_list_get(const struct sandbox_image_list *list, size_t index)
{
    return list && index < list->count ? list->images[index] : NULL;
}

struct sandbox_image_list *sandbox_image_list_unref(struct sandbox_image_list *list)
{
    for (size_t i = 0; list && i < list->count; i++)
        sandbox_image_unref(list->images[i]);
    free(list);
    return NULL;
}

static int image_remove(struct sandbox_host *host, const char *name, struct sandbox_error **error)
{
    int r = sb_host_check(host, error);

    if (!r)
        r = sb_check_image(name, "name", error);
    if (r)
        return r;
    if (!strcmp(name, "host"))
        return sb_fail(error, SB_ARGS(SANDBOX_EINVALID, .field = "name"), "image \"host\" is this machine's own files");
    if (!host->driver->ops->image_remove)
        return sb_fail_slot(error, host, "image remove", NULL);
    return host->driver->ops->image_remove(host->driver, name, error);
}

int sandbox_image_remove(struct sandbox_host *host, const char *name, struct sandbox_error **error)
{
    struct sandbox_error *failure = NULL;

    return sb_leave(image_remove(host, name, &failure), &failure, error, "image remove", host);
}
