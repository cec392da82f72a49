/* SPDX-License-Identifier: Apache-2.0
 * OCI layouts made for tests, right ones and ones that are wrong in a chosen place. */
#ifndef G_OCI_H
#define G_OCI_H

#include "g-tar.h"

#define DIGEST 72
void digest_of(const void *data, size_t size, char digest[DIGEST]);

struct layout {
    const char *folder;
    char layer[DIGEST], diff_id[DIGEST], config[DIGEST], manifest[DIGEST];
    size_t layer_size, config_size, manifest_size;
    /* what is written in place of what is right; NULL, 0: nothing */
    const char *architecture, *config_text, *manifest_text, *index_text, *diff_id_text, *layer_type, *manifest_type, *layout_text;
    long long layer_size_add, manifest_size_add;
};

/* Writes it with one layer, whose tar it takes. */
void layout_write(struct layout *layout, struct tar *tar);
/* The path of a blob; static, four at a time. */
const char *layout_blob(const struct layout *layout, const char *digest);

#endif
