/* SPDX-License-Identifier: Apache-2.0
 * Names of secrets in host folders that are about to be mounted. By name alone: no file is opened, no link is followed. A name says
 * nothing certain; what it is good for is to notice a key or a token before a stranger's program can read it. */
#include "secrets.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <errors.h>
#include <fs.h>
#include <json.h>

#include "overlay-look.h"

enum { NAMES_MOST = 5000000, WAIT_MS = 20000, HIDDEN_MOST = 4096, NAMED = 5, FILE_MAX = 8 << 20 };

/* The last pattern that matches a name decides; '!' takes it out again, '/' at the end is for folders. */
static const char *const known[] = {
    ".env",          ".env.*",        "!.env.example", "!.env.sample",  "!.env.template", "!.env.dist",     "id_*",
    "!id_*.*",       "id_rsa*",       "id_dsa*",       "id_ecdsa*",     "id_ed25519*",    "*.pem",          "*.key",
    "*.p12",         "*.pfx",         "*.jks",         "*.keystore",    "*.kdbx",         "*.ovpn",         "!*.pub",
    "credentials",   "credentials.*", ".credentials*", ".git-credentials", ".netrc",      "_netrc",         ".npmrc",
    ".pypirc",       ".pgpass",       ".my.cnf",       ".htpasswd",     ".dockercfg",     ".vault-token",   "token",
    "tokens",        ".token",        "*.token",       "*_token",       "*-token",        "token.txt",      "token.json",
    "tokens.json",   "secrets.yml",   "secrets.yaml",  "secrets.json",  "service-account*.json", ".ssh/", ".gnupg/",
    ".aws/",         ".azure/",       ".kube/",        ".docker/",      ".password-store/",
};

static int write_words(char *const *patterns)
{
    SB_CLOSE int fd = memfd_create("patterns", MFD_CLOEXEC);
    int r = fd < 0 ? -errno : 0;

    for (size_t i = 0; i < SB_ELEMENTS(known) && !r; i++)
        r = sb_write_all(fd, known[i], strlen(known[i]) + 1);
    for (char *const *p = patterns; p && *p && !r; p++)
        r = sb_write_all(fd, *p, strlen(*p) + 1);
    if (!r && lseek(fd, 0, SEEK_SET) < 0)
        r = -errno;
    return r ? r : SB_TAKE_FD(fd);
}

int sb_engine_secrets_scan(struct sb_driver *driver, const char *folder, char *const *patterns, int64_t most, struct sb_op **ret_op,
                           struct sandbox_error **error)
{
    struct sb_look_job job = { .job = "scan", .place = -1, .lower = -1, .words = -1, .most = most ? most : NAMES_MOST };
    int r = 0;

    job.place = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    job.words = write_words(patterns);
    if (job.place < 0)
        r = sb_fail_errno(error, errno, "secrets", "the folder %s can't be read", folder);
    else if (job.words < 0)
        r = sb_fail_errno(error, -job.words, "secrets", "no memory for the patterns");
    if (!r)
        r = sb_look_begin((struct sb_engine *)driver, &job, ret_op, error);
    sb_close(job.place);
    sb_close(job.words);
    return r;
}

/* Waits for a scan's end; *ret_document is the caller's. */
static int finish(struct sb_op *op, json_t **ret_document, struct sandbox_error **error)
{
    int64_t until = sb_deadline(WAIT_MS);
    int r;

    while ((r = op->ops->step(op, error)) == 1)
        if (poll(&(struct pollfd){ .fd = op->fd, .events = POLLIN }, 1, sb_left_ms(until)) == 0) {
            op->ops->cancel(op);
            r = sb_fail(error, SB_ARGS(SANDBOX_ETIMEDOUT, .phase = "secrets", .hint = "mount less, or look for no secrets"),
                        "the folder's names could not be looked at within %d ms", WAIT_MS);
            break;
        }
    if (!r)
        *ret_document = SB_TAKE_PTR(op->document);
    op->ops->free(op);
    return r;
}

static int refuse(const struct sb_mount *m, const json_t *found, int truncated, struct sandbox_error **error)
{
    char names[1024] = "";
    size_t n = 0, count = json_array_size(found);

    for (size_t i = 0; i < count && i < NAMED; i++) {
        SB_FREE char *path = sb_json_get_bytes(json_object_get(json_array_get(found, i), "path"));

        for (char *p = path; p && *p; p++)
            if ((unsigned char)*p < 32 || (unsigned char)*p >= 127)
                *p = '?';
        n += (size_t)snprintf(names + n, sizeof names - n, "%s%.180s", i ? ", " : "", path ? path : "?");
    }
    if (!count)
        return sb_fail(error, SB_ARGS(SANDBOX_ELIMIT, .phase = "secrets", .field = "mounts", .hint = "mount less of it"),
                       "not all names in %s could be looked at", m->source);
    return sb_fail(error,
                   SB_ARGS(SANDBOX_EDENIED, .phase = "secrets", .field = "mounts",
                           .hint = "move them, hide them, or take their names out by a pattern with '!'"),
                   "%s has names of secrets in it: %s%s", m->source, names, count > NAMED || truncated ? ", …" : "");
}

static int scan_mount(struct sb_engine *engine, const struct sandbox_spec *spec, const struct sb_mount *m, json_t *all,
                      struct sandbox_error **error)
{
    SB_JSON json_t *document = NULL;
    json_t *found, *entry;
    struct sb_op *op;
    struct stat st;
    int truncated, r;
    size_t i;

    if ((m->type != SANDBOX_MOUNT_BIND && m->type != SANDBOX_MOUNT_OVERLAY) || stat(m->source, &st) < 0 || !S_ISDIR(st.st_mode))
        return 0; /* a file is mounted by name: that was meant */
    r = sb_engine_secrets_scan(&engine->driver, m->source, spec->secret_patterns, 0, &op, error);
    if (!r)
        r = finish(op, &document, error);
    if (r)
        return r;
    found = json_object_get(document, "entries");
    truncated = json_is_true(json_object_get(document, "truncated"));
    if (spec->secrets == SANDBOX_SECRETS_REFUSE && (truncated || json_array_size(found)))
        return refuse(m, found, truncated, error);
    if (spec->secrets == SANDBOX_SECRETS_HIDE && (truncated || json_array_size(found) + json_array_size(all) > HIDDEN_MOST))
        return sb_fail(error, SB_ARGS(SANDBOX_ELIMIT, .phase = "secrets", .field = "mounts", .hint = "mount less of it"),
                       "there are more names in %s than can be looked at, or more than %d to hide", m->source, HIDDEN_MOST);
    json_array_foreach(found, i, entry)
    {
        if (json_array_size(all) >= HIDDEN_MOST)
            break;
        json_array_append_new(all, json_pack("{s:o, s:O, s:O}", "target", sb_json_bytes(m->target), "path", json_object_get(entry, "path"),
                                             "type", json_object_get(entry, "type")));
    }
    return 0;
}

int sb_secrets_check(struct sb_engine *engine, const struct sb_record *record, struct sandbox_error **error)
{
    const struct sandbox_spec *spec = record->spec;
    SB_JSON json_t *all = NULL;
    SB_FREE char *text = NULL;
    int r = 0;

    if (spec->secrets == SANDBOX_SECRETS_IGNORE)
        return 0;
    all = json_array();
    for (size_t i = 0; i < spec->n_mounts && !r && all; i++)
        r = scan_mount(engine, spec, &spec->mounts[i], all, error);
    if (r)
        return r;
    text = all ? sb_json_dump(all) : NULL;
    r = text ? sb_write_file(record->dir, "secrets", text, strlen(text), 0) : -ENOMEM;
    return r ? sb_fail_errno(error, -r, "secrets", "what was found can't be written down") : 0;
}

json_t *sb_secrets_found(const struct sb_record *record)
{
    SB_FREE char *text = NULL;
    json_t *found = NULL;
    size_t size;

    if (record->spec->secrets == SANDBOX_SECRETS_IGNORE || sb_read_file(record->dir, "secrets", FILE_MAX, &text, &size) ||
        sb_json_parse(text, size, "secrets", &found, NULL))
        return json_array();
    return found;
}
