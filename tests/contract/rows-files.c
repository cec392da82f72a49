/* SPDX-License-Identifier: Apache-2.0
 * B3 and F20 to F25: files by the library's own calls, before the daemon starts and while it runs; each is looked at from inside, too. */
#include "contract.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WAIT = 30000 };
static struct sandbox_error *error;

static void write_file(struct sandbox *sandbox, const char *path, const void *data, size_t size, int mode, int64_t uid,
                       int64_t gid)
{
    struct sandbox_file_write_options options = SANDBOX_FILE_WRITE_OPTIONS_INIT;

    options.mode = mode;
    options.uid = uid;
    options.gid = gid;
    options.flags = SANDBOX_FILE_PARENTS;
    row_need(sandbox_file_write(sandbox, path, data, size, &options, WAIT, &error), &error, "write a file");
}

/* Hash and mode are read inside, by the daemon that finds the file when it starts, and by a command. */
static void b3_before_start(void)
{
    struct sandbox_spec *spec = row_spec();
    size_t size = 970000;
    void *data = row_data(size);
    struct sandbox *sandbox;
    char hash[65], want[200];

    row_sha256(data, size, hash);
    row_need(sandbox_spec_set_daemon(spec,
                                     ROW_ARGV("/bin/sh", "-c",
                                              "{ sha256sum </etc/contract/config; stat -c '%a %u:%g' /etc/contract/config; } "
                                              ">/tmp/seen.new && mv /tmp/seen.new /tmp/seen; exec sleep 1000"),
                                     &error),
             &error, "daemon");
    sandbox = row_create(spec);
    write_file(sandbox, "/etc/contract/config", data, size, 0600, 0, 0);
    row_need(sandbox_file_make_folder(sandbox, "/tmp", 01777, 0, WAIT, &error), &error, "make a folder");
    row_need(sandbox_start(sandbox, 60000, &error), &error, "start");
    row_await(sandbox, "test -e /tmp/seen", "the daemon looks at its file");
    snprintf(want, sizeof want, "%s  -\n600 0:0", hash);
    row_says(sandbox, NULL, "cat /tmp/seen", want);
    row_says(sandbox, NULL, "{ sha256sum </etc/contract/config; stat -c '%a %u:%g' /etc/contract/config; }", want);
    free(data);
}

static void f20_modes(void)
{
    static const int modes[] = { 0755, 0600, 0700, 0444, 04755, 0 };
    struct sandbox *sandbox = row_start(NULL);

    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
        struct sandbox_file_info info = SANDBOX_FILE_INFO_INIT;
        char want[32];

        write_file(sandbox, "/srv/dir/file", "text", 4, modes[i], 0, 0);
        snprintf(want, sizeof want, "%o 4", modes[i]);
        row_says(sandbox, NULL, "stat -c '%a %s' /srv/dir/file", want);
        row_need(sandbox_file_stat(sandbox, "/srv/dir/file", 0, WAIT, &info, &error), &error, "stat");
        ROW_CHECK(info.mode == modes[i] && info.bytes == 4 && info.type == SANDBOX_FILE_REGULAR, "mode 0%o is told as 0%o",
                  modes[i], info.mode);
    }
}

static void f20_owners(void)
{
    struct sandbox *sandbox = row_start(NULL);
    struct sandbox_file_info info = SANDBOX_FILE_INFO_INIT;

    write_file(sandbox, "/srv/file", "text", 4, 0640, 501, 20);
    row_says(sandbox, NULL, "stat -c %u:%g /srv/file", "501:20");
    row_need(sandbox_file_stat(sandbox, "/srv/file", 0, WAIT, &info, &error), &error, "stat");
    ROW_CHECK(info.uid == 501 && info.gid == 20, "the owner is told as %lld:%lld", (long long)info.uid, (long long)info.gid);
    row_says(sandbox, "501:20", "cat /srv/file", "text");
}

static void f20_links_times(void)
{
    struct sandbox *sandbox = row_start(NULL);
    struct sandbox_file_info info = SANDBOX_FILE_INFO_INIT;
    char *target = NULL;

    free(row_sh(sandbox, NULL, "mkdir -p /srv; echo text >/srv/file; touch -d @1234567890 /srv/file; ln -s file /srv/link"));
    row_need(sandbox_file_stat(sandbox, "/srv/link", 0, WAIT, &info, &error), &error, "stat a link");
    ROW_CHECK(info.type == SANDBOX_FILE_LINK, "a link is told as type %d", info.type);
    row_need(sandbox_file_stat(sandbox, "/srv/link", SANDBOX_FILE_FOLLOW, WAIT, &info, &error), &error, "stat behind a link");
    ROW_CHECK(info.type == SANDBOX_FILE_REGULAR && info.mtime_ns == 1234567890LL * 1000000000, "the time is told as %lld",
              (long long)info.mtime_ns);
    row_need(sandbox_file_read_link(sandbox, "/srv/link", WAIT, &target, &error), &error, "read a link");
    ROW_CHECK(!strcmp(target, "file"), "the link is told to lead to \"%.50s\"", target);
    sandbox_buffer_free(target);
}

static void f20_content(void)
{
    static const size_t sizes[] = { 0, 1, 65535, 65536, 65537, (4 << 20) + 1 };
    struct sandbox *sandbox = row_start(NULL);

    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        void *data = row_data(sizes[i]);
        char hash[65], *back = NULL, *inside;
        size_t size = 0;

        row_sha256(data, sizes[i], hash);
        write_file(sandbox, "/srv/file", data, sizes[i], -1, -1, -1);
        inside = row_sh(sandbox, NULL, "sha256sum </srv/file");
        ROW_CHECK(!strncmp(inside, hash, 64), "%zu bytes arrive as others", sizes[i]);
        row_need(sandbox_file_read(sandbox, "/srv/file", 0, sizes[i] + 10, WAIT, &back, &size, &error), &error, "read");
        ROW_CHECK(size == sizes[i] && !memcmp(back, data, size), "%zu bytes come back as %zu or others", sizes[i], size);
        sandbox_buffer_free(back);
        free(inside);
        free(data);
    }
}

/* Who reads sees the old or the new content, never a part. */
static void f20_atomic(void)
{
    struct sandbox *sandbox = row_start(NULL);
    struct sandbox_exec *exec;
    size_t size = 300000;
    char *a = malloc(size), *b = malloc(size);

    ROW_CHECK(a && b, "out of memory");
    memset(a, 'a', size);
    memset(b, 'b', size);
    write_file(sandbox, "/srv/file", a, size, -1, -1, -1);
    exec = row_begin(sandbox,
                     ROW_ARGV("/bin/sh", "-c",
                              "until [ -e /srv/stop ]; do n=$(wc -c </srv/file) && t=$(tr -d a </srv/file | wc -c) || exit 8; "
                              "[ $n = 300000 ] || exit 9; [ $t = 0 ] || [ $t = 300000 ] || exit 9; done"),
                     NULL);
    for (int i = 0; i < 50; i++)
        write_file(sandbox, "/srv/file", i % 2 ? a : b, size, -1, -1, -1);
    write_file(sandbox, "/srv/stop", "", 0, -1, -1, -1);
    ROW_CHECK(row_end(exec, 30000).code == 0, "a reader inside saw a file half written");
    sandbox_exec_unref(exec);
    free(a);
    free(b);
}

static void f22_list(void)
{
    struct sandbox *sandbox = row_start(NULL);
    struct sandbox_folder *folder = NULL;
    const char *name = NULL;
    size_t n = 0, kinds[8] = { 0 };

    free(row_sh(sandbox, NULL,
                "mkdir -p /srv/many && cd /srv/many && i=0; while [ $i -lt 3000 ]; do : >$i; i=$((i+1)); done; mkdir folder; ln "
                "-s 1 link"));
    row_need(sandbox_folder_open(sandbox, "/srv/many", WAIT, &folder, &error), &error, "list");
    for (;;) {
        struct sandbox_file_info info = SANDBOX_FILE_INFO_INIT;

        row_need(sandbox_folder_next(folder, WAIT, &name, &info, &error), &error, "the next entry");
        if (!name)
            break;
        n++;
        kinds[info.type & 7]++;
    }
    sandbox_folder_close(folder);
    ROW_CHECK(n == 3002 && kinds[SANDBOX_FILE_REGULAR] == 3000 && kinds[SANDBOX_FILE_FOLDER] == 1 &&
                  kinds[SANDBOX_FILE_LINK] == 1,
              "%zu entries, %zu files, %zu folders, %zu links", n, kinds[SANDBOX_FILE_REGULAR], kinds[SANDBOX_FILE_FOLDER],
              kinds[SANDBOX_FILE_LINK]);
}

static void f23_single_file(void)
{
    struct sandbox *sandbox = row_start(NULL);

    write_file(sandbox, "/srv/deep/er/file", "one", 3, 0644, 0, 0);
    row_says(sandbox, NULL, "ls /srv/deep/er; cat /srv/deep/er/file", "file\none");
}

/* A link inside leads where it leads inside, never to this machine's files. */
static void f51_files_links(void)
{
    struct sandbox *sandbox = row_start(NULL);
    char *data = NULL;
    size_t size = 0;

    free(row_sh(
        sandbox, NULL,
        "mkdir -p /srv /etc; echo inside >/etc/contract-marker; ln -s /etc /srv/way; ln -s ../../../../../../etc /srv/up"));
    row_need(sandbox_file_read(sandbox, "/srv/way/contract-marker", 0, 100, WAIT, &data, &size, &error), &error,
             "read through a link");
    ROW_CHECK(size == 7 && !memcmp(data, "inside\n", 7), "the link leads to \"%.20s\"", data);
    sandbox_buffer_free(data);
    row_need(sandbox_file_read(sandbox, "/srv/up/contract-marker", 0, 100, WAIT, &data, &size, &error), &error,
             "read through a link");
    ROW_CHECK(size == 7, "a link that climbs leads elsewhere");
    sandbox_buffer_free(data);
    row_refused(sandbox_file_read(sandbox, "/srv/../etc/passwd", 0, 100, WAIT, &data, &size, &error), SANDBOX_EINVALID, &error,
                "a path with ..");
}

static void f20_remove_rename(void)
{
    struct sandbox *sandbox = row_start(NULL);

    free(row_sh(sandbox, NULL,
                "mkdir -p /srv/a/b /srv/keep; echo x >/srv/a/b/file; echo kept >/srv/keep/file; ln -s /srv/keep /srv/a/b/link"));
    row_refused(sandbox_file_remove(sandbox, "/srv/a", 0, WAIT, &error), SANDBOX_EEXISTS, &error,
                "remove a folder that is not empty");
    row_need(sandbox_file_rename(sandbox, "/srv/a/b/file", "/srv/a/b/renamed", 0, WAIT, &error), &error, "rename");
    row_says(sandbox, NULL, "cat /srv/a/b/renamed", "x");
    row_need(sandbox_file_remove(sandbox, "/srv/a", SANDBOX_FILE_RECURSIVE, WAIT, &error), &error, "remove all of it");
    row_says(sandbox, NULL, "test -e /srv/a || echo gone; cat /srv/keep/file", "gone\nkept");
}

static const struct row rows[] = {
    { "b3_before_start", b3_before_start },     { "f20_modes", f20_modes },     { "f20_owners", f20_owners },
    { "f20_links_times", f20_links_times },     { "f20_content", f20_content }, { "f20_atomic", f20_atomic },
    { "f20_remove_rename", f20_remove_rename }, { "f22_list", f22_list },       { "f23_single_file", f23_single_file },
    { "f51_files_links", f51_files_links },
};
const struct rows rows_files = { rows, sizeof rows / sizeof *rows };
