# SPDX-License-Identifier: Apache-2.0
"""What vgpuctl prints on terminals of 80 and of 120 columns, with names of 32 characters: no line is longer."""
import fcntl
import itertools
import os
import pty
import re
import struct
import subprocess
import termios

import pytest
import vgpuctl
from settings import HANG_S, sample
from terminal import columns_of
from test_online import NODE, SCENARIO
from unixhttp import Server
from vgpud import LTTNG, ROOT, Daemon

import json

HOST = "gpu-host-0001.rack-12.example.org"[:32]
NAMES = {"vm-busy": "customer-a-database-primary-0001", "vm-duty": "customer-a-database-primary-0002",
         "vm-idle": "customer-b-web-frontend-node-123"}
BUSY = NAMES["vm-busy"]
# Two VMs of one name, so that libvirt's is added.
NOVA = """<metadata><nova:instance xmlns:nova="http://openstack.org/xmlns/libvirt/nova/1.1">
<nova:name>database of the shop, production</nova:name></nova:instance></metadata>"""
GPU_HOST = os.path.join(ROOT, "data", "demo", "gpu-host.snapshot.json")
# Of the places that have what a command shows.
DAEMON, FAKE, GPU, NOWHERE = "daemon", "fake", "gpu", "nowhere"


@pytest.fixture(scope="module")
def places(tmp_path_factory):
    """vgpud with a recording of these VMs; one with GPU requests; and a stand-in that has moves."""
    assert all(len(name) == 32 for name in (HOST, *NAMES.values()))
    directory = tmp_path_factory.mktemp("width")
    with open(NODE, encoding="utf-8") as file:
        node = file.read()
    for old, name in NAMES.items():
        node = node.replace(f"<name>{old}</name>", f"<name>{name}</name>{NOVA if old != 'vm-idle' else ''}")
    (directory / "node.xml").write_text(node)
    (directory / "names.map").write_text("".join(f"{120 + i} {name}\n" for i, name in enumerate(NAMES.values())))
    scenario = json.loads(json.dumps(SCENARIO))
    for vm, name in zip(scenario["vms"], NAMES.values()):
        vm["name"] = name
    (directory / "gpu").mkdir()
    subprocess.run([vgpuctl.program(), "simulate", "-", "--trace-out", str(directory / "trace")],
                   input=json.dumps(scenario), capture_output=True, text=True, timeout=HANG_S, check=True)
    fake = Server(directory, "--vms", 3)
    assert fake.post("/v1/migrations", {"vm": "alpha", "to": "host-b"}).status == 201
    assert fake.post("/v1/plans", {"dry_run": True}).status in (200, 201)
    with Daemon(directory, "--speed", "max", "--vm-map", directory / "names.map", "--host", HOST, replay=LTTNG,
                config=f"[libvirt]\nuri=test://{directory}/node.xml\n") as daemon, \
            Daemon(directory / "gpu", "--speed", "max", "--host", HOST, replay=directory / "trace") as gpu:
        daemon.replayed()
        gpu.replayed()
        for name in ("nova-scheduler-of-region-europe1", "short"):
            daemon.post("/v1/tokens", {"name": name, "role": "operator", "lifetime_s": 86400})
        daemon.post("/v1/plans", {"dry_run": True})
        daemon.get("/v1/vms/none", status=404)
        yield {DAEMON: daemon.socket, GPU: gpu.socket, FAKE: fake.path, NOWHERE: None, "directory": directory}
    fake.stop()


def print_on_terminal(columns, args, socket):
    """Exit code and lines."""
    leader, follower = pty.openpty()
    fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    env = {**os.environ, "LC_ALL": "C.UTF-8", "HOME": "/nonexistent"}
    if socket:
        env["VGPUCTL_SOCKET"] = socket
    child = subprocess.Popen([vgpuctl.program(), *map(str, args)], stdin=subprocess.DEVNULL, stdout=follower,
                             stderr=subprocess.DEVNULL, env=env)
    os.close(follower)
    seen = b""
    while True:
        try:
            chunk = os.read(leader, 65536)
        except OSError:
            break
        if not chunk:
            break
        seen += chunk
    os.close(leader)
    return child.wait(HANG_S), seen.decode().replace("\r\n", "\n").splitlines()


PAST = ["--since", "2020-01-01"]
COMMANDS = {
    DAEMON: [["vm", "list"], ["vm", "show", BUSY], ["vm", "history", BUSY, *PAST], ["vm", "list", *PAST],
             ["preemptions"], ["preemptions", BUSY], ["preemptions", "--matrix"], ["preemptions", *PAST],
             ["host", "show"], ["host", "cpus"], ["host", "history", *PAST], ["doctor"], ["top", "-n", "1"], ["events", "--since", "-1d"],
             ["plan", "list"], ["placement", "--dry-run"], ["placement", "--explain", BUSY], ["explain", BUSY],
             ["explain"], ["peer", "list"], ["token", "list"], ["audit"], ["migration", "list"], ["alert", "list"], ["policy", "report"],
             ["nova", "check", "--socket"]],
    GPU: [["gpu", "list"], ["gpu", "requests"], ["gpu", "show"], ["vm", "show", BUSY]],
    FAKE: [["vm", "list"], ["vm", "show", "alpha"], ["host", "show"], ["host", "cpus"], ["host", "history"], ["migration", "list"], ["migration", "list", "--all"],
           ["migration", "show"], ["vulkan", "enable", "alpha", "--dry-run"], ["proxy", "list"], ["proxy", "show", "alpha"], ["proxy", "move", "alpha", "--to", "tcp:192.168.122.1:7000"], ["migrate", "alpha", "--to", "host-b", "--dry-run"],
           ["peer", "list"], ["plan", "show"], ["gpu", "list"], ["token", "list"], ["audit"],
           ["preemptions"], ["preemptions", "--matrix"], ["doctor"], ["vm", "history", "alpha"]],
    NOWHERE: [["analyze", LTTNG, "--vm-map", "names.map"], ["analyze", LTTNG, "--vm-map", "names.map", "--tasks"],
              ["placement", "--dry-run", "--state", "here.json", "--state", GPU_HOST],
              ["explain", BUSY, "--state", "here.json", "--state", GPU_HOST],
              ["simulate", os.path.join(ROOT, "data", "scenarios", "gaussian-hotspot.json")],
              ["context", "list"], ["version"], ["help"]],
}
# These print documents, files or nothing but what they do.
# What they print is for other programs: documents, a recording, a link.
OTHERS = {"snapshot", "record", "ui"}


def completed(places, place, args):
    """Arguments that are only known when the place is there."""
    socket = places[place]
    if args[:2] in (["gpu", "show"], ["gpu", "requests"], ["migration", "show"], ["plan", "show"]):
        names = subprocess.run([vgpuctl.program(), args[0], "list", "-o", "name", "--socket", socket],
                               capture_output=True, text=True, timeout=HANG_S, check=True).stdout.splitlines()
        return [*args, names[0]]
    if args[-1] == "--socket":
        return [*args, socket]
    if "here.json" in args:
        here = places["directory"] / "here.json"
        if not here.exists():
            here.write_bytes(subprocess.run([vgpuctl.program(), "snapshot", "--socket", places[DAEMON]],
                                            capture_output=True, timeout=HANG_S, check=True).stdout)
    return [places["directory"] / arg if arg in ("here.json", "names.map") else arg for arg in args]


def test_every_command_is_here():
    """Those that are printed by `vgpuctl --help`."""
    shown = subprocess.run([vgpuctl.program(), "--help"], capture_output=True, text=True, timeout=HANG_S, check=True)
    commands = set(re.findall(r"(?m)^  ([a-z]+) ", shown.stdout))
    tried = {args[0] for several in COMMANDS.values() for args in several}
    assert len(commands) > 15 and commands - OTHERS <= tried, commands - OTHERS - tried


@pytest.mark.parametrize("place, columns", sample("widths", itertools.product(COMMANDS, [80, 120]), 4))
def test_no_line_is_longer_than_the_terminal(places, place, columns):
    wrong = []
    for args in COMMANDS[place]:
        whole = completed(places, place, args)
        code, lines = print_on_terminal(columns, whole, places[place])
        long = [line for line in lines
                if sum(map(columns_of, line.rstrip())) > columns and not line.lstrip().startswith("$ ")]
        if long or not lines or code > 7:
            wrong.append(f"{' '.join(map(str, args))}: exit {code}, {len(lines)} lines\n" + "\n".join(long[:3]))
    assert not wrong, "\n\n".join(wrong)
