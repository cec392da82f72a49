/* SPDX-License-Identifier: Apache-2.0
 * Files of a sandbox, seen from outside: every look and every change is made inside, by a child of the sandbox's init that does one
 * request (agent/files.c). Here its answers are read. They come from a program of ours, and yet from within: types, sizes and values are
 * checked before anything is believed, and texts are made harmless before they are shown. */
#include "files.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <errors.h>
#include <fs.h>

_Static_assert((int)SANDBOX_FILE_FOLLOW == SB_FILES_FOLLOW && (int)SANDBOX_FILE_APPEND == SB_FILES_APPEND &&
                   (int)SANDBOX_FILE_EXCLUSIVE == SB_FILES_EXCLUSIVE && (int)SANDBOX_FILE_PARENTS == SB_FILES_PARENTS &&
                   (int)SANDBOX_FILE_RECURSIVE == SB_FILES_RECURSIVE,
               "flags go inside as they are");

/* ---- the conversation */

int sb_files_open(struct sb_engine *engine, const char *id, struct sb_files_request *q, const char *path, const char *other, int data,
                  struct sb_files *files, struct sandbox_error **error)
{
    struct {
        struct sb_files_request q;
        char strings[2 * SB_FILES_PATH_MAX];
    } blob;
    struct sb_request request = { .type = SB_REQUEST_FILES };
    size_t path_size = strlen(path) + 1, other_size = other ? strlen(other) + 1 : 1;
    int pair[2], fds[2], r;

    *files = (struct sb_files)SB_FILES_INIT;
    if (path_size > SB_FILES_PATH_MAX || other_size > SB_FILES_PATH_MAX)
        return sb_fail(error, SB_ARGS(SANDBOX_EINVALID, .field = "path"), "the path is longer than %d bytes", SB_FILES_PATH_MAX - 1);
    q->magic = SB_FILES_MAGIC;
    q->path_size = (uint32_t)path_size;
    q->other_size = (uint32_t)other_size;
    blob.q = *q;
    memcpy(blob.strings, path, path_size);
    memcpy(blob.strings + path_size, other ? other : "", other_size);
    request.blob_size = (uint32_t)(sizeof blob.q + path_size + other_size);
    r = sb_link_open(engine, id, &files->link, error);
    if (r)
        return r;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0) {
        r = sb_fail_errno(error, errno, "files", "no socket");
        sb_files_close(files);
        return r;
    }
    files->channel = pair[0];
    fds[0] = pair[1];
    fds[1] = data;
    r = sb_link_send(files->link, &request, (const char *)&blob, fds, data < 0 ? 1 : 2, error);
    sb_close(pair[1]);
    if (r)
        sb_files_close(files);
    return r;
}

void sb_files_close(struct sb_files *files)
{
    files->link = sb_close(files->link);
    files->channel = sb_close(files->channel);
}

static int broken(struct sandbox_error **error)
{
    return sb_fail(error, SB_ARGS(SANDBOX_EPROTOCOL, .phase = "files"), "the sandbox's file server sent a record that makes no sense");
}

/* Names are in it, which somebody inside chose: nothing of them may work on a terminal or break a line. */
static void make_harmless(char *text, size_t size)
{
    text[size - 1] = 0;
    for (char *p = text; *p; p++)
        if ((unsigned char)*p < 0x20 || *p == 0x7f)
            *p = '?';
    if (!sb_utf8_valid(text, strlen(text)))
        for (char *p = text; *p; p++)
            if ((unsigned char)*p >= 0x80)
                *p = '?';
}

static int take_done(struct sb_files_done *done, struct sandbox_error **error)
{
    if (done->code > 0 || done->code < SANDBOX_EPAUSED || done->bytes < 0 || done->entries < 0 || done->sys_errno < 0 ||
        done->sys_errno > 4095)
        return broken(error);
    if (!done->code)
        return 0;
    make_harmless(done->message, sizeof done->message);
    make_harmless(done->hint, sizeof done->hint);
    return sb_fail(error,
                   SB_ARGS(done->code, .sys_errno = done->sys_errno, .phase = "files", .hint = done->hint,
                           .field = done->code == SANDBOX_EPROTOCOL || done->code == SANDBOX_ENOMEM || done->code == SANDBOX_EIO ? "" : "path"),
                   "%s", done->message);
}

static int check_record(struct sb_files *files, size_t size, struct sandbox_error **error)
{
    const struct sb_files_head *head = &files->record.head;

    if (size < sizeof *head || head->size != size)
        return broken(error);
    switch (head->type) {
    case SB_FILES_INFO:
        return size < sizeof files->record.info || size - sizeof files->record.info >= SB_FILES_PATH_MAX ? broken(error) : 0;
    case SB_FILES_DATA:
        return size <= sizeof files->record.data || size - sizeof files->record.data > SB_FILES_CHUNK ? broken(error) : 0;
    case SB_FILES_ENTRIES:
        return size <= sizeof files->record.entries || !files->record.entries.n ? broken(error) : 0;
    case SB_FILES_PROGRESS:
        return size != sizeof files->record.progress || files->record.progress.bytes < 0 || files->record.progress.entries < 0
                   ? broken(error)
                   : 0;
    case SB_FILES_DONE:
        return size != sizeof files->record.done ? broken(error) : take_done(&files->record.done, error);
    default:
        return broken(error);
    }
}

/* What init has to say: 1, or why there is no server. */
static int look_at_init(struct sb_files *files, struct sandbox_error **error)
{
    struct sb_reply reply;
    ssize_t n = sb_recv(files->link, &reply, sizeof reply, MSG_DONTWAIT);

    if (n < 0 && errno == EAGAIN)
        return 1;
    if (n != (ssize_t)sizeof reply)
        return sb_fail(error, SB_ARGS(SANDBOX_ELOST, .sys_errno = n < 0 ? errno : 0, .phase = "files"), "the sandbox ended");
    if (reply.type == SB_REPLY_FAILED && reply.step == SB_STEP_BUSY)
        return sb_fail(error, SB_ARGS(SANDBOX_ELIMIT, .sys_errno = reply.sys_errno, .phase = "files", .retryable = 1),
                       "this sandbox's files are worked on by %d calls: no more", SB_FILES_MAX);
    if (reply.type == SB_REPLY_FAILED)
        return sb_link_start_error(&reply, "the file server", "", "", error);
    if (reply.type != SB_REPLY_EXITED)
        return sb_fail(error, SB_ARGS(SANDBOX_EPROTOCOL, .phase = "files"), "the sandbox's init gave a wrong answer");
    files->ended = 1;
    return 1;
}

int sb_files_next(struct sb_files *files, struct sandbox_error **error)
{
    int was_ended = files->ended, r;
    ssize_t n = sb_recv(files->channel, &files->record, sizeof files->record, MSG_DONTWAIT | MSG_TRUNC);

    if (n > (ssize_t)sizeof files->record)
        return broken(error);
    if (n == 0)
        files->silent = 1; /* it stays readable: only init's word is waited for now */
    if (n > 0)
        return check_record(files, (size_t)n, error);
    if (n < 0 && errno != EAGAIN && errno != ECONNRESET)
        return sb_fail_errno(error, errno, "files", "the sandbox's file server can't be heard");
    if (was_ended)
        return sb_fail(error, SB_ARGS(SANDBOX_EIO, .phase = "files", .retryable = 1, .hint = "was it short of memory? its daemon can kill it, too"),
                       "the sandbox's file server was killed");
    r = look_at_init(files, error);
    if (r != 1 || files->ended)
        return r < 0 ? r : sb_files_next(files, error); /* what it said last may be there now */
    return 1;
}

int sb_files_await(struct sb_files *files, struct sb_engine *engine, int64_t deadline, struct sandbox_error **error)
{
    for (;;) {
        int r = sb_files_next(files, error);
        struct pollfd p[] = { { .fd = files->silent ? -1 : files->channel, .events = POLLIN },
                              { .fd = files->link, .events = POLLIN },
                              { .fd = engine->driver.close_fd ? engine->driver.close_fd : -1, .events = POLLIN } };

        if (r != 1)
            return r;
        if (SB_RETRY(poll(p, 3, sb_left_ms(deadline))) == 0)
            return sb_fail(error, SB_ARGS(SANDBOX_ETIMEDOUT, .sys_errno = ETIMEDOUT, .phase = "files", .field = "path"),
                           "the file system did not answer in time");
        if (p[2].revents)
            return sb_fail(error, SB_ARGS(SANDBOX_ECLOSED, .phase = "files"), "the host handle was closed");
    }
}

int sb_files_take_stat(const struct sb_files_stat *stat, struct sandbox_file_info *ret, struct sandbox_error **error)
{
    if (stat->type < SANDBOX_FILE_REGULAR || stat->type > SANDBOX_FILE_DEVICE || stat->mode > 07777 || stat->uid < 0 || stat->gid < 0 ||
        stat->uid > UINT32_MAX || stat->gid > UINT32_MAX || stat->bytes < 0)
        return broken(error);
    *ret = (struct sandbox_file_info){ sizeof *ret, (int)stat->type, (int)stat->mode, stat->uid, stat->gid, stat->bytes, stat->mtime_ns };
    return 0;
}

/* ---- quick calls */

static int take_info(const struct sb_files *files, struct sb_file_answer *answer, struct sandbox_error **error)
{
    size_t length = files->record.info.head.size - sizeof files->record.info;
    const char *target = files->record.bytes + sizeof files->record.info;
    int r = sb_files_take_stat(&files->record.info.stat, &answer->info, error);

    if (r || answer->data)
        return r ? r : broken(error);
    if (answer->info.type != SANDBOX_FILE_LINK)
        return length ? broken(error) : 0;
    if (!length || memchr(target, 0, length))
        return broken(error);
    answer->data = strndup(target, length);
    answer->size = length;
    return answer->data ? 0 : sb_fail(error, SB_ARGS(SANDBOX_ENOMEM, .retryable = 1), "out of memory");
}

static int take_data(const struct sb_files *files, size_t most, size_t *room, struct sb_file_answer *answer, struct sandbox_error **error)
{
    size_t n = files->record.data.head.size - sizeof files->record.data;

    if (n > most - answer->size)
        return broken(error);
    if (answer->size + n + 1 > *room) {
        size_t want = (answer->size + n) * 2 + 1;
        char *more = realloc(answer->data, want > most && most < SIZE_MAX ? most + 1 : want);

        if (!more)
            return sb_fail(error, SB_ARGS(SANDBOX_ENOMEM, .retryable = 1), "out of memory");
        answer->data = more;
        *room = want > most && most < SIZE_MAX ? most + 1 : want;
    }
    memcpy(answer->data + answer->size, files->record.bytes + sizeof files->record.data, n);
    answer->size += n;
    answer->data[answer->size] = 0;
    return 0;
}

static int converse(struct sb_engine *engine, struct sb_files *files, const struct sb_file_call *call, struct sb_file_answer *answer,
                    struct sandbox_error **error)
{
    int64_t deadline = sb_deadline(call->timeout_ms);
    size_t room = 0;
    int told = 0, r;

    for (;;) {
        r = sb_files_await(files, engine, deadline, error);
        if (r)
            return r;
        switch (files->record.head.type) {
        case SB_FILES_INFO:
            r = call->op == SB_FILE_STAT ? take_info(files, answer, error) : broken(error);
            told = 1;
            break;
        case SB_FILES_DATA:
            r = call->op == SB_FILE_READ ? take_data(files, call->size, &room, answer, error) : broken(error);
            break;
        case SB_FILES_PROGRESS:
            break;
        case SB_FILES_DONE:
            if (call->op == SB_FILE_STAT && !told)
                return broken(error);
            if (call->op == SB_FILE_READ && !answer->data && !(answer->data = calloc(1, 1)))
                return sb_fail(error, SB_ARGS(SANDBOX_ENOMEM, .retryable = 1), "out of memory");
            return 0;
        default:
            r = broken(error);
        }
        if (r)
            return r;
    }
}

static int data_memfd(const struct sb_file_call *call, int *ret_fd, struct sandbox_error **error)
{
    SB_CLOSE int fd = memfd_create("content", MFD_CLOEXEC);
    int r = fd < 0 ? -errno : sb_write_all(fd, call->data, call->size);

    if (!r && lseek(fd, 0, SEEK_SET) < 0)
        r = -errno;
    if (r)
        return sb_fail_errno(error, -r, "files", "the content can't be passed");
    *ret_fd = SB_TAKE_FD(fd);
    return 0;
}

int sb_engine_file(struct sb_driver *driver, const char *id, const struct sb_file_call *call, struct sb_file_answer *ret_answer,
                   struct sandbox_error **error)
{
    static const enum sb_files_op ops[] = {
        [SB_FILE_STAT] = SB_FILES_STAT,     [SB_FILE_READ] = SB_FILES_READ,               [SB_FILE_WRITE] = SB_FILES_WRITE,
        [SB_FILE_REMOVE] = SB_FILES_REMOVE, [SB_FILE_MAKE_FOLDER] = SB_FILES_MAKE_FOLDER, [SB_FILE_RENAME] = SB_FILES_RENAME,
    };
    struct sb_engine *engine = (struct sb_engine *)driver;
    struct sb_files_request q = SB_FILES_REQUEST_INIT;
    struct sb_file_answer answer = { 0 };
    struct sb_files files;
    SB_CLOSE int data = -1;
    int r = call->op == SB_FILE_WRITE ? data_memfd(call, &data, error) : 0;

    if (r)
        return r;
    q.op = ops[call->op];
    q.flags = call->flags;
    q.mode = call->mode;
    q.uid = call->uid;
    q.gid = call->gid;
    q.offset = call->offset;
    q.length = call->size > INT64_MAX ? INT64_MAX : (int64_t)call->size;
    r = sb_files_open(engine, id, &q, call->path, call->other, data, &files, error);
    if (r)
        return r;
    r = converse(engine, &files, call, &answer, error);
    sb_files_close(&files);
    if (r)
        free(answer.data);
    else
        *ret_answer = answer;
    return r;
}

/* ---- listings */

struct folder {
    struct sb_folder folder;
    struct sb_engine *engine;
    struct sb_files files;
    uint32_t left; /* entries of the record that were not given out */
    size_t at;     /* the next one */
    int ended;
    char name[256];
};

static int take_entry(struct folder *f, const char **ret_name, struct sandbox_file_info *ret_info, struct sandbox_error **error)
{
    size_t size = f->files.record.head.size;
    struct sb_files_entry entry;
    struct sandbox_file_info info;
    int r;

    if (size - f->at < sizeof entry)
        return broken(error);
    memcpy(&entry, f->files.record.bytes + f->at, sizeof entry);
    f->at += sizeof entry;
    if (!entry.name_size || entry.name_size >= sizeof f->name || size - f->at < ((entry.name_size + 7) & ~(size_t)7))
        return broken(error);
    memcpy(f->name, f->files.record.bytes + f->at, entry.name_size);
    f->name[entry.name_size] = 0;
    f->at += (entry.name_size + 7) & ~(size_t)7;
    if (strlen(f->name) != entry.name_size || strchr(f->name, '/') || !strcmp(f->name, ".") || !strcmp(f->name, ".."))
        return broken(error);
    r = sb_files_take_stat(&entry.stat, &info, error);
    if (r)
        return r;
    f->left--;
    *ret_name = f->name;
    *ret_info = info;
    return 0;
}

static int folder_next(struct sb_folder *folder, int64_t timeout_ms, const char **ret_name, struct sandbox_file_info *ret_info,
                       struct sandbox_error **error)
{
    struct folder *f = (struct folder *)folder;
    int64_t deadline = sb_deadline(timeout_ms);

    while (!f->left && !f->ended) {
        int r = sb_files_await(&f->files, f->engine, deadline, error);

        if (r)
            return r;
        if (f->files.record.head.type == SB_FILES_ENTRIES) {
            f->left = f->files.record.entries.n;
            f->at = sizeof f->files.record.entries;
        } else if (f->files.record.head.type == SB_FILES_DONE) {
            f->ended = 1;
            sb_files_close(&f->files);
        } else {
            return broken(error);
        }
    }
    if (f->left)
        return take_entry(f, ret_name, ret_info, error);
    *ret_name = NULL;
    return 0;
}

static void folder_free(struct sb_folder *folder)
{
    struct folder *f = (struct folder *)folder;

    sb_files_close(&f->files);
    free(f);
}

static const struct sb_folder_ops folder_ops = { folder_next, folder_free };

int sb_engine_folder_open(struct sb_driver *driver, const char *id, const char *path, int64_t timeout_ms, struct sb_folder **ret_folder,
                          struct sandbox_error **error)
{
    struct sb_files_request q = SB_FILES_REQUEST_INIT;
    struct folder *f = calloc(1, sizeof *f);
    int r;

    if (!f)
        return sb_fail(error, SB_ARGS(SANDBOX_ENOMEM, .retryable = 1), "out of memory");
    f->folder.ops = &folder_ops;
    f->engine = (struct sb_engine *)driver;
    q.op = SB_FILES_LIST;
    r = sb_files_open(f->engine, id, &q, path, NULL, -1, &f->files, error);
    if (!r) { /* the first record says whether there is such a folder */
        r = sb_files_await(&f->files, f->engine, sb_deadline(timeout_ms), error);
        if (!r && f->files.record.head.type == SB_FILES_ENTRIES) {
            f->left = f->files.record.entries.n;
            f->at = sizeof f->files.record.entries;
        } else if (!r && f->files.record.head.type == SB_FILES_DONE) {
            f->ended = 1;
        } else if (!r) {
            r = broken(error);
        }
    }
    if (r)
        folder_free(&f->folder);
    else
        *ret_folder = &f->folder;
    return r;
}
