# SPDX-License-Identifier: Apache-2.0
"""A program whose kernel is native code of the proxy's machine (PoCL), as whoever has taken over a client's process runs:
it makes the system calls that its stdin lists, each [number, argument...], and prints their results. An argument is a
number, a text, which is passed by its address, {"room": SIZE}, for an address with so many bytes, or {"of": N}, the result
of the Nth call. A call [number, argument..., {"times": N}] is made until it fails, N times at most, and its result is how
often it did not; {"child": true} has processes that it made wait for their end. What it printed last is the rooms' text."""
import ctypes
import json
import sys

SOURCE = b"""
long call(long n, long a, long b, long c, long d, long e, long f)
{
    long r;
    __asm__ volatile("movq %5, %%r10\\n\\tmovq %6, %%r8\\n\\tmovq %7, %%r9\\n\\tsyscall"
                     : "=a"(r) : "a"(n), "D"(a), "S"(b), "d"(c), "rm"(d), "rm"(e), "rm"(f)
                     : "rcx", "r8", "r9", "r10", "r11", "memory");
    return r;
}
/* Of each step: number, times, whether it makes processes, and six pairs of kind and value. */
kernel void steps(global long *results, global const long *steps, global char *room, int n)
{
    for (int i = 0; i < n; i++) {
        global const long *step = steps + i * 15;
        long a[6], done = 0, r = 0;
        for (int k = 0; k < 6; k++)
            a[k] = step[3 + 2 * k] == 1 ? (long)room + step[4 + 2 * k]
                 : step[3 + 2 * k] == 2 ? results[step[4 + 2 * k]] : step[4 + 2 * k];
        do {
            r = call(step[0], a[0], a[1], a[2], a[3], a[4], a[5]);
            if (r == 0 && step[2])
                for (;;)
                    call(34, 0, 0, 0, 0, 0, 0); /* pause() */
        } while (r >= 0 && ++done < step[1]);
        results[i] = step[1] ? done : r;
    }
}
"""
VALUE, ROOM, RESULT = range(3)


def encode(steps):
    """The numbers that the kernel reads, and the memory that it uses."""
    numbers, room, shown = [], bytearray(), []

    def put(text, size):
        at = len(room)
        room.extend(text.ljust(size, b"\0"))
        return ROOM, at
    for number, *arguments in steps:
        more = {"times": 0, "child": False}
        row = []
        for argument in arguments:
            if isinstance(argument, str):
                row += put(argument.encode("latin-1"), len(argument) + 1)
            elif isinstance(argument, int):
                row += (VALUE, argument)
            elif "room" in argument:
                shown.append((len(room), argument["room"]))
                row += put(b"", argument["room"])
            elif "of" in argument:
                row += (RESULT, argument["of"])
            else:
                more.update(argument)
        numbers += [number, more["times"], int(more["child"]), *row, *[0] * (12 - len(row))]
    return numbers, room or bytearray(1), shown


class Device:
    def __init__(self):
        self.cl = cl = ctypes.CDLL("libOpenCL.so.1")
        for name in ("Context", "Buffer", "CommandQueue", "ProgramWithSource", "Kernel"):
            getattr(cl, "clCreate" + name).restype = ctypes.c_void_p
        platform, device = ctypes.c_void_p(), ctypes.c_void_p()
        cl.clGetPlatformIDs(1, ctypes.byref(platform), None)
        cl.clGetDeviceIDs(platform, ctypes.c_uint64(0xFFFFFFFF), 1, ctypes.byref(device), None)
        self.context = ctypes.c_void_p(cl.clCreateContext(None, 1, ctypes.byref(device), None, None, None))
        self.queue = ctypes.c_void_p(cl.clCreateCommandQueue(self.context, device, ctypes.c_uint64(0), None))
        source = ctypes.c_char_p(SOURCE)
        program = ctypes.c_void_p(cl.clCreateProgramWithSource(self.context, 1, ctypes.byref(source), None, None))
        assert cl.clBuildProgram(program, 0, None, None, None, None) == 0
        self.kernel = ctypes.c_void_p(cl.clCreateKernel(program, b"steps", None))

    def buffer(self, data):
        return ctypes.c_void_p(self.cl.clCreateBuffer(self.context, ctypes.c_uint64(33), ctypes.c_size_t(len(data)),
                                                      ctypes.c_char_p(bytes(data)), None))

    def read(self, buffer, size):
        to = ctypes.create_string_buffer(size)
        assert self.cl.clEnqueueReadBuffer(self.queue, buffer, 1, ctypes.c_size_t(0), ctypes.c_size_t(size), to, 0, None,
                                           None) == 0
        return to.raw

    def run(self, steps):
        numbers, room, shown = encode(steps)
        buffers = [self.buffer(bytes(8 * len(steps))), self.buffer(bytes((ctypes.c_int64 * len(numbers))(*numbers))), self.buffer(room)]
        for n, buffer in enumerate(buffers):
            assert self.cl.clSetKernelArg(self.kernel, n, ctypes.c_size_t(8), ctypes.byref(buffer)) == 0
        assert self.cl.clSetKernelArg(self.kernel, 3, ctypes.c_size_t(4), ctypes.byref(ctypes.c_int(len(steps)))) == 0
        one = ctypes.c_size_t(1)
        assert self.cl.clEnqueueNDRangeKernel(self.queue, self.kernel, 1, None, ctypes.byref(one), None, 0, None, None) == 0
        results = memoryview(self.read(buffers[0], 8 * len(steps))).cast("q").tolist()
        after = self.read(buffers[2], len(room))
        return results, [after[at:at + size].split(b"\0")[0].decode("latin-1") for at, size in shown]


def main():
    device = Device()
    for line in sys.stdin:
        print(json.dumps(device.run(json.loads(line))), flush=True)


main()
