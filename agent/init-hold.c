/* SPDX-License-Identifier: Apache-2.0
 * Terminals that nobody is attached to. Their outer end is kept open here, so that they don't hang up, and somebody must read what they
 * show, or their command would wait for it. A read can block, whatever poll said: a former owner may have kept a descriptor, and read
 * first. So init itself never reads: it forks a holder, which reads into a ring of memory that both share.
 *
 * Who attaches gets the outer end itself, after the holder has ended: of two readers each would get a part. The holder is confined to
 * that: no capability, no other descriptor, four system calls. It is init's own kind: nobody inside can trace it or look into it. */
#include "filter.h"
#include "init-loop.h"
#include "message.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/sched.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <util.h>

enum { KEPT = 65536, LATE_MS = 500, GONE_MS = 3600000, TERMINAL = 3, BROKEN = 1, CALLED = 3, ENDED = 4 };

struct ring {
    uint64_t written; /* ever */
    char data[KEPT];
};

static struct held {
    struct ring *ring; /* NULL: free */
    int ended;         /* nothing more will come */
    uint64_t order;
    uint8_t exec_id[32];
    struct ag_slot *holder, *waiter;
} helds[SB_TERMINALS_MAX];
static uint64_t n_ever;

static void on_term(int signal)
{
    (void)signal;
    _exit(CALLED); /* it comes between reads only */
}

static int confine(int fd)
{
    static const int allowed[] = { SYS_read, SYS_ppoll, SYS_exit_group, SYS_rt_sigreturn };
    struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
    struct __user_cap_data_struct none[2] = { { 0 } };
    struct sigaction action = { .sa_handler = on_term };
    sigset_t all;

    setsid();
    prctl(PR_SET_NAME, "sandbox-hold");
    if ((fd != TERMINAL && dup3(fd, TERMINAL, O_CLOEXEC) < 0) || close_range(0, TERMINAL - 1, 0) < 0 || close_range(TERMINAL + 1, ~0u, 0) < 0)
        return -errno;
    sigfillset(&all);
    if (sigaction(SIGTERM, &action, NULL) < 0 || sigprocmask(SIG_SETMASK, &all, NULL) < 0)
        return -errno;
    if (syscall(SYS_capset, &header, none) < 0 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        return -errno;
    return ag_filter_calls(allowed, SB_ELEMENTS(allowed));
}

static void __attribute__((noreturn)) hold(struct ring *ring, int fd)
{
    sigset_t open_to;

    if (confine(fd))
        _exit(BROKEN);
    sigfillset(&open_to);
    sigdelset(&open_to, SIGTERM);
    for (;;) {
        struct pollfd p = { .fd = TERMINAL, .events = POLLIN };
        size_t at = ring->written % KEPT;
        ssize_t n;

        if (syscall(SYS_ppoll, &p, 1, NULL, &open_to, _NSIG / 8) < 1)
            continue;
        n = read(TERMINAL, ring->data + at, KEPT - at);
        if (n == 0 || (n < 0 && errno != EINTR && errno != EAGAIN))
            _exit(ENDED);
        if (n > 0)
            __atomic_store_n(&ring->written, ring->written + (uint64_t)n, __ATOMIC_RELEASE);
    }
}

static void let_go(struct held *h)
{
    if (h->ring)
        munmap(h->ring, sizeof *h->ring);
    *h = (struct held){ 0 };
}

static struct held *find(const uint8_t exec_id[32])
{
    for (struct held *h = helds; h < helds + SB_TERMINALS_MAX; h++)
        if (h->ring && !memcmp(h->exec_id, exec_id, sizeof h->exec_id))
            return h;
    return NULL;
}

/* A free place, or that of the oldest whose command has ended. */
static struct held *find_room(void)
{
    struct held *oldest = NULL;

    for (struct held *h = helds; h < helds + SB_TERMINALS_MAX; h++) {
        if (!h->ring)
            return h;
        if (h->ended && (!oldest || h->order < oldest->order))
            oldest = h;
    }
    if (oldest)
        let_go(oldest);
    return oldest;
}

/* Forks a holder for what its slot holds. 0 or -errno. */
static int fork_holder(const struct held *h)
{
    struct clone_args args = { .exit_signal = SIGCHLD };
    long pid;
    int r;

    if (ag_loop.plan->flags & SB_PLAN_CGROUP) {
        args.flags |= CLONE_INTO_CGROUP;
        args.cgroup = SB_FD_CGROUP_EXEC;
    }
    ag_set_oom_score("500");
    pid = syscall(SYS_clone3, &args, sizeof args);
    if (pid == 0)
        hold(h->ring, h->holder->terminal);
    r = pid < 0 ? -errno : 0;
    ag_set_oom_score(ag_loop.own_score);
    h->holder->pid = pid > 0 ? (pid_t)pid : 0;
    h->holder->until = 0;
    return r;
}

static void free_holder(struct held *h)
{
    struct ag_slot *s = h->holder;

    h->holder = NULL;
    s->terminal = sb_close(s->terminal);
    s->pid = 0;
    s->until = 0;
    s->kind = FREE;
}

/* 0 or -errno; then nothing is held. */
static int begin(const uint8_t exec_id[32], int fd)
{
    struct held *h = find_room();
    int r;

    if (!h)
        return -EAGAIN;
    h->ring = mmap(NULL, sizeof *h->ring, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (h->ring == MAP_FAILED) {
        h->ring = NULL;
        return -ENOMEM;
    }
    memcpy(h->exec_id, exec_id, sizeof h->exec_id);
    h->order = ++n_ever;
    h->holder = ag_take_slot(-1);
    r = h->holder ? 0 : -EAGAIN;
    if (!r) {
        h->holder->kind = HOLDING;
        h->holder->terminal = fcntl(fd, F_DUPFD_CLOEXEC, 3);
        r = h->holder->terminal < 0 ? -errno : fork_holder(h);
    }
    if (r) {
        if (h->holder)
            free_holder(h);
        let_go(h);
    }
    return r;
}

void ag_hold(struct ag_slot *s, const struct sb_request *q, const int *fds, size_t n_fds)
{
    struct ag_slot *target = ag_find_running(q->exec_id);
    int number, r;

    if (n_fds != 1 || (q->flags & SB_REQUEST_BLOB_FD) || ioctl(fds[0], TIOCGPTN, &number) < 0)
        r = -EINVAL;
    else if (!target || target->daemon)
        r = -ESRCH;
    else if (find(q->exec_id))
        r = -EBUSY;
    else
        r = begin(q->exec_id, fds[0]);
    if (r)
        ag_fail(s, SB_STEP_TERMINAL, -r);
    else
        ag_reply(s, &(struct sb_reply){ .type = SB_REPLY_DONE }, -1);
}

/* To who waits, or to `s` at once. 0: it has it. */
static int hand_out(struct held *h, struct ag_slot *s)
{
    uint64_t written = h->ring->written;
    size_t size = written < KEPT ? (size_t)written : KEPT, at = (size_t)((written - size) % KEPT), first = size < KEPT - at ? size : KEPT - at;
    struct sb_reply r = { .type = SB_REPLY_DONE, .code = h->ended, .journal = (uint32_t)size };

    ag_reply(s, &r, h->ended ? -1 : h->holder->terminal);
    if (s->fd < 0)
        return -1;
    if (first)
        ag_send(s->fd, h->ring->data + at, first, -1, MSG_DONTWAIT);
    if (size > first)
        ag_send(s->fd, h->ring->data, size - first, -1, MSG_DONTWAIT);
    return 0;
}

void ag_hold_back(struct ag_slot *s, const struct sb_request *q)
{
    struct held *h = find(q->exec_id);

    if (!h) {
        ag_fail(s, SB_STEP_TERMINAL, ag_find_running(q->exec_id) ? EBUSY : ENOENT);
    } else if (h->waiter) {
        ag_fail(s, SB_STEP_TERMINAL, EBUSY);
    } else if (h->ended) {
        if (hand_out(h, s) == 0)
            let_go(h);
    } else {
        h->waiter = s;
        s->kind = TAKING;
        kill(h->holder->pid, SIGTERM);
        h->holder->until = ag_after(LATE_MS);
    }
}

void ag_hold_drop(const struct ag_slot *s)
{
    for (struct held *h = helds; h < helds + SB_TERMINALS_MAX; h++)
        if (h->ring && h->waiter == s)
            h->waiter = NULL;
}

void ag_hold_kill(struct ag_slot *s)
{
    kill(s->pid, SIGKILL);
    s->until = ag_after(GONE_MS); /* not 0: it was called */
}

void ag_hold_ended(struct ag_slot *s, int status)
{
    struct held *h = helds;
    int asked, done;

    while (h < helds + SB_TERMINALS_MAX && h->holder != s)
        h++;
    if (h == helds + SB_TERMINALS_MAX)
        return;
    s->pid = 0;
    asked = s->until != 0;
    h->ended = WIFEXITED(status) && WEXITSTATUS(status) == ENDED;
    if (h->waiter) {
        struct ag_slot *w = h->waiter;

        h->waiter = NULL;
        w->kind = IDLE;
        done = hand_out(h, w) == 0;
        if (!done && w->fd < 0)
            w->kind = FREE;
        if (done) {
            free_holder(h);
            let_go(h);
            return;
        }
    }
    if (h->ended) {
        free_holder(h);
    } else if (!asked || fork_holder(h)) { /* somebody inside killed it: as if its owner had died, the terminal hangs up */
        free_holder(h);
        let_go(h);
    }
}
