/* SPDX-License-Identifier: Apache-2.0
 * The WWW-Authenticate header of registries (RFC 9110, section 11.6.1): several challenges may stand in one header, and each has its
 * parameters behind it, with the same comma between both. Pure: hostile text in, bounded strings out. */
#ifndef SB_AGENT_PULL_CHALLENGE_H
#define SB_AGENT_PULL_CHALLENGE_H

#include <stddef.h>

struct pull_challenge {
    int basic, bearer; /* 1: offered */
    /* of the Bearer challenge; "" when it has none */
    char realm[2048], service[512], scope[1024];
};

/* Adds what a header's value offers; the first Bearer challenge with a realm counts. 0, or -EINVAL when it can't be read or something
 * is too long: then nothing is added. */
int pull_challenge_parse(const char *value, size_t size, struct pull_challenge *challenge);

#endif
