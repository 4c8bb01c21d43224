# SPDX-License-Identifier: Apache-2.0
"""What a hostile peer, and somebody who may write to etcd, can have other hosts do: no program runs, no
request goes to another host than the one that is meant, nobody takes a host's name, and no peer what others
have reserved or may do."""
import json
import os
import shutil
import signal
import ssl
import subprocess
from http.client import HTTPSConnection

import pytest
import vgpuctl
from certs import Authority
from etcd import Etcd, free_ports
from settings import HANG_S
from vgpud import Daemon, wait_for

pytestmark = [pytest.mark.xdist_group("host-proof"),
              pytest.mark.skipif(not shutil.which("certtool"),
                                 reason="certtool (package gnutls-bin) is not installed")]

QUIET = "[gpu]\nenable=no\n[live]\nuse=no\n[actions]\nenabled=yes\n[peers]\nrefresh=1s\ndeadline=10s\n"


class Host:
    """A vgpud on loopback, whose libvirt has one VM, 'test', or none."""

    def __init__(self, directory, authority, name, *certificate, host_name=None, vms=True, more=""):
        self.name, self.directory = name, directory / name
        self.directory.mkdir()
        port, = free_ports(1)
        self.url = f"https://127.0.0.1:{port}"
        self.cert, self.key = authority.issue(name, 'ip_address = "127.0.0.1"', *certificate)
        self.ca = authority.certificate
        self.host_name = host_name or name
        self.config = (f"[api]\nlisten=127.0.0.1:{port}\ntls_certificate={self.cert}\ntls_key={self.key}\n"
                       f"tls_client_ca={self.ca}\nclient_requests=1000000\n[role peer]\nsubject=CN=victim;CN=other\n"
                       f"[libvirt]\nuse={'yes' if vms else 'no'}\nuri=test:///default\n{QUIET}{more}")
        self.daemon = None

    def start(self, more=""):
        self.daemon = Daemon(self.directory, "--host", self.host_name, config=self.config + more)
        return self

    def known_as(self, name, of, **keys):
        """The group [peer NAME] of a host that asks this one with the certificate of `of`."""
        return (f"[peer {name}]\nurl={self.url}\ncacert={self.ca}\ncert={of.cert}\nkey={of.key}\n"
                + "".join(f"{k}={v}\n" for k, v in keys.items()))

    def peers(self):
        return {p["name"]: p for p in self.daemon.get("/v1/peers")["items"]}

    def proofs(self):
        return {name: p["host_proof"] for name, p in self.peers().items()}

    def was_asked(self):
        return [(i["route"], i["status"]) for i in self.daemon.get("/v1/audit")["items"]
                if i["identity"] == "cert:CN=victim"]

    def reload(self, more):
        before = self.daemon.log().count("configuration reloaded")
        self.daemon.write_config(self.config + more)
        self.daemon.process.send_signal(signal.SIGHUP)
        wait_for(lambda: self.daemon.log().count("configuration reloaded") > before)

    def stop(self):
        if self.daemon:
            self.daemon.kill()


class Site:
    def __init__(self, directory):
        self.directory, self.authority, self.hosts = directory, Authority(directory / "ca"), []

    def host(self, name, *certificate, **options):
        self.hosts.append(Host(self.directory, self.authority, name, *certificate, **options))
        return self.hosts[-1]

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        for host in self.hosts:
            host.stop()


@pytest.fixture
def site(tmp_path):
    with Site(tmp_path) as made:
        yield made


# ---- peers that are configured ----

def move(host, **wanted):
    status, _, answer = host.daemon.post("/v1/migrations", {"vm": "test", "to": "victim", "forward": True, **wanted})
    return status, answer


def test_a_peer_that_poses_as_another(site):
    """It has the name and the VM of an honest host, and comes first: nothing is asked of it, and no plan
    believes it. While it is alone it counts for plans, and for no move."""
    evil = site.host("a-evil", host_name="honest").start()
    honest = site.host("b-honest", 'dns_name = "honest.example"', host_name="honest").start()
    victim = site.host("victim", vms=False)
    known = evil.known_as("a-evil", victim)
    victim.start(known)
    wait_for(lambda: victim.proofs() == {"a-evil": "unproved"} and victim.peers()["a-evil"]["vms"] == 1)
    told = victim.peers()["a-evil"]["host_reason"]
    assert "'honest'" in told and "'a-evil'" in told and "host=" in told
    part = victim.daemon.part("peers")
    assert part["state"] == "degraded" and part["ready"] and "a-evil" in part["reason"]
    status, answer = move(victim)
    assert status == 422 and "no VM is moved to or from peer 'a-evil'" in answer["detail"], answer
    # Nothing is reserved for a VM that comes from there, either.
    status, _, answer = victim.daemon.post("/v1/reservations", {**reservation("move-1", 1), "from": "honest"})
    assert status == 422 and "no VM is moved" in answer["detail"], answer
    victim.reload(known + honest.known_as("b-honest", victim))
    wait_for(lambda: victim.proofs() == {"a-evil": "disputed", "b-honest": "proved"}
             and victim.peers()["b-honest"]["vms"] == 1)
    # The honest one is asked, and knows no host of that name.
    status, answer = move(victim)
    assert status == 404 and "peer 'b-honest'" in answer["detail"], answer
    assert not evil.was_asked() and honest.was_asked() == [("/v1/migrations", 404)]
    assert [v["host"] for v in victim.daemon.get("/v1/cluster/vms")["items"]] == ["honest"]
    # By the name of the peer it is not asked either.
    assert "'a-evil'" in victim.daemon.post("/v1/hosts/a-evil/drain", {"dry_run": True})[2]["detail"]
    assert not evil.was_asked()
    assert victim.daemon.log().count("the host name of a peer is not verified name=a-evil") == 2


def test_what_proves_a_name(site):
    """The name of its group, `host`, or its certificate, whole or up to the first dot; and nothing else."""
    ways = {"by-group": {}, "x1": {"host": "by-key"}, "x2": {}, "x3": {}, "x4": {}}
    names = {"by-group": "by-group", "x1": "by-key", "x2": "by-san.example", "x3": "by-cut", "x4": "x4.example"}
    certificates = {"x2": ['dns_name = "by-san.example"'], "x3": ['dns_name = "by-cut.example"']}
    hosts = {n: site.host(n + "-cert", *certificates.get(n, []), host_name=names[n], vms=False).start() for n in ways}
    victim = site.host("victim", vms=False)
    victim.start("".join(hosts[n].known_as(n, victim, **keys) for n, keys in ways.items()))
    wait_for(lambda: victim.proofs() == {**dict.fromkeys(ways, "proved"), "x4": "unproved"})


def test_two_that_prove_one_name(site):
    """Both lose it, and so does nobody else; a host never loses its own name."""
    one = site.host("one", 'dns_name = "same.example"', host_name="same", vms=False).start()
    two = site.host("two", 'dns_name = "same.other"', host_name="same", vms=False).start()
    liar = site.host("liar", host_name="victim", vms=False).start()
    good = site.host("good", vms=False).start()
    victim = site.host("victim")
    victim.start(one.known_as("p1", victim) + two.known_as("p2", victim) + good.known_as("good", victim)
                 + liar.known_as("victim", victim))
    wait_for(lambda: victim.proofs() == {"p1": "disputed", "p2": "disputed", "good": "proved",
                                         "victim": "disputed"})
    assert "'p1' and 'p2'" in victim.peers()["p1"]["host_reason"]
    assert "this host itself" in victim.peers()["victim"]["host_reason"]
    two.stop()
    victim.reload(one.known_as("p1", victim))
    wait_for(lambda: victim.proofs() == {"p1": "proved"})


def test_a_vm_that_two_hosts_have(site):
    """Each is who it says, and both have the VM: neither is asked to move it."""
    hosts = [site.host(name).start() for name in ("one", "two")]
    victim = site.host("victim", vms=False)
    victim.start("".join(h.known_as(h.name, victim) for h in hosts))
    wait_for(lambda: [p["vms"] for p in victim.peers().values()] == [1, 1])
    status, answer = move(victim)
    assert status == 409 and "'one' and 'two' both have" in answer["detail"], answer
    assert not any(h.was_asked() for h in hosts)


# ---- a cluster ----

@pytest.fixture
def etcd(tmp_path):
    with Etcd(tmp_path / "etcd") as started:
        yield started


def member(site, etcd, name, uri="", more=""):
    host = site.host(name)
    return host.start(f"[cluster]\netcd={etcd.endpoints}\nname=test\nurl={host.url}\ncert={host.cert}\n"
                      f"key={host.key}\ncacert={host.ca}\nlease=60s\npoll=1s\nlibvirt_uri={uri}\n{more}")


def dry_run(host, to):
    return host.daemon.post("/v1/migrations", {"vm": "test", "to": to, "dry_run": True})[2].get("detail", "")


def change(etcd, host, **members):
    """Writes the card of a host anew."""
    key = f"/vgpud/test/hosts/{host}"
    card = {**json.loads(wait_for(lambda: etcd.pairs(key))[key][0]), **members}
    etcd.put(key, json.dumps(card))


def test_who_writes_to_etcd_chooses_no_program(site, etcd, tmp_path):
    """A card's libvirt_uri says whether a host takes VMs, and nothing else."""
    program, ran = tmp_path / "program", tmp_path / "ran"
    program.write_text(f"#!/bin/sh\ntouch {ran}\n")
    program.chmod(0o755)
    victim = member(site, etcd, "victim", "qemu+tcp://victim/system")
    member(site, etcd, "honest", f"qemu+ext://honest/system?command={program}")
    wait_for(lambda: victim.proofs() == {"honest": "proved"})
    assert victim.peers()["honest"]["libvirt_uri"] == "qemu+tcp://127.0.0.1/system"
    assert "'qemu+tcp://127.0.0.1/system'" in dry_run(victim, "honest")
    for uri in (f"qemu+ssh://honest/system?command={program}", f"qemu+ext://honest/?command={program}"):
        change(etcd, "honest", libvirt_uri=uri)
        wait_for(lambda u=uri: {h["libvirt_uri"] for h in victim.daemon.get("/v1/hosts")["items"]} >= {u})
        assert victim.peers()["honest"]["libvirt_uri"] == "qemu+tcp://127.0.0.1/system"
        assert "'qemu+tcp://127.0.0.1/system'" in dry_run(victim, "honest")
    assert not ran.exists()
    change(etcd, "honest", libvirt_uri="")
    wait_for(lambda: victim.peers()["honest"]["libvirt_uri"] is None)
    wait_for(lambda: "accepts no VMs" in dry_run(victim, "honest"))


def test_a_cluster_without_a_template(site, etcd):
    """The own URI cannot stand for one: no VM is moved, and the log and the refusal name the key. One that is
    written is taken as it is."""
    program = "qemu+ext://x/system?command=/bin/false"
    victim = member(site, etcd, "victim", program)
    other = member(site, etcd, "other", "qemu+tls://other/system",
                   "libvirt_uri_template=qemu+ssh://vgpud@%h:22/system?keyfile=/etc/vgpud/id\n")
    wait_for(lambda: victim.proofs() == {"other": "proved"} and other.proofs() == {"victim": "proved"})
    assert "[cluster] libvirt_uri_template is not set" in victim.daemon.log()
    assert "[cluster] libvirt_uri_template" in dry_run(victim, "other")
    assert other.peers()["victim"]["libvirt_uri"] == "qemu+ssh://vgpud@127.0.0.1:22/system?keyfile=/etc/vgpud/id"


def test_a_card_that_names_another_host(site, etcd):
    """Somebody has etcd say that an honest host is where his own is: that one is not it. What is no URL of a
    host is not asked at all."""
    victim = member(site, etcd, "victim", "qemu+tcp://victim/system")
    evil = member(site, etcd, "evil", "qemu+tcp://evil/system")
    etcd.put("/vgpud/test/hosts/honest", json.dumps({"name": "honest", "url": evil.url, "libvirt_uri": "x"}))
    port = evil.url.rsplit(":", 1)[1]
    for n, url in enumerate((f"https://x@127.0.0.1:{port}", f"https://127.0.0.1:{port}/v1/tokens?x=",
                             f"https://127.0.0.1:{port}#", "https://-x:1")):
        etcd.put(f"/vgpud/test/hosts/odd{n}", json.dumps({"name": f"odd{n}", "url": url, "libvirt_uri": "x"}))
    wait_for(lambda: victim.proofs() == {"evil": "proved", "honest": "disputed"})
    assert "'evil' proves" in victim.peers()["honest"]["host_reason"]
    assert "no VM is moved" in dry_run(victim, "honest")
    assert "a host of the cluster is not queried" in victim.daemon.log()


# ---- what a peer may do ----

def ask(host, method, path, document=None, token=None, certificate=None):
    """Status and answer of a request over TLS."""
    context = ssl.create_default_context(cafile=host.ca)
    if certificate:
        context.load_cert_chain(*certificate)
    connection = HTTPSConnection(host.url.removeprefix("https://"), context=context, timeout=HANG_S)
    try:
        connection.request(method, path, None if document is None else json.dumps(document),
                           {"Content-Type": "application/json",
                            **({"Authorization": "Bearer " + token} if token else {})})
        response = connection.getresponse()
        body = response.read()
        return response.status, json.loads(body) if body else None
    finally:
        connection.close()


def make_token(host, name, role):
    done = subprocess.run([vgpuctl.program(), "token", "create", name, "--role", role], capture_output=True,
                          text=True, timeout=HANG_S, check=True,
                          env={**os.environ, "VGPUCTL_SOCKET": host.daemon.socket})
    return done.stdout.strip()


def reservation(move, number, lease_s=300):
    return {"move_id": move, "vm": f"vm{number}", "uuid": f"5c9e2c3a-0d8f-4f0a-9d64-{number:012x}", "from": "host-a",
            "lease_s": lease_s, "devices": []}


def test_whose_reservation(site):
    """Two peers: neither gets, extends or ends what is kept for the other one, or keeps it out."""
    host = site.host("host").start()
    a, b = (make_token(host, name, "peer") for name in "ab")
    status, mine = ask(host, "POST", "/v1/reservations", reservation("move-a1", 1), a)
    assert status == 201 and mine["asked_by"] == "token:a"
    path = "/v1/reservations/" + mine["id"]
    assert ask(host, "POST", "/v1/reservations", reservation("move-a1", 7), b)[0] == 403
    assert ask(host, "DELETE", path, token=b)[0] == 403
    assert ask(host, "POST", path, {"lease_s": 3600}, b)[0] == 403
    assert ask(host, "POST", path, {"lease_s": 600}, a)[1]["lease_s"] == 600
    assert ask(host, "DELETE", path, token=a)[0] == 204
    assert [ask(host, "POST", "/v1/reservations", reservation(f"move-b{n}", n, 3600), b)[0]
            for n in (2, 3, 4)] == [201, 201, 409]
    assert ask(host, "POST", "/v1/reservations", reservation("move-a2", 9), a)[0] == 201
    # Nor does it see them: a peer has its own, and nothing else that is to be read.
    assert ask(host, "GET", "/v1/reservations", token=b)[0] == 403


def test_the_role_of_a_peer(site):
    """By a token or a subject. Whoever has it may do nothing else, whatever other role the subject has; an
    operator may do the same in this version, which is told once."""
    host = site.host("host").start("[role admin]\nsubject=CN=victim;CN=person\n")
    peer = site.authority.issue("victim", server=False)
    person = site.authority.issue("person", server=False)
    token = make_token(host, "host-a", "peer")
    for who in ({"token": token}, {"certificate": peer}):
        assert ask(host, "GET", "/v1/snapshot", **who)[0] == 200
        assert ask(host, "POST", "/v1/paths", {"paths": ["/"]}, **who)[0] == 200
        for method, path, body in (("GET", "/v1/vms", None), ("GET", "/v1/tokens", None), ("GET", "/metrics", None),
                                   ("POST", "/v1/plans", {"dry_run": True}),
                                   ("POST", "/v1/vms/test/vulkan", {"enabled": True})):
            assert ask(host, method, path, body, **who)[0] == 403, path
        status, answer = ask(host, "POST", "/v1/migrations", {"vm": "test", "to": "x", "dry_run": True}, **who)
        assert status == 403 and "only for a person" in answer["detail"]
    log = "which a later version will not accept on this route"
    assert log not in host.daemon.log()
    operator = make_token(host, "old", "operator")
    for _ in range(2):
        for who in ({"token": operator}, {"certificate": person}):
            assert ask(host, "POST", "/v1/paths", {"paths": ["/"]}, **who)[0] == 200
    lines = [line for line in host.daemon.log().splitlines() if log in line]
    assert len(lines) == 2, lines
    assert "vgpuctl token create NAME --role peer" in lines[0] and "token:old" in lines[0]
    assert "[role peer] subject=CN=person" in lines[1]
