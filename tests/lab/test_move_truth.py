# SPDX-License-Identifier: Apache-2.0
"""What is said of where a VM is, and what both hosts keep of it, when its move does not arrive. Both
libvirts are asked by the test."""
import contextlib
import os
import re
import subprocess
import sys

import pytest
from labdaemon import prefix
from labhost import ENV, ROOT, lab
from movelab import (ALIAS, GPU_XML, define_guest, defined_on, has_gpu, hooks, kill_qemu, remove_guest, run,
                     running_on, start_guest, tell)
from patience import others_do_not_wait
from unixhttp import wait_for

# One after the other: they share the directory of the lab.
pytestmark = [pytest.mark.xdist_group("lab"), pytest.mark.drawn("lab-faults")]
GUEST = "honest"
HANGFS = os.path.join(ROOT, "tests", "lib", "hangfs.py")
SLOW = "[actions]\nbandwidth=4\n"


@pytest.fixture
def guest(movelab):
    start_guest("h1", GUEST)
    known(movelab, GUEST)
    yield GUEST
    remove_guest(GUEST)
    for node in movelab.nodes.values():
        node.reload("")


def known(movelab, guest):
    wait_for(lambda: movelab.nodes["h1"].daemon.request("GET", f"/v1/vms/{guest}")[0] == 200)
    movelab.meet()


def begin(movelab, guest, more=SLOW):
    """The move of the guest, once its memory is being copied."""
    node = movelab.nodes["h1"]
    node.reload(more)
    move = node.move(guest, "h2")
    wait_for(lambda: node.migration(move)["progress"]["processed_bytes"] > 0, pause=0.02)
    return move


def steps(move, verb):
    return [step for step in move["steps"] if step["verb"] == verb]


def inactive(host, guest):
    return lab("virsh", host, "dumpxml", guest, "--inactive").stdout


def check_home(movelab, guest, move):
    """It is on h1 as before, and nowhere else."""
    assert move["state"] == "rolled_back", move
    assert running_on(guest) == ["h1"] and defined_on(guest) == ["h1"] and has_gpu("h1", guest)
    assert hooks("h1", guest)[-1] == "resume"
    for node in movelab.nodes.values():
        assert node.reservations() == []


# ---- where it is ----

def test_arriving_is_not_arrived(movelab, guest):
    """The source's libvirtd is killed: what waits on the target for the rest of the memory is not the VM."""
    node = movelab.nodes["h1"]
    move = begin(movelab, guest)
    lab("daemon", "h1", "kill")
    wait_for(lambda: steps(node.migration(move), "look")[1:])
    lab("daemon", "h1", "start")
    end = node.ended(move)
    assert not steps(end, "attach"), end
    assert not [s for s in steps(end, "look") if s["answer"] and "on the target" in s["answer"]], end
    check_home(movelab, guest, end)


@contextlib.contextmanager
def cut(host):
    lab("exec", host, "ip", "link", "set", "eth0", "down")
    try:
        yield
    finally:
        lab("exec", host, "ip", "link", "set", "eth0", "up")


def test_source_alone_decides(movelab, guest):
    """The target is cut off, and libvirt of the source gives up: the VM has its GPU while nobody can ask the
    target."""
    node = movelab.nodes["h1"]
    move = begin(movelab, guest)
    with cut("h2"):
        wait_for(lambda: has_gpu("h1", guest), pause=0.2)
        assert running_on_source(guest)
        assert steps(node.migration(move), "look")[-1]["answer"] == (
            "the VM is on the source; its GPUs are detached")
    movelab.meet()
    check_home(movelab, guest, node.ended(move))


def running_on_source(guest):
    return guest in lab("virsh", "h1", "-q", "list", "--state-running", "--name").stdout.split()


def test_paused_is_not_running(movelab, guest):
    """Somebody pauses it on the target: it is there, and does not run."""
    node = movelab.nodes["h1"]
    move = begin(movelab, guest, SLOW + "guest_deadline=3s\n")
    tell("h1", guest, "mute")
    wait_for(lambda: node.migration(move)["state"] == "resuming", pause=0.01)
    lab("virsh", "h2", "-q", "suspend", guest)
    end = node.ended(move)
    assert end["state"] == "failed" and end["vm_on"] == "target" and end["gpu"] == "attached", end
    assert "on the target, paused by a user" in steps(end, "look")[-1]["answer"], end
    [verify] = steps(end, "verify")
    uuid = lab("virsh", "h2", "-q", "domuuid", guest).stdout.strip()
    assert not verify["ok"] and "is not running: paused by a user" in verify["answer"], verify
    assert f"`virsh -c qemu+tcp://h2/system resume {uuid}`" in verify["answer"], verify


def command_of(text, verb):
    [command] = re.findall(rf"`(virsh -c \S+ {verb} \S+)`", text)
    return command.split()


def test_paused_while_it_releases_its_gpu(movelab, guest):
    """Somebody pauses it on the source: its agent is not blamed, and what lets it continue is told."""
    node = movelab.nodes["h1"]
    tell("h1", guest, "slow prepare")
    move = node.move(guest, "h2")
    wait_for(lambda: (node.migration(move)["guest"]["doing"] or "").startswith("in the guest:"), pause=0.05)
    lab("virsh", "h1", "-q", "suspend", guest)
    end = node.ended(move)
    assert end["state"] == "failed" and end["vm_on"] == "source" and end["stands"] == "paused by a user", end
    assert "paused by a user" in end["cause"] and "has not answered" not in end["cause"], end["cause"]
    shown = " ".join(run(node, "migration", "show", move["id"]).stdout.split())
    assert f"{guest} is on h1, paused by a user, and has its GPUs" in shown, shown
    assert f"`virsh resume {guest}` on h1 lets the VM continue; then `vgpuctl migration retry" in shown, shown
    lab("exec", "h1", *command_of(end["cause"], "resume"))
    tell("h1", guest, "mend")
    assert node.daemon.post(f"/v1/migrations/{move['id']}/retry", {})[0] == 202
    end = node.ended(move)
    assert "stands" not in end, end
    check_home(movelab, guest, end)


@pytest.mark.parametrize("arrives", [True, False], ids=["arrives", "aborted"])
def test_a_pause_that_libvirt_forgets(movelab, guest, arrives):
    """libvirt lets a VM run that somebody has paused while it was migrated, and the move says so."""
    node = movelab.nodes["h1"]
    move = begin(movelab, guest)
    lab("virsh", "h1", "-q", "suspend", guest)
    if not arrives:
        before = node.migration(move)["progress"]["processed_bytes"]
        # For longer than a VM is paused to switch hosts.
        wait_for(lambda: node.migration(move)["progress"]["processed_bytes"] > before + (24 << 20), pause=0.1)
        assert node.daemon.post(f"/v1/migrations/{move['id']}/abort", {})[0] == 202
    end = node.ended(move)
    assert end["state"] == ("done" if arrives else "aborted"), end
    [migrate] = steps(end, "migrate")
    assert "the VM had been paused during the migration" in migrate["answer"], migrate
    host = "h2" if arrives else "h1"
    assert running_on(guest) == [host] and has_gpu(host, guest)
    if arrives:
        lab("exec", "h1", *command_of(migrate["answer"], "suspend"))
        assert running_on(guest) == []


# ---- what is kept of it ----

def test_gpu_of_the_definition(movelab, guest):
    """The VM dies on its way: the next start is one with its GPU."""
    node = movelab.nodes["h1"]
    lab("virsh", "h1", "-q", "attach-device", guest, GPU_XML, "--config")
    assert ALIAS in inactive("h1", guest)
    move = begin(movelab, guest)
    assert ALIAS not in inactive("h1", guest)
    kill_qemu("h1", guest)
    end = node.ended(move)
    assert end["state"] == "failed" and end["vm_on"] == "nowhere", end
    assert ALIAS in inactive("h1", guest) and defined_on(guest) == ["h1"]
    assert node.reservations() == movelab.nodes["h2"].reservations() == []


def set_read_only(device, is_read_only):
    subprocess.run(["blockdev", "--setro" if is_read_only else "--setrw", device], check=True)


@contextlib.contextmanager
def disk():
    """The same on both hosts, for a guest: the device of each."""
    path = os.path.join(ENV["LAB_DIR"], "disk.img")
    with open(path, "wb") as file:
        file.truncate(1 << 20)
    devices = [subprocess.run(["losetup", "--show", "-f", path], check=True, capture_output=True,
                              text=True).stdout.strip() for _ in range(2)]
    try:
        for host, device in zip(("h1", "h2"), devices):
            lab("exec", host, "mkdir", "-p", "/run/disks")
            lab("exec", host, "ln", "-sfn", device, "/run/disks/vda")
        yield devices
    finally:
        for device in devices:
            # Otherwise, the next file on this device is read-only, too.
            set_read_only(device, False)
            subprocess.run(["losetup", "-d", device], check=True)


DISK = ("<disk type='block' device='disk'><driver name='qemu' type='raw' cache='none'/>"
        "<source dev='/run/disks/vda'/><target dev='vda' bus='virtio'/>"
        "<address type='pci' domain='0' bus='0' slot='5' function='0'/></disk>")


@contextlib.contextmanager
def hanging_disks(host):
    """Who looks for a disk there waits."""
    command = [*prefix(host), sys.executable, HANGFS, "--for-all", "/run/disks", "cat"]
    with subprocess.Popen(command, stdin=subprocess.PIPE) as process:
        try:
            wait_for(lambda: "/run/disks fuse " in lab("exec", host, "cat", "/proc/mounts").stdout)
            yield
        finally:
            process.stdin.close()
            process.wait()
            lab("exec", host, "umount", "-l", "/run/disks")


def test_disks_of_the_target(movelab):
    """A disk that the target has not, may not write to, or waits for: the move is refused before the guest hears of it."""
    node, guest = movelab.nodes["h1"], "double"

    def refused(words):
        check = node.move(guest, "h2", 200, dry_run=True)
        assert len(check["problems"]) == 1, check["paths"]
        [problem] = check["problems"]
        assert words in problem and [p["text"] for p in check["paths"] if p["verdict"] == "refused"] == [problem]
        end = node.ended(node.move(guest, "h2"))
        assert end["state"] == "failed" and words in end["cause"], end
        assert not steps(end, "quiesce") and hooks("h1", guest) == []
        assert running_on(guest) == ["h1"] and has_gpu("h1", guest)
    with disk() as (_, device):
        try:
            start_guest("h1", guest, devices=DISK)
            known(movelab, guest)
            lab("exec", "h2", "rm", "/run/disks/vda")
            refused("'h2' has no /run/disks/vda, the disk 'vda'")
            lab("exec", "h2", "ln", "-s", device, "/run/disks/vda")
            set_read_only(device, True)
            refused("'h2' cannot write to /run/disks/vda, the disk 'vda'")
            set_read_only(device, False)
            with hanging_disks("h2"):
                refused("/run/disks/vda, the disk 'vda', cannot be reached on 'h2': it has not answered for")
                others_do_not_wait(movelab)
            check = node.move(guest, "h2", 200, dry_run=True)
            assert check["problems"] == check["doubts"] == [], check
            assert [(p["path"], p["writable"], p["verdict"]) for p in check["paths"]] == [
                ("/run/disks/vda", True, "ok"), ("/var/lib/libvirt/boot/vmlinuz", False, "ok"),
                ("/var/lib/libvirt/boot/initrd", False, "ok")], check
            end = node.ended(node.move(guest, "h2"))
            assert end["state"] == "done" and has_gpu("h2", guest), end
        finally:
            remove_guest(guest)


def test_local_disk(movelab):
    """libvirt migrates no VM with a disk on a file system of its host alone."""
    node, guest, path = movelab.nodes["h1"], "double", "/var/lib/libvirt/disk.img"
    try:
        lab("exec", "h1", "truncate", "-s", "1M", path)
        define_guest("h1", guest, f"<disk type='file' device='disk'><source file='{path}'/>"
                                  "<target dev='sda' bus='sata'/></disk>")
        lab("virsh", "h1", "-q", "start", guest, "--paused")
        known(movelab, guest)
        check = node.move(guest, "h2", 200, dry_run=True)
        assert [words in text for words, text in zip(("is paused", f"{path}, the disk 'sda', is on a local file system"),
                                                     check["problems"], strict=True)] == [True] * 2, check
        refused = lab("virsh", "h1", "migrate", "--live", "--p2p", guest, "qemu+tcp://h2/system", check=False)
        assert "without shared storage" in refused.stderr, refused
    finally:
        remove_guest(guest)


@pytest.mark.parametrize("ours", [True, False], ids=["ours", "refused"])
def test_definition_on_the_target(movelab, ours):
    """libvirt of the target cannot write to the disk when all else has arrived, and keeps the VM's definition.
    It is taken away; or, as libvirt does not do that to one with a saved state, told. The target's vgpud, where
    actions are disabled, has not looked at the disk."""
    node, name = movelab.nodes["h1"], "double"
    with disk() as (_, device):
        try:
            set_read_only(device, True)
            start_guest("h1", name, gpu=False, devices=DISK)
            movelab.nodes["h2"].reload("[actions]\nenabled=no\n")
            known(movelab, name)
            saved = f"/var/lib/libvirt/qemu/save/{name}.save"
            if not ours:
                lab("exec", "h2", "sh", "-c", f"mkdir -p /var/lib/libvirt/qemu/save; echo > {saved}")
            end = node.ended(node.move(name, "h2"))
            assert end["state"] == "rolled_back" and "not writable" in end["cause"], end
            [doubt] = end["doubts"]
            assert "cannot check whether" in doubt and "actions are disabled" in doubt, doubt
            assert running_on(name) == ["h1"]
            uuid = lab("virsh", "h1", "-q", "domuuid", name).stdout.strip()
            command = f"virsh -c qemu+tcp://h2/system undefine {uuid}"
            assert ("left over" in end["cause"] and f"`{command}`" in end["cause"]) != ours, end["cause"]
            assert defined_on(name) == (["h1"] if ours else ["h1", "h2"])
            if not ours:
                # Once nothing is in the way, the command does what it is told for.
                lab("exec", "h2", "rm", saved)
                lab("virsh", "h1", "managedsave-remove", name, check=False)
                lab("exec", "h1", *command.split())
                assert defined_on(name) == ["h1"]
        finally:
            remove_guest(name)
            movelab.nodes["h2"].reload("")
