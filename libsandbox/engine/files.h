/* SPDX-License-Identifier: Apache-2.0
 * A conversation with a sandbox's file server: files.c (quick calls, listings) and transfer.c (uploads, downloads). */
#ifndef SB_ENGINE_FILES_H
#define SB_ENGINE_FILES_H

#include "engine.h"

#include <files-plan.h>

struct sb_files {
    int link;    /* to init; closing it ends the server */
    int channel; /* to the server */
    int silent;  /* its end of the channel is closed */
    int ended;   /* init says that it has ended */
    union {
        struct sb_files_head head;
        struct sb_files_info info;
        struct sb_files_data data;
        struct sb_files_entries entries;
        struct sb_files_progress progress;
        struct sb_files_done done;
        char bytes[SB_FILES_PACKET_MAX];
    } record; /* the last one: its size and type were checked, and what it holds */
};
#define SB_FILES_INIT { .link = -1, .channel = -1 }

/* What a request that says nothing says. */
#define SB_FILES_REQUEST_INIT { .mode = -1, .uid = -1, .gid = -1, .mtime_ns = INT64_MIN, .max_bytes = -1, .max_entries = -1 }

/* Sends the request (completed: magic, sizes). data -1: none; it is duplicated. */
int sb_files_open(struct sb_engine *engine, const char *id, struct sb_files_request *q, const char *path, const char *other, int data,
                  struct sb_files *files, struct sandbox_error **error);
/* The next record without waiting: 0 (its type is in files->record; never DONE with a failure), 1: none is there yet (poll link and
 * channel), negative: the server failed, or is no more. */
int sb_files_next(struct sb_files *files, struct sandbox_error **error);
/* The same, waited for until the deadline: ETIMEDOUT; ECLOSED. */
int sb_files_await(struct sb_files *files, struct sb_engine *engine, int64_t deadline, struct sandbox_error **error);
void sb_files_close(struct sb_files *files);

/* What a server says of a file, checked. */
int sb_files_take_stat(const struct sb_files_stat *stat, struct sandbox_file_info *ret, struct sandbox_error **error);

#endif
