/* SPDX-License-Identifier: Apache-2.0
 * keeper with a stage of the test's own: it clones an "init" with CLONE_PARENT as the real one does, and what that writes is
 * known byte by byte. Every run is a process of its own, as keeper closes whatever it doesn't know. */
#include <check.h>
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <crc32c.h>
#include <fs.h>
#include <ring-format.h>
#include <util.h>

#include "keeper-loop.h"
#include "keeper.h"
#include "test-keeper.h"

/* ---- the stage ---- */

static struct script {
    uint64_t bytes[2]; /* that init writes to stdout and stderr, both at once */
    uint64_t begin[2]; /* where in the pattern it begins */
    int code;          /* init's */
    int signal;        /* or it kills itself */
    int stage_code;    /* not 0: stage ends so, without an init */
    int events;
    int hold;          /* stage leaves a process behind that holds the pipes */
    int wait;          /* init waits for a byte on descriptor 5 before it ends */
} script;

/* What a process of the test's tells: shared memory. */
static struct shared {
    volatile pid_t holder;
    volatile int bad_descriptors;
} *shared;

static int write_pattern(int stream)
{
    static unsigned char chunk[10007]; /* no multiple of anything of keeper's */
    uint64_t at = script.begin[stream], end = at + script.bytes[stream];

    while (at < end) {
        size_t n = end - at < sizeof chunk ? (size_t)(end - at) : sizeof chunk;

        for (size_t i = 0; i < n; i++)
            chunk[i] = test_pattern(stream, at + i);
        if (sb_write_all(8 + stream, chunk, n) < 0)
            return 1;
        at += n;
    }
    return 0;
}

static _Noreturn void be_init(void)
{
    char byte, long_event[sizeof(struct sb_ring_event) + 1] = { 0 };
    pid_t other = fork();
    int status;

    if (other < 0)
        _exit(99);
    if (other == 0)
        _exit(write_pattern(1));
    if (write_pattern(0))
        _exit(98);
    waitpid(other, &status, 0);
    for (int i = 0; i < script.events; i++) {
        struct sb_ring_event event = { .exec_id = { 1 }, .type = htole32(SB_EVENT_ENDED), .code = (int32_t)htole32((uint32_t)i) };

        while (send(10, &event, sizeof event, 0) < 0)
            if (errno != EAGAIN)
                _exit(97);
            else
                sched_yield();
        send(10, long_event, sizeof long_event, 0); /* neither a longer nor a shorter one, nor another type, is one of ours */
        send(10, &event, sizeof event - 1, 0);
        event.type = htole32(77);
        send(10, &event, sizeof event, 0);
    }
    if (script.wait && read(5, &byte, 1) < 0)
        _exit(96);
    if (script.signal)
        kill(getpid(), script.signal);
    _exit(script.code);
}

/* A sanitizer needs what the real one takes away; that is looked at in real sandboxes. */
int ag_keeper_confine(void)
{
    return 0;
}

int ag_stage_main(int argc, char **argv)
{
    struct clone_args args = { .flags = CLONE_PARENT };
    long pid;

    if (argc != 3 || strcmp(argv[1], "stage") || strcmp(argv[2], "argument") || argv[3])
        return 90;
    if (fcntl(7, F_GETFD) != -1 || fcntl(5, F_GETFD) == -1 || fcntl(11, F_GETFD) != -1 || fcntl(64, F_GETFD) != -1)
        return 91;
    if (getsid(0) != getpid())
        return 92;
    if (script.stage_code)
        return script.stage_code;
    if (script.hold && fork() == 0) {
        shared->holder = getpid();
        for (;;)
            pause();
    }
    while (script.hold && !shared->holder)
        sched_yield();
    pid = syscall(SYS_clone3, &args, sizeof args);
    if (pid == 0)
        be_init();
    return pid < 0 ? 93 : 0;
}

/* ---- running keeper ---- */

static char folder[64];
static int folder_fd = -1, go_pipe[2] = { -1, -1 };

static pid_t start_keeper(const char *max_bytes)
{
    char *argv[] = { (char *)"sandbox-agent", (char *)"keeper", (char *)max_bytes, (char *)"1", (char *)"argument", NULL };
    pid_t pid;

    ck_assert_int_eq(pipe2(go_pipe, O_CLOEXEC), 0);
    pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid == 0) {
        int go = fcntl(go_pipe[0], F_DUPFD, 70), dir = fcntl(folder_fd, F_DUPFD, 70);

        for (int i = 3; i < 70; i++)
            close(i);
        dup2(go, 5);  /* inherited: stage's */
        dup2(dir, 7); /* inherited: keeper's */
        syscall(SYS_close_range, 64, ~0u, 0);
        _exit(ag_keeper_main(5, argv));
    }
    close(go_pipe[0]);
    return pid;
}

static int finish_keeper(pid_t pid)
{
    int status;

    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    close(go_pipe[1]);
    ck_assert(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static int run_keeper(const char *max_bytes)
{
    return finish_keeper(start_keeper(max_bytes));
}

/* ---- what it left (see also test-keeper-read.c) ---- */

static void check_exit(const char *kind, int code, int sig, int64_t dropped)
{
    SB_FREE char *text = NULL;
    char expected[128], *p;

    ck_assert_int_eq(sb_read_file(folder_fd, "exit", 4096, &text, NULL), 0);
    snprintf(expected, sizeof expected, "{\"schema\":1,\"kind\":\"%s\",\"code\":%d,\"signal\":%d,\"wall_ns\":", kind, code, sig);
    ck_assert_msg(!strncmp(text, expected, strlen(expected)), "expected %s…, got %s", expected, text);
    ck_assert_int_eq(text[strlen(text) - 1], '\n');
    snprintf(expected, sizeof expected, "\"stdout_bytes\":%llu,\"stderr_bytes\":%llu,", (unsigned long long)script.bytes[0],
             (unsigned long long)script.bytes[1]);
    ck_assert_msg(strstr(text, expected) != NULL, "expected %s in %s", expected, text);
    p = strstr(text, "\"dropped_bytes\":");
    ck_assert_ptr_nonnull(p);
    ck_assert_int_eq(strtoll(p + strlen("\"dropped_bytes\":"), NULL, 10), dropped);
    ck_assert_int_eq(faccessat(folder_fd, "reserve", F_OK, 0), -1);
    ck_assert_int_eq(faccessat(folder_fd, ".exit.tmp", F_OK, 0), -1);
}

/* ---- fixtures ---- */

static void set_up(void)
{
    const char *tmp = getenv("TMPDIR");

    snprintf(folder, sizeof folder, "%.40s/keeper-XXXXXX", tmp ? tmp : "/tmp");
    ck_assert_ptr_nonnull(mkdtemp(folder));
    folder_fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    ck_assert_int_ge(folder_fd, 0);
    memset(&script, 0, sizeof script);
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ck_assert_ptr_ne(shared, MAP_FAILED);
}

static void tear_down(void)
{
    folder_fd = sb_close(folder_fd);
    sb_remove_tree(AT_FDCWD, folder);
    munmap(shared, sizeof *shared);
}

/* ---- tests ---- */

static const uint64_t sizes[] = { 0, 1, 4096, 65535, 65536, 65537, 1 << 20, 10 << 20 };

START_TEST(every_byte_is_kept)
{
    struct seen seen;

    script.bytes[0] = sizes[_i];
    script.bytes[1] = sizes[SB_ELEMENTS(sizes) - 1 - (size_t)_i];
    script.code = 7;
    ck_assert_int_eq(run_keeper("67108864"), AG_KEEPER_DONE);
    test_read_ring(folder_fd, "log", &seen);
    for (int i = 0; i < 2; i++) {
        ck_assert_uint_eq(seen.kept[i], script.bytes[i]);
        ck_assert_uint_eq(seen.ends[i], 1);
        test_check_pattern(&seen, i, 0);
    }
    ck_assert_uint_eq(seen.first_position, 0);
    ck_assert_int_eq(seen.torn, 0);
    check_exit("exited", 7, 0, 0);
    test_free_seen(&seen);
}
END_TEST

static const char *const caps[] = { "8192", "100000", "1048576" };

START_TEST(the_ring_stays_bounded)
{
    struct seen seen;

    script.bytes[0] = 3 << 20;
    script.bytes[1] = 1 << 20;
    ck_assert_int_eq(run_keeper(caps[_i]), AG_KEEPER_DONE);
    test_read_ring(folder_fd, "log", &seen);
    ck_assert_uint_le(seen.file_bytes, strtoull(caps[_i], NULL, 10));
    ck_assert_uint_ge(seen.file_bytes, strtoull(caps[_i], NULL, 10) / 4);
    ck_assert_uint_gt(seen.first_position, 0);
    for (int i = 0; i < 2; i++) {
        ck_assert_uint_le(seen.kept[i], script.bytes[i]);
        test_check_pattern(&seen, i, script.bytes[i] - seen.kept[i]); /* what is kept is the end */
        ck_assert_uint_le(seen.ends[i], 1);
    }
    ck_assert_uint_ge(seen.ends[0] + seen.ends[1], 1);
    /* positions count what rotated away */
    ck_assert_uint_eq(seen.end_position, script.bytes[0] + script.bytes[1]);
    check_exit("exited", 0, 0, 0);
    test_free_seen(&seen);
}
END_TEST

static void write_self(const char *file, const char *text)
{
    SB_CLOSE int fd = open(file, O_WRONLY | O_CLOEXEC);

    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(sb_write_all(fd, text, strlen(text)), 0);
}

/* The folder becomes a small file system that nobody else sees. */
static void make_folder_small(void)
{
    unsigned int uid = geteuid(), gid = getegid();
    char map[32];

    if (unshare(uid ? CLONE_NEWUSER | CLONE_NEWNS : CLONE_NEWNS) < 0)
        ck_abort_msg("no mount namespace: %s", strerror(errno));
    if (uid) {
        write_self("/proc/self/setgroups", "deny");
        snprintf(map, sizeof map, "0 %u 1\n", uid);
        write_self("/proc/self/uid_map", map);
        snprintf(map, sizeof map, "0 %u 1\n", gid);
        write_self("/proc/self/gid_map", map);
    }
    ck_assert_int_eq(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL), 0);
    ck_assert_int_eq(mount("tmpfs", folder, "tmpfs", 0, "size=256k,mode=700"), 0);
    sb_close(folder_fd);
    folder_fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    ck_assert_int_ge(folder_fd, 0);
}

START_TEST(a_full_disk_is_said)
{
    struct seen seen;
    pid_t pid;

    make_folder_small();
    script.bytes[0] = 2 << 20;
    script.bytes[1] = 1 << 20;
    script.wait = 1;
    pid = start_keeper("10485760");
    close(go_pipe[1]); /* the wait ends at once: what matters is that the writes did */
    ck_assert_int_eq(finish_keeper(pid), AG_KEEPER_DONE);
    test_read_ring(folder_fd, "log", &seen);
    ck_assert_int_eq(seen.torn, 0);
    ck_assert_uint_ge(seen.kept[0] + seen.kept[1], 100000);
    for (int i = 0; i < 2; i++)
        ck_assert_uint_le(seen.kept[i] + seen.dropped[i], script.bytes[i]);
    check_exit("exited", 0, 0, (int64_t)(script.bytes[0] + script.bytes[1] - seen.kept[0] - seen.kept[1]));
    test_free_seen(&seen);
    sb_close(folder_fd);
    umount2(folder, MNT_DETACH);
}
END_TEST

START_TEST(what_fits_again_is_kept_with_the_loss_in_front)
{
    struct seen seen;
    pid_t pid;
    int blocker;
    char block[4096] = { 1 };

    make_folder_small();
    blocker = openat(folder_fd, "blocker", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    while (write(blocker, block, sizeof block) > 0)
        ;
    script.bytes[0] = 50000;
    script.wait = 1;
    pid = start_keeper("1048576");
    usleep(200000);
    ck_assert_int_eq(ftruncate(blocker, 0), 0);
    ck_assert_int_eq(unlinkat(folder_fd, "blocker", 0), 0);
    close(blocker);
    ck_assert_int_eq(finish_keeper((close(go_pipe[1]), pid)), AG_KEEPER_DONE);
    test_read_ring(folder_fd, "log", &seen);
    ck_assert_uint_eq(seen.kept[0] + seen.dropped[0], script.bytes[0]);
    ck_assert_uint_gt(seen.dropped[0], 0);
    ck_assert_uint_eq(seen.ends[0], 1);
    check_exit("exited", 0, 0, (int64_t)seen.dropped[0]);
    test_free_seen(&seen);
    sb_close(folder_fd);
    umount2(folder, MNT_DETACH);
}
END_TEST

static void append_garbage(const char *name, size_t size)
{
    SB_CLOSE int fd = openat(folder_fd, name, O_WRONLY | O_APPEND | O_CLOEXEC);
    struct sb_ring_record record = { .length = htole32(1000), .stream = SB_RING_STDOUT, .wall_ns = 1 };
    char junk[100] = "not all of it came";

    ck_assert_int_ge(fd, 0);
    if (size >= sizeof record) {
        ck_assert_int_eq(write(fd, &record, sizeof record), sizeof record);
        size -= sizeof record;
    }
    ck_assert_int_eq(write(fd, junk, size), size);
}

static const size_t torn_sizes[] = { 1, 23, 24, 60 };

START_TEST(a_crash_tears_at_most_the_last_record)
{
    struct seen seen;
    uint64_t before[2];
    int status;
    pid_t pid;

    script.bytes[0] = 8 << 20;
    script.bytes[1] = 8 << 20;
    ck_assert_int_eq(sb_write_file(folder_fd, "exit", "stale\n", 6, 0), 0);
    pid = start_keeper("67108864");
    usleep(3000 + 4000 * (useconds_t)_i);
    kill(pid, SIGKILL);
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    close(go_pipe[1]);
    if (faccessat(folder_fd, "log.0", F_OK, 0) < 0) { /* it was quicker than keeper's first step: try the rest all the same */
        script.bytes[0] = script.bytes[1] = 10;
        ck_assert_int_eq(run_keeper("67108864"), AG_KEEPER_DONE);
    } else {
        ck_assert_int_eq(faccessat(folder_fd, "exit", F_OK, 0), -1);
    }
    test_read_ring(folder_fd, "log", &seen);
    for (int i = 0; i < 2; i++) {
        test_check_pattern(&seen, i, 0);
        before[i] = seen.kept[i];
    }
    test_free_seen(&seen);
    append_garbage("log.0", torn_sizes[_i]);
    test_read_ring(folder_fd, "log", &seen);
    ck_assert_int_eq(seen.torn, 1);
    test_free_seen(&seen);

    /* the next run goes on behind the last whole record */
    for (int i = 0; i < 2; i++) {
        script.begin[i] = before[i];
        script.bytes[i] = 100000;
    }
    ck_assert_int_eq(run_keeper("67108864"), AG_KEEPER_DONE);
    test_read_ring(folder_fd, "log", &seen);
    ck_assert_int_eq(seen.torn, 0);
    for (int i = 0; i < 2; i++) {
        ck_assert_uint_eq(seen.kept[i], before[i] + 100000);
        test_check_pattern(&seen, i, 0);
    }
    check_exit("exited", 0, 0, 0);
    test_free_seen(&seen);
}
END_TEST

START_TEST(a_foreign_segment_is_replaced)
{
    struct seen seen;

    ck_assert_int_eq(sb_write_file(folder_fd, "log.0", "no segment at all, and longer than a header", 43, 0), 0);
    ck_assert_int_eq(symlinkat("/etc/passwd", folder_fd, "log.1"), 0);
    script.bytes[0] = 3000;
    ck_assert_int_eq(run_keeper("8192"), AG_KEEPER_DONE);
    unlinkat(folder_fd, "log.1", 0); /* still the link, or the second segment */
    test_read_ring(folder_fd, "log", &seen);
    test_check_pattern(&seen, 0, 0);
    ck_assert_uint_gt(seen.kept[0], 0);
    test_free_seen(&seen);
}
END_TEST

START_TEST(events_are_kept)
{
    struct seen seen;

    script.events = 100;
    ck_assert_int_eq(run_keeper("8192"), AG_KEEPER_DONE);
    test_read_ring(folder_fd, "exits", &seen);
    ck_assert_uint_eq(seen.events, 100);
    ck_assert_uint_eq(seen.records, 100);
    check_exit("exited", 0, 0, 0);
    test_free_seen(&seen);
}
END_TEST

START_TEST(a_stage_that_fails_is_told)
{
    script.stage_code = 5;
    ck_assert_int_eq(run_keeper("8192"), AG_KEEPER_DONE);
    check_exit("unstarted", 5, 0, 0);
}
END_TEST

START_TEST(a_signal_is_told)
{
    script.signal = SIGKILL;
    script.bytes[1] = 77;
    ck_assert_int_eq(run_keeper("8192"), AG_KEEPER_DONE);
    check_exit("signalled", -1, SIGKILL, 0);
}
END_TEST

START_TEST(a_held_pipe_delays_the_end_by_a_bound)
{
    int64_t begin = sb_now_ms(), took;

    script.hold = 1;
    script.bytes[0] = 100;
    ck_assert_int_eq(run_keeper("8192"), AG_KEEPER_DONE);
    took = sb_now_ms() - begin;
    kill(shared->holder, SIGKILL);
    ck_assert_int_ge(took, 450);
    ck_assert_int_lt(took, 5000);
    check_exit("exited", 0, 0, 0);
}
END_TEST

static int count_descriptors(pid_t pid)
{
    char path[64], name[64];
    int n = 0;

    for (int i = 0; i < 1024; i++) {
        snprintf(path, sizeof path, "/proc/%d/fd/%d", (int)pid, i);
        n += readlink(path, name, sizeof name) > 0;
    }
    return n;
}

START_TEST(keeper_keeps_little_and_outlives_signals)
{
    static const int signals[] = { SIGHUP, SIGINT, SIGTERM, SIGQUIT, SIGPIPE, SIGUSR1, SIGALRM };
    char path[64], link[64] = { 0 };
    pid_t pid;

    script.wait = 1;
    script.code = 3;
    pid = start_keeper("8192");
    snprintf(path, sizeof path, "/proc/%d/cwd", (int)pid);
    for (int64_t end = sb_deadline(5000); sb_left_ms(end) && count_descriptors(pid) != 9;)
        usleep(1000);
    usleep(50000); /* the file that reserves room is closed again */
    /* 0 … 2, four to poll, the folder, the segment: nothing of the caller's is held */
    ck_assert_int_eq(count_descriptors(pid), 9);
    for (size_t i = 0; i < SB_ELEMENTS(signals); i++)
        kill(pid, signals[i]);
    usleep(20000);
    ck_assert_int_eq(readlink(path, link, sizeof link - 1), 1);
    ck_assert_str_eq(link, "/");
    ck_assert_int_eq(getsid(pid), pid);
    ck_assert_int_eq(write(go_pipe[1], "x", 1), 1);
    ck_assert_int_eq(finish_keeper(pid), AG_KEEPER_DONE);
    check_exit("exited", 3, 0, 0);
}
END_TEST

START_TEST(wrong_arguments_start_nothing)
{
    ck_assert_int_eq(run_keeper("8191"), AG_KEEPER_USAGE);
    ck_assert_int_eq(run_keeper("-1"), AG_KEEPER_USAGE);
    ck_assert_int_eq(run_keeper("10x"), AG_KEEPER_USAGE);
    ck_assert_int_eq(run_keeper(""), AG_KEEPER_USAGE);
    sb_close(folder_fd);
    folder_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    ck_assert_int_eq(run_keeper("8192"), AG_KEEPER_USAGE);
}
END_TEST

START_TEST(the_checksum_is_crc32c)
{
    unsigned char zeros[32] = { 0 };

    unsigned char noise[4099];

    for (size_t i = 0; i < sizeof noise; i++)
        noise[i] = test_pattern(0, i);
    for (size_t i = 0; i < 40; i++)
        ck_assert_uint_eq(sb_crc32c(7, noise + i, sizeof noise - i - i * i), sb_crc32c_tables(7, noise + i, sizeof noise - i - i * i));
    ck_assert_uint_eq(sb_crc32c(0, "123456789", 9), 0xe3069283);
    ck_assert_uint_eq(sb_crc32c(0, zeros, sizeof zeros), 0x8a9136aa);
    ck_assert_uint_eq(sb_crc32c(sb_crc32c(0, "1234", 4), "56789", 5), 0xe3069283);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("keeper");
    TCase *tests = tcase_create("keeper");
    SRunner *runner;
    int failed;

    tcase_set_timeout(tests, 60);
    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_add_loop_test(tests, every_byte_is_kept, 0, (int)SB_ELEMENTS(sizes));
    tcase_add_loop_test(tests, the_ring_stays_bounded, 0, (int)SB_ELEMENTS(caps));
    tcase_add_test(tests, a_full_disk_is_said);
    tcase_add_test(tests, what_fits_again_is_kept_with_the_loss_in_front);
    tcase_add_loop_test(tests, a_crash_tears_at_most_the_last_record, 0, (int)SB_ELEMENTS(torn_sizes));
    tcase_add_test(tests, a_foreign_segment_is_replaced);
    tcase_add_test(tests, events_are_kept);
    tcase_add_test(tests, a_stage_that_fails_is_told);
    tcase_add_test(tests, a_signal_is_told);
    tcase_add_test(tests, a_held_pipe_delays_the_end_by_a_bound);
    tcase_add_test(tests, keeper_keeps_little_and_outlives_signals);
    tcase_add_test(tests, wrong_arguments_start_nothing);
    tcase_add_test(tests, the_checksum_is_crc32c);
    suite_add_tcase(suite, tests);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
