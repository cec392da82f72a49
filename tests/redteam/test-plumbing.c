/* SPDX-License-Identifier: Apache-2.0
 * The red team's rows A: through the runtime's own plumbing. C is a command, D the daemon. Each test is named after its row. */
#include "box.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <linux/capability.h>
#include <linux/fs.h>

static struct sandbox_host *host;
static struct sandbox *sandbox;
static struct sandbox_error *error;

static void set_up(void)
{
    host = box_host();
}

static void tear_down(void)
{
    box_end(&host, &sandbox);
}

static char *probe(const char *user, const char *what, const char *argument)
{
    struct sandbox_exec_options options = SANDBOX_EXEC_OPTIONS_INIT;
    struct box_run run;
    char *out;

    options.user = user;
    box_run(sandbox, &options, NULL, 0, &run, BOX_ARGV("/guest/probe", what, argument));
    ck_assert_int_eq(run.result.kind, SANDBOX_EXEC_EXITED);
    ck_assert_int_eq(run.result.code, 0);
    out = strdup(run.output.out);
    box_clear(&run);
    return out;
}

/* A folder that becomes an image: the busybox root as a copy, to be spoilt. */
static void copy_rootfs(const char *to)
{
    char tar[1024];
    int status;
    pid_t pid;

    snprintf(tar, sizeof tar, "%s/rootfs.tar", getenv("SBTEST_IMAGES"));
    ck_assert_int_eq(mkdir(to, 0755), 0);
    pid = fork();
    if (pid == 0) {
        execlp("tar", "tar", "-xpf", tar, "-C", to, (char *)NULL);
        _exit(127);
    }
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert_int_eq(status, 0);
}

static int import_folder(const char *folder)
{
    struct sandbox_image_import_options options = SANDBOX_IMAGE_IMPORT_OPTIONS_INIT;
    struct sandbox_image *image = NULL;
    int r;

    options.name = "spoilt";
    options.format = SANDBOX_IMAGE_FORMAT_ROOTFS_FOLDER;
    r = sandbox_image_import(host, folder, &options, 20000, &image, &error);
    sandbox_image_unref(image);
    return r;
}

static struct sandbox_spec *spec_of(const char *image)
{
    struct sandbox_spec *spec = box_spec();

    sbtest_ok(sandbox_spec_set_image(spec, image, &error), &error);
    return spec;
}

/* A script whose interpreter is /proc/self/exe makes the kernel execute, inside, whatever made the command: the agent. Meanwhile
 * others try to write it, or to change its mode. */
START_TEST(redteam_a01)
{
    struct sandbox_exec_options options = SANDBOX_EXEC_OPTIONS_INIT;
    struct sandbox_exec *watch[2] = { NULL };
    struct sandbox *second;
    char *text;

    sandbox = box_start(host, NULL);
    free(box_sh(sandbox, "0:0", "printf '#!/proc/self/exe\\n' > /tmp/s; printf '#!/proc/self/exe stage\\n' > /tmp/t; chmod 755 /tmp/s /tmp/t"));
    options.user = "0:0";
    for (int i = 0; i < 2; i++)
        sbtest_ok(sandbox_exec(sandbox, BOX_ARGV("/guest/probe", "exes", "4"), &options, &watch[i], &error), &error);
    for (long end = box_now() + 3000; box_now() < end;) {
        struct sandbox_exec *exec = NULL;

        if (sandbox_exec(sandbox, BOX_ARGV(box_now() & 1 ? "/tmp/s" : "/tmp/t"), &options, &exec, NULL) == 0)
            sbtest_ok(sandbox_exec_wait(exec, sbtest_slowly(5000), NULL, &error), &error);
        sandbox_exec_unref(exec);
    }
    for (int i = 0; i < 2; i++) {
        struct sandbox_communicate_options communicate = SANDBOX_COMMUNICATE_OPTIONS_INIT;
        struct sandbox_exec_result result = SANDBOX_EXEC_RESULT_INIT;
        struct sandbox_output output = SANDBOX_OUTPUT_INIT;

        communicate.timeout_ms = 10000;
        sbtest_ok(sandbox_exec_communicate(watch[i], &communicate, &output, &result, &error), &error);
        box_expect(output.out, "writable", "0");
        if (box_privilege() == BOX_ROOT)
            box_expect(output.out, "changed", "0");
        sandbox_output_clear(&output);
        sandbox_exec_unref(watch[i]);
    }
    /* and whatever was changed, the next sandbox is made as well as ever */
    second = box_start(host, NULL);
    text = box_sh(second, NULL, "echo fine");
    ck_assert_str_eq(text, "fine");
    free(text);
    sbtest_ok(sandbox_delete(second, 10000, &error), &error);
    sandbox_unref(second);
}
END_TEST

START_TEST(redteam_a02)
{
    struct sandbox_exec_options options = SANDBOX_EXEC_OPTIONS_INIT;
    static const char *const others[] = { "/proc/1/root", "/proc/1/cwd", "/proc/self/fd/3/..", "/proc/self/fd/4/..", "/proc/self/task/../fd/4" };
    struct sandbox_exec *exec = NULL;
    char path[64];

    sandbox = box_start(host, NULL);
    for (int n = 3; n < 65; n++) {
        snprintf(path, sizeof path, "/proc/self/fd/%d", n);
        options.workdir = path;
        ck_assert_int_lt(sandbox_exec(sandbox, BOX_ARGV("pwd"), &options, &exec, NULL), 0);
    }
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        options.workdir = others[i];
        ck_assert_int_lt(sandbox_exec(sandbox, BOX_ARGV("pwd"), &options, &exec, NULL), 0);
    }
    /* a link of the sandbox's own to such a place is no better */
    free(box_sh(sandbox, NULL, "ln -s /proc/self/fd/4 /tmp/way"));
    options.workdir = "/tmp/way";
    ck_assert_int_lt(sandbox_exec(sandbox, BOX_ARGV("pwd"), &options, &exec, NULL), 0);
}
END_TEST

static void three_descriptors(const char *out)
{
    char name[16];

    for (int fd = 0; fd < 64; fd++) {
        char *found;

        snprintf(name, sizeof name, "fd %d", fd);
        found = box_finding(out, name);
        if (fd < 3)
            ck_assert_ptr_nonnull(found);
        else if (found)
            ck_abort_msg("descriptor %d is open: %s", fd, found);
        free(found);
    }
}

START_TEST(redteam_a03)
{
    struct sandbox_spec *spec = box_spec();
    int careless = open("/etc/passwd", O_RDONLY); /* inherited: what a careless program leaves open must not get inside */
    char *out;

    ck_assert_int_ge(careless, 0);
    sbtest_ok(sandbox_spec_set_daemon(spec, BOX_ARGV("/guest/probe", "-o", "/found", "-n", "status"), &error), &error);
    sandbox = box_start(host, spec);
    out = probe(NULL, "fds", NULL);
    three_descriptors(out);
    free(out);
    for (int i = 0; i < 200; i++) {
        out = box_sh(sandbox, NULL, "cat /found 2>/dev/null; :");
        if (strstr(out, "end: probe"))
            break;
        free(out);
        usleep(20000);
    }
    box_expect(out, "fd 0", "/dev/null");
    box_expect(out, "fd 1", "/found");
    box_expect(out, "NoNewPrivs", "1");
    free(out);
    close(careless);
}
END_TEST

static int count_entries_of_etc(void)
{
    return box_entries("/etc");
}

/* An image that turns the folders that are mounted over into something else. */
START_TEST(redteam_a04)
{
    static const char *const spoilt[] = { "dev", "proc" };
    struct sandbox_spec *spec;
    struct sandbox *made = NULL;
    char folder[600], path[700];
    int before = count_entries_of_etc();

    snprintf(folder, sizeof folder, "%s/spoilt", sbtest_dir());
    copy_rootfs(folder);
    snprintf(path, sizeof path, "%s/%s", folder, spoilt[_i / 2]);
    ck_assert_int_eq(rmdir(path), 0);
    if (_i % 2)
        ck_assert_int_eq(close(open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644)), 0);
    else
        ck_assert_int_eq(symlink("/etc", path), 0);
    if (import_folder(folder) == 0) {
        spec = spec_of("spoilt");
        ck_assert_int_lt(sandbox_create(host, spec, 10000, &made, &error), 0);
        ck_assert_ptr_nonnull(strstr(sandbox_error_get_message(error), spoilt[_i / 2]));
        sandbox_spec_unref(spec);
    }
    error = sandbox_error_unref(error);
    ck_assert_int_eq(count_entries_of_etc(), before);
}
END_TEST

/* A mount of the caller's over /proc or /dev must not hide the real one from us. */
START_TEST(redteam_a06)
{
    static const char *const targets[] = { "/proc", "/proc/self", "/proc/sys", "/dev", "/dev/null" };
    struct sandbox_spec *spec = box_spec();
    struct sandbox_mount_options mount = SANDBOX_MOUNT_OPTIONS_INIT;
    struct sandbox *made = NULL;
    char *out;
    int r;

    mount.type = SANDBOX_MOUNT_TMPFS;
    mount.target = targets[_i];
    r = sandbox_spec_add_mount(spec, &mount, &error);
    if (r == 0)
        r = sandbox_create(host, spec, 10000, &made, &error);
    sandbox_spec_unref(spec);
    error = sandbox_error_unref(error);
    if (r == 0) { /* allowed: then the limits were still written to the kernel's own files */
        sandbox = made;
        sbtest_ok(sandbox_start(sandbox, 10000, &error), &error);
        out = probe("0:0", "calls", NULL);
        box_expect(out, "unshare user", "EPERM");
        free(out);
    }
}
END_TEST

/* The target of a mount is a link, in the image, that leads to the machine's root if it is followed there. */
START_TEST(redteam_a07)
{
    struct sandbox_spec *spec;
    struct sandbox_mount_options mount = SANDBOX_MOUNT_OPTIONS_INIT;
    char folder[600], path[700], canary[600], data[600], *text;

    snprintf(folder, sizeof folder, "%s/spoilt", sbtest_dir());
    snprintf(canary, sizeof canary, "%s/canary", sbtest_dir());
    snprintf(data, sizeof data, "%s/data", sbtest_dir());
    ck_assert_int_eq(mkdir(canary, 0755), 0);
    ck_assert_int_eq(mkdir(data, 0755), 0);
    box_write(data, "file", "data of the machine");
    copy_rootfs(folder);
    snprintf(path, sizeof path, "%s/way", folder);
    ck_assert_int_eq(symlink(_i ? "../../../../../../../../.." : canary, path), 0);
    ck_assert_int_eq(import_folder(folder), 0);
    spec = spec_of("spoilt");
    mount.source = data;
    mount.target = _i ? "/way/new/deep" : "/way/deep";
    sbtest_ok(sandbox_spec_add_mount(spec, &mount, &error), &error);
    if (sandbox_create(host, spec, 10000, &sandbox, NULL) == 0) { /* it may refuse; it may not leave the root */
        sbtest_ok(sandbox_start(sandbox, 10000, &error), &error);
        text = box_sh(sandbox, NULL, _i ? "cat /new/deep/file" : "cat /way/deep/file");
        ck_assert_str_eq(text, "data of the machine");
        free(text);
    }
    sandbox_spec_unref(spec);
    ck_assert_int_eq(box_entries(canary), 0);
    ck_assert_int_eq(access("/new", F_OK), -1);
}
END_TEST

/* A mount in a mount: the machine's own folder must not get it, though the machine's mounts are shared with those below. */
START_TEST(redteam_a07_nested)
{
    struct sandbox_mount_options mount = SANDBOX_MOUNT_OPTIONS_INIT;
    struct sandbox_spec *spec = box_spec();
    char shared[600], data[600], deep[800], *text, *mounts;

    snprintf(shared, sizeof shared, "%s/shared", sbtest_dir());
    snprintf(data, sizeof data, "%s/data", sbtest_dir());
    snprintf(deep, sizeof deep, "%s/deep", shared);
    ck_assert_int_eq(mkdir(shared, 0755) | mkdir(data, 0755) | mkdir(deep, 0755), 0);
    box_write(data, "file", "data of the machine");
    mount.source = shared;
    mount.target = "/shared";
    sbtest_ok(sandbox_spec_add_mount(spec, &mount, &error), &error);
    mount.source = data;
    mount.target = "/shared/deep";
    sbtest_ok(sandbox_spec_add_mount(spec, &mount, &error), &error);
    sandbox = box_start(host, spec);
    text = box_sh(sandbox, NULL, "cat /shared/deep/file");
    ck_assert_str_eq(text, "data of the machine");
    free(text);
    ck_assert_int_eq(box_entries(deep), 0);
    mounts = box_read("/proc/self/mountinfo");
    ck_assert_ptr_null(strstr(mounts, deep));
    free(mounts);
}
END_TEST

struct swapper {
    char one[800], two[800];
    int stop;
    unsigned long swaps;
};

static void *swap(void *arg)
{
    struct swapper *s = arg;

    while (!__atomic_load_n(&s->stop, __ATOMIC_RELAXED))
        s->swaps += syscall(SYS_renameat2, AT_FDCWD, s->one, AT_FDCWD, s->two, RENAME_EXCHANGE) == 0;
    return NULL;
}

/* The same, while somebody who can write the volume swaps a folder and a link. */
START_TEST(redteam_a07_race)
{
    struct sandbox_mount_options mount = SANDBOX_MOUNT_OPTIONS_INIT;
    struct swapper swapper = { .stop = 0 };
    char shared[600], data[600], canary[600], path[800];
    pthread_t thread;
    long until;

    snprintf(shared, sizeof shared, "%s/shared", sbtest_dir());
    snprintf(data, sizeof data, "%s/data", sbtest_dir());
    snprintf(canary, sizeof canary, "%s/canary", sbtest_dir());
    ck_assert_int_eq(mkdir(shared, 0777) | mkdir(data, 0755) | mkdir(canary, 0755), 0);
    ck_assert_int_eq(chmod(shared, 0777), 0);
    snprintf(path, sizeof path, "%s/in", canary);
    ck_assert_int_eq(mkdir(path, 0777) | chmod(path, 0777), 0);
    snprintf(swapper.one, sizeof swapper.one, "%s/a", shared);
    snprintf(swapper.two, sizeof swapper.two, "%s/b", shared);
    ck_assert_int_eq(mkdir(swapper.one, 0777) | chmod(swapper.one, 0777), 0);
    ck_assert_int_eq(symlink(path, swapper.two), 0);
    ck_assert_int_eq(pthread_create(&thread, NULL, swap, &swapper), 0);
    /* each way may change while it is gone, and then it is gone anew: with slow processors that takes its time */
    until = box_now() + 15000;
    for (int i = 0; i < 100 && (i < 10 || box_now() < until); i++) {
        struct sandbox_spec *spec = box_spec();
        struct sandbox *made = NULL;

        mount.source = shared;
        mount.target = "/shared";
        sbtest_ok(sandbox_spec_add_mount(spec, &mount, &error), &error);
        mount.source = data;
        mount.target = "/shared/a/deep";
        sbtest_ok(sandbox_spec_add_mount(spec, &mount, &error), &error);
        if (sandbox_create(host, spec, 10000, &made, NULL) == 0)
            sbtest_ok(sandbox_delete(made, 10000, &error), &error);
        sandbox_unref(made);
        sandbox_spec_unref(spec);
    }
    __atomic_store_n(&swapper.stop, 1, __ATOMIC_RELAXED);
    pthread_join(thread, NULL);
    ck_assert_uint_gt(swapper.swaps, 100);
    ck_assert_int_eq(box_entries(path), 0); /* nothing was made where the link leads */
}
END_TEST

/* A source that somebody inside replaced by a link to the machine's own folders. */
START_TEST(redteam_a07_source)
{
    struct sandbox_mount_options mount = SANDBOX_MOUNT_OPTIONS_INIT;
    struct sandbox_spec *spec;
    char work[600], source[700], *text;

    if (box_privilege() != BOX_ROOT)
        sbtest_skip("a user's sandbox can reach by a link only what the user can");
    snprintf(work, sizeof work, "%s/work", sbtest_dir());
    snprintf(source, sizeof source, "%s/project", work);
    ck_assert_int_eq(mkdir(work, 0777) | chmod(work, 0777), 0);
    spec = box_spec();
    mount.source = work;
    mount.target = "/desk";
    sbtest_ok(sandbox_spec_add_mount(spec, &mount, &error), &error);
    sandbox = box_start(host, spec);
    free(box_sh(sandbox, box_user(), "ln -s /etc /desk/project"));
    sbtest_ok(sandbox_delete(sandbox, 10000, &error), &error);
    sandbox = sandbox_unref(sandbox);
    spec = box_spec();
    mount.source = source;
    mount.target = "/project";
    sbtest_ok(sandbox_spec_add_mount(spec, &mount, &error), &error);
    if (sandbox_create(host, spec, 10000, &sandbox, NULL) == 0) {
        sbtest_ok(sandbox_start(sandbox, 10000, &error), &error);
        text = box_sh(sandbox, NULL, "ls /project");
        ck_assert_ptr_null(strstr(text, "shadow"));
        free(text);
    }
    sandbox_spec_unref(spec);
}
END_TEST

/* Programs and libraries of the image that are named like ours, or like what a careless host would load from it. */
START_TEST(redteam_a09)
{
    static const char *const traps[] = { "bin/xz", "bin/gzip", "bin/zstd", "bin/tar", "bin/newuidmap", "bin/newgidmap", "bin/mount",
                                         "bin/sandbox-agent", "bin/sandbox-unpack" };
    struct sandbox_exec_options options = SANDBOX_EXEC_OPTIONS_INIT;
    char folder[600], path[700], canary[600], script[800];
    struct box_run run;

    snprintf(folder, sizeof folder, "%s/spoilt", sbtest_dir());
    snprintf(canary, sizeof canary, "%s/sprung", sbtest_dir());
    copy_rootfs(folder);
    snprintf(script, sizeof script, "#!/bin/sh\necho > %s\necho > /sprung\n", canary);
    for (size_t i = 0; i < sizeof traps / sizeof *traps; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, traps[i]);
        unlink(path);
        box_write(folder, traps[i], script);
        ck_assert_int_eq(chmod(path, 0755), 0);
    }
    snprintf(path, sizeof path, "%s/etc", folder);
    box_write(path, "nsswitch.conf", "passwd: evil\ngroup: evil\n");
    box_write(path, "ld.so.preload", "/lib/evil.so\n");
    ck_assert_int_eq(import_folder(folder), 0);
    sandbox = box_start(host, spec_of("spoilt"));
    options.user = box_user() ? "agent" : "root"; /* resolved by the image's passwd */
    box_run(sandbox, &options, NULL, 0, &run, BOX_ARGV("/bin/busybox", "id", "-u"));
    ck_assert_str_eq(run.output.out, box_user() ? "1500\n" : "0\n");
    box_clear(&run);
    ck_assert_int_eq(access(canary, F_OK), -1);
    ck_assert_int_ne(box_code(sandbox, NULL, "test -e /sprung"), 0);
}
END_TEST

static void no_privilege(const char *out, const char *uid)
{
    static const char *const sets[] = { "CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb" };
    char *ids = box_finding(out, "Uid");
    unsigned int u[4], want = (unsigned int)atoi(uid);

    for (size_t i = 0; i < sizeof sets / sizeof *sets; i++)
        box_expect(out, sets[i], "0000000000000000");
    box_expect(out, "NoNewPrivs", "1");
    box_expect(out, "Seccomp", "2");
    box_expect(out, "Groups", "");
    box_expect(out, "SigBlk", "0000000000000000");
    box_expect(out, "SigIgn", "0000000000000000");
    ck_assert_int_eq(sscanf(ids, "%u %u %u %u", &u[0], &u[1], &u[2], &u[3]), 4);
    for (int i = 0; i < 4; i++)
        ck_assert_uint_eq(u[i], want);
    free(ids);
}

START_TEST(redteam_a10)
{
    char *out;

    sandbox = box_start(host, NULL);
    out = probe("0:0", "status", NULL);
    no_privilege(out, "0");
    free(out);
    if (box_user()) {
        out = probe(box_user(), "status", NULL);
        no_privilege(out, "1500");
        free(out);
    }
}
END_TEST

/* A setuid-root program, and one with file capabilities, in the image. */
START_TEST(redteam_a11)
{
    struct sandbox_exec_options options = SANDBOX_EXEC_OPTIONS_INIT;
    struct vfs_cap_data caps = { .magic_etc = VFS_CAP_REVISION_2 | VFS_CAP_FLAGS_EFFECTIVE, .data = { { ~0u, 0 }, { 0x1ff, 0 } } };
    char folder[600], path[700];
    struct box_run run;
    char *mode;

    if (!box_user())
        sbtest_skip("there is one user id only: nobody to become");
    snprintf(folder, sizeof folder, "%s/spoilt", sbtest_dir());
    copy_rootfs(folder);
    snprintf(path, sizeof path, "%s/guest/probe", folder);
    if (geteuid() == 0)
        ck_assert_int_eq(setxattr(path, "security.capability", &caps, XATTR_CAPS_SZ_2, 0), 0);
    ck_assert_int_eq(import_folder(folder), 0);
    {
        struct sandbox_spec *spec = NULL;

        sbtest_ok(sandbox_spec_new(&spec, &error), &error); /* without our /guest: the image's */
        sbtest_ok(sandbox_spec_set_image(spec, "spoilt", &error), &error);
        sbtest_ok(sandbox_spec_add_env(spec, "SBTEST_GUEST", "in a sandbox", &error), &error);
        sandbox = box_start(host, spec);
    }
    mode = box_sh(sandbox, NULL, "stat -c '%a %u' /guest/probe-setuid");
    ck_assert_str_eq(mode, "4755 0"); /* the image is as it was */
    free(mode);
    options.user = box_user();
    box_run(sandbox, &options, NULL, 0, &run, BOX_ARGV("/guest/probe-setuid", "status"));
    no_privilege(run.output.out, "1500");
    box_clear(&run);
    box_run(sandbox, &options, NULL, 0, &run, BOX_ARGV("/guest/probe", "status"));
    no_privilege(run.output.out, "1500");
    box_clear(&run);
}
END_TEST

START_TEST(redteam_a14)
{
    char *out, *text;

    sandbox = box_start(host, NULL);
    out = probe(_i ? box_user() : "0:0", "init", NULL);
    box_expect_all(out, "/proc/1/", "EACCES|EPERM|ENOENT");
    box_expect(out, "ptrace", "EPERM");
    box_expect(out, "process_vm_readv", "EPERM|ESRCH");
    /* where there is one id only, the kernel takes the signal and drops it, as for every pid 1 */
    box_expect(out, "kill", box_user() ? "EPERM" : "EPERM|ok");
    box_expect(out, "stop", box_user() ? "EPERM" : "EPERM|ok");
    free(out);
    text = box_sh(sandbox, NULL, "echo alive");
    ck_assert_str_eq(text, "alive");
    free(text);
}
END_TEST

/* Image "host" holds nobody's secrets. */
START_TEST(redteam_a16)
{
    static const char *const empty[] = { "/root", "/home", "/run", "/srv", "/mnt", "/media", "/tmp", "/var/tmp" };
    char canary[600], script[800], *text;

    snprintf(canary, sizeof canary, "%s/secret", sbtest_dir());
    box_write(sbtest_dir(), "secret", "of the machine");
    sandbox = box_start(host, NULL);
    for (size_t i = 0; i < sizeof empty / sizeof *empty; i++) {
        snprintf(script, sizeof script, "ls -A %s 2>/dev/null | head -3; :", empty[i]);
        text = box_sh(sandbox, "0:0", script);
        if (*text)
            ck_abort_msg("%s holds %s", empty[i], text);
        free(text);
    }
    snprintf(script, sizeof script, "cat %s /etc/shadow /etc/gshadow /etc/shadow- /etc/sudoers /etc/ssh/ssh_host_* /etc/ssl/private/* 2>/dev/null; :",
             canary);
    text = box_sh(sandbox, "0:0", script);
    ck_assert_str_eq(text, "");
    free(text);
    text = box_sh(sandbox, "0:0", "ls -d /var/lib/libsandbox /var/spool/cron /var/log/* /boot/* /var/lib/dpkg /etc/cron* 2>/dev/null; :");
    ck_assert_str_eq(text, "");
    free(text);
    /* passwd and group are made for it: the machine's accounts are not in them */
    text = box_sh(sandbox, "0:0", "grep -c . /etc/passwd");
    ck_assert_int_lt(atoi(text), 8);
    free(text);
    ck_assert_int_ne(box_code(sandbox, "0:0", "touch /usr/bin/evil || touch /usr/lib/evil"), 0);
    ck_assert_int_eq(access("/usr/bin/evil", F_OK), -1);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("redteam-plumbing");
    TCase *tc = sbtest_case("plumbing");

    tcase_add_checked_fixture(tc, set_up, tear_down);
    tcase_add_test(tc, redteam_a01);
    tcase_add_test(tc, redteam_a02);
    tcase_add_test(tc, redteam_a03);
    tcase_add_loop_test(tc, redteam_a04, 0, 4);
    tcase_add_loop_test(tc, redteam_a06, 0, 5);
    tcase_add_loop_test(tc, redteam_a07, 0, 2);
    tcase_add_test(tc, redteam_a07_nested);
    tcase_add_test(tc, redteam_a07_race);
    tcase_add_test(tc, redteam_a07_source);
    tcase_add_test(tc, redteam_a09);
    tcase_add_test(tc, redteam_a10);
    tcase_add_test(tc, redteam_a11);
    tcase_add_loop_test(tc, redteam_a14, 0, 2);
    tcase_add_test(tc, redteam_a16);
    suite_add_tcase(suite, tc);
    return box_main(suite);
}
