/* SPDX-License-Identifier: Apache-2.0
 *
 * Guest time on kernels that do not report it. Some kernels list kvm_entry and kvm_exit but never
 * fire them. If KVM's vCPU threads run for several windows without a single entry, the tracepoints
 * are considered silent. The guest time that the kernel samples for /proc is then used, if it
 * increases. One thread at a time.
 */
#ifndef VG_COLLECTORS_GUEST_SILENCE_H
#define VG_COLLECTORS_GUEST_SILENCE_H

#include <stdbool.h>
#include <stdint.h>

#include "model/cpu-figures.h"
#include "model/provenance.h"

struct vg_guest_silence {
    bool silent;
    bool any_kvm;   /* the last window had a KVM vCPU thread */
    bool any_ticks; /* /proc's guest time has increased for one of them */
    unsigned quiet_windows;
    int64_t quiet_ns; /* run time in those windows */
    int64_t run_ns;   /* run time in the window */
    uint64_t entries;
};

/* Call the first and the last function once for each window. In between, call the one that notes
 * figures with those of each KVM vCPU thread. listening: entries are counted at all. */
void vg_guest_silence_begin(struct vg_guest_silence *silence);
void vg_guest_silence_note(struct vg_guest_silence *silence, const struct vg_cpu_figures *figures);
void vg_guest_silence_end(struct vg_guest_silence *silence, bool listening);

/* Sets the method for guest time and exits of the window in *ret. */
enum vg_guests { VG_GUESTS_SEEN, VG_GUESTS_LEFT_OUT, VG_GUESTS_NO_KVM };
void vg_guest_silence_describe(const struct vg_guest_silence *silence, enum vg_guests guests,
                               struct vg_provenance *ret);

/* The state of one thread's guest time in /proc; initially zeroed. */
struct vg_guest_ticks {
    bool started;
    bool moved;
    uint64_t ticks;
    int64_t left_ns; /* counted but not reported yet */
};

/* The thread to read. */
struct vg_guest_thread {
    const char *proc;
    int32_t pid, tid;
    int64_t tick_ns;
};

/* Adds the guest time since the last reading to *figures, limited by their run time. Returns
 * whether the counter has ever increased. */
bool vg_guest_ticks_read(struct vg_guest_ticks *guest, const struct vg_guest_thread *thread,
                         struct vg_cpu_figures *figures);

/* Records the figures of a vCPU thread (is_kvm: it is KVM's). Completes their guest time if entries
 * are not counted or are silent. known: whether the guest time of its VM has been known until now.
 * Returns whether it is still known. */
bool vg_guest_silence_complete(struct vg_guest_silence *silence, struct vg_guest_ticks *guest,
                               bool is_kvm, bool listening, bool known,
                               struct vg_cpu_figures *figures,
                               const struct vg_guest_thread *thread);

#endif
