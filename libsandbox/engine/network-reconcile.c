/* SPDX-License-Identifier: Apache-2.0
 * reconcile: numbers of root's networks whose sandbox or network is no more, as when somebody removed its folder by hand. A claim names the state
 * root; it is made before the interfaces and rules are, and given back after them. */
#include "network.h"
#include "reconcile.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

struct claim {
    int number;
    char holder[512];
};
struct claims {
    const char *prefix;
    struct sb_reconcile *rc;
    struct claim found[64];
    size_t n;
};

static int is_gone(struct sb_reconcile *rc, const char *of)
{
    static const char named[] = "network ";
    struct stat st;

    if (!strncmp(of, named, sizeof named - 1))
        return sb_name_valid(of + sizeof named - 1) && fstatat(rc->engine->networks, of + sizeof named - 1, &st, AT_SYMLINK_NOFOLLOW) < 0 && errno == ENOENT;
    return sb_id_valid(of) && sb_reconcile_is_gone(rc, of);
}

static void look(void *data, int number, const char *holder)
{
    struct claims *c = data;
    size_t prefix = strlen(c->prefix);

    if (c->n < SB_ELEMENTS(c->found) && !strncmp(holder, c->prefix, prefix) && strlen(holder) < sizeof c->found[0].holder && is_gone(c->rc, holder + prefix)) {
        c->found[c->n].number = number;
        snprintf(c->found[c->n++].holder, sizeof c->found[0].holder, "%s", holder);
    }
}

int sb_reconcile_networks(struct sb_reconcile *rc)
{
    SB_FREE char *prefix = rc->engine->map.privilege == SB_PRIVILEGE_ROOT ? sb_record_holder_prefix(rc->engine) : NULL;
    struct claims c = { .prefix = prefix, .rc = rc };

    if (!prefix)
        return 0;
    sb_network_numbers_each(look, &c);
    for (size_t i = 0; i < c.n; i++) {
        int r = rc->dry || !sb_network_number_undo(rc->engine, c.found[i].number, c.found[i].holder, NULL) ? 0 : -EBUSY;
        char name[32];

        snprintf(name, sizeof name, "%d", c.found[i].number);
        sb_reconcile_found(rc, "network", name, "what it was made for is no more", r);
    }
    return c.n == SB_ELEMENTS(c.found) && !rc->dry;
}
