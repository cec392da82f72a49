/* SPDX-License-Identifier: Apache-2.0
 * Execs: the command's descriptors are made here, so that every backend treats them alike. Pipes are given whole to the
 * caller, close-on-exec and blocking; the command's ends exist in this process for the driver's call only. */
#include "exec.h"
#include "options.h"
#include "rules.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *const stream_fields[] = { "stdin_fd", "stdout_fd", "stderr_fd" };

/* A descriptor of the caller's: open, of the right direction, and nothing that a command could climb out through. */
static int check_fd(int fd, int stream, struct sandbox_error **error)
{
    const char *field = stream_fields[stream];
    int flags = fcntl(fd, F_GETFL);
    struct stat st;

    if (flags < 0 || fstat(fd, &st) < 0)
        return sb_fail(error, SB_ARGS(SANDBOX_EINVALID, .sys_errno = errno, .field = field), "%s %d is not an open descriptor",
                       field, fd);
    if (S_ISDIR(st.st_mode) || (flags & O_PATH))
        return sb_fail(error, SB_ARGS(SANDBOX_EINVALID, .field = field),
                       "%s %d is a folder or a path: it would lead out of the sandbox", field, fd);
    if ((flags & O_ACCMODE) == (stream == 0 ? O_WRONLY : O_RDONLY))
        return sb_fail(error, SB_ARGS(SANDBOX_EINVALID, .field = field), "%s %d is not open for %s", field, fd,
                       stream == 0 ? "reading" : "writing");
    return 0;
}

static int check_options(const struct sandbox_exec_options *options, struct sandbox_error **error)
{
    const int fds[] = { options->stdin_fd, options->stdout_fd, options->stderr_fd };
    int r = options->user ? sb_check_user(options->user, error) : 0;

    if (!r && options->workdir)
        r = sb_check_workdir(options->workdir, error);
    if (!r)
        r = sb_check_env_list(options->env, "env", error);
    if (!r && options->deadline_ms < 0)
        r = sb_fail(error, SB_ARGS(SANDBOX_EINVALID, .field = "deadline_ms", .hint = "use 0 for none"),
                    "deadline_ms is negative");
    if (!r && options->journal_max && (options->journal_max < 8192 || options->journal_max > INT64_C(1) << 30))
        r = sb_fail(error, SB_ARGS(SANDBOX_EINVALID, .field = "journal_max", .hint = "8 KiB to 1 GiB, or 0 for none"),
                    "journal_max is %lld", (long long)options->journal_max);
    for (int i = 1; !r && i < 3; i++)
        if (options->journal_max && fds[i] >= 0)
            r = sb_fail(error, SB_ARGS(SANDBOX_EINVALID, .field = stream_fields[i], .hint = "read it by sandbox_exec_log_open()"),
                        "with a journal %s can't be a descriptor", stream_fields[i]);
    if (!r)
        r = sb_check_terminal(options, error);
    for (int i = 0; !r && !options->terminal && i < 3; i++) {
        if (fds[i] >= 0)
            r = check_fd(fds[i], i, error);
        else if (fds[i] != SANDBOX_STDIO_NULL && fds[i] != SANDBOX_STDIO_PIPE)
            r = sb_fail(error, SB_ARGS(SANDBOX_EINVALID, .field = stream_fields[i]), "%s is %d", stream_fields[i], fds[i]);
    }
    return r;
}

/* The command's end of one stream (to be closed, unless it is the caller's own) and, of a pipe, our end. */
static int make_stream(int wanted, int stream, int *ret_command, int *ret_close, int *ret_ours, struct sandbox_error **error)
{
    int ends[2];

    if (wanted >= 0) {
        *ret_command = wanted;
        return 0;
    }
    if (wanted == SANDBOX_STDIO_NULL) {
        *ret_command = *ret_close = open("/dev/null", O_RDWR | O_CLOEXEC);
        return *ret_command >= 0 ? 0 : sb_fail_errno(error, errno, "stdio", "/dev/null can't be opened");
    }
    if (pipe2(ends, O_CLOEXEC) < 0)
        return sb_fail_errno(error, errno, "stdio", "no pipe for the command");
#ifdef F_SETPIPE_SZ
    /* Twice the default: writer and reader then work at the same time, at twice the speed. No more, since a user's pipes share a
     * quota; when it is used up the default does. */
    if (stream == 1)
        (void)fcntl(ends[1], F_SETPIPE_SZ, 128 << 10);
#endif
    /* /dev/stdout inside is opened anew, by an id that isn't ours; who may reach it at all /proc/PID/fd says */
    fchmod(ends[0], 0666);
    *ret_command = *ret_close = ends[stream == 0 ? 0 : 1];
    *ret_ours = ends[stream == 0 ? 1 : 0];
    return 0;
}

static void destroy(struct sandbox_exec *exec)
{
    if (exec->host && !sb_host_forked(exec->host)) {
        for (int i = 0; i < 3; i++) {
            sb_close(exec->pipes[i]);
            sb_close(exec->fds[i]);
        }
        if (exec->exec)
            exec->exec->ops->free(exec->exec);
        pthread_mutex_destroy(&exec->lock);
    }
    sandbox_host_unref(exec->host);
    free(exec->rest);
    free(exec);
}

static int run(struct sandbox *sandbox, struct sandbox_exec *exec, const char *const *argv,
               const struct sandbox_exec_options *options, const struct sb_limits *limits, struct sandbox_error **error)
{
    const int wanted[] = { options->stdin_fd, options->stdout_fd, options->stderr_fd };
    struct sb_driver *driver = sandbox->host->driver;
    struct sb_exec_request request = {
        .argv = argv,
        .user = options->user,
        .workdir = options->workdir,
        .env = options->env,
        .deadline_ms = options->deadline_ms,
        .journal_max = options->journal_max,
        .limits = limits,
        .fds = { -1, -1, -1 },
        .terminal = options->terminal,
        .rows = options->rows ? options->rows : 24,
        .columns = options->columns ? options->columns : 80,
    };
    int to_close[] = { -1, -1, -1 }, streams = options->terminal ? 0 : options->journal_max ? 1 : 3;
    int r = 0;

    memcpy(request.id, exec->id, sizeof request.id);
    for (int i = 0; !r && i < streams; i++)
        r = make_stream(wanted[i], i, &request.fds[i], &to_close[i], &exec->pipes[i], error);
    if (!r)
        r = driver->ops->exec(driver, sandbox->id, &request, &exec->exec, error);
    for (int i = 0; i < 3; i++)
        sb_close(to_close[i]);
    return r;
}

static int new_exec(struct sandbox *sandbox, struct sandbox_exec **ret_exec, struct sandbox_error **error)
{
    struct sandbox_exec *exec = calloc(1, sizeof *exec);

    if (!exec)
        return sb_fail_memory(error);
    atomic_init(&exec->refs, 1);
    pthread_mutex_init(&exec->lock, NULL);
    exec->host = sandbox_host_ref(sandbox->host);
    memcpy(exec->sandbox_id, sandbox->id, sizeof exec->sandbox_id);
    for (int i = 0; i < 3; i++)
        exec->pipes[i] = exec->fds[i] = -1;
    *ret_exec = exec;
    return 0;
}

static int exec_begin(struct sandbox *sandbox, const char *const *argv, const struct sandbox_exec_options *options,
                      struct sandbox_exec **ret_exec, struct sandbox_error **error)
{
    struct sandbox_exec_options known = SANDBOX_EXEC_OPTIONS_INIT;
    struct sb_limits limits = { 0 };
    struct sandbox_exec *exec = NULL;
    int r = sb_sandbox_check(sandbox, error);

    if (!r)
        r = sb_options_read(&known, sizeof known, SB_SIZE_TO(struct sandbox_exec_options, deadline_ms), options, error);
    if (!r && known.limits)
        r = sb_limits_take(&limits, known.limits, error);
    if (!r)
        r = sb_check_argv(argv, "argv", error);
    if (!r)
        r = check_options(&known, error);
    if (r)
        return r;
    if (!ret_exec)
        return sb_fail_null(error, "ret_exec");
    if (!sandbox->host->driver->ops->exec)
        return sb_fail_slot(error, sandbox->host, "exec", NULL);
    r = new_exec(sandbox, &exec, error);
    if (r)
        return r;
    r = sb_id_new(exec->id);
    r = r ? sb_fail_errno(error, -r, "id", "no random bytes for an id") : run(sandbox, exec, argv, &known, &limits, error);
    if (r)
        destroy(exec);
    else
        *ret_exec = exec;
    return r;
}

int sandbox_exec(struct sandbox *sandbox, const char *const *argv, const struct sandbox_exec_options *options,
                 struct sandbox_exec **ret_exec, struct sandbox_error **error)
{
    struct sandbox_error *failure = NULL;

    return sb_leave(exec_begin(sandbox, argv, options, ret_exec, &failure), &failure, error, "exec",
                    sandbox ? sandbox->host : NULL);
}

/* id NULL: the daemon's. */
static int exec_attach(struct sandbox *sandbox, const char *id, struct sandbox_exec **ret_exec, struct sandbox_error **error)
{
    struct sandbox_exec *exec = NULL;
    int r;

    if (!sandbox->host->driver->ops->exec_open)
        return sb_fail_slot(error, sandbox->host, "exec_open", NULL);
    r = new_exec(sandbox, &exec, error);
    if (r)
        return r;
    exec->attached = 1;
    if (id)
        memcpy(exec->id, id, sizeof exec->id);
    r = sandbox->host->driver->ops->exec_open(sandbox->host->driver, sandbox->id, id, &exec->exec, error);
    if (r)
        destroy(exec);
    else
        *ret_exec = exec;
    return r;
}

static int exec_open(struct sandbox *sandbox, const char *id, struct sandbox_exec **ret_exec, struct sandbox_error **error)
{
    int r = sb_sandbox_check(sandbox, error);

    if (!r && !sb_id_valid(id))
        r = sb_fail(error,
                    SB_ARGS(SANDBOX_EINVALID, .field = "id", .hint = "use the whole id, as sandbox_exec_get_id() gives it"),
                    "id is not %d lowercase hexadecimal digits", SANDBOX_ID_LENGTH);
    if (!r && !ret_exec)
        r = sb_fail_null(error, "ret_exec");
    return r ? r : exec_attach(sandbox, id, ret_exec, error);
}

int sandbox_exec_open(struct sandbox *sandbox, const char *id, struct sandbox_exec **ret_exec, struct sandbox_error **error)
{
    struct sandbox_error *failure = NULL;

    return sb_leave(exec_open(sandbox, id, ret_exec, &failure), &failure, error, "attach", sandbox ? sandbox->host : NULL);
}

struct sandbox_exec *sandbox_exec_ref(struct sandbox_exec *exec)
{
    if (exec)
        atomic_fetch_add(&exec->refs, 1);
    return exec;
}

struct sandbox_exec *sandbox_exec_unref(struct sandbox_exec *exec)
{
    if (exec && atomic_fetch_sub(&exec->refs, 1) == 1)
        destroy(exec);
    return NULL;
}

const char *sandbox_exec_get_id(const struct sandbox_exec *exec)
{
    return exec ? exec->id : "";
}

int sb_exec_check(const struct sandbox_exec *exec, struct sandbox_error **error)
{
    return exec ? sb_host_check(exec->host, error) : sb_fail_null(error, "exec");
}

static int take(struct sandbox_exec *exec, int stream, int *ret_fd, struct sandbox_error **error)
{
    static const char *const names[] = { "stdin", "stdout", "stderr" };
    int r = sb_exec_check(exec, error);

    if (r)
        return r;
    if (!ret_fd)
        return sb_fail_null(error, "ret_fd");
    pthread_mutex_lock(&exec->lock);
    if (exec->pipes[stream] >= 0)
        *ret_fd = SB_TAKE_FD(exec->pipes[stream]);
    else
        r = sb_fail(error,
                    SB_ARGS(SANDBOX_EINVALID, .field = stream_fields[stream],
                            .hint = exec->attached
                                        ? "who started it has its pipes; give it a journal to read its output elsewhere"
                                        : NULL),
                    "%s is no pipe, or its end was taken", names[stream]);
    pthread_mutex_unlock(&exec->lock);
    return r;
}

static int take_and_leave(struct sandbox_exec *exec, int stream, int *ret_fd, struct sandbox_error **error)
{
    struct sandbox_error *failure = NULL;

    return sb_leave(take(exec, stream, ret_fd, &failure), &failure, error, "take", exec ? exec->host : NULL);
}

int sandbox_exec_take_stdin(struct sandbox_exec *exec, int *ret_fd, struct sandbox_error **error)
{
    return take_and_leave(exec, 0, ret_fd, error);
}

int sandbox_exec_take_stdout(struct sandbox_exec *exec, int *ret_fd, struct sandbox_error **error)
{
    return take_and_leave(exec, 1, ret_fd, error);
}

int sandbox_exec_take_stderr(struct sandbox_exec *exec, int *ret_fd, struct sandbox_error **error)
{
    return take_and_leave(exec, 2, ret_fd, error);
}

int sandbox_exec_get_fd(struct sandbox_exec *exec)
{
    int r = sb_exec_check(exec, NULL);

    return r ? r : exec->exec->fd;
}

int sb_exec_collect(struct sandbox_exec *exec, struct sandbox_error **error)
{
    struct sandbox_exec_result result = SANDBOX_EXEC_RESULT_INIT;
    int r = 0;

    pthread_mutex_lock(&exec->lock);
    if (!exec->ended) {
        r = exec->exec->ops->collect(exec->exec, &result, error);
        if (r == 0) {
            exec->ended = 1;
            exec->result = result;
        }
    }
    pthread_mutex_unlock(&exec->lock);
    return r;
}

static int wait_for(struct sandbox_exec *exec, int64_t timeout_ms, struct sandbox_exec_result *result,
                    struct sandbox_error **error)
{
    int64_t deadline = sb_deadline(timeout_ms);
    int r = sb_exec_check(exec, error), left;

    if (!r)
        r = sb_check_timeout(timeout_ms, "timeout_ms", error);
    if (!r && result)
        r = sb_options_check(result, sizeof *result, SB_SIZE_TO(struct sandbox_exec_result, max_rss), error);
    if (r)
        return r;
    for (;;) {
        struct pollfd fds[] = { { .fd = exec->exec->fd, .events = POLLIN }, { .fd = exec->host->close_fd, .events = POLLIN } };

        r = sb_exec_collect(exec, error);
        if (r == 0 && result)
            sb_options_write(result, &exec->result, sizeof exec->result); /* never changes again */
        if (r <= 0)
            return r;
        if (atomic_load(&exec->host->closed))
            return sb_fail_closed(error);
        left = sb_left_ms(deadline);
        if (!left)
            return sb_fail_timeout(error, timeout_ms);
        if (poll(fds, SB_ELEMENTS(fds), left) < 0 && errno != EINTR)
            return sb_fail_errno(error, errno, "poll", "waiting failed");
    }
}

int sandbox_exec_wait(struct sandbox_exec *exec, int64_t timeout_ms, struct sandbox_exec_result *result,
                      struct sandbox_error **error)
{
    struct sandbox_error *failure = NULL;

    return sb_leave(wait_for(exec, timeout_ms, result, &failure), &failure, error, "wait", exec ? exec->host : NULL);
}

static int exec_kill(struct sandbox_exec *exec, int signal, unsigned int flags, struct sandbox_error **error)
{
    int r = sb_exec_check(exec, error);

    if (!r)
        r = sb_check_signal(signal, error);
    if (!r && (flags & ~SANDBOX_KILL_DESCENDANTS))
        r = sb_fail(error, SB_ARGS(SANDBOX_EINVALID, .field = "flags"), "flags has bits that this version does not know");
    if (r)
        return r;
    if (!exec->exec->ops->kill)
        return sb_fail_slot(error, exec->host, "kill", NULL);
    return exec->exec->ops->kill(exec->exec, signal, flags, error);
}

int sandbox_exec_kill(struct sandbox_exec *exec, int signal, unsigned int flags, struct sandbox_error **error)
{
    struct sandbox_error *failure = NULL;

    return sb_leave(exec_kill(exec, signal, flags, &failure), &failure, error, "kill", exec ? exec->host : NULL);
}

static int wait_for_daemon(struct sandbox *sandbox, int64_t timeout_ms, struct sandbox_exec_result *result,
                           struct sandbox_error **error)
{
    struct sandbox_exec *exec = NULL;
    int r = sb_sandbox_check(sandbox, error);

    if (!r)
        r = sb_check_timeout(timeout_ms, "timeout_ms", error);
    if (!r)
        r = exec_attach(sandbox, NULL, &exec, error);
    if (!r)
        r = wait_for(exec, timeout_ms, result, error);
    sandbox_exec_unref(exec);
    return r;
}

int sandbox_wait(struct sandbox *sandbox, int64_t timeout_ms, struct sandbox_exec_result *result, struct sandbox_error **error)
{
    struct sandbox_error *failure = NULL;

    return sb_leave(wait_for_daemon(sandbox, timeout_ms, result, &failure), &failure, error, "wait",
                    sandbox ? sandbox->host : NULL);
}
