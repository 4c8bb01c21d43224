# SPDX-License-Identifier: Apache-2.0
"""vgpuctl simulate on recordings: GPU requests played again, and proposals for another mode."""
import csv
import gzip
import io
import json
import subprocess

import pytest

import gvtsim
import vgpuctl
from settings import HANG_S

FIGURES = {"requests", "requests_per_s", "share", "wait_ns_per_s", "latency_mean_ns",
           "latency_p50_ns", "latency_p95_ns", "latency_p99_ns"}
MAP = "101 alpha\n201 beta\n301 gamma\n"
TIDS = {"alpha": 101, "beta": 201, "gamma": 301}


def run(*args, code=0, stdin=None):
    done = subprocess.run([vgpuctl.program(), "simulate", *map(str, args)], input=stdin,
                          capture_output=True, text=True, timeout=HANG_S)
    assert done.returncode == code, (done.returncode, done.stderr, done.stdout[:500])
    return done


class Trace:
    """Text as trace-cmd report prints it; times in microseconds."""

    def __init__(self, tmp_path):
        self.path = tmp_path / "trace.txt"
        self.map = tmp_path / "map"
        self.map.write_text(MAP)
        self.lines = []
        self.seqno = 0

    def add(self, us, comm, tid, event):
        self.lines.append((us, f" {comm}-{tid} [000] .... {100 + us // 10**6}.{us % 10**6:06d}: "
                               f"{event}"))

    def end(self, us):
        """Something at the end of the part, of nobody."""
        self.add(us, "swapper/0", 0, "i915_gem_object_destroy: obj=0x1")

    def gvt(self, name, queued, begin, done, engine=0, device=0):
        """A workload of a vGPU: its QEMU thread queues, GVT-g submits it as a request of i915."""
        self.seqno += 1
        vgpu = TIDS[name] // 100
        context = 10 * vgpu + engine
        of = f"dev={device} vgpu_id={vgpu} ring_id={engine} workload=0x{self.seqno:x}000"
        self.add(queued, "CPU 0/KVM", TIDS[name], f"gvt_workload_queue: {of}")
        self.add(begin, "gvt:rcs0", 900, f"gvt_workload_submit: {of} ctx={context} "
                                     f"seqno={self.seqno}")
        self.i915("gvt:rcs0", 900, context, begin, begin, done, engine, device)
        self.add(done, "gvt:rcs0", 900, f"gvt_workload_complete: {of} status=0")

    def i915(self, comm, tid, context, added, begin, done, engine=0, device=0, seqno=None):
        of = (f"dev={device}, engine={(0, 2)[engine > 0]}:0, hw_id=0, ctx={context}, "
              f"seqno={seqno or self.seqno}")
        self.add(added, comm, tid, f"i915_request_add: {of}, global=0")
        self.add(begin, "swapper/0", 0, f"i915_request_in: {of}, prio=0, global=0, port=0")
        self.add(done, "swapper/0", 0, f"i915_request_out: {of}, global=0, completed?=1")

    def write(self):
        text = "".join(line + "\n" for _, line in sorted(self.lines, key=lambda item: item[0]))
        self.path.write_text(text)
        return self.path, "--vm-map", self.map, "--no-progress"


class Recorder(gvtsim.Gvt):
    """The slow simulation of GVT-g, telling what it does; closed loops, one engine."""

    def __init__(self, trace, scenario):
        super().__init__(scenario)
        self.trace = trace
        self.queued = {v.name: [] for v in self.vgpus}
        self.begun = None

    def arrive(self, now):
        before = {v.name: len(v.queues["rcs0"]) for v in self.vgpus}
        super().arrive(now)
        for v in self.vgpus:
            self.queued[v.name] += [now] * (len(v.queues["rcs0"]) - before[v.name])

    def dispatch(self, now):
        before = self.running.get("rcs0")
        super().dispatch(now)
        if self.running.get("rcs0") is not before:
            self.begun = now

    def complete(self, now):
        before = self.running.get("rcs0")
        super().complete(now)
        if before and "rcs0" not in self.running:
            name = before[0].name
            self.trace.gvt(name, self.queued[name].pop(0), self.begun, now)


def job(us, depth=1, think=0):
    return {"size_us": {"dist": "fixed", "value": us}, "depth": depth,
            "think_us": {"dist": "fixed", "value": think}}


def record(tmp_path, ms, **jobs):
    """What GVT-g makes of VMs that have been there for long."""
    trace = Trace(tmp_path)
    Recorder(trace, {"duration_ms": ms, "vms": [
        {"name": name, "start_priority": False, "jobs": list(own)}
        for name, own in jobs.items()]}).run()
    trace.end(ms * 1000)
    return trace.write()


def propose(*args):
    done = run(*args, "--propose", "-o", "json")
    docs = json.loads(done.stdout)
    for doc in docs:
        check(doc)
    return docs


def check(doc):
    assert set(doc) == {"device", "platform", "duration_ns", "present", "candidates", "why",
                        "notes"}
    present = doc["present"]
    assert set(present) == {"mode", "parameters", "measured", "simulated", "error"}
    for one in present["measured"] + present["simulated"]:
        assert set(one) == FIGURES | {"name"}
    names = [one["name"] for one in present["measured"]]
    assert sum(c["proposed"] for c in doc["candidates"]) <= 1
    for candidate in doc["candidates"]:
        assert set(candidate) == {"mode", "parameters", "price", "vms", "gain_wait_ns_per_s",
                                  "worst_vm", "worst_p95_change_ns", "proposed", "reason"}
        assert [vm["name"] for vm in candidate["vms"]] == names
        assert candidate["reason"] and doc["why"]
        gain = 0
        for vm, simulated in zip(candidate["vms"], present["simulated"]):
            assert set(vm["now"]) == set(vm["then"]) == FIGURES
            assert vm["now"] == {key: simulated[key] for key in FIGURES}
            gain += vm["now"]["wait_ns_per_s"] - vm["then"]["wait_ns_per_s"]
        assert candidate["gain_wait_ns_per_s"] == gain


def proposed(doc):
    return next((c for c in doc["candidates"] if c["proposed"]), None)


# ---- streams ----

def test_the_stream_of_a_recording(tmp_path):
    trace = Trace(tmp_path)
    trace.gvt("alpha", 0, 0, 10_000)            # closed: 5 ms after the end
    trace.gvt("beta", 2_000, 10_000, 20_000)
    trace.gvt("alpha", 15_000, 20_000, 30_000)
    trace.gvt("alpha", 31_000, 31_000, 33_000, engine=2)
    trace.end(40_000)
    doc, = propose(*trace.write())
    assert (doc["device"], doc["platform"], doc["present"]["mode"]) == ("card0", "gvt-g", "gvtg")
    assert doc["duration_ns"] == 40_000_000
    alpha, beta = doc["present"]["measured"]
    assert (alpha["name"], alpha["requests"], alpha["wait_ns_per_s"]) == ("alpha", 3, 125_000_000)
    assert (alpha["latency_p50_ns"], alpha["latency_p95_ns"]) == (10_000_000, 15_000_000)
    assert alpha["latency_mean_ns"] == 9_000_000 and alpha["share"] == pytest.approx(22 / 40)
    assert (beta["name"], beta["requests"], beta["latency_mean_ns"]) == ("beta", 1, 18_000_000)
    assert doc["present"]["error"] is None and "the minimum for a comparison" in doc["why"]

    one = json.loads(run(*trace.write(), "--mode", "weighted", "-o", "json").stdout)
    assert one["mode"] == "weighted" and one["duration_ns"] == 40_000_000
    engines = {g["engine"]: g for g in one["vms"][0]["gpu"]}
    assert set(engines) == {"rcs0", "vcs0"} and engines["rcs0"]["device"] == "card0"


def test_every_way_to_run_it(tmp_path):
    args = record(tmp_path, 600, alpha=[job(7000)], beta=[job(3000, 2)])
    assert json.loads(run(*args, "-o", "json").stdout)["mode"] == "gvtg"
    docs = json.loads(run(*args, "--compare", "-o", "json").stdout)
    assert len(docs) == 8 and all(len(d["vms"]) == 2 for d in docs)
    assert docs[0] == json.loads(run(*args, "--mode", "gvtg", "-o", "json").stdout)
    part = json.loads(run(*args, "--begin", 100_200_000_000, "-o", "json").stdout)
    assert part["duration_ns"] == 400_000_000
    packed = tmp_path / "trace.txt.gz"
    packed.write_bytes(gzip.compress(args[0].read_bytes()))
    assert run(packed, *args[1:], "-o", "json").stdout == run(*args, "-o", "json").stdout
    table = run(*args, "--propose").stdout
    assert "MODEL ERROR %" in table and "SIMULATED /s" in table and "needs-recreate" in table
    rows = list(csv.DictReader(io.StringIO(run(*args, "--propose", "-o", "csv").stdout)))
    assert {row["mode"] for row in rows} == {"gvtg", "no-carry", "work-conserving"}


def test_requests_of_the_host_are_left_out_of_gvtg(tmp_path):
    trace = Trace(tmp_path)
    for i in range(40):
        trace.gvt("alpha", i * 10_000, i * 10_000, i * 10_000 + 6_000)
        trace.i915("Xorg", 77, 70, i * 10_000 + 6_000, i * 10_000 + 6_000, i * 10_000 + 8_000,
                   seqno=1000 + i)
    trace.end(400_000)
    args = trace.write()
    doc, = propose(*args)
    assert [vm["name"] for vm in doc["present"]["measured"]] == ["alpha"]
    assert any("40 requests of the host itself (20.0 %" in note for note in doc["notes"])
    assert "of the host itself" in run(*args).stderr
    doc, = propose(*args, "--platform", "xe-sriov")
    assert [vm["name"] for vm in doc["present"]["measured"]] == ["alpha", "(host)"]


# ---- proposals ----

def test_equal_demand(tmp_path):
    """Two that ask for the same get the same: nothing is better. The model is right."""
    doc, = propose(*record(tmp_path, 2500, alpha=[job(4000)], beta=[job(4000)]))
    assert doc["present"]["error"] < 0.03
    assert not proposed(doc) and doc["why"].startswith("no mode that the platform offers")


def test_idle_neighbour(tmp_path):
    """Recorded with a neighbour that does nothing and is not in the recording: half of the GPU."""
    args = record(tmp_path, 3000, alpha=[job(5000)], beta=[])
    doc, = propose(*args)
    assert not proposed(doc) and "does not fit the recording" in doc["why"]  # alone, it is not

    doc, = propose(*args, "--weight", "beta=4")
    assert doc["present"]["error"] < 0.05
    conserving = next(c for c in doc["candidates"] if c["mode"] == "work-conserving")
    assert conserving["price"] == "not-offered"
    then, now = conserving["vms"][0]["then"], conserving["vms"][0]["now"]
    assert then["requests_per_s"] == pytest.approx(2 * now["requests_per_s"], rel=0.05)
    best = proposed(doc)
    assert best["price"] == "needs-recreate" and best["mode"] == "gvtg"
    assert [(vm["name"], vm["weight"]) for vm in best["parameters"]["vms"]] == [
        ("alpha", 8), ("beta", 2)]

    config = tmp_path / "conf"
    config.write_text("[gpu-mode]\nmin_gain_disruptive=0.9\n")
    doc, = propose(*args, "--weight", "beta=4", "--config", config)
    assert not proposed(doc)


def test_quanta(tmp_path):
    """A batch that never pauses long, and a desktop: turns unlimited turns against short ones."""
    trace = Trace(tmp_path)
    now, queued = 0, 0
    while now < 2_000_000:
        trace.gvt("beta", queued, now, now + 60_000)
        desktop = now + 20_000
        queued = now + 60_000 + 500
        trace.gvt("alpha", desktop, now + 60_000, now + 62_000)
        now += 62_000
    trace.end(now)
    args = trace.write()
    doc, = propose(*args, "--platform", "xe-sriov")
    assert doc["present"]["mode"] == "quantum"
    assert [vm["quantum_ns"] for vm in doc["present"]["parameters"]["vms"]] == [0, 0]
    best = proposed(doc)
    assert best["price"] == "live" and best["mode"] == "quantum"
    alpha = next(vm for vm in best["vms"] if vm["name"] == "alpha")
    assert alpha["then"]["latency_p95_ns"] < alpha["now"]["latency_p95_ns"] / 3
    doc, = propose(*args, "--platform", "xe-sriov", "--timeslice", "2")
    assert {vm["quantum_ns"] for vm in doc["present"]["parameters"]["vms"]} == {2_000_000}
    assert not proposed(doc) and "does not fit" in doc["why"]
    doc, = propose(*args, "--platform", "unknown")
    assert {c["price"] for c in doc["candidates"]} == {"not-offered"} and not proposed(doc)


def test_several_gpus(tmp_path):
    trace = Trace(tmp_path)
    for i in range(40):
        trace.gvt("alpha", i * 10_000, i * 10_000, i * 10_000 + 6_000)
        trace.gvt("beta", i * 10_000, i * 10_000, i * 10_000 + 3_000, device=1)
    trace.end(400_000)
    args = trace.write()
    assert [d["device"] for d in propose(*args)] == ["card0", "card1"]
    assert [d["device"] for d in propose(*args, "--device", "card1")] == ["card1"]
    assert "--device" in run(*args, "--mode", "gvtg", code=1).stderr
    assert "--device" in run(*args, "--propose", "--weight", "gamma=4", code=1).stderr
    assert "card7" in run(*args, "--propose", "--device", "card7", code=3).stderr
    doc = json.loads(run(*args, "--device", "card1", "-o", "json").stdout)
    assert doc["vms"][0]["gpu"][0]["device"] == "card1"


def test_a_scenario(tmp_path):
    scenario = tmp_path / "s.json"
    scenario.write_text(json.dumps({"duration_ms": 3000, "mode": "quantum",
                                    "params": {"preemptible": True}, "vms": [
                                        {"name": "batch", "quantum_us": 0,
                                         "jobs": [job(80000, think=1000)]},
                                        {"name": "desktop", "quantum_us": 0,
                                         "jobs": [job(2000, think=14000)]}]}))
    doc, = propose(scenario)
    assert doc["present"]["measured"] == doc["present"]["simulated"]
    assert doc["present"]["error"] == 0 and doc["platform"] == "xe-sriov"
    assert proposed(doc)["price"] == "live"
    doc, = propose(scenario, "--platform", "amd-gim", "--present", "gvtg", "--weight", "batch=8")
    assert doc["present"]["mode"] == "gvtg"
    assert doc["present"]["parameters"]["vms"][0] == {"name": "batch", "weight": 8}


# ---- the command ----

@pytest.mark.parametrize("args, code, says", [
    (["TRACE", "--seed", "1"], 2, "no random numbers"),
    (["TRACE", "--propose", "--compare"], 2, "--compare"),
    (["TRACE", "--propose", "--mode", "gvtg"], 2, "--mode"),
    (["TRACE", "--propose", "--platform", "voodoo"], 2, "platform 'voodoo' does not exist"),
    (["TRACE", "--propose", "--present", "fair"], 2, "mode 'fair' does not exist"),
    (["TRACE", "--timeslice", "0.01"], 2, "--timeslice must be"),
    (["TRACE", "--timeslice", "x"], 2, "--timeslice must be"),
    (["TRACE", "--timeslice", "0"], 1, "unlimited turns"),
    (["TRACE", "--weight", "alpha=0"], 1, "--weight must be VM=N"),
    (["TRACE", "--weight", "alpha"], 1, "--weight must be VM=N"),
    (["-", "--device", "card0"], 2, "apply to recordings"),
    (["-", "--begin", "1"], 2, "apply to recordings"),
    (["-", "--present", "gvtg"], 2, "--present needs --propose"),
])
def test_wrong_usage(tmp_path, args, code, says):
    trace = Trace(tmp_path)
    trace.gvt("alpha", 0, 0, 10_000)
    trace.end(20_000)
    path = trace.write()[0]
    done = run(*[path if arg == "TRACE" else arg for arg in args], code=code, stdin="{}")
    assert says in done.stderr and done.stdout == ""


def test_no_requests(tmp_path):
    trace = Trace(tmp_path)
    trace.end(0)
    trace.end(20_000)
    assert "no GPU request" in run(*trace.write(), "--propose", code=3).stderr


def test_no_such_trace(tmp_path):
    done = run(tmp_path / "gone", "--vm-map", tmp_path / "map", "--propose", code=3)
    assert "gone" in done.stderr


def test_a_weight_of_nobody_in_a_scenario(tmp_path):
    scenario = tmp_path / "s.json"
    scenario.write_text('{"vms": [{"name": "a", "jobs": []}]}')
    done = run(scenario, "--propose", "--weight", "b=2", code=3)
    assert "unknown VM 'b'" in done.stderr
