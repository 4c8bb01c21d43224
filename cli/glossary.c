/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "cli/glossary.h"

#include <glib.h>

const struct vg_glossary_entry vg_glossary[] = {
    {"lost_to", "Who ran on the CPU that a VM's vCPUs waited for: other VMs by name, `self` "
                "(another thread of the same VM), host:kernel, host:user, host:idle, "
                "`limit` (nobody: its own CPU quota was used up), host:unknown. count: preemptions "
                "whose next thread was the aggressor's."},
    {"host:user", "Programs of the host that are no VM. By BPF the processes behind it are known: "
                  "`vgpuctl vm show VM` names them, all that found no room are `others`."},
    {"host:kernel", "Threads of the host's kernel."},
    {"processes",
     "Processes of the host that took CPU time of a VM, a part of host:user: name (comm), "
     "pid, control group. In sums, processes of one name and control group are one. error_ns: "
     "what it may have taken besides ns, at most, before it had a row in a sum."},
    {"pressure",
     "Part of the time in which some, or all, threads that had something to do waited for "
     "a resource: CPU, memory, io (the kernel's PSI)."},
    {"own_ns", "CPU time of the host itself: all that is no vCPU, QEMU's other threads included."},
    {"steal_ns", "CPU time that the host itself was kept from, being a VM."},
    {"places", "Where vCPUs ran, CPU by CPU: counted at each switch, or last-seen: all that a vCPU "
               "ran is told of the CPU that it was on last."},
    {"pinned", "VMs that may run on this CPU and not on all of the host's."},
    {"exits", "kvm_exit records by class: hlt, io, mmio, page-fault, interrupt, msr, cpuid, "
              "hypercall, preemption-timer, pause, other."},
    {"cpus",
     "CPUs that the VM's vCPUs may use now; of a recording, that they ran on or waited for."},
    {"label", "What people call a VM: its name in OpenStack, with libvirt's in brackets behind it "
              "where the first one could mean another VM."},
    {"manager", "Another program that moves the VM, so that vgpud does not."},
    {"only_cold", "Why the VM cannot be moved while it runs: plans leave it where it is."},
    {"unmanaged", "The libvirt of its host does not know the VM: plans leave it where it is."},
    {"lost", "Events that the recorder says it dropped."},
    {"problems", "What of the recording could not be read: file, offset, and why."},
    {"rejected", "Records with impossible values, left out."},
    {"backwards", "Records earlier than the one before in their stream, taken at its time."},
    {"guest_known", "False where no kvm_entry or kvm_exit was recorded for the VM, or only one of "
                    "the two at all."},
    {"cpu_intensity",
     "(run + preempt + wake_wait) / observed over all vCPUs, 0..1: how much of "
     "the time the VM wants its CPUs. vgpud tells it of the newest window, and as a "
     "moving mean."},
    {"gpu_intensity", "Part of the time in which at least one GPU request of the VM waits or "
                      "runs, 0..1. Means something only where gpu_known is true."},
    {"newest", "Figures of the newest window: the present. Beside it are sums since vgpud started, "
               "and moving means."},
    {"rates", "Cores used and waited for, and preemptions per second: of the newest window in "
              "`newest`, else moving means, in which a window counts half after a minute."},
    {"gpu_known", "False where nothing recorded GPU requests."},
    {"class", "idle, cpu, gpu, mixed or alternating, from the two intensities; thresholds are in "
              "vgpud-policy(7)."},
    {"discontinuities", "Records that contradict what earlier ones said; the reader believes the "
                        "later one and goes on."},
    {"dropped", "GPU requests that waited when their VM stopped, in a simulation."},
    {"at_ns",
     "The moment of a GPU request: its end, or, where several ended at once or the end was "
     "told late, the next nanosecond that no other request has."},
    {"gvtg", "Scheduler of GVT-g: a part of each 100 ms by weight; what is left over or overdrawn "
             "carries on for up to 1 s; who has nothing left waits, even if the GPU is idle."},
    {"no-carry", "gvtg, but what is left over or overdrawn is forgotten every 100 ms."},
    {"work-conserving", "gvtg, but who has nothing left runs where the GPU would be idle."},
    {"weighted", "Of those that have work, the one with the least GPU time / weight is next."},
    {"best-effort", "Turns of one timeslice go round those that have work."},
    {"equal-share", "Turns of one timeslice go round all VMs; what one does not use is idle."},
    {"fixed-share", "As equal-share, but turns are as long as the VM's share, started or not."},
    {"quantum", "Turns of each VM's own length, on all engines at once, go round those that have "
                "work, as on GPUs with SR-IOV (Xe, i915)."},
    {"gain_wait_ns_per_s", "GPU waiting that all VMs together would no longer have, nanoseconds "
                           "per second, in another mode of the GPU's scheduler."},
    {"price", "What it takes to change the mode of a GPU's scheduler: live, needs-empty-gpu or "
              "needs-recreate; not-offered is simulated for comparison."},
    {"live", "Can be set while VMs run."},
    {"needs-empty-gpu", "All vGPUs of the GPU must be gone before it can be set."},
    {"needs-recreate", "A vGPU must be made anew, as another type."},
    {"not-offered", "The platform has no such mode; it is simulated for comparison."},
    {"complement", "The default rule: on a contended host, tries every VM on every other host and "
                   "proposes the move that wins back most CPU and GPU time after its cost."},
    {"paper-threshold", "The rule of Belkhiri and Dagenais (2024): a CPU-intensive VM that is "
                        "preempted more often than a threshold goes to the host with most "
                        "GPU-intensive VMs."},
    {"reader", "The role that sees everything of vgpud but tokens and the audit."},
    {"operator", "The role that may also have plans made."},
    {"admin", "The role that may also make and revoke tokens, and read the audit."},
    {"token",
     "A secret that says who asks vgpud over the network; it has a name, a role, and perhaps "
     "an end."},
    {"audit", "What vgpud was told to do, by whom, from where, and what came of it."},
    {"context", "A name for a vgpud and for how it is asked."},
};

const size_t vg_glossary_size = G_N_ELEMENTS(vg_glossary);
