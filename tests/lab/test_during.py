# SPDX-License-Identifier: Apache-2.0
"""vgpuctl migrate --gpu-during=proxy: programs of OpenCL compute at a proxy of the host that their VM leaves, over TCP,
from when its GPU is unplugged until it has one at the target. The VM, its network, which reaches both hosts, the move,
the agent, the library, the proxy and PoCL are real; the GPU is a stand-in, of which PoCL has a node
(tests/lab/guest-opencl). All is emulated: these tests are for full runs."""
import base64
import contextlib
import os
import re
import signal
import subprocess
import time

import pytest
from labdaemon import ask_proxy_on, init_of, prefix
from labhost import BUILD, LAB, lab
from movelab import has_gpu, remove_guest, run, running_on, start_guest, tell
from opencl import POCL, make_film, native, need, need_pocl
from patience import knows
from settings import HANG_S
from unixhttp import wait_for

# One after the other: they share the directory of the lab.
pytestmark = [pytest.mark.xdist_group("lab"), pytest.mark.drawn("lab-many")]
GUEST = "during"
NET = "192.168.232"
PORT = 7100
MIB = 16
LINGER_S = 20
SLOW = "[actions]\nbandwidth=8\nguest_deadline=200s\n"
FRAMES = 60
# x264's kernels look at numbers that others of the same launch write: they come to the same each time where PoCL has one
# thread, as in the VM, and builds for the same processor.
AS_IN_THE_VM = {"POCL_MAX_PTHREAD_COUNT": "1", "POCL_KERNELLIB_NAME": "sse2"}
X264 = f"x264 --opencl --preset medium --threads 1 --demuxer y4m --frames {FRAMES}"


# ---- what is there ----

def make_network():
    """A bridge on each host, with a port for the VM, and a cable between them; the proxy's host is .1."""
    subprocess.run(["ip", "link", "add", "cable", "netns", init_of("h1"), "type", "veth", "peer", "name", "cable",
                    "netns", init_of("h2")], check=True, timeout=HANG_S)
    for n in (1, 2):
        script = ("ip link add vms type bridge && ip tuntap add dev tap-vm mode tap && ip link set tap-vm master vms up && "
                  f"ip link set cable master vms up && ip addr add {NET}.{n}/24 dev vms && ip link set vms up")
        if lab("exec", f"h{n}", "sh", "-c", script, check=False).returncode != 0:
            pytest.skip("no network device can be made for a VM (/dev/net/tun)")


def link(is_up):
    """Of the proxy to all others: nothing gets through, and nobody is told."""
    lab("exec", "h1", "ip", "link", "set", "vms", "up" if is_up else "down")


class Proxy:
    """vgpu-proxy on the host h1, with PoCL."""

    def __init__(self, folder):
        self.folder = folder
        self.token, self.log = folder / "token", folder / "proxy.log"
        self.address = f"tcp:{NET}.1:{PORT}"
        self.token.write_text("token-of-the-moving-vm\n")
        self.token.chmod(0o600)
        (folder / "vendors").mkdir()
        (folder / "vendors" / "pocl.icd").write_text(POCL + "\n")
        self.process = None

    def start(self):
        argv = [os.path.join(BUILD, "vgpu-proxy"), "--drain=0", "--strict", "--allow-binaries", f"--linger={LINGER_S}",
                f"--vendors={self.folder}/vendors", f"--ask={self.folder}/ask.sock",
                f"{self.address},vm={GUEST},token={self.token}"]
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen([*prefix("h1"), *argv], stderr=log, cwd=self.folder,
                                            env={**os.environ, **AS_IN_THE_VM, "POCL_CACHE_DIR": str(self.folder / "pocl")})
        wait_for((self.folder / "ask.sock").exists)

    def pids(self):
        """All its processes; those of clients come after it."""
        pids = [self.process.pid]
        for pid in pids:
            with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
                pids += map(int, file.read().split())
        return pids[1:]

    def signal(self, signum):
        """To all of them: the one that would make others first."""
        for pid in self.pids():
            os.kill(pid, signum)

    def reserved(self):
        """MiB that it keeps for programs that will come."""
        return ask_proxy_on("h1", self.folder / "ask.sock")["sockets"][0]["reserved_bytes"] >> 20

    def end(self):
        if self.process:
            self.signal(signal.SIGKILL)
            # nsenter stops with what it has started.
            self.process.send_signal(signal.SIGCONT)
            self.process.wait(HANG_S)
        self.process = None
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.folder / "ask.sock")


@pytest.fixture(scope="module")
def proxy(host, tmp_path_factory):  # pylint: disable=unused-argument
    need_pocl()
    need("x264")
    made = Proxy(tmp_path_factory.mktemp("proxy"))
    make_network()
    made.start()
    yield made
    made.end()


@pytest.fixture(scope="module")
def film(tmp_path_factory):
    path = tmp_path_factory.mktemp("film") / "film.y4m"
    make_film(path, FRAMES)
    os.truncate(path, (os.path.getsize(path) + 511) // 512 * 512)
    return path


def disk(path, letter, slot):
    return (f"<disk type='file' device='disk'><driver name='qemu' type='raw'/><source file='{path}'/>"
            f"<target dev='vd{letter}' bus='virtio'/><readonly/>"
            f"<address type='pci' domain='0x0000' bus='0x00' slot='{slot}' function='0x0'/></disk>")


@pytest.fixture(scope="module")
def guest(movelab, proxy, film):
    made = subprocess.run([os.path.join(os.path.dirname(LAB), "opencl-image"), BUILD], capture_output=True, text=True,
                          timeout=10 * HANG_S)
    if made.returncode != 0:
        pytest.skip(made.stderr.strip())
    start_guest("h1", GUEST, mib=1024, devices=(
        disk(made.stdout.strip(), "a", "0x05") + disk(film, "b", "0x06") +
        "<interface type='ethernet'><target dev='tap-vm' managed='no'/><model type='virtio'/>"
        "<address type='pci' domain='0x0000' bus='0x00' slot='0x07' function='0x0'/></interface>"))
    tell("h1", GUEST, "opencl on")
    tell("h1", GUEST, f"net {NET}.9/24 {NET}.1")
    movelab.nodes["h1"].more = (f"[gpu]\nproxies={proxy.folder}/ask.sock\n"
                                f"[proxy {GUEST}]\naddress={proxy.address}\ntoken_file={proxy.token}\n")
    restart(movelab)
    yield GUEST
    remove_guest(GUEST)


def restart(movelab):
    """h1's vgpud."""
    node = movelab.nodes["h1"]
    if node.daemon.process.poll() is None:
        node.daemon.kill()
    movelab.start("h1")
    movelab.meet()


def knows_proxy(node):
    [its] = node.daemon.get("/v1/proxies")["guests"]
    return its["told"]


@pytest.fixture
def moving(movelab, guest, proxy):
    """From h1 to h2, where it is at the end. It is taken back without its programs, which have ended."""
    bring_back(movelab, guest)
    movelab.nodes["h1"].reload(SLOW)
    wait_for(lambda: knows_proxy(movelab.nodes["h1"]))
    yield movelab.nodes["h1"]
    link(True)
    proxy.end()
    proxy.start()


def bring_back(movelab, guest):
    [where] = running_on(guest)
    if where == "h2":
        knows(movelab, "h2", guest)
        node = movelab.nodes["h2"]
        move = node.ended(node.move(guest, "h1"), 3 * HANG_S)
        assert running_on(guest) == ["h1"] and move["state"] == "done", move["cause"]
    knows(movelab, "h1", guest)


class Program:
    """In the VM, with the stand-in as its GPU."""

    def __init__(self, host, name, words):
        self.name = name
        self.pid = int(self.tell(host, "start", words)[0])

    def tell(self, host, what, more=""):
        return tell(host, GUEST, f"opencl {what} {self.name} {more}".strip())[1:]

    def text(self, host):
        return base64.b64decode("".join(self.tell(host, "text"))).decode()

    def log(self, host):
        """What the library has said last."""
        return " ".join(self.tell(host, "log"))

    def holds(self, host):
        return int(self.tell(host, "holds")[0]) > 0

    def end(self, host, seconds=10 * HANG_S):
        """Its status, and all that it has said."""
        wait_for(lambda: self.tell(host, "has-ended") == ["yes"], seconds, pause=0.3)
        return int(self.tell(host, "end")[-1]), self.text(host)


class Frames(Program):
    """Our own: of each frame when it was, and of all what they come to."""

    def __init__(self, host, name, mib=MIB):
        super().__init__(host, name, f"frames {mib} 20 20 /tmp/{name}.wait")
        self.mib = mib

    def frame(self, host):
        return len(re.findall(r"^frame \d", self.text(host), re.M))

    def runs(self, host):
        before = self.frame(host)
        return wait_for(lambda: self.frame(host) > before + 2, pause=0.2)

    def came_to(self, host):
        """It has not lost, doubled or changed a frame; the gaps between them in ms, the longest first."""
        self.tell(host, "go")
        status, text = self.end(host)
        assert status == 0, text[-500:]
        last = text.strip().splitlines()[-1]
        n = int(re.fullmatch(r"frames (\d+) sum \w{16}", last)[1])
        there = subprocess.run([os.path.join(BUILD, "tests", "opencl", "frames"), str(self.mib), str(n), "0"], env=native(),
                               stdout=subprocess.PIPE, check=True, timeout=HANG_S).stdout.decode()
        assert marks(text) == marks(there) and last == there.strip().splitlines()[-1]
        return gaps(text)


def marks(text):
    """Of each frame its sum."""
    return re.findall(r"^frame (\d+) at \d+ ms (\w+)$", text, re.M)


def gaps(text):
    times = [int(t) for t in re.findall(r"^frame \d+ at (\d+) ms", text, re.M)]
    return sorted((b - a for a, b in zip(times, times[1:])), reverse=True)


def told(move):
    return {program["pid"]: program for program in move["guest"]["programs"]}


def story(move):
    return move["state"], move["cause"], [(s["verb"], s["ok"], s["answer"]) for s in move["steps"]]


def migrates(node, move):
    wait_for(lambda: node.migration(move)["progress"]["processed_bytes"] > 0, pause=0.05)


# ---- it goes on ----

def is_expected(node, guest, proxy, mib):
    """Begins a move whose program gets to the proxy only after a while, until which memory is kept for it there."""
    link(False)
    try:
        move = node.move(guest, "h2", gpu_during="proxy")
        assert wait_for(proxy.reserved, pause=0.05) >= mib
    finally:
        link(True)
    return move


def turns_back(node, guest, proxy, program):
    """A move that is aborted while its program goes to the proxy."""
    move = is_expected(node, guest, proxy, program.mib)
    node.daemon.post(f"/v1/migrations/{move['id']}/abort", {})
    move = node.ended(move, 3 * HANG_S)
    assert move["state"] != "done" and running_on(guest) == ["h1"] and proxy.reserved() == 0, story(move)
    assert program.runs("h1") and program.holds("h1")


def test_frames(moving, guest, proxy):
    """While its VM moves: nothing of it is lost, and it stands still for the two switches alone. The proxy keeps memory for
    it until it is there, or the move has turned back."""
    node, program = moving, Frames("h1", "one")
    program.runs("h1")
    turns_back(node, guest, proxy, program)
    shown = run(node, "migrate", guest, "--to", "h2", "--gpu-during=proxy", "--dry-run").stdout
    assert "To switch to this proxy and back, programs are expected to be paused for" in shown, shown
    move = is_expected(node, guest, proxy, program.mib)
    migrates(node, move)
    assert not program.holds("h1") and len(proxy.pids()) == 2 and proxy.reserved() == 0
    now = node.migration(move)
    away = told(now)[program.pid]
    assert (away["state"], away["at"]) == ("away", f"proxy:{proxy.address}"), away
    assert now["standstill_began_ns"] == now["standstill_ns"] == 0
    assert program.runs("h1")
    print(program.log("h1"))
    end = node.ended(move, 3 * HANG_S)
    assert (end["state"], end["gpu_during"]) == ("done", f"proxy:{proxy.address}"), story(end)
    back = told(end)[program.pid]
    assert proxy.reserved() == 0
    assert back["state"] == "running" and program.holds("h2") and program.runs("h2") and len(proxy.pids()) == 1
    assert back["away_ns"] == away["stop_ns"] and end["standstill_ns"] == back["away_ns"] + back["stop_ns"]
    print(program.log("h2"))
    longest = program.came_to("h2")[:4]
    wait_for(lambda: "connected 0;" in " ".join(tell("h2", GUEST, "opencl status")))
    print(", ".join(f"{what}: stopped in {p['checkpoint_ns'] / 1e6:.0f} ms, there in {p['restore_ns'] / 1e6:.0f} ms"
                    for what, p in (("there", away), ("back", back))))
    print(f"switch there {away['stop_ns'] / 1e6:.0f} ms, back {back['stop_ns'] / 1e6:.0f} ms; "
          f"longest gaps between frames: {longest} ms; the VM itself {end['progress']['downtime_ns'] / 1e6:.0f} ms")
    shown = " ".join(run(node, "migration", "show", move["id"]).stdout.split())
    assert re.search(r"was paused for [\d.]+ m?s before it used the proxy, and then for [\d.]+ m?s", shown), shown


def test_x264(moving, guest):
    """A program that nobody here wrote: its film is the same to the bit as those of two runs that were not disturbed."""
    sums = []
    # It is to arrive before the film has ended.
    moving.reload("[actions]\nguest_deadline=200s\n")
    for name in ("still", "again", "moved"):
        program = Program("h1", name, f"{X264} -o /tmp/{name}.264 /dev/vdb")
        where = "h1"
        if name == "moved":
            wait_for(lambda p=program: re.search(r"\b[2-5]/\d+ frames", p.text("h1")), pause=0.3)
            move = moving.move(guest, "h2", gpu_during="proxy")
            migrates(moving, move)
            assert told(moving.migration(move))[program.pid]["state"] == "away"
            move = moving.ended(move, 3 * HANG_S)
            assert move["state"] == "done", story(move)
            where = "h2"
            assert told(move)[program.pid]["state"] == "running" and program.tell(where, "has-ended") == ["no"]
        status, text = program.end(where)
        assert status == 0 and "OpenCL acceleration enabled" in text and "OpenCL error" not in text, text
        assert f"encoded {FRAMES} frames" in text, text
        sums.append(program.tell(where, "sum", f"{name}.264")[0])
        print(sums[-1], re.findall(r"encoded .*", text))
    print(sums, {p["comm"]: (p["away_ns"] / 1e6, p["stop_ns"] / 1e6) for p in move["guest"]["programs"]})
    assert sums[0] == sums[1], "PoCL's own numbers differ"
    assert sums[2] == sums[0]


def test_a_link_that_comes_back(moving, guest):
    """The link to the proxy is cut for longer than both sides bear without noticing, while the VM moves."""
    program = Frames("h1", "mended")
    program.runs("h1")
    move = moving.move(guest, "h2", gpu_during="proxy")
    migrates(moving, move)
    for seconds in (5, 8):
        link(False)
        time.sleep(seconds)
        link(True)
        [where] = running_on(guest)
        assert program.runs(where)
    move = moving.ended(move, 3 * HANG_S)
    assert move["state"] == "done" and told(move)[program.pid]["state"] == "running", story(move)
    print(f"longest gaps between frames: {program.came_to('h2')[:4]} ms")


# ---- it does not ----

def lose(movelab, proxy, how):
    """What the host that the VM leaves has, or all of it but the VM."""
    node = movelab.nodes["h1"]
    if how == "cut":
        link(False)
    elif how == "killed":
        proxy.signal(signal.SIGKILL)
    elif how == "hanging":
        proxy.signal(signal.SIGSTOP)
    elif how == "dead host":
        proxy.signal(signal.SIGKILL)
        node.daemon.kill()
        lab("daemon", "h1", "kill")
        link(False)
    else:
        for pid in [*proxy.pids(), node.daemon.pid()]:
            os.kill(pid, signal.SIGSTOP)
        lab("daemon", "h1", "hang")


def give_back(movelab, how):
    """A host that starts, or goes on; its proxy has lost what it had."""
    if how == "dead host":
        lab("daemon", "h1", "start")
        movelab.start("h1")
        movelab.meet()
    elif how == "hanging host":
        lab("daemon", "h1", "resume")
        os.kill(movelab.nodes["h1"].daemon.pid(), signal.SIGCONT)
        movelab.nodes["h1"].daemon.process.send_signal(signal.SIGCONT)
        movelab.meet()


def ends_with_an_error(program, where, began):
    """One, in time, and its library has said why."""
    status, text = program.end(where, LINGER_S + 2 * HANG_S)
    took = time.monotonic() - began
    assert status == 1 and "OpenCL's error -2" in text, text[-300:]
    assert re.search("(the proxy has disappeared|the program's state in the proxy is lost): it", program.log(where)), program.log(where)
    print(f"after {took:.0f} s: {text.strip().splitlines()[-1]}: {program.log(where)}")
    assert took < LINGER_S + 90
    return marks(text)


@pytest.mark.parametrize("how", ["cut", "killed", "hanging"])
def test_lost_while_it_moves(movelab, moving, guest, proxy, how):
    """The VM moves all the same; what became of its program is told."""
    program = Frames("h1", "lost")
    program.runs("h1")
    move = moving.move(guest, "h2", gpu_during="proxy")
    migrates(moving, move)
    assert program.runs("h1")
    began = time.monotonic()
    lose(movelab, proxy, how)
    move = moving.ended(move, 3 * HANG_S)
    assert running_on(guest) == ["h2"] and has_gpu("h2", guest)
    ends_with_an_error(program, "h2", began)
    one = told(move)[program.pid]
    print(move["state"], move["cause"], one["state"], one["why"])
    shown = run(moving, "migration", "show", move["id"]).stdout
    print(shown)
    assert (move["state"], one["state"]) in (("failed", "away"), ("done", "gone")), story(move)
    assert "proxy" in (one["why"] or "") and "restart it" in " ".join(shown.split()), shown


@pytest.mark.parametrize("how", ["cut", "killed", "hanging", "dead host", "hanging host"])
def test_lost_before_it_is_back(movelab, moving, guest, proxy, how):
    """When the VM is there, and has a GPU, but its program has not come back to it."""
    program = Frames("h1", "lost")
    program.runs("h1")
    move = moving.move(guest, "h2", gpu_during="proxy")
    migrates(moving, move)
    program.tell("h1", "freeze")
    wait_for(lambda: moving.migration(move)["state"] == "resuming", 3 * HANG_S)
    began = time.monotonic()
    lose(movelab, proxy, how)
    program.tell("h2", "thaw")
    ends_with_an_error(program, "h2", began)
    give_back(movelab, how)
    move = movelab.nodes["h1"].ended(move, 3 * HANG_S)
    assert running_on(guest) == ["h2"] and has_gpu("h2", guest)
    one = told(move)[program.pid]
    print(move["state"], move["cause"], one["state"], one["why"])
    shown = run(movelab.nodes["h1"], "migration", "show", move["id"]).stdout
    print(shown)
    assert "proxy" in (one["why"] or "") and "restart it" in " ".join(shown.split()), shown
