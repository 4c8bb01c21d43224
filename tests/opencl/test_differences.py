# SPDX-License-Identifier: Apache-2.0
"""What other people's programs do, and what differed with the library or a proxy from PoCL alone."""
import os
import subprocess
import sys

import pytest
from opencl import PREPARE, WITH_A_QUEUE, Proxy, Stopped, built, native, need_pocl
from settings import HANG_S


@pytest.fixture(autouse=True)
def _pocl():
    need_pocl()


@pytest.fixture(name="proxy")
def _proxy(tmp_path):
    os.makedirs(tmp_path / "host")
    with Proxy(tmp_path / "host") as proxy:
        yield proxy


def direct():
    return {**os.environ, "OCL_ICD_VENDORS": built("libvgpu-opencl.so"), "VGPU_OPENCL_AGENT": "/nowhere",
            "VGPU_OPENCL_VENDORS": "/etc/OpenCL/vendors"}


def run(program, environment, *lines, cwd=None):
    """What a program in Python prints, and what the compiler and the library say beside that."""
    done = subprocess.run([sys.executable, "-c", program], env=environment, input="".join(line + "\n" for line in lines),
                          capture_output=True, text=True, timeout=HANG_S, cwd=cwd, check=False)
    assert done.returncode == 0, done
    return done.stdout, done.stderr


# Builds main.cl with the options of each line, and runs its kernel.
BUILDS = WITH_A_QUEUE + """
cl.clCreateProgramWithSource.restype = cl.clCreateKernel.restype = ctypes.c_void_p
text = open("main.cl", "rb").read()
source = ctypes.c_char_p(text)
program = ctypes.c_void_p(cl.clCreateProgramWithSource(context, 1, ctypes.byref(source), None, None))
answer = (ctypes.c_int * 4)()
mem = ctypes.c_void_p(cl.clCreateBuffer(context, ctypes.c_uint64(1), ctypes.c_size_t(16), None, None))
kernel = None

def runs():
    global kernel
    kernel = kernel or ctypes.c_void_p(cl.clCreateKernel(program, b"k", None))
    cl.clSetKernelArg(kernel, 0, ctypes.c_size_t(8), ctypes.byref(mem))
    cl.clEnqueueNDRangeKernel(queue, kernel, 1, None, ctypes.byref(ctypes.c_size_t(1)), None, 0, None, None)
    cl.clEnqueueReadBuffer(queue, mem, 1, ctypes.c_size_t(0), ctypes.c_size_t(16), answer, 0, None, None)
    return list(answer)

for line in sys.stdin:
    if line == "run\\n":
        print(runs(), flush=True)
        continue
    if kernel:
        cl.clReleaseKernel(kernel)
        kernel = None
    error = cl.clBuildProgram(program, 0, None, line.strip().encode(), None, None)
    kept = ctypes.create_string_buffer(len(text) + 1)
    cl.clGetProgramInfo(program, 0x1164, ctypes.c_size_t(len(text) + 1), kept, None)
    print(error, error or runs(), kept.value == text, flush=True)
"""

FILES = {
    "main.cl": """// #include "missing.h"
/* #include "missing.h"
#include "missing.h" */
#include "first.h"
# include <angle.h> /* a comment */
#if 0
#include "missing.h"
#endif
#include "once.h"
#include "once.h"
#define NAME "named.h"
kernel void k(global int *a)
{
    a[0] = FIRST + DEEP;
    a[1] = ANGLE + ONCE + BETA;
    a[2] = __LINE__;
    a[3] = 0
#ifdef MORE
           + MORE
#endif
        ;
}
""",
    "own/first.h": '#include "sub/beside.h"\n#include "cycle-a.h"\nconstant int first_here = 1;\n#define FIRST 1',
    "own/sub/beside.h": '#include "deep.h"\n',
    "own/sub/deep.h": "#define DEEP 10\n",
    "own/cycle-a.h": '/* A. */\n#ifndef A_H\n#define A_H\n#include "cycle-b.h"\n#endif\n',
    "own/cycle-b.h": '#ifndef B_H\n#define B_H\n#include "cycle-a.h"\n#define BETA 10000\n#endif\n',
    "own/once.h": "#pragma once\nconstant int once_here = 1;\n#define ONCE 1000\n",
    "own/more folders/angle.h": "#define ANGLE 100\n",
}
OPTIONS = '-I own -I "own/more folders"'


@pytest.fixture(name="place")
def _place(tmp_path):
    for name, text in FILES.items():
        path = tmp_path / "guest" / name
        os.makedirs(path.parent, exist_ok=True)
        path.write_text(text)
    # PoCL takes no folder with a blank.
    os.symlink("more folders", tmp_path / "guest" / "own" / "more")
    return tmp_path / "guest"


def test_own_files_are_included(place, proxy):
    """As they are at each build, wherever the compiler runs."""
    lines = ("-I own -Iown/more", "-I own -Iown/more -DMORE=5")
    alone, _ = run(BUILDS, native(), *lines, cwd=place)
    assert alone == "0 [11, 11100, 16, 0] True\n0 [11, 11100, 16, 5] True\n"
    assert run(BUILDS, direct(), lines[0], cwd=place)[0] + "0 [11, 11100, 16, 5] True\n" == alone
    # What is missing is an error, and files of an earlier build are not used.
    found, _ = run(BUILDS, proxy.environment(), OPTIONS, "", lines[1], cwd=place)
    assert found.splitlines() == ["0 [11, 11100, 16, 0] True", "-11 -11 True", "0 [11, 11100, 16, 5] True"]


def test_own_files_go_along(place, proxy):
    """A program that was built here is built at a proxy and here again, though its files have gone."""
    with Stopped(place, [sys.executable, "-c", BUILDS], stdin=subprocess.PIPE) as stopped:
        def answers(line):
            stopped.process.stdin.write(line + b"\n")
            stopped.process.stdin.flush()
            return stopped.process.stdout.readline()
        assert answers(b"-I own -Iown/more") == b"0 [11, 11100, 16, 0] True\n"
        os.rename(place / "own", place / "gone")
        for where in (f" at proxy:{proxy.path}", ""):
            assert stopped.say(PREPARE).startswith("released")
            assert stopped.say("resume" + where).startswith("resumed")
            assert answers(b"run") == b"[11, 11100, 16, 0]\n"
        os.rename(place / "gone", place / "own")
        (place / "own/sub/deep.h").write_text("#define DEEP 20\n")
        assert answers(b"-I own -Iown/more") == b"0 [21, 11100, 16, 0] True\n"


def test_what_fails_is_built_once(place, proxy):
    """The compiler says once what is wrong, and its log is the program's."""
    (place / "main.cl").write_text("kernel void k(global int *a) { a[0] = x; a[1] = y; }\n")
    alone = run(BUILDS, native(), "", cwd=place)
    assert alone[0].startswith("-11 ") and alone[1].count("2 errors generated") == 1
    assert run(BUILDS, direct(), "", cwd=place) == alone
    assert run(BUILDS, proxy.environment(), "", cwd=place)[0] == alone[0]
    assert proxy.log.read_text().count("2 errors generated") <= 1


DEVICES = WITH_A_QUEUE + """
def devices(context):
    cl.clCreateProgramWithSource.restype = ctypes.c_void_p
    source = ctypes.c_char_p(b"kernel void k(global int *a) { a[0] = 1; }")
    program = ctypes.c_void_p(cl.clCreateProgramWithSource(context, 1, ctypes.byref(source), None, None))
    n, size, list_ = ctypes.c_uint(), ctypes.c_size_t(), (ctypes.c_void_p * 8)()
    result = []
    for ask, of, numbers, names in ((cl.clGetContextInfo, context, 0x1083, 0x1081),
                                    (cl.clGetProgramInfo, program, 0x1162, 0x1163)):
        result += [ask(of, numbers, ctypes.c_size_t(4), ctypes.byref(n), None), n.value]
        result += [ask(of, names, ctypes.c_size_t(8 * n.value), list_, ctypes.byref(size)), size.value]
    return result

both = (ctypes.c_void_p * 2)(device, device)
print(devices(ctypes.c_void_p(cl.clCreateContext(None, 2, both, None, None, None))))
by = (ctypes.c_ssize_t * 3)(0x1086, 1, 0)
n = ctypes.c_uint()
assert cl.clCreateSubDevices(device, by, 2, both, ctypes.byref(n)) == 0
print(devices(ctypes.c_void_p(cl.clCreateContext(None, 2, both, None, None, None))))
"""


def test_devices_are_as_many_as_are_listed(proxy):
    """Of a context with a device twice, and with two parts of one."""
    alone, _ = run(DEVICES, native())
    assert alone.splitlines()[0] == "[0, 1, 0, 8, 0, 1, 0, 8]"
    assert run(DEVICES, direct())[0] == alone
    assert run(DEVICES, proxy.environment())[0] == alone


NOTHING = WITH_A_QUEUE + """
def at(n):
    return ctypes.c_size_t(n)

def flags(n):
    return ctypes.c_void_p(cl.clCreateBuffer(context, ctypes.c_uint64(n), at(64), None, None))

room, event, kind = (ctypes.c_char * 64)(), ctypes.c_void_p(), ctypes.c_uint()
for mem in (flags(1), flags(1 | 1 << 7), flags(1 | 1 << 8)):
    for call in (cl.clEnqueueReadBuffer, cl.clEnqueueWriteBuffer):
        print(call(queue, mem, 1, at(0), at(0), room, 0, None, None), call(queue, mem, 0, at(64), at(0), room, 0, None, None),
              call(queue, mem, 1, at(65), at(0), room, 0, None, None), call(queue, mem, 1, at(0), at(0), None, 0, None, None))
for call in (cl.clEnqueueReadBuffer, cl.clEnqueueWriteBuffer):
    for waits in (1, 0):
        assert call(queue, flags(1), waits, at(8), at(0), room, 0, None, ctypes.byref(event)) == 0
        assert cl.clWaitForEvents(1, ctypes.byref(event)) == 0
        cl.clGetEventInfo(event, 0x11D1, at(4), ctypes.byref(kind), None)
        print(hex(kind.value))
"""


def test_nothing_is_read_and_written(proxy):
    """No bytes within a buffer are no error; they are one outside of it, and where the buffer does not allow it."""
    alone = run(NOTHING, native())[0]
    assert alone.splitlines()[0] == "0 0 -30 -30" and alone.splitlines()[-4:] == ["0x11f3", "0x11f3", "0x11f4", "0x11f4"]
    for environment in (direct(), proxy.environment()):
        assert run(NOTHING, environment)[0] == alone
