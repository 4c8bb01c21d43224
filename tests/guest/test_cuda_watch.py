# SPDX-License-Identifier: Apache-2.0
"""Programs of CUDA that the driver could not bring back are known before they are stopped. The driver is
made up (tests/guest/fake-cuda.c); the probes in it are the kernel's own."""
import os
import shutil
import signal
import subprocess
import time

import pytest
from cudaguest import FIRST, slot_path
from cudawatch import (a_guest, a_host, a_tracing, define, prepare, refused, released,  # noqa: F401
                       remove_left, watches)
from guestd import LONG_MS, Agent, at_deadline, program
from unixhttp import wait_for

IMPORT = "cuMemImportFromShareableHandle"
EXPORT = "cuMemExportToShareableHandle"


def probes(tracing, agent):
    with open(tracing / "uprobe_events", encoding="utf-8") as file:
        return [line for line in file if f"vgpu_guestd_{agent.process.pid}_" in line]


@pytest.mark.parametrize("function,text", [
    (IMPORT, f"it uses memory of another process ({IMPORT} called by fake-cuda-worker), and the"),
    ("cuMemAllocManaged", "unified memory (cuMemAllocManaged called by fake-cuda-worker), which"),
    ("cuMulticastCreate", "several GPUs write to concurrently (cuMulticastCreate called by fake-cuda-worker)"),
])
def test_who_could_not_come_back_is_refused(guest, host, function, text):
    good, bad = guest.start(), guest.start()
    bad.call(function)
    assert refused(host, bad, text) == {good.pid: "yes", bad.pid: "no"}
    about = [p for p in host.ask("status")["providers"] if p["name"] == "cuda"][0]
    assert about["releasable"] is False and text in about["why"]
    # A program that is no more is in nobody's way.
    bad.process.kill()
    bad.process.wait()
    released(guest, host)
    assert good.end()[:2] == (0, 1)


def test_whose_memory_it_uses(guest, host):
    """Who has offered memory comes back; the one who uses it does not."""
    offers, uses = guest.start(), guest.start()
    offers.call(EXPORT)
    released(guest, host)
    uses.call(IMPORT)
    refused(host, uses, f"it uses memory of process {offers.pid} ({IMPORT} called by")


@pytest.mark.parametrize("libraries,nccl", [(["libnccl.so.2"], True), (["libcudart.so.13"], False),
                                            (["libnccl.so.2", "libcudart.so.13"], False)])
def test_advice_for_nccl_is_for_nccl(guest, host, libraries, nccl):
    """Memory that others share, too, would still be shared with NCCL's variables."""
    other, uses = guest.start(), guest.start()
    for library in libraries:
        uses.call("cuIpcOpenMemHandle_v2", by=library)
    for library in libraries:
        refused(host, uses, f"cuIpcOpenMemHandle_v2 called by {library}")
    message = prepare(host)["message"]
    assert ("NCCL_P2P_DISABLE=1 and NCCL_SHM_DISABLE=1" in message) == nccl
    assert ("NCCL" in message) == nccl and other.runs()


def test_status_and_try_by_hand(guest, host):
    worker, other = guest.start(), guest.start()

    def by_hand(command):
        return subprocess.run([program(), command, "--sysroot", guest.root], capture_output=True,
                              text=True)

    assert host and by_hand("try").returncode == 0
    other.call(IMPORT)
    done = by_hand("try")
    assert done.returncode == 1 and f"process {other.pid} (fake-cuda-worke) has a GPU and cannot be " \
        "released: it uses memory of another process" in done.stdout
    assert "cannot be released: it uses memory of another process" in by_hand("status").stdout
    assert worker.end()[:2] == (0, 1) and other.end()[:2] == (0, 1)


def test_tie_that_is_made_at_the_last_moment(guest, host):
    """After the look, before all are locked."""
    worker, other = guest.start(), guest.start()
    guest.fault(f"lock {other.pid} slow")
    number = host.request("prepare", deadline_ms=LONG_MS, devices=[{"path": slot_path(FIRST)}])
    host.until_step("lock")
    worker.call(IMPORT)
    progress = []
    done = host.answer(number, progress)
    assert (done["code"], done["undone"]) == ("unreleasable", True), done
    assert f"process {worker.pid} " in done["message"]
    assert "checkpoint" not in {p["step"] for p in progress}
    assert worker.end()[:2] == (0, 0) and other.end()[:2] == (0, 0)


def test_many_probes_are_left(guest, tracing):
    """A list that is longer than one read of it becomes shorter while the agent removes probes."""
    events = tracing / "uprobe_events"
    space = os.stat("/proc/self/ns/pid").st_ino
    with subprocess.Popen(["true"]) as gone:
        gone.wait()
    left = [f"vgpu_guestd_{gone.pid}_{space}/left{i}" for i in range(100)]
    try:
        for name in left:
            define(events, f"p:{name} /bin/true:0x1000")
        with Agent(guest):
            wait_for(lambda: f"vgpu_guestd_{gone.pid}_" not in events.read_text())
    finally:
        remove_left(events)


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_another_agent_knows(guest, tracing, how):
    with Agent(guest) as first, first.host():
        watches(first, 1)
        worker, other = guest.start(), guest.start()
        other.call(IMPORT)
        wait_for(lambda: "call=" + IMPORT in first.log())
        assert probes(tracing, first)
        first.process.send_signal(how)
        first.process.wait()
        # Whoever is killed leaves them, until an agent starts; that may be another test's.
        assert how == signal.SIGKILL or not probes(tracing, first)
    if os.path.exists(first.socket):
        os.unlink(first.socket)
    with Agent(guest) as agent, agent.host() as host:
        # What the last one left is gone.
        assert not probes(tracing, first)
        # Nobody has watched the other one meanwhile.
        assert refused(host, other, "another process") == {worker.pid: "unknown", other.pid: "no"}
    assert not probes(tracing, agent)


def test_agent_of_the_first_layout_knew(guest, tracing):
    """Of the file that it left, the new agent keeps what is in it."""
    assert tracing
    with Agent(guest) as first, first.host():
        watches(first, 1)
        worker, other = guest.start(), guest.start()
        other.call(IMPORT)
        wait_for(lambda: "call=" + IMPORT in first.log())
    path = guest.path("run/vgpu-guestd-cuda-watch")
    with open(path, "r+b") as file:
        # Its head, 32 copies of the library and 1024 processes.
        file.truncate(176 + 32 * 120 + 1024 * 24)
        file.write(b"vgpu-watch 1")
    with Agent(guest) as agent, agent.host() as host:
        assert refused(host, other, "another process") == {worker.pid: "unknown", other.pid: "no"}


def test_who_was_not_watched(guest):
    """It is released if it is the only one, or if the guest's owner says so."""
    worker = guest.start()
    with Agent(guest) as agent, agent.host() as host:
        about = [p for p in host.ask("status")["providers"] if p["name"] == "cuda"][0]
        assert about["releasable"] is True
        assert [p["movable"] for p in about["programs"]["list"]] == ["unknown"]
        released(guest, host)
        other = guest.start()
        assert refused(host, worker, "used CUDA before its calls were watched")[worker.pid] == "unknown"
    guest.configure("[cuda]\nunwatched=allow\n")
    with Agent(guest) as agent, agent.host() as host:
        done = released(guest, host)
        assert {p["pid"]: p["state"] for p in done["programs"]["list"]} == {
            worker.pid: "running", other.pid: "running"}
        worker.call(IMPORT)
        refused(host, worker, "another process")


def test_without_an_agent(guest):
    worker, other = guest.start(), guest.start()
    done = subprocess.run([program(), "try", "--sysroot", guest.root], capture_output=True, text=True)
    assert done.returncode == 1 and "no running agent watches" in done.stdout, done
    assert worker.end()[:2] == (0, 0)
    done = subprocess.run([program(), "try", "--sysroot", guest.root], capture_output=True, text=True)
    assert done.returncode == 0 and other.end()[:2] == (0, 1)


def test_library_is_replaced(guest, tracing, agent, host):
    """By an upgrade of the driver: programs that start then have another file."""
    old = guest.start()
    before = len(probes(tracing, agent))
    guest.install()
    wait_for(lambda: len(probes(tracing, agent)) == 2 * before)
    watches(agent, 2)
    new = guest.start()
    assert released(guest, host)
    new.call(IMPORT)
    assert refused(host, new, "another process") == {old.pid: "yes", new.pid: "no"}


def test_two_containers(guest, tracing, agent, host):
    """Each with a libcuda of its own, in a mount namespace of its own. The first program of each maps it
    before there can be probes. When they have ended nothing keeps the mount busy."""
    before = len(probes(tracing, agent))
    lib = guest.path("cuda/lib")
    inside = []
    for name in ("one", "two"):
        # A copy under the same path, which only these programs see.
        script = guest.path(f"{name}.sh")
        guest.write(f"{name}.sh", f"#!/bin/sh\nmount -t tmpfs none {lib}\ncp {guest.path('copy')}/* {lib}\n"
                                  "exec \"$@\"\n")
        os.chmod(script, 0o755)
    guest.install("copy")
    for name in ("one", "two"):
        first = guest.start(wrap=["unshare", "--mount", guest.path(f"{name}.sh")])
        inside.append(first)
    wait_for(lambda: len(probes(tracing, agent)) == 3 * before)
    watches(agent, 3)
    later = guest.start(wrap=["nsenter", f"--mount=/proc/{inside[0].pid}/ns/mnt"])
    later.call(IMPORT)
    done = at_deadline(lambda ms: prepare(host, deadline_ms=ms), lambda done: done.get("code") == "unreleasable")
    assert done["code"] == "unreleasable", done
    assert {p["pid"]: p["movable"] for p in done["programs"]["list"]} == {inside[0].pid: "unknown", inside[1].pid: "unknown", later.pid: "no"}
    for worker in (*inside, later):
        worker.process.kill()
        worker.process.wait()
    wait_for(lambda: len(probes(tracing, agent)) == before)


@pytest.mark.drawn("cuda-many")
def test_many_that_come_and_go(guest, agent, host):
    """200 programs, of which some import, while others start and end."""
    workers = [guest.start(mib=1, step_ms=200) for _ in range(200)]
    bad = workers[7::50]
    for worker in bad:
        worker.call(IMPORT)
    short = [subprocess.Popen(["/bin/true"]) for _ in range(300)]
    done = prepare(host, deadline_ms=LONG_MS)
    assert done["code"] == "unreleasable", done
    named = {p["pid"] for p in done["programs"]["list"] if p["movable"] == "no"}
    assert named == {worker.pid for worker in bad}
    for process in short:
        process.wait()
    for worker in bad:
        worker.process.kill()
        worker.process.wait()
    released(guest, host)
    assert agent.process.poll() is None


@pytest.mark.parametrize("version,job,ok", [("580.159.04", True, False), ("590.44.01", True, False),
                                            ("610.10", True, True), ("610.10", False, False)])
def test_what_newer_drivers_can(guest, host, version, job, ok):
    """From 610 on, processes of one job may share memory, by the driver's word."""
    guest.write("sys/module/nvidia/version", version + "\n")
    env = {"CUDA_CHECKPOINT_JOB_FILE": "/dev/fd/9"} if job else {}
    workers = [guest.start(env=env), guest.start(env=env)]
    workers[0].call(IMPORT)
    if ok:
        released(guest, host)
        workers[0].call("cuMulticastCreate")
        refused(host, workers[0], "several GPUs write to concurrently")
    else:
        refused(host, workers[0], "launch-job" if version >= "610" else "memory of another process")


def test_file_that_is_no_library(guest, agent, host):
    """Whoever maps it is not watched, and nothing breaks."""
    os.makedirs(guest.path("odd"))
    path = guest.path("odd/libcuda.so.1")
    for content in (b"\x7fELF" + bytes(60), b"x" * 4096, open(guest.path("cuda/lib/libcuda.so.1"), "rb").read(2048)):
        with open(path, "wb") as file:
            file.write(content + bytes(4096))
        holder = subprocess.Popen(["/usr/bin/python3", "-c", f"""
import ctypes, mmap, sys, time
file = open({path!r}, "r+b")
held = mmap.mmap(file.fileno(), 4096, mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_EXEC)
print("ready", flush=True)
time.sleep(1000)
"""], stdout=subprocess.PIPE, text=True)
        assert holder.stdout.readline() == "ready\n"
        guest.show(holder.pid)
        host.ask("status")
        holder.kill()
        holder.wait()
        holder.stdout.close()
    worker, other = guest.start(), guest.start()
    assert agent.process.poll() is None
    released(guest, host)
    assert worker.runs() and other.runs()
    shutil.rmtree(guest.path("odd"))
