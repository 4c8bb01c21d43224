# SPDX-License-Identifier: Apache-2.0
"""A guest with NVIDIA's GPUs and programs of CUDA: made-up ones (tests/guest/fake-cuda.c says how)."""
import os
import re
import shutil
import signal
import subprocess

from guestd import Guest
from settings import HANG_S
from unixhttp import build_dir, wait_for

FIRST = "0000:01:00.0"
SECOND = "0000:02:00.0"
MIB = 1 << 20
# What vgpu-guestd reckons for each process.
OVERHEAD_MIB = 480


def slot_path(address):
    """Where add_gpu() below plugs it in."""
    return f"0000:00/{address[5:7]}.0/00.0"


class CudaGuest(Guest):
    """Processes are those that were told of, so that other files of /proc can be made up."""

    def __init__(self, directory):
        super().__init__(directory)
        self.cuda = self.path("cuda")
        for name in ("cuda/programs", "cuda/lib", "run"):
            os.makedirs(self.path(name))
        self.install()
        os.unlink(self.path("proc"))
        os.mkdir(self.path("proc"))
        self.write("proc/meminfo", "MemTotal: 99999999 kB\nMemFree: 9999999 kB\n"
                                   "MemAvailable: 99999999 kB\n")
        self.write("dev/nvidiactl", "")
        # Where calls can be watched and where not, the same happens; tests of the watch say otherwise.
        self.configure("[cuda]\nunwatched=allow\n")
        self.gpus = {}
        self.workers = []

    def __exit__(self, *_):
        for worker in self.workers:
            worker.process.kill()
            worker.process.wait()
            worker.process.stdout.close()
            worker.process.stdin.close()
        super().__exit__()

    def install(self, directory="cuda/lib"):
        """Libraries of its own, as a guest has them: probes are placed in a file, not in a name."""
        os.makedirs(self.path(directory), exist_ok=True)
        for name in ("libcuda.so.1", "libnvidia-ml.so.1"):
            new = self.path(directory, "new")
            shutil.copy(os.path.join(build_dir(), "tests", "guest", "fake-cuda.so"), new)
            os.rename(new, self.path(directory, name))

    def library(self, name):
        """A library of this name that can call libcuda."""
        path = self.path("cuda", name)
        if not os.path.exists(path):
            shutil.copy(os.path.join(build_dir(), "tests", "guest", "fake-caller.so"), path)
        return path

    def configure(self, text):
        self.write("etc/vgpud/vgpu-guestd.conf", text)

    def environment(self):
        return {"VG_FAKE_CUDA": self.cuda, "LD_LIBRARY_PATH": self.path("cuda/lib")}

    def show(self, pid):
        os.symlink(f"/proc/{pid}", self.path("proc", str(pid)))

    def show_as(self, pid, **files):
        """With other files in its directory of /proc."""
        os.mkdir(self.path("proc", str(pid)))
        for name in os.listdir(f"/proc/{pid}"):
            if name not in files:
                os.symlink(f"/proc/{pid}/{name}", self.path("proc", str(pid), name))
        for name, text in files.items():
            self.write(f"proc/{pid}/{name}", text)

    def plug(self, address=FIRST, uuid="0a" * 16, node=0, total_mib=81559, used_mib=4,
             capability="9.0", name="NVIDIA H100 80GB HBM3"):
        """One more GPU of NVIDIA's, with its driver."""
        self.write(f"dev/nvidia{node}", "")
        self.write(f"proc/driver/nvidia/gpus/{address}/information", f"Device Minor: \t {node}\n")
        self.gpus[address] = f"{uuid} {address} {node} {total_mib} {used_mib} {capability} {name}"
        self.tell_gpus()
        self.add_gpu(address=address, bridge=f"0000:00:{address[5:7]}.0", driver="nvidia", node=None,
                     ids=("0x10de", "0x2330"))

    def unplug(self, address=FIRST):
        self.remove_gpu(address)
        del self.gpus[address]
        self.tell_gpus()

    def bind_all(self):
        """The kernel binds the driver by itself, which spares the agent its waiting for that."""
        for address in self.gpus:
            if not self.driver_of(address):
                self.bind(address, "nvidia")

    def tell_gpus(self):
        self.write("cuda/gpus", "".join(line + "\n" for line in self.gpus.values()))

    def fault(self, *faults):
        self.write("cuda/faults.new", "".join(line + "\n" for line in faults))
        os.rename(self.path("cuda/faults.new"), self.path("cuda/faults"))

    def start(self, mib=16, uuid="0a" * 16, step_ms=1, kernel_ms=0, child=False,
              env=None, wrap=()):
        worker = Worker(self, mib, uuid, step_ms, kernel_ms, child, env, wrap)
        self.workers.append(worker)
        return worker


class Worker:
    """A program that counts in a GPU's memory."""

    def __init__(self, guest, mib, uuid, step_ms, kernel_ms, child, env, wrap):
        program = os.path.join(build_dir(), "tests", "guest", "fake-cuda-worker")
        self.guest = guest
        self.process = subprocess.Popen(
            [*wrap, program, guest.path("dev"), uuid, str(mib), str(step_ms), str(kernel_ms)] +
            ["child"] * child, env={**os.environ, **guest.environment(), **(env or {})},
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.pid = self.process.pid
        # Before it loads libcuda, as the kernel tells of that only once.
        guest.show(self.pid)
        self.children = []
        if child:
            self.take_child()
        assert self.process.stdout.readline() == "ready\n"

    def take_child(self):
        word, pid = self.process.stdout.readline().split()
        assert word == "child"
        self.children.append(int(pid))
        self.guest.show(int(pid))

    def fork(self):
        """One more child, which has the files that it has now."""
        self.process.stdin.write("fork\n")
        self.process.stdin.flush()
        self.take_child()
        return self.children[-1]

    def call(self, function, *arguments, by=None):
        """A function of libcuda; by: the name of the file that calls it. See fake-cuda-worker.c."""
        words = [function, *map(str, arguments)]
        if by:
            words.insert(0, "by:" + self.guest.library(by))
        self.process.stdin.write(" ".join(words) + "\n")
        self.process.stdin.flush()
        assert self.process.stdout.readline() == "called\n"

    def has_memory(self, second, mib):
        """It has so much of the second GPU, as the driver tells."""
        self.call("second", second, mib)

    def steps(self, pid=None):
        return int(self.guest.read(f"cuda/programs/{pid or self.pid}.steps") or 0)

    def runs(self, pid=None):
        """Waits until it, or a child of it, has gone on."""
        before = self.steps(pid)
        wait_for(lambda: self.steps(pid) > before)
        return True

    def has_gpu(self, pid=None):
        with open(f"/proc/{pid or self.pid}/maps", encoding="utf-8") as file:
            maps = file.read()
        directory = f"/proc/{pid or self.pid}/fd"
        return "/dev/nvidia" in maps or any("/dev/nvidia" in os.readlink(os.path.join(directory, fd))
                                            for fd in os.listdir(directory))

    def kill(self):
        self.process.kill()
        self.process.wait()

    def end(self):
        """How many of its numbers were wrong, how often it was taken back, and its GPU."""
        self.process.send_signal(signal.SIGTERM)
        line = self.process.stdout.readline()
        self.process.wait(HANG_S)
        found = re.match(r"steps (\d+) bad (\d+) moves (\d+) on (\w+)$", line)
        assert found and int(found[1]) > 0, line
        return int(found[2]), int(found[3]), found[4]
