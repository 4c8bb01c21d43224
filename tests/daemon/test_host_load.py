# SPDX-License-Identifier: Apache-2.0
"""vgpud tells what the CPUs of this machine do, and who is behind host:user, by BPF: a thread that
looks like a vCPU shares a CPU with a program that has a name."""
import os
import subprocess
import time

import pytest
import vgpuctl
from settings import HANG_S
from vgpud import BusyVm, Daemon, wait_for

FAST = "[daemon]\nwindow=200ms\n[live]\nbudget=0\n"
# A name that would forge output if it were shown as it is.
HOG = "hog\033[31m"
CODE = """
import ctypes, signal, sys
ctypes.CDLL(None).prctl(1, signal.SIGKILL, 0, 0, 0)
ctypes.CDLL(None).prctl(15, sys.argv[1].encode(), 0, 0, 0)
print(flush=True)
while True:
    pass
"""


@pytest.fixture(name="daemon")
def daemon_fixture(tmp_path):
    with Daemon(tmp_path, config=FAST) as daemon:
        wait_for(lambda: daemon.get("/v1/host")["measurement"]["windows"] > 1)
        yield daemon


def need_bpf(daemon):
    if daemon.get("/v1/host")["measurement"]["source"] != "bpf":
        pytest.skip(f"no BPF here: {daemon.part('collector:live')['reason']}")


def pin(pid):
    """All threads of a process to one CPU that this machine has."""
    cpu = min(os.sched_getaffinity(0))
    for tid in os.listdir(f"/proc/{pid}/task"):
        os.sched_setaffinity(int(tid), {cpu})
    return cpu


def start_hog():
    hog = subprocess.Popen(["/usr/bin/python3", "-c", CODE, HOG], stdout=subprocess.PIPE)
    hog.stdout.readline()
    return hog


def user_loss(vm):
    return next((loss for loss in vm["lost_to"] if loss["aggressor"] == "host:user"), None)


def hog_of(vm, pid):
    """What a VM lost to the hog; None: nothing yet."""
    loss = user_loss(vm)
    return next((process for process in (loss or {}).get("processes", [])
                 if process["comm"] == HOG and process["pid"] == pid), None)


def check_loss(loss):
    """Processes and others are all of it."""
    parts = [*loss["processes"], loss["others"]]
    assert sum(part["ns"] for part in parts) == loss["ns"]
    assert sum(part["count"] for part in parts) == loss["count"]


@pytest.fixture(name="quota")
def quota_fixture():
    """A control group that gets 5 ms of every 100, and how to read how long it was kept from CPUs."""
    if os.path.exists("/sys/fs/cgroup/cgroup.controllers"):
        path, unit, limit = "/sys/fs/cgroup", 1000, {"cpu.max": "5000 100000"}
    else:
        path, unit, limit = "/sys/fs/cgroup/cpu", 1, {"cpu.cfs_period_us": "100000",
                                                      "cpu.cfs_quota_us": "5000"}
    group = os.path.join(path, f"vgpud-test-{os.getpid()}")
    try:
        os.mkdir(group)
        for name, value in limit.items():
            with open(os.path.join(group, name), "w", encoding="ascii") as file:
                file.write(value)
    except OSError as error:
        if os.path.exists(group):
            os.rmdir(group)
        pytest.skip(f"no control group with a CPU quota can be made here: {error}")

    def throttled_ns():
        with open(os.path.join(group, "cpu.stat"), encoding="ascii") as file:
            words = dict(line.split() for line in file)
        return int(words["throttled_usec" if unit > 1 else "throttled_time"]) * unit

    yield group, throttled_ns
    wait_for(lambda: not os.path.exists(group) or not removed(group))


def removed(group):
    """None, as soon as nobody is in it any more."""
    try:
        os.rmdir(group)
    except OSError as error:
        return error
    return None


@pytest.mark.host
def test_quota(daemon, quota):
    """A kernel's quota stops a vCPU: what it loses so is lost to nobody else."""
    need_bpf(daemon)
    group, throttled_ns = quota
    with BusyVm(sleeps=False) as vm:
        with open(os.path.join(group, "cgroup.procs"), "w", encoding="ascii") as file:
            file.write(str(vm.process.pid))
        path = f"/v1/vms/{vm.uuid}"
        wait_for(lambda: any(known["id"] == vm.uuid for known in daemon.get("/v1/vms")["items"]))

        def limit():
            return next((loss for loss in daemon.get(path)["lost_to"] if loss["aggressor"] == "limit"), None)

        found = wait_for(lambda: (limit() or {"ns": 0})["ns"] > 500_000_000 and limit())
        assert found["ns"] <= throttled_ns()


@pytest.mark.host
def test_who_is_host_user(daemon, tmp_path):
    need_bpf(daemon)
    with BusyVm(sleeps=False) as vm:
        pin(vm.process.pid)
        wait_for(lambda: any(known["id"] == vm.uuid for known in daemon.get("/v1/vms")["items"]))
        path = f"/v1/vms/{vm.uuid}"
        hog = start_hog()
        try:
            pin(hog.pid)
            found = wait_for(lambda: hog_of(daemon.get(path), hog.pid))
            wait_for(lambda: (hog_of(daemon.get(path)["newest"] or {"lost_to": []}, hog.pid)))
        finally:
            hog.kill()
            hog.wait()
            hog.stdout.close()
        with open("/proc/self/cgroup", encoding="ascii") as file:
            text = file.read()
        if "0::/" in text and found["cgroup"]:
            assert found["cgroup"].removeprefix("...") in text
        # It has gone, and keeps its name.
        windows = daemon.get("/v1/host")["measurement"]["windows"]
        wait_for(lambda: daemon.get("/v1/host")["measurement"]["windows"] > windows + 2)
        known = daemon.get(path)
        assert hog_of(known, hog.pid)["ns"] >= found["ns"]
        check_loss(user_loss(known))
        rows = daemon.get(f"/v1/preemptions?vm={vm.uuid}")["items"]
        row = next(row for row in rows if row["aggressor"] == "host:user")
        assert 1 <= len(row["processes"]) <= 4
        check_loss(row)
        shown = subprocess.run([vgpuctl.program(), "vm", "show", vm.uuid, "--socket", daemon.socket],
                               capture_output=True, text=True, timeout=HANG_S, check=True).stdout
        assert "hog?[31m" in shown and "\033" not in shown
    # The past knows it, too, of whole minutes; what goes on is summed up when vgpud ends.
    daemon.stop()
    with Daemon(tmp_path, config=FAST) as again:
        pairs = again.get(f"/v1/preemptions?since=-1h&until={int(time.time()) + 120}")["items"]
        stored = next(pair for pair in pairs if (pair["victim"]["id"], pair["aggressor"]) == (vm.uuid, "host:user"))
        hogs = [process for process in stored["processes"] if process["comm"] == HOG]
        # Three of each minute are kept: where others took more, the machine was busy.
        assert sum(process["ns"] for process in hogs) >= found["ns"] or len(stored["processes"]) >= 3, stored
        assert stored["processes"]
        check_loss(stored)


def test_cpus(daemon):
    with BusyVm(sleeps=False) as vm:
        cpu = pin(vm.process.pid)

        def there():
            cpus = daemon.get("/v1/host/cpus")
            item = next((item for item in cpus["items"] if item["cpu"] == cpu), None)
            placed = item and next((one for one in item["vms"] if one["id"] == vm.uuid), None)
            return (cpus, item, placed) if placed and placed["run_ns"] > 0 else None

        cpus, item, placed = wait_for(there)
        assert cpus["places"] in ("counted", "last-seen")
        assert (placed["wait_ns"] is None) == (cpus["places"] == "last-seen")
        online = os.sysconf("SC_NPROCESSORS_ONLN")
        assert len(cpus["items"]) == online
        if online > 1:
            wait_for(lambda: vm.uuid in [one["id"] for item in daemon.get("/v1/host/cpus")["items"]
                                         if item["cpu"] == cpu for one in item["pinned"]])
        assert item["vms_ns"] >= placed["run_ns"] and item["busy_ns"] is not None
        assert (item["wait_ns"] is None) == (not os.path.exists("/proc/schedstat"))
        assert (cpus["wait_reason"] is None) == os.path.exists("/proc/schedstat")


def test_host(daemon):
    host = wait_for(lambda: (lambda host: host if host["idle_ns"] is not None else None)(
        daemon.get("/v1/host")["measurement"]["host"]))
    assert host["own_ns"] >= 0 and host["vms_ns"] >= 0 and host["load"]["15min"] >= 0
    has = os.path.exists("/proc/pressure/memory")
    assert (host["pressure"]["memory"]["some_ns"] is not None) == has
    assert (host["pressure"]["reason"] is None) == has
    shown = subprocess.run([vgpuctl.program(), "host", "show", "--socket", daemon.socket],
                           capture_output=True, text=True, timeout=HANG_S, check=True).stdout
    assert "LOAD 1min" in shown and ("memory" in shown or "CONFIG_PSI" in shown)


def test_host_history(daemon):
    """Of a host that is measured live all of it is told, as far as the kernel does."""
    def told():
        items = daemon.get("/v1/host/history?since=-1min&step=10s")["items"]
        return next((i for i in items if i["own_share"] is not None and i["idle_share"] is not None), None)

    item = wait_for(told)
    newest = daemon.get("/v1/host")["measurement"]
    used = item["rates"]["run_share"] + item["own_share"] + item["idle_share"] + item["steal_share"]
    assert 0 < used and item["steal_share"] >= 0 and 0 <= item["load"]
    assert newest["source"] in [one["by"] for one in item["measured_by"]]
    assert sum(one["ns"] for one in item["measured_by"]) == item["measured_ns"]
    assert (item["pressure"] is not None) == os.path.exists("/proc/pressure/memory")


def test_waits_that_nobody_tells_apart_are_unknown(tmp_path):
    """/proc has all waits of a thread, and how often it was preempted, but not for how long after that."""
    with Daemon(tmp_path, config=FAST.replace("budget=0", "budget=0\nbpf=no\nperf=no")) as daemon, BusyVm() as vm:
        wait_for(lambda: any(known["id"] == vm.uuid for known in daemon.get("/v1/vms")["items"]))
        told = daemon.get(f"/v1/vms/{vm.uuid}")
        assert told["waits_split"] is False and {vcpu["preempt_ns"] for vcpu in told["vcpus"]} == {0}
        done = subprocess.run([vgpuctl.program(), "vm", "show", vm.uuid, "--socket", daemon.socket],
                              capture_output=True, text=True, timeout=HANG_S, check=True)
        lines = done.stdout.splitlines()
        at = next(i for i, line in enumerate(lines) if line.startswith("vCPUs, since vgpud started"))
        # Numbers are right-aligned with their headings.
        ends = {head: lines[at + 1].index(head) + len(head) for head in ("PREEMPT s", "WAKE s", "PREEMPTIONS")}
        cells = {head: lines[at + 2][:end].split()[-1] for head, end in ends.items()}
        assert cells["PREEMPT s"] == "-" and "-" not in (cells["WAKE s"], cells["PREEMPTIONS"]), done.stdout


def test_windows_end_with_seconds_of_utc(daemon):
    """So those of two hosts are of the same time. The window is 200 ms."""
    first = daemon.get("/v1/host")["measurement"]["end_ns"]
    later = wait_for(lambda: next((end for end in [daemon.get("/v1/host")["measurement"]["end_ns"]] if end > first), None))
    assert first % 200_000_000 == 0 and later % 200_000_000 == 0


def test_the_cpus_of_the_host(tmp_path):
    """One CPU of this machine is the host: it is the only one that is counted, whatever vgpud may run on."""
    cpu = max(os.sched_getaffinity(0))
    with Daemon(tmp_path, config=f"{FAST}[daemon]\ncpus={cpu}\n[live]\nbpf=no\nperf=no\n") as daemon:
        # CPUs that only VMs of other tests may use have no times.
        [row] = wait_for(lambda: [c for c in daemon.get("/v1/host/cpus")["items"] if c["busy_ns"] is not None])
        assert row["cpu"] == cpu
        assert daemon.get("/v1/host")["cpus"] == 1
        [host] = daemon.get("/v1/snapshot")["hosts"]
        assert host["cpus"] == 1


def test_no_cpu_of_the_host(tmp_path):
    daemon = Daemon(tmp_path, config="[daemon]\ncpus=8191\n[live]\nuse=no\n", wait=False)
    assert daemon.process.wait(HANG_S) != 0
    assert "[daemon] cpus: none of the CPUs '8191' is online" in daemon.log()
