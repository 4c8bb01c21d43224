/* SPDX-License-Identifier: Apache-2.0
 *
 * The fields of an event in trace text. The same event has several spellings ("prev_pid=7" by the
 * kernel, "comm:7 [120]" by a trace-cmd plug-in). A table of spellings by event name maps each to
 * the tracepoint's field names. Events that are not in the table are read as "key=value" pairs.
 * Reentrant.
 */
#ifndef VG_TRACE_TEXT_BODY_H
#define VG_TRACE_TEXT_BODY_H

#include "trace/text-source.h"

/* Maximum number of fields that can be requested of one event name, and of spellings of one
 * event. */
#define VG_TEXT_FIELDS_MAX    32
#define VG_TEXT_SPELLINGS_MAX 6
#define VG_TEXT_PARTS_MAX     8

/* Maximum length of a text value between two other fields; comms have up to 15 bytes. */
#define VG_TEXT_VALUE_MAX 255

/* A field of a spelling, and the text before it. */
struct vg_text_part {
    struct vg_text_span before;
    struct vg_text_span field;
    char kind; /* 't' text, 'i' integer, 's' task state, 'w' one word */
};

struct vg_text_spelling {
    struct vg_text_part parts[VG_TEXT_PARTS_MAX];
    size_t n_parts;
    struct vg_text_span behind;     /* text after the last field */
    int8_t slot[VG_TEXT_PARTS_MAX]; /* of the part's field among the requested fields, or -1 */
};

/* How to read the events of one name. */
struct vg_text_layout {
    struct vg_text_spelling spellings[VG_TEXT_SPELLINGS_MAX];
    size_t n_spellings;
    size_t likely; /* the spelling that matched last */
    bool words;    /* "vcpu 0 reason X": pairs of a word and its value */
    bool known;    /* the event is in the table */
    size_t n_wanted;
    char *wanted[VG_TEXT_FIELDS_MAX]; /* owned */
};

/* event is the name without "system:". A zeroed layout may be passed to clear. */
void vg_text_layout_init(struct vg_text_layout *layout, struct vg_text_span event);
void vg_text_layout_clear(struct vg_text_layout *layout);

/* Requests a field. Returns its index in the values that vg_text_body_read() fills from now on.
 * Returns -1 if neither a spelling of this event nor the sample body (its first) has the field. */
int vg_text_layout_want(struct vg_text_layout *layout, const char *field,
                        struct vg_text_span sample);

/* Fills layout->n_wanted values. A value that the body does not have gets s == NULL. */
void vg_text_body_read(struct vg_text_layout *layout, struct vg_text_span body,
                       struct vg_text_span *values);

/* Returns where the number in "0x2eba (11962)" starts, which ends at end, or NULL. tracefs prints
 * numbers like this with its option "fields". ret_decimal may be NULL. */
const char *vg_text_hex_pair(const char *begin, const char *end, struct vg_text_span *ret_decimal);

#endif
