/* SPDX-License-Identifier: Apache-2.0
 * init: pid 1 of a sandbox. It reaps, starts the daemon, starts commands on request, and dials ports for the outside.
 *
 * Theory of operation. One loop over epoll; a fixed table of slots, one for each connection; nothing is allocated after the
 * start. A connection carries one request with its descriptors and is the handle of what it asked for: an exec's end is
 * reported on it. init never waits for a child: whether a command was executed is learned from a close-on-exec pipe, with a
 * deadline, since a child may be stopped by a hostile neighbour or hang in a file system. init is not dumpable and has never
 * executed anything since it was cloned, so nothing inside can read, trace or replace it. Only peers from outside the pid
 * namespace are heard: their pid reads 0 here. What they send is checked all the same. */
#include "init.h"
#include "message.h"
#include "stage.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <util.h>

enum { START_MS = 5000, KILL_MS = 5000, KILL_STEP_MS = 2, REAP_A_TURN = 64, SLOTS = SB_EXECS_MAX + 64 };
enum slot_kind { FREE = 0, IDLE, STARTING, RUNNING, KILLING, DIALING };
enum what { ON_CONNECTION = 0, ON_STATUS, ON_DIAL, ON_LISTEN, ON_SIGNAL, ON_OWNER };

/* Kinds of ends, as in sandbox.h, which init does not include. */
enum { EXITED = 1, SIGNALLED = 2, DEADLINE = 3, KILLED = 4 };

struct slot {
    enum slot_kind kind;
    int fd;        /* the connection; -1: its peer is gone */
    int status_fd; /* starting */
    int dial_fd, family;
    uint16_t port;
    int leaf; /* its own cgroup, -1: none */
    int pin;  /* its cgroup namespace, with a deadline; -1: none */
    char leaf_name[AG_LEAF_NAME];
    pid_t pid; /* 0: reaped */
    int daemon;
    int sent_signal; /* the last signal sent by request */
    int timed_out;
    int64_t until; /* starting, running, killing, dialing: on sb_now_ms(); 0: no bound */
    int64_t kill_until;
    int64_t deadline_ms;
    uint64_t tag;
    struct ag_exec_status status;
    struct sb_reply end;
};

static struct {
    const struct sb_plan *plan;
    int procfs, epoll, signals;
    char own_score[8]; /* oom_score_adj */
    int started;
    int daemon_state, daemon_code, daemon_signal;
    uint64_t files; /* the caller's soft limit of open files, for commands */
    int stopping, more_to_reap;
    unsigned long execs;
    int64_t stop_until; /* 0: no bound */
    size_t top;         /* slots from here on are free, and their memory untouched: a fork copies what was touched */
    struct slot slots[SLOTS];
    char buffer[sizeof(struct sb_request) + SB_REQUEST_INLINE];
} in;

/* When `ms` are over, on sb_now_ms(); 0, no bound, for what is beyond the clock. */
static int64_t after(int64_t ms)
{
    return ms < INT64_MAX / 2 ? sb_now_ms() + ms : 0;
}

static void watch(int fd, enum what what, size_t index, uint32_t events)
{
    struct epoll_event e = { .events = events, .data.u64 = (uint64_t)what << 32 | index };

    epoll_ctl(in.epoll, EPOLL_CTL_ADD, fd, &e);
}

/* Closes a watched descriptor. Taken off first: a child that was just forked still has a copy, and the kernel would go on to
 * report on it under a number that may be somebody else's by then. */
static int forget(int fd)
{
    if (fd >= 0)
        epoll_ctl(in.epoll, EPOLL_CTL_DEL, fd, NULL);
    return sb_close(fd);
}

static void drop_connection(struct slot *s)
{
    s->fd = forget(s->fd);
    if (s->kind == DIALING)
        s->dial_fd = forget(s->dial_fd);
    if (s->kind == IDLE || s->kind == DIALING)
        s->kind = FREE;
}

static void reply(struct slot *s, const struct sb_reply *r, int fd)
{
    /* a peer that doesn't read its answers loses them: we never wait for it */
    if (s->fd >= 0 && ag_send(s->fd, r, sizeof *r, fd, MSG_DONTWAIT) < 0)
        s->fd = forget(s->fd);
}

static void fail(struct slot *s, enum sb_start_step step, int sys_errno)
{
    reply(s, &(struct sb_reply){ .type = SB_REPLY_FAILED, .step = step, .sys_errno = sys_errno }, -1);
}

static void drop_leaf(struct slot *s)
{
    if (s->leaf < 0)
        return;
    s->leaf = sb_close(s->leaf);
    ag_leaf_remove(s->leaf_name);
}

/* An exec is over: its slot stays for the connection, if that still stands. */
static void settle(struct slot *s)
{
    s->status_fd = forget(s->status_fd);
    s->pin = sb_close(s->pin);
    drop_leaf(s);
    s->kind = s->fd >= 0 ? IDLE : FREE;
    s->pid = 0;
    s->until = 0;
}

static void finish(struct slot *s)
{
    if (s->daemon) {
        in.daemon_state = SB_DAEMON_EXITED;
        in.daemon_code = s->end.code;
        in.daemon_signal = s->end.signal;
    }
    s->end.type = SB_REPLY_EXITED;
    reply(s, &s->end, -1);
    s->fd = forget(s->fd);
    settle(s);
    if (s->daemon && in.stopping)
        _exit(0);
}

/* After the deadline: nothing of the exec may live when its end is told. */
static void kill_on(struct slot *s)
{
    int64_t now = sb_now_ms();
    int left = s->leaf >= 0 ? ag_leaf_kill(s->leaf) : -1;

    if (s->pid > 0)
        kill(s->pid, SIGKILL);
    if (left != 0) { /* cgroup.kill passes over a process whose main thread has ended; kill(2) doesn't */
        int tagged = ag_kill_tagged(in.procfs, s->tag, SIGKILL);

        left = left < 0 ? tagged : left;
    }
    if ((left == 0 && s->pid == 0) || now >= s->kill_until) {
        finish(s);
        return;
    }
    s->until = now + KILL_STEP_MS;
}

static void on_deadline(struct slot *s)
{
    switch (s->kind) {
    case STARTING:
        if (s->pid > 0)
            kill(s->pid, SIGKILL);
        fail(s, SB_STEP_DEADLINE, ETIMEDOUT);
        if (s->daemon)
            in.daemon_state = SB_DAEMON_NONE;
        settle(s); /* the child is reaped as a stranger */
        break;
    case RUNNING:
        s->timed_out = 1;
        s->kind = KILLING;
        s->kill_until = sb_now_ms() + KILL_MS;
        kill_on(s);
        break;
    case KILLING:
        kill_on(s);
        break;
    case DIALING:
        fail(s, SB_STEP_DIAL, ETIMEDOUT);
        s->dial_fd = forget(s->dial_fd);
        s->kind = s->fd >= 0 ? IDLE : FREE;
        s->until = 0;
        break;
    default:
        s->until = 0;
    }
}

/* The status pipe has a record or its end. */
static void on_status(struct slot *s)
{
    struct sb_reply r = { .type = SB_REPLY_STARTED };
    struct ag_exec_status record;
    size_t n_fds;
    int fds[4];
    ssize_t n;

    if (s->kind != STARTING)
        return;
    while ((n = ag_receive(s->status_fd, &record, sizeof record, fds, &n_fds)) == (ssize_t)sizeof record) {
        s->status = record;
        for (size_t i = 0; i < n_fds; i++) {
            sb_close(s->pin);
            s->pin = fds[i];
        }
    }
    if (n == -EAGAIN)
        return;
    s->status_fd = forget(s->status_fd);
    if (s->status.step || !s->status.tag) { /* the child says why it failed, or was killed before it could */
        fail(s, s->status.step ? s->status.step : SB_STEP_FORK, s->status.step ? s->status.sys_errno : EINTR);
        if (s->daemon)
            in.daemon_state = SB_DAEMON_NONE;
        settle(s);
        return;
    }
    s->tag = s->status.tag;
    r.cap_effective = s->status.cap_effective;
    r.cap_permitted = s->status.cap_permitted;
    r.cap_inheritable = s->status.cap_inheritable;
    r.cap_bounding = s->status.cap_bounding;
    r.cap_ambient = s->status.cap_ambient;
    r.uid = s->status.uid;
    r.gid = s->status.gid;
    r.n_groups = s->status.n_groups;
    r.no_new_privs = s->status.no_new_privs;
    r.seccomp = s->status.seccomp;
    s->kind = RUNNING;
    s->until = s->deadline_ms ? after(s->deadline_ms) : 0;
    if (s->daemon) {
        in.daemon_state = SB_DAEMON_RUNNING;
        in.started = 1;
    }
    reply(s, &r, -1);
}

static void on_exit_of(struct slot *s, int status, const struct rusage *usage)
{
    s->pid = 0;
    if (s->kind == STARTING)
        on_status(s); /* its last word, or that it was executed */
    if (s->kind != RUNNING && s->kind != KILLING)
        return;
    s->end = (struct sb_reply){ .kind = EXITED, .code = -1 };
    s->end.user_us = (int64_t)usage->ru_utime.tv_sec * 1000000 + usage->ru_utime.tv_usec;
    s->end.system_us = (int64_t)usage->ru_stime.tv_sec * 1000000 + usage->ru_stime.tv_usec;
    s->end.max_rss = (int64_t)usage->ru_maxrss * 1024;
    if (WIFEXITED(status)) {
        s->end.code = WEXITSTATUS(status);
    } else {
        s->end.signal = WTERMSIG(status);
        s->end.kind = s->end.signal == s->sent_signal ? KILLED : SIGNALLED;
    }
    if (s->timed_out) {
        s->end.kind = DEADLINE;
        s->end.code = -1;
        s->end.signal = SIGKILL;
        kill_on(s);
        return;
    }
    finish(s);
}

static void on_signals(void)
{
    struct signalfd_siginfo info;
    struct rusage usage;
    int status;
    pid_t pid;

    if (read(in.signals, &info, sizeof info) < 0 && !in.more_to_reap)
        return;
    in.more_to_reap = 1;
    for (int turn = 0; turn < REAP_A_TURN; turn++) { /* orphans that are stopped and continued in a loop must not keep us here */
        pid = wait4(-1, &status, WNOHANG | WUNTRACED | __WALL, &usage);
        if (pid <= 0) {
            in.more_to_reap = 0;
            break;
        }
        struct slot *s = NULL;

        for (size_t i = 0; i < in.top && !s; i++)
            if (in.slots[i].pid == pid && in.slots[i].kind != FREE)
                s = &in.slots[i];
        if (WIFSTOPPED(status)) {
            if (s && s->kind == STARTING) /* stopped by a neighbour of the same uid before it was executed */
                kill(pid, SIGCONT);
            continue;
        }
        if (s)
            on_exit_of(s, status, &usage);
    }
}

static int is_request(ssize_t n)
{
    const struct sb_request *q = (const struct sb_request *)in.buffer;

    return n >= (ssize_t)sizeof *q && q->argc <= 65536 && q->envc <= 65536 && q->blob_size <= SB_REQUEST_BLOB_MAX &&
           (q->flags & SB_REQUEST_BLOB_FD ? n == (ssize_t)sizeof *q : (size_t)n == sizeof *q + q->blob_size);
}

static void set_oom_score(const char *score)
{
    int saved = errno;

    if (*in.own_score && pwrite(SB_FD_OOM_SCORE, score, strlen(score), 0) < 0)
        *in.own_score = 0; /* the machine set it higher for good */
    errno = saved;
}

/* Where the new child goes: with a deadline into a cgroup of its own. -1: no cgroups. */
static int choose_cgroup(struct slot *s, int daemon)
{
    if (!(in.plan->flags & SB_PLAN_CGROUP))
        return -1;
    s->leaf = !daemon && s->deadline_ms ? ag_leaf_make(++in.execs, s->leaf_name) : -1;
    return s->leaf >= 0 ? s->leaf : daemon ? SB_FD_CGROUP_DAEMON : SB_FD_CGROUP_EXEC;
}

static uint32_t count_execs(void)
{
    uint32_t n = 0;

    for (size_t i = 0; i < in.top; i++)
        n += !in.slots[i].daemon && (in.slots[i].kind == RUNNING || in.slots[i].kind == STARTING || in.slots[i].kind == KILLING);
    return n;
}

static void start(struct slot *s, const struct sb_request *q, int *fds, size_t n_fds, int daemon)
{
    struct ag_exec x = { .plan = in.plan, .request = q, .blob_fd = -1, .procfs = in.procfs, .daemon = daemon, .files = in.files };
    struct clone_args args = { .exit_signal = SIGCHLD };
    size_t stdio = daemon ? 0 : 3, want = stdio + (q->flags & SB_REQUEST_BLOB_FD ? 1 : 0);
    int pipes[2], cgroup;
    long pid;

    if (n_fds != want || q->argc < 1) {
        fail(s, SB_STEP_REQUEST, EINVAL);
        return;
    }
    if (!daemon && count_execs() >= SB_EXECS_MAX) { /* said here: who is turned away at the door takes the sandbox for dead */
        fail(s, SB_STEP_BUSY, EAGAIN);
        return;
    }
    if (daemon && (in.daemon_state == SB_DAEMON_STARTING || in.daemon_state == SB_DAEMON_RUNNING)) {
        fail(s, SB_STEP_STATE, EALREADY);
        return;
    }
    x.blob = q->flags & SB_REQUEST_BLOB_FD ? NULL : in.buffer + sizeof *q;
    x.blob_fd = q->flags & SB_REQUEST_BLOB_FD ? fds[stdio] : -1;
    x.fds[0] = daemon ? SB_FD_NULL : fds[0];
    x.fds[1] = daemon ? SB_FD_DAEMON_OUT : fds[1];
    x.fds[2] = daemon ? SB_FD_DAEMON_ERR : fds[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pipes) < 0) {
        fail(s, SB_STEP_FORK, errno);
        return;
    }
    x.status_fd = pipes[1];
    s->deadline_ms = daemon ? 0 : q->timeout_ms;
    x.pin = s->deadline_ms != 0;
    cgroup = choose_cgroup(s, daemon);
    if (cgroup >= 0) {
        args.flags |= CLONE_INTO_CGROUP;
        args.cgroup = (uint64_t)cgroup;
    }
    /* A child inherits the score: when memory is short, init must not be the one that the kernel takes. Not set by the child: it would have
     * to be dumpable for that, and so open to a daemon that may trace, while it has all rights and no filter. */
    set_oom_score("500");
    pid = syscall(SYS_clone3, &args, sizeof args);
    if (pid == 0)
        ag_exec_child(&x);
    set_oom_score(in.own_score);
    sb_close(pipes[1]);
    if (pid < 0) {
        fail(s, SB_STEP_FORK, errno);
        sb_close(pipes[0]);
        drop_leaf(s);
        return;
    }
    s->kind = STARTING;
    s->pid = (pid_t)pid;
    s->daemon = daemon;
    s->status_fd = pipes[0];
    s->sent_signal = s->timed_out = 0;
    s->tag = 0;
    memset(&s->status, 0, sizeof s->status);
    s->until = sb_now_ms() + START_MS;
    if (daemon)
        in.daemon_state = SB_DAEMON_STARTING;
    watch(s->status_fd, ON_STATUS, (size_t)(s - in.slots), EPOLLIN);
}

static void end_dial(struct slot *s)
{
    s->dial_fd = forget(s->dial_fd);
    s->kind = s->fd >= 0 ? IDLE : FREE;
    s->until = 0;
}

static void on_dialed(struct slot *s);

static void begin_dial(struct slot *s)
{
    int connected;

    s->dial_fd = ag_dial(s->port, &s->family, &connected);
    if (s->dial_fd < 0) {
        fail(s, SB_STEP_DIAL, -s->dial_fd);
        s->dial_fd = -1;
        end_dial(s);
    } else if (connected) {
        on_dialed(s);
    } else {
        watch(s->dial_fd, ON_DIAL, (size_t)(s - in.slots), EPOLLOUT);
    }
}

static void on_dialed(struct slot *s)
{
    struct sb_reply r = { .type = SB_REPLY_DIALED };
    int error = 0;
    socklen_t size = sizeof error;

    if (s->kind != DIALING)
        return;
    if (getsockopt(s->dial_fd, SOL_SOCKET, SO_ERROR, &error, &size) < 0)
        error = errno;
    if (error == ECONNREFUSED && s->family == AF_INET) {
        s->dial_fd = forget(s->dial_fd);
        s->family = AF_INET6;
        begin_dial(s);
        return;
    }
    if (error) {
        fail(s, SB_STEP_DIAL, error);
    } else {
        fcntl(s->dial_fd, F_SETFL, 0); /* the caller's descriptor is blocking */
        reply(s, &r, s->dial_fd);
    }
    end_dial(s);
}

static void dial(struct slot *s, const struct sb_request *q)
{
    if (q->port < 1 || q->port > 65535) {
        fail(s, SB_STEP_REQUEST, EINVAL);
        return;
    }
    s->kind = DIALING;
    s->port = (uint16_t)q->port;
    s->family = AF_INET;
    s->until = q->timeout_ms > 0 ? after(q->timeout_ms) : 0;
    begin_dial(s);
}

static struct slot *daemon_slot(void)
{
    for (size_t i = 0; i < in.top; i++)
        if (in.slots[i].daemon && in.slots[i].pid > 0 && (in.slots[i].kind == RUNNING || in.slots[i].kind == STARTING))
            return &in.slots[i];
    return NULL;
}

static void send_signal(struct slot *s, const struct sb_request *q)
{
    static const struct sb_reply done = { .type = SB_REPLY_DONE };
    int of_exec =
        s->kind == RUNNING || s->kind == KILLING; /* then the end is the only answer: its descriptor polls for nothing else */
    struct slot *target = of_exec ? s : daemon_slot();

    if (q->signal < 1 || q->signal > 64) {
        if (!of_exec)
            fail(s, SB_STEP_REQUEST, EINVAL);
        return;
    }
    if (!target || target->pid <= 0) {
        if (!of_exec)
            fail(s, SB_STEP_STATE, ESRCH);
        return;
    }
    target->sent_signal = q->signal;
    kill(target->pid, q->signal);
    if (q->flags & SB_REQUEST_DESCENDANTS)
        for (int pass = 0; ag_kill_tagged(in.procfs, target->tag, q->signal) > 1 && q->signal == SIGKILL && pass < 64; pass++)
            ;
    if (!of_exec)
        reply(s, &done, -1);
}

static void tell_status(struct slot *s)
{
    struct sb_reply r = { .type = SB_REPLY_STATUS,
                          .started = (uint32_t)in.started,
                          .daemon = (uint32_t)in.daemon_state,
                          .code = in.daemon_code,
                          .signal = in.daemon_signal };

    r.execs = count_execs();
    reply(s, &r, -1);
}

static void shut_down(const struct sb_request *q)
{
    struct slot *d = daemon_slot();

    if (!d)
        _exit(0); /* the kernel ends everything in the pid namespace with us */
    in.stopping = 1;
    in.stop_until = q->timeout_ms >= 0 ? after(q->timeout_ms) : 0;
    d->sent_signal = SIGTERM;
    kill(d->pid, SIGTERM);
}

static void on_request(struct slot *s)
{
    const struct sb_request *q = (const struct sb_request *)in.buffer;
    int fds[4];
    size_t n_fds;
    ssize_t n = ag_receive(s->fd, in.buffer, sizeof in.buffer, fds, &n_fds);

    if (n == -EAGAIN) {
        return;
    } else if (!is_request(n)) {
        drop_connection(s);
    } else if (q->type == SB_REQUEST_KILL) {
        send_signal(s, q);
    } else if (s->kind != IDLE) {
        drop_connection(s); /* one thing at a time */
    } else if (q->type == SB_REQUEST_EXEC) {
        if (in.started)
            start(s, q, fds, n_fds, 0);
        else
            fail(s, SB_STEP_STATE, ESRCH);
    } else if (q->type == SB_REQUEST_START && q->argc) {
        start(s, q, fds, n_fds, 1);
    } else if (q->type == SB_REQUEST_START) {
        in.started = 1;
        reply(s, &(struct sb_reply){ .type = SB_REPLY_DONE }, -1);
    } else if (q->type == SB_REQUEST_DIAL) {
        dial(s, q);
    } else if (q->type == SB_REQUEST_STATUS) {
        tell_status(s);
    } else if (q->type == SB_REQUEST_SHUTDOWN) {
        shut_down(q);
    } else {
        fail(s, SB_STEP_REQUEST, ENOSYS);
    }
    for (size_t i = 0; i < n_fds; i++)
        sb_close(fds[i]);
}

static void on_connect(void)
{
    struct ucred peer;
    socklen_t size = sizeof peer;
    int fd = accept4(SB_FD_LISTEN, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

    if (fd < 0)
        return;
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) < 0 || peer.pid != 0) {
        sb_close(fd); /* somebody inside got hold of our socket */
        return;
    }
    for (size_t i = 0; i < SLOTS; i++)
        if (in.slots[i].kind == FREE) {
            in.slots[i] = (struct slot){ .kind = IDLE, .fd = fd, .status_fd = -1, .dial_fd = -1, .leaf = -1, .pin = -1 };
            if (i >= in.top)
                in.top = i + 1;
            watch(fd, ON_CONNECTION, i, EPOLLIN);
            return;
        }
    struct slot full = { .fd = fd, .kind = IDLE };
    fail(&full, SB_STEP_BUSY, EAGAIN);
    sb_close(full.fd);
}

/* Does what is due; then for how long epoll may wait. */
static int run_timers(void)
{
    int64_t now = sb_now_ms(), next = in.stopping && in.stop_until ? in.stop_until : -1;

    if (next >= 0 && now >= next)
        _exit(0);
    while (in.top > 0 && in.slots[in.top - 1].kind == FREE)
        in.top--;
    for (struct slot *s = in.slots; s < in.slots + in.top; s++) {
        if (s->kind != FREE && s->until && now >= s->until)
            on_deadline(s);
        if (s->kind != FREE && s->until && (next < 0 || s->until < next))
            next = s->until;
    }
    return sb_left_ms(next);
}

static void on_event(const struct epoll_event *e)
{
    struct slot *s = &in.slots[e->data.u64 & 0xffffffffu];

    switch ((enum what)(e->data.u64 >> 32)) {
    case ON_CONNECTION:
        if (s->fd >= 0)
            on_request(s);
        break;
    case ON_STATUS:
        on_status(s);
        break;
    case ON_DIAL:
        on_dialed(s);
        break;
    case ON_LISTEN:
        on_connect();
        break;
    case ON_SIGNAL:
        on_signals();
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
        in.files = files.rlim_cur;
        files.rlim_cur = files.rlim_max;
        setrlimit(RLIMIT_NOFILE, &files);
    }
    in.plan = plan;
    in.procfs = procfs;
    if (pread(SB_FD_OOM_SCORE, in.own_score, sizeof in.own_score - 1, 0) < 0)
        *in.own_score = 0;
    prctl(PR_SET_NAME, "sandbox-init");
    /* all others are left at their default and not blocked: then the kernel drops what the inside sends to its init */
    sigemptyset(&children);
    sigaddset(&children, SIGCHLD);
    sigprocmask(SIG_SETMASK, &children, NULL);
    ag_cut_bounding_set(plan->daemon_capabilities);
    in.epoll = epoll_create1(EPOLL_CLOEXEC);
    in.signals = signalfd(-1, &children, SFD_CLOEXEC | SFD_NONBLOCK);
    if (in.epoll < 0 || in.signals < 0)
        _exit(1);
    fcntl(SB_FD_LISTEN, F_SETFL, O_NONBLOCK);
    watch(SB_FD_LISTEN, ON_LISTEN, 0, EPOLLIN);
    watch(in.signals, ON_SIGNAL, 0, EPOLLIN);
    if (plan->flags & SB_PLAN_OWNED)
        watch(SB_FD_OWNER, ON_OWNER, 0, EPOLLIN);
    for (;;) {
        int wait = run_timers();
        int n = epoll_wait(in.epoll, events, SB_ELEMENTS(events), in.more_to_reap ? 0 : wait);

        for (int i = 0; i < n; i++)
            on_event(&events[i]);
        if (in.more_to_reap)
            on_signals();
    }
}
