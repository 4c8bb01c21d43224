/* SPDX-License-Identifier: Apache-2.0
 *
 * Parses one line of trace text: its kind, and everything before an event's own fields. Knows the
 * columns of tracefs, trace-cmd and perf script, but not the events. Reentrant.
 */
#ifndef VG_TRACE_TEXT_LINE_H
#define VG_TRACE_TEXT_LINE_H

#include "trace/text-source.h"

enum vg_text_kind {
    VG_TEXT_SKIP,    /* blank, or part of a call chain: belongs to trace text but has no
                        information */
    VG_TEXT_HEADER,  /* the start of a trace, which may have no events */
    VG_TEXT_COMMENT, /* "#" in column 0, where no record has its name */
    VG_TEXT_EVENT,
    VG_TEXT_PROCESS, /* perf's own record of a process; event and body are set as for an event */
    VG_TEXT_LOST,
    VG_TEXT_COUNTER, /* an event whose time is a count without a unit, not seconds */
    VG_TEXT_UNKNOWN
};

struct vg_text_line {
    int64_t ts_ns;             /* LOST: VG_NONE if the line has no time */
    int64_t lost;              /* LOST: dropped events; 0 if not stated */
    int32_t cpu;               /* LOST: VG_NONE if not stated */
    int32_t tid;               /* VG_NONE if the recorder did not know it */
    int32_t tgid;              /* VG_NONE if not in the line */
    const char *impossible;    /* EVENT, LOST: why the line is not valid, or NULL; static */
    struct vg_text_span label; /* EVENT, LOST: trace-cmd's file name; empty if none */
    struct vg_text_span comm;  /* empty if not known */
    struct vg_text_span event; /* empty for a line of another tracer, which has no event name */
    struct vg_text_span body;
};

enum vg_text_kind vg_text_line_parse(struct vg_text_span text, struct vg_text_line *ret);

/* Returns advice about a line that is not understood, or NULL. Static text. */
const char *vg_text_line_hint(struct vg_text_span text);

/* Reads the digits at *pos, at most up to end, and moves *pos behind them. Returns false without
 * digits. A number that is too large is read as INT64_MAX. */
bool vg_text_digits(const char **pos, const char *end, int64_t *ret);

static inline bool
vg_text_is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static inline bool
vg_text_is_blank(char c)
{
    return c == ' ' || c == '\t';
}

static inline bool
vg_text_is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

#endif
