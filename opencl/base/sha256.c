/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "opencl/base/sha256.h"

#include <string.h>

#define SHA256_LENGTH_AT                                                                           \
 (VG_SHA256_BLOCK - 8) /* position of the number of bits in the last block */

/* The first 32 bits of the fractional parts of the cube roots of the first 64 primes. */
static const uint32_t sha256_constants[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

static uint32_t
sha256_turn(uint32_t x, unsigned n)
{
    return x >> n | x << (32 - n);
}

static void
sha256_schedule(const unsigned char *block, uint32_t w[64])
{
    for (unsigned i = 0; i < 16; i++)
        w[i] = (uint32_t)block[4 * i] << 24 | (uint32_t)block[4 * i + 1] << 16 |
               (uint32_t)block[4 * i + 2] << 8 | block[4 * i + 3];
    for (unsigned i = 16; i < 64; i++) {
        const uint32_t a = w[i - 15], b = w[i - 2];
        w[i] = w[i - 16] + (sha256_turn(a, 7) ^ sha256_turn(a, 18) ^ a >> 3) + w[i - 7] +
               (sha256_turn(b, 17) ^ sha256_turn(b, 19) ^ b >> 10);
    }
}

static void
sha256_take(struct vg_sha256 *hash, const unsigned char *block)
{
    uint32_t w[64], s[8];

    sha256_schedule(block, w);
    memcpy(s, hash->state, sizeof s);
    for (unsigned i = 0; i < 64; i++) {
        const uint32_t e = s[4], a = s[0];
        const uint32_t one = s[7] + (sha256_turn(e, 6) ^ sha256_turn(e, 11) ^ sha256_turn(e, 25)) +
                             ((e & s[5]) ^ (~e & s[6])) + sha256_constants[i] + w[i];
        const uint32_t two = (sha256_turn(a, 2) ^ sha256_turn(a, 13) ^ sha256_turn(a, 22)) +
                             ((a & s[1]) ^ (a & s[2]) ^ (s[1] & s[2]));
        memmove(s + 1, s, 7 * sizeof *s);
        s[4] += one;
        s[0] = one + two;
    }
    for (unsigned i = 0; i < 8; i++)
        hash->state[i] += s[i];
    explicit_bzero(w, sizeof w);
    explicit_bzero(s, sizeof s);
}

void
vg_sha256_begin(struct vg_sha256 *hash)
{
    static const uint32_t first[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                      0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};

    memcpy(hash->state, first, sizeof first);
    hash->n_bytes = 0;
}

void
vg_sha256_add(struct vg_sha256 *hash, const void *bytes, size_t size)
{
    const unsigned char *from = bytes;

    while (size > 0) {
        const size_t at = hash->n_bytes % VG_SHA256_BLOCK;
        const size_t n = size < VG_SHA256_BLOCK - at ? size : VG_SHA256_BLOCK - at;
        if (n == VG_SHA256_BLOCK) {
            sha256_take(hash, from);
        } else {
            memcpy(hash->block + at, from, n);
            if (at + n == VG_SHA256_BLOCK)
                sha256_take(hash, hash->block);
        }
        hash->n_bytes += n;
        from += n;
        size -= n;
    }
}

static void
sha256_put(unsigned char to[8], uint64_t value)
{
    for (unsigned i = 0; i < 8; i++)
        to[i] = (unsigned char)(value >> (56 - 8 * i));
}

void
vg_sha256_add_text(struct vg_sha256 *hash, const void *bytes, uint64_t size)
{
    unsigned char number[8];

    sha256_put(number, size);
    vg_sha256_add(hash, number, sizeof number);
    vg_sha256_add(hash, bytes, size);
}

void
vg_sha256_end(struct vg_sha256 *hash, unsigned char digest[VG_SHA256_SIZE])
{
    static const unsigned char padding[VG_SHA256_BLOCK] = {0x80};
    const size_t at = hash->n_bytes % VG_SHA256_BLOCK;
    unsigned char length[8];

    sha256_put(length, hash->n_bytes * 8);
    vg_sha256_add(hash, padding,
                  at < SHA256_LENGTH_AT ? SHA256_LENGTH_AT - at
                                        : VG_SHA256_BLOCK + SHA256_LENGTH_AT - at);
    vg_sha256_add(hash, length, sizeof length);
    for (unsigned i = 0; i < VG_SHA256_SIZE; i++)
        digest[i] = (unsigned char)(hash->state[i / 4] >> (24 - 8 * (i % 4)));
    explicit_bzero(hash, sizeof *hash);
}

/* Starts with the key, each byte of which is combined with PAD. */
static void
sha256_begin_key(struct vg_sha256 *hash, const unsigned char key[VG_SHA256_SIZE], unsigned char pad)
{
    unsigned char block[VG_SHA256_BLOCK];

    for (unsigned i = 0; i < sizeof block; i++)
        block[i] = (unsigned char)((i < VG_SHA256_SIZE ? key[i] : 0) ^ pad);
    vg_sha256_begin(hash);
    vg_sha256_add(hash, block, sizeof block);
    explicit_bzero(block, sizeof block);
}

void
vg_sha256_sign(const unsigned char key[VG_SHA256_SIZE], const void *bytes, size_t size,
               unsigned char mac[VG_SHA256_SIZE])
{
    struct vg_sha256 hash;

    sha256_begin_key(&hash, key, 0x36);
    vg_sha256_add(&hash, bytes, size);
    vg_sha256_end(&hash, mac);
    sha256_begin_key(&hash, key, 0x5c);
    vg_sha256_add(&hash, mac, VG_SHA256_SIZE);
    vg_sha256_end(&hash, mac);
}
