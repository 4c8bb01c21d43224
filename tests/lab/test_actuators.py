# SPDX-License-Identifier: Apache-2.0
"""The verbs of a move between two hosts with real libvirtds and QEMUs (tests/lab/lab.sh)."""
import contextlib
import json
import os
import re
import subprocess

import pytest
from labhost import BUILD, ENV, LAB, lab
from settings import HANG_S
from unixhttp import wait_for

# One after the other: they share the directory of the lab.
pytestmark = [pytest.mark.xdist_group("lab"), pytest.mark.drawn("lab")]
MOVE = os.path.join(BUILD, "tests", "tools", "move-verb")
GUESTD = os.path.join(BUILD, "vgpu-guestd")
GPU_XML = os.path.join(os.path.dirname(LAB), "gpu.xml")
NAMED = ("-n", f"gpu0={GPU_XML}")
GUEST = "mover"
HERE, H1, H2 = "qemu:///system", "qemu+tcp://h1/system", "qemu+tcp://h2/system"
# enum vg_error_code
NOT_FOUND, TIMEOUT, EXTERNAL, CONFLICT, UNREACHABLE = 1, 5, 7, 8, 9


class Verb:
    """move-verb inside of a host."""

    def __init__(self, host, *args, devices=()):
        self.process = subprocess.Popen(
            ["bash", LAB, "exec", host, MOVE, *args], env=ENV, text=True, stdin=subprocess.PIPE,
            stdout=subprocess.PIPE)
        self.lines = []
        if devices:
            self.process.stdin.write(json.dumps(devices))
        self.process.stdin.close()

    def until(self, what):
        """The next line that has this."""
        for line in self.process.stdout:
            self.lines.append(json.loads(line))
            if what in self.lines[-1]:
                return self.lines[-1][what]
        raise AssertionError(f"no {what} in {self.lines}")

    def end(self):
        """The last line."""
        self.lines += [json.loads(line) for line in self.process.stdout]
        self.process.wait(HANG_S)
        self.process.stdout.close()
        assert self.lines, "it printed nothing"
        last = self.lines[-1]
        assert self.process.returncode == (0 if last["ok"] else 1), last
        return last

    def texts(self):
        return [line["text"] for line in self.lines if "text" in line]


def verb(host, *args, devices=()):
    return Verb(host, *args, devices=devices).end()


def done(host, *args, devices=()):
    last = verb(host, *args, devices=devices)
    assert last["ok"], last
    return last


def look(host, uuid, *aliases, uri=HERE):
    last = done(host, uri, "look", uuid, *aliases)
    return last["place"], last["defined"], last["present"]


def gpus(host, uuid):
    return done(host, *NAMED, HERE, "gpus", uuid)["devices"]


def inactive(host, name):
    return lab("virsh", host, "dumpxml", name, "--inactive").stdout


def console(host, name):
    path = os.path.join(ENV["LAB_DIR"], host, "log", "qemu", f"{name}.console")
    if not os.path.exists(path):
        return ""
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read()


def forget(name):
    for host in ("h1", "h2"):
        lab("virsh", host, "-q", "destroy", name, check=False)
        lab("virsh", host, "-q", "undefine", name, check=False)


@contextlib.contextmanager
def domain(host, name, xml, *options):
    """A transient domain; its XML is that of the lab's guest, changed."""
    path = os.path.join(ENV["LAB_DIR"], host, "lib", f"{name}.xml")
    with open(path, "w", encoding="utf-8") as file:
        file.write(xml)
    try:
        lab("virsh", host, "-q", "create", f"/var/lib/libvirt/{name}.xml", *options)
        yield lab("virsh", host, "-q", "domuuid", name).stdout.strip()
    finally:
        forget(name)


def variant(name, uuid, *changes):
    """The XML of the lab's guest under another name, with (this, replaced by that)."""
    xml = inactive("h1", GUEST)
    for old, new in ((f"<name>{GUEST}<", f"<name>{name}<"), (f"{GUEST}.console", f"{name}.console"),
                     (re.search("<uuid>(.*)</uuid>", xml)[1], uuid), *changes):
        assert old in xml, (old, xml)
        xml = xml.replace(old, new, 1)
    return xml


@pytest.fixture(name="uuid", scope="module")
def a_guest(host):
    if not os.access(MOVE, os.X_OK):
        pytest.skip(f"{MOVE} is not built")
    lab("guest", host, GUEST)
    try:
        yield lab("virsh", host, "-q", "domuuid", GUEST).stdout.strip()
    finally:
        forget(GUEST)


@pytest.fixture(name="devices")
def a_gpu(uuid):
    """On h1, with the guest; both are there again in the end."""
    lab("gpu", "h1", "attach", GUEST)
    yield gpus("h1", uuid)
    last = verb("h1", HERE, "detach", uuid, devices=gpus("h1", uuid))
    assert last["ok"], last


def test_off_and_on(uuid, devices):
    [gpu] = devices
    assert (gpu["kind"], gpu["type"], gpu["alias"]) == ("named", "gpu0", "ua-gpu0")
    assert gpu["guest_address"] == "0000:01:00.0"
    # The slot of the root port that makes bus 1, and the device's.
    port = re.search(r"<controller type='pci' index='1'.*?<address .*? slot='0x(..)' function='0x(.)'",
                     inactive("h1", GUEST), re.S)
    assert gpu["guest_path"] == f"0000:00/{port[1]}.{port[2]}/00.0"
    assert not gpu["persistent"]
    assert look("h1", uuid, "ua-gpu0", "ua-gpu1") == ("here", True, 1)

    done("h1", HERE, "detach", uuid, devices=devices)
    assert look("h1", uuid, "ua-gpu0") == ("here", True, 0)
    assert gpus("h1", uuid) == []
    done("h1", HERE, "detach", uuid, devices=devices)
    # Also in the definition from now on.
    for _ in range(2):
        done("h1", HERE, "attach", uuid, devices=[{**gpu, "persistent": True}])
        assert look("h1", uuid, "ua-gpu0") == ("here", True, 1)
        assert inactive("h1", GUEST).count("ua-gpu0") == 1
    devices = gpus("h1", uuid)
    assert devices[0]["persistent"]
    assert devices[0]["guest_address"] == gpu["guest_address"]
    done("h1", HERE, "detach", uuid, devices=devices)
    assert "ua-gpu0" not in inactive("h1", GUEST)


def test_address_is_taken(uuid, devices):
    """By the device that is there: another one cannot have its place, and there is no other."""
    other = [{**devices[0], "alias": "ua-gpu1",
              "source_xml": devices[0]["source_xml"].replace("gpu0", "gpu1")}]
    asked = Verb("h1", HERE, "attach", uuid, devices=other)
    last = asked.end()
    assert (last["ok"], last["code"]) == (False, EXTERNAL)
    assert "PCI slots" in last["error"], last
    assert "0000:01:00.0 is in use" in asked.texts()[0]
    assert look("h1", uuid, "ua-gpu0", "ua-gpu1") == ("here", True, 1)


def test_guest_that_does_not_release(uuid):
    del uuid
    xml = variant("deaf", "00000000-0000-4000-9000-00000000dea0",
                  ("console=ttyS0", "console=ttyS0 acpiphp.disable=1"))
    with domain("h1", "deaf", xml) as deaf:
        wait_for(lambda: "GUEST-READY" in console("h1", "deaf"), pause=0.1)
        lab("gpu", "h1", "attach", "deaf")
        asked = Verb("h1", "-t", "3", HERE, "detach", deaf, devices=gpus("h1", deaf))
        last = asked.end()
        assert (last["ok"], last["code"]) == (False, TIMEOUT)
        assert "ua-gpu0" in last["error"]
        assert look("h1", deaf, "ua-gpu0") == ("here", False, 1)
        # And what libvirt would not do at all is said at once.
        last = verb("h1", HERE, "detach", deaf,
                    devices=[{"kind": "named", "type": "x", "alias": "serial0"}])
        assert (last["ok"], last["code"]) == (False, EXTERNAL), last


def test_nobody_there(uuid):
    none = uuid[:-1] + ("0" if uuid[-1] != "0" else "1")
    assert look("h1", none) == ("absent", False, 0)
    assert verb("h1", HERE, "gpus", none)["code"] == NOT_FOUND
    assert verb("h1", "qemu+tcp://127.0.0.2/system", "look", none)["code"] == UNREACHABLE


def test_move(uuid, devices):
    # With the device in the definition, where it was forgotten.
    [gpu] = devices
    done("h1", HERE, "attach", uuid, devices=[{**gpu, "persistent": True}])
    assert "ua-gpu0" in inactive("h1", GUEST)
    last = verb("h1", HERE, "migrate", uuid, H2, H2, devices=devices)
    assert (last["ok"], last["code"]) == (False, EXTERNAL)
    assert "Migration is disabled" in last["error"]
    done("h1", HERE, "detach", uuid, devices=devices)
    assert "ua-gpu0" in inactive("h1", GUEST)

    # Called off. Meanwhile both hosts tell what is.
    slow = Verb("h1", "-b", "2", "-c", "30", HERE, "migrate", uuid, H2, H2, devices=devices)
    places = [look("h2", uuid)[0]]
    while places[-1] != "incoming":
        places.append(look("h2", uuid)[0])
    assert set(places) <= {"absent", "incoming"}, places
    progress = slow.until("progress")
    assert progress["total_bytes"] > 0 and progress["remaining_bytes"] > 0
    assert look("h1", uuid) == ("leaving", True, 0)
    assert look("h2", uuid) == ("incoming", False, 0)
    problems = precheck(uuid, devices)
    assert any("another libvirt job" in text for text in problems), problems
    last = slow.end()
    assert (last["ok"], last["code"]) == (False, CONFLICT)
    assert "cancelled" in last["error"]
    assert look("h1", uuid) == ("here", True, 0)
    assert look("h2", uuid) == ("absent", False, 0)

    # Its time is up.
    last = verb("h1", "-b", "2", "-t", "1", HERE, "migrate", uuid, H2, H2, devices=devices)
    assert (last["ok"], last["code"]) == (False, TIMEOUT)
    assert look("h1", uuid) == ("here", True, 0)

    # The target's QEMU dies.
    slow = Verb("h1", "-b", "2", HERE, "migrate", uuid, H2, H2, devices=devices)
    slow.until("progress")
    lab("exec", "h2", "sh", "-c", f"kill -9 $(cat /run/libvirt/qemu/{GUEST}.pid)")
    last = slow.end()
    assert (last["ok"], last["code"]) == (False, EXTERNAL)
    assert look("h1", uuid) == ("here", True, 0)

    last = done("h1", HERE, "migrate", uuid, H2, H2, devices=devices)
    assert last["progress"]["total_bytes"] >= 160 << 20
    assert 0 < last["progress"]["downtime_ns"] < last["progress"]["elapsed_ns"]
    assert look("h1", uuid) == ("absent", False, 0)
    assert look("h2", uuid) == ("here", True, 0)
    assert "ua-gpu0" not in inactive("h2", GUEST)

    picked = done("h2", *NAMED, HERE, "pick", devices=devices)["devices"]
    done("h2", HERE, "attach", uuid, devices=picked)
    assert gpus("h2", uuid)[0]["guest_path"] == gpu["guest_path"]
    last = verb("h2", *NAMED, HERE, "pick", devices=devices)
    assert last["code"] == CONFLICT and "1 are used" in last["error"], last
    done("h2", HERE, "detach", uuid, devices=picked)
    done("h2", HERE, "migrate", uuid, H1, H1, devices=picked)
    assert look("h1", uuid) == ("here", True, 0)


def precheck(uuid, devices, uri=H2, peer=None):
    return done("h1", HERE, "precheck", uuid, peer or uri, uri, devices=devices)["problems"]


def test_precheck(uuid, devices):
    assert precheck(uuid, devices) == []
    [text] = precheck(uuid, [])
    assert "'ua-gpu0'" in text
    [text] = precheck(uuid, devices, peer=HERE)
    assert HERE in text
    [clash, same] = precheck(uuid, devices, H1)
    assert "the same UUID" in clash and "host_uuid" in same


NOVA = """<metadata><nova:instance xmlns:nova='http://openstack.org/xmlns/libvirt/nova/1.1'>
<nova:name>render</nova:name></nova:instance></metadata>"""
SHMEM = """<shmem name='%s' role='peer'><model type='ivshmem-plain'/><size unit='M'>1</size>
<alias name='%s'/><address type='pci' domain='0x0000' bus='%s' slot='%s' function='0x0'/></shmem>"""


MEMORY = re.compile(r"<memory[^>]*>\d+</memory>")


def all_memory_kib():
    """What this machine has, of which less is free."""
    with open("/proc/meminfo", encoding="ascii") as file:
        return int(re.search(r"MemTotal: +(\d+) kB", file.read())[1])


def test_precheck_finds(uuid):
    """One domain with all that is wrong."""
    del uuid
    other = variant("wrong", "00000000-0000-4000-9000-00000000badb")
    xml = variant("wrong", "00000000-0000-4000-9000-00000000bada",
                  (MEMORY.search(inactive("h1", GUEST))[0], f"{NOVA}<memory unit='KiB'>{all_memory_kib() - 65536}</memory>"),
                  ("</devices>", SHMEM % ("foreign", "ua-foreign", "0x01", "0x00") +
                   SHMEM % ("gpu0", "ua-gpu0", "0x00", "0x08") + "</devices>"))
    path = os.path.join(ENV["LAB_DIR"], "h2", "lib", "wrong.xml")
    with open(path, "w", encoding="utf-8") as file:
        file.write(other)
    with domain("h1", "wrong", xml, "--paused") as wrong:
        lab("virsh", "h2", "-q", "define", "/var/lib/libvirt/wrong.xml")
        problems = precheck(wrong, gpus("h1", wrong))
        for words in ("OpenStack (instance render)", "'ua-foreign' is host shared memory",
                      "'ua-gpu0' is on the VM's root bus", "is paused",
                      "the same name and a different UUID", "MiB of memory, but"):
            assert [text for text in problems if words in text], (words, problems)
        assert len(problems) == 6, problems
        # Such a GPU is not even asked of the guest.
        last = verb("h1", HERE, "detach", wrong, devices=gpus("h1", wrong))
        assert (last["ok"], last["code"]) == (False, EXTERNAL), last


MDEV_XML = """<hostdev mode='subsystem' type='mdev' managed='no' model='vfio-pci'><source>
<address uuid='%s'/></source></hostdev>"""
PCI_XML = """<hostdev mode='subsystem' type='pci' managed='%s'><source>
<address domain='0x0000' bus='0x61' slot='0x00' function='0x0'/></source></hostdev>"""
UUID = "c2177883-f1bb-47f0-914d-32a22e3a880%d"


def mdev(n):
    return {"kind": "mdev", "type": "nvidia-230", "alias": "ua-gpu0",
            "source_address": UUID % n, "guest_address": "0000:01:00.0",
            "source_xml": MDEV_XML % (UUID % n)}


def pci(managed):
    return {"kind": "pci", "type": "10de:1eb8", "alias": "ua-gpu0",
            "source_address": "0000:61:00.0",
            "source_xml": PCI_XML % managed}


def test_pick_pci(uuid):
    """The lab's GPUs are bound to 'nvidia'. Here not all processes of the host are seen, so nobody knows who
    works with them; in the root, nobody does."""
    del uuid
    last = verb("h2", HERE, "pick", devices=[pci("yes")])
    assert last["code"] == CONFLICT and "in its own PID namespace" in last["error"], last
    lab("exec", "h2", "sh", "-c", "mkdir -p /run/root/proc && ln -sfn /sys /run/root/sys")
    host = ("h2", "-r", "/run/root", HERE)
    [gpu] = done(*host, "pick", devices=[pci("yes")])["devices"]
    assert gpu["target_address"] == "0000:41:00.0"
    assert re.search('bus="0x41"', gpu["target_xml"]) and 'name="ua-gpu0"' in gpu["target_xml"]
    [gpu] = done(*host, "pick", "0000:41:00.0", devices=[pci("yes")])["devices"]
    assert gpu["target_address"] == "0000:42:00.0"
    last = verb(*host, "pick", "0000:41:00.0", devices=[pci("no")])
    assert last["code"] == CONFLICT
    assert "0000:41:00.0: reserved for a VM" in last["error"], last
    assert "0000:42:00.0: not bound to vfio-pci" in last["error"], last
    # Of a GPU that is named, or not at all.
    named = {**pci("yes"), "target_gpu": "0000:42:00.0"}
    [gpu] = done(*host, "pick", devices=[named])["devices"]
    assert gpu["target_address"] == "0000:42:00.0"
    last = verb(*host, "pick", "0000:42:00.0", devices=[named])
    assert last["code"] == CONFLICT and "is free of the GPU 0000:42:00.0 on" in last["error"], last
    last = verb(*host, "pick", devices=[{**pci("yes"), "type": "10de:2330"}])
    assert last["code"] == CONFLICT and "no GPU 10de:2330" in last["error"]


NODE = """<node>
  <device><name>pci_0000_41_00_0</name><capability type='pci'><class>0x030200</class>
    <domain>0</domain><bus>65</bus><slot>0</slot><function>0</function>
    <product id='0x1eb8'/><vendor id='0x10de'/>
    <capability type='mdev_types'><type id='nvidia-230'><name>T4-1Q</name>
    <deviceAPI>vfio-pci</deviceAPI><availableInstances>%d</availableInstances></type></capability>
  </capability></device>
  %s
  <domain type='test'><name>user</name><memory>65536</memory>
    <os><type>hvm</type></os><devices>%s</devices></domain>
</node>"""
MDEV = """<device><name>mdev_%s</name><parent>pci_0000_41_00_0</parent><capability type='mdev'>
<type id='nvidia-%d'/><uuid>%s</uuid><iommuGroup number='1'/></capability></device>"""


def test_pick_mdev(uuid, tmp_path):
    """With libvirt's test driver, which has them, and cannot make any."""
    del uuid
    node = tmp_path / "node.xml"

    def pick(available, *taken, how="pick", n=1):
        devices = "".join(MDEV % (f"a{n}", kind, UUID % n) for n, kind in
                          ((1, 231), (2, 230), (3, 230), (4, 230)))
        node.write_text(NODE % (available, devices, MDEV_XML % (UUID % 2)))
        return verb("h2", f"test://{node}", how, *taken, devices=[mdev(9)] * n)

    [gpu] = pick(4)["devices"]
    assert gpu["target_address"] == UUID % 3
    assert UUID % 3 in gpu["target_xml"] and UUID % 9 not in gpu["target_xml"]
    assert 'bus="0x01"' in gpu["target_xml"]
    [gpu] = pick(4, (UUID % 3).upper())["devices"]
    assert gpu["target_address"] == UUID % 4
    last = pick(4, UUID % 3, UUID % 4)
    assert last["code"] == CONFLICT and "mdevctl start -u UUID -p 0000:41:00.0" in last["error"]
    last = pick(0, UUID % 3, UUID % 4)
    assert last["code"] == CONFLICT and "no GPU has capacity" in last["error"]
    # A dry run makes none, and sees that there is room: for one, and not for two.
    both = (UUID % 3, UUID % 4)
    assert pick(1, *both, how="try-pick")["ok"] and pick(2, *both, how="try-pick", n=2)["ok"]
    for available, n in ((0, 1), (1, 2)):
        last = pick(available, *both, how="try-pick", n=n)
        assert last["code"] == CONFLICT and "no GPU has capacity" in last["error"]
    last = verb("h2", f"test://{node}", "pick", devices=[{**mdev(9), "type": "nvidia-999"}])
    assert last["code"] == CONFLICT and "no GPU offers" in last["error"]


def test_pick_mdev_of_the_named_gpu(uuid, tmp_path):
    """Two GPUs with one mdev each, and room for another."""
    del uuid
    node = tmp_path / "node.xml"
    second = (NODE % (1, "", "")).split("<node>")[1].split("<domain ")[0].replace("0000_41", "0000_42").replace(
        "<bus>65<", "<bus>66<")
    mdevs = MDEV % ("a3", 230, UUID % 3) + (MDEV % ("a4", 230, UUID % 4)).replace("0000_41", "0000_42")
    node.write_text(NODE % (1, second + mdevs, ""))

    def pick(gpu, *taken, how="pick"):
        return verb("h2", f"test://{node}", how, *taken, devices=[{**mdev(9), "target_gpu": gpu}])

    for gpu, number in (("0000:42:00.0", 4), ("0000:41:00.0", 3)):
        [device] = pick(gpu)["devices"]
        assert (device["target_address"], device["target_gpu"]) == (UUID % number, gpu)
        # A dry run sees the room of this GPU; the test driver can make none, and the other GPU is no answer.
        assert pick(gpu, UUID % number, how="try-pick")["ok"]
        last = pick(gpu, UUID % number)
        assert last["code"] == CONFLICT and f"mdevctl start -u UUID -p {gpu}" in last["error"], last
    last = pick("0000:43:00.0")
    assert last["code"] == CONFLICT and "of the GPU 0000:43:00.0 on" in last["error"], last


def test_pick_spreads_or_packs(uuid, tmp_path):
    """One GPU has a free mdev and one that a domain uses; the other GPU has a free one only."""
    del uuid
    node = tmp_path / "node.xml"
    second = (NODE % (1, "", "")).split("<node>")[1].split("<domain ")[0].replace("0000_41", "0000_42").replace(
        "<bus>65<", "<bus>66<")
    mdevs = "".join(MDEV % (f"a{n}", 230, UUID % n) for n in (2, 3)) + (
        MDEV % ("a4", 230, UUID % 4)).replace("0000_41", "0000_42")
    node.write_text(NODE % (1, second + mdevs, MDEV_XML % (UUID % 2)))

    def picked(*options, taken=()):
        done_ = verb("h2", *options, f"test://{node}", "pick", *taken, devices=[mdev(9)])
        return done_["devices"][0]["target_address"]

    assert picked() == UUID % 4 and picked("-p") == UUID % 3
    # A reserved one counts, too: now both GPUs have one.
    assert picked(taken=[UUID % 4]) == UUID % 3


def test_pick_named(uuid, devices):
    del uuid
    last = verb("h2", HERE, "pick", devices=devices)
    assert last["code"] == CONFLICT and "no [gpu gpu0]" in last["error"]
    last = verb("h2", *NAMED, HERE, "pick", "gpu0", devices=devices)
    assert last["code"] == CONFLICT and "0 are used and 1 reserved" in last["error"]
    [gpu] = done("h1", "-s", "2", *NAMED, HERE, "pick", devices=devices)["devices"]
    assert gpu["target_address"] is None and "ua-gpu0" in gpu["target_xml"]


def test_guest_is_asked(uuid, devices):
    if not os.access(GUESTD, os.X_OK):
        pytest.skip(f"{GUESTD} is not built")
    answer = done("h1", HERE, "hello", uuid)["answer"]
    assert answer["ok"] and answer["text"].startswith("agent ")
    asked = Verb("h1", HERE, "prepare", uuid, devices=devices)
    answer = asked.end()["answer"]
    assert answer["ok"] and answer["ram_bytes"] > 1 << 20, answer
    assert any("holders" in text for text in asked.texts())
    done("h1", HERE, "detach", uuid, devices=devices)
    done("h1", HERE, "migrate", uuid, H2, H2, devices=devices)
    done("h2", HERE, "attach", uuid, devices=devices)
    answer = done("h2", HERE, "resume", uuid, devices=devices)["answer"]
    assert answer["ok"] and "hooks run: 10-lab" in answer["text"], answer
    done("h2", HERE, "detach", uuid, devices=devices)
    # It does not come: the agent says so in time.
    answer = done("h2", "-t", "3", HERE, "resume", uuid, devices=devices)["answer"]
    assert not answer["ok"] and "not-found" in answer["text"], answer
    done("h2", HERE, "migrate", uuid, H1, H1, devices=devices)


def test_guest_says_nothing(uuid, devices):
    lab("virsh", "h1", "-q", "suspend", GUEST)
    last = verb("h1", "-t", "1", HERE, "prepare", uuid, devices=devices)
    lab("virsh", "h1", "-q", "resume", GUEST)
    assert (last["ok"], last["code"]) == (False, TIMEOUT), last
    with domain("h1", "mute", variant("mute", "00000000-0000-4000-9000-00000000f00d",
                                      ("org.vgpud.guest.0", "org.vgpud.other.0")),
                "--paused") as mute:
        last = verb("h1", HERE, "hello", mute)
        assert (last["ok"], last["code"]) == (False, NOT_FOUND)
        assert "<channel type='unix'>" in last["error"]
