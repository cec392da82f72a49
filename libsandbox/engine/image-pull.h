/* SPDX-License-Identifier: Apache-2.0
 * A pull is an import (image-import.h) whose documents and layers come from a registry: what the import wants next is asked of the pull
 * helper, all layers at once, and unpacked as it comes, from the lowest on. For image-import*.c and image-pull.c only. */
#ifndef SB_ENGINE_IMAGE_PULL_H
#define SB_ENGINE_IMAGE_PULL_H

#include "image-credentials.h"
#include "image-import.h"
#include "puller.h"

#include <reference.h>

enum sb_pull_layer_state {
    SB_LAYER_UNWANTED = 0, /* not asked for yet, or done with */
    SB_LAYER_BUSY,         /* another pull is at it */
    SB_LAYER_ASKED,
};

struct sb_pull_layer {
    enum sb_pull_layer_state state;
    int fd;
    int own; /* a nameless file */
    size_t item;
    int64_t seen_size, seen_ms; /* BUSY: of the other pull's file, and when it had grown last */
};

struct sb_image_pull {
    struct sb_reference reference;
    struct sb_puller puller;
    struct sb_pull_plan plan;
    struct sb_credential_search search;
    int ca;
    int timer; /* fires again and again while a layer is BUSY */

    enum import_state then; /* FETCH: what the document is */
    size_t item;
    int document;
    struct sb_oci_descriptor wanted;

    struct sb_pull_layer *layers; /* as many as the manifest has; NULL: not yet */
    int64_t total;
};

/* Asks for a document; what it is comes next. */
int sb_pull_fetch(struct sb_import *import, enum import_state then, const struct sb_oci_descriptor *blob, struct sandbox_error **error);
/* Layer number `layer`: 0 and a window on it; 1: the import waits for it (IMPORT_WAIT). */
int sb_pull_open_layer(struct sb_import *import, struct sb_window *ret, struct sandbox_error **error);
/* That layer is unpacked. */
void sb_pull_drop_layer(struct sb_import *import);
/* The image with this manifest is recorded, and all its layers are here: the record is taken over. */
int sb_pull_is_here(struct sb_import *import);
/* Names the image as it was asked for. */
int sb_pull_name(struct sb_import *import, struct sandbox_error **error);
int sb_pull_step(struct sb_import *import, struct sandbox_error **error);
int sb_pull_is_waiting(const struct sb_import *import);
/* What was waited for may be there: goes on with it. */
int sb_pull_advance(struct sb_import *import, struct sandbox_error **error);
/* 0: nothing is on its way any more. */
int sb_pull_show_progress(struct sb_import *import);
/* The helpers end, the files are let go of. */
void sb_pull_end(struct sb_import *import);
int sb_pull_alive(struct sb_import *import);
void sb_pull_free(struct sb_import *import);

#endif
