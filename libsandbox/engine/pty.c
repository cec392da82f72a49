/* SPDX-License-Identifier: Apache-2.0
 * Terminals of commands, as seen from here: the outer end came from inside the sandbox, and is believed to be one only after a look. */
#include "exec.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <errors.h>

enum { ANSWER_MS = 5000 };

#define DEVPTS_MAGIC 0x1cd1

/* All three answers are the kernel's own: no file system of the sandbox's can have a device, or that kind. */
int sb_pty_check(int fd, struct sandbox_error **error)
{
    struct statfs fs;
    struct stat st;
    int number;

    if (fd >= 0 && fstat(fd, &st) == 0 && S_ISCHR(st.st_mode) && fstatfs(fd, &fs) == 0 && fs.f_type == DEVPTS_MAGIC &&
        ioctl(fd, TIOCGPTN, &number) == 0)
        return 0;
    return sb_fail(error, SB_ARGS(SANDBOX_EPROTOCOL, .phase = "terminal"), "the sandbox's init gave something else than a terminal");
}

int sb_pty_resize(struct sb_exec *exec, int rows, int columns, int width, int height, struct sandbox_error **error)
{
    struct winsize size = { (unsigned short)rows, (unsigned short)columns, (unsigned short)width, (unsigned short)height };

    if (exec->terminal_fd < 0)
        return sb_fail(error, SB_ARGS(SANDBOX_EINVALID, .field = "exec", .hint = "who started it has its terminal"),
                       "this handle has no terminal");
    return ioctl(exec->terminal_fd, TIOCSWINSZ, &size) < 0 ? sb_fail_errno(error, errno, "terminal", "the terminal's size can't be set") : 0;
}

static int refused(const struct sb_reply *reply, struct sandbox_error **error)
{
    const char *why = strerrordesc_np(reply->sys_errno);

    switch (reply->sys_errno) {
    case EBUSY:
        return sb_fail(error, SB_ARGS(SANDBOX_EBUSY, .sys_errno = EBUSY, .phase = "terminal", .retryable = 1, .hint = "detach there first"),
                       "somebody is attached to the command's terminal");
    case ENOENT:
        return sb_fail(error, SB_ARGS(SANDBOX_ENOTFOUND, .sys_errno = ENOENT, .phase = "terminal", .field = "exec"),
                       "the command has ended, or has no terminal");
    case ESRCH:
        return sb_fail(error, SB_ARGS(SANDBOX_ENOTRUNNING, .sys_errno = ESRCH, .phase = "terminal"), "the command has ended");
    case EAGAIN:
        return sb_fail(error, SB_ARGS(SANDBOX_ELIMIT, .sys_errno = EAGAIN, .phase = "terminal", .retryable = 1),
                       "%d terminals of this sandbox are left alone: no more", SB_TERMINALS_MAX);
    default:
        return sb_fail(error, SB_ARGS(SANDBOX_EIO, .sys_errno = reply->sys_errno, .phase = "terminal"),
                       "the sandbox's init refuses: %s", why ? why : "?");
    }
}

/* Asks init about the terminal of a command; fd -1: none goes along. */
static int ask(struct sb_engine *engine, const char *exec_id, uint32_t type, int fd, int link, struct sb_reply *ret,
               int *ret_fd, struct sandbox_error **error)
{
    struct sb_request request = { .type = type };
    int r;

    if (sb_exec_id_parse(exec_id, request.exec_id))
        return sb_fail(error, SB_ARGS(SANDBOX_EINTERNAL, .field = "id"), "the exec's id is no id");
    r = sb_link_send(link, &request, NULL, &fd, fd >= 0, error);
    if (!r)
        r = sb_link_await(link, engine->driver.close_fd, ANSWER_MS, ret, ret_fd, error);
    if (!r && ret->type == SB_REPLY_FAILED)
        return refused(ret, error);
    if (!r && ret->type != SB_REPLY_DONE)
        return sb_fail(error, SB_ARGS(SANDBOX_EPROTOCOL, .phase = "reply"), "the sandbox's init gave a wrong answer");
    return r;
}

int sb_engine_terminal_detach(struct sb_driver *driver, const char *id, const char *exec_id, int fd, struct sandbox_error **error)
{
    struct sb_engine *engine = (struct sb_engine *)driver;
    struct sb_reply reply;
    SB_CLOSE int link = -1;
    int r = sb_link_open(engine, id, &link, error);

    return r ? r : ask(engine, exec_id, SB_REQUEST_DETACH, fd, link, &reply, NULL, error);
}

/* What it showed comes behind the answer, in as many messages as it likes. */
static int receive_shown(int link, size_t size, char **ret_shown, struct sandbox_error **error)
{
    int64_t until = sb_deadline(ANSWER_MS);
    SB_FREE char *shown = NULL;
    size_t have = 0;

    if (size > SANDBOX_TERMINAL_KEPT)
        return sb_fail(error, SB_ARGS(SANDBOX_EPROTOCOL, .phase = "reply"), "the sandbox's init gave a wrong answer");
    shown = calloc(1, size + 1);
    if (!shown)
        return sb_fail(error, SB_ARGS(SANDBOX_ENOMEM, .sys_errno = ENOMEM), "out of memory");
    while (have < size) {
        ssize_t n = SB_RETRY(recv(link, shown + have, size - have, MSG_DONTWAIT));

        if (n <= 0 && (n == 0 || errno != EAGAIN || poll(&(struct pollfd){ link, POLLIN, 0 }, 1, sb_left_ms(until)) == 0))
            return sb_fail(error, SB_ARGS(SANDBOX_ELOST, .phase = "reply"), "the sandbox ended");
        have += n > 0 ? (size_t)n : 0;
    }
    *ret_shown = SB_TAKE_PTR(shown);
    return 0;
}

int sb_engine_terminal_attach(struct sb_driver *driver, const char *id, const char *exec_id, int *ret_fd, char **ret_shown, size_t *ret_size,
                              struct sandbox_error **error)
{
    struct sb_engine *engine = (struct sb_engine *)driver;
    SB_CLOSE int link = -1, fd = -1;
    struct sb_reply reply;
    int r = sb_link_open(engine, id, &link, error);

    if (!r)
        r = ask(engine, exec_id, SB_REQUEST_TERMINAL_BACK, -1, link, &reply, &fd, error);
    if (!r && reply.code == 1) { /* it has ended: what reads as its end stands for it */
        sb_close(fd);
        fd = open("/dev/null", O_RDWR | O_CLOEXEC);
        r = fd < 0 ? sb_fail_errno(error, errno, "terminal", "/dev/null can't be opened") : 0;
    } else if (!r) {
        r = sb_pty_check(fd, error);
    }
    if (!r)
        r = receive_shown(link, reply.journal, ret_shown, error);
    if (r)
        return r;
    *ret_size = reply.journal;
    *ret_fd = SB_TAKE_FD(fd);
    return 0;
}
