/* SPDX-License-Identifier: Apache-2.0
 * sandbox-scope BUS UNIT SLICE MOUNT COMMAND ARGUMENT…: asks systemd for a scope of its own (StartTransientUnit with Delegate=yes), goes
 * there, and becomes the agent program, which is descriptor SB_SCOPE_FD_AGENT. So everything that the agent makes is in the scope from
 * its first moment, and an ordinary user's stage may clone into groups that are neither its session's nor root's.
 *
 * A program of its own, and the only one that needs libsystemd: the library loads nothing into its host, and where this program can't
 * start (no libsystemd.so.0) it is as if there were no systemd. It speaks once, into SB_SCOPE_FD_REPORT: "0 FOLDER", or "ERRNO REASON".
 *
 * The process leaves the scope's own group for "host" in it: the group beside that gets limits, which cgroup v2 wants no processes above. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <systemd/sd-bus.h>
#include <time.h>
#include <unistd.h>

#include <scope-plan.h>

#define MANAGER "org.freedesktop.systemd1", "/org/freedesktop/systemd1", "org.freedesktop.systemd1.Manager"
enum { BUS_SECONDS = 8, STOP_SECONDS = 5 };

struct job {
    const char *unit;
    int done;
    char result[32];
};

static _Noreturn void report(int code, const char *text)
{
    char line[SB_SCOPE_REPORT_MAX];
    int n = snprintf(line, sizeof line, "%d %s", code < 0 ? -code : code, text);

    if (n >= (int)sizeof line)
        n = sizeof line - 1;
    _exit(write(SB_SCOPE_FD_REPORT, line, (size_t)n) == n ? 1 : 2);
}

static uint64_t now_usec(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000u + (uint64_t)now.tv_nsec / 1000u;
}

static int on_removed(sd_bus_message *message, void *data, sd_bus_error *error)
{
    struct job *job = data;
    const char *unit, *result;
    int r = sd_bus_message_read(message, "uoss", NULL, NULL, &unit, &result);

    (void)error;
    if (r >= 0 && !strcmp(unit, job->unit)) {
        snprintf(job->result, sizeof job->result, "%s", result);
        job->done = 1;
    }
    return 0;
}

/* When the machine or the user's manager ends, SIGTERM goes to all in the scope: a daemon may end by it, init and keeper don't. */
static int start(sd_bus *bus, const char *unit, const char *slice, sd_bus_error *error)
{
    const uint64_t stop_usec = STOP_SECONDS * 1000000u;

    return sd_bus_call_method(bus, MANAGER, "StartTransientUnit", error, NULL, "ssa(sv)a(sa(sv))", unit, "fail", 8, "Description", "s",
                              "a sandbox of libsandbox", "Slice", "s", slice, "PIDs", "au", 1, (uint32_t)getpid(), "Delegate", "b", 1,
                              "TasksMax", "t", UINT64_MAX, "CollectMode", "s", "inactive-or-failed", "DefaultDependencies", "b", 1,
                              "TimeoutStopUSec", "t", stop_usec, 0);
}

/* A scope of this name that has just ended may not have been taken away yet. */
static int start_again(sd_bus *bus, const char *unit, const char *slice, uint64_t until, sd_bus_error *error)
{
    int r;

    while ((r = start(bus, unit, slice, error)) < 0 && sd_bus_error_has_name(error, "org.freedesktop.systemd1.UnitExists") &&
           now_usec() < until) {
        sd_bus_error_free(error);
        nanosleep(&(struct timespec){ .tv_nsec = 5000000 }, NULL);
    }
    return r;
}

static void enter_scope(const char *address, const char *unit, const char *slice)
{
    const uint64_t until = now_usec() + BUS_SECONDS * 1000000u;
    sd_bus_error error = SD_BUS_ERROR_NULL;
    struct job job = { .unit = unit };
    sd_bus *bus = NULL;
    int r = sd_bus_new(&bus);

    if (r >= 0)
        r = sd_bus_set_address(bus, address);
    if (r >= 0)
        r = sd_bus_set_bus_client(bus, 1);
    if (r >= 0)
        r = sd_bus_set_method_call_timeout(bus, BUS_SECONDS * 1000000u);
    if (r >= 0)
        r = sd_bus_start(bus);
    if (r >= 0)
        r = sd_bus_match_signal_async(bus, NULL, MANAGER, "JobRemoved", on_removed, NULL, &job);
    if (r < 0)
        report(r, "the bus can't be reached");
    r = start_again(bus, unit, slice, until, &error);
    if (r < 0)
        report(r, error.message ? error.message : strerrordesc_np(-r));
    while (!job.done) {
        uint64_t now = now_usec();

        r = sd_bus_process(bus, NULL);
        if (r == 0)
            r = now < until ? sd_bus_wait(bus, until - now) : -ETIMEDOUT;
        if (r < 0 && r != -EINTR)
            report(r, "systemd did not say that the scope was started");
    }
    if (strcmp(job.result, "done"))
        report(EIO, job.result);
    sd_bus_flush_close_unref(bus);
}

/* Our own group in cgroup2, which must be the scope now. */
static void find_group(const char *unit, char *path, size_t size)
{
    FILE *f = fopen("/proc/self/cgroup", "re");
    size_t n = strlen(unit);

    *path = 0;
    while (f && fgets(path, (int)size, f)) {
        path[strcspn(path, "\n")] = 0;
        if (!strncmp(path, "0::/", 4) && strlen(path) > n + 4 && !strcmp(path + strlen(path) - n, unit)) {
            memmove(path, path + 3, strlen(path + 3) + 1);
            fclose(f);
            return;
        }
    }
    report(ENOENT, "systemd did not put this process into the scope");
}

static void leave_top(const char *mount, const char *group)
{
    char path[SB_SCOPE_REPORT_MAX + 64];
    int fd;

    snprintf(path, sizeof path, "%s%s/host", mount, group);
    if (mkdir(path, 0755) < 0)
        report(errno, "the scope is not delegated: no group can be made in it");
    snprintf(path, sizeof path, "%s%s/host/cgroup.procs", mount, group);
    fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0 || write(fd, "0", 1) != 1)
        report(errno, "the scope's own group can't be left");
    close(fd);
}

int main(int argc, char **argv)
{
    char group[SB_SCOPE_REPORT_MAX - 64];
    char *const none[] = { NULL };
    int n;

    if (argc < 7)
        _exit(2);
    for (int fd = SB_SCOPE_FD_AGENT; fd <= SB_SCOPE_FD_REPORT; fd++)
        if (fcntl(fd, F_SETFD, FD_CLOEXEC) < 0)
            _exit(2);
    enter_scope(argv[1], argv[2], argv[3]);
    find_group(argv[2], group, sizeof group);
    leave_top(argv[4], group);
    n = (int)strlen(group);
    if (dprintf(SB_SCOPE_FD_REPORT, "0 %s", group) != n + 2)
        _exit(2);
    syscall(SYS_execveat, SB_SCOPE_FD_AGENT, "", argv + 5, none, 0x1000 /* AT_EMPTY_PATH */);
    _exit(127);
}
