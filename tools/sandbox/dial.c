/* SPDX-License-Identifier: Apache-2.0
 * dial: stdin and stdout as a TCP connection to a port in a sandbox. Each direction ends on its own: the end of stdin is a
 * half-close of the connection, the peer's half-close is the end of stdout. Two threads that block, because the flags of stdin
 * and stdout belong to whoever started this process, and a blocked direction must not hold the other up. */
#include "tool.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define BUFFER_SIZE 65536

struct relay {
    int socket;
    int failure; /* errno of the direction that is read by the main thread */
};

/* read(2) from stdin, but ends (0) when the connection is gone in both directions. */
static ssize_t read_stdin(const struct relay *relay, char *buffer)
{
    struct pollfd fds[2] = { { .fd = STDIN_FILENO, .events = POLLIN }, { .fd = relay->socket, .events = 0 } };

    for (;;) {
        ssize_t n;

        if (poll(fds, 2, -1) < 0 && errno != EINTR)
            return -1;
        if (fds[1].revents & (POLLERR | POLLHUP))
            return 0;
        if (!fds[0].revents)
            continue;
        n = read(STDIN_FILENO, buffer, BUFFER_SIZE);
        if (n >= 0 || errno != EINTR)
            return n;
    }
}

static void *send_stdin(void *data)
{
    struct relay *relay = data;
    char *buffer = tool_allocate(1, BUFFER_SIZE);
    ssize_t n;

    while ((n = read_stdin(relay, buffer)) > 0)
        if (write_whole(relay->socket, buffer, (size_t)n))
            break;
    shutdown(relay->socket, SHUT_WR);
    tool_cleanup_free(&buffer);
    return NULL;
}

/* From the connection to stdout. When nobody reads stdout any more the peer is told so by a reset of what it sends. */
static void receive(struct relay *relay)
{
    char *buffer = tool_allocate(1, BUFFER_SIZE);
    int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
    ssize_t n;

    for (;;) {
        n = read(relay->socket, buffer, BUFFER_SIZE);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            relay->failure = errno;
        if (n <= 0)
            break;
        if (write_whole(STDOUT_FILENO, buffer, (size_t)n)) {
            shutdown(relay->socket, SHUT_RD);
            break;
        }
    }
    /* the end of stdout for its reader; the number stays taken, so that nothing else gets it */
    if (null >= 0) {
        dup3(null, STDOUT_FILENO, 0);
        close(null);
    }
    tool_cleanup_free(&buffer);
}

static int relay_both(struct tool *tool, int fd)
{
    struct relay relay = { .socket = fd };
    pthread_t thread;
    int r = pthread_create(&thread, NULL, send_stdin, &relay);

    if (r)
        return report(tool, SANDBOX_EIO, "", NULL, "starting a thread: %s", strerror(r));
    receive(&relay);
    pthread_join(thread, NULL);
    if (relay.failure)
        return report(tool, SANDBOX_EIO, "", NULL, "the connection broke: %s", strerror(relay.failure));
    return 0;
}

int command_dial(struct tool *tool, const struct arguments *arguments)
{
    struct sandbox *sandbox = NULL;
    struct sandbox_error *error = NULL;
    int64_t port;
    int fd = -1, status;

    if (value_count(arguments->operands[1], &port) || port < 1 || port > 65535)
        return report(tool, SANDBOX_EINVALID, "port", "a number from 1 to 65535", "\"%s\" is no port", arguments->operands[1]);
    status = tool_open_host(tool);
    if (!status)
        status = tool_open_sandbox(tool, arguments->operands[0], &sandbox);
    if (!status && sandbox_dial(sandbox, (int)port, 10000, &fd, &error))
        status = report_error(tool, error);
    sandbox_unref(sandbox);
    if (status)
        return status;
    status = relay_both(tool, fd);
    close(fd);
    return status;
}
