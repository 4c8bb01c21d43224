# SPDX-License-Identifier: Apache-2.0
"""A VM without any GPU, nor a vendor of OpenCL, uses that of its host by vgpu-proxy. The VM, its network, the agent, the
library, vgpud and the proxy are real, and so is PoCL, which is on the host alone; nothing is set in the guest. The VM is
emulated: these tests are for full runs."""
import base64
import contextlib
import json
import os
import random
import re
import signal
import subprocess
import time

import pytest
from certs import Authority
from labdaemon import LabDaemon, ask_proxy_on, prefix
from labhost import BUILD, LAB, lab
from movelab import address, console, remove_guest, start_guest, tell
from opencl import POCL, SEED, Beside, native, need, need_pocl, told
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

    def __init__(self, folder, port=PORT, host="h1", address=HERE):
        self.folder, self.port, self.host, self.its = folder, port, host, address
        self.token, self.log, self.asked = folder / f"token-{port}", folder / f"proxy-{port}.log", folder / "ask.sock"
        self.token.write_text(f"token-of-this-vm-{port}-{os.urandom(8).hex()}\n")
        self.token.chmod(0o640)
        os.makedirs(folder / "vendors", exist_ok=True)
        (folder / "vendors" / "pocl.icd").write_text(POCL + "\n")
        self.process = None

    @property
    def address(self):
        return f"tcp:{self.its}:{self.port}"

    def sockets(self):
        """Options, and the socket."""
        return [f"{self.address},vm={GUEST},token={self.token}"]

    def more(self):
        """To its environment."""
        return {}

    def start(self):
        argv = [os.path.join(BUILD, "vgpu-proxy"), "--drain=0", "--strict", "--allow-binaries", f"--vendors={self.folder}/vendors",
                f"--ask={self.asked}", *self.sockets()]
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen([*prefix(self.host), *argv], stderr=log, cwd=self.folder,
                                            env={**os.environ, "POCL_CACHE_DIR": str(self.folder / "pocl"), **self.more()})
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
        self.folder, self.daemon, self.asked = folder, None, f"{folder}/ask.sock"

    def config(self, group):
        return ("[libvirt]\nuse=yes\npoll=1s\n[live]\nbpf=no\nperf=no\n[actions]\nenabled=yes\n"
                "[gpu]\nfdinfo=no\nvenus=no\nnvml_library=\ntracepoints=no\nbudget=0\n"
                f"proxies={self.asked}\n" + group)

    def start(self, group):
        self.daemon = LabDaemon(self.folder / "vgpud", host="h1", config=self.config(group))

    def begin_anew(self, group, asked):
        self.daemon.stop()
        self.asked = asked
        self.start(group)

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
        return subprocess.run([vgpuctl.program(), *args, "--socket", self.daemon.socket], capture_output=True, text=True,
                              check=True, timeout=HANG_S).stdout


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


def boot(image=None):
    """Another time: as it was defined."""
    if image:
        start_guest("h1", GUEST, gpu=False, mib=512, devices=(
            f"<disk type='file' device='disk'><driver name='qemu' type='raw'/><source file='{image}'/>"
            "<target dev='vda' bus='virtio'/><readonly/>"
            "<address type='pci' domain='0x0000' bus='0x00' slot='0x05' function='0x0'/></disk>"
            f"<interface type='ethernet'><target dev='{TAP}' managed='no'/><model type='virtio'/>"
            "<address type='pci' domain='0x0000' bus='0x00' slot='0x06' function='0x0'/></interface>"))
    else:
        before = console("h1", GUEST).count("GUEST-READY")
        lab("virsh", "h1", "-q", "start", GUEST)
        wait_for(lambda: console("h1", GUEST).count("GUEST-READY") > before, pause=0.1)
    tell("h1", GUEST, "opencl bare")
    tell("h1", GUEST, f"net {THERE}/24 {HERE}")


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
    boot(made.stdout.strip())
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
        argv = ["random-calls", str(seed), "200"]
        here = alone([os.path.join(BUILD, "tests", "opencl", argv[0]), *argv[1:]], folder)
        assert Program("random", "/opencl/" + argv[0], *argv[1:]).end() == here


def test_waves(node, folder):  # pylint: disable=unused-argument
    """The same sum of bits."""
    here = alone([os.path.join(BUILD, "tests", "opencl", "waves"), "128", "40", "0"], folder)
    assert Program("waves", "/opencl/waves", "128", "40", "0").end().split()[-1] == here.split()[-1]


def test_x264(node, folder):  # pylint: disable=unused-argument
    """A program that nobody here wrote. Its results differ a little from run to run, also with PoCL alone."""
    need("x264")
    rates = []
    for where in ("here", "there"):
        if where == "here":
            done = subprocess.run(
                [*prefix("h1"), *X264, "--opencl-clbin", f"{folder}/clbin", "-o", f"{folder}/out.264",
                 os.path.join(BUILD, "libvgpu-opencl.so")], stderr=subprocess.PIPE, check=True, cwd=folder,
                timeout=5 * HANG_S, env={**os.environ, "OCL_ICD_VENDORS": os.path.join(BUILD, "libvgpu-opencl.so"),
                                         "VGPU_OPENCL_VENDORS": f"{folder}/vendors", "VGPU_OPENCL_AS_GPU": "1"})
            said = done.stderr.decode()
        else:
            program = Program("x264", "VGPU_OPENCL_AS_GPU=1", *X264, "--opencl-clbin", "/tmp/clbin", "-o", "/tmp/out.264",
                              LIBRARY)
            program.end()
            said = program.complaint()
        assert "OpenCL acceleration enabled" in said and "OpenCL error" not in said and "is gone" not in said
        rates.append(float(re.search(r"encoded 30 frames, [\d.]+ fps, ([\d.]+) kb/s", said)[1]))
    assert abs(rates[0] / rates[1] - 1) < 0.02, rates


# A window that comes late on a busy machine is not told, and what it had is missing.
@pytest.mark.host
def test_what_vgpud_tells(node, proxy):
    """Source "proxy" tells of this VM what its proxy counted."""
    def figures():
        [row] = node.daemon.get("/v1/proxies")["items"]
        gpu = [g for g in node.daemon.get(f"/v1/vms/{GUEST}/gpu")["gpu"] if g["engine"] == "opencl"]
        return row, gpu[0] if gpu else None

    before, _ = figures()
    Program("counted", "/opencl/waves", "256", "60", "0").end()

    def agree():
        row, gpu = figures()
        return gpu and row["clients"] == 0 and row["done"] == gpu["requests"] and (row, gpu)

    row, gpu = wait_for(agree)
    print(row, gpu)
    assert row["vm"] == GUEST and row["socket"] == proxy.address and row["done"] >= before["done"] + 60
    assert gpu["device"]
    for ours, its in (("exec_ns", "run_ns"), ("wait_ns", "wait_ns")):
        assert abs(gpu[ours] - row[its]) <= 0.01 * row[its], (ours, gpu, row)
    assert f"knows {proxy.address} since" in node.run("proxy", "list")
    assert f"proxy: the guest knows {proxy.address} since" in node.run("vm", "show", GUEST)


# ---- by TLS ----

class TlsProxy(Proxy):
    """One that takes the VM's certificate, and no token."""

    def __init__(self, folder, authority):
        super().__init__(folder, PORT + 2)
        self.authority = authority

    @property
    def address(self):
        return f"tls:{self.its}:{self.port}"

    def sockets(self):
        certificate, key = self.authority.issue("proxy", f'ip_address = "{self.its}"', *LONG)
        return [f"--tls-certificate={certificate}", f"--tls-key={key}", f"--tls-client-ca={self.authority.certificate}",
                f"{self.address},vm={GUEST}"]


# The guest's clock may be behind.
LONG = ('activation_date = "2020-01-01 00:00:00 UTC"', 'expiration_date = "2090-01-01 00:00:00 UTC"')


def put(path, name):
    """The file is /tmp/NAME for the guest's programs."""
    with open(path, "rb") as file:
        while part := file.read(300):
            tell("h1", GUEST, f"opencl put {name} {base64.b64encode(part).decode()}")


def test_tls(node, folder, tmp_path):  # pylint: disable=unused-argument
    """A program reaches a proxy by TLS over the guest's network, by its VM's certificate; that of another VM is refused."""
    need("certtool")
    authority = Authority(tmp_path / "ca", "CA of the lab", *LONG)
    proxy = TlsProxy(tmp_path, authority)
    proxy.start()
    try:
        put(authority.certificate, "ca.pem")
        argv = ["random-calls", "3", "100"]
        for vm in GUEST, "another":
            for path, what in zip(authority.issue(vm, *LONG, server=False), ("pem", "key")):
                put(path, f"{vm}.{what}")
            shown = (f"VGPU_OPENCL=proxy:{proxy.address}", "VGPU_OPENCL_CA=/tmp/ca.pem", f"VGPU_OPENCL_CERT=/tmp/{vm}.pem",
                     f"VGPU_OPENCL_KEY=/tmp/{vm}.key", "VGPU_OPENCL_TOKEN=/nowhere")
            program = Program("tls", *shown, *(["/opencl/" + argv[0], *argv[1:]] if vm == GUEST else ["clinfo", "-l"]))
            said = program.end()
            if vm == GUEST:
                assert said == alone([os.path.join(BUILD, "tests", "opencl", argv[0]), *argv[1:]], folder)
        assert said == "" and f"is for 'another', not for '{GUEST}'" in program.complaint()
    finally:
        proxy.stop()


# ---- which GPU ----

WAVES = ["256", "100"]


def beside(proxy, expected):
    """A program of the host's that uses one of the proxies meanwhile."""
    environment = {**os.environ, "OCL_ICD_VENDORS": os.path.join(BUILD, "libvgpu-opencl.so"),
                   "VGPU_OPENCL_AGENT": "/nowhere", "VGPU_OPENCL": f"proxy:{proxy.address}",
                   "VGPU_OPENCL_TOKEN": str(proxy.token)}
    argv = [*prefix("h1"), os.path.join(BUILD, "tests", "opencl", "waves"), *WAVES, "5"]
    return Beside(argv, environment, lambda text: text.split()[-1] == expected)


def test_from_proxy_to_proxy_of_two_hosts(node, proxy, folder, tmp_path):
    """A program goes on at another proxy of its host, and at one of another host, over the network, and back, at random
    moments, while others use them."""
    chance, stops = random.Random(SEED), []
    expected = alone([os.path.join(BUILD, "tests", "opencl", "waves"), *WAVES, "0"], folder).split()[-1]
    net = address("h2").rsplit(".", 1)[0]
    lab("exec", "h1", "sysctl", "-qw", "net.ipv4.ip_forward=1")
    lab("exec", "h2", "ip", "route", "replace", f"{HERE.rsplit('.', 1)[0]}.0/24", "via", f"{net}.1")
    proxies = [proxy]
    with contextlib.ExitStack() as stack:
        for name, more in (("second", {"port": PORT + 1}), ("far", {"host": "h2", "address": address("h2")})):
            os.makedirs(tmp_path / name)
            proxies.append(Proxy(tmp_path / name, **more))
            # A VM shows the same token to all of them.
            proxies[-1].token.write_text(proxy.token.read_text())
            proxies[-1].start()
            stack.callback(proxies[-1].stop)
        program = Program("mover", "/opencl/waves", *WAVES, "20", "/tmp/mover.wait")
        wait_for(lambda: program.ask("said"))
        others = [stack.enter_context(beside(each, expected)) for each in proxies]
        here = proxy
        for _ in range(100):
            here = chance.choice([other for other in proxies if other is not here])
            time.sleep(chance.random() * 0.2)
            moved = json.loads(node.run("proxy", "move", GUEST, "--to", here.address, "-o", "json"))
            [one] = moved["guest"]["programs"]
            assert (one["state"], one["at"]) == ("away", f"proxy:{here.address}"), moved
            stops.append(one["stop_ns"] / 1e6)
        tell("h1", GUEST, "opencl go mover")
        assert program.end().split()[-1] == expected
        stack.pop_all().close()
    print(f"{len(stops)} moves: stood still for {sorted(stops)[len(stops) // 2]:.0f} ms, {max(stops):.0f} ms at most; "
          f"{[other.runs for other in others]} runs beside")
    assert not sum((other.wrong for other in others), []) and all(other.runs for other in others)


# ---- what a plan proposes ----

class OneOfTwo(Proxy):
    """Of one device of PoCL, which has two that differ by name; another VM has a socket, too."""

    def __init__(self, folder, device, token, port):
        os.makedirs(folder)
        super().__init__(folder, port)
        self.device = device
        # A VM shows the same token to both of them.
        self.token.write_text(token)

    @property
    def others(self):
        return f"tcp:{self.its}:{self.port + 10}"

    def sockets(self):
        return [*super().sockets(), f"{self.others},vm=other,token={self.token}"]

    def more(self):
        return {"POCL_DEVICES": self.device}

    def told(self):
        """What the VM's socket has, which comes first."""
        return ask_proxy_on("h1", self.asked)["sockets"][0]

    @contextlib.contextmanager
    def backlogged(self):
        """A program of the other VM has work for it all the time."""
        environment = {**os.environ, "OCL_ICD_VENDORS": os.path.join(BUILD, "libvgpu-opencl.so"), "VGPU_OPENCL_AGENT": "/nowhere",
                       "VGPU_OPENCL": f"proxy:{self.others}", "VGPU_OPENCL_TOKEN": str(self.token)}
        with subprocess.Popen([*prefix("h1"), "/usr/bin/python3", os.path.join(vgpuctl.ROOT, "tests", "opencl", "backlog.py"), "4000000"],
                              env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
            assert process.stdout.readline() == b"there\n"
            yield
            process.stdin.close()
            assert process.wait(HANG_S) == 0


PLANS = "[policy]\nhold=3s\ncontention_threshold=0.02\nmin_gain=0.01\n"


def test_a_plan_is_applied(node, proxy, folder, tmp_path):
    """A program in the VM waits for a GPU that another VM's program has all the time; a plan proposes the other one, which
    nobody uses, and vgpuctl plan apply has the program go on there, by the agent in the guest: it waits less, and comes
    to the same."""
    expected = alone([os.path.join(BUILD, "tests", "opencl", "waves"), *WAVES, "0"], folder).split()[-1]
    full, free = (OneOfTwo(tmp_path / device, device, proxy.token.read_text(), PORT + 3 + i) for i, device in enumerate(("basic", "pthread")))
    with contextlib.ExitStack() as stack:
        stack.callback(node.begin_anew, group_of(proxy), node.asked)
        for one in full, free:
            stack.callback(one.stop)
            one.start()
        node.begin_anew(group_of(full) + PLANS, f"{full.asked},{free.asked}")
        node.knows(full.address)
        stack.enter_context(full.backlogged())
        program = Program("planned", "/opencl/waves", *WAVES, "0", "/tmp/planned.wait")
        wait_for(lambda: program.ask("said"))

        def proposed():
            status, _, plan = node.daemon.post("/v1/plans", {"dry_run": True})
            return status in (200, 201) and plan.get("proxies") and plan
        plan = wait_for(proposed, 3 * HANG_S, pause=1)
        [action] = plan["proxies"]
        print(action["reason"]["text"])
        assert (action["kind"], action["vm"], action["from"], action["to"]) == (
            "proxy-move", GUEST, f"proxy:{full.address}", f"proxy:{free.address}")
        applied = json.loads(node.run("plan", "apply", plan["id"], "--yes", "-o", "json"))
        [change] = applied["actions"]
        print(change)
        # On a busy machine it may have computed for itself in these five seconds, and waited for nobody.
        assert change["result"] == "done" and change["waited_after"] <= change["waited_before"] + 0.05
        here, there = full.told(), free.told()
        assert (here["clients"], there["clients"], there["reserved_bytes"]) == (0, 1, 0)
        # It is what the next plan says, too.
        assert not [a for a in node.daemon.post("/v1/plans", {"dry_run": True})[2].get("proxies", []) if a["vm"] == GUEST]
        tell("h1", GUEST, "opencl go planned")
        assert program.end().split()[-1] == expected


# ---- what changes ----

def platforms(name):
    return int(re.search(r"Number of platforms +(\d+)", Program(name, "clinfo").end())[1])


def test_a_program_whose_proxy_ends(node, proxy):
    """It gets a clear error, or goes on, if the proxy alone was killed; the next one finds the proxy that comes after."""
    for how, status in ((signal.SIGTERM, 1), (signal.SIGKILL, 0)):
        program = Program("cut", "/opencl/waves", "128", "40", "20", "/tmp/cut.wait")
        wait_for(lambda p=program: p.ask("said"))
        proxy.stop(how)
        tell("h1", GUEST, "opencl go cut")
        said = program.end(status)
        assert status == 0 or ("OpenCL's error -2" in program.complaint() and "the proxy has disappeared" in program.complaint())
        assert status == 1 or re.search(r"steps 40 sum \w{16}$", said.strip())
        none = Program("none", "clinfo", "-l")
        assert none.end() == "" and f"proxy:{proxy.address}: Connection refused" in none.complaint()
        proxy.start()
        assert platforms("again") == 1
    node.knows(proxy.address)


def test_another_address_and_token(node, proxy, folder):
    """What the operator changes reaches the guest; with another VM's token a program is refused, and told so."""
    other = Proxy(folder, PORT + 1)
    node.reload(f"[proxy {GUEST}]\naddress={proxy.address}\ntoken_file={other.token}\n")
    wait_for(lambda: "wrong" if platforms("wrong") == 0 else None, pause=1)
    refused = Program("refused", "clinfo", "-l")
    refused.end()
    assert f"proxy:{proxy.address}: it expects another token" in refused.complaint()
    proxy.stop()
    other.start()
    node.reload(group_of(other))
    node.knows(other.address)
    assert platforms("other") == 1
    other.stop()
    proxy.start()
    node.reload(group_of(proxy))
    node.knows(proxy.address)
    assert platforms("back") == 1


def test_a_token_that_everybody_can_read(node, proxy):
    proxy.token.chmod(0o644)
    wait_for(lambda: [g for g in node.guests() if "all users of this machine can read" in g["reason"]])
    assert "does not know" in node.run("vm", "show", GUEST)
    proxy.token.chmod(0o640)
    node.knows(proxy.address)


def test_a_guest_and_an_agent_that_begin_anew(node, proxy):
    tell("h1", GUEST, "opencl restart")
    assert platforms("agent") == 1
    lab("virsh", "h1", "-q", "destroy", GUEST)
    wait_for(lambda: [g for g in node.guests() if g["reason"] == "it is not running here"])
    boot()
    node.knows(proxy.address)
    assert platforms("anew") == 1


def test_a_group_that_is_taken_away(node, proxy):
    """Also while no vgpud is there."""
    node.reload("")
    wait_for(lambda: node.guests() == [])
    assert platforms("gone") == 0
    node.reload(group_of(proxy))
    node.knows(proxy.address)
    node.daemon.kill()
    assert platforms("alone") == 1
    node.start("")
    wait_for(lambda: node.guests() == [])
    assert platforms("gone") == 0
    node.reload(f"[proxy {GUEST}]\naddress=none\n")
    node.knows("none")
    assert "knows that it has none since" in node.run("proxy", "list")
    node.reload(group_of(proxy))
    node.knows(proxy.address)


# The last ones: the agent's place is taken, and the VM is no more.
def test_an_old_agent(node, proxy):
    lab("tell", "h1", GUEST, "hostile liar")
    wait_for(lambda: [g for g in node.guests() if "too old" in g["reason"]], 2 * HANG_S)
    for args in (("vm", "show", GUEST), ("proxy", "list")):
        assert f"does not know {proxy.address}: its agent is too old to be told" in " ".join(node.run(*args).split())


def test_a_vm_that_is_no_more(node):
    remove_guest(GUEST)
    wait_for(lambda: [g for g in node.guests() if "this host has no such VM" in g["reason"]])
