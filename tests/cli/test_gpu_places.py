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


def plan_of(snapshot, tmp_path):
    path = tmp_path / "state.json"
    path.write_text(json.dumps(snapshot))
    done = subprocess.run([program(), "placement", "--dry-run", "-o", "json", "--state", path],
                          capture_output=True, check=True, timeout=HANG_S)
    return json.loads(done.stdout)


def moves(plan):
    return [(action["vm"], action["to"], [gpu["to"] for gpu in action["gpus"]]) for action in plan["actions"]]


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
    assert any("the worst of the free ones" in note for note in plan["notes"])
    if older != "OpenStack":
        assert any(f"vgpud on host '{older}' is an older one" in note for note in plan["notes"])
        for host in snapshot["hosts"]:
            host["names_gpus"] = True
        assert moves(plan_of(snapshot, tmp_path)) == [("A", "t", [GPU1])]
