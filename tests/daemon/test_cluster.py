# SPDX-License-Identifier: Apache-2.0
"""vgpuds that find each other by a real etcd: who is there, what each host could take, and what comes
of it when etcd, or a vgpud, is not there. Most of the time it waits for leases of five seconds, the
shortest, to end."""
import json
import os
import re
import shutil
import signal
import ssl
import subprocess
import time

import pytest
import vgpuctl
from certs import Authority
from etcd import Etcd, coded
from ports import free_port
from settings import HANG_S
from test_peers import idle_recording
from vgpud import LTTNG, VM_MAP, Daemon, pause, wait_for

pytestmark = [pytest.mark.xdist_group("etcd"),
              pytest.mark.skipif(not shutil.which("certtool"),
                                 reason="certtool (package gnutls-bin) is not installed")]

# A host that a busy machine holds up for so long is taken for silent.
LEASE_S = 10


class Host:
    """A vgpud on loopback that is in the cluster."""

    def __init__(self, site, name, recording, more=""):
        self.site, self.name, self.recording = site, name, recording
        self.directory = site.directory / name
        self.directory.mkdir(exist_ok=True)
        port = free_port()
        self.url = f"https://127.0.0.1:{port}"
        pem, key = site.certificate(name)
        subjects = ";".join(f"CN={n}" for n in site.names)
        self.config = (
            f"[api]\nlisten=127.0.0.1:{port}\ntls_certificate={pem}\ntls_key={key}\n"
            f"tls_client_ca={site.ca.certificate}\nclient_requests=1000000\n[role operator]\nsubject={subjects}\n"
            f"[peers]\nrefresh=1s\n"
            f"[cluster]\netcd={site.etcd.endpoints}\nname=test\nurl={self.url}\ncert={pem}\nkey={key}\n"
            f"cacert={site.ca.certificate}\npoll=1s\ninterval=1s\nlibvirt_uri=qemu+tls://{name}/system\n"
            + (more if "lease=" in more else f"lease={LEASE_S}s\n" + more))
        self.daemon = None

    def start(self):
        trace, names = self.recording
        self.daemon = Daemon(self.directory, "--speed", "max", "--vm-map", names, "--host", self.name,
                             replay=trace, config=self.config)
        self.daemon.replayed()
        return self

    def stop(self):
        self.daemon.process.terminate()
        assert self.daemon.process.wait(HANG_S) == 0

    def get(self, path):
        return self.daemon.get(path)

    def hosts(self):
        return {h["name"]: h for h in self.get("/v1/hosts")["items"]}

    def states(self):
        return {name: h["state"] for name, h in self.hosts().items()}

    def ctl(self, *args, code=0):
        done = subprocess.run([vgpuctl.program(), *map(str, args)], capture_output=True, text=True,
                              timeout=HANG_S, check=False,
                              env={**os.environ, "VGPUCTL_SOCKET": self.daemon.socket})
        assert done.returncode == code, (args, done.returncode, done.stdout, done.stderr)
        return done.stdout


class Site:
    def __init__(self, directory, names, etcd):
        self.directory, self.names, self.etcd = directory, names, etcd
        self.ca = Authority(directory / "ca")
        self.recordings = {n: idle_recording(directory, n, 6000 + 100 * i) for i, n in enumerate(names)}
        # The first one is contended.
        self.recordings[names[0]] = LTTNG, VM_MAP
        self.hosts = {}

    def certificate(self, name):
        return self.ca.issue(name, 'ip_address = "127.0.0.1"')

    def start(self, name, more=""):
        self.hosts[name] = Host(self, name, self.recordings[name], more).start()
        return self.hosts[name]

    def close(self):
        for host in self.hosts.values():
            if host.daemon:
                host.daemon.kill()


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    directory = tmp_path_factory.mktemp("cluster")
    with Etcd(directory / "etcd") as etcd:
        site = Site(directory, ["host-a", "host-b", "host-c"], etcd)
        for name in ("host-a", "host-b"):
            site.start(name)
        yield site
        site.close()


def all_alive(site, names):
    """Each of them, in the eyes of each; there may be others, which have left."""
    return all(site.hosts[n].states().get(m) == "alive" for n in names for m in names)


def test_each_knows_all(site):
    """No group [peer NAME] anywhere, and yet each vgpud tells of all hosts, and plans for them."""
    names = ["host-a", "host-b"]
    wait_for(lambda: all_alive(site, names))
    pairs = site.etcd.pairs("/vgpud/test/")
    leases = set()
    for name in names:
        card, pair = pairs[f"/vgpud/test/hosts/{name}"]
        assert json.loads(card)["url"] == site.hosts[name].url
        leases.add(pair["lease"])
        wait_for(lambda key=f"/vgpud/test/summary/{name}": key in site.etcd.pairs("/vgpud/test/"))
    assert len(leases) == 2 and "0" not in leases
    for name, (text, pair) in site.etcd.pairs("/vgpud/test/summary/").items():
        assert len(text) <= 2048 and pair["lease"] in leases, name
    for asked in names:
        hosts = site.hosts[asked].hosts()
        assert [n for n, h in hosts.items() if h["self"]] == [asked]
        assert hosts["host-b"]["url"] == site.hosts["host-b"].url
        assert hosts["host-a"]["libvirt_uri"] == "qemu+tls://host-a/system"
        wait_for(lambda host=site.hosts[asked]: all(h["summary"] for h in host.hosts().values()))
        hosts = site.hosts[asked].hosts()
        assert hosts["host-a"]["summary"]["vms"] == 3 and hosts["host-b"]["summary"]["vms"] == 1
        assert hosts["host-a"]["summary"]["top"][0]["name"] == "vm-busy"
        for host in hosts.values():
            assert sum(host["summary"]["classes"]) == sum(host["summary"]["scores"]) == host["summary"]["vms"]
        # A host may be told of before it listens.
        assert not [line for line in site.hosts[asked].daemon.log().splitlines()
                    if "cannot be used" in line and "no process listens there" not in line]
        assert hosts["host-a"]["summary"]["lost"] > 1 > 0.1 > hosts["host-b"]["summary"]["lost"]
        cluster = site.hosts[asked].get("/v1/cluster")
        assert cluster["name"] == "test" and cluster["etcd"]["known"] and cluster["etcd"]["reason"] is None
        assert cluster["hosts"] == {"alive": 2, "stale": 0, "silent": 0} and cluster["vms"] == 4
        assert site.hosts[asked].daemon.part("etcd")["state"] == "ok"
    plan = json.loads(site.hosts["host-b"].ctl("placement", "--dry-run", "-o", "json"))
    assert (plan["actions"][0]["vm"], plan["actions"][0]["from"]) == ("vm-busy", "host-a")
    assert {a["to"] for a in plan["actions"]} == {"host-b"}
    table = site.hosts["host-b"].ctl("host", "list", "--all")
    assert "host-a" in table and "host-b" in table and "alive" in table
    rows = json.loads(site.hosts["host-b"].ctl("host", "list", "--all", "-o", "json"))
    assert [r["name"] for r in rows] == names


def test_vms_of_all(site):
    """Each vgpud tells of the VMs of all hosts, those that lose most first."""
    b = site.hosts["host-b"]
    wait_for(lambda: len(b.get("/v1/cluster/vms")["items"]) == 4)
    vms = b.get("/v1/cluster/vms")["items"]
    assert [v["lost"] for v in vms] == sorted((v["lost"] for v in vms), reverse=True)
    assert (vms[0]["host"], vms[0]["name"]) == ("host-a", "vm-busy") and vms[0]["at_ns"] > 0
    assert {v["name"] for v in b.get("/v1/cluster/vms?host=host-b")["items"]} == {"vm-host-b"}
    answer = b.get("/v1/cluster/vms?class=cpu&limit=1")
    assert len(answer["items"]) == 1 < answer["total"]
    assert all(v["class"] == "cpu" for v in answer["items"])
    b.daemon.get("/v1/cluster/vms?class=fast", 400)
    b.daemon.get("/v1/cluster/vms?limit=0", 400)
    table = b.ctl("vm", "list", "--all")
    assert table.index("vm-busy") < table.index("vm-host-b") and "host-a" in table
    assert [v["name"] for v in json.loads(b.ctl("vm", "list", "--all", "--host", "host-b", "-o", "json"))] == [
        "vm-host-b"]
    assert "vm-busy" in b.ctl("top", "--all", "-n", "1")
    b.ctl("vm", "list", "--all", "--sort", "cpu", code=2)
    b.ctl("vm", "show", "vm-host-b", "--all", code=2)


def notes_of(host):
    return json.loads(host.ctl("placement", "--dry-run", "-o", "json"))["notes"]


def of_age(host):
    """What a plan says of old figures, or None."""
    return next((note for note in notes_of(host) if "the figures are up to" in note), None)


@pytest.mark.drawn("cluster")
def test_what_is_old_is_told(site):
    """A host that does not answer while its lease lasts is planned with by what it said last, which a plan
    says; once etcd has lost it, it is left out."""
    c, b = site.start("host-c", "lease=10min\n"), site.hosts["host-b"]
    wait_for(lambda: all_alive(site, ["host-a", "host-b", "host-c"]))
    wait_for(lambda: not any("'host-c' is left out" in note for note in notes_of(b)))
    # What was said within twice [peers] refresh, a second here, is not asked for again, but has an age, too.
    told = wait_for(lambda: of_age(b))
    assert "moves to and from this host must gain more" in told
    c.daemon.kill()
    wait_for(lambda: int(re.search(r"up to (\d+) s old", of_age(b) or "up to 0 s old")[1]) > 3)
    assert "'host-c'" in of_age(b)
    assert b.states()["host-c"] == "alive"
    site.etcd.delete("/vgpud/test/hosts/host-c")
    wait_for(lambda: b.states()["host-c"] == "silent")
    notes = wait_for(lambda: [note for note in notes_of(b) if "peer 'host-c' is left out" in note])
    assert len(notes) == 1 and "'host-c'" not in (of_age(b) or "")


@pytest.mark.drawn("cluster")
def test_a_host_comes_and_goes(site):
    """One that ends gives its lease back; one that is killed has left when its lease ends, and is told
    of as silent. What is started again is the same host."""
    c = site.start("host-c")
    names = ["host-a", "host-b", "host-c"]
    wait_for(lambda: all_alive(site, names))
    c.stop()
    wait_for(lambda: site.hosts["host-a"].states()["host-c"] == "silent")
    assert "/vgpud/test/hosts/host-c" not in site.etcd.pairs()
    told = site.hosts["host-a"].hosts()["host-c"]
    assert told["reason"] and told["age_ns"] >= 0
    c.start()
    wait_for(lambda: all_alive(site, names))
    c.daemon.kill()
    before = time.monotonic()
    wait_for(lambda: site.hosts["host-a"].states()["host-c"] == "silent")
    # etcd ends a lease up to half a second, and more after a new leader, behind its time.
    assert time.monotonic() - before < HANG_S
    c.start()
    wait_for(lambda: all_alive(site, names))
    c.stop()


def led_by(site):
    pair = site.etcd.pairs("/vgpud/test/").get("/vgpud/test/leader")
    return json.loads(pair[0])["host"] if pair else None


def proposal_of(site, name, leader):
    """The proposal that a host shows, if this leader has made it."""
    proposal = site.hosts[name].get("/v1/cluster")["proposal"] or {}
    return proposal if proposal.get("host") == leader else {}


def test_one_leads(site):
    """It proposes for all hosts, and each vgpud tells that; when it is stopped or killed another one leads,
    and what was stopped and goes on changes nothing."""
    names = ["host-a", "host-b"]
    wait_for(lambda: all_alive(site, names))
    for stop in (signal.SIGSTOP, signal.SIGKILL):
        first = wait_for(lambda: led_by(site))
        other = next(n for n in names if n != first)
        for name in names:
            wait_for(lambda n=name: (site.hosts[n].get("/v1/cluster")["leader"] or {}).get("host") == first)
            # The first proposal may still have a host that has just left.
            wait_for(lambda n=name: [(m["vm"], m["from"], m["to"]) for m in proposal_of(site, n, first).get("moves", [])] == [
                ("vm-busy", "host-a", "host-b"), ("vm-duty", "host-a", "host-b")])
            proposal = site.hosts[name].get("/v1/cluster")["proposal"]
            assert proposal["verdict"] == "changes" and proposal["moves_all"] == 2
        made = json.loads(site.hosts[first].ctl("plan", "show", proposal["plan"], "-o", "json"))
        assert made["verdict"] == "changes"
        process = site.hosts[first].daemon.process
        if stop == signal.SIGSTOP:
            pause(process.pid)
        else:
            process.kill()
            process.wait()
        wait_for(lambda: led_by(site) == other)
        if stop == signal.SIGSTOP:
            # What it would have written now, it does not.
            led = site.etcd.pairs("/vgpud/test/")["/vgpud/test/leader"][1]["create_revision"]
            process.send_signal(signal.SIGCONT)
            wait_for(lambda: "this host is no longer the leader" in site.hosts[first].daemon.log())
            pairs = site.etcd.pairs("/vgpud/test/")
            assert pairs["/vgpud/test/leader"][1]["create_revision"] == led
        else:
            site.hosts[first].start()
        wait_for(lambda: all_alive(site, names))


@pytest.mark.drawn("cluster")
def test_two_hosts_of_one_name(site, tmp_path):
    """The second one is not in the cluster, says why, and works by itself."""
    wait_for(lambda: all_alive(site, ["host-a", "host-b"]))
    twin = Host(site, "host-b", site.recordings["host-b"])
    twin.directory = tmp_path
    twin.start()
    try:
        wait_for(lambda: "under the name 'host-b'" in (twin.daemon.part("etcd")["reason"] or ""))
        assert twin.daemon.get("/readyz")["ready"]
        assert json.loads(site.etcd.pairs()["/vgpud/test/hosts/host-b"][0])["url"] == site.hosts["host-b"].url
        wait_for(lambda: site.hosts["host-a"].states()["host-b"] == "alive")
    finally:
        twin.daemon.kill()


@pytest.mark.drawn("cluster")
def test_what_somebody_else_writes(site):
    """Values that are no cards and no summaries, and keys that are none of vgpud's, do no harm; a key
    that was taken away is put down again."""
    wait_for(lambda: site.hosts["host-a"].states().get("host-b") == "alive")
    bad = {"hosts/host-x": "{", "hosts/host-y": '{"name":"host-z","url":"https://127.0.0.1:1"}',
           "hosts/a/b": "{}", "summary/host-b": '{"cpus":-1}', "else": "", "hosts/host-w": '{"name":"host-w"}'}
    for key, value in bad.items():
        site.etcd.put("/vgpud/test/" + key, value)
    # What is no text at all.
    for key, value in (("hosts/host-v", "/wA="), ("binary", "/wA=")):
        assert site.etcd.ask("/v3/kv/put", {"key": coded("/vgpud/test/" + key), "value": value})[0] == 200
        bad[key] = value
    assert site.etcd.ask("/v3/kv/put", {"key": "L3ZncHVkL3Rlc3Qv/w==", "value": ""})[0] == 200
    for name in ("host-a", "host-b"):
        daemon = site.hosts[name].daemon
        before = daemon.get("/v1/cluster")["etcd"]["answered_ns"]
        wait_for(lambda d=daemon, b=before: d.get("/v1/cluster")["etcd"]["answered_ns"] > b)
        assert daemon.part("etcd")["state"] == "ok"
    assert site.etcd.ask("/v3/kv/deleterange", {"key": "L3ZncHVkL3Rlc3Qv/w=="})[0] == 200
    site.etcd.delete("/vgpud/test/hosts/host-b")
    wait_for(lambda: site.etcd.pairs("/vgpud/test/hosts/host-b"))
    wait_for(lambda: site.hosts["host-a"].states().get("host-b") == "alive")
    assert set(site.hosts["host-a"].hosts()) <= {"host-a", "host-b", "host-c"}
    wait_for(lambda: "an entry in etcd cannot be used" in site.hosts["host-a"].daemon.log())
    for key in bad:
        site.etcd.delete("/vgpud/test/" + key)


@pytest.mark.drawn("cluster")
def test_etcd_hangs_and_is_lost(site):
    """vgpud answers all the time, from what it has, and says since when; hosts that know each other go
    on answering each other. It recovers by itself."""
    a = site.hosts["host-a"]
    member = site.etcd.members[0]
    wait_for(lambda: a.states().get("host-b") == "alive")
    for stop, go in ((member.pause, member.go_on), (member.kill, lambda: member.start(site.etcd.cluster))):
        stop()
        try:
            wait_for(lambda: a.daemon.part("etcd")["state"] == "degraded")
            part = a.daemon.part("etcd")
            assert member.url in part["reason"] and part["ready"]
            answered_ns = a.get("/v1/cluster")["etcd"]["answered_ns"]
            before = time.monotonic()
            assert set(a.states()) >= {"host-a", "host-b"}
            plan = json.loads(a.ctl("placement", "--dry-run", "-o", "json"))
            assert {x["to"] for x in plan["actions"]} == {"host-b"}
            assert time.monotonic() - before < HANG_S
            assert a.get("/v1/cluster")["etcd"]["answered_ns"] == answered_ns
        finally:
            go()
        wait_for(lambda: a.daemon.part("etcd")["state"] == "ok")
        wait_for(lambda: a.states().get("host-b") == "alive")
    assert a.get("/v1/cluster")["etcd"]["answered_ns"] > answered_ns


@pytest.mark.drawn("cluster")
def test_it_ends_while_etcd_hangs(site):
    """The end of vgpud does not wait for an etcd that does not answer."""
    b = site.hosts["host-b"]
    site.etcd.members[0].pause()
    try:
        wait_for(lambda: b.daemon.part("etcd")["state"] == "degraded")
        b.daemon.process.send_signal(signal.SIGTERM)
        assert b.daemon.process.wait(HANG_S) == 0
    finally:
        site.etcd.members[0].go_on()
    b.start()
    wait_for(lambda: site.hosts["host-a"].states().get("host-b") == "alive")


def verdict_at(host, name):
    """What nova is told of a host."""
    return host.daemon.post("/v1/nova/placement", {"instance": {"vcpus": 1}, "hosts": [{"name": name}]})[2]["hosts"][0]


def plan_without_moves(host):
    """What it says, or nothing if it moves something."""
    plan = json.loads(host.ctl("placement", "--dry-run", "-o", "json"))
    return "" if plan["actions"] else json.dumps(plan)


@pytest.mark.drawn("cluster")
def test_a_host_that_is_emptied(site):
    """All know, from etcd, also those that are started anew while its vgpud is away, and the host itself when
    it comes back; what somebody else does to the key is put right."""
    a, b = site.hosts["host-a"], site.hosts["host-b"]
    key = "/vgpud/test/drain/host-b"
    wait_for(lambda: all_alive(site, ["host-a", "host-b"]))
    wait_for(lambda: verdict_at(a, "host-b")["verdict"] == "pass")
    a.ctl("host", "drain", "host-b")
    text, pair = wait_for(lambda: site.etcd.pairs("/vgpud/test/drain/").get(key))
    assert json.loads(text)["since_ns"] > 0 and "host-a" in json.loads(text)["asked_by"]
    assert pair.get("lease", "0") == "0"
    wait_for(lambda: a.hosts()["host-b"]["maintenance"])
    wait_for(lambda: verdict_at(a, "host-b")["verdict"] == "veto")
    # A host that has just left may be planned with for a moment.
    wait_for(lambda: "host 'host-b' is in maintenance" in plan_without_moves(a))
    b.daemon.kill()
    a.stop()
    wait_for(lambda: not site.etcd.pairs("/vgpud/test/hosts/"))
    a.start()
    wait_for(lambda: a.states().get("host-b") == "silent")
    assert a.hosts()["host-b"]["maintenance"] and a.hosts()["host-b"]["summary"] is None
    told = verdict_at(a, "host-b")
    assert told["verdict"] == "veto" and "maintenance" in told["reason"]
    table = a.ctl("host", "list", "--all")
    assert [" yes " in line for line in table.splitlines() if line.startswith("host-")] == [False, True], table
    a.ctl("host", "undrain", "host-b", code=3)
    # By hand, for a host of which nothing else is known.
    site.etcd.put("/vgpud/test/drain/host-x", "")
    wait_for(lambda: a.hosts().get("host-x", {}).get("maintenance"))
    assert verdict_at(a, "host-x")["verdict"] == "veto"
    site.etcd.delete("/vgpud/test/drain/host-x")
    wait_for(lambda: "host-x" not in a.hosts())
    site.etcd.delete(key)
    b.start()
    wait_for(lambda: key in site.etcd.pairs("/vgpud/test/drain/"))
    wait_for(lambda: all_alive(site, ["host-a", "host-b"]))
    wait_for(lambda: b.hosts()["host-b"]["maintenance"])
    site.etcd.delete(key)
    wait_for(lambda: key in site.etcd.pairs("/vgpud/test/drain/"))
    wait_for(lambda: a.daemon.request("GET", "/v1/hosts/host-b/drain")[0] == 200)
    a.ctl("host", "undrain", "host-b")
    wait_for(lambda: key not in site.etcd.pairs("/vgpud/test/drain/"))
    wait_for(lambda: not a.hosts()["host-b"]["maintenance"])
    wait_for(lambda: verdict_at(a, "host-b")["verdict"] == "pass")
    wait_for(lambda: all_alive(site, ["host-a", "host-b"]))
    site.etcd.put(key, "{}")
    wait_for(lambda: key not in site.etcd.pairs("/vgpud/test/drain/"))
    wait_for(lambda: not a.hosts()["host-b"]["maintenance"])


@pytest.mark.drawn("cluster")
@pytest.mark.parametrize("ahead", (0, 50))
def test_etcd_loses_all(site, ahead):
    """It comes back under the same name with nothing, its revision set back, or, where few had been written,
    soon beyond what it was: each host is in it again, and what is being emptied."""
    names = ["host-a", "host-b"]
    a = site.hosts["host-a"]
    member = site.etcd.members[0]
    wait_for(lambda: all_alive(site, names))
    a.ctl("host", "drain", "host-b")
    wait_for(lambda: site.etcd.pairs("/vgpud/test/drain/"))
    wait_for(lambda: a.hosts()["host-b"]["maintenance"])
    for _ in range(ahead):
        site.etcd.put("/vgpud/test/else", "")
    site.etcd.delete("/vgpud/test/else")
    wait_for(lambda: a.get("/v1/cluster")["etcd"]["revision"] > ahead)
    member.kill()
    shutil.rmtree(os.path.join(member.directory, member.name))
    member.start(site.etcd.cluster)
    wait_for(site.etcd.answers)
    for directory in ("hosts", "summary"):
        wait_for(lambda d=directory: set(site.etcd.pairs(f"/vgpud/test/{d}/")) == {
            f"/vgpud/test/{d}/{name}" for name in names})
    assert wait_for(lambda: site.etcd.pairs("/vgpud/test/drain/")).keys() == {"/vgpud/test/drain/host-b"}
    wait_for(lambda: all_alive(site, names))
    wait_for(lambda: all(site.hosts[n].daemon.part("etcd")["state"] == "ok" for n in names))
    assert a.hosts()["host-b"]["maintenance"]
    wait_for(lambda: led_by(site) in names)
    wait_for(lambda: (a.get("/v1/cluster")["leader"] or {}).get("host") == led_by(site))
    a.ctl("host", "undrain", "host-b")
    wait_for(lambda: not site.etcd.pairs("/vgpud/test/drain/"))
    wait_for(lambda: not a.hosts()["host-b"]["maintenance"])


# ---- TLS, users, client certificates ----

class Alone(Site):
    """A site of one host with an etcd of its own."""

    def __init__(self, directory, certificates=False, options=()):
        self.of_etcd = Authority(directory / "ca-of-etcd", "CA of etcd")
        pem, key = self.of_etcd.issue("etcd", 'ip_address = "127.0.0.1"')
        context = ssl.create_default_context(cafile=self.of_etcd.certificate)
        context.load_cert_chain(pem, key)
        etcd = Etcd(directory / "etcd", scheme="https", context=context, options=[
            "--cert-file", pem, "--key-file", key,
            *options, *(["--client-cert-auth", "--trusted-ca-file", self.of_etcd.certificate] if certificates else [])])
        super().__init__(directory, ["host-t"], etcd)
        self.trust = f"[cluster]\netcd_cacert={self.of_etcd.certificate}\n"


def run_alone(site, more):
    host = site.start("host-t", site.trust + more)
    wait_for(lambda: host.daemon.part("etcd")["state"])
    return host


@pytest.mark.drawn("cluster")
def test_tls_and_a_user(tmp_path):
    """With users, whose tokens end with etcd's process; a password that is wrong is told, and its file is
    read again. Outside of its prefix, the user may nothing."""
    site = Alone(tmp_path)
    password = tmp_path / "password"
    password.write_text("wrong\n")
    try:
        with site.etcd as etcd:
            def ask(path, **document):
                status, answer = etcd.ask("/v3/auth/" + path, document)
                assert status == 200, answer
            for name, secret in (("root", "r"), ("vgpud", "s3cret")):
                ask("user/add", name=name, password=secret)
                ask("role/add", name=name)
                ask("user/grant", user=name, role=name)
            ask("role/grant", name="vgpud", perm={"permType": 2, "key": coded("/vgpud/"),
                                                  "range_end": coded("/vgpud0")})
            ask("enable")
            host = run_alone(site, f"etcd_user=vgpud\netcd_password_file={password}\n")
            wait_for(lambda: "does not allow this vgpud's user" in (host.daemon.part("etcd")["reason"] or ""))
            assert "wrong" not in host.daemon.part("etcd")["reason"]
            password.write_text("s3cret\n")
            wait_for(lambda: host.daemon.part("etcd")["state"] == "ok")
            # Simple tokens are in the memory of the member.
            etcd.members[0].kill()
            etcd.members[0].start(etcd.cluster)
            before = host.get("/v1/cluster")["etcd"]["answered_ns"]
            wait_for(lambda: host.get("/v1/cluster")["etcd"]["answered_ns"] > before
                     and host.daemon.part("etcd")["state"] == "ok")
            host.stop()
    finally:
        site.close()


@pytest.mark.drawn("cluster")
def test_a_client_certificate(tmp_path):
    """Which etcd wants, and without which it answers nobody; a server with another CA is not trusted."""
    site = Alone(tmp_path, certificates=True)
    other = Authority(tmp_path / "other")
    try:
        with site.etcd:
            host = run_alone(site, "")
            wait_for(lambda: host.daemon.part("etcd")["reason"])
            host.daemon.kill()
            pem, key = site.of_etcd.issue("client", server=False)
            host = run_alone(site, f"etcd_cert={pem}\netcd_key={key}\n")
            wait_for(lambda: host.daemon.part("etcd")["state"] == "ok")
            host.daemon.kill()
            host = run_alone(site, f"etcd_cert={pem}\netcd_key={key}\netcd_cacert={other.certificate}\n")
            wait_for(lambda: "cannot be trusted" in (host.daemon.part("etcd")["reason"] or ""))
    finally:
        site.close()


def check_no_writes(host, words):
    def told():
        part = host.daemon.part("etcd")
        return part["state"] == "degraded" and words in part["reason"]
    wait_for(told)
    assert "etcd accepts no writes, so no move starts: " in host.daemon.part("etcd")["reason"]
    # Leases and reads work.
    assert host.states() == {"host-t": "alive"}
    before = host.get("/v1/cluster")["etcd"]["answered_ns"]
    wait_for(lambda: host.get("/v1/cluster")["etcd"]["answered_ns"] > before)
    assert host.daemon.part("etcd")["state"] == "degraded"


@pytest.mark.drawn("cluster")
def test_etcd_is_full(tmp_path):
    """Somebody else has used up its quota: leases are kept, nothing is written."""
    site = Alone(tmp_path, options=["--quota-backend-bytes", "1000000"])
    try:
        with site.etcd as etcd:
            host = run_alone(site, "")
            wait_for(lambda: host.daemon.part("etcd")["state"] == "ok")
            big, status, n = "x" * 200000, 200, 0
            while status == 200:
                status, answer = etcd.ask("/v3/kv/put", {"key": coded(f"/other/{n}"), "value": coded(big)})
                n += 1
            check_no_writes(host, "database space exceeded")
            for i in range(n):
                etcd.delete(f"/other/{i}")
            revision = int(etcd.ask("/v3/kv/range", {"key": coded("/")})[1]["header"]["revision"])
            [alarm] = etcd.ask("/v3/maintenance/alarm", {"action": "GET"})[1]["alarms"]
            for path, document in (("kv/compaction", {"revision": revision}), ("maintenance/defragment", {}),
                                   ("maintenance/alarm", {"action": "DEACTIVATE", "alarm": "NOSPACE",
                                                          "memberID": alarm["memberID"]})):
                status, answer = etcd.ask("/v3/" + path, document)
                assert status == 200, answer
            wait_for(lambda: host.daemon.part("etcd")["state"] == "ok")
            host.stop()
    finally:
        site.close()


@pytest.mark.drawn("cluster")
def test_a_user_that_may_only_read(tmp_path):
    """Its role is changed while it is in."""
    site = Alone(tmp_path)
    (tmp_path / "password").write_text("s3cret\n")
    try:
        with site.etcd as etcd:
            def ask(path, **document):
                status, answer = etcd.ask("/v3/auth/" + path, document, token=ask.token)
                assert status == 200, answer
                return answer
            ask.token = None

            def permit(kind):
                ask("role/grant", name="vgpud", perm={"permType": kind, "key": coded("/vgpud/"),
                                                      "range_end": coded("/vgpud0")})
            for name, secret in (("root", "r"), ("vgpud", "s3cret")):
                ask("user/add", name=name, password=secret)
                ask("role/add", name=name)
                ask("user/grant", user=name, role=name)
            permit("READWRITE")
            ask("enable")
            host = run_alone(site, f"etcd_user=vgpud\netcd_password_file={tmp_path / 'password'}\n")
            wait_for(lambda: host.daemon.part("etcd")["state"] == "ok")
            ask.token = ask("authenticate", name="root", password="r")["token"]
            permit("READ")
            wait_for(lambda: "does not allow this vgpud's user" in (host.daemon.part("etcd")["reason"] or ""))
            permit("READWRITE")
            wait_for(lambda: host.daemon.part("etcd")["state"] == "ok")
            host.stop()
    finally:
        site.close()
