# SPDX-License-Identifier: Apache-2.0
"""A vCPU that a CPU quota stops in each of its periods leaves its CPU idle though it could run. What it
loses so is lost to `limit`; what it loses in the same way without a period is lost to host:idle."""
import json
import subprocess

import pytest
import vgpuctl

US = 1000
MS = 1000 * US
START = 1000 * 1000 * MS
BY_CHANCE = [7, 31, 12, 55, 23, 3, 41, 17, 64, 29, 11, 47, 5, 37, 19, 53]


def switch(ns, prev, state, following):
    comm = {0: "swapper/1", 4001: "CPU 0/KVM"}
    who = f"{comm[prev] if prev else '<idle>'}-{prev}"
    return (f"  {who} [001] d..2. {ns // 10**9}.{ns % 10**9 // US:06d}: sched_switch: "
            f"prev_comm={comm[prev]} prev_pid={prev} prev_prio=120 prev_state={state} ==> "
            f"next_comm={comm[following]} next_pid={following} next_prio=120\n")


def analyze(path, stays, *options):
    """stays: (when it gets its CPU, when it leaves that idle), in ms."""
    with open(path, "w", encoding="ascii") as file:
        file.write("# tracer: nop\n")
        for begin, end in stays:
            file.write(switch(START + int(begin * MS), 0, "R", 4001))
            file.write(switch(START + int(end * MS), 4001, "R", 0))
    done = subprocess.run([vgpuctl.program(), "analyze", path, "-o", "json", *options],
                          capture_output=True, text=True, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()] if options else json.loads(done.stdout)


def lost(doc):
    return {loss["aggressor"]: (loss["ns"], loss["count"]) for loss in doc["vms"][0]["lost_to"]}


@pytest.mark.parametrize("period, runs", [(100, 50), (20, 5)])
def test_each_period(tmp_path, period, runs):
    stays = [(n * period, n * period + runs) for n in range(20)]
    # The last wait is cut by the end of the recording.
    assert lost(analyze(tmp_path / "t.txt", stays)) == {"limit": (19 * (period - runs) * MS, 20)}


def test_periods_without_a_stop(tmp_path):
    """It sleeps in some; a thread gets its CPU somewhat after the period began."""
    late = [0, 0.3, 0.1, 0.5]
    stays = [(n * 100 + late[n % 4], n * 100 + 40) for n in range(40) if n % 5 or n < 10]
    got = lost(analyze(tmp_path / "t.txt", stays))
    assert set(got) == {"limit"} and got["limit"][1] == len(stays)


def test_no_period(tmp_path):
    """As core scheduling leaves a CPU idle."""
    stays, now = [], 0
    for idle in BY_CHANCE:
        stays.append((now, now + 10))
        now += 10 + idle
    waits = sum(BY_CHANCE[:-1])
    assert lost(analyze(tmp_path / "t.txt", stays)) == {"host:idle": (waits * MS, len(BY_CHANCE))}


def test_what_a_window_told_stays_so(tmp_path):
    """Of windows, the first ones do not know the period yet."""
    stays = [(n * 100, n * 100 + 50) for n in range(40)]
    windows = analyze(tmp_path / "t.txt", stays, "--per-window", "--window", "0.25")
    told = [set(lost(window)) for window in windows]
    assert told[0] == {"host:idle"}
    assert all(names == {"limit"} for names in told[3:]) and len(told) >= 15
