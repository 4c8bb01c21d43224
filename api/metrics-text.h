/* SPDX-License-Identifier: Apache-2.0
 *
 * Lines in Prometheus' text format 0.0.4. Any thread.
 */
#ifndef VG_API_METRICS_TEXT_H
#define VG_API_METRICS_TEXT_H

#include <glib.h>

#include "model/snapshot.h"

void vg_metrics_family(GString *out, const char *name, const char *type, const char *help);

/* labels: label="text",..., or NULL. */
void vg_metrics_value(GString *out, const char *name, const char *labels, double number);

/* Writes a family with one value without labels. */
void vg_metrics_single(GString *out, const char *name, const char *type, const char *help,
                       double number);

/* Returns name="text", with characters escaped that labels may not contain. The caller frees it. */
char *vg_metrics_label(const char *name, const char *text);

/* Adds a window's figures of OpenCL proxies: struct vg_proxy_use. */
void vg_metrics_add_proxies(GString *out, const GArray *proxies);

/* Adds the largest vGPU profiles with a free slot, of each GPU and host. */
void vg_metrics_add_places(GString *out, const vg_snapshot *snapshot);

#endif
