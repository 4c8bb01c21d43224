# SPDX-License-Identifier: Apache-2.0
"""The guest reboots by itself while its VM moves: the move waits for its boot, and continues."""
import pytest
from labhost import lab
from movelab import console, define_guest, has_gpu, remove_guest, running_on, tell
from patience import knows
from unixhttp import wait_for

# One after the other: they share the directory of the lab.
pytestmark = [pytest.mark.xdist_group("lab"), pytest.mark.drawn("lab-many")]
GUEST = "rebooter"
CALM = ("<on_reboot>destroy", "<on_reboot>restart")


def boots(host, guest):
    return console(host, guest).count("GUEST-READY")


@pytest.fixture
def guest(movelab):
    define_guest("h1", GUEST, "", CALM)
    before = boots("h1", GUEST)
    lab("virsh", "h1", "-q", "start", GUEST)
    wait_for(lambda: boots("h1", GUEST) > before, pause=0.2)
    lab("gpu", "h1", "attach", GUEST)
    knows(movelab, "h1", GUEST)
    yield GUEST
    remove_guest(GUEST)
    for node in movelab.nodes.values():
        node.reload("")


def check_done(movelab, guest, move):
    node = movelab.nodes["h1"]
    end = node.ended(move)
    assert end["state"] == "done", end
    assert [s["ok"] for s in end["steps"] if s["verb"] == "resume"] == [True], end
    assert running_on(guest) == ["h2"] and has_gpu("h2", guest)
    for other in movelab.nodes.values():
        wait_for(lambda other=other: other.reservations() == [])


def test_while_it_releases_its_gpu(movelab, guest):
    """The order is lost with the guest's memory, and given again."""
    node = movelab.nodes["h1"]
    tell("h1", guest, "slow prepare")
    before = boots("h1", guest)
    move = node.move(guest, "h2")
    wait_for(lambda: (node.migration(move)["guest"]["doing"] or "").startswith("in the guest:"), pause=0.05)
    tell("h1", guest, "reboot")
    wait_for(lambda: "has rebooted" in (node.migration(move)["guest"]["doing"] or ""), pause=0.05)
    check_done(movelab, guest, move)
    assert boots("h1", guest) == before + 1


def test_before_it_takes_its_gpu_up(movelab, guest):
    """It boots on the target, and is asked only then."""
    node = movelab.nodes["h1"]
    node.reload("[actions]\nbandwidth=8\n")
    move = node.move(guest, "h2")
    wait_for(lambda: node.migration(move)["progress"]["processed_bytes"] > 0, pause=0.05)
    tell("h1", guest, "reboot")
    check_done(movelab, guest, move)
