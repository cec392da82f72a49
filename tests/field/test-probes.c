/* SPDX-License-Identifier: Apache-2.0
 * LayerFS's own probes (tests/probes) as daemons of sandboxes on the Debian image, with what LayerFS asks of Docker: CAP_SYS_ADMIN, a
 * /dev/fuse, user 0:0. Their lines must be what a Docker container with these flags gives. And the same workspace from the outside: a
 * command of ours in it. */
#include "box.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct sandbox_host *host;
static struct sandbox *sandbox;
static struct sandbox_error *error;

static const char *tar(void)
{
    const char *path = getenv("SBTEST_DEBIAN_TAR");

    return path && *path ? path : NULL;
}

static void set_up(void)
{
    host = box_host();
}

static void tear_down(void)
{
    box_end(&host, &sandbox);
}

static struct sandbox_spec *layerfs(const char *const *daemon)
{
    struct sandbox_image_import_options options = SANDBOX_IMAGE_IMPORT_OPTIONS_INIT;
    struct sandbox_mount_options probes = SANDBOX_MOUNT_OPTIONS_INIT;
    struct sandbox_image *image = NULL;
    struct sandbox_spec *spec = box_spec();

    options.name = "debian";
    sbtest_ok(sandbox_image_import(host, tar(), &options, 120000, &image, &error), &error);
    sandbox_image_unref(image);
    sbtest_ok(sandbox_spec_set_image(spec, "debian", &error), &error);
    sbtest_ok(sandbox_spec_set_fuse(spec, 1, &error), &error);
    sbtest_ok(sandbox_spec_add_capability(spec, "SYS_ADMIN", &error), &error);
    probes.source = getenv("SBTEST_PROBES");
    probes.target = "/probes";
    probes.flags = SANDBOX_MOUNT_READ_ONLY;
    sbtest_ok(sandbox_spec_add_mount(spec, &probes, &error), &error);
    sbtest_ok(sandbox_spec_set_daemon(spec, daemon, &error), &error);
    return spec;
}

/* Runs a probe as the daemon to its end; what it wrote to stdout: free() it. */
static char *run_probe(const char *path)
{
    struct sandbox_log_options options = SANDBOX_LOG_OPTIONS_INIT;
    struct sandbox_log *log = NULL;
    char *text = calloc(1, 65536);
    size_t n = 0;
    int r;

    ck_assert_ptr_nonnull(text);
    sandbox = box_start(host, layerfs(BOX_ARGV("/bin/sh", path)));
    options.follow = 1;
    sbtest_ok(sandbox_log_open(sandbox, &options, &log, &error), &error);
    for (;;) {
        struct sandbox_log_record record = SANDBOX_LOG_RECORD_INIT;

        r = sandbox_log_read(log, 60000, &record, &error);
        if (r <= 0)
            break;
        if (record.kind == SANDBOX_LOG_OUTPUT && record.stream == SANDBOX_LOG_STDOUT && n + record.data_size < 65535) {
            memcpy(text + n, record.data, record.data_size);
            n += record.data_size;
        }
    }
    sbtest_ok(r, &error);
    sandbox_log_close(log);
    printf("%s\n", text);
    return text;
}

/* The value of a line NAME=VALUE. */
static const char *value_of(const char *text, const char *name, char *value, size_t size)
{
    size_t n = strlen(name);

    for (const char *line = text; line && *line; line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL)
        if (!strncmp(line, name, n) && line[n] == '=') {
            snprintf(value, size, "%.*s", (int)strcspn(line + n + 1, "\n"), line + n + 1);
            return value;
        }
    ck_abort_msg("the probe says nothing of %s:\n%s", name, text);
}

struct line {
    const char *name, *value; /* a value that ends in '*' is a beginning */
};

static void expect(const char *text, const struct line *lines, size_t n)
{
    char value[1024];

    for (size_t i = 0; i < n; i++) {
        size_t length = strlen(lines[i].value);
        int open = length && lines[i].value[length - 1] == '*';

        value_of(text, lines[i].name, value, sizeof value);
        if (open ? strncmp(value, lines[i].value, length - 1) != 0 : strcmp(value, lines[i].value) != 0)
            ck_abort_msg("%s=%s, where a container with LayerFS's flags gives %s", lines[i].name, value, lines[i].value);
    }
}

START_TEST(probe_route_a)
{
    static const struct line lines[] = {
        { "route_a_version", "2" },
        { "cmd_user", "uid=1500(lfsprobe) gid=1500(lfsprobe) groups=1500(lfsprobe)" },
        { "cmd_launcher", "setpriv" },
        { "daemon_mount_allow_other", "ok fuse.fuse-overlayfs rw*" },
        { "cmd_caps", "CapEff:0000000000000000 CapBnd:0000000000000000 NoNewPrivs:1 Seccomp:2*" },
        { "cmd_read", "probe-file" },
        { "cmd_write", "from-cmd" },
        { "cmd_write_owner", "1500:1500" },
        { "cmd_unmount", "denied (parity ok)" },
        { "cmd_userns", "denied (parity ok)" },
        { "daemon_unmount", "ok" },
        { "done", "ok" },
    };
    char *text;

    if (!tar())
        sbtest_skip("no Debian image could be made by mmdebstrap");
    text = run_probe("/probes/lfs-route-a-probe.sh");
    expect(text, lines, sizeof lines / sizeof *lines);
    free(text);
}
END_TEST

START_TEST(probe_sandbox)
{
    static const struct line lines[] = {
        { "probe_version", "3" },
        { "uid", "0" },
        { "root_route", "root" },
        { "os", "Debian GNU/Linux*" },
        { "dev_fuse", "crw*" },
        { "fuse_in_kernel", "yes" },
        { "no_new_privs", "1" },
        { "seccomp_mode", "2" },
        { "userns", "denied" },
        { "fs_root", "overlay" },
        { "mount_tmpfs", "ok" },
        { "fuse_overlayfs", "/usr/bin/fuse-overlayfs" },
        { "fuse_mount_root", "ok type=fuse.fuse-overlayfs read=probe-file" },
        { "done", "ok" },
    };
    char value[256], *text;

    if (!tar())
        sbtest_skip("no Debian image could be made by mmdebstrap");
    text = run_probe("/probes/lfs-sandbox-probe.sh");
    expect(text, lines, sizeof lines / sizeof *lines);
    value_of(text, "cap_eff", value, sizeof value);
    ck_assert_ptr_nonnull(strstr(value, "sys_admin=1"));
    free(text);
}
END_TEST

/* A daemon's workspace; a command of ours works in it and can't take it away, in none of the ways there are. */
START_TEST(probe_command)
{
    static const char daemon[] = "mkdir -p /f/low /f/up /f/work /desk; echo below > /f/low/file; chmod 777 /f/up; "
                                 "unshare -U true 2>/dev/null && echo allowed > /f/userns || echo denied > /f/userns; "
                                 "exec fuse-overlayfs -f -o lowerdir=/f/low,upperdir=/f/up,workdir=/f/work,allow_other /desk";
    static const char attack[] =
        "umount /desk; umount -l /desk; umount -f /desk; fusermount3 -u /desk; fusermount3 -uz /desk; "
        "unshare -U true && echo userns; unshare -Urm sh -c 'mount --bind /desk /tmp' && echo copied; "
        "mount --bind /desk /tmp && echo bound; mount --move /desk /tmp && echo moved; "
        "exec 3<>/dev/fuse && mount -i -t fuse -o fd=3,rootmode=40000,user_id=501,group_id=20 x /tmp && echo mounted; :";
    struct sandbox_exec_options options = SANDBOX_EXEC_OPTIONS_INIT;
    struct box_run run;
    char *text;

    if (!tar())
        sbtest_skip("no Debian image could be made by mmdebstrap");
    sandbox = box_start(host, layerfs(BOX_ARGV("/bin/sh", "-c", daemon)));
    for (int i = 0; i < 500 && box_code(sandbox, NULL, "grep -q ' /desk fuse' /proc/self/mounts"); i++)
        usleep(20000);
    text = box_sh(sandbox, "501:20",
                  "cat /desk/file; echo mine > /desk/new; mv /desk/new /desk/moved; cat /desk/moved; stat -c %u:%g /desk/moved");
    ck_assert_str_eq(text, "below\nmine\n501:20");
    free(text);
    options.user = "501:20";
    box_run(sandbox, &options, NULL, 0, &run, BOX_ARGV("sh", "-c", attack));
    ck_assert_str_eq(run.output.out, "");
    box_clear(&run);
    text = box_sh(sandbox, "501:20", "cat /desk/file /desk/moved; grep -c ' /desk fuse' /proc/self/mounts");
    ck_assert_str_eq(text, "below\nmine\n1");
    free(text);
    text = box_sh(sandbox, "0:0", "cat /f/userns; cat /f/up/moved");
    ck_assert_str_eq(text, "denied\nmine");
    free(text);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("field-probes");
    TCase *tc = sbtest_case("probes");

    tcase_add_checked_fixture(tc, set_up, tear_down);
    tcase_set_timeout(tc, 150);
    tcase_add_test(tc, probe_route_a);
    tcase_add_test(tc, probe_sandbox);
    tcase_add_test(tc, probe_command);
    suite_add_tcase(suite, tc);
    return box_main(suite);
}
