/* SPDX-License-Identifier: Apache-2.0
 * The red team on files: archives that try to write outside the folder they go to, and folders that change into links while they are
 * written or read. The canary is a file of the machine, and one of the sandbox beside the folder. */
#include "box.h"
#include "g-tar.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static struct sandbox_host *host;
static struct sandbox *sandbox;
static struct sandbox_error *error;
static struct tar tar;

static void set_up(void)
{
    host = box_host();
    sandbox = box_start(host, NULL);
    box_write(sbtest_dir(), "canary", "of the machine");
    sbtest_ok(sandbox_file_write(sandbox, "/root/canary", "of the sandbox", 14, NULL, 10000, &error), &error);
}

static void tear_down(void)
{
    box_end(&host, &sandbox);
}

static void canaries_unharmed(void)
{
    char path[1024], *data;
    size_t size;

    snprintf(path, sizeof path, "%s/canary", sbtest_dir());
    data = box_read(path);
    ck_assert_str_eq(data, "of the machine");
    free(data);
    sbtest_ok(sandbox_file_read(sandbox, "/root/canary", 0, 100, 10000, &data, &size, &error), &error);
    ck_assert_str_eq(data, "of the sandbox");
    sandbox_buffer_free(data);
    snprintf(path, sizeof path, "%s/evil", sbtest_dir());
    ck_assert_int_lt(access(path, F_OK), 0);
    ck_assert_int_eq(box_code(sandbox, "0:0", "[ -e /evil ] || [ -e /root/evil ]"), 1);
}

/* The tar so far goes to /root/t, which is empty before. `word` must be in the message: the entry's name as a rule. */
static void goes_in(int expected, const char *word)
{
    struct sandbox_upload_options options = SANDBOX_UPLOAD_OPTIONS_INIT;
    char path[1024];
    int r;

    sandbox_file_remove(sandbox, "/root/t", SANDBOX_FILE_RECURSIVE, 10000, NULL);
    snprintf(path, sizeof path, "%s/a.tar", sbtest_dir());
    tar_save(&tar, path);
    options.format = SANDBOX_STREAM_TAR;
    r = sandbox_upload(sandbox, path, "/root/t", &options, 20000, &error);
    if (r != expected || (word && !(error && strstr(sandbox_error_get_message(error), word))))
        ck_abort_msg("%s: got %d and not %d: %s", word ? word : "it", r, expected, error ? sandbox_error_get_message(error) : "success");
    error = sandbox_error_unref(error);
    canaries_unharmed();
}

static void refused(const char *word)
{
    tar_end(&tar);
    goes_in(SANDBOX_EDAMAGED, word);
}

START_TEST(redteam_g01_names)
{
    static const char *const names[] = { "../evil", "a/../../evil", "..", "a/b/../..", "./../evil", "/../evil", "a/..", "/root/evil", "//evil", "/" };

    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        TAR(&tar, .name = "ok", .data = "1");
        TAR(&tar, .name = names[i], .data = "2");
        refused(names[i]);
    }
    tar_pax(&tar, "path", "x/../../evil", 12);
    TAR(&tar, .name = "harmless", .data = "1");
    refused("x/../../evil");
    TAR(&tar, .name = "././@LongLink", .type = 'L', .data = "x/../../evil");
    TAR(&tar, .name = "harmless", .data = "1");
    refused("x/../../evil");
    tar_pax(&tar, "GNU.sparse.name", "../evil", 7);
    TAR(&tar, .name = "harmless", .data = "1");
    refused("../evil");
    tar_pax(&tar, "path", "a\0../evil", 9);
    TAR(&tar, .name = "harmless", .data = "1");
    refused("NUL");
}
END_TEST

START_TEST(redteam_g01_links)
{
    static const char *const targets[] = { "/", "..", "../..", "/root", ".", "dir" };
    static const char *const outside[] = { "../canary", "/root/canary", "/etc/passwd", "dir/../../canary", "missing", "." };

    for (size_t i = 0; i < sizeof targets / sizeof *targets; i++) {
        TAR(&tar, .name = "dir", .type = '5', .mode = 0755);
        TAR(&tar, .name = "l", .type = '2', .link = targets[i]);
        TAR(&tar, .name = "l/evil", .data = "x");
        refused("l/evil");
        TAR(&tar, .name = "l", .type = '2', .link = targets[i]);
        TAR(&tar, .name = "l", .type = '5', .mode = 0777);
        refused("'l'");
        TAR(&tar, .name = "l", .type = '2', .link = targets[i]);
        TAR(&tar, .name = "h", .type = '1', .link = "l/canary");
        refused("'h'");
    }
    for (size_t i = 0; i < sizeof outside / sizeof *outside; i++) {
        TAR(&tar, .name = "h", .type = '1', .link = outside[i]);
        TAR(&tar, .name = "h", .data = "changed");
        refused("'h'");
    }
    /* a link and then a file of its name: the link goes */
    TAR(&tar, .name = "l", .type = '2', .link = "/root/canary");
    TAR(&tar, .name = "l", .data = "changed");
    tar_end(&tar);
    goes_in(0, NULL);
    ck_assert_int_eq(box_code(sandbox, "0:0", "[ ! -L /root/t/l ] && grep -q changed /root/t/l"), 0);
    /* a file and a folder of one name */
    TAR(&tar, .name = "x", .data = "1");
    TAR(&tar, .name = "x/y", .data = "2");
    refused("x/y");
    TAR(&tar, .name = "x/y", .data = "2");
    TAR(&tar, .name = "x", .data = "1");
    tar_end(&tar);
    goes_in(SANDBOX_EEXISTS, "'x'");
    TAR(&tar, .name = ".", .type = '2', .link = "/root");
    refused("'.'");
}
END_TEST

START_TEST(redteam_b07_devices)
{
    TAR(&tar, .name = "null", .type = '3', .major = 1, .minor = 3);
    tar_end(&tar);
    goes_in(SANDBOX_EUNSUPPORTED, "'null'");
    TAR(&tar, .name = "disk", .type = '4', .major = 8, .minor = 0);
    tar_end(&tar);
    goes_in(SANDBOX_EUNSUPPORTED, "'disk'");
    TAR(&tar, .name = "whiteout", .type = '3');
    tar_end(&tar);
    goes_in(SANDBOX_EUNSUPPORTED, "'whiteout'");
    tar_pax(&tar, "SCHILY.xattr.security.capability", "\1\0\0\2\377\377\377\377\0\0\0\0\377\377\377\377\0\0\0\0", 20);
    tar_pax(&tar, "SCHILY.xattr.user.overlay.opaque", "y", 1);
    tar_pax(&tar, "SCHILY.xattr.trusted.overlay.opaque", "y", 1);
    tar_pax(&tar, "SCHILY.xattr.user.fine", "1", 1);
    TAR(&tar, .name = "f", .data = "1", .mode = 06755);
    tar_end(&tar);
    goes_in(0, NULL);
    /* whiteouts are a layer's language: here they are files like any other */
    TAR(&tar, .name = ".wh.x", .data = "1");
    TAR(&tar, .name = ".wh..wh..opq", .data = "1");
    tar_end(&tar);
    goes_in(0, NULL);
    ck_assert_int_eq(box_code(sandbox, "0:0", "cd /root/t && [ -f .wh.x ] && [ -f .wh..wh..opq ]"), 0);
}
END_TEST

START_TEST(redteam_g01_sizes)
{
    static const char *const fields[] = { "\377\377\377\377\377\377\377\377\377\377\377\377", "\200\377\377\377\377\377\377\377\377\377\377\377",
                                          "99999999999", "-0000000001", "7777777777\0", "xxxxxxxxxxx" };
    static const struct {
        const char *key, *value;
    } sparse[] = {
        { "GNU.sparse.map", "0,10,5,10" }, { "GNU.sparse.map", "9999999999999,1" }, { "GNU.sparse.map", "0" }, { "GNU.sparse.map", "0,-1" },
        { "GNU.sparse.map", "5,18446744073709551615" }, { "size", "-5" }, { "size", "99999999999999999999" }, { "mtime", "abc" },
        { "uid", "4294967296" }, { "uid", "-1" },
    };

    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
        TAR(&tar, .name = "f", .data = "1", .size_field = fields[i]);
        refused(NULL);
    }
    for (size_t i = 0; i < sizeof sparse / sizeof *sparse; i++) {
        if (!strncmp(sparse[i].key, "GNU", 3))
            tar_pax(&tar, "GNU.sparse.size", "20", 2);
        tar_pax(&tar, sparse[i].key, sparse[i].value, strlen(sparse[i].value));
        TAR(&tar, .name = "f", .data = "0123456789");
        tar_end(&tar);
        if (strcmp(sparse[i].value, "4294967296") || box_privilege() != BOX_SINGLE)
            goes_in(SANDBOX_EDAMAGED, NULL);
        else
            goes_in(0, NULL); /* nobody asks for its owner */
    }
    TAR(&tar, .name = "f", .data = "1"); /* cut off: no end mark */
    goes_in(SANDBOX_EDAMAGED, "end");
    tar_raw(&tar, "not a tar", 9);
    goes_in(SANDBOX_EDAMAGED, NULL);
    tar_raw(&tar, "\037\213\010\0\0\0\0\0", 8);
    for (int i = 0; i < 2000; i++)
        tar_raw(&tar, "x", 1);
    goes_in(SANDBOX_EUNSUPPORTED, "compressed");
}
END_TEST

/* Names as long and as deep as the format has them: an error that says so, and the same for what is one too many. */
START_TEST(redteam_g01_long)
{
    static char name[20000];
    size_t n = 0;

    for (int i = 0; i < 128; i++)
        n += (size_t)snprintf(name + n, sizeof name - n, "d/");
    tar_pax(&tar, "path", name, n - 2);
    TAR(&tar, .name = "x", .data = "1");
    tar_end(&tar);
    goes_in(0, NULL);
    for (int i = 0; i < 5000; i++)
        n += (size_t)snprintf(name + n, sizeof name - n, "d/");
    tar_pax(&tar, "path", name, n - 1);
    TAR(&tar, .name = "x", .data = "1");
    tar_end(&tar);
    goes_in(SANDBOX_ELIMIT, "128");
    memset(name, 'n', 255);
    tar_pax(&tar, "path", name, 255);
    TAR(&tar, .name = "x", .data = "1");
    tar_end(&tar);
    goes_in(0, NULL);
    memset(name, 'n', 256);
    tar_pax(&tar, "path", name, 256);
    TAR(&tar, .name = "x", .data = "1");
    tar_end(&tar);
    goes_in(SANDBOX_ELIMIT, "255");
}
END_TEST

/* Somebody inside turns the folders that are written into links and back, all the time. Nothing comes to where the links lead, and what
 * the upload says is a success or a plain error. */
START_TEST(redteam_a08_upload)
{
    struct sandbox_exec_options options = SANDBOX_EXEC_OPTIONS_INIT;
    struct sandbox_exec *racer = NULL;
    char path[1024], *text;
    int good = 0;

    for (int i = 0; i < 40; i++) {
        char name[64];

        snprintf(name, sizeof name, "a/b/c/file-%d", i);
        TAR(&tar, .name = name, .data = "content", .uid = box_user() ? 1500 : 0, .gid = box_user() ? 1500 : 0);
        snprintf(name, sizeof name, "a/link-%d", i);
        TAR(&tar, .name = name, .type = '2', .link = "x", .uid = box_user() ? 1500 : 0);
    }
    tar_end(&tar);
    snprintf(path, sizeof path, "%s/a.tar", sbtest_dir());
    tar_save(&tar, path);
    free(box_sh(sandbox, "0:0", "mkdir -p /srv/t /srv/protected && chmod 755 /srv /srv/protected && chmod 777 /srv/t && : >/srv/protected/file-1"));
    options.user = box_user() ? "1500:1500" : "0:0";
    options.stdout_fd = options.stderr_fd = SANDBOX_STDIO_NULL;
    sbtest_ok(sandbox_exec(sandbox,
                           BOX_ARGV("sh", "-c",
                                    "cd /srv/t; while :; do mkdir -p a/b/c 2>/dev/null; mv a/b a/old 2>/dev/null; ln -s /srv/protected a/b 2>/dev/null; "
                                    "rm -f a/b 2>/dev/null; mv a/old a/b 2>/dev/null; mv a/b/c a/c2 2>/dev/null; ln -s /srv/protected a/b/c 2>/dev/null; "
                                    "rm -f a/b/c 2>/dev/null; mv a/c2 a/b/c 2>/dev/null; done"),
                           &options, &racer, &error),
              &error);
    for (int i = 0; i < 60; i++) {
        struct sandbox_upload_options tar_options = SANDBOX_UPLOAD_OPTIONS_INIT;
        int r;

        tar_options.format = SANDBOX_STREAM_TAR;
        r = sandbox_upload(sandbox, path, "/srv/t", &tar_options, 20000, &error);
        if (r && r != SANDBOX_EDAMAGED && r != SANDBOX_EEXISTS && r != SANDBOX_ENOTFOUND && r != SANDBOX_EBUSY && r != SANDBOX_EINVALID &&
            r != SANDBOX_EDENIED)
            sbtest_ok(r, &error);
        error = sandbox_error_unref(error);
        good += !r;
    }
    sbtest_ok(sandbox_exec_kill(racer, SIGKILL, SANDBOX_KILL_DESCENDANTS, &error), &error);
    sandbox_exec_unref(racer);
    if (!good) { /* none came between two of its moves: then at least it was not the archive that was refused */
        struct sandbox_upload_options tar_options = SANDBOX_UPLOAD_OPTIONS_INIT;

        free(box_sh(sandbox, "0:0", "rm -rf /srv/t/a"));
        tar_options.format = SANDBOX_STREAM_TAR;
        sbtest_ok(sandbox_upload(sandbox, path, "/srv/t", &tar_options, 20000, &error), &error);
    }
    text = box_sh(sandbox, "0:0", "cd /srv/protected && ls -A && stat -c '%s %u' file-1 && stat -c '%a %u' .");
    ck_assert_str_eq(text, "file-1\n0 0\n755 0");
    free(text);
    canaries_unharmed();
}
END_TEST

/* The same while a folder is read: nothing of what the links lead to comes out. */
START_TEST(redteam_a08_download)
{
    struct sandbox_exec_options options = SANDBOX_EXEC_OPTIONS_INIT;
    struct sandbox_exec *racer = NULL;
    char path[1024], leak[1100];

    free(box_sh(sandbox, "0:0", "mkdir -p /srv/t/a/b /srv/protected && chmod 700 /srv/protected && echo secret >/srv/protected/secret && "
                                "chmod 777 /srv/t /srv/t/a /srv/t/a/b; "
                                "for i in $(seq 50); do echo x >/srv/t/a/b/f-$i; done; chmod 666 /srv/t/a/b/*"));
    options.user = box_user() ? "1500:1500" : "0:0";
    options.stdout_fd = options.stderr_fd = SANDBOX_STDIO_NULL;
    sbtest_ok(sandbox_exec(sandbox,
                           BOX_ARGV("sh", "-c",
                                    "cd /srv/t/a; while :; do mv b old 2>/dev/null; ln -s /srv/protected b 2>/dev/null; rm -f b 2>/dev/null; "
                                    "mv old b 2>/dev/null; "
                                    "ln -sf /srv/protected/secret b/f-7 2>/dev/null; rm -f b/f-7; echo y >b/f-7; done"),
                           &options, &racer, &error),
              &error);
    snprintf(path, sizeof path, "%s/out", sbtest_dir());
    snprintf(leak, sizeof leak, "%s/a/b/secret", path);
    for (int i = 0; i < 60; i++) {
        struct sandbox_download_options merge = SANDBOX_DOWNLOAD_OPTIONS_INIT;
        char file[1200], *text;
        struct stat st;
        int r;

        merge.flags = SANDBOX_FILE_MERGE;
        r = sandbox_download(sandbox, "/srv/t", path, &merge, 20000, &error);
        if (r && r != SANDBOX_EDAMAGED && r != SANDBOX_EEXISTS && r != SANDBOX_EBUSY)
            sbtest_ok(r, &error);
        error = sandbox_error_unref(error);
        ck_assert_int_lt(access(leak, F_OK), 0);
        snprintf(file, sizeof file, "%s/a/b/f-7", path);
        if (lstat(file, &st) == 0 && S_ISREG(st.st_mode)) {
            text = box_read(file);
            ck_assert_ptr_null(strstr(text, "secret"));
            free(text);
        }
    }
    sbtest_ok(sandbox_exec_kill(racer, SIGKILL, SANDBOX_KILL_DESCENDANTS, &error), &error);
    sandbox_exec_unref(racer);
}
END_TEST

/* The folder of this machine that is uploaded changes into links, too: nothing of what they lead to goes in. */
START_TEST(redteam_a08_source)
{
    char path[1024], folder[1100], other[1100];
    pid_t pid;

    snprintf(path, sizeof path, "%s/src", sbtest_dir());
    snprintf(folder, sizeof folder, "%s/d", path);
    snprintf(other, sizeof other, "%s/old", path);
    ck_assert_int_eq(mkdir(path, 0755), 0);
    ck_assert_int_eq(mkdir(folder, 0755), 0);
    box_write(folder, "f", "harmless");
    pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid == 0)
        for (;;) {
            rename(folder, other);
            if (symlink(sbtest_dir(), folder) == 0)
                unlink(folder);
            rename(other, folder);
        }
    for (int i = 0; i < 60; i++) {
        int r = sandbox_upload(sandbox, path, "/root/t", NULL, 20000, &error);

        if (r && r != SANDBOX_EBUSY && r != SANDBOX_EDAMAGED && r != SANDBOX_EEXISTS)
            sbtest_ok(r, &error);
        error = sandbox_error_unref(error);
        ck_assert_int_eq(box_code(sandbox, "0:0", "[ -e /root/t ] && find /root/t -name canary | grep -q ."), 1);
        sandbox_file_remove(sandbox, "/root/t", SANDBOX_FILE_RECURSIVE, 10000, NULL);
    }
    kill(pid, SIGKILL);
    ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
}
END_TEST

static int left_over(char *name)
{
    DIR *stream = opendir(sbtest_dir());
    struct dirent *d;
    int n = 0;

    ck_assert_ptr_nonnull(stream);
    while ((d = readdir(stream)))
        if (!strncmp(d->d_name, ".sandbox-", 9)) {
            n++;
            if (name)
                snprintf(name, 600, "%s/%s", sbtest_dir(), d->d_name);
        }
    closedir(stream);
    return n;
}

/* A program that is killed just as a download replaces a file: what it leaves goes with the next download to the same place, unless somebody holds it. */
START_TEST(redteam_d01_download)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_renameat2, 1, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_renameat, 0, 1), /* the C library's, without flags */
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = { sizeof code / sizeof *code, code };
    char target[600], name[600], *text;
    int status, held;
    pid_t pid;

    snprintf(target, sizeof target, "%s/target", sbtest_dir());
    box_write(sbtest_dir(), "target", "before");
    pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid == 0) {
        struct sandbox_host *own = box_host();
        struct sandbox *same = NULL;

        if (sandbox_open(own, sandbox_get_id(sandbox), &same, NULL) || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
            prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program))
            _exit(1);
        _exit(sandbox_download(same, "/root/canary", target, NULL, 20000, NULL) ? 2 : 3);
    }
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert_msg(WIFSIGNALED(status) && WTERMSIG(status) == SIGSYS, "%x", status);
    ck_assert_int_eq(left_over(name), 1);
    text = box_read(target);
    ck_assert_str_eq(text, "before");
    free(text);
    held = open(name, O_RDONLY | O_CLOEXEC);
    ck_assert_int_eq(flock(held, LOCK_EX | LOCK_NB), 0);
    sbtest_ok(sandbox_download(sandbox, "/root/canary", target, NULL, 20000, &error), &error);
    ck_assert_int_eq(left_over(NULL), 1);
    close(held);
    sbtest_ok(sandbox_download(sandbox, "/root/canary", target, NULL, 20000, &error), &error);
    ck_assert_int_eq(left_over(NULL), 0);
    text = box_read(target);
    ck_assert_str_eq(text, "of the sandbox");
    free(text);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("redteam-files");
    TCase *c = sbtest_case("files");

    tcase_set_timeout(c, 120);
    tcase_add_checked_fixture(c, set_up, tear_down);
    tcase_add_test(c, redteam_g01_names);
    tcase_add_test(c, redteam_g01_links);
    tcase_add_test(c, redteam_b07_devices);
    tcase_add_test(c, redteam_g01_sizes);
    tcase_add_test(c, redteam_g01_long);
    tcase_add_test(c, redteam_a08_upload);
    tcase_add_test(c, redteam_a08_download);
    tcase_add_test(c, redteam_a08_source);
    tcase_add_test(c, redteam_d01_download);
    suite_add_tcase(suite, c);
    return box_main(suite);
}
