/* SPDX-License-Identifier: Apache-2.0
 * Operations: slow calls, driven by whoever waits. The driver's struct sb_op does the work, a step at a time under `lock`.
 * wake_fd is an eventfd for what the driver's descriptor can't tell: the first step, a cancel, and the end; after the end it
 * stays readable. The driver's part lives until the last moment, since other waiters may still poll its descriptor. */
#include "handles.h"
#include "options.h"

#include <json.h>
#include "options.h"

#include <json.h>

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

struct sandbox_op {
    pid_t pid;
    struct sandbox_host *host; /* NULL: an open */
    char *uri;                 /* of an open */
    const char *operation;
    const char *backend;
    struct sb_op *op;
    int wake_fd;
    pthread_mutex_t lock;
    /* under the lock */
    int epoll_fd; /* all the descriptors as one, made when it is asked for */
    int state;    /* 1: under way, else the result */
    int cancelled;
    struct sandbox_error *error;
    struct sb_driver *driver; /* results, taken from the driver's part as soon as it succeeded */
    json_t *image, *report, *findings, *document;
    char id[SB_ID_SIZE];
};

/* What a success must have brought: the other end may be a hostile machine. Everything else that it sent is left alone. */
static int take_results(struct sandbox_op *op)
{
    if (!op->host) {
        op->driver = SB_TAKE_PTR(op->op->driver);
        if (!op->driver)
            return sb_fail(&op->error, SB_ARGS(SANDBOX_EINTERNAL), "the backend opened nothing");
    } else if (!strcmp(op->operation, "create")) {
        op->op->id[SB_ID_SIZE - 1] = 0;
        if (!sb_id_valid(op->op->id))
            return sb_fail(&op->error, SB_ARGS(SANDBOX_EPROTOCOL), "the host gave no id for the new sandbox");
        memcpy(op->id, op->op->id, sizeof op->id);
    } else if (!strcmp(op->operation, "diff") || !strcmp(op->operation, "secrets") || !strcmp(op->operation, "usage") ||
               !strcmp(op->operation, "collect")) {
        op->document = SB_TAKE_PTR(op->op->document);
        if (!op->document)
            return sb_fail(&op->error, SB_ARGS(SANDBOX_EPROTOCOL), "the host gave no answer");
    } else if (!strcmp(op->operation, "import") || !strcmp(op->operation, "pull")) {
        op->image = SB_TAKE_PTR(op->op->image);
        if (!op->image)
            return sb_fail(&op->error, SB_ARGS(SANDBOX_EPROTOCOL), "the host gave no image");
    } else if (!strcmp(op->operation, "doctor")) {
        op->report = SB_TAKE_PTR(op->op->report);
        if (!op->report)
            return sb_fail(&op->error, SB_ARGS(SANDBOX_EPROTOCOL), "the host gave no report");
    } else if (!strcmp(op->operation, "reconcile")) {
        op->findings = SB_TAKE_PTR(op->op->findings);
        if (!op->findings)
            return sb_fail(&op->error, SB_ARGS(SANDBOX_EPROTOCOL), "the host gave no findings");
    }
    return 0;
}

static void step_locked(struct sandbox_op *op)
{
    eventfd_t ignored;
    int r;

    eventfd_read(op->wake_fd, &ignored); /* non-blocking */
    r = op->op->ops->step(op->op, &op->error);
    if (r > 0)
        return;
    if (r == 0) {
        op->error = sandbox_error_unref(op->error);
        r = take_results(op);
    }
    op->state = r;
    if (r < 0) {
        if (!op->error)
            sb_fail(&op->error, SB_ARGS(r), "%s failed with %s and nothing more is known", op->operation, sandbox_code_name(r));
        sb_error_set_operation(&op->error, op->operation, op->backend);
    }
    eventfd_write(op->wake_fd, 1);
}

static void cancel_locked(struct sandbox_op *op)
{
    if (op->state <= 0 || op->cancelled)
        return;
    op->cancelled = 1;
    op->op->ops->cancel(op->op);
    eventfd_write(op->wake_fd, 1);
}

/* Drives it to its end, whatever becomes of the host. */
static void finish(struct sandbox_op *op, int cancel)
{
    for (;;) {
        struct pollfd fds[] = { { .fd = op->op->fd, .events = POLLIN }, { .fd = op->wake_fd, .events = POLLIN } };
        int ended;

        pthread_mutex_lock(&op->lock);
        if (cancel)
            cancel_locked(op);
        if (op->state > 0)
            step_locked(op);
        ended = op->state <= 0;
        pthread_mutex_unlock(&op->lock);
        if (ended)
            return;
        poll(fds, SB_ELEMENTS(fds), -1);
    }
}

static void destroy(struct sandbox_op *op)
{
    if (op->pid == getpid()) {
        finish(op, 1);
        op->op->ops->free(op->op);
        if (op->driver)
            op->driver->ops->free(op->driver);
        sb_close(op->epoll_fd);
        sb_close(op->wake_fd);
        pthread_mutex_destroy(&op->lock);
    }
    json_decref(op->image);
    json_decref(op->report);
    json_decref(op->findings);
    json_decref(op->document);
    sandbox_error_unref(op->error);
    sandbox_host_unref(op->host);
    free(op->uri);
    free(op);
}

/* An operation for which there is no handle: cancelled and undone here. */
static void discard(struct sb_op *op)
{
    int r;

    op->ops->cancel(op);
    while ((r = op->ops->step(op, NULL)) > 0)
        poll(&(struct pollfd){ .fd = op->fd, .events = POLLIN }, 1, -1);
    if (r == 0 && op->driver)
        op->driver->ops->free(SB_TAKE_PTR(op->driver));
    if (r == 0) {
        json_decref(SB_TAKE_PTR(op->image));
        json_decref(SB_TAKE_PTR(op->findings));
        json_decref(SB_TAKE_PTR(op->document));
        json_decref(SB_TAKE_PTR(op->report));
    }
    op->ops->free(op);
}

int sb_op_new(struct sb_op *driver_op, struct sandbox_host *host, const char *uri, const char *operation, const char *backend,
              struct sandbox_op **ret_op, struct sandbox_error **error)
{
    struct sandbox_op *op = calloc(1, sizeof *op);
    int r;

    if (!op || (uri && !(op->uri = strdup(uri)))) {
        r = sb_fail_memory(error);
        goto fail;
    }
    op->wake_fd = eventfd(1, EFD_CLOEXEC | EFD_NONBLOCK); /* readable at first: the first step is due */
    if (op->wake_fd < 0) {
        r = sb_fail_errno(error, errno, "eventfd", "no descriptor for the operation");
        goto fail;
    }
    pthread_mutex_init(&op->lock, NULL);
    op->pid = getpid();
    op->host = sandbox_host_ref(host);
    op->operation = operation;
    op->backend = backend;
    op->op = driver_op;
    op->epoll_fd = -1;
    op->state = 1;
    *ret_op = op;
    return 0;
fail:
    discard(driver_op);
    if (op)
        free(op->uri);
    free(op);
    return r;
}

/* EINVALID, EFORKED, or 0. An operation that has ended tells its result also after its host was closed. */
static int check(const struct sandbox_op *op, struct sandbox_error **error)
{
    if (!op)
        return sb_fail_null(error, "op");
    if (op->pid != getpid())
        return sb_fail(error, SB_ARGS(SANDBOX_EFORKED), "the operation was begun by process %d, before a fork", (int)op->pid);
    return 0;
}

/* The result once there is one, as often as it is asked for. Called with the lock held. */
static int result_locked(struct sandbox_op *op, struct sandbox_error **error)
{
    if (op->state < 0 && error)
        *error = sandbox_error_ref(op->error);
    return op->state;
}

static int wait_for(struct sandbox_op *op, int64_t timeout_ms, struct sandbox_error **error)
{
    int64_t deadline = sb_deadline(timeout_ms);
    int close_fd = op->host ? op->host->close_fd : -1;

    for (;;) {
        struct pollfd fds[] = {
            { .fd = op->op->fd, .events = POLLIN },
            { .fd = op->wake_fd, .events = POLLIN },
            { .fd = close_fd, .events = POLLIN },
        };
        int left, r;

        pthread_mutex_lock(&op->lock);
        if (op->state > 0 && !(op->host && atomic_load(&op->host->closed)))
            step_locked(op);
        r = result_locked(op, error);
        pthread_mutex_unlock(&op->lock);
        if (r <= 0)
            return r;
        if (op->host && atomic_load(&op->host->closed))
            return sb_fail_closed(error);
        left = sb_left_ms(deadline);
        if (!left)
            return sb_fail_timeout(error, timeout_ms);
        if (poll(fds, SB_ELEMENTS(fds), left) < 0 && errno != EINTR)
            return sb_fail_errno(error, errno, "poll", "waiting failed");
    }
}

int sandbox_op_wait(struct sandbox_op *op, int64_t timeout_ms, struct sandbox_error **error)
{
    struct sandbox_error *failure = NULL;
    int r = check(op, &failure);

    if (!r)
        r = sb_check_timeout(timeout_ms, "timeout_ms", &failure);
    if (!r)
        r = wait_for(op, timeout_ms, &failure);
    if (r < 0 && op) /* the operation's own error has both already, and may be shared with other threads: it isn't written */
        sb_error_set_operation(&failure, op->operation, op->backend);
    return sb_leave(r, &failure, error, "wait", NULL);
}

int sb_op_run(struct sandbox_op *op, int64_t timeout_ms, struct sandbox_error **error)
{
    int r = wait_for(op, timeout_ms, error), end;

    pthread_mutex_lock(&op->lock);
    end = op->state;
    pthread_mutex_unlock(&op->lock);
    if (end <= 0)
        return r;
    finish(op, 1);
    /* it may have come to an end of its own after all: then that is the truth, and a success is not thrown away */
    if (op->state == SANDBOX_ECANCELLED)
        return r;
    if (error)
        *error = sandbox_error_unref(*error);
    pthread_mutex_lock(&op->lock);
    r = result_locked(op, error);
    pthread_mutex_unlock(&op->lock);
    return r;
}

static int make_epoll(struct sandbox_op *op)
{
    const int fds[] = { op->op->fd, op->wake_fd, op->host ? op->host->close_fd : -1 };
    SB_CLOSE int fd = epoll_create1(EPOLL_CLOEXEC);

    for (size_t i = 0; fd >= 0 && i < SB_ELEMENTS(fds); i++) {
        struct epoll_event event = { .events = EPOLLIN };

        if (fds[i] >= 0 && epoll_ctl(fd, EPOLL_CTL_ADD, fds[i], &event) < 0)
            return -1;
    }
    return SB_TAKE_FD(fd);
}

int sandbox_op_get_fd(struct sandbox_op *op)
{
    int r = check(op, NULL);

    if (r)
        return r;
    pthread_mutex_lock(&op->lock);
    if (op->epoll_fd < 0)
        op->epoll_fd = make_epoll(op);
    r = op->epoll_fd >= 0 ? op->epoll_fd : sb_code_from_errno(errno);
    pthread_mutex_unlock(&op->lock);
    return r;
}

int sandbox_op_get_progress(struct sandbox_op *op, struct sandbox_progress *progress)
{
    struct sandbox_progress now;
    int r = check(op, NULL);

    if (!r && !progress)
        r = SANDBOX_EINVALID;
    if (!r)
        r = sb_options_check(progress, sizeof now, SB_SIZE_TO(struct sandbox_progress, phase), NULL);
    if (r)
        return r;
    pthread_mutex_lock(&op->lock);
    now = op->op->progress;
    pthread_mutex_unlock(&op->lock);
    now.phase[sizeof now.phase - 1] = 0;
    sb_options_write(progress, &now, sizeof now);
    return 0;
}

int sandbox_op_cancel(struct sandbox_op *op)
{
    int r = check(op, NULL);

    if (r)
        return r;
    pthread_mutex_lock(&op->lock);
    cancel_locked(op);
    pthread_mutex_unlock(&op->lock);
    return 0;
}

struct sandbox_op *sandbox_op_unref(struct sandbox_op *op)
{
    if (op)
        destroy(op);
    return NULL;
}

/* What a take gives when the operation has no such result, has not succeeded, or gave it away already. */
static int fail_take(const struct sandbox_op *op, const char *what, struct sandbox_error **error)
{
    return sb_fail(error, SB_ARGS(SANDBOX_ENOTFOUND), "this %s operation has no %s to give: %s", op->operation, what,
                   op->state > 0 ? "it is under way" : op->state < 0 ? "it failed" : "it makes none, or it was taken");
}

int sandbox_op_take_host(struct sandbox_op *op, struct sandbox_host **ret_host, struct sandbox_error **error)
{
    struct sandbox_error *failure = NULL;
    int r = check(op, &failure);

    if (!r && !ret_host)
        r = sb_fail_null(&failure, "ret_host");
    if (!r) {
        pthread_mutex_lock(&op->lock);
        r = op->driver ? sb_host_new(SB_TAKE_PTR(op->driver), op->uri, ret_host, &failure) : fail_take(op, "host", &failure);
        pthread_mutex_unlock(&op->lock);
    }
    return sb_leave(r, &failure, error, "take", op && !r ? *ret_host : NULL);
}

int sandbox_op_take_sandbox(struct sandbox_op *op, struct sandbox **ret_sandbox, struct sandbox_error **error)
{
    struct sandbox_error *failure = NULL;
    int r = check(op, &failure);

    if (!r && !ret_sandbox)
        r = sb_fail_null(&failure, "ret_sandbox");
    if (!r) {
        pthread_mutex_lock(&op->lock);
        r = op->id[0] ? sb_sandbox_new(op->host, op->id, ret_sandbox, &failure) : fail_take(op, "sandbox", &failure);
        if (!r)
            op->id[0] = 0;
        pthread_mutex_unlock(&op->lock);
    }
    return sb_leave(r, &failure, error, "take", op ? op->host : NULL);
}

int sandbox_op_take_image(struct sandbox_op *op, struct sandbox_image **ret_image, struct sandbox_error **error)
{
    struct sandbox_error *failure = NULL;
    int r = check(op, &failure);

    if (!r && !ret_image)
        r = sb_fail_null(&failure, "ret_image");
    if (!r) {
        pthread_mutex_lock(&op->lock);
        r = op->image ? sb_image_new(SB_TAKE_PTR(op->image), ret_image, &failure) : fail_take(op, "image", &failure);
        pthread_mutex_unlock(&op->lock);
    }
    return sb_leave(r, &failure, error, "take", op ? op->host : NULL);
}

int sandbox_op_take_report(struct sandbox_op *op, struct sandbox_report **ret_report, struct sandbox_error **error)
{
    struct sandbox_error *failure = NULL;
    int r = check(op, &failure);

    if (!r && !ret_report)
        r = sb_fail_null(&failure, "ret_report");
    if (!r) {
        pthread_mutex_lock(&op->lock);
        r = op->report ? sb_report_new(SB_TAKE_PTR(op->report), ret_report, &failure) : fail_take(op, "report", &failure);
        pthread_mutex_unlock(&op->lock);
    }
    return sb_leave(r, &failure, error, "take", op ? op->host : NULL);
}

int sandbox_op_take_findings(struct sandbox_op *op, struct sandbox_findings **ret_findings, struct sandbox_error **error)
{
    struct sandbox_error *failure = NULL;
    int r = check(op, &failure);

    if (!r && !ret_findings)
        r = sb_fail_null(&failure, "ret_findings");
    if (!r) {
        pthread_mutex_lock(&op->lock);
        r = op->findings ? sb_findings_new(SB_TAKE_PTR(op->findings), ret_findings, &failure) : fail_take(op, "findings", &failure);
        pthread_mutex_unlock(&op->lock);
    }
    return sb_leave(r, &failure, error, "take", op ? op->host : NULL);
}

int sandbox_op_take_diff(struct sandbox_op *op, struct sandbox_diff **ret_diff, struct sandbox_error **error)
{
    struct sandbox_error *failure = NULL;
    int r = check(op, &failure);

    if (!r && !ret_diff)
        r = sb_fail_null(&failure, "ret_diff");
    if (!r) {
        pthread_mutex_lock(&op->lock);
        r = op->document && strcmp(op->operation, "usage") ? sb_diff_new(SB_TAKE_PTR(op->document), ret_diff, &failure)
                                                           : fail_take(op, "diff", &failure);
        pthread_mutex_unlock(&op->lock);
    }
    return sb_leave(r, &failure, error, "take", op ? op->host : NULL);
}

int sandbox_op_get_mount_usage(struct sandbox_op *op, struct sandbox_mount_usage *ret_usage, struct sandbox_error **error)
{
    struct sandbox_mount_usage usage = SANDBOX_MOUNT_USAGE_INIT;
    struct sandbox_error *failure = NULL;
    int r = check(op, &failure);

    if (!r && !ret_usage)
        r = sb_fail_null(&failure, "ret_usage");
    if (!r)
        r = sb_options_check(ret_usage, sizeof usage, SB_SIZE_TO(struct sandbox_mount_usage, truncated), &failure);
    if (!r) {
        pthread_mutex_lock(&op->lock);
        if (!op->document || strcmp(op->operation, "usage"))
            r = fail_take(op, "usage", &failure);
        usage.bytes = sb_json_int(op->document, "bytes", 0);
        usage.entries = sb_json_int(op->document, "count", 0);
        usage.truncated = json_is_true(json_object_get(op->document, "truncated"));
        pthread_mutex_unlock(&op->lock);
    }
    if (!r)
        sb_options_write(ret_usage, &usage, sizeof usage);
    return sb_leave(r, &failure, error, "take", op ? op->host : NULL);
}

int sandbox_op_get_collected(struct sandbox_op *op, struct sandbox_collected *ret_collected, struct sandbox_error **error)
{
    struct sandbox_collected collected = SANDBOX_COLLECTED_INIT;
    struct sandbox_error *failure = NULL;
    int r = check(op, &failure);

    if (!r && !ret_collected)
        r = sb_fail_null(&failure, "ret_collected");
    if (!r)
        r = sb_options_check(ret_collected, sizeof collected, SB_SIZE_TO(struct sandbox_collected, bytes), &failure);
    if (!r) {
        pthread_mutex_lock(&op->lock);
        if (!op->document || strcmp(op->operation, "collect"))
            r = fail_take(op, "collect", &failure);
        collected.images = sb_json_int(op->document, "images", 0);
        collected.layers = sb_json_int(op->document, "layers", 0);
        collected.downloads = sb_json_int(op->document, "downloads", 0);
        collected.bytes = sb_json_int(op->document, "bytes", 0);
        pthread_mutex_unlock(&op->lock);
    }
    if (!r)
        sb_options_write(ret_collected, &collected, sizeof collected);
    return sb_leave(r, &failure, error, "take", op ? op->host : NULL);
}
