# SPDX-License-Identifier: Apache-2.0
"""Plans for VMs with vGPUs: which GPU of the target they name, and what they gain with it."""
import json
import os
import subprocess

import pytest
from settings import HANG_S
from vgpuctl import program

CASES = os.path.join(os.path.dirname(__file__), "gpu-cases")
GPU0, GPU1 = "0000:3b:00.0", "0000:af:00.0"


def case(name):
    with open(os.path.join(CASES, f"{name}.json"), encoding="utf-8") as file:
        return json.load(file)


def plan_of(snapshot, tmp_path, *lines):
    """lines: more of the configuration, below [policy]."""
    path, config = tmp_path / "state.json", tmp_path / "policy.conf"
    path.write_text(json.dumps(snapshot))
    config.write_text("\n".join(["[policy]", *lines, ""]))
    done = subprocess.run([program(), "placement", "--dry-run", "-o", "json", "--config", config, "--state", path],
                          capture_output=True, check=True, timeout=HANG_S)
    return json.loads(done.stdout)


def moves(plan):
    return [(action["vm"], action["to"], [gpu["to"] for gpu in action["gpus"]]) for action in plan["actions"]]


def wide(plan_snapshot, tmp_path, *lines):
    """A plan whose waves and length are not limited."""
    return plan_of(plan_snapshot, tmp_path, "max_moves_per_plan=10", "max_moves_per_host=10", *lines)


def test_gain_is_that_of_the_named_gpu(tmp_path):
    """A and B want 0.9 each of one GPU, and lose 0.8. Of the two GPUs of t one is 0.9 busy; the other is idle."""
    snapshot = case("which-card")
    plan = plan_of(snapshot, tmp_path)
    assert moves(plan) == [("A", "t", [GPU1])]
    [action] = plan["actions"]
    assert action["gpus"] == [{"type": "12Q", "from": GPU0, "to": GPU1}]
    assert action["gain"]["gpu_wait_ns_per_s"] == 800_000_000
    # If only the busy one has a place, 0.8 is lost there instead.
    for gpu in snapshot["hosts"][1]["gpus"]:
        if gpu["device"] == GPU1:
            gpu["vgpu_types"][0]["free"] = 0
    assert plan_of(snapshot, tmp_path)["verdict"] == "nothing-to-do"


@pytest.mark.parametrize("older", ["s1", "t", "OpenStack"])
def test_gain_where_nobody_can_name_the_gpu(older, tmp_path):
    """The move may end on the worst GPU that is free, so a plan counts with that one."""
    snapshot = case("which-card")
    for host in snapshot["hosts"]:
        host["source"] = "live" if older == host["name"] else "trace"
        for vm in host["vms"]:
            vm["profile"] = {"window_ns": 10**9, "cpu": [1.0] * 300, "gpu": [0.9] * 300}
    if older == "OpenStack":
        for vm in snapshot["hosts"][0]["vms"]:
            vm["display_name"] = f"web-{vm['name']}"
    assert plan_of(snapshot, tmp_path)["verdict"] == "nothing-to-do"
    # With a worst GPU that is hardly busy, 0.7 is won.
    snapshot["hosts"][1]["vms"][0]["gpu"][0]["share"] = 0.2
    snapshot["hosts"][1]["vms"][0]["gpu_intensity"] = 0.2
    snapshot["hosts"][1]["gpus"][0]["engines"][0]["share"] = 0.2
    plan = plan_of(snapshot, tmp_path)
    assert moves(plan) == [("A", "t", [None])]
    assert plan["actions"][0]["gain"]["gpu_wait_ns_per_s"] == 700_000_000
    assert any("the worst free GPU" in note for note in plan["notes"])
    if older != "OpenStack":
        assert any(f"vgpud on host '{older}' is an older one" in note for note in plan["notes"])
        for host in snapshot["hosts"]:
            host["names_gpus"] = True
        assert moves(plan_of(snapshot, tmp_path)) == [("A", "t", [GPU1])]


def test_a_group_makes_room_for_a_large_profile(tmp_path):
    """The 24Q of X fits nowhere before one 12Q VM joins the other. That move wins nothing by itself."""
    plan = plan_of(case("fragmented"), tmp_path)
    first, second = plan["actions"]
    assert (first["vm"], first["from"], first["to"]) in (("p", "b", "c"), ("q", "c", "b"))
    assert (second["vm"], second["to"]) == ("X", first["from"])
    assert first["group"] == second["group"] and first["wave"] < second["wave"]
    assert first["gain"]["lost_cpu_ns_per_s"] == 0
    assert second["gain"]["lost_cpu_ns_per_s"] == 3_000_000_000


def test_pack_keeps_the_empty_gpu_for_a_large_profile(tmp_path):
    """S (12Q) may join u on a half-used GPU, and T (24Q) needs the empty one."""
    assert moves(wide(case("breadth-first"), tmp_path, "gpu_placement=spread")) == [("S", "t", [GPU1])]
    assert moves(wide(case("breadth-first"), tmp_path)) == [("S", "t", [GPU1])]
    plan = wide(case("breadth-first"), tmp_path, "gpu_placement=pack")
    assert sorted(moves(plan)) == [("S", "t", [GPU0]), ("T", "t", [GPU1])]


@pytest.mark.parametrize("groups, packs, doubt", [
    (["[hosts dense]", "match=t", "gpu_placement=pack"], True, ""),
    (["[hosts dense]", "match=x* , ?", "gpu_placement=pack"], True, ""),
    (["[hosts dense]", "match=t2 x ?? s*", "gpu_placement=pack"], False, ""),
    (["[hosts a]", "match=t", "[hosts b]", "match=*", "gpu_placement=pack"], False,
     "host 't' belongs to [hosts a], the first group that matches it; it also matches [hosts b]"),
    (["gpu_placement=pack", "[hosts a]", "match=t", "gpu_placement=spread"], False, ""),
    (["gpu_placement=pack", "[hosts a]", "match=t", "gpu_placement=policy"], True, ""),
    (["gpu_placement=pack", "[hosts a]", "match=s1,s2", "gpu_placement=spread"], True, ""),
])
def test_placement_of_a_group_of_hosts(groups, packs, doubt, tmp_path):
    plan = wide(case("breadth-first"), tmp_path, *groups)
    assert sorted(moves(plan)) == ([("S", "t", [GPU0]), ("T", "t", [GPU1])] if packs else [("S", "t", [GPU1])])
    assert not doubt or doubt in plan["notes"]
    assert bool(doubt) == any("also matches" in note for note in plan["notes"])


@pytest.mark.parametrize("lines, words", [
    (["[hosts a]", "gpu_placement=pack"], ":3: [hosts a] match is missing"),
    (["[hosts a]", "match=[t]"], ":3: [hosts a] match: a pattern has letters"),
    (["[hosts a]", "match=t", "gpu_placement=full"], ":5: [hosts] gpu_placement: 'full' is not one of"),
])
def test_wrong_group_of_hosts(lines, words, tmp_path):
    config = tmp_path / "policy.conf"
    config.write_text("\n".join(["[policy]", "", *lines, ""]))
    done = subprocess.run([program(), "placement", "--dry-run", "--config", config, "--state",
                           os.path.join(CASES, "breadth-first.json")], capture_output=True, check=False,
                          text=True, timeout=HANG_S)
    assert done.returncode == 1 and words in done.stderr, done.stderr


def test_pack_does_not_share_a_gpu_that_is_busy(tmp_path):
    """With u at 0.9, S and u would lose 0.1 engines, so that the empty GPU is better."""
    snapshot = case("breadth-first")
    snapshot["hosts"][2]["vms"][0]["gpu"][0]["share"] = 0.9
    snapshot["hosts"][2]["vms"][0]["gpu_intensity"] = 0.9
    snapshot["hosts"][2]["gpus"][0]["engines"][0]["share"] = 0.9
    assert moves(wide(snapshot, tmp_path, "gpu_placement=pack"))[0] == ("S", "t", [GPU1])


def test_one_type_on_a_homogeneous_gpu(tmp_path):
    snapshot = case("homogeneous")
    assert moves(wide(snapshot, tmp_path)) == [("S", "t", [GPU0])]
    for profiles, n in (("unknown", 1), ("homogeneous", 1), ("mixed", 2)):
        snapshot["hosts"][2]["gpus"][0]["profiles"] = profiles
        assert len(wide(snapshot, tmp_path)["actions"]) == n, profiles


def test_two_types_of_one_vm_on_a_homogeneous_gpu(tmp_path):
    snapshot = case("homogeneous-one-vm")
    assert plan_of(snapshot, tmp_path)["verdict"] == "infeasible"
    snapshot["hosts"][1]["gpus"][0]["profiles"] = "mixed"
    assert moves(plan_of(snapshot, tmp_path)) == [("M", "t", [GPU0, GPU0])]


def test_types_do_not_overbook_a_gpu(tmp_path):
    """The memory of the GPU is unknown. It offers 12Q twice or 6Q four times, and three VMs want 6Q."""
    def types(plan):
        return [action["gpus"][0]["type"] for action in plan["actions"]]
    snapshot = case("overbooked-unknown-fb")
    assert types(wide(snapshot, tmp_path)) == ["6Q"] * 3
    # While its memory is unknown, a mixed GPU gets one type, too.
    snapshot["hosts"][0]["gpus"][0]["profiles"] = "mixed"
    assert types(wide(snapshot, tmp_path)) == ["6Q"] * 3
    # Its memory has room for two of 12 GiB, or one and two of 6 GiB, or four.
    snapshot["hosts"][0]["gpus"][0] |= {"memory_bytes": 24 << 30, "memory_free_bytes": 24 << 30}
    found = types(wide(snapshot, tmp_path))
    assert sum(int(name[:-1]) for name in found) <= 24 and len(found) == 3


def test_slices_do_not_compete(tmp_path):
    """Four VMs are busy for 0.6 of the time, each in a MIG slice of its own."""
    snapshot = case("mig")
    plan = plan_of(snapshot, tmp_path)
    assert (plan["verdict"], plan["actions"]) == ("nothing-to-do", [])
    # The same with a type whose name says nothing, if the host reports that it is a slice.
    def rename(text):
        for host in snapshot["hosts"]:
            for gpu in host["gpus"]:
                gpu["vgpu_types"][0] |= {"type": text, "mig": text == "nvidia-475"}
            for vm in host["vms"]:
                vm["gpu"][0]["vgpu_type"] = text
    rename("nvidia-475")
    assert plan_of(snapshot, tmp_path)["verdict"] == "nothing-to-do"
    rename("nvidia-63")
    assert plan_of(snapshot, tmp_path)["verdict"] == "changes"


def test_nothing_is_consolidated_unasked(tmp_path):
    assert wide(case("consolidate"), tmp_path)["verdict"] == "nothing-to-do"
    assert wide(case("consolidate"), tmp_path, "gpu_placement=pack")["verdict"] == "nothing-to-do"
