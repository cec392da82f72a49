/* SPDX-License-Identifier: Apache-2.0
 * A layer's tar, entry by entry, into the destination: what each entry means by OCI's rules, and the caps. */
#include "unpack.h"

#include <archive.h>
#include <archive_entry.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <util.h>

enum { XATTRS_MAX = 64, SKIPPED_MAX = 4096 };

struct layer {
    struct au_tree tree;
    struct archive *tar;
    int64_t entries, logical; /* bytes of file sizes, holes included */
    const struct sb_unpack_plan *plan;
    uint64_t skipped[SKIPPED_MAX]; /* hashes of names left out: hard links to them are left out too */
    size_t n_skipped;
    const char *names[XATTRS_MAX];
    const void *values[XATTRS_MAX];
    size_t sizes[XATTRS_MAX];
};

static uint64_t hash_path(const char *path)
{
    uint64_t hash = 0xcbf29ce484222325u;

    for (; *path; path++)
        hash = (hash ^ (unsigned char)*path) * 0x100000001b3u;
    return hash;
}

static void skip(struct layer *layer, const char *clean)
{
    layer->tree.skipped++;
    if (layer->n_skipped < SKIPPED_MAX)
        layer->skipped[layer->n_skipped++] = hash_path(clean);
}

static int was_skipped(const struct layer *layer, const char *clean)
{
    uint64_t hash = hash_path(clean);

    for (size_t i = 0; i < layer->n_skipped; i++)
        if (layer->skipped[i] == hash)
            return 1;
    return 0;
}

static void read_meta(struct layer *layer, struct archive_entry *entry, const char *shown, struct au_meta *meta)
{
    *meta = (struct au_meta){
        .shown = shown, .mode = archive_entry_mode(entry) & 07777,
        .uid = archive_entry_uid(entry), .gid = archive_entry_gid(entry),
        .mtime = { archive_entry_mtime(entry), archive_entry_mtime_nsec(entry) },
        .xattr_names = layer->names, .xattr_values = layer->values, .xattr_sizes = layer->sizes,
    };
    if (meta->mtime.tv_nsec < 0 || meta->mtime.tv_nsec > 999999999)
        meta->mtime.tv_nsec = 0;
    archive_entry_xattr_reset(entry);
    while (meta->n_xattrs < XATTRS_MAX &&
           archive_entry_xattr_next(entry, &layer->names[meta->n_xattrs], &layer->values[meta->n_xattrs],
                                    &layer->sizes[meta->n_xattrs]) == ARCHIVE_OK)
        meta->n_xattrs++;
}

static void write_file(struct layer *layer, struct archive_entry *entry, const char *clean, const struct au_meta *meta)
{
    int64_t size = archive_entry_size(entry);
    int fd, r;

    if (size < 0)
        au_fail(SANDBOX_EDAMAGED, 0, NULL, "the archive's entry '%s' has the size %lld", meta->shown, (long long)size);
    if (size > layer->plan->max_bytes - layer->logical)
        au_fail(SANDBOX_ELIMIT, 0, "raise max_bytes if the image is meant to be that large",
                "the image's files are larger than %lld bytes ('%s' alone has %lld)", (long long)layer->plan->max_bytes, meta->shown,
                (long long)size);
    layer->logical += size;
    fd = au_tree_file(&layer->tree, clean, meta);
    for (;;) {
        const void *data;
        la_int64_t offset;
        size_t n;

        r = archive_read_data_block(layer->tar, &data, &n, &offset);
        if (r == ARCHIVE_EOF)
            break;
        if (r != ARCHIVE_OK)
            au_fail(SANDBOX_EDAMAGED, 0, NULL, "reading the archive's entry '%s': %s", meta->shown, archive_error_string(layer->tar));
        if (offset < 0 || offset > size || (int64_t)n > size - offset)
            au_fail(SANDBOX_EDAMAGED, 0, NULL, "the archive's entry '%s' has data beyond its size", meta->shown);
        au_tree_write(&layer->tree, fd, data, n, offset, meta);
    }
    au_tree_file_finish(&layer->tree, fd, size, meta);
}

static void write_hardlink(struct layer *layer, const char *clean, const char *target, const struct au_meta *meta)
{
    char cleaned[AU_PATH_MAX];
    const char *why = au_path_clean(target, cleaned);

    if (!why && !cleaned[0])
        why = "is the root";
    if (why)
        au_fail(SANDBOX_EDAMAGED, 0, NULL, "the archive's entry '%s' is a hard link whose target %s", meta->shown, why);
    if (was_skipped(layer, cleaned))
        skip(layer, clean);
    else
        au_tree_hardlink(&layer->tree, clean, cleaned, meta);
}

/* Names that aufs keeps for itself (".wh..wh.plnk" and the like) and what is below them mean nothing to anybody else. */
static int is_aufs(const char *clean)
{
    for (const char *p = clean; p; p = strchr(p, '/') ? strchr(p, '/') + 1 : NULL)
        if (!strncmp(p, ".wh..wh.", 8) && strcmp(p, ".wh..wh..opq"))
            return 1;
    return 0;
}

static void write_entry(struct layer *layer, struct archive_entry *entry, const char *shown, const char *clean)
{
    const char *slash = strrchr(clean, '/'), *name = slash ? slash + 1 : clean;
    struct au_meta meta;

    if (is_aufs(clean))
        return;
    if (!strncmp(name, ".wh.", 4)) {
        au_tree_whiteout(&layer->tree, clean, shown);
        return;
    }
    read_meta(layer, entry, shown, &meta);
    if (!clean[0] && (archive_entry_hardlink(entry) || archive_entry_filetype(entry) != AE_IFDIR))
        au_fail(SANDBOX_EDAMAGED, 0, NULL, "the archive's entry '%s' puts something in place of the root", shown);
    if (archive_entry_hardlink(entry)) {
        write_hardlink(layer, clean, archive_entry_hardlink(entry), &meta);
        return;
    }
    switch (archive_entry_filetype(entry)) {
    case AE_IFDIR:
        au_tree_directory(&layer->tree, clean, &meta);
        break;
    case AE_IFREG:
        write_file(layer, entry, clean, &meta);
        break;
    case AE_IFLNK:
        au_tree_symlink(&layer->tree, clean, archive_entry_symlink(entry), &meta);
        break;
    case AE_IFIFO:
        au_tree_fifo(&layer->tree, clean, &meta);
        break;
    default: /* devices and sockets */
        skip(layer, clean);
    }
}

static void each_entry(struct layer *layer)
{
    char clean[AU_PATH_MAX], shown[256];
    struct archive_entry *entry;
    const char *path, *why;
    int r;

    while ((r = archive_read_next_header(layer->tar, &entry)) != ARCHIVE_EOF) {
        if (r != ARCHIVE_OK && r != ARCHIVE_WARN)
            au_fail(SANDBOX_EDAMAGED, 0, layer->entries ? NULL : "a tar (plain, gzip, zstd or xz) is wanted",
                    "reading entry %lld of the archive: %s", (long long)layer->entries + 1, archive_error_string(layer->tar));
        if (++layer->entries > layer->plan->max_entries)
            au_fail(SANDBOX_ELIMIT, 0, "raise max_entries if the image is meant to be that large",
                    "the image has more than %lld entries", (long long)layer->plan->max_entries);
        path = archive_entry_pathname(entry);
        if (!path || !path[0])
            au_fail(SANDBOX_EDAMAGED, 0, NULL, "entry %lld of the archive has no usable name", (long long)layer->entries);
        snprintf(shown, sizeof shown, "%s", path);
        why = au_path_clean(path, clean);
        if (why)
            au_fail(strchr(why, '"') ? SANDBOX_EDAMAGED : SANDBOX_ELIMIT, 0, NULL, "the archive's entry '%s' %s", shown, why);
        write_entry(layer, entry, shown, clean);
    }
}

static int by_path(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Those that no later entry described. */
static void report_implied(const struct au_tree *tree)
{
    char **described = tree->n_implied ? calloc(tree->n_times + 1, sizeof *described) : NULL;
    struct {
        struct sb_unpack_member head;
        char path[AU_PATH_MAX];
    } record;

    if (!tree->n_implied)
        return;
    if (!described)
        au_fail(SANDBOX_ENOMEM, 0, NULL, "out of memory");
    for (size_t i = 0; i < tree->n_times; i++)
        described[i] = tree->times[i].path;
    qsort(described, tree->n_times, sizeof *described, by_path);
    for (size_t i = 0; i < tree->n_implied; i++) {
        size_t length = strlen(tree->implied[i]);

        if (bsearch(&tree->implied[i], described, tree->n_times, sizeof *described, by_path))
            continue;
        record.head = (struct sb_unpack_member){ .type = SB_UNPACK_MEMBER_IMPLIED, .name_length = (uint16_t)length };
        record.head.head = (struct sb_unpack_head){ SB_UNPACK_MEMBER, (uint32_t)(sizeof record.head + length) };
        memcpy(record.path, tree->implied[i], length);
        au_send(&record, sizeof record.head + length);
    }
    free(described);
}

void au_job_layer(const struct sb_unpack_plan *plan, int root)
{
    static struct au_stream stream;
    static struct sb_unpack_result result;
    struct layer *layer = calloc(1, sizeof *layer);

    if (!layer)
        au_fail(SANDBOX_ENOMEM, 0, NULL, "out of memory");
    au_source_verify(plan);
    stream.entries = &layer->entries;
    au_stream_init(&stream, plan, SB_UNPACK_PHASE_UNPACK);
    layer->plan = plan;
    au_tree_init(&layer->tree, root, &plan->map);
    layer->tar = au_tar_open(&stream);
    each_entry(layer);
    au_stream_finish(&stream, plan, &result);
    report_implied(&layer->tree);
    au_tree_finish(&layer->tree);
    result.bytes = layer->tree.bytes;
    result.entries = layer->entries;
    result.skipped = layer->tree.skipped;
    result.xattrs_skipped = layer->tree.xattrs_skipped;
    result.root_opaque = layer->tree.root_opaque;
    au_send_result(&result);
}
