# SPDX-License-Identifier: Apache-2.0
"""Recordings without some records, about which the recorder says nothing: what the records themselves contradict is
unknown, and one problem names the cause.

A vCPU is woken every 20 ms, 100 times, waits 4 ms for cc1, runs 6 ms and sleeps. As many other records are complete."""
import dataclasses
import json
import subprocess

import pytest

import vgpuctl
from ctfgen import Ev
from test_not_recorded import CC1, HEADS, IDLE, MS, STYLES, VCPU, read, switch, vm_map

NAPS = 100
OTHER = (6010, 6000, "CPU 0/KVM")


def naps(vcpu=VCPU, cpu=0, n=NAPS, woken=lambda i: True):
    for i in range(n):
        at = 100_000 * MS + i * 20 * MS + cpu
        if woken(i):
            yield Ev(at, cpu, "sched_wakeup", *CC1, dict(comm=vcpu[2], tid=vcpu[0], prio=20, target_cpu=cpu))
        yield switch(at + 4 * MS, cpu, (77 + cpu, 77 + cpu, "cc1"), 0, vcpu)
        yield switch(at + 10 * MS, cpu, vcpu, 1, (77 + cpu, 77 + cpu, "cc1"))


def unwoken(doc):
    return [p["what"] for p in doc["trace"]["problems"] if "sleeps end without a wakeup" in p["what"]]


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("missing", [0, 19, 20, 60])
def test_some_wakeups_are_missing(tmp_path, style, missing):
    """The first sleep begins in the first nap, so the first wakeup ends none that was recorded."""
    done = read(tmp_path / "t", naps(woken=lambda i: i == 0 or i > missing), style, "--vm-map", vm_map(tmp_path))
    [vm] = done.doc()["vms"]
    assert (vm["run_ns"], vm["preempt_ns"]) == (NAPS * 6 * MS, 0)
    if missing < 20:
        assert unwoken(done.doc()) == [] and vm["class"] == "cpu"
        assert (vm["wake_wait_ns"], vm["wakeups"]) == ((NAPS - missing) * 4 * MS, NAPS - missing)
        return
    assert [vm[k] for k in ("wake_wait_ns", "wakeups", "blocked_ns", "class")] == [None] * 4
    assert {"wake_wait_ns", "wakeups", "blocked_ns", "class"} <= set(vm["unknown"])
    assert {"cpu_intensity", "lost_to"} <= set(vm["bounds"])
    [what] = unwoken(done.doc())
    assert what.startswith(f"{missing} of {NAPS - 1} sleeps end without a wakeup")
    assert "so for VMs, wake_wait_ns, wakeups, blocked_ns and class are unknown" in what and what in done.err


def test_a_line_that_cannot_be_read_hides_no_cpu(tmp_path):
    """Unlike a stream file that ends early, whose CPU may have woken the others."""
    read(tmp_path / "t", naps(woken=lambda i: i == 0 or i > 60), "trace-cmd", "--vm-map", vm_map(tmp_path))
    lines = (tmp_path / "t").read_text().splitlines(keepends=True)
    (tmp_path / "t").write_text("".join([*lines[:20], "qemu-9 [000] this line is damaged\n", *lines[20:]]))
    doc = vgpuctl.analyze(tmp_path / "t", "--vm-map", vm_map(tmp_path)).doc()
    assert any("not understood" in p["what"] for p in doc["trace"]["problems"])
    assert [vm["class"] for vm in doc["vms"]] == [None] and len(unwoken(doc)) == 1


def test_wakeups_of_one_vm_are_missing(tmp_path):
    """Of the recording's sleeps, less than 1 % end without a wakeup."""
    (tmp_path / "map").write_text("5000 vm\n5010 vm\n6000 other\n6010 other\n")
    events = sorted([*naps(woken=lambda i: i % 4 == 0, n=40), *naps(OTHER, 1, 4000)], key=lambda e: e.t)
    done = read(tmp_path / "t", events, "trace-cmd", "--vm-map", tmp_path / "map")
    vms = {vm["name"]: vm for vm in done.doc()["vms"]}
    assert vms["vm"]["class"] is None and vms["vm"]["wake_wait_ns"] is None
    assert vms["other"]["class"] == "cpu" and vms["other"]["wake_wait_ns"] == 4000 * 4 * MS
    [what] = unwoken(done.doc())
    assert "so for some VMs, " in what
    [host] = json.loads(subprocess.run(
        [vgpuctl.program(), "snapshot", "--host", "h", "--vm-map", str(tmp_path / "map"), str(tmp_path / "t")],
        capture_output=True, check=True).stdout)["hosts"]
    unknown = {vm["name"]: vm.get("unknown", []) for vm in host["vms"]}
    assert "class" in unknown["vm"] and "class" not in unknown["other"]


@pytest.mark.parametrize("style", HEADS)
def test_one_process(tmp_path, style):
    """As `perf record -p` does, only the switches from the vCPU are recorded."""
    events = [e for e in naps() if e.name == "sched_switch" and e.tid == VCPU[0]]
    done = read(tmp_path / "t", events, style, "--vm-map", vm_map(tmp_path))
    [vm] = done.doc()["vms"]
    assert all(vm[k] is None for k in ("run_ns", "preempt_ns", "wake_wait_ns", "blocked_ns", "cpu_intensity", "class",
                                       "lost_to"))
    [what] = [p["what"] for p in done.doc()["trace"]["problems"] if "never leave a CPU" in p["what"]]
    assert what.startswith(f"{NAPS} of {NAPS} switches are to threads that never leave a CPU") and "record -a" in what
    assert unwoken(done.doc()) == []


def test_short_threads_are_no_one_process(tmp_path):
    """Threads that run once and exit leave their CPU."""
    events = []
    for i in range(200):
        at, one = 100_000 * MS + i * MS, (1000 + i, 1000 + i, "sh")
        events += [switch(at, 0, IDLE, 0, one), switch(at + MS // 2, 0, one, 0x20, IDLE)]
    done = read(tmp_path / "t", [*naps(n=1), *events], "perf script", "--vm-map", vm_map(tmp_path))
    assert not any("never leave a CPU" in p["what"] for p in done.doc()["trace"]["problems"])


@pytest.mark.parametrize("style", HEADS)
def test_recorded_in_a_container(tmp_path, style):
    """The heads name threads by other numbers, or 0 if the container does not have them; the fields do not."""
    whole = read(tmp_path / "whole", naps(), style, "--vm-map", vm_map(tmp_path)).doc()
    events = [dataclasses.replace(e, tid=0 if e.tid == VCPU[0] else 5, pid=0 if e.tid == VCPU[0] else 5)
              for e in naps()]
    done = read(tmp_path / "t", events, style, "--vm-map", vm_map(tmp_path), "--begin", 100_300 * MS)
    [vm] = done.doc()["vms"]
    assert vm["run_ns"] == whole["vms"][0]["run_ns"] - 15 * 6 * MS and vm["preempt_ns"] == 0
    assert done.doc()["trace"]["discontinuities"] == 0
    [what] = [p["what"] for p in done.doc()["trace"]["problems"]]
    assert "sched_switch records name other threads than the records, as after recording in a container" in what
    assert not any("name other threads" in p["what"] for p in whole["trace"]["problems"])


@pytest.mark.parametrize("style", HEADS)
def test_the_option_of_perf_script(tmp_path, style):
    """Text may come from a perf script that was not told to show losses."""
    done = read(tmp_path / "t", naps(woken=lambda i: i == 0 or i > 60), style, "--vm-map", vm_map(tmp_path))
    [what] = unwoken(done.doc())
    assert "--show-lost-events" in what
    events = [e for i, e in enumerate(naps(n=300)) if i % 10 or e.name != "sched_switch"]
    done = read(tmp_path / "u", events, style, "--vm-map", vm_map(tmp_path))
    [warning] = [line for line in done.err.splitlines() if "contradict earlier ones" in line]
    assert "perf script shows lost events only with --show-lost-events" in warning
