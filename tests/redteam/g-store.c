/* SPDX-License-Identifier: Apache-2.0
 * See g-store.h. */
#include "g-store.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fs.h>
#include <poll.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct sb_images *store;
struct sb_idmap store_map;
int store_root = -1;
static int program = -1;
static char canary_path[512];

int store_program(void *data, struct sandbox_error **error)
{
    (void)data;
    (void)error;
    return program;
}

const char *in_dir(const char *name)
{
    static char paths[8][512];
    static unsigned int turn;
    char *path = paths[turn++ % 8];

    snprintf(path, sizeof paths[0], "%s/%s", sbtest_dir(), name);
    return path;
}

static int subordinate(const char *file, const char *user, uint32_t *start, uint32_t *count)
{
    char line[256], name[64];
    FILE *f = fopen(file, "re");
    int found = 0;

    while (f && !found && fgets(line, sizeof line, f))
        found = sscanf(line, "%63[^:]:%u:%u", name, start, count) == 3 && !strcmp(name, user);
    if (f)
        fclose(f);
    return found;
}

static void find_map(void)
{
    struct passwd *pw = getpwuid(getuid());
    uint32_t uids = 0, gids = 0;

    store_map = (struct sb_idmap){ .privilege = SB_PRIVILEGE_SINGLE, .uid = getuid(), .gid = getgid(), .count = 1 };
    if (geteuid() == 0) {
        store_map.privilege = SB_PRIVILEGE_ROOT;
        store_map.uid_start = store_map.gid_start = 0x70000000;
        store_map.count = 65536;
    } else if (pw && subordinate("/etc/subuid", pw->pw_name, &store_map.uid_start, &uids) &&
               subordinate("/etc/subgid", pw->pw_name, &store_map.gid_start, &gids) && access("/usr/bin/newuidmap", X_OK) == 0) {
        store_map.privilege = SB_PRIVILEGE_SUBIDS;
        store_map.count = (uids < gids ? uids : gids) + 1;
    }
}

void store_open(void)
{
    struct sandbox_error *error = NULL;
    const char *exe = getenv("SBTEST_UNPACK");

    ck_assert_msg(exe != NULL, "SBTEST_UNPACK names no program");
    program = open(exe, O_RDONLY | O_CLOEXEC);
    ck_assert_msg(program >= 0, "%s: %s", exe, strerror(errno));
    store_root = sb_make_path(in_dir("state"));
    ck_assert_int_ge(store_root, 0);
    find_map();
    sbtest_ok(sb_images_open(store_root, &store_map, store_program, NULL, &store, &error), &error);
    snprintf(canary_path, sizeof canary_path, "%s", in_dir("canary"));
    {
        FILE *f = fopen(canary_path, "we");

        ck_assert_ptr_nonnull(f);
        fputs("unharmed", f);
        fclose(f);
    }
}

void store_close(void)
{
    if (store)
        remove_all();
    store = sb_images_free(store);
    close(store_root);
    close(program);
}

const char *canary(void)
{
    return canary_path;
}

void canary_unharmed(void)
{
    SB_FREE char *text = NULL;
    struct stat st;

    ck_assert_int_eq(sb_read_file(AT_FDCWD, canary_path, 100, &text, NULL), 0);
    ck_assert_str_eq(text, "unharmed");
    ck_assert_int_eq(stat(canary_path, &st), 0);
    ck_assert_uint_eq(st.st_nlink, 1);
}

int finish(struct sb_op *op, json_t **ret_image, struct sandbox_error **ret_error)
{
    int r;

    while ((r = op->ops->step(op, ret_error)) == 1) {
        struct pollfd fd = { .fd = op->fd, .events = POLLIN };

        ck_assert_msg(poll(&fd, 1, 60000) == 1, "an import stands still in phase '%s'", op->progress.phase);
    }
    if (!r && ret_image)
        *ret_image = json_incref(op->image);
    op->ops->free(op);
    return r;
}

int import(const char *source, const struct sandbox_image_import_options *options, json_t **ret_image, struct sandbox_error **ret_error)
{
    struct sb_op *op;
    int r = sb_image_import(store, source, options, &op, ret_error);

    return r ? r : finish(op, ret_image, ret_error);
}

static int count_in(const char *folder)
{
    DIR *stream;
    struct dirent *d;
    char path[600];
    int n = 0;

    snprintf(path, sizeof path, "%s/state/%s", sbtest_dir(), folder);
    stream = opendir(path);
    ck_assert_ptr_nonnull(stream);
    while ((d = readdir(stream)))
        n += strcmp(d->d_name, ".") && strcmp(d->d_name, "..") && strcmp(d->d_name, "lock") && strcmp(d->d_name, "layers.lock") && strcmp(d->d_name, "names");
    closedir(stream);
    return n;
}

void nothing_left(void)
{
    ck_assert_int_eq(count_in("images"), 0);
    ck_assert_int_eq(count_in("images/names"), 0);
    ck_assert_int_eq(count_in("layers"), 0);
}

void refused(const char *source, const struct sandbox_image_import_options *options, int code, const char *word)
{
    struct sandbox_error *error = NULL;
    int r = import(source, options, NULL, &error);

    ck_assert_msg(r == code, "%s where %s was expected: %s", sandbox_code_name(r), sandbox_code_name(code), sandbox_error_get_message(error));
    ck_assert_msg(!word || strstr(sandbox_error_get_message(error), word), "'%s' is not in: %s", word, sandbox_error_get_message(error));
    sandbox_error_unref(error);
    nothing_left();
    canary_unharmed();
}

int imported(const char *source)
{
    struct sandbox_error *error = NULL;
    struct sb_image_ref ref = SB_IMAGE_REF_INIT;
    SB_JSON json_t *image = NULL;
    int fd;

    sbtest_ok(import(source, NULL, &image, &error), &error);
    sbtest_ok(sb_image_resolve(store, json_string_value(json_object_get(image, "digest")), &ref, &error), &error);
    ck_assert_uint_ge(ref.n_layers, 1);
    fd = openat(store_root, ref.layers[ref.n_layers - 1], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    ck_assert_int_ge(fd, 0);
    sb_image_ref_clear(&ref);
    return fd;
}

void remove_all(void)
{
    struct sandbox_error *error = NULL;
    SB_JSON json_t *list = NULL;
    json_t *image;
    size_t i;

    sbtest_ok(sb_image_list(store, &list, &error), &error);
    json_array_foreach(list, i, image)
        sbtest_ok(sb_image_remove(store, json_string_value(json_object_get(image, "digest")), NULL, NULL, &error), &error);
    nothing_left();
}

int stat_in(int dir, const char *path, struct stat *st)
{
    return fstatat(dir, path, st, AT_SYMLINK_NOFOLLOW) < 0 ? -errno : 0;
}

char *text_in(int dir, const char *path)
{
    char *text = NULL;
    int r = sb_read_file(dir, path, 1 << 20, &text, NULL);

    ck_assert_msg(r == 0, "%s: %s", path, strerror(-r));
    return text;
}
