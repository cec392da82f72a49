/* SPDX-License-Identifier: Apache-2.0
 * Records that were read before, for whoever lists a host again and again: most of a list's time is the reading of JSON that has not
 * changed. A record is only ever replaced as a whole, so the same inode with the same time of change and size has the same content; whoever
 * writes into it in spite of that changes its time. What runs is never known from here. */
#include "engine.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include <errors.h>

enum { SLOTS_FIRST = 256, KNOWN_MOST = 8192 };

struct sb_known {
    atomic_uint refs;
    unsigned int seen; /* the last list that came by */
    struct stat file;
    struct sb_record record;
};

struct sb_known_table {
    struct sb_known **slots; /* open addressing; ids are random */
    size_t n_slots, n;
    unsigned int lists;
};

static void unref(struct sb_known *known)
{
    if (known && atomic_fetch_sub(&known->refs, 1) == 1) {
        sb_record_clear(&known->record);
        free(known);
    }
}

void sb_known_drop(struct sb_known *known)
{
    unref(known);
}

void sb_known_free(struct sb_engine *engine)
{
    struct sb_known_table *t = engine->known;

    for (size_t i = 0; t && i < t->n_slots; i++)
        unref(t->slots[i]);
    if (t)
        free(t->slots);
    free(t);
    engine->known = NULL;
}

static size_t place(const struct sb_known_table *t, const char *id)
{
    size_t at = 0;

    for (int i = 0; i < 12; i++)
        at = at * 16 + (size_t)(id[i] <= '9' ? id[i] - '0' : id[i] - 'a' + 10);
    at %= t->n_slots;
    while (t->slots[at] && strcmp(t->slots[at]->record.id, id))
        at = (at + 1) % t->n_slots;
    return at;
}

/* All of them into a table of another size, or into a new one without those that no list has seen since. */
static int rebuild(struct sb_known_table *t, size_t n_slots, unsigned int oldest)
{
    struct sb_known_table now = { .slots = calloc(n_slots, sizeof *now.slots), .n_slots = n_slots, .lists = t->lists };

    if (!now.slots)
        return -ENOMEM;
    for (size_t i = 0; i < t->n_slots; i++)
        if (t->slots[i] && t->slots[i]->seen >= oldest) {
            now.slots[place(&now, t->slots[i]->record.id)] = t->slots[i];
            now.n++;
        } else {
            unref(t->slots[i]);
        }
    free(t->slots);
    *t = now;
    return 0;
}

/* Under the engine's lock. What can't be kept is no fault. */
static void keep(struct sb_engine *engine, struct sb_known *known)
{
    struct sb_known_table *t = engine->known;
    size_t at;

    if (!t && !(t = engine->known = calloc(1, sizeof *t)))
        return;
    if (t->n >= KNOWN_MOST || ((t->n + 1) * 2 > t->n_slots && rebuild(t, t->n_slots ? t->n_slots * 2 : SLOTS_FIRST, 0)))
        return;
    at = place(t, known->record.id);
    unref(t->slots[at]);
    t->n += !t->slots[at];
    t->slots[at] = known;
    known->seen = t->lists;
    atomic_fetch_add(&known->refs, 1);
}

static struct sb_known *find(struct sb_engine *engine, const char *id, const struct stat *file)
{
    struct sb_known_table *t = engine->known;
    struct sb_known *known = t && t->n_slots ? t->slots[place(t, id)] : NULL;

    if (!known || known->file.st_ino != file->st_ino || known->file.st_dev != file->st_dev || known->file.st_size != file->st_size ||
        known->file.st_ctim.tv_sec != file->st_ctim.tv_sec || known->file.st_ctim.tv_nsec != file->st_ctim.tv_nsec)
        return NULL;
    known->seen = t->lists;
    atomic_fetch_add(&known->refs, 1);
    return known;
}

static void lend(struct sb_known *known, struct sb_record *ret)
{
    *ret = known->record;
    ret->known = known;
}

int sb_known_load(struct sb_engine *engine, const char *id, struct sb_record *ret, struct sandbox_error **error)
{
    char path[SB_ID_SIZE + 16];
    struct sb_known *known;
    struct stat before = { 0 }, after;
    int r;

    snprintf(path, sizeof path, "%s/record", id);
    if (fstatat(engine->sandboxes, path, &before, AT_SYMLINK_NOFOLLOW) == 0) {
        pthread_mutex_lock(&engine->lock);
        known = find(engine, id, &before);
        pthread_mutex_unlock(&engine->lock);
        if (known) {
            lend(known, ret);
            return 0;
        }
    }
    r = sb_record_load(engine, id, ret, error);
    /* replaced while it was read? Then it isn't known which of the two this is */
    if (r || fstatat(engine->sandboxes, path, &after, AT_SYMLINK_NOFOLLOW) < 0 || before.st_ino != after.st_ino ||
        before.st_ctim.tv_sec != after.st_ctim.tv_sec || before.st_ctim.tv_nsec != after.st_ctim.tv_nsec)
        return r;
    known = calloc(1, sizeof *known);
    if (!known)
        return 0;
    atomic_init(&known->refs, 1);
    known->file = after;
    known->record = *ret;
    lend(known, ret);
    pthread_mutex_lock(&engine->lock);
    keep(engine, known);
    pthread_mutex_unlock(&engine->lock);
    return 0;
}

void sb_known_begin(struct sb_engine *engine)
{
    pthread_mutex_lock(&engine->lock);
    if (engine->known)
        engine->known->lists++;
    pthread_mutex_unlock(&engine->lock);
}

void sb_known_end(struct sb_engine *engine)
{
    struct sb_known_table *t;

    pthread_mutex_lock(&engine->lock);
    t = engine->known;
    /* two lists at once, or one that stopped early: what either has seen stays for one more */
    if (t && t->n_slots && t->lists > 1)
        rebuild(t, t->n_slots, t->lists - 1);
    pthread_mutex_unlock(&engine->lock);
}
