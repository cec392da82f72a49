/* SPDX-License-Identifier: Apache-2.0
 * The files of an image that is being imported: an OCI layout or a docker archive, as a folder or as a tar whose table of
 * contents the helper read. For the image*.c files only. */
#ifndef SB_ENGINE_IMAGE_BUNDLE_H
#define SB_ENGINE_IMAGE_BUNDLE_H

#include "helper.h"

struct sb_bundle {
    int fd;        /* the folder or the tar */
    int is_folder;
    int64_t size;  /* of the tar */
    struct sb_member *members; /* of the tar */
    size_t n_members;
};
#define SB_BUNDLE_INIT { .fd = -1 }

/* A part of a file. `fd` belongs to who asked. */
struct sb_window {
    int fd;
    int64_t offset, length;
};

int sb_bundle_has(const struct sb_bundle *bundle, const char *name);
/* ENOTFOUND; EDAMAGED for what is no regular file, or ambiguous. */
int sb_bundle_open(const struct sb_bundle *bundle, const char *name, struct sb_window *ret, struct sandbox_error **error);
/* blobs/sha256/HEX, whose size must be `size` (-1: any). */
int sb_bundle_open_blob(const struct sb_bundle *bundle, const char *digest, int64_t size, struct sb_window *ret, struct sandbox_error **error);
void sb_bundle_clear(struct sb_bundle *bundle);

#endif
