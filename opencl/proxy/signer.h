/* SPDX-License-Identifier: Apache-2.0
 *
 * The key by which the proxy signs the binaries that it hands out, and knows them again. Only the
 * proxy's own process has it: no process that it forks has that memory. Used by one thread.
 */
#ifndef VG_OPENCL_PROXY_SIGNER_H
#define VG_OPENCL_PROXY_SIGNER_H

#include <stdbool.h>

#include "opencl/base/sha256.h"

/* Limits of the file with the key, in bytes. */
#define PROXY_KEY_MIN 32
#define PROXY_KEY_MAX 4096

struct proxy_signer {
    unsigned char *key; /* VG_SHA256_SIZE bytes in a page of their own, which is not forked */
};

/* Reads the key from PATH, where it is made if there is no such file; NULL: makes one that ends
 * with the process. False, after a message. */
bool vg_signer_open(struct proxy_signer *signer, const char *path);

/* Signs a digest for the VM of a socket; VM is its name, or NULL, and then SOCKET stands for it. */
void vg_signer_sign(const struct proxy_signer *signer, const char *vm, const char *socket,
                    const unsigned char digest[VG_SHA256_SIZE], unsigned char mac[VG_SHA256_SIZE]);

#endif
