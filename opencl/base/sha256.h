/* SPDX-License-Identifier: Apache-2.0
 *
 * SHA-256 (FIPS 180-4) and HMAC-SHA-256 (RFC 2104): implemented here because neither a client's
 * process nor a program has a library for them.
 */
#ifndef VG_OPENCL_BASE_SHA256_H
#define VG_OPENCL_BASE_SHA256_H

#include <stddef.h>
#include <stdint.h>

#define VG_SHA256_SIZE  32
#define VG_SHA256_BLOCK 64

struct vg_sha256 {
    uint32_t state[8];
    uint64_t n_bytes;
    unsigned char block[VG_SHA256_BLOCK];
};

void vg_sha256_begin(struct vg_sha256 *hash);
void vg_sha256_add(struct vg_sha256 *hash, const void *bytes, size_t size);

/* Adds the size and then the bytes, so that two texts in a row hash differently from any other
 * two. */
void vg_sha256_add_text(struct vg_sha256 *hash, const void *bytes, uint64_t size);

/* Also erases the hash's state. */
void vg_sha256_end(struct vg_sha256 *hash, unsigned char digest[VG_SHA256_SIZE]);

/* Computes the HMAC. Erases all intermediate values that depend on the key. */
void vg_sha256_sign(const unsigned char key[VG_SHA256_SIZE], const void *bytes, size_t size,
                    unsigned char mac[VG_SHA256_SIZE]);

#endif
