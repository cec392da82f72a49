/* SPDX-License-Identifier: Apache-2.0
 * The names of the codes. Here and not in api/, since records and messages use them too. */
#include <sandbox.h>

const char *sandbox_code_name(int code)
{
    switch (code) {
#define NAME(code)                                                                                                               \
    case SANDBOX_##code:                                                                                                         \
        return #code
        NAME(OK);
        NAME(EINVALID);
        NAME(ENOMEM);
        NAME(ENOTFOUND);
        NAME(EEXISTS);
        NAME(ENOTRUNNING);
        NAME(EBUSY);
        NAME(EDENIED);
        NAME(EUNSUPPORTED);
        NAME(ETIMEDOUT);
        NAME(ECANCELLED);
        NAME(ECLOSED);
        NAME(EFORKED);
        NAME(ELOST);
        NAME(ENOSPACE);
        NAME(EREADONLY);
        NAME(EDAMAGED);
        NAME(EDIGEST);
        NAME(ELIMIT);
        NAME(EPROTOCOL);
        NAME(EIO);
        NAME(EINTERNAL);
        NAME(ENOTEXECUTABLE);
        NAME(EPAUSED);
#undef NAME
    default:
        return "EUNKNOWN";
    }
}
