# SPDX-License-Identifier: Apache-2.0
"""The library and the proxy of the previous version, each beside the other one of this version: programs get the results
that they get without a proxy, by each way to it."""
import os
import re
import subprocess
import sys

import previous
import pytest
from opencl import POCL, PREPARE, SEED, WITH_A_QUEUE, Proxy, Stopped, built, native, need_pocl, output
from ports import free_port
from settings import HANG_S
from test_proxy import PRINTS
from unixhttp import wait_for

pytestmark = pytest.mark.drawn("previous")

OLD, NEW = "previous", "this"


@pytest.fixture(autouse=True)
def _pocl():
    need_pocl()


class Site(Proxy):
    """A proxy of one version, for programs with the library of the other one."""

    def __init__(self, folder, proxy, library):
        self.port = free_port()
        self.token = folder / "token"
        self.token.write_text("a token of the tests\n")
        self.library = previous.program("libvgpu-opencl.so") if library == OLD else built("libvgpu-opencl.so")
        far = f"tcp:127.0.0.1:{self.port},vm=alpha,token={self.token}"
        super().__init__(folder, "--allow-binaries", sockets=(far, "near.sock"),
                         program=previous.program("vgpu-proxy") if proxy == OLD else None)
        self.path = self.sockets[-1]

    def of(self, way):
        place = self.path if way == "unix" else f"tcp:127.0.0.1:{self.port}"
        return self.environment(OCL_ICD_VENDORS=self.library, VGPU_OPENCL="proxy:" + place,
                                VGPU_OPENCL_TOKEN=str(self.token))


@pytest.fixture(name="site", params=[(NEW, OLD), (OLD, NEW)], ids=["new-proxy-old-library", "old-proxy-new-library"])
def _site(tmp_path, request):
    with Site(tmp_path, *request.param) as site:
        yield site


WAYS = pytest.mark.parametrize("way", ["unix", "tcp"])


@WAYS
def test_programs(site, way):
    lines = output([built("tests/opencl/six"), POCL, site.library, "1"], site.of(way))
    assert lines.count("equal") == 6, lines


@WAYS
def test_random_calls(site, way):
    argv = [built("tests/opencl/random-calls"), str(SEED), "300"]
    assert output(argv, site.of(way)) == output(argv, native())


@WAYS
def test_one_that_is_ended(site, way):
    """A program whose process the proxy loses gets the error for that, and no other one."""
    code = WITH_A_QUEUE + "print(cl.clFinish(queue), flush=True)\ninput()\nprint(cl.clFinish(queue))\n"
    with subprocess.Popen([sys.executable, "-c", code], env=site.of(way), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, bufsize=0) as program:
        assert program.stdout.readline() == b"0\n"
        [process] = site.children()
        os.kill(process, 9)
        said, told = program.communicate(b"\n", timeout=HANG_S)
        assert said == b"-2\n" and re.search(rb"vgpu", told), (said, told)
    with_another = subprocess.run([sys.executable, "-c", WITH_A_QUEUE + "print(cl.clFinish(queue))"], env=site.of(way),
                                  capture_output=True, text=True, check=False, timeout=HANG_S)
    assert with_another.stdout == "0\n", with_another.stderr


@WAYS
def test_what_kernels_print(site, way):
    """It is in the proxy's log, as neither side sends what the other does not know."""
    argv = [sys.executable, "-c", PRINTS, "3", "2", "waits"]
    assert output(argv, site.of(way)) == "waited\nwaited\nfinished\n"
    wait_for(lambda: "1: item 2" in site.log.read_text())


def test_a_proxy_named_before_the_stop(tmp_path, site):
    """A library that does not know this stops and resumes there all the same."""
    argv = [sys.executable, "-c", WITH_A_QUEUE + "print(cl.clFinish(queue), flush=True)\nsys.stdin.readline()\n"
            "print(cl.clFinish(queue), flush=True)\n"]
    os.makedirs(tmp_path / "program")
    with Stopped(tmp_path / "program", argv, stdin=subprocess.PIPE, OCL_ICD_VENDORS=site.library,
                 VGPU_OPENCL="proxy:" + site.path) as program:
        assert program.process.stdout.readline() == b"0\n"
        assert program.say(f"{PREPARE} proxy:{site.path}").startswith("released")
        assert program.say(f"resume at proxy:{site.path}").startswith("resumed")
        program.process.stdin.write(b"\n")
        program.process.stdin.close()
        assert program.process.stdout.read() == b"0\n"
