# SPDX-License-Identifier: Apache-2.0
"""Programs that go between their own device and two proxies of this machine, while others use all three: what the part
`moves` of try-opencl is made of. TOOLS is that program, as a module."""
import concurrent.futures
import difflib
import os
import random
import socket
import subprocess
import threading
import time

from opencl import Beside, taken
from relay import Relay

# Programs at a time, how often each is to go elsewhere, the steps that it makes and its pauses in ms.
PROGRAMS, SWITCHES, STEPS, PAUSE_MS = 6, 60, 1500, 20
CUTS, CUT_STEPS = 100, 1500
SEED = 100
# Of those that go for long: as above. NVIDIA's driver can be loaded 127 times in a process, which is every third time.
LASTING, LASTING_SWITCHES, LASTING_STEPS = 4, 240, 3000
LIMIT_S = 150
# What the vendor says and what the library does: of a read or write that is wrong in two ways, one of which is looked for
# first; and of an event that is set again, which NVIDIA's lets be, and is an error where it has been moved meanwhile.
EITHER = ((" -30 ", " -59 "), (" set 0 ", " set -59 "))


def differences(alone, ours):
    """Lines that differ, and how many only by which of two errors was found first."""
    left, either = [], 0
    matcher = difflib.SequenceMatcher(None, alone, ours, autojunk=False)
    for what, a, b, c, d in matcher.get_opcodes():
        if what == "equal":
            continue
        pairs = list(zip(alone[a:b], ours[c:d]))
        if what == "replace" and b - a == d - c and all(y in (x.replace(*way) for way in EITHER) for x, y in pairs):
            either += len(pairs)
            continue
        left += ["-" + line for line in alone[a:b]] + ["+" + line for line in ours[c:d]]
    return left, either


class Count:
    """What several programs came to."""

    def __init__(self, tools):
        self.tools, self.lock = tools, threading.Lock()
        self.good, self.switches, self.either, self.equal, self.left_out = True, 0, 0, 0, 0

    def compare(self, what, alone, ours):
        left, either = differences(alone, ours)
        with self.lock:
            self.good = self.good and not left
            self.either += either
            self.equal += not left
            if left:
                self.tools.say(what, "differs in", len(left), "lines:", *left[:10])

    def fail(self, *why):
        with self.lock:
            self.good = False
            self.tools.say(*why)


def alone_twice(tools, argv):
    """What a program says with the vendor's library alone; None: it hangs, or is not the same twice."""
    texts = []
    for _ in range(2):
        try:
            texts.append(tools.output(argv, tools.SETTING.native(), LIMIT_S))
        except subprocess.TimeoutExpired:
            return None
    return texts[0].splitlines() if texts[0] == texts[1] else None


def goes_around(tools, count, seed, places, most=SWITCHES, steps=STEPS):
    """A program goes from one place to the next, and says what it says alone; it is left out if that is not the same
    twice. Returns its threads, descriptors and MiB after a third of the switches, and after all."""
    argv = [tools.SETTING.path("random-calls"), str(seed), str(steps)]
    alone, text, status = alone_twice(tools, argv), [], None
    if alone is None:
        count.left_out += 1
        return None
    with tools.stopped([*argv, str(PAUSE_MS)]) as program:
        reader = threading.Thread(target=lambda: text.append(program.process.stdout.read().decode()))
        reader.start()
        try:
            switches, refusals = program.stop_at_random(seed, most // 3, *places)
            before = taken(program.process.pid)
            more, more_refusals = program.stop_at_random(seed + 1, most - most // 3, *places)
            after = taken(program.process.pid) if program.process.poll() is None else before
            switches, refusals = switches + more, refusals + more_refusals
            status = program.process.wait(LIMIT_S)
        except (AssertionError, subprocess.TimeoutExpired, OSError) as error:
            count.fail(f"seed {seed}:", repr(error)[:500])
            tools.what_hangs(program.process)
            return None
        finally:
            if status is None:
                program.process.kill()
            reader.join()
    strange = [why for why in refusals if "is mapped" not in why]
    if strange or status:
        count.fail(f"seed {seed} ended with {status}, was refused:", strange[:3])
    with count.lock:
        count.switches += switches
    count.compare(f"seed {seed}, {switches} switches,", alone, text[0].splitlines())
    return before, after


def lasting(tools):
    """A few programs that go from place to place for long, and take no more for it."""
    count, began = Count(tools), time.monotonic()
    with tools.Proxy("one", "--allow-binaries") as one, tools.Proxy("two", "--allow-binaries") as two, \
            concurrent.futures.ThreadPoolExecutor(LASTING) as pool:
        places = ["proxy:" + one.sockets[0], "proxy:" + two.sockets[0], ""]
        running = [pool.submit(goes_around, tools, count, SEED + 50 + n, places, LASTING_SWITCHES, LASTING_STEPS)
                   for n in range(LASTING)]
        takes = [one.result() for one in running]
    tools.say(f"{LASTING} programs, {count.switches} switches in {time.monotonic() - began:.0f} s: {count.equal} say "
              f"what they say alone but for {count.either} errors of either, {count.left_out} not the same twice alone")
    for before, after in filter(None, takes):
        tools.say(f"threads, descriptors, MiB: {before[0]}, {before[1]}, {before[2]:.0f} after a third of the switches,"
                  f" {after[0]}, {after[1]}, {after[2]:.0f} after all")
        grown = [now - then for then, now in zip(before, after)]
        count.good = count.good and grown[0] <= 2 and grown[1] <= 8 and grown[2] < 256
    return count.good and count.switches > LASTING_SWITCHES


def many(tools, count, places, beside):
    """Several at a time, and a client of a proxy beside them that always says the same."""
    argv = [tools.SETTING.path("random-calls"), "7", "200"]
    alone = alone_twice(tools, argv)
    began = time.monotonic()
    with Beside(argv, beside, lambda said: alone is None or not differences(alone, said.splitlines())[0]) as other, \
            concurrent.futures.ThreadPoolExecutor(PROGRAMS) as pool:
        for one in [pool.submit(goes_around, tools, count, SEED + n, places) for n in range(PROGRAMS)]:
            one.result()
    tools.say(f"{PROGRAMS} programs at a time, {count.left_out} of them not the same twice with the vendor alone: "
              f"{count.switches} switches between the device and two proxies in {time.monotonic() - began:.0f} s; "
              f"{count.equal} say what they say alone but for {count.either} errors of either; "
              f"a client beside them ran {other.runs} times, {len(other.wrong)} times wrong", *other.wrong[:1])
    return count.good and count.switches > 0 and other.runs > 0 and not other.wrong


def unmoved(tools, count, proxy):
    """The same programs at a proxy, where they stay."""
    count.equal = count.either = 0
    for seed in range(SEED, SEED + PROGRAMS):
        argv = [tools.SETTING.path("random-calls"), str(seed), "300"]
        alone = alone_twice(tools, argv)
        if alone is not None:
            count.compare(f"seed {seed} at a proxy", alone, tools.output(argv, proxy.environment()).splitlines())
    tools.say(f"at a proxy, not moved: {count.equal} say what they say alone but for {count.either} errors of either")
    return count.good


def memory_goes(tools, places):
    """How long a program with much memory stands still, and whether its memory is as it should be."""
    tools.head("memory", "to", "released in", "returned in", "stood still", "data")
    for mib in (16, 1024):
        with tools.holder(mib) as program:
            tools.until_ready(program)
            for name, place in (*places, *places):
                began = time.monotonic()
                there = tools.told_ms(program.say(tools.PREPARE), "released")
                back = tools.told_ms(program.say(f"resume at {place}" if place else "resume"), "resumed")
                tools.row(f"{mib} MiB", name, f"{there:.0f} ms", f"{back:.0f} ms",
                          f"{(time.monotonic() - began) * 1000:.0f} ms", "")
                time.sleep(0.3)
            last = tools.end(program)
            tools.row(f"{mib} MiB", "end", "", "", "", last)
            if " wrong 0 " not in last:
                return False
    return True


def mapped_goes(tools, places):
    """A program writes to what it has mapped all the time."""
    with tools.stopped([tools.SETTING.path("mapped-writer")]) as program:
        if program.process.stdout.readline() != b"writes\n":
            raise RuntimeError("it did not begin")
        for n in range(12):
            place = places[n % len(places)]
            tools.told_ms(program.say(tools.PREPARE), "released")
            tools.told_ms(program.say(f"resume at {place}" if place else "resume"), "resumed")
        program.process.terminate()
        said = program.process.stdout.read().decode().strip()
        tools.say("mapped memory, written while it goes to 12 places:", said)
        return program.process.wait(60) == 0 and said.startswith("0 lost")


def cut(tools, count, relay, seed, environment):
    """A program whose link is cut at any byte, again and again."""
    argv = [tools.SETTING.path("random-calls"), str(seed), str(CUT_STEPS)]
    alone, chance, cuts, seen = alone_twice(tools, argv), random.Random(seed), 0, 0
    if alone is None:
        count.left_out += 1
        return
    with subprocess.Popen(argv, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as program:
        text = []
        reader = threading.Thread(target=lambda: text.append(program.stdout.read().decode()))
        reader.start()
        until = time.monotonic() + LIMIT_S
        while program.poll() is None and time.monotonic() < until:
            if relay.n_connections > seen and cuts < CUTS:
                seen = relay.n_connections
                relay.cut_after(chance.randrange(1, 20000))
                cuts += 1
            time.sleep(0.001)
        if program.poll() is None:
            count.fail(f"seed {seed} over a link that is cut has not ended")
            tools.what_hangs(program)
            program.kill()
        reader.join()
        said = program.stderr.read().decode()
    count.switches += cuts
    if program.returncode or said:
        count.fail(f"seed {seed} ended with {program.returncode}:", said[-300:])
    count.compare(f"seed {seed}, {cuts} cuts,", alone, text[0].splitlines())


def cut_six(tools, relay, environment):
    """Six programs with much data over such a link; they compare their results themselves."""
    argv = [tools.SETTING.path("six"), tools.SETTING.vendor, tools.SETTING.library(), "1"]
    seen = cuts = 0
    until = time.monotonic() + LIMIT_S
    with subprocess.Popen(argv, env=environment, stdout=subprocess.PIPE, text=True) as program:
        while program.poll() is None and time.monotonic() < until:
            if relay.n_connections > seen:
                seen = relay.n_connections
                relay.cut_after(100 << 20)
                cuts += 1
            time.sleep(0.002)
        if program.poll() is None:
            program.kill()
        said = program.stdout.read()
    tools.say(f"six programs over TCP, {relay.n_bytes >> 20} MiB, a cut every 100 MiB, {cuts - 1} in all: "
              f"{said.split().count('equal')} equal")
    return program.returncode == 0 and said.split().count("equal") == 6 and cuts > 2


def broken_links(tools):
    """Sessions over TCP whose links break."""
    token = os.path.join(tools.SETTING.folder, "token")
    with open(token, "w", encoding="utf-8") as file:
        file.write("a token of the tests\n")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    count = Count(tools)
    with tools.Proxy("tcp", "--allow-binaries", f"tcp:127.0.0.1:{port},token={token}") as proxy:
        for n in range(3):
            with Relay(port) as relay:
                cut(tools, count, relay, SEED + n, over(proxy, relay, token))
        tools.say(f"sessions over TCP: {count.switches} cuts, {count.equal} programs say what they say alone but for "
                  f"{count.either} errors of either, {count.left_out} not the same twice alone")
        with Relay(port) as relay:
            good = cut_six(tools, relay, over(proxy, relay, token))
    return good and count.good and count.switches > 0


def over(proxy, relay, token):
    return {**proxy.environment(), "VGPU_OPENCL": f"proxy:tcp:127.0.0.1:{relay.port}", "VGPU_OPENCL_TOKEN": token}


def moves(tools):
    count = Count(tools)
    with tools.Proxy("one", "--allow-binaries") as one, tools.Proxy("two", "--allow-binaries") as two:
        places = ["proxy:" + one.sockets[0], "proxy:" + two.sockets[0], ""]
        good = [memory_goes(tools, list(zip(("a proxy", "another one", "its own device"), places))),
                mapped_goes(tools, places), unmoved(tools, count, one)]
        count = Count(tools)
        good.append(many(tools, count, places, two.environment()))
        said = [line for line in (one.said() + two.said()).splitlines() if "signal" in line]
        if said:
            tools.say("proxies said:", said[:5])
    good.append(broken_links(tools))
    tools.say("memory, mapped memory, unmoved, switches, broken links:", *("ok" if well else "FAILED" for well in good))
    return all(good) and not said
