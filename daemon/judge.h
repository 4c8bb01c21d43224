/* SPDX-License-Identifier: Apache-2.0
 *
 * Judges the moves that this host's vgpud has made, and stores the verdicts in the journal. A move
 * is judged when the period that is compared after it has passed. After a restart, vgpud continues
 * with the moves without a verdict. The thread is called "judge".
 */
#ifndef VG_DAEMON_JUDGE_H
#define VG_DAEMON_JUDGE_H

#include "cluster/peers.h"
#include "journal/journal.h"
#include "model/verdict.h"
#include "mover/mover.h"
#include "store/store.h"

struct vg_judge_settings {
    int64_t length_ns; /* the length of the periods before and after a move */
    double min_gain;   /* cores */
    double gpu_weight; /* cores per GPU engine */
};

/* All of this is borrowed. */
struct vg_judge_parts {
    vg_journal *journal;
    vg_store *store;
    vg_mover *mover;
    vg_peers *peers;
    void *data; /* the argument of the next member, a function that does not block */
    void (*settings)(void *data, struct vg_judge_settings *ret);
};

typedef struct vg_judge vg_judge;

vg_judge *vg_judge_new(const struct vg_judge_parts *parts, GError **err);

/* Reads the number of verdicts since the start, by result. Any thread; does not block. */
void vg_judge_count(vg_judge *judge, uint64_t ret[VG_VERDICT_MAX]);

void vg_judge_stop(vg_judge *judge); /* NULL is fine */
void vg_judge_free(vg_judge *judge); /* NULL is fine */

#endif
