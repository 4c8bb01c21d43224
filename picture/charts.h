/* SPDX-License-Identifier: Apache-2.0
 *
 * Two charts of a recording, for reports, drawn during its analysis: the use of GPUs and CPUs over
 * time, and the GPU requests over time. Memory does not grow with the recording: steps become
 * longer, and short stages of requests that are close together are merged. One thread at a time.
 */
#ifndef VG_PICTURE_CHARTS_H
#define VG_PICTURE_CHARTS_H

#include "model/window.h"
#include "trace/recording.h"
#include "trace/window-read.h"

/* Maximum number of separate stages of requests. */
#define VG_CHARTS_INTERVALS_MAX 32768

typedef struct vg_charts vg_charts;

/* The recording is borrowed. */
vg_charts *vg_charts_new(const vg_recording *recording);
void vg_charts_free(vg_charts *charts);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(vg_charts, vg_charts_free)

/* See struct vg_window_watch. The topology is borrowed until the end. */
void vg_charts_begin(vg_charts *charts, const vg_window_reader *reader, int64_t begin_ns);
void vg_charts_gpu(vg_charts *charts, const struct vg_gpu_change *change);
void vg_charts_time(vg_charts *charts, int64_t t_ns);

/* The part ends. whole: the measurements of the whole part. Afterwards, only the drawing functions
 * may be called. */
void vg_charts_finish(vg_charts *charts, const struct vg_window *whole);

/* Returns whether there was any GPU request. Without requests, the second chart is empty. */
bool vg_charts_have_requests(const vg_charts *charts);

void vg_charts_draw_utilisation(const vg_charts *charts, const char *host, GString *out);
void vg_charts_draw_requests(vg_charts *charts, const char *host, GString *out);

#endif
