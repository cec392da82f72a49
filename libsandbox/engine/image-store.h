/* SPDX-License-Identifier: Apache-2.0
 * How images lie on disk, for the image*.c files only:
 *
 *   images/lock                    flock'ed for the short moments in which records or names change
 *   images/layers.lock             flock'ed shared by every import under way, exclusively by who takes unused layers away
 *   images/layers.collect          there when layers were left because of an import: the last import takes them away
 *   images/HEX.json                one image, by its manifest digest: its documents and its layers; flock'ed shared by who uses it
 *   images/names/NAME              the manifest digest that the name stands for; in references '/' is '%' and ':' is '='
 *   layers/HEX[.MAP]/              a layer, by diff id, and by the id map where owners on disk depend on it
 *   layers/HEX-HEX[.MAP]/          a layer of one image alone, by its config's digest too: it has folders that its archive didn't
 *                                  describe and that depend on the layers below it
 *   layers/….json                  its figures; written first, so that a layer that is there has them
 *   layers/.tmp-RANDOM/            being unpacked or being removed; flock'ed by who does it
 *   downloads/HEX                  a blob, by its digest, as far as it was pulled; flock'ed by who pulls it
 *
 * A layer appears whole by rename. Who records an image checks under the lock that its layers are there, and who removes
 * one takes them away under the lock: so no record ever names a layer that is gone. While an import is under way none is
 * taken away, so that two programs, one importing and one removing, both get on. */
#ifndef SB_ENGINE_IMAGE_STORE_H
#define SB_ENGINE_IMAGE_STORE_H

#include "image.h"
#include "oci.h"

#include <limits.h>

#define SB_TEMPORARY_PREFIX ".tmp-"

struct sb_images {
    int root, images, names, layers;
    struct sb_idmap map;
    int (*unpack_exe)(void *data, struct sandbox_error **error);
    int (*pull_exe)(void *data, struct sandbox_error **error);
    void *data;
};

struct sb_layer {
    char diff_id[SB_DIGEST_SIZE];
    int64_t bytes, stream_bytes, source_bytes, skipped;
    int root_opaque;
    int implied; /* has folders that its archive didn't describe */
    int own;     /* belongs to one image alone */
};

struct sb_image_record {
    char digest[SB_DIGEST_SIZE], config_digest[SB_DIGEST_SIZE];
    char *manifest, *config; /* as they are, to the byte */
    size_t n_layers;
    struct sb_layer *layers; /* bottom to top */
};

/* What a collect removed. */
struct sb_collected {
    int64_t images, layers, downloads, bytes;
};

/* ---- image-layers.c */
/* The folder's name in layers/. `config_digest` NULL: the layer is shared. */
void sb_layer_name(const struct sb_images *images, const char *diff_id, const char *config_digest, char name[NAME_MAX + 1]);
/* 1 when layer number `index` of the image with this config (NULL: not known yet) is there (*ret filled), else 0. */
int sb_layer_find(const struct sb_images *images, const char *diff_id, const char *config_digest, size_t index, struct sb_layer *ret);
/* A new, locked folder for unpacking: its descriptor, else negative. */
int sb_layer_begin(const struct sb_images *images, char name[NAME_MAX + 1], struct sandbox_error **error);
/* Makes an unpacked folder the layer; when another import was faster, the folder stays and is the caller's to remove. */
int sb_layer_commit(const struct sb_images *images, const char *temporary, const struct sb_layer *layer, const char *config_digest,
                    struct sandbox_error **error);
/* Under the lock: moves the layer aside, under a name that the caller removes. 1: done, 0: there was none, negative: failed. */
int sb_layer_take_away(const struct sb_images *images, const char *layer_name, char name[NAME_MAX + 1], struct sandbox_error **error);
/* Removes what nobody holds any more of unfinished or taken-away layers. */
int sb_layers_sweep(const struct sb_images *images, struct sandbox_error **error);
/* Keeps layers from being taken away until the descriptor is closed. */
int sb_layers_hold(const struct sb_images *images, struct sandbox_error **error);
/* 1 when somebody left layers to whoever ends last. */
int sb_layers_left(const struct sb_images *images);
/* Takes away the layers that no image names; their names in layers/ are added to `taken`, for the caller to remove. While an
 * import is under way, none: they are left to it. Takes the lock. collected may be NULL. */
int sb_layers_take_unused(const struct sb_images *images, json_t *taken, struct sb_collected *collected, struct sandbox_error **error);
/* The same, removed as well. */
int sb_layers_collect(const struct sb_images *images, struct sandbox_error **error);
/* Is a layer with this stream or source size there? Then hashing first may spare unpacking. */
int sb_layers_have_size(const struct sb_images *images, int64_t size);

/* ---- image-blobs.c */
/* The blob's file, locked, with what is there of it: 1. 0: somebody else is at it. */
int sb_blob_open(const struct sb_images *images, const char *digest, int *ret_fd, struct sandbox_error **error);
/* A nameless file instead. */
int sb_blob_open_own(const struct sb_images *images, int *ret_fd, struct sandbox_error **error);
/* By who has it locked. */
void sb_blob_remove(const struct sb_images *images, const char *digest, int fd);
/* Removes those that nobody is at. */
int sb_blobs_collect(const struct sb_images *images, struct sb_collected *collected, struct sandbox_error **error);

/* ---- image-store.c */
int sb_images_lock(const struct sb_images *images, struct sandbox_error **error);
/* Members as in `record`, a deep copy. */
void sb_image_record_clear(struct sb_image_record *record);
int sb_image_record_write(const struct sb_images *images, const struct sb_image_record *record, struct sandbox_error **error);
/* By manifest digest. ENOTFOUND, EDAMAGED. */
int sb_image_record_read(const struct sb_images *images, const char *digest, struct sb_image_record *ret, struct sandbox_error **error);
/* Manifest digests of all records, damaged ones too, sorted: malloc'ed. */
int sb_image_records(const struct sb_images *images, char (**ret_digests)[SB_DIGEST_SIZE], size_t *ret_n, struct sandbox_error **error);
/* All names, sorted, of the image with this digest (NULL: of any). A new array. */
int sb_image_names(const struct sb_images *images, const char *digest, json_t **ret_names, struct sandbox_error **error);
/* `name`: a name, or a reference as sb_reference_format() writes it. */
int sb_image_name_write(const struct sb_images *images, const char *name, const char *digest, struct sandbox_error **error);
int sb_image_name_remove(const struct sb_images *images, const char *name, struct sandbox_error **error);
/* The manifest digest that a name, a reference, a manifest digest or a config digest stands for. */
int sb_image_find(const struct sb_images *images, const char *ref, char digest[SB_DIGEST_SIZE], struct sandbox_error **error);
/* The image document of driver.h. */
int sb_image_document(const struct sb_images *images, const struct sb_image_record *record, json_t **ret_json, struct sandbox_error **error);

#endif
