/* SPDX-License-Identifier: Apache-2.0
 *
 * Where the parts of a text are, and how they lie in time. One thread at a time.
 */
#ifndef VG_TRACE_TEXT_PARTS_H
#define VG_TRACE_TEXT_PARTS_H

#include "trace/text-source.h"

/* Heads behind these begin no part of their own. */
#define VG_TEXT_PARTS_MAX 4096

struct vg_text_part {
    int64_t begin, end;       /* bytes of the unpacked text */
    int64_t begin_ns, end_ns; /* of its records */
    int64_t skip_ns;          /* records up to this time repeat another part; INT64_MIN: none */
    bool begins_recording;    /* all parts before it in time end before it begins */
};

struct vg_text_parts {
    GArray *list; /* struct vg_text_part by time; NULL: the text is to be read as it is */
    bool tells_loss;
    unsigned int repeats; /* parts that repeat records of another one */
};

/* Reads the source to its end, and another one of the same text if that has several heads. */
void vg_text_parts_find(vg_text_source *source, vg_text_source *again, struct vg_text_parts *ret);

#endif
