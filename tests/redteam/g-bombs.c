/* SPDX-License-Identifier: Apache-2.0
 * G02: archives that are small and become large, deep or many: stopped with a clear error, and soon. */
#include "g-store.h"
#include "g-tar.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <util.h>
#include <zlib.h>

static struct tar tar;

static void append_gzip(FILE *f, const void *data, size_t size, int times)
{
    size_t room = size / 2 + 65536;
    unsigned char *out = malloc(room);
    z_stream z = { .next_in = (void *)(uintptr_t)data, .avail_in = (unsigned int)size, .next_out = out, .avail_out = (unsigned int)room };

    ck_assert_ptr_nonnull(out);
    ck_assert_int_eq(deflateInit2(&z, 9, Z_DEFLATED, 31, 9, Z_DEFAULT_STRATEGY), Z_OK);
    ck_assert_int_eq(deflate(&z, Z_FINISH), Z_STREAM_END);
    for (int i = 0; i < times; i++)
        ck_assert_uint_eq(fwrite(out, 1, z.total_out, f), z.total_out);
    ck_assert_int_eq(deflateEnd(&z), Z_OK);
    free(out);
}

/* As gzip: what `tar` has, once, and then a chunk again and again, each a member of its own. */
static void save_repeated(const char *path, const void *chunk, size_t size, int times)
{
    FILE *f = fopen(path, "we");

    ck_assert_ptr_nonnull(f);
    if (tar.size)
        append_gzip(f, tar.data, tar.size, 1);
    append_gzip(f, chunk, size, times);
    ck_assert_int_eq(fclose(f), 0);
    free(tar.data);
    tar = (struct tar){ 0 };
}

START_TEST(gzip_bomb)
{
    static const char zeros[16 << 20];
    char size[13];
    int64_t before;

    snprintf(size, sizeof size, "%012llo", 10ll << 30);
    TAR(&tar, .name = "bomb", .size_field = size);
    save_repeated(in_dir("bomb.tar.gz"), zeros, sizeof zeros, 640);
    before = sb_now_ms();
    refused(in_dir("bomb.tar.gz"), NULL, SANDBOX_ELIMIT, "times its size");
    ck_assert_int_lt(sb_now_ms() - before, 5000);
}
END_TEST

START_TEST(zstd_bomb)
{
    TAR(&tar, .name = "bomb", .zeros = 256 << 20);
    tar_save_zstd(&tar, in_dir("bomb.tar.zst"));
    refused(in_dir("bomb.tar.zst"), NULL, SANDBOX_ELIMIT, "times its size");
}
END_TEST

START_TEST(xz_bomb)
{
    TAR(&tar, .name = "bomb", .zeros = 64 << 20);
    tar_save_xz(&tar, in_dir("bomb.tar.xz"));
    refused(in_dir("bomb.tar.xz"), NULL, SANDBOX_ELIMIT, "times its size");
}
END_TEST

/* The image's bytes end, and garbage that compresses well goes on. */
START_TEST(bomb_behind_the_end)
{
    TAR(&tar, .name = "f", .data = "x");
    tar_end(&tar);
    TAR(&tar, .name = "bomb", .zeros = 256 << 20);
    tar_save_zstd(&tar, in_dir("bomb.tar.zst"));
    refused(in_dir("bomb.tar.zst"), NULL, SANDBOX_ELIMIT, NULL);
}
END_TEST

START_TEST(too_many_bytes)
{
    struct sandbox_image_import_options options = SANDBOX_IMAGE_IMPORT_OPTIONS_INIT;

    options.max_bytes = 1 << 20;
    TAR(&tar, .name = "f", .zeros = 2 << 20);
    tar_save(&tar, in_dir("image.tar"));
    refused(in_dir("image.tar"), &options, SANDBOX_ELIMIT, "1048576");
    for (int i = 0; i < 40; i++)
        TAR(&tar, .name = "f", .zeros = 65536);
    tar_save(&tar, in_dir("image.tar"));
    refused(in_dir("image.tar"), &options, SANDBOX_ELIMIT, "1048576");
    options.max_bytes = -1;
    refused(in_dir("image.tar"), &options, SANDBOX_EINVALID, NULL);
}
END_TEST

START_TEST(a_million_entries)
{
    struct sandbox_image_import_options options = SANDBOX_IMAGE_IMPORT_OPTIONS_INIT;
    struct tar thousand = { 0 };
    char name[32];

    options.max_entries = 5000;
    for (int i = 0; i < 1000; i++) {
        snprintf(name, sizeof name, "f%d", i);
        TAR(&thousand, .name = name);
    }
    save_repeated(in_dir("image.tar.gz"), thousand.data, thousand.size, 1000);
    free(thousand.data);
    refused(in_dir("image.tar.gz"), &options, SANDBOX_ELIMIT, "5000 entries");
}
END_TEST

static void put_deep(int depth, const char *part)
{
    size_t length = strlen(part);
    char *path = malloc((size_t)depth * (length + 1) + 2);

    ck_assert_ptr_nonnull(path);
    for (int i = 0; i < depth; i++) {
        memcpy(path + (size_t)i * (length + 1), part, length);
        path[(size_t)i * (length + 1) + length] = '/';
    }
    memcpy(path + (size_t)depth * (length + 1), "f", 2);
    tar_pax(&tar, "path", path, strlen(path));
    TAR(&tar, .name = "short", .data = "x");
    tar_save(&tar, in_dir("image.tar"));
    free(path);
}

START_TEST(too_deep)
{
    char part[300];

    put_deep(127, "d");
    close(imported(in_dir("image.tar")));
    remove_all();
    put_deep(128, "d");
    refused(in_dir("image.tar"), NULL, SANDBOX_ELIMIT, "deeper");
    put_deep(10000, "d");
    refused(in_dir("image.tar"), NULL, SANDBOX_ELIMIT, "deeper");
    snprintf(part, sizeof part, "%0255d", 0);
    put_deep(1, part);
    close(imported(in_dir("image.tar")));
    remove_all();
    put_deep(17, part);
    refused(in_dir("image.tar"), NULL, SANDBOX_ELIMIT, "4095");
    snprintf(part, sizeof part, "%0256d", 0);
    put_deep(1, part);
    refused(in_dir("image.tar"), NULL, SANDBOX_ELIMIT, "255");
}
END_TEST

START_TEST(a_folder_too_deep)
{
    int at = open(sbtest_dir(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    for (int i = 0; i < 200; i++) {
        const char *name = i ? "d" : "deep";
        int next;

        ck_assert_int_eq(mkdirat(at, name, 0755), 0);
        next = openat(at, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        ck_assert_int_ge(next, 0);
        close(at);
        at = next;
    }
    close(at);
    refused(in_dir("deep"), NULL, SANDBOX_ELIMIT, "deeper");
}
END_TEST

START_TEST(huge_documents)
{
    struct tar body = { 0 };
    char *document = malloc((5 << 20) + 1);

    ck_assert_ptr_nonnull(document);
    memset(document, ' ', 5 << 20);
    document[5 << 20] = 0;
    TAR(&body, .name = "manifest.json", .data = document);
    tar_end(&body);
    tar_save(&body, in_dir("docker.tar"));
    refused(in_dir("docker.tar"), NULL, SANDBOX_ELIMIT, "4 MiB");
    TAR(&body, .name = "oci-layout", .data = "{\"imageLayoutVersion\":\"1.0.0\"}");
    TAR(&body, .name = "index.json", .data = document);
    tar_save(&body, in_dir("oci.tar"));
    refused(in_dir("oci.tar"), NULL, SANDBOX_ELIMIT, "4 MiB");
    memset(document, '[', 5 << 20);
    document[3 << 20] = 0;
    TAR(&body, .name = "manifest.json", .data = document);
    tar_save(&body, in_dir("docker.tar"));
    refused(in_dir("docker.tar"), NULL, SANDBOX_EDAMAGED, "nested");
    free(document);
}
END_TEST

START_TEST(too_many_members)
{
    char name[80];

    for (int i = 0; i < 20000; i++) {
        snprintf(name, sizeof name, "blobs/sha256/%064d", i);
        TAR(&tar, .name = name);
    }
    tar_save(&tar, in_dir("oci.tar"));
    refused(in_dir("oci.tar"), NULL, SANDBOX_ELIMIT, "16384");
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {
        gzip_bomb, zstd_bomb, xz_bomb, bomb_behind_the_end, too_many_bytes, a_million_entries, too_deep, a_folder_too_deep, huge_documents,
        too_many_members,
    };
    Suite *suite = suite_create("bombs");
    TCase *cases = sbtest_case("bombs");

    tcase_add_checked_fixture(cases, store_open, store_close);
    for (size_t i = 0; i < SB_ELEMENTS(tests); i++)
        tcase_add_test(cases, tests[i]);
    suite_add_tcase(suite, cases);
    return sbtest_main(suite);
}
