/* SPDX-License-Identifier: Apache-2.0
 *
 * The proxy's command line.
 */
#ifndef VG_OPENCL_PROXY_OPTIONS_H
#define VG_OPENCL_PROXY_OPTIONS_H

#include <stdbool.h>

#include "opencl/wire/tls.h"

/* Numeric options. */
enum {
    PROXY_ASK_MODE,
    PROXY_BUILD,
    PROXY_BUILD_CPU,
    PROXY_CLIENTS,
    PROXY_DEPTH,
    PROXY_DRAIN,
    PROXY_HOST_MEMORY,
    PROXY_LINGER,
    PROXY_MAX_KERNEL,
    PROXY_MEMORY,
    PROXY_MODE,
    PROXY_OBJECTS,
    PROXY_PENDING,
    PROXY_PINNED,
    PROXY_STAGING,
    PROXY_NUMBERS,
};

/* Texts point into the command line; NULL if the option is not given. */
struct proxy_options {
    unsigned numbers[PROXY_NUMBERS];
    bool is_grouped, is_with_binaries, is_strict, is_traced, is_unconfined, is_warm;
    const char *ask, *binary_key, *sockets, *user, *vendors;
    struct vg_wire_tls_files tls;
    int n_paths;
    char **paths; /* the socket arguments */
};

/* Returns -1, or the exit status if the program should end now, after a message. */
int vg_options_read(struct proxy_options *options, int argc, char **argv);

#endif
