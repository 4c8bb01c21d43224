/* SPDX-License-Identifier: Apache-2.0
 *
 * Writes a simulation as a CTF trace, with the GVT-g and i915 tracepoints that a host would
 * record. Analyses can be tested on it, as the simulator knows the correct results. One thread.
 */
#ifndef VG_CLI_SIMULATE_TRACE_H
#define VG_CLI_SIMULATE_TRACE_H

#include <glib.h>

#include "policy/gpusched.h"

/* Runs the scenario to its end and writes dir, which must be empty or not exist. lose: fraction of
 * the records, 0..1, that are dropped at random and reported as lost. Returns the result of the
 * simulation, which the caller frees. On failure returns NULL and leaves dir unchanged. */
struct vg_gpusched_result *vg_simulate_trace_write(const struct vg_gpusched_scenario *scenario,
                                                   const char *dir, double lose, GError **err);

#endif
