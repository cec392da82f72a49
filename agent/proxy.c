/* SPDX-License-Identifier: Apache-2.0
 * The start of sandbox-proxy (proxy.h), and what both of its processes give up. */
#include "proxy.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <seccomp.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <util.h>

enum { NOBODY = 65534, FILES_MAX = 2048 };

static int add_sockets(scmp_filter_ctx filter)
{
    static const int families[] = { AF_INET, AF_INET6 };
    int r = 0;

    for (size_t i = 0; !r && i < SB_ELEMENTS(families); i++)
        r = seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(socket), 2, SCMP_A0(SCMP_CMP_EQ, (scmp_datum_t)families[i]),
                             SCMP_A1(SCMP_CMP_MASKED_EQ, 0xf, SOCK_STREAM));
    for (size_t i = 0; !r && i < SB_ELEMENTS(families); i++)
        r = seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(socket), 2, SCMP_A0(SCMP_CMP_EQ, (scmp_datum_t)families[i]),
                             SCMP_A1(SCMP_CMP_MASKED_EQ, 0xf, SOCK_DGRAM));
    return r;
}

int px_confine(const int *calls, size_t n, int sockets)
{
    static const int common[] = { SCMP_SYS(epoll_wait), SCMP_SYS(epoll_pwait), SCMP_SYS(epoll_ctl), SCMP_SYS(close), SCMP_SYS(clock_gettime),
                                  SCMP_SYS(gettimeofday), SCMP_SYS(recvmsg), SCMP_SYS(sendmsg), SCMP_SYS(recvfrom), SCMP_SYS(sendto),
                                  SCMP_SYS(setsockopt), SCMP_SYS(getsockopt), SCMP_SYS(accept4), SCMP_SYS(exit), SCMP_SYS(exit_group),
                                  SCMP_SYS(rt_sigreturn), SCMP_SYS(restart_syscall), SCMP_SYS(brk), SCMP_SYS(munmap) };
    scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ERRNO(EPERM));
    int r = filter ? 0 : -ENOMEM;

    for (size_t i = 0; !r && i < SB_ELEMENTS(common) + n; i++) {
        int call = i < n ? calls[i] : common[i - n];

        r = call < 0 ? 0 : seccomp_rule_add(filter, SCMP_ACT_ALLOW, call, 0); /* below 0: this architecture has no such call */
    }
    if (!r)
        r = seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(mmap), 1, SCMP_A2(SCMP_CMP_MASKED_EQ, PROT_EXEC, 0));
    if (!r && sockets)
        r = add_sockets(filter);
    if (!r)
        r = seccomp_load(filter);
    if (filter)
        seccomp_release(filter);
    return r;
}

/* root's proxy goes on as nobody, which nothing on the machine should belong to. */
static int drop_rights(void)
{
    struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
    struct __user_cap_data_struct none[2] = { { 0 } };
    struct rlimit files;

    if (getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur < FILES_MAX) {
        files.rlim_cur = files.rlim_max < FILES_MAX ? files.rlim_max : FILES_MAX;
        setrlimit(RLIMIT_NOFILE, &files);
    }
    if (geteuid() == 0 && (setgroups(0, NULL) < 0 || setresgid(NOBODY, NOBODY, NOBODY) < 0 || setresuid(NOBODY, NOBODY, NOBODY) < 0))
        return -errno;
    prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
    prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || syscall(SYS_capset, &header, none) < 0)
        return -errno;
    return 0;
}

int main(int argc, char **argv)
{
    int pair[2];
    pid_t front, self = getpid();

    (void)argv;
    if (argc != 1 || fcntl(SB_PROXY_FD_READY, F_GETFD) < 0)
        return 2;
    syscall(SYS_close_range, SB_PROXY_FD_END, ~0u, 0);
    for (int fd = SB_PROXY_FD_TCP; fd < SB_PROXY_FD_END; fd++)
        fcntl(fd, F_SETFD, FD_CLOEXEC);
    signal(SIGPIPE, SIG_IGN);
    if (chdir("/") < 0 || drop_rights() < 0 || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) < 0)
        return 3;
    front = fork();
    if (front < 0)
        return 3;
    if (front == 0) {
        close(pair[0]);
        for (int fd = SB_PROXY_FD_CONTROL; fd < SB_PROXY_FD_END; fd++)
            close(fd);
        prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
        if (getppid() != self)
            return 3;
        prctl(PR_SET_NAME, "sandbox-proxy-f", 0, 0, 0);
        px_front(pair[1]);
    }
    close(pair[1]);
    close(SB_PROXY_FD_TCP);
    close(SB_PROXY_FD_UDP);
    px_connector(pair[0], front);
}
