# SPDX-License-Identifier: Apache-2.0
"""The network of a host is gone while a VM moves: its packets are dropped without a word, or others find out
that it is not there, or only what is sent to it is lost. The move ends, or waits and says for whom; nobody
else waits; the VM runs on one host, and gets its GPU as soon as one host is enough to decide."""
import pytest
from labhost import lab
from movelab import defined_on, has_gpu, running_on
from patience import (BUSY, PHASES, PROMPT_S, check_end, check_place, cut_off, knows, metric, others_do_not_wait, reached,
                      short_program, within)
from settings import random_of
from unixhttp import wait_for

# One after the other: they share the directory of the lab.
pytestmark = [pytest.mark.xdist_group("lab"), pytest.mark.drawn("lab-hangs")]
GUEST = "nocturnal"
# The target keeps what it is not told to give up until its lease ends.
SLOW = "[actions]\nbandwidth=16\nlease=20s\n"
# A kind, and the words of `lab.sh network`: before the move, and at the moment.
HOW = {"drop": ("pin", "drop"), "off": (None, "drop"), "deaf": ("pin", "deaf")}
# The daemon ends within 5 s.
STOP_S = 5 + 5


@pytest.fixture
def way(movelab, way):
    movelab.nodes[way[0]].reload(SLOW)
    return way


def copied(node, move, share):
    """Waits until this share of the memory has been copied, or the migration is over."""
    def there():
        now = node.migration(move)
        progress = now["progress"]
        return now["state"] != "migrating" or (
            progress["total_bytes"] > 0 and progress["remaining_bytes"] <= (1 - share) * progress["total_bytes"])
    wait_for(there, pause=0.001)


def goes_home_in_the_dark(movelab, node, move, guest):
    """The source alone is enough: the VM has its GPU and goes on before the target is heard of again."""
    def at_home():
        now = node.migration(move)
        return now["ended_ns"] or any(s["verb"] == "revive" and s["ended_ns"] for s in now["steps"])
    wait_for(at_home, pause=0.1)
    now = node.migration(move)
    check_place(guest, {**now, "state": now["state"] if now["ended_ns"] else "rolled_back", "vm_on": "source"})
    # It waits for nothing that the target is asked for.
    for step in now["steps"]:
        if step["verb"] in ("reattach", "revive"):
            assert step["ended_ns"] - step["began_ns"] < (PROMPT_S + BUSY * short_program()) * 1e9, step
    others_do_not_wait(movelab)


def cut_in(movelab, way, guest, phase, whose, how):
    source, target = way
    host = source if whose == "source" else target
    before, at = HOW[how]
    node = movelab.nodes[source]
    if before:
        lab("network", host, before)
    move = node.move(guest, target)
    if phase != "pending":
        reached(node, move, phase)
    if phase == "migrating":
        copied(node, move, random_of(f"{phase}-{whose}-{how}").random())
    with cut_off(host, at):
        others_do_not_wait(movelab)

        # Whichever host is cut off, the source's vgpud sees the target's libvirt fall silent.
        def told():
            now = node.migration(move)
            return now["ended_ns"] or now["state"] == "rolling_back" or f"'{target}'" in (now["waits_for"] or "")
        wait_for(told, pause=0.1)
        others_do_not_wait(movelab)
        now = node.migration(move)
        if now["state"] == "rolling_back" or (now["ended_ns"] and now["vm_on"] == "source"):
            goes_home_in_the_dark(movelab, node, move, guest)
            if how == "off":
                # The rest needs the target, and is not waited for without end.
                node.ended(move)
        if "the VM is paused" in (node.migration(move)["waits_for"] or ""):
            # All had been sent: nobody on the source can know whether it runs on the target.
            assert phase == "migrating" and running_on(guest) in ([], [target])
        else:
            assert len(running_on(guest)) == 1
    end = node.ended(move)
    check_end(movelab, guest, end)
    assert defined_on(guest) == running_on(guest)


CASES = [(phase, whose, how) for phase in ["pending", *PHASES] for whose in ("source", "target") for how in HOW]


@pytest.mark.parametrize("phase, whose, how", CASES, ids=["-".join(case) for case in CASES])
def test_no_network_in(movelab, way, guest, phase, whose, how):
    cut_in(movelab, way, guest, phase, whose, how)


def test_it_never_runs_twice(movelab, way, guest):
    """The source does not hear that the migration has ended on the target, where the VM runs, and has it go on."""
    source, target = way
    node = movelab.nodes[source]
    move = node.move(guest, target)
    assert reached(node, move, "migrating")
    # Soon enough that the target is not lost before the end, and so late that its end is not heard.
    wait_for(lambda: 0 < node.migration(move)["progress"]["remaining_bytes"] < 24 << 20, pause=0.001)
    with cut_off(target, "mute"):
        wait_for(lambda: f"'{target}'" in (node.migration(move)["waits_for"] or ""), pause=0.1)
        assert "the VM stays paused because it may be running there" in node.migration(move)["waits_for"]
        assert running_on(guest) == [target]
    end = node.ended(move)
    assert end["state"] == "done", end
    check_end(movelab, guest, end)
    assert defined_on(guest) == [target]


def test_stop_without_network(movelab, way, guest):
    """While the target is told that the reservation is released, which it cannot hear."""
    source, target = way
    node = movelab.nodes[source]
    lab("network", target, "pin")
    move = node.move(guest, target)
    assert reached(node, move, "migrating")
    with cut_off(target, "drop"):
        wait_for(lambda: node.migration(move)["step"] == "release" or node.migration(move)["ended_ns"], pause=0.05)
        with within(STOP_S):
            node.daemon.stop()
        assert running_on(guest) == [source] and has_gpu(source, guest)
    movelab.start(source)
    check_end(movelab, guest, node.ended(move))


def test_a_dry_run_without_network(movelab, way, guest):
    """It is answered in time, names the host, and calls that were given up do not grow with the questions."""
    source, target = way
    node = movelab.nodes[source]
    lab("network", target, "pin")
    with cut_off(target, "drop"):
        for _ in range(4):
            status, _, answer = node.daemon.post("/v1/migrations", {"vm": guest, "to": target, "dry_run": True})
            assert status == 504 and target in answer["detail"], answer
            others_do_not_wait(movelab)
        assert metric(node, "vgpud_libvirt_calls_hanging") <= 2
    status, _, answer = node.daemon.post("/v1/migrations", {"vm": guest, "to": target, "dry_run": True})
    # Its next connection may come only after TCP has tried again.
    assert status in (200, 504), answer
    knows(movelab, source, guest)
    assert running_on(guest) == [source] and has_gpu(source, guest)
