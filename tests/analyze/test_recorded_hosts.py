# SPDX-License-Identifier: Apache-2.0
"""Recordings of a real host (tests/data/recorded/README.md): what two tracers saw of the same
seconds is the same, and what a tracer writes besides events, or leaves out, changes no figure."""
import gzip
import os
import tarfile

from vgpuctl import ROOT, analyze, check_identities

DATA = os.path.join(ROOT, "tests", "data", "recorded")
TIMES = ("run_ns", "preempt_ns", "wake_wait_ns", "observed_ns", "guest_ns")
COUNTS = ("entries", "switches_out", "preemptions", "blocks", "wakeups")


def unpack(name, tmp_path):
    with tarfile.open(os.path.join(DATA, name)) as tar:
        tar.extractall(tmp_path)
    return tmp_path


def tasks_of(*args):
    doc = analyze(*args, "--tasks").doc()
    check_identities(doc)
    assert doc["trace"]["problems"] == []
    return doc, {task["tid"]: task for task in doc["tasks"]}


def test_two_tracers_agree(tmp_path):
    """Whatever happened while both recorded, both saw."""
    paths = [unpack("two-tracers.lttng.tgz", tmp_path),
             os.path.join(DATA, "two-tracers.trace-cmd.txt.gz")]
    traces = [analyze(path).doc()["trace"] for path in paths]
    part = ["--begin", max(t["begin_ns"] for t in traces) + 100_000,
            "--end", min(t["end_ns"] for t in traces) - 100_000]
    (_, by_lttng), (_, by_trace_cmd) = (tasks_of(path, *part) for path in paths)
    compared = 0
    for tid, task in by_lttng.items():
        if tid not in by_trace_cmd:
            assert task["switches_out"] == 0, tid
            continue
        other = by_trace_cmd[tid]
        assert {k: task[k] for k in COUNTS} == {k: other[k] for k in COUNTS}, tid
        compared += task["switches_out"] > 0
        # At the beginning trace-cmd knows the state of threads from the seconds before.
        for key in ("run_ns", "guest_ns"):
            assert abs(task[key] - other[key]) <= 20_000_000, (tid, key)
    assert compared > 300


def test_a_stopped_session_is_not_observed(tmp_path):
    """Tracing was off for 2.66 s, between two packets of each CPU."""
    trace = unpack("stopped.lttng.tgz", tmp_path)
    doc, tasks = tasks_of(trace)
    pause = 35_340_308_150 - 32_676_202_080
    length = doc["trace"]["end_ns"] - doc["trace"]["begin_ns"]
    assert all(task["observed_ns"] <= length - pause for task in tasks.values())
    _, inside = tasks_of(trace, "--begin", 32_676_202_080, "--end", 35_340_308_150)
    assert sum(task["observed_ns"] for task in inside.values()) == 0


def test_a_rotated_session_is_one(tmp_path):
    """A sleeping thread goes on sleeping while the parts change. The figures are from a script that
    walks through the text of babeltrace2."""
    _, tasks = tasks_of(unpack("rotated.lttng.tgz", tmp_path))
    assert {tid: tasks[tid]["observed_ns"] for tid in (16, 31, 119)} == {
        16: 7_957_636_020, 31: 6_834_791_360, 119: 8_324_780_480}


def test_a_lost_packet_makes_nobody_wait(tmp_path):
    unpack("lost-packet.lttng.tgz", tmp_path)
    whole, before = tasks_of(tmp_path / "lostpacket.whole")
    part, after = tasks_of(tmp_path / "lostpacket")
    assert (whole["trace"]["lost_packets"], part["trace"]["lost_packets"]) == (0, 1)
    for tid, task in after.items():
        assert task["wake_wait_ns"] <= before[tid]["wake_wait_ns"], tid


def test_what_perf_says_of_processes_is_no_time(tmp_path):
    unpack("perf-all.perf-ctf.tgz", tmp_path)
    everything, with_all = tasks_of(tmp_path / "all")
    plain, without = tasks_of(tmp_path / "plain")
    assert everything["trace"]["begin_ns"] == plain["trace"]["begin_ns"]
    assert everything["trace"]["end_ns"] == plain["trace"]["end_ns"]
    for tid, task in without.items():
        assert {k: task[k] for k in TIMES + COUNTS} == {k: with_all[tid][k] for k in TIMES + COUNTS}


def test_call_stacks_change_nothing(tmp_path):
    """That of sched_switch is written by the old thread, after its switch-out."""
    with gzip.open(os.path.join(DATA, "stack.trace-cmd.txt.gz"), "rt") as text:
        lines = [line for line in text if "kernel_stack:" not in line and line[:2] != "=>"]
    (tmp_path / "without").write_text("".join(lines))
    (tmp_path / "map").write_text("135 vm-two\n138 vm-two\n136 vm-victim\n1277 vm-late\n")
    doc, without = tasks_of(tmp_path / "without", "--vm-map", tmp_path / "map")
    with_stacks, stacks = tasks_of(os.path.join(DATA, "stack.trace-cmd.txt.gz"), "--vm-map",
                                   tmp_path / "map", "--end", doc["trace"]["end_ns"])
    for tid, task in without.items():
        assert {k: task[k] for k in TIMES + COUNTS} == {k: stacks[tid][k] for k in TIMES + COUNTS}
    assert without[1277]["preempt_ns"] > 200_000_000
    assert with_stacks["vms"] == doc["vms"] and len(doc["vms"]) == 2
