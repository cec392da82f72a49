/* SPDX-License-Identifier: Apache-2.0
 * The child half of the stage: pid 1 of the sandbox. It mounts the root, pivots into it, and moves into a second user
 * namespace, so that all its mounts are locked for everything that will ever run here. Then it is init.
 *
 * The order matters (each line was tried the other way): ids are taken before anything is made; clones of parked mounts are
 * opened before the root overlay hides the park; proc is mounted while the machine's own is still visible; limits on user
 * namespaces are written before /proc/sys is made read-only. */
#include "stage.h"

#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "userns.h"

#include <fs.h>
#include <util.h>

struct sources {
    int dev, mounts[SB_PLAN_MAX_MOUNTS];
};

static void take_ids(const struct ag_stage *s)
{
    if (s->plan->map.privilege != SB_PRIVILEGE_SINGLE && syscall(SYS_setgroups, 0, NULL) < 0)
        ag_die("ids", errno, "the groups can't be dropped");
    if (setresgid(0, 0, 0) < 0 || setresuid(0, 0, 0) < 0)
        ag_die("ids", errno, "the sandbox's root can't be entered");
}

static void open_sources(const struct ag_stage *s, struct sources *src)
{
    char path[64];

    snprintf(path, sizeof path, "%s/dev", s->park);
    src->dev = open_tree(AT_FDCWD, path, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_RECURSIVE);
    if (src->dev < 0)
        ag_die("dev", errno, "the parked /dev can't be cloned");
    for (uint32_t i = 0; i < s->plan->n_mounts; i++) {
        src->mounts[i] = -1;
        if (s->plan->mounts[i].type != SB_PLAN_MOUNT_BIND)
            continue;
        snprintf(path, sizeof path, "%s/v%u", s->park, i);
        src->mounts[i] = open_tree(AT_FDCWD, path, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
        if (src->mounts[i] < 0)
            ag_die("mounts", errno, "the parked mount for %s can't be cloned",
                   SB_PLAN_STRING(s->plan, s->plan->mounts[i].target));
    }
}

static int mount_root(const struct ag_stage *s)
{
    char options[4096];
    size_t n;
    int root;

    if (chdir(s->park) < 0) /* relative names keep 128 layers within one page of options */
        ag_die("overlay", errno, "the park can't be entered");
    n = (size_t)snprintf(options, sizeof options, "userxattr,%supperdir=rw/upper,workdir=rw/work,lowerdir=",
                         s->plan->flags & SB_PLAN_VOLATILE ? "volatile," : "");
    for (uint32_t i = s->plan->n_layers; i-- > 0;)
        n += (size_t)snprintf(options + n, sizeof options - n, "l%u%s", i, i ? ":" : "");
    if (mount("overlay", s->park, "overlay", MS_NODEV, options) < 0)
        ag_die("overlay", errno,
               "the root can't be mounted over %s: the file system of the state root must be able to hold an overlay's upper "
               "(ext4, xfs, btrfs, "
               "tmpfs; not another overlay)",
               SB_PLAN_STRING(s->plan, s->plan->folder));
    root = open(s->park, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (root < 0)
        ag_die("overlay", errno, "the new root can't be opened");
    return root;
}

/* A folder right below the root that we mount over: the image must not turn it into something else. */
static int fixed_folder(int root, const char *name, mode_t mode)
{
    int fd = sb_open_beneath(root, name, O_PATH | O_DIRECTORY, 0);

    if (fd == -ENOENT && mkdirat(root, name, mode) == 0)
        fd = sb_open_beneath(root, name, O_PATH | O_DIRECTORY, 0);
    if (fd < 0)
        ag_die("root", -fd, "/%s of the image is not a folder", name);
    return fd;
}

int ag_child_target(int root, const char *path, int folder)
{
    char part[4096];
    size_t n = strlen(path);
    int fd = -1;

    if (n >= sizeof part)
        return -ENAMETOOLONG;
    for (size_t i = 1; i <= n; i++) {
        int last = i == n, want_folder = !last || folder;
        SB_CLOSE int parent = -1;
        char *slash;

        if (path[i] != '/' && path[i] != 0)
            continue;
        memcpy(part, path, i);
        part[i] = 0;
        sb_close(fd);
        fd = sb_open_in_root(root, part, O_PATH | (want_folder ? O_DIRECTORY : 0), 0);
        if (fd != -ENOENT) {
            if (fd < 0)
                return fd;
            continue;
        }
        slash = strrchr(part, '/');
        *slash = 0;
        parent = sb_open_in_root(root, slash == part ? "/" : part, O_PATH | O_DIRECTORY, 0);
        if (parent < 0)
            return parent;
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

static int make_fs(const char *type, const char *const options[][2], size_t n, unsigned int attributes, const char *phase)
{
    SB_CLOSE int fs = fsopen(type, FSOPEN_CLOEXEC);
    int mnt;

    if (fs < 0)
        ag_die(phase, errno, "this kernel has no %s", type);
    for (size_t i = 0; i < n; i++)
        if (fsconfig(fs, options[i][1] ? FSCONFIG_SET_STRING : FSCONFIG_SET_FLAG, options[i][0], options[i][1], 0) < 0)
            ag_die(phase, errno, "%s refuses the option %s=%s", type, options[i][0], options[i][1] ? options[i][1] : "");
    if (fsconfig(fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0)
        ag_die(phase, errno, "%s can't be made here", type);
    mnt = fsmount(fs, FSMOUNT_CLOEXEC, attributes);
    if (mnt < 0)
        ag_die(phase, errno, "%s can't be mounted here%s", type,
               strcmp(type, "proc")
                   ? ""
                   : ": parts of the machine's /proc are hidden (a container?), and the kernel gives no whole one then");
    return mnt;
}

static void move_onto(int mnt, int target, const char *phase, const char *what)
{
    if (move_mount(mnt, "", target, "", MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH) < 0)
        ag_die(phase, errno, "%s can't be mounted", what);
}

static int mount_proc(int root)
{
    SB_CLOSE int target = fixed_folder(root, "proc", 0555);
    int mnt = make_fs("proc", NULL, 0, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC, "proc");

    move_onto(mnt, target, "proc", "proc");
    return mnt;
}

/* Returns an O_PATH descriptor of the sandbox's own null device, for masks. */
static int mount_dev(const struct ag_stage *s, int root, int *dev)
{
    const char *pts[][2] = { { "newinstance", NULL }, { "ptmxmode", "0666" }, { "mode", "0620" }, { "gid", "5" } };
    size_t n_pts = s->plan->map.count > 5 ? 4 : 3;
    char size[24];
    const char *shm[][2] = { { "mode", "1777" }, { "size", size } };
    SB_CLOSE int target = fixed_folder(root, "dev", 0755), at = -1, mnt = -1;
    int null;

    move_onto(*dev, target, "dev", "/dev");
    at = sb_open_beneath(*dev, "pts", O_PATH | O_DIRECTORY, 0);
    mnt = make_fs("devpts", pts, n_pts, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC, "dev");
    move_onto(mnt, at, "dev", "/dev/pts");
    sb_close(at);
    sb_close(mnt);
    snprintf(size, sizeof size, "%llu", (unsigned long long)s->plan->shm_max);
    at = sb_open_beneath(*dev, "shm", O_PATH | O_DIRECTORY, 0);
    mnt = make_fs("tmpfs", shm, 2, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC, "dev");
    move_onto(mnt, at, "dev", "/dev/shm");
    null = sb_open_beneath(*dev, "null", O_PATH, 0);
    if (null < 0)
        ag_die("dev", -null, "/dev/null is missing");
    *dev = sb_close(*dev);
    return null;
}

static void mount_rest(const struct ag_stage *s, struct sources *src, int root)
{
    for (uint32_t i = 0; i < s->plan->n_mounts; i++) {
        const struct sb_plan_mount *m = &s->plan->mounts[i];
        const char *where = SB_PLAN_STRING(s->plan, m->target);
        SB_CLOSE int mnt = src->mounts[i], target = -1;
        struct stat st = { .st_mode = S_IFDIR };

        if (m->type == SB_PLAN_MOUNT_TMPFS) {
            char size[24];
            const char *options[][2] = { { "mode", "1777" }, { "size", size } };

            snprintf(size, sizeof size, "%llu", (unsigned long long)m->max_bytes);
            mnt = make_fs("tmpfs", options, 2,
                          MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | (m->flags & SB_PLAN_MOUNT_READ_ONLY ? MOUNT_ATTR_RDONLY : 0),
                          "mounts");
        } else if (fstat(mnt, &st) < 0) {
            ag_die("mounts", errno, "the source of %s can't be read", where);
        }
        target = ag_child_target(root, where, S_ISDIR(st.st_mode));
        if (target < 0)
            ag_die("mounts", -target, "the mount's target %s can't be made", where);
        move_onto(mnt, target, "mounts", where);
    }
}

static void enter_root(int root)
{
    if (fchdir(root) < 0 || syscall(SYS_pivot_root, ".", ".") < 0 || umount2(".", MNT_DETACH) < 0 || chdir("/") < 0)
        ag_die("pivot", errno, "the new root can't be entered");
}

static int write_sysctl(int procfs, const char *name, const char *text)
{
    SB_CLOSE int fd = sb_open_beneath(procfs, name, O_WRONLY, 0);

    if (fd < 0)
        return fd;
    return ag_is_procfs(fd) ? sb_write_all(fd, text, strlen(text)) : -EXDEV;
}

static void set_up_network(int procfs)
{
    struct ifreq request = { .ifr_name = "lo", .ifr_flags = IFF_UP | IFF_RUNNING };
    SB_CLOSE int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

    if (fd < 0 || ioctl(fd, SIOCSIFFLAGS, &request) < 0)
        ag_die("network", errno, "the loopback can't be set up");
    /* the sandbox's root has no rights over this network namespace, so low ports are free for everybody */
    write_sysctl(procfs, "sys/net/ipv4/ip_unprivileged_port_start", "0");
}

/* One user namespace below this one, init's, and never another: whatever happens inside can't raise it. */
static void limit_namespaces(int procfs)
{
    int r = write_sysctl(procfs, "sys/user/max_user_namespaces", "1");

    if (r)
        ag_die("lock", -r, "user.max_user_namespaces can't be set");
}

/* The last step: a user namespace of the same ids below this one, and a copy of the mounts in it. Every mount is locked there, flags
 * and place; pid, network, uts and ipc namespaces stay this one's, so nothing inside has rights over them: not even a fresh procfs
 * can be mounted. A process that stays behind for a moment writes the maps. */
static void lock_mounts(const struct ag_stage *s, int procfs)
{
    const struct sb_idmap same = {
        .privilege = s->plan->map.privilege == SB_PRIVILEGE_SINGLE ? SB_PRIVILEGE_SINGLE : SB_PRIVILEGE_ROOT,
        .count = s->plan->map.count,
    };
    int pipes[2], status = 0, r;
    struct rlimit limit;
    rlim_t was;
    char byte = 0;
    pid_t helper;

    if (pipe2(pipes, O_CLOEXEC) < 0)
        ag_die("lock", errno, "no pipe");
    prctl(PR_SET_DUMPABLE, 1); /* the maps are files of ours; nothing else runs here yet */
    helper = fork();
    if (helper < 0)
        ag_die("lock", errno, "no process for the id maps");
    if (helper == 0) {
        sb_close(pipes[1]);
        if (SB_RETRY(read(pipes[0], &byte, 1)) != 1)
            _exit(0);
        r = ag_userns_map(procfs, 1, &same);
        if (r)
            ag_die("lock", -r, "the second id map was refused");
        _exit(0);
    }
    /* the soft limit at this moment becomes the new namespace's bound for all of its ids together; the margin is for execs of
     * another id while one has used up its own limit */
    if (getrlimit(RLIMIT_NPROC, &limit) < 0)
        ag_die("lock", errno, "the process limit can't be read");
    was = limit.rlim_cur;
    if (s->plan->nproc_max && s->plan->nproc_max + 8 < limit.rlim_cur) {
        limit.rlim_cur = s->plan->nproc_max + 8;
        setrlimit(RLIMIT_NPROC, &limit);
    }
    if (unshare(CLONE_NEWUSER | CLONE_NEWNS) < 0)
        ag_die("lock", errno, "the second user namespace can't be made");
    if (SB_RETRY(write(pipes[1], &byte, 1)) != 1 || SB_RETRY(waitpid(helper, &status, 0)) < 0 || status)
        ag_die("lock", ECHILD, "the second id map was not written");
    sb_close(pipes[0]);
    sb_close(pipes[1]);
    limit.rlim_cur = was;
    setrlimit(RLIMIT_NPROC, &limit);
    if (setresgid(0, 0, 0) < 0 || setresuid(0, 0, 0) < 0)
        ag_die("lock", errno, "the sandbox's root can't be entered");
    prctl(PR_SET_DUMPABLE, 0);
}

static void wait_commit(void)
{
    struct sb_control message = { .type = SB_CONTROL_READY };

    if (listen(SB_FD_LISTEN, 512) < 0) /* by init itself: the socket's peer credentials are how others find its pid */
        ag_die("socket", errno, "init's socket can't listen");
    if (send(SB_FD_CONTROL, &message, sizeof message, MSG_NOSIGNAL) != (ssize_t)sizeof message)
        _exit(1);
    /* the library has recorded who we are before it commits: should it die first, so do we */
    if (SB_RETRY(recv(SB_FD_CONTROL, &message, sizeof message, 0)) != (ssize_t)sizeof message ||
        message.type != SB_CONTROL_COMMIT)
        _exit(1);
    close(SB_FD_CONTROL);
}

void ag_child_main(struct ag_stage *s)
{
    struct sources src;
    char byte;
    int root, procfs;

    sb_close(s->go[1]);
    if (SB_RETRY(read(s->go[0], &byte, 1)) != 1)
        _exit(1);
    sb_close(s->go[0]);
    setsid();
    take_ids(s);
    if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
        ag_die("root", errno, "the mounts can't be made private");
    open_sources(s, &src);
    root = mount_root(s);
    procfs = mount_proc(root);
    s->null = mount_dev(s, root, &src.dev);
    mount_rest(s, &src, root);
    if (s->plan->flags & SB_PLAN_READ_ONLY) {
        struct mount_attr attr = { .attr_set = MOUNT_ATTR_RDONLY };

        if (mount_setattr(root, "", AT_EMPTY_PATH, &attr, sizeof attr) < 0)
            ag_die("root", errno, "the root can't be made read-only");
    }
    enter_root(root);
    sb_close(root);
    set_up_network(procfs);
    limit_namespaces(procfs); /* while /proc/sys can be written */
    ag_child_masks(procfs, s->null);
    sb_close(s->null);
    if (sethostname(SB_PLAN_STRING(s->plan, s->plan->hostname), strlen(SB_PLAN_STRING(s->plan, s->plan->hostname))) < 0)
        ag_die("hostname", errno, "the host name can't be set");
    lock_mounts(s, procfs);
    sb_close(s->proc);
    sb_close(SB_FD_ROOT);
    wait_commit();
    ag_init_main(s->plan, procfs);
}
