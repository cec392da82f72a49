/* SPDX-License-Identifier: Apache-2.0
 * sandbox-network: what of a network needs netlink and nftables. A program of its own, since it alone needs libnftables and libmnl: the library
 * loads nothing into its host, and where this program can't start, networks that need it are unsupported.
 *
 *   up NUMBER             in root's network: a pair of interfaces between the host and the network namespace that is descriptor 3, addresses,
 *                         a table of rules of our own, named by the number
 *   down NUMBER           takes both away; nothing there is success
 *   probe nat             makes a table and takes it away, at once
 *   inside nat ADDRESS…   in the namespace itself, where nobody inside has rights: what may leave it
 *   inside proxy          the same: nothing
 *
 * It gives up every capability but two first, takes no input but its arguments, and ends in milliseconds. Failing is telling why on descriptor 2,
 * and so is succeeding: who starts it may be a program whose children nobody can wait for. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <libmnl/libmnl.h>
#include <linux/capability.h>
#include <linux/if_link.h>
#include <linux/rtnetlink.h>
#include <linux/veth.h>
#include <net/if.h>
#include <nftables/libnftables.h>
#include <sched.h>
#include <seccomp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <network-plan.h>

#define INSIDE_LINK "eth0"
enum { PREFIX = 30, RULES_MAX = 16384 };

static _Noreturn void fail(int sys_errno, const char *format, ...)
{
    va_list ap;

    va_start(ap, format);
    vfprintf(stderr, format, ap);
    va_end(ap);
    if (sys_errno)
        fprintf(stderr, ": %s", strerror(sys_errno));
    exit(sys_errno == EPERM || sys_errno == EACCES ? 3 : 1);
}

/* ---- rights ---- */

/* NET_ADMIN to do it, SYS_ADMIN to enter the other namespace; a user's, in namespaces of the user's own. */
static void keep_two_capabilities(void)
{
    struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
    struct __user_cap_data_struct data[2];

    if (syscall(SYS_capget, &header, data) < 0)
        fail(errno, "capabilities can't be read");
    for (int i = 0; i < 2; i++) {
        data[i].permitted &= i ? 0 : 1u << CAP_NET_ADMIN | 1u << CAP_SYS_ADMIN;
        data[i].effective = data[i].permitted;
        data[i].inheritable = 0;
    }
    prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || syscall(SYS_capset, &header, data) < 0)
        fail(errno, "capabilities can't be dropped");
}

/* What a program needs that only speaks netlink: it starts nothing, mounts nothing, and reaches no other process. */
static void forbid_the_rest(void)
{
    static const int calls[] = { SCMP_SYS(execve),   SCMP_SYS(execveat), SCMP_SYS(fork),       SCMP_SYS(vfork),       SCMP_SYS(clone),
                                 SCMP_SYS(clone3),   SCMP_SYS(ptrace),   SCMP_SYS(mount),      SCMP_SYS(umount2),     SCMP_SYS(pivot_root),
                                 SCMP_SYS(chroot),   SCMP_SYS(open_tree), SCMP_SYS(move_mount), SCMP_SYS(fsopen),     SCMP_SYS(fsmount),
                                 SCMP_SYS(bpf),      SCMP_SYS(kexec_load), SCMP_SYS(init_module), SCMP_SYS(finit_module), SCMP_SYS(delete_module),
                                 SCMP_SYS(process_vm_writev), SCMP_SYS(process_vm_readv), SCMP_SYS(kill), SCMP_SYS(tkill), SCMP_SYS(pidfd_send_signal),
                                 SCMP_SYS(connect),  SCMP_SYS(accept4),  SCMP_SYS(listen),     SCMP_SYS(unlinkat),    SCMP_SYS(unlink),
                                 SCMP_SYS(rename),   SCMP_SYS(renameat2), SCMP_SYS(chmod),     SCMP_SYS(fchmodat),    SCMP_SYS(chown),
                                 SCMP_SYS(fchownat), SCMP_SYS(io_uring_setup), SCMP_SYS(userfaultfd), SCMP_SYS(perf_event_open), SCMP_SYS(keyctl) };
    scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ALLOW);
    int r = filter ? 0 : -ENOMEM;

    for (size_t i = 0; !r && i < sizeof calls / sizeof *calls; i++)
        r = calls[i] < 0 ? 0 : seccomp_rule_add(filter, SCMP_ACT_ERRNO(EPERM), calls[i], 0); /* below 0: this architecture has no such call */
    if (!r)
        r = seccomp_load(filter);
    if (r)
        fail(-r, "the filter can't be set");
    seccomp_release(filter);
}

static void enter(int fd, int kind, const char *what)
{
    if (setns(fd, kind) < 0)
        fail(errno, "%s can't be entered", what);
}

/* ---- rtnetlink ---- */

static struct mnl_socket *routes;

static void open_routes(void)
{
    routes = mnl_socket_open2(NETLINK_ROUTE, SOCK_CLOEXEC);
    if (!routes || mnl_socket_bind(routes, 0, MNL_SOCKET_AUTOPID) < 0)
        fail(errno, "no netlink socket");
}

static struct nlmsghdr *begin(char *buffer, uint16_t type, uint16_t flags)
{
    struct nlmsghdr *h = mnl_nlmsg_put_header(buffer);

    h->nlmsg_type = type;
    h->nlmsg_flags = (uint16_t)(NLM_F_REQUEST | NLM_F_ACK | flags);
    h->nlmsg_seq = 1;
    return h;
}

/* 0 or the kernel's errno. */
static int ask(struct nlmsghdr *h)
{
    char buffer[8192];
    ssize_t n;

    if (mnl_socket_sendto(routes, h, h->nlmsg_len) < 0)
        return errno;
    n = mnl_socket_recvfrom(routes, buffer, sizeof buffer);
    if (n < 0)
        return errno;
    return mnl_cb_run(buffer, (size_t)n, 1, mnl_socket_get_portid(routes), NULL, NULL) < 0 ? errno : 0;
}

static void make_pair(const char *link, int net)
{
    char buffer[1024];
    struct nlmsghdr *h = begin(buffer, RTM_NEWLINK, NLM_F_CREATE | NLM_F_EXCL);
    struct nlattr *info, *data, *peer;
    int r;

    mnl_nlmsg_put_extra_header(h, sizeof(struct ifinfomsg));
    mnl_attr_put_strz(h, IFLA_IFNAME, link);
    info = mnl_attr_nest_start(h, IFLA_LINKINFO);
    mnl_attr_put_strz(h, IFLA_INFO_KIND, "veth");
    data = mnl_attr_nest_start(h, IFLA_INFO_DATA);
    peer = mnl_attr_nest_start(h, VETH_INFO_PEER);
    mnl_nlmsg_put_extra_header(h, sizeof(struct ifinfomsg));
    mnl_attr_put_strz(h, IFLA_IFNAME, INSIDE_LINK);
    mnl_attr_put_u32(h, IFLA_NET_NS_FD, (uint32_t)net);
    mnl_attr_nest_end(h, peer);
    mnl_attr_nest_end(h, data);
    mnl_attr_nest_end(h, info);
    r = ask(h);
    if (r)
        fail(r, "the interface %s can't be made (module veth)", link);
}

static void drop_link(const char *link)
{
    char buffer[256];
    struct nlmsghdr *h = begin(buffer, RTM_DELLINK, 0);
    int r;

    mnl_nlmsg_put_extra_header(h, sizeof(struct ifinfomsg));
    mnl_attr_put_strz(h, IFLA_IFNAME, link);
    r = ask(h);
    if (r && r != ENODEV)
        fail(r, "the interface %s can't be removed", link);
}

static void set_up(const char *link)
{
    char buffer[256];
    struct nlmsghdr *h = begin(buffer, RTM_NEWLINK, 0);
    struct ifinfomsg *i = mnl_nlmsg_put_extra_header(h, sizeof *i);
    int r;

    i->ifi_index = (int)if_nametoindex(link);
    i->ifi_flags = i->ifi_change = IFF_UP;
    r = ask(h);
    if (r)
        fail(r, "the interface %s can't be set up", link);
}

static void add_address(const char *link, int family, const void *address, int prefix)
{
    char buffer[256];
    struct nlmsghdr *h = begin(buffer, RTM_NEWADDR, NLM_F_CREATE | NLM_F_REPLACE);
    struct ifaddrmsg *a = mnl_nlmsg_put_extra_header(h, sizeof *a);
    int r;

    a->ifa_family = (unsigned char)family;
    a->ifa_prefixlen = (unsigned char)prefix;
    a->ifa_index = if_nametoindex(link);
    a->ifa_flags = family == AF_INET6 ? IFA_F_NODAD : 0; /* else it is tentative for a moment, and no route's source */
    mnl_attr_put(h, IFA_LOCAL, family == AF_INET ? 4 : 16, address);
    mnl_attr_put(h, IFA_ADDRESS, family == AF_INET ? 4 : 16, address);
    r = ask(h);
    if (r)
        fail(r, "the interface %s can't be given its address", link);
}

static void add_v4(const char *link, uint32_t address)
{
    add_address(link, AF_INET, &(struct in_addr){ htonl(address) }, PREFIX);
}

/* A default route by a gateway; NULL: out of the interface itself, from a source. */
static int add_route(int family, const char *link, const uint32_t *gateway, const void *source)
{
    char buffer[256];
    struct nlmsghdr *h = begin(buffer, RTM_NEWROUTE, NLM_F_CREATE | NLM_F_REPLACE);
    struct rtmsg *route = mnl_nlmsg_put_extra_header(h, sizeof *route);

    route->rtm_family = (unsigned char)family;
    route->rtm_table = RT_TABLE_MAIN;
    route->rtm_protocol = RTPROT_STATIC;
    route->rtm_scope = gateway ? RT_SCOPE_UNIVERSE : RT_SCOPE_LINK;
    route->rtm_type = RTN_UNICAST;
    mnl_attr_put_u32(h, RTA_OIF, if_nametoindex(link));
    if (gateway)
        mnl_attr_put_u32(h, RTA_GATEWAY, htonl(*gateway));
    if (source)
        mnl_attr_put(h, RTA_PREFSRC, family == AF_INET ? 4 : 16, source);
    return ask(h);
}

/* ---- sysctls ---- */

/* Of the network namespace that this process is in. */
static void set(const char *name, const char *link, const char *value, int needed)
{
    char path[128], now[16] = "";
    int fd, n;

    snprintf(path, sizeof path, "/proc/sys/net/%s", name);
    if (link)
        snprintf(path, sizeof path, "/proc/sys/net/%.5sconf/%s/%s", name, link, name + 5);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    n = fd < 0 ? -1 : (int)read(fd, now, sizeof now - 1);
    close(fd);
    if (n > 0 && now[0] == value[0])
        return;
    fd = n < 0 ? -1 : open(path, O_WRONLY | O_CLOEXEC);
    if ((fd < 0 || write(fd, value, strlen(value)) < 0) && needed)
        fail(errno, "%s can't be set to %s", path, value);
    close(fd);
}

/* ---- rules ---- */

static void run_rules(const char *text)
{
    struct nft_ctx *ctx = nft_ctx_new(NFT_CTX_DEFAULT);
    const char *why;

    if (!ctx || nft_ctx_buffer_error(ctx) || nft_ctx_buffer_output(ctx))
        fail(ENOMEM, "nftables");
    if (nft_run_cmd_from_buffer(ctx, text) == 0) {
        nft_ctx_free(ctx);
        return;
    }
    why = nft_ctx_get_error_buffer(ctx);
    fail(strstr(why, "not permitted") ? EPERM : 0, "nftables refused the network's rules: %.300s", why);
}

/* What the host does with what comes out of a sandbox's interface and what goes into it. Nothing comes in but answers. What is for an address of
 * the host itself is dropped before anybody's redirection of ports can make it something else. */
static void add_host_rules(int number, const char *link, uint32_t guest)
{
    static const char form[] =
        "add table inet %1$s\ndelete table inet %1$s\n"
        "table inet %1$s {\n"
        " chain first { type filter hook prerouting priority raw; policy accept;\n"
        "  iifname \"%2$s\" meta nfproto != ipv4 drop\n"
        "  iifname \"%2$s\" ip saddr != %3$s drop\n"
        "  iifname \"%2$s\" fib daddr type != unicast drop\n"
        "  iifname \"%2$s\" ip daddr { 0.0.0.0/8, 127.0.0.0/8, 169.254.0.0/16, 224.0.0.0/3 } drop\n }\n"
        " chain in { type filter hook input priority filter - 5; policy accept; iifname \"%2$s\" drop; }\n"
        " chain out { type filter hook output priority filter - 5; policy accept;\n"
        "  oifname \"%2$s\" ct state related accept\n  oifname \"%2$s\" drop\n }\n"
        " chain through { type filter hook forward priority filter - 5; policy accept;\n"
        "  iifname \"%2$s\" oifname \"sbn*\" drop\n"
        "  oifname \"%2$s\" ct state != { established, related } drop\n }\n"
        " chain last { type nat hook postrouting priority srcnat; policy accept; ip saddr %3$s oifname != \"%2$s\" masquerade; }\n"
        "}\n";
    char table[32], address[INET_ADDRSTRLEN], text[RULES_MAX];

    snprintf(table, sizeof table, SB_NETWORK_TABLE, number);
    inet_ntop(AF_INET, &(struct in_addr){ htonl(guest) }, address, sizeof address);
    snprintf(text, sizeof text, form, table, link, address);
    run_rules(text);
}

static void up(int number)
{
    const uint32_t base = SB_NETWORK_FIRST_ADDRESS + (uint32_t)number * 4, host = base + 1;
    char link[IFNAMSIZ];

    snprintf(link, sizeof link, SB_NETWORK_LINK, number);
    open_routes();
    add_host_rules(number, link, base + 2); /* first: the interface is never there without them */
    make_pair(link, SB_NETWORK_FD_NET);
    set("ipv6/disable_ipv6", link, "1", 0);
    set("ipv4/route_localnet", link, "0", 0);
    set("ipv4/proxy_arp", link, "0", 0);
    set("ipv4/accept_redirects", link, "0", 0);
    set("ipv4/rp_filter", link, "1", 0);
    add_v4(link, base + 1);
    set_up(link);
    set("ipv4/ip_forward", NULL, "1", 1);
    mnl_socket_close(routes);
    enter(SB_NETWORK_FD_NET, CLONE_NEWNET, "the sandbox's network");
    open_routes();
    set("ipv6/disable_ipv6", INSIDE_LINK, "1", 0);
    add_v4(INSIDE_LINK, base + 2);
    set_up(INSIDE_LINK);
    if ((errno = add_route(AF_INET, INSIDE_LINK, &host, NULL)))
        fail(errno, "the sandbox's network can't be given its route");
}

static void down(int number)
{
    char link[IFNAMSIZ], text[128], table[32];

    snprintf(link, sizeof link, SB_NETWORK_LINK, number);
    snprintf(table, sizeof table, SB_NETWORK_TABLE, number);
    open_routes();
    drop_link(link);
    snprintf(text, sizeof text, "add table inet %s\ndelete table inet %s\n", table, table);
    run_rules(text);
}

/* Without a route there would be no packet to refuse, and another error; from ::1 and 127.0.0.1 the refusal itself would not find its way. These
 * are the dummy addresses of RFC 7600 and RFC 6666. */
static void lead_nowhere(void)
{
    const struct in_addr v4 = { htonl(0xc0000008) };
    const struct in6_addr v6 = { .s6_addr = { 1, [15] = 8 } };

    add_address("lo", AF_INET, &v4, 32);
    if ((errno = add_route(AF_INET, "lo", NULL, &v4)))
        fail(errno, "the sandbox's network can't be given its route");
    if (access("/proc/sys/net/ipv6", F_OK) == 0) { /* a kernel without IPv6 leads nowhere by it, either */
        add_address("lo", AF_INET6, &v6, 128);
        if ((errno = add_route(AF_INET6, "lo", NULL, &v6)))
            fail(errno, "the sandbox's network can't be given its route for IPv6");
    }
}

/* In the sandbox's own namespace: who inside wants to go elsewhere is told at once. */
static void inside(int argc, char **argv)
{
    static const char refuse[] = "  meta l4proto tcp reject with tcp reset\n  reject\n";
    int proxy = !strcmp(argv[2], "proxy");
    char text[RULES_MAX];
    size_t n;

    enter(SB_NETWORK_FD_NET, CLONE_NEWNET, "the sandbox's network");
    open_routes();
    if (proxy)
        lead_nowhere();
    n = (size_t)snprintf(text, sizeof text,
                         "table inet sandbox {\n chain no {\n%s }\n chain out { type filter hook output priority filter; policy accept;\n", refuse);
    if (proxy) {
        snprintf(text + n, sizeof text - n,
                 "  ip daddr { 127.0.0.0/8, 192.0.0.8 } accept\n  ip6 daddr { ::1, 100::8 } accept\n  goto no\n }\n}\n");
    } else {
        n += (size_t)snprintf(text + n, sizeof text - n, "  oifname \"lo\" accept\n  ip daddr { 0.0.0.0/8, 127.0.0.0/8, 169.254.0.0/16, 224.0.0.0/3");
        for (int i = 3; i < argc && n < sizeof text - 512; i++) {
            struct in_addr address;
            char copy[INET_ADDRSTRLEN];

            if (inet_pton(AF_INET, argv[i], &address) != 1)
                fail(EINVAL, "%s", argv[i]);
            inet_ntop(AF_INET, &address, copy, sizeof copy);
            if (ntohl(address.s_addr) >> 24 != 127 && ntohl(address.s_addr) >> 16 != 0xa9fe)
                n += (size_t)snprintf(text + n, sizeof text - n, ", %s", copy);
        }
        snprintf(text + n, sizeof text - n, " } goto no\n  meta nfproto ipv6 goto no\n }\n}\n");
    }
    run_rules(text);
}

int main(int argc, char **argv)
{
    int number = argc == 3 ? atoi(argv[2]) : -1;
    int host = argc == 3 && number >= 0 && number < SB_NETWORK_NUMBERS;

    if (argc >= 3 && !strcmp(argv[1], "inside")) {
        int user = fcntl(SB_NETWORK_FD_USER, F_GETFD) >= 0 && setns(SB_NETWORK_FD_USER, CLONE_NEWUSER) == 0;

        (void)user; /* /dev/null: it is already where it has its rights */
    } else if (!host && (argc != 3 || strcmp(argv[1], "probe"))) {
        fputs("sandbox-network: started by libsandbox only\n", stderr);
        return 2;
    }
    keep_two_capabilities();
    forbid_the_rest();
    if (host && !strcmp(argv[1], "up"))
        up(number);
    else if (host && !strcmp(argv[1], "down"))
        down(number);
    else if (!strcmp(argv[1], "inside"))
        inside(argc, argv);
    else if (!strcmp(argv[1], "probe"))
        run_rules("table inet libsandbox_probe { chain last { type nat hook postrouting priority srcnat; ip saddr 192.0.0.8 masquerade; }\n }\n"
                  "delete table inet libsandbox_probe\n");
    else
        return 2;
    fputs(SB_NETWORK_DONE, stderr);
    return 0;
}
