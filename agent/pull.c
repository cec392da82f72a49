/* SPDX-License-Identifier: Apache-2.0
 * The pull helper's loop: see pull.h. It waits for requests and for the network at once, and ends with its socket. */
#include "pull.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <fs.h>
#include <util.h>

enum { REQUESTS_MAX = 1024, CA_MAX = 4 << 20, PROGRESS_MS = 100 };

static struct pull_session session;
static struct pull_transfer *transfers;
static size_t n_transfers;

int64_t pull_now_ms(void)
{
    return sb_now_ms();
}

/* The library gone: nothing of this is wanted any more. */
static void send_report(const struct sb_pull_report *report)
{
    if (SB_RETRY(send(SB_PULL_FD_SOCKET, report, sizeof *report, MSG_NOSIGNAL)) < 0)
        _exit(0);
}

static void report_failure(uint32_t id, const struct pull_failure *failure)
{
    struct sb_pull_report report = {
        .size = sizeof report, .type = SB_PULL_DONE, .id = id, .code = failure->code, .sys_errno = failure->sys_errno,
        .retryable = (uint32_t)failure->retryable,
    };

    memcpy(report.hint, failure->hint, sizeof report.hint);
    memcpy(report.message, failure->message, sizeof report.message);
    send_report(&report);
}

/* ---- packets */

/* -1: none now. A descriptor comes with it, or -1. */
static ssize_t receive(void *packet, size_t size, int flags, int *ret_fd)
{
    char control[CMSG_SPACE(sizeof(int))];
    struct iovec part = { packet, size };
    struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control };
    ssize_t n = SB_RETRY(recvmsg(SB_PULL_FD_SOCKET, &message, flags | MSG_CMSG_CLOEXEC));
    struct cmsghdr *head = n > 0 ? CMSG_FIRSTHDR(&message) : NULL;

    *ret_fd = -1;
    if (n < 0 && errno == EAGAIN)
        return -1;
    if (n <= 0)
        _exit(0);
    if (head && head->cmsg_level == SOL_SOCKET && head->cmsg_type == SCM_RIGHTS && head->cmsg_len == CMSG_LEN(sizeof(int)))
        memcpy(ret_fd, CMSG_DATA(head), sizeof(int));
    return n;
}

static int take_plan(void)
{
    int fd, r;

    if (receive(&session.plan, sizeof session.plan, 0, &fd) != (ssize_t)sizeof session.plan || session.plan.magic != SB_PULL_MAGIC ||
        session.plan.size != sizeof session.plan)
        return -1;
    session.https = !(session.plan.flags & SB_PULL_PLAIN);
    session.scheme_known = !session.https;
    if (!(session.plan.flags & SB_PULL_CA))
        return 0;
    r = fd < 0 ? -1 : sb_read_fd(fd, CA_MAX, &session.ca, &session.ca_size);
    sb_close(fd);
    return r;
}

/* ---- transfers */

static struct pull_transfer **place_of(const struct pull_transfer *transfer)
{
    struct pull_transfer **at = &transfers;

    while (*at != transfer)
        at = &(*at)->next;
    return at;
}

static void end_transfer(struct pull_transfer *transfer, int code)
{
    struct sb_pull_report report = {
        .size = sizeof report, .type = SB_PULL_DONE, .id = transfer->request.id, .done = transfer->have, .fetched = transfer->fetched,
    };

    if (code) {
        transfer->failure.code = code;
        report_failure(transfer->request.id, &transfer->failure);
    } else {
        snprintf(report.media_type, sizeof report.media_type, "%s", transfer->media_type);
        send_report(&report);
    }
    *place_of(transfer) = transfer->next;
    n_transfers--;
    curl_easy_cleanup(transfer->easy);
    curl_slist_free_all(transfer->headers);
    close(transfer->fd);
    free(transfer);
}

static int running(void)
{
    int n = 0;

    for (const struct pull_transfer *t = transfers; t; t = t->next)
        n += t->state == PULL_RUNNING;
    return n;
}

/* Oldest first: lower layers are wanted sooner. */
static void start_some(void)
{
    int n = running();

    for (struct pull_transfer *t = transfers, *next; t; t = next) {
        int r = 0;

        next = t->next;
        if (t->state == PULL_RUNNING || n >= (int)session.plan.parallel || (t->state == PULL_WAITING && sb_now_ms() < t->again_ms))
            continue;
        if (t->state == PULL_IDLE) {
            r = pull_transfer_prepare(t);
            if (!r && t->request.length >= 0 && t->have == t->request.length) {
                r = pull_transfer_verify(t);
                if (r <= 0)
                    end_transfer(t, r);
                n += r > 0;
                continue;
            }
        }
        r = r ? r : pull_transfer_begin(t);
        if (r)
            end_transfer(t, r);
        else
            n++;
    }
}

static void take_request(const struct sb_pull_request *request, int fd)
{
    struct pull_transfer *transfer = calloc(1, sizeof *transfer), **last = &transfers;

    if (!transfer || fd < 0 || request->size != sizeof *request || n_transfers >= REQUESTS_MAX)
        _exit(1);
    *transfer = (struct pull_transfer){ .session = &session, .request = *request, .fd = fd };
    while (*last)
        last = &(*last)->next;
    *last = transfer;
    n_transfers++;
}

static void take_requests(void)
{
    struct sb_pull_request request;
    ssize_t n;
    int fd;

    while ((n = receive(&request, sizeof request, MSG_DONTWAIT, &fd)) >= 0) {
        if (n != (ssize_t)sizeof request)
            _exit(1);
        take_request(&request, fd);
    }
}

static void take_finished(void)
{
    CURLMsg *message;
    int left;

    while ((message = curl_multi_info_read(session.multi, &left))) {
        struct pull_transfer *transfer = NULL;
        CURLcode result = message->data.result;
        int r;

        if (message->msg != CURLMSG_DONE)
            continue;
        curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &transfer);
        transfer->state = PULL_IDLE;
        r = pull_transfer_done(transfer, result);
        if (r <= 0)
            end_transfer(transfer, r);
    }
}

static void report_progress(void)
{
    static int64_t last;

    if (sb_now_ms() - last < PROGRESS_MS)
        return;
    last = sb_now_ms();
    for (struct pull_transfer *t = transfers; t; t = t->next) {
        struct sb_pull_report report = { .size = sizeof report, .type = SB_PULL_PROGRESS, .id = t->request.id, .done = t->have, .fetched = t->fetched };

        if (t->have == t->reported)
            continue;
        t->reported = t->have;
        send_report(&report);
    }
}

static int wait_ms(void)
{
    int64_t wait = transfers ? PROGRESS_MS : 60000, now = sb_now_ms();

    for (const struct pull_transfer *t = transfers; t; t = t->next)
        if (t->state == PULL_WAITING)
            wait = t->again_ms - now < wait ? (t->again_ms > now ? t->again_ms - now : 0) : wait;
    return (int)wait;
}

static _Noreturn void serve(void)
{
    for (;;) {
        struct curl_waitfd socket = { .fd = SB_PULL_FD_SOCKET, .events = CURL_WAIT_POLLIN };
        int left;

        take_requests();
        start_some();
        curl_multi_perform(session.multi, &left);
        take_finished();
        report_progress();
        curl_multi_poll(session.multi, &socket, 1, wait_ms(), NULL);
    }
}

int main(void)
{
    struct pull_failure failure = { 0 };
    const char *what = "";
    int r;

    prctl(PR_SET_NAME, "sandbox-pull");
    syscall(SYS_close_range, SB_PULL_FD_END, ~0u, 0);
    signal(SIGPIPE, SIG_IGN);
    if (take_plan() < 0)
        _exit(2);
    mlock(&session.plan.secret, sizeof session.plan.secret); /* where it may */
    if (curl_global_init(CURL_GLOBAL_DEFAULT) || !(session.multi = curl_multi_init()))
        _exit(2);
    curl_multi_setopt(session.multi, CURLMOPT_MAX_HOST_CONNECTIONS, (long)session.plan.parallel);
    r = pull_confine(&session.plan, &what);
    if (r) {
        pull_fail(&failure, SANDBOX_EDENIED, NULL, "the pull helper can't give up its %s: %s", what, strerrordesc_np(-r));
        failure.sys_errno = -r;
        report_failure(0, &failure);
        _exit(2);
    }
    serve();
}
