/* SPDX-License-Identifier: Apache-2.0
 * The raw floor: the system calls that no sandbox of this kind can do without, and nothing else. No state, no cgroup, no
 * masks, no /dev, no filter, no checks.
 *   floor vfork PROGRAM                  vfork + exec + wait
 *   floor sandbox ROOT WORK PROGRAM      folders for an overlay over ROOT, clone3 with new mount, pid, ipc, uts, cgroup and network
 *                                        namespaces, overlay, proc, pivot_root, exec, wait, folders removed
 *   floor sandbox-user ROOT WORK PROGRAM the same with a user namespace, one range of 65,536 ids (for an ordinary user: one id) */
#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sample.h"

struct floor {
    const char *root, *work, *program;
    int user;
};

static const char *const folders[] = { "upper", "work", "merged" };

static int64_t once_vfork(void *data)
{
    char *argv[] = { data, NULL };
    int64_t begin = bench_now_ns(), end;
    int status = bench_reap(bench_spawn(argv, -1));

    end = bench_now_ns();
    if (status)
        bench_fail("%s ended with status 0x%x", argv[0], (unsigned int)status);
    return end - begin;
}

static void check(int ok, const char *what)
{
    if (!ok)
        bench_fail("%s: %s", what, strerror(errno));
}

static _Noreturn void child(const struct floor *f, int go)
{
    char options[3 * 4096], byte, *argv[] = { (char *)f->program, NULL }, *none[] = { NULL };

    if (read(go, &byte, 1) != 1)
        _exit(10);
    if (f->user && (setresgid(0, 0, 0) < 0 || setresuid(0, 0, 0) < 0))
        _exit(11);
    if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
        _exit(12);
    snprintf(options, sizeof options, "lowerdir=%s,upperdir=upper,workdir=work%s", f->root, f->user ? ",userxattr" : "");
    if (mount("overlay", "merged", "overlay", 0, options) < 0)
        _exit(13);
    if (mount("proc", "merged/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL) < 0)
        _exit(14);
    if (chdir("merged") < 0 || syscall(SYS_pivot_root, ".", ".") < 0 || umount2(".", MNT_DETACH) < 0 || chdir("/") < 0)
        _exit(15);
    execve(f->program, argv, none);
    _exit(16);
}

static void write_map(pid_t pid, const char *file, const char *text)
{
    char path[64];
    int fd;

    snprintf(path, sizeof path, "/proc/%d/%s", (int)pid, file);
    fd = open(path, O_WRONLY | O_CLOEXEC);
    check(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text), path);
    close(fd);
}

static void map_user(pid_t pid, const char *work)
{
    char text[64];

    if (geteuid() == 0) {
        for (size_t i = 0; i < 3; i++)
            check(fchownat(AT_FDCWD, folders[i], 0x70000000, 0x70000000, 0) == 0, work);
        write_map(pid, "uid_map", "0 1879048192 65536\n");
        write_map(pid, "gid_map", "0 1879048192 65536\n");
        return;
    }
    write_map(pid, "setgroups", "deny");
    snprintf(text, sizeof text, "0 %u 1\n", geteuid());
    write_map(pid, "uid_map", text);
    snprintf(text, sizeof text, "0 %u 1\n", getegid());
    write_map(pid, "gid_map", text);
}

static int64_t once_sandbox(void *data)
{
    const struct floor *f = data;
    struct clone_args args = { .flags = CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWIPC | CLONE_NEWUTS | CLONE_NEWCGROUP | CLONE_NEWNET,
                               .exit_signal = SIGCHLD };
    int64_t begin = bench_now_ns();
    int go[2], status;
    pid_t pid;

    for (size_t i = 0; i < 3; i++)
        check(mkdir(folders[i], 0755) == 0, folders[i]);
    check(pipe2(go, O_CLOEXEC) == 0, "pipe");
    if (f->user)
        args.flags |= CLONE_NEWUSER;
    pid = (pid_t)syscall(SYS_clone3, &args, sizeof args);
    check(pid >= 0, "clone3");
    if (pid == 0)
        child(f, go[0]);
    if (f->user)
        map_user(pid, f->work);
    check(write(go[1], "", 1) == 1, "write");
    status = bench_reap(pid);
    close(go[0]);
    close(go[1]);
    chmod("work/work", 0700); /* overlay makes it with mode 0 */
    rmdir("work/work");
    rmdir("work");
    rmdir("upper");
    check(rmdir("merged") == 0, "rmdir");
    if (!WIFEXITED(status) || WEXITSTATUS(status))
        bench_fail("the child ended with status 0x%x", (unsigned int)status);
    return bench_now_ns() - begin;
}

int main(int argc, char **argv)
{
    struct floor f = { 0 };

    if (argc == 3 && !strcmp(argv[1], "vfork")) {
        bench_serve(once_vfork, argv[2]);
        return 0;
    }
    if (argc != 5 || (strcmp(argv[1], "sandbox") && strcmp(argv[1], "sandbox-user")))
        bench_fail("usage: floor vfork PROGRAM | sandbox ROOT WORK PROGRAM | sandbox-user ROOT WORK PROGRAM");
    f.root = argv[2];
    f.work = argv[3];
    f.program = argv[4];
    f.user = !strcmp(argv[1], "sandbox-user");
    check(chdir(f.work) == 0, f.work);
    bench_serve(once_sandbox, &f);
    return 0;
}
