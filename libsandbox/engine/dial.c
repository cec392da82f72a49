/* SPDX-License-Identifier: Apache-2.0
 * Connections to a sandbox's ports: made by init inside, handed out as a descriptor. Every wait has an end, and an init that has no place for
 * one more caller is asked again until then. */
#include "engine.h"

#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>

#include <errors.h>

enum { MARGIN_MS = 1000 /* init itself says that the time is up */, STEP_MS = 20 };

struct dial {
    struct sb_engine *engine;
    const char *id;
    int port;
    int64_t until; /* -1: never */
};

/* init speaks for the inside: what is no TCP socket could make whoever reads it wait for somebody else. */
static int is_tcp(int fd)
{
    int domain = 0, protocol = 0;
    socklen_t size = sizeof domain;

    return getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &size) == 0 && (domain == AF_INET || domain == AF_INET6) &&
           getsockopt(fd, SOL_SOCKET, SO_PROTOCOL, &protocol, &size) == 0 && protocol == IPPROTO_TCP;
}

static int refused(const struct dial *d, const struct sb_reply *reply, struct sandbox_error **error)
{
    const char *why = strerrordesc_np(reply->sys_errno);

    if (reply->step == SB_STEP_BUSY)
        return sb_fail(error, SB_ARGS(SANDBOX_EBUSY, .sys_errno = reply->sys_errno, .phase = "connect", .retryable = 1),
                       "the sandbox's init has too many callers");
    if (reply->sys_errno == EMFILE || reply->sys_errno == ENFILE || reply->sys_errno == ENOBUFS || reply->sys_errno == ENOMEM)
        return sb_fail(error, SB_ARGS(SANDBOX_ELIMIT, .sys_errno = reply->sys_errno, .phase = "connect", .retryable = 1),
                       "the sandbox's init can make no more connections: %s", why);
    return sb_fail(error,
                   SB_ARGS(reply->sys_errno == ETIMEDOUT ? SANDBOX_ETIMEDOUT : SANDBOX_EIO, .sys_errno = reply->sys_errno,
                           .phase = "connect", .retryable = 1,
                           .hint = "is something listening on this port of the sandbox's loopback yet?"),
                   "port %d does not answer: %s", d->port, why ? why : "?");
}

static int try_once(const struct dial *d, int *ret_fd, struct sandbox_error **error)
{
    int left = sb_left_ms(d->until);
    struct sb_request request = { .type = SB_REQUEST_DIAL, .port = d->port, .timeout_ms = left < 0 ? 0 : left ? left : 1 };
    struct sb_reply reply;
    SB_CLOSE int link = -1, fd = -1;
    int r = sb_link_open(d->engine, d->id, &link, error);

    if (!r)
        r = sb_link_send(link, &request, NULL, NULL, 0, error);
    if (!r)
        r = sb_link_await(link, d->engine->driver.close_fd, left < 0 ? -1 : (int64_t)left + MARGIN_MS, &reply, &fd, error);
    if (r)
        return r;
    if (reply.type == SB_REPLY_FAILED)
        return refused(d, &reply, error);
    if (reply.type != SB_REPLY_DIALED || fd < 0 || !is_tcp(fd))
        return sb_fail(error, SB_ARGS(SANDBOX_EPROTOCOL, .phase = "reply"), "the sandbox's init gave a wrong answer");
    *ret_fd = SB_TAKE_FD(fd);
    return 0;
}

int sb_engine_dial(struct sb_driver *driver, const char *id, int port, int64_t timeout_ms, int *ret_fd,
                   struct sandbox_error **error)
{
    const struct dial d = { .engine = (struct sb_engine *)driver, .id = id, .port = port, .until = sb_deadline(timeout_ms) };
    struct sandbox_error *why = NULL;
    int r;

    for (int wait = 1; (r = try_once(&d, ret_fd, &why)) == SANDBOX_EBUSY && sb_left_ms(d.until) != 0; wait = wait < STEP_MS ? 2 * wait : STEP_MS) {
        struct pollfd closed = { .fd = driver->close_fd, .events = POLLIN };
        int left = sb_left_ms(d.until);

        why = sandbox_error_unref(why);
        if (SB_RETRY(poll(&closed, 1, left >= 0 && left < wait ? left : wait)) > 0)
            return sb_fail(error, SB_ARGS(SANDBOX_ECLOSED, .phase = "connect"), "the host handle was closed");
    }
    if (r == SANDBOX_ELOST) { /* no connection came of it, so nothing is unknown */
        sandbox_error_unref(why);
        return sb_fail(error, SB_ARGS(SANDBOX_ENOTRUNNING, .phase = "connect"), "the sandbox ended");
    }
    if (r && error)
        *error = why;
    else
        sandbox_error_unref(why);
    return r;
}
