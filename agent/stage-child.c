/* SPDX-License-Identifier: Apache-2.0
 * The child half of the stage: pid 1 of the sandbox. It mounts the root and all that is in it, pivots, enters the sandbox's user
 * namespace with a copy of the mounts, and is init from then on. See stage.c for why in this order.
 *
 * Up to that step it is as privileged as its caller, and the image is hostile: nothing of the image is ever executed, and each
 * path in it is resolved by openat2 within the new root. What it makes there is made with the ids of the sandbox's root. */
#include "stage.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/keyctl.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/fsuid.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "userns.h"

#include <fs.h>
#include <util.h>

int ag_make_fs(const char *type, const char *const options[][2], size_t n, unsigned int attributes, const char *phase)
{
    SB_CLOSE int fs = fsopen(type, FSOPEN_CLOEXEC);
    int mnt;

    if (fs < 0)
        ag_die(phase, errno, "this kernel has no %s", type);
    for (size_t i = 0; i < n; i++)
        if (fsconfig(fs, options[i][1] ? FSCONFIG_SET_STRING : FSCONFIG_SET_FLAG, options[i][0], options[i][1], 0) < 0)
            ag_die(phase, errno, "%s refuses the option %s=%s", type, options[i][0], options[i][1] ? options[i][1] : "");
    if (fsconfig(fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0)
        ag_die(phase, errno, "%s can't be made here%s", type,
               strcmp(type, "proc")
                   ? ""
                   : ": parts of the machine's /proc are hidden (a container?), and the kernel gives no whole one then");
    mnt = fsmount(fs, FSMOUNT_CLOEXEC, attributes);
    if (mnt < 0)
        ag_die(phase, errno, "%s can't be mounted here", type);
    return mnt;
}

void ag_move_onto(int mnt, int target, const char *phase, const char *what)
{
    if (move_mount(mnt, "", target, "", MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH) < 0)
        ag_die(phase, errno, "%s can't be mounted", what);
}

/* Overlay takes its layers by name: they are attached below a small memory file system, out of everybody's sight. */
void ag_park_tree(int park, const char *name, int *tree)
{
    if (mkdirat(park, name, 0700) < 0 || move_mount(*tree, "", park, name, MOVE_MOUNT_F_EMPTY_PATH) < 0)
        ag_die("park", errno, "%s can't be attached", name);
    *tree = sb_close(*tree);
}

int ag_child_park(struct ag_stage *s)
{
    static const char *const places[] = { "/tmp", "/mnt", "/run", "/var", "/home", "/opt" };
    const char *options[][2] = { { "mode", "0700" }, { "size", "256k" }, { "nr_inodes", "1024" } };
    int park = ag_make_fs("tmpfs", options, SB_ELEMENTS(options), MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV, "park");

    for (size_t i = 0; i < SB_ELEMENTS(places) && !s->park; i++)
        if (move_mount(park, "", AT_FDCWD, places[i], MOVE_MOUNT_F_EMPTY_PATH) == 0)
            s->park = places[i];
    if (!s->park)
        ag_die("park", errno, "no folder to hide mounts behind");
    return park;
}

static void park_layers(struct ag_stage *s)
{
    SB_CLOSE int park = ag_child_park(s);
    char name[16];

    ag_park_tree(park, "rw", &s->rw);
    for (uint32_t i = 0; i < s->plan->n_layers; i++) {
        snprintf(name, sizeof name, "l%u", i);
        ag_park_tree(park, name, &s->layers[i]);
    }
    ag_park_overlays(s, park);
    ag_park_covers(s, park);
}

/* The overlay works in the upper with the rights that its mounter has now. A file system's reserved blocks are not for sandboxes: on a full
 * disk the state's own writes still need them. */
void ag_leave_reserves(void)
{
    struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
    struct __user_cap_data_struct data[2];

    if (syscall(SYS_capget, &header, data) < 0)
        ag_die("overlay", errno, "the capabilities can't be read");
    data[0].effective &= ~(1u << CAP_SYS_RESOURCE);
    if (syscall(SYS_capset, &header, data) < 0)
        ag_die("overlay", errno, "the capabilities can't be set");
}

static int mount_root(const struct ag_stage *s)
{
    char options[4096];
    size_t n;
    int root;

    ag_leave_reserves();
    if (chdir(s->park) < 0) /* relative names keep 128 layers within one page of options */
        ag_die("overlay", errno, "the park can't be entered");
    n = (size_t)snprintf(options, sizeof options, "userxattr,%supperdir=rw/upper,workdir=rw/work,lowerdir=",
                         s->plan->flags & SB_PLAN_VOLATILE ? "volatile," : "");
    for (uint32_t i = s->plan->n_layers; i-- > 0;)
        n += (size_t)snprintf(options + n, sizeof options - n, "l%u%s", i, i ? ":" : "");
    if (mount("overlay", s->park, "overlay", MS_NODEV | MS_NOSUID, options) < 0)
        ag_die("overlay", errno,
               "the root can't be mounted over %s: the state root's file system must be able to hold an overlay's upper",
               SB_PLAN_STRING(s->plan, s->plan->folder));
    root = open(s->park, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (root < 0)
        ag_die("overlay", errno, "the new root can't be opened");
    return root;
}

/* From here on what is made in the root belongs to the sandbox's root, and its rights decide whether it can be. */
static void act_as_inside(const struct ag_stage *s)
{
    setfsgid(s->inner.gid_start);
    setfsuid(s->inner.uid_start);
    if ((uid_t)setfsuid((uid_t)-1) != s->inner.uid_start || (gid_t)setfsgid((gid_t)-1) != s->inner.gid_start)
        ag_die("ids", EPERM, "the sandbox's ids can't be taken");
}

int ag_fixed_folder(int root, const char *name, mode_t mode)
{
    int fd = sb_open_beneath(root, name, O_PATH | O_DIRECTORY, 0);

    if (fd == -ENOENT && mkdirat(root, name, mode) == 0)
        fd = sb_open_beneath(root, name, O_PATH | O_DIRECTORY, 0);
    if (fd < 0)
        ag_die("root", -fd, "/%s of the image is not a folder", name);
    return fd;
}

enum { LINKS_MAX = 8 };

/* Opens `path` (absolute, inside) below root, with missing parts made; the last one a folder or an empty file. Where that is a link that leads
 * nowhere yet, as images have it for /etc/resolv.conf, what it names is made. */
static int open_target(int root, const char *path, int folder, int links)
{
    char part[4096], link[4096], next[8192];
    size_t n = strlen(path);
    int fd = -1;

    if (n >= sizeof part)
        return -ENAMETOOLONG;
    for (size_t i = 1; i <= n; i++) {
        int want_folder = i < n || folder;
        SB_CLOSE int parent = -1;
        ssize_t size;
        char *slash;

        if (path[i] != '/' && path[i] != 0)
            continue;
        memcpy(part, path, i);
        part[i] = 0;
        sb_close(fd);
        fd = sb_open_in_root(root, part, O_PATH | (want_folder ? O_DIRECTORY : 0), 0);
        if (fd >= 0)
            continue;
        if (fd != -ENOENT)
            return fd;
        slash = strrchr(part, '/');
        *slash = 0;
        parent = sb_open_in_root(root, slash == part ? "/" : part, O_PATH | O_DIRECTORY, 0);
        if (parent < 0)
            return parent;
        size = i == n ? readlinkat(parent, slash + 1, link, sizeof link - 1) : -1;
        if (size > 0) {
            link[size] = 0;
            snprintf(next, sizeof next, "%s/%s", link[0] == '/' ? "" : part, link);
            return links < LINKS_MAX ? open_target(root, next, folder, links + 1) : -ELOOP;
        }
        if (want_folder ? mkdirat(parent, slash + 1, 0755) < 0 && errno != EEXIST
                        : mknodat(parent, slash + 1, S_IFREG | 0644, 0) < 0)
            return -errno;
        *slash = '/';
        fd = sb_open_in_root(root, part, O_PATH | (want_folder ? O_DIRECTORY : 0), 0);
        if (fd < 0)
            return fd;
    }
    return fd < 0 ? -EINVAL : fd;
}

static int mount_proc(int root)
{
    SB_CLOSE int target = ag_fixed_folder(root, "proc", 0555);
    int mnt = ag_make_fs("proc", NULL, 0, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC, "proc");

    ag_move_onto(mnt, target, "proc", "proc");
    return mnt;
}

int ag_make_tmpfs(const struct ag_stage *s, uint64_t bytes, unsigned int attributes, const char *phase)
{
    char size[24], inodes[24], uid[16], gid[16];
    const char *options[][2] = {
        { "mode", "1777" }, { "size", size }, { "nr_inodes", inodes }, { "uid", uid }, { "gid", gid },
    };

    snprintf(size, sizeof size, "%llu", (unsigned long long)bytes);
    snprintf(inodes, sizeof inodes, "%llu", (unsigned long long)(bytes / 4096 > 1024 ? bytes / 4096 : 1024));
    snprintf(uid, sizeof uid, "%u", s->inner.uid_start);
    snprintf(gid, sizeof gid, "%u", s->inner.gid_start);
    return ag_make_fs("tmpfs", options, SB_ELEMENTS(options), attributes, phase);
}

static int mount_tmpfs(const struct ag_stage *s, const struct sb_plan_mount *m)
{
    unsigned int attributes = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV;

    return ag_make_tmpfs(s, m->max_bytes, attributes | (m->flags & SB_PLAN_MOUNT_READ_ONLY ? MOUNT_ATTR_RDONLY : 0), "mounts");
}

static void mount_rest(struct ag_stage *s, int root)
{
    for (uint32_t i = 0; i < s->plan->n_mounts; i++) {
        const struct sb_plan_mount *m = &s->plan->mounts[i];
        const char *where = SB_PLAN_STRING(s->plan, m->target);
        SB_CLOSE int mnt = m->type == SB_PLAN_MOUNT_TMPFS ? mount_tmpfs(s, m) : s->mounts[i], target = -1;
        struct stat st;

        if (fstat(mnt, &st) < 0)
            ag_die("mounts", errno, "the source of %s can't be read", where);
        target = open_target(root, where, S_ISDIR(st.st_mode), 0);
        if (target < 0)
            ag_die("target", -target, "the mount's target %s can't be made", where);
        ag_move_onto(mnt, target, "mounts", where);
        s->targets[i] = m->type == SB_PLAN_MOUNT_OVERLAY ? SB_TAKE_FD(target) : -1;
    }
}

static void enter_root(const struct ag_stage *s, int root)
{
    struct mount_attr attr = { .attr_set = MOUNT_ATTR_RDONLY };

    if ((s->plan->flags & SB_PLAN_READ_ONLY) && mount_setattr(root, "", AT_EMPTY_PATH, &attr, sizeof attr) < 0)
        ag_die("root", errno, "the root can't be made read-only");
    if (fchdir(root) < 0 || syscall(SYS_pivot_root, ".", ".") < 0 || umount2(".", MNT_DETACH) < 0 || chdir("/") < 0)
        ag_die("pivot", errno, "the new root can't be entered");
}

/* `sys` is a descriptor of /proc/sys as it was before the mask. */
static int write_sysctl(int sys, const char *name, const char *text)
{
    SB_CLOSE int fd = sb_open_beneath(sys, name, O_WRONLY, 0);

    if (fd < 0)
        return fd;
    return ag_is_procfs(fd) ? sb_write_all(fd, text, strlen(text)) : -EXDEV;
}

/* init has an id of its own, the last one inside, which no command or daemon is given: among equal ids some calls on other processes
 * (prlimit, setpriority, sched_setaffinity, signals) need no capability. A user's only id leaves no choice; the filters refuse pid 1. */
static void become_init(const struct ag_stage *s)
{
    struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
    struct __user_cap_data_struct data[2];
    uint32_t id = SB_PLAN_INIT_ID(s->plan);

    prctl(PR_SET_KEEPCAPS, 1);
    if (setresgid(id, id, id) < 0 || setresuid(id, id, id) < 0)
        ag_die("ids", errno, "init's ids can't be taken");
    prctl(PR_SET_KEEPCAPS, 0);
    if (syscall(SYS_capget, &header, data) < 0)
        ag_die("ids", errno, "init's capabilities can't be read");
    for (int i = 0; i < 2; i++)
        data[i].effective = data[i].permitted;
    if (syscall(SYS_capset, &header, data) < 0)
        ag_die("ids", errno, "init's capabilities can't be kept");
}

/* The last step: the sandbox's user namespace, and a copy of the mounts in it, in which every one is locked. */
static void enter_inside(const struct ag_stage *s, int sys)
{
    int r;

    if (s->inner.privilege != SB_PRIVILEGE_SINGLE && syscall(SYS_setgroups, 0, NULL) < 0)
        ag_die("ids", errno, "the groups can't be dropped");
    syscall(SYS_keyctl, KEYCTL_JOIN_SESSION_KEYRING,
            NULL); /* the caller's keys stay outside; a kernel without keys is fine, too */
    if (setns(s->inside, CLONE_NEWUSER) < 0)
        ag_die("userns", errno, "the sandbox's user namespace can't be entered");
    if (unshare(CLONE_NEWNS) < 0)
        ag_die("lock", errno, "the mounts can't be locked");
    become_init(s);
    /* no user namespaces below this one: only a capability that nothing here will have again can raise it */
    r = write_sysctl(sys, "user/max_user_namespaces", "0");
    if (r)
        ag_die("lock", -r, "user.max_user_namespaces can't be set");
    prctl(PR_SET_DUMPABLE, 0);
}

/* Nothing that this process opened on its way may stay: only what init needs is kept, by number. */
static void close_rest(const struct ag_stage *s, int procfs, int oom_score)
{
    int a = fcntl(procfs, F_DUPFD_CLOEXEC, SB_FD_OOM_SCORE + 1), b = fcntl(oom_score, F_DUPFD_CLOEXEC, SB_FD_OOM_SCORE + 1);

    if (a < 0 || b < 0 || dup3(a, SB_FD_PROC, O_CLOEXEC) < 0 || dup3(b, SB_FD_OOM_SCORE, O_CLOEXEC) < 0)
        ag_die("descriptors", errno, "init's descriptors can't be kept");
    sb_close(SB_FD_ROOT);
    sb_close(SB_FD_LOG);
    close_range((unsigned int)ag_outer_keep(s, SB_FD_OOM_SCORE + 1), ~0u, 0);
}

static void wait_commit(void)
{
    struct sb_control message = { .type = SB_CONTROL_READY };

    if (listen(SB_FD_LISTEN, 512) < 0) /* by init itself: the socket's peer credentials are how others find its pid */
        ag_die("socket", errno, "init's socket can't listen");
    if (send(SB_FD_CONTROL, &message, sizeof message, MSG_NOSIGNAL) != (ssize_t)sizeof message)
        _exit(1);
    /* the library has recorded who we are before it commits: should it die first, so do we */
    if (sb_recv(SB_FD_CONTROL, &message, sizeof message, 0) != (ssize_t)sizeof message ||
        message.type != SB_CONTROL_COMMIT)
        _exit(1);
    close(SB_FD_CONTROL);
}

void ag_child_main(struct ag_stage *s)
{
    SB_CLOSE int root = -1;
    int procfs, sys, null, oom_score;

    setsid();
    if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
        ag_die("root", errno, "the mounts can't be made private");
    oom_score = openat(s->proc, "self/oom_score_adj", O_RDWR | O_CLOEXEC); /* while we may */
    if (oom_score < 0)
        ag_die("proc", errno, "oom_score_adj can't be opened");
    park_layers(s);
    root = mount_root(s);
    ag_child_overlays(s);
    act_as_inside(s);
    procfs = mount_proc(root);
    sys = sb_open_beneath(procfs, "sys", O_PATH | O_DIRECTORY, 0);
    null = ag_child_dev(s, root);
    mount_rest(s, root);
    ag_child_secrets(s, root);
    enter_root(s, root);
    ag_network_enter(s);
    /* the sandbox's root has no rights over this network namespace, so low ports are free for everybody; the host's own is left as it is */
    if (s->plan->network != SB_PLAN_NETWORK_HOST)
        write_sysctl(sys, "net/ipv4/ip_unprivileged_port_start", "0");
    ag_child_masks(procfs, null);
    if (sethostname(SB_PLAN_STRING(s->plan, s->plan->hostname), strlen(SB_PLAN_STRING(s->plan, s->plan->hostname))) < 0)
        ag_die("hostname", errno, "the host name can't be set");
    ag_outer_open(s);
    enter_inside(s, sys);
    close_rest(s, procfs, oom_score);
    wait_commit();
    ag_init_main(s->plan, SB_FD_PROC);
}
