/* SPDX-License-Identifier: Apache-2.0
 * See network-watch.h. What comes is from our own program; hosts in it are as the sandbox named them, as far as they are names. */
#include "network-watch.h"
#include "network.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>

#include <proxy-plan.h>

int64_t sb_wall_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

void sb_network_watch_start(struct sb_engine *engine, const char *id, struct sb_network_watch *watch, int epoll, void *data, int history)
{
    struct sb_proxy_request request = { .say = SB_PROXY_WATCH };
    struct epoll_event e = { .events = EPOLLIN, .data.ptr = data };

    sb_network_watch_stop(watch);
    watch->fd = sb_network_connect_proxy(engine, id);
    watch->epoll = epoll;
    watch->since = history ? 0 : sb_wall_ms();
    if (watch->fd < 0)
        return;
    if (send(watch->fd, &request, sizeof request, MSG_NOSIGNAL) < 0 || epoll_ctl(epoll, EPOLL_CTL_ADD, watch->fd, &e) < 0)
        watch->fd = sb_close(watch->fd);
}

void sb_network_watch_stop(struct sb_network_watch *watch)
{
    if (watch->fd >= 0) /* taken off first: a fork of this process keeps it open */
        epoll_ctl(watch->epoll, EPOLL_CTL_DEL, watch->fd, NULL);
    watch->fd = sb_close(watch->fd);
}

int sb_network_watch_next(struct sb_network_watch *watch, struct sb_network_news *ret)
{
    while (watch->fd >= 0) {
        struct sb_proxy_event e;
        ssize_t n = SB_RETRY(recv(watch->fd, &e, sizeof e, MSG_DONTWAIT));

        if (n < 0 && errno == EAGAIN)
            return 0;
        if (n != (ssize_t)sizeof e) {
            sb_network_watch_stop(watch);
            return 0;
        }
        if (e.wall_ms < watch->since)
            continue;
        e.host[sizeof e.host - 1] = e.why[sizeof e.why - 1] = 0;
        ret->type = e.allowed ? "network-allowed" : "network-denied";
        ret->when = e.wall_ms;
        ret->attributes = json_pack("{s:s, s:i, s:s}", "host", e.host, "port", (int)e.port, "cause", e.why);
        return 1;
    }
    return 0;
}
