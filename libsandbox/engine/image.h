/* SPDX-License-Identifier: Apache-2.0
 * The images of one state root: imported, named, found, removed. Safe to use from several threads and processes at once.
 * The image "host" is not one of these. */
#ifndef SB_ENGINE_IMAGE_H
#define SB_ENGINE_IMAGE_H

#include <driver.h>
#include <idmap.h>

struct sb_images;

/* `root` is a descriptor of the 0700 state root, borrowed and kept by duplication; images/ and layers/ are made below it.
 * `unpack_exe` gives a descriptor of the unpack program, which stays the getter's. `map`: this caller's; for ROOT it names a
 * range that is set aside for unpacking (what is unpacked is stored with the ids inside, 0 as 0). Removes what killed imports
 * left behind. */
int sb_images_open(int root, const struct sb_idmap *map, int (*unpack_exe)(void *data, struct sandbox_error **error), void *data,
                   struct sb_images **ret_images, struct sandbox_error **error);
struct sb_images *sb_images_free(struct sb_images *images);

/* The operation's result is op->image, the image document of driver.h. */
int sb_image_import(struct sb_images *images, const char *source, const struct sandbox_image_import_options *options,
                    struct sb_op **ret_op, struct sandbox_error **error);

/* `pull_exe`: as unpack_exe, of the pull program. */
void sb_images_set_pull_program(struct sb_images *images, int (*pull_exe)(void *data, struct sandbox_error **error));
/* The same for an image in a registry; options of this library's size, with every field checked. */
int sb_image_pull(struct sb_images *images, const char *reference, const struct sandbox_image_pull_options *options, struct sb_op **ret_op,
                  struct sandbox_error **error);

/* An image for a create. While a ref is held the image can't be removed. */
struct sb_image_ref {
    char digest[72], config_digest[72];
    size_t n_layers;
    char **layers; /* paths relative to the state root, bottom to top */
    char **env;    /* NULL-terminated; never NULL */
    char **cmd;    /* entrypoint and command, NULL-terminated; never NULL */
    char *user;    /* never NULL: "" when the image names none */
    char *workdir; /* never NULL: "" when the image names none */
    int pin;
};
#define SB_IMAGE_REF_INIT { .pin = -1 }
/* ref: a name, or a manifest or config digest. ENOTFOUND; EDAMAGED. */
int sb_image_resolve(struct sb_images *images, const char *ref, struct sb_image_ref *ret, struct sandbox_error **error);
/* Also of one that is all zero or of SB_IMAGE_REF_INIT that was never filled. */
void sb_image_ref_clear(struct sb_image_ref *ref);

int sb_image_inspect(struct sb_images *images, const char *name, json_t **ret_json, struct sandbox_error **error);
/* An array of image documents. A damaged record is listed as {"digest", "damaged": why}. */
int sb_image_list(struct sb_images *images, json_t **ret_json, struct sandbox_error **error);
/* `in_use` returns 1 and an id when a sandbox stands on the image with this manifest digest. It is called with the image lock
 * held, must not call back, and may be NULL. */
/* Removes the images without a name (UNNAMED) or all (UNUSED) that are not in_use: how many. */
int sb_images_prune(struct sb_images *images, unsigned int flags, int (*in_use)(void *data, const char *digest, char who[SB_ID_SIZE]), void *data,
                    int64_t *ret_n, struct sandbox_error **error);
/* ---- image-collect.c: the same, and what no image needs then. The result is op->document. */
int sb_images_collect(struct sb_images *images, unsigned int flags, int (*in_use)(void *data, const char *digest, char who[SB_ID_SIZE]), void *data,
                      struct sb_op **ret_op, struct sandbox_error **error);
int sb_image_remove(struct sb_images *images, const char *name, int (*in_use)(void *data, const char *digest, char who[SB_ID_SIZE]),
                    void *data, struct sandbox_error **error);

#endif
