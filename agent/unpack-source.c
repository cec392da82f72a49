/* SPDX-License-Identifier: Apache-2.0
 * The bytes of the source: a window of a file or a pipe, hashed as they are read; decompressed by libarchive's filters
 * behind its "raw" format; hashed again. A tar reader then takes the decompressed bytes from here, so that one pass gives
 * both digests and no size in an archive is believed before the caps were checked. */
#include "unpack.h"

#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include <util.h>

enum { RATIO_FREE = 10 << 20, RATIO_MAX = 1000 };

void au_source_init(struct au_source *source, const struct sb_unpack_plan *plan)
{
    struct stat st;

    source->fd = SB_UNPACK_FD_SOURCE;
    if (fstat(source->fd, &st) < 0)
        au_fail(SANDBOX_EIO, errno, NULL, "examining the source");
    source->seekable = S_ISREG(st.st_mode);
    source->offset = source->seekable ? plan->offset : 0;
    source->left = source->seekable ? plan->length : -1;
    source->bytes = 0;
    sha256_init(&source->sha);
}

size_t au_source_read(struct au_source *source, const void **ret_data)
{
    size_t want = sizeof source->buffer;
    ssize_t n;

    if (source->left >= 0 && (int64_t)want > source->left)
        want = (size_t)source->left;
    if (want == 0)
        return 0;
    n = source->seekable ? SB_RETRY(pread(source->fd, source->buffer, want, source->offset))
                         : SB_RETRY(read(source->fd, source->buffer, want));
    if (n < 0)
        au_fail(SANDBOX_EIO, errno, NULL, "reading the source");
    if (n == 0 && source->left > 0)
        au_fail(SANDBOX_EDAMAGED, 0, NULL, "the source ends %lld bytes early", (long long)source->left);
    source->offset += n;
    source->bytes += n;
    if (source->left >= 0)
        source->left -= n;
    sha256_update(&source->sha, (size_t)n, source->buffer);
    *ret_data = source->buffer;
    return (size_t)n;
}

void au_source_verify(const struct sb_unpack_plan *plan)
{
    static struct au_source source;
    char digest[SB_UNPACK_DIGEST_SIZE];
    const void *data;

    if (!plan->digest[0])
        return;
    au_source_init(&source, plan);
    while (au_source_read(&source, &data))
        au_progress(SB_UNPACK_PHASE_HASH, source.bytes, 0);
    au_digest_text(&source.sha, digest);
    if (strcmp(digest, plan->digest))
        au_fail(SANDBOX_EDIGEST, 0, NULL, "the blob named %s has the digest %s", plan->digest, digest);
}

static la_ssize_t read_source(struct archive *a, void *data, const void **ret_buffer)
{
    struct au_stream *stream = data;

    (void)a;
    return (la_ssize_t)au_source_read(&stream->source, ret_buffer);
}

void au_stream_init(struct au_stream *stream, const struct sb_unpack_plan *plan, enum sb_unpack_phase phase)
{
    struct archive_entry *entry;
    int r;

    au_source_init(&stream->source, plan);
    sha256_init(&stream->sha);
    stream->max_bytes = plan->max_bytes;
    stream->phase = phase;
    stream->has_diff_id = plan->diff_id[0] != 0;
    stream->inflate = archive_read_new();
    if (!stream->inflate)
        au_fail(SANDBOX_ENOMEM, 0, NULL, "out of memory");
    /* ARCHIVE_WARN would mean an external program: those filters are not asked for */
    if (archive_read_support_filter_gzip(stream->inflate) != ARCHIVE_OK ||
        archive_read_support_filter_xz(stream->inflate) != ARCHIVE_OK ||
        archive_read_support_filter_zstd(stream->inflate) != ARCHIVE_OK ||
        archive_read_support_format_raw(stream->inflate) != ARCHIVE_OK ||
        archive_read_support_format_empty(stream->inflate) != ARCHIVE_OK)
        au_fail(SANDBOX_EINTERNAL, 0, NULL, "the archive library lacks a filter");
    r = archive_read_open(stream->inflate, stream, NULL, read_source, NULL);
    if (r == ARCHIVE_OK)
        r = archive_read_next_header(stream->inflate, &entry);
    if (r == ARCHIVE_EOF)
        stream->at_end = 1;
    else if (r != ARCHIVE_OK)
        au_fail(SANDBOX_EDAMAGED, 0, NULL, "reading the source: %s", archive_error_string(stream->inflate));
    stream->compressed = archive_filter_count(stream->inflate) > 1;
    if (archive_filter_count(stream->inflate) > 2)
        au_fail(SANDBOX_EDAMAGED, 0, NULL, "the source is compressed more than once");
}

/* A bomb is known by its ratio long before it fills a disk. */
static void check_caps(const struct au_stream *stream)
{
    if (stream->bytes > stream->max_bytes)
        au_fail(SANDBOX_ELIMIT, 0, "raise max_bytes if the image is meant to be that large",
                "the image is larger than %lld bytes when decompressed", (long long)stream->max_bytes);
    if (stream->compressed && stream->bytes > RATIO_FREE && stream->bytes / RATIO_MAX > stream->source.bytes)
        au_fail(SANDBOX_ELIMIT, 0, "decompress it first if it is meant to be so", "the archive decompresses to more than %d times its size",
                RATIO_MAX);
}

size_t au_stream_read(struct au_stream *stream, const void **ret_data)
{
    la_int64_t offset;
    size_t size = 0;
    int r;

    while (!stream->at_end) {
        r = archive_read_data_block(stream->inflate, ret_data, &size, &offset);
        if (r == ARCHIVE_EOF) {
            stream->at_end = 1;
            return 0;
        }
        if (r != ARCHIVE_OK)
            au_fail(SANDBOX_EDAMAGED, 0, NULL, "decompressing: %s", archive_error_string(stream->inflate));
        if (!size)
            continue;
        stream->bytes += (int64_t)size;
        check_caps(stream);
        if (stream->compressed) /* else the source's is the same */
            sha256_update(&stream->sha, size, *ret_data);
        au_progress(stream->phase, stream->source.bytes, stream->entries ? *stream->entries : 0);
        return size;
    }
    return 0;
}

void au_stream_finish(struct au_stream *stream, const struct sb_unpack_plan *plan, struct sb_unpack_result *result)
{
    const void *data;

    while (au_stream_read(stream, &data))
        continue;
    while (au_source_read(&stream->source, &data)) /* a filter may leave bytes behind its end mark */
        continue;
    result->source_bytes = stream->source.bytes;
    result->stream_bytes = stream->bytes;
    result->compressed = stream->compressed;
    au_digest_text(&stream->source.sha, result->digest);
    if (stream->compressed)
        au_digest_text(&stream->sha, result->diff_id);
    else
        memcpy(result->diff_id, result->digest, sizeof result->diff_id);
    /* the source was verified before; this catches one that was changed since */
    if (plan->digest[0] && strcmp(result->digest, plan->digest))
        au_fail(SANDBOX_EDIGEST, 0, NULL, "the blob named %s changed while it was read", plan->digest);
    if (plan->diff_id[0] && strcmp(result->diff_id, plan->diff_id))
        au_fail(SANDBOX_EDIGEST, 0, NULL, "the config promises a layer %s and the layer is %s", plan->diff_id, result->diff_id);
}

/* Some writers (umoci insert) leave out the last block's padding, and other readers bear it. Where a diff id vouches for the
 * bytes they can be told from a truncated archive. */
static la_ssize_t read_stream(struct archive *a, void *data, const void **ret_buffer)
{
    static const char zeros[512];
    struct au_stream *stream = data;
    size_t n = au_stream_read(stream, ret_buffer);

    (void)a;
    if (n || !stream->has_diff_id || stream->padded || stream->bytes % (int64_t)sizeof zeros == 0)
        return (la_ssize_t)n;
    stream->padded = 1;
    *ret_buffer = zeros;
    return (la_ssize_t)(sizeof zeros - (size_t)stream->bytes % sizeof zeros);
}

struct archive *au_tar_open(struct au_stream *stream)
{
    struct archive *a = archive_read_new();

    if (!a)
        au_fail(SANDBOX_ENOMEM, 0, NULL, "out of memory");
    if (archive_read_support_format_tar(a) != ARCHIVE_OK)
        au_fail(SANDBOX_EINTERNAL, 0, NULL, "the archive library lacks tar");
    if (archive_read_open(a, stream, NULL, read_stream, NULL) != ARCHIVE_OK)
        au_fail(SANDBOX_EDAMAGED, 0, "a tar (plain, gzip, zstd or xz) is wanted", "not a tar archive: %s", archive_error_string(a));
    return a;
}
