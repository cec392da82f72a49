/* SPDX-License-Identifier: Apache-2.0
 * Files of a sandbox by quick calls: before it is started, while it runs, and with those inside who don't want it to work. */
#include "box.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
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

static void start(void)
{
    sandbox = box_start(host, NULL);
}

static void put(const char *path, const char *text)
{
    sbtest_ok(sandbox_file_write(sandbox, path, text, strlen(text), NULL, 10000, &error), &error);
}

/* free() it. */
static char *get(const char *path)
{
    char *data, *copy;
    size_t size;

    sbtest_ok(sandbox_file_read(sandbox, path, 0, 1 << 20, 10000, &data, &size, &error), &error);
    copy = strdup(data);
    ck_assert_uint_eq(strlen(copy), size);
    sandbox_buffer_free(data);
    return copy;
}

static void expect(const char *path, const char *text)
{
    char *have = get(path);

    ck_assert_str_eq(have, text);
    free(have);
}

static struct sandbox_file_info info_of(const char *path)
{
    struct sandbox_file_info info = SANDBOX_FILE_INFO_INIT;

    sbtest_ok(sandbox_file_stat(sandbox, path, 0, 10000, &info, &error), &error);
    return info;
}

static int absent(const char *path)
{
    struct sandbox_file_info info = SANDBOX_FILE_INFO_INIT;

    return sandbox_file_stat(sandbox, path, 0, 10000, &info, NULL) == SANDBOX_ENOTFOUND;
}

/* Number of entries; -1: a name came twice or not at all among `n` made ones. */
static int count(const char *path)
{
    struct sandbox_folder *folder = NULL;
    const char *name;
    int n = 0;

    sbtest_ok(sandbox_folder_open(sandbox, path, 10000, &folder, &error), &error);
    for (;;) {
        struct sandbox_file_info info = SANDBOX_FILE_INFO_INIT;

        sbtest_ok(sandbox_folder_next(folder, 10000, &name, &info, &error), &error);
        if (!name)
            break;
        ck_assert_int_ge(info.type, SANDBOX_FILE_REGULAR);
        n++;
    }
    sbtest_ok(sandbox_folder_next(folder, 0, &name, NULL, &error), &error); /* the end stays the end */
    ck_assert_ptr_null(name);
    ck_assert_ptr_null(sandbox_folder_close(folder));
    return n;
}

/* The same before the daemon is started and after; nothing of it once it is stopped. */
START_TEST(files_states)
{
    struct sandbox_file_info info = SANDBOX_FILE_INFO_INIT;
    struct sandbox_spec *spec = box_spec();
    struct sandbox_folder *folder;
    char *data;
    size_t size;

    sbtest_ok(sandbox_create(host, spec, 20000, &sandbox, &error), &error);
    sandbox_spec_unref(spec);
    put("/root/early", "before the start");
    expect("/root/early", "before the start");
    sbtest_ok(sandbox_start(sandbox, 20000, &error), &error);
    expect("/root/early", "before the start");
    data = box_sh(sandbox, "0:0", "cat /root/early; echo late >/root/late");
    ck_assert_str_eq(data, "before the start");
    free(data);
    expect("/root/late", "late\n");
    sbtest_ok(sandbox_stop(sandbox, 0, 10000, &error), &error);
    sbtest_fails(sandbox_file_stat(sandbox, "/root/late", 0, 10000, &info, &error), SANDBOX_ENOTRUNNING, &error);
    sbtest_fails(sandbox_file_read(sandbox, "/root/late", 0, 10, 10000, &data, &size, &error), SANDBOX_ENOTRUNNING, &error);
    sbtest_fails(sandbox_folder_open(sandbox, "/", 10000, &folder, &error), SANDBOX_ENOTRUNNING, &error);
}
END_TEST

START_TEST(files_write)
{
    struct sandbox_file_write_options options = SANDBOX_FILE_WRITE_OPTIONS_INIT;
    struct sandbox_file_info info;
    char *text;

    start();
    put("/root/f", "one");
    info = info_of("/root/f");
    ck_assert_int_eq(info.type, SANDBOX_FILE_REGULAR);
    ck_assert_int_eq(info.mode, 0644);
    ck_assert_int_eq(info.uid, 0);
    ck_assert_int_eq(info.bytes, 3);
    ck_assert_int_gt(info.mtime_ns, 1500000000000000000);
    text = box_sh(sandbox, "0:0", "chmod 600 /root/f; ln /root/f /root/other; ln -s f /root/link; stat -c %i /root/f");
    free(text);
    put("/root/f", "two"); /* a new file with the old one's mode: who has the old one open keeps it */
    ck_assert_int_eq(info_of("/root/f").mode, 0600);
    expect("/root/other", "one");
    put("/root/link", "not through it");
    expect("/root/f", "two");
    ck_assert_int_eq(info_of("/root/link").type, SANDBOX_FILE_REGULAR);
    options.flags = SANDBOX_FILE_APPEND;
    sbtest_ok(sandbox_file_write(sandbox, "/root/f", " and three", 10, &options, 10000, &error), &error);
    expect("/root/f", "two and three");
    sbtest_ok(sandbox_file_write(sandbox, "/root/new", "n", 1, &options, 10000, &error), &error);
    options.flags = SANDBOX_FILE_EXCLUSIVE;
    sbtest_fails(sandbox_file_write(sandbox, "/root/f", "x", 1, &options, 10000, &error), SANDBOX_EEXISTS, &error);
    expect("/root/f", "two and three");
    sbtest_fails(sandbox_file_write(sandbox, "/root/a/b/c", "x", 1, NULL, 10000, &error), SANDBOX_ENOTFOUND, &error);
    options.flags = SANDBOX_FILE_PARENTS;
    options.mode = 0;
    sbtest_ok(sandbox_file_write(sandbox, "/root/a/b/c", "", 0, &options, 10000, &error), &error);
    ck_assert_int_eq(info_of("/root/a/b/c").mode, 0);
    ck_assert_int_eq(info_of("/root/a/b").mode, 0755);
    expect("/root/a/b/c", "");
    sbtest_fails(sandbox_file_write(sandbox, "/root/a", "x", 1, NULL, 10000, &error), SANDBOX_EEXISTS, &error);
    sbtest_fails(sandbox_file_write(sandbox, "/", "x", 1, NULL, 10000, &error), SANDBOX_EINVALID, &error);
    ck_assert_int_eq(count("/root"), 5); /* f other link new a: no temporary */
}
END_TEST

/* Content of any bytes and of any size around what a record holds; from an offset, and no more than asked. */
START_TEST(files_f03)
{
    static const size_t sizes[] = { 0, 1, 32767, 32768, 32769, 65535, 65536, 65537, 4 << 20, (4 << 20) + 1, 64 << 20 };
    size_t size, got;
    char *made, *data;

    start();
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        size = sizes[i];
        made = malloc(size + 1);
        ck_assert_ptr_nonnull(made);
        for (size_t k = 0; k < size; k++)
            made[k] = (char)(k * 31 + k / 251);
        sbtest_ok(sandbox_file_write(sandbox, "/root/f", made, size, NULL, 20000, &error), &error);
        sbtest_ok(sandbox_file_read(sandbox, "/root/f", 0, SIZE_MAX, 20000, &data, &got, &error), &error);
        ck_assert_uint_eq(got, size);
        ck_assert_int_eq(memcmp(data, made, size), 0);
        ck_assert_int_eq(data[size], 0);
        sandbox_buffer_free(data);
        sbtest_ok(sandbox_file_read(sandbox, "/root/f", (int64_t)(size / 2), 1000, 20000, &data, &got, &error), &error);
        ck_assert_uint_eq(got, size - size / 2 < 1000 ? size - size / 2 : 1000);
        ck_assert_int_eq(memcmp(data, made + size / 2, got), 0);
        sandbox_buffer_free(data);
        free(made);
    }
    sbtest_ok(sandbox_file_read(sandbox, "/root/f", INT64_MAX - 10, 5, 20000, &data, &got, &error), &error);
    ck_assert_uint_eq(got, 0);
    sandbox_buffer_free(data);
}
END_TEST

START_TEST(files_change)
{
    static const char *const bad[] = { "relative", "", "/a/../b", "/.." };
    struct sandbox_file_info info = SANDBOX_FILE_INFO_INIT;
    char *target;

    start();
    sbtest_ok(sandbox_file_make_folder(sandbox, "/root/a/b", 01777, SANDBOX_FILE_PARENTS, 10000, &error), &error);
    ck_assert_int_eq(info_of("/root/a/b").mode, 01777);
    sbtest_ok(sandbox_file_make_folder(sandbox, "/root/a/b", 0700, 0, 10000, &error), &error);
    ck_assert_int_eq(info_of("/root/a/b").mode, 01777);
    sbtest_fails(sandbox_file_make_folder(sandbox, "/root/a/b", -1, SANDBOX_FILE_EXCLUSIVE, 10000, &error), SANDBOX_EEXISTS, &error);
    put("/root/a/b/f", "x");
    sbtest_fails(sandbox_file_remove(sandbox, "/root/a", 0, 10000, &error), SANDBOX_EEXISTS, &error);
    sbtest_ok(sandbox_file_rename(sandbox, "/root/a/b/f", "/root/g", 0, 10000, &error), &error);
    put("/root/h", "y");
    sbtest_fails(sandbox_file_rename(sandbox, "/root/g", "/root/h", SANDBOX_FILE_EXCLUSIVE, 10000, &error), SANDBOX_EEXISTS, &error);
    sbtest_ok(sandbox_file_rename(sandbox, "/root/g", "/root/h", 0, 10000, &error), &error);
    expect("/root/h", "x");
    sbtest_fails(sandbox_file_remove(sandbox, "/root/g", 0, 10000, &error), SANDBOX_ENOTFOUND, &error);
    sbtest_fails(sandbox_file_remove(sandbox, "/root/g", SANDBOX_FILE_RECURSIVE, 10000, &error), SANDBOX_ENOTFOUND, &error);
    /* links are removed and not what they lead to */
    free(box_sh(sandbox, "0:0", "ln -s /root/a /root/l; mkdir /root/t; ln -s /root/a /root/t/l; ln -s /nowhere/at/all /root/dangling"));
    sbtest_ok(sandbox_file_read_link(sandbox, "/root/dangling", 10000, &target, &error), &error);
    ck_assert_str_eq(target, "/nowhere/at/all");
    sandbox_buffer_free(target);
    sbtest_fails(sandbox_file_read_link(sandbox, "/root/h", 10000, &target, &error), SANDBOX_EINVALID, &error);
    sbtest_fails(sandbox_file_stat(sandbox, "/root/dangling", SANDBOX_FILE_FOLLOW, 10000, &info, &error), SANDBOX_ENOTFOUND, &error);
    sbtest_ok(sandbox_file_stat(sandbox, "/root/l", SANDBOX_FILE_FOLLOW, 10000, &info, &error), &error);
    ck_assert_int_eq(info.type, SANDBOX_FILE_FOLDER);
    sbtest_ok(sandbox_file_remove(sandbox, "/root/l", SANDBOX_FILE_RECURSIVE, 10000, &error), &error);
    sbtest_ok(sandbox_file_remove(sandbox, "/root/t", SANDBOX_FILE_RECURSIVE, 10000, &error), &error);
    ck_assert_int_eq(info_of("/root/a/b").type, SANDBOX_FILE_FOLDER);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        sbtest_fails(sandbox_file_stat(sandbox, bad[i], 0, 10000, &info, &error), SANDBOX_EINVALID, &error);
    sbtest_fails(sandbox_file_remove(sandbox, "/root/h", 64, 10000, &error), SANDBOX_EINVALID, &error);
    sbtest_fails(sandbox_file_stat(NULL, "/", 0, 10000, &info, &error), SANDBOX_EINVALID, &error);
}
END_TEST

/* A tree that is deeper than a process may have descriptors goes in one call. */
START_TEST(files_remove_deep)
{
    start();
    ck_assert_int_eq(box_code(sandbox, "0:0", "mkdir -p /root/d/$(printf 'd/%.0s' $(seq 1900))"), 0);
    sbtest_ok(sandbox_file_remove(sandbox, "/root/d", SANDBOX_FILE_RECURSIVE, 20000, &error), &error);
    ck_assert(absent("/root/d"));
}
END_TEST

/* Page by page, as much as there is; names of any bytes. */
START_TEST(files_f22)
{
    const char *many = getenv("SBTEST_ENTRIES");
    struct sandbox_folder *folder = NULL;
    const char *name;
    char script[256];
    int n = many && *many ? atoi(many) : 20000;
    size_t found = 0;

    start();
    snprintf(script, sizeof script, "mkdir /root/l && cd /root/l && seq 1 %d | sed 's/^/entry-of-a-large-folder-/' | xargs touch", n);
    ck_assert_int_eq(box_code(sandbox, "0:0", script), 0);
    ck_assert_int_eq(count("/root/l"), n);
    free(box_sh(sandbox, "0:0", "mkdir /root/n; cd /root/n; touch -- \"$(printf 'new\\nline')\" \"$(printf '\\377\\376')\" ' blank' '-rf'"));
    sbtest_ok(sandbox_folder_open(sandbox, "/root/n", 10000, &folder, &error), &error);
    for (;;) {
        sbtest_ok(sandbox_folder_next(folder, 10000, &name, NULL, &error), &error);
        if (!name)
            break;
        found += !strcmp(name, "new\nline") || !strcmp(name, "\377\376") || !strcmp(name, " blank") || !strcmp(name, "-rf");
    }
    sandbox_folder_close(folder);
    ck_assert_uint_eq(found, 4);
    ck_assert_int_eq(count("/root/n"), 4);
    /* one that is left in the middle ends its server, too: the oracle looks */
    sbtest_ok(sandbox_folder_open(sandbox, "/root/l", 10000, &folder, &error), &error);
    sandbox_folder_close(folder);
    sbtest_fails(sandbox_folder_open(sandbox, "/etc/passwd", 10000, &folder, &error), SANDBOX_ENOTFOUND, &error);
}
END_TEST

/* 64 at a time; the next is told so, and init goes on as before. */
START_TEST(files_limit)
{
    struct sandbox_folder *folders[64], *more = NULL;
    int i;

    start();
    ck_assert_int_eq(box_code(sandbox, "0:0", "mkdir /root/l && cd /root/l && seq 1 20000 | sed 's/^/entry-of-a-large-folder-/' | xargs touch"), 0);
    for (i = 0; i < 64; i++)
        sbtest_ok(sandbox_folder_open(sandbox, "/root/l", 10000, &folders[i], &error), &error);
    sbtest_fails(sandbox_folder_open(sandbox, "/root/l", 10000, &more, &error), SANDBOX_ELIMIT, &error);
    ck_assert_int_eq(box_code(sandbox, "0:0", "true"), 0);
    for (i = 0; i < 64; i++)
        sandbox_folder_close(folders[i]);
    for (i = 0; i < 100; i++) { /* they end in a moment */
        if (sandbox_folder_open(sandbox, "/root/l", 10000, &more, NULL) == 0)
            break;
        usleep(20000);
    }
    ck_assert_int_lt(i, 100);
    sandbox_folder_close(more);
}
END_TEST

/* What the inside prepares leads nowhere but inside, and never to what the kernel shows of this very process. */
START_TEST(files_f51)
{
    static const char *const kernels[] = { "/proc/self/mem", "/proc/self/maps", "/proc/self/environ", "/proc/1/environ", "/root/mem", "/proc/self/fd/3" };
    struct sandbox_file_write_options append = SANDBOX_FILE_WRITE_OPTIONS_INIT;
    struct sandbox_file_info info = SANDBOX_FILE_INFO_INIT;
    char *data, path[600];
    size_t size;

    start();
    box_write(sbtest_dir(), "canary", "of the machine");
    free(box_sh(sandbox, "0:0", "ln -s /proc/self/mem /root/mem; ln -s /../../../.. /root/up; ln -s /proc/self/root /root/root; mkfifo /root/fifo; "
                                "ln -s loop /root/loop"));
    for (size_t i = 0; i < sizeof kernels / sizeof *kernels; i++) {
        int r = sandbox_file_read(sandbox, kernels[i], 0, 64, 10000, &data, &size, NULL);

        ck_assert_msg(r < 0, "%s was read", kernels[i]);
    }
    append.flags = SANDBOX_FILE_APPEND;
    sbtest_fails(sandbox_file_write(sandbox, "/proc/self/mem", "x", 1, &append, 10000, &error), SANDBOX_EDENIED, &error);
    sbtest_fails(sandbox_file_write(sandbox, "/proc/sys/kernel/core_pattern", "x", 1, &append, 10000, &error), SANDBOX_EDENIED, &error);
    ck_assert_int_lt(sandbox_file_write(sandbox, "/root/mem", "x", 1, &append, 10000, NULL), 0);
    snprintf(path, sizeof path, "/root/up%s/canary", sbtest_dir());
    sbtest_fails(sandbox_file_read(sandbox, path, 0, 64, 10000, &data, &size, &error), SANDBOX_ENOTFOUND, &error);
    ck_assert_int_lt(sandbox_file_read(sandbox, "/root/root/etc/passwd", 0, 64, 10000, &data, &size, NULL), 0); /* a magic link */
    sbtest_fails(sandbox_file_read(sandbox, "/root/fifo", 0, 64, 10000, &data, &size, &error), SANDBOX_EINVALID, &error);
    sbtest_fails(sandbox_file_read(sandbox, "/dev/zero", 0, 64, 10000, &data, &size, &error), SANDBOX_EINVALID, &error);
    sbtest_fails(sandbox_file_read(sandbox, "/root", 0, 64, 10000, &data, &size, &error), SANDBOX_EINVALID, &error);
    sbtest_fails(sandbox_file_stat(sandbox, "/root/loop/x", 0, 10000, &info, &error), SANDBOX_EINVALID, &error);
}
END_TEST

/* An error names the file, and nothing of a hostile name works on a terminal. */
START_TEST(files_message)
{
    struct sandbox_file_info info = SANDBOX_FILE_INFO_INIT;
    int r;

    start();
    r = sandbox_file_stat(sandbox, "/root/\033[2Jx\n\377", 0, 10000, &info, &error);
    ck_assert_int_eq(r, SANDBOX_ENOTFOUND);
    ck_assert_ptr_nonnull(strstr(sandbox_error_get_message(error), "'/root/?[2Jx?" "?'"));
    ck_assert_str_eq(sandbox_error_get_field(error), "path");
    ck_assert_int_eq(sandbox_error_get_errno(error), ENOENT);
    error = sandbox_error_unref(error);
}
END_TEST

/* A full disk is an error with a name, and what was half written is gone. */
START_TEST(files_f54)
{
    struct sandbox_mount_options small = SANDBOX_MOUNT_OPTIONS_INIT;
    struct sandbox_spec *spec = box_spec();
    static char data[2 << 20];

    small.type = SANDBOX_MOUNT_TMPFS;
    small.target = "/small";
    small.max_bytes = 1 << 20;
    sbtest_ok(sandbox_spec_add_mount(spec, &small, &error), &error);
    sandbox = box_start(host, spec);
    put("/small/f", "old");
    memset(data, 'x', sizeof data);
    sbtest_fails(sandbox_file_write(sandbox, "/small/f", data, sizeof data, NULL, 10000, &error), SANDBOX_ENOSPACE, &error);
    expect("/small/f", "old");
    ck_assert_int_eq(count("/small"), 1);
    sbtest_ok(sandbox_file_remove(sandbox, "/small/f", 0, 10000, &error), &error);
}
END_TEST

/* A file system that hangs: the call comes back, init and the others don't notice, and no server stays. */
START_TEST(files_hung)
{
    struct sandbox_file_info info = SANDBOX_FILE_INFO_INIT;
    struct sandbox_spec *spec = box_spec();
    long before;
    int i;

    sbtest_ok(sandbox_spec_set_fuse(spec, 1, &error), &error);
    sbtest_ok(sandbox_spec_add_capability(spec, "SYS_ADMIN", &error), &error);
    sbtest_ok(sandbox_spec_set_daemon(spec, BOX_ARGV("/guest/hungfuse", "/hung"), &error), &error);
    if (sandbox_create(host, spec, 20000, &sandbox, NULL) == SANDBOX_EDENIED) {
        sandbox_spec_unref(spec);
        sbtest_skip("this user may not open /dev/fuse");
    }
    sandbox_spec_unref(spec);
    sbtest_ok(sandbox_start(sandbox, 20000, &error), &error);
    for (i = 0; i < 200 && box_code(sandbox, "0:0", "grep -q hungfuse /proc/mounts"); i++)
        usleep(20000);
    before = box_now();
    for (i = 0; i < 70; i++) /* more than there may be at once: who doesn't wait any more doesn't count */
        sbtest_fails(sandbox_file_stat(sandbox, "/hung/x", 0, 50, &info, &error), SANDBOX_ETIMEDOUT, &error);
    ck_assert_int_lt(box_now() - before, sbtest_slowly(10000));
    put("/root/f", "fine");
    expect("/root/f", "fine");
    /* the kernel lets nobody go whose request the daemon has read; when that ends, all do */
    sbtest_ok(sandbox_kill(sandbox, SIGKILL, &error), &error);
    for (i = 0; i < 100; i++) {
        char *text = box_sh(sandbox, "0:0", "grep -l sandbox-files /proc/[0-9]*/comm | wc -l");
        int left = atoi(text);

        free(text);
        if (!left)
            break;
        usleep(50000);
    }
    ck_assert_int_lt(i, 100);
}
END_TEST

/* The server is as closed as init: the sandbox's root with every right that a daemon can have sees nothing of it. */
START_TEST(files_server)
{
    struct sandbox_spec *spec = box_spec();
    struct sandbox_folder *folder = NULL;
    char *text;

    sbtest_ok(sandbox_spec_add_capability(spec, "SYS_PTRACE", &error), &error);
    sbtest_ok(sandbox_spec_add_capability(spec, "SYS_ADMIN", &error), &error);
    sbtest_ok(sandbox_spec_set_daemon(spec,
                                      BOX_ARGV("/bin/sh", "-c",
                                               "mkdir /root/l; cd /root/l; seq 1 20000 | sed 's/^/entry-of-a-large-folder-/' | xargs touch; touch /root/ready; "
                                               "while ! [ -e /root/go ]; do sleep 0.05; done; for p in /proc/[0-9]*; do "
                                               "[ \"$(cat $p/comm)\" = sandbox-files ] || continue; "
                                               "grep -E '^(CapEff|CapBnd|NoNewPrivs|Seccomp|Uid):' $p/status; "
                                               "ls -l $p/fd >/dev/null 2>&1 && echo fd; head -c1 $p/mem >/dev/null 2>&1 && echo mem; "
                                               "cat $p/environ >/dev/null 2>&1 && echo environ; "
                                               "readlink $p/cwd && echo cwd; done >/root/seen 2>/dev/null; touch /root/done; sleep 1000"),
                                      &error),
              &error);
    sandbox = box_start(host, spec);
    for (int i = 0; i < 500 && absent("/root/ready"); i++)
        usleep(20000);
    sbtest_ok(sandbox_folder_open(sandbox, "/root/l", 10000, &folder, &error), &error);
    put("/root/go", "");
    for (int i = 0; i < 500 && absent("/root/done"); i++)
        usleep(20000);
    sandbox_folder_close(folder);
    text = get("/root/seen");
    ck_assert_msg(strstr(text, "CapEff:\t000000000000001b\nCapBnd:\t0000000000000000\nNoNewPrivs:\t1\nSeccomp:\t2\n"), "%s", text);
    ck_assert_ptr_nonnull(strstr(text, "Uid:\t0\t0\t0\t0"));
    ck_assert_msg(!strstr(text, "fd\n") && !strstr(text, "mem\n") && !strstr(text, "environ\n") && !strstr(text, "cwd\n"), "%s", text);
    free(text);
}
END_TEST

/* Who has the server's id inside can stop it: init lets it go on. */
START_TEST(files_server_stopped)
{
    struct sandbox_folder *folder = NULL;
    const char *name = "";
    size_t n = 0;

    sandbox = box_start(host, NULL);
    ck_assert_int_eq(box_code(sandbox, "0:0",
                              "mkdir /root/l; cd /root/l; seq 1 3000 | sed 's/^/entry-of-a-folder-with-a-long-name-that-fills-records-/' | xargs touch"),
                     0);
    sbtest_ok(sandbox_folder_open(sandbox, "/root/l", 10000, &folder, &error), &error);
    for (int i = 0; i < 3; i++)
        ck_assert_int_eq(box_code(sandbox, "0:0",
                                  "n=0; for p in /proc/[0-9]*; do [ \"$(cat $p/comm 2>/dev/null)\" = sandbox-files ] && "
                                  "kill -STOP ${p#/proc/} && n=1; done; [ $n = 1 ]"),
                         0);
    for (; name; n += name != NULL)
        sbtest_ok(sandbox_folder_next(folder, 10000, &name, NULL, &error), &error);
    ck_assert_uint_eq(n, 3000);
    sandbox_folder_close(folder);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("files");
    TCase *c = sbtest_case("files");

    if (getenv("SBTEST_ENTRIES"))
        tcase_set_timeout(c, 600);
    tcase_add_checked_fixture(c, set_up, tear_down);
    tcase_add_test(c, files_states);
    tcase_add_test(c, files_write);
    tcase_add_test(c, files_f03);
    tcase_add_test(c, files_change);
    tcase_add_test(c, files_remove_deep);
    tcase_add_test(c, files_f22);
    tcase_add_test(c, files_limit);
    tcase_add_test(c, files_f51);
    tcase_add_test(c, files_message);
    tcase_add_test(c, files_f54);
    tcase_add_test(c, files_hung);
    tcase_add_test(c, files_server);
    tcase_add_test(c, files_server_stopped);
    suite_add_tcase(suite, c);
    return box_main(suite);
}
