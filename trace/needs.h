/* SPDX-License-Identifier: Apache-2.0
 *
 * What a recording lacks: adapters declare which events a measure needs, the reader notes which it
 * has seen, and figures follow from both (model/figures.def).
 */
#ifndef VG_TRACE_NEEDS_H
#define VG_TRACE_NEEDS_H

#include <stddef.h>
#include <stdint.h>

#include "model/figures.h"
#include "trace/adapter.h"

/* What is missing where these were seen (VG_SEEN_...), and nothing else; enum vg_cpu_lack. */
unsigned int vg_needs_lacks(uint32_t types);

/* The declarations, one after the other; NULL behind the last one. */
const struct vg_adapter_need *vg_needs_at(size_t i);

/* "run_ns and entries are lower bounds, blocked_ns is unknown": what becomes of the figures of VMs.
 * The caller frees it. */
char *vg_needs_figures_text(unsigned int lacks);

#endif
