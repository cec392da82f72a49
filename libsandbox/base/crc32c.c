/* SPDX-License-Identifier: Apache-2.0
 * CRC-32C by the processor where it has an instruction for it, else by eight tables. Which it is, is asked of the processor itself:
 * the compiler's own way to ask would bring a constructor into every program that links this. */
#include "crc32c.h"

#include <endian.h>
#include <stdatomic.h>
#include <string.h>

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_acle.h>
#include <sys/auxv.h>
#ifndef HWCAP_CRC32
#define HWCAP_CRC32 (1 << 7)
#endif
#endif

static uint32_t tables[8][256];
static atomic_int filled;

/* Several threads may fill them at once: all write the same. */
static void fill_tables(void)
{
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t crc = i;

        for (int bit = 0; bit < 8; bit++)
            crc = (crc >> 1) ^ (crc & 1 ? 0x82f63b78u : 0);
        __atomic_store_n(&tables[0][i], crc, __ATOMIC_RELAXED);
    }
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t crc = __atomic_load_n(&tables[0][i], __ATOMIC_RELAXED);

        for (int t = 1; t < 8; t++) {
            crc = (crc >> 8) ^ __atomic_load_n(&tables[0][crc & 0xff], __ATOMIC_RELAXED);
            __atomic_store_n(&tables[t][i], crc, __ATOMIC_RELAXED);
        }
    }
    atomic_store(&filled, 1);
}

uint32_t sb_crc32c_tables(uint32_t crc, const void *data, uint64_t size)
{
    const unsigned char *p = data;

    if (!atomic_load(&filled))
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

#if defined(__x86_64__)
static int has_instruction(void)
{
    unsigned int a, b, c, d;

    return __get_cpuid(1, &a, &b, &c, &d) && (c & bit_SSE4_2);
}

static __attribute__((target("sse4.2"))) uint32_t by_instruction(uint32_t crc, const unsigned char *p, uint64_t size)
{
    uint64_t wide = ~crc;

    for (; size >= 8; size -= 8, p += 8) {
        uint64_t word;

        memcpy(&word, p, sizeof word);
        wide = _mm_crc32_u64(wide, word);
    }
    crc = (uint32_t)wide;
    for (; size; size--)
        crc = _mm_crc32_u8(crc, *p++);
    return ~crc;
}
#elif defined(__aarch64__)
static int has_instruction(void)
{
    return (getauxval(AT_HWCAP) & HWCAP_CRC32) != 0;
}

static __attribute__((target("+crc"))) uint32_t by_instruction(uint32_t crc, const unsigned char *p, uint64_t size)
{
    crc = ~crc;
    for (; size >= 8; size -= 8, p += 8) {
        uint64_t word;

        memcpy(&word, p, sizeof word);
        crc = __crc32cd(crc, word);
    }
    for (; size; size--)
        crc = __crc32cb(crc, *p++);
    return ~crc;
}
#else
static int has_instruction(void)
{
    return 0;
}

static uint32_t by_instruction(uint32_t crc, const unsigned char *p, uint64_t size)
{
    return sb_crc32c_tables(crc, p, size);
}
#endif

uint32_t sb_crc32c(uint32_t crc, const void *data, uint64_t size)
{
    static atomic_int has; /* 0: not asked yet, 1: no, 2: yes */
    int known = atomic_load_explicit(&has, memory_order_relaxed);

    if (!known) {
        known = 1 + has_instruction();
        atomic_store_explicit(&has, known, memory_order_relaxed);
    }
    return known == 2 ? by_instruction(crc, data, size) : sb_crc32c_tables(crc, data, size);
}
