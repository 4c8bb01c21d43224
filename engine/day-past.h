/* SPDX-License-Identifier: Apache-2.0
 *
 * The days of VMs before vgpud started. One thread at a time.
 */
#ifndef VG_ENGINE_DAY_PAST_H
#define VG_ENGINE_DAY_PAST_H

#include <stdbool.h>
#include <stdint.h>

#include <glib.h>

#include "engine/vm-track.h"

/* The longest gap in a day, as a number of means. The part of the day before a longer gap is
 * dropped. */
#define VG_DAY_GAP_MAX 12

typedef struct vg_day_past vg_day_past;

vg_day_past *vg_day_past_new(void);
void vg_day_past_free(vg_day_past *past); /* NULL is fine */
G_DEFINE_AUTOPTR_CLEANUP_FUNC(vg_day_past, vg_day_past_free)

/* Adds the mean of a VM over VG_ENGINE_DAY_NS. Call it in chronological order. end_ns is since the
 * epoch. cores: its demand; gpu: its GPU intensity, or -1 if it is unknown. A gap repeats the mean
 * before it. */
void vg_day_past_add(vg_day_past *past, const char *uuid, int64_t end_ns, double cores, double gpu);

/* Adds the past before the day of a VM that has been measured since vgpud started. offset_ns: epoch
 * - the clock of the windows. */
void vg_day_past_restore(const vg_day_past *past, int64_t offset_ns, struct vg_vm_track *track);

/* Adds the VMs without a track to a list of departed VMs. */
void vg_day_past_depart(const vg_day_past *past, int64_t offset_ns, const GPtrArray *tracks,
                        GPtrArray *departed);

#endif
