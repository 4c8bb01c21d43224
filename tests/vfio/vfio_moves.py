# SPDX-License-Identifier: Apache-2.0
"""vgpuds move VMs with devices that the kernel's VFIO gives them, between two emulated hosts (README).
Not named test_*: runs only when it is asked for (tools/check --vfio)."""
import functools
import os
import re

import pytest
from unixhttp import build_dir
from vfiolab import ALIAS, VfioLab, hostdev, mdev, need_image, override, wait_for

pytestmark = [pytest.mark.host, pytest.mark.xdist_group("vfio")]

# host.sh, boot.
CARD, OTHER_CARD, MBOCHS_PARENT, MTTY_PARENT = (f"0000:0{bus}:00.0" for bus in range(1, 5))
MDPY_PARENT = "0000:08:00.0"
SHARED, NEIGHBOUR = "0000:05:00.0", "0000:05:00.1"
EDU, NVME, VF = "0000:06:00.0", "0000:07:00.0", "0000:07:00.1"
BOCHS, FOREIGN = "1234:1111", "uio_pci_generic"
# What moves took, for docs/devices.md.
FIGURES = os.path.join(build_dir(), "vfio-figures")
FORWARD = {"detach": ["precheck", "reserve", "quiesce", "detach", "migrate", "attach", "resume", "verify", "release"],
           "native": ["precheck", "reserve", "migrate", "verify", "release"]}


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    need_image()
    made = VfioLab(tmp_path_factory.mktemp("vfio"))
    try:
        begin_hosts(made)
        yield made
    finally:
        made.close()
        tell(f"tests, and starts of hosts and guests, that were repeated since a kernel broke: {len(made.retried)}")
        for why in made.retried:
            tell(why)
        tell(f"times that a host stood still and was woken: {len(made.woken)}")
        for where in made.woken:
            tell(where)


def begin_hosts(lab):
    lab.boot()
    for host in lab.hosts.values():
        host.run(f"modprobe bochs; modprobe e1000e; udevadm settle; modprobe mbochs pci={MBOCHS_PARENT}; "
                 f"modprobe mtty pci={MTTY_PARENT}; modprobe mdpy pci={MDPY_PARENT}; modprobe {FOREIGN}; udevadm settle")
    lab.start_vgpuds()


@pytest.fixture
def guest(lab, request):
    name = "vm-" + re.sub("[^a-z]+", "-", request.node.name.removeprefix("test_")).strip("-")
    yield name
    if lab.has_ended():
        begin_again(lab, name, lab.why_broken(None))
    else:
        lab.remove_guest(name)


def begin_again(lab, guest, why):
    lab.retry(guest, why)
    if lab.has_ended():
        lab.close()
        begin_hosts(lab)
    else:
        lab.remove_guest(guest)


def again_if_broken(test):
    """Once more where the kernel of a host or of the guest has broken, which is a fault of the emulator (README)."""
    @functools.wraps(test)
    def run(lab, guest, **more):
        try:
            return test(lab, guest, **more)
        except (AssertionError, OSError):
            why = lab.why_broken(guest)
            if not why:
                raise
        begin_again(lab, guest, why)
        return test(lab, guest, **more)
    return run


def tell(line):
    with open(FIGURES, "a", encoding="utf-8") as file:
        file.write(line + "\n")


def go(lab, guest, source, target):
    """One move; its end."""
    there = lab.hosts[source]
    wait_for(lambda: there.knows(guest))
    end = there.ended(there.move(guest, target))
    took = {s["verb"]: (s["ended_ns"] - s["began_ns"]) / 1e9 for s in end["steps"]}
    tell(f"{guest}, {source} to {target}: {end['state']}, {end['mode']}; "
         + ", ".join(f"{verb} {took[verb]:.1f} s" for verb in ("detach", "migrate", "attach") if verb in took))
    return end


def check_arrived(lab, guest, move, mode="detach"):
    assert (move["state"], move["mode"]) == ("done", mode), (move["mode_why"], move["cause"], move["steps"])
    assert [s["verb"] for s in move["steps"] if s["verb"] != "look"] == FORWARD[mode]
    check_place(lab, guest, move["to"], mode)


def check_place(lab, guest, where, mode="detach"):
    assert lab.running_on(guest) == [where] and lab.defined_on(guest) == [where]
    for flags in ("", "--inactive"):
        assert ALIAS in lab.hosts[where].virsh(f"dumpxml {flags} {guest}")
    assert ("HOOK resume 0000:01:00.0" in lab.console(where, guest)) == (mode == "detach")
    for host in lab.hosts.values():
        assert host.get("/v1/reservations")["items"] == []


def there_and_back(lab, guest, why):
    """why: a part of the reason why QEMU does not take the device along, for each of the ways."""
    for (source, target), words in zip((("h1", "h2"), ("h2", "h1")), why):
        end = go(lab, guest, source, target)
        assert words in end["mode_why"]
        check_arrived(lab, guest, end)
        yield lab.hosts[source], lab.hosts[target]


@again_if_broken
def test_passed_through(lab, guest):
    """A card that a DRM driver of the host gives up for the VM and has again when the VM has gone. On the target
    somebody has bound it to another driver, with which nobody works."""
    lab.hosts["h2"].bind(CARD, FOREIGN)
    lab.start_guest("h1", guest, hostdev(CARD))
    for left, reached in there_and_back(lab, guest, ["bound to vfio-pci"] * 2):
        assert left.driver(CARD) == "bochs-drm" and reached.driver(CARD) == "vfio-pci"
        assert f"PCI add 0000:01:00.0 38000 {BOCHS}" in lab.console(reached.name, guest)
        wait_for(lambda reached=reached: reached.parts(CARD)["gpu"]["state"] == "used")
        wait_for(lambda left=left: left.parts(CARD)["gpu"]["state"] == "free")


NATIVE = override(x_device_dirty_page_tracking="off", enable_migration="on")
UNTRACKED = override(x_device_dirty_page_tracking="off")
# Debian's kernel cannot tell what a device writes. Where that is not wanted, QEMU is asked, which knows what
# the driver of the device lacks; when the device has been plugged in, it is wanted again.
NO_IOMMUFD, NO_MIGRATION = ["CONFIG_IOMMUFD"] * 2, ["VFIO migration is not supported in kernel", "does not have the"]


@pytest.mark.parametrize("parent, kind, more, why", [
    (MBOCHS_PARENT, "bochs-drm-small", "", NO_IOMMUFD),
    (MDPY_PARENT, "bochs-drm-vga", UNTRACKED, NO_MIGRATION)], ids=["mbochs", "mdpy"])
@again_if_broken
def test_mediated(lab, guest, parent, kind, more, why):
    """The target has none yet, and room: vgpud has one made there. Back again, that of the source does,
    which somebody else has made and vgpud left alone; its own one is removed."""
    first = lab.hosts["h1"].make_mdev(parent, kind)
    room = lab.hosts["h2"].parts(parent)[kind]["free"]
    lab.start_guest("h1", guest, mdev(first), override=more)
    moves = there_and_back(lab, guest, why)
    left, reached = next(moves)
    [made] = reached.mdevs()
    assert made in reached.virsh(f"dumpxml {guest}") and made != first
    wait_for(lambda: reached.parts(parent)[kind]["free"] < room)
    wait_for(lambda: left.parts(parent)["mdev"]["state"] == "free")
    left, reached = next(moves)
    assert left.mdevs() == [] and left.parts(parent)[kind]["free"] == room
    assert first in reached.virsh(f"dumpxml {guest}") and reached.mdevs() == [first]
    assert next(moves, None) is None


@again_if_broken
def test_not_managed(lab, guest):
    """Neither libvirt nor vgpud binds the card: whoever has the hosts does. Its class is not that of a GPU."""
    source, target = lab.hosts.values()
    source.bind(EDU, "vfio-pci")
    lab.start_guest("h1", guest, hostdev(EDU, managed="no"))
    wait_for(lambda: source.knows(guest))
    [problem] = source.move(guest, "h2", status=200, dry_run=True)["problems"]
    assert f"{EDU}: not bound to vfio-pci, and the VM's element has managed='no'" in problem
    target.bind(EDU, "vfio-pci")
    for left, reached in there_and_back(lab, guest, ["bound to vfio-pci"] * 2):
        assert left.driver(EDU) == reached.driver(EDU) == "vfio-pci"
        assert "PCI add 0000:01:00.0 FF00 1234:11E8" in lab.console(reached.name, guest)
        wait_for(lambda reached=reached: reached.parts(EDU)["gpu"]["state"] == "used")
        wait_for(lambda left=left: left.parts(EDU)["gpu"]["state"] == "free")


@again_if_broken
def test_virtual_function(lab, guest):
    """Of a card whose class is not that of a GPU, with two: one has the type of the other."""
    for host in lab.hosts.values():
        host.run(f"modprobe nvme; cd /sys/bus/pci/devices/{NVME}; echo 0 > sriov_drivers_autoprobe; "
                 "[ $(cat sriov_numvfs) = 2 ] || echo 2 > sriov_numvfs; udevadm settle")
        wait_for(lambda host=host: "vf" in host.parts(NVME))
        assert {p["type"] for p in host.get(f"/v1/gpus/{NVME}")["parts"] if p["kind"] == "vf"} == {"1b36:0010:vf2"}
        assert host.parts(NVME)["gpu"]["state"] == "divided"
    lab.start_guest("h1", guest, hostdev(VF))
    for left, reached in there_and_back(lab, guest, ["bound to vfio-pci"] * 2):
        assert left.driver(VF) == "none" and reached.driver(VF) == "vfio-pci"
        assert "PCI add 0000:01:00.0 10802 1B36:0010" in lab.console(reached.name, guest)


def last_tick(lab, host, guest):
    ticks = re.findall(r"^TICK (\d+)", lab.console(host, guest), re.MULTILINE)
    return int(ticks[-1]) if ticks else 0


def start_native(lab, guest):
    """With a mediated device whose state QEMU takes along; its UUID."""
    first = lab.hosts["h1"].make_mdev(MTTY_PARENT, "bochs-drm-2")
    lab.start_guest("h1", guest, mdev(first), override=NATIVE)
    return first


@again_if_broken
def test_native(lab, guest):
    """QEMU takes the state of mtty along, and the guest notices nothing. mtty cannot be used twice, so that the
    first one must be gone before the way back."""
    first = start_native(lab, guest)
    for source, target in (("h1", "h2"), ("h2", "h1")):
        left, reached = lab.hosts[source], lab.hosts[target]
        ticks = last_tick(lab, source, guest)
        check_arrived(lab, guest, go(lab, guest, source, target), "native")
        [made] = reached.mdevs()
        for flags in ("", "--inactive"):
            assert made in reached.virsh(f"dumpxml {flags} {guest}")
        wait_for(lambda: last_tick(lab, target, guest) > ticks)
        assert "PCI " not in lab.console(source, guest) + lab.console(target, guest)
        assert left.mdevs() == ([first] if source == "h1" else [])
        left.remove_mdevs()


def end_in_one_place(lab, guest, move, states=("rolled_back",), mode="detach"):
    """The guest continues where it was, with what it had, or on the target with what is there."""
    end = lab.hosts["h1"].ended(move)
    tell(f"{guest}: {end['state']}: {end['cause']}")
    assert (end["state"] in states, end["mode"]) == (True, mode), (end["state"], end["cause"], end["steps"])
    assert "left over" not in (end["cause"] or "")
    check_place(lab, guest, "h2" if end["state"] == "done" else "h1", mode)
    return end["state"] == "done"


def begin(lab, guest, until="migrating"):
    """A move from h1 to h2 that has come so far."""
    source = lab.hosts["h1"]
    wait_for(lambda: source.knows(guest))
    move = source.move(guest, "h2")

    def so_far():
        now = source.get("/v1/migrations/" + move["id"])
        assert not now["ended_ns"], (now["state"], now["mode_why"], now["cause"], now["steps"])
        return now["state"] == until
    wait_for(so_far, pause=0.1)
    return move


@pytest.mark.parametrize("kind", ["card", "mdev", "native"])
@again_if_broken
def test_vgpud_is_killed(lab, guest, kind):
    """While libvirt migrates the VM, which is without a GPU, or QEMU takes the state of it along. vgpud looks
    when it is there again: it takes the VM back, or goes on if the VM is on the target by then."""
    source, target = lab.hosts["h1"], lab.hosts["h2"]
    if kind == "native":
        start_native(lab, guest)
    else:
        lab.start_guest("h1", guest, hostdev(CARD) if kind == "card" else
                        mdev(source.make_mdev(MBOCHS_PARENT, "bochs-drm-small")))
    move = begin(lab, guest)
    if kind != "card":
        assert len(target.mdevs()) == 1
    source.stop_vgpud("KILL")
    source.start_vgpud()
    arrived = end_in_one_place(lab, guest, move, ("rolled_back", "done"), "native" if kind == "native" else "detach")
    if kind != "card":
        # What somebody else has made on the source stays.
        assert len(source.mdevs()) == 1 and len(target.mdevs()) == arrived
    else:
        drivers = [host.driver(CARD) for host in (source, target)]
        assert drivers == (["bochs-drm", "vfio-pci"] if arrived else ["vfio-pci", "bochs-drm"])


@again_if_broken
def test_libvirtd_of_the_target_is_killed(lab, guest):
    """While the VM comes, for which a mediated device was made."""
    source, target = lab.hosts["h1"], lab.hosts["h2"]
    lab.start_guest("h1", guest, mdev(source.make_mdev(MBOCHS_PARENT, "bochs-drm-small")))
    move = begin(lab, guest)
    target.restart_libvirtd("KILL")
    end_in_one_place(lab, guest, move)
    assert target.mdevs() == [] and len(source.mdevs()) == 1


def kill_libvirtd(source, target, move):
    del source, move
    target.restart_libvirtd("KILL")


def cut_cable(source, target, move):
    """Until libvirt has noticed."""
    target.plug_cable("down")
    try:
        wait_for(lambda: source.get("/v1/migrations/" + move["id"])["state"] != "migrating")
    finally:
        target.plug_cable("up")


@pytest.mark.parametrize("fault", [kill_libvirtd, cut_cable])
@again_if_broken
def test_native_fails(lab, guest, fault):
    """While QEMU sends the state: the guest goes on with its device, what was made for it on the target is
    removed, and the next try gets there."""
    source, target = lab.hosts["h1"], lab.hosts["h2"]
    first = start_native(lab, guest)
    source.virsh(f"migrate-setspeed {guest} 1")
    move = begin(lab, guest)
    wait_for(lambda: (source.get("/v1/migrations/" + move["id"])["progress"] or {}).get("remaining_bytes"))
    fault(source, target, move)
    end_in_one_place(lab, guest, move, mode="native")
    assert target.mdevs() == [] and source.mdevs() == [first]
    source.virsh(f"migrate-setspeed {guest} 1000")
    check_arrived(lab, guest, go(lab, guest, "h1", "h2"), "native")


@again_if_broken
def test_the_guest_does_not_unplug(lab, guest):
    """Its kernel does not listen to what QEMU asks for: the card stays, and nothing else is done."""
    lab.start_guest("h1", guest, hostdev(CARD), "acpiphp.disable=1")
    source = lab.hosts["h1"]
    wait_for(lambda: source.knows(guest))
    end_in_one_place(lab, guest, source.move(guest, "h2"))
    assert source.driver(CARD) == "vfio-pci" and lab.hosts["h2"].driver(CARD) == "bochs-drm"


@again_if_broken
def test_held_in_the_guest(lab, guest):
    """A program in there has the GPU open. The agent waits for it by name; an abort leaves all as it was. When the
    VM ends meanwhile, so does the move, and libvirtd goes on, which a word to the agent could have stopped."""
    source, target = lab.hosts["h1"], lab.hosts["h2"]
    lab.start_guest("h1", guest, mdev(source.make_mdev(MTTY_PARENT, "bochs-drm-2")), "hold=/dev/ttyS1")

    def begin_and_wait():
        move = begin(lab, guest, "quiescing")
        wait_for(lambda: "(sleep) has /dev/ttyS1" in (source.get("/v1/migrations/" + move["id"])["guest"]["doing"] or ""))
        return move
    move = begin_and_wait()
    source.post(f"/v1/migrations/{move['id']}/abort", {}, 202)
    end = source.ended(move)
    assert end["state"] == "aborted", (end["state"], end["cause"], end["steps"])
    check_place(lab, guest, "h1")
    move = begin_and_wait()
    source.virsh(f"destroy {guest}")
    end = source.ended(move)
    assert end["state"] == "failed" and "was closed" in end["cause"], (end["state"], end["cause"])
    assert lab.running_on(guest) == [] and lab.defined_on(guest) == ["h1"] and target.mdevs() == []


@again_if_broken
def test_vulkan(lab, guest):
    """A VM with Vulkan is not moved while it runs: a dry run says so, with QEMU's own reason and what can be done.
    That is done, and nothing speaks against the move any more."""
    source = lab.hosts["h1"]
    source.run("modprobe vgem; udevadm settle")
    lab.define_guest("h1", guest, "")
    path = f"/v1/vms/{guest}/vulkan"
    wait_for(lambda: source.request("POST", path, {"enabled": True, "dry_run": True})[0] == 200)
    source.vgpuctl(f"vulkan enable {guest} --hostmem 256M --yes")
    lab.start_defined("h1", guest)
    wait_for(lambda: source.knows(guest))
    said = " ".join(source.vgpuctl(f"migrate {guest} --to h2 --dry-run", check=False).split())
    tell(f"{guest}: {said}")
    for words in ("virtio-gpu with Venus cannot be migrated live", "QEMU says: virgl is not yet migratable",
                  "shut the VM down and start it on the other host", "`vgpuctl vulkan disable`"):
        assert words in said, (words, said)
    end = source.ended(source.move(guest, "h2"))
    assert end["state"] == "failed" and "virtio-gpu with Venus cannot be migrated live" in end["cause"], end
    assert lab.running_on(guest) == ["h1"]
    source.vgpuctl(f"vulkan disable {guest} --yes")
    source.virsh(f"destroy {guest}")
    lab.start_defined("h1", guest)
    wait_for(lambda: source.knows(guest))
    assert source.move(guest, "h2", 200, dry_run=True)["problems"] == []


def test_a_shared_group_is_told(lab):
    """The GPU is bound to its own driver and nobody works with it, but its neighbour has one, too."""
    for host in lab.hosts.values():
        assert host.driver(NEIGHBOUR) == "e1000e"
        # vgpud has not asked libvirt yet, and libvirt tells of the driver when udev has.
        wait_for(lambda host=host: host.request("GET", f"/v1/gpus/{SHARED}")[0] == 200)
        wait_for(lambda host=host: NEIGHBOUR in (host.parts(SHARED)["gpu"]["why"] or ""))
        part = host.parts(SHARED)["gpu"]
        assert part["state"] == "host" and part["free"] == 0
        assert f"{NEIGHBOUR} (network) is bound to e1000e, and is in the same IOMMU group" in part["why"]


def test_doctor(lab):
    """Of a shared group, a card without room for another mediated device, and one without a driver."""
    host = lab.hosts["h2"]
    assert host.doctor()[CARD]["state"] == "ok"
    assert f"{NEIGHBOUR}, bound to e1000e, is in the same IOMMU group" in host.doctor()[SHARED]["why"]
    host.run(f"echo {OTHER_CARD} > /sys/bus/pci/drivers/bochs-drm/unbind; "
             f"cd /sys/bus/pci/devices/{MTTY_PARENT}/mdev_supported_types/bochs-drm-1; "
             "while [ $(cat available_instances) != 0 ]; do cat /proc/sys/kernel/random/uuid > create; done")
    try:
        told = host.doctor()
        assert "no capacity for another mediated device" in told[MTTY_PARENT]["why"]
        assert told[MTTY_PARENT]["mend"] == "mdevctl list"
        assert "no driver is bound to it" in told[OTHER_CARD]["why"]
        assert told[OTHER_CARD]["mend"] == f"lspci -k -s {OTHER_CARD}"
    finally:
        host.run(f"echo {OTHER_CARD} > /sys/bus/pci/drivers_probe")
        host.remove_mdevs()
    told = host.doctor()
    assert told[MTTY_PARENT]["state"] == told[OTHER_CARD]["state"] == "ok"


def test_doctor_without_iommu(lab):
    """A host whose kernel does not use it."""
    host = lab.bare_host("off")
    try:
        told = host.doctor()[CARD]
        assert told["state"] == "lacks" and "the kernel has no IOMMU for it" in told["why"]
        assert told["mend"] == "journalctl -k -g 'DMAR|AMD-Vi|IOMMU'"
    finally:
        host.close()


@again_if_broken
def test_nothing_is_free(lab, guest):
    """On the target programs hold all cards but the one in a shared group, one by a driver that is no GPU's:
    all are named, nothing is done."""
    lab.start_guest("h1", guest, hostdev(CARD))
    target = lab.hosts["h2"]
    wait_for(lambda: lab.hosts["h1"].knows(guest))
    target.bind(OTHER_CARD, FOREIGN)
    target.run("for card in /dev/dri/card* /dev/uio0; do sleep 100000 < $card > /dev/null 2>&1 & echo $!; done > /tmp/holders")
    try:
        problems = " ".join(lab.hosts["h1"].move(guest, "h2", status=200, dry_run=True)["problems"])
        assert f"no GPU {BOCHS} is free" in problems
        assert f"{CARD}: bound to bochs-drm, and in use by sleep" in problems
        assert f"{OTHER_CARD}: bound to {FOREIGN}, and in use by sleep" in problems
    finally:
        target.run("kill $(cat /tmp/holders)")
        target.bind(OTHER_CARD, "")
    assert lab.running_on(guest) == ["h1"], lab.hosts["h1"].run(f"virsh domstate --reason {guest}; tail -n 3 "
                                                                f"/var/log/libvirt/qemu/{guest}.*")
    assert lab.hosts["h1"].driver(CARD) == "vfio-pci"


@again_if_broken
def test_taken_meanwhile(lab, guest):
    """Somebody takes the group of the target's card after vgpud has reserved it: it cannot be plugged in,
    and the VM goes back to the card that it had."""
    lab.start_guest("h1", guest, hostdev(CARD))
    source, target = lab.hosts["h1"], lab.hosts["h2"]
    move = begin(lab, guest)
    target.run(f"cd /sys/bus/pci/devices/{CARD}; echo {CARD} > driver/unbind; echo vfio-pci > driver_override; "
               f"echo {CARD} > /sys/bus/pci/drivers_probe; "
               "sleep 100000 <> /dev/vfio/$(basename $(readlink iommu_group)) > /dev/null 2>&1 & "
               "echo $! > /tmp/holders")
    try:
        end = source.ended(move)
        assert end["state"] == "rolled_back" and "attach" in end["cause"], (end["cause"], end["steps"])
        tell(f"{guest}: {end['cause']}")
        check_place(lab, guest, "h1")
        assert source.driver(CARD) == "vfio-pci"
    finally:
        target.run(f"kill $(cat /tmp/holders); cd /sys/bus/pci/devices/{CARD}; echo > driver_override; "
                   f"echo {CARD} > driver/unbind; echo {CARD} > /sys/bus/pci/drivers_probe")
    assert target.driver(CARD) == "bochs-drm"
