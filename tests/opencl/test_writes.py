# SPDX-License-Identifier: Apache-2.0
"""Small writes for which the proxy does not wait: whatever uses the memory next sees the data."""
import subprocess
import sys

import pytest
from opencl import Proxy, need_pocl
from settings import HANG_S
from test_broken_link import Link

# Each step keeps the first queue busy, writes a new number there, and reads it in another way.
PROGRAM = """
import ctypes, sys
cl = ctypes.CDLL("libOpenCL.so.1")
P, S, U = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_uint64
for name in ("Context", "CommandQueue", "Buffer", "ProgramWithSource", "Kernel", "UserEvent"):
    getattr(cl, "clCreate" + name).restype = P
platform, device, error = P(), P(), ctypes.c_int()
cl.clGetPlatformIDs(1, ctypes.byref(platform), None)
cl.clGetDeviceIDs(platform, U(0xFFFFFFFF), 1, ctypes.byref(device), None)
context = P(cl.clCreateContext(None, 1, ctypes.byref(device), None, None, None))
bits = int(sys.argv[1])
queue = P(cl.clCreateCommandQueue(context, device, U(bits), None))
SIZE, N = 4096, 40
buffer, far, slow = (P(cl.clCreateBuffer(context, U(1), S(SIZE * N), None, ctypes.byref(error))) for _ in range(3))
text = ctypes.c_char_p(b'''
kernel void wait(global int *at) { for (int i = 0; i < 3000000; i++) at[i & 1023] += i; }
kernel void copy(global const int *from, global int *to) { to[get_global_id(0)] = from[get_global_id(0)]; }
''')
program = P(cl.clCreateProgramWithSource(context, 1, ctypes.byref(text), None, None))
assert cl.clBuildProgram(program, 0, None, None, None, None) == 0
wait, copy = P(cl.clCreateKernel(program, b"wait", None)), P(cl.clCreateKernel(program, b"copy", None))
for kernel, i, one in ((wait, 0, slow), (copy, 0, buffer), (copy, 1, far)):
    assert cl.clSetKernelArg(kernel, i, S(8), ctypes.byref(one)) == 0
data, got, numbers = ctypes.create_string_buffer(SIZE), ctypes.create_string_buffer(SIZE), iter(range(1, 200))

def launch(where, kernel, n, *events):
    list_ = (P * len(events))(*events) if events else None
    assert cl.clEnqueueNDRangeKernel(where, kernel, 1, None, ctypes.byref(S(n)), None, len(events), list_, None) == 0

def write(n=0):
    data.raw = bytes([next(numbers)]) * SIZE
    assert cl.clEnqueueWriteBuffer(queue, buffer, 1, S(n * SIZE), S(SIZE), data, 0, None, None) == 0
    return data.raw

def read(where, from_, n=0):
    assert cl.clEnqueueReadBuffer(where, from_, 1, S(n * SIZE), S(SIZE), got, 0, None, None) == 0
    return got.raw

def same():
    launch(queue, copy, SIZE // 4)
    # A queue that executes out of order may read before it has copied.
    assert bits == 0 or cl.clFinish(queue) == 0
    return read(queue, far)

def other():
    one = P(cl.clCreateCommandQueue(context, device, U(0), None))
    launch(one, copy, SIZE // 4)
    seen = read(one, far)
    assert cl.clReleaseCommandQueue(one) == 0
    return seen

def user():
    # What another queue executes later, which the program begins.
    one, event = P(cl.clCreateCommandQueue(context, device, U(0), None)), P(cl.clCreateUserEvent(context, None))
    launch(one, copy, SIZE // 4, event)
    assert cl.clSetUserEventStatus(event, 0) == 0
    seen = read(one, far)
    assert cl.clReleaseCommandQueue(one) == 0
    return seen

def mapped():
    cl.clEnqueueMapBuffer.restype = P
    at = P(cl.clEnqueueMapBuffer(queue, buffer, 1, U(1), S(0), S(SIZE), 0, None, None, ctypes.byref(error)))
    seen = ctypes.string_at(at, SIZE)
    assert cl.clEnqueueUnmapMemObject(queue, buffer, at, 0, None, None) == 0
    return seen

write()  # the first write is waited for
assert cl.clFinish(queue) == 0
for way in (same, other, user, mapped) * 3:
    launch(queue, wait, 1)
    expected = write()
    assert way() == expected, way
# More writes than the proxy keeps data of, whose data the program changes at once.
launch(queue, wait, 1)
expected = [write(n) for n in range(N)]
assert [read(queue, buffer, n) for n in range(N)] == expected
# A queue that ends with such a write.
launch(queue, wait, 1)
expected = write()
assert cl.clReleaseCommandQueue(queue) == 0
queue = P(cl.clCreateCommandQueue(context, device, U(0), None))
assert same() == expected
print("over")
"""


@pytest.fixture(autouse=True)
def _pocl():
    need_pocl()


def over(environment, bits):
    done = subprocess.run([sys.executable, "-c", PROGRAM, str(bits)], env=environment, capture_output=True, text=True,
                          timeout=HANG_S, check=False)
    assert done.stdout == "over\n", done.stderr


@pytest.mark.parametrize("bits", [0, 1], ids=["in-order", "out-of-order"])
def test_what_follows_a_write(tmp_path, bits):
    with Proxy(tmp_path) as proxy:
        over(proxy.environment(), bits)
        # With so little room, the data of one write are more than a part of it.
    (tmp_path / "little").mkdir()
    with Proxy(tmp_path / "little", "--pending=1", "--staging=0") as proxy:
        over(proxy.environment(), bits)


def test_over_tcp(tmp_path):
    with Link(tmp_path) as link:
        over(link.environment(), 0)
