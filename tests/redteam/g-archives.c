/* SPDX-License-Identifier: Apache-2.0
 * G01, B07, A09, F24, F51: archives that try to write outside their root or to bring what no image may, and what honest ones hold. */
#include "g-store.h"
#include "g-tar.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

static struct tar tar;

static const char *saved(void)
{
    const char *path = in_dir("image.tar");

    tar_end(&tar);
    tar_save(&tar, path);
    return path;
}

static void expect_refused(const char *word)
{
    refused(saved(), NULL, SANDBOX_EDAMAGED, word);
}

START_TEST(dot_dot)
{
    static const char *const names[] = { "../evil", "a/../../evil", "..", "a/b/../..", "./../evil", "/../evil", "a/.." };

    for (size_t i = 0; i < SB_ELEMENTS(names); i++) {
        TAR(&tar, .name = "ok", .data = "1");
        TAR(&tar, .name = names[i], .data = "2");
        expect_refused("..");
    }
    tar_pax(&tar, "path", "x/../../evil", 12);
    TAR(&tar, .name = "harmless", .data = "1");
    expect_refused("..");
    TAR(&tar, .name = "././@LongLink", .type = 'L', .data = "x/../../evil");
    TAR(&tar, .name = "harmless", .data = "1");
    expect_refused("..");
}
END_TEST

START_TEST(absolute_names_are_relative)
{
    SB_CLOSE int dir = -1;
    SB_FREE char *text = NULL;

    TAR(&tar, .name = canary(), .data = "changed");
    TAR(&tar, .name = "//etc///./x", .data = "inside");
    dir = imported(saved());
    text = text_in(dir, "etc/x");
    ck_assert_str_eq(text, "inside");
    canary_unharmed();
}
END_TEST

START_TEST(behind_a_link)
{
    char through[600];
    const char *const targets[] = { sbtest_dir(), "..", "/", ".", "dir" };

    for (size_t i = 0; i < SB_ELEMENTS(targets); i++) {
        TAR(&tar, .name = "dir", .type = '5', .mode = 0755);
        TAR(&tar, .name = "l", .type = '2', .link = targets[i]);
        TAR(&tar, .name = "l/canary", .data = "changed");
        expect_refused("'l/canary'");
    }
    TAR(&tar, .name = "l", .type = '2', .link = "/");
    snprintf(through, sizeof through, "l%.90s", sbtest_dir());
    TAR(&tar, .name = through, .type = '5', .mode = 0755);
    expect_refused("symbolic link");
    TAR(&tar, .name = "l", .type = '2', .link = sbtest_dir());
    TAR(&tar, .name = "l/.wh.canary", .data = "");
    expect_refused("symbolic link");
    TAR(&tar, .name = "l", .type = '2', .link = sbtest_dir());
    TAR(&tar, .name = "l/.wh..wh..opq", .data = "");
    expect_refused("symbolic link");
}
END_TEST

START_TEST(links_are_replaced_not_followed)
{
    SB_CLOSE int dir = -1;
    struct stat st;

    TAR(&tar, .name = "f", .type = '2', .link = canary());
    TAR(&tar, .name = "f", .data = "changed", .mode = 0777);
    TAR(&tar, .name = "d", .type = '2', .link = sbtest_dir());
    TAR(&tar, .name = "d/", .type = '5', .mode = 0700);
    TAR(&tar, .name = "d/canary", .data = "changed");
    TAR(&tar, .name = "s", .type = '2', .link = canary());
    TAR(&tar, .name = "h", .type = '1', .link = "s");
    TAR(&tar, .name = "h", .data = "changed");
    TAR(&tar, .name = "p", .type = '2', .link = canary());
    TAR(&tar, .name = "p", .type = '6');
    dir = imported(saved());
    canary_unharmed();
    ck_assert_int_eq(stat_in(dir, "f", &st), 0);
    ck_assert(S_ISREG(st.st_mode));
    ck_assert_int_eq(stat_in(dir, "d", &st), 0);
    ck_assert(S_ISDIR(st.st_mode));
    ck_assert_int_eq(stat_in(dir, "h", &st), 0);
    ck_assert(S_ISREG(st.st_mode));
    ck_assert_int_eq(stat_in(dir, "s", &st), 0);
    ck_assert(S_ISLNK(st.st_mode));
    ck_assert_int_eq(stat_in(dir, "p", &st), 0);
    ck_assert(S_ISFIFO(st.st_mode));
}
END_TEST

START_TEST(hard_links_outside)
{
    const char *const targets[] = { "../canary", "../../canary", "x/../../canary", canary(), "/etc/passwd", "missing", "." };

    for (size_t i = 0; i < SB_ELEMENTS(targets); i++) {
        TAR(&tar, .name = "h", .type = '1', .link = targets[i]);
        TAR(&tar, .name = "h", .data = "changed");
        refused(saved(), NULL, SANDBOX_EDAMAGED, i < 6 ? "'h'" : NULL);
    }
    TAR(&tar, .name = "l", .type = '2', .link = sbtest_dir());
    TAR(&tar, .name = "h", .type = '1', .link = "l/canary");
    expect_refused("'h'");
    TAR(&tar, .name = "d", .type = '5', .mode = 0755);
    TAR(&tar, .name = "h", .type = '1', .link = "d");
    expect_refused("'h'");
    TAR(&tar, .name = "d/f", .data = "x");
    TAR(&tar, .name = "d", .type = '1', .link = "d/f");
    expect_refused("'d'");
    tar_pax(&tar, "linkpath", "../canary", 9);
    TAR(&tar, .name = "h", .type = '1', .link = "ok");
    expect_refused("'h'");
}
END_TEST

START_TEST(sizes_that_lie)
{
    static const char negative[12] = "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xfc\x00", huge[12] = "\x80\x00\x00\x00\x7f\xff\xff\xff\xff\xff\xff\xff",
                      enormous[12] = "\xbf\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", octal[12] = "77777777777";
    const char *const fields[] = { negative, huge, enormous, octal };

    for (size_t i = 0; i < SB_ELEMENTS(fields); i++) {
        struct sandbox_error *error = NULL;
        int r;

        TAR(&tar, .name = "f", .size_field = fields[i]);
        TAR(&tar, .name = "g", .data = "more");
        r = import(saved(), NULL, NULL, &error);
        ck_assert_msg(r == SANDBOX_EDAMAGED || r == SANDBOX_ELIMIT, "size %zu: %s %s", i, sandbox_code_name(r), sandbox_error_get_message(error));
        sandbox_error_unref(error);
        nothing_left();
    }
    tar_pax(&tar, "size", "-5", 2);
    TAR(&tar, .name = "f", .data = "x");
    expect_refused(NULL);
    tar_pax(&tar, "size", "9223372036854775807", 19);
    TAR(&tar, .name = "f", .data = "x");
    expect_refused(NULL);
    tar_pax(&tar, "size", "1152921504606846976", 19);
    TAR(&tar, .name = "f", .data = "x");
    refused(saved(), NULL, SANDBOX_ELIMIT, "'f'");
}
END_TEST

/* GNU's sparse form 1.0: the map stands before the data. */
static void sparse(const char *real_size, const char *map)
{
    tar_pax(&tar, "GNU.sparse.major", "1", 1);
    tar_pax(&tar, "GNU.sparse.minor", "0", 1);
    tar_pax(&tar, "GNU.sparse.name", "f", 1);
    tar_pax(&tar, "GNU.sparse.realsize", real_size, strlen(real_size));
    TAR(&tar, .name = "GNUSparseFile.0/f", .data = map);
}

START_TEST(sparse_maps_that_lie)
{
    static const char *const lies[][2] = {
        { "100", "1\n1000000\n4\n" }, { "100", "1\n-5\n10\n" }, { "100", "1\n9223372036854775807\n10\n" }, { "100", "99999999999\n" },
        { "9223372036854775807", "1\n9223372036854775000\n1\n" }, { "-1", "1\n0\n1\n" }, { "100", "2\n50\n10\n0\n90\n" },
    };

    for (size_t i = 0; i < SB_ELEMENTS(lies); i++) {
        struct sandbox_error *error = NULL;
        int r;

        sparse(lies[i][0], lies[i][1]);
        r = import(saved(), NULL, NULL, &error);
        ck_assert_msg(r == SANDBOX_EDAMAGED || r == SANDBOX_ELIMIT || r == 0, "lie %zu: %s %s", i, sandbox_code_name(r),
                      sandbox_error_get_message(error));
        sandbox_error_unref(error);
        remove_all(); /* where it was taken after all, a file of at most its stated size was written, and no more */
    }
}
END_TEST

START_TEST(later_entries_replace)
{
    SB_CLOSE int dir = -1;
    SB_FREE char *text = NULL, *in_folder = NULL, *from_folder = NULL;
    struct stat st;

    TAR(&tar, .name = "twice", .data = "first");
    TAR(&tar, .name = "twice", .data = "second");
    TAR(&tar, .name = "folder/deep/file", .data = "x");
    TAR(&tar, .name = "folder/deep", .type = '5', .mode = -1);
    TAR(&tar, .name = "folder", .data = "now a file");
    TAR(&tar, .name = "file", .data = "x");
    TAR(&tar, .name = "file/", .type = '5', .mode = 0755);
    TAR(&tar, .name = "file/in", .data = "below");
    TAR(&tar, .name = "kept/a", .data = "x");
    TAR(&tar, .name = "kept", .type = '5', .mode = 0700);
    dir = imported(saved());
    text = text_in(dir, "twice");
    ck_assert_str_eq(text, "second");
    from_folder = text_in(dir, "folder");
    ck_assert_str_eq(from_folder, "now a file");
    in_folder = text_in(dir, "file/in");
    ck_assert_str_eq(in_folder, "below");
    ck_assert_int_eq(stat_in(dir, "kept/a", &st), 0);
}
END_TEST

START_TEST(below_a_file)
{
    TAR(&tar, .name = "file", .data = "x");
    TAR(&tar, .name = "file/below", .data = "x");
    expect_refused("'file/below'");
}
END_TEST

START_TEST(in_place_of_the_root)
{
    static const char *const names[] = { ".", "./", "/", "//." };

    for (size_t i = 0; i < SB_ELEMENTS(names); i++) {
        TAR(&tar, .name = names[i], .type = '2', .link = "/etc");
        expect_refused("root");
        TAR(&tar, .name = names[i], .type = '1', .link = "x");
        expect_refused("root");
    }
}
END_TEST

START_TEST(devices_are_left_out)
{
    SB_JSON json_t *image = NULL;
    SB_CLOSE int dir = -1;
    struct sandbox_error *error = NULL;
    struct stat st;

    TAR(&tar, .name = "null", .type = '3', .major = 1, .minor = 3);
    TAR(&tar, .name = "disk", .type = '4', .major = 8);
    TAR(&tar, .name = "forged-whiteout", .type = '3');
    TAR(&tar, .name = "link-to-disk", .type = '1', .link = "disk");
    TAR(&tar, .name = "fifo", .type = '6', .mode = 0622);
    TAR(&tar, .name = "file", .data = "x");
    sbtest_ok(import(saved(), NULL, &image, &error), &error);
    ck_assert_int_eq(json_integer_value(json_object_get(image, "skipped")), 4);
    dir = imported(in_dir("image.tar"));
    ck_assert_int_eq(stat_in(dir, "null", &st), -ENOENT);
    ck_assert_int_eq(stat_in(dir, "disk", &st), -ENOENT);
    ck_assert_int_eq(stat_in(dir, "forged-whiteout", &st), -ENOENT);
    ck_assert_int_eq(stat_in(dir, "link-to-disk", &st), -ENOENT);
    ck_assert_int_eq(stat_in(dir, "fifo", &st), 0);
    ck_assert_uint_eq(st.st_mode, S_IFIFO | 0622);
}
END_TEST

START_TEST(overlay_attributes_are_left_out)
{
    static const char *const names[] = { "user.overlay.redirect", "user.overlay.opaque", "user.overlay.metacopy", "user.overlay.whiteout",
                                         "trusted.overlay.redirect", "security.selinux", "system.posix_acl_access" };
    SB_CLOSE int dir = -1, d = -1;
    char key[100], value[16];

    for (size_t i = 0; i < SB_ELEMENTS(names); i++) {
        snprintf(key, sizeof key, "SCHILY.xattr.%s", names[i]);
        tar_pax(&tar, key, "y", 1);
        snprintf(key, sizeof key, "d%zu", i);
        TAR(&tar, .name = key, .type = '5', .mode = 0755);
    }
    tar_pax(&tar, "SCHILY.xattr.user.mine", "kept", 4);
    TAR(&tar, .name = "mine", .type = '5', .mode = 0755);
    dir = imported(saved());
    for (size_t i = 0; i < SB_ELEMENTS(names); i++) {
        SB_CLOSE int fd = -1;

        snprintf(key, sizeof key, "d%zu", i);
        fd = openat(dir, key, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        ck_assert_int_ge(fd, 0);
        ck_assert_msg(fgetxattr(fd, names[i], value, sizeof value) < 0, "%s was set", names[i]);
    }
    d = openat(dir, "mine", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    ck_assert_int_eq(fgetxattr(d, "user.mine", value, sizeof value), 4);
}
END_TEST

START_TEST(whiteouts)
{
    SB_CLOSE int dir = -1, opaque = -1, replaced = -1;
    struct stat st;
    char value[4];

    TAR(&tar, .name = ".wh.gone", .data = "");
    TAR(&tar, .name = "d/.wh..wh..opq", .data = "");
    TAR(&tar, .name = "d/new", .data = "x");
    TAR(&tar, .name = ".wh.again", .data = "");
    TAR(&tar, .name = "again/file", .data = "x");
    TAR(&tar, .name = "here", .data = "x");
    TAR(&tar, .name = ".wh.here", .data = "");
    TAR(&tar, .name = ".wh..wh.plnk/x", .data = "x");
    dir = imported(saved());
    ck_assert_int_eq(stat_in(dir, "gone", &st), 0);
    ck_assert(S_ISCHR(st.st_mode) && st.st_rdev == makedev(0, 0));
    opaque = openat(dir, "d", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    ck_assert_int_eq(fgetxattr(opaque, "user.overlay.opaque", value, sizeof value), 1);
    replaced = openat(dir, "again", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    ck_assert_int_eq(fgetxattr(replaced, "user.overlay.opaque", value, sizeof value), 1);
    ck_assert_int_eq(stat_in(dir, "here", &st), 0);
    ck_assert(S_ISREG(st.st_mode));
    ck_assert_int_eq(stat_in(dir, ".wh..wh.plnk", &st), -ENOENT);
}
END_TEST

START_TEST(whiteouts_of_nothing)
{
    static const char *const names[] = { ".wh.", ".wh..", ".wh...", "d/.wh..." };

    for (size_t i = 0; i < SB_ELEMENTS(names); i++) {
        TAR(&tar, .name = names[i], .data = "");
        expect_refused(".wh.");
    }
}
END_TEST

START_TEST(modes_times_holes)
{
    SB_CLOSE int dir = -1;
    struct stat st;

    TAR(&tar, .name = "suid", .data = "x", .mode = 06755, .mtime = 1234567890);
    TAR(&tar, .name = "closed", .data = "secret", .mode = -1);
    TAR(&tar, .name = "locked", .type = '5', .mode = -1, .mtime = 1000000000);
    TAR(&tar, .name = "locked/in", .data = "x");
    TAR(&tar, .name = "tmp", .type = '5', .mode = 01777);
    TAR(&tar, .name = "holes", .zeros = 16 << 20);
    TAR(&tar, .name = "link", .type = '2', .link = "suid", .mtime = 1111111111);
    TAR(&tar, .name = "hard", .type = '1', .link = "suid");
    dir = imported(saved());
    ck_assert_int_eq(stat_in(dir, "suid", &st), 0);
    ck_assert_uint_eq(st.st_mode, S_IFREG | 06755);
    ck_assert_int_eq(st.st_mtime, 1234567890);
    ck_assert_uint_eq(st.st_nlink, 2);
    ck_assert_int_eq(stat_in(dir, "closed", &st), 0);
    ck_assert_uint_eq(st.st_mode, S_IFREG);
    ck_assert_int_eq(st.st_size, 6);
    ck_assert_int_eq(stat_in(dir, "locked", &st), 0);
    ck_assert_uint_eq(st.st_mode, S_IFDIR);
    ck_assert_int_eq(st.st_mtime, 1000000000);
    ck_assert_int_eq(stat_in(dir, "tmp", &st), 0);
    ck_assert_uint_eq(st.st_mode, S_IFDIR | 01777);
    ck_assert_int_eq(stat_in(dir, "link", &st), 0);
    ck_assert_int_eq(st.st_mtime, 1111111111);
    ck_assert_int_eq(stat_in(dir, "holes", &st), 0);
    ck_assert_int_eq(st.st_size, 16 << 20);
    ck_assert_int_lt(st.st_blocks, 100);
}
END_TEST

/* F24: more than 32 bits of size, with something at the end. */
START_TEST(five_gib)
{
    const off_t size = (off_t)5 << 30;
    SB_CLOSE int dir = -1, fd = -1;
    const char *path = in_dir("image.tar");
    char field[13], end[6] = "";
    struct stat st;

    snprintf(field, sizeof field, "%012llo", (long long)size);
    TAR(&tar, .name = "large", .size_field = field);
    tar_save(&tar, path);
    ck_assert_int_eq(truncate(path, 512 + size + 1024), 0);
    fd = open(path, O_WRONLY | O_CLOEXEC);
    ck_assert_int_eq(pwrite(fd, "right", 5, 512 + size - 5), 5);
    dir = imported(path);
    ck_assert_int_eq(stat_in(dir, "large", &st), 0);
    ck_assert_int_eq(st.st_size, size);
    close(fd);
    fd = openat(dir, "large", O_RDONLY | O_CLOEXEC);
    ck_assert_int_eq(pread(fd, end, 5, size - 5), 5);
    ck_assert_str_eq(end, "right");
}
END_TEST

START_TEST(owners)
{
    SB_CLOSE int dir = -1;
    struct stat st;

    TAR(&tar, .name = "f", .data = "x", .uid = 33, .gid = 34);
    dir = imported(saved());
    ck_assert_int_eq(stat_in(dir, "f", &st), 0);
    if (store_map.privilege == SB_PRIVILEGE_ROOT) { /* on disk as inside */
        ck_assert_uint_eq(st.st_uid, 33);
        ck_assert_uint_eq(st.st_gid, 34);
    } else if (store_map.privilege == SB_PRIVILEGE_SUBIDS) {
        ck_assert_uint_eq(st.st_uid, store_map.uid_start + 32);
        ck_assert_uint_eq(st.st_gid, store_map.gid_start + 33);
    } else {
        ck_assert_uint_eq(st.st_uid, getuid());
    }
    remove_all();
    TAR(&tar, .name = "beyond", .data = "x", .uid = 2000000);
    if (store_map.privilege != SB_PRIVILEGE_SINGLE)
        refused(saved(), NULL, SANDBOX_EUNSUPPORTED, "'beyond'");
    else
        close(imported(saved()));
}
END_TEST

START_TEST(names_are_bytes)
{
    static const char name[] = "b\xff\xfe\x01\n'\"\xc3\xa9";
    SB_CLOSE int dir = -1;
    struct stat st;
    char longer[300];

    TAR(&tar, .name = name, .data = "x");
    snprintf(longer, sizeof longer, "%0120d/%s", 0, name);
    tar_pax(&tar, "path", longer, strlen(longer));
    TAR(&tar, .name = "short", .data = "x");
    dir = imported(saved());
    ck_assert_int_eq(stat_in(dir, name, &st), 0);
    ck_assert_int_eq(stat_in(dir, longer, &st), 0);
}
END_TEST

START_TEST(no_archive)
{
    const char *path = in_dir("image.tar");

    save(path, "", 0);
    refused(path, NULL, SANDBOX_EDAMAGED, NULL);
    save(path, "#!/bin/sh\necho hello\n", 21);
    refused(path, NULL, SANDBOX_EDAMAGED, NULL);
    TAR(&tar, .name = "f", .zeros = 4000);
    tar_save(&tar, path);
    ck_assert_int_eq(truncate(path, 2000), 0);
    refused(path, NULL, SANDBOX_EDAMAGED, NULL);
    save(path, "\x1f\x8b\x08\x00garbage, not a stream", 25);
    refused(path, NULL, SANDBOX_EDAMAGED, NULL);
    refused(in_dir("missing"), NULL, SANDBOX_ENOTFOUND, NULL);
    refused("/dev/null", NULL, SANDBOX_EINVALID, NULL);
    ck_assert_int_eq(mkfifo(in_dir("fifo"), 0600), 0);
    refused(in_dir("fifo"), NULL, SANDBOX_EINVALID, NULL);
}
END_TEST

/* A09: a rootfs with programs of its own named as decompressors are; nothing of it is run or loaded. */
START_TEST(decompressors_in_the_image)
{
    static const char *const names[] = { "bin/xz", "bin/gzip", "bin/zstd", "usr/bin/xz", "usr/lib/libnss_files.so.2", "lib/libarchive.so.13" };
    char script[600];
    struct stat st;

    snprintf(script, sizeof script, "#!/bin/sh\necho > %s/ran\n", sbtest_dir());
    for (size_t i = 0; i < SB_ELEMENTS(names); i++)
        TAR(&tar, .name = names[i], .data = script, .mode = 0755);
    tar_end(&tar);
    tar_save_xz(&tar, in_dir("image.tar.xz"));
    close(imported(in_dir("image.tar.xz")));
    ck_assert_int_lt(stat(in_dir("ran"), &st), 0);
}
END_TEST

START_TEST(folders_are_copied)
{
    SB_CLOSE int dir = -1, again = -1;
    SB_FREE char *text = NULL;
    struct stat st;

    ck_assert_int_eq(mkdir(in_dir("root"), 0755), 0);
    ck_assert_int_eq(mkdir(in_dir("root/etc"), 0700), 0);
    save(in_dir("root/etc/f"), "content", 7);
    ck_assert_int_eq(chmod(in_dir("root/etc/f"), 0400), 0);
    ck_assert_int_eq(link(in_dir("root/etc/f"), in_dir("root/hard")), 0);
    ck_assert_int_eq(symlink(canary(), in_dir("root/link")), 0);
    ck_assert_int_eq(mkfifo(in_dir("root/fifo"), 0600), 0);
    dir = imported(in_dir("root"));
    text = text_in(dir, "etc/f");
    ck_assert_str_eq(text, "content");
    ck_assert_int_eq(stat_in(dir, "hard", &st), 0);
    ck_assert_uint_eq(st.st_nlink, 2);
    ck_assert_int_eq(stat_in(dir, "link", &st), 0);
    ck_assert(S_ISLNK(st.st_mode));
    ck_assert_int_eq(stat_in(dir, "fifo", &st), 0);
    again = imported(in_dir("root"));
    ck_assert_int_eq(fstat(again, &st), 0);
    canary_unharmed();
}
END_TEST

START_TEST(a_folder_that_holds_the_store)
{
    save(in_dir("f"), "x", 1);
    close(imported(sbtest_dir()));
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {
        dot_dot, absolute_names_are_relative, behind_a_link, links_are_replaced_not_followed, hard_links_outside, sizes_that_lie,
        sparse_maps_that_lie, later_entries_replace, below_a_file, in_place_of_the_root, devices_are_left_out, overlay_attributes_are_left_out,
        whiteouts, whiteouts_of_nothing, modes_times_holes, owners, names_are_bytes, no_archive, decompressors_in_the_image,
        folders_are_copied, a_folder_that_holds_the_store,
    };
    Suite *suite = suite_create("archives");
    TCase *cases = sbtest_case("archives");

    tcase_add_checked_fixture(cases, store_open, store_close);
    tcase_set_timeout(cases, 120); /* five_gib reads that much */
    for (size_t i = 0; i < SB_ELEMENTS(tests); i++)
        tcase_add_test(cases, tests[i]);
    if (geteuid() == 0) /* once is enough for what takes so long */
        tcase_add_test(cases, five_gib);
    suite_add_tcase(suite, cases);
    return sbtest_main(suite);
}
