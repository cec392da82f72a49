/* SPDX-License-Identifier: Apache-2.0
 * See forward.h. Every call on a socket says MSG_DONTWAIT itself: the description of the one that came from inside is shared with who sent it,
 * and its flags are not ours alone. That is also why bytes are copied and not spliced: splice(2) from a socket waits as the flags say. */
#include "forward.h"

#include <errno.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <util.h>

enum { TURNS = 4 }; /* buffers a direction moves before others have their turn */

void ag_pair_event(struct ag_pair *pair, int side, uint32_t events)
{
    if (events & (EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR))
        pair->readable[side] = 1;
    if (events & (EPOLLOUT | EPOLLHUP | EPOLLERR))
        pair->writable[side] = 1;
    if (events & EPOLLERR)
        pair->failed[side] = 1;
}

/* Takes what was sent on out of the queue it came from. TCP throws it away without copying; other sockets copy it into the buffer. */
static int discard(int fd, char *buffer, size_t n)
{
    while (n > 0) {
        ssize_t r = SB_RETRY(recv(fd, buffer, n, MSG_DONTWAIT | MSG_TRUNC));

        if (r <= 0)
            return -1; /* it was there a moment ago */
        n -= (size_t)r < n ? (size_t)r : n;
    }
    return 0;
}

static enum ag_pair_state end_of(struct ag_pair *pair, int from)
{
    pair->ended[from] = 1;
    if (pair->deaf[from]) /* it was reset: the error was told to who sent to it, and this is no end in order */
        return AG_PAIR_BROKEN;
    if (!pair->deaf[!from] && shutdown(pair->fd[!from], SHUT_WR) < 0)
        return AG_PAIR_BROKEN;
    return AG_PAIR_WAITS;
}

static int is_exhausted(const struct ag_pair *pair, int from)
{
    return pair->bounded[from] && !pair->left[from];
}

static enum ag_pair_state move(struct ag_pair *pair, int from, char *buffer, size_t size)
{
    int to = !from;

    if (pair->ended[from]) /* nothing more is read from it, so an error is all that can come */
        return pair->failed[from] ? AG_PAIR_BROKEN : AG_PAIR_WAITS;
    if (is_exhausted(pair, from))
        return pair->failed[from] ? AG_PAIR_BROKEN : AG_PAIR_WAITS;
    for (int turn = 0; turn < TURNS; turn++) {
        ssize_t n, sent;

        if (!pair->readable[from])
            return AG_PAIR_WAITS;
        if (!pair->writable[to]) /* for who is gone nobody waits: else a side that never reads could keep what is dead for ever */
            return pair->failed[from] || pair->deaf[from] ? AG_PAIR_BROKEN : AG_PAIR_WAITS;
        if (is_exhausted(pair, from))
            return AG_PAIR_WAITS;
        n = SB_RETRY(recv(pair->fd[from], buffer, pair->bounded[from] && pair->left[from] < size ? pair->left[from] : size, MSG_PEEK | MSG_DONTWAIT));
        if (n < 0 && errno == EAGAIN) {
            pair->readable[from] = 0;
            return AG_PAIR_WAITS;
        }
        if (n < 0)
            return AG_PAIR_BROKEN;
        if (n == 0)
            return end_of(pair, from);
        sent = SB_RETRY(send(pair->fd[to], buffer, (size_t)n, MSG_DONTWAIT | MSG_NOSIGNAL));
        if (sent < 0 && errno == EAGAIN) {
            pair->writable[to] = 0;
            continue;
        }
        if (sent < 0) { /* nobody takes it; but what that side said before its end is still to be passed on */
            pair->deaf[to] = 1;
            pair->ended[from] = 1;
            return AG_PAIR_WAITS;
        }
        pair->moved[from] += (uint64_t)sent;
        pair->left[from] -= pair->bounded[from] ? (uint64_t)sent : 0;
        if (discard(pair->fd[from], buffer, (size_t)sent) < 0)
            return AG_PAIR_BROKEN;
    }
    return AG_PAIR_GOES_ON;
}

enum ag_pair_state ag_pair_move(struct ag_pair *pair, char *buffer, size_t size)
{
    enum ag_pair_state first = move(pair, 0, buffer, size), second;

    if (first == AG_PAIR_BROKEN)
        return first;
    second = move(pair, 1, buffer, size);
    if (second == AG_PAIR_BROKEN)
        return second;
    if ((pair->ended[0] || is_exhausted(pair, 0)) && (pair->ended[1] || is_exhausted(pair, 1)))
        return pair->deaf[0] || pair->deaf[1] ? AG_PAIR_BROKEN : AG_PAIR_ENDED;
    return first == AG_PAIR_GOES_ON || second == AG_PAIR_GOES_ON ? AG_PAIR_GOES_ON : AG_PAIR_WAITS;
}

void ag_pair_close(struct ag_pair *pair, int broken)
{
    struct linger reset = { .l_onoff = 1, .l_linger = 0 };

    for (int i = 0; i < 2; i++) {
        if (broken && pair->fd[i] >= 0)
            setsockopt(pair->fd[i], SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
        pair->fd[i] = sb_close(pair->fd[i]);
    }
}
