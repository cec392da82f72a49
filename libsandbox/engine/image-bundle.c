/* SPDX-License-Identifier: Apache-2.0
 * See image-bundle.h. In a folder nothing is followed: a link there could make any file of the user's be read as a blob. */
#include "image-bundle.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <errors.h>
#include <fs.h>
#include <util.h>

static int missing(const char *name, struct sandbox_error **error)
{
    return sb_fail(error, SB_ARGS(SANDBOX_ENOTFOUND, .field = "source", .phase = "manifest"), "the image's file '%s' is missing", name);
}

static int open_in_folder(const struct sb_bundle *bundle, const char *name, struct sb_window *ret, struct sandbox_error **error)
{
    SB_CLOSE int fd = sb_open_beneath(bundle->fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY, 0);
    struct stat st;

    if (fd == -ENOENT)
        return missing(name, error);
    if (fd == -ELOOP)
        return sb_fail(error, SB_ARGS(SANDBOX_EDAMAGED, .phase = "manifest", .hint = "copy the image so that it has no symbolic links"),
                       "the image's file '%s' is, or lies behind, a symbolic link", name);
    if (fd < 0)
        return sb_fail_errno(error, -fd, "manifest", "opening the image's file '%s'", name);
    if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
        return sb_fail(error, SB_ARGS(SANDBOX_EDAMAGED, .phase = "manifest"), "the image's file '%s' is no regular file", name);
    *ret = (struct sb_window){ SB_TAKE_FD(fd), 0, st.st_size };
    return 0;
}

/* A link's target as a name from the root; NULL when it leaves it. */
static char *resolve_link(const char *name, const char *link)
{
    const char *slash = strrchr(name, '/');
    char *path = NULL, *out, *save = NULL;
    int n = link[0] == '/' ? asprintf(&path, "%s", link) : asprintf(&path, "%.*s/%s", slash ? (int)(slash - name) : 0, name, link);
    SB_FREE char *copy = n < 0 ? NULL : path;

    out = copy ? calloc(1, strlen(copy) + 2) : NULL;
    for (char *part = out ? strtok_r(copy, "/", &save) : NULL; part; part = strtok_r(NULL, "/", &save)) {
        if (!strcmp(part, "."))
            continue;
        if (!strcmp(part, "..")) {
            char *last = strrchr(out, '/');

            if (!out[0]) {
                free(out);
                return NULL;
            }
            out[last ? last - out : 0] = 0;
            continue;
        }
        snprintf(out + strlen(out), strlen(copy) + 2 - strlen(out), "%s%s", out[0] ? "/" : "", part);
    }
    return out;
}

static int find_member(const struct sb_bundle *bundle, const char *name, const struct sb_member **ret, struct sandbox_error **error)
{
    const struct sb_member *found = NULL;

    for (size_t i = 0; i < bundle->n_members; i++) {
        if (strcmp(bundle->members[i].name, name))
            continue;
        if (found)
            return sb_fail(error, SB_ARGS(SANDBOX_EDAMAGED, .phase = "manifest"), "the archive has '%s' twice", name);
        found = &bundle->members[i];
    }
    *ret = found;
    return found ? 0 : missing(name, error);
}

static int open_in_tar(const struct sb_bundle *bundle, const char *name, struct sb_window *ret, struct sandbox_error **error)
{
    SB_FREE char *at = strdup(name);
    const struct sb_member *member = NULL;

    for (int links = 0; at; links++) { /* docker save links equal layers */
        char *next;
        int r = find_member(bundle, at, &member, error);

        if (r)
            return r;
        if (!member->link)
            break;
        next = links < 8 ? resolve_link(member->name, member->link) : NULL;
        free(at);
        at = next;
        if (!at)
            return sb_fail(error, SB_ARGS(SANDBOX_EDAMAGED, .phase = "manifest"), "the archive's '%s' is a link that leads nowhere", name);
    }
    if (!at)
        return sb_fail(error, SB_ARGS(SANDBOX_ENOMEM, .retryable = 1), "opening the archive's '%s': out of memory", name);
    if (member->length > bundle->size || member->offset > bundle->size - member->length)
        return sb_fail(error, SB_ARGS(SANDBOX_EDAMAGED, .phase = "manifest"), "the archive ends within '%s'", name);
    ret->fd = fcntl(bundle->fd, F_DUPFD_CLOEXEC, 0);
    if (ret->fd < 0)
        return sb_fail_errno(error, errno, "manifest", "opening the archive's '%s'", name);
    ret->offset = member->offset;
    ret->length = member->length;
    return 0;
}

int sb_bundle_has(const struct sb_bundle *bundle, const char *name)
{
    struct stat st;

    if (bundle->is_folder)
        return fstatat(bundle->fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode);
    for (size_t i = 0; i < bundle->n_members; i++)
        if (!strcmp(bundle->members[i].name, name))
            return 1;
    return 0;
}

int sb_bundle_open(const struct sb_bundle *bundle, const char *name, struct sb_window *ret, struct sandbox_error **error)
{
    return bundle->is_folder ? open_in_folder(bundle, name, ret, error) : open_in_tar(bundle, name, ret, error);
}

int sb_bundle_open_blob(const struct sb_bundle *bundle, const char *digest, int64_t size, struct sb_window *ret, struct sandbox_error **error)
{
    struct sb_window window;
    char name[96];
    int r;

    snprintf(name, sizeof name, "blobs/sha256/%s", digest + strlen("sha256:"));
    r = sb_bundle_open(bundle, name, &window, error);
    if (r)
        return r;
    if (size >= 0 && window.length != size) {
        sb_close(window.fd);
        return sb_fail(error, SB_ARGS(SANDBOX_EDIGEST, .phase = "manifest"), "the blob %s has %lld bytes, and its descriptor promises %lld", digest,
                       (long long)window.length, (long long)size);
    }
    *ret = window;
    return 0;
}

void sb_bundle_clear(struct sb_bundle *bundle)
{
    for (size_t i = 0; i < bundle->n_members; i++) {
        free(bundle->members[i].name);
        free(bundle->members[i].link);
    }
    free(bundle->members);
    sb_close(bundle->fd);
    *bundle = (struct sb_bundle)SB_BUNDLE_INIT;
}
