/* SPDX-License-Identifier: Apache-2.0
 *
 * The weekly times for automatic moves: "Mo-Fr 22:00-05:00, Sa 00:00-24:00". A time without days
 * applies to every day. If its end is before its start, it ends on the next day. Pure; any thread.
 */
#ifndef VG_POLICY_ACT_WINDOW_H
#define VG_POLICY_ACT_WINDOW_H

#include <stdbool.h>

#include <glib.h>

#define VG_ACT_SPANS_MAX 16

#define VG_DAY_MINUTES  (24 * 60)
#define VG_WEEK_MINUTES (7 * VG_DAY_MINUTES)

struct vg_act_span {
    unsigned days; /* a bit for each day, Monday first */
    int from, to;  /* minutes of the day */
};

struct vg_act_window {
    size_t n; /* 0 for always */
    struct vg_act_span spans[VG_ACT_SPANS_MAX];
};

/* Parses a text; an empty one means always. Fails with VG_E_INVALID. */
int vg_act_window_parse(const char *text, struct vg_act_window *ret, GError **err);

/* Returns for how many more minutes automatic moves are allowed, counted from this minute of the
 * week (Monday 00:00 is 0). Returns 0 if it is closed, and at most VG_WEEK_MINUTES. */
int vg_act_window_left(const struct vg_act_window *window, int minute_of_week);

#endif
