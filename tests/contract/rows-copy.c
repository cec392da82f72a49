/* SPDX-License-Identifier: Apache-2.0
 * B3, F20, F21 and F51: whole folders and archives into a sandbox and out of it, looked at from both ends. */
#include "contract.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

enum { WAIT = 100000 };
static struct sandbox_error *error;
static char folder[300]; /* of this machine, removed at the end */

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st;
    (void)type;
    (void)ftw;
    return remove(path);
}

static void remove_folder(void)
{
    if (*folder)
        nftw(folder, remove_one, 16, FTW_DEPTH | FTW_PHYS | FTW_MOUNT);
}

static const char *below(const char *name)
{
    static char path[4][4400];
    static unsigned int at;
    const char *tmp = getenv("TMPDIR");

    if (!*folder) {
        snprintf(folder, sizeof folder, "%.200s/contract-XXXXXX", tmp && *tmp ? tmp : "/tmp");
        ROW_CHECK(mkdtemp(folder), "no folder in %s", folder);
        row_at_end(remove_folder);
    }
    at = (at + 1) % 4;
    snprintf(path[at], sizeof path[at], "%s/%s", folder, name);
    return path[at];
}

static void put(const char *name, const void *data, size_t size, mode_t mode)
{
    const struct timespec times[2] = { { .tv_sec = 1234567890 }, { .tv_sec = 1234567890, .tv_nsec = 123456789 } };
    int fd = open(below(name), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

    ROW_CHECK(fd >= 0, "%s: %s", name, strerror(errno));
    row_write(fd, data, size);
    ROW_CHECK(fchmod(fd, mode) == 0 && futimens(fd, times) == 0, "%s: %s", name, strerror(errno));
    close(fd);
}

/* up/: three modes, a folder that nobody else may enter, links of both kinds. */
static void make_folder(void)
{
    ROW_CHECK(mkdir(below("up"), 0755) == 0 && chmod(below("up"), 0755) == 0, "no folder");
    put("up/program", "#!/bin/sh\necho ran\n", 19, 0755);
    put("up/secret", "secret", 6, 0600);
    ROW_CHECK(mkdir(below("up/private"), 0700) == 0, "no folder");
    put("up/private/file", "deep", 4, 0640);
    ROW_CHECK(symlink("private/file", below("up/link")) == 0 && link(below("up/secret"), below("up/second")) == 0, "no links");
}

/* Modes, times to the second, links and bytes, as a command sees them, and the daemon that finds them at its start. */
static void b3_upload_folder(void)
{
    static const char look[] = "cd /etc/up && stat -c '%n %a %u:%g %F' private program secret | tr '\\n' '|'; stat -c %Y "
                               "program; readlink link; cat link; "
                               "./program; stat -c %h second";
    struct sandbox_spec *spec = row_spec();
    struct sandbox_upload_options options = SANDBOX_UPLOAD_OPTIONS_INIT;
    struct sandbox *sandbox;
    char script[600];
    static const char want[] =
        "private 700 0:0 directory|program 755 0:0 regular file|secret 600 0:0 regular file|1234567890\nprivate/file\ndeepran\n2";

    make_folder();
    snprintf(script, sizeof script, "mkdir -p /tmp; (%s) >/tmp/seen.new 2>&1; mv /tmp/seen.new /tmp/seen; exec sleep 1000", look);
    row_need(sandbox_spec_set_daemon(spec, ROW_ARGV("/bin/sh", "-c", script), &error), &error, "set the daemon");
    sandbox = row_create(spec);
    options.flags = SANDBOX_FILE_PARENTS;
    row_need(sandbox_upload(sandbox, below("up"), "/etc/up", &options, WAIT, &error), &error, "upload a folder");
    row_need(sandbox_start(sandbox, 60000, &error), &error, "start");
    row_await(sandbox, "test -e /tmp/seen", "the daemon looks at its files");
    row_says(sandbox, NULL, "cat /tmp/seen", want);
    row_says(sandbox, NULL, look, want);
}

static void b3_upload_tar(void)
{
    struct sandbox_upload_options options = SANDBOX_UPLOAD_OPTIONS_INIT;
    struct sandbox *sandbox = row_create(NULL);
    char *tar = row_tar("of a tar\n", "etc/more", NULL);

    options.format = SANDBOX_STREAM_TAR;
    options.source_fd = open(tar, O_RDONLY | O_CLOEXEC);
    unlink(tar);
    row_need(sandbox_upload(sandbox, NULL, "/", &options, WAIT, &error), &error, "upload a tar");
    row_need(sandbox_start(sandbox, 60000, &error), &error, "start");
    row_says(sandbox, NULL, "cat /etc/motd; stat -c '%a %u:%g %Y' /etc/motd; cat /etc/more",
             "of a tar\n644 0:0 1234567890\nplanted");
    close(options.source_fd);
}

static void same(const char *a, const char *b)
{
    struct stat x, y;

    ROW_CHECK(lstat(below(a), &x) == 0 && lstat(below(b), &y) == 0, "%s or %s is not there", a, b);
    ROW_CHECK(x.st_mode == y.st_mode, "%s has mode 0%o, came back with 0%o", a, x.st_mode, y.st_mode);
    ROW_CHECK(S_ISDIR(x.st_mode) || S_ISLNK(x.st_mode) || (x.st_size == y.st_size && x.st_mtime == y.st_mtime),
              "%s came back with another size or time", a);
}

static void f20_round_trip(void)
{
    struct sandbox *sandbox = row_start(NULL);
    char target[64] = "";
    static const char *const names[] = { "", "/program", "/secret", "/private", "/private/file", "/link", "/second" };

    make_folder();
    row_need(sandbox_upload(sandbox, below("up"), "/srv", NULL, WAIT, &error), &error, "upload a folder");
    row_need(sandbox_download(sandbox, "/srv", below("down"), NULL, WAIT, &error), &error, "download it");
    for (size_t i = 1; i < sizeof names / sizeof *names; i++) {
        char a[64], b[64];

        snprintf(a, sizeof a, "up%s", names[i]);
        snprintf(b, sizeof b, "down%s", names[i]);
        same(a, b);
    }
    ROW_CHECK(readlink(below("down/link"), target, sizeof target - 1) == 12 && !strcmp(target, "private/file"),
              "the link leads to %s", target);
}

/* In one stream, in less than the bound of a row. */
static void f21_many_files(void)
{
    struct sandbox *sandbox = row_start(NULL);
    char name[64];

    ROW_CHECK(mkdir(below("up"), 0755) == 0, "no folder");
    for (int i = 0; i < 2000; i++) {
        if (i % 100 == 0) {
            snprintf(name, sizeof name, "up/%d", i / 100);
            ROW_CHECK(mkdir(below(name), 0755) == 0, "no folder");
        }
        snprintf(name, sizeof name, "up/%d/%d", i / 100, i);
        put(name, "x", 1, 0644);
    }
    row_need(sandbox_upload(sandbox, below("up"), "/srv/many", NULL, WAIT, &error), &error, "upload 2,000 files");
    row_says(sandbox, NULL, "find /srv/many -type f -size 1c | wc -l | tr -d ' '", "2000");
    row_need(sandbox_download(sandbox, "/srv/many", below("down"), NULL, WAIT, &error), &error, "download 2,000 files");
    same("up/19/1999", "down/19/1999");
}

static void f21_large_file(void)
{
    size_t size = 192 << 20;
    struct sandbox *sandbox = row_start(NULL);
    struct rusage begun, now;
    char hash[65], *data = row_data(1 << 20), *inside;
    int fd = open(below("large"), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    struct stat st;

    for (size_t i = 0; i < size; i += 1 << 20)
        row_write(fd, data, 1 << 20);
    close(fd);
    row_sha256(data, 1 << 20, hash);
    getrusage(RUSAGE_SELF, &begun);
    row_need(sandbox_upload(sandbox, below("large"), "/srv/large", NULL, WAIT, &error), &error, "upload a large file");
    inside = row_sh(sandbox, NULL, "stat -c %s /srv/large; tail -c 1048576 /srv/large | sha256sum | cut -c1-64");
    ROW_CHECK(!strncmp(inside, "201326592\n", 10) && !strncmp(inside + 10, hash, 64), "inside it is %s", inside);
    row_need(sandbox_download(sandbox, "/srv/large", below("back"), NULL, WAIT, &error), &error, "download it");
    ROW_CHECK(stat(below("back"), &st) == 0 && (size_t)st.st_size == size, "another size came back");
    getrusage(RUSAGE_SELF, &now);
    ROW_CHECK(now.ru_maxrss - begun.ru_maxrss < 64 << 10, "this process grew by %ld KiB", now.ru_maxrss - begun.ru_maxrss);
    free(inside);
    free(data);
}

/* A link that leads out, and a file behind it: refused, and nothing is written where it leads, here or there. */
static void f51_upload_escape(void)
{
    struct sandbox_upload_options options = SANDBOX_UPLOAD_OPTIONS_INIT;
    struct sandbox *sandbox = row_start(NULL);
    char *tar;
    int r;

    ROW_CHECK(mkdir(below("outside"), 0777) == 0 && chmod(below("outside"), 0777) == 0, "no folder");
    tar = row_tar("a trap", "way-out", below("outside"));
    options.format = SANDBOX_STREAM_TAR;
    options.source_fd = open(tar, O_RDONLY | O_CLOEXEC);
    unlink(tar);
    r = sandbox_upload(sandbox, NULL, "/srv", &options, WAIT, &error);
    row_refused(r, SANDBOX_EDAMAGED, &error, "an entry behind a link");
    ROW_CHECK(access(below("outside/planted"), F_OK) != 0, "an upload wrote outside of the sandbox");
    close(options.source_fd);
}

/* What a hostile sandbox has is links and names that climb: they come as links, and what they lead to stays as it is. */
static void f51_download_hostile(void)
{
    struct sandbox *sandbox = row_start(NULL);
    char script[5000], text[64] = "";
    int fd;

    ROW_CHECK(mkdir(below("outside"), 0755) == 0, "no folder");
    put("outside/file", "canary", 6, 0644);
    snprintf(script, sizeof script,
             "mkdir -p /srv/bad && cd /srv/bad && ln -s %s out && ln -s %s/file direct && ln -s ../../../../etc up && echo fine "
             ">plain && chmod 4755 plain",
             below("outside"), below("outside"));
    free(row_sh(sandbox, NULL, script));
    row_need(sandbox_download(sandbox, "/srv/bad", below("down"), NULL, WAIT, &error), &error, "download");
    fd = open(below("outside/file"), O_RDONLY | O_CLOEXEC);
    ROW_CHECK(fd >= 0 && read(fd, text, sizeof text) == 6 && !memcmp(text, "canary", 6), "the machine's file was changed");
    close(fd);
    ROW_CHECK(readlink(below("down/direct"), text, sizeof text) > 0, "a link did not come as a link");
    {
        struct stat st;

        ROW_CHECK(stat(below("down/plain"), &st) == 0 && (st.st_mode & 07777) == 0755, "a set-id bit came along");
    }
}

static const struct row rows[] = {
    { "b3_upload_folder", b3_upload_folder },
    { "b3_upload_tar", b3_upload_tar },
    { "f20_round_trip", f20_round_trip },
    { "f21_many_files", f21_many_files },
    { "f21_large_file", f21_large_file },
    { "f51_upload_escape", f51_upload_escape },
    { "f51_download_hostile", f51_download_hostile },
};
const struct rows rows_copy = { rows, sizeof rows / sizeof *rows };
