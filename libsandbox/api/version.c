/* SPDX-License-Identifier: Apache-2.0
 * The library's version, from the public header that it was built with. */
#include <sandbox.h>

#define TEXT_(x) #x
#define TEXT(x) TEXT_(x)

const char *sandbox_version(void)
{
    return TEXT(SANDBOX_VERSION_MAJOR) "." TEXT(SANDBOX_VERSION_MINOR) "." TEXT(SANDBOX_VERSION_PATCH);
}
