/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SB_BACKENDS_LOCAL_H
#define SB_BACKENDS_LOCAL_H

#include <driver.h>

extern const struct sb_backend sb_backend_local;

#endif
