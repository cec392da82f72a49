/* SPDX-License-Identifier: Apache-2.0
 * An upload or a download under way: a conversation with the sandbox's file server, and perhaps a helper process that packs or unpacks
 * a folder of this machine. transfer.c drives both; upload.c and download.c begin and conclude. */
#ifndef SB_ENGINE_TRANSFER_H
#define SB_ENGINE_TRANSFER_H

#include "files.h"
#include "helper.h"
#include "temporary.h"

struct sb_transfer {
    struct sb_op op;
    struct sb_engine *engine;
    char id[SB_ID_SIZE];
    struct sb_files files;
    struct sb_helper helper;
    int talking, helping; /* 1: the server, the helper has not ended */
    int muted;            /* the channel is not polled any more */
    int timer;            /* of a cancel; -1: none */
    int cancelled;
    int server_code, helper_code;
    struct sandbox_error *server_error, *helper_error;
    int has_stat;
    struct sandbox_file_info stat; /* what the server said of the file */
    /* Both ended well: 0: done, 1: something more was begun, negative. */
    int (*conclude)(struct sb_transfer *t, struct sandbox_error **error);
    void (*release)(struct sb_transfer *t); /* what conclude uses; NULL: nothing */
    /* download.c */
    struct sandbox_download_options options;
    char *source, *top, *target;
    int parent, file;       /* of the target on this machine; -1: none */
    char name[256];         /* the target's last part */
    char temporary[SB_TEMPORARY_SIZE]; /* where the file has a name meanwhile; "": none */
    int stage;
};

struct sb_transfer *sb_transfer_new(struct sb_engine *engine, const char *id, const char *phase, struct sandbox_error **error);
void sb_transfer_free(struct sb_transfer *t);
/* Begins a conversation. */
int sb_transfer_ask(struct sb_transfer *t, struct sb_files_request *q, const char *path, const char *other, int data,
                    struct sandbox_error **error);
/* Begins a run of the helper; descriptors are borrowed. */
int sb_transfer_help(struct sb_transfer *t, struct sb_unpack_plan *plan, int source, int dest, int parent, struct sandbox_error **error);

#endif
