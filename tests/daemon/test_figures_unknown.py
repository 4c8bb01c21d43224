# SPDX-License-Identifier: Apache-2.0
"""A replay of a recording without sched_wakeup: answers keep their numbers, and name those that nobody knows."""
from vgpud import Daemon

TURNS = [(0, 77, "S", 5010), (400, 5010, "R", 77), (500, 77, "S", 5010), (800, 5010, "S", 0), (2500, 0, "R", 77)]
UNKNOWN = {"wake_wait_ns", "wakeups", "blocked_ns"}
BOUNDS = {"observed_ns", "cpu_intensity", "lost_to"}


def text():
    names = {0: "swapper/0", 77: "cc1", 5010: "CPU 0/KVM"}
    return "".join(
        f"{names[p]:>16} {5000 if p == 5010 else p}/{p} [000] {100 + ms // 1000}.{ms % 1000:03d}000000: "
        f"sched:sched_switch: prev_comm={names[p]} prev_pid={p} prev_prio=120 prev_state={state} ==> "
        f"next_comm={names[n]} next_pid={n} next_prio=120\n" for ms, p, state, n in TURNS)


def test_answers(tmp_path):
    (tmp_path / "t").write_text(text())
    with Daemon(tmp_path, "--speed", "max", replay=tmp_path / "t") as daemon:
        daemon.replayed()
        [vm] = daemon.get("/v1/vms")["items"]
        assert (vm["run_ns"], vm["wake_wait_ns"]) == (700_000_000, 0)
        for answer in (vm, vm["newest"]):
            assert UNKNOWN | {"rates.wake_wait_share"} <= set(answer["unknown"]) and BOUNDS <= set(answer["bounds"])
        [host] = daemon.get("/v1/snapshot")["hosts"]
        assert host["vms"][0]["unknown"] == ["class", "wake_wait_share"]
        metrics = str(daemon.request("GET", "/metrics"))
        assert "vgpud_vm_run_seconds_total{" in metrics and "vgpud_vm_wake_wait_seconds_total{" not in metrics
        samples = daemon.get(f"/v1/vms/{vm['id']}/samples?since=0")["items"]
        assert samples and all(UNKNOWN <= set(s["unknown"]) and BOUNDS <= set(s["bounds"]) for s in samples)
