/* SPDX-License-Identifier: Apache-2.0
 * Forwards: the library makes the listener, so that an address in use is the caller's error, and starts a helper (agent/forward.h) that carries
 * the connections. The helper outlives stops and starts of the sandbox, and ends with the handle or with this process. Its health is looked up
 * when it is asked for: does the helper live, and does the sandbox's init answer? */
#include "network.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <errors.h>
#include <process.h>

enum { READY_MS = 5000, END_MS = 3000, KILLED_MS = 2000 };

struct local_forward {
    struct sb_forward forward;
    struct sb_engine *engine;
    char id[SB_ID_SIZE];
    int pidfd, control;
    struct sb_forward_page *page;
};

static void reap(const struct local_forward *f)
{
    siginfo_t info;

    waitid(P_PIDFD, (id_t)f->pidfd, &info, WEXITED | WNOHANG | __WALL);
}

static int has_ended(const struct local_forward *f, int timeout_ms)
{
    struct pollfd p = { .fd = f->pidfd, .events = POLLIN };

    return SB_RETRY(poll(&p, 1, timeout_ms)) > 0;
}

/* Its relay dies with a helper that was killed, a moment later, and until then it has the port. */
static void await_port(const struct local_forward *f)
{
    const struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons((uint16_t)f->forward.port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)
    };

    for (int64_t until = sb_now_ms() + KILLED_MS; sb_now_ms() < until; nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL)) {
        SB_CLOSE int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

        if (fd < 0 || (connect(fd, (const struct sockaddr *)&address, sizeof address) < 0 && errno == ECONNREFUSED))
            return;
    }
}

static void forward_free(struct sb_forward *forward)
{
    struct local_forward *f = (struct local_forward *)forward;

    if (f->control >= 0) {
        (void)send(f->control, "e", 1, MSG_NOSIGNAL | MSG_DONTWAIT);
        shutdown(f->control, SHUT_WR);
    }
    if (f->pidfd >= 0) {
        if (!has_ended(f, END_MS)) { /* somebody stopped it */
            syscall(SYS_pidfd_send_signal, f->pidfd, SIGKILL, NULL, 0);
            has_ended(f, KILLED_MS);
            await_port(f);
        }
        reap(f);
    }
    f->control = sb_close(f->control);
    sb_close(f->pidfd);
    if (f->page)
        munmap(f->page, sizeof *f->page);
    free(f);
}

static int64_t read_count(const uint64_t *number)
{
    uint64_t n = __atomic_load_n(number, __ATOMIC_RELAXED);

    return n < INT64_MAX ? (int64_t)n : INT64_MAX;
}

static void say_last_failure(uint32_t step, int sys_errno, char *text, size_t size)
{
    const char *why = strerrordesc_np(sys_errno);

    if (step == SB_STEP_STATE)
        snprintf(text, size, "the sandbox was not running");
    else if (step == SB_STEP_BUSY)
        snprintf(text, size, "the sandbox's init had too many callers");
    else if (step)
        snprintf(text, size, "the port did not answer: %s", why ? why : "?");
}

static int forward_status(struct sb_forward *forward, struct sandbox_forward_status *ret, struct sandbox_error **error)
{
    struct local_forward *f = (struct local_forward *)forward;
    const struct sb_forward_page *page = f->page;
    struct sandbox_error *why = NULL;
    SB_CLOSE int link = -1;

    (void)error;
    ret->accepted = read_count(&page->accepted);
    ret->active = read_count(&page->active);
    ret->failed = read_count(&page->failed);
    ret->bytes_in = read_count(&page->bytes_in);
    ret->bytes_out = read_count(&page->bytes_out);
    say_last_failure(__atomic_load_n(&page->step, __ATOMIC_RELAXED), __atomic_load_n(&page->sys_errno, __ATOMIC_RELAXED),
                     ret->last_failure, sizeof ret->last_failure);
    if (has_ended(f, 0)) {
        reap(f);
        ret->active = 0;
        snprintf(ret->cause, sizeof ret->cause, "its helper process has ended: close it and open another");
        return 0;
    }
    ret->listening = 1;
    switch (sb_link_open(f->engine, f->id, &link, &why)) {
    case 0:
    case SANDBOX_EBUSY: /* it lives, and others ask it, too */
        ret->healthy = 1;
        break;
    default:
        snprintf(ret->cause, sizeof ret->cause, "%s", why ? sandbox_error_get_message(why) : "?");
    }
    sandbox_error_unref(why);
    return 0;
}

static const struct sb_forward_ops forward_ops = { forward_status, forward_free };

/* What the listener is set to is what accepted connections are. */
static int listen_on(int port, int *ret_port, struct sandbox_error **error)
{
    SB_CLOSE int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    struct sockaddr_in address = { .sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr = { htonl(INADDR_LOOPBACK) } };
    socklen_t size = sizeof address;
    /* who vanished without a word after its end is found out in about 90 s */
    const struct {
        int level, name, value;
    } options[] = { { SOL_SOCKET, SO_REUSEADDR, 1 },    { SOL_SOCKET, SO_KEEPALIVE, 1 }, { IPPROTO_TCP, TCP_KEEPIDLE, 60 },
                    { IPPROTO_TCP, TCP_KEEPINTVL, 10 }, { IPPROTO_TCP, TCP_KEEPCNT, 3 }, { IPPROTO_TCP, TCP_NODELAY, 1 } };

    if (fd < 0)
        return sb_fail_errno(error, errno, "listen", "no socket");
    for (size_t i = 0; i < SB_ELEMENTS(options); i++)
        if (setsockopt(fd, options[i].level, options[i].name, &options[i].value, sizeof(int)) < 0)
            return sb_fail_errno(error, errno, "listen", "the listener can't be set up");
    if (bind(fd, (struct sockaddr *)&address, sizeof address) < 0 || listen(fd, SB_FORWARD_CONNECTIONS) < 0) {
        if (errno == EADDRINUSE)
            return sb_fail(error, SB_ARGS(SANDBOX_EBUSY, .sys_errno = errno, .phase = "listen", .field = "local_port", .retryable = 1,
                                          .hint = "choose another, or 0 for any"),
                           "port %d of 127.0.0.1 is in use", port);
        if (errno == EACCES)
            return sb_fail(error, SB_ARGS(SANDBOX_EDENIED, .sys_errno = errno, .phase = "listen", .field = "local_port",
                                          .hint = "choose one of 1024 or more, or 0 for any"),
                           "this process may not listen on port %d", port);
        return sb_fail_errno(error, errno, "listen", "port %d of 127.0.0.1 can't be listened on", port);
    }
    if (getsockname(fd, (struct sockaddr *)&address, &size) < 0)
        return sb_fail_errno(error, errno, "listen", "the listener has no port");
    *ret_port = ntohs(address.sin_port);
    return SB_TAKE_FD(fd);
}

/* Of a fixed size that nobody can change, so that reading it can't fail. */
static int make_page(struct local_forward *f, struct sandbox_error **error)
{
    SB_CLOSE int fd = memfd_create("forward", MFD_CLOEXEC | MFD_ALLOW_SEALING);

    if (fd < 0 || ftruncate(fd, sizeof *f->page) < 0 || fcntl(fd, F_ADD_SEALS, F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW) < 0)
        return sb_fail_errno(error, errno, "forward", "no memory to share with the helper");
    f->page = mmap(NULL, sizeof *f->page, PROT_READ, MAP_SHARED, fd, 0);
    if (f->page == MAP_FAILED) {
        f->page = NULL;
        return sb_fail_errno(error, errno, "forward", "no memory to share with the helper");
    }
    return SB_TAKE_FD(fd);
}

/* given: the process whose end is the forward's; -1: this one, or the handle. */
static int spawn(struct local_forward *f, int given, int port, int listener, int folder, int page, struct sandbox_error **error)
{
    char name[] = "sandbox-agent", mode[] = "forward", text[8];
    char *const argv[] = { name, mode, text, NULL };
    SB_CLOSE int owner = (int)syscall(SYS_pidfd_open, getpid(), 0), theirs = -1;
    struct sb_spawn_fd map[SB_FORWARD_FD_END];
    int program, pair[2], r;

    if (owner < 0 || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        return sb_fail_errno(error, errno, "forward", "the helper can't be prepared");
    f->control = pair[0];
    theirs = pair[1];
    r = sb_engine_program(f->engine, "sandbox-agent", &program, error);
    if (r)
        return r;
    snprintf(text, sizeof text, "%d", port);
    for (int i = 0; i < SB_FORWARD_FD_END; i++)
        map[i] = (struct sb_spawn_fd){ .from = f->engine->null, .to = i };
    map[SB_FORWARD_FD_LISTEN].from = listener;
    map[SB_FORWARD_FD_CONTROL].from = theirs;
    map[SB_FORWARD_FD_OWNER].from = given >= 0 ? given : owner;
    if (given >= 0) /* it holds the other end itself: nobody's closing ends it */
        map[0].from = f->control;
    map[SB_FORWARD_FD_FOLDER].from = folder;
    map[SB_FORWARD_FD_PAGE].from = page;
    r = sb_spawn_watched(program, argv, map, SB_FORWARD_FD_END, NULL, &f->pidfd);
    return r ? sb_fail_errno(error, -r, "forward", "the helper can't be started") : 0;
}

static int await_ready(const struct local_forward *f, struct sandbox_error **error)
{
    struct pollfd p[] = { { .fd = f->control, .events = POLLIN }, { .fd = f->engine->driver.close_fd, .events = POLLIN } };
    char byte;

    if (SB_RETRY(poll(p, 2, READY_MS)) == 0)
        return sb_fail(error, SB_ARGS(SANDBOX_ETIMEDOUT, .sys_errno = ETIMEDOUT, .phase = "forward"), "the helper did not begin in time");
    if (p[1].revents)
        return sb_fail(error, SB_ARGS(SANDBOX_ECLOSED, .phase = "forward"), "the host handle was closed");
    if (sb_recv(f->control, &byte, 1, MSG_DONTWAIT) != 1)
        return sb_fail(error, SB_ARGS(SANDBOX_EIO, .phase = "forward"), "the helper ended early: it was killed, or this kernel refuses its filter");
    return 0;
}

static int open_forward(struct local_forward *f, int owner, int port, int local_port, struct sandbox_error **error)
{
    SB_CLOSE int folder = openat(f->engine->sandboxes, f->id, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    SB_CLOSE int listener = -1, page = -1;
    int r;

    if (folder < 0 && errno == ENOENT)
        return sb_fail(error, SB_ARGS(SANDBOX_ENOTFOUND, .sys_errno = ENOENT, .field = "id"), "there is no sandbox %.12s", f->id);
    if (folder < 0)
        return sb_fail_errno(error, errno, "forward", "the sandbox's folder can't be opened");
    listener = listen_on(local_port, &f->forward.port, error);
    if (listener < 0)
        return listener;
    page = make_page(f, error);
    if (page < 0)
        return page;
    r = spawn(f, owner, port, listener, folder, page, error);
    return r ? r : await_ready(f, error);
}

int sb_engine_forward_open(struct sb_driver *driver, const char *id, int port, int local_port, struct sb_forward **ret_forward,
                           struct sandbox_error **error)
{
    struct local_forward *f = calloc(1, sizeof *f);
    int r;

    if (!f)
        return sb_fail(error, SB_ARGS(SANDBOX_ENOMEM, .sys_errno = ENOMEM), "out of memory");
    *f = (struct local_forward){ .forward = { .ops = &forward_ops }, .engine = (struct sb_engine *)driver, .pidfd = -1, .control = -1 };
    memcpy(f->id, id, SB_ID_SIZE);
    r = open_forward(f, -1, port, local_port, error);
    if (r) {
        forward_free(&f->forward);
        return r;
    }
    *ret_forward = &f->forward;
    return 0;
}

int sb_forward_publish(struct sb_engine *engine, const char *id, int owner, int port, int *local_port, struct sandbox_error **error)
{
    struct local_forward f = { .engine = engine, .pidfd = -1, .control = -1 };
    int r;

    memcpy(f.id, id, SB_ID_SIZE);
    r = open_forward(&f, owner, port, *local_port, error);
    if (r && f.pidfd >= 0)
        syscall(SYS_pidfd_send_signal, f.pidfd, SIGKILL, NULL, 0);
    if (f.pidfd >= 0)
        sb_children_add(engine, f.pidfd);
    sb_close(f.pidfd);
    sb_close(f.control);
    if (f.page)
        munmap(f.page, sizeof *f.page);
    if (!r)
        *local_port = f.forward.port;
    return r;
}
