# SPDX-License-Identifier: Apache-2.0
"""Hosts of tests/lab/lab.sh, each with its vgpud, which know each other; and a guest with a
stand-in GPU that moves between them."""
import glob
import os
import re
import subprocess

import vgpuctl
from certs import Authority
from labdaemon import LabDaemon
from labhost import ENV, LAB, lab
from settings import HANG_S
from unixhttp import wait_for

PORT = 8447
GPU_XML = os.path.join(os.path.dirname(LAB), "gpu.xml")
ALIAS = "ua-gpu0"


def address(host):
    return f"{ENV['LAB_NET']}.{host[1:]}"


class Node:
    """One host's vgpud."""

    def __init__(self, host, directory, authority, slots=1):
        self.host, self.directory, self.slots = host, directory, slots
        self.directory.mkdir()
        self.pem, self.key = authority.issue(host, f'ip_address = "{address(host)}"')
        self.ca = authority.certificate
        self.more = ""
        self.uri = "qemu+tcp://{}/system"  # of the others' libvirt, by the name of the host
        self.binary = None  # of its vgpud; None: the one under test
        self.env = {}  # of its vgpud, besides
        self.daemon = None

    def config(self, peers=()):
        text = (f"[api]\nlisten={address(self.host)}:{PORT}\ntls_certificate={self.pem}\n"
                f"tls_key={self.key}\nwrites_per_min=100000\nclient_requests=1000000\n"
                "[libvirt]\nuse=yes\npoll=1s\n[live]\nbpf=no\nperf=no\n[gpu]\nenable=no\n"
                f"[gpu standin]\ndevice_xml={GPU_XML}\nslots={self.slots}\n"
                "[actions]\nenabled=yes\nguest_deadline=60s\n")
        for peer in peers:
            text += (f"[peer {peer.host}]\nurl=https://{address(peer.host)}:{PORT}\n"
                     f"cacert={self.ca}\ntoken_file={peer.directory}/token\n"
                     f"libvirt_uri={self.uri.format(peer.host)}\n")
        return text + "[peers]\nrefresh=1s\ndeadline=2s\n"

    def start(self, peers=(), wait=True):
        self.daemon = LabDaemon(self.directory, host=self.host, config=self.config(peers) + self.more,
                                wait=wait, binary=self.binary, env=self.env)
        return self

    def make_token(self):
        status, _, answer = self.daemon.post("/v1/tokens", {"name": "peer", "role": "operator"})
        assert status in (201, 409), answer
        if status == 201:
            (self.directory / "token").write_text(answer["token"] + "\n")

    def reload(self, more):
        """With more in its configuration; only what a reload takes."""
        before = self.daemon.log().count("configuration reloaded")
        with open(self.daemon.config_path, encoding="utf-8") as file:
            text = file.read().split("# more\n", 1)[0]
        self.daemon.write_config(text + "# more\n" + more)
        os.kill(self.daemon.pid(), 1)
        wait_for(lambda: self.daemon.log().count("configuration reloaded") > before)

    # ---- what is asked ----

    def move(self, vm, to, status=201, **more):
        got, _, answer = self.daemon.post("/v1/migrations", {"vm": vm, "to": to, **more})
        assert got == status, answer
        return answer

    def migration(self, move):
        return self.daemon.get("/v1/migrations/" + move["id"])

    def ended(self, move, limit=HANG_S):
        """The move, once it has ended."""
        def done():
            now = self.migration(move)
            return now if now["ended_ns"] else None
        return wait_for(done, limit, pause=0.05)

    def reservations(self):
        return self.daemon.get("/v1/reservations")["items"]


class MoveLab:
    def __init__(self, directory, hosts=("h1", "h2"), binary=None):
        authority = Authority(directory / "ca")
        self.nodes = {host: Node(host, directory / host, authority) for host in hosts}
        for node in self.nodes.values():
            node.binary = binary
        for node in self.nodes.values():
            node.start()
            node.make_token()
            node.daemon.stop()
        for host in hosts:
            self.start(host)
        self.meet()

    def start(self, host, **options):
        others = [node for name, node in self.nodes.items() if name != host]
        return self.nodes[host].start(others, **options)

    def meet(self):
        """Until each knows the others."""
        def known():
            return all(p["state"] == "reachable" for node in self.nodes.values()
                       for p in node.daemon.get("/v1/peers")["items"])
        wait_for(known)

    def close(self):
        for node in self.nodes.values():
            if node.daemon and node.daemon.process.poll() is None:
                node.daemon.stop()


def run(node, *args, code=0):
    """vgpuctl, which asks this node, and ends with this code."""
    done = subprocess.run([vgpuctl.program(), *args, "--socket", node.daemon.socket], capture_output=True,
                          text=True, timeout=HANG_S)
    assert done.returncode == code, (done.returncode, done.stdout, done.stderr)
    return done


# ---- what is true, asked of all libvirts ----

def hosts_up():
    """Two, or three once a test has added one."""
    return sorted(os.path.basename(os.path.dirname(path))
                  for path in glob.glob(os.path.join(ENV["LAB_DIR"], "h*", "pid")))


def running_on(guest):
    """The hosts on which it runs; a domain that waits for a migration does not."""
    return [host for host in hosts_up() if guest in
            lab("virsh", host, "-q", "list", "--state-running", "--name").stdout.split()]


def defined_on(guest):
    return [host for host in hosts_up() if guest in
            lab("virsh", host, "-q", "list", "--all", "--persistent", "--name").stdout.split()]


def has_gpu(host, guest):
    return ALIAS in lab("virsh", host, "dumpxml", guest).stdout


def console(host, guest):
    path = os.path.join(ENV["LAB_DIR"], host, "log", "qemu", f"{guest}.console")
    if not os.path.exists(path):
        return ""
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read()


def said_by_qemu(host, guest):
    """What libvirt keeps of it; the log goes on when the guest comes back."""
    path = os.path.join(ENV["LAB_DIR"], host, "log", "qemu", f"{guest}.log")
    if not os.path.exists(path):
        return ""
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read()


def hooks(host, guest):
    """The phases of the hooks that ran while it was on this host."""
    return re.findall(r"HOOK (\w+) ", console(host, guest))


def start_guest(host, guest, gpu=True, mib=160, devices=""):
    lab("guest", host, guest, str(mib), devices)
    if gpu:
        lab("gpu", host, "attach", guest)


def define_guest(host, guest, devices, *replacements):
    """Does not start it."""
    with open(os.path.join(os.path.dirname(LAB), "guest.xml.in"), encoding="utf-8") as file:
        xml = file.read()
    for what, by in (("@NAME@", guest), ("@UUID@", "00000000-0000-4000-9000-00000000dea1"), ("@MIB@", "160"),
                     ("@DEVICES@", devices), *replacements):
        xml = xml.replace(what, by)
    with open(os.path.join(ENV["LAB_DIR"], host, "lib", f"{guest}.xml"), "w", encoding="utf-8") as file:
        file.write(xml)
    lab("virsh", host, "-q", "define", f"/var/lib/libvirt/{guest}.xml")


def start_deaf_guest(host, guest):
    """One that never lets go of what is unplugged, with a GPU."""
    # It would not hear of one that is plugged in either.
    with open(GPU_XML, encoding="utf-8") as file:
        define_guest(host, guest, file.read(), ("console=ttyS0", "console=ttyS0 acpiphp.disable=1"))
    lab("virsh", host, "-q", "start", guest)
    wait_for(lambda: "GUEST-READY" in console(host, guest), pause=0.1)


def tell(host, guest, line):
    """To what stands in for the guest's programs (tests/lab/guest-agent)."""
    return lab("tell", host, guest, line).stdout.split()


def kill_qemu(host, guest):
    lab("exec", host, "sh", "-c", f"kill -9 $(cat /run/libvirt/qemu/{guest}.pid)")


def remove_guest(guest):
    for host in hosts_up():
        lab("virsh", host, "-q", "destroy", guest, check=False)
        lab("virsh", host, "-q", "undefine", guest, check=False)
