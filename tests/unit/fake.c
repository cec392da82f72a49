/* SPDX-License-Identifier: Apache-2.0
 * See fake.h. */
#include "fake.h"

#include <errors.h>
#include <json.h>
#include <sbtest.h>

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <process.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <unistd.h>

struct fake fake;
/* of what the calls write down of themselves */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* ---- operations ---- */

struct fake_op {
    struct sb_op op;
    int event_fd, timer_fd;
    int left;
    int cancelled;
    atomic_int steps_at_once;
    const char *kind;
};

struct fake_driver {
    struct sb_driver driver;
};

static void called(const char *format, ...) __attribute__((format(printf, 1, 2)));
static void called(const char *format, ...)
{
    va_list ap;

    va_start(ap, format);
    pthread_mutex_lock(&lock);
    vsnprintf(fake.called, sizeof fake.called, format, ap);
    pthread_mutex_unlock(&lock);
    va_end(ap);
}

static json_t *parse(const char *text)
{
    json_t *json;

    fake.paused++;
    json = json_loads(text, JSON_DECODE_ANY, NULL);
    fake.paused--;
    return json;
}

static struct sb_driver *new_driver(void)
{
    struct fake_driver *driver;

    fake.paused++;
    driver = calloc(1, sizeof *driver);
    fake.paused--;
    driver->driver.ops = &fake.ops;
    return &driver->driver;
}

static int finish(struct fake_op *op, int result, struct sandbox_error **error)
{
    if (result < 0)
        return fake.silent ? result : sb_fail(error, SB_ARGS(result, .phase = "fake"), "the fake %s failed", op->kind);
    if (fake.bad_results)
        return 0;
    if (!strcmp(op->kind, "open"))
        op->op.driver = new_driver();
    if (!strcmp(op->kind, "create"))
        memcpy(op->op.id, FAKE_ID, SB_ID_SIZE);
    if (!strcmp(op->kind, "import"))
        op->op.image = parse(fake.answer ? fake.answer : fake_image);
    if (!strcmp(op->kind, "doctor"))
        op->op.report = parse(fake.answer ? fake.answer : fake_report);
    return 0;
}

static int op_step(struct sb_op *base, struct sandbox_error **error)
{
    struct fake_op *op = (struct fake_op *)base;
    int at_once = atomic_fetch_add(&op->steps_at_once, 1) + 1, r = 1;
    eventfd_t ticks = 0;
    uint64_t expired = 0;

    if (at_once > 1)
        atomic_fetch_add(&fake.overlaps, 1);
    if (eventfd_read(op->event_fd, &ticks) == 0)
        op->left -= (int)ticks;
    if (read(op->timer_fd, &expired, sizeof expired) == (ssize_t)sizeof expired && expired)
        r = finish(op, fake.ignores_cancel ? 0 : SANDBOX_ECANCELLED, error);
    else if (!op->cancelled && op->left <= 0)
        r = finish(op, fake.result, error);
    op->op.progress.unit = SANDBOX_UNIT_ENTRIES;
    op->op.progress.total = fake.steps;
    op->op.progress.done = fake.steps - op->left;
    snprintf(op->op.progress.phase, sizeof op->op.progress.phase, "counting");
    atomic_fetch_sub(&op->steps_at_once, 1);
    return r;
}

static void op_cancel(struct sb_op *base)
{
    struct fake_op *op = (struct fake_op *)base;
    const struct itimerspec when = { .it_value = { fake.undo_ms / 1000, (long)(fake.undo_ms % 1000) * 1000000 + 1 } };

    op->cancelled = 1;
    atomic_fetch_add(&fake.cancels, 1);
    timerfd_settime(op->timer_fd, 0, &when, NULL);
}

static void op_free(struct sb_op *base)
{
    struct fake_op *op = (struct fake_op *)base;

    atomic_fetch_add(&fake.frees, 1);
    close(op->event_fd);
    close(op->timer_fd);
    close(op->op.fd);
    pthread_mutex_lock(&lock);
    if (fake.last == base)
        fake.last = NULL;
    pthread_mutex_unlock(&lock);
    free(op);
}

static const struct sb_op_ops op_ops = { .step = op_step, .cancel = op_cancel, .free = op_free };

static int begin(const char *kind, struct sb_op **ret_op, struct sandbox_error **error)
{
    struct epoll_event event = { .events = EPOLLIN };
    struct fake_op *op;

    if (fake.refuses)
        return sb_fail(error, SB_ARGS(fake.refuses), "the fake %s is refused", kind);
    fake.paused++;
    op = calloc(1, sizeof *op);
    fake.paused--;
    op->kind = kind;
    op->left = fake.steps;
    op->op.ops = &op_ops;
    op->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    op->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    op->op.fd = epoll_create1(EPOLL_CLOEXEC);
    epoll_ctl(op->op.fd, EPOLL_CTL_ADD, op->event_fd, &event);
    epoll_ctl(op->op.fd, EPOLL_CTL_ADD, op->timer_fd, &event);
    pthread_mutex_lock(&lock);
    fake.last = &op->op;
    pthread_mutex_unlock(&lock);
    *ret_op = &op->op;
    return 0;
}

void fake_tick(void)
{
    eventfd_write(((struct fake_op *)fake.last)->event_fd, 1);
}

/* ---- the table ---- */

static void driver_free(struct sb_driver *driver)
{
    atomic_fetch_add(&fake.driver_frees, 1);
    free(driver);
}

static int d_create(struct sb_driver *d, const struct sandbox_spec *spec, struct sb_op **ret_op, struct sandbox_error **error)
{
    (void)d;
    called("create %s", spec->image);
    return begin("create", ret_op, error);
}

static int d_start(struct sb_driver *d, const char *id, struct sb_op **ret_op, struct sandbox_error **error)
{
    (void)d;
    called("start %.8s", id);
    return begin("start", ret_op, error);
}

static int d_stop(struct sb_driver *d, const char *id, int64_t grace_ms, struct sb_op **ret_op, struct sandbox_error **error)
{
    (void)d;
    called("stop %.8s %lld", id, (long long)grace_ms);
    return begin("stop", ret_op, error);
}

static int d_remove(struct sb_driver *d, const char *id, struct sb_op **ret_op, struct sandbox_error **error)
{
    (void)d;
    called("remove %.8s", id);
    return begin("delete", ret_op, error);
}

static int d_kill(struct sb_driver *d, const char *id, int signal, struct sandbox_error **error)
{
    (void)d;
    called("kill %.8s %d", id, signal);
    return fake.refuses ? sb_fail(error, SB_ARGS(fake.refuses), "refused") : 0;
}

static int answer(json_t **ret_json, struct sandbox_error **error)
{
    if (fake.refuses)
        return sb_fail(error, SB_ARGS(fake.refuses), "the fake answer is refused");
    *ret_json = parse(fake.answer);
    return 0;
}

static int d_inspect(struct sb_driver *d, const char *id, json_t **ret_json, struct sandbox_error **error)
{
    (void)d;
    called("inspect %.8s", id);
    return answer(ret_json, error);
}

static int d_list(struct sb_driver *d, const struct sandbox_list_options *options, json_t **ret_json, struct sandbox_error **error)
{
    (void)d;
    called("list %s %s %s", options->name_prefix ? options->name_prefix : "-",
             options->label_key ? options->label_key : "-", options->label_value ? options->label_value : "-");
    return answer(ret_json, error);
}

static int d_dial(struct sb_driver *d, const char *id, int port, int64_t timeout_ms, int *ret_fd, struct sandbox_error **error)
{
    int pair[2];

    called("dial %.8s %d %lld", id, port, (long long)timeout_ms);
    if (fake.dial_waits && poll(&(struct pollfd){ .fd = d->close_fd, .events = POLLIN }, 1, 10000) == 1)
        return sb_fail(error, SB_ARGS(SANDBOX_ECLOSED), "closed while dialling");
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
        return sb_fail_errno(error, errno, NULL, "socketpair");
    close(pair[1]);
    *ret_fd = pair[0];
    return 0;
}

struct fake_forward {
    struct sb_forward forward;
};

static int forward_status(struct sb_forward *forward, struct sandbox_forward_status *ret, struct sandbox_error **error)
{
    (void)forward;
    if (fake.refuses)
        return sb_fail(error, SB_ARGS(fake.refuses), "the fake forward is refused");
    *ret = (struct sandbox_forward_status){ .size = sizeof *ret, .healthy = 1, .listening = 1, .accepted = 7, .bytes_out = INT64_MAX };
    memset(ret->last_failure, 'x', sizeof ret->last_failure); /* without an end: api/ must not hand that on */
    return 0;
}

static void forward_free(struct sb_forward *forward)
{
    fake.forward_frees++;
    free(forward);
}

static const struct sb_forward_ops forward_ops = { forward_status, forward_free };

static int d_forward_open(struct sb_driver *d, const char *id, int port, int local_port, struct sb_forward **ret_forward,
                          struct sandbox_error **error)
{
    struct fake_forward *f;

    (void)d;
    called("forward %.8s %d %d", id, port, local_port);
    if (fake.refuses)
        return sb_fail(error, SB_ARGS(fake.refuses), "the fake forward is refused");
    fake.paused++;
    f = calloc(1, sizeof *f);
    fake.paused--;
    if (!f)
        return sb_fail(error, SB_ARGS(SANDBOX_ENOMEM), "out of memory");
    f->forward = (struct sb_forward){ .ops = &forward_ops, .port = local_port ? local_port : 40000 };
    *ret_forward = &f->forward;
    return 0;
}

static int events_next(struct sb_events *events, json_t **ret_event, struct sandbox_error **error)
{
    (void)events;
    if (fake.refuses)
        return sb_fail(error, SB_ARGS(fake.refuses), "the fake event is refused");
    if (!fake.event)
        return 1;
    *ret_event = parse(fake.event);
    fake.event = NULL;
    return 0;
}

static void events_free(struct sb_events *events)
{
    fake.events_frees++;
    close(events->fd);
    free(events);
}

static const struct sb_events_ops events_ops = { events_next, events_free };

static int d_events_open(struct sb_driver *d, const struct sandbox_events_options *options, struct sb_events **ret_events,
                         struct sandbox_error **error)
{
    struct sb_events *e;

    (void)d;
    called("events %.8s %s %s", options->id ? options->id : "-", options->label_key ? options->label_key : "-",
           options->label_value ? options->label_value : "-");
    if (fake.refuses)
        return sb_fail(error, SB_ARGS(fake.refuses), "fake events are refused");
    fake.paused++;
    e = calloc(1, sizeof *e);
    fake.paused--;
    if (!e)
        return sb_fail(error, SB_ARGS(SANDBOX_ENOMEM), "out of memory");
    *e = (struct sb_events){ .ops = &events_ops, .fd = epoll_create1(EPOLL_CLOEXEC) };
    *ret_events = e;
    return 0;
}

static int d_doctor(struct sb_driver *d, struct sb_op **ret_op, struct sandbox_error **error)
{
    (void)d;
    called("doctor");
    return begin("doctor", ret_op, error);
}

static int d_import(struct sb_driver *d, const char *source, const struct sandbox_image_import_options *options, struct sb_op **ret_op,
                    struct sandbox_error **error)
{
    (void)d;
    called("import %s %s", source, options->name ? options->name : "-");
    return begin("import", ret_op, error);
}

static int d_named(struct sb_driver *d, const char *name, json_t **ret_json, struct sandbox_error **error)
{
    (void)d;
    called("inspect %s", name);
    return answer(ret_json, error);
}

static int d_all(struct sb_driver *d, json_t **ret_json, struct sandbox_error **error)
{
    (void)d;
    return answer(ret_json, error);
}

static int d_change(struct sb_driver *d, const char *name, struct sandbox_error **error)
{
    (void)d;
    called("change %s", name);
    return fake.refuses ? sb_fail(error, SB_ARGS(fake.refuses), "refused") : 0;
}

/* ---- commands: processes of this machine ---- */

struct fake_exec {
    struct sb_exec exec;
    pid_t pid;
    int ended;
    struct sandbox_exec_result result;
};

static int exec_collect(struct sb_exec *base, struct sandbox_exec_result *ret_result, struct sandbox_error **error)
{
    struct fake_exec *e = (struct fake_exec *)base;
    siginfo_t info = { 0 };

    if (!e->ended) {
        if (waitid(P_PID, (id_t)e->pid, &info, WEXITED | WNOHANG) < 0)
            return sb_fail_errno(error, errno, NULL, "waitid");
        if (!info.si_pid)
            return 1;
        e->ended = 1;
        e->result = (struct sandbox_exec_result)SANDBOX_EXEC_RESULT_INIT;
        e->result.kind = info.si_code == CLD_EXITED ? SANDBOX_EXEC_EXITED : SANDBOX_EXEC_SIGNALLED;
        e->result.code = info.si_code == CLD_EXITED ? info.si_status : -1;
        e->result.signal = info.si_code == CLD_EXITED ? 0 : info.si_status;
        e->result.max_rss = 4096;
    }
    *ret_result = e->result;
    return 0;
}

static int exec_kill(struct sb_exec *base, int signal, unsigned int flags, struct sandbox_error **error)
{
    struct fake_exec *e = (struct fake_exec *)base;

    (void)error;
    called("kill %d %u", signal, flags);
    syscall(SYS_pidfd_send_signal, e->exec.fd, signal, NULL, 0); /* at any time: it means the process and no other */
    return 0;
}

static void exec_free(struct sb_exec *base)
{
    struct fake_exec *e = (struct fake_exec *)base;

    atomic_fetch_add(&fake.exec_frees, 1);
    if (!e->ended) {
        kill(e->pid, SIGKILL);
        waitpid(e->pid, NULL, 0);
    }
    close(e->exec.fd);
    free(e);
}

static const struct sb_exec_ops exec_ops = { .collect = exec_collect, .kill = exec_kill, .free = exec_free };

static int d_exec(struct sb_driver *d, const char *id, const struct sb_exec_request *request, struct sb_exec **ret_exec,
                  struct sandbox_error **error)
{
    const struct sb_spawn_fd fds[] = { { request->fds[0], 0 }, { request->fds[1], 1 }, { request->fds[2], 2 } };
    SB_CLOSE int exe = -1;
    struct fake_exec *e;
    struct stat st;
    pid_t pid;
    int r;

    (void)d;
    called("exec %.8s %s", id, request->argv[0]);
    pthread_mutex_lock(&lock);
    fake.request = *request;
    fake.request_null = 0;
    for (int i = 0; i < 3; i++)
        if (fstat(request->fds[i], &st) == 0 && S_ISCHR(st.st_mode) && st.st_rdev == makedev(1, 3))
            fake.request_null |= 1 << i;
    pthread_mutex_unlock(&lock);
    if (fake.refuses)
        return sb_fail(error, SB_ARGS(fake.refuses, .field = "argv"), "the fake exec is refused");
    exe = open(request->argv[0], O_RDONLY | O_CLOEXEC);
    r = exe < 0 ? -errno : sb_spawn(exe, (char *const *)request->argv, fds, 3, &pid);
    if (r)
        return sb_fail_errno(error, -r, NULL, "can't run %s", request->argv[0]);
    fake.paused++;
    e = calloc(1, sizeof *e);
    fake.paused--;
    e->exec.ops = &exec_ops;
    e->exec.fd = (int)syscall(SYS_pidfd_open, pid, 0);
    e->pid = pid;
    *ret_exec = &e->exec;
    return 0;
}

static int d_exec_open(struct sb_driver *d, const char *id, const char *exec_id, struct sb_exec **ret_exec, struct sandbox_error **error)
{
    static const char *const argv[] = { "/bin/true", NULL };
    struct sb_exec_request request = { .argv = argv };
    int null, r;

    if (fake.refuses)
        return sb_fail(error, SB_ARGS(fake.refuses), "the fake attach is refused");
    null = open("/dev/null", O_RDWR | O_CLOEXEC);
    for (int i = 0; i < 3; i++)
        request.fds[i] = null;
    r = d_exec(d, id, &request, ret_exec, error);
    sb_close(null);
    called("attach %.8s %.8s", id, exec_id ? exec_id : "daemon");
    return r;
}

/* ---- logs ---- */

struct fake_log {
    struct sb_log log;
    int64_t position;
};

static int log_next(struct sb_log *base, struct sandbox_log_record *ret, struct sandbox_error **error)
{
    struct fake_log *l = (struct fake_log *)base;
    const char *next = fake.log ? *fake.log : NULL;

    if (fake.refuses)
        return sb_fail(error, SB_ARGS(fake.refuses), "the fake log is refused");
    if (!next)
        return 0;
    if (*next == '.')
        return 2;
    fake.log++;
    *ret = (struct sandbox_log_record)SANDBOX_LOG_RECORD_INIT;
    ret->position = l->position;
    if (*next == 'o' || *next == 'e') {
        ret->kind = SANDBOX_LOG_OUTPUT;
        ret->stream = *next == 'o' ? SANDBOX_LOG_STDOUT : SANDBOX_LOG_STDERR;
        ret->data = next + 2;
        ret->data_size = strlen(next + 2);
        l->position += (int64_t)ret->data_size;
    } else if (*next == 'L') {
        ret->kind = SANDBOX_LOG_LOST;
        ret->lost = 100;
        l->position += 100;
    } else {
        ret->kind = *next == 'S' ? SANDBOX_LOG_STARTED : SANDBOX_LOG_ENDED;
        ret->exec_kind = *next == 'X' ? SANDBOX_EXEC_EXITED : 0;
        ret->code = *next == 'X' ? atoi(next + 1) : -1;
    }
    return 1;
}

static void log_free(struct sb_log *base)
{
    fake.log_frees++;
    close(base->fd);
    free(base);
}

static const struct sb_log_ops log_ops = { log_next, log_free };

static int d_log_open(struct sb_driver *d, const char *id, const struct sb_log_request *request, struct sb_log **ret_log,
                      struct sandbox_error **error)
{
    struct fake_log *l;

    (void)d;
    called("log %.8s %.8s %d", id, request->exec_id ? request->exec_id : "-", request->this_run);
    fake.log_request = *request;
    if (fake.refuses)
        return sb_fail(error, SB_ARGS(fake.refuses), "the fake log is refused");
    fake.paused++;
    l = calloc(1, sizeof *l);
    fake.paused--;
    l->log.ops = &log_ops;
    l->log.fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    *ret_log = &l->log;
    return 0;
}

static const struct sb_driver_ops all_ops = {
    .exec_open = d_exec_open, .log_open = d_log_open,
    .name = "fake", .free = driver_free, .create = d_create, .start = d_start, .stop = d_stop, .remove = d_remove, .kill = d_kill,
    .inspect = d_inspect, .list = d_list, .exec = d_exec, .dial = d_dial, .forward_open = d_forward_open, .events_open = d_events_open,
    .image_import = d_import, .image_inspect = d_named,
    .image_list = d_all, .image_remove = d_change, .volume_create = d_change, .volume_inspect = d_named, .volume_list = d_all,
    .volume_remove = d_change, .doctor = d_doctor,
};

/* ---- the backend ---- */

static int fake_open(const char *rest, const struct sandbox_host_options *options, struct sb_op **ret_op, struct sandbox_error **error)
{
    called("open %s %s", rest, options->state_root ? options->state_root : "-");
    return begin("open", ret_op, error);
}

static const struct sb_backend backend = { .scheme = "fake", .open = fake_open };

const struct sb_backend *sb_backend_find(const char *scheme, size_t length)
{
    return length == 4 && !strncmp(scheme, "fake", 4) ? &backend : NULL;
}

/* ---- for tests ---- */

void fake_reset(void)
{
    memset(&fake, 0, sizeof fake);
    fake.ops = all_ops;
    fake.answer = fake_document;
}

struct sandbox_host *fake_host(void)
{
    struct sandbox_error *error = NULL;
    struct sandbox_host *host = NULL;
    int steps = fake.steps;

    fake.steps = 0;
    sbtest_ok(sandbox_host_open("fake:there", NULL, -1, &host, &error), &error);
    fake.steps = steps;
    return host;
}

struct sandbox *fake_sandbox(struct sandbox_host *host)
{
    struct sandbox_error *error = NULL;
    struct sandbox *sandbox = NULL;

    sbtest_ok(sandbox_open(host, FAKE_ID, &sandbox, &error), &error);
    return sandbox;
}
