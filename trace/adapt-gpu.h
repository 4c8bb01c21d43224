/* SPDX-License-Identifier: Apache-2.0
 *
 * Code common to the adapters of all GPU families: how records describe devices, engines,
 * addresses and fences. Each function reads what the record has and leaves the other members of
 * the event unchanged.
 */
#ifndef VG_TRACE_ADAPT_GPU_H
#define VG_TRACE_ADAPT_GPU_H

#include "trace/adapter.h"

/* Initialises an empty GPU event with the adapter's operation and the comm of the recording
 * thread. */
void vg_gpu_event_init(const struct vg_binding *binding, struct vg_adapt_env *env,
                       const void *record, struct vg_event *event);

/* Reads the device. A device given as a number becomes "card<n>" (the minor of its DRM node). */
void vg_gpu_read_device(const struct vg_binding *binding, struct vg_adapt_env *env,
                        const void *record, struct vg_event *event);

/* Reads an i915 engine, given by class and instance of the user API, as "class:instance" in text,
 * or by ring. The result is "rcs0", "vcs1", ... */
void vg_gpu_read_i915_engine(const struct vg_binding *binding, struct vg_adapt_env *env,
                             const void *record, struct vg_event *event);

/* Sets the engine from a ring number, as used when engines had only one number and in all VGPU
 * records. */
void vg_gpu_name_ring(struct vg_adapt_env *env, int64_t ring, struct vg_event *event);

/* Reads an engine given by name or by the address of its name. Until the name is known, the
 * address serves as the name. Sets *ret_address, which may be NULL, to the address or 0. */
bool vg_gpu_read_engine_name(const struct vg_binding *binding, struct vg_adapt_env *env,
                             enum vg_slot slot, const void *record, struct vg_event *event,
                             uint64_t *ret_address);

/* Stores the address of a ring's name; 0 is ignored. */
void vg_gpu_learn_ring(struct vg_adapt_env *env, uint64_t address, uint16_t name);

/* Reads context and seqno. */
void vg_gpu_read_seqno(const struct vg_binding *binding, const void *record,
                       struct vg_event *event);

/* Reads the slot as an address, in text with or without 0x. Returns 0 if it is absent or NULL. */
uint64_t vg_gpu_read_address(const struct vg_binding *binding, enum vg_slot slot,
                             const void *record);

/* Reads VG_SLOT_FENCE, which is an address or context and seqno. */
void vg_gpu_read_fence(const struct vg_binding *binding, const void *record,
                       struct vg_event *event);

#endif
