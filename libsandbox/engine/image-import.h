/* SPDX-License-Identifier: Apache-2.0
 * One import under way, for image-import*.c only. */
#ifndef SB_ENGINE_IMAGE_IMPORT_H
#define SB_ENGINE_IMAGE_IMPORT_H

#include "helper.h"
#include "image-bundle.h"
#include "image-store.h"

#include <sys/stat.h>

enum import_state {
    IMPORT_SCAN,     /* reading a tar's table of contents */
    IMPORT_INFLATE,  /* a compressed image archive into a nameless file */
    IMPORT_LAYOUT,   /* reading oci-layout */
    IMPORT_INDEX,    /* reading index.json or an index blob */
    IMPORT_MANIFEST, /* reading the manifest */
    IMPORT_CONFIG,   /* reading the config */
    IMPORT_DOCKER,   /* reading a docker archive's manifest.json */
    IMPORT_HASH,     /* learning a root file system tar's diff id: it may be here already */
    IMPORT_LAYER,    /* unpacking layer number `layer` */
    IMPORT_ADOPT,    /* completing its folders from the layers below */
    IMPORT_MADE_CONFIG,   /* hashing the config that was made */
    IMPORT_MADE_MANIFEST, /* hashing the manifest that was made */
    IMPORT_NAMED,       /* pull: reading what the name leads to, an index or a manifest */
    IMPORT_FOUND,       /* pull: it is here already */
    IMPORT_CREDENTIALS, /* pull: a credential helper runs */
    IMPORT_FETCH,       /* pull: a document is on its way */
    IMPORT_WAIT,        /* pull: layer number `layer` is on its way */
    IMPORT_DISCARD   /* removing a folder in layers/ */
};

enum import_kind { IMPORT_ROOTFS, IMPORT_OCI, IMPORT_DOCKER_ARCHIVE };

struct sb_import {
    struct sb_op op;
    struct sb_images *images;
    int format;
    char *name, *select;
    char digest[SB_DIGEST_SIZE]; /* promised; "": none */
    int64_t max_bytes, max_entries, bytes_left, entries_left;

    int source; /* -1 once the bundle owns it */
    int is_folder;
    int64_t source_size;
    unsigned int folder_flags;

    enum import_state state;
    enum import_kind kind;
    struct sb_helper helper;
    int dest;                    /* the locked folder that is being unpacked into, or removed */
    char temporary[NAME_MAX + 1]; /* its name; "": none */
    int spool;                   /* INFLATE */

    struct sb_bundle bundle;
    struct sb_oci_descriptor descriptor;
    int index_depth;
    struct sb_oci_manifest manifest;
    struct sb_oci_config config;
    struct sb_oci_docker docker;

    struct sb_image_record record; /* grows while the import goes on */
    size_t layer;
    struct sb_layer unpacked; /* that layer, between unpacking and commit */
    int made; /* this import unpacked a layer */

    int hold;        /* sb_layers_hold() */
    struct sb_image_pull *pull; /* image-pull.h; NULL: what is imported is here */
    json_t *discard; /* names in layers/ still to be removed */
    int cancelled;
    int pull_failed; /* the code, while the unpack helper is still to end */
    int ending;      /* the outcome is known; what is left is being removed */
    int restarts;    /* because another process removed a layer meanwhile */
    int result;      /* the outcome */
    struct sandbox_error *failure;
};

/* ---- image-import.c: the machinery */
/* An operation that hasn't begun: 0 and *ret_import, whose `begin` is the caller's. */
int sb_import_new(struct sb_images *images, struct sb_import **ret_import, struct sandbox_error **error);
/* What imports and pulls share of their options. */
int sb_import_take_options(struct sb_import *import, const char *name, const char *digest, int64_t max_bytes, int64_t max_entries,
                           struct sandbox_error **error);
/* Keeps what is here from being taken away. */
int sb_import_hold(struct sb_import *import, struct sandbox_error **error);
/* One whose outcome is known already, and which only removes what lies in layers/ under these names (taken over). */
void sb_import_only_discard(struct sb_import *import, json_t *names);
/* One that could not begin. */
void sb_import_abandon(struct sb_import *import);
/* Starts the helper for a state. `window` NULL: no source but `source`. */
int sb_import_run(struct sb_import *import, enum import_state state, enum sb_unpack_job job, const struct sb_window *window,
                  const char *digest, struct sandbox_error **error);
/* A document of the bundle, or (name NULL) a blob. */
int sb_import_read(struct sb_import *import, enum import_state state, const char *name, const struct sb_oci_descriptor *blob,
                   struct sandbox_error **error);
/* A job whose source is a text made here. */
int sb_import_run_on_text(struct sb_import *import, enum import_state state, enum sb_unpack_job job, const char *text, size_t size,
                          struct sandbox_error **error);
/* These return 0 when a job runs, or the import is complete (op.image is set). */
int sb_import_next_layer(struct sb_import *import, struct sandbox_error **error);
int sb_import_rootfs(struct sb_import *import, struct sandbox_error **error);
int sb_import_commit(struct sb_import *import, struct sandbox_error **error);
/* When the folder for unpacking is still there: starts removing it and returns 1. 0: it is not; negative: failed. */
int sb_import_discard_folder(struct sb_import *import, struct sandbox_error **error);

/* ---- image-import-steps.c: what follows when a state's job has succeeded */
int sb_import_finished(struct sb_import *import, struct sandbox_error **error);
int sb_import_begin_bundle(struct sb_import *import, struct sandbox_error **error);

#endif
