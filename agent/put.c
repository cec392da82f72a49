/* SPDX-License-Identifier: Apache-2.0
 * A tar unpacked into a live folder, of a sandbox or of this machine. What it says is hostile: names are made plain, nothing leaves the
 * folder (unpack-tree.c), and what can't be done as it says is an error that names the entry. */
#include "put.h"
#include "tar.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct putting {
    const struct au_put *how;
    struct ag_tar tar;
    struct au_tree tree;
    int64_t bytes;
    const char *names[TAR_XATTRS_MAX];
    const void *values[TAR_XATTRS_MAX];
    char shown[256];
};

static void read_meta(struct putting *p, const struct ag_tar_entry *e, struct au_meta *meta)
{
    const struct au_put *how = p->how;

    for (size_t i = 0; i < e->values->n_xattrs; i++) {
        p->names[i] = e->values->xattr_names[i];
        p->values[i] = e->values->xattr_values[i];
    }
    *meta = (struct au_meta){
        .shown = p->shown, .mode = how->tame ? e->mode & 01777 : e->mode, .mtime = e->mtime,
        .uid = how->uid >= 0 ? how->uid : e->uid, .gid = how->gid >= 0 ? how->gid : e->gid,
        .n_xattrs = (int)e->values->n_xattrs, .xattr_names = p->names, .xattr_values = p->values, .xattr_sizes = e->values->xattr_sizes,
    };
    if (how->mode >= 0 && e->type != '5')
        meta->mode = (mode_t)how->mode & 07777;
}

static void put_data(struct putting *p, int fd, int64_t offset, int64_t size, const struct au_meta *meta)
{
    const void *data;
    size_t n;

    while (size > 0 && (n = ag_tar_read(&p->tar, &data, size)) > 0) {
        au_tree_write(&p->tree, fd, data, n, offset, meta);
        offset += (int64_t)n;
        size -= (int64_t)n;
        p->bytes += (int64_t)n;
        au_note(p->bytes, p->tar.entries);
    }
}

static void put_file(struct putting *p, const struct ag_tar_entry *e, const char *clean, const struct au_meta *meta)
{
    const struct au_put *how = p->how;
    int fd;

    if (how->max_bytes >= 0 && e->size > how->max_bytes - p->bytes)
        au_fail(SANDBOX_ELIMIT, 0, "raise max_bytes", "the archive's files are larger than %lld bytes ('%s' alone has %lld)",
                (long long)how->max_bytes, p->shown, (long long)e->size);
    fd = au_tree_file(&p->tree, clean, meta);
    if (e->parts) {
        for (size_t i = 0; i < e->n_parts; i++)
            put_data(p, fd, e->parts[i].offset, e->parts[i].size, meta);
    } else {
        put_data(p, fd, 0, e->size, meta);
    }
    au_tree_file_finish(&p->tree, fd, e->size, meta);
}

static void put_hardlink(struct putting *p, const struct ag_tar_entry *e, const char *clean, const struct au_meta *meta)
{
    char target[AU_PATH_MAX];
    const char *why = au_path_clean(e->link, target);

    if (!why && !target[0])
        why = "is the folder itself";
    if (why)
        au_fail(SANDBOX_EDAMAGED, 0, NULL, "the archive's entry '%s' is a hard link whose target %s", p->shown, why);
    au_tree_hardlink(&p->tree, clean, target, meta);
}

static void put_entry(struct putting *p, const struct ag_tar_entry *e)
{
    char clean[AU_PATH_MAX];
    struct au_meta meta;
    const char *why;

    snprintf(p->shown, sizeof p->shown, "%s", e->path);
    why = e->path[0] == '/' ? "has an absolute name" : e->path[0] ? au_path_clean(e->path, clean) : "has no name";
    if (why)
        au_fail(strchr(why, '"') || e->path[0] == '/' || !e->path[0] ? SANDBOX_EDAMAGED : SANDBOX_ELIMIT, 0, NULL, "the archive's entry '%s' %s",
                p->shown, why);
    if (!clean[0] && e->type != '5')
        au_fail(SANDBOX_EDAMAGED, 0, NULL, "the archive's entry '%s' puts something in place of the folder", p->shown);
    read_meta(p, e, &meta);
    switch (e->type) {
    case '0':
        put_file(p, e, clean, &meta);
        break;
    case '1':
        put_hardlink(p, e, clean, &meta);
        break;
    case '2':
        au_tree_symlink(&p->tree, clean, e->link, &meta);
        break;
    case '5':
        au_tree_directory(&p->tree, clean, &meta);
        break;
    case '6':
        au_tree_fifo(&p->tree, clean, &meta);
        break;
    default:
        au_fail(SANDBOX_EUNSUPPORTED, 0, "leave devices out of it", "the archive's entry '%s' is a device", p->shown);
    }
    au_note(p->bytes, p->tar.entries);
}

void au_put(const struct au_put *how, int64_t *ret_bytes, int64_t *ret_entries)
{
    struct putting *p = calloc(1, sizeof *p);
    const struct ag_tar_entry *e;

    if (!p)
        au_fail(SANDBOX_ENOMEM, 0, NULL, "out of memory");
    p->how = how;
    au_tree_init_live(&p->tree, how->root, how->map);
    p->tree.root_made = how->root_made;
    ag_tar_init(&p->tar, how->in);
    while ((e = ag_tar_next(&p->tar))) {
        if (how->max_entries >= 0 && p->tar.entries > how->max_entries)
            au_fail(SANDBOX_ELIMIT, 0, "raise max_entries", "the archive has more than %lld entries", (long long)how->max_entries);
        put_entry(p, e);
    }
    au_tree_finish(&p->tree);
    ag_tar_drain(&p->tar);
    *ret_bytes = p->bytes;
    *ret_entries = p->tar.entries;
}
