# SPDX-License-Identifier: Apache-2.0
"""The past of a host, step by step: of recordings in which each second is the same, so that all figures
are known, and of a time between them in which nothing was measured."""
import csv
import io
import os
import subprocess

import pytest
import vgpuctl
from ctfgen import Dialect, Ev, write_trace
from settings import HANG_S
from vgpud import Daemon

# For so many ms of each second they have the one CPU, one after the other.
TURNS = [("CPU 0/KVM", 142, 120, 400), ("CPU 0/KVM", 152, 150, 400), ("backup", 900, 900, 200)]
EPOCH = 1795200000
S = 10**9


def replay(directory, begin, end):
    """Of the same recording, which goes on."""
    events = []
    before, t = TURNS[-1], begin * S
    while t <= end * S:
        for turn in TURNS:
            events.append(Ev(t, 0, "sched_switch", before[1], before[2], before[0], {
                "prev_comm": before[0], "prev_tid": before[1], "prio": 20, "prev_state": 0,
                "next_comm": turn[0], "next_tid": turn[1]}))
            before = turn
            t += turn[3] * 10**6
    trace = directory / "trace" / "night"
    trace.parent.mkdir(exist_ok=True)
    write_trace(str(trace), Dialect(clock_offset_s=EPOCH), [event for event in events if event.t <= end * S])
    return Daemon(directory, "--speed", "max", replay=trace)


@pytest.mark.smoke
def test_steps_have_the_figures_of_the_recording(tmp_path):
    # Two seconds before each step that is looked at: who has not run yet is not known to wait.
    with replay(tmp_path, 998, 1020) as daemon:
        daemon.replayed()
        daemon.stop()
    with replay(tmp_path, 1058, 1070) as daemon:
        daemon.replayed()
        since, until = EPOCH + 1000, EPOCH + 1070
        past = daemon.get(f"/v1/host/history?since={since}&until={until}&step=10s")
        assert [past[key] for key in ("since_ns", "until_ns", "step_ns", "left_out")] == \
               [since * S, until * S, 10 * S, []]
        check(past["items"], daemon.get("/v1/host")["measurement"]["source"])
        check_table(daemon, since, until)
        minutes = daemon.get(f"/v1/host/history?since={EPOCH + 961}&until={until}&step=1min")["items"]
        assert [(i["begin_ns"] // S - EPOCH, i["windows"]) for i in minutes] == [(960, 22), (1020, 12)]
        daemon.stop()


def check_table(daemon, since, until):
    def show(*args):
        return subprocess.run([vgpuctl.program(), "host", "history", "--since", str(since), "--until", str(until),
                               "--step", "10s", "--socket", daemon.socket, *args], capture_output=True, text=True,
                              env={**os.environ, "TZ": "UTC"}, timeout=HANG_S, check=True).stdout

    title, heads, *lines = show().splitlines()
    assert title == "In cores, for each step of 10s; times are local: UTC"
    assert heads.split()[1:9] == ["LOST", "VMS", "HOST", "IDLE", "STOLEN", "LOAD", "PSI", "%"]
    # EPOCH is 18:40:00 of that day.
    assert [line.split()[1:5] for line in lines] == [
        ["18:56:40", "1.20", "0.80", "0.20"], ["18:56:50", "1.20", "0.80", "0.20"], ["18:57:00", "-", "-", "-"],
        ["18:57:30", "1.00", "0.80", "0.20"], ["18:57:40", "1.20", "0.80", "0.20"]]
    # A recording does not have the host's programs.
    assert lines[0].split()[9:] == ["0", "-", "2", "VMs", "by", "replay"]
    assert lines[2].endswith(" not until 11-20 18:57:30")
    assert lines[3].endswith(" 2 VMs by replay, 20 % of the time measured")
    rows = list(csv.DictReader(io.StringIO(show("-o", "csv"))))
    assert [(row["begin"], row["lost_share"]) for row in rows[1:3]] == [
        ("2026-11-20 18:56:50", "1.2"), ("2026-11-20 18:57:00", "")]
    empty = show("--until", str(EPOCH - 10**6), "--since", str(EPOCH - 10**6 - 100))
    assert empty == "nothing is stored for that time\n"


def check(items, source):
    assert [(i["begin_ns"] // S - EPOCH, i["end_ns"] // S - EPOCH, i["gap"]) for i in items] == \
        [(1000, 1010, False), (1010, 1020, False), (1020, 1050, True), (1050, 1060, False), (1060, 1070, False)]
    for item in (items[0], items[1], items[4]):
        assert (item["measured_ns"], item["windows"], item["vms"]) == (10 * S, 10, 2)
        # Two VMs have 400 ms of each second, and wait for the other 600.
        assert item["run_ns"] == 8 * S
        assert item["preempt_ns"] + item["wake_wait_ns"] == 12 * S
        assert item["preemptions"] == 20
        assert item["rates"]["run_share"] == 0.8 and item["own_share"] == 0.2
        assert item["rates"]["preempt_share"] + item["rates"]["wake_wait_share"] == pytest.approx(1.2)
        assert item["rates"]["preemptions_per_s"] == 2
        # A recording of the scheduler tells nothing of these, which is not nothing.
        assert [item[key] for key in ("idle_share", "steal_share", "load", "pressure")] == [None] * 4
        assert item["measured_by"] == [{"by": source, "ns": 10 * S, "who_ns": 10 * S}]
        assert item["alerts"] == 0
    gap, part = items[2], items[3]
    assert (gap["measured_ns"], gap["windows"], gap["measured_by"]) == (0, 0, [])
    for key in ("vms", "run_ns", "preempt_ns", "wake_wait_ns", "preemptions", "rates", "own_share", "idle_share",
                "steal_share", "load", "pressure"):
        assert gap[key] is None, key
    assert (part["measured_ns"], part["windows"]) == (2 * S, 2)
