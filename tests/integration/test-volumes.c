/* SPDX-License-Identifier: Apache-2.0
 * Volumes as stores of databases: folders and disks of three file systems, in two sandboxes and on the host at once, with owners, bounds,
 * and refusals. lfs-store-probe.sh is the acceptance script of the program that needs them most. */
#include "box.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdint.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static struct sandbox_host *host;
static struct sandbox *sandbox, *other;
static struct sandbox_error *error;

static void set_up(void)
{
    host = box_host();
}

static void tear_down(void)
{
    if (other) {
        sbtest_ok(sandbox_delete(other, 20000, &error), &error);
        other = sandbox_unref(other);
    }
    box_end(&host, &sandbox);
}

static void make(const char *name, const char *file_system, int64_t bytes, const char *owner)
{
    struct sandbox_volume_options options = SANDBOX_VOLUME_OPTIONS_INIT;

    options.kind = file_system ? SANDBOX_VOLUME_DISK : SANDBOX_VOLUME_FOLDER;
    options.file_system = file_system;
    options.bytes = bytes;
    options.owner = owner;
    sbtest_ok(sandbox_volume_create_with(host, name, &options, &error), &error);
}

static struct sandbox_spec *spec_with(const char *volume)
{
    struct sandbox_mount_options mount = SANDBOX_MOUNT_OPTIONS_INIT;
    struct sandbox_spec *spec = box_spec();

    mount.type = SANDBOX_MOUNT_VOLUME;
    mount.source = volume;
    mount.target = "/store";
    sbtest_ok(sandbox_spec_add_mount(spec, &mount, &error), &error);
    mount.type = SANDBOX_MOUNT_BIND;
    mount.source = getenv("SBTEST_PROBES");
    mount.target = "/probes";
    mount.flags = SANDBOX_MOUNT_READ_ONLY;
    sbtest_ok(sandbox_spec_add_mount(spec, &mount, &error), &error);
    return spec;
}

/* Where the machine sees it; free() it. */
static char *path_of(const char *name)
{
    struct sandbox_volume *volume = NULL;
    char *path;

    sbtest_ok(sandbox_volume_open(host, name, &volume, &error), &error);
    path = strdup(sandbox_volume_get_path(volume));
    sandbox_volume_unref(volume);
    ck_assert_ptr_nonnull(path);
    return path;
}

static struct sandbox_exec *begin(struct sandbox *where, const char *const *argv)
{
    struct sandbox_exec *exec = NULL;

    sbtest_ok(sandbox_exec(where, argv, NULL, &exec, &error), &error);
    return exec;
}

/* What it printed; free() it. */
static char *end(struct sandbox_exec *exec, int code)
{
    struct sandbox_communicate_options options = SANDBOX_COMMUNICATE_OPTIONS_INIT;
    struct sandbox_exec_result result = SANDBOX_EXEC_RESULT_INIT;
    struct sandbox_output output = SANDBOX_OUTPUT_INIT;
    char *text;

    options.timeout_ms = 60000;
    sbtest_ok(sandbox_exec_communicate(exec, &options, &output, &result, &error), &error);
    if (result.kind != SANDBOX_EXEC_EXITED || result.code != code)
        ck_abort_msg("ended with kind %d code %d: %s%s", result.kind, result.code, output.out, output.err);
    text = strdup(output.out);
    sandbox_output_clear(&output);
    sandbox_exec_unref(exec);
    return text;
}

static void expect_line(const char *text, const char *line)
{
    if (!strstr(text, line))
        ck_abort_msg("the probe did not say \"%s\": %s", line, text);
}

static const struct {
    const char *file_system; /* NULL: a folder */
    int64_t bytes;
} stores[] = { { NULL, 0 }, { "ext4", 64 << 20 }, { "xfs", 320 << 20 }, { "btrfs", 256 << 20 } };

START_TEST(volume_store_probe)
{
    const char *file_system = stores[_i].file_system;
    struct sandbox_exec *a, *b;
    char *text, guard[32];

    if (file_system && geteuid() != 0)
        sbtest_skip("only root can mount a disk");
    make("store", file_system, stores[_i].bytes, NULL);
    sandbox = box_start(host, spec_with("store"));
    other = box_start(host, spec_with("store"));
    box_code(other, NULL, "true; true; true"); /* the script names its folder by its pid, and both begin at the same one */
    a = begin(sandbox, BOX_ARGV("/bin/sh", "/probes/lfs-store-probe.sh", "/store"));
    b = begin(other, BOX_ARGV("/bin/sh", "/probes/lfs-store-probe.sh", "/store"));
    for (int i = 0; i < 2; i++) {
        text = end(i ? b : a, 0);
        if (file_system) {
            snprintf(guard, sizeof guard, "guard=%s", file_system);
            expect_line(text, guard);
        }
        expect_line(text, "pwrite=ok");
        expect_line(text, "rename_over=ok");
        expect_line(text, "mode=wal reader_saw=1 second_writer=refused (ok)");
        expect_line(text, "flock=exclusive ok");
        expect_line(text, "done=ok");
        free(text);
    }
    /* a lock that one sandbox has the other sees; what one wrote, too */
    a = begin(sandbox, BOX_ARGV("/bin/sh", "-c", "exec 9>/store/lock; flock -x 9; echo held > /store/says; sleep 3"));
    for (int i = 0; i < 100 && box_code(other, NULL, "grep -q held /store/says 2>/dev/null"); i++)
        usleep(20000);
    ck_assert_int_eq(box_code(other, NULL, "flock -n -x /store/lock true"), 1);
    free(end(a, 0));
    ck_assert_int_eq(box_code(other, NULL, "flock -n -x /store/lock true"), 0);
    /* it stays when both are gone */
    sbtest_ok(sandbox_delete(sandbox, 20000, &error), &error);
    sbtest_ok(sandbox_delete(other, 20000, &error), &error);
    other = sandbox_unref(other);
    sandbox_unref(sandbox);
    sandbox = box_start(host, spec_with("store"));
    text = box_sh(sandbox, NULL, "cat /store/says");
    ck_assert_str_eq(text, "held");
    free(text);
}
END_TEST

/* Writers in two sandboxes and on the host count up in one database, and are killed in the midst of it. What was acknowledged is there. */
static const char writer[] =
    "import sqlite3,sys,time\n"
    "c=sqlite3.connect(sys.argv[1],timeout=20,isolation_level=None)\n"
    "for i in range(1000):\n" /* who turns to WAL while another one does is told at once that it is locked, whatever the timeout */
    "  try: c.execute('pragma journal_mode=wal'); break\n"
    "  except sqlite3.OperationalError: time.sleep(0.01)\n"
    "c.execute('pragma synchronous=normal')\n"
    "c.execute('create table if not exists t(who text, n integer)')\n"
    "for n in range(1,100000):\n"
    "  c.execute('insert into t values (?,?)',(sys.argv[2],n))\n"
    "  sys.stdout.write('%d\\n'%n); sys.stdout.flush()\n";
static const char checker[] =
    "import sqlite3,sys\n"
    "c=sqlite3.connect(sys.argv[1],timeout=20)\n"
    "print(c.execute('pragma integrity_check').fetchone()[0], *[c.execute('select coalesce(max(n),0) from t where who=?',(w,)).fetchone()[0]"
    " for w in ('a','b','h')], c.execute('select count(*) from (select 1 from t group by who,n having count(*)>1)').fetchone()[0])\n";

/* The last whole number of what a killed writer said. */
static long last_of(int fd)
{
    char text[65536];
    long last = 0, n;
    size_t have = 0;

    while ((n = read(fd, text + have, sizeof text - 1 - have)) > 0) {
        char *line;

        have += (size_t)n;
        text[have] = 0;
        line = strrchr(text, '\n');
        if (!line)
            continue;
        *line = 0;
        last = atol(strrchr(text, '\n') ? strrchr(text, '\n') + 1 : text);
        have = strlen(line + 1);
        memmove(text, line + 1, have + 1);
    }
    close(fd);
    return last;
}

static pid_t start_on_host(const char *database, int *ret_fd)
{
    static char python[] = "/usr/bin/python3", dash_c[] = "-c", who[] = "h";
    char *const argv[] = { python, dash_c, (char *)(uintptr_t)writer, (char *)(uintptr_t)database, who, NULL };
    posix_spawn_file_actions_t actions;
    extern char **environ;
    int pair[2];
    pid_t pid;

    ck_assert_int_eq(pipe2(pair, O_CLOEXEC), 0);
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, pair[1], 1);
    ck_assert_int_eq(posix_spawn(&pid, argv[0], &actions, NULL, argv, environ), 0);
    posix_spawn_file_actions_destroy(&actions);
    close(pair[1]);
    *ret_fd = pair[0];
    return pid;
}

START_TEST(volume_wal_survives_kills)
{
    struct sandbox_exec *a, *b;
    char *path, database[600], *text, verdict[16];
    long said[3], found[3], twice;
    int out, fds[2];
    pid_t pid;

    if (access("/usr/bin/python3", X_OK) < 0)
        sbtest_skip("there is no python3");
    make("store", NULL, 0, NULL);
    path = path_of("store");
    snprintf(database, sizeof database, "%s/db", path);
    sandbox = box_start(host, spec_with("store"));
    other = box_start(host, spec_with("store"));
    a = begin(sandbox, BOX_ARGV("/usr/bin/python3", "-c", writer, "/store/db", "a"));
    b = begin(other, BOX_ARGV("/usr/bin/python3", "-c", writer, "/store/db", "b"));
    sbtest_ok(sandbox_exec_take_stdout(a, &fds[0], &error), &error);
    sbtest_ok(sandbox_exec_take_stdout(b, &fds[1], &error), &error);
    pid = start_on_host(database, &out);
    for (int i = 0; i < 3; i++)
        ck_assert_int_eq(poll(&(struct pollfd){ .fd = i == 2 ? out : fds[i], .events = POLLIN }, 1, (int)sbtest_slowly(20000)), 1);
    /* all three are at it: pipes of 64 KiB hold what they say for longer than this */
    usleep(1500000);
    sbtest_ok(sandbox_exec_kill(a, SIGKILL, 0, &error), &error);
    usleep(100000);
    kill(pid, SIGKILL);
    usleep(100000);
    sbtest_ok(sandbox_delete(other, 20000, &error), &error); /* with everything in it, also SIGKILL */
    other = sandbox_unref(other);
    sbtest_ok(sandbox_exec_wait(a, 10000, NULL, &error), &error);
    ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
    said[0] = last_of(fds[0]);
    said[1] = last_of(fds[1]);
    said[2] = last_of(out);
    sandbox_exec_unref(a);
    sandbox_exec_unref(b);
    text = end(begin(sandbox, BOX_ARGV("/usr/bin/python3", "-c", checker, "/store/db")), 0);
    ck_assert_int_eq(sscanf(text, "%15s %ld %ld %ld %ld", verdict, &found[0], &found[1], &found[2], &twice), 5);
    ck_assert_str_eq(verdict, "ok");
    ck_assert_int_eq((int)twice, 0);
    for (int i = 0; i < 3; i++) {
        ck_assert_int_gt((int)said[i], 0);
        ck_assert_int_ge((int)found[i], (int)said[i]);
        ck_assert_int_le((int)found[i], (int)said[i] + 1); /* one may be written and not yet said */
    }
    free(text);
    free(path);
}
END_TEST

START_TEST(volume_owner)
{
    char owner[32], *path, name[700];
    struct stat st;

    snprintf(owner, sizeof owner, "%u:%u", geteuid() ? geteuid() : 1000, geteuid() ? getegid() : 2000);
    make("store", NULL, 0, owner);
    path = path_of("store");
    sandbox = box_start(host, spec_with("store"));
    ck_assert_int_eq(box_code(sandbox, NULL, "echo 1 > /store/file && test $(stat -c %u:%g /store) = 0:0"), 0);
    snprintf(name, sizeof name, "%s/file", path);
    ck_assert_int_eq(stat(name, &st), 0);
    ck_assert_uint_eq(st.st_uid, geteuid() ? geteuid() : 1000);
    ck_assert_uint_eq(st.st_gid, geteuid() ? getegid() : 2000);
    /* above it is a folder of the caller's that nobody else passes */
    snprintf(name, sizeof name, "%s/..", path);
    ck_assert_int_eq(stat(name, &st), 0);
    ck_assert_uint_eq(st.st_uid, geteuid());
    ck_assert_uint_eq(st.st_mode & 077, 0);
    free(path);
}
END_TEST

/* A full disk is the sandbox's own: what is deleted there is free again, and the machine's disk is not full. */
START_TEST(volume_f54)
{
    char *path;

    if (geteuid() != 0)
        sbtest_skip("only root can mount a disk");
    make("small", "ext4", 16 << 20, NULL);
    sandbox = box_start(host, spec_with("small"));
    ck_assert_int_ne(box_code(sandbox, NULL, "dd if=/dev/zero of=/store/big bs=1M count=64 2>/dev/null"), 0);
    ck_assert_int_eq(box_code(sandbox, NULL, "test $(du -sm /store | cut -f1) -le 16 && rm /store/big && echo again > /store/small"), 0);
    path = path_of("small");
    int held = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    ck_assert_int_ge(held, 0);
    sbtest_fails(sandbox_volume_remove(host, "small", &error), SANDBOX_EBUSY, &error);
    sbtest_ok(sandbox_delete(sandbox, 20000, &error), &error);
    sandbox = sandbox_unref(sandbox);
    sbtest_fails(sandbox_volume_remove(host, "small", &error), SANDBOX_EBUSY, &error); /* the machine's own process has it */
    close(held);
    sbtest_ok(sandbox_volume_remove(host, "small", &error), &error);
    free(path);
}
END_TEST

/* Overwrites the beginning of a disk image. */
static void damage(const char *folder_of_it)
{
    char path[1100], zeros[8192] = "";
    int fd;

    snprintf(path, sizeof path, "%s/image", folder_of_it);
    fd = open(path, O_WRONLY | O_CLOEXEC);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq((int)write(fd, zeros, sizeof zeros), (int)sizeof zeros);
    close(fd);
}

/* What does not verify is refused, and says so; the sandbox that had it goes like any other. */
START_TEST(volume_damaged)
{
    struct sandbox_spec *spec;
    struct sandbox *none = NULL;
    char folder[600];

    if (geteuid() != 0)
        sbtest_skip("only root can mount a disk");
    make("store", "ext4", 16 << 20, NULL);
    snprintf(folder, sizeof folder, "%s/volumes/store", box_root());
    usleep(200000); /* the loop device of its making goes a moment later */
    damage(folder);
    spec = spec_with("store");
    sbtest_fails(sandbox_create(host, spec, 20000, &none, &error), SANDBOX_EDAMAGED, &error);
    sandbox_spec_unref(spec);
    sbtest_ok(sandbox_volume_remove(host, "store", &error), &error);
}
END_TEST

START_TEST(volume_of_another_kernel)
{
    struct sandbox_spec *spec;
    struct sandbox *none = NULL;
    char folder[600], *path;

    make("store", NULL, 0, NULL);
    path = path_of("store");
    snprintf(folder, sizeof folder, "%s/volumes/store", box_root());
    box_write(folder, "kernel", "{\"boot\":\"00000000-0000-0000-0000-000000000000\",\"machine\":\"another one\"}");
    spec = spec_with("store");
    sbtest_fails(sandbox_create(host, spec, 20000, &none, &error), SANDBOX_EBUSY, &error);
    snprintf(folder, sizeof folder, "%s/volumes/store/kernel", box_root());
    ck_assert_int_eq(unlink(folder), 0);
    sbtest_ok(sandbox_create(host, spec, 20000, &sandbox, &error), &error);
    sandbox_spec_unref(spec);
    free(path);
}
END_TEST

/* What a VM had is never this kernel's again. */
START_TEST(volume_of_a_vm)
{
    struct sandbox_volume *volume = NULL;
    struct sandbox_spec *spec;
    struct sandbox *none = NULL;
    char folder[600];

    make("store", NULL, 0, NULL);
    snprintf(folder, sizeof folder, "%s/volumes/store", box_root());
    box_write(folder, "record", "{\"bytes\":0,\"file_system\":\"ext4\",\"kind\":\"folder\",\"owner\":\"\",\"vm\":true}");
    spec = spec_with("store");
    sbtest_fails(sandbox_create(host, spec, 20000, &none, &error), SANDBOX_EDENIED, &error);
    sandbox_spec_unref(spec);
    sbtest_ok(sandbox_volume_open(host, "store", &volume, &error), &error);
    ck_assert_str_eq(sandbox_volume_get_path(volume), "");
    ck_assert_ptr_nonnull(strstr(sandbox_volume_get_json(volume), "\"vm\":true"));
    sandbox_volume_unref(volume);
}
END_TEST

START_TEST(volume_wrong_options)
{
    static const struct {
        int kind;
        int64_t bytes;
        const char *file_system, *owner;
        unsigned int flags;
    } wrong[] = {
        { 2, 0, NULL, NULL, 0 },          { 0, 4096, NULL, NULL, 0 },           { 0, 0, "ext4", NULL, 0 },  { 1, 4096, NULL, NULL, 0 },
        { 1, 1 << 26, "vfat", NULL, 0 },  { 1, 1 << 26, "../sh", NULL, 0 },     { 0, 0, NULL, "root:0", 0 }, { 0, 0, NULL, "1", 0 },
        { 0, 0, NULL, "4294967295:0", 0 }, { 0, 0, NULL, NULL, 2 },
    };

    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct sandbox_volume_options o = SANDBOX_VOLUME_OPTIONS_INIT;

        o.kind = wrong[i].kind;
        o.bytes = wrong[i].bytes;
        o.file_system = wrong[i].file_system;
        o.owner = wrong[i].owner;
        o.flags = wrong[i].flags;
        sbtest_fails(sandbox_volume_create_with(host, "store", &o, &error), SANDBOX_EINVALID, &error);
    }
    if (geteuid() != 0) {
        struct sandbox_volume_options o = SANDBOX_VOLUME_OPTIONS_INIT;

        o.owner = "0:0";
        sbtest_fails(sandbox_volume_create_with(host, "store", &o, &error), SANDBOX_EUNSUPPORTED, &error);
        o.owner = NULL;
        o.kind = SANDBOX_VOLUME_DISK;
        o.bytes = 1 << 26;
        sbtest_fails(sandbox_volume_create_with(host, "store", &o, &error), SANDBOX_EUNSUPPORTED, &error);
    }
    make("store", NULL, 0, NULL);
    sbtest_fails(sandbox_volume_create_with(host, "store", NULL, &error), SANDBOX_EEXISTS, &error);
}
END_TEST

/* On a file system that nobody tried databases on, a volume is made when it is asked for in so many words. */
START_TEST(volume_guard)
{
    struct sandbox_host_options options = SANDBOX_HOST_OPTIONS_INIT;
    struct sandbox_volume_options volume = SANDBOX_VOLUME_OPTIONS_INIT;
    struct sandbox_host *small = NULL;
    char root[600];

    if (geteuid() != 0)
        sbtest_skip("only root can mount a memory file system");
    snprintf(root, sizeof root, "%s/tmpfs", sbtest_dir());
    ck_assert_int_eq(mkdir(root, 0700), 0);
    ck_assert_int_eq(mount("tmpfs", root, "tmpfs", 0, "mode=0700"), 0);
    options.state_root = root;
    sbtest_ok(sandbox_host_open("local:", &options, 20000, &small, &error), &error);
    sbtest_fails(sandbox_volume_create(small, "store", &error), SANDBOX_EUNSUPPORTED, &error);
    volume.flags = SANDBOX_VOLUME_ANY_FILE_SYSTEM;
    sbtest_ok(sandbox_volume_create_with(small, "store", &volume, &error), &error);
    sandbox_host_unref(small);
    ck_assert_int_eq(umount2(root, MNT_DETACH), 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("integration-volumes");
    TCase *tc = sbtest_case("volumes");

    tcase_set_timeout(tc, 90);
    tcase_add_checked_fixture(tc, set_up, tear_down);
    tcase_add_loop_test(tc, volume_store_probe, 0, (int)(sizeof stores / sizeof *stores));
    tcase_add_test(tc, volume_wal_survives_kills);
    tcase_add_test(tc, volume_owner);
    tcase_add_test(tc, volume_f54);
    tcase_add_test(tc, volume_damaged);
    tcase_add_test(tc, volume_of_another_kernel);
    tcase_add_test(tc, volume_of_a_vm);
    tcase_add_test(tc, volume_wrong_options);
    tcase_add_test(tc, volume_guard);
    suite_add_tcase(suite, tc);
    return box_main(suite);
}
