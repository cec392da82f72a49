/* SPDX-License-Identifier: Apache-2.0
 * Cases from the field about images and storage, about secrets, and about machines that forbid something. */
#include "box.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static struct sandbox_host *host;
static struct sandbox *sandbox;
static struct sandbox_error *error;

static void set_up(void)
{
    host = box_host();
}

static void tear_down(void)
{
    if (host)
        box_end(&host, &sandbox);
}

static struct sandbox_spec *spec_of(const char *image)
{
    struct sandbox_spec *spec = box_spec();

    sbtest_ok(sandbox_spec_set_image(spec, image, &error), &error);
    return spec;
}

/* An image of one's own: the busybox tar with a file more, under a name. */
static void import_marked(const char *name, const char *mark)
{
    struct sandbox_image_import_options options = SANDBOX_IMAGE_IMPORT_OPTIONS_INIT;
    struct sandbox_image *image = NULL;
    char folder[600], tar[1024];
    int status;
    pid_t pid;

    snprintf(folder, sizeof folder, "%s/%s", sbtest_dir(), mark);
    snprintf(tar, sizeof tar, "%s/rootfs.tar", getenv("SBTEST_IMAGES"));
    ck_assert_int_eq(mkdir(folder, 0755), 0);
    pid = fork();
    if (pid == 0) {
        execlp("tar", "tar", "-xpf", tar, "-C", folder, (char *)NULL);
        _exit(127);
    }
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert_int_eq(status, 0);
    box_write(folder, "mark", mark);
    options.name = name;
    sbtest_ok(sandbox_image_import(host, folder, &options, 30000, &image, &error), &error);
    sandbox_image_unref(image);
}

/* What was pinned at create is what is started, whatever its name means by then. */
START_TEST(image_f55)
{
    struct sandbox_info *info = NULL;
    char digest[100], *text;

    import_marked("moving", "one");
    sandbox = box_start(host, spec_of("moving"));
    sbtest_ok(sandbox_inspect(sandbox, &info, &error), &error);
    snprintf(digest, sizeof digest, "%s", sandbox_info_get_image_digest(info));
    ck_assert_int_eq(strncmp(digest, "sha256:", 7), 0);
    sandbox_info_unref(info);
    import_marked("moving", "two");
    sbtest_ok(sandbox_stop(sandbox, 0, 10000, &error), &error);
    sbtest_ok(sandbox_start(sandbox, 10000, &error), &error);
    text = box_sh(sandbox, NULL, "cat /mark");
    ck_assert_str_eq(text, "one");
    free(text);
    sbtest_ok(sandbox_inspect(sandbox, &info, &error), &error);
    ck_assert_str_eq(sandbox_info_get_image_digest(info), digest);
    sandbox_info_unref(info);
    {
        struct sandbox *other = box_start(host, spec_of("moving"));

        text = box_sh(other, NULL, "cat /mark");
        ck_assert_str_eq(text, "two");
        free(text);
        sbtest_ok(sandbox_delete(other, 10000, &error), &error);
        sandbox_unref(other);
    }
}
END_TEST

static void *make_one(void *arg)
{
    struct sandbox *mine;
    char *text;

    (void)arg;
    box_busybox(host); /* the same import, at once */
    mine = box_start(host, spec_of("busybox"));
    text = box_sh(mine, NULL, "cat /etc/motd");
    ck_assert_str_eq(text, "busybox test image");
    free(text);
    sbtest_ok(sandbox_delete(mine, 20000, NULL), NULL);
    sandbox_unref(mine);
    return NULL;
}

START_TEST(image_f56)
{
    pthread_t threads[6];

    for (int i = 0; i < 6; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, make_one, NULL), 0);
    for (int i = 0; i < 6; i++)
        pthread_join(threads[i], NULL);
}
END_TEST

/* Where no overlay can be made, create says so, and why; it does not fall back to a copy in silence. */
START_TEST(image_f53)
{
    struct sandbox_host_options options = SANDBOX_HOST_OPTIONS_INIT;
    struct sandbox_host *other = NULL;
    struct sandbox_spec *spec;
    char low[600], up[600], work[600], on[600], root[700], how[2000];

    if (geteuid() != 0)
        sbtest_skip("only root can mount an overlay to stand on");
    spec = box_spec();
    snprintf(low, sizeof low, "%s/low", sbtest_dir());
    snprintf(up, sizeof up, "%s/up", sbtest_dir());
    snprintf(work, sizeof work, "%s/work", sbtest_dir());
    snprintf(on, sizeof on, "%s/on", sbtest_dir());
    snprintf(root, sizeof root, "%s/state", on);
    ck_assert_int_eq(mkdir(low, 0755) | mkdir(up, 0755) | mkdir(work, 0755) | mkdir(on, 0755), 0);
    snprintf(how, sizeof how, "lowerdir=%s,upperdir=%s,workdir=%s", low, up, work);
    ck_assert_int_eq(mount("overlay", on, "overlay", 0, how), 0);
    options.state_root = root;
    if (sandbox_host_open("local:", &options, 10000, &other, &error) == 0) {
        int r = sandbox_create(other, spec, 10000, &sandbox, &error);

        ck_assert_int_lt(r, 0);
        if (!strstr(sandbox_error_get_message(error), "overlay") && !strstr(sandbox_error_get_message(error), "file system"))
            ck_abort_msg("the message does not say what is wrong: %s", sandbox_error_get_message(error));
    }
    ck_assert_ptr_nonnull(error);
    error = sandbox_error_unref(error);
    sandbox_spec_unref(spec);
    sandbox_host_unref(other);
    ck_assert_int_eq(umount2(on, 0), 0);
}
END_TEST

/* Looks for a word in what other processes of the machine can read: command lines and names. */
static int visible(const char *word)
{
    DIR *proc = opendir("/proc");
    struct dirent *e;
    int found = 0;

    while (proc && (e = readdir(proc))) {
        char path[300], text[65536];
        size_t n;
        FILE *f;

        if (!isdigit((unsigned char)e->d_name[0]) || atoi(e->d_name) == getpid())
            continue;
        snprintf(path, sizeof path, "/proc/%s/cmdline", e->d_name);
        f = fopen(path, "re");
        if (!f)
            continue;
        n = fread(text, 1, sizeof text - 1, f);
        fclose(f);
        found |= memmem(text, n, word, strlen(word)) != NULL;
    }
    if (proc)
        closedir(proc);
    return found;
}

static int others_may_read(const char *path)
{
    struct stat st;

    return lstat(path, &st) == 0 && (st.st_mode & 077) != 0;
}

START_TEST(security_f60)
{
    struct sandbox_exec_options options = SANDBOX_EXEC_OPTIONS_INIT;
    struct sandbox_spec *spec = box_spec();
    struct sandbox_exec *exec = NULL;
    char path[700];

    sbtest_ok(sandbox_spec_add_env(spec, "TOKEN", "sbtest-secret-of-the-spec", &error), &error);
    sandbox = box_start(host, spec);
    options.env = BOX_ARGV("TOKEN2=sbtest-secret-of-the-command");
    sbtest_ok(sandbox_exec(sandbox, BOX_ARGV("sleep", "5"), &options, &exec, &error), &error);
    ck_assert_int_eq(visible("sbtest-secret"), 0);
    snprintf(path, sizeof path, "%s/sandboxes/%s", box_root(), sandbox_get_id(sandbox));
    ck_assert_int_eq(others_may_read(path), 0);
    ck_assert_int_eq(others_may_read(box_root()), 0);
    sbtest_ok(sandbox_exec_kill(exec, 9, 0, &error), &error);
    sandbox_exec_unref(exec);
}
END_TEST

/* From now on, in this process and its children: unshare() is refused, as AppArmor or a container's filter does. */
static void forbid_unshare(void)
{
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_unshare, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = { sizeof filter / sizeof *filter, filter };

    ck_assert_int_eq(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
    ck_assert_int_eq(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program), 0);
}

START_TEST(security_f61)
{
    struct sandbox_spec *spec = box_spec();
    struct sandbox_list *list = NULL;
    int r;

    forbid_unshare();
    r = sandbox_create(host, spec, 10000, &sandbox, &error);
    ck_assert_int_eq(r, SANDBOX_EDENIED);
    ck_assert_str_ne(sandbox_error_get_message(error), "");
    if (!*sandbox_error_get_hint(error))
        ck_abort_msg("no hint goes with \"%s\"", sandbox_error_get_message(error));
    error = sandbox_error_unref(error);
    sandbox_spec_unref(spec);
    sbtest_ok(sandbox_host_list(host, NULL, &list, &error), &error);
    ck_assert_uint_eq(sandbox_list_get_count(list), 0);
    sandbox_list_unref(list);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("field-image");
    TCase *tc = sbtest_case("image");

    tcase_add_checked_fixture(tc, set_up, tear_down);
    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, image_f53);
    tcase_add_test(tc, image_f55);
    tcase_add_test(tc, image_f56);
    tcase_add_test(tc, security_f60);
    tcase_add_test(tc, security_f61);
    suite_add_tcase(suite, tc);
    return box_main(suite);
}
