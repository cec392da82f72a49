/* SPDX-License-Identifier: Apache-2.0
 * See keeper.h. One thread, one poll loop, no allocation. What comes from inside the sandbox (output, datagrams) is copied and
 * never interpreted. A disk that is full or broken costs log, which is counted and said, and never blocks the daemon. */
#include "keeper.h"

#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <fs.h>
#include <util.h>

#include "keeper-ring.h"

enum {
    FD_FOLDER = 7,
    FD_STAGE_OUT = 8, /* 9: stderr, 10: events */
    FD_ABOVE = 64,    /* stage's own descriptors are below */
    PIPE_BYTES = 1 << 20,
    DRAIN_MS = 500,
    RESERVE_BYTES = 8192,
    EVENTS_BYTES = 1 << 20
};

/* Places in the poll set. */
enum { IN_OUT, IN_ERR, IN_EVENTS, IN_SIGNAL, IN_COUNT };

struct keeper {
    struct pollfd in[IN_COUNT]; /* fd -1: ended */
    struct ag_ring log, exits;
    pid_t stage;
    int alone;        /* no child is left */
    siginfo_t stage_info, init_info;
    uint64_t written[2]; /* by the daemon, in this run */
    uint64_t dropped[2]; /* not yet said in the log */
    uint64_t dropped_ever;
    char buffer[AG_KEEPER_RECORD_MAX];
};

static uint64_t wall_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* ---- start ---- */

static _Noreturn void become_stage(int argc, char **argv, const int ends[3])
{
    sigset_t none;

    for (int i = 0; i < 3; i++)
        if (dup2(ends[i], FD_STAGE_OUT + i) < 0) /* inherited: stage's, by its interface */
            _exit(AG_KEEPER_NO_START);
    close(FD_FOLDER);
    syscall(SYS_close_range, FD_ABOVE, ~0u, 0);
    setsid();
    for (int s = 1; s < NSIG; s++)
        signal(s, SIG_DFL); /* fails for two of them, as it should */
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    /* MAX_BYTES makes room for the name of the mode */
    argv[1] = argv[0];
    argv[2] = (char *)"stage";
    _exit(ag_stage_main(argc - 1, argv + 1));
}

/* Makes the descriptors above everything of stage's: ours in ret_in, the child's in ret_ends. */
static int make_channels(int ret_in[IN_COUNT], int ret_ends[3])
{
    sigset_t all;
    int pair[2];

    for (int i = 0; i < 3; i++) {
        int r = i == IN_EVENTS ? socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair)
                               : pipe2(pair, O_CLOEXEC);

        if (r < 0)
            return -errno;
        ret_in[i] = fcntl(pair[0], F_DUPFD_CLOEXEC, FD_ABOVE);
        ret_ends[i] = fcntl(pair[1], F_DUPFD_CLOEXEC, FD_ABOVE);
        close(pair[0]);
        close(pair[1]);
        if (ret_in[i] < 0 || ret_ends[i] < 0)
            return -EMFILE;
        if (i == IN_EVENTS)
            continue;
        if (fcntl(ret_in[i], F_SETFL, O_NONBLOCK) < 0)
            return -errno;
        (void)fcntl(ret_in[i], F_SETPIPE_SZ, PIPE_BYTES); /* a user's share may be used up: smaller is only slower */
    }
    /* no signal but SIGKILL ends keeper: a hang-up or shutdown of the caller's session is not the sandbox's end */
    sigfillset(&all);
    if (sigprocmask(SIG_SETMASK, &all, NULL) < 0)
        return -errno;
    sigemptyset(&all);
    sigaddset(&all, SIGCHLD);
    signal(SIGCHLD, SIG_DFL);
    ret_in[IN_SIGNAL] = signalfd(-1, &all, SFD_CLOEXEC | SFD_NONBLOCK);
    if (ret_in[IN_SIGNAL] < 0)
        return -errno;
    ret_in[IN_SIGNAL] = fcntl(ret_in[IN_SIGNAL], F_DUPFD_CLOEXEC, FD_ABOVE);
    return ret_in[IN_SIGNAL] < 0 ? -errno : 0;
}

static void drop_capabilities(void)
{
    struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
    struct __user_cap_data_struct none[2] = { { 0 } };

    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
    syscall(SYS_capset, &header, none);
}

/* After the fork: only what keeper needs stays, 0 … 2 /dev/null, 3 … 6 the poll set, 7 the folder. */
static int settle(struct keeper *k, const int in[IN_COUNT])
{
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);

    for (int i = 0; i < 3; i++)
        if (null < 0 || dup2(null, i) < 0)
            close(i);
    for (int i = 0; i < IN_COUNT; i++) {
        if (dup3(in[i], 3 + i, O_CLOEXEC) < 0)
            return -errno;
        k->in[i] = (struct pollfd){ .fd = 3 + i, .events = POLLIN };
    }
    syscall(SYS_close_range, FD_FOLDER + 1, ~0u, 0);
    fcntl(FD_FOLDER, F_SETFD, FD_CLOEXEC);
    setsid();
    umask(077);
    prctl(PR_SET_NAME, "sandbox-keeper", 0, 0, 0);
    drop_capabilities();
    return chdir("/") < 0 ? -errno : 0;
}

/* ---- running ---- */

/* Appends to the log; what the disk refuses is counted, and said in front of the next record that it takes. */
static int say_dropped(struct keeper *k)
{
    struct ag_keeper_dropped lost = { { htole64(k->dropped[0]), htole64(k->dropped[1]) } };
    int r;

    if (!k->dropped[0] && !k->dropped[1])
        return 0;
    r = ag_ring_append(&k->log, AG_KEEPER_STREAM_DROPPED, wall_ns(), &lost, sizeof lost);
    if (!r)
        k->dropped[0] = k->dropped[1] = 0;
    return r;
}

static void append_output(struct keeper *k, int which, const void *data, size_t size)
{
    /* with a loss unsaid nothing may follow it */
    if (say_dropped(k) == 0 && ag_ring_append(&k->log, AG_KEEPER_STREAM_STDOUT + which, wall_ns(), data, size) == 0)
        return;
    k->dropped[which] += size;
    k->dropped_ever += size;
}

static void end_input(struct keeper *k, int which)
{
    k->in[which].fd = sb_close(k->in[which].fd);
}

static void pump_output(struct keeper *k, int which)
{
    ssize_t n = read(k->in[which].fd, k->buffer, ag_ring_payload_max(&k->log));

    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n <= 0) {
        append_output(k, which, NULL, 0);
        end_input(k, which);
        return;
    }
    k->written[which] += (uint64_t)n;
    append_output(k, which, k->buffer, (size_t)n);
}

/* All datagrams that wait, and one sync for them. */
static void pump_events(struct keeper *k)
{
    int any = 0;

    for (int most = 256; most; most--) {
        ssize_t n = recv(k->in[IN_EVENTS].fd, k->buffer, AG_KEEPER_EVENT_MAX, MSG_DONTWAIT | MSG_TRUNC);

        if (n < 0 && (errno == EAGAIN || errno == EINTR))
            break;
        if (n <= 0) {
            end_input(k, IN_EVENTS);
            break;
        }
        if (n > AG_KEEPER_EVENT_MAX)
            continue; /* not one of ours */
        any |= ag_ring_append(&k->exits, AG_KEEPER_STREAM_EVENT, wall_ns(), k->buffer, (size_t)n) == 0;
    }
    if (any)
        ag_ring_sync(&k->exits);
}

static void reap(struct keeper *k)
{
    struct signalfd_siginfo ignored;

    while (read(k->in[IN_SIGNAL].fd, &ignored, sizeof ignored) > 0)
        ;
    for (;;) {
        siginfo_t info = { 0 };

        if (SB_RETRY(waitid(P_ALL, 0, &info, WEXITED | WNOHANG | __WALL)) < 0) {
            k->alone = 1; /* ECHILD */
            return;
        }
        if (!info.si_pid)
            return;
        *(info.si_pid == k->stage ? &k->stage_info : &k->init_info) = info;
    }
}

/* What a slow disk left in the pipes; no more than that, for somebody may go on writing. */
static void pump_rest(struct keeper *k)
{
    for (int i = IN_OUT; i <= IN_ERR; i++)
        for (uint64_t end = k->written[i] + PIPE_BYTES, before = UINT64_MAX; k->in[i].fd >= 0 && k->written[i] < end;) {
            if (k->written[i] == before)
                break;
            before = k->written[i];
            pump_output(k, i);
        }
    if (k->in[IN_EVENTS].fd >= 0)
        pump_events(k);
}

/* Until no child is left and the pipes are at their end. With init all of its namespace dies; only a pipe that was passed
 * out of the sandbox can still be open then, and that gets DRAIN_MS. */
static void run(struct keeper *k)
{
    int64_t deadline = -1;

    for (;;) {
        int was_alone = k->alone, ready;

        if (k->alone && k->in[IN_OUT].fd < 0 && k->in[IN_ERR].fd < 0 && k->in[IN_EVENTS].fd < 0)
            return;
        ready = poll(k->in, IN_COUNT, sb_left_ms(deadline));
        if (deadline >= 0 && sb_left_ms(deadline) == 0) {
            pump_rest(k);
            return;
        }
        if (ready <= 0)
            continue; /* EINTR can't be: all is blocked; ENOMEM passes */
        for (int i = IN_OUT; i <= IN_ERR; i++)
            if (k->in[i].fd >= 0 && k->in[i].revents)
                pump_output(k, i);
        if (k->in[IN_EVENTS].fd >= 0 && k->in[IN_EVENTS].revents)
            pump_events(k);
        if (k->in[IN_SIGNAL].revents)
            reap(k);
        if (k->alone && !was_alone)
            deadline = sb_deadline(DRAIN_MS);
    }
}

/* ---- end ---- */

/* A little room is taken at the start, so that a disk that the log filled still takes the last record. */
static void reserve_room(void)
{
    SB_CLOSE int fd = openat(FD_FOLDER, "reserve", O_WRONLY | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600);

    if (fd >= 0)
        (void)posix_fallocate(fd, 0, RESERVE_BYTES);
}

static int write_exit(struct keeper *k)
{
    const siginfo_t *info = k->init_info.si_pid ? &k->init_info : &k->stage_info;
    int exited = info->si_code == CLD_EXITED, length, r;
    char line[320];

    length = snprintf(line, sizeof line,
                      "{\"schema\":1,\"kind\":\"%s\",\"code\":%d,\"signal\":%d,\"wall_ns\":%llu,\"stdout_bytes\":%llu,"
                      "\"stderr_bytes\":%llu,\"dropped_bytes\":%llu}\n",
                      !k->init_info.si_pid ? "unstarted" : exited ? "exited" : "signalled", exited ? info->si_status : -1,
                      exited ? 0 : info->si_status, (unsigned long long)wall_ns(), (unsigned long long)k->written[0],
                      (unsigned long long)k->written[1], (unsigned long long)k->dropped_ever);
    unlinkat(FD_FOLDER, "reserve", 0);
    r = sb_write_file(FD_FOLDER, "exit", line, (size_t)length, 1);
    if (r == -ENOSPC || r == -EDQUOT) { /* how it ended is worth more than how it began */
        ag_ring_shrink(&k->log);
        r = sb_write_file(FD_FOLDER, "exit", line, (size_t)length, 1);
    }
    return r;
}

int ag_keeper_main(int argc, char **argv)
{
    static struct keeper k;
    struct stat st;
    int64_t max_bytes;
    int in[IN_COUNT], ends[3];

    if (argc < 3 || sb_parse_int(argv[2], AG_RING_MIN, INT64_C(1) << 50, &max_bytes) < 0 || fstat(FD_FOLDER, &st) < 0 ||
        !S_ISDIR(st.st_mode))
        return AG_KEEPER_USAGE;
    if (unlinkat(FD_FOLDER, "exit", 0) < 0 && errno != ENOENT) /* an earlier run's: it must not be taken for this one's */
        return AG_KEEPER_NO_START;
    if (make_channels(in, ends) < 0)
        return AG_KEEPER_NO_START;
    k.stage = fork();
    if (k.stage < 0)
        return AG_KEEPER_NO_START;
    if (k.stage == 0)
        become_stage(argc, argv, ends);
    if (settle(&k, in) < 0) {
        kill(k.stage, SIGKILL);
        return AG_KEEPER_NO_START;
    }
    ag_ring_init(&k.log, FD_FOLDER, "log", (uint64_t)max_bytes);
    ag_ring_init(&k.exits, FD_FOLDER, "exits", EVENTS_BYTES);
    (void)ag_ring_open(&k.log); /* a failure is met again, and counted, by the first record */
    reserve_room();
    run(&k);
    if (say_dropped(&k) < 0) {
        ag_ring_shrink(&k.log);
        (void)say_dropped(&k);
    }
    ag_ring_sync(&k.log);
    return write_exit(&k) < 0 ? AG_KEEPER_NO_RECORD : AG_KEEPER_DONE;
}
