# SPDX-License-Identifier: Apache-2.0
"""GPUs as hosts have them: which are found, which are free, and that everybody says the same. The hosts
are nodes of libvirt's test driver, which knows no drivers, and trees of sysfs and /proc, all made by hand."""
import json
import os
import shutil
import signal
import subprocess
import tempfile

import pytest
from hostnodes import MDEV, VM, domain, given_mdev, given_pci, mdev, pci, verb, write_node
from settings import HANG_S
from vgpuctl import program
from vgpud import Daemon, wait_for

TYPES = ("<capability type='mdev_types'><type id='nvidia-230'><name>GRID T4-4Q</name><deviceAPI>vfio-pci"
         "</deviceAPI><availableInstances>%d</availableInstances></type></capability>")
PHYSICAL = ("<capability type='phys_function'><address domain='0x0000' bus='0x41' slot='0x00' function='0x0'/>"
            "</capability>")


@pytest.fixture
def node(tmp_path):
    """Writes the node; gives its URI."""
    return lambda *parts: write_node(tmp_path, *parts)


@pytest.fixture
def root(tmp_path):
    """Makes a sysfs of GPUs bound to drivers, and a /proc where some have files open."""
    def make(drivers, opened=(), iommu=True):
        for address, driver in drivers.items():
            at = tmp_path / "sys/bus/pci/devices" / address
            at.mkdir(parents=True)
            (at / "driver").symlink_to(f"../../../bus/pci/drivers/{driver}")
            if iommu:
                (at / "iommu_group").symlink_to(f"../../../../kernel/iommu_groups/{int(address[5:7], 16)}")
            (at / "drm" / f"renderD{100 + int(address[5:7], 16)}").mkdir(parents=True)
        (tmp_path / "proc").mkdir()
        for pid, (name, path) in enumerate(opened, 800):
            (tmp_path / f"proc/{pid}/fd").mkdir(parents=True)
            (tmp_path / f"proc/{pid}/comm").write_text(name + "\n")
            (tmp_path / f"proc/{pid}/fd/3").symlink_to(path)
        return "-r", str(tmp_path)
    return make


def vgpuctl(daemon, *args):
    return subprocess.run([program(), *args, "--socket", daemon.socket], stdout=subprocess.PIPE, text=True, check=True,
                          timeout=HANG_S).stdout


def wanted(kind, name, alias="ua-gpu0", **more):
    source = {"address": "0000:99:00.0", "source_xml": given_pci(0x99, **more)} if kind == "pci" else \
        {"address": MDEV % 9, "source_xml": given_mdev(9)}
    return {"kind": kind, "type": name, "alias": alias, "source_address": source["address"],
            "source_xml": source["source_xml"]}


def pick(*args, devices):
    """The addresses, or why there are none."""
    last = verb(*args, "pick", devices=devices)
    return [d["target_address"] for d in last["devices"]] if last["ok"] else last["error"]


@pytest.fixture
def daemon(tmp_path):
    started = []

    def start(uri, more=""):
        started.append(Daemon(tmp_path, config=f"[daemon]\nwindow=250ms\n[libvirt]\nuri={uri}\n{more}"))
        wait_for(lambda: started[-1].get("/v1/host")["gpus"] or started[-1].get("/v1/host")["vms"])
        return started[-1]
    yield start
    for each in started:
        each.stop()


def parts(daemon, gpu):
    return {p["address"] or p["kind"]: (p["type"], p["state"], p["free"], p["why"])
            for p in daemon.get(f"/v1/gpus/{gpu}")["parts"]}


def places(daemon, gpus, gpu_type=None):
    """Whether nova may put an instance with so many vGPUs here, and what the answer says."""
    host = daemon.get("/v1/host")["name"]
    instance = {"vcpus": 1, "gpus": gpus, **({"gpu_type": gpu_type} if gpu_type else {})}

    def answer():
        status, _, document = daemon.post("/v1/nova/placement", {"instance": instance, "hosts": [{"name": host}]})
        assert status == 200, document
        [one] = document["hosts"]
        return one["verdict"] in ("pass", "veto") and one
    told = wait_for(answer)
    return told["verdict"] == "pass", told["reason"]


def offers(daemon, gpu):
    [host] = daemon.get("/v1/snapshot")["hosts"]
    [types] = [g["vgpu_types"] for g in host["gpus"] if g["device"] == gpu]
    return {t["type"]: t["free"] for t in types}


# ---- which are found ----

def test_accelerators_are_gpus(node, daemon):
    """Also of class 12, as AMD's Instinct and others are; with the sound and USB of the same card."""
    uri = node(domain(1, given_pci(5)), domain(2, given_pci(0x41), given_pci(0x41, 1, alias="ua-snd0")),
               pci(5, "1002:74a5", classes="0x120000"), pci(6, "1002:74a5", classes="0x120000"),
               pci(7, "1da3:1020", classes="0x120000"),
               pci(0x41, "10de:2331"), pci(0x41, "10de:10f7", 1, "0x040300"), pci(0x41, "10de:1ad6", 2, "0x0c0330"),
               pci(0x42, "8086:1533", classes="0x020000"))
    [gpu] = verb(uri, "gpus", VM % 1)["devices"]
    assert (gpu["type"], gpu["source_address"]) == ("1002:74a5", "0000:05:00.0")
    gpu, sound = verb(uri, "gpus", VM % 2)["devices"]
    assert "function_of" not in gpu and sound["function_of"] == gpu["alias"] == "ua-gpu0"
    assert (sound["type"], sound["source_address"]) == ("10de:10f7", "0000:41:00.1")
    running = daemon(uri)
    listed = json.loads(vgpuctl(running, "gpu", "list", "-o", "json"))
    assert [g["id"] for g in listed] == ["0000:05:00.0", "0000:06:00.0", "0000:07:00.0", "0000:41:00.0"]
    devices = {v["name"]: v["devices"] for v in (running.get(f"/v1/vms/{VM % n}")["domain"] for n in (1, 2))}
    assert [d["is_gpu"] for d in devices["vm-1"]] == [True]
    assert [(d["is_gpu"], d.get("function")) for d in devices["vm-2"]] == [(True, None), (False, "audio")]
    assert parts(running, "0000:41:00.0")["0000:41:00.2"][0] == "10de:1ad6"


def test_functions_come_from_one_card(node, root):
    """The sound goes with the GPU that was taken, from the same card."""
    uri = node(domain(1, given_pci(0x41)), *(part for bus in (0x41, 0x42, 0x43) for part in (
        pci(bus, "10de:1e30", classes="0x030000"), pci(bus, "10de:10f7", 1, "0x040300"))))
    drivers = {f"0000:{bus:02x}:00.{f}": "vfio-pci" for bus in (0x41, 0x42, 0x43) for f in (0, 1)}
    sound = {**wanted("pci", "10de:10f7", "ua-snd0"), "function_of": "ua-gpu0"}
    args = (*root(drivers), uri)
    assert pick(*args, devices=[sound, wanted("pci", "10de:1e30")]) == ["0000:42:00.1", "0000:42:00.0"]
    last = verb(*args, "pick", "0000:42:00.0", devices=[wanted("pci", "10de:1e30"), sound])
    assert [d["target_address"] for d in last["devices"]] == ["0000:43:00.0", "0000:43:00.1"]
    other = {**sound, "type": "10de:1aeb"}
    assert "there is no function of the GPU's card 10de:1aeb" in pick(*args,
                                                                      devices=[wanted("pci", "10de:1e30"), other])


# ---- which are free ----

def test_mdevs_made_before(node, daemon):
    """There is no capacity for more, and three of four are nobody's."""
    uri = node(domain(1, given_mdev(1)), pci(0x41, "10de:1eb8", more=TYPES % 0), *map(mdev, (1, 2, 3, 4)))
    running = daemon(uri)
    assert places(running, 3)[0] and not places(running, 4)[0]
    assert "3 vGPUs are free, but the VM needs 4" in places(running, 4)[1]
    assert offers(running, "0000:41:00.0") == {"10de:1eb8": 0, "nvidia-230": 3}
    told = parts(running, "0000:41:00.0")
    assert told[MDEV % 1][1:3] == ("used", 0) and "'vm-1'" in told[MDEV % 1][3]
    assert told[MDEV % 2][1:3] == ("free", 1) and told["room"][1:3] == ("used", 0)
    assert told["0000:41:00.0"][1] == "divided"
    assert pick(uri, devices=[wanted("mdev", "nvidia-230")]) == [MDEV % 2]
    shown = vgpuctl(running, "gpu", "show", "0000:41:00.0")
    assert "assigned to VM 'vm-1'" in shown and "it exists and is not in use" in shown


def test_reserved_for_a_vm_that_comes(node, daemon):
    """What a move keeps is free for nobody else, until it is released."""
    uri = node(domain(1, given_mdev(1)), pci(0x41, "10de:1eb8", more=TYPES % 0), *map(mdev, (1, 2, 3)))
    running = daemon(uri, "[actions]\nenabled=yes\n")
    assert places(running, 2)[0]
    status, _, kept = running.post("/v1/reservations", {
        "move_id": "move-1", "vm": "guest", "uuid": VM % 7, "from": "h9", "lease_s": 600,
        "devices": [wanted("mdev", "nvidia-230")]})
    assert status == 201, kept
    assert [d["target_address"] for d in kept["devices"]] == [MDEV % 2]
    wait_for(lambda: parts(running, "0000:41:00.0")[MDEV % 2][1] == "reserved")
    assert offers(running, "0000:41:00.0")["nvidia-230"] == 1
    assert not places(running, 2)[0] and places(running, 1)[0]
    assert running.request("DELETE", f"/v1/reservations/{kept['id']}")[0] == 204
    wait_for(lambda: parts(running, "0000:41:00.0")[MDEV % 2][1] == "free")
    assert places(running, 2)[0]


def test_mdevs_of_several_types(node, daemon):
    """One of another type is no stand-in, and room is counted besides what is there."""
    uri = node(domain(1, given_mdev(1)), pci(0x41, "10de:1eb8", more=TYPES % 2),
               mdev(1), mdev(2), mdev(3, "nvidia-231"))
    running = daemon(uri)
    assert offers(running, "0000:41:00.0") == {"10de:1eb8": 0, "nvidia-230": 3, "nvidia-231": 1}
    assert places(running, 4)[0] and not places(running, 5)[0]
    assert places(running, 1, "nvidia-231")[0] and not places(running, 2, "nvidia-231")[0]


MDEVCTL = """#!/bin/sh
case "$*" in
*list*) echo '[{"0000:41:00.0":[%s]}]';;
esac
"""


@pytest.fixture
def defined(tmp_path):
    """A libvirtd of an ordinary user, with mdevs that mdevctl knows and nobody has started. Gives what is to
    be put before a command that asks it."""
    if not shutil.which("libvirtd"):
        pytest.skip("there is no libvirtd")
    with tempfile.TemporaryDirectory(prefix="vg-session-") as home:
        mdevctl = os.path.join(home, "mdevctl")
        run = os.path.join(home, "run")
        os.mkdir(run, 0o700)
        with open(mdevctl, "w", encoding="utf-8") as file:
            file.write(MDEVCTL % ",".join(f'{{"{MDEV % n}":{{"mdev_type":"{kind}","start":"manual"}}}}'
                                          for n, kind in ((2, "nvidia-230"), (3, "nvidia-231"))))
        os.chmod(mdevctl, 0o755)
        os.chmod(home, 0o711)
        user = ()
        if os.geteuid() == 0:
            os.chown(run, 65534, 65534)
            user = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")
        yield (*user, "env", f"HOME={run}", f"XDG_RUNTIME_DIR={run}", f"PATH={home}:{os.environ['PATH']}:/usr/sbin")
        try:
            with open(os.path.join(run, "libvirt/libvirtd.pid"), encoding="utf-8") as file:
                pid = int(file.read())
            os.kill(pid, signal.SIGTERM)
            wait_for(lambda: not os.path.exists(f"/proc/{pid}") or "zombie" in open(f"/proc/{pid}/status").read())
        except FileNotFoundError:
            pass


def test_mdevs_only_defined(defined):
    """What was never started is not there."""
    virsh = subprocess.run([*defined, "virsh", "-c", "qemu:///session", "nodedev-list", "--cap", "mdev", "--inactive"],
                           stdout=subprocess.PIPE, text=True, check=True)
    assert virsh.stdout.count("mdev_c2177883") == 2
    for name, other in (("nvidia-230", 2), ("nvidia-231", 3)):
        last = verb("qemu:///session", "pick", devices=[wanted("mdev", name)], before=defined)
        assert not last["ok"] and f"{MDEV % other} is defined, but not started" in last["error"], last
        assert MDEV % (5 - other) not in last["error"]


def test_gpu_that_the_host_uses(node, root):
    """One that the host's driver has is taken after the others, and only if nobody has it open."""
    uri = node(pci(0x41, "10de:2331"), pci(0x42, "10de:2331"), pci(0x43, "10de:2331"))
    drivers = {"0000:41:00.0": "nvidia", "0000:42:00.0": "vfio-pci", "0000:43:00.0": "amdgpu"}
    args = (*root(drivers, [("Xorg", "/dev/dri/renderD165"), ("sh", "/dev/null")]), uri)
    gpu = [wanted("pci", "10de:2331")]
    assert pick(*args, devices=gpu) == ["0000:42:00.0"]
    last = verb(*args, "pick", "0000:42:00.0", devices=gpu)
    assert [d["target_address"] for d in last["devices"]] == ["0000:43:00.0"]
    last = verb(*args, "pick", "0000:42:00.0", "0000:43:00.0", devices=gpu)
    assert "0000:41:00.0: bound to nvidia, and in use by Xorg [800]; 0000:42:00.0: reserved" in last["error"]
    # Whoever binds devices himself gets none that is not bound.
    last = verb(*args, "pick", "0000:42:00.0", devices=[wanted("pci", "10de:2331", managed="no")])
    assert "0000:43:00.0: not bound to vfio-pci" in last["error"]


def test_vf_of_vendor_driver(node, root, tmp_path):
    """A virtual function of NVIDIA's driver is what its vGPU type says; without sysfs nobody can tell."""
    uri = node(domain(1, given_pci(0x41, 4, "no")), pci(0x41, "10de:26b9"),
               *(pci(0x41, "10de:26b9", f, more=PHYSICAL) for f in (4, 5, 6, 7)))
    refused = pick(uri, devices=[wanted("pci", "10de:26b9", managed="no")])
    assert "0000:41:00.5: bound to no driver, and its vGPU type is unknown" in refused
    last = verb(uri, "gpus", VM % 1)
    assert "the vGPU type of the virtual function 0000:41:00.4" in last["error"]
    args = (*root({f"0000:41:00.{f}": "nvidia" for f in (0, 4, 5, 6, 7)}), uri)
    for function, number in ((4, 1153), (5, 0), (6, 1160), (7, 1153)):
        at = tmp_path / f"sys/bus/pci/devices/0000:41:00.{function}/nvidia"
        at.mkdir()
        (at / "current_vgpu_type").write_text(f"{number}\n")
    [gpu] = verb(*args, "gpus", VM % 1)["devices"]
    assert (gpu["kind"], gpu["type"]) == ("pci", "nvidia-1153")
    assert pick(*args, devices=[wanted("pci", "nvidia-1153", managed="no")]) == ["0000:41:00.7"]
    last = verb(*args, "pick", "0000:41:00.7", devices=[wanted("pci", "nvidia-1153", managed="no")])
    assert "0000:41:00.4: assigned to VM 'vm-1'" in last["error"]
    assert "0000:41:00.5: no vGPU yet" in last["error"] and "0000:41:00.6" not in last["error"]


def test_whole_gpus_are_offered(node, daemon):
    """By their PCI id; to nova they are no vGPUs, unless it asks for just that."""
    uri = node(domain(1, given_pci(0x41)), pci(0x41, "10de:2331"), pci(0x42, "10de:2331"))
    running = daemon(uri)
    assert offers(running, "0000:41:00.0") == {"10de:2331": 0}
    assert offers(running, "0000:42:00.0") == {"10de:2331": 1}
    [host] = running.get("/v1/snapshot")["hosts"]
    [vm] = host["vms"]
    assert [(u["device"], u["vgpu_type"]) for u in vm["gpu"]] == [("0000:41:00.0", "10de:2331")]
    assert not places(running, 1)[0] and places(running, 1, "10de:2331")[0]


# ---- the same answer everywhere ----

def a40(n):
    """A card whose virtual functions offer one mediated device each, and that can have fewer."""
    types = TYPES.replace("nvidia-230", "nvidia-562") % 1
    return pci(0x41, "10de:2235") + "".join(pci(0x41, "10de:2235", i, more=PHYSICAL + types) for i in range(1, n + 1))


def test_room_of_virtual_functions(node, daemon):
    running = daemon(node(domain(1), a40(7)))
    assert places(running, 1)[0] and not places(running, 7)[0]
    assert offers(running, "0000:41:00.0")["nvidia-562"] == 1
    told = parts(running, "0000:41:00.0")
    assert told["room"][2:] == (1, "capacity for at least 1 more; the card's maximum is unknown")
    assert told["0000:41:00.1"][1::2] == ("unset", "it is not used for a mediated device")


def test_room_that_the_driver_tells(node, root):
    """What could be made for a dry run is what the card has room for."""
    args = [*root({f"0000:41:00.{f}": "nvidia" for f in range(5)}), node(a40(4))]
    at = args[1] + "/sys/bus/pci/devices/0000:41:00.1/mdev_supported_types/nvidia-562"
    os.makedirs(at)
    with open(at + "/description", "w", encoding="utf-8") as file:
        file.write("num_heads=4, framebuffer=24576M, max_instance=2\n")
    devices = [wanted("mdev", "nvidia-562", f"ua-gpu{n}") for n in range(3)]
    assert verb(*args, "try-pick", devices=devices[:2])["ok"]
    assert "no GPU has capacity for another" in verb(*args, "try-pick", devices=devices)["error"]


def test_without_an_iommu(node, root):
    args = (*root({"0000:42:00.0": "vfio-pci"}, iommu=False), node(pci(0x42, "10de:2331")))
    assert "the kernel has no IOMMU for it" in pick(*args, devices=[wanted("pci", "10de:2331")])


def test_displays_of_management_controllers(node, daemon):
    running = daemon(node(domain(1), pci(3, "1a03:2000", classes="0x030000"), pci(5, "102b:0536", classes="0x030000")))
    assert running.get("/v1/host")["gpus"] == [] and running.get("/v1/snapshot")["hosts"][0]["gpus"] == []
    assert not places(running, 1)[0]


# ---- what nova's flavors ask for ----

def test_places_for_a_request_of_nova_without_a_host(node, daemon):
    """The newest request that no host could take is the input of a plan that frees places."""
    running = daemon(node(domain(1), pci(0x41, "10de:1eb8", more=TYPES % 1)))

    def plan():
        status, _, answer = running.post("/v1/plans", {"dry_run": True, "free_up": "nova"})
        return status in (200, 201, 400) and (status, answer)
    status, answer = wait_for(plan)
    assert status == 400 and "no request for a vGPU type that no host could provide" in answer["detail"]
    assert places(running, 1, "nvidia-230")[0] and plan()[0] == 400
    assert not places(running, 3, "nvidia-230")[0]
    status, answer = plan()
    assert status == 201 and (answer["rule"], answer["free_up"]) == ("free-up", "nvidia-230:3")
    assert answer["verdict"] == "infeasible" and "3 slots of type 'nvidia-230'" in answer["why"][0]
    table = vgpuctl(running, "placement", "--dry-run", "--free-up", "nvidia-230")
    assert "already has 1 free slot of type 'nvidia-230'" in table


def metrics_of(daemon):
    return daemon.request("GET", "/metrics")[2].decode()


def test_largest_free_profile(node, daemon):
    """Of three types of the first GPU, that with 8 GiB has no place. The size of i915's types is not in their names."""
    def types(*rows):
        return "<capability type='mdev_types'>" + "".join(
            f"<type id='{name}'>{f'<name>{text}</name>' if text else ''}<deviceAPI>vfio-pci</deviceAPI>"
            f"<availableInstances>{n}</availableInstances></type>" for name, text, n in rows) + "</capability>"
    running = daemon(node(
        domain(1), pci(0x41, "10de:1eb8", more=types(("nvidia-230", "GRID T4-4Q", 2), ("nvidia-231", "GRID T4-8Q", 0),
                                                     ("nvidia-222", "GRID T4-1Q", 8))),
        pci(0x42, "10de:1eb8", more=types(("nvidia-230", "GRID T4-4Q", 0))),
        pci(0x43, "8086:591d", more=types(("i915-GVTg_V5_4", "", 1), ("i915-GVTg_V5_8", "", 2)))))
    four = {"state": "free", "type": "nvidia-230", "name": "GRID T4-4Q", "memory_bytes": 4 << 30}
    nothing = {"type": None, "name": None, "memory_bytes": None}
    found = {gpu["id"]: gpu["largest_free"] for gpu in running.get("/v1/gpus")["items"]}
    assert found == {"0000:41:00.0": four, "0000:42:00.0": nothing | {"state": "none"},
                     "0000:43:00.0": nothing | {"state": "unknown"}}
    # The largest of the host may be on the GPU where it is unknown.
    assert running.get("/v1/host")["largest_free"] == nothing | {"state": "unknown"}
    rows = [line.split(",") for line in vgpuctl(running, "gpu", "list", "-o", "csv").splitlines()]
    at = rows[0].index("largest")
    assert [row[at] for row in rows[1:]] == ["GRID T4-4Q", "none", ""]
    metrics, name = metrics_of(running), "vgpud_gpu_largest_free_profile_bytes"
    assert f'{name}{{device="0000:41:00.0",type="nvidia-230"}} 4294967296' in metrics
    assert f'{name}{{device="0000:42:00.0",type=""}} 0' in metrics
    assert f'{name}{{device="0000:43:00.0"' not in metrics and "vgpud_host_largest_free_profile_bytes{" not in metrics


def test_largest_free_profile_of_a_host(node, daemon):
    running = daemon(node(domain(1), pci(0x41, "10de:1eb8", more=TYPES % 1)))
    assert running.get("/v1/host")["largest_free"]["name"] == "GRID T4-4Q"
    summary = wait_for(lambda: running.get("/v1/hosts")["items"][0]["summary"])
    assert summary["gpu_largest"] == "nvidia-230"
    assert 'vgpud_host_largest_free_profile_bytes{type="nvidia-230"} 4294967296' in metrics_of(running)


@pytest.mark.parametrize("extra_specs, fits", [
    ({}, True),
    ({"resources:VGPU": "3"}, True),
    ({"resources:VGPU": "4"}, False),
    ({"resources1:VGPU": "4"}, False),
    ({"resources_GPU:VGPU": "4"}, False),
    ({"resources1:VGPU": "2", "resources_b:VGPU": "2"}, False),
    ({"resources1:VGPU": "1", "resources_b:VGPU": "2"}, True),
    ({"resources:VGPU": "2", "trait:CUSTOM_NVIDIA_230": "required"}, True),
    ({"resources:VGPU": "3", "trait:CUSTOM_NVIDIA_230": "required"}, False),
    ({"resources1:VGPU": "2", "trait1:CUSTOM_NVIDIA_231": "required"}, False),
    ({"resources1:VGPU": "1", "trait1:CUSTOM_NVIDIA_231": "required"}, True),
    ({"resources:VGPU": "2", "trait:CUSTOM_NVIDIA_230": "forbidden"}, False),
    ({"resources_g:VGPU": "1", "trait_g:CUSTOM_NVIDIA_230": "forbidden"}, True),
    # A trait that no vGPU type is called by is placement's business.
    ({"resources:VGPU": "3", "trait:CUSTOM_RACK_7": "required", "trait:HW_CPU_X86_AVX": "forbidden"}, True),
], ids=str)
def test_flavors(flavors, extra_specs, fits):
    """The hook, and who leaves reading to vgpud, get the same answer."""
    host = flavors.get("/v1/host")["name"]
    status, _, answer = flavors.post("/v1/nova/placement", {
        "instance": {"vcpus": 1, "extra_specs": extra_specs}, "hosts": [{"name": host}]})
    assert status == 200 and (answer["hosts"][0]["verdict"] == "pass") == fits, answer
    flavor = {"name": "g", "memory_mb": 2048, "vcpus": 1, "extra_specs": extra_specs}
    status, _, answer = flavors.post("/scheduler/nova/external", {
        "spec": {"nova_object.name": "RequestSpec", "nova_object.data": {
            "instance_uuid": VM % 9, "num_instances": 1,
            "flavor": {"nova_object.name": "Flavor", "nova_object.data": flavor}}},
        "hosts": [{"host": host, "hypervisor_hostname": host}, {"host": "other-1", "hypervisor_hostname": "other-1"}],
        "weights": {host: 2.0, "other-1": 1.0}})
    assert status == 200 and sorted(answer["hosts"]) == sorted(["other-1", *([host] if fits else [])]), answer


@pytest.fixture(scope="module")
def flavors(tmp_path_factory):
    """A vgpud of a host with three free vGPUs: two of one type, one of another."""
    directory = tmp_path_factory.mktemp("flavors")
    (directory / "node.xml").write_text("<node>" + domain(1, given_mdev(1)) + pci(0x41, "10de:1eb8", more=TYPES % 0) +
                                        "".join(map(mdev, (1, 2, 3))) + mdev(4, "nvidia-231") + "</node>")
    started = Daemon(directory, config=f"[daemon]\nwindow=250ms\n[libvirt]\nuri=test://{directory}/node.xml\n")
    wait_for(lambda: started.get("/v1/host")["gpus"])
    assert places(started, 3)[0]
    yield started
    started.stop()


# ---- with what no VM is migrated ----

def test_blockers_are_named(node):
    """Before anything is stopped; what may block is no problem, and is told."""
    blocking = {
        "SCSI device": "<controller type='scsi' model='virtio-scsi'/><hostdev mode='subsystem' type='scsi'><source>"
                       "<adapter name='scsi_host0'/><address bus='0' target='0' unit='0'/></source></hostdev>",
        "virtiofs": "<filesystem type='mount'><driver type='virtiofs'/><source dir='/d'/><target dir='d'/></filesystem>",
        "transient": "<disk type='file' device='disk'><source file='/d.raw'/><target dev='vda' bus='virtio'/>"
                     "<transient/></disk>",
        "NVMe": "<disk type='nvme' device='disk'><source type='pci' managed='yes' namespace='1'><address domain='0x0000'"
                " bus='0x01' slot='0x00' function='0x0'/></source><target dev='vdb' bus='virtio'/></disk>",
        "host's TPM": "<tpm model='tpm-tis'><backend type='passthrough'><device path='/dev/tpm0'/></backend></tpm>",
        "vDPA": "<interface type='vdpa'><source dev='/dev/vhost-vdpa-0'/></interface>",
        "whose role is not master": "<shmem name='looking-glass'><model type='ivshmem-plain'/><size unit='M'>64</size>"
                                  "</shmem>",
    }
    doubtful = {"vhost-user network card": "<interface type='vhostuser'><mac address='52:54:00:00:00:01'/><source "
                                           "type='unix' path='/s' mode='server'/><model type='virtio'/></interface>"}
    last = verb(node(domain(1, *blocking.values(), *doubtful.values())), "precheck", VM % 1, "test:///default",
                "test:///default")
    # libvirt has let these pass since versions 10 and 11: the rest is QEMU's to say.
    for words in ("virtiofs", "vDPA"):
        if words in str(last["doubts"]):
            doubtful[words] = blocking.pop(words)
    for words in blocking:
        assert len([text for text in last["problems"] if words in text]) == 1, (words, last)
    assert len([text for text in last["problems"] if "device '" in text]) == len(blocking), last
    for words in doubtful:
        assert len([text for text in last["doubts"] if words in text]) == 1, (words, last)
    assert len(last["doubts"]) == len(doubtful), last


def test_virtio_gpu_is_named(node):
    """QEMU is asked for its words, which libvirt's test driver has none of."""
    card = "<video><model type='virtio' heads='1'><acceleration accel3d='yes'/></model></video>"
    last = verb(node(domain(1, card)), "precheck", VM % 1, "test:///default", "test:///default")
    [text] = [text for text in last["problems"] if "virtio-gpu" in text]
    assert text.startswith("virtio-gpu with 3D (virgl) cannot be migrated live (by ")
    assert "another video card). cannot query QEMU: " in text
