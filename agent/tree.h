/* SPDX-License-Identifier: Apache-2.0
 * Folders written entry by entry, and read into a tar: what the unpack helper and a sandbox's file server share. Each of the two programs
 * brings its own au_fail(): whoever fails says why and ends at once. */
#ifndef SB_AGENT_TREE_H
#define SB_AGENT_TREE_H

#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>

#include <idmap.h>
#include <sandbox.h>

/* ---- unpack-report.c, files-report.c */
/* Tells code and message and ends the process. */
void au_fail(int code, int sys_errno, const char *hint, const char *format, ...)
    __attribute__((noreturn, format(printf, 4, 5)));
/* An errno while the destination was written: ENOSPC and the like keep their code. */
void au_fail_errno(int sys_errno, const char *format, ...) __attribute__((noreturn, format(printf, 2, 3)));

/* Waits until a descriptor that somebody else made non-blocking can be read (POLLIN) or written. 0 or -errno. */
int au_wait(int fd, short events);
/* How far au_pack() or an unpacking came: bytes of content, entries. */
void au_note(int64_t bytes, int64_t entries);

/* ---- unpack-path.c */
enum { AU_PATH_MAX = 4096, AU_DEPTH_MAX = 128 };
/* Without "/" at the ends, "//" and "."; "" is the root. Returns NULL or why it is refused. */
const char *au_path_clean(const char *path, char clean[AU_PATH_MAX]);
/* The part after the last "/"; *ret_parent gets what is before it ("" for none). */
const char *au_path_split(const char *clean, char parent[AU_PATH_MAX]);

/* ---- unpack-tree.c: a destination folder that entries are written into */
struct au_times {
    char *path;
    struct timespec mtime;
};
struct au_tree {
    int root;   /* the destination, a real (not O_PATH) descriptor */
    int live;   /* au_tree_init_live() */
    int root_made; /* live: the destination is new: an entry for it says how it is to be */
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
/* A fresh folder that nobody else can reach, which becomes a layer of an overlay. */
void au_tree_init(struct au_tree *tree, int root, const struct sb_idmap *map);
/* Any folder: others write there, too; it holds files that are none of the archive's; nothing in it is a sign for overlayfs. A folder that
 * is there is kept and never takes another thing's place, nor the other way round; nothing is flushed to the disk. */
void au_tree_init_live(struct au_tree *tree, int root, const struct sb_idmap *map);
/* Removes the file that is being written, if one is: for au_fail() and a handler of signals. */
void au_tree_drop_partial(void);
/* This is one; dir -1: there is none. */
void au_tree_note_partial(int dir, const char *name);
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
/* Folders' times; everything on disk. */
void au_tree_finish(struct au_tree *tree);

/* ---- unpack-pack.c: a folder as a tar */
struct au_pack {
    int source;            /* the folder; or of another thing the folder it lies in, */
    const char *name;      /* and its name (NULL: a folder) */
    int out;
    const char *top;       /* what the first entry is called: "." or a name */
    int live;              /* it changes meanwhile: what vanishes is left out. Holes stay holes; what is mounted in it belongs to it, but for
                            * the kernel's own file systems; devices are refused. Else: the same bytes for the same content */
    int one_owner;         /* everything belongs to 0:0 */
    int64_t own_uid, own_gid; /* become 0; -1: none does */
    const struct sb_idmap *range; /* ids are those of this range of the machine's; NULL: they are as they are seen */
    dev_t dest_dev;        /* a folder that is left out, should it lie in the source */
    ino_t dest_ino;
    int64_t max_bytes, max_entries; /* -1: any */
};
void au_pack(const struct au_pack *how);

#endif
