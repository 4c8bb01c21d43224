# SPDX-License-Identifier: Apache-2.0
"""The disk under vgpud's store fails and comes back: measuring goes on, the state is told, and
what waited is written without anybody's help."""
import contextlib
import itertools
import json
import os
import random
import re
import shutil
import sqlite3
import subprocess
import time

import pytest
import vgpuctl
from settings import HANG_S, seed
from vgpud import BusyVm, Daemon, Events, wait_for

pytestmark = pytest.mark.drawn("disk")
CONFIG = "[daemon]\nwindow=100ms\nlog_level=debug\n[api]\nwrites_per_min=100000\nclient_requests=1000000\n"


class Disk:
    """A small file system in a mount namespace that lives as long as this does."""

    def __init__(self, directory, size="32m"):
        self.path = str(directory)
        os.makedirs(self.path)
        self.holder = subprocess.Popen(
            ["unshare", "-m", "sh", "-c",
             'mount -t tmpfs -o mode=755,size="$1" tmpfs "$0" && echo mounted && exec cat',
             self.path, size],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        if self.holder.stdout.readline() != "mounted\n":
            why = self.holder.communicate()[1].strip()
            pytest.skip(f"mounting is not allowed: {why}")
        # The same files, seen from here.
        self.outside = f"/proc/{self.holder.pid}/root{self.path}"
        self.state = os.path.join(self.path, "state")
        self.enter = ["nsenter", "-t", str(self.holder.pid), "-m", "--"]

    def run(self, *command):
        done = subprocess.run([*self.enter, *command], capture_output=True, text=True)
        assert done.returncode == 0, (command, done.stderr)

    def fill(self):
        """Every byte of it."""
        with open(os.path.join(self.outside, "filler"), "wb", buffering=0) as file:
            with contextlib.suppress(OSError):
                while True:
                    file.write(bytes(4096))
        assert os.statvfs(self.outside).f_bavail == 0

    def copy(self, directory):
        """sqlite would follow the link that leads in there to a place out here."""
        shutil.copytree(os.path.join(self.outside, "state"), directory)
        return str(directory)

    def empty(self):
        os.remove(os.path.join(self.outside, "filler"))

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        self.holder.communicate()


@pytest.fixture
def disk(tmp_path):
    with contextlib.ExitStack() as stack:
        yield stack.enter_context(Disk(tmp_path / "disk"))


@pytest.fixture
def busy():
    with BusyVm() as vm:
        yield vm


def live(directory, disk=None, config=CONFIG, wait=True):
    if disk:
        return Daemon(directory, config=config, prefix=disk.enter, state=disk.state, wait=wait)
    return Daemon(directory, config=config, wait=wait)


def windows(daemon):
    return daemon.get("/v1/host")["measurement"]["windows"]


def go_on(daemon, n=5):
    """Waits for so many more windows."""
    before = windows(daemon)
    wait_for(lambda: windows(daemon) >= before + n)


def ready(daemon):
    return daemon.request("GET", "/readyz")[0] == 200


def samples(daemon, vm, since="-10min"):
    return daemon.get(f"/v1/vms/{vm.uuid}/samples?since={since}&step=raw")["items"]


def is_stored(daemon, vm):
    """Ready, and the VM has been stored."""
    wait_for(lambda: ready(daemon) and daemon.request("GET", f"/v1/vms/{vm.uuid}")[0] == 200 and
             len(daemon.committed()) >= 5)


def store_fails(daemon, *words):
    part = wait_for(lambda: (p := daemon.part("store"))["state"] == "failed" and p)
    for word in words:
        assert word in part["reason"], part
    assert not part["ready"] and daemon.request("GET", "/readyz")[0] == 503
    assert daemon.request("GET", "/healthz")[0] == 200


def store_state(events, state):
    event = events.next()[2]
    while event["state"] != state:
        event = events.next()[2]
    return event


def metric(daemon, name):
    text = daemon.request("GET", "/metrics")[2].decode()
    return float(re.search(rf"^{name} (\S+)$", text, re.M)[1])


def stored_windows(state, source="live"):
    """(begin, end) of each window in the files of windows."""
    rows = []
    for name in sorted(os.listdir(state)):
        if not (name.startswith("ts-") and name.endswith(".db")):
            continue
        db = sqlite3.connect(os.path.join(state, name))
        try:
            assert db.execute("PRAGMA integrity_check").fetchall() == [("ok",)], name
            rows += db.execute("SELECT begin_ns, end_ns FROM win JOIN source ON source.id = source "
                               "WHERE source.name = ? ORDER BY end_ns", (source,)).fetchall()
        finally:
            db.close()
    return rows


def today(state):
    return os.path.join(state, time.strftime("ts-%Y%m%d.db", time.gmtime()))


def check_whole(state, measured, seen):
    """All windows that were closed are stored, each once, and so are the samples that were
    answered while they were not."""
    rows = stored_windows(state)
    assert len(rows) == len({end for _, end in rows}) >= measured, (len(rows), measured)
    assert {(row["begin_ns"], row["end_ns"]) for row in seen} <= set(rows)


def trouble(daemon, busy, begin, end, *words):
    """Begins a trouble, looks what is made of it, ends it, and sees that nothing is missing."""
    is_stored(daemon, busy)
    events = Events(daemon, "?types=store")
    begin()
    store_fails(daemon, *words)
    told = store_state(events, "failing")
    assert any(word in told["reason"] for word in words)
    committed = len(daemon.committed())
    go_on(daemon)
    # Of the time of the trouble, too.
    newest = max(row["end_ns"] for row in samples(daemon, busy))
    wait_for(lambda: max(row["end_ns"] for row in samples(daemon, busy)) > newest)
    seen = samples(daemon, busy)
    assert len(daemon.committed()) - committed <= 1 and daemon.committed()[-1] < newest
    end()
    wait_for(lambda: ready(daemon))
    assert store_state(events, "ok")["reason"] is None
    events.close()
    assert "writing resumed" in daemon.log()
    wait_for(lambda: daemon.committed()[-1] >= max(row["end_ns"] for row in seen))
    assert metric(daemon, "vgpud_store_windows_dropped_total") == 0
    measured = windows(daemon)
    daemon.stop()
    return measured, seen


def test_a_full_disk(tmp_path, disk, busy):
    with live(tmp_path, disk) as daemon:
        told = trouble(daemon, busy, disk.fill, disk.empty, disk.state, ".db", "full")
        check_whole(disk.copy(tmp_path / "copy"), *told)


def test_the_journal_works_again_when_it_has_written(tmp_path, disk):
    """On a full disk its file can be opened each time, and each write fails."""
    with live(tmp_path, disk) as daemon:
        def write(n):
            return daemon.post("/v1/tokens", {"name": f"token-{n}", "role": "reader"})[0]

        assert write(0) == 201
        disk.fill()
        numbers = itertools.count(1)
        wait_for(lambda: write(next(numbers)) != 201)
        for _ in range(5):
            assert write(next(numbers)) != 201
        assert "the journal works again" not in daemon.log()
        assert 1 <= len(re.findall("journal: .* is full .*trying again", daemon.log())) <= 4
        assert "full" in daemon.part("journal")["reason"]
        disk.empty()
        # Also where nobody writes anything.
        wait_for(lambda: "the journal works again" in daemon.log())
        assert write(next(numbers)) == 201


def test_a_file_system_that_cannot_be_written_at_the_start(tmp_path, disk, busy):
    disk.run("mount", "-o", "remount,ro", disk.path)
    with live(tmp_path, disk) as daemon:
        store_fails(daemon, disk.state, "Read-only file system")
        events = Events(daemon, "?types=store")
        wait_for(lambda: daemon.request("GET", f"/v1/vms/{busy.uuid}")[0] == 200)
        go_on(daemon)
        seen = samples(daemon, busy)
        assert len(seen) >= 4
        assert not os.path.exists(os.path.join(disk.outside, "state"))
        disk.run("mount", "-o", "remount,rw", disk.path)
        wait_for(lambda: ready(daemon))
        assert store_state(events, "ok")["reason"] is None
        events.close()
        measured = windows(daemon)
        daemon.stop()
        check_whole(disk.copy(tmp_path / "copy"), measured, seen)


def test_a_file_system_that_cannot_be_written_any_more(tmp_path, disk, busy):
    """The kernel refuses to make one read-only that has files open for writing; a mount on top of
    it shows vgpud the same."""
    def begin():
        disk.run("mount", "-t", "tmpfs", "-o", "ro", "tmpfs", disk.state)

    def end():
        disk.run("umount", disk.state)

    with live(tmp_path, disk) as daemon:
        told = trouble(daemon, busy, begin, end, disk.state, "Read-only file system")
        check_whole(disk.copy(tmp_path / "copy"), *told)


class Lock:
    """Somebody else's transaction on a database."""

    def __init__(self, path):
        self.path = path

    def begin(self):
        self.db = sqlite3.connect(self.path, isolation_level=None, timeout=HANG_S)
        self.db.execute("BEGIN EXCLUSIVE")

    def end(self):
        self.db.execute("ROLLBACK")
        self.db.close()


def test_a_locked_file_of_windows(tmp_path, busy):
    with live(tmp_path) as daemon:
        is_stored(daemon, busy)
        path = today(daemon.state)
        lock = Lock(path)
        told = trouble(daemon, busy, lock.begin, lock.end, path, "locked", "another program")
        check_whole(daemon.state, *told)


def test_a_locked_journal_refuses_plans(tmp_path, busy):
    with live(tmp_path) as daemon:
        is_stored(daemon, busy)
        path = os.path.join(daemon.state, "state.db")
        lock = Lock(path)
        lock.begin()
        status, _, problem = daemon.post("/v1/plans", {"dry_run": True})
        assert status == 503 and "locked" in problem["detail"] and path in problem["detail"]
        # Windows have nothing to do with it.
        committed = len(daemon.committed())
        wait_for(lambda: len(daemon.committed()) >= committed + 5)
        lock.end()
        plan = wait_for(lambda: (a := daemon.post("/v1/plans", {"dry_run": True}))[0] == 201 and
                        a[2])["id"]
        wait_for(lambda: ready(daemon))
        daemon.kill()
    db = sqlite3.connect(path)
    # What was refused is not there, either.
    assert db.execute("SELECT id FROM plan").fetchall() == [(plan,)]
    db.close()


def spoil(path, rng):
    with open(path, "r+b") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(0)
        file.write(rng.randbytes(size))


def aside(state, name):
    return sorted(f for f in os.listdir(state) if re.fullmatch(name + r"\.corrupt-\d+", f))


@pytest.mark.parametrize("name", ["ts", "ts1m", "ts1h"])
def test_a_file_that_was_spoilt_while_vgpud_was_away(tmp_path, busy, name):
    print(f"seed {seed()}")
    with live(tmp_path) as daemon:
        is_stored(daemon, busy)
        before = daemon.get(f"/v1/vms/{busy.uuid}/samples?since=-10min&step=raw")["items"]
        daemon.stop()
    file = {"ts": os.path.basename(today(daemon.state)),
            "ts1m": time.strftime("ts1m-%Y%m.db", time.gmtime()),
            "ts1h": time.strftime("ts1h-%Y.db", time.gmtime())}[name]
    spoil(os.path.join(daemon.state, file), random.Random(seed()))
    with live(tmp_path) as daemon:
        is_stored(daemon, busy)
        # The hour is summed when it is over, or at the end.
        if name != "ts1h":
            wait_for(lambda: aside(daemon.state, file))
        wait_for(lambda: ready(daemon))
        if name != "ts":
            ends = {row["end_ns"] for row in samples(daemon, busy)}
            assert {row["end_ns"] for row in before} <= ends
        log = daemon.stop()
        assert len(aside(daemon.state, file)) == 1
        assert "moved it aside" in log and file in log
        assert os.path.exists(os.path.join(daemon.state, file))
        # What can be summed again is: minutes have all windows that there are.
        rows = stored_windows(daemon.state)
        for kind in ("ts1m", "ts1h"):
            path, = [f for f in os.listdir(daemon.state)
                     if f.startswith(kind + "-") and f.endswith(".db")]
            db = sqlite3.connect(os.path.join(daemon.state, path))
            assert db.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
            total, = db.execute("SELECT sum(windows) FROM win").fetchone()
            db.close()
            if name != "ts":
                assert total == len(rows), (kind, total, len(rows))


def test_a_read_only_file_system_is_named(tmp_path, disk, busy):
    """Its files are there, and this user may write them: neither is said to be otherwise."""
    with live(tmp_path, disk) as daemon:
        is_stored(daemon, busy)
        daemon.stop()
    disk.run("mount", "-o", "remount,ro", disk.path)
    with live(tmp_path, disk) as daemon:
        status, _, body = daemon.request("GET", f"/v1/vms/{busy.uuid}/samples?since=-10min&step=raw")
        detail = json.loads(body)["detail"]
        assert status == 503 and "its file system is mounted read-only" in detail and disk.state in detail, body
        assert "No such file" not in detail and "may this user write" not in detail
        part = wait_for(lambda: (p := daemon.part("journal"))["state"] == "failed" and p)
        assert "read-only" in part["reason"].lower(), part
        daemon.stop()


def test_a_journal_that_was_spoilt_is_left_as_it_is(tmp_path, busy):
    with live(tmp_path) as daemon:
        is_stored(daemon, busy)
        daemon.stop()
    path = os.path.join(daemon.state, "state.db")
    spoil(path, random.Random(seed()))
    with open(path, "rb") as file:
        content = file.read()
    with live(tmp_path) as daemon:
        committed = len(daemon.committed())
        wait_for(lambda: len(daemon.committed()) >= committed + 2)
        status, _, problem = daemon.post("/v1/plans", {"dry_run": True})
        assert status == 503 and path in problem["detail"] and "damaged" in problem["detail"]
        part = daemon.part("journal")
        assert part["state"] == "failed" and path in part["reason"] and not part["ready"]
        # What is unknown is not shown as nothing, and nobody is asked to try again.
        status, headers, body = daemon.request("GET", "/v1/tokens")
        problem = json.loads(body)
        assert status == 503 and path in problem["detail"] and problem["code"] == "unusable", body
        assert "try again" not in problem["title"] and "Retry-After" not in headers
        done = subprocess.run([vgpuctl.program(), "token", "list", "--socket", daemon.socket], capture_output=True,
                              text=True, timeout=HANG_S, check=False)
        assert done.returncode == 1 and done.stdout == "" and "damaged" in done.stderr, done
        assert daemon.get("/v1/alerts")["items"] == []  # no alert is configured
        daemon.stop()
    with live(tmp_path, config=CONFIG + "[alert every]\nlost_cores=99\nfor=1h\n") as daemon:
        status, _, body = daemon.request("GET", "/v1/alerts")
        problem = json.loads(body)
        assert status == 503 and "earlier alerts" in problem["detail"] and path in problem["detail"], body
        daemon.stop()
    with live(tmp_path, config=CONFIG + "[alert every]\nlost_cores=99\nfor=1s\n") as daemon:
        wait_for(lambda: daemon.request("GET", "/v1/alerts")[0] == 200)
        assert daemon.get("/v1/alerts")["items"] == []
        daemon.stop()
    with open(path, "rb") as file:
        assert file.read() == content


def test_a_file_that_is_spoilt_while_vgpud_runs(tmp_path, busy):
    """sqlite may go on for a while with what it has in memory. vgpud measures and answers, does
    not crash, and at the latest the next start begins the file anew."""
    print(f"seed {seed()}")
    rng = random.Random(seed())
    with live(tmp_path) as daemon:
        is_stored(daemon, busy)
        path = today(daemon.state)
        for part in ("", "-wal"):
            spoil(path + part, rng)
        go_on(daemon, 10)
        try:
            newest = max(row["end_ns"] for row in samples(daemon, busy))
            wait_for(lambda: max(row["end_ns"] for row in samples(daemon, busy)) > newest)
        except AssertionError:
            print(daemon.tail())
            raise
        assert daemon.request("GET", "/healthz")[0] == 200
        daemon.stop()
    with live(tmp_path) as daemon:
        is_stored(daemon, busy)
        assert aside(daemon.state, os.path.basename(path))
        daemon.stop()
        assert stored_windows(daemon.state)


def test_a_directory_that_is_deleted(tmp_path, busy):
    with live(tmp_path) as daemon:
        is_stored(daemon, busy)
        shutil.rmtree(daemon.state)
        wait_for(lambda: os.path.exists(today(daemon.state)))
        committed = len(daemon.committed())
        wait_for(lambda: len(daemon.committed()) >= committed + 5)
        wait_for(lambda: ready(daemon))
        begin_ns = daemon.committed()[committed]
        assert samples(daemon, busy)
        assert daemon.get("/v1/plans")["items"] == []
        status, _, plan = daemon.post("/v1/plans", {"dry_run": True})
        assert status == 201
        assert [item["id"] for item in daemon.get("/v1/plans")["items"]] == [plan["id"]]
        daemon.stop()
        rows = stored_windows(daemon.state)
        assert {end for end in daemon.committed() if end >= begin_ns} <= {end for _, end in rows}
        assert os.path.exists(os.path.join(daemon.state, "lock"))


def test_a_directory_whose_parent_is_gone(tmp_path, busy):
    parent = tmp_path / "parent"
    parent.mkdir()
    with Daemon(tmp_path, config=CONFIG, state=str(parent / "state")) as daemon:
        def begin():
            os.rename(parent, tmp_path / "elsewhere")

        def end():
            os.rename(tmp_path / "elsewhere", parent)

        told = trouble(daemon, busy, begin, end, str(parent), "No such file")
        check_whole(daemon.state, *told)
