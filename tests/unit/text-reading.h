/* SPDX-License-Identifier: Apache-2.0
 *
 * For the tests of trace text: reads a text to its end and holds what came out of it.
 */
#ifndef VG_TESTS_TEXT_READING_H
#define VG_TESTS_TEXT_READING_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <glib.h>

#include "model/event.h"
#include "trace/text-read.h"

struct reading {
    vg_recording *recording;
    GArray *events; /* struct vg_event */
};

/* Fails the test if the text cannot be opened or time runs backwards in what is delivered. */
void reading_all(struct reading *r, vg_recording *recording);
void reading_bytes(struct reading *r, const char *text, size_t size);
void reading_text(struct reading *r, const char *text);
void reading_done(struct reading *r);

const struct vg_event *reading_at(const struct reading *r, unsigned int i);
const struct vg_trace_problem *reading_problem(const struct reading *r, unsigned int i);

/* One line that is one event, read without any problem. */
struct vg_event reading_one(const char *line);

void assert_head(const struct vg_event *event, enum vg_event_type type, int64_t ts_ns, int cpu,
                 int tid, int pid);

/* tests/data/text/NAME of the source tree; the caller frees it. */
char *reading_data_path(const char *name);

#endif
