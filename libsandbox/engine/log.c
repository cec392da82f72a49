/* SPDX-License-Identifier: Apache-2.0
 * Logs: the daemon's, and the journals of execs. A log is its ring (ring.h), read from a place that was found out beforehand, and for one
 * that is followed what can change it: a watch on the folder, keeper's end, and a timer where one of these can't be had. Nobody is told of
 * being read, so a reader costs its sandbox nothing. */
#include "lifetime.h"
#include "ring.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/inotify.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include <errors.h>

enum { LOOK_MS = 100, JOURNAL_MS = 2000, SETTLE_MS = 1000, STATUS_MS = 2000, SCANS = 3 };

struct local_log {
    struct sb_log log;
    struct sb_engine *engine;
    char id[SB_ID_SIZE];
    int folder; /* -1: there is no log */
    struct sb_ring ring;
    struct sandbox_log_options options;
    unsigned int streams;
    struct sb_ring_place start; /* entries before it are passed over … */
    size_t start_skip;          /* … and so many bytes of the one there */
    uint32_t run;               /* not 0: the daemon's start of this number is waited for */
    int of_exec;
    int restarts; /* there is a policy */
    int ended;    /* the daemon or exec, as far as was read */
    int link;     /* a question to init: has the daemon that ended been started again? */
    enum { UNASKED, ASKED, STARTED_AGAIN, OVER } answer;
    int inotify, timer, keeper;
    int unwatched; /* keeper can't be seen from here: its init's socket must tell */
};

static int is_before(const struct sb_ring_place *a, const struct sb_ring_place *b)
{
    return a->sequence < b->sequence || (a->sequence == b->sequence && a->offset < b->offset);
}

static int is_output(const struct sb_ring_entry *e)
{
    return (e->stream == SB_RING_STDOUT || e->stream == SB_RING_STDERR) && e->size;
}

/* Of the streams and the time that were asked for. */
static int is_wanted(const struct local_log *l, const struct sb_ring_entry *e)
{
    int64_t ms = (int64_t)(e->wall_ns / 1000000);

    if (is_output(e) && !(l->streams >> e->stream & 1))
        return 0;
    if (!e->wall_ns)
        return 1;
    return (!l->options.since_ms || ms >= l->options.since_ms) && (!l->options.until_ms || ms < l->options.until_ms);
}

/* ---- finding the place to begin ---- */

/* Looks at every entry that is there now. */
static int scan(const struct local_log *l, int (*look)(void *data, const struct local_log *l, const struct sb_ring_entry *e), void *data)
{
    struct sb_ring_entry entry;
    struct sb_ring ring;
    int r = sb_ring_open(l->folder, l->ring.name, &ring);

    if (r)
        return r;
    while ((r = sb_ring_next(&ring, &entry)) == 1)
        if (look(data, l, &entry))
            break;
    sb_ring_close(&ring);
    return r < 0 ? r : 0;
}

struct run_scan {
    uint32_t wanted; /* 0: the last one */
    int any;         /* a mark of any run was seen */
    int found;
    struct sb_ring_place place, run; /* of the start; of the last init's begin */
};

static int look_for_run(void *data, const struct local_log *l, const struct sb_ring_entry *e)
{
    struct run_scan *s = data;
    struct sb_ring_event event;

    (void)l;
    if (e->stream == SB_RING_RUN) {
        s->any = 1;
        s->found = s->wanted ? 0 : s->found; /* an older init's */
        s->run = e->place;
    } else if (e->stream == SB_RING_STARTED && sb_ring_event_of(e, &event)) {
        s->any = 1;
        if (!s->wanted || event.number == s->wanted) {
            s->found = 1;
            s->place = e->place;
        }
    }
    return 0;
}

static int send_status(const struct local_log *l, int *ret_link)
{
    struct sb_request request = { .type = SB_REQUEST_STATUS };
    SB_CLOSE int link = -1;
    int r = sb_link_open(l->engine, l->id, &link, NULL);

    if (!r)
        r = sb_link_send(link, &request, NULL, NULL, 0, NULL);
    if (!r)
        *ret_link = SB_TAKE_FD(link);
    return r;
}

static int ask_status(const struct local_log *l, struct sb_reply *ret)
{
    SB_CLOSE int link = -1;
    int r = send_status(l, &link);

    if (!r)
        r = sb_link_await(link, l->engine->driver.close_fd, STATUS_MS, ret, NULL, NULL);
    return r ? r : ret->type == SB_REPLY_STATUS ? 0 : SANDBOX_EPROTOCOL;
}

/* From the daemon's last start on, whose number init knows; without an init, from the last that is in the log. */
static int find_run(struct local_log *l, const struct sb_reply *status)
{
    struct run_scan s = { 0 };
    int alive = status->type == SB_REPLY_STATUS, r;

    s.wanted = !alive ? 0 : status->starts ? status->starts : 1;
    r = scan(l, look_for_run, &s);
    if (r)
        return r;
    if (s.found) {
        l->start = s.place;
    } else if (alive && (s.any || !status->starts)) { /* keeper has not written it down yet; were it gone, all marks before it were */
        l->start = s.run;
        l->run = s.wanted;
    }
    return 0;
}

struct line_scan {
    uint64_t lines, wanted; /* newlines so far; the one behind which to begin */
    char last;              /* byte of the last output */
    uint64_t sequence;      /* of the first segment */
    int moved;              /* it is another one than in the scan before */
    struct sb_ring_place place, end;
    size_t bytes;
};

static int look_for_lines(void *data, const struct local_log *l, const struct sb_ring_entry *e)
{
    struct line_scan *s = data;

    if (!s->end.sequence) {
        s->moved = s->sequence && s->sequence != e->place.sequence;
        s->sequence = e->place.sequence;
    }
    s->end = e->place;
    if (!is_output(e) || !is_wanted(l, e))
        return 0;
    for (const char *p = e->data, *end = p + e->size; (p = memchr(p, '\n', (size_t)(end - p))); p++)
        if (++s->lines == s->wanted) {
            s->place = e->place;
            s->bytes = (size_t)(p + 1 - e->data);
            return 1;
        }
    s->last = e->data[e->size - 1];
    return 0;
}

/* So many lines before the end of what is there. A ring that turned between the two looks is looked at again. */
static int find_tail(struct local_log *l)
{
    for (int tries = 0; tries < SCANS; tries++) {
        struct line_scan all = { 0 }, skip = { 0 };
        uint64_t lines;
        int r = scan(l, look_for_lines, &all);

        if (r)
            return r;
        if (l->options.tail == 0) {
            l->start = (struct sb_ring_place){ all.end.sequence, all.end.offset + 1 };
            return 0;
        }
        lines = all.lines + (all.last && all.last != '\n');
        if (lines <= (uint64_t)l->options.tail)
            return 0;
        skip.wanted = lines - (uint64_t)l->options.tail;
        skip.sequence = all.sequence;
        r = scan(l, look_for_lines, &skip);
        if (r)
            return r;
        if (skip.moved || !skip.place.sequence)
            continue;
        l->start = skip.place;
        l->start_skip = skip.bytes;
        return 0;
    }
    return 0;
}

/* ---- reading ---- */

static void put_ended(const struct sb_ring_event *event, struct sandbox_log_record *ret)
{
    ret->exec_kind = (int)event->kind;
    ret->code = event->kind == SANDBOX_EXEC_EXITED ? event->code & 255 : -1;
    ret->signal = event->kind == SANDBOX_EXEC_EXITED ? 0 : event->signal;
}

/* Where it stands in the daemon's life, whoever is shown it. */
static void follow_life(struct local_log *l, const struct sb_ring_entry *e)
{
    struct sb_ring_event event;

    if (e->stream == SB_RING_RUN || e->stream == SB_RING_STARTED) {
        l->ended = 0;
        l->answer = UNASKED;
    }
    if (e->stream == SB_RING_STARTED && sb_ring_event_of(e, &event)) {
        if (event.number == l->run && !is_before(&e->place, &l->start)) /* not one of an earlier init */
            l->run = 0;
    }
    if (e->stream == SB_RING_ENDED)
        l->ended = 1;
}

/* 1: it is one for the caller. */
static int show(struct local_log *l, struct sb_ring_entry *e, struct sandbox_log_record *ret)
{
    struct sb_ring_event event;
    int was_awaited;

    follow_life(l, e);
    was_awaited = l->run != 0 || is_before(&e->place, &l->start);
    if (was_awaited || e->position + (is_output(e) ? e->size : e->lost) < (uint64_t)l->options.position || !is_wanted(l, e))
        return 0;
    if (is_output(e) && l->start_skip && !is_before(&l->start, &e->place)) {
        size_t skip = l->start_skip < e->size ? l->start_skip : e->size;

        e->data += skip;
        e->position += skip;
        e->size -= skip;
    }
    *ret = (struct sandbox_log_record)SANDBOX_LOG_RECORD_INIT;
    ret->time_ns = (int64_t)e->wall_ns;
    ret->position = (int64_t)e->position;
    switch (e->stream) {
    case SB_RING_STDOUT:
    case SB_RING_STDERR:
        ret->kind = SANDBOX_LOG_OUTPUT;
        ret->stream = e->stream;
        ret->data = e->data;
        ret->data_size = e->size;
        return e->size != 0;
    case SB_RING_DROPPED:
        ret->kind = SANDBOX_LOG_LOST;
        ret->lost = e->lost ? (int64_t)e->lost : -1;
        ret->damaged = e->damaged;
        return 1;
    case SB_RING_STARTED:
        ret->kind = SANDBOX_LOG_STARTED;
        return 1;
    case SB_RING_ENDED:
        ret->kind = SANDBOX_LOG_ENDED;
        if (sb_ring_event_of(e, &event))
            put_ended(&event, ret);
        return 1;
    default:
        return 0;
    }
}

/* 1: a record, 0: no more now, negative: failed. */
static int next_shown(struct local_log *l, struct sandbox_log_record *ret, struct sandbox_error **error)
{
    struct sb_ring_entry entry;
    int r;

    while ((r = sb_ring_next(&l->ring, &entry)) == 1)
        if (show(l, &entry, ret))
            return 1;
    return r ? sb_fail_errno(error, -r, "log", "the log can't be read") : 0;
}

/* What made the descriptor readable. */
static void drain(struct local_log *l)
{
    char events[4096];

    while (l->inotify >= 0 && read(l->inotify, events, sizeof events) > 0)
        ;
    while (l->timer >= 0 && read(l->timer, events, sizeof events) > 0)
        ;
}

static int keeper_is_gone(const struct local_log *l)
{
    struct pollfd p = { .fd = l->keeper, .events = POLLIN };
    SB_CLOSE int link = -1;

    if (l->unwatched)
        return sb_link_open(l->engine, l->id, &link, NULL) == SANDBOX_ENOTRUNNING;
    return l->keeper < 0 || poll(&p, 1, 0) == 1;
}

static int add(const struct local_log *l, int fd)
{
    struct epoll_event e = { .events = EPOLLIN };

    return epoll_ctl(l->log.fd, EPOLL_CTL_ADD, fd, &e) < 0 ? -errno : 0;
}

/* The end that stands in the log last: has it been started again, and keeper not written that down yet? Asked without waiting: an init that
 * hangs has started nothing. */
static int is_over(struct local_log *l)
{
    struct sandbox_error *why = NULL;
    struct sb_reply status;
    int r;

    if (!l->ended || l->run)
        return 0;
    if (l->of_exec)
        return 1;
    if (l->restarts && sb_lifetime_is_restarting(l->engine, l->id))
        return 0;
    if (l->answer == UNASKED) {
        r = send_status(l, &l->link);
        l->answer = r == SANDBOX_ENOTRUNNING || r == SANDBOX_ENOTFOUND ? OVER : r || add(l, l->link) ? UNASKED : ASKED;
        if (l->answer == UNASKED)
            l->link = sb_close(l->link);
    }
    if (l->answer == ASKED) {
        r = sb_link_receive(l->link, 0, &status, NULL, &why);
        sandbox_error_unref(why);
        if (r == SANDBOX_ETIMEDOUT)
            return 0;
        l->link = sb_close(l->link);
        l->answer = !r && (status.daemon == SB_DAEMON_STARTING || status.daemon == SB_DAEMON_RUNNING) ? STARTED_AGAIN : OVER;
    }
    return l->answer == OVER;
}

static int until_passed(const struct local_log *l)
{
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    return l->options.until_ms && (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000 >= l->options.until_ms;
}

static int log_end(struct local_log *l, struct sandbox_log_record *ret)
{
    struct sb_ring_entry entry;

    return sb_ring_damage(&l->ring, &entry) && show(l, &entry, ret);
}

static int log_next(struct sb_log *log, struct sandbox_log_record *ret, struct sandbox_error **error)
{
    struct local_log *l = (struct local_log *)log;
    int gone, over, r;

    if (l->folder < 0)
        return 0;
    r = next_shown(l, ret, error);
    if (r || !l->options.follow)
        return r ? r : log_end(l, ret);
    drain(l);
    gone = keeper_is_gone(l);
    over = is_over(l) || until_passed(l);
    r = next_shown(l, ret, error); /* what came before one of these */
    if (r)
        return r;
    if (gone)
        return log_end(l, ret);
    return over && (l->ended || until_passed(l)) ? 0 : 2;
}

static void log_free(struct sb_log *log)
{
    struct local_log *l = (struct local_log *)log;

    sb_ring_close(&l->ring);
    sb_close(l->folder);
    sb_close(l->inotify);
    sb_close(l->timer);
    sb_close(l->keeper);
    sb_close(l->link);
    sb_close(l->log.fd);
    free(l);
}

static const struct sb_log_ops log_ops = { log_next, log_free };

/* ---- opening ---- */

static int watch_folder(struct local_log *l)
{
    char path[40];
    int r;

    l->inotify = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
    if (l->inotify < 0)
        return -errno;
    snprintf(path, sizeof path, "/proc/self/fd/%d", l->folder);
    if (inotify_add_watch(l->inotify, path, IN_MODIFY | IN_MOVED_TO | IN_DELETE_SELF) < 0) {
        r = -errno;
        l->inotify = sb_close(l->inotify);
        return r;
    }
    return add(l, l->inotify);
}

/* An inotify instance is one of few that a user may have: without it the log is looked at by time. */
static int begin_following(struct local_log *l, const struct sb_record *record, struct sandbox_error **error)
{
    struct itimerspec every = { { 0, LOOK_MS * 1000000L }, { 0, LOOK_MS * 1000000L } };
    int r = 0;

    l->log.fd = epoll_create1(EPOLL_CLOEXEC);
    if (l->log.fd < 0)
        return sb_fail_errno(error, errno, "log", "no descriptor");
    l->keeper = sb_keeper_open(l->engine, record);
    l->unwatched = l->keeper < 0 && l->keeper != -ESRCH;
    if (l->keeper >= 0)
        r = add(l, l->keeper);
    if (!r && (watch_folder(l) < 0 || l->unwatched || l->options.until_ms)) {
        l->timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
        if (l->timer < 0 || timerfd_settime(l->timer, 0, &every, NULL) < 0)
            return sb_fail_errno(error, errno, "log", "no timer");
        r = add(l, l->timer);
    }
    return r ? sb_fail_errno(error, -r, "log", "the log can't be watched") : 0;
}

/* A journal that was just begun may not be there yet; one that is gone never will be. */
static int await_journal(const struct local_log *l, const struct sb_record *record, const char *exec_id, struct sandbox_error **error)
{
    int64_t until = sb_deadline(JOURNAL_MS);
    SB_CLOSE int keeper = sb_keeper_open(l->engine, record);
    struct pollfd p = { .fd = keeper, .events = POLLIN };

    while (!sb_ring_exists(l->folder, l->ring.name)) {
        if (keeper < 0 || !sb_left_ms(until))
            return sb_fail(error, SB_ARGS(SANDBOX_ENOTFOUND, .sys_errno = ENOENT, .phase = "journal", .field = "exec"),
                           "the journal of %.12s is not there any more", exec_id);
        if (poll(&p, 1, 5) == 1)
            keeper = sb_close(keeper); /* one more look */
        p.fd = keeper;
    }
    return 0;
}

/* Who was told of an end by init looks for it in the log: keeper, which writes it, may be some steps behind. Waits for that, for a moment. */
static int settle(const struct local_log *l, const struct sb_record *record, uint32_t number)
{
    int64_t until = sb_deadline(SETTLE_MS);
    SB_CLOSE int keeper = sb_keeper_open(l->engine, record);
    struct pollfd p = { .fd = keeper, .events = POLLIN };
    int r, ended = 0, gone = keeper < 0;
    struct sb_ring_event event;
    struct sb_ring_entry e;
    struct sb_ring ring;

    if (gone)
        return 0;
    r = sb_ring_open(l->folder, l->ring.name, &ring);
    while (!r) {
        while ((r = sb_ring_next(&ring, &e)) == 1) {
            if (e.stream == SB_RING_RUN) /* what ended before is of an earlier init */
                ended = 0;
            if (e.stream == SB_RING_ENDED && sb_ring_event_of(&e, &event))
                ended = l->of_exec || event.number == number;
        }
        if (r || ended || gone || !sb_left_ms(until))
            break;
        gone = poll(&p, 1, 5) == 1;
    }
    sb_ring_close(&ring);
    return r;
}

static int open_ring(struct local_log *l, const struct sb_record *record, const struct sb_log_request *q, struct sandbox_error **error)
{
    struct sb_reply status = { 0 };
    char name[80] = "log";
    int r;

    if (q->exec_id)
        snprintf(name, sizeof name, "j-%.64s", q->exec_id);
    r = sb_ring_open(l->folder, name, &l->ring);
    if (r)
        return sb_fail(error, SB_ARGS(SANDBOX_ENOMEM, .sys_errno = ENOMEM), "out of memory");
    if (q->exec_id && (r = await_journal(l, record, q->exec_id, error)))
        return r;
    l->ring.from = (uint64_t)l->options.position;
    if (!q->exec_id && (r = ask_status(l, &status))) {
        status = (struct sb_reply){ 0 };
        if (r == SANDBOX_ENOTRUNNING || r == SANDBOX_ELOST) /* init has just died, perhaps: what it said is being written down */
            sb_keeper_await(l->engine, record, SETTLE_MS);
        r = 0;
    }
    if (q->exec_id ? q->ended : status.starts && status.daemon != SB_DAEMON_STARTING && status.daemon != SB_DAEMON_RUNNING)
        r = settle(l, record, status.starts);
    if (!r && q->options.tail >= 0)
        r = find_tail(l);
    if (!r && q->this_run)
        r = find_run(l, &status);
    if (r)
        return sb_fail_errno(error, -r, "log", "the log can't be read");
    return l->options.follow ? begin_following(l, record, error) : 0;
}

int sb_engine_log_open(struct sb_driver *driver, const char *id, const struct sb_log_request *request, struct sb_log **ret_log,
                       struct sandbox_error **error)
{
    struct sb_record record = SB_RECORD_INIT;
    struct local_log *l = calloc(1, sizeof *l);
    int r;

    if (!l)
        return sb_fail(error, SB_ARGS(SANDBOX_ENOMEM, .sys_errno = ENOMEM), "out of memory");
    *l = (struct local_log){ .log = { &log_ops, -1 }, .engine = (struct sb_engine *)driver, .folder = -1, .options = request->options,
                             .ring = { .fd = -1 }, .inotify = -1, .timer = -1, .keeper = -1, .link = -1, .of_exec = request->exec_id != NULL };
    snprintf(l->id, sizeof l->id, "%s", id);
    l->streams = l->options.streams ? l->options.streams : 1u << SANDBOX_LOG_STDOUT | 1u << SANDBOX_LOG_STDERR;
    r = sb_record_open(l->engine, id, SB_LOCK_NONE, &record, error);
    if (!r && (record.spec->daemon || request->exec_id)) {
        l->restarts = record.spec->life.restart != SANDBOX_RESTART_NO;
        l->folder = sb_log_folder(&record);
        if (l->folder >= 0)
            r = open_ring(l, &record, request, error);
        else if (l->folder != -ENOENT)
            r = sb_fail_errno(error, -l->folder, "log", "the log's folder can't be opened");
    }
    sb_record_clear(&record);
    if (r)
        log_free(&l->log);
    else
        *ret_log = &l->log;
    return r;
}
