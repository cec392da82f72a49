/* SPDX-License-Identifier: Apache-2.0
 * Talking to a sandbox's init over its socket: a connection for each request, with the descriptors attached. What comes back is
 * from our own program, but from within the sandbox: sizes and types are checked before anything is believed. */
#include "engine.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <errors.h>
#include <fs.h>

int sb_link_open(struct sb_engine *engine, const char *id, int *ret_fd, struct sandbox_error **error)
{
    SB_CLOSE int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    struct sockaddr_un address = { .sun_family = AF_UNIX };

    if (fd < 0)
        return sb_fail_errno(error, errno, "connect", "no socket");
    /* through the descriptor, so that the state root's own length never matters */
    if (snprintf(address.sun_path, sizeof address.sun_path, "/proc/self/fd/%d/%s/s", engine->sandboxes, id) >=
        (int)sizeof address.sun_path)
        return sb_fail(error, SB_ARGS(SANDBOX_EINTERNAL), "the socket's path is too long");
    if (SB_RETRY(connect(fd, (struct sockaddr *)&address, sizeof address)) == 0) {
        *ret_fd = SB_TAKE_FD(fd);
        return 0;
    }
    if (errno == ENOENT && faccessat(engine->sandboxes, id, F_OK, AT_SYMLINK_NOFOLLOW) < 0)
        return sb_fail(error, SB_ARGS(SANDBOX_ENOTFOUND, .sys_errno = ENOENT, .field = "id"), "there is no sandbox %.12s", id);
    if (errno == ECONNREFUSED || errno == ENOENT || errno == ENOTDIR || errno == ELOOP) /* the last two: somebody's file instead of a folder */
        return sb_fail(error, SB_ARGS(SANDBOX_ENOTRUNNING, .sys_errno = errno, .phase = "connect", .hint = "start it first"),
                       "the sandbox is not running");
    if (errno == EAGAIN)
        return sb_fail(error, SB_ARGS(SANDBOX_EBUSY, .sys_errno = errno, .phase = "connect", .retryable = 1),
                       "the sandbox's init has too many callers");
    return sb_fail_errno(error, errno, "connect", "the sandbox's init can't be reached");
}

static int blob_memfd(const char *blob, size_t size, struct sandbox_error **error)
{
    SB_CLOSE int fd = memfd_create("request", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    int r = fd < 0 ? -errno : sb_write_all(fd, blob, size);

    if (!r && fcntl(fd, F_ADD_SEALS, F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE) < 0)
        r = -errno;
    return r ? sb_fail_errno(error, -r, "request", "the arguments can't be passed") : SB_TAKE_FD(fd);
}

/* It closed, but not without a word: that it has no place for us, say. The first call may give the error of a connection that was closed with
 * our request unread. */
static int has_answer(int fd)
{
    char byte;

    return SB_RETRY(recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT)) > 0 || SB_RETRY(recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT)) > 0;
}

int sb_link_send(int fd, const struct sb_request *request, const char *blob, const int *fds, size_t n_fds,
                 struct sandbox_error **error)
{
    struct sb_request head = *request;
    SB_CLOSE int memfd = -1;
    int all[4];
    union {
        struct cmsghdr header;
        char space[CMSG_SPACE(sizeof all)];
    } control = { 0 };
    struct iovec iov[2] = { { &head, sizeof head }, { (void *)blob, head.blob_size } };
    struct msghdr msg = { .msg_iov = iov, .msg_iovlen = head.blob_size ? 2 : 1 };
    int64_t until = sb_deadline(5000);

    if (n_fds > 3)
        return sb_fail(error, SB_ARGS(SANDBOX_EINTERNAL), "too many descriptors");
    if (n_fds)
        memcpy(all, fds, n_fds * sizeof *fds);
    if (head.blob_size > SB_REQUEST_INLINE) {
        memfd = blob_memfd(blob, head.blob_size, error);
        if (memfd < 0)
            return memfd;
        all[n_fds++] = memfd;
        head.flags |= SB_REQUEST_BLOB_FD;
        msg.msg_iovlen = 1;
    }
    if (n_fds) {
        struct cmsghdr *c;

        msg.msg_control = control.space;
        msg.msg_controllen = CMSG_SPACE(n_fds * sizeof(int));
        c = CMSG_FIRSTHDR(&msg);
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN(n_fds * sizeof(int));
        memcpy(CMSG_DATA(c), all, n_fds * sizeof(int));
    }
    while (SB_RETRY(sendmsg(fd, &msg, MSG_NOSIGNAL)) < 0) {
        struct pollfd p = { .fd = fd, .events = POLLOUT };

        if (errno == EPIPE || errno == ECONNRESET)
            return has_answer(fd) ? 0
                                  : sb_fail(error, SB_ARGS(SANDBOX_ENOTRUNNING, .sys_errno = EPIPE, .phase = "request"), "the sandbox ended");
        if (errno != EAGAIN || poll(&p, 1, sb_left_ms(until)) == 0)
            return sb_fail_errno(error, errno, "request", "the request can't be sent");
    }
    return 0;
}

/* The buffer for one descriptor has room for a second one, by its alignment. */
int sb_message_fd(struct msghdr *msg)
{
    int first = -1, fd;

    for (struct cmsghdr *c = CMSG_FIRSTHDR(msg); c; c = CMSG_NXTHDR(msg, c)) {
        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
            continue;
        for (size_t at = 0; at + sizeof fd <= c->cmsg_len - CMSG_LEN(0); at += sizeof fd) {
            memcpy(&fd, CMSG_DATA(c) + at, sizeof fd);
            if (first < 0)
                first = fd;
            else
                sb_close(fd);
        }
    }
    return first;
}

int sb_link_await(int fd, int close_fd, int64_t timeout_ms, struct sb_reply *ret, int *ret_fd, struct sandbox_error **error)
{
    union {
        struct cmsghdr header;
        char space[CMSG_SPACE(sizeof(int))];
    } control;
    int64_t until = sb_deadline(timeout_ms);
    int got, reset = 0;

    for (;;) {
        struct iovec iov = { ret, sizeof *ret };
        struct msghdr msg = {
            .msg_iov = &iov, .msg_iovlen = 1, .msg_control = control.space, .msg_controllen = sizeof control.space
        };
        struct pollfd p[] = { { .fd = fd, .events = POLLIN }, { .fd = close_fd, .events = POLLIN } };
        ssize_t n = sb_recvmsg(fd, &msg, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);

        if (n < 0 && errno == EAGAIN) {
            if (SB_RETRY(poll(p, 2, sb_left_ms(until))) > 0 && p[1].revents)
                return sb_fail(error, SB_ARGS(SANDBOX_ECLOSED, .phase = "reply"), "the host handle was closed");
            if (!p[0].revents && sb_left_ms(until) == 0)
                return sb_fail(error, SB_ARGS(SANDBOX_ETIMEDOUT, .sys_errno = ETIMEDOUT, .phase = "reply"),
                               "the sandbox's init did not answer in time");
            continue;
        }
        if (n < 0 && errno == ECONNRESET && !reset) { /* our request was not read; an answer may still be there */
            reset = 1;
            continue;
        }
        if (n <= 0)
            return sb_fail(error, SB_ARGS(SANDBOX_ELOST, .sys_errno = n < 0 ? errno : 0, .phase = "reply"), "the sandbox ended");
        got = sb_message_fd(&msg);
        if (n != (ssize_t)sizeof *ret || (msg.msg_flags & (MSG_TRUNC | MSG_CTRUNC))) {
            sb_close(got);
            return sb_fail(error, SB_ARGS(SANDBOX_EPROTOCOL, .phase = "reply"),
                           "the sandbox's init sent something else than an answer");
        }
        if (ret_fd)
            *ret_fd = got;
        else
            sb_close(got);
        return 0;
    }
}

int sb_link_receive(int fd, int64_t timeout_ms, struct sb_reply *ret, int *ret_fd, struct sandbox_error **error)
{
    return sb_link_await(fd, -1, timeout_ms, ret, ret_fd, error);
}

int sb_link_start_error(const struct sb_reply *reply, const char *command, const char *user, const char *workdir,
                        struct sandbox_error **error)
{
    int e = reply->sys_errno;

    switch (reply->step) {
    case SB_STEP_EXECVE:
        if (e == ENOENT || e == ENOTDIR)
            return sb_fail(error,
                           SB_ARGS(SANDBOX_ENOTFOUND, .sys_errno = e, .phase = "execve", .field = "argv",
                                   .hint = "it is looked for inside the sandbox: in its PATH, or by its path there"),
                           "%s: no such command", command);
        if (e == EAGAIN)
            break;
        return sb_fail(error, SB_ARGS(SANDBOX_ENOTEXECUTABLE, .sys_errno = e, .phase = "execve", .field = "argv"),
                       "%s can't be executed: %s", command, strerrordesc_np(e));
    case SB_STEP_PAUSED:
        return sb_fail(error, SB_ARGS(SANDBOX_EPAUSED, .phase = "start", .hint = "resume it first"), "the sandbox is paused");
    case SB_STEP_USER:
        return sb_fail(error,
                       SB_ARGS(e == ENOENT ? SANDBOX_ENOTFOUND : SANDBOX_EINVALID, .sys_errno = e, .phase = "user",
                               .field = "user",
                               .hint = "names come from the image's own /etc/passwd and /etc/group; numbers always work"),
                       "the user %s is not known in the sandbox", user);
    case SB_STEP_IDS:
    case SB_STEP_GROUPS:
        return sb_fail(error,
                       SB_ARGS(SANDBOX_EUNSUPPORTED, .sys_errno = e, .phase = "user", .field = "user",
                               .hint = "run as root, or give this user ranges in /etc/subuid and /etc/subgid"),
                       "the user %s has an id that can't be mapped here", user);
    case SB_STEP_WORKDIR:
        return sb_fail(error,
                       SB_ARGS(e == ENOENT || e == ENOTDIR ? SANDBOX_ENOTFOUND
                               : e == EXDEV                ? SANDBOX_EINVALID
                                                           : SANDBOX_EDENIED,
                               .sys_errno = e, .phase = "workdir", .field = "workdir"),
                       "the folder %s can't be entered: %s", workdir, e == EXDEV ? "it is outside the root" : strerrordesc_np(e));
    case SB_STEP_STATE:
        return sb_fail(error, SB_ARGS(SANDBOX_ENOTRUNNING, .sys_errno = e, .phase = "state", .hint = "start it first"),
                       "the sandbox is not started");
    case SB_STEP_BUSY:
        return sb_fail(error, SB_ARGS(SANDBOX_ELIMIT, .sys_errno = e, .phase = "state", .retryable = 1),
                       "%d commands run in this sandbox: no more", SB_EXECS_MAX);
    case SB_STEP_DEADLINE:
        return sb_fail(error, SB_ARGS(SANDBOX_ETIMEDOUT, .sys_errno = e, .phase = "execve"), "%s was not executed within 5 s",
                       command);
    case SB_STEP_JOURNAL:
        return sb_fail(error, SB_ARGS(SANDBOX_EBUSY, .sys_errno = e, .phase = "journal", .field = "journal_max", .retryable = 1),
                       "no journal can be begun now: %d commands have one, or the keeper does not keep up", SB_JOURNALS_MAX);
    case SB_STEP_TERMINAL:
        return sb_fail(error,
                       SB_ARGS(e == ENOSPC || e == EMFILE || e == ENFILE ? SANDBOX_ELIMIT : SANDBOX_EIO, .sys_errno = e, .phase = "terminal",
                               .field = "terminal"),
                       "the sandbox gives no terminal: %s", strerrordesc_np(e) ? strerrordesc_np(e) : "?");
    case SB_STEP_DIAL:
        return sb_fail_errno(error, e, "dial", "the port does not answer");
    case SB_STEP_FORK:
        break;
    default:
        return sb_fail(error, SB_ARGS(SANDBOX_EIO, .sys_errno = e, .phase = "start"), "%s was not started: step %u: %s", command,
                       reply->step, strerrordesc_np(e) ? strerrordesc_np(e) : "?");
    }
    return sb_fail(error,
                   SB_ARGS(SANDBOX_ELIMIT, .sys_errno = e, .phase = "fork", .retryable = 1,
                           .hint = "its process or memory limit is reached"),
                   "%s was not started: %s", command, strerrordesc_np(e) ? strerrordesc_np(e) : "?");
}

int sb_blob_make(const char *const *argv, const char *const *env, size_t n_env, const char *user, const char *workdir,
                 struct sb_blob *ret, struct sandbox_error **error)
{
    size_t size = strlen(user) + strlen(workdir) + 2, argc = 0;
    char *at;

    for (; argv && argv[argc]; argc++)
        size += strlen(argv[argc]) + 1;
    for (size_t i = 0; i < n_env; i++)
        size += strlen(env[i]) + 1;
    if (size > SB_REQUEST_BLOB_MAX || argc > 65536 || n_env > 65536)
        return sb_fail(error, SB_ARGS(SANDBOX_ELIMIT, .sys_errno = E2BIG, .field = "argv"),
                       "arguments and environment are too large (8 MiB, 65,536 strings)");
    *ret = (struct sb_blob){ .data = malloc(size), .size = size, .argc = (uint32_t)argc, .envc = (uint32_t)n_env };
    if (!ret->data)
        return sb_fail(error, SB_ARGS(SANDBOX_ENOMEM, .sys_errno = ENOMEM), "out of memory");
    at = ret->data;
    for (size_t i = 0; i < argc; i++)
        at = stpcpy(at, argv[i]) + 1;
    for (size_t i = 0; i < n_env; i++)
        at = stpcpy(at, env[i]) + 1;
    at = stpcpy(at, user) + 1;
    stpcpy(at, workdir);
    return 0;
}

int sb_engine_kill(struct sb_driver *driver, const char *id, int signal, struct sandbox_error **error)
{
    struct sb_request request = { .type = SB_REQUEST_KILL, .signal = signal };
    struct sb_reply reply;
    SB_CLOSE int link = -1;
    int r = sb_link_open((struct sb_engine *)driver, id, &link, error);

    if (!r)
        r = sb_link_send(link, &request, NULL, NULL, 0, error);
    if (!r)
        r = sb_link_receive(link, 5000, &reply, NULL, error);
    if (!r && reply.type == SB_REPLY_FAILED && reply.step == SB_STEP_BUSY)
        return sb_fail(error, SB_ARGS(SANDBOX_EBUSY, .sys_errno = EAGAIN, .phase = "signal", .retryable = 1), "the sandbox's init has too many callers");
    if (!r && reply.type == SB_REPLY_FAILED)
        r = reply.sys_errno == ESRCH
                ? sb_fail(error, SB_ARGS(SANDBOX_ENOTRUNNING, .sys_errno = ESRCH, .phase = "signal"),
                          "no daemon runs in the sandbox")
                : sb_fail(error, SB_ARGS(SANDBOX_EINVALID, .sys_errno = reply.sys_errno, .phase = "signal", .field = "signal"),
                          "the signal can't be sent");
    return r;
}
