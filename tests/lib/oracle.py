# SPDX-License-Identifier: Apache-2.0
"""A slow, independent reading of the CPU measures.

It first draws, for the whole trace, one list of intervals per thread and one list of occupants per
CPU, and only then clips and adds them up for the period that is asked for. The program under test
counts as it goes; that the two agree is the point.
"""
import bisect
import os
import re
import subprocess
from collections import defaultdict

from ctfgen import Ev

FIGURES = ("observed_ns", "run_ns", "entries", "guest_ns", "hyp_ns", "preempt_ns", "preemptions",
           "wake_wait_ns", "wakeups", "blocked_ns", "blocks", "switches_out")

# Intel SDM vol. 3 appendix C (VMX basic exit reasons); AMD APM vol. 2 appendix C (SVM codes).
VMX = {1: "interrupt", 7: "interrupt", 10: "cpuid", 12: "hlt", 18: "hypercall", 30: "io",
       31: "msr", 32: "msr", 40: "pause", 48: "page-fault", 49: "mmio", 52: "preemption-timer"}
SVM = {0x60: "interrupt", 0x64: "interrupt", 0x72: "cpuid", 0x77: "pause", 0x78: "hlt",
       0x7B: "io", 0x7C: "msr", 0x81: "hypercall", 0x400: "page-fault"}

VCPU_COMM = re.compile(r"CPU (\d+)/(KVM|TCG)")
KERNEL_COMM = re.compile(r"(kworker/|ksoftirqd/|migration/|rcu_|kcompactd|kthreadd|kswapd|cpuhp/|"
                         r"watchdog/|khugepaged|irq/)")
IDLE = "idle"

# Since which kernel: the bit of a preempted thread, the bits of a dead one. The bit moved with
# TASK_NOLOAD (4.2) and TASK_NEW (4.8); from 4.14 on TASK_DEAD (0x40 before) is not shown any more.
STATE_BITS = (((4, 14), (0x100, 0x30)), ((4, 8), (0x1000, 0x70)), ((4, 2), (0x800, 0x70)),
              ((0, 0), (0x400, 0x70)))


def state_of(prev_state, release="6.1.0"):
    """"runnable", "blocked" or "exited" (include/linux/sched.h of the kernel that recorded)."""
    m = re.match(r"(\d+)\.(\d+)", release)
    version = (int(m.group(1)), int(m.group(2))) if m else (6, 1)
    preempt, dead = next(bits for since, bits in STATE_BITS if version >= since)
    if prev_state & preempt or prev_state == 0:
        return "runnable"
    return "exited" if prev_state & dead else "blocked"


class Thread:
    def __init__(self, tid):
        self.tid = tid
        self.pid = None
        self.comm = ""
        self.kind = None
        self.vcpu = False
        self.state = None            # None: unseen; run, preempt, wake, blocked, ended
        self.since = None
        self.cpu = None
        self.open_since = None       # ran already when first seen
        self.intervals = []          # (t0, t1, state, cpu)
        self.guest_since = None
        self.guest = []              # (t0, t1)
        self.points = defaultdict(list)   # counter -> times
        self.nexts = []              # (t, who came on instead) of preemptions

    def to(self, t, state, cpu):
        if self.state not in (None, "ended"):
            self.intervals.append((self.since, t, self.state, self.cpu))
        self.state, self.since, self.cpu = state, t, cpu

    def cut_guest(self, t):
        if self.guest_since is not None:
            self.guest.append((self.guest_since, t))
            self.guest_since = None


class Oracle:
    def __init__(self, events, release="6.1.0", vm_map=None):
        self.release = release
        self.vm_map = vm_map or {}       # pid -> name
        self.threads, self.alive = [], {}
        self.occupants = defaultdict(list)   # cpu -> [(t, Thread, IDLE or None)]
        self.contradictions = 0
        self.leaver = {}                 # cpu -> tid of the last switch-out
        self.has_wakeup = any(e.name == "sched_wakeup" for e in events)
        self.kvm_seen = any(e.name.startswith("kvm_") for e in events)
        self.first = events[0].t if events else 0
        self.last = events[-1].t if events else 0
        self.n_events = len(events)
        for ev in events:
            self.take(ev)
        for thread in self.threads:
            thread.cut_guest(self.last)
            if thread.state not in (None, "ended"):
                thread.to(self.last, "ended", None)

    # ---- drawing ----

    def thread(self, tid, comm=None):
        th = self.alive.get(tid)
        if th is None:
            th = self.alive[tid] = Thread(tid)
            self.threads.append(th)
        if comm:
            th.comm = comm
            th.vcpu = th.vcpu or bool(VCPU_COMM.fullmatch(comm))
        return th

    def occupant(self, cpu):
        return self.occupants[cpu][-1][1] if self.occupants[cpu] else None

    def on_cpu(self, t, cpu, who):
        """Evidence that who (Thread or IDLE) runs on cpu at t."""
        old = self.occupant(cpu)
        if old is not who:
            if old is not None:
                self.contradictions += 1
                if old is not IDLE and old.state == "run" and old.cpu == cpu:
                    old.cut_guest(t)
                    old.to(t, "blocked", cpu)
            self.occupants[cpu].append((t, who))
        if who is IDLE or (who.state == "run" and who.cpu == cpu):
            return
        if who.state is None:
            who.open_since = t
        else:
            self.contradictions += 1
            who.cut_guest(t)
            self.leave_other(t, cpu, who)
        who.to(t, "run", cpu)

    def leave_other(self, t, cpu, who):
        """who turns up on cpu: where it was believed to run, nobody knows now who does."""
        if who.state == "run" and who.cpu != cpu and self.occupant(who.cpu) is who:
            self.contradictions += 1
            who.cut_guest(t)
            self.occupants[who.cpu].append((t, None))

    def take(self, ev):
        handler = getattr(self, "do_" + ev.name, None)
        if handler is None and self.occupant(ev.cpu) is not None:
            # The old thread may have written it after its sched_switch.
            who = self.occupant(ev.cpu)
            if ev.tid == self.leaver.get(ev.cpu) != (0 if who is IDLE else who.tid):
                return
        if ev.tid == 0:
            self.on_cpu(ev.t, ev.cpu, IDLE)
        elif ev.tid > 0:
            th = self.thread(ev.tid, ev.comm)
            if ev.pid >= 0:
                th.pid = ev.pid
            self.on_cpu(ev.t, ev.cpu, th)
        if handler:
            handler(ev, ev.t, ev.f)

    def do_sched_switch(self, ev, t, f):
        prev, nxt = f["prev_tid"], f["next_tid"]
        self.leaver[ev.cpu] = prev
        new = self.thread(nxt, f.get("next_comm")) if nxt else IDLE
        if prev == 0:
            self.on_cpu(t, ev.cpu, IDLE)
        else:
            th = self.thread(prev, f.get("prev_comm"))
            if not (th.state is None and self.occupant(ev.cpu) is None):
                self.on_cpu(t, ev.cpu, th)
            th.cut_guest(t)
            th.points["switches_out"].append(t)
            state = state_of(f["prev_state"], self.release)
            if state == "runnable":
                th.points["preemptions"].append(t)
                th.nexts.append((t, new))
                th.to(t, "preempt", ev.cpu)
            else:
                th.points["blocks"].append(t)
                th.to(t, "ended" if state == "exited" else "blocked", ev.cpu)
                if state == "exited":
                    del self.alive[prev]
        self.occupants[ev.cpu].append((t, new))
        if new is not IDLE:
            self.leave_other(t, ev.cpu, new)
            new.to(t, "run", ev.cpu)

    def wake(self, t, f):
        th = self.thread(f["tid"], f.get("comm"))
        if th.state in (None, "blocked"):
            th.points["wakeups"].append(t)
            th.to(t, "wake", f["target_cpu"])

    def do_sched_wakeup(self, ev, t, f):
        self.wake(t, f)

    def do_sched_wakeup_new(self, ev, t, f):
        self.wake(t, f)

    def do_sched_waking(self, ev, t, f):
        if not self.has_wakeup:
            self.wake(t, f)

    def do_sched_migrate_task(self, ev, t, f):
        th = self.thread(f["tid"], f.get("comm"))
        if th.state in ("preempt", "wake"):
            th.to(t, th.state, f["dest_cpu"])

    def kvm_thread(self, ev):
        """Who entered or left the guest: the recording thread, or else whoever has the CPU."""
        if ev.tid > 0:
            return self.alive[ev.tid]
        who = self.occupant(ev.cpu)
        return None if who in (None, IDLE) else who

    def do_kvm_entry(self, ev, t, f):
        th = self.kvm_thread(ev)
        if th:
            th.vcpu = True
            th.points["entries"].append(t)
            if th.guest_since is None:
                th.guest_since = t

    def do_kvm_exit(self, ev, t, f):
        th = self.kvm_thread(ev)
        if th:
            th.vcpu = True
            th.cut_guest(t)
            table = SVM if f.get("isa") == 2 else VMX
            th.points["exit:" + table.get(f["exit_reason"], "other")].append(t)

    def do_lttng_statedump_process_state(self, ev, t, f):
        th = self.thread(f["tid"], f["name"])
        th.pid = f["pid"]
        th.kind = "kernel" if f["type"] == 1 else "user"

    def do_sched_process_fork(self, ev, t, f):
        th = self.thread(f["child_tid"], f.get("child_comm"))
        if "child_pid" in f:
            th.pid = f["child_pid"]

    # ---- adding up ----

    def vm_key(self, th):
        """What stands for the process of a thread, if it is a VM; else None."""
        pid = th.pid if th.pid is not None else th.tid
        return pid if pid in self.vm_pids else None

    def measure(self, begin=None, end=None):
        """The document's "vms" and "tasks", as far as this program knows them."""
        self.begin = self.first if begin is None else begin
        self.end = self.last if end is None else end
        self.inclusive = begin is None
        self.vm_pids = {th.pid if th.pid is not None else th.tid
                        for th in self.threads if th.vcpu} | set(self.vm_map)
        vms = {}
        for th in self.threads:
            if th.vcpu:
                vms.setdefault(self.vm_key(th), []).append(th)
        doc = [self.vm(pid, members) for pid, members in vms.items()]
        tasks = [dict(tid=th.tid, **self.figures(th)) for th in self.threads]
        return {"vms": sorted(doc, key=lambda v: (v["name"], v["pid"])), "tasks": tasks}

    def inside(self, t):
        return (self.begin <= t if self.inclusive else self.begin < t) and t <= self.end

    def clip(self, t0, t1):
        return max(0, min(t1, self.end) - max(t0, self.begin))

    def figures(self, th):
        f = dict.fromkeys(FIGURES, 0)
        name = {"run": "run_ns", "preempt": "preempt_ns", "wake": "wake_wait_ns",
                "blocked": "blocked_ns"}
        for t0, t1, state, _ in th.intervals:
            ns = self.clip(t0, t1)
            f[name[state]] += ns
            f["observed_ns"] += ns
        f["guest_ns"] = sum(self.clip(*span) for span in th.guest)
        f["hyp_ns"] = f["run_ns"] - f["guest_ns"]
        exits = {}
        for counter, times in th.points.items():
            n = sum(map(self.inside, times))
            if counter.startswith("exit:"):
                exits[counter[5:]] = n
            else:
                f[counter] = n
        f["exits"] = {k: n for k, n in exits.items() if n}
        return f

    def closed(self, th):
        """Guest, run and preempted time without the intervals that the recording cut off."""
        def total(spans):
            return sum(b - a for a, b in spans if b < self.last and a != th.open_since)
        return (total(th.guest), *(total((a, b) for a, b, state, _ in th.intervals if state == kind)
                                   for kind in ("run", "preempt")))

    def aggressor(self, who, victim_pid):
        if who is None:
            return "host:unknown"
        if who is IDLE:
            return "host:idle"
        key = self.vm_key(who)
        if key is not None:
            return "self" if key == victim_pid else self.vm_name(key)
        kernel = who.kind == "kernel" or (who.kind is None and KERNEL_COMM.match(who.comm))
        return "host:kernel" if kernel else "host:user"

    def vm_name(self, pid):
        return self.vm_map.get(pid, f"qemu-{pid}")

    def lost_to(self, pid, members):
        ns, count = defaultdict(int), defaultdict(int)
        for th in members:
            for t0, t1, state, cpu in th.intervals:
                if state in ("preempt", "wake"):
                    t0, t1 = max(t0, self.begin), min(t1, self.end)
                    for who, part in self.who_had(cpu, t0, t1):
                        ns[self.aggressor(who, pid)] += part
            for t, who in th.nexts:
                if self.inside(t):
                    count[self.aggressor(who, pid)] += 1
        return {a: (ns[a], count[a]) for a in set(ns) | set(count) if ns[a] or count[a]}

    def who_had(self, cpu, t0, t1):
        spans = self.occupants[cpu]
        i = bisect.bisect_right(spans, t0, key=lambda s: s[0]) - 1
        while t0 < t1:
            who = spans[i][1] if i >= 0 else None
            stop = min(t1, spans[i + 1][0]) if i + 1 < len(spans) else t1
            yield who, stop - t0
            t0, i = stop, i + 1

    def vm(self, pid, members):
        vcpus = [dict(tid=th.tid, **self.figures(th)) for th in members]
        total = {k: sum(v[k] for v in vcpus) for k in FIGURES}
        exits = defaultdict(int)
        for v in vcpus:
            for k, n in v["exits"].items():
                exits[k] += n
        demand = total["run_ns"] + total["preempt_ns"] + total["wake_wait_ns"]
        observed = total["observed_ns"]
        return dict(total, name=self.vm_name(pid), pid=pid, vcpus=sorted(
            vcpus, key=lambda v: v["tid"]), exits=dict(exits), lost_to=self.lost_to(pid, members),
            cpu_intensity=demand / observed if observed else 0.0)


# ---- events from babeltrace2's text ----

FIELD = re.compile(r'(\w+) = (?:"((?:[^"\\]|\\.)*)"|(-?(?:0x)?[0-9A-Fa-f]+))')
LINE = re.compile(r"\[(\d+)\] (?:\S+ )?((?:\w+:)?\w+): (.*)")
RENAMED = {"prev_pid": "prev_tid", "next_pid": "next_tid", "child_pid": "child_tid",
           "parent_pid": "parent_tid"}


def from_babeltrace(directory):
    """The events of a recorded trace, as babeltrace2 prints them."""
    out = subprocess.run(["babeltrace2", "--clock-cycles", "--no-delta", directory],
                         capture_output=True, text=True, check=True,
                         env=dict(os.environ, LC_ALL="C.UTF-8")).stdout
    return [parse_line(line) for line in out.splitlines()]


def parse_line(line):
    stamp, name, rest = LINE.match(line).groups()
    blocks = re.findall(r"\{ ?((?:[^{}\"]|\"(?:[^\"\\]|\\.)*\")*) ?\}", rest)
    values = [{k: s if n == "" else int(n, 0) for k, s, n in FIELD.findall(b)} for b in blocks]
    perf = ":" in name
    name = name.split(":")[-1].replace("kvm_x86_", "kvm_")
    cpu, payload = values[0]["cpu_id"], values[-1]
    if perf:
        tid, pid, comm = payload["perf_tid"], payload["perf_pid"], ""
        payload = {RENAMED.get(k, k): v for k, v in payload.items()}
        if "comm" in payload:
            payload["tid"] = payload.get("pid")
    else:
        context = values[1] if len(values) > 2 else {}
        tid, pid = context.get("tid", -1), context.get("pid", -1)
        comm = context.get("procname", "")
    return Ev(int(stamp), cpu, name, tid, pid, comm, payload)
