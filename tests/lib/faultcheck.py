# SPDX-License-Identifier: Apache-2.0
"""What is true of a VM, by libvirt of both hosts and by the guest alone. vgpud is asked only for what it says."""
import contextlib
import glob
import itertools
import os
import re
import shlex
import socket
import subprocess
import threading
import time

import vgpuctl
from faultlab import HOSTS, LEASE_S
from labhost import ENV
from movelab import has_gpu, running_on, tell
from unixhttp import wait_for

# A VM is without its GPU for at most so long after the end of a fault; after its beginning, if it stays.
AFTER_S, STAYING_S = 60, 90
# A VM that has been told to end may take so long.
ENDS_S = 30
# What a program takes to look, and the guest to say so.
SLACK_S = 5
GPU_EVENT = re.compile(rb"PCI (add|remove) \S+ 1AF4:1110")


class Watch:
    """Reads the consoles of a guest, on which its kernel tells when a GPU comes and goes; and asks both libvirts
    now and then whether it runs twice."""

    def __init__(self, flab, guest):
        self.lab, self.guest = flab, guest
        self.gaps, self.since, self.twice = [], None, False
        self.read = {host: self.size(host) for host in HOSTS}
        self.stop = threading.Event()
        self.threads = [threading.Thread(target=work, daemon=True) for work in (self.consoles, self.places)]
        for thread in self.threads:
            thread.start()

    def path(self, host):
        return os.path.join(ENV["LAB_DIR"], host, "log", "qemu", f"{self.guest}.console")

    def size(self, host):
        try:
            return os.path.getsize(self.path(host))
        except FileNotFoundError:
            return 0

    def look(self):
        for host in HOSTS:
            try:
                with open(self.path(host), "rb") as file:
                    file.seek(self.read[host])
                    text = file.read()
            except FileNotFoundError:
                continue
            end = text.rfind(b"\n") + 1
            self.read[host] += end
            for word in GPU_EVENT.findall(text[:end]):
                if word == b"remove":
                    self.since = self.since or time.monotonic()
                elif self.since:
                    self.gaps.append((self.since, time.monotonic()))
                    self.since = None

    def consoles(self):
        while not self.stop.wait(0.05):
            self.look()

    def runs(self, host):
        listed = self.lab.virsh(host, "list", "--state-running", "--name", timeout=5)
        return listed is not None and self.guest in listed.stdout.split()

    def places(self):
        while not self.stop.wait(1):
            # It changes hosts between two looks.
            if self.runs("h1") and self.runs("h2") and self.runs("h1") and self.runs("h2"):
                self.twice = True

    def end(self):
        self.stop.set()
        for thread in self.threads:
            thread.join()
        self.look()
        if self.since:
            self.gaps.append((self.since, time.monotonic()))
        return self

    def bare_s(self):
        return sum(end - begin for begin, end in self.gaps)

    def late(self, began, ended, stays):
        """By how many seconds the GPU came too late, for a fault that began and ended then."""
        limit = (began + STAYING_S if stays else ended + AFTER_S) + SLACK_S
        return max([end - max(limit, begin + AFTER_S) for begin, end in self.gaps] + [0])


NUMBERS = itertools.count(1)


def answer_of(port, line):
    """The words of the answer. One that came too late for an earlier question is left out."""
    ping = f"{os.getpid()}-{next(NUMBERS)}"
    port.sendall(f"ping {ping}\n{line}\n".encode())
    answers = port.makefile()
    while answers.readline().split() not in (["pong", ping], []):
        pass
    return answers.readline().split()


def ask(host, guest, line, timeout=60):
    """As tell() of movelab.py, at a fraction of the cost: the directories of libvirt are ours, too."""
    for part in ("lib", "run"):
        for directory in glob.glob(os.path.join(ENV["LAB_DIR"], host, part, "qemu", "channel", "target", f"domain-*-{guest}")):
            place = os.open(directory, os.O_RDONLY)
            try:
                with socket.socket(socket.AF_UNIX) as port:
                    port.settimeout(timeout)
                    # Its path may be too long for an address.
                    port.connect(f"/proc/self/fd/{place}/org.vgpud.test.0")
                    answer = answer_of(port, line)
            except (ConnectionError, FileNotFoundError):
                continue  # left over
            finally:
                os.close(place)
            assert answer and answer[0] == "ok", (host, guest, line, answer)
            return answer
    return tell(host, guest, line)


def boot_id(host, guest, timeout=60):
    return ask(host, guest, "boot", timeout)[1]


def has_gpu_in_guest(host, guest, timeout=60):
    return ask(host, guest, "gpu", timeout)[1] == "present"


def is_whole(guest):
    hosts = running_on(guest)
    return len(hosts) == 1 and has_gpu(hosts[0], guest)


def advice(node, move):
    """The commands that vgpud names for a move that has not gone well."""
    done = subprocess.run([vgpuctl.program(), "migration", "show", move["id"], "--socket", node.daemon.socket],
                          capture_output=True, text=True, timeout=60, check=False)
    text = " ".join(done.stdout.split())
    return re.findall(r"`((?:vgpuctl|virsh) [^`]+)`", text)


def obey(flab, node, move):
    """Runs what is advised, until the VM has its GPU or nothing new is; returns what was run."""
    ran = []
    for _ in range(4):
        now = node.migration(move)
        if now["state"] != "failed" or now["vm_on"] == "nowhere" or is_whole(move["vm"]):
            break
        new = [command for command in advice(node, now) if command not in ran and "abort" not in command and
               " show " not in command]
        if not new:
            break
        ran.append(new[0])
        words = shlex.split(new[0])
        if words[0] == "vgpuctl":
            subprocess.run([vgpuctl.program(), *words[1:], "--socket", node.daemon.socket], capture_output=True,
                           timeout=240, check=False)
            time.sleep(0.2)
        else:
            host = re.search(r"on (h\d)", " ".join([now["cause"] or ""]))
            flab.virsh(now["to"] if now["vm_on"] == "target" else host[1] if host else now["from"], *words[1:],
                       timeout=60)
        node.ended(move)
    return ran


def wrong(flab, case, boot, deadly, reboots):
    """What is not as it has to be, in words; None if all is."""
    guest = case.guest
    if deadly:
        # The move may end before the guest has.
        with contextlib.suppress(AssertionError):
            wait_for(lambda: not running_on(guest), ENDS_S, pause=0.2)
    hosts = running_on(guest)
    if deadly and not hosts:
        said = case.now()
        if said["vm_on"] not in ("nowhere", "source", "target", *(["unknown"] if case.kind == "nova" else [])):
            return f"the VM has ended, and the move says that it is {said['vm_on']}"
        return kept(flab, case)
    if len(hosts) != 1:
        return f"the VM runs on {' and '.join(hosts) or 'no host'}"
    [host] = hosts
    if not reboots and not deadly and boot_id(host, guest) != boot:
        return "the guest has booted again"
    if case.kind != "nova" and not (has_gpu(host, guest) and has_gpu_in_guest(host, guest)):
        return "the VM has no GPU"
    if case.turned_back and host != case.source:
        return f"the abort was accepted, and the VM is on {host}"
    if case.unplugged and "detach" not in [step["verb"] for step in case.now()["steps"]]:
        return "the GPU had been unplugged, and the journal did not know that it would be"
    if case.seen:
        return case.seen
    if case.now()["vm_on"] in ("nowhere", "unknown"):
        return f"the VM is on {host}, and the move says {case.now()['vm_on']}"
    return kept(flab, case)


def kept(flab, case):
    """Reservations without a move, and moves without an end. What a target that cannot be reached keeps ends with its
    lease."""
    limit = LEASE_S + SLACK_S if "-target-" in case.fault or "link-" in case.fault else LEASE_S / 2
    for host, node in flab.nodes.items():
        try:
            wait_for(lambda node=node: not node.reservations(), limit, pause=0.2)
        except AssertionError:
            return f"{host} still keeps {[r['vm'] for r in node.reservations()]}"
        try:
            wait_for(lambda node=node: not node.daemon.get("/v1/migrations?active=true")["items"], 2 * LEASE_S, pause=0.2)
        except AssertionError:
            return f"a move on {host} has no end"
    return None
