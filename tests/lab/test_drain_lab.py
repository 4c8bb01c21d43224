# SPDX-License-Identifier: Apache-2.0
"""A host is emptied over peers alone."""
import pytest
from draining import bring_back, drain_of, empties, knows, tenants
from movelab import has_gpu, remove_guest, run, running_on, start_guest
from unixhttp import wait_for

# One after the other: they share the directory of the lab.
pytestmark = [pytest.mark.xdist_group("lab"), pytest.mark.usefixtures("guest0")]


@pytest.mark.drawn("lab")
def test_a_host_is_emptied(movelab):
    """All but one of its VMs leave; it stays in maintenance until it is let go."""
    with tenants(movelab.nodes["h1"]) as kept:
        empties(movelab, kept)


@pytest.mark.drawn("lab")
def test_it_is_called_off(movelab):
    """In the middle: what moves turns back or arrives, and no further VM is moved."""
    here, there = movelab.nodes["h1"], movelab.nodes["h2"]
    movelab.meet()
    answer = run(here, "host", "drain", "h1", "-o", "json").stdout
    assert '"running"' in answer
    wait_for(lambda: any(v["step"] == "moves" for v in drain_of(there)["vms"]))
    run(there, "host", "undrain", "h1")
    wait_for(lambda: not here.daemon.get("/v1/migrations?active=true")["items"])
    assert running_on("guest0") in (["h1"], ["h2"])
    here.daemon.get("/v1/hosts/h1/drain", 404)
    moves = here.daemon.get("/v1/migrations")["items"]
    assert moves and all(m["state"] in ("done", "failed", "aborted", "rolled_back") for m in moves)
    bring_back(movelab, "guest0")


@pytest.fixture(name="guest")
def guest_fixture(movelab):
    """One with a GPU."""
    start_guest("h1", "queued0")
    knows(movelab.nodes["h1"], "queued0")
    yield "queued0"
    remove_guest("queued0")


@pytest.mark.drawn("lab-many")
def test_the_move_of_a_vm_with_a_gpu_waits_for_its_turn(movelab, guest):
    """Its GPUs are reserved on neither host until then; a drain sees that it waits."""
    here, there = movelab.nodes["h1"], movelab.nodes["h2"]
    with tenants(here):
        here.reload("[actions]\nmoves=1\n")
        movelab.meet()
        first, second = here.move("tenant0", "h2"), here.move(guest, "h2")
        assert second["state"] == "pending" and "as number 1 of 1 in the queue" in second["waits_for"], second
        assert not [r for node in (here, there) for r in node.reservations() if r["vm"] == guest]
        run(there, "host", "drain", "h1")
        vm = wait_for(lambda: {v["vm"]: v for v in drain_of(there)["vms"]}.get(guest))
        assert vm["migration"] == second["id"] and vm["step"] in ("waits", "moves", "moved"), vm
        assert here.ended(first)["state"] == "done"
        moved = here.ended(second)
        assert moved["state"] == "done" and moved["gpu"] == "attached", moved
        assert running_on(guest) == ["h2"] and has_gpu("h2", guest)
        run(there, "host", "undrain", "h1")
        wait_for(lambda: not here.daemon.get("/v1/migrations?active=true")["items"])
        here.reload("")
    bring_back(movelab, "guest0")
