/* SPDX-License-Identifier: Apache-2.0
 * The jobs that only read: a document's bytes and digest, the table of contents of an image archive, and decompression.
 * The table gives places within the archive, so that each blob is later read by itself, without the archive's headers
 * being believed again: what is there is checked by digest. */
#include "unpack.h"

#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <fs.h>
#include <util.h>

enum { DOCUMENT_MAX = 4 << 20, MEMBERS_MAX = 16384, MEMBERS_BYTES_MAX = 8 << 20 };

void au_job_document(const struct sb_unpack_plan *plan)
{
    static struct au_source source;
    static struct sb_unpack_result result;
    struct {
        struct sb_unpack_data head;
        char bytes[SB_UNPACK_CHUNK];
    } *record = malloc(sizeof *record);
    const void *data;
    size_t n;

    if (!record)
        au_fail(SANDBOX_ENOMEM, 0, NULL, "out of memory");
    if (plan->length > DOCUMENT_MAX)
        au_fail(SANDBOX_ELIMIT, 0, NULL, "an image's document has %lld bytes, and 4 MiB are the most", (long long)plan->length);
    au_source_verify(plan);
    au_source_init(&source, plan);
    while ((n = au_source_read(&source, &data))) {
        if (source.bytes > DOCUMENT_MAX)
            au_fail(SANDBOX_ELIMIT, 0, NULL, "an image's document is larger than 4 MiB");
        for (size_t at = 0; at < n;) {
            size_t part = n - at < SB_UNPACK_CHUNK ? n - at : SB_UNPACK_CHUNK;

            record->head.head = (struct sb_unpack_head){ SB_UNPACK_DATA, (uint32_t)(sizeof record->head + part) };
            memcpy(record->bytes, (const char *)data + at, part);
            au_send(record, sizeof record->head + part);
            at += part;
        }
    }
    result.source_bytes = result.stream_bytes = source.bytes;
    au_digest_text(&source.sha, result.digest);
    if (plan->digest[0] && strcmp(result.digest, plan->digest))
        au_fail(SANDBOX_EDIGEST, 0, NULL, "the blob named %s changed while it was read", plan->digest);
    au_send_result(&result);
}

void au_job_inflate(const struct sb_unpack_plan *plan)
{
    static struct au_stream stream;
    static struct sb_unpack_result result;
    const void *data;
    size_t n;
    int r;

    au_stream_init(&stream, plan, plan->flags & SB_UNPACK_HASH_ONLY ? SB_UNPACK_PHASE_HASH : SB_UNPACK_PHASE_UNPACK);
    while ((n = au_stream_read(&stream, &data))) {
        r = plan->flags & SB_UNPACK_HASH_ONLY ? 0 : sb_write_all(SB_UNPACK_FD_DEST, data, n);
        if (r)
            au_fail_errno(-r, "decompressing the archive");
    }
    au_stream_finish(&stream, plan, &result);
    au_send_result(&result);
}

/* ---- scan */

static int is_hex(const char *text, size_t length)
{
    return length == 64 && strspn(text, "0123456789abcdef") >= 64;
}

/* Could this be part of an OCI layout or a docker archive? A root file system shows itself by its first entries. */
static int is_image_name(const char *clean)
{
    const char *slash = strchr(clean, '/');
    size_t first = slash ? (size_t)(slash - clean) : strlen(clean);
    static const char *const exact[] = { "oci-layout", "index.json", "manifest.json", "repositories", "blobs", "" };

    for (size_t i = 0; i < SB_ELEMENTS(exact); i++)
        if (!slash && !strcmp(clean, exact[i]))
            return 1;
    if (slash && !strncmp(clean, "blobs/", 6))
        return 1;
    if (slash)
        return is_hex(clean, first);
    return is_hex(clean, first) || (first == 69 && is_hex(clean, 64) && (!strcmp(clean + 64, ".json"))) ||
           (first == 68 && is_hex(clean, 64) && !strcmp(clean + 64, ".tar"));
}

struct scan {
    const struct sb_unpack_plan *plan;
    struct au_source source; /* when it is not compressed: long members are skipped, not read */
    struct au_stream stream;
    struct archive *tar;
    int64_t entries, members, member_bytes;
    struct {
        struct sb_unpack_member head;
        char text[2 * AU_PATH_MAX];
    } pending; /* a member's place is known once the next header's is */
    size_t pending_size;
};

static la_ssize_t scan_read(struct archive *a, void *data, const void **ret_buffer)
{
    struct scan *scan = data;

    (void)a;
    return (la_ssize_t)au_source_read(&scan->source, ret_buffer);
}

static la_int64_t scan_skip(struct archive *a, void *data, la_int64_t request)
{
    struct au_source *source = &((struct scan *)data)->source;

    (void)a;
    if (!source->seekable || source->left < 0)
        return 0;
    if (request > source->left)
        request = source->left;
    source->offset += request;
    source->bytes += request;
    source->left -= request;
    return request;
}

static void flush_member(struct scan *scan)
{
    int64_t next = archive_read_header_position(scan->tar);
    struct sb_unpack_member *member = &scan->pending.head;

    if (!scan->pending_size)
        return;
    if (member->type == SB_UNPACK_MEMBER_FILE) {
        member->offset = next - (member->length + 511) / 512 * 512;
        if (member->offset < 512)
            au_fail(SANDBOX_EDAMAGED, 0, NULL, "the archive's table of contents makes no sense");
    }
    au_send(&scan->pending, scan->pending_size);
    scan->pending_size = 0;
}

static void note_member(struct scan *scan, struct archive_entry *entry, const char *clean)
{
    const char *hard = archive_entry_hardlink(entry), *link = hard ? hard : archive_entry_symlink(entry);
    int type = archive_entry_filetype(entry);
    struct sb_unpack_member *member = &scan->pending.head;
    size_t name_length = strlen(clean), link_length = link ? strlen(link) : 0;

    if (!link && (type != AE_IFREG || archive_entry_sparse_count(entry) > 0))
        return;
    if (link_length >= AU_PATH_MAX)
        return;
    scan->member_bytes += (int64_t)(name_length + link_length);
    if (++scan->members > MEMBERS_MAX || scan->member_bytes > MEMBERS_BYTES_MAX)
        au_fail(SANDBOX_ELIMIT, 0, NULL, "the image archive has more than %d files", MEMBERS_MAX);
    *member = (struct sb_unpack_member){
        .type = link ? SB_UNPACK_MEMBER_LINK : SB_UNPACK_MEMBER_FILE,
        .name_length = (uint16_t)name_length, .link_length = (uint16_t)link_length,
        .length = link ? 0 : archive_entry_size(entry),
    };
    memcpy(scan->pending.text, clean, name_length);
    if (link) {
        /* a symbolic link's target is relative to its folder, a hard link's to the root: marked by a "/" in front */
        if (hard && hard[0] != '/') {
            scan->pending.text[name_length] = '/';
            memcpy(scan->pending.text + name_length + 1, hard, link_length);
            member->link_length++;
            link_length++;
        } else {
            memcpy(scan->pending.text + name_length, link, link_length);
        }
    }
    scan->pending_size = sizeof *member + name_length + link_length;
    member->head = (struct sb_unpack_head){ SB_UNPACK_MEMBER, (uint32_t)scan->pending_size };
}

/* Returns the kind. */
static int scan_entries(struct scan *scan)
{
    struct archive_entry *entry;
    char clean[AU_PATH_MAX];
    int r, seen_index = 0;

    while ((r = archive_read_next_header(scan->tar, &entry)) != ARCHIVE_EOF) {
        const char *path, *why;

        if (r != ARCHIVE_OK && r != ARCHIVE_WARN)
            au_fail(SANDBOX_EDAMAGED, 0, scan->entries ? NULL : "a tar (plain, gzip, zstd or xz) or a folder is wanted",
                    "reading entry %lld of the archive: %s", (long long)scan->entries + 1, archive_error_string(scan->tar));
        flush_member(scan);
        if (++scan->entries > scan->plan->max_entries)
            au_fail(SANDBOX_ELIMIT, 0, "raise max_entries if the image is meant to be that large",
                    "the image has more than %lld entries", (long long)scan->plan->max_entries);
        path = archive_entry_pathname(entry);
        why = path ? au_path_clean(path, clean) : "has no usable name";
        if (why || !is_image_name(clean)) {
            if (scan->plan->flags & SB_UNPACK_STOP_AT_ROOTFS)
                return SB_UNPACK_KIND_ROOTFS;
            continue;
        }
        seen_index |= !strcmp(clean, "index.json") || !strcmp(clean, "manifest.json");
        if (clean[0])
            note_member(scan, entry, clean);
        au_progress(SB_UNPACK_PHASE_SCAN, archive_filter_bytes(scan->tar, -1), scan->entries);
    }
    flush_member(scan);
    return seen_index ? SB_UNPACK_KIND_IMAGE : SB_UNPACK_KIND_ROOTFS;
}

void au_job_scan(const struct sb_unpack_plan *plan)
{
    static struct sb_unpack_result result;
    struct scan *scan = calloc(1, sizeof *scan);
    struct stat st;

    if (!scan)
        au_fail(SANDBOX_ENOMEM, 0, NULL, "out of memory");
    scan->plan = plan;
    au_stream_init(&scan->stream, plan, SB_UNPACK_PHASE_SCAN);
    if (scan->stream.compressed) {
        scan->tar = au_tar_open(&scan->stream);
    } else {
        au_source_init(&scan->source, plan);
        if (scan->source.left < 0 && fstat(scan->source.fd, &st) == 0)
            scan->source.left = st.st_size - scan->source.offset;
        scan->tar = archive_read_new();
        if (!scan->tar || archive_read_support_format_tar(scan->tar) != ARCHIVE_OK ||
            archive_read_open2(scan->tar, scan, NULL, scan_read, scan_skip, NULL) != ARCHIVE_OK)
            au_fail(SANDBOX_EDAMAGED, 0, "a tar (plain, gzip, zstd or xz) or a folder is wanted", "not a tar archive");
    }
    result.kind = scan_entries(scan);
    result.compressed = scan->stream.compressed;
    result.entries = scan->entries;
    au_send_result(&result);
}
