# SPDX-License-Identifier: Apache-2.0
"""vgpuctl simulate as its users see it, and against another simulation of GVT-g."""
import csv
import io
import json
import subprocess

import pytest
import yaml

import gvtsim
import vgpuctl
from settings import HANG_S

MODES = ["gvtg", "no-carry", "work-conserving", "weighted", "best-effort", "equal-share",
         "fixed-share", "quantum"]
FIGURES = {"device", "engine", "requests", "partial", "dropped", "busy_ns", "exec_ns", "wait_ns",
           "share", "latency_mean_ns", "latency_p50_ns", "latency_p95_ns", "latency_p99_ns",
           "latency_max_ns", "queue_len_avg", "queue_len_max"}


def run(*args, code=0, stdin=None):
    done = subprocess.run([vgpuctl.program(), "simulate", *map(str, args)], input=stdin,
                          capture_output=True, text=True, timeout=HANG_S)
    assert done.returncode == code, (done.returncode, done.stderr, done.stdout[:500])
    return done


def fixed(us):
    return {"dist": "fixed", "value": us}


def vm(name, *jobs, **members):
    return {"name": name, "start_priority": False, "jobs": list(jobs), **members}


def job(us, depth=2, **members):
    return {"size_us": fixed(us), "depth": depth, **members}


def simulate(scenario, *args):
    return json.loads(run("-", "-o", "json", *args, stdin=json.dumps(scenario)).stdout)


PAIR = {"duration_ms": 2000, "vms": [vm("a", job(300), weight=2), vm("b", job(300)), vm("idle")]}


# ---- the command ----

@pytest.mark.smoke
def test_document():
    doc = simulate(PAIR)
    assert set(doc) == {"vms", "gpus", "mode", "generation", "seed", "duration_ns"}
    assert (doc["mode"], doc["generation"], doc["seed"]) == ("gvtg", "new", 1)
    assert doc["duration_ns"] == 2_000_000_000
    assert [v["name"] for v in doc["vms"]] == ["a", "b", "idle"]
    assert doc["vms"][2]["gpu"] == []
    for figures in [*doc["gpus"], *(g for v in doc["vms"] for g in v["gpu"])]:
        assert set(figures) == FIGURES
        assert (figures["device"], figures["engine"]) == ("card0", "rcs0")
        assert figures["busy_ns"] == figures["exec_ns"] <= doc["duration_ns"]
        assert figures["share"] == pytest.approx(figures["busy_ns"] / doc["duration_ns"], abs=1e-6)
    for key in ("requests", "partial", "busy_ns", "wait_ns"):
        assert doc["gpus"][0][key] == sum(g[key] for v in doc["vms"] for g in v["gpu"])


def test_a_file_and_standard_input_are_the_same(tmp_path):
    path = tmp_path / "scenario.json"
    path.write_text(json.dumps(PAIR))
    assert run(path).stdout == run("-", stdin=json.dumps(PAIR)).stdout


@pytest.mark.smoke
def test_table_has_a_row_for_each_vm_and_engine():
    lines = run("-", stdin=json.dumps(PAIR)).stdout.splitlines()
    assert lines[0].split()[:3] == ["VM", "ENGINE", "SHARE"]
    assert [line.split()[:2] for line in lines[1:]] == [
        ["a", "rcs0"], ["b", "rcs0"], ["idle", "-"], ["(all)", "rcs0"]]
    assert "QUEUE MAX" in run("-", "-o", "wide", stdin=json.dumps(PAIR)).stdout


def test_csv_and_yaml_have_the_figures_of_json():
    doc = simulate(PAIR)
    rows = list(csv.DictReader(io.StringIO(run("-", "-o", "csv", stdin=json.dumps(PAIR)).stdout)))
    assert [row["name"] for row in rows] == ["a", "b", "idle"]
    assert int(rows[0]["busy_ns"]) == doc["vms"][0]["gpu"][0]["busy_ns"]
    assert yaml.safe_load(run("-", "-o", "yaml", stdin=json.dumps(PAIR)).stdout) == doc


def test_mode_and_seed_replace_those_of_the_scenario():
    scenario = {"duration_ms": 500, "seed": 3, "mode": "quantum", "vms": [
        vm("a", {"size_us": {"dist": "exponential", "mean": 200}, "loop": "open",
                 "interarrival_us": {"dist": "exponential", "mean": 900}})]}
    own = simulate(scenario)
    assert (own["mode"], own["seed"]) == ("quantum", 3)
    other = simulate(scenario, "--mode", "weighted", "--seed", "4")
    assert (other["mode"], other["seed"]) == ("weighted", 4)
    assert own["gpus"] != other["gpus"]
    assert simulate(scenario) == own
    assert simulate(scenario, "--seed", "3") == own


def test_compare_runs_every_mode():
    docs = simulate(PAIR, "--compare")
    assert [d["mode"] for d in docs] == MODES
    for doc in docs:
        assert doc == simulate(PAIR, "--mode", doc["mode"])
    lines = run("-", "--compare", stdin=json.dumps(PAIR)).stdout.splitlines()
    assert lines[0].split()[:3] == ["MODE", "VM", "ENGINE"]
    assert [tuple(line.split()[:2]) for line in lines[1:]] == [
        (mode, name) for mode in MODES for name in ("a", "b", "idle")]
    rows = list(csv.DictReader(io.StringIO(
        run("-", "--compare", "-o", "csv", stdin=json.dumps(PAIR)).stdout)))
    assert [row["mode"] for row in rows] == [mode for mode in MODES for _ in range(3)]


@pytest.mark.parametrize("args, says", [
    ([], "specify a scenario"), (["a", "b"], "'b' is another"), (["-", "--mode", "fair"], "fair"),
    (["-", "--seed", "x"], "--seed"), (["-", "--seed", "-1"], "--seed"),
    (["-", "-o", "xml"], "xml"), (["-", "--compare", "--mode", "gvtg"], "--compare"),
])
def test_wrong_usage(args, says):
    done = run(*args, code=2)
    assert says in done.stderr and done.stdout == ""


@pytest.mark.parametrize("text, says", [
    ("", "not JSON"), ("{}", "vms: is missing"),
    ('{"vms": [{"name": "a", "jobs": [{"size_us": {"dist": "fixed"}}]}]}',
     "vms[0].jobs[0].size_us.value: is missing"),
    ('{"vms": [{"name": "a", "wieght": 3}]}', "vms[0].wieght: is unknown"),
])
def test_bad_scenario(text, says):
    done = run("-", code=1, stdin=text)
    assert says in done.stderr and done.stderr.startswith("vgpuctl: -: ") and done.stdout == ""


def test_no_such_file(tmp_path):
    assert "no-such" in run(tmp_path / "no-such.json", code=3).stderr


def test_more_requests_than_can_wait():
    scenario = {"vms": [vm("a", {"size_us": fixed(1e6), "loop": "open",
                                 "interarrival_us": fixed(1)})]}
    done = run("-", code=1, stdin=json.dumps(scenario))
    assert "requests wait" in done.stderr and "'a'" in done.stderr


# ---- against a simulation that works otherwise ----

PRIORITY = {"start_priority": True}
CASES = {
    "weights": [vm("a", job(300), weight=2), vm("b", job(300))],
    "idle neighbour": [vm("a", job(300)), vm("b")],
    "alone": [vm("a", job(300))],
    "20 ms against 1 ms": [vm("a", job(20000)), vm("b", job(1000))],
    "80 ms against 1 ms": [vm("a", job(80000)), vm("b", job(1000))],
    "newcomer": [vm("a", job(300)), vm("b", job(300), start_ms=1000, **PRIORITY)],
    "two newcomers": [vm("a", job(700), **PRIORITY),
                      vm("b", job(900), start_ms=300, **PRIORITY), vm("c", job(200), weight=8)],
    "one goes": [vm("a", job(1500)), vm("b", job(2500), stop_ms=1300), vm("c", start_ms=400)],
    "thinking": [vm("a", job(5000, 1, think_us=fixed(3000))), vm("b", job(700, 3)),
                 vm("c", job(130, 1, think_us=fixed(17)), weight=16)],
    "frames": [vm("a", job(6000, 1, think_us=fixed(10667))),
               vm("b", job(6000, 1, think_us=fixed(10667))), vm("c")],
}


@pytest.mark.parametrize("name", CASES)
def test_shares_are_those_of_a_slow_simulation(name):
    scenario = {"duration_ms": 2500, "vms": CASES[name]}
    assert_agree(scenario)


def test_shares_on_two_engines():
    assert_agree({"duration_ms": 2500, "engines": ["rcs0", "vcs0"], "vms": [
        vm("a", job(40000, 1, engine="vcs0"), job(800, 2, engine="rcs0")),
        vm("b", job(1000, 1, engine="rcs0", think_us=fixed(500)), weight=2)]})


def assert_agree(scenario):
    wanted = gvtsim.Gvt(scenario).run()
    got = {(v["name"], g["engine"]): g["share"] for v in simulate(scenario)["vms"]
           for g in v["gpu"]}
    print({key: (round(got.get(key, 0), 4), round(share, 4)) for key, share in wanted.items()})
    for key, share in wanted.items():
        assert got.get(key, 0) == pytest.approx(share, abs=0.005), (key, got, wanted)
