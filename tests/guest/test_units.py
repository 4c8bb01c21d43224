# SPDX-License-Identifier: Apache-2.0
"""Units of systemd that hold a GPU: systemctl is made up, and keeps their states in files; what they run are real
processes that have a node of the GPU open."""
import json
import os
import subprocess

import pytest
from cudaguest import FIRST, CudaGuest, slot_path
from guestd import LONG_MS, Agent, at_deadline, program
from unixhttp import wait_for

GPU = [{"path": slot_path(FIRST)}]
UNITS = ["exporter.service", "dcgm.service", "persistenced.service"]
KEPT = "run/vgpu-guestd-units.json"

# Units are files: what they do (active, inactive), and in NAME.with the lines of those that need them. A file
# NAME.VERB says what goes wrong.
SYSTEMCTL = """#!/bin/sh
cd {units} || exit 1
verb=$1
for name; do :; done
echo "$verb $name" >> calls
case $(cat "$name.$verb" 2> /dev/null) in
hang) exec sleep 100000 ;;
fail) echo "Job for $name failed because the control process exited with error code." >&2; exit 1 ;;
esac
case $verb in
show)
    [ "$*" = "show --property=ActiveState --property=RequiredBy --property=RequisiteOf --property=BoundBy \\
--property=ConsistsOf --property=PropagatesStopTo -- $name" ] || exit 64
    echo "RequiredBy="
    cat "$name.with" 2> /dev/null
    echo "ActiveState=$(cat "$name" 2> /dev/null || echo inactive)"
    ;;
stop)
    [ ! -e "$name.pid" ] || kill "$(cat "$name.pid")"
    echo inactive > "$name"
    ;;
start) echo active > "$name" ;;
*) exit 64 ;;
esac
"""


class SystemdGuest(CudaGuest):
    def __init__(self, directory):
        super().__init__(directory)
        for name in ("run/systemd/system", "bin", "units"):
            os.makedirs(self.path(name))
        self.write("bin/systemctl", SYSTEMCTL.format(units=self.path("units")))
        os.chmod(self.path("bin/systemctl"), 0o755)
        self.write("etc/vgpud/vgpu-guestd.conf", "[units]\nstop=" + " ".join(UNITS) + "\n")
        self.plug()

    def unit(self, name, state="active", needed_by=None):
        self.write(f"units/{name}", state + "\n")
        if needed_by:
            self.write(f"units/{name}.with", f"BoundBy={needed_by}\n")

    def runs(self, name, holder):
        self.show(holder.pid)
        self.write(f"units/{name}.pid", str(holder.pid))

    def goes_wrong(self, name, verb, how):
        self.write(f"units/{name}.{verb}", how)

    def states(self):
        return {name: self.read(f"units/{name}").strip() for name in UNITS}

    def calls(self):
        """Since they were asked for last, without looks."""
        calls = [line for line in self.read("units/calls").splitlines() if not line.startswith("show ")]
        self.write("units/calls", "")
        return calls

    def kept(self):
        text = self.read(KEPT)
        return json.loads(text) if text else None


@pytest.fixture(name="guest")
def a_guest(tmp_path, monkeypatch):
    with SystemdGuest(tmp_path / "guest") as guest:
        for name, value in guest.environment().items():
            monkeypatch.setenv(name, value)
        monkeypatch.setenv("PATH", guest.path("bin") + ":" + os.environ["PATH"])
        yield guest


def prepare(host, deadline_ms=LONG_MS, progress=None):
    return host.ask("prepare", progress, deadline_ms=deadline_ms, devices=GPU)


def resume(guest, host):
    guest.bind_all()
    return host.ask("resume", deadline_ms=LONG_MS, devices=GPU)


def told(answer):
    return [(unit["verb"], unit["name"], unit["done"]) for unit in answer["units"]]


def test_there_and_back(guest, host):
    """Those that are active, in order, before programs are released; and back."""
    worker = guest.start()
    guest.unit("exporter.service")
    guest.unit("dcgm.service", "inactive")
    guest.unit("persistenced.service")
    with guest.holder(guest.path("dev/nvidiactl")) as holder:
        guest.runs("persistenced.service", holder)
        progress = []
        done = prepare(host, progress=progress)
        assert done["type"] == "prepared", done
    stopped = ["exporter.service", "persistenced.service"]
    assert guest.calls() == [f"stop {name}" for name in stopped]
    assert told(done) == [("stop", name, True) for name in stopped]
    steps = [(step["step"], step.get("unit")) for step in progress]
    assert [unit for step, unit in steps if step == "unit"] == stopped
    assert steps.index(("unit", stopped[1])) < steps.index(("lock", None))
    assert guest.kept() == stopped
    done = resume(guest, host)
    assert done["type"] == "resumed", done
    assert guest.calls() == ["start persistenced.service", "start exporter.service"]
    assert told(done) == [("start", name, True) for name in reversed(stopped)]
    assert guest.states()["dcgm.service"] == "inactive" and guest.kept() is None
    assert worker.end()[:2] == (0, 1)


# What goes wrong with the second of three, and how it is said.
FAULTS = [
    ("stop", "fail", "unit-failed", "cannot stop dcgm.service: systemctl has exit status 1: Job for dcgm.service failed"),
    ("show", "fail", "unit-failed", "cannot determine whether dcgm.service is active: systemctl has exit status 1"),
    ("stop", "hang", "timeout", "the deadline passed at step 'stop of dcgm.service"),
]


@pytest.mark.parametrize("verb,how,code,text", FAULTS)
def test_it_does_not_stop(guest, host, verb, how, code, text):
    """The guest is as it was."""
    worker = guest.start()
    for name in UNITS:
        guest.unit(name)
    guest.goes_wrong("dcgm.service", verb, how)
    done = at_deadline(lambda ms: prepare(host, ms), lambda done: done["code"] == code and text in done["message"])
    assert (done["code"], done["undone"]) == (code, True), done
    assert text in done["message"]
    # The one that did not stop may be about to.
    begun = ["dcgm.service", "exporter.service"] if verb == "stop" else ["exporter.service"]
    assert [call for call in guest.calls() if call.startswith("start")][-len(begun):] == [f"start {name}" for name in begun]
    assert set(guest.states().values()) == {"active"} and guest.kept() is None
    assert worker.runs() and worker.end()[:2] == (0, 0)


def test_cancelled(guest, host):
    for name in UNITS:
        guest.unit(name)
    guest.goes_wrong("exporter.service", "stop", "hang")
    number = host.request("prepare", deadline_ms=LONG_MS, devices=GPU)
    host.until_step("unit")
    wait_for(lambda: "stop exporter.service" in guest.read("units/calls"))
    host.request("cancel")
    done = host.answer(number)
    assert (done["code"], done["undone"]) == ("cancelled", True), done
    assert guest.calls() == ["stop exporter.service", "start exporter.service"]


def test_it_does_not_start(guest, host):
    """The others do, it is said, and it can be tried again."""
    for name in UNITS:
        guest.unit(name)
    assert prepare(host)["type"] == "prepared"
    guest.goes_wrong("dcgm.service", "start", "fail")
    done = resume(guest, host)
    assert (done["code"], done["undone"]) == ("unit-failed", False), done
    assert "cannot start dcgm.service: systemctl has exit status 1: Job for dcgm.service failed" in done["message"]
    assert told(done)[-3:] == [("start", "persistenced.service", True), ("start", "dcgm.service", False),
                               ("start", "exporter.service", True)]
    assert guest.kept() == ["dcgm.service"]
    guest.goes_wrong("dcgm.service", "start", "")
    guest.calls()
    assert resume(guest, host)["type"] == "resumed"
    assert guest.calls() == ["start dcgm.service"]
    assert set(guest.states().values()) == {"active"} and guest.kept() is None


def test_one_hangs_and_the_others_start(guest, host):
    for name in UNITS:
        guest.unit(name)
    assert prepare(host)["type"] == "prepared"
    # The one that is started first.
    guest.goes_wrong("persistenced.service", "start", "hang")
    guest.bind_all()
    done = at_deadline(lambda ms: host.ask("resume", deadline_ms=ms, devices=GPU),
                       lambda _: guest.states()["exporter.service"] == "active", 2000)
    states = guest.states()
    assert done["code"] == "unit-failed", done
    assert "cannot start persistenced.service: systemctl had not finished after" in done["message"]
    assert states == {"exporter.service": "active", "dcgm.service": "active", "persistenced.service": "inactive"}
    assert guest.kept() == ["persistenced.service"]


def test_agent_ends_meanwhile(guest):
    """The next one knows what to start, also after another prepare."""
    guest.unit("exporter.service")
    guest.unit("persistenced.service")
    with Agent(guest) as agent, agent.host() as host:
        assert prepare(host)["type"] == "prepared"
    guest.unit("dcgm.service")
    with Agent(guest) as agent, agent.host() as host:
        assert guest.kept() == ["exporter.service", "persistenced.service"]
        guest.bind_all()
        assert prepare(host)["type"] == "prepared"
        assert guest.kept() == ["exporter.service", "persistenced.service", "dcgm.service"]
    with Agent(guest) as agent, agent.host() as host:
        assert resume(guest, host)["type"] == "resumed"
    assert set(guest.states().values()) == {"active"} and guest.kept() is None


def test_another_unit_would_be_stopped(guest, host):
    """Nothing is stopped that the owner has not named, nor left stopped."""
    guest.unit("persistenced.service", needed_by="jobs.service idle.service")
    guest.unit("jobs.service")
    done = prepare(host)
    assert (done["code"], done["undone"]) == ("unit-failed", True), done
    assert "cannot stop persistenced.service: this would also stop jobs.service, which needs it" in done["message"]
    assert guest.calls() == [] and guest.states()["persistenced.service"] == "active"
    # One that is stopped before, or does not run, is fine.
    guest.unit("persistenced.service", needed_by="exporter.service")
    guest.unit("exporter.service")
    assert prepare(host)["type"] == "prepared"
    assert guest.calls() == ["stop exporter.service", "stop persistenced.service"]


@pytest.mark.parametrize("how", ["no systemd", "no systemctl", "none named"])
def test_nobody_to_ask(guest, monkeypatch, how):
    guest.unit("dcgm.service")
    if how == "no systemd":
        os.rmdir(guest.path("run/systemd/system"))
    elif how == "no systemctl":
        # Not that of this machine either.
        monkeypatch.setenv("PATH", guest.path("run"))
    else:
        guest.write("etc/vgpud/vgpu-guestd.conf", "[units]\nstop=\n")
    with Agent(guest) as agent, agent.host() as host:
        done = prepare(host)
        if how == "no systemctl":
            assert (done["code"], done["undone"]) == ("unit-failed", True), done
            assert "cannot be run: No such file or directory" in done["message"]
        else:
            assert done["type"] == "prepared" and "units" not in done
    assert guest.calls() == []


def shown(guest, command):
    return subprocess.run([program(), command, "--sysroot", guest.root, "--hooks", guest.hooks],
                          capture_output=True, text=True)


def test_status(guest, host):
    """A process of such a unit is not in the way."""
    worker = guest.start()
    guest.unit("persistenced.service")
    with guest.holder(guest.path("dev/nvidiactl")) as holder:
        guest.show_as(holder.pid, cgroup="")

        def about(group):
            guest.write(f"proc/{holder.pid}/cgroup", f"0::/system.slice/{group}\n")
            units, _, cuda = host.ask("status")["providers"][1:4]
            assert units == {"name": "units", "stop": ["persistenced.service"]}
            return cuda["releasable"]

        assert about("persistenced.service") is True
        assert "stop      persistenced.service\n" in shown(guest, "status").stdout
        assert "can be released now" in shown(guest, "status").stdout
        assert about("another-persistenced.service") is False
        guest.goes_wrong("exporter.service", "show", "fail")
        assert "unknown   systemctl has exit status 1" in shown(guest, "status").stdout
    assert worker.runs() and guest.calls() == []


def test_try(guest):
    worker = guest.start()
    guest.unit("persistenced.service")
    with guest.holder(guest.path("dev/nvidiactl")) as holder:
        guest.runs("persistenced.service", holder)
        done = shown(guest, "try")
    assert done.returncode == 0 and "released: no process had a GPU" in done.stdout, done
    assert "stop persistenced.service: done" in done.stdout and "start persistenced.service: done" in done.stdout
    assert guest.states()["persistenced.service"] == "active" and guest.kept() is None
    assert worker.end()[:2] == (0, 1)


def test_mps_is_refused_with_its_reason(guest, host):
    worker = guest.start()
    with guest.holder(guest.path("dev/nvidiactl")) as server:
        guest.show_as(server.pid, comm="nvidia-cuda-mps\n")
        done = prepare(host)
        assert (done["code"], done["undone"]) == ("unreleasable", True), done
        assert f"process {server.pid} (nvidia-cuda-mps) has a GPU and cannot be released: it is the MPS server" \
            in done["message"]
    assert worker.runs()
