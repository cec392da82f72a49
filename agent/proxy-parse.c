/* SPDX-License-Identifier: Apache-2.0
 * What a sandbox says to its proxy, read: HTTP heads, the first bytes of TLS, DNS questions. Strict: what is not understood is refused, since what
 * two sides read differently is a way through. Nothing is allocated, nothing is changed in place. */
#include "proxy.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include <util.h>

/* ---- HTTP ---- */

static int is_token(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || (c && strchr("!#$%&'*+-.^_`|~", c));
}

/* "HOST[:PORT]" as in a target or a Host header. */
static int read_authority(const char *text, size_t size, int otherwise, struct sb_host_name *host, int *port)
{
    const char *colon = NULL;
    size_t n = size;
    char digits[8];
    int64_t number;

    for (size_t i = size; i > 0 && !colon; i--) {
        if (text[i - 1] == ']')
            break;
        if (text[i - 1] == ':')
            colon = text + i - 1;
    }
    *port = otherwise;
    if (colon) {
        n = (size_t)(colon - text);
        if (size - n - 1 == 0 || size - n - 1 >= sizeof digits)
            return -1;
        memcpy(digits, colon + 1, size - n - 1);
        digits[size - n - 1] = 0;
        if (sb_parse_int(digits, 1, 65535, &number))
            return -1;
        *port = (int)number;
    }
    return *port && sb_host_parse(text, n, host) == 0 ? 0 : -1;
}

static int same_host(const struct sb_host_name *a, const struct sb_host_name *b)
{
    return a->is_address == b->is_address && (a->is_address ? !memcmp(a->address, b->address, 16) : !strcmp(a->name, b->name));
}

struct line {
    const char *at;
    size_t size; /* without CR LF */
};

/* 0: the end of the head. */
static int next_line(const char **at, const char *end, struct line *ret)
{
    const char *lf = memchr(*at, '\n', (size_t)(end - *at));

    ret->at = *at;
    ret->size = (size_t)(lf - *at) - 1; /* every LF has a CR before it: it was looked at */
    *at = lf + 1;
    return ret->size > 0;
}

struct heads {
    struct sb_host_name host;
    int host_port, n_hosts, n_lengths;
    uint64_t length;
};

/* One header line. 0 or the status. */
static int read_header(const struct line *l, int otherwise, struct heads *ret, const char **why)
{
    const char *colon = memchr(l->at, ':', l->size), *value;
    size_t name = colon ? (size_t)(colon - l->at) : 0, size;

    *why = "a header line is malformed";
    if (!name)
        return 400;
    for (size_t i = 0; i < name; i++)
        if (!is_token(l->at[i]))
            return 400; /* also a line that goes on the one before it */
    value = colon + 1;
    size = l->size - name - 1;
    while (size && (*value == ' ' || *value == '\t')) {
        value++;
        size--;
    }
    while (size && (value[size - 1] == ' ' || value[size - 1] == '\t'))
        size--;
    for (size_t i = 0; i < size; i++)
        if ((unsigned char)value[i] < 0x20 && value[i] != '\t')
            return 400;
    if (name == 4 && !strncasecmp(l->at, "Host", 4)) {
        *why = "the Host header is malformed, or there are several";
        return ret->n_hosts++ || read_authority(value, size, otherwise, &ret->host, &ret->host_port) ? 400 : 0;
    }
    if (name == 17 && !strncasecmp(l->at, "Transfer-Encoding", 17)) {
        *why = "a body needs a Content-Length here";
        return 411;
    }
    if (name == 14 && !strncasecmp(l->at, "Content-Length", 14)) {
        char digits[20];
        int64_t n;

        *why = "the Content-Length is malformed, or there are several";
        if (ret->n_lengths++ || size == 0 || size >= sizeof digits)
            return 400;
        memcpy(digits, value, size);
        digits[size] = 0;
        if (sb_parse_int(digits, 0, INT64_C(1) << 60, &n))
            return 400;
        ret->length = (uint64_t)n;
    }
    return 0;
}

/* The end of the head, or NULL when it isn't there. A CR without LF, or an LF without CR, is none. */
static const char *head_end(const char *data, size_t size, int *ret_bad)
{
    for (size_t i = 0; i < size; i++) {
        if (data[i] == 0 || (data[i] == '\n' && (i == 0 || data[i - 1] != '\r')) || (data[i] == '\r' && i + 1 < size && data[i + 1] != '\n')) {
            *ret_bad = 1;
            return NULL;
        }
        if (data[i] == '\n' && i >= 3 && !memcmp(data + i - 3, "\r\n\r\n", 4))
            return data + i + 1;
    }
    return NULL;
}

static int read_target(const struct line *l, const char *first_space, const char *last_space, struct px_request *ret, const char **why)
{
    const char *target = first_space + 1;
    size_t size = (size_t)(last_space - target), n;

    for (size_t i = 0; i < size; i++)
        if ((unsigned char)target[i] <= 0x20 || target[i] == 0x7f)
            return 400;
    ret->is_connect = first_space - l->at == 7 && !memcmp(l->at, "CONNECT", 7);
    if (ret->is_connect)
        return read_authority(target, size, 0, &ret->host, &ret->port) ? 400 : 0;
    *why = "this is a proxy: the target must be http://HOST… or CONNECT HOST:PORT";
    if (size < 8 || strncasecmp(target, "http://", 7))
        return 400;
    n = strcspn(target + 7, "/?# ");
    return memchr(target + 7, '@', n) || read_authority(target + 7, n, 80, &ret->host, &ret->port) ? 400 : 0;
}

int px_parse_request(const char *data, size_t size, struct px_request *ret, const char **ret_why)
{
    struct px_request request = { 0 };
    struct heads heads = { 0 };
    const char *at = data, *end, *first, *last;
    struct line l;
    int bad = 0, r;

    *ret_why = "the request is malformed";
    end = head_end(data, size, &bad);
    if (bad)
        return 400;
    if (!end) {
        *ret_why = "the request's head is too long";
        return size >= PX_HEAD_MAX ? 431 : 1;
    }
    request.size = (size_t)(end - data);
    if (!next_line(&at, end, &l))
        return 400;
    first = memchr(l.at, ' ', l.size);
    last = memrchr(l.at, ' ', l.size);
    if (!first || first == last || first == l.at || l.at + l.size - last != 9 || (memcmp(last + 1, "HTTP/1.1", 8) && memcmp(last + 1, "HTTP/1.0", 8)))
        return 400;
    for (const char *p = l.at; p < first; p++)
        if (!is_token(*p))
            return 400;
    r = read_target(&l, first, last, &request, ret_why);
    while (!r && next_line(&at, end, &l))
        r = read_header(&l, request.is_connect ? request.port : 80, &heads, ret_why);
    if (r)
        return r;
    *ret_why = "the Host header is not the request's target";
    if (heads.n_hosts && (!same_host(&heads.host, &request.host) || heads.host_port != request.port))
        return 400;
    request.body = request.is_connect ? 0 : heads.length;
    *ret = request;
    return 0;
}

static int is_dropped(const struct line *l)
{
    static const char *const names[] = { "Connection:", "Proxy-Connection:", "Proxy-Authorization:", "Keep-Alive:", "Upgrade:", "TE:", "Expect:", "Host:" };

    for (size_t i = 0; i < SB_ELEMENTS(names); i++)
        if (l->size >= strlen(names[i]) && !strncasecmp(l->at, names[i], strlen(names[i])))
            return 1;
    return 0;
}

struct text {
    char *to;
    size_t n, room;
};

static void put(struct text *t, const char *data, size_t size)
{
    if (t->n + size <= t->room)
        memcpy(t->to + t->n, data, size);
    t->n += size;
}

static void put_string(struct text *t, const char *text)
{
    put(t, text, strlen(text));
}

size_t px_rewrite_request(const char *data, const struct px_request *request, char *to, size_t room)
{
    const char *at = data, *end = data + request->size, *first, *path, *last, *fragment;
    struct text t = { to, 0, room };
    struct line l;
    size_t host;

    next_line(&at, end, &l);
    first = memchr(l.at, ' ', l.size);
    last = memrchr(l.at, ' ', l.size);
    host = strcspn(first + 8, "/?# ");
    path = first + 8 + host;
    fragment = memchr(path, '#', (size_t)(last - path));
    put(&t, l.at, (size_t)(first + 1 - l.at));
    if (*path != '/')
        put_string(&t, "/");
    put(&t, path, (size_t)((fragment ? fragment : last) - path));
    put_string(&t, " HTTP/1.1\r\nHost: ");
    put(&t, first + 8, host);
    put_string(&t, "\r\nConnection: close\r\n");
    while (next_line(&at, end, &l))
        if (!is_dropped(&l)) {
            put(&t, l.at, l.size);
            put_string(&t, "\r\n");
        }
    put_string(&t, "\r\n");
    return t.n <= t.room ? t.n : 0;
}

/* ---- TLS ---- */

struct bytes {
    const unsigned char *at;
    size_t left;
};

static int take(struct bytes *b, size_t n, struct bytes *ret)
{
    if (n > b->left)
        return -1;
    *ret = (struct bytes){ b->at, n };
    b->at += n;
    b->left -= n;
    return 0;
}

/* A field with its length, of so many bytes, in front. */
static int take_field(struct bytes *b, size_t n_length, struct bytes *ret)
{
    struct bytes length;
    size_t n = 0;

    if (take(b, n_length, &length))
        return -1;
    for (size_t i = 0; i < n_length; i++)
        n = n << 8 | length.at[i];
    return take(b, n, ret);
}

static int read_server_name(struct bytes extension, struct sb_host_name *ret)
{
    struct bytes list, kind, name;

    if (take_field(&extension, 2, &list) || extension.left || take(&list, 1, &kind) || kind.at[0] != 0 || take_field(&list, 2, &name) || list.left)
        return -1;
    return sb_host_parse((const char *)name.at, name.left, ret);
}

/* 0 and *ret_found, or -1. */
static int read_hello(struct bytes hello, struct sb_host_name *ret, int *ret_found)
{
    struct bytes skip, extensions;

    *ret_found = 0;
    if (take(&hello, 34, &skip) || take_field(&hello, 1, &skip) || take_field(&hello, 2, &skip) || take_field(&hello, 1, &skip))
        return -1;
    if (!hello.left)
        return 0;
    if (take_field(&hello, 2, &extensions) || hello.left)
        return -1;
    while (extensions.left) {
        struct bytes type, body;

        if (take(&extensions, 2, &type) || take_field(&extensions, 2, &body))
            return -1;
        if (type.at[0] || type.at[1])
            continue;
        if ((*ret_found)++ || read_server_name(body, ret))
            return -1;
    }
    return 0;
}

int px_check_tunnel(const unsigned char *data, size_t size, const struct px_request *request, const char **ret_why)
{
    struct bytes all = { data, size }, head, record, type, hello;
    struct sb_host_name name;
    int found;

    if (!size)
        return 1;
    if (data[0] != 0x16) {
        *ret_why = "on port 443 only TLS is let through";
        return request->port == 443 ? -1 : 0;
    }
    if (request->host.is_address) /* it was allowed as an address: whatever name it serves */
        return 0;
    *ret_why = "the TLS hello is malformed";
    if (take(&all, 3, &head))
        return 1;
    if (head.at[1] != 3)
        return -1;
    if (all.left < 2 || take_field(&all, 2, &record))
        return size >= 5 && (data[3] << 8 | data[4]) > 16384 ? -1 : 1;
    if (take(&record, 1, &type) || type.at[0] != 1 || take_field(&record, 3, &hello) || read_hello(hello, &name, &found))
        return -1;
    *ret_why = "the TLS hello names no server";
    if (!found)
        return -1;
    *ret_why = "the TLS hello names another server (SNI)";
    return same_host(&name, &request->host) ? 0 : -1;
}

/* ---- DNS ---- */

enum { DNS_HEADER = 12, DNS_TTL = 30 };

int px_parse_question(const unsigned char *data, size_t size, struct px_question *ret)
{
    size_t at = DNS_HEADER, n = 0;
    struct sb_host_name host;
    char name[256];

    if (size < DNS_HEADER || size > 512 || (data[2] & 0xf8) || data[4] || data[5] != 1 || data[6] || data[7] || data[8] || data[9])
        return -1; /* a query, of one question; what may be behind it (EDNS) isn't needed */
    while (at < size && data[at]) {
        size_t label = data[at++];

        if (label > 63 || at + label > size || n + label + 1 >= sizeof name)
            return -1;
        memcpy(name + n, data + at, label);
        if (memchr(name + n, '.', label))
            return -1;
        n += label;
        name[n++] = '.';
        at += label;
    }
    if (at + 5 > size || !n || data[at + 3] || data[at + 4] != 1 || sb_host_parse(name, n - 1, &host) || host.is_address)
        return -1;
    *ret = (struct px_question){ .id = (uint16_t)(data[0] << 8 | data[1]), .type = (uint16_t)(data[at + 1] << 8 | data[at + 2]), .size = at + 5 };
    memcpy(ret->name, host.name, sizeof ret->name);
    return 0;
}

size_t px_write_answer(const unsigned char *question, const struct px_question *q, int code, const unsigned char (*addresses)[16], size_t n,
                       unsigned char *to, size_t room)
{
    size_t length = q->type == 1 ? 4 : 16, at = q->size, written = 0;

    if (at > room)
        return 0;
    memcpy(to, question, at);
    to[2] = (unsigned char)(0x80 | (question[2] & 1));
    to[3] = (unsigned char)(0x80 | code);
    for (size_t i = 0; i < n && at + 12 + length <= room; i++, written++) {
        const unsigned char record[12] = { 0xc0, DNS_HEADER, (unsigned char)(q->type >> 8), (unsigned char)q->type, 0, 1, 0, 0, 0, DNS_TTL, 0,
                                           (unsigned char)length };

        memcpy(to + at, record, sizeof record);
        memcpy(to + at + sizeof record, addresses[i] + 16 - length, length);
        at += sizeof record + length;
    }
    memset(to + 6, 0, 6);
    to[7] = (unsigned char)written;
    return at;
}
