/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "tests/unit/text-reading.h"

#include <stdlib.h>
#include <string.h>

void
reading_all(struct reading *r, vg_recording *recording)
{
    struct vg_event event;
    int64_t last_ns = 0;

    assert_non_null(recording);
    r->recording = recording;
    r->events = g_array_new(FALSE, FALSE, sizeof(event));
    while (vg_recording_next(recording, &event, NULL) == 1) {
        assert_true(event.ts_ns >= last_ns);
        last_ns = event.ts_ns;
        g_array_append_val(r->events, event);
    }
}

void
reading_bytes(struct reading *r, const char *text, size_t size)
{
    g_autoptr(GError) err = NULL;
    vg_recording *recording = vg_text_open_memory("test", text, size, &err);

    if (err)
        fail_msg("%s", err->message);
    reading_all(r, recording);
}

void
reading_text(struct reading *r, const char *text)
{
    reading_bytes(r, text, strlen(text));
}

void
reading_done(struct reading *r)
{
    vg_recording_free(r->recording);
    g_array_unref(r->events);
}

const struct vg_event *
reading_at(const struct reading *r, unsigned int i)
{
    assert_true(i < r->events->len);
    return &g_array_index(r->events, struct vg_event, i);
}

const struct vg_trace_problem *
reading_problem(const struct reading *r, unsigned int i)
{
    assert_true(i < r->recording->problems.list->len);
    return g_ptr_array_index(r->recording->problems.list, i);
}

struct vg_event
reading_one(const char *line)
{
    struct reading r;

    reading_text(&r, line);
    /* A CPU that the line names has no records: these are lost. */
    if (r.events->len == 2 && reading_at(&r, 0)->type == VG_EVENT_LOST)
        g_array_remove_index(r.events, 0);
    if (r.events->len != 1 || r.recording->problems.list->len != 0)
        fail_msg("%u events, %u problems in: %s", r.events->len, r.recording->problems.list->len,
                 line);
    struct vg_event event = *reading_at(&r, 0);
    reading_done(&r);
    return event;
}

void
assert_head(const struct vg_event *event, enum vg_event_type type, int64_t ts_ns, int cpu, int tid,
            int pid)
{
    assert_int_equal(event->type, type);
    assert_int_equal(event->ts_ns, ts_ns);
    assert_int_equal(event->cpu, cpu);
    assert_int_equal(event->tid, tid);
    assert_int_equal(event->pid, pid);
}

char *
reading_data_path(const char *name)
{
    const char *srcdir = getenv("VG_SRCDIR");

    assert_non_null(srcdir);
    return g_build_filename(srcdir, "tests", "data", "text", name, NULL);
}
