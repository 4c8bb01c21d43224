# SPDX-License-Identifier: Apache-2.0
"""The parts of try-vm."""
import contextlib
import difflib
import json
import os
import re
import shutil
import statistics
import subprocess
import time

import vm_lab
from opencl import told
from unixhttp import wait_for
import moving
import vm_daemon
import vm_host
import vm_migrate
from vm_lab import BUILD, Failed, Guest, Node, Program, Proxy, lab, native, on_host, ours, remote, smi

BUILT = os.path.join(BUILD, "tests", "opencl")
PYTHON = "/usr/bin/python3"
PORT = 7100
# Lines of clinfo about what extensions that are not carried bring, and what a proxy cannot do.
HIDDEN = r"cl_\w+|External|[Ss]emaphore|UUID|LUID|Node Mask|PCI bus info|Run native kernels"
SEEDS, CALLS = 6, 200
MOVES, FRAMES_MOVES = 40, 20
WATCH_S = 20
MAX_KERNEL_S = 2
# A VM that is destroyed closes no connection: the proxy notices that within a minute, and waits for so long then.
LINGER_S, LEAVES_S = 5, 180


class Lab:
    """What each part begins with: hosts, and what is to be undone."""

    def __init__(self, report, vendor, root):
        self.report, self.vendor = report, vendor
        self.is_gpu = vendor == vm_lab.NVIDIA
        shutil.rmtree(vm_lab.WORK, ignore_errors=True)
        self.disk = vm_lab.make_disk(root)
        self.stack = contextlib.ExitStack()

    def __enter__(self):
        up = self.stack.enter_context(vm_lab.two_hosts())
        if up.returncode != 0:
            raise Failed(up.stderr)
        lab("exec", "h1", "ip", "link", "set", "lo", "up", check=False)
        return self

    def __exit__(self, *args):
        self.stack.__exit__(*args)

    def guests(self, *names):
        made = []
        for number, name in enumerate(names):
            guest = Guest(name, number, self.disk)
            self.stack.callback(guest.remove)
            made.append(guest)
            self.report.say(f"{name} was up after {guest.boot_s:.1f} s")
        return made

    def proxy(self, name, sockets, *options, host="h1"):
        return self.stack.enter_context(Proxy(name, self.vendor, sockets, *options, host=host))

    def node(self, proxies, guests, addresses):
        node = Node(proxies, guests, addresses, self.is_gpu)
        self.stack.callback(node.stop)
        return node

    def rounds(self):
        """Of the probe's kernels, so that each takes milliseconds."""
        return "4000" if self.is_gpu else "5"

    def steps(self):
        """Of backlog.py's kernel, likewise."""
        return "10000" if self.is_gpu else "1000000"


# ---- guest ----

def clinfo(lab_, guest):
    """What it says of the device is what it says on the host."""
    here = told(on_host(["clinfo"], native(lab_.vendor))[1].split("NULL platform")[0])
    status, text = Program(guest, "clinfo", ["clinfo"]).end()
    there = told(text.split("NULL platform")[0])
    lines = [line for line in difflib.unified_diff(here, there, "native", "in the VM", lineterm="", n=0)
             if not line.startswith(("---", "+++", "@@"))]
    other = [line for line in lines if not re.search(HIDDEN, line)]
    lab_.report.judge(status == 0 and here and not other, "clinfo in the VM",
                      f"{len(there)} lines; {len(lines) - len(other)} are of what is not carried; others that differ:",
                      other[:10] or "none")
    for line in lines[:30]:
        lab_.report.say("   ", line)


def last_word(text):
    return text.split()[-1:]


def sums(text):
    return re.findall(r"^\S+ sum \S+$", text, re.M) + re.findall(r"^\S+(?: [\d.]+){3} (\S+)$", text, re.M)


def digests(text):
    return json.loads(text.splitlines()[-1])["digests"]


def programs(lab_):
    """Name, what is run natively, in the VM, and what of its output is the result."""
    library, vendor = "/opencl/libvgpu-opencl.so", lab_.vendor
    for seed in range(1, SEEDS + 1):
        argv = [f"{BUILT}/random-calls", str(seed), str(CALLS)]
        yield f"random-calls {seed}", argv, argv, str.splitlines
    for name, more, result in (("arg-info", [], str.splitlines), ("waves", ["512", "100", "0"], last_word),
                               ("frames", ["16", "40", "0"], last_word)):
        argv = [f"{BUILT}/{name}", *more]
        yield name, argv, argv, result
    six = f"{BUILT}/six"
    yield "six programs", [six, vendor, vendor, "1", "sums"], [six, library, library, "1", "sums"], sums
    argv = [PYTHON, ours("tests/gpu/vm_probe.py"), lab_.rounds()]
    yield "integers, sin, sqrt, exp", argv, argv, digests


def results(lab_, guest):
    """Each program natively twice, and in the VM."""
    lab_.report.head("program", "native twice", "in the VM", "native", "VM")
    wrong = []
    for name, argv, argv_there, result in programs(lab_):
        runs = [on_host(argv, native(lab_.vendor)) for _ in range(2)]
        program = Program(guest, "program", argv_there)
        status, text = program.end()
        try:
            here, again, there = (result(said) for said in (runs[0][1], runs[1][1], text))
        except (IndexError, ValueError):
            here, again, there = [None], [None], text.splitlines()
        steady, either = here == again and runs[0][0] == runs[1][0] == 0, 0
        if name.startswith("random-calls"):
            left, either = moving.differences(here, there)
            same = not left and status == runs[0][0]
        else:
            same = here == there and status == runs[0][0]
        if steady and not same:
            wrong.append(name)
        but = f" but for {either} reads of two errors of which either is told" if either else ""
        lab_.report.row(name, "equal" if steady else "NOT EQUAL", "equal" + but if same else "NOT EQUAL",
                        f"{runs[0][2]:.2f} s", f"{program.took_s:.2f} s")
        if not same or not steady:
            lines = list(difflib.unified_diff(list(map(str, here)), list(map(str, there)), "native", "VM", lineterm="", n=0))
            lab_.report.say("   ", "\n    ".join(lines[:12]), program.complaint()[-300:], "" if steady else again[:5])
    lab_.report.judge(not wrong, "results that are the same twice natively and others in the VM", wrong or "none")


def probe(lab_, guest, address, name):
    argv = [PYTHON, ours("tests/gpu/vm_probe.py"), lab_.rounds()]
    if name == "VM":
        program = Program(guest, "probe", argv)
        status, text = program.end()
        text = text if status == 0 else text + program.complaint()
    else:
        environments = {"native": native(lab_.vendor), "shared memory": remote(os.path.join(vm_lab.WORK, "local.sock")),
                        "TCP": remote(address)}
        status, text, _ = on_host(argv, environments[name])
    if status:
        raise Failed(f"the probe, {name}: {text}")
    return json.loads(text.splitlines()[-1])


def best(rows, *keys):
    found = []
    for row in rows:
        for key in keys:
            row = row[key]
        found.append(row)
    return statistics.median(found)


def costs(lab_, guest, proxy, address):
    """The probe in four places, in turns."""
    ways = ("native", "shared memory", "TCP", "VM")
    rows = {way: [] for way in ways}
    before = proxy.told()[0]
    for _ in range(2):
        for way in ways:
            rows[way].append(probe(lab_, guest, address, way))
            if way == "VM":
                after = proxy.told()[0]
    report = lab_.report
    report.head("cost, medians of medians", *ways)
    for what, key in (("from start to a built program, ms", "start_ms"), ("empty kernel and clFinish, us", "finish_us"),
                      ("queued launch, us", "launch_us"), ("clSetKernelArg by Python's ctypes, us", "set_arg_us")):
        report.row(what, *(f"{best(rows[way], key):.1f}" for way in ways))
    for way in ("write", "read"):
        for size in rows["native"][0][way]:
            report.row(f"{way} {int(size) >> 10} KiB, MB/s", *(f"{best(rows[place], way, size):.0f}" for place in ways))
    for name in rows["native"][0]["device_ms"]:
        for key, what in (("device_ms", "on the device"), ("queued_ms", "queued to end"), ("wall_ms", "launch and clFinish")):
            report.row(f"kernel `{name}`, {what}, ms", *(f"{best(rows[way], key, name):.3f}" for way in ways))
    ratios = [best(rows["VM"], "device_ms", name) / best(rows["native"], "device_ms", name)
              for name in rows["native"][0]["device_ms"]]
    report.judge(all(0.95 <= ratio <= 1.05 for ratio in ratios), "time of kernels on the device, of a VM / native",
                 *(f"{ratio:.3f}" for ratio in ratios))
    done = after["done"] - before["done"]
    report.say(f"the proxy counts {done} commands of the VM's and of TCP's programs, "
               f"{(after['run_ns'] - before['run_ns']) / 1e6 / done:.3f} ms each, "
               f"{(after['wait_ns'] - before['wait_ns']) / 1e6 / done:.3f} ms of waiting")


def copies(lab_, guest):
    """Threads whose contexts come and go while they copy."""
    argv = [PYTHON, ours("tests/opencl/transfers.py"), "/opencl/libvgpu-opencl.so", "8", "3"]
    program = Program(guest, "copies", argv)
    status, text = program.end()
    lab_.report.judge(status == 0 and " 0 wrong, errors: none" in text, "copies from a VM", text.strip(),
                      program.complaint()[-200:])


def hashcat(lab_, guest):
    """A program that nobody here wrote: it finds a word, on the host and in the VM."""
    if not os.path.exists("/usr/bin/hashcat") or not lab_.is_gpu:
        lab_.report.say("hashcat: not run, it needs a GPU, and its package in the archive")
        return
    md5 = "5d41402abc4b2a76b9719d911017c592"  # hello
    argv = ["/usr/bin/hashcat", "--backend-ignore-cuda", "--self-test-disable", "--potfile-disable", "--force", "-m", "0",
            "-a", "3", md5, "?l?l?l?l?l"]
    folders = {"XDG_DATA_HOME": "/tmp", "XDG_CACHE_HOME": "/tmp"}
    status, here, took_s = on_host(argv, {**native(lab_.vendor), **folders})
    program = Program(guest, "hashcat", argv, **folders)
    status_there, there = program.end(150)
    found = [re.findall(rf"{md5}:\S+", text) for text in (here, there)]
    speeds = [re.findall(r"Speed\.#1\S*: *(.*)", text)[-1:] for text in (here, there)]
    lab_.report.judge(found[0] == found[1] == [md5 + ":hello"], "hashcat, MD5",
                      f"native {found[0]} {speeds[0]} status {status} in {took_s:.1f} s, VM {found[1]} {speeds[1]} "
                      f"status {status_there} in {program.took_s:.1f} s")
    if not found[0] == found[1] == [f"{md5}:hello"]:
        lab_.report.say("native:", here[-1200:], "\nVM:", there[-800:], program.complaint()[-400:])


def part_guest(lab_):
    [guest] = lab_.guests("vm1")
    status, text = Program(guest, "before", ["clinfo"]).end()
    lab_.report.judge(status == 0 and re.search(r"Number of platforms +0", text), "before its host has a proxy",
                      "clinfo finds no platform")
    address = f"tcp:{guest.here}:{PORT}"
    proxy = lab_.proxy("proxy", [("vm1", address, ""), ("local", os.path.join(vm_lab.WORK, "local.sock"), "")])
    began = time.monotonic()
    node = lab_.node([proxy], [guest], [address])
    lab_.report.say(f"the guest knew {address} {time.monotonic() - began:.1f} s after vgpud began")
    proxy.told()  # which counts from now on
    for step in (lambda: clinfo(lab_, guest), lambda: results(lab_, guest), lambda: costs(lab_, guest, proxy, address),
                 lambda: copies(lab_, guest), lambda: hashcat(lab_, guest)):
        try:
            step()
        except (Failed, AssertionError, subprocess.TimeoutExpired) as error:
            lab_.report.judge(False, "a step", repr(error)[:1500])
    lab_.report.say(node.run("proxy", "list"))
    said = [line for line in proxy.said().splitlines() if "signal" in line or "crash" in line]
    lab_.report.judge(not said, "the proxy's log has no client that crashed", said[:5] or "none")


# ---- shares ----

def backlog(guest, name, steps, *think):
    return Program(guest, name, [PYTHON, ours("tests/gpu/vm_backlog.py"), steps, *think])


def ready(program):
    wait_for(lambda: program.ask("said") == "there" or program.has_ended(), 60, pause=0.1)
    if program.has_ended():
        raise Failed(f"{program.name}: {program.text()} {program.complaint()}")


def held_s(proxy):
    return [told_["held_ns"] / 1e9 for told_ in proxy.told()]


def figures(node, guest):
    """What vgpud knows of a VM's OpenCL: seconds at work."""
    rows = [row for row in node.daemon.get(f"/v1/vms/{guest.name}/gpu")["gpu"] if row["engine"] == "opencl"]
    return sum(row["exec_ns"] for row in rows) / 1e9 if rows else None


def weights(lab_, node, proxy, guests):
    """Both always have work."""
    programs_ = [backlog(guest, "busy", lab_.steps()) for guest in guests]
    for program in programs_:
        ready(program)
    time.sleep(3)
    dmon = vm_daemon.Dmon(WATCH_S)
    first, ran, began = held_s(proxy), [t["run_ns"] for t in proxy.told()], time.monotonic()
    known = [figures(node, guest) for guest in guests]
    time.sleep(WATCH_S)
    took = time.monotonic() - began
    passed = [now - then for now, then in zip(held_s(proxy), first)]
    ran = [(t["run_ns"] - then) / 1e9 for t, then in zip(proxy.told(), ran)]
    known = [now - then if now is not None and then is not None else None
             for now, then in zip([figures(node, guest) for guest in guests], known)]
    share = passed[1] / sum(passed)
    lab_.report.judge(abs(share - 0.75) <= 0.03, "weights 1 and 3",
                      f"{100 - 100 * share:.1f} and {100 * share:.1f} % of {sum(passed):.2f} s that the VMs had the device, "
                      f"of {took:.2f} s")
    lab_.report.say("seconds that commands ran, by the proxy:", [round(s, 2) for s in ran], "by vgpud:",
                    [s if s is None else round(s, 2) for s in known])
    lab_.report.say("nvidia-smi dmon, mean of the GPU meanwhile:", dmon.end())
    return programs_


def goes_on(lab_, proxy, number, what):
    before, began = proxy.told()[number]["done"], time.monotonic()
    wait_for(lambda: proxy.told()[number]["done"] > before + 20, 60, pause=0.05)
    lab_.report.judge(True, what, f"the other VM did 20 more commands within {time.monotonic() - began:.2f} s")


def part_shares(lab_):
    guests = lab_.guests("vm1", "vm2")
    addresses = [f"tcp:{guest.here}:{PORT}" for guest in guests]
    before = smi("gpu", "memory.used")
    proxy = lab_.proxy("proxy", [("vm1", addresses[0], ",weight=1"), ("vm2", addresses[1], ",weight=3")],
                       f"--max-kernel={MAX_KERNEL_S}", f"--linger={LINGER_S}")
    node = lab_.node([proxy], guests, addresses)
    proxy.told()
    busy = weights(lab_, node, proxy, guests)
    lab_.report.say("nvidia-smi, processes:", smi("compute-apps", "pid,process_name,used_memory"))
    busy[0].kill()
    goes_on(lab_, proxy, 1, "a program of vm1 is killed")
    endless = backlog(guests[0], "endless", "0")
    began = time.monotonic()
    status, text = endless.end(60)
    lab_.report.judge(status != 0 and f"took longer than {MAX_KERNEL_S} s" in endless.complaint(), "a kernel that never ends",
                      f"its program was ended after {time.monotonic() - began:.1f} s, status {status}, {text.strip()}, told:",
                      endless.complaint().strip()[-200:])
    goes_on(lab_, proxy, 1, "after a kernel that never ends")
    again = backlog(guests[0], "again", lab_.steps())
    ready(again)
    lab("virsh", "h1", "-q", "destroy", "vm1")
    goes_on(lab_, proxy, 1, "VM vm1 is destroyed")
    began = time.monotonic()
    busy[1].kill()
    try:
        wait_for(lambda: not any(t["clients"] for t in proxy.told()), LEAVES_S, pause=0.2)
    except AssertionError:
        lab_.report.judge(False, "all clients have left the proxy",
                          [(t["vm"], t["clients"]) for t in proxy.told()], proxy.said()[-600:])
    lab_.report.say(f"the last client left the proxy {time.monotonic() - began:.1f} s later, with --linger={LINGER_S}")
    after = smi("gpu", "memory.used")
    for _ in range(50):
        if after == before:
            break
        time.sleep(0.1)
        after = smi("gpu", "memory.used")
    lab_.report.judge(after == before, "memory of the GPU before, and when all are gone, MiB", before, after)


# ---- moves ----

def stops(node, guest, program, places, count):
    """A program goes to one place after the other. Milliseconds of each stop."""
    took = []
    for n in range(count):
        time.sleep(0.1)
        [one] = node.move(guest, places[(n + 1) % len(places)])
        if one["state"] != "away" or not one["at"].endswith(places[(n + 1) % len(places)]):
            raise Failed(f"{program.name} after {n} moves: {one}")
        took.append(one["stop_ns"] / 1e6)
    return sorted(took)


def part_moves(lab_, *options):
    [guest] = lab_.guests("vm1")
    places = [f"tcp:{guest.here}:{PORT + n}" for n in range(2)]
    proxies = [lab_.proxy(f"proxy{n}", [("vm1", place, "")], *options) for n, place in enumerate(places)]
    node = lab_.node(proxies, [guest], places[:1])
    for what, argv, count in (("waves", ["waves", "512", "60", "5"], MOVES),
                              ("frames, 16 MiB", ["frames", "16", "100", "20"], FRAMES_MOVES)):
        program = Program(guest, argv[0], [f"{BUILT}/{argv[0]}", *argv[1:], f"/tmp/{argv[0]}.wait"])
        wait_for(lambda p=program: p.ask("said"), 60, pause=0.1)
        took = stops(node, guest, program, places, count)
        guest.tell(f"opencl go {argv[0]}")
        status, text = program.end()
        times = [int(ms) for ms in re.findall(r"^frame \d+ at (\d+) ms", text, re.M)]
        if times:
            gaps = sorted(now - then for then, now in zip(times, times[1:]))
            lab_.report.say(f"{what}: {len(times)} frames; gaps between them: median {gaps[len(gaps) // 2]} ms, the "
                            f"{count} longest {gaps[-count]} to {gaps[-1]} ms")
            # It has made more of them while it was moved.
            argv[2:] = [str(len(times)), "0"]
        alone = [last_word(on_host([f"{BUILT}/{argv[0]}", *argv[1:]], native(lab_.vendor))[1]) for _ in range(2)]
        lab_.report.judge(status == 0 and alone[0] == alone[1] == last_word(text), f"{what}, {count} moves between two proxies",
                          f"stood still for {took[len(took) // 2]:.0f} ms, {took[0]:.0f} to {took[-1]:.0f} ms; sum natively, "
                          f"twice {alone}, moved {last_word(text)}, status {status}", program.complaint()[-200:])


def part_daemon(lab_):
    vm_daemon.part(lab_, lambda guest, *more: backlog(guest, "load", *more), ready)


def run(name, report, vendor, root):
    with Lab(report, vendor, root) as lab_:
        {"guest": part_guest, "host": vm_host.part, "shares": part_shares, "moves": part_moves,
         "moves-warm": lambda lab_: part_moves(lab_, "--warm"),
         "migrate": vm_migrate.part, "daemon": part_daemon}[name](lab_)
