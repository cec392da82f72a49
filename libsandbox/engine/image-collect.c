/* SPDX-License-Identifier: Apache-2.0
 * Collecting what no image needs: downloads that nobody goes on with, unused layers, what killed imports left, and images if asked. What
 * is at work in another process holds a lock on what it needs, and keeps it. */
#include "image-import.h"

#include <errors.h>
#include <json.h>

static json_t *describe(const struct sb_collected *collected)
{
    return json_pack("{s:I, s:I, s:I, s:I}", "images", (json_int_t)collected->images, "layers", (json_int_t)collected->layers, "downloads",
                     (json_int_t)collected->downloads, "bytes", (json_int_t)collected->bytes);
}

int sb_images_collect(struct sb_images *images, unsigned int flags, int (*in_use)(void *data, const char *digest, char who[SB_ID_SIZE]), void *data,
                      struct sb_op **ret_op, struct sandbox_error **error)
{
    struct sb_collected collected = { 0 };
    SB_JSON json_t *taken = json_array();
    struct sb_import *import;
    int r = flags ? sb_images_prune(images, flags, in_use, data, &collected.images, error) : 0;

    if (!r)
        r = sb_blobs_collect(images, &collected, error);
    if (!r)
        r = sb_layers_sweep(images, error);
    if (!r)
        r = sb_layers_take_unused(images, taken, &collected, error);
    if (!r)
        r = sb_import_new(images, &import, error);
    if (r)
        return r;
    import->op.document = describe(&collected);
    if (!import->op.document) {
        sb_import_abandon(import);
        return sb_fail(error, SB_ARGS(SANDBOX_ENOMEM, .retryable = 1), "collecting: out of memory");
    }
    sb_import_only_discard(import, SB_TAKE_PTR(taken));
    *ret_op = &import->op;
    return 0;
}
