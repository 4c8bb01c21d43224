# SPDX-License-Identifier: Apache-2.0
"""A nova for hosts of the lab: it answers as tests/lib/fakecloud.py does, and has libvirt of the lab do what it says."""
import contextlib
import re
import subprocess
import threading

from fakecloud import DONE, FAILED, IN_ERROR, SECRET, FakeCloud, Instance
from labdaemon import prefix
from labhost import ENV
from movelab import running_on
from unixhttp import wait_for

METADATA = ("<metadata><nova:instance xmlns:nova='http://openstack.org/xmlns/libvirt/nova/1.1'>"
            "<nova:name>%s</nova:name><nova:flavor name='m1.small'/></nova:instance></metadata>")
SIZE = re.compile(r"^(Memory processed|Memory remaining|Memory total): +([0-9.]+) (B|KiB|MiB|GiB)", re.M)
UNITS = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}


class LabInstance(Instance):
    """A VM of the lab that virsh migrates, as nova-compute would. bandwidth: MiB/s, or 0."""

    def __init__(self, guest, uuid):
        super().__init__(uuid, "h1", "h1.example")
        self.guest, self.bandwidth, self.mover, self.cancelled = guest, 0, None, False
        self.sizes = {}  # of the memory, as libvirt told last

    def virsh(self, host, *args):
        with contextlib.suppress(subprocess.TimeoutExpired):
            return subprocess.run([*prefix(host), "virsh", "-q", *args], capture_output=True, text=True, timeout=10,
                                  stdin=subprocess.DEVNULL, check=False)
        return None

    def settle(self, host):
        """Before a case: the VM runs on this host, and nothing is known of its past."""
        if self.mover:
            self.mover.join()
        self.host, self.node = host, host + ".example"
        self.status, self.task, self.fault, self.mover = "ACTIVE", None, None, None
        self.migrations, self.migration, self.actions, self.cancelled, self.sizes = [], None, {}, False, {}

    def begin(self, target, request):
        super().begin(target, request)
        self.cancelled, self.sizes = False, {}
        self.mover = threading.Thread(target=self.migrate, args=(self.host, target), daemon=True)
        self.mover.start()

    def migrate(self, source, target):
        more = ["--bandwidth", str(self.bandwidth)] if self.bandwidth else []
        with subprocess.Popen([*prefix(source), "virsh", "-q", "migrate", "--live", "--p2p", "--persistent",
                               "--undefinesource", *more, self.guest, f"qemu+tcp://{target}/system"],
                              stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                              text=True) as command:
            while command.poll() is None:
                told = self.virsh(source, "domjobinfo", self.guest)
                self.sizes = {what: int(float(number) * UNITS[unit])
                              for what, number, unit in SIZE.findall(told.stdout if told else "")} or self.sizes
                with contextlib.suppress(subprocess.TimeoutExpired):
                    command.wait(0.3)
            self.details = " ".join(command.stderr.read().split())
        # Once libvirt answers again, it says where the VM is. Both may have it for a moment.
        wait_for(lambda: all(self.virsh(host, "version") and self.virsh(host, "version").returncode == 0
                             for host in (source, target)), pause=0.5)
        with contextlib.suppress(AssertionError):
            wait_for(lambda: len(running_on(self.guest)) == 1, 30, pause=0.5)
        on = running_on(self.guest)
        if self.migration:  # a test may have ended it
            self.finish(DONE if on == [target] else "cancelled" if self.cancelled else FAILED if on == [source]
                        else IN_ERROR)

    def look(self):
        """libvirt says when it ends."""

    def cancel(self):
        self.cancelled = True
        self.virsh(self.host, "domjobabort", self.guest)

    def running(self):
        listed = super().running()
        if listed:
            for what in ("processed", "remaining", "total"):
                listed[0][f"memory_{what}_bytes"] = self.sizes.get("Memory " + what, 0)
        return listed


class LabCloud(FakeCloud):
    def __init__(self, guest, uuid):
        super().__init__(LabInstance(guest, uuid), address=ENV["LAB_NET"] + ".254")
        self.hypervisors = [(f"{host}.example", host, "up", "enabled") for host in ("h1", "h2")]

    def abort(self, instance, ident):
        if not instance.migration or instance.migration["id"] != ident:
            return super().abort(instance, ident)
        threading.Thread(target=instance.cancel, daemon=True).start()
        return 202, None, {}

    def config(self, directory):
        """Of vgpud, with a file of the password there."""
        secret = directory / "password"
        secret.write_text(SECRET + "\n")
        secret.chmod(0o600)
        return (f"[nova]\nauth_url={self.url}/identity\nusername=vgpud\npassword_file={secret}\nproject_name=admin\n"
                "region=RegionOne\ninterface=internal\npoll=200ms\ndeadline=3s\n")
