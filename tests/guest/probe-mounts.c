/* SPDX-License-Identifier: Apache-2.0
 * What the root of a sandbox may try with CAP_SYS_ADMIN in its own user namespace: clear the flags of each mount, take mounts away
 * to see what is below, copy them, and mount file systems through which the machine could be reached. */
#include "guest.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/mount.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

static int set_attributes(const char *path, unsigned long long set, unsigned long long clear, unsigned int flags)
{
    struct mount_attr attr = { .attr_set = set, .attr_clr = clear };

    return syscall(SYS_mount_setattr, AT_FDCWD, path, flags, &attr, sizeof attr) < 0 ? errno : 0;
}

static int copy_without(const char *path, unsigned int recursive, unsigned long long clear)
{
    struct mount_attr attr = { .attr_clr = clear };
    int tree = (int)syscall(SYS_open_tree, AT_FDCWD, path, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | recursive), r = 0;

    if (tree < 0)
        return errno;
    if (syscall(SYS_mount_setattr, tree, "", AT_EMPTY_PATH, &attr, sizeof attr) < 0)
        r = errno;
    close(tree);
    return r;
}

/* "flags MOUNT: readonly nosuid nodev" are what it has; then what clearing each gives, in three ways. */
static void try_mount(const char *path, const char *options)
{
    static const struct {
        const char *name;
        unsigned long long attr;
        unsigned long flag;
    } locks[] = { { "ro", MOUNT_ATTR_RDONLY, MS_RDONLY }, { "nosuid", MOUNT_ATTR_NOSUID, MS_NOSUID }, { "nodev", MOUNT_ATTR_NODEV, MS_NODEV },
                  { "noexec", MOUNT_ATTR_NOEXEC, MS_NOEXEC } };
    unsigned long all = 0;
    char name[4200], padded[1024];

    snprintf(padded, sizeof padded, ",%s,", options);
    for (size_t i = 0; i < sizeof locks / sizeof *locks; i++) {
        char word[16];

        snprintf(word, sizeof word, ",%s,", locks[i].name);
        if (strstr(padded, word))
            all |= locks[i].flag;
    }
    for (size_t i = 0; i < sizeof locks / sizeof *locks; i++) {
        int r;

        if (!(all & locks[i].flag))
            continue;
        snprintf(name, sizeof name, "clear %s by setattr %s", locks[i].name, path);
        probe_say(name, "%s", probe_errno(set_attributes(path, 0, locks[i].attr, 0)));
        snprintf(name, sizeof name, "clear %s by remount %s", locks[i].name, path);
        r = mount(NULL, path, NULL, MS_REMOUNT | MS_BIND | (all & ~locks[i].flag), NULL) < 0 ? errno : 0;
        probe_say(name, "%s", probe_errno(r));
        snprintf(name, sizeof name, "clear %s by copy %s", locks[i].name, path);
        probe_say(name, "%s", probe_errno(copy_without(path, AT_RECURSIVE, locks[i].attr)));
    }
    snprintf(name, sizeof name, "unmount %s", path);
    probe_say(name, "%s", probe_errno(umount2(path, MNT_DETACH) < 0 ? errno : 0));
    snprintf(name, sizeof name, "move %s", path);
    probe_say(name, "%s", probe_errno(mount(path, "/tmp/probe-moved", NULL, MS_MOVE, NULL) < 0 ? errno : 0));
}

int probe_mounts(void)
{
    char line[4096], target[2048], options[512];
    char *lines[256];
    size_t n = 0;
    FILE *f = fopen("/proc/self/mountinfo", "re");

    if (!f)
        return 1;
    while (n < 256 && fgets(line, sizeof line, f))
        lines[n++] = strdup(line);
    fclose(f);
    mkdir("/tmp/probe-moved", 0700);
    for (size_t i = 0; i < n; i++)
        if (sscanf(lines[i], "%*d %*d %*s %*s %2047s %511s", target, options) == 2)
            try_mount(target, options);
    probe_say("root without what is mounted on it", "%s", probe_errno(copy_without("/", 0, 0)));
    probe_say("proc without its masks", "%s", probe_errno(copy_without("/proc", 0, 0)));
    return 0;
}

/* Writes back what is there, so that a hole found by this does no harm. */
static void try_write(const char *name, const char *path)
{
    char text[256] = "\n";
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text - 1);

    if (fd >= 0)
        close(fd);
    fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0) {
        probe_say(name, "%s", probe_errno(errno));
        return;
    }
    probe_say(name, "%s", probe_errno(write(fd, text, n > 0 ? (size_t)n : 1) < 0 ? errno : 0));
    close(fd);
}

static void try_fresh(const char *type, const char *options)
{
    char name[192], path[128];
    int r;

    snprintf(path, sizeof path, "/tmp/probe-%s", type);
    mkdir(path, 0700);
    r = mount(type, path, type, 0, options) < 0 ? errno : 0;
    snprintf(name, sizeof name, "mount %s%s%s", type, options ? " " : "", options ? options : "");
    probe_say(name, "%s", probe_errno(r));
    if (r)
        return;
    if (strcmp(type, "proc") == 0) {
        try_write("core_pattern by a fresh proc", "/tmp/probe-proc/sys/kernel/core_pattern");
        try_write("sysrq by a fresh proc", "/tmp/probe-proc/sysrq-trigger");
    } else if (strncmp(type, "cgroup", 6) == 0) {
        snprintf(name, sizeof name, "%s/release_agent", path);
        try_write("release_agent by a fresh cgroup", name);
        snprintf(name, sizeof name, "%s/cgroup.procs", path);
        try_write("cgroup.procs by a fresh cgroup", name);
        snprintf(name, sizeof name, "%s/pids.max", path);
        try_write("pids.max by a fresh cgroup", name);
        snprintf(name, sizeof name, "%s/cgroup.kill", path);
        try_write("cgroup.kill by a fresh cgroup", name);
        snprintf(name, sizeof name, "%s/probe", path);
        probe_say("mkdir by a fresh cgroup", "%s", probe_errno(mkdir(name, 0755) < 0 ? errno : 0));
    }
    umount2(path, MNT_DETACH);
}

int probe_escape(void)
{
    static const char *const controllers[] = { "memory", "pids", "cpu", "devices", "freezer", "rdma", "none,name=probe" };

    try_fresh("proc", NULL);
    try_fresh("sysfs", NULL);
    try_fresh("cgroup2", NULL);
    for (size_t i = 0; i < sizeof controllers / sizeof *controllers; i++)
        try_fresh("cgroup", controllers[i]);
    try_fresh("mqueue", NULL);
    try_fresh("devtmpfs", NULL);
    try_fresh("debugfs", NULL);
    try_fresh("tracefs", NULL);
    try_fresh("securityfs", NULL);
    try_fresh("bpf", NULL);
    try_fresh("fusectl", NULL);
    try_fresh("configfs", NULL);
    try_fresh("binfmt_misc", NULL);
    try_write("core_pattern", "/proc/sys/kernel/core_pattern");
    try_write("modprobe", "/proc/sys/kernel/modprobe");
    try_write("sysrq", "/proc/sysrq-trigger");
    try_write("max_user_namespaces", "/proc/sys/user/max_user_namespaces");
    try_write("panic", "/proc/sys/kernel/panic");
    probe_say("mknod disk", "%s", probe_errno(mknod("/tmp/probe-disk", S_IFBLK | 0600, makedev(254, 0)) < 0 ? errno : 0));
    probe_say("mknod null", "%s", probe_errno(mknod("/tmp/probe-null", S_IFCHR | 0600, makedev(1, 3)) < 0 ? errno : 0));
    probe_say("mknod in dev", "%s", probe_errno(mknod("/dev/probe-mem", S_IFCHR | 0600, makedev(1, 1)) < 0 ? errno : 0));
    probe_say("new user namespace", "%s", probe_errno(unshare(CLONE_NEWUSER) < 0 ? errno : 0));
    probe_say("setns pid 1", "%s",
              probe_errno(syscall(SYS_setns, syscall(SYS_pidfd_open, 1, 0), CLONE_NEWNS | CLONE_NEWNET | CLONE_NEWUSER) < 0 ? errno : 0));
    return 0;
}

/* What /proc and /sys show and take. */
int probe_proc(void)
{
    static const char *const read[] = { "/proc/kcore", "/proc/kallsyms", "/proc/keys", "/proc/timer_list", "/proc/kmsg", "/proc/key-users",
                                        "/proc/sched_debug", "/proc/iomem", "/proc/slabinfo", "/proc/vmallocinfo" };
    static const char *const written[] = { "/proc/sysrq-trigger", "/proc/sys/kernel/core_pattern", "/proc/sys/kernel/hostname",
                                           "/proc/sys/vm/drop_caches", "/proc/sys/net/ipv4/ip_forward", "/proc/sys/user/max_user_namespaces",
                                           "/proc/irq/default_smp_affinity", "/proc/bus/pci/devices", "/sys/kernel/mm/ksm/run",
                                           "/sys/power/state", "/sys/kernel/uevent_helper" };
    char name[256], byte[64];

    for (size_t i = 0; i < sizeof read / sizeof *read; i++) {
        int fd = open(read[i], O_RDONLY | O_CLOEXEC | O_NONBLOCK);
        ssize_t n = fd < 0 ? -1 : (ssize_t)syscall(SYS_read, fd, byte, sizeof byte);

        snprintf(name, sizeof name, "read %s", read[i]);
        probe_say(name, "%s", n > 0 ? "ok" : n == 0 ? "empty" : probe_errno(errno));
        if (fd >= 0)
            close(fd);
    }
    for (size_t i = 0; i < sizeof written / sizeof *written; i++) {
        snprintf(name, sizeof name, "write %s", written[i]);
        try_write(name, written[i]);
    }
    return 0;
}
