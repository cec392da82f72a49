/* SPDX-License-Identifier: Apache-2.0
 * Where a pull's credentials come from: the caller, a file in Docker's form, or a credential helper that this file names
 * (docker-credential-NAME, the protocol of the docker-credential-helpers project). */
#ifndef SB_ENGINE_IMAGE_CREDENTIALS_H
#define SB_ENGINE_IMAGE_CREDENTIALS_H

#include "docker-config.h"

struct sb_credential_search {
    int epoll; /* the caller's */
    int pidfd, output, timer; /* of the helper that runs; -1 */
    char helper[96];
    struct sb_docker_config config;
    char *answer;
    size_t answer_size;
    struct sb_credentials found;
};
#define SB_CREDENTIAL_SEARCH_INIT { .epoll = -1, .pidfd = -1, .output = -1, .timer = -1 }

/* 0: done (found is set, NONE when there are none), 1: a helper runs, step it; negative: failed. */
int sb_credentials_begin(struct sb_credential_search *search, int epoll, const struct sb_reference *reference,
                         const struct sandbox_image_pull_options *options, struct sandbox_error **error);
int sb_credentials_step(struct sb_credential_search *search, struct sandbox_error **error);
/* Kills a helper that runs; it is waited for. */
void sb_credential_search_clear(struct sb_credential_search *search);

#endif
