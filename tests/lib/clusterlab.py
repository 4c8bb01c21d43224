# SPDX-License-Identifier: Apache-2.0
"""Hosts of tests/lab/lab.sh, whose vgpuds know each other by etcd alone."""
import json
from concurrent.futures import ThreadPoolExecutor

from certs import Authority
from movelab import PORT, Node, address, has_gpu, running_on
from unixhttp import wait_for


class Cluster:
    def __init__(self, directory, etcd, hosts, more="", binary=None, own=None):
        """own: what is only in the configuration of a host."""
        authority = Authority(directory / "ca")
        self.etcd = etcd
        self.nodes = {host: Node(host, directory / host, authority) for host in hosts}
        for host, node in self.nodes.items():
            node.binary = binary
            node.more = (
                f"[api]\ntls_client_ca={authority.certificate}\n[role operator]\n"
                f"subject={';'.join('CN=' + h for h in hosts)}\n"
                f"[cluster]\netcd={etcd.endpoints}\nurl=https://{address(host)}:{PORT}\n"
                f"cert={node.pem}\nkey={node.key}\ncacert={authority.certificate}\nlease=5s\npoll=1s\n"
                f"libvirt_uri=qemu+tcp://{host}/system\n{more}{(own or {}).get(host, '')}")
            node.start()
        self.know()
        self.meet()

    def know(self):
        """Until each sees all of them in etcd."""
        wait_for(lambda: all(self.states(n) == {h: "alive" for h in self.nodes} for n in self.nodes.values()))

    @staticmethod
    def states(node):
        return {h["name"]: h["state"] for h in node.daemon.get("/v1/hosts")["items"]}

    def meet(self):
        others = len(self.nodes) - 1
        wait_for(lambda: all([p["state"] for p in n.daemon.get("/v1/peers")["items"]] == ["reachable"] * others
                             for n in self.nodes.values()))

    def has(self, guest):
        """The host on which it runs, once the vgpud there has seen it and nobody holds its lock."""
        [source] = running_on(guest)
        wait_for(lambda: self.nodes[source].daemon.request("GET", f"/v1/vms/{guest}")[0] == 200)
        wait_for(lambda: not self.locks())
        return source

    def locks(self):
        return {key.rsplit("/", 1)[1]: json.loads(value)["host"]
                for key, (value, _) in self.etcd.pairs("/vgpud/default/moves/").items()}

    def parts(self, state):
        return all(n.daemon.part("etcd")["state"] == state for n in self.nodes.values())

    def close(self):
        for node in self.nodes.values():
            node.daemon.stop()


def told_at_once(cluster, guest):
    """All vgpuds are told at the same instant to move the VM to where it is not: one move comes of it."""
    source = cluster.has(guest)
    hosts = list(cluster.nodes)
    to = hosts[(hosts.index(source) + 1) % len(hosts)]
    cluster.meet()
    body = {"vm": guest, "to": to, "forward": True}
    with ThreadPoolExecutor(len(hosts)) as pool:
        answers = list(pool.map(lambda n: n.daemon.post("/v1/migrations", body), cluster.nodes.values()))
    begun = [answer for status, _, answer in answers if status == 201]
    assert len(begun) == 1, answers
    assert sorted(status for status, _, _ in answers) == [201] + [409] * (len(hosts) - 1), answers
    assert cluster.nodes[source].ended(begun[0])["state"] == "done"
    assert running_on(guest) == [to] and has_gpu(to, guest)


def ends_and_none_begins(cluster, guest, move, node, to):
    """Etcd has gone while the node moved the VM: that move ends, and no other one begins."""
    assert node.ended(move)["state"] == "done"
    assert running_on(guest) == [to]
    wait_for(lambda: cluster.parts("degraded"))
    back = cluster.nodes[to]
    wait_for(lambda: back.daemon.request("GET", f"/v1/vms/{guest}")[0] == 200)
    status, _, answer = back.daemon.post("/v1/migrations", {"vm": guest, "to": node.host})
    assert status in (502, 503, 504) and "no move starts" in answer["detail"], answer
