/* SPDX-License-Identifier: Apache-2.0
 *
 * One line of trace text: what kind of line it is, and everything in front of an event's own
 * fields. Knows the columns of tracefs, trace-cmd and perf script, no event. Reentrant.
 */
#ifndef VG_TRACE_TEXT_LINE_H
#define VG_TRACE_TEXT_LINE_H

#include "trace/text-source.h"

enum vg_text_kind {
    VG_TEXT_SKIP,   /* blank, comment, part of a call chain: belongs to trace text, says nothing */
    VG_TEXT_HEADER, /* the beginning of a trace, which may hold no event at all */
    VG_TEXT_EVENT,
    VG_TEXT_PROCESS, /* perf's own record of a process: event and body are as of an event */
    VG_TEXT_LOST,
    VG_TEXT_COUNTER, /* an event whose time is a bare count, not seconds */
    VG_TEXT_UNKNOWN
};

struct vg_text_line {
    int64_t ts_ns;             /* LOST: VG_NONE if the line has no time */
    int64_t lost;              /* LOST: dropped events, 0 if not said */
    int32_t cpu;               /* LOST: VG_NONE if not said */
    int32_t tid;               /* VG_NONE: the recorder did not know */
    int32_t tgid;              /* VG_NONE: not in the line */
    const char *impossible;    /* EVENT, LOST: why the line cannot be true, or NULL; static */
    struct vg_text_span label; /* EVENT, LOST: trace-cmd's name of the file; empty: there is none */
    struct vg_text_span comm;  /* empty: not known */
    struct vg_text_span event; /* empty: a line of another tracer, which has no event name */
    struct vg_text_span body;
};

enum vg_text_kind vg_text_line_parse(struct vg_text_span text, struct vg_text_line *ret);

/* Whether a line is the first one of a recording's head, without the name of a file. */
bool vg_text_line_is_head(struct vg_text_span text);

/* Whether a line of tracefs's head says that records were overwritten. */
bool vg_text_line_is_overwritten(struct vg_text_span text);

/* The CPUs of the host, as a line of a head tells: "#P:8", "cpus=8", "# nrcpus online : 8"; or 0.
 */
int32_t vg_text_line_host_cpus(struct vg_text_span text);

/* Tells what to do about a line that is not understood, if it is known; else NULL. Static text. */
const char *vg_text_line_hint(struct vg_text_span text);

/* Reads the digits at *pos, at most up to end, and moves *pos behind them. False if there are none.
 * What does not fit is INT64_MAX. */
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
