# SPDX-License-Identifier: Apache-2.0
"""A host with virtual machines, simulated: random but lawful sched and kvm events.

Threads run, sleep, are preempted, woken, migrated, forked and die as a Linux scheduler lets them;
vCPU threads enter and leave their guest in between. No two records of different CPUs share a time
stamp, so every correct reader sees one and the same order.
"""
import random
from dataclasses import dataclass

from ctfgen import Ev

# (isa, reason): common VM exits of VMX (1) and SVM (2).
VMX_EXITS = (1, 7, 10, 12, 18, 28, 30, 31, 32, 40, 48, 49, 52)
SVM_EXITS = (0x60, 0x64, 0x72, 0x77, 0x78, 0x7B, 0x7C, 0x81, 0x10, 0x400)


@dataclass
class Task:
    tid: int
    pid: int
    comm: str
    kind: str              # vcpu, emulator, user, kernel
    state: str = "blocked"
    cpu: int = 0
    in_guest: bool = False


@dataclass
class Spec:
    seed: int = 1
    events: int = 2000
    cpus: int = 2
    vms: int = 2
    vcpus: int = 2
    t0: int = 5_000_000_000
    step: int = 40_000       # mean ns between records
    quantum: int = 1         # time stamps are multiples of it
    isa: int = 1
    kvm: bool = True
    wakeup: bool = True      # sched_wakeup recorded
    waking: bool = False     # sched_waking recorded
    migrate: bool = True     # sched_migrate_task recorded
    pulls: bool = True       # a CPU takes threads that wait for another one
    forks: bool = True       # short-lived host processes
    statedump: bool = False
    extended_exit_state: int = 0x20   # prev_state of a thread that dies
    preempt_bit: int = 0x100          # prev_state of a preempted thread that was going to sleep
    other: bool = True       # uninteresting events in between


class Host:
    def __init__(self, spec):
        self.s = spec
        self.rng = random.Random(spec.seed)
        self.t = spec.t0
        self.events = []
        self.tasks = {}
        self.on_cpu = [None] * spec.cpus
        self.next_tid = 1000
        for v in range(spec.vms):
            pid = 200 + 20 * v
            self.add(pid, pid, "qemu-system-x86", "emulator")
            for i in range(spec.vcpus):
                self.add(pid + 3 + i, pid, f"CPU {i}/KVM", "vcpu")
        for cpu in range(spec.cpus):
            self.add(20 + cpu, 20 + cpu, f"kworker/{cpu}:1", "kernel", cpu)
            self.add(10 + cpu, 10 + cpu, f"ksoftirqd/{cpu}", "kernel", cpu)
        self.add(700, 700, "nginx", "user")
        self.add(701, 700, "nginx", "user")

    def add(self, tid, pid, comm, kind, cpu=None):
        cpu = self.rng.randrange(self.s.cpus) if cpu is None else cpu
        self.tasks[tid] = Task(tid, pid, comm, kind, cpu=cpu)
        return self.tasks[tid]

    # -- emitting --

    def tick(self):
        q = self.s.quantum
        self.t += max(1, int(self.rng.expovariate(1.0 / self.s.step)) // q) * q

    def emit(self, cpu, name, f=None):
        task = self.on_cpu[cpu]
        who = (task.tid, task.pid, task.comm) if task else (0, 0, f"swapper/{cpu}")
        self.events.append(Ev(self.t, cpu, name, *who, f or {}))
        self.tick()

    def switch(self, cpu, prev_state, new):
        old = self.on_cpu[cpu]
        idle = (0, f"swapper/{cpu}")
        p = (old.tid, old.comm) if old else idle
        n = (new.tid, new.comm) if new else idle
        self.emit(cpu, "sched_switch", {"prev_tid": p[0], "prev_comm": p[1],
                                        "prev_state": prev_state if old else 0,
                                        "next_tid": n[0], "next_comm": n[1]})
        self.on_cpu[cpu] = new
        if new:
            new.state, new.cpu = "running", cpu
        if old:
            old.in_guest = False

    def wake(self, cpu, task, new=False):
        f = {"comm": task.comm, "tid": task.tid, "target_cpu": task.cpu}
        if self.s.waking:
            self.emit(cpu, "sched_waking", dict(f))
        if task.kind in ("vcpu", "emulator", "user") and self.rng.random() < 0.3:
            task.cpu = self.rng.randrange(self.s.cpus)
        if self.s.wakeup:
            self.emit(cpu, "sched_wakeup_new" if new else "sched_wakeup",
                      dict(f, target_cpu=task.cpu))
        task.state = "waiting"

    # -- what happens --

    def waiting_on(self, cpu):
        return [t for t in self.tasks.values() if t.state == "waiting" and t.cpu == cpu]

    def pull(self, cpu):
        """An idle or overloaded balance: a waiting thread moves to this CPU."""
        movable = [t for t in self.tasks.values()
                   if t.state == "waiting" and t.cpu != cpu and t.kind != "kernel"]
        if not movable:
            return
        task = self.rng.choice(movable)
        if self.s.migrate:
            self.emit(cpu, "sched_migrate_task", {"comm": task.comm, "tid": task.tid,
                                                  "orig_cpu": task.cpu, "dest_cpu": cpu})
        task.cpu = cpu

    def leave(self, cpu):
        task, queue = self.on_cpu[cpu], self.waiting_on(cpu)
        new = self.rng.choice(queue) if queue else None
        if task and task.kind == "user" and task.tid >= 1000 and self.rng.random() < 0.4:
            self.switch(cpu, self.s.extended_exit_state, new)
            del self.tasks[task.tid]
            if self.rng.random() < 0.5:
                self.emit(cpu, "sched_process_free", {"comm": task.comm, "tid": task.tid})
            return
        if task and queue and self.rng.random() < 0.5:
            self.switch(cpu, self.rng.choice((0, 0, 0, self.s.preempt_bit)), new)
            task.state = "waiting"
        elif task or new:
            self.switch(cpu, self.rng.choice((1, 1, 2)), new)
            if task:
                task.state = "blocked"

    def guest(self, cpu):
        task = self.on_cpu[cpu]
        if not task.in_guest:
            self.emit(cpu, "kvm_entry")
            task.in_guest = True
            return
        reason = self.rng.choice(VMX_EXITS if self.s.isa == 1 else SVM_EXITS)
        self.emit(cpu, "kvm_exit", {"exit_reason": reason, "isa": self.s.isa})
        task.in_guest = False

    def fork(self, cpu):
        parent = self.on_cpu[cpu]
        # Thread ids come back after a while.
        tid = 1000 + (self.next_tid - 1000) % 40
        self.next_tid += 1
        if tid in self.tasks:
            return
        child = self.add(tid, tid, parent.comm, "user")
        self.emit(cpu, "sched_process_fork", {
            "parent_comm": parent.comm, "parent_tid": parent.tid, "parent_pid": parent.pid,
            "child_comm": child.comm, "child_tid": tid, "child_pid": tid})
        self.wake(cpu, child, new=True)

    def statedump(self):
        self.emit(0, "lttng_statedump_start")
        for task in sorted(self.tasks.values(), key=lambda t: t.tid):
            kernel = task.kind == "kernel"
            self.emit(0, "lttng_statedump_process_state", {
                "tid": task.tid, "pid": task.pid, "ppid": 2 if kernel else 1, "name": task.comm,
                "type": 1 if kernel else 0, "mode": 5, "status": 5})
        self.emit(0, "lttng_statedump_end")

    def step(self):
        cpu, roll = self.rng.randrange(self.s.cpus), self.rng.random()
        task = self.on_cpu[cpu]
        if task and task.kind == "vcpu" and self.s.kvm and roll < 0.6:
            self.guest(cpu)
        elif roll < 0.75:
            self.leave(cpu)
        elif roll < 0.93:
            asleep = [t for t in self.tasks.values() if t.state == "blocked"]
            if asleep:
                self.wake(cpu, self.rng.choice(asleep))
        elif roll < 0.95:
            if self.s.pulls:
                self.pull(cpu)
        elif roll < 0.97 and self.s.forks and task and task.kind == "user":
            self.fork(cpu)
        elif self.s.other:
            self.emit(cpu, "timer_start", {"timer": 1, "expires": self.t})

    def run(self):
        if self.s.statedump:
            self.statedump()
        while len(self.events) < self.s.events:
            self.step()
        return self.events


def simulate(**spec):
    return Host(Spec(**spec)).run()
