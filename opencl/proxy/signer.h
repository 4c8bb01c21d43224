/* SPDX-License-Identifier: Apache-2.0
 *
 * The key for signing the binaries that the proxy hands out, and for recognising them later. Only
 * the proxy's own process has the key: forked processes do not inherit its memory. Used by one
 * thread.
 */
#ifndef VG_OPENCL_PROXY_SIGNER_H
#define VG_OPENCL_PROXY_SIGNER_H

#include <stdbool.h>

#include "opencl/base/sha256.h"

/* Limits of the file with the key, in bytes. */
#define PROXY_KEY_MIN 32
#define PROXY_KEY_MAX 4096

struct proxy_signer {
    unsigned char *key; /* VG_SHA256_SIZE bytes in a separate page that is excluded from forks */
};

/* Reads the key from PATH, and creates the file if it does not exist. If PATH is NULL, generates a
 * key that is lost when the process ends. Returns false after logging a message. */
bool vg_signer_open(struct proxy_signer *signer, const char *path);

/* Signs a digest for a socket's VM. VM is its name; if it is NULL, SOCKET is used instead. */
void vg_signer_sign(const struct proxy_signer *signer, const char *vm, const char *socket,
                    const unsigned char digest[VG_SHA256_SIZE], unsigned char mac[VG_SHA256_SIZE]);

#endif
