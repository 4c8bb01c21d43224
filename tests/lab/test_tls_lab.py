# SPDX-License-Identifier: Apache-2.0
"""Migrations between two real libvirt hosts with QEMU's TLS, whose certificates are for this test alone."""
import os
import shutil

import pytest
from certs import Authority
from labhost import DAEMONS, ENV, lab
from movelab import address, remove_guest, run, running_on, start_guest
from unixhttp import wait_for

# One after the other: they share the directory of the lab.
pytestmark = [pytest.mark.xdist_group("lab"),
              pytest.mark.drawn("half-minutes")]
GUEST = "sealed"
HOSTS = ("h1", "h2")


def issue(authority, host):
    """Certificate and key of a host; libvirt and QEMU insist on key encipherment, which is RSA's."""
    return authority.issue(host, f'dns_name = "{host}"', f'ip_address = "{address(host)}"', "signing_key",
                           "encryption_key", kind="rsa")


class Pki:
    """Certificates of QEMU and libvirtd on both hosts."""

    def __init__(self, directory):
        self.directory = directory
        self.authority = Authority(directory / "ca")
        self.saved = {}

    def at(self, host):
        return self.directory / host

    def issue(self, host, authority):
        """Certificates of that CA, under the names that QEMU and libvirt have for them."""
        self.at(host).mkdir(exist_ok=True)
        pem, key = issue(authority, host)
        for ca in ("ca-cert.pem", "cacert.pem"):
            shutil.copy(authority.certificate, self.at(host) / ca)
        for end in ("server", "client"):
            for cert in (f"{end}-cert.pem", f"{end}cert.pem"):
                shutil.copy(pem, self.at(host) / cert)
            for name in (f"{end}-key.pem", f"{end}key.pem"):
                shutil.copy(key, self.at(host) / name)

    def put(self, host, name, text):
        """Before the rest: of a key that is there twice, libvirt takes the first."""
        path = os.path.join(ENV["LAB_DIR"], host, "etc", name)
        with open(path, encoding="utf-8") as file:
            self.saved.setdefault(path, file.read())
        with open(path, "w", encoding="utf-8") as file:
            file.write(text + self.saved[path])

    def configure(self, host):
        at = self.at(host)
        self.put(host, "qemu.conf", f'migrate_tls_x509_cert_dir = "{at}"\n')
        # The one that listens.
        self.put(host, f"{DAEMONS[-1]}.conf",
                 f'listen_tls = 1\nca_file = "{at}/cacert.pem"\ncert_file = "{at}/servercert.pem"\n'
                 f'key_file = "{at}/serverkey.pem"\n')

    def restore(self):
        for path, text in self.saved.items():
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)


def restart(movelab, uri):
    """libvirtd and vgpud of both hosts, which then know what the other one has."""
    for host in HOSTS:
        movelab.nodes[host].daemon.stop()
        lab("daemon", host, "stop")
        lab("daemon", host, "start")
    for host in HOSTS:
        movelab.nodes[host].uri = uri
        movelab.start(host)
    movelab.meet()


@pytest.fixture(name="pki", scope="module")
def fixture_pki(movelab, tmp_path_factory):
    made = Pki(tmp_path_factory.mktemp("pki"))
    start_guest("h1", GUEST, gpu=False)
    yield made
    remove_guest(GUEST)
    made.restore()
    restart(movelab, "qemu+tcp://{}/system")


def where(movelab):
    [source] = running_on(GUEST)
    node = movelab.nodes[source]
    wait_for(lambda: node.daemon.request("GET", f"/v1/vms/{GUEST}")[0] == 200)
    wait_for(lambda: node.daemon.get(f"/v1/vms/{GUEST}")["libvirt"])
    return node, "h2" if source == "h1" else "h1"


def dry_run(node, to):
    return node.move(GUEST, to, status=200, dry_run=True, no_agent=True)


def moved(node, to):
    return node.ended(node.move(GUEST, to, no_agent=True))


def test_without_certificates(movelab, pki):
    """They are known to be missing: tls=yes refuses, and auto over qemu+tcp moves without them."""
    node, to = where(movelab)
    assert node.daemon.get("/")["migration_tls"] == "missing"
    check = dry_run(node, to)
    assert check["tls"] == "no" and not check["tls_warns"] and "qemu+tls" in check["tls_why"]
    node.reload("[actions]\ntls=yes\n")
    refused = str(node.move(GUEST, to, status=422, no_agent=True))
    assert f"missing on '{node.host}'" in refused
    assert "missing on" in run(node, "doctor", code=1).stdout
    node.reload("")
    move = moved(node, to)
    assert (move["state"], move["tls"]) == ("done", "no"), move


def test_auto_over_tls(movelab, pki):
    """QEMU refuses another CA's certificates, so it does use TLS; the move is then not made without."""
    for host in HOSTS:
        pki.issue(host, pki.authority)
        pki.configure(host)
    restart(movelab, "qemu+tls://{}/system?pkipath=" + str(pki.at("h1")))
    node, to = where(movelab)
    check = dry_run(node, to)
    assert (check["tls"], check["tls_warns"], check["problems"]) == ("yes", False, []), check
    assert f"tls to {to}" in run(node, "doctor").stdout
    move = moved(node, to)
    assert (move["state"], move["tls"]) == ("done", "yes"), (move["cause"], move["steps"])

    other = Authority(pki.directory / "other", "another CA")
    node, to = where(movelab)
    for name in ("ca-cert.pem", "server-cert.pem", "server-key.pem"):
        shutil.copy(pki.at(to) / name, pki.at(to) / (name + ".good"))
    pem, key = issue(other, to)
    for path, name in ((other.certificate, "ca-cert.pem"), (pem, "server-cert.pem"), (key, "server-key.pem")):
        shutil.copy(path, pki.at(to) / name)
    move = moved(node, to)
    assert (move["state"], move["tls"]) == ("rolled_back", "yes"), move
    assert running_on(GUEST) == [node.host]
    # What fails is TLS: without it, the same VM moves.
    node.reload("[actions]\ntls=no\n")
    assert dry_run(node, to)["tls"] == "no"
    move = moved(node, to)
    assert (move["state"], move["tls"]) == ("done", "no"), (move["cause"], move["steps"])
    node.reload("")
    for name in ("ca-cert.pem", "server-cert.pem", "server-key.pem"):
        shutil.copy(pki.at(to) / (name + ".good"), pki.at(to) / name)


def test_certificates_that_are_gone(movelab, pki):
    """auto then moves without TLS and warns: in the dry run, the move and doctor."""
    node, to = where(movelab)
    os.remove(pki.at(node.host) / "server-key.pem")
    why = f"QEMU's TLS certificates are missing on '{node.host}'"
    check = dry_run(node, to)
    assert (check["tls"], check["tls_warns"]) == ("no", True) and any(why in d for d in check["doubts"]), check
    assert why in " ".join(run(node, "doctor").stdout.split())
    move = moved(node, to)
    assert (move["state"], move["tls"], move["tls_warns"]) == ("done", "no", True), move["steps"]
    assert any(why in (s["answer"] or "") for s in move["steps"] if s["verb"] == "precheck")
