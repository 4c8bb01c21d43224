/* SPDX-License-Identifier: Apache-2.0
 *
 * A slow and obvious model of the CPU ledger, to check the real one against. It writes down every
 * interval of every thread and CPU over the whole sequence, and only then works out the figures of
 * a window, by overlapping intervals. Who is who comes from the author of the sequence, not from
 * the events.
 *
 * A script is what is done to a ledger: events, and the calls that begin a period, close a window
 * and read the period. One thread at a time.
 */
#ifndef VG_TESTS_SLOW_LEDGER_H
#define VG_TESTS_SLOW_LEDGER_H

#include "model/window.h"

/* CPUs that a script may use: 0..SLOW_CPUS - 1. */
#define SLOW_CPUS 8

enum slow_op { SLOW_EVENT, SLOW_BEGIN, SLOW_CLOSE, SLOW_READ };

struct slow_item {
    enum slow_op op;
    uint32_t serial; /* grows along the script, stays when other items are taken out */
    int64_t t_ns;    /* of BEGIN, CLOSE and READ: not before the event before it */
    struct vg_event event;
};

enum slow_role { SLOW_USER, SLOW_KERNEL, SLOW_VCPU, SLOW_EMULATOR };

/* The thread that gets this tid at or after item `serial`. */
struct slow_identity {
    int32_t tid;
    uint32_t serial;
    enum slow_role role;
    int32_t pid;
    char comm[VG_COMM_LEN];
};

struct slow_script {
    GArray *items;      /* struct slow_item */
    GArray *identities; /* struct slow_identity */
    bool use_waking;
};

/* A moment: after the first `item` items of the script, at t_ns. */
struct slow_cut {
    size_t item;
    int64_t t_ns;
};

struct slow_lost {
    enum vg_aggressor_kind kind;
    int32_t vm_pid; /* kind VM, else 0 */
    int64_t ns;
    int64_t vcpu_ns;
    int64_t emulator_ns;
    uint64_t count;
};

typedef struct slow_history slow_history;

/* Who tid is at item `serial` (before its first identity: that one); NULL if nobody said. */
const struct slow_identity *slow_identity_of(const struct slow_script *script, int32_t tid,
                                             uint32_t serial);

/* Plays the whole script; script is borrowed and must outlive the history. */
slow_history *slow_history_new(const struct slow_script *script);
void slow_history_free(slow_history *history);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(slow_history, slow_history_free)

/* All incarnations of tid together, between two cuts. */
void slow_history_figures(const slow_history *history, int32_t tid, struct slow_cut from,
                          struct slow_cut to, struct vg_cpu_figures *ret);

/* What the vCPUs of the VM with this pid lost to each aggressor; struct slow_lost. */
GArray *slow_history_lost_to(const slow_history *history, int32_t pid, struct slow_cut from,
                             struct slow_cut to);

/* Each figure with its name, for comparisons of two. */
struct slow_figure {
    const char *name;
    int64_t value;
};
#define SLOW_FIGURES (13 + VG_EXIT_CLASS_MAX)
void slow_ledger_figures(const struct vg_cpu_figures *f, struct slow_figure ret[SLOW_FIGURES]);

uint64_t slow_history_discontinuities(const slow_history *history, struct slow_cut from,
                                      struct slow_cut to);

#endif
