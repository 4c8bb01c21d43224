# SPDX-License-Identifier: Apache-2.0
"""GPUs and their requests as a replay of a simulated trace has them, against `vgpuctl analyze` of the
same trace."""
import json
import shutil
import subprocess
import urllib.parse

import pytest
import vgpuctl
from settings import HANG_S, full, is_instrumented, sample
from vgpud import Daemon, program, wait_for

SCENARIO = {
    "duration_ms": 2500, "engines": ["rcs0", "vcs0"],
    "vms": [{"name": "a", "start_priority": False, "jobs": [
                {"size_us": {"dist": "exponential", "mean": 2000}, "depth": 3},
                {"engine": "vcs0", "size_us": {"dist": "fixed", "value": 700}}]},
            {"name": "b b/%", "start_priority": False, "jobs": [
                {"loop": "open", "size_us": {"dist": "uniform", "min": 10, "max": 4000},
                 "interarrival_us": {"dist": "exponential", "mean": 5000}}]}]}
GPU = "/v1/gpus/card0"
REQUESTS_MAX = 65536
# What windows count of open requests, too.
OF_OPEN = ("wait_ns", "vgpu_queue_ns", "dependency_ns", "driver_queue_ns", "queue_len_avg", "queue_len_max")
SUMS = ("requests", "busy_ns", "exec_ns", "wait_ns")


def simulate(tmp_path, scenario):
    trace = tmp_path / "trace"
    subprocess.run([vgpuctl.program(), "simulate", "-", "--trace-out", str(trace)],
                   input=json.dumps(scenario), capture_output=True, text=True, timeout=HANG_S,
                   check=True)
    return trace


def replay(tmp_path, trace, window, *args):
    return Daemon(tmp_path, *(args or ("--speed", "max")), replay=trace,
                  config=f"[daemon]\nwindow={window}\n")


def pages(daemon, limit, query="", since=None):
    """All requests, page after page, and the last answer."""
    got, answer = [], None
    while answer is None or answer["more"]:
        after = "" if since is None else f"&since={since}"
        answer = daemon.get(f"{GPU}/requests?limit={limit}{query}{after}")
        assert len(answer["items"]) <= limit
        got += answer["items"]
        since = answer["next_since"]
    return got, answer


def identity(request):
    return request["engine"], request["context"], request["seqno"]


def check_each_once(requests, doc):
    """They are those that the analysis has counted."""
    assert len({identity(r) for r in requests}) == len(requests)
    moments = [r["at_ns"] for r in requests]
    assert moments == sorted(set(moments))
    for vm in doc["vms"]:
        for gpu in vm["gpu"]:
            mine = [r for r in requests
                    if r["engine"] == gpu["engine"] and r["vm"]["name"] == vm["name"]]
            assert len(mine) == gpu["requests"], (vm["name"], gpu["engine"])
            latencies = [r["end_ns"] - r["queued_ns"] for r in mine if r["queued_ns"] is not None]
            assert max(latencies) == gpu["latency_max_ns"]
            assert sum(r["exec_ns"] for r in mine) <= gpu["exec_ns"]
            for request in mine:
                told = [request[k] for k in ("queued_ns", "submitted_ns", "ready_ns", "run_ns",
                                             "end_ns") if request[k] is not None]
                assert told == sorted(told) and request["pid"] == vm["pid"], request
    assert len(requests) == sum(gpu["requests"] for gpu in doc["gpus"])


def check_sums(got, want):
    """Both are equal, but for the waits of open requests: windows count these, since nothing shows yet that they are."""
    assert {k: got[k] for k in SUMS if k != "wait_ns"} == {k: want[k] for k in SUMS if k != "wait_ns"}
    assert 0 <= got["wait_ns"] - want["wait_ns"] <= want["open"] * want["open_oldest_ns"]
    assert want["open"] > 0 or got["wait_ns"] == want["wait_ns"]


def test_one_window_has_the_figures_of_analyze(tmp_path):
    trace = simulate(tmp_path, SCENARIO)
    doc = vgpuctl.analyze(trace).doc()
    with replay(tmp_path, trace, "60s") as daemon:
        daemon.replayed()
        gpus = daemon.get("/v1/gpus")
        assert [g["id"] for g in gpus["items"]] == ["card0"] and gpus["next"] is None
        gpu = daemon.get(GPU)
        assert gpu == gpus["items"][0]
        assert gpu["engines"] == gpu["newest"]["engines"]
        for got, want in zip(gpu["engines"], doc["gpus"], strict=True):
            check_sums(got, want)
            assert {k: v for k, v in got.items() if k not in OF_OPEN} == {k: v for k, v in want.items() if k not in OF_OPEN}
        assert gpu["source"] == daemon.get("/v1/host")["measurement"]["source"]
        assert gpu["inventory"] is None and gpu["processes"] == []
        of_vms = {(row["vm"]["name"], row["engine"]): row for row in gpu["vms"]}
        for vm in doc["vms"]:
            used = daemon.get(f"/v1/vms/{urllib.parse.quote(vm['name'], safe='')}/gpu")
            assert used["gpu"] == used["newest"]["gpu"]
            assert vm["gpu_intensity"] <= used["gpu_intensity"] <= 1 and used["gpu_known"] is True
            for row in vm["gpu"]:
                known = of_vms.pop((vm["name"], row["engine"]))
                check_sums(known, row)
                assert known["share"] == row["share"]
        assert not of_vms
        check_each_once(pages(daemon, 100)[0], doc)


@pytest.mark.parametrize("window", sample("windows of requests", ["100ms", "170ms", "1s"], 1))
def test_windows_have_each_request_once(tmp_path, window):
    trace = simulate(tmp_path, SCENARIO)
    doc = vgpuctl.analyze(trace).doc()
    with replay(tmp_path, trace, window) as daemon:
        daemon.replayed()
        for got, want in zip(daemon.get(GPU)["engines"], doc["gpus"]):
            assert got["engine"] == want["engine"]
            check_sums(got, want)
        for limit in (7, 10000):
            requests, last = pages(daemon, limit)
            check_each_once(requests, doc)
            assert last["next_since"] == last["newest_ns"] == doc["trace"]["end_ns"]
            assert (last["oldest_ns"], last["left_out"]) == (0, 0)
        # The past of the host has how many waited on average.
        steps = [s for s in daemon.get("/v1/host/history?since=-1h&step=10s")["items"] if not s["gap"]]
        assert sum(s["gpu_wait_share"] * s["measured_ns"] for s in steps) == pytest.approx(
            sum(row["wait_ns"] for row in daemon.get(GPU)["vms"]), rel=1e-4)
        # Two parts are the whole, and a VM's are its own.
        half = doc["trace"]["end_ns"] // 2
        before, _ = pages(daemon, 100, f"&until={half}")
        after, _ = pages(daemon, 100, since=half)
        assert before + after == requests
        assert pages(daemon, 3, "&vm=a")[0] == [r for r in requests if r["vm"]["name"] == "a"]
        daemon.get(f"{GPU}/requests?vm=nobody", 404)
        daemon.get("/v1/gpus/card1/requests", 404)


def test_who_asks_again_gets_each_request_once(tmp_path):
    """While the replay goes on."""
    trace = simulate(tmp_path, SCENARIO)
    with replay(tmp_path, trace, "100ms", "--speed", "2") as daemon:
        wait_for(lambda: daemon.get("/v1/gpus")["items"])
        got, since, ended = [], 0, False
        while True:
            answer = daemon.get(f"{GPU}/requests?limit=50&since={since}")
            assert answer["next_since"] >= since
            got += answer["items"]
            since = answer["next_since"]
            if ended and not answer["more"]:
                break
            ended = ended or daemon.get("/v1/host")["daemon"]["replay_ended"]
        check_each_once(got, vgpuctl.analyze(trace).doc())


def test_what_a_window_has_no_room_for_is_told(tmp_path):
    busy = {"size_us": {"dist": "fixed", "value": 100}, "depth": 2}
    trace = simulate(tmp_path, {"duration_ms": 1500, "mode": "weighted", "vms": [
        {"name": "a", "jobs": [busy]}]})
    done = vgpuctl.analyze(trace).doc()["gpus"][0]["requests"]
    with replay(tmp_path, trace, "1s") as daemon:
        daemon.replayed()
        whole = daemon.get(f"{GPU}/requests?limit=10000")
        # Of 10000 about a fourth, of 5000 about a half: what is kept is from all of the windows.
        assert done == 15000 and 4400 < len(whole["items"]) < 5600
        assert whole["left_out"] == done - len(whole["items"])
        ends = [item["end_ns"] for item in whole["items"]]
        assert max(b - a for a, b in zip(ends, ends[1:])) <= 6_000_000
        for since in ends[::1000]:
            rest = daemon.get(f"{GPU}/requests?limit=10000&since={since}")
            # One ends each 100 us.
            assert rest["left_out"] + len(rest["items"]) == (1_500_000_000 - since) // 100_000
        left_out, since, more = 0, 0, True
        while more:
            page = daemon.get(f"{GPU}/requests?limit=1000&since={since}")
            left_out, since, more = left_out + page["left_out"], page["next_since"], page["more"]
        assert left_out == whole["left_out"]


@pytest.mark.drawn("long")
def test_memory_does_not_grow_with_requests(tmp_path):
    """A million of them; the newest are kept. Under a sanitizer memory says nothing."""
    seconds = 26 if full() else 7
    engines = ["rcs0", "vcs0"]
    jobs = [{"engine": e, "size_us": {"dist": "fixed", "value": 50}, "depth": 2} for e in engines]
    trace = simulate(tmp_path, {"duration_ms": seconds * 1000, "mode": "weighted", "engines": engines,
                                "vms": [{"name": "a", "jobs": jobs}]})
    with replay(tmp_path, trace, "100ms") as daemon:
        def rss(requests):
            """Once so many are done."""
            def look():
                metrics = dict(line.rsplit(" ", 1) for line in
                               daemon.request("GET", "/metrics")[2].decode().splitlines()
                               if line and line[0] != "#")
                done = sum(float(n) for key, n in metrics.items()
                           if key.startswith("vgpud_vm_gpu_requests_total{"))
                return done >= requests and float(metrics["process_resident_memory_bytes"])
            return wait_for(look, pause=0.1)
        early = rss(2 * REQUESTS_MAX)
        late = rss((seconds - 1) * 40000)
        if not is_instrumented(program()):
            assert late - early < 8 << 20 and late < 64 << 20, (early, late)
        wait_for(lambda: daemon.get("/v1/host")["daemon"]["replay_ended"])
        requests, last = pages(daemon, 10000)
        assert REQUESTS_MAX - 4096 < len(requests) <= REQUESTS_MAX
        assert last["left_out"] == 0 and requests[-1]["end_ns"] == seconds * 10**9
        assert requests[0]["at_ns"] > last["oldest_ns"] > (seconds - 2) * 10**9
        assert len({identity(r) for r in requests}) == len(requests)
    shutil.rmtree(trace)
