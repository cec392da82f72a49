/* SPDX-License-Identifier: Apache-2.0
 * sandbox_exec_communicate(): feeds stdin and reads both outputs at once, by poll, in the calling thread. Our ends of the
 * pipes are made non-blocking (they are descriptions of their own: the command's ends stay as they are). A write to a pipe
 * without a reader raises SIGPIPE in the writing thread: it is blocked for the write and swallowed if it was ours. */
#include "exec.h"
#include "options.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

enum { CHUNK = 64 << 10 };

struct output {
    char **data;
    size_t *size;
    int *truncated;
    size_t room; /* of data, with its NUL */
};

struct talk {
    struct sandbox_exec *exec;
    const char *input;
    size_t input_size;
    size_t max;
    int64_t drain_ms;
    struct output outputs[2]; /* of fds[1] and fds[2] */
};

static void drop(int *fd)
{
    *fd = sb_close(*fd);
}

/* write(2) without SIGPIPE: -1 with EPIPE instead. One that was pending before, or was sent by somebody else, stays. */
static ssize_t write_quietly(int fd, const char *data, size_t size)
{
    sigset_t sigpipe, before, pending;
    ssize_t n;
    int saved;

    sigemptyset(&sigpipe);
    sigaddset(&sigpipe, SIGPIPE);
    sigpending(&pending);
    pthread_sigmask(SIG_BLOCK, &sigpipe, &before);
    n = SB_RETRY(write(fd, data, size));
    saved = errno;
    if (n < 0 && saved == EPIPE && !sigismember(&pending, SIGPIPE))
        while (sigtimedwait(&sigpipe, NULL, &(struct timespec){ 0 }) < 0 && errno == EINTR)
            ;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    errno = saved;
    return n;
}

/* Writes what the pipe takes; closes it when all is written, or when the command closed its end. */
static void feed(struct talk *t)
{
    int *fd = &t->exec->fds[0];
    ssize_t n = t->input_size ? write_quietly(*fd, t->input, t->input_size) : 0;

    if (n < 0 && errno == EAGAIN)
        return;
    if (n < 0) { /* EPIPE: a command may read as little as it likes */
        t->input_size = 0;
        drop(fd);
        return;
    }
    t->input += n;
    t->input_size -= (size_t)n;
    if (!t->input_size)
        drop(fd);
}

/* Room for one more chunk, or for what the limit still allows. */
static int make_room(struct talk *t, struct output *o)
{
    size_t want = *o->size + CHUNK < t->max ? *o->size + CHUNK : t->max;
    char *more;

    if (o->room >= want + 1)
        return 0;
    if (want < t->max && want < *o->size * 2)
        want = *o->size * 2 < t->max ? *o->size * 2 : t->max;
    more = realloc(*o->data, want + 1);
    if (!more)
        return -1;
    *o->data = more;
    o->room = want + 1;
    return 0;
}

/* One read. Returns its size (0: nothing there now, or its end came and it was closed), or a code. */
static ssize_t collect_output(struct talk *t, int stream, struct sandbox_error **error)
{
    struct output *o = &t->outputs[stream - 1];
    int *fd = &t->exec->fds[stream];
    char dropped[CHUNK];
    ssize_t n;

    if (*o->size >= t->max) {
        n = SB_RETRY(read(*fd, dropped, sizeof dropped));
        if (n > 0)
            *o->truncated = 1;
    } else {
        if (make_room(t, o))
            return sb_fail(error, SB_ARGS(SANDBOX_ENOMEM, .field = stream == 1 ? "out" : "err", .hint = "set max_output"),
                           "no memory for the output");
        n = SB_RETRY(read(*fd, *o->data + *o->size, o->room - 1 - *o->size));
        if (n > 0)
            *o->size += (size_t)n;
        (*o->data)[*o->size] = 0;
    }
    if (n < 0 && errno == EAGAIN)
        return 0;
    if (n < 0)
        return sb_fail_errno(error, errno, "stdio", "the command's output can't be read");
    if (n == 0)
        drop(fd);
    return n;
}

/* Reads what is in the pipes at this moment and no more, however fast somebody goes on writing. */
static int collect_last(struct talk *t, struct sandbox_error **error)
{
    for (int stream = 1; stream <= 2; stream++) {
        int there = 0;

        if (t->exec->fds[stream] < 0 || ioctl(t->exec->fds[stream], FIONREAD, &there) < 0)
            continue;
        do { /* once more than the bytes need, to see an end */
            ssize_t n = collect_output(t, stream, error);

            if (n < 0)
                return (int)n;
            if (n == 0)
                break;
            there -= (int)n;
        } while (there >= 0);
    }
    return 0;
}

/* One round after poll: whatever can move, moves. */
static int move(struct talk *t, const struct pollfd *fds, struct sandbox_error **error)
{
    if (t->exec->fds[0] >= 0 && fds[0].revents)
        feed(t);
    for (int stream = 1; stream <= 2; stream++) {
        ssize_t n = t->exec->fds[stream] >= 0 && fds[stream].revents ? collect_output(t, stream, error) : 0;

        if (n < 0)
            return (int)n;
    }
    return 0;
}

/* Until command and outputs have ended. *ret_held: an output had not when the patience for it was over. */
static int talk(struct talk *t, int64_t timeout_ms, int *ret_held, struct sandbox_error **error)
{
    struct sandbox_exec *exec = t->exec;
    int64_t deadline = sb_deadline(timeout_ms), drain = -1;
    int ended = 0;

    for (;;) {
        struct pollfd fds[5] = {
            { .fd = exec->fds[0], .events = POLLOUT },
            { .fd = exec->fds[1], .events = POLLIN },
            { .fd = exec->fds[2], .events = POLLIN },
            { .fd = ended ? -1 : exec->exec->fd, .events = POLLIN },
            { .fd = exec->host->close_fd, .events = POLLIN },
        };
        int left = sb_left_ms(deadline), r;

        if (!ended) {
            r = sb_exec_collect(exec, error);
            if (r < 0)
                return r;
            if (r == 0) {
                ended = 1;
                drain = sb_deadline(t->drain_ms);
                drop(&exec->fds[0]); /* nobody is left to read it for */
                continue;
            }
        } else if (drain >= 0) {
            int patience = sb_left_ms(drain);

            left = left < 0 || patience < left ? patience : left;
        }
        if (ended && exec->fds[1] < 0 && exec->fds[2] < 0)
            return 0;
        if (poll(fds, SB_ELEMENTS(fds), left) < 0 && errno != EINTR)
            return sb_fail_errno(error, errno, "poll", "waiting failed");
        if (atomic_load(&exec->host->closed))
            return sb_fail_closed(error);
        r = move(t, fds, error);
        if (!r && !left) {
            r = collect_last(t, error);
            if (!r && !ended)
                return sb_fail_timeout(error, timeout_ms);
            *ret_held = exec->fds[1] >= 0 || exec->fds[2] >= 0;
            return r;
        }
        if (r)
            return r;
    }
}

/* Takes the pipes and says that this call is the one. What an earlier call had not written goes first, and alone. */
static int begin(struct talk *t, const struct sandbox_communicate_options *options, struct sandbox_error **error)
{
    struct sandbox_exec *exec = t->exec;
    int r = 0, again;

    pthread_mutex_lock(&exec->lock);
    again = exec->had[0];
    if (exec->communicating)
        r = sb_fail(error, SB_ARGS(SANDBOX_EBUSY), "another thread is in sandbox_exec_communicate() with this exec");
    else if (options->input_size && exec->pipes[0] < 0 && !again)
        r = sb_fail(error, SB_ARGS(SANDBOX_EINVALID, .field = "input", .hint = "pass SANDBOX_STDIO_PIPE as stdin_fd to sandbox_exec()"),
                    "there is input, and stdin is no pipe, or was taken");
    if (!r) {
        exec->communicating = 1;
        for (int i = 0; i < 3; i++) {
            if (exec->pipes[i] < 0)
                continue;
            exec->fds[i] = SB_TAKE_FD(exec->pipes[i]);
            exec->had[i] = 1;
            fcntl(exec->fds[i], F_SETFL, fcntl(exec->fds[i], F_GETFL) | O_NONBLOCK);
        }
    }
    pthread_mutex_unlock(&exec->lock);
    t->input = again ? exec->rest : options->input;
    t->input_size = again ? exec->rest_size : options->input_size;
    return r;
}

/* Keeps input that is still to be written: the caller's buffer is his again once we return. */
static int keep_rest(struct talk *t, struct sandbox_error **error)
{
    struct sandbox_exec *exec = t->exec;
    char *rest = NULL;

    if (exec->fds[0] >= 0 && t->input_size) {
        rest = malloc(t->input_size);
        if (!rest)
            return sb_fail_memory(error);
        memcpy(rest, t->input, t->input_size);
    }
    free(exec->rest);
    exec->rest = rest;
    exec->rest_size = rest ? t->input_size : 0;
    return 0;
}

static int check_arguments(struct sandbox_exec *exec, const struct sandbox_communicate_options *from,
                           struct sandbox_communicate_options *options, const struct sandbox_output *output,
                           const struct sandbox_exec_result *result, struct sandbox_error **error)
{
    int r = sb_exec_check(exec, error);

    if (!r)
        r = sb_options_read(options, sizeof *options, SB_SIZE_TO(struct sandbox_communicate_options, drain_ms), from, error);
    if (!r && !output)
        r = sb_fail_null(error, "output");
    if (!r)
        r = sb_options_check(output, sizeof *output, SB_SIZE_TO(struct sandbox_output, err_truncated), error);
    if (!r && result)
        r = sb_options_check(result, sizeof *result, SB_SIZE_TO(struct sandbox_exec_result, max_rss), error);
    if (!r && options->input_size && !options->input)
        r = sb_fail_null(error, "input");
    if (!r)
        r = sb_check_timeout(options->timeout_ms, "timeout_ms", error);
    if (!r)
        r = sb_check_timeout(options->drain_ms, "drain_ms", error);
    return r;
}

static int communicate(struct sandbox_exec *exec, const struct sandbox_communicate_options *from, struct sandbox_output *output,
                       struct sandbox_exec_result *result, struct sandbox_error **error)
{
    struct sandbox_communicate_options options = SANDBOX_COMMUNICATE_OPTIONS_INIT;
    struct sandbox_output known = SANDBOX_OUTPUT_INIT;
    struct talk t = { .exec = exec };
    int held = 0, kept, r = check_arguments(exec, from, &options, output, result, error);

    if (!r)
        r = sb_options_read(&known, sizeof known, SB_SIZE_TO(struct sandbox_output, err_truncated), output, error);
    if (!r)
        r = begin(&t, &options, error);
    if (r)
        return r;
    t.max = options.max_output ? options.max_output : (size_t)64 << 20;
    if (t.max > SIZE_MAX / 4)
        t.max = SIZE_MAX / 4;
    t.drain_ms = options.drain_ms;
    t.outputs[0] = (struct output){ &known.out, &known.out_size, &known.out_truncated, known.out ? known.out_size + 1 : 0 };
    t.outputs[1] = (struct output){ &known.err, &known.err_size, &known.err_truncated, known.err ? known.err_size + 1 : 0 };
    for (int i = 0; i < 2 && !r; i++)
        if (exec->had[i + 1] && !*t.outputs[i].data) { /* "" and not NULL: it was a pipe */
            *t.outputs[i].data = calloc(1, 1);
            t.outputs[i].room = 1;
            r = *t.outputs[i].data ? 0 : sb_fail_memory(error);
        }
    if (!r)
        r = talk(&t, options.timeout_ms, &held, error);
    kept = keep_rest(&t, r ? NULL : error);
    r = r ? r : kept;
    sb_options_write(output, &known, sizeof known);
    pthread_mutex_lock(&exec->lock);
    exec->communicating = 0;
    if (!r && result) {
        struct sandbox_exec_result told = exec->result;

        told.pipe_held = held;
        sb_options_write(result, &told, sizeof told);
    }
    pthread_mutex_unlock(&exec->lock);
    return r;
}

int sandbox_exec_communicate(struct sandbox_exec *exec, const struct sandbox_communicate_options *options,
                             struct sandbox_output *output, struct sandbox_exec_result *result, struct sandbox_error **error)
{
    struct sandbox_error *failure = NULL;

    return sb_leave(communicate(exec, options, output, result, &failure), &failure, error, "communicate", exec ? exec->host : NULL);
}

void sandbox_output_clear(struct sandbox_output *output)
{
    const struct sandbox_output empty = SANDBOX_OUTPUT_INIT;

    if (!output)
        return;
    free(output->out);
    free(output->err);
    sb_options_write(output, &empty, sizeof empty);
}
