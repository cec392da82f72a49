/* SPDX-License-Identifier: Apache-2.0
 * What is left to keeper once it has started: the system calls on what it holds and on the files of its folder, and of its capabilities, as
 * root's, the one to end its sandbox. It needs that: init has an id of its own, and the user namespace isn't root's own either. The filter
 * leaves no other way to signal than by a pidfd, and none to get one but from stage: so it can signal that one init and nobody else. */
#include "keeper-loop.h"

#include <linux/capability.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <util.h>

#include "filter.h"

static int drop_capabilities(void)
{
    struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
    struct __user_cap_data_struct data[2] = { { 0 } };
    uint32_t kept;

    if (syscall(SYS_capget, &header, data) < 0)
        return -1;
    kept = data[0].permitted & (1u << CAP_KILL);
    data[0] = (struct __user_cap_data_struct){ .effective = kept, .permitted = kept };
    data[1] = (struct __user_cap_data_struct){ 0 };
    return (int)syscall(SYS_capset, &header, data);
}

int ag_keeper_confine(void)
{
    static const int calls[] = {
#ifdef SYS_poll
        SYS_poll,
#endif
#ifdef SYS_renameat
        SYS_renameat,
#endif
        SYS_ppoll, SYS_read, SYS_write, SYS_pread64, SYS_pwrite64, SYS_readv, SYS_writev, SYS_preadv, SYS_pwritev, SYS_openat, SYS_close,
        SYS_unlinkat, SYS_renameat2, SYS_ftruncate, SYS_fallocate, SYS_fsync, SYS_fdatasync, SYS_fcntl, SYS_fstat, SYS_newfstatat, SYS_lseek,
        SYS_sendmsg, SYS_recvmsg, SYS_clock_gettime, SYS_timerfd_create, SYS_timerfd_settime, SYS_pidfd_send_signal, SYS_waitid, SYS_brk,
        SYS_munmap, SYS_restart_syscall, SYS_rt_sigreturn, SYS_exit, SYS_exit_group
    };

    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) < 0 || drop_capabilities() < 0)
        return -1;
    return ag_filter_calls(calls, SB_ELEMENTS(calls));
}
