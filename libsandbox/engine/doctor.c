/* SPDX-License-Identifier: Apache-2.0
 * doctor as an operation: for each trial a sandbox is created and started, a command runs in it, what both saw is judged, and the
 * sandbox is removed before the next is made. Sandboxes are owned, so that they end with a host program that dies meanwhile. One pass;
 * every step is bounded: a command by its deadline, the rest by the operations it is made of. */
#include "doctor.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <errors.h>
#include <json.h>

enum { OUTPUT_MAX = 8192 };
enum phase { LOOK, CREATE, START, EXEC, REMOVE, END };

struct doctor {
    struct sb_op op;
    struct sb_engine *engine;
    json_t *entries;
    enum phase phase;
    size_t trial;
    struct sb_op *under_way; /* create, start or remove */
    struct sb_exec *exec;
    int output_fd; /* the command's stdout */
    char output[OUTPUT_MAX];
    size_t n_output;
    char id[SB_ID_SIZE]; /* of the sandbox that is there; "": none */
    int wake, cancelled;
};

static const struct sb_doctor_trial *trial(const struct doctor *d)
{
    return &sb_doctor_trials[d->trial];
}

static int watch(struct doctor *d, int fd)
{
    struct epoll_event event = { .events = EPOLLIN };

    return epoll_ctl(d->op.fd, EPOLL_CTL_ADD, fd, &event);
}

static void wake(struct doctor *d)
{
    eventfd_write(d->wake, 1);
}

/* A trial's sandbox could not be had: that is its finding. */
static void note_failure(struct doctor *d, struct sandbox_error *why)
{
    const char *hint = why ? sandbox_error_get_hint(why) : "", *field = why ? sandbox_error_get_field(why) : "";
    char probe[96];

    snprintf(probe, sizeof probe, "a sandbox is made to try it%s%s", *field ? "; refused: " : "", field);
    sb_doctor_say(d->entries, trial(d)->feature, "impossible", probe,
                  why ? sandbox_error_get_message(why) : "it could not be made", *hint ? hint : "see the cause");
    sandbox_error_unref(why);
}

/* What comes next when a trial is over, well or not. */
static void next_trial(struct doctor *d, int possible)
{
    d->trial++;
    if (d->trial == 1 && !possible) /* when not even a plain sandbox can be made, nothing else can be tried */
        d->trial = sb_doctor_n_trials;
    d->phase = d->trial < sb_doctor_n_trials && !d->cancelled ? CREATE : END;
    wake(d);
}

static int begin_create(struct doctor *d, struct sandbox_error **error)
{
    struct sandbox_spec *spec = sb_spec_new();
    int r = spec ? trial(d)->fill(spec, error) : sb_fail(error, SB_ARGS(SANDBOX_ENOMEM, .sys_errno = ENOMEM), "out of memory");

    if (!r)
        r = sb_engine_create(&d->engine->driver, spec, &d->under_way, error);
    sb_spec_free(spec);
    return r;
}

static void begin_remove(struct doctor *d)
{
    d->phase = REMOVE;
    if (!*d->id || sb_engine_remove(&d->engine->driver, d->id, &d->under_way, NULL))
        next_trial(d, 1);
    else
        wake(d);
}

static int begin_exec(struct doctor *d, struct sandbox_error **error)
{
    const char *const argv[] = { "/bin/sh", "-c", trial(d)->script, NULL };
    struct sb_exec_request request = { .argv = argv, .user = "0:0", .workdir = "/", .deadline_ms = trial(d)->deadline_ms };
    int p[2], r = sb_id_new(request.id);

    if (r || pipe2(p, O_CLOEXEC) < 0)
        return sb_fail_errno(error, r ? -r : errno, "doctor", "no pipe");
    request.fds[0] = request.fds[2] = d->engine->null;
    request.fds[1] = p[1];
    r = sb_engine_exec(&d->engine->driver, d->id, &request, &d->exec, error);
    sb_close(p[1]);
    if (r) {
        sb_close(p[0]);
        return r;
    }
    d->output_fd = p[0];
    d->n_output = 0;
    if (fcntl(p[0], F_SETFL, O_NONBLOCK) < 0 || watch(d, p[0]) < 0 || watch(d, d->exec->fd) < 0)
        return sb_fail_errno(error, errno, "doctor", "the command can't be watched");
    return 0;
}

static void end_exec(struct doctor *d)
{
    d->output_fd = sb_close(d->output_fd);
    if (d->exec)
        d->exec->ops->free(d->exec);
    d->exec = NULL;
}

static void read_output(struct doctor *d)
{
    char more[512];
    ssize_t n;

    while ((n = SB_RETRY(read(d->output_fd, more, sizeof more))) > 0) {
        size_t room = OUTPUT_MAX - 1 - d->n_output, take = (size_t)n < room ? (size_t)n : room;

        memcpy(d->output + d->n_output, more, take);
        d->n_output += take;
    }
    d->output[d->n_output] = 0;
    if (n == 0) /* its end stays readable: not watched any longer */
        epoll_ctl(d->op.fd, EPOLL_CTL_DEL, d->output_fd, NULL);
}

/* Output is evidence for people, not trusted text: what is no plain character does not get into the report. */
static void make_plain(char *text)
{
    for (; *text; text++)
        if (((unsigned char)*text < 0x20 && *text != '\n' && *text != '\t') || (unsigned char)*text >= 0x7f)
            *text = '?';
}

static void judge(struct doctor *d, const struct sandbox_exec_result *result)
{
    read_output(d);
    make_plain(d->output);
    trial(d)->judge(d->engine, d->output, result, d->entries);
    if (d->trial == 0) {
        struct sb_record record = SB_RECORD_INIT;
        SB_JSON json_t *run = sb_record_open(d->engine, d->id, SB_LOCK_NONE, &record, NULL) ? NULL : sb_record_read_run(d->engine, &record);
        struct sb_identity init;

        sb_identity_from_json(json_object_get(run, "init"), &init);
        sb_doctor_kill(d->engine->cgroups.unified ? json_string_value(json_array_get(json_object_get(record.json, "cgroups"), 0)) : NULL, d->entries);
        sb_doctor_idmap(d->engine, init.pid, d->entries);
        sb_record_clear(&record);
    }
}

static void step_exec(struct doctor *d)
{
    struct sandbox_exec_result result = SANDBOX_EXEC_RESULT_INIT;
    int r;

    read_output(d);
    if (d->cancelled)
        d->exec->ops->kill(d->exec, 9, SANDBOX_KILL_DESCENDANTS, NULL);
    r = d->exec->ops->collect(d->exec, &result, NULL);
    if (r > 0 && !d->cancelled)
        return;
    if (!d->cancelled && r == 0)
        judge(d, &result);
    else if (!d->cancelled)
        note_failure(d, NULL);
    end_exec(d);
    begin_remove(d);
}

/* Drives create, start or remove; 1 while it is under way. */
static int step_under_way(struct doctor *d, struct sandbox_error **error)
{
    int r = d->under_way->ops->step(d->under_way, error);

    if (r == 1) {
        if (watch(d, d->under_way->fd) < 0 && errno != EEXIST)
            return sb_fail_errno(error, errno, "doctor", "an operation can't be watched");
        return 1;
    }
    if (d->phase == CREATE && r == 0)
        memcpy(d->id, d->under_way->id, SB_ID_SIZE);
    d->under_way->ops->free(d->under_way);
    d->under_way = NULL;
    return r;
}

static void advance(struct doctor *d)
{
    struct sandbox_error *why = NULL;
    int r;

    if (d->phase == LOOK) {
        sb_doctor_look(d->engine, d->entries);
        d->phase = d->cancelled ? END : CREATE;
        wake(d);
        return;
    }
    if (d->phase == EXEC) {
        step_exec(d);
        return;
    }
    if (!d->under_way && d->phase == CREATE)
        r = d->cancelled ? SANDBOX_ECANCELLED : begin_create(d, &why);
    else if (!d->under_way && d->phase == START)
        r = d->cancelled ? SANDBOX_ECANCELLED : sb_engine_start(&d->engine->driver, d->id, &d->under_way, &why);
    else
        r = 0;
    if (!r && d->under_way)
        r = step_under_way(d, &why);
    if (r == 1)
        return;
    if (d->phase == REMOVE) {
        *d->id = 0;
        sandbox_error_unref(why);
        next_trial(d, 1);
        return;
    }
    if (!r && d->phase == START)
        r = begin_exec(d, &why);
    if (!r) {
        d->phase = d->phase == CREATE ? START : EXEC;
        wake(d);
        return;
    }
    if (d->cancelled)
        sandbox_error_unref(why);
    else
        note_failure(d, why);
    end_exec(d);
    if (*d->id)
        begin_remove(d);
    else
        next_trial(d, d->trial > 0);
}

static int doctor_step(struct sb_op *op, struct sandbox_error **error)
{
    struct doctor *d = (struct doctor *)op;
    eventfd_t ignored;

    eventfd_read(d->wake, &ignored); /* non-blocking */
    if (d->phase != END)
        advance(d);
    snprintf(op->progress.phase, sizeof op->progress.phase, "%s", d->phase == END ? "end" : trial(d)->feature);
    op->progress.done = (int64_t)d->trial;
    if (d->phase != END)
        return 1;
    if (d->cancelled)
        return sb_fail(error, SB_ARGS(SANDBOX_ECANCELLED), "the doctor was sent away");
    op->report = json_pack("{s:o, s:O}", "host", sb_doctor_host(d->engine), "entries", d->entries);
    return op->report ? 0 : sb_fail(error, SB_ARGS(SANDBOX_ENOMEM, .sys_errno = ENOMEM), "out of memory");
}

static void doctor_cancel(struct sb_op *op)
{
    struct doctor *d = (struct doctor *)op;

    d->cancelled = 1;
    if (d->under_way && d->phase == CREATE)
        d->under_way->ops->cancel(d->under_way);
    wake(d);
}

static void doctor_free(struct sb_op *op)
{
    struct doctor *d = (struct doctor *)op;

    json_decref(d->entries);
    json_decref(op->report);
    sb_close(d->wake);
    sb_close(op->fd);
    free(d);
}

static const struct sb_op_ops doctor_ops = { doctor_step, doctor_cancel, doctor_free };

int sb_engine_doctor(struct sb_driver *driver, struct sb_op **ret_op, struct sandbox_error **error)
{
    struct doctor *d = calloc(1, sizeof *d);

    if (!d)
        return sb_fail(error, SB_ARGS(SANDBOX_ENOMEM, .sys_errno = ENOMEM), "out of memory");
    d->op.ops = &doctor_ops;
    d->op.progress = (struct sandbox_progress)SANDBOX_PROGRESS_INIT;
    d->op.progress.unit = SANDBOX_UNIT_ENTRIES;
    d->op.progress.total = (int64_t)sb_doctor_n_trials;
    d->engine = (struct sb_engine *)driver;
    d->entries = json_array();
    d->output_fd = -1;
    d->op.fd = epoll_create1(EPOLL_CLOEXEC);
    d->wake = eventfd(1, EFD_CLOEXEC | EFD_NONBLOCK);
    if (!d->entries || d->op.fd < 0 || d->wake < 0 || watch(d, d->wake) < 0) {
        doctor_free(&d->op);
        return sb_fail_errno(error, errno ? errno : ENOMEM, "doctor", "no descriptor");
    }
    *ret_op = &d->op;
    return 0;
}
