# SPDX-License-Identifier: Apache-2.0
"""Migrations that do not end by themselves: QEMU or libvirtd of a host hangs before the first byte is copied, or
while the memory is. The move ends, or names a command that ends it, which the test gives."""
import contextlib
import re

import pytest
from labhost import lab
from movelab import has_gpu, remove_guest, running_on, start_guest
from patience import check_end, hanging, knows, reached, within
from unixhttp import wait_for

# One after the other: they share the directory of the lab.
pytestmark = pytest.mark.xdist_group("lab")
GUEST = "stuck"
SLOW = "[actions]\nbandwidth=2\n"
# A fault that does not end takes the GPU of the VM away for so long, at most.
BARE_S = 90


@contextlib.contextmanager
def held(host):
    """QEMU of a guest that is to arrive there stops before it has begun."""
    lab("exec", host, "touch", "/run/hold-qemu")
    try:
        yield
    finally:
        lab("exec", host, "rm", "-f", "/run/hold-qemu")


def is_there(host, guest):
    return guest in lab("virsh", host, "-q", "list", "--all", "--name").stdout.split()


def begin(movelab, way, guest):
    """A move whose target's QEMU has stopped."""
    node = movelab.nodes[way[0]]
    move = node.move(guest, way[1])
    assert reached(node, move, "migrating")
    wait_for(lambda: is_there(way[1], guest), pause=0.1)
    return move


def signal_qemu(host, guest, signal):
    lab("exec", host, "sh", "-c", f"kill -{signal} $(cat /run/libvirt/qemu/{guest}.pid)")


def command_of(text, verb):
    """The command that a text names for this host, as words."""
    [found] = re.findall(rf"`(virsh -c \S+ {verb} \S+)`", text)
    return found.split()


def waits_for(node, move):
    return node.migration(move)["waits_for"] or ""


@pytest.mark.drawn("lab-hangs")
@pytest.mark.parametrize("restart", [False, True], ids=["abort", "restart"])
def test_abort_before_the_first_byte(movelab, way, guest, restart):
    """QEMU of the target does not answer: an abort ends the move all the same, also one of an earlier vgpud."""
    source, target = way
    node = movelab.nodes[source]
    with held(target):
        move = begin(movelab, way, guest)
        if restart:
            node.daemon.kill()
            movelab.start(source)
            wait_for(lambda: node.migration(move)["step"] == "look", pause=0.1)
        status, _, answer = node.daemon.post(f"/v1/migrations/{move['id']}/abort", {})
        assert status == 202, answer
        end = node.ended(move)
        assert end["state"] == "aborted" and end["cause"].startswith("vgpud ended" if restart else "it was"), end
        assert not is_there(target, guest)
    check_end(movelab, guest, end)


@pytest.mark.drawn("lab-many")
def test_nothing_is_copied(movelab, way, guest):
    """QEMU of the target does not answer, and nobody aborts the move: it turns back by itself."""
    source, target = way
    node = movelab.nodes[source]
    with held(target):
        move = begin(movelab, way, guest)
        with within(BARE_S):
            wait_for(lambda: has_gpu(source, guest), 10 * BARE_S, pause=0.5)
        end = node.ended(move)
    assert end["state"] == "rolled_back" and "reached" in end["cause"], end
    check_end(movelab, guest, end)


@pytest.mark.drawn("lab-many")
def test_nothing_is_copied_on_the_way_back(movelab, way, guest):
    """The VM gets no GPU on the target, and QEMU of the source does not answer: the VM stays on the target."""
    source, target = way
    node = movelab.nodes[source]
    lab("exec", target, "mount", "-o", "remount,ro", "/dev/shm")
    try:
        with held(source):
            end = node.ended(node.move(guest, target), limit=600)
            assert end["state"] == "failed" and end["vm_on"] == "target", end
            assert running_on(guest) == [target] and not is_there(source, guest)
    finally:
        lab("exec", target, "mount", "-o", "remount,rw", "/dev/shm")
    assert node.daemon.post(f"/v1/migrations/{end['id']}/retry", {})[0] in (200, 202)
    check_end(movelab, guest, node.ended(end))




@pytest.mark.drawn("lab-many")
def test_qemu_of_the_target_hangs(movelab, way, guest):
    """Some of the memory has been copied."""
    source, target = way
    node = movelab.nodes[source]
    node.reload(SLOW)
    move = node.move(guest, target)
    wait_for(lambda: node.migration(move)["progress"]["processed_bytes"] > 0, pause=0.05)
    signal_qemu(target, guest, "STOP")
    with within(BARE_S):
        wait_for(lambda: has_gpu(source, guest), 10 * BARE_S, pause=0.5)
    end = node.ended(move)
    assert end["state"] == "rolled_back", end
    check_end(movelab, guest, end)


@pytest.mark.drawn("lab-many")
def test_qemu_of_the_source_hangs(movelab, way):
    """Nobody but its host can end it; the move says how, and does not wait any longer once that is done."""
    source, target = way
    node, name = movelab.nodes[source], "doomed"
    try:
        start_guest(source, name, gpu=False)
        knows(movelab, source, name)
        node.reload(SLOW)
        move = node.move(name, target)
        wait_for(lambda: node.migration(move)["progress"]["processed_bytes"] > 0, pause=0.05)
        signal_qemu(source, name, "STOP")
        wait_for(lambda: "destroy" in waits_for(node, move), pause=0.5)
        lab("exec", source, *command_of(waits_for(node, move), "destroy"), check=False)
        end = node.ended(move)
        assert end["state"] == "failed" and end["vm_on"] == "nowhere", end
    finally:
        remove_guest(name)


@pytest.mark.drawn("lab-hangs")
def test_libvirtd_of_the_source_hangs(movelab, way, guest):
    """A restart of it ends the wait, as the move says; or a second abort."""
    source, target = way
    node = movelab.nodes[source]
    node.reload(SLOW)
    move = node.move(guest, target)
    wait_for(lambda: node.migration(move)["progress"]["processed_bytes"] > 0, pause=0.05)
    lab("daemon", source, "hang")
    wait_for(lambda: "restart" in waits_for(node, move), pause=0.5)
    lab("daemon", source, "kill")
    lab("daemon", source, "start")
    check_end(movelab, guest, node.ended(move))


@pytest.mark.drawn("lab-many")
def test_a_second_abort_ends_the_waiting(movelab, way, guest):
    source, target = way
    node = movelab.nodes[source]
    node.reload(SLOW)
    move = node.move(guest, target)
    wait_for(lambda: node.migration(move)["progress"]["processed_bytes"] > 0, pause=0.05)
    with hanging(source):
        wait_for(lambda: waits_for(node, move), pause=0.5)
        wait_for(lambda: node.migration(move)["step"] == "look", pause=0.5)

        def ended():
            node.daemon.post(f"/v1/migrations/{move['id']}/abort", {})
            return node.migration(move)["ended_ns"]
        wait_for(ended, pause=1)
        end = node.migration(move)
        assert end["state"] == "failed" and end["vm_on"] in ("unknown", "moving"), end
    assert node.daemon.post(f"/v1/migrations/{move['id']}/retry", {})[0] in (200, 202)
    check_end(movelab, guest, node.ended(move))
