/* SPDX-License-Identifier: Apache-2.0
 * A tar into a folder. What was unpacked is removed after each sample, which is not counted.
 *   upload tar TAR FOLDER             `tar -x` of it, with the file as stdin, in a new folder of that name
 *   upload sandbox ROOT IMAGE TAR     sandbox_upload from the file's descriptor into a sandbox that runs */
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "host.h"
#include "sample.h"

struct upload {
    struct sandbox *sandbox;
    char *tar, *folder;
};

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st;
    (void)type;
    (void)ftw;
    return remove(path);
}

static int64_t once_tar(void *data)
{
    struct upload *u = data;
    char *argv[] = { (char *)"tar", (char *)"-xf", u->tar, (char *)"-C", u->folder, NULL };
    int64_t begin = bench_now_ns(), took;
    int status;

    if (mkdir(u->folder, 0700) < 0)
        bench_fail("%s: %s", u->folder, strerror(errno));
    status = bench_reap(bench_spawn(argv, -1));
    took = bench_now_ns() - begin;
    if (status)
        bench_fail("tar: status 0x%x", (unsigned int)status);
    if (nftw(u->folder, remove_one, 16, FTW_DEPTH | FTW_PHYS) < 0)
        bench_fail("removing %s: %s", u->folder, strerror(errno));
    return took;
}

static int64_t once_sandbox(void *data)
{
    struct sandbox_upload_options options = SANDBOX_UPLOAD_OPTIONS_INIT;
    struct upload *u = data;
    struct sandbox_error *error = NULL;
    int64_t begin = bench_now_ns(), took;

    options.format = SANDBOX_STREAM_TAR;
    options.source_fd = open(u->tar, O_RDONLY | O_CLOEXEC);
    bench_check(sandbox_upload(u->sandbox, NULL, "/root/upload", &options, 600000, &error), &error, "upload");
    took = bench_now_ns() - begin;
    close(options.source_fd);
    bench_check(sandbox_file_remove(u->sandbox, "/root/upload", SANDBOX_FILE_RECURSIVE, 600000, &error), &error, "remove");
    return took;
}

int main(int argc, char **argv)
{
    struct upload u = { 0 };
    struct sandbox_host *host;
    struct sandbox_spec *spec;

    if (argc == 4 && !strcmp(argv[1], "tar")) {
        u.tar = argv[2];
        u.folder = argv[3];
        bench_serve(once_tar, &u);
        return 0;
    }
    if (argc != 5 || strcmp(argv[1], "sandbox"))
        bench_fail("usage: upload tar TAR FOLDER | sandbox ROOT IMAGE TAR");
    host = bench_open_host(argv[2]);
    spec = bench_new_spec(argv[3]);
    u.tar = argv[4];
    u.sandbox = bench_start_sandbox(host, spec);
    bench_serve(once_sandbox, &u);
    bench_delete_sandbox(u.sandbox);
    sandbox_spec_unref(spec);
    sandbox_host_unref(host);
    return 0;
}
