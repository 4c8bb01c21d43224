/* SPDX-License-Identifier: Apache-2.0
 *
 * What the adapters of all GPU families have in common: how devices, engines, addresses and fences
 * are told. Each function reads what the record has and leaves the rest of the event as it is.
 */
#ifndef VG_TRACE_ADAPT_GPU_H
#define VG_TRACE_ADAPT_GPU_H

#include "trace/adapter.h"

/* An empty GPU event with the operation of the adapter and the comm of the recording thread. */
void vg_gpu_event_init(const struct vg_binding *binding, struct vg_adapt_env *env,
                       const void *record, struct vg_event *event);

/* A device that is told as a number is "card<n>" (the minor of its DRM node). */
void vg_gpu_read_device(const struct vg_binding *binding, struct vg_adapt_env *env,
                        const void *record, struct vg_event *event);

/* i915's numbering of engines: by class and instance of the user API, by "class:instance" in text,
 * or by ring; "rcs0", "vcs1", ... */
void vg_gpu_read_i915_engine(const struct vg_binding *binding, struct vg_adapt_env *env,
                             const void *record, struct vg_event *event);

/* A ring of the time when an engine had one number; all VGPU records have it. */
void vg_gpu_name_ring(struct vg_adapt_env *env, int64_t ring, struct vg_event *event);

/* An engine that is told by name, or by the address of its name: it is called by that until its
 * name is known. *ret_address, which may be NULL: the address, or 0. */
bool vg_gpu_read_engine_name(const struct vg_binding *binding, struct vg_adapt_env *env,
                             enum vg_slot slot, const void *record, struct vg_event *event,
                             uint64_t *ret_address);

/* A ring's name has this address; 0: none. */
void vg_gpu_learn_ring(struct vg_adapt_env *env, uint64_t address, uint16_t name);

/* context and seqno. */
void vg_gpu_read_seqno(const struct vg_binding *binding, const void *record,
                       struct vg_event *event);

/* The slot as an address, as text has it with or without 0x; 0: absent, or NULL. */
uint64_t vg_gpu_read_address(const struct vg_binding *binding, enum vg_slot slot,
                             const void *record);

/* VG_SLOT_FENCE: an address, or context and seqno. */
void vg_gpu_read_fence(const struct vg_binding *binding, const void *record,
                       struct vg_event *event);

#endif
