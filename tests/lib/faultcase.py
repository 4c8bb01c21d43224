# SPDX-License-Identifier: Apache-2.0
"""One move of a VM, and the fault of tests/lib/faulttable.py that happens to it."""
import contextlib
import http.client
import ssl
import subprocess
import threading
import time

from faultlab import HOSTS, JUMP_S, STRANGER, kill_at_write, let_go, other, set_clock, stop
from faulttable import ARRIVED
from labhost import lab
from movelab import PORT, address, running_on, tell
from patience import goes_on
from unixhttp import wait_for


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
        self.cloud = flab.cloud
        self.spoils = False  # the guest is no good for the next case
        self.undo = []
        self.turned_back = False  # by an abort, so that the VM stays where it is
        self.unplugged = False  # when vgpud of the source was killed
        self.seen = None  # what must not be, and was seen meanwhile
        self.said = None  # by the move, on what it waits for
        # vgpud ends at a write to its journal.
        self.is_at_write = self.phase.startswith(("after-", "before-"))

    def where(self):
        """The host of the VM in this phase."""
        return self.target if self.phase in ARRIVED else self.source

    def side(self):
        return self.source if "-source-" in self.fault else self.target

    # ---- before the move ----

    def prepare(self):
        if self.phase == "opening":
            lab("exec", self.target, "touch", "/run/hold-qemu")
        if self.kind == "nova":
            self.cloud.instance.settle(self.source)
            self.cloud.instance.bandwidth = 8 if self.phase == "copying" else 0
        if self.fault == "vgpud-source-killed":
            # The writes are counted from its start.
            self.node.daemon.stop()
            self.lab.start(self.source)
        elif self.is_at_write:
            self.until(lambda: kill_at_write(self.peer, 0))
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
        """At which vgpud ends: of the source those of the move, for [fault] move_writes; of the target all."""
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

    def may_move(self):
        """By a dry run."""
        status, _, answer = self.node.daemon.post("/v1/migrations", {**self.body(), "dry_run": True})
        return status == 200 and not answer["problems"]

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
        lab("daemon", host, "hang")
        self.until(lambda: goes_on(host))

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

    # ---- of nova ----

    def nova_answers(self, answer):
        self.cloud.faults = lambda method, path: answer
        self.until(self.nova_mended)

    def nova_mended(self):
        self.cloud.faults = lambda method, path: None
        self.cloud.release()

    def fault_nova_silent(self):
        self.nova_answers("hang")

    def fault_nova_fails(self):
        self.nova_answers((503, "The server is currently unavailable. Please try again at a later time."))

    def fault_nova_forgets_tokens(self):
        self.cloud.tokens.clear()
