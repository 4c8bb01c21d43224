# SPDX-License-Identifier: Apache-2.0
"""GPU memory of a proxy for programs that will come is kept at the proxy, whichever vgpud asks for it: with real proxies
on PoCL, and vgpuds that know of one or another of them."""
import contextlib
import json
import os
import re
import shutil
import socket
import threading
import time

import pytest
from opencl import Holder, need_pocl
from proxysite import UUID, VM, Gpu, Host, Site
from vgpud import wait_for

pytestmark = pytest.mark.skipif(not shutil.which("certtool"), reason="certtool (package gnutls-bin) is not installed")

MIB = 1 << 20


@pytest.fixture(scope="module", name="site")
def _site(tmp_path_factory):
    need_pocl()
    with Site(tmp_path_factory.mktemp("room"), near_vms=(VM, "other")) as site:
        yield site


@pytest.fixture(name="its")
def _its(site):
    """A program of the VM's, at the first GPU of its host, that has 8 MiB."""
    environment = site.basic.proxy.environment(VGPU_OPENCL=f"proxy:{site.basic.address[VM]}",
                                               VGPU_OPENCL_TOKEN=str(site.basic.token))
    with Holder(environment) as holder:
        holder.hold(8)
        yield holder


def free(gpu):
    told = wait_for(lambda: [t for t in [gpu.ask()] if t["devices"]])[0]
    return (told["devices"][0]["memory_bytes"] - sum(s["used_bytes"] + s["reserved_bytes"] for s in told["sockets"])) // MIB


def reserve(host, gpu, name, mib, vm=VM):
    status, _, answer = host.daemon.post("/v1/proxies/reservations", {"id": name, "socket": gpu.address[vm], "seconds": 600,
                                                                      "memory_bytes": mib * MIB})
    return status, answer.get("detail", "")


def tells(host, address):
    """Whether it tells its peers of a socket there. Their snapshots are not asked for as one, which leaves out hosts that
    see the same VM: all see those of other tests."""
    return address in [s.get("address") for h in host.daemon.get("/v1/snapshot").get("hosts", [])
                       for p in h.get("proxies", []) for s in p["sockets"]]


def test_an_address_of_two_hosts(tmp_path, site, its):
    """Which of them is meant is not known: neither is asked, and the programs go there all the same."""
    del its
    address = site.there.address[VM]
    twin = Host(tmp_path / "twin", "twin", site.near.authority, [site.there])
    with twin.daemon:
        host = Host(tmp_path / "host", "host", site.near.authority, [site.basic],
                    twin.peer().split("[peers]", maxsplit=1)[0] + site.far.peer(), "use=yes\nuri=test:///default")
        with host.daemon as daemon:
            wait_for(lambda: tells(twin, address) and tells(site.far, address), pause=0.1)
            asked = time.time_ns()
            wait_for(lambda: [p for p in daemon.get("/v1/peers")["items"] if p["answered_ns"] > asked + 10**9][1:], pause=0.1)
            wait_for(lambda: daemon.post(f"/v1/vms/{UUID}/proxy/move", {"to": "direct", "dry_run": True})[0] == 200)
            assert "has no channel" in host.ctl("proxy", "move", VM, "--to", address, code=3)
            [said] = [line for line in daemon.log().splitlines() if "cannot reserve GPU memory" in line]
            assert f"at proxy:{address} for programs" in said and re.search("peers '(far|twin)' and '(far|twin)' both have", said), said


def release(daemon, name):
    return daemon.request("DELETE", f"/v1/proxies/reservations/{name}")[0]


def test_two_vgpuds_and_an_operator(tmp_path, site):
    """One of them gets the last MiB, until it is released."""
    with Host(tmp_path / "second", "second", site.near.authority, [site.basic]).daemon as daemon:
        second = type("Second", (), {"daemon": daemon})
        left = free(site.basic)
        assert reserve(site.near, site.basic, "first", left - 1)[0] == 200
        assert reserve(second, site.basic, "second", 1)[0] == 200
        for host in site.near, second:
            status, said = reserve(host, site.basic, "third", 1, "other")
            assert status == 409 and f"and {left} are reserved for programs that will arrive, so 1 more do not fit" in said, said
        assert site.basic.ask(f"reserve operator 60 1 {site.basic.address[VM]}").startswith("refused ")
        assert reserve(site.near, site.pthread, "elsewhere", 1)[0] == 200 and reserve(second, site.pthread, "none", 1)[0] == 404
        for host, name in (second, "first"), (site.near, "second"), (site.near, "elsewhere"):
            assert release(host.daemon, name) == 204
            assert release(host.daemon, name) == 404
        assert free(site.basic) == left


@pytest.mark.parametrize("where", ["here", "there"])
def test_a_move(site, its, where):
    """What its programs have is kept before the guest is asked, which the test driver's VM has none of; and is kept no
    longer when the move has failed."""
    del its
    gpu, to = (site.pthread, "near/" + site.pthread.name()) if where == "here" else (site.there, "far")
    left = free(gpu)
    assert gpu.ask(f"reserve operator 600 {left - 7} {gpu.address[VM]}") == "ok"
    # Once the other vgpud has told of the proxy.
    wait_for(lambda: site.near.daemon.post(f"/v1/vms/{UUID}/proxy/move", {"to": to})[0] == 409)
    said = site.near.ctl("proxy", "move", VM, "--to", to, code=5)
    assert f"has too little GPU memory for programs in '{VM}'" in said and f"{left - 7} are reserved for programs that will arrive" in said, said
    assert "8 more do not fit" in said and free(gpu) == 7
    assert gpu.ask(f"reserve operator 600 {left - 8} {gpu.address[VM]}") == "ok"
    assert "has no channel" in site.near.ctl("proxy", "move", VM, "--to", to, code=3)
    assert free(gpu) == 8 and gpu.ask("release operator") == "ok" and free(gpu) == left


class Older:
    """Where a proxy that keeps nothing is asked. pid: that it tells, if it is not that of the real one."""

    def __init__(self, folder, gpu, pid=None):
        os.makedirs(folder)
        self.folder, self.gpu, self.pid, self.asked = folder, gpu, pid, []
        self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.listener.bind(f"{folder}/ask")
        self.listener.listen()
        threading.Thread(target=self.run, daemon=True).start()

    def run(self):
        while True:
            connection, _ = self.listener.accept()
            threading.Thread(target=self.serve, args=(connection,), daemon=True).start()

    def serve(self, connection):
        with connection, socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as real, contextlib.suppress(ConnectionError):
            real.connect(f"{self.gpu.folder}/ask")
            while line := connection.recv(512):
                if line.split()[0] in (b"reserve", b"release"):
                    self.asked.append(line.decode())
                    connection.send(b"error it is asked by 'list', 'show SOCKET' and 'weight NUMBER SOCKET'")
                    continue
                real.send(line)
                answer, fds, _, _ = socket.recv_fds(real, 256, 1)
                if self.pid and fds:
                    text = os.pread(fds[0], 1 << 20, 0)
                    os.close(fds[0])
                    fds = [os.memfd_create("answer")]
                    os.write(fds[0], json.dumps({**json.loads(text), "pid": self.pid}).encode())
                socket.send_fds(connection, [answer], fds)
                for fd in fds:
                    os.close(fd)


def test_an_older_proxy(tmp_path, site, its):
    """The programs go there all the same, and it is said once."""
    del its
    older = Older(tmp_path / "older", site.pthread)
    host = Host(tmp_path / "host", "host", site.near.authority, [site.basic, older], "", "use=yes\nuri=test:///default")
    with host.daemon:
        wait_for(lambda: host.daemon.post(f"/v1/vms/{UUID}/proxy/move", {"to": "direct", "dry_run": True})[0] == 200)
        for _ in range(2):
            assert "has no channel" in host.ctl("proxy", "move", VM, "--to", site.pthread.name(), code=3)
        assert [line.split()[0] for line in older.asked] == ["reserve"] * 2
        assert host.daemon.log().count("cannot reserve GPU memory at proxy:") == 1
        assert reserve(host, site.pthread, "one", 1)[0] == 422


@pytest.mark.parametrize("pid", [1, None])
def test_two_that_have_a_socket(tmp_path, site, pid):
    """Neither is asked, but where that is one proxy, known by two paths."""
    with Host(tmp_path / "host", "host", site.near.authority, [site.basic, Older(tmp_path / "again", site.basic, pid)]).daemon as daemon:
        status, said = reserve(type("Two", (), {"daemon": daemon}), site.basic, "one", 1)
        assert status == (422 if pid else 200)
        assert not pid or f"two vgpu-proxies on this host have the socket '{site.basic.address[VM]}': those with the control sockets " in said
        assert site.basic.told()["reserved_bytes"] == (0 if pid else MIB) and release(daemon, "one") == (404 if pid else 204)


def test_a_proxy_that_begins_anew(tmp_path, site):
    """What it was to keep is forgotten, and is nobody's mistake."""
    with contextlib.ExitStack() as stack:
        gpu = Gpu(stack, tmp_path / "gpu", "basic")
        with Host(tmp_path / "host", "host", site.near.authority, [gpu]).daemon as daemon:
            host = type("Host", (), {"daemon": daemon})
            left = free(gpu)
            assert reserve(host, gpu, "first", left)[0] == 200 and reserve(host, gpu, "second", 1)[0] == 409
            stack.close()
            assert reserve(host, gpu, "second", 1)[0] == 404
            again = Gpu(stack, tmp_path / "again", "basic")
            os.symlink(f"{again.folder}/ask", f"{gpu.folder}/ask")
            assert reserve(host, again, "second", free(again))[0] == 200 and reserve(host, again, "third", 1)[0] == 409
            assert release(daemon, "first") == 404
