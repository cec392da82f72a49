/* SPDX-License-Identifier: Apache-2.0
 * Config and manifest of an image that came without them. Nothing of the moment or the machine but its architecture goes in,
 * and keys are sorted: the same content gives the same digests everywhere. */
#include "oci.h"

#include <json.h>
#include <util.h>

char *sb_oci_make_config(const char (*diff_ids)[SB_DIGEST_SIZE], size_t n)
{
    SB_JSON json_t *ids = json_array();
    SB_JSON json_t *config = NULL;

    for (size_t i = 0; i < n; i++)
        if (json_array_append_new(ids, json_string(diff_ids[i])) < 0)
            return NULL;
    config = json_pack("{s:s, s:s, s:{}, s:{s:s, s:O}}", "architecture", sb_oci_architecture(), "os", "linux", "config", "rootfs", "type",
                       "layers", "diff_ids", ids);
    return config ? sb_json_dump(config) : NULL;
}

char *sb_oci_make_manifest(const char *config_digest, size_t config_size, const struct sb_oci_made_layer *layers, size_t n)
{
    SB_JSON json_t *list = json_array();
    SB_JSON json_t *manifest = NULL;

    for (size_t i = 0; i < n; i++)
        if (json_array_append_new(list, json_pack("{s:s, s:s, s:I}", "mediaType", "application/vnd.oci.image.layer.v1.tar", "digest",
                                                  layers[i].diff_id, "size", (json_int_t)layers[i].stream_bytes)) < 0)
            return NULL;
    manifest = json_pack("{s:i, s:s, s:{s:s, s:s, s:I}, s:O}", "schemaVersion", 2, "mediaType", "application/vnd.oci.image.manifest.v1+json",
                         "config", "mediaType", "application/vnd.oci.image.config.v1+json", "digest", config_digest, "size",
                         (json_int_t)config_size, "layers", list);
    return manifest ? sb_json_dump(manifest) : NULL;
}
