/* SPDX-License-Identifier: Apache-2.0
 * See image-pull.h. The pull helper is believed nothing: each document and layer that it brought is hashed by the unpack helper before it
 * is parsed, against the digest that named it. A tag alone names nothing that could be checked: there the registry is believed. */
#include "image-pull.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <errors.h>
#include <fs.h>
#include <json.h>

enum { DOCUMENT_MAX = 4 << 20, PARALLEL = 4, BUSY_MS = 50, BUSY_STALLED_MS = 10000 };

static int no_memory(struct sandbox_error **error)
{
    return sb_fail(error, SB_ARGS(SANDBOX_ENOMEM, .retryable = 1), "pulling the image: out of memory");
}

/* ---- documents */

int sb_pull_fetch(struct sb_import *import, enum import_state then, const struct sb_oci_descriptor *blob, struct sandbox_error **error)
{
    struct sb_image_pull *pull = import->pull;
    enum sb_pull_kind kind = then == IMPORT_CONFIG ? SB_PULL_BLOB : SB_PULL_MANIFEST;

    pull->document = sb_close(pull->document);
    pull->document = memfd_create("document", MFD_CLOEXEC);
    if (pull->document < 0)
        return sb_fail_errno(error, errno, "pull", "making room for a document");
    if (blob->size > DOCUMENT_MAX)
        return sb_fail(error, SB_ARGS(SANDBOX_ELIMIT, .phase = "manifest"), "the image's document %s has %lld bytes, and %d are the most", blob->digest,
                       (long long)blob->size, DOCUMENT_MAX);
    pull->wanted = *blob;
    pull->then = then;
    import->state = IMPORT_FETCH;
    return sb_puller_ask(&pull->puller, kind, blob->digest, pull->reference.tag, blob->size, DOCUMENT_MAX, pull->document, &pull->item, error);
}

static int found_document(struct sb_import *import, struct sandbox_error **error)
{
    struct sb_image_pull *pull = import->pull;
    const char *digest = pull->wanted.digest[0] ? pull->wanted.digest : NULL;
    struct stat st;

    if (fstat(pull->document, &st) < 0)
        return sb_fail_errno(error, errno, "pull", "examining a document");
    if (st.st_size > DOCUMENT_MAX || (pull->wanted.size >= 0 && st.st_size != pull->wanted.size))
        return sb_fail(error, SB_ARGS(SANDBOX_EDIGEST, .phase = "pull"), "the document %s has %lld bytes, and its descriptor promises %lld",
                       pull->wanted.digest, (long long)st.st_size, (long long)pull->wanted.size);
    return sb_import_run(import, pull->then, SB_UNPACK_DOCUMENT, &(struct sb_window){ pull->document, 0, st.st_size }, digest, error);
}

static int ask_for_name(struct sb_import *import, struct sandbox_error **error)
{
    struct sb_oci_descriptor named = { .size = -1 };

    memcpy(named.digest, import->pull->reference.digest, sizeof import->pull->reference.digest);
    return sb_pull_fetch(import, IMPORT_NAMED, &named, error);
}

/* ---- layers */

/* The first one with this digest: it has the file. */
static struct sb_pull_layer *layer_of(const struct sb_import *import, size_t index)
{
    for (size_t i = 0; i < index; i++)
        if (!strcmp(import->manifest.layers[i].digest, import->manifest.layers[index].digest))
            return &import->pull->layers[i];
    return &import->pull->layers[index];
}

static int set_timer(struct sb_image_pull *pull, int on)
{
    struct itimerspec spec = { .it_value.tv_nsec = on ? BUSY_MS * 1000000 : 0, .it_interval.tv_nsec = on ? BUSY_MS * 1000000 : 0 };

    return timerfd_settime(pull->timer, 0, &spec, NULL) < 0 ? -errno : 0;
}

/* Another pull has the blob. One that goes on is waited for; one that is stuck isn't. */
static int is_stuck(struct sb_import *import, struct sb_pull_layer *layer, const char *digest)
{
    SB_CLOSE int folder = sb_open_beneath(import->images->root, "downloads", O_RDONLY | O_DIRECTORY, 0);
    struct stat st = { 0 };
    int64_t now = sb_now_ms();

    if (folder < 0 || fstatat(folder, digest + strlen("sha256:"), &st, AT_SYMLINK_NOFOLLOW) < 0 || st.st_size != layer->seen_size || !layer->seen_ms) {
        layer->seen_size = st.st_size;
        layer->seen_ms = now;
    }
    return now - layer->seen_ms > BUSY_STALLED_MS;
}

static int ask_for_layer(struct sb_import *import, size_t index, struct sandbox_error **error)
{
    const struct sb_oci_descriptor *blob = &import->manifest.layers[index];
    struct sb_pull_layer *layer = layer_of(import, index);
    int r;

    if (layer->state == SB_LAYER_ASKED)
        return 0;
    r = sb_blob_open(import->images, blob->digest, &layer->fd, error);
    if (r == 0) {
        if (is_stuck(import, layer, blob->digest)) {
            r = sb_blob_open_own(import->images, &layer->fd, error);
            layer->own = 1;
        } else {
            layer->state = SB_LAYER_BUSY;
            r = set_timer(import->pull, 1);
            return r ? sb_fail_errno(error, -r, "pull", "setting a timer") : 0;
        }
    }
    if (r < 0)
        return r;
    layer->state = SB_LAYER_ASKED;
    return sb_puller_ask(&import->pull->puller, SB_PULL_BLOB, blob->digest, "", blob->size, blob->size, layer->fd, &layer->item, error);
}

static int is_unpacked(const struct sb_import *import, size_t index)
{
    struct sb_layer layer;

    return sb_layer_find(import->images, import->config.diff_ids[index], import->record.config_digest, index, &layer);
}

/* All that isn't here, lowest first. */
static int ask_for_layers(struct sb_import *import, struct sandbox_error **error)
{
    struct sb_image_pull *pull = import->pull;
    size_t n = import->manifest.n_layers;
    int r = 0;

    pull->layers = calloc(n + 1, sizeof *pull->layers);
    if (!pull->layers)
        return no_memory(error);
    for (size_t i = 0; i < n; i++)
        pull->layers[i].fd = -1;
    for (size_t i = 0; i < n; i++) {
        if (import->manifest.layers[i].size > import->max_bytes - pull->total)
            return sb_fail(error, SB_ARGS(SANDBOX_ELIMIT, .phase = "pull", .hint = "raise max_bytes if the image is meant to be that large"),
                           "the image's layers have more than %lld bytes", (long long)import->max_bytes);
        if (layer_of(import, i) == &pull->layers[i])
            pull->total += import->manifest.layers[i].size;
    }
    pull->total = 0;
    for (size_t i = import->layer; !r && i < n; i++) {
        if (is_unpacked(import, i))
            continue;
        if (layer_of(import, i) == &pull->layers[i])
            pull->total += import->manifest.layers[i].size;
        r = ask_for_layer(import, i, error);
    }
    return r;
}

int sb_pull_open_layer(struct sb_import *import, struct sb_window *ret, struct sandbox_error **error)
{
    const struct sb_oci_descriptor *blob = &import->manifest.layers[import->layer];
    struct sb_image_pull *pull = import->pull;
    struct sb_pull_layer *layer;
    struct stat st;
    int r = pull->layers ? ask_for_layer(import, import->layer, error) : ask_for_layers(import, error);

    if (r)
        return r;
    layer = layer_of(import, import->layer);
    import->state = IMPORT_WAIT;
    if (layer->state != SB_LAYER_ASKED || !pull->puller.items[layer->item].done)
        return 1;
    if (fstat(layer->fd, &st) < 0)
        return sb_fail_errno(error, errno, "pull", "examining a blob");
    if (st.st_size != blob->size)
        return sb_fail(error, SB_ARGS(SANDBOX_EDIGEST, .phase = "pull"), "the blob %s has %lld bytes, and its descriptor promises %lld", blob->digest,
                       (long long)st.st_size, (long long)blob->size);
    ret->fd = fcntl(layer->fd, F_DUPFD_CLOEXEC, 0);
    if (ret->fd < 0)
        return sb_fail_errno(error, errno, "pull", "opening a blob");
    ret->offset = 0;
    ret->length = st.st_size;
    return 0;
}

static void drop(struct sb_import *import, size_t index, int remove)
{
    struct sb_pull_layer *layer = &import->pull->layers[index];

    if (layer->fd >= 0 && remove && !layer->own)
        sb_blob_remove(import->images, import->manifest.layers[index].digest, layer->fd);
    layer->fd = sb_close(layer->fd);
    layer->state = SB_LAYER_UNWANTED;
}

void sb_pull_drop_layer(struct sb_import *import)
{
    const char *digest;

    if (!import->pull || import->layer >= import->manifest.n_layers)
        return;
    digest = import->manifest.layers[import->layer].digest;
    for (size_t i = import->layer + 1; i < import->manifest.n_layers; i++)
        if (!strcmp(import->manifest.layers[i].digest, digest) && !is_unpacked(import, i))
            return; /* it is wanted once more, above others */
    for (size_t i = 0; i <= import->layer; i++)
        if (import->pull->layers && !strcmp(import->manifest.layers[i].digest, digest))
            drop(import, i, 1);
}

/* ---- what is here */

static int has_layers(const struct sb_import *import, const struct sb_image_record *record)
{
    struct sb_layer layer;

    for (size_t i = 0; i < record->n_layers; i++)
        if (!sb_layer_find(import->images, record->layers[i].diff_id, record->config_digest, i, &layer))
            return 0;
    return 1;
}

int sb_pull_is_here(struct sb_import *import)
{
    struct sb_image_record there = { 0 };

    if (sb_image_record_read(import->images, import->record.digest, &there, NULL) || !has_layers(import, &there) ||
        (import->digest[0] && strcmp(import->digest, there.digest) && strcmp(import->digest, there.config_digest))) {
        sb_image_record_clear(&there);
        return 0;
    }
    sb_image_record_clear(&import->record);
    import->record = there;
    return 1;
}

int sb_pull_name(struct sb_import *import, struct sandbox_error **error)
{
    char text[SB_REFERENCE_MAX + 1];
    int is_manifest = !strcmp(import->pull->reference.digest, import->record.digest);

    if (is_manifest) /* its digest is its name */
        return 0;
    sb_reference_format(&import->pull->reference, text);
    return sb_image_name_write(import->images, text, import->record.digest, error);
}

/* ---- on the way */

int sb_pull_is_waiting(const struct sb_import *import)
{
    return import->state == IMPORT_FOUND || import->state == IMPORT_CREDENTIALS || import->state == IMPORT_FETCH || import->state == IMPORT_WAIT;
}

static int start(struct sb_import *import, struct sandbox_error **error)
{
    struct sb_image_pull *pull = import->pull;
    const struct sb_credentials *found = &pull->search.found;
    int program = import->images->pull_exe ? import->images->pull_exe(import->images->data, error)
                                           : sb_fail(error, SB_ARGS(SANDBOX_EUNSUPPORTED), "this host can't pull images");
    int r;

    if (program < 0)
        return program;
    if (found->kind) {
        static const enum sb_pull_auth auths[] = {
            [SB_CREDENTIALS_PASSWORD] = SB_PULL_AUTH_PASSWORD, [SB_CREDENTIALS_IDENTITY] = SB_PULL_AUTH_IDENTITY,
            [SB_CREDENTIALS_BEARER] = SB_PULL_AUTH_BEARER,
        };

        pull->plan.auth = auths[found->kind];
        if (strlen(found->user) >= sizeof pull->plan.user || strlen(found->secret) >= sizeof pull->plan.secret)
            return sb_fail(error, SB_ARGS(SANDBOX_ELIMIT, .field = "password", .phase = "credentials"), "a user name or secret is too long");
        memcpy(pull->plan.user, found->user, strlen(found->user) + 1);
        memcpy(pull->plan.secret, found->secret, strlen(found->secret) + 1);
    }
    r = sb_puller_start(&pull->puller, program, import->op.fd, &pull->plan, pull->ca, error);
    explicit_bzero(pull->plan.secret, sizeof pull->plan.secret);
    sb_credential_search_clear(&pull->search);
    return r ? r : ask_for_name(import, error);
}

int sb_pull_step(struct sb_import *import, struct sandbox_error **error)
{
    uint64_t ticks;

    if (import->pull->timer >= 0 && read(import->pull->timer, &ticks, sizeof ticks) < 0 && errno != EAGAIN)
        return sb_fail_errno(error, errno, "pull", "reading a timer");
    return import->pull->puller.socket >= 0 ? sb_puller_step(&import->pull->puller, error) : 0;
}

/* Layers that another pull was at. */
static int ask_again(struct sb_import *import, struct sandbox_error **error)
{
    struct sb_image_pull *pull = import->pull;
    int busy = 0, r = 0;

    for (size_t i = import->layer; !r && i < import->manifest.n_layers; i++) {
        if (pull->layers[i].state != SB_LAYER_BUSY)
            continue;
        if (is_unpacked(import, i))
            pull->layers[i].state = SB_LAYER_UNWANTED;
        else
            r = ask_for_layer(import, i, error);
        busy |= pull->layers[i].state == SB_LAYER_BUSY;
    }
    if (!r && !busy)
        set_timer(pull, 0);
    return r;
}

int sb_pull_advance(struct sb_import *import, struct sandbox_error **error)
{
    struct sb_image_pull *pull = import->pull;
    int r;

    switch (import->state) {
    case IMPORT_FOUND:
        return sb_import_commit(import, error);
    case IMPORT_CREDENTIALS:
        r = sb_credentials_step(&pull->search, error);
        return r ? r < 0 ? r : 0 : start(import, error);
    case IMPORT_FETCH:
        return pull->puller.items[pull->item].done ? found_document(import, error) : 0;
    default:
        r = pull->layers ? ask_again(import, error) : 0;
        return r ? r : sb_import_next_layer(import, error);
    }
}

int sb_pull_show_progress(struct sb_import *import)
{
    struct sb_image_pull *pull = import->pull;
    int64_t done = 0;
    int waits = 0;

    for (size_t i = 0; pull->layers && i < import->manifest.n_layers; i++) {
        const struct sb_pull_layer *layer = &pull->layers[i];
        const struct sb_pull_item *item = layer->state == SB_LAYER_ASKED ? &pull->puller.items[layer->item] : NULL;

        done += item ? item->size : 0;
        waits |= layer->state == SB_LAYER_BUSY || (item && !item->done);
        done += layer->state == SB_LAYER_UNWANTED && i < import->layer && layer->item ? import->manifest.layers[i].size : 0;
    }
    if (!waits && !sb_pull_is_waiting(import))
        return 0;
    import->op.progress.unit = SANDBOX_UNIT_BYTES;
    import->op.progress.done = done;
    import->op.progress.total = pull->layers ? pull->total : -1;
    snprintf(import->op.progress.phase, sizeof import->op.progress.phase, "%s", import->state == IMPORT_CREDENTIALS ? "credentials" : "pull");
    return 1;
}

/* ---- the end */

void sb_pull_end(struct sb_import *import)
{
    sb_puller_stop(&import->pull->puller);
    sb_credential_search_clear(&import->pull->search);
}

int sb_pull_alive(struct sb_import *import)
{
    return import->pull && sb_puller_alive(&import->pull->puller);
}

void sb_pull_free(struct sb_import *import)
{
    struct sb_image_pull *pull = import->pull;

    if (!pull)
        return;
    for (size_t i = 0; pull->layers && i < import->manifest.n_layers; i++) /* on a full disk what is half there is in the way */
        drop(import, i, import->result == 0 || import->result == SANDBOX_ENOSPACE || import->result == SANDBOX_EDIGEST);
    sb_puller_clear(&pull->puller);
    sb_credential_search_clear(&pull->search);
    explicit_bzero(&pull->plan, sizeof pull->plan);
    sb_close(pull->ca);
    sb_close(pull->timer);
    sb_close(pull->document);
    free(pull->layers);
    free(pull);
    import->pull = NULL;
}

/* ---- the beginning */

static int take_plan(struct sb_import *import, const struct sandbox_image_pull_options *options, struct sandbox_error **error)
{
    const struct sb_idmap *map = &import->images->map;
    struct sb_image_pull *pull = import->pull;
    struct sb_pull_plan *plan = &pull->plan;

    snprintf(plan->host, sizeof plan->host, "%s", pull->reference.host);
    snprintf(plan->repository, sizeof plan->repository, "%s", pull->reference.repository);
    snprintf(plan->proxy, sizeof plan->proxy, "%s", options->proxy ? options->proxy : "");
    snprintf(plan->no_proxy, sizeof plan->no_proxy, "%s", options->no_proxy ? options->no_proxy : "");
    plan->parallel = options->parallel ? (uint32_t)options->parallel : PARALLEL;
    plan->flags = (options->flags & SANDBOX_PULL_PLAIN_HTTP ? SB_PULL_PLAIN : 0) |
                  (sb_reference_is_loopback(pull->reference.host) ? SB_PULL_LOOPBACK : 0);
    if (map->privilege == SB_PRIVILEGE_ROOT) { /* nobody: of the range that unpacking has, another one */
        plan->become = 1;
        plan->uid = map->uid_start + 1;
        plan->gid = map->gid_start + 1;
    }
    if (!options->ca_file)
        return 0;
    plan->flags |= SB_PULL_CA;
    pull->ca = open(options->ca_file, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (pull->ca < 0) {
        int r = sb_fail_errno(error, errno, "pull", "opening the file of certificates '%s'", options->ca_file);

        sb_error_set_field(error, "ca_file");
        return r;
    }
    return 0;
}

/* What needs no registry: what is pinned and here, or here and good enough. */
static int find(struct sb_import *import, const struct sandbox_image_pull_options *options, const char *name)
{
    char digest[SB_DIGEST_SIZE];

    if (!import->pull->reference.digest[0] && options->policy != SANDBOX_PULL_MISSING)
        return 0;
    if (sb_image_find(import->images, name, digest, NULL))
        return 0;
    memcpy(import->record.digest, digest, SB_DIGEST_SIZE);
    return sb_pull_is_here(import);
}

static int begin(struct sb_import *import, const char *name, const struct sandbox_image_pull_options *options, struct sandbox_error **error)
{
    struct sb_image_pull *pull = import->pull;
    struct epoll_event event = { .events = EPOLLIN };
    int r;

    if (sb_reference_parse(name, &pull->reference))
        return sb_fail(error, SB_ARGS(SANDBOX_EINVALID, .field = "reference", .hint = "as HOST[:PORT]/PATH[:TAG][@sha256:DIGEST]"),
                       "'%.255s' is no name of an image in a registry", name);
    import->kind = IMPORT_OCI;
    pull->timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    if (pull->timer < 0 || epoll_ctl(import->op.fd, EPOLL_CTL_ADD, pull->timer, &event) < 0)
        return sb_fail_errno(error, errno, "pull", "making a timer");
    if (find(import, options, name)) {
        import->state = IMPORT_FOUND;
        return 0;
    }
    r = take_plan(import, options, error);
    if (!r)
        r = sb_credentials_begin(&pull->search, import->op.fd, &pull->reference, options, error);
    if (r > 0)
        import->state = IMPORT_CREDENTIALS;
    return r ? r > 0 ? 0 : r : start(import, error);
}

int sb_image_pull(struct sb_images *images, const char *name, const struct sandbox_image_pull_options *options, struct sb_op **ret_op,
                  struct sandbox_error **error)
{
    struct sb_import *import;
    int r = sb_import_new(images, &import, error);

    if (r)
        return r;
    import->pull = calloc(1, sizeof *import->pull);
    if (import->pull) {
        import->pull->puller = (struct sb_puller)SB_PULLER_INIT;
        import->pull->search = (struct sb_credential_search)SB_CREDENTIAL_SEARCH_INIT;
        import->pull->ca = import->pull->timer = import->pull->document = -1;
    }
    r = import->pull ? sb_import_take_options(import, options->name, options->digest, options->max_bytes, options->max_entries, error) : no_memory(error);
    if (!r)
        r = sb_import_hold(import, error);
    if (!r)
        r = begin(import, name, options, error);
    if (r) {
        sb_import_abandon(import);
        return r;
    }
    *ret_op = &import->op;
    return 0;
}
