# SPDX-License-Identifier: Apache-2.0
"""Programs of CUDA let go of their GPUs and take them back: the driver is made up, its programs are
processes that have files open and mapped (tests/guest/fake-cuda.c)."""
import os
import signal
import subprocess

import pytest
from cudaguest import FIRST, OVERHEAD_MIB, SECOND, CudaGuest, slot_path
from guestd import LONG_MS, Agent, at_deadline, program
from settings import full, sample
from unixhttp import build_dir

ANOTHER = "0b" * 16


@pytest.fixture(name="guest")
def a_guest(tmp_path, monkeypatch):
    with CudaGuest(tmp_path / "guest") as guest:
        for name, value in guest.environment().items():
            monkeypatch.setenv(name, value)
        guest.plug()
        yield guest


def prepare(host, *addresses, deadline_ms=LONG_MS, progress=None):
    return host.ask("prepare", progress, deadline_ms=deadline_ms,
                    devices=[{"path": slot_path(a)} for a in addresses or [FIRST]])


def resume(host, *addresses, deadline_ms=LONG_MS, progress=None):
    return host.ask("resume", progress, deadline_ms=deadline_ms,
                    devices=[{"path": slot_path(a)} for a in addresses or [FIRST]])


def taken_back(guest, host, *addresses):
    guest.bind_all()
    return resume(host, *addresses)["type"] == "resumed"


def until(ask, code, text):
    return at_deadline(ask, lambda done: done.get("code") == code and text in done["message"], 800)


def states(answer):
    return {p["pid"]: p["state"] for p in answer["programs"]["list"]}


@pytest.mark.smoke
def test_there_and_back(guest, host):
    worker = guest.start(mib=64)
    progress = []
    done = prepare(host, progress=progress)
    assert done["type"] == "prepared", done
    [told] = done["programs"]["list"]
    assert (told["pid"], told["comm"], told["job"]) == (worker.pid, "fake-cuda-worke", worker.pid)
    assert (told["bytes"], told["state"]) == (64 << 20, "released")
    assert done["programs"]["bytes"] == 64 << 20 and done["ram_bytes"] > 0
    assert [(p["step"], p.get("pid")) for p in progress if not copies(p)] == [
        ("start", None), ("lock", worker.pid), ("checkpoint", worker.pid), ("holders", None),
        ("unbind", None), ("holders", None)]
    assert not worker.has_gpu() and guest.driver_of(FIRST) is None
    before = worker.steps()
    # Another GPU of that kind comes, elsewhere.
    guest.unplug()
    guest.plug(SECOND, ANOTHER, node=1)
    progress = []
    done = resume(host, SECOND, progress=progress)
    assert done["type"] == "resumed", done
    [told] = done["programs"]["list"]
    assert (told["pid"], told["state"]) == (worker.pid, "running")
    assert told["stop_ms"] >= max(told[f"{op}_ms"] for op in ("lock", "checkpoint", "restore", "unlock"))
    assert [p["step"] for p in progress if "pid" in p] == ["restore", "unlock"]
    assert before == worker.steps() or worker.runs()
    assert worker.runs() and worker.has_gpu()
    assert worker.end() == (0, 1, ANOTHER)
    assert not os.path.exists(guest.path("run/vgpu-guestd-cuda.json"))


def test_many_times(guest, host):
    turns = 10 if full() else 4
    workers = [guest.start() for _ in range(3)]
    places = [(FIRST, "0a" * 16, 0), (SECOND, ANOTHER, 1)]
    for turn in range(turns):
        (here, _, _), (there, uuid, node) = places[turn % 2], places[(turn + 1) % 2]
        done = prepare(host, here)
        assert done["type"] == "prepared", (turn, done)
        guest.unplug(here)
        guest.plug(there, uuid, node)
        assert resume(host, there)["type"] == "resumed"
        assert all(worker.runs() for worker in workers)
    assert [worker.end() for worker in workers] == [(0, turns, "0a" * 16)] * 3


# What goes wrong while it is released, and how it is said.
REFUSED = [
    ("state %d 3", "unreleasable", "without CUDA"),
    ("state %d 801", "unreleasable", "cannot release"),
    ("state %d hang", "unreleasable", "does not answer"),
    ("state %d crash", "unreleasable", "crashed"),
    ("lock %d 600", "cuda-failed", "did not finish"),
    ("lock %d 304", "cuda-failed", "error 304"),
    ("lock %d hang", "timeout", "had not answered"),
    ("lock %d crash", "cuda-failed", "crashed"),
    ("checkpoint %d 999", "cuda-failed", "error 999"),
    ("checkpoint %d 2", "cuda-failed", "CUDA_ERROR_OUT_OF_MEMORY (2)"),
    ("checkpoint %d hang", "timeout", "had not answered"),
    ("checkpoint %d crash", "cuda-failed", "crashed"),
    ("init 0 100", "unreleasable", "cuInit: error 100"),
    ("nvml 0 9", "cuda-failed", "error 9"),
    ("nvml 0 hang", "timeout", "deadline"),
]


@pytest.mark.parametrize("fault,code,text", sample("refused by CUDA", REFUSED, 6))
def test_it_stays_where_it_is(guest, host, fault, code, text):
    good, bad = guest.start(), guest.start()
    guest.fault(fault % bad.pid if "%" in fault else fault)
    done = until(lambda ms: prepare(host, deadline_ms=ms), code, text)
    assert (done["type"], done["code"], done["undone"]) == ("error", code, True), done
    assert text in done["message"] and ("%" not in fault or str(bad.pid) in done["message"])
    # Each is told of once, also where it was released and taken back.
    assert done.get("programs", {"total": 2})["total"] == 2
    guest.fault()
    assert good.runs() and bad.runs()
    assert guest.driver_of(FIRST) == "nvidia"
    # Then it can be done.
    done = prepare(host)
    assert done["type"] == "prepared", done
    assert taken_back(guest, host)
    assert good.end()[0] == 0 and bad.end()[0] == 0


def test_program_dies_while_it_is_released(guest, host):
    good, bad = guest.start(), guest.start()
    guest.fault(f"checkpoint {bad.pid} die")
    done = prepare(host)
    assert done["type"] == "prepared", done
    assert states(done) == {good.pid: "released", bad.pid: "gone"}
    assert taken_back(guest, host)
    assert good.end()[:2] == (0, 1)


def test_program_dies_before_it_is_back(guest, host):
    good, bad = guest.start(), guest.start()
    done = prepare(host)
    assert done["type"] == "prepared", done
    bad.process.kill()
    bad.process.wait()
    guest.bind_all()
    done = resume(host)
    assert done["type"] == "resumed", done
    assert states(done) == {good.pid: "running", bad.pid: "gone"}
    assert good.end()[:2] == (0, 1)


def test_program_is_killed_while_it_stands_still(guest, host):
    """It is told as ended, though the driver's call for it has failed and it takes its time to end."""
    good, bad = guest.start(), guest.start()
    guest.fault(f"unlock {bad.pid} die")
    done = prepare(host)
    assert done["type"] == "prepared", done
    guest.bind_all()
    done = resume(host)
    assert done["type"] == "resumed", done
    assert states(done) == {good.pid: "running", bad.pid: "gone"}
    assert good.end()[:2] == (0, 1)


@pytest.mark.parametrize("library,advice", [(None, "guest_deadline in [actions]"), ("libnccl.so.2", "end or pause all ranks")])
def test_kernel_that_does_not_end(guest, host, library, advice):
    """Longer than the deadline; the reason says what to do about it."""
    endless = guest.start(kernel_ms=100000)
    if library:
        endless.call("cuMemAlloc_v2", "to", 4096, by=library)
    other = guest.start()
    done = until(lambda ms: prepare(host, deadline_ms=ms), "cuda-failed", "did not finish")
    assert (done["code"], done["undone"]) == ("cuda-failed", True), done
    assert "did not finish" in done["message"] and advice in done["message"], done
    assert other.runs()


def copies(message):
    return message["type"] == "progress" and message["step"] in ("checkpoint", "restore") and "pid" not in message


def test_progress_of_copying(guest, host):
    """While the driver copies, the host learns each second that it still does."""
    worker = guest.start(mib=64)
    for kind, step in (("prepare", "checkpoint"), ("resume", "restore")):
        guest.fault(f"{step} {worker.pid} copied")
        number = host.request(kind, deadline_ms=LONG_MS, devices=[{"path": slot_path(FIRST)}])
        first, second = host.until(copies), host.until(copies)
        assert first["step"] == step and first["bytes"] == 64 << 20, first
        assert first["elapsed_ms"] < second["elapsed_ms"], (first, second)
        guest.fault()
        assert host.answer(number)["type"] in ("prepared", "resumed")
        guest.bind_all()
    assert worker.end()[:2] == (0, 1)


def test_cancelled(guest, host):
    worker = guest.start()
    guest.fault(f"checkpoint {worker.pid} slow")
    number = host.request("prepare", deadline_ms=LONG_MS, devices=[{"path": slot_path(FIRST)}])
    host.until_step("checkpoint")
    host.request("cancel")
    done = host.answer(number)
    assert (done["code"], done["undone"]) == ("cancelled", True), done
    assert worker.runs()
    # What was under way was waited for, and taken back.
    assert worker.end()[:2] == (0, 1)


# What goes wrong while it is taken back; can it be tried again?
NOT_BACK = [
    ("restore %d 999", "cuda-failed", "error 999", "released"),
    ("restore %d hang", "timeout", "had not answered", "released"),
    ("restore %d crash", "cuda-failed", "crashed", "released"),
    ("restore %d final", "cuda-failed", "OUT_OF_MEMORY", "failed"),
    # It goes on calling it checkpointed, and another try would fail whatever memory is free then.
    ("restore %d 2", "cuda-failed", "OUT_OF_MEMORY", "failed"),
    # It goes on calling it checkpointed, and never brings it back.
    ("restore %d lost", "cuda-failed", "error 1", "failed"),
    ("unlock %d 999", "cuda-failed", "error 999", "locked"),
    ("unlock %d crash", "cuda-failed", "crashed", "locked"),
    ("init 0 999", "cuda-failed", "cuInit", "unknown"),
]


@pytest.mark.parametrize("fault,code,text,state", sample("not back by CUDA", NOT_BACK, 4))
def test_it_does_not_come_back(guest, host, fault, code, text, state):
    good, bad = guest.start(), guest.start()
    done = prepare(host)
    assert done["type"] == "prepared", done
    guest.fault(fault % bad.pid if "%" in fault else fault)
    guest.bind_all()
    done = until(lambda ms: resume(host, deadline_ms=ms), code, text)
    assert (done["type"], done["code"], done["undone"]) == ("error", code, False), done
    assert text in done["message"]
    assert states(done)[bad.pid] == state
    # The other one goes on, unless the driver answers nobody.
    if "%" in fault:
        assert str(bad.pid) in done["message"] and good.runs()
    if state == "failed":
        assert f"{bad.pid} (fake-cuda-worke) is lost; run `vgpu-guestd end {bad.pid}` to end it" in done["message"]
    if "lost" not in fault:
        guest.fault()
    progress = []
    done = resume(host, progress=progress)
    assert done["type"] == "resumed", done
    if state == "failed":
        # Nothing helps, nothing is tried, and the guest is not kept from going on.
        assert "restore" not in {p["step"] for p in progress}
        assert states(done)[bad.pid] == "failed"
        [told] = [p for p in done["programs"]["list"] if p["pid"] == bad.pid]
        assert "it is lost" in told["why"]
        return
    assert good.runs() and bad.runs()
    assert good.end()[:2] == (0, 1) and bad.end()[:2] == (0, 1)


@pytest.mark.parametrize("gpu,code,text", [
    ({"name": "NVIDIA A100"}, "other-gpu", "NVIDIA A100 (compute capability 9.0)"),
    ({"capability": "8.0"}, "other-gpu", "(compute capability 8.0)"),
    ({"used_mib": 81500}, "no-memory", "59 MiB of free memory"),
])
def test_gpu_that_does_not_do(guest, host, gpu, code, text):
    """It is looked at before anything is tried on it; the old one still does."""
    worker = guest.start(mib=64)
    done = prepare(host)
    assert done["type"] == "prepared", done
    guest.unplug()
    guest.plug(SECOND, ANOTHER, node=1, **gpu)
    done = resume(host, SECOND)
    assert (done["code"], done["undone"]) == (code, False), done
    assert text in done["message"] and "stay released" in done["message"]
    assert states(done) == {worker.pid: "released"}
    guest.unplug(SECOND)
    guest.plug()
    assert taken_back(guest, host)
    assert worker.end() == (0, 1, "0a" * 16)


def test_gpu_comes_late_to_the_driver(guest, host):
    worker = guest.start()
    done = prepare(host)
    assert done["type"] == "prepared", done
    guest.gpus.clear()
    guest.tell_gpus()
    number = host.request("resume", deadline_ms=LONG_MS, devices=[{"path": slot_path(FIRST)}])
    host.until_step("driver")
    guest.remove_gpu()
    guest.plug()
    assert host.answer(number)["type"] == "resumed"
    assert worker.end()[:2] == (0, 1)


def test_memory_of_the_guest(guest, host):
    """Exactly what is needed does; a kibibyte less does not."""
    worker = guest.start(mib=100)
    need = (100 + OVERHEAD_MIB) * 1024

    def available(kib):
        guest.write("proc/meminfo", f"MemTotal: 9 kB\nMemFree: 4 kB\nMemAvailable: {kib} kB\n")

    available(need - 1)
    done = prepare(host)
    assert (done["code"], done["undone"]) == ("no-memory", True), done
    for text in ("580 MiB", "100 MiB", "480 MiB", "579 MiB are available"):
        assert text in done["message"]
    assert worker.runs()
    available(need)
    done = prepare(host)
    assert done["type"] == "prepared", done
    assert taken_back(guest, host)


def test_who_cannot_be_released_is_named(guest, host):
    worker = guest.start()
    with guest.holder(guest.path("dev/nvidiactl")) as other:
        guest.show(other.pid)
        done = until(lambda ms: prepare(host, deadline_ms=ms), "unreleasable", "OpenCL")
        assert (done["code"], done["undone"]) == ("unreleasable", True), done
        assert f"process {other.pid} (python3)" in done["message"]
        assert "OpenCL" in done["message"]
        first = done["programs"]["list"][0]
        assert first["pid"] == other.pid and "OpenCL" in first["why"]
        assert worker.runs()
        # It goes in time.
        number = host.request("prepare", deadline_ms=LONG_MS, devices=[{"path": slot_path(FIRST)}])
        assert host.until_step("unreleasable")["programs"]["total"] == 2
        other.end()
        assert host.answer(number)["type"] == "prepared"
    assert taken_back(guest, host)
    assert worker.end()[:2] == (0, 1)


def test_driver_is_old(guest, host):
    guest.start()
    os.unlink(guest.path("cuda/lib/libcuda.so.1"))
    os.symlink(os.path.join(build_dir(), "tests", "tools", "fake-nvml.so"),
               guest.path("cuda/lib/libcuda.so.1"))
    done = until(lambda ms: prepare(host, deadline_ms=ms), "unreleasable", "570")
    assert (done["code"], done["undone"]) == ("unreleasable", True), done
    assert "older than 570" in done["message"]


@pytest.mark.parametrize("version,issue", [("595.71.05", 53), ("610.57.04", 58)])
def test_driver_is_known_to_lose_programs(guest, host, version, issue):
    """Nobody is stopped, unless the guest's owner says so; status tells, too."""
    guest.write("sys/module/nvidia/version", version + "\n")
    source = f"https://github.com/NVIDIA/cuda-checkpoint/issues/{issue}"
    worker = guest.start()
    progress = []
    done = prepare(host, progress=progress)
    assert (done["code"], done["undone"]) == ("unreleasable", True), done
    assert f"with NVIDIA's driver {version}, " in done["message"] and source in done["message"]
    assert "lock" not in {p["step"] for p in progress}
    about = [p for p in host.ask("status")["providers"] if p["name"] == "cuda"][0]
    assert about["driver"]["version"] == version and source in about["why"]
    assert [f["action"] for f in about["driver"]["faults"] if f["source"] == source] == ["refuse"]
    shown = by_hand(guest, "status").stdout
    assert f"  driver    {version}\n" in shown and f"({source})" in shown
    guest.configure("[cuda]\nunwatched=allow\ndriver_faults=allow\n")
    assert by_hand(guest, "try").returncode == 0
    assert worker.end()[:2] == (0, 1)


@pytest.mark.parametrize("version,actions", [("580.159.04", ["note", "note"]), ("595.71.04", ["note"]), ("610.57", ["note"]),
                                             ("570.158.01", ["warn", "note", "note"]), ("565.57.01", []), ("6100.1", ["note"])])
def test_other_versions_are_not_refused(guest, host, version, actions):
    guest.write("sys/module/nvidia/version", version + "\n")
    worker = guest.start()
    about = [p for p in host.ask("status")["providers"] if p["name"] == "cuda"][0]
    assert about["releasable"] is True and [f["action"] for f in about["driver"]["faults"]] == actions
    assert worker.runs()


def test_no_cuda_in_the_guest(guest, host):
    """Then nobody uses it: who has the GPU is waited for as ever."""
    worker = guest.start()
    os.unlink(guest.path("cuda/lib/libcuda.so.1"))
    done = prepare(host, deadline_ms=500)
    assert done["code"] == "held" and done["holders"][0]["pid"] == worker.pid


def test_two_gpus_and_one_goes(guest, host):
    """A program of the one that stays is left alone; those of both keep the other one."""
    guest.plug(SECOND, ANOTHER, node=1)
    first, second = guest.start(), guest.start(uuid=ANOTHER)
    done = prepare(host, FIRST)
    assert done["type"] == "prepared", done
    assert states(done) == {first.pid: "released"}
    assert second.runs()
    guest.unplug()
    guest.plug("0000:03:00.0", "0c" * 16, node=2)
    assert resume(host, "0000:03:00.0")["type"] == "resumed"
    assert first.end() == (0, 1, "0c" * 16) and second.end() == (0, 0, ANOTHER)


def test_two_gpus_change_places(guest, host):
    guest.plug(SECOND, ANOTHER, node=1)
    first, second = guest.start(), guest.start(uuid=ANOTHER)
    assert prepare(host, FIRST, SECOND)["type"] == "prepared"
    assert taken_back(guest, host, SECOND, FIRST)
    assert first.end() == (0, 1, ANOTHER) and second.end() == (0, 1, "0a" * 16)


def test_hooks_come_first(guest, host):
    """What a hook stops is not released; a hook that fails leaves all running."""
    worker, other = guest.start(), guest.start()
    guest.hook("prepare", "1", f"kill -9 {worker.pid}; exit 1")
    done = prepare(host)
    assert done["code"] == "hook-failed" and "programs" not in done
    assert other.runs()
    guest.hook("prepare", "1")
    done = prepare(host)
    assert states(done) == {other.pid: "released"}
    assert taken_back(guest, host)


def test_later_failure_is_undone(guest, host):
    """The driver does not let go: who was released runs again."""
    guest.add_driver("stubborn", unbinds=False)
    guest.add_gpu(address="0000:09:00.0", bridge="0000:00:09.0", driver="stubborn", node=None)
    worker = guest.start()
    done = until(lambda ms: prepare(host, FIRST, "0000:09:00.0", deadline_ms=ms), "unbind-failed", "")
    assert (done["code"], done["undone"]) == ("unbind-failed", True), done
    assert states(done) == {worker.pid: "running"}
    assert worker.end()[:2] == (0, 1)


def test_agent_ends_meanwhile(guest):
    """The next one finds what was released."""
    worker = guest.start()
    with Agent(guest) as agent, agent.host() as host:
        done = prepare(host)
    assert done["type"] == "prepared", done
    guest.bind_all()
    with Agent(guest) as agent, agent.host() as host:
        assert host.greeting["state"] == "idle"
        done = resume(host)
        assert done["type"] == "resumed", done
        assert states(done) == {worker.pid: "running"}
    assert worker.end()[:2] == (0, 1)


@pytest.mark.drawn("cuda-many")
def test_many(guest, agent, host):
    """Of 200 processes the agent's memory knows little."""
    workers = [guest.start(mib=1, step_ms=200) for _ in range(200)]
    before = agent.memory_kib()
    done = prepare(host)
    assert done["type"] == "prepared", done
    assert done["programs"]["total"] == 200 and len(done["programs"]["list"]) == 32
    assert not any(worker.has_gpu() for worker in workers)
    done = resume(host)
    assert done["type"] == "resumed", done
    assert agent.memory_kib() < before + 4096
    assert all(worker.end()[:2] == (0, 1) for worker in workers)


def test_no_library_of_nvidia_is_linked():
    needed = subprocess.run(["readelf", "-d", program()], capture_output=True, text=True, check=True)
    libraries = [line for line in needed.stdout.splitlines() if "(NEEDED)" in line]
    assert libraries and not any("cuda" in line or "nvidia" in line for line in libraries)


def test_agent_is_killed_meanwhile(guest):
    """At any time: what it has stopped is known to the next one."""
    worker, other = guest.start(), guest.start()
    guest.fault(f"checkpoint {worker.pid} hang")
    with Agent(guest) as agent:
        with agent.host() as host:
            host.request("prepare", deadline_ms=LONG_MS, devices=[{"path": slot_path(FIRST)}])
            host.until_step("checkpoint")
        agent.process.kill()
        agent.process.wait()
    os.unlink(guest.path("agent.sock"))
    guest.fault()
    with Agent(guest) as agent, agent.host() as host:
        done = resume(host)
        assert done["type"] == "resumed", done
        assert states(done) == {worker.pid: "running", other.pid: "running"}
    assert worker.end()[0] == 0 and other.end()[0] == 0


def test_status(guest, host):
    worker = guest.start(mib=64)
    about = [p for p in host.ask("status")["providers"] if p["name"] == "cuda"][0]
    assert about["releasable"] is True
    assert [(p["pid"], p["bytes"]) for p in about["programs"]["list"]] == [(worker.pid, 64 << 20)]
    guest.fault(f"state {worker.pid} 3")
    about = [p for p in host.ask("status")["providers"] if p["name"] == "cuda"][0]
    assert about["releasable"] is False and "without CUDA" in about["why"]
    assert worker.runs()

    def shown():
        return subprocess.run([program(), "status", "--sysroot", guest.root, "--hooks", guest.hooks],
                              capture_output=True, text=True, check=True).stdout

    assert f"process   {worker.pid} (fake-cuda-worke), 64 MiB of GPU memory, cannot be released: " in shown()
    assert f"cannot be released now: {worker.pid} (fake-cuda-worke): it uses" in shown()
    guest.fault()
    assert "total     64 MiB of GPU memory, can be released now" in shown()


def by_hand(guest, *command):
    return subprocess.run([program(), *command, "--sysroot", guest.root], capture_output=True, text=True)


def test_try(guest):
    worker, other = guest.start(), guest.start()
    done = by_hand(guest, "try")
    assert done.returncode == 0, done
    assert "released: no process had a GPU open or mapped" in done.stdout
    for pid in (worker.pid, other.pid):
        assert f"{pid} fake-cuda-worke running " in done.stdout
    assert worker.end()[:2] == (0, 1)
    # Without anybody, and with somebody who is in the way.
    with guest.holder(guest.path("dev/nvidiactl")) as holder:
        guest.show(holder.pid)
        done = by_hand(guest, "try")
        assert done.returncode == 1 and f"{holder.pid} (python3)" in done.stdout
    assert other.end()[:2] == (0, 1)
    done = by_hand(guest, "try")
    assert done.returncode == 0 and "no CUDA" in done.stdout


def test_restore_by_hand(guest, host):
    worker = guest.start()
    done = prepare(host)
    assert done["type"] == "prepared", done
    guest.fault(f"restore {worker.pid} 999")
    guest.bind_all()
    assert resume(host)["code"] == "cuda-failed"
    done = by_hand(guest, "restore")
    assert done.returncode == 1 and "error 999" in done.stdout
    guest.fault()
    done = by_hand(guest, "restore")
    assert done.returncode == 0 and f"{worker.pid} fake-cuda-worke running " in done.stdout
    assert worker.runs()
    # The host finds what is.
    assert resume(host)["type"] == "resumed"
    assert worker.end()[:2] == (0, 1)
    assert "no CUDA" in by_hand(guest, "restore").stdout


def ends(guest, worker, word):
    done = by_hand(guest, "end", str(worker.pid))
    assert (done.returncode, done.stdout) == (0, f"{worker.pid} (fake-cuda-worke) {word} and was ended\n"), done
    assert worker.process.wait() == -signal.SIGKILL


def test_end_by_hand(guest, host):
    """A program has released its GPUs when it is killed: also one that was brought back before."""
    worker, other = guest.start(), guest.start()
    assert prepare(host)["type"] == "prepared"
    assert taken_back(guest, host)
    guest.fault(f"checkpoint {worker.pid} 999")
    done = by_hand(guest, "end", str(worker.pid))
    assert done.returncode == 1 and "cannot be released: error 999" in done.stdout
    assert f"kill -9 {worker.pid}" in done.stdout and worker.runs()
    guest.fault()
    ends(guest, worker, "released its GPUs")
    assert other.end()[:2] == (0, 1)


def test_end_by_hand_while_it_stands_still(guest, host):
    """One that is back and locked, one that is released, and one that is lost."""
    locked, released, lost = guest.start(), guest.start(), guest.start()
    assert prepare(host)["type"] == "prepared"
    ends(guest, released, "released its GPUs")
    guest.fault(f"unlock {locked.pid} 999", f"restore {lost.pid} final")
    guest.bind_all()
    assert states(resume(host))[locked.pid] == "locked"
    ends(guest, locked, "released its GPUs")
    ends(guest, lost, "was lost")
    done = resume(host)
    assert done["type"] == "resumed", done
    assert set(states(done).values()) == {"gone"}


def test_end_by_hand_what_cannot_be(guest):
    """Memory of the guest that is missing, a process without CUDA, none, and what is no pid."""
    worker = guest.start(mib=100)
    guest.write("proc/meminfo", f"MemTotal: 9 kB\nMemFree: 4 kB\nMemAvailable: {(100 + OVERHEAD_MIB) * 1024 - 1} kB\n")
    done = by_hand(guest, "end", str(worker.pid))
    assert done.returncode == 1 and "needs 580 MiB of the guest's memory" in done.stdout and worker.runs()
    with guest.holder(guest.path("dev/nvidiactl")) as other:
        guest.show(other.pid)
        done = by_hand(guest, "end", str(other.pid))
        assert done.returncode == 1 and "does not use CUDA" in done.stdout
        assert other.process.poll() is None
    assert "there is no process 999999" in by_hand(guest, "end", "999999").stdout
    for words in (["end"], ["end", "x"], ["end", "1"], ["end", "99999999999"], ["end", "2", "3"], ["status", "2"]):
        assert by_hand(guest, *words).returncode == 2
