# SPDX-License-Identifier: Apache-2.0
"""VMs with mediated devices move between two libvirt hosts with two GPUs each: the GPU that a plan or a request
names is the one that the VM has afterwards."""
import os
import re
from concurrent.futures import ThreadPoolExecutor

import pytest
from draining import bring_back, drain_of, plan_of
from labhost import BUILD, LAB, lab
from movelab import remove_guest, run, running_on, start_guest
from patience import knows
from settings import full, random_of
from unixhttp import wait_for

pytestmark = [pytest.mark.xdist_group("lab"), pytest.mark.usefixtures("guest0")]
HOSTS = ("h1", "h2")
FIRST, SECOND = "0000:41:00.0", "0000:42:00.0"
KIND = "nvidia-230"
# The mediated devices of each host, by the last digit of their UUIDs. The second GPU of h2 has only one.
LAYOUT = {"h1": {1: FIRST, 2: FIRST, 3: SECOND, 4: SECOND}, "h2": {5: FIRST, 6: FIRST, 7: SECOND}}
UUID = "00000000-0000-4000-a000-00000000000%d"
GUESTS = {"card0": 1, "card1": 2}
HOSTDEV = ("<hostdev mode='subsystem' type='mdev' managed='no' model='vfio-pci'><source><address uuid='%s'/></source>"
           "<alias name='ua-card'/><address type='pci' domain='0x0000' bus='0x01' slot='0x00' function='0x0'/></hostdev>")


def set_room(host, n):
    for gpu in (FIRST, SECOND):
        lab("exec", host, "sh", "-c", f"echo {n} > /sys/class/mdev_bus/{gpu}/mdev_supported_types/{KIND}/"
            "available_instances")


def restart_libvirt(host):
    lab("daemon", host, "stop")
    lab("daemon", host, "start")


@pytest.fixture(scope="module", autouse=True)
def mdevs(host):
    """Before the vgpuds start. No GPU has room for further ones."""
    del host
    library, script = os.path.join(BUILD, "tests", "lab", "fake-vfio.so"), os.path.join(os.path.dirname(LAB), "fake-mdev")
    with open(library, "rb") as file:
        if re.search(rb"__[at]san_init", file.read()):
            pytest.skip("a library that is built with sanitizers cannot be preloaded into QEMU")
    for name, devices in LAYOUT.items():
        lab("exec", name, "cp", library, "/run/fake-vfio.so")
        set_room(name, 0)
        for n, gpu in devices.items():
            lab("exec", name, "bash", script, UUID % n, gpu, KIND, str(10 + n))
        restart_libvirt(name)
    yield
    for name in LAYOUT:
        lab("exec", name, "bash", script, "--clear")
        lab("exec", name, "rm", "/run/fake-vfio.so")
        set_room(name, 16)
        restart_libvirt(name)


@pytest.fixture(scope="module")
def guests(mdevs, movelab):
    del mdevs
    for guest, n in GUESTS.items():
        start_guest("h1", guest, gpu=False, devices=HOSTDEV % (UUID % n))
        knows(movelab, "h1", guest)
    yield list(GUESTS)
    for guest in GUESTS:
        remove_guest(guest)


def card_of(host, guest):
    """The GPU of the only mediated device in the VM's XML."""
    [number] = re.findall(f"uuid='{UUID[:-2]}(.)'", lab("virsh", host, "dumpxml", guest).stdout)
    return LAYOUT[host][int(number)]


def request(host, guest, to):
    return [{"type": KIND, "from": card_of(host, guest), "to": to}]


def move_both(movelab, source, cards):
    """Both VMs, at the same moment, each to the GPU that is named; the moves, once they have ended."""
    node, target = movelab.nodes[source], HOSTS[1 - HOSTS.index(source)]
    for guest in cards:
        knows(movelab, source, guest)
    bodies = {guest: request(source, guest, card) for guest, card in cards.items()}
    with ThreadPoolExecutor(len(cards)) as pool:
        begun = list(pool.map(lambda guest: node.daemon.post("/v1/migrations", {
            "vm": guest, "to": target, "gpus": bodies[guest]}), cards))
    return {guest: node.ended(answer) if status == 201 else answer
            for guest, (status, _, answer) in zip(cards, begun)}


def test_the_named_gpu_is_the_one_in_the_xml(movelab, guests):
    """Two moves that reserve at the same moment, there and back; twenty moves in full."""
    rng = random_of("cards")
    for n in range(10 if full() else 2):
        source, target = HOSTS[n % 2], HOSTS[1 - n % 2]
        # All of the GPUs have a place for both, except the last one.
        cards = [(FIRST, FIRST), (FIRST, SECOND), (SECOND, FIRST), (SECOND, SECOND)]
        cards = dict(zip(guests, rng.choice(cards[:3] if target == "h2" else cards)))
        moves = move_both(movelab, source, cards)
        for guest, card in cards.items():
            assert moves[guest].get("state") == "done", moves[guest]
            assert running_on(guest) == [target] and card_of(target, guest) == card, cards
    for node in movelab.nodes.values():
        assert node.reservations() == []


@pytest.mark.drawn("lab")
def test_one_place_for_two_moves(movelab, guests):
    """Both name the GPU that has one mediated device left. One of them gets it; the other stays where it was."""
    for guest in guests:
        bring_back(movelab, guest)
    before = {guest: card_of("h1", guest) for guest in guests}
    moves = move_both(movelab, "h1", dict.fromkeys(guests, SECOND))
    [winner] = [guest for guest in guests if moves[guest].get("state") == "done"]
    [loser] = [guest for guest in guests if guest != winner]
    assert card_of("h2", winner) == SECOND and running_on(winner) == ["h2"]
    assert running_on(loser) == ["h1"] and card_of("h1", loser) == before[loser]
    assert f"is free of the GPU {SECOND}" in str(moves[loser]), moves[loser]


@pytest.mark.drawn("lab")
def test_a_drain_uses_the_gpus_of_its_plan(movelab, guests):
    """Its plan names the GPU of each VM. The request of each move repeats it."""
    here, there = movelab.nodes["h1"], movelab.nodes["h2"]
    for _ in range(5 if full() else 1):
        for guest in guests:
            bring_back(movelab, guest)
            knows(movelab, "h1", guest)
        movelab.meet()

        def planned():
            vms = {vm["vm"]: vm for vm in plan_of(there)["vms"]}
            return vms if all(vms.get(guest, {}).get("gpus") for guest in guests) else None
        plan = wait_for(planned)
        assert {plan[guest]["gpus"][0]["to"] for guest in guests} <= {FIRST, SECOND}
        run(there, "host", "drain", "h1", "--wait")
        vms = {vm["vm"]: vm for vm in drain_of(there)["vms"]}
        for guest in guests:
            [device] = here.migration({"id": vms[guest]["migration"]})["devices"]
            assert vms[guest]["step"] == "moved" and card_of("h2", guest) == device["target_gpu"], vms[guest]
        run(there, "host", "undrain", "h1")
        wait_for(lambda: not here.daemon.get("/v1/snapshot")["hosts"][0]["maintenance"])
    bring_back(movelab, "guest0")
