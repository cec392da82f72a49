/* SPDX-License-Identifier: Apache-2.0
 * Opening a host.
 *   open ROOT           open and close, in a program that did it before
 *   open once ROOT      opens, closes and ends: for `spawn`, which then measures a program's whole life
 *   open import ROOT IMAGE FOLDER   no figure: imports a rootfs folder as an image for the other programs */
#include <stdio.h>
#include <string.h>

#include "host.h"
#include "sample.h"

static int64_t once(void *data)
{
    int64_t begin = bench_now_ns(), opened;
    struct sandbox_host *host = bench_open_host(data);

    opened = bench_now_ns();
    sandbox_host_unref(host);
    bench_part("close", bench_now_ns() - opened);
    return opened - begin;
}

static int import(const char *root, const char *name, const char *folder)
{
    struct sandbox_image_import_options options = SANDBOX_IMAGE_IMPORT_OPTIONS_INIT;
    struct sandbox_host *host = bench_open_host(root);
    struct sandbox_image *image = NULL;
    struct sandbox_error *error = NULL;

    options.name = name;
    options.format = SANDBOX_IMAGE_FORMAT_ROOTFS_FOLDER;
    bench_check(sandbox_image_import(host, folder, &options, 60000, &image, &error), &error, "import");
    puts(sandbox_image_get_digest(image));
    sandbox_image_unref(image);
    sandbox_host_unref(host);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc == 5 && !strcmp(argv[1], "import"))
        return import(argv[2], argv[3], argv[4]);
    if (argc == 3 && !strcmp(argv[1], "once")) {
        once(argv[2]);
        return 0;
    }
    if (argc != 2)
        bench_fail("usage: open ROOT | once ROOT | import ROOT IMAGE FOLDER");
    bench_serve(once, argv[1]);
    return 0;
}
