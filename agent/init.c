/* SPDX-License-Identifier: Apache-2.0
 * init: pid 1 of a sandbox. It reaps, starts the daemon, starts commands on request, and dials ports for the outside.
 *
 * Theory of operation. One loop over epoll; a fixed table of slots, one for each connection; nothing is allocated after the
 * start. A connection carries one request with its descriptors and is the handle of what it asked for: an exec's end is
 * reported on it. init never waits for a child: whether a command was executed is learned from a close-on-exec pipe, with a
 * deadline, since a child may be stopped by a hostile neighbour or hang in a file system. init is not dumpable and has never
 * executed anything since it was cloned, so nothing inside can read, trace or replace it. Only peers from outside the pid
 * namespace are heard: their pid reads 0 here. What they send is checked all the same. */
#include "init-loop.h"
#include "message.h"
#include "stage.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <util.h>

enum { REAP_A_TURN = 64, DEAF_MS = 20 };

struct ag_loop ag_loop;

/* When `ms` are over, on sb_now_ms(); 0, no bound, for what is beyond the clock. */
int64_t ag_after(int64_t ms)
{
    return ms < INT64_MAX / 2 ? sb_now_ms() + ms : 0;
}

void ag_watch(int fd, enum ag_what what, size_t index, uint32_t events)
{
    struct epoll_event e = { .events = events, .data.u64 = (uint64_t)what << 32 | index };

    epoll_ctl(ag_loop.epoll, EPOLL_CTL_ADD, fd, &e);
}

/* Closes a watched descriptor. Taken off first: a child that was just forked still has a copy, and the kernel would go on to
 * report on it under a number that may be somebody else's by then. */
int ag_forget(int fd)
{
    if (fd >= 0)
        epoll_ctl(ag_loop.epoll, EPOLL_CTL_DEL, fd, NULL);
    return sb_close(fd);
}

static void drop_connection(struct ag_slot *s)
{
    s->fd = ag_forget(s->fd);
    if (s->kind == IDLE)
        ag_leaf_drop(s);
    if (s->kind == DIALING)
        s->dial_fd = ag_forget(s->dial_fd);
    if (s->kind == SERVING)
        ag_files_drop(s);
    if (s->kind == TAKING)
        ag_hold_drop(s);
    if (s->kind == TAKING || s->kind == IDLE || s->kind == DIALING || s->kind == ATTACHED || s->kind == WATCHING)
        s->kind = FREE;
}

void ag_reply(struct ag_slot *s, const struct sb_reply *r, int fd)
{
    /* a peer that doesn't read its answers loses them: we never wait for it */
    if (s->fd < 0 || ag_send(s->fd, r, sizeof *r, fd, MSG_DONTWAIT) == 0)
        return;
    s->fd = ag_forget(s->fd);
    if (s->kind == IDLE || s->kind == WATCHING) { /* nothing else holds the slot */
        ag_leaf_drop(s);
        s->kind = FREE;
    }
}

void ag_fail(struct ag_slot *s, enum sb_start_step step, int sys_errno)
{
    ag_reply(s, &(struct sb_reply){ .type = SB_REPLY_FAILED, .step = step, .sys_errno = sys_errno }, -1);
}

size_t ag_count_kind(enum ag_slot_kind kind)
{
    size_t n = 0;

    for (size_t i = 0; i < ag_loop.top; i++)
        n += ag_loop.slots[i].kind == kind;
    return n;
}

static void on_deadline(struct ag_slot *s)
{
    switch (s->kind) {
    case STARTING:
        if (s->pid > 0)
            kill(s->pid, SIGKILL);
        ag_fail(s, SB_STEP_DEADLINE, ETIMEDOUT);
        if (s->daemon)
            ag_loop.daemon_state = SB_DAEMON_NONE;
        ag_event_failed(s, ETIMEDOUT);
        ag_settle(s); /* the child is reaped as a stranger */
        break;
    case RUNNING:
        s->timed_out = 1;
        s->kind = KILLING;
        s->kill_until = sb_now_ms() + AG_KILL_MS;
        ag_kill_on(s);
        break;
    case KILLING:
        ag_kill_on(s);
        break;
    case DIALING:
        ag_fail(s, SB_STEP_DIAL, ETIMEDOUT);
        s->dial_fd = ag_forget(s->dial_fd);
        s->kind = s->fd >= 0 ? IDLE : FREE;
        s->until = 0;
        break;
    case SERVING:
        ag_files_kill(s);
        break;
    case HOLDING:
        ag_hold_kill(s);
        break;
    default:
        s->until = 0;
    }
}

static void on_signals(void)
{
    struct signalfd_siginfo info;
    struct rusage usage;
    int status;
    pid_t pid;

    if (read(ag_loop.signals, &info, sizeof info) < 0 && !ag_loop.more_to_reap)
        return;
    ag_loop.more_to_reap = 1;
    for (int turn = 0; turn < REAP_A_TURN; turn++) { /* orphans that are stopped and continued in a loop must not keep us here */
        pid = wait4(-1, &status, WNOHANG | WUNTRACED | __WALL, &usage);
        if (pid <= 0) {
            ag_loop.more_to_reap = 0;
            break;
        }
        struct ag_slot *s = NULL;

        for (size_t i = 0; i < ag_loop.top && !s; i++)
            if (ag_loop.slots[i].pid == pid && ag_loop.slots[i].kind != FREE)
                s = &ag_loop.slots[i];
        if (WIFSTOPPED(status)) {
            if (s && (s->kind == STARTING || s->kind == SERVING || s->kind == HOLDING)) /* what is ours, stopped by a neighbour of the same uid */
                kill(pid, SIGCONT);
            continue;
        }
        if (s && s->kind == SERVING)
            ag_files_ended(s, status);
        else if (s && s->kind == HOLDING)
            ag_hold_ended(s, status);
        else if (s)
            ag_on_exit_of(s, status, &usage);
    }
}

static int is_request(ssize_t n)
{
    const struct sb_request *q = (const struct sb_request *)ag_loop.buffer;

    return n >= (ssize_t)sizeof *q && q->argc <= 65536 && q->envc <= 65536 && q->blob_size <= SB_REQUEST_BLOB_MAX &&
           (q->flags & SB_REQUEST_BLOB_FD ? n == (ssize_t)sizeof *q : (size_t)n == sizeof *q + q->blob_size);
}

static void tell_status(struct ag_slot *s, uint32_t flags)
{
    struct sb_reply r = { .type = SB_REPLY_STATUS,
                          .started = (uint32_t)ag_loop.started,
                          .daemon = (uint32_t)ag_loop.daemon_state,
                          .starts = ag_loop.daemon_starts,
                          .code = ag_loop.daemon_code,
                          .signal = ag_loop.daemon_signal,
                          .paused = (uint32_t)ag_loop.paused };

    r.execs = ag_count_execs();
    ag_reply(s, &r, -1);
    if (flags & SB_REQUEST_IDS && r.execs)
        ag_reply_ids(s);
}

void ag_shut_down(const struct sb_request *q)
{
    struct ag_slot *d = ag_daemon_slot();

    if (!d) {
        ag_tell(SB_WATCH_STOPPING, NULL);
        _exit(0); /* the kernel ends everything in the pid namespace with us */
    }
    ag_loop.stopping = 1;
    ag_tell(SB_WATCH_STOPPING, NULL);
    ag_loop.stop_until = q->timeout_ms >= 0 ? ag_after(q->timeout_ms) : 0;
    d->sent_signal = SIGTERM;
    kill(d->pid, SIGTERM);
    ag_resume(); /* or it could not end by itself */
}

static void on_request(struct ag_slot *s)
{
    const struct sb_request *q = (const struct sb_request *)ag_loop.buffer;
    int fds[4];
    size_t n_fds;
    ssize_t n = ag_receive(s->fd, ag_loop.buffer, sizeof ag_loop.buffer, fds, &n_fds);

    if (n == -EAGAIN) {
        return;
    } else if (!is_request(n)) {
        drop_connection(s);
    } else if (q->type == SB_REQUEST_KILL) {
        ag_send_signal(s, q);
    } else if (s->kind != IDLE) {
        drop_connection(s); /* one thing at a time */
    } else if (ag_loop.paused && (q->type == SB_REQUEST_EXEC || q->type == SB_REQUEST_START)) {
        ag_fail(s, SB_STEP_PAUSED, EBUSY);
    } else if (q->type == SB_REQUEST_EXEC) {
        if (ag_loop.started)
            ag_start(s, q, fds, n_fds, 0);
        else
            ag_fail(s, SB_STEP_STATE, ESRCH);
    } else if (q->type == SB_REQUEST_START && q->argc) {
        ag_life_remember(q, fds, n_fds);
        ag_start(s, q, fds, n_fds, 1);
    } else if (q->type == SB_REQUEST_START) {
        if (!ag_loop.started) {
            ag_tell(SB_WATCH_STARTED, NULL);
            ag_event_life(SB_EVENT_BEGUN, 0, NULL);
        }
        ag_loop.started = 1;
        ag_reply(s, &(struct sb_reply){ .type = SB_REPLY_DONE }, -1);
    } else if (q->type == SB_REQUEST_DIAL) {
        ag_dial(s, q);
    } else if (q->type == SB_REQUEST_FILES) {
        ag_files_start(s, q, fds, n_fds);
    } else if (q->type == SB_REQUEST_STATUS) {
        tell_status(s, q->flags);
        drop_connection(s); /* who asks for it asks once: its own end needn't wake us then */
    } else if (q->type == SB_REQUEST_WATCH) {
        ag_watch_begin(s, q);
    } else if (q->type == SB_REQUEST_OUTER) {
        ag_outer_give(s, q);
    } else if (q->type == SB_REQUEST_SHUTDOWN) {
        ag_shut_down(q);
    } else if (q->type == SB_REQUEST_PAUSE) {
        ag_pause(s, q);
    } else if (q->type == SB_REQUEST_DETACH) {
        ag_hold(s, q, fds, n_fds);
    } else if (q->type == SB_REQUEST_TERMINAL_BACK) {
        ag_hold_back(s, q);
    } else if (q->type == SB_REQUEST_ATTACH) {
        ag_attach(s, q);
    } else if (q->type == SB_REQUEST_MOVE && n_fds == 1) {
        ag_leaf_enter(s, fds[0]);
    } else if (q->type == SB_REQUEST_LEAF && n_fds == 1) {
        ag_leaf_take(s, q, fds);
    } else {
        ag_fail(s, SB_STEP_REQUEST, ENOSYS);
    }
    for (size_t i = 0; i < n_fds; i++)
        sb_close(fds[i]);
}

/* Without a descriptor for who connects there is nothing to do but wait: level-triggered, the listener would wake us for ever. 0: now. */
static void listen_again_at(int64_t when)
{
    struct epoll_event e = { .events = when ? 0 : EPOLLIN, .data.u64 = (uint64_t)ON_LISTEN << 32 };

    ag_loop.deaf_until = when;
    epoll_ctl(ag_loop.epoll, EPOLL_CTL_MOD, SB_FD_LISTEN, &e);
}

static int accept_one(void)
{
    return accept4(SB_FD_LISTEN, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
}

static void turn_away(int fd)
{
    struct ag_slot full = { .fd = fd, .kind = IDLE };

    ag_fail(&full, SB_STEP_BUSY, EAGAIN);
    sb_close(full.fd);
}

/* No descriptor is left. One was kept for telling so; when even that doesn't do, listening pauses. */
static void on_no_descriptor(void)
{
    int fd;

    ag_loop.spare = sb_close(ag_loop.spare);
    fd = accept_one();
    if (fd >= 0)
        turn_away(fd);
    else if (errno != EAGAIN)
        listen_again_at(sb_now_ms() + DEAF_MS);
    ag_loop.spare = fcntl(SB_FD_NULL, F_DUPFD_CLOEXEC, 3);
}

struct ag_slot *ag_take_slot(int fd)
{
    for (size_t i = 0; i < AG_SLOTS; i++)
        if (ag_loop.slots[i].kind == FREE) {
            ag_loop.slots[i] = (struct ag_slot){ .kind = IDLE, .fd = fd, .status_fd = -1, .dial_fd = -1, .leaf = -1, .pin = -1, .terminal = -1 };
            if (i >= ag_loop.top)
                ag_loop.top = i + 1;
            return &ag_loop.slots[i];
        }
    return NULL;
}

static void on_connect(void)
{
    struct ag_slot *s;
    struct ucred peer;
    socklen_t size = sizeof peer;
    int fd = accept_one();

    if (fd < 0 && (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM))
        on_no_descriptor();
    if (fd < 0)
        return;
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) < 0 || peer.pid != 0) {
        sb_close(fd); /* somebody inside got hold of our socket */
        return;
    }
    s = ag_take_slot(fd);
    if (!s) {
        turn_away(fd);
        return;
    }
    on_request(s); /* it has often been sent by now */
    if (s->fd == fd)
        ag_watch(fd, ON_CONNECTION, (size_t)(s - ag_loop.slots), EPOLLIN);
}

/* Does what is due; then for how long epoll may wait. */
static int run_timers(void)
{
    int64_t now = sb_now_ms(), next = ag_loop.stopping && ag_loop.stop_until ? ag_loop.stop_until : -1;
    int busy = 0;

    if (next >= 0 && now >= next)
        _exit(0);
    if (ag_loop.deaf_until && now >= ag_loop.deaf_until)
        listen_again_at(0);
    if (ag_loop.deaf_until && (next < 0 || ag_loop.deaf_until < next))
        next = ag_loop.deaf_until;
    while (ag_loop.top > 0 && ag_loop.slots[ag_loop.top - 1].kind == FREE)
        ag_loop.top--;
    for (struct ag_slot *s = ag_loop.slots; s < ag_loop.slots + ag_loop.top; s++) {
        if (s->kind != FREE && s->until && now >= s->until)
            on_deadline(s);
        busy |= s->kind == DIALING || s->kind == SERVING || ag_is_exec(s);
        if (s->kind != FREE && s->until && (next < 0 || s->until < next))
            next = s->until;
    }
    ag_life_turn(busy);
    return sb_left_ms(next);
}

static void on_event(const struct epoll_event *e)
{
    struct ag_slot *s = &ag_loop.slots[e->data.u64 & 0xffffffffu];

    switch ((enum ag_what)(e->data.u64 >> 32)) {
    case ON_CONNECTION:
        if (s->fd >= 0 && s->kind == WATCHING && (e->events & EPOLLOUT))
            ag_watch_more(s);
        if (s->fd >= 0 && (e->events & ~EPOLLOUT))
            on_request(s);
        break;
    case ON_STATUS:
        ag_on_status(s);
        break;
    case ON_DIAL:
        ag_on_dialed(s);
        break;
    case ON_LISTEN:
        on_connect();
        break;
    case ON_SIGNAL:
        on_signals();
        break;
    case ON_EVENTS:
        ag_on_events(e->events);
        break;
    case ON_OWNER:
        _exit(0);
    }
}

void ag_init_main(const struct sb_plan *plan, int procfs)
{
    struct epoll_event events[32];
    struct rlimit files;
    sigset_t children;

    if (getrlimit(RLIMIT_NOFILE, &files) == 0) { /* an exec takes up to four descriptors of ours */
        ag_loop.files = files.rlim_cur;
        files.rlim_cur = files.rlim_max;
        setrlimit(RLIMIT_NOFILE, &files);
    }
    ag_loop.plan = plan;
    ag_loop.procfs = procfs;
    if (pread(SB_FD_OOM_SCORE, ag_loop.own_score, sizeof ag_loop.own_score - 1, 0) < 0)
        *ag_loop.own_score = 0;
    prctl(PR_SET_NAME, "sandbox-init");
    /* all others are left at their default and not blocked: then the kernel drops what the inside sends to its init */
    sigemptyset(&children);
    sigaddset(&children, SIGCHLD);
    sigprocmask(SIG_SETMASK, &children, NULL);
    ag_cut_bounding_set(plan->daemon_capabilities);
    ag_loop.epoll = epoll_create1(EPOLL_CLOEXEC);
    ag_loop.signals = signalfd(-1, &children, SFD_CLOEXEC | SFD_NONBLOCK);
    if (ag_loop.epoll < 0 || ag_loop.signals < 0)
        _exit(1);
    ag_loop.spare = fcntl(SB_FD_NULL, F_DUPFD_CLOEXEC, 3);
    ag_loop.terminals = open("/dev/pts", O_PATH | O_DIRECTORY | O_CLOEXEC);
    ag_events_start();
    fcntl(SB_FD_LISTEN, F_SETFL, O_NONBLOCK);
    ag_watch(SB_FD_LISTEN, ON_LISTEN, 0, EPOLLIN);
    ag_watch(ag_loop.signals, ON_SIGNAL, 0, EPOLLIN);
    if (plan->flags & SB_PLAN_OWNED)
        ag_watch(SB_FD_OWNER, ON_OWNER, 0, EPOLLIN);
    for (;;) {
        int wait = run_timers();
        int n = epoll_wait(ag_loop.epoll, events, SB_ELEMENTS(events), ag_loop.more_to_reap ? 0 : wait);

        for (int i = 0; i < n; i++)
            on_event(&events[i]);
        if (ag_loop.more_to_reap)
            on_signals();
    }
}
