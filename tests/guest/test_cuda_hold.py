# SPDX-License-Identifier: Apache-2.0
"""While a program of CUDA is released, threads of it that read what the driver has taken away are held
(tests/guest/test_hold.py has what is held and what not). The driver is made up (tests/guest/fake-cuda.c)."""
import os
import shutil
import signal
import subprocess

import pytest
from cudaguest import FIRST, CudaGuest, slot_path
from guestd import LONG_MS, Agent, is_alive, program
from settings import HANG_S, sample
from test_hold import debugging
from unixhttp import wait_for

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root may trace any process")
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


def start(guest, readers=2, takes="protect", **env):
    return guest.start(env={"VG_FAKE_CUDA_READERS": str(readers), "VG_FAKE_CUDA_TAKES": takes, **env})


def prepare(host):
    return host.ask("prepare", deadline_ms=LONG_MS, devices=GPU)


def resume(guest, host):
    guest.bind_all()
    return host.ask("resume", deadline_ms=LONG_MS, devices=GPU)


def told(answer, worker):
    [its] = [p for p in answer["programs"]["list"] if p["pid"] == worker.pid]
    return its


def tracer(guest, worker):
    """The process that holds its threads, and how many those are now."""
    words = guest.read(f"run/vgpu-guestd-hold/{worker.pid}").split()
    return (int(words[2]), int(words[4])) if words else (None, 0)


def held(guest, worker):
    return tracer(guest, worker)[1]


def traced(pid):
    with open(f"/proc/{pid}/status", encoding="utf-8") as file:
        [line] = [line for line in file if line.startswith("TracerPid:")]
    return int(line.split()[1])


@pytest.mark.smoke
@pytest.mark.parametrize("takes", sample("memory taken by CUDA", ["protect", "unmap", "bus"], 1))
def test_three_stops(guest, host, takes):
    worker, other = start(guest, takes=takes), guest.start()
    for _ in range(3):
        done = prepare(host)
        assert done["type"] == "prepared", done
        wait_for(lambda: held(guest, worker) == 2)
        done = resume(guest, host)
        assert done["type"] == "resumed", done
        assert told(done, worker)["held_threads"] == 2 and told(done, other)["held_threads"] == 0
        assert worker.runs() and other.runs()
    # Nothing that was read was wrong.
    assert worker.end()[:2] == (0, 3) and other.end()[:2] == (0, 3)


def test_by_configuration(guest):
    guest.configure("[cuda]\nunwatched=allow\nhold_faults=no\n")
    worker, other = start(guest), guest.start()
    with Agent(guest) as agent, agent.host() as host:
        assert traced(worker.pid) == 0
        prepare(host)
        assert worker.process.wait(HANG_S) == -signal.SIGSEGV
        done = resume(guest, host)
        assert done["type"] == "resumed", done
        assert "held_threads" not in told(done, other)
    assert other.end()[0] == 0


def test_not_released(guest, host):
    """What is undone ends the hold, too."""
    worker, other = start(guest), guest.start()
    guest.fault(f"checkpoint {other.pid} 999")
    done = prepare(host)
    assert (done["type"], done["undone"]) == ("error", True), done
    assert told(done, worker)["state"] == "running"
    wait_for(lambda: traced(worker.pid) == 0)
    assert worker.runs() and worker.end()[0] == 0 and other.end()[0] == 0


@pytest.mark.parametrize("call", ["checkpoint", "lock"])
def test_agent_is_killed(guest, call):
    """Threads wait on until the next agent has brought their program back."""
    worker, other = start(guest), start(guest)
    guest.fault(f"{call} {other.pid} wait")
    with Agent(guest) as agent:
        with agent.host() as host:
            host.request("prepare", deadline_ms=LONG_MS, devices=GPU)
            host.until(lambda message: message.get("step") == call and message.get("pid") == other.pid)
            if call == "checkpoint":
                wait_for(lambda: held(guest, worker) == 2)
        agent.process.kill()
        agent.process.wait()
    os.unlink(guest.path("agent.sock"))
    guest.fault()
    by = [tracer(guest, one)[0] for one in (worker, other)]
    assert [traced(one.pid) for one in (worker, other)] == by
    with Agent(guest) as agent, agent.host() as host:
        shown = subprocess.run([program(), "status", "--sysroot", guest.root], capture_output=True, text=True,
                               check=True).stdout
        assert (f"  held      {worker.pid} (fake-cuda-worke), threads: {2 if call == 'checkpoint' else 0}; "
                f"`vgpu-guestd restore` restores it, and `kill {by[0]}` releases the threads") in shown
        [about] = [p for p in host.ask("status")["providers"] if p["name"] == "cuda"]
        assert {(one["pid"], one["tracer"]) for one in about["held"]} == {(worker.pid, by[0]), (other.pid, by[1])}
        done = resume(guest, host)
        assert done["type"] == "resumed", done
        assert worker.runs() and other.runs()
        wait_for(lambda: not any(is_alive(pid) for pid in by))
        # What outlives an agent keeps nothing that the next one needs.
        assert "another agent has locked it" not in agent.log()
    assert worker.end()[0] == 0 and other.end()[0] == 0


def test_restored_by_hand(guest):
    """And what status names ends a hold, whatever comes of it."""
    worker, other = start(guest), start(guest)
    with Agent(guest) as agent, agent.host() as host:
        assert prepare(host)["type"] == "prepared"
        wait_for(lambda: held(guest, worker) == held(guest, other) == 2)
    guest.bind_all()
    os.kill(tracer(guest, other)[0], signal.SIGTERM)
    assert other.process.wait(HANG_S) == -signal.SIGSEGV
    done = subprocess.run([program(), "restore", "--sysroot", guest.root], capture_output=True, text=True, check=True)
    assert "threads that faulted and were held: 2" in done.stdout, done.stdout
    assert worker.runs() and worker.end()[:2] == (0, 1)


def test_never_back(guest, host):
    worker = start(guest, VG_FAKE_CUDA_KEEPS="1")
    assert prepare(host)["type"] == "prepared"
    wait_for(lambda: held(guest, worker) == 2)
    assert resume(guest, host)["type"] == "resumed"
    assert worker.process.wait(HANG_S) == -signal.SIGSEGV


def test_own_fault(guest, host):
    worker, other = start(guest), guest.start()
    assert prepare(host)["type"] == "prepared"
    wait_for(lambda: held(guest, worker) == 2)
    worker.process.stdin.write("null\n")
    worker.process.stdin.flush()
    assert worker.process.wait(HANG_S) == -signal.SIGSEGV
    done = resume(guest, host)
    assert done["type"] == "resumed" and told(done, worker)["state"] == "gone"
    assert other.end()[:2] == (0, 1)


def test_children(guest, host):
    """They give up what they have of the GPU, and go on, all the time."""
    worker = guest.start(child=True, env={"VG_FAKE_CUDA_READERS": "2", "VG_FAKE_CUDA_TAKES": "protect"})
    assert prepare(host)["programs"]["forked"]["processes"] == 1
    wait_for(lambda: held(guest, worker) == 2)
    child = worker.fork()
    assert traced(child) == 0 and all(worker.runs(pid) for pid in worker.children)
    done = resume(guest, host)
    assert done["type"] == "resumed", done
    assert worker.runs() and all(worker.runs(pid) for pid in worker.children)
    assert worker.end()[:2] == (0, 1)


@pytest.mark.parametrize("command", [["strace", "-f", "-p"], ["gdb", "-nx", "-q", "-p"]])
def test_traced(guest, host, command):
    if not shutil.which(command[0]):
        pytest.skip(f"there is no {command[0]}")
    worker, other = start(guest), guest.start()
    with debugging(command, worker.pid) as debugger:
        wait_for(lambda: traced(worker.pid) > 0)
        guest.show(debugger.pid)
        why = (f"process {worker.pid} (fake-cuda-worke) has a GPU and cannot be released: process {debugger.pid} "
               f"({command[0]}) traces it, so its threads could not be held if they fault during the release; "
               "end the tracing process first, or set hold_faults=no")
        done = prepare(host)
        assert (done["type"], done["code"], done["message"]) == ("error", "unreleasable", why), done
        assert other.runs()
    wait_for(lambda: traced(worker.pid) == 0)
    assert prepare(host)["type"] == "prepared"
    assert resume(guest, host)["type"] == "resumed"
    assert worker.end()[0] == 0 and other.end()[0] == 0


def test_nobody_may_trace(guest, host):
    """Then it is done without, and told."""
    guest.write("proc/sys/kernel/yama/ptrace_scope", "3\n")
    worker = guest.start()
    why = f"{guest.root}/proc/sys/kernel/yama/ptrace_scope is 3: no process may trace another process"
    [about] = [p for p in host.ask("status")["providers"] if p["name"] == "cuda"]
    assert about["releasable"] is True and about["programs"]["list"][0]["unheld"] == why
    shown = subprocess.run([program(), "status", "--sysroot", guest.root], capture_output=True, text=True,
                           check=True).stdout
    assert f"threads that fault cannot be held: {why}" in shown
    done = prepare(host)
    assert done["type"] == "prepared" and told(done, worker)["unheld"] == why, done
    assert traced(worker.pid) == 0
    assert resume(guest, host)["type"] == "resumed" and worker.end()[:2] == (0, 1)
