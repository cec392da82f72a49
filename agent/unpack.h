/* SPDX-License-Identifier: Apache-2.0
 * The inside of the unpack helper: what its files share. A worker that fails reports and ends at once (au_fail): it has
 * nothing to undo, its parent removes what it wrote. */
#ifndef SB_AGENT_UNPACK_H
#define SB_AGENT_UNPACK_H

#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>

#include <nettle/sha2.h>
#include <sandbox.h>
#include <unpack-plan.h>

/* ---- unpack-report.c: records to the library */
/* Fills the result's code and message, sends it and ends the process. */
void au_fail(int code, int sys_errno, const char *hint, const char *format, ...)
    __attribute__((noreturn, format(printf, 4, 5)));
/* An errno while the destination was written: ENOSPC and the like keep their code. */
void au_fail_errno(int sys_errno, const char *format, ...) __attribute__((noreturn, format(printf, 2, 3)));
void au_send_result(struct sb_unpack_result *result);
void au_send(const void *record, size_t size);
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

/* ---- unpack-path.c */
enum { AU_PATH_MAX = 4096, AU_DEPTH_MAX = 128 };
/* Without "/" at the ends, "//" and "."; "" is the root. Returns NULL or why it is refused. */
const char *au_path_clean(const char *path, char clean[AU_PATH_MAX]);
/* The part after the last "/"; *ret_parent gets what is before it ("" for none). */
const char *au_path_split(const char *clean, char parent[AU_PATH_MAX]);

/* ---- unpack-tree.c: a destination folder that entries are written into */
struct au_tree {
    int root;   /* the destination, a real (not O_PATH) descriptor */
    int parent; /* the folder of the last entry, O_PATH */
    char parent_path[AU_PATH_MAX];
    const struct sb_idmap *map;
    struct au_times *times; /* folders' times, set at the end */
    size_t n_times, room_times, times_bytes;
    char **implied;         /* folders made because something lies in them */
    size_t n_implied, implied_bytes;
    int64_t bytes, skipped, xattrs_skipped;
    int root_opaque;
    int64_t file_end; /* of what was written to the file under way */
};
struct au_meta {
    const char *shown; /* the entry's name in messages */
    mode_t mode;       /* permission bits only */
    int64_t uid, gid;
    struct timespec mtime;
    int n_xattrs;
    const char *const *xattr_names;
    const void *const *xattr_values;
    const size_t *xattr_sizes;
};
void au_tree_init(struct au_tree *tree, int root, const struct sb_idmap *map);
/* The folder for an entry at `clean`, made when missing; base name by *ret_name. */
int au_tree_parent(struct au_tree *tree, const char *clean, const char *shown, const char **ret_name);
void au_tree_directory(struct au_tree *tree, const char *clean, const struct au_meta *meta);
/* An empty new file, to be written and then finished. */
int au_tree_file(struct au_tree *tree, const char *clean, const struct au_meta *meta);
void au_tree_file_finish(struct au_tree *tree, int fd, int64_t size, const struct au_meta *meta);
/* Writes at an offset, leaving zeros out. */
void au_tree_write(struct au_tree *tree, int fd, const void *data, size_t size, int64_t offset, const struct au_meta *meta);
void au_tree_symlink(struct au_tree *tree, const char *clean, const char *target, const struct au_meta *meta);
void au_tree_hardlink(struct au_tree *tree, const char *clean, const char *target, const struct au_meta *meta);
void au_tree_fifo(struct au_tree *tree, const char *clean, const struct au_meta *meta);
/* `.wh.name` and `.wh..wh..opq`: `clean` is the path with that last part. */
void au_tree_whiteout(struct au_tree *tree, const char *clean, const char *shown);
/* Folders' times; the implied ones are reported; everything on disk. */
void au_tree_finish(struct au_tree *tree);

/* ---- the jobs; each sends its result */
void au_job_document(const struct sb_unpack_plan *plan);
void au_job_scan(const struct sb_unpack_plan *plan);
void au_job_inflate(const struct sb_unpack_plan *plan);
void au_job_layer(const struct sb_unpack_plan *plan, int root);
void au_job_pack(const struct sb_unpack_plan *plan, int out);
void au_job_remove(const struct sb_unpack_plan *plan);
void au_job_adopt(const struct sb_unpack_plan *plan);

#endif
