/* SPDX-License-Identifier: Apache-2.0
 *
 * Files that the keeper found in its cache folder. Each client's process gets a copy of them.
 */
#ifndef VG_OPENCL_PROXY_SEED_H
#define VG_OPENCL_PROXY_SEED_H

#include <stddef.h>
#include <stdint.h>

#define SEED_FILES_MAX 64
#define SEED_PATH_MAX  128                /* bytes, with the terminator */
#define SEED_BYTES_MAX ((size_t)16 << 20) /* of all files */

struct proxy_seed_file {
    char path[SEED_PATH_MAX]; /* relative to the cache folder */
    uint64_t at, size;        /* bytes in the seed */
};

/* Files for the cache folder of each client's process. */
struct proxy_seed {
    unsigned n;
    struct proxy_seed_file files[SEED_FILES_MAX];
    unsigned char *bytes; /* owned */
};

/* Writes the files to FOLDER, which exists. A file that cannot be written is left out: the vendor's
 * library then creates it again. */
void vg_seed_write(const struct proxy_seed *seed, const char *folder);

#endif
