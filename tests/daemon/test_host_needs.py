# SPDX-License-Identifier: Apache-2.0
"""What keeps a VM on its host: another manager, and what the target lacks. The hosts are nodes of libvirt's test
driver."""
import pytest
from hostnodes import VM, domain, verb, write_node
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
