/* SPDX-License-Identifier: Apache-2.0
 * See filter.h. What is not named here is allowed, up to the newest system call that was looked at when the list was made; a
 * newer one does not exist (ENOSYS), so that a kernel's next feature isn't reachable before somebody thought about it. Other
 * architectures' system calls (int 0x80, x32) kill. Errors are chosen so that programs fall back: ENOSYS where a C library
 * tries an older call, EPERM where a program reports. The arguments of calls that take an int or unsigned int are compared
 * without their upper 32 bits where ignoring those is what the kernel does. */
#include "filter-rules.h"

#include <errno.h>
#include <linux/netlink.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#ifndef TIOCLINUX
#define TIOCLINUX 0x541C
#endif

/* Newer than some libseccomp; the numbers are the same on all architectures. */
enum {
    QUOTACTL_FD = 443,
    STATMOUNT = 457,
    LISTMOUNT = 458,
    LSM_SET_SELF_ATTR = 460,
    NEWEST_KNOWN = 462, /* mseal */
    X32_BIT = 0x40000000
};

struct denial {
    const char *name;
    int error;
    int daemon_too;
};

static const struct denial denials[] = {
    /* mounts and roots: the daemon's business, within its own namespace */
    { "mount", EPERM, 0 },
    { "umount", EPERM, 0 },
    { "umount2", EPERM, 0 },
    { "pivot_root", EPERM, 0 },
    { "chroot", EPERM, 0 },
    { "fsopen", ENOSYS, 0 },
    { "fsconfig", ENOSYS, 0 },
    { "fsmount", ENOSYS, 0 },
    { "fspick", ENOSYS, 0 },
    { "open_tree", ENOSYS, 0 },
    { "move_mount", ENOSYS, 0 },
    { "mount_setattr", ENOSYS, 0 },
    { "setns", EPERM, 0 },
    { "unshare", EPERM, 0 },
    /* clone's flags are behind a pointer there, which a filter can't read: C libraries fall back to clone */
    { "clone3", ENOSYS, 1 },
    /* keys are not namespaced by anything a sandbox has */
    { "add_key", ENOSYS, 1 },
    { "request_key", ENOSYS, 1 },
    { "keyctl", ENOSYS, 1 },
    /* large parts of the kernel that few programs need */
    { "bpf", EPERM, 1 },
    { "perf_event_open", EPERM, 1 },
    { "userfaultfd", EPERM, 1 },
    { "io_uring_setup", ENOSYS, 1 },
    { "io_uring_enter", ENOSYS, 1 },
    { "io_uring_register", ENOSYS, 1 },
    { "fanotify_init", EPERM, 1 },
    { "modify_ldt", ENOSYS, 1 },
    { "kcmp", EPERM, 1 },
    { "lookup_dcookie", EPERM, 1 },
    { "vm86", EPERM, 1 },
    { "vm86old", EPERM, 1 },
    /* handles name files outside any mount */
    { "open_by_handle_at", EPERM, 1 },
    /* the machine's own affairs */
    { "acct", EPERM, 1 },
    { "swapon", EPERM, 1 },
    { "swapoff", EPERM, 1 },
    { "reboot", EPERM, 1 },
    { "kexec_load", EPERM, 1 },
    { "kexec_file_load", EPERM, 1 },
    { "init_module", EPERM, 1 },
    { "finit_module", EPERM, 1 },
    { "delete_module", EPERM, 1 },
    { "create_module", EPERM, 1 },
    { "get_kernel_syms", EPERM, 1 },
    { "query_module", EPERM, 1 },
    { "nfsservctl", EPERM, 1 },
    { "quotactl", EPERM, 1 },
    { "syslog", EPERM, 1 },
    { "iopl", EPERM, 1 },
    { "ioperm", EPERM, 1 },
    { "settimeofday", EPERM, 1 },
    { "clock_settime", EPERM, 1 },
    { "stime", EPERM, 1 },
    { "vhangup", EPERM, 1 },
    { "_sysctl", EPERM, 1 },
    { "uselib", EPERM, 1 },
    { "ustat", EPERM, 1 },
    { "sysfs", EPERM, 1 },
    { "move_pages", EPERM, 1 },
    { "migrate_pages", EPERM, 1 },
};

/* Developers' tools want them; each has a switch of the machine's own (perf_event_paranoid, unprivileged_userfaultfd). */
static const char *const devel_allows[] = { "perf_event_open", "userfaultfd", "kcmp" };

static int is_for_daemons(enum sb_filter_kind kind)
{
    return kind == SB_FILTER_DAEMON || kind == SB_FILTER_DAEMON_DEVEL || kind == SB_FILTER_DAEMON_STRICT;
}

/* libseccomp takes this machine's number of a call (a negative one of its own where this machine has none) and translates it. */
int sb_filter_rule(scmp_filter_ctx ctx, uint32_t arch, const char *name, uint32_t action, const struct scmp_arg_cmp *cmp, unsigned int n)
{
    int nr = seccomp_syscall_resolve_name(name);

    if (seccomp_syscall_resolve_name_arch(arch, name) < 0) /* that architecture has no such call */
        return 0;
    return nr == __NR_SCMP_ERROR ? -ENOENT : seccomp_rule_add_array(ctx, action, nr, n, cmp);
}

static int deny(scmp_filter_ctx ctx, uint32_t arch, const char *name, int error, const struct scmp_arg_cmp *cmp, unsigned int n)
{
    return sb_filter_rule(ctx, arch, name, SCMP_ACT_ERRNO((uint32_t)error), cmp, n);
}

static int deny_if(scmp_filter_ctx ctx, uint32_t arch, const char *name, int error, struct scmp_arg_cmp cmp)
{
    return deny(ctx, arch, name, error, &cmp, 1);
}

/* Calls that act on another process of the same ids without any right: never on init. Pid 0, oneself, is another matter. */
static int protect_init(scmp_filter_ctx ctx, uint32_t arch)
{
    static const char *const by_pid[] = { "prlimit64", "sched_setaffinity", "sched_setscheduler", "sched_setparam",
                                          "sched_setattr" };
    static const char *const by_which[] = { "setpriority", "ioprio_set" };
    const struct scmp_arg_cmp process = SCMP_A0_64(SCMP_CMP_MASKED_EQ, 0xffffffffu, 1);
    const struct scmp_arg_cmp who = SCMP_A1_64(SCMP_CMP_MASKED_EQ, 0xffffffffu, 1);
    int r = 0;

    for (size_t i = 0; i < sizeof by_pid / sizeof *by_pid && !r; i++)
        r = deny_if(ctx, arch, by_pid[i], EPERM, process);
    for (size_t i = 0; i < sizeof by_which / sizeof *by_which && !r; i++)
        r = deny_if(ctx, arch, by_which[i], EPERM, who); /* process 1, group 1, and a user 1 who can do without */
    return r;
}

/* UNIX, INET, INET6 and NETLINK_ROUTE are left. */
static int deny_families(scmp_filter_ctx ctx, uint32_t arch)
{
    const struct scmp_arg_cmp other_netlink[] = { SCMP_A0_64(SCMP_CMP_EQ, AF_NETLINK), SCMP_A2_64(SCMP_CMP_NE, NETLINK_ROUTE) };
    static const char *const calls[] = { "socket", "socketpair" };
    int r = 0;

    for (size_t c = 0; c < 2 && !r; c++) {
        for (unsigned int family = 0; family < AF_NETLINK && !r; family++)
            if (family != AF_UNIX && family != AF_INET && family != AF_INET6)
                r = deny_if(ctx, arch, calls[c], EAFNOSUPPORT, SCMP_A0_64(SCMP_CMP_EQ, family));
        if (!r)
            r = deny_if(ctx, arch, calls[c], EAFNOSUPPORT, SCMP_A0_64(SCMP_CMP_GT, AF_NETLINK));
    }
    return r ? r : deny(ctx, arch, "socket", EAFNOSUPPORT, other_netlink, 2);
}

static int is_denied(const struct denial *d, enum sb_filter_kind kind)
{
    if (kind == SB_FILTER_COMMAND_DEVEL || kind == SB_FILTER_DAEMON_DEVEL)
        for (size_t i = 0; i < sizeof devel_allows / sizeof *devel_allows; i++)
            if (!strcmp(devel_allows[i], d->name))
                return 0;
    return !is_for_daemons(kind) || d->daemon_too;
}

static int add_rules(scmp_filter_ctx ctx, enum sb_filter_kind kind, uint32_t arch)
{
    int r = 0;

    for (size_t i = 0; i < sizeof denials / sizeof *denials && !r; i++)
        if (is_denied(&denials[i], kind))
            r = deny(ctx, arch, denials[i].name, denials[i].error, NULL, 0);
    if (!r)
        r = deny_if(ctx, arch, "clone", EPERM, SCMP_A0_64(SCMP_CMP_MASKED_EQ, CLONE_NEWUSER, CLONE_NEWUSER));
    /* in a cgroup namespace that it made itself a daemon could mount cgroup2 */
    if (!r)
        r = deny_if(ctx, arch, "clone", EPERM, SCMP_A0_64(SCMP_CMP_MASKED_EQ, CLONE_NEWCGROUP, CLONE_NEWCGROUP));
    if (!r && is_for_daemons(kind))
        r = deny_if(ctx, arch, "unshare", EPERM, SCMP_A0_64(SCMP_CMP_MASKED_EQ, CLONE_NEWUSER, CLONE_NEWUSER));
    if (!r && is_for_daemons(kind))
        r = deny_if(ctx, arch, "unshare", EPERM, SCMP_A0_64(SCMP_CMP_MASKED_EQ, CLONE_NEWCGROUP, CLONE_NEWCGROUP));
    if (!r)
        r = deny_if(ctx, arch, "ioctl", EPERM, SCMP_A1_64(SCMP_CMP_MASKED_EQ, 0xffffffffu, TIOCSTI));
    if (!r)
        r = deny_if(ctx, arch, "ioctl", EPERM, SCMP_A1_64(SCMP_CMP_MASKED_EQ, 0xffffffffu, TIOCLINUX));
    if (!r)
        r = protect_init(ctx, arch);
    return r ? r : deny_families(ctx, arch);
}

/* What goes before libseccomp's program: the calls that it may not know. */
static const struct sock_filter newer_command[] = {
    BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0), /* seccomp_data.nr */
    BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, X32_BIT, 6, 0),
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, QUOTACTL_FD, 4, 0),
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, STATMOUNT, 3, 0),
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, LISTMOUNT, 2, 0),
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, LSM_SET_SELF_ATTR, 1, 0),
    BPF_JUMP(BPF_JMP | BPF_JGT | BPF_K, NEWEST_KNOWN, 0, 1),
    BPF_STMT(BPF_RET | BPF_K, SCMP_ACT_ERRNO(ENOSYS)),
};
static const struct sock_filter newer_daemon[] = {
    BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0),
    BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, X32_BIT, 4, 0),
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, QUOTACTL_FD, 2, 0),
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, LSM_SET_SELF_ATTR, 1, 0),
    BPF_JUMP(BPF_JMP | BPF_JGT | BPF_K, NEWEST_KNOWN, 0, 1),
    BPF_STMT(BPF_RET | BPF_K, SCMP_ACT_ERRNO(ENOSYS)),
};

static int is_strict(enum sb_filter_kind kind)
{
    return kind == SB_FILTER_COMMAND_STRICT || kind == SB_FILTER_DAEMON_STRICT;
}

static int export_program(scmp_filter_ctx ctx, enum sb_filter_kind kind, struct sock_filter **ret_program, size_t *ret_count)
{
    const struct sock_filter *newer = is_for_daemons(kind) ? newer_daemon : newer_command;
    /* what is a list of what is allowed needs no such head */
    const size_t n_newer = is_strict(kind)        ? 0
                           : is_for_daemons(kind) ? sizeof newer_daemon / sizeof *newer
                                                  : sizeof newer_command / sizeof *newer;
    struct sock_filter *program = NULL;
    int fd = memfd_create("filter", MFD_CLOEXEC), r;
    off_t size;

    if (fd < 0)
        return -errno;
    r = seccomp_export_bpf(ctx, fd);
    size = r ? 0 : lseek(fd, 0, SEEK_END);
    if (!r && (size <= 0 || size % (off_t)sizeof *program))
        r = -EBADMSG;
    if (!r && !(program = malloc(n_newer * sizeof *newer + (size_t)size)))
        r = -ENOMEM;
    if (!r) {
        memcpy(program, newer, n_newer * sizeof *newer);
        if (pread(fd, program + n_newer, (size_t)size, 0) != size)
            r = -EIO;
    }
    close(fd);
    if (r) {
        free(program);
        return r;
    }
    *ret_program = program;
    *ret_count = n_newer + (size_t)size / sizeof *program;
    return 0;
}

int sb_filter_build(enum sb_filter_kind kind, uint32_t arch, struct sock_filter **ret_program, size_t *ret_count)
{
    scmp_filter_ctx ctx = seccomp_init(is_strict(kind) ? SCMP_ACT_ERRNO(ENOSYS) : SCMP_ACT_ALLOW);
    int r;

    if (!ctx)
        return -ENOMEM;
    r = seccomp_attr_set(ctx, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_KILL_PROCESS);
    if (!r && arch != seccomp_arch_native()) {
        r = seccomp_arch_add(ctx, arch);
        if (!r)
            r = seccomp_arch_remove(ctx, seccomp_arch_native());
    }
    if (!r)
        r = seccomp_attr_set(ctx, SCMP_FLTATR_CTL_OPTIMIZE, 2);
    if (!r)
        r = is_strict(kind) ? sb_filter_strict_rules(ctx, kind, arch) : add_rules(ctx, kind, arch);
    if (!r)
        r = export_program(ctx, kind, ret_program, ret_count);
    seccomp_release(ctx);
    return r;
}
