# SPDX-License-Identifier: Apache-2.0
"""Programs of OpenCL with the library before PoCL, and an agent that stops them."""
import glob
import json
import os
import random
import re
import shutil
import signal
import socket
import struct
import subprocess
import sys
import threading
import time

from settings import HANG_S
from unixhttp import ROOT, build_dir, wait_for

# PoCL's device is the same on each machine: unless it is told, it has what memory is free at the moment, and as
# many threads as there are CPUs.
os.environ.setdefault("POCL_MEMORY_LIMIT", "1")
os.environ.setdefault("POCL_MAX_PTHREAD_COUNT", "2")

POCL = "libpocl.so.2"
SEED = int(os.environ.get("VG_TEST_SEED", "1")) % 1000000
# For as long as a busy machine may take.
PREPARE = f"prepare {HANG_S * 1000}"
FULL = os.environ.get("VG_TEST_FULL") == "1"

# Extensions that are not offered: those with functions of their own, and some vendors' own.
HIDDEN = re.compile(r"cl_(pocl|intel|ext|arm)_\w+|cl_nv_(create_buffer|kernel_attribute|copy_opts)|cl_khr_("
                    r"command_buffer|subgroups|priority_hints|throttle_hints|il_program|gl_|egl_|d3d|dx9|external_"
                    r"|semaphore|device_uuid|pci_bus_info|suggested_local|create_command_queue|terminate_context"
                    r"|initialize_memory)\w*")
# Lines about them, and about what is not offered, each with those below it that are further to the right.
BLOCKS = ("Shared Virtual Memory (SVM) capabilities", "Command buffer", "(USM)", "(Intel)", "loating-point atomic")


def told(text):
    """What clinfo says that is the same with the library and without it: all but the mark in the platform's version, and
    extensions and shared virtual memory, which are not offered."""
    lines, block = [], None
    for line in text.splitlines():
        indent = len(line) - len(line.lstrip())
        if block is not None and indent > block:
            continue
        block = indent if any(word in line for word in BLOCKS) else None
        if re.match(r" *Platform Version |.*CL_PLATFORM_VERSION", line):
            line = line.removesuffix(" (vgpud)")
        elif re.match(r" *(Platform|Device) Extensions  ", line):
            line = re.sub(f" +({HIDDEN.pattern})(?= |$)", "", line)
        elif HIDDEN.search(line):
            continue
        if block is None:
            lines.append(line)
    return lines


def skip(why):
    # Not all that use this are tests of pytest's.
    import pytest  # pylint: disable=import-outside-toplevel
    pytest.skip(why)


def need_pocl():
    if not glob.glob("/etc/OpenCL/vendors/pocl.icd"):
        skip("there is no PoCL (pocl-opencl-icd)")


def need(program):
    if not shutil.which(program):
        skip(f"there is no {program}")


def built(*names):
    # With sanitizers, only the library and few programs are built.
    return os.path.join(os.environ.get("VG_OPENCL_BUILDDIR") or build_dir(), *names)


def native():
    return {**os.environ, "OCL_ICD_VENDORS": POCL}


def output(argv, environment):
    return subprocess.run(argv, env=environment, stdout=subprocess.PIPE, check=True, timeout=HANG_S).stdout.decode()


def taken(pid):
    """What a process that is not stopped has: threads, descriptors, MiB of memory."""
    with open(f"/proc/{pid}/status", encoding="ascii") as file:
        status = file.read()
    threads, kib = (int(re.search(rf"^{word}:\s+(\d+)", status, re.M)[1]) for word in ("Threads", "VmRSS"))
    return threads, len(os.listdir(f"/proc/{pid}/fd")), kib / 1024


def make_film(path, frames, times=1):
    """So many frames, which come so many times."""
    width, height = 320, 240
    with open(path, "wb") as film:
        film.write(b"YUV4MPEG2 W320 H240 F25:1 Ip A1:1 C420jpeg\n")
        scene = b""
        for n in range(frames):
            luma = bytes((i * 2 + j * 3 + n * 5 + (i * j >> 5)) & 255 for j in range(height) for i in range(width))
            scene += b"FRAME\n" + luma + bytes([128]) * (width * height // 2)
        for _ in range(times):
            film.write(scene)


class Stopped:
    """A program with an agent that it has said hello to."""

    def __init__(self, folder, argv, vendor=POCL, inherit=(), stdin=None, **more):
        os.makedirs(folder / "vendors", exist_ok=True)
        (folder / "vendors" / "test.icd").write_text(vendor + "\n")
        # Its path may be longer than an address has room for.
        self.dir = os.open(folder, os.O_PATH | os.O_DIRECTORY)
        os.set_inheritable(self.dir, True)
        path = f"/proc/self/fd/{self.dir}/agent.sock"
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(path)
        self.listener.listen(1)
        self.listener.settimeout(1)
        environment = {**os.environ, "OCL_ICD_VENDORS": built("libvgpu-opencl.so"),
                       "VGPU_OPENCL_VENDORS": str(folder / "vendors"), "VGPU_OPENCL_AGENT": path, **more}
        self.process = subprocess.Popen(argv, env=environment, stdin=stdin, stdout=subprocess.PIPE,
                                        cwd=folder, pass_fds=[self.dir, *inherit])

    def accept(self):
        """Does not wait for one that has ended."""
        for _ in range(HANG_S):
            has_ended = self.process.poll() is not None
            try:
                return self.listener.accept()[0]
            except TimeoutError:
                if has_ended:
                    break
        raise TimeoutError(f"it has not said hello; its status is {self.process.returncode}")

    def __enter__(self):
        try:
            connection = self.accept()
        except TimeoutError:
            self.__exit__()
            raise
        connection.settimeout(HANG_S)
        self.lines = connection.makefile("rw")
        assert self.lines.readline() == f"hello 1 {self.process.pid}\n"
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()
        self.listener.close()
        os.close(self.dir)

    def say(self, line):
        """The answer; empty: the program has ended."""
        try:
            self.lines.write(line + "\n")
            self.lines.flush()
            return self.lines.readline().strip()
        except (BrokenPipeError, ConnectionResetError):
            return ""

    def stop_at_random(self, seed, most, *places, longest=0.02):
        """Stops it and lets it go on until it ends, MOST times, LONGEST seconds after the last at most, at one place after
        the other; none: where it was. Returns how often it was, and why not."""
        chance = random.Random(seed)
        stops, refusals = 0, []
        while stops < most:
            time.sleep(chance.random() * longest)
            answer = self.say(PREPARE)
            if not answer:
                break
            if answer.startswith("refused"):
                refusals.append(answer)
                continue
            assert answer.startswith("released"), answer
            stops += 1
            place = places[stops % len(places)] if places else ""
            answer = self.say(f"resume at {place}" if place else "resume")
            if answer.startswith("late"):  # on a busy machine; the answer is yet to come
                answer = self.lines.readline().strip()
            # It may end as soon as it goes on, before it can say so.
            if not answer:
                break
            assert answer.startswith("resumed"), answer
            answer = self.say("ask")
            if not answer or answer.endswith("the program is exiting"):
                break
            assert answer.startswith("is away" if place else ("is running", "is remote")), answer
        return stops, refusals


LINK = b"VGPULNK1"


def ask_proxy(path, line="list"):
    """The answer of the socket where a proxy is asked: what it tells, or a line."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as connection:
        connection.settimeout(HANG_S)
        connection.connect(str(path))
        connection.sendall(line.encode())
        answer, fds, _, _ = socket.recv_fds(connection, 256, 1)
    if not fds:
        return answer.decode()
    with os.fdopen(fds[0], encoding="utf-8") as file:
        file.seek(0)
        return json.load(file)


class Proxy:
    """vgpu-proxy with PoCL, or another vendor."""

    def __init__(self, folder, *options, sockets=("proxy.sock",), prefix=(), vendor=POCL, strict=True,
                 program=None):
        self.sockets = [name if name.startswith(("tcp:", "tls:")) else str(folder / name) for name in sockets]
        self.path = self.sockets[0].split(",")[0]
        self.log = folder / "proxy.log"
        os.makedirs(folder / "vendors", exist_ok=True)
        (folder / "vendors" / "pocl.icd").write_text(vendor + "\n")
        argv = [*prefix, program or built("vgpu-proxy"), "--drain=2", *(["--strict"] if strict else []),
                f"--vendors={folder}/vendors", *options, *self.sockets]
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(argv, stderr=log, cwd=folder)
        wait_for(self.listens)

    def __enter__(self):
        return self

    def listens(self):
        assert self.process.poll() is None, self.log.read_text()
        return os.path.exists(self.sockets[-1].split(",")[0])

    def __exit__(self, *_):
        self.process.terminate()
        assert self.process.wait(HANG_S) == 0
        # What a client's process may not do, or what a sanitizer finds in it.
        said = self.log.read_text()
        assert not re.search(r"signal (31|11|6|7|4)\b|Sanitizer|runtime error", said), said

    def environment(self, **more):
        return {**os.environ, "OCL_ICD_VENDORS": built("libvgpu-opencl.so"), "VGPU_OPENCL_AGENT": "/nowhere",
                "VGPU_OPENCL": "proxy:" + self.path, **more}

    def held(self):
        """For how many seconds the clients of each socket had the device by now."""
        before = self.log.read_text().count("had the device for")
        self.process.send_signal(signal.SIGUSR1)
        wait_for(lambda: self.log.read_text().count("had the device for") >= before + len(self.sockets))
        return [float(s) for s in re.findall(r"had the device for ([\d.]+) s", self.log.read_text())][-len(self.sockets):]

    def backlogged(self, steps, socket_n=0, **more):
        """A program whose device always has something to do, which is at it."""
        argv = [sys.executable, os.path.join(ROOT, "tests", "opencl", "backlog.py"), str(steps)]
        environment = self.environment(VGPU_OPENCL="proxy:" + self.sockets[socket_n].split(",")[0], **more)
        return subprocess.Popen(argv, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE)

    def children(self):
        """The clients' processes, without those that carry TLS before them, or have not begun, and may be to do that, and
        without the one that looks what devices there are."""
        with open(f"/proc/{self.process.pid}/task/{self.process.pid}/children", encoding="ascii") as file:
            pids = [int(pid) for pid in file.read().split()]
        return [pid for pid in pids if self.name(pid) not in ("vgpu-proxy-tls", "vgpu-proxy", "vgpu-proxy-look")]

    @staticmethod
    def name(pid):
        try:
            with open(f"/proc/{pid}/comm", encoding="ascii") as file:
                return file.read().strip()
        except (FileNotFoundError, ProcessLookupError):
            return ""

    def ask(self, line="list"):
        return ask_proxy(self.path + ".ask", line)

    def connect(self, way=0):
        """A connection to lie by, which is a socket alone (0), or comes with memory that both sides have."""
        connection = socket.socket(socket.AF_UNIX)
        connection.settimeout(HANG_S)
        connection.connect(self.path)
        connection.sendall(LINK + struct.pack("<QQ", way, 0))
        if way == 0:
            assert connection.recv(24) == LINK + bytes(16)
        return connection


# How a program in Python begins that has a queue at the first device.
WITH_A_QUEUE = """
import ctypes, sys
cl = ctypes.CDLL("libOpenCL.so.1")
cl.clCreateContext.restype = cl.clCreateBuffer.restype = cl.clCreateCommandQueue.restype = ctypes.c_void_p
platform, device, error = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_int()
cl.clGetPlatformIDs(1, ctypes.byref(platform), None)
cl.clGetDeviceIDs(platform, ctypes.c_uint64(0xFFFFFFFF), 1, ctypes.byref(device), None)
context = ctypes.c_void_p(cl.clCreateContext(None, 1, ctypes.byref(device), None, None, None))
queue = ctypes.c_void_p(cl.clCreateCommandQueue(context, device, ctypes.c_uint64(0), None))
"""


class Holder:
    """A program that has buffers, each of so many MiB."""

    SOURCE = WITH_A_QUEUE + """
made = []
for line in sys.stdin:
    if line.strip():
        made.append(ctypes.c_void_p(cl.clCreateBuffer(context, ctypes.c_uint64(1), ctypes.c_size_t(int(line) << 20), None,
                                                      ctypes.byref(error))))
    else:
        cl.clReleaseMemObject(made.pop())
    # What the proxy does not answer waits for what it does.
    print(error.value or cl.clFinish(queue), flush=True)
"""

    def __init__(self, environment):
        self.process = subprocess.Popen([sys.executable, "-c", self.SOURCE], env=environment, stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True)

    def hold(self, mib=""):
        """Makes one more; without a size, the last is given back."""
        self.process.stdin.write(f"{mib}\n")
        self.process.stdin.flush()
        assert self.process.stdout.readline() == "0\n"

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        assert self.process.wait(HANG_S) == 0
        self.process.stdout.close()


class Beside:
    """Runs a program again and again until it is to end, and keeps what it said when that was not right."""

    def __init__(self, argv, environment, is_right, inherit=()):
        self.argv, self.environment, self.is_right, self.inherit = argv, environment, is_right, inherit
        self.runs, self.wrong, self.ended = 0, [], False
        self.thread = threading.Thread(target=self.work)

    def work(self):
        while not self.ended:
            done = subprocess.run(self.argv, env=self.environment, capture_output=True, text=True, timeout=5 * HANG_S,
                                  pass_fds=self.inherit, check=False)
            self.runs += 1
            if done.returncode != 0 or not self.is_right(done.stdout):
                self.wrong.append((done.returncode, done.stdout[-300:], done.stderr[-300:]))

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.ended = True
        self.thread.join()
