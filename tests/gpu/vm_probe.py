# SPDX-License-Identifier: Apache-2.0
"""What calls of OpenCL take, and what kernels come to, in a line of JSON: vm_probe.py ROUNDS [LIBRARY]. It runs the same on
a host and in a guest. Times are medians, those of the device are its own by events; "digests" are of results."""
import ctypes
import hashlib
import json
import statistics
import sys
import time

began = time.monotonic()
SOURCE = b"""
kernel void empty(global int *to) { if (to[0] == 12345) to[1] = 1; }
kernel void whole(global uint *to, uint rounds)
{
    uint i = get_global_id(0), x = i * 2654435761u + 1u;
    for (uint k = 0; k < rounds; k++) { x ^= x << 13; x ^= x >> 17; x ^= x << 5; x += 0x9E3779B9u; }
    to[i] = x;
}
kernel void real(global float *to, uint rounds)
{
    float x = (float)get_global_id(0) / 65536.0f;
    for (uint k = 0; k < rounds; k++) x = sin(x * 1.7f) + sqrt(fabs(x)) * 0.3f + exp(-x * x) + native_cos(x) * 0.01f;
    to[get_global_id(0)] = x;
}
"""
ITEMS = 1 << 18
SIZES = (4 << 10, 64 << 10, 1 << 20, 4 << 20, 16 << 20)
POINTER, SIZE, INT = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int
PROFILING = 2
QUEUED, START, END = 0x1280, 0x1282, 0x1283


class Device:
    def __init__(self, library):
        self.stages_ms, self.stage_began = {}, time.monotonic()
        self.cl = cl = ctypes.CDLL(library)
        for name in ("Context", "CommandQueue", "Buffer", "ProgramWithSource", "Kernel"):
            getattr(cl, "clCreate" + name).restype = POINTER
        platform, device, self.error = POINTER(), POINTER(), INT()
        self.must(cl.clGetPlatformIDs(1, ctypes.byref(platform), None))
        self.stage("platform")
        self.must(cl.clGetDeviceIDs(platform, ctypes.c_uint64(0xFFFFFFFF), 1, ctypes.byref(device), None))
        self.context = POINTER(cl.clCreateContext(None, 1, ctypes.byref(device), None, None, ctypes.byref(self.error)))
        self.must(self.error.value)
        self.stage("context")
        self.queue = POINTER(cl.clCreateCommandQueue(self.context, device, ctypes.c_uint64(PROFILING),
                                                     ctypes.byref(self.error)))
        self.must(self.error.value)
        self.stage("queue")
        text = ctypes.c_char_p(SOURCE)
        self.program = POINTER(cl.clCreateProgramWithSource(self.context, 1, ctypes.byref(text), None,
                                                            ctypes.byref(self.error)))
        self.must(cl.clBuildProgram(self.program, 0, None, None, None, None))
        self.stage("build")
        self.buffer = POINTER(cl.clCreateBuffer(self.context, ctypes.c_uint64(1), SIZE(max(SIZES)), None,
                                                ctypes.byref(self.error)))
        self.must(self.error.value)
        self.host = ctypes.create_string_buffer(max(SIZES))

    def stage(self, name):
        """The time since the last stage is this one's."""
        now = time.monotonic()
        self.stages_ms[name] = (now - self.stage_began) * 1e3
        self.stage_began = now

    @staticmethod
    def must(error):
        if error:
            sys.exit(f"OpenCL's error {error}")

    def kernel(self, name, *numbers):
        kernel = POINTER(self.cl.clCreateKernel(self.program, name, ctypes.byref(self.error)))
        self.must(self.error.value)
        self.must(self.cl.clSetKernelArg(kernel, 0, SIZE(8), ctypes.byref(self.buffer)))
        for i, number in enumerate(numbers):
            self.must(self.cl.clSetKernelArg(kernel, i + 1, SIZE(4), ctypes.byref(ctypes.c_uint32(number))))
        return kernel

    def launch(self, kernel, items, event=None):
        self.must(self.cl.clEnqueueNDRangeKernel(self.queue, kernel, 1, None, ctypes.byref(SIZE(items)), None, 0, None,
                                                 None if event is None else ctypes.byref(event)))

    def finish(self):
        self.must(self.cl.clFinish(self.queue))

    def copy(self, way, size):
        call = self.cl.clEnqueueWriteBuffer if way == "write" else self.cl.clEnqueueReadBuffer
        self.must(call(self.queue, self.buffer, 1, SIZE(0), SIZE(size), self.host, 0, None, None))

    def at(self, event, what):
        ns = ctypes.c_uint64()
        self.must(self.cl.clGetEventProfilingInfo(event, what, SIZE(8), ctypes.byref(ns), None))
        return ns.value


def median_of(rounds, what):
    times = []
    for _ in range(rounds):
        begin = time.monotonic()
        what()
        times.append(time.monotonic() - begin)
    return statistics.median(times)


def main():
    rounds = int(sys.argv[1])
    device = Device(sys.argv[2] if len(sys.argv) > 2 else "libOpenCL.so.1")
    found = {"start_ms": (time.monotonic() - began) * 1e3, "stages_ms": device.stages_ms, "digests": {}, "device_ms": {}, "queued_ms": {}, "wall_ms": {}}
    empty = device.kernel(b"empty")

    def finished():
        device.launch(empty, 1)
        device.finish()

    def queued():
        for _ in range(100):
            device.launch(empty, 1)
    finished()
    found["finish_us"] = median_of(50, finished) * 1e6
    found["launch_us"] = median_of(5, queued) * 1e4
    device.finish()
    number = ctypes.byref(ctypes.c_uint32(1))
    whole = device.kernel(b"whole", 1)
    found["set_arg_us"] = median_of(2000, lambda: device.cl.clSetKernelArg(whole, 1, SIZE(4), number)) * 1e6
    for way in ("write", "read"):
        found[way] = {size: size / median_of(12, lambda w=way, s=size: device.copy(w, s)) / 1e6 for size in SIZES}
    for name in ("whole", "real"):
        kernel, took, waited, walls = device.kernel(name.encode(), rounds), [], [], []
        for _ in range(12):
            event = POINTER()
            begin = time.monotonic()
            device.launch(kernel, ITEMS, event)
            device.finish()
            walls.append(time.monotonic() - begin)
            took.append(device.at(event, END) - device.at(event, START))
            waited.append(device.at(event, END) - device.at(event, QUEUED))
            device.must(device.cl.clReleaseEvent(event))
        found["device_ms"][name] = statistics.median(took) / 1e6
        found["queued_ms"][name] = statistics.median(waited) / 1e6
        found["wall_ms"][name] = statistics.median(walls) * 1e3
        device.copy("read", ITEMS * 4)
        found["digests"][name] = hashlib.sha256(device.host.raw[:ITEMS * 4]).hexdigest()[:16]
    print(json.dumps(found), flush=True)


main()
