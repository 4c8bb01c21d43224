# SPDX-License-Identifier: Apache-2.0
"""A host is emptied over peers alone."""
import pytest
from draining import bring_back, drain_of, empties, tenants
from movelab import run, running_on
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
