/* SPDX-License-Identifier: Apache-2.0
 * Image "host": the machine's own programs without the machine's secrets. /usr and what belongs to it is mounted read-only, nosuid
 * and nodev as it is; everything else comes from a small layer made here (the skeleton): empty folders, an /etc of what programs
 * need and everybody may read, and accounts of its own. The layer's name is a digest of what it was made from, so that a machine
 * that changes gets a new one. /root, /home, /run, /var and /srv are empty in it. */
#include "engine.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <errors.h>
#include <fs.h>

enum { FILE_MAX = 4 << 20, DEPTH_MAX = 4, VERSION = 1 };

/* Public configuration: no entry here may hold a secret on a well-kept machine, and only what others may read is copied anyway. */
static const char *const etc[] = {
    "alternatives",
    "bash.bashrc",
    "ca-certificates",
    "ca-certificates.conf",
    "debian_version",
    "fonts",
    "gai.conf",
    "inputrc",
    "java-11-openjdk",
    "java-17-openjdk",
    "java-21-openjdk",
    "ld.so.cache",
    "ld.so.conf",
    "ld.so.conf.d",
    "locale.alias",
    "localtime",
    "lsb-release",
    "magic",
    "mailcap",
    "mime.types",
    "os-release",
    "perl",
    "pki",
    "profile",
    "protocols",
    "python3",
    "python3.11",
    "python3.12",
    "python3.13",
    "rpc",
    "services",
    "terminfo",
    "timezone",
    "xattr.conf",
};
static const char *const ssl[] = { "certs", "openssl.cnf" };
/* Looked at besides the entries themselves: a folder tells what was added and removed right in it, these files what is trusted. */
static const char *const watched[] = {
    "ssl/certs",
    "ssl/certs/ca-certificates.crt",
    "ssl/openssl.cnf",
    "pki/tls/certs/ca-bundle.crt",
    "pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
};

static const struct {
    const char *path;
    mode_t mode;
} folders[] = {
    { "dev", 0755 },  { "etc", 0755 },  { "etc/ssl", 0755 },  { "home", 0755 },    { "mnt", 0755 },       { "opt", 0755 },
    { "proc", 0555 }, { "root", 0700 }, { "run", 0755 },      { "srv", 0755 },     { "sys", 0555 },       { "tmp", 01777 },
    { "usr", 0755 },  { "var", 0755 },  { "var/tmp", 01777 }, { "var/lib", 0755 }, { "var/cache", 0755 },
};

static const struct {
    const char *path, *text;
} files[] = {
    { "etc/passwd",
      "root:x:0:0:root:/root:/bin/sh\ndaemon:x:1:1:daemon:/usr/sbin:/usr/sbin/nologin\nuser:x:1000:1000:user:/home:/bin/sh\n"
      "nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n" },
    { "etc/group", "root:x:0:\ndaemon:x:1:\ntty:x:5:\nusers:x:100:\nuser:x:1000:\nnogroup:x:65534:\n" },
    { "etc/hosts", "127.0.0.1 localhost\n::1 localhost ip6-localhost ip6-loopback\n" },
    { "etc/nsswitch.conf", "passwd: files\ngroup: files\nhosts: files dns\nservices: files\nprotocols: files\n" },
    { "etc/resolv.conf", "" },
};

/* Folders of the root that hold programs: links into /usr on a merged machine (copied as links), else mounted. */
static const char *const program_folders[] = { "bin", "sbin", "lib", "lib32", "lib64", "libx32" };

static void mix(uint64_t *hash, const void *data, size_t size)
{
    for (size_t i = 0; i < size; i++)
        *hash = (*hash ^ ((const unsigned char *)data)[i]) * 0x100000001b3u;
}

static void mix_file(uint64_t *hash, int dir, const char *name)
{
    struct stat st;

    mix(hash, name, strlen(name) + 1);
    if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return;
    mix(hash, &st.st_mtim, sizeof st.st_mtim);
    mix(hash, &st.st_ctim, sizeof st.st_ctim);
    mix(hash, &st.st_size, sizeof st.st_size);
    mix(hash, &st.st_ino, sizeof st.st_ino);
}

static int copy_file(int from, int to, const char *name, const struct stat *st)
{
    SB_FREE char *text = NULL;
    SB_CLOSE int fd = -1;
    size_t size;
    int r;

    if (!(st->st_mode & 0004) || st->st_size > FILE_MAX) /* what others can't read is not public */
        return 0;
    if (sb_read_file(from, name, FILE_MAX, &text, &size))
        return 0;
    fd = openat(to, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0)
        return -errno;
    r = sb_write_all(fd, text, size);
    if (!r && fchmod(fd, st->st_mode & 0755) < 0)
        r = -errno;
    return r;
}

static int copy_link(int from, int to, const char *name)
{
    char target[4096];
    ssize_t n = readlinkat(from, name, target, sizeof target - 1);

    if (n < 0)
        return 0;
    target[n] = 0;
    return symlinkat(target, to, name) < 0 ? -errno : 0; /* it resolves inside, whatever it names */
}

static int copy_entry(int from, int to, const char *name, int depth);

static int copy_folder(int from, int to, const char *name, int depth)
{
    int source = openat(from, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC), r = 0;
    SB_CLOSE int target = -1;
    struct dirent *d;
    DIR *stream;

    if (source < 0)
        return 0;
    stream = fdopendir(source);
    if (!stream) {
        sb_close(source);
        return -ENOMEM;
    }
    if (mkdirat(to, name, 0755) < 0)
        r = -errno;
    target = openat(to, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (!r && (target < 0 || fchmod(target, 0755) < 0))
        r = -errno;
    while (!r && (d = readdir(stream)))
        if (strcmp(d->d_name, ".") && strcmp(d->d_name, ".."))
            r = copy_entry(source, target, d->d_name, depth + 1);
    closedir(stream);
    return r;
}

static int copy_entry(int from, int to, const char *name, int depth)
{
    struct stat st;

    if (fstatat(from, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return 0;
    if (S_ISREG(st.st_mode))
        return copy_file(from, to, name, &st);
    if (S_ISLNK(st.st_mode))
        return copy_link(from, to, name);
    if (S_ISDIR(st.st_mode) && depth < DEPTH_MAX && (st.st_mode & 0005) == 0005)
        return copy_folder(from, to, name, depth);
    return 0;
}

static int is_link(const char *name)
{
    char path[32];
    struct stat st;

    snprintf(path, sizeof path, "/%s", name);
    return lstat(path, &st) == 0 && S_ISLNK(st.st_mode);
}

static int is_folder(const char *name)
{
    char path[32];
    struct stat st;

    snprintf(path, sizeof path, "/%s", name);
    return lstat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

static int fill(int layer, int real_etc)
{
    SB_CLOSE int slash = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC), etc_fd = -1, ssl_from = -1, ssl_to = -1;
    int r = slash < 0 ? -errno : 0;

    for (size_t i = 0; i < SB_ELEMENTS(folders) && !r; i++)
        if (mkdirat(layer, folders[i].path, folders[i].mode) < 0 || fchmodat(layer, folders[i].path, folders[i].mode, 0) < 0)
            r = -errno;
    for (size_t i = 0; i < SB_ELEMENTS(program_folders) && !r; i++)
        if (is_link(program_folders[i]))
            r = copy_link(slash, layer, program_folders[i]);
        else if (is_folder(program_folders[i]) && mkdirat(layer, program_folders[i], 0755) < 0)
            r = -errno;
    for (size_t i = 0; i < SB_ELEMENTS(files) && !r; i++) {
        SB_CLOSE int fd = openat(layer, files[i].path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

        r = fd < 0 ? -errno : sb_write_all(fd, files[i].text, strlen(files[i].text));
        if (!r && fchmod(fd, 0644) < 0)
            r = -errno;
    }
    if (r || real_etc < 0)
        return r;
    etc_fd = openat(layer, "etc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    ssl_from = openat(real_etc, "ssl", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    ssl_to = openat(layer, "etc/ssl", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (etc_fd < 0 || ssl_to < 0)
        return -errno;
    for (size_t i = 0; i < SB_ELEMENTS(etc) && !r; i++)
        r = copy_entry(real_etc, etc_fd, etc[i], 0);
    for (size_t i = 0; i < SB_ELEMENTS(ssl) && !r && ssl_from >= 0; i++)
        r = copy_entry(ssl_from, ssl_to, ssl[i], 0);
    return r;
}

int sb_hostimage_layer(struct sb_engine *engine, char **ret_layer, struct sandbox_error **error)
{
    SB_CLOSE int skeletons = sb_open_dir(engine->root, "skeletons", 0700),
                 real_etc = open("/etc", O_RDONLY | O_DIRECTORY | O_CLOEXEC), fd = -1;
    uint64_t hash = 0xcbf29ce484222325u, version = VERSION;
    char name[32], temporary[SB_ID_SIZE + 8], *layer;
    int r;

    if (skeletons < 0)
        return sb_fail_errno(error, -skeletons, "image", "skeletons/ can't be opened in the state root");
    mix(&hash, &version, sizeof version);
    for (size_t i = 0; i < SB_ELEMENTS(files); i++) /* of another version of the library they may be others */
        mix(&hash, files[i].text, strlen(files[i].text));
    for (size_t i = 0; i < SB_ELEMENTS(etc) && real_etc >= 0; i++)
        mix_file(&hash, real_etc, etc[i]);
    for (size_t i = 0; i < SB_ELEMENTS(watched) && real_etc >= 0; i++)
        mix_file(&hash, real_etc, watched[i]);
    for (size_t i = 0; i < SB_ELEMENTS(program_folders); i++)
        mix(&hash, is_link(program_folders[i]) ? "l" : "d", 1);
    snprintf(name, sizeof name, "%016llx", (unsigned long long)hash);
    if (asprintf(&layer, "skeletons/%s", name) < 0)
        return sb_fail(error, SB_ARGS(SANDBOX_ENOMEM, .sys_errno = ENOMEM), "out of memory");
    if (faccessat(skeletons, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0) {
        *ret_layer = layer;
        return 0;
    }
    /* several may do this at once: each under a name of its own, the first rename wins */
    r = sb_id_new(temporary + 4);
    memcpy(temporary, "tmp-", 4);
    if (!r)
        r = sb_owner_enter(engine, temporary + 4); /* if we die here, the next open removes it */
    if (!r && mkdirat(skeletons, temporary, 0755) < 0)
        r = -errno;
    fd = openat(skeletons, temporary, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (!r && (fd < 0 || fchmod(fd, 0755) < 0))
        r = -errno;
    if (!r)
        r = fill(fd, real_etc);
    if (!r && renameat(skeletons, temporary, skeletons, name) < 0 && errno != EEXIST && errno != ENOTEMPTY)
        r = -errno;
    sb_remove_tree(skeletons, temporary);
    sb_owner_leave(engine, &engine->self, temporary + 4);
    if (r) {
        free(layer);
        return sb_fail_errno(error, -r, "image", "the layer of image host can't be made");
    }
    *ret_layer = layer;
    return 0;
}

int sb_hostimage_mounts(int (*add)(void *data, const char *path), void *data)
{
    int r = is_folder("usr") ? add(data, "/usr") : 0;

    for (size_t i = 0; i < SB_ELEMENTS(program_folders) && !r; i++) {
        char path[32];

        snprintf(path, sizeof path, "/%s", program_folders[i]);
        if (is_folder(program_folders[i]))
            r = add(data, path);
    }
    return r;
}
