/* SPDX-License-Identifier: Apache-2.0
 * Names of images in registries, as people write them: [docker://][HOST[:PORT]/]PATH[:TAG][@sha256:HEX]. Pure functions on text from
 * callers; the rules are those of the OCI distribution specification and of the container tools, so that a name means one thing
 * everywhere. */
#ifndef SB_BASE_REFERENCE_H
#define SB_BASE_REFERENCE_H

#include <stddef.h>

enum { SB_REFERENCE_MAX = 255 /* of the full name, so that it can name a file */ };

struct sb_reference {
    char host[SB_REFERENCE_MAX + 1];       /* with ":PORT" where one was given; lower case */
    char repository[SB_REFERENCE_MAX + 1]; /* "library/debian" */
    char tag[129];                         /* "" where a digest names it */
    char digest[72];                       /* "" or "sha256:…": it counts, and a tag beside it doesn't */
};

/* 0, or -EINVAL. Without a host it is the one that such names have always meant, "docker.io", and its "library/"; without tag and digest
 * the tag is "latest". */
int sb_reference_parse(const char *text, struct sb_reference *ret);
/* 1 when a text can only mean an image in a registry: it begins with "docker://", or has a '/' or ':'. Whether it is well-formed is
 * another question. Digests ("sha256:…") are none. */
int sb_reference_is(const char *text);
/* HOST/PATH:TAG or HOST/PATH@DIGEST; two names of one image in one registry give the same text. */
void sb_reference_format(const struct sb_reference *reference, char text[SB_REFERENCE_MAX + 1]);
/* 1 when the host can only be this machine: "localhost", 127.0.0.0/8 or [::1]. */
int sb_reference_is_loopback(const char *host);

#endif
