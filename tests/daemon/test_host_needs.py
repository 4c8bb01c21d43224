# SPDX-License-Identifier: Apache-2.0
"""What keeps a VM on its host: another manager, and what the target lacks. The hosts are nodes of libvirt's test
driver."""
import os

import domainschema
import pytest
from hostnodes import MDEV, VM, domain, given_mdev, verb, write_node
from vgpuctl import ROOT
from vgpud import Daemon, wait_for

# Marks of managers, and what the refusal says.
MANAGERS = {
    "oVirt": ("v", "<o:vm xmlns:o='http://ovirt.org/vm/1.0'/>", f"POST /ovirt-engine/api/vms/{VM % 1}/migrate"),
    "OpenNebula": ("one-12", "<o:vm xmlns:o='http://opennebula.org/xmlns/libvirt/1.0'><o:id>12</o:id></o:vm>",
                   "'onevm migrate --live 12 HOST'"),
    "KubeVirt": ("lab_train", "<k:kubevirt xmlns:k='http://kubevirt.io'/>", "'virtctl migrate train -n lab'"),
    "CloudStack": ("i-2-34-VM", "", f"'cmk migrate virtualmachine virtualmachineid={VM % 1} hostid=HOST'"),
    "ZStack": ("z", "<z:zstack xmlns:z='http://zstack.org'/>", "'zstack-cli MigrateVm vmInstanceUuid=z hostUuid=HOST'"),
}


@pytest.fixture
def node(tmp_path):
    return lambda *parts: write_node(tmp_path, *parts)


def precheck(uri):
    return verb(uri, "precheck", VM % 1, "test:///default", "test:///default")


def managed(name, mark):
    return domain(1, name=name, more=f"<metadata>{mark}</metadata>")


@pytest.mark.parametrize("manager", MANAGERS)
def test_a_vm_of_another_manager_stays(node, manager):
    name, mark, move = MANAGERS[manager]
    problems = precheck(node(managed(name, mark)))["problems"]
    assert [text for text in problems if f"belongs to {manager}" in text and move in text], problems


def test_a_vm_of_nobody_is_not_kept(node):
    assert "belongs to" not in str(precheck(node(managed("one-12", "<o:x xmlns:o='http://libosinfo.org/x'/>"))))


def test_everybody_says_whose_it_is(node, tmp_path):
    name, mark, move = MANAGERS["OpenNebula"]
    daemon = Daemon(tmp_path, config=f"[daemon]\nwindow=250ms\n[libvirt]\nuri={node(managed(name, mark))}\n"
                                     "[actions]\nenabled=yes\n")
    try:
        wait_for(lambda: daemon.get("/v1/vms")["items"])
        vm = daemon.get(f"/v1/vms/{VM % 1}")["domain"]
        assert (vm["manager"], vm["manager_move"]) == ("OpenNebula", move)
        [vm] = daemon.get("/v1/snapshot")["hosts"][0]["vms"]
        assert vm["manager"] == "OpenNebula"
        answer = daemon.get(f"/v1/vms/{VM % 1}/movable")
        assert answer["movable"] == "no" and move in str(answer), answer
    finally:
        daemon.stop()


# ---- what the target lacks ----

CASES = {
    "a network": ("<interface type='network'><source network='tenant-net'/></interface>", "",
                  "has no network 'tenant-net', which the VM needs (<interface/source>)"),
    "a pool": ("<disk type='volume' device='disk'><source pool='fast' volume='a'/><target dev='vda' bus='virtio'/>"
               "</disk>", "", "has no storage pool 'fast', which the VM needs (<disk/source>)"),
    "CPUs": ("", "<cputune><vcpupin vcpu='0' cpuset='60'/><emulatorpin cpuset='62-63'/></cputune>",
             "<vcpupin> binds the VM to the host's CPUs 60, and the target has no CPU 60"),
    "a NUMA node": ("", "<numatune><memory mode='strict' nodeset='7'/></numatune>", "the target has no NUMA node 7"),
    "huge pages": ("", "<memoryBacking><hugepages><page size='1048576' unit='KiB'/></hugepages></memoryBacking>",
                   "<page> needs huge pages of 1048576 KiB, and the target has none"),
}


@pytest.mark.parametrize("what", CASES)
def test_a_target_that_lacks_something_is_refused(node, what):
    devices, more, words = CASES[what]
    problems = precheck(node(domain(1, devices, more=more)))["problems"]
    assert len([text for text in problems if words in text]) == 1, problems


def test_a_target_that_has_it_is_not_refused(node):
    """libvirt's test host has a network and a pool that are active, 16 CPUs, and two NUMA nodes."""
    devices = ("<interface type='network'><source network='default'/></interface><disk type='volume' device='disk'>"
               "<source pool='default-pool' volume='a'/><target dev='vda' bus='virtio'/></disk>")
    more = "<cputune><vcpupin vcpu='0' cpuset='1'/></cputune><numatune><memory mode='strict' nodeset='1'/></numatune>"
    last = precheck(node(domain(1, devices, more=more)))
    assert not [text for text in last["problems"] if "which the VM needs" in text or "the target has no" in text], last
    assert last["doubts"] == []


# ---- ramfb ----

@pytest.mark.parametrize("attributes, refused", [("display='on' ramfb='on'", True), ("display='on'", False),
                                                 ("display='off' ramfb='off'", False)])
def test_ramfb_is_refused(node, attributes, refused):
    device = {"kind": "mdev", "type": "nvidia-230", "alias": "ua-gpu0", "source_address": MDEV % 1,
              "source_xml": given_mdev(1)}
    hostdev = given_mdev(1).replace("model='vfio-pci'", f"model='vfio-pci' {attributes}").replace(
        "</hostdev>", "<alias name='ua-gpu0'/></hostdev>")
    last = verb(node(domain(1, hostdev)), "precheck", VM % 1, "test:///default", "test:///default", devices=[device])
    assert [text for text in last["problems"] if "'ua-gpu0' has ramfb='on'" in text] if refused else \
        "ramfb" not in str(last), last


# ---- libvirt's schema ----

def test_elements_that_are_installed():
    """The installed schema can be read; what it has beyond the lists that host/domain-class.c was made of is printed."""
    if not os.path.isdir(domainschema.INSTALLED):
        pytest.skip("libvirt's schema is not installed")
    known = set()
    for version in ("9.0", "11.3"):
        with open(os.path.join(ROOT, f"tests/data/libvirt-domain/elements-{version}.txt"), encoding="ascii") as file:
            known |= set(file.read().split())
    installed = domainschema.elements()
    assert "devices/disk/source" in installed
    for path in sorted(set(installed) - known):
        print("new in the installed schema:", path)
