# SPDX-License-Identifier: Apache-2.0
"""Threads that copy memory to a device and back, each with contexts that come and go: transfers.py LIBRARY SECONDS
[THREADS]. Says how many copies there were, and how many brought other bytes than they should; and ends with 1 then."""
import ctypes
import os
import random
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "lib"))
from cltable import MASK, READ_WRITE, SIZE, Vendor  # noqa: E402

MOST = 6 << 20  # bytes of a buffer
ROUNDS = 4      # with one context
AT_A_TIME = 6   # copies that nothing waits for


class Copier(threading.Thread):
    def __init__(self, cl, seed, until):
        super().__init__()
        self.cl, self.chance, self.until = cl, random.Random(seed), until
        self.copies = self.wrong = 0
        self.error = None
        self.noise = self.chance.randbytes(2 * MOST)

    def run(self):
        try:
            self.with_a_context()
            while time.monotonic() < self.until:
                self.with_a_context()
        except RuntimeError as error:
            self.error = error

    def copy(self, way, queue, buffer, waits, at, size, memory):
        self.cl.must(self.cl.call(way, queue, buffer, waits, SIZE(at), SIZE(size), memory, 0, None, None))
        self.copies += 1

    def with_a_context(self):
        cl = self.cl
        context = cl.make("CreateContext", None, 1, ctypes.byref(cl.device), None, None)
        queue = cl.make("CreateCommandQueue", context, cl.device, MASK(0))
        buffer = cl.make("CreateBuffer", context, MASK(READ_WRITE), SIZE(MOST), None)
        for _ in range(ROUNDS):
            self.round(queue, buffer)
        # What nothing waits for may be on its way when all is released.
        size = self.chance.randrange(1, MOST)
        last = ctypes.create_string_buffer(size)
        self.copy("WriteBuffer", queue, buffer, 0, 0, size, last)
        self.copy("ReadBuffer", queue, buffer, 0, 0, size, last)
        cl.must(cl.call("ReleaseMemObject", buffer))
        if self.chance.random() < 0.5:
            cl.must(cl.call("ReleaseContext", context))
            context = None
        cl.must(cl.call("Finish", queue))
        cl.must(cl.call("ReleaseCommandQueue", queue))
        if context:
            cl.must(cl.call("ReleaseContext", context))

    def round(self, queue, buffer):
        size = self.chance.choice((1, 5000, 70000, 300000, 1 << 20, (1 << 20) + 1, 3 << 20, MOST))
        waits = self.chance.randrange(2)
        what = []
        for _ in range(AT_A_TIME):
            at, begin = self.chance.randrange(MOST - size + 1), self.chance.randrange(MOST)
            there = ctypes.create_string_buffer(self.noise[begin:begin + size], size)
            back = ctypes.create_string_buffer(b"\xa5" * size, size)
            self.copy("WriteBuffer", queue, buffer, waits, at, size, there)
            self.copy("ReadBuffer", queue, buffer, waits, at, size, back)
            what.append((there, back))
        if not waits:
            self.cl.must(self.cl.call("Finish", queue))
        self.wrong += sum(there.raw != back.raw for there, back in what)


def main():
    until = time.monotonic() + float(sys.argv[2])
    cl = Vendor(sys.argv[1])
    copiers = [Copier(cl, seed, until) for seed in range(int(sys.argv[3]) if len(sys.argv) > 3 else 4)]
    for copier in copiers:
        copier.start()
    for copier in copiers:
        copier.join()
    errors = [copier.error for copier in copiers if copier.error]
    wrong = sum(copier.wrong for copier in copiers)
    print(f"{sum(copier.copies for copier in copiers)} copies, {wrong} wrong, errors: {errors[:3] or 'none'}")
    sys.exit(1 if wrong or errors else 0)


main()
