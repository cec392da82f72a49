/* SPDX-License-Identifier: Apache-2.0
 * See filter.h. Written out by hand: the library for it is none of a static program's business. */
#include "filter.h"

#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include <util.h>

#if defined(__x86_64__)
#define NATIVE_ARCH AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define NATIVE_ARCH AUDIT_ARCH_AARCH64
#else
#error "the system call filter knows x86_64 and aarch64"
#endif

#define PUT(...) filter[n++] = (struct sock_filter)__VA_ARGS__

static int install(struct sock_filter *filter, size_t n)
{
    struct sock_fprog program = { .len = (unsigned short)n, .filter = filter };

    return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0) < 0 ? -errno : 0;
}

/* Other architectures' calls are the other filter's business. */
int ag_filter_families(const int *allowed, size_t n_allowed)
{
    struct sock_filter filter[2 * AG_FILTER_FAMILIES_MAX + 8];
    size_t n = 0;

    if (n_allowed > AG_FILTER_FAMILIES_MAX)
        return -E2BIG;
    PUT(BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)));
    PUT(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_socket, 1, 0));
    PUT(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
    PUT(BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[0]))); /* an int: the upper half counts for nobody */
    for (size_t i = 0; i < n_allowed; i++) {
        PUT(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned int)allowed[i], 0, 1));
        PUT(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
    }
    PUT(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EAFNOSUPPORT));
    return install(filter, n);
}

int ag_filter_calls(const int *allowed, size_t n_allowed)
{
    static struct sock_filter filter[2 * AG_FILTER_CALLS_MAX + 24];
    static const int mapping[] = { SYS_mmap, SYS_mprotect };
    size_t n = 0;

    if (n_allowed > AG_FILTER_CALLS_MAX)
        return -E2BIG;
    PUT(BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch)));
    PUT(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, NATIVE_ARCH, 1, 0));
    PUT(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS));
    PUT(BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)));
    for (size_t i = 0; i < n_allowed; i++) {
        PUT(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned int)allowed[i], 0, 1));
        PUT(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
    }
    for (size_t i = 0; i < SB_ELEMENTS(mapping); i++) { /* memory, but none that can be executed */
        PUT(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned int)mapping[i], 0, 4));
        PUT(BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[2])));
        PUT(BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, PROT_EXEC, 0, 1));
        PUT(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM));
        PUT(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
    }
    PUT(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS));
    return install(filter, n);
}
