/* SPDX-License-Identifier: Apache-2.0
 * The sandbox's life, as its keeper sees to it: time to live, idle limit, restarts of the daemon, health checks. What is to be done stands in
 * the file "life" (life-plan.h), which the library writes; keeper asks init over the socket that init tells it of exits by, and never
 * waits for an answer: each has its deadline, after which keeper goes on without it. What init says is from inside the sandbox: it can
 * claim to be busy, healthy or paused, and so hold up the idle limit. The time to live depends on nothing that it says.
 *
 * Clocks. The time to live is on CLOCK_BOOTTIME: it bounds for how long something may be there, for a credential or a bill, and a machine
 * that sleeps doesn't stop those. All else is on CLOCK_MONOTONIC: while the machine sleeps nobody can use a sandbox, no daemon runs and
 * no check fails. Nothing is on the wall clock.
 *
 * The end comes by init (SIGTERM to the daemon, then init's own end, which takes everything with it) and, when that did not happen in time, by
 * SIGKILL to init through the pidfd that stage sent before anything of the image had run. */
#include "keeper-loop.h"

#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include <fs.h>
#include <util.h>

#include "message.h"

enum {
    MARGIN_MS = 1000,      /* for init to do what was asked beside the grace */
    CHECK_MARGIN_MS = 6000, /* for init to kill a check that took too long, and say so */
    ANSWER_MS = 5000,
    BACKOFF_MS = 100,      /* before the first restart; doubled each time, */
    BACKOFF_MAX_MS = 60000,
    WELL_MS = 10000        /* and back to the first after a run of that length. As Docker has it */
};
enum { KILLED = 4 }; /* enum sandbox_exec_kind: by the library's own call */
enum { HEALTH_NONE, HEALTH_STARTING, HEALTH_HEALTHY, HEALTH_UNHEALTHY };

static int64_t boot_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_BOOTTIME, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* 0, or -errno: then what depends on an answer goes on when its deadline has passed. */
static int ask(const struct ag_keeper *k, const struct sb_request *request)
{
    int fd = k->in[IN_EVENTS].fd;

    return fd < 0 ? -EPIPE : ag_send(fd, request, sizeof *request + request->blob_size, -1, MSG_DONTWAIT);
}

static void note(const struct ag_keeper *k, enum sb_watch_what what, int code)
{
    struct sb_request request = { .type = SB_REQUEST_NOTE, .signal = (int32_t)what, .port = code };

    (void)ask(k, &request);
}

/* ---- what it was told ---- */

static void arm_ttl(struct ag_keeper *k)
{
    int64_t until = k->life.plan.ttl_until_ms;
    struct itimerspec when = { .it_value = { .tv_sec = until / 1000, .tv_nsec = until % 1000 * 1000000 } };

    if (until <= 0)
        when = (struct itimerspec){ 0 };
    if (k->in[IN_TTL].fd >= 0)
        timerfd_settime(k->in[IN_TTL].fd, TFD_TIMER_ABSTIME, &when, NULL);
}

static int read_plan(struct ag_keeper *k)
{
    SB_CLOSE int fd = openat(k->folder, "life", O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    struct sb_life plan;

    if (fd < 0 || SB_RETRY(pread(fd, &plan, sizeof plan, 0)) != (ssize_t)sizeof plan || plan.magic != SB_LIFE_MAGIC ||
        plan.size != sizeof plan || plan.blob_size > sizeof k->life.blob ||
        SB_RETRY(pread(fd, k->life.blob, plan.blob_size, sizeof plan)) != (ssize_t)plan.blob_size)
        return -1;
    k->life.plan = plan;
    return 0;
}

void ag_lifetime_start(struct ag_keeper *k)
{
    k->life.init = -1;
    k->in[IN_TTL] = (struct pollfd){ .fd = -1, .events = POLLIN };
    unlinkat(k->folder, "state", 0); /* of an earlier run */
    if (read_plan(k))
        return;
    k->in[IN_TTL].fd = timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK);
    k->life.given = 1;
    arm_ttl(k);
}

void ag_lifetime_again(struct ag_keeper *k)
{
    if (k->life.end || read_plan(k)) /* once it has begun to end it ends */
        return;
    if (k->in[IN_TTL].fd < 0)
        k->in[IN_TTL].fd = timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK);
    k->life.given = 1;
    arm_ttl(k);
}

/* ---- what others may read ---- */

static void write_state(struct ag_keeper *k)
{
    static const char *const healths[] = { "", "starting", "healthy", "unhealthy" };
    const struct ag_life *l = &k->life;
    char line[256];
    int n = snprintf(line, sizeof line,
                     "{\"schema\":1,\"health\":\"%s\",\"health_failures\":%u,\"restarts\":%u,\"restart_at_ms\":%lld,"
                     "\"restarting\":%d,\"end\":\"%s\"}\n",
                     healths[l->health], l->failures, l->restarts, (long long)l->restart_at, l->restart_at || l->attempt_until,
                     l->end == SB_WATCH_TTL    ? "ttl"
                     : l->end == SB_WATCH_IDLE ? "idle"
                                               : "");

    k->life.unwritten = sb_write_file(k->folder, "state", line, (size_t)n, 0) != 0;
    if (k->life.unwritten)
        k->life.write_at = sb_now_ms() + MARGIN_MS; /* a full disk */
}

/* ---- the end ---- */

static void end(struct ag_keeper *k, enum sb_watch_what why)
{
    struct ag_life *l = &k->life;
    struct sb_request request = { .type = SB_REQUEST_SHUTDOWN, .timeout_ms = l->plan.grace_ms };

    if (l->end)
        return;
    l->end = why;
    l->unwritten = 1;
    l->restart_at = l->attempt_until = l->check_at = l->check_until = l->idle_at = 0;
    write_state(k); /* first: who hears of it looks there */
    note(k, why, -1);
    (void)ask(k, &request);
    l->kill_at = sb_now_ms() + l->plan.grace_ms + MARGIN_MS;
}

static void kill_init(struct ag_keeper *k)
{
    if (k->life.init >= 0)
        syscall(SYS_pidfd_send_signal, k->life.init, SIGKILL, NULL, 0);
    else
        k->in[IN_EVENTS].fd = sb_close(k->in[IN_EVENTS].fd); /* init ends when its keeper hangs up */
    k->life.kill_at = sb_now_ms() + MARGIN_MS;
}

/* ---- restarts ---- */

static void schedule_restart(struct ag_keeper *k)
{
    struct ag_life *l = &k->life;

    l->backoff_ms = !l->backoff_ms ? BACKOFF_MS : l->backoff_ms >= BACKOFF_MAX_MS / 2 ? BACKOFF_MAX_MS : 2 * l->backoff_ms;
    l->restart_at = sb_now_ms() + l->backoff_ms;
    l->attempt_until = 0;
    write_state(k); /* before the end stands in the log: who follows that looks here whether it goes on */
}

static int is_wanted(const struct ag_life *l, uint32_t kind, int failed)
{
    if (l->end || kind == KILLED || (!kind && !l->restarts)) /* a first start that fails is told to who asked for it */
        return 0;
    switch (l->plan.restart) {
    case SB_LIFE_RESTART_ON_FAILURE:
        return failed && (!l->plan.restart_max || l->restarts < l->plan.restart_max);
    case SB_LIFE_RESTART_ALWAYS:
    case SB_LIFE_RESTART_UNLESS_STOPPED:
        return 1;
    default:
        return 0;
    }
}

/* init could not even begin with it: one of as many as there may be, all the same. */
static void not_begun(struct ag_keeper *k)
{
    k->life.attempt_until = 0;
    if (is_wanted(&k->life, 0, 1))
        schedule_restart(k);
    else
        write_state(k);
}

static void restart(struct ag_keeper *k)
{
    struct sb_request request = { .type = SB_REQUEST_RESTART };
    struct ag_life *l = &k->life;

    l->restart_at = 0;
    l->restarts++;
    l->unwritten = 1;
    l->attempt_until = sb_now_ms() + ANSWER_MS;
    (void)ask(k, &request);
}

/* ---- health ---- */

static void set_health(struct ag_keeper *k, int health)
{
    if (k->life.health == health)
        return;
    k->life.health = health;
    k->life.unwritten = 1;
    write_state(k); /* first: who hears of it looks there */
    if (health != HEALTH_NONE)
        note(k, SB_WATCH_HEALTH, health);
}

static int in_start_period(const struct ag_life *l)
{
    return !l->passed && sb_now_ms() < l->begun_at + l->plan.start_period_ms;
}

static void plan_check(struct ag_life *l)
{
    if (l->plan.argc)
        l->check_at = sb_now_ms() + (in_start_period(l) ? l->plan.start_interval_ms : l->plan.interval_ms);
    l->check_until = 0;
    l->check_number++; /* what is still said of an earlier one is not heard */
}

static void check(struct ag_keeper *k)
{
    struct ag_life *l = &k->life;
    struct {
        struct sb_request request;
        char blob[SB_REQUEST_INLINE];
    } *message = (void *)k->buffer;

    _Static_assert(sizeof *message <= sizeof k->buffer, "a request is no larger than what is read at once");
    l->check_at = 0;
    l->check_until = sb_now_ms() + l->plan.timeout_ms + CHECK_MARGIN_MS;
    message->request = (struct sb_request){ .type = SB_REQUEST_EXEC, .argc = l->plan.argc, .envc = l->plan.envc,
                                            .blob_size = l->plan.blob_size, .timeout_ms = l->plan.timeout_ms };
    memcpy(message->request.exec_id, &l->check_number, sizeof l->check_number);
    message->request.exec_id[sizeof message->request.exec_id - 1] = 1; /* all zero would be the daemon */
    memcpy(message->blob, l->blob, l->plan.blob_size);
    (void)ask(k, &message->request);
}

static void checked(struct ag_keeper *k, int passed)
{
    struct ag_life *l = &k->life;

    if (passed) {
        l->passed = 1;
        l->unwritten |= l->failures != 0;
        l->failures = 0;
        set_health(k, HEALTH_HEALTHY);
    } else if (!in_start_period(l)) {
        l->failures += l->failures < UINT32_MAX;
        l->unwritten = 1;
        if (l->failures >= l->plan.retries)
            set_health(k, HEALTH_UNHEALTHY);
    }
    plan_check(l);
}

/* ---- what init says ---- */

static void begin(struct ag_keeper *k)
{
    struct ag_life *l = &k->life;

    l->begun_at = sb_now_ms();
    l->passed = 0;
    l->failures = 0;
    if (l->plan.argc) {
        set_health(k, HEALTH_STARTING);
        plan_check(l);
    }
    if (l->plan.idle_ms && !l->idle_at)
        l->idle_at = l->begun_at + l->plan.idle_ms;
}

static void daemon_started(struct ag_keeper *k)
{
    struct ag_life *l = &k->life;
    int ours = l->attempt_until != 0;

    l->restart_at = l->attempt_until = 0;
    l->unwritten |= ours;
    if (!ours && (l->restarts || l->backoff_ms)) { /* by somebody's call: it begins anew */
        l->restarts = 0;
        l->backoff_ms = 0;
        l->unwritten = 1;
    }
    if (ours)
        note(k, SB_WATCH_RESTARTED, l->restarts < INT32_MAX ? (int)l->restarts : INT32_MAX);
    begin(k);
}

static void daemon_ended(struct ag_keeper *k, const struct sb_ring_event *event)
{
    struct ag_life *l = &k->life;
    uint32_t kind = le32toh(event->kind);
    int failed = kind != 1 || event->code != 0;

    if (kind && sb_now_ms() - l->begun_at >= WELL_MS)
        l->backoff_ms = 0;
    l->check_at = l->check_until = 0;
    l->check_number++;
    set_health(k, HEALTH_NONE);
    if (is_wanted(l, kind, failed))
        schedule_restart(k);
    else if (l->plan.restart)
        write_state(k);
}

static void set_paused(struct ag_keeper *k, int paused)
{
    struct ag_life *l = &k->life;

    l->paused = paused;
    l->check_number++;
    l->check_at = l->check_until = l->idle_at = 0;
    if (paused)
        return;
    if (l->health != HEALTH_NONE)
        plan_check(l);
    if (l->plan.idle_ms)
        l->idle_at = sb_now_ms() + 1;
}

static void heard_activity(struct ag_keeper *k, uint64_t idle_ms)
{
    struct ag_life *l = &k->life;
    int64_t limit = l->plan.idle_ms, now = sb_now_ms();

    if (!limit || !l->idle_at || l->paused)
        return;
    if (idle_ms > (uint64_t)limit)
        end(k, SB_WATCH_IDLE);
    else if (idle_ms)
        l->idle_at = now + limit - (int64_t)idle_ms + 1;
    else /* that it stops being busy is not told */
        l->idle_at = now + (limit / 8 < 20 ? 20 : limit / 8 > 10000 ? 10000 : limit / 8);
}

static void heard_of_check(struct ag_keeper *k, const struct sb_ring_event *event)
{
    struct ag_life *l = &k->life;

    if (l->check_until && !memcmp(event->exec_id, &l->check_number, sizeof l->check_number))
        checked(k, le32toh(event->kind) == 1 && event->code == 0);
}

void ag_lifetime_event(struct ag_keeper *k, const struct sb_ring_event *event, int *fds, size_t n_fds)
{
    static const uint8_t daemon[sizeof event->exec_id];
    struct ag_life *l = &k->life;
    uint32_t type = le32toh(event->type);

    if (type == SB_EVENT_INIT && n_fds == 1 && l->init < 0)
        l->init = SB_TAKE_FD(fds[0]);
    if (!l->given || l->end)
        return;
    switch (type) {
    case SB_EVENT_STARTED:
        if (!memcmp(event->exec_id, daemon, sizeof daemon))
            daemon_started(k);
        break;
    case SB_EVENT_ENDED:
        if (!memcmp(event->exec_id, daemon, sizeof daemon))
            daemon_ended(k, event);
        break;
    case SB_EVENT_BEGUN:
        begin(k);
        break;
    case SB_EVENT_PAUSED:
    case SB_EVENT_RESUMED:
        set_paused(k, type == SB_EVENT_PAUSED);
        break;
    case SB_EVENT_ACTIVITY:
        heard_activity(k, le64toh(event->max_bytes));
        break;
    case SB_EVENT_HEALTH:
        heard_of_check(k, event);
        break;
    default:
        break;
    }
}

/* ---- its turns ---- */

static int is_due(int64_t when, int64_t now)
{
    return when && now >= when;
}

void ag_lifetime_turn(struct ag_keeper *k)
{
    struct ag_life *l = &k->life;
    int64_t now = sb_now_ms();
    uint64_t ticks;

    if (!l->given)
        return;
    if (k->in[IN_TTL].fd >= 0 && k->in[IN_TTL].revents && read(k->in[IN_TTL].fd, &ticks, sizeof ticks) > 0 &&
        l->plan.ttl_until_ms && boot_ms() >= l->plan.ttl_until_ms)
        end(k, SB_WATCH_TTL);
    if (is_due(l->kill_at, now))
        kill_init(k);
    if (is_due(l->attempt_until, now))
        not_begun(k);
    if (is_due(l->restart_at, now) && !l->paused)
        restart(k);
    if (is_due(l->check_until, now))
        checked(k, 0);
    if (is_due(l->check_at, now))
        check(k);
    if (is_due(l->idle_at, now)) {
        l->idle_at = now + ANSWER_MS;
        (void)ask(k, &(struct sb_request){ .type = SB_REQUEST_STATUS });
    }
    if (l->unwritten && now >= l->write_at)
        write_state(k);
}

int64_t ag_lifetime_next(const struct ag_keeper *k)
{
    const struct ag_life *l = &k->life;
    const int64_t times[] = { l->kill_at, l->attempt_until, l->paused ? 0 : l->restart_at, l->check_until, l->check_at, l->idle_at,
                              l->unwritten ? l->write_at : 0 };
    int64_t next = -1;

    for (size_t i = 0; l->given && i < SB_ELEMENTS(times); i++)
        if (times[i] && (next < 0 || times[i] < next))
            next = times[i];
    return next;
}
