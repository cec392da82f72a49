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

    if (options->terminal != 0 && options->terminal != 1)
        return sb_fail(error, SB_ARGS(SANDBOX_EINVALID, .field = "terminal"), "terminal is neither 0 nor 1");
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
    pthread_mutex_lock(&exec->lock); /* a detach elsewhere takes the descriptor away */
    r = exec->exec->ops->resize(exec->exec, rows, columns, width, height, error);
    pthread_mutex_unlock(&exec->lock);
    return r;
}

int sandbox_exec_resize_terminal(struct sandbox_exec *exec, int rows, int columns, int width, int height, struct sandbox_error **error)
{
    struct sandbox_error *failure = NULL;

    return sb_leave(resize(exec, rows, columns, width, height, &failure), &failure, error, "terminal", exec ? exec->host : NULL);
}

static int detach(struct sandbox_exec *exec, struct sandbox_error **error)
{
    int r = check_exec(exec, error), fd = -1;

    if (r)
        return r;
    if (!exec->host->driver->ops->terminal_detach)
        return sb_fail_slot(error, exec->host, "terminal_detach", NULL);
    pthread_mutex_lock(&exec->lock);
    fd = SB_TAKE_FD(exec->exec->terminal_fd);
    pthread_mutex_unlock(&exec->lock);
    if (fd < 0)
        return sb_fail(error, SB_ARGS(SANDBOX_EINVALID, .field = "exec"), "the terminal is not here");
    r = exec->host->driver->ops->terminal_detach(exec->host->driver, exec->sandbox_id, exec->id, fd, error);
    pthread_mutex_lock(&exec->lock);
    if (r)
        exec->exec->terminal_fd = SB_TAKE_FD(fd);
    else
        exec->terminal_taken = 0;
    pthread_mutex_unlock(&exec->lock);
    sb_close(fd);
    return r;
}

int sandbox_exec_detach_terminal(struct sandbox_exec *exec, struct sandbox_error **error)
{
    struct sandbox_error *failure = NULL;

    return sb_leave(detach(exec, &failure), &failure, error, "terminal", exec ? exec->host : NULL);
}

static int attach(struct sandbox_exec *exec, int *ret_fd, char **ret_shown, size_t *ret_size, struct sandbox_error **error)
{
    int r = sb_exec_check(exec, error), fd = -1;
    SB_FREE char *shown = NULL;
    SB_CLOSE int copy = -1;
    size_t size = 0;

    if (r)
        return r;
    if (!ret_fd)
        return sb_fail_null(error, "ret_fd");
    if (ret_shown && !ret_size)
        return sb_fail_null(error, "ret_size");
    if (!exec->host->driver->ops->terminal_attach)
        return sb_fail_slot(error, exec->host, "terminal_attach", NULL);
    r = exec->host->driver->ops->terminal_attach(exec->host->driver, exec->sandbox_id, exec->id, &fd, &shown, &size, error);
    if (r)
        return r;
    copy = fcntl(fd, F_DUPFD_CLOEXEC, 3);
    if (copy < 0) { /* nobody shall lose it for our want of descriptors */
        r = sb_fail_errno(error, errno, "terminal", "no descriptor for the terminal");
        exec->host->driver->ops->terminal_detach(exec->host->driver, exec->sandbox_id, exec->id, fd, NULL);
        sb_close(fd);
        return r;
    }
    pthread_mutex_lock(&exec->lock);
    exec->exec->terminal = 1;
    exec->terminal_taken = 1;
    sb_close(exec->exec->terminal_fd);
    exec->exec->terminal_fd = fd;
    pthread_mutex_unlock(&exec->lock);
    *ret_fd = SB_TAKE_FD(copy);
    if (ret_shown) {
        *ret_shown = SB_TAKE_PTR(shown);
        *ret_size = size;
    }
    return 0;
}

int sandbox_exec_attach_terminal(struct sandbox_exec *exec, int *ret_fd, char **ret_shown, size_t *ret_size, struct sandbox_error **error)
{
    struct sandbox_error *failure = NULL;

    return sb_leave(attach(exec, ret_fd, ret_shown, ret_size, &failure), &failure, error, "terminal", exec ? exec->host : NULL);
}
