/* SPDX-License-Identifier: Apache-2.0
 * What a daemon or command gets where nobody said otherwise: the image's configuration, then the spec's, then a request's. */
#include "network.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <errors.h>
#include <json.h>
#include <network-plan.h>

#define TEXT_OF(number) #number
#define URL_OF(port) "http://127.0.0.1:" TEXT_OF(port)
#define PROXY URL_OF(SB_PROXY_PORT)

void sb_list_free(char **list)
{
    for (size_t i = 0; list && list[i]; i++)
        free(list[i]);
    free(list);
}

static char *stored(const struct sb_record *record, const char *key, const char *from_spec, const char *otherwise)
{
    SB_FREE char *image = NULL;

    if (from_spec)
        return strdup(from_spec);
    image = sb_json_get_bytes(json_object_get(record->json, key));
    return image && *image ? SB_TAKE_PTR(image) : strdup(otherwise);
}

char *sb_default_workdir(const struct sb_record *record)
{
    return stored(record, "workdir", record->spec->workdir, "/");
}

char *sb_default_user(const struct sb_record *record)
{
    return stored(record, "user", record->spec->user, "0:0");
}

struct list {
    char **items;
    size_t n, room;
};

/* Takes the entry over. An equal name is replaced in place. */
static int put(struct list *l, char *entry)
{
    size_t name;

    if (!entry)
        return -ENOMEM;
    name = strcspn(entry, "=");
    for (size_t i = 0; i < l->n; i++)
        if (!strncmp(l->items[i], entry, name) && l->items[i][name] == '=' && entry[name] == '=') {
            free(l->items[i]);
            l->items[i] = entry;
            return 0;
        }
    if (l->n + 2 > l->room) {
        size_t room = l->room ? l->room * 2 : 32;
        char **more = realloc(l->items, room * sizeof *more);

        if (!more) {
            free(entry);
            return -ENOMEM;
        }
        l->items = more;
        l->room = room;
    }
    l->items[l->n++] = entry;
    l->items[l->n] = NULL;
    return 0;
}

static int has(const struct list *l, const char *name)
{
    size_t n = strlen(name);

    for (size_t i = 0; i < l->n; i++)
        if (!strncmp(l->items[i], name, n) && l->items[i][n] == '=')
            return 1;
    return 0;
}

int sb_environment(const struct sb_record *record, const char *const *more, int for_root, char ***ret_env, size_t *ret_n,
                   struct sandbox_error **error)
{
    const json_t *image = json_object_get(record->json, "env"), *entry;
    /* both spellings: half of the programs know only one, and curl takes no HTTP_PROXY */
    static const char *const proxy[] = { "http_proxy=" PROXY, "https_proxy=" PROXY, "HTTP_PROXY=" PROXY, "HTTPS_PROXY=" PROXY,
                                         "no_proxy=localhost,127.0.0.1,::1", "NO_PROXY=localhost,127.0.0.1,::1" };
    const int proxied = sb_network_kind(record) == SANDBOX_NETWORK_PROXY;
    struct list l = { 0 };
    size_t i;
    int r = 0;

    json_array_foreach(image, i, entry)
    {
        if (!r)
            r = put(&l, sb_json_get_bytes(entry));
    }
    for (i = 0; proxied && i < SB_ELEMENTS(proxy) && !r; i++)
        r = put(&l, strdup(proxy[i]));
    for (i = 0; i < record->spec->n_env && !r; i++) {
        char *text;

        r = put(&l, asprintf(&text, "%s=%s", record->spec->env[i].key, record->spec->env[i].value) < 0 ? NULL : text);
    }
    for (i = 0; more && more[i] && !r; i++)
        r = put(&l, strdup(more[i]));
    if (!r && !has(&l, "PATH"))
        r = put(&l, strdup("PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"));
    if (!r && !has(&l, "HOME"))
        r = put(&l, strdup(for_root ? "HOME=/root" : "HOME=/"));
    if (r) {
        sb_list_free(l.items);
        return sb_fail(error, SB_ARGS(SANDBOX_ENOMEM, .sys_errno = ENOMEM), "out of memory");
    }
    *ret_env = l.items;
    *ret_n = l.n;
    return 0;
}
