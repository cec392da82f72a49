/* SPDX-License-Identifier: Apache-2.0
 * The oracle's own test: plants a leak of each kind, sees that exactly that kind is reported, takes it away and sees that
 * nothing is. An oracle that can't fail proves nothing. Run by root for the kinds that need it; for anybody else those are named
 * as skipped. */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <linux/if_link.h>
#include <linux/loop.h>
#include <linux/rtnetlink.h>
#include <linux/veth.h>
#include <sys/ioctl.h>

#include "oracle.h"

static char folder[] = "/tmp/sbtest-oracle-XXXXXX";
static char path[4096];
static pid_t child = -1;
static int held = -1, held2 = -1;

struct plant {
    const char *kind;
    int needs_root;
    int (*plant)(void); /* 0, or -errno: can't be planted here */
    void (*clean)(void);
};

static int code(void)
{
    return -errno;
}

static const char *below(const char *name)
{
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static void end_child(void)
{
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
}

/* An orphan in a session of its own, as a careless daemon leaves one. */
static int plant_process(void)
{
    int p[2];
    pid_t middle;

    if (pipe2(p, O_CLOEXEC) < 0)
        return code();
    middle = fork();
    if (middle == 0) {
        pid_t orphan;

        setsid();
        orphan = fork();
        if (orphan == 0)
            for (;;)
                pause();
        _exit(write(p[1], &orphan, sizeof orphan) != sizeof orphan);
    }
    waitpid(middle, NULL, 0);
    if (read(p[0], &child, sizeof child) != sizeof child)
        return -EIO;
    close(p[0]);
    close(p[1]);
    return 0;
}

/* The comparison reaps what is ours to reap, so the parent of a zombie that counts is another process. */
static int plant_zombie(void)
{
    int p[2];
    char byte;

    if (pipe2(p, O_CLOEXEC) < 0)
        return code();
    child = fork();
    if (child == 0) {
        pid_t dead = fork();
        siginfo_t info;

        if (dead == 0)
            _exit(0);
        waitid(P_PID, (id_t)dead, &info, WEXITED | WNOWAIT);
        if (write(p[1], "", 1) != 1)
            _exit(1);
        for (;;)
            pause();
    }
    close(p[1]);
    if (read(p[0], &byte, 1) != 1)
        return -EIO;
    close(p[0]);
    return 0;
}

static int plant_mount(void)
{
    return mkdir(below("mnt"), 0700) < 0 || mount("leak", path, "tmpfs", 0, NULL) < 0 ? code() : 0;
}

static void clean_mount(void)
{
    umount2(below("mnt"), MNT_DETACH);
    rmdir(path);
}

/* One that no process lives in: only a descriptor holds it. */
static int plant_namespace(int flag, const char *name)
{
    int p[2], r = 0;
    char link[64], byte;

    if (pipe2(p, O_CLOEXEC) < 0)
        return code();
    child = fork();
    if (child == 0) {
        if (unshare(flag) < 0)
            _exit(1);
        if (write(p[1], "", 1) != 1)
            _exit(1);
        for (;;)
            pause();
    }
    close(p[1]);
    if (read(p[0], &byte, 1) != 1)
        r = -EPERM;
    close(p[0]);
    if (r == 0) {
        snprintf(link, sizeof link, "/proc/%d/ns/%s", (int)child, name);
        held = open(link, O_RDONLY | O_CLOEXEC);
        if (held < 0)
            r = code();
    }
    end_child();
    return r;
}

static int plant_net(void)
{
    return plant_namespace(geteuid() == 0 ? CLONE_NEWNET : CLONE_NEWUSER | CLONE_NEWNET, "net");
}
static int plant_user(void)
{
    return plant_namespace(CLONE_NEWUSER, "user");
}
static int plant_mnt(void)
{
    return plant_namespace(geteuid() == 0 ? CLONE_NEWNS : CLONE_NEWUSER | CLONE_NEWNS, "mnt");
}
static int plant_uts(void)
{
    return plant_namespace(geteuid() == 0 ? CLONE_NEWUTS : CLONE_NEWUSER | CLONE_NEWUTS, "uts");
}
static int plant_ipc(void)
{
    return plant_namespace(geteuid() == 0 ? CLONE_NEWIPC : CLONE_NEWUSER | CLONE_NEWIPC, "ipc");
}
static int plant_cgroup_namespace(void)
{
    return plant_namespace(geteuid() == 0 ? CLONE_NEWCGROUP : CLONE_NEWUSER | CLONE_NEWCGROUP, "cgroup");
}

/* A pid namespace without processes can be held only after it had one: its init, which has ended by then. */
static int plant_pid(void)
{
    int p[2], stop[2], r = 0;
    char link[64];
    pid_t init;

    if (pipe2(p, O_CLOEXEC) < 0 || pipe2(stop, O_CLOEXEC) < 0)
        return code();
    child = fork();
    if (child == 0) {
        if (unshare(geteuid() == 0 ? CLONE_NEWPID : CLONE_NEWUSER | CLONE_NEWPID) < 0)
            _exit(1);
        close(stop[1]);
        init = fork();
        if (init == 0)
            _exit(read(stop[0], link, 1) != 0);
        if (write(p[1], &init, sizeof init) != sizeof init)
            _exit(1);
        waitpid(init, NULL, 0);
        _exit(0);
    }
    close(p[1]);
    close(stop[0]);
    if (read(p[0], &init, sizeof init) != sizeof init)
        r = -EPERM;
    snprintf(link, sizeof link, "/proc/%d/ns/pid", (int)init);
    held = r == 0 ? open(link, O_RDONLY | O_CLOEXEC) : -1;
    if (r == 0 && held < 0)
        r = code();
    close(p[0]);
    close(stop[1]);
    waitpid(child, NULL, 0);
    return r;
}

static void clean_held(void)
{
    close(held);
}

static int netlink(int type, int flags)
{
    struct {
        struct nlmsghdr h;
        struct ifinfomsg i;
        char a[128];
    } m = { .h = { .nlmsg_len = NLMSG_LENGTH(sizeof(struct ifinfomsg)), .nlmsg_type = (unsigned short)type,
                   .nlmsg_flags = (unsigned short)(NLM_F_REQUEST | NLM_F_ACK | flags) } };
    static const char name[] = "sbtestleak0", kind[] = "veth";
    struct {
        struct nlmsghdr h;
        struct nlmsgerr e;
        char rest[512];
    } answer;
    struct rtattr *a = (struct rtattr *)(void *)((char *)&m + NLMSG_ALIGN(m.h.nlmsg_len)), *k;
    int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE), r = -EIO;

    a->rta_type = IFLA_IFNAME;
    a->rta_len = RTA_LENGTH(sizeof name);
    memcpy(RTA_DATA(a), name, sizeof name);
    m.h.nlmsg_len = NLMSG_ALIGN(m.h.nlmsg_len) + RTA_ALIGN(a->rta_len);
    if (type == RTM_NEWLINK) {
        a = (struct rtattr *)(void *)((char *)&m + m.h.nlmsg_len);
        a->rta_type = IFLA_LINKINFO;
        k = RTA_DATA(a);
        k->rta_type = IFLA_INFO_KIND;
        k->rta_len = RTA_LENGTH(sizeof kind);
        memcpy(RTA_DATA(k), kind, sizeof kind);
        a->rta_len = RTA_LENGTH(RTA_ALIGN(k->rta_len));
        m.h.nlmsg_len += RTA_ALIGN(a->rta_len);
    }
    if (fd >= 0 && send(fd, &m, m.h.nlmsg_len, 0) > 0 && recv(fd, &answer, sizeof answer, 0) > 0)
        r = answer.e.error;
    close(fd);
    return r;
}

static int plant_link(void)
{
    return netlink(RTM_NEWLINK, NLM_F_CREATE | NLM_F_EXCL);
}

static void clean_link(void)
{
    netlink(RTM_DELLINK, 0);
}

static char hierarchy[2048];

/* The first place below the group that the runner made for itself. */
static int plant_cgroup(void)
{
    FILE *own = fopen("/proc/self/mountinfo", "re");
    char line[4096], target[1024];
    int r = -ENOENT;

    while (own && r < 0 && fgets(line, sizeof line, own)) {
        if (!strstr(line, " - cgroup") || sscanf(line, "%*d %*d %*s %*s %1023s", target) != 1)
            continue;
        snprintf(hierarchy, sizeof hierarchy, "%s/sbtest-self", target);
        if (mkdir(hierarchy, 0755) < 0)
            continue;
        snprintf(path, sizeof path, "%s/leak", hierarchy);
        r = mkdir(path, 0755) < 0 ? code() : 0;
    }
    if (own)
        fclose(own);
    return r;
}

static void clean_cgroup(void)
{
    snprintf(path, sizeof path, "%s/leak", hierarchy);
    rmdir(path);
    rmdir(hierarchy);
}

static int plant_loop(void)
{
    char device[64];
    int control = open("/dev/loop-control", O_RDWR | O_CLOEXEC), number, r = 0;

    if (control < 0)
        return code();
    number = ioctl(control, LOOP_CTL_GET_FREE);
    close(control);
    snprintf(device, sizeof device, "/dev/loop%d", number);
    held = open(device, O_RDWR | O_CLOEXEC);
    held2 = open(below("disk"), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (number < 0 || held < 0 || held2 < 0 || ftruncate(held2, 1 << 20) < 0 || ioctl(held, LOOP_SET_FD, held2) < 0)
        r = code();
    close(held2);
    return r;
}

static void clean_loop(void)
{
    ioctl(held, LOOP_CLR_FD);
    close(held);
    unlink(below("disk"));
}

static int plant_fuse(void)
{
    char options[128];

    held = open("/dev/fuse", O_RDWR | O_CLOEXEC);
    if (held < 0)
        return code();
    snprintf(options, sizeof options, "fd=%d,rootmode=40000,user_id=0,group_id=0", held);
    if (mkdir(below("fuse"), 0700) < 0 || mount("leak", path, "fuse", MS_NOSUID | MS_NODEV, options) < 0)
        return code();
    return 0;
}

static void clean_fuse(void)
{
    umount2(below("fuse"), MNT_DETACH);
    close(held);
    rmdir(path);
}

static int plant_file(void)
{
    held = open(below("state.json"), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    return held < 0 ? code() : close(held);
}

static void clean_file(void)
{
    unlink(below("state.json"));
}

static int plant_name(void)
{
    snprintf(path, sizeof path, "/dev/shm/libsandbox-leak-%d", (int)getpid());
    held = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    return held < 0 ? code() : close(held);
}

static void clean_name(void)
{
    unlink(path);
}

static int plant_descriptor(void)
{
    held = memfd_create("leak", MFD_CLOEXEC);
    return held < 0 ? code() : 0;
}

static const struct plant plants[] = {
    { "process", 0, plant_process, end_child },
    { "zombie", 0, plant_zombie, end_child },
    { "mount", 1, plant_mount, clean_mount },
    { "namespace net", 0, plant_net, clean_held },
    { "namespace user", 0, plant_user, clean_held },
    { "namespace pid", 0, plant_pid, clean_held },
    { "namespace mnt", 0, plant_mnt, clean_held },
    { "namespace ipc", 0, plant_ipc, clean_held },
    { "namespace uts", 0, plant_uts, clean_held },
    { "namespace cgroup", 0, plant_cgroup_namespace, clean_held },
    { "link", 1, plant_link, clean_link },
    { "cgroup", 1, plant_cgroup, clean_cgroup },
    { "loop", 1, plant_loop, clean_loop },
    { "fuse", 1, plant_fuse, clean_fuse },
    { "file", 0, plant_file, clean_file },
    { "name", 0, plant_name, clean_name },
    { "descriptor", 0, plant_descriptor, clean_held },
};

/* 1 when the report has a new line of this kind ("namespace net": one that begins "namespace<TAB>net"). */
static int reported(const char *report, const char *kind)
{
    char want[64];
    char *space;

    snprintf(want, sizeof want, "+ %s", kind);
    space = strchr(want + 2, ' ');
    if (space)
        *space = '\t';
    return strstr(report, want) != NULL;
}

static int try_plant(const struct oracle_scope *scope, const struct plant *p)
{
    struct oracle_set before = { 0 };
    char *report = NULL;
    size_t size = 0, n, left;
    FILE *out;
    int planted, r;

    oracle_snapshot(scope, &before);
    planted = p->plant();
    if (planted < 0) {
        oracle_clear(&before);
        r = geteuid() == 0 && strcmp(p->kind, "loop") != 0 && strcmp(p->kind, "fuse") != 0; /* containers lack these devices */
        fprintf(stderr, "%s can't be planted: %s\n", p->kind, strerror(-planted));
        printf("%s - %s%s\n", r ? "not ok" : "ok", p->kind, r ? "" : " # SKIP can't be planted here");
        return r;
    }
    out = open_memstream(&report, &size);
    n = oracle_compare(scope, &before, out);
    fclose(out);
    p->clean();
    left = oracle_compare(scope, &before, stderr);
    oracle_clear(&before);
    r = n == 0 || !reported(report, p->kind) || left != 0;
    printf("%s - %s: %zu differences while planted, %zu after\n", r ? "not ok" : "ok", p->kind, n, left);
    if (r)
        fprintf(stderr, "%s", report);
    free(report);
    return r;
}

int main(void)
{
    struct oracle_scope scope = { .tree = getpid(), .fd_pid = getpid(), .roots = { folder }, .n_roots = 1,
                                  .own_cgroup = "sbtest-self" };
    int failed = 0;

    setvbuf(stdout, NULL, _IOLBF, 0);
    printf("1..%zu\n", sizeof plants / sizeof *plants);
    if (!mkdtemp(folder))
        return 125;
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    if (geteuid() == 0 && unshare(CLONE_NEWNS | CLONE_NEWNET) == 0) {
        (void)mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL);
        (void)mount("fusectl", "/sys/fs/fuse/connections", "fusectl", 0, NULL);
    }
    for (size_t i = 0; i < sizeof plants / sizeof *plants; i++) {
        if (plants[i].needs_root && geteuid() != 0)
            printf("ok - %s # SKIP needs root to be planted\n", plants[i].kind);
        else
            failed += try_plant(&scope, &plants[i]);
    }
    rmdir(folder);
    return failed ? 1 : 0;
}
