/* SPDX-License-Identifier: Apache-2.0
 * What can be asked of the kernel and of the state root without a sandbox. Each is tried, not looked up by a version. */
#include "doctor.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/mount.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <errors.h>
#include <fs.h>

#define SPACE_MIN (1LL << 30)

static const char *privilege(const struct sb_engine *engine)
{
    switch (engine->map.privilege) {
    case SB_PRIVILEGE_ROOT:
        return "root";
    case SB_PRIVILEGE_SUBIDS:
        return "user with subordinate ids";
    default:
        return "user without subordinate ids";
    }
}

json_t *sb_doctor_host(const struct sb_engine *engine)
{
    struct utsname name;

    if (uname(&name) < 0)
        memset(&name, 0, sizeof name);
    return json_pack("{s:s, s:s, s:I, s:s, s:s}", "kernel", name.release, "machine", name.machine, "uid", (json_int_t)geteuid(),
                     "privilege", privilege(engine), "state_root", engine->root_path);
}

void sb_doctor_say(json_t *entries, const char *feature, const char *level, const char *probe, const char *cause,
                   const char *remedy)
{
    json_array_append_new(entries, json_pack("{s:s, s:s, s:s, s:s, s:s}", "feature", feature, "level", level, "probe", probe,
                                             "cause", cause, "remedy", remedy));
}

static void kernel_call(json_t *entries, const char *feature, const char *probe, long result, const char *since)
{
    char cause[160], remedy[96];
    int why = errno;

    if (result >= 0) {
        sb_doctor_say(entries, feature, "enforced", probe, "", "");
        return;
    }
    snprintf(cause, sizeof cause, "%s gives %s", probe, strerrorname_np(why) ? strerrorname_np(why) : "an error");
    snprintf(remedy, sizeof remedy, "Linux %s or newer, and no filter that forbids the call", since);
    sb_doctor_say(entries, feature, "impossible", probe, cause, remedy);
}

static void look_at_kernel(json_t *entries)
{
    struct open_how how = { .flags = O_PATH | O_DIRECTORY | O_CLOEXEC, .resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS };
    SB_CLOSE int at = (int)syscall(SYS_openat2, AT_FDCWD, ".", &how, sizeof how), pid = -1, tree = -1;

    kernel_call(entries, "openat2", "openat2(RESOLVE_BENEATH)", at, "5.6");
    pid = (int)syscall(SYS_pidfd_open, getpid(), 0);
    kernel_call(entries, "pidfd", "pidfd_open()", pid, "5.3");
    tree = open_tree(AT_FDCWD, "/", OPEN_TREE_CLOEXEC);
    kernel_call(entries, "mount_api", "open_tree()", tree, "5.2");
}

/* Programs that the library carries are executed out of memory where none are installed. */
static void look_at_memfd(json_t *entries)
{
    SB_FREE char *text = NULL;
    SB_CLOSE int fd = memfd_create("doctor", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    int forbidden = !sb_read_file(AT_FDCWD, "/proc/sys/vm/memfd_noexec", 16, &text, NULL) && text[0] == '2';

    if (fd >= 0 && !forbidden)
        sb_doctor_say(entries, "memfd_exec", "enforced", "memfd_create(), vm.memfd_noexec", "", "");
    else
        sb_doctor_say(entries, "memfd_exec", "impossible", "memfd_create(), vm.memfd_noexec",
                      fd < 0 ? "memfd_create() is refused" : "vm.memfd_noexec is 2: nothing can be executed out of memory",
                      "install the agent programs, or set vm.memfd_noexec to 0 or 1");
}

static void look_at_cgroups(const struct sb_engine *engine, json_t *entries)
{
    static const char *const names[SB_CONTROLLERS] = { "pids", "memory", "cpu" };
    const struct sb_cgroups *c = &engine->cgroups;
    char missing[64] = "", probe[400], cause[200];

    for (int i = 0; i < SB_CONTROLLERS; i++)
        if (!(c->delegated >> i & 1) && !c->v1[i])
            snprintf(missing + strlen(missing), sizeof missing - strlen(missing), "%s%s", *missing ? ", " : "", names[i]);
    snprintf(probe, sizeof probe, "%s%.300s",
             c->unified ? c->delegated ? "cgroup v2 in " : "cgroup v2 without controllers, in " : "no cgroup v2",
             c->unified ? c->unified : "");
    if (!c->delegated && (c->v1[0] || c->v1[1] || c->v1[2]))
        snprintf(probe + strlen(probe), sizeof probe - strlen(probe), "; cgroup v1 for limits");
    if (!*missing) {
        sb_doctor_say(entries, "cgroup", "enforced", probe, "", "");
    } else {
        snprintf(cause, sizeof cause, "no cgroup with the controllers %s can be written", missing);
        sb_doctor_say(
            entries, "cgroup", c->unified ? "wrapped" : "impossible", probe, cause,
            "run as root, or in a systemd session that delegates its cgroup (systemd-run --user --scope -p Delegate=yes)");
    }
}

void sb_doctor_kill(const char *folder, json_t *entries)
{
    SB_FREE char *path = NULL;

    if (folder && asprintf(&path, "%s/cgroup.kill", folder) < 0)
        path = NULL;
    if (path && access(path, F_OK) == 0)
        sb_doctor_say(entries, "cgroup_kill", "enforced", "cgroup.kill in a sandbox's group", "", "");
    else /* a sandbox's processes end with its init all the same */
        sb_doctor_say(entries, "cgroup_kill", "wrapped", "cgroup.kill in a sandbox's group",
                      folder ? "this kernel has no cgroup.kill: all processes end with the sandbox's init instead"
                             : "no cgroup v2 can be written: all processes end with the sandbox's init instead",
                      folder ? "Linux 5.14 or newer" : "run as root, or where a cgroup is delegated to you");
}

static void look_at_root(const struct sb_engine *engine, json_t *entries)
{
    static const struct {
        unsigned long type;
        const char *name, *level, *cause;
    } kinds[] = {
        { 0xef53, "ext4", "enforced", "" },
        { 0x58465342, "xfs", "enforced", "" },
        { 0x9123683e, "btrfs", "enforced", "" },
        { 0x01021994, "tmpfs", "advisory", "what is kept in memory is lost when the machine is restarted" },
        { 0x794c7630, "overlay", "impossible", "an overlay can't be the writable layer of another" },
        { 0x6969, "nfs", "impossible", "a network file system can't be the writable layer of an overlay" },
    };
    struct statfs fs;
    char probe[128], cause[160];
    size_t k = 0;

    if (fstatfs(engine->root, &fs) < 0) {
        sb_doctor_say(entries, "state_root", "impossible", "statfs()", "the state root can't be asked", "use another state root");
        return;
    }
    while (k < SB_ELEMENTS(kinds) && kinds[k].type != (unsigned long)fs.f_type)
        k++;
    snprintf(probe, sizeof probe, "statfs(): %s (0x%lx)", k < SB_ELEMENTS(kinds) ? kinds[k].name : "another file system",
             (unsigned long)fs.f_type);
    if (k < SB_ELEMENTS(kinds))
        sb_doctor_say(entries, "state_root", kinds[k].level, probe, kinds[k].cause,
                      *kinds[k].cause ? "put the state root on ext4, xfs or btrfs" : "");
    else
        sb_doctor_say(entries, "state_root", "advisory", probe, "it was not tried with this file system",
                      "put the state root on ext4, xfs or btrfs");
    snprintf(probe, sizeof probe, "statfs(): %lld MiB free", (long long)fs.f_bavail * (long long)fs.f_bsize >> 20);
    snprintf(cause, sizeof cause, "less than %lld MiB are free for images and sandboxes", SPACE_MIN >> 20);
    if ((long long)fs.f_bavail * (long long)fs.f_bsize >= SPACE_MIN)
        sb_doctor_say(entries, "state_space", "enforced", probe, "", "");
    else
        sb_doctor_say(entries, "state_space", "advisory", probe, cause,
                      "remove images, volumes or sandboxes, or use another state root");
}

void sb_doctor_look(struct sb_engine *engine, json_t *entries)
{
    look_at_kernel(entries);
    look_at_memfd(entries);
    look_at_cgroups(engine, entries);
    look_at_root(engine, entries);
    sb_doctor_networks(engine, entries);
}

void sb_doctor_idmap(struct sb_engine *engine, int64_t init_pid, json_t *entries)
{
    static const char probe[] = "mount_setattr(MOUNT_ATTR_IDMAP) of the state root";
    SB_CLOSE int tree = -1, space = -1;
    struct mount_attr attr = { .attr_set = MOUNT_ATTR_IDMAP };
    char path[64], cause[128];

    if (engine->map.privilege != SB_PRIVILEGE_ROOT) {
        sb_doctor_say(entries, "id_mapped_mounts", "wrapped", "this caller is not root",
                      "an ordinary user's layers are stored with the ids of the "
                      "user's range instead",
                      "run as root, when sandboxes of several users are to share images");
        return;
    }
    snprintf(path, sizeof path, "/proc/%lld/ns/user", (long long)init_pid);
    space = open(path, O_RDONLY | O_CLOEXEC);
    tree = open_tree(engine->root, "", OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_EMPTY_PATH);
    attr.userns_fd = (uint64_t)space;
    if (space >= 0 && tree >= 0 && mount_setattr(tree, "", AT_EMPTY_PATH, &attr, sizeof attr) == 0) {
        sb_doctor_say(entries, "id_mapped_mounts", "enforced", probe, "", "");
        return;
    }
    snprintf(cause, sizeof cause, "the file system of the state root refuses id-mapped mounts: %s",
             strerrorname_np(errno) ? strerrorname_np(errno) : "?");
    sb_doctor_say(entries, "id_mapped_mounts", "impossible", probe, cause,
                  "put the state root on ext4, xfs, btrfs or, from Linux 6.3, tmpfs");
}
