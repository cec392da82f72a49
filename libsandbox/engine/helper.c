/* SPDX-License-Identifier: Apache-2.0
 * See helper.h. The end is learned by the socket's end and then by the pidfd, never by waiting for a pid: the host program
 * may ignore SIGCHLD, or wait for any child. */
#include "helper.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <errors.h>
#include <process.h>
#include <util.h>

enum { DOCUMENT_MAX = 4 << 20, MEMBERS_MAX = 16384, STOP_SECONDS = 5, PACKETS_A_STEP = 64, CLEAR_MS = 500 };

/* ---- records */

static int broken(struct sandbox_error **error)
{
    return sb_fail(error, SB_ARGS(SANDBOX_EPROTOCOL), "the unpack helper sent a record that makes no sense");
}

static int add_document(struct sb_helper *helper, const char *data, size_t size, struct sandbox_error **error)
{
    if (size > SB_UNPACK_CHUNK || size > DOCUMENT_MAX - helper->document_size)
        return broken(error);
    if (helper->document_size + size + 1 > helper->document_room) {
        size_t room = (helper->document_size + size + 1) * 2;
        char *more = realloc(helper->document, room);

        if (!more)
            return sb_fail(error, SB_ARGS(SANDBOX_ENOMEM, .retryable = 1), "reading a document: out of memory");
        helper->document = more;
        helper->document_room = room;
    }
    memcpy(helper->document + helper->document_size, data, size);
    helper->document_size += size;
    helper->document[helper->document_size] = 0;
    return 0;
}

/* Plain relative names only: they are looked up, never opened. */
static int is_name(const char *text, size_t size)
{
    return size > 0 && size < 4096 && !memchr(text, 0, size);
}

static int add_member(struct sb_helper *helper, const char *packet, size_t size, struct sandbox_error **error)
{
    struct sb_unpack_member record;
    struct sb_member *member;
    const char *name = packet + sizeof record;

    if (size < sizeof record)
        return broken(error);
    memcpy(&record, packet, sizeof record);
    if (sizeof record + record.name_length + record.link_length != size || !is_name(name, record.name_length) ||
        helper->n_members >= MEMBERS_MAX || record.offset < 0 || record.length < 0)
        return broken(error);
    if (record.type == SB_UNPACK_MEMBER_LINK ? !is_name(name + record.name_length, record.link_length)
                                             : (record.type != SB_UNPACK_MEMBER_FILE && record.type != SB_UNPACK_MEMBER_IMPLIED) || record.link_length)
        return broken(error);
    if (helper->n_members == helper->members_room) {
        size_t room = helper->members_room ? helper->members_room * 2 : 64;
        struct sb_member *more = reallocarray(helper->members, room, sizeof *more);

        if (!more)
            return sb_fail(error, SB_ARGS(SANDBOX_ENOMEM, .retryable = 1), "reading a table of contents: out of memory");
        helper->members = more;
        helper->members_room = room;
    }
    member = &helper->members[helper->n_members];
    *member = (struct sb_member){ .is_implied = record.type == SB_UNPACK_MEMBER_IMPLIED, .offset = record.offset, .length = record.length };
    member->name = strndup(name, record.name_length);
    if (record.link_length)
        member->link = strndup(name + record.name_length, record.link_length);
    helper->n_members++;
    if (!member->name || (record.link_length && !member->link))
        return sb_fail(error, SB_ARGS(SANDBOX_ENOMEM, .retryable = 1), "reading a table of contents: out of memory");
    return 0;
}

static int ends(const char *text, size_t size)
{
    return memchr(text, 0, size) != NULL;
}

static int is_digest_or_empty(const char *text)
{
    return !text[0] || (!strncmp(text, "sha256:", 7) && sb_id_valid(text + 7));
}

static int take_result(struct sb_helper *helper, const char *packet, size_t size, struct sandbox_error **error)
{
    struct sb_unpack_result *result = &helper->result;

    if (size != sizeof *result)
        return broken(error);
    if (helper->answered)
        return 0; /* the first one counts: after a failure the other worker may complain too */
    memcpy(result, packet, sizeof *result);
    if (!ends(result->digest, sizeof result->digest) || !ends(result->diff_id, sizeof result->diff_id) ||
        !ends(result->hint, sizeof result->hint) || !ends(result->message, sizeof result->message) ||
        !is_digest_or_empty(result->digest) || !is_digest_or_empty(result->diff_id) || result->code > 0 ||
        result->code < SANDBOX_EPAUSED || result->bytes < 0 || result->entries < 0 || result->skipped < 0 ||
        result->xattrs_skipped < 0 || result->source_bytes < 0 || result->stream_bytes < 0)
        return broken(error);
    helper->answered = 1;
    return 0;
}

int sb_helper_parse(struct sb_helper *helper, const void *packet, size_t size, struct sandbox_error **error)
{
    struct sb_unpack_head head;

    if (size < sizeof head)
        return broken(error);
    memcpy(&head, packet, sizeof head);
    if (head.size != size)
        return broken(error);
    switch (head.type) {
    case SB_UNPACK_PROGRESS:
        if (size != sizeof helper->progress)
            return broken(error);
        memcpy(&helper->progress, packet, size);
        return 0;
    case SB_UNPACK_DATA:
        return add_document(helper, (const char *)packet + sizeof head, size - sizeof head, error);
    case SB_UNPACK_MEMBER:
        return add_member(helper, packet, size, error);
    case SB_UNPACK_RESULT:
        return take_result(helper, packet, size, error);
    default:
        return broken(error);
    }
}

/* ---- the process */

static int watch(int epoll, int fd)
{
    struct epoll_event event = { .events = EPOLLIN, .data.fd = fd };

    return epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) < 0 ? -errno : 0;
}

/* What the helper has as stdout and stderr: the C library writes there when it aborts. */
static int open_null(void)
{
    int fd = open("/dev/null", O_RDWR | O_CLOEXEC);

    return fd >= 0 ? fd : memfd_create("null", MFD_CLOEXEC);
}

static int spawn(struct sb_helper *helper, int exe, const int fds[3], struct sandbox_error **error)
{
    static const int numbers[3] = { SB_UNPACK_FD_SOURCE, SB_UNPACK_FD_DEST, SB_UNPACK_FD_PARENT };
    char *const argv[] = { (char[]){ "sandbox-unpack" }, NULL };
    struct sb_spawn_fd map[6];
    SB_CLOSE int null = open_null();
    SB_CLOSE int theirs = -1;
    int pair[2], r;
    size_t n = 0;

    if (null < 0 || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        return sb_fail_errno(error, errno, "unpack", "preparing the unpack helper");
    helper->socket = pair[0];
    theirs = pair[1];
    map[n++] = (struct sb_spawn_fd){ theirs, SB_UNPACK_FD_SOCKET };
    map[n++] = (struct sb_spawn_fd){ null, 1 };
    map[n++] = (struct sb_spawn_fd){ null, 2 };
    for (size_t i = 0; i < 3; i++)
        if (fds[i] >= 0)
            map[n++] = (struct sb_spawn_fd){ fds[i], numbers[i] };
    r = sb_spawn_watched(exe, argv, map, n, NULL, &helper->pidfd);
    if (r)
        return sb_fail(error, SB_ARGS(sb_code_from_errno(-r), .sys_errno = -r, .phase = "unpack",
                                      .hint = r == -EACCES || r == -EPERM ? "install the library's programs, or allow vm.memfd_noexec=0" : NULL),
                       "starting the unpack helper: %s", strerrordesc_np(-r));
    return 0;
}

int sb_helper_start(struct sb_helper *helper, int exe, int epoll, struct sb_unpack_plan *plan, int source, int dest, int parent,
                    struct sandbox_error **error)
{
    int r;

    *helper = (struct sb_helper)SB_HELPER_INIT;
    helper->epoll = epoll;
    plan->magic = SB_UNPACK_MAGIC;
    plan->size = sizeof *plan;
    r = spawn(helper, exe, (const int[3]){ source, dest, parent }, error);
    if (r) {
        sb_helper_clear(helper);
        return r;
    }
    r = watch(epoll, helper->socket);
    if (!r && SB_RETRY(send(helper->socket, plan, sizeof *plan, MSG_NOSIGNAL)) != (ssize_t)sizeof *plan && errno != EPIPE)
        r = -errno; /* EPIPE: it died; step() finds out */
    if (r) {
        sb_helper_clear(helper);
        return sb_fail_errno(error, -r, "unpack", "starting the unpack helper");
    }
    return 0;
}

static int receive(struct sb_helper *helper, struct sandbox_error **error)
{
    SB_FREE char *packet = malloc(SB_UNPACK_PACKET_MAX);

    if (!packet)
        return sb_fail(error, SB_ARGS(SANDBOX_ENOMEM, .retryable = 1), "reading the unpack helper's records: out of memory");
    for (int i = 0; i < PACKETS_A_STEP; i++) {
        ssize_t n = sb_recv(helper->socket, packet, SB_UNPACK_PACKET_MAX, MSG_DONTWAIT | MSG_TRUNC);
        int r;

        if (n < 0 && errno == EAGAIN)
            return 0;
        if (n <= 0) { /* ECONNRESET: it died with something unread, which says the same as an end */
            helper->socket = sb_close(helper->socket);
            if (helper->pidfd >= 0 && watch(helper->epoll, helper->pidfd) < 0)
                helper->pidfd = sb_close(helper->pidfd);
            return 0;
        }
        if (helper->stopping)
            continue;
        r = n > SB_UNPACK_PACKET_MAX ? broken(error) : sb_helper_parse(helper, packet, (size_t)n, error);
        if (r)
            return r;
    }
    return 0;
}

/* The outcome, once it has ended. `info` is empty when somebody else reaped it. */
static int conclude(struct sb_helper *helper, const siginfo_t *info, struct sandbox_error **error)
{
    const struct sb_unpack_result *result = &helper->result;

    if (helper->stopping)
        return sb_fail(error, SB_ARGS(SANDBOX_ECANCELLED), "the unpack helper was stopped");
    if (helper->answered && result->code == 0)
        return 0;
    if (helper->answered)
        return sb_fail(error, SB_ARGS(result->code, .sys_errno = result->sys_errno, .phase = "unpack", .hint = result->hint), "%s",
                       result->message);
    if (info->si_pid && (info->si_code == CLD_KILLED || info->si_code == CLD_DUMPED))
        return sb_fail(error, SB_ARGS(SANDBOX_EIO, .phase = "unpack"), "the unpack helper was killed by signal %d (%s)", info->si_status,
                       sigabbrev_np(info->si_status) ? sigabbrev_np(info->si_status) : "?");
    return sb_fail(error, SB_ARGS(SANDBOX_EIO, .phase = "unpack"), "the unpack helper ended without an answer: it was killed or crashed");
}

int sb_helper_step(struct sb_helper *helper, struct sandbox_error **error)
{
    siginfo_t info = { 0 };
    struct pollfd fd;

    if (helper->socket >= 0) {
        int r = receive(helper, error);

        if (r) {
            sb_helper_stop(helper);
            return r;
        }
    }
    if (helper->timer >= 0) {
        fd = (struct pollfd){ .fd = helper->timer, .events = POLLIN };
        if (poll(&fd, 1, 0) > 0) /* stuck in a system call, as on a dead network mount: it ends when that does */
            return sb_fail(error, SB_ARGS(SANDBOX_ECANCELLED), "the unpack helper was stopped and has not ended yet");
    }
    if (helper->socket >= 0)
        return 1;
    if (helper->pidfd >= 0) {
        fd = (struct pollfd){ .fd = helper->pidfd, .events = POLLIN };
        if (poll(&fd, 1, 0) == 0)
            return 1;
        if (SB_RETRY(waitid(P_PIDFD, (id_t)helper->pidfd, &info, WEXITED | WNOHANG)) < 0)
            info.si_pid = 0;
        helper->pidfd = sb_close(helper->pidfd);
    }
    return conclude(helper, &info, error);
}

void sb_helper_stop(struct sb_helper *helper)
{
    const struct itimerspec after = { .it_value.tv_sec = STOP_SECONDS };

    if (helper->stopping || (helper->socket < 0 && helper->pidfd < 0))
        return;
    helper->stopping = 1;
    if (helper->socket >= 0)
        shutdown(helper->socket, SHUT_WR);
    helper->timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    if (helper->timer >= 0 && (timerfd_settime(helper->timer, 0, &after, NULL) < 0 || watch(helper->epoll, helper->timer) < 0))
        helper->timer = sb_close(helper->timer);
}

void sb_helper_clear(struct sb_helper *helper)
{
    helper->socket = sb_close(helper->socket);
    /* who was just told to end, by the socket, is given the time to: nobody else reaps it. Who doesn't (it is stuck in a system call, or was taken
     * over by what it reads) is killed, and left to the host program's parentage when even that takes long */
    if (helper->pidfd >= 0) {
        struct pollfd fd = { .fd = helper->pidfd, .events = POLLIN };

        if (poll(&fd, 1, CLEAR_MS) == 0) {
            syscall(SYS_pidfd_send_signal, helper->pidfd, SIGKILL, NULL, 0);
            poll(&fd, 1, CLEAR_MS);
        }
        waitid(P_PIDFD, (id_t)helper->pidfd, &(siginfo_t){ 0 }, WEXITED | WNOHANG);
    }
    helper->pidfd = sb_close(helper->pidfd);
    helper->timer = sb_close(helper->timer);
    for (size_t i = 0; i < helper->n_members; i++) {
        free(helper->members[i].name);
        free(helper->members[i].link);
    }
    free(helper->members);
    free(helper->document);
    *helper = (struct sb_helper)SB_HELPER_INIT;
}
