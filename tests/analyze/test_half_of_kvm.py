# SPDX-License-Identifier: Apache-2.0
"""Recordings of kvm_exit without kvm_entry, or the reverse: the time in guests is not known.

A vCPU of VM 5000 and one of VM 6000 take turns of 10 ms on a CPU for 100 ms. Each is in its guest but for 10 us
at either end of a turn: 5 x 9.98 ms."""
import pytest

import vgpuctl
from ctfgen import Dialect, Ev, write_trace

WARNING = "kvm_{} was recorded without kvm_{}, so for VMs, {}"
FIGURES = {"exit": "entries, guest_ns, hyp_ns and clipped are unknown", "entry": "guest_ns, hyp_ns, clipped and exits are unknown"}


def turns(kinds):
    """kinds: of which event for which VM: {(pid, "entry")}; (ns, tid, pid, event)"""
    for i in range(10):
        at, (tid, pid), (then, _) = i * 10**7, *[((5010, 5000), (6010, 6000)), ((6010, 6000), (5010, 5000))][i % 2]
        if (pid, "entry") in kinds:
            yield at + 10_000, tid, pid, "entry"
        if (pid, "exit") in kinds:
            yield at + 9_990_000, tid, pid, "exit"
        yield at + 10**7, tid, pid, then


def text(path, kinds):
    lines = []
    for ns, tid, pid, event in turns(kinds):
        body = {"entry": "kvm:kvm_entry: vcpu 0, rip 0xff", "exit": "kvm:kvm_exit: reason HLT rip 0xff info 0 0"}.get(
            event, f"sched:sched_switch: prev_comm=CPU 0/KVM prev_pid={tid} prev_prio=120 prev_state=R ==> "
            f"next_comm=CPU 0/KVM next_pid={event} next_prio=120")
        ns += 100 * 10**9
        lines.append(f"CPU 0/KVM  {pid}/{tid}  [000] {ns // 10**9}.{ns % 10**9:09d}: {body}\n")
    first = lines[0].split("[000]")[0]
    (path / "t").write_text(
        f"{first.replace('5000/5010', '6000/6010')}[000] 100.000000000: sched:sched_switch: prev_comm=CPU 0/KVM "
        "prev_pid=6010 prev_prio=120 prev_state=R ==> next_comm=CPU 0/KVM next_pid=5010 next_prio=120\n"
        + "".join(lines))
    return vgpuctl.analyze(path / "t")


def ctf(path, kinds):
    def switch(ns, tid, pid, then):
        return Ev(10**11 + ns, 0, "sched_switch", tid, pid, "CPU 0/KVM", dict(
            prev_comm="CPU 0/KVM", prev_tid=tid, prev_prio=20, prev_state=0, next_comm="CPU 0/KVM", next_tid=then,
            next_prio=20))
    events = [switch(0, 6010, 6000, 5010)]
    for ns, tid, pid, event in turns(kinds):
        if event == "entry":
            events.append(Ev(10**11 + ns, 0, "kvm_entry", tid, pid, "CPU 0/KVM", dict(vcpu_id=0)))
        elif event == "exit":
            events.append(Ev(10**11 + ns, 0, "kvm_exit", tid, pid, "CPU 0/KVM",
                             dict(exit_reason=12, guest_rip=0, isa=1, info1=0, info2=0)))
        else:
            events.append(switch(ns, tid, pid, event))
    (path / "ctf").mkdir()
    write_trace(str(path / "ctf"), Dialect(), events)
    return vgpuctl.analyze(path / "ctf")


@pytest.mark.parametrize("read", [text, ctf])
@pytest.mark.parametrize("kinds,known,missing", [
    ({(5000, "entry"), (5000, "exit"), (6000, "entry"), (6000, "exit")}, True, None),
    ({(5000, "exit"), (6000, "exit")}, False, ("exit", "entry")),
    ({(5000, "entry"), (6000, "entry")}, False, ("entry", "exit")),
    ({(5000, "exit")}, False, ("exit", "entry")),
    (set(), False, None),
])
def test_half(tmp_path, read, kinds, known, missing):
    done = read(tmp_path, kinds)
    vms = done.doc()["vms"]
    assert [(v["run_ns"], v["guest_known"]) for v in vms] == [(50_000_000, known)] * 2
    assert [v["guest_ns"] for v in vms] == [5 * 9_980_000 if known else None] * 2
    # Nobody counted what was not recorded.
    of = {event: {e for _, e in kinds} >= {event} for event in ("entry", "exit")}
    assert all((v["entries"] is not None, v["exits"] is not None) == (of["entry"], of["exit"]) for v in vms)
    assert {v["entries"] for v in vms if (v["pid"], "entry") in kinds} <= {5}
    told = [line for line in done.err.splitlines() if "without sched_wakeup" not in line]
    if missing:
        assert len(told) == 1 and WARNING.format(*missing, FIGURES[missing[0]]) in told[0]
    else:
        assert told == []
