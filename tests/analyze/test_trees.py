# SPDX-License-Identifier: Apache-2.0
"""What lies around traces: links, copies, other sessions, things that cannot be read; and what ends
the program in the middle."""
import os
import shutil
import signal
import subprocess
import time

import pytest

from settings import HANG_S, seed
from ctfgen import Dialect, write_trace
from hostsim import simulate
from oracle import Oracle
from vgpuctl import ROOT, analyze, assert_matches, check_identities, program

LTTNG = os.path.join(ROOT, "data", "demo", "inner-host-3vms", "lttng-kernel", "kernel")


@pytest.fixture(name="trace")
def made(tmp_path):
    write_trace(str(tmp_path / "t" / "one"), Dialect(packet_bytes=4096),
                simulate(seed=seed(), events=2000))
    return tmp_path / "t"


def same(left, right):
    return left["vms"] == right["vms"] and left["trace"]["events"] == right["trace"]["events"]


def test_links_do_not_count_a_trace_twice_and_do_not_hang(trace):
    alone = analyze(trace).doc()
    for name in ("a", "b", "c"):
        os.symlink(".", trace / "one" / name)
    os.symlink("one", trace / "latest")
    os.symlink("..", trace / "one" / "up")
    assert same(analyze(trace).doc(), alone)
    assert same(analyze(trace, trace / "one", f"{trace}/").doc(), alone)


def test_a_copy_is_left_out_and_told(trace):
    alone = analyze(trace).doc()
    shutil.copytree(trace / "one", trace / "two")
    doc = analyze(trace).doc()
    assert same(doc, alone)
    assert [p["file"] for p in doc["trace"]["problems"]] == [str(trace / "two")]
    assert "copy" in doc["trace"]["problems"][0]["what"]


def test_what_lies_between_two_sessions_of_a_boot_is_not_observed(tmp_path):
    """Each thread is somewhere at the end of the first session; nobody saw it until the second."""
    first = simulate(seed=seed(), events=1500)
    second = simulate(seed=seed() + 1, events=1500)
    gap = 4_000_000_000
    for event in second:
        event.t += gap
    for name, events in (("first", first), ("second", second)):
        write_trace(str(tmp_path / "both" / name), Dialect(), events)
        write_trace(str(tmp_path / name / "t"), Dialect(), events)
    doc = analyze(tmp_path / "both").doc()
    check_identities(doc)
    apart = [analyze(tmp_path / n).doc() for n in ("first", "second")]
    seconds = sum(d["trace"]["end_ns"] - d["trace"]["begin_ns"] for d in apart)
    for vm in doc["vms"]:
        assert vm["observed_ns"] <= len(vm["vcpus"]) * seconds < gap
        assert vm["entries"] == sum(v["entries"] for d in apart for v in d["vms"]
                                    if v["pid"] == vm["pid"])
    assert doc["trace"]["lost"] == 0


LIMITED = ("run_ns", "preempt_ns", "wake_wait_ns", "guest_ns", "preemptions")


def no_more_than(part, whole, keys=LIMITED):
    """No VM waited, ran or was preempted more often than in the whole recording."""
    check_identities(part)
    vms = {vm["name"]: vm for vm in whole["vms"]}
    for vm in part["vms"]:
        for key in keys:
            assert vm[key] is None or vm[key] <= vms[vm["name"]][key], (vm["name"], key)


def test_a_session_that_was_stopped_and_started_again(tmp_path):
    """One trace, one file for each CPU: only the times of the packets tell that nobody looked."""
    events = simulate(seed=seed(), events=3000)
    write_trace(str(tmp_path / "whole"), Dialect(), events)
    stop = events[1500].t
    for event in events[1500:]:
        event.t += 2_000_000_000
    write_trace(str(tmp_path / "paused"), Dialect(), events, flush=[stop])
    whole, doc = (analyze(tmp_path / name).doc() for name in ("whole", "paused"))
    no_more_than(doc, whole)
    assert doc["trace"]["end_ns"] == whole["trace"]["end_ns"] + 2_000_000_000
    for vm, was in zip(doc["vms"], whole["vms"]):
        assert vm["observed_ns"] <= was["observed_ns"]
        assert vm["entries"] == was["entries"] and vm["preemptions"] == was["preemptions"]
    assert doc["trace"]["problems"] == []


def test_snapshots_that_overlap(tmp_path):
    """Each holds what is in the buffers, so the second one repeats the end of the first one."""
    events = simulate(seed=seed(), events=4000, kvm=True)
    cuts = [events[i].t for i in (1000, 1600, 2200, 3000)]
    for name, part in (("1", [e for e in events if e.t <= cuts[2]]),
                       ("2", [e for e in events if cuts[0] < e.t <= cuts[3]]),
                       ("3", [e for e in events if e.t > cuts[1]])):
        write_trace(str(tmp_path / "t" / name), Dialect(packet_bytes=4096), part,
                    t_end=part[-1].t + 1, flush=cuts, same_trace=True)
    doc = analyze(tmp_path / "t", "--tasks").doc()
    assert doc["trace"]["events"] == len(events)
    assert_matches(doc, Oracle(events).measure())


@pytest.mark.parametrize("quiet", ["never", "before", "after", "always but once"])
def test_a_stopped_session_with_a_quiet_cpu(tmp_path, quiet):
    """Its packets are empty, and say all the same when it was watched."""
    events = simulate(seed=seed(), events=3000, cpus=3)
    stop = events[1500].t
    for event in events[1501:]:
        event.t += 2_000_000_000
    kept = {"never": lambda i: True, "before": lambda i: i > 1500, "after": lambda i: i <= 1500,
            "always but once": lambda i: i > 2900}[quiet]
    events = [ev for i, ev in enumerate(events) if ev.cpu < 2 or kept(i)]
    write_trace(str(tmp_path / "t"), Dialect(), events, pause=(stop, stop + 2_000_000_000))
    doc = analyze(tmp_path / "t", "--tasks", "--begin", stop, "--end", stop + 2_000_000_000).doc()
    assert len(doc["tasks"]) > 3
    assert {task["observed_ns"] for task in doc["tasks"]} == {0}


@pytest.mark.parametrize("silence", [0, 50_000_000])
def test_parts_of_a_rotated_session_are_one(tmp_path, silence):
    """Rotation hands out packets half full; the next ones begin with the next event."""
    events = simulate(seed=seed(), events=3000)
    for event in events[1500:]:
        event.t += silence
    for name, part in (("1", events[:1500]), ("2", events[1500:])):
        write_trace(str(tmp_path / "t" / name), Dialect(), part, t_end=part[-1].t + 1,
                    same_trace=True)
    doc = analyze(tmp_path / "t", "--tasks").doc()
    assert doc["trace"]["problems"] == []
    assert_matches(doc, Oracle(events).measure())


@pytest.mark.parametrize("style", ["lttng213", "perf"])
def test_a_cpu_without_a_file(tmp_path, style):
    """How long threads wait that are woken there is not known, nor of others, as the CPU that pulls a
    thread over writes the record of it."""
    write_trace(str(tmp_path / "t"), Dialect(style=style),
                simulate(seed=seed(), events=4000, pulls=False))
    whole = analyze(tmp_path / "t").doc()
    os.unlink(next(tmp_path / "t" / n for n in os.listdir(tmp_path / "t") if n.endswith("1")))
    doc = analyze(tmp_path / "t").doc()
    no_more_than(doc, whole, ("run_ns", "wake_wait_ns", "guest_ns", "preemptions"))
    for vm in doc["vms"]:
        assert {"preempt_ns", "wake_wait_ns", "blocked_ns", "observed_ns", "cpu_intensity", "lost_to"} \
            <= {k for k in vm["unknown"] if vm[k] is None}
        assert vm["lower_bound"] and {"run_ns", "entries", "preemptions"} <= set(vm["bounds"])
    assert any("CPU 1 has no records" in p["what"] for p in doc["trace"]["problems"])


@pytest.mark.parametrize("style", ["lttng213", "perf"])
def test_a_copy_of_a_stream_file_is_left_out(tmp_path, style):
    write_trace(str(tmp_path / "t"), Dialect(style=style), simulate(seed=seed(), events=2000))
    whole = analyze(tmp_path / "t").doc()
    name = next(n for n in sorted(os.listdir(tmp_path / "t")) if n.endswith("0"))
    shutil.copy(tmp_path / "t" / name, tmp_path / "t" / (name + ".bak"))
    doc = analyze(tmp_path / "t").doc()
    assert same(doc, whole)
    assert [os.path.basename(p["file"]) for p in doc["trace"]["problems"]] == [name + ".bak"]
    # The longer one is the original.
    os.truncate(tmp_path / "t" / name, 5000)
    doc = analyze(tmp_path / "t").doc()
    assert same(doc, whole)
    assert [os.path.basename(p["file"]) for p in doc["trace"]["problems"]] == [name]


def test_deep_trees(tmp_path):
    deep = tmp_path / "/".join("x" * 40)
    write_trace(str(deep), Dialect(), simulate(seed=seed(), events=200))
    assert analyze(tmp_path).doc()["trace"]["events"] == 200
    deeper = tmp_path / "/".join("y" * 80)
    os.makedirs(deeper.parent)
    os.rename(deep, deeper)
    result = analyze(tmp_path / "y")
    assert result.rc == 1 and "levels of directories" in result.err


def test_bad_neighbours_are_told(trace):
    alone = analyze(trace).doc()
    (trace / "junk").mkdir()
    (trace / "junk" / "metadata").write_text("hello")
    write_trace(str(trace / "gone"), Dialect(index=False), simulate(seed=1, events=100))
    for name in os.listdir(trace / "gone"):
        if name != "metadata":
            os.unlink(trace / "gone" / name)
    doc = analyze(trace).doc()
    assert same(doc, alone)
    assert {os.path.basename(p["file"]) for p in doc["trace"]["problems"]} == {"junk", "gone"}


def test_damage_before_the_first_event_does_not_move_the_beginning(tmp_path):
    for at in (120, 600):
        target = tmp_path / str(at)
        shutil.copytree(LTTNG, target)
        with open(target / "ch_0", "r+b") as stream:
            stream.seek(at)
            stream.write(b"\x5a" * 300)
        doc = analyze(target).doc()
        # Its first packet begins a second before its first event.
        assert doc["trace"]["begin_ns"] >= 60_000_000_000, at
        assert doc["trace"]["problems"]


def test_a_signal_leaves_nothing_behind(tmp_path):
    """The copies for a repair are made and removed while signals wait."""
    shutil.copytree(LTTNG, tmp_path / "t")
    os.truncate(tmp_path / "t" / "ch_0", 700_000)
    place = tmp_path / "place"
    place.mkdir()
    for number, delay in enumerate(d / 1000 for d in range(0, 40, 2)):
        child = subprocess.Popen([program(), "analyze", tmp_path / "t"],
                                 env={**os.environ, "TMPDIR": str(place)},
                                 stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(delay)
        child.send_signal((signal.SIGINT, signal.SIGTERM, signal.SIGHUP)[number % 3])
        child.wait(HANG_S)
        # ThreadSanitizer has a file of its own there while it starts.
        assert [n for n in os.listdir(place) if not n.startswith("tsan.")] == [], delay
