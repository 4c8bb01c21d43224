# SPDX-License-Identifier: Apache-2.0
"""Hosts that are upgraded from the previous version one after the other: at each step each of them knows,
plans with, asks and empties the other one, as an operator of the previous version set them up."""
import json
import shutil

import previous
import pytest
from certs import Authority
from etcd import Etcd, free_ports
from test_host_proof import ask, reservation
from vgpud import Daemon, wait_for

pytestmark = [pytest.mark.xdist_group("upgrade"), pytest.mark.drawn("previous"),
              pytest.mark.skipif(not shutil.which("certtool"),
                                 reason="certtool (package gnutls-bin) is not installed")]

# Nobody listens there.
LIBVIRT = {"tls": "qemu+tls://127.0.0.1:1/system", "ssh": "qemu+ssh://root@127.0.0.1:1/system",
           "tcp": "qemu+tcp://127.0.0.1:1/system"}


class Host:
    """A host as vgpud(8), NETWORK, and vgpud.conf(5) set it up: its certificate is for its long name, and the
    one by which it is known here."""

    def __init__(self, site, name, transport):
        self.site, self.name, self.directory = site, name, site.directory / name
        self.directory.mkdir()
        port, = free_ports(1)
        self.url = f"https://127.0.0.1:{port}"
        self.ca = site.authority.certificate
        self.certificate = site.authority.issue(name, f'dns_name = "{name}.example"', 'ip_address = "127.0.0.1"')
        self.libvirt = LIBVIRT[transport]
        cert, key = self.certificate
        self.config = (f"[api]\nlisten=127.0.0.1:{port}\ntls_certificate={cert}\ntls_key={key}\n"
                       f"tls_client_ca={self.ca}\nclient_requests=1000000\n[libvirt]\nuse=yes\nuri=test:///default\n"
                       "[gpu]\nenable=no\n[live]\nuse=no\n[actions]\nenabled=yes\n[peers]\nrefresh=1s\n")
        self.role = "[role operator]\nsubject=CN=host-a;CN=host-b\n"
        self.more = ""
        self.daemon = None

    def start(self, binary=None):
        self.daemon = Daemon(self.directory, "--host", self.name, config=self.config + self.role + self.more,
                             binary=binary)
        return self

    def restart(self, binary=None):
        self.daemon.stop()
        return self.start(binary)

    def peers(self):
        return self.daemon.get("/v1/peers")["items"]


class Site:
    def __init__(self, directory, transport):
        self.directory, self.authority = directory, Authority(directory / "ca")
        self.hosts = {n: Host(self, n, transport) for n in ("host-a", "host-b")}

    def others(self):
        return [(self.hosts["host-a"], self.hosts["host-b"]), (self.hosts["host-b"], self.hosts["host-a"])]

    def by_tokens(self, old):
        """Each has a token of the other one, of the role that the previous version wants."""
        for host in self.hosts.values():
            host.start(old)
        for here, there in self.others():
            status, _, answer = there.daemon.post("/v1/tokens", {"name": here.name, "role": "operator"})
            assert status == 201
            (here.directory / "token").write_text(answer["token"] + "\n")
            here.more = (f"[peer {there.name}]\nurl={there.url}\ncacert={there.ca}\n"
                         f"token_file={here.directory}/token\nlibvirt_uri={there.libvirt}\n")
        for host in self.hosts.values():
            host.restart(old)

    def by_etcd(self, old, etcd):
        for host in self.hosts.values():
            cert, key = host.certificate
            host.more = (f"[cluster]\netcd={etcd.endpoints}\nurl={host.url}\ncert={cert}\nkey={key}\n"
                         f"cacert={host.ca}\nlease=60s\npoll=1s\nlibvirt_uri={host.libvirt}\n")
            host.start(old)

    def check(self):
        """All that one asks of the other."""
        for here, there in self.others():
            wait_for(lambda h=here, t=there: [(p["host"], p["state"], p["vms"]) for p in h.peers()]
                     == [(t.name, "reachable", 1)])
            peer, = here.peers()
            assert peer.get("host_proof", "proved") == "proved" and peer["libvirt_uri"] == there.libvirt
            wait_for(lambda h=here: h.daemon.request("GET", "/v1/vms/test")[0] == 200)
            # It asks libvirt of the other host, by the same URI as ever.
            _, _, answer = here.daemon.post("/v1/migrations", {"vm": "test", "to": there.name, "dry_run": True})
            assert there.libvirt in answer["detail"], answer
            # Reservations, as the vgpud of the other host makes them.
            who = {"certificate": here.certificate} if "[cluster]" in here.more else {
                "token": (here.directory / "token").read_text().strip()}
            status, kept = ask(there, "POST", "/v1/reservations", reservation(f"move-{here.name}", 1), **who)
            assert status == 201, kept
            path = "/v1/reservations/" + kept["id"]
            assert ask(there, "POST", path, {"lease_s": 60}, **who)[0] == 200
            assert ask(there, "DELETE", path, **who)[0] == 204
            # A host is emptied and filled again by the other one.
            drain = f"/v1/hosts/{there.name}/drain"
            status, _, answer = here.daemon.post(drain, {})
            assert status == 200 and here.name in answer["asked_by"], answer
            assert here.daemon.get(drain)["host"] == there.name
            assert here.daemon.request("DELETE", drain)[0] == 204
            status, _, answer = here.daemon.post("/v1/migrations/move-0/abort?peer=" + there.name, {})
            assert status == 404 and f"peer '{there.name}'" in answer["detail"], answer

    def close(self):
        for host in self.hosts.values():
            if host.daemon:
                host.daemon.kill()


@pytest.fixture(params=("tls", "ssh", "tcp"))
def site(request, tmp_path):
    made = Site(tmp_path, request.param)
    yield made
    made.close()


ORDERS = (("host-a", "host-b"), ("host-b", "host-a"))


def upgrade(site, order):
    site.check()
    for name in order:
        site.hosts[name].restart()
        site.check()


@pytest.mark.parametrize("order", ORDERS)
def test_peers(site, order):
    site.by_tokens(previous.program("vgpud"))
    upgrade(site, order)
    # Once all are of this version, they get the role that they should have.
    for here, there in site.others():
        status, _, answer = there.daemon.post("/v1/tokens", {"name": here.name + "-peer", "role": "peer"})
        assert status == 201
        (here.directory / "token").write_text(answer["token"] + "\n")
    site.check()
    assert "which a later version will not accept" in site.hosts[order[0]].daemon.log()


@pytest.mark.parametrize("order", ORDERS)
def test_a_cluster(site, order, tmp_path):
    with Etcd(tmp_path / "etcd") as etcd:
        site.by_etcd(previous.program("vgpud"), etcd)
        upgrade(site, order)
        for host in site.hosts.values():
            host.role = host.role.replace("operator", "peer")
            host.restart()
        site.check()
        assert json.loads(etcd.pairs("/vgpud/default/hosts/")["/vgpud/default/hosts/host-a"][0])["libvirt_uri"]
