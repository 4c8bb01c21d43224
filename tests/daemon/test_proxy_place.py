# SPDX-License-Identifier: Apache-2.0
"""vgpuctl proxy move VM --to GPU|HOST: at which proxy the programs would go on, and why, with real proxies and two
vgpuds. That they do is seen in tests/lab/test_proxy_lab.py."""
import json
import shutil

import pytest
from opencl import need_pocl
from proxysite import LOOPBACK, VM, Site
from vgpud import pause, wait_for

pytestmark = pytest.mark.skipif(not shutil.which("certtool"), reason="certtool (package gnutls-bin) is not installed")


@pytest.fixture(scope="module", name="site")
def _site(tmp_path_factory):
    need_pocl()
    with Site(tmp_path_factory.mktemp("place"), near_vms=(VM, "other"), far_vms=(VM,)) as site:
        yield site


def would(site, to):
    return json.loads(site.near.ctl("proxy", "move", VM, "--to", to, "--dry-run", "-o", "json"))


def test_gpus_and_hosts(site):
    """Each by its name; what is asked for by an address stays that."""
    names = {gpu: gpu.name() for gpu in (site.basic, site.pthread, site.there)}
    for gpu in site.basic, site.pthread:
        move = would(site, names[gpu])
        assert (move["to"], move["host"], move["gpu"], move["dry_run"]) == (f"proxy:{gpu.address[VM]}", "near", names[gpu], True)
        assert would(site, f"near/{names[gpu]}")["to"] == move["to"]
    for to in "far", f"far/{names[site.there]}", f"far/{names[site.there].upper()}":
        move = would(site, to)
        assert (move["to"], move["host"], move["gpu"]) == (f"proxy:{site.there.address[VM]}", "far", names[site.there])
        assert f"control socket {site.there.folder}/ask on host 'far'" in move["why"]
    said = site.near.ctl("proxy", "move", VM, "--to", "far", "--dry-run")
    assert f"would continue at proxy:{site.there.address[VM]} (the vgpu-proxy" in said, said
    assert would(site, "tcp:192.0.2.1:7000")["to"] == "proxy:tcp:192.0.2.1:7000"
    rows = json.loads(site.near.ctl("proxy", "list", "-o", "json"))
    assert {(r["gpu"], r["gpus"], r["address"]) for r in rows if r["vm"] == VM} == {
        (names[gpu], 1, gpu.address[VM]) for gpu in (site.basic, site.pthread)}
    assert all(r["address"] == "" for r in rows if r["vm"] == "nobody") and LOOPBACK in rows[0]["address"]


def test_what_is_not_clear(site):
    """Says what there is, and asks no guest."""
    def refused(to, code):
        return site.near.ctl("proxy", "move", VM, "--to", to, "--dry-run", code=code)
    name = site.basic.name()
    said = refused("0000:3b:00.0", 3)
    assert "neither a GPU that a vgpu-proxy on this host serves" in said and name in said, said
    assert "nor a host (near, far)" in said, said
    said = refused("near", 5)
    assert f"2 sockets for '{VM}'" in said and all(g.address[VM] in said for g in (site.basic, site.pthread)), said
    assert "no vgpu-proxy on host 'far' serves GPU 'H200'" in refused("far/H200", 3)
    assert "there is no host 'nowhere'" in refused(f"nowhere/{name}", 3)
    assert "this host's libvirt has no VM 'other'" in site.near.ctl("proxy", "move", "other", "--to", "far", code=3)
    # The test driver's VM has no guest that could be asked.
    assert "has no channel org.vgpud.guest.0" in site.near.ctl("proxy", "move", VM, "--to", "far", code=3)


def test_a_host_that_does_not_answer(site):
    pause(site.far.daemon.process.pid)
    try:
        said = site.near.ctl("proxy", "move", VM, "--to", "far", "--dry-run", code=6)
        assert "cannot query the proxies of host 'far': peer 'far'" in said, said
    finally:
        site.far.daemon.process.send_signal(18)
    wait_for(lambda: would(site, "far"))
