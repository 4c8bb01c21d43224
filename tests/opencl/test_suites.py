# SPDX-License-Identifier: Apache-2.0
"""Programs and tests of OpenCL that others wrote, from packages of Debian: each does the same with the vendor alone, with
the library, and through a proxy by shared memory and by TCP. Three of them do so, too, while they are stopped and switched
between two proxies at random. They take minutes: full runs only."""
import os
import re
import subprocess
import threading

import pytest
from opencl import SEED, Proxy, Stopped, built, native, need, need_pocl, skip, told
from ports import free_port
from settings import HANG_S
from unixhttp import ROOT, build_dir

pytestmark = pytest.mark.drawn("suites")

HERE = os.path.join(ROOT, "tests", "opencl")
# A compiler that builds all kernels of hashcat takes long on a busy machine.
LIMIT_S = 10 * HANG_S
WAYS = ("direct", "unix", "tcp")
# The MD5 of "zab".
HASH, PLAIN = "46f6e8fb2d9082a6bff9070b7aee619c", "zab"
FILTERS = ("avgblur_opencl=3", "boxblur_opencl=luma_radius=2", "convolution_opencl", "dilation_opencl", "erosion_opencl",
           "prewitt_opencl", "roberts_opencl", "sobel_opencl", "transpose_opencl", "unsharp_opencl")
PIGLIT = "/usr/lib/x86_64-linux-gnu/piglit/bin"


@pytest.fixture(autouse=True)
def _pocl():
    need_pocl()


@pytest.fixture(autouse=True)
def _memory(monkeypatch, request):
    """As much as hashcat needs at the least; proxies, too, have it from here. clpeak takes longer with more."""
    if "hashcat" in request.node.name:
        monkeypatch.setenv("POCL_MEMORY_LIMIT", "4")


def lines(text):
    return text.splitlines()


def hashcat(_folder):
    need("hashcat")
    return [["hashcat", "-m", "0", "-a", "3", HASH, "?l?l?l", "--potfile-disable", "-D", "1", "--force", "--quiet"]] * 2


def clinfo(_folder):
    need("clinfo")
    return [["clinfo"]]


def clpeak(_folder):
    need("clpeak")
    return [["clpeak", "--kernel-latency", "--transfer-bandwidth"]]


def ffmpeg(_folder):
    need("ffmpeg")
    return [["ffmpeg", "-v", "error", "-init_hw_device", "opencl=cl:0.0", "-filter_hw_device", "cl", "-f", "lavfi", "-i",
             "testsrc2=size=160x120:rate=5:duration=4", "-vf", f"format=yuv420p,hwupload,{name},hwdownload,format=yuv420p",
             "-f", "framemd5", "-"] for name in FILTERS]


def piglit(_folder):
    if not os.path.isdir(PIGLIT):
        skip("there is no piglit")
    return [[os.path.join(PIGLIT, name)] for name in sorted(os.listdir(PIGLIT)) if name.startswith("cl-api-")]


def clblast(folder):
    if not os.path.exists("/usr/include/clblast_c.h"):
        skip("there is no CLBlast (libclblast-dev)")
    need("cc")
    program = str(folder / "with-clblast")
    subprocess.run(["cc", f"-I{build_dir()}", "-o", program, f"{HERE}/with-clblast.c", "-lclblast", "-lOpenCL"],
                   check=True, timeout=HANG_S)
    return [[program]]


def pyopencl(_folder):
    if subprocess.run(["/usr/bin/python3", "-c", "import pyopencl"], capture_output=True, check=False).returncode != 0:
        skip("there is no PyOpenCL (python3-pyopencl)")
    return [["/usr/bin/python3", f"{HERE}/with-pyopencl.py", "12"]]


def clinfo_result(text):
    """A proxy cannot run functions of the program; names of the library differ in length from the vendor's."""
    return [" ".join(line.split()) for line in told(text) if "Run native kernels" not in line]


def piglit_result(text):
    """What piglit makes of one of its tests; none: it has crashed."""
    found = re.search(r'PIGLIT: \{"result": "(\w+)"', text)
    return [found[1] if found else "crash"]


# Each with what of its output is the same in each run.
SUITES = {"clinfo": (clinfo, clinfo_result),
          "clpeak": (clpeak, lambda text: re.sub(r"[\d.]+", "N", text).splitlines()),
          "CLBlast": (clblast, lines),
          "ffmpeg": (ffmpeg, lambda text: [line for line in lines(text) if not line.startswith("#software")]),
          "hashcat": (hashcat, lines),
          "piglit": (piglit, piglit_result),
          "PyOpenCL": (pyopencl, lines)}


class Run:
    """Runs a suite's commands, each kind of run with a home of its own: caches of binaries are not those of others."""

    def __init__(self, name, folder):
        self.commands, self.result = SUITES[name][0](folder), SUITES[name][1]
        self.folder = folder

    def home(self, way):
        home = self.folder / f"home-{way}"
        os.makedirs(home, exist_ok=True)
        return {"HOME": str(home), "XDG_CACHE_HOME": f"{home}/cache", "XDG_DATA_HOME": f"{home}/data"}

    def run(self, way, environment):
        results = []
        for argv in self.commands:
            done = subprocess.run(argv, env={**environment, **self.home(way)}, stdin=subprocess.DEVNULL, capture_output=True,
                                  text=True, errors="replace", cwd=self.folder, timeout=LIMIT_S, check=False)
            # What piglit makes of a crash is its result.
            results.append((done.returncode, self.result(done.stdout)))
        return results


def ways(folder, proxy, port):
    direct = {**native(), "OCL_ICD_VENDORS": built("libvgpu-opencl.so"), "VGPU_OPENCL_AGENT": "/nowhere",
              "VGPU_OPENCL_VENDORS": f"{folder}/vendors"}
    tcp = {"VGPU_OPENCL": f"proxy:tcp:127.0.0.1:{port}", "VGPU_OPENCL_TOKEN": f"{folder}/token"}
    return {"direct": direct, "unix": proxy.environment(VGPU_OPENCL=f"proxy:{folder}/near.sock"), "tcp": proxy.environment(**tcp)}


class Reached(Proxy):
    def __init__(self, folder, **more):
        self.port = free_port()
        os.makedirs(folder, exist_ok=True)
        (folder / "token").write_text("a token of the tests\n")
        super().__init__(folder, sockets=(f"tcp:127.0.0.1:{self.port},vm=alpha,token={folder}/token", "near.sock,vm=beta"),
                         **more)


def differences(suite, alone, other):
    """Where results differ, in words. A test of piglit that fails with the vendor may pass with the library."""
    found = []
    for argv, one, two in zip(suite.commands, alone, other):
        if one != two and not (PIGLIT in argv[0] and two[1] == ["pass"]):
            pairs = [pair for pair in zip(one[1] + [""] * len(two[1]), two[1] + [""] * len(one[1])) if pair[0] != pair[1]]
            found.append((argv[:2], one[0], two[0], pairs[:5]))
    return found


@pytest.mark.parametrize("name", SUITES)
def test_a_suite(tmp_path, name):
    """It gives the same results in all ways, and they are good."""
    suite = Run(name, tmp_path)
    alone = suite.run("native", native())
    good = [status for status, _ in alone].count(0)
    # Five of piglit's fail with PoCL 3.1, and one crashes.
    assert good >= len(alone) * 0.8 if name == "piglit" else good == len(alone), alone
    if name == "hashcat":
        assert all(result == [f"{HASH}:{PLAIN}"] for _, result in alone), alone
    with Reached(tmp_path, strict=False) as proxy:
        environments = ways(tmp_path, proxy, proxy.port)
        for way in WAYS:
            assert not differences(suite, alone, suite.run(way, environments[way])), way


@pytest.mark.parametrize("name", ["CLBlast", "ffmpeg", "PyOpenCL"])
@pytest.mark.parametrize("where", ["direct", "proxies"])
def test_a_suite_that_is_stopped(tmp_path, name, where):
    """Stopped at random times, and switched between two proxies, it gives the same results."""
    suite = Run(name, tmp_path)
    alone = suite.run("native", native())
    with Reached(tmp_path / "one") as one, Reached(tmp_path / "two") as two:
        places = [f"proxy:{tmp_path}/{folder}/near.sock" for folder in ("two", "one")] if where == "proxies" else []
        more = {"VGPU_OPENCL": places[1]} if places else {}
        assert one.path and two.path
        stops, results = 0, []
        for number, argv in enumerate(suite.commands):
            folder = tmp_path / f"program-{number}"
            os.makedirs(folder)
            output = []
            with Stopped(folder, argv, stdin=subprocess.DEVNULL, **suite.home("stopped"), **more) as program:
                reader = threading.Thread(target=lambda p=program, o=output: o.append(p.process.stdout.read().decode()))
                reader.start()
                # The other proxy builds from source, which takes a minute for CLBlast on a busy machine.
                most = 8 if places else 100
                stops += program.stop_at_random(f"{SEED}/{name}/{number}", most, *places, longest=0.2)[0]
                results.append((program.process.wait(LIMIT_S), None))
                reader.join()
            results[-1] = (results[-1][0], suite.result(output[0]))
        assert not differences(suite, alone, results)
        assert stops >= 1
