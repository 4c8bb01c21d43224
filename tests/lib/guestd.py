# SPDX-License-Identifier: Apache-2.0
"""vgpu-guestd under test, the host that talks to it, and a guest for it: files in the place of /sys and
/dev, a thread in the place of the kernel, and real processes."""
import itertools
import json
import os
import selectors
import shutil
import signal
import socket
import subprocess
import sys
import threading

from settings import HANG_S
from unixhttp import build_dir, wait_for

IDS = itertools.count(1)
# Of a request that is meant to succeed.
LONG_MS = HANG_S * 1000


def deadlines(first_ms=1000):
    """Longer and longer ones, for what is told at a deadline: by an early one, a busy machine has not come so far."""
    deadline_ms = first_ms
    while deadline_ms < 4 * LONG_MS:
        yield deadline_ms
        deadline_ms *= 4


def at_deadline(ask, fits, first_ms=1000):
    """The first answer of ask(deadline_ms) that fits, or else the last one."""
    for deadline_ms in deadlines(first_ms):
        done = ask(deadline_ms)
        if fits(done):
            break
    return done


def program():
    return os.environ.get("VGPU_GUESTD", os.path.join(build_dir(), "vgpu-guestd"))


def is_alive(pid):
    """A zombie is not; whoever is pid 1 may be slow to reap it."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
            return file.read().rsplit(")", 1)[1].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


class Guest:
    """What a guest's kernel shows and does, below a directory."""

    def __init__(self, directory):
        self.root = str(directory)
        self.hooks = os.path.join(self.root, "hooks")
        self.log = os.path.join(self.root, "hooks.log")
        for path in ("sys/bus/pci/devices", "sys/bus/pci/drivers", "dev/dri", "hooks/prepare",
                     "hooks/resume"):
            os.makedirs(os.path.join(self.root, path))
        self.selector = selectors.DefaultSelector()
        self.wake, self.woken = os.pipe()
        self.selector.register(self.wake, selectors.EVENT_READ)
        self.drivers = {}
        self.probe_driver = {}
        self.before_unbind = lambda: None
        self.fifo("sys/bus/pci/drivers_probe", self.probe)
        self.show_processes()
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        os.write(self.woken, b"x")
        self.thread.join()
        for key in list(self.selector.get_map().values()):
            os.close(key.fd)
        os.close(self.woken)
        self.selector.close()

    def path(self, *parts):
        return os.path.join(self.root, *parts)

    def write(self, path, text):
        os.makedirs(os.path.dirname(self.path(path)), exist_ok=True)
        with open(self.path(path), "w", encoding="utf-8") as file:
            file.write(text)

    def read(self, path):
        """Nothing if it is not there."""
        if not os.path.exists(self.path(path)):
            return ""
        with open(self.path(path), encoding="utf-8") as file:
            return file.read()

    def show_processes(self, *pids):
        """All of the machine's, or these only, with room for other files in /proc."""
        proc = self.path("proc")
        if os.path.islink(proc):
            os.unlink(proc)
        if not pids:
            os.symlink("/proc", proc)
            return
        os.mkdir(proc)
        for pid in pids:
            os.symlink(f"/proc/{pid}", os.path.join(proc, str(pid)))

    # ---- the kernel ----

    def fifo(self, path, handler):
        """A file of sysfs that does something when an address is written to it."""
        os.mkfifo(self.path(path))
        # Open for both, so that writers need not wait.
        fd = os.open(self.path(path), os.O_RDWR | os.O_NONBLOCK)
        self.selector.register(fd, selectors.EVENT_READ, handler)

    def run(self):
        while True:
            for key, _ in self.selector.select():
                if key.fd == self.wake:
                    return
                for address in os.read(key.fd, 12 * 16).decode().replace("0000:", " 0000:").split():
                    key.data(address)

    def device_dir(self, address):
        return os.path.realpath(self.path("sys/bus/pci/devices", address))

    def driver_of(self, address):
        link = os.path.join(self.device_dir(address), "driver")
        return os.path.basename(os.readlink(link)) if os.path.islink(link) else None

    def add_driver(self, name, unbinds=True):
        base = f"sys/bus/pci/drivers/{name}"
        os.makedirs(self.path(base))
        if unbinds:
            self.fifo(f"{base}/unbind", self.unbind)
        else:
            # Who opens it waits for ever.
            os.mkfifo(self.path(base, "unbind"))
        self.fifo(f"{base}/bind", lambda address: self.bind(address, name))

    def bind(self, address, driver):
        os.symlink(self.device_dir(address), self.path("sys/bus/pci/drivers", driver, address))
        os.symlink(self.path("sys/bus/pci/drivers", driver),
                   os.path.join(self.device_dir(address), "driver"))

    def unbind(self, address):
        self.before_unbind()
        driver = self.driver_of(address)
        os.unlink(self.path("sys/bus/pci/drivers", driver, address))
        os.unlink(os.path.join(self.device_dir(address), "driver"))

    def probe(self, address):
        if self.probe_driver.get(address):
            self.bind(address, self.probe_driver[address])

    def add_gpu(self, address="0000:01:00.0", bridge="0000:00:02.1", driver="fake", node="card0",
                ids=("0x10de", "0x20b0"), pci_class="0x030200", numbers="226:0"):
        """Returns the path of its node, if it has one."""
        directory = os.path.normpath(f"sys/devices/pci0000:00/{bridge}/{address}")
        for name, text in (("vendor", ids[0]), ("device", ids[1]), ("class", pci_class),
                           ("config", ""), ("resource", ""), ("resource2", "x" * 4096)):
            self.write(f"{directory}/{name}", text + "\n")
        if node:
            self.write(f"{directory}/drm/{node}/dev", numbers + "\n")
            self.write(f"{directory}/drm/{node}/uevent", f"DEVTYPE=drm_minor\nDEVNAME=dri/{node}\n")
            self.write(f"dev/dri/{node}", "x" * 4096)
        # A device shows up in one step.
        os.symlink(self.path(directory), self.path("sys/bus/pci/devices", address))
        if driver:
            if not os.path.exists(self.path("sys/bus/pci/drivers", driver)):
                self.add_driver(driver)
            self.bind(address, driver)
            self.probe_driver[address] = driver
        return self.path("dev/dri", node) if node else None

    def remove_gpu(self, address="0000:01:00.0"):
        if self.driver_of(address):
            self.unbind(address)
        directory = self.device_dir(address)
        os.unlink(self.path("sys/bus/pci/devices", address))
        shutil.rmtree(directory)

    # ---- its owner's programs ----

    def hook(self, phase, name, script=""):
        """One that notes that it ran, then does this."""
        path = os.path.join(self.hooks, phase, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(f"#!/bin/sh\necho {phase}/{name} >> {self.log}\n{script}\n")
        os.chmod(path, 0o755)

    def ran(self):
        return self.read("hooks.log").split()

    def holder(self, path, how="open"):
        return Holder(path, how)


HOLDER = """
import ctypes, mmap, os, sys, threading, time
path, how = sys.argv[1:]
fd = os.open(path, os.O_RDWR)
if how == "mapped":
    held = mmap.mmap(fd, 4096)
    # mmap keeps a duplicate of its own, which is closed like this only.
    os.closerange(3, 100)
def wait():
    print("ready", flush=True)
    time.sleep(100000)
if how == "thread":
    threading.Thread(target=wait).start()
    # The first thread ends, the process does not.
    ctypes.CDLL(None).pthread_exit(None)
wait()
"""


class Holder:
    """A process that has a file open or mapped."""

    def __init__(self, path, how):
        self.process = subprocess.Popen([sys.executable, "-c", HOLDER, path, how],
                                        stdout=subprocess.PIPE, text=True)
        assert self.process.stdout.readline() == "ready\n"
        self.pid = self.process.pid

    def __enter__(self):
        return self

    def end(self):
        self.process.kill()
        self.process.wait()

    def __exit__(self, *_):
        self.end()
        self.process.stdout.close()


class Host:
    """The host's side of the channel."""

    def __init__(self, path, greet=True):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(HANG_S)
        wait_for(lambda: self.connect(path))
        self.lines = self.socket.makefile("rb")
        if greet:
            self.greeting = self.ask("hello", versions=[1])

    def connect(self, path):
        try:
            self.socket.connect(path)
            return True
        except (FileNotFoundError, ConnectionRefusedError):
            return False

    def send(self, data):
        self.socket.sendall(data)

    def receive(self):
        line = self.lines.readline()
        assert line.endswith(b"\n"), f"the agent has closed the connection after {line}"
        return json.loads(line)

    def request(self, kind, **members):
        """Sends it, and returns its id."""
        number = members.pop("id", None) or next(IDS)
        self.send(json.dumps({"id": number, "type": kind, **members}).encode() + b"\n")
        return number

    def answer(self, number, progress=None):
        """The one that is no progress; what else comes before it is put into progress."""
        while True:
            message = self.receive()
            if message["id"] == number and message["type"] != "progress":
                return message
            # One is repeated as it was while nothing new comes, which on a busy machine takes its time.
            if progress is not None and message not in progress[-1:]:
                progress.append(message)

    def until(self, matches):
        while True:
            message = self.receive()
            if matches(message):
                return message

    def until_step(self, step):
        def is_it(message):
            assert message["type"] == "progress", message
            return message["step"] == step

        return self.until(is_it)

    def ask(self, kind, progress=None, **members):
        return self.answer(self.request(kind, **members), progress)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.lines.close()
        self.socket.close()


class Connected:
    """Words on how the agent can be reached, whose path may be longer than an address has room for."""

    def __init__(self, guest):
        self.dir = os.open(guest.path("run"), os.O_PATH | os.O_DIRECTORY)
        os.set_inheritable(self.dir, True)
        self.path = f"/proc/self/fd/{self.dir}/vgpu-guestd/opencl.sock"

    def close(self):
        os.close(self.dir)


class Agent:
    def __init__(self, guest, *args):
        self.guest = guest
        self.socket = guest.path("agent.sock")
        self.log_path = guest.path("agent.log")
        with open(self.log_path, "ab") as log:
            self.process = subprocess.Popen(
                [program(), "--listen", self.socket, "--hooks", guest.hooks, "--sysroot",
                 guest.root, *args], stdin=subprocess.DEVNULL, stderr=log)

    def host(self, greet=True):
        return Host(self.socket, greet)

    def log(self):
        with open(self.log_path, encoding="utf-8") as file:
            return file.read()

    def memory_kib(self):
        with open(f"/proc/{self.process.pid}/status", encoding="utf-8") as file:
            peak = [line for line in file if line.startswith("VmHWM:")]
        return int(peak[0].split()[1])

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(HANG_S) == 0, self.log()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.stop()
