# SPDX-License-Identifier: Apache-2.0
"""vgpud measures this machine as it is, with BPF programs in its kernel: threads that look like vCPUs
to it are started, plugged, ended and doubled, and what it says is compared with what the kernel
says of them elsewhere."""
import json
import os
import re
import shutil
import subprocess
import time

import perftool
import pytest
import vgpuctl
from hypervisor import stolen_ns
from settings import HANG_S
from vgpud import BusyVm, Daemon, program, wait_for

# Programs in the kernel see all of this machine, and threads by their numbers on it.
pytestmark = pytest.mark.host
BUILD = os.environ.get("VG_BUILDDIR", os.path.join(vgpuctl.ROOT, "build"))
FAST = "[daemon]\nwindow=200ms\n[live]\nbudget=0\n"
LAST_PID = "/proc/sys/kernel/ns_last_pid"
NOBODY = ["setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups"]
CAPABLE = [*NOBODY, "--inh-caps=+bpf,+perfmon", "--ambient-caps=+bpf,+perfmon",
           "--bounding-set=-all,+bpf,+perfmon"]
RETRY_S = 30  # of collectors/live.c


def windows(daemon):
    return daemon.get("/v1/host")["measurement"]["windows"]


def wait_windows(daemon, more):
    """Until so many whole windows have passed."""
    end = windows(daemon) + more + 1
    return wait_for(lambda: windows(daemon) >= end)


def measured_by(daemon, name):
    return daemon.get("/v1/host")["measurement"]["source"] == name


@pytest.fixture(name="bpf", scope="module", autouse=True)
def bpf_fixture(tmp_path_factory):
    """Skips all of this where the kernel takes no BPF programs from us."""
    with Daemon(tmp_path_factory.mktemp("try"), config=FAST) as daemon:
        wait_windows(daemon, 1)
        if not measured_by(daemon, "bpf"):
            pytest.skip(f"no BPF here: {daemon.part('collector:live')['reason']}")


@pytest.fixture(name="daemon")
def daemon_fixture(tmp_path):
    with Daemon(tmp_path, config=FAST) as daemon:
        wait_windows(daemon, 1)
        yield daemon


class Guest:
    """A process that is told, line by line, which threads to have: `busy NAME`, `sleep NAME` (wakes
    up 20 times a second), `end` (the one that was started last)."""
    CODE = """
import ctypes, os, sys, threading, time
libc = ctypes.CDLL(None)
def run(name, busy, ended, started):
    libc.prctl(15, name.encode(), 0, 0, 0)
    started.append(threading.get_native_id())
    print(threading.get_native_id(), flush=True)
    while not ended:
        if not busy:
            time.sleep(0.05)
threads = []
for line in sys.stdin:
    how, _, name = line.strip().partition(" ")
    if how == "end":
        thread, ended = threads.pop()
        ended.append(1)
        thread.join()
        print(0, flush=True)
        continue
    ended = []
    thread = threading.Thread(target=run, args=(name, how == "busy", ended, []), daemon=True)
    threads.append((thread, ended))
    thread.start()
"""

    def __init__(self, name, *threads, cpu=None):
        self.name = name
        self.process = subprocess.Popen(
            ["/usr/bin/python3", "-c", self.CODE, "-name", f"guest={name},debug-threads=on"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            preexec_fn=None if cpu is None else lambda: os.sched_setaffinity(0, {cpu}))
        self.pid = self.process.pid
        self.tids = [self.do(thread) for thread in threads]

    def do(self, line):
        """The tid of a thread that was started."""
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        return int(self.process.stdout.readline())

    def schedstat(self, tid):
        """Time on a CPU and waiting for one, ns."""
        with open(f"/proc/{self.pid}/task/{tid}/schedstat", encoding="ascii") as file:
            return [int(word) for word in file.read().split()[:2]]

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        self.process.kill()
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()


def vm_of(daemon, name):
    """What is known of a VM; None before it is."""
    for vm in daemon.get("/v1/vms")["items"]:
        if vm["name"] == name:
            return daemon.get(f"/v1/vms/{vm['id']}")
    return None


def vcpus_of(daemon, name):
    vm = vm_of(daemon, name)
    return {vcpu["tid"]: vcpu for vcpu in vm["vcpus"]} if vm else {}


def check_sums(figures):
    assert figures["observed_ns"] == (figures["run_ns"] + figures["preempt_ns"] +
                                      figures["wake_wait_ns"] + figures["blocked_ns"]), figures
    assert figures["switches_out"] == figures["preemptions"] + figures["blocks"], figures
    if "lost_to" in figures:
        waited = figures["preempt_ns"] + figures["wake_wait_ns"]
        assert sum(lost["ns"] for lost in figures["lost_to"]) == waited, figures


# ---- threads that come and go ----

def test_a_vm_that_lives_for_less_than_a_window(tmp_path):
    with Daemon(tmp_path, config="[daemon]\nwindow=2s\n") as daemon:
        wait_windows(daemon, 0)
        end_ns = daemon.get("/v1/host")["measurement"]["end_ns"]
        wait_for(lambda: 0.3e9 < (time.time_ns() - end_ns) % 2e9 < 0.6e9)
        with BusyVm(name="short", sleeps=False) as vm:
            time.sleep(0.5)
            with open(f"/proc/{vm.process.pid}/task/{vm.tid}/schedstat", encoding="ascii") as file:
                run_ns = int(file.read().split()[0])
        wait_windows(daemon, 1)
        [sample] = daemon.get(f"/v1/vms/{vm.uuid}/samples?since=-1m")["items"]
        check_sums(sample)
        # From its first 20 ms on.
        assert run_ns - 50e6 < sample["run_ns"] < run_ns + 100e6, (sample, run_ns)
        assert sample["blocks"] >= 1
        assert vm_of(daemon, "short") is None


def test_vcpus_are_plugged_and_other_threads_are_none(daemon):
    with Guest("plugged", "sleep CPU 0/KVM", "busy worker") as guest:
        first, worker = guest.tids
        wait_for(lambda: first in vcpus_of(daemon, "plugged"))
        begin_ns = time.monotonic_ns()
        second = guest.do("busy CPU 1/KVM")
        third = guest.do("sleep IO something")
        wait_for(lambda: second in vcpus_of(daemon, "plugged"))
        time.sleep(1)
        wait_windows(daemon, 0)
        observed = vcpus_of(daemon, "plugged")
        elapsed_ns = time.monotonic_ns() - begin_ns
        assert set(observed) == {first, second}, (worker, third, observed)
        assert observed[second]["vcpu"] == 1
        assert observed[second]["run_ns"] > 0.05e9
        # Seen from its first 20 ms on, not from the window after its birth.
        assert elapsed_ns - 0.5e9 < observed[second]["observed_ns"] <= elapsed_ns
        assert observed[first]["wakeups"] > 10
        vm = vm_of(daemon, "plugged")
        check_sums(vm)
        # The program's other thread took time from its vCPU, and is another thread of the VM.
        assert "self" in [lost["aggressor"] for lost in vm["lost_to"]]


def ended_thread_comes_back(guest, tid, line):
    """Starts a thread until it has the tid of one that has ended."""
    for _ in range(50):
        with open(LAST_PID, "w", encoding="ascii") as file:
            file.write(str(tid - 1))
        if guest.do(line) == tid:
            return True
        guest.do("end")
    return False


def test_tids_come_back(daemon):
    if not os.access(LAST_PID, os.W_OK):
        pytest.skip(f"{LAST_PID} is not there (CONFIG_CHECKPOINT_RESTORE)")
    with Guest("first", "sleep CPU 0/KVM", "busy CPU 1/KVM") as guest, Guest("other") as other:
        tid = guest.tids[1]
        wait_for(lambda: vcpus_of(daemon, "first").get(tid, {}).get("run_ns", 0) > 0.2e9)
        run_ns = guest.schedstat(tid)[0]
        guest.do("end")
        assert ended_thread_comes_back(guest, tid, "sleep CPU 1/KVM")
        wait_windows(daemon, 4)
        vcpu = vcpus_of(daemon, "first")[tid]
        check_sums(vcpu)
        # Both are vCPU 1; the second one has hardly run.
        assert run_ns - 0.1e9 < vcpu["run_ns"] < run_ns + 0.2e9
        assert vcpu["wakeups"] > 8
        guest.do("end")
        # Now it is a thread of another process, and no vCPU.
        assert ended_thread_comes_back(other, tid, "busy worker")
        wait_windows(daemon, 2)
        before = vm_of(daemon, "first")["run_ns"]
        wait_windows(daemon, 4)
        assert vm_of(daemon, "first")["run_ns"] - before < 0.2e9
        assert vm_of(daemon, "other") is None


def test_a_thousand_vcpus(tmp_path):
    with Daemon(tmp_path, config="[live]\nbudget=0\n") as daemon:
        threads = [f"sleep CPU {i}/KVM" for i in range(250)]
        guests = [Guest(f"wide-{i}", *threads) for i in range(4)]
        try:
            wait_for(lambda: all(len(vcpus_of(daemon, guest.name)) == 250 for guest in guests))
            begin = {g.name: sum(g.schedstat(tid)[0] for tid in g.tids) for g in guests}
            first = {g.name: vm_of(daemon, g.name)["run_ns"] for g in guests}
            wait_windows(daemon, 4)
            for guest in guests:
                vm = vm_of(daemon, guest.name)
                check_sums(vm)
                run_ns = sum(guest.schedstat(tid)[0] for tid in guest.tids) - begin[guest.name]
                # A window and its reading lie between the two ways to ask.
                told_ns = vm["run_ns"] - first[guest.name]
                assert 0.5 * run_ns < told_ns < 1.5 * run_ns, (told_ns, run_ns)
                newest = vm["newest"]
                assert abs(newest["observed_ns"] - 250e9) < 25e9, newest
            host = daemon.get("/v1/host")["measurement"]
            cost_ns = host["collector_cost_ns"]
            assert host["source"] == "bpf" and host["missed"] == 0
            # 20,000 wakeups a second: a tenth of a core at most.
            assert cost_ns < 0.1e9, cost_ns
        finally:
            for guest in guests:
                guest.__exit__()


STORM = """
import ctypes, sys, threading, time
libc = ctypes.CDLL(None)
def vcpu(i):
    libc.prctl(15, b"CPU %d/KVM" % i, 0, 0, 0)
    time.sleep(0.01)
threading.stack_size(65536)
for batch in range(int(sys.argv[1])):
    threads = [threading.Thread(target=vcpu, args=(i,)) for i in range(100)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
"""


def rss_kib(daemon):
    with open(f"/proc/{daemon.process.pid}/status", encoding="ascii") as file:
        return int(re.search(r"VmRSS:\s+(\d+)", file.read()).group(1))


def bpf_ids(daemon, kind):
    """Of the maps or links that the daemon has open: {id: file descriptor}."""
    ids = {}
    for fd in os.listdir(f"/proc/{daemon.process.pid}/fdinfo"):
        try:
            with open(f"/proc/{daemon.process.pid}/fdinfo/{fd}", encoding="ascii") as file:
                found = re.search(rf"^{kind}_id:\s+(\d+)$", file.read(), re.MULTILINE)
        except FileNotFoundError:
            continue
        if found:
            ids[int(found.group(1))] = int(fd)
    return ids


def bpftool(*args):
    """Runs the one that configure has found."""
    with open(os.path.join(BUILD, "Makefile"), encoding="utf-8") as file:
        tool = re.search(r"^BPFTOOL = (.+)$", file.read(), re.M).group(1)
    done = subprocess.run([tool, "-j", *map(str, args)], capture_output=True, check=True)
    return json.loads(done.stdout)


def cells(daemon):
    """What did not fit into the records of threads."""
    for map_id in bpf_ids(daemon, "map"):
        if bpftool("map", "show", "id", map_id)["name"] == "cells":
            return bpftool("map", "dump", "id", map_id)
    return None


def storm(daemon, processes, batches, cpu):
    for i in range(processes):
        subprocess.run(["taskset", "-c", str(cpu), "/usr/bin/python3", "-c", STORM, str(batches),
                        "-name", f"guest=storm-{i}"], check=True)
    wait_windows(daemon, 4)


def test_many_short_lived_threads(daemon):
    cpu = max(os.sched_getaffinity(0))
    with BusyVm(name="victim", sleeps=False) as vm:  # who loses its CPU to all of them
        os.sched_setaffinity(vm.tid, {cpu})
        storm(daemon, 25, 4, cpu)
        half = rss_kib(daemon)
        storm(daemon, 25, 4, cpu)
        assert rss_kib(daemon) - half <= 1024
        names = [vm["name"] for vm in daemon.get("/v1/vms")["items"]]
        assert not [name for name in names if name.startswith("storm")], names
        victim = vm_of(daemon, "victim")
        check_sums(victim)
        # To more VMs than there is room for in its record, each told in its window.
        samples = daemon.get(f"/v1/vms/{vm.uuid}/samples?since=-5m")["items"]
        aggressors = {lost["aggressor"] for sample in samples for lost in sample["lost_to"]}
        assert len([name for name in aggressors if name.startswith("storm")]) > 8, aggressors
        for sample in samples:
            check_sums(sample)
        assert len(cells(daemon)) > 8
    wait_for(lambda: vm_of(daemon, "victim") is None)
    # Its slot is free after two windows, and so are they.
    wait_for(lambda: cells(daemon) == [])
    # 20,000 threads went through 4095 slots: there is room for more.
    with BusyVm(name="next", sleeps=False):
        wait_for(lambda: (vm_of(daemon, "next") or {"run_ns": 0})["run_ns"] > 0.1e9)
        assert daemon.get("/v1/host")["measurement"]["measures"]["run"]["reason"] is None
    daemon.stop()


# ---- the same figures from elsewhere ----

class Load:
    """Fake VMs on one CPU, and perhaps a program beside them that never sleeps."""

    def __init__(self, number, run_ms, with_program):
        self.cpu = max(os.sched_getaffinity(0))
        pinned = ["taskset", "-c", str(self.cpu)]
        fake_vms = os.path.join(BUILD, "tests", "tools", "fake-vms")
        self.processes = [subprocess.Popen([*pinned, fake_vms, str(number), str(number),
                                            str(run_ms)])]
        if with_program:
            self.processes.append(subprocess.Popen([*pinned, "sh", "-c", "while :; do :; done"]))

    def pids(self):
        parent = self.processes[0].pid
        with open(f"/proc/{parent}/task/{parent}/children", encoding="ascii") as file:
            return [int(pid) for pid in file.read().split()]

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        for process in self.processes:
            process.terminate()
            process.wait()


def sum_up(samples):
    total = {key: sum(sample[key] for sample in samples)
             for key in ("observed_ns", "run_ns", "preempt_ns", "wake_wait_ns", "preemptions",
                         "wakeups", "blocks")}
    total["lost_to"] = {}
    for sample in samples:
        for lost in sample["lost_to"]:
            who = lost["aggressor"]
            total["lost_to"][who] = total["lost_to"].get(who, 0) + lost["ns"]
    return total


def check_alike(live, traced, seconds_ns):
    """Within 2 % of the time and 3 % of the counts: the cuts are not at the same moment."""
    for key in ("observed_ns", "run_ns", "preempt_ns", "wake_wait_ns"):
        assert abs(live[key] - traced[key]) < 0.02 * seconds_ns, (key, live, traced)
    for key in ("preemptions", "wakeups", "blocks"):
        assert abs(live[key] - traced[key]) <= 3 + 0.03 * traced[key], (key, live, traced)
    for who in live["lost_to"].keys() | traced["lost_to"].keys():
        a, b = live["lost_to"].get(who, 0), traced["lost_to"].get(who, 0)
        assert abs(a - b) < 0.02 * seconds_ns, (who, live, traced)


@pytest.mark.parametrize("way", ["tracefs", "perf"])
def test_figures_are_those_of_a_recording(tmp_path, way):
    if way == "perf" and perftool.missing():
        pytest.skip(perftool.missing())
    if not os.access("/sys/kernel/tracing/instances", os.W_OK):
        pytest.skip("no tracefs in /sys/kernel/tracing")
    # The program keeps the CPU awake: not every kernel records switches out of idleness.
    with Daemon(tmp_path, config="[store]\nlost_top=16\n[live]\nbudget=0\n") as daemon, \
            Load(3, 60, True):
        wait_for(lambda: vm_of(daemon, "bench-002"))
        wait_windows(daemon, 0)
        done = subprocess.run([vgpuctl.program(), "record", "7", "-O", tmp_path / "recording",
                               "--with", way, "-o", "json"], capture_output=True, text=True,
                              timeout=HANG_S, check=False)
        assert done.returncode == 0, done.stderr
        answer = json.loads(done.stdout)
        wait_windows(daemon, 0)
        whole = vgpuctl.analyze(answer["trace"], "--vm-map", answer["vm_map"]).doc()["trace"]
        offset_ns = daemon.get("/v1/host")["measurement"]["clock_offset_ns"]
        samples = {}
        for vm in daemon.get("/v1/vms")["items"]:
            all_of_it = daemon.get(f"/v1/vms/{vm['id']}/samples?since=-1m")["items"]
            samples[vm["name"]] = [sample for sample in all_of_it
                                   if sample["begin_ns"] - offset_ns > whole["begin_ns"] and
                                   sample["end_ns"] - offset_ns < whole["end_ns"]]
        begin_ns = samples["bench-000"][0]["begin_ns"] - offset_ns
        end_ns = samples["bench-000"][-1]["end_ns"] - offset_ns
    assert end_ns - begin_ns >= 4e9 and len(samples["bench-000"]) >= 4
    doc = vgpuctl.analyze(answer["trace"], "--vm-map", answer["vm_map"], "--begin", begin_ns,
                          "--end", end_ns).doc()
    assert doc["trace"]["lost"] == 0
    for vm in doc["vms"]:
        if not vm["name"].startswith("bench-"):
            continue
        live = sum_up(samples.pop(vm["name"]))
        traced = {**vm, "lost_to": {lost["aggressor"]: lost["ns"] for lost in vm["lost_to"]}}
        assert traced["preempt_ns"] > 0.2 * (end_ns - begin_ns), "the load is none"
        check_alike(live, traced, end_ns - begin_ns)
    assert not [name for name in samples if name.startswith("bench-")]


def test_figures_are_those_of_schedstat(daemon):
    """Of a whole life, on a CPU that is idle in between."""
    with Load(1, 40, False) as load:
        stolen_before_ns = stolen_ns(load.cpu)
        wait_for(lambda: vm_of(daemon, "bench-000"))
        time.sleep(3)
        [pid] = load.pids()
        os.kill(pid, 19)  # SIGSTOP: from here on nothing changes
        [tid] = vcpus_of(daemon, "bench-000")
        time.sleep(0.05)
        with open(f"/proc/{pid}/task/{tid}/schedstat", encoding="ascii") as file:
            run_ns, wait_ns, _ = map(int, file.read().split())
        more_ns = 0.01e9 + stolen_ns(load.cpu) - stolen_before_ns
        wait_windows(daemon, 1)
        vm = vm_of(daemon, "bench-000")
        check_sums(vm)
        assert run_ns > 0.8e9
        # The first 20 ms of its life may be missing.
        assert -0.03e9 < vm["run_ns"] - run_ns < more_ns, (vm, run_ns, more_ns)
        waited_ns = vm["preempt_ns"] + vm["wake_wait_ns"]
        assert abs(waited_ns - wait_ns) < 0.03e9, (vm, wait_ns)


# ---- programs that are taken away ----

def test_a_program_is_detached_by_somebody(daemon):
    if not shutil.which("gdb"):
        pytest.skip("gdb is not installed")
    with BusyVm(name="watched", sleeps=False) as vm:
        wait_for(lambda: vm_of(daemon, "watched"))
        before = bpf_ids(daemon, "link")
        assert len(before) >= 4
        fd = min(before.values())
        done = subprocess.run(["gdb", "-p", str(daemon.process.pid), "-batch", "-nx",
                               "-ex", f"call (int)close({fd})"], capture_output=True, text=True,
                              timeout=HANG_S, check=False)
        if "$1 = 0" not in done.stdout:
            pytest.skip(f"gdb cannot make vgpud close a file: {done.stderr.splitlines()[-1:]}")
        closed = windows(daemon)
        wait_for(lambda: measured_by(daemon, "perf") or measured_by(daemon, "procfs"))
        assert windows(daemon) - closed <= 3 + 1
        host = daemon.get("/v1/host")["measurement"]
        assert host["missed"] >= 1
        reason = daemon.part("collector:live")["reason"]
        assert "was detached by another process" in reason or "does not call" in reason, reason
        # Nothing of it is left in the kernel.
        assert bpf_ids(daemon, "link") == {}
        wait_for(lambda: measured_by(daemon, "bpf"), timeout=RETRY_S + 20)
        wait_windows(daemon, 3)
        assert len(bpf_ids(daemon, "link")) == len(before)
        assert "bpf is not used" not in daemon.part("collector:live")["reason"]
        samples = daemon.get(f"/v1/vms/{vm.uuid}/samples?since=-2m")["items"]
        # One busy thread all the while: in no window it was not there, and gaps are few.
        assert len(samples) > 100
        for sample in samples[1:]:
            check_sums(sample)
            # /proc counts run time in ticks; its first window after gdb may be a short one, and
            # loading the programs again takes a while of which nothing is known.
            assert sample["run_ns"] > 0 or sample["observed_ns"] < 0.05e9, sample
        assert sum(sample["run_ns"] == 0 for sample in samples[1:]) <= 3
        gaps = [b["begin_ns"] - a["end_ns"] for a, b in zip(samples, samples[1:])]
        assert sum(gap > 0.1e9 for gap in gaps) <= 1 and max(gaps) < 2e9, gaps


# ---- without root ----

@pytest.fixture(name="public")
def public_fixture():
    """A directory that nobody can work in, with a copy of the program."""
    if not shutil.which("setpriv"):
        pytest.skip("setpriv is not installed (util-linux)")
    directory = f"/tmp/vgpud-live-{os.getpid()}"
    os.mkdir(directory)
    os.chmod(directory, 0o777)
    shutil.copy(program(), directory)
    yield directory
    shutil.rmtree(directory)


def as_nobody(public, prefix, monkeypatch):
    monkeypatch.setenv("VGPUD", os.path.join(public, os.path.basename(program())))
    return Daemon(public, config="[daemon]\nwindow=200ms\n", prefix=prefix)


def test_two_capabilities_are_enough(public, monkeypatch):
    with BusyVm(name="seen", sleeps=False) as vm:
        with as_nobody(public, CAPABLE, monkeypatch) as daemon:
            wait_windows(daemon, 3)
            wait_for(lambda: measured_by(daemon, "bpf"))
            wait_for(lambda: (vm_of(daemon, "seen") or {"run_ns": 0})["run_ns"] > 0)
            with open(f"/proc/{daemon.process.pid}/status", encoding="ascii") as file:
                status = file.read()
            assert "Uid:\t65534\t65534" in status
            daemon.stop()
        stopped_ns = time.time_ns()
        # The same store without them: another source goes on with the same history.
        with as_nobody(public, NOBODY, monkeypatch) as daemon:
            wait_windows(daemon, 3)
            wait_for(lambda: measured_by(daemon, "procfs"))
            wait_for(lambda: (vm_of(daemon, "seen") or {"run_ns": 0})["run_ns"] > 0)
            part = daemon.part("collector:live")
            assert part["state"] == "degraded"
            assert "CAP_BPF and CAP_PERFMON" in part["reason"], part
            host = daemon.get("/v1/host")
            assert host["measurement"]["series"] == "live"
            assert not host["measurement"]["aggressors_known"]
            parts = {part["name"]: part for part in host["parts"]}
            assert "CAP_BPF" in parts["collector:live"]["reason"]
            samples = daemon.get(f"/v1/vms/{vm.uuid}/samples?since=-1h&step=raw")["items"]
            daemon.stop()
        for sample in samples:
            check_sums(sample)
        assert samples[0]["end_ns"] <= stopped_ns <= samples[-1]["begin_ns"]
