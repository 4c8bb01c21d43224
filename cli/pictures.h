/* SPDX-License-Identifier: Apache-2.0
 *
 * The pictures that an analysis can make on the way: a trace for the viewer of Perfetto, and the
 * charts of picture/charts.h in two files. One thread at a time.
 *
 * trace/window-read hands on what the ledgers tell as it happens, so that what is drawn adds up to
 * the figures:
 *
 *   ledger/cpu-ledger-watch  a thread does something else -> viewer-cpu: tracks of vCPUs and CPUs
 *   ledger/gpu-life          a request does something else -> gpu-slices: slices, levels
 *                             -> viewer-gpu: tracks of engines and queues
 *                             -> charts: intervals (intervals), shares (step-sums)
 *   before each event       charts: what did VMs' vCPUs do since the last step? (a peek)
 *   each window             viewer: counters
 *   at the end              viewer -> trace/perfetto-write; charts-draw -> svg
 */
#ifndef VG_CLI_PICTURES_H
#define VG_CLI_PICTURES_H

#include "cli/analysis.h"

typedef struct vg_pictures vg_pictures;

/* Whether there is a place for the files that are named, to know before the work is done. Either
 * may be NULL. */
int vg_pictures_check(const char *perfetto, const char *svg_prefix, GError **err);

/* The recording is borrowed. */
vg_pictures *vg_pictures_open(const char *perfetto, const char *svg_prefix,
                              const vg_recording *recording, GError **err);
void vg_pictures_free(vg_pictures *pictures);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(vg_pictures, vg_pictures_free)

/* For the analysis; borrowed. */
const struct vg_window_watch *vg_pictures_watch(const vg_pictures *pictures);
int vg_pictures_window(vg_pictures *pictures, const struct vg_window *window, GError **err);

/* The analysis has been done: writes the files. Says on stderr what is not in them. */
int vg_pictures_write(vg_pictures *pictures, const struct vg_analysis *analysis, const char *host,
                      GError **err);

#endif
