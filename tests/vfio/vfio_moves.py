# SPDX-License-Identifier: Apache-2.0
"""vgpuds move VMs with devices that the kernel's VFIO gives them, between two emulated hosts (README).
Not named test_*: runs only when it is asked for (tools/check --vfio)."""
import subprocess
import uuid

import pytest
import vfiolab
from unixhttp import wait_for
from vfiolab import ALIAS, IMAGE, VfioLab, console_path, hostdev, mdev

pytestmark = [pytest.mark.host, pytest.mark.xdist_group("vfio")]

# host.sh, boot.
CARD, OTHER_CARD, MBOCHS_PARENT, MTTY_PARENT = (f"0000:0{bus}:00.0" for bus in range(1, 5))
SHARED, NEIGHBOUR = "0000:05:00.0", "0000:05:00.1"
BOCHS = "1234:1111"
FORWARD = ["precheck", "reserve", "quiesce", "detach", "migrate", "attach", "resume", "verify", "release"]


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    done = subprocess.run([IMAGE, "build"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode == 77:
        pytest.skip(done.stdout.splitlines()[-1])
    assert done.returncode == 0, done.stdout[-3000:]
    made = VfioLab(tmp_path_factory.mktemp("vfio"))
    try:
        for host in made.hosts.values():
            host.run("modprobe bochs; udevadm settle")
        made.start_vgpuds()
        yield made
        print(f"starts of guests that were repeated: {made.retried}")
    finally:
        made.close()


@pytest.fixture
def guest(lab, request):
    name = "vm-" + request.node.name.split("[")[0].removeprefix("test_").replace("_", "-")
    yield name
    lab.remove_guest(name)


def figures(what, move):
    took = {s["verb"]: (s["ended_ns"] - s["began_ns"]) / 1e9 for s in move["steps"] if s["verb"] != "look"}
    print(what, move["from"], "->", move["to"], " ".join(f"{verb} {s:.1f}" for verb, s in took.items()))


def go(lab, guest, source, target):
    """One move, whose end it returns."""
    there = lab.hosts[source]
    wait_for(lambda: there.knows(guest), pause=0.2)
    return there.ended(there.move(guest, target))


def check_arrived(lab, guest, move):
    assert move["state"] == "done", (move["cause"], move["steps"])
    assert [s["verb"] for s in move["steps"] if s["verb"] != "look"] == FORWARD
    target = move["to"]
    assert lab.running_on(guest) == [target] and lab.defined_on(guest) == [target]
    assert ALIAS in lab.hosts[target].virsh(f"dumpxml {guest}")
    for host in lab.hosts.values():
        assert host.get("/v1/reservations")["items"] == []


def driver(host, address):
    return host.run(f"basename $(readlink /sys/bus/pci/devices/{address}/driver) 2> /dev/null || echo none").strip()
