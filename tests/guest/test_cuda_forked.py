# SPDX-License-Identifier: Apache-2.0
"""Children that programs of CUDA forked have the GPU's files from them, and give them up before the GPU
leaves. The driver is made up (tests/guest/fake-cuda.c), the children are real."""
import os
import platform
import resource
import subprocess
import sys

import pytest
from cudaguest import FIRST, CudaGuest, slot_path
from guestd import LONG_MS, Agent, at_deadline, program
from unixhttp import wait_for

pytestmark = [
    pytest.mark.skipif(platform.machine() != "x86_64", reason="it is done on x86-64 only"),
    pytest.mark.skipif(os.geteuid() != 0, reason="only root may stop any process"),
]
GPU = [{"path": slot_path(FIRST)}]


@pytest.fixture(name="guest")
def a_guest(tmp_path, monkeypatch):
    with CudaGuest(tmp_path / "guest") as guest:
        for name, value in guest.environment().items():
            monkeypatch.setenv(name, value)
        guest.plug()
        yield guest


@pytest.fixture(name="host")
def a_host(guest):
    with Agent(guest) as agent, agent.host() as host:
        yield host


def prepare(host, deadline_ms=LONG_MS):
    return host.ask("prepare", deadline_ms=deadline_ms, devices=GPU)


def taken_back(guest, host):
    guest.bind_all()
    done = host.ask("resume", deadline_ms=LONG_MS, devices=GPU)
    return done["type"] == "resumed"


def forked(processes):
    """Each has the control node and the GPU's open, and the first of them mapped."""
    return {"processes": processes, "descriptors": 2 * processes, "maps": processes}


def all_run(workers):
    """Waits until all programs and their children have gone on."""
    before = [(worker, pid, worker.steps(pid)) for worker in workers
              for pid in [worker.pid, *worker.children]]
    for worker, pid, steps in before:
        wait_for(lambda worker=worker, pid=pid, steps=steps: worker.steps(pid) > steps)
    return True


@pytest.mark.smoke
def test_five_stops(guest, host):
    """Whom a program has had forked goes on from stop to stop, with its memory; so do those that come in
    between."""
    workers = [guest.start(child=True) for _ in range(2)]
    for turn in range(5):
        for worker in workers:
            assert worker.has_gpu(worker.fork())
        done = prepare(host)
        assert done["type"] == "prepared", done
        assert done["programs"]["total"] == 2
        assert done["programs"]["forked"] == forked(4 if turn == 0 else 2)
        children = [(worker, child) for worker in workers for child in worker.children]
        assert not any(worker.has_gpu(child) for worker, child in children)
        assert all(worker.runs(child) for worker, child in children)
        assert taken_back(guest, host) and all_run(workers)
    assert [worker.end()[:2] for worker in workers] == [(0, 5)] * 2


@pytest.mark.drawn("cuda-many")
def test_many(guest, host):
    """More than programs that can be released at once."""
    worker = guest.start(step_ms=200)
    for _ in range(300):
        worker.fork()
    done = prepare(host)
    assert done["type"] == "prepared", done
    assert (done["programs"]["total"], done["programs"]["forked"]) == (1, forked(300))
    assert not any(worker.has_gpu(child) for child in worker.children)
    assert taken_back(guest, host) and all_run([worker])
    assert worker.end()[:2] == (0, 1)


def test_children_that_come_meanwhile(guest, host):
    """After the first look, while a program is being stopped."""
    worker, other = guest.start(child=True), guest.start()
    guest.fault(f"lock {other.pid} wait")
    number = host.request("prepare", deadline_ms=LONG_MS, devices=GPU)
    host.until_step("lock")
    worker.fork()
    guest.fault()
    done = host.answer(number)
    assert done["type"] == "prepared", done
    assert done["programs"]["forked"] == forked(2)
    assert taken_back(guest, host) and all_run([worker, other])


def test_status(guest, host):
    """It says so beforehand, and changes nothing."""
    worker = guest.start(mib=64, child=True)
    [about] = [p for p in host.ask("status")["providers"] if p["name"] == "cuda"]
    assert about["releasable"] is True, about
    assert [p["pid"] for p in about["programs"]["list"]] == [worker.pid]
    assert about["programs"]["forked"] == forked(1)
    shown = subprocess.run([program(), "status", "--sysroot", guest.root], capture_output=True, text=True,
                           check=True).stdout
    assert "  forked    children that can release GPU files: 1 (2 descriptors, 1 mappings)\n" in shown
    assert worker.has_gpu(worker.children[0])


def test_by_hand(guest):
    worker = guest.start(child=True)
    done = subprocess.run([program(), "try", "--sysroot", guest.root], capture_output=True, text=True,
                          check=True)
    assert "forked children that released GPU files: 1 (2 descriptors, 1 mappings)\n" in done.stdout
    assert "released: no process had a GPU open or mapped" in done.stdout
    assert not worker.has_gpu(worker.children[0]) and all_run([worker])


# ---- who is in the way ----

def refused(host, worker, text):
    """By name, with all as it was."""
    done = at_deadline(lambda ms: prepare(host, ms), lambda done: text in done["message"], 500)
    assert (done["type"], done["code"], done["undone"]) == ("error", "unreleasable", True), done
    assert text in done["message"], done
    assert all_run([worker]) and all(worker.has_gpu(child) for child in worker.children)


def keeps(worker, why):
    [child] = worker.children
    return (f"process {child} (fake-cuda-worke) has a GPU and cannot be released: it inherited GPU "
            f"files from its ancestor {worker.pid} and cannot release them: {why}")


def test_by_configuration(guest):
    guest.configure("[cuda]\nunwatched=allow\nforked=refuse\n")
    worker = guest.start(child=True)
    with Agent(guest) as agent, agent.host() as host:
        refused(host, worker, keeps(worker, "forked=refuse is set in the configuration"))


TRACER = """
import ctypes, sys, time
ctypes.CDLL(None).ptrace(0x4206, int(sys.argv[1]), None, None)  # PTRACE_SEIZE
print("ready", flush=True)
time.sleep(100000)
"""


def test_debugger(guest, host):
    worker = guest.start(child=True)
    with subprocess.Popen([sys.executable, "-c", TRACER, str(worker.children[0])],
                          stdout=subprocess.PIPE, text=True) as tracer:
        assert tracer.stdout.readline() == "ready\n"
        refused(host, worker, keeps(worker, f"process {tracer.pid} traces it"))
        tracer.kill()
    assert prepare(host)["type"] == "prepared"


def test_own_file(guest, host):
    """Another program that has the GPU open itself is refused as ever, and nobody gives anything up."""
    worker = guest.start(child=True)
    with guest.holder(guest.path("dev/nvidiactl")) as other:
        guest.show(other.pid)
        refused(host, worker, "it uses the GPU without CUDA (for example, for OpenCL, graphics or monitoring)")


def test_it_fails_when_all_are_stopped(guest, host):
    """Then they go on."""
    worker = guest.start(child=True)
    [child] = worker.children
    assert worker.runs(child)
    limits = resource.prlimit(child, resource.RLIMIT_NOFILE)
    resource.prlimit(child, resource.RLIMIT_NOFILE, (2, limits[1]))
    refused(host, worker, f"process {child} (fake-cuda-worke) inherited GPU files from its ancestor "
                          f"{worker.pid} and cannot release them: it cannot open /dev/null: Too many open files")
    resource.prlimit(child, resource.RLIMIT_NOFILE, limits)
    assert prepare(host)["type"] == "prepared"
    assert taken_back(guest, host)
    assert worker.end()[:2] == (0, 1)
