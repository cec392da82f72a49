/* SPDX-License-Identifier: Apache-2.0
 * Uploads and downloads: what survives both ways, what archives may not do, and what is left when they fail. */
#include "box.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
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

/* A path in the test's folder; four at a time. */
static const char *in_dir(const char *name)
{
    static char paths[4][1024];
    static int turn;
    char *path = paths[turn++ % 4];

    snprintf(path, sizeof *paths, "%s/%s", sbtest_dir(), name);
    return path;
}

/* On the machine, by sh in the test's folder; what it printed: free() it. It must end with 0. */
static char *on_machine(const char *format, ...) __attribute__((format(printf, 1, 2)));
static char *on_machine(const char *format, ...)
{
    char script[4096], command[6144], *text = NULL;
    char *argv[] = { (char[]){ "sh" }, (char[]){ "-c" }, command, NULL };
    size_t size = 0, room = 1 << 22;
    posix_spawn_file_actions_t actions;
    va_list ap;
    int status, fds[2];
    ssize_t n;
    pid_t pid;

    va_start(ap, format);
    vsnprintf(script, sizeof script, format, ap);
    va_end(ap);
    snprintf(command, sizeof command, "cd '%s' && tools() { python3 '%s' \"$@\"; } && %s", sbtest_dir(), getenv("SBTEST_COPY_TOOLS"), script);
    ck_assert_int_eq(pipe2(fds, O_CLOEXEC), 0);
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, fds[1], 1);
    ck_assert_int_eq(posix_spawn(&pid, "/bin/sh", &actions, NULL, argv, environ), 0);
    posix_spawn_file_actions_destroy(&actions);
    close(fds[1]);
    text = malloc(room);
    ck_assert_ptr_nonnull(text);
    while (size < room - 1 && (n = read(fds[0], text + size, room - 1 - size)) > 0)
        size += (size_t)n;
    text[size] = 0;
    close(fds[0]);
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert_msg(status == 0, "'%s' ended with %d: %s", script, status, text);
    return text;
}

static void do_on_machine(const char *script)
{
    free(on_machine("%s", script));
}

static void same(const char *a, const char *b)
{
    char *one = on_machine("tools show '%s'", a), *two = on_machine("tools show '%s'", b);

    if (strcmp(one, two)) {
        box_write(sbtest_dir(), "one", one);
        box_write(sbtest_dir(), "two", two);
        ck_abort_msg("%s and %s differ: %s", a, b, on_machine("diff one two | head -40 || true"));
    }
    free(one);
    free(two);
}

static void up(const char *name, const char *target)
{
    sbtest_ok(sandbox_upload(sandbox, in_dir(name), target, NULL, 60000, &error), &error);
}

static void down(const char *source, const char *name)
{
    sbtest_ok(sandbox_download(sandbox, source, in_dir(name), NULL, 60000, &error), &error);
}

static struct sandbox_file_info info_of(const char *path)
{
    struct sandbox_file_info info = SANDBOX_FILE_INFO_INIT;

    sbtest_ok(sandbox_file_stat(sandbox, path, 0, 10000, &info, &error), &error);
    return info;
}

/* A folder with one of everything, up and down again, before the sandbox is started. */
START_TEST(copy_f20_folder)
{
    struct sandbox_spec *spec = box_spec();
    struct sandbox_file_info info;

    sbtest_ok(sandbox_create(host, spec, 20000, &sandbox, &error), &error);
    sandbox_spec_unref(spec);
    do_on_machine("tools tree tree && { [ $(id -u) = 0 ] || chmod 400 tree/mode-000; }");
    up("tree", "/root/tree");
    info = info_of("/root/tree/folder");
    ck_assert_int_eq(info.mode, 0751);
    ck_assert_int_eq(info.uid, 0);
    ck_assert_int_eq(info.mtime_ns, 1500000000000000007);
    ck_assert_int_eq(info_of("/root/tree/mode-755").mode, 0755);
    ck_assert_int_eq(info_of("/root/tree/mode-600").mode, 0600);
    ck_assert_int_eq(info_of("/root/tree/mode-700").mode, 0700);
    ck_assert_int_eq(info_of("/root/tree/mode-700").mtime_ns, 1600000000000000000 + 0700);
    ck_assert_int_eq(info_of("/root/tree/folder/sticky").mode, 01777);
    ck_assert_int_eq(info_of("/root/tree/fifo").type, SANDBOX_FILE_FIFO);
    down("/root/tree", "back");
    same("tree", "back");
    /* into what is there: an empty folder is taken, another is not, and is left alone */
    do_on_machine("mkdir empty full && echo mine >full/mine");
    down("/root/tree", "empty");
    same("tree", "empty");
    sbtest_fails(sandbox_download(sandbox, "/root/tree", in_dir("full"), NULL, 60000, &error), SANDBOX_EEXISTS, &error);
    do_on_machine("[ \"$(ls -A full)\" = mine ] && [ $(ls -A | wc -l) = 4 ]");
}
END_TEST

/* The same between machines that are started: again over what is there, which stays as far as the archive doesn't have it. */
START_TEST(copy_again)
{
    struct sandbox_download_options merge = SANDBOX_DOWNLOAD_OPTIONS_INIT;

    start();
    do_on_machine("mkdir -p a/b && echo 1 >a/b/1 && echo old >a/2 && chmod 700 a");
    free(box_sh(sandbox, "0:0", "mkdir -m 755 /root/t && echo kept >/root/t/kept && ln -s kept /root/t/2"));
    up("a", "/root/t");
    free(box_sh(sandbox, "0:0", "[ $(cat /root/t/b/1 /root/t/2 /root/t/kept | tr '\\n' ' ' | wc -w) = 3 ] && [ ! -L /root/t/2 ] && grep -q kept /root/t/kept"));
    ck_assert_int_eq(info_of("/root/t").mode, 0755); /* it was there before */
    do_on_machine("echo new >a/2");
    up("a", "/root/t");
    merge.flags = SANDBOX_FILE_MERGE;
    do_on_machine("mkdir m && echo mine >m/mine && ln -s /nowhere m/2");
    sbtest_ok(sandbox_download(sandbox, "/root/t", in_dir("m"), &merge, 60000, &error), &error);
    do_on_machine("[ \"$(cat m/2)\" = new ] && [ ! -L m/2 ] && [ \"$(cat m/mine)\" = mine ] && [ -f m/b/1 ]");
    sbtest_ok(sandbox_download(sandbox, "/root/t", in_dir("fresh"), &merge, 60000, &error), &error);
    do_on_machine("[ -f fresh/b/1 ]");
}
END_TEST

START_TEST(copy_f20_f23_file)
{
    struct sandbox_upload_options options = SANDBOX_UPLOAD_OPTIONS_INIT;
    struct sandbox_download_options exclusive = SANDBOX_DOWNLOAD_OPTIONS_INIT;
    struct stat st;
    char *text;

    start();
    do_on_machine("mkdir secret && echo one >secret/f && echo two >secret/other && chmod 4755 secret/f && touch -d '2001-02-03 04:05:06.123456789' secret/f");
    up("secret/f", "/root/f");
    ck_assert_int_eq(info_of("/root/f").mode, 04755);
    ck_assert_int_eq(info_of("/root/f").mtime_ns % 1000000000, 123456789);
    ck_assert_int_eq(box_code(sandbox, "0:0", "[ -e /root/other ]"), 1);
    down("/root/f", "back");
    ck_assert_int_eq(stat(in_dir("back"), &st), 0);
    ck_assert_uint_eq(st.st_mode & 07777, 0755); /* nobody's rights come along */
    ck_assert_int_eq(st.st_mtim.tv_nsec, 123456789);
    ck_assert_uint_eq(st.st_uid, geteuid());
    do_on_machine("cmp back secret/f && ln -s /nowhere link");
    down("/root/f", "link"); /* replaced, not followed */
    do_on_machine("[ ! -L link ] && cmp link secret/f && [ \"$(ls -A | tr '\\n' ' ')\" = 'back link secret ' ]");
    exclusive.flags = SANDBOX_FILE_EXCLUSIVE;
    sbtest_fails(sandbox_download(sandbox, "/root/f", in_dir("back"), &exclusive, 10000, &error), SANDBOX_EEXISTS, &error);
    sbtest_fails(sandbox_download(sandbox, "/root/f", in_dir("secret"), NULL, 10000, &error), SANDBOX_EEXISTS, &error);
    sbtest_fails(sandbox_download(sandbox, "/root/f", in_dir("no/such/folder"), NULL, 10000, &error), SANDBOX_ENOTFOUND, &error);
    sbtest_fails(sandbox_download(sandbox, "/root/absent", in_dir("x"), NULL, 10000, &error), SANDBOX_ENOTFOUND, &error);
    sbtest_fails(sandbox_upload(sandbox, in_dir("absent"), "/root/x", NULL, 10000, &error), SANDBOX_ENOTFOUND, &error);
    sbtest_fails(sandbox_upload(sandbox, in_dir("secret/f"), "/root", NULL, 10000, &error), SANDBOX_EEXISTS, &error);
    sbtest_fails(sandbox_upload(sandbox, "/dev/null", "/root/x", NULL, 10000, &error), SANDBOX_EINVALID, &error);
    options.mode = 0600;
    options.flags = SANDBOX_FILE_PARENTS;
    sbtest_ok(sandbox_upload(sandbox, in_dir("secret/f"), "/root/p/q/f", &options, 10000, &error), &error);
    ck_assert_int_eq(info_of("/root/p/q/f").mode, 0600);
    options.flags = SANDBOX_FILE_EXCLUSIVE;
    sbtest_fails(sandbox_upload(sandbox, in_dir("secret/f"), "/root/p/q/f", &options, 10000, &error), SANDBOX_EEXISTS, &error);
    options.max_bytes = 3;
    options.flags = 0;
    sbtest_fails(sandbox_upload(sandbox, in_dir("secret/f"), "/root/g", &options, 10000, &error), SANDBOX_ELIMIT, &error);
    text = box_sh(sandbox, "0:0", "ls -A /root | tr '\\n' ' '");
    ck_assert_str_eq(text, "f p ");
    free(text);
    sbtest_ok(sandbox_stop(sandbox, 0, 10000, &error), &error);
    sbtest_fails(sandbox_upload(sandbox, in_dir("secret"), "/root/g", NULL, 10000, &error), SANDBOX_ENOTRUNNING, &error);
    sbtest_fails(sandbox_download(sandbox, "/root/f", in_dir("x"), NULL, 10000, &error), SANDBOX_ENOTRUNNING, &error);
}
END_TEST

static void upload_tar(const char *name, const char *target, int expected)
{
    struct sandbox_upload_options options = SANDBOX_UPLOAD_OPTIONS_INIT;
    int r;

    options.format = SANDBOX_STREAM_TAR;
    options.source_fd = open(in_dir(name), O_RDONLY | O_CLOEXEC);
    ck_assert_int_ge(options.source_fd, 0);
    r = sandbox_upload(sandbox, NULL, target, &options, 60000, &error);
    close(options.source_fd);
    if (r != expected)
        ck_abort_msg("%s: %d and not %d: %s", name, r, expected, error ? sandbox_error_get_message(error) : "");
    error = sandbox_error_unref(error);
}

/* What GNU tar writes in each of its forms, ends up as what GNU tar makes of it. */
START_TEST(copy_tar_in)
{
    static const char *const forms[] = { "-H v7", "-H ustar", "-H gnu", "-H oldgnu", "-H posix --xattrs", "-H gnu -S", "-H posix -S --sparse-version=0.0",
                                         "-H posix -S --sparse-version=0.1", "-H posix -S --sparse-version=1.0" };

    start();
    do_on_machine("tools tree tree && { [ $(id -u) = 0 ] || chmod 400 tree/mode-000; }; rm tree/sparse && truncate -s 20M tree/sparse && "
                  "echo end >>tree/sparse && printf x | dd of=tree/sparse bs=1 seek=5000000 conv=notrunc status=none; rm -f tree/old");
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        /* the oldest forms have no room for long names */
        free(on_machine("rm -rf gnu back t.tar; tar -cf t.tar %s --exclude='ddd*' %s -C tree . && mkdir gnu && tar -xpf t.tar --xattrs -C gnu && "
                        "find gnu -newermt '2020-01-01' | wc -l",
                        forms[i], i < 2 ? "--exclude=dangling --exclude=fifo" : ""));
        sandbox_file_remove(sandbox, "/root/t", SANDBOX_FILE_RECURSIVE, 10000, NULL);
        upload_tar("t.tar", "/root/t", 0);
        down("/root/t", "back");
        same("gnu", "back");
    }
}
END_TEST

/* What comes out is read by GNU tar and by Python; through a pipe, a socket and a descriptor that doesn't block. */
START_TEST(copy_tar_out)
{
    struct sandbox_download_options options = SANDBOX_DOWNLOAD_OPTIONS_INIT;
    struct sandbox_op *op = NULL;
    char *text;
    int fds[2], out;

    start();
    do_on_machine("tools tree tree && { [ $(id -u) = 0 ] || chmod 400 tree/mode-000; }");
    up("tree", "/root/tree");
    options.format = SANDBOX_STREAM_TAR;
    for (int i = 0; i < 3; i++) {
        static char data[65536];
        ssize_t n;

        if (i == 0)
            ck_assert_int_eq(pipe2(fds, O_CLOEXEC), 0);
        else
            ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | (i == 2 ? SOCK_NONBLOCK : 0), 0, fds), 0);
        options.target_fd = fds[1];
        options.top = i == 1 ? "other" : NULL;
        sbtest_ok(sandbox_download_begin(sandbox, "/root/tree", NULL, &options, &op, &error), &error);
        close(fds[1]);
        out = open(in_dir("t.tar"), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
        for (;;) {
            n = read(fds[0], data, sizeof data);
            if (n < 0 && errno == EAGAIN) {
                struct pollfd p = { .fd = fds[0], .events = POLLIN };

                poll(&p, 1, -1);
                continue;
            }
            if (n <= 0)
                break;
            ck_assert_int_eq(write(out, data, (size_t)n), n);
        }
        close(out);
        close(fds[0]);
        sbtest_ok(sandbox_op_wait(op, 10000, &error), &error);
        op = sandbox_op_unref(op);
        free(on_machine("rm -rf back && mkdir back && tar -xpf t.tar --xattrs -C back"));
        same("tree", i == 1 ? "back/other" : "back");
    }
    text = on_machine("tools show-tar t.tar | wc -l; find tree -printf x | wc -c");
    ck_assert_int_eq(atoi(text), atoi(strchr(text, '\n')));
    free(text);
    /* one file as a tar has its own name */
    options.target_fd = open(in_dir("one.tar"), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    options.top = NULL;
    sbtest_ok(sandbox_download(sandbox, "/root/tree/link", NULL, &options, 10000, &error), &error);
    close(options.target_fd);
    text = on_machine("tar -tf one.tar");
    ck_assert_str_eq(text, "link\n");
    free(text);
    /* a reader that goes away */
    ck_assert_int_eq(pipe2(fds, O_CLOEXEC), 0);
    options.target_fd = fds[1];
    sbtest_ok(sandbox_download_begin(sandbox, "/root/tree", NULL, &options, &op, &error), &error);
    close(fds[1]);
    close(fds[0]);
    sbtest_fails(sandbox_op_wait(op, 10000, &error), SANDBOX_EIO, &error);
    sandbox_op_unref(op);
}
END_TEST

/* Owners: the caller's own are root's inside; others stay numbers; what can't be mapped is said, by its name. */
START_TEST(copy_owners)
{
    struct sandbox_upload_options options = SANDBOX_UPLOAD_OPTIONS_INIT;
    struct sandbox_download_options keep = SANDBOX_DOWNLOAD_OPTIONS_INIT;
    char *text;

    start();
    do_on_machine("mkdir t && echo 1 >t/own && echo 2 >t/other && echo 3 >t/third");
    keep.flags = SANDBOX_FILE_KEEP_OWNERS;
    if (box_privilege() != BOX_ROOT) {
        up("t", "/root/t");
        ck_assert_int_eq(info_of("/root/t/own").uid, 0);
        options.uid = 1500;
        sbtest_fails(sandbox_upload(sandbox, in_dir("t"), "/root/u", &options, 10000, &error),
                     box_privilege() == BOX_SINGLE ? SANDBOX_EUNSUPPORTED : 0, &error);
        sbtest_fails(sandbox_download(sandbox, "/root/t", in_dir("back"), &keep, 10000, &error), SANDBOX_EDENIED, &error);
        return;
    }
    do_on_machine("chown 1000:1001 t/other");
    up("t", "/root/t");
    text = box_sh(sandbox, "0:0", "cd /root/t && stat -c %u:%g own other . | tr '\\n' ' '");
    ck_assert_str_eq(text, "0:0 1000:1001 0:0 ");
    free(text);
    down("/root/t", "back");
    free(on_machine("[ \"$(stat -c %%u:%%g back/own back/other back | tr '\\n' ' ')\" = '0:0 0:0 0:0 ' ]"));
    sbtest_ok(sandbox_download(sandbox, "/root/t", in_dir("kept"), &keep, 10000, &error), &error);
    free(on_machine("[ \"$(stat -c %%u:%%g kept/own kept/other kept | tr '\\n' ' ')\" = '0:0 1000:1001 0:0 ' ]"));
    options.uid = options.gid = 1500;
    sbtest_ok(sandbox_upload(sandbox, in_dir("t"), "/root/u", &options, 10000, &error), &error);
    text = box_sh(sandbox, "0:0", "cd /root/u && stat -c %u:%g own other . | tr '\\n' ' '");
    ck_assert_str_eq(text, "1500:1500 1500:1500 1500:1500 ");
    free(text);
    do_on_machine("chown 200000 t/third");
    ck_assert_int_eq(sandbox_upload(sandbox, in_dir("t"), "/root/v", NULL, 10000, &error), SANDBOX_EUNSUPPORTED);
    ck_assert_msg(strstr(sandbox_error_get_message(error), "third") != NULL, "%s", sandbox_error_get_message(error));
    error = sandbox_error_unref(error);
}
END_TEST

/* 10,000 files in one stream; a large file with little memory, both ways. */
START_TEST(copy_f21)
{
    const char *size = getenv("SBTEST_LARGE");
    struct rusage usage;
    char *text;

    start();
    free(on_machine("mkdir many && tools many many 10000; mkdir big && head -c %s /dev/urandom >big/f", size && *size ? size : "256M"));
    up("many", "/root/many");
    text = box_sh(sandbox, "0:0", "find /root/many -type f | wc -l");
    ck_assert_int_eq(atoi(text), 10000);
    free(text);
    up("big/f", "/root/big");
    down("/root/big", "back");
    do_on_machine("cmp big/f back && rm back");
    up("big", "/root/folder");
    sbtest_ok(sandbox_file_remove(sandbox, "/root/big", 0, 10000, &error), &error);
    down("/root/folder", "back");
    do_on_machine("cmp big/f back/f && rm -rf back big");
    down("/root/many", "many-back");
    same("many", "many-back");
    sandbox_stop(sandbox, 0, 10000, NULL); /* its processes count among the children then */
    ck_assert_int_eq(getrusage(RUSAGE_SELF, &usage), 0);
#ifndef __SANITIZE_ADDRESS__
    ck_assert_int_lt(usage.ru_maxrss, 64 << 10);
#endif
}
END_TEST

/* A cancel, and a time that is too short: the server ends, and nothing half-done is there. */
/* A folder's descriptor would lead a server that was taken over out of the sandbox; one of the wrong direction can only fail later. */
START_TEST(copy_descriptors)
{
    struct sandbox_upload_options in = SANDBOX_UPLOAD_OPTIONS_INIT;
    struct sandbox_download_options out = SANDBOX_DOWNLOAD_OPTIONS_INIT;
    const int how[] = { O_RDONLY | O_DIRECTORY, O_PATH | O_DIRECTORY, O_PATH, -1 };

    start();
    in.format = out.format = SANDBOX_STREAM_FILE;
    for (size_t i = 0; i < sizeof how / sizeof *how; i++) {
        const char *path = how[i] & O_DIRECTORY && how[i] > 0 ? sbtest_dir() : "/dev/null";

        in.source_fd = open(path, how[i] < 0 ? O_WRONLY | O_CLOEXEC : how[i] | O_CLOEXEC);
        out.target_fd = open(path, how[i] < 0 ? O_RDONLY | O_CLOEXEC : how[i] | O_CLOEXEC);
        ck_assert(in.source_fd >= 0 && out.target_fd >= 0);
        ck_assert_int_eq(sandbox_upload(sandbox, NULL, "/root/f", &in, 10000, &error), SANDBOX_EINVALID);
        ck_assert_str_eq(sandbox_error_get_field(error), "source_fd");
        error = sandbox_error_unref(error);
        ck_assert_int_eq(sandbox_download(sandbox, "/etc/passwd", NULL, &out, 10000, &error), SANDBOX_EINVALID);
        ck_assert_str_eq(sandbox_error_get_field(error), "target_fd");
        error = sandbox_error_unref(error);
        close(in.source_fd);
        close(out.target_fd);
    }
}
END_TEST

START_TEST(copy_cancel)
{
    struct sandbox_upload_options options = SANDBOX_UPLOAD_OPTIONS_INIT;
    struct sandbox_op *op = NULL;
    char *text;
    int fds[2];
    long begun;

    start();
    ck_assert_int_eq(pipe2(fds, O_CLOEXEC), 0);
    options.source_fd = fds[0];
    options.format = SANDBOX_STREAM_FILE;
    ck_assert_int_eq(write(fds[1], "half", 4), 4);
    sbtest_ok(sandbox_upload_begin(sandbox, NULL, "/root/f", &options, &op, &error), &error);
    sbtest_fails(sandbox_op_wait(op, 200, &error), SANDBOX_ETIMEDOUT, &error);
    text = box_sh(sandbox, "0:0", "ls -A /root | wc -l");
    ck_assert_str_eq(text, "1");
    free(text);
    begun = box_now();
    ck_assert_int_eq(sandbox_op_cancel(op), 0);
    sbtest_fails(sandbox_op_wait(op, 10000, &error), SANDBOX_ECANCELLED, &error);
    ck_assert_int_lt(box_now() - begun, sbtest_slowly(2000));
    op = sandbox_op_unref(op);
    sbtest_fails(sandbox_upload(sandbox, NULL, "/root/f", &options, 100, &error), SANDBOX_ETIMEDOUT, &error);
    options.format = SANDBOX_STREAM_TAR;
    sbtest_fails(sandbox_upload(sandbox, NULL, "/root/t", &options, 100, &error), SANDBOX_ETIMEDOUT, &error);
    text = box_sh(sandbox, "0:0", "find /root -type f | wc -l");
    ck_assert_str_eq(text, "0");
    free(text);
    do_on_machine("mkdir many && tools many many 3000");
    up("many", "/root/many");
    sbtest_fails(sandbox_download(sandbox, "/root/many", in_dir("back"), NULL, 30, &error), SANDBOX_ETIMEDOUT, &error);
    do_on_machine("[ \"$(ls -A)\" = many ]");
    close(fds[0]);
    close(fds[1]);
}
END_TEST

/* The library's process dies in the middle: nothing of it is left on the machine, nor half a file inside. */
START_TEST(copy_killed)
{
    static const char *const kinds[] = { "folder down", "file down", "file up", "folder up" };

    start();
    do_on_machine("mkdir many && tools many many 2000 && mkdir work && head -c 32M /dev/zero | tr '\\0' x >big && mkdir out");
    up("many", "/root/many");
    up("big", "/root/big");
    for (int i = 0; i < 16; i++) {
        int kind = i % 4, status;
        pid_t pid = fork();

        ck_assert_int_ge(pid, 0);
        if (pid == 0) { /* a handle of its own: this one's is not to be used in a child */
            struct sandbox_host_options options = SANDBOX_HOST_OPTIONS_INIT;
            struct sandbox_host *own = NULL;
            struct sandbox *s = NULL;
            char id[SANDBOX_ID_LENGTH + 1];

            snprintf(id, sizeof id, "%s", sandbox_get_id(sandbox));
            options.state_root = box_root();
            if (sandbox_host_open("local:", &options, 20000, &own, NULL) || sandbox_open(own, id, &s, NULL))
                _exit(9);
            if (kind == 0)
                sandbox_download(s, "/root/many", in_dir("out/many"), NULL, 60000, NULL);
            else if (kind == 1)
                sandbox_download(s, "/root/big", in_dir("out/big"), NULL, 60000, NULL);
            else if (kind == 2)
                sandbox_upload(s, in_dir("big"), "/root/new/big", NULL, 60000, NULL);
            else
                sandbox_upload(s, in_dir("many"), "/root/new/many", NULL, 60000, NULL);
            _exit(0);
        }
        usleep((useconds_t)(5000 + i * 4000));
        kill(pid, SIGKILL);
        ck_assert_int_eq(waitpid(pid, &status, 0), pid);
        ck_assert_msg(!WIFEXITED(status) || WEXITSTATUS(status) == 0, "%s", kinds[kind]);
        for (int k = 0; k < 200; k++) { /* helper and server see it and end */
            char *text = on_machine("ls -A out | grep -v -x -e many -e big | wc -l");
            int left = atoi(text);

            free(text);
            if (!left)
                break;
            ck_assert_msg(k < 199, "%s left something", kinds[kind]);
            usleep(20000);
        }
        do_on_machine("if [ -e out/many ]; then [ $(find out/many -type f | wc -l) = 2000 ]; fi && "
                      "if [ -e out/big ]; then cmp out/big big; fi; rm -rf out/*");
    }
    usleep(700000);
    ck_assert_int_eq(box_code(sandbox, "0:0", "[ $(find /root -name '.sandbox-*' | wc -l) = 0 ]"), 0);
}
END_TEST

/* A full disk, on either side. */
START_TEST(copy_f54)
{
    struct sandbox_mount_options small = SANDBOX_MOUNT_OPTIONS_INIT;
    struct sandbox_spec *spec = box_spec();
    char *text;

    small.type = SANDBOX_MOUNT_TMPFS;
    small.target = "/small";
    small.max_bytes = 1 << 20;
    sbtest_ok(sandbox_spec_add_mount(spec, &small, &error), &error);
    sandbox = box_start(host, spec);
    do_on_machine("mkdir t && head -c 100000 /dev/urandom >t/a && head -c 3M /dev/urandom >t/b");
    sbtest_fails(sandbox_upload(sandbox, in_dir("t"), "/small/t", NULL, 10000, &error), SANDBOX_ENOSPACE, &error);
    sbtest_fails(sandbox_upload(sandbox, in_dir("t/b"), "/small/b", NULL, 10000, &error), SANDBOX_ENOSPACE, &error);
    text = box_sh(sandbox, "0:0", "cd /small && find . -type f");
    ck_assert_str_eq(text, "./t/a"); /* what was whole before */
    free(text);
    sbtest_ok(sandbox_file_remove(sandbox, "/small/t", SANDBOX_FILE_RECURSIVE, 10000, &error), &error);
    free(box_sh(sandbox, "0:0", "mkdir /root/s; cd /root/s; truncate -s 1T huge; head -c 5000000 /dev/urandom >real"));
    {
        struct sandbox_download_options options = SANDBOX_DOWNLOAD_OPTIONS_INIT;

        options.max_bytes = 4000000;
        sbtest_fails(sandbox_download(sandbox, "/root/s", in_dir("back"), &options, 10000, &error), SANDBOX_ELIMIT, &error);
        sbtest_fails(sandbox_download(sandbox, "/root/s/real", in_dir("back"), &options, 10000, &error), SANDBOX_ELIMIT, &error);
        options.max_bytes = 0;
        options.max_entries = 2;
        sbtest_fails(sandbox_download(sandbox, "/root/s", in_dir("back"), &options, 10000, &error), SANDBOX_ELIMIT, &error);
    }
    do_on_machine("[ \"$(ls -A)\" = t ]");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("copy");
    TCase *c = sbtest_case("copy");

    tcase_set_timeout(c, getenv("SBTEST_LARGE") ? 600 : 120);
    tcase_add_checked_fixture(c, set_up, tear_down);
    tcase_add_test(c, copy_f20_folder);
    tcase_add_test(c, copy_again);
    tcase_add_test(c, copy_f20_f23_file);
    tcase_add_test(c, copy_tar_in);
    tcase_add_test(c, copy_tar_out);
    tcase_add_test(c, copy_owners);
    tcase_add_test(c, copy_f21);
    tcase_add_test(c, copy_descriptors);
    tcase_add_test(c, copy_cancel);
    tcase_add_test(c, copy_killed);
    tcase_add_test(c, copy_f54);
    suite_add_tcase(suite, c);
    return box_main(suite);
}
