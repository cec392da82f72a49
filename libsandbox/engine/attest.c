/* SPDX-License-Identifier: Apache-2.0
 * What a command saw of itself just before it was executed, by system calls of its own (agent/init-exec.c), for who started it. init has refused to
 * execute it if it was not what was asked for; this is so that others can look. */
#include "exec.h"

void sb_exec_attest(struct sb_exec *exec, const struct sb_reply *reply)
{
    exec->attested = reply->attested == 1;
    exec->attestation = (struct sandbox_attestation)SANDBOX_ATTESTATION_INIT;
    exec->attestation.uid = reply->uid;
    exec->attestation.gid = reply->gid;
    exec->attestation.groups = reply->n_groups;
    exec->attestation.no_new_privs = reply->no_new_privs == 1;
    exec->attestation.seccomp = (int)reply->seccomp;
    exec->attestation.cap_effective = reply->cap_effective;
    exec->attestation.cap_permitted = reply->cap_permitted;
    exec->attestation.cap_inheritable = reply->cap_inheritable;
    exec->attestation.cap_bounding = reply->cap_bounding;
    exec->attestation.cap_ambient = reply->cap_ambient;
    exec->attestation.user_namespace = reply->user_namespace;
}
