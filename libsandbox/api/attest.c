/* SPDX-License-Identifier: Apache-2.0
 * What a command was when it began. */
#include "exec.h"
#include "options.h"

static int get_attestation(const struct sandbox_exec *exec, struct sandbox_attestation *attestation, struct sandbox_error **error)
{
    int r = sb_exec_check(exec, error);

    if (!r && !attestation)
        r = sb_fail_null(error, "attestation");
    if (!r)
        r = sb_options_check(attestation, sizeof *attestation, SB_SIZE_TO(struct sandbox_attestation, user_namespace), error);
    if (!r && !exec->exec->attested)
        r = sb_fail(error, SB_ARGS(SANDBOX_ENOTFOUND, .phase = "attest", .hint = "ask the handle that started it, or one opened while it runs"),
                    "what this command was at its start is not known");
    if (!r)
        sb_options_write(attestation, &exec->exec->attestation, sizeof *attestation);
    return r;
}

int sandbox_exec_get_attestation(const struct sandbox_exec *exec, struct sandbox_attestation *attestation, struct sandbox_error **error)
{
    struct sandbox_error *failure = NULL;

    return sb_leave(get_attestation(exec, attestation, &failure), &failure, error, "attest", exec ? exec->host : NULL);
}
