# SPDX-License-Identifier: Apache-2.0
"""The hardware is given several requests of an engine, and runs one: what the others do is waiting.
Files whose figures were worked out by hand (tests/data/gpu/README), and what holds of all streams of
all drivers: no more was run than the engine was busy, and a request's latency is its wait and run."""
import os
import random

import pytest

import gpugen as gen
from settings import sample, seed
from test_gpu_dialects import DATA, DRM, FAMILIES, name_of, write
from vgpuctl import analyze

US = 1000


def golden():
    """{file: {(user, device, engine): (requests, exec, wait, busy)}}, times in us."""
    out = {}
    with open(os.path.join(DATA, "second.golden"), encoding="utf-8") as lines:
        for line in lines:
            if line.startswith("#"):
                continue
            name, *key, requests, exec_us, wait_us, busy_us = line.split()
            out.setdefault(name, {})[tuple(key)] = (int(requests),) + tuple(
                sum(map(int, us.split("+"))) for us in (exec_us, wait_us, busy_us))
    return out


def rows(doc):
    out = {("all", g["device"], g["engine"]): g for g in doc["gpus"]}
    out.update({(p["comm"], p["device"], p["engine"]): p for p in doc["gpu_processes"]})
    out.update({(vm["name"], g["device"], g["engine"]): g for vm in doc["vms"] for g in vm["gpu"]})
    return out


@pytest.mark.parametrize("name", sorted(n for n in os.listdir(DATA) if n.startswith("second-")))
def test_by_hand(name):
    doc = analyze(os.path.join(DATA, name)).doc()
    assert doc["trace"]["problems"] == []
    assert {key: (g["requests"], g["exec_ns"] / US, g["wait_ns"] / US, g["busy_ns"] / US)
            for key, g in rows(doc).items()} == golden()[name]
    assert all(g["partial"] == 0 for g in rows(doc).values())


def text(tmp_path, *lines):
    """Lines of (ms, thread, event) by tracefs."""
    (tmp_path / "t.txt").write_text("".join(
        f"{who:>16} [001] d... {10 + ms / 1000:.6f}: {event}\n" for ms, who, event in lines))
    return analyze(tmp_path / "t.txt").doc()


def of(doc, user):
    [(requests, exec_ns, wait_ns)] = [(g["requests"], g["exec_ns"], g["wait_ns"])
                                      for key, g in rows(doc).items() if key[0] == user]
    return requests, exec_ns / 1e6, wait_ns / 1e6


def test_second_port(tmp_path):
    """A job of 600 ms, and one of 20 ms that is put behind it after 50 ms."""
    def told(what, ctx, more=""):
        return f"i915_request_{what}: dev=0, engine=0:0, ctx={ctx}, seqno=1{more}"
    doc = text(tmp_path,
               (0, "long-900", told("add", 40)), (0, "long-900", told("submit", 40)),
               (0, "long-900", told("in", 40, ", prio=0, port=0")),
               (50, "short-901", told("add", 41)), (50, "short-901", told("submit", 41)),
               (50, "short-901", told("in", 41, ", prio=0, port=1")),
               (600, "<idle>-0", told("out", 40, ", completed?=1")),
               (620, "<idle>-0", told("out", 41, ", completed?=1")))
    assert (of(doc, "long"), of(doc, "short")) == ((1, 600, 0), (1, 20, 550))
    assert of(doc, "all") == (2, 620, 550) and doc["gpus"][0]["busy_ns"] == 620_000_000


def test_two_requests_of_one_context_in_two_ports(tmp_path):
    """4.13: an interrupt tells the end of the first, 8 ms, and the second runs for 4 ms more."""
    def told(what, seqno, more):
        return f"i915_gem_request_{what}: dev=0, ring=0, ctx=5, seqno={seqno}, {more}"
    doc = text(tmp_path,
               (0, "demo-900", told("add", 1, "global=0")), (0, "demo-900", told("in", 1, "global=7, port=0")),
               (1, "demo-900", told("add", 2, "global=0")), (2, "demo-900", told("in", 2, "global=8, port=1")),
               (8, "<idle>-0", "intel_engine_notify: dev=0, ring=0, seqno=7"),
               (8.1, "<idle>-0", told("out", 1, "global=7, port=0")),
               (12, "<idle>-0", told("out", 2, "global=8, port=1")))
    assert of(doc, "all") == (2, 12, 7) and doc["gpus"][0]["busy_ns"] == 12_000_000


def test_not_one_is_done(tmp_path):
    """Their ends were not recorded, or in a form that is not understood."""
    def told(what, seqno):
        return f"i915_request_{what}: dev=0, engine=0:0, ctx=5, seqno={seqno}"
    begun = [(0, "a-900", told("add", 1)), (1, "a-900", told("in", 1)), (2, "a-900", told("add", 2))]
    [problem] = text(tmp_path, *begun)["trace"]["problems"]
    assert problem["what"].startswith("none of the 2 GPU requests that started has ended")
    doc = text(tmp_path, *begun, (3, "<idle>-0", told("out", 1) + ", completed?=1"))
    assert doc["trace"]["problems"] == []


def test_every_golden_has_its_file():
    assert set(golden()) == {n for n in os.listdir(DATA) if n.startswith("second-")
                             and n.endswith(".txt")}


def streams():
    """name -> what makes of a seed (events, classes, whether its engines run one at a time)."""
    made = {}
    for kernel, families in DRM:
        made[f"{kernel}-{name_of(families)}"] = lambda n, kernel=kernel, families=families: (
            gen.drm_events(gen.jobs(n, depth=4), kernel, families), gen.drm_classes(kernel), True)
    for kernel in gen.I915:
        ends = ("notify",) if kernel in ("4.9", "4.10") else ("out",)
        made[f"i915-{kernel}"] = lambda n, kernel=kernel, ends=ends: (
            gen.i915_events(gen.jobs(n, rings=3, depth=2), kernel, ends=ends), gen.i915_classes(kernel), True)
    for kernel in gen.XE:
        made[f"xe-{kernel}"] = lambda n, kernel=kernel: (
            gen.xe_events(gen.jobs(n, depth=4), kernel), gen.xe_classes(kernel), False)
        made[f"xe-{kernel}-sched"] = lambda n, kernel=kernel: (
            gen.xe_events(gen.jobs(n, depth=4), kernel, ("sched",)), gen.xe_classes(kernel), False)
    made["gvt"] = lambda n: (gen.gvt_events(gen.jobs(n, depth=1), lambda job: True), gen.gvt_classes(), True)
    return made


STREAMS = streams()


@pytest.mark.parametrize("name", sample("queues", STREAMS, 6))
def test_of_every_stream(tmp_path, name):
    rng = random.Random(seed())
    events, classes, is_one = STREAMS[name](seed())
    write(tmp_path / "t", events, classes, rng.choice(("tracefs", "perf", "lttng213")))
    doc = analyze(tmp_path / "t").doc()
    assert sum(g["requests"] for g in doc["gpus"]) > 100
    for key, gpu in rows(doc).items():
        assert gpu["exec_ns"] >= gpu["busy_ns"]
        # Of some the begin is not told: amdgpu does not tell when the kernel queues its own jobs.
        if "amdgpu+fence" not in name and gpu["coalesced"] == 0 and gpu["requests"] > 0:
            both = gpu["exec_ns"] + gpu["wait_ns"]
            assert abs(gpu["latency_mean_ns"] * gpu["requests"] - both) <= gpu["requests"], key
        if is_one or gpu["engine"] == "rcs":
            assert gpu["exec_ns"] == gpu["busy_ns"], key


@pytest.mark.parametrize("producer", sample("late names", ["lttng213", "ctf-perf"], 1))
@pytest.mark.parametrize("families", FAMILIES[1:], ids=name_of)
def test_rings_whose_name_is_told_late(tmp_path, producer, families):
    """Kernel 5.10 names a ring by the address of its name in records of the scheduler. The first jobs
    of each ring are the kernel's, of which amdgpu tells but that they run: they are counted once."""
    for n in range(seed(), seed() + 4):
        jobs = gen.jobs(n, n=60, rings=3)
        for job in jobs:
            if job.number < 3:
                job.process = None
        events = gen.drm_events(jobs, "5.10", families)
        write(tmp_path / f"{n}", events, gen.drm_classes("5.10"), producer)
        doc = analyze(tmp_path / f"{n}").doc()
        assert sorted(g["engine"] for g in doc["gpus"]) == sorted(gen.RINGS), n
        for gpu in doc["gpus"]:
            ring = gen.RINGS.index(gpu["engine"])
            assert gpu["requests"] == sum(job.ring == ring for job in jobs), (n, gpu["engine"])
            assert gpu["exec_ns"] == gpu["busy_ns"]
