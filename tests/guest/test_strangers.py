# SPDX-License-Identifier: Apache-2.0
"""Users of the guest who have no GPU, and connect to the agent as programs of OpenCL: nothing that they say or leave
unsaid keeps root's hooks from running, or makes a request fail."""
import contextlib
import os
import subprocess
import sys

import pytest
from guestd import LONG_MS, Agent, Connected, Guest
from settings import HANG_S
from unixhttp import wait_for

FIRST = "0000:01:00.0"
DEVICES = [{"path": "0000:00/02.1/00.0"}]

# Answers each line that begins with a word by another one; what is not there gets no answer.
STRANGER = """
import os, socket, sys
path, hello, answers, node = sys.argv[1:]
answers = eval(answers)
gpu = os.open(node, os.O_RDWR) if node else -1
if os.geteuid() == 0:
    os.setgroups([]); os.setgid(65534); os.setuid(65534)
agent = socket.socket(socket.AF_UNIX)
agent.connect(path)
lines = agent.makefile("rw")
def say(text):
    lines.write(text + "\\n"); lines.flush()
say(hello.format(pid=os.getpid()))
print("there", flush=True)
for line in lines:
    print(line, end="", flush=True)
    answer = answers.get(line.split()[0])
    if answer == "close":
        os.close(gpu)
        answer = "released 4096 1"
    if answer:
        say(answer)
"""


@pytest.fixture(name="guest")
def a_guest(tmp_path):
    # Its path may be one that not everybody may enter.
    with Guest(tmp_path / "guest") as guest:
        os.makedirs(guest.path("run"))
        guest.node = guest.add_gpu()
        guest.hook("prepare", "10-db")
        guest.hook("resume", "10-db")
        yield guest


@contextlib.contextmanager
def stranger(guest, agent, hello, answers, node=""):
    reach = Connected(guest)
    before = agent.log().count("OpenCL program connected")
    with subprocess.Popen([sys.executable, "-c", STRANGER, reach.path, hello, repr(answers), node],
                          stdout=subprocess.PIPE, pass_fds=[reach.dir], text=True) as process:
        assert process.stdout.readline() == "there\n"
        wait_for(lambda: agent.log().count("OpenCL program connected") > before)
        yield process
        process.kill()
    reach.close()


def opencl_of(status):
    return next(p for p in status["providers"] if p["name"] == "opencl")


FAILS = {"resume": "failed because a user of the guest says so"}


@pytest.mark.smoke
def test_who_has_no_gpu(guest, agent, host):
    """Whatever such programs claim, both requests succeed at once, and the claimed memory does not count."""
    claims = [("hello 1 {pid} released 1099511627776", {}), ("hello 1 {pid} released 1", FAILS),
              ("hello 1 {pid} away 1099511627776 proxy:/x", {}), ("hello 1 {pid}", {})]
    with contextlib.ExitStack() as stack:
        liars = [stack.enter_context(stranger(guest, agent, *claim)) for claim in claims]
        status = opencl_of(host.ask("status"))
        assert status["releasable"] and "why" not in status and status["programs"]["bytes"] == 0, status
        done = host.ask("prepare", deadline_ms=LONG_MS, devices=DEVICES)
        assert done["type"] == "prepared", done
        guest.bind(FIRST, "fake")
        progress = []
        done = host.ask("resume", progress, deadline_ms=LONG_MS, devices=DEVICES)
        assert done["type"] == "resumed" and "programs" not in done, done
        # None of them was waited for, and each that stands still is told to go on.
        assert "return" not in [p["step"] for p in progress], progress
        assert guest.ran() == ["prepare/10-db", "resume/10-db"]
        for liar, line in zip(liars, ("resume\n", "resume\n", "prepare ")):
            assert liar.stdout.readline().startswith(line)


SAYS = "it's \"done\" \\ uuid=1 " + "x" * 300


@pytest.mark.parametrize("answer", ["", "failed " + SAYS], ids=["silent", "fails"])
def test_who_has_had_one(guest, agent, host, answer):
    """A program that the agent has seen with a GPU, and that does not go on, makes the request fail. Hooks run all the
    same, and its words are quoted and shortened."""
    answers = {"ask": "is running 4096", "prepare": "close", **({"resume": answer} if answer else {})}
    with stranger(guest, agent, "hello 1 {pid}", answers, guest.node) as one:
        assert host.ask("prepare", deadline_ms=LONG_MS, devices=DEVICES)["type"] == "prepared"
        guest.bind(FIRST, "fake")
        # It is as long as this machine needs to come to the hooks.
        deadline_ms = 2000
        while "resume/10-db" not in guest.ran():
            assert deadline_ms < LONG_MS, agent.log()
            done = host.ask("resume", deadline_ms=deadline_ms, devices=DEVICES)
            deadline_ms *= 2
        assert done["type"] == "error" and done["code"] == ("opencl-failed" if answer else "timeout"), done
        assert f"process {one.pid} (python3) cannot use a GPU again: " in done["message"]
        if answer:
            words = ("it's 'done' ' uuid=1 " + "x" * 300)[:160]
            assert done["message"].endswith(f': it says "{words}..."'), done
            assert 'why="it says ' in agent.log() and 'uuid=1"' not in agent.log()


HOLDS = """
import os, sys
if os.geteuid() == 0:
    os.setgroups([]); os.setgid(65534); os.setuid(65534)
fds = [os.open(path, os.O_PATH) for path in sys.argv[2:]]
fds.append(os.open(sys.argv[1], os.O_RDONLY))
print("ready", flush=True)
sys.stdin.read()
"""


def test_what_everybody_may_open(guest, agent, host):
    """A GPU is not held by the place of its node, nor by its configuration space, which every user may read."""
    directory = guest.device_dir(FIRST)
    config, resource = (os.path.join(directory, name) for name in ("config", "resource2"))
    os.chmod(guest.node, 0o600)
    os.chmod(resource, 0o600)
    fds = [os.open(path, os.O_PATH) for path in (config, guest.node, resource)]
    paths = [f"/proc/self/fd/{fd}" for fd in fds]
    with subprocess.Popen([sys.executable, "-c", HOLDS, *paths], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                          pass_fds=fds, text=True) as process:
        assert process.stdout.readline() == "ready\n"
        done = host.ask("prepare", deadline_ms=HANG_S * 100, devices=DEVICES)
        process.kill()
    for fd in fds:
        os.close(fd)
    assert done["type"] == "prepared", done


def test_who_writes_the_configuration(guest, agent, host):
    """That is a driver in user space."""
    config = os.path.join(guest.device_dir(FIRST), "config")
    with guest.holder(config) as holder:
        done = host.ask("prepare", deadline_ms=1000, devices=DEVICES)
        assert done["code"] == "held" and done["holders"][0]["pid"] == holder.pid, done
