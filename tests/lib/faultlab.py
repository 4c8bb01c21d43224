# SPDX-License-Identifier: Apache-2.0
"""Two hosts, a VM with a GPU that moves between them, and the faults of tests/lib/faulttable.py."""
import contextlib
import http.client
import os
import signal
import ssl
import subprocess
import tempfile
import threading
import time
from pathlib import Path

from faulttable import ARRIVED
from labdaemon import prefix
from labhost import BUILD, ENV, LAB, ROOT, lab
from movelab import PORT, MoveLab, address, console, hosts_up, running_on, tell
from unixhttp import wait_for

HOSTS = ("h1", "h2")
# So long a fault lasts that ends by itself, and at most one that stays until the move has ended.
LASTS_S, STAYS_S = 8, 150
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


def start_guest(host, guest, initrd="initrd", gpu=True):
    """One that may reboot."""
    xml = Path(LAB).with_name("guest.xml.in").read_text(encoding="utf-8")
    for what, by in (("@NAME@", guest), ("@UUID@", uuid_of(guest)), ("@MIB@", str(MIB)), ("@DEVICES@", ""),
                     ("boot/initrd", "boot/" + initrd), ("<on_reboot>destroy", "<on_reboot>restart")):
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


def make_clock():
    """A library by which vgpud has the time that a file says."""
    path = os.path.join(BUILD, "tests", "jump-clock.so")
    source = os.path.join(ROOT, "tests", "lib", "jump-clock.c")
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
        clock = make_clock()
        for host, node in self.nodes.items():
            node.clock = node.directory / "clock"
            node.clock.write_bytes(bytes(8))
            node.env = {"LD_PRELOAD": clock, "VG_JUMP_CLOCK": str(node.clock)}
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
            if node.binary != self.binary or not self.runs(host):
                self.kill(host)
                node.binary = self.binary
                self.start(host)


# ---- faults ----

class Case:
    """One move of the VM, and the fault; `began` and `lifted` are the times of the fault."""

    def __init__(self, flab, guest, source, name):
        self.lab, self.guest, self.source, self.target = flab, guest, source, other(source)
        self.name = name
        self.kind, self.fault, self.phase = name.split("/")
        self.node, self.peer = flab.nodes[self.source], flab.nodes[self.target]
        self.move, self.began, self.lifted = None, None, None
        self.stays = "-stays-" in self.fault
        self.plain = self.fault.replace("-stays", "")
        self.spoils = False  # the guest is no good for the next case
        self.undo = []
        self.turned_back = False  # by an abort, so that the VM stays where it is
        self.unplugged = False  # when vgpud of the source was killed
        self.seen = None  # what must not be, and was seen meanwhile

    def where(self):
        """The host of the VM in this phase."""
        return self.target if self.phase in ARRIVED else self.source

    def side(self):
        return self.source if "-source-" in self.fault else self.target

    # ---- before the move ----

    def prepare(self):
        if self.phase == "opening":
            lab("exec", self.target, "touch", "/run/hold-qemu")
        if self.fault == "vgpud-source-killed":
            # The writes are counted from its start.
            self.node.daemon.stop()
            self.lab.start(self.source)
        if self.plain == "hook-hangs":
            self.tell("hang " + self.hook())
        elif self.plain == "hook-fails":
            self.tell("fail " + self.hook())
        elif self.plain == "attach-refused":
            wait_for(lambda: lab("exec", self.target, "mount", "-o", "remount,ro", "/dev/shm",
                                 check=False).returncode == 0, pause=0.05)
            self.undo.append(lambda: lab("exec", self.target, "mount", "-o", "remount,rw", "/dev/shm"))
        elif self.plain.startswith("agent-") and self.phase == "quiescing" and self.kind != "plain":
            # So that the order is under way.
            self.tell("slow prepare")

    def write(self):
        """At which vgpud of the source ends, for [fault] move_writes."""
        word, number = self.phase.split("-")
        return -int(number) if word == "before" else int(number)

    def hook(self):
        return "prepare" if self.phase == "quiescing" else "resume"

    def tell(self, line, host=None):
        return tell(host or self.source, self.guest, line)

    def request(self):
        status, _, answer = self.node.daemon.post("/v1/migrations", self.body())
        assert status == 201, answer
        self.move = answer

    def body(self):
        return {"vm": self.guest, "to": self.target, **({"no_agent": True} if self.kind == "plain" else {})}

    # ---- in the phase ----

    def now(self):
        return self.node.migration(self.move)

    def reach(self):
        """False: the move was over, or past this phase."""
        wanted = {"opening": "migrating", "copying": "migrating"}.get(self.phase, self.phase)

        def there():
            now = self.now()
            return now if now["ended_ns"] or now["state"] == wanted else None
        wait_for(there, pause=0.001)
        if self.phase == "copying":
            wait_for(lambda: self.now()["ended_ns"] or self.now()["progress"]["processed_bytes"] > 0, pause=0.01)
        elif self.phase == "opening":
            wait_for(lambda: self.now()["ended_ns"] or self.is_on(self.target), pause=0.05)
        return self.now()["state"] == wanted

    def is_on(self, host):
        return self.guest in lab("virsh", host, "-q", "list", "--all", "--name").stdout.split()

    def qemu(self, host):
        return lab("exec", host, "cat", f"/run/libvirt/qemu/{self.guest}.pid", check=False).stdout.strip()

    @contextlib.contextmanager
    def still(self):
        """vgpud of the source stands still meanwhile, and so does the phase."""
        pid = stop(self.node)
        try:
            yield
        finally:
            let_go(self.node, pid)

    def inject(self):
        begin = getattr(self, "fault_" + self.plain.replace("-", "_"))
        if self.plain in ("abort", "asked-twice"):
            begin()
        else:
            with self.still():
                begin()
        self.began = time.monotonic()
        if self.phase == "opening":
            self.let_in()

    def let_in(self):
        """QEMU of the target goes on, unless it is what has been stopped."""
        lab("exec", self.target, "rm", "-f", "/run/hold-qemu")
        if self.plain != "arrival-stopped":
            lab("exec", self.target, "sh", "-c", "for p in /proc/[0-9]*; do grep -q '^State:.T' $p/status && grep -qa "
                f"'guest={self.guest}' $p/cmdline && kill -CONT ${{p##*/}}; done; true", check=False)

    def signal_qemu(self, host, name):
        lab("exec", host, "kill", "-" + name, self.qemu(host) or "none", check=False)

    def lift(self):
        for undo in reversed(self.undo):
            undo()
        self.undo = []

    def until(self, undo):
        self.undo.append(undo)

    # ---- each fault ----

    def fault_vgpud_target_killed(self):
        self.peer.daemon.kill()
        self.until(lambda: self.lab.start(self.target))

    def fault_vgpud_target_stopped(self):
        pid = stop(self.peer)
        self.until(lambda: let_go(self.peer, pid))

    def libvirtd_killed(self, host):
        lab("daemon", host, "kill")
        self.until(lambda: lab("daemon", host, "start"))

    def libvirtd_stopped(self, host):
        lab("exec", host, "sh", "-c", "kill -STOP $(cat /run/libvirtd.pid)")

        def mend():
            lab("exec", host, "sh", "-c", "kill -CONT $(cat /run/libvirtd.pid)", check=False)
            # libvirtd 9.0 may die of going on; systemd would start it again.
            time.sleep(0.5)
            if lab("virsh", host, "-q", "version", check=False).returncode != 0:
                lab("daemon", host, "start", check=False)
        self.until(mend)

    def fault_libvirtd_source_killed(self):
        self.libvirtd_killed(self.source)

    def fault_libvirtd_target_killed(self):
        self.libvirtd_killed(self.target)

    def fault_libvirtd_source_stopped(self):
        self.libvirtd_stopped(self.source)

    def fault_libvirtd_target_stopped(self):
        self.libvirtd_stopped(self.target)

    def fault_vm_killed(self):
        self.signal_qemu(self.where(), "KILL")

    def fault_vm_stopped(self):
        host, pid = self.where(), self.qemu(self.where())
        lab("exec", host, "kill", "-STOP", pid)
        self.until(lambda: lab("exec", host, "kill", "-CONT", pid, check=False))

    def fault_arrival_killed(self):
        self.signal_qemu(self.target, "KILL")

    def fault_arrival_stopped(self):
        if self.phase != "opening":
            self.signal_qemu(self.target, "STOP")
        if not self.stays:
            self.until(lambda: self.signal_qemu(self.target, "CONT"))

    def network(self, word):
        lab("network", self.target, word)
        self.until(lambda: lab("network", self.target, "mend"))

    def fault_link_cut(self):
        self.network("drop")

    def fault_link_drops(self):
        self.network("drops")

    def fault_link_slow(self):
        self.network("slow")

    def fault_agent_silent(self):
        self.tell("mute", self.where())
        self.until(lambda: self.tell("unmute", running_on(self.guest)[0]))

    def fault_agent_lies(self):
        self.spoils = True
        self.tell("hostile liar", self.where())

    def fault_agent_killed(self):
        self.tell("kill", self.where())

    def mended(self):
        """The hooks of the guest."""
        for host in running_on(self.guest):
            self.tell("mend", host)

    def fault_hook_hangs(self):
        self.until(self.mended)

    def fault_hook_fails(self):
        self.until(self.mended)

    def fault_attach_refused(self):
        """It is refused already."""

    def disk_full(self, host):
        fill = self.lab.nodes[host].daemon.state + "/fill"
        lab("exec", host, "sh", "-c", f"dd if=/dev/zero of={fill} bs=64k 2>/dev/null; true")
        self.until(lambda: lab("exec", host, "rm", "-f", fill))

    def disk_read_only(self, host):
        """As after an error of the disk."""
        state = self.lab.nodes[host].daemon.state
        lab("exec", host, "mount", "-o", "remount,abort", state, check=False)

        def mend():
            self.lab.kill(host)
            lab("exec", host, "umount", state)
            self.lab.mount(host)
            self.lab.start(host)
        self.until(mend)

    def disk_frozen(self, host):
        state = self.lab.nodes[host].daemon.state
        lab("exec", host, "fsfreeze", "-f", state)
        self.until(lambda: lab("exec", host, "fsfreeze", "-u", state))

    def fault_disk_source_full(self):
        self.disk_full(self.source)

    def fault_disk_target_full(self):
        self.disk_full(self.target)

    def fault_disk_source_read_only(self):
        self.disk_read_only(self.source)

    def fault_disk_target_read_only(self):
        self.disk_read_only(self.target)

    def fault_disk_source_frozen(self):
        self.disk_frozen(self.source)

    def fault_disk_target_frozen(self):
        self.disk_frozen(self.target)

    def fault_lease_lost(self):
        for kept in self.peer.reservations():
            assert self.as_source("DELETE", "/v1/reservations/" + kept["id"]) in (204, 404)

    def as_source(self, method, path):
        """What the source's vgpud, whose reservations they are, would request of the target's; the status."""
        trust = ssl.create_default_context(cafile=str(self.peer.ca))
        link = http.client.HTTPSConnection(address(self.target), PORT, context=trust, timeout=30)
        token = (self.peer.directory / "token").read_text().strip()
        link.request(method, path, headers={"Authorization": "Bearer " + token})
        try:
            return link.getresponse().status
        finally:
            link.close()

    def fault_lease_taken(self):
        """Another VM has it meanwhile."""
        def take():
            self.fault_lease_lost()
            status, _, answer = self.peer.daemon.post("/v1/reservations", STRANGER)
            return answer if status == 201 else None
        kept = wait_for(take, pause=0.1)
        self.until(lambda: self.peer.daemon.request("DELETE", "/v1/reservations/" + kept["id"]))

    def fault_stranger_asks(self):
        """Another VM wants the GPU for longer than a lease lasts."""
        stop = threading.Event()

        def ask():
            while not stop.wait(1):
                with contextlib.suppress(OSError):
                    status, _, kept = self.peer.daemon.post("/v1/reservations", STRANGER)
                    if status == 201:
                        self.seen = "another VM got the GPU that is kept for the VM"
                        self.peer.daemon.request("DELETE", "/v1/reservations/" + kept["id"])
        asking = threading.Thread(target=ask, daemon=True)
        asking.start()
        self.until(asking.join)
        self.until(stop.set)

    def jump(self, node, seconds):
        set_clock(node, seconds)
        self.until(lambda: set_clock(node, 0))

    def fault_clock_source_ahead(self):
        self.jump(self.node, JUMP_S)

    def fault_clock_source_back(self):
        self.jump(self.node, -JUMP_S)

    def fault_clock_target_ahead(self):
        self.jump(self.peer, JUMP_S)

    def fault_clock_target_back(self):
        self.jump(self.peer, -JUMP_S)

    def fault_guest_reboots(self):
        self.tell("reboot", self.where())

    def fault_guest_powers_off(self):
        self.tell("poweroff", self.where())

    def fault_guest_paused(self):
        host = self.where()
        lab("virsh", host, "-q", "suspend", self.guest, check=False)

        def resume():
            for each in HOSTS:
                lab("virsh", each, "-q", "resume", self.guest, check=False)
        self.until(resume)

    def fault_abort(self):
        status, _, answer = self.node.daemon.post(f"/v1/migrations/{self.move['id']}/abort", {})
        assert status in (202, 409), answer
        self.turned_back = status == 202 and self.phase not in ARRIVED

    def by_hand(self, *args):
        """Somebody else's command, which may wait for libvirt."""
        with subprocess.Popen([*self.lab.inits[self.source], "virsh", "-q", *args], stdin=subprocess.DEVNULL,
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as command:
            with contextlib.suppress(subprocess.TimeoutExpired):
                command.wait(2)
            self.until(command.kill)
            if command.poll() is None:
                command.kill()

    def fault_virsh_destroys(self):
        lab("virsh", self.where(), "-q", "destroy", self.guest, check=False)

    def fault_virsh_aborts_job(self):
        self.by_hand("domjobabort", self.guest)

    def fault_virsh_migrates(self):
        self.by_hand("migrate", "--live", "--p2p", self.guest, f"qemu+tcp://{self.target}/system")

    def fault_virsh_undefines(self):
        self.by_hand("undefine", self.guest)

    def fault_asked_twice(self):
        status, _, answer = self.node.daemon.post("/v1/migrations", self.body())
        assert status == 409, answer


