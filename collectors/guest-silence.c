/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "collectors/guest-silence.h"

#include <stdio.h>

#include <glib.h>

#include "base/clock.h"
#include "host/proc-text.h"

/* The run time and the number of windows without an entry after which entries count as silent. The
 * host's timer interrupts a vCPU in a guest at least once a second. */
#define SILENCE_WINDOWS    3
#define SILENCE_NS         (VG_NS_PER_S / 2)
#define SAMPLED_CONFIDENCE 0.5

void
vg_guest_silence_begin(struct vg_guest_silence *silence)
{
    silence->any_kvm = false;
    silence->run_ns = 0;
    silence->entries = 0;
}

void
vg_guest_silence_note(struct vg_guest_silence *silence, const struct vg_cpu_figures *figures)
{
    silence->any_kvm = true;
    silence->run_ns += figures->run_ns;
    silence->entries += figures->entries;
}

void
vg_guest_silence_end(struct vg_guest_silence *silence, bool listening)
{
    /* Without a KVM vCPU, nothing can enter a guest, so earlier silence means nothing. */
    if (!listening || silence->entries > 0 || !silence->any_kvm) {
        silence->quiet_windows = 0;
        silence->quiet_ns = 0;
        silence->silent = false;
        return;
    }
    silence->quiet_windows += silence->run_ns > 0;
    silence->quiet_ns = MIN(silence->quiet_ns + silence->run_ns, SILENCE_NS);
    silence->silent |= silence->quiet_windows >= SILENCE_WINDOWS && silence->quiet_ns >= SILENCE_NS;
}

void
vg_guest_silence_describe(const struct vg_guest_silence *silence, enum vg_guests guests,
                          struct vg_provenance *ret)
{
    static const char silent[] = "kvm_entry and kvm_exit never fire on this kernel";
    static const char neither[] = "kvm_entry and kvm_exit never fire on this kernel, and the guest "
                                  "time in /proc does not advance";
    const char *reason = NULL;

    if (guests == VG_GUESTS_LEFT_OUT)
        reason = "left out to stay within the budget";
    else if (!silence->any_kvm)
        reason = "no VM here uses KVM";
    else if (guests == VG_GUESTS_NO_KVM)
        reason = "the KVM events are missing";
    else if (silence->silent)
        reason = silence->any_ticks ? silent : neither;
    ret->silent = guests == VG_GUESTS_SEEN && silence->silent;
    if (!reason)
        return;
    vg_provenance_lacks(ret, VG_MEASURE_EXITS, reason);
    vg_provenance_lacks(ret, VG_MEASURE_GUEST, reason);
    if (silence->any_kvm && silence->any_ticks)
        ret->measures[VG_MEASURE_GUEST] = (struct vg_measured){
            .source = "procfs", .confidence = SAMPLED_CONFIDENCE, .reason = reason};
}

bool
vg_guest_ticks_read(struct vg_guest_ticks *guest, const struct vg_guest_thread *thread,
                    struct vg_cpu_figures *figures)
{
    char path[PATH_MAX];
    char text[VG_PROC_TEXT_MAX];
    struct vg_proc_stat stat;

    figures->guest_ns = 0;
    /* A vCPU that did not run was not in its guest either. Hosts have hundreds of such vCPUs. */
    if (guest->started && figures->run_ns == 0) {
        guest->left_ns = MIN(guest->left_ns, figures->observed_ns);
        return guest->moved;
    }
    snprintf(path, sizeof(path), "%s/%d/task/%d/stat", thread->proc, thread->pid, thread->tid);
    if (vg_proc_read(path, text, sizeof(text)) <= 0 || !vg_proc_parse_stat(text, &stat))
        return guest->moved;
    if (guest->started && stat.guest_ticks > guest->ticks) {
        guest->moved = true;
        guest->left_ns += (int64_t)MIN(stat.guest_ticks - guest->ticks, 1000000) * thread->tick_ns;
    }
    guest->started = true;
    guest->ticks = stat.guest_ticks;
    figures->guest_ns = MIN(guest->left_ns, figures->run_ns);
    /* Guest time is sampled and may be too high indefinitely, so the rest must not accumulate. */
    guest->left_ns = MIN(guest->left_ns - figures->guest_ns, figures->observed_ns);
    return guest->moved;
}

bool
vg_guest_silence_complete(struct vg_guest_silence *silence, struct vg_guest_ticks *guest,
                          bool is_kvm, bool listening, bool known, struct vg_cpu_figures *figures,
                          const struct vg_guest_thread *thread)
{
    if (is_kvm)
        vg_guest_silence_note(silence, figures);
    if (!is_kvm || (listening && !silence->silent))
        return known || figures->entries > 0;
    bool moved = vg_guest_ticks_read(guest, thread, figures);
    silence->any_ticks |= moved;
    return known || moved;
}
