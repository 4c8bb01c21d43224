# SPDX-License-Identifier: Apache-2.0
"""Programs whose OpenCL is behind vgpu-proxy: what they see is what they see with PoCL alone, and what happens to one
of them is nothing to the others."""
import contextlib
import errno
import glob
import hashlib
import mmap
import os
import random
import re
import signal
import socket
import struct
import subprocess
import sys
import threading
import time

import pytest
from cached import BUILT, CACHING_AGAIN, LOADED, REFUSED, cached
from guestd import Agent, Guest
from opencl import (FULL, LINK, POCL, PREPARE, SEED, WITH_A_QUEUE, Proxy, Stopped, built, make_film, native, need, need_pocl,
                    output, taken, told)
from ports import free_port, knows_localhost
from settings import HANG_S, sample
from test_opencl import CRASHES, every_function, twice
from unixhttp import ROOT, wait_for
from vgpud import pause


# Where PoCL bears what the standard forbids, and a proxy must not pass it on; and what cannot be run elsewhere.
OTHERWISE = ("clGetDeviceInfo: 0x1029", "clEnqueueReadBuffer: an image", "clEnqueueWriteBuffer: an image",
             "clEnqueueReadImage: row_pitch 1",
             "clEnqueueReadImage: row_pitch 5", "clEnqueueReadImage: pitch", "clEnqueueReadImage: a buffer",
             "clEnqueueWriteImage: input_row_pitch 1", "clEnqueueWriteImage: input_row_pitch 5", "clEnqueueNativeKernel:")


def but_for(lines, names):
    """Without what came of the calls of these names."""
    left, is_left = [], True
    for line in lines:
        is_left = not line.startswith(names) if line[0] != " " else is_left
        left += [line] if is_left else []
    return left


@pytest.fixture(autouse=True)
def _pocl():
    need_pocl()


@pytest.fixture(name="proxy")
def _proxy(tmp_path):
    with Proxy(tmp_path, "--allow-binaries") as proxy:
        yield proxy


def test_clinfo(proxy):
    need("clinfo")
    # A function of the program cannot be run elsewhere.
    alone = [line.replace("Yes", "No ") if "Run native kernels" in line else line
             for line in told(output(["clinfo"], native()))]
    assert [line.strip() for line in told(output(["clinfo"], proxy.environment()))] == [line.strip() for line in alone]


def test_an_icd_file(tmp_path, proxy):
    """A proxy stands where a vendor's library does."""
    need("clinfo")
    folder = tmp_path / "guest"
    os.makedirs(folder)
    (folder / "proxy.icd").write_text(f"proxy:{proxy.path}\n")
    environment = {**proxy.environment(), "VGPU_OPENCL": "", "VGPU_OPENCL_VENDORS": str(folder)}
    listed = output(["clinfo"], environment)
    assert listed.count(" (vgpud)\n") == 1 and "Portable Computing Language\n" in listed


def test_programs(proxy):
    lines = output([built("tests/opencl/six"), POCL, built("libvgpu-opencl.so"), "1"], proxy.environment())
    assert lines.count("equal") == 6


@twice
@pytest.mark.parametrize("seed", [SEED + n for n in range(40)] if FULL else [2])
def test_random_calls(proxy, seed):
    argv = [built("tests/opencl/random-calls"), str(seed), "300"]
    assert output(argv, proxy.environment()) == output(argv, native())


@twice
@pytest.mark.parametrize("seed", [SEED + n for n in range(10)] if FULL else [2])
def test_stops(tmp_path, proxy, seed):
    """A program is taken from a proxy and brought back to it, where it gets another process, as from a vendor."""
    program = built("tests/opencl/random-calls")
    os.makedirs(tmp_path / "program")
    with Stopped(tmp_path / "program", [program, str(seed), "300", "2"], vendor="proxy:" + proxy.path) as stopped:
        stops, refusals = stopped.stop_at_random(seed, 20 if FULL else 5)
        text = stopped.process.stdout.read().decode()
        assert stopped.process.wait() == 0
    assert text == output([program, str(seed), "300"], native())
    assert stops > 0 and not [why for why in refusals if "is mapped" not in why]


OWN_BINARY = WITH_A_QUEUE + """
cl.clCreateProgramWithSource.restype = cl.clCreateProgramWithBinary.restype = ctypes.c_void_p
source = ctypes.c_char_p(b"kernel void one(global int *a) { a[get_global_id(0)] = 1; }")
program = ctypes.c_void_p(cl.clCreateProgramWithSource(context, 1, ctypes.byref(source), None, None))
assert cl.clBuildProgram(program, 0, None, None, None, None) == 0
size, status = ctypes.c_size_t(), ctypes.c_int()
for line in sys.stdin:
    if line == "size\\n":
        print(cl.clGetProgramInfo(program, 0x1165, ctypes.c_size_t(8), ctypes.byref(size), None), flush=True)
        continue
    binary = ctypes.create_string_buffer(size.value)
    to = ctypes.c_void_p(ctypes.addressof(binary))
    print(cl.clGetProgramInfo(program, 0x1166, ctypes.c_size_t(8), ctypes.byref(to), None), flush=True)
    again = ctypes.c_void_p(cl.clCreateProgramWithBinary(context, 1, ctypes.byref(device), ctypes.byref(size),
                                                         ctypes.byref(to), ctypes.byref(status), ctypes.byref(error)))
    print(error.value, cl.clBuildProgram(again, 0, None, None, None, None), flush=True)
"""


def test_a_binary_by_a_size_of_before(tmp_path, proxy):
    """A program that asks how large a binary is, is stopped, and asks for the binary then, gets one of that size."""
    os.makedirs(tmp_path / "program")
    way, ask = os.pipe()
    with Stopped(tmp_path / "program", [sys.executable, "-c", OWN_BINARY], stdin=way) as stopped:
        os.close(way)

        def answers(line, n):
            os.write(ask, line)
            return [stopped.process.stdout.readline() for _ in range(n)]
        for place in (f" at proxy:{proxy.path}", "", f" at proxy:{proxy.path}", f" at proxy:{proxy.path}"):
            assert answers(b"size\n", 1) == [b"0\n"]
            for _ in range(2):
                assert stopped.say(PREPARE).startswith("released")
                assert stopped.say("resume" + place).startswith("resumed")
                assert answers(b"binary\n", 2) == [b"0\n", b"0 0\n"]
        os.close(ask)
        assert stopped.process.wait() == 0


@twice
@pytest.mark.parametrize("seed, most", [(SEED + n, 30) for n in range(10)] + [(11, 1000)] if FULL else [(2, 6)])
def test_switches(tmp_path, proxy, seed, most):
    """A program goes from its own device to a proxy, to another one, and back again, in the middle of its work: it comes
    to the same results, and takes no more for it."""
    # It has to last, and so makes pauses; but PoCL alone compiles for minutes, if there are many steps.
    steps, ms = (5, 20) if most > 100 else (20, 5)
    argv = [built("tests/opencl/random-calls"), str(seed), str(most * steps)]
    text = []
    os.makedirs(tmp_path / "program")
    os.makedirs(tmp_path / "second")
    with Proxy(tmp_path / "second", "--allow-binaries") as second, \
            Stopped(tmp_path / "program", [*argv, str(ms)]) as stopped:
        places = ["proxy:" + proxy.path, "proxy:" + second.path, ""]
        reader = threading.Thread(target=lambda: text.append(stopped.process.stdout.read().decode()))
        reader.start()
        warm, refusals = stopped.stop_at_random(seed, most // 3, *places)
        before = taken(stopped.process.pid)
        switches, more = stopped.stop_at_random(seed + 1, most - most // 3, *places)
        after = taken(stopped.process.pid)
        print(f"{warm + switches} switches: threads, descriptors, MiB {before} -> {after}")
        reader.join()
        assert stopped.process.wait() == 0
    assert text == [output(argv, native())]
    assert warm + switches == most and not [why for why in refusals + more if "is mapped" not in why]
    assert after[0] <= before[0] + 1 and after[1] <= before[1] + 2 and after[2] < before[2] + 64


def test_mapped_memory_is_the_programs(tmp_path, proxy):
    """It writes to what it has mapped while it is brought to a proxy and back, as only its calls wait."""
    os.makedirs(tmp_path / "program")
    with Stopped(tmp_path / "program", [built("tests/opencl/mapped-writer")]) as stopped:
        assert stopped.process.stdout.readline() == b"writes\n"
        for n in range(20 if FULL else 6):
            assert stopped.say(PREPARE).startswith("released")
            answer = stopped.say("resume" if n % 2 else f"resume at proxy:{proxy.path}")
            assert answer.startswith("resumed"), answer
        stopped.process.terminate()
        assert stopped.process.stdout.read().startswith(b"0 lost")
        assert stopped.process.wait() == 0


# For full runs.
@pytest.mark.drawn("lab-many")
def test_x264_goes_to_a_proxy_and_back(tmp_path, proxy):
    """A program that nobody here wrote encodes while its OpenCL is moved."""
    need("x264")
    os.makedirs(tmp_path / "program")
    make_film(tmp_path / "program" / "in.y4m", 40, times=5)
    argv = ["x264", "--opencl", "--preset", "medium", "--threads", "1", "-o", "out.264", "in.y4m"]
    # It cannot be stopped while it compiles, which takes long where PoCL has not done so before.
    subprocess.run(argv, env={**native(), "VGPU_OPENCL_AS_GPU": "1"}, stderr=subprocess.DEVNULL, timeout=HANG_S, check=True,
                   cwd=tmp_path / "program")
    with Stopped(tmp_path / "program", argv, VGPU_OPENCL_AS_GPU="1") as stopped:
        switches, refusals = stopped.stop_at_random(SEED, 6, "proxy:" + proxy.path, "")
        assert stopped.process.wait(timeout=HANG_S) == 0
    print(f"{switches} switches")
    assert switches > 1 and not refusals


def test_places_that_do_not_serve(tmp_path, proxy):
    """A program that cannot go on at a proxy waits, and goes on with its own device; one whose proxy dies cannot be
    brought back, and gets errors."""
    program = [built("tests/opencl/random-calls"), "2", "1000000", "2"]
    os.makedirs(tmp_path / "program")
    with Stopped(tmp_path / "program", program) as stopped, socket.socket(socket.AF_UNIX) as silent:
        places = {f"proxy:{tmp_path}/nobody": "No such file", "library": "is not a proxy",
                  "proxy:" + "x" * 130: "File name too long", "proxy:" + "x" * 200: "is not a proxy"}
        if FULL:
            silent.bind(str(tmp_path / "silent"))
            silent.listen(1)
            places[f"proxy:{tmp_path}/silent"] = "does not answer"
        assert stopped.say(PREPARE).startswith("released")
        for place, why in places.items():
            answer = stopped.say(f"resume at {place}")
            assert answer.startswith("failed") and why in answer, answer
        assert stopped.say("resume").startswith("resumed") and stopped.say("ask").startswith("is running")
        assert stopped.say(PREPARE).startswith("released")
        assert stopped.say(f"resume at proxy:{proxy.path}").startswith("resumed")
        os.kill(proxy.children()[0], signal.SIGKILL)
        wait_for(lambda: not proxy.children())
        answer = stopped.say(PREPARE)
        assert answer.startswith("refused"), answer


# How many copies are made while contexts come and go.
def transfers(proxy):
    seconds, threads = ("20", "4") if FULL else ("0.3", "2")
    argv = [sys.executable, os.path.join(ROOT, "tests", "opencl", "transfers.py"), built("libvgpu-opencl.so"), seconds, threads]
    said = output(argv, proxy.environment())
    assert " 0 wrong, errors: none" in said
    return int(said.split()[0])


@pytest.mark.parametrize("how", sample("memory that is known", ("known", "refused", "none"), 2))
def test_the_vendor_knows_the_memory_in_common(tmp_path, monkeypatch, how):
    """A buffer lies over it for one context at a time, which goes before the context does; also where the vendor has no
    such buffers, copies bring what they should."""
    if how == "refused":
        monkeypatch.setenv("VG_REFUSES", "1")
    pinned = 0 if how == "none" else 3
    with Proxy(tmp_path, f"--pinned={pinned}", vendor=built("tests/opencl/knowing-vendor.so")) as proxy:
        assert transfers(proxy) > 0
        said = re.findall(r"^.* of \S+: (known|unknown|refused)\b(?:: (\d+) bytes)?(?:, (\d+) contexts)?", proxy.log.read_text(), re.M)
    print(len(said), "lines", said[:6])
    assert (how == "none") == (not said)
    if how == "refused":
        assert said == [("refused", str(3 << 20), "")]
    for n, (word, size, contexts) in enumerate(said if how == "known" else []):
        assert word == ("unknown" if n % 2 else "known") and size in ("", str(3 << 20)) and int(contexts) > 0


SET_TWICE = """
import ctypes, threading, time
cl = ctypes.CDLL("libOpenCL.so.1")
P = ctypes.c_void_p
for name in ("clCreateContext", "clCreateCommandQueue", "clCreateUserEvent"):
    getattr(cl, name).restype = P
platform, device, error = P(), P(), ctypes.c_int()
cl.clGetPlatformIDs(1, ctypes.byref(platform), None)
cl.clGetDeviceIDs(platform, ctypes.c_uint64(0xFFFFFFFF), 1, ctypes.byref(device), None)
context = P(cl.clCreateContext(None, 1, ctypes.byref(device), None, None, None))
queue = P(cl.clCreateCommandQueue(context, device, ctypes.c_uint64(0), None))
one, other = (P(cl.clCreateUserEvent(context, None)) for _ in range(2))
assert [cl.clSetUserEventStatus(other, 0) for _ in range(2)] == [0, 0]
assert cl.clEnqueueMarkerWithWaitList(queue, 1, ctypes.byref(one), None) == 0
finishing = threading.Thread(target=lambda: cl.clFinish(queue), daemon=True)
finishing.start()
time.sleep(0.3)
assert cl.clSetUserEventStatus(one, 0) == 0
finishing.join(60)
assert not finishing.is_alive()
"""


def test_an_event_is_set_twice(tmp_path):
    """Where the vendor lets it be, others that are not set are waited for as before."""
    with Proxy(tmp_path, vendor=built("tests/opencl/knowing-vendor.so")) as proxy:
        done = subprocess.run([sys.executable, "-c", SET_TWICE], env=proxy.environment(), timeout=HANG_S, check=False)
        assert done.returncode == 0


def test_hammer(proxy):
    """Many threads call at random, and one sets events that others wait for."""
    argv = [built("tests/opencl/hammer"), "3", "8", "4000" if FULL else "500"]
    assert output(argv, proxy.environment()).endswith(" 0 wrong\n")


@twice
def test_every_function(tmp_path, proxy):
    """Every function, called well and wrongly in each way, does what it does with PoCL alone; but for calls at which
    PoCL alone crashes."""
    left_out = tmp_path / "left-out"
    left_out.write_text("\n".join(CRASHES) + "\n")
    for _ in range(30):
        alone = every_function(native(), left_out)
        if alone[-1] == "all":
            break
        with open(left_out, "a", encoding="utf-8") as file:
            file.write([line for line in alone if line[0] != " "][-1] + "\n")
    remote = every_function(proxy.environment(), left_out)
    assert but_for(remote, OTHERWISE) == but_for(alone, OTHERWISE) and len(but_for(alone, OTHERWISE)) > 3000


# PoCL compiles x264's kernels for a quarter of a minute where it has not done so before.
# A confined process compiles them each time: only full runs do that.
@twice
def test_x264(tmp_path):
    """A program that nobody here wrote. Its results with OpenCL differ from run to run, also with PoCL alone."""
    need("x264")
    make_film(tmp_path / "in.y4m", 40)
    argv = ["x264", "--opencl", "--preset", "medium", "--threads", "1", "-o", "out.264", "in.y4m"]
    with Proxy(tmp_path, *([] if FULL else ["--unconfined"])) as proxy:
        done = subprocess.run(argv, env=proxy.environment(VGPU_OPENCL_AS_GPU="1"), stderr=subprocess.PIPE, timeout=HANG_S,
                              check=True, cwd=tmp_path)
    assert b"OpenCL acceleration enabled" in done.stderr and b"encoded 40 frames" in done.stderr
    assert b"OpenCL error" not in done.stderr and b"proxy has disappeared" not in done.stderr


LARGE = """
import ctypes, random, sys
cl = ctypes.CDLL("libOpenCL.so.1")
cl.clCreateContext.restype = cl.clCreateBuffer.restype = cl.clCreateCommandQueue.restype = ctypes.c_void_p
cl.clEnqueueMapBuffer.restype = ctypes.c_void_p
platform, device, error = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_int()
cl.clGetPlatformIDs(1, ctypes.byref(platform), None)
cl.clGetDeviceIDs(platform, ctypes.c_uint64(0xFFFFFFFF), 1, ctypes.byref(device), None)
context = ctypes.c_void_p(cl.clCreateContext(None, 1, ctypes.byref(device), None, None, None))
queue = ctypes.c_void_p(cl.clCreateCommandQueue(context, device, ctypes.c_uint64(int(sys.argv[1])), None))
size = (9 << 20) + 4
data = random.Random(1).randbytes(size + 64)
buffer = ctypes.c_void_p(cl.clCreateBuffer(context, ctypes.c_uint64(33), ctypes.c_size_t(size), data, ctypes.byref(error)))
assert error.value == 0
def copy(what, pointer, is_blocking, offset, n):
    result = what(queue, buffer, is_blocking, ctypes.c_size_t(offset), ctypes.c_size_t(n), pointer, 0, None, None)
    assert result == 0, result
def read(is_blocking, offset=0, n=size):
    to = ctypes.create_string_buffer(n)
    copy(cl.clEnqueueReadBuffer, to, is_blocking, offset, n)
    assert cl.clFinish(queue) == 0
    return to.raw
assert read(1) == data[:size]
for is_blocking in (0, 1):
    copy(cl.clEnqueueWriteBuffer, data[32:], is_blocking, 0, size)
    assert cl.clFinish(queue) == 0
    assert read(1 - is_blocking) == data[32:32 + size]
    copy(cl.clEnqueueWriteBuffer, data, is_blocking, 12, size - 16)
    assert cl.clFinish(queue) == 0
    assert read(is_blocking, 4, size - 8) == data[36:44] + data[:size - 16]
at = cl.clEnqueueMapBuffer(queue, buffer, 1, ctypes.c_uint64(3), ctypes.c_size_t(0), ctypes.c_size_t(size), 0, None, None, None)
assert ctypes.string_at(at + 12, size - 16) == data[:size - 16]
ctypes.memmove(at, data, size)
assert cl.clEnqueueUnmapMemObject(queue, buffer, ctypes.c_void_p(at), 0, None, None) == 0
assert cl.clFinish(queue) == 0
assert read(1) == data[:size]
"""


@pytest.mark.parametrize("way, staging", sample("large", [("", 64), ("", 4), ("", 0), ("stream:", 64)], 2))
def test_large(tmp_path, way, staging):
    """Much memory, which comes in areas that both sides have, in one or in pieces, or else with the messages."""
    with Proxy(tmp_path, f"--staging={staging}", "--pinned=4") as proxy:
        for order in sample(f"large {way}{staging}", ("0", "1"), 1):
            output([sys.executable, "-c", LARGE, order], proxy.environment(VGPU_OPENCL=f"proxy:{way}{proxy.path}"))


# ---- clients that die, and others ----

WAITING = """
import ctypes, sys, time
cl = ctypes.CDLL("libOpenCL.so.1")
platform = ctypes.c_void_p()
assert cl.clGetPlatformIDs(1, ctypes.byref(platform), None) == 0
print("there", flush=True)
time.sleep(600)
"""


def test_a_client_dies(proxy):
    """One that is killed, and one whose process in the proxy is killed, are nothing to a third."""
    others = [subprocess.Popen([sys.executable, "-c", WAITING], env=proxy.environment(), stdout=subprocess.PIPE)
              for _ in range(2)]
    for other in others:
        assert other.stdout.readline() == b"there\n"
    first = proxy.children()
    assert len(first) == 2
    with subprocess.Popen([built("tests/opencl/hammer"), "5", "8", "300"], env=proxy.environment(),
                          stdout=subprocess.PIPE) as hammer:
        os.kill(others[0].pid, signal.SIGKILL)
        os.kill(first[1], signal.SIGKILL)
        assert hammer.stdout.read().endswith(b" 0 wrong\n") and hammer.wait() == 0
    for other in others:
        other.kill()
        other.wait()
        other.stdout.close()
    wait_for(lambda: not proxy.children())


def test_the_proxy_is_gone(tmp_path):
    """A program whose proxy ends gets errors, and does not wait."""
    with Proxy(tmp_path) as proxy:
        with proxy.backlogged(STEPS) as program:
            assert program.stdout.readline() == b"there\n"
            os.kill(proxy.children()[0], signal.SIGKILL)
            # The end of its stdin is its own, and may come before the error.
            assert program.wait(timeout=HANG_S) == 1
            _, said = program.communicate(timeout=HANG_S)
    assert b"the proxy has disappeared" in said


def test_sigterm_waits_for_clients(tmp_path):
    with Proxy(tmp_path, f"--drain={HANG_S}") as proxy:
        with subprocess.Popen([built("tests/opencl/hammer"), "5", "8", "300"], env=proxy.environment(),
                              stdout=subprocess.PIPE) as hammer:
            wait_for(lambda: proxy.children())
            proxy.process.terminate()
            assert hammer.stdout.read().endswith(b" 0 wrong\n")
        assert proxy.process.wait(HANG_S) == 0 and not os.path.exists(proxy.path)


def test_its_own_client(tmp_path):
    """A proxy that stands among the vendors that it serves is not one of them."""
    with Proxy(tmp_path) as proxy:
        (tmp_path / "vendors" / "itself.icd").write_text(f"proxy:{proxy.path}\n")
        lines = output([built("tests/opencl/hammer"), "5", "2", "10"], proxy.environment())
        assert lines.endswith(" 0 wrong\n")


# ---- clients that want the device at once ----

STEPS = 1000000  # a few ms of PoCL


def close(*programs):
    for program in programs:
        program.kill()
        program.communicate(timeout=HANG_S)


def test_weights(tmp_path):
    """The device's time is shared out by the weights of those who always want it. On a busy machine one of them may
    have nothing to do for a while, and who has the device is ahead by a long turn: only a long time tells."""
    seconds, off = (30, 0.03) if FULL else (2, 0.12)
    with Proxy(tmp_path, sockets=("a.sock,weight=1", "b.sock,weight=3")) as proxy:
        programs = [proxy.backlogged(STEPS, n) for n in range(2)]
        assert [program.stdout.readline() for program in programs] == [b"there\n"] * 2
        begin = sum(proxy.held())
        wait_for(lambda: sum(proxy.held()) >= begin + 1)  # each has learnt how long the kernels are
        first = proxy.held()

        def shared_out():
            light, heavy = (end - begin for begin, end in zip(first, proxy.held()))
            return light + heavy >= seconds and abs(heavy / (light + heavy) - 0.75) <= off
        if FULL:
            wait_for(lambda: sum(proxy.held()) >= sum(first) + seconds)
            assert shared_out(), (first, proxy.held())
        wait_for(shared_out, pause=0.1)
        close(*programs)


def test_a_kernel_that_never_ends(tmp_path):
    """It ends its client, which is told; others go on."""
    with Proxy(tmp_path, "--max-kernel=3") as proxy:
        endless = proxy.backlogged(0)
        wait_for(lambda: sum(proxy.held()))
        with proxy.backlogged(STEPS) as other:
            assert endless.wait(HANG_S) == 1
            output_of_endless, said = endless.communicate()
            assert other.stdout.readline() == b"there\n"
            close(other)
        assert output_of_endless == b"-2\n" and b"took longer than 3 s while others waited" in said


def test_a_proxy_that_is_killed(tmp_path):
    """Its clients go on: nobody is left who would have them wait for each other."""
    proxy = Proxy(tmp_path)
    with subprocess.Popen([built("tests/opencl/hammer"), "3", "8", "500"], env=proxy.environment(),
                          stdout=subprocess.PIPE) as program:
        try:
            wait_for(lambda: sum(proxy.held()))
            assert program.poll() is None
        finally:
            proxy.process.kill()
            proxy.process.wait()
        assert program.communicate(timeout=HANG_S)[0].endswith(b" 0 wrong\n")


@pytest.mark.parametrize("whose", sample("stopped", ["program", "process"], 1))
def test_one_that_is_stopped(tmp_path, whose):
    """Neither a program that does not go on, nor its process in the proxy, keeps the device from others."""
    with Proxy(tmp_path, "--max-kernel=3") as proxy:
        stopped = proxy.backlogged(STEPS)
        assert stopped.stdout.readline() == b"there\n"
        os.kill(stopped.pid if whose == "program" else proxy.children()[0], signal.SIGSTOP)
        lines = output([built("tests/opencl/hammer"), "5", "4", "100"], proxy.environment())
        assert lines.endswith(" 0 wrong\n")
        close(stopped)


@contextlib.contextmanager
def paused(proxy):
    """Without its clients' processes."""
    pause(proxy.process.pid)
    try:
        yield
    finally:
        proxy.process.send_signal(signal.SIGCONT)


def test_whose_main_process_is_stopped(tmp_path):
    """Alone, and goes on: nothing is lost. One who waits for his turn meanwhile has it later."""
    with Proxy(tmp_path, sockets=("a.sock", "b.sock")) as proxy:
        stopped = proxy.backlogged(STEPS, 1)
        assert stopped.stdout.readline() == b"there\n"
        with subprocess.Popen([built("tests/opencl/hammer"), "3", "4", "200"], env=proxy.environment(),
                              stdout=subprocess.PIPE) as program:
            wait_for(lambda: proxy.held()[0])
            with paused(proxy):
                time.sleep(3)  # in which it is asked whether it is there
            assert program.communicate(timeout=HANG_S)[0].endswith(b" 0 wrong\n")
        before = proxy.held()[1]
        wait_for(lambda: proxy.held()[1] > before)
        close(stopped)


@pytest.mark.drawn("half-minutes")
@pytest.mark.parametrize("way", ["unix", "tcp"])
def test_whose_main_process_hangs(tmp_path, way):
    """Who waits for his turn is told so, and who has it goes on; others are served once it goes on."""
    token = tmp_path / "token"
    token.write_text("a-token-of-this-vm\n")
    token.chmod(0o600)
    sockets = [f"tcp:127.0.0.1:{free_port()},token={token}" for _ in range(2)] + ["near.sock"] if way == "tcp" else ["a.sock", "b.sock"]
    with Proxy(tmp_path, "--linger=300", sockets=sockets) as proxy:
        environment = {"VGPU_OPENCL_TOKEN": str(token)}
        programs = [proxy.backlogged(STEPS, n, **environment) for n in range(2)]
        assert [program.stdout.readline() for program in programs] == [b"there\n"] * 2
        with paused(proxy):
            wait_for(lambda: [program for program in programs if program.poll() is not None], 120, 0.1)
            time.sleep(2)
        for n, program in enumerate(programs):
            # One that has it was requested it just before, or goes on.
            if program.poll() is None:
                before = proxy.held()[n]
                wait_for(lambda n=n, before=before: proxy.held()[n] > before)
                close(program)
                continue
            output_of_it, said = program.communicate()
            assert output_of_it == b"-2\n" and b"its main process hangs and has not assigned the GPU for 30 s" in said, said
        with proxy.backlogged(STEPS, **environment) as another:
            assert another.stdout.readline() == b"there\n"
            close(another)


# ---- programs of other machines ----

@pytest.fixture(name="far")
def _far(tmp_path):
    """A proxy that listens on TCP as well, at a port that is free, and a token for it."""
    token = tmp_path / "token"
    token.write_text("a-token-of-the-tests\n")
    port = free_port()
    with Proxy(tmp_path, "--allow-binaries", sockets=(f"tcp:127.0.0.1:{port},token={token}", "near.sock")) as proxy:
        yield proxy, {"VGPU_OPENCL_TOKEN": str(token)}


def test_tcp(far):
    proxy, token = far
    argv = [built("tests/opencl/random-calls"), "2", "120"]
    assert output(argv, proxy.environment(**token)) == output(argv, native())
    named = proxy.path.replace("127.0.0.1", "localhost") if knows_localhost() else proxy.path
    environment = proxy.environment(VGPU_OPENCL="proxy:" + named, **token)
    assert output([built("tests/opencl/hammer"), "5", "2", "10"], environment).endswith(" 0 wrong\n")
    for order in sample("large tcp", ("0", "1"), 1):
        output([sys.executable, "-c", LARGE, order], proxy.environment(**token))


def test_told_by_the_agent(tmp_path, far):
    """A program with nothing but the library finds the proxy that the agent was told of, where no vendor has a platform."""
    proxy, token = far
    need("clinfo")
    (tmp_path / "guest").mkdir()
    (tmp_path / "none").mkdir()
    with Guest(tmp_path / "guest") as guest, Agent(guest) as agent, agent.host() as host:
        told_it = {"at": "proxy:" + proxy.path, "token": open(token["VGPU_OPENCL_TOKEN"], encoding="utf-8").read().strip()}
        environment = {**proxy.environment(), "VGPU_OPENCL_VENDORS": str(tmp_path / "none"),
                       "VGPU_OPENCL_AGENT": guest.path("run/vgpu-guestd/opencl.sock")}
        del environment["VGPU_OPENCL"]
        os.mkdir(guest.path("run"))
        for request, platforms in (({}, 0), (told_it, 1), ({}, 0)):
            assert host.ask("proxy", **request)["type"] == "proxy"
            assert output(["clinfo", "-l"], environment).count("Portable Computing Language") == platforms
        host.ask("proxy", **told_it)
        # A vendor that is there comes first.
        environment["VGPU_OPENCL_VENDORS"] = str(tmp_path / "vendors")
        proxy.process.send_signal(signal.SIGSTOP)
        assert output(["clinfo", "-l"], environment).count("Portable Computing Language") == 1
        proxy.process.send_signal(signal.SIGCONT)


def test_a_folder_of_sockets(tmp_path):
    """What its files say is taken at SIGHUP, all of it or nothing: sockets come, change and go, and those that stay go on."""
    folder, token = tmp_path / "sockets", tmp_path / "token"
    folder.mkdir()
    token.write_text("a-token-of-the-tests\n")
    (folder / "a.conf").write_text(f"# of a\n\n  {tmp_path}/a.sock,vm=a,weight=2 \n")
    (folder / "notes.txt").write_text("nothing\n")
    with Proxy(tmp_path, f"--sockets={folder}", f"--ask={tmp_path}/near.sock.ask", sockets=("near.sock",)) as proxy, \
            socket.create_server(("127.0.0.1", 0)) as taken_port:
        port = taken_port.getsockname()[1]

        def read_again(words):
            before = len(proxy.log.read_text())
            proxy.process.send_signal(signal.SIGHUP)
            wait_for(lambda: words in proxy.log.read_text()[before:])
            return {s["vm"]: (s["socket"], s["weight"]) for s in proxy.ask()["sockets"]}

        def program(at):
            return subprocess.Popen([built("tests/opencl/waves"), "64", "4", "5", str(tmp_path / "wait")], text=True,
                                    stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                    env=proxy.environment(VGPU_OPENCL=f"proxy:{tmp_path}/{at}"))

        (tmp_path / "wait").touch()
        # Those of the folder come after those of the command line.
        wait_for(lambda: os.path.exists(tmp_path / "a.sock"))
        programs = [program("near.sock"), program("a.sock")]
        assert [p.stdout.readline() for p in programs] == ["ready\n"] * 2
        (folder / "a.conf").write_text(f"{tmp_path}/a.sock,vm=a,weight=5\n")
        (folder / "b.conf").write_text(f"tcp:127.0.0.1:{port},vm=b,token={token}\n{tmp_path}/c.sock,vm=c\n")
        told_of = read_again(f"tcp:127.0.0.1:{port}: Address already in use; trying again")
        assert told_of == {"": (proxy.path, 1), "a": (f"{tmp_path}/a.sock", 5), "b": (f"tcp:127.0.0.1:{port}", 1),
                           "c": (f"{tmp_path}/c.sock", 1)}
        taken_port.close()
        (folder / "bad.conf").write_text(f"\n{tmp_path}/d.sock,color=1\n")
        (folder / "a.conf").unlink()
        assert read_again("the sockets are unchanged") == told_of
        assert f"{folder}/bad.conf:2: 'color=1' is not a socket property" in proxy.log.read_text()
        (folder / "bad.conf").write_text(f"{proxy.path}\n")
        assert read_again("the sockets are unchanged") == told_of
        (folder / "bad.conf").unlink()
        assert sorted(read_again("closed because its file")) == ["", "b", "c"]
        assert programs[1].wait(HANG_S) == 1 and "the proxy has disappeared" in programs[1].communicate()[1]
        assert not os.path.exists(tmp_path / "a.sock")
        wait_for(lambda: f"tcp:127.0.0.1:{port}: listening now" in proxy.log.read_text())
        # Its place is taken again.
        (folder / "a.conf").write_text(f"{tmp_path}/again.sock,vm=a\n")
        assert read_again("reloaded the sockets from")["a"] == (f"{tmp_path}/again.sock", 1)
        programs.append(program("again.sock"))
        assert programs[2].stdout.readline() == "ready\n"
        (tmp_path / "wait").unlink()
        for each in programs[0], programs[2]:
            assert "steps 4 sum" in each.communicate(timeout=HANG_S)[0] and each.returncode == 0
    assert not glob.glob(f"{tmp_path}/*.sock")


def test_tcp_without_the_token(tmp_path, far):
    """Who does not show it, or another one, is not served, and says so."""
    proxy, _ = far
    (tmp_path / "other").write_text("a token of nobody's\n")
    for path in ("/nowhere", str(tmp_path / "other")):
        done = subprocess.run([built("tests/opencl/hammer"), "5", "1", "1"], timeout=HANG_S, capture_output=True, check=False,
                              env=proxy.environment(VGPU_OPENCL_TOKEN=path))
        assert done.returncode != 0 and b"proxy" in done.stderr
    for way in (0, 1, 3):
        with socket.create_connection(("127.0.0.1", int(proxy.path.rpartition(":")[2])), HANG_S) as connection:
            connection.sendall(LINK + struct.pack("<QQ", way, 0) + (bytes(64) + bytes(24) if way == 3 else b""))
            said = connection.recv(192, socket.MSG_WAITALL)
            assert said.rstrip(b"\0") == b"VPREFUS1it expects another token" and not connection.recv(1)


# ---- what a client may do ----

ALLOCATE = """
import ctypes
cl = ctypes.CDLL("libOpenCL.so.1")
cl.clCreateContext.restype = cl.clCreateBuffer.restype = ctypes.c_void_p
platform, device, error, size = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_int(), ctypes.c_uint64()
cl.clGetPlatformIDs(1, ctypes.byref(platform), None)
cl.clGetDeviceIDs(platform, ctypes.c_uint64(0xFFFFFFFF), 1, ctypes.byref(device), None)
cl.clGetDeviceInfo(device, 0x101F, 8, ctypes.byref(size), None)
context = ctypes.c_void_p(cl.clCreateContext(None, 1, ctypes.byref(device), None, None, None))
def make(mib):
    made = cl.clCreateBuffer(context, ctypes.c_uint64(1), ctypes.c_size_t(mib << 20), None, ctypes.byref(error))
    print(error.value)
    return ctypes.c_void_p(made)
print(size.value >> 20)
first = make(40)
make(40)
make(20)
print(cl.clReleaseMemObject(first))
make(40)
"""


def test_memory_limit(tmp_path):
    """A client that wants more than it may have gets the error for it, and what it gives back it may have again."""
    with Proxy(tmp_path, "--memory=64") as proxy:
        assert output([sys.executable, "-c", ALLOCATE], proxy.environment()).split() == ["64", "0", "-4", "0", "0", "0"]


LIMITS = """
import ctypes, sys
cl = ctypes.CDLL("libOpenCL.so.1")
for name in ("clCreateContext", "clCreateBuffer", "clCreateCommandQueue", "clCreateUserEvent"):
    getattr(cl, name).restype = ctypes.c_void_p
platform, device, error = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_int()
cl.clGetPlatformIDs(1, ctypes.byref(platform), None)
cl.clGetDeviceIDs(platform, ctypes.c_uint64(0xFFFFFFFF), 1, ctypes.byref(device), None)
context = ctypes.c_void_p(cl.clCreateContext(None, 1, ctypes.byref(device), None, None, None))
queue = ctypes.c_void_p(cl.clCreateCommandQueue(context, device, ctypes.c_uint64(0), None))
def make(n=4096):
    return ctypes.c_void_p(cl.clCreateBuffer(context, ctypes.c_uint64(1), ctypes.c_size_t(n), None, ctypes.byref(error)))
n, size = 4, 6 << 20
zero, data, buffer = ctypes.c_int(), bytes(size), make(size)
def write(event):
    return cl.clEnqueueWriteBuffer(queue, buffer, 0, ctypes.c_size_t(0), ctypes.c_size_t(size), data, 1, ctypes.byref(event), None)
def fill(event):
    return cl.clEnqueueFillBuffer(queue, buffer, ctypes.byref(zero), ctypes.c_size_t(4), ctypes.c_size_t(0), ctypes.c_size_t(4), 1,
                                  ctypes.byref(event), None)
def waiting(what, times):
    event = ctypes.c_void_p(cl.clCreateUserEvent(context, None))
    told = [what(event) for _ in range(times)]
    cl.clSetUserEventStatus(event, 0)
    told.append(cl.clFinish(queue))
    cl.clReleaseEvent(event)
    return [result for result in told if result]
print(*waiting(write, 1), "|", *waiting(write, 3), "|", *waiting(write, 1))
print(*waiting(fill, 50), "|", *waiting(fill, 200), "|", *waiting(fill, 50))
made = [make()]
while error.value == 0:
    made.append(make())
print(len(made), error.value, cl.clReleaseMemObject(made[0]))
make()
print(error.value)
"""


def test_limits(tmp_path):
    """Who wants more objects, or has given more commands or data that wait, than he may gets an error for it; and may go
    on with less."""
    with Proxy(tmp_path, "--objects=50", "--pending=8", "--depth=100", "--staging=0") as proxy:
        lines = output([sys.executable, "-c", LIMITS], proxy.environment()).splitlines()
    # Objects that he has: a context, a queue, a buffer of before.
    assert lines == ["| -6 |", "| -5 |", "48 -6 0", "0"]


MUCH = """
import ctypes, sys
cl = ctypes.CDLL("libOpenCL.so.1")
for name in ("clCreateContext", "clCreateBuffer", "clCreateCommandQueue"):
    getattr(cl, name).restype = ctypes.c_void_p
platform, device, error = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_int()
cl.clGetPlatformIDs(1, ctypes.byref(platform), None)
cl.clGetDeviceIDs(platform, ctypes.c_uint64(0xFFFFFFFF), 1, ctypes.byref(device), None)
context = ctypes.c_void_p(cl.clCreateContext(None, 1, ctypes.byref(device), None, None, None))
queue = ctypes.c_void_p(cl.clCreateCommandQueue(context, device, ctypes.c_uint64(0), None))
mib, zero = ctypes.c_size_t(3 << 20), ctypes.c_size_t(0)
buffers = [ctypes.c_void_p(cl.clCreateBuffer(context, ctypes.c_uint64(1), mib, None, ctypes.byref(error))) for _ in range(20)]
data = [bytes([n]) * mib.value for n in range(20)]
got = [ctypes.create_string_buffer(mib.value) for _ in range(20)]
def enqueue(call, host):
    return [call(queue, buffer, 0, zero, mib, one, 0, None, None) for buffer, one in zip(buffers, host)]
results = enqueue(cl.clEnqueueWriteBuffer, data) + enqueue(cl.clEnqueueReadBuffer, got) + [cl.clFinish(queue)]
print(set(results), all(one.raw == other for one, other in zip(got, data)))
"""


@pytest.mark.parametrize("staging", [0, 8])
def test_more_data_than_the_limit(tmp_path, staging):
    """Reads and writes that are not waited for wait themselves while others have all of the limit."""
    with Proxy(tmp_path, "--pending=8", f"--staging={staging}") as proxy:
        assert output([sys.executable, "-c", MUCH], proxy.environment()) == "{0} True\n"


PRINTS = WITH_A_QUEUE + """
import os
cl.clCreateKernel.restype = cl.clCreateProgramWithSource.restype = ctypes.c_void_p
source = ctypes.c_char_p(b'kernel void k(int b) { printf("%d: item %d\\\\n", b, (int)get_global_id(0)); }')
program = ctypes.c_void_p(cl.clCreateProgramWithSource(context, 1, ctypes.byref(source), None, None))
cl.clBuildProgram(program, 1, ctypes.byref(device), b"", None, None)
kernel = ctypes.c_void_p(cl.clCreateKernel(program, b"k", None))
event, items, times, waits = ctypes.c_void_p(), ctypes.c_size_t(int(sys.argv[1])), int(sys.argv[2]), sys.argv[3] == "waits"
for i in range(times):
    cl.clSetKernelArg(kernel, 0, ctypes.c_size_t(4), ctypes.byref(ctypes.c_int(i)))
    cl.clEnqueueNDRangeKernel(queue, kernel, 1, None, ctypes.byref(items), None, 0, None, ctypes.byref(event))
    if waits:
        cl.clWaitForEvents(1, ctypes.byref(event))
        os.write(1, b"waited\\n")
cl.clFinish(queue)
os.write(1, b"finished\\n")
"""


def test_what_kernels_print(tmp_path):
    """It is on the program's stdout before the call that waits for the kernel returns, and not in the proxy's log. Of more
    than is kept on the way, the program is told how much is lost."""
    port, token = free_port(), tmp_path / "token"
    token.write_text("a token of the tests\n")
    few, many = ([sys.executable, "-c", PRINTS, *args] for args in (("3", "2", "waits"), ("2000", "80", "-")))
    with Proxy(tmp_path, sockets=(f"tcp:127.0.0.1:{port},token={token}", "near.sock")) as proxy:
        ways = [proxy.environment(VGPU_OPENCL="proxy:" + way, VGPU_OPENCL_TOKEN=str(token))
                for way in (f"tcp:127.0.0.1:{port}", f"stream:{tmp_path}/near.sock", f"{tmp_path}/near.sock")]
        for way in ways:
            # Items print in any order.
            parts = [sorted(part.splitlines()) for part in output(few, way).split("waited\n")]
            assert parts == [[f"{n}: item {i}" for i in range(3)] for n in range(2)] + [["finished"]]
        done = subprocess.run(many, env=ways[2], capture_output=True, check=True, timeout=HANG_S)
        lost = sum(int(n) for n in re.findall(rb"(\d+) bytes that kernels", done.stderr))
        all_of_it = sum(len(f"{n}: item {i}\n") for n in range(80) for i in range(2000)) + len("finished\n")
        assert len(done.stdout) + lost == all_of_it, done.stderr
    assert "item" not in proxy.log.read_text()


BINARY = """
import ctypes
cl = ctypes.CDLL("libOpenCL.so.1")
cl.clCreateContext.restype = cl.clCreateProgramWithBinary.restype = ctypes.c_void_p
platform, device, error, status = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_int(), ctypes.c_int()
cl.clGetPlatformIDs(1, ctypes.byref(platform), None)
cl.clGetDeviceIDs(platform, ctypes.c_uint64(0xFFFFFFFF), 1, ctypes.byref(device), None)
context = ctypes.c_void_p(cl.clCreateContext(None, 1, ctypes.byref(device), None, None, None))
binary, size = ctypes.c_char_p(b"pocl" + bytes(100)), ctypes.c_size_t(104)
made = cl.clCreateProgramWithBinary(context, 1, ctypes.byref(device), ctypes.byref(size), ctypes.byref(binary),
                                    ctypes.byref(status), ctypes.byref(error))
print(made, error.value, status.value)
"""


def test_binaries(tmp_path):
    """What was not compiled by the proxy is not loaded there, unless it is allowed."""
    with Proxy(tmp_path) as proxy:
        assert output([sys.executable, "-c", BINARY], proxy.environment()) == "None -42 -42\n"


def at_sockets(proxy, *names):
    return [proxy.environment(VGPU_OPENCL="proxy:" + s.split(",")[0]) for s, n in zip(proxy.sockets, names)]


def test_a_program_of_a_cached_binary_moves(tmp_path):
    """It switches to a proxy with the same key. One with another key refuses it, with the reason: before the program is
    stopped if the proxy is known by then, and else before any memory is sent. It then stays stopped, and continues
    elsewhere."""
    key, sockets, path = f"--binary-key={tmp_path}/key", ("x.sock,vm=alpha",), tmp_path / "cache"
    os.makedirs(tmp_path / "program")
    with Proxy(tmp_path / "one", key, sockets=sockets) as one, Proxy(tmp_path / "two", key, sockets=sockets) as two, \
         Proxy(tmp_path / "three", sockets=sockets) as three:
        assert cached(path, one.environment()) == BUILT
        with Stopped(tmp_path / "program", [sys.executable, "-c", CACHING_AGAIN, str(path), "-DADD=2"],
                     stdin=subprocess.PIPE, VGPU_OPENCL="proxy:" + one.path) as program:
            assert [program.process.stdout.readline().decode().strip() for _ in LOADED] == LOADED
            # If the proxy is named before, the program is not stopped at all.
            refused = program.say(f"{PREPARE} proxy:{three.path}")
            assert refused.startswith("refused") and three.path[:40] in refused and "--binary-key" in refused, refused
            assert program.say("ask").startswith("is remote")
            gone = program.say(f"{PREPARE} proxy:{tmp_path}/no.sock")
            assert gone.startswith("refused") and "No such file" in gone, gone
            assert program.say(PREPARE).startswith("released")
            failed = program.say(f"resume at proxy:{three.path}")
            assert failed.startswith("failed") and "the proxy rejected a program binary" in failed, failed
            assert "--binary-key" in failed
            assert program.say(f"resume at proxy:{two.path}").startswith("resumed")
            # The link that it checks with is the one that it then uses, unless it resumes elsewhere.
            assert program.say(f"{PREPARE} proxy:{one.path}").startswith("released")
            wait_for(lambda: len(one.children()) == 1)
            checked = one.children()
            assert program.say(f"resume at proxy:{one.path}").startswith("resumed")
            assert one.children() == checked
            assert program.say(f"{PREPARE} proxy:{one.path}").startswith("released")
            assert program.say(f"resume at proxy:{two.path}").startswith("resumed")
            wait_for(lambda: not one.children())
            program.process.stdin.write(b"\n")
            program.process.stdin.close()
            assert program.process.stdout.read() == b"0x2468acf135a4\n"


def test_cached_binaries(tmp_path):
    """A proxy takes the binaries that it has made, also after it was started again, and those of another one with the same
    key; not those of another VM, with a byte changed, or of a vendor's library."""
    key, sockets = f"--binary-key={tmp_path}/key", ("a.sock,vm=alpha", "b.sock,vm=beta", "a2.sock,vm=alpha")
    path = tmp_path / "cache"
    with Proxy(tmp_path / "one", key, sockets=sockets) as one:
        alpha, beta, also_alpha = at_sockets(one, *"123")
        assert cached(path, alpha) == BUILT
        assert cached(path, alpha) == cached(path, also_alpha) == LOADED
        assert cached(path, beta) == REFUSED
    assert os.stat(tmp_path / "key").st_mode & 0o777 == 0o600
    data = path.read_bytes()
    with Proxy(tmp_path / "one", key, sockets=sockets) as one, \
         Proxy(tmp_path / "two", key, sockets=("x.sock,vm=alpha",)) as two, \
         Proxy(tmp_path / "three", sockets=("x.sock,vm=alpha",)) as three:
        alpha = at_sockets(one, "1")[0]
        assert cached(path, alpha) == cached(path, two.environment()) == LOADED
        assert cached(path, three.environment()) == REFUSED
        # Each part of it counts: the binary, what stands behind it, and the signature.
        for at in (0, len(data) // 2, len(data) - 113, len(data) - 112, len(data) - 90, len(data) - 60, len(data) - 1):
            path.write_bytes(data[:at] + bytes([data[at] ^ 1]) + data[at + 1:])
            assert cached(path, alpha) == REFUSED, at
        for other in (data[:-112], data[:-1], data + b"x", data[-112:], data[len(data) // 2:]):
            path.write_bytes(other)
            assert cached(path, alpha) == REFUSED, len(other)
    path.write_bytes(data)
    # The vendor's library in the program gets the binary alone; and what it makes is foreign to a proxy.
    direct = {**native(), "OCL_ICD_VENDORS": built("libvgpu-opencl.so"), "VGPU_OPENCL_AGENT": "/nowhere",
              "VGPU_OPENCL_VENDORS": f"{tmp_path}/one/vendors"}
    assert cached(path, direct) == LOADED
    path.unlink()
    assert cached(path, direct) == BUILT
    with Proxy(tmp_path / "one", key, sockets=sockets) as one:
        assert cached(path, at_sockets(one, "1")[0]) == REFUSED
    with Proxy(tmp_path / "one", "--allow-binaries", sockets=sockets) as one:
        assert cached(path, at_sockets(one, "1")[0]) == LOADED
        path.write_bytes(data)
        assert cached(path, at_sockets(one, "1")[0]) == LOADED


def test_the_key_of_binaries(tmp_path):
    """What is no key is refused at the start. No process of a client has the key in its memory."""
    (tmp_path / "short").write_bytes(bytes(31))
    (tmp_path / "long").write_bytes(bytes(4097))
    os.mkfifo(tmp_path / "fifo")
    os.chmod(tmp_path / "short", 0o600)
    for name, words in (("short", "must have 32 to 4096 bytes"), ("long", "must have 32 to 4096 bytes"), ("nowhere/key", "No such file"),
                        (".", "is not a regular file")):
        done = subprocess.run([built("vgpu-proxy"), f"--binary-key={tmp_path}/{name}", str(tmp_path / "a.sock")],
                              capture_output=True, text=True, timeout=HANG_S, check=False)
        assert done.returncode == 2 and words in done.stderr, (name, done)
    key = bytes(range(200, 232)) * 4
    (tmp_path / "key").write_bytes(key)
    os.chmod(tmp_path / "key", 0o644)
    with Proxy(tmp_path, f"--binary-key={tmp_path}/key") as proxy:
        wait_for(lambda: "holds the binary key" in proxy.log.read_text())
        with subprocess.Popen([sys.executable, "-c", WAITING], env=proxy.environment(), stdout=subprocess.PIPE) as program:
            assert program.stdout.readline() == b"there\n"
            secret = hashlib.sha256(key).digest()
            assert has_in_memory(proxy.process.pid, secret)
            assert not has_in_memory(proxy.children()[0], secret)
            program.kill()


def has_in_memory(pid, what):
    with open(f"/proc/{pid}/maps", encoding="ascii") as maps, open(f"/proc/{pid}/mem", "rb", 0) as memory:
        for line in maps:
            begin, end = (int(n, 16) for n in line.split()[0].split("-"))
            if line.split()[1].startswith("rw") and "[v" not in line and end - begin < 1 << 30:
                try:
                    memory.seek(begin)
                    if what in memory.read(end - begin):
                        return True
                except OSError:
                    pass
    return False


def test_sockets_are_named_well(tmp_path):
    (tmp_path / "short").write_text("short\n")
    for name in ("tcp:127.0.0.1:1", "tcp:127.0.0.1:1,token=short", "a.sock,token=nowhere", "a.sock,cid=x", ",weight=1", "a.sock,weight=0", "a.sock,weight=x", "a.sock,memory=0", "a.sock,color=1"):
        done = subprocess.run([built("vgpu-proxy"), name], cwd=tmp_path, capture_output=True, timeout=HANG_S, check=False)
        assert done.returncode == 2 and done.stderr and not os.path.exists(tmp_path / "a.sock")


def test_confinement(proxy):
    with subprocess.Popen([sys.executable, "-c", WAITING], env=proxy.environment(), stdout=subprocess.PIPE) as program:
        assert program.stdout.readline() == b"there\n"
        with open(f"/proc/{proxy.children()[0]}/status", encoding="ascii") as file:
            status = file.read()
        program.kill()
    assert "\nNoNewPrivs:\t1\n" in status and "\nSeccomp:\t2\n" in status


# What a process may do of all that the prying vendor tries.
HARMLESS = {"unix", "unix-messages", "own-prlimit"}


@pytest.mark.parametrize("one", ["", "inet", "io_uring", "clone", "owner"])
def test_what_a_process_may_not_do(tmp_path, one):
    """The kernel refuses what reaches further, and ends the process where it is told to."""
    os.makedirs(tmp_path / "vendors")
    (tmp_path / "vendors" / "prying.icd").write_text(built("tests/opencl/prying-vendor.so") + "\n")
    log, path = tmp_path / "log", tmp_path / "proxy.sock"
    environment = {**os.environ, **({"VG_PRYING_ONE": one} if one else {})}
    argv = [built("vgpu-proxy"), f"--vendors={tmp_path}/vendors", "--drain=1", *(["--strict"] if one else []), str(path)]
    with open(log, "wb") as file, subprocess.Popen(argv, env=environment, stderr=file) as proxy:
        while not path.exists():
            assert proxy.poll() is None
            time.sleep(0.01)
        program = {**os.environ, "OCL_ICD_VENDORS": built("libvgpu-opencl.so"), "VGPU_OPENCL_AGENT": "/nowhere",
                   "VGPU_OPENCL": f"proxy:{path}"}
        done = subprocess.run([built("tests/opencl/hammer"), "5", "1", "1"], env=program, timeout=HANG_S, check=False,
                              stderr=subprocess.DEVNULL)
        proxy.terminate()
    assert done.returncode != 0
    said = log.read_text()
    errors = dict(re.findall(r": tried ([\w-]+) (\d+)$", said, re.M))
    if one:
        assert re.search(r": vgpu-proxy: system call \d+ is not allowed$", said, re.M) and not errors, said
        assert "was terminated by signal 31" in said
        return
    assert {name for name, error in errors.items() if error == "0"} == HARMLESS and len(errors) > 30
    assert {error for name, error in errors.items() if name not in HARMLESS} == {str(errno.EPERM), str(errno.EACCES)}


# ---- clients that lie ----

HELLO = struct.pack("<IHHQQQ QQ", 16, 0, 0, 1, 0, 0, 0x3144555047567565, 2)


def test_hostile_clients(proxy):
    """What is no message ends who sent it, and nobody else."""
    chance = random.Random(SEED)
    for n in range(200 if FULL else 4):
        with proxy.connect() as connection:
            connection.sendall(HELLO if n % 4 else os.urandom(40))
            if n % 4:
                assert connection.recv(32)
            try:
                for _ in range(20):
                    size = chance.choice([0, 8, 16, 64, 256])
                    body = b"".join(struct.pack("<Q", chance.choice([0, 1, 2, 3, 8, 1 << 20, 1 << 40, (1 << 64) - 1]))
                                    for _ in range(size // 8))
                    head = struct.pack("<IHHQQQ", size, chance.randrange(120), chance.randrange(16), 2, 0, 0)
                    connection.sendall(head + body)
                connection.shutdown(socket.SHUT_WR)
                while connection.recv(65536):
                    pass
            except (BrokenPipeError, ConnectionResetError):
                pass
    lines = output([built("tests/opencl/hammer"), "5", "4", "100"], proxy.environment())
    assert lines.endswith(" 0 wrong\n")


class Shared:
    """The program's side of shared memory, as opencl/wire/link-shared.c lays it out, by which to lie."""
    RING, BLOCK = 1 << 20, 64 << 10

    def __init__(self, proxy):
        self.connection = proxy.connect(1)
        message, fds, _, _ = socket.recv_fds(self.connection, 24, 1)
        magic, way, self.staging = struct.unpack("<8sQQ", message)
        assert magic == LINK and way == 1
        self.fd = fds[0]
        self.memory = mmap.mmap(self.fd, os.fstat(self.fd).st_size)
        size = 256 + 4 * self.staging // self.BLOCK
        self.ring = (size + self.BLOCK - 1) // self.BLOCK * self.BLOCK
        self.written = 0

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.memory.close()
        os.close(self.fd)
        self.connection.close()

    def put(self, at, number):
        self.memory[at:at + 8] = struct.pack("<Q", number)

    def get(self, at):
        return struct.unpack("<Q", self.memory[at:at + 8])[0]

    def send(self, data):
        """Into the ring, whose end it does not reach."""
        at = self.ring + self.written
        self.memory[at:at + len(data)] = data
        self.written += len(data)
        self.put(0, self.written)
        self.wake()

    def wake(self):
        try:
            self.connection.send(b"\0")
        except (BrokenPipeError, ConnectionResetError):
            pass  # it has ended this client already

    def ended(self):
        """Whether the proxy has ended this client, and not its process otherwise."""
        while True:
            try:
                if not self.connection.recv(4096):
                    return True
            except ConnectionResetError:
                return True


def head(op, flags, data, at, body=b""):
    return struct.pack("<IHHQQQ", len(body), op, flags, 3, data, at) + body


LIES = ("written", "taken", "area", "area-end", "unaligned", "both", "shrink", "no-hello", "hole")


@pytest.mark.parametrize("lie", sample("shared memory", LIES, 4))
def test_memory_in_common(tmp_path, lie):
    """What a client does to the memory that it has in common with its process ends it at the most."""
    with Proxy(tmp_path) as proxy:
        with Shared(proxy) as shared:
            staged, room = 4, 8
            if lie == "no-hello":
                shared.send(os.urandom(64))
            else:
                shared.send(HELLO)
                wait_for(lambda: shared.get(128))
            if lie == "written":
                shared.put(0, 1 << 40)
            elif lie == "taken":
                shared.put(128 + 64, 1 << 40)
                shared.send(head(3, 0, 0, 0, bytes(32)))
            elif lie == "area":
                shared.send(head(36, staged, 65536, shared.staging))
            elif lie == "area-end":
                shared.send(head(36, staged, 65537, shared.staging - 65536))
            elif lie == "unaligned":
                shared.send(head(36, room, 4096, 1))
            elif lie == "both":
                shared.send(head(36, room | staged, 4096, 0))
            elif lie == "shrink":
                for size in (0, os.fstat(shared.fd).st_size * 2):
                    with pytest.raises(PermissionError):
                        os.ftruncate(shared.fd, size)
                shared.put(0, 0)
            elif lie == "hole":
                shared.memory[:shared.ring] = bytes(shared.ring)
                shared.send(head(0, 0, 0, 0))
            shared.wake()
            assert shared.ended()
        lines = output([built("tests/opencl/hammer"), "5", "4", "100"], proxy.environment())
        assert lines.endswith(" 0 wrong\n")
        assert "signal" not in proxy.log.read_text()
