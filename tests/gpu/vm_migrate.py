# SPDX-License-Identifier: Apache-2.0
"""The part `migrate` of try-vm: a VM moves between two hosts by `vgpuctl migrate` while its program uses the GPU through
the proxy of the first host. Then `vgpuctl proxy move` moves the program to the proxy of the second host."""
import json
import pathlib
import re
import subprocess
import time

import vm_lab
from movelab import MoveLab, run, running_on
from unixhttp import wait_for
from vm_lab import BUILD, Failed, Guest, Program, lab, native, on_host

NET, PORT, TAP = "192.168.232", 7100, "tap-vm"
MIB, PAUSE_MS, FRAMES_MORE = 16, 20, 50
ENDS_S = 180


def init_of(host):
    return re.search(rf"^{host} init=(\d+)", lab("status").stdout, re.M)[1]


def make_network():
    """A bridge on each host with a port for the VM, and a cable between both bridges."""
    subprocess.run(["ip", "link", "add", "cable", "netns", init_of("h1"), "type", "veth", "peer", "name", "cable",
                    "netns", init_of("h2")], check=True, timeout=60)
    for n in (1, 2):
        lab("exec", f"h{n}", "sh", "-c", f"ip link set lo up; ip link add vms type bridge && ip tuntap add dev {TAP} mode tap"
            f" && ip link set {TAP} master vms up && ip link set cable master vms up && ip addr add {NET}.{n}/24 dev vms &&"
            " ip link set vms up")


class Mobile(Guest):
    """Its network reaches both hosts."""

    def __init__(self, name, disk):  # pylint: disable=super-init-not-called
        self.start(name, disk, TAP, f"{NET}.1", f"{NET}.9")


def times_of(text):
    return [int(ms) for ms in re.findall(r"^frame \d+ at (\d+) ms", text, re.M)]


def more_frames(program):
    """Waits until the program has made more frames."""
    first = len(times_of(program.text()))
    wait_for(lambda: len(times_of(program.text())) >= first + FRAMES_MORE, 120, pause=0.5)


def longest_gap(times):
    return max(now - then for then, now in zip(times, times[1:]))


def part(lab_):
    make_network()
    guest = Mobile("vm1", lab_.disk)
    lab_.stack.callback(guest.remove)
    lab_.report.say(f"vm1 was up after {guest.boot_s:.1f} s")
    addresses = {f"h{n}": f"tcp:{NET}.{n}:{PORT}" for n in (1, 2)}
    proxies = {host: lab_.proxy("proxy-" + host, [("vm1", address, "")], host=host) for host, address in addresses.items()}
    folder = pathlib.Path(vm_lab.WORK) / "hosts"
    folder.mkdir()
    both = MoveLab(folder)
    lab_.stack.callback(both.close)
    for host, node in both.nodes.items():
        node.reload(f"[proxy vm1]\naddress={addresses[host]}\ntoken_file={vm_lab.token_of('vm1')}\n")
    wait_for(lambda: both.nodes["h1"].daemon.get("/v1/proxies")["guests"][0]["told"], 60, pause=0.2)
    program = Program(guest, "frames", [f"{BUILD}/tests/opencl/frames", str(MIB), "100", str(PAUSE_MS), "/tmp/frames.wait"])
    more_frames(program)
    before = times_of(program.text())
    move = both.nodes["h1"].ended(both.nodes["h1"].move("vm1", "h2"), ENDS_S)
    if move["state"] != "done" or running_on("vm1") != ["h2"]:
        raise Failed(f"the move: {json.dumps(move)[:1500]}")
    guest.host = "h2"
    more_frames(program)
    clients = [proxies[host].told()[0]["clients"] for host in ("h1", "h2")]
    moved = times_of(program.text())
    lab_.report.judge(clients == [1, 0], "the VM is on h2, and its program still uses the proxy of h1", clients)
    lab_.report.say(f"VM: migrated in {(move['ended_ns'] - move['made_ns']) / 1e9:.1f} s, downtime "
                    f"{move['progress']['downtime_ns'] / 1e6:.0f} ms, {move['progress']['total_bytes'] >> 20} MiB")
    lab_.report.say(f"longest gap between frames: before the move {longest_gap(before)} ms, during it "
                    f"{longest_gap(moved[len(before) - 1:])} ms")
    wait_for(lambda: both.nodes["h2"].daemon.get("/v1/proxies")["guests"][0]["told"], 60, pause=0.2)
    time.sleep(1)
    [one] = json.loads(run(both.nodes["h2"], "proxy", "move", "vm1", "--to", addresses["h2"], "-o", "json").stdout)[
        "guest"]["programs"]
    more_frames(program)
    clients = [proxies[host].told()[0]["clients"] for host in ("h1", "h2")]
    lab_.report.judge(one["state"] == "away" and clients == [0, 1], "vgpuctl proxy move: the program uses the proxy of h2",
                      clients, f"paused for {one['stop_ns'] / 1e6:.0f} ms")
    guest.tell("opencl go frames")
    status, text = program.end()
    times = times_of(text)
    lab_.report.say(f"{len(times)} frames; longest gap after the VM's move {longest_gap(times[len(moved) - 1:])} ms")
    argv = [f"{BUILD}/tests/opencl/frames", str(MIB), str(len(times)), "0"]
    alone = [on_host(argv, native(lab_.vendor))[1].split()[-1:] for _ in range(2)]
    lab_.report.judge(status == 0 and alone[0] == alone[1] == text.split()[-1:], "result",
                      f"natively, twice {alone}, moved {text.split()[-1:]}, status {status}", program.complaint()[-200:])
