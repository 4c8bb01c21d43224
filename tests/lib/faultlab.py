# SPDX-License-Identifier: Apache-2.0
"""Two hosts, a VM with a GPU that moves between them, and the faults of tests/lib/faulttable.py."""
import contextlib
import os
import signal
import subprocess
import tempfile
from pathlib import Path

from labdaemon import prefix
from labhost import BUILD, ENV, LAB, ROOT, lab
from movelab import MoveLab, console, hosts_up
from unixhttp import wait_for

HOSTS = ("h1", "h2")
# So long a fault lasts that ends by itself, and at most one that stays until the move has ended.
LASTS_S, STAYS_S = 8, 110
JUMP_S = 3600
MIB = 160
LEASE_S = 40
CONFIG = f"[actions]\nguest_deadline=20s\nlease={LEASE_S}s\n"
SLOW = "bandwidth=8\n"
PREVIOUS = os.path.join(BUILD, "previous")
STRANGER = {"move_id": "move-0123456789abcdef", "vm": "stranger", "uuid": "00000000-0000-4000-9000-00000000beef",
            "from": "h9", "lease_s": 600, "devices": [{"kind": "named", "type": "standin", "alias": "ua-gpu0"}]}


def other(host):
    return HOSTS[host == "h1"]


def uuid_of(guest):
    """As lab.sh has them."""
    return lab_uuid(subprocess.run(["cksum"], input=guest.encode(), capture_output=True, check=True).stdout.split()[0])


def lab_uuid(number):
    return "00000000-0000-4000-9000-%012x" % int(number)


def start_guest(host, guest, initrd="initrd", gpu=True, metadata=""):
    """One that may reboot."""
    xml = Path(LAB).with_name("guest.xml.in").read_text(encoding="utf-8")
    for what, by in (("@NAME@", guest), ("@UUID@", uuid_of(guest)), ("@MIB@", str(MIB)), ("@DEVICES@", ""),
                     ("boot/initrd", "boot/" + initrd), ("</uuid>", "</uuid>" + metadata), ("<on_reboot>destroy", "<on_reboot>restart")):
        xml = xml.replace(what, by)
    Path(ENV["LAB_DIR"], host, "lib", f"{guest}.xml").write_text(xml, encoding="utf-8")
    for name in hosts_up():
        with contextlib.suppress(FileNotFoundError):
            Path(ENV["LAB_DIR"], name, "log", "qemu", f"{guest}.console").unlink()
    lab("virsh", host, "-q", "define", f"/var/lib/libvirt/{guest}.xml")
    lab("virsh", host, "-q", "start", guest)
    wait_for(lambda: "GUEST-READY" in console(host, guest), pause=0.1)
    if gpu:
        lab("gpu", host, "attach", guest)


def make_old_initrd():
    """The guest's, with the vgpu-guestd of the previous version: a later archive wins."""
    image = Path(ENV["LAB_DIR"], "image")
    with tempfile.TemporaryDirectory() as root:
        os.makedirs(f"{root}/usr/sbin")
        subprocess.run(["install", "-m", "755", f"{PREVIOUS}/vgpu-guestd", f"{root}/usr/sbin/vgpu-guestd"], check=True)
        more = subprocess.run("find . | cpio -o -H newc -R 0:0 --quiet", shell=True, cwd=root, check=True,
                              capture_output=True).stdout
    (image / "initrd-old").write_bytes((image / "initrd").read_bytes() + more)


def set_clock(node, seconds):
    """In place: vgpud has the file mapped."""
    with open(node.clock, "r+b") as file:
        file.write(seconds.to_bytes(8, "little", signed=True))


def kill_at_write(node, number):
    """vgpud ends after so many writes to its journal from now on; below zero: before that one; 0: no more."""
    with open(node.writes, "r+b") as file:
        file.write(number.to_bytes(8, "little", signed=True) + bytes(8))


def make_library(name):
    """One of tests/lib that is loaded into vgpud."""
    path = os.path.join(BUILD, "tests", f"{name}.so")
    source = os.path.join(ROOT, "tests", "lib", f"{name}.c")
    if not os.path.exists(path) or os.path.getmtime(path) < os.path.getmtime(source):
        os.makedirs(os.path.dirname(path), exist_ok=True)
        subprocess.run(["gcc", "-O1", "-shared", "-fPIC", "-o", path, source], check=True)
    return path


def stop(node):
    """The vgpud of a node; nsenter, which has started it, stops, too."""
    pid = node.daemon.pid()
    os.kill(pid, signal.SIGSTOP)
    wait_for(lambda: process_state(node.daemon.process.pid) == "T", pause=0.001)
    return pid


def process_state(pid):
    return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rsplit(")", 1)[1].split()[0]


def let_go(node, pid):
    for each in (pid, node.daemon.process.pid):
        with contextlib.suppress(ProcessLookupError):
            os.kill(each, signal.SIGCONT)


class FaultLab:
    """Each vgpud has its state on a disk of its own. shared: the hosts are up already, and stay up."""

    def __init__(self, scratch, binary=None, shared=False, hosts=HOSTS):
        self.scratch, self.binary, self.shared, self.hosts = Path(scratch), binary, shared, hosts
        self.number = 0
        self.cloud = None  # of VMs that nova moves
        self.up()

    def up(self):
        if not self.shared:
            lab("down", check=False)
            lab("up", str(len(self.hosts)))
        self.number += 1
        directory = self.scratch / f"lab{self.number}"
        directory.mkdir()
        self.moves = MoveLab(directory, hosts=self.hosts, binary=self.binary)
        self.nodes = self.moves.nodes
        preload = f"{make_library('jump-clock')}:{make_library('kill-at-write')}"
        for host, node in self.nodes.items():
            node.clock, node.writes = node.directory / "clock", node.directory / "writes"
            node.clock.write_bytes(bytes(8))
            node.writes.write_bytes(bytes(16))
            node.env = {"LD_PRELOAD": preload, "VG_JUMP_CLOCK": str(node.clock), "VG_KILL_AT_WRITE": str(node.writes)}
            node.daemon.stop()
            self.mount(host)
            self.start(host)
        self.moves.meet()
        self.inits = {host: prefix(host) for host in self.hosts}

    def down(self):
        for node in self.nodes.values():
            if node.daemon and node.daemon.process.poll() is None:
                node.daemon.kill()
        if self.shared:
            for host in self.hosts:
                lab("exec", host, "umount", self.nodes[host].daemon.state, check=False)
        else:
            lab("down", check=False)

    # ---- disks ----

    def image(self, host):
        return self.nodes[host].directory / "state.img"

    def mount(self, host):
        state, image = self.nodes[host].daemon.state, self.image(host)
        if not image.exists():
            with open(image, "wb") as file:
                file.truncate(48 << 20)
            subprocess.run(["mkfs.ext4", "-q", "-m", "0", image], check=True)
            lab("exec", host, "sh", "-c", f"cp -a {state} {state}.old && mount -o loop {image} {state} && "
                                          f"cp -a {state}.old/. {state}")
        else:
            subprocess.run(["e2fsck", "-p", image], check=False, capture_output=True)
            lab("exec", host, "mount", "-o", "loop", str(image), state)

    def forget(self, host):
        """An empty state, but for the tokens; for the case after one that left something."""
        self.kill(host)
        state = self.nodes[host].daemon.state
        lab("exec", host, "sh", "-c", f"rm -rf {state}/* && cp -a {state}.old/. {state}")
        self.start(host)

    # ---- vgpud ----

    def start(self, host):
        self.moves.start(host)

    def use_cloud(self, cloud):
        """Each vgpud asks it; it keeps that until it is started anew."""
        self.cloud = cloud
        for host, node in self.nodes.items():
            node.more = cloud.config(node.directory)
            with open(node.daemon.config_path, encoding="utf-8") as file:
                if "[nova]" not in file.read():
                    self.kill(host)
                    self.start(host)

    def runs(self, host):
        return self.nodes[host].daemon.process.poll() is None

    def kill(self, host):
        if self.runs(host):
            self.nodes[host].daemon.kill()

    # ---- the VM ----

    def known(self, host, guest):
        node = self.nodes[host]
        wait_for(lambda: node.daemon.request("GET", f"/v1/vms/{guest}")[0] == 200, pause=0.05)
        for each in self.nodes.values():
            wait_for(lambda each=each: each.daemon.part("libvirt-calls")["state"] == "ok", pause=0.05)
        self.moves.meet()

    def virsh(self, host, *args, timeout=20):
        """None: it does not answer."""
        try:
            return subprocess.run([*self.inits[host], "virsh", "-q", *args], capture_output=True, text=True,
                                  stdin=subprocess.DEVNULL, timeout=timeout, check=False)
        except subprocess.TimeoutExpired:
            return None

    def sane(self):
        """Ends what a fault has left; the hosts are as at the start."""
        for host in HOSTS:
            lab("network", host, "mend")
            if self.virsh(host, "version", timeout=5) is None or lab("virsh", host, "-q", "version",
                                                                     check=False).returncode != 0:
                lab("daemon", host, "kill", check=False)
                lab("daemon", host, "start")
                wait_for(lambda host=host: lab("virsh", host, "-q", "version", check=False).returncode == 0, pause=0.2)
            lab("exec", host, "rm", "-f", "/run/hold-qemu")
            node = self.nodes[host]
            node.more = ""
            set_clock(node, 0)
            kill_at_write(node, 0)
            if node.binary != self.binary or not self.runs(host):
                self.kill(host)
                node.binary = self.binary
                self.start(host)
