# SPDX-License-Identifier: Apache-2.0
"""One recording of this machine by perf, as `perf data convert` and as `perf script` write it: the figures are equal.
Two processes play VMs, each with a thread for a vCPU that computes and sleeps."""
import json
import os
import shutil
import subprocess
import sys

import pytest

import vgpuctl
from settings import HANG_S

EVENTS = ",".join(f"sched:{name}" for name in (
    "sched_switch", "sched_wakeup", "sched_wakeup_new", "sched_waking", "sched_process_exit", "sched_process_fork",
    "sched_migrate_task"))
PLAY = """
import threading, time
def vcpu():
    open(f"/proc/self/task/{threading.get_native_id()}/comm", "w").write("CPU 0/KVM")
    print(threading.get_native_id(), flush=True)
    for _ in range(100):
        until = time.monotonic() + 0.004
        while time.monotonic() < until:
            pass
        time.sleep(0.001)
open("/proc/self/comm", "w").write("qemu-system-x86")
input()
thread = threading.Thread(target=vcpu)
thread.start()
thread.join()
"""
SIDE_BAND = ("--show-task-events", "--show-mmap-events", "--show-switch-events")
MISC = ("-F", "comm,pid,tid,cpu,time,event,trace,misc")


@pytest.fixture(scope="module")
def recording(tmp_path_factory):
    """The directory, with the file of perf, the CTF trace, and a map of the VMs by process and by thread."""
    if not shutil.which("perf"):
        pytest.skip("perf is not installed")
    directory = tmp_path_factory.mktemp("perf")
    data = directory / "perf.data"
    plays = [subprocess.Popen([sys.executable, "-c", PLAY], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
             for _ in range(2)]
    try:
        # perf ends with the last program that plays a VM.
        perf = subprocess.Popen(["perf", "record", "-q", "-a", "-g", "--switch-events", "-k", "mono", "-m", "8M", "-e",
                                 EVENTS, "-o", data, "sh", "-c", "echo ready; read -r line"], stdin=subprocess.PIPE,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        if perf.stdout.readline() != "ready\n":
            pytest.skip(f"perf cannot record here: {perf.stderr.read().strip()[-200:]}")
        for play in plays:
            play.stdin.write("\n")
            play.stdin.flush()
        tids = [int(play.stdout.readline()) for play in plays]
        assert [play.wait(HANG_S) for play in plays] == [0, 0]
        perf.communicate("\n", timeout=HANG_S)
    finally:
        for play in plays:
            play.kill()
            play.wait()
    names = ("alpha", "beta")
    with open(directory / "pids", "w", encoding="utf-8") as file:
        file.writelines(f"{play.pid} {name}\n" for play, name in zip(plays, names))
    with open(directory / "tids", "w", encoding="utf-8") as file:
        file.writelines(f"{play.pid} {name}\n{tid} {name}\n" for play, tid, name in zip(plays, tids, names))
    done = subprocess.run(["perf", "data", "convert", "--to-ctf", directory / "ctf", "-i", data], capture_output=True,
                          text=True, timeout=HANG_S, check=False)
    if not os.path.isdir(directory / "ctf"):
        pytest.skip(f"this perf cannot write CTF: {done.stderr.strip()[-200:]}")
    return directory


def figures(trace, names, names_differ):
    done = subprocess.run([vgpuctl.program(), "analyze", str(trace), "--vm-map", str(names), "-o", "json"],
                          capture_output=True, text=True, timeout=HANG_S, check=False)
    assert done.returncode == 0, done.stderr
    # The machine may run VMs of its own.
    vms = [vm for vm in json.loads(done.stdout)["vms"] if vm["name"] in ("alpha", "beta")]
    assert [vm["name"] for vm in vms] == ["alpha", "beta"]
    assert all(vm["run_ns"] > 0 for vm in vms), vms
    # Text without process IDs has a thread's as that of the VM, and counts QEMUs that the map does not list as programs
    # of the host; the side band names QEMUs that start meanwhile. Then only the sum of what was lost can be equal.
    for vm in vms if names_differ else []:
        vm["lost_to"] = sum(lost["ns"] for lost in vm["lost_to"])
    return [{key: value for key, value in vm.items() if key != "pid"} for vm in vms]


@pytest.mark.parametrize("options, names", [
    ((), "tids"), (("-G",), "tids"), (("-F", "+misc"), "tids"), (MISC, "pids"), (SIDE_BAND, "pids")],
    ids=["plain", "no-chains", "misc", "misc-pids", "side-band"])
def test_perf_script(recording, options, names):
    text = recording / "script.txt"
    with open(text, "wb") as file:
        subprocess.run(["perf", "script", "--ns", *options, "-i", recording / "perf.data"], stdout=file,
                       stderr=subprocess.DEVNULL, timeout=HANG_S, check=True)
    names_differ = names == "tids" or options == SIDE_BAND
    got = figures(text, recording / names, names_differ)
    want = figures(recording / "ctf", recording / "pids", names_differ)
    assert [(key, vm[key], other[key]) for vm, other in zip(got, want, strict=True) for key in vm
            if vm[key] != other[key]] == []


def test_microseconds(recording):
    """Without --ns, times are rounded: sums differ by less than 0.1 %."""
    text = recording / "microseconds.txt"
    with open(text, "wb") as file:
        subprocess.run(["perf", "script", "-i", recording / "perf.data"], stdout=file, stderr=subprocess.DEVNULL,
                       timeout=HANG_S, check=True)
    for got, want in zip(figures(text, recording / "tids", True), figures(recording / "ctf", recording / "pids", True),
                         strict=True):
        for key in ("run_ns", "wake_wait_ns", "blocked_ns", "observed_ns"):
            assert abs(got[key] - want[key]) <= max(want[key] / 1000, 1000 * want["switches_out"]), (key, got, want)
        for key in ("preemptions", "wakeups", "blocks"):
            assert got[key] == want[key], key
