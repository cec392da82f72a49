/* SPDX-License-Identifier: Apache-2.0
 * The part of a host's URI after its scheme. */
#ifndef SB_BASE_URI_H
#define SB_BASE_URI_H

#include <sandbox.h>

/* For schemes that take nothing but one optional key: rest is "" or "?KEY=VALUE", the value percent-encoded. Anything else, an unknown or
 * repeated key or a NUL is EINVALID (field "uri"). *ret_value is malloc'ed, or NULL when the key is absent. */
int sb_uri_query(const char *rest, const char *key, char **ret_value, struct sandbox_error **error);

#endif
