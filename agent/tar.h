/* SPDX-License-Identifier: Apache-2.0
 * A tar being read: see tar.c. */
#ifndef SB_AGENT_TAR_H
#define SB_AGENT_TAR_H

#include "pack.h"

enum { TAR_BUFFER = 256 << 10, TAR_XATTRS_MAX = 64 };

struct ag_tar_part {
    int64_t offset, size;
};

/* What extended headers say of an entry; strings are malloc'ed or NULL. */
struct ag_tar_values {
    char *path, *link, *sparse_name;
    int64_t uid, gid, size, real_size; /* -1: not said */
    struct timespec mtime;
    int has_mtime;
    int sparse_major, sparse_minor;    /* -1: not said */
    char *xattr_names[TAR_XATTRS_MAX];
    char *xattr_values[TAR_XATTRS_MAX];
    size_t xattr_sizes[TAR_XATTRS_MAX];
    size_t n_xattrs;
    struct ag_tar_part *parts;
    size_t n_parts, room_parts;
    int64_t part_offset; /* of form 0.0: its size is still to come; -1: none */
};

struct ag_tar_entry {
    const char *path, *link; /* never NULL */
    char type;               /* '0' file, '1' hard link, '2' symbolic link, '5' folder, '6' fifo, '3' and '4' devices */
    mode_t mode;
    int64_t uid, gid;
    int64_t size;            /* of the file */
    struct timespec mtime;
    const struct ag_tar_values *values; /* attributes */
    const struct ag_tar_part *parts;    /* NULL: its data is the file, without holes */
    size_t n_parts;
};

struct ag_tar {
    int fd;
    int64_t done;     /* bytes taken of the stream */
    int64_t body;     /* of the entry's data: not yet read; then come `padding` bytes */
    size_t padding;
    int64_t entries;
    size_t at, have;
    struct ag_tar_values own, global;
    struct ag_tar_entry entry;
    char name[260], link[104];
    unsigned char *buffer;
};

void ag_tar_init(struct ag_tar *tar, int fd);
/* The next entry, or NULL at the archive's end. What was not read of the last one's data is passed over. */
const struct ag_tar_entry *ag_tar_next(struct ag_tar *tar);
/* The next bytes of the entry's data, at most `most`: count, 0 at their end. */
size_t ag_tar_read(struct ag_tar *tar, const void **ret_data, int64_t most);
/* Up to the stream's end, so that who writes it isn't cut off. */
void ag_tar_drain(struct ag_tar *tar);

/* ---- tar-pax.c */
void ag_tar_values_clear(struct ag_tar_values *v);
/* Takes the records of an extended header in. */
void ag_pax_parse(struct ag_tar_values *v, char *text, size_t size);
void ag_tar_add_part(struct ag_tar_values *v, int64_t offset, int64_t size);
/* Reads the map of form 1.0 from the entry's data. */
void ag_tar_read_map(struct ag_tar *tar);

#endif
