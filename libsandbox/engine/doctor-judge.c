/* SPDX-License-Identifier: Apache-2.0
 * The sandboxes that doctor makes: what each is to be, what a command and a daemon in it try, and what follows from what they saw. They
 * are made of image "host", so that nothing must have been imported; what they say comes from this machine's own programs, in lines
 * "name value". What a daemon finds it writes into /tmp/doctor, for the command to print. */
#include "doctor.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <json.h>

#define AWAIT_DAEMON                                                                                                             \
    "i=0; while [ ! -e /tmp/doctor ] && [ $i -lt 150 ]; do sleep 0.02; i=$((i+1)); done; cat /tmp/doctor 2>/dev/null; "

/* The value of the line "name value", copied into a buffer; 0 when there is no such line. */
static int find(const char *output, const char *name, char *value, size_t size)
{
    size_t n = strlen(name);

    *value = 0;
    for (const char *line = output; line && *line; line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL)
        if (!strncmp(line, name, n) && (line[n] == ' ' || line[n] == ':')) {
            line += n + 1;
            line += strspn(line, " \t");
            snprintf(value, size, "%.*s", (int)strcspn(line, "\n"), line);
            return 1;
        }
    return 0;
}

/* ---- the first one: namespaces, rights, mounts ---- */

/* The first try must work (the daemon may mount a file system of its own), so that the others' failure means something. */
static const char tries[] =
    "t() { name=$1; shift; if \"$@\" >/dev/null 2>&1; then echo \"$name open\"; else echo \"$name shut\"; fi; }; "
    "mkdir -p /tmp/m; { t own_mount mount -t tmpfs none /tmp/m; t remount mount -o remount,bind,rw /usr; "
    "t cover umount /proc/sys; t proc mount -t proc none /tmp/m; t shm umount /dev/shm; t usr umount /usr; } >/tmp/doctor.new; "
    "mv /tmp/doctor.new /tmp/doctor; exec sleep 60";
static const char seen[] =
    AWAIT_DAEMON "echo uid_map $(cat /proc/self/uid_map); grep -E '^(Cap...|NoNewPrivs|Seccomp):' /proc/self/status; "
                 "echo spaces $(cat /proc/sys/user/max_user_namespaces); echo links $(tail -n +3 /proc/net/dev | cut -d: -f1); "
                 "echo root $(grep ' / / ' /proc/self/mountinfo | head -n 1)";

static int fill_base(struct sandbox_spec *spec, struct sandbox_error **error)
{
    const char *const daemon[] = { "/bin/sh", "-c", tries, NULL };
    int r = sb_spec_add_capability(spec, "SYS_ADMIN", error);

    return r ? r : sb_spec_set_daemon(spec, daemon, error);
}

static void judge_ids(struct sb_engine *engine, const char *output, json_t *entries)
{
    unsigned long long inside, outside, count = 0;
    char map[256], probe[320];
    int own = find(output, "uid_map", map, sizeof map) && sscanf(map, "%llu %llu %llu", &inside, &outside, &count) == 3 &&
              count < 4294967295ull;

    snprintf(probe, sizeof probe, "/proc/self/uid_map inside: %s", map);
    if (own)
        sb_doctor_say(entries, "user_namespace", "enforced", probe, "", "");
    else
        sb_doctor_say(entries, "user_namespace", "impossible", probe, "a command is in the machine's own user namespace",
                      "report this: it is a bug");
    if (engine->map.privilege == SB_PRIVILEGE_ROOT)
        sb_doctor_say(entries, "id_range", "enforced", probe, "", "");
    else
        sb_doctor_say(entries, "id_range", "wrapped", probe,
                      engine->map.privilege == SB_PRIVILEGE_SUBIDS
                          ? "all sandboxes of this user share the user's ranges"
                          : "there is one id only, so that no command can be another user than the daemon",
                      engine->map.privilege == SB_PRIVILEGE_SUBIDS
                          ? "run as root, to give each sandbox a range of its own"
                          : "give this user lines in /etc/subuid and /etc/subgid, and install newuidmap (package uidmap)");
}

static void judge_rights(const char *output, json_t *entries)
{
    static const char *const names[] = { "CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb" };
    char value[64], other[64], cause[160] = "";

    for (size_t i = 0; i < SB_ELEMENTS(names) && !*cause; i++)
        if (!find(output, names[i], value, sizeof value) || strtoull(value, NULL, 16) != 0)
            snprintf(cause, sizeof cause, "a command has %s %s", names[i], value);
    if (!*cause && (!find(output, "NoNewPrivs", value, sizeof value) || strcmp(value, "1")))
        snprintf(cause, sizeof cause, "a command may gain privileges: NoNewPrivs is %s", value);
    sb_doctor_say(entries, "capabilities", *cause ? "impossible" : "enforced", "Cap lines and NoNewPrivs of a command", cause,
                  *cause ? "report this: it is a bug" : "");
    find(output, "Seccomp", value, sizeof value);
    find(output, "spaces", other, sizeof other);
    *cause = 0;
    if (strcmp(value, "2") != 0)
        snprintf(cause, sizeof cause, "a command has no seccomp filter");
    else if (strcmp(other, "0") != 0)
        snprintf(cause, sizeof cause, "user.max_user_namespaces is %s inside", other);
    sb_doctor_say(entries, "seccomp", *cause ? "impossible" : "enforced", "Seccomp of a command, user.max_user_namespaces inside",
                  cause, *cause ? "a kernel with CONFIG_SECCOMP_FILTER" : "");
}

static void judge_mounts(const char *output, json_t *entries)
{
    static const char *const shut[] = { "remount", "cover", "proc", "shm", "usr" };
    static const char probe[] = "a daemon with SYS_ADMIN remounts and unmounts what the sandbox is made of";
    char value[512], open[160] = "";

    for (size_t i = 0; i < SB_ELEMENTS(shut); i++)
        if (!find(output, shut[i], value, sizeof value) || strcmp(value, "shut"))
            snprintf(open + strlen(open), sizeof open - strlen(open), "%s%s", *open ? ", " : "", shut[i]);
    if (!find(output, "own_mount", value, sizeof value) || strcmp(value, "open"))
        sb_doctor_say(entries, "mounts", "advisory", probe, "not shown: the daemon could not mount even a file system of its own",
                      "install the programs mount and umount (package mount)");
    else if (*open)
        sb_doctor_say(entries, "mounts", "impossible", probe, open, "report this: it is a bug");
    else
        sb_doctor_say(entries, "mounts", "enforced", probe, "", "");
    find(output, "root", value, sizeof value);
    if (strstr(value, " - overlay "))
        sb_doctor_say(entries, "overlay", "enforced",
                      strstr(value, "userxattr") ? "the root is an overlay with userxattr" : "the root is an overlay", "", "");
    else
        sb_doctor_say(entries, "overlay", "impossible", "type of the root", "the root is no overlay",
                      "put the state root on ext4, xfs, btrfs or tmpfs");
    find(output, "links", value, sizeof value);
    if (!strcmp(value, "lo"))
        sb_doctor_say(entries, "network", "enforced", "/proc/net/dev inside: lo", "", "");
    else
        sb_doctor_say(entries, "network", "impossible", "/proc/net/dev inside", "a sandbox has other network devices than lo",
                      "report this: it is a bug");
}

static void judge_base(struct sb_engine *engine, const char *output, const struct sandbox_exec_result *result, json_t *entries)
{
    (void)result;
    judge_ids(engine, output, entries);
    judge_rights(output, entries);
    judge_mounts(output, entries);
}

/* ---- FUSE ---- */

static const char fuse_tries[] = "mkdir -p /tmp/m; { exec 3<>/dev/fuse && mount -i -t fuse -o "
                                 "fd=3,rootmode=40000,user_id=0,group_id=0,allow_other doctor /tmp/m && "
                                 "echo fuse $(grep ' /tmp/m ' /proc/self/mounts) && umount -l /tmp/m; } >/tmp/doctor.new 2>&1; "
                                 "mv /tmp/doctor.new /tmp/doctor; exec sleep 60";

static int fill_fuse(struct sandbox_spec *spec, struct sandbox_error **error)
{
    const char *const daemon[] = { "/bin/sh", "-c", fuse_tries, NULL };
    int r = sb_spec_set_fuse(spec, 1, error);

    if (!r)
        r = sb_spec_add_capability(spec, "SYS_ADMIN", error);
    return r ? r : sb_spec_set_daemon(spec, daemon, error);
}

static void judge_fuse(struct sb_engine *engine, const char *output, const struct sandbox_exec_result *result, json_t *entries)
{
    static const char probe[] = "a daemon opens /dev/fuse and mounts by it with allow_other";
    char value[256], cause[320];

    (void)result;
    if (find(output, "fuse", value, sizeof value) && strstr(value, "allow_other")) {
        if (engine->map.privilege == SB_PRIVILEGE_ROOT)
            sb_doctor_say(entries, "fuse", "enforced", probe, "", "");
        else
            sb_doctor_say(entries, "fuse", "wrapped", probe,
                          "the node is the machine's: commands may open it, too, but can't mount by it",
                          "run as root, to give each sandbox a node of its own");
        return;
    }
    snprintf(cause, sizeof cause, "the daemon's mount failed: %.250s", *output ? output : "it said nothing");
    cause[strcspn(cause, "\n")] = 0;
    sb_doctor_say(entries, "fuse", "impossible", probe, cause, "load the fuse module, and install the programs mount and umount");
}

/* ---- limits ---- */

enum { PIDS = 24, PIDS_TRIED = 60 };

static int fill_pids(struct sandbox_spec *spec, struct sandbox_error **error)
{
    return sb_spec_set_pids_max(spec, PIDS, error);
}

static void judge_pids(struct sb_engine *engine, const char *output, const struct sandbox_exec_result *result, json_t *entries)
{
    const char *last = strrchr(output, ' ');
    int started = last ? atoi(last + 1) : 0;
    char probe[128];

    (void)result;
    snprintf(probe, sizeof probe, "of %d processes, %d could be started under a limit of %d", PIDS_TRIED, started, PIDS);
    if (started < 1 || started > PIDS)
        sb_doctor_say(entries, "pids", "impossible", probe, "the limit of processes does not hold",
                      "run as root, or where a cgroup is delegated to you");
    else if ((engine->cgroups.delegated >> SB_CONTROLLER_PIDS & 1) || engine->cgroups.v1[SB_CONTROLLER_PIDS])
        sb_doctor_say(entries, "pids", "enforced", probe, "", "");
    else
        sb_doctor_say(entries, "pids", "wrapped", probe,
                      "by RLIMIT_NPROC in the sandbox's user namespace, since no cgroup with the pids controller can be written",
                      "run as root, or where a cgroup is delegated to you");
}

static int fill_memory(struct sandbox_spec *spec, struct sandbox_error **error)
{
    return sb_spec_set_memory_max(spec, 48 << 20, error);
}

static void judge_memory(struct sb_engine *engine, const char *output, const struct sandbox_exec_result *result, json_t *entries)
{
    static const char probe[] = "a command uses 160 MiB under a limit of 48 MiB";

    (void)engine;
    (void)output;
    if (result->kind == SANDBOX_EXEC_OOM || (result->kind == SANDBOX_EXEC_SIGNALLED && result->signal == 9))
        sb_doctor_say(entries, "memory", "enforced", probe, "", "");
    else
        sb_doctor_say(entries, "memory", "impossible", probe, "it was not ended: the memory limit does not hold",
                      "check the memory controller of the cgroup");
}

static int fill_cpu(struct sandbox_spec *spec, struct sandbox_error **error)
{
    return sb_spec_set_cpu_max(spec, 100, error);
}

static void judge_cpu(struct sb_engine *engine, const char *output, const struct sandbox_exec_result *result, json_t *entries)
{
    int64_t used = (result->user_us + result->system_us) / 1000;
    char probe[128];

    (void)engine;
    (void)output;
    snprintf(probe, sizeof probe, "a busy command had %lld ms of CPU in 600 ms under a limit of a tenth", (long long)used);
    if (result->kind == SANDBOX_EXEC_DEADLINE && used < 300)
        sb_doctor_say(entries, "cpu", "enforced", probe, "", "");
    else
        sb_doctor_say(entries, "cpu", "impossible", probe, "the CPU limit does not hold",
                      "check the cpu controller of the cgroup");
}

const struct sb_doctor_trial sb_doctor_trials[] = {
    { "sandbox", fill_base, seen, 8000, judge_base },
    { "fuse", fill_fuse, AWAIT_DAEMON, 8000, judge_fuse },
    { "pids", fill_pids, "(i=0; while [ $i -lt 60 ]; do sleep 30 & i=$((i+1)); echo started $i; done) 2>/dev/null", 1500,
      judge_pids },
    { "memory", fill_memory, "exec dd if=/dev/zero of=/dev/null bs=160M count=1 2>/dev/null", 8000, judge_memory },
    { "cpu", fill_cpu, "while :; do :; done", 600, judge_cpu },
};
const size_t sb_doctor_n_trials = SB_ELEMENTS(sb_doctor_trials);
