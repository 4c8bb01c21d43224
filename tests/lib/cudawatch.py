# SPDX-License-Identifier: Apache-2.0
"""A guest of made-up CUDA whose calls are watched by the kernel's own probes: fixtures, and what its host asks. A
file of tests imports them."""
import os
import re
import subprocess
import time

import pytest
from cudaguest import FIRST, CudaGuest, slot_path
from guestd import LONG_MS, at_deadline
from unixhttp import wait_for


@pytest.fixture(name="tracing")
def a_tracing(tmp_path):
    """tracefs, to see which probes there are."""
    path = tmp_path / "tracing"
    path.mkdir()
    if subprocess.run(["mount", "-t", "tracefs", "none", path], stderr=subprocess.DEVNULL).returncode:
        pytest.skip("tracefs cannot be mounted here (root, a kernel with uprobes)")
    if not (path / "uprobe_events").exists():
        subprocess.run(["umount", path], check=True)
        pytest.skip("this kernel has no uprobes")
    yield path
    remove_left(path / "uprobe_events")
    subprocess.run(["umount", path], check=True)


def define(events, line):
    """Defines a probe, or removes one. tracefs cannot seek to the end, as Python does to append."""
    fd = os.open(events, os.O_WRONLY | os.O_APPEND)
    try:
        os.write(fd, f"{line}\n".encode())
    finally:
        os.close(fd)


def remove_left(events):
    """Of agents that tests have killed: no other agent comes to this namespace of processes."""
    space = os.stat("/proc/self/ns/pid").st_ino
    for line in events.read_text().splitlines():
        found = re.match(rf"p:(vgpu_guestd_(\d+)_{space}/\S+)", line)
        if found and not os.path.exists(f"/proc/{found[2]}"):
            define(events, f"-:{found[1]}")


@pytest.fixture(name="guest")
def a_guest(tmp_path, tracing, monkeypatch):
    assert tracing
    with CudaGuest(tmp_path / "guest") as guest:
        for name, value in guest.environment().items():
            monkeypatch.setenv(name, value)
        guest.configure("")
        guest.plug()
        yield guest


@pytest.fixture(name="host")
def a_host(agent):
    with agent.host() as host:
        # A program's start is told in steps of 10 ms.
        watches(agent, 1)
        yield host


def watches(agent, copies):
    """So many copies of the library, also for programs that start now."""
    wait_for(lambda: agent.log().count("probes placed in libcuda") >= copies)
    time.sleep(0.03)


def prepare(host, progress=None, deadline_ms=LONG_MS):
    return host.ask("prepare", progress, deadline_ms=deadline_ms, devices=[{"path": slot_path(FIRST)}])


def released(guest, host):
    done = prepare(host)
    assert done["type"] == "prepared", done
    guest.bind_all()
    done = host.ask("resume", deadline_ms=LONG_MS, devices=[{"path": slot_path(FIRST)}])
    assert done["type"] == "resumed", done
    return done


def refused(host, worker, text):
    """Beforehand: nobody was stopped."""
    progress = []
    done = at_deadline(lambda ms: prepare(host, progress, ms), lambda done: text in done.get("message", ""))
    assert (done["code"], done["undone"]) == ("unreleasable", True), done
    assert f"process {worker.pid} " in done["message"] and text in done["message"], done
    assert not {"lock", "checkpoint"} & {p["step"] for p in progress}
    assert worker.runs()
    return {p["pid"]: p["movable"] for p in done["programs"]["list"]}
