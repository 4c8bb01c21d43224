/* SPDX-License-Identifier: Apache-2.0
 *
 * The parts of a text and their periods. One thread at a time.
 */
#ifndef VG_TRACE_TEXT_PARTS_H
#define VG_TRACE_TEXT_PARTS_H

#include "trace/text-source.h"

/* Further headers do not start a new part. */
#define VG_TEXT_PARTS_MAX 4096

struct vg_text_part {
    int64_t begin, end;       /* bytes of the unpacked text */
    int64_t begin_ns, end_ns; /* of its records */
    int64_t skip_ns;       /* records up to this time repeat another part; INT64_MIN if none do */
    bool begins_recording; /* all earlier parts end before it starts */
};

struct vg_text_parts {
    GArray *list; /* struct vg_text_part by time; NULL if the text can be read in its order */
    bool tells_loss;
    unsigned int repeats; /* parts that repeat records of another part */
};

/* Reads the source to its end. If the text has several headers, also reads `again`, a second
 * source of it. */
void vg_text_parts_find(vg_text_source *source, vg_text_source *again, struct vg_text_parts *ret);

#endif
