/* SPDX-License-Identifier: Apache-2.0
 *
 * Guest time where nobody tells of it. Some kernels list kvm_entry and kvm_exit and never fire
 * them: when KVM's vCPU threads run for windows and not one entry comes, that is taken for silence,
 * and the guest time that the kernel samples for /proc is used, if that moves. One thread at a
 * time.
 */
#ifndef VG_COLLECTORS_GUEST_SILENCE_H
#define VG_COLLECTORS_GUEST_SILENCE_H

#include <stdbool.h>
#include <stdint.h>

#include "model/cpu-figures.h"
#include "model/provenance.h"

struct vg_guest_silence {
    bool silent;
    bool any_kvm;   /* a vCPU thread of KVM, in the last window */
    bool any_ticks; /* /proc's guest time moved for one of them, ever */
    unsigned quiet_windows;
    int64_t quiet_ns; /* that they ran in those */
    int64_t run_ns;   /* of the window */
    uint64_t entries;
};

/* Around each window; note: figures of each vCPU thread of KVM in it. listening: entries are
 * counted at all. */
void vg_guest_silence_begin(struct vg_guest_silence *silence);
void vg_guest_silence_note(struct vg_guest_silence *silence, const struct vg_cpu_figures *figures);
void vg_guest_silence_end(struct vg_guest_silence *silence, bool listening);

/* Says in *ret where guest time and exits of the window are from. */
enum vg_guests { VG_GUESTS_SEEN, VG_GUESTS_LEFT_OUT, VG_GUESTS_NO_KVM };
void vg_guest_silence_describe(const struct vg_guest_silence *silence, enum vg_guests guests,
                               struct vg_provenance *ret);

/* The guest time of one thread in /proc; zeroed at first. */
struct vg_guest_ticks {
    bool started;
    bool moved;
    uint64_t ticks;
    int64_t left_ns; /* counted, and not yet given out */
};

/* Where that is read. */
struct vg_guest_thread {
    const char *proc;
    int32_t pid, tid;
    int64_t tick_ns;
};

/* Adds what came since the last reading to the guest time of *figures, within their run time.
 * Returns whether the counter has ever moved. */
bool vg_guest_ticks_read(struct vg_guest_ticks *guest, const struct vg_guest_thread *thread,
                         struct vg_cpu_figures *figures);

/* Notes the figures of a vCPU thread, is_kvm if it is one of KVM, and completes their guest time
 * where entries are not listened for, or silent. known: whether the guest time of its VM was known
 * so far; returns whether it is now. */
bool vg_guest_silence_complete(struct vg_guest_silence *silence, struct vg_guest_ticks *guest,
                               bool is_kvm, bool listening, bool known,
                               struct vg_cpu_figures *figures,
                               const struct vg_guest_thread *thread);

#endif
