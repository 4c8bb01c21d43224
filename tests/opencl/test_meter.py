# SPDX-License-Identifier: Apache-2.0
"""What vgpu-proxy counts for a program while the vendor's callbacks come late: here, not until a sampler is created."""
import json
import select
import subprocess
import sys

import pytest
from opencl import Proxy, built, need_pocl
from settings import HANG_S, sample
from unixhttp import wait_for

# It says what it did: for each step, when its first call began and its last one returned, and for each command, how
# long it ran by its own profiling times.
PROGRAM = """
import ctypes, json, sys, time
cl = ctypes.CDLL("libOpenCL.so.1")
P, S, U = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_uint64
for name in ("Context", "CommandQueue", "Buffer", "ProgramWithSource", "Kernel", "Sampler", "UserEvent"):
    getattr(cl, "clCreate" + name).restype = P
platform, device, error = P(), P(), ctypes.c_int()
cl.clGetPlatformIDs(1, ctypes.byref(platform), None)
cl.clGetDeviceIDs(platform, U(0xFFFFFFFF), 1, ctypes.byref(device), None)
context = P(cl.clCreateContext(None, 1, ctypes.byref(device), None, None, None))
way, bits, n = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
queue, other = (P(cl.clCreateCommandQueue(context, device, U(bits), None)) for _ in range(2))
buffer, far = (P(cl.clCreateBuffer(context, U(1), S(4096), None, ctypes.byref(error))) for _ in range(2))
text = ctypes.c_char_p(b"kernel void one(global int *at) { for (int i = 0; i < 300000; i++) at[0] += i; }")
program = P(cl.clCreateProgramWithSource(context, 1, ctypes.byref(text), None, None))
assert cl.clBuildProgram(program, 0, None, None, None, None) == 0
kernel = P(cl.clCreateKernel(program, b"one", None))
assert cl.clSetKernelArg(kernel, 0, S(8), ctypes.byref(buffer)) == 0
data, status, events = ctypes.create_string_buffer(4096), ctypes.c_int(), []

def launch():
    event = P()
    assert cl.clEnqueueNDRangeKernel(queue, kernel, 1, None, ctypes.byref(S(1)), None, 0, None, ctypes.byref(event)) == 0
    events.append(event)

def finish():
    if way == "ask":
        status.value = 1
        assert cl.clFlush(queue) == 0
        while status.value > 0:
            assert cl.clGetEventInfo(events[-1], 0x11D3, S(4), ctypes.byref(status), None) == 0
    elif way == "wait":
        assert cl.clWaitForEvents(1, ctypes.byref(events[-1])) == 0
    elif way == "read":
        event = P()
        assert cl.clEnqueueReadBuffer(queue, buffer, 1, S(0), S(4096), data, 0, None, ctypes.byref(event)) == 0
        events.append(event)
    else:
        assert cl.clFinish(queue) == 0

def length(event):
    times = U(), U()
    for name, time_ns in zip((0x1282, 0x1283), times):
        assert cl.clGetEventProfilingInfo(event, name, S(8), ctypes.byref(time_ns), None) == 0
    return times[1].value - times[0].value

launch()
finish()
events.clear()
print("ready", flush=True)
sys.stdin.readline()
steps = []
if way == "beside":
    user = P(cl.clCreateUserEvent(context, None))
    assert cl.clEnqueueWriteBuffer(other, far, 0, S(0), S(4096), data, 1, ctypes.byref(user), None) == 0
if way == "held":
    # Both kernels wait: the second one because its queue executes in order. The write does not wait.
    user = P(cl.clCreateUserEvent(context, None))
    assert cl.clEnqueueBarrierWithWaitList(queue, 1, ctypes.byref(user), None) == 0
    launch()
    launch()
    begin = time.monotonic_ns()
    assert cl.clEnqueueWriteBuffer(other, far, 1, S(0), S(4096), data, 0, None, None) == 0
    steps.append((begin, time.monotonic_ns()))
    time.sleep(0.5)
    begin = time.monotonic_ns()
    assert cl.clSetUserEventStatus(user, 0) == 0
    finish()
    steps.append((begin, time.monotonic_ns()))
    n = 0
for _ in range(2 if way == "chain" else n):
    begin = time.monotonic_ns()
    for _ in range(n if way == "chain" else 1):
        launch()
    finish()
    steps.append((begin, time.monotonic_ns()))
    time.sleep(0.03)
print(json.dumps([len(events), steps, [length(event) for event in events] if bits & 2 else []]), flush=True)
sys.stdin.readline()
if way == "beside":
    assert cl.clSetUserEventStatus(user, 0) == 0
    assert cl.clFinish(other) == 0
cl.clCreateSampler(context, 0, 0x1130, 0x1140, ctypes.byref(error))
assert cl.clFinish(queue) == 0
print("over", flush=True)
sys.stdin.readline()
"""
N = 12
PROFILING, OUT_OF_ORDER = 2, 1


class Late:
    """The program at a proxy of which somebody asks all the time, so that it counts."""

    def __init__(self, proxy, *args):
        self.proxy = proxy
        self.process = subprocess.Popen([sys.executable, "-c", PROGRAM, *map(str, args)], env=proxy.environment(),
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()

    def asked(self):
        return self.proxy.ask()["sockets"][0]

    def hear(self):
        while not select.select([self.process.stdout], [], [], 0.5)[0]:
            self.asked()
        return self.process.stdout.readline()

    def go_on(self):
        self.process.stdin.write("\n")
        self.process.stdin.flush()


WAYS = [("finish", 0), ("wait", 0), ("read", 0), ("ask", 0), ("chain", 0), ("beside", 0), ("wait", OUT_OF_ORDER)]
TIMED = [("finish", PROFILING), ("read", PROFILING), ("chain", PROFILING)]


@pytest.mark.parametrize("way, bits", sample("ways to wait", WAYS, 2) + sample("ways to wait with profiling", TIMED, 1))
def test_late_callbacks(tmp_path, way, bits):
    """A command is done when the program is told so, however late the callback is. It cannot have run for longer than the
    calls took that gave it and waited for it, and with profiling it ran for exactly as long as the program is told."""
    need_pocl()
    with Proxy(tmp_path, f"--ask={tmp_path}/proxy.sock.ask", vendor=built("tests/opencl/late-vendor.so")) as proxy, \
            Late(proxy, way, bits, N) as program:
        assert program.hear() == "ready\n"
        # The proxy has the client count by the time it answers the second query.
        program.asked()
        before = program.asked()
        program.go_on()
        n, steps, lengths = json.loads(program.hear())
        assert n == {"read": 2 * N, "chain": 2 * N}.get(way, N)
        after = program.asked()
        assert after["done"] - before["done"] == n
        ran, waited = (after[name] - before[name] for name in ("run_ns", "wait_ns"))
        spans = [end - begin for begin, end in steps]
        print(f"{ran} ns of {sum(spans)} ns, waited for {waited} ns")
        assert 0 < ran <= sum(spans) and waited >= 0
        if lengths:
            assert ran == sum(lengths)
        if way != "chain":
            assert waited + ran <= sum(spans) * (n // N)
        # When the callbacks come, nothing counts again.
        program.go_on()
        assert program.hear() == "over\n"
        wait_for(lambda: program.asked()["commands"] == program.asked()["done"])
        last = program.asked()
        assert last["done"] - after["done"] == (way == "beside")
        assert way == "beside" or last["run_ns"] == after["run_ns"]
        program.go_on()
        assert program.process.wait(HANG_S) == 0


def test_what_waits_for_the_program(tmp_path):
    """While a command waits for an event that the program has not set, it waits, and does not run."""
    need_pocl()
    with Proxy(tmp_path, f"--ask={tmp_path}/proxy.sock.ask", vendor=built("tests/opencl/late-vendor.so")) as proxy, \
            Late(proxy, "held", 0, 0) as program:
        assert program.hear() == "ready\n"
        program.asked()
        before = program.asked()
        program.go_on()
        _, spans, _ = json.loads(program.hear())
        after = program.asked()
        assert after["done"] - before["done"] == after["commands"] - before["commands"] == 3
        ran, waited = (after[name] - before[name] for name in ("run_ns", "wait_ns"))
        could = sum(end - begin for begin, end in spans)
        print(f"{ran} ns of {could} ns, waited for {waited} ns")
        # Each kernel waited for half a second.
        assert 0 < ran <= could and waited >= 10**9
        program.go_on()
        assert program.hear() == "over\n"
        program.go_on()
        assert program.process.wait(HANG_S) == 0
