/* SPDX-License-Identifier: Apache-2.0
 * What is inside: images in every form, users by number and by the image's names, the daemon, ports, mounts, volumes, limits. */
#include "box.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

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

static struct sandbox_spec *spec_of(const char *image)
{
    struct sandbox_spec *spec = box_spec();

    sbtest_ok(sandbox_spec_set_image(spec, image, &error), &error);
    return spec;
}

/* -------------------------------------------------------------------------------------------------- images ---- */

static const char *const forms[] = { "rootfs", "rootfs.tar", "oci", "oci.tar", "docker.tar" };

START_TEST(image_form)
{
    struct sandbox_image_import_options options = SANDBOX_IMAGE_IMPORT_OPTIONS_INIT;
    struct sandbox_image *image = NULL, *again = NULL;
    char path[1024], digest[100], *text;

    snprintf(path, sizeof path, "%s/%s", getenv("SBTEST_IMAGES"), forms[_i]);
    if (access(path, R_OK) < 0)
        sbtest_skip("umoci and skopeo did not make this form");
    if (_i == 0 && geteuid() != 0)
        sbtest_skip("the folder belongs to root: a user can't read all of it");
    options.name = "form";
    sbtest_ok(sandbox_image_import(host, path, &options, 30000, &image, &error), &error);
    snprintf(digest, sizeof digest, "%s", sandbox_image_get_digest(image));
    ck_assert_int_eq(strncmp(digest, "sha256:", 7), 0);
    ck_assert_int_gt(sandbox_image_get_bytes(image), 1000000);
    /* the same again: the same digests */
    sbtest_ok(sandbox_image_import(host, path, &options, 30000, &again, &error), &error);
    ck_assert_str_eq(sandbox_image_get_digest(again), digest);
    sandbox_image_unref(again);
    sandbox = box_start(host, spec_of(_i % 2 ? "form" : digest));
    text = box_sh(sandbox, "0:0", "cat /etc/motd; stat -c '%a %u:%g' /guest /tmp /root /bin/busybox | tr '\\n' ' '; readlink /bin/ls");
    ck_assert_ptr_nonnull(strstr(text, "busybox test image"));
    ck_assert_ptr_nonnull(strstr(text, "1777 0:0 700 0:0 755 0:0"));
    ck_assert_ptr_nonnull(strstr(text, "busybox"));
    free(text);
    if (_i >= 2 && box_user()) { /* umoci gave it a user, a folder and a variable */
        text = box_sh(sandbox, NULL, "id -u; pwd; echo $FROM_IMAGE");
        ck_assert_str_eq(text, "1500\n/home/agent\nyes");
        free(text);
    }
    sbtest_fails(sandbox_image_remove(host, digest, &error), SANDBOX_EBUSY, &error);
    sandbox_image_unref(image);
}
END_TEST

/* What one writes stays in its own root; the image is as it was for the next. */
START_TEST(image_shared)
{
    struct sandbox *other;
    char *text;

    box_busybox(host);
    sandbox = box_start(host, spec_of("busybox"));
    free(box_sh(sandbox, "0:0", "echo changed > /etc/motd; rm /etc/group; mkdir /etc/new; mv /home /home2"));
    other = box_start(host, spec_of("busybox"));
    text = box_sh(other, "0:0", "cat /etc/motd; ls -d /etc/group /home; ls /etc/new 2>/dev/null; :");
    ck_assert_str_eq(text, "busybox test image\n/etc/group\n/home");
    free(text);
    text = box_sh(sandbox, "0:0", "cat /etc/motd; ls -d /home2/agent; ls /etc/group 2>/dev/null; :");
    ck_assert_str_eq(text, "changed\n/home2/agent");
    free(text);
    sbtest_ok(sandbox_delete(other, 10000, &error), &error);
    sandbox_unref(other);
}
END_TEST

/* --------------------------------------------------------------------------------------------------- users ---- */

START_TEST(user_resolved)
{
    static const struct {
        const char *user, *ids;
    } cases[] = { { "agent", "1500:1500" }, { "1500", "1500:1500" }, { "agent:staff", "1500:50" }, { "agent:7", "1500:7" },
                  { "7:staff", "7:50" }, { "0:0", "0:0" }, { "root", "0:0" }, { "123:456", "123:456" }, { "nobody", "65534:65534" } };
    struct sandbox_exec_options options = SANDBOX_EXEC_OPTIONS_INIT;
    struct sandbox_exec *exec = NULL;
    struct sandbox_spec *spec;

    box_busybox(host);
    spec = spec_of("busybox");
    if (box_user())
        sbtest_ok(sandbox_spec_set_user(spec, "agent", &error), &error);
    sandbox = box_start(host, spec);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int one = strcmp(cases[i].ids, "0:0") == 0;
        char *text;

        options.user = cases[i].user;
        if (!box_user() && !one) {
            sbtest_fails(sandbox_exec(sandbox, BOX_ARGV("id"), &options, &exec, &error), SANDBOX_EUNSUPPORTED, &error);
            continue;
        }
        text = box_sh(sandbox, cases[i].user, "echo $(id -u):$(id -g)");
        ck_assert_str_eq(text, cases[i].ids);
        free(text);
    }
    if (box_user()) { /* the spec's own user */
        char *text = box_sh(sandbox, NULL, "id -u");

        ck_assert_str_eq(text, "1500");
        free(text);
    }
    options.user = "no-such-user";
    sbtest_fails(sandbox_exec(sandbox, BOX_ARGV("id"), &options, &exec, &error), SANDBOX_ENOTFOUND, &error);
    options.user = "agent:no-such-group";
    sbtest_fails(sandbox_exec(sandbox, BOX_ARGV("id"), &options, &exec, &error), SANDBOX_ENOTFOUND, &error);
}
END_TEST

/* -------------------------------------------------------------------------------------------------- daemon ---- */

static int daemon_state(const char *state)
{
    struct sandbox_info *info = NULL;
    char want[64];
    int is;

    snprintf(want, sizeof want, "\"state\":\"%s\"", state);
    sbtest_ok(sandbox_inspect(sandbox, &info, &error), &error);
    is = strstr(strstr(sandbox_info_get_json(info), "\"daemon\""), want) != NULL;
    sandbox_info_unref(info);
    return is;
}

static void await(const char *state)
{
    for (int i = 0; i < 200 && !daemon_state(state); i++)
        usleep(20000);
    ck_assert_int_eq(daemon_state(state), 1);
}

/* A file inside, with something in it. */
static void await_file(const char *path)
{
    char script[128];

    snprintf(script, sizeof script, "test -s %s", path);
    for (int i = 0; i < 250; i++) {
        if (box_code(sandbox, NULL, script) == 0)
            return;
        usleep(20000);
    }
    ck_abort_msg("%s did not come", path);
}

static void with_daemon(const char *script)
{
    struct sandbox_spec *spec = box_spec();

    sbtest_ok(sandbox_spec_set_daemon(spec, BOX_ARGV("/bin/sh", "-c", script), &error), &error);
    sbtest_ok(sandbox_create(host, spec, 10000, &sandbox, &error), &error);
    sandbox_spec_unref(spec);
}

START_TEST(daemon_runs)
{
    char *text;

    with_daemon("trap 'echo term > /var/end; exit 5' TERM; trap 'echo usr1 > /var/got' USR1; id -u > /var/id; while :; do sleep 0.05; done");
    sbtest_ok(sandbox_start(sandbox, 10000, &error), &error);
    await("running");
    await_file("/var/id"); /* its traps are set */
    sbtest_ok(sandbox_kill(sandbox, SIGUSR1, &error), &error);
    await_file("/var/got");
    text = box_sh(sandbox, NULL, "cat /var/id /var/got");
    ck_assert_str_eq(text, "0\nusr1");
    free(text);
    /* the grace is used, and no longer than needed */
    {
        long begun = box_now();

        sbtest_ok(sandbox_stop(sandbox, 5000, sbtest_slowly(10000), &error), &error);
        ck_assert_int_lt(box_now() - begun, sbtest_slowly(3000));
    }
    sbtest_ok(sandbox_start(sandbox, 10000, &error), &error);
    text = box_sh(sandbox, NULL, "cat /var/end");
    ck_assert_str_eq(text, "term");
    free(text);
}
END_TEST

START_TEST(daemon_deaf)
{
    long begun;

    with_daemon("trap '' TERM; echo > /var/deaf; while :; do sleep 0.05; done");
    sbtest_ok(sandbox_start(sandbox, 10000, &error), &error);
    await_file("/var/deaf");
    begun = box_now();
    sbtest_ok(sandbox_stop(sandbox, 400, 10000, &error), &error);
    ck_assert_int_ge(box_now() - begun, 390);
    ck_assert_int_lt(box_now() - begun, sbtest_slowly(3000));
}
END_TEST

/* It ends by itself: its code is kept, and commands go on. */
START_TEST(daemon_ends)
{
    struct sandbox_info *info = NULL;

    with_daemon("exit 7");
    sbtest_ok(sandbox_start(sandbox, 10000, &error), &error);
    await("exited");
    sbtest_ok(sandbox_inspect(sandbox, &info, &error), &error);
    ck_assert_ptr_nonnull(strstr(sandbox_info_get_json(info), "\"code\":7"));
    ck_assert_int_eq(sandbox_info_get_state(info), SANDBOX_STATE_RUNNING);
    sandbox_info_unref(info);
    ck_assert_int_eq(box_code(sandbox, NULL, "exit 3"), 3);
    sbtest_fails(sandbox_kill(sandbox, SIGTERM, &error), SANDBOX_ENOTRUNNING, &error);
}
END_TEST

START_TEST(daemon_not_there)
{
    struct sandbox_spec *spec = box_spec();

    sbtest_ok(sandbox_spec_set_daemon(spec, BOX_ARGV("/no/such/daemon"), &error), &error);
    sbtest_ok(sandbox_create(host, spec, 10000, &sandbox, &error), &error);
    sandbox_spec_unref(spec);
    sbtest_fails(sandbox_start(sandbox, 10000, &error), SANDBOX_ENOTFOUND, &error);
}
END_TEST

/* --------------------------------------------------------------------------------------------------- ports ---- */

static struct sandbox_exec *serve(const char *port, const char *six)
{
    struct sandbox_exec *exec = NULL;
    char line[16] = "";
    int out;

    sbtest_ok(sandbox_exec(sandbox, BOX_ARGV("/guest/echo-server", port, six), NULL, &exec, &error), &error);
    sbtest_ok(sandbox_exec_take_stdout(exec, &out, &error), &error);
    ck_assert_int_eq(read(out, line, 10), 10);
    close(out);
    return exec;
}

static void *write_all(void *arg)
{
    static const char block[65536];
    int fd = *(int *)arg;

    for (int i = 0; i < 128; i++)
        for (size_t at = 0; at < sizeof block;) {
            ssize_t n = write(fd, block + at, sizeof block - at);

            if (n <= 0)
                return NULL;
            at += (size_t)n;
        }
    shutdown(fd, SHUT_WR);
    return NULL;
}

START_TEST(dial_echo)
{
    struct sandbox_exec *server;
    char buffer[65536];
    size_t got = 0;
    pthread_t writer;
    ssize_t n;
    int fd;

    sandbox = box_start(host, NULL);
    server = serve(_i ? "8081" : "80", _i ? "6" : NULL);
    sbtest_ok(sandbox_dial(sandbox, _i ? 8081 : 80, sbtest_slowly(5000), &fd, &error), &error);
    ck_assert_int_ne(fcntl(fd, F_GETFD) & FD_CLOEXEC, 0);
    ck_assert_int_eq(fcntl(fd, F_GETFL) & O_NONBLOCK, 0);
    ck_assert_int_eq(pthread_create(&writer, NULL, write_all, &fd), 0);
    while ((n = read(fd, buffer, sizeof buffer)) > 0)
        got += (size_t)n;
    pthread_join(writer, NULL);
    ck_assert_uint_eq(got, 128 * 65536); /* and its end came, after half of it was closed */
    close(fd);
    for (int i = 0; i < 300; i++) {
        sbtest_ok(sandbox_dial(sandbox, _i ? 8081 : 80, sbtest_slowly(5000), &fd, &error), &error);
        close(fd);
    }
    sandbox_exec_unref(server);
}
END_TEST

START_TEST(dial_nobody)
{
    int fd = -1;

    sandbox = box_start(host, NULL);
    ck_assert_int_eq(sandbox_dial(sandbox, 9, 5000, &fd, &error), SANDBOX_EIO);
    ck_assert_int_eq(sandbox_error_get_errno(error), ECONNREFUSED);
    ck_assert_int_eq(sandbox_error_get_retryable(error), 1);
    error = sandbox_error_unref(error);
    sbtest_fails(sandbox_dial(sandbox, 0, 5000, &fd, &error), SANDBOX_EINVALID, &error);
    sbtest_fails(sandbox_dial(sandbox, 65536, 5000, &fd, &error), SANDBOX_EINVALID, &error);
    sbtest_ok(sandbox_stop(sandbox, 0, sbtest_slowly(5000), &error), &error);
    sbtest_fails(sandbox_dial(sandbox, 80, 5000, &fd, &error), SANDBOX_ENOTRUNNING, &error);
}
END_TEST

/* Its network is its own: loopback alone, and not the machine's. */
START_TEST(network_none)
{
    struct sockaddr_in address = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t size = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), inside = -1;
    char *text;

    ck_assert_int_eq(bind(fd, (struct sockaddr *)&address, size), 0);
    ck_assert_int_eq(listen(fd, 4), 0);
    ck_assert_int_eq(getsockname(fd, (struct sockaddr *)&address, &size), 0);
    sandbox = box_start(host, NULL);
    text = box_sh(sandbox, NULL, "tail -n +3 /proc/net/dev | cut -d: -f1 | tr -d ' '; wc -l < /proc/net/route");
    ck_assert_ptr_nonnull(strstr(text, "lo"));
    ck_assert_ptr_null(strstr(text, "eth"));
    free(text);
    ck_assert_int_lt(sandbox_dial(sandbox, ntohs(address.sin_port), 3000, &inside, NULL), 0);
    close(fd);
}
END_TEST

/* ------------------------------------------------------------------------------------------------- storage ---- */

static void add(struct sandbox_spec *spec, int type, const char *source, const char *target, unsigned int flags)
{
    struct sandbox_mount_options mount = SANDBOX_MOUNT_OPTIONS_INIT;

    mount.type = type;
    mount.source = source;
    mount.target = target;
    mount.flags = flags;
    sbtest_ok(sandbox_spec_add_mount(spec, &mount, &error), &error);
}

START_TEST(mount_bind)
{
    struct sandbox_spec *spec = box_spec();
    char folder[600], file[700], *text;

    snprintf(folder, sizeof folder, "%s/work", sbtest_dir());
    snprintf(file, sizeof file, "%s/file", folder);
    ck_assert_int_eq(mkdir(folder, 0777) | chmod(folder, 0777), 0);
    box_write(folder, "file", "of the machine\n");
    add(spec, SANDBOX_MOUNT_BIND, folder, "/desk/deep", 0);
    add(spec, SANDBOX_MOUNT_BIND, folder, "/read", SANDBOX_MOUNT_READ_ONLY);
    add(spec, SANDBOX_MOUNT_BIND, file, "/etc/one-file", SANDBOX_MOUNT_READ_ONLY);
    sandbox = box_start(host, spec);
    text = box_sh(sandbox, NULL, "cat /desk/deep/file /read/file /etc/one-file | sort -u; echo inside > /desk/deep/new; cat /read/new");
    ck_assert_str_eq(text, "of the machine\ninside");
    free(text);
    ck_assert_int_ne(box_code(sandbox, "0:0", "echo x > /read/x"), 0);
    ck_assert_int_ne(box_code(sandbox, "0:0", "echo x > /etc/one-file"), 0);
    ck_assert_int_ne(box_code(sandbox, "0:0", "ls /etc/one-file/.. > /dev/null && test -e /etc/new"), 0); /* its folder did not come with it */
    snprintf(file, sizeof file, "%s/new", folder);
    text = box_read(file);
    ck_assert_str_eq(text, "inside\n");
    free(text);
    text = box_sh(sandbox, NULL, "grep -E ' (/desk/deep|/read|/guest) ' /proc/self/mountinfo | grep -vc 'nosuid,nodev'; :");
    ck_assert_str_eq(text, "0");
    free(text);
}
END_TEST

START_TEST(mount_missing)
{
    struct sandbox_spec *spec = box_spec();

    add(spec, SANDBOX_MOUNT_BIND, "/no/such/folder", "/x", 0);
    sbtest_fails(sandbox_create(host, spec, 10000, &sandbox, &error), SANDBOX_ENOTFOUND, &error);
    sandbox_spec_unref(spec);
    spec = box_spec();
    add(spec, SANDBOX_MOUNT_VOLUME, "no-such-volume", "/x", 0);
    sbtest_fails(sandbox_create(host, spec, 10000, &sandbox, &error), SANDBOX_ENOTFOUND, &error);
    sandbox_spec_unref(spec);
}
END_TEST

/* Two sandboxes have it at once; it outlives both; while one names it, it can't be removed. */
START_TEST(volume_shared)
{
    struct sandbox_volume_options any = SANDBOX_VOLUME_OPTIONS_INIT;
    struct sandbox_volume *volume = NULL;
    struct sandbox_spec *spec = box_spec();
    struct sandbox *other;
    char *text;

    any.flags = SANDBOX_VOLUME_ANY_FILE_SYSTEM;
    sbtest_ok(sandbox_volume_create_with(host, "store", &any, &error), &error);
    sbtest_fails(sandbox_volume_create_with(host, "store", &any, &error), SANDBOX_EEXISTS, &error);
    add(spec, SANDBOX_MOUNT_VOLUME, "store", "/store", 0);
    sandbox = box_start(host, spec);
    spec = box_spec();
    add(spec, SANDBOX_MOUNT_VOLUME, "store", "/store", SANDBOX_MOUNT_READ_ONLY);
    other = box_start(host, spec);
    free(box_sh(sandbox, "0:0", "echo kept > /store/note; chmod 640 /store/note; mkdir /store/d; chmod 1777 /store/d"));
    text = box_sh(other, "0:0", "cat /store/note; stat -c '%a %u:%g' /store/note");
    ck_assert_str_eq(text, "kept\n640 0:0");
    free(text);
    ck_assert_int_ne(box_code(other, "0:0", "echo x > /store/x"), 0);
    if (box_user()) { /* owners are those of the inside, the same in both */
        free(box_sh(sandbox, box_user(), "echo mine > /store/d/mine"));
        text = box_sh(other, "0:0", "stat -c %u:%g /store/d/mine");
        ck_assert_str_eq(text, "1500:1500");
        free(text);
    }
    ck_assert_int_ne(box_code(sandbox, "0:0", "exec 9< /store/note; flock -n 9 true || exit 0; exit 1"), 0);
    sbtest_fails(sandbox_volume_remove(host, "store", &error), SANDBOX_EBUSY, &error);
    sbtest_ok(sandbox_volume_open(host, "store", &volume, &error), &error);
    ck_assert_str_eq(sandbox_volume_get_name(volume), "store");
    ck_assert_int_eq(*sandbox_volume_get_path(volume), '/');
    sandbox_volume_unref(volume);
    sbtest_ok(sandbox_delete(other, 10000, &error), &error);
    sandbox_unref(other);
    sbtest_ok(sandbox_delete(sandbox, 10000, &error), &error);
    sandbox_unref(sandbox);
    spec = box_spec();
    add(spec, SANDBOX_MOUNT_VOLUME, "store", "/mnt", 0);
    sandbox = box_start(host, spec);
    text = box_sh(sandbox, "0:0", "cat /mnt/note");
    ck_assert_str_eq(text, "kept");
    free(text);
}
END_TEST

START_TEST(root_read_only)
{
    struct sandbox_spec *spec = box_spec();

    sbtest_ok(sandbox_spec_set_read_only(spec, 1, &error), &error);
    add(spec, SANDBOX_MOUNT_TMPFS, NULL, "/scratch", 0);
    sandbox = box_start(host, spec);
    ck_assert_int_ne(box_code(sandbox, "0:0", "echo x > /x || echo x > /tmp/x || echo x > /etc/x"), 0);
    ck_assert_int_eq(box_code(sandbox, box_user(), "echo x > /scratch/x && echo x > /dev/shm/x && test -w /dev/null"), 0);
}
END_TEST

/* -------------------------------------------------------------------------------------------------- limits ---- */

START_TEST(limit_memory)
{
    struct sandbox_exec_options options = SANDBOX_EXEC_OPTIONS_INIT;
    struct sandbox_spec *spec = box_spec();
    struct box_run run;

    sbtest_ok(sandbox_spec_set_memory_max(spec, 48 << 20, &error), &error);
    if (!box_limits()) {
        sbtest_fails(sandbox_create(host, spec, 10000, &sandbox, &error), SANDBOX_EUNSUPPORTED, &error);
        sandbox_spec_unref(spec);
        sbtest_skip("memory limits need a control group, which this user has none of");
    }
    sandbox = box_start(host, spec);
    box_run(sandbox, &options, NULL, 0, &run, BOX_ARGV("/guest/bombs", "mem"));
    ck_assert_int_eq(run.result.kind, SANDBOX_EXEC_OOM);
    ck_assert_int_eq(run.result.code, -1);
    box_clear(&run);
    ck_assert_int_eq(box_code(sandbox, NULL, "exit 0"), 0);
}
END_TEST

START_TEST(limit_cpu)
{
    struct sandbox_spec *spec = box_spec();
    struct box_run run;
    long begun, took;

    sbtest_ok(sandbox_spec_set_cpu_max(spec, 200, &error), &error);
    if (!box_limits()) {
        sbtest_fails(sandbox_create(host, spec, 10000, &sandbox, &error), SANDBOX_EUNSUPPORTED, &error);
        sandbox_spec_unref(spec);
        sbtest_skip("CPU limits need a control group, which this user has none of");
    }
    sandbox = box_start(host, spec);
    begun = box_now();
    box_run(sandbox, NULL, NULL, 0, &run, BOX_ARGV("sh", "-c", "timeout 2 sh -c 'while :; do :; done'"));
    took = box_now() - begun;
    ck_assert_int_lt((run.result.user_us + run.result.system_us) / 1000, took * 30 / 100);
    box_clear(&run);
}
END_TEST

START_TEST(limit_pids)
{
    struct sandbox_exec_options options = SANDBOX_EXEC_OPTIONS_INIT;
    struct sandbox_spec *spec = box_spec();
    struct box_run run;

    sbtest_ok(sandbox_spec_set_pids_max(spec, 20, &error), &error);
    sandbox = box_start(host, spec);
    options.user = box_user();
    box_run(sandbox, &options, NULL, 0, &run,
            BOX_ARGV("sh", "-c", "i=0; while [ $i -lt 25 ]; do sleep 2 & i=$((i+1)); done 2>/dev/null; echo unlimited"));
    ck_assert_str_ne(run.output.out, "unlimited\n");
    box_clear(&run);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("integration-inside");
    TCase *tc = sbtest_case("inside");

    tcase_add_checked_fixture(tc, set_up, tear_down);
    tcase_add_loop_test(tc, image_form, 0, 5);
    tcase_add_test(tc, image_shared);
    tcase_add_test(tc, user_resolved);
    tcase_add_test(tc, daemon_runs);
    tcase_add_test(tc, daemon_deaf);
    tcase_add_test(tc, daemon_ends);
    tcase_add_test(tc, daemon_not_there);
    tcase_add_loop_test(tc, dial_echo, 0, 2);
    tcase_add_test(tc, dial_nobody);
    tcase_add_test(tc, network_none);
    tcase_add_test(tc, mount_bind);
    tcase_add_test(tc, mount_missing);
    tcase_add_test(tc, volume_shared);
    tcase_add_test(tc, root_read_only);
    tcase_add_test(tc, limit_memory);
    tcase_add_test(tc, limit_cpu);
    tcase_add_test(tc, limit_pids);
    suite_add_tcase(suite, tc);
    return box_main(suite);
}
