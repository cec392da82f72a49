/* SPDX-License-Identifier: Apache-2.0
 * Many sandboxes at once. Each is asked as inspect asks it, but not one after the other: up to WINDOW inits have their question before the
 * first answer is waited for, and the next records are read meanwhile. Who doesn't pass the filter isn't asked at all. */
#include "lifetime.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <errors.h>
#include <fs.h>
#include <json.h>

enum { WINDOW = 64, ANSWER_MS = 2000 };

struct asked {
    struct sb_record record;
    int link; /* -1: nobody listens */
    int64_t until;
};

struct listing {
    struct sb_engine *engine;
    const struct sandbox_list_options *options;
    struct sb_isolations isolations;
    json_t *list;
    struct asked ring[WINDOW];
    size_t first, n;
};

static int has_label(const struct sandbox_spec *spec, const char *key, const char *value)
{
    for (size_t i = 0; i < spec->n_labels; i++)
        if (!strcmp(spec->labels[i].key, key))
            return !value || !strcmp(spec->labels[i].value, value);
    return 0;
}

/* spec NULL: of a damaged one, which has neither name nor labels. */
static int matches(const struct sandbox_list_options *o, const struct sandbox_spec *spec)
{
    const char *name = spec && spec->name ? spec->name : "";

    if (o && o->name_prefix && strncmp(name, o->name_prefix, strlen(o->name_prefix)))
        return 0;
    return !o || !o->label_key || (spec && has_label(spec, o->label_key, o->label_value));
}

static int append(struct listing *l, json_t *document, struct sandbox_error **error)
{
    return !document || json_array_append_new(l->list, document) ? sb_fail(error, SB_ARGS(SANDBOX_ENOMEM, .sys_errno = ENOMEM), "out of memory")
                                                                  : 0;
}

/* Takes the answer of the one that was asked first. */
static int collect(struct listing *l, struct sandbox_error **error)
{
    struct asked *a = &l->ring[l->first];
    struct sb_reply status;
    int answered = a->link >= 0 && !sb_link_receive(a->link, sb_left_ms(a->until), &status, NULL, NULL) && status.type == SB_REPLY_STATUS;
    int r = 0;

    /* silent because it was deleted meanwhile? Then it is not listed */
    if (answered || faccessat(l->engine->sandboxes, a->record.id, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
        r = append(l, sb_inspect_document(l->engine, &a->record, answered ? &status : NULL, &l->isolations), error);
    a->link = sb_close(a->link);
    sb_record_clear(&a->record);
    l->first = (l->first + 1) % WINDOW;
    l->n--;
    return r;
}

/* Asks; what came before is collected first when descriptors are short. */
static int ask(struct listing *l, struct asked *a, struct sandbox_error **error)
{
    const struct sb_request request = { .type = SB_REQUEST_STATUS };
    struct sandbox_error *why = NULL;
    int r;

    for (;;) {
        r = sb_link_open(l->engine, a->record.id, &a->link, &why);
        if (!r || (sandbox_error_get_errno(why) != EMFILE && sandbox_error_get_errno(why) != ENFILE))
            break;
        if (!l->n) {
            if (error)
                *error = SB_TAKE_PTR(why);
            sandbox_error_unref(why);
            return r;
        }
        why = sandbox_error_unref(why);
        r = collect(l, error);
        if (r)
            return r;
    }
    sandbox_error_unref(why);
    if (!r && sb_link_send(a->link, &request, NULL, NULL, 0, NULL))
        a->link = sb_close(a->link);
    a->until = sb_now_ms() + ANSWER_MS;
    return 0;
}

/* For want of descriptors or memory in this process: no fault of a sandbox's, and a list without it would be a lie. */
static int is_short(const struct sandbox_error *why)
{
    int sys_errno = sandbox_error_get_errno(why);

    return why && (sys_errno == EMFILE || sys_errno == ENFILE || sandbox_error_get_code(why) == SANDBOX_ENOMEM);
}

static int give_back(struct sandbox_error *why, struct sandbox_error **error)
{
    int r = sandbox_error_get_code(why);

    if (error)
        *error = sandbox_error_ref(why);
    sandbox_error_unref(why);
    return r;
}

static int add_unreadable(struct listing *l, const char *id, struct sandbox_error **error)
{
    struct sandbox_error *why = NULL;
    json_t *document;
    int r;

    if (!matches(l->options, NULL))
        return 0;
    /* with all the care that inspect takes: it may be one that is just being made, or was deleted in between */
    r = sb_inspect_one(l->engine, id, &document, &why);
    if (is_short(why))
        return give_back(why, error);
    sandbox_error_unref(why);
    if (r == SANDBOX_ENOTFOUND)
        return 0;
    return append(l, r ? sb_inspect_damaged(id) : document, error);
}

static int add(struct listing *l, const char *id, struct sandbox_error **error)
{
    struct asked a = { .record = SB_RECORD_INIT, .link = -1 };
    struct sandbox_error *why = NULL;
    int r;

    while ((r = sb_known_load(l->engine, id, &a.record, &why)) && is_short(why) && l->n) { /* what came before gives its descriptors back */
        why = sandbox_error_unref(why);
        sb_record_clear(&a.record);
        r = collect(l, error);
        if (r)
            return r;
    }
    if (r) {
        sb_record_clear(&a.record);
        if (is_short(why))
            return give_back(why, error);
        sandbox_error_unref(why);
        return add_unreadable(l, id, error);
    }
    if (matches(l->options, a.record.spec)) {
        if (l->n == WINDOW)
            r = collect(l, error);
        if (!r)
            r = ask(l, &a, error);
        if (!r) {
            l->ring[(l->first + l->n++) % WINDOW] = a;
            return 0;
        }
    }
    sb_close(a.link);
    sb_record_clear(&a.record);
    return r;
}

int sb_engine_list(struct sb_driver *driver, const struct sandbox_list_options *options, json_t **ret_json,
                   struct sandbox_error **error)
{
    struct listing l = { .engine = (struct sb_engine *)driver, .options = options, .list = json_array() };
    /* who has a name has a claim on it */
    int named = options && options->name_prefix && *options->name_prefix;
    DIR *stream = sb_read_folder(named ? l.engine->names : l.engine->sandboxes);
    struct dirent *d;
    int r = 0;

    if (!stream) {
        json_decref(l.list);
        return sb_fail_errno(error, errno, "list", "the state root can't be read");
    }
    sb_children_reap(l.engine);
    sb_lifetime_sweep(l.engine);
    sb_known_begin(l.engine);
    while (!r && (d = readdir(stream))) {
        char id[SB_ID_SIZE + 1];
        ssize_t n = named ? readlinkat(dirfd(stream), d->d_name, id, sizeof id) : snprintf(id, sizeof id, "%.*s", SB_ID_SIZE, d->d_name);

        if (n != SB_ID_SIZE - 1 || (named && strncmp(d->d_name, options->name_prefix, strlen(options->name_prefix))))
            continue;
        id[n] = 0;
        if (sb_id_valid(id))
            r = add(&l, id, error);
    }
    while (l.n) {
        int more = collect(&l, r ? NULL : error);

        r = r ? r : more;
    }
    closedir(stream);
    sb_known_end(l.engine);
    sb_isolations_clear(&l.isolations);
    if (r)
        json_decref(l.list);
    else
        *ret_json = l.list;
    return r;
}
