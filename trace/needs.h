/* SPDX-License-Identifier: Apache-2.0
 *
 * Determines which data are missing in a recording. Adapters declare which events a measurement
 * needs, and the reader records which events exist. Both together determine which figures are valid
 * (model/figures.def).
 */
#ifndef VG_TRACE_NEEDS_H
#define VG_TRACE_NEEDS_H

#include <stddef.h>
#include <stdint.h>

#include "model/figures.h"
#include "trace/adapter.h"

/* Returns what is missing if only these event types (VG_SEEN_...) were recorded; enum
 * vg_cpu_lack. */
unsigned int vg_needs_lacks(uint32_t types);

/* Returns the declarations one by one, then NULL. */
const struct vg_adapter_need *vg_needs_at(size_t i);

/* Describes the effect on VMs' figures, as in "run_ns and entries are lower bounds, blocked_ns is
 * unknown". The caller frees the text. */
char *vg_needs_figures_text(unsigned int lacks);

#endif
