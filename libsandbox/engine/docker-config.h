/* SPDX-License-Identifier: Apache-2.0
 * Docker's config.json (and containers-auth.json, which has the same form): which credentials, or which helper program, a repository
 * has. Pure functions on text; who may be asked, and when, is image-credentials.c's. */
#ifndef SB_ENGINE_DOCKER_CONFIG_H
#define SB_ENGINE_DOCKER_CONFIG_H

#include <reference.h>
#include <sandbox.h>

enum sb_credentials_kind {
    SB_CREDENTIALS_NONE = 0,
    SB_CREDENTIALS_PASSWORD, /* user and secret */
    SB_CREDENTIALS_IDENTITY, /* secret is a refresh token for the registry's token server */
    SB_CREDENTIALS_BEARER    /* secret is what the registry itself takes */
};

struct sb_credentials {
    enum sb_credentials_kind kind;
    char *user, *secret;
};

struct sb_docker_config {
    struct sb_credentials stored; /* from "auths" */
    char helper[65];              /* NAME of docker-credential-NAME to ask before that; "": none */
    char server[SB_REFERENCE_MAX + 32]; /* what it is asked for */
};

/* EDAMAGED when the file can't be read as what it should be. Its content never appears in an error. */
int sb_docker_config_read(const char *text, size_t size, const struct sb_reference *reference, struct sb_docker_config *ret,
                          struct sandbox_error **error);
/* What a helper wrote to its stdout. 0; EPROTOCOL. */
int sb_docker_config_read_answer(const char *text, size_t size, struct sb_credentials *ret, struct sandbox_error **error);
/* 1 when what a failed helper wrote says that it has nothing for the server. */
int sb_docker_config_is_not_found(const char *text, size_t size);
/* Overwrites secrets before it frees them. */
void sb_credentials_clear(struct sb_credentials *credentials);

#endif
