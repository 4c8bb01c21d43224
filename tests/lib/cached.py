# SPDX-License-Identifier: Apache-2.0
"""An OpenCL program that caches the binary of its kernel in a file."""
import sys

from opencl import output

# Takes the binary of a file, or builds the program and writes its binary there; then what the kernel computes.
CACHING = """
import ctypes, os, sys
cl = ctypes.CDLL("libOpenCL.so.1")
for name in ("Context", "CommandQueue", "Buffer", "Kernel", "ProgramWithSource", "ProgramWithBinary"):
    getattr(cl, "clCreate" + name).restype = ctypes.c_void_p
p, ref = ctypes.c_void_p, ctypes.byref
platform, device, error, status = p(), p(), ctypes.c_int(), ctypes.c_int()
cl.clGetPlatformIDs(1, ref(platform), None)
cl.clGetDeviceIDs(platform, ctypes.c_uint64(0xFFFFFFFF), 1, ref(device), None)
context = p(cl.clCreateContext(None, 1, ref(device), None, None, None))
size = ctypes.c_size_t()
path, options = sys.argv[1], sys.argv[2].encode()
if os.path.exists(path):
    data = open(path, "rb").read()
    binary, size.value = ctypes.c_char_p(data), len(data)
    program = p(cl.clCreateProgramWithBinary(context, 1, ref(device), ref(size), ref(binary), ref(status), ref(error)))
    print("loaded", error.value, status.value)
else:
    source = ctypes.c_char_p(b"kernel void k(global ulong *a, ulong b) { a[get_global_id(0)] += b + ADD; }")
    program = p(cl.clCreateProgramWithSource(context, 1, ref(source), None, ref(error)))
if not program:
    sys.exit()
print("built", cl.clBuildProgram(program, 1, ref(device), options, None, None))
if not os.path.exists(path):
    print("size", cl.clGetProgramInfo(program, 0x1165, ctypes.c_size_t(8), ref(size), None))
    binary = ctypes.create_string_buffer(size.value)
    at = p(ctypes.addressof(binary))
    print("binary", cl.clGetProgramInfo(program, 0x1166, ctypes.c_size_t(8), ref(at), None))
    open(path, "wb").write(binary.raw)
queue = p(cl.clCreateCommandQueue(context, device, ctypes.c_uint64(0), None))
value = ctypes.c_uint64(40)
buffer = p(cl.clCreateBuffer(context, ctypes.c_uint64(32), ctypes.c_size_t(8), ref(value), None))
kernel, one, b = p(cl.clCreateKernel(program, b"k", None)), ctypes.c_size_t(1), ctypes.c_uint64(0x123456789abc)
set_ = [cl.clSetKernelArg(kernel, 0, ctypes.c_size_t(8), ref(buffer)), cl.clSetKernelArg(kernel, 1, ctypes.c_size_t(8), ref(b))]
cl.clEnqueueNDRangeKernel(queue, kernel, 1, None, ref(one), None, 0, None, None)
cl.clEnqueueReadBuffer(queue, buffer, 1, ctypes.c_size_t(0), ctypes.c_size_t(8), ref(value), 0, None, None)
print("kernel", *set_, hex(value.value))
"""
BUILT = ["built 0", "size 0", "binary 0", "kernel 0 0 0x123456789ae6"]
LOADED = ["loaded 0 0", "built 0", "kernel 0 0 0x123456789ae6"]
REFUSED = ["loaded -42 -42"]


def cached(path, environment):
    return output([sys.executable, "-c", CACHING, str(path), "-DADD=2"], environment).splitlines()


# It adds once more when a line has come.
CACHING_AGAIN = CACHING + """
sys.stdout.flush()
sys.stdin.readline()
cl.clEnqueueNDRangeKernel(queue, kernel, 1, None, ref(one), None, 0, None, None)
cl.clEnqueueReadBuffer(queue, buffer, 1, ctypes.c_size_t(0), ctypes.c_size_t(8), ref(value), 0, None, None)
print(hex(value.value))
"""
