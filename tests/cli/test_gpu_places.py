# SPDX-License-Identifier: Apache-2.0
"""Plans for VMs with vGPUs: which GPU of the target they name, and what they gain with it."""
import json
import os
import random
import subprocess

import gpuplans
import pytest
from settings import HANG_S, full, random_of
from vgpuctl import program

CASES = os.path.join(os.path.dirname(__file__), "gpu-cases")
GPU0, GPU1 = "0000:3b:00.0", "0000:af:00.0"


def case(name):
    with open(os.path.join(CASES, f"{name}.json"), encoding="utf-8") as file:
        return json.load(file)


def plan_of(snapshot, tmp_path, *lines, options=()):
    """lines: more of the configuration, below [policy]."""
    path, config = tmp_path / "state.json", tmp_path / "policy.conf"
    path.write_text(json.dumps(snapshot))
    config.write_text("\n".join(["[policy]", *lines, ""]))
    done = subprocess.run([program(), "placement", "--dry-run", "-o", "json", "--config", config, "--state", path, *options],
                          capture_output=True, check=True, timeout=HANG_S)
    return json.loads(done.stdout)


def moves(plan):
    return [(action["vm"], action["to"], [gpu["to"] for gpu in action["gpus"]]) for action in plan["actions"]]


def free_up(snapshot, tmp_path, request, *lines):
    return plan_of(snapshot, tmp_path, *lines, options=["--free-up", request])


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
        assert any(f"vgpud on host '{older}' is older" in note for note in plan["notes"])
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


def beside_u(stay="uT"):
    """S may join u or have the empty GPU of t. By default no other VM may move, so only that choice is left."""
    snapshot = case("breadth-first")
    for host in snapshot["hosts"]:
        for vm in host["vms"]:
            vm["never_move"] = vm["name"] in stay
    return snapshot


def test_pack_keeps_the_empty_gpu_for_a_large_profile(tmp_path):
    """S (12Q) may join u on a half-used GPU, and T (24Q) needs the empty one."""
    assert moves(wide(beside_u(), tmp_path, "gpu_placement=spread")) == [("S", "t", [GPU1])]
    assert moves(wide(beside_u(), tmp_path)) == [("S", "t", [GPU1])]
    assert moves(wide(beside_u(), tmp_path, "gpu_placement=pack")) == [("S", "t", [GPU0])]
    plan = wide(beside_u(stay="u"), tmp_path, "gpu_placement=pack")
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
    plan = wide(beside_u(), tmp_path, *groups)
    assert moves(plan) == [("S", "t", [GPU0 if packs else GPU1])]
    assert not doubt or doubt in plan["notes"]
    assert bool(doubt) == any("also matches" in note for note in plan["notes"])


@pytest.mark.parametrize("lines, words", [
    (["[hosts a]", "gpu_placement=pack"], ":3: [hosts a] match, the names of the group's hosts, is missing"),
    (["[hosts a]", "match=[t]"], ":3: [hosts a] match: a pattern may contain only letters"),
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
    snapshot = beside_u()
    snapshot["hosts"][2]["vms"][0]["gpu"][0]["share"] = 0.9
    snapshot["hosts"][2]["vms"][0]["gpu_intensity"] = 0.9
    snapshot["hosts"][2]["gpus"][0]["engines"][0]["share"] = 0.9
    assert moves(wide(snapshot, tmp_path, "gpu_placement=pack")) == [("S", "t", [GPU1])]


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
    # While the GPU's memory is unknown, a mixed GPU gets one type, too.
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


def test_one_move_frees_a_place(tmp_path):
    plan = free_up(case("consolidate"), tmp_path, "24Q")
    assert (plan["rule"], plan["free_up"], plan["verdict"]) == ("free-up", "24Q:1", "changes")
    assert moves(plan) in ([("p", "c", [GPU0])], [("q", "b", [GPU0])])
    [action] = plan["actions"]
    assert action["group"] == action["wave"] == 1 and "24Q" in action["reason"]["text"]
    # The same request and snapshot give the same plan; others give another.
    assert free_up(case("consolidate"), tmp_path, "24Q:1")["id"] == plan["id"]
    assert plan_of(case("consolidate"), tmp_path)["id"] != plan["id"]
    # The VM with less memory is cheaper to move.
    for cheap, other in (("p", "c"), ("q", "b")):
        snapshot = case("consolidate")
        for host in snapshot["hosts"]:
            host["vms"][0]["memory_bytes"] = (2 if host["vms"][0]["name"] == cheap else 3) << 30
        assert moves(free_up(snapshot, tmp_path, "24Q")) == [(cheap, other, [GPU0])]


def test_places_that_are_free_or_cannot_be_freed(tmp_path):
    plan = free_up(case("consolidate"), tmp_path, "12Q")
    assert (plan["verdict"], plan["why"]) == ("nothing-to-do", ["host 'b' already has 1 free slot of type '12Q'"])
    plan = free_up(case("consolidate"), tmp_path, "48Q")
    assert (plan["verdict"], plan["why"]) == ("infeasible", ["no GPU in the cluster offers type '48Q'; the offered "
                                                             "types are '12Q', '24Q'"])
    assert free_up(case("consolidate"), tmp_path, "12Q:3")["verdict"] == "infeasible"
    snapshot = case("consolidate")
    for host in snapshot["hosts"]:
        host["vms"][0]["pinned"] = True
    plan = free_up(snapshot, tmp_path, "24Q")
    assert plan["verdict"] == "infeasible"
    assert plan["why"] == [f"VM '{vm}' is pinned to CPUs or NUMA nodes of its host" for vm in "pq"]
    snapshot["hosts"][0]["vms"][0]["pinned"] = False
    snapshot["hosts"][0]["maintenance"] = True
    assert "host 'b' is in maintenance" in free_up(snapshot, tmp_path, "24Q")["why"]


def test_a_name_is_freed_first(tmp_path):
    """On the only targets, VMs without a GPU have the names of the VMs that are to move there."""
    snapshot = case("consolidate")
    for host, name in zip(snapshot["hosts"], "qp"):
        host["vms"].append({**host["vms"][0], "name": name, "uuid": None, "gpu": []})
    plan = free_up(snapshot, tmp_path, "24Q")
    assert plan["verdict"] == "infeasible"
    assert "host 'c' already has another VM with the name 'p'" in plan["why"]
    snapshot["hosts"].append({**snapshot["hosts"][0], "name": "d", "gpus": [], "vms": []})
    plan = free_up(snapshot, tmp_path, "24Q")
    targets = [(action["vm"], action["from"], action["to"]) for action in plan["actions"]]
    assert targets in ([("p", "c", "d"), ("p", "b", "c")], [("q", "b", "d"), ("q", "c", "b")])
    assert [action["wave"] for action in plan["actions"]] == [1, 2]


def test_two_places_on_one_host(tmp_path):
    """Each host has one place of 12Q; a VM that needs two can only use an empty GPU."""
    plan = free_up(case("consolidate"), tmp_path, "12Q:2")
    assert len(plan["actions"]) == 1 and plan["free_up"] == "12Q:2"


def test_a_vm_makes_room_for_the_one_that_leaves(tmp_path):
    """Only r can go to d, and only then has p a place: the first move gains and frees nothing."""
    snapshot = case("consolidate")
    b, c = snapshot["hosts"]
    d = json.loads(json.dumps(c).replace('"c"', '"d"').replace('"q"', '"s"'))
    snapshot["hosts"].append(d)
    for vm in c["vms"]:
        vm["name"] = "r"
    for host in (c, d):
        host["gpus"][0]["vgpu_types"] = [{"type": "24Q", "free": 0}, {"type": "12Q", "free": 0}, {"type": "6Q", "free": 3}]
        host["vms"][0]["gpu"][0] |= {"vgpu_type": "6Q", "memory_bytes": 6 << 30}
        host["gpus"][0]["memory_free_bytes"] = 18 << 30
    # Neither c nor d may become the empty host.
    c["maintenance"] = False
    d["vms"].append(d["vms"][0] | {"name": "x", "pinned": True})
    d["gpus"][0]["memory_free_bytes"] = 12 << 30
    d["gpus"][0]["vgpu_types"][2]["free"] = 2
    c["gpus"][0]["vgpu_types"].pop(0)
    plan = free_up(snapshot, tmp_path, "24Q")
    assert moves(plan) == [("r", "d", [GPU0]), ("p", "c", [GPU0])]
    first, second = plan["actions"]
    assert first["group"] == second["group"] and first["wave"] < second["wave"]
    assert "makes space on host 'c' for a VM that leaves host 'b'" in first["reason"]["text"]


@pytest.mark.parametrize("options, words", [
    (["--free-up", "24Q:0"], "the number of slots must be 1 to 64"),
    (["--free-up", "24Q:65"], "the number of slots must be 1 to 64"),
    (["--free-up", ":2"], "does not name a vGPU type"),
    (["--free-up", "x" * 256], "does not name a vGPU type"),
    (["--free-up", "24Q", "--rule", "complement"], "--rule does not apply"),
    (["--free-up", "24Q", "--explain", "p"], "--explain does not apply"),
    (["--free-up", "nova"], "snapshots do not contain nova's requests"),
])
def test_wrong_request_for_places(options, words):
    done = subprocess.run([program(), "placement", "--dry-run", "--state", os.path.join(CASES, "consolidate.json"),
                           *options], capture_output=True, check=False, text=True, timeout=HANG_S)
    assert done.returncode == 2 and words in done.stderr, done.stderr


GIB, SIZES = 1 << 30, {"24Q": 24, "12Q": 12, "6Q": 6}


def free_places(vms, name):
    """How many vGPUs of a type a homogeneous GPU of 24 GiB can still have."""
    types = {vm["type"] for vm in vms}
    return 24 // SIZES[name] - len(vms) if types <= {name} else 0


def random_cluster(rng):
    """GPUs by host, each with the VMs that it has: [[{"name", "type", "memory", "pinned"}]]"""
    hosts, n = [], 0
    for _ in range(rng.randint(2, 4)):
        gpus = []
        for _ in range(rng.choice([1, 1, 2])):
            name = rng.choice(["12Q", "6Q", "6Q", "24Q"])
            gpus.append([{"name": f"v{n + i}", "type": name, "memory": rng.randint(1, 8),
                          "pinned": rng.random() < 0.15} for i in range(rng.randint(0, 24 // SIZES[name]))])
            n += len(gpus[-1])
        hosts.append(gpus)
    return hosts


def snapshot_of(hosts):
    snapshot = case("consolidate")
    template = snapshot["hosts"][0]
    snapshot["hosts"] = []
    for h, gpus in enumerate(hosts):
        host = json.loads(json.dumps(template)) | {"name": f"h{h}", "gpus": [], "vms": []}
        for g, vms in enumerate(gpus):
            used = sum(SIZES[vm["type"]] for vm in vms)
            host["gpus"].append({
                "device": (GPU0, GPU1)[g], "memory_bytes": 24 * GIB, "memory_free_bytes": (24 - used) * GIB,
                "vgpu_types": [{"type": name, "free": free_places(vms, name), "memory_bytes": size * GIB}
                               for name, size in SIZES.items()], "engines": []})
            for vm in vms:
                one = json.loads(json.dumps(template["vms"][0])) | {
                    "name": vm["name"], "memory_bytes": vm["memory"] * GIB, "pinned": vm["pinned"], "run_share": 0}
                one["gpu"][0] |= {"device": (GPU0, GPU1)[g], "vgpu_type": vm["type"],
                                  "memory_bytes": SIZES[vm["type"]] * GIB, "share": 0}
                host["vms"].append(one)
        snapshot["hosts"].append(host)
    return snapshot


def cheapest(hosts, name):
    """The least GiB that moves copy until a host has a place, each VM moved once at most; None if none do."""
    best, seen = None, {}

    def search(gpus, moved, cost):
        nonlocal best
        if best is not None and cost >= best:
            return
        key = (tuple(sorted(moved)), tuple(tuple(sorted(vm["name"] for vm in one)) for one in gpus.values()))
        if seen.get(key, 1 << 30) <= cost:
            return
        seen[key] = cost
        if any(free_places(one, name) > 0 for one in gpus.values()):
            best = cost
            return
        for source, vms in gpus.items():
            for vm in vms:
                for target, others in gpus.items():
                    if vm["pinned"] or vm["name"] in moved or target[0] == source[0] or \
                            free_places(others, vm["type"]) <= 0:
                        continue
                    search(gpus | {source: [one for one in vms if one is not vm], target: [*others, vm]},
                           moved | {vm["name"]}, cost + vm["memory"] + SIZES[vm["type"]])

    search({(h, g): vms for h, gpus in enumerate(hosts) for g, vms in enumerate(gpus)}, frozenset(), 0)
    return best


def check_freed(hosts, plan, name):
    """Carries the plan out by the rules of a homogeneous GPU. Returns the GiB that it copies."""
    gpus = {(f"h{h}", (GPU0, GPU1)[g]): list(vms) for h, one in enumerate(hosts) for g, vms in enumerate(one)}
    cost = 0
    for action in plan["actions"]:
        [gpu] = action["gpus"]
        source, target = gpus[action["from"], gpu["from"]], gpus[action["to"], gpu["to"]]
        [vm] = [one for one in source if one["name"] == action["vm"]]
        assert not vm["pinned"] and free_places(target, vm["type"]) > 0
        source.remove(vm)
        target.append(vm)
        cost += vm["memory"] + SIZES[vm["type"]]
    assert any(free_places(vms, name) > 0 for vms in gpus.values())
    return cost


def test_the_cheapest_group_frees_a_place(tmp_path):
    """Against all sequences of moves of small clusters in which no VM uses a CPU or GPU."""
    rng, ratios, n_missed, wanted = random_of("free-up"), [], 0, 150 if full() else 15
    while len(ratios) + n_missed < wanted:
        hosts, name = random_cluster(rng), rng.choice(["24Q", "12Q"])
        if sum(len(vms) for gpus in hosts for vms in gpus) > 9:
            continue
        best = cheapest(hosts, name)
        if best == 0:
            continue
        plan = free_up(snapshot_of(hosts), tmp_path, name, "gpu_placement=pack")
        assert plan["verdict"] == "changes" or plan["why"], hosts
        if plan["verdict"] == "changes":
            ratios.append(check_freed(hosts, plan, name) / best)
        n_missed += plan["verdict"] != "changes" and best is not None
    # A VM that makes room may take the GPU that is to become empty: the search does not try the other.
    assert n_missed <= max(1, wanted // 50) and sum(ratios) / len(ratios) <= 1.01, ratios


HORIZON_NS = 600e9


def test_the_best_plan_of_eight_vms(tmp_path):
    """Four hosts with GPUs of two types. The optimum is that of all sequences of three moves by another model."""
    plan = plan_of(case("exact-22"), tmp_path)
    net = sum((action["gain"]["lost_cpu_ns_per_s"] + action["gain"]["gpu_wait_ns_per_s"]) / 1e9
              - action["cost"]["lost_cpu_ns"] / HORIZON_NS for action in plan["actions"])
    assert abs(net - 0.876771012) < 1e-6, plan["actions"]


def test_random_plans_reach_the_optimum(tmp_path):
    """Against all sequences of up to three moves, in clusters with whole GPUs, vGPUs of several types, and MIG."""
    rng, gaps, wanted = random_of("gpu-plans"), {}, 300 if full() else 20
    while len(gaps) < wanted:
        state = rng.getrandbits(64)
        cluster = gpuplans.random_cluster(random.Random(state))
        if len(cluster.vms) > 12:
            continue
        best, ungated = cluster.best()
        if best < gpuplans.MIN_GAIN:
            continue
        net = gpuplans.carry_out(cluster, plan_of(gpuplans.snapshot_of(cluster), tmp_path))
        assert net <= ungated + 1e-5, state
        gaps[state] = (best - net) / best
    ranked = sorted(gaps.items(), key=lambda gap: gap[1])
    assert sum(gaps.values()) / len(gaps) <= 0.01, ranked[-5:]
    assert ranked[int(0.95 * len(ranked))][1] <= 0.03 and ranked[-1][1] <= 0.15, ranked[-5:]
