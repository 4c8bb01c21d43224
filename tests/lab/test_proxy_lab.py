# SPDX-License-Identifier: Apache-2.0
"""A VM without any GPU, nor a vendor of OpenCL, uses that of its host by vgpu-proxy. The VM, its network, the agent, the
library, vgpud and the proxy are real, and so is PoCL, which is on the host alone; nothing is set in the guest. The VM is
emulated: these tests are for full runs."""
import base64
import os
import re
import signal
import subprocess

import pytest
from labdaemon import LabDaemon, prefix
from labhost import BUILD, LAB, lab
from movelab import remove_guest, start_guest, tell
from opencl import POCL, native, need, need_pocl, told
from settings import HANG_S
from unixhttp import wait_for
import vgpuctl

# One after the other: they share the directory of the lab.
pytestmark = [pytest.mark.xdist_group("lab"), pytest.mark.drawn("lab-many")]
GUEST = "remote"
HERE, THERE, TAP = "192.168.231.1", "192.168.231.2", "tap-ocl"
PORT = 7100
LIBRARY = "/opencl/libvgpu-opencl.so"
# Some of it is a film, too, for an encoder that takes raw pictures.
FILM = ["--threads", "1", "--demuxer", "raw", "--input-res", "160x128", "--frames", "30"]
# PoCL is no GPU, and x264 takes nothing else.
X264 = ["x264", "--opencl", "--preset", "medium", *FILM]


class Proxy:
    """vgpu-proxy on the VM's host, with PoCL."""

    def __init__(self, folder, port=PORT):
        self.folder, self.port = folder, port
        self.token, self.log, self.asked = folder / f"token-{port}", folder / f"proxy-{port}.log", folder / "ask.sock"
        self.token.write_text(f"token-of-this-vm-{port}-{os.urandom(8).hex()}\n")
        self.token.chmod(0o640)
        os.makedirs(folder / "vendors", exist_ok=True)
        (folder / "vendors" / "pocl.icd").write_text(POCL + "\n")
        self.process = None

    @property
    def address(self):
        return f"tcp:{HERE}:{self.port}"

    def start(self):
        argv = [os.path.join(BUILD, "vgpu-proxy"), "--drain=0", "--strict", "--allow-binaries", f"--vendors={self.folder}/vendors",
                f"--ask={self.asked}", f"{self.address},vm={GUEST},token={self.token}"]
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen([*prefix("h1"), *argv], stderr=log, cwd=self.folder,
                                            env={**os.environ, "POCL_CACHE_DIR": str(self.folder / "pocl")})
        wait_for(self.asked.exists)

    def pid(self):
        """In the host's namespaces; process is nsenter, which stays outside."""
        with open(f"/proc/{self.process.pid}/task/{self.process.pid}/children", encoding="ascii") as file:
            return int(file.read().split()[0])

    def stop(self, how=signal.SIGTERM):
        if self.process:
            os.kill(self.pid(), how)
            self.process.wait(HANG_S)
        self.process = None
        if self.asked.exists():
            self.asked.unlink()


class Node:
    """vgpud on that host."""

    def __init__(self, folder):
        self.folder, self.daemon = folder, None

    def config(self, group):
        return ("[libvirt]\nuse=yes\npoll=1s\n[live]\nbpf=no\nperf=no\n[actions]\nenabled=yes\n"
                "[gpu]\nfdinfo=no\nvenus=no\nnvml_library=\ntracepoints=no\nbudget=0\n"
                f"proxies={self.folder}/ask.sock\n" + group)

    def start(self, group):
        self.daemon = LabDaemon(self.folder / "vgpud", host="h1", config=self.config(group))

    def reload(self, group):
        before = self.daemon.log().count("configuration reloaded")
        self.daemon.write_config(self.config(group))
        os.kill(self.daemon.pid(), signal.SIGHUP)
        wait_for(lambda: self.daemon.log().count("configuration reloaded") > before)

    def guests(self):
        return self.daemon.get("/v1/proxies")["guests"]

    def knows(self, address):
        """Waits until the guest does."""
        return wait_for(lambda: [g for g in self.guests() if g["told"] and g["address"] == address], 3 * HANG_S)

    def run(self, *args):
        return vgpuctl.run(*args, "--socket", self.daemon.socket).stdout


def group_of(proxy):
    return f"[proxy {GUEST}]\naddress={proxy.address}\ntoken_file={proxy.token}\n"


class Program:
    """In the guest, with nothing but a home and a path."""

    def __init__(self, name, *argv):
        self.name, self.status, self.text = name, None, None
        tell("h1", GUEST, f"opencl plain {name} {' '.join(argv)}")

    def ask(self, what):
        return " ".join(tell("h1", GUEST, f"opencl {what} {self.name}")[1:])

    def end(self, status=0):
        wait_for(lambda: self.ask("has-ended") == "yes", 10 * HANG_S, pause=0.3)
        said = base64.b64decode(self.ask("text")).decode()
        got = int(self.ask("end").rsplit(" ", 1)[1])
        assert got == status, (got, said, self.complaint())
        return said

    def complaint(self):
        """What it has said on stderr."""
        return base64.b64decode(self.ask("errors")).decode()


@pytest.fixture(scope="module", name="there")
def _there(host):  # pylint: disable=unused-argument
    """A VM with a network to its host alone, and nobody on the host's side yet."""
    need_pocl()
    need("clinfo")
    made = subprocess.run([os.path.join(os.path.dirname(LAB), "opencl-image"), BUILD, "bare"], capture_output=True,
                          text=True, timeout=10 * HANG_S)
    if made.returncode != 0:
        pytest.skip(made.stderr.strip())
    network = f"ip tuntap add dev {TAP} mode tap && ip addr add {HERE}/24 dev {TAP} && ip link set {TAP} up"
    if lab("exec", "h1", "sh", "-c", network, check=False).returncode != 0:
        pytest.skip("no network device can be made for a VM (/dev/net/tun)")
    start_guest("h1", GUEST, gpu=False, mib=512, devices=(
        f"<disk type='file' device='disk'><driver name='qemu' type='raw'/><source file='{made.stdout.strip()}'/>"
        "<target dev='vda' bus='virtio'/><readonly/>"
        "<address type='pci' domain='0x0000' bus='0x00' slot='0x05' function='0x0'/></disk>"
        f"<interface type='ethernet'><target dev='{TAP}' managed='no'/><model type='virtio'/>"
        "<address type='pci' domain='0x0000' bus='0x00' slot='0x06' function='0x0'/></interface>"))
    tell("h1", GUEST, "opencl bare")
    tell("h1", GUEST, f"net {THERE}/24")
    yield GUEST
    remove_guest(GUEST)


@pytest.fixture(scope="module", name="folder")
def _folder(tmp_path_factory):
    return tmp_path_factory.mktemp("proxy")


@pytest.fixture(scope="module", name="proxy")
def _proxy(there, folder):  # pylint: disable=unused-argument
    proxy = Proxy(folder)
    yield proxy
    proxy.stop()


@pytest.fixture(scope="module", name="node")
def _node(proxy, folder):
    assert "0" in re.search(r"Number of platforms +(\d)", Program("before", "clinfo").end())[1]
    proxy.start()
    os.makedirs(folder / "vgpud")
    node = Node(folder)
    node.start(group_of(proxy))
    node.knows(proxy.address)
    yield node
    node.daemon.stop()


def alone(argv, folder, **more):
    """What a program on the host says with PoCL, which looks at the machine that it is on."""
    return subprocess.run([*prefix("h1"), *argv], env={**native(), **more}, stdout=subprocess.PIPE, check=True, timeout=5 * HANG_S, cwd=folder).stdout.decode()


def test_clinfo(node):  # pylint: disable=unused-argument
    """What it says of the device is what it says on the host; a function of a program cannot be run elsewhere."""
    here = [line.strip().replace("Yes", "No ") if "Run native kernels" in line else line.strip()
            for line in told(alone(["clinfo"], "/"))]
    assert [line.strip() for line in told(Program("clinfo", "clinfo").end())] == [line.strip() for line in here]


def test_random_calls(node, folder):  # pylint: disable=unused-argument
    """Of our own suite: whatever it calls, and its results, are those of PoCL alone."""
    for seed in (1, 2):
        argv = ["tests/opencl/random-calls", str(seed), "200"]
        assert Program("random", "/opencl/random-calls", *argv[1:]).end() == alone([os.path.join(BUILD, argv[0]), *argv[1:]],
                                                                                  folder)
