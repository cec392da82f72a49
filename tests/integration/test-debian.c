/* SPDX-License-Identifier: Apache-2.0
 * A real distribution's image, and a real FUSE file system in it: Debian by mmdebstrap (images/debian.sh), fuse-overlayfs as the
 * daemon with CAP_SYS_ADMIN and a /dev/fuse of its own, and commands of another user working in what it mounts. */
#include "box.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static struct sandbox_host *host;
static struct sandbox *sandbox;
static struct sandbox_error *error;
static char tar[1024];

/* Once, before the tests: it may take a minute. */
static void make_image(void)
{
    const char *script = getenv("SBTEST_DEBIAN");
    int p[2], status = -1;
    ssize_t n;
    pid_t pid;

    if (!script || pipe2(p, O_CLOEXEC) < 0)
        return;
    pid = fork();
    if (pid == 0) {
        dup2(p[1], 1);
        execl(script, script, (char *)NULL);
        _exit(127);
    }
    close(p[1]);
    n = read(p[0], tar, sizeof tar - 1);
    close(p[0]);
    if (waitpid(pid, &status, 0) != pid || status != 0 || n <= 0)
        n = 0;
    tar[n] = 0;
    tar[strcspn(tar, "\n")] = 0;
}

static void set_up(void)
{
    host = box_host();
}

static void tear_down(void)
{
    box_end(&host, &sandbox);
}

static struct sandbox_spec *debian(void)
{
    struct sandbox_image_import_options options = SANDBOX_IMAGE_IMPORT_OPTIONS_INIT;
    struct sandbox_image *image = NULL;
    struct sandbox_spec *spec = box_spec();

    options.name = "debian";
    sbtest_ok(sandbox_image_import(host, tar, &options, 120000, &image, &error), &error);
    sandbox_image_unref(image);
    sbtest_ok(sandbox_spec_set_image(spec, "debian", &error), &error);
    return spec;
}

START_TEST(debian_works)
{
    char *text;

    if (!*tar)
        sbtest_skip("no Debian image could be made by mmdebstrap");
    sandbox = box_start(host, debian());
    text = box_sh(sandbox, "0:0", "grep ^ID= /etc/os-release; python3 -c 'print(6 * 7)'; id -un");
    ck_assert_str_eq(text, "ID=debian\n42\nroot");
    free(text);
    text = box_sh(sandbox, "daemon", "id -u; touch /usr/bin/x 2>/dev/null || echo refused");
    ck_assert_str_eq(text, "1\nrefused");
    free(text);
    /* dpkg renames folders and sets owners: the root is a real one */
    text = box_sh(sandbox, "0:0", "mv /usr/share/common-licenses /usr/share/cl && ls /usr/share/cl | head -1; dpkg-query -f '${Status}' -W fuse3");
    ck_assert_ptr_nonnull(strstr(text, "install ok installed"));
    free(text);
}
END_TEST

START_TEST(debian_fuse_overlayfs)
{
    struct sandbox_exec_options options = SANDBOX_EXEC_OPTIONS_INIT;
    struct sandbox_spec *spec;
    struct box_run run;
    char *text;

    if (!*tar)
        sbtest_skip("no Debian image could be made by mmdebstrap");
    spec = debian();
    sbtest_ok(sandbox_spec_set_fuse(spec, 1, &error), &error);
    sbtest_ok(sandbox_spec_add_capability(spec, "SYS_ADMIN", &error), &error);
    sbtest_ok(sandbox_spec_set_daemon(spec,
                                      BOX_ARGV("/bin/sh", "-c",
                                               "mkdir -p /f/low /f/up /f/work /desk; echo below > /f/low/file; chmod 777 /f/up; "
                                               "exec fuse-overlayfs -f -o lowerdir=/f/low,upperdir=/f/up,workdir=/f/work,allow_other /desk"),
                                      &error), &error);
    sandbox = box_start(host, spec);
    for (int i = 0; i < 250 && box_code(sandbox, NULL, "grep -q ' /desk fuse' /proc/self/mounts"); i++)
        usleep(20000);
    text = box_sh(sandbox, "501:20",
                  "cat /desk/file; echo mine > /desk/new; mkdir /desk/d; mv /desk/new /desk/d/moved; cat /desk/d/moved; "
                  "stat -c %u:%g /desk/d/moved");
    ck_assert_str_eq(text, "below\nmine\n501:20");
    free(text);
    /* who works in it can't take it away, nor open the device */
    options.user = "501:20";
    box_run(sandbox, &options, NULL, 0, &run, BOX_ARGV("sh", "-c", "umount /desk; fusermount3 -u /desk; umount -l /desk; cat /dev/fuse; ls /desk"));
    ck_assert_ptr_nonnull(strstr(run.output.out, "d\nfile"));
    box_clear(&run);
    text = box_sh(sandbox, "0:0", "cat /f/up/d/moved");
    ck_assert_str_eq(text, "mine");
    free(text);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("integration-debian");
    TCase *tc = sbtest_case("debian");

    make_image();
    tcase_add_checked_fixture(tc, set_up, tear_down);
    tcase_set_timeout(tc, 120);
    tcase_add_test(tc, debian_works);
    tcase_add_test(tc, debian_fuse_overlayfs);
    suite_add_tcase(suite, tc);
    return box_main(suite);
}
