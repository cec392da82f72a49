/* SPDX-License-Identifier: Apache-2.0
 * The red team's rows B: the kernel's surface, from a command (of an ordinary user and of uid 0) and from a daemon with
 * CAP_SYS_ADMIN. Each test is named after its row. */
#include "box.h"

#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

static struct sandbox_host *host;
static struct sandbox *sandbox;
static struct sandbox_error *error;

static void set_up(void)
{
    host = box_host();
    sandbox = box_start(host, NULL);
}

static void tear_down(void)
{
    box_end(&host, &sandbox);
}

/* What the probe finds as a command of uid 0, or of an ordinary user. */
static char *probe(int ordinary, const char *what, const char *argument)
{
    struct sandbox_exec_options options = SANDBOX_EXEC_OPTIONS_INIT;
    struct box_run run;
    char *out;

    options.user = ordinary ? box_user() : "0:0";
    box_run(sandbox, &options, NULL, 0, &run, BOX_ARGV("/guest/probe", what, argument));
    ck_assert_int_eq(run.result.kind, SANDBOX_EXEC_EXITED);
    ck_assert_int_eq(run.result.code, 0);
    out = strdup(run.output.out);
    box_clear(&run);
    return out;
}

/* What it finds as the daemon of a sandbox of its own, with CAP_SYS_ADMIN and, where there is one, /dev/fuse. */
static char *probe_daemon(const char *what)
{
    struct sandbox_spec *spec = box_spec();
    char *out = NULL;

    sbtest_ok(sandbox_delete(sandbox, 10000, &error), &error);
    sandbox_unref(sandbox);
    sbtest_ok(sandbox_spec_set_daemon(spec, BOX_ARGV("/guest/probe", "-o", "/found", "-n", what), &error), &error);
    sbtest_ok(sandbox_spec_add_capability(spec, "SYS_ADMIN", &error), &error);
    sbtest_ok(sandbox_spec_add_capability(spec, "MKNOD", &error), &error);
    if (box_privilege() == BOX_ROOT)
        sbtest_ok(sandbox_spec_set_fuse(spec, 1, &error), &error);
    sandbox = box_start(host, spec);
    for (int i = 0; i < 200; i++) {
        free(out);
        out = box_sh(sandbox, NULL, "cat /found 2>/dev/null; :");
        if (strstr(out, "end: probe"))
            return out;
        usleep(50000);
    }
    ck_abort_msg("the daemon's probe did not end: %s", out);
    return out;
}

static const struct {
    const char *name, *right, *daemon; /* NULL: the daemon's business */
} calls[] = {
    { "unshare user", "EPERM", "EPERM" }, { "unshare user high", "EPERM", "EPERM" }, { "unshare time", "EPERM", NULL },
    { "unshare mnt", "EPERM", NULL }, { "unshare all", "EPERM", "EPERM" }, { "clone user", "EPERM", "EPERM" },
    { "clone user high", "EPERM", "EPERM" }, { "clone mnt", "EPERM", NULL }, { "clone3", "ENOSYS", "ENOSYS" }, { "thread", "ok", "ok" },
    { "int80", "killed by SIGSYS|not on this machine", "killed by SIGSYS|not on this machine" },
    { "x32", "killed by SIGSYS|not on this machine", "killed by SIGSYS|not on this machine" },
    { "keyctl", "ENOSYS", "ENOSYS" }, { "add_key", "ENOSYS", "ENOSYS" }, { "request_key", "ENOSYS", "ENOSYS" },
    { "bpf", "EPERM", "EPERM" }, { "perf_event_open", "EPERM", "EPERM" }, { "userfaultfd", "EPERM", "EPERM" },
    { "io_uring_setup", "ENOSYS", "ENOSYS" }, { "fanotify_init", "EPERM", "EPERM" }, { "kexec_load", "EPERM", "EPERM" },
    { "finit_module", "EPERM", "EPERM" }, { "reboot", "EPERM", "EPERM" }, { "swapon", "EPERM", "EPERM" }, { "acct", "EPERM", "EPERM" },
    { "settimeofday", "EPERM", "EPERM" }, { "newest", "ENOSYS", "ENOSYS" },
    { "mount", "EPERM", NULL }, { "bind", "EPERM", NULL }, { "umount2", "EPERM", "EINVAL|EPERM" }, { "pivot_root", "EPERM", NULL },
    { "chroot", "EPERM", NULL }, { "fsopen", "ENOSYS", NULL }, { "fsconfig", "ENOSYS", NULL }, { "fsmount", "ENOSYS", NULL },
    { "fspick", "ENOSYS", NULL }, { "open_tree", "ENOSYS", NULL }, { "move_mount", "ENOSYS", NULL }, { "mount_setattr", "ENOSYS", NULL },
    { "setns", "EPERM", "EPERM" }, { "open_by_handle_at", "EPERM", "EPERM" }, { "mknod char", "EPERM", "EPERM" },
    { "mknod block", "EPERM", "EPERM" }, { "tiocsti", "EPERM", "EPERM" }, { "tiocsti high", "EPERM", "EPERM" },
    { "tioclinux", "EPERM", "EPERM" },
};

static void calls_between(const char *out, size_t first, size_t end, int daemon)
{
    for (size_t i = first; i < end; i++) {
        const char *right = daemon ? calls[i].daemon : calls[i].right;

        if (right)
            box_expect(out, calls[i].name, right);
    }
}

static size_t call(const char *name)
{
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
        if (strcmp(calls[i].name, name) == 0)
            return i;
    ck_abort_msg("no call %s", name);
    return 0;
}

/* B01 namespaces, B02 other ABIs, B04 keys and large parts of the kernel, B05 mounts, B06 handles, B07 devices, B09 terminals */
START_TEST(redteam_b01_b02_b04)
{
    char *out = probe(_i, "calls", NULL);

    calls_between(out, 0, call("mount"), 0);
    free(out);
}
END_TEST

START_TEST(redteam_b05_b06_b07_b09)
{
    char *out = probe(_i, "calls", NULL);

    calls_between(out, call("mount"), sizeof calls / sizeof *calls, 0);
    free(out);
}
END_TEST

START_TEST(redteam_b01_daemon)
{
    char *out = probe_daemon("calls");

    calls_between(out, 0, sizeof calls / sizeof *calls, 1);
    free(out);
}
END_TEST

static void families(const char *out)
{
    char name[32];

    for (int f = 0; f < 50; f++) {
        int open = f == AF_UNIX || f == AF_INET || f == AF_NETLINK;

        snprintf(name, sizeof name, "family %d", f);
        box_expect(out, name, open ? "ok" : f == AF_INET6 ? "ok|EAFNOSUPPORT" : "EAFNOSUPPORT");
    }
    for (int p = 1; p < 24; p++) {
        snprintf(name, sizeof name, "netlink %d", p);
        box_expect(out, name, "EAFNOSUPPORT");
    }
    box_expect(out, "netlink 0", "ok");
    box_expect(out, "alg high", "EAFNOSUPPORT");
    box_expect(out, "vsock high", "EAFNOSUPPORT");
    box_expect(out, "netlink high", "EAFNOSUPPORT");
    box_expect(out, "raw", "EPERM");
}

START_TEST(redteam_b03)
{
    char *out = probe(_i, "sockets", NULL);

    families(out);
    free(out);
}
END_TEST

START_TEST(redteam_b03_daemon)
{
    char *out = probe_daemon("sockets");

    families(out);
    free(out);
}
END_TEST

static void devices(const char *out, int fuse)
{
    static const char *const names[] = { "null", "zero", "full", "random", "urandom", "tty", "ptmx", "pts", "shm", "fd", "stdin", "stdout",
                                         "stderr", "fuse", "end" };

    for (const char *line = out; line && *line; line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL) {
        size_t n = strcspn(line, ":"), i;

        for (i = 0; i < sizeof names / sizeof *names; i++)
            if (strlen(names[i]) == n && strncmp(names[i], line, n) == 0)
                break;
        if (i == sizeof names / sizeof *names)
            ck_abort_msg("/dev has more than it should: %.*s", (int)strcspn(line, "\n"), line);
    }
    box_expect(out, "null", "c 1:3 666");
    box_expect(out, "zero", "c 1:5 666");
    box_expect(out, "random", "c 1:8 666");
    box_expect(out, "urandom", "c 1:9 666");
    if (fuse)
        box_expect(out, "fuse", "c 10:229 600");
    else
        ck_assert_ptr_null(box_finding(out, "fuse"));
}

START_TEST(redteam_b08)
{
    char *out = probe(0, "dev", NULL);

    devices(out, 0);
    free(out);
    out = probe_daemon("dev");
    devices(out, box_privilege() == BOX_ROOT);
    free(out);
}
END_TEST

static void proc_is_safe(const char *out)
{
    box_expect_all(out, "read /proc/", "empty|EACCES|EPERM|ENOENT");
    box_expect_all(out, "write /", "EROFS|EACCES|EPERM|ENOENT|EIO");
}

START_TEST(redteam_b10)
{
    char *out = probe(_i, "proc", NULL);

    proc_is_safe(out);
    free(out);
}
END_TEST

START_TEST(redteam_b10_daemon)
{
    char *out = probe_daemon("proc");

    proc_is_safe(out);
    free(out);
}
END_TEST

static void no_escape(const char *out)
{
    /* what is not the sandbox's own may not be mounted (binfmt_misc is: each user namespace has one) */
    static const char *const never[] = { "mount proc", "mount sysfs", "mount mqueue", "mount devtmpfs", "mount debugfs", "mount tracefs",
                                         "mount securityfs", "mount bpf", "mount fusectl", "mount configfs" };

    for (size_t i = 0; i < sizeof never / sizeof *never; i++)
        box_expect(out, never[i], "EPERM|EACCES|ENODEV|EBUSY|EINVAL");
    for (const char *line = out; line && *line; line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL)
        if (strstr(line, "by a fresh") && strcspn(line, "\n") > 4 && strncmp(line + strcspn(line, "\n") - 4, ": ok", 4) == 0)
            ck_abort_msg("reached: %.*s", (int)strcspn(line, "\n"), line);
    box_expect(out, "core_pattern", "EROFS|EACCES|EPERM|ENOENT");
    box_expect(out, "modprobe", "EROFS|EACCES|EPERM|ENOENT");
    box_expect(out, "sysrq", "EROFS|EACCES|EPERM|ENOENT");
    box_expect(out, "max_user_namespaces", "EROFS|EACCES|EPERM");
    box_expect(out, "panic", "EROFS|EACCES|EPERM");
    box_expect(out, "mknod disk", "EPERM");
    box_expect(out, "mknod null", "EPERM");
    box_expect(out, "mknod in dev", "EPERM|EACCES");
    box_expect(out, "new user namespace", "EPERM|ENOSPC");
    box_expect(out, "setns pid 1", "EPERM");
}

/* A15, B11, B13, B18: the daemon against the machine */
START_TEST(redteam_b11_b13_b18_daemon)
{
    char *out = probe_daemon("escape");

    no_escape(out);
    free(out);
}
END_TEST

START_TEST(redteam_b11)
{
    char *out = probe(_i, "escape", NULL);

    no_escape(out);
    free(out);
}
END_TEST

static int listen_unix(const char *name, int abstract)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    socklen_t size = sizeof address;
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    ck_assert_uint_lt(strlen(name), sizeof address.sun_path - 1);
    memcpy(address.sun_path + abstract, name, strlen(name));
    if (abstract)
        size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + strlen(name));
    ck_assert_int_eq(bind(fd, (struct sockaddr *)&address, size), 0);
    ck_assert_int_eq(listen(fd, 8), 0);
    return fd;
}

START_TEST(redteam_b12)
{
    char name[64], *out;
    int fd;

    snprintf(name, sizeof name, "sbtest-%d", (int)getpid());
    fd = listen_unix(name, 1);
    out = probe(_i, "abstract", name);
    box_expect(out, "connect", "ECONNREFUSED");
    free(out);
    close(fd);
}
END_TEST

/* The image "host" holds none of the machine's sockets, wherever they are. */
START_TEST(redteam_b15)
{
    char *found, path[108], *out;
    int fd;

    found = box_sh(sandbox, NULL, "find / -xdev -type s 2>/dev/null; find /run /var/run /tmp /home -type s 2>/dev/null; :");
    ck_assert_str_eq(found, "");
    free(found);
    snprintf(path, sizeof path, "%s/s", sbtest_dir());
    fd = listen_unix(path, 0);
    out = probe(_i, "socket", path);
    box_expect(out, "connect", "ENOENT|EACCES");
    free(out);
    close(fd);
    unlink(path);
}
END_TEST

/* Clearing any flag of any mount, taking any away, moving or copying what is under it. */
static void mounts_are_locked(const char *out)
{
    box_expect_all(out, "clear ", "EPERM|EINVAL|EACCES|ENOSYS|EBUSY|ENOENT");
    box_expect_all(out, "unmount ", "EPERM|EINVAL|EBUSY|ENOENT");
    box_expect_all(out, "move ", "EPERM|EINVAL|EBUSY|ENOENT|ENOTDIR|ELOOP");
    box_expect(out, "root without what is mounted on it", "EPERM|EINVAL|ENOSYS");
    box_expect(out, "proc without its masks", "EPERM|EINVAL|ENOSYS");
}

START_TEST(redteam_b14)
{
    char *out = probe(_i, "mounts", NULL);

    mounts_are_locked(out);
    free(out);
}
END_TEST

START_TEST(redteam_b14_daemon)
{
    char *out = probe_daemon("mounts");

    mounts_are_locked(out);
    free(out);
}
END_TEST

static long timed_inspect(void)
{
    struct sandbox_info *info = NULL;
    long begun = box_now();

    sbtest_ok(sandbox_inspect(sandbox, &info, &error), &error);
    ck_assert_int_eq(sandbox_info_get_state(info), SANDBOX_STATE_RUNNING);
    sandbox_info_unref(info);
    return box_now() - begun;
}

/* While one command floods, pid 1 answers and commands of others run. */
START_TEST(redteam_b16)
{
    static const char *const floods[] = { "floodstop", "flicker", "rtflood" };
    struct sandbox_exec_options options = SANDBOX_EXEC_OPTIONS_INIT;
    struct sandbox_exec *flood = NULL;
    const char *flooder = _i == 0 ? box_user() : "0:0";
    long worst = 0, begun;
    char line[6];
    int out;

    options.user = flooder;
    sbtest_ok(sandbox_exec(sandbox, BOX_ARGV("/guest/bombs", floods[_i], "8"), &options, &flood, &error), &error);
    sbtest_ok(sandbox_exec_take_stdout(flood, &out, &error), &error);
    ck_assert_int_eq(read(out, line, 6), 6);
    for (int i = 0; i < 20; i++) {
        long t = timed_inspect();

        worst = t > worst ? t : worst;
        if (_i == 0 && !box_user())
            continue; /* there is one uid only: its commands are stopped, as it asked */
        begun = box_now();
        ck_assert_int_eq(box_code(sandbox, _i == 0 ? "0:0" : box_user(), "exit 3"), 3);
        ck_assert_int_lt(box_now() - begun, sbtest_slowly(3000));
    }
    /* 50 ms, and what a busy machine adds */
    ck_assert_int_lt(worst, sbtest_slowly(500));
    close(out);
    sandbox_exec_unref(flood);
    begun = box_now();
    sbtest_ok(sandbox_delete(sandbox, 10000, &error), &error);
    ck_assert_int_lt(box_now() - begun, sbtest_slowly(5000));
}
END_TEST

/* The ids of root's sandboxes belong to nobody that could be given them by /etc/subuid. */
START_TEST(redteam_b17)
{
    char *map, *line;
    unsigned long inside, outside, count;
    char entry[256];
    FILE *f;

    if (box_privilege() != BOX_ROOT)
        sbtest_skip("it is about root's sandboxes");
    f = fopen("/etc/subuid", "re");
    {
        struct sandbox_exec *exec = NULL;
        char path[64];
        int found = 0;

        sbtest_ok(sandbox_exec(sandbox, BOX_ARGV("sleep", "987654"), NULL, &exec, &error), &error);
        for (int pid = 2; pid < 4194304 && !found; pid++) {
            char text[64] = "";
            struct stat st;
            FILE *c;

            snprintf(path, sizeof path, "/proc/%d/cmdline", pid);
            c = fopen(path, "re");
            if (!c)
                continue;
            found = fread(text, 1, sizeof text - 1, c) >= 12 && memcmp(text, "sleep\0987654", 12) == 0 && stat(path, &st) == 0;
            fclose(c);
            if (found) {
                ck_assert_uint_ge(st.st_uid, 0x70000000u);
                ck_assert_uint_lt(st.st_uid, 0x7ffe0000u);
                snprintf(path, sizeof path, "/proc/%d/uid_map", pid);
            }
        }
        ck_assert_int_eq(found, 1);
        map = box_read(path);
        sbtest_ok(sandbox_exec_kill(exec, SIGKILL, 0, &error), &error);
        sbtest_ok(sandbox_exec_wait(exec, sbtest_slowly(5000), NULL, &error), &error);
        sandbox_exec_unref(exec);
    }
    line = map;
    ck_assert_int_eq(sscanf(line, "%lu %lu %lu", &inside, &outside, &count), 3);
    while (f && fgets(entry, sizeof entry, f)) {
        unsigned long start, n;
        char *colon = strchr(entry, ':');

        if (colon && sscanf(colon, ":%lu:%lu", &start, &n) == 2 && start < outside + count && outside < start + n)
            ck_abort_msg("the range %lu+%lu is given away by /etc/subuid: %s", outside, count, entry);
    }
    if (f)
        fclose(f);
    free(map);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("redteam-kernel");
    TCase *tc = sbtest_case("kernel");

    tcase_add_checked_fixture(tc, set_up, tear_down);
    tcase_add_loop_test(tc, redteam_b01_b02_b04, 0, 2);
    tcase_add_loop_test(tc, redteam_b05_b06_b07_b09, 0, 2);
    tcase_add_test(tc, redteam_b01_daemon);
    tcase_add_loop_test(tc, redteam_b03, 0, 2);
    tcase_add_test(tc, redteam_b03_daemon);
    tcase_add_test(tc, redteam_b08);
    tcase_add_loop_test(tc, redteam_b10, 0, 2);
    tcase_add_test(tc, redteam_b10_daemon);
    tcase_add_loop_test(tc, redteam_b11, 0, 2);
    tcase_add_test(tc, redteam_b11_b13_b18_daemon);
    tcase_add_loop_test(tc, redteam_b12, 0, 2);
    tcase_add_loop_test(tc, redteam_b14, 0, 2);
    tcase_add_test(tc, redteam_b14_daemon);
    tcase_add_loop_test(tc, redteam_b15, 0, 2);
    tcase_add_loop_test(tc, redteam_b16, 0, 3);
    tcase_add_test(tc, redteam_b17);
    suite_add_tcase(suite, tc);
    return box_main(suite);
}
