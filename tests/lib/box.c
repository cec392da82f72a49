/* SPDX-License-Identifier: Apache-2.0
 * See box.h. */
#include "box.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <linux/magic.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

static const char *environment(const char *name)
{
    const char *value = getenv(name);

    if (!value || !*value)
        ck_abort_msg("%s is not set: run the suites by meson test", name);
    return value;
}

long box_now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

enum box_privilege box_privilege(void)
{
    struct passwd *pw = getpwuid(geteuid());
    char line[512], uid[16];
    FILE *f;
    int found = 0;

    if (geteuid() == 0)
        return BOX_ROOT;
    snprintf(uid, sizeof uid, "%u", geteuid());
    f = fopen("/etc/subuid", "re");
    while (f && !found && fgets(line, sizeof line, f)) {
        line[strcspn(line, ":")] = 0;
        found = (pw && strcmp(line, pw->pw_name) == 0) || strcmp(line, uid) == 0;
    }
    if (f)
        fclose(f);
    return found ? BOX_SUBIDS : BOX_SINGLE;
}

const char *box_user(void)
{
    return box_privilege() == BOX_SINGLE ? NULL : "1500:1500";
}

const char *box_root(void)
{
    static char root[512];

    if (getenv("SBTEST_STATE"))
        return getenv("SBTEST_STATE");
    snprintf(root, sizeof root, "%s/state", sbtest_dir());
    return root;
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st;
    (void)type;
    (void)ftw;
    return remove(path);
}

int box_main(Suite *suite)
{
    const char *tmp = getenv("TMPDIR");
    char root[512];
    int r;

    snprintf(root, sizeof root, "%s/sbtest-state-XXXXXX", tmp && *tmp ? tmp : "/tmp");
    if (!mkdtemp(root)) {
        perror(root);
        return 1;
    }
    setenv("SBTEST_STATE", root, 1);
    r = sbtest_main(suite);
    if (nftw(root, remove_one, 16, FTW_DEPTH | FTW_PHYS | FTW_MOUNT) != 0) {
        perror(root);
        return 1;
    }
    return r;
}

struct sandbox_host *box_host(void)
{
    struct sandbox_host_options options = SANDBOX_HOST_OPTIONS_INIT;
    struct sandbox_host *host = NULL;
    struct sandbox_error *error = NULL;

    options.state_root = box_root();
    sbtest_ok(sandbox_host_open("local:", &options, sbtest_slowly(20000), &host, &error), &error);
    return host;
}

struct sandbox_spec *box_spec(void)
{
    struct sandbox_mount_options guests = SANDBOX_MOUNT_OPTIONS_INIT;
    struct sandbox_spec *spec = NULL;
    struct sandbox_error *error = NULL;

    sbtest_ok(sandbox_spec_new(&spec, &error), &error);
    guests.source = environment("SBTEST_GUESTS");
    guests.target = "/guest";
    guests.flags = SANDBOX_MOUNT_READ_ONLY;
    sbtest_ok(sandbox_spec_add_mount(spec, &guests, &error), &error);
    sbtest_ok(sandbox_spec_add_env(spec, "SBTEST_GUEST", "in a sandbox", &error), &error);
    return spec;
}

struct sandbox *box_start(struct sandbox_host *host, struct sandbox_spec *spec)
{
    struct sandbox *sandbox = NULL;
    struct sandbox_error *error = NULL;

    if (!spec)
        spec = box_spec();
    sbtest_ok(sandbox_create(host, spec, sbtest_slowly(20000), &sandbox, &error), &error);
    sandbox_spec_unref(spec);
    sbtest_ok(sandbox_start(sandbox, sbtest_slowly(20000), &error), &error);
    return sandbox;
}

static void remove_images(struct sandbox_host *host)
{
    struct sandbox_image_list *list = NULL;
    struct sandbox_error *error = NULL;

    if (sandbox_host_list_images(host, &list, NULL) < 0)
        return;
    for (size_t i = 0; i < sandbox_image_list_get_count(list); i++) {
        const char *digest = sandbox_image_get_digest(sandbox_image_list_get(list, i));
        int r;

        if (!*digest) /* image "host" is not stored */
            continue;
        r = sandbox_image_remove(host, digest, &error);
        sbtest_ok(r == SANDBOX_ENOTFOUND ? 0 : r, &error);
    }
    sandbox_image_list_unref(list);
}

static void remove_volumes(struct sandbox_host *host)
{
    struct sandbox_volume_list *list = NULL;
    struct sandbox_error *error = NULL;

    if (sandbox_host_list_volumes(host, &list, NULL) < 0)
        return;
    for (size_t i = 0; i < sandbox_volume_list_get_count(list); i++)
        sbtest_ok(sandbox_volume_remove(host, sandbox_volume_get_name(sandbox_volume_list_get(list, i)), &error), &error);
    sandbox_volume_list_unref(list);
}

void box_end(struct sandbox_host **host, struct sandbox **sandbox)
{
    struct sandbox_error *error = NULL;

    if (sandbox && *sandbox) {
        sbtest_ok(sandbox_delete(*sandbox, sbtest_slowly(20000), &error), &error);
        *sandbox = sandbox_unref(*sandbox);
    }
    remove_images(*host);
    remove_volumes(*host);
    *host = sandbox_host_unref(*host);
}

void box_run(struct sandbox *sandbox, const struct sandbox_exec_options *options, const void *input, size_t input_size,
             struct box_run *ret, const char *const *argv)
{
    struct sandbox_exec_options with = SANDBOX_EXEC_OPTIONS_INIT;
    struct sandbox_communicate_options communicate = SANDBOX_COMMUNICATE_OPTIONS_INIT;
    struct sandbox_exec *exec = NULL;
    struct sandbox_error *error = NULL;

    if (options)
        with = *options;
    if (input)
        with.stdin_fd = SANDBOX_STDIO_PIPE;
    *ret = (struct box_run){ SANDBOX_EXEC_RESULT_INIT, SANDBOX_OUTPUT_INIT };
    sbtest_ok(sandbox_exec(sandbox, argv, &with, &exec, &error), &error);
    communicate.input = input;
    communicate.input_size = input_size;
    communicate.timeout_ms = sbtest_slowly(25000);
    sbtest_ok(sandbox_exec_communicate(exec, &communicate, &ret->output, &ret->result, &error), &error);
    sandbox_exec_unref(exec);
}

void box_clear(struct box_run *run)
{
    sandbox_output_clear(&run->output);
}

static void run_script(struct sandbox *sandbox, const char *user, const char *script, struct box_run *run)
{
    struct sandbox_exec_options options = SANDBOX_EXEC_OPTIONS_INIT;

    options.user = user;
    box_run(sandbox, &options, NULL, 0, run, BOX_ARGV("/bin/sh", "-c", script));
    if (run->result.kind != SANDBOX_EXEC_EXITED)
        ck_abort_msg("\"%s\" ended by kind %d, signal %d: %s", script, run->result.kind, run->result.signal, run->output.err);
}

char *box_sh(struct sandbox *sandbox, const char *user, const char *script)
{
    struct box_run run;
    char *out;
    size_t n;

    run_script(sandbox, user, script, &run);
    if (run.result.code != 0)
        ck_abort_msg("\"%s\" ended with %d: %s", script, run.result.code, run.output.err);
    out = strdup(run.output.out ? run.output.out : "");
    ck_assert_ptr_nonnull(out);
    n = strlen(out);
    if (n && out[n - 1] == '\n')
        out[n - 1] = 0;
    box_clear(&run);
    return out;
}

int box_code(struct sandbox *sandbox, const char *user, const char *script)
{
    struct box_run run;
    int code;

    run_script(sandbox, user, script, &run);
    code = run.result.code;
    box_clear(&run);
    return code;
}

char *box_finding(const char *output, const char *name)
{
    size_t n = strlen(name);

    for (const char *line = output; line && *line; line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL)
        if (strncmp(line, name, n) == 0 && line[n] == ':')
            return strndup(line + n + 1 + (line[n + 1] == ' '), strcspn(line + n + 1 + (line[n + 1] == ' '), "\n"));
    return NULL;
}

static int is_allowed(const char *value, size_t n, const char *allowed)
{
    for (const char *a = allowed; a; a = strchr(a, '|') ? strchr(a, '|') + 1 : NULL)
        if (strcspn(a, "|") == n && strncmp(a, value, n) == 0)
            return 1;
    return 0;
}

void box_expect(const char *output, const char *name, const char *allowed)
{
    char *value = box_finding(output, name);

    if (!value)
        ck_abort_msg("nothing was found about \"%s\" in:\n%s", name, output);
    if (!is_allowed(value, strlen(value), allowed))
        ck_abort_msg("\"%s\" is \"%s\", not %s", name, value, allowed);
    free(value);
}

void box_expect_all(const char *output, const char *prefix, const char *allowed)
{
    size_t found = 0;

    for (const char *line = output; line && *line; line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL) {
        size_t n = strcspn(line, "\n");
        const char *value;

        if (strncmp(line, prefix, strlen(prefix)) != 0)
            continue;
        found++;
        value = line + n; /* the last ": ": names may hold one */
        while (value > line && strncmp(value, ": ", 2) != 0)
            value--;
        if (value == line || !is_allowed(value + 2, n - (size_t)(value + 2 - line), allowed))
            ck_abort_msg("\"%.*s\", not %s", (int)n, line, allowed);
    }
    if (!found)
        ck_abort_msg("nothing begins with \"%s\" in:\n%s", prefix, output);
}

void box_busybox(struct sandbox_host *host)
{
    struct sandbox_image_import_options options = SANDBOX_IMAGE_IMPORT_OPTIONS_INIT;
    struct sandbox_image *image = NULL;
    struct sandbox_error *error = NULL;
    char path[1024];

    snprintf(path, sizeof path, "%s/rootfs.tar", environment("SBTEST_IMAGES"));
    options.name = "busybox";
    sbtest_ok(sandbox_image_import(host, path, &options, sbtest_slowly(25000), &image, &error), &error);
    sandbox_image_unref(image);
}

void box_write(const char *folder, const char *name, const char *text)
{
    char path[1024];
    FILE *f;

    snprintf(path, sizeof path, "%s/%s", folder, name);
    f = fopen(path, "we");
    if (!f || fputs(text, f) < 0 || fclose(f) != 0)
        ck_abort_msg("%s: %s", path, strerror(errno));
}

char *box_read(const char *path)
{
    char *text = calloc(1, 65536);
    FILE *f = fopen(path, "re");

    if (!f || !text)
        ck_abort_msg("%s: %s", path, strerror(errno));
    if (fread(text, 1, 65535, f) == 0)
        *text = 0; /* empty, or of a process that has just ended */
    fclose(f);
    return text;
}

const char *box_small_disk(const char *folder, const char *options)
{
    struct utsname kernel;
    int major = 0, minor = 0;

    if (geteuid() != 0)
        return "only root can mount a small disk";
    ck_assert_int_eq(uname(&kernel), 0);
    ck_assert_int_eq(sscanf(kernel.release, "%d.%d", &major, &minor), 2);
    if (major < 6 || (major == 6 && minor < 3)) /* docs/hosts.md */
        return "before Linux 6.3 no id map is possible in memory, so no sandbox of root's";
    ck_assert_int_eq(mkdir(folder, 0700), 0);
    ck_assert_int_eq(mount("small", folder, "tmpfs", 0, options), 0);
    return NULL;
}

int box_entries(const char *folder)
{
    DIR *dir = opendir(folder);
    struct dirent *e;
    int n = 0;

    if (!dir)
        return -1;
    while ((e = readdir(dir)))
        n += strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0;
    closedir(dir);
    return n;
}

int box_limits(void)
{
    return geteuid() == 0 || getenv("SBTEST_SCOPES") != NULL;
}

static const char *wanted_id;
static char *found_group;
static size_t found_room;

static int look_at_group(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    const char *name = path + ftw->base;

    (void)st;
    if (type != FTW_D || !strstr(name, wanted_id))
        return 0;
    snprintf(found_group, found_room, "%s%s", path, strncmp(name, "libsandbox-", 11) == 0 ? "/box" : "");
    return 1;
}

int box_cgroup(const struct sandbox *sandbox, char *path, size_t size)
{
    static const char *const mounts[] = { "/sys/fs/cgroup", "/sys/fs/cgroup/unified" };

    wanted_id = sandbox_get_id(sandbox);
    found_group = path;
    found_room = size;
    for (size_t i = 0; i < 2; i++) {
        struct statfs fs;

        if (statfs(mounts[i], &fs) == 0 && fs.f_type == CGROUP2_SUPER_MAGIC && nftw(mounts[i], look_at_group, 16, FTW_PHYS) == 1)
            return access(path, F_OK) == 0;
    }
    return 0;
}

pid_t box_init(const struct sandbox *sandbox)
{
    char path[1024], *text, *at;
    pid_t pid;

    snprintf(path, sizeof path, "%s/sandboxes/%s/run", box_root(), sandbox_get_id(sandbox));
    text = box_read(path);
    at = strstr(text, "\"init\":{");
    at = at ? strstr(at, "\"pid\":") : NULL;
    ck_assert_ptr_nonnull(at);
    pid = (pid_t)atoi(at + 6);
    ck_assert_int_gt(pid, 1);
    free(text);
    return pid;
}
