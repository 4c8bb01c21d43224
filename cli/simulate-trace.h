/* SPDX-License-Identifier: Apache-2.0
 *
 * A simulation written as a CTF trace, with the tracepoints of GVT-g and i915 that a host would
 * record: what analyses can be tried on, since the simulator knows the truth. One thread.
 */
#ifndef VG_CLI_SIMULATE_TRACE_H
#define VG_CLI_SIMULATE_TRACE_H

#include <glib.h>

#include "policy/gpusched.h"

/* Runs the scenario to its end and writes dir, which must not be there, or be empty. lose: part of
 * the records, 0..1, that is left out at random and told as lost. The result of the simulation,
 * which the caller frees, or NULL; dir is then as it was. */
struct vg_gpusched_result *vg_simulate_trace_write(const struct vg_gpusched_scenario *scenario,
                                                   const char *dir, double lose, GError **err);

#endif
