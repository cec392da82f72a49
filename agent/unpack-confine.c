/* SPDX-License-Identifier: Apache-2.0
 * What a worker gives up before it reads a byte, each wall by itself enough against a parser that was taken over:
 * the sight of any path but its folder (an empty root in its own mount namespace, and Landlock), all capabilities but those
 * that set owners and modes, new privileges, and every system call that it does not need. */
#include "unpack.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/landlock.h>
#include <linux/mount.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "filter.h"

#include <util.h>

/* Newer than the kernel headers of the oldest system this builds on. */
#ifndef LANDLOCK_ACCESS_FS_REFER
#define LANDLOCK_ACCESS_FS_REFER (1ull << 13)
#endif
#ifndef LANDLOCK_ACCESS_FS_TRUNCATE
#define LANDLOCK_ACCESS_FS_TRUNCATE (1ull << 14)
#endif
#define ACCESS_IOCTL_DEV (1ull << 15)

static void set_limits(const struct sb_unpack_plan *plan)
{
    const struct {
        int which;
        rlim_t value;
    } limits[] = {
        { RLIMIT_CORE, 0 },
        { RLIMIT_NOFILE, 256 },
        { RLIMIT_AS, (rlim_t)2 << 30 },
        { RLIMIT_CPU, 6 * 3600 },
        /* a file's size is checked before it is written: this catches what the check would miss */
        { RLIMIT_FSIZE, plan->max_bytes > 0 ? (rlim_t)plan->max_bytes + 4096 : 0 },
    };

    for (size_t i = 0; i < SB_ELEMENTS(limits); i++) {
        struct rlimit now, limit = { limits[i].value, limits[i].value };

        if (getrlimit(limits[i].which, &now) == 0 && now.rlim_max != RLIM_INFINITY && limit.rlim_max > now.rlim_max)
            limit.rlim_cur = limit.rlim_max = now.rlim_max;
        if (setrlimit(limits[i].which, &limit) < 0)
            au_fail(SANDBOX_EIO, errno, NULL, "limiting the unpack helper");
    }
    signal(SIGXFSZ, SIG_IGN);
}

/* An empty, read-only tmpfs becomes the root: no absolute path leads anywhere. Not everywhere possible (a kernel whose root
 * is the initial ramdisk can't pivot); Landlock stands then. Returns 1 when it stands. */
static int empty_root(void)
{
    int fs = (int)syscall(SYS_fsopen, "tmpfs", FSOPEN_CLOEXEC), mnt = -1, done = 0;

    if (fs >= 0 && syscall(SYS_fsconfig, fs, FSCONFIG_SET_STRING, "size", "4096", 0) == 0 &&
        syscall(SYS_fsconfig, fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0) == 0)
        mnt = (int)syscall(SYS_fsmount, fs, FSMOUNT_CLOEXEC, MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC);
    if (mnt >= 0 && mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
        syscall(SYS_move_mount, mnt, "", AT_FDCWD, "/", MOVE_MOUNT_F_EMPTY_PATH) == 0 && fchdir(mnt) == 0 &&
        syscall(SYS_pivot_root, ".", ".") == 0 && umount2(".", MNT_DETACH) == 0 && chdir("/") == 0)
        done = 1;
    sb_close(mnt);
    sb_close(fs);
    return done;
}

static int add_rule(int ruleset, int fd, uint64_t access)
{
    struct landlock_path_beneath_attr rule = { .allowed_access = access, .parent_fd = fd };

    return (int)syscall(SYS_landlock_add_rule, ruleset, LANDLOCK_RULE_PATH_BENEATH, &rule, 0);
}

/* Returns 1 when it stands, 0 when the kernel has none. */
static int landlock(int source, int dest)
{
    const uint64_t read_access = LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR;
    uint64_t all = (LANDLOCK_ACCESS_FS_MAKE_SYM << 1) - 1;
    struct landlock_ruleset_attr attr;
    SB_CLOSE int ruleset = -1;
    long abi = syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);

    if (abi < 1)
        return 0;
    if (abi >= 2)
        all |= LANDLOCK_ACCESS_FS_REFER;
    if (abi >= 3)
        all |= LANDLOCK_ACCESS_FS_TRUNCATE;
    if (abi >= 5)
        all |= ACCESS_IOCTL_DEV;
    attr = (struct landlock_ruleset_attr){ .handled_access_fs = all };
    ruleset = (int)syscall(SYS_landlock_create_ruleset, &attr, sizeof attr, 0);
    if (ruleset < 0)
        return 0;
    if ((dest >= 0 && add_rule(ruleset, dest, all & ~(LANDLOCK_ACCESS_FS_EXECUTE | ACCESS_IOCTL_DEV)) < 0) ||
        (source >= 0 && add_rule(ruleset, source, read_access) < 0) || syscall(SYS_landlock_restrict_self, ruleset, 0) < 0)
        au_fail(SANDBOX_EIO, errno, NULL, "restricting the unpack helper by Landlock");
    return 1;
}

static void drop_capabilities(enum au_role role)
{
    static const uint64_t kept[] = {
        [AU_ROLE_READER] = 0,
        [AU_ROLE_WRITER] = 1u << CAP_CHOWN | 1u << CAP_DAC_OVERRIDE | 1u << CAP_FOWNER | 1u << CAP_FSETID | 1u << CAP_MKNOD | 1ull << CAP_SETFCAP,
        [AU_ROLE_PACKER] = 1u << CAP_DAC_READ_SEARCH,
        [AU_ROLE_REMOVER] = 1u << CAP_DAC_OVERRIDE | 1u << CAP_FOWNER,
        [AU_ROLE_ADOPTER] = 1u << CAP_CHOWN | 1u << CAP_DAC_OVERRIDE | 1u << CAP_FOWNER | 1u << CAP_FSETID,
    };
    struct __user_cap_header_struct head = { _LINUX_CAPABILITY_VERSION_3, 0 };
    struct __user_cap_data_struct data[2] = { 0 };
    uint64_t keep = kept[role];

    prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
    for (int c = 0; c <= 63; c++)
        if (!(keep >> c & 1) && prctl(PR_CAPBSET_DROP, c, 0, 0, 0) < 0 && errno != EINVAL && errno != EPERM)
            au_fail(SANDBOX_EIO, errno, NULL, "dropping capability %d", c);
    /* what the caller has not can't be kept */
    if (syscall(SYS_capget, &head, data) < 0)
        au_fail(SANDBOX_EIO, errno, NULL, "reading capabilities");
    for (int i = 0; i < 2; i++) {
        data[i].permitted &= (uint32_t)(keep >> (32 * i));
        data[i].effective = data[i].permitted;
        data[i].inheritable = 0;
    }
    if (syscall(SYS_capset, &head, data) < 0)
        au_fail(SANDBOX_EIO, errno, NULL, "dropping capabilities");
}

static const int allowed[] = {
    SYS_read, SYS_pread64, SYS_write, SYS_pwrite64, SYS_lseek, SYS_close, SYS_fstat, SYS_newfstatat, SYS_statx, SYS_openat,
    SYS_openat2, SYS_getdents64, SYS_fcntl, SYS_readlinkat, SYS_mkdirat, SYS_mknodat, SYS_symlinkat, SYS_linkat, SYS_unlinkat,
    SYS_renameat2, SYS_fchown, SYS_fchownat, SYS_fchmod, SYS_fchmodat, SYS_utimensat, SYS_ftruncate, SYS_fsetxattr,
    SYS_fgetxattr, SYS_flistxattr, SYS_fstatfs, SYS_ppoll,
#ifdef SYS_poll
    SYS_poll,
#endif
    SYS_syncfs, SYS_munmap, SYS_mremap, SYS_brk, SYS_madvise, SYS_futex, SYS_rt_sigaction,
    SYS_rt_sigprocmask, SYS_rt_sigreturn, SYS_restart_syscall, SYS_sendto, SYS_getrandom, SYS_clock_gettime, SYS_gettimeofday,
    SYS_sysinfo, SYS_getpid, SYS_gettid, SYS_tgkill, SYS_exit, SYS_exit_group,
#ifdef SYS_renameat
    SYS_renameat,
#endif
};

static void filter_system_calls(void)
{
    int r = ag_filter_calls(allowed, SB_ELEMENTS(allowed));

    if (r)
        au_fail(SANDBOX_EIO, -r, NULL, "filtering the unpack helper's system calls");
}

void au_confine(enum au_role role, const struct sb_unpack_plan *plan, int source, int dest)
{
    int walls = 0;

    set_limits(plan);
    if (role == AU_ROLE_READER || role == AU_ROLE_WRITER)
        walls += empty_root();
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        au_fail(SANDBOX_EIO, errno, NULL, "setting no_new_privs");
    walls += landlock(source, dest);
    if ((role == AU_ROLE_READER || role == AU_ROLE_WRITER) && !walls)
        au_fail(SANDBOX_EDENIED, 0, "a kernel with Landlock, or one whose user namespaces may mount, is needed",
                "this host lets the unpack helper give up neither its root nor its paths");
    drop_capabilities(role);
    filter_system_calls();
}
