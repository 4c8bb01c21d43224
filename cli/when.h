/* SPDX-License-Identifier: Apache-2.0
 *
 * Times as people write them, for all --since and --until, and as they are shown: in local time,
 * with the zone told once. Main thread.
 */
#ifndef VG_CLI_WHEN_H
#define VG_CLI_WHEN_H

#include <argp.h>
#include <stdbool.h>
#include <stdint.h>

#include <glib.h>

/* What may be written; for manuals and messages. */
#define VG_WHEN_FORMS                                                                              \
 "-2h30m, 14:00, today, yesterday, 2026-11-24, '2026-11-24 14:00', 2026-11-24T14:00:00+01:00, "    \
 "or seconds since the epoch"

/* The sentence for --since and --until. */
#define VG_WHEN_HELP "like -12h, 14:00, yesterday, '2026-11-24 14:00'"

struct vg_when {
    bool relative; /* to the now of whoever is asked: a recording has its own */
    int64_t ns;    /* how long before now; else since the epoch */
};

/* A time without a zone is local; a day alone is its first moment. now_ns: since the epoch.
 * VG_E_INVALID for what is none, is in the future, or never was. */
int vg_when_parse(const char *text, int64_t now_ns, struct vg_when *ret,
                  GError **err) G_GNUC_WARN_UNUSED_RESULT;

/* What the API takes for it. The caller frees it. */
char *vg_when_parameter(const struct vg_when *when);

/* What --since and --until were given; NULL: nothing. */
struct vg_when_args {
    const char *since;
    const char *until;
};

/* The keys of these options, which each command describes itself. */
enum { VG_WHEN_SINCE = 0xe00, VG_WHEN_UNTIL };

/* Takes one of these options, for the parser of a command; ARGP_ERR_UNKNOWN if it is none. */
error_t vg_when_take(struct vg_when_args *args, int key, const char *arg);

/* Tells if one of them was given. */
static inline bool
vg_when_is_asked(const struct vg_when_args *args)
{
    return args->since || args->until;
}

/* Looks at what was given on the command line; what is wrong is a usage error. */
void vg_when_check(const struct vg_when_args *args, const struct argp_state *state);

/* Appends since and until, as far as they are given, to the path of a request. */
int vg_when_add(GString *path, const struct vg_when_args *args,
                GError **err) G_GNUC_WARN_UNUSED_RESULT;

#define VG_WHEN_LEN 48

/* "2026-11-24 14:00:05", local; followed by the offset where that is not the one of today. */
const char *vg_when_format(int64_t epoch_ns, char buf[VG_WHEN_LEN]);

/* "CET, UTC+01:00", or "UTC": the zone of today. */
const char *vg_when_zone(char buf[VG_WHEN_LEN]);

#endif
