/* SPDX-License-Identifier: Apache-2.0
 * init's part in the sandbox's life: pausing it, and what its keeper asks for over the socket that init tells it of exits by. Of keeper's
 * requests none is answered: what comes of them are events (init-events.c).
 *
 * Pause. Where the sandbox has leaves in cgroup2 the kernel's freezer halts them; init is in neither, and neither are its file servers. Elsewhere
 * every process but init gets SIGSTOP by one kill(-1), which no fork can slip through (the kernel makes it wait); the file servers get
 * SIGCONT again. A freezer of cgroup v1 would take init along, which must answer.
 *
 * Activity is what somebody outside wants of the sandbox: commands, calls on files, connections that were dialed. Of the last init knows only
 * that they were made, the socket being the caller's. So it keeps each one in an epoll of its own and closes it: the kernel drops an entry
 * when the last descriptor of that socket is closed, and nothing inside has one. How many there are stands in fdinfo. */
#include "init-loop.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <util.h>

static struct {
    struct sb_request request; /* of the daemon's last start; type 0: none yet */
    char blob[SB_REQUEST_INLINE];
} last;                      /* zero: it is large, and not in the program's file */
static int last_blob_fd = -1; /* a large one */

static struct {
    int epoll; /* 0: none yet */
    int was_busy, was_open;
    int64_t since;     /* the last moment of any activity, on sb_now_ms() */
    int64_t paused_at;
} activity;

/* ---- activity ---- */

void ag_life_turn(int busy)
{
    if (busy || activity.was_busy || !activity.since)
        activity.since = sb_now_ms();
    activity.was_busy = busy;
}

void ag_life_dialed(int fd)
{
    struct epoll_event nothing = { 0 };

    if (!activity.epoll) {
        activity.epoll = epoll_create1(EPOLL_CLOEXEC);
        if (activity.epoll < 0)
            activity.epoll = 0;
    }
    if (activity.epoll) /* without memory for it the connection counts for this moment only */
        epoll_ctl(activity.epoll, EPOLL_CTL_ADD, fd, &nothing);
}

/* 1: somebody outside has a connection, or it can't be told. */
static int has_open(void)
{
    char text[512];
    SB_CLOSE int fd = -1;
    ssize_t n;

    if (!activity.epoll)
        return 0;
    snprintf(text, sizeof text, "self/fdinfo/%d", activity.epoll);
    fd = openat(ag_loop.procfs, text, O_RDONLY | O_CLOEXEC);
    n = fd < 0 ? -1 : SB_RETRY(read(fd, text, sizeof text - 1));
    if (n < 0)
        return 1;
    text[n] = 0;
    return strstr(text, "tfd:") != NULL;
}

static void tell_activity(void)
{
    int64_t now = sb_now_ms();
    int open = has_open();

    if (open || activity.was_open) /* it ended since it was last asked for: when is not known */
        activity.since = now;
    activity.was_open = open;
    ag_event_life(SB_EVENT_ACTIVITY, open || activity.was_busy ? 0 : (uint64_t)(now - activity.since) + 1, NULL);
}

/* ---- pause ---- */

static int freeze(const char *how)
{
    static const int leaves[] = { SB_FD_CGROUP_EXEC, SB_FD_CGROUP_DAEMON };

    if (!(ag_loop.plan->flags & SB_PLAN_CGROUP))
        return -ENOENT;
    for (size_t i = 0; i < SB_ELEMENTS(leaves); i++) {
        SB_CLOSE int fd = openat(leaves[i], "cgroup.freeze", O_WRONLY | O_CLOEXEC);
        int r = fd < 0 ? -errno : SB_RETRY(write(fd, how, 1)) == 1 ? 0 : -errno;

        if (r)
            return r;
    }
    return ag_leaf_freeze_all(how);
}

/* The file servers, which go on, out of what is about to be halted. */
static void spare_servers(void)
{
    SB_CLOSE int fd = openat(SB_FD_CGROUP_TOP, "cgroup.procs", O_WRONLY | O_CLOEXEC);
    char number[16];

    for (struct ag_slot *s = ag_loop.slots; fd >= 0 && s < ag_loop.slots + ag_loop.top; s++)
        if (s->kind == SERVING && s->pid > 0) {
            int n = snprintf(number, sizeof number, "%d", (int)s->pid);

            (void)SB_RETRY(write(fd, number, (size_t)n)); /* one that stays there goes on when the rest does */
        }
}

static void pause_all(void)
{
    if (ag_loop.plan->flags & SB_PLAN_CGROUP)
        spare_servers();
    if (freeze("1") == 0) {
        ag_loop.paused = SB_PAUSE_FREEZER;
        return;
    }
    freeze("0");
    ag_loop.paused = SB_PAUSE_SIGNALS;
    kill(-1, SIGSTOP);
    for (struct ag_slot *s = ag_loop.slots; s < ag_loop.slots + ag_loop.top; s++)
        if (s->kind == SERVING && s->pid > 0)
            kill(s->pid, SIGCONT);
}

void ag_resume(void)
{
    if (!ag_loop.paused)
        return;
    if (ag_loop.paused == SB_PAUSE_FREEZER)
        freeze("0");
    else
        kill(-1, SIGCONT);
    ag_loop.paused = SB_PAUSE_NONE;
    activity.since += sb_now_ms() - activity.paused_at;
    ag_tell(SB_WATCH_RESUMED, NULL);
    ag_event_life(SB_EVENT_RESUMED, 0, NULL);
}

void ag_pause(struct ag_slot *s, const struct sb_request *q)
{
    if (!ag_loop.started || ag_loop.stopping) {
        ag_fail(s, SB_STEP_STATE, ESRCH);
        return;
    }
    if (q->flags & SB_REQUEST_RESUME) {
        ag_resume();
    } else if (ag_count_kind(STARTING)) { /* stopped there it would be taken for one that hangs */
        ag_fail(s, SB_STEP_BUSY, EAGAIN);
        return;
    } else if (!ag_loop.paused) {
        activity.paused_at = sb_now_ms();
        pause_all();
        ag_tell(SB_WATCH_PAUSED, NULL);
        ag_event_life(SB_EVENT_PAUSED, 0, NULL);
    }
    ag_reply(s, &(struct sb_reply){ .type = SB_REPLY_DONE, .paused = (uint32_t)ag_loop.paused }, -1);
}

/* ---- what keeper asks for ---- */

void ag_life_remember(const struct sb_request *q, const int *fds, size_t n_fds)
{
    last_blob_fd = sb_close(last_blob_fd);
    last.request = *q;
    if (q->flags & SB_REQUEST_BLOB_FD)
        last_blob_fd = n_fds ? fcntl(fds[n_fds - 1], F_DUPFD_CLOEXEC, 3) : -1;
    else
        memcpy(last.blob, ag_loop.buffer + sizeof *q, q->blob_size);
}

static void forget_unused(struct ag_slot *s)
{
    if (s->kind == IDLE && s->fd < 0)
        s->kind = FREE;
}

static void restart(void)
{
    struct sb_request *q = (struct sb_request *)ag_loop.buffer;
    struct ag_slot *s = last.request.type && !ag_loop.paused && !ag_loop.stopping ? ag_take_slot(-1) : NULL;

    if (!s)
        return;
    *q = last.request;
    if (!(q->flags & SB_REQUEST_BLOB_FD))
        memcpy(ag_loop.buffer + sizeof *q, last.blob, q->blob_size);
    ag_start(s, q, &last_blob_fd, q->flags & SB_REQUEST_BLOB_FD && last_blob_fd >= 0 ? 1 : 0, 1);
    forget_unused(s);
}

static void check_health(const struct sb_request *q)
{
    int null[3] = { SB_FD_NULL, SB_FD_NULL, SB_FD_NULL };
    struct ag_slot *s = ag_take_slot(-1);

    if (!s)
        return;
    s->quiet = 1;
    memcpy(s->exec_id, q->exec_id, sizeof s->exec_id);
    if (ag_loop.paused || !ag_loop.started || ag_loop.stopping)
        ag_fail(s, SB_STEP_STATE, ESRCH);
    else
        ag_start(s, q, null, 3, 0);
    if (s->kind == IDLE)
        ag_event_failed(s, EAGAIN);
    forget_unused(s);
}

void ag_life_request(ssize_t size)
{
    const struct sb_request *q = (const struct sb_request *)ag_loop.buffer;

    if (size < (ssize_t)sizeof *q || q->flags || q->argc > 65536 || q->envc > 65536 || (size_t)size != sizeof *q + q->blob_size)
        return;
    switch (q->type) {
    case SB_REQUEST_RESTART:
        restart();
        break;
    case SB_REQUEST_EXEC:
        check_health(q);
        break;
    case SB_REQUEST_STATUS:
        tell_activity();
        break;
    case SB_REQUEST_NOTE:
        if (q->signal >= SB_WATCH_RESTARTED && q->signal <= SB_WATCH_IDLE)
            ag_tell_note((enum sb_watch_what)q->signal, q->port);
        break;
    case SB_REQUEST_SHUTDOWN:
        ag_shut_down(q);
        break;
    default:
        break;
    }
}
