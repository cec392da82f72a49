/* SPDX-License-Identifier: Apache-2.0
 * Files below a descriptor, in folders that an attacker has prepared; and starting programs. */
#include <sbtest.h>

#include "fs.h"
#include "process.h"
#include "util.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static int top = -1;

static void begin(void)
{
    top = open(sbtest_dir(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    ck_assert_int_ge(top, 0);
}

static void end(void)
{
    top = sb_close(top);
}

static void make(const char *name, const char *text)
{
    SB_CLOSE int fd = openat(top, name, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);

    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(sb_write_all(fd, text, strlen(text)), 0);
}

static int opens(int fd)
{
    int r = fd < 0 ? fd : 0;

    sb_close(fd);
    return r;
}

START_TEST(beneath_never_leaves_nor_follows)
{
    ck_assert_int_eq(mkdirat(top, "d", 0700), 0);
    make("file", "text");
    ck_assert_int_eq(symlinkat("file", top, "link"), 0);
    ck_assert_int_eq(symlinkat("/etc", top, "d/out"), 0);
    ck_assert_int_eq(opens(sb_open_beneath(top, "file", O_RDONLY, 0)), 0);
    ck_assert_int_eq(opens(sb_open_beneath(top, "link", O_RDONLY, 0)), -ELOOP);
    ck_assert_int_eq(opens(sb_open_beneath(top, "d/out/passwd", O_RDONLY, 0)), -ELOOP);
    ck_assert_int_eq(opens(sb_open_beneath(top, "../x", O_RDONLY, 0)), -EXDEV);
    ck_assert_int_eq(opens(sb_open_beneath(top, "/etc/passwd", O_RDONLY, 0)), -EXDEV);
    ck_assert_int_eq(opens(sb_open_in_root(top, "/../../file", O_RDONLY, 0)), 0);
    ck_assert_int_eq(opens(sb_open_in_root(top, "link", O_RDONLY, 0)), 0);
    ck_assert_int_eq(opens(sb_open_in_root(top, "d/out/passwd", O_RDONLY, 0)), -ENOENT);
    ck_assert_int_eq(fcntl(top, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
}
END_TEST

START_TEST(folders_are_folders)
{
    make("file", "");
    ck_assert_int_eq(symlinkat("/tmp", top, "link"), 0);
    ck_assert_int_eq(opens(sb_open_dir(top, "new", 0700)), 0);
    ck_assert_int_eq(opens(sb_open_dir(top, "new", 0700)), 0);
    ck_assert_int_eq(opens(sb_open_dir(top, "file", 0700)), -ENOTDIR);
    ck_assert_int_lt(opens(sb_open_dir(top, "link", 0700)), 0);
}
END_TEST

START_TEST(paths_are_made)
{
    char path[400];
    struct stat st;
    int fd;

    snprintf(path, sizeof path, "%s/a/b/c", sbtest_dir());
    fd = sb_make_path(path);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(fstat(fd, &st), 0);
    ck_assert_uint_eq(st.st_mode & 0777, 0700);
    sb_close(fd);
    ck_assert_int_eq(opens(sb_make_path(path)), 0);
    ck_assert_int_eq(sb_make_path("relative"), -EINVAL);
    ck_assert_int_eq(sb_make_path("/a/../b"), -EINVAL);
    snprintf(path, sizeof path, "%s/a/link", sbtest_dir());
    ck_assert_int_eq(symlink("/tmp", path), 0);
    ck_assert_int_lt(sb_make_path(path), 0);
}
END_TEST

START_TEST(files_are_read_and_written_whole)
{
    SB_FREE char *text = NULL;
    SB_FREE char *big = calloc(1, 100001);
    size_t size = 0;
    struct stat st;

    ck_assert_int_eq(sb_write_file(top, "file", "abc\0def", 7, 1), 0);
    ck_assert_int_eq(fstatat(top, "file", &st, 0), 0);
    ck_assert_uint_eq(st.st_mode & 07777, 0600);
    ck_assert_int_eq(sb_read_file(top, "file", 7, &text, &size), 0);
    ck_assert_uint_eq(size, 7);
    ck_assert_int_eq(memcmp(text, "abc\0def", 8), 0);
    free(SB_TAKE_PTR(text));
    ck_assert_int_eq(sb_read_file(top, "file", 6, &text, &size), -EFBIG);
    ck_assert_ptr_null(text);
    memset(big, 'b', 100000);
    make("file", big);
    ck_assert_int_eq(sb_read_file(top, "file", 100000, &text, NULL), 0);
    ck_assert_str_eq(text, big);
    free(SB_TAKE_PTR(text));
    ck_assert_int_eq(symlinkat("file", top, "link"), 0);
    ck_assert_int_eq(sb_read_file(top, "link", 100, &text, NULL), -ELOOP);
    ck_assert_int_eq(mkfifoat(top, "fifo", 0600), 0);
    ck_assert_int_eq(sb_read_file(top, "fifo", 100, &text, NULL), -EINVAL);
    ck_assert_int_eq(sb_read_file(top, "absent", 100, &text, NULL), -ENOENT);
    ck_assert_int_eq(sb_write_file(top, "link", "replaced, not followed", 22, 0), 0);
    ck_assert_int_eq(sb_read_file(top, "file", 100000, &text, NULL), 0);
    ck_assert_str_eq(text, big);
}
END_TEST

/* Deeper than any descriptor limit, with folders that can't be entered, links, a fifo, and names of our own kind. */
START_TEST(a_hostile_tree_is_removed)
{
    SB_CLOSE int at = -1;
    int first;

    ck_assert_int_eq(mkdirat(top, "tree", 0700), 0);
    at = first = openat(top, "tree", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    ck_assert_int_eq(symlinkat("/etc", first, "etc"), 0);
    ck_assert_int_eq(mkfifoat(first, "fifo", 0), 0);
    ck_assert_int_eq(mkdirat(first, ".rm-0123456789abcdef.0", 0700), 0);
    ck_assert_int_eq(mkdirat(first, "closed", 0700), 0);
    ck_assert_int_eq(mkdirat(first, "closed/in", 0), 0);
    ck_assert_int_eq(fchmodat(first, "closed", 0, 0), 0);
    for (int i = 0; i < 3000; i++) {
        int next;

        ck_assert_int_eq(mkdirat(at, "deeper", 0700), 0);
        next = openat(at, "deeper", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        ck_assert_int_ge(next, 0);
        sb_close(at);
        at = next;
    }
    ck_assert_int_eq(sb_remove_tree(top, "tree"), 0);
    ck_assert_int_eq(faccessat(top, "tree", F_OK, AT_SYMLINK_NOFOLLOW), -1);
    ck_assert_int_eq(access("/etc/passwd", F_OK), 0);
}
END_TEST

START_TEST(removal_is_idempotent_and_follows_nothing)
{
    make("file", "");
    ck_assert_int_eq(mkdirat(top, "kept", 0700), 0);
    make("kept/file", "");
    ck_assert_int_eq(symlinkat("kept", top, "link"), 0);
    ck_assert_int_eq(sb_remove_tree(top, "link"), 0);
    ck_assert_int_eq(faccessat(top, "kept/file", F_OK, 0), 0);
    ck_assert_int_eq(sb_remove_tree(top, "file"), 0);
    ck_assert_int_eq(sb_remove_tree(top, "file"), 0);
    ck_assert_int_eq(sb_remove_tree(top, "never there"), 0);
}
END_TEST

START_TEST(removal_stops_at_mounts)
{
    char at[400];

    snprintf(at, sizeof at, "%s/tree", sbtest_dir());
    ck_assert_int_eq(mkdir(at, 0700), 0);
    snprintf(at, sizeof at, "%s/tree/mounted", sbtest_dir());
    ck_assert_int_eq(mkdir(at, 0700), 0);
    if (mount("none", at, "tmpfs", 0, "size=65536") < 0)
        sbtest_skip("no permission to mount");
    make("tree/mounted/kept", "");
    make("tree/gone", "");
    ck_assert_int_lt(sb_remove_tree(top, "tree"), 0);
    ck_assert_int_eq(faccessat(top, "tree/mounted/kept", F_OK, 0), 0);
    ck_assert_int_eq(faccessat(top, "tree/gone", F_OK, 0), -1);
    ck_assert_int_lt(sb_remove_tree(top, "tree/mounted"), 0);
    ck_assert_int_eq(faccessat(top, "tree/mounted/kept", F_OK, 0), 0);
    ck_assert_int_eq(umount(at), 0);
}
END_TEST

/* Starts `sh -c script` with one descriptor and gives its exit status. */
static int spawn_shell(const char *script, int fd, int as)
{
    SB_CLOSE int exe = open("/bin/sh", O_RDONLY | O_CLOEXEC);
    char *const argv[] = { (char *)"sh", (char *)"-c", (char *)script, NULL };
    const struct sb_spawn_fd fds[] = { { fd, as } };
    pid_t pid;
    int status, r;

    ck_assert_int_ge(exe, 0);
    r = sb_spawn(exe, argv, fds, 1, &pid);
    ck_assert_int_eq(r, 0);
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

START_TEST(programs_start_clean)
{
    SB_CLOSE int out = -1;
    SB_FREE char *text = NULL;
    unsigned long long blocked, ignored;
    sigset_t set;

    out = openat(top, "out", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    ck_assert_int_ge(out, 0);
    setenv("SECRET", "from the host", 1);
    signal(SIGUSR1, SIG_IGN);
    sigfillset(&set);
    sigprocmask(SIG_BLOCK, &set, NULL);
    ck_assert_int_eq(spawn_shell("exec 1>&3; echo ${SECRET-none}; grep -E 'SigBlk|SigIgn' /proc/self/status", out, 3), 0);
    sigprocmask(SIG_UNBLOCK, &set, NULL);
    ck_assert_int_eq(sb_read_file(top, "out", 1000, &text, NULL), 0);
    ck_assert_int_eq(sscanf(text, "none SigBlk: %llx SigIgn: %llx", &blocked, &ignored), 2);
    ck_assert_uint_eq(blocked, 0);
    ck_assert_uint_eq(ignored & ~(3ull << 31), 0); /* glibc's posix_spawn leaves its own two signals, 32 and 33, ignored */
}
END_TEST

START_TEST(descriptors_may_cross)
{
    /* each target is the other's source: a plain sequence of dup2 would lose one */
    static const char script[] = "read a <&3; read b <&4; [ $a$b = 43 ]";
    SB_CLOSE int three = -1;
    SB_CLOSE int four = -1;
    SB_CLOSE int exe = open("/bin/sh", O_RDONLY | O_CLOEXEC);
    char *const argv[] = { (char *)"sh", (char *)"-c", (char *)script, NULL };
    pid_t pid;
    int status;

    make("three", "3\n");
    make("four", "4\n");
    three = openat(top, "three", O_RDONLY | O_CLOEXEC);
    four = openat(top, "four", O_RDONLY | O_CLOEXEC);
    ck_assert_int_eq(sb_spawn(exe, argv, (const struct sb_spawn_fd[]){ { three, 4 }, { four, 3 }, { three, three }, { three, 0 } }, 4, &pid), 0);
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert_int_eq(status, 0);
}
END_TEST

START_TEST(what_is_no_program_is_told)
{
    SB_CLOSE int exe = -1;
    char *const argv[] = { (char *)"x", NULL };
    pid_t pid = -1;

    make("text", "no program\n");
    exe = openat(top, "text", O_RDONLY | O_CLOEXEC);
    ck_assert_int_eq(sb_spawn(exe, argv, NULL, 0, &pid), -EACCES);
    ck_assert_int_eq(fchmod(exe, 0700), 0);
    ck_assert_int_eq(sb_spawn(exe, argv, NULL, 0, &pid), -ENOEXEC);
    ck_assert_int_eq(pid, -1);
}
END_TEST

/* Without a pidfd the process is not left to itself. */
START_TEST(what_can_t_be_watched_is_ended)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_pidfd_open, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EMFILE),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = { SB_ELEMENTS(code), code };
    SB_CLOSE int exe = open("/bin/sleep", O_RDONLY | O_CLOEXEC);
    char *const argv[] = { (char *)"sleep", (char *)"1000", NULL };
    int pidfd = -1;
    pid_t pid = -1;

    ck_assert_int_eq(sb_spawn_watched(exe, argv, NULL, 0, &pid, &pidfd), 0);
    ck_assert_int_gt(pid, 0);
    ck_assert_int_eq((int)syscall(SYS_pidfd_send_signal, pidfd, SIGKILL, NULL, 0), 0);
    ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
    close(pidfd);
    ck_assert_int_eq(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
    ck_assert_int_eq(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program), 0);
    ck_assert_int_eq(sb_spawn_watched(exe, argv, NULL, 0, NULL, &pidfd), -EMFILE);
    ck_assert_int_eq(waitpid(-1, NULL, WNOHANG), -1);
    ck_assert_int_eq(errno, ECHILD);
    signal(SIGCHLD, SIG_IGN); /* as a host program may */
    ck_assert_int_eq(sb_spawn_watched(exe, argv, NULL, 0, NULL, &pidfd), -EMFILE);
    ck_assert_int_eq(waitpid(-1, NULL, WNOHANG), -1);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("base-fs");
    TCase *tc = sbtest_case("fs");

    tcase_add_checked_fixture(tc, begin, end);
    tcase_add_test(tc, beneath_never_leaves_nor_follows);
    tcase_add_test(tc, folders_are_folders);
    tcase_add_test(tc, paths_are_made);
    tcase_add_test(tc, files_are_read_and_written_whole);
    tcase_add_test(tc, a_hostile_tree_is_removed);
    tcase_add_test(tc, removal_is_idempotent_and_follows_nothing);
    tcase_add_test(tc, removal_stops_at_mounts);
    suite_add_tcase(suite, tc);
    tc = sbtest_case("process");
    tcase_add_checked_fixture(tc, begin, end);
    tcase_add_test(tc, programs_start_clean);
    tcase_add_test(tc, descriptors_may_cross);
    tcase_add_test(tc, what_is_no_program_is_told);
    tcase_add_test(tc, what_can_t_be_watched_is_ended);
    suite_add_tcase(suite, tc);
    return sbtest_main(suite);
}
