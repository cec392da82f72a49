/* SPDX-License-Identifier: Apache-2.0
 * See puller.h. The helper is killed and not asked to end: it holds nothing but descriptors, and a file that was cut short is gone on with
 * another time. */
#include "puller.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <errors.h>
#include <process.h>
#include <util.h>

static int watch(int epoll, int fd)
{
    struct epoll_event event = { .events = EPOLLIN, .data.fd = fd };

    return epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) < 0 ? -errno : 0;
}

/* One packet, with a descriptor or without. */
static int send_packet(const struct sb_puller *puller, const void *packet, size_t size, int fd)
{
    char control[CMSG_SPACE(sizeof(int))] = { 0 };
    struct iovec part = { (void *)packet, size };
    struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1 };

    if (fd >= 0) {
        struct cmsghdr *head = (struct cmsghdr *)control;

        message.msg_control = control;
        message.msg_controllen = sizeof control;
        *head = (struct cmsghdr){ .cmsg_len = CMSG_LEN(sizeof fd), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS };
        memcpy(CMSG_DATA(head), &fd, sizeof fd);
    }
    return SB_RETRY(sendmsg(puller->socket, &message, MSG_NOSIGNAL)) == (ssize_t)size ? 0 : -errno;
}

static int spawn(struct sb_puller *puller, int exe, struct sandbox_error **error)
{
    char *const argv[] = { (char[]){ "sandbox-pull" }, NULL };
    SB_CLOSE int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    SB_CLOSE int theirs = -1;
    struct sb_spawn_fd map[3];
    int pair[2], r;

    if (null < 0 || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        return sb_fail_errno(error, errno, "pull", "preparing the pull helper");
    puller->socket = pair[0];
    theirs = pair[1];
    map[0] = (struct sb_spawn_fd){ theirs, SB_PULL_FD_SOCKET };
    map[1] = (struct sb_spawn_fd){ null, 1 };
    map[2] = (struct sb_spawn_fd){ null, 2 };
    r = sb_spawn_watched(exe, argv, map, SB_ELEMENTS(map), NULL, &puller->pidfd);
    if (r)
        return sb_fail(error, SB_ARGS(sb_code_from_errno(-r), .sys_errno = -r, .phase = "pull",
                                      .hint = r == -EACCES || r == -EPERM ? "install the library's programs, or allow vm.memfd_noexec=0" : NULL),
                       "starting the pull helper: %s", strerrordesc_np(-r));
    return 0;
}

int sb_puller_start(struct sb_puller *puller, int exe, int epoll, struct sb_pull_plan *plan, int ca, struct sandbox_error **error)
{
    int r;

    *puller = (struct sb_puller)SB_PULLER_INIT;
    puller->epoll = epoll;
    plan->magic = SB_PULL_MAGIC;
    plan->size = sizeof *plan;
    r = spawn(puller, exe, error);
    if (r)
        return r;
    r = watch(epoll, puller->socket);
    if (!r)
        r = watch(epoll, puller->pidfd);
    if (!r)
        r = send_packet(puller, plan, sizeof *plan, ca);
    return r && r != -EPIPE ? sb_fail_errno(error, -r, "pull", "starting the pull helper") : 0; /* EPIPE: it died; step() finds out */
}

int sb_puller_ask(struct sb_puller *puller, enum sb_pull_kind kind, const char *digest, const char *tag, int64_t length, int64_t max, int fd,
                  size_t *ret_id, struct sandbox_error **error)
{
    struct sb_pull_request request = { .size = sizeof request, .id = (uint32_t)puller->n_items, .kind = kind, .length = length, .max = max };
    struct sb_pull_item *more = reallocarray(puller->items, puller->n_items + 1, sizeof *more);
    int r;

    if (!more)
        return sb_fail(error, SB_ARGS(SANDBOX_ENOMEM, .retryable = 1), "pulling: out of memory");
    puller->items = more;
    more[puller->n_items] = (struct sb_pull_item){ 0 };
    snprintf(request.digest, sizeof request.digest, "%s", digest);
    snprintf(request.tag, sizeof request.tag, "%s", tag);
    r = puller->socket < 0 ? -EPIPE : send_packet(puller, &request, sizeof request, fd);
    if (r && r != -EPIPE)
        return sb_fail_errno(error, -r, "pull", "asking the pull helper");
    *ret_id = puller->n_items++;
    return 0;
}

/* ---- reports */

static int broken(struct sandbox_error **error)
{
    return sb_fail(error, SB_ARGS(SANDBOX_EPROTOCOL, .phase = "pull"), "the pull helper sent a report that makes no sense");
}

static int ends(const char *text, size_t size)
{
    return memchr(text, 0, size) != NULL;
}

/* It comes to people: a helper that strangers have taken over has nothing to say to their terminals. */
static int is_printable(const char *text, size_t size)
{
    for (size_t i = 0; i < size && text[i]; i++)
        if ((unsigned char)text[i] < ' ' || (unsigned char)text[i] > '~')
            return 0;
    return ends(text, size);
}

int sb_puller_parse(struct sb_puller *puller, const void *packet, size_t size, struct sandbox_error **error)
{
    struct sb_pull_report report;
    struct sb_pull_item *item;

    if (size != sizeof report)
        return broken(error);
    memcpy(&report, packet, sizeof report);
    if (report.size != sizeof report || !ends(report.media_type, sizeof report.media_type) || !is_printable(report.hint, sizeof report.hint) ||
        !is_printable(report.message, sizeof report.message) || report.code > 0 || report.code < SANDBOX_ENOTEXECUTABLE || report.done < 0 ||
        report.fetched < 0 || report.sys_errno < 0 || (report.type != SB_PULL_PROGRESS && report.type != SB_PULL_DONE))
        return broken(error);
    if (report.type == SB_PULL_DONE && report.code)
        return sb_fail(error, SB_ARGS(report.code, .sys_errno = report.sys_errno, .phase = "pull", .hint = *report.hint ? report.hint : NULL,
                                      .retryable = report.retryable != 0), "%s", report.message);
    if (report.id >= puller->n_items)
        return broken(error);
    item = &puller->items[report.id];
    if (item->done)
        return broken(error);
    item->size = report.done;
    item->fetched = report.fetched;
    item->done = report.type == SB_PULL_DONE;
    if (item->done)
        memcpy(item->media_type, report.media_type, sizeof item->media_type);
    return 0;
}

/* Its socket has ended, and with it, very soon, itself. */
static int ended(struct sb_puller *puller, struct sandbox_error **error)
{
    siginfo_t info = { 0 };

    puller->socket = sb_close(puller->socket);
    poll(&(struct pollfd){ .fd = puller->pidfd, .events = POLLIN }, 1, 1000);
    if (SB_RETRY(waitid(P_PIDFD, (id_t)puller->pidfd, &info, WEXITED | WNOHANG)) == 0 && info.si_pid)
        puller->pidfd = sb_close(puller->pidfd);
    if (info.si_pid && info.si_code == CLD_EXITED && info.si_status == 127)
        return sb_fail(error, SB_ARGS(SANDBOX_EUNSUPPORTED, .phase = "pull", .hint = "install libcurl (libcurl.so.4) and libjansson"),
                       "the pull helper can't start: a library that it needs is missing");
    if (info.si_pid && info.si_code != CLD_EXITED)
        return sb_fail(error, SB_ARGS(SANDBOX_EIO, .phase = "pull"), "the pull helper was killed by signal %d (%s)", info.si_status,
                       sigabbrev_np(info.si_status) ? sigabbrev_np(info.si_status) : "?");
    return sb_fail(error, SB_ARGS(SANDBOX_EIO, .phase = "pull"), "the pull helper ended without an answer: it was killed or crashed");
}

int sb_puller_step(struct sb_puller *puller, struct sandbox_error **error)
{
    char packet[sizeof(struct sb_pull_report) + 1];

    for (int i = 0; puller->socket >= 0 && i < 256; i++) {
        ssize_t n = SB_RETRY(recv(puller->socket, packet, sizeof packet, MSG_DONTWAIT | MSG_TRUNC));
        int r;

        if (n < 0 && errno == EAGAIN)
            return 0;
        if (n <= 0)
            return ended(puller, error);
        r = sb_puller_parse(puller, packet, (size_t)n < sizeof packet ? (size_t)n : sizeof packet, error);
        if (r)
            return r;
    }
    return 0;
}

void sb_puller_stop(struct sb_puller *puller)
{
    if (puller->pidfd >= 0 && !puller->stopped)
        syscall(SYS_pidfd_send_signal, puller->pidfd, SIGKILL, NULL, 0);
    puller->stopped = 1;
    puller->socket = sb_close(puller->socket);
}

int sb_puller_alive(struct sb_puller *puller)
{
    if (puller->pidfd < 0)
        return 0;
    if (poll(&(struct pollfd){ .fd = puller->pidfd, .events = POLLIN }, 1, 0) == 0)
        return 1;
    SB_RETRY(waitid(P_PIDFD, (id_t)puller->pidfd, &(siginfo_t){ 0 }, WEXITED | WNOHANG));
    puller->pidfd = sb_close(puller->pidfd);
    return 0;
}

void sb_puller_clear(struct sb_puller *puller)
{
    sb_puller_stop(puller);
    if (puller->pidfd >= 0) /* killed a moment ago, and nobody else reaps it */
        poll(&(struct pollfd){ .fd = puller->pidfd, .events = POLLIN }, 1, 1000);
    sb_puller_alive(puller);
    puller->pidfd = sb_close(puller->pidfd);
    free(puller->items);
    *puller = (struct sb_puller)SB_PULLER_INIT;
}
