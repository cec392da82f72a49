/* SPDX-License-Identifier: Apache-2.0
 * bombs KIND [N]: ways to use up or upset a sandbox. Each says "ready" when it is under way or "held: N" when it was stopped by
 * a limit.
 *   fork            forks at the limit for ever             mem | memfd | pipes | shm    takes memory until it is killed
 *   orphans N       leaves N orphans that end at once       zombies N     leaves N children unreaped while it lives
 *   floodstop       kill(-1, SIGSTOP) for ever              flicker N     N children stopped and continued for ever
 *   rtflood N       N processes that signal pid 1 for ever  fdhold S      a grandchild holds stdout for S seconds
 *   opens           opens files until it can't              leader S      a descendant whose main thread has ended, for S seconds
 *   daemonise S     a descendant in a session of its own    closein       closes stdin at once, lives on for a second
 *   flood           writes to stdout for ever               segv          ends by SIGSEGV
 *   touch N         takes N MiB of memory and ends          hold N        takes them, and sleeps
 *   children N      starts up to N children, says how many, and ends them */
#include "guest.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static void ready(void)
{
    if (write(1, "ready\n", 6) != 6)
        _exit(4);
}

static void held(long n, int error)
{
    printf("held: %ld %s\n", n, strerrorname_np(error));
    fflush(stdout);
}

static __attribute__((noreturn)) int fork_bomb(long n)
{
    long made = 0;
    int told = 0;

    (void)n;
    for (;;) {
        pid_t pid = fork();

        if (pid == 0)
            for (;;)
                if (fork() < 0)
                    usleep(1000);
        if (pid > 0) {
            made++;
        } else if (!told) {
            held(made, errno);
            told = 1;
        } else {
            usleep(1000);
        }
    }
}

static __attribute__((noreturn)) int memory_bomb(long n)
{
    (void)n;
    ready();
    for (;;) {
        char *p = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);

        if (p != MAP_FAILED)
            memset(p, 1, 1 << 20);
    }
}

static void fill(int fd)
{
    static char block[1 << 20];

    memset(block, 1, sizeof block);
    while (write(fd, block, sizeof block) > 0)
        ;
    held(lseek(fd, 0, SEEK_END), errno);
}

static int touch(long n)
{
    char *p = mmap(NULL, (size_t)n << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (p == MAP_FAILED)
        return 3;
    memset(p, 1, (size_t)n << 20);
    ready();
    return 0;
}

static int hold(long n)
{
    int r = touch(n);

    sleep(1000);
    return r;
}

static int children(long n)
{
    pid_t pids[256];
    long made = 0;

    for (; made < n && made < 256; made++) {
        pids[made] = fork();
        if (pids[made] < 0)
            break;
        if (pids[made] == 0)
            for (;;)
                pause();
    }
    printf("%ld\n", made);
    fflush(stdout);
    for (long i = 0; i < made; i++)
        kill(pids[i], SIGKILL);
    while (wait(NULL) > 0)
        ;
    return 0;
}

static int memfd_bomb(long n)
{
    (void)n;
    ready();
    fill(memfd_create("bomb", MFD_CLOEXEC));
    return 0;
}

static int shm_bomb(long n)
{
    (void)n;
    ready();
    fill(open("/dev/shm/bomb", O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
    unlink("/dev/shm/bomb");
    return 0;
}

static int pipe_bomb(long n)
{
    static char block[1 << 20];
    int p[2];

    (void)n;
    ready();
    for (long made = 0;; made++) {
        if (pipe2(p, O_NONBLOCK | O_CLOEXEC) < 0) {
            held(made, errno);
            return 0;
        }
        (void)fcntl(p[1], F_SETPIPE_SZ, 1 << 20);
        while (write(p[1], block, sizeof block) > 0)
            ;
    }
}

static int orphans(long n)
{
    for (long i = 0; i < n; i++) {
        pid_t pid = fork();

        if (pid == 0) {
            if (fork() == 0)
                _exit(0);
            _exit(0);
        }
        if (pid < 0)
            usleep(1000);
        else
            waitpid(pid, NULL, 0);
    }
    ready();
    return 0;
}

static int zombies(long n)
{
    for (long i = 0; i < n; i++)
        if (fork() == 0)
            _exit(0);
    ready();
    for (;;)
        pause();
}

static __attribute__((noreturn)) int flood_stop(long n)
{
    (void)n;
    ready();
    for (;;)
        kill(-1, SIGSTOP);
}

/* The children become orphans, so that it is pid 1 that hears of each stop. */
static int flicker(long n)
{
    pid_t *pids = mmap(NULL, 1 << 16, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pid_t middle;

    if (pids == MAP_FAILED || n > 1024)
        return 4;
    middle = fork();
    if (middle == 0) {
        for (long i = 0; i < n; i++) {
            pids[i] = fork();
            if (pids[i] == 0)
                for (;;)
                    pause();
        }
        _exit(0);
    }
    waitpid(middle, NULL, 0);
    ready();
    for (int i = 0; i < 3; i++)
        if (fork() == 0)
            break;
    for (;;)
        for (long i = 0; i < n; i++) {
            kill(pids[i], SIGSTOP);
            kill(pids[i], SIGCONT);
        }
}

static __attribute__((noreturn)) int signal_flood(long n)
{
    for (long i = 0; i < n; i++)
        if (fork() == 0)
            for (;;)
                for (int s = SIGRTMIN; s < SIGRTMIN + 8; s++)
                    kill(1, s);
    ready();
    for (;;)
        pause();
}

static int hold_stdout(long seconds)
{
    if (fork() == 0) {
        if (fork() == 0) {
            sleep((unsigned int)seconds);
            _exit(0);
        }
        _exit(0);
    }
    wait(NULL);
    ready();
    return 7;
}

static int daemonise(long seconds)
{
    if (fork() == 0) {
        setsid();
        if (fork() == 0) {
            close(0);
            close(1);
            close(2);
            sleep((unsigned int)seconds);
            _exit(0);
        }
        _exit(0);
    }
    wait(NULL);
    ready();
    for (;;)
        pause();
}

static void *sleeper(void *seconds)
{
    sleep((unsigned int)(intptr_t)seconds);
    _exit(0);
}

/* /proc shows its leader as a zombie without namespaces, yet it runs. */
static int without_leader(long seconds)
{
    pthread_t t;

    if (fork() == 0) {
        setsid();
        if (fork() == 0) {
            close(0);
            close(1);
            close(2);
            if (pthread_create(&t, NULL, sleeper, (void *)(intptr_t)seconds) == 0)
                syscall(SYS_exit, 0); /* this thread alone */
        }
        _exit(0);
    }
    wait(NULL);
    ready();
    for (;;)
        pause();
}

static int open_many(long n)
{
    long made = 0;

    (void)n;
    while (open("/dev/null", O_RDONLY | O_CLOEXEC) >= 0)
        made++;
    held(made, errno);
    return 0;
}

static int close_stdin(long n)
{
    (void)n;
    close(0);
    ready();
    sleep(1);
    return 5;
}

static int flood(long n)
{
    static char block[1 << 16];

    (void)n;
    for (;;)
        if (write(1, block, sizeof block) < 0)
            return 6;
}

static int crash(long n)
{
    (void)n;
    signal(SIGSEGV, SIG_DFL);
    raise(SIGSEGV);
    return 0;
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        int (*run)(long n);
    } bombs[] = {
        { "fork", fork_bomb }, { "mem", memory_bomb }, { "memfd", memfd_bomb }, { "shm", shm_bomb }, { "pipes", pipe_bomb },
        { "orphans", orphans }, { "zombies", zombies }, { "floodstop", flood_stop }, { "flicker", flicker }, { "rtflood", signal_flood },
        { "fdhold", hold_stdout }, { "daemonise", daemonise }, { "leader", without_leader }, { "opens", open_many },
        { "closein", close_stdin }, { "flood", flood }, { "segv", crash }, { "touch", touch }, { "hold", hold }, { "children", children },
    };

    guest_only_in_a_sandbox();
    for (size_t i = 0; argc > 1 && i < sizeof bombs / sizeof *bombs; i++)
        if (strcmp(argv[1], bombs[i].name) == 0)
            return bombs[i].run(argc > 2 ? atol(argv[2]) : 0);
    return 2;
}
