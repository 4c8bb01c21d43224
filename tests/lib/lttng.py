# SPDX-License-Identifier: Apache-2.0
"""LTTng's daemons for a test: a relay daemon, a session daemon without a kernel tracer, and a
program that plays a host for it (tests/tools/ust-sched.c). All listen on the loopback, or below a
directory of their own."""
import os
import random
import shutil
import signal
import socket
import subprocess
import tempfile
from collections import Counter

from ports import free_ports
from settings import HANG_S
from vgpuctl import ROOT
from vgpud import wait_for

NOBODY = 65534
# root's session daemon is that of the whole machine: another user has one of his own.
AS_USER = [] if os.geteuid() else ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}",
                                   "--clear-groups"]
BUILD = os.environ.get("VG_BUILDDIR", os.path.join(ROOT, "build"))
PLAYER = os.path.join(BUILD, "tests", "tools", "ust-sched")


def missing():
    """What this machine lacks for it, or None."""
    for name in ("lttng-relayd", "lttng-sessiond", "lttng"):
        if not shutil.which(name):
            return f"{name} (package lttng-tools) is not installed"
    if not os.access(PLAYER, os.X_OK):
        return f"{PLAYER} is not built (package liblttng-ust-dev)"
    return None


class Lttng:
    """Both daemons. kill_relay() and start_relay() make an interruption of it."""

    def __init__(self):
        self.home = tempfile.mkdtemp(prefix="vgpud-lttng-", dir="/tmp")
        self.env = {**os.environ, "LTTNG_HOME": self.home, "HOME": self.home,
                    "LTTNG_UST_REGISTER_TIMEOUT": "-1", "LTTNG_UST_WITHOUT_BADDR_STATEDUMP": "1"}
        # Who traces may not look into the directory of the build.
        self.player = shutil.copy(PLAYER, self.home)
        if AS_USER:
            os.chown(self.home, NOBODY, NOBODY)
        self.ports = free_ports(3)
        self.relay = None
        self.sessiond = None
        self.players = []

    def __enter__(self):
        self.start_relay()
        self.sessiond = self.start("lttng-sessiond", "--no-kernel")
        wait_for(lambda: self.lttng("list", check=False).returncode == 0)
        return self

    def __exit__(self, *unused):
        if self.relay:
            self.relay.send_signal(signal.SIGCONT)
        for player in self.players:
            player.stop()
        if self.sessiond:
            self.lttng("destroy", "--all", "--no-wait", check=False)
            self.sessiond.send_signal(signal.SIGTERM)
            self.end(self.sessiond)
        if self.relay:
            self.relay.send_signal(signal.SIGTERM)
            self.end(self.relay)
        shutil.rmtree(self.home, ignore_errors=True)

    @staticmethod
    def end(process):
        try:
            process.wait(HANG_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def start(self, *command):
        with open(os.path.join(self.home, f"{command[0]}.log"), "ab") as log:
            return subprocess.Popen([*AS_USER, *command], env=self.env, cwd=self.home,
                                    stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def start_relay(self):
        urls = [f"tcp://127.0.0.1:{port}" for port in self.ports]
        self.relay = self.start("lttng-relayd", "-o", self.output(), "-C", urls[0], "-D", urls[1],
                                "-L", urls[2])

        def listens():
            with socket.socket() as one:
                return one.connect_ex(("127.0.0.1", self.ports[2])) == 0
        wait_for(listens)

    def kill_relay(self):
        self.relay.kill()
        self.relay.wait()

    def output(self):
        """Where the relay daemon writes what it hands on."""
        return os.path.join(self.home, "relay")

    def lttng(self, *args, check=True):
        return subprocess.run([*AS_USER, "lttng", "--no-sessiond", *args], env=self.env,
                              cwd=self.home, capture_output=True, text=True, timeout=HANG_S,
                              check=check)

    def create(self, name, *channel):
        """A live session that records; channel: options of lttng-enable-channel(1)."""
        self.lttng("create", name, "--live=100000",
                   f"--set-url=net://127.0.0.1:{self.ports[0]}:{self.ports[1]}")
        self.lttng("enable-channel", "-u", "all", "-s", name, *channel)
        self.lttng("enable-event", "-u", "sched:*,kvm:*", "-s", name, "-c", "all")
        self.lttng("start", name)

    def url(self, session, host=None):
        return f"net://127.0.0.1:{self.ports[2]}/host/{host or socket.gethostname()}/{session}"

    def play(self):
        player = Player(self)
        self.players.append(player)
        return player


class Player:
    """A program that is traced, and writes the events that it is told to."""

    def __init__(self, lttng):
        self.process = subprocess.Popen([*AS_USER, lttng.player], env=lttng.env, cwd="/",
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def write(self, *lines):
        for line in lines:
            self.process.stdin.write("\t".join(map(str, line)) + "\n")
        self.process.stdin.flush()

    def ask(self, what):
        self.write((0, what))
        assert self.process.stdout.readline() == "ok\n"

    def stop(self):
        if self.process.poll() is None:
            self.process.stdin.close()
            Lttng.end(self.process)
        self.process.stdout.close()


# Thread: comm, and who it is as an aggressor. No machine gives out so high a number by itself.
FIRST_TID = 4_100_000
COMMS = {"vm-a": "CPU 0/KVM", "vm-b": "CPU 0/KVM", "kernel": "kworker/0:1", "user": "stress"}


class Host:
    """Makes up what the scheduler of a host does, and counts it."""

    def __init__(self, seed, cpus=(0, 1)):
        self.random = random.Random(seed)
        self.threads = {}
        self.vms = {}
        self.cpus = {cpu: {"runs": 0, "waits": []} for cpu in cpus}
        for cpu in cpus:
            for kind in sorted(COMMS):
                tid = FIRST_TID + len(self.threads)
                self.threads[tid] = (kind, cpu)
                if kind.startswith("vm"):
                    self.vms[tid] = {"counts": Counter(), "exits": Counter(), "lost_to": Counter()}
        self.in_guest = set()

    def comm(self, tid):
        return COMMS[self.threads[tid][0]] if tid else "swapper/0"

    def aggressor(self, tid):
        return f"qemu-{tid}" if tid in self.vms else f"host:{self.threads[tid][0]}"

    def count(self, tid, what):
        if tid in self.vms:
            self.vms[tid]["counts"][what] += 1

    def switch(self, cpu, state, following):
        here = self.cpus[cpu]
        tid = here["runs"]
        here["runs"] = following
        if tid:
            self.count(tid, "switches_out")
            self.count(tid, "blocks" if state else "preemptions")
            if state == 0:
                here["waits"].append(tid)
                if tid in self.vms:
                    self.vms[tid]["lost_to"][self.aggressor(following)] += 1
        self.in_guest.discard(tid)
        # The idle task never sleeps; a record in which it does tells of a kernel that writes all states wrong.
        return (cpu, "switch", tid, self.comm(tid), state if tid else 0, following, self.comm(following))

    def guest(self, cpu, tid):
        if tid in self.in_guest:
            self.in_guest.discard(tid)
            reason, name = self.random.choice([(96, "interrupt"), (120, "hlt"), (114, "cpuid")])
            self.vms[tid]["exits"][name] += 1
            return (cpu, "exit", reason, 2)
        self.in_guest.add(tid)
        self.count(tid, "entries")
        return (cpu, "entry", 0)

    def step(self):
        cpu = self.random.choice(sorted(self.cpus))
        here = self.cpus[cpu]
        asleep = [tid for tid, (_, home) in self.threads.items()
                  if home == cpu and tid != here["runs"] and tid not in here["waits"]]
        if here["runs"] in self.vms and self.random.random() < 0.5:
            return self.guest(cpu, here["runs"])
        if here["waits"] and self.random.random() < 0.5:
            following = here["waits"].pop(self.random.randrange(len(here["waits"])))
            return self.switch(cpu, self.random.choice([0, 1]), following)
        if asleep and self.random.random() < 0.7:
            tid = self.random.choice(asleep)
            here["waits"].append(tid)
            self.count(tid, "wakeups")
            return (cpu, "wakeup", tid, self.comm(tid), cpu)
        if here["runs"]:
            return self.switch(cpu, 1, 0)
        return (cpu, "sleep", self.random.randrange(1, 300))

    def rest(self):
        """Lets everybody fall asleep."""
        for cpu, here in self.cpus.items():
            while here["waits"]:
                yield self.switch(cpu, 1, here["waits"].pop(0))
            yield self.switch(cpu, 1, 0)

    def forget(self):
        for vm in self.vms.values():
            for counter in vm.values():
                counter.clear()

    def events(self, n):
        return [self.step() for _ in range(n)]
