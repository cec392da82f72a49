/* SPDX-License-Identifier: Apache-2.0
 * Commands in a live sandbox. An exec is a connection to init that stands until the command has
 * ended: its descriptor polls readable then, and what comes on it is the end. The pipes pass to init directly, no byte of the
 * command's goes through this library. */
#include "exec.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <errors.h>

enum { START_MS = 8000 }; /* init itself gives up on a start after 5 s and says so */

static void take_end(struct sb_local_exec *x, const struct sb_reply *reply)
{
    x->ended = 1;
    x->result = (struct sandbox_exec_result)SANDBOX_EXEC_RESULT_INIT;
    x->result.kind = SANDBOX_EXEC_LOST;
    if (!reply || reply->type != SB_REPLY_EXITED || reply->kind < SANDBOX_EXEC_EXITED || reply->kind > SANDBOX_EXEC_OOM)
        return;
    x->result.kind = (int)reply->kind;
    x->result.code = reply->kind == SANDBOX_EXEC_EXITED ? reply->code & 255 : -1;
    x->result.signal = reply->kind == SANDBOX_EXEC_EXITED ? 0 : reply->signal;
    x->result.user_us = reply->user_us;
    x->result.system_us = reply->system_us;
    x->result.max_rss = reply->max_rss;
}

static int collect(struct sb_exec *exec, struct sandbox_exec_result *ret_result, struct sandbox_error **error)
{
    struct sb_local_exec *x = (struct sb_local_exec *)exec;
    struct sb_reply reply;
    int r = 0;

    (void)error;
    pthread_mutex_lock(&x->lock);
    if (!x->ended) {
        /* looked at, not taken: the message keeps the descriptor readable for everybody who polls it */
        ssize_t n = sb_recv(exec->fd, &reply, sizeof reply, MSG_DONTWAIT | MSG_PEEK);

        if (n < 0 && errno == EAGAIN)
            r = 1;
        else
            take_end(x, n == (ssize_t)sizeof reply ? &reply : NULL);
    }
    if (!r)
        *ret_result = x->result;
    pthread_mutex_unlock(&x->lock);
    return r;
}

static int kill_exec(struct sb_exec *exec, int signal, unsigned int flags, struct sandbox_error **error)
{
    struct sb_request request = { .type = SB_REQUEST_KILL,
                                  .signal = signal,
                                  .flags = flags & SANDBOX_KILL_DESCENDANTS ? SB_REQUEST_DESCENDANTS : 0 };
    struct sb_local_exec *x = (struct sb_local_exec *)exec;
    struct sandbox_error *why = NULL;
    int ended, r;

    pthread_mutex_lock(&x->lock);
    ended = x->ended;
    pthread_mutex_unlock(&x->lock);
    if (ended) /* its descriptor need not be a connection */
        return 0;
    r = sb_link_send(exec->fd, &request, NULL, NULL, 0, &why);

    if (r == SANDBOX_ENOTRUNNING) /* it had ended already */
        r = 0;
    if (r && error)
        *error = why;
    else
        sandbox_error_unref(why);
    return r;
}

static void free_exec(struct sb_exec *exec)
{
    struct sb_local_exec *x = (struct sb_local_exec *)exec;

    pthread_mutex_destroy(&x->lock);
    sb_close(exec->fd);
    sb_close(exec->terminal_fd);
    if (x->leaf) /* where init has no right to; busy: it goes with the sandbox */
        rmdir(x->leaf);
    free(x->leaf);
    free(x);
}

static const struct sb_exec_ops exec_ops = { collect, kill_exec, free_exec, sb_pty_resize };

static int is_root(const char *user)
{
    return !strncmp(user, "0", 1) ? user[1] == 0 || user[1] == ':'
                                  : !strncmp(user, "root", 4) && (user[4] == 0 || user[4] == ':');
}

static int send_exec(const struct sb_record *record, int link, const struct sb_exec_request *q, const char *user,
                     const char *workdir, struct sandbox_error **error)
{
    struct sb_request request = { .type = SB_REQUEST_EXEC,
                                  .flags = q->terminal ? SB_REQUEST_TERMINAL : 0,
                                  .timeout_ms = q->deadline_ms,
                                  .files_max = sb_exec_files_max(record, q->limits),
                                  .journal_max = q->journal_max,
                                  .window = { .rows = (uint16_t)q->rows, .columns = (uint16_t)q->columns } };
    struct sb_blob blob = { 0 };
    char **env;
    size_t n;
    int r;

    if (sb_exec_id_parse(q->id, request.exec_id))
        return sb_fail(error, SB_ARGS(SANDBOX_EINTERNAL, .field = "id"), "the exec's id is no id");
    r = sb_environment(record, q->env, is_root(user), &env, &n, error);

    if (r)
        return r;
    r = sb_blob_make(q->argv, (const char *const *)env, n, user, workdir, &blob, error);
    if (!r) {
        request.argc = blob.argc;
        request.envc = blob.envc;
        request.blob_size = (uint32_t)blob.size;
        r = sb_link_send(link, &request, blob.data, q->fds, q->terminal ? 0 : q->journal_max ? 1 : 3, error);
    }
    free(blob.data);
    sb_list_free(env);
    return r;
}

/* A journal is kept by the keeper, and not every sandbox has one. */
static int check_journal(const struct sb_record *record, const struct sb_exec_request *request, struct sandbox_error **error)
{
    if (!request->journal_max || sb_launch_is_kept(record))
        return 0;
    return sb_fail(error,
                   SB_ARGS(SANDBOX_EUNSUPPORTED, .phase = "journal", .field = "journal_max",
                           .hint = "make the sandbox with a daemon, or with SANDBOX_LIFETIME_DETACHED"),
                   "this sandbox has no keeper to write a journal");
}

/* Sends the command and waits until it was executed, or why not. */
static int start_exec(struct sb_engine *engine, const char *id, const struct sb_exec_request *request, struct sb_local_exec *x,
                      struct sandbox_error **error)
{
    SB_FREE char *user = NULL, *workdir = NULL;
    struct sb_record record = SB_RECORD_INIT;
    struct sb_reply reply;
    int r = sb_record_open(engine, id, SB_LOCK_NONE, &record, error);

    if (!r)
        r = check_journal(&record, request, error);
    if (!r)
        r = sb_link_open(engine, id, &x->exec.fd, error);
    if (!r && request->limits)
        r = sb_exec_leaf(engine, &record, request, x->exec.fd, &x->leaf, error);
    if (!r) {
        user = request->user ? strdup(request->user) : sb_default_user(&record);
        workdir = request->workdir ? strdup(request->workdir) : sb_default_workdir(&record);
        r = user && workdir ? send_exec(&record, x->exec.fd, request, user, workdir, error)
                            : sb_fail(error, SB_ARGS(SANDBOX_ENOMEM, .sys_errno = ENOMEM), "out of memory");
    }
    sb_record_clear(&record);
    if (!r)
        r = sb_link_await(x->exec.fd, engine->driver.close_fd, START_MS, &reply, &x->exec.terminal_fd, error);
    if (!r && reply.type == SB_REPLY_FAILED)
        return sb_link_start_error(&reply, request->argv[0], user, workdir, error);
    if (!r && reply.type != SB_REPLY_STARTED)
        return sb_fail(error, SB_ARGS(SANDBOX_EPROTOCOL, .phase = "reply"), "the sandbox's init gave a wrong answer");
    if (!r)
        sb_exec_attest(&x->exec, &reply);
    x->exec.terminal = request->terminal;
    if (!r && request->terminal)
        return sb_pty_check(x->exec.terminal_fd, error);
    x->exec.terminal_fd = sb_close(x->exec.terminal_fd);
    return r;
}

int sb_local_exec_new(struct sb_local_exec **ret, struct sandbox_error **error)
{
    struct sb_local_exec *x = calloc(1, sizeof *x);

    if (!x)
        return sb_fail(error, SB_ARGS(SANDBOX_ENOMEM, .sys_errno = ENOMEM), "out of memory");
    pthread_mutex_init(&x->lock, NULL);
    x->exec.ops = &exec_ops;
    x->exec.fd = x->exec.terminal_fd = -1;
    *ret = x;
    return 0;
}

int sb_engine_exec(struct sb_driver *driver, const char *id, const struct sb_exec_request *request, struct sb_exec **ret_exec,
                   struct sandbox_error **error)
{
    struct sb_local_exec *x = NULL;
    int r = sb_local_exec_new(&x, error);

    if (r)
        return r;
    x->exec.journal = request->journal_max != 0;
    r = start_exec((struct sb_engine *)driver, id, request, x, error);
    if (r) {
        free_exec(&x->exec);
        return r;
    }
    *ret_exec = &x->exec;
    return 0;
}
