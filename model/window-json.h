/* SPDX-License-Identifier: Apache-2.0
 *
 * Figures of a window as JSON, with the same members in analyses of recordings and in the daemon's
 * answers. The callers put the objects. Any thread, as long as no thread changes the window.
 */
#ifndef VG_MODEL_WINDOW_JSON_H
#define VG_MODEL_WINDOW_JSON_H

#include <stdint.h>

#include <json-c/json.h>

#include "model/window.h"

/* Adds "observed_ns", "run_ns", ..., "exits" to the object. Figures that lacks (enum vg_cpu_lack)
 * makes unknown are null. */
void vg_json_add_figures(json_object *object, const struct vg_cpu_figures *figures,
                         unsigned int lacks);

/* Adds "unknown" and "bounds": the names of the figures that are unknown, or only lower bounds,
 * because of lacks. Empty lists are not added. more: other figures of the object; may be NULL. */
void vg_json_add_lacks(json_object *object, unsigned int lacks,
                       const struct vg_figure_beside *more);

/* [{"tid","vcpu", figures}], of struct vg_vcpu_sample, with null for unknown figures. */
json_object *vg_vcpus_to_json(const GArray *vcpus, unsigned int lacks);

/* [{"aggressor","ns","count",...}], of struct vg_lost_to; the window has the names. */
json_object *vg_losses_to_json(const struct vg_window *window, const GArray *lost_to);

/* {"device","engine",...} for a period of this length; the second one also with "pid" and
 * "comm". */
json_object *vg_gpu_to_json(const struct vg_gpu_sample *gpu, int64_t duration_ns);
json_object *vg_gpu_process_to_json(const struct vg_gpu_process_sample *process,
                                    int64_t duration_ns);

/* Adds the main figures, if they are known. */
void vg_json_add_gpu_use(json_object *object, const struct vg_gpu_sample *gpu, int64_t duration_ns);

/* [{"device","engine",...}], of struct vg_gpu_sample, for a period of this length. */
json_object *vg_gpus_to_json(const GArray *gpus, int64_t duration_ns);

/* The same with "pid" and "comm", of struct vg_gpu_process_sample. */
json_object *vg_gpu_processes_to_json(const GArray *processes, int64_t duration_ns);

/* Array of int32_t. */
json_object *vg_cpus_to_json(const GArray *cpus);

#endif
