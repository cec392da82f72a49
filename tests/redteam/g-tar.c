/* SPDX-License-Identifier: Apache-2.0
 * See g-tar.h. */
#include "g-tar.h"

#include <lzma.h>
#include <sbtest.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>
#include <zstd.h>

void tar_raw(struct tar *tar, const void *data, size_t size)
{
    if (tar->size + size > tar->room) {
        tar->room = (tar->size + size) * 2;
        tar->data = realloc(tar->data, tar->room);
        ck_assert_ptr_nonnull(tar->data);
    }
    memcpy(tar->data + tar->size, data, size);
    tar->size += size;
}

static void zeros(struct tar *tar, size_t size)
{
    static const char block[65536];

    for (; size > sizeof block; size -= sizeof block)
        tar_raw(tar, block, sizeof block);
    tar_raw(tar, block, size);
}

static void pad(struct tar *tar)
{
    zeros(tar, (512 - tar->size % 512) % 512);
}

static void octal(char *field, size_t size, long long value)
{
    char text[32];

    ck_assert_int_lt(snprintf(text, sizeof text, "%0*llo", (int)size - 1, value), (int)size);
    memcpy(field, text, size);
}

void tar_put(struct tar *tar, const struct tar_entry *entry)
{
    char block[512] = { 0 };
    long long size = entry->data ? (long long)strlen(entry->data) : entry->zeros;
    unsigned int sum = 0;

    memcpy(block, entry->name, strlen(entry->name) < 100 ? strlen(entry->name) : 100);
    octal(block + 100, 8, entry->mode == -1 ? 0 : entry->mode ? entry->mode : 0644);
    octal(block + 108, 8, entry->uid);
    octal(block + 116, 8, entry->gid);
    octal(block + 124, 12, size);
    if (entry->size_field)
        memcpy(block + 124, entry->size_field, 12);
    octal(block + 136, 12, entry->mtime);
    memset(block + 148, ' ', 8);
    block[156] = entry->type ? entry->type : '0';
    if (entry->link)
        memcpy(block + 157, entry->link, strlen(entry->link) < 100 ? strlen(entry->link) : 100);
    memcpy(block + 257, "ustar\00000", 8);
    octal(block + 329, 8, entry->major);
    octal(block + 337, 8, entry->minor);
    for (size_t i = 0; i < sizeof block; i++)
        sum += (unsigned char)block[i];
    octal(block + 148, 7, sum);
    tar_raw(tar, block, sizeof block);
    if (entry->data)
        tar_raw(tar, entry->data, (size_t)size);
    else
        zeros(tar, (size_t)size);
    pad(tar);
}

void tar_pax(struct tar *tar, const char *key, const void *value, size_t size)
{
    struct tar body = { 0 };
    size_t length = strlen(key) + size + 3;
    char head[400];
    int n;

    /* the length counts its own digits */
    while ((size_t)snprintf(head, sizeof head, "%zu", length) + strlen(key) + size + 3 != length)
        length++;
    n = snprintf(head, sizeof head, "%zu %s=", length, key);
    tar_raw(&body, head, (size_t)n);
    tar_raw(&body, value, size);
    tar_raw(&body, "\n", 1);
    snprintf(head, sizeof head, "%011zo", body.size);
    TAR(tar, .name = "pax", .type = 'x', .size_field = head);
    tar_raw(tar, body.data, body.size);
    pad(tar);
    free(body.data);
}

void tar_end(struct tar *tar)
{
    zeros(tar, 1024);
}

void save(const char *path, const void *data, size_t size)
{
    FILE *f = fopen(path, "we");

    ck_assert_ptr_nonnull(f);
    ck_assert_uint_eq(fwrite(data, 1, size, f), size);
    ck_assert_int_eq(fclose(f), 0);
}

static void drop(struct tar *tar)
{
    free(tar->data);
    *tar = (struct tar){ 0 };
}

void tar_save(struct tar *tar, const char *path)
{
    save(path, tar->data, tar->size);
    drop(tar);
}

void tar_save_gzip(struct tar *tar, const char *path)
{
    gzFile f = gzopen(path, "we1");

    ck_assert_ptr_nonnull(f);
    ck_assert_int_eq(gzwrite(f, tar->data, (unsigned int)tar->size), (int)tar->size);
    ck_assert_int_eq(gzclose(f), Z_OK);
    drop(tar);
}

void tar_save_zstd(struct tar *tar, const char *path)
{
    size_t room = ZSTD_compressBound(tar->size), n;
    char *out = malloc(room);

    ck_assert_ptr_nonnull(out);
    n = ZSTD_compress(out, room, tar->data, tar->size, 1);
    ck_assert(!ZSTD_isError(n));
    save(path, out, n);
    free(out);
    drop(tar);
}

void tar_save_xz(struct tar *tar, const char *path)
{
    size_t room = lzma_stream_buffer_bound(tar->size), n = 0;
    uint8_t *out = malloc(room);

    ck_assert_ptr_nonnull(out);
    ck_assert_int_eq(lzma_easy_buffer_encode(0, LZMA_CHECK_CRC32, NULL, (const uint8_t *)tar->data, tar->size, out, &n, room), LZMA_OK);
    save(path, out, n);
    free(out);
    drop(tar);
}
