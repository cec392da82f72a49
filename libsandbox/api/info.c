/* SPDX-License-Identifier: Apache-2.0
 * What a host says of its sandboxes: driver documents (driver.h), checked once, then read by getters. */
#include "handles.h"
#include "options.h"
#include "rules.h"

#include <json.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

struct sandbox_info {
    json_t *document;
    _Atomic(char *) text; /* made when it is first asked for: a list of a thousand is mostly read by getters */
    int state;
};

struct sandbox_list {
    size_t count;
    struct sandbox_info *infos[];
};

/* Older versions of jansson mark what they write, and entries of a list share parts. */
static pthread_mutex_t dumping = PTHREAD_MUTEX_INITIALIZER;

static const char *const states[] = {
    [SANDBOX_STATE_CREATING] = "creating", [SANDBOX_STATE_CREATED] = "created", [SANDBOX_STATE_RUNNING] = "running",
    [SANDBOX_STATE_STOPPED] = "stopped",   [SANDBOX_STATE_FAILED] = "failed",   [SANDBOX_STATE_DAMAGED] = "damaged",
    [SANDBOX_STATE_PAUSED] = "paused",
};

/* Takes the document. The host may be a hostile machine: what the getters rely on is checked here. */
static int info_new(json_t *document, struct sandbox_info **ret_info, struct sandbox_error **error)
{
    const json_t *image = json_object_get(document, "image");
    const char *state = sb_json_str(document, "state");
    struct sandbox_info *info;
    size_t known = 0;

    while (state && known < SB_ELEMENTS(states) && strcmp(states[known], state))
        known++;
    if (!state || known == SB_ELEMENTS(states) || !sb_id_valid(sb_json_str(document, "id")) || !sb_json_str(document, "name") ||
        !sb_json_str(image, "ref") || !sb_json_str(image, "digest") || !json_is_object(json_object_get(document, "labels"))) {
        json_decref(document);
        return sb_fail(error, SB_ARGS(SANDBOX_EPROTOCOL), "the host's answer is not a sandbox's document");
    }
    info = calloc(1, sizeof *info);
    if (!info) {
        json_decref(document);
        return sb_fail_memory(error);
    }
    info->document = document;
    info->state = (int)known;
    *ret_info = info;
    return 0;
}

static int inspect(struct sandbox *sandbox, struct sandbox_info **ret_info, struct sandbox_error **error)
{
    const struct sb_driver_ops *ops;
    json_t *document;
    int r = sb_sandbox_check(sandbox, error);

    if (r)
        return r;
    if (!ret_info)
        return sb_fail_null(error, "ret_info");
    ops = sandbox->host->driver->ops;
    if (!ops->inspect)
        return sb_fail_slot(error, sandbox->host, "inspect", NULL);
    r = ops->inspect(sandbox->host->driver, sandbox->id, &document, error);
    return r ? r : info_new(document, ret_info, error);
}

int sandbox_inspect(struct sandbox *sandbox, struct sandbox_info **ret_info, struct sandbox_error **error)
{
    struct sandbox_error *failure = NULL;

    return sb_leave(inspect(sandbox, ret_info, &failure), &failure, error, "inspect", sandbox ? sandbox->host : NULL);
}

const json_t *sb_info_document(const struct sandbox_info *info)
{
    return info->document;
}

struct sandbox_info *sandbox_info_unref(struct sandbox_info *info)
{
    if (info) {
        json_decref(info->document);
        free(atomic_load(&info->text));
        free(info);
    }
    return NULL;
}

const char *sandbox_info_get_id(const struct sandbox_info *info)
{
    return info ? sb_json_str(info->document, "id") : "";
}

const char *sandbox_info_get_name(const struct sandbox_info *info)
{
    return info ? sb_json_str(info->document, "name") : "";
}

int sandbox_info_get_state(const struct sandbox_info *info)
{
    return info ? info->state : SANDBOX_EINVALID;
}

const char *sandbox_info_get_image(const struct sandbox_info *info)
{
    return info ? sb_json_str(json_object_get(info->document, "image"), "ref") : "";
}

const char *sandbox_info_get_image_digest(const struct sandbox_info *info)
{
    return info ? sb_json_str(json_object_get(info->document, "image"), "digest") : "";
}

int64_t sandbox_info_get_created_ms(const struct sandbox_info *info)
{
    return info ? sb_json_int(info->document, "created_ms", 0) : 0;
}

const char *sandbox_info_get_label(const struct sandbox_info *info, const char *key)
{
    return info && key ? sb_json_str(json_object_get(info->document, "labels"), key) : NULL;
}

const char *sandbox_info_get_json(const struct sandbox_info *info)
{
    struct sandbox_info *filled = (struct sandbox_info *)info; /* what a caller may read is the same before and after */
    char *text, *none = NULL;

    if (!info)
        return "";
    text = atomic_load(&filled->text);
    if (text)
        return text;
    pthread_mutex_lock(&dumping);
    text = sb_json_dump(info->document);
    pthread_mutex_unlock(&dumping);
    if (text && !atomic_compare_exchange_strong(&filled->text, &none, text)) {
        free(text);
        text = none;
    }
    return text ? text : "";
}

static int check_list_options(const struct sandbox_list_options *options, struct sandbox_error **error)
{
    if (options->name_prefix && strnlen(options->name_prefix, SANDBOX_NAME_MAX + 1) > SANDBOX_NAME_MAX)
        return sb_fail(error, SB_ARGS(SANDBOX_EINVALID, .field = "name_prefix"), "name_prefix is longer than %d bytes",
                       SANDBOX_NAME_MAX);
    if (options->label_value && !options->label_key)
        return sb_fail(error, SB_ARGS(SANDBOX_EINVALID, .field = "label_key"), "label_value is set, and label_key is not");
    if (options->label_key && sb_check_label(options->label_key, options->label_value ? options->label_value : "", error)) {
        sb_error_set_hint(error, "label_key and label_value have the bounds of labels");
        return SANDBOX_EINVALID;
    }
    return 0;
}

static int list(struct sandbox_host *host, const struct sandbox_list_options *options, struct sandbox_list **ret_list,
                struct sandbox_error **error)
{
    struct sandbox_list_options known = SANDBOX_LIST_OPTIONS_INIT;
    struct sandbox_list *all;
    json_t *documents;
    size_t n;
    int r = sb_host_check(host, error);

    if (!r)
        r = sb_options_read(&known, sizeof known, SB_SIZE_TO(struct sandbox_list_options, label_value), options, error);
    if (!r)
        r = check_list_options(&known, error);
    if (r)
        return r;
    if (!ret_list)
        return sb_fail_null(error, "ret_list");
    if (!host->driver->ops->list)
        return sb_fail_slot(error, host, "list", NULL);
    r = host->driver->ops->list(host->driver, &known, &documents, error);
    if (r)
        return r;
    n = json_array_size(documents);
    all = calloc(1, sizeof *all + n * sizeof *all->infos);
    if (!all)
        r = sb_fail_memory(error);
    for (size_t i = 0; !r && i < n; i++) {
        r = info_new(json_incref(json_array_get(documents, i)), &all->infos[i], error);
        if (!r)
            all->count++;
    }
    json_decref(documents);
    if (r)
        sandbox_list_unref(all);
    else
        *ret_list = all;
    return r;
}

int sandbox_host_list(struct sandbox_host *host, const struct sandbox_list_options *options, struct sandbox_list **ret_list,
                      struct sandbox_error **error)
{
    struct sandbox_error *failure = NULL;

    return sb_leave(list(host, options, ret_list, &failure), &failure, error, "list", host);
}

size_t sandbox_list_get_count(const struct sandbox_list *list)
{
    return list ? list->count : 0;
}

const struct sandbox_info *sandbox_list_get(const struct sandbox_list *list, size_t index)
{
    return list && index < list->count ? list->infos[index] : NULL;
}

struct sandbox_list *sandbox_list_unref(struct sandbox_list *list)
{
    for (size_t i = 0; list && i < list->count; i++)
        sandbox_info_unref(list->infos[i]);
    free(list);
    return NULL;
}
