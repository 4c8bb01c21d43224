# SPDX-License-Identifier: Apache-2.0
"""Two hosts of the lab are upgraded from the previous version one after the other, and a VM with its GPU moves
there and back at each step, by peers that are configured and by a cluster."""
import previous
import pytest
from clusterlab import Cluster
from etcd import Etcd
from labhost import ENV
from movelab import MoveLab, has_gpu, remove_guest, running_on, start_guest
from patience import knows

pytestmark = [pytest.mark.xdist_group("lab"), pytest.mark.drawn("previous")]
GUEST = "pilgrim"
HOSTS = ("h1", "h2")


def moves(lab, asked, source, target):
    """libvirt of a host that is very busy may give up a connection: then the move turns back."""
    while True:
        ended = lab.nodes[source].ended(asked.move(GUEST, target, forward=True))
        if ended["state"] == "done":
            return
        assert ended["state"] == "rolled_back" and "was lost" in ended["cause"], (ended["cause"], ended["steps"])
        knows(lab, source, GUEST)


def there_and_back(lab):
    """Each host is the source once, asked for by itself, and once by the other one."""
    for ask_other in (False, True):
        for _ in HOSTS:
            [source] = running_on(GUEST)
            target = HOSTS[source == "h1"]
            knows(lab, source, GUEST)
            moves(lab, lab.nodes[target if ask_other else source], source, target)
            assert running_on(GUEST) == [target] and has_gpu(target, GUEST)
            assert lab.nodes[target].reservations() == []


def upgrade(lab, order, restart):
    start_guest("h1", GUEST)
    try:
        there_and_back(lab)
        for host in order:
            lab.nodes[host].daemon.stop()
            lab.nodes[host].binary = None
            restart(host)
            lab.meet()
            there_and_back(lab)
    finally:
        remove_guest(GUEST)
        lab.close()


@pytest.mark.parametrize("order", (HOSTS, HOSTS[::-1]))
def test_peers(host, tmp_path, order):
    lab = MoveLab(tmp_path, binary=previous.program("vgpud"))
    upgrade(lab, order, lab.start)


@pytest.mark.parametrize("order", (HOSTS, HOSTS[::-1]))
def test_a_cluster(host, tmp_path, order):
    old = previous.program("vgpud")
    with Etcd(tmp_path / "etcd", 1, f"{ENV['LAB_NET']}.254") as etcd:
        lab = Cluster(tmp_path, etcd, HOSTS, binary=old)
        upgrade(lab, order, lambda name: lab.nodes[name].start())
