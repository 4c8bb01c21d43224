/* SPDX-License-Identifier: Apache-2.0
 *
 * The adapters' access to a babeltrace2 event: fields by position, which is determined once per
 * event class. One thread at a time.
 */
#ifndef VG_TRACE_CTF_FIELDS_H
#define VG_TRACE_CTF_FIELDS_H

#include <stdbool.h>

#include <babeltrace2/babeltrace.h>

#include "trace/adapter.h"

/* The event class that fields are looked up in. */
struct ctf_event_class {
    const bt_event_class *event_class;
    bool comm_from_switches; /* the trace has sched_switch: procname contexts are not worth reading
                              */
};

/* The record of the adapters is a `const bt_event *`, the class a `struct ctf_event_class *`. */
extern const struct vg_field_reader ctf_field_reader;

/* An integer member of a packet context or any other structure field, by name. */
bool ctf_struct_int(const bt_field *structure, const char *name, int64_t *ret_value);

#endif
