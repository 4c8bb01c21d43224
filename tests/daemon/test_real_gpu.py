# SPDX-License-Identifier: Apache-2.0
"""vgpud beside nvidia-smi on a machine with a GPU of NVIDIA's: a VM's process and one of the host's own
keep it busy for a part of the time."""
import ctypes
import re
import shutil
import subprocess
import time

import pytest
from vgpud import BusyVm, Daemon, wait_for

LIBRARY = "libnvidia-ml.so.1"
SECONDS = 20
# Of 100: utilization, and memory as a part of what the GPU has.
POINTS = 2
# Who of two was at work is sampled by the driver, vgpud asks it more often than nvidia-smi does.
POINTS_OF_TWO = 6

# Kernels for so much of each tenth of a second, beside so many bytes of memory that nothing is done to.
LOAD = """
import sys, time
import torch
duty, size = float(sys.argv[1]), int(sys.argv[2])
held = torch.zeros(size, dtype=torch.uint8, device='cuda')
a = torch.rand(2048, 2048, device='cuda')
b = a @ a
torch.cuda.synchronize()
print('on', flush=True)
begin = time.monotonic()
for i in range(int(1200 * 10)):
    until = begin + i / 10 + duty / 10
    while time.monotonic() < until:
        b = a @ a
        torch.cuda.synchronize()
    time.sleep(max(0, begin + (i + 1) / 10 - time.monotonic()))
"""
VCPU = """
import ctypes, threading, time
def vcpu():
    ctypes.CDLL(None).prctl(15, b"CPU 0/KVM", 0, 0, 0)
    time.sleep(1200)
threading.Thread(target=vcpu, daemon=True).start()
"""


class Load:
    """A program that uses the GPU; with a VM it looks like that one's QEMU."""

    def __init__(self, duty, mib, vm=None):
        words = ["-name", f"guest={vm.name},debug-threads=on", "-uuid", vm.uuid] if vm else []
        self.process = subprocess.Popen(
            [shutil.which("python3"), "-c", (VCPU if vm else "") + LOAD, str(duty), str(mib << 20),
             *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def __enter__(self):
        if self.process.stdout.readline().strip() != "on":
            pytest.skip(f"nothing here can keep a GPU busy: {self.process.stderr.read()[-200:]}")
        return self

    def __exit__(self, *unused):
        self.process.kill()
        self.process.communicate()


def query(what, columns):
    out = subprocess.run(["nvidia-smi", "--format=csv,noheader,nounits", f"--query-{what}={columns}"],
                         capture_output=True, text=True, check=True).stdout
    return [[word.strip() for word in line.split(",")] for line in out.splitlines()]


def mean(values):
    return sum(values) / len(values)


class Smi:
    """nvidia-smi for some time: per cent of the GPU, and of processes by pid."""

    def __init__(self):
        self.gpu = subprocess.Popen(
            ["nvidia-smi", "--format=csv,noheader,nounits", "--query-gpu=utilization.gpu", "-i", "0",
             "-lms", "100"], stdout=subprocess.PIPE, text=True)
        self.processes = subprocess.Popen(
            ["nvidia-smi", "pmon", "-i", "0", "-s", "u", "-c", str(SECONDS)], stdout=subprocess.PIPE,
            text=True)

    def end(self):
        out = self.processes.communicate()[0]
        self.gpu.terminate()
        use = [int(line) for line in self.gpu.communicate()[0].split("\n")[:-1]]
        by_pid = {}
        for pid, sm in re.findall(r"^\s*0\s+(\d+)\s+\S+\s+(\d+|-)", out, re.M):
            by_pid.setdefault(int(pid), []).append(0 if sm == "-" else int(sm))
        return mean(use), {pid: mean(values) for pid, values in by_pid.items()}


@pytest.fixture(name="device", scope="module")
def device_fixture():
    """The address of the first GPU as vgpud has it."""
    try:
        ctypes.CDLL(LIBRARY)
    except OSError as error:
        pytest.skip(f"no NVML here: {error}")
    if not shutil.which("nvidia-smi"):
        pytest.skip("no nvidia-smi here")
    try:
        return query("gpu", "pci.bus_id")[0][0].lower()[-12:]
    except subprocess.CalledProcessError as error:
        return pytest.skip(f"no GPU here: nvidia-smi says {error.stdout.strip()}")


def use_of(known):
    """Busy seconds by pid, None: the GPU's; and until when."""
    rows = {None: engine["busy_ns"] for engine in known["engines"] if engine["engine"] == "sm"}
    rows.update({row["pid"]: row["busy_ns"] for row in known["processes"] if row["engine"] == "sm"})
    rows.update({row["vm"]["id"]: row["busy_ns"] for row in known["vms"] if row["engine"] == "sm"})
    return rows, known["newest"]["end_ns"]


def memory_of(known):
    rows = {None: known["engines"][0]["mem_bytes"]}
    rows.update({row["pid"]: row["mem_bytes"] for row in known["processes"]
                 if row["engine"] == "sm"})
    rows.update({row["vm"]["id"]: row["mem_bytes"] for row in known["vms"] if row["engine"] == "sm"})
    return {who: value / (1 << 20) for who, value in rows.items()}


def watch(daemon, device, keys):
    """What vgpud and nvidia-smi say of the same time: by key, per cent of each."""
    def known():
        for document in daemon.get("/v1/gpus")["items"]:
            if document["id"] == device and set(keys) <= set(use_of(document)[0]):
                return document
        return None

    wait_for(known)
    smi = Smi()
    time.sleep(2)
    before, begin = use_of(known())
    time.sleep(SECONDS - 4)
    after, end = use_of(known())
    of_gpu, of_pid = smi.end()
    return {key: (100 * (after[key] - before[key]) / (end - begin),
                  of_gpu if key is None else of_pid.get(pid))
            for key, pid in keys.items()}


@pytest.mark.host
@pytest.mark.parametrize("duties", [(0.5, 0), (0.5, 0.25), (1, 0)], ids=["half", "two", "all"])
def test_agrees_with_nvidia_smi(device, tmp_path, duties):
    vm = BusyVm(name="alpha")
    total = float(query("gpu", "memory.total")[0][0])
    with Load(duties[0], 3000, vm) as of_vm, Load(duties[1], 500) as own, Daemon(tmp_path) as daemon:
        wait_for(lambda: "process" in (daemon.part("collector:gpu")["reason"] or ""))
        part = daemon.part("collector:gpu")
        assert part["state"] == "ok" and f"nvml: {device} (" in part["reason"], part
        assert "2 processes, 1 of VMs: no vGPU instances" in part["reason"], part
        print("\n" + part["reason"])
        keys = {None: None, vm.uuid: of_vm.process.pid, own.process.pid: own.process.pid}
        names = dict(zip(keys, ("the GPU", "the VM", "the other")))
        told = watch(daemon, device, keys)
        told["both"] = tuple(map(sum, zip(*(told[key] for key in keys if key is not None))))
        for key, (ours, theirs) in told.items():
            name = names.get(key, key)
            print(f"{name}: {ours:.1f} %, nvidia-smi {theirs:.1f} %")
            one_of_two = all(duties) and key in keys and key is not None
            assert abs(ours - theirs) <= (POINTS_OF_TWO if one_of_two else POINTS), name
        used = {int(pid): float(mib) for pid, mib in query("compute-apps", "pid,used_memory")}
        told = memory_of(daemon.get(f"/v1/gpus/{device}")["newest"])
        for key, pid in keys.items():
            theirs = float(query("gpu", "memory.used")[0][0]) if key is None else used[pid]
            print(f"{names[key]}: {told[key]:.0f} MiB, nvidia-smi {theirs:.0f} MiB of {total:.0f}")
            assert abs(told[key] - theirs) <= total * POINTS / 100, (names[key], told[key], theirs)
        daemon.stop()
