/* SPDX-License-Identifier: Apache-2.0
 * See tar.h: extended headers, and the maps of files with holes. */
#include "tar.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { PARTS_MAX = 1 << 18, DIGITS_MAX = 19 };

static void __attribute__((noreturn)) wrong(const char *why)
{
    au_fail(SANDBOX_EDAMAGED, 0, NULL, "the archive has an extended header that %s", why);
}

void ag_tar_values_clear(struct ag_tar_values *v)
{
    free(v->path);
    free(v->link);
    free(v->sparse_name);
    for (size_t i = 0; i < v->n_xattrs; i++) {
        free(v->xattr_names[i]);
        free(v->xattr_values[i]);
    }
    v->path = v->link = v->sparse_name = NULL;
    v->uid = v->gid = v->size = v->real_size = v->part_offset = -1;
    v->sparse_major = v->sparse_minor = -1;
    v->has_mtime = 0;
    v->n_xattrs = v->n_parts = 0; /* the room for parts is kept */
}

void ag_tar_add_part(struct ag_tar_values *v, int64_t offset, int64_t size)
{
    if (v->n_parts == PARTS_MAX)
        au_fail(SANDBOX_ELIMIT, 0, NULL, "a file of the archive is in more than %d pieces", PARTS_MAX);
    if (v->n_parts == v->room_parts) {
        size_t room = v->room_parts ? v->room_parts * 2 : 64;
        struct ag_tar_part *more = reallocarray(v->parts, room, sizeof *more);

        if (!more)
            au_fail(SANDBOX_ENOMEM, 0, NULL, "out of memory");
        v->parts = more;
        v->room_parts = room;
    }
    v->parts[v->n_parts++] = (struct ag_tar_part){ offset, size };
}

static int64_t decimal(const char *text, const char *end)
{
    int64_t value = 0;

    if (text == end || end - text >= DIGITS_MAX)
        wrong("has a number that is none or too large");
    for (; text < end; text++) {
        if (*text < '0' || *text > '9')
            wrong("has a number that is none");
        value = value * 10 + (*text - '0');
    }
    return value;
}

/* "[-]SECONDS[.FRACTION]" */
static void take_time(struct ag_tar_values *v, const char *value, const char *end)
{
    int negative = *value == '-';
    const char *dot = memchr(value, '.', (size_t)(end - value));
    int64_t seconds = decimal(value + negative, dot ? dot : end);
    long nanos = 0, unit = 100000000;

    for (const char *p = dot ? dot + 1 : end; p < end; p++, unit /= 10) {
        if (*p < '0' || *p > '9')
            wrong("has a time that is none");
        nanos += (*p - '0') * unit;
    }
    v->mtime = (struct timespec){ negative ? -seconds : seconds, nanos };
    if (negative && nanos)
        v->mtime = (struct timespec){ -seconds - 1, 1000000000 - nanos };
    v->has_mtime = 1;
}

static void set_text(char **text, const char *value, size_t size)
{
    if (memchr(value, 0, size))
        wrong("has a name with a NUL in it");
    free(*text);
    *text = strndup(value, size);
    if (!*text)
        au_fail(SANDBOX_ENOMEM, 0, NULL, "out of memory");
}

static void add_xattr(struct ag_tar_values *v, const char *name, const char *value, size_t size)
{
    size_t i = v->n_xattrs;

    if (i == TAR_XATTRS_MAX || strlen(name) > 255)
        return;
    v->xattr_names[i] = strdup(name);
    v->xattr_values[i] = malloc(size + 1);
    if (!v->xattr_names[i] || !v->xattr_values[i])
        au_fail(SANDBOX_ENOMEM, 0, NULL, "out of memory");
    memcpy(v->xattr_values[i], value, size);
    v->xattr_sizes[i] = size;
    v->n_xattrs++;
}

/* Form 0.1: "OFFSET,SIZE,OFFSET,SIZE…" */
static void take_map(struct ag_tar_values *v, const char *value, const char *end)
{
    v->n_parts = 0;
    while (value < end) {
        const char *comma = memchr(value, ',', (size_t)(end - value)), *next;
        int64_t offset;

        if (!comma)
            wrong("has half a piece");
        offset = decimal(value, comma);
        next = memchr(comma + 1, ',', (size_t)(end - comma - 1));
        next = next ? next : end;
        ag_tar_add_part(v, offset, decimal(comma + 1, next));
        value = next + 1;
    }
}

static void take_sparse(struct ag_tar_values *v, const char *key, const char *value, const char *end)
{
    if (!strcmp(key, "major"))
        v->sparse_major = (int)(decimal(value, end) & 255);
    else if (!strcmp(key, "minor"))
        v->sparse_minor = (int)(decimal(value, end) & 255);
    else if (!strcmp(key, "name"))
        set_text(&v->sparse_name, value, (size_t)(end - value));
    else if (!strcmp(key, "realsize") || !strcmp(key, "size"))
        v->real_size = decimal(value, end);
    else if (!strcmp(key, "map"))
        take_map(v, value, end);
    else if (!strcmp(key, "offset"))
        v->part_offset = decimal(value, end);
    else if (!strcmp(key, "numbytes") && v->part_offset >= 0)
        ag_tar_add_part(v, v->part_offset, decimal(value, end));
    /* numblocks says nothing new */
}

static void take_record(struct ag_tar_values *v, const char *key, const char *value, const char *end)
{
    size_t size = (size_t)(end - value);

    if (!strcmp(key, "path"))
        set_text(&v->path, value, size);
    else if (!strcmp(key, "linkpath"))
        set_text(&v->link, value, size);
    else if (!strcmp(key, "size"))
        v->size = decimal(value, end);
    else if (!strcmp(key, "uid"))
        v->uid = decimal(value, end);
    else if (!strcmp(key, "gid"))
        v->gid = decimal(value, end);
    else if (!strcmp(key, "mtime"))
        take_time(v, value, end);
    else if (!strncmp(key, "SCHILY.xattr.", 13))
        add_xattr(v, key + 13, value, size);
    else if (!strncmp(key, "GNU.sparse.", 11))
        take_sparse(v, key + 11, value, end);
    /* what else there is (atime, ctime, names of users, comments) is not kept anywhere */
}

/* "LENGTH KEY=VALUE\n", one after the other; LENGTH counts all of it. */
void ag_pax_parse(struct ag_tar_values *v, char *text, size_t size)
{
    char *p = text, *end = text + size;

    while (p < end) {
        char *blank = memchr(p, ' ', (size_t)(end - p)), *equals, *last;
        int64_t length;

        if (!blank)
            wrong("has a record without a length");
        length = decimal(p, blank);
        if (length > end - p || length < blank - p + 3)
            wrong("has a record of a length that can't be");
        last = p + length - 1;
        equals = memchr(blank, '=', (size_t)(last - blank));
        if (*last != '\n' || !equals)
            wrong("has a record that is none");
        *equals = 0;
        if (strlen(blank + 1) != (size_t)(equals - blank - 1))
            wrong("has a key with a NUL in it");
        take_record(v, blank + 1, equals + 1, last);
        p = last + 1;
    }
}

struct digits {
    struct ag_tar *tar;
    int64_t read;
};

/* A number that ends with a newline. */
static int64_t map_number(struct digits *d)
{
    int64_t value = 0;

    for (int digits = 0;; digits++) {
        const void *data;
        char c;

        if (!ag_tar_read(d->tar, &data, 1))
            wrong("has a map that is cut off");
        d->read++;
        c = *(const char *)data;
        if (c == '\n' && digits)
            return value;
        if (c < '0' || c > '9' || digits >= DIGITS_MAX - 1)
            wrong("has a map that makes no sense");
        value = value * 10 + (c - '0');
    }
}

void ag_tar_read_map(struct ag_tar *tar)
{
    struct digits d = { tar, 0 };
    int64_t n = map_number(&d);
    const void *data;

    tar->own.n_parts = 0;
    for (int64_t i = 0; i < n; i++) {
        int64_t offset = map_number(&d);

        ag_tar_add_part(&tar->own, offset, map_number(&d));
    }
    for (int64_t rest = -d.read & (TAR_BLOCK - 1); rest > 0;) {
        size_t part = ag_tar_read(tar, &data, rest);

        if (!part)
            wrong("has a map that is cut off");
        rest -= (int64_t)part;
    }
}
