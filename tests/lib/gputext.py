# SPDX-License-Identifier: Apache-2.0
"""A short recording as text: two VMs with vGPUs and a program of the host share an engine and a CPU.
Every time is written here by hand, and so is what follows from it."""

MS = 1_000_000

# (ms, comm, tid, pid, event, fields); pid 100 and 200 are VMs, 50 is GVT-g's thread.
SWITCH = "prev_comm={} prev_pid={} prev_prio=120 prev_state={} ==> next_comm={} next_pid={} next_prio=120"
LINES = [
    (0, "<idle>", 0, 0, "sched_switch", SWITCH.format("swapper/0", 0, "R", "CPU 0/KVM", 101)),
    (1, "CPU 0/KVM", 101, 100, "kvm_entry", "vcpu 0, rip 0x1"),
    (3, "CPU 0/KVM", 101, 100, "kvm_exit", "vcpu 0 reason EXTERNAL_INTERRUPT rip 0x1 info1 0x0 info2 0x0"),
    (4, "CPU 0/KVM", 101, 100, "sched_wakeup", "comm=CPU 0/KVM pid=201 prio=120 target_cpu=000"),
    # VM a is preempted by VM b, which has waited for 2 ms.
    (6, "CPU 0/KVM", 101, 100, "sched_switch", SWITCH.format("CPU 0/KVM", 101, "R", "CPU 0/KVM", 201)),
    (9, "CPU 0/KVM", 201, 200, "sched_switch", SWITCH.format("CPU 0/KVM", 201, "S", "CPU 0/KVM", 101)),
    (10, "qemu-system-x86", 100, 100, "gvt_workload_queue", "dev=0 vgpu_id=1 ring_id=0 workload=a1"),
    (11, "qemu-system-x86", 200, 200, "gvt_workload_queue", "dev=0 vgpu_id=2 ring_id=0 workload=b1"),
    (12, "gvt:rcs0", 50, 50, "gvt_workload_submit", "dev=0 vgpu_id=1 ring_id=0 workload=a1 ctx=5 seqno=1"),
    (12, "gvt:rcs0", 50, 50, "i915_request_add", "dev=0, engine=0:0, ctx=5, seqno=1"),
    (13, "gvt:rcs0", 50, 50, "i915_request_submit", "dev=0, engine=0:0, ctx=5, seqno=1"),
    (14, "gvt:rcs0", 50, 50, "i915_request_in", "dev=0, engine=0:0, ctx=5, seqno=1, prio=0, port=0"),
    (20, "gvt:rcs0", 50, 50, "i915_request_out", "dev=0, engine=0:0, ctx=5, seqno=1, completed?=1"),
    (20, "gvt:rcs0", 50, 50, "gvt_workload_complete", "dev=0 vgpu_id=1 ring_id=0 workload=a1 status=0"),
    # Submitted, ready and running at once.
    (21, "gvt:rcs0", 50, 50, "gvt_workload_submit", "dev=0 vgpu_id=2 ring_id=0 workload=b1 ctx=6 seqno=1"),
    (21, "gvt:rcs0", 50, 50, "i915_request_add", "dev=0, engine=0:0, ctx=6, seqno=1"),
    (21, "gvt:rcs0", 50, 50, "i915_request_submit", "dev=0, engine=0:0, ctx=6, seqno=1"),
    (21, "gvt:rcs0", 50, 50, "i915_request_in", "dev=0, engine=0:0, ctx=6, seqno=1, prio=0, port=0"),
    (22, "glxgears", 300, 300, "i915_request_add", "dev=0, engine=0:0, ctx=9, seqno=1"),
    (22.5, "glxgears", 300, 300, "i915_request_submit", "dev=0, engine=0:0, ctx=9, seqno=1"),
    # Taken off for the program, and on again.
    (23, "gvt:rcs0", 50, 50, "i915_request_out", "dev=0, engine=0:0, ctx=6, seqno=1, completed?=0"),
    (23, "gvt:rcs0", 50, 50, "i915_request_in", "dev=0, engine=0:0, ctx=9, seqno=1, prio=5, port=0"),
    (25, "gvt:rcs0", 50, 50, "i915_request_out", "dev=0, engine=0:0, ctx=9, seqno=1, completed?=1"),
    (25, "gvt:rcs0", 50, 50, "i915_request_in", "dev=0, engine=0:0, ctx=6, seqno=1, prio=0, port=0"),
    (30, "gvt:rcs0", 50, 50, "i915_request_out", "dev=0, engine=0:0, ctx=6, seqno=1, completed?=1"),
    (30, "gvt:rcs0", 50, 50, "gvt_workload_complete", "dev=0 vgpu_id=2 ring_id=0 workload=b1 status=0"),
    (31, "qemu-system-x86", 100, 100, "gvt_workload_queue", "dev=0 vgpu_id=1 ring_id=0 workload=a2"),
    (40, "CPU 0/KVM", 101, 100, "kvm_entry", "vcpu 0, rip 0x1"),
]

BEGIN_MS = 1000
# What the analysis must find: ms, of (VM or program): the GPU's, and of VMs the CPU's. a2 still waits
# when the recording ends.
# The workload that a queues last has no end: it is open, and in none of these.
GPU = {"a": {"exec": 6, "wait": 4}, "b": {"exec": 2 + 5, "wait": 10 + 2},
       "glxgears": {"exec": 2, "wait": 1}}
STAGES = {"a": {"queued": 2, "submitted": 1, "ready": 1}, "b": {"queued": 10, "ready": 2}}
CPU = {"a": {"run": 6 + 31, "guest": 2, "preempted": 3, "woken": 0},
       "b": {"run": 3, "guest": 0, "preempted": 0, "woken": 2}}


def write(path, names=("a", "b"), lines=None):
    """The recording, and beside it path.map with the names of the VMs."""
    with open(path, "w", encoding="utf-8") as out:
        out.write("# tracer: nop\n#\n#           TASK-PID    TGID   CPU#  |||||  TIMESTAMP  FUNCTION\n")
        for ms, comm, tid, pid, event, fields in lines or LINES:
            t = int((BEGIN_MS + ms) * MS)
            cpu = 0 if event.startswith(("sched", "kvm")) else 1
            out.write(f"{comm:>16}-{tid:<7} ({pid:7d}) [{cpu:03d}] d.... {t // 10**9}.{t % 10**9:09d}: "
                      f"{event}: {fields}\n")
    with open(f"{path}.map", "w", encoding="utf-8") as out:
        for pid, name in zip((100, 200), names):
            out.write(f"{pid} {name}\n")
    return str(path), f"{path}.map"
