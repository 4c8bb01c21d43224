# SPDX-License-Identifier: Apache-2.0
"""Starts the daemon under test in a directory of its own, asks it over its socket, and ends it."""
import json
import os
import re
import signal
import subprocess
import uuid

from settings import HANG_S
from unixhttp import Connection, Stream, wait_for
from vgpuctl import ROOT

BUNDLED = os.path.join(ROOT, "data", "demo", "inner-host-3vms")
LTTNG = os.path.join(BUNDLED, "lttng-kernel")
PERF = os.path.join(BUNDLED, "perf-ctf")
VM_MAP = os.path.join(ROOT, "data", "demo", "vm-map.txt")
COMMITTED = re.compile(r"window committed end_ns=(\d+)")


def program():
    if "VGPUD" in os.environ:
        return os.environ["VGPUD"]
    return os.path.join(os.environ.get("VG_BUILDDIR", os.path.join(ROOT, "build")), "vgpud")


def pause(pid):
    """Returns once all threads have stopped. The signal alone is on its way for some milliseconds, in
    which a thread may still answer."""
    def has_stopped():
        states = []
        for thread in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{thread}/stat", encoding="utf-8", errors="replace") as file:
                states.append(file.read().rsplit(")", 1)[1].split()[0])
        return set(states) == {"T"}
    os.kill(pid, signal.SIGSTOP)
    wait_for(has_stopped)


class Daemon:
    """A running vgpud, binary or the one under test; directory is kept for a next one that goes on with its
    store."""

    def __init__(self, directory, *args, config="", replay=None, wait=True, env=None, prefix=(),
                 state=None, stderr=None, binary=None):
        self.directory = str(directory)
        self.socket = os.path.join(self.directory, "sock")
        self.state = state or os.path.join(self.directory, "state")
        self.log_path = os.path.join(self.directory, "log")
        self.config_path = os.path.join(self.directory, "vgpud.conf")
        self.write_config(config)
        command = [*prefix, binary or program(), "-c", self.config_path, "--socket", self.socket,
                   "--state-dir", self.state, *map(str, args)]
        if replay:
            command += ["--replay", str(replay)]
        with open(self.log_path, "ab") as log:
            self.log_start = log.tell()
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log,
                                            stderr=log if stderr is None else stderr, env={**os.environ, **(env or {})})
        if wait:
            wait_for(self.answers)

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()

    def write_config(self, text):
        # Tests ask as fast as they can, all as one user.
        for group, key in (("[libvirt]", "use=no"), ("[api]", "client_requests=1000000")):
            if group not in text:
                text = f"{group}\n{key}\n" + text
        with open(self.config_path, "w", encoding="utf-8") as file:
            file.write(text)

    def log(self):
        with open(self.log_path, "rb") as file:
            file.seek(self.log_start)
            return file.read().decode()

    def tail(self, lines=15):
        return "\n".join(self.log().splitlines()[-lines:])

    def committed(self):
        return [int(end) for end in COMMITTED.findall(self.log())]

    def answers(self):
        assert self.process.poll() is None, f"ended with {self.process.returncode}\n{self.tail()}"
        try:
            return self.request("GET", "/healthz")[0] == 200
        except OSError:
            return False

    def request(self, method, path, body=None, headers=None, timeout=HANG_S):
        """Status, headers, body."""
        connection = Connection(self.socket, timeout)
        try:
            connection.request(method, path, body=body, headers=headers or {})
            response = connection.getresponse()
            return response.status, response.headers, response.read()
        except ConnectionError as error:
            if self.process.poll() is not None:
                error.add_note(f"vgpud ended with {self.process.returncode}\n{self.tail(80)}")
            raise
        finally:
            connection.close()

    def get(self, path, status=200):
        """Who reads a file that vgpud just begins is told to try again if that takes 250 ms."""
        def answer():
            got, _, body = self.request("GET", path)
            return (got != 503 or b"database is locked" not in body) and (got, body)
        got, body = wait_for(answer, pause=0.1)
        assert got == status, (path, got, body)
        return json.loads(body)

    def post(self, path, document):
        status, headers, body = self.request("POST", path, json.dumps(document),
                                             {"Content-Type": "application/json"})
        return status, headers, json.loads(body)

    def replayed(self):
        return wait_for(lambda: self.get("/v1/host")["daemon"]["replay_ended"] and self)

    def part(self, name):
        """Before it has started, a part is not ready and has nothing to say."""
        for part in json.loads(self.request("GET", "/readyz")[2])["parts"]:
            if part["name"] == name:
                return part
        return {"name": name, "state": None, "ready": False, "reason": None}

    def stop(self, signum=signal.SIGTERM, code=0):
        self.process.send_signal(signum)
        assert self.process.wait(HANG_S) == code, self.tail()
        return self.log()

    def kill(self):
        self.process.kill()
        self.process.wait()


class Events:
    """The events of a daemon, as (id, type, data)."""

    def __init__(self, daemon, query="", last_id=None):
        self.stream = Stream(daemon.socket, {"Last-Event-ID": last_id} if last_id else {}, query)
        assert self.stream.status == 200, self.stream.response.read()

    def next(self):
        """None at the end."""
        event = self.stream.next_event()
        return event and (event.get("id"), event["event"], json.loads(event["data"]))

    def close(self):
        self.stream.close()


class BusyVm:
    """A process that looks like a QEMU with one vCPU, which works for a tenth of the time, or never
    sleeps: its other thread does not ask for Python's lock. Each has a UUID of its own: vgpud sees all
    of this machine, also those of another test. uuid "": it has none. It ends with the thread that
    made it."""
    CODE = """
import ctypes, os, signal, sys, threading, time
libc = ctypes.CDLL(None)
libc.prctl(1, signal.SIGKILL, 0, 0, 0)
if os.getppid() != int(sys.argv[1]):
    sys.exit()
def vcpu():
    libc.prctl(15, b"CPU 0/KVM", 0, 0, 0)
    print(threading.get_native_id(), flush=True)
    sleep_s = float(sys.argv[2])
    while True:
        end = time.monotonic() + 0.001
        while time.monotonic() < end:
            pass
        if sleep_s:
            time.sleep(sleep_s)
threading.Thread(target=vcpu, daemon=True).start()
signal.pause()
"""

    def __init__(self, known_uuid=None, name="alpha", sleeps=True, wrap=()):
        self.wrap = wrap
        self.uuid = str(uuid.uuid4()) if known_uuid is None else known_uuid
        self.name = name
        self.sleep_s = 0.009 if sleeps else 0

    def __enter__(self):
        self.process = subprocess.Popen(
            [*self.wrap, "/usr/bin/python3", "-c", self.CODE, str(os.getpid()), str(self.sleep_s), "-name",
             f"guest={self.name},debug-threads=on",
             *(["-uuid", self.uuid] if self.uuid else [])], stdout=subprocess.PIPE, text=True)
        self.tid = int(self.process.stdout.readline())
        return self

    def __exit__(self, *unused):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()


def write_text_trace(path, seconds, period_ms=100, start=1000.0):
    """Trace text in which two vCPUs take turns on CPU 0 every period_ms; returns the run time of
    each VM in ns, clipped to the recording."""
    names = [("CPU 0/KVM", 142, 120), ("CPU 0/KVM", 152, 150)]
    n = int(seconds * 1000 / period_ms)
    with open(path, "w", encoding="utf-8") as file:
        for i in range(n + 1):
            prev, following = names[i % 2], names[(i + 1) % 2]
            t = start + i * period_ms / 1000
            file.write(f" CPU 0/KVM-{prev[1]} [000] d..2. {t:.6f}: sched_switch: "
                       f"prev_comm={prev[0]} prev_pid={prev[1]} prev_prio=120 prev_state=R ==> "
                       f"next_comm={following[0]} next_pid={following[1]} next_prio=120\n")
    return [n // 2 * period_ms * 1_000_000, (n + 1) // 2 * period_ms * 1_000_000]
