/* SPDX-License-Identifier: Apache-2.0
 * Journals: the output of execs that asked for one, each in a ring of its own. Their number is bounded: SB_JOURNALS_MAX at once, and a new
 * one takes the place of the one that ended first. init lets no more commands with a journal run than that, and what it says all the
 * same is refused by closing the pipes. They are of one run: the next one begins without them. */
#include "keeper-loop.h"

#include <dirent.h>
#include <endian.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <util.h>

static int place(const struct ag_keeper *k, const struct ag_journal *j)
{
    return IN_COUNT + 2 * (int)(j - k->journals);
}

void ag_journals_init(struct ag_keeper *k)
{
    int copy = openat(k->folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *stream = copy < 0 ? NULL : fdopendir(copy);
    struct dirent *d;

    for (int i = IN_COUNT; i < IN_ALL; i++)
        k->in[i] = (struct pollfd){ .fd = -1, .events = POLLIN };
    if (!stream) {
        sb_close(copy);
        return;
    }
    while ((d = readdir(stream)))
        if (!strncmp(d->d_name, "j-", 2) || !strncmp(d->d_name, ".j-", 3))
            unlinkat(k->folder, d->d_name, 0);
    closedir(stream);
}

static void drop(struct ag_keeper *k, struct ag_journal *j)
{
    char name[AG_RING_NAME];

    for (int i = 0; i < 2; i++) {
        k->in[place(k, j) + i].fd = sb_close(k->in[place(k, j) + i].fd);
        snprintf(name, sizeof name, "%.66s.%d", j->name, i);
        unlinkat(k->folder, name, 0);
    }
    ag_ring_close(&j->sink.ring);
    j->used = 0;
}

/* A free place, or the one of the oldest that ended. NULL: all commands still run. */
static struct ag_journal *find_room(struct ag_keeper *k)
{
    struct ag_journal *oldest = NULL;

    for (struct ag_journal *j = k->journals; j < k->journals + SB_JOURNALS_MAX; j++) {
        if (!j->used)
            return j;
        /* whose end was lost on the way has its pipes at their end */
        if ((j->ended || (k->in[place(k, j)].fd < 0 && k->in[place(k, j) + 1].fd < 0)) && (!oldest || j->order < oldest->order))
            oldest = j;
    }
    if (oldest)
        drop(k, oldest);
    return oldest;
}

static struct ag_journal *find(struct ag_keeper *k, const uint8_t exec_id[32])
{
    for (struct ag_journal *j = k->journals; j < k->journals + SB_JOURNALS_MAX; j++)
        if (j->used && !memcmp(j->exec_id, exec_id, sizeof j->exec_id))
            return j;
    return NULL;
}

void ag_journal_begin(struct ag_keeper *k, const struct sb_ring_event *event, int out, int err)
{
    uint64_t max_bytes = le64toh(event->max_bytes);
    struct ag_journal *j = find(k, event->exec_id) ? NULL : find_room(k);
    int fds[2] = { out, err };
    char *at;

    if (!j || max_bytes < SB_RING_MIN || max_bytes > SB_JOURNAL_BYTES_MAX) {
        sb_close(out);
        sb_close(err);
        return;
    }
    *j = (struct ag_journal){ .used = 1, .order = ++k->n_journals };
    memcpy(j->exec_id, event->exec_id, sizeof j->exec_id);
    at = stpcpy(j->name, "j-");
    for (size_t i = 0; i < sizeof j->exec_id; i++)
        at += snprintf(at, 3, "%02x", j->exec_id[i]);
    ag_ring_init(&j->sink.ring, k->folder, j->name, max_bytes);
    j->sink.first = SB_RING_STARTED;
    j->sink.started = *event;
    j->sink.started.type = htole32(SB_EVENT_STARTED);
    (void)ag_sink_begin(&j->sink);
    for (int i = 0; i < 2; i++) {
        fcntl(fds[i], F_SETFL, O_NONBLOCK);
        (void)fcntl(fds[i], F_SETPIPE_SZ, AG_KEEPER_PIPE_BYTES / 4);
        k->in[place(k, j) + i].fd = fds[i];
        k->in[place(k, j) + i].revents = 0;
    }
}

void ag_journal_ended(struct ag_keeper *k, const struct sb_ring_event *event)
{
    struct ag_journal *j = find(k, event->exec_id);

    if (!j || j->ended)
        return;
    j->ended = 1;
    j->end = *event;
    k->journals_unsaid = 1;
}

void ag_journals_say_ended(struct ag_keeper *k)
{
    if (!k->journals_unsaid)
        return;
    k->journals_unsaid = 0;
    for (struct ag_journal *j = k->journals; j < k->journals + SB_JOURNALS_MAX; j++) {
        if (!j->used || !j->end.type)
            continue;
        ag_keeper_drain(k, place(k, j));
        ag_keeper_drain(k, place(k, j) + 1);
        if (ag_sink_say_dropped(&j->sink) == 0)
            (void)ag_ring_append(&j->sink.ring, SB_RING_ENDED, ag_wall_ns(), &j->end, sizeof j->end);
        j->end.type = 0;
    }
}

struct ag_sink *ag_journal_sink(struct ag_keeper *k, int which)
{
    return &k->journals[(which - IN_COUNT) / 2].sink;
}

void ag_journals_end(struct ag_keeper *k)
{
    for (struct ag_journal *j = k->journals; j < k->journals + SB_JOURNALS_MAX; j++)
        if (j->used)
            (void)ag_sink_say_dropped(&j->sink);
}
