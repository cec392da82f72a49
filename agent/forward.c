/* SPDX-License-Identifier: Apache-2.0
 * The start of a forward (forward.h), and what both of its processes give up. */
#include "forward.h"

#include <errno.h>
#include <linux/audit.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <util.h>

#if defined(__x86_64__)
#define NATIVE_ARCH AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define NATIVE_ARCH AUDIT_ARCH_AARCH64
#else
#error "the system call filter knows x86_64 and aarch64"
#endif

enum { CALLS_MAX = 32, FILTER_MAX = 2 * CALLS_MAX + 16 };

/* What both need. */
static const int common[] = { SYS_epoll_pwait, SYS_close, SYS_clock_gettime, SYS_exit, SYS_exit_group, SYS_restart_syscall, SYS_rt_sigreturn,
#ifdef SYS_epoll_wait
                              SYS_epoll_wait,
#endif
};

static int filter(const int *calls, size_t n_calls)
{
    struct sock_filter code[FILTER_MAX];
    struct sock_fprog program = { .filter = code };
    size_t n = 0;

    if (n_calls + SB_ELEMENTS(common) > CALLS_MAX)
        return -E2BIG;
#define PUT(...) code[n++] = (struct sock_filter)__VA_ARGS__
    PUT(BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch)));
    PUT(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, NATIVE_ARCH, 1, 0));
    PUT(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS));
    PUT(BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)));
    for (size_t i = 0; i < n_calls + SB_ELEMENTS(common); i++) {
        int call = i < n_calls ? calls[i] : common[i - n_calls];

        if (call == SYS_socket) /* UNIX ones alone */
            continue;
        PUT(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned int)call, 0, 1));
        PUT(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
    }
    for (size_t i = 0; i < n_calls; i++)
        if (calls[i] == SYS_socket) {
            PUT(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_socket, 0, 3));
            PUT(BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[0])));
            PUT(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AF_UNIX, 0, 1));
            PUT(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
        }
    PUT(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS));
#undef PUT
    program.len = (unsigned short)n;
    return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0) < 0 ? -errno : 0;
}

int ag_forward_confine(const int *calls, size_t n_calls)
{
    struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
    struct __user_cap_data_struct none[2] = { { 0 } };

    prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || syscall(SYS_capset, &header, none) < 0)
        return -errno;
    return filter(calls, n_calls);
}

int ag_forward_main(int argc, char **argv)
{
    int64_t port;
    int pair[2], r;
    pid_t relay, self = getpid();

    if (argc != 3 || sb_parse_int(argv[2], 1, 65535, &port) < 0)
        return 2;
    syscall(SYS_close_range, SB_FORWARD_FD_END, ~0u, 0);
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) < 0)
        return 1;
    prctl(PR_SET_NAME, "sandbox-forward");
    relay = fork();
    if (relay < 0)
        return 1;
    if (relay == 0) {
        /* a relay that is stopped doesn't see its peer's end; and no relay without a dialer */
        if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 || getppid() != self)
            _exit(1);
        close(pair[0]);
        close(SB_FORWARD_FD_FOLDER);
        ag_forward_relay(pair[1]);
    }
    r = fchdir(SB_FORWARD_FD_FOLDER);
    for (int fd = SB_FORWARD_FD_LISTEN; fd < SB_FORWARD_FD_END; fd++)
        close(fd);
    close(pair[1]);
    if (r < 0)
        return 1;
    ag_forward_dialer(pair[0], relay, (int)port);
}
