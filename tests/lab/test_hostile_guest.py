# SPDX-License-Identifier: Apache-2.0
"""A guest in which something else than vgpu-guestd has the channel: its move ends, with a cause; it
costs vgpud bounded memory; and another VM is moved meanwhile."""
import re

import pytest
from labhost import VGPUD
from movelab import MoveLab, console, has_gpu, remove_guest, running_on, start_guest, tell
from settings import full, is_instrumented
from unixhttp import wait_for

# One after the other: they share the directory of the lab.
pytestmark = [pytest.mark.xdist_group("lab"), pytest.mark.drawn("lab")]
GUEST = "traveller"
HOSTILE = "hostile"
# What vgpud may take more, whatever the guest sends.
GROWTH_MIB = 32
TOO_MUCH = r"more than \d+ (bytes|messages)"
MODES = [("zeros", TOO_MUCH), ("lines", TOO_MUCH), ("hellos", TOO_MUCH), ("greeted", TOO_MUCH),
         ("busy", TOO_MUCH + "|no message")]
LIES = [(mode, "reports success, but not that it has released the device") for mode in ("liar", "other")]
SLOW_MODES = [("half", "has sent nothing for 10 s")]


@pytest.fixture(scope="module")
def movelab(host, tmp_path_factory):
    made = MoveLab(tmp_path_factory.mktemp("move"))
    try:
        for node in made.nodes.values():
            node.reload("[gpu standin]\nslots=3\n")
        for name in (GUEST, HOSTILE):
            start_guest("h1", name)
            wait_for(lambda name=name: knows(made, "h1", name))
        yield made
    finally:
        for name in (GUEST, HOSTILE):
            remove_guest(name)
        made.close()


def knows(movelab, host, guest):
    return movelab.nodes[host].daemon.request("GET", f"/v1/vms/{guest}")[0] == 200


def peak_mib(node):
    """Of its memory, since it was asked last."""
    pid = node.daemon.pid()
    with open(f"/proc/{pid}/status", encoding="ascii") as file:
        peak = int(re.search(r"VmHWM:\s+(\d+) kB", file.read())[1]) / 1024
    with open(f"/proc/{pid}/clear_refs", "w", encoding="ascii") as file:
        file.write("5")
    return peak


@pytest.mark.parametrize("mode, cause", MODES + LIES + (SLOW_MODES if full() else []),
                         ids=lambda v: v.split()[0])
def test_hostile_guest(movelab, mode, cause):
    [source] = running_on(GUEST)
    target = "h2" if source == "h1" else "h1"
    node = movelab.nodes["h1"]
    wait_for(lambda: knows(movelab, source, GUEST))
    tell("h1", HOSTILE, f"hostile {mode}")
    peak_mib(node)
    before = peak_mib(node)
    move = node.move(HOSTILE, "h2")
    other = movelab.nodes[source].ended(movelab.nodes[source].move(GUEST, target))
    end = node.ended(move)
    assert other["state"] == "done", (other, console(source, GUEST)[-1500:])
    assert end["state"] in ("failed", "rolled_back") and re.search(cause, end["cause"]), end
    assert running_on(HOSTILE) == ["h1"] and has_gpu("h1", HOSTILE)
    growth = peak_mib(node) - before
    print(f"{mode}: {growth:.1f} MiB")
    assert growth < GROWTH_MIB or is_instrumented(VGPUD)


def test_what_is_said_first_is_lost(movelab):
    """As when the guest's kernel does not know yet that somebody has come: it is said again."""
    tell("h1", HOSTILE, "hostile second")
    status, _, answer = movelab.nodes["h1"].daemon.post(
        "/v1/migrations", {"vm": HOSTILE, "to": "h2", "dry_run": True})
    assert (status, answer["problems"]) == (200, [])
