/* SPDX-License-Identifier: Apache-2.0
 *
 * Parses times for all --since and --until options, and formats times: in local time, with the
 * zone stated once. Main thread.
 */
#ifndef VG_CLI_WHEN_H
#define VG_CLI_WHEN_H

#include <argp.h>
#include <stdbool.h>
#include <stdint.h>

#include <glib.h>

/* The accepted forms, for manuals and messages. */
#define VG_WHEN_FORMS                                                                              \
 "-2h30m, 14:00, today, yesterday, 2026-11-24, '2026-11-24 14:00', 2026-11-24T14:00:00+01:00, "    \
 "or seconds since the epoch"

/* The sentence for --since and --until. */
#define VG_WHEN_HELP "like -12h, 14:00, yesterday, '2026-11-24 14:00'"

struct vg_when {
    bool relative; /* relative to the current time of the queried vgpud, which in a replay is that
                      of the recording */
    int64_t ns;    /* duration before now; otherwise since the epoch */
};

/* A time without a zone is local; a day alone means its start. now_ns is since the epoch. Fails
 * with VG_E_INVALID for text that is not a time, is in the future, or denotes a time that does not
 * exist. */
int vg_when_parse(const char *text, int64_t now_ns, struct vg_when *ret,
                  GError **err) G_GNUC_WARN_UNUSED_RESULT;

/* Returns the value for the API. The caller frees it. */
char *vg_when_parameter(const struct vg_when *when);

/* The arguments of --since and --until; NULL if not given. */
struct vg_when_args {
    const char *since;
    const char *until;
};

/* The keys of these options, which each command describes itself. */
enum { VG_WHEN_SINCE = 0xe00, VG_WHEN_UNTIL };

/* Handles these options in a command's parser. Returns ARGP_ERR_UNKNOWN for other options. */
error_t vg_when_take(struct vg_when_args *args, int key, const char *arg);

/* Returns whether one of them was given. */
static inline bool
vg_when_is_asked(const struct vg_when_args *args)
{
    return args->since || args->until;
}

/* Checks the arguments; an error is a usage error. */
void vg_when_check(const struct vg_when_args *args, const struct argp_state *state);

/* Appends since and until, if given, to the path of a request. */
int vg_when_add(GString *path, const struct vg_when_args *args,
                GError **err) G_GNUC_WARN_UNUSED_RESULT;

#define VG_WHEN_LEN 48

/* "2026-11-24 14:00:05", local, followed by the offset if that differs from the current one. */
const char *vg_when_format(int64_t epoch_ns, char buf[VG_WHEN_LEN]);

/* "CET, UTC+01:00", or "UTC": the current zone. */
const char *vg_when_zone(char buf[VG_WHEN_LEN]);

#endif
