# SPDX-License-Identifier: Apache-2.0
"""Programs of OpenCL let go of their GPUs and take them back, as the agent tells them: the library is the
real one, behind it is PoCL, with a node of its own as a GPU has (tests/opencl/leaky-vendor.c)."""
import contextlib
import os
import re
import signal
import socket
import subprocess
import sys

import pytest
from cudaguest import FIRST as CUDA_FIRST
from cudaguest import CudaGuest
from guestd import LONG_MS, Agent, Connected, Guest, at_deadline, deadlines, program
from opencl import POCL, built, need_pocl
from settings import HANG_S
from unixhttp import wait_for

FIRST = "0000:01:00.0"
DEVICES = [{"path": "0000:00/02.1/00.0"}]


@pytest.fixture(autouse=True)
def _pocl():
    need_pocl()


@pytest.fixture(name="guest")
def a_guest(tmp_path):
    with Guest(tmp_path / "guest") as guest:
        os.makedirs(guest.path("run"))
        os.makedirs(guest.path("vendors"))
        guest.write("vendors/test.icd", built("tests/opencl/leaky-vendor.so") + "\n")
        guest.node = guest.add_gpu()
        yield guest


class Program:
    """Adds to numbers in the memory of a device, again and again."""

    def __init__(self, guest, mib=16, inherit=(), wrap=(), **more):
        self.guest, self.reach = guest, Connected(guest)
        environment = {**os.environ, "VGPU_OPENCL_VENDORS": guest.path("vendors"), "VG_NODE": guest.node,
                       "VGPU_OPENCL_NODES": guest.path("dev"), "VGPU_OPENCL_AGENT": self.reach.path,
                       "VG_FAULTS": guest.path("faults"), "VGPU_OPENCL_LOG": guest.path("opencl.log"), **more}
        self.process = subprocess.Popen([*wrap, built("tests/opencl/holder"), "hold",
                                         built("libvgpu-opencl.so"), str(mib)], env=environment,
                                        stdout=subprocess.PIPE, text=True, pass_fds=[self.reach.dir, *inherit])
        self.pid = self.process.pid
        assert self.process.stdout.readline() == "ready\n"

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()
        self.reach.close()

    def holds(self):
        directory, links = f"/proc/{self.pid}/fd", []
        for fd in os.listdir(directory):
            with contextlib.suppress(FileNotFoundError):  # it is closed meanwhile
                links.append(os.readlink(os.path.join(directory, fd)))
        with open(f"/proc/{self.pid}/maps", encoding="utf-8") as maps:
            return self.guest.node in links or self.guest.node in maps.read()

    def end(self):
        """How many of its numbers were wrong, when it goes on."""
        self.process.send_signal(signal.SIGTERM)
        line = self.process.stdout.readline()
        assert self.process.wait(HANG_S) == 0, line
        return int(re.match(r"steps \d+ wrong (\d+) ", line)[1])


def connected(agent, n):
    """Waits until programs have said so many hellos to the agent."""
    wait_for(lambda: agent.log().count("OpenCL program connected") >= n)


def says(words):
    return lambda done: done["type"] == "error" and words in done["message"]


def refused(host, words):
    """The error at a deadline by which it says so."""
    return at_deadline(lambda ms: prepare(host, deadline_ms=ms), says(words), 1500)


def opencl_of(status):
    return next(p for p in status["providers"] if p["name"] == "opencl")


def prepare(host, progress=None, deadline_ms=LONG_MS, **more):
    return host.ask("prepare", progress, deadline_ms=deadline_ms, devices=DEVICES, **more)


def resume(host, progress=None, deadline_ms=LONG_MS):
    return host.ask("resume", progress, deadline_ms=deadline_ms, devices=DEVICES)


def told(answer):
    """The programs, each of which is told of once."""
    programs = answer["programs"]
    assert programs["total"] == len(programs["list"]) == len({p["pid"] for p in programs["list"]}), programs
    return {p["pid"]: p for p in programs["list"]}


@pytest.mark.smoke
def test_there_and_back(guest, agent, host):
    with Program(guest) as one, Program(guest, mib=1) as other:
        connected(agent, 2)
        status = opencl_of(host.ask("status"))
        assert status["releasable"] and "why" not in status
        assert {pid: (p["by"], p["bytes"], p["state"]) for pid, p in told(status).items()} == {
            one.pid: ("opencl", 16 << 20, "running"), other.pid: ("opencl", 1 << 20, "running")}
        progress = []
        done = prepare(host, progress)
        assert done["type"] == "prepared", done
        assert {p["state"] for p in told(done).values()} == {"released"} and done["programs"]["bytes"] == 17 << 20
        assert sorted(p["pid"] for p in progress if p["step"] == "release") == sorted([one.pid, other.pid])
        assert not one.holds() and not other.holds() and guest.driver_of(FIRST) is None
        assert {p["state"] for p in told(opencl_of(host.ask("status"))).values()} == {"released"}
        guest.remove_gpu()
        guest.add_gpu()
        progress = []
        done = resume(host, progress)
        assert done["type"] == "resumed", done
        for p in told(done).values():
            assert p["state"] == "running" and p["stop_ms"] >= max(p["checkpoint_ms"], p["restore_ms"])
        assert sorted(p["pid"] for p in progress if p["step"] == "return") == sorted([one.pid, other.pid])
        assert one.holds() and other.holds()
        assert (one.end(), other.end()) == (0, 0)


def test_by_hand(guest, agent):
    """A command of a person reaches programs through the agent that runs, and no program without one."""
    with Program(guest) as one:
        connected(agent, 1)
        command = [program(), "--sysroot", guest.root]
        said = subprocess.run([*command, "status"], capture_output=True, text=True, check=True).stdout
        assert re.search(rf"provider opencl\n  connected 1\n  process   {one.pid} \(holder\), 16 MiB", said), said
        said = subprocess.run([*command, "try"], capture_output=True, text=True, check=True).stdout
        assert "released: no process had a GPU open or mapped" in said and len(re.findall(f" {one.pid} ", said)) == 1, said
        assert re.search(rf"^ +{one.pid} holder +running +\d+", said, re.M), said
        assert one.end() == 0
    agent.stop()
    said = subprocess.run([*command, "status"], capture_output=True, text=True, check=True).stdout
    assert "connected 0" in said


@pytest.mark.drawn("opencl-faults")
def test_a_command_that_ends_halfway(guest, agent):
    """What it has stopped goes on."""
    guest.write("faults", "hang-unload")
    with Program(guest) as one, agent.host() as host:
        connected(agent, 1)
        with subprocess.Popen([program(), "--sysroot", guest.root, "try"], stdout=subprocess.DEVNULL) as command:
            # It holds nothing to compute with any more, and hangs in the vendor's library.
            wait_for(lambda: told(opencl_of(host.ask("status"))).get(one.pid, {}).get("state") == "unknown")
            command.kill()
        guest.write("faults", "")
        wait_for(lambda: told(opencl_of(host.ask("status"))).get(one.pid, {}).get("state") == "running" and one.holds())
        assert one.end() == 0


# ---- what goes wrong: see the table in docs/vgpu-opencl.7 ----

BEFORE = {
    "cuda": ("unreleasable", "the program also uses GPUs through CUDA"),
    "own": ("opencl-failed", "is still open or mapped"),
    "hang-unload": ("timeout", "has not answered in time"),
}


@pytest.mark.drawn("opencl-faults")
@pytest.mark.parametrize("fault", BEFORE)
def test_before_it_has_left(guest, agent, host, tmp_path, fault):
    """It is named, and all go on with the GPU that they had."""
    more = {"cuda": {"VG_DRIVER": "libcuda.so.1", "VG_LEAK": "init", "LD_LIBRARY_PATH": str(tmp_path)}}
    code, words = BEFORE[fault]
    os.symlink(built("tests/guest/fake-cuda.so"), tmp_path / "libcuda.so.1")
    with open(guest.node, "rb") as node, Program(guest) as good, \
            Program(guest, inherit=[node.fileno()] * (fault == "own"), VG_FAULTS=guest.path("bad"),
                    **more.get(fault, {})) as bad:
        # Only its child shall have it.
        node.close()
        connected(agent, 2)
        guest.write("bad", fault)
        number = host.request("prepare", deadline_ms=6000 if fault == "hang-unload" else LONG_MS, devices=DEVICES)
        if fault == "hang-unload":
            # It comes too late.
            host.until_step("undo")
            guest.write("bad", "")
        done = host.answer(number)
        assert done["code"] == code and words in done["message"], done
        # On a busy machine undoing does not wait for one that hung until then.
        assert f"{bad.pid} (holder)" in done["message"] and (done["undone"] or fault == "hang-unload"), done
        assert set(told(done)) == {good.pid, bad.pid}
        if fault == "cuda":
            status = opencl_of(host.ask("status"))
            assert not status["releasable"] and status["why"] == f'{bad.pid} (holder): it says "{words}"'
        wait_for(lambda: good.holds() and bad.holds())
        assert (good.end(), bad.end()) == (0, 0)


@pytest.mark.drawn("opencl-faults")
def test_somebody_else_holds_the_gpu(guest, agent, host):
    with Program(guest) as one, guest.holder(guest.node) as holder:
        connected(agent, 1)
        done = refused(host, "(python3)")
        assert (done["code"], done["holders"][0]["pid"], done["undone"]) == ("held", holder.pid, True), done
        assert one.holds() and one.end() == 0


@pytest.mark.drawn("opencl-faults")
@pytest.mark.parametrize("fault", ["crash-unload", "crash-load", "killed"])
def test_one_dies(guest, agent, host, fault):
    """Others are released and go on, and it is told of."""
    with Program(guest) as good, Program(guest, VG_FAULTS=guest.path("bad")) as bad:
        connected(agent, 2)
        guest.write("bad", "crash-unload" if fault == "crash-unload" else "")
        done = prepare(host)
        assert done["type"] == "prepared", done
        assert told(done)[bad.pid]["state"] == ("gone" if fault == "crash-unload" else "released")
        guest.bind(FIRST, "fake")
        guest.write("bad", fault)
        if fault == "killed":
            bad.process.kill()
        done = resume(host)
        assert done["type"] == "resumed" and told(done)[good.pid]["state"] == "running", done
        assert told(done).get(bad.pid, {"state": "gone"})["state"] == "gone"
        assert good.end() == 0


AFTER = {
    "none": ("opencl-failed", "fewer platforms are available than before"),
    "hang-load": ("timeout", "the vendor's library does not return"),
}


@pytest.mark.drawn("opencl-faults")
@pytest.mark.parametrize("fault", AFTER)
def test_after_it_has_left(guest, agent, host, fault):
    """Others go on; it stays as it is, and goes on with the next try."""
    code, words = AFTER[fault]
    with Program(guest) as good, Program(guest, VG_FAULTS=guest.path("bad"), VGPU_OPENCL_LONG="1") as bad:
        connected(agent, 2)
        assert prepare(host)["type"] == "prepared"
        guest.bind(FIRST, "fake")
        guest.write("bad", fault)
        done = at_deadline(lambda ms: resume(host, deadline_ms=ms), lambda done: done["code"] == code and (
            good.pid not in told(done) or told(done)[good.pid]["state"] == "running"), 3000)
        assert (done["code"], done["undone"]) == (code, False) and words in done["message"], done
        assert told(done)[bad.pid]["state"] == "released" and words in told(done)[bad.pid]["why"]
        assert good.holds()
        guest.write("bad", "")
        done = resume(host)
        assert done["type"] == "resumed" and told(done)[bad.pid]["state"] == "running", done
        assert told(done)[good.pid]["stop_ms"] < told(done)[bad.pid]["stop_ms"]
        assert bad.holds() and (good.end(), bad.end()) == (0, 0)


@pytest.mark.drawn("opencl-faults")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_the_agent_ends(guest, number):
    """Programs that stand still come to the next one, which has them go on."""
    with Program(guest) as one:
        with Agent(guest) as agent:
            with agent.host() as host:
                connected(agent, 1)
                assert prepare(host)["type"] == "prepared"
            agent.process.send_signal(number)
            agent.process.wait()
        assert not one.holds()
        guest.bind(FIRST, "fake")
        with Agent(guest) as agent, agent.host() as host:
            connected(agent, 2)
            status = opencl_of(host.ask("status"))
            assert told(status)[one.pid]["state"] == "released" and told(status)[one.pid]["bytes"] == 16 << 20
            assert host.greeting["state"] == "idle"
            assert told(resume(host))[one.pid]["state"] == "running"
            assert one.end() == 0


@pytest.mark.drawn("opencl-faults")
def test_no_agent_comes(guest):
    """It goes on by itself, as soon as there is a GPU for it."""
    with Program(guest, VGPU_OPENCL_ALONE="1") as one:
        with Agent(guest) as agent, agent.host() as host:
            connected(agent, 1)
            assert prepare(host)["type"] == "prepared"
            guest.write("faults", "none")
        wait_for(lambda: "cannot continue without one: " in guest.read("opencl.log"))
        assert not one.holds()
        guest.write("faults", "")
        wait_for(one.holds)
        assert one.end() == 0


# ---- at a proxy meanwhile ----

@contextlib.contextmanager
def a_proxy(guest, name="proxy.sock"):
    """vgpu-proxy with PoCL: its place and its process."""
    guest.write("served/pocl.icd", POCL + "\n")
    argv = [built("vgpu-proxy"), "--drain=1", "--vendors=served", name]
    with subprocess.Popen(argv, cwd=guest.root, stderr=subprocess.DEVNULL) as process:
        directory = os.open(guest.root, os.O_PATH | os.O_DIRECTORY)
        try:
            wait_for(lambda: os.path.exists(guest.path(name)))
            yield f"proxy:/proc/{os.getpid()}/fd/{directory}/{name}", process
        finally:
            os.close(directory)
            process.terminate()


@pytest.mark.drawn("opencl-proxies")
def test_at_a_proxy_meanwhile(guest, agent, host):
    """It goes on there while there is no GPU, and comes back with its numbers; also to an agent that knows nothing."""
    with a_proxy(guest) as (place, _), Program(guest) as one:
        connected(agent, 1)
        steps = []
        done = prepare(host, steps, opencl_at=place)
        assert done["type"] == "prepared" and told(done)[one.pid]["state"] == "away", done
        assert [s["step"] for s in steps if s["step"] in ("release", "away")] == ["release", "away"]
        assert not one.holds() and told(opencl_of(host.ask("status")))[one.pid]["state"] == "away"
        guest.bind(FIRST, "fake")
        done = resume(host)
        assert done["type"] == "resumed" and told(done)[one.pid]["state"] == "running" and one.holds(), done
        assert prepare(host, opencl_at=place)["type"] == "prepared"
        agent.process.kill()
        agent.process.wait()
        guest.bind(FIRST, "fake")
        with Agent(guest) as other, other.host() as again:
            connected(other, 2)
            assert told(opencl_of(again.ask("status")))[one.pid]["state"] == "away"
            assert told(resume(again))[one.pid]["state"] == "running" and one.holds()
            assert one.end() == 0
            # Nobody waits for it any more.
            wait_for(lambda: opencl_of(again.ask("status"))["connected"] == 0)
            assert resume(again)["type"] == "resumed"


@pytest.mark.drawn("opencl-proxies")
def test_no_proxy_meanwhile(guest, agent, host):
    """It waits until it has a GPU again. One whose proxy has ended gets an error."""
    with a_proxy(guest) as (place, proxy), Program(guest) as one:
        connected(agent, 1)
        for bad in ("library", "proxy:" + "x" * 122, 7, "proxy:\x01"):
            assert prepare(host, opencl_at=bad)["code"] == "bad-request"
        done = prepare(host, opencl_at="proxy:/nowhere")
        assert done["type"] == "prepared" and told(done)[one.pid]["state"] == "released", done
        assert "No such file" in told(done)[one.pid]["why"]
        guest.bind(FIRST, "fake")
        assert told(resume(host))[one.pid]["state"] == "running"
        assert told(prepare(host, opencl_at=place))[one.pid]["state"] == "away"
        with open(f"/proc/{proxy.pid}/task/{proxy.pid}/children", encoding="ascii") as children:
            os.kill(int(children.read()), signal.SIGKILL)
        assert one.process.wait(HANG_S) == 1
        guest.bind(FIRST, "fake")
        assert resume(host)["type"] == "resumed"


def switch(host, place, deadline_ms=LONG_MS, progress=None):
    return host.ask("switch", progress, deadline_ms=deadline_ms, opencl_at=place)


def at(answer, one):
    """Where it computes."""
    told_of = told(answer)[one.pid]
    return told_of["state"], told_of.get("at")


@pytest.mark.drawn("opencl-proxies")
def test_from_proxy_to_proxy(guest, agent, host):
    """Programs at a proxy go on at another one, or stay where they are; the agent's state is the same afterwards, and
    one that has a GPU of its own is nothing to it."""
    with a_proxy(guest) as (first, _), a_proxy(guest, "other.sock") as (other, second), \
            Program(guest, mib=1) as own, Program(guest, mib=1, VGPU_OPENCL=first) as one:
        connected(agent, 2)
        for bad in ("library", 7, "proxy:\x01"):
            assert switch(host, bad)["code"] == "bad-request"
        assert host.ask("switch", deadline_ms=LONG_MS)["code"] == "bad-request"
        steps = []
        done = switch(host, other, progress=steps)
        assert done["type"] == "switched" and at(done, one) == ("away", other) and list(told(done)) == [one.pid], done
        assert "switch" in [step["step"] for step in steps] and told(done)[one.pid]["stop_ms"] >= 0
        steps = []
        assert at(switch(host, other, progress=steps), one) == ("away", other)
        assert "switch" not in [step["step"] for step in steps]
        done = switch(host, "proxy:/nowhere")
        assert (done["code"], done["undone"]) == ("opencl-failed", True) and "No such file" in done["message"], done
        assert f"{one.pid} (holder) continues where it was" in done["message"] and at(done, one) == ("away", other)
        agent.process.kill()
        agent.process.wait()
        with Agent(guest) as next_agent, next_agent.host() as again:
            connected(next_agent, 4)
            assert at(opencl_of(again.ask("status")), one) == ("away", other)
            assert at(switch(again, "direct"), one) == ("running", None)
            assert again.ask("hello", versions=[1])["state"] == "idle"
            assert prepare(again)["type"] == "prepared"
            assert switch(again, "direct")["code"] == "state"
            assert at(switch(again, other), one) == ("away", other)
            guest.bind(FIRST, "fake")
            assert resume(again)["type"] == "resumed"
            second.terminate()
            assert (own.end(), one.end()) == (0, 0)


@pytest.mark.drawn("opencl-faults")
def test_a_proxy_that_does_not_answer(guest, agent, host):
    """A program that is on its way there when the time is over, or the host has gone, is where it was in the end."""
    with a_proxy(guest) as (first, _), a_proxy(guest, "other.sock") as (other, second), \
            Program(guest, mib=1, VGPU_OPENCL=first) as one:
        connected(agent, 1)
        second.send_signal(signal.SIGSTOP)
        # On a busy machine it may not even have stopped.
        done = at_deadline(lambda ms: switch(host, other, deadline_ms=ms), lambda done: not done["undone"], 2000)
        assert (done["code"], done["undone"]) == ("timeout", False) and "remains paused" in done["message"], done
        second.send_signal(signal.SIGCONT)
        wait_for(lambda: at(switch(host, other), one) == ("away", other))
        second.send_signal(signal.SIGSTOP)
        host.request("switch", deadline_ms=LONG_MS, opencl_at="direct")
        host.until_step("switch")
        host.socket.shutdown(socket.SHUT_RDWR)
        second.send_signal(signal.SIGCONT)
        with agent.host() as again:
            wait_for(lambda: again.ask("hello", versions=[1])["running"] is None)
            # The program may still be on its way back.
            wait_for(lambda: at(switch(again, "direct"), one) == ("running", None))
        assert one.end() == 0


# For full runs, one of them.
@pytest.mark.parametrize("comes", [pytest.param(True, marks=pytest.mark.drawn("lab-many")),
                                   pytest.param(False, marks=pytest.mark.drawn("opencl-faults"))])
def test_the_agent_ends_on_the_way(guest, comes):
    """A program that stands still then, as where it shall go is no more, continues where it was: when the next agent has
    waited for somebody to have it do so, or by itself."""
    with a_proxy(guest) as (first, _), a_proxy(guest, "other.sock") as (other, second), \
            a_proxy(guest, "third.sock") as (place, _), Program(guest, mib=1, VGPU_OPENCL=first, VGPU_OPENCL_ALONE="1") as one:
        with Agent(guest) as agent, agent.host() as host:
            connected(agent, 1)
            assert at(switch(host, place), one) == ("away", place)
            second.send_signal(signal.SIGSTOP)
            host.request("switch", deadline_ms=LONG_MS, opencl_at=other)
            host.until_step("switch")
            wait_for(lambda: "released: " in guest.read("opencl.log")[guest.read("opencl.log").find("resumed: "):])
            agent.process.kill()
            agent.process.wait()
        second.kill()
        if not comes:
            wait_for(lambda: "resumed: " in guest.read("opencl.log").rsplit("released: ", 1)[1])
        with Agent(guest) as agent, agent.host() as host:
            wait_for(lambda: told(opencl_of(host.ask("status"))).get(one.pid, {}).get("at") == place)
            assert at(switch(host, "direct"), one) == ("running", None)
        assert one.end() == 0


# For full runs.
@pytest.mark.drawn("lab-many")
def test_the_host_does_not_come_back(guest):
    """A new agent has programs go on that an earlier one has stopped, if nobody else does."""
    with Program(guest) as one:
        with Agent(guest) as agent:
            with agent.host() as host:
                connected(agent, 1)
                assert prepare(host)["type"] == "prepared"
            agent.process.kill()
            agent.process.wait()
        guest.bind(FIRST, "fake")
        with Agent(guest):
            wait_for(one.holds)
            assert one.end() == 0


# ---- strangers ----

STRANGER = """
import os, socket, sys
gpu = os.open(sys.argv[2], os.O_RDWR)
print("open", flush=True)
def say(text):
    lines.write(text.encode())
    lines.flush()
"""
CONNECT = """
agent = socket.socket(socket.AF_UNIX)
agent.connect(sys.argv[1])
lines = agent.makefile("rwb")
"""


@contextlib.contextmanager
def stranger(guest, script, before=""):
    """A program with the GPU open, and a connection to the agent."""
    reach = Connected(guest)
    connect = "" if CONNECT in script else CONNECT
    # By which who is not root finds it.
    directory = os.open(os.path.dirname(guest.node), os.O_PATH | os.O_DIRECTORY)
    node = f"/proc/self/fd/{directory}/{os.path.basename(guest.node)}"
    with subprocess.Popen([sys.executable, "-c", STRANGER + before + connect + script, reach.path, node], stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE, pass_fds=[reach.dir, directory], text=True) as process:
        assert process.stdout.readline() == "open\n"
        yield process
        process.kill()
    os.close(directory)
    reach.close()


HELLO = "say('hello 1 1\\n'); print('there', flush=True)\n"
ANSWER = "lines.readline(); say('is running 4096\\n')\n"
WAIT = "sys.stdin.read()\n"


def answering(prepare="", resume=""):  # pylint: disable=redefined-outer-name
    """However often it is asked, and told to stop and to go on: what it says to that."""
    return (f"said = {{'ask': 'is running 4096', 'prepare': {prepare!r}}}\n"
            "for line in lines:\n"
            f"    text = said.get(line.split()[0].decode(), {resume!r})\n"
            "    if text: say(text + '\\n')\n") + WAIT


@pytest.mark.drawn("opencl-faults")
@pytest.mark.parametrize("script, code, words", [
    (WAIT, "held", "the deadline passed"),
    (HELLO + WAIT, "unreleasable", "it does not answer"),
    (HELLO + answering(resume="refused late"), "timeout", "has not answered in time"),
    (HELLO + answering("released 1 1", "resumed 1 1"), "held", "the deadline passed"),
    (HELLO + answering("refused \x01not now"), "opencl-failed", "?not now"),
    (HELLO + "say('released 1 1\\n')\n" + WAIT, "held", "the deadline passed"),
    (HELLO + "lines.readline(); say('x' * 100000)\n" + WAIT, "held", "the deadline passed"),
    ("say('hello 2 1\\n')\n" + WAIT, "held", "the deadline passed"),
], ids=["mute", "deaf", "late", "lies", "refuses", "babbles", "endless", "other-version"])
def test_a_stranger(guest, agent, host, script, code, words):
    """Whatever it says, it is told of when the deadline has come, and an honest program goes on."""
    with Program(guest, mib=1) as good, stranger(guest, script) as bad:
        if HELLO in script:
            assert bad.stdout.readline() == "there\n"
        connected(agent, 2 if HELLO in script else 1)
        done = refused(host, words)
        assert done["code"] == code and words in done["message"] and str(bad.pid) in done["message"], done
        assert good.end() == 0


def test_too_little_memory(guest, agent, host):
    """Nothing is begun where the guest has not as much as a program says that it has in the GPU's."""
    huge = "lines.readline(); say('is running 1099511627776\\n')\n"
    with Program(guest) as good, stranger(guest, HELLO + huge * 2 + WAIT) as bad:
        assert bad.stdout.readline() == "there\n"
        connected(agent, 2)
        progress = []
        done = prepare(host, progress)
        assert (done["code"], done["undone"]) == ("no-memory", True) and "1048592 MiB" in done["message"], done
        assert "release" not in [p["step"] for p in progress]
        status = opencl_of(host.ask("status"))
        assert not status["releasable"] and "MiB of memory are needed" in status["why"], status
        assert good.end() == 0


@pytest.mark.drawn("opencl-faults")
def test_one_that_never_answers(guest, agent, host):
    """It is not waited for as long as undoing may take."""
    with Program(guest) as good:
        for n, deadline_ms in enumerate(deadlines(1500)):
            # It is asked once.
            with stranger(guest, HELLO + answering()) as bad:
                connected(agent, 2 + n)
                done = prepare(host, deadline_ms=deadline_ms)
            if says("has not answered in time")(done):
                break
        assert (done["code"], done["undone"]) == ("timeout", False) and str(bad.pid) in done["undo_error"], done
        assert told(done)[good.pid]["state"] == "running" and good.end() == 0


@pytest.mark.drawn("opencl-faults")
def test_one_comes_late_and_twice(guest, agent, host):
    """It is stopped, too; and who connects again is the same program."""
    with Program(guest) as one:
        connected(agent, 1)
        assert prepare(host)["type"] == "prepared"
        guest.bind(FIRST, "fake")
        with stranger(guest, HELLO + HELLO.replace("say", "sys.stdin.readline(); agent = socket.socket(socket.AF_UNIX); "
                                                   "agent.connect(sys.argv[1]); lines = agent.makefile('rwb'); say", 1)
                      + WAIT) as other:
            assert other.stdout.readline() == "there\n"
            other.stdin.write("\n")
            other.stdin.flush()
            assert other.stdout.readline() == "there\n"
            connected(agent, 3)
            assert opencl_of(host.ask("status"))["connected"] == 2
        assert resume(host)["type"] == "resumed"
        assert one.end() == 0


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
def test_who_is_not_root(guest, agent, host):
    """Nobody needs to be, and nobody takes the places of others."""
    become = "os.setgroups([]); os.setgid(65534); os.setuid(65534)\n"
    many = ("others = [socket.socket(socket.AF_UNIX) for _ in range(100)]\n"
            "for other in others: other.connect(sys.argv[1])\n")
    let_go = """
for line in lines:
    word = line.split()[0].decode()
    if word == "prepare":
        gpu = os.close(gpu)
        say("released 1 1\\n")
    elif word == "ask":
        say("is running 4096\\n")
    elif gpu is None:
        gpu = os.open(sys.argv[2], os.O_RDWR)
        say("resumed 1 1\\n")
        print("back", flush=True)
"""
    os.chmod(guest.node, 0o666)
    with stranger(guest, HELLO + let_go + WAIT, before=become) as one, Program(guest, mib=1) as good:
        assert one.stdout.readline() == "there\n"
        connected(agent, 2)
        with stranger(guest, many + "print('there', flush=True)\n" + WAIT, before=become) as other:
            assert other.stdout.readline() == "there\n"
            wait_for(lambda: "too many OpenCL programs" in agent.log())
            with Program(guest, mib=1) as late:
                connected(agent, 3)
                # The one who only has many connections is none of them.
                done = refused(host, "(python3)")
                assert done["holders"][0]["pid"] == other.pid and done["undone"], done
                assert one.stdout.readline() == "back\n"
                assert set(told(done)) == {one.pid, good.pid, late.pid}
                assert late.end() == 0
        assert good.end() == 0


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make namespaces")
def test_in_a_container(guest, agent, host):
    """It has another pid there than for the agent."""
    with Program(guest, wrap=["unshare", "--pid", "--fork", "--kill-child"]) as one:
        connected(agent, 1)
        with open(f"/proc/{one.pid}/task/{one.pid}/children", encoding="ascii") as file:
            one.pid = int(file.read())
        done = prepare(host)
        assert done["type"] == "prepared" and told(done)[one.pid]["comm"] == "holder", done
        guest.bind(FIRST, "fake")
        assert told(resume(host))[one.pid]["state"] == "running" and one.holds()


def test_it_is_no_program_of_cuda(tmp_path, monkeypatch):
    """It has the nodes of NVIDIA's GPU as programs of CUDA have them; those are what is left of them."""
    with CudaGuest(tmp_path / "guest") as guest:
        for name, value in guest.environment().items():
            monkeypatch.setenv(name, value)
        guest.plug()
        guest.node = guest.path("dev/nvidia0")
        let_go = ("lines.readline(); os.close(gpu); say('released 1 1\\n')\n"
                  "lines.readline(); gpu = os.open(sys.argv[2], os.O_RDWR); say('resumed 1 1\\n')\n")
        with Agent(guest) as agent, agent.host() as host, \
                stranger(guest, "sys.stdin.readline()\n" + CONNECT + HELLO + ANSWER * 2 + let_go + WAIT) as one:
            guest.show(one.pid)
            one.stdin.write("\n")
            one.stdin.flush()
            assert one.stdout.readline() == "there\n"
            connected(agent, 1)
            worker = guest.start(mib=64)
            about = {p["name"]: p for p in host.ask("status")["providers"]}
            assert about["cuda"]["releasable"] and set(told(about["cuda"])) == {worker.pid}, about
            assert about["opencl"]["releasable"] and set(told(about["opencl"])) == {one.pid}, about
            done = host.ask("prepare", deadline_ms=LONG_MS, devices=[{"address": CUDA_FIRST}])
            assert done["type"] == "prepared" and done["programs"]["total"] == 2, done
            assert {p["pid"]: (p["by"], p["state"]) for p in done["programs"]["list"]} == {
                one.pid: ("opencl", "released"), worker.pid: ("cuda", "released")}
            guest.bind_all()
            done = host.ask("resume", deadline_ms=LONG_MS, devices=[{"address": CUDA_FIRST}])
            assert {p["state"] for p in told(done).values()} == {"running"}
            assert worker.end()[0] == 0


@pytest.mark.drawn("opencl-faults")
def test_too_many(guest, agent):
    """Connections have a limit, and those who say nothing lose theirs."""
    reach = Connected(guest)
    sockets = []
    with agent.host() as host, Program(guest) as one:
        connected(agent, 1)
        for _ in range(400):
            sockets.append(socket.socket(socket.AF_UNIX))
            sockets[-1].connect(reach.path)
        assert prepare(host)["type"] == "prepared"
        guest.bind(FIRST, "fake")
        assert resume(host)["type"] == "resumed"
        for each in sockets:
            each.settimeout(HANG_S)
            assert each.recv(1) == b""
            each.close()
        assert one.end() == 0
    assert "too many OpenCL programs" in agent.log()
    reach.close()
