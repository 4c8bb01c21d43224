# SPDX-License-Identifier: Apache-2.0
"""docs/paper-cases.md says what the simulator makes of a paper's cases: it does."""
import json
import os
import re
import subprocess

import pytest

import vgpuctl
from settings import HANG_S

SCENARIOS = os.path.join(vgpuctl.ROOT, "data", "scenarios")
S = 1_000_000_000


@pytest.fixture(scope="module")
def page():
    with open(os.path.join(vgpuctl.ROOT, "docs", "paper-cases.md"), encoding="utf-8") as text:
        return re.sub(r"\s+", " ", text.read())


def run(*args):
    done = subprocess.run([vgpuctl.program(), *map(str, args)], capture_output=True, text=True,
                          timeout=HANG_S)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def simulate(name, *options):
    return run("simulate", os.path.join(SCENARIOS, name), "-o", "json", *options)


def of(doc, vm):
    [found] = [v for v in doc["vms"] if v["name"] == vm]
    return found["gpu"][0]


def test_alone(page):
    gaussian = of(simulate("gaussian-alone.json"), "gaussian")
    assert gaussian["requests"] == 1200
    assert f"{100 * gaussian['share']:.1f} %, 1200 requests in 27 s" in page


def test_idle_neighbour(page):
    doc = simulate("gaussian-idle-neighbour.json")
    gaussian = of(doc, "gaussian")
    rate = gaussian["requests"] / (doc["duration_ns"] / S)
    assert 0.45 <= gaussian["share"] <= 0.52
    assert f"| {100 * gaussian['share']:.1f} %, 1200 requests after {1200 / rate:.1f} s |" in page


def test_hotspot(page, tmp_path):
    trace = tmp_path / "trace"
    simulate("gaussian-hotspot.json", "--trace-out", trace)
    beside = of(run("analyze", trace, "--end", 30 * S, "-o", "json"), "gaussian")
    after = of(run("analyze", trace, "--begin", 31 * S, "-o", "json"), "gaussian")
    assert beside["share"] <= 0.2
    assert 0.4 <= after["share"] <= 0.52
    assert f"0 to 30 s | at most 20 % | {100 * beside['share']:.1f} % |" in page
    assert f"31 to 60 s | about 40 % | {100 * after['share']:.1f} % |" in page


def vm(name, run_share, preempt_share, gpu_share):
    """Of four vCPUs; VM-532 is preempted 23,125 times in 60 s."""
    gpu = [{"device": "0000:00:02.0", "engine": "rcs0", "vgpu_type": "i915-GVTg_V5_4", "share": gpu_share,
            "wait_share": 0.0, "memory_bytes": 1 << 29}] if gpu_share else []
    return {"name": name, "vcpus": 4, "memory_bytes": 4 << 30, "cpus": [], "class": "gpu" if gpu else "cpu",
            "cpu_intensity": (run_share + preempt_share) / 4, "gpu_intensity": gpu_share, "gpu_known": True,
            "run_share": run_share, "preempt_share": preempt_share, "wake_wait_share": 0.0,
            "preemptions_per_s": 23125 / 60 if preempt_share else 1.0, "gpu": gpu}


@pytest.mark.parametrize("rule", ["complement", "paper-threshold"])
def test_placement(page, tmp_path, rule):
    gpu = {"device": "0000:00:02.0", "memory_bytes": 4 << 30, "memory_free_bytes": 3 << 30, "engines": [],
           "vgpu_types": [{"type": "i915-GVTg_V5_4", "free": 2}]}
    hosts = [{"name": name, "cpus": 4, "memory_bytes": 16 << 30, "memory_free_bytes": 8 << 30, "gpus": [gpu], "vms": vms}
             for name, vms in (("node-a", [vm("VM-532", 2.0, 1.2, 0), vm("VM-533", 2.0, 1.2, 0)]),
                               ("node-b", [vm("VM-534", 0.3, 0, 0.4), vm("VM-535", 0.4, 0, 0.5)]))]
    state, config = tmp_path / "state.json", tmp_path / "config"
    state.write_text(json.dumps({"schema": "vgpud.snapshot", "version": 1, "source": "trace", "begin_ns": 0,
                                 "end_ns": 60 * S, "hosts": hosts}), encoding="utf-8")
    config.write_text(f"[policy]\nrule = {rule}\n", encoding="utf-8")
    plan = run("placement", "--dry-run", "--state", state, "--config", config, "-o", "json")
    assert [(a["vm"], a["from"], a["to"]) for a in plan["actions"]] == [("VM-532", "node-a", "node-b")]
    assert ("may move these VMs back" in "".join(plan["notes"])) == (rule == "paper-threshold")
    assert "VM-532 moves to the host of VM-534 and VM-535" in page


@pytest.mark.parametrize("scenario, part, picture", [
    ("gaussian-idle-neighbour.json", [], "idle-neighbour-utilisation.svg"),
    ("gaussian-idle-neighbour.json", ["--end", S], "idle-neighbour-1s-requests.svg"),
    ("gaussian-hotspot.json", [], "hotspot-utilisation.svg"),
    ("gaussian-hotspot.json", [], "hotspot-requests.svg")])
def test_pictures(page, tmp_path, scenario, part, picture):
    trace = tmp_path / "trace"
    simulate(scenario, "--trace-out", trace)
    prefix, _, kind = picture.removesuffix(".svg").rpartition("-")
    run("analyze", trace, *part, "--svg", tmp_path / prefix, "-o", "json")
    with open(os.path.join(vgpuctl.ROOT, "docs", "paper-cases", picture), encoding="utf-8") as svg:
        assert (tmp_path / f"{prefix}-{kind}.svg").read_text(encoding="utf-8") == svg.read()
    assert f"(paper-cases/{picture})" in page


def proposals(name, *options):
    [advice] = simulate(name, "--propose", *options)
    return advice["candidates"]


def test_proposal_for_the_idle_neighbour(page):
    [best] = [c for c in proposals("gaussian-idle-neighbour.json") if c["proposed"]]
    assert best["price"] == "needs-recreate"
    [now, then] = [next(v for v in best["vms"] if v["name"] == "gaussian")[k]
                   for k in ("now", "then")]
    assert (f"would have {100 * then['share']:.1f} % of the GPU and finish its requests in "
            f"{then['latency_mean_ns'] / 1e6:.1f} ms instead of {now['latency_mean_ns'] / 1e6:.1f}"
            ) in page
    for platform in ("xe-sriov", "nvidia-vgpu"):
        [best] = [c for c in proposals("gaussian-idle-neighbour.json", "--platform", platform)
                  if c["proposed"]]
        gaussian = next(v for v in best["vms"] if v["name"] == "gaussian")
        assert f"{100 * gaussian['then']['share']:.1f}" == "80.0"


def test_proposal_for_hotspot(page):
    assert not [c for c in proposals("gaussian-hotspot.json") if c["proposed"]]
    quanta = proposals("gaussian-hotspot.json", "--platform", "xe-sriov")
    [of_16_ms] = [c for c in quanta
                  if {v["quantum_ns"] for v in c["parameters"]["vms"]} == {16_000_000}]
    hotspot = next(v for v in of_16_ms["vms"] if v["name"] == "hotspot")
    assert not of_16_ms["proposed"]
    assert f"save {of_16_ms['gain_wait_ns_per_s'] / S:.3f} s of waiting per second" in page
    assert (f"take {hotspot['then']['latency_p95_ns'] / 1e6:.0f} ms instead of "
            f"{hotspot['now']['latency_p95_ns'] / 1e6:.0f} ms") in page
