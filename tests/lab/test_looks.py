# SPDX-License-Identifier: Apache-2.0
"""Looking at a VM changes nothing: readers ask both hosts whether it can move, as fast as they can, while
it does."""
import json
import subprocess
import threading

import pytest
from labdaemon import prefix
from labhost import lab
from movelab import has_gpu, remove_guest, running_on, said_by_qemu, start_guest, tell
from settings import full
from unixhttp import wait_for

# One after the other: they share the directory of the lab.
pytestmark = pytest.mark.xdist_group("lab")
GUEST = "traveller"
OTHER = {"h1": "h2", "h2": "h1"}


class Reader(threading.Thread):
    """Asks one host without end: `vgpuctl vm show`, and a dry run."""

    def __init__(self, node, guest):
        super().__init__()
        self.node, self.guest = node, guest
        self.ending = threading.Event()
        self.looks, self.wrong = [], []

    def run(self):
        while not self.ending.is_set():
            try:
                self.look()
            except Exception as error:  # pylint: disable=broad-exception-caught
                self.wrong.append(repr(error))

    def look(self):
        status, _, answer = self.node.daemon.request("GET", f"/v1/vms/{self.guest}/movable")
        if status not in (200, 404):
            self.wrong.append(answer)
        status, _, answer = self.node.daemon.post(
            "/v1/migrations", {"vm": self.guest, "to": OTHER[self.node.host], "dry_run": True, "forward": True})
        # Where the VM is may change before the answer comes.
        if status not in (200, 404, 409):
            self.wrong.append(answer)
        self.looks.append(status)


def begun_twice(guest):
    """Whether a QEMU was requested a second measurement of its memory before the first had begun: a
    migration that comes later may never end then (actuators/virt-memory.c)."""
    return [host for host in OTHER if "change dirtyrate state failed" in said_by_qemu(host, guest)]


def end_readers(readers):
    for reader in readers:
        reader.ending.set()
    for reader in readers:
        if reader.ident:
            reader.join()


# Three minutes.
@pytest.mark.drawn("lab-many")
def test_looks_during_moves(movelab):
    """Four readers: every move is done at its first try of each step."""
    start_guest("h1", GUEST)
    readers = [Reader(node, GUEST) for node in movelab.nodes.values() for _ in range(2)]
    try:
        wait_for(lambda: movelab.nodes["h1"].daemon.request("GET", f"/v1/vms/{GUEST}")[0] == 200)
        for reader in readers:
            reader.start()
        for _ in range(20):
            [source] = running_on(GUEST)
            node, target = movelab.nodes[source], OTHER[source]
            wait_for(lambda node=node: node.daemon.request("GET", f"/v1/vms/{GUEST}")[0] == 200)
            move = node.ended(node.move(GUEST, target))
            assert move["state"] == "done", (move["cause"], move["steps"])
            assert all(step["ok"] for step in move["steps"]), move["steps"]
            assert running_on(GUEST) == [target] and has_gpu(target, GUEST)
            assert begun_twice(GUEST) == []
    finally:
        end_readers(readers)
        remove_guest(GUEST)
    assert not any(reader.wrong for reader in readers), [reader.wrong for reader in readers]
    assert all(reader.looks.count(200) > 0 for reader in readers)


@pytest.mark.drawn("lab")
def test_looks_during_a_long_resume(movelab):
    """The guest needs 10 s to take its GPU up, during which readers ask on both hosts."""
    start_guest("h1", GUEST)
    readers = [Reader(node, GUEST) for node in movelab.nodes.values()]
    node = movelab.nodes["h1"]
    try:
        wait_for(lambda: node.daemon.request("GET", f"/v1/vms/{GUEST}")[0] == 200)
        movelab.meet()
        tell("h1", GUEST, "slow resume")
        move = node.move(GUEST, "h2")
        wait_for(lambda: node.migration(move)["state"] == "resuming")
        for reader in readers:
            reader.start()
        end = node.ended(move)
    finally:
        end_readers(readers)
        remove_guest(GUEST)
    assert end["state"] == "done" and all(step["ok"] for step in end["steps"]), end
    assert all(len(reader.looks) >= 2 and not reader.wrong for reader in readers), [r.wrong for r in readers]


HOLD = """
import ctypes, sys, time
libvirt = ctypes.CDLL("libvirt.so.0")
for call in (libvirt.virConnectOpen, libvirt.virDomainLookupByName, libvirt.virStreamNew):
    call.restype = ctypes.c_void_p
host = ctypes.c_void_p(libvirt.virConnectOpen(b"qemu:///system"))
guest = ctypes.c_void_p(libvirt.virDomainLookupByName(host, sys.argv[1].encode()))
stream = ctypes.c_void_p(libvirt.virStreamNew(host, 0))
print(libvirt.virDomainOpenChannel(guest, b"org.vgpud.guest.0", stream, 0), flush=True)
time.sleep(3600)
"""


@pytest.mark.drawn("lab")
def test_a_look_beside_another_program(movelab):
    """It has the channel to the agent: the guest is not asked, which is no reason not to move it."""
    start_guest("h1", GUEST)
    node = movelab.nodes["h1"]

    def look():
        status, _, answer = node.daemon.post("/v1/migrations", {"vm": GUEST, "to": "h2", "dry_run": True})
        return answer if status == 200 else None
    try:
        movelab.meet()
        wait_for(lambda: (look() or {}).get("problems") == [], pause=0.5)
        with subprocess.Popen([*prefix("h1"), "/usr/bin/python3", "-c", HOLD, GUEST], stdout=subprocess.PIPE,
                              text=True) as holder:
            try:
                assert holder.stdout.readline() == "0\n"
                answer = look()
            finally:
                holder.kill()
        assert answer and answer["problems"] == [], answer
        assert any("another program is using the channel" in doubt for doubt in answer["doubts"]), answer
    finally:
        remove_guest(GUEST)


@pytest.mark.drawn("lab")
@pytest.mark.parametrize("at", ["h1", "h2"], ids=["itself", "passed on"])
def test_what_nobody_waits_for_is_not_begun(movelab, at):
    """libvirtd of the VM's host hangs; whoever asks for a move gives up, and then it goes on."""
    times = 50 if full() else 3
    start_guest("h1", GUEST)
    node, asked = movelab.nodes["h1"], movelab.nodes[at].daemon
    body = json.dumps({"vm": GUEST, "to": "h2", "forward": True})
    before, gave_up = node.daemon.log().count("the client has disconnected"), 0
    try:
        wait_for(lambda: node.daemon.request("GET", f"/v1/vms/{GUEST}")[0] == 200)
        movelab.meet()
        lab("daemon", "h1", "hang")
        try:
            for _ in range(times):
                try:
                    # Once it is known that the host hangs, no request waits for it any more.
                    assert asked.request("POST", "/v1/migrations", body, {"Content-Type": "application/json"},
                                         timeout=1)[0] == 504
                except TimeoutError:
                    gave_up += 1
            if at != "h1":
                wait_for(lambda: asked.log().count("vgpud no longer waits for its answer") >= gave_up)
            # Those who ask for something else are answered meanwhile.
            assert node.daemon.get("/v1/migrations")["items"] is not None
            assert node.reservations() == []
        finally:
            lab("daemon", "h1", "resume")
        assert gave_up >= 3
        wait_for(lambda: node.daemon.log().count("the client has disconnected") >= before + 3)
        # It goes on, and whoever asked before this one has come to his end.
        wait_for(lambda: node.daemon.post("/v1/migrations", {"vm": GUEST, "to": "h2", "dry_run": True})[0] == 200)
        assert all(m["vm"] != GUEST or m["ended_ns"] for m in node.daemon.get("/v1/migrations")["items"])
        assert running_on(GUEST) == ["h1"]
    finally:
        remove_guest(GUEST)
