/* SPDX-License-Identifier: Apache-2.0
 * Terminals of commands. The handle keeps a copy of the caller's end, for the size: that is why a hang-up needs both to go. */
#include "exec.h"

#include <errno.h>
#include <fcntl.h>

enum { MOST = 65535 };

static int check_range(const char *field, int value, int min, struct sandbox_error **error)
{
    if (value >= min && value <= MOST)
        return 0;
    return sb_fail(error, SB_ARGS(SANDBOX_EINVALID, .field = field), "%s is %d, which is not %d to %d", field, value, min, MOST);
}

int sb_check_terminal(const struct sandbox_exec_options *options, struct sandbox_error **error)
{
    int r;

    if (options->terminal != SANDBOX_TERMINAL_NONE && options->terminal != SANDBOX_TERMINAL_DIRECT)
        return sb_fail(error, SB_ARGS(SANDBOX_EINVALID, .field = "terminal"), "terminal is %d", options->terminal);
    if (options->terminal && options->journal_max)
        return sb_fail(error, SB_ARGS(SANDBOX_EINVALID, .field = "journal_max"), "a command with a terminal has no journal");
    r = check_range("rows", options->rows, 0, error);
    return r ? r : check_range("columns", options->columns, 0, error);
}

static int check_exec(struct sandbox_exec *exec, struct sandbox_error **error)
{
    int r = sb_exec_check(exec, error);

    if (!r && !exec->exec->terminal)
        r = sb_fail(error, SB_ARGS(SANDBOX_EINVALID, .field = "exec", .hint = "set terminal in its sandbox_exec_options"),
                    "this command has no terminal");
    return r;
}

static int take(struct sandbox_exec *exec, int *ret_fd, struct sandbox_error **error)
{
    int r = check_exec(exec, error), fd;

    if (r)
        return r;
    if (!ret_fd)
        return sb_fail_null(error, "ret_fd");
    pthread_mutex_lock(&exec->lock);
    if (exec->exec->terminal_fd < 0 || exec->terminal_taken) {
        r = sb_fail(error, SB_ARGS(SANDBOX_EINVALID, .field = "exec", .hint = exec->attached ? "who started it has its terminal" : NULL),
                    "the terminal is not here, or it was taken");
    } else {
        fd = fcntl(exec->exec->terminal_fd, F_DUPFD_CLOEXEC, 3);
        if (fd < 0) {
            r = sb_fail_errno(error, errno, "terminal", "no descriptor for the terminal");
        } else {
            exec->terminal_taken = 1;
            *ret_fd = fd;
        }
    }
    pthread_mutex_unlock(&exec->lock);
    return r;
}

int sandbox_exec_take_terminal(struct sandbox_exec *exec, int *ret_fd, struct sandbox_error **error)
{
    struct sandbox_error *failure = NULL;

    return sb_leave(take(exec, ret_fd, &failure), &failure, error, "terminal", exec ? exec->host : NULL);
}

static int resize(struct sandbox_exec *exec, int rows, int columns, int width, int height, struct sandbox_error **error)
{
    int r = check_exec(exec, error);

    if (!r)
        r = check_range("rows", rows, 1, error);
    if (!r)
        r = check_range("columns", columns, 1, error);
    if (!r)
        r = check_range("width", width, 0, error);
    if (!r)
        r = check_range("height", height, 0, error);
    if (r)
        return r;
    if (!exec->exec->ops->resize)
        return sb_fail_slot(error, exec->host, "resize", NULL);
    if (sb_exec_collect(exec, NULL) == 0)
        return sb_fail(error, SB_ARGS(SANDBOX_ENOTRUNNING, .phase = "terminal"), "the command has ended");
    return exec->exec->ops->resize(exec->exec, rows, columns, width, height, error);
}

int sandbox_exec_resize_terminal(struct sandbox_exec *exec, int rows, int columns, int width, int height, struct sandbox_error **error)
{
    struct sandbox_error *failure = NULL;

    return sb_leave(resize(exec, rows, columns, width, height, &failure), &failure, error, "terminal", exec ? exec->host : NULL);
}
