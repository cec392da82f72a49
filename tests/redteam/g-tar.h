/* SPDX-License-Identifier: Apache-2.0
 * A tar writer that writes what it is told, also what no honest archiver writes. */
#ifndef G_TAR_H
#define G_TAR_H

#include <stddef.h>
#include <stdint.h>

struct tar {
    char *data;
    size_t size, room;
};

struct tar_entry {
    const char *name;
    char type;            /* 0: a file */
    const char *link;
    const char *data;     /* a text; NULL: none */
    int mode;             /* 0: 0644; -1: 0000 */
    unsigned int uid, gid;
    long long mtime;
    unsigned int major, minor;
    const char *size_field; /* 12 bytes as they are, instead of the data's size */
    long long zeros;        /* this many zero bytes are the data */
};

void tar_put(struct tar *tar, const struct tar_entry *entry);
#define TAR(tar, ...) tar_put(tar, &(const struct tar_entry){ __VA_ARGS__ })
/* A pax record for the next entry. */
void tar_pax(struct tar *tar, const char *key, const void *value, size_t size);
void tar_end(struct tar *tar);
void tar_raw(struct tar *tar, const void *data, size_t size);
/* Writes it to a file and empties it. */
void tar_save(struct tar *tar, const char *path);
/* The same, compressed by zlib's gzip form, by zstd or by xz. */
void tar_save_gzip(struct tar *tar, const char *path);
void tar_save_zstd(struct tar *tar, const char *path);
void tar_save_xz(struct tar *tar, const char *path);
void save(const char *path, const void *data, size_t size);

#endif
