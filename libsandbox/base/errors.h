/* SPDX-License-Identifier: Apache-2.0
 * struct sandbox_error and the one way to make it. A function that fails returns sb_fail(...) at the place where the
 * cause is known; callers above pass the code and the error on and may add context by sb_error_context(). */
#ifndef SB_BASE_ERRORS_H
#define SB_BASE_ERRORS_H

#include <sandbox.h>

struct sb_fail_args {
    int code;          /* SANDBOX_E… */
    int sys_errno;     /* 0: none */
    const char *phase; /* "" or NULL: none */
    const char *field;
    const char *hint;
    int retryable;
};

/* sb_fail(error, .code = SANDBOX_EINVALID, .field = "name")("format", ...) would need two macros; this takes both:
 *   return sb_fail(error, SB_ARGS(SANDBOX_EINVALID, .field = "name", .hint = "…"), "name is empty");
 * Returns args.code always. error may be NULL; an error already set is left (the first cause wins). */
#define SB_ARGS(c, ...) (&(const struct sb_fail_args){ .code = (c), ##__VA_ARGS__ })
int sb_fail(struct sandbox_error **error, const struct sb_fail_args *args, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* The usual mapping of an errno to a code: ENOSPC, EDQUOT → ENOSPACE; EROFS → EREADONLY; ENOMEM → ENOMEM; EACCES, EPERM →
 * EDENIED; ENOENT → ENOTFOUND; EEXIST → EEXISTS; EMFILE/ENFILE → ELIMIT; anything else → EIO. */
int sb_code_from_errno(int sys_errno);
/* Fails with the code of an errno; the message gets ": strerror" appended. phase may be NULL. */
int sb_fail_errno(struct sandbox_error **error, int sys_errno, const char *phase, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* Fill in what is still empty; error may be NULL or unset. */
void sb_error_set_operation(struct sandbox_error **error, const char *operation, const char *backend);
void sb_error_set_field(struct sandbox_error **error, const char *field);
void sb_error_set_hint(struct sandbox_error **error, const char *hint);

#endif
