# SPDX-License-Identifier: Apache-2.0
"""Snapshots of recordings that lack something, and the plans that are made of them."""
import json
import subprocess

import pytest

import previous
import vgpuctl

MEMBERS = ["cpu_intensity", "class", "run_share", "preempt_share", "wake_wait_share", "preemptions_per_s", "profile.cpu",
           "lost_to", "gpu", "gpu_intensity"]


def switches(times):
    """(ms, CPU, prev, its state, next), as perf script prints them."""
    names = {0: "swapper/0", 77: "cc1", 5010: "CPU 0/KVM"}
    return "".join(
        f"{names[p]:>16} {5000 if p == 5010 else p}/{p} [{cpu:03d}] 100.{ms:03d}000000: sched:sched_switch: "
        f"prev_comm={names[p]} prev_pid={p} prev_prio=120 prev_state={state} ==> next_comm={names[n]} next_pid={n} "
        "next_prio=120\n" for ms, cpu, p, state, n in times)


def snapshot(path, text):
    path.write_text(text)
    done = subprocess.run([vgpuctl.program(), "snapshot", "--host", "h", str(path)], capture_output=True, check=True)
    [vm] = json.loads(done.stdout)["hosts"][0]["vms"]
    return vm


TURNS = [(0, 0, 77, "S", 5010), (400, 0, 5010, "R", 77), (500, 0, 77, "S", 5010), (800, 0, 5010, "S", 0),
         (999, 0, 0, "R", 77)]


def test_a_snapshot_without_wakeups(tmp_path):
    """700 of 999 ms on its CPU, 100 preempted."""
    vm = snapshot(tmp_path / "t", switches(TURNS))
    assert (vm["run_share"], vm["preempt_share"], vm["wake_wait_share"]) == (
        0.700701, 0.1001, 0)
    assert vm["unknown"] == ["class", "wake_wait_share"]
    assert vm["bounds"] == ["cpu_intensity", "profile.cpu", "lost_to"] and vm["lost_to"]
    assert vm["profile"]["cpu"] == [0.800801]


def test_a_snapshot_without_a_cpu(tmp_path):
    vm = snapshot(tmp_path / "t", "# nrcpus online : 2\n" + switches(TURNS))
    assert (vm["run_share"], vm["preemptions_per_s"]) == (0.700701, 1.001001)
    assert (vm["preempt_share"], vm["wake_wait_share"], vm["cpu_intensity"], vm["lost_to"]) == (0, 0, 0, [])
    assert vm["unknown"] == ["cpu_intensity", "class", "preempt_share", "wake_wait_share", "profile.cpu", "lost_to"]
    assert vm["bounds"] == ["run_share", "preemptions_per_s"] and vm["profile"]["cpu"] == []


# ---- plans ----

def vm(name, run, wait, **more):
    return {"name": name, "vcpus": 2, "class": "cpu", "cpu_intensity": 1, "gpu_intensity": 0, "gpu_known": False,
            "run_share": run, "preempt_share": wait, "wake_wait_share": 0, "preemptions_per_s": 50, **more}


def hosts(a, b):
    """a: two VMs fight for its 2 CPUs; b has room."""
    return {"schema": "vgpud.snapshot", "version": 1, "source": "example", "hosts": [
        {"name": "a", "cpus": 2, "vms": [vm("one", 1, 1, **a), vm("two", 1, 1, never_move=True)]},
        {"name": "b", "cpus": 8, "vms": [vm("three", 0.1, 0, **b)],
         "gpus": [{"device": "g1", "vgpu_types": [{"type": "x", "free": 1}]}]}]}


def plan(path, document, program=None):
    path.write_text(json.dumps(document))
    done = subprocess.run([program or vgpuctl.program(), "placement", "--dry-run", "--state", str(path), "-o", "json"],
                          capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def moves(document):
    return [(action["vm"], action["to"]) for action in document["actions"]]


@pytest.mark.parametrize("lists", [{}, {"bounds": ["run_share", "cpu_intensity"]}, {"unknown": [
    "cpu_intensity", "class", "preempt_share", "wake_wait_share", "lost_to"]}, {"unknown": ["gpu"]}])
def test_a_vm_with_a_demand_is_planned(tmp_path, lists):
    """Also one whose use of GPUs is unknown, as it has none."""
    assert moves(plan(tmp_path / "s", hosts(lists, lists))) == [("one", "b")]


def test_a_vm_without_a_demand_is_not_moved(tmp_path):
    document = plan(tmp_path / "s", hosts({"unknown": ["run_share"]}, {}))
    assert moves(document) == []
    assert {"vm": "one", "host": "a", "reason": "the VM's CPU demand is unknown"} in document["skipped"]


def test_no_vm_goes_to_the_host_of_one(tmp_path):
    document = plan(tmp_path / "s", hosts({}, {"unknown": ["run_share"]}))
    assert moves(document) == []
    assert "the CPU demand of VM 'three' on host 'b' is unknown" in json.dumps(document)


def test_a_gpu_of_unknown_use_stays(tmp_path):
    gpu = [{"device": "g0", "engine": "e", "vgpu_type": "x", "share": 0}]
    assert moves(plan(tmp_path / "s", hosts({"gpu": gpu}, {}))) == [("one", "b")]
    document = plan(tmp_path / "s", hosts({"gpu": gpu, "unknown": ["gpu"]}, {}))
    assert moves(document) == []
    assert {"vm": "one", "host": "a", "reason": "the VM has a GPU whose use is unknown"} in document["skipped"]


@pytest.mark.drawn("previous")
@pytest.mark.parametrize("member", MEMBERS)
def test_the_previous_version_reads_the_numbers(tmp_path, member):
    old = previous.program("vgpuctl")
    want = plan(tmp_path / "s", hosts({}, {}), old)
    for lists in ({"unknown": [member]}, {"bounds": [member]}):
        assert moves(plan(tmp_path / "s", hosts(lists, lists), old)) == moves(want) == [("one", "b")]
