/* SPDX-License-Identifier: Apache-2.0
 *
 * Decodes the raw data of perf's tracepoint samples. The tracepoint's `format` file in tracefs
 * describes their layout. This code parses it and provides a field reader for adapters
 * (trace/adapter.h). The kernel's data are trusted no more than other input. One thread at a
 * time.
 */
#ifndef VG_TRACE_PERF_FORMAT_H
#define VG_TRACE_PERF_FORMAT_H

#include <stddef.h>
#include <stdint.h>

#include <glib.h>

#include "trace/adapter.h"

/* Maximum number of usable fields of a tracepoint; kernels have up to 40. */
#define VG_PERF_FIELDS_MAX 64
/* Maximum size of a format file. kvm_exit's has 6 KiB. */
#define VG_PERF_FORMAT_MAX (64 * 1024)

typedef struct vg_perf_format vg_perf_format;

/* text: the contents of a `format` file; where: its name for messages. Returns NULL and *err if
 * the text is malformed or incomplete. */
vg_perf_format *vg_perf_format_parse(const char *text, const char *where, GError **err);
void vg_perf_format_free(vg_perf_format *format); /* NULL is fine */
G_DEFINE_AUTOPTR_CLEANUP_FUNC(vg_perf_format, vg_perf_format_free)

/* Return the tracepoint's name and its id, which is at the start of its raw data. */
const char *vg_perf_format_name(const vg_perf_format *format);
uint16_t vg_perf_format_id(const vg_perf_format *format);

/* Returns the id at the start of raw data, or 0, which is not a valid id, if the data are too
 * short. */
uint16_t vg_perf_raw_id(const void *raw, size_t size);

/* A record for the field reader. If it is shorter than its format, the fields at the end are
 * absent. */
struct vg_perf_record {
    const vg_perf_format *format;
    const void *raw; /* borrowed, of any alignment */
    size_t size;
    int32_t pid, tid; /* the thread that wrote it, from perf's sample; -1 if not known */
};

/* event_class is the vg_perf_format, which must outlive bindings; records are struct
 * vg_perf_record. */
extern const struct vg_field_reader vg_perf_fields;

/* Returns the mount point of tracefs, found in the usual places, or NULL and *err with advice. */
const char *vg_tracefs_root(GError **err);

#endif
