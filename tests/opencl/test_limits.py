# SPDX-License-Identifier: Apache-2.0
"""What a client of vgpu-proxy may take of the proxy's machine: memory, CPU time, files and lines of its log. Its program is
told what it had too much of, or what became of its process; others go on; and a process ends when its program does,
whatever the vendor's library is at."""
import os
import re
import signal
import subprocess
import sys

import pytest
from opencl import PREPARE, WITH_A_QUEUE, Proxy, Stopped, built, need_pocl
from ports import free_port
from settings import HANG_S, is_instrumented
from unixhttp import wait_for

LINES_MOST = 130  # of a log in which one socket was too loud

# Builds a program with an option, and says what came of that and of a call after it.
BUILD = WITH_A_QUEUE + """
cl.clCreateProgramWithSource.restype = ctypes.c_void_p
source = ctypes.c_char_p(b"kernel void k(global int *at) { at[0] = 1; }")
program = ctypes.c_void_p(cl.clCreateProgramWithSource(context, 1, ctypes.byref(source), None, None))
print("there", flush=True)
print(cl.clBuildProgram(program, 0, None, sys.argv[1].encode(), None, None), cl.clFinish(queue))
"""


@pytest.fixture(autouse=True)
def _pocl():
    need_pocl()


class Greedy(Proxy):
    """A proxy whose vendor's compiler does what it should not; by a unix socket and by TCP."""

    def __init__(self, folder, *options):
        self.port = free_port()
        (folder / "token").write_text("a token of the tests\n")
        self.token = folder / "token"
        super().__init__(folder, f"--ask={folder}/near.sock.ask", *options,
                         sockets=(f"tcp:127.0.0.1:{self.port},vm=alpha,token={folder}/token", "near.sock,vm=beta"),
                         vendor=built("tests/opencl/greedy-vendor.so"))
        self.path = str(folder / "near.sock")

    def __exit__(self, *_):
        # Some of its clients are ended by signals that others must not see.
        self.process.terminate()
        assert self.process.wait(HANG_S) == 0

    def begin(self, word, way="unix"):
        more = {} if way == "unix" else {"VGPU_OPENCL": f"proxy:tcp:127.0.0.1:{self.port}",
                                         "VGPU_OPENCL_TOKEN": str(self.token)}
        program = subprocess.Popen([sys.executable, "-c", BUILD, f"-DGREEDY={word}"], env=self.environment(**more),
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0)
        # Not buffered: communicate() does not return what readline() has read ahead.
        assert program.stdout.readline() == b"there\n", program.communicate(timeout=HANG_S)
        return program

    def build(self, word, way="unix"):
        """What the program prints, and what it is told."""
        return finish(self.begin(word, way))

    def is_well(self):
        """Another program is served; it builds nothing, which may take longer than a test's limit."""
        done = subprocess.run([sys.executable, "-c", WITH_A_QUEUE + "print(cl.clFinish(queue))"], env=self.environment(),
                              capture_output=True, text=True, check=False, timeout=HANG_S)
        assert done.stdout == "0\n", done.stderr


def finish(program):
    """What it prints, and what it is told."""
    said, told = program.communicate(timeout=HANG_S)
    return said.decode(), told.decode()


WAYS = pytest.mark.parametrize("way", ["unix", "tcp"])
GONE = "-2 -2\n"


@WAYS
@pytest.mark.parametrize("word, option, why", [
    ("hang", "--build=1", "a build took more than 1 s (--build)"),
    ("spin", "--build-cpu=1", "a build took more than 1 s of CPU time (--build-cpu)")])
def test_a_build_that_does_not_end(tmp_path, word, option, why, way):
    """It is ended after its time, by the clock or of CPU, and its program, the log and who asks know the reason."""
    with Greedy(tmp_path, option) as proxy:
        said, told = proxy.build(word, way)
        assert said == GONE and f"the proxy terminated this program's OpenCL: {why}\n" in told, told
        wait_for(lambda: not proxy.children())
        assert why in proxy.log.read_text()
        socket = f"tcp:127.0.0.1:{proxy.port}" if way == "tcp" else str(tmp_path / "near.sock")
        assert why in proxy.ask(f"show {socket}")["failed"]["last"]
        proxy.is_well()


@WAYS
def test_a_program_that_is_gone(tmp_path, way):
    """The processes of programs that are killed during a build that does not end are gone soon, and their places free."""
    with Greedy(tmp_path, "--clients=4", "--linger=1", "--build=0", "--build-cpu=0") as proxy:
        programs = [proxy.begin("hang", way) for _ in range(4)]
        wait_for(lambda: len(proxy.children()) == 4)
        for program in programs:
            program.kill()
            program.communicate(timeout=HANG_S)
        wait_for(lambda: not proxy.children())
        proxy.is_well()


@WAYS
@pytest.mark.parametrize("word, number", [("crash", signal.SIGSEGV), ("overflow", signal.SIGSEGV)])
def test_a_crash(tmp_path, word, number, way):
    """A vendor's library that crashes ends the client's process alone; its program is told the signal and the function."""
    with Greedy(tmp_path) as proxy:
        said, told = proxy.build(word, way)
        assert said == GONE and re.search(rf"its process has crashed \(signal {int(number)}\); its last call was "
                                          "clBuildProgram", told), told
        wait_for(lambda: f"was terminated by signal {int(number)}" in proxy.log.read_text())
        proxy.is_well()


# A child that asks, makes and frees objects of the program's, and what both say.
FORKING = WITH_A_QUEUE + """
import os
buffer = ctypes.c_void_p(cl.clCreateBuffer(context, ctypes.c_uint64(1), ctypes.c_size_t(4), None, ctypes.byref(error)))
at, n = ctypes.c_int(42), ctypes.c_size_t(4)
def move(what, where):
    return getattr(cl, what)(queue, buffer, 1, ctypes.c_size_t(0), n, ctypes.byref(where), 0, None, None)
assert move("clEnqueueWriteBuffer", at) == 0
for _ in range(3):
    child = os.fork()
    if child == 0:
        results = [cl.clFinish(queue), move("clEnqueueWriteBuffer", ctypes.c_int(1)), cl.clReleaseMemObject(buffer),
                   cl.clReleaseCommandQueue(queue), cl.clReleaseContext(context)]
        print(*results[:2], flush=True)
        sys.exit(0)
    print(os.waitpid(child, 0)[1], flush=True)
at.value = 0
print(move("clEnqueueReadBuffer", at), at.value, cl.clFinish(queue), flush=True)
"""


@WAYS
def test_a_program_that_forks(tmp_path, way):
    """Its child's calls fail, and are told why; the program's OpenCL goes on."""
    with Greedy(tmp_path) as proxy:
        more = {} if way == "unix" else {"VGPU_OPENCL": f"proxy:tcp:127.0.0.1:{proxy.port}",
                                         "VGPU_OPENCL_TOKEN": str(proxy.token)}
        done = subprocess.run([sys.executable, "-c", FORKING], env=proxy.environment(**more), capture_output=True,
                              text=True, check=False, timeout=HANG_S)
        assert done.stdout == "-2 -2\n0\n" * 3 + "0 42 0\n", (done.stdout, done.stderr)
        # Python has a word to say about fork(), too.
        told = [line for line in done.stderr.splitlines() if line.startswith("vgpu-opencl[")]
        assert len(told) == 3 and all("this process was forked from a program" in line for line in told), told


# Forks a child at each line, which uses all that it inherited; then tells what its buffer has.
FORKING_WHILE_STOPPED = WITH_A_QUEUE + """
import os
for name in ("Buffer", "Kernel", "ProgramWithSource", "UserEvent"):
    getattr(cl, "clCreate" + name).restype = ctypes.c_void_p
p, ref = ctypes.c_void_p, ctypes.byref
at, n = ctypes.c_int(42), ctypes.c_size_t(4)
buffer = p(cl.clCreateBuffer(context, ctypes.c_uint64(32), n, ref(at), ref(error)))
source = ctypes.c_char_p(b"kernel void k(global int *a, int b) { a[0] += b; }")
program = p(cl.clCreateProgramWithSource(context, 1, ref(source), None, None))
assert cl.clBuildProgram(program, 0, None, None, None, None) == 0
kernel, event = p(cl.clCreateKernel(program, b"k", None)), p(cl.clCreateUserEvent(context, None))
print("there", flush=True)
def use():
    yield cl.clSetKernelArg(kernel, 0, ctypes.c_size_t(8), ref(buffer))
    yield cl.clSetKernelArg(kernel, 1, n, ref(at))
    yield cl.clEnqueueNDRangeKernel(queue, kernel, 1, None, ref(n), None, 0, None, None)
    yield cl.clEnqueueReadBuffer(queue, buffer, 1, ctypes.c_size_t(0), n, ref(at), 0, None, None)
    yield cl.clFinish(queue)
    yield cl.clSetUserEventStatus(event, 0)
    yield cl.clWaitForEvents(1, ref(event))
    yield -2 if cl.clCreateBuffer(context, ctypes.c_uint64(1), n, None, ref(error)) is None and error.value == -2 else 1
    yield cl.clBuildProgram(program, 0, None, None, None, None)
for line in sys.stdin:
    child = os.fork()
    if child == 0:
        signal.alarm(60)
        results = list(use())
        left = [cl.clReleaseKernel(kernel), cl.clReleaseProgram(program), cl.clReleaseEvent(event),
                cl.clReleaseMemObject(buffer), cl.clReleaseCommandQueue(queue), cl.clReleaseContext(context)]
        print(0 in results, set(left), flush=True)
        os._exit(0)
    print(os.waitpid(child, 0)[1], flush=True)
cl.clEnqueueReadBuffer(queue, buffer, 1, ctypes.c_size_t(0), n, ref(at), 0, None, None)
print(at.value, flush=True)
"""


@pytest.mark.parametrize("where", ["library", "unix", "tcp"])
def test_a_fork_while_the_program_is_stopped(tmp_path, where):
    """Nobody opens the gate in the child: its calls fail all the same, its releases do nothing, and it ends."""
    os.makedirs(tmp_path / "program")
    with Greedy(tmp_path) as proxy:
        way, ask = os.pipe()
        more = {"VGPU_OPENCL_TOKEN": str(proxy.token)}
        if where != "library":
            more["VGPU_OPENCL"] = f"proxy:tcp:127.0.0.1:{proxy.port}" if where == "tcp" else "proxy:" + proxy.path
        with Stopped(tmp_path / "program", [sys.executable, "-c", "import signal\n" + FORKING_WHILE_STOPPED], stdin=way,
                     **more) as stopped:
            os.close(way)
            assert stopped.process.stdout.readline() == b"there\n"
            for _ in range(2):
                assert stopped.say(PREPARE).startswith("released")
                os.write(ask, b"\n")
                assert stopped.process.stdout.readline() == b"False {0}\n"
                assert stopped.process.stdout.readline() == b"0\n"
                assert stopped.say("resume").startswith("resumed")
            os.close(ask)
            assert stopped.process.stdout.read() == b"42\n"
            assert stopped.process.wait(HANG_S) == 0


def test_a_process_that_is_killed(tmp_path):
    """One that cannot say why any more: the proxy says it when the program comes back."""
    with Greedy(tmp_path) as proxy:
        program = proxy.begin("hang", "tcp")
        wait_for(proxy.children)
        os.kill(proxy.children()[0], signal.SIGKILL)
        said, told = finish(program)
        assert said == GONE and ": it has terminated this program: its process crashed (signal 9)" in told, told


@pytest.mark.skipif(is_instrumented(built("vgpu-proxy")), reason="its memory is a sanitizer's")
def test_memory_of_the_host(tmp_path):
    """A compiler that takes memory without end gets no more than its client may have, and fails."""
    with Greedy(tmp_path, "--host-memory=512") as proxy:
        said, told = proxy.build("grow")
        assert said == GONE and "its process has crashed (signal 6)" in told, told
        wait_for(lambda: "was terminated by signal 6" in proxy.log.read_text())
        log = proxy.log.read_text()
        assert "of beta: LLVM ERROR: out of memory" in log, log
        mib = int(re.search(r"its process crashed \(signal 6\) while using (\d+) MiB of memory", log)[1])
        assert 400 < mib < 1000
        proxy.is_well()


def test_files(tmp_path):
    """A large file is an error for who writes it, and not the end of its process."""
    with Greedy(tmp_path) as proxy:
        said, told = proxy.build("file")
        assert said == "0 0\n", told
        wait_for(lambda: "of beta: a large file: File too large" in proxy.log.read_text())


def test_lines(tmp_path):
    """What a client's process prints is in the log under the client's name, without control characters, and little of it
    where it is much; what another socket's clients do is told as before."""
    with Greedy(tmp_path) as proxy:
        assert proxy.build("print")[0] == "0 0\n"
        wait_for(lambda: not proxy.children())
        text = proxy.log.read_text()
        lines = text.splitlines()
        assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]", text)
        forged = [line for line in lines if "forged" in line]
        assert 50 <= len(forged) and len(lines) <= LINES_MOST
        assert all(re.match(r"vgpu-opencl\[\d+\]: client \d+ of beta: vgpu-opencl\[1\]: forged", line) for line in forged)
        said, told = proxy.build("crash", "tcp")
        assert said == GONE, told
        wait_for(lambda: "was terminated by signal 11" in proxy.log.read_text())
        # The next line of the loud socket tells how many there were.
        wait_for(lambda: proxy.build("print") and re.search(r"near\.sock: \d{4,} more messages were suppressed",
                                                              proxy.log.read_text()))


@pytest.mark.parametrize("option", ["--build=x", "--build=86401", "--host-memory=-1", "--build-cpu=86401"])
def test_options(tmp_path, option):
    done = subprocess.run([built("vgpu-proxy"), option, f"{tmp_path}/p.sock"], capture_output=True, text=True, check=False,
                          timeout=HANG_S)
    assert done.returncode == 2 and "is not a number up to" in done.stderr
