/* SPDX-License-Identifier: Apache-2.0
 *
 * Guest time on kernels that do not tell it. Some kernels list kvm_entry and kvm_exit and never
 * fire them: if KVM's vCPU threads run for windows without a single entry, that counts as silence,
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
    bool any_kvm;   /* the last window had a vCPU thread of KVM */
    bool any_ticks; /* /proc's guest time has moved for one of them */
    unsigned quiet_windows;
    int64_t quiet_ns; /* run time in those windows */
    int64_t run_ns;   /* run time in the window */
    uint64_t entries;
};

/* Begin and end each window; note takes the figures of each vCPU thread of KVM in it. listening:
 * entries are counted at all. */
void vg_guest_silence_begin(struct vg_guest_silence *silence);
void vg_guest_silence_note(struct vg_guest_silence *silence, const struct vg_cpu_figures *figures);
void vg_guest_silence_end(struct vg_guest_silence *silence, bool listening);

/* Sets in *ret where guest time and exits of the window come from. */
enum vg_guests { VG_GUESTS_SEEN, VG_GUESTS_LEFT_OUT, VG_GUESTS_NO_KVM };
void vg_guest_silence_describe(const struct vg_guest_silence *silence, enum vg_guests guests,
                               struct vg_provenance *ret);

/* The state of one thread's guest time in /proc; zeroed at first. */
struct vg_guest_ticks {
    bool started;
    bool moved;
    uint64_t ticks;
    int64_t left_ns; /* counted, and not yet given out */
};

/* The place where that is read. */
struct vg_guest_thread {
    const char *proc;
    int32_t pid, tid;
    int64_t tick_ns;
};

/* Adds the guest time since the last reading to *figures, within their run time. Tells if the
 * counter has ever moved. */
bool vg_guest_ticks_read(struct vg_guest_ticks *guest, const struct vg_guest_thread *thread,
                         struct vg_cpu_figures *figures);

/* Notes the figures of a vCPU thread (is_kvm: of KVM), and completes their guest time where entries
 * are not listened for, or silent. known: whether the guest time of its VM was known so far;
 * returns whether it is now. */
bool vg_guest_silence_complete(struct vg_guest_silence *silence, struct vg_guest_ticks *guest,
                               bool is_kvm, bool listening, bool known,
                               struct vg_cpu_figures *figures,
                               const struct vg_guest_thread *thread);

#endif
