/* SPDX-License-Identifier: Apache-2.0
 * asuser NAME -- COMMAND …: runs a test as a real ordinary user that exists only for it. Run by root, in a namespace whose
 * mounts are its own (reroot makes one). NAME is
 *   root      the command as it is,
 *   sbtest    uid 4711 with the subordinate ids 200000 … 265535,
 *   sbtest2   uid 4712 without any.
 * passwd, group, subuid and subgid are copies bound over the machine's in this namespace alone, so that newuidmap and NSS
 * see the users and the machine's own files stay as they were. So are /dev/fuse and /dev/net/tun, by nodes that everybody
 * may open, as udev makes them on any distribution. HOME and TMPDIR are new, empty folders owned by the user;
 * what the command leaves in them is left, for the leak oracle to find. Exit status: the command's. Who isn't root can be nobody
 * else: sbtest is then the user itself, the others are skipped (77). */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

struct account {
    const char *name;
    unsigned int id;
    int subids;
};
static const struct account accounts[] = { { "sbtest", 4711, 1 }, { "sbtest2", 4712, 0 } };

static const char *const files[] = { "passwd", "group", "subuid", "subgid" };
static int made[4]; /* empty files made in /etc because there was nothing to bind over */
static char folder[2048];

static int fail(const char *what)
{
    fprintf(stderr, "asuser: %s: %s\n", what, strerror(errno));
    return 125;
}

/* Appends the accounts' lines for one of the files. */
static void add_lines(FILE *out, const char *file)
{
    for (size_t i = 0; i < sizeof accounts / sizeof *accounts; i++) {
        const struct account *a = &accounts[i];

        if (strcmp(file, "passwd") == 0)
            fprintf(out, "%s:x:%u:%u::%s/home-%s:/bin/sh\n", a->name, a->id, a->id, folder, a->name);
        else if (strcmp(file, "group") == 0)
            fprintf(out, "%s:x:%u:\n", a->name, a->id);
        else if (a->subids)
            fprintf(out, "%s:200000:65536\n", a->name);
    }
}

static int bind_copy(size_t index)
{
    char from[64], to[4096], buffer[4096];
    FILE *in, *out;
    size_t n;

    snprintf(from, sizeof from, "/etc/%s", files[index]);
    snprintf(to, sizeof to, "%s/%s", folder, files[index]);
    in = fopen(from, "re");
    if (!in && errno == ENOENT) {
        int fd = open(from, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
        if (fd < 0)
            return fail(from);
        close(fd);
        made[index] = 1;
    } else if (!in) {
        return fail(from);
    }
    out = fopen(to, "we");
    if (!out)
        return fail(to);
    while (in && (n = fread(buffer, 1, sizeof buffer, in)) > 0)
        fwrite(buffer, 1, n, out);
    add_lines(out, files[index]);
    if (in)
        fclose(in);
    if (fclose(out) != 0 || chmod(to, 0644) < 0)
        return fail(to);
    if (mount(to, from, NULL, MS_BIND, NULL) < 0)
        return fail("bind over /etc (run it under reroot)");
    return 0;
}

static const struct {
    const char *path, *name;
    unsigned int minor;
} nodes[] = { { "/dev/fuse", "fuse", 229 }, { "/dev/net/tun", "tun", 200 } };

/* A machine without udev has the kernel's own nodes, which are root's alone. */
static int bind_nodes(void)
{
    char path[2100], node[2200];

    snprintf(path, sizeof path, "%s/dev", folder);
    if (mkdir(path, 0755) < 0 || mount("dev", path, "tmpfs", MS_NOSUID | MS_NOEXEC, "mode=0755,size=64k") < 0)
        return fail("a folder for devices");
    for (size_t i = 0; i < sizeof nodes / sizeof *nodes; i++) {
        if (access(nodes[i].path, F_OK) < 0)
            continue;
        snprintf(node, sizeof node, "%s/%s", path, nodes[i].name);
        if (mknod(node, S_IFCHR, makedev(10, nodes[i].minor)) < 0 || chmod(node, 0666) < 0 || mount(node, nodes[i].path, NULL, MS_BIND, NULL) < 0)
            return fail(nodes[i].path);
    }
    if (umount2(path, MNT_DETACH) < 0 || rmdir(path) < 0)
        return fail(path);
    return 0;
}

static void clean_up(const struct account *a)
{
    char path[4096];

    for (size_t i = 0; i < 4; i++) {
        snprintf(path, sizeof path, "/etc/%s", files[i]);
        umount2(path, MNT_DETACH);
        if (made[i])
            unlink(path);
        snprintf(path, sizeof path, "%s/%s", folder, files[i]);
        unlink(path);
    }
    for (size_t i = 0; i < sizeof nodes / sizeof *nodes; i++)
        umount2(nodes[i].path, MNT_DETACH);
    snprintf(path, sizeof path, "%s/home-%s/tmp", folder, a->name);
    rmdir(path);
    snprintf(path, sizeof path, "%s/home-%s", folder, a->name);
    rmdir(path);
    rmdir(folder);
}

static int make_home(const struct account *a, char *home, size_t size)
{
    char path[4096];

    snprintf(home, size, "%s/home-%s", folder, a->name);
    snprintf(path, sizeof path, "%s/tmp", home);
    if (mkdir(home, 0755) < 0 || mkdir(path, 0755) < 0)
        return fail("make the home folder");
    if (chown(home, a->id, a->id) < 0 || chown(path, a->id, a->id) < 0)
        return fail("chown");
    setenv("HOME", home, 1);
    setenv("USER", a->name, 1);
    setenv("LOGNAME", a->name, 1);
    setenv("TMPDIR", path, 1);
    unsetenv("XDG_CACHE_HOME");
    unsetenv("XDG_RUNTIME_DIR");
    unsetenv("XDG_DATA_HOME");
    unsetenv("SBTEST_SCOPES"); /* a user without a session */
    return 0;
}

static int prepare(const struct account *a, char *home, size_t size)
{
    const char *tmp = getenv("TMPDIR");

    snprintf(folder, sizeof folder, "%s/sbtest-user-XXXXXX", tmp && *tmp ? tmp : "/tmp");
    if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
        return fail("mount namespace of its own (run it under reroot)");
    if (!mkdtemp(folder) || chmod(folder, 0755) < 0)
        return fail("make a folder");
    for (size_t i = 0; i < 4; i++) {
        int r = bind_copy(i);
        if (r != 0)
            return r;
    }
    if (bind_nodes() != 0)
        return 125;
    return make_home(a, home, size);
}

static void run(const struct account *a, const char *home, char **argv)
{
    if (setgroups(0, NULL) < 0 || setresgid(a->id, a->id, a->id) < 0 || setresuid(a->id, a->id, a->id) < 0) {
        fail("become the user");
        _exit(125);
    }
    if (access(".", X_OK) < 0 && chdir(home) < 0)
        _exit(125);
    if (access(argv[0], X_OK) < 0 && strchr(argv[0], '/')) {
        fprintf(stderr, "asuser: %s cannot reach %s: build where other users can read\n", a->name, argv[0]);
        _exit(126);
    }
    execvp(argv[0], argv);
    fail(argv[0]);
    _exit(errno == ENOENT ? 127 : 126);
}

int main(int argc, char **argv)
{
    const struct account *a = NULL;
    char home[2100];
    int at = 2, status, r;
    pid_t pid;

    if (argc > 2 && strcmp(argv[2], "--") == 0)
        at = 3;
    if (argc <= at) {
        fprintf(stderr, "usage: asuser root|sbtest|sbtest2 -- COMMAND …\n");
        return 125;
    }
    for (size_t i = 0; i < sizeof accounts / sizeof *accounts; i++)
        if (strcmp(argv[1], accounts[i].name) == 0)
            a = &accounts[i];
    if (!a && strcmp(argv[1], "root") != 0) {
        fprintf(stderr, "asuser: no such user: %s\n", argv[1]);
        return 125;
    }
    if (geteuid() != 0 && a == &accounts[0]) { /* an ordinary user is one already */
        execvp(argv[at], argv + at);
        return fail(argv[at]);
    }
    if (geteuid() != 0) {
        printf("SKIP asuser: only root can become another user\n");
        return 77;
    }
    if (!a) {
        execvp(argv[at], argv + at);
        return fail(argv[at]);
    }
    r = prepare(a, home, sizeof home);
    if (r == 0) {
        pid = fork();
        if (pid == 0)
            run(a, home, argv + at);
        signal(SIGINT, SIG_IGN);
        signal(SIGTERM, SIG_IGN);
        if (pid < 0 || waitpid(pid, &status, 0) < 0)
            r = fail("run the command");
        else
            r = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    }
    clean_up(a);
    return r;
}
