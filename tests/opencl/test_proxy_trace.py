# SPDX-License-Identifier: Apache-2.0
"""vgpu-proxy traced by LTTng-UST, with a session daemon of its own: what the events say is what the proxy counts, and
what `vgpuctl analyze` makes of the recording."""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time
from types import SimpleNamespace

import pytest
from lttng import PLAYER, Player
from opencl import Proxy, built, need_pocl
from settings import HANG_S
from unixhttp import build_dir
from vgpuctl import analyze

TRACER = os.path.join(build_dir(), "vgpu-proxy-trace")
NOBODY = 65534
# root's session daemon is that of the whole machine: another user has one of his own.
AS_NOBODY = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", "--"] if os.getuid() == 0 else []
# What the scheduler tells of a VM's vCPU: it runs for a while.
TID = 4_100_000
SCHEDULER = [(0, "switch", 0, "swapper/0", 0, TID, "CPU 0/KVM"), (0, "switch", TID, "CPU 0/KVM", 1, 0, "swapper/0")]
SMALL = """
import ctypes, sys
cl = ctypes.CDLL("libOpenCL.so.1")
for name in ("Context", "CommandQueue", "Buffer", "ProgramWithSource", "Kernel"):
    getattr(cl, "clCreate" + name).restype = ctypes.c_void_p
P, S = ctypes.c_void_p, ctypes.c_size_t
platform, device, error = P(), P(), ctypes.c_int()
cl.clGetPlatformIDs(1, ctypes.byref(platform), None)
cl.clGetDeviceIDs(platform, ctypes.c_uint64(0xFFFFFFFF), 1, ctypes.byref(device), None)
context = P(cl.clCreateContext(None, 1, ctypes.byref(device), None, None, None))
queue = P(cl.clCreateCommandQueue(context, device, ctypes.c_uint64(0), None))
buffer = P(cl.clCreateBuffer(context, ctypes.c_uint64(1), S(4096), None, ctypes.byref(error)))
text = ctypes.c_char_p(b"kernel void one(global int *at) { at[get_global_id(0)] += 1; }")
program = P(cl.clCreateProgramWithSource(context, 1, ctypes.byref(text), None, None))
assert cl.clBuildProgram(program, 0, None, None, None, None) == 0
kernel = P(cl.clCreateKernel(program, b"one", None))
assert cl.clSetKernelArg(kernel, 0, S(8), ctypes.byref(buffer)) == 0
data = ctypes.create_string_buffer(4096)
for i in range(int(sys.argv[1])):
    assert cl.clEnqueueWriteBuffer(queue, buffer, 0, S(0), S(4096), data, 0, None, None) == 0
    for _ in range(4):
        assert cl.clEnqueueNDRangeKernel(queue, kernel, 1, None, ctypes.byref(S(1024)), None, 0, None, None) == 0
    assert cl.clEnqueueReadBuffer(queue, buffer, 1, S(0), S(4096), data, 0, None, None) == 0
cl.clFinish(queue)
"""

# One after the other: see tests/daemon/test_trace.py.
pytestmark = [pytest.mark.skipif(not os.access(TRACER, os.X_OK), reason="built without lttng-ust"),
              pytest.mark.skipif(not shutil.which("lttng-sessiond"), reason="lttng-tools is not installed"),
              pytest.mark.xdist_group("lttng")]


class Sessions:
    """A session daemon of the user's own, and what it records."""

    def __init__(self, home):
        self.trace = os.path.join(home, "trace")
        self.env = {**os.environ, "LTTNG_HOME": home, "HOME": home, "LTTNG_UST_REGISTER_TIMEOUT": "-1"}
        with open(os.path.join(home, "sessiond.log"), "wb") as log:
            self.process = subprocess.Popen([*AS_NOBODY, "lttng-sessiond", "--no-kernel"], env=self.env, stdout=log, stderr=log,
                                            stdin=subprocess.DEVNULL)
        self.wait(lambda: self.lttng("list").returncode == 0)

    @staticmethod
    def wait(is_so):
        until = time.monotonic() + HANG_S
        while not is_so():
            assert time.monotonic() < until
            time.sleep(0.05)

    def lttng(self, *args):
        return subprocess.run([*AS_NOBODY, "lttng", "--no-sessiond", *args], env=self.env, text=True, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, timeout=HANG_S, check=False)

    def record(self):
        for args in (["create", "test", f"--output={self.trace}"], ["enable-event", "-u", "vgpu_proxy:*,sched:*"], ["start"]):
            done = self.lttng(*args)
            assert done.returncode == 0, done.stdout

    def end(self):
        self.lttng("stop")
        self.lttng("destroy", "test")
        text = subprocess.run(["babeltrace2", "--clock-cycles", self.trace], capture_output=True, text=True, check=True).stdout
        return text.splitlines()

    def stop(self):
        self.process.terminate()
        self.process.wait(HANG_S)


@pytest.fixture(name="home")
def make_home():
    """nobody may not look into pytest's directories. Short: it is in paths of sockets."""
    need_pocl()
    with tempfile.TemporaryDirectory(prefix="vgpu-proxy-trace-", dir="/tmp") as path:
        if AS_NOBODY:
            os.chown(path, NOBODY, NOBODY)
            if subprocess.run([*AS_NOBODY, "test", "-x", TRACER], check=False).returncode:
                pytest.skip(f"{TRACER} is in a directory that nobody may not look into")
        yield path


@pytest.fixture(name="sessions")
def make_sessions(home):
    sessions = Sessions(home)
    yield sessions
    sessions.stop()


class Traced(Proxy):
    """A proxy of nobody's, of two VMs, which is traced."""

    def __init__(self, home):
        folder = pathlib.Path(home, "proxy")
        os.mkdir(folder)
        if AS_NOBODY:
            os.chown(folder, NOBODY, NOBODY)
        # PoCL keeps what it compiles.
        more = ["env", f"HOME={folder}", f"POCL_CACHE_DIR={folder}/pocl", f"LTTNG_HOME={home}", "LTTNG_UST_REGISTER_TIMEOUT=-1"]
        super().__init__(folder, "--trace", f"--ask={folder}/a.sock.ask", sockets=("a.sock,vm=vm-a", "b.sock,vm=vm-b"),
                         prefix=[*AS_NOBODY, *more])

    def run(self, n, socket_n):
        environment = self.environment(VGPU_OPENCL="proxy:" + self.sockets[socket_n].split(",")[0])
        return subprocess.Popen([sys.executable, "-c", SMALL, str(n)], env=environment)


def events_of(lines):
    """Name, and fields, of each."""
    found = []
    for line in lines:
        name = re.search(r"^\[(\d+)\].* vgpu_proxy:(\w+): ", line)
        if not name:
            continue
        fields = dict(re.findall(r'(\w+) = ("[^"]*"|-?\d+)', line))
        found.append((name.group(2), {k: v[1:-1] if v[0] == '"' else int(v) for k, v in fields.items()}))
        found[-1][1]["recorded_ns"] = int(name.group(1))
    return found


def gone(pid):
    return not os.path.exists(f"/proc/{pid}")


def test_trace(home, sessions):
    """Two VMs at once, traced: counters of the proxy, events, and the analysis say the same."""
    with Traced(home) as proxy:
        sessions.wait(proxy.children)
        tracer, = proxy.children()
        sessions.wait(lambda: "vgpu_proxy:request_done" in sessions.lttng("list", "-u").stdout)
        # While nobody records, nothing is told, and one who begins tells of those that are there.
        assert proxy.run(1, 0).wait(HANG_S) == 0
        sessions.record()
        sessions.wait(lambda: "is recording commands" in proxy.log.read_text())
        player = Player(SimpleNamespace(player=shutil.copy(PLAYER, home), env=sessions.env))
        player.ask("wait")
        player.write(SCHEDULER[0])
        player.ask("sync")
        programs = [proxy.run(30, 0), proxy.run(20, 1)]
        assert [program.wait(HANG_S) for program in programs] == [0, 0]
        player.write(SCHEDULER[1])
        player.ask("sync")
        player.stop()
        counted = {one["vm"]: one for one in proxy.ask()["sockets"]}
    # It tells what there is, and ends, when the proxy has.
    sessions.wait(lambda: gone(tracer))
    events = events_of(sessions.end())
    (pathlib.Path(home) / "map").write_text(f"{TID} vm-a\n")
    doc = analyze(sessions.trace, "--vm-map", f"{home}/map").doc()
    vms = {vm["name"]: vm for vm in doc["vms"]}
    # What is recorded after the end of a window counts from there on.
    late = max(fields["recorded_ns"] - fields["at_ns"] for _, fields in events if "at_ns" in fields)
    most = late * ((doc["trace"]["end_ns"] - doc["trace"]["begin_ns"]) // 10**9 + 1)
    assert sorted(vms) == ["vm-a", "vm-b"]
    for vm, n in (("vm-a", 30), ("vm-b", 20)):
        mine = [(name, fields) for name, fields in events if fields["vm"] == vm]
        assert [name for name, _ in mine].count("client") == 1
        done = [fields for name, fields in mine if name == "request_done"]
        assert len(done) == counted[vm]["done"] == 6 * n and "lost" not in dict(mine)
        assert sum(one["run_ns"] for one in done) == counted[vm]["run_ns"]
        assert sum(one["wait_ns"] for one in done) == counted[vm]["wait_ns"]
        assert sorted(one["kind"] for one in done) == sorted(["write", "read"] * n + ["kernel"] * 4 * n)
        assert {one["bytes"] for one in done if one["kind"] == "write"} == {4096}
        gpu, = vms[vm]["gpu"]
        assert (gpu["requests"], gpu["partial"]) == (6 * n, 0)
        # A program has six commands outstanding at most.
        assert abs(gpu["exec_ns"] - counted[vm]["run_ns"]) <= most
        assert abs(gpu["wait_ns"] - counted[vm]["wait_ns"]) <= 6 * most
    # The VM of the map is also the one whose vCPU the scheduler's events tell of.
    assert vms["vm-a"]["switches_out"] == 1 and vms["vm-b"]["observed_ns"] == 0


def test_no_tracer(tmp_path):
    """Without the program that tells, the proxy says so, and serves."""
    need_pocl()
    alone = tmp_path / "alone"
    os.mkdir(alone)
    shutil.copy(built("vgpu-proxy"), alone)
    assert subprocess.run([alone / "vgpu-proxy", "--help"], check=True, capture_output=True).returncode == 0
    with subprocess.Popen([alone / "vgpu-proxy", "--trace", alone / "sock"], stderr=subprocess.PIPE, text=True) as proxy:
        said = [proxy.stderr.readline() for _ in range(2)]
        proxy.terminate()
        assert proxy.wait(HANG_S) == 0
    assert any("cannot be run" in line for line in said) and any("has stopped" in line for line in said), said
