# SPDX-License-Identifier: Apache-2.0
"""Guests that use Vulkan by Venus, in an emulated host (README) whose libvirt keeps its sandbox.
Not named test_*: runs only when it is asked for (tools/check --vfio)."""
import json

import pytest
from vfiolab import need_image, wait_for
from vulkanlab import HOSTMEM, VulkanLab

pytestmark = [pytest.mark.host, pytest.mark.xdist_group("vfio")]

# What two guests take while they are watched, and how much vgpud may tell otherwise than the kernel.
WATCHED_CPU_S, AGREE = 30, 0.02
# Of what is at rest: a timer may still wake somebody.
REST_S = 0.005
# What the first guest does all the time, and the second one for a part of it.
GUESTS = {"vm-much": "load 1000 0", "vm-little": "load 200 600"}


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    need_image()
    made = VulkanLab(tmp_path_factory.mktemp("vulkan"))
    try:
        made.boot()
        made.start_vgpud()
        yield made
    finally:
        made.close()
        for why in made.retried:
            print("once more with", why)


def enable(lab, guest, *words):
    return json.loads(lab.host.vgpuctl(f"vulkan enable {guest} --hostmem {HOSTMEM} --loosen-sandbox -o json "
                                       + " ".join(words)))


def test_there_and_back(lab):
    """The definition is what it was, to the letter, and a dry run changes nothing."""
    lab.define("vm-back", "load 1 1")
    before = lab.definition("vm-back")
    would = enable(lab, "vm-back", "--dry-run")
    assert lab.definition("vm-back") == before
    done = enable(lab, "vm-back", "--yes")
    assert done["changed"] and not done["running"] and "any host program" in done["notes"][0]
    # What libvirt adds to a video card is not known before.
    assert {line for line in would["changes"] if "<model " not in line} <= set(done["changes"])
    assert "vgpud/spawn/qemu-system-x86_64" in lab.definition("vm-back")
    assert not enable(lab, "vm-back", "--yes")["changed"]
    lab.host.vgpuctl("vulkan disable vm-back --yes")
    assert lab.definition("vm-back") == before
    lab.host.virsh("undefine vm-back")


def at_rest(lab):
    """Guest to seconds that vgpud tells, and the kernel, while the guests are suspended and all that they have asked
    for is done: however late windows and answers are, both tell of the same."""
    for guest in GUESTS:
        lab.host.virsh(f"suspend {guest}")

    def read():
        return lab.busy(), lab.schedstats()[0]

    def same():
        seq, before = lab.host.get("/v1/host")["measurement"]["seq"], read()
        wait_for(lambda: lab.host.get("/v1/host")["measurement"]["seq"] >= seq + 3)
        after = read()
        rests = all(after[1][guest] - before[1][guest] < REST_S for guest in GUESTS)
        return after if rests and after[0] == before[0] else None
    at = wait_for(same)
    for guest in GUESTS:
        lab.host.virsh(f"resume {guest}")
    return at


def watch(lab):
    """Guest to seconds that vgpud tells more, and the kernel, over some work."""
    told, ran = at_rest(lab)
    wait_for(lambda: sum(lab.schedstats()[0].values()) > sum(ran.values()) + WATCHED_CPU_S, pause=2)
    told_after, ran_after = at_rest(lab)
    return ({guest: told_after[guest] - told[guest] for guest in told},
            {guest: ran_after[guest] - ran[guest] for guest in ran})


def test_two_guests(lab):
    """vgpud tells who takes how much as the kernel does; what a guest is, and why it does not move; and a guest
    that is killed leaves nothing."""
    for guest, work in GUESTS.items():
        lab.define(guest, work)
        enable(lab, guest, "--yes")
        lab.start(guest, "LOADING")
        assert "DEVICE Virtio-GPU Venus (llvmpipe" in lab.told(guest)
    processes = lab.schedstats()[1]
    for guest in GUESTS:
        assert {comm for name, comm in processes if name == guest} >= {"virgl_render_se"}
    wait_for(lambda: set(lab.busy()) == set(GUESTS))

    told, ran = watch(lab)
    shares = {guest: told[guest] / sum(told.values()) for guest in GUESTS}
    wanted = {guest: ran[guest] / sum(ran.values()) for guest in GUESTS}
    print(f"seconds that vgpud tells: {told}; that the kernel tells: {ran}")
    assert wanted["vm-much"] > 1.2 * wanted["vm-little"], wanted
    for guest in GUESTS:
        assert abs(shares[guest] - wanted[guest]) <= AGREE, (shares, wanted)
        assert abs(told[guest] / ran[guest] - 1) <= 3 * AGREE, (told, ran)

    shown = lab.host.vgpuctl("vm show vm-much")
    assert "virtio-gpu: Vulkan (Venus), the guest can map 256 MiB of the host (hostmem)" in shown, shown
    assert "movable: no, because - virtio-gpu with Venus cannot be migrated live" in " ".join(shown.split()), shown
    assert "QEMU says: virgl is not yet migratable" in " ".join(shown.split()), shown

    lab.host.run("kill -9 $(pgrep -f 'qemu-system-x86_64 -name guest=vm-much,')")
    wait_for(lambda: lab.host.virsh("domstate vm-much").strip() == "shut off")
    wait_for(lambda: {name for name, _ in lab.schedstats()[1]} == {"vm-little"})
    wait_for(lambda: not lab.host.knows("vm-much") and set(lab.busy()) == {"vm-little"})
    lab.host.virsh("destroy vm-little")
    # No render server is left to somebody else, either.
    wait_for(lambda: lab.host.run("pgrep -c virgl", check=False).split()[0] == "0")
    wait_for(lambda: not lab.busy())
    # What was held is held no longer, since the start as in the newest window.
    told = lab.host.get("/v1/gpus/venus")
    assert [(row["mem_bytes"], row.get("contexts")) for row in told["engines"]] == [(0, None)], told["engines"]
    assert told["engines"][0]["mem_peak_bytes"] > 0 and told["vms"] == [], told
