# SPDX-License-Identifier: Apache-2.0
"""libvirt's modular daemons (tests/lab/modular-libvirt): one hangs or is restarted while a VM moves, and `vgpuctl doctor`
names the one that does not answer. tools/check --full runs this and other files of the lab with LAB_LIBVIRT."""
import json

import pytest
import vgpuctl
from labhost import DAEMONS, ENV, lab, set_instances
from patience import PHASES, SLOW, check_end, check_hang, hanging, knows, reached
from settings import HANG_S
from unixhttp import wait_for

# One after the other: they share the directory of the lab.
pytestmark = [pytest.mark.xdist_group("lab"),
              pytest.mark.skipif(not ENV.get("LAB_LIBVIRT"), reason="LAB_LIBVIRT names no modular libvirt")]
GUEST = "modular"
HOSTS = ("source", "target")


@pytest.mark.drawn("modular")
@pytest.mark.parametrize("whose", HOSTS)
@pytest.mark.parametrize("phase", PHASES)
@pytest.mark.parametrize("name", DAEMONS)
def test_one_hangs_in(movelab, way, guest, name, phase, whose):
    check_hang(movelab, way, guest, phase, whose, name)


@pytest.mark.drawn("modular")
@pytest.mark.parametrize("whose", HOSTS)
@pytest.mark.parametrize("phase", PHASES)
@pytest.mark.parametrize("name", DAEMONS)
def test_one_is_restarted_in(movelab, way, guest, name, phase, whose):
    """The VM is on one host in the end, with its GPU."""
    source, target = way
    node = movelab.nodes[source]
    node.reload(SLOW)
    move = node.move(guest, target)
    reached(node, move, phase)
    host = source if whose == "source" else target
    lab("daemon", host, "stop", name)
    lab("daemon", host, "start", name)

    def done():
        # libvirt 9.0's virtqemud sometimes crashes after this. On a host, systemd starts it again.
        for each in way:
            lab("daemon", each, "start")
        now = node.migration(move)
        return now if now["ended_ns"] else None
    check_end(movelab, guest, wait_for(done, HANG_S, pause=0.5))


@pytest.mark.drawn("modular")
@pytest.mark.parametrize("name", DAEMONS)
def test_doctor_names_the_one_that_hangs(movelab, way, guest, name):
    """The others answer, and vgpud, too."""
    node = movelab.nodes[way[0]]
    assert doctor(node) == dict.fromkeys(DAEMONS, "ok")
    with hanging(node.host, name):
        found = doctor(node)
    assert found == {**dict.fromkeys(DAEMONS, "ok"), name: "broken"}
    knows(movelab, node.host, guest)
    assert doctor(node) == dict.fromkeys(DAEMONS, "ok")


def doctor(node):
    """The daemons' states, on the host."""
    done = lab("exec", node.host, vgpuctl.program(), "doctor", "-o", "json", "--socket", node.daemon.socket, check=False)
    checks = {check["what"]: check for check in json.loads(done.stdout)["checks"]}
    for name in DAEMONS:
        if checks[name]["state"] == "broken":
            assert checks[name]["mend"] == f"systemctl restart {name}"
    return {name: checks[name]["state"] for name in DAEMONS}


@pytest.mark.drawn("modular")
def test_devices_after_a_restart_of_virtnodedevd(movelab):
    """virtqemud keeps its lost connection to it for a client; vgpud then needs a new one."""
    daemon = movelab.nodes["h1"].daemon

    def available():
        gpus = daemon.get("/v1/host")["gpus"]
        return gpus[1]["mdev_types"][0]["available"] if len(gpus) == 2 else None
    wait_for(lambda: available() == 16)
    lab("daemon", "h1", "stop", "virtnodedevd")
    lab("daemon", "h1", "start", "virtnodedevd")
    try:
        set_instances(5)
        wait_for(lambda: available() == 5)
    finally:
        set_instances(16)
    wait_for(lambda: available() == 16)
    assert daemon.part("collector:libvirt")["state"] == "ok"
