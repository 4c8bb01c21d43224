# SPDX-License-Identifier: Apache-2.0
"""Processes that a program at a proxy forks: they make contexts over a link of their own, while the program's objects do
nothing in them, and the program notices nothing."""
import os
import subprocess
import sys

import pytest
from opencl import PREPARE, WITH_A_QUEUE, Proxy, Stopped, need_pocl
from ports import free_port
from settings import HANG_S

# Own objects at the device that was inherited, or the error of what fails; and what they compute.
OWN = WITH_A_QUEUE + """
import os
for name in ("Buffer", "Kernel", "ProgramWithSource"):
    getattr(cl, "clCreate" + name).restype = ctypes.c_void_p
p, ref, n, one = ctypes.c_void_p, ctypes.byref, ctypes.c_size_t(4), ctypes.c_size_t(1)
class Own:
    def __init__(self):
        self.context = p(cl.clCreateContext(None, 1, ref(device), None, None, ref(error)))
        self.error = error.value
        if self.error:
            return
        self.queue = p(cl.clCreateCommandQueue(self.context, device, ctypes.c_uint64(0), None))
        self.buffer = p(cl.clCreateBuffer(self.context, ctypes.c_uint64(1), n, None, None))
        source = ctypes.c_char_p(b"kernel void k(global int *a, int b) { a[0] += b; }")
        program = p(cl.clCreateProgramWithSource(self.context, 1, ref(source), None, None))
        assert cl.clBuildProgram(program, 0, None, None, None, None) == 0
        self.kernel = p(cl.clCreateKernel(program, b"k", None))
        assert cl.clSetKernelArg(self.kernel, 0, ctypes.c_size_t(8), ref(self.buffer)) == 0
        self.write(0)
    def write(self, value):
        at = ctypes.c_int(value)
        assert cl.clEnqueueWriteBuffer(self.queue, self.buffer, 1, ctypes.c_size_t(0), n, ref(at), 0, None, None) == 0
    def read(self):
        at = ctypes.c_int(0)
        assert cl.clEnqueueReadBuffer(self.queue, self.buffer, 1, ctypes.c_size_t(0), n, ref(at), 0, None, None) == 0
        return at.value
    def add(self, value):
        at = ctypes.c_int(value)
        assert cl.clSetKernelArg(self.kernel, 1, n, ref(at)) == 0
        assert cl.clEnqueueNDRangeKernel(self.queue, self.kernel, 1, None, ref(one), None, 0, None, None) == 0
    def sum(self, rounds):
        for i in range(rounds):
            self.add(i)
        return self.read()
"""

# A family: each process computes with objects of its own while its parent does, and tries what it inherited.
FAMILY = OWN + """
def live(generation):
    own = Own()
    assert own.error == 0, own.error
    own.write(1000 * generation)
    child = os.fork() if generation < 3 else None
    if child == 0:
        child = None
        name = ctypes.create_string_buffer(200)
        assert cl.clGetDeviceInfo(device, 0x102B, ctypes.c_size_t(200), name, None) == 0 and name.value
        theirs, own = own, live(generation + 1)
        at = ctypes.c_int(7)
        mixed = [cl.clEnqueueReadBuffer(own.queue, theirs.buffer, 1, ctypes.c_size_t(0), n, ref(at), 0, None, None),
                 cl.clSetKernelArg(own.kernel, 0, ctypes.c_size_t(8), ref(theirs.buffer)),
                 cl.clEnqueueReadBuffer(theirs.queue, theirs.buffer, 1, ctypes.c_size_t(0), n, ref(at), 0, None, None),
                 cl.clFinish(theirs.queue)]
        left = [cl.clReleaseMemObject(theirs.buffer), cl.clReleaseKernel(theirs.kernel),
                cl.clReleaseCommandQueue(theirs.queue), cl.clReleaseContext(theirs.context)]
        print(generation + 1, mixed, left, own.read(), flush=True)
        os._exit(0)
    total = own.sum(50)
    assert total == 1000 * generation + 49 * 25, total
    if child:
        assert os.waitpid(child, 0)[1] == 0
    return own
print(1, live(1).read(), flush=True)
"""


@pytest.fixture(autouse=True)
def _pocl():
    need_pocl()


class Reached(Proxy):
    """A proxy with a unix socket and a TCP port."""

    def __init__(self, folder):
        self.port = free_port()
        (folder / "token").write_text("a token of the tests\n")
        super().__init__(folder, sockets=(f"tcp:127.0.0.1:{self.port},vm=alpha,token={folder}/token", "near.sock,vm=beta"))
        self.more = {"unix": {"VGPU_OPENCL": f"proxy:{folder}/near.sock"},
                     "stream": {"VGPU_OPENCL": f"proxy:stream:{folder}/near.sock"},
                     "tcp": {"VGPU_OPENCL": f"proxy:tcp:127.0.0.1:{self.port}", "VGPU_OPENCL_TOKEN": str(folder / "token")}}


@pytest.mark.parametrize("way", ["unix", "stream", "tcp"])
def test_contexts_of_a_child(tmp_path, way):
    """Children and grandchildren compute beside the program. Own objects and inherited ones do not mix."""
    with Reached(tmp_path) as proxy:
        # The program's link is there, and its children are gone, when the last line comes.
        with Stopped(tmp_path, [sys.executable, "-c", FAMILY], **proxy.more[way]) as program:
            said = program.process.stdout.read().decode().splitlines()
            assert program.process.wait(HANG_S) == 0
    nothing = "[-34, -34, -2, -2] [0, 0, 0, 0]"
    assert said == [f"3 {nothing} 4225", f"2 {nothing} 3225", "1 2225"], said


# The child's garbage collector releases what it inherited.
GARBAGE = OWN + """
own = Own()
child = os.fork()
if child == 0:
    os._exit(sum(-result for result in (cl.clReleaseKernel(own.kernel), cl.clReleaseMemObject(own.buffer),
                                        cl.clReleaseCommandQueue(own.queue), cl.clReleaseContext(own.context))))
print(os.waitpid(child, 0)[1], own.sum(10))
"""


def test_a_child_that_only_releases(tmp_path):
    """There is nothing to report, and the program is not affected."""
    with Reached(tmp_path) as proxy:
        for way in proxy.more.values():
            done = subprocess.run([sys.executable, "-c", GARBAGE], env=proxy.environment(**way), capture_output=True, text=True,
                                  timeout=HANG_S, check=True)
            assert (done.stdout, done.stderr) == ("0 45\n", "")


# Forks at each line. The child makes what is its own, if it can; computes, stopped meanwhile; and tells it.
STOPPED_CHILD = OWN + """
own = Own()
own.write(42)
print("there", flush=True)
for line in sys.stdin:
    child = os.fork()
    if child == 0:
        mine = Own()
        print(mine.error, flush=True)
        if mine.error == 0:
            mine.write(line.count("x"))
            sys.stdin.readline()
            print(mine.sum(10), flush=True)
        os._exit(0)
    print(os.waitpid(child, 0)[1], flush=True)
print(own.read(), flush=True)
"""


@pytest.mark.parametrize("where", ["library", "unix", "tcp"])
def test_a_child_of_a_stopped_program(tmp_path, where):
    """It has a link of its own, and a thread for the agent, which stops it by itself; a library that was let go because the
    GPU leaves is not loaded in it."""
    os.makedirs(tmp_path / "program")
    with Reached(tmp_path) as proxy:
        way, ask = os.pipe()
        with Stopped(tmp_path / "program", [sys.executable, "-uc", STOPPED_CHILD], stdin=way,
                     **proxy.more.get(where, {})) as program:
            os.close(way)
            told = program.process.stdout
            assert told.readline() == b"there\n"
            assert program.say(PREPARE).startswith("released")
            os.write(ask, b"xxx\n")
            if where == "library":
                assert told.readline() == b"-2\n"
            else:
                assert told.readline() == b"0\n"
                with program.accept() as connection, connection.makefile("rw") as lines:
                    def say(line):
                        lines.write(line + "\n")
                        lines.flush()
                        return lines.readline().strip()
                    word, one, pid = lines.readline().split()
                    assert (word, one) == ("hello", "1") and int(pid) != program.process.pid
                    # Four bytes of its own, and none of the program's.
                    assert say("ask") == "is remote 4"
                    for place in ("", f" at {proxy.more['unix']['VGPU_OPENCL']}", ""):
                        assert say(PREPARE).startswith("released 4 ")
                        assert say("resume" + place).startswith("resumed 4 ")
                    os.write(ask, b"\n")
                    assert told.readline() == b"48\n"
            assert told.readline() == b"0\n"
            assert program.say("resume").startswith("resumed")
            os.close(ask)
            assert told.read() == b"42\n"
            assert program.process.wait(HANG_S) == 0
