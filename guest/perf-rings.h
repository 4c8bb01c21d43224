/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads kernel events through perf's ring buffers: files that a process maps as code, and function
 * calls through uprobes. Each CPU has two rings, so that many mappings do not displace calls. A
 * uprobe is defined once in tracefs and opened on each CPU. perf's own uprobes would need one per
 * CPU, and newer kernels take 20 ms to remove each. Belongs to one thread.
 */
#ifndef VG_GUEST_PERF_RINGS_H
#define VG_GUEST_PERF_RINGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

typedef struct vg_perf_rings vg_perf_rings;

struct vg_perf_ops {
    /* A process has mapped code from this file. time_ns is since boot. */
    void (*mapped)(void *user, pid_t pid, uint64_t time_ns, const char *path);
    /* A process has called the function whose probe has this mark. values: the values that were
     * read from the call. */
    void (*called)(void *user, pid_t pid, uint32_t mark, const uint64_t *values, size_t n);
    /* Some records of calls, or of mappings, were lost. */
    void (*lost)(void *user, bool calls);
};

/* Opens both rings of each CPU. Returns NULL and the reason if that is impossible. */
vg_perf_rings *vg_perf_rings_open(char *ret_why, size_t size);
void vg_perf_rings_close(vg_perf_rings *rings);

#define VG_PERF_VALUES_MAX 6

/* A probe at the first instruction of a function. */
struct vg_perf_point {
    /* The place in its file. */
    uint64_t offset;
    uint32_t mark;
    /* The values to read from each call, separated by blanks. "caller" is its return address.
     * "arg1" is argument 1, where 0 is the first. "+8(arg1)" is the 64-bit number 8 bytes after
     * the address in that argument, or arbitrary if it cannot be read. */
    const char *values;
    /* Calls whose second value is less are not reported; 0 for all. The kernel filters them. */
    uint64_t at_least;
};

/* Places a probe in an open file, on each CPU. Returns 0, or an errno with nothing placed. */
int vg_perf_rings_probe(vg_perf_rings *rings, int file, const struct vg_perf_point *point);

/* Removes all probes whose mark, without the bits in mask, equals this. */
void vg_perf_rings_remove(vg_perf_rings *rings, uint32_t mark, uint32_t mask);

/* Reports the events since the last call. */
void vg_perf_rings_read(vg_perf_rings *rings, const struct vg_perf_ops *ops, void *user);

/* Returns whether the machine's set of CPUs has changed since the rings were opened. */
bool vg_perf_rings_are_stale(const vg_perf_rings *rings);

#endif
