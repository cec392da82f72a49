/* SPDX-License-Identifier: Apache-2.0
 * Events of this kernel's sandboxes, without a daemon: inotify says which folders come, change and go, and a connection to each live init says
 * what happens inside (agent/init-watch.c). The end of that connection is the init's end; whether that was meant is in the record a moment
 * later. First watched, then listed, so that nothing falls between; what a new sandbox did before it was found, its init still knows. */
#include "engine.h"
#include "limit-watch.h"
#include "network-watch.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include <errors.h>
#include <fs.h>
#include <json.h>

enum {
    AGAIN_MS = 20,      /* a sandbox between two states is looked at again after this */
    SETTLE_MS = 60,     /* whoever ended an init gets this long to say that it was meant, */
    MEANT_MS = 10000,   /* and this long as long as it holds the sandbox's lock */
    MESSAGES_A_TURN = 64
};
enum state { UNBORN = 0, LIVE, DYING, DEAD };

struct box {
    struct box *next;
    char id[SB_ID_SIZE], name[SANDBOX_NAME_MAX + 1];
    enum state state;
    int link;    /* to its init; -1: none */
    int folder;  /* inotify's number; -1: none */
    int known;   /* its record was read */
    int skipped; /* the filter leaves it out */
    int history; /* its init is asked for what happened before, too */
    int again;   /* is to be looked at again */
    int64_t died;
    struct sb_limit_watch limits;
    struct sb_network_watch proxy;
    char *limits_text; /* what its limits were; NULL: not known */
};

struct watch {
    struct sb_events events;
    struct sb_engine *engine;
    char *id, *key, *value; /* the filter; NULL: none */
    int inotify, timer, wake;
    int opening; /* what is found is not news */
    struct box *boxes;
    json_t *queue;
};

/* ---- telling ---- */

/* Takes the attributes (NULL: none). */
static void tell(struct watch *w, const struct box *b, const char *type, int64_t when, json_t *attributes)
{
    json_t *event = json_pack("{s:s, s:s, s:s, s:I, s:o}", "type", type, "id", b ? b->id : "", "name", b ? b->name : "", "time_ms",
                              (json_int_t)when, "attributes", attributes ? attributes : json_object());

    if (!event || json_array_append_new(w->queue, event) < 0)
        return; /* out of memory: an event less */
    if (eventfd_write(w->wake, 1) < 0)
        return; /* it is readable already */
}

static void tell_cause(struct watch *w, const struct box *b, const char *type, const char *cause)
{
    tell(w, b, type, sb_wall_ms(), json_pack("{s:s}", "cause", cause ? cause : ""));
}

static void tell_overrun(struct watch *w, const struct box *b, int64_t lost, const char *cause)
{
    tell(w, b, "overrun", sb_wall_ms(), json_pack("{s:I, s:s}", "lost", (json_int_t)lost, "cause", cause));
}

/* What the kernel counted. */
static void look_at_limits(struct watch *w, struct box *b)
{
    struct sb_limit_news news;

    sb_limit_watch_look(&b->limits, &news);
    if (news.memory_hits)
        tell(w, b, "limit", sb_wall_ms(), json_pack("{s:s, s:I}", "limit", "memory", "hits", (json_int_t)news.memory_hits));
    if (news.kills)
        tell(w, b, "oom", sb_wall_ms(), json_pack("{s:I}", "kills", (json_int_t)news.kills));
    if (news.pids_hits)
        tell(w, b, "limit", sb_wall_ms(), json_pack("{s:s, s:I}", "limit", "pids", "hits", (json_int_t)news.pids_hits));
}

static const char *health_name(int32_t health)
{
    return health == SANDBOX_HEALTH_HEALTHY ? "healthy" : health == SANDBOX_HEALTH_UNHEALTHY ? "unhealthy" : "starting";
}

/* What init says is from within the sandbox: told, never acted upon. */
static void tell_inner(struct watch *w, struct box *b, const struct sb_watch_event *e)
{
    static const char *const plain[] = { [SB_WATCH_STARTED] = "started", [SB_WATCH_PAUSED] = "paused",
                                         [SB_WATCH_RESUMED] = "resumed", [SB_WATCH_TTL] = "ttl", [SB_WATCH_IDLE] = "idle" };
    json_t *exec = sb_watch_exec(e);

    switch (e->event) {
    case SB_WATCH_DAEMON_EXITED:
        if (e->signal == SIGKILL) /* the cause first */
            look_at_limits(w, b);
        tell(w, b, "daemon-exited", e->wall_ms, sb_watch_exit(e));
        break;
    case SB_WATCH_EXEC_STARTED:
        tell(w, b, "exec-started", e->wall_ms, json_pack("{s:O}", "exec", exec));
        break;
    case SB_WATCH_EXEC_EXITED: {
        json_t *attributes = sb_watch_exit(e);

        if (e->signal == SIGKILL)
            look_at_limits(w, b);

        json_object_set(attributes, "exec", exec);
        tell(w, b, "exec-exited", e->wall_ms, attributes);
        break;
    }
    case SB_WATCH_RESTARTED:
        tell(w, b, "restarted", e->wall_ms, json_pack("{s:i}", "count", e->code));
        break;
    case SB_WATCH_HEALTH:
        tell(w, b, "health", e->wall_ms, json_pack("{s:s}", "health", health_name(e->code)));
        break;
    case SB_WATCH_LOST:
        tell_overrun(w, b, e->lost, "they came faster than they were read");
        break;
    default: /* that it is being stopped is told when it has */
        if (e->event < SB_ELEMENTS(plain) && plain[e->event])
            tell(w, b, plain[e->event], e->wall_ms, NULL);
    }
    json_decref(exec);
}

/* ---- one sandbox ---- */

static void look(struct watch *w, struct box *b);

/* Taken off first: a copy of this process that its program forked keeps the connection open, and the kernel would go on to report on it. */
static void close_link(struct watch *w, struct box *b)
{
    if (b->link >= 0)
        epoll_ctl(w->events.fd, EPOLL_CTL_DEL, b->link, NULL);
    b->link = sb_close(b->link);
}

static void lose_link(struct watch *w, struct box *b)
{
    close_link(w, b);
    look_at_limits(w, b);
    sb_limit_watch_stop(&b->limits, w->inotify, w->events.fd);
    b->state = DYING;
    b->died = sb_now_ms();
    b->again = 1;
}

/* What came from its init; to the connection's end when that is there. */
static void drain(struct watch *w, struct box *b)
{
    struct sb_network_news news;

    while (sb_network_watch_next(&b->proxy, &news))
        tell(w, b, news.type, news.when, news.attributes);
    for (int i = 0; b->link >= 0 && i < MESSAGES_A_TURN; i++) {
        union {
            struct sb_reply reply;
            struct sb_watch_event event;
            char room[512];
        } message;
        ssize_t n = sb_recv(b->link, &message, sizeof message, MSG_DONTWAIT);

        if (n < 0 && errno == EAGAIN)
            return;
        if (n <= 0)
            lose_link(w, b);
        else if (n == (ssize_t)sizeof message.event && message.event.type == SB_REPLY_EVENT)
            tell_inner(w, b, &message.event);
        else if (n == (ssize_t)sizeof message.reply && message.reply.type == SB_REPLY_FAILED) /* the connection stays, and tells its end */
            tell_overrun(w, b, -1, "its init has as many watchers as it takes: only its end will be told");
    }
}

static void connect_to(struct watch *w, struct box *b)
{
    struct sb_request request = { .type = SB_REQUEST_WATCH, .flags = b->history ? SB_REQUEST_HISTORY : 0 };
    struct epoll_event e = { .events = EPOLLIN, .data.ptr = b };
    int r = sb_link_open(w->engine, b->id, &b->link, NULL);

    if (!r)
        r = sb_link_send(b->link, &request, NULL, NULL, 0, NULL);
    if (!r && epoll_ctl(w->events.fd, EPOLL_CTL_ADD, b->link, &e) < 0)
        r = SANDBOX_EIO;
    if (!r) {
        sb_network_watch_start(w->engine, b->id, &b->proxy, w->events.fd, b, b->history);
        sb_limit_watch_start(w->engine, b->id, &b->limits, w->inotify, w->events.fd, b, b->history);
        b->state = LIVE;
        b->history = 1; /* of the next init everything is news */
        return;
    }
    close_link(w, b);
    if (r == SANDBOX_ENOTRUNNING || r == SANDBOX_ENOTFOUND)
        lose_link(w, b); /* it ended since it was looked at */
    else
        b->again = 1;
}

static int matches(const struct watch *w, const json_t *document)
{
    const char *value = w->key ? sb_json_str(json_object_get(document, "labels"), w->key) : NULL;

    return !w->key || (value && (!w->value || !strcmp(value, w->value)));
}

static void first_look(struct watch *w, struct box *b, const json_t *document)
{
    const char *name = sb_json_str(document, "name");

    b->known = 1;
    json_decref(sb_limit_watch_record(w->engine, b->id, &b->limits_text));
    b->skipped = !matches(w, document);
    snprintf(b->name, sizeof b->name, "%s", name ? name : "");
    if (b->skipped && b->folder >= 0) {
        inotify_rm_watch(w->inotify, b->folder);
        b->folder = -1;
    }
    if (!b->skipped && !w->opening)
        tell(w, b, "created", sb_wall_ms(), NULL);
}

/* It is failed, and nobody is about to say otherwise: whoever ends an init himself holds the sandbox's lock until it is written down, and who
 * deletes it, until its folder is elsewhere. 0: not yet. */
static int has_failed(struct watch *w, const struct box *b)
{
    SB_JSON json_t *document = NULL;
    struct sb_record record = SB_RECORD_INIT;
    const char *state = NULL;
    int r = sb_record_open(w->engine, b->id, SB_LOCK_EXCLUSIVE, &record, NULL);

    if (r != SANDBOX_EBUSY && r != SANDBOX_ENOTFOUND && faccessat(record.dir, "deleting", F_OK, AT_SYMLINK_NOFOLLOW) < 0 &&
        !sb_engine_inspect(&w->engine->driver, b->id, &document, NULL))
        state = sb_json_str(document, "state");
    sb_record_clear(&record);
    return state && !strcmp(state, "failed");
}

/* Its init ended. What does the record say? */
static void judge(struct watch *w, struct box *b, const char *state, const char *cause)
{
    int64_t since = sb_now_ms() - b->died;

    if (!strcmp(state, "created") || !strcmp(state, "paused") || (!strcmp(state, "running") && !*cause)) { /* it was started again already */
        tell_cause(w, b, "stopped", "");
        connect_to(w, b);
    } else if (!strcmp(state, "stopped")) {
        tell_cause(w, b, "stopped", cause);
        b->state = DEAD;
    } else if (since < SETTLE_MS || (since < MEANT_MS && !has_failed(w, b))) {
        b->again = 1;
    } else {
        tell_cause(w, b, "failed", *cause ? cause : "its init died");
        b->state = DEAD;
    }
}

static int is_there(const struct watch *w, const struct box *b)
{
    return faccessat(w->engine->sandboxes, b->id, F_OK, AT_SYMLINK_NOFOLLOW) == 0 || errno != ENOENT;
}

static void look(struct watch *w, struct box *b)
{
    SB_JSON json_t *document = NULL;
    const char *state, *cause;
    int r = sb_engine_inspect(&w->engine->driver, b->id, &document, NULL);

    b->again = 0;
    if (r) { /* being made, or gone: its folder will tell. For want of something else: later */
        b->again = r != SANDBOX_ENOTFOUND;
        return;
    }
    state = sb_json_str(document, "state");
    cause = sb_json_str(document, "cause");
    if (!state || !strcmp(state, "creating") || (!strcmp(state, "damaged") && !is_there(w, b)))
        return; /* not yet, or no more: what is being deleted may look damaged */
    if (!b->known)
        first_look(w, b, document);
    if (b->skipped)
        return;
    if (b->state == DYING)
        judge(w, b, state, cause ? cause : "");
    else if (b->link < 0 && (!strcmp(state, "created") || !strcmp(state, "running") || !strcmp(state, "paused")))
        connect_to(w, b);
    else if (b->link < 0 && b->state == UNBORN && !w->opening && (!strcmp(state, "stopped") || !strcmp(state, "failed")))
        lose_link(w, b); /* its life went by between two looks: how it ended is judged like any end */
    if (b->state == UNBORN && b->link < 0 && !b->again)
        b->state = DEAD;
    b->history = 1;
}

/* ---- all of them ---- */

static struct box *find(const struct watch *w, const char *id)
{
    struct box *b = w->boxes;

    while (b && strcmp(b->id, id))
        b = b->next;
    return b;
}

/* 0, or -errno when it can't be watched. */
static int add(struct watch *w, const char *id)
{
    struct box *b;
    char path[128];

    if (!sb_id_valid(id) || (w->id && strcmp(w->id, id)) || find(w, id))
        return 0;
    b = calloc(1, sizeof *b);
    if (!b)
        return -ENOMEM;
    memcpy(b->id, id, SB_ID_SIZE);
    b->link = -1;
    b->limits = (struct sb_limit_watch)SB_LIMIT_WATCH_INIT;
    b->proxy = (struct sb_network_watch)SB_NETWORK_WATCH_INIT;
    b->history = !w->opening;
    b->next = w->boxes;
    w->boxes = b;
    snprintf(path, sizeof path, "/proc/self/fd/%d/%s", w->engine->sandboxes, id);
    b->folder = inotify_add_watch(w->inotify, path, IN_CREATE | IN_MOVED_TO | IN_CLOSE_WRITE | IN_ONLYDIR);
    if (b->folder < 0 && errno != ENOENT && errno != ENOTDIR) {
        if (w->opening)
            return -errno;
        tell_overrun(w, b, -1, "no inotify watches are left: it may be missed");
    }
    look(w, b);
    return 0;
}

static void forget(struct watch *w, struct box *b)
{
    struct box **at = &w->boxes;

    while (*at != b)
        at = &(*at)->next;
    *at = b->next;
    close_link(w, b);
    sb_network_watch_stop(&b->proxy);
    sb_limit_watch_stop(&b->limits, w->inotify, w->events.fd);
    if (b->folder >= 0)
        inotify_rm_watch(w->inotify, b->folder);
    free(b->limits_text);
    free(b);
}

static void gone(struct watch *w, struct box *b)
{
    drain(w, b);
    if (b->known && !b->skipped) {
        if (b->state != DEAD)
            tell_cause(w, b, "stopped", "deleted");
        tell(w, b, "deleted", sb_wall_ms(), NULL);
    }
    forget(w, b);
}

/* Everything that is there; what is known and no longer there is gone. */
static int list(struct watch *w)
{
    DIR *stream = sb_read_folder(w->engine->sandboxes);
    int r = 0;
    struct dirent *d;

    if (!stream)
        return -errno;
    while (!r && (d = readdir(stream)))
        r = add(w, d->d_name);
    closedir(stream);
    for (struct box *b = w->boxes, *next; b; b = next) {
        next = b->next;
        if (!is_there(w, b))
            gone(w, b);
    }
    return r;
}

/* 1: it is about a file of the kernel's counts. */
static int on_count(struct watch *w, const struct inotify_event *e)
{
    for (struct box *b = w->boxes; b && !e->len && e->wd >= 0; b = b->next)
        if (e->wd == b->limits.memory_wd || e->wd == b->limits.pids_wd) {
            if (!(e->mask & IN_IGNORED))
                look_at_limits(w, b);
            else if (e->wd == b->limits.memory_wd)
                b->limits.memory_wd = -1;
            else
                b->limits.pids_wd = -1;
            return 1;
        }
    return 0;
}

static void on_folder_event(struct watch *w, const struct inotify_event *e)
{
    struct box *b = w->boxes;
    json_t *limits;

    if (on_count(w, e))
        return;
    if (e->mask & IN_Q_OVERFLOW) {
        tell_overrun(w, NULL, -1, "folders changed faster than they were read");
        list(w);
        for (b = w->boxes; b; b = b->next)
            b->again = 1;
    } else if (e->len && (e->mask & IN_ISDIR) && (e->mask & (IN_MOVED_FROM | IN_DELETE))) {
        b = find(w, e->name);
        if (b)
            gone(w, b);
    } else if (e->len && (e->mask & IN_ISDIR) && sb_id_valid(e->name)) {
        add(w, e->name);
    } else {
        while (b && b->folder != e->wd)
            b = b->next;
        limits = b && b->known && !b->skipped && e->len && !strcmp(e->name, "record")
                     ? sb_limit_watch_record(w->engine, b->id, &b->limits_text)
                     : NULL;
        if (limits)
            tell(w, b, "limits", sb_wall_ms(), json_pack("{s:o}", "limits", limits));
        if (b && (e->mask & IN_IGNORED))
            b->folder = -1;
        else if (b && b->link < 0)
            b->again = 1;
    }
}

static void read_folders(struct watch *w)
{
    _Alignas(struct inotify_event) char buffer[16384];
    ssize_t n = read(w->inotify, buffer, sizeof buffer);

    for (ssize_t at = 0; at < n;) {
        const struct inotify_event *e = (const struct inotify_event *)(buffer + at);

        on_folder_event(w, e);
        at += (ssize_t)(sizeof *e + e->len);
    }
}

/* Looks at the counts that are due, and sets the timer for what comes next. */
static void look_on_time(struct watch *w)
{
    int64_t wait = -1, now = sb_now_ms();
    struct itimerspec soon = { 0 };

    for (struct box *b = w->boxes; b; b = b->next) {
        if (b->limits.due && now >= b->limits.due)
            look_at_limits(w, b);
        if (b->limits.due && (wait < 0 || b->limits.due - now < wait))
            wait = b->limits.due - now;
        if (b->again && (wait < 0 || wait > AGAIN_MS))
            wait = AGAIN_MS;
    }
    if (wait < 0)
        return;
    soon.it_value = (struct timespec){ .tv_sec = wait / 1000, .tv_nsec = wait % 1000 * 1000000 + 1 };
    timerfd_settime(w->timer, 0, &soon, NULL);
}

/* One turn: first what the inits said, then what became of the folders, then those in between. */
static void turn(struct watch *w)
{
    struct epoll_event events[32];
    int n = epoll_wait(w->events.fd, events, SB_ELEMENTS(events), 0);
    uint64_t ticks;

    for (int i = 0; i < n; i++)
        if (events[i].data.ptr) {
            sb_limit_watch_heard(&((struct box *)events[i].data.ptr)->limits);
            drain(w, events[i].data.ptr);
        }
    read_folders(w);
    if (read(w->timer, &ticks, sizeof ticks) < 0)
        ticks = 0; /* it was something else */
    for (struct box *b = w->boxes; b; b = b->next)
        if (b->again)
            look(w, b);
    look_on_time(w);
}

static int watch_next(struct sb_events *events, json_t **ret_event, struct sandbox_error **error)
{
    struct watch *w = (struct watch *)events;
    eventfd_t count;
    json_t *event;

    (void)error;
    if (!json_array_size(w->queue)) /* what is told in one turn is bounded; the rest waits in the kernel */
        turn(w);
    event = json_incref(json_array_get(w->queue, 0));
    if (event)
        json_array_remove(w->queue, 0);
    if (!json_array_size(w->queue) && eventfd_read(w->wake, &count) < 0)
        count = 0; /* nothing was told */
    if (!event)
        return 1;
    *ret_event = event;
    return 0;
}

/* ---- opening and closing ---- */

static void watch_free(struct sb_events *events)
{
    struct watch *w = (struct watch *)events;

    while (w->boxes)
        forget(w, w->boxes);
    sb_close(w->inotify);
    sb_close(w->timer);
    sb_close(w->wake);
    sb_close(w->events.fd);
    json_decref(w->queue);
    free(w->id);
    free(w->key);
    free(w->value);
    free(w);
}

static const struct sb_events_ops events_ops = { watch_next, watch_free };

static int copy(const char *text, char **ret)
{
    *ret = text ? strdup(text) : NULL;
    return text && !*ret ? -ENOMEM : 0;
}

static int open_watch(struct watch *w, const struct sandbox_events_options *o, struct sandbox_error **error)
{
    struct epoll_event e = { .events = EPOLLIN };
    char path[64];
    int r;

    w->queue = json_array();
    w->events.fd = epoll_create1(EPOLL_CLOEXEC);
    w->inotify = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
    w->timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    w->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (!w->queue || copy(o->id, &w->id) || copy(o->label_key, &w->key) || copy(o->label_value, &w->value))
        return sb_fail(error, SB_ARGS(SANDBOX_ENOMEM, .sys_errno = ENOMEM), "out of memory");
    snprintf(path, sizeof path, "/proc/self/fd/%d", w->engine->sandboxes);
    if (w->events.fd < 0 || w->inotify < 0 || w->timer < 0 || w->wake < 0 || epoll_ctl(w->events.fd, EPOLL_CTL_ADD, w->inotify, &e) < 0 ||
        epoll_ctl(w->events.fd, EPOLL_CTL_ADD, w->timer, &e) < 0 || epoll_ctl(w->events.fd, EPOLL_CTL_ADD, w->wake, &e) < 0 ||
        inotify_add_watch(w->inotify, path, IN_CREATE | IN_MOVED_TO | IN_MOVED_FROM | IN_DELETE | IN_ONLYDIR) < 0)
        return sb_fail(error, SB_ARGS(errno == ENOSPC ? SANDBOX_ELIMIT : sb_code_from_errno(errno), .sys_errno = errno, .phase = "watch",
                                      .hint = "are fs.inotify.max_user_instances and max_user_watches, or this process's descriptors, used up?"),
                       "the sandboxes can't be watched: %s", strerrordesc_np(errno));
    r = list(w);
    if (r)
        return sb_fail(error, SB_ARGS(r == -ENOSPC ? SANDBOX_ELIMIT : sb_code_from_errno(-r), .sys_errno = -r, .phase = "watch",
                                      .hint = "is fs.inotify.max_user_watches used up?"),
                       "the sandboxes can't be watched: %s", strerrordesc_np(-r));
    look_on_time(w);
    if (w->id && !w->boxes)
        return sb_fail(error, SB_ARGS(SANDBOX_ENOTFOUND, .field = "id"), "there is no sandbox %.12s", w->id);
    return 0;
}

int sb_engine_events_open(struct sb_driver *driver, const struct sandbox_events_options *options, struct sb_events **ret_events,
                          struct sandbox_error **error)
{
    struct watch *w = calloc(1, sizeof *w);
    int r;

    if (!w)
        return sb_fail(error, SB_ARGS(SANDBOX_ENOMEM, .sys_errno = ENOMEM), "out of memory");
    *w = (struct watch){ .events = { .ops = &events_ops, .fd = -1 }, .engine = (struct sb_engine *)driver, .inotify = -1, .timer = -1, .wake = -1,
                         .opening = 1 };
    r = open_watch(w, options, error);
    w->opening = 0;
    if (r) {
        watch_free(&w->events);
        return r;
    }
    *ret_events = &w->events;
    return 0;
}
