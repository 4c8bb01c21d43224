/* SPDX-License-Identifier: Apache-2.0
 *
 * The verdict on a move: whether the VMs of its hosts have lost less since then. Plain data
 * described by a record; the journal stores it as a part of the move.
 */
#ifndef VG_MODEL_VERDICT_H
#define VG_MODEL_VERDICT_H

#include <stdbool.h>
#include <stdint.h>

#include <glib.h>

#include "base/record.h"

#define VG_VERDICT_HOSTS_MAX 64
#define VG_VERDICT_TEXT_MAX  8192

enum vg_verdict_result {
    VG_VERDICT_NONE, /* the move has not been judged */
    VG_VERDICT_HELPED,
    VG_VERDICT_NO_EFFECT,
    VG_VERDICT_WORSE,
    VG_VERDICT_CANNOT_TELL,
    VG_VERDICT_MAX
};

/* Figures are per second of the periods that were compared: 1e9 is one core, or one GPU engine. */
struct vg_move_verdict {
    enum vg_verdict_result result;
    char *why; /* one or two sentences; NULL if it has not been judged */
    int64_t judged_ns;
    int64_t seconds;         /* the length of each period */
    GPtrArray *hosts;        /* char *: those whose VMs were judged */
    GPtrArray *others;       /* char *: the hosts for comparison, which no move touched */
    bool measured;           /* if false, all figures that follow are unknown */
    int64_t before_ns_per_s; /* CPU time that all VMs of the hosts lost */
    int64_t after_ns_per_s;
    bool gpu_measured;           /* if false, the next two are unknown */
    int64_t gpu_before_ns_per_s; /* the time that their GPU requests waited */
    int64_t gpu_after_ns_per_s;
    int64_t others_ns_per_s; /* how much more the same number of other hosts lost after the move
                                than before it */
    int64_t gain_ns_per_s;   /* reduction of losses, corrected by the change on the other hosts; in
                                cores */
    int64_t low_ns_per_s;    /* the 95 % interval of the gain */
    int64_t high_ns_per_s;
    bool predicted; /* if false, the next one is unknown */
    int64_t predicted_ns_per_s;
};

extern const struct vg_record_type vg_move_verdict_record;
extern const char *const vg_verdict_names[]; /* "none", "helped", "no-effect", ... */

/* Returns the text for users: "no effect". */
const char *vg_verdict_text(enum vg_verdict_result result);

/* Makes the object for the API. Unknown figures are null. Returns NULL if the move has not been
 * judged. The caller releases it with json_object_put(). */
json_object *vg_move_verdict_to_json(const struct vg_move_verdict *verdict);

void vg_move_verdict_free(void *verdict); /* NULL is fine */

typedef struct vg_move_verdict vg_move_verdict;
G_DEFINE_AUTOPTR_CLEANUP_FUNC(vg_move_verdict, vg_move_verdict_free)

#endif
