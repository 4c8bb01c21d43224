# SPDX-License-Identifier: Apache-2.0
"""Moves without a person: three real vgpuds with a real etcd. Recordings are the load, libvirt's test driver has
the VMs, and a stand-in for nova moves them when the test says so. Time is spent on etcd's leases."""
import json
import os
import re
import shutil
import signal
import subprocess

import pytest
import vgpuctl
from certs import Authority
from etcd import Etcd
from fakecloud import SECRET, FakeCloud, Instance
from novalab import DOMAIN, QUICK
from ports import free_port
from settings import HANG_S
from test_peers import idle_recording
from vgpud import LTTNG, VM_MAP, Daemon, pause, wait_for

pytestmark = [pytest.mark.xdist_group("acting"),
              pytest.mark.skipif(not shutil.which("certtool"),
                                 reason="certtool (package gnutls-bin) is not installed")]
HOSTS = ("host-a", "host-b", "host-c")
VMS = {"vm-busy": "7f1c0a52-3d6e-4b7a-9c55-000000000001", "vm-duty": "7f1c0a52-3d6e-4b7a-9c55-000000000002",
       "vm-idle": "7f1c0a52-3d6e-4b7a-9c55-000000000003"}
ACT = "[policy]\nmode=act\n"


class Host:
    def __init__(self, site, name, recording, more):
        self.site, self.name, self.recording = site, name, recording
        self.directory = site.directory / name
        self.directory.mkdir()
        port = free_port()
        pem, key = site.ca.issue(name, 'ip_address = "127.0.0.1"')
        # The hosts of libvirt's test driver have no memory left, so that no VM could go there.
        libvirt = "use=no\n"
        if name == "host-a":
            (self.directory / "node.xml").write_text("<node>" + "".join(
                DOMAIN.format(name=vm, uuid=ident, version="1.1", devices="", called=vm)
                for vm, ident in VMS.items()) + "</node>")
            libvirt = f"uri=test://{self.directory}/node.xml\nuse=yes\n"
        self.base = (
            f"[libvirt]\n{libvirt}"
            f"[api]\nlisten=127.0.0.1:{port}\ntls_certificate={pem}\ntls_key={key}\n"
            f"tls_client_ca={site.ca.certificate}\nclient_requests=1000000\n[role peer]\n"
            f"subject={';'.join(f'CN={n}' for n in HOSTS)}\n"
            f"[peers]\nrefresh=1s\n[actions]\nenabled=yes\nmoves=2\n"
            f"[cluster]\netcd={site.etcd.endpoints}\nname=test\nurl=https://127.0.0.1:{port}\ncert={pem}\nkey={key}\n"
            f"cacert={site.ca.certificate}\npoll=1s\ninterval=2s\nlease=10s\nlibvirt_uri=qemu+tls://{name}/system\n"
            f"[nova]\nauth_url={site.cloud.url}/identity\nusername=vgpud\npassword_file={site.secret}\n"
            f"project_name=admin\nregion=RegionOne\ninterface=internal\n{QUICK}")
        self.more = more
        self.daemon = None

    def start(self):
        trace, names = self.recording
        self.daemon = Daemon(self.directory, "--speed", "max", "--vm-map", names, "--host", self.name,
                             replay=trace, config=self.base + self.more)
        self.daemon.replayed()

    def ctl(self, *args, code=0):
        done = subprocess.run([vgpuctl.program(), *args], capture_output=True, text=True, timeout=HANG_S, check=False,
                              env={**os.environ, "VGPUCTL_SOCKET": self.daemon.socket})
        assert done.returncode == code, (args, done.returncode, done.stdout, done.stderr)
        return done.stdout + done.stderr

    def moves(self):
        return self.daemon.get("/v1/migrations")["items"]


class Site:
    """vm-busy and vm-duty lose CPU time on host-a; nova ends no move by itself."""

    def __init__(self, directory, etcd, more):
        self.directory, self.etcd = directory, etcd
        self.ca = Authority(directory / "ca")
        self.secret = directory / "password"
        self.secret.write_text(SECRET + "\n")
        self.secret.chmod(0o600)
        self.instances = {name: Instance(ident, "host-a", "host-a.example") for name, ident in VMS.items()}
        for instance in self.instances.values():
            instance.looks = None
        self.cloud = FakeCloud(*self.instances.values())
        self.cloud.hypervisors = [(f"{n}.example", n, "up", "enabled") for n in HOSTS]
        self.hosts = {n: Host(self, n, (LTTNG, VM_MAP) if n == "host-a" else idle_recording(directory, n, 6000 + i),
                              more)
                      for i, n in enumerate(HOSTS)}

    def start(self):
        for host in self.hosts.values():
            host.start()
        return self

    def leader(self):
        pair = self.etcd.pairs("/vgpud/test/").get("/vgpud/test/leader")
        return json.loads(pair[0])["host"] if pair else None

    def leads(self):
        return self.hosts[wait_for(self.leader)]

    def state(self):
        """What the leader has written, straight from etcd."""
        pair = self.etcd.pairs("/vgpud/test+act/").get("/vgpud/test+act/state")
        return json.loads(pair[0]) if pair else None

    def past(self, host):
        """The moves that etcd remembers of a host."""
        key = "/vgpud/test+past/" + host
        pair = self.etcd.pairs(key).get(key)
        return json.loads(pair[0])["moves"] if pair else []

    def steps(self):
        return {m["vm"]: m["step"] for m in (self.state() or {"moves": []})["moves"]}

    def begun(self):
        """The VMs that nova was asked to move, each as often as it was."""
        return sorted(name for name, one in self.instances.items() for _ in one.migrations)

    def under_way(self):
        return [name for name, one in self.instances.items() if one.migration]

    def close(self):
        self.cloud.close()
        for host in self.hosts.values():
            if host.daemon:
                host.daemon.kill()


@pytest.fixture(name="make")
def make_fixture(tmp_path):
    sites = []
    with Etcd(tmp_path / "etcd") as etcd:
        def make(more=ACT):
            sites.append(Site(tmp_path, etcd, more))
            return sites[-1]
        yield make
        for site in sites:
            site.close()


@pytest.mark.smoke
def test_a_plan_is_carried_out(make):
    """Move after move, since two may not leave one host at a time; then the VMs rest."""
    site = make().start()
    [first] = wait_for(site.under_way)
    other = "vm-duty" if first == "vm-busy" else "vm-busy"
    wait_for(lambda: site.steps().get(first) == "moving")
    leader = site.leads()
    wait_for(lambda: {m["vm"]: m["why"] for m in site.state()["moves"]}[other])
    waits = {m["vm"]: m for m in site.state()["moves"]}[other]
    assert waits["step"] == "waits" and ("act_moves_per_host" in waits["why"] or "come first" in waits["why"]), waits
    listed = leader.ctl("migration", "list")
    assert "Automatic moves" in listed and other in listed and "waits" in listed, listed
    status = leader.ctl("policy", "status")
    assert "acts now:      yes" in status and f"leader:        {leader.name}" in status, status
    assert site.begun() == [first]
    site.instances[first].looks = 1
    wait_for(lambda: site.under_way() == [other])
    assert site.steps()[first] == "done"
    site.instances[other].looks = 1
    wait_for(lambda: site.steps() == {first: "done", other: "done"})
    # Each has its move, by the plan, on behalf of nobody.
    moves = {m["vm"]: m for m in site.hosts["host-a"].moves()}
    assert set(moves) == {first, other}
    state = site.state()
    for move in moves.values():
        whole = site.hosts["host-a"].daemon.get("/v1/migrations/" + move["id"])
        assert whole["plan_id"] == state["plan_id"] and whole["act"].startswith("act-"), whole
        assert whole["asked_by"].startswith("policy") and whole["predicted"], whole
    audit = [e for h in site.hosts.values() for e in h.daemon.get("/v1/audit?limit=1000")["items"]
             if e["identity"] == "policy"]
    assert sorted(e["object"] for e in audit) == sorted(
        f"{m['act']} {state['plan_id']} {state['plan_hash']}" for m in state["moves"])
    # The recording goes on to say that they lose time there, but they rest.
    leader = site.leads()
    made = leader.daemon.get("/v1/cluster")["proposal"]["made_ns"]
    wait_for(lambda: leader.daemon.get("/v1/policy")["at_ns"] >= made)
    assert site.begun() == ["vm-busy", "vm-duty"]
    # On a busy machine, another host may have become the leader in between.
    texts = [h.daemon.request("GET", "/metrics")[2].decode() for h in site.hosts.values()]
    assert sum(int(re.search(r"^vgpud_policy_moves_started_total (\d+)", t, re.M)[1]) for t in texts) == 2
    assert "vgpud_policy_budget_spent 0" in texts[0]


def test_a_pause_stops_everything(make):
    site = make()
    site.hosts["host-a"].start()
    site.hosts["host-a"].ctl("policy", "pause")
    for name in ("host-b", "host-c"):
        site.hosts[name].start()
    wait_for(lambda: (site.state() or {}).get("why"))
    assert "has paused automatic moves" in site.state()["why"]
    shown = site.hosts["host-b"].ctl("policy", "status")
    assert "acts now:      no: 'uid:0' has paused automatic moves" in shown.replace(f"uid:{os.getuid()}", "uid:0")
    first = site.hosts["host-c"].daemon.get("/v1/policy")["at_ns"]
    wait_for(lambda: site.leads().daemon.get("/v1/cluster")["proposal"])
    assert site.begun() == [] and first
    site.hosts["host-b"].ctl("policy", "resume")
    [moving] = wait_for(site.under_way)
    # What is under way ends; nothing else begins.
    site.hosts["host-c"].ctl("policy", "pause")
    site.instances[moving].looks = 1
    wait_for(lambda: site.steps().get(moving) == "done")
    wait_for(lambda: [m for m in site.state()["moves"] if m["step"] == "waits" and "paused" in (m["why"] or "")])
    assert site.begun() == [moving]


def test_a_source_that_does_not_agree(make):
    """Its own configuration says that VMs leave it only if a person says so."""
    site = make()
    site.hosts["host-a"].more = "[policy]\nmode=propose\n"
    for name in ("host-b", "host-c", "host-a"):
        site.hosts[name].start()

    def dropped():
        # On a busy machine, host-a may become the leader, which does not act then.
        if site.leader() == "host-a":
            site.hosts["host-a"].daemon.stop()
            wait_for(lambda: site.leader() not in (None, "host-a"))
            site.hosts["host-a"].start()
        return "dropped" in site.steps().values()
    wait_for(dropped)
    why = {m["vm"]: m["why"] for m in site.state()["moves"]}
    assert any("vgpud moves it only if a person requests it" in (text or "") for text in why.values()), why
    assert site.begun() == []


def test_an_unknown_journal(make):
    """As long as a host does not tell its moves, nobody knows how many there are."""
    site = make().start()
    [first] = wait_for(site.under_way)
    leader = site.leads()
    away = next(h for h in site.hosts.values() if h is not leader and h.name != "host-a")
    pause(away.daemon.process.pid)
    site.instances[first].looks = 1
    wait_for(lambda: f"the moves of host '{away.name}' are unknown" in (site.state()["why"] or ""))
    assert site.begun() == [first]
    away.daemon.process.send_signal(signal.SIGCONT)
    wait_for(lambda: len(site.begun()) == 2)


def test_a_journal_that_is_lost(make):
    """The cluster remembers the moves of a host whose journal is lost, so its VMs rest all the same."""
    site = make().start()
    for _ in VMS.keys() - {"vm-idle"}:
        [moving] = wait_for(site.under_way)
        site.instances[moving].looks = 1
        wait_for(lambda moving=moving: site.steps().get(moving) == "done")
    moved = {m["id"] for m in site.hosts["host-a"].moves()}
    wait_for(lambda: {m["id"]: m["state"] for m in site.past("host-a")} == dict.fromkeys(moved, "done"))
    lost = site.hosts["host-a"]
    lost.daemon.stop()
    shutil.rmtree(lost.daemon.state)
    lost.start()
    assert lost.moves() == []
    # Its recording continues to report lost time. A plan is made of it, and then checked.
    since = max(h.daemon.get("/v1/policy")["at_ns"] for h in site.hosts.values())
    def proposal():
        return (site.leads().daemon.get("/v1/cluster")["proposal"] or {"made_ns": 0})["made_ns"]
    first = wait_for(lambda: proposal() if proposal() > since else None)
    wait_for(lambda: proposal() > first)
    assert site.begun() == ["vm-busy", "vm-duty"]
    assert {m["id"] for m in site.past("host-a")} == moved


def test_the_policy_of_a_vm(make):
    """It is in the metadata of its domain: vm-busy never moves, and only vm-duty moves by itself. Each connection
    to libvirt's test driver has domains of its own, so that nothing shows here what was set through vgpud."""
    site = make("[policy]\nmode=propose\n")
    a = site.hosts["host-a"]
    node = a.directory / "node.xml"
    text = node.read_text()
    for vm, mode in (("vm-busy", "never"), ("vm-duty", "act")):
        text = text.replace(f"<name>{vm}</name><uuid>{VMS[vm]}</uuid>\n<metadata>",
                            f"<name>{vm}</name><uuid>{VMS[vm]}</uuid>\n<metadata><vgpud-policy:policy "
                            f"xmlns:vgpud-policy='https://vgpud.invalid/xmlns/policy/1' mode='{mode}'/>")
    node.write_text(text)
    site.start()
    assert a.daemon.get(f"/v1/vms/{VMS['vm-busy']}")["domain"]["policy"] == "never"
    a.ctl("vm", "set", "vm-idle", "--policy=propose")
    a.ctl("vm", "set", "vm-idle", "--policy=none")
    a.ctl("vm", "set", "vm-idle", "--policy=sometimes", code=2)
    status, _, refused = a.daemon.post("/v1/vms/vm-idle/policy", {"mode": "observe"})
    assert status == 400 and "it must be never, propose, act" in refused["detail"], refused
    wait_for(lambda: site.under_way() == ["vm-duty"])
    assert "vm-busy" not in site.steps()
    site.instances["vm-duty"].looks = 1
    wait_for(lambda: site.steps() == {"vm-duty": "done"})
    assert site.begun() == ["vm-duty"]


@pytest.mark.parametrize("phase", ("asked", "under way", "between"))
def test_the_leader_is_killed(make, phase):
    """Another one continues with the plan: each VM is moved once. An order that its source may not have received is
    given up after a minute and a half."""
    site = make()
    if phase == "asked":
        # The source is asked, and the answer never comes to the leader.
        site.cloud.faults = lambda method, path: "hang" if (method, path[-7:]) == ("POST", "/action") else None
    site.start()
    if phase == "asked":
        wait_for(lambda: site.cloud.count("POST", ".*/action"))
    else:
        [first] = wait_for(site.under_way)
        if phase == "between":
            site.instances[first].looks = 1
            wait_for(lambda: site.steps().get(first) == "done")
    plan = site.state()["plan_id"]
    leader = site.leads()
    leader.daemon.kill()
    wait_for(lambda: site.leader() not in (None, leader.name))
    site.cloud.faults = lambda method, path: None
    site.cloud.release()
    leader.start()
    wait_for(lambda: site.state()["host"] != leader.name)
    for instance in site.instances.values():
        instance.looks = 1
    wait_for(lambda: site.steps() and not {"waits", "starting", "moving"} & set(site.steps().values()))
    wait_for(lambda: not [m for h in site.hosts.values() for m in h.moves() if not m["ended_ns"]])
    moves = site.hosts["host-a"].moves()
    # A later plan may follow, but the first one was not dropped.
    assert plan in {m["plan_id"] for m in moves}, moves
    done = [m["vm"] for m in moves]
    assert sorted(done) == sorted(set(done)) and len(done) >= 1, done
    assert all(len(instance.migrations) <= 1 for instance in site.instances.values()), site.begun()
    if phase != "asked":
        assert first in site.begun()


def test_two_leaders(make):
    """One that is suspended while it leads, and asks for a move after another one leads, is refused by etcd."""
    site = make().start()
    [first] = wait_for(site.under_way)
    wait_for(lambda: site.steps().get(first) == "moving")
    old = site.leads()
    revision = site.etcd.pairs("/vgpud/test/")["/vgpud/test/leader"][1]["create_revision"]
    pause(old.daemon.process.pid)
    wait_for(lambda: site.leader() not in (None, old.name))
    other = "vm-duty" if first == "vm-busy" else "vm-busy"
    old.daemon.process.send_signal(signal.SIGCONT)
    wait_for(lambda: "this host is no longer the leader" in old.daemon.log())
    # What the old one would send: with its revision, the source does not get the VM's lock.
    status, _, answer = site.hosts["host-a"].daemon.post("/v1/migrations", {
        "vm": other, "to": "host-b", "act": "act-0000000000000000/1", "act_revision": int(revision), "act_until_ns": 2**62})
    assert status == 422 and "no longer leads the cluster" in answer["detail"], answer
    for instance in site.instances.values():
        instance.looks = 1
    wait_for(lambda: site.steps() and not {"waits", "starting", "moving"} & set(site.steps().values()))
    assert all(len(instance.migrations) <= 1 for instance in site.instances.values()), site.begun()


def test_the_key_of_the_leader_is_deleted(make):
    """Its lease remains, but it no longer leads. It may become the leader again."""
    site = make("[policy]\nmode=propose\n").start()
    old = site.leads()
    site.etcd.delete("/vgpud/test/leader")
    wait_for(lambda: "its key in etcd was deleted" in old.daemon.log())
    wait_for(site.leader)


def test_earlier_moves_that_cannot_be_read(make):
    """Nothing starts, and they are not overwritten. If an operator deletes them, moves start."""
    site = make()
    key = "/vgpud/test+past/host-a"
    site.etcd.put(key, "{damaged")
    site.start()
    wait_for(lambda: "the earlier moves of host 'host-a' are unknown" in ((site.state() or {}).get("why") or ""))
    assert site.etcd.pairs(key)[key][0] == "{damaged" and site.begun() == []
    site.etcd.delete(key)
    wait_for(site.under_way)
    wait_for(lambda: site.past("host-a"))


def test_a_group_that_acts(make):
    """The mode of a group of hosts is stronger than that of the cluster."""
    site = make("[policy]\nmode=observe\n[hosts all]\nmatch=*\nmode=act\n").start()
    wait_for(site.under_way)


def test_etcd_is_lost(make):
    """Without it, nothing starts: neither does a leader know that it leads, nor a source that it may."""
    site = make().start()
    [first] = wait_for(site.under_way)
    old = site.leads()
    site.etcd.members[0].pause()
    try:
        site.instances[first].looks = 1
        wait_for(lambda: "this host is no longer the leader" in old.daemon.log())
        wait_for(lambda: all(h.daemon.part("etcd")["state"] == "degraded" for h in site.hosts.values()))
        assert site.begun() == [first]
    finally:
        site.etcd.members[0].go_on()
    wait_for(lambda: len(site.begun()) == 2)


def test_the_error_budget(make):
    """After one move that failed, moves are only proposed, and an alert says so."""
    site = make(ACT + "error_budget=1\n").start()
    [first] = wait_for(site.under_way)
    site.instances[first].end, site.instances[first].looks = "error", 1
    wait_for(lambda: (site.state() or {}).get("spent"))
    state = site.state()
    assert "the error budget is spent" in state["why"] and not state["acts"]
    assert site.begun() == [first]
    assert set(site.steps().values()) <= {"failed", "dropped"}, site.steps()
    leader = site.leads()
    wait_for(lambda: [a for a in leader.daemon.get("/v1/alerts")["items"] if a["alert"] == "policy-stopped"])
    # The alert is the leader's. Another one raises it again.
    site.etcd.delete("/vgpud/test/leader")
    wait_for(lambda: "this host is no longer the leader" in leader.daemon.log())
    wait_for(lambda: [a for a in site.leads().daemon.get("/v1/alerts")["items"] if a["alert"] == "policy-stopped"])
    for host in site.hosts.values():
        wait_for(lambda host=host: site.leader() == host.name or "policy-stopped" not in
                 [a["alert"] for a in host.daemon.get("/v1/alerts")["items"]])
    site.leads().ctl("policy", "resume")
    wait_for(lambda: not site.state()["spent"])


@pytest.mark.parametrize("more, word", (
    ("[policy]\nmode=act\n", "[policy] mode: act needs [cluster] etcd"),
    ("[hosts all]\nmatch=*\nmode=act\n", "[hosts] mode: act needs [cluster] etcd"),
    ("[policy]\nact_window=Mo-Fr 22:00\n", "is not a period such as"),
))
def test_what_is_refused_at_the_start(tmp_path, more, word):
    daemon = Daemon(tmp_path, config="[live]\nuse=no\n" + more, wait=False)
    assert daemon.process.wait(HANG_S) != 0
    assert word in daemon.log()
