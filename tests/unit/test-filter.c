/* SPDX-License-Identifier: Apache-2.0
 * The seccomp programs of both architectures, on either machine: each is run by a small interpreter of classic BPF over calls
 * whose right answers stand here. So a filter that was compiled for the other architecture is tested as well as one's own. */
#include <filter.h>
#include <sbtest.h>
#include <util.h>

#include <errno.h>
#include <linux/audit.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <seccomp.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

static struct sock_filter *programs[2][2]; /* by architecture and kind */
static size_t counts[2][2];
enum { X86, ARM };

static const uint32_t scmp_arch[] = { SCMP_ARCH_X86_64, SCMP_ARCH_AARCH64 }, audit_arch[] = { AUDIT_ARCH_X86_64, AUDIT_ARCH_AARCH64 };

static void begin(void)
{
    seccomp_api_set(3); /* as filter-gen does */
    for (int arch = 0; arch < 2; arch++)
        for (int kind = 0; kind < 2; kind++)
            ck_assert_int_eq(sb_filter_build((enum sb_filter_kind)kind, scmp_arch[arch], &programs[arch][kind], &counts[arch][kind]), 0);
}

static void end(void)
{
    for (int arch = 0; arch < 2; arch++)
        for (int kind = 0; kind < 2; kind++)
            free(SB_TAKE_PTR(programs[arch][kind]));
}

static uint32_t run(const struct sock_filter *program, size_t count, const struct seccomp_data *data)
{
    uint32_t a = 0;

    for (size_t pc = 0; pc < count; pc++) {
        const struct sock_filter *i = &program[pc];

        switch (i->code) {
        case BPF_LD | BPF_W | BPF_ABS:
            ck_assert_uint_le(i->k + sizeof a, sizeof *data);
            memcpy(&a, (const char *)data + i->k, sizeof a);
            break;
        case BPF_ALU | BPF_AND | BPF_K:
            a &= i->k;
            break;
        case BPF_JMP | BPF_JA:
            pc += i->k;
            break;
        case BPF_JMP | BPF_JEQ | BPF_K:
            pc += a == i->k ? i->jt : i->jf;
            break;
        case BPF_JMP | BPF_JGT | BPF_K:
            pc += a > i->k ? i->jt : i->jf;
            break;
        case BPF_JMP | BPF_JGE | BPF_K:
            pc += a >= i->k ? i->jt : i->jf;
            break;
        case BPF_JMP | BPF_JSET | BPF_K:
            pc += a & i->k ? i->jt : i->jf;
            break;
        case BPF_RET | BPF_K:
            return i->k;
        default:
            ck_abort_msg("instruction %#x", i->code);
        }
    }
    ck_abort_msg("the program does not end");
}

static uint32_t decide(int arch, int kind, int nr, uint64_t a0, uint64_t a1, uint64_t a2)
{
    const struct seccomp_data data = { .nr = nr, .arch = audit_arch[arch], .args = { a0, a1, a2 } };

    return run(programs[arch][kind], counts[arch][kind], &data);
}

/* numbers: x86_64, aarch64 (-1: has none); answers: command, daemon (0: allowed, else the errno) */
static const struct {
    const char *name;
    int nr[2];
    uint64_t a0, a1, a2;
    int answer[2];
} calls[] = {
    { "read", { 0, 63 }, 0, 0, 0, { 0, 0 } },
    { "execve", { 59, 221 }, 0, 0, 0, { 0, 0 } },
    { "mount", { 165, 40 }, 0, 0, 0, { EPERM, 0 } },
    { "umount2", { 166, 39 }, 0, 0, 0, { EPERM, 0 } },
    { "pivot_root", { 155, 41 }, 0, 0, 0, { EPERM, 0 } },
    { "chroot", { 161, 51 }, 0, 0, 0, { EPERM, 0 } },
    { "fsopen", { 430, 430 }, 0, 0, 0, { ENOSYS, 0 } },
    { "open_tree", { 428, 428 }, 0, 0, 0, { ENOSYS, 0 } },
    { "move_mount", { 429, 429 }, 0, 0, 0, { ENOSYS, 0 } },
    { "mount_setattr", { 442, 442 }, 0, 0, 0, { ENOSYS, 0 } },
    { "setns", { 308, 268 }, 0, 0, 0, { EPERM, 0 } },
    { "unshare newns", { 272, 97 }, CLONE_NEWNS, 0, 0, { EPERM, 0 } },
    { "unshare newuser", { 272, 97 }, CLONE_NEWUSER | CLONE_NEWNS, 0, 0, { EPERM, EPERM } },
    { "unshare newuser, high bits", { 272, 97 }, CLONE_NEWUSER | 0xffffffff00000000, 0, 0, { EPERM, EPERM } },
    { "clone", { 56, 220 }, 17, 0, 0, { 0, 0 } },
    { "clone newuser", { 56, 220 }, CLONE_NEWUSER | 17, 0, 0, { EPERM, EPERM } },
    { "clone3", { 435, 435 }, 0, 0, 0, { ENOSYS, ENOSYS } },
    { "add_key", { 248, 217 }, 0, 0, 0, { ENOSYS, ENOSYS } },
    { "keyctl", { 250, 219 }, 0, 0, 0, { ENOSYS, ENOSYS } },
    { "bpf", { 321, 280 }, 0, 0, 0, { EPERM, EPERM } },
    { "perf_event_open", { 298, 241 }, 0, 0, 0, { EPERM, EPERM } },
    { "userfaultfd", { 323, 282 }, 0, 0, 0, { EPERM, EPERM } },
    { "io_uring_setup", { 425, 425 }, 0, 0, 0, { ENOSYS, ENOSYS } },
    { "open_by_handle_at", { 304, 265 }, 0, 0, 0, { EPERM, EPERM } },
    { "modify_ldt", { 154, -1 }, 0, 0, 0, { ENOSYS, ENOSYS } },
    { "iopl", { 172, -1 }, 0, 0, 0, { EPERM, EPERM } },
    { "reboot", { 169, 142 }, 0, 0, 0, { EPERM, EPERM } },
    { "init_module", { 175, 105 }, 0, 0, 0, { EPERM, EPERM } },
    { "syslog", { 103, 116 }, 0, 0, 0, { EPERM, EPERM } },
    { "quotactl_fd", { 443, 443 }, 0, 0, 0, { ENOSYS, ENOSYS } },
    { "statmount", { 457, 457 }, 0, 0, 0, { ENOSYS, 0 } },
    { "listmount", { 458, 458 }, 0, 0, 0, { ENOSYS, 0 } },
    { "lsm_get_self_attr", { 459, 459 }, 0, 0, 0, { 0, 0 } },
    { "lsm_set_self_attr", { 460, 460 }, 0, 0, 0, { ENOSYS, ENOSYS } },
    { "mseal", { 462, 462 }, 0, 0, 0, { 0, 0 } },
    { "whatever comes next", { 463, 463 }, 0, 0, 0, { ENOSYS, ENOSYS } },
    { "whatever comes much later", { 100000, 100000 }, 0, 0, 0, { ENOSYS, ENOSYS } },
    { "ioctl TIOCGWINSZ", { 16, 29 }, 0, TIOCGWINSZ, 0, { 0, 0 } },
    { "ioctl TIOCSTI", { 16, 29 }, 0, TIOCSTI, 0, { EPERM, EPERM } },
    { "ioctl TIOCSTI, high bits", { 16, 29 }, 0, TIOCSTI | 0x100000000, 0, { EPERM, EPERM } },
    { "ioctl TIOCLINUX", { 16, 29 }, 0, 0x541c, 0, { EPERM, EPERM } },
    { "socket UNIX", { 41, 198 }, AF_UNIX, SOCK_STREAM, 0, { 0, 0 } },
    { "socket INET", { 41, 198 }, AF_INET, SOCK_STREAM, 0, { 0, 0 } },
    { "socket INET6", { 41, 198 }, AF_INET6, SOCK_DGRAM, 0, { 0, 0 } },
    { "socket NETLINK_ROUTE", { 41, 198 }, AF_NETLINK, SOCK_RAW, 0, { 0, 0 } },
    { "socket NETLINK_AUDIT", { 41, 198 }, AF_NETLINK, SOCK_RAW, 9, { EAFNOSUPPORT, EAFNOSUPPORT } },
    { "socket ALG", { 41, 198 }, AF_ALG, SOCK_SEQPACKET, 0, { EAFNOSUPPORT, EAFNOSUPPORT } },
    { "socket VSOCK", { 41, 198 }, AF_VSOCK, SOCK_STREAM, 0, { EAFNOSUPPORT, EAFNOSUPPORT } },
    { "socket AX25", { 41, 198 }, AF_AX25, SOCK_DGRAM, 0, { EAFNOSUPPORT, EAFNOSUPPORT } },
    { "socket ALG, high bits", { 41, 198 }, AF_ALG | 0x100000000, SOCK_SEQPACKET, 0, { EAFNOSUPPORT, EAFNOSUPPORT } },
    { "socket NETLINK_AUDIT, high bits", { 41, 198 }, AF_NETLINK, SOCK_RAW, 9 | 0x100000000, { EAFNOSUPPORT, EAFNOSUPPORT } },
    { "socketpair UNIX", { 53, 199 }, AF_UNIX, SOCK_STREAM, 0, { 0, 0 } },
    { "socketpair TIPC", { 53, 199 }, AF_TIPC, SOCK_STREAM, 0, { EAFNOSUPPORT, EAFNOSUPPORT } },
};

START_TEST(the_right_calls_are_denied)
{
    for (int arch = 0; arch < 2; arch++)
        for (int kind = 0; kind < 2; kind++) {
            const int nr = calls[_i].nr[arch], answer = calls[_i].answer[kind];
            const uint32_t expected = answer ? SECCOMP_RET_ERRNO | (uint32_t)answer : SECCOMP_RET_ALLOW;

            if (nr >= 0)
                ck_assert_msg(decide(arch, kind, nr, calls[_i].a0, calls[_i].a1, calls[_i].a2) == expected, "%s, %s, %s: %#x", calls[_i].name,
                              arch == X86 ? "x86_64" : "aarch64", kind == SB_FILTER_COMMAND ? "command" : "daemon",
                              decide(arch, kind, nr, calls[_i].a0, calls[_i].a1, calls[_i].a2));
        }
}
END_TEST

START_TEST(other_architectures_are_killed)
{
    for (int arch = 0; arch < 2; arch++)
        for (int kind = 0; kind < 2; kind++) {
            const struct seccomp_data foreign = { .nr = 4, .arch = AUDIT_ARCH_I386 }, other = { .nr = 4, .arch = audit_arch[!arch] };

            ck_assert_uint_eq(run(programs[arch][kind], counts[arch][kind], &foreign), SECCOMP_RET_KILL_PROCESS);
            ck_assert_uint_eq(run(programs[arch][kind], counts[arch][kind], &other), SECCOMP_RET_KILL_PROCESS);
        }
    for (int kind = 0; kind < 2; kind++) /* x32: the same architecture with a bit in the number */
        ck_assert_uint_eq(decide(X86, kind, 0x40000000, 0, 0, 0), SECCOMP_RET_KILL_PROCESS);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("engine-filter");
    TCase *tc = sbtest_case("filter");

    tcase_add_checked_fixture(tc, begin, end);
    tcase_add_loop_test(tc, the_right_calls_are_denied, 0, (int)SB_ELEMENTS(calls));
    tcase_add_test(tc, other_architectures_are_killed);
    suite_add_tcase(suite, tc);
    return sbtest_main(suite);
}
