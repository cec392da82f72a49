/* SPDX-License-Identifier: Apache-2.0
 * Slow steps: an operation is polled beside the signals; what takes longer than a moment shows how far it is, on a terminal. */
#include "tool.h"

#include <poll.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#define SHOW_AFTER_MS 300
#define SHOW_EVERY_MS 200

static int64_t now_ms(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static void show(const struct tool *tool, struct sandbox_op *op)
{
    struct sandbox_progress progress = SANDBOX_PROGRESS_INIT;
    char done[32], total[32];

    if (sandbox_op_get_progress(op, &progress))
        return;
    fprintf(stderr, "\r\033[Ksandbox: %s: %.31s", tool->command, *progress.phase ? progress.phase : "working");
    if (progress.unit == SANDBOX_UNIT_BYTES) {
        fprintf(stderr, " %s", text_bytes(progress.done, done, sizeof done));
        if (progress.total >= 0)
            fprintf(stderr, " of %s", text_bytes(progress.total, total, sizeof total));
    } else if (progress.unit == SANDBOX_UNIT_ENTRIES) {
        fprintf(stderr, " %lld", (long long)progress.done);
        if (progress.total >= 0)
            fprintf(stderr, " of %lld", (long long)progress.total);
    }
    fflush(stderr);
}

int op_drive(struct tool *tool, struct sandbox_op *op, struct signals *signals, struct sandbox_error **error)
{
    int terminal = !tool->json && isatty(STDERR_FILENO), shown = 0, cancelled = 0, r;
    struct pollfd fds[2] = { { .fd = sandbox_op_get_fd(op), .events = POLLIN }, { .fd = -1, .events = POLLIN } };
    int64_t next = now_ms() + SHOW_AFTER_MS;

    if (signals)
        fds[1].fd = signals->fd;
    for (;;) {
        struct sandbox_error *failure = NULL;
        int64_t left = next - now_ms();

        r = sandbox_op_wait(op, 0, &failure);
        if (r != SANDBOX_ETIMEDOUT) {
            if (r)
                *error = failure;
            break;
        }
        sandbox_error_unref(failure);
        if (terminal && left <= 0) {
            show(tool, op);
            shown = 1;
            next = now_ms() + SHOW_EVERY_MS;
            left = SHOW_EVERY_MS;
        }
        poll(fds, 2, terminal ? (int)left : -1);
        if ((fds[1].revents & POLLIN) && signals_read(signals) && !cancelled) {
            sandbox_op_cancel(op);
            cancelled = 1;
        }
    }
    if (shown)
        fputs("\r\033[K", stderr);
    return r;
}

int op_finish(struct tool *tool, struct sandbox_op *op, struct signals *signals, struct sandbox_error **error)
{
    int r = op_drive(tool, op, signals, error);

    sandbox_op_unref(op);
    return r;
}
