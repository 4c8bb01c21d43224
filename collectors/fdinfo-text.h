/* SPDX-License-Identifier: Apache-2.0
 *
 * Parses the kernel's text about an open file of a DRM device in /proc/PID/fdinfo/FD, with the
 * keys of Documentation/gpu/drm-usage-stats.rst. Pure. The text is not trusted: malformed lines
 * are ignored. Any thread.
 */
#ifndef VG_COLLECTORS_FDINFO_TEXT_H
#define VG_COLLECTORS_FDINFO_TEXT_H

#include <stdbool.h>
#include <stdint.h>

#include "model/window.h"

/* Limits of one client; further entries are ignored. amdgpu has the most, 9 engines and 6
 * regions. */
#define VG_FDINFO_ENGINES_MAX 32
#define VG_FDINFO_REGIONS_MAX 32
/* Longer texts are truncated. The longest is xe's with 2 KiB. */
#define VG_FDINFO_TEXT_MAX 16384

struct vg_fdinfo_engine {
    char name[sizeof(((struct vg_gpu_sample *)NULL)->engine)];
    bool has_busy;
    bool has_cycles; /* has both counters of cycles */
    uint64_t busy_ns;
    uint64_t cycles;
    uint64_t total_cycles; /* cycles that elapsed during the same time */
    uint64_t capacity;     /* number of identical engines that this entry represents, at least 1 */
};

struct vg_fdinfo {
    char driver[32];
    char device[sizeof(((struct vg_gpu_sample *)NULL)->device)]; /* PCI address, or the driver */
    bool has_client;
    uint64_t client; /* unique for its device */
    bool tells_memory;
    int64_t memory_bytes; /* use of the device's own memory; of all memory if it has none */
    unsigned n_engines;
    struct vg_fdinfo_engine engines[VG_FDINFO_ENGINES_MAX]; /* those with a counter */
};

/* Parses a NUL-terminated text. Returns false if it does not describe a DRM file. */
bool vg_fdinfo_parse(const char *text, struct vg_fdinfo *ret);

/* Returns whether a text is from a driver older than the common keys: amdgpu in Linux 5.14 to
 * 5.18. Such a text does not identify the client. */
bool vg_fdinfo_is_old(const char *text);

#endif
