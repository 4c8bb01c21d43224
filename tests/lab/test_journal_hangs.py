# SPDX-License-Identifier: Apache-2.0
"""The disk of vgpud's journal hangs in the middle of a move: the VM does not wait for it without its GPU."""
import contextlib
import os
import subprocess

import pytest
from labhost import ENV, lab
from movelab import has_gpu, hooks, remove_guest, running_on, start_guest, tell
from patience import knows, within
from unixhttp import wait_for

# One after the other: they share the directory of the lab.
pytestmark = [pytest.mark.xdist_group("lab"), pytest.mark.drawn("lab-many")]
GUEST = "scribe"
BEHIND = "behind0"
# A fault that does not end takes the GPU of the VM away for so long, at most.
BARE_S = 90


@pytest.fixture
def guest(movelab):
    start_guest("h1", GUEST)
    knows(movelab, "h1", GUEST)
    yield GUEST
    remove_guest(GUEST)
    for node in movelab.nodes.values():
        node.reload("")


@pytest.fixture(name="behind")
def behind_fixture(movelab):
    """One whose move waits for its turn."""
    start_guest("h1", BEHIND, gpu=False)
    knows(movelab, "h1", BEHIND)
    yield BEHIND
    remove_guest(BEHIND)


def check_whole(movelab, guest, host):
    assert running_on(guest) == [host] and has_gpu(host, guest)
    assert hooks(host, guest)[-1] == "resume"
    for node in movelab.nodes.values():
        wait_for(lambda node=node: node.reservations() == [])


@contextlib.contextmanager
def own_disk(movelab, node, guest):
    """The state of the vgpud is on a file system of its own: its directory."""
    state, image = node.daemon.state, os.path.join(ENV["LAB_DIR"], "state.img")
    node.daemon.stop()
    with open(image, "wb") as file:
        file.truncate(64 << 20)
    subprocess.run(["mkfs.ext4", "-q", image], check=True)
    lab("exec", "h1", "sh", "-c", f"cp -a {state} {state}.old && mount -o loop {image} {state} && "
                                  f"cp -a {state}.old/. {state}")
    try:
        movelab.start("h1")
        movelab.meet()
        knows(movelab, "h1", guest)
        yield state
    finally:
        node.daemon.stop()
        lab("exec", "h1", "umount", state)
        os.remove(image)
        movelab.start("h1")


def test_a_disk_that_hangs_keeps_no_vm_without_its_gpu(movelab, guest, behind):
    """While the memory is copied, the disk of the state falls silent: the VM gets its GPU there all the same, and
    the list of moves is answered, with the one that waits for its turn, which begins later."""
    node = movelab.nodes["h1"]
    with own_disk(movelab, node, guest) as state:
        node.reload("[actions]\nbandwidth=8\nmoves=1\n")
        move, queued = node.move(guest, "h2"), node.move(behind, "h2")
        both = [queued["id"], move["id"]]
        wait_for(lambda: node.migration(move)["state"] == "migrating", pause=0.01)
        lab("exec", "h1", "fsfreeze", "-f", state)
        try:
            wait_for(lambda: "to record the step" in (node.migration(move)["waits_for"] or ""), pause=0.1)
            listed = node.daemon.get("/v1/migrations")
            assert [m["id"] for m in listed["items"]] == both and "under way" in listed["incomplete"], listed
            listed = node.daemon.get("/v1/migrations?active=true")
            assert [m["id"] for m in listed["items"]] == both and "incomplete" not in listed, listed
            with within(BARE_S):
                wait_for(lambda: running_on(guest) == ["h2"] and has_gpu("h2", guest), pause=0.2)
        finally:
            lab("exec", "h1", "fsfreeze", "-u", state)
        assert node.ended(move)["state"] == "done"
        assert node.ended(queued)["state"] == "done"
        assert "incomplete" not in node.daemon.get("/v1/migrations")
        check_whole(movelab, guest, "h2")


def test_a_disk_that_hangs_before_the_copy(movelab, guest):
    """The guest has released the GPU: the VM gets it back."""
    node = movelab.nodes["h1"]
    with own_disk(movelab, node, guest) as state:
        tell("h1", guest, "slow prepare")
        move = node.move(guest, "h2")
        wait_for(lambda: (node.migration(move)["guest"]["doing"] or "").startswith("in the guest:"), pause=0.05)
        lab("exec", "h1", "fsfreeze", "-f", state)
        try:
            with within(BARE_S):
                wait_for(lambda: any(s["verb"] == "revive" for s in node.migration(move)["steps"]), pause=0.2)
            assert running_on(guest) == ["h1"] and has_gpu("h1", guest)
        finally:
            lab("exec", "h1", "fsfreeze", "-u", state)
        assert node.ended(move)["state"] == "rolled_back"
        check_whole(movelab, guest, "h1")
