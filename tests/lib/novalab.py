# SPDX-License-Identifier: Apache-2.0
"""vgpuds of two hosts for moves by nova: the one under test has VMs of libvirt's test driver, and nova's
mark is on them."""
import subprocess

import vgpuctl
from certs import Authority
from fakecloud import SECRET
from settings import HANG_S
from tlsserver import loopback
from vgpud import Daemon, wait_for

UUID = "7f1c0a52-3d6e-4b7a-9c55-0a4d5c1e2b3f"
OLD_UUID = "8a2d1b63-4e7f-4c8b-8d66-1b5e6d2f3c40"
GPU_UUID = "9b3e2c74-5f80-4d9c-9e77-2c6f7e304d51"
DOMAIN = """<domain type='test'><name>{name}</name><uuid>{uuid}</uuid>
<metadata><nova:instance xmlns:nova="http://openstack.org/xmlns/libvirt/nova/{version}">
<nova:name>{called}</nova:name><nova:flavor name="m1.small"/></nova:instance></metadata>
<memory unit='MiB'>512</memory><vcpu>1</vcpu><os><type arch='x86_64'>hvm</type></os>
<devices>{devices}</devices></domain>"""
MDEV = """<hostdev mode='subsystem' type='mdev' managed='no' model='vfio-pci'>
<source><address uuid='c2177883-f1bb-47f0-914d-32a22e3a8804'/></source></hostdev>"""
# A busy machine can be late; only what hangs on purpose takes all of it.
QUICK = "poll=100ms\ndeadline=3s\n"


def domains(first):
    return "<node>" + "".join(DOMAIN.format(name=name, uuid=uuid, version=version, devices=devices,
                                            called="worker" if name == "vm-nova" else "old")
                              for name, uuid, version, devices in (("vm-nova", first, "1.1", ""),
                                                                   ("vm-old", OLD_UUID, "1.0", ""),
                                                                   ("vm-gpu", GPU_UUID, "1.1", MDEV))) + "</node>"


class Target:
    """The vgpud of the other host; it says that it is there, which is all that a move by nova needs of it."""

    def __init__(self, directory):
        self.authority = Authority(directory / "ca")
        self.host, self.port = loopback()
        pem, key = self.authority.issue("h2", f'ip_address = "{self.host}"')
        self.directory = directory
        self.config = (f"[daemon]\nhost_name=h2\n[api]\nlisten={self.host}:{self.port}\n"
                       f"tls_certificate={pem}\ntls_key={key}\nclient_requests=1000000\n[live]\nuse=no\n"
                       "[gpu]\nenable=no\n")
        self.start()
        self.token = directory / "token"
        status, _, answer = self.daemon.post("/v1/tokens", {"name": "peer", "role": "operator"})
        assert status == 201, answer
        self.token.write_text(answer["token"] + "\n")

    def start(self):
        self.daemon = Daemon(self.directory, config=self.config)

    def peer(self):
        return (f"[peer h2]\nurl=https://{self.host}:{self.port}\ncacert={self.authority.certificate}\n"
                f"token_file={self.token}\n[peers]\nrefresh=1s\ndeadline=2s\n")


class Source:
    """The vgpud under test."""

    def __init__(self, directory, target, cloud, nova=None, actions="", peer="", uuid=UUID, node=None):
        self.directory, self.target, self.cloud = directory, target, cloud
        self.vms = 3
        (directory / "node.xml").write_text(domains(uuid))
        if node is not None:
            self.vms = len(node)
            (directory / "node.xml").write_text("<node>" + "".join(
                DOMAIN.format(name=name, uuid=ident, version="1.1", devices="", called="worker-" + name)
                for name, ident in node.items()) + "</node>")
        self.secret = directory / "password"
        self.secret.write_text(SECRET + "\n")
        self.secret.chmod(0o600)
        if nova is None:
            nova = (f"auth_url={cloud.url}/identity\nusername=vgpud\npassword_file={self.secret}\n"
                    "project_name=admin\nregion=RegionOne\ninterface=internal\n" + QUICK)
        self.config = (f"[daemon]\nhost_name=h1\n[libvirt]\nuri=test://{directory}/node.xml\nuse=yes\n"
                       "[live]\nuse=no\n[gpu]\nenable=no\n[api]\nclient_requests=1000000\nwrites_per_min=100000\n"
                       f"[actions]\nenabled=yes\n{actions}{target.peer()}{peer}"
                       + (f"[nova]\n{nova}" if nova else ""))
        self.more = ""
        self.start()

    def start(self, binary=None):
        self.daemon = Daemon(self.directory, config=self.config + self.more, binary=binary)
        wait_for(lambda: self.daemon.get("/v1/peers")["items"][0]["state"] == "reachable")
        wait_for(lambda: len(self.daemon.get("/v1/vms?limit=1000")["items"]) == self.vms)

    def ask(self, vm="vm-nova", **more):
        return self.daemon.post("/v1/migrations", {"vm": vm, "to": "h2", **more})

    def move(self):
        status, _, answer = self.ask()
        assert status == 201, answer
        return answer["id"]

    def now(self, ident):
        return self.daemon.get("/v1/migrations/" + ident)

    def ended(self, ident):
        return wait_for(lambda: (lambda m: m if m["ended_ns"] else None)(self.now(ident)), pause=0.05)

    def ctl(self, *args, code=0):
        done = subprocess.run([vgpuctl.program(), *args, "--socket", self.daemon.socket], capture_output=True,
                              text=True, timeout=HANG_S, check=False)
        assert done.returncode == code, done
        return done.stdout + done.stderr

    def show(self, ident):
        """As people read it: lines are broken for them."""
        return " ".join(self.ctl("migration", "show", ident).split())
