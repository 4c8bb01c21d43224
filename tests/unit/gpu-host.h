/* SPDX-License-Identifier: Apache-2.0
 *
 * A GPU ledger under test, and what it tells as it happens: whatever a test does, in the end that
 * must add up to what was measured. For cmocka.
 */
#ifndef VG_TESTS_UNIT_GPU_HOST_H
#define VG_TESTS_UNIT_GPU_HOST_H

#include "ledger/gpu-ledger.h"

#define MS INT64_C(1000000)

struct gpu_host {
    vg_topology *topology;
    vg_names *names;
    vg_gpu_ledger *ledger;
    struct told *told; /* by request: what the observer heard last */
    GHashTable *sums;  /* process id -> struct told_sum, owned */
};

/* Of cmocka. */
int gpu_host_setup(void **state);
int gpu_host_teardown(void **state);

/* The period begins. */
void gpu_host_begin(struct gpu_host *host, int64_t t_ns);

/* A record of card0's rcs0, by nobody. */
struct vg_event gpu_host_record(struct gpu_host *host, int64_t ts_ns, enum vg_gpu_op op);

/* The caller clears *ret. */
void gpu_host_read(struct gpu_host *host, int64_t end_ns, struct vg_window *ret);

struct vg_gpu_ledger_stats gpu_host_stats(const struct gpu_host *host);

/* What uses an engine: NULL, "all"; a VM by its name; a process by its number. NULL: not at all. */
const struct vg_gpu_sample *gpu_host_row(const struct vg_window *window, const char *user,
                                         const char *engine);

#endif
