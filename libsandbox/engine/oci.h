/* SPDX-License-Identifier: Apache-2.0
 * The documents of OCI and Docker images, checked: what they promise is taken only where it is unambiguous, and a document
 * that could be read in two ways (CVE-2021-41190) is refused. Pure functions on JSON; digests are checked by who read it. */
#ifndef SB_ENGINE_OCI_H
#define SB_ENGINE_OCI_H

#include <jansson.h>
#include <rules.h>
#include <sandbox.h>
#include <stddef.h>

#define SB_DIGEST_SIZE 72
enum { SB_OCI_LAYERS_MAX = 500 };

struct sb_oci_descriptor {
    char digest[SB_DIGEST_SIZE];
    int64_t size;
    int is_index; /* leads to another index, not to a manifest */
    char media_type[128];
};

struct sb_oci_manifest {
    struct sb_oci_descriptor config;
    size_t n_layers;
    struct sb_oci_descriptor *layers;
};

struct sb_oci_config {
    size_t n_layers;
    char (*diff_ids)[SB_DIGEST_SIZE];
};

/* One image of a docker archive: names within the archive. */
struct sb_oci_docker {
    char *config;
    size_t n_layers;
    char **layers;
};

/* This machine's architecture by OCI's name. */
const char *sb_oci_architecture(void);

int sb_oci_check_layout(const json_t *layout, struct sandbox_error **error);
/* The one image of an index that is meant: by reference name `select` (NULL: any) and this machine; the one with `digest` (NULL:
 * none is preferred) when there are several. */
int sb_oci_choose(const json_t *index, const char *select, const char *digest, struct sb_oci_descriptor *ret, struct sandbox_error **error);
/* Of one image's index for several machines: the first one for this machine (the one with `digest` if it is there), plain ones before
 * those for a variant of the processor. */
int sb_oci_choose_platform(const json_t *index, const char *digest, struct sb_oci_descriptor *ret, struct sandbox_error **error);
/* What a document that came without a usable type is: 1: an index, 0: a manifest; EDAMAGED, EUNSUPPORTED. `type` is what was said of it; the
 * type that it has is put into `ret`. */
int sb_oci_find_type(const json_t *document, const char *type, char ret[128], struct sandbox_error **error);
int sb_oci_read_manifest(const json_t *manifest, const char *media_type, struct sb_oci_manifest *ret, struct sandbox_error **error);
void sb_oci_manifest_clear(struct sb_oci_manifest *manifest);
/* n_layers: what the manifest has. */
int sb_oci_read_config(const json_t *config, size_t n_layers, struct sb_oci_config *ret, struct sandbox_error **error);
void sb_oci_config_clear(struct sb_oci_config *config);
int sb_oci_choose_docker(const json_t *manifest, const char *select, struct sb_oci_docker *ret, struct sandbox_error **error);
void sb_oci_docker_clear(struct sb_oci_docker *docker);

/* ---- oci-synth.c: documents for images that came without; the same for the same layers. malloc'ed, NULL: short memory. */
char *sb_oci_make_config(const char (*diff_ids)[SB_DIGEST_SIZE], size_t n);
struct sb_oci_made_layer {
    const char *diff_id;
    int64_t stream_bytes;
};
char *sb_oci_make_manifest(const char *config_digest, size_t config_size, const struct sb_oci_made_layer *layers, size_t n);

#endif
