# SPDX-License-Identifier: Apache-2.0
"""The yardsticks themselves: the generator against babeltrace2, the oracle against the README of
the recordings. Nothing here runs vgpuctl."""
import os
import subprocess

import pytest

import oracle
from settings import seed
from ctfgen import Dialect, write_trace
from hostsim import simulate
from test_generated import DIALECTS, name_of, seen_by
from test_recorded import DEMO, README, VM_MAP
from vgpuctl import ROOT


@pytest.mark.parametrize("name", sorted(README))
def test_oracle_agrees_with_readme(name):
    vm_map = dict((int(a), b) for a, b in (line.split() for line in open(VM_MAP)))
    events = oracle.from_babeltrace(os.path.join(DEMO, "inner-host-3vms", name))
    truth = oracle.Oracle(events, vm_map=vm_map)
    for vm in truth.measure()["vms"]:
        want = README[name][vm["name"]]
        assert (vm["entries"], vm["switches_out"], vm["preemptions"], vm["blocks"]) == want[:4]
        thread = next(t for t in truth.threads if t.tid == vm["vcpus"][0]["tid"])
        for ns, seconds in zip(truth.closed(thread), want[4:]):
            assert abs(ns / 1e9 - seconds) <= 0.0005 + seconds * 0.002, vm["name"]
        clipped = (vm["guest_ns"], vm["run_ns"], vm["preempt_ns"])
        for ns, whole in zip(truth.closed(thread), clipped):
            assert ns <= whole <= ns * 1.004, vm["name"]


@pytest.mark.parametrize("options", DIALECTS, ids=name_of)
@pytest.mark.parametrize("more", [dict(), dict(natural_align=True, id_base=400),
                                  dict(packetised=True, id_base=28, packet_bytes=600)], ids=name_of)
def test_babeltrace_reads_what_was_written(tmp_path, options, more):
    dialect = Dialect(**options, **more)
    events = simulate(seed=seed(), events=500, step=3_000_000, waking=True,
                      statedump=dialect.style != "perf")
    write_trace(str(tmp_path / "t"), dialect, events)
    back = oracle.from_babeltrace(str(tmp_path / "t"))
    assert [(e.t, e.cpu, e.name) for e in back] == [(e.t, e.cpu, e.name) for e in events]
    truth, read = oracle.Oracle(seen_by(dialect, events)), oracle.Oracle(back)
    assert truth.contradictions == 0
    assert read.measure() == truth.measure()


def test_bench_trace_is_lawful(tmp_path):
    gen_trace = os.path.join(os.environ.get("VG_BUILDDIR", os.path.join(ROOT, "build")),
                             "tests", "tools", "gen-trace")
    if not os.access(gen_trace, os.X_OK):
        pytest.skip("gen-trace is not built")
    subprocess.run([gen_trace, "-n", "20000", "-c", "3", "-o", str(tmp_path / "t")], check=True)
    truth = oracle.Oracle(oracle.from_babeltrace(str(tmp_path / "t")))
    assert truth.n_events == 20000 and truth.contradictions == 0
    assert [v["name"] for v in truth.measure()["vms"]] == ["qemu-1000", "qemu-1001", "qemu-1002"]
