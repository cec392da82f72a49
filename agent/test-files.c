/* SPDX-License-Identifier: Apache-2.0
 * The file server by itself, under the sanitizers: requests and archives that make no sense. It runs in a child, as it does in a sandbox;
 * whatever it is given, it answers once and ends, and nothing appears outside the folder that it was told. */
#include <sbtest.h>

#include "files.h"
#include "pack.h"
#include "util.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

static const struct sb_idmap map = { .privilege = SB_PRIVILEGE_SINGLE, .count = 1 };
static int root = -1;
static uint64_t seed = 7;

static void begin(void)
{
    root = open(sbtest_dir(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    ck_assert_int_ge(root, 0);
}

static void end(void)
{
    root = sb_close(root);
}

static int rounds(void)
{
    const char *many = getenv("SBTEST_ROUNDS");

    return many && *many ? atoi(many) : 800;
}

static uint32_t number(uint32_t below)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(seed >> 33) % below;
}

/* The answer, which must be there; a failure must have a message. */
static struct sb_files_done serve_blob(const void *blob, size_t size, int data, rlim_t file_size)
{
    static _Alignas(8) char packet[SB_FILES_PACKET_MAX];
    struct sb_files_done done = { 0 };
    int pair[2], status, answered = 0;
    ssize_t n;
    pid_t pid;

    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
    pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid == 0) {
        struct ag_files f = { .channel = pair[1], .data = data, .root = root, .map = &map };
        struct rlimit limit = { file_size, file_size };

        close(pair[0]);
        signal(SIGXFSZ, SIG_IGN);
        setrlimit(RLIMIT_FSIZE, &limit);
        umask(0);
        ag_files_serve(&f, blob, size);
    }
    close(pair[1]);
    while ((n = recv(pair[0], packet, sizeof packet, 0)) > 0) {
        struct sb_files_head head;

        ck_assert_int_ge(n, (ssize_t)sizeof head);
        memcpy(&head, packet, sizeof head);
        ck_assert_uint_eq(head.size, (size_t)n);
        ck_assert(!answered);
        if (head.type == SB_FILES_DONE) {
            memcpy(&done, packet, sizeof done);
            answered = 1;
        }
    }
    close(pair[0]);
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert_msg(WIFEXITED(status) && answered, "it ended with 0x%x, %s", (unsigned int)status, answered ? "answered" : "without an answer");
    ck_assert_int_le(done.code, 0);
    ck_assert(done.code == 0 || done.message[0]);
    return done;
}

static struct sb_files_done serve(enum sb_files_op op, const char *path, int data, rlim_t file_size)
{
    struct {
        struct sb_files_request q;
        char text[SB_FILES_PATH_MAX + 1];
    } blob = { .q = { .magic = SB_FILES_MAGIC, .op = op, .mode = -1, .uid = -1, .gid = -1, .mtime_ns = INT64_MIN, .max_bytes = 1 << 20, .max_entries = 1000 } };

    blob.q.path_size = (uint32_t)strlen(path) + 1;
    blob.q.other_size = 1;
    memcpy(blob.text, path, blob.q.path_size);
    return serve_blob(&blob, sizeof blob.q + blob.q.path_size + 1, data, file_size);
}

static int names_in(const char *name)
{
    SB_FREE char *path = NULL;
    struct dirent *d;
    int n = 0;
    DIR *dir;

    ck_assert_int_gt(asprintf(&path, "%s/%s", sbtest_dir(), name), 0);
    dir = opendir(path);
    ck_assert_ptr_nonnull(dir);
    while ((d = readdir(dir)))
        n += d->d_name[0] != '.' || (strcmp(d->d_name, ".") && strcmp(d->d_name, ".."));
    closedir(dir);
    return n;
}

static void put(const char *name, const char *text)
{
    SB_CLOSE int fd = openat(root, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(write(fd, text, strlen(text)), (ssize_t)strlen(text));
}

/* Requests of random bytes, and good ones with a few of them changed. */
START_TEST(requests)
{
    struct {
        struct sb_files_request q;
        char text[64];
    } blob;

    put("f", "content");
    for (int i = 0; i < rounds() / 2; i++) {
        SB_CLOSE int data = openat(root, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
        size_t size = sizeof blob.q + 6;

        memset(&blob, 0, sizeof blob);
        blob.q = (struct sb_files_request){ .magic = SB_FILES_MAGIC, .op = number(12), .flags = number(128), .path_size = 3, .other_size = 3, .mode = -1,
                                            .uid = -1, .gid = -1, .length = 100, .max_bytes = -1, .max_entries = -1 };
        memcpy(blob.text, "/f\0/g", 6);
        if (i % 3 == 0)
            for (size_t k = 0; k < sizeof blob; k++)
                ((unsigned char *)&blob)[k] = (unsigned char)number(256);
        else if (i % 3 == 1)
            for (uint32_t k = number(4); k > 0; k--)
                ((unsigned char *)&blob)[number((uint32_t)size)] = (unsigned char)number(256);
        if (i % 7 == 0)
            size = number(sizeof blob);
        if (data >= 0 && blob.q.op == SB_FILES_PUT_TAR)
            ck_assert_int_eq(ftruncate(data, 1024), 0);
        serve_blob(&blob, size, i % 5 ? data : -1, RLIM_INFINITY);
    }
}
END_TEST

static void write_sum(unsigned char *block)
{
    unsigned int sum = 0;
    char text[9];

    memset(block + 148, ' ', 8);
    for (int i = 0; i < 512; i++)
        sum += block[i];
    snprintf(text, sizeof text, "%06o", sum & 0777777);
    memcpy(block + 148, text, 7);
}

/* An honest archive with some of everything, then many that differ from it in some bytes, with headers that add up all the same. */
START_TEST(archives)
{
    SB_CLOSE int tar = openat(root, "a.tar", O_RDWR | O_CREAT | O_CLOEXEC, 0600), copy = openat(root, "b.tar", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    static unsigned char bytes[1 << 18], changed[1 << 18];
    char name[300];
    SB_CLOSE int file = -1;
    ssize_t size;

    ck_assert_int_eq(mkdirat(root, "src", 0755), 0);
    put("src/f", "content");
    snprintf(name, sizeof name, "src/%0200d", 1);
    put(name, "a long name");
    ck_assert_int_eq(symlinkat("f", root, "src/l"), 0);
    ck_assert_int_eq(linkat(root, "src/f", root, "src/h", 0), 0);
    ck_assert_int_eq(mkfifoat(root, "src/p", 0600), 0);
    file = openat(root, "src/sparse", O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    ck_assert_int_eq(pwrite(file, "middle", 6, 65536), 6);
    ck_assert_int_eq(ftruncate(file, 200000), 0);
    ck_assert_int_eq(serve(SB_FILES_GET_TAR, "/src", tar, RLIM_INFINITY).code, 0);
    size = pread(tar, bytes, sizeof bytes, 0);
    ck_assert_int_gt(size, 4096);
    ck_assert_int_eq(lseek(tar, 0, SEEK_SET), 0);
    ck_assert_int_eq(serve(SB_FILES_PUT_TAR, "/good", tar, RLIM_INFINITY).code, 0);
    ck_assert_int_eq(names_in("good"), names_in("src"));
    for (int i = 0; i < rounds(); i++) {
        uint32_t target = number((uint32_t)size / 512);

        memcpy(changed, bytes, sizeof changed);
        for (uint32_t k = 1 + number(6); k > 0; k--)
            changed[target * 512 + number(512)] = number(3) ? (unsigned char)"0123456789\0 /.=,\377\200xgLKS"[number(23)] : (unsigned char)number(256);
        if (number(8))
            write_sum(changed + target * 512);
        ck_assert_int_eq(pwrite(copy, changed, (size_t)size, 0), size);
        ck_assert_int_eq(ftruncate(copy, number(10) ? size : (off_t)number((uint32_t)size)), 0);
        ck_assert_int_eq(lseek(copy, 0, SEEK_SET), 0);
        serve(SB_FILES_PUT_TAR, "/t", copy, 1 << 20);
        serve(SB_FILES_REMOVE, "/t", -1, RLIM_INFINITY);
        if (i % 50 == 0) {
            struct {
                struct sb_files_request q;
                char text[4];
            } rm = { .q = { .magic = SB_FILES_MAGIC, .op = SB_FILES_REMOVE, .flags = SB_FILES_RECURSIVE, .path_size = 3, .other_size = 1 }, .text = "/t" };

            serve_blob(&rm, sizeof rm.q + 4, -1, RLIM_INFINITY);
            ck_assert_int_eq(names_in("."), 4); /* a.tar b.tar good src */
        }
    }
}
END_TEST

/* No room in the middle: the old content stays, and nothing is beside it. */
START_TEST(no_room)
{
    SB_CLOSE int data = openat(root, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    static char block[65536];
    struct sb_files_done done;

    memset(block, 'x', sizeof block);
    ck_assert_int_eq(mkdirat(root, "d", 0755), 0);
    put("d/f", "old");
    ck_assert_int_eq(write(data, block, sizeof block), (ssize_t)sizeof block);
    ck_assert_int_eq(lseek(data, 0, SEEK_SET), 0);
    done = serve(SB_FILES_WRITE, "/d/f", data, 10000);
    ck_assert_int_eq(done.code, SANDBOX_ELIMIT);
    ck_assert_int_eq(done.sys_errno, EFBIG);
    ck_assert_int_eq(names_in("d"), 1);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("files");
    TCase *c = sbtest_case("files");

    tcase_set_timeout(c, 250);
    tcase_add_checked_fixture(c, begin, end);
    tcase_add_test(c, requests);
    tcase_add_test(c, archives);
    tcase_add_test(c, no_room);
    suite_add_tcase(suite, c);
    return sbtest_main(suite);
}
