/* SPDX-License-Identifier: Apache-2.0
 *
 * The raw data of perf's tracepoint samples, whose layout is in the `format` file of the tracepoint
 * in tracefs: parsed, and shown to adapters (trace/adapter.h) as a field reader. What a kernel
 * writes is not trusted more than any other input. One thread at a time.
 */
#ifndef VG_TRACE_PERF_FORMAT_H
#define VG_TRACE_PERF_FORMAT_H

#include <stddef.h>
#include <stdint.h>

#include <glib.h>

#include "trace/adapter.h"

/* Fields of one tracepoint that are of use; kernels have up to 40. */
#define VG_PERF_FIELDS_MAX 64
/* Format files are below 64 KiB: kvm_exit's has 6. */
#define VG_PERF_FORMAT_MAX (64 * 1024)

typedef struct vg_perf_format vg_perf_format;

/* text: of a `format` file; where: its name for messages. NULL and *err: it is not one, or does not
 * say what is needed. */
vg_perf_format *vg_perf_format_parse(const char *text, const char *where, GError **err);
void vg_perf_format_free(vg_perf_format *format); /* NULL is fine */
G_DEFINE_AUTOPTR_CLEANUP_FUNC(vg_perf_format, vg_perf_format_free)

/* The tracepoint's name, and its number, with which its raw data begins. */
const char *vg_perf_format_name(const vg_perf_format *format);
uint16_t vg_perf_format_id(const vg_perf_format *format);

/* The number with which raw data begins; 0, which is none, if it is too short. */
uint16_t vg_perf_raw_id(const void *raw, size_t size);

/* A record for the field reader. Shorter than its format says, it lacks the fields at its end. */
struct vg_perf_record {
    const vg_perf_format *format;
    const void *raw; /* borrowed, of any alignment */
    size_t size;
    int32_t pid, tid; /* who wrote it, as perf's sample says; -1: not known */
};

/* event_class is the vg_perf_format, which must outlive bindings; records are struct
 * vg_perf_record. */
extern const struct vg_field_reader vg_perf_fields;

/* Where tracefs is: one of its usual places, or NULL and *err, which says what would help. */
const char *vg_tracefs_root(GError **err);

#endif
