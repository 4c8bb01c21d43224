/* SPDX-License-Identifier: Apache-2.0
 *
 * Judges a move, or a group of moves. It compares the losses of all VMs of its hosts before and
 * after, over periods of the same length. It then subtracts the change on hosts that no move
 * touched (difference in differences). Pure.
 */
#ifndef VG_MOVE_VERDICT_H
#define VG_MOVE_VERDICT_H

#include "model/verdict.h"

/* The length of a step. Each step is one sample. */
#define VG_VERDICT_STEP_NS (INT64_C(10) * 1000000000)

/* The figures of all VMs of a host in one step. */
struct vg_verdict_step {
    int64_t measured_ns; /* if it is zero, the members below are unknown */
    bool known;          /* the lost time is known exactly, not only a lower bound */
    double vms;          /* the average number of VMs */
    int64_t run_ns;
    int64_t lost_ns;
    int64_t gpu_of_ns; /* the part of the time with known waits of GPU requests */
    int64_t gpu_wait_ns;
};

/* A host, step by step. */
struct vg_verdict_host {
    char *name;
    char *reason; /* the reason why its figures are unknown, one sentence; NULL if they are known */
    int64_t arrived; /* the number of VMs that the moves brought to the host, minus the number that
                        they took away */
    GArray *before;  /* struct vg_verdict_step */
    GArray *after;
};

struct vg_verdict_question {
    GPtrArray *hosts;  /* struct vg_verdict_host: the hosts of the moves */
    GPtrArray *others; /* struct vg_verdict_host: hosts that may serve for comparison */
    double min_gain;   /* cores: a smaller gain is no effect */
    double gpu_weight; /* cores per GPU engine */
    bool predicted;    /* if false, the next two are unknown */
    double cpu_gain;   /* cores */
    double gpu_gain;   /* engines */
};

/* Creates a host with unknown figures, with this number of steps before and after. */
struct vg_verdict_host *vg_verdict_host_new(const char *name, guint steps);
void vg_verdict_host_free(void *host); /* NULL is fine */

/* Fills in all members of *ret except judged_ns and seconds. *ret is a new record. */
void vg_verdict_judge(const struct vg_verdict_question *question, struct vg_move_verdict *ret);

#endif
