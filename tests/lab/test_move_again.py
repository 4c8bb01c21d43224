# SPDX-License-Identifier: Apache-2.0
"""Moves that have failed, and are finished: by a retry, or by moving the VM back. vgpuctl says what to do,
with a command that is then run as it stands."""
import json
import re
import shlex
import subprocess

import pytest
import vgpuctl
from labhost import lab
from movelab import GPU_XML, has_gpu, hooks, remove_guest, run, running_on, start_guest, tell
from settings import HANG_S
from unixhttp import wait_for
from vgpud import Events

# One after the other: they share the directory of the lab.
pytestmark = pytest.mark.xdist_group("lab")
GUEST = "wanderer"


@pytest.fixture
def guest(movelab):
    start_guest("h1", GUEST)
    knows(movelab.nodes["h1"], GUEST)
    movelab.meet()
    yield GUEST
    remove_guest(GUEST)
    for node in movelab.nodes.values():
        node.reload("")


def knows(node, guest):
    wait_for(lambda: node.daemon.request("GET", f"/v1/vms/{guest}")[0] == 200)


def migrate(node, guest, to):
    """Fails; returns the first command that is advised, and the move."""
    said = run(node, "migrate", guest, "--to", to, "--wait", code=1).stderr
    return failed(node, node.migration(node.daemon.get("/v1/migrations?limit=1")["items"][0]), said)


def failed(node, move, said):
    [advised] = re.findall(r"what now: `vgpuctl ([^`]*)`", said)
    assert move["state"] == "failed", move
    assert advised in " ".join(run(node, "migration", "show", move["id"]).stdout.split())
    return shlex.split(advised), move


def again(move):
    """What was done when it was taken up again."""
    return [s["verb"] for s in move["steps"] if s["attempt"] == 1 and s["verb"] != "look"]


def refuse_gpus(host, refuse):
    # It is busy until QEMU has closed the memory of a device that it says has gone.
    wait_for(lambda: lab("exec", host, "mount", "-o", "remount,ro" if refuse else "remount,rw", "/dev/shm",
                         check=False).returncode == 0, pause=0.01)


def check_whole(movelab, guest, host):
    assert running_on(guest) == [host] and has_gpu(host, guest)
    assert hooks(host, guest)[-1] == "resume"
    for node in movelab.nodes.values():
        assert node.reservations() == []
        assert node.daemon.get("/v1/migrations?active=true")["items"] == []


@pytest.mark.drawn("lab")
def test_a_guest_that_did_not_take_its_gpu_up(movelab, guest):
    node = movelab.nodes["h1"]
    tell("h1", guest, "fail resume")
    retry, move = migrate(node, guest, "h2")
    assert (move["vm_on"], move["gpu"]) == ("target", "attached") and move["cause"].startswith("resume: ")
    # Still broken: it fails in the same way, and can be tried once more.
    assert "hook resume/10-lab failed" in run(node, *retry, "--wait", code=1).stderr
    tell("h2", guest, "mend")
    assert "Done after" in run(node, *retry, "--wait").stdout
    move = node.migration(move)
    assert (move["state"], move["cause"], move["retries"]) == ("done", None, 2)
    assert again(move) == ["resume", "resume", "release"]
    check_whole(movelab, guest, "h2")
    assert "the move is done and has left nothing undone" in run(node, *retry, code=5).stderr


@pytest.mark.drawn("lab")
def test_it_can_be_moved_back_instead(movelab, guest):
    node = movelab.nodes["h1"]
    tell("h1", guest, "fail resume")
    _, move = migrate(node, guest, "h2")
    tell("h2", guest, "mend")
    knows(movelab.nodes["h2"], guest)
    movelab.meet()
    assert "Done after" in run(node, "migration", "undo", move["id"], "--wait").stdout
    check_whole(movelab, guest, "h1")


def lose_gpu(movelab, guest):
    """Neither host gives it a GPU for some time: its move fails. Returns what is advised, and the move."""
    node = movelab.nodes["h1"]
    refuse_gpus("h2", True)
    try:
        move = node.move(guest, "h2")
        wait_for(lambda: node.migration(move)["state"] == "migrating", pause=0.01)
        refuse_gpus("h1", True)  # not before the GPU has left
        retry, move = failed(node, node.ended(move), run(node, "migration", "watch", move["id"], code=1).stderr)
        assert (move["vm_on"], move["gpu"]) == ("source", "detached") and not has_gpu("h1", guest)
        return retry, move
    finally:
        for host in movelab.nodes:
            refuse_gpus(host, False)


@pytest.mark.drawn("lab")
def test_no_gpu_on_the_source_any_more(movelab, guest):
    """Neither host has a GPU for it for some time; the VM stands on the source without."""
    node = movelab.nodes["h1"]
    retry, move = lose_gpu(movelab, guest)
    assert "Rolled back after" in run(node, *retry, "--wait").stdout
    assert again(node.migration(move)) == ["reattach", "revive", "tidy", "release"]
    check_whole(movelab, guest, "h1")


@pytest.mark.drawn("lab")
def test_no_gpu_on_the_target_and_no_way_back(movelab, guest):
    """It stands on the target without; finished, also by a vgpud that was killed meanwhile."""
    node = movelab.nodes["h1"]
    node.reload("[actions]\nlibvirt_uri=qemu+tcp://nowhere.invalid/system\n")
    refuse_gpus("h2", True)
    try:
        retry, move = migrate(node, guest, "h2")
        assert (move["vm_on"], move["gpu"]) == ("target", "detached") and not has_gpu("h2", guest)
    finally:
        refuse_gpus("h2", False)
    node.daemon.stop()
    node.more = "[fault]\nmove_writes=5\n"
    movelab.start("h1")
    movelab.meet()
    node.more = ""
    subprocess.run([vgpuctl.program(), *retry, "--socket", node.daemon.socket], capture_output=True, timeout=HANG_S)
    assert node.daemon.process.wait(HANG_S) != 0
    movelab.start("h1")
    move = node.ended(move)
    assert move["state"] == "done", move
    # Its fifth write is that it will attach.
    assert again(move) == ["reserve", "attach", "attach", "resume", "verify", "release"]
    check_whole(movelab, guest, "h2")


@pytest.mark.drawn("lab")
def test_nothing_to_finish(movelab, guest):
    """The VM is as it was: a new move is advised, which gets there."""
    node = movelab.nodes["h1"]
    tell("h1", guest, "fail prepare")
    said = run(node, "migrate", guest, "--to", "h2", "--wait", code=1).stderr
    [advised] = re.findall(r"`vgpuctl (migrate [^`]*)`", said)
    move = node.daemon.get("/v1/migrations?limit=1")["items"][0]
    assert move["state"] == "rolled_back"
    assert "left nothing undone" in run(node, "migration", "retry", move["id"], code=5).stderr
    tell("h1", guest, "mend")
    assert "Done after" in run(node, *shlex.split(advised), "--wait").stdout
    check_whole(movelab, guest, "h2")


def without_gpu(node):
    """The VMs of which /metrics says so."""
    text = node.daemon.request("GET", "/metrics")[2].decode()
    return re.findall(r'^vgpud_vm_without_gpu\{vm="([^"]*)".*\} 1$', text, re.M)


@pytest.mark.drawn("lab")
def test_a_gpu_plugged_in_by_hand(movelab, guest):
    """That ends the alert, for the next vgpud, too; and the move can still be finished for the guest."""
    node = movelab.nodes["h1"]
    retry, move = lose_gpu(movelab, guest)
    assert without_gpu(node) == [guest]
    lab("virsh", "h1", "-q", "attach-device", guest, GPU_XML, "--live")
    wait_for(lambda: without_gpu(node) == [])
    assert node.migration(move)["gpu"] == "attached"
    told = run(node, "events", "--since", "-1h", "--type", "alert", "-o", "json").stdout.splitlines()
    assert [json.loads(line)["what"] for line in told][-2:] == ["raised", "cleared"], told
    node.daemon.stop()
    movelab.start("h1")
    movelab.meet()
    knows(node, guest)
    assert without_gpu(node) == []
    assert "Rolled back after" in run(node, *retry, "--wait").stdout
    check_whole(movelab, guest, "h1")


@pytest.mark.drawn("lab")
def test_hosts_that_do_not_answer_for_long(movelab, guest):
    """The move waits, says for whom, and keeps what is reserved; it ends only if somebody wants that, and
    then the VM without its GPU is an alert until the move is finished."""
    node, other = movelab.nodes["h1"], movelab.nodes["h2"]
    node.reload("[actions]\nbandwidth=2\nlease=10s\n")
    events = Events(node.daemon, "?types=alert,migration")
    move = node.move(guest, "h2")
    wait_for(lambda: node.migration(move)["progress"]["processed_bytes"] > 0, pause=0.02)
    lab("daemon", "h1", "kill")
    try:
        waits = wait_for(lambda: node.migration(move)["waits_for"])
        assert waits.startswith("libvirt on 'h1'"), waits
        shown = " ".join(run(node, "migration", "show", move["id"]).stdout.split())
        assert "now: has waited since " in shown and f"what now: the move continues; `vgpuctl migration abort {move['id']}`" in shown
        # Leases of 10 s are renewed while it waits.
        kept = {n.host: n.reservations()[0]["expires_ns"] for n in (node, other)}
        wait_for(lambda: all(n.reservations()[0]["expires_ns"] > kept[n.host] for n in (node, other)))
        assert node.migration(move)["steps"][-1]["verb"] == "look"
        run(node, "migration", "abort", move["id"])
        assert not node.migration(move)["ended_ns"]
        run(node, "migration", "abort", move["id"])
        end = node.ended(move)
        assert (end["state"], end["vm_on"], end["gpu"]) == ("failed", "unknown", "unknown"), end
        wait_for(lambda: without_gpu(node) == [guest])
    finally:
        lab("daemon", "h1", "start")
    told = [events.next()[2]]
    while told[-1].get("what") != "raised":
        told.append(events.next()[2])
    assert (told[-1]["alert"], told[-1]["vm"], told[-1]["move"]) == ("vm-without-gpu", guest, move["id"])
    assert any(e.get("waits_for") == waits for e in told), told
    events.close()
    # The next vgpud knows it, too.
    node.daemon.stop()
    movelab.start("h1")
    assert without_gpu(node) == [guest]
    movelab.meet()
    knows(node, guest)
    assert "after" in run(node, "migration", "retry", move["id"], "--wait").stdout
    assert without_gpu(node) == []
    check_whole(movelab, guest, running_on(guest)[0])


@pytest.mark.drawn("lab")
def test_a_full_disk_keeps_no_vm_without_its_gpu(movelab, guest):
    """From the moment on at which the VM has no GPU, nothing can be written to the disk of the state."""
    node = movelab.nodes["h1"]
    state = node.daemon.state
    node.daemon.stop()
    lab("exec", "h1", "sh", "-c", f"cp -a {state} {state}.old && mount -t tmpfs -o size=24m tmpfs {state} && "
                                  f"cp -a {state}.old/. {state}")
    try:
        movelab.start("h1")
        movelab.meet()
        knows(node, guest)
        node.reload("[actions]\nbandwidth=8\n")
        # Without room for its records no move begins, and a dry run says so.
        lab("exec", "h1", "sh", "-c", f"cat /dev/zero > {state}/filler; true")
        [problem] = node.move(guest, "h2", 200, dry_run=True)["problems"]
        assert "is full" in problem and node.move(guest, "h2", 422)["detail"] == problem
        lab("exec", "h1", "rm", f"{state}/filler")
        move = node.move(guest, "h2")
        wait_for(lambda: node.migration(move)["state"] == "migrating", pause=0.01)
        lab("exec", "h1", "sh", "-c", f"cat /dev/zero > {state}/filler; true")
        assert lab("exec", "h1", "sh", "-c", f"echo x > {state}/more", check=False).returncode != 0
        end = node.ended(move)
        assert end["state"] == "done" and not any(s["answer"].startswith("the journal") for s in end["steps"]), end
        check_whole(movelab, guest, "h2")
        # That is on the disk.
        node.daemon.kill()
        movelab.start("h1", wait=False)
        wait_for(lambda: node.daemon.answers() and node.migration(move)["state"] == "done")
    finally:
        node.daemon.stop()
        lab("exec", "h1", "umount", state)
        movelab.start("h1")


@pytest.mark.drawn("lab-many")
def test_the_way_back_is_tried_again(movelab, guest):
    """The target has no GPU, and libvirtd of the source ends while the VM is on its way back: the VM comes back once
    libvirtd is there again."""
    node = movelab.nodes["h1"]
    node.reload("[actions]\nbandwidth=8\n")
    refuse_gpus("h2", True)
    try:
        move = node.move(guest, "h2")
        wait_for(lambda: node.migration(move)["step"] == "return", pause=0.05)
        # libvirtd 9.0 that dies earlier has the VM for ever, and ends it no more.
        wait_for(lambda: "Memory processed" in lab("virsh", "h2", "domjobinfo", guest, check=False).stdout, pause=0.05)
        lab("daemon", "h1", "kill")
        wait_for(lambda: any(s["verb"] == "return" and s["ended_ns"] for s in node.migration(move)["steps"]), pause=0.05)
        lab("daemon", "h1", "start")
        end = node.ended(move)
    finally:
        refuse_gpus("h2", False)
    assert end["state"] == "rolled_back", end
    assert [s["ok"] for s in end["steps"] if s["verb"] == "return"][-1], end
    check_whole(movelab, guest, "h1")


@pytest.mark.drawn("lab-many")
def test_plugging_in_is_tried_again(movelab, guest):
    """libvirtd of the target ends before the GPU is plugged in: the VM stays there, and gets its GPU."""
    node = movelab.nodes["h1"]
    node.reload("[actions]\nbandwidth=8\n")
    move = node.move(guest, "h2")
    wait_for(lambda: node.migration(move)["step"] == "attach" or node.migration(move)["ended_ns"], pause=0.001)
    lab("daemon", "h2", "kill")
    lab("daemon", "h2", "start")
    end = node.ended(move)
    assert end["state"] == "done", end
    check_whole(movelab, guest, "h2")
