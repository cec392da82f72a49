/* SPDX-License-Identifier: Apache-2.0
 * Processes by an identity that can't be mistaken: boot id, pid and start time; and the children of this process among them. A
 * process is only ever signalled through a pidfd whose identity was checked after it was opened. */
#include "engine.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fs.h>
#include <json.h>

int sb_identity_boot(char boot[40])
{
    SB_FREE char *text = NULL;
    int r = sb_read_file(AT_FDCWD, "/proc/sys/kernel/random/boot_id", 256, &text, NULL);

    if (r)
        return r;
    text[strcspn(text, "\n")] = 0;
    if (strlen(text) != 36)
        return -EBADMSG;
    memcpy(boot, text, 37);
    return 0;
}

/* Which pid namespace our pids are of; 0: not to be found out. */
static int64_t own_space(void)
{
    char text[64];
    ssize_t n = readlink("/proc/self/ns/pid", text, sizeof text - 1);

    if (n <= 5 || strncmp(text, "pid:[", 5))
        return 0;
    text[n] = 0;
    return strtoll(text + 5, NULL, 10);
}

int sb_identity_read(pid_t pid, const char *boot, struct sb_identity *ret)
{
    SB_FREE char *text = NULL;
    unsigned long long start;
    char path[48];
    const char *at;
    int r;

    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    r = sb_read_file(AT_FDCWD, path, 8192, &text, NULL);
    if (r)
        return r == -ENOENT ? -ESRCH : r;
    at = strrchr(text, ')'); /* the name before it may hold anything */
    if (!at || sscanf(at + 1, " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d %llu", &start) != 1)
        return -EBADMSG;
    struct sb_identity found = { .pid = pid, .start = (int64_t)start, .space = own_space() };
    snprintf(found.boot, sizeof found.boot, "%s", boot); /* boot may be ret's own */
    *ret = found;
    return 0;
}

int sb_identity_open(const struct sb_identity *identity)
{
    struct sb_identity self = { .space = own_space() };
    int r;

    if (identity->pid <= 1)
        return -ESRCH;
    r = sb_identity_boot(self.boot);
    if (r)
        return r == -ESRCH ? -EIO : r; /* not to be found out is not the same as gone */
    return sb_identity_find(&self, identity);
}

int sb_identity_find(const struct sb_identity *self, const struct sb_identity *identity)
{
    struct sb_identity now;
    struct pollfd p = { .events = POLLIN };
    int fd, r;

    if (identity->pid <= 1 || strcmp(self->boot, identity->boot))
        return -ESRCH;
    if (identity->space && identity->space != self->space)
        return -EXDEV; /* another pid namespace's number says nothing here: its process may live */
    fd = (int)syscall(SYS_pidfd_open, (pid_t)identity->pid, 0);
    if (fd < 0)
        return errno == EINVAL ? -ESRCH : -errno; /* EINVAL: the number is a thread's by now */
    /* read after the pidfd is held: if it matches now, the pidfd is of that process */
    r = sb_identity_read((pid_t)identity->pid, self->boot, &now);
    p.fd = fd;
    if (r == -ESRCH && poll(&p, 1, 0) == 0)
        r = -EACCES; /* it lives, and this /proc hides it (hidepid) */
    if (!r &&
        (now.start != identity->start || poll(&p, 1, 0) == 1)) /* another one; or it has ended and nobody has waited for it */
        r = -ESRCH;
    if (!r)
        return fd;
    sb_close(fd);
    return r;
}

json_t *sb_identity_to_json(const struct sb_identity *identity)
{
    return json_pack("{s:s, s:I, s:I, s:I}", "boot", identity->boot, "pid", (json_int_t)identity->pid, "start",
                     (json_int_t)identity->start, "space", (json_int_t)identity->space);
}

void sb_identity_from_json(const json_t *json, struct sb_identity *ret)
{
    const char *boot = sb_json_str(json, "boot");

    *ret = (struct sb_identity){ .pid = sb_json_int(json, "pid", 0),
                                 .start = sb_json_int(json, "start", 0),
                                 .space = sb_json_int(json, "space", 0) };
    snprintf(ret->boot, sizeof ret->boot, "%s", boot ? boot : "");
}

void sb_children_add(struct sb_engine *engine, int pidfd)
{
    int copy = fcntl(pidfd, F_DUPFD_CLOEXEC, 3);
    int *more;

    if (copy < 0)
        return; /* it stays a zombie until this process ends; nothing depends on it */
    pthread_mutex_lock(&engine->lock);
    more = realloc(engine->children, (engine->n_children + 1) * sizeof *more);
    if (more) {
        engine->children = more;
        engine->children[engine->n_children++] = SB_TAKE_FD(copy);
    }
    pthread_mutex_unlock(&engine->lock);
    sb_close(copy);
}

void sb_children_reap(struct sb_engine *engine)
{
    pthread_mutex_lock(&engine->lock);
    for (size_t i = 0; i < engine->n_children;) {
        siginfo_t info = { 0 };
        /* init was cloned with no exit signal, so it takes __WALL; ECHILD: somebody waited, or it is not ours after all */
        int r = waitid(P_PIDFD, (id_t)engine->children[i], &info, WEXITED | WNOHANG | __WALL);

        if (r == 0 && info.si_pid == 0) {
            i++;
            continue;
        }
        sb_close(engine->children[i]);
        engine->children[i] = engine->children[--engine->n_children];
    }
    pthread_mutex_unlock(&engine->lock);
}
