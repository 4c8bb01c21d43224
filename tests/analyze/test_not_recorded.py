# SPDX-License-Identifier: Apache-2.0
"""Recordings that lack an event, or the records of a CPU. What needs it is unknown, or a lower bound, and
a warning names what is missing; no figure becomes another one.

The first recording, by hand: a vCPU is woken every 20 ms, 50 times, waits 4 ms for cc1, runs 6 ms and sleeps.
From the first wakeup to the last switch-out are 49 x 20 + 10 = 990 ms."""
import csv
import io
import json
import subprocess

import pytest

import vgpuctl
import gputext
from ctfgen import Dialect, Ev, write_trace
from hostsim import simulate
from settings import seed

MS = 10**6
FIGURES = ("run_ns", "guest_ns", "hyp_ns", "preempt_ns", "wake_wait_ns", "blocked_ns", "preemptions", "wakeups",
           "blocks", "entries", "observed_ns", "switches_out", "unseen_migrations", "clipped", "cpu_intensity", "class")
HEADS = {"tracefs": "# tracer: nop\n#\n# entries-in-buffer/entries-written: 9/9   #P:{}\n#\n",
         "perf script": "# ========\n# nrcpus online : {}\n# ========\n#\n", "trace-cmd": "cpus={}\n"}
STATES = {0: "R", 1: "S", 2: "D", 0x10: "X", 0x20: "Z", 0x100: "R+"}


def switch(t, cpu, prev, state, then):
    (pt, pp, pc), (nt, _, nc) = prev, then
    return Ev(t, cpu, "sched_switch", pt, pp, pc, dict(prev_comm=pc, prev_tid=pt, prev_prio=20, prev_state=state,
                                                     next_comm=nc, next_tid=nt, next_prio=20))


VCPU, CC1, IDLE = (5010, 5000, "CPU 0/KVM"), (77, 77, "cc1"), (0, 0, "swapper/0")


def naps():
    for i in range(50):
        at = 100_000 * MS + i * 20 * MS
        yield Ev(at, 0, "sched_wakeup", *CC1, dict(comm=VCPU[2], tid=VCPU[0], prio=20, target_cpu=0))
        yield switch(at + 4 * MS, 0, CC1, 0, VCPU)
        yield switch(at + 10 * MS, 0, VCPU, 1, CC1)


def body(event, style):
    get = event.f.get
    if event.name == "sched_switch":
        state = STATES[get("prev_state")]
        if style == "trace-cmd":
            return f"{get('prev_comm')}:{get('prev_tid')} [120] {state} ==> {get('next_comm')}:{get('next_tid')} [120]"
        return (f"prev_comm={get('prev_comm')} prev_pid={get('prev_tid')} prev_prio=120 prev_state={state} ==> "
                f"next_comm={get('next_comm')} next_pid={get('next_tid')} next_prio=120")
    if event.name == "sched_migrate_task":
        return (f"comm={get('comm')} pid={get('tid')} prio=120 orig_cpu={get('orig_cpu')} "
                f"dest_cpu={get('dest_cpu')}")
    if event.name.startswith("sched_wak"):
        if style == "trace-cmd":
            return f"{get('comm')}:{get('tid')} [120] CPU:{get('target_cpu'):03d}"
        return f"comm={get('comm')} pid={get('tid')} prio=120 target_cpu={get('target_cpu'):03d}"
    return {"kvm_entry": "vcpu 0, rip 0xff", "kvm_exit": "reason HLT rip 0xff info 0 0"}[event.name]


KNOWN = {"sched_switch", "sched_wakeup", "sched_wakeup_new", "sched_waking", "sched_migrate_task", "kvm_entry",
         "kvm_exit"}


def text(events, style, head=""):
    lines = [head]
    for e in events:
        if e.name not in KNOWN:
            continue
        stamp = f"[{e.cpu:03d}]{'' if style == 'perf script' else ' d..2.'} {e.t // 10**9}.{e.t % 10**9:09d}:"
        comm = e.comm if e.tid else "swapper" if style == "perf script" else "<idle>"
        who = {"perf script": f"{comm:>16} {e.pid:6d}/{e.tid:<6d}", "trace-cmd": f"{comm:>16}-{e.tid:<5}",
               "tracefs": f"{comm:>16}-{e.tid:<7} ({e.pid:7d})"}[style]
        system = f"{e.name.split('_')[0]}:" if style == "perf script" else ""
        lines.append(f"{who} {stamp} {system}{e.name}: {body(e, style)}\n")
    return "".join(lines)


def write(path, events, style, head=""):
    if style in HEADS:
        path.write_text(text(events, style, head))
    else:
        write_trace(str(path), Dialect(style=style), events)
    return path


def read(path, events, style, *args, head=""):
    return vgpuctl.analyze(write(path, list(events), style, head), *args)


STYLES = [*HEADS, "lttng213", "perf"]


@pytest.mark.parametrize("style", STYLES)
def test_no_wakeups(tmp_path, style):
    whole = read(tmp_path / "whole", naps(), style, "--vm-map", vm_map(tmp_path)).doc()["vms"][0]
    assert (whole["wake_wait_ns"], whole["blocked_ns"], whole["lost_to"][0]["ns"]) == (200 * MS, 490 * MS, 200 * MS)
    assert "bounds" not in whole and "lower_bound" not in whole and whole["class"] == "cpu"
    assert whole["unknown"] == ["entries", "guest_ns", "hyp_ns", "clipped", "exits"]
    done = read(tmp_path / "part", (e for e in naps() if e.name == "sched_switch"), style, "--vm-map",
                vm_map(tmp_path))
    [vm] = done.doc()["vms"]
    assert [vm[k] for k in ("wake_wait_ns", "wakeups", "blocked_ns", "class")] == [None] * 4
    assert (vm["run_ns"], vm["preempt_ns"], vm["observed_ns"]) == (300 * MS, 0, 986 * MS)
    assert (vm["cpu_intensity"], whole["cpu_intensity"]) == (0.304260, 0.505051)
    assert vm["lower_bound"] is True and {"cpu_intensity", "lost_to", "observed_ns"} <= set(vm["bounds"])
    assert [m["event"] for m in done.doc()["trace"]["missing"]] == ["sched_wakeup"]
    [warning] = done.err.splitlines()
    assert ("sched_switch was recorded without sched_wakeup, so for VMs, wake_wait_ns, wakeups, blocked_ns and class are "
            "unknown; observed_ns, unseen_migrations, clipped, cpu_intensity and lost_to are lower bounds") in warning


def vm_map(path):
    """For text without process ids."""
    (path / "map").write_text("5000 vm\n5010 vm\n")
    return path / "map"


def printed(path, form):
    return subprocess.run([vgpuctl.program(), "analyze", "-o", form, str(path)], capture_output=True, text=True,
                          check=True).stdout


def test_how_it_is_printed(tmp_path):
    """The vCPU is preempted once more, by cc1, for 2 ms: a loss that is known."""
    events = [e for e in naps() if e.name == "sched_switch"]
    last = events[-1]
    events[-1:] = [switch(last.t - 3 * MS, 0, VCPU, 0, CC1), switch(last.t - MS, 0, CC1, 0, VCPU), last]
    path = write(tmp_path / "t", events, "perf script")
    rows = [line.split() for line in printed(path, "table").splitlines()]
    # VM VCPUS CLASS CPU% RUN GUEST PREEMPT WAKE BLOCKED PREEMPTIONS
    assert rows[4] == ["qemu-5000", "1", "-", ">=30.4", "0.298", "-", "0.002", "-", "-", "1"]
    assert rows[-1] == ["qemu-5000", "host:user", ">=0.002", "-", "1"]
    [row] = csv.DictReader(io.StringIO(printed(path, "csv")))
    assert (row["wake_wait_ns"], row["class"], row["guest_ns"], row["run_ns"]) == ("", "", "", "298000000")
    assert row["cpu_intensity"] == "0.30426"
    assert row["lower_bound"].split(",") == ["observed_ns", "unseen_migrations", "cpu_intensity", "lost_to"]
    [loss] = vgpuctl.analyze(path).doc()["vms"][0]["lost_to"]
    assert loss == {"aggressor": "host:user", "ns": 2 * MS, "count": 1, "lower_bound": True}


def unseen(target=None, orig=None):
    """On CPU 1: the vCPU runs for 100 ms, sleeps, is woken or moved, and runs again from 950 to 1000 ms. cc1 has the CPU
    else."""
    at = 100_000 * MS
    yield switch(at, 1, IDLE, 0, VCPU)
    yield Ev(at + 50 * MS, 1, "sched_wakeup", *VCPU, dict(comm=CC1[2], tid=CC1[0], prio=20, target_cpu=1))
    yield switch(at + 100 * MS, 1, VCPU, 1, CC1)
    if target is not None:
        yield Ev(at + 110 * MS, 1, "sched_wakeup", *CC1, dict(comm=VCPU[2], tid=VCPU[0], prio=20, target_cpu=target))
    if orig is not None:
        yield Ev(at + 940 * MS, 1, "sched_migrate_task", *CC1, dict(
            comm=VCPU[2], tid=VCPU[0], prio=20, orig_cpu=orig, dest_cpu=1))
    yield switch(at + 950 * MS, 1, CC1, 0, VCPU)
    yield switch(at + 1000 * MS, 1, VCPU, 1, CC1)


def check_absent(done, cpus):
    doc = done.doc()
    [vm] = doc["vms"]
    assert doc["trace"]["absent_cpus"] == cpus
    assert (vm["run_ns"], vm["blocks"]) == (150 * MS, 2) and {"run_ns", "blocks", "preemptions"} <= set(vm["bounds"])
    for figure in ("observed_ns", "preempt_ns", "wake_wait_ns", "wakeups", "blocked_ns", "cpu_intensity", "lost_to"):
        assert vm[figure] is None and figure in vm["unknown"]
    assert f": CPU {', '.join(map(str, cpus))} of the host has no records, so for VMs, " in done.err


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("named", [{"target": 0}, {"orig": 0}, {"target": 3}])
def test_a_cpu_that_records_name(tmp_path, style, named):
    cpu = [*named.values()][0]
    events = [*unseen(**named)]
    done = read(tmp_path / "t", events, style, "--vm-map", vm_map(tmp_path))
    # Between CPUs 1 and 3 there is another one.
    check_absent(done, [cpu])
    assert [p["what"] for p in done.doc()["trace"]["problems"]] == [
        f"CPU {cpu} has no records, but threads are woken there, so their wait and run times there are unknown"]
    # The same through a pipe, which cannot be read ahead.
    if style in HEADS:
        check_absent(vgpuctl.analyze("/dev/stdin", "--vm-map", tmp_path / "map", stdin=text(events, style)), [cpu])


@pytest.mark.parametrize("style", HEADS)
def test_cpus_that_the_head_states(tmp_path, style):
    done = read(tmp_path / "t", unseen(target=1), style, "--vm-map", vm_map(tmp_path), head=HEADS[style].format(4))
    check_absent(done, [0, 2, 3])
    assert done.doc()["trace"]["problems"] == []
    done = read(tmp_path / "u", unseen(target=1), style, "--vm-map", vm_map(tmp_path), head=HEADS[style].format(1))
    assert "absent_cpus" not in done.doc()["trace"] and done.doc()["vms"][0]["wake_wait_ns"] == 840 * MS


@pytest.mark.parametrize("style", STYLES)
def test_a_gap_in_the_numbers(tmp_path, style):
    other = switch(100_200 * MS, 4, IDLE, 0, (78, 78, "cc2"))
    events = sorted([*unseen(target=1), other], key=lambda e: e.t)
    check_absent(read(tmp_path / "t", events, style, "--vm-map", vm_map(tmp_path)), [2, 3])


def test_no_switches(tmp_path):
    """Who ran is not known; what KVM did is counted."""
    events = [Ev(100_000 * MS + i * MS, 0, ("kvm_entry", "kvm_exit")[i % 2], *VCPU, dict(
        vcpu_id=0) if i % 2 == 0 else dict(exit_reason=12, guest_rip=0, isa=1, info1=0, info2=0)) for i in range(10)]
    [vm] = read(tmp_path / "t", events, "perf script").doc()["vms"]
    assert all(vm[k] is None for k in ("run_ns", "guest_ns", "preempt_ns", "wake_wait_ns", "blocked_ns", "observed_ns",
                                       "cpu_intensity", "class", "lost_to"))
    assert vm["entries"] == 5 and vm["exits"] == {"hlt": 5} and {"entries", "exits"} == set(vm["bounds"])


# ---- a recording and the same less something ----

def compare(part, whole):
    """What is known in the part is as in the whole, and bounds are not above it."""
    vms = {vm["name"]: vm for vm in whole["vms"]}
    for vm in part["vms"]:
        truth = vms[vm["name"]]
        unknown, bounds = set(vm.get("unknown", [])), set(vm.get("bounds", []))
        assert not unknown & bounds
        for figure in FIGURES:
            where = (vm["name"], figure, vm[figure], truth[figure])
            if figure in unknown:
                assert vm[figure] is None, where
            elif figure in bounds:
                assert vm[figure] <= truth[figure], where
            else:
                assert vm[figure] == truth[figure], where
        for figure, members in (("exits", lambda v: v), ("lost_to", lambda v: {e["aggressor"]: e["ns"] for e in v})):
            if figure in unknown:
                assert vm[figure] is None
                continue
            got, want = members(vm[figure]), members(truth[figure])
            assert all(n <= want[k] for k, n in got.items()) if figure in bounds else got == want, (figure, got, want)
    assert part["vms"]


def cut(events):
    """Beginning and end are switches, which are not left out, and all CPUs have had one by the time that comes back:
    who ran before its first one, other records may tell."""
    events = [e for e in events if e.name in KNOWN]
    ends = [i for i, e in enumerate(events) if e.name == "sched_switch"]
    events = events[ends[0]:ends[-1] + 1]
    first = {}
    for e in events:
        if e.name == "sched_switch":
            first.setdefault(e.cpu, e.t)
    return events, max(first.values())


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("names", [("sched_wakeup", "sched_wakeup_new", "sched_waking"), ("kvm_entry",), ("kvm_exit",),
                                   ("kvm_entry", "kvm_exit"), ("sched_switch",)])
def test_without_an_event(tmp_path, style, names):
    events, begin = cut(simulate(seed=seed(), events=1500, cpus=3, forks=False))
    end = events[-1].t
    args = ("--vm-map", map_of(tmp_path, events), "--begin", begin, "--end", end)
    whole = read(tmp_path / "whole", events, style, *args).doc()
    part = read(tmp_path / "part", (e for e in events if e.name not in names), style, *args)
    assert whole["trace"].get("missing", []) == []
    told = {m["event"] for m in part.doc()["trace"].get("missing", [])}
    assert told == ({names[0]} if len(names) != 2 else set())
    if names != ("sched_switch",):
        compare(part.doc(), whole)
    else:
        compare({"vms": [vm for vm in part.doc()["vms"] if vm["vcpus"]]}, whole)


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("cpu", [0, 1, 2])
def test_without_a_cpu(tmp_path, style, cpu):
    events, begin = cut(simulate(seed=seed() + cpu, events=1500, cpus=3, forks=False))
    args = ("--vm-map", map_of(tmp_path, events), "--begin", begin, "--end", events[-1].t)
    whole = read(tmp_path / "whole", events, style, *args).doc()
    part = read(tmp_path / "part", (e for e in events if e.cpu != cpu), style, *args).doc()
    assert "absent_cpus" not in whole["trace"] and part["trace"]["absent_cpus"] == [cpu]
    compare(part, whole)


def map_of(path, events):
    """All threads by name, so that text without process ids tells the same VMs."""
    vms = {e.tid: e.pid for e in events if e.comm.startswith("CPU ")}
    (path / "map").write_text("".join(f"{tid} vm-{pid}\n" for tid, pid in vms.items())
                              + "".join(f"{pid} vm-{pid}\n" for pid in set(vms.values()) - set(vms)))
    return path / "map"


# ---- GPUs ----

GPU_FIGURES = ("share", "busy_ns", "exec_ns", "wait_ns", "requests", "partial", "queue_len_avg")


@pytest.mark.parametrize("ends", [True, False])
def test_no_ends_of_gpu_requests(tmp_path, ends):
    """Busy 0 % would be wrong: it is unknown."""
    keep = [line for line in gputext.LINES
            if ends or not any(e in line[4] for e in ("_out", "_complete", "_done", "_retire", "_signaled"))]
    before, gputext.LINES = gputext.LINES, keep
    try:
        path, names = gputext.write(tmp_path / "g.txt")
    finally:
        gputext.LINES = before
    done = vgpuctl.analyze(path, "--vm-map", names)
    doc = done.doc()
    rows = [*doc["gpus"], *doc["gpu_processes"], *(row for vm in doc["vms"] for row in vm["gpu"])]
    assert len(rows) >= 3
    for row in rows:
        assert {row[k] is None for k in GPU_FIGURES} == {not ends}
    vms = {vm["name"]: vm for vm in doc["vms"]}
    assert {vm["gpu_known"] for vm in vms.values()} == {ends}
    assert ("gpu_intensity" in vms["a"].get("unknown", [])) == (vms["a"]["gpu_intensity"] is None) == (not ends)
    told = "GPU activity was recorded without the end of a request" in done.err
    assert told == (not ends) and ("all figures of GPU requests are unknown" in done.err) == told
    snapshot = json.loads(subprocess.run(
        [vgpuctl.program(), "snapshot", "--host", "h", "--vm-map", str(names), str(path)], capture_output=True,
        check=True).stdout)["hosts"][0]["vms"]
    [a] = [vm for vm in snapshot if vm["name"] == "a"]
    assert ({"gpu", "gpu_intensity"} <= set(a.get("unknown", []))) == (not ends)
    assert a["gpu_known"] == ends and all((use["share"] > 0) == ends for use in a["gpu"])
