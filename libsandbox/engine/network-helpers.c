/* SPDX-License-Identifier: Apache-2.0
 * What carries the traffic of networks that need a process: for an ordinary user's nat pasta, else slirp4netns, of this machine; for a proxy our
 * own sandbox-proxy. Each is started in the host's network with what it needs by descriptor or by the holder's number, has a deadline to say that
 * it is ready, and ends with the holder. */
#include "network.h"

#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <arpa/inet.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <errors.h>
#include <fs.h>
#include <json.h>
#include <network-plan.h>
#include <process.h>
#include <proxy-plan.h>

enum { READY_MS = 10000, TEXT_MAX = 400, ADDRESSES_MAX = 256 };

/* A program of the machine that only root can change, or -1. */
static int find_program(const char *name)
{
    static const char *const folders[] = { "/usr/bin", "/usr/local/bin", "/bin" };

    for (size_t i = 0; i < SB_ELEMENTS(folders); i++) {
        char path[64];
        struct stat st;
        SB_CLOSE int fd = -1;

        snprintf(path, sizeof path, "%s/%s", folders[i], name);
        fd = open(path, O_RDONLY | O_CLOEXEC);
        if (fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_uid == 0 && !(st.st_mode & 022) && (st.st_mode & 0111))
            return SB_TAKE_FD(fd);
    }
    return -1;
}

int sb_network_has_user_nat(void)
{
    SB_CLOSE int pasta = find_program("pasta"), slirp = find_program("slirp4netns");

    return pasta >= 0 || slirp >= 0;
}

/* The host's own addresses: by pasta or slirp4netns they would be reached as by any process of the user. */
static int refuse_host(struct sb_network *network, const int spaces[2], struct sandbox_error **error)
{
    /* and what stands for the host at the other end */
    char *argv[ADDRESSES_MAX + 6] = { (char[]){ "sandbox-network" }, (char[]){ "inside" }, (char[]){ "nat" }, (char[]){ "10.0.2.2" }, (char[]){ "10.0.2.3" } };
    char texts[ADDRESSES_MAX][INET_ADDRSTRLEN];
    struct ifaddrs *all, *a;
    size_t n = 0;

    if (getifaddrs(&all) < 0)
        return sb_fail_errno(error, errno, "network", "the host's addresses can't be read");
    for (a = all; a && n < ADDRESSES_MAX; a = a->ifa_next)
        if (a->ifa_addr && a->ifa_addr->sa_family == AF_INET) {
            inet_ntop(AF_INET, &((struct sockaddr_in *)(void *)a->ifa_addr)->sin_addr, texts[n], sizeof texts[n]);
            argv[5 + n] = texts[n];
            n++;
        }
    freeifaddrs(all);
    return a ? sb_fail(error, SB_ARGS(SANDBOX_ELIMIT, .phase = "network"), "the host has more than %d addresses", ADDRESSES_MAX)
             : sb_network_setup(network->engine, argv, spaces, error);
}

/* holder: it ends the helper with itself; -1: that one sees to it. */
static int note_helper(struct sb_network *network, pid_t pid, int pidfd, json_t *run, int holder, struct sandbox_error **error)
{
    struct sb_identity identity;
    int r = sb_identity_read(pid, network->engine->self.boot, &identity);

    if (r)
        return sb_fail_errno(error, -r, "network", "the network's helper ended early");
    json_array_append_new(json_object_get(run, "helpers"), sb_identity_to_json(&identity));
    r = sb_network_write_run(network, run, error);
    return r || holder < 0 ? r : sb_network_say(holder, SB_NETWORK_HELPER, pidfd, NULL, NULL, NULL, error);
}

/* Waits for a byte on a descriptor, or for the process' end. 0, or a code with what it said. */
static int await_ready(const char *name, int ready, int pidfd, int said, struct sandbox_error **error)
{
    struct pollfd p[2] = { { .fd = ready, .events = POLLIN }, { .fd = pidfd, .events = POLLIN } };
    char text[TEXT_MAX] = "", byte;
    ssize_t n;
    int r = (int)SB_RETRY(poll(p, 2, READY_MS));

    if (r > 0 && (p[0].revents & POLLIN) && read(ready, &byte, 1) == 1)
        return 0;
    n = said >= 0 ? pread(said, text, sizeof text - 1, 0) : 0;
    text[n > 0 ? n : 0] = 0;
    for (char *c = text; *c; c++)
        *c = *c == '\n' ? (c[1] ? ';' : 0) : *c;
    syscall(SYS_pidfd_send_signal, pidfd, SIGKILL, NULL, 0);
    return sb_fail(error, SB_ARGS(r == 0 ? SANDBOX_ETIMEDOUT : SANDBOX_EIO, .phase = "network", .field = "network",
                                  .hint = said >= 0 ? "pasta and slirp4netns need /dev/net/tun: may this user open it?" : NULL),
                   "%s %s%s%s", name, r == 0 ? "was not ready in time" : "ended early", *text ? ": " : "", text);
}

struct helper {
    const char *name;
    int program;
    char *const *argv;
    int ready; /* the number of the pipe there, by which it says that it is ready */
};

static int start(struct sb_network *network, const struct helper *h, int pipe, pid_t *ret_pid, int *ret_pidfd, int *ret_said, struct sandbox_error **error)
{
    /* what it says later is for nobody, and must not end it as a pipe that nobody reads would: a file that doesn't grow */
    SB_CLOSE int said = memfd_create("said", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    struct sb_spawn_fd map[4];
    int r;

    if (said < 0 || ftruncate(said, TEXT_MAX) < 0 || fcntl(said, F_ADD_SEALS, F_SEAL_SEAL | F_SEAL_GROW | F_SEAL_SHRINK) < 0)
        return sb_fail_errno(error, errno, "network", "no memory to share with %s", h->name);
    map[0] = (struct sb_spawn_fd){ network->engine->null, 0 };
    map[1] = (struct sb_spawn_fd){ said, 1 };
    map[2] = (struct sb_spawn_fd){ said, 2 };
    map[3] = (struct sb_spawn_fd){ network->engine->null, 3 };
    map[h->ready].from = pipe;
    r = sb_spawn_watched(h->program, h->argv, map, SB_ELEMENTS(map), ret_pid, ret_pidfd);
    if (r)
        return sb_fail_errno(error, -r, "network", "%s can't be started", h->name);
    sb_children_add(network->engine, *ret_pidfd);
    *ret_said = SB_TAKE_FD(said);
    return 0;
}

/* Starts it, waits until it is ready, and has the holder end it. */
static int carry(struct sb_network *network, const struct helper *h, json_t *run, int holder, struct sandbox_error **error)
{
    SB_CLOSE int said = -1, pidfd = -1, ready = -1, theirs = -1;
    int pipes[2], r;
    pid_t pid;

    if (pipe2(pipes, O_CLOEXEC) < 0)
        return sb_fail_errno(error, errno, "network", "no pipe");
    ready = pipes[0];
    theirs = pipes[1];
    r = start(network, h, theirs, &pid, &pidfd, &said, error);
    theirs = sb_close(theirs);
    if (!r)
        r = await_ready(h->name, ready, pidfd, said, error);
    return r ? r : note_helper(network, pid, pidfd, run, holder, error);
}

/* It tells that it is ready by writing its number into a file: our pipe, which is its stdout, since it closes all others. */
static int start_pasta(struct sb_network *network, int program, pid_t holder_pid, json_t *run, int holder, struct sandbox_error **error)
{
    char net[48], user[48];
    char *const argv[] = { (char[]){ "pasta" },      (char[]){ "--foreground" }, (char[]){ "--quiet" },   (char[]){ "--stderr" },
                           (char[]){ "--ipv4-only" },
                           (char[]){ "--config-net" }, (char[]){ "--no-map-gw" }, (char[]){ "--address" }, (char[]){ "10.0.2.100" },
                           (char[]){ "--netmask" },  (char[]){ "24" },           (char[]){ "--gateway" }, (char[]){ "10.0.2.2" },
                           (char[]){ "--mtu" },      (char[]){ "65520" },        (char[]){ "--ns-ifname" }, (char[]){ "eth0" },
                           (char[]){ "-t" },         (char[]){ "none" },         (char[]){ "-u" },        (char[]){ "none" },
                           (char[]){ "-T" },         (char[]){ "none" },         (char[]){ "-U" },        (char[]){ "none" },
                           (char[]){ "--pid" },      (char[]){ "/proc/self/fd/1" }, (char[]){ "--userns" }, user,
                           (char[]){ "--netns" },    net,                        NULL };

    snprintf(net, sizeof net, "/proc/%d/ns/net", holder_pid);
    snprintf(user, sizeof user, "/proc/%d/ns/user", holder_pid);
    return carry(network, &(struct helper){ "pasta", program, argv, 1 }, run, holder, error);
}

static int start_slirp(struct sb_network *network, int program, pid_t holder_pid, json_t *run, int holder, struct sandbox_error **error)
{
    char net[48], user[80];
    char *const argv[] = { (char[]){ "slirp4netns" }, (char[]){ "--configure" }, (char[]){ "--mtu=65520" },   (char[]){ "--disable-host-loopback" },
                           (char[]){ "--enable-seccomp" }, (char[]){ "--ready-fd=3" }, (char[]){ "--netns-type=path" },
                           user, net, (char[]){ "eth0" }, NULL };

    snprintf(net, sizeof net, "/proc/%d/ns/net", holder_pid);
    snprintf(user, sizeof user, "--userns-path=/proc/%d/ns/user", holder_pid);
    return carry(network, &(struct helper){ "slirp4netns", program, argv, 3 }, run, holder, error);
}

int sb_network_start_user_nat(struct sb_network *network, pid_t holder_pid, json_t *run, int holder, const int spaces[2], struct sandbox_error **error)
{
    SB_CLOSE int pasta = find_program("pasta"), slirp = pasta < 0 ? find_program("slirp4netns") : -1;
    int r;

    if (pasta < 0 && slirp < 0)
        return sb_fail(error, SB_ARGS(SANDBOX_EUNSUPPORTED, .phase = "network", .field = "network", .hint = "install the package passt, or slirp4netns"),
                       "an ordinary user's network nat needs pasta or slirp4netns, and neither is here");
    r = refuse_host(network, spaces, error); /* first: it never leads out without */
    if (r)
        return r;
    return pasta >= 0 ? start_pasta(network, pasta, holder_pid, run, holder, error) : start_slirp(network, slirp, holder_pid, run, holder, error);
}

/* ---- the proxy ---- */

static int add_lines(char **text, size_t *size, const char *word, const json_t *list)
{
    const json_t *entry;
    FILE *file = open_memstream(text, size);
    size_t i;

    if (!file)
        return -ENOMEM;
    json_array_foreach(list, i, entry)
        fprintf(file, "%s %s\n", word, json_string_value(entry));
    return fclose(file) ? -ENOMEM : 0;
}

int sb_network_rules_file(const struct sb_network *network, struct sandbox_error **error)
{
    SB_CLOSE int fd = memfd_create("rules", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    SB_FREE char *allowed = NULL, *dns = NULL;
    size_t n_allowed = 0, n_dns = 0;
    int r = fd < 0 ? -errno : 0;

    if (!r)
        r = add_lines(&allowed, &n_allowed, "allow", network->allowed);
    if (!r)
        r = add_lines(&dns, &n_dns, "dns", network->dns);
    if (!r)
        r = sb_write_all(fd, dns, n_dns);
    if (!r)
        r = sb_write_all(fd, allowed, n_allowed);
    if (!r && fcntl(fd, F_ADD_SEALS, F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE) < 0)
        r = -errno;
    return r ? sb_fail_errno(error, -r, "network", "the proxy's rules can't be passed") : SB_TAKE_FD(fd);
}

static int bind_control(const struct sb_network *network, struct sandbox_error **error)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    SB_CLOSE int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

    snprintf(address.sun_path, sizeof address.sun_path, "/proc/self/fd/%d/p", network->dir);
    if (fd < 0 || (unlinkat(network->dir, "p", 0) < 0 && errno != ENOENT) || bind(fd, (struct sockaddr *)&address, sizeof address) < 0 ||
        listen(fd, 16) < 0)
        return sb_fail_errno(error, errno, "network", "the proxy's socket can't be made");
    return SB_TAKE_FD(fd);
}

int sb_network_start_proxy(struct sb_network *network, int holder_pidfd, json_t *run, const int listeners[2], struct sandbox_error **error)
{
    char *const argv[] = { (char[]){ "sandbox-proxy" }, NULL };
    struct sb_spawn_fd map[SB_PROXY_FD_END];
    SB_CLOSE int control = -1, rules = -1, ready = -1, theirs = -1, pidfd = -1;
    int program, pipes[2], r;
    pid_t pid;

    if (sb_engine_program(network->engine, "sandbox-proxy", &program, NULL))
        return sb_fail(error, SB_ARGS(SANDBOX_EUNSUPPORTED, .phase = "network", .field = "network",
                                      .hint = "install the package libc-ares2, and a library that was built with it (meson option proxy)"),
                       "the program sandbox-proxy can't be had here");
    control = bind_control(network, error);
    if (control < 0)
        return control;
    rules = sb_network_rules_file(network, error);
    if (rules < 0)
        return rules;
    if (pipe2(pipes, O_CLOEXEC) < 0)
        return sb_fail_errno(error, errno, "network", "no pipe");
    ready = pipes[0];
    theirs = pipes[1];
    for (int i = 0; i < SB_PROXY_FD_END; i++)
        map[i] = (struct sb_spawn_fd){ .from = network->engine->null, .to = i };
    map[SB_PROXY_FD_TCP].from = listeners[0];
    map[SB_PROXY_FD_UDP].from = listeners[1];
    map[SB_PROXY_FD_CONTROL].from = control;
    map[SB_PROXY_FD_HOLDER].from = holder_pidfd;
    map[SB_PROXY_FD_RULES].from = rules;
    map[SB_PROXY_FD_READY].from = theirs;
    r = sb_spawn_watched(program, argv, map, SB_PROXY_FD_END, &pid, &pidfd);
    if (r)
        return sb_fail_errno(error, -r, "network", "the proxy can't be started");
    sb_children_add(network->engine, pidfd);
    theirs = sb_close(theirs);
    r = await_ready("the proxy", ready, pidfd, -1, error);
    return r ? r : note_helper(network, pid, pidfd, run, -1, error);
}
