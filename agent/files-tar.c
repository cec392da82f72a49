/* SPDX-License-Identifier: Apache-2.0
 * See files.c: tars, in and out. What an archive says is hostile: names are made plain, nothing leaves the folder (unpack-tree.c), and
 * what can't be done as it says is an error that names the entry. */
#include "files.h"
#include "tar.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <fs.h>
#include <util.h>

struct put {
    struct ag_files *f;
    struct ag_tar tar;
    struct au_tree tree;
    int64_t bytes;
    const char *names[TAR_XATTRS_MAX];
    const void *values[TAR_XATTRS_MAX];
    char shown[256];
};

static void read_meta(struct put *p, const struct ag_tar_entry *e, struct au_meta *meta)
{
    const struct sb_files_request *q = &p->f->q;
    int root_owns = q->flags & SB_FILES_ROOT_OWNS;

    for (size_t i = 0; i < e->values->n_xattrs; i++) {
        p->names[i] = e->values->xattr_names[i];
        p->values[i] = e->values->xattr_values[i];
    }
    *meta = (struct au_meta){
        .shown = p->shown, .mode = e->mode, .mtime = e->mtime,
        .uid = q->uid >= 0 ? q->uid : root_owns ? 0 : e->uid, .gid = q->gid >= 0 ? q->gid : root_owns ? 0 : e->gid,
        .n_xattrs = (int)e->values->n_xattrs, .xattr_names = p->names, .xattr_values = p->values, .xattr_sizes = e->values->xattr_sizes,
    };
    if (q->mode >= 0 && e->type != '5')
        meta->mode = (mode_t)q->mode & 07777;
}

static void put_data(struct put *p, int fd, int64_t offset, int64_t size, const struct au_meta *meta)
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

static void put_file(struct put *p, const struct ag_tar_entry *e, const char *clean, const struct au_meta *meta)
{
    const struct sb_files_request *q = &p->f->q;
    int fd;

    if (q->max_bytes >= 0 && e->size > q->max_bytes - p->bytes)
        au_fail(SANDBOX_ELIMIT, 0, "raise max_bytes", "the archive's files are larger than %lld bytes ('%s' alone has %lld)",
                (long long)q->max_bytes, p->shown, (long long)e->size);
    fd = au_tree_file(&p->tree, clean, meta);
    if (e->parts) {
        for (size_t i = 0; i < e->n_parts; i++)
            put_data(p, fd, e->parts[i].offset, e->parts[i].size, meta);
    } else {
        put_data(p, fd, 0, e->size, meta);
    }
    au_tree_file_finish(&p->tree, fd, e->size, meta);
}

static void put_hardlink(struct put *p, const struct ag_tar_entry *e, const char *clean, const struct au_meta *meta)
{
    char target[AU_PATH_MAX];
    const char *why = au_path_clean(e->link, target);

    if (!why && !target[0])
        why = "is the folder itself";
    if (why)
        au_fail(SANDBOX_EDAMAGED, 0, NULL, "the archive's entry '%s' is a hard link whose target %s", p->shown, why);
    au_tree_hardlink(&p->tree, clean, target, meta);
}

static void put_entry(struct put *p, const struct ag_tar_entry *e)
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

/* The folder that is unpacked into, made when it isn't there. */
static int open_target(struct put *p)
{
    struct ag_files *f = p->f;
    int fd = sb_open_in_root(f->root, f->path, O_RDONLY | O_DIRECTORY, 0), dir;
    const char *name;

    if (fd == -ENOENT) {
        dir = ag_files_parent(f, f->path, &name);
        if (mkdirat(dir, name, 0755) == 0)
            p->tree.root_made = 1;
        else if (errno != EEXIST)
            ag_files_fail("making", f->path, errno);
        fd = sb_open_beneath(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0);
    }
    if (fd < 0)
        ag_files_fail("opening the folder", f->path, -fd);
    return fd;
}

void ag_files_put_tar(struct ag_files *f)
{
    struct put *p = calloc(1, sizeof *p);
    const struct ag_tar_entry *e;
    int root, made;

    if (!p)
        au_fail(SANDBOX_ENOMEM, 0, NULL, "out of memory");
    p->f = f;
    root = open_target(p);
    made = p->tree.root_made;
    au_tree_init_live(&p->tree, root, f->map);
    p->tree.root_made = made;
    ag_tar_init(&p->tar, f->data);
    while ((e = ag_tar_next(&p->tar))) {
        if (f->q.max_entries >= 0 && p->tar.entries > f->q.max_entries)
            au_fail(SANDBOX_ELIMIT, 0, "raise max_entries", "the archive has more than %lld entries", (long long)f->q.max_entries);
        put_entry(p, e);
    }
    au_tree_finish(&p->tree);
    ag_tar_drain(&p->tar);
    ag_files_done(p->bytes, p->tar.entries);
}

void ag_files_get_tar(struct ag_files *f)
{
    struct sb_files_info info = { .head = { SB_FILES_INFO, sizeof info } };
    struct au_pack how = {
        .source = -1, .out = f->data, .top = f->other, .live = 1, .one_owner = !!(f->q.flags & SB_FILES_ROOT_OWNS), .own_uid = -1,
        .own_gid = -1, .max_bytes = f->q.max_bytes, .max_entries = f->q.max_entries,
    };
    SB_CLOSE int look = sb_open_in_root(f->root, f->path, O_PATH, 0);
    struct stat st;

    if (look == -ENOENT) /* a link that leads nowhere is still a link */
        look = sb_open_in_root(f->root, f->path, O_PATH | O_NOFOLLOW, 0);
    if (look < 0 || fstat(look, &st) < 0)
        ag_files_fail("opening", f->path, look < 0 ? -look : errno);
    if (S_ISDIR(st.st_mode)) {
        how.source = ag_files_open(f, O_DIRECTORY, &st);
    } else {
        f->q.flags &= ~(uint32_t)SB_FILES_PARENTS;
        how.source = ag_files_parent(f, f->path, &how.name);
    }
    ag_files_stat_of(&st, &info.stat);
    ag_files_send(&info, sizeof info);
    au_pack(&how);
    ag_files_done(0, 0);
}
