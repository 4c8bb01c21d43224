# SPDX-License-Identifier: Apache-2.0
"""A client's process that was taken over, and runs what its owner wants in place of the vendor's code, has its share of the
device and nothing else. The proxy is nobody's, and may get no privileges, as a service is."""
import contextlib
import errno
import json
import os
import pathlib
import platform
import re
import signal
import socket
import subprocess
import sys
import tempfile

import pytest
from opencl import Proxy, ask_proxy, built, need_pocl, output
from settings import HANG_S
from unixhttp import ROOT, wait_for

NOBODY = 65534
AS_NOBODY = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", "--no-new-privs", "--"]
TOKENS = ["the-token-of-vm-one-4f7a", "the-token-of-vm-two-90cd"]
ROOM_MIB = 256
# Of x86-64.
CALLS = {"read": 0, "write": 1, "open": 2, "connect": 42, "kill": 62, "unlink": 87, "fcntl": 72, "socket": 41, "fork": 57,
         "ptrace": 101, "mkdir": 83, "rename": 82, "truncate": 76, "chmod": 90, "tgkill": 234, "process_vm_readv": 310,
         "unshare": 272, "setns": 308, "mount": 165, "bind": 49, "symlink": 88, "sendto": 44, "getuid": 102, "getpid": 39,
         "io_uring_setup": 425, "bpf": 321, "pidfd_open": 434, "setresuid": 117, "keyctl": 250, "shmget": 29, "mknod": 133,
         "sched_setscheduler": 144, "setpriority": 141, "inotify_init1": 294, "perf_event_open": 298}
O_WRONLY, O_RDWR, O_CREAT = 1, 2, 0o100
AF_UNIX, AF_INET, STREAM, DATAGRAM, MESSAGES = 1, 2, 1, 2, 5
F_SETOWN, F_SETSIG = 8, 10


@pytest.fixture(autouse=True)
def _needs():
    need_pocl()
    if platform.machine() != "x86_64":
        pytest.skip("the kernel's system calls are those of x86-64")


def unix_address(path):
    return "\x01\0" + str(path) + "\0"


class Native:
    """A client whose kernel makes system calls."""

    def __init__(self, environment):
        argv = [sys.executable, os.path.join(ROOT, "tests", "opencl", "native.py")]
        self.process = subprocess.Popen(argv, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def run(self, *steps):
        """The calls' results, and what is in the memory that was for text."""
        named = [[CALLS[name], *arguments] for name, *arguments in steps]
        self.process.stdin.write(json.dumps(named) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def call(self, *step):
        return self.run(step)[0][0]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        self.process.stdout.close()
        assert self.process.wait(HANG_S) == 0


class World:
    """A proxy with the sockets of two VMs, each with a program: the first one's is the attacker's."""

    def __init__(self, folder):
        self.folder = folder
        os.chmod(folder, 0o755)
        for n, token in enumerate(TOKENS):
            path = folder / f"token{n}"
            path.write_text(token + "\n")
            path.chmod(0o640)
        sockets = [f"tcp:127.0.0.1:{self.port()},vm=vm{n},token={folder}/token{n}" for n in range(2)]
        if os.getuid() == 0:
            for path in (folder, *folder.iterdir()):
                os.chown(path, NOBODY, NOBODY)
        self.proxy = Proxy(folder, f"--ask={folder}/ask", sockets=(*sockets, "near.sock"),
                           prefix=AS_NOBODY if os.getuid() == 0 else (), strict=False)
        self.addresses = [f"proxy:{one.split(',')[0]}" for one in self.proxy.sockets[:2]]

    @staticmethod
    def port():
        with socket.socket() as one:
            one.bind(("127.0.0.1", 0))
            return one.getsockname()[1]

    def environment(self, n):
        return self.proxy.environment(VGPU_OPENCL=self.addresses[n], VGPU_OPENCL_TOKEN=f"{self.folder}/token{n}")


@pytest.fixture(name="world")
def _world():
    with tempfile.TemporaryDirectory(prefix="vgpu-taken-", dir="/tmp") as folder:
        world = World(pathlib.Path(folder))
        if os.getuid() == 0 and subprocess.run([*AS_NOBODY, "test", "-x", built("vgpu-proxy")], check=False).returncode:
            pytest.skip("vgpu-proxy is in a directory that nobody may not look into")
        with world.proxy:
            yield world


@contextlib.contextmanager
def second_vm(world):
    """The other VM's program, which has a process of its own; and its number."""
    with Native(world.environment(1)) as native:
        assert native.call("getpid") == 1
        [pid] = world.proxy.children()
        yield native, pid


def refused(results, *errors):
    return [n for n, result in enumerate(results) if -result not in errors]


def test_files(world):
    """Nothing of the host's, of other VMs' or of other processes' can be opened, nothing be changed or be put anywhere."""
    with second_vm(world) as (_, other), Native(world.environment(0)) as native:
        main = world.proxy.process.pid
        denied = [f"{world.folder}/token1", f"{world.folder}/proxy.log", f"{world.folder}/ask", "/etc/passwd", "/etc/shadow",
                  "/etc/hostname", f"/proc/{main}/mem", f"/proc/{main}/maps", f"/proc/{main}/environ", f"/proc/{other}/mem",
                  f"/proc/{other}/maps", "/proc/1/status", "/proc/self/net/tcp", "/proc/thread-self/net/unix", "/proc/kallsyms",
                  "/root", "/home", "/run", "/var/log", "/dev/mem", "/dev/kmsg", "/dev/tty", "/proc/self/root/etc/passwd",
                  "/proc/self/cwd/../../../etc/passwd"]
        results, _ = native.run(*[("open", path, 0) for path in denied])
        assert not refused(results, errno.EACCES, errno.ENOENT), dict(zip(denied, results))
        made = [f"{world.folder}/new", f"{world.folder}/vendors/new.icd", "/usr/new", "/etc/new", "/sys/new", "/proc/self/new",
                "/dev/new"]
        results, _ = native.run(*[("open", path, O_WRONLY | O_CREAT, 0o600) for path in made],
                                *[("open", path, O_WRONLY) for path in ("/proc/self/mem", "/proc/self/oom_score_adj",
                                                                        f"{world.folder}/vendors/pocl.icd", "/sys/power/state")])
        assert not refused(results, errno.EACCES, errno.ENOENT, errno.EROFS, errno.EPERM), results
        ask = f"{world.folder}/ask"
        results, _ = native.run(("unlink", ask), ("rename", ask, ask + "2"), ("chmod", ask, 0o777), ("mkdir", ask + "3", 0o700),
                                ("truncate", f"{world.folder}/token1", 0), ("symlink", "/etc/passwd", ask + "4"),
                                ("mknod", "/dev/shm/disk", 0o60600, 0xfe00))
        assert not refused(results, errno.EACCES, errno.EPERM, errno.ENOENT), results
        # What is its own.
        results, text = native.run(("open", "/proc/self/status", 0), ("read", {"of": 0}, {"room": 8000}, 7999),
                                   ("open", "/dev/shm/tmp/own", O_RDWR | O_CREAT, 0o600), ("write", {"of": 2}, "own", 3),
                                   ("open", f"{world.folder}/vendors/pocl.icd", 0))
        assert results[3] == 3 and results[4] >= 0 and "CapEff:\t0000000000000000" in text[0], (results, text)


def test_processes(world):
    """No other process can be named, be it the proxy's, the other VM's, or anybody's."""
    with second_vm(world) as (second, other), Native(world.environment(0)) as native:
        main = world.proxy.process.pid
        steps = [(name, pid, *more) for pid in (main, other, -1, -main)
                 for name, *more in (("kill", signal.SIGKILL), ("tgkill", pid, signal.SIGKILL), ("fcntl_owner",),
                                     ("process_vm_readv", {"room": 16}, 1, {"room": 16}, 1, 0),
                                     ("sched_setscheduler", 5, "\0" * 8), ("pidfd_open", 0))]
        steps = [("fcntl", 2, F_SETOWN, step[1]) if step[0] == "fcntl_owner" else step for step in steps]
        steps += [("kill", 0, signal.SIGKILL), ("ptrace", 16, main, 0, 0), ("fcntl", 2, F_SETSIG, signal.SIGKILL), ("setpriority", 2, 0, 19),
                  ("unshare", 0x10000000), ("setns", 0, 0), ("mount", "none", "/dev/shm", "tmpfs", 0, 0),
                  ("setresuid", 0, 0, 0), ("bpf", 0, 0, 0), ("keyctl", 0, 0), ("shmget", 0, 4096, 0o1600),
                  ("perf_event_open", 0, 0, 0, 0, 0), ("io_uring_setup", 1, 0), ("inotify_init1", 0)]
        results, _ = native.run(*steps)
        assert not refused(results, errno.EPERM, errno.ESRCH, errno.EINVAL), [
            (steps[n], results[n]) for n in refused(results, errno.EPERM, errno.ESRCH, errno.EINVAL)]
        assert second.call("getpid") == 1 and world.proxy.process.poll() is None


def test_sockets(world):
    """It reaches no network, no service of the host, and neither the socket where the proxy is asked nor other VMs'."""
    weights = {s["vm"]: s["weight"] for s in ask(world)["sockets"]}
    port = int(world.addresses[1].rsplit(":", 1)[1])
    internet = "\x02\0" + port.to_bytes(2, "big").decode("latin-1") + "\x7f\0\0\x01" + "\0" * 8
    with Native(world.environment(0)) as native:
        results, _ = native.run(
            *[("socket", family, kind, 0) for family, kind in ((AF_INET, STREAM), (AF_INET, DATAGRAM), (10, STREAM), (16, 3), (17, 3),
                                                               (40, STREAM), (AF_UNIX, DATAGRAM))])
        assert not refused(results, errno.EACCES), results
        lines = [f"weight 1000 {world.addresses[0].removeprefix('proxy:')}", f"reserve x 86400 9999 {world.addresses[0].removeprefix('proxy:')}"]
        for line in lines:
            results, _ = native.run(("socket", AF_UNIX, MESSAGES, 0), ("connect", {"of": 0}, unix_address(world.folder / "ask"), 110),
                                    ("sendto", {"of": 0}, line, len(line), 0x4000, unix_address(world.folder / "ask"), 110),
                                    ("connect", {"of": 0}, unix_address(world.proxy.sockets[2]), 110),
                                    ("connect", {"of": 0}, internet, 16),
                                    ("bind", {"of": 0}, unix_address(world.folder / "ask2"), 110))
            assert results[0] >= 0 and not refused(results[1:], errno.ENOENT, errno.ENOTCONN, errno.EACCES, errno.EPERM), results
    assert {s["vm"]: s["weight"] for s in ask(world)["sockets"]} == weights
    assert not any(s["reserved_bytes"] for s in ask(world)["sockets"])


def ask(world):
    return ask_proxy(world.folder / "ask")


def test_files_without_end(world):
    """It has no more room for files than it may, and others continue."""
    with second_vm(world) as (second, _), Native(world.environment(0)) as native:
        data = "x" * (1 << 20)
        results, _ = native.run(("open", "/dev/shm/tmp/large", O_WRONLY | O_CREAT, 0o600),
                                ("write", {"of": 0}, data, len(data), {"times": 4 * ROOM_MIB}))
        assert 0 < results[1] <= ROOM_MIB, results
        assert second.call("getpid") == 1


@pytest.mark.drawn("half-minutes")
@pytest.mark.skipif(0 < os.getuid() < 1000, reason="the kernel counts a system user's processes with those of the host")
def test_processes_without_end(world):
    """It has no more processes than it may, and others continue. (Its hundreds of copies need gigabytes.)"""
    with second_vm(world) as (second, _), Native(world.environment(0)) as native:
        most = 256 + 8 * os.sysconf("SC_NPROCESSORS_CONF")
        made = native.call("fork", {"times": 2 * most}, {"child": True})
        assert 0 < made < most
        assert second.call("getpid") == 1
        lines = output([built("tests/opencl/hammer"), "5", "2", "50"], world.environment(1))
        assert lines.endswith(" 0 wrong\n")
    wait_for(lambda: not world.proxy.children())


PIECE = 16 << 20


def memory(pid):
    """All that a process could read of itself."""
    with open(f"/proc/{pid}/maps", encoding="ascii") as maps, open(f"/proc/{pid}/mem", "rb", 0) as file:
        for line in maps:
            found = re.match(r"(\w+)-(\w+) r\S+ (?:\S+ ){3} *(.*)", line)
            if not found or found[3].startswith("[v"):
                continue
            begin, end = (int(found[n], 16) for n in (1, 2))
            with contextlib.suppress(OSError, OverflowError, ValueError):
                # Some maps have gigabytes. What is looked for may lie across two pieces.
                for at in range(begin, end, PIECE):
                    file.seek(at)
                    yield file.read(min(PIECE + 256, end - at))


@pytest.mark.skipif(os.getuid() != 0, reason="only root may read a client's process")
def test_secrets(world):
    """No token is in its memory, neither another VM's nor its own, also after the sockets were read again; and no session by
    which another client comes back."""
    world.proxy.process.send_signal(signal.SIGHUP)
    with second_vm(world) as (_, other), Native(world.environment(0)) as native:
        native.call("getpid")
        [own] = [pid for pid in world.proxy.children() if pid != other]
        found = [token for data in memory(own) for token in TOKENS if token.encode() in data]
        assert not found
        links = [os.readlink(f"/proc/{own}/fd/{fd}") for fd in os.listdir(f"/proc/{own}/fd")]
    # Its link, its turns, and what it says; and places of Landlock's rules, which open nothing.
    assert not [link for link in links if str(world.folder) in link and not link.endswith("proxy.log")], links


# As a kernel without Landlock, or one that forbids namespaces, does: a system call fails with an error.
WITHOUT = """
import ctypes, os, struct, sys
call, error = int(sys.argv[1]), int(sys.argv[2])
code = [(0x20, 0, 0, 0), (0x15, 0, 1, call), (0x06, 0, 0, 0x50000 | error), (0x06, 0, 0, 0x7fff0000)]
program = ctypes.create_string_buffer(b"".join(struct.pack("<HBBI", *one) for one in code))
libc = ctypes.CDLL(None)
assert libc.prctl(38, 1, 0, 0, 0) == 0
assert libc.prctl(22, 2, struct.pack("<HxxxxxxQ", len(code), ctypes.addressof(program))) == 0
os.execv(sys.argv[3], sys.argv[3:])
"""


@pytest.mark.parametrize("call, error, why", [(444, errno.EOPNOTSUPP, "Landlock"), (165, errno.EPERM, "mount namespace")])
def test_where_nothing_can_be_confined(tmp_path, call, error, why):
    """The proxy says why it does not start; --unconfined has it start, which it says as well."""
    prefix = [sys.executable, "-c", WITHOUT, str(call), str(error)]
    done = subprocess.run([*prefix, built("vgpu-proxy"), str(tmp_path / "a.sock")], capture_output=True, text=True, timeout=HANG_S,
                          check=False)
    assert done.returncode == 3 and why in done.stderr and "--unconfined" in done.stderr, done
    assert not (tmp_path / "a.sock").exists()
    with Proxy(tmp_path, "--unconfined", f"--ask={tmp_path}/near.sock.ask", sockets=("near.sock",), prefix=prefix) as proxy:
        wait_for(lambda: (tmp_path / "near.sock.ask").exists())
        assert proxy.ask()["confinement"] == "none" and "are not confined (--unconfined)" in proxy.log.read_text()


BUILD = """
import ctypes, sys
P = ctypes.c_void_p
cl = ctypes.CDLL("libOpenCL.so.1")
cl.clCreateContext.restype = cl.clCreateProgramWithSource.restype = cl.clLinkProgram.restype = P
platform, device, error = P(), P(), ctypes.c_int()
cl.clGetPlatformIDs(1, ctypes.byref(platform), None)
cl.clGetDeviceIDs(platform, ctypes.c_uint64(0xFFFFFFFF), 1, ctypes.byref(device), None)
context = P(cl.clCreateContext(None, 1, ctypes.byref(device), None, None, None))
source = ctypes.c_char_p(b"kernel void one(global int *a) { a[0] = 1; }")
for options in sys.argv[1:]:
    program = P(cl.clCreateProgramWithSource(context, 1, ctypes.byref(source), None, None))
    built = cl.clBuildProgram(program, 0, None, options.encode(), None, None)
    other = P(cl.clCreateProgramWithSource(context, 1, ctypes.byref(source), None, None))
    compiled = cl.clCompileProgram(other, 0, None, options.encode(), 0, None, None, None, None)
    linked = 0
    if compiled:
        cl.clCompileProgram(other, 0, None, b"", 0, None, None, None, None)
        cl.clLinkProgram(context, 0, None, options.encode(), 1, ctypes.byref(other), None, None, ctypes.byref(error))
        linked = error.value
    print(built, compiled, linked)
"""
REFUSED = ("-include /etc/passwd", "-cl-std=CL1.2 -imacros x", '"-include" x', '-inc"lude" x', "@/etc/passwd", "-D A -save-temps=x",
           "-Xclang -load", "-fplugin=x.so", "-o x", "-Wl,-T,x", "-MD")
TAKEN = ("", "-w", "-cl-std=CL1.2 -cl-mad-enable", '-D KERNEL_STATIC -D A=1 -I "/usr/share/hashcat/OpenCL" -w',
         "-I /usr/lib/python3/dist-packages/pyopencl/cl", "-cl-opt-disable -Werror")


def test_options_of_compilers(tmp_path):
    """Those that name files are refused, and counted; those of hashcat and PyOpenCL are taken."""
    with Proxy(tmp_path, f"--ask={tmp_path}/near.sock.ask", sockets=("near.sock",)) as proxy:
        lines = output([sys.executable, "-c", BUILD, *REFUSED, *TAKEN], proxy.environment()).splitlines()
        assert lines == ["-43 -66 -67"] * len(REFUSED) + ["0 0 0"] * len(TAKEN), lines
        shown = proxy.ask(f"show {proxy.path}")
        assert "the compiler option '-MD'" in json.dumps(shown["refused"]), shown["refused"]
