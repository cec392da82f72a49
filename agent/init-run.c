/* SPDX-License-Identifier: Apache-2.0
 * The daemon and the commands, from a request to the end that is told. init never waits for one of them: whether it was executed is
 * learned from a close-on-exec socket, with a deadline, and its end from SIGCHLD. */
#include "init-loop.h"
#include "message.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <util.h>

enum { START_MS = 5000, KILL_STEP_MS = 2 };

/* Kinds of ends, as in sandbox.h, which init does not include. */
enum { EXITED = 1, SIGNALLED = 2, DEADLINE = 3, KILLED = 4, OOM = 5 };

/* An exec is over: its slot stays for the connection, if that still stands. */
void ag_settle(struct ag_slot *s)
{
    ag_attach_drop(s);
    s->status_fd = ag_forget(s->status_fd);
    s->pin = sb_close(s->pin);
    s->terminal = sb_close(s->terminal);
    ag_leaf_drop(s);
    s->kind = s->fd >= 0 ? IDLE : FREE;
    s->pid = 0;
    s->until = 0;
    s->journal = 0;
    if (s->daemon && ag_loop.stopping) /* also one that was never executed */
        _exit(0);
}

static void finish(struct ag_slot *s)
{
    if (s->daemon) {
        ag_loop.daemon_state = SB_DAEMON_EXITED;
        ag_loop.daemon_code = s->end.code;
        ag_loop.daemon_signal = s->end.signal;
    }
    s->end.type = SB_REPLY_EXITED;
    ag_event_ended(s); /* first: who hears of the end may look for it at once */
    ag_attach_ended(s);
    ag_tell(s->daemon ? SB_WATCH_DAEMON_EXITED : SB_WATCH_EXEC_EXITED, s);
    ag_reply(s, &s->end, -1);
    s->fd = ag_forget(s->fd);
    ag_settle(s);
}

/* After the deadline: nothing of the exec may live when its end is told. */
void ag_kill_on(struct ag_slot *s)
{
    int64_t now = sb_now_ms();
    int left = s->leaf >= 0 ? ag_leaf_kill(s->leaf) : -1;

    if (s->pid > 0)
        kill(s->pid, SIGKILL);
    if (left != 0) { /* cgroup.kill passes over a process whose main thread has ended; kill(2) doesn't */
        int tagged = ag_kill_tagged(ag_loop.procfs, s->tag, SIGKILL);

        left = left < 0 ? tagged : left;
    }
    if ((left == 0 && s->pid == 0) || now >= s->kill_until) {
        finish(s);
        return;
    }
    s->until = now + KILL_STEP_MS;
}

struct sb_reply ag_started(const struct ag_slot *s)
{
    const struct ag_exec_status *seen = &s->status;

    return (struct sb_reply){
        .type = SB_REPLY_STARTED,
        .attested = seen->tag != 0,
        .cap_effective = seen->cap_effective,
        .cap_permitted = seen->cap_permitted,
        .cap_inheritable = seen->cap_inheritable,
        .cap_bounding = seen->cap_bounding,
        .cap_ambient = seen->cap_ambient,
        .uid = seen->uid,
        .gid = seen->gid,
        .n_groups = seen->n_groups,
        .no_new_privs = seen->no_new_privs,
        .seccomp = seen->seccomp,
        .user_namespace = seen->user_namespace,
    };
}

/* The status pipe has a record or its end. */
void ag_on_status(struct ag_slot *s)
{
    struct ag_exec_status record;
    struct sb_reply r;
    size_t n_fds;
    int fds[4];
    ssize_t n;

    if (s->kind != STARTING)
        return;
    while ((n = ag_receive(s->status_fd, &record, sizeof record, fds, &n_fds)) == (ssize_t)sizeof record) {
        s->status = record;
        for (size_t i = 0; i < n_fds; i++) {
            int *place = record.terminal && i == n_fds - 1 ? &s->terminal : &s->pin;

            sb_close(*place);
            *place = fds[i];
        }
    }
    if (n == -EAGAIN)
        return;
    s->status_fd = ag_forget(s->status_fd);
    if (s->status.step || !s->status.tag) { /* the child says why it failed, or was killed before it could */
        ag_fail(s, s->status.step ? s->status.step : SB_STEP_FORK, s->status.step ? s->status.sys_errno : EINTR);
        if (s->daemon)
            ag_loop.daemon_state = SB_DAEMON_NONE;
        ag_event_failed(s, s->status.step ? s->status.sys_errno : EINTR);
        ag_settle(s);
        return;
    }
    s->tag = s->status.tag;
    r = ag_started(s);
    s->kind = RUNNING;
    s->until = s->deadline_ms ? ag_after(s->deadline_ms) : 0;
    if (s->daemon) {
        ag_loop.daemon_state = SB_DAEMON_RUNNING;
        ag_loop.started = 1;
    }
    ag_tell(s->daemon ? SB_WATCH_STARTED : SB_WATCH_EXEC_STARTED, s); /* first: who has the answer may end us */
    ag_reply(s, &r, s->terminal);
    s->terminal = sb_close(s->terminal); /* its hang-up is the caller's to cause */
}

void ag_on_exit_of(struct ag_slot *s, int status, const struct rusage *usage)
{
    s->pid = 0;
    if (s->kind == STARTING)
        ag_on_status(s); /* its last word, or that it was executed */
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
        if (s->end.kind == SIGNALLED && s->end.signal == SIGKILL && ag_oom_kills() > s->oom_kills)
            s->end.kind = OOM; /* counted before the signal is sent */
    }
    if (s->timed_out) {
        s->end.kind = DEADLINE;
        s->end.code = -1;
        s->end.signal = SIGKILL;
        ag_kill_on(s);
        return;
    }
    if (s->quiet) { /* what it left behind ends with it */
        s->kind = KILLING;
        s->kill_until = sb_now_ms() + AG_KILL_MS;
        ag_kill_on(s);
        return;
    }
    finish(s);
}

void ag_set_oom_score(const char *score)
{
    int saved = errno;

    if (*ag_loop.own_score && pwrite(SB_FD_OOM_SCORE, score, strlen(score), 0) < 0)
        *ag_loop.own_score = 0; /* the machine set it higher for good */
    errno = saved;
}

/* Where the new child goes: with a deadline into a cgroup of its own. -1: no cgroups. */
static int choose_cgroup(struct ag_slot *s, int daemon)
{
    if (!(ag_loop.plan->flags & SB_PLAN_CGROUP))
        return -1;
    if (s->leaf < 0 && !daemon && s->deadline_ms)
        s->leaf = ag_leaf_make(++ag_loop.execs, s->leaf_name);
    return s->leaf >= 0 ? s->leaf : daemon ? SB_FD_CGROUP_DAEMON : SB_FD_CGROUP_EXEC;
}

uint32_t ag_count_execs(void)
{
    uint32_t n = 0;

    for (size_t i = 0; i < ag_loop.top; i++)
        n += (uint32_t)ag_is_exec(&ag_loop.slots[i]);
    return n;
}

/* The pipes of a command whose output keeper takes. 0 or -errno. */
static int begin_journal(const struct ag_slot *s, int *ret_out, int *ret_err)
{
    int ends[2][2], n = 0, r;

    for (size_t i = 0; i < ag_loop.top; i++)
        n += ag_loop.slots[i].journal;
    if (n >= SB_JOURNALS_MAX)
        return -EAGAIN;
    if (pipe2(ends[0], O_CLOEXEC) < 0)
        return -errno;
    if (pipe2(ends[1], O_CLOEXEC) < 0) {
        r = -errno;
        sb_close(ends[0][0]);
        sb_close(ends[0][1]);
        return r;
    }
    for (int i = 0; i < 2; i++) /* /dev/stdout is opened anew by the command, whose id is not ours */
        fchmod(ends[i][0], 0666);
    r = ag_event_journal(s, (const int[]){ ends[0][0], ends[1][0] });
    for (int i = 0; i < 2; i++) {
        sb_close(ends[i][0]);
        if (r)
            sb_close(ends[i][1]);
    }
    if (!r) {
        *ret_out = ends[0][1];
        *ret_err = ends[1][1];
    }
    return r;
}

/* 0, or why it can't be started: said to who asked. */
static int refuse(struct ag_slot *s, const struct sb_request *q, int is_whole, int daemon)
{
    if (!is_whole || q->argc < 1 || (q->flags & SB_REQUEST_TERMINAL && q->journal_max))
        ag_fail(s, SB_STEP_REQUEST, EINVAL);
    else if (!daemon && ag_count_execs() >= SB_EXECS_MAX) /* said here: who is turned away at the door takes the sandbox for dead */
        ag_fail(s, SB_STEP_BUSY, EAGAIN);
    else if (daemon && (ag_loop.daemon_state == SB_DAEMON_STARTING || ag_loop.daemon_state == SB_DAEMON_RUNNING))
        ag_fail(s, SB_STEP_STATE, EALREADY);
    else
        return 0;
    return 1;
}

/* The child, where it belongs: its pid, or -errno. */
static long clone_child(struct ag_slot *s, const struct ag_exec *x)
{
    struct clone_args args = { .exit_signal = SIGCHLD };
    int cgroup = choose_cgroup(s, x->daemon);
    long pid;

    if (cgroup >= 0) {
        args.flags |= CLONE_INTO_CGROUP;
        args.cgroup = (uint64_t)cgroup;
    }
    /* A child inherits the score: when memory is short, init must not be the one that the kernel takes. Not set by the child: it would have
     * to be dumpable for that, and so open to a daemon that may trace, while it has all rights and no filter. */
    ag_set_oom_score("500");
    ag_loop.daemon_starts += (uint32_t)x->daemon;
    s->oom_kills = ag_oom_kills();
    ag_event_started(s); /* before its first byte can be written */
    pid = syscall(SYS_clone3, &args, sizeof args);
    if (pid == 0)
        ag_exec_child(x);
    if (pid < 0)
        pid = -errno;
    ag_set_oom_score(ag_loop.own_score);
    return pid;
}

static void begin_slot(struct ag_slot *s, pid_t pid, int status_fd, int journal)
{
    s->kind = STARTING;
    s->pid = pid;
    s->journal = journal;
    s->status_fd = status_fd;
    s->sent_signal = s->timed_out = 0;
    s->tag = 0;
    memset(&s->status, 0, sizeof s->status);
    s->until = sb_now_ms() + START_MS;
    if (s->daemon)
        ag_loop.daemon_state = SB_DAEMON_STARTING;
    ag_watch(s->status_fd, ON_STATUS, (size_t)(s - ag_loop.slots), EPOLLIN);
}

void ag_start(struct ag_slot *s, const struct sb_request *q, int *fds, size_t n_fds, int daemon)
{
    int terminal = !daemon && (q->flags & SB_REQUEST_TERMINAL);
    size_t stdio = daemon || terminal ? 0 : q->journal_max ? 1 : 3, want = stdio + (q->flags & SB_REQUEST_BLOB_FD ? 1 : 0);
    struct ag_exec x = {
        .plan = ag_loop.plan, .request = q, .blob_fd = -1, .procfs = ag_loop.procfs, .daemon = daemon, .files = ag_loop.files,
        .files_max = q->files_max, .terminal = terminal
    };
    SB_CLOSE int out = -1, err = -1;
    int pipes[2], r;
    long pid;

    if (refuse(s, q, n_fds == want, daemon))
        return;
    x.blob = q->flags & SB_REQUEST_BLOB_FD ? NULL : ag_loop.buffer + sizeof *q;
    x.blob_fd = q->flags & SB_REQUEST_BLOB_FD ? fds[stdio] : -1;
    s->daemon = daemon;
    s->journal_max = daemon ? 0 : q->journal_max;
    memcpy(s->exec_id, q->exec_id, sizeof s->exec_id);
    if (s->journal_max && (r = begin_journal(s, &out, &err))) {
        ag_fail(s, SB_STEP_JOURNAL, -r);
        return;
    }
    x.fds[0] = terminal ? ag_loop.terminals : daemon ? SB_FD_NULL : fds[0];
    x.fds[1] = terminal ? SB_FD_NULL : daemon ? SB_FD_DAEMON_OUT : s->journal_max ? out : fds[1];
    x.fds[2] = terminal ? SB_FD_NULL : daemon ? SB_FD_DAEMON_ERR : s->journal_max ? err : fds[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pipes) < 0) {
        r = errno;
        ag_fail(s, SB_STEP_FORK, r);
        if (s->journal_max) /* keeper has begun it */
            ag_event_failed(s, r);
        return;
    }
    x.status_fd = pipes[1];
    s->deadline_ms = daemon ? 0 : q->timeout_ms;
    x.pin = s->deadline_ms != 0;
    pid = clone_child(s, &x);
    sb_close(pipes[1]);
    if (pid < 0) {
        ag_fail(s, SB_STEP_FORK, (int)-pid);
        ag_event_failed(s, (int)-pid);
        sb_close(pipes[0]);
        ag_leaf_drop(s);
        return;
    }
    begin_slot(s, (pid_t)pid, pipes[0], out >= 0);
}

struct ag_slot *ag_daemon_slot(void)
{
    for (size_t i = 0; i < ag_loop.top; i++)
        if (ag_loop.slots[i].daemon && ag_loop.slots[i].pid > 0 &&
            (ag_loop.slots[i].kind == RUNNING || ag_loop.slots[i].kind == STARTING))
            return &ag_loop.slots[i];
    return NULL;
}

void ag_send_signal(struct ag_slot *s, const struct sb_request *q)
{
    static const struct sb_reply done = { .type = SB_REPLY_DONE };
    /* of an exec the end is the only answer: its descriptor polls for nothing else */
    int of_exec = s->kind == RUNNING || s->kind == KILLING || s->kind == ATTACHED;
    struct ag_slot *target = s->kind == ATTACHED ? s->target : of_exec ? s : ag_daemon_slot();

    if (q->signal < 1 || q->signal > 64) {
        if (!of_exec)
            ag_fail(s, SB_STEP_REQUEST, EINVAL);
        return;
    }
    if (!target || target->pid <= 0) {
        if (!of_exec)
            ag_fail(s, SB_STEP_STATE, ESRCH);
        return;
    }
    target->sent_signal = q->signal;
    kill(target->pid, q->signal);
    if (q->flags & SB_REQUEST_DESCENDANTS)
        for (int pass = 0; ag_kill_tagged(ag_loop.procfs, target->tag, q->signal) > 1 && q->signal == SIGKILL && pass < 64;
             pass++)
            ;
    if (!of_exec)
        ag_reply(s, &done, -1);
}
