# SPDX-License-Identifier: Apache-2.0
"""Three libvirt hosts, a vgpud on each, and an etcd of three members: each vgpud answers for all, and what
becomes of that when the one that leads, or members of etcd, are away."""
import json
import os
import signal
import threading
import time

import pytest
from clusterlab import Cluster, ends_and_none_begins, told_at_once
from draining import empties, tenants
from etcd import Etcd
from labhost import ENV, lab
from movelab import has_gpu, remove_guest, run, running_on, start_guest
from unixhttp import wait_for
from vgpud import pause

# One after the other: they share the directory of the lab. All are for full runs.
pytestmark = [pytest.mark.xdist_group("lab"), pytest.mark.drawn("lab-many"), pytest.mark.usefixtures("guest0")]
GUEST = "nomad"
HOSTS = ("h1", "h2", "h3")


@pytest.fixture(scope="module")
def cluster(host, tmp_path_factory):
    lab("add", "h3")
    directory = tmp_path_factory.mktemp("three")
    with Etcd(directory / "etcd", 3, f"{ENV['LAB_NET']}.254") as etcd:
        made = Cluster(directory, etcd, HOSTS, "interval=1s\n")
        start_guest("h1", GUEST)
        yield made
        remove_guest(GUEST)
        made.close()


@pytest.fixture
def way(cluster):
    """The node that has the guest, and another host."""
    cluster.know()
    cluster.meet()
    source = cluster.has(GUEST)
    return cluster.nodes[source], HOSTS[(HOSTS.index(source) + 1) % len(HOSTS)]


def led_by(cluster, asked):
    return (asked.daemon.get("/v1/cluster")["leader"] or {}).get("host")


def everywhere(cluster, what):
    """What each vgpud says to this, once it is the same and not nothing."""
    def same():
        told = [what(node) for node in cluster.nodes.values()]
        return told[0] if told[0] and all(one == told[0] for one in told) else None
    return wait_for(same)


def test_each_answers_for_all(cluster, way):
    """Hosts, VMs, who leads, its plan, and moves that another host is told of."""
    node, to = way
    names = {"guest0": "h1", GUEST: node.host}
    assert set(HOSTS) == set(cluster.states(node))
    everywhere(cluster, lambda n: {v["name"]: v["host"] for v in n.daemon.get("/v1/cluster/vms")["items"]} == names)
    leader = everywhere(cluster, lambda n: led_by(cluster, n))
    assert leader in HOSTS
    proposal = everywhere(cluster, lambda n: (n.daemon.get("/v1/cluster")["proposal"] or {}).get("plan"))
    shown = json.loads(run(cluster.nodes[leader], "plan", "show", proposal, "-o", "json").stdout)
    assert shown["verdict"] in ("nothing-to-do", "changes")
    for asked in cluster.nodes.values():
        table = run(asked, "host", "list", "--all").stdout
        assert all(host in table for host in HOSTS)
        table = run(asked, "vm", "list", "--all").stdout
        assert "guest0" in table and GUEST in table
        plan = json.loads(run(asked, "placement", "--dry-run", "-o", "json").stdout)
        assert not any("left out" in note for note in plan["notes"])
    # The third one is told, of a VM that it does not have, to a host that it is not.
    asked = next(n for n in cluster.nodes.values() if n.host not in (node.host, to))
    move = asked.move(GUEST, to, forward=True)
    assert node.ended(move)["state"] == "done"
    assert running_on(GUEST) == [to] and has_gpu(to, GUEST)
    for asked in cluster.nodes.values():
        known = json.loads(run(asked, "migration", "list", "--all", "-o", "json").stdout)
        assert [(m["id"], m["state"], m["peer"]) for m in known] == [
            (move["id"], "done", None if asked is node else node.host)]
    everywhere(cluster, lambda n: {v["name"]: v["host"] for v in n.daemon.get("/v1/cluster/vms")["items"]}.get(
        GUEST) == to)


def moves_of(node):
    return [m["id"] for m in node.daemon.get("/v1/migrations")["items"]]


@pytest.mark.parametrize("fault", (signal.SIGKILL, signal.SIGSTOP), ids=("killed", "stopped"))
def test_the_leader_is_away(cluster, way, fault):
    """Another one leads, and what comes back leads no more and begins nothing."""
    first = everywhere(cluster, lambda n: led_by(cluster, n))
    away = cluster.nodes[first]
    began = {n.host: moves_of(n) for n in cluster.nodes.values()}
    if fault == signal.SIGSTOP:
        pause(away.daemon.pid())
    else:
        away.daemon.kill()
    before = time.monotonic()
    key = "/vgpud/default/leader"

    def led():
        found = cluster.etcd.pairs(key).get(key)
        return found if found and json.loads(found[0])["host"] != first else None
    second, pair = wait_for(led, pause=0.05)
    second = json.loads(second)["host"]
    print(f"another host leads {time.monotonic() - before:.1f} s after the leader was {fault.name}")
    if fault == signal.SIGSTOP:
        # nsenter stops with what it has started.
        for pid in (away.daemon.pid(), away.daemon.process.pid):
            os.kill(pid, signal.SIGCONT)
        wait_for(lambda: "this host is no longer the leader" in away.daemon.log())
    else:
        away.start()
    cluster.know()
    cluster.meet()
    everywhere(cluster, lambda n: led_by(cluster, n) == second)
    everywhere(cluster, lambda n: (n.daemon.get("/v1/cluster")["proposal"] or {}).get("host") == second)
    assert cluster.etcd.pairs(key)[key][1]["create_revision"] == pair["create_revision"]
    wait_for(lambda: away.daemon.request("GET", "/v1/migrations")[0] == 200)
    assert {n.host: moves_of(n) for n in cluster.nodes.values()} == began


class Users:
    """Some that ask each vgpud for one thing after the other, until they are let go."""
    PATHS = ("/v1/hosts", "/v1/cluster", "/v1/cluster/vms", "/v1/vms", "/v1/migrations", "/readyz")

    def __init__(self, cluster):
        self.bad, self.asked, self.done = [], 0, threading.Event()
        self.threads = [threading.Thread(target=self.ask, args=(n,)) for n in cluster.nodes.values()]

    def ask(self, node):
        while not self.done.wait(0.02):
            for path in self.PATHS:
                status = node.daemon.request("GET", path)[0]
                self.asked += 1
                if status != 200:
                    self.bad.append((node.host, path, status))

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *unused):
        self.done.set()
        for thread in self.threads:
            thread.join()


def test_a_minority_is_killed(cluster, way):
    """The leader of etcd: moves begin and end, and nobody who asks anything sees an error."""
    node, to = way
    led = cluster.etcd.leader()
    with Users(cluster) as users:
        cluster.etcd.members[led].kill()
        try:
            move = node.move(GUEST, to)
            assert node.ended(move)["state"] == "done"
            assert running_on(GUEST) == [to]
            back = cluster.nodes[cluster.has(GUEST)]
            assert back.ended(back.move(GUEST, node.host))["state"] == "done"
        finally:
            cluster.etcd.members[led].start(cluster.etcd.cluster)
        wait_for(lambda: cluster.parts("ok"))
    assert users.asked > 0 and users.bad == []


def test_a_majority_is_killed(cluster, way):
    """No move begins, one that runs ends, answers go on and say how old they are, and all is well again by
    itself once etcd is back."""
    node, to = way
    gone = cluster.etcd.members[:2]
    back = cluster.nodes[to]
    move = node.move(GUEST, to)
    for member in gone:
        member.kill()
    try:
        ends_and_none_begins(cluster, GUEST, move, node, to)
        for asked in cluster.nodes.values():
            told = asked.daemon.get("/v1/hosts")["items"]
            assert {h["name"] for h in told} == set(HOSTS)
            before = {h["name"]: h["age_ns"] for h in told if not h["self"]}
            wait_for(lambda n=asked, b=before: all(h["age_ns"] > b[h["name"]] for h in
                     n.daemon.get("/v1/hosts")["items"] if not h["self"]))
            assert asked.daemon.get("/v1/cluster")["etcd"]["reason"]
            assert move["id"] in [m["id"] for m in asked.daemon.get("/v1/cluster/migrations")["items"]]
            assert {v["name"] for v in asked.daemon.get("/v1/cluster/vms")["items"]} == {"guest0", GUEST}
    finally:
        for member in gone:
            member.start(cluster.etcd.cluster)
    wait_for(lambda: cluster.parts("ok"))
    cluster.know()
    wait_for(lambda: not cluster.locks())
    everywhere(cluster, lambda n: led_by(cluster, n))
    cluster.meet()
    assert back.ended(back.move(GUEST, node.host))["state"] == "done"


def test_three_are_told_at_once(cluster, way):
    """One move each time."""
    for _ in range(10):
        told_at_once(cluster, GUEST)


def test_a_host_is_emptied(cluster, way):
    """Of four VMs of which one cannot leave, and of what else it has; asked of another vgpud."""
    with tenants(cluster.nodes["h1"]) as kept:
        empties(cluster, kept)
