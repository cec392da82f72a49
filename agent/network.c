/* SPDX-License-Identifier: Apache-2.0
 * The holder of a network: makes its namespaces, and keeps them while a sandbox is in it or somebody is about to put one there. A network
 * namespace can be kept by a mount, too, but not by an ordinary user, and not without a trace where the machine's mounts are.
 *
 * Theory of operation. Its rights end with the making. After that it has sockets, descriptors of processes and an epoll, and no system call but
 * those on them. It hands out what it holds to whoever connects to its socket, which is in the network's folder (0700, the caller's). A proxy's
 * listeners are made here as well, and so by nobody inside: a descriptor made by init would be the sandbox's word. */
#include "network.h"

#include "forward.h"
#include "message.h"
#include "stage.h"
#include "userns.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <network-plan.h>
#include <util.h>

enum { CONNECTIONS_MAX = 64, LISTENERS = 2 };
enum what { ON_LISTEN, ON_CONNECTION, ON_MEMBER };

static struct {
    int epoll, spaces[2], connections[CONNECTIONS_MAX], members[SB_NETWORK_MEMBERS_MAX], helpers[SB_NETWORK_HELPERS_MAX];
    unsigned int n_connections, n_members, n_helpers;
} holder;

static int watch(int fd, enum what what, size_t index)
{
    struct epoll_event e = { .events = EPOLLIN, .data.u64 = (uint64_t)what << 32 | index };

    return epoll_ctl(holder.epoll, EPOLL_CTL_ADD, fd, &e);
}

static void make_network(int proc)
{
    struct ifreq request = { .ifr_name = "lo", .ifr_flags = IFF_UP | IFF_RUNNING };
    SB_CLOSE int fd = -1;

    if (unshare(CLONE_NEWNET) < 0)
        ag_die("network", errno,
               errno == ENOSPC ? "no more network namespaces: a limit in /proc/sys/user is reached"
                               : "this process may not make a network namespace");
    fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || ioctl(fd, SIOCSIFFLAGS, &request) < 0)
        ag_die("network", errno, "the loopback can't be set up");
    holder.spaces[0] = openat(proc, "self/ns/net", O_RDONLY | O_CLOEXEC);
    holder.spaces[1] = openat(proc, "self/ns/user", O_RDONLY | O_CLOEXEC);
    if (holder.spaces[0] < 0 || holder.spaces[1] < 0)
        ag_die("network", errno, "the network namespace can't be opened");
}

static int listen_inside(int type, int port)
{
    struct sockaddr_in address = { .sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr = { htonl(INADDR_LOOPBACK) } };
    int fd = socket(AF_INET, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), one = 1;

    if (fd < 0 || (type == SOCK_STREAM && setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one) < 0) ||
        bind(fd, (struct sockaddr *)&address, sizeof address) < 0 || (type == SOCK_STREAM && listen(fd, 256) < 0))
        ag_die("network", errno, "the proxy's port %d can't be listened on", port);
    return fd;
}

static void say_ready(int socket_fd, const int *fds, size_t n)
{
    /* whoever else is connected is about to make a member, and asked for it before */
    struct sb_control ready = { .type = SB_CONTROL_READY, .pid = (int32_t)(holder.n_members + holder.n_connections - 1) };

    (void)ag_send_fds(socket_fd, &ready, sizeof ready, fds, n, MSG_DONTWAIT); /* who is gone needs no answer */
}

/* ---- the loop ---- */

static void drop(size_t index)
{
    epoll_ctl(holder.epoll, EPOLL_CTL_DEL, holder.connections[index], NULL);
    holder.connections[index] = sb_close(holder.connections[index]);
    holder.n_connections--;
}

static void add_connection(int fd)
{
    for (size_t i = 0; i < CONNECTIONS_MAX; i++)
        if (holder.connections[i] < 0) {
            holder.connections[i] = fd;
            holder.n_connections++;
            if (watch(fd, ON_CONNECTION, i) < 0)
                drop(i);
            return;
        }
    sb_close(fd);
}

static int take_member(int fd)
{
    for (size_t i = 0; i < SB_NETWORK_MEMBERS_MAX; i++)
        if (holder.members[i] < 0 && watch(fd, ON_MEMBER, i) == 0) {
            holder.members[i] = fd;
            holder.n_members++;
            return 0;
        }
    return -1;
}

static int take_helper(int fd)
{
    if (holder.n_helpers >= SB_NETWORK_HELPERS_MAX)
        return -1;
    holder.helpers[holder.n_helpers++] = fd;
    return 0;
}

static void on_connection(size_t index)
{
    struct sb_network_request q = { 0 };
    int fds[4], taken = -1;
    size_t n_fds;
    ssize_t n = ag_receive(holder.connections[index], &q, sizeof q, fds, &n_fds);

    if (n == -EAGAIN)
        return;
    if (n == (ssize_t)sizeof q && q.say == SB_NETWORK_JOIN && !n_fds) {
        say_ready(holder.connections[index], holder.spaces, 2);
        return;
    }
    if (n == (ssize_t)sizeof q && q.say == SB_NETWORK_COUNT && !n_fds)
        taken = 0;
    else if (n == (ssize_t)sizeof q && n_fds == 1 && q.say == SB_NETWORK_MEMBER)
        taken = take_member(fds[0]);
    else if (n == (ssize_t)sizeof q && n_fds == 1 && q.say == SB_NETWORK_HELPER)
        taken = take_helper(fds[0]);
    if (taken == 0) {
        say_ready(holder.connections[index], NULL, 0);
        return;
    }
    while (n_fds > 0)
        sb_close(fds[--n_fds]);
    drop(index);
}

static void on_event(const struct epoll_event *e)
{
    size_t index = e->data.u64 & UINT32_MAX;
    int fd;

    switch ((enum what)(e->data.u64 >> 32)) {
    case ON_LISTEN:
        fd = accept4(SB_FD_LISTEN, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd >= 0)
            add_connection(fd);
        break;
    case ON_CONNECTION:
        if (holder.connections[index] >= 0)
            on_connection(index);
        break;
    case ON_MEMBER:
        if (holder.members[index] < 0)
            return;
        epoll_ctl(holder.epoll, EPOLL_CTL_DEL, holder.members[index], NULL); /* whoever sent it may hold it, too, and it would go on to tell */
        holder.members[index] = sb_close(holder.members[index]);
        holder.n_members--;
    }
}

static AG_NORETURN void run(void)
{
    struct epoll_event events[16];

    while (holder.n_connections || holder.n_members) {
        int n = epoll_wait(holder.epoll, events, SB_ELEMENTS(events), -1);

        for (int i = 0; i < n; i++)
            on_event(&events[i]);
    }
    for (unsigned int i = 0; i < holder.n_helpers; i++)
        syscall(SYS_pidfd_send_signal, holder.helpers[i], SIGKILL, NULL, 0);
    _exit(0);
}

static void prepare(void)
{
    memset(holder.connections, -1, sizeof holder.connections);
    memset(holder.members, -1, sizeof holder.members);
    holder.epoll = epoll_create1(EPOLL_CLOEXEC);
    if (holder.epoll < 0 || watch(SB_FD_LISTEN, ON_LISTEN, 0) < 0)
        ag_die("network", errno, "no epoll");
    if (fcntl(SB_FD_CONTROL, F_SETFL, O_NONBLOCK) < 0)
        ag_die("network", errno, "the control socket can't be set up");
    add_connection(SB_FD_CONTROL);
}

int ag_network_main(int argc, char **argv)
{
    static const int calls[] = { SYS_epoll_ctl, SYS_recvmsg, SYS_sendmsg, SYS_accept4, SYS_pidfd_send_signal };
    struct sb_network_begin begin;
    int fds[4], proc;
    size_t n_fds;

    (void)argc;
    (void)argv;
    close_range(SB_FD_STAGE_END, ~0u, 0);
    fcntl(SB_FD_CONTROL, F_SETFD, FD_CLOEXEC);
    fcntl(SB_FD_LISTEN, F_SETFD, FD_CLOEXEC);
    umask(077);
    prctl(PR_SET_NAME, "sandbox-network", 0, 0, 0);
    if (ag_receive(SB_FD_CONTROL, &begin, sizeof begin, fds, &n_fds) != (ssize_t)sizeof begin || n_fds) /* it was sent before we were started */
        _exit(1);
    proc = open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (proc < 0 || !ag_is_procfs(proc))
        ag_die("proc", proc < 0 ? errno : ENODEV, "/proc is not a procfs");
    if (begin.map.privilege != SB_PRIVILEGE_ROOT)
        ag_outer_enter(proc, &begin.map, -1, 0);
    make_network(proc);
    fds[0] = holder.spaces[0];
    fds[1] = holder.spaces[1];
    if (begin.proxy) {
        fds[2] = listen_inside(SOCK_STREAM, SB_PROXY_PORT);
        fds[3] = listen_inside(SOCK_DGRAM, SB_PROXY_DNS_PORT);
    }
    prepare();
    if (listen(SB_FD_LISTEN, 64) < 0)
        ag_die("network", errno, "the network's socket can't listen");
    if (ag_forward_confine(calls, SB_ELEMENTS(calls)) < 0)
        ag_die("network", EPERM, "the holder of the network can't give up its rights");
    say_ready(SB_FD_CONTROL, fds, begin.proxy ? 2 + LISTENERS : 2);
    if (begin.proxy) { /* the proxy's alone */
        sb_close(fds[2]);
        sb_close(fds[3]);
    }
    run();
}
