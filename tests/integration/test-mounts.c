/* SPDX-License-Identifier: Apache-2.0
 * Folders of the host inside: overlays (what is written stays inside, what the kernel can't do is copied, and why is told) and binds
 * with an owner. The host's folder is compared to the last byte and time stamp after each. */
#include "box.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/un.h>
#include <unistd.h>

static struct sandbox_host *host;
static struct sandbox *sandbox;
static struct sandbox_error *error;
static char folder[600];

static void set_up(void)
{
    host = box_host();
    snprintf(folder, sizeof folder, "%s/lower", sbtest_dir());
    ck_assert_int_eq(mkdir(folder, 0755), 0);
}

static void tear_down(void)
{
    box_end(&host, &sandbox);
}

static void add(struct sandbox_spec *spec, int type, const char *source, const char *target, unsigned int flags, const char *owner)
{
    struct sandbox_mount_options mount = SANDBOX_MOUNT_OPTIONS_INIT;

    mount.type = type;
    mount.source = source;
    mount.target = target;
    mount.flags = flags;
    mount.owner = owner;
    sbtest_ok(sandbox_spec_add_mount(spec, &mount, &error), &error);
}

static void start_over(const char *source, const char *owner)
{
    struct sandbox_spec *spec = box_spec();

    sbtest_ok(sandbox_spec_set_lifetime(spec, SANDBOX_LIFETIME_DETACHED, &error), &error);
    add(spec, SANDBOX_MOUNT_OVERLAY, source, "/project/data", 0, owner);
    sandbox = box_start(host, spec);
}

/* "kind: reason" of the overlay at a target; free() it. */
static char *overlay_of(const char *target)
{
    struct sandbox_info *info = NULL;
    json_t *json, *mount, *overlay = NULL;
    char *text = NULL;
    size_t i;

    sbtest_ok(sandbox_inspect(sandbox, &info, &error), &error);
    json = json_loads(sandbox_info_get_json(info), 0, NULL);
    json_array_foreach(json_object_get(json, "mounts"), i, mount)
        if (!strcmp(json_string_value(json_object_get(mount, "target")), target))
            overlay = json_object_get(mount, "overlay");
    ck_assert_ptr_nonnull(overlay);
    ck_assert_int_ge(asprintf(&text, "%s: %s", json_string_value(json_object_get(overlay, "kind")),
                              json_string_value(json_object_get(overlay, "reason"))), 0);
    json_decref(json);
    sandbox_info_unref(info);
    return text;
}

static void expect_overlay(const char *words)
{
    char *text = overlay_of("/project/data");

    if (!strstr(text, words))
        ck_abort_msg("the overlay is \"%s\", not \"%s\"", text, words);
    free(text);
}

static void expect(const char *script, const char *output)
{
    char *text = box_sh(sandbox, NULL, script);

    ck_assert_str_eq(text, output);
    free(text);
}

static FILE *picture;

static int draw(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    unsigned long hash = 5381;
    char text[4096] = "";

    (void)ftw;
    if (type == FTW_F && S_ISREG(st->st_mode)) {
        FILE *f = fopen(path, "re");

        for (int c; f && (c = getc(f)) != EOF;)
            hash = hash * 33 + (unsigned long)c;
        if (f)
            fclose(f);
    }
    if (type == FTW_SL && readlink(path, text, sizeof text - 1) < 0)
        return -1;
    fprintf(picture, "%s %o %ld %u:%u %lu %ld.%09ld %lx %s\n", path, st->st_mode, (long)st->st_size, st->st_uid, st->st_gid,
            (unsigned long)st->st_nlink, (long)st->st_mtim.tv_sec, st->st_mtim.tv_nsec, hash, text);
    return 0;
}

/* Everything that can be known of a tree but the times of access; free() it. */
static char *picture_of(const char *path)
{
    char *text = NULL;
    size_t size;

    picture = open_memstream(&text, &size);
    ck_assert_int_eq(nftw(path, draw, 16, FTW_PHYS), 0);
    fclose(picture);
    ck_assert_uint_gt(size, 0);
    return text;
}

static void fill(void)
{
    char path[700];

    box_write(folder, "file", "as it was\n");
    box_write(folder, "other", "stays\n");
    snprintf(path, sizeof path, "%s/sub", folder);
    ck_assert_int_eq(mkdir(path, 0755), 0);
    box_write(path, "deep", "deep\n");
    snprintf(path, sizeof path, "%s/link", folder);
    ck_assert_int_eq(symlink("../../outside", path), 0);
}

/* The end-to-end of a data folder beside a project: visible, writable, and the host's copy is as it was. */
START_TEST(overlay_leaves_the_host_alone)
{
    char *before, *after;

    fill();
    before = picture_of(folder);
    start_over(folder, NULL);
    expect_overlay("kernel: ");
    expect("cat /project/data/file /project/data/sub/deep", "as it was\ndeep");
    expect("stat -c %u:%g /project/data/file", "0:0");
    expect("cd /project/data; echo changed > file; echo new > added; rm other; rm -r sub; mkdir sub; echo 1 > sub/fresh; chmod 700 file;"
           "touch -d @1 file; ls; ls sub; cat file",
           "added\nfile\nlink\nsub\nfresh\nchanged");
    after = picture_of(folder);
    ck_assert_str_eq(before, after);
    /* it is kept when the sandbox is stopped, and there again */
    sbtest_ok(sandbox_stop(sandbox, 0, 20000, &error), &error);
    sbtest_ok(sandbox_start(sandbox, 20000, &error), &error);
    expect("cd /project/data; ls; cat file", "added\nfile\nlink\nsub\nchanged");
    free(before);
    free(after);
}
END_TEST

/* A link of the folder that points out of it leads about the sandbox, and only there. */
START_TEST(overlay_links_stay_inside)
{
    char path[1400];

    fill();
    snprintf(path, sizeof path, "%s/secret", sbtest_dir());
    box_write(sbtest_dir(), "secret", "of the host\n");
    snprintf(path, sizeof path, "%s/up", folder);
    ck_assert_int_eq(symlink("../secret", path), 0);
    start_over(folder, NULL);
    ck_assert_int_ne(box_code(sandbox, NULL, "cat /project/data/up 2>/dev/null"), 0);
    expect("echo mine > /project/data/up; cat /project/secret", "mine");
    snprintf(path, sizeof path, "%s/secret", sbtest_dir());
    char *text = box_read(path);
    ck_assert_str_eq(text, "of the host\n");
    free(text);
}
END_TEST

/* Where the kernel makes no overlay the folder is copied, and the reason is told. */
START_TEST(overlay_falls_back)
{
    start_over("/proc/sys/kernel/random", NULL); /* a file system with names of its own kind: no overlay takes it as its lower */
    expect_overlay("copy: ");
    ck_assert_int_eq(box_code(sandbox, NULL, "test -f /project/data/uuid"), 0);
    /* once copied, it stays a copy, with what was written */
    if (box_privilege() == BOX_SUBIDS) /* the machine's root is nobody to a user's sandbox: nothing there can be written to */
        return;
    expect("cd /project/data; echo mine > write_wakeup_threshold; cat write_wakeup_threshold", "mine");
    sbtest_ok(sandbox_stop(sandbox, 0, 20000, &error), &error);
    sbtest_ok(sandbox_start(sandbox, 20000, &error), &error);
    expect_overlay("copy: the kernel made no overlay here at an earlier start");
    expect("cat /project/data/write_wakeup_threshold", "mine");
}
END_TEST

/* What a copy is like: as the folder is, but for owners that are translated and device nodes that are left out. */
START_TEST(overlay_copy_is_whole)
{
    char lower[700], merged[700], parts[1500], path[1500], *before, *after;

    if (geteuid() != 0)
        sbtest_skip("only root can mount an overlay to stand on");
    fill();
    snprintf(lower, sizeof lower, "%s/u", sbtest_dir());
    snprintf(merged, sizeof merged, "%s/merged", sbtest_dir());
    ck_assert_int_eq(mkdir(lower, 0755) | mkdir(merged, 0755), 0);
    snprintf(path, sizeof path, "%s/file", folder);
    ck_assert_int_eq(chown(path, 1000, 1000) | chmod(path, 06777), 0);
    snprintf(path, sizeof path, "%s/hard", folder);
    snprintf(parts, sizeof parts, "%s/file", folder);
    ck_assert_int_eq(link(parts, path), 0);
    snprintf(path, sizeof path, "%s/fifo", folder);
    ck_assert_int_eq(mkfifo(path, 0600), 0);
    snprintf(path, sizeof path, "%s/null", folder);
    ck_assert_int_eq(mknod(path, S_IFCHR | 0666, makedev(1, 3)), 0);
    snprintf(path, sizeof path, "%s/sparse", folder);
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    ck_assert_int_eq(ftruncate(fd, 8 << 20), 0);
    ck_assert_int_eq((int)pwrite(fd, "end", 3, 4 << 20), 3);
    close(fd);
    snprintf(parts, sizeof parts, "lowerdir=%s:%s", folder, lower); /* two lowers: an overlay that can't be written to */
    ck_assert_int_eq(mount("overlay", merged, "overlay", 0, parts), 0);
    before = picture_of(merged);
    start_over(merged, NULL);
    expect_overlay("copy: the folder's file system can't map ids");
    expect("cd /project/data; stat -c '%n %u:%g %a %h %s' file hard sparse fifo; test -e null || echo none; readlink link; du -k sparse | cut -f1",
           "file 1000:1000 6777 2 10\nhard 1000:1000 6777 2 10\nsparse 0:0 644 1 8388608\nfifo 0:0 600 1 0\nnone\n"
           "../../outside\n4");
    expect("echo more >> /project/data/file; cat /project/data/hard", "as it was\nmore");
    after = picture_of(merged);
    ck_assert_str_eq(before, after);
    free(before);
    free(after);
    sbtest_ok(sandbox_delete(sandbox, 20000, &error), &error);
    ck_assert_int_eq(umount2(merged, 0), 0);
}
END_TEST

/* Whose the host's files are inside, and what comes of files made there. */
START_TEST(overlay_owner)
{
    char path[700];

    fill();
    if (geteuid() != 0) {
        struct sandbox_spec *spec = box_spec();
        struct sandbox *none = NULL;

        add(spec, SANDBOX_MOUNT_OVERLAY, folder, "/project/data", 0, "0:0");
        sbtest_fails(sandbox_create(host, spec, 20000, &none, &error), SANDBOX_EUNSUPPORTED, &error);
        sandbox_spec_unref(spec);
        snprintf(path, sizeof path, "%u:%u", geteuid(), getegid());
        start_over(folder, path);
        expect("stat -c %u:%g /project/data/file", "0:0");
        return;
    }
    snprintf(path, sizeof path, "%s/file", folder);
    ck_assert_int_eq(chown(path, 1000, 2000), 0);
    start_over(folder, "1000:2000");
    expect("cd /project/data; stat -c %u:%g file other", "0:0\n65534:65534");
    expect("echo more >> /project/data/file; cat /project/data/file", "as it was\nmore");
}
END_TEST

/* A bind with an owner: what inside's root makes is the owner's on the host, and nothing is the host's root's. */
START_TEST(bind_owner)
{
    struct sandbox_spec *spec = box_spec();
    char owner[32], path[700];
    struct stat st;

    fill();
    if (geteuid() == 0) {
        snprintf(owner, sizeof owner, "1000:2000");
        ck_assert_int_eq(chown(folder, 1000, 2000), 0);
    } else {
        snprintf(owner, sizeof owner, "%u:%u", geteuid(), getegid());
    }
    add(spec, SANDBOX_MOUNT_BIND, folder, "/project/data", 0, owner);
    snprintf(path, sizeof path, "%s/sub", folder);
    add(spec, SANDBOX_MOUNT_BIND, path, "/project/still", SANDBOX_MOUNT_READ_ONLY, owner);
    sandbox = box_start(host, spec);
    expect("echo 1 > /project/data/new; stat -c %u:%g /project/data/new", "0:0");
    snprintf(path, sizeof path, "%s/new", folder);
    ck_assert_int_eq(stat(path, &st), 0);
    ck_assert_uint_eq(st.st_uid, geteuid() ? geteuid() : 1000);
    ck_assert_uint_eq(st.st_gid, geteuid() ? getegid() : 2000);
    ck_assert_int_ne(box_code(sandbox, NULL, "echo 1 2>/dev/null > /project/still/new"), 0);
    if (box_user()) { /* inside's 1000 has no counterpart where 0 took its place */
        ck_assert_int_ne(box_code(sandbox, "1000:2000", "echo 1 2>/dev/null > /project/data/stranger"), 0);
    }
}
END_TEST

/* One file, for reading and for writing. */
START_TEST(bind_file)
{
    struct sandbox_spec *spec = box_spec();
    char path[700], owner[32], *text;

    fill();
    snprintf(owner, sizeof owner, "%u:%u", geteuid(), getegid());
    snprintf(path, sizeof path, "%s/file", folder);
    if (geteuid() == 0) { /* root's own files are nobody's inside, but to read */
        snprintf(owner, sizeof owner, "1000:2000");
        ck_assert_int_eq(chown(path, 1000, 2000), 0);
    }
    add(spec, SANDBOX_MOUNT_BIND, path, "/etc/one", 0, owner);
    add(spec, SANDBOX_MOUNT_BIND, path, "/etc/two", SANDBOX_MOUNT_READ_ONLY, owner);
    sandbox = box_start(host, spec);
    expect("echo more >> /etc/one; cat /etc/two", "as it was\nmore");
    ck_assert_int_ne(box_code(sandbox, NULL, "echo no 2>/dev/null >> /etc/two"), 0);
    text = box_read(path);
    ck_assert_str_eq(text, "as it was\nmore\n");
    free(text);
}
END_TEST

/* "K path type" of each entry, one a line: free() it. */
static char *changes(int *ret_truncated, int64_t most)
{
    static const char *const types[] = { "?", "file", "folder", "link", "fifo", "socket", "device" };
    struct sandbox_diff_options options = SANDBOX_DIFF_OPTIONS_INIT;
    struct sandbox_diff *diff = NULL;
    char *text = NULL;
    size_t size;
    FILE *f = open_memstream(&text, &size);

    options.max_entries = most;
    sbtest_ok(sandbox_mount_diff(sandbox, "/project/data", &options, 20000, &diff, &error), &error);
    for (size_t i = 0; i < sandbox_diff_get_count(diff); i++) {
        struct sandbox_diff_entry e = SANDBOX_DIFF_ENTRY_INIT;

        ck_assert_int_eq(sandbox_diff_get(diff, i, &e), 0);
        ck_assert_int_ge(e.bytes, 0);
        fprintf(f, "%c %s %s\n", "?+*-"[e.kind], e.path, types[e.type]);
    }
    ck_assert_int_eq(sandbox_diff_get(diff, sandbox_diff_get_count(diff), &(struct sandbox_diff_entry)SANDBOX_DIFF_ENTRY_INIT),
                     SANDBOX_ENOTFOUND);
    *ret_truncated = sandbox_diff_get_truncated(diff);
    sandbox_diff_unref(diff);
    fclose(f);
    return text;
}

static void expect_changes(const char *expected)
{
    int truncated;
    char *text = changes(&truncated, 0);

    ck_assert_str_eq(text, expected);
    ck_assert_int_eq(truncated, 0);
    free(text);
}

static int64_t usage_of(int64_t *ret_entries)
{
    struct sandbox_mount_usage usage = SANDBOX_MOUNT_USAGE_INIT;

    sbtest_ok(sandbox_mount_usage(sandbox, "/project/data", 20000, &usage, &error), &error);
    if (ret_entries)
        *ret_entries = usage.entries;
    return usage.bytes;
}

/* A reset's helper removes the old layer after the call: it must come to its end. */
static void wait_for_trash(void)
{
    char trash[700];
    long until = box_now() + sbtest_slowly(20000);

    snprintf(trash, sizeof trash, "%s/trash", box_root());
    while (box_entries(trash) > 0 && box_now() < until)
        usleep(10000);
    ck_assert_int_eq(box_entries(trash), 0);
    usleep(50000);
}

/* Diff, usage and reset, while it runs and after. */
START_TEST(overlay_diff_usage_reset)
{
    int64_t entries, empty;
    char path[700], *before, *after, *text;
    int truncated;

    fill();
    snprintf(path, sizeof path, "%s/gone", folder);
    ck_assert_int_eq(mkdir(path, 0755), 0);
    box_write(path, "one", "1");
    box_write(path, "two", "2");
    before = picture_of(folder);
    start_over(folder, NULL);
    expect_changes("");
    empty = usage_of(&entries);
    ck_assert_int_eq((int)entries, 0);
    ck_assert_int_eq((int)empty, 0);
    expect("cd /project/data; echo changed > file; mkdir -p new/er; head -c 1000000 /dev/zero > new/er/big; ln -s x new/l; ln new/er/big new/same;"
           "rm other; rm -r gone; mkdir gone; echo 2 > gone/two; chmod 711 sub; mkfifo new/f; rm link; mkdir link",
           "");
    expect_changes("* file file\n- gone/one file\n* gone/two file\n* link folder\n+ new folder\n+ new/er folder\n+ new/er/big file\n+ new/f fifo\n"
                   "+ new/l link\n+ new/same file\n- other file\n* sub folder\n");
    text = changes(&truncated, 3);
    ck_assert_int_eq(truncated, 1);
    free(text);
    ck_assert_int_ge(usage_of(&entries), 1000000);
    ck_assert_int_lt(usage_of(&entries), 1200000); /* one file of two names counts once */
    sbtest_fails(sandbox_mount_reset(sandbox, "/guest", 20000, &error), SANDBOX_EINVALID, &error);
    sbtest_fails(sandbox_mount_reset(sandbox, "/nothing", 20000, &error), SANDBOX_ENOTFOUND, &error);
    sbtest_ok(sandbox_stop(sandbox, 0, 20000, &error), &error);
    ck_assert_int_ge(usage_of(NULL), 1000000);
    sbtest_ok(sandbox_mount_reset(sandbox, "/project/data", 20000, &error), &error);
    expect_changes("");
    wait_for_trash();
    sbtest_ok(sandbox_start(sandbox, 20000, &error), &error);
    expect("cd /project/data; cat file gone/one", "as it was\n1");
    after = picture_of(folder);
    ck_assert_str_eq(before, after);
    free(before);
    free(after);
}
END_TEST

/* A copy tells the same, and a reset of it is a new copy. */
START_TEST(overlay_copy_diff_and_reset)
{
    char lower[700], merged[700], parts[1500];

    if (geteuid() != 0)
        sbtest_skip("only root can mount an overlay to stand on");
    fill();
    snprintf(lower, sizeof lower, "%s/u", sbtest_dir());
    snprintf(merged, sizeof merged, "%s/merged", sbtest_dir());
    ck_assert_int_eq(mkdir(lower, 0755) | mkdir(merged, 0755), 0);
    snprintf(parts, sizeof parts, "lowerdir=%s:%s", folder, lower);
    ck_assert_int_eq(mount("overlay", merged, "overlay", 0, parts), 0);
    start_over(merged, NULL);
    expect_overlay("copy: ");
    expect_changes("");
    ck_assert_int_gt(usage_of(NULL), 0);
    expect("cd /project/data; echo changed > file; rm other link; echo new > sub/new; chmod 700 sub", "");
    expect_changes("* file file\n- link link\n- other file\n* sub folder\n+ sub/new file\n");
    sbtest_ok(sandbox_stop(sandbox, 0, 20000, &error), &error);
    sbtest_ok(sandbox_mount_reset(sandbox, "/project/data", 20000, &error), &error);
    wait_for_trash();
    sbtest_ok(sandbox_start(sandbox, 20000, &error), &error);
    expect("cat /project/data/file", "as it was");
    expect_changes("");
    sbtest_ok(sandbox_delete(sandbox, 20000, &error), &error);
    ck_assert_int_eq(umount2(merged, 0), 0);
}
END_TEST

/* What a sandbox makes its layer of, the host looks at from outside: nothing of it leads anywhere, hangs, or grows without end. */
START_TEST(overlay_hostile_layer)
{
    char *text;
    int truncated;

    fill();
    start_over(folder, NULL);
    expect("cd /project/data; ln -s /etc escape; ln -s ../../../../.. up; mkfifo pipe; mkdir d; chmod 0 d;"
           "touch \"$(printf 'n\\377\\001x')\"; touch \"$(head -c 255 /dev/zero | tr '\\0' a)\"",
           "");
    text = changes(&truncated, 0);
    ck_assert_ptr_nonnull(strstr(text, "+ escape link\n"));
    ck_assert_ptr_nonnull(strstr(text, "+ n\377\001x file\n"));
    ck_assert_ptr_nonnull(strstr(text, "+ pipe fifo\n"));
    ck_assert_ptr_null(strstr(text, "passwd"));
    free(text);
    /* deeper than it is sensible to look: said, and no more */
    expect("cd /project/data; i=0; while [ $i -lt 1000 ]; do mkdir x && cd x && i=$((i+1)) || exit 1; done", "");
    usage_of(NULL);
    text = changes(&truncated, 0);
    ck_assert_int_eq(truncated, 1);
    free(text);
    /* one that changes while it is looked at */
    struct sandbox_exec *exec = NULL;
    struct sandbox_exec_options options = SANDBOX_EXEC_OPTIONS_INIT;
    options.stdout_fd = options.stderr_fd = SANDBOX_STDIO_NULL;
    sbtest_ok(sandbox_exec(sandbox, BOX_ARGV("/bin/sh", "-c", "cd /project/data; mkdir -p s/t; while :; do mv s r; ln -s /etc s; rm s; mv r s; done"),
                           &options, &exec, &error), &error);
    for (int i = 0; i < 20; i++) {
        text = changes(&truncated, 0);
        ck_assert_ptr_null(strstr(text, "passwd"));
        ck_assert_ptr_null(strstr(text, "s/hosts"));
        free(text);
        usage_of(NULL);
    }
    sbtest_ok(sandbox_exec_kill(exec, 9, SANDBOX_KILL_DESCENDANTS, &error), &error);
    sandbox_exec_unref(exec);
}
END_TEST

START_TEST(overlay_wrong_sources)
{
    static const char *const sources[] = { "/nothing/there", "/etc/passwd" };
    static const int codes[] = { SANDBOX_ENOTFOUND, SANDBOX_EINVALID };

    for (size_t i = 0; i < 2; i++) {
        struct sandbox_spec *spec = box_spec();
        struct sandbox *none = NULL;

        add(spec, SANDBOX_MOUNT_OVERLAY, sources[i], "/project/data", 0, NULL);
        sbtest_fails(sandbox_create(host, spec, 20000, &none, &error), codes[i], &error);
        sandbox_spec_unref(spec);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("integration-mounts");
    TCase *tc = sbtest_case("mounts");

    tcase_add_checked_fixture(tc, set_up, tear_down);
    tcase_add_test(tc, overlay_leaves_the_host_alone);
    tcase_add_test(tc, overlay_links_stay_inside);
    tcase_add_test(tc, overlay_falls_back);
    tcase_add_test(tc, overlay_copy_is_whole);
    tcase_add_test(tc, overlay_owner);
    tcase_add_test(tc, overlay_diff_usage_reset);
    tcase_add_test(tc, overlay_copy_diff_and_reset);
    tcase_add_test(tc, overlay_hostile_layer);
    tcase_add_test(tc, overlay_wrong_sources);
    tcase_add_test(tc, bind_owner);
    tcase_add_test(tc, bind_file);
    suite_add_tcase(suite, tc);
    return box_main(suite);
}
