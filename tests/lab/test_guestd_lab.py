# SPDX-License-Identifier: Apache-2.0
"""vgpu-guestd in a guest of a real QEMU, which moves from one libvirtd to another (tests/lab/lab.sh)."""
import os
import re

import pytest
from guestd import LONG_MS, Host
from labdaemon import init_of
from labhost import ENV, lab
from unixhttp import wait_for

# One after the other: they share the directory of the lab.
pytestmark = [pytest.mark.xdist_group("lab"), pytest.mark.drawn("lab")]
GUEST = "guest1"
# What gpu.xml and guest.xml.in say: slot 0 of bus 1, which is behind slot 3 of bus 0. The guest has
# another number for that bus.
GPU = {"path": "0000:00/03.0/00.0", "vendor": "0x1af4", "device": "0x1110"}
ADDRESS = "0000:02:00.0"


def agent(host):
    """By a path to QEMU's socket that is short enough however deep this tree lies."""
    xml = lab("virsh", host, "dumpxml", GUEST).stdout
    path = re.search(r"path='(/\S*/org\.vgpud\.guest\.0)'", xml)[1]
    directory = os.open(f"/proc/{init_of(host)}/root{os.path.dirname(path)}", os.O_PATH)
    try:
        return Host(f"/proc/self/fd/{directory}/{os.path.basename(path)}")
    finally:
        os.close(directory)


def tell(host, line):
    """To what stands in for the guest's programs."""
    return lab("tell", host, GUEST, line).stdout.split()


def console(host):
    path = os.path.join(ENV["LAB_DIR"], host, "log", "qemu", f"{GUEST}.console")
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read()


def has_gpu(host):
    return "ua-gpu0" in lab("virsh", host, "dumpxml", GUEST).stdout


def is_on(host):
    return GUEST in lab("virsh", host, "-q", "list", "--name").stdout.split()


def held(asked):
    """The error at a deadline that leaves the guest time for its hook."""
    deadline_ms, done = 1000, {"code": "timeout"}
    while done.get("code") == "timeout" and deadline_ms < LONG_MS:
        done = asked.ask("prepare", deadline_ms=deadline_ms, devices=[GPU])
        deadline_ms *= 4
    return done


@pytest.fixture(name="guest", scope="module")
def a_guest(host):
    lab("guest", host, GUEST)
    try:
        yield host
    finally:
        for somewhere in (host, "h2"):
            lab("virsh", somewhere, "-q", "destroy", GUEST, check=False)
            lab("virsh", somewhere, "-q", "undefine", GUEST, check=False)


def test_silent_host_costs_nothing(guest):
    """Nobody is on the host's side, which poll() says again and again."""
    def ticks():
        return int(tell(guest, "ticks")[1])

    with agent(guest):
        pass
    before = ticks()
    # In the guest's own time.
    tell(guest, "pause 3")
    # Three seconds have 300.
    assert ticks() - before < 60
    with agent(guest) as asked:
        assert asked.greeting["type"] == "hello"


def test_move(guest):
    """The last one: it leaves the guest on the other host."""
    lab("gpu", guest, "attach", GUEST)
    with agent(guest) as asked:
        assert asked.greeting["providers"] == ["hooks", "units", "opencl", "cuda"]
        boot_id = asked.greeting["boot_id"]
        done = asked.ask("resume", deadline_ms=LONG_MS, devices=[GPU])
        assert done["type"] == "resumed", done
        assert done["devices"] == [{**GPU, "address": ADDRESS, "driver": None}]

        # A program has it: it stays, and whoever stopped for it goes on.
        pid = int(tell(guest, "hold")[2])
        done = held(asked)
        assert (done["code"], done["undone"]) == ("held", True), done
        [holder] = done["holders"]
        assert (holder["pid"], holder["comm"]) == (pid, "sleep")
        assert holder["path"].endswith(f"/0000:00:03.0/{ADDRESS}/resource2")
        assert re.search("HOOK prepare .*HOOK resume ", console(guest), re.S)

        # It goes while it is waited for.
        number = asked.request("prepare", deadline_ms=LONG_MS, devices=[GPU])
        assert asked.until_step("holders")["holders_total"] == 1
        tell(guest, "drop")
        done = asked.answer(number)
        assert done["type"] == "prepared", done
        assert done["ram_bytes"] > 0
    lab("gpu", guest, "detach", GUEST)
    wait_for(lambda: not has_gpu(guest), pause=0.1)
    wait_for(lambda: f"PCI remove {ADDRESS}" in console(guest), pause=0.1)
    lab("migrate", guest, "h2", GUEST)
    assert is_on("h2") and not is_on(guest)

    # The same agent, with another host.
    with agent("h2") as asked:
        assert (asked.greeting["state"], asked.greeting["boot_id"]) == ("prepared", boot_id)
        # Whoever has lost the answer has it again.
        again = asked.ask("prepare", id=number, deadline_ms=LONG_MS, devices=[GPU])
        assert again == done
        number = asked.request("resume", deadline_ms=LONG_MS, devices=[GPU])
        assert asked.until_step("device")["code"] == "not-found"
        lab("gpu", "h2", "attach", GUEST)
        done = asked.answer(number)
        assert (done["type"], done["already"]) == ("resumed", False), done
        assert [hook["name"] for hook in done["hooks"]] == ["10-lab"]
    assert f"HOOK resume {ADDRESS}" in console("h2")
    tell("h2", "hold")
