# SPDX-License-Identifier: Apache-2.0
"""What lies around traces: links, copies, other sessions, things that cannot be read; and what ends
the program in the middle."""
import os
import shutil
import signal
import subprocess
import time

import pytest

from conftest import seed
from ctfgen import Dialect, write_trace
from hostsim import simulate
from vgpuctl import ROOT, analyze, check_identities, program

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
        child.wait(20)
        assert os.listdir(place) == [], delay
