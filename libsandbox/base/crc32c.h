/* SPDX-License-Identifier: Apache-2.0
 * CRC-32C (Castagnoli): what every record of a ring on disk is checked by. */
#ifndef SB_BASE_CRC32C_H
#define SB_BASE_CRC32C_H

#include <stdint.h>

/* The checksum of more bytes after those of `crc`, which is 0 at first. */
uint32_t sb_crc32c(uint32_t crc, const void *data, uint64_t size);
/* The same without the processor's own instruction: for its test. */
uint32_t sb_crc32c_tables(uint32_t crc, const void *data, uint64_t size);

#endif
