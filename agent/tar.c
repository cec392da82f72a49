/* SPDX-License-Identifier: Apache-2.0
 * Reading a tar: ustar, pax, and what GNU tar adds (long names, large numbers, holes). A reader of its own for the file server, not the archive
 * library that the unpack helper links: that one converts names by the C library's modules, which would be looked up in the sandbox's
 * own root, and is five times all of init. Every length is checked; what is wrong ends the process by au_fail(). Names are bytes. */
#include "tar.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <util.h>

enum { EXTENDED_MAX = 1 << 20 };

static void __attribute__((noreturn)) damaged(const struct ag_tar *tar, const char *why)
{
    au_fail(SANDBOX_EDAMAGED, 0, tar->entries ? NULL : "a plain tar is wanted", "entry %lld of the archive%s%.200s%s %s",
            (long long)tar->entries + 1, tar->entry.path && tar->entry.path[0] ? ", '" : "", tar->entry.path ? tar->entry.path : "",
            tar->entry.path && tar->entry.path[0] ? "'," : "", why);
}

void ag_tar_init(struct ag_tar *tar, int fd)
{
    *tar = (struct ag_tar){ .fd = fd, .buffer = malloc(TAR_BUFFER) };
    if (!tar->buffer)
        au_fail(SANDBOX_ENOMEM, 0, NULL, "out of memory");
    tar->own.part_offset = tar->global.part_offset = -1;
    ag_tar_values_clear(&tar->own);
    ag_tar_values_clear(&tar->global);
}

/* More bytes in the buffer; 0 at the stream's end. */
static size_t fill(struct ag_tar *tar)
{
    ssize_t n;

    if (tar->at == tar->have)
        tar->at = tar->have = 0;
    while ((n = SB_RETRY(read(tar->fd, tar->buffer + tar->have, TAR_BUFFER - tar->have))) < 0 && errno == EAGAIN)
        if (au_wait(tar->fd, POLLIN))
            break;
    if (n < 0)
        au_fail(SANDBOX_EIO, errno, NULL, "reading the archive");
    tar->have += (size_t)n;
    tar->done += n;
    return (size_t)n;
}

/* The next block, valid until the next read; NULL at the stream's end. */
static const void *block(struct ag_tar *tar)
{
    const void *here;

    if (tar->have - tar->at < TAR_BLOCK && tar->at) {
        memmove(tar->buffer, tar->buffer + tar->at, tar->have - tar->at);
        tar->have -= tar->at;
        tar->at = 0;
    }
    while (tar->have - tar->at < TAR_BLOCK)
        if (!fill(tar)) {
            if (tar->have != tar->at)
                damaged(tar, "is cut off");
            return NULL;
        }
    here = tar->buffer + tar->at;
    tar->at += TAR_BLOCK;
    return here;
}

size_t ag_tar_read(struct ag_tar *tar, const void **ret_data, int64_t most)
{
    size_t n;

    if (most > tar->body)
        most = tar->body;
    if (most <= 0)
        return 0;
    if (tar->at == tar->have && !fill(tar))
        damaged(tar, "is cut off");
    n = tar->have - tar->at;
    if ((int64_t)n > most)
        n = (size_t)most;
    *ret_data = tar->buffer + tar->at;
    tar->at += n;
    tar->body -= (int64_t)n;
    return n;
}

static void pass_over(struct ag_tar *tar)
{
    const void *data;

    tar->body += (int64_t)tar->padding;
    tar->padding = 0;
    while (tar->body)
        ag_tar_read(tar, &data, tar->body);
}

void ag_tar_drain(struct ag_tar *tar)
{
    do
        tar->at = tar->have;
    while (fill(tar));
}

/* Octal digits between blanks, or GNU's binary form. */
static int64_t number(const struct ag_tar *tar, const char *field, size_t size)
{
    const unsigned char *p = (const unsigned char *)field, *end = p + size;
    uint64_t value = 0;

    if (*p & 0x80) {
        int negative = *p == 0xff;

        value = negative ? ~(uint64_t)0 : *p & 0x7f;
        for (p++; p < end; p++) {
            if (negative ? value >> 55 != 0x1ff : value >> 55 != 0)
                damaged(tar, "has a number that is too large");
            value = value << 8 | *p;
        }
        return (int64_t)value;
    }
    while (p < end && *p == ' ')
        p++;
    for (; p < end && *p >= '0' && *p <= '7'; p++)
        value = value << 3 | (uint64_t)(*p - '0');
    for (; p < end; p++)
        if (*p && *p != ' ')
            damaged(tar, "has a number that is none");
    return (int64_t)value;
}

static int is_zero(const void *data)
{
    const char *p = data;

    return !p[0] && !memcmp(p, p + 1, TAR_BLOCK - 1);
}

static void check_sum(const struct ag_tar *tar, const struct ustar *h)
{
    const unsigned char *p = (const unsigned char *)h;
    int64_t sum = 0, with_signs = 0, said;

    if (!tar->entries && ((p[0] == 0x1f && p[1] == 0x8b) || (p[0] == 0x28 && p[1] == 0xb5) || (p[0] == 0xfd && p[1] == '7')))
        au_fail(SANDBOX_EUNSUPPORTED, 0, "decompress it first", "the archive is compressed");
    said = number(tar, h->checksum, sizeof h->checksum);
    for (size_t i = 0; i < sizeof *h; i++) {
        int blank = i >= offsetof(struct ustar, checksum) && i < offsetof(struct ustar, type);

        sum += blank ? ' ' : p[i];
        with_signs += blank ? ' ' : (signed char)p[i]; /* as some old ones count */
    }
    if (sum != said && with_signs != said)
        damaged(tar, tar->entries ? "has a damaged header" : "is no tar header");
}

/* The data of an extended header or a long name, with a NUL behind it. malloc'ed. */
static char *take_text(struct ag_tar *tar, int64_t size)
{
    char *text;
    size_t used = 0, n;
    const void *data;

    if (size < 0 || size > EXTENDED_MAX)
        damaged(tar, "has an extended header that is too large");
    text = malloc((size_t)size + 1);
    if (!text)
        au_fail(SANDBOX_ENOMEM, 0, NULL, "out of memory");
    tar->body = size;
    while ((n = ag_tar_read(tar, &data, size)) > 0) {
        memcpy(text + used, data, n);
        used += n;
    }
    tar->padding = (size_t)(-size & (TAR_BLOCK - 1));
    pass_over(tar);
    text[size] = 0;
    return text;
}

static void take_extended(struct ag_tar *tar, char type, int64_t size)
{
    char *text = take_text(tar, size);

    switch (type) {
    case 'L':
        free(tar->own.path);
        tar->own.path = text;
        return;
    case 'K':
        free(tar->own.link);
        tar->own.link = text;
        return;
    default:
        ag_pax_parse(type == 'g' ? &tar->global : &tar->own, text, (size_t)size);
        free(text);
    }
    if (type == 'g' && (tar->global.path || tar->global.link || tar->global.size >= 0 || tar->global.n_parts || tar->global.n_xattrs))
        damaged(tar, "says of all files what can be true of one only");
}

/* A file of GNU's old form: up to four pieces in the header, more in blocks behind it. */
static void take_old_sparse(struct ag_tar *tar, const struct ustar *h)
{
    const char *p = (const char *)h + 386;
    int more = ((const char *)h)[482];
    size_t n = 4;

    tar->own.real_size = number(tar, (const char *)h + 483, 12);
    for (;;) {
        for (size_t i = 0; i < n; i++, p += 24)
            if (p[12])
                ag_tar_add_part(&tar->own, number(tar, p, 12), number(tar, p + 12, 12));
        if (!more)
            break;
        p = block(tar);
        if (!p)
            damaged(tar, "is cut off");
        n = 21;
        more = p[504];
    }
    tar->own.sparse_major = tar->own.sparse_minor = 0;
}

/* The pieces lie in order within the file, and the data is exactly theirs. */
static void check_parts(const struct ag_tar *tar, const struct ag_tar_values *v)
{
    int64_t at = 0, data = 0;

    if (v->real_size < 0)
        damaged(tar, "has holes and no size");
    for (size_t i = 0; i < v->n_parts; i++) {
        const struct ag_tar_part *part = &v->parts[i];

        if (part->offset < at || part->size < 0 || part->size > v->real_size || part->offset > v->real_size - part->size)
            damaged(tar, "has pieces that don't fit");
        at = part->offset + part->size;
        data += part->size;
    }
    if (data != tar->body)
        damaged(tar, "has other data than its pieces say");
}

static void take_names(struct ag_tar *tar, const struct ustar *h)
{
    struct ag_tar_values *v = &tar->own;

    /* GNU's own headers have other things where ustar has the prefix */
    if (!memcmp(h->magic, "ustar", 6) && h->prefix[0] && h->type != 'S')
        snprintf(tar->name, sizeof tar->name, "%.*s/%.*s", (int)sizeof h->prefix, h->prefix, (int)sizeof h->name, h->name);
    else
        snprintf(tar->name, sizeof tar->name, "%.*s", (int)sizeof h->name, h->name);
    snprintf(tar->link, sizeof tar->link, "%.*s", (int)sizeof h->link, h->link);
    tar->entry.path = v->sparse_name ? v->sparse_name : v->path ? v->path : tar->name;
    tar->entry.link = v->link ? v->link : tar->link;
}

static void take_entry(struct ag_tar *tar, const struct ustar *block_header)
{
    struct ag_tar_values *v = &tar->own, *g = &tar->global;
    struct ag_tar_entry *e = &tar->entry;
    struct ustar h = *block_header; /* reading on moves the buffer */
    static const struct ag_tar_part none;
    int64_t size;

    take_names(tar, &h);
    e->type = h.type ? h.type : '0';
    if (e->type == '7' || e->type == 'S')
        e->type = '0';
    if (e->type == '0' && e->path[0] && e->path[strlen(e->path) - 1] == '/' && memcmp(h.magic, "ustar", 5))
        e->type = '5'; /* so the oldest ones say it */
    if (!strchr("0123456", e->type))
        damaged(tar, "is of a kind that is not known");
    e->mode = (mode_t)number(tar, h.mode, sizeof h.mode) & 07777;
    e->uid = v->uid >= 0 ? v->uid : g->uid >= 0 ? g->uid : number(tar, h.uid, sizeof h.uid);
    e->gid = v->gid >= 0 ? v->gid : g->gid >= 0 ? g->gid : number(tar, h.gid, sizeof h.gid);
    e->mtime = v->has_mtime ? v->mtime : g->has_mtime ? g->mtime : (struct timespec){ number(tar, h.mtime, sizeof h.mtime), 0 };
    size = v->size >= 0 ? v->size : number(tar, h.size, sizeof h.size);
    if (size < 0 || size > INT64_MAX - TAR_BLOCK)
        damaged(tar, "has a size that can't be");
    tar->body = e->type == '0' ? size : 0; /* a link's size is that of what it leads to */
    tar->padding = (size_t)(-tar->body & (TAR_BLOCK - 1));
    if (h.type == 'S')
        take_old_sparse(tar, &h);
    if (e->type == '0' && v->sparse_major == 1 && v->sparse_minor == 0)
        ag_tar_read_map(tar);
    e->values = v;
    e->size = tar->body;
    e->parts = NULL;
    e->n_parts = 0;
    if (e->type == '0' && (v->sparse_major >= 0 || v->n_parts || v->real_size >= 0)) {
        check_parts(tar, v);
        e->size = v->real_size;
        e->n_parts = v->n_parts;
        e->parts = v->n_parts ? v->parts : &none;
    }
}

const struct ag_tar_entry *ag_tar_next(struct ag_tar *tar)
{
    const struct ustar *h;

    pass_over(tar);
    ag_tar_values_clear(&tar->own);
    tar->entry = (struct ag_tar_entry){ .path = "", .link = "" };
    for (int extended = 0;; extended++) {
        int64_t size;

        h = block(tar);
        if (!h)
            damaged(tar, "is missing: the archive has no end mark");
        if (is_zero(h)) {
            if (extended)
                damaged(tar, "has an extended header and nothing else");
            return NULL;
        }
        check_sum(tar, h);
        if (!h->type || !strchr("xgLKV", h->type))
            break;
        if (extended > 16)
            damaged(tar, "has too many extended headers");
        size = number(tar, h->size, sizeof h->size);
        if (h->type != 'V')
            take_extended(tar, h->type, size);
    }
    take_entry(tar, h);
    tar->entries++;
    return &tar->entry;
}
