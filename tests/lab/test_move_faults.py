# SPDX-License-Identifier: Apache-2.0
"""What goes wrong while a VM moves: each time it ends with the VM on exactly one host, its GPU attached
or its absence told, the first cause kept, and nothing reserved. Both libvirts are asked by the test."""
import json
import os
import threading

import pytest
from labhost import lab
from movelab import (has_gpu, hooks, kill_qemu, remove_guest, running_on, start_deaf_guest,
                     start_guest, tell)
from patience import knows
from settings import HANG_S, full
from unixhttp import wait_for

# One after the other: they share the directory of the lab.
pytestmark = pytest.mark.xdist_group("lab")
GUEST = "traveller"
SLOW = "[actions]\nbandwidth=8\n"
# Every write of the way forward: the move, and an intent and an outcome of each verb.
WRITES = range(1, 23)
PHASES = ["pending", "prechecking", "reserving", "quiescing", "detaching", "migrating", "attaching", "resuming",
          "verifying"]


def check_end(movelab, guest, host, gpu=True):
    assert running_on(guest) == [host]
    assert has_gpu(host, guest) == gpu
    for node in movelab.nodes.values():
        assert wait_for(lambda node=node: node.reservations() == [])
        assert node.daemon.get("/v1/migrations?active=true")["items"] == []


def verbs(move, undoes=False):
    return [s["verb"] for s in move["steps"] if s["verb"] != "look" and s["undoes"] == undoes]


# ---- vgpud is killed ----

def killed_after_a_write(movelab, way, guest, write):
    source, target = way
    node = movelab.nodes[source]
    node.daemon.stop()
    node.more = f"[fault]\nmove_writes={write}\n"
    movelab.start(source)
    knows(movelab, source, guest)
    node.more = ""
    try:
        node.move(guest, target)
    except OSError:
        pass  # it died before it could answer
    assert node.daemon.process.wait(HANG_S) != 0
    movelab.start(source)
    move = node.ended(node.daemon.get("/v1/migrations?limit=1")["items"][0])
    assert move["state"] in ("done", "rolled_back", "failed"), move
    assert (move["state"] == "done") == (move["cause"] is None), move
    # What had come far enough goes on, all else goes back.
    assert (move["state"] == "done") == any(s["verb"] == "migrate" and s["ok"] for s in move["steps"]) or (
        write in (12, 13)), move
    where = target if move["state"] == "done" else source
    check_end(movelab, guest, where)
    if "quiesce" in verbs(move):
        assert hooks(where, guest)[-1] == "resume"


# ---- somebody turns it back ----

def aborted(movelab, way, guest, phase):
    source, target = way
    node = movelab.nodes[source]
    node.reload(SLOW)
    move = node.move(guest, target)

    def reached():
        now = node.migration(move)
        return now["ended_ns"] or PHASES.index(phase) <= PHASES.index(now["state"])
    wait_for(reached, pause=0.001)
    status, _, answer = node.daemon.post(f"/v1/migrations/{move['id']}/abort", {})
    assert status in (202, 409), answer
    end = node.ended(move)
    if end["state"] == "aborted":
        assert status == 202 and end["cause"] == "it was aborted"
        check_end(movelab, guest, source)
    else:
        # libvirt, or the move, was faster.
        assert end["state"] == "done", end
        check_end(movelab, guest, target)
    assert "quiesce" not in verbs(end) or hooks(running_on(guest)[0], guest)[-1] == "resume"


def killed_while_it_migrates(movelab, way, guest, _):
    """The next vgpud waits for libvirt, and has the target keep its GPU until then."""
    source, target = way
    node, other = movelab.nodes[source], movelab.nodes[target]
    node.reload("[actions]\nbandwidth=1\n")
    move = node.move(guest, target)
    wait_for(lambda: node.migration(move)["progress"]["processed_bytes"] > 0, pause=0.05)
    [before] = other.reservations()
    node.daemon.kill()
    movelab.start(source)
    wait_for(lambda: other.reservations()[0]["expires_ns"] > before["expires_ns"], pause=0.05)
    status, _, answer = node.daemon.post(f"/v1/migrations/{move['id']}/abort", {})
    assert status == 202, answer
    end = node.ended(move)
    assert end["state"] == "aborted", end
    check_end(movelab, guest, source)


# ---- the guest ----

def a_gpu_that_is_in_use(movelab, way, guest, _):
    """Somebody in the guest has it open, and no hook ends him: a dry run names him, and so does the move, after
    which all is as it was."""
    source, target = way
    [_, _, pid] = tell(source, guest, "hold")
    [doubt] = [d for d in movelab.nodes[source].move(guest, target, 200, dry_run=True)["doubts"] if "in the guest" in d]
    assert f"process {pid} (sleep) has /" in doubt and "unless a hook" in doubt
    movelab.nodes[source].reload("[actions]\nguest_deadline=5s\n")
    move = movelab.nodes[source].ended(movelab.nodes[source].move(guest, target))
    tell(source, guest, "drop")
    assert move["state"] == "rolled_back", move
    assert "quiesce" in move["cause"] and "sleep" in move["cause"], move["cause"]
    assert doubt in move["doubts"]
    assert verbs(move, undoes=True) == ["release"]  # the guest has undone the rest
    check_end(movelab, guest, source)


def source_libvirtd_is_killed(movelab, way, guest, _):
    """While the guest is asked, which cannot be heard any more: it is not blamed."""
    source, target = way
    node = movelab.nodes[source]
    tell(source, guest, "slow prepare")
    move = node.move(guest, target)
    wait_for(lambda: (node.migration(move)["guest"]["doing"] or "").startswith("in the guest:"), pause=0.05)
    lab("daemon", source, "kill")
    lab("daemon", source, "start")
    tell(source, guest, "mend")
    end = node.ended(move)
    assert end["state"] == "rolled_back", end
    assert "quiesce" in end["cause"] and "lost" in end["cause"] and "agent has said" not in end["cause"], end["cause"]
    check_end(movelab, guest, source)


def a_guest_that_never_releases(movelab, *_):
    """Its kernel does not hear that a device is to be unplugged."""
    name = "deaf"
    node = movelab.nodes["h1"]
    try:
        start_deaf_guest("h1", name)
        knows(movelab, "h1", name)
        movelab.nodes["h2"].reload("[gpu standin]\nslots=2\n")
        node.reload("[gpu standin]\nslots=2\n[actions]\nunplug_deadline=8s\n")
        move = node.ended(node.move(name, "h2"))
        assert move["state"] == "rolled_back" and move["cause"].startswith("detach: "), move["cause"]
        check_end(movelab, name, "h1")
    finally:
        remove_guest(name)


def a_guest_whose_agent_is_silent(movelab, *_):
    """The move is refused before anything is touched; told so, it goes without the agent."""
    name = "plain"
    node = movelab.nodes["h1"]
    try:
        start_guest("h1", name)
        knows(movelab, "h1", name)
        movelab.nodes["h2"].reload("[gpu standin]\nslots=2\n")
        tell("h1", name, "mute")
        move = node.ended(node.move(name, "h2"))
        assert move["state"] == "failed" and "agent" in move["cause"] and verbs(move) == ["precheck"]
        check_end(movelab, name, "h1")
        move = node.ended(node.move(name, "h2", no_agent=True))
        assert move["state"] == "done", move
        assert "quiesce" not in verbs(move) and move["guest"]["doing"] is None
        check_end(movelab, name, "h2")
    finally:
        remove_guest(name)


# ---- the other host ----

def attach_is_refused(movelab, way, guest, _):
    """The VM arrives and gets no GPU: it goes back to the one it had."""
    source, target = way
    lab("exec", target, "mount", "-o", "remount,ro", "/dev/shm")
    try:
        move = movelab.nodes[source].ended(movelab.nodes[source].move(guest, target))
    finally:
        lab("exec", target, "mount", "-o", "remount,rw", "/dev/shm")
    assert move["state"] == "rolled_back" and move["cause"].startswith("attach: "), move
    assert verbs(move, undoes=True) == ["return", "reattach", "revive", "tidy", "release"]
    check_end(movelab, guest, source)
    assert hooks(source, guest)[-1] == "resume"


def target_qemu_is_killed(movelab, way, guest, _):
    source, target = way
    node = movelab.nodes[source]
    node.reload(SLOW)
    move = node.move(guest, target)
    wait_for(lambda: node.migration(move)["progress"]["processed_bytes"] > 0, pause=0.05)
    kill_qemu(target, guest)
    end = node.ended(move)
    assert end["state"] == "rolled_back" and end["cause"].startswith("migrate: "), end
    check_end(movelab, guest, source)


def target_vgpud_is_gone(movelab, way, guest, _):
    """It goes on without, as the lease is not over; what that vgpud has kept it keeps when it is there again."""
    source, target = way
    node, other = movelab.nodes[source], movelab.nodes[target]
    node.reload(SLOW + "lease=1h\n")
    move = node.move(guest, target)
    wait_for(lambda: node.migration(move)["state"] == "migrating", pause=0.01)
    other.daemon.kill()
    try:
        end = node.ended(move)
        assert end["state"] == "done", end
        assert running_on(guest) == [target] and has_gpu(target, guest)
        assert [s["ok"] for s in end["steps"] if s["verb"] == "release"] == [False] * 3
    finally:
        movelab.start(target)
    [kept] = other.reservations()
    assert kept["vm"] == guest
    assert other.daemon.request("DELETE", "/v1/reservations/" + kept["id"])[0] == 204
    check_end(movelab, guest, target)


FAULTS = ([(killed_after_a_write, write) for write in WRITES] + [(aborted, phase) for phase in PHASES[1:]] +
          [(fault, None) for fault in (a_gpu_that_is_in_use, source_libvirtd_is_killed,
                                       a_guest_that_never_releases,
                                       a_guest_whose_agent_is_silent, killed_while_it_migrates, attach_is_refused,
                                       target_qemu_is_killed, target_vgpud_is_gone)])


@pytest.mark.drawn("lab-faults")
@pytest.mark.parametrize("fault, which", FAULTS,
                         ids=lambda v: getattr(v, "__name__", str(v)))
def test_fault(movelab, way, guest, fault, which):
    fault(movelab, way, guest, which)


@pytest.mark.drawn("lab")
def test_abort_is_too_late(movelab, way, guest):
    source, target = way
    node = movelab.nodes[source]
    move = node.move(guest, target)
    assert node.ended(move)["state"] == "done"
    status, _, answer = node.daemon.post(f"/v1/migrations/{move['id']}/abort", {})
    assert status == 409 and "done" in answer["detail"]
    assert node.daemon.request("POST", "/v1/migrations/move-0/abort", "{}",
                               {"Content-Type": "application/json"})[0] == 404


@pytest.mark.drawn("lab")
def test_abort_while_vgpud_starts(movelab, way, guest):
    """From its first answer on, it knows that the move has ended."""
    source, target = way
    node = movelab.nodes[source]
    move = node.ended(node.move(guest, target))
    assert move["state"] == "done"
    node.daemon.kill()
    movelab.start(source, wait=False)

    def answered():
        try:
            return node.daemon.post(f"/v1/migrations/{move['id']}/abort", {})
        except OSError:
            return None
    status, _, answer = wait_for(answered)
    assert status == 409 and "done" in answer["detail"], answer
    wait_for(node.daemon.answers)
    check_end(movelab, guest, target)


# ---- two at once ----

@pytest.mark.drawn("lab")
def test_one_vm_is_moved_once(movelab, way, guest):
    source, target = way
    node = movelab.nodes[source]
    answers = []

    def ask():
        answers.append(node.daemon.post("/v1/migrations", {"vm": guest, "to": target}))
    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(status for status, _, _ in answers) == [201, 409, 409, 409], answers
    refused = next(answer for status, _, answer in answers if status == 409)
    assert "already being moved" in refused["detail"] or "under way" in refused["detail"]
    move = next(answer for status, _, answer in answers if status == 201)
    assert node.ended(move)["state"] == "done"
    check_end(movelab, guest, target)


@pytest.mark.drawn("lab")
def test_the_same_key_is_one_move_of_another_host(movelab, way, guest):
    """The target is asked, which has the source move the VM; its answer is lost, and it is started anew.
    Asked again, when it has the VM itself, it still says what came of that request."""
    source, target = way
    node = movelab.nodes[target]
    body = json.dumps({"vm": guest, "to": target, "forward": True})
    headers = {"Content-Type": "application/json", "Idempotency-Key": f"passed-on-{os.getpid()}"}
    first = node.daemon.request("POST", "/v1/migrations", body, headers)
    assert first[0] == 201 and first[1]["Location"].endswith(f"?peer={source}"), first
    move = json.loads(first[2])
    assert movelab.nodes[source].ended(move)["state"] == "done"
    assert move["asked_by"].startswith(f"uid:{os.getuid()} at {target}, says ")
    node.daemon.kill()
    movelab.start(target)
    knows(movelab, target, guest)
    again = node.daemon.request("POST", "/v1/migrations", body, headers)
    assert again[1]["Location"] == first[1]["Location"], again
    assert json.loads(again[2])["id"] == move["id"] and json.loads(again[2])["state"] == "done"
    check_end(movelab, guest, target)


@pytest.mark.drawn("lab")
def test_the_same_key_is_one_move(movelab, way, guest):
    source, target = way
    node = movelab.nodes[source]
    body = '{"vm": "%s", "to": "%s"}' % (guest, target)
    headers = {"Content-Type": "application/json", "Idempotency-Key": f"key-{os.getpid()}"}
    first = node.daemon.request("POST", "/v1/migrations", body, headers)
    again = node.daemon.request("POST", "/v1/migrations", body, headers)
    assert (first[0], again[0]) == (201, 200)
    assert first[1]["Location"] == again[1]["Location"]
    other = node.daemon.request("POST", "/v1/migrations", '{"vm": "%s", "to": "x"}' % guest, headers)
    assert other[0] == 409 and b"Idempotency-Key" in other[2]
    path = first[1]["Location"]
    wait_for(lambda: node.daemon.get(path)["ended_ns"])
    assert node.daemon.get(path)["state"] == "done"
    check_end(movelab, guest, target)


@pytest.mark.drawn("lab")
def test_two_vms_and_one_gpu(movelab, way, guest):
    """The second one fails in the words of the host that has no GPU left, and stays as it was. A proxy where programs
    are to go on meanwhile is the first one's, too."""
    source, target = way
    second, place = "second", "proxy:tcp:192.0.2.1:7000"
    try:
        start_guest(source, second)
        knows(movelab, source, second)
        node = movelab.nodes[source]
        node.reload("[gpu standin]\nslots=2\n")
        moves = [node.move(guest, target, gpu_during=place)]
        refused = node.move(second, target, 409, gpu_during=place)["detail"]
        assert place in refused and moves[0]["id"] in refused, refused
        moves.append(node.move(second, target))
        ends = [node.ended(move) for move in moves]
        states = sorted(end["state"] for end in ends)
        assert states == ["done", "failed"], [end["cause"] for end in ends]
        lost = next(end for end in ends if end["state"] == "failed")
        assert lost["cause"].startswith("reserve: ") and "standin" in lost["cause"], lost["cause"]
        assert running_on(lost["vm"]) == [source] and has_gpu(source, lost["vm"])
        won = next(end for end in ends if end["state"] == "done")
        check_end(movelab, won["vm"], target)
    finally:
        remove_guest(second)
        if not running_on(guest):
            start_guest("h1", guest)


# ---- what is refused, and who is asked ----

@pytest.mark.drawn("lab")
def test_refused(movelab, way, guest):
    """Nothing is touched, and the message says what to do."""
    source, target = way
    node = movelab.nodes[source]
    for vm, to, status, words in ((guest, "nowhere", 404, "[peer NAME]"), ("nobody", target, 404, "peers"),
                                  (guest, source, 409, "already")):
        assert words in node.move(vm, to, status)["detail"]
    other = movelab.nodes[target].move(guest, source, 409)
    assert source in other["detail"] and "https://" in other["detail"]
    node.reload("[actions]\nenabled=no\n")
    assert "[actions] enabled" in node.move(guest, target, 422)["detail"]
    node.reload("")
    movelab.nodes[target].reload("[actions]\nenabled=no\n")
    check = node.move(guest, target, 200, dry_run=True)
    assert any("actions are disabled" in p for p in check["problems"]), check
    assert [s["verb"] for s in check["steps"] if s["verb"] != "look"][:3] == ["precheck", "reserve", "quiesce"]
    end = node.ended(node.move(guest, target))
    assert end["state"] == "failed" and end["cause"].startswith("reserve: "), end
    check_end(movelab, guest, source)


@pytest.mark.drawn("lab")
def test_another_vgpud_is_asked(movelab, way, guest):
    """The target's vgpud has the source's do it, and follows it there; undone the same way."""
    source, target = way
    node, other = movelab.nodes[source], movelab.nodes[target]
    status, headers, move = other.daemon.post("/v1/migrations",
                                              {"vm": guest, "to": target, "forward": True})
    assert status == 201 and headers["Location"] == f"/v1/migrations/{move['id']}?peer={source}"
    end = wait_for(lambda: (m := other.daemon.get(headers["Location"]))["ended_ns"] and m)
    assert end["state"] == "done" and end["steps"] == node.migration(move)["steps"]
    check_end(movelab, guest, target)
    assert not end["predicted"]
    if full():  # seconds must pass before there is anything to tell
        wait_for(lambda: node.migration(move)["after"]["known"])
        move = movelab.nodes[target].ended(movelab.nodes[target].move(guest, source))
        assert move["state"] == "done" and move["before"]["known"] and move["before"]["seconds"] >= 5
