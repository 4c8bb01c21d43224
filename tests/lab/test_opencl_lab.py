# SPDX-License-Identifier: Apache-2.0
"""Programs of OpenCL go with their VM from host to host: the VM, its move, the agent, the library and PoCL
are real; the GPU is a stand-in, of which PoCL has a node (tests/lab/guest-opencl). They run in emulation: PoCL
takes half a minute to build the first kernel, and so these tests are for full runs."""
import json
import os
import re
import subprocess

import pytest
import vgpuctl
from labhost import BUILD, LAB
from movelab import console, has_gpu, remove_guest, run, running_on, start_guest, tell
from settings import HANG_S
from unixhttp import wait_for

# One after the other: they share the directory of the lab.
pytestmark = [pytest.mark.xdist_group("lab"), pytest.mark.drawn("lab-many")]
GUEST = "waves"
SIDE = 512
STEPS = 60
BYTES = 2 * SIDE * SIDE * 4


@pytest.fixture(scope="module")
def guest(movelab):  # pylint: disable=unused-argument
    """One with the disk that PoCL is on."""
    made = subprocess.run([os.path.join(os.path.dirname(LAB), "opencl-image"), BUILD], capture_output=True, text=True,
                          timeout=10 * HANG_S)
    if made.returncode != 0:
        pytest.skip(made.stderr.strip())
    image = made.stdout.strip()
    start_guest("h1", GUEST, mib=1024, devices=(
        f"<disk type='file' device='disk'><driver name='qemu' type='raw'/><source file='{image}'/>"
        "<target dev='vda' bus='virtio'/><readonly/>"
        "<address type='pci' domain='0x0000' bus='0x00' slot='0x05' function='0x0'/></disk>"))
    tell("h1", GUEST, "opencl on")
    yield GUEST
    remove_guest(GUEST)


class Program:
    """Waves over a square of numbers, which wait halfway, computing, until they are to go on."""

    def __init__(self, host, guest, name, place=None):
        self.guest, self.name = guest, name
        start = f"start-at {place}" if place else "start"
        self.pid = int(self.tell(host, start, f"waves {SIDE} {STEPS} 20 /tmp/{name}.wait"))

    def tell(self, host, what, more=""):
        return " ".join(tell(host, self.guest, f"opencl {what} {self.name} {more}")[1:])

    def at(self, host):
        return int(self.tell(host, "steps") or 0)

    def runs(self, host):
        before = self.at(host)
        return wait_for(lambda: self.at(host) > before, pause=0.2)

    def holds(self, host):
        return int(self.tell(host, "holds")) > 0

    def end(self, host):
        """The sum of its bits."""
        self.tell(host, "go")
        said = self.tell(host, "end")
        found = re.fullmatch(rf"steps {STEPS} sum (\w+) status 0", said)
        assert found, said
        return found[1]

    def kill(self, host):
        self.tell(host, "kill")


@pytest.fixture(scope="module")
def undisturbed(guest):
    """What all of them come to."""
    return Program("h1", guest, "first").end("h1")


@pytest.fixture
def pair(way, guest, undisturbed):  # pylint: disable=unused-argument
    programs = [Program(way[0], guest, name) for name in ("good", "bad")]
    yield programs
    [where] = running_on(guest)
    for program in programs:
        tell(where, guest, f"opencl fault {program.name}")
        tell(where, guest, f"opencl kill {program.name}")


def story(move):
    return move["state"], move["cause"], [(s["verb"], s["ok"], s["answer"]) for s in move["steps"]]


def told(move):
    return {program["pid"]: program for program in move["guest"]["programs"]}


def moved(movelab, guest, source, target):
    wait_for(lambda: movelab.nodes[source].daemon.request("GET", f"/v1/vms/{guest}")[0] == 200)
    return movelab.nodes[source].ended(movelab.nodes[source].move(guest, target), 3 * HANG_S)


def test_there_and_back(movelab, guest, way, undisturbed):
    """While it computes; its result is the same to the bit, and what it is told of it is so."""
    program = Program(way[0], guest, "one")
    source, target = way
    for _ in range(2):
        node = movelab.nodes[source]
        shown = run(node, "vm", "show", guest).stdout
        assert "movable: yes" in shown and "1 program with 2 MiB of GPU memory" in shown, shown
        check = node.move(guest, target, status=200, dry_run=True)
        assert check["problems"] == [], check
        assert [(p["by"], p["pid"], p["gpu_bytes"]) for p in check["guest"]["programs"]] == [
            ("opencl", program.pid, BYTES)]
        shown = run(node, "migrate", guest, "--to", target, "--dry-run").stdout
        assert "1 program in the guest will be paused" in shown, shown
        assert program.holds(source)
        run(node, "migrate", guest, "--to", target, "--wait")
        move = max(node.daemon.get("/v1/migrations")["items"], key=lambda m: m["made_ns"])
        one = told(node.migration(move))[program.pid]
        assert one["state"] == "running" and one["stop_ns"] >= one["checkpoint_ns"] + one["restore_ns"] > 0
        shown = run(node, "migration", "show", move["id"]).stdout
        assert re.search(rf"{program.pid}.*waves: running.*was paused for [\d.]+ m?s", shown), shown
        assert program.holds(target) and program.runs(target)
        source, target = target, source
    assert program.end(source) == undisturbed


def test_at_a_proxy_while_it_moves(movelab, guest, way, undisturbed):
    """A program computes at a proxy while its VM is without a GPU; the proxy is one in the guest, to which the way
    never breaks."""
    source, target = way
    node = movelab.nodes[source]
    token, tcp = "a-token-of-this-guest", "tcp:127.0.0.1:7100"
    tell(source, guest, f"opencl proxy proxy {token}")
    program = Program(source, guest, "away")
    place = "proxy:/tmp/proxy.sock"
    for bad in ({"gpu_during": "library"}, {"gpu_during": "proxy:" + "x" * 122}, {"gpu_during": "proxy:"}):
        node.move(guest, target, status=400, **bad)
    assert "agent is not used" in node.move(guest, target, status=422, no_agent=True, gpu_during=place)["detail"]
    shown = run(node, "migrate", guest, "--to", target, "--gpu-during", place, "--dry-run").stdout
    assert f"continue at {place}" in shown, shown
    # vgpud chooses the one that it knows, of which this move then has the share.
    shown = run(node, "migrate", guest, "--to", target, "--gpu-during", "proxy", "--dry-run").stdout
    assert "No proxy for its OpenCL programs" in shown and f"no [proxy {guest}] in vgpud.conf" in shown, shown
    (node.directory / "guest-token").write_text(token + "\n")
    (node.directory / "guest-token").chmod(0o600)
    node.reload(f"[actions]\nbandwidth=8\n[proxy {guest}]\naddress={tcp}\ntoken_file={node.directory}/guest-token\n")
    wait_for(lambda: node.daemon.get("/v1/proxies")["guests"][0]["told"])
    place = "proxy:" + tcp
    shown = " ".join(run(node, "migrate", guest, "--to", target, "--gpu-during", "proxy", "--dry-run").stdout.split())
    assert f"continue at {place} ([proxy {guest}] in vgpud.conf names it)" in shown, shown
    move = node.move(guest, target, gpu_during="proxy")
    wait_for(lambda: node.migration(move)["progress"]["processed_bytes"] > 0, pause=0.05)
    assert not program.holds(source) and program.runs(source)
    assert told(node.migration(move))[program.pid]["state"] == "away"
    move = node.ended(move, 3 * HANG_S)
    assert (move["state"], move["gpu_during"]) == ("done", place), story(move)
    assert told(move)[program.pid]["state"] == "running" and program.holds(target) and program.runs(target)
    assert program.end(target) == undisturbed


def test_from_proxy_to_proxy(movelab, guest, way, undisturbed):
    """Its VM stays, also where the vgpud that asked for it ends meanwhile; one that has a GPU has nothing of it."""
    source, target = way
    node = movelab.nodes[source]
    places = [f"proxy:/tmp/{name}.sock" for name in ("first", "second")]
    for name in ("first", "second"):
        tell(source, guest, f"opencl proxy {name}")
    own, program = Program(source, guest, "own"), Program(source, guest, "far", places[0])
    shown = run(node, "proxy", "move", guest, "--to", "/tmp/second.sock").stdout
    assert re.search(rf"{program.pid} +waves +away +{places[1]} +[\d.]+", shown) and str(own.pid) not in shown, shown
    assert program.runs(source) and own.holds(source)
    said = run(node, "proxy", "move", guest, "--to", "/tmp/third.sock", code=4).stderr
    assert f"{program.pid} (waves) continues where it was" in said and "No such file" in said, said
    assert "no VM 'nobody'" in run(node, "proxy", "move", "nobody", "--to", "direct", code=3).stderr
    moved = json.loads(run(node, "proxy", "move", guest, "--to", "direct", "-o", "json").stdout)
    [one] = moved["guest"]["programs"]
    assert (one["pid"], one["state"], one.get("at")) == (program.pid, "running", None) and one["stop_ns"] > 0, one
    # Nobody waits for it any more.
    program.tell(source, "freeze")
    asked = console(source, guest).count("switch id=")
    with subprocess.Popen([vgpuctl.program(), "proxy", "move", guest, "--to", "/tmp/second.sock", "--socket",
                           node.daemon.socket], stderr=subprocess.DEVNULL) as command:
        wait_for(lambda: console(source, guest).count("switch id=") > asked)
        node.daemon.kill()
        assert command.wait(HANG_S) == 7
    program.tell(source, "thaw")
    wait_for(lambda: f"{program.pid} (waves), 2 MiB of GPU memory, at {places[1]}" in " ".join(tell(source, guest, "opencl status")), pause=0.2)
    movelab.start(source)
    movelab.meet()
    assert (program.end(source), own.end(source)) == (undisturbed, undisturbed)


# ---- what goes wrong: see the table in docs/vgpu-opencl.7 ----

def shorten(movelab, source, fault):
    """Only what hangs takes all of the time."""
    if fault.startswith("hang"):
        movelab.nodes[source].reload("[actions]\nguest_deadline=30s\n")


def it_stays(movelab, guest, way, good, bad, fault):
    """The VM is where it was, and all programs go on with the GPU that they had."""
    source, target = way
    words = {"freeze": "it does not answer", "hang-unload": "it has not answered in time"}[fault]
    shorten(movelab, source, fault)
    if fault == "freeze":
        bad.tell(source, "freeze")
    else:
        bad.tell(source, "fault", fault)
    move = moved(movelab, guest, source, target)
    bad.tell(source, "thaw" if fault == "freeze" else "fault")
    assert move["state"] in ("failed", "rolled_back") and words in move["cause"], story(move)
    assert f"{bad.pid} (waves)" in move["cause"], move["cause"]
    assert "detach" not in [step["verb"] for step in move["steps"]]
    assert running_on(guest) == [source] and has_gpu(source, guest)
    # One that hung in its vendor's library comes too late, and is told to go on.
    wait_for(lambda: bad.holds(source), pause=0.2)
    return source, [good, bad]


def it_waits(movelab, guest, way, good, bad, fault):
    """The VM is there, and one program stands still and is told of; it goes on when the VM has moved back, or
    by hand."""
    source, target = way
    words = {"none": "fewer platforms are available than before", "hang-load": "it has not answered in time"}[fault]
    shorten(movelab, source, fault)
    bad.tell(source, "fault", fault)
    move = moved(movelab, guest, source, target)
    assert (move["state"], move["vm_on"], move["gpu"]) == ("failed", "target", "attached"), story(move)
    assert words in move["cause"] and f"{bad.pid} (waves)" in move["cause"], move["cause"]
    assert told(move)[bad.pid]["state"] == "released" and words in told(move)[bad.pid]["why"], told(move)
    assert told(move)[good.pid]["state"] == "running" and good.runs(target) and not bad.holds(target)
    bad.tell(target, "fault")
    if fault == "hang-load":
        assert "running" in " ".join(tell(target, guest, "opencl restore")), bad.tell(target, "log")
        return target, [good, bad]
    move = moved(movelab, guest, target, source)
    assert move["state"] == "done" and told(move)[bad.pid]["state"] == "running", story(move)
    return source, [good, bad]


def it_ends(movelab, guest, way, good, bad, fault):
    """Which is told; the others go on."""
    source, target = way
    node = movelab.nodes[source]
    if fault == "killed":
        node.reload("[actions]\nbandwidth=8\n")
    else:
        bad.tell(source, "fault", fault)
    move = node.move(guest, target)
    if fault == "killed":
        wait_for(lambda: node.migration(move)["progress"]["processed_bytes"] > 0, pause=0.05)
        bad.kill(source)
    move = node.ended(move, 3 * HANG_S)
    assert move["state"] == "done" and told(move)[good.pid]["state"] == "running", story(move)
    assert told(move).get(bad.pid, {"state": "gone"})["state"] == "gone", told(move)
    return target, [good]


def agent_ends(movelab, guest, way, good, bad, _):
    """While the VM moves: programs come to the next agent, which has them go on."""
    source, target = way
    node = movelab.nodes[source]
    node.reload("[actions]\nbandwidth=8\n")
    move = node.move(guest, target)
    wait_for(lambda: node.migration(move)["progress"]["processed_bytes"] > 0, pause=0.05)
    tell(source, guest, "opencl restart")
    move = node.ended(move, 3 * HANG_S)
    assert move["state"] == "done", story(move)
    return target, [good, bad]


FAULTS = [(it_stays, "freeze"), (it_stays, "hang-unload"), (it_waits, "none"), (it_waits, "hang-load"),
          (it_ends, "crash-unload"), (it_ends, "crash-load"), (it_ends, "killed"), (agent_ends, "agent-ends")]


@pytest.mark.parametrize("fault, name", FAULTS, ids=lambda v: v if isinstance(v, str) else "")
def test_fault(movelab, guest, way, pair, undisturbed, fault, name):
    where, programs = fault(movelab, guest, way, *pair, name)
    for program in programs:
        assert program.holds(where) and program.end(where) == undisturbed
