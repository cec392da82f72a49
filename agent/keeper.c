/* SPDX-License-Identifier: Apache-2.0
 * See keeper.h. One thread, one poll loop, no allocation. What comes from inside the sandbox (output, datagrams) is copied and
 * never interpreted. A disk that is full or broken costs log, which is counted and said, and never blocks the daemon. */
#include "keeper.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <fs.h>
#include <util.h>

#include "keeper-loop.h"

enum {
    FD_FOLDER = 7,
    FD_STAGE_OUT = 8, /* 9: stderr, 10: events */
    FD_SEGMENT = 8,   /* in keeper itself */
    FD_ABOVE = 64,    /* stage's own descriptors are below */
    RESERVE_BYTES = 8192,
    EVENTS_BYTES = 1 << 20
};

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
    /* DURABLE makes room for the name of the mode */
    argv[2] = argv[0];
    argv[3] = (char *)"stage";
    _exit(ag_stage_main(argc - 2, argv + 2));
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
        (void)fcntl(ret_in[i], F_SETPIPE_SZ, AG_KEEPER_PIPE_BYTES); /* a user's share may be used up: smaller is only slower */
    }
    /* no signal but SIGKILL ends keeper: a hang-up or shutdown of the caller's session is not the sandbox's end */
    sigfillset(&all);
    if (sigprocmask(SIG_SETMASK, &all, NULL) < 0)
        return -errno;
    sigemptyset(&all);
    sigaddset(&all, SIGCHLD);
    sigaddset(&all, SIGUSR1);
    signal(SIGCHLD, SIG_DFL);
    ret_in[IN_SIGNAL] = signalfd(-1, &all, SFD_CLOEXEC | SFD_NONBLOCK);
    if (ret_in[IN_SIGNAL] < 0)
        return -errno;
    ret_in[IN_SIGNAL] = fcntl(ret_in[IN_SIGNAL], F_DUPFD_CLOEXEC, FD_ABOVE);
    return ret_in[IN_SIGNAL] < 0 ? -errno : 0;
}

/* After the fork: only what keeper needs stays, 0 … 2 /dev/null, 3 … 6 the poll set, 7 the folder, 8 the log's segment. */
static int settle(struct ag_keeper *k, const int in[IN_COUNT])
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
    if (k->log.ring.fd >= 0 && dup3(k->log.ring.fd, FD_SEGMENT, O_CLOEXEC) < 0)
        return -errno;
    syscall(SYS_close_range, k->log.ring.fd >= 0 ? FD_SEGMENT + 1 : FD_SEGMENT, ~0u, 0);
    k->log.ring.fd = k->log.ring.fd >= 0 ? FD_SEGMENT : -1;
    fcntl(FD_FOLDER, F_SETFD, FD_CLOEXEC);
    setsid();
    umask(077);
    prctl(PR_SET_NAME, "sandbox-keeper", 0, 0, 0);
    return chdir("/") < 0 ? -errno : 0;
}

/* ---- end ---- */

/* A little room is taken at the start, so that a disk that the log filled still takes the last record. */
static void reserve_room(void)
{
    SB_CLOSE int fd = openat(FD_FOLDER, "reserve", O_WRONLY | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600);

    if (fd >= 0)
        (void)posix_fallocate(fd, 0, RESERVE_BYTES);
}

static int write_exit(struct ag_keeper *k)
{
    const siginfo_t *info = k->init_info.si_pid ? &k->init_info : &k->stage_info;
    int exited = info->si_code == CLD_EXITED, length, r;
    char line[320];

    length = snprintf(line, sizeof line,
                      "{\"schema\":1,\"kind\":\"%s\",\"code\":%d,\"signal\":%d,\"wall_ns\":%llu,\"stdout_bytes\":%llu,"
                      "\"stderr_bytes\":%llu,\"dropped_bytes\":%llu}\n",
                      !k->init_info.si_pid ? "unstarted" : exited ? "exited" : "signalled", exited ? info->si_status : -1,
                      exited ? 0 : info->si_status, (unsigned long long)ag_wall_ns(), (unsigned long long)k->log.written[0],
                      (unsigned long long)k->log.written[1], (unsigned long long)k->log.dropped_ever);
    unlinkat(FD_FOLDER, "reserve", 0);
    r = sb_write_file(FD_FOLDER, "exit", line, (size_t)length, k->durable);
    if (r == -ENOSPC || r == -EDQUOT) { /* how it ended is worth more than how it began */
        ag_ring_shrink(&k->log.ring);
        r = sb_write_file(FD_FOLDER, "exit", line, (size_t)length, k->durable);
    }
    return r;
}

/* The log is opened before there is an init, so that the mark of its run stands before anything of it. Its descriptor goes where stage
 * doesn't look. */
static void open_log(struct ag_keeper *k)
{
    int fd;

    if (ag_ring_open(&k->log.ring) < 0)
        return; /* met again, and counted, by the first record */
    fd = fcntl(k->log.ring.fd, F_DUPFD_CLOEXEC, FD_ABOVE);
    sb_close(k->log.ring.fd);
    k->log.ring.fd = fd;
    if (fd >= 0)
        (void)ag_sink_begin(&k->log);
}

int ag_keeper_main(int argc, char **argv)
{
    static struct ag_keeper k;
    struct stat st;
    int64_t max_bytes, durable;
    int in[IN_COUNT], ends[3];

    if (argc < 4 || sb_parse_int(argv[2], SB_RING_MIN, INT64_C(1) << 50, &max_bytes) < 0 ||
        sb_parse_int(argv[3], 0, 1, &durable) < 0 || fstat(FD_FOLDER, &st) < 0 || !S_ISDIR(st.st_mode))
        return AG_KEEPER_USAGE;
    if (unlinkat(FD_FOLDER, "exit", 0) < 0 && errno != ENOENT) /* an earlier run's: it must not be taken for this one's */
        return AG_KEEPER_NO_START;
    if (make_channels(in, ends) < 0)
        return AG_KEEPER_NO_START;
    k.folder = FD_FOLDER;
    k.durable = (int)durable;
    ag_ring_init(&k.log.ring, FD_FOLDER, "log", (uint64_t)max_bytes);
    k.log.first = SB_RING_RUN;
    ag_ring_init(&k.exits, FD_FOLDER, "exits", EVENTS_BYTES);
    ag_journals_init(&k);
    open_log(&k);
    k.stage = fork();
    if (k.stage < 0)
        return AG_KEEPER_NO_START;
    if (k.stage == 0)
        become_stage(argc, argv, ends);
    if (settle(&k, in) < 0 || ag_keeper_confine() < 0) {
        kill(k.stage, SIGKILL);
        return AG_KEEPER_NO_START;
    }
    ag_lifetime_start(&k);
    reserve_room();
    ag_keeper_run(&k);
    ag_journals_end(&k);
    if (ag_sink_say_dropped(&k.log) < 0) {
        ag_ring_shrink(&k.log.ring);
        (void)ag_sink_say_dropped(&k.log);
    }
    if (k.durable)
        ag_ring_sync(&k.log.ring);
    return write_exit(&k) < 0 ? AG_KEEPER_NO_RECORD : AG_KEEPER_DONE;
}
