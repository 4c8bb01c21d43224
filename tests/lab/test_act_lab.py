# SPDX-License-Identifier: Apache-2.0
"""VMs move between real libvirt hosts without a person. Each host has one CPU: two guests of h1 that spin lose
half of it each. Nothing moves to h3, which is in maintenance.

The counters of the hosts' /proc/stat stand still, so that the hosts themselves use nothing. Otherwise, this machine's
other programs would count as their own use, and they would be full whenever the machine is busy.

Tests of verdicts take three minutes each, and need the machine for themselves: what a VM gains is measured."""
import contextlib
import json
import subprocess
import time

import pytest
from clusterlab import Cluster
from etcd import Etcd
from labhost import ENV, lab
from movelab import remove_guest, run, running_on, start_guest, tell
from unixhttp import wait_for

# One after the other: they share the directory of the lab.
pytestmark = [pytest.mark.xdist_group("lab"), pytest.mark.usefixtures("guest0")]
HOSTS = ("h1", "h2", "h3")
VERDICT_S = 60
MORE = (f"interval=1s\n[policy]\nmode=act\nhold=5s\nhold_long=0\nmin_gain=0.3\ncooldown=0\nerror_budget=1\n"
        f"[actions]\nverdict_time={VERDICT_S}s\n")


class Acting(Cluster):
    """Paused until a test resumes it."""

    def __init__(self, directory, etcd):
        super().__init__(directory, etcd, HOSTS, MORE,
                         own={host: f"[daemon]\ncpus={0 if host == 'h1' else 1}\n" for host in HOSTS})
        self.pause()
        run(self.nodes["h1"], "host", "drain", "h3", "--wait")

    def pause(self):
        run(self.nodes["h2"], "policy", "pause")

    def resume(self):
        """What went wrong in earlier tests does not count from now on."""
        run(self.nodes["h2"], "policy", "resume")

    def policy(self):
        return self.nodes["h2"].daemon.get("/v1/policy")

    def leader(self):
        return (self.nodes["h2"].daemon.get("/v1/cluster")["leader"] or {}).get("host")

    def holder(self):
        """The leader according to etcd, or None."""
        key = "/vgpud/default/leader"
        pair = self.etcd.pairs(key).get(key)
        return json.loads(pair[0])["host"] if pair else None

    def moves(self, guests):
        """All moves of these guests, from all journals."""
        return [dict(m, node=node) for node in self.nodes.values() if node.daemon.process.poll() is None
                for m in node.daemon.get("/v1/migrations")["items"] if m["vm"] in guests]

    def ended(self, guests, undo=False):
        """The move that ended, of those that reverse others or not."""
        return next((m for m in self.moves(guests) if m["ended_ns"] and
                     bool(m["node"].migration(m)["undo_of"]) == undo), None)

    def verdict(self, move):
        return wait_for(lambda: move["node"].migration(move)["verdict"], pause=1)

    def contend(self, *guests, judged=False):
        """They spin on h1; judged: for as long as a verdict compares."""
        for guest in guests:
            start_guest("h1", guest, gpu=False)
            tell("h1", guest, "spin x")
        here = self.nodes["h1"].daemon
        for guest in guests:
            wait_for(lambda guest=guest: here.request("GET", f"/v1/vms/{guest}")[0] == 200, pause=0.2)
        if judged:
            # The load itself is the condition: what a verdict compares must have been recorded.
            time.sleep(VERDICT_S + 10)


@pytest.fixture(name="acting", scope="module")
def acting_fixture(host, tmp_path_factory):
    lab("add", "h3")
    lab("cpus", "on")
    directory = tmp_path_factory.mktemp("act")
    stat = directory / "stat"
    with open("/proc/stat", encoding="ascii") as now:
        stat.write_text(now.read(), encoding="ascii")
    for name in HOSTS:
        lab("exec", name, "mount", "--bind", str(stat), "/proc/stat")
    with Etcd(directory / "etcd", 1, f"{ENV['LAB_NET']}.254") as etcd:
        made = Acting(directory, etcd)
        yield made
        made.close()
    for name in HOSTS:
        lab("exec", name, "umount", "/proc/stat")
    lab("cpus", "off")


@contextlib.contextmanager
def guests(*names):
    try:
        yield names
    finally:
        for name in names:
            remove_guest(name)


@contextlib.contextmanager
def programs(cpu, n, nice=0):
    """Programs of this machine that spin on a CPU."""
    spinning = [subprocess.Popen(["taskset", "-c", str(cpu), "nice", "-n", str(nice), "sh", "-c", "while :; do :; done"])
                for _ in range(n)]
    try:
        yield
    finally:
        for one in spinning:
            one.kill()
            one.wait()


def test_a_vm_that_disturbs_another(acting):
    """One of the two goes to h2, once."""
    with guests("victim", "hog") as names:
        acting.contend(*names)
        assert acting.moves(names) == []
        acting.resume()
        move = wait_for(lambda: acting.ended(names), pause=0.2)
        assert (move["state"], move["from"], move["to"]) == ("done", "h1", "h2"), move
        whole = move["node"].migration(move)
        assert whole["act"].startswith("act-") and whole["asked_by"].startswith("policy")
        assert running_on(move["vm"]) == ["h2"]
        status = run(acting.nodes["h3"], "policy", "status").stdout
        assert "acts now:      yes" in status and move["vm"] in status, status
        acting.pause()
        assert len(acting.moves(names)) == 1


@pytest.mark.host
def test_a_move_that_helps(acting):
    with guests("victim0", "hog0") as names:
        acting.contend(*names, judged=True)
        acting.resume()
        move = wait_for(lambda: acting.ended(names), pause=0.2)
        assert move["state"] == "done", move
        acting.pause()
        verdict = acting.verdict(move)
        assert verdict["result"] == "helped", verdict
        assert len(acting.moves(names)) == 1


@pytest.mark.host
def test_a_move_that_does_not_help(acting):
    """Programs of h2 take as much CPU time as the other VM of h1 did: 1/2 + 5/6 is 2/3 twice."""
    with guests("victim1", "hog1") as names, programs(0, 1):
        acting.contend(*names, judged=True)
        with programs(1, 5):
            acting.resume()
            move = wait_for(lambda: acting.ended(names), pause=0.2)
            assert move["state"] == "done", move
            acting.pause()
            verdict = acting.verdict(move)
        assert verdict["result"] == "no-effect", verdict
        assert len(acting.moves(names)) == 1


@pytest.mark.host
def test_a_move_that_harms(acting):
    """On the target, another VM starts to spin, and so does a program with a higher priority. The move is reversed, once,
    and after it nothing moves: one error is what the budget allows."""
    with guests("victim2", "hog2", "tenant2") as names:
        start_guest("h2", "tenant2", gpu=False)
        # Only the VMs of h1 may move.
        wait_for(lambda: acting.nodes["h2"].daemon.request("GET", "/v1/vms/tenant2")[0] == 200, pause=0.2)
        run(acting.nodes["h2"], "vm", "set", "tenant2", "--policy=never")
        acting.contend("victim2", "hog2", judged=True)
        acting.resume()
        move = wait_for(lambda: acting.ended(names), pause=0.2)
        assert (move["state"], move["to"]) == ("done", "h2"), move
        tell("h2", "tenant2", "spin x")
        with programs(1, 1, nice=-10):
            verdict = acting.verdict(move)
            assert verdict["result"] == "worse", verdict
            undo = wait_for(lambda: acting.ended(names, undo=True), pause=0.2)
        assert (undo["state"], undo["vm"], undo["to"]) == ("done", move["vm"], "h1"), undo
        assert running_on(move["vm"]) == ["h1"]
        wait_for(lambda: acting.policy()["budget_spent"], pause=0.2)
        leader = acting.nodes[acting.leader()].daemon
        assert "policy-stopped" in [a["alert"] for a in leader.get("/v1/alerts")["items"]]
        acting.pause()
        assert len(acting.moves(names)) == 2


@pytest.mark.drawn("lab-many")
@pytest.mark.parametrize("phase", ("waits", "starting", "moving", "done"))
def test_the_leader_is_killed(acting, phase):
    """Another one continues with the plan: no VM moves twice, and each is on one host."""
    with guests("victim-" + phase, "hog-" + phase) as names:
        acting.contend(*names)
        old = wait_for(acting.leader)
        acting.resume()
        if phase != "waits":
            wait_for(lambda: phase in [m["step"] for m in acting.policy()["moves"] if m["vm"] in names] or
                     acting.ended(names), pause=0.01)
        acting.nodes[old].daemon.kill()
        wait_for(lambda: acting.holder() not in (None, old))
        acting.nodes[old].start()
        acting.know()
        acting.meet()
        move = wait_for(lambda: acting.ended(names), pause=0.2)
        wait_for(lambda: not [m for m in acting.policy()["moves"] if m["step"] in ("waits", "starting", "moving")],
                 pause=0.2)
        acting.pause()
        moved = [m["vm"] for m in acting.moves(names)]
        assert sorted(moved) == sorted(set(moved)), moved
        for name in names:
            assert len(running_on(name)) == 1, name
        assert move["state"] in ("done", "rolled_back", "failed"), move
