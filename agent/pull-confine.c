/* SPDX-License-Identifier: Apache-2.0
 * What the pull helper gives up before it speaks to anybody. It keeps the network and the files it is given; of this machine's files it
 * can read those that name resolution and TLS are configured by, and the libraries of the system; it can write none, execute nothing,
 * and touch no other process. As root it is nobody (an id of the range that is set aside for unpacking). */
#include "pull.h"

#include "filter.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <linux/landlock.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <util.h>

static const char *const readable[] = {
    "/etc/resolv.conf", "/etc/hosts", "/etc/host.conf", "/etc/nsswitch.conf", "/etc/gai.conf", "/etc/services", "/etc/ssl/certs",
    "/etc/ssl/openssl.cnf", "/etc/pki/tls", "/etc/pki/ca-trust/extracted", "/etc/ca-certificates/extracted", "/usr/share/ca-certificates",
    "/usr/local/share/ca-certificates", "/etc/crypto-policies", "/usr/share/crypto-policies", "/run/systemd/resolve", "/dev/urandom",
    "/dev/null", "/usr/lib", "/usr/lib64", "/lib", "/lib64", "/etc/ld.so.cache", "/usr/share/zoneinfo",
};

/* Their services are libraries that the C library loads when it first resolves a name: afterwards no memory can be made executable. */
static void load_name_services(void)
{
    char line[512], library[64];
    FILE *f = fopen("/etc/nsswitch.conf", "re");

    dlopen("libgcc_s.so.1", RTLD_NOW);
    dlopen("libnss_files.so.2", RTLD_NOW);
    dlopen("libnss_dns.so.2", RTLD_NOW);
    while (f && fgets(line, sizeof line, f)) {
        char *save = NULL, *word = strtok_r(line, " \t\n", &save);

        if (!word || strcmp(word, "hosts:"))
            continue;
        while ((word = strtok_r(NULL, " \t\n", &save)) && *word != '#')
            if (sb_name_valid(word)) {
                snprintf(library, sizeof library, "libnss_%.32s.so.2", word);
                dlopen(library, RTLD_NOW);
            }
    }
    if (f)
        fclose(f);
}

static int become(const struct sb_pull_plan *plan)
{
    if (!plan->become)
        return 0;
    return setgroups(0, NULL) < 0 || setresgid(plan->gid, plan->gid, plan->gid) < 0 || setresuid(plan->uid, plan->uid, plan->uid) < 0 ? -errno : 0;
}

static int drop_capabilities(void)
{
    struct __user_cap_header_struct head = { _LINUX_CAPABILITY_VERSION_3, 0 };
    struct __user_cap_data_struct none[2] = { { 0 } };

    prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || syscall(SYS_capset, &head, none) < 0 ? -errno : 0;
}

/* 0 also where the kernel has none: the filter stands by itself, and what is readable is then what the caller can read. */
static int landlock(void)
{
    const uint64_t all = (LANDLOCK_ACCESS_FS_MAKE_SYM << 1) - 1;
    struct landlock_ruleset_attr attr = { .handled_access_fs = all };
    long abi = syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);
    SB_CLOSE int ruleset = -1;

    if (abi < 1)
        return 0;
    if (abi >= 2)
        attr.handled_access_fs |= 1ull << 13; /* REFER */
    if (abi >= 3)
        attr.handled_access_fs |= 1ull << 14; /* TRUNCATE: of the files it is given by ftruncate, which needs no path */
    ruleset = (int)syscall(SYS_landlock_create_ruleset, &attr, sizeof attr, 0);
    if (ruleset < 0)
        return 0;
    for (size_t i = 0; i < SB_ELEMENTS(readable); i++) {
        SB_CLOSE int fd = open(readable[i], O_PATH | O_CLOEXEC);
        struct stat st;
        struct landlock_path_beneath_attr rule = { .parent_fd = fd };

        if (fd < 0 || fstat(fd, &st) < 0)
            continue;
        rule.allowed_access = LANDLOCK_ACCESS_FS_READ_FILE | (S_ISDIR(st.st_mode) ? LANDLOCK_ACCESS_FS_READ_DIR : 0);
        if (syscall(SYS_landlock_add_rule, ruleset, LANDLOCK_RULE_PATH_BENEATH, &rule, 0) < 0)
            return -errno;
    }
    return syscall(SYS_landlock_restrict_self, ruleset, 0) < 0 ? -errno : 0;
}

static int limit(void)
{
    static const struct {
        int which;
        rlim_t value;
    } limits[] = { { RLIMIT_CORE, 0 }, { RLIMIT_NOFILE, 1024 }, { RLIMIT_AS, (rlim_t)2 << 30 } };

    for (size_t i = 0; i < SB_ELEMENTS(limits); i++) {
        struct rlimit now;

        if (getrlimit(limits[i].which, &now) < 0)
            return -errno;
        if (now.rlim_max == RLIM_INFINITY || now.rlim_max > limits[i].value)
            now.rlim_max = limits[i].value;
        now.rlim_cur = now.rlim_max;
        if (setrlimit(limits[i].which, &now) < 0)
            return -errno;
    }
    return 0;
}

static const int allowed[] = {
    /* files that are open, or may be opened */
    SYS_read, SYS_pread64, SYS_readv, SYS_write, SYS_pwrite64, SYS_writev, SYS_lseek, SYS_close, SYS_fstat, SYS_newfstatat, SYS_statx, SYS_openat,
    SYS_getdents64, SYS_fcntl, SYS_ftruncate, SYS_faccessat, SYS_readlinkat, SYS_getcwd, SYS_ioctl,
#ifdef SYS_access
    SYS_access, SYS_open, SYS_stat, SYS_lstat, SYS_readlink,
#endif
    /* the network, and waiting for it */
    SYS_socket, SYS_socketpair, SYS_connect, SYS_bind, SYS_getsockname, SYS_getpeername, SYS_setsockopt, SYS_getsockopt, SYS_sendto, SYS_recvfrom,
    SYS_sendmsg, SYS_recvmsg, SYS_sendmmsg, SYS_recvmmsg, SYS_shutdown, SYS_ppoll, SYS_eventfd2, SYS_pipe2, SYS_epoll_create1, SYS_epoll_ctl,
    SYS_epoll_pwait,
#ifdef SYS_poll
    SYS_poll, SYS_select, SYS_epoll_wait, SYS_pipe,
#endif
    SYS_pselect6,
    /* memory and threads (libcurl resolves names in one) */
    SYS_brk, SYS_munmap, SYS_mremap, SYS_madvise, SYS_clone, SYS_futex, SYS_set_robust_list, SYS_rseq, SYS_exit, SYS_exit_group,
    SYS_sched_getaffinity, SYS_sched_yield, SYS_membarrier, SYS_prctl,
    /* the rest */
    SYS_rt_sigaction, SYS_rt_sigprocmask, SYS_rt_sigreturn, SYS_restart_syscall, SYS_sigaltstack, SYS_getrandom, SYS_clock_gettime, SYS_clock_nanosleep,
    SYS_nanosleep, SYS_gettimeofday, SYS_sysinfo, SYS_uname, SYS_getpid, SYS_gettid, SYS_getuid, SYS_geteuid, SYS_getgid, SYS_getegid, SYS_tgkill,
    SYS_getrlimit, SYS_prlimit64,
#ifdef SYS_time
    SYS_time,
#endif
};

/* No local ones: Landlock keeps nobody from connecting to a service of this user's, such as one that starts programs. Name services that
 * are asked that way (nscd, systemd's, mDNS) are passed over for those that come after them. */
static const int families[] = { AF_INET, AF_INET6, AF_NETLINK };

int pull_confine(const struct sb_pull_plan *plan, const char **ret_what)
{
    int r;

    load_name_services();
    *ret_what = "limits";
    r = limit();
    if (!r) {
        *ret_what = "user";
        r = become(plan);
    }
    if (!r) {
        *ret_what = "capabilities";
        r = drop_capabilities();
    }
    /* neither this user's other processes nor a core file may show the credentials */
    if (!r && prctl(PR_SET_DUMPABLE, 0) < 0)
        r = -errno;
    if (!r) {
        *ret_what = "Landlock";
        r = landlock();
    }
    if (!r) {
        *ret_what = "system calls";
        r = ag_filter_families(families, SB_ELEMENTS(families));
        if (!r)
            r = ag_filter_calls(allowed, SB_ELEMENTS(allowed));
    }
    return r;
}
