/* SPDX-License-Identifier: Apache-2.0
 * A driver for testing api/ alone: it isolates nothing. Its operations end when the test says so, its sandboxes are documents
 * that the test gives, its commands are processes of this machine. It watches the rules that api/ owes a driver. */
#ifndef FAKE_H
#define FAKE_H

#include <driver.h>
#include <sandbox.h>
#include <stdatomic.h>

struct fake {
    /* how operations go on */
    int steps;          /* an operation ends after this many ticks; 0: at its first step */
    int result;         /* what it ends with */
    int undo_ms;        /* what undoing takes after a cancel */
    int ignores_cancel; /* it succeeds all the same, undo_ms after the cancel */
    int bad_results;    /* it succeeds and brings nothing */
    int silent;         /* it fails and gives no error */
    int refuses;        /* begin itself fails with this */
    /* what is answered */
    const char *answer;    /* JSON of inspect and list */
    struct sb_driver_ops ops; /* the table in use; a test may take slots out */
    /* what was seen */
    atomic_int overlaps, /* step() of one operation entered twice at once */
        cancels, frees, driver_frees, exec_frees;
    struct sb_op *last; /* the newest operation */
    char called[64];    /* the last call, such as "stop 100" */
    struct sb_exec_request request; /* the last exec: only numbers and pointers to static strings are good afterwards */
    int request_null;   /* bits: which of its descriptors were /dev/null */
    atomic_int forward_frees;
    const char *event;      /* JSON of the next event; NULL: none comes */
    atomic_int events_frees;
    int dial_waits;     /* dial waits for the host's close */
    /* logs: records "o:text" or "e:text" of a stream, "L" lost, "S" started, "X7" ended with 7, "." nothing yet, in this order */
    const char *const *log;
    int log_frees;
    struct sb_log_request log_request; /* the last; strings are not good afterwards */
    atomic_int paused;  /* the fake itself is at work: its allocations don't count */
};
extern struct fake fake;

void fake_reset(void);
/* Lets the newest operation do one step. */
void fake_tick(void);
/* A host of this driver, whatever `steps` says; and a sandbox on it. */
struct sandbox_host *fake_host(void);
struct sandbox *fake_sandbox(struct sandbox_host *host);

#define FAKE_ID "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define FAKE_DIGEST "sha256:" FAKE_ID
extern const char fake_document[], fake_image[], fake_report[], fake_volume[];

#endif
