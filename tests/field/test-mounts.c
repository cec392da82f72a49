/* SPDX-License-Identifier: Apache-2.0
 * Cases from the field, and attacks, about mounts of host folders: what can't be undone inside, which overlay it is and why, folders that
 * hold strange things or change meanwhile, and marks that a sandbox forges. */
#include "box.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/un.h>
#include <sys/xattr.h>
#include <unistd.h>

static struct sandbox_host *host;
static struct sandbox *sandbox;
static struct sandbox_error *error;
static char folder[500];

static void set_up(void)
{
    host = box_host();
    snprintf(folder, sizeof folder, "%s/lower", sbtest_dir());
    ck_assert_int_eq(mkdir(folder, 0755), 0);
    box_write(folder, "file", "as it was\n");
}

static void tear_down(void)
{
    box_end(&host, &sandbox);
}

static void add(struct sandbox_spec *spec, int type, const char *source, const char *target, unsigned int flags)
{
    struct sandbox_mount_options mount = SANDBOX_MOUNT_OPTIONS_INIT;

    mount.type = type;
    mount.source = source;
    mount.target = target;
    mount.flags = flags;
    sbtest_ok(sandbox_spec_add_mount(spec, &mount, &error), &error);
}

static void expect(const char *script, const char *output)
{
    char *text = box_sh(sandbox, NULL, script);

    ck_assert_str_eq(text, output);
    free(text);
}

static void expect_host(const char *name, const char *content)
{
    char path[800], *text;

    snprintf(path, sizeof path, "%s/%s", folder, name);
    text = box_read(path);
    ck_assert_str_eq(text, content);
    free(text);
}

static void start_over(void)
{
    struct sandbox_spec *spec = box_spec();

    sbtest_ok(sandbox_spec_set_lifetime(spec, SANDBOX_LIFETIME_DETACHED, &error), &error);
    add(spec, SANDBOX_MOUNT_OVERLAY, folder, "/project", 0);
    sandbox = box_start(host, spec);
}

static char *changes(void)
{
    struct sandbox_diff *diff = NULL;
    char *text = NULL;
    size_t size;
    FILE *f = open_memstream(&text, &size);

    sbtest_ok(sandbox_mount_diff(sandbox, "/project", NULL, 20000, &diff, &error), &error);
    for (size_t i = 0; i < sandbox_diff_get_count(diff); i++) {
        struct sandbox_diff_entry e = SANDBOX_DIFF_ENTRY_INIT;

        ck_assert_int_eq(sandbox_diff_get(diff, i, &e), 0);
        fprintf(f, "%c%s ", "?+*-"[e.kind], e.path);
    }
    sandbox_diff_unref(diff);
    fclose(f);
    return text;
}

/* F50: read-only is enforced from outside: the daemon's root, with SYS_ADMIN, clears no flag of a mount and takes none away, neither from
 * a bind, nor from an overlay, nor from what covers a secret. */
START_TEST(storage_f50)
{
    struct sandbox_spec *spec = box_spec();
    char *out = NULL;

    box_write(folder, ".env", "KEY=1\n");
    sbtest_ok(sandbox_spec_set_secrets(spec, SANDBOX_SECRETS_HIDE, NULL, &error), &error);
    add(spec, SANDBOX_MOUNT_BIND, folder, "/still", SANDBOX_MOUNT_READ_ONLY);
    add(spec, SANDBOX_MOUNT_OVERLAY, folder, "/project", 0);
    sbtest_ok(sandbox_spec_set_daemon(spec, BOX_ARGV("/guest/probe", "-o", "/found", "-n", "mounts"), &error), &error);
    sbtest_ok(sandbox_spec_add_capability(spec, "SYS_ADMIN", &error), &error);
    sandbox = box_start(host, spec);
    for (int i = 0; i < 200 && !(out && strstr(out, "end: probe")); i++) {
        free(out);
        out = box_sh(sandbox, NULL, "cat /found 2>/dev/null; :");
        usleep(50000);
    }
    ck_assert_ptr_nonnull(strstr(out, "end: probe"));
    ck_assert_ptr_nonnull(strstr(out, "clear ro by setattr /still"));
    ck_assert_ptr_nonnull(strstr(out, "unmount /project/.env"));
    box_expect_all(out, "clear ", "EPERM|EINVAL|EACCES|ENOSYS|EBUSY|ENOENT");
    box_expect_all(out, "unmount ", "EPERM|EINVAL|EBUSY|ENOENT");
    box_expect_all(out, "move ", "EPERM|EINVAL|EBUSY|ENOENT|ENOTDIR|ELOOP");
    free(out);
    ck_assert_int_ne(box_code(sandbox, NULL, "echo x 2>/dev/null > /still/file"), 0);
    ck_assert_int_ne(box_code(sandbox, NULL, "cat /project/.env 2>/dev/null"), 0);
    expect_host("file", "as it was\n");
    expect_host(".env", "KEY=1\n");
}
END_TEST

/* Links, hard links, sockets, devices, names of 255 bytes and of no encoding, marks of other overlays. */
START_TEST(overlay_strange_lower)
{
    char path[800], other[800], longest[256];
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    int fd, listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    snprintf(path, sizeof path, "%s/file", folder);
    snprintf(other, sizeof other, "%s/hard", folder);
    ck_assert_int_eq(link(path, other), 0);
    memset(longest, 'a', 255);
    longest[255] = 0;
    box_write(folder, longest, "long\n");
    box_write(folder, "n\377\1", "bytes\n");
    snprintf(path, sizeof path, "%s/marked", folder);
    ck_assert_int_eq(mkdir(path, 0755), 0);
    box_write(path, "in", "inside\n");
    ck_assert_int_eq(setxattr(path, "user.overlay.opaque", "y", 1, 0), 0);
    fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    ck_assert_int_eq(fchdir(fd), 0);
    snprintf(address.sun_path, sizeof address.sun_path, "sock");
    ck_assert_int_eq(bind(listener, (struct sockaddr *)&address, sizeof address), 0);
    ck_assert_int_eq(chdir("/"), 0);
    close(fd);
    if (geteuid() == 0) {
        snprintf(path, sizeof path, "%s/null", folder);
        ck_assert_int_eq(mknod(path, S_IFCHR | 0666, makedev(1, 3)), 0);
        snprintf(path, sizeof path, "%s/white", folder);
        ck_assert_int_eq(mknod(path, S_IFCHR | 0666, makedev(0, 0)), 0);
    }
    start_over();
    expect("cd /project; cat file hard marked/in a*", "as it was\nas it was\ninside\nlong");
    expect("cd /project; test -S sock && echo socket; test -e white || echo no mark", "socket\nno mark");
    ck_assert_int_ne(box_code(sandbox, NULL, "cat /project/null 2>/dev/null"), 0); /* a device is only to be looked at: nodev */
    expect("cd /project; echo more >> file; cat file hard", "as it was\nmore\nas it was"); /* what is written is copied first, alone */
    expect("cd /project; echo 2 >> \"$(printf 'n\\377\\001')\"; rm a*; ls | wc -l | tr -d ' '", geteuid() ? "5" : "6");
    char *text = changes();
    ck_assert_ptr_nonnull(strstr(text, "*n\377\1 "));
    ck_assert_ptr_nonnull(strstr(text, "*file "));
    free(text);
    expect_host("file", "as it was\n");
    close(listener);
}
END_TEST

/* The machine's own programs change the folder while it is below an overlay: no hang, and what was written inside stays. */
START_TEST(overlay_lower_changes)
{
    char path[800];

    start_over();
    expect("cd /project; echo mine > new; echo mine >> file; cat file", "as it was\nmine");
    box_write(folder, "later", "of the host\n");
    box_write(folder, "file", "changed on the host\n");
    snprintf(path, sizeof path, "%s/sub", folder);
    ck_assert_int_eq(mkdir(path, 0755), 0);
    expect("cd /project; cat new file", "mine\nas it was\nmine");
    for (int i = 0; i < 200; i++) {
        box_write(path, "x", "1");
        snprintf(path, sizeof path, "%s/sub/x", folder);
        ck_assert_int_eq(unlink(path), 0);
        snprintf(path, sizeof path, "%s/sub", folder);
    }
    ck_assert_int_eq(box_code(sandbox, NULL, "cd /project; ls -R >/dev/null; echo again > again"), 0);
    sbtest_ok(sandbox_stop(sandbox, 0, 20000, &error), &error);
    sbtest_ok(sandbox_start(sandbox, 20000, &error), &error);
    expect("cd /project; cat new file later again", "mine\nas it was\nmine\nof the host\nagain");
    expect_host("file", "changed on the host\n");
}
END_TEST

/* A sandbox's root tries to make the marks itself by which an overlay hides and joins: none comes to the host's side. */
START_TEST(redteam_overlay_marks)
{
    char *text;

    start_over();
    ck_assert_int_eq(box_code(sandbox, NULL,
                              "cd /project; mkdir d; mknod d/white c 0 0 2>/dev/null;"
                              "python3 -c 'import os\n"
                              "for n in (\"opaque\",\"redirect\",\"metacopy\",\"origin\",\"whiteout\"):\n"
                              "  for p in (\"user.overlay.\",\"trusted.overlay.\"):\n"
                              "    try: os.setxattr(\"d\",p+n,b\"y\")\n"
                              "    except OSError: pass\n' 2>/dev/null; :"),
                     0);
    text = changes();
    ck_assert_ptr_null(strstr(text, "-"));
    ck_assert_ptr_nonnull(strstr(text, "+d "));
    free(text);
    expect("cat /project/file", "as it was");
    sbtest_ok(sandbox_stop(sandbox, 0, 20000, &error), &error);
    sbtest_ok(sandbox_start(sandbox, 20000, &error), &error);
    expect("cat /project/file", "as it was");
}
END_TEST

/* A07 for overlays: a target whose way leads over a link of the sandbox's own stays within its root. */
START_TEST(redteam_a07_overlay)
{
    struct sandbox_spec *spec = box_spec();

    sbtest_ok(sandbox_spec_set_lifetime(spec, SANDBOX_LIFETIME_DETACHED, &error), &error);
    add(spec, SANDBOX_MOUNT_OVERLAY, folder, "/opt2/deep/work", 0);
    sandbox = box_start(host, spec);
    expect("cat /opt2/deep/work/file", "as it was");
    sbtest_ok(sandbox_stop(sandbox, 0, 20000, &error), &error);
    sbtest_ok(sandbox_start(sandbox, 20000, &error), &error);
    /* what is below the mount is the root's own layer: replace it by a link to the outside's parent, where nothing of ours may appear */
    ck_assert_int_eq(box_code(sandbox, NULL, "mv /opt2 /opt3 && ln -s /../../../tmp /opt2"), 0);
    sbtest_ok(sandbox_stop(sandbox, 0, 20000, &error), &error);
    sbtest_ok(sandbox_start(sandbox, 20000, &error), &error);
    expect("cat /opt2/deep/work/file; cat /tmp/deep/work/file", "as it was\nas it was");
    ck_assert_int_ne(access("/tmp/deep/work", F_OK), 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("field-mounts");
    TCase *tc = sbtest_case("mounts");

    tcase_set_timeout(tc, 60);
    tcase_add_checked_fixture(tc, set_up, tear_down);
    tcase_add_test(tc, storage_f50);
    tcase_add_test(tc, overlay_strange_lower);
    tcase_add_test(tc, overlay_lower_changes);
    tcase_add_test(tc, redteam_overlay_marks);
    tcase_add_test(tc, redteam_a07_overlay);
    suite_add_tcase(suite, tc);
    return box_main(suite);
}
