/* SPDX-License-Identifier: Apache-2.0
 * Attaching to an exec by its id: the connection becomes a further handle of it, for its end and for signals, however many there are and
 * whether or not the first one still stands. The last SB_ENDS_KEPT ends are remembered, so that who comes too late still learns the truth. */
#include "init-loop.h"
#include "message.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

static struct {
    struct {
        uint8_t exec_id[32];
        struct sb_reply end;
    } ends[SB_ENDS_KEPT];
    size_t n; /* ever */
} past;

static int is_daemon(const uint8_t exec_id[32])
{
    static const uint8_t daemon[32];

    return !memcmp(exec_id, daemon, sizeof daemon);
}

struct ag_slot *ag_find_running(const uint8_t exec_id[32])
{
    if (is_daemon(exec_id))
        return ag_daemon_slot();
    for (struct ag_slot *s = ag_loop.slots; s < ag_loop.slots + ag_loop.top; s++)
        if (ag_is_exec(s) && !memcmp(s->exec_id, exec_id, sizeof s->exec_id))
            return s;
    return NULL;
}

void ag_reply_ids(struct ag_slot *s)
{
    char *at = ag_loop.buffer; /* the request was looked at */

    _Static_assert(sizeof ag_loop.buffer >= SB_EXECS_MAX * SB_EXEC_ID_BYTES && sizeof s->exec_id == SB_EXEC_ID_BYTES, "there is room for all");
    for (const struct ag_slot *x = ag_loop.slots; x < ag_loop.slots + ag_loop.top; x++)
        if (ag_is_exec(x))
            at = mempcpy(at, x->exec_id, sizeof x->exec_id);
    if (s->fd >= 0)
        (void)ag_send(s->fd, ag_loop.buffer, (size_t)(at - ag_loop.buffer), -1, MSG_DONTWAIT);
}

static const struct sb_reply *find_end(const uint8_t exec_id[32])
{
    static struct sb_reply daemon;
    size_t kept = past.n < SB_ENDS_KEPT ? past.n : SB_ENDS_KEPT;

    if (is_daemon(exec_id)) {
        if (ag_loop.daemon_state != SB_DAEMON_EXITED)
            return NULL;
        daemon = ag_loop.daemon_end;
        return &daemon;
    }
    for (size_t i = 0; i < kept; i++)
        if (!memcmp(past.ends[i].exec_id, exec_id, sizeof past.ends[i].exec_id))
            return &past.ends[i].end;
    return NULL;
}

void ag_attach(struct ag_slot *s, const struct sb_request *q)
{
    struct ag_slot *target = ag_find_running(q->exec_id);
    struct sb_reply started = target ? ag_started(target) : (struct sb_reply){ .type = SB_REPLY_STARTED };
    const struct sb_reply *end = target ? NULL : find_end(q->exec_id);

    if (!target && !end) {
        ag_fail(s, SB_STEP_STATE, ENOENT);
        return;
    }
    if (!end && ag_count_kind(ATTACHED) >= SB_ATTACHED_MAX) {
        ag_fail(s, SB_STEP_BUSY, EAGAIN);
        return;
    }
    started.journal = target ? (uint32_t)target->journal : end->journal;
    ag_reply(s, &started, -1);
    if (end) {
        ag_reply(s, end, -1);
        return;
    }
    s->kind = ATTACHED;
    s->target = target;
}

void ag_attach_drop(struct ag_slot *s)
{
    for (struct ag_slot *a = ag_loop.slots; a < ag_loop.slots + ag_loop.top; a++)
        if (a->kind == ATTACHED && a->target == s) {
            ag_fail(a, SB_STEP_STATE, ENOENT);
            a->fd = ag_forget(a->fd);
            a->kind = FREE;
        }
}

void ag_attach_ended(struct ag_slot *s)
{
    for (struct ag_slot *a = ag_loop.slots; a < ag_loop.slots + ag_loop.top; a++)
        if (a->kind == ATTACHED && a->target == s) {
            ag_reply(a, &s->end, -1);
            a->fd = ag_forget(a->fd);
            a->kind = FREE;
        }
    if (s->quiet)
        return;
    if (s->daemon) {
        ag_loop.daemon_end = s->end;
        return;
    }
    s->end.journal = (uint32_t)s->journal;
    memcpy(past.ends[past.n % SB_ENDS_KEPT].exec_id, s->exec_id, sizeof s->exec_id);
    past.ends[past.n++ % SB_ENDS_KEPT].end = s->end;
}
