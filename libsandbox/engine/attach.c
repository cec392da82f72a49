/* SPDX-License-Identifier: Apache-2.0
 * An exec by its id: of init while it lives, and else what keeper wrote down. A command that had started and whose end nobody saw is lost;
 * a code is never made up for it. */
#include "engine.h"
#include "exec.h"

#include <errno.h>
#include <string.h>
#include <sys/eventfd.h>

#include <errors.h>

enum { ANSWER_MS = 5000, KEEPER_MS = 2000 };

static int not_found(const char *exec_id, struct sandbox_error **error)
{
    if (!exec_id)
        return sb_fail(error, SB_ARGS(SANDBOX_ENOTRUNNING, .phase = "attach", .hint = "start the sandbox, with a daemon in its spec"),
                       "the daemon was never started");
    return sb_fail(error,
                   SB_ARGS(SANDBOX_ENOTFOUND, .sys_errno = ENOENT, .phase = "attach", .field = "id",
                           .hint = "after a sandbox's end the commands of those are known that have a daemon or are detached, the last ones"),
                   "no command %.12s is known", exec_id);
}

/* An end that is known already: its descriptor is readable from the beginning. */
static int open_ended(const struct sb_exit *exit, struct sb_local_exec *x, struct sandbox_error **error)
{
    x->ended = 1;
    x->exec.journal = exit->started.max_bytes != 0;
    sb_exit_result(exit, &x->result);
    x->exec.fd = eventfd(1, EFD_CLOEXEC | EFD_NONBLOCK);
    return x->exec.fd < 0 ? sb_fail_errno(error, errno, "attach", "no descriptor") : 0;
}

/* 0: known, 1: it isn't. */
static int open_recorded(const struct sb_engine *engine, const struct sb_record *record, const uint8_t id[32], int alive, struct sb_local_exec *x,
                         struct sandbox_error **error)
{
    struct sb_exit found;
    int r;

    if (!alive)
        sb_keeper_await(engine, record, KEEPER_MS); /* init has just died: what it had said is being written down */
    r = sb_exits_find(record, id, &found);
    if (r)
        return sb_fail_errno(error, -r, "attach", "the record of ends can't be read");
    if (!found.known || (found.has_ended && !found.ended.kind))
        return 1;
    /* init would know one that runs: so it was of an earlier one */
    return open_ended(&found, x, error);
}

static int attach(struct sb_engine *engine, const struct sb_record *record, const char *exec_id, struct sb_local_exec *x,
                  struct sandbox_error **error)
{
    struct sb_request request = { .type = SB_REQUEST_ATTACH };
    struct sandbox_error *why = NULL;
    struct sb_reply reply = { 0 };
    int r, alive = 1;

    if (exec_id && sb_exec_id_parse(exec_id, request.exec_id))
        return sb_fail(error, SB_ARGS(SANDBOX_EINVALID, .field = "id"), "the exec's id is no id");
    if (exec_id && strspn(exec_id, "0") == SANDBOX_ID_LENGTH) /* between us and init it means the daemon */
        return not_found(exec_id, error);
    r = sb_link_open(engine, record->id, &x->exec.fd, &why);
    if (!r)
        r = sb_link_send(x->exec.fd, &request, NULL, NULL, 0, &why);
    if (!r)
        r = sb_link_await(x->exec.fd, engine->driver.close_fd, ANSWER_MS, &reply, NULL, &why);
    if (!r && reply.type == SB_REPLY_STARTED) {
        x->exec.journal = reply.journal == 1;
        sb_exec_attest(&x->exec, &reply);
        return 0;
    }
    x->exec.fd = sb_close(x->exec.fd);
    if (r == SANDBOX_ENOTRUNNING || r == SANDBOX_ELOST) {
        alive = 0;
    } else if (r || reply.type != SB_REPLY_FAILED || reply.step != SB_STEP_STATE) {
        if (!r)
            r = sb_fail(error, SB_ARGS(SANDBOX_EBUSY, .sys_errno = reply.sys_errno, .phase = "attach", .retryable = 1),
                        "the sandbox's init has too many callers");
        else if (error)
            *error = SB_TAKE_PTR(why);
        sandbox_error_unref(why);
        return r;
    }
    sandbox_error_unref(why);
    r = open_recorded(engine, record, request.exec_id, alive, x, error);
    return r == 1 ? not_found(exec_id, error) : r;
}

int sb_engine_exec_open(struct sb_driver *driver, const char *id, const char *exec_id, struct sb_exec **ret_exec,
                        struct sandbox_error **error)
{
    struct sb_record record = SB_RECORD_INIT;
    struct sb_local_exec *x = NULL;
    int r = sb_record_open((struct sb_engine *)driver, id, SB_LOCK_NONE, &record, error);

    if (!r)
        r = sb_local_exec_new(&x, error);
    if (!r)
        r = attach((struct sb_engine *)driver, &record, exec_id, x, error);
    sb_record_clear(&record);
    if (r && x)
        x->exec.ops->free(&x->exec);
    else if (!r)
        *ret_exec = &x->exec;
    return r;
}
