/* SPDX-License-Identifier: Apache-2.0
 * The suite's own program inside a sandbox: static, so that it runs in any image, and told by its first argument what to be.
 *   serve PORT        says "listening", then gives each connection back what it sends; it tells its own end only when it has
 *                     got the other's, followed by "bye"
 *   fuse FOLDER…      mounts a small FUSE file system on each folder by mount(2), as a LayerFS-like daemon does (guest-fuse.c)
 *   orphans N         leaves N processes behind that end a moment later, as children of whoever reaps
 *   flood BYTES CHAR  writes that often that character to stdout
 *   calls             what system calls a command must not have give, a line "name: errno" for each */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "guest.h"

static _Noreturn void echo(int fd)
{
    static char buffer[1 << 16];
    ssize_t n;

    while ((n = read(fd, buffer, sizeof buffer)) > 0)
        for (ssize_t at = 0, w; at < n; at += w) {
            w = write(fd, buffer + at, (size_t)(n - at));
            if (w <= 0)
                _exit(1);
        }
    _exit(n < 0 || write(fd, "bye", 3) != 3);
}

static int serve(int port)
{
    struct sockaddr_in address = { .sin_family = AF_INET,
                                   .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
                                   .sin_port = htons((uint16_t)port) };
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), one = 1;

    signal(SIGCHLD, SIG_IGN);
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (bind(fd, (struct sockaddr *)&address, sizeof address) < 0 || listen(fd, 128) < 0) {
        perror("listen");
        return 3;
    }
    printf("listening\n");
    fflush(stdout);
    for (;;) {
        int c = accept4(fd, NULL, NULL, SOCK_CLOEXEC);

        if (c >= 0 && fork() == 0)
            echo(c);
        close(c);
    }
}

static int orphans(int n)
{
    for (int i = 0; i < n; i++) {
        pid_t pid = fork();

        if (pid == 0) {
            if (fork() == 0)
                usleep(20000);
            _exit(0);
        }
        if (pid > 0)
            waitpid(pid, NULL, 0);
    }
    return 0;
}

static int flood(long long bytes, char what)
{
    static char buffer[1 << 16];

    memset(buffer, what, sizeof buffer);
    while (bytes > 0) {
        ssize_t n = write(1, buffer, bytes < (long long)sizeof buffer ? (size_t)bytes : sizeof buffer);

        if (n <= 0)
            return 1;
        bytes -= n;
    }
    return 0;
}

static void say(const char *name, long result)
{
    printf("%s: %s\n", name, result >= 0 ? "ok" : strerrorname_np(errno));
}

/* Each in a process of its own: one that succeeds changes the rest, one that is killed ends it. */
static void try_call(const char *name, long (*call)(void))
{
    pid_t pid = fork();
    int status;

    if (pid == 0) {
        say(name, call());
        fflush(stdout);
        _exit(0);
    }
    if (waitpid(pid, &status, 0) == pid && WIFSIGNALED(status))
        printf("%s: killed\n", name);
    fflush(stdout);
}

static long new_user_space(void)
{
    return unshare(CLONE_NEWUSER);
}

static long clone_user_space(void)
{
    return syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, 0, 0, 0, 0);
}

static long do_clone3(void)
{
    return syscall(SYS_clone3, NULL, 0);
}

static long do_mount(void)
{
    return mount("none", "/tmp", "tmpfs", 0, NULL);
}

static long do_bpf(void)
{
    return syscall(SYS_bpf, 0, NULL, 0);
}

static long do_key(void)
{
    return syscall(SYS_keyctl, 0, 0, 0, 0, 0);
}

static int calls(void)
{
    try_call("unshare-user", new_user_space);
    try_call("clone-user", clone_user_space);
    try_call("clone3", do_clone3);
    try_call("mount", do_mount);
    try_call("bpf", do_bpf);
    try_call("keyctl", do_key);
    return 0;
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";

    if (!strcmp(what, "serve") && argc == 3)
        return serve(atoi(argv[2]));
    if (!strcmp(what, "fuse") && argc > 2)
        return guest_fuse(argc - 2, argv + 2);
    if (!strcmp(what, "orphans") && argc == 3)
        return orphans(atoi(argv[2]));
    if (!strcmp(what, "flood") && argc == 4)
        return flood(atoll(argv[2]), argv[3][0]);
    if (!strcmp(what, "calls"))
        return calls();
    fprintf(stderr, "this program is for the contract suite, inside a sandbox\n");
    return 2;
}
