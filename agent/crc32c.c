/* SPDX-License-Identifier: Apache-2.0
 * CRC-32C by eight tables: as fast as memory is read for our purpose, on every processor, and nothing to detect at run time. */
#include "keeper-format.h"

#include <endian.h>
#include <string.h>

static uint32_t tables[8][256];

static void fill_tables(void)
{
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t crc = i;

        for (int bit = 0; bit < 8; bit++)
            crc = (crc >> 1) ^ (crc & 1 ? 0x82f63b78u : 0);
        tables[0][i] = crc;
    }
    for (uint32_t i = 0; i < 256; i++)
        for (int t = 1; t < 8; t++)
            tables[t][i] = (tables[t - 1][i] >> 8) ^ tables[0][tables[t - 1][i] & 0xff];
}

uint32_t ag_crc32c(uint32_t crc, const void *data, uint64_t size)
{
    const unsigned char *p = data;

    if (!tables[0][1])
        fill_tables();
    crc = ~crc;
    for (; size >= 8; size -= 8, p += 8) {
        uint64_t word;

        memcpy(&word, p, sizeof word);
        word = le64toh(word) ^ crc;
        crc = tables[7][word & 0xff] ^ tables[6][(word >> 8) & 0xff] ^ tables[5][(word >> 16) & 0xff] ^
              tables[4][(word >> 24) & 0xff] ^ tables[3][(word >> 32) & 0xff] ^ tables[2][(word >> 40) & 0xff] ^
              tables[1][(word >> 48) & 0xff] ^ tables[0][word >> 56];
    }
    for (; size; size--)
        crc = (crc >> 8) ^ tables[0][(crc ^ *p++) & 0xff];
    return ~crc;
}
