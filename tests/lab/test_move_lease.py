# SPDX-License-Identifier: Apache-2.0
"""What the target keeps for a VM on its way is lost meanwhile, and another VM has it, or nobody. A VM never
gets what is kept for another one."""
import subprocess

import pytest
from labdaemon import prefix
from movelab import PORT, address, defined_on, has_gpu, hooks, remove_guest, running_on, start_guest
from settings import HANG_S
from unixhttp import wait_for

# One after the other: they share the directory of the lab.
pytestmark = [pytest.mark.xdist_group("lab"), pytest.mark.drawn("lab-faults")]
GUEST = "tenant"
SLOW = "[actions]\nbandwidth=4\n"
STRANGER = {"move_id": "move-0123456789abcdef", "vm": "stranger", "uuid": "00000000-0000-4000-9000-00000000beef",
            "from": "h9", "lease_s": 600, "devices": [{"kind": "named", "type": "standin", "alias": "ua-gpu0"}]}


@pytest.fixture
def guest(movelab):
    start_guest("h1", GUEST)
    wait_for(lambda: movelab.nodes["h1"].daemon.request("GET", f"/v1/vms/{GUEST}")[0] == 200)
    movelab.meet()
    yield GUEST
    remove_guest(GUEST)
    movelab.nodes["h1"].reload("")
    for kept in movelab.nodes["h2"].reservations():
        forget(movelab.nodes["h2"], kept)


def begin(movelab, guest, lease):
    """The move of the guest, once its memory is being copied."""
    node = movelab.nodes["h1"]
    node.reload(SLOW + f"lease={lease}\n")
    move = node.move(guest, "h2")
    wait_for(lambda: node.migration(move)["progress"]["processed_bytes"] > 0, pause=0.02)
    return move


def forget(node, kept):
    """As the client that made it: this test, or the other host's vgpud."""
    path = "/v1/reservations/" + kept["id"]
    if node.daemon.request("DELETE", path)[0] != 204:
        token = (node.directory / "token").read_text().strip()
        subprocess.run([*prefix(node.host), "curl", "-sf", "-X", "DELETE", "--cacert", node.ca, "-H",
                        f"Authorization: Bearer {token}", f"https://{address(node.host)}:{PORT}{path}"],
                       check=True, timeout=HANG_S)


def lose(movelab, stranger):
    """As if its lease were over."""
    other = movelab.nodes["h2"]
    [kept] = other.reservations()
    forget(other, kept)
    if stranger:
        status, _, answer = other.daemon.post("/v1/reservations", STRANGER)
        assert status == 201, answer
    return kept


def check_home(movelab, guest, end):
    assert end["state"] == "rolled_back", end
    assert running_on(guest) == ["h1"] and defined_on(guest) == ["h1"] and has_gpu("h1", guest)
    assert hooks("h1", guest)[-1] == "resume"
    assert movelab.nodes["h1"].reservations() == []
    assert [kept["vm"] for kept in movelab.nodes["h2"].reservations()] == ["stranger"]


def test_reserved_again(movelab, guest):
    """A renewal finds out that nothing is kept, and has it kept again."""
    node, other = movelab.nodes["h1"], movelab.nodes["h2"]
    move = begin(movelab, guest, "10s")
    kept = lose(movelab, stranger=False)
    [again] = wait_for(other.reservations, pause=0.05)
    assert again["move_id"] == move["id"] and again["id"] != kept["id"]
    end = node.ended(move)
    assert end["state"] == "done" and running_on(guest) == ["h2"] and has_gpu("h2", guest), end
    assert node.reservations() == other.reservations() == []


def test_turned_back_before_the_switch(movelab, guest):
    """A renewal finds out that another VM has the GPU: the move goes no further."""
    move = begin(movelab, guest, "10s")
    lose(movelab, stranger=True)
    end = movelab.nodes["h1"].ended(move)
    assert end["cause"].startswith("reserve: 'h2' no longer reserves a GPU for the VM"), end
    assert "standin" in end["cause"]
    assert "attach" not in [step["verb"] for step in end["steps"]]
    check_home(movelab, guest, end)


def test_attach_looks_first(movelab, guest):
    """No renewal was due before it arrived."""
    move = begin(movelab, guest, "1h")
    lose(movelab, stranger=True)
    end = movelab.nodes["h1"].ended(move)
    assert end["cause"].startswith("attach: 'h2' no longer reserves a GPU for the VM"), end
    check_home(movelab, guest, end)


def test_attach_takes_what_is_free(movelab, guest):
    move = begin(movelab, guest, "1h")
    lose(movelab, stranger=False)
    end = movelab.nodes["h1"].ended(move)
    assert end["state"] == "done" and has_gpu("h2", guest), end
    assert movelab.nodes["h2"].reservations() == []


def test_taken_up_after_a_restart(movelab, guest):
    """A vgpud that goes on with the move looks at what is kept first."""
    node = movelab.nodes["h1"]
    move = begin(movelab, guest, "1h")
    node.daemon.kill()
    lose(movelab, stranger=True)
    movelab.start("h1")
    end = node.ended(move)
    assert "attach" not in [step["verb"] for step in end["steps"]], end
    check_home(movelab, guest, end)


def test_target_vgpud_is_gone_for_long(movelab, guest):
    """Its lease is over, for all that is known: whether another VM has the GPU by now nobody can say."""
    node = movelab.nodes["h1"]
    move = begin(movelab, guest, "10s")
    movelab.nodes["h2"].daemon.kill()
    try:
        end = node.ended(move)
        assert end["cause"].startswith("attach: it is unknown whether 'h2' still reserves a GPU for the VM"), end
        assert end["state"] == "rolled_back" and running_on(guest) == ["h1"] and has_gpu("h1", guest), end
    finally:
        movelab.start("h2")
