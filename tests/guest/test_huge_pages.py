# SPDX-License-Identifier: Apache-2.0
"""The kernel's setting for huge pages: `always` while NVIDIA's driver copies, and what it was at any other time. It
is a plain file here, which the agent reads and writes as the kernel's."""
import os

import pytest
from cudaguest import FIRST, CudaGuest, slot_path
from guestd import LONG_MS, Agent
from unixhttp import wait_for

SETTING = "sys/kernel/mm/transparent_hugepage/enabled"
# What an agent keeps there while it runs, whatever it did.
ALWAYS = {"vgpu-guestd-cuda-watch", "vgpu-guestd", "vgpu-guestd-opencl.sock", "vgpu-guestd-hold"}
KEPT = "run/vgpu-guestd-huge-pages"
GPU = [{"path": slot_path(FIRST)}]


@pytest.fixture(name="guest")
def a_guest(tmp_path, monkeypatch):
    with CudaGuest(tmp_path / "guest") as guest:
        for name, value in guest.environment().items():
            monkeypatch.setenv(name, value)
        guest.plug()
        guest.write(SETTING, "always [madvise] never\n")
        yield guest


def is_set(guest):
    """The word of the setting; and which one is kept, if one is."""
    text = guest.read(SETTING)
    return (text.split("[")[1].split("]")[0] if "[" in text else text), guest.read(KEPT)


def begin(guest, host, kind, worker, fault):
    """A request at the point where the driver copies; it stays there if the fault is `hang`."""
    call = "checkpoint" if kind == "prepare" else "restore"
    guest.fault(f"{call} {worker.pid} {fault}")
    guest.bind_all()
    number = host.request(kind, deadline_ms=LONG_MS, devices=GPU)
    host.until_step(call)
    return number


def test_while_the_driver_copies(guest):
    worker = guest.start()
    with Agent(guest) as agent, agent.host() as host:
        number = begin(guest, host, "prepare", worker, "hang")
        assert is_set(guest) == ("always", "madvise")
        host.request("cancel")
        assert host.answer(number)["undone"]
        assert is_set(guest) == ("madvise", "")
        number = begin(guest, host, "prepare", worker, "slow")
        assert host.answer(number)["type"] == "prepared"
        # The VM moves.
        assert is_set(guest) == ("madvise", "")
        number = begin(guest, host, "resume", worker, "hang")
        assert is_set(guest) == ("always", "madvise")
        host.request("cancel")
        assert host.answer(number)["type"] == "error"
        assert is_set(guest) == ("madvise", "")
        number = begin(guest, host, "resume", worker, "slow")
        assert host.answer(number)["type"] == "resumed"
        assert is_set(guest) == ("madvise", "")
        assert worker.runs()


@pytest.mark.parametrize("how", ["agent", "worker"])
def test_after_a_crash(guest, how):
    worker = guest.start()
    with Agent(guest) as agent:
        with agent.host() as host:
            number = begin(guest, host, "prepare", worker, "hang")
            assert is_set(guest) == ("always", "madvise")
            if how == "worker":
                with open(f"/proc/{agent.process.pid}/task/{agent.process.pid}/children", encoding="utf-8") as file:
                    for pid in file.read().split():
                        os.kill(int(pid), 9)
                assert host.answer(number)["code"] == "internal"
                assert is_set(guest) == ("madvise", "")
        agent.process.kill()
        agent.process.wait()
    guest.fault()
    if how == "agent":
        os.unlink(guest.path("agent.sock"))
        assert is_set(guest) == ("always", "madvise")
        with Agent(guest) as agent, agent.host():
            wait_for(lambda: is_set(guest) == ("madvise", ""))
            assert set(os.listdir(guest.path("run"))) <= {"vgpu-guestd-cuda.json"} | ALWAYS


def test_what_others_set(guest):
    """Meanwhile, or before: theirs stays."""
    worker = guest.start()
    with Agent(guest) as agent, agent.host() as host:
        number = begin(guest, host, "prepare", worker, "hang")
        guest.write(SETTING, "always madvise [never]\n")
        host.request("cancel")
        assert host.answer(number)["undone"]
        assert is_set(guest) == ("never", "")
        guest.write(SETTING, "[always] madvise never\n")
        number = begin(guest, host, "prepare", worker, "hang")
        assert is_set(guest) == ("always", "")
        host.request("cancel")
        assert host.answer(number)["undone"]
        assert is_set(guest) == ("always", "")
        # Another run has begun, which ends later.
        guest.write(SETTING, "always [madvise] never\n")
        guest.write(KEPT, "never")
        number = begin(guest, host, "prepare", worker, "hang")
        assert is_set(guest) == ("madvise", "never")
        host.request("cancel")
        assert host.answer(number)["undone"]
        assert is_set(guest) == ("madvise", "")


def test_off(guest):
    worker = guest.start()
    guest.write("etc/vgpud/vgpu-guestd.conf", "[cuda]\nhuge_pages=no\n")
    with Agent(guest) as agent, agent.host() as host:
        number = begin(guest, host, "prepare", worker, "hang")
        assert is_set(guest) == ("madvise", "")
        host.request("cancel")
        assert host.answer(number)["undone"]


@pytest.mark.parametrize("how", ["missing", "unwritable", "empty"])
def test_setting_that_does_not_do(guest, how):
    """It is faster with huge pages, and works without."""
    worker = guest.start()
    os.unlink(guest.path(SETTING))
    if how == "unwritable":
        # Read as text, but cannot be opened for writing.
        os.symlink("/proc/self/mountinfo", guest.path(SETTING))
    elif how == "empty":
        guest.write(SETTING, "")
    with Agent(guest) as agent, agent.host() as host:
        number = begin(guest, host, "prepare", worker, "slow")
        assert host.answer(number)["type"] == "prepared"
        number = begin(guest, host, "resume", worker, "slow")
        assert host.answer(number)["type"] == "resumed"
        assert ("huge pages are unavailable" in agent.log()) == (how != "missing")
    assert worker.end()[:2] == (0, 1)
    assert set(os.listdir(guest.path("run"))) <= ALWAYS
