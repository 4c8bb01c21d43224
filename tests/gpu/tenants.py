# SPDX-License-Identifier: Apache-2.0
"""Three VMs at one vgpu-proxy, for the part `tenants` of try-opencl: one whose kernels never end, one whose programs take
memory until they are refused, and an honest one, which has to get its share of the device, and equal results."""
import os
import re
import signal
import subprocess
import sys
import threading
import time

MAX_KERNEL_S = 2
VM_MEMORY_MIB = 2048
PIECE_MIB = 64
HOLDERS = 3  # the VM's programs that takes memory
WATCH_S = 30
# Of the time that clients have the device: the honest VM has the same weight as the one that hogs it.
SHARE_LEAST = 0.45
# What contexts take beside buffers, on the device, for each program.
CONTEXT_MIB = 1024  # of the vendor, for each process: 700 on an H200

HOLD = """
import ctypes, sys
cl = ctypes.CDLL("libOpenCL.so.1")
P = ctypes.c_void_p
for name in ("Context", "CommandQueue", "Buffer"):
    getattr(cl, "clCreate" + name).restype = P
platform, device, error = P(), P(), ctypes.c_int()
assert cl.clGetPlatformIDs(1, ctypes.byref(platform), None) == 0
assert cl.clGetDeviceIDs(platform, ctypes.c_uint64(0xFFFFFFFF), 1, ctypes.byref(device), None) == 0
context = P(cl.clCreateContext(None, 1, ctypes.byref(device), None, None, None))
queue = P(cl.clCreateCommandQueue(context, device, ctypes.c_uint64(0), None))
size, zero, held = int(sys.argv[1]) << 20, ctypes.c_int(7), 0
for _ in range(100000):
    buffer = P(cl.clCreateBuffer(context, ctypes.c_uint64(1), ctypes.c_size_t(size), None, ctypes.byref(error)))
    if error.value:
        break
    # Memory that is not used may not be there.
    error.value = cl.clEnqueueFillBuffer(queue, buffer, ctypes.byref(zero), ctypes.c_size_t(4), ctypes.c_size_t(0),
                                         ctypes.c_size_t(size), 0, None, None) or cl.clFinish(queue)
    if error.value:
        break
    held += 1
print(held, error.value, flush=True)
sys.stdin.read()
"""


class Tenants:
    """The proxy, with a socket of its own for each VM."""

    def __init__(self, lab):
        self.lab = lab
        folder = lab.SETTING.folder
        self.sockets = {name: os.path.join(folder, name + ".sock") for name in ("endless", "greedy", "honest")}
        self.log = os.path.join(folder, "tenants.log")
        lab.SETTING.ours()  # which writes the vendor's .icd file
        argv = [lab.SETTING.path("vgpu-proxy"), "--drain=1", f"--max-kernel={MAX_KERNEL_S}",
                f"--vendors={folder}/vendors", self.sockets["endless"] + ",vm=endless",
                f"{self.sockets['greedy']},vm=greedy,vm-memory={VM_MEMORY_MIB}", self.sockets["honest"] + ",vm=honest"]
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(argv, stderr=log, env=lab.SETTING.native())
        while not os.path.exists(self.sockets["honest"]):
            if self.process.poll() is not None:
                raise RuntimeError("the proxy did not begin: " + self.said())
            time.sleep(0.01)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait(60)

    def said(self):
        with open(self.log, encoding="utf-8") as log:
            return log.read()

    def environment(self, name):
        return {**self.lab.SETTING.ours(), "VGPU_OPENCL": "proxy:" + self.sockets[name]}

    def begin(self, name, argv):
        return subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                env=self.environment(name), text=True)

    def backlog(self, name, steps):
        return self.begin(name, [sys.executable, self.lab.SETTING.path("backlog.py"), str(steps)])

    def held(self):
        """For how many seconds each VM had the device."""
        before = self.said().count("had the device for")
        self.process.send_signal(signal.SIGUSR1)
        while self.said().count("had the device for") < before + len(self.sockets):
            time.sleep(0.01)
        told = re.findall(r"had the device for ([\d.]+) s", self.said())[-len(self.sockets):]
        return dict(zip(self.sockets, map(float, told)))


class Endless(threading.Thread):
    """A VM that begins a kernel which never ends, again as soon as its program was ended."""

    def __init__(self, tenants):
        super().__init__()
        self.tenants, self.is_over, self.told = tenants, threading.Event(), []

    def run(self):
        while not self.is_over.is_set():
            program = self.tenants.backlog("endless", 0)
            while program.poll() is None and not self.is_over.wait(0.05):
                pass
            program.kill()
            self.told.append(program.communicate()[1])

    def end(self):
        self.is_over.set()
        self.join()


def judge(lab, good, what, *words):
    lab.say("PASS" if good else "FAIL", what + ":", *words)
    return good


def memory(lab, tenants):
    """Programs of one VM take memory until each is refused; together they have what the VM may."""
    before = lab.used_mib()
    holders = [tenants.begin("greedy", [sys.executable, "-c", HOLD, str(PIECE_MIB)]) for _ in range(HOLDERS)]
    told = [tuple(map(int, program.stdout.readline().split())) for program in holders]
    held_mib = sum(held for held, _ in told) * PIECE_MIB
    taken = sum(lab.used_mib() or []) - sum(before or [])
    good = judge(lab, VM_MEMORY_MIB - HOLDERS * PIECE_MIB <= held_mib <= VM_MEMORY_MIB, "memory of a VM",
                 f"{HOLDERS} programs hold {held_mib} MiB of {VM_MEMORY_MIB} MiB")
    good &= judge(lab, all(error == -4 for _, error in told), "refusals",
                  f"errors {[error for _, error in told]}, CL_MEM_OBJECT_ALLOCATION_FAILURE is -4")
    good &= judge(lab, taken <= VM_MEMORY_MIB + HOLDERS * CONTEXT_MIB, "memory of the GPU", f"{taken} MiB more are used")
    return holders, good


def results(lab, tenants):
    """The six programs of the honest VM give what the vendor's library gives alone."""
    argv = [lab.SETTING.path("six"), lab.SETTING.vendor, lab.SETTING.library(), "10"]
    text = lab.output(argv, tenants.environment("honest"), 240)
    rows = [row.split() for row in text.splitlines() if re.fullmatch(r"\S+( [\d.]+){3} \S+", row)]
    return judge(lab, len(rows) == 6 and all(row[4] == "equal" for row in rows), "results of an honest VM",
                 *(f"{row[0]} {row[4]}" for row in rows))


def share(lab, tenants):
    """The honest VM always wants the device, and has as much of it as the one that hogs it. Its kernels take some
    milliseconds: where it leaves the device for a moment, a kernel that never ends has it for a whole turn."""
    honest = tenants.backlog("honest", 1000000 if "pocl" in lab.SETTING.vendor else 10000)
    if honest.stdout.readline() != "there\n":
        honest.kill()
        return judge(lab, False, "share of an honest VM", "it did not begin:", honest.communicate()[1])
    first = tenants.held()
    time.sleep(WATCH_S)
    passed = {name: held - first[name] for name, held in tenants.held().items()}
    is_there = honest.poll() is None
    honest.kill()
    honest.communicate()
    part = passed["honest"] / (sum(passed.values()) or 1)
    return judge(lab, is_there and part >= SHARE_LEAST, "share of an honest VM",
                 f"{100 * part:.1f} % of the {sum(passed.values()):.2f} s that VMs had the device in {WATCH_S} s")


def tenants(lab):
    with Tenants(lab) as proxy:
        endless = Endless(proxy)
        endless.start()
        holders = []
        try:
            holders, good = memory(lab, proxy)
            good &= results(lab, proxy)
            good &= share(lab, proxy)
        finally:
            endless.end()
            for program in holders:
                program.kill()
                program.communicate()
        ended = [told for told in endless.told if f"took longer than {MAX_KERNEL_S} s" in told]
        good &= judge(lab, len(ended) >= 2, "kernels that never end", f"{len(ended)} programs were ended and told why")
        said = proxy.said()
    return good & judge(lab, "crashed" not in said, "the proxy's log", said[-800:])
