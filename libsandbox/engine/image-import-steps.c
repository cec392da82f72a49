/* SPDX-License-Identifier: Apache-2.0
 * What follows in an import when a job has succeeded: from the table of contents over the documents to the layers. */
#include "image-import.h"
#include "image-pull.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <errors.h>
#include <json.h>

enum { INDEX_DEPTH_MAX = 4 };

static int no_memory(struct sandbox_error **error)
{
    return sb_fail(error, SB_ARGS(SANDBOX_ENOMEM, .retryable = 1), "importing the image: out of memory");
}

static int parse(struct sb_import *import, const char *what, json_t **ret_json, struct sandbox_error **error)
{
    return sb_json_parse(import->helper.document ? import->helper.document : "", import->helper.document_size, what, ret_json, error);
}

static int take_document(struct sb_import *import, char **to, struct sandbox_error **error)
{
    if (!import->helper.document || strlen(import->helper.document) != import->helper.document_size)
        return sb_fail(error, SB_ARGS(SANDBOX_EDAMAGED, .phase = "manifest"), "one of the image's documents is empty or holds a NUL");
    free(*to);
    *to = SB_TAKE_PTR(import->helper.document);
    return 0;
}

/* The promise is checked as soon as both digests are known. */
static int check_promise(const struct sb_import *import, struct sandbox_error **error)
{
    if (!import->digest[0] || !strcmp(import->digest, import->record.digest) || !strcmp(import->digest, import->record.config_digest))
        return 0;
    return sb_fail(error, SB_ARGS(SANDBOX_EDIGEST, .field = "digest", .phase = "manifest"),
                   "the image has the manifest %s and the config %s, and %s was promised", import->record.digest, import->record.config_digest,
                   import->digest);
}

int sb_import_begin_bundle(struct sb_import *import, struct sandbox_error **error)
{
    int oci = sb_bundle_has(&import->bundle, "oci-layout") && sb_bundle_has(&import->bundle, "index.json");
    int docker = sb_bundle_has(&import->bundle, "manifest.json");

    /* what docker saves today is both */
    if (oci && import->format != SANDBOX_IMAGE_FORMAT_DOCKER_ARCHIVE) {
        import->kind = IMPORT_OCI;
        return sb_import_read(import, IMPORT_LAYOUT, "oci-layout", NULL, error);
    }
    if (docker && import->format != SANDBOX_IMAGE_FORMAT_OCI_LAYOUT) {
        import->kind = IMPORT_DOCKER_ARCHIVE;
        return sb_import_read(import, IMPORT_DOCKER, "manifest.json", NULL, error);
    }
    return sb_fail(error, SB_ARGS(SANDBOX_EDAMAGED, .field = "source", .phase = "manifest"),
                   import->format == SANDBOX_IMAGE_FORMAT_DOCKER_ARCHIVE ? "the source has no manifest.json: it is no docker archive"
                                                                         : "the source has no oci-layout and index.json: it is no OCI layout");
}

static int finished_scan(struct sb_import *import, struct sandbox_error **error)
{
    const struct sb_unpack_result *result = &import->helper.result;
    struct sb_window all = { import->source, 0, import->source_size };

    if (result->kind != SB_UNPACK_KIND_IMAGE) {
        if (import->format == SANDBOX_IMAGE_FORMAT_AUTO)
            return sb_import_rootfs(import, error);
        return sb_fail(error, SB_ARGS(SANDBOX_EDAMAGED, .field = "source", .phase = "manifest"), "the archive is neither an OCI layout nor a docker archive");
    }
    if (result->compressed)
        return sb_import_run(import, IMPORT_INFLATE, SB_UNPACK_INFLATE, &all, NULL, error);
    import->bundle.fd = SB_TAKE_FD(import->source);
    import->bundle.size = import->source_size;
    import->bundle.members = SB_TAKE_PTR(import->helper.members);
    import->bundle.n_members = import->helper.n_members;
    import->helper.n_members = 0;
    return sb_import_begin_bundle(import, error);
}

static int finished_inflate(struct sb_import *import, struct sandbox_error **error)
{
    struct stat st;

    sb_close(import->source);
    import->source = SB_TAKE_FD(import->spool);
    if (fstat(import->source, &st) < 0)
        return sb_fail_errno(error, errno, "unpack", "examining the decompressed archive");
    import->source_size = st.st_size;
    return sb_import_run(import, IMPORT_SCAN, SB_UNPACK_SCAN, &(struct sb_window){ import->source, 0, import->source_size }, NULL, error);
}

static int finished_layout(struct sb_import *import, struct sandbox_error **error)
{
    SB_JSON json_t *layout = NULL;
    int r = parse(import, "the image's oci-layout", &layout, error);

    if (!r)
        r = sb_oci_check_layout(layout, error);
    return r ? r : sb_import_read(import, IMPORT_INDEX, "index.json", NULL, error);
}

static int finished_index(struct sb_import *import, struct sandbox_error **error)
{
    SB_JSON json_t *index = NULL;
    int r = parse(import, "the image's index", &index, error);

    /* below the first index all are the image that was selected, for different machines */
    if (!r && import->pull)
        r = sb_oci_choose_platform(index, import->digest[0] ? import->digest : NULL, &import->descriptor, error);
    else if (!r)
        r = sb_oci_choose(index, import->index_depth ? NULL : import->select, import->digest[0] ? import->digest : NULL, &import->descriptor, error);
    if (r)
        return r;
    if (!import->descriptor.is_index)
        return sb_import_read(import, IMPORT_MANIFEST, NULL, &import->descriptor, error);
    if (++import->index_depth > INDEX_DEPTH_MAX)
        return sb_fail(error, SB_ARGS(SANDBOX_EDAMAGED, .phase = "manifest"), "the image's indexes are nested deeper than %d", INDEX_DEPTH_MAX);
    return sb_import_read(import, IMPORT_INDEX, NULL, &import->descriptor, error);
}

static int finished_manifest(struct sb_import *import, struct sandbox_error **error)
{
    SB_JSON json_t *manifest = NULL;
    int r = parse(import, "the image's manifest", &manifest, error);

    if (!r)
        r = sb_oci_read_manifest(manifest, import->descriptor.media_type, &import->manifest, error);
    if (!r)
        r = take_document(import, &import->record.manifest, error);
    if (r)
        return r;
    memcpy(import->record.digest, import->helper.result.digest, SB_DIGEST_SIZE);
    if (import->pull && sb_pull_is_here(import))
        return sb_import_commit(import, error);
    return sb_import_read(import, IMPORT_CONFIG, NULL, &import->manifest.config, error);
}

/* What a name in a registry leads to. */
static int finished_named(struct sb_import *import, struct sandbox_error **error)
{
    struct sb_image_pull *pull = import->pull;
    SB_JSON json_t *document = NULL;
    int r = parse(import, "the image's manifest", &document, error);

    if (!r)
        r = sb_oci_find_type(document, pull->puller.items[pull->item].media_type, import->descriptor.media_type, error);
    return r < 0 ? r : r > 0 ? finished_index(import, error) : finished_manifest(import, error);
}

/* A docker archive's config is named by its digest, with or without ".json". */
static void digest_in_name(const char *name, struct sb_oci_descriptor *ret)
{
    const char *slash = strrchr(name, '/'), *base = slash ? slash + 1 : name;
    char hex[SB_ID_SIZE];

    snprintf(hex, sizeof hex, "%.64s", base);
    if (sb_id_valid(hex) && (!base[64] || !strcmp(base + 64, ".json")))
        snprintf(ret->digest, sizeof ret->digest, "sha256:%s", hex);
}

static int finished_docker(struct sb_import *import, struct sandbox_error **error)
{
    SB_JSON json_t *manifest = NULL;
    int r = parse(import, "the archive's manifest.json", &manifest, error);

    if (!r)
        r = sb_oci_choose_docker(manifest, import->select, &import->docker, error);
    if (r)
        return r;
    import->descriptor = (struct sb_oci_descriptor){ .size = -1 };
    digest_in_name(import->docker.config, &import->descriptor);
    return sb_import_read(import, IMPORT_CONFIG, import->docker.config, &import->descriptor, error);
}

static int finished_config(struct sb_import *import, struct sandbox_error **error)
{
    SB_JSON json_t *config = NULL;
    size_t n = import->kind == IMPORT_OCI ? import->manifest.n_layers : import->docker.n_layers;
    int r = parse(import, "the image's config", &config, error);

    if (!r)
        r = sb_oci_read_config(config, n, &import->config, error);
    if (!r)
        r = take_document(import, &import->record.config, error);
    if (r)
        return r;
    memcpy(import->record.config_digest, import->helper.result.digest, SB_DIGEST_SIZE);
    if (import->kind == IMPORT_OCI)
        r = check_promise(import, error);
    import->record.layers = calloc(n + 1, sizeof *import->record.layers);
    if (!r && !import->record.layers)
        r = no_memory(error);
    return r ? r : sb_import_next_layer(import, error);
}

static int hash_text(struct sb_import *import, enum import_state state, const char *text, struct sandbox_error **error)
{
    return sb_import_run_on_text(import, state, SB_UNPACK_DOCUMENT, text, strlen(text), error);
}

static int make_config(struct sb_import *import, struct sandbox_error **error)
{
    free(import->record.config);
    import->record.config = sb_oci_make_config((const char(*)[SB_DIGEST_SIZE]) & import->record.layers[0].diff_id, 1);
    return import->record.config ? hash_text(import, IMPORT_MADE_CONFIG, import->record.config, error) : no_memory(error);
}

static int make_manifest(struct sb_import *import, struct sandbox_error **error)
{
    size_t n = import->record.n_layers;
    SB_FREE struct sb_oci_made_layer *layers = calloc(n + 1, sizeof *layers);

    for (size_t i = 0; layers && i < n; i++)
        layers[i] = (struct sb_oci_made_layer){ import->record.layers[i].diff_id, import->record.layers[i].stream_bytes };
    free(import->record.manifest);
    import->record.manifest =
        layers ? sb_oci_make_manifest(import->record.config_digest, strlen(import->record.config), layers, n) : NULL;
    return import->record.manifest ? hash_text(import, IMPORT_MADE_MANIFEST, import->record.manifest, error) : no_memory(error);
}

/* All layers are there: what follows depends on which documents came with them. */
static int finished_layers(struct sb_import *import, struct sandbox_error **error)
{
    switch (import->kind) {
    case IMPORT_OCI:
        return sb_import_commit(import, error);
    case IMPORT_DOCKER_ARCHIVE:
        return make_manifest(import, error);
    default:
        return make_config(import, error);
    }
}

/* After a layer was kept, or after the folder of one that another import brought first was discarded. */
static int after_layer(struct sb_import *import, struct sandbox_error **error)
{
    return import->kind == IMPORT_ROOTFS ? finished_layers(import, error) : sb_import_next_layer(import, error);
}

static int spend(struct sb_import *import, const struct sb_layer *layer, struct sandbox_error **error)
{
    import->bytes_left -= layer->stream_bytes;
    if (import->bytes_left >= 0)
        return 0;
    return sb_fail(error, SB_ARGS(SANDBOX_ELIMIT, .phase = "unpack", .hint = "raise max_bytes if the image is meant to be that large"),
                   "the image is larger than %lld bytes when decompressed", (long long)import->max_bytes);
}

static int add_layer(struct sb_import *import, const struct sb_layer *layer, struct sandbox_error **error)
{
    import->record.layers[import->layer++] = *layer;
    import->record.n_layers = import->layer;
    return spend(import, layer, error);
}

int sb_import_next_layer(struct sb_import *import, struct sandbox_error **error)
{
    struct sb_window window = { .fd = -1 };
    struct sb_layer layer;
    int r = 0;

    while (!r && import->layer < import->config.n_layers &&
           sb_layer_find(import->images, import->config.diff_ids[import->layer], import->record.config_digest, import->layer, &layer))
        r = add_layer(import, &layer, error);
    if (r)
        return r;
    if (import->layer == import->config.n_layers)
        return finished_layers(import, error);
    if (import->pull) {
        r = sb_pull_open_layer(import, &window, error);
        if (r)
            return r > 0 ? 0 : r; /* 1: it is on its way */
    } else if (import->kind == IMPORT_OCI) {
        const struct sb_oci_descriptor *blob = &import->manifest.layers[import->layer];

        r = sb_bundle_open_blob(&import->bundle, blob->digest, blob->size, &window, error);
    } else {
        r = sb_bundle_open(&import->bundle, import->docker.layers[import->layer], &window, error);
    }
    if (!r)
        r = sb_import_run(import, IMPORT_LAYER, SB_UNPACK_LAYER, &window,
                          import->kind == IMPORT_OCI ? import->manifest.layers[import->layer].digest : NULL, error);
    sb_close(window.fd);
    return r;
}

static int has_rootfs_layer(struct sb_import *import, const char *diff_id, struct sandbox_error **error)
{
    struct sb_layer layer;
    int r;

    if (!sb_layer_find(import->images, diff_id, NULL, 0, &layer))
        return sb_import_run(import, IMPORT_LAYER, SB_UNPACK_LAYER, &(struct sb_window){ import->source, 0, import->source_size }, NULL, error);
    r = add_layer(import, &layer, error);
    return r ? r : finished_layers(import, error);
}

int sb_import_rootfs(struct sb_import *import, struct sandbox_error **error)
{
    struct sb_window all = { import->source, 0, import->source_size };

    import->kind = IMPORT_ROOTFS;
    if (!import->record.layers)
        import->record.layers = calloc(1, sizeof *import->record.layers);
    if (!import->record.layers)
        return no_memory(error);
    import->layer = 0;
    import->bytes_left = import->max_bytes;
    if (import->is_folder)
        return sb_import_run(import, IMPORT_LAYER, SB_UNPACK_FOLDER, &all, NULL, error);
    if (sb_layers_have_size(import->images, import->source_size))
        return sb_import_run(import, IMPORT_HASH, SB_UNPACK_INFLATE, &all, NULL, error);
    return sb_import_run(import, IMPORT_LAYER, SB_UNPACK_LAYER, &all, NULL, error);
}

static int commit_layer(struct sb_import *import, struct sandbox_error **error)
{
    int r = sb_layer_commit(import->images, import->temporary, &import->unpacked, import->record.config_digest, error);

    if (r)
        return r;
    import->made = 1;
    sb_pull_drop_layer(import);
    r = add_layer(import, &import->unpacked, error);
    if (r)
        return r;
    r = sb_import_discard_folder(import, error); /* another import may have brought the layer first */
    return r < 0 ? r : r > 0 ? 0 : after_layer(import, error);
}

/* The names of the layers below from the top, an empty one, and the folders' paths, as the helper wants them. */
static char *list_for_adoption(const struct sb_import *import, size_t *ret_size, struct sandbox_error **error)
{
    char *text = NULL, name[NAME_MAX + 1];
    FILE *out = open_memstream(&text, ret_size);

    if (!out) {
        no_memory(error);
        return NULL;
    }
    for (size_t i = import->layer; i-- > 0;) {
        const struct sb_layer *below = &import->record.layers[i];

        sb_layer_name(import->images, below->diff_id, below->own ? import->record.config_digest : NULL, name);
        fprintf(out, "%s%c", name, 0);
        if (below->root_opaque)
            break;
    }
    fputc(0, out);
    for (size_t i = 0; i < import->helper.n_members; i++)
        if (import->helper.members[i].is_implied)
            fprintf(out, "%s%c", import->helper.members[i].name, 0);
    if (fclose(out) != 0) {
        free(text);
        no_memory(error);
        return NULL;
    }
    return text;
}

static int finished_layer(struct sb_import *import, struct sandbox_error **error)
{
    const struct sb_unpack_result *result = &import->helper.result;
    SB_FREE char *list = NULL;
    size_t size;

    import->unpacked = (struct sb_layer){
        .bytes = result->bytes, .stream_bytes = result->stream_bytes, .source_bytes = result->source_bytes,
        .skipped = result->skipped, .root_opaque = result->root_opaque != 0, .implied = import->helper.n_members > 0 && !result->root_opaque,
    };
    if (!sb_digest_valid(result->diff_id) ||
        (import->kind != IMPORT_ROOTFS && strcmp(result->diff_id, import->config.diff_ids[import->layer])))
        return sb_fail(error, SB_ARGS(SANDBOX_EPROTOCOL), "the unpack helper answered for another layer");
    memcpy(import->unpacked.diff_id, result->diff_id, SB_DIGEST_SIZE);
    import->entries_left -= result->entries;
    if (!import->unpacked.implied || !import->layer)
        return commit_layer(import, error);
    import->unpacked.own = 1;
    list = list_for_adoption(import, &size, error);
    return list ? sb_import_run_on_text(import, IMPORT_ADOPT, SB_UNPACK_ADOPT, list, size, error) : SANDBOX_ENOMEM;
}

static int finished_made(struct sb_import *import, struct sandbox_error **error)
{
    int r;

    if (import->state == IMPORT_MADE_CONFIG) {
        memcpy(import->record.config_digest, import->helper.result.digest, SB_DIGEST_SIZE);
        return make_manifest(import, error);
    }
    memcpy(import->record.digest, import->helper.result.digest, SB_DIGEST_SIZE);
    r = check_promise(import, error);
    return r ? r : sb_import_commit(import, error);
}

int sb_import_finished(struct sb_import *import, struct sandbox_error **error)
{
    switch (import->state) {
    case IMPORT_SCAN:
        return finished_scan(import, error);
    case IMPORT_INFLATE:
        return finished_inflate(import, error);
    case IMPORT_LAYOUT:
        return finished_layout(import, error);
    case IMPORT_INDEX:
        return finished_index(import, error);
    case IMPORT_MANIFEST:
        return finished_manifest(import, error);
    case IMPORT_NAMED:
        return finished_named(import, error);
    case IMPORT_CONFIG:
        return finished_config(import, error);
    case IMPORT_DOCKER:
        return finished_docker(import, error);
    case IMPORT_HASH:
        return has_rootfs_layer(import, import->helper.result.diff_id, error);
    case IMPORT_LAYER:
        return finished_layer(import, error);
    case IMPORT_ADOPT:
        return commit_layer(import, error);
    case IMPORT_MADE_CONFIG:
    case IMPORT_MADE_MANIFEST:
        return finished_made(import, error);
    default:
        return after_layer(import, error);
    }
}
