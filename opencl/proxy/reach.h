/* SPDX-License-Identifier: Apache-2.0
 *
 * The files that a client's process may open: only those that vendors' libraries need. The reason
 * for each path is stated next to it.
 */
#ifndef VG_OPENCL_PROXY_REACH_H
#define VG_OPENCL_PROXY_REACH_H

#include <stdbool.h>

#include "opencl/proxy/landlock.h"

#define REACH_MAX  256
#define REACH_ROOM "/dev/shm" /* where each process has a private file system */
#define REACH_TMP  REACH_ROOM "/tmp"

struct proxy_reach {
    struct landlock_rule rules[REACH_MAX];
    size_t n;
    char *owned[REACH_MAX]; /* paths of rules that are not constants */
    size_t n_owned;
};

/* Determines the files that may be opened by the libraries named in the .icd files of VENDORS.
 * Returns false with errno if memory is exhausted or there are too many paths. */
bool vg_reach_find(struct proxy_reach *reach, const char *vendors);
void vg_reach_free(struct proxy_reach *reach);

/* Returns whether a rule is for FOLDER, or for something below it. */
bool vg_reach_has(const struct proxy_reach *reach, const char *folder);

#endif
