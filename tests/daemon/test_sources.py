# SPDX-License-Identifier: Apache-2.0
"""The sources of live figures on this host, against what /proc counts of the same threads.

Threads that look like vCPUs share one CPU, so that all kinds of time occur. They are not KVM's:
guests are another test's business.
"""
import glob
import json
import os
import subprocess
import threading
import time

import pytest

from hypervisor import stolen_ns

BUILD = os.path.abspath(os.environ.get("VG_BUILDDIR", "build"))
DUMP = os.path.join(BUILD, "tests", "tools", "collector-dump")
FAKE_VMS = os.path.join(BUILD, "tests", "tools", "fake-vms")
SECONDS = 5
# Of the time: the kernel's own counters differ by less from one reading to the next.
TOLERANCE = 0.02
# A window that is heard of later than this says nothing about counters that are read then.
LATE_NS = 20_000_000

pytestmark = pytest.mark.host


def missing():
    if os.geteuid() != 0:
        return "only root may look at all of the host"
    if not glob.glob("/sys/kernel/tracing/events/sched/sched_switch/format"):
        return "tracefs is not mounted in /sys/kernel/tracing"
    # PROC_PID_INIT_INO of the kernel.
    if os.stat("/proc/self/ns/pid").st_ino != 0xEFFFFFFC:
        return "a pid namespace of its own, where threads have other numbers than in the kernel"
    return None


def schedstat(tid):
    with open(f"/proc/{tid}/schedstat", encoding="ascii") as file:
        run_ns, wait_ns, _ = file.read().split()
    return int(run_ns), int(wait_ns)


class Load:
    """Processes that look like VMs, on one CPU: two that share it, two with pauses, one idle."""

    def __init__(self, cpu):
        self.cpu = cpu

        def pin():
            os.sched_setaffinity(0, {cpu})
        self.parents = [subprocess.Popen([FAKE_VMS, *args], preexec_fn=pin)
                        for args in (["2", "2", "100"], ["3", "2", "20"])]
        self.vcpus = {}
        until = time.monotonic() + 20
        while len(self.vcpus) < 5 and time.monotonic() < until:
            self.vcpus = dict(self.look())
            time.sleep(0.05)
        assert len(self.vcpus) == 5

    def look(self):
        """pid -> tid of the vCPU."""
        for parent in self.parents:
            with open(f"/proc/{parent.pid}/task/{parent.pid}/children", encoding="ascii") as file:
                for pid in file.read().split():
                    for path in glob.glob(f"/proc/{pid}/task/*/comm"):
                        with open(path, encoding="utf-8") as comm:
                            if comm.read().startswith("CPU "):
                                yield int(pid), int(path.split("/")[4])

    def counters(self):
        return {pid: schedstat(tid) for pid, tid in self.vcpus.items()}

    def stop(self):
        for parent in self.parents:
            parent.terminate()
            parent.wait()


@pytest.fixture(name="load", params=sorted(os.sched_getaffinity(0))[:2])
def fixture_load(request):
    if missing():
        pytest.skip(missing())
    load = Load(request.param)
    yield load
    load.stop()


def measure(source, load):
    """Windows one after the other, the counters at the begin of the first and the end of the last
    one, and how far these are apart."""
    dump = subprocess.Popen([DUMP, "-i", "0.5", source], stdin=subprocess.PIPE,
                            stdout=subprocess.PIPE, text=True)
    watchdog = threading.Timer(60, dump.kill)
    watchdog.start()
    begin, windows = None, []
    try:
        for line in dump.stdout:
            report = json.loads(line)
            if report["kind"] == "status":
                if report["state"] == "failed" and "CAP_" in report["text"]:
                    pytest.skip(report["text"])
                assert report["state"] != "failed", report["text"]
            if report["kind"] != "window":
                continue
            counters = load.counters()
            late = time.clock_gettime_ns(time.CLOCK_MONOTONIC) - report["end_ns"] > LATE_NS
            windows.append(report)
            # The first one may be in the middle of a thread's first look.
            if begin is None and len(windows) >= 2 and not late:
                begin, windows = counters, []
            elif begin and not late and \
                    windows[-1]["end_ns"] - windows[0]["begin_ns"] >= SECONDS * 1e9:
                return windows, begin, counters
    finally:
        watchdog.cancel()
        dump.stdin.close()
        dump.wait()
        dump.stdout.close()
    raise AssertionError("windows ended, or came late all the time")


@pytest.mark.parametrize("source", ["bpf", "perf"])
def test_times_are_those_of_proc(source, load):
    stolen = stolen_ns(load.cpu)
    windows, begin, end = measure(source, load)
    stolen = stolen_ns(load.cpu) - stolen
    time_ns = windows[-1]["end_ns"] - windows[0]["begin_ns"]
    for before, after in zip(windows, windows[1:]):
        assert before["end_ns"] == after["begin_ns"]
    ran = 0
    for pid, tid in load.vcpus.items():
        figures = [vm for window in windows for vm in window["vms"] if vm["pid"] == pid]
        # Also the one that sleeps all the time is in each window, by one name.
        assert len(figures) == len(windows)
        assert len({(vm["id"], vm["name"], vm["uuid"]) for vm in figures}) == 1
        assert {vcpu["tid"] for vm in figures for vcpu in vm["vcpus"]} == {tid}
        total = {key: sum(vm[key] for vm in figures)
                 for key in ("observed_ns", "run_ns", "preempt_ns", "wake_wait_ns", "blocked_ns")}
        assert total["observed_ns"] == pytest.approx(time_ns, rel=TOLERANCE)
        wait_ns = total["preempt_ns"] + total["wake_wait_ns"]
        assert total["run_ns"] + wait_ns + total["blocked_ns"] == total["observed_ns"]
        run_of_proc, wait_of_proc = (b - a for a, b in zip(begin[pid], end[pid]))
        off_ns = TOLERANCE * time_ns
        assert -off_ns <= total["run_ns"] - run_of_proc <= off_ns + stolen
        assert wait_ns == pytest.approx(wait_of_proc, abs=TOLERANCE * time_ns)
        lost = [(loss["kind"], loss["ns"]) for vm in figures for loss in vm["lost_to"]]
        assert sum(ns for _, ns in lost) == wait_ns
        if run_of_proc > 0:
            ran += 1
            assert wait_ns > 0
            # There are three others on the same CPU.
            assert sum(ns for kind, ns in lost if kind == "vm") > 0.2 * wait_ns
    assert ran == 4


class LoadOfHelper(Load):
    """A VM whose vCPU never sleeps, and on the same CPU the child of another VM, which is idle itself."""

    def __init__(self, cpu):  # pylint: disable=super-init-not-called
        self.cpu = cpu
        self.parents = [subprocess.Popen([FAKE_VMS, "2", "1", "100", "helpers"],
                                         preexec_fn=lambda: os.sched_setaffinity(0, {cpu}))]
        self.vcpus, self.helpers = {}, []
        until = time.monotonic() + 20
        while (len(self.vcpus) < 2 or not self.helpers) and time.monotonic() < until:
            self.vcpus = dict(self.look())
            self.helpers = [child for pid in self.vcpus for child in self.children(pid)]
            time.sleep(0.05)
        assert len(self.vcpus) == 2 and len(self.helpers) == 1

    @staticmethod
    def children(pid):
        with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
            return [int(child) for child in file.read().split()]

    def counters(self):
        return {pid: schedstat(pid) for pid in self.helpers}


@pytest.mark.parametrize("source", ["bpf", "perf"])
def test_what_a_vm_started_is_that_vm(source):
    if missing():
        pytest.skip(missing())
    load = LoadOfHelper(min(os.sched_getaffinity(0)))
    try:
        stolen = stolen_ns(load.cpu)
        windows, begin, end = measure(source, load)
        stolen = stolen_ns(load.cpu) - stolen
    finally:
        load.stop()
    helper, = load.helpers
    ran_ns = end[helper][0] - begin[helper][0]
    lost = [loss for window in windows for vm in window["vms"] if vm["pid"] in load.vcpus
            for loss in vm["lost_to"] if loss["kind"] == "vm"]
    off_ns = TOLERANCE * (windows[-1]["end_ns"] - windows[0]["begin_ns"])
    assert -off_ns <= sum(loss["ns"] for loss in lost) - ran_ns <= off_ns + stolen
    assert not any(process["pid"] == helper for window in windows for vm in window["vms"]
                   for process in vm.get("lost_processes", []))


@pytest.mark.parametrize("source", ["bpf", "perf"])
def test_vms_come_and_go(source):
    if missing():
        pytest.skip(missing())
    dump = subprocess.Popen([DUMP, "-i", "0.2", source], stdin=subprocess.PIPE,
                            stdout=subprocess.PIPE, text=True)
    watchdog = threading.Timer(60, dump.kill)
    watchdog.start()

    def wait(matches):
        for line in dump.stdout:
            report = json.loads(line)
            if report["kind"] == "status" and report["state"] == "failed":
                if "CAP_" in report["text"]:
                    pytest.skip(report["text"])
                raise AssertionError(report["text"])
            if report["kind"] == "window" and matches(report):
                return report
        raise AssertionError("the windows ended")

    try:
        ids = set()
        for _ in range(3):
            load = Load(min(os.sched_getaffinity(0)))
            pids = set(load.vcpus)
            window = wait(lambda w, p=pids: p <= {vm["pid"] for vm in w["vms"]})
            new = {vm["id"] for vm in window["vms"] if vm["pid"] in pids}
            assert len(new) == 5 and not new & ids
            ids |= new
            load.stop()
            # What they did at last is told, then they are gone.
            wait(lambda w, p=pids: not p & {vm["pid"] for vm in w["vms"]})
    finally:
        watchdog.cancel()
        dump.stdin.close()
        dump.wait()
        dump.stdout.close()
