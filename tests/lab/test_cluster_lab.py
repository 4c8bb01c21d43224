# SPDX-License-Identifier: Apache-2.0
"""vgpuds that know each other by etcd alone move VMs between real libvirt hosts: one vgpud moves a VM at a
time, whoever is told to, and an etcd that is away keeps new moves from beginning, and no others from
ending."""
import pytest
from clusterlab import Cluster, ends_and_none_begins, told_at_once
from draining import empties, tenants
from etcd import Etcd
from labhost import ENV
from movelab import has_gpu, remove_guest, running_on, start_guest
from settings import full
from unixhttp import wait_for

# One after the other: they share the directory of the lab.
pytestmark = pytest.mark.xdist_group("lab")
GUEST = "commuter"
HOSTS = ("h1", "h2")


@pytest.fixture(scope="module")
def cluster(host, tmp_path_factory):
    directory = tmp_path_factory.mktemp("cluster")
    with Etcd(directory / "etcd", 3 if full() else 1, f"{ENV['LAB_NET']}.254") as etcd:
        made = Cluster(directory, etcd, HOSTS)
        start_guest("h1", GUEST)
        yield made
        remove_guest(GUEST)
        made.close()


@pytest.fixture
def way(cluster):
    """The node that has the guest, and the other host."""
    [source] = running_on(GUEST)
    node = cluster.nodes[source]
    wait_for(lambda: node.daemon.request("GET", f"/v1/vms/{GUEST}")[0] == 200)
    cluster.meet()
    return node, next(h for h in HOSTS if h != source)


def uuid_of(node):
    return node.daemon.get(f"/v1/vms/{GUEST}")["uuid"]


@pytest.mark.drawn("lab-cluster")
def test_a_move_has_a_lock(cluster, way):
    """While the VM moves, its key says who moves it; then it is gone, and the VM can move back."""
    node, to = way
    uuid = uuid_of(node)
    for source, target in ((node, cluster.nodes[to]), (cluster.nodes[to], node)):
        wait_for(lambda: source.daemon.request("GET", f"/v1/vms/{GUEST}")[0] == 200)
        move = source.move(GUEST, target.host)
        assert cluster.locks() == {uuid: source.host}
        assert source.ended(move)["state"] == "done"
        wait_for(lambda: not cluster.locks())
        assert running_on(GUEST) == [target.host] and has_gpu(target.host, GUEST)


@pytest.mark.drawn("lab-cluster")
def test_another_host_moves_it(cluster, way):
    """A lock of somebody else keeps a move from beginning, and a move that has begun from going on: it
    turns back."""
    node, to = way
    key = "/vgpud/default/moves/" + uuid_of(node)
    cluster.etcd.put(key, '{"host":"h9"}')
    refused = node.move(GUEST, to, status=409)
    assert "host 'h9' of the cluster is already moving this VM" in refused["detail"]
    assert node.daemon.get("/v1/migrations?active=true")["items"] == []
    cluster.etcd.delete(key)
    move = node.move(GUEST, to)
    cluster.etcd.put(key, '{"host":"h9"}')
    ended = node.ended(move)
    # It may have been too late.
    if ended["state"] != "done":
        assert ended["state"] in ("failed", "rolled_back"), ended
        assert "host 'h9' of the cluster" in ended["cause"]
        assert running_on(GUEST) == [node.host] and has_gpu(node.host, GUEST)
    # What is not its own, a host does not remove.
    assert cluster.locks() == {uuid_of(cluster.nodes[running_on(GUEST)[0]]): "h9"}
    cluster.etcd.delete(key)


@pytest.mark.drawn("lab-cluster")
def test_two_are_told_at_once(cluster, way):
    """One move each time (a hundred times in full)."""
    for _ in range(100 if full() else 2):
        told_at_once(cluster, GUEST)


@pytest.mark.drawn("lab-cluster")
def test_etcd_is_away(cluster, way):
    """No move begins; one that runs ends, and its lock is given back once etcd answers again. A majority
    that is gone is no etcd."""
    node, to = way
    members = cluster.etcd.members[:len(cluster.etcd.members) // 2 + 1]
    back = cluster.nodes[to]
    move = node.move(GUEST, to)
    for member in members:
        member.pause()
    try:
        ends_and_none_begins(cluster, GUEST, move, node, to)
        assert set(cluster.states(back)) == set(HOSTS)
    finally:
        for member in members:
            member.go_on()
    wait_for(lambda: cluster.parts("ok"))
    wait_for(lambda: not cluster.locks())
    cluster.meet()
    assert back.ended(back.move(GUEST, node.host))["state"] == "done"


# For full runs.
@pytest.mark.drawn("lab-many")
def test_one_member_is_killed(cluster, way):
    """The leader of etcd, of three: what is under way is tried again, and nobody sees an error."""
    node, to = way
    if len(cluster.etcd.members) < 3:
        pytest.skip("etcd has three members in full runs only")
    led = cluster.etcd.leader()
    cluster.etcd.members[led].kill()
    try:
        assert node.ended(node.move(GUEST, to))["state"] == "done"
        assert running_on(GUEST) == [to]
    finally:
        cluster.etcd.members[led].start(cluster.etcd.cluster)
    wait_for(lambda: cluster.parts("ok"))



# ---- emptying a host ----

# Over peers alone, it is in other runs, too.
@pytest.mark.drawn("lab-many")
@pytest.mark.usefixtures("guest0")
def test_a_host_is_emptied(cluster):
    """Asked of the other vgpud; the host is in maintenance then, also for a vgpud that is started anew,
    until it is let go."""
    with tenants(cluster.nodes["h1"]) as kept:
        empties(cluster, kept)
