# SPDX-License-Identifier: Apache-2.0
"""A rotated LTTng session has more stream files than the process may open: all are read or none.

Each of 30 parts of 100 ms has 4 CPUs, on each of which a vCPU and a compiler take turns: the vCPU runs
10 of 20 ms, five times, so that all of them run 30 x 4 x 50 ms = 6 s."""
import re
import resource
import subprocess

import pytest

import vgpuctl
from ctfgen import Dialect, Ev, write_trace
from settings import HANG_S

PARTS, CPUS = 30, 4


def switch(t, cpu, prev, state, then):
    comm = {0: f"swapper/{cpu}", 5010 + cpu: f"CPU {cpu}/KVM", 77 + cpu: "cc1"}
    return Ev(t, cpu, "sched_switch", prev, 5000 if prev > 5000 else prev, comm[prev],
              dict(prev_comm=comm[prev], prev_tid=prev, prev_prio=20, prev_state=state,
                   next_comm=comm[then], next_tid=then, next_prio=20))


@pytest.fixture(scope="module")
def session(tmp_path_factory):
    root = tmp_path_factory.mktemp("session")
    for k in range(PARTS):
        events = []
        for cpu in range(CPUS):
            for i in range(5):
                t = 10**12 + k * 10**8 + i * 2 * 10**7 + cpu * 1000
                events += [switch(t, cpu, 0, 0, 5010 + cpu), switch(t + 10**7, cpu, 5010 + cpu, 0, 77 + cpu),
                           switch(t + 19 * 10**6, cpu, 77 + cpu, 1, 0)]
        part = root / "archives" / f"20261128T{k:06d}+0000-20261128T{k + 1:06d}+0000-{k}" / "kernel"
        part.mkdir(parents=True)
        write_trace(str(part), Dialect(), sorted(events, key=lambda e: e.t))
    return root


def analyze(limit, *paths):
    return subprocess.run([vgpuctl.program(), "analyze", "-o", "json", *map(str, paths)], capture_output=True,
                          text=True, timeout=HANG_S,
                          preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit)))


def needed(done):
    assert (done.returncode, done.stdout) == (1, "")
    return int(re.search(rf"reading {PARTS * CPUS} stream files needs (\d+) file descriptors.*`ulimit -n \1`",
                         done.stderr).group(1))


def check(done):
    assert done.returncode == 0
    assert ["was recorded without sched_wakeup, " in line for line in done.stderr.splitlines()] == [True]
    doc = vgpuctl.json.loads(done.stdout)
    assert (doc["trace"]["events"], doc["trace"]["problems"]) == (PARTS * CPUS * 15, [])
    assert doc["vms"][0]["run_ns"] == 6_000_000_000


def test_what_is_needed_is_told_and_enough(session):
    need = needed(analyze(100, session))
    assert needed(analyze(need - 1, session)) == need
    check(analyze(need, session))


def test_traces_that_are_named_one_by_one(session):
    parts = sorted(session.glob("archives/*/kernel"))
    need = needed(analyze(100, *parts))
    check(analyze(need, *parts))
    assert analyze(100, parts[0]).returncode == 0
