# SPDX-License-Identifier: Apache-2.0
"""A program whose device always has something to do: backlog.py STEPS. It has 8 launches outstanding of a kernel that
makes STEPS steps, and says "there" when the first one is done. With STEPS 0, the kernel never ends. It ends with the
first error, which it says, or with its stdin. backlog.py STEPS THINK: one launch at a time, and after each it does nothing
for so many seconds."""
import ctypes
import select
import sys
import time

SOURCE = b"""
kernel void work(global volatile int *at, int steps)
{
    if (steps == 0)
        while (at[0] == 0)
            ;
    for (int i = 0; i < steps; i++)
        at[0] += i;
}
"""

cl = ctypes.CDLL("libOpenCL.so.1")
POINTER = ctypes.c_void_p
for name in ("Context", "CommandQueue", "Buffer", "ProgramWithSource", "Kernel"):
    getattr(cl, "clCreate" + name).restype = POINTER


def well(error):
    if error:
        print(error, flush=True)
        sys.exit(1)


def main():
    platform, device, error = POINTER(), POINTER(), ctypes.c_int()
    steps = ctypes.c_int(int(sys.argv[1]))
    think_s = float(sys.argv[2]) if len(sys.argv) > 2 else 0
    well(cl.clGetPlatformIDs(1, ctypes.byref(platform), None))
    well(cl.clGetDeviceIDs(platform, ctypes.c_uint64(0xFFFFFFFF), 1, ctypes.byref(device), None))
    context = POINTER(cl.clCreateContext(None, 1, ctypes.byref(device), None, None, ctypes.byref(error)))
    queue = POINTER(cl.clCreateCommandQueue(context, device, ctypes.c_uint64(0), ctypes.byref(error)))
    zero = ctypes.c_int(0)
    at = POINTER(cl.clCreateBuffer(context, ctypes.c_uint64(1 | 32), ctypes.c_size_t(4), ctypes.byref(zero),
                                   ctypes.byref(error)))
    text = ctypes.c_char_p(SOURCE)
    program = POINTER(cl.clCreateProgramWithSource(context, 1, ctypes.byref(text), None, ctypes.byref(error)))
    well(cl.clBuildProgram(program, 0, None, None, None, None))
    kernel = POINTER(cl.clCreateKernel(program, b"work", ctypes.byref(error)))
    well(cl.clSetKernelArg(kernel, 0, ctypes.c_size_t(8), ctypes.byref(at)))
    well(cl.clSetKernelArg(kernel, 1, ctypes.c_size_t(4), ctypes.byref(steps)))
    events, one, is_there = [], ctypes.c_size_t(1), False
    while not select.select([sys.stdin], [], [], 0)[0]:
        event = POINTER()
        well(cl.clEnqueueNDRangeKernel(queue, kernel, 1, None, ctypes.byref(one), None, 0, None, ctypes.byref(event)))
        events.append(event)
        if len(events) == (1 if think_s else 8) or steps.value == 0:
            well(cl.clWaitForEvents(1, ctypes.byref(events[0])))
            well(cl.clReleaseEvent(events.pop(0)))
            if not is_there:
                print("there", flush=True)
            is_there = True
            time.sleep(think_s)


main()
