/* SPDX-License-Identifier: Apache-2.0
 * The inside of the unpack helper: what its files share. A worker that fails reports and ends at once (au_fail): it has
 * nothing to undo, its parent removes what it wrote. */
#ifndef SB_AGENT_UNPACK_H
#define SB_AGENT_UNPACK_H

#include "tree.h"

#include <nettle/sha2.h>
#include <unpack-plan.h>

/* ---- unpack-report.c: records to the library */
/* A folder in PARENT that goes when this very process fails before its worker has begun. */
extern const char *au_empty_folder;
void au_send_result(struct sb_unpack_result *result);
void au_send(const void *record, size_t size);
/* Whether au_note() tells the library; else the unpacking side does. */
extern int au_notes;
/* At most ten a second, dropped when the library is behind. */
void au_progress(enum sb_unpack_phase phase, int64_t done, int64_t entries);
void au_digest_text(struct sha256_ctx *sha, char text[SB_UNPACK_DIGEST_SIZE]);

/* ---- unpack-confine.c: what a worker gives up before it reads a byte */
enum au_role { AU_ROLE_READER, AU_ROLE_WRITER, AU_ROLE_PACKER, AU_ROLE_REMOVER, AU_ROLE_ADOPTER };
/* `dest` is the folder that may be written (-1: none); `source` the one that may be read (-1: none). */
void au_confine(enum au_role role, const struct sb_unpack_plan *plan, int source, int dest);

/* ---- unpack-source.c: the bytes of the source, hashed and decompressed */
struct archive;
struct au_source {
    int fd;
    int seekable;          /* a file: read at `offset`; else a pipe */
    int64_t offset, left;  /* left -1: to the end */
    int64_t bytes;         /* read so far */
    struct sha256_ctx sha;
    unsigned char buffer[65536];
};
struct au_stream {
    struct au_source source;
    struct archive *inflate; /* decompresses; its format is "raw" */
    int64_t bytes, max_bytes;
    int64_t *entries;        /* for progress */
    enum sb_unpack_phase phase;
    struct sha256_ctx sha;
    int compressed;
    int at_end;
    int has_diff_id, padded;
};
void au_source_init(struct au_source *source, const struct sb_unpack_plan *plan);
/* The next bytes: count, 0 at the end. */
size_t au_source_read(struct au_source *source, const void **ret_data);
/* Reads all of the window and compares with plan->digest, before anything parses it. */
void au_source_verify(const struct sb_unpack_plan *plan);
void au_stream_init(struct au_stream *stream, const struct sb_unpack_plan *plan, enum sb_unpack_phase phase);
/* The next decompressed bytes: count, 0 at the end. */
size_t au_stream_read(struct au_stream *stream, const void **ret_data);
/* Reads what is left of the stream and of the source, so that the digests cover all; fills the result. */
void au_stream_finish(struct au_stream *stream, const struct sb_unpack_plan *plan, struct sb_unpack_result *result);
/* A tar reader on a stream. */
struct archive *au_tar_open(struct au_stream *stream);

/* ---- the jobs; each sends its result */
void au_job_document(const struct sb_unpack_plan *plan);
void au_job_scan(const struct sb_unpack_plan *plan);
void au_job_inflate(const struct sb_unpack_plan *plan);
void au_job_layer(const struct sb_unpack_plan *plan, int root);
void au_job_pack(const struct sb_unpack_plan *plan, int out);
void au_job_pack_live(const struct sb_unpack_plan *plan, int out);
/* Its success is told by the helper, once the folder has its name. */
void au_job_tree(const struct sb_unpack_plan *plan, int root);
void au_job_remove(const struct sb_unpack_plan *plan);
void au_job_adopt(const struct sb_unpack_plan *plan);

#endif
