# SPDX-License-Identifier: Apache-2.0
"""What a vendor makes of memory that two processes have in common: pinned.py LIBRARY. One buffer over it
(CL_MEM_USE_HOST_PTR) is mapped, and stays so, to have it pinned; then data that either process puts there are written
to another buffer, and read from it. Says times, what it costs, and whether a byte was ever not what it should be.
"""
import ctypes
import mmap
import os
import random
import statistics
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "lib"))
from cltable import INVALIDATES, MASK, POINTER, READ_WRITE, READS, SIZE, USE_HOST, WRITES, Vendor  # noqa: E402

MIB = 1 << 20
ALL, EACH = 64 * MIB, 4 * MIB

# The other process: it has the same memory, writes what it is told to and says what there is.
OTHER = """
import mmap, sys
memory = mmap.mmap(int(sys.argv[1]), int(sys.argv[2]))
for line in sys.stdin:
    what, at, size, seed = line.split()
    at, size = int(at), int(size)
    data = (int(seed).to_bytes(8, "little") * (size // 8 + 1))[:size]
    if what == "write":
        memory[at:at + size] = data
        print("written", flush=True)
    else:
        print("same" if memory[at:at + size] == data else "OTHER", flush=True)
"""


class Side:
    """A context, a queue, and a buffer of the device."""

    def __init__(self, vendor):
        self.cl = vendor
        self.context = vendor.make("CreateContext", None, 1, ctypes.byref(vendor.device), None, None)
        self.queue = vendor.make("CreateCommandQueue", self.context, vendor.device, MASK(0))
        self.buffer = vendor.make("CreateBuffer", self.context, MASK(READ_WRITE), SIZE(EACH), None)

    def close(self):
        self.cl.must(self.cl.call("ReleaseMemObject", self.buffer))
        self.cl.must(self.cl.call("ReleaseCommandQueue", self.queue))
        self.cl.must(self.cl.call("ReleaseContext", self.context))

    def move(self, way, at, size=EACH, blocks=1, offset=0):
        self.cl.must(self.cl.call(way, self.queue, self.buffer, blocks, SIZE(offset), SIZE(size), POINTER(at), 0, None,
                                  None))

    def finish(self):
        self.cl.must(self.cl.call("Finish", self.queue))

    def pin(self, at, size, flags):
        buffer = self.cl.make("CreateBuffer", self.context, MASK(READ_WRITE | USE_HOST), SIZE(size), POINTER(at))
        if not flags:
            return buffer, None
        mapped = self.cl.make("MapBuffer", self.queue, buffer, 1, MASK(flags), SIZE(0), SIZE(size), 0, None, None)
        return buffer, mapped

    def unpin(self, pinned, unmaps=True):
        if unmaps and pinned[1]:
            self.cl.must(self.cl.call("UnmapMemObject", self.queue, pinned[0], pinned[1], 0, None, None))
            self.finish()
        self.cl.must(self.cl.call("ReleaseMemObject", pinned[0]))


def used_mib():
    try:
        argv = ["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits"]
        return int(subprocess.run(argv, check=True, capture_output=True, text=True, timeout=60).stdout.split()[0])
    except (OSError, subprocess.SubprocessError):
        return 0


def took_ms(work, times=40):
    all_ms = []
    for _ in range(times):
        began = time.perf_counter()
        work()
        all_ms.append((time.perf_counter() - began) * 1000)
    return statistics.median(all_ms)


def four_pieces(side, way, at):
    for n in range(4):
        side.move(way, at + n * MIB, MIB, 0, n * MIB)
    side.finish()


def times(name, side, at):
    cells = [took_ms(lambda w=way: side.move(w, at)) for way in ("WriteBuffer", "ReadBuffer")]
    cells += [took_ms(lambda w=way: four_pieces(side, w, at)) for way in ("WriteBuffer", "ReadBuffer")]
    cells += [took_ms(lambda w=way: side.move(w, at, 65536)) for way in ("WriteBuffer", "ReadBuffer")]
    print(f"| {name} | " + " | ".join(f"{ms:.3f}" for ms in cells) + " |", flush=True)


class Memory:
    """Memory that this process and another one have in common."""

    def __init__(self, size):
        self.size = size
        self.fd = os.memfd_create("pinned", os.MFD_CLOEXEC)
        os.ftruncate(self.fd, size)
        self.map = mmap.mmap(self.fd, size)
        self.at = ctypes.addressof(ctypes.c_char.from_buffer(self.map))
        self.other = subprocess.Popen([sys.executable, "-c", OTHER, str(self.fd), str(size)], stdin=subprocess.PIPE,
                                      stdout=subprocess.PIPE, text=True, pass_fds=[self.fd])

    def ask(self, what, at, size, seed):
        print(what, at, size, seed, file=self.other.stdin, flush=True)
        return self.other.stdout.readline().strip()

    def resident_mib(self):
        return os.fstat(self.fd).st_blocks * 512 // MIB


def data_of(seed, size):
    return (seed.to_bytes(8, "little") * (size // 8 + 1))[:size]


def check(side, memory, rounds, chance, middle=None):
    """What the other process writes comes to the device, and back to elsewhere, and what is read it sees; all that was
    not read to stays. All is around MIDDLE, if that is given. Returns how often not."""
    wrong, plain = 0, ctypes.create_string_buffer(EACH)
    marks = {}
    for _ in range(rounds):
        size = chance.choice((1, 100, 4096, 65536, 65536 + 7, MIB, EACH))
        lowest, highest = (0, memory.size - size) if middle is None else (middle - size, middle)
        at = chance.randrange(lowest, highest + 1) & ~63
        seed, marks = chance.getrandbits(60), {k: v for k, v in marks.items() if k + v[0] <= at or k >= at + size}
        memory.ask("write", at, size, seed)
        side.move("WriteBuffer", memory.at + at, size)
        side.move("ReadBuffer", ctypes.addressof(plain), size)
        wrong += plain.raw[:size] != data_of(seed, size)
        seed ^= 0x5555
        ctypes.memmove(plain, data_of(seed, size), size)
        side.move("WriteBuffer", ctypes.addressof(plain), size)
        side.move("ReadBuffer", memory.at + at, size)
        wrong += memory.ask("same", at, size, seed) != "same"
        marks[at] = (size, seed)
        marks = dict(list(marks.items())[-12:])
        wrong += sum(memory.ask("same", k, *v) != "same" for k, v in marks.items())
    return wrong


def kept(memory, seed):
    return memory.ask("same", 0, memory.size, seed) == "same"


def main():
    cl, chance = Vendor(sys.argv[1]), random.Random(1)
    side, good = Side(cl), True
    heap, memory = ctypes.create_string_buffer(b"x" * EACH, EACH), Memory(ALL)
    print("ms of 4 MiB, of four pieces that are not waited for, of 64 KiB; each written, read")
    print("| memory | write | read | 4 writes | 4 reads | write 64 KiB | read 64 KiB |\n|" + " --- |" * 7)
    times("of the process", side, ctypes.addressof(heap))
    memory.ask("write", 0, EACH, 1)
    times("in common", side, memory.at)
    before = used_mib()
    pinned = side.pin(memory.at, ALL, 0)
    times("in common, with a buffer over it", side, memory.at)
    print(f"its buffer takes {used_mib() - before} MiB of the GPU's, shared memory is {memory.resident_mib()} MiB")
    side.unpin(pinned)
    for name, flags in (("to be written anew", INVALIDATES), ("to be written", WRITES), ("to be read", READS)):
        memory.ask("write", 0, ALL, 77)
        before, began = used_mib(), time.perf_counter()
        pinned = side.pin(memory.at, ALL, flags)
        ms = (time.perf_counter() - began) * 1000
        stays = [kept(memory, 77)]
        times(f"in common, mapped {name}", side, memory.at)
        times(f"the same, 33 MiB on, mapped {name}", side, memory.at + 33 * MIB)
        wrong = check(side, memory, 60, chance)
        memory.ask("write", 0, ALL, 78)
        more, began = used_mib() - before, time.perf_counter()
        if flags == READS:
            side.unpin(pinned, unmaps=False)
        else:
            side.unpin(pinned)
        undone_ms = (time.perf_counter() - began) * 1000
        stays.append(kept(memory, 78))
        print(f"mapped {name}: pinned in {ms:.1f} ms, {more} MiB of the GPU's, {memory.resident_mib()} MiB in common, "
              f"undone in {undone_ms:.1f} ms; {wrong} wrong; the other's data stay when it is "
              f"mapped, undone: {stays}", flush=True)
        good = good and not wrong and (flags != INVALIDATES or all(stays))
        times("after that", side, memory.at)
    pinned, second = side.pin(memory.at, 16 * MIB, INVALIDATES), Side(cl)
    times("pinned for 16 MiB, another context", second, memory.at)
    times("pinned for 16 MiB, 40 MiB on", side, memory.at + 40 * MIB)
    times("pinned for 16 MiB, half of it", side, memory.at + 14 * MIB)
    wrong = check(second, memory, 30, chance) + check(side, memory, 30, chance)
    wrong += check(side, memory, 60, chance, 16 * MIB)
    try:
        again = second.pin(memory.at, 16 * MIB, INVALIDATES)
        times("pinned by both", second, memory.at)
        wrong += check(second, memory, 30, chance) + check(side, memory, 30, chance)
        second.unpin(again)
    except RuntimeError as error:
        print("pinned by another context as well:", error)
    second.close()
    side.unpin(pinned, unmaps=False)
    wrong += check(side, memory, 30, chance)
    side.close()
    third = Side(cl)
    pinned = third.pin(memory.at, 16 * MIB, INVALIDATES)
    times("the first context gone, a new one's", third, memory.at)
    wrong += check(third, memory, 60, chance)
    print(f"two contexts, and a new one: {wrong} wrong")
    sys.exit(0 if good and not wrong else 1)


main()
