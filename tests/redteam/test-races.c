/* SPDX-License-Identifier: Apache-2.0
 * The red team's rows A05, A08, A12 and B15: what a command swaps while we work in its files, what an image makes of /dev/null, filters
 * edited from inside, and sockets of the machine in a bound folder. */
#include "box.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

enum { WAIT = 10000 };
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

/* The busybox image with another /dev/null: under the name "spoilt". 0, or what the import says. */
static int import_spoilt(const char *target)
{
    struct sandbox_image_import_options options = SANDBOX_IMAGE_IMPORT_OPTIONS_INIT;
    struct sandbox_image *image = NULL;
    char tar[1024], folder[600], path[700];
    int status, r;
    pid_t pid;

    snprintf(tar, sizeof tar, "%s/rootfs.tar", getenv("SBTEST_IMAGES"));
    snprintf(folder, sizeof folder, "%s/spoilt", sbtest_dir());
    ck_assert_int_eq(mkdir(folder, 0755), 0);
    pid = fork();
    if (pid == 0) {
        execlp("tar", "tar", "-xpf", tar, "-C", folder, (char *)NULL);
        _exit(127);
    }
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert_int_eq(status, 0);
    snprintf(path, sizeof path, "%s/dev/null", folder);
    if (target)
        ck_assert_int_eq(symlink(target, path), 0);
    else
        ck_assert_int_eq(mkdir(path, 0777), 0);
    options.name = "spoilt";
    options.format = SANDBOX_IMAGE_FORMAT_ROOTFS_FOLDER;
    r = sandbox_image_import(host, folder, &options, sbtest_slowly(20000), &image, &error);
    error = sandbox_error_unref(error);
    sandbox_image_unref(image);
    return r;
}

/* What masks /proc is the null device, whatever the image calls so; nothing of /proc/sys appears in its place or is written. */
START_TEST(redteam_a05)
{
    static const char *const targets[] = { "/proc/sys/kernel/core_pattern", "/proc/sysrq-trigger", "/proc/1/environ", NULL };
    struct sandbox_spec *spec = box_spec();
    char *before = box_read("/proc/sys/kernel/core_pattern"), *after, *text;

    if (import_spoilt(targets[_i]) == 0) {
        sbtest_ok(sandbox_spec_set_image(spec, "spoilt", &error), &error);
        sandbox = box_start(host, spec);
        text = box_sh(sandbox, "0:0",
                      "stat -c '%F %t:%T' /dev/null; for f in kcore keys kallsyms timer_list; do "
                      "[ ! -e /proc/$f ] || stat -c '%F %t:%T' /proc/$f; done | sort -u; echo x >/dev/null; cat /dev/null");
        ck_assert_str_eq(text, "character special file 1:3\ncharacter special file 1:3");
        free(text);
        ck_assert_int_ne(box_code(sandbox, "0:0", "echo '|/tmp/evil' 2>/dev/null >/proc/sys/kernel/core_pattern"), 0);
    } else {
        sandbox_spec_unref(spec);
    }
    after = box_read("/proc/sys/kernel/core_pattern");
    ck_assert_str_eq(before, after);
    free(before);
    free(after);
}
END_TEST

/* ---- A08 ---- */

static char canary[600], outside[560];

static void make_canary(void)
{
    snprintf(outside, sizeof outside, "%s/outside", sbtest_dir());
    snprintf(canary, sizeof canary, "%s/file", outside);
    ck_assert_int_eq(mkdir(outside, 0777) | chmod(outside, 0777), 0);
    box_write(outside, "file", "canary");
    ck_assert_int_eq(chmod(canary, 0666), 0);
}

static int canary_is_whole(void)
{
    char *text = box_read(canary);
    int whole = strcmp(text, "canary") == 0 && box_entries(outside) == 1;

    free(text);
    return whole;
}

/* Swaps a folder and a link to `outside` below `folder`, again and again. */
#define SWAP(folder, outside)                                                                                                    \
    "cd " folder " && mkdir -p d && echo inside >d/file && ln -s " outside                                                       \
    " l && while :; do mv -T d x && mv -T l d && mv -T d l && mv -T x d || exit 9; done"

/* The race is a real one: who opens the path on the machine, following it, writes where the link leads, within seconds. */
static int naive_writer_is_caught(void)
{
    char folder[600], script[2048], path[700];
    pid_t pid;
    int caught = 0;

    snprintf(folder, sizeof folder, "%s/naive", sbtest_dir());
    snprintf(script, sizeof script, SWAP("%s", "%s"), folder, outside);
    snprintf(path, sizeof path, "%s/d/file", folder);
    ck_assert_int_eq(mkdir(folder, 0755), 0);
    pid = fork();
    if (pid == 0) {
        execl("/bin/sh", "sh", "-c", script, (char *)NULL);
        _exit(127);
    }
    for (long until = box_now() + sbtest_slowly(15000); !caught && box_now() < until;) {
        int fd = open(path, O_WRONLY | O_TRUNC | O_CLOEXEC);

        if (fd >= 0)
            close(fd);
        caught = !canary_is_whole();
    }
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    box_write(outside, "file", "canary");
    return caught;
}

START_TEST(redteam_a08)
{
    struct sandbox_exec *exec = NULL;
    char script[2048];
    int reads = 0, writes = 0;

    make_canary();
    ck_assert_int_eq(naive_writer_is_caught(), 1);
    sandbox = box_start(host, NULL);
    free(box_sh(sandbox, "0:0", "mkdir -m 0777 -p /race"));
    snprintf(script, sizeof script, SWAP("/race", "%s"), outside);
    sbtest_ok(sandbox_exec(sandbox, BOX_ARGV("/bin/sh", "-c", script), NULL, &exec, &error), &error);
    for (long until = box_now() + 4000; box_now() < until;) {
        char *data = NULL;
        size_t size = 0;

        if (!sandbox_file_read(sandbox, "/race/d/file", 0, 100, WAIT, &data, &size, NULL)) {
            if (memmem(data, size, "canary", 6))
                ck_abort_msg("a read came out of the sandbox");
            reads++;
        }
        sandbox_buffer_free(data);
        writes += !sandbox_file_write(sandbox, "/race/d/file", "inside", 6, NULL, WAIT, NULL);
        (void)sandbox_file_remove(sandbox, "/race/d/file", 0, WAIT, NULL);
        (void)sandbox_file_make_folder(sandbox, "/race/d/made", -1, SANDBOX_FILE_PARENTS, WAIT, NULL);
        (void)sandbox_file_remove(sandbox, "/race/d", SANDBOX_FILE_RECURSIVE, WAIT, NULL);
        (void)sandbox_file_make_folder(sandbox, "/race/d", -1, 0, WAIT, NULL);
        if (!canary_is_whole())
            ck_abort_msg("the machine's file was reached");
    }
    ck_assert_int_gt(writes, 3);
    sbtest_ok(sandbox_exec_kill(exec, SIGKILL, SANDBOX_KILL_DESCENDANTS, &error), &error);
    sbtest_ok(sandbox_exec_wait(exec, 10000, NULL, &error), &error);
    sandbox_exec_unref(exec);
    ck_assert_int_eq(canary_is_whole(), 1);
}
END_TEST

/* ---- A12 ---- */

/* Profiles that other runtimes read, written inside, a filter that allows all, and a look at the new commands. */
START_TEST(redteam_a12)
{
    struct sandbox_exec_options options = SANDBOX_EXEC_OPTIONS_INIT;
    static const char plant[] =
        "for p in /etc/seccomp.json /etc/libsandbox/seccomp.json /etc/containers/seccomp.json /run/seccomp.json "
        "/var/lib/libsandbox/seccomp.json /.config/seccomp.json /tmp/seccomp.json; do mkdir -p ${p%/*} 2>/dev/null; "
        "echo '{\"defaultAction\":\"SCMP_ACT_ALLOW\"}' 2>/dev/null >$p; done; "
        "echo 1 2>/dev/null >/proc/sys/kernel/seccomp/actions_logged; echo 0 2>/dev/null >/proc/self/seccomp; :";
    struct sandbox_spec *spec = box_spec();
    struct box_run run;

    sbtest_ok(sandbox_spec_add_capability(spec, "SYS_ADMIN", &error), &error);
    sandbox = box_start(host, spec);
    free(box_sh(sandbox, "0:0", plant));
    options.user = _i ? box_user() : "0:0";
    for (int permissive = 0; permissive < 2; permissive++) {
        box_run(sandbox, &options, NULL, 0, &run, BOX_ARGV("/guest/probe", permissive ? "permissive" : "calls"));
        box_expect(run.output.out, "unshare user", "EPERM");
        box_expect(run.output.out, "clone user", "EPERM");
        box_expect(run.output.out, "clone3", "ENOSYS");
        box_expect(run.output.out, "mount", "EPERM");
        box_expect(run.output.out, "keyctl", "ENOSYS");
        if (permissive)
            box_expect(run.output.out, "allow all", "ok");
        box_clear(&run);
    }
    free(box_sh(sandbox, "0:0", "grep -q '^Seccomp:.2' /proc/self/status"));
}
END_TEST

/* ---- B15 ---- */

static int listen_at(const char *path, mode_t mode)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    ck_assert_int_lt(snprintf(address.sun_path, sizeof address.sun_path, "%s", path), (int)sizeof address.sun_path);
    ck_assert_int_eq(bind(fd, (struct sockaddr *)&address, sizeof address), 0);
    ck_assert_int_eq(listen(fd, 8), 0);
    ck_assert_int_eq(chmod(path, mode), 0);
    return fd;
}

static char *connect_as(const char *user, const char *path)
{
    struct sandbox_exec_options options = SANDBOX_EXEC_OPTIONS_INIT;
    struct box_run run;
    char *found;

    options.user = user;
    box_run(sandbox, &options, NULL, 0, &run, BOX_ARGV("/guest/probe", "socket", path));
    found = box_finding(run.output.out, "connect");
    ck_assert_ptr_nonnull(found);
    box_clear(&run);
    return found;
}

/* A socket in a bound folder. Root's sandboxes are strangers there: what a stranger may not write they don't reach. What can be reached all
 * the same is said by inspect, never passed over. In a volume, which no program of the machine serves, there is none. */
START_TEST(redteam_b15_bound)
{
    struct sandbox_mount_options mount = SANDBOX_MOUNT_OPTIONS_INIT;
    struct sandbox_spec *spec = box_spec();
    struct sandbox_info *info = NULL;
    char folder[600], closed[700], open_one[700], *found, *told;
    int fds[2];

    snprintf(folder, sizeof folder, "%s/bound", sbtest_dir());
    snprintf(closed, sizeof closed, "%s/closed", folder);
    snprintf(open_one, sizeof open_one, "%s/open", folder);
    ck_assert_int_eq(mkdir(folder, 0755), 0);
    fds[0] = listen_at(closed, 0700);
    fds[1] = listen_at(open_one, 0777);
    mount.source = folder;
    mount.target = "/bound";
    mount.flags = _i ? SANDBOX_MOUNT_READ_ONLY : 0;
    sbtest_ok(sandbox_spec_add_mount(spec, &mount, &error), &error);
    sandbox = box_start(host, spec);
    if (box_privilege() == BOX_ROOT) {
        found = connect_as("0:0", "/bound/closed");
        ck_assert_str_eq(found, "EACCES");
        free(found);
    }
    if (box_user()) {
        found = connect_as(box_user(), "/bound/closed");
        ck_assert_str_eq(found, "EACCES");
        free(found);
    }
    found = connect_as("0:0", "/bound/open");
    sbtest_ok(sandbox_inspect(sandbox, &info, &error), &error);
    told = strstr(sandbox_info_get_json(info), "\"bind_sockets\":{\"level\":\"advisory\"");
    if (strcmp(found, "ok") == 0 && !told)
        ck_abort_msg("a socket of the machine is reached, and inspect doesn't say so: %s", sandbox_info_get_json(info));
    free(found);
    sandbox_info_unref(info);
    close(fds[0]);
    close(fds[1]);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("redteam-races");
    TCase *tc = sbtest_case("races");

    tcase_add_checked_fixture(tc, set_up, tear_down);
    tcase_set_timeout(tc, 60);
    tcase_add_loop_test(tc, redteam_a05, 0, 4);
    tcase_add_test(tc, redteam_a08);
    tcase_add_loop_test(tc, redteam_a12, 0, 2);
    tcase_add_loop_test(tc, redteam_b15_bound, 0, 2);
    suite_add_tcase(suite, tc);
    return box_main(suite);
}
