/* SPDX-License-Identifier: Apache-2.0
 *
 * The signature that a proxy appends to each program binary that it returns, to recognise the
 * binary later. It is removed before a vendor's library gets the binary.
 */
#ifndef VG_OPENCL_BASE_SIGNED_H
#define VG_OPENCL_BASE_SIGNED_H

#include <string.h>

#include "opencl/base/sha256.h"

#define VG_SIGNED_MAGIC      "\0vgpu-proxy\0bin1"
#define VG_SIGNED_MAGIC_SIZE 16

/* The end of a binary. */
struct vg_signed {
    char magic[VG_SIGNED_MAGIC_SIZE];
    unsigned char device[VG_SHA256_SIZE];  /* digest of the device, its vendor and driver */
    unsigned char options[VG_SHA256_SIZE]; /* digest of the options that it was built with */
    unsigned char mac[VG_SHA256_SIZE];
};

/* Returns the size of a binary without the signature. */
static inline size_t
vg_signed_bare_size(const unsigned char *binary, size_t size)
{
    const size_t bare = size < sizeof(struct vg_signed) ? size : size - sizeof(struct vg_signed);

    return binary && bare < size &&
                   memcmp(binary + bare, VG_SIGNED_MAGIC, VG_SIGNED_MAGIC_SIZE) == 0
               ? bare
               : size;
}

#endif
