/* SPDX-License-Identifier: Apache-2.0
 * See oci.h. */
#include "oci.h"

#include <stdlib.h>
#include <string.h>

#include <errors.h>
#include <json.h>
#include <util.h>

static const char type_index[] = "application/vnd.oci.image.index.v1+json";
static const char type_manifest[] = "application/vnd.oci.image.manifest.v1+json";
static const char type_config[] = "application/vnd.oci.image.config.v1+json";
static const char docker_index[] = "application/vnd.docker.distribution.manifest.list.v2+json";
static const char docker_manifest[] = "application/vnd.docker.distribution.manifest.v2+json";
static const char docker_config[] = "application/vnd.docker.container.image.v1+json";

static const char *const layer_types[] = {
    "application/vnd.oci.image.layer.v1.tar", "application/vnd.oci.image.layer.v1.tar+gzip", "application/vnd.oci.image.layer.v1.tar+zstd",
    "application/vnd.oci.image.layer.nondistributable.v1.tar", "application/vnd.oci.image.layer.nondistributable.v1.tar+gzip",
    "application/vnd.oci.image.layer.nondistributable.v1.tar+zstd", "application/vnd.docker.image.rootfs.diff.tar",
    "application/vnd.docker.image.rootfs.diff.tar.gzip", "application/vnd.docker.image.rootfs.diff.tar.zstd",
    "application/vnd.docker.image.rootfs.foreign.diff.tar.gzip",
};

const char *sb_oci_architecture(void)
{
#if defined(__x86_64__)
    return "amd64";
#elif defined(__aarch64__)
    return "arm64";
#else
#error "images are known for x86_64 and aarch64"
#endif
}

static int damaged(struct sandbox_error **error, const char *what)
{
    return sb_fail(error, SB_ARGS(SANDBOX_EDAMAGED, .phase = "manifest"), "the image's %s", what);
}

static int no_memory(struct sandbox_error **error)
{
    return sb_fail(error, SB_ARGS(SANDBOX_ENOMEM, .retryable = 1), "reading the image's documents: out of memory");
}

int sb_oci_check_layout(const json_t *layout, struct sandbox_error **error)
{
    const char *version = sb_json_str(layout, "imageLayoutVersion");

    if (!version)
        return damaged(error, "file oci-layout names no imageLayoutVersion");
    if (strcmp(version, "1.0.0"))
        return sb_fail(error, SB_ARGS(SANDBOX_EUNSUPPORTED, .phase = "manifest"), "the OCI layout has version '%.32s' and 1.0.0 is known", version);
    return 0;
}

static int read_descriptor(const json_t *json, struct sb_oci_descriptor *ret, struct sandbox_error **error)
{
    const char *digest = sb_json_str(json, "digest"), *type = sb_json_str(json, "mediaType");
    int64_t size = sb_json_int(json, "size", -1);

    if (!digest || !type || size < 0 || strlen(type) >= sizeof ret->media_type)
        return damaged(error, "documents have a descriptor without digest, size or mediaType");
    if (!strncmp(digest, "sha512:", 7))
        return sb_fail(error, SB_ARGS(SANDBOX_EUNSUPPORTED, .phase = "manifest"), "the image uses sha512 digests, and sha256 are known");
    if (!sb_digest_valid(digest))
        return damaged(error, "documents have a descriptor whose digest is not sha256 and 64 lowercase hexadecimal digits");
    memset(ret, 0, sizeof *ret);
    memcpy(ret->digest, digest, strlen(digest) + 1);
    memcpy(ret->media_type, type, strlen(type) + 1);
    ret->size = size;
    ret->is_index = !strcmp(type, type_index) || !strcmp(type, docker_index);
    return 0;
}

/* ---- the index */

static int matches_platform(const json_t *entry)
{
    const json_t *platform = json_object_get(entry, "platform");
    const char *os = sb_json_str(platform, "os"), *architecture = sb_json_str(platform, "architecture");

    return !platform || ((!os || !strcmp(os, "linux")) && (!architecture || !strcmp(architecture, sb_oci_architecture())));
}

static int matches_select(const json_t *entry, const char *select)
{
    const json_t *annotations = json_object_get(entry, "annotations");
    const char *name = sb_json_str(annotations, "org.opencontainers.image.ref.name");
    const char *full = sb_json_str(annotations, "io.containerd.image.name");

    return !select || (name && !strcmp(name, select)) || (full && !strcmp(full, select));
}

/* Signatures, attestations and artifacts stand beside images in an index. */
static int is_image(const struct sb_oci_descriptor *descriptor, const json_t *entry)
{
    const char *os = sb_json_str(json_object_get(entry, "platform"), "os");

    if (os && !strcmp(os, "unknown"))
        return 0;
    return descriptor->is_index || !strcmp(descriptor->media_type, type_manifest) || !strcmp(descriptor->media_type, docker_manifest);
}

static int none_chosen(size_t named, const char *select, struct sandbox_error **error)
{
    if (select && !named)
        return sb_fail(error, SB_ARGS(SANDBOX_ENOTFOUND, .field = "select", .phase = "manifest"), "the source has no image named '%.128s'", select);
    if (named)
        return sb_fail(error, SB_ARGS(SANDBOX_EUNSUPPORTED, .phase = "manifest"), "the source has no image for linux/%s", sb_oci_architecture());
    return sb_fail(error, SB_ARGS(SANDBOX_EDAMAGED, .phase = "manifest"), "the source's index names no image");
}

static int check_index(const json_t *index, struct sandbox_error **error)
{
    const char *type = sb_json_str(index, "mediaType");

    if (!json_is_array(json_object_get(index, "manifests")) || sb_json_int(index, "schemaVersion", 0) != 2)
        return damaged(error, "index has no list of manifests or not schemaVersion 2");
    if (json_object_get(index, "layers") || json_object_get(index, "config") || (type && strcmp(type, type_index) && strcmp(type, docker_index)))
        return damaged(error, "index is a manifest as well: it could be read in two ways");
    return 0;
}

int sb_oci_choose(const json_t *index, const char *select, const char *digest, struct sb_oci_descriptor *ret, struct sandbox_error **error)
{
    struct sb_oci_descriptor chosen = { 0 }, descriptor;
    size_t i, named = 0, several = 0;
    const json_t *entry;
    int r = check_index(index, error);

    if (r)
        return r;
    json_array_foreach(json_object_get(index, "manifests"), i, entry) {
        r = read_descriptor(entry, &descriptor, error);
        if (r)
            return r;
        if (!is_image(&descriptor, entry) || !matches_select(entry, select))
            continue;
        named++;
        if (!matches_platform(entry))
            continue;
        if (digest && !strcmp(digest, descriptor.digest)) {
            *ret = descriptor;
            return 0;
        }
        several += chosen.digest[0] && strcmp(chosen.digest, descriptor.digest);
        chosen = descriptor;
    }
    if (several)
        return sb_fail(error, SB_ARGS(SANDBOX_EINVALID, .field = "select", .phase = "manifest", .hint = "name one of them by select or digest"),
                       "the source holds several images");
    if (!chosen.digest[0])
        return none_chosen(named, select, error);
    *ret = chosen;
    return 0;
}

/* 2: this machine's, 1: its, in a variant that not every processor has, 0: another's. */
static int rank(const json_t *entry)
{
    const char *variant = sb_json_str(json_object_get(entry, "platform"), "variant");

    if (!matches_platform(entry))
        return 0;
    return !variant || !*variant || !strcmp(variant, "v1") || !strcmp(variant, "v8") ? 2 : 1;
}

int sb_oci_choose_platform(const json_t *index, const char *digest, struct sb_oci_descriptor *ret, struct sandbox_error **error)
{
    struct sb_oci_descriptor chosen = { 0 }, descriptor;
    int best = 0, r = check_index(index, error);
    const json_t *entry;
    size_t i, named = 0;

    if (r)
        return r;
    json_array_foreach(json_object_get(index, "manifests"), i, entry) {
        r = read_descriptor(entry, &descriptor, error);
        if (r)
            return r;
        if (!is_image(&descriptor, entry))
            continue;
        named++;
        if (rank(entry) && digest && !strcmp(digest, descriptor.digest)) {
            *ret = descriptor;
            return 0;
        }
        if (rank(entry) > best) {
            best = rank(entry);
            chosen = descriptor;
        }
    }
    if (!best)
        return none_chosen(named, NULL, error);
    *ret = chosen;
    return 0;
}

int sb_oci_find_type(const json_t *document, const char *type, char ret[128], struct sandbox_error **error)
{
    const char *own = sb_json_str(document, "mediaType");
    int index = json_object_get(document, "manifests") != NULL, manifest = json_object_get(document, "layers") || json_object_get(document, "config");

    if (sb_json_int(document, "schemaVersion", 0) == 1)
        return sb_fail(error, SB_ARGS(SANDBOX_EUNSUPPORTED, .phase = "manifest", .hint = "push it again with a tool of this decade"),
                       "the manifest is of schemaVersion 1, without digests of its layers' content");
    if (index == manifest)
        return damaged(error, index ? "manifest is an index as well: it could be read in two ways" : "manifest is neither a manifest nor an index");
    /* what a registry says that doesn't know is no contradiction */
    if (strcmp(type, type_index) && strcmp(type, docker_index) && strcmp(type, type_manifest) && strcmp(type, docker_manifest))
        type = own && strlen(own) < 128 ? own : index ? type_index : type_manifest;
    if (index != (!strcmp(type, type_index) || !strcmp(type, docker_index)))
        return damaged(error, "manifest is of another type than the registry says");
    if (own && strcmp(own, type))
        return damaged(error, "manifest names another type than the registry does");
    memcpy(ret, type, strlen(type) + 1);
    return index;
}

/* ---- manifest and config */

static int is_layer_type(const char *type)
{
    for (size_t i = 0; i < SB_ELEMENTS(layer_types); i++)
        if (!strcmp(type, layer_types[i]))
            return 1;
    return 0;
}

void sb_oci_manifest_clear(struct sb_oci_manifest *manifest)
{
    free(manifest->layers);
    *manifest = (struct sb_oci_manifest){ 0 };
}

static int read_layers(const json_t *list, struct sb_oci_manifest *manifest, struct sandbox_error **error)
{
    const json_t *entry;
    size_t i;

    if (json_array_size(list) > SB_OCI_LAYERS_MAX)
        return sb_fail(error, SB_ARGS(SANDBOX_ELIMIT, .phase = "manifest"), "the image has %zu layers, and %d are the most", json_array_size(list),
                       SB_OCI_LAYERS_MAX);
    manifest->layers = calloc(json_array_size(list) + 1, sizeof *manifest->layers);
    if (!manifest->layers)
        return no_memory(error);
    json_array_foreach(list, i, entry) {
        struct sb_oci_descriptor *layer = &manifest->layers[i];
        int r = read_descriptor(entry, layer, error);

        if (r)
            return r;
        if (!is_layer_type(layer->media_type))
            return sb_fail(error, SB_ARGS(SANDBOX_EUNSUPPORTED, .phase = "manifest"), "the image has a layer of type '%s'", layer->media_type);
        manifest->n_layers++;
    }
    return 0;
}

int sb_oci_read_manifest(const json_t *manifest, const char *media_type, struct sb_oci_manifest *ret, struct sandbox_error **error)
{
    const char *type = sb_json_str(manifest, "mediaType");
    const json_t *layers = json_object_get(manifest, "layers");
    struct sb_oci_manifest result = { 0 };
    int r;

    if (sb_json_int(manifest, "schemaVersion", 0) != 2)
        return damaged(error, "manifest is not of schemaVersion 2");
    if (json_object_get(manifest, "manifests") || (type && strcmp(type, media_type)))
        return damaged(error, "manifest is an index, or of another type than its descriptor says");
    if (!json_is_array(layers))
        return damaged(error, "manifest has no list of layers");
    r = read_descriptor(json_object_get(manifest, "config"), &result.config, error);
    if (!r && strcmp(result.config.media_type, type_config) && strcmp(result.config.media_type, docker_config))
        r = sb_fail(error, SB_ARGS(SANDBOX_EUNSUPPORTED, .phase = "manifest"), "the source is no container image: its config has the type '%s'",
                    result.config.media_type);
    if (!r)
        r = read_layers(layers, &result, error);
    if (r) {
        sb_oci_manifest_clear(&result);
        return r;
    }
    *ret = result;
    return 0;
}

void sb_oci_config_clear(struct sb_oci_config *config)
{
    free(config->diff_ids);
    *config = (struct sb_oci_config){ 0 };
}

static int check_platform(const json_t *config, struct sandbox_error **error)
{
    const char *architecture = sb_json_str(config, "architecture"), *os = sb_json_str(config, "os");

    if (!architecture || !os)
        return damaged(error, "config names no architecture or no os");
    if (strcmp(architecture, sb_oci_architecture()) || strcmp(os, "linux"))
        return sb_fail(error, SB_ARGS(SANDBOX_EUNSUPPORTED, .phase = "manifest"), "the image is for %.32s/%.32s and this machine is linux/%s", os,
                       architecture, sb_oci_architecture());
    return 0;
}

/* What a sandbox is later made from: of the right types, or the image is refused now. */
static int check_defaults(const json_t *config, struct sandbox_error **error)
{
    static const char *const lists[] = { "Env", "Cmd", "Entrypoint" };
    const json_t *inner = json_object_get(config, "config"), *item;
    size_t at;

    if (inner && !json_is_null(inner) && !json_is_object(inner))
        return damaged(error, "config has a member \"config\" that is no object");
    for (size_t i = 0; i < SB_ELEMENTS(lists); i++) {
        const json_t *list = json_object_get(inner, lists[i]);

        if (list && !json_is_null(list) && !json_is_array(list))
            return damaged(error, "config has an Env, Cmd or Entrypoint that is no list");
        json_array_foreach(list, at, item)
            if (!json_is_string(item) || (i == 0 && (!strchr(json_string_value(item), '=') || json_string_value(item)[0] == '=')))
                return damaged(error, "config has an Env, Cmd or Entrypoint with something that doesn't belong there");
    }
    return 0;
}

int sb_oci_read_config(const json_t *config, size_t n_layers, struct sb_oci_config *ret, struct sandbox_error **error)
{
    const json_t *rootfs = json_object_get(config, "rootfs"), *ids = json_object_get(rootfs, "diff_ids"), *id;
    const char *type = sb_json_str(rootfs, "type");
    struct sb_oci_config result = { .n_layers = n_layers };
    size_t i;
    int r = check_platform(config, error);

    if (!r)
        r = check_defaults(config, error);
    if (r)
        return r;
    if (!type || strcmp(type, "layers") || !json_is_array(ids) || json_array_size(ids) != n_layers)
        return damaged(error, "config promises another number of layers than there are");
    result.diff_ids = calloc(n_layers + 1, sizeof *result.diff_ids);
    if (!result.diff_ids)
        return no_memory(error);
    json_array_foreach(ids, i, id) {
        if (!sb_digest_valid(json_string_value(id))) {
            sb_oci_config_clear(&result);
            return damaged(error, "config has a diff_id that is no sha256 digest");
        }
        memcpy(result.diff_ids[i], json_string_value(id), SB_DIGEST_SIZE - 1);
        result.diff_ids[i][SB_DIGEST_SIZE - 1] = 0;
    }
    *ret = result;
    return 0;
}

/* ---- docker archives */

void sb_oci_docker_clear(struct sb_oci_docker *docker)
{
    for (size_t i = 0; i < docker->n_layers; i++)
        free(docker->layers[i]);
    free(docker->layers);
    free(docker->config);
    *docker = (struct sb_oci_docker){ 0 };
}

/* "name:tag", with or without what stands before it: docker writes "busybox:latest", skopeo "docker.io/library/busybox:latest". */
static int has_tag(const json_t *image, const char *select)
{
    const json_t *tag;
    size_t i;

    json_array_foreach(json_object_get(image, "RepoTags"), i, tag) {
        const char *text = json_string_value(tag);
        size_t length = text ? strlen(text) : 0, wanted = strlen(select);

        if (wanted && length >= wanted && !strcmp(text + length - wanted, select) && (length == wanted || text[length - wanted - 1] == '/'))
            return 1;
    }
    return 0;
}

static int read_docker(const json_t *image, struct sb_oci_docker *ret, struct sandbox_error **error)
{
    const char *config = sb_json_str(image, "Config");
    const json_t *layers = json_object_get(image, "Layers"), *layer;
    struct sb_oci_docker result = { 0 };
    size_t i;

    if (!config || !json_is_array(layers) || json_array_size(layers) > SB_OCI_LAYERS_MAX)
        return damaged(error, "manifest.json has no Config, or no Layers, or too many");
    result.config = strdup(config);
    result.layers = calloc(json_array_size(layers) + 1, sizeof *result.layers);
    if (!result.config || !result.layers) {
        sb_oci_docker_clear(&result);
        return no_memory(error);
    }
    json_array_foreach(layers, i, layer) {
        if (json_is_string(layer))
            result.layers[result.n_layers] = strdup(json_string_value(layer));
        if (!result.layers[result.n_layers]) {
            sb_oci_docker_clear(&result);
            return json_is_string(layer) ? no_memory(error) : damaged(error, "manifest.json has a layer that is no name");
        }
        result.n_layers++;
    }
    *ret = result;
    return 0;
}

int sb_oci_choose_docker(const json_t *manifest, const char *select, struct sb_oci_docker *ret, struct sandbox_error **error)
{
    const json_t *image, *chosen = NULL;
    size_t i;

    if (!json_is_array(manifest) || !json_array_size(manifest))
        return damaged(error, "manifest.json is no list of images");
    json_array_foreach(manifest, i, image) {
        if (select && !has_tag(image, select))
            continue;
        if (chosen)
            return sb_fail(error, SB_ARGS(SANDBOX_EINVALID, .field = "select", .phase = "manifest", .hint = "name one of them by select"),
                           "the source holds several images");
        chosen = image;
    }
    if (!chosen)
        return sb_fail(error, SB_ARGS(SANDBOX_ENOTFOUND, .field = "select", .phase = "manifest"), "the source has no image named '%.128s'", select);
    return read_docker(chosen, ret, error);
}
