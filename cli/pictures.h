/* SPDX-License-Identifier: Apache-2.0
 *
 * The pictures that an analysis can produce: a trace for Perfetto's viewer, and the charts of
 * picture/charts.h in two files. One thread at a time.
 *
 * trace/window-read passes on the ledgers' live observations, so that drawings add up to the
 * figures:
 *
 *   ledger/cpu-ledger-watch  a thread's activity changes -> viewer-cpu: tracks of vCPUs and CPUs
 *   ledger/gpu-life          a request's activity changes -> gpu-slices: slices, levels
 *                             -> viewer-gpu: tracks of engines and queues
 *                             -> charts: intervals (intervals), shares (step-sums)
 *   before each event       charts: activity of VMs' vCPUs since the last step (a peek)
 *   each window             viewer: counters
 *   at the end              viewer -> trace/perfetto-write; charts-draw -> svg
 */
#ifndef VG_CLI_PICTURES_H
#define VG_CLI_PICTURES_H

#include "cli/analysis.h"

typedef struct vg_pictures vg_pictures;

/* Checks in advance whether the named files can be created. Either may be NULL. */
int vg_pictures_check(const char *perfetto, const char *svg_prefix, GError **err);

/* The recording is borrowed. */
vg_pictures *vg_pictures_open(const char *perfetto, const char *svg_prefix,
                              const vg_recording *recording, GError **err);
void vg_pictures_free(vg_pictures *pictures);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(vg_pictures, vg_pictures_free)

/* For the analysis; borrowed. */
const struct vg_window_watch *vg_pictures_watch(const vg_pictures *pictures);
int vg_pictures_window(vg_pictures *pictures, const struct vg_window *window, GError **err);

/* Writes the files after the analysis. Reports on stderr what they omit. */
int vg_pictures_write(vg_pictures *pictures, const struct vg_analysis *analysis, const char *host,
                      GError **err);

#endif
