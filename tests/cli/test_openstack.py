# SPDX-License-Identifier: Apache-2.0
"""What OpenStack calls a VM: from the XML that nova wrote, through libvirt's test driver and vgpud, to
the lists of vgpuctl and the filters of the API."""
import json
import os
import re
import subprocess

import pytest
import vgpuctl
from settings import HANG_S
from vgpud import LTTNG, ROOT, BusyVm, Daemon, wait_for

DOMAINS = [os.path.join(ROOT, "tests", "data", "nova", name)
           for name in ("instance-0000001f.xml", "instance-00000020.xml")]
NODE = os.path.join(ROOT, "data", "demo", "node.xml")
ODD = "web\u202e1 \u009b31mred & \U0001f600"


def start(directory, edit=lambda text: text, **options):
    """vm-idle is nobody's; the other two are nova's."""
    with open(NODE, encoding="utf-8") as file:
        node = file.read()
    domains = re.findall(r"  <domain.*?</domain>\n", node, re.S)
    for domain, path in zip(domains, DOMAINS):
        with open(path, encoding="utf-8") as file:
            # That driver takes no other type, and has no mediated devices.
            text = file.read().replace('type="kvm"', 'type="test"', 1)
        node = node.replace(domain, re.sub(r"<hostdev.*</hostdev>", "", text, flags=re.S))
    path = directory / "node.xml"
    path.write_text(edit(node))
    names = directory / "names.map"
    names.write_text("120 instance-0000001f\n121 instance-00000020\n122 vm-idle\n")
    return Daemon(directory, "--speed", "max", "--vm-map", names, "--host", "demo-host", replay=LTTNG,
                  config=f"[libvirt]\nuri=test://{path}\n")


@pytest.fixture(scope="module")
def daemon(tmp_path_factory):
    with start(tmp_path_factory.mktemp("openstack")) as running:
        yield running.replayed()


def run(daemon, *args, code=0):
    done = subprocess.run([vgpuctl.program(), "vm", *args, "--socket", daemon.socket], capture_output=True,
                          text=True, timeout=HANG_S, check=False)
    assert done.returncode == code, (args, done.stdout, done.stderr)
    return done.stdout if code == 0 else done.stderr


def names(daemon, *args):
    return [vm["name"] for vm in json.loads(run(daemon, "list", *args, "-o", "json"))]


@pytest.mark.smoke
def test_what_nova_calls_it(daemon):
    vms = {vm["name"]: vm["openstack"] for vm in daemon.get("/v1/vms")["items"]}
    assert vms == {
        "instance-0000001f": {"name": "render-1", "flavor": "vgpu.large", "project": "graphics",
                              "project_id": "9f8e7d6c5b4a49388271605f4e3d2c1b", "user": "alice",
                              "user_id": "5f3c8b8f2c5d4f39a6f0e6d8a1b2c3d4"},
        "instance-00000020": {"name": ODD, "flavor": "m1.small", "project": "web <team>",
                              "project_id": "1234", "user": "bob", "user_id": "0a1b"},
        "vm-idle": None}
    one = daemon.get("/v1/vms/instance-0000001f")
    assert one["openstack"] == vms["instance-0000001f"] and one["domain"]["nova"]["user_name"] == "alice"


def test_tables(daemon):
    wide = run(daemon, "list", "-o", "wide").splitlines()
    assert wide[0].split()[:5] == ["VM", "UUID", "INSTANCE", "PROJECT", "FLAVOR"]
    rows = {line.split()[0]: line for line in wide[1:]}
    assert "render-1" in rows["instance-0000001f"] and " graphics " in rows["instance-0000001f"]
    assert "vgpu.large" in rows["instance-0000001f"]
    assert rows["vm-idle"].split()[2:5] == ["-", "-", "-"]
    # Nothing that turns the direction of writing, or begins an escape sequence.
    assert "web?1 ?31mred & \U0001f600" in rows["instance-00000020"]
    plain = run(daemon, "list").splitlines()
    assert "INSTANCE" not in plain[0] and not any("instance-0" in line for line in plain)
    assert {line[:8] for line in plain[1:]} == {"render-1", "web?1 ?3", "vm-idle "}
    assert [run(daemon, "list", "-c", column, "--no-headers").split("\n")[0].strip() for column in ("VM", "name")] == [
        "render-1", "instance-0000001f"]
    # They took each other's time.
    assert next(line for line in plain if line.startswith("render-1")).rstrip().endswith(
        " web?1 ?31mred & \U0001f600")
    shown = run(daemon, "show", "instance-0000001f").splitlines()
    at = shown.index("In OpenStack")
    assert shown[at + 1].split() == ["INSTANCE", "FLAVOR", "PROJECT", "USER"]
    assert shown[at + 2].split() == ["render-1", "vgpu.large", "graphics", "alice"]
    assert "\u202e" not in run(daemon, "show", "instance-00000020")
    assert "In OpenStack" not in run(daemon, "show", "vm-idle")


def anywhere(daemon, *args, code=0):
    done = subprocess.run([vgpuctl.program(), *args, "--socket", daemon.socket], capture_output=True, text=True,
                          timeout=HANG_S, check=False)
    assert done.returncode == code, (args, done.stdout, done.stderr)
    return done.stdout if code == 0 else done.stderr


COMMANDS = [["vm", "show", "render-1"], ["vm", "history", "render-1", "--since", "2020-01-01"],
            ["preemptions", "render-1"], ["preemptions", "render-1", "--since", "2020-01-01"],
            ["explain", "render-1"], ["placement", "--explain", "render-1"]]


def test_every_command_takes_the_name(daemon):
    """It says what it says of libvirt's name."""
    for args in COMMANDS:
        other = ["instance-0000001f" if arg == "render-1" else arg for arg in args]
        assert anywhere(daemon, *args, "-o", "json") == anywhere(daemon, *other, "-o", "json"), args
    assert anywhere(daemon, "explain", "render-1").startswith("render-1 (instance-0000001f) on demo-host: ")
    # A move is refused for other reasons than the name.
    refused = anywhere(daemon, "migrate", "render-1", "--to", "elsewhere", "--dry-run", code=4)
    assert refused == anywhere(daemon, "migrate", "instance-0000001f", "--to", "elsewhere", "--dry-run", code=4)
    # The beginning is enough here, too.
    assert "render-1" in anywhere(daemon, "vm", "show", "rend")
    assert "no VM 'rendering' is measured" in anywhere(daemon, "vm", "show", "rendering", code=3)


def test_names_in_documents(daemon):
    vms = {vm["name"]: vm for vm in daemon.get("/v1/vms")["items"]}
    assert {name: vm.get("label") for name, vm in vms.items()} == {
        "instance-0000001f": "render-1", "instance-00000020": ODD, "vm-idle": None}
    labels = {loss["aggressor"]: loss.get("aggressor_label") for loss in vms["vm-idle"]["lost_to"]}
    assert labels["instance-0000001f"] == "render-1" and labels["host:kernel"] is None
    pairs = daemon.get("/v1/preemptions?vm=render-1")["items"]
    assert {pair["victim"]["label"] for pair in pairs} == {"render-1"}
    assert ODD in {pair.get("aggressor_label") for pair in pairs}
    snapshot = daemon.get("/v1/snapshot")
    assert {vm["name"]: vm.get("display_name") for vm in snapshot["hosts"][0]["vms"]} == {
        "instance-0000001f": "render-1", "instance-00000020": ODD, "vm-idle": None}
    metrics = daemon.request("GET", "/metrics")[2].decode()
    infos = {re.search(r'vm="([^"]*)"', line)[1]: line for line in metrics.splitlines()
             if line.startswith("vgpud_vm_info{")}
    assert ',display_name="render-1"} 1' in infos["instance-0000001f"]
    assert "display_name" not in infos["vm-idle"]
    for command in ("vm list", "preemptions", "vm history vm-idle"):
        past = anywhere(daemon, *command.split(), "--since", "2020-01-01")
        assert ("render-1" in past or "history" in command) and "instance-0" not in past, past
    matrix = anywhere(daemon, "preemptions", "--matrix")
    assert "render-1" in matrix and "instance-0" not in matrix


def test_two_of_one_name(tmp_path):
    """And one that takes the name of a VM of libvirt, which it does not get."""
    with start(tmp_path, lambda node: re.sub("(<nova:name>).*(</nova:name>)", r"\1web\2", node)) as daemon:
        daemon.replayed()
        table = anywhere(daemon, "vm", "list")
        assert "web (instance-0000001f)" in table and "web (instance-00000020)" in table
        candidates = "2 VMs are named 'web' in OpenStack: 'instance-0000001f', 'instance-00000020'"
        for args in ("vm show web", "vm history web", "preemptions web", "preemptions web --since 2020-01-01",
                     "migrate web --to elsewhere --dry-run"):
            assert candidates in anywhere(daemon, *args.split(), code=5), args
        assert "'demo-host/instance-0000001f'" in anywhere(daemon, "explain", "web", code=5)
    with start(tmp_path, lambda node: node.replace("render-1", "vm-idle")) as daemon:
        daemon.replayed()
        assert "vm-idle (instance-0000001f)" in anywhere(daemon, "vm", "list")
        assert json.loads(anywhere(daemon, "vm", "show", "vm-idle", "-o", "json"))["name"] == "vm-idle"


def test_events_name_it(tmp_path):
    """A process like a QEMU comes and goes while libvirt is known."""
    with open(DOMAINS[0], encoding="utf-8") as file:
        known = re.search("<uuid>(.*)</uuid>", file.read())[1]
    label = f'<seclabel type="static" model="dac" relabel="no"><label>+{os.geteuid()}:+0</label></seclabel>'
    with start(tmp_path, lambda text: text.replace("</os>", "</os>" + label)) as replay:
        replay.kill()
    (tmp_path / "live").mkdir()
    with Daemon(tmp_path / "live", config=f"[libvirt]\nuri=test://{tmp_path}/node.xml\n") as daemon:
        wait_for(lambda: daemon.get("/v1/host")["hypervisor"])
        with BusyVm(known_uuid=known, name="instance-0000001f"):
            wait_for(lambda: any(vm["uuid"] == known and vm["newest"] for vm in daemon.get("/v1/vms")["items"]))
        events = wait_for(lambda: [event for event in daemon.get("/v1/events?since=-1h&types=vm")["items"]
                                   if event.get("uuid") == known and event["what"] == "gone"])
        assert events[0]["display_name"] == "render-1"


@pytest.mark.parametrize("args, found", [
    (["--project", "graphics"], ["instance-0000001f"]),
    (["--project", "9f8e7d6c5b4a49388271605f4e3d2c1b"], ["instance-0000001f"]),
    (["--project", "web <team>"], ["instance-00000020"]),
    (["--project", "graph*"], []),
    (["--project", "web"], []),
    (["--name", "render-1"], ["instance-0000001f"]),
    (["--name", "render"], []),
    (["--name", "instance-*"], ["instance-0000001f", "instance-00000020"]),
    (["--name", "web?1*\U0001f600"], ["instance-00000020"]),
    (["--name", "*red & ?"], ["instance-00000020"]),
    (["--name", "vm-*"], ["vm-idle"]),
    (["--name", "*"], ["instance-0000001f", "instance-00000020", "vm-idle"]),
    (["--name", "*?*e*-*"], ["instance-0000001f", "instance-00000020"]),
    (["--name", "?"], []),
    (["--name", "i*", "--project", "1234"], ["instance-00000020"]),
    (["--name", "*", "--class", "cpu", "--project", "graphics"], ["instance-0000001f"]),
], ids=str)
def test_filters(daemon, args, found):
    assert names(daemon, *args) == found


def test_a_pattern_of_stars_takes_no_time(daemon):
    """A matcher that goes back for each star would be at it for years."""
    assert names(daemon, "--name", "*n*" * 60 + "!") == []


def test_pages_and_mistakes(daemon):
    page = daemon.get("/v1/vms?name=instance-*&limit=1")
    assert [vm["name"] for vm in page["items"]] == ["instance-0000001f"]
    page = daemon.get(f"/v1/vms?name=instance-*&limit=1&marker={page['next']}")
    assert [vm["name"] for vm in page["items"]] == ["instance-00000020"] and page["next"] is None
    for query in ("name=", "project=", "name=" + "x" * 256, "project=" + "x" * 256):
        daemon.get("/v1/vms?" + query, status=400)
    assert "no VM matches" in run(daemon, "list", "--project", "none")
    assert "are valid only with `vm list`" in run(daemon, "show", "vm-idle", "--name", "x", code=2)
