/* SPDX-License-Identifier: Apache-2.0
 * Where systemd is PID 1 and owns cgroup v2, each sandbox lives in a transient scope that systemd made and delegated, never in a
 * group of ours among systemd's. One for each sandbox and not for the state root: a scope ends when its last process does, so that one
 * for all would need a process of ours that stays, and its name tells which sandbox it is of. The record's folders are
 *
 *     …/system.slice/libsandbox-ID.scope/box {, /exec, /daemon}        a user's: …/user@UID.service/app.slice/…
 *
 * "box" has the limits; "host" beside it has the stage and the keeper (agent/scope.c), which must outlive what is in the box. */
#include "engine.h"
#include "scope.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <errors.h>
#include <fs.h>
#include <process.h>

#define MOUNT "/sys/fs/cgroup" /* systemd's, always */
enum { REPORT_SECONDS = 10, RETRY_MS = 30000, GONE_MS = 2000 };

static int is_socket_of(const char *path, uid_t uid)
{
    struct stat st;

    return lstat(path, &st) == 0 && S_ISSOCK(st.st_mode) && st.st_uid == uid;
}

static void bus_path(char *path, size_t size)
{
    if (geteuid() == 0)
        snprintf(path, size, "/run/dbus/system_bus_socket");
    else
        snprintf(path, size, "/run/user/%u/bus", geteuid());
}

/* PID 1's own group is init.scope, just below the root of what systemd manages: not "/" in a container without a cgroup namespace. */
static int manager_root(char *root, size_t size)
{
    SB_FREE char *text = NULL;
    char *end;

    *root = 0;
    if (sb_read_file(AT_FDCWD, "/proc/1/cgroup", 1 << 16, &text, NULL))
        return 1; /* hidden (hidepid): then it is what it nearly always is */
    if (strncmp(text, "0::/", 4) || !(end = strstr(text, "/init.scope\n")) || end[strlen("/init.scope\n")] ||
        end - (text + 3) >= (ptrdiff_t)size)
        return 0; /* another hierarchy is there too, or no systemd */
    snprintf(root, size, "%.*s", (int)(end - (text + 3)), text + 3);
    return 1;
}

int sb_scopes_detect(struct sb_engine *engine)
{
    struct sb_cgroups *cgroups = &engine->cgroups;
    char root[2048], bus[64], controllers[4096], *folder = NULL;
    struct stat st;
    int program;

    bus_path(bus, sizeof bus);
    if (lstat("/run/systemd/system", &st) < 0 || !S_ISDIR(st.st_mode) || !is_socket_of(bus, geteuid()) ||
        access(MOUNT "/cgroup.controllers", F_OK) < 0 || !manager_root(root, sizeof root) ||
        sb_engine_program(engine, "sandbox-scope", &program, NULL))
        return 0;
    if (geteuid() == 0) {
        snprintf(controllers, sizeof controllers, MOUNT "%s/cgroup.controllers", root);
        if (asprintf(&folder, MOUNT "%s/system.slice", root) < 0)
            return -ENOMEM;
    } else {
        snprintf(controllers, sizeof controllers, MOUNT "%s/user.slice/user-%u.slice/user@%u.service/cgroup.controllers", root,
                 geteuid(), geteuid());
        if (asprintf(&folder, MOUNT "%s/user.slice/user-%u.slice/user@%u.service/app.slice", root, geteuid(), geteuid()) < 0)
            return -ENOMEM;
    }
    if (access(controllers, R_OK) < 0) { /* somebody else's bus, or another manager's layout */
        free(folder);
        return 0;
    }
    sb_cgroups_clear(cgroups);
    cgroups->scopes = folder;
    cgroups->delegated = sb_cgroups_controllers(controllers);
    return 0;
}

int sb_scopes_usable(const struct sb_cgroups *cgroups)
{
    return cgroups->scopes && sb_now_ms() >= atomic_load(&cgroups->scopes_retry_ms);
}

int sb_scopes_named(const json_t *folders)
{
    const char *first = json_string_value(json_array_get(folders, 0));

    return first && strstr(first, ".scope/box") != NULL;
}

int sb_scope_spawn(struct sb_engine *engine, const char *id, int agent, char *const agent_argv[], const struct sb_spawn_fd *fds,
                   struct sb_scope_report *ret_report, pid_t *ret_pid, int *ret_pidfd)
{
    char bus[96] = "unix:path=", unit[SB_ID_SIZE + 32];
    struct sb_spawn_fd map[SB_SCOPE_FD_END];
    char *argv[16] = { (char[]){ "sandbox-scope" }, bus, unit, geteuid() == 0 ? (char[]){ "system.slice" } : (char[]){ "app.slice" },
                       (char[]){ MOUNT } };
    const struct itimerspec patience = { .it_value.tv_sec = REPORT_SECONDS };
    struct sb_scope_report report = SB_SCOPE_REPORT_INIT;
    int program, pipes[2], r = sb_engine_program(engine, "sandbox-scope", &program, NULL);
    size_t n = 5;

    if (r)
        return -ENOENT;
    bus_path(bus + strlen(bus), sizeof bus - strlen(bus));
    snprintf(unit, sizeof unit, "libsandbox-%s.scope", id);
    for (size_t i = 0; agent_argv[i] && n < SB_ELEMENTS(argv) - 1; i++)
        argv[n++] = agent_argv[i];
    report.timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    if (report.timer < 0 || timerfd_settime(report.timer, 0, &patience, NULL) < 0 || pipe2(pipes, O_CLOEXEC) < 0) {
        r = -errno;
        sb_scope_report_clear(&report);
        return r;
    }
    report.fd = pipes[0];
    fcntl(report.fd, F_SETFL, O_NONBLOCK); /* its description is ours alone */
    memcpy(map, fds, SB_FD_STAGE_END * sizeof *fds);
    map[SB_SCOPE_FD_AGENT] = (struct sb_spawn_fd){ .from = agent, .to = SB_SCOPE_FD_AGENT };
    map[SB_SCOPE_FD_REPORT] = (struct sb_spawn_fd){ .from = pipes[1], .to = SB_SCOPE_FD_REPORT };
    r = sb_spawn_watched(program, argv, map, SB_SCOPE_FD_END, ret_pid, ret_pidfd);
    sb_close(pipes[1]);
    if (r) {
        sb_scope_report_clear(&report);
        return r;
    }
    *ret_report = report;
    return 0;
}

void sb_scope_report_clear(struct sb_scope_report *report)
{
    report->fd = sb_close(report->fd);
    report->timer = sb_close(report->timer);
}

/* The whole report: the pipe's end is closed by the helper's execve, or by its end. 1: not yet. */
static int read_report(struct sb_scope_report *report)
{
    struct pollfd timer = { .fd = report->timer, .events = POLLIN };

    while (report->n < sizeof report->text - 1) {
        ssize_t got = SB_RETRY(read(report->fd, report->text + report->n, sizeof report->text - 1 - report->n));

        if (got < 0 && errno == EAGAIN)
            return poll(&timer, 1, 0) > 0 ? -ETIMEDOUT : 1;
        if (got < 0)
            return -errno;
        if (got == 0)
            break;
        report->n += (size_t)got;
    }
    report->text[report->n] = 0;
    return report->n ? 0 : -ENOEXEC; /* it said nothing: its libraries are not here */
}

int sb_scope_step(struct sb_cgroups *cgroups, const char *id, struct sb_scope_report *report, struct sandbox_error **error)
{
    char path[4200], unit[SB_ID_SIZE + 32];
    const char *text = report->text;
    int r = read_report(report);

    if (r == 1)
        return 1;
    if (!r && !strncmp(text, "0 ", 2)) {
        snprintf(unit, sizeof unit, "/libsandbox-%s.scope", id);
        snprintf(path, sizeof path, MOUNT "%s", text + 2);
        if (!strncmp(path, cgroups->scopes, strlen(cgroups->scopes)) && !strcmp(path + strlen(cgroups->scopes), unit))
            return 0;
        r = -EXDEV; /* systemd has put it into another place than its configuration says */
    }
    atomic_store(&cgroups->scopes_retry_ms, sb_now_ms() + RETRY_MS);
    return sb_fail(error,
                   SB_ARGS(SANDBOX_EUNSUPPORTED, .sys_errno = r ? -r : (int)strtol(text, NULL, 10), .phase = "cgroup",
                           .hint = "is the bus of systemd reachable, and libsystemd installed? without limits it goes on without a cgroup"),
                   "systemd gave no scope: %s",
                   r == -ETIMEDOUT ? "no answer in time"
                   : r == -ENOEXEC ? "the program that asks it can't be started"
                   : r             ? strerrordesc_np(-r)
                                   : text);
}

void sb_scope_wait_gone(const char *box)
{
    SB_FREE char *scope = strndup(box, strlen(box) - strlen("/box"));
    int64_t until = sb_now_ms() + GONE_MS;
    char path[4200];

    if (!scope)
        return;
    while (access(scope, F_OK) == 0) {
        if (sb_now_ms() >= until) { /* systemd hangs, or has been replaced: what is empty goes */
            snprintf(path, sizeof path, "%s/host", scope);
            rmdir(path);
            rmdir(scope);
            return;
        }
        nanosleep(&(struct timespec){ .tv_nsec = 500000 }, NULL);
    }
}
