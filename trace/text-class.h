/* SPDX-License-Identifier: Apache-2.0
 *
 * Data common to the text lines of one event name: the positions of their fields, and the adapter
 * that reads them.
 */
#ifndef VG_TRACE_TEXT_CLASS_H
#define VG_TRACE_TEXT_CLASS_H

#include <stdbool.h>

#include "trace/adapter.h"
#include "trace/text-body.h"
#include "trace/text-line.h"

/* Event names longer than this are not looked up; the kernel's have up to 63 bytes. */
#define VG_TEXT_EVENT_NAME_MAX 128

#define VG_TEXT_WAKEUP "sched_wakeup"
#define VG_TEXT_WAKING "sched_waking"

struct vg_text_class {
    struct vg_text_span name; /* with "system:"; owned */
    struct vg_text_layout layout;
    struct vg_binding binding;
    struct vg_text_span sample; /* body of its first record, while the class is bound */
    bool is_wakeup, is_waking;
};

/* A line in the form that the adapter's field reader expects. */
struct vg_text_record {
    const struct vg_text_line *line;
    struct vg_text_span values[VG_TEXT_FIELDS_MAX];
};

/* sample is the body of a line with that name. aliases may be NULL. The caller frees the class
 * with vg_text_class_free(). */
struct vg_text_class *vg_text_class_new(struct vg_text_span name, struct vg_text_span sample,
                                        const vg_aliases *aliases);
void vg_text_class_free(void *data);

/* Returns whether a name, with or without its system, denotes the event. */
bool vg_text_class_is(struct vg_text_span name, const char *event);

/* Hash and compare names (struct vg_text_span), for a table of classes. */
unsigned int vg_text_class_hash(const void *data);
int vg_text_class_equal(const void *a, const void *b);

#endif
