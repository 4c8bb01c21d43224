# SPDX-License-Identifier: Apache-2.0
"""What try-cuda and bench-stop share: real GPUs, an agent that sees them, the host that asks it, and programs of
CUDA with their figures. The agent sees the real /dev and /proc, and a /sys that is made up but for its settings of
memory: the GPU is not unplugged, and its driver is not unbound."""
import functools
import glob
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "lib"))
from guestd import Agent, Guest, Host  # noqa: E402

MIB = 1 << 20
# Of a release or a taking back.
DEADLINE_MS = 60000
OPS = ("lock", "checkpoint", "restore", "unlock")
HUGE_PAGES = "/sys/kernel/mm/transparent_hugepage/enabled"
# Programs of the part that runs.
STARTED = []


def say(*words):
    print(*words, flush=True)


def row(*cells):
    say("| " + " | ".join(str(cell) for cell in cells) + " |")


def huge_pages():
    """The kernel's setting, or nothing where it has none."""
    if not os.path.exists(HUGE_PAGES):
        return ""
    with open(HUGE_PAGES, encoding="utf-8") as file:
        return re.search(r"\[(\w+)\]", file.read())[1]


def smi(fields):
    out = subprocess.run(["nvidia-smi", f"--query-gpu={fields}", "--format=csv,noheader,nounits"],
                         capture_output=True, text=True, check=True, timeout=60).stdout
    return [[cell.strip() for cell in line.split(",")] for line in out.splitlines()]


class Gpu:
    def __init__(self, index, bus, name):
        self.index, self.name = index, name
        domain, rest = bus.lower().split(":", 1)
        self.address = f"{int(domain, 16):04x}:{rest}"
        self.path = f"0000:00/{index + 1:02x}.0/{self.address.rsplit(':', 1)[1]}"

    def minor(self):
        """As its driver says, or as nvidia-smi does where that cannot be seen."""
        path = f"/proc/driver/nvidia/gpus/{self.address}/information"
        if os.path.exists(path):
            with open(path, encoding="utf-8") as file:
                return int(re.search(r"Device Minor:\s*(\d+)", file.read())[1])
        out = subprocess.run(["nvidia-smi", "-q", "-i", str(self.index)], capture_output=True, text=True,
                             check=True, timeout=60).stdout
        return int(re.search(r"Minor Number\s*:\s*(\d+)", out)[1])


def all_gpus():
    return [Gpu(int(index), bus, name) for index, bus, name in smi("index,pci.bus_id,name")]


class RealGuest(Guest):
    """The GPUs as functions of a made-up PCI, everything else as it is."""

    def __init__(self, directory, gpus):
        super().__init__(directory)
        self.nvidia = gpus
        shutil.rmtree(self.path("dev"))
        os.symlink("/dev", self.path("dev"))
        os.makedirs(self.path("run"))
        os.makedirs(self.path("sys/kernel"))
        os.symlink("/sys/kernel/mm", self.path("sys/kernel/mm"))
        self.whole_proc = all(os.path.exists(f"/proc/driver/nvidia/gpus/{gpu.address}/information")
                              for gpu in gpus)
        for gpu in gpus:
            self.add_gpu(address=gpu.address, bridge=f"0000:00:{gpu.index + 1:02x}.0", driver="nvidia",
                         node=None, ids=("0x10de", "0x2330"))
        if not self.whole_proc:
            os.unlink(self.path("proc"))
            os.mkdir(self.path("proc"))
            os.symlink("/proc/meminfo", self.path("proc/meminfo"))
            for gpu in gpus:
                self.write(f"proc/driver/nvidia/gpus/{gpu.address}/information",
                           f"Device Minor: \t {gpu.minor()}\n")

    def show(self):
        """Processes come and go."""
        if self.whole_proc:
            return
        for name in os.listdir(self.path("proc")):
            if name.isdigit():
                os.unlink(self.path("proc", name))
        for name in os.listdir("/proc"):
            if name.isdigit():
                os.symlink(f"/proc/{name}", self.path("proc", name))


class Machine:
    """A guest, its agent and the host that asks it. Programs that are started after it are watched."""

    def __init__(self, gpus, configuration=""):
        self.gpus = gpus
        self.huge_pages = huge_pages()
        self.directory = tempfile.mkdtemp(prefix="try-cuda-guest-")
        self.guest = RealGuest(os.path.join(self.directory, "root"), gpus)
        self.guest.show()
        self.guest.write("etc/vgpud/vgpu-guestd.conf", configuration)
        self.agent = Agent(self.guest)
        self.host = Host(self.guest.path("agent.sock"))
        self.host.socket.settimeout(2 * DEADLINE_MS / 1000)
        # A program's start is told in steps of 10 ms.
        time.sleep(0.05)

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        if kind:
            say("the agent's log:", self.agent.log()[-3000:])
        self.host.__exit__()
        self.agent.process.terminate()
        try:
            self.agent.process.wait(20)
        except subprocess.TimeoutExpired:
            say("the agent did not end")
            self.agent.process.kill()
            self.agent.process.wait()
        self.guest.__exit__()
        shutil.rmtree(self.directory, ignore_errors=True)
        if huge_pages() != self.huge_pages:
            raise RuntimeError(f"huge pages were {self.huge_pages}, and are {huge_pages()}")

    def ask(self, kind, gpus=None, deadline_ms=DEADLINE_MS):
        # New processes; between releasing and taking back it would only cost time.
        if kind == "prepare":
            self.guest.show()
        return self.host.ask(kind, deadline_ms=deadline_ms,
                             devices=[{"path": gpu.path} for gpu in gpus or self.gpus])

    def bind(self):
        """A kernel binds the driver as soon as the GPU is there."""
        for gpu in self.gpus:
            if not self.guest.driver_of(gpu.address):
                self.guest.bind(gpu.address, "nvidia")

    def prepare(self):
        done = self.ask("prepare")
        if done["type"] != "prepared":
            raise RuntimeError(f"not released: {done}")
        return done

    def resume(self, where=None):
        self.bind()
        done = self.ask("resume", where)
        if done["type"] != "resumed":
            raise RuntimeError(f"not back: {done}")
        return done

    def move(self, where=None):
        """Releases from all GPUs and takes back on these, at once. The answers."""
        there = self.prepare()
        held = [p["pid"] for p in there["programs"]["list"] if has_nodes(p["pid"])]
        back = self.resume(where)
        if held:
            raise RuntimeError(f"processes {held} had nodes of the GPU after they were released")
        return there, back

    def refuses(self, *texts):
        """Says whether nothing can be released, for these reasons, before anything is stopped."""
        done = self.ask("prepare", deadline_ms=15000)
        say(done.get("code"), done.get("message"), "undone", done.get("undone"))
        if done["type"] == "prepared":
            self.resume()
        stopped = [p["pid"] for p in done.get("programs", {}).get("list", []) if "lock_ms" in p]
        return (done.get("code") == "unreleasable" and done["undone"] and not stopped and
                all(str(text) in done["message"] for text in texts))


def has_nodes(pid):
    try:
        links = [os.readlink(f"/proc/{pid}/fd/{fd}") for fd in os.listdir(f"/proc/{pid}/fd")]
        with open(f"/proc/{pid}/maps", encoding="utf-8", errors="replace") as maps:
            return any("/dev/nvidia" in link for link in links) or "/dev/nvidia" in maps.read()
    except OSError:
        return False


class Program:
    """A program that says `ready` when it works, and in the end what it came to. Without ready, whoever starts it
    waits for that."""

    def __init__(self, *command, ready="ready", **environment):
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True,
                                        env={**os.environ, **environment})
        STARTED.append(self.process)
        self.pid = self.process.pid
        if ready:
            self.until(ready)

    def until(self, text):
        for line in self.process.stdout:
            if line.startswith(text):
                return line
        raise RuntimeError(f"{self.process.args} ended with {self.process.wait()} before '{text}'")

    def end(self):
        """Its last line; an error if its memory is not as it should be."""
        self.process.send_signal(signal.SIGTERM)
        last = self.process.stdout.read().splitlines()[-1:]
        if self.process.wait(120) != 0 or not last:
            raise RuntimeError(f"{self.process.args} ended with {self.process.returncode}: {last}")
        return last[0]

    def kill(self):
        self.process.kill()
        self.process.wait()


def worker(mib, *kind, **environment):
    return Program(built("cuda-worker"), str(mib * MIB), *kind, **environment)


def script(name, *args, ready="ready", **environment):
    return Program(sys.executable, os.path.join(HERE, name), *map(str, args), ready=ready, **environment)


def kill_all():
    for process in STARTED:
        if process.poll() is None:
            process.kill()
            process.wait()
    STARTED.clear()


def compile_all():
    include = next((d for d in ["/usr/local/cuda/include", *glob.glob("/usr/local/cuda*/include")]
                    if os.path.exists(os.path.join(d, "cuda.h"))), "/usr/include")
    cache = subprocess.run(["ldconfig", "-p"], capture_output=True, text=True, check=True).stdout
    libraries = {name: path for name, path in re.findall(r"^\s*(\S+) .*=> (\S+)$", cache, re.M)}
    for name, library in (("cuda-worker", "libcuda.so.1"), ("cuda-bare", "libcuda.so.1"),
                          ("cuda-peer", "libcuda.so.1"), ("opencl-worker", "libOpenCL.so.1")):
        if library not in libraries:
            say(f"{name} is not built: there is no {library}")
            continue
        done = subprocess.run(["gcc", "-O2", "-pthread", f"-I{include}", os.path.join(HERE, f"{name}.c"), "-o",
                               built(name), libraries[library]],
                              capture_output=True, text=True, timeout=60)
        if done.returncode != 0:
            say(f"{name} is not built: {done.stderr[-500:]}")


@functools.cache
def build_directory():
    return tempfile.mkdtemp(prefix="try-cuda-")


def built(name):
    return os.path.join(build_directory(), name)


def remove_built():
    shutil.rmtree(build_directory(), ignore_errors=True)


# ---- figures of a stop: how long each process stood still and each call took, in ms ----

def bare(how, *pids):
    """The bare calls on these processes."""
    calls = {}
    for half in ("release", "back"):
        out = subprocess.run([built("cuda-bare"), half, how, *map(str, pids)], capture_output=True,
                             text=True, timeout=120).stdout
        for line in out.splitlines():
            pid, call, began, ended, result = line.split()
            if result != "0":
                raise RuntimeError(f"bare: {line}")
            calls[int(pid), call] = (int(began), int(ended))
    stops = {}
    for pid in pids:
        stops[pid] = {op: (calls[pid, op][1] - calls[pid, op][0]) / 1000 for op in OPS}
        stops[pid]["stop"] = (calls[pid, "unlock"][1] - calls[pid, "lock"][0]) / 1000
    return stops


def agents(back, pid):
    """The same of the agent's answer."""
    [told] = [p for p in back["programs"]["list"] if p["pid"] == pid]
    if told["state"] != "running":
        raise RuntimeError(f"{told}")
    return {op: told[f"{op}_ms"] for op in (*OPS, "stop")}


def best(figures):
    """The run of the shortest stop: what the machine does beside only makes it longer."""
    return min(figures, key=lambda figure: figure["stop"])


def longest(stops):
    return max(stop["stop"] for stop in stops.values())


def text_of(figure):
    return f"{figure['stop']:.0f} ms ({', '.join(f'{op} {figure[op]:.0f}' for op in OPS)})"
