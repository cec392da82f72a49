/* SPDX-License-Identifier: Apache-2.0
 * The red team's rows D: faults of the program that uses the library, and of its state. What is left half made is repaired by the
 * next open; the oracle around this suite sees to it that nothing stays. */
#include "box.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static struct sandbox_host *host;
static struct sandbox_error *error;

/* The folder is this process's, before any child asks for it. */
static void set_up(void)
{
    box_root();
}

static const char *driver(void)
{
    const char *path = getenv("SBTEST_DRIVER");

    ck_assert_ptr_nonnull(path);
    return path;
}

/* How many faults of each kind are tried: .ci/deep asks for more. */
static int rounds(void)
{
    const char *deep = getenv("SBTEST_DEEP");

    return deep && *deep ? 8 : 2;
}

static const char *strace(void)
{
    return access("/usr/bin/strace", X_OK) == 0 ? "/usr/bin/strace" : NULL;
}

static size_t count(void)
{
    struct sandbox_list *list = NULL;
    size_t n;

    sbtest_ok(sandbox_host_list(host, NULL, &list, &error), &error);
    n = sandbox_list_get_count(list);
    sandbox_list_unref(list);
    return n;
}

/* Opens the host that a fault left behind, deletes what it lists, and must then find the folder of sandboxes empty. */
static void repair(const char *fault)
{
    static const char *const folders[] = { "sandboxes", "trash", "names", "keys", "owners" };
    struct sandbox_list *list = NULL;
    char path[700];

    host = box_host();
    sbtest_ok(sandbox_host_list(host, NULL, &list, &error), &error);
    for (size_t i = 0; i < sandbox_list_get_count(list); i++) {
        struct sandbox *sandbox = NULL;

        sbtest_ok(sandbox_open(host, sandbox_info_get_id(sandbox_list_get(list, i)), &sandbox, &error), &error);
        sbtest_ok(sandbox_delete(sandbox, 20000, &error), &error);
        sandbox_unref(sandbox);
    }
    sandbox_list_unref(list);
    ck_assert_uint_eq(count(), 0);
    /* its name is free */
    {
        struct sandbox_spec *spec = box_spec();
        struct sandbox *sandbox = NULL;

        sbtest_ok(sandbox_spec_set_name(spec, "driven", &error), &error);
        sbtest_ok(sandbox_spec_set_idempotency_key(spec, "driven:owned", &error), &error);
        sandbox = box_start(host, spec);
        ck_assert_int_eq(box_code(sandbox, NULL, "exit 6"), 6);
        sbtest_ok(sandbox_delete(sandbox, 20000, &error), &error);
        sandbox_unref(sandbox);
    }
    host = sandbox_host_unref(host);
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
        snprintf(path, sizeof path, "%s/%s", box_root(), folders[i]);
        if (box_entries(path) > 0)
            ck_abort_msg("%d entries are left in %s after %s", box_entries(path), folders[i], fault);
    }
}

/* Processes of this test that live or are zombies, but for us. */
static void reap_orphans(void)
{
    while (waitpid(-1, NULL, WNOHANG | __WALL) > 0)
        ;
}

/* All that this test's children left, which come to this process (it adopts them), have ended. */
static void await_orphans(void)
{
    long until = box_now() + sbtest_slowly(20000);

    while (waitpid(-1, NULL, WNOHANG | __WALL) >= 0) {
        ck_assert_int_lt(box_now(), until);
        usleep(5000);
    }
}

static int has_no_child(pid_t pid)
{
    char path[64], *text;
    int none;

    snprintf(path, sizeof path, "/proc/%d/task/%d/children", (int)pid, (int)pid);
    if (access(path, R_OK) < 0)
        return 0;
    text = box_read(path);
    none = *text == 0;
    free(text);
    return none;
}

static int run_under_strace(const char *inject, int detached, char *said, size_t size)
{
    int p[2], status = 0, seen = 0, ended = 0;
    long begun = box_now();
    size_t n = 0;
    ssize_t r;
    pid_t pid;

    ck_assert_int_eq(pipe2(p, O_CLOEXEC), 0);
    pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid == 0) {
        dup2(p[1], 2);
        setenv("ASAN_OPTIONS", "detect_leaks=0", 1); /* the leak checker traces, and what is traced can't be */
        execl(strace(), "strace", "-f", "-qq", "-o", "/dev/null", "-e", inject, driver(), box_root(), "d", detached ? "detached" : (char *)NULL,
              (char *)NULL);
        _exit(125);
    }
    close(p[1]);
    /* not to the pipe's end: a sandbox that lives on may hold it */
    while (waitpid(pid, &status, WNOHANG) == 0) {
        struct pollfd f = { p[0], POLLIN, 0 };

        if (!has_no_child(pid) || box_now() - begun > 2000)
            seen = 1;
        if (detached && seen && !ended && has_no_child(pid)) { /* the driver has ended, and strace waits for a sandbox that lives on */
            kill(pid, SIGKILL); /* it blocks the milder ones */
            ended = 1;
        }
        if (poll(&f, 1, 20) == 1 && n < size - 1 && (r = read(p[0], said + n, size - 1 - n)) > 0)
            n += (size_t)r;
    }
    fcntl(p[0], F_SETFL, O_NONBLOCK);
    while (n < size - 1 && (r = read(p[0], said + n, size - 1 - n)) > 0)
        n += (size_t)r;
    said[n] = 0;
    close(p[0]);
    if (ended) /* strace's status tells nothing then; what the driver said does */
        return strstr(said, "without a proper error") ? 4 << 8 : 3 << 8;
    return status;
}

/* What the driver and the agent call on their way; each is failed or fatal at some of its uses. */
static const char *const sampled[] = {
    "openat", "mkdirat", "renameat,rename,renameat2", "fsync,fdatasync", "write", "unlinkat", "clone,clone3,vfork,fork", "mount", "move_mount",
    "open_tree", "fsopen", "fsmount", "sendmsg", "recvmsg", "socket", "socketpair,pipe2", "memfd_create", "execve", "fcntl", "mount_setattr",
    "unshare", "pivot_root", "setresuid", "fchownat", "bind", "listen,accept4,connect", "pidfd_open", "getdents64", "flock", "epoll_wait,poll,ppoll",
};
enum { SAMPLED = sizeof sampled / sizeof *sampled };

START_TEST(redteam_d01)
{
    /* which use: a few of the first ones, and some later; not the same in each run of the suite, but named when it fails */
    static const int when[] = { 1, 2, 3, 5, 8, 13, 21 };
    unsigned int seed = (unsigned int)_i * 2654435761u;
    char inject[256], said[4096];

    if (!strace())
        sbtest_skip("there is no strace");
    if (box_privilege() == BOX_SUBIDS)
        sbtest_skip("newuidmap gets no rights when it is traced");
    for (int k = 0; k < rounds(); k++) {
        snprintf(inject, sizeof inject, "inject=%s:signal=SIGKILL:when=%d", sampled[_i], when[(seed >> (3 * k) & 0xff) % 7]);
        run_under_strace(inject, (_i + k) % 2, said, sizeof said);
        repair(inject);
        reap_orphans();
    }
}
END_TEST

START_TEST(redteam_d02)
{
    static const char *const errors[] = { "ENOSPC", "EIO", "ENOMEM", "EINTR", "EMFILE", "EACCES" };
    static const int when[] = { 1, 2, 4, 7, 12 };
    unsigned int seed = (unsigned int)_i * 2246822519u + 99;
    char inject[256], said[4096];

    if (!strace())
        sbtest_skip("there is no strace");
    if (box_privilege() == BOX_SUBIDS)
        sbtest_skip("newuidmap gets no rights when it is traced");
    for (int k = 0; k < rounds(); k++) {
        int status;

        snprintf(inject, sizeof inject, "inject=%s:error=%s:when=%d", sampled[_i], errors[(seed >> (3 * k + 3) & 0x1f) % 6],
                 when[(seed >> (3 * k) & 0xff) % 5]);
        status = run_under_strace(inject, (_i + k) % 2, said, sizeof said);
        if (!WIFEXITED(status) || (WEXITSTATUS(status) != 0 && WEXITSTATUS(status) != 3))
            ck_abort_msg("%s: status %x: %s", inject, status, said);
        repair(inject);
        reap_orphans();
    }
}
END_TEST

/* The same without strace: the program is killed after a random time. */
START_TEST(redteam_d01_random)
{
    srand((unsigned int)_i * 7919u + 1);
    ck_assert_int_eq(prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
    for (int k = 0; k < 3 * rounds(); k++) {
        pid_t pid = fork();

        ck_assert_int_ge(pid, 0);
        if (pid == 0) {
            int null = open("/dev/null", O_WRONLY | O_CLOEXEC);

            dup2(null, 2);
            for (;;) {
                pid_t child = fork();
                int status;

                if (child == 0) {
                    execl(driver(), "lifecycle-driver", box_root(), (char *)NULL);
                    _exit(125);
                }
                waitpid(child, &status, 0);
            }
        }
        usleep((useconds_t)(20000 + rand() % 60000));
        kill(pid, SIGKILL);
        waitpid(pid, NULL, 0);
        await_orphans(); /* its child ends by itself */
        {
            pid_t child = fork();

            if (child == 0) {
                execl(driver(), "lifecycle-driver", box_root(), "s", (char *)NULL);
                _exit(125);
            }
            usleep((useconds_t)(rand() % 30000));
            kill(child, SIGKILL);
            waitpid(child, NULL, 0);
        }
        repair("a kill at any time");
        reap_orphans();
    }
}
END_TEST

/* The sandbox's init, whose parent is this process. */
static pid_t child_init(void)
{
    DIR *proc = opendir("/proc");
    struct dirent *e;
    pid_t found = 0;

    while (proc && (e = readdir(proc))) {
        char path[300], *status, *parent, *pids;

        if (!isdigit((unsigned char)e->d_name[0]))
            continue;
        snprintf(path, sizeof path, "/proc/%s/status", e->d_name);
        if (access(path, R_OK) < 0)
            continue;
        status = box_read(path);
        parent = box_finding(status, "PPid");
        pids = box_finding(status, "NSpid");
        if (parent && pids && atoi(parent + 1) == getpid() && strrchr(pids, '\t') && !strcmp(strrchr(pids, '\t'), "\t1"))
            found = atoi(e->d_name);
        free(status);
        free(parent);
        free(pids);
    }
    if (proc)
        closedir(proc);
    return found;
}

/* Out of the sandbox's control group, whose name can't be mistaken, so that only its pid leads to it. */
static void leave_group(pid_t pid)
{
    char line[4096], target[1024], own[1024] = "", path[2200];
    FILE *mounts = fopen("/proc/self/mountinfo", "re"), *groups = fopen("/proc/self/cgroup", "re"), *f;

    while (groups && fgets(line, sizeof line, groups))
        if (strncmp(line, "0::", 3) == 0)
            snprintf(own, sizeof own, "%.*s", (int)strcspn(line + 3, "\n"), line + 3);
    while (mounts && fgets(line, sizeof line, mounts)) {
        if (!strstr(line, " - cgroup2 ") || sscanf(line, "%*d %*d %*s %*s %1023s", target) != 1)
            continue;
        snprintf(path, sizeof path, "%s%s/cgroup.procs", target, own);
        f = fopen(path, "we");
        if (f) {
            fprintf(f, "%d", (int)pid);
            fclose(f);
        }
    }
    if (mounts)
        fclose(mounts);
    if (groups)
        fclose(groups);
}

/* Another boot: the pids in the state are somebody else's. Nobody may be signalled for them. */
START_TEST(redteam_d03)
{
    struct sandbox *sandbox;
    struct sandbox_list *list = NULL;
    char path[600], id[SANDBOX_ID_LENGTH + 1];
    pid_t init;
    int status;

    if (geteuid() != 0)
        sbtest_skip("only root can show another boot id");
    host = box_host();
    sandbox = box_start(host, NULL);
    snprintf(id, sizeof id, "%s", sandbox_get_id(sandbox));
    init = child_init();
    ck_assert_int_gt(init, 0);
    leave_group(init);
    box_write(sbtest_dir(), "boot", "11111111-2222-4333-8444-555555555555\n");
    snprintf(path, sizeof path, "%s/boot", sbtest_dir());
    ck_assert_int_eq(mount(path, "/proc/sys/kernel/random/boot_id", NULL, MS_BIND, NULL), 0);
    {
        struct sandbox_host *after = box_host();
        struct sandbox *same = NULL;

        ck_assert_int_eq(kill(init, 0), 0); /* the open repaired, and let it live: it is nobody we know */
        sbtest_ok(sandbox_host_list(after, NULL, &list, &error), &error);
        for (size_t i = 0; i < sandbox_list_get_count(list); i++)
            ck_assert_int_ne(sandbox_info_get_state(sandbox_list_get(list, i)), SANDBOX_STATE_RUNNING);
        if (sandbox_list_get_count(list)) {
            sbtest_ok(sandbox_open(after, id, &same, &error), &error);
            sandbox_unref(same);
        }
        sandbox_list_unref(list);
        ck_assert_int_eq(waitpid(init, &status, WNOHANG | __WALL), 0);
        sandbox_host_unref(after);
    }
    ck_assert_int_eq(umount2("/proc/sys/kernel/random/boot_id", MNT_DETACH), 0);
    sbtest_ok(sandbox_delete(sandbox, 20000, &error), &error);
    sandbox_unref(sandbox);
    kill(init, SIGKILL); /* where the record went with the other boot's open, its init is ours to end */
    waitpid(init, NULL, __WALL);
    box_end(&host, NULL);
}
END_TEST

/* 32 processes want one name: one gets it. */
START_TEST(redteam_d04)
{
    int won = 0, lost = 0, other = 0, go[2], done[2];
    struct sandbox_list *list = NULL;

    ck_assert_int_eq(pipe2(go, O_CLOEXEC) | pipe2(done, O_CLOEXEC), 0);
    host = box_host();
    for (int i = 0; i < 32; i++) {
        pid_t pid = fork();

        ck_assert_int_ge(pid, 0);
        if (pid == 0) {
            struct sandbox_host *own = box_host();
            struct sandbox_spec *spec = box_spec();
            struct sandbox *sandbox = NULL;
            char byte;
            int r;

            sbtest_ok(sandbox_spec_set_name(spec, "the-one", NULL), NULL);
            sbtest_ok(sandbox_spec_set_lifetime(spec, SANDBOX_LIFETIME_DETACHED, NULL), NULL);
            close(go[1]);
            if (read(go[0], &byte, 1) != 0)
                _exit(9);
            r = sandbox_create(own, spec, 20000, &sandbox, NULL);
            _exit(r == 0 ? 0 : r == SANDBOX_EEXISTS ? 1 : 2);
        }
    }
    close(go[0]);
    close(go[1]);
    close(done[0]);
    close(done[1]);
    for (int i = 0; i < 32; i++) {
        int status = 0;

        ck_assert_int_gt(wait(&status), 0);
        won += WIFEXITED(status) && WEXITSTATUS(status) == 0;
        lost += WIFEXITED(status) && WEXITSTATUS(status) == 1;
        other += !WIFEXITED(status) || WEXITSTATUS(status) > 1;
    }
    ck_assert_int_eq(won, 1);
    ck_assert_int_eq(lost, 31);
    ck_assert_int_eq(other, 0);
    sbtest_ok(sandbox_host_list(host, NULL, &list, &error), &error);
    ck_assert_uint_eq(sandbox_list_get_count(list), 1);
    ck_assert_str_eq(sandbox_info_get_name(sandbox_list_get(list, 0)), "the-one");
    sandbox_list_unref(list);
    host = sandbox_host_unref(host);
    repair("a kill at any time");
}
END_TEST

/* One of two processes is killed at work; the other goes on at once. */
START_TEST(redteam_d05)
{
    ck_assert_int_eq(prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
    host = box_host();
    for (int k = 0; k < 10; k++) {
        struct sandbox *sandbox;
        long begun;
        pid_t pid = fork();

        ck_assert_int_ge(pid, 0);
        if (pid == 0) {
            int null = open("/dev/null", O_WRONLY | O_CLOEXEC);

            dup2(null, 2);
            for (;;) {
                pid_t child = vfork();

                if (child == 0) {
                    execl(driver(), "lifecycle-driver", box_root(), (char *)NULL);
                    _exit(125);
                }
                waitpid(child, NULL, 0);
            }
        }
        usleep((useconds_t)(5000 * k));
        kill(pid, SIGKILL);
        begun = box_now();
        sandbox = box_start(host, NULL);
        ck_assert_int_eq(box_code(sandbox, NULL, "exit 2"), 2);
        sbtest_ok(sandbox_delete(sandbox, 20000, &error), &error);
        sandbox_unref(sandbox);
        ck_assert_int_lt(box_now() - begun, sbtest_slowly(3000));
        waitpid(pid, NULL, 0);
    }
    host = sandbox_host_unref(host);
    await_orphans();
    repair("a kill at any time");
}
END_TEST

static int open_root(const char *root)
{
    struct sandbox_host_options options = SANDBOX_HOST_OPTIONS_INIT;
    struct sandbox_host *other = NULL;
    int r;

    options.state_root = root;
    r = sandbox_host_open("local:", &options, 10000, &other, &error);
    if (r < 0) {
        ck_assert_ptr_nonnull(error);
        ck_assert_str_ne(sandbox_error_get_message(error), "");
    }
    error = sandbox_error_unref(error);
    sandbox_host_unref(other);
    return r;
}

START_TEST(redteam_d07)
{
    char root[600], way[600];

    snprintf(root, sizeof root, "%s/other", sbtest_dir());
    snprintf(way, sizeof way, "%s/way", sbtest_dir());
    /* open to others */
    ck_assert_int_eq(mkdir(root, 0755), 0);
    ck_assert_int_eq(chmod(root, 0777), 0);
    ck_assert_int_eq(open_root(root), SANDBOX_EDENIED);
    ck_assert_int_eq(box_entries(root), 0);
    /* a link */
    ck_assert_int_eq(chmod(root, 0700), 0);
    ck_assert_int_eq(symlink(root, way), 0);
    ck_assert_int_lt(open_root(way), 0);
    ck_assert_int_eq(box_entries(root), 0);
    /* not a folder */
    unlink(way);
    box_write(sbtest_dir(), "way", "");
    ck_assert_int_lt(open_root(way), 0);
    ck_assert_int_lt(open_root("relative/path"), 0);
    /* of somebody else */
    if (geteuid() == 0) {
        ck_assert_int_eq(chown(root, 4711, 4711), 0);
        ck_assert_int_eq(open_root(root), SANDBOX_EDENIED);
        ck_assert_int_eq(chown(root, 0, 0), 0);
    } else {
        ck_assert_int_lt(open_root("/root/libsandbox"), 0);
        ck_assert_int_lt(open_root("/etc"), 0);
    }
    ck_assert_int_eq(rmdir(root), 0);
}
END_TEST

/* A state root on a disk that is full, or read-only. */
START_TEST(redteam_d07_disk)
{
    static const char *const folders[] = { "sandboxes", "trash", "names", "keys" };
    struct sandbox_host_options options = SANDBOX_HOST_OPTIONS_INIT;
    struct sandbox_spec *spec;
    struct sandbox *sandbox = NULL;
    static const char block[65536];
    const char *why;
    char disk[600], root[700], path[800];
    int fd, r;

    snprintf(disk, sizeof disk, "%s/disk", sbtest_dir());
    snprintf(root, sizeof root, "%s/state", disk);
    why = box_small_disk(disk, "size=4m,mode=0700");
    if (why)
        sbtest_skip(why);
    options.state_root = root;
    sbtest_ok(sandbox_host_open("local:", &options, 10000, &host, &error), &error);
    snprintf(path, sizeof path, "%s/filler", disk);
    fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    for (size_t size = 65536; size; size /= 2)
        while (write(fd, block, size) == (ssize_t)size)
            ;
    spec = box_spec();
    sbtest_ok(sandbox_spec_set_name(spec, "on-a-full-disk", &error), &error);
    sbtest_ok(sandbox_spec_set_idempotency_key(spec, "on-a-full-disk", &error), &error);
    r = sandbox_create(host, spec, 10000, &sandbox, &error);
    ck_assert_int_eq(r, SANDBOX_ENOSPACE);
    error = sandbox_error_unref(error);
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) { /* nothing half made */
        snprintf(path, sizeof path, "%s/%s", root, folders[i]);
        ck_assert_int_eq(box_entries(path), 0);
    }
    snprintf(path, sizeof path, "%s/filler", disk);
    /* with room again, it works */
    ck_assert_int_eq(ftruncate(fd, 0), 0);
    sbtest_ok(sandbox_create(host, spec, 10000, &sandbox, &error), &error);
    /* and a full disk is no obstacle to a deletion */
    for (size_t size = 65536; size; size /= 2)
        while (write(fd, block, size) == (ssize_t)size)
            ;
    sbtest_ok(sandbox_delete(sandbox, 10000, &error), &error);
    sandbox = sandbox_unref(sandbox);
    close(fd);
    unlink(path);
    host = sandbox_host_unref(host);
    /* read-only */
    ck_assert_int_eq(mount(NULL, disk, NULL, MS_REMOUNT | MS_RDONLY, NULL), 0);
    r = sandbox_host_open("local:", &options, 10000, &host, &error);
    if (r == 0) {
        r = sandbox_create(host, spec, 10000, &sandbox, &error);
        host = sandbox_host_unref(host);
    }
    ck_assert_int_eq(r, SANDBOX_EREADONLY);
    error = sandbox_error_unref(error);
    sandbox_spec_unref(spec);
    ck_assert_int_eq(umount2(disk, 0), 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("redteam-faults");
    TCase *tc = sbtest_case("faults");
    int sampled_here = box_privilege() == BOX_SUBIDS ? 1 : SAMPLED; /* one skip is enough */

    tcase_add_checked_fixture(tc, set_up, NULL);
    tcase_set_timeout(tc, getenv("SBTEST_DEEP") ? 600 : 60);
    tcase_add_loop_test(tc, redteam_d01, 0, sampled_here);
    tcase_add_loop_test(tc, redteam_d01_random, 0, 3);
    tcase_add_loop_test(tc, redteam_d02, 0, sampled_here);
    tcase_add_test(tc, redteam_d03);
    tcase_add_test(tc, redteam_d04);
    tcase_add_test(tc, redteam_d05);
    tcase_add_test(tc, redteam_d07);
    tcase_add_test(tc, redteam_d07_disk);
    suite_add_tcase(suite, tc);
    return box_main(suite);
}
