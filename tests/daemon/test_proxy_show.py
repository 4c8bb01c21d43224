# SPDX-License-Identifier: Apache-2.0
"""What an operator learns of one VM at vgpu-proxy: the daemon, the proxies and PoCL are real, the VM is a process that
looks like one."""
import contextlib
import json
import os
import signal
import socket
import subprocess
import sys

import pytest
import vgpuctl
from opencl import LINK, Proxy, need_pocl
from ports import free_port
from relay import Relay
from settings import HANG_S
from unixhttp import ROOT
from vgpud import BusyVm, Daemon, wait_for

# vgpud sees the VMs of other tests as well.
ALPHA = f"alpha-{os.getpid()}"
STEPS = 200000
# More memory than it may have, an argument that is wrong, and a buffer and a queue that stay.
GREEDY = """
import ctypes, sys
cl = ctypes.CDLL("libOpenCL.so.1")
for name in "clCreateContext", "clCreateBuffer", "clCreateCommandQueue", "clCreateProgramWithSource":
    getattr(cl, name).restype = ctypes.c_void_p
platform, device, error = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_int()
assert cl.clGetPlatformIDs(1, ctypes.byref(platform), None) == 0
assert cl.clGetDeviceIDs(platform, ctypes.c_ulong(0xffffffff), 1, ctypes.byref(device), None) == 0
context = ctypes.c_void_p(cl.clCreateContext(None, 1, ctypes.byref(device), None, None, ctypes.byref(error)))
buffer = ctypes.c_void_p(cl.clCreateBuffer(context, ctypes.c_ulong(1), ctypes.c_size_t(8 << 20), None, ctypes.byref(error)))
assert error.value == 0
cl.clCreateBuffer(context, ctypes.c_ulong(1), ctypes.c_size_t(32 << 20), None, ctypes.byref(error))
assert error.value == -4, error.value
queue = ctypes.c_void_p(cl.clCreateCommandQueue(context, device, ctypes.c_ulong(0), ctypes.byref(error)))
data = ctypes.create_string_buffer(4096)
for _ in range(20):
    assert cl.clEnqueueWriteBuffer(queue, buffer, 1, ctypes.c_size_t(0), ctypes.c_size_t(4096), data, 0, None, None) == 0
source = ctypes.c_char_p(b"no program")
program = ctypes.c_void_p(cl.clCreateProgramWithSource(context, 1, ctypes.byref(source), None, ctypes.byref(error)))
assert cl.clBuildProgram(program, 0, None, None, None, None) == -11
print("here", flush=True)
for line in sys.stdin:
    assert cl.clEnqueueWriteBuffer(queue, buffer, 1, ctypes.c_size_t(0), ctypes.c_size_t(4096), data, 0, None, None) == 0
    print("done", flush=True)
"""


@pytest.fixture(name="served")
def a_proxy(tmp_path):
    """A proxy with a socket of the VM's by TCP, which a relay leads to, and one of somebody else's."""
    need_pocl()
    path = tmp_path / "proxy"
    path.mkdir()
    (path / "token").write_text("0123456789abcdef0123\n")
    (path / "token").chmod(0o644)
    port = free_port()
    with Proxy(path, f"--ask={path}/b.ask", "--linger=60", sockets=(
            f"tcp:127.0.0.1:{port},vm={ALPHA},memory=16,vm-memory=24,clients=5,weight=3,token={path}/token", "b,vm=other")) as proxy, \
            Relay(port) as relay:
        (path / "token").chmod(0o600)
        proxy.path = str(path / "b")
        yield proxy, relay, str(path / "token")


def greedy(proxy, relay, token):
    return subprocess.Popen([sys.executable, "-c", GREEDY], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                            env=proxy.environment(VGPU_OPENCL=f"proxy:tcp:127.0.0.1:{relay.port}", VGPU_OPENCL_TOKEN=token))


def end(program):
    program.stdin.close()
    program.stdout.close()
    assert program.wait(HANG_S) == 0


def shown(daemon):
    [item] = daemon.get(f"/v1/vms/{ALPHA}/proxy")["items"]
    return item


def test_show(tmp_path, served):
    proxy, relay, token = served
    config = f"[daemon]\nwindow=200ms\n[gpu]\nnvml=no\nfdinfo=no\ntracepoints=no\nproxies={proxy.path}.ask\n" \
             f"[proxy {ALPHA}]\naddress=tls:192.168.122.1:7000\ntoken_file={token}\n"
    with BusyVm(name=ALPHA), Daemon(tmp_path, config=config) as daemon:
        wait_for(lambda: shown(daemon)["window"]["span_ns"] > 0)
        item = shown(daemon)
        assert item["programs"] == [] and item["identity"] == "a token" and item["listens"] is True
        assert item["refused"]["times"] == item["failed"]["times"] == 0
        assert item["limits"]["linger_s"] == 60 and item["socket"]["memory_bytes"] == 16 << 20

        assert item["limits"]["vm_clients"] == 5 and item["socket"]["vm_memory_bytes"] == 24 << 20

        # A token that everybody can read.
        assert item["socket"]["open_secrets"] == ""
        os.chmod(token, 0o644)
        wait_for(lambda: shown(daemon)["socket"]["open_secrets"])
        said = f"all users of this machine can read '{token}', which holds a token; run `chmod o= {token}`"
        assert shown(daemon)["socket"]["open_secrets"] == said and said in proxy.log.read_text()
        doctor = subprocess.run([vgpuctl.program(), "doctor", "-o", "json", "--socket", daemon.socket], stdout=subprocess.PIPE,
                                timeout=HANG_S, check=False)
        assert [r["state"] for r in json.loads(doctor.stdout)["checks"] if r["why"] == said] == ["lacks"]
        os.chmod(token, 0o600)
        wait_for(lambda: not shown(daemon)["socket"]["open_secrets"])

        # Programs that nobody lets in.
        (tmp_path / "wrong").write_text("0123456789abcdef9999\n")
        done = subprocess.run(["clinfo", "-l"], env=proxy.environment(
            VGPU_OPENCL=f"proxy:tcp:127.0.0.1:{relay.port}", VGPU_OPENCL_TOKEN=str(tmp_path / "wrong")),
            capture_output=True, text=True, check=False, timeout=HANG_S)
        assert "it expects another token" in done.stderr, done.stderr
        wait_for(lambda: shown(daemon)["refused"]["times"] == 1)
        assert "a program with a wrong token, from 127.0.0.1:" in shown(daemon)["refused"]["last"]

        program = greedy(proxy, relay, token)
        assert program.stdout.readline() == "here\n"
        item = shown(daemon)
        [one] = item["programs"]
        assert one["link"] == "up" and one["resumed"] == 0 and one["transport"] == "tcp", one
        assert one["from"].startswith("127.0.0.1:") and one["pid"] in proxy.children()
        assert one["used_bytes"] == 8 << 20 and one["objects"] >= 3 and one["queued"] == 0 and one["done"] >= 20
        assert one["refused"]["times"] == 1 and one["refused"]["last"].endswith(": more memory than its limit")
        assert one["failed"]["last"] == "clBuildProgram: error -11"
        assert item["refused"]["times"] == 2 and item["refused"]["ago_ns"] > 0

        # A link that is broken, and comes back.
        relay.close()
        wait_for(lambda: shown(daemon)["programs"][0]["link"] == "broken")
        first = shown(daemon)["programs"][0]["broken_ns"]
        wait_for(lambda: shown(daemon)["programs"][0]["broken_ns"] > first > 0)
        relay.reopen()
        wait_for(lambda: [(p["link"], p["resumed"]) for p in shown(daemon)["programs"]] == [("up", 1)])
        print(file=program.stdin, flush=True)
        assert program.stdout.readline() == "done\n"
        end(program)
        wait_for(lambda: shown(daemon)["programs"] == [])
        # What is known of those that left stays.
        assert shown(daemon)["refused"]["times"] == 2

        # vgpuctl, for people and programs.
        def ask(*argv, command=("proxy", "show")):
            done = subprocess.run([vgpuctl.program(), *command, *argv, "--socket", daemon.socket],
                                  capture_output=True, text=True, check=False, timeout=HANG_S)
            return done.returncode, done.stdout, done.stderr
        [place] = daemon.get(f"/v1/vms/{ALPHA}/proxy")["places"]
        assert place == {"place": "tls:192.168.122.1:7000", "why": f"[proxy {ALPHA}] in vgpud.conf names it"}
        [check] = [one for one in json.loads(ask("-o", "json", command=("doctor",))[1])["checks"] if
                   one["what"].startswith("proxy ")]
        assert (check["what"], check["state"]) == ("proxy tls:192.168.122.1:7000", "ok")
        code, text, _ = ask(ALPHA)
        assert code == 0 and "a token" in text and "more memory than its limit" in text and "16" in text, text
        code, text, _ = ask(ALPHA, "-o", "json")
        assert code == 0 and json.loads(text)["vm"] == ALPHA
        code, _, text = ask("gamma")
        assert code == 3 and "no vgpu-proxy on this host has a socket for 'gamma'" in text
        daemon.stop()


def test_share_against_what_is_due(served):
    """One that is alone gets all; of two that always want the device, one of weight 3 is due three quarters."""
    proxy, relay, token = served
    path = proxy.sockets[0].split(",")[0]
    ask = "show " + path

    def window(**wanted):
        """Waits until the newest window is of programs that were there for all of it."""
        found = {}

        def is_there():
            found.update(proxy.ask(ask).get("window", {}))
            return found.get("done", 0) > 0 and all(found[name] == value for name, value in wanted.items())
        wait_for(is_there)
        return found
    argv = [sys.executable, os.path.join(ROOT, "tests", "opencl", "backlog.py"), str(STEPS)]
    more = {"VGPU_OPENCL": f"proxy:tcp:127.0.0.1:{relay.port}", "VGPU_OPENCL_TOKEN": token}
    with open(os.devnull, "wb") as null:
        programs = [subprocess.Popen(argv, env=proxy.environment(**more), stdin=subprocess.PIPE, stdout=null, stderr=null)]
        try:
            alone = window(weights=3)
            assert 0 < alone["held_ns"] <= alone["all_held_ns"] and alone["span_ns"] >= 900000000
            for name in "wait", "run", "took":
                assert 0 < alone[name]["p50_ns"] <= alone[name]["p95_ns"] <= alone[name]["p99_ns"]
            programs.append(subprocess.Popen(argv, env=proxy.environment(), stdin=subprocess.PIPE, stdout=null,
                                             stderr=null))
            both = window(weights=4)
            assert both["held_ns"] <= both["all_held_ns"] <= both["span_ns"] * 1.01
        finally:
            for program in programs:
                program.kill()
                program.wait()
                program.stdin.close()


def test_who_may_not_come(tmp_path):
    """What the proxy itself refuses is told, as is who kept the device for too long; and texts of a client's process
    break nothing."""
    need_pocl()
    with Proxy(tmp_path, f"--ask={tmp_path}/p.ask", "--clients=1", sockets=("p",)) as proxy:
        proxy.path = str(tmp_path / "p")
        with proxy.connect(), socket.socket(socket.AF_UNIX) as second:
            second.settimeout(HANG_S)
            second.connect(proxy.path)
            second.sendall(LINK + bytes(16))
            said = b"it has reached its maximum of 1 clients"
            assert second.recv(192, socket.MSG_WAITALL).rstrip(b"\0") == b"VPREFUS1" + said
            told = proxy.ask("show " + proxy.path)
            assert told["refused"]["times"] == 1 and told["refused"]["last"].endswith(": " + said.decode())
            [program] = told["programs"]
            assert program["from"] == f"process {os.getpid()} of user {os.getuid()}"
            assert told["identity"] == "the socket's mode is 0600" and "window" not in told
            os.kill(program["pid"], signal.SIGKILL)
        wait_for(lambda: not proxy.children())
        with socket.socket(socket.AF_UNIX) as liar:
            liar.settimeout(HANG_S)
            liar.connect(proxy.path)
            liar.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            with contextlib.suppress(ConnectionResetError):
                assert liar.recv(192).startswith(b"VPREFUS1it does not support this version of the library")
        wait_for(lambda: proxy.ask("show " + proxy.path)["refused"]["times"] == 2)
        assert "that uses another protocol" in proxy.ask("show " + proxy.path)["refused"]["last"]
        assert proxy.ask("show /nowhere") == "error not-found: there is no such socket"
