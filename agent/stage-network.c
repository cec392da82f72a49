/* SPDX-License-Identifier: Apache-2.0
 * The sandbox's network namespace, with nothing but its own loopback. It takes the kernel as long as all mounts together; so a
 * process of the stage's makes it meanwhile, hands it over as a descriptor and ends. */
#include "stage.h"

#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "message.h"

#include <util.h>

static AG_NORETURN void make_network(const struct ag_stage *s, int socket_fd)
{
    struct ifreq request = { .ifr_name = "lo", .ifr_flags = IFF_UP | IFF_RUNNING };
    int fd, net;
    char byte = 0;

    if (unshare(CLONE_NEWNET) < 0)
        ag_die("network", errno,
               errno == ENOSPC ? "no more network namespaces: a limit in /proc/sys/user is reached"
                               : "this process may not make a network namespace");
    fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || ioctl(fd, SIOCSIFFLAGS, &request) < 0)
        ag_die("network", errno, "the loopback can't be set up");
    net = openat(s->proc, "self/ns/net", O_RDONLY | O_CLOEXEC);
    if (net < 0)
        ag_die("network", errno, "the network namespace can't be opened");
    _exit(ag_send(socket_fd, &byte, 1, net, 0) ? 1 : 0);
}

void ag_network_start(struct ag_stage *s)
{
    int pair[2];

    if (s->plan->network != SB_PLAN_NETWORK_OWN)
        return;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        ag_die("network", errno, "no socket");
    s->network_maker = fork();
    if (s->network_maker < 0)
        ag_die("network", errno, "no process for the network namespace");
    if (s->network_maker == 0) {
        sb_close(pair[0]);
        make_network(s, pair[1]);
    }
    sb_close(pair[1]);
    s->network = pair[0];
}

void ag_network_enter(struct ag_stage *s)
{
    struct pollfd p = { .fd = s->network, .events = POLLIN };
    int fds[4];
    size_t n;
    char byte;

    if (s->plan->network == SB_PLAN_NETWORK_HOST)
        return;
    if (s->plan->network == SB_PLAN_NETWORK_GIVEN) {
        if (setns(s->given_net, CLONE_NEWNET) < 0)
            ag_die("network", errno, "the network can't be entered");
        s->given_net = sb_close(s->given_net);
        return;
    }
    if (SB_RETRY(poll(&p, 1, -1)) < 0 || ag_receive(s->network, &byte, 1, fds, &n) != 1 || n != 1)
        _exit(1); /* it has said why */
    if (setns(fds[0], CLONE_NEWNET) < 0)
        ag_die("network", errno, "the network namespace can't be entered");
    sb_close(fds[0]);
    s->network = sb_close(s->network);
}

void ag_network_end(struct ag_stage *s)
{
    if (s->plan->network == SB_PLAN_NETWORK_OWN)
        SB_RETRY(waitpid(s->network_maker, NULL, 0));
}
