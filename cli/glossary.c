/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "cli/glossary.h"

#include <glib.h>

const struct vg_glossary_entry vg_glossary[] = {
    {"lost_to", "The aggressors that ran on the CPU while a VM's vCPUs waited for it: other VMs "
                "by name, `self` (another thread of the same VM), host:kernel, host:user, "
                "host:idle, `limit` (the VM's own CPU quota was used up), host:unknown. count: "
                "preemptions after which a thread of the aggressor ran."},
    {"host:user", "Host programs other than VMs. With BPF, vgpud knows the individual "
                  "processes: `vgpuctl vm show VM` names them, and `others` combines the rest."},
    {"host:kernel", "Threads of the host's kernel."},
    {"processes",
     "The host processes within host:user that ran while a VM waited: name (comm), pid, control "
     "group. Sums combine processes with the same name and control group. error_ns: at most "
     "this much is missing from ns, from the time before the process had a row in the sum."},
    {"pressure",
     "The share of time during which some, or all, threads with work waited for a resource: "
     "CPU, memory or io (the kernel's PSI)."},
    {"own_ns", "CPU time of the host itself: everything except vCPU threads, including QEMU's "
               "other threads."},
    {"steal_ns", "CPU time that the hypervisor that runs this host gave to others (steal)."},
    {"places", "How CPU time is assigned to CPUs. counted: at each switch. last-seen: all run "
               "time of a vCPU counts for the CPU it was last seen on."},
    {"pinned", "VMs that are restricted to some of the host's CPUs, including this CPU."},
    {"exits", "kvm_exit records by class: hlt, io, mmio, page-fault, interrupt, msr, cpuid, "
              "hypercall, preemption-timer, pause, other."},
    {"cpus",
     "CPUs that the VM's vCPUs may use now. In a recording: CPUs that they ran on or waited for."},
    {"label", "A VM's usual name: its OpenStack name, followed by its libvirt name in brackets "
              "if the OpenStack name is ambiguous."},
    {"manager", "Another program that manages the VM; vgpud does not move the VM itself."},
    {"only_cold", "Why the VM cannot be moved while it is running; plans do not move it."},
    {"unmanaged", "The host's libvirt does not know the VM; plans do not move it."},
    {"lost", "Events that the recorder reports as dropped."},
    {"problems", "Parts of the recording that could not be read: file, offset and reason."},
    {"rejected", "Records with impossible values, left out."},
    {"backwards", "Records with an earlier time than the previous record of their stream. They "
                  "count as records of that previous time."},
    {"unknown",
     "Figures that the recording cannot provide, because an event that they need, or a CPU, was "
     "not recorded. Tables show -, and analyze -o json null."},
    {"bounds",
     "Figures that are lower bounds, because some of what they count was not recorded. Tables "
     "show >= before them."},
    {"lower_bound", "The true figure may be higher. For a VM, this applies to the figures in "
                    "bounds."},
    {"missing",
     "Events that were not recorded, and which figures are unknown or bounds without them."},
    {"absent_cpus", "CPUs of the host that have no records; what ran on them is unknown."},
    {"guest_known", "False if no kvm_entry or kvm_exit was recorded for the VM, or if the "
                    "recording contains only one of these events."},
    {"cpu_intensity",
     "(run + preempt + wake_wait) / observed over all vCPUs, 0..1: the share of time during "
     "which the VM wants its CPUs. vgpud reports it for the newest window and as a moving mean."},
    {"gpu_intensity", "The share of time during which at least one GPU request of the VM waits "
                      "or runs, 0..1. Valid only if gpu_known is true."},
    {"newest", "Figures for the newest window, that is, the present. The other members are sums "
               "since vgpud started, and moving means."},
    {"rates", "Cores used and waited for, and preemptions per second. In `newest`, they are for "
              "the newest window; elsewhere they are moving means: the weight of a window "
              "halves after a minute."},
    {"gpu_known", "False if no source recorded GPU requests."},
    {"class", "idle, cpu, gpu, mixed or alternating, from the two intensities; thresholds are in "
              "vgpud-policy(7)."},
    {"discontinuities", "Records that contradict earlier ones; the reader uses the later record "
                        "and continues."},
    {"dropped", "In a simulation: GPU requests that were waiting when their VM stopped."},
    {"at_ns",
     "The time of a GPU request, which is its end. If several requests ended together, or an "
     "end was reported late, it is the next nanosecond that no other request has."},
    {"gvtg", "The scheduler of GVT-g: each vGPU gets a share of every 100 ms by its weight. "
             "Unused or overdrawn time carries over for up to 1 s. A vGPU without time left "
             "waits, even if the GPU is idle."},
    {"no-carry", "Like gvtg, but unused or overdrawn time is not carried over to the next 100 ms."},
    {"work-conserving", "Like gvtg, but a vGPU without time left runs if the GPU would "
                        "otherwise be idle."},
    {"weighted", "The next turn goes to the vGPU with work that has the least GPU time divided "
                 "by weight."},
    {"best-effort", "vGPUs with work take turns of one timeslice."},
    {"equal-share", "All started vGPUs take turns of one timeslice; the GPU is idle in an "
                    "unused turn."},
    {"fixed-share", "Like equal-share, but vGPUs that are not started have turns too, and each "
                    "turn is as long as the vGPU's share."},
    {"quantum", "vGPUs with work take turns on all engines together, each with its own turn "
                "length, as on GPUs with SR-IOV (Xe, i915)."},
    {"gain_wait_ns_per_s", "The reduction in GPU wait time of all VMs together in another mode "
                           "of the scheduler, in nanoseconds per second."},
    {"price", "The requirement for a change of the GPU's scheduler mode: live, needs-empty-gpu "
              "or needs-recreate; not-offered is simulated for comparison."},
    {"live", "The mode can be set while VMs run."},
    {"needs-empty-gpu", "All vGPUs of the GPU must be removed before the mode can be set."},
    {"needs-recreate", "Each vGPU must be recreated with another type."},
    {"not-offered", "The platform does not offer this mode; it is simulated for comparison."},
    {"complement", "The default rule: on a contended host, evaluates every VM on every other "
                   "host, and proposes the move that recovers the most CPU and GPU time after "
                   "its cost."},
    {"paper-threshold", "The rule of Belkhiri and Dagenais (2024): a CPU-intensive VM that is "
                        "preempted more often than a threshold moves to the host with the most "
                        "GPU-intensive VMs."},
    {"reader", "The role that may see everything except tokens and the audit log."},
    {"operator", "The role that may also request plans and actions."},
    {"admin", "The role that may also create and revoke tokens, and read the audit log."},
    {"token",
     "A secret that identifies a client on the network; it has a name, a role, and optionally an "
     "expiry date."},
    {"audit", "Requests that made changes: the client, its address, and the result."},
    {"context", "A name for a vgpud and the settings for connecting to it."},
};

const size_t vg_glossary_size = G_N_ELEMENTS(vg_glossary);
