/* SPDX-License-Identifier: Apache-2.0
 * See g-oci.h. */
#include "g-oci.h"

#include <nettle/sha2.h>
#include <oci.h>
#include <sbtest.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

void digest_of(const void *data, size_t size, char digest[DIGEST])
{
    struct sha256_ctx sha;
    unsigned char raw[SHA256_DIGEST_SIZE];

    sha256_init(&sha);
    sha256_update(&sha, size, data);
    sha256_digest(&sha, sizeof raw, raw);
    memcpy(digest, "sha256:", 7);
    for (size_t i = 0; i < sizeof raw; i++)
        snprintf(digest + 7 + 2 * i, 3, "%02x", raw[i]);
}

const char *layout_blob(const struct layout *layout, const char *digest)
{
    static char paths[4][700];
    static unsigned int turn;
    char *path = paths[turn++ % 4];

    snprintf(path, sizeof paths[0], "%s/blobs/sha256/%s", layout->folder, digest + 7);
    return path;
}

static void put_text(struct layout *layout, const char *text, char digest[DIGEST], size_t *size)
{
    *size = strlen(text);
    digest_of(text, *size, digest);
    save(layout_blob(layout, digest), text, *size);
}

static const char *in(const struct layout *layout, const char *name)
{
    static char path[700];

    snprintf(path, sizeof path, "%s/%s", layout->folder, name);
    return path;
}

void layout_write(struct layout *layout, struct tar *tar)
{
    const char *layer_type = layout->layer_type ? layout->layer_type : "application/vnd.oci.image.layer.v1.tar";
    const char *layout_text = layout->layout_text ? layout->layout_text : "{\"imageLayoutVersion\":\"1.0.0\"}";
    char text[4096];

    mkdir(layout->folder, 0755);
    mkdir(in(layout, "blobs"), 0755);
    mkdir(in(layout, "blobs/sha256"), 0755);
    layout->layer_size = tar->size;
    digest_of(tar->data, tar->size, layout->layer);
    memcpy(layout->diff_id, layout->layer, DIGEST);
    tar_save(tar, layout_blob(layout, layout->layer));
    snprintf(text, sizeof text, "{\"architecture\":\"%s\",\"os\":\"linux\",\"config\":{\"Env\":[\"A=1\"]},"
             "\"rootfs\":{\"type\":\"layers\",\"diff_ids\":[\"%s\"]}}",
             layout->architecture ? layout->architecture : sb_oci_architecture(), layout->diff_id_text ? layout->diff_id_text : layout->diff_id);
    put_text(layout, layout->config_text ? layout->config_text : text, layout->config, &layout->config_size);
    snprintf(text, sizeof text,
             "{\"schemaVersion\":2,\"mediaType\":\"application/vnd.oci.image.manifest.v1+json\",\"config\":{\"mediaType\":"
             "\"application/vnd.oci.image.config.v1+json\",\"digest\":\"%s\",\"size\":%zu},"
             "\"layers\":[{\"mediaType\":\"%s\",\"digest\":\"%s\",\"size\":%lld}]}",
             layout->config, layout->config_size, layer_type, layout->layer, (long long)layout->layer_size + layout->layer_size_add);
    put_text(layout, layout->manifest_text ? layout->manifest_text : text, layout->manifest, &layout->manifest_size);
    snprintf(text, sizeof text, "{\"schemaVersion\":2,\"manifests\":[{\"mediaType\":\"%s\",\"digest\":\"%s\",\"size\":%lld}]}",
             layout->manifest_type ? layout->manifest_type : "application/vnd.oci.image.manifest.v1+json", layout->manifest,
             (long long)layout->manifest_size + layout->manifest_size_add);
    save(in(layout, "index.json"), layout->index_text ? layout->index_text : text, strlen(layout->index_text ? layout->index_text : text));
    save(in(layout, "oci-layout"), layout_text, strlen(layout_text));
}
