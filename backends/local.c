/* SPDX-License-Identifier: Apache-2.0
 * local: this kernel, embedded: no daemon, no process between. "local:" or "local:?root=/path" with the path percent-encoded. */
#include <driver.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>

#include <engine-open.h>
#include <errors.h>
#include <uri.h>
#include <util.h>

#include "local.h"

/* Opening is quick: it is done at the begin, and the operation has ended when it is first looked at. */
static int open_step(struct sb_op *op, struct sandbox_error **error)
{
    (void)op;
    (void)error;
    return 0;
}

static void open_cancel(struct sb_op *op)
{
    (void)op;
}

static void open_free(struct sb_op *op)
{
    if (op->driver)
        op->driver->ops->free(op->driver);
    sb_close(op->fd);
    free(op);
}

static const struct sb_op_ops open_ops = { open_step, open_cancel, open_free };

static int local_open(const char *rest, const struct sandbox_host_options *options, struct sb_op **ret_op,
                      struct sandbox_error **error)
{
    SB_FREE char *root = NULL;
    struct sb_op *op;
    int r = sb_uri_query(rest, "root", &root, error);

    if (r)
        return r;
    if (root && options && options->state_root)
        return sb_fail(error, SB_ARGS(SANDBOX_EINVALID, .field = "uri", .hint = "name the state root once"),
                       "the state root is given by the URI and by the options");
    op = calloc(1, sizeof *op);
    if (!op)
        return sb_fail(error, SB_ARGS(SANDBOX_ENOMEM, .sys_errno = ENOMEM), "out of memory");
    op->ops = &open_ops;
    op->progress = (struct sandbox_progress)SANDBOX_PROGRESS_INIT;
    op->fd = eventfd(1, EFD_CLOEXEC | EFD_NONBLOCK);
    r = op->fd < 0 ? sb_fail_errno(error, errno, "open", "no descriptor")
                   : sb_engine_open(root      ? root
                                    : options ? options->state_root
                                              : NULL,
                                    options ? options->agent_dir : NULL, options, &op->driver, error);
    if (r) {
        open_free(op);
        return r;
    }
    *ret_op = op;
    return 0;
}

const struct sb_backend sb_backend_local = { "local", local_open };
