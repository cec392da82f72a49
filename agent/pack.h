/* SPDX-License-Identifier: Apache-2.0
 * A tar under way: what unpack-pack.c and unpack-sparse.c share. Also the form of its headers, for the reader. */
#ifndef SB_AGENT_PACK_H
#define SB_AGENT_PACK_H

#include "tree.h"

#include <limits.h>

enum { TAR_BLOCK = 512 };

struct ustar {
    char name[100], mode[8], uid[8], gid[8], size[12], mtime[12], checksum[8], type, link[100], magic[6], version[2];
    char uname[32], gname[32], major[8], minor[8], prefix[155], padding[12];
};

struct inode {
    dev_t dev;
    ino_t ino;
    char *path;
};

struct au_packing {
    const struct au_pack *how;
    uint64_t mount;       /* others mounted below are not entered, but in a live folder */
    struct inode *inodes; /* those with several names: open addressing */
    size_t n_inodes, room_inodes;
    int64_t bytes, entries;
    char path[AU_PATH_MAX + NAME_MAX + 8];
    size_t used;
    unsigned char buffer[65536];
    char pax[262144];
    size_t pax_used;
};

/* ---- unpack-pack.c */
void au_pack_put(struct au_packing *pack, const void *data, size_t size);
void au_pack_pad(struct au_packing *pack, int64_t size);
void au_pax_add(struct au_packing *pack, const char *key, const void *value, size_t size);
/* The header of an entry. `map_size`: of a file with holes, its bytes of map and data; else -1. */
void au_pack_entry(struct au_packing *pack, const struct stat *st, char type, const char *link, int fd, int64_t map_size);
void au_pack_body(struct au_packing *pack, int fd, int64_t size);
/* What is called pack->path, with its data, or as another name of what was packed before. -1: it is a folder or device by now. */
int au_pack_child(struct au_packing *pack, int dir, const char *name);
void au_pack_end(struct au_packing *pack);

/* ---- unpack-sparse.c: 1: written; 0: it has no holes to speak of, nothing was written */
int au_pack_sparse(struct au_packing *pack, int fd, const struct stat *st);

#endif
