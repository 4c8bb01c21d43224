# SPDX-License-Identifier: Apache-2.0
"""vgpud traced itself by LTTng-UST, with a session daemon of its own: what the events say is what
the log and the API say, and no session daemon, none that answers, or a tracer that cannot be loaded
disturbs vgpud. vgpud and the session daemon run as nobody, who has no session daemon yet."""
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time

import pytest
from settings import HANG_S, sample
from vgpud import LTTNG, VM_MAP, Daemon, pause, program, wait_for

NOBODY = 65534
AS_NOBODY = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", "--"]
PREFIX = AS_NOBODY if os.getuid() == 0 else []
PROVIDER = os.path.join(os.path.dirname(program()), "vgpud-lttng-ust.so")
EVENT = re.compile(r"^\[(\d+\.\d+)\].* vgpud:(\w+): \{.*?\}, \{(.*)\}$")
FIELD = re.compile(r'(\w+) = ("(?:[^"\\]|\\.)*"|[^ ,]+)')
TRACED = f"[trace]\nlttng=yes\nprovider={PROVIDER}\n"

# One after the other: all session daemons of a user tell programs of that user by one flag in
# /dev/shm whether there is one, and the first to end tells them that there is none.
pytestmark = [pytest.mark.skipif(not os.path.exists(PROVIDER), reason="built without lttng-ust"),
              pytest.mark.xdist_group("lttng")]


class Event:
    """Its fields are event["name"]."""

    def __init__(self, time_s, what, fields):
        self.time_ns = int(time_s.replace(".", ""))
        self.what = what
        self.fields = {key: self.value(text) for key, text in FIELD.findall(fields)}

    @staticmethod
    def value(text):
        if text.startswith('"'):
            return text[1:-1].replace('\\"', '"')
        return int(text) if re.fullmatch(r"-?\d+", text) else float(text)

    def __getitem__(self, key):
        return self.fields[key]


class Sessions:
    """A session daemon and what it recorded."""

    def __init__(self, home):
        self.home, self.trace = home, os.path.join(home, "trace")
        self.env = {**os.environ, "LTTNG_HOME": home}
        with open(os.path.join(home, "sessiond.log"), "wb") as log:
            self.process = subprocess.Popen([*PREFIX, "lttng-sessiond", "--no-kernel"],
                                            env=self.env, stdout=log, stderr=log,
                                            stdin=subprocess.DEVNULL)
        wait_for(lambda: self.lttng("list", check=False) == 0)

    def lttng(self, *args, check=True):
        done = subprocess.run([*PREFIX, "lttng", "--no-sessiond", *args], env=self.env, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=HANG_S)
        assert not check or done.returncode == 0, done.stdout
        return done.returncode

    def knows(self, daemon):
        """Has vgpud told it its tracepoints?"""
        done = subprocess.run([*PREFIX, "lttng", "--no-sessiond", "list", "--userspace"],
                              env=self.env, capture_output=True, text=True, timeout=HANG_S,
                              check=True)
        return f"PID: {daemon.process.pid} " in done.stdout and "vgpud:plan_made" in done.stdout

    def record(self):
        self.lttng("create", "test", f"--output={self.trace}")
        self.lttng("enable-event", "--userspace", "vgpud:*")
        self.lttng("start")

    def events(self):
        """Ends the recording."""
        self.lttng("stop")
        self.lttng("destroy")
        done = subprocess.run(["babeltrace2", "--clock-seconds", self.trace], capture_output=True,
                              text=True, check=True, timeout=HANG_S)
        assert not done.stderr, done.stderr
        lines = [EVENT.match(line) for line in done.stdout.splitlines()]
        assert all(lines), done.stdout
        return [Event(*line.groups()) for line in lines]

    def end(self, signum=signal.SIGTERM):
        self.process.send_signal(signum)
        self.process.wait(HANG_S)


@pytest.fixture
def home():
    """nobody may not look into pytest's directories. Short: it is in paths of sockets."""
    for tool in ("lttng-sessiond", "lttng", "babeltrace2", *PREFIX[:1]):
        if not shutil.which(tool):
            pytest.skip(f"{tool} is not installed")
    if PREFIX and subprocess.run([*PREFIX, "test", "-x", program(), "-a", "-r", PROVIDER],
                                 check=False).returncode != 0:
        pytest.skip(f"{program()} is in a directory that nobody may not look into")
    with tempfile.TemporaryDirectory(prefix="vgpud-trace-") as path:
        os.mkdir(os.path.join(path, "vgpud"))
        if PREFIX:
            os.chown(path, NOBODY, NOBODY)
            os.chown(os.path.join(path, "vgpud"), NOBODY, NOBODY)
        yield path


@pytest.fixture
def sessions(home):
    sessions = Sessions(home)
    yield sessions
    if sessions.process.poll() is None:
        sessions.process.send_signal(signal.SIGCONT)
        sessions.end()


def traced(home, *args, config=TRACED, patience_ms=-1, **more):
    """A vgpud that looks for a session daemon in home, and waits for so long until one that is there
    has told it what to record; -1: without end."""
    return Daemon(os.path.join(home, "vgpud"), *args, config=config, prefix=PREFIX,
                  env={"LTTNG_HOME": home, "LTTNG_UST_REGISTER_TIMEOUT": str(patience_ms)}, **more)


def only(events, what):
    return [event for event in events if event.what == what]


def maps(daemon):
    with open(f"/proc/{daemon.process.pid}/maps", encoding="utf-8") as file:
        return file.read()


def threads(daemon):
    names = []
    for task in os.listdir(f"/proc/{daemon.process.pid}/task"):
        with open(f"/proc/{daemon.process.pid}/task/{task}/comm", encoding="utf-8") as file:
            names.append(file.read().strip())
    return names


def windows(daemon):
    return daemon.get("/v1/host")["measurement"]["windows"]


def goes_on(daemon, more=2):
    before = windows(daemon)
    wait_for(lambda: windows(daemon) >= before + more)


def test_nothing_of_lttng_is_there_by_default(tmp_path):
    with Daemon(tmp_path) as daemon:
        # Not the library that makes sessions of the kernel, which is always there.
        assert not re.search("liblttng-ust|liburcu|vgpud-lttng-ust", maps(daemon))
        assert not [name for name in threads(daemon) if name.endswith("-ust")]
        assert daemon.part("trace:lttng")["state"] is None
        daemon.stop()


def check_windows(events, committed, source):
    assert [event["end_ns"] for event in events] == committed and len(events) == 7
    assert [event["begin_ns"] for event in events[1:]] == committed[:-1]
    assert {event["source"] for event in events} == {source}
    assert {(event["vms"], event["lost_events"], event["late_ns"]) for event in events} \
        == {(3, 0, -1)}
    assert all(event["cost_ns"] > 0 for event in events)


def check_scores(events, committed, vms):
    """The changes of a VM are a chain from nothing to what the API says."""
    assert {event["vm"] for event in events} == {vm["name"] for vm in vms}
    for vm in vms:
        was = "none"
        for event in [event for event in events if event["vm"] == vm["name"]]:
            assert event["from"] == was != event["to"]
            assert event["end_ns"] in committed
            assert 0 <= event["cpu_intensity"] <= 1 and event["gpu_intensity"] == 0
            was = event["to"]
        assert was == vm["class"]


def check_plans(events, plans):
    assert [event["id"] for event in events] == [plan["id"] for plan in plans]
    for event, plan in zip(events, plans):
        assert (event["rule"], event["verdict"]) == (plan["rule"], plan["verdict"])
        assert event["actions"] == len(plan["actions"]) == 0
        assert (event["lost_cpu_ns_per_s"], event["gpu_wait_ns_per_s"]) == (0, 0)
        assert event["reason"] == plan["why"][0]


def check_queue(events, name, limit):
    events = [event for event in events if event["name"] == name]
    lengths = [event["length"] for event in events]
    assert lengths and lengths == sorted(set(lengths)), lengths
    assert 1 <= lengths[0] and lengths[-1] <= limit, lengths
    assert {event["limit"] for event in events} == {limit}


def test_a_replay_is_told_as_the_log_and_the_api_tell_it(home, sessions):
    sessions.record()
    with traced(home, "--vm-map", VM_MAP, "--speed", "max", replay=LTTNG) as daemon:
        daemon.replayed()
        assert "vgpud-lttng-ust.so" in maps(daemon)
        part = daemon.part("trace:lttng")
        assert (part["state"], part["ready"], part["reason"]) == ("ok", True, None)
        vms = daemon.get("/v1/vms")["items"]
        source = daemon.get("/v1/host")["measurement"]["source"]
        plans = []
        for rule in ("complement", "paper-threshold"):
            status, _, plan = daemon.post("/v1/plans", {"dry_run": True, "rule": rule})
            assert status == 201
            plans.append(plan)
        # This one was made before.
        assert daemon.post("/v1/plans", {"dry_run": True})[0] == 200
        listed = daemon.get("/v1/plans")["items"]
        assert {plan["id"] for plan in plans} == {plan["id"] for plan in listed}
        daemon.stop()
        committed = daemon.committed()
    events = sessions.events()
    check_windows(only(events, "window_closed"), committed, source)
    check_scores(only(events, "score_changed"), committed, vms)
    check_plans(only(events, "plan_made"), plans)
    check_queue(only(events, "queue_high_water"), "windows", 2)
    check_queue(only(events, "queue_high_water"), "store", 300)
    assert not only(events, "events_lost")


def test_lost_events_are_told_with_their_window(home, sessions):
    """Perf says how many: 12 in the first window of one second, 30 in the third."""
    line = " CPU 0/KVM-142 [000] d..2. {:.6f}: sched_switch: prev_comm=CPU 0/KVM prev_pid={} " \
           "prev_prio=120 prev_state=R ==> next_comm=CPU 0/KVM next_pid={} next_prio=120\n"
    path = os.path.join(home, "lost.txt")
    with open(path, "w", encoding="utf-8") as file:
        for i in range(40):
            if i in (5, 25):
                file.write(f"CPU:0 [LOST {12 if i == 5 else 30} EVENTS]\n")
            file.write(line.format(1000 + i / 10, *((142, 152), (152, 142))[i % 2]))
    sessions.record()
    with traced(home, "--speed", "max", replay=path) as daemon:
        daemon.replayed()
        daemon.stop()
        committed = daemon.committed()
    events = sessions.events()
    lost = only(events, "events_lost")
    assert [(event["count"], committed.index(event["end_ns"])) for event in lost] \
        == [(12, 0), (30, 2)]
    closed = only(events, "window_closed")
    assert [event["lost_events"] for event in closed] == [12, 0, 30, 0]
    assert {event["source"] for event in lost} == {event["source"] for event in closed}


@pytest.mark.host
def test_how_late_a_window_was_agrees_with_the_clock_of_the_tracer(home, sessions):
    """A window that is held back for long enough is as late as the time of the event says."""
    held = "[daemon]\nwindow=200ms\n[fault]\nwindows=delay:0.5:300ms,seed:1\n"
    sessions.record()
    with traced(home, config=TRACED + held) as daemon:
        wait_for(lambda: windows(daemon) >= 20)
        daemon.stop()
    closed = only(sessions.events(), "window_closed")
    assert len(closed) >= 20
    for event in closed:
        assert event["source"] == "procfs"
        assert abs(event.time_ns - event["end_ns"] - event["late_ns"]) < 20_000_000, vars(event)
    late = [event["late_ns"] for event in closed]
    assert min(late) >= 0 and max(late) >= 200_000_000, late


# ---- what may be wrong ----

@pytest.mark.parametrize("case", sample("no tracer", ["not there", "no library", "no tracer", "other version"], 2))
def test_without_its_tracer_vgpud_says_so_and_goes_on(tmp_path, case):
    path = tmp_path / "tracer.so"
    source = {"no tracer": "int nothing;",
              "other version": 'struct { const char *v; } vg_tracer_of_vgpud = {"0.0.7"};'}
    if case == "no library":
        path.write_text("text")
    elif case in source:
        (tmp_path / "tracer.c").write_text(source[case])
        subprocess.run(["cc", "-shared", "-fPIC", "-o", path, tmp_path / "tracer.c"], check=True)
    says = {"not there": "cannot open shared object file: No such file",
            "no library": "file too short", "no tracer": "it has no vg_tracer_of_vgpud",
            "other version": "it belongs to vgpud 0.0.7, but this is"}[case]
    with Daemon(tmp_path, config=f"[daemon]\nwindow=100ms\n[trace]\nlttng=yes\nprovider={path}\n"
                ) as daemon:
        part = daemon.part("trace:lttng")
        assert (part["state"], part["ready"]) == ("failed", True)
        assert str(path) in part["reason"] and says in part["reason"]
        shown, = [part for part in daemon.get("/v1/host")["parts"] if part["name"] == "trace:lttng"]
        assert shown["state"] == "failed"
        wait_for(lambda: daemon.request("GET", "/readyz")[0] == 200)
        log = daemon.stop()
    warning, = [line for line in log.splitlines() if " warn trace: " in line]
    assert str(path) in warning and says in warning


@pytest.mark.host
def test_without_a_session_daemon_vgpud_does_not_wait(home):
    began = time.monotonic()
    with traced(home, patience_ms=3000) as daemon:
        took = time.monotonic() - began
        assert daemon.part("trace:lttng")["state"] == "ok"
        # lttng-ust waits 3 s for one that is there.
        assert took < 3, took
        goes_on(daemon)
        daemon.stop()


@pytest.mark.parametrize("signum", sample("session daemons", [signal.SIGTERM, signal.SIGKILL, signal.SIGSTOP], 1))
def test_a_session_daemon_that_ends_or_hangs_does_not_disturb(home, sessions, signum):
    sessions.record()
    with traced(home, config=TRACED + "[daemon]\nwindow=200ms\n") as daemon:
        goes_on(daemon)
        if signum == signal.SIGSTOP:
            sessions.process.send_signal(signum)
        else:
            sessions.end(signum)
        goes_on(daemon, 10)
        assert daemon.part("trace:lttng")["state"] == "ok"
        assert daemon.post("/v1/plans", {"dry_run": True})[0] in (200, 201)
        log = daemon.stop()
    assert log.rstrip().endswith("stopped"), log


@pytest.mark.host
def test_a_session_daemon_that_hangs_at_the_start_costs_three_seconds(home, sessions):
    pause(sessions.process.pid)
    began = time.monotonic()
    with traced(home, patience_ms=3000) as daemon:
        assert time.monotonic() - began >= 2.5
        goes_on(daemon)
        daemon.stop()


def test_a_session_daemon_may_come_later(home):
    with traced(home, config=TRACED + "[daemon]\nwindow=200ms\n") as daemon:
        goes_on(daemon)
        sessions = Sessions(home)
        try:
            sessions.record()
            # lttng-ust looks for one every five seconds.
            wait_for(lambda: sessions.knows(daemon))
            goes_on(daemon, 3)
            daemon.stop()
            assert len(only(sessions.events(), "window_closed")) >= 3
        finally:
            sessions.end()
