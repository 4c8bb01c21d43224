/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "cli/glossary.h"

#include <glib.h>

const struct vg_glossary_entry vg_glossary[] = {
    {"lost_to", "The aggressors that ran on the CPU while a VM's vCPUs waited for it: other VMs by "
                "name, `self` (another thread of the same VM), host:kernel, host:user, host:idle, "
                "`limit` (the VM's own CPU quota was used up), host:unknown. count: preemptions "
                "whose next thread was the aggressor's."},
    {"host:user", "Host programs other than VMs. With BPF the processes behind it are known: "
                  "`vgpuctl vm show VM` names them, and `others` combines the rest."},
    {"host:kernel", "Threads of the host's kernel."},
    {"processes",
     "Host processes that ran while a VM waited, a part of host:user: name (comm), pid, control "
     "group. Sums combine processes with the same name and control group. error_ns: at most this "
     "much is missing from ns, from before the process had a row in a sum."},
    {"pressure",
     "Share of time some, or all, threads with work waited for a resource: CPU, memory, io (the "
     "kernel's PSI)."},
    {"own_ns", "CPU time of the host itself: everything except vCPU threads, including QEMU's "
               "other threads."},
    {"steal_ns", "CPU time that the hypervisor below this host gave to others (steal)."},
    {"places", "How CPU time is assigned to CPUs: counted at each switch; or last-seen, where all "
               "of a vCPU's run time counts for the CPU it was last seen on."},
    {"pinned", "VMs that may run on this CPU and not on all of the host's."},
    {"exits", "kvm_exit records by class: hlt, io, mmio, page-fault, interrupt, msr, cpuid, "
              "hypercall, preemption-timer, pause, other."},
    {"cpus",
     "CPUs that the VM's vCPUs may use now; of a recording, that they ran on or waited for."},
    {"label", "A VM's usual name: its name in OpenStack, followed by libvirt's in brackets where "
              "the first is ambiguous."},
    {"manager", "Another program that moves the VM, so vgpud does not."},
    {"only_cold", "Why the VM cannot be moved while it runs: plans leave it where it is."},
    {"unmanaged", "The host's libvirt does not know the VM; plans do not move it."},
    {"lost", "Events that the recorder reports as dropped."},
    {"problems", "Parts of the recording that could not be read: file, offset and reason."},
    {"rejected", "Records with impossible values, left out."},
    {"backwards", "Records with an earlier time than the previous record of their stream; they "
                  "count at that record's time."},
    {"unknown",
     "Figures that the recording cannot provide: an event that they need, or a CPU, was not "
     "recorded. Tables show -, and analyze -o json null."},
    {"bounds",
     "Figures that are lower bounds, as a part of what they count was not recorded. Tables "
     "show >= before them."},
    {"lower_bound", "The true figure may be higher; of a VM, that of the figures in bounds."},
    {"missing",
     "Events that were not recorded, and which figures are unknown or bounds without them."},
    {"absent_cpus", "CPUs that the host has and that have no records: what ran there is unknown."},
    {"guest_known", "False where no kvm_entry or kvm_exit was recorded for the VM, or only one of "
                    "the two at all."},
    {"cpu_intensity",
     "(run + preempt + wake_wait) / observed over all vCPUs, 0..1: how much of the time the VM "
     "wants its CPUs. vgpud reports it for the newest window and as a moving mean."},
    {"gpu_intensity", "Share of time at least one GPU request of the VM waits or runs, 0..1. Valid "
                      "only if gpu_known is true."},
    {"newest", "Figures of the newest window: the present. Beside it are sums since vgpud started, "
               "and moving means."},
    {"rates", "Cores used and waited for, and preemptions per second: of the newest window in "
              "`newest`, elsewhere moving means; the weight of a window halves after a minute."},
    {"gpu_known", "False where nothing recorded GPU requests."},
    {"class", "idle, cpu, gpu, mixed or alternating, from the two intensities; thresholds are in "
              "vgpud-policy(7)."},
    {"discontinuities", "Records that contradict earlier ones; the reader uses the later record "
                        "and continues."},
    {"dropped", "GPU requests that waited when their VM stopped, in a simulation."},
    {"at_ns",
     "The time of a GPU request: its end. If several ended together, or the end was reported late, "
     "the next nanosecond that no other request has."},
    {"gvtg", "Scheduler of GVT-g: a part of each 100 ms by weight; what is left over or overdrawn "
             "carries on for up to 1 s; who has nothing left waits, even if the GPU is idle."},
    {"no-carry", "Like gvtg, but unused or overdrawn time is not carried over to the next 100 ms."},
    {"work-conserving", "gvtg, but who has nothing left runs where the GPU would be idle."},
    {"weighted", "Of the vGPUs that have work, the vGPU with the least GPU time / weight is next."},
    {"best-effort", "Turns of one timeslice go round those that have work."},
    {"equal-share", "Turns of one timeslice go round all VMs; what one does not use is idle."},
    {"fixed-share", "As equal-share, but turns are as long as the VM's share, started or not."},
    {"quantum", "The VMs that have work take turns of their own length, on all engines together, "
                "as on GPUs with SR-IOV (Xe, i915)."},
    {"gain_wait_ns_per_s", "GPU waiting that all VMs together would no longer have, nanoseconds "
                           "per second, in another mode of the GPU's scheduler."},
    {"price", "Requirement for a change of a GPU's scheduler mode: live, needs-empty-gpu or "
              "needs-recreate; not-offered is simulated for comparison."},
    {"live", "Can be set while VMs run."},
    {"needs-empty-gpu", "All vGPUs of the GPU must be gone before it can be set."},
    {"needs-recreate", "A vGPU must be recreated with another type."},
    {"not-offered", "The platform has no such mode; it is simulated for comparison."},
    {"complement", "The default rule: on a contended host, tries every VM on every other host and "
                   "proposes the move that wins back most CPU and GPU time after its cost."},
    {"paper-threshold", "The rule of Belkhiri and Dagenais (2024): a CPU-intensive VM that is "
                        "preempted more often than a threshold goes to the host with most "
                        "GPU-intensive VMs."},
    {"reader", "The role that may see everything except tokens and the audit."},
    {"operator", "The role that may also have plans made."},
    {"admin", "The role that may also make and revoke tokens, and read the audit."},
    {"token",
     "A secret that identifies a client on the network; it has a name, a role, and optionally an "
     "expiry date."},
    {"audit", "Requests that changed something: the client, its address, and the result."},
    {"context", "A name for a vgpud and how to connect to it."},
};

const size_t vg_glossary_size = G_N_ELEMENTS(vg_glossary);
