# SPDX-License-Identifier: Apache-2.0
"""Moves above [actions] moves= wait for their turn: the real vgpud with libvirt's test driver, whose VMs a
stand-in for nova moves when the test says so."""
import contextlib
import http.client
import json
import os
import shutil
import signal
import sqlite3

import previous
import pytest
from fakecloud import FAILED, IN_ERROR, FakeCloud, Instance
from novalab import Source, Target
from settings import HANG_S
from vgpud import Daemon, wait_for

pytestmark = [pytest.mark.xdist_group("move_queue"),
              pytest.mark.skipif(not shutil.which("certtool"),
                                 reason="certtool (package gnutls-bin) is not installed")]
QUEUE_MAX = 100


def uuid_of(number):
    return f"7f1c0a52-3d6e-4b7a-9c55-{number:012x}"


@pytest.fixture(name="target", scope="module")
def target_fixture(tmp_path_factory):
    target = Target(tmp_path_factory.mktemp("target"))
    yield target
    target.daemon.stop()


class Queue(Source):
    """A host that makes one move at a time; nova ends none by itself."""

    def __init__(self, directory, target, n=4, actions="moves=1\n"):
        names = {f"vm-{i}": uuid_of(i) for i in range(n)}
        instances = [Instance(ident, "h1", "h1.example") for ident in names.values()]
        for instance in instances:
            instance.looks = None
        self.by_name = dict(zip(names, instances))
        super().__init__(directory, target, FakeCloud(*instances), actions=actions, node=names)

    def begin(self, name):
        """Has it moved, and waits until nova does it."""
        ident = self.move_of(name)
        wait_for(lambda: self.by_name[name].migration)
        return ident

    def move_of(self, name):
        status, _, move = self.ask(name)
        assert status == 201, move
        return move["id"]

    def let_go(self, name):
        self.by_name[name].looks = 1

    def close(self):
        self.cloud.close()
        if self.daemon.process.poll() is None:
            self.daemon.stop()

    def waiting(self):
        """The moves that wait, in the order of their turns."""
        items = self.daemon.get("/v1/migrations?active=true")["items"]
        return [item["vm"] for item in sorted((i for i in items if i["state"] == "pending" and i["waits_for"]),
                                              key=lambda i: int(i["waits_for"].split()[4]))]


@pytest.fixture(name="source")
def source_fixture(tmp_path, target):
    source = Queue(tmp_path, target)
    yield source
    source.close()


def nothing_was_asked(source, name):
    assert source.by_name[name].migrations == [] and source.by_name[name].host == "h1"


def test_moves_wait_for_their_turn(source):
    first = source.begin("vm-0")
    status, headers, second = source.daemon.post("/v1/migrations", {"vm": "vm-1", "to": "h2"})
    assert status == 201 and headers["Location"] == "/v1/migrations/" + second["id"]
    assert second["state"] == "pending" and second["steps"] == [] and second["waits_since_ns"] == second["made_ns"]
    assert second["waits_for"] == ("its turn, as number 1 of 1 in the queue: 1 move is running, the maximum that "
                                   "[actions] moves allows"), second
    third = source.move_of("vm-2")
    assert "as number 2 of 2 in the queue" in source.now(third)["waits_for"]
    assert "as number 1 of 2 in the queue" in source.now(second["id"])["waits_for"]
    assert source.waiting() == ["vm-1", "vm-2"]
    # It holds nothing, and nobody else takes it for one that is under way.
    assert source.daemon.get("/v1/reservations")["items"] == []
    approvals = {a["uuid"]: a for a in source.daemon.get("/v1/nova/approvals")["items"]}
    assert approvals[uuid_of(0)]["moving"] and not approvals[uuid_of(0)]["queued"]
    assert approvals[uuid_of(1)]["queued"] and not approvals[uuid_of(1)]["moving"]
    # The VM has its move.
    status, _, refused = source.ask("vm-1")
    assert status == 409 and second["id"] in refused["detail"], refused
    assert source.ask("vm-1", dry_run=True)[2]["problems"] == [
        f"'vm-1' is already waiting to be moved ({second['id']})"]
    assert source.ask("vm-3", dry_run=True)[2]["problems"] == []
    # People see that.
    assert "pending: waits for its turn, as number 1 of 2" in " ".join(source.ctl("migration", "list").split())
    shown = source.show(second["id"])
    assert "for its turn, as number 1 of 2 in the queue" in shown and "starts automatically" in shown, shown
    assert "waits for its turn, as number 3 of 3" in " ".join(source.ctl("migrate", "vm-3", "--to", "h2").split())
    source.let_go("vm-0")
    assert source.ended(first)["state"] == "done"
    wait_for(lambda: source.by_name["vm-1"].migration)
    assert source.now(second["id"])["waits_for"] is None and source.waiting() == ["vm-2", "vm-3"]
    for name in source.by_name:
        source.let_go(name)
    moved = source.ended(second["id"])
    assert moved["state"] == "done" and [s["verb"] for s in moved["steps"]] == ["look", "precheck", "migrate", "verify"]
    assert source.ended(third)["state"] == "done"
    wait_for(lambda: not source.daemon.get("/v1/migrations?active=true")["items"])
    assert all(instance.host == "compute-two" for instance in source.by_name.values())
    events = [e for e in source.daemon.get("/v1/events?since=-1h&types=migration")["items"] if e["id"] == second["id"]]
    told = [(e["state"], bool(e.get("waits_for"))) for e in sorted(events, key=lambda e: e["seq"])]
    assert told[0] == ("pending", True) and told[-1] == ("done", False), told


def test_one_is_taken_out(source):
    source.begin("vm-0")
    second, third = source.move_of("vm-1"), source.move_of("vm-2")
    said = source.ctl("migration", "abort", second)
    assert "it had not started" in said, said
    move = source.now(second)
    assert (move["state"], move["cause"], move["vm_on"], move["gpu"]) == (
        "aborted", "it was aborted", "source", "attached"), move
    assert move["ended_ns"] and move["waits_for"] is None and move["steps"] == []
    assert source.waiting() == ["vm-2"]
    assert "has ended: it is aborted" in source.ctl("migration", "abort", second, code=5)
    # Its VM can be moved again, behind the others.
    again = source.move_of("vm-1")
    assert source.waiting() == ["vm-2", "vm-1"]
    for name in source.by_name:
        source.let_go(name)
    assert source.ended(third)["state"] == source.ended(again)["state"] == "done"


def test_the_same_request_twice_is_one_move(source):
    source.begin("vm-0")
    headers = {"Idempotency-Key": "key-1", "Content-Type": "application/json"}
    answers = [source.daemon.request("POST", "/v1/migrations", json.dumps({"vm": "vm-1", "to": "h2"}), headers)
               for _ in range(2)]
    assert [status for status, _, _ in answers] == [201, 200]
    one, other = (json.loads(body) for _, _, body in answers)
    assert one["id"] == other["id"] and "number 1 of 1" in other["waits_for"]


def test_the_queue_survives_a_restart(source):
    first = source.begin("vm-0")
    waiting = [source.move_of(name) for name in ("vm-2", "vm-1", "vm-3")]
    source.daemon.kill()
    source.start()
    wait_for(lambda: source.waiting() == ["vm-2", "vm-1", "vm-3"])
    assert source.now(waiting[0])["vm_on"] == "source"
    source.ctl("migration", "abort", waiting[1])
    # The end of vgpud turns the one back that is under way: its place is not taken at that time.
    source.daemon.stop()
    for name in source.by_name:
        source.let_go(name)
    source.start()
    assert [source.ended(ident)["state"] for ident in (waiting[0], waiting[2])] == ["done"] * 2
    assert source.ended(first)["state"] in ("rolled_back", "done")
    nothing_was_asked(source, "vm-1")


# What the move that is under way has written when nova makes it: itself, then an intent and an outcome of look
# and precheck, and the intent of migrate.
WRITES_BEFORE = 6


@pytest.mark.parametrize("more", (1, 2))
def test_vgpud_is_killed_after_a_write(source, more):
    """After that of a move that is queued, and of one that is taken out."""
    source.daemon.stop()
    source.more = f"[fault]\nmove_writes={WRITES_BEFORE + more}\n"
    source.start()
    source.more = ""
    source.begin("vm-0")
    wait_for(lambda: source.daemon.get("/v1/migrations")["items"][0]["step"] == "migrate")
    with pytest.raises((OSError, http.client.HTTPException, ValueError)):
        second = source.move_of("vm-1")
        source.daemon.post(f"/v1/migrations/{second}/abort", {})
    assert source.daemon.process.wait(HANG_S) != 0
    source.start()
    wait_for(lambda: source.waiting() == (["vm-1"] if more == 1 else []))
    for name in source.by_name:
        source.let_go(name)
    wait_for(lambda: not source.daemon.get("/v1/migrations?active=true")["items"])
    states = {m["vm"]: m["state"] for m in source.daemon.get("/v1/migrations")["items"]}
    assert states == {"vm-0": "done", "vm-1": "done" if more == 1 else "aborted"}, states


def test_one_that_can_no_longer_begin_says_why(source, target):
    first, second = source.begin("vm-0"), source.move_of("vm-1")
    drain = "/v1/hosts/h2/drain"
    assert target.daemon.post(drain, {})[0] == 200
    try:
        source.let_go("vm-0")
        assert source.ended(first)["state"] == "done"
        move = source.ended(second)
    finally:
        assert target.daemon.request("DELETE", drain)[0] == 204
    assert (move["state"], move["vm_on"], move["gpu"]) == ("failed", "source", "attached"), move
    assert move["cause"].startswith("it could not start when its turn came: host 'h2' is in maintenance"), move
    assert "there is nothing to clean up" in source.show(second)
    nothing_was_asked(source, "vm-1")


def test_what_may_pass_is_tried_again(source, target):
    """vgpud is started while the other host is away, and does not know it yet."""
    source.begin("vm-0")
    second = source.move_of("vm-1")
    source.daemon.kill()
    target.daemon.stop()
    source.let_go("vm-0")
    source.daemon = Daemon(source.directory, config=source.config)
    wait_for(lambda: "it cannot start now, retrying" in (source.now(second)["waits_for"] or ""))
    target.start()
    wait_for(lambda: source.by_name["vm-1"].migration)
    source.let_go("vm-1")
    assert source.ended(second)["state"] == "done"


def test_a_journal_that_cannot_be_written(source):
    """A move of the queue keeps its place; one that is aborted meanwhile leaves the queue later."""
    first, second, third = source.begin("vm-0"), source.move_of("vm-1"), source.move_of("vm-2")
    path = os.path.join(source.daemon.state, "state.db")
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as journal:
        journal.execute("BEGIN IMMEDIATE")
        status, _, aborted = source.daemon.post(f"/v1/migrations/{second}/abort", {})
        assert status == 202 and aborted["abort_asked"] and aborted["state"] == "pending", aborted
        assert "it leaves the queue once the journal can record it" in source.now(second)["waits_for"]
        source.let_go("vm-0")
        journal.execute("ROLLBACK")
    assert source.ended(second)["state"] == "aborted"
    nothing_was_asked(source, "vm-1")
    assert source.ended(first)["state"] == "done"
    source.let_go("vm-2")
    assert source.ended(third)["state"] == "done"


def test_acting_is_turned_off(source):
    first, second = source.begin("vm-0"), source.move_of("vm-1")
    source.daemon.write_config(source.config.replace("enabled=yes", "enabled=no"))
    source.daemon.process.send_signal(signal.SIGHUP)
    wait_for(lambda: "configuration reloaded" in source.daemon.log())
    source.let_go("vm-0")
    assert source.ended(first)["state"] == "done"
    move = source.ended(second)
    assert move["state"] == "failed" and "actions are disabled" in move["cause"], move
    nothing_was_asked(source, "vm-1")


def test_more_moves_are_allowed(source):
    source.begin("vm-0")
    source.move_of("vm-1")
    source.daemon.write_config(source.config.replace("moves=1\n", "moves=2\n"))
    source.daemon.process.send_signal(signal.SIGHUP)
    wait_for(lambda: source.by_name["vm-1"].migration)
    source.move_of("vm-2")
    assert source.waiting() == ["vm-2"]


def test_one_that_has_failed_comes_first(source):
    failed = source.begin("vm-0")
    source.by_name["vm-0"].end = IN_ERROR
    source.let_go("vm-0")
    assert source.ended(failed)["state"] == "failed"
    before = source.now(failed)
    running, third = source.begin("vm-1"), source.move_of("vm-2")
    status, _, again = source.daemon.post(f"/v1/migrations/{failed}/retry", {})
    assert status == 202 and "as number 1 of 2" in again["waits_for"], again
    assert source.waiting() == ["vm-0", "vm-2"]
    source.daemon.kill()
    source.start()
    wait_for(lambda: source.waiting() == ["vm-0", "vm-2"])
    # Taken out, it is what it was.
    source.ctl("migration", "abort", failed)
    now = source.now(failed)
    assert {k: now[k] for k in ("state", "cause", "vm_on", "gpu", "steps")} == {
        k: before[k] for k in ("state", "cause", "vm_on", "gpu", "steps")}
    assert source.daemon.post(f"/v1/migrations/{failed}/retry", {})[0] == 202
    # Nova has it back by then.
    source.by_name["vm-0"].status = "ACTIVE"
    for name in source.by_name:
        source.let_go(name)
    assert source.ended(running)["state"] == source.ended(third)["state"] == "done"
    move = source.ended(failed)
    assert move["state"] in ("failed", "rolled_back") and move["vm_on"] == "source", move
    assert move["steps"][-1]["attempt"] == 2


@pytest.mark.drawn("long")
def test_the_queue_is_full(tmp_path, target):
    """Over 10 s: libvirt's test driver reads the definitions of all of these VMs for each of them."""
    source = Queue(tmp_path, target, QUEUE_MAX + 2)
    source.begin("vm-0")
    for n in range(1, QUEUE_MAX + 1):
        status, _, move = source.ask(f"vm-{n}")
        assert status == 201, (n, move)
    status, _, refused = source.ask(f"vm-{QUEUE_MAX + 1}")
    assert status == 409 and refused["detail"].startswith(
        f"{QUEUE_MAX} moves are queued, the maximum"), refused
    source.ctl("migration", "abort", move["id"])
    assert source.ask(f"vm-{QUEUE_MAX + 1}")[0] == 201
    assert source.waiting()[-2:] == [f"vm-{QUEUE_MAX - 1}", f"vm-{QUEUE_MAX + 1}"]
    source.close()


@pytest.mark.drawn("previous")
def test_the_previous_version_ends_what_is_queued(source):
    """It knows no queue: it takes each for a move that had just begun, and turns back."""
    first = source.begin("vm-0")
    waiting = [source.move_of(name) for name in ("vm-1", "vm-2")]
    source.daemon.kill()
    source.start(previous.program("vgpud"))
    for ident in waiting:
        move = source.ended(ident)
        assert (move["state"], move["vm_on"]) == ("failed", "source"), move
    source.by_name["vm-0"].end = FAILED
    source.let_go("vm-0")
    assert source.ended(first)["state"] == "rolled_back"
    source.daemon.stop()
    source.start()
    assert source.waiting() == []
    for name in ("vm-1", "vm-2"):
        nothing_was_asked(source, name)
        source.let_go(name)
        assert source.ended(source.move_of(name))["state"] == "done"
    assert json.loads(source.ctl("migration", "list", "-o", "json"))
