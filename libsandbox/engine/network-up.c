/* SPDX-License-Identifier: Apache-2.0
 * Bringing a network up and taking it down. Up: its holder first (agent/network.c), then what leads out of it. What was begun is written into
 * "run" before it is made, so that down, by whoever comes later, undoes all of it; down may be done twice. Every wait has an end. */
#include "network.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <errors.h>
#include <fs.h>
#include <json.h>
#include <network-plan.h>
#include <process.h>

enum { HOLDER_MS = 10000, SETUP_MS = 10000, END_MS = 3000, SETTLE_MS = 1000, TEXT_MAX = 600 };

/* ---- sandbox-network ---- */

/* What a program wrote before it ended, at most so much; then its end is awaited. 0: it did all; else its exit status, -1: a signal's or nobody knows. */
static int finish(int pidfd, int out, char *text, size_t size)
{
    const int64_t until = sb_deadline(SETUP_MS);
    struct pollfd p = { .fd = out, .events = POLLIN };
    siginfo_t info = { 0 };
    size_t n = 0;

    while (SB_RETRY(poll(&p, 1, sb_left_ms(until))) > 0) {
        char waste[256];
        ssize_t got = SB_RETRY(read(out, n < size - 1 ? text + n : waste, n < size - 1 ? size - 1 - n : sizeof waste));

        if (got <= 0)
            break;
        n += n < size - 1 ? (size_t)got : 0;
    }
    text[n] = 0;
    text[strcspn(text, "\n")] = 0;
    p = (struct pollfd){ .fd = pidfd, .events = POLLIN };
    if (SB_RETRY(poll(&p, 1, sb_left_ms(until))) == 0) {
        syscall(SYS_pidfd_send_signal, pidfd, SIGKILL, NULL, 0);
        SB_RETRY(poll(&p, 1, END_MS));
        snprintf(text, size, "it did not end in time");
    }
    if (SB_RETRY(waitid(P_PIDFD, (id_t)pidfd, &info, WEXITED | WNOHANG | __WALL)) < 0 || !info.si_pid)
        return strcmp(text, SB_NETWORK_DONE) ? -1 : 0; /* somebody else reaped it: what it said must do */
    if (info.si_code == CLD_EXITED && info.si_status)
        return info.si_status;
    return info.si_code == CLD_EXITED && !strcmp(text, SB_NETWORK_DONE) ? 0 : -1;
}

static int no_program(struct sandbox_error **error)
{
    return sb_fail(error, SB_ARGS(SANDBOX_EUNSUPPORTED, .phase = "network", .field = "network",
                                  .hint = "install the packages libnftables1 and libmnl0, and a library that was built with them (meson option nat)"),
                   "the program sandbox-network can't be had here");
}

int sb_network_setup(struct sb_engine *engine, char *const argv[], const int spaces[2], struct sandbox_error **error)
{
    struct sb_spawn_fd map[SB_NETWORK_FD_END];
    char text[TEXT_MAX];
    SB_CLOSE int out = -1, theirs = -1, pidfd = -1;
    int program, pipes[2], status, r;

    if (sb_engine_program(engine, "sandbox-network", &program, NULL))
        return no_program(error);
    if (pipe2(pipes, O_CLOEXEC) < 0)
        return sb_fail_errno(error, errno, "network", "no pipe");
    out = pipes[0];
    theirs = pipes[1];
    for (int i = 0; i < SB_NETWORK_FD_END; i++)
        map[i] = (struct sb_spawn_fd){ .from = engine->null, .to = i };
    map[2].from = theirs;
    if (spaces) {
        map[SB_NETWORK_FD_NET].from = spaces[0];
        map[SB_NETWORK_FD_USER].from = engine->map.privilege == SB_PRIVILEGE_ROOT ? engine->null : spaces[1];
    }
    r = sb_spawn_watched(program, argv, map, SB_NETWORK_FD_END, NULL, &pidfd);
    if (r)
        return sb_fail_errno(error, -r, "network", "the program sandbox-network can't be started");
    theirs = sb_close(theirs);
    status = finish(pidfd, out, text, sizeof text);
    if (!status)
        return 0;
    if (status == 127) /* the loader's: a library of it is not there */
        return no_program(error);
    return sb_fail(error, SB_ARGS(status == 3 ? SANDBOX_EDENIED : SANDBOX_EIO, .phase = "network",
                                  .hint = "does this kernel have nf_tables, NAT and veth, and may this process use them?"),
                   "the network can't be set up: %s", *text ? text : "sandbox-network was killed");
}

/* ---- what is written down ---- */

int sb_network_write_run(const struct sb_network *network, json_t *run, struct sandbox_error **error)
{
    SB_FREE char *text = sb_json_dump(run);
    int r = text ? sb_write_file(network->dir, "run", text, strlen(text), 0) : -ENOMEM;

    return r ? sb_fail_errno(error, -r, "network", "what the network is made of can't be written down") : 0;
}

/* Who holds the number: the state root and the network, as no other has it. malloc'ed. */
static char *number_holder(const struct sb_network *network)
{
    SB_FREE char *prefix = sb_record_holder_prefix(network->engine);
    char *holder;

    return prefix && asprintf(&holder, "%s%s%s", prefix, network->named ? "network " : "", network->name) >= 0 ? holder : NULL;
}

static int write_text(const struct sb_network *network, const char *name, const char *text, struct sandbox_error **error)
{
    int r = sb_write_file(network->dir, name, text, strlen(text), 0);

    if (!r && fchmodat(network->dir, name, 0644, 0) < 0) /* for everybody inside, where it is bound; the way to it is ours alone */
        r = -errno;
    return r ? sb_fail_errno(error, -r, "network", "%s can't be written", name) : 0;
}

/* The machine's DNS servers that a sandbox can ask, too. */
static size_t add_servers(const char *path, char *text, size_t size)
{
    SB_FREE char *file = NULL;
    char *save = NULL;
    size_t n = 0;

    if (sb_read_file(AT_FDCWD, path, 65536, &file, NULL))
        return 0;
    for (char *line = strtok_r(file, "\n", &save); line && n < 3; line = strtok_r(NULL, "\n", &save)) {
        char server[64];
        struct in_addr address;

        if (sscanf(line, " nameserver %63s", server) != 1 || inet_pton(AF_INET, server, &address) != 1 || ntohl(address.s_addr) >> 24 == 127)
            continue;
        snprintf(text + strlen(text), size - strlen(text), "nameserver %s\n", server);
        n++;
    }
    return n;
}

static int write_resolv(const struct sb_network *network, struct sandbox_error **error)
{
    char text[512] = "";
    const json_t *server;
    size_t i;

    if (network->kind == SANDBOX_NETWORK_PROXY) {
        snprintf(text, sizeof text, "nameserver 127.0.0.1\noptions timeout:10 attempts:1\n");
    } else if (json_array_size(network->dns)) {
        json_array_foreach(network->dns, i, server) /* an address of IPv4 without a port: checked when the network was made */
            snprintf(text + strlen(text), sizeof text - strlen(text), "nameserver %.40s\n", json_string_value(server));
    } else if (!add_servers("/etc/resolv.conf", text, sizeof text)) {
        add_servers("/run/systemd/resolve/resolv.conf", text, sizeof text); /* those behind the stub on its loopback */
    }
    return write_text(network, "resolv.conf", text, error);
}

/* ---- the holder ---- */

int sb_network_say(int holder, unsigned int say, int fd, int *ret_members, int *ret_fds, size_t *ret_n, struct sandbox_error **error)
{
    struct sb_network_request request = { .say = say };
    struct sb_control answer = { 0 };
    union {
        struct cmsghdr header;
        char space[CMSG_SPACE(4 * sizeof(int))];
    } control = { 0 };
    struct iovec iov = { &request, sizeof request };
    struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };
    struct pollfd p = { .fd = holder, .events = POLLIN };
    ssize_t n;

    if (fd >= 0) {
        msg.msg_control = control.space;
        msg.msg_controllen = CMSG_SPACE(sizeof fd);
        control.header = (struct cmsghdr){ .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(sizeof fd) };
        memcpy(CMSG_DATA(&control.header), &fd, sizeof fd);
    }
    if (say && SB_RETRY(sendmsg(holder, &msg, MSG_NOSIGNAL)) < 0)
        return sb_fail_errno(error, errno, "network", "the network's holder ended early");
    if (SB_RETRY(poll(&p, 1, HOLDER_MS)) == 0)
        return sb_fail(error, SB_ARGS(SANDBOX_ETIMEDOUT, .sys_errno = ETIMEDOUT, .phase = "network"), "the network's holder did not answer in time");
    iov = (struct iovec){ &answer, sizeof answer };
    msg = (struct msghdr){ .msg_iov = &iov, .msg_iovlen = 1, .msg_control = control.space, .msg_controllen = sizeof control.space };
    n = SB_RETRY(recvmsg(holder, &msg, MSG_CMSG_CLOEXEC | MSG_DONTWAIT));
    if (n != (ssize_t)sizeof answer || (answer.type != SB_CONTROL_READY && answer.type != SB_CONTROL_FAILED))
        return sb_fail(error, SB_ARGS(SANDBOX_EIO, .phase = "network"), "the network's holder ended early: it was killed, or this kernel refuses its filter");
    if (answer.type == SB_CONTROL_FAILED) {
        answer.detail[sizeof answer.detail - 1] = 0;
        return sb_fail(error, SB_ARGS(answer.sys_errno == ENOSPC ? SANDBOX_EDENIED : sb_code_from_errno(answer.sys_errno), .sys_errno = answer.sys_errno,
                                      .phase = "network"),
                       "%s: %s", answer.detail, strerrordesc_np(answer.sys_errno));
    }
    if (ret_members)
        *ret_members = answer.pid;
    for (struct cmsghdr *c = CMSG_FIRSTHDR(&msg); c; c = CMSG_NXTHDR(&msg, c))
        if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS) {
            size_t n_fds = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
            int fds[4];

            memcpy(fds, CMSG_DATA(c), n_fds * sizeof(int));
            for (size_t i = 0; i < n_fds; i++)
                if (ret_fds && i < *ret_n)
                    ret_fds[i] = fds[i];
                else
                    sb_close(fds[i]);
            if (ret_n)
                *ret_n = n_fds < *ret_n ? n_fds : *ret_n;
            return 0;
        }
    if (ret_n)
        *ret_n = 0;
    return 0;
}

static int bind_holder(const struct sb_network *network, struct sandbox_error **error)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    SB_CLOSE int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

    snprintf(address.sun_path, sizeof address.sun_path, "/proc/self/fd/%d/s", network->dir);
    if (fd < 0 || (unlinkat(network->dir, "s", 0) < 0 && errno != ENOENT) || bind(fd, (struct sockaddr *)&address, sizeof address) < 0)
        return sb_fail_errno(error, errno, "network", "the network's socket can't be made");
    return SB_TAKE_FD(fd);
}

/* Its control socket, or a code; *ret_pidfd is the caller's then. */
static int start_holder(const struct sb_network *network, pid_t *ret_pid, int *ret_pidfd, struct sandbox_error **error)
{
    struct sb_engine *engine = network->engine;
    struct sb_network_begin begin = { .map = engine->map, .proxy = network->kind == SANDBOX_NETWORK_PROXY };
    char *const argv[] = { (char[]){ "sandbox-agent" }, (char[]){ "network" }, NULL };
    struct sb_spawn_fd map[SB_FD_LISTEN + 1];
    SB_CLOSE int ours = -1, theirs = -1, listener = bind_holder(network, error);
    int program, pair[2], r;

    if (listener < 0)
        return listener;
    r = sb_engine_program(engine, "sandbox-agent", &program, error);
    if (r)
        return r;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        return sb_fail_errno(error, errno, "network", "no socket");
    ours = pair[0];
    theirs = pair[1];
    for (int i = 0; i <= SB_FD_LISTEN; i++)
        map[i] = (struct sb_spawn_fd){ .from = engine->null, .to = i };
    map[SB_FD_CONTROL].from = theirs;
    map[SB_FD_LISTEN].from = listener;
    if (send(ours, &begin, sizeof begin, MSG_NOSIGNAL) < 0)
        return sb_fail_errno(error, errno, "network", "the network's holder can't be told what to do");
    r = sb_spawn_watched(program, argv, map, SB_FD_LISTEN + 1, ret_pid, ret_pidfd);
    return r ? sb_fail_errno(error, -r, "network", "the network's holder can't be started") : SB_TAKE_FD(ours);
}

static int add_root_nat(struct sb_network *network, json_t *run, const int spaces[2], struct sandbox_error **error)
{
    SB_FREE char *holder = number_holder(network);
    char number_text[16];
    int number, r;

    if (!holder)
        return sb_fail(error, SB_ARGS(SANDBOX_ENOMEM, .sys_errno = ENOMEM), "out of memory");
    r = sb_network_number_claim(holder, &number, error);
    if (r)
        return r;
    json_object_set_new(run, "number", json_integer(number));
    r = sb_network_write_run(network, run, error);
    if (r) {
        sb_network_number_release(number, holder);
        return r;
    }
    snprintf(number_text, sizeof number_text, "%d", number);
    return sb_network_setup(network->engine, (char *const[]){ (char[]){ "sandbox-network" }, (char[]){ "up" }, number_text, NULL }, spaces, error);
}

static int lead_out(struct sb_network *network, pid_t pid, int pidfd, json_t *run, int holder, const int fds[4], struct sandbox_error **error)
{
    int r;

    if (network->kind == SANDBOX_NETWORK_NAT && network->engine->map.privilege == SB_PRIVILEGE_ROOT)
        return add_root_nat(network, run, fds, error);
    if (network->kind == SANDBOX_NETWORK_NAT)
        return sb_network_start_user_nat(network, pid, run, holder, fds, error);
    if (network->kind != SANDBOX_NETWORK_PROXY)
        return 0;
    r = sb_network_setup(network->engine, (char *const[]){ (char[]){ "sandbox-network" }, (char[]){ "inside" }, (char[]){ "proxy" }, NULL }, fds, error);
    return r ? r : sb_network_start_proxy(network, pidfd, run, fds + 2, error);
}

static int begin_network(struct sb_network *network, int *ret_holder, int ret_spaces[2], struct sandbox_error **error)
{
    SB_JSON json_t *run = json_pack("{s:i, s:{}, s:[]}", "number", -1, "holder", "helpers");
    SB_CLOSE int pidfd = -1, holder = -1;
    struct sb_identity identity;
    int fds[4] = { -1, -1, -1, -1 }, r;
    size_t n = 4;
    pid_t pid;

    holder = start_holder(network, &pid, &pidfd, error);
    if (holder < 0) {
        r = holder;
        holder = -1;
        return r;
    }
    sb_children_add(network->engine, pidfd);
    r = sb_identity_read(pid, network->engine->self.boot, &identity);
    if (r)
        return sb_fail_errno(error, -r, "network", "the network's holder can't be identified");
    json_object_set_new(run, "holder", sb_identity_to_json(&identity));
    r = sb_network_write_run(network, run, error);
    if (!r)
        r = sb_network_say(holder, 0, -1, NULL, fds, &n, error);
    if (!r && n < (network->kind == SANDBOX_NETWORK_PROXY ? 4 : 2))
        r = sb_fail(error, SB_ARGS(SANDBOX_EPROTOCOL, .phase = "network"), "the network's holder broke its protocol");
    if (!r && network->kind != SANDBOX_NETWORK_NONE)
        r = write_resolv(network, error);
    if (!r)
        r = lead_out(network, pid, pidfd, run, holder, fds, error);
    for (int i = r ? 0 : 2; i < 4; i++)
        sb_close(fds[i]);
    if (r)
        return r;
    memcpy(ret_spaces, fds, 2 * sizeof *fds);
    *ret_holder = SB_TAKE_FD(holder);
    return 0;
}

/* One that is up, as a named network may be. 0; 1: it is not up; a code: it may be, and others in it. */
static int join(const struct sb_network *network, int *ret_holder, int ret_spaces[2], struct sandbox_error **error)
{
    SB_CLOSE int fd = network->named ? sb_network_connect(network->dir, "s") : -ENOENT;
    int spaces[2] = { -1, -1 };
    size_t n = 2;

    if (fd < 0)
        return sb_network_is_absent(fd) ? 1 : sb_fail_errno(error, -fd, "network", "the network %s can't be joined", network->name);
    if (sb_network_say(fd, SB_NETWORK_JOIN, -1, NULL, spaces, &n, NULL))
        return 1; /* it ends just now, or hangs */
    if (n != 2) {
        sb_close(spaces[0]);
        return sb_fail(error, SB_ARGS(SANDBOX_EIO, .phase = "network", .hint = "may this process have more descriptors?"),
                       "the network %s can't be joined", network->name);
    }
    memcpy(ret_spaces, spaces, sizeof spaces);
    *ret_holder = SB_TAKE_FD(fd);
    return 0;
}

int sb_network_up(struct sb_network *network, int *ret_holder, int ret_spaces[2], struct sandbox_error **error)
{
    int r = join(network, ret_holder, ret_spaces, error);

    if (r <= 0)
        return r;
    r = sb_network_down(network, error); /* what an earlier one left */
    if (!r)
        r = begin_network(network, ret_holder, ret_spaces, error);
    if (r)
        sb_network_down(network, NULL);
    return r;
}

/* ---- down ---- */

static void end_process(struct sb_engine *engine, const json_t *json, int patience_ms)
{
    struct sb_identity identity;
    struct pollfd p = { .events = POLLIN };
    SB_CLOSE int fd = -1;

    sb_identity_from_json(json, &identity);
    fd = identity.pid > 0 ? sb_identity_find(&engine->self, &identity) : -1;
    if (fd < 0)
        return;
    p.fd = fd;
    if (!patience_ms || SB_RETRY(poll(&p, 1, patience_ms)) == 0) {
        syscall(SYS_pidfd_send_signal, fd, SIGKILL, NULL, 0);
        SB_RETRY(poll(&p, 1, END_MS));
    }
    waitid(P_PIDFD, (id_t)fd, &(siginfo_t){ 0 }, WEXITED | WNOHANG | __WALL);
}

int sb_network_number_undo(struct sb_engine *engine, int number, const char *holder, struct sandbox_error **error)
{
    char text[16];
    int r;

    if (sb_network_number_is_others(number, holder)) /* undone before, by who died then: what is there is another's */
        return 0;
    snprintf(text, sizeof text, "%d", number);
    r = sb_network_setup(engine, (char *const[]){ (char[]){ "sandbox-network" }, (char[]){ "down" }, text, NULL }, NULL, error);
    if (!r)
        sb_network_number_release(number, holder);
    return r;
}

int sb_network_down(struct sb_network *network, struct sandbox_error **error)
{
    static const char *const files[] = { "s", "p", "resolv.conf", "pid", "run" };
    SB_FREE char *text = NULL, *holder = number_holder(network);
    SB_JSON json_t *run = NULL;
    const json_t *helper;
    size_t size, i;
    int number = -1, r = 0;

    if (!sb_read_file(network->dir, "run", 65536, &text, &size) && !sb_json_parse(text, size, "run", &run, NULL)) {
        end_process(network->engine, json_object_get(run, "holder"), 0);
        json_array_foreach(json_object_get(run, "helpers"), i, helper)
            end_process(network->engine, helper, network->kind == SANDBOX_NETWORK_PROXY ? SETTLE_MS : 0); /* a proxy ends by itself, in order */
        number = (int)sb_json_int(run, "number", -1);
    }
    if (!holder)
        return sb_fail(error, SB_ARGS(SANDBOX_ENOMEM, .sys_errno = ENOMEM), "out of memory");
    if (number >= 0 && number < SB_NETWORK_NUMBERS && network->engine->map.privilege == SB_PRIVILEGE_ROOT)
        r = sb_network_number_undo(network->engine, number, holder, error);
    if (r)
        return r;
    sb_children_reap(network->engine);
    for (i = 0; i < SB_ELEMENTS(files); i++)
        unlinkat(network->dir, files[i], 0);
    return 0;
}
