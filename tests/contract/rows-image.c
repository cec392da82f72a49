/* SPDX-License-Identifier: Apache-2.0
 * Images: pinned by digest (B1, F55), never a tag; checked (F52); unpacked inside their root (F51), once for two at a time (F56).
 * The image is made here: a tar with one file, which nothing in it could execute, so it is looked at through inspect. */
#include "contract.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static struct sandbox_error *error;

static void put_entry(FILE *out, const char *name, char type, const char *link, const char *data, unsigned int mode)
{
    char header[512] = { 0 }, padding[512] = { 0 };
    size_t size = data ? strlen(data) : 0;
    unsigned int sum = 0;

    snprintf(header, 100, "%s", name);
    snprintf(header + 100, 8, "%07o", mode);
    snprintf(header + 108, 8, "%07o", 0);
    snprintf(header + 116, 8, "%07o", 0);
    snprintf(header + 124, 12, "%011o", (unsigned int)size);
    snprintf(header + 136, 12, "%011o", 1234567890u);
    memset(header + 148, ' ', 8);
    header[156] = type;
    snprintf(header + 157, 100, "%s", link ? link : "");
    memcpy(header + 257, "ustar\00000", 8);
    for (size_t i = 0; i < sizeof header; i++)
        sum += (unsigned char)header[i];
    snprintf(header + 148, 8, "%06o", sum);
    fwrite(header, 1, sizeof header, out);
    if (size) {
        fwrite(data, 1, size, out);
        fwrite(padding, 1, (512 - size % 512) % 512, out);
    }
}

char *row_tar(const char *motd, const char *name, const char *link)
{
    const char *tmp = getenv("TMPDIR");
    char *path = NULL, end[1024] = { 0 };
    FILE *out;
    int fd;

    ROW_CHECK(asprintf(&path, "%s/contract-XXXXXX", tmp && *tmp ? tmp : "/tmp") > 0, "out of memory");
    fd = mkostemp(path, O_CLOEXEC);
    out = fd < 0 ? NULL : fdopen(fd, "we");
    ROW_CHECK(out, "%s can't be made", path);
    put_entry(out, "etc/", '5', NULL, NULL, 0755);
    put_entry(out, "etc/motd", '0', NULL, motd, 0644);
    if (name)
        put_entry(out, name, link ? '2' : '0', link, link ? NULL : "planted", 0644);
    if (name && link) {
        char below[120];

        snprintf(below, sizeof below, "%s/planted", name);
        put_entry(out, below, '0', NULL, "planted", 0644);
    }
    fwrite(end, 1, sizeof end, out);
    ROW_CHECK(fclose(out) == 0, "%s can't be written", path);
    return path;
}

static void check_image(const char *image, const char *digest)
{
    struct sandbox_spec *spec = row_spec();
    struct sandbox *sandbox;
    struct sandbox_info *info;

    row_need(sandbox_spec_set_image(spec, image, &error), &error, "set the image");
    sandbox = row_create(spec);
    info = row_info(sandbox);
    ROW_CHECK(!strcmp(sandbox_info_get_image_digest(info), digest), "it is pinned to \"%s\", not to %s",
              sandbox_info_get_image_digest(info), digest);
    sandbox_info_unref(info);
    row_need(sandbox_delete(sandbox, 60000, &error), &error, "delete");
}

static void b1_pinned(void)
{
    char *name = row_name("pinned"), *tar = row_tar(contract.run, NULL, NULL), *digest = row_import(tar, name);
    struct sandbox_image *image = NULL;
    struct sandbox_spec *spec = row_spec();
    struct sandbox *sandbox = NULL;
    char none[72];

    unlink(tar);
    check_image(digest, digest);
    row_need(sandbox_image_open(row_host(), digest, &image, &error), &error, "open the image");
    check_image(sandbox_image_get_config_digest(image), digest);
    sandbox_image_unref(image);
    snprintf(none, sizeof none, "sha256:%064d", 7);
    row_need(sandbox_spec_set_image(spec, none, &error), &error, "set the image");
    row_refused(sandbox_create(row_host(), spec, 60000, &sandbox, &error), SANDBOX_ENOTFOUND, &error,
                "a digest that is not there");
    sandbox_spec_unref(spec);
}

/* The name moves on to another image: what was made from the old one stays on it. */
static void f55_name_moves(void)
{
    char *name = row_name("moving"), *tar = row_tar("the first", NULL, NULL), *other = row_tar("the second", NULL, NULL);
    char *first = row_import(tar, name), *second;
    struct sandbox_spec *spec = row_spec();
    struct sandbox *sandbox;
    struct sandbox_info *info;

    row_need(sandbox_spec_set_image(spec, name, &error), &error, "set the image");
    sandbox = row_create(spec);
    second = row_import(other, name);
    unlink(tar);
    unlink(other);
    ROW_CHECK(strcmp(first, second) != 0, "two images have one digest");
    info = row_info(sandbox);
    ROW_CHECK(!strcmp(sandbox_info_get_image_digest(info), first), "the sandbox went with the name");
    sandbox_info_unref(info);
    row_refused(sandbox_image_remove(row_host(), first, &error), SANDBOX_EBUSY, &error, "remove an image in use");
    row_need(sandbox_stop(sandbox, 0, 60000, &error), &error, "stop");
    row_need(sandbox_start(sandbox, 60000, &error), &error, "start again");
    check_image(name, second);
    row_need(sandbox_delete(sandbox, 60000, &error), &error, "delete");
}

static void f52_digest(void)
{
    struct sandbox_image_import_options options = SANDBOX_IMAGE_IMPORT_OPTIONS_INIT;
    struct sandbox_image *image = NULL;
    char *tar = row_tar("not what was promised", NULL, NULL), *name = row_name("digest"), none[72];

    snprintf(none, sizeof none, "sha256:%064d", 7);
    options.name = name;
    options.digest = none;
    row_refused(sandbox_image_import(row_host(), tar, &options, 60000, &image, &error), SANDBOX_EDIGEST, &error,
                "another digest");
    row_refused(sandbox_image_open(row_host(), name, &image, &error), SANDBOX_ENOTFOUND, &error, "an image that was refused");
    unlink(tar);
}

/* A link that leads out, and a file below it: nothing is written where it leads. */
static void f51_escape(void)
{
    struct sandbox_image_import_options options = SANDBOX_IMAGE_IMPORT_OPTIONS_INIT;
    struct sandbox_image *image = NULL;
    const char *tmp = getenv("TMPDIR");
    char folder[300], planted[340], *tar;
    int r;

    snprintf(folder, sizeof folder, "%s/contract-outside-XXXXXX", tmp && *tmp ? tmp : "/tmp");
    ROW_CHECK(mkdtemp(folder) && chmod(folder, 0777) == 0, "no folder");
    tar = row_tar("a trap", "way-out", folder);
    r = sandbox_image_import(row_host(), tar, &options, 60000, &image, &error);
    unlink(tar);
    snprintf(planted, sizeof planted, "%s/planted", folder);
    ROW_CHECK(access(planted, F_OK) != 0, "a layer wrote outside of its root");
    rmdir(folder);
    ROW_CHECK(r == 0 || r == SANDBOX_EDAMAGED, "the import ends with %s", sandbox_code_name(r));
    error = sandbox_error_unref(error);
    if (r == 0)
        row_need(sandbox_image_remove(row_host(), sandbox_image_get_digest(image), &error), &error, "remove the image");
    sandbox_image_unref(image);
}

/* Two imports of one image at the same time, and two sandboxes of it. */
static void f56_two_at_once(void)
{
    struct sandbox_image_import_options options = SANDBOX_IMAGE_IMPORT_OPTIONS_INIT;
    struct sandbox_op *ops[2] = { NULL };
    struct sandbox_image *images[2] = { NULL };
    char *tar = row_tar("twice", NULL, NULL), *digest;
    int r[2];

    for (int i = 0; i < 2; i++)
        row_need(sandbox_image_import_begin(row_host(), tar, &options, &ops[i], &error), &error, "begin an import");
    for (int i = 0; i < 2; i++)
        do {
            r[i] = sandbox_op_wait(ops[i], 60000, &error);
            row_need(r[i], &error, "import");
        } while (r[i]);
    for (int i = 0; i < 2; i++) {
        row_need(sandbox_op_take_image(ops[i], &images[i], &error), &error, "take the image");
        sandbox_op_unref(ops[i]);
    }
    digest = strdup(sandbox_image_get_digest(images[0]));
    ROW_CHECK(digest && !strcmp(digest, sandbox_image_get_digest(images[1])), "one image has two digests");
    sandbox_image_unref(images[0]);
    sandbox_image_unref(images[1]);
    row_import(tar, NULL); /* the third is the same, and removed at the end */
    unlink(tar);
    check_image(digest, digest);
}

static const struct row rows[] = {
    { "b1_pinned", b1_pinned },           { "f51_escape", f51_escape },           { "f52_digest", f52_digest },
    { "f55_name_moves", f55_name_moves }, { "f56_two_at_once", f56_two_at_once },
};
const struct rows rows_image = { rows, sizeof rows / sizeof *rows };
