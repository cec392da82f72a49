/* SPDX-License-Identifier: Apache-2.0
 * The red team's rows D06 and D08: a clock that jumps, and a power cut at each point where something was flushed.
 *
 * The cut is a model, kept while the library works: system calls that change or flush the state root are replaced at link time (ld
 * --wrap). Of a file survives what was fsync()ed of it, else nothing of its content; of a folder the entries that were there at its last
 * fsync(). That is the worst a disk may do. The best is that everything survived. Before and after each such call both are laid down as
 * a state root of its own; in the end each is opened as after a reboot, and must list what had been acknowledged. */
#include "box.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static struct sandbox_host *host;
static struct sandbox_error *error;

/* ---- D06: this process's wall clock ---- */

static long long jump; /* seconds; 0: the clock is left alone */

int __real_clock_gettime(clockid_t clock, struct timespec *t);
int __wrap_clock_gettime(clockid_t clock, struct timespec *t);
int __wrap_clock_gettime(clockid_t clock, struct timespec *t)
{
    int r = __real_clock_gettime(clock, t);

    if (clock == CLOCK_REALTIME && jump) {
        t->tv_sec += jump;
        jump = -jump; /* a year ahead, a year back, with each look */
    }
    return r;
}

START_TEST(redteam_d06)
{
    struct sandbox_exec_options options = SANDBOX_EXEC_OPTIONS_INIT;
    struct sandbox_exec_result result = SANDBOX_EXEC_RESULT_INIT;
    struct sandbox *sandbox;
    struct sandbox_exec *exec = NULL;
    struct timespec a, b;
    long begun;
    int fd = -1;

    jump = _i ? -31536000 : 31536000;
    clock_gettime(CLOCK_REALTIME, &a);
    clock_gettime(CLOCK_REALTIME, &b);
    ck_assert_int_gt(llabs((long long)a.tv_sec - b.tv_sec), 60000000); /* it jumps */
    host = box_host();
    sandbox = box_start(host, NULL);
    options.deadline_ms = 400;
    begun = box_now();
    sbtest_ok(sandbox_exec(sandbox, BOX_ARGV("sleep", "30"), &options, &exec, &error), &error);
    sbtest_fails(sandbox_exec_wait(exec, 100, &result, &error), SANDBOX_ETIMEDOUT, &error);
    ck_assert_int_ge(box_now() - begun, 95);
    sbtest_ok(sandbox_exec_wait(exec, 10000, &result, &error), &error);
    ck_assert_int_eq(result.kind, SANDBOX_EXEC_DEADLINE);
    ck_assert_int_ge(box_now() - begun, 390);
    ck_assert_int_lt(box_now() - begun, sbtest_slowly(5000));
    sandbox_exec_unref(exec);
    /* one without a deadline is not ended by a year that passes */
    sbtest_ok(sandbox_exec(sandbox, BOX_ARGV("/bin/sh", "-c", "sleep 0.5; exit 6"), NULL, &exec, &error), &error);
    sbtest_ok(sandbox_exec_wait(exec, 10000, &result, &error), &error);
    ck_assert_int_eq(result.code, 6);
    sandbox_exec_unref(exec);
    ck_assert_int_lt(sandbox_dial(sandbox, 7, 300, &fd, &error), 0);
    error = sandbox_error_unref(error);
    begun = box_now();
    sbtest_ok(sandbox_stop(sandbox, 200, 10000, &error), &error);
    ck_assert_int_lt(box_now() - begun, sbtest_slowly(5000));
    sbtest_ok(sandbox_start(sandbox, 10000, &error), &error);
    box_end(&host, &sandbox);
}
END_TEST

/* The time to live neither: it ends when it is due, and not before. */
START_TEST(redteam_d06_ttl)
{
    struct sandbox_spec *spec = box_spec();
    struct sandbox_list *list = NULL;
    struct sandbox_info *info = NULL;
    struct sandbox *sandbox;
    long begun = box_now();
    int state;

    jump = _i ? -31536000 : 31536000;
    host = box_host();
    sbtest_ok(sandbox_spec_set_ttl(spec, 2500, SANDBOX_END_STOP, &error), &error);
    sandbox = box_start(host, spec);
    for (int i = 0; i < 4; i++) { /* each list looks whose time is over */
        sbtest_ok(sandbox_host_list(host, NULL, &list, &error), &error);
        state = sandbox_info_get_state(sandbox_list_get(list, 0));
        ck_assert(state == SANDBOX_STATE_RUNNING || box_now() - begun >= 2500);
        sandbox_list_unref(list);
    }
    do {
        usleep(20000);
        sbtest_ok(sandbox_inspect(sandbox, &info, &error), &error);
        state = sandbox_info_get_state(info);
        ck_assert_int_le(sandbox_info_get_ttl_ms(info), 2500);
        info = sandbox_info_unref(info);
        ck_assert_int_lt(box_now() - begun, sbtest_slowly(20000));
    } while (state != SANDBOX_STATE_STOPPED);
    ck_assert_int_ge(box_now() - begun, 2400);
    box_end(&host, &sandbox);
}
END_TEST

/* ---- D08: what is on the disk ---- */

enum { NODES = 4096, CUTS = 400, ACKNOWLEDGED = 4 };

struct entry {
    char name[80];
    ino_t ino;
    mode_t mode;
    char link[80];
};
static struct node {
    ino_t ino;
    char *content; /* a file's, NULL: none was flushed */
    size_t size;
    struct entry *entries; /* a folder's */
    size_t n_entries;
} nodes[NODES];
static size_t n_nodes;

static char live[600], cuts[600];
static int recording, n_cuts;
static struct {
    char ids[ACKNOWLEDGED][SANDBOX_ID_LENGTH + 1];
    int n;
} acknowledged, at_cut[CUTS];

static struct node *node_of(ino_t ino)
{
    for (size_t i = 0; i < n_nodes; i++)
        if (nodes[i].ino == ino)
            return &nodes[i];
    ck_assert_uint_lt(n_nodes, NODES);
    nodes[n_nodes] = (struct node){ .ino = ino };
    return &nodes[n_nodes++];
}

/* What is no record is of no interest here, and large. */
static int passed_over(const char *name)
{
    return !strcmp(name, "skeletons") || !strcmp(name, "rw") || !strcmp(name, "s") || !strcmp(name, "log");
}

static void flush_folder(const char *path, ino_t ino)
{
    struct node *node = node_of(ino);
    DIR *dir = opendir(path);
    struct dirent *e;

    free(node->entries);
    node->entries = NULL;
    node->n_entries = 0;
    while (dir && (e = readdir(dir))) {
        struct entry entry = { .ino = e->d_ino };
        char below[1400];
        struct stat st;

        snprintf(below, sizeof below, "%s/%s", path, e->d_name);
        if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, "..") || passed_over(e->d_name) || lstat(below, &st) < 0)
            continue;
        ck_assert_int_lt(snprintf(entry.name, sizeof entry.name, "%s", e->d_name), (int)sizeof entry.name);
        entry.mode = st.st_mode;
        if (S_ISLNK(st.st_mode) && readlink(below, entry.link, sizeof entry.link - 1) < 0)
            continue;
        node->entries = realloc(node->entries, (node->n_entries + 1) * sizeof entry);
        ck_assert_ptr_nonnull(node->entries);
        node->entries[node->n_entries++] = entry;
    }
    if (dir)
        closedir(dir);
}

static void flush_file(const char *path, const struct stat *st)
{
    struct node *node = node_of(st->st_ino);
    int fd = open(path, O_RDONLY | O_CLOEXEC);

    if (fd < 0 || st->st_size > 1 << 20)
        return;
    free(node->content);
    node->content = calloc(1, (size_t)st->st_size + 1);
    ck_assert_ptr_nonnull(node->content);
    node->size = (size_t)pread(fd, node->content, (size_t)st->st_size, 0);
    close(fd);
}

static int flush_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)ftw;
    if (type == FTW_D)
        flush_folder(path, st->st_ino);
    if (type == FTW_F && S_ISREG(st->st_mode))
        flush_file(path, st);
    return 0;
}

static void lay_down(ino_t ino, const char *to)
{
    const struct node *node = node_of(ino);

    for (size_t i = 0; i < node->n_entries; i++) {
        const struct entry *e = &node->entries[i];
        char path[1400];
        int fd;

        snprintf(path, sizeof path, "%s/%s", to, e->name);
        if (S_ISDIR(e->mode)) {
            ck_assert_int_eq(mkdir(path, e->mode & 07777), 0);
            lay_down(e->ino, path);
        } else if (S_ISLNK(e->mode)) {
            ck_assert_int_eq(symlink(e->link, path), 0);
        } else if (S_ISREG(e->mode)) {
            const struct node *file = node_of(e->ino);

            fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, e->mode & 07777);
            ck_assert_int_ge(fd, 0);
            ck_assert(!file->content || write(fd, file->content, file->size) == (ssize_t)file->size);
            close(fd);
        }
    }
}

/* The worst case, then the best: the live tree as it is, all of it flushed for the moment. */
static void cut(void)
{
    static struct node saved[NODES];
    size_t n_saved = n_nodes;
    int why = errno; /* of the call that this stands beside */
    struct stat st;
    char to[700];

    if (!recording || n_cuts + 2 > CUTS)
        return;
    recording = 0;
    for (int best = 0; best < 2; best++) {
        if (best) {
            for (size_t i = 0; i < n_nodes; i++) { /* a copy, to be given back */
                saved[i] = nodes[i];
                nodes[i] = (struct node){ .ino = saved[i].ino };
            }
            nftw(live, flush_one, 16, FTW_PHYS);
        }
        snprintf(to, sizeof to, "%s/%d", cuts, n_cuts);
        ck_assert_int_eq(mkdir(to, 0700) | stat(live, &st), 0);
        lay_down(st.st_ino, to);
        at_cut[n_cuts].n = acknowledged.n;
        memcpy(at_cut[n_cuts].ids, acknowledged.ids, sizeof acknowledged.ids);
        n_cuts++;
    }
    for (size_t i = 0; i < n_nodes; i++) {
        free(nodes[i].content);
        free(nodes[i].entries);
        nodes[i] = i < n_saved ? saved[i] : (struct node){ .ino = nodes[i].ino };
    }
    recording = 1;
    errno = why;
}

static int is_ours(int fd, char path[1200])
{
    int why = errno;
    char link[64];
    ssize_t n;

    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    n = readlink(link, path, 1199);
    path[n > 0 ? n : 0] = 0;
    errno = why;
    return recording && strncmp(path, live, strlen(live)) == 0;
}

static void flushed(int fd)
{
    int why = errno;
    char path[1200];
    struct stat st;

    if (!is_ours(fd, path) || fstat(fd, &st) < 0)
        return;
    if (S_ISDIR(st.st_mode))
        flush_folder(path, st.st_ino);
    else if (S_ISREG(st.st_mode))
        flush_file(path, &st);
    errno = why;
}

#define AROUND(call, ...)                                                                                                        \
    int __real_##call(__VA_ARGS__);                                                                                              \
    int __wrap_##call(__VA_ARGS__);                                                                                              \
    int __wrap_##call(__VA_ARGS__)

AROUND(fsync, int fd)
{
    char path[1200];
    int r, ours = is_ours(fd, path);

    if (ours)
        cut();
    r = __real_fsync(fd);
    flushed(fd);
    if (ours)
        cut();
    return r;
}

AROUND(fdatasync, int fd)
{
    int r = __real_fdatasync(fd);

    flushed(fd);
    return r;
}

AROUND(renameat, int from, const char *a, int to, const char *b)
{
    char path[1200];
    int r, ours = is_ours(to, path);

    if (ours)
        cut();
    r = __real_renameat(from, a, to, b);
    if (ours)
        cut();
    return r;
}

AROUND(unlinkat, int dir, const char *name, int flags)
{
    char path[1200];
    int r = __real_unlinkat(dir, name, flags);

    if (is_ours(dir, path) && n_cuts < CUTS / 2)
        cut();
    return r;
}

static struct sandbox *make(const char *name)
{
    struct sandbox_spec *spec = box_spec();
    struct sandbox *sandbox = NULL;

    sbtest_ok(sandbox_spec_set_name(spec, name, &error), &error);
    sbtest_ok(sandbox_spec_add_label(spec, "power", name, &error), &error);
    sbtest_ok(sandbox_spec_set_lifetime(spec, SANDBOX_LIFETIME_DETACHED, &error), &error);
    sbtest_ok(sandbox_create(host, spec, 20000, &sandbox, &error), &error);
    sandbox_spec_unref(spec);
    snprintf(acknowledged.ids[acknowledged.n++], SANDBOX_ID_LENGTH + 1, "%s", sandbox_get_id(sandbox));
    return sandbox;
}

/* From now on it need not be there, and may. */
static void gone(struct sandbox *sandbox)
{
    acknowledged.n--;
    ck_assert_str_eq(acknowledged.ids[acknowledged.n], sandbox_get_id(sandbox));
    sbtest_ok(sandbox_delete(sandbox, 20000, &error), &error);
    sandbox_unref(sandbox);
}

static void check_cut(int n)
{
    struct sandbox_host_options options = SANDBOX_HOST_OPTIONS_INIT;
    struct sandbox_list *list = NULL;
    struct sandbox *sandbox = NULL;
    char root[700];

    snprintf(root, sizeof root, "%s/%d", cuts, n);
    options.state_root = root;
    sbtest_ok(sandbox_host_open("local:", &options, 20000, &host, &error), &error);
    sbtest_ok(sandbox_host_list(host, NULL, &list, &error), &error);
    for (int i = 0; i < at_cut[n].n; i++) {
        int found = 0;

        for (size_t k = 0; k < sandbox_list_get_count(list); k++) {
            const struct sandbox_info *info = sandbox_list_get(list, k);

            if (strcmp(sandbox_info_get_id(info), at_cut[n].ids[i]) != 0)
                continue;
            found = 1;
            if (sandbox_info_get_state(info) == SANDBOX_STATE_DAMAGED || !sandbox_info_get_label(info, "power"))
                ck_abort_msg("cut %d: an acknowledged sandbox is damaged or has lost its label", n);
        }
        if (!found)
            ck_abort_msg("cut %d: an acknowledged sandbox is not listed", n);
    }
    for (size_t k = 0; k < sandbox_list_get_count(list); k++) {
        sbtest_ok(sandbox_open(host, sandbox_info_get_id(sandbox_list_get(list, k)), &sandbox, &error), &error);
        sbtest_ok(sandbox_delete(sandbox, 20000, &error), &error);
        sandbox = sandbox_unref(sandbox);
    }
    sandbox_list_unref(list);
    sbtest_ok(sandbox_host_list(host, NULL, &list, &error), &error);
    ck_assert_uint_eq(sandbox_list_get_count(list), 0);
    sandbox_list_unref(list);
    host = sandbox_host_unref(host);
}

static void forget_model(void)
{
    for (size_t i = 0; i < n_nodes; i++) {
        free(nodes[i].content);
        free(nodes[i].entries);
    }
    n_nodes = 0;
}

START_TEST(redteam_d08)
{
    struct sandbox *one, *two;
    int rebooted = 0;
    char path[600];

    snprintf(live, sizeof live, "%s/state", sbtest_dir());
    snprintf(cuts, sizeof cuts, "%s/cuts", sbtest_dir());
    ck_assert_int_eq(mkdir(cuts, 0700), 0);
    host = box_host();
    one = box_start(host, NULL); /* what is made once for all is there */
    sbtest_ok(sandbox_delete(one, 20000, &error), &error);
    sandbox_unref(one);
    nftw(live, flush_one, 16, FTW_PHYS);
    recording = 1;
    one = make("one");
    sbtest_ok(sandbox_start(one, 20000, &error), &error);
    two = make("two");
    sbtest_ok(sandbox_stop(one, 0, 20000, &error), &error);
    gone(two);
    gone(one);
    recording = 0;
    host = sandbox_host_unref(host);
    printf("%d power cuts\n", n_cuts);
    ck_assert_int_gt(n_cuts, 20);
    if (geteuid() == 0) { /* another boot, for everybody in this test's namespace */
        box_write(sbtest_dir(), "boot", "11111111-2222-4333-8444-555555555555\n");
        snprintf(path, sizeof path, "%s/boot", sbtest_dir());
        rebooted = mount(path, "/proc/sys/kernel/random/boot_id", NULL, MS_BIND, NULL) == 0;
    }
    for (int i = 0; i < n_cuts; i++)
        check_cut(i);
    if (rebooted)
        ck_assert_int_eq(umount2("/proc/sys/kernel/random/boot_id", MNT_DETACH), 0);
    forget_model();
}
END_TEST

/* The model finds a library that does not flush: the same work with an fsync() that does nothing loses what was acknowledged. */
START_TEST(redteam_d08_selftest)
{
    struct stat st;
    char path[700];
    int fd;

    snprintf(live, sizeof live, "%s/state", sbtest_dir());
    snprintf(cuts, sizeof cuts, "%s/cuts", sbtest_dir());
    ck_assert_int_eq(mkdir(live, 0700) | mkdir(cuts, 0700), 0);
    nftw(live, flush_one, 16, FTW_PHYS);
    recording = 1;
    snprintf(path, sizeof path, "%s/file.new", live);
    fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    ck_assert_int_eq(write(fd, "text", 4), 4);
    cut();                          /* 0, 1: neither flushed */
    ck_assert_int_eq(fsync(fd), 0); /* 2 … 5 */
    close(fd);
    fd = open(live, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    ck_assert_int_eq(renameat(fd, "file.new", fd, "file"), 0); /* 6 … 9 */
    ck_assert_int_eq(fsync(fd), 0);                            /* 10 … 13 */
    close(fd);
    recording = 0;
    ck_assert_int_eq(n_cuts, 14);
    for (int i = 0; i < n_cuts; i++) {
        int there;

        snprintf(path, sizeof path, "%s/%d/file", cuts, i);
        there = stat(path, &st) == 0 ? (int)st.st_size : -1;
        /* the worst has it only after the folder was flushed, the best as soon as it was renamed; and then whole, as the file was flushed before */
        ck_assert_int_eq(there, i % 2 ? (i >= 9 ? 4 : -1) : (i >= 12 ? 4 : -1));
    }
    forget_model();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("redteam-power");
    TCase *tc = sbtest_case("power");

    tcase_set_timeout(tc, 120);
    tcase_add_loop_test(tc, redteam_d06, 0, 2);
    tcase_add_loop_test(tc, redteam_d06_ttl, 0, 2);
    tcase_add_test(tc, redteam_d08_selftest);
    tcase_add_test(tc, redteam_d08);
    suite_add_tcase(suite, tc);
    return sbtest_main(suite);
}
