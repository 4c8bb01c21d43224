# SPDX-License-Identifier: Apache-2.0
"""Runs the program under test and compares its documents with the oracle's."""
import json
import os
import subprocess

from oracle import FIGURES
from settings import HANG_S

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def program():
    if "VGPUCTL" in os.environ:
        return os.environ["VGPUCTL"]
    return os.path.join(os.environ.get("VG_BUILDDIR", os.path.join(ROOT, "build")), "vgpuctl")


class Result:
    def __init__(self, rc, out, err):
        self.rc, self.out, self.err = rc, out, err

    def doc(self):
        assert self.rc == 0, f"exit code {self.rc}\n{self.err}"
        return json.loads(self.out)


def analyze(*args, stdin=None):
    """`vgpuctl analyze ARGS -o json`; stdin: its standard input."""
    if isinstance(stdin, str):
        stdin = stdin.encode()
    done = subprocess.run([program(), "analyze", *map(str, args), "-o", "json"], input=stdin, capture_output=True, timeout=HANG_S)
    return Result(done.returncode, done.stdout.decode("utf-8"),
                  done.stderr.decode("utf-8", "backslashreplace"))


def check_identities(doc):
    """What holds for every document, whatever the input."""
    trace = doc["trace"]
    assert trace["end_ns"] >= trace["begin_ns"], trace
    for figures in every_thread(doc):
        if figures["blocked_ns"] is None:
            assert figures["run_ns"] + (figures["preempt_ns"] or 0) <= trace["end_ns"] - trace["begin_ns"]
            continue
        figures = {k: 0 if v is None and k != "pid" else v for k, v in figures.items()}
        waits = figures["preempt_ns"] + figures["wake_wait_ns"]
        spent = figures["run_ns"] + waits + figures["blocked_ns"]
        assert spent == figures["observed_ns"], figures
        assert 0 <= figures["guest_ns"] <= figures["run_ns"], figures
        if figures["guest_ns"] or figures["hyp_ns"]:
            assert figures["hyp_ns"] == figures["run_ns"] - figures["guest_ns"], figures
        assert all(figures[k] >= 0 for k in FIGURES), figures
        assert figures["preemptions"] + figures["blocks"] == figures["switches_out"], figures
        assert figures["observed_ns"] <= trace["end_ns"] - trace["begin_ns"], figures
    for vm in doc["vms"]:
        for key in FIGURES:
            if key in vm.get("unknown", []):
                assert {vm[key], *(v[key] for v in vm["vcpus"])} == {None}, (vm["name"], key)
            else:
                assert vm[key] == sum(v[key] for v in vm["vcpus"]), (vm["name"], key)
        if vm["lost_to"] is not None:
            lost = sum(entry["ns"] for entry in vm["lost_to"])
            assert lost <= vm["preempt_ns"] + (vm["wake_wait_ns"] or 0), vm["lost_to"]


def every_thread(doc):
    for vm in doc["vms"]:
        yield from vm["vcpus"]
    yield from doc.get("tasks") or []


def differences(doc, truth):
    """Lines that say where the document differs from Oracle.measure()."""
    out = []

    def check(where, got, want):
        if got != want:
            out.append(f"{where}: got {got}, expected {want}")

    check("VMs", [(v["name"], v["pid"]) for v in doc["vms"]],
          [(v["name"], v["pid"]) for v in truth["vms"]])
    for got, want in zip(doc["vms"], truth["vms"]):
        if got["name"] != want["name"]:
            continue
        name = got["name"]
        unknown = got.get("unknown", [])
        for key in FIGURES:
            check(f"{name} {key}", got[key], None if key in unknown else want[key])
        check(f"{name} vcpus", sorted(v["tid"] for v in got["vcpus"]),
              [v["tid"] for v in want["vcpus"]])
        by_tid = {v["tid"]: v for v in got["vcpus"]}
        for vcpu in want["vcpus"]:
            if vcpu["tid"] in by_tid:
                compare_thread(check, f"{name} tid {vcpu['tid']}", by_tid[vcpu["tid"]], vcpu, unknown)
        check(f"{name} lost_to", {e["aggressor"]: (e["ns"], e["count"]) for e in got["lost_to"]},
              want["lost_to"])
        if abs(got["cpu_intensity"] - want["cpu_intensity"]) > 1e-6:
            check(f"{name} cpu_intensity", got["cpu_intensity"], want["cpu_intensity"])
    if doc.get("tasks"):
        compare_tasks(check, doc["tasks"], truth["tasks"])
    return out


def compare_thread(check, where, got, want, unknown):
    for key in FIGURES:
        check(f"{where} {key}", got[key], None if key in unknown else want[key])
    check(f"{where} exits", got["exits"] and {k: n for k, n in got["exits"].items() if n},
          None if "exits" in unknown else want["exits"])


def compare_tasks(check, got, want):
    """Thread ids may come back: then each life is a line, or nothing was seen of it."""
    def lives(tasks):
        out = {}
        for task in tasks:
            if task["observed_ns"] or task["switches_out"]:
                out.setdefault(task["tid"], []).append(tuple(task[k] for k in FIGURES))
        return {tid: sorted(rows) for tid, rows in out.items()}
    got, want = lives(got), lives(want)
    check("tasks", sorted(got), sorted(want))
    for tid in sorted(set(got) & set(want)):
        check(f"task {tid} {FIGURES}", got[tid], want[tid])


def assert_matches(doc, truth):
    check_identities(doc)
    found = differences(doc, truth)
    assert not found, "\n".join(found[:40])
