# SPDX-License-Identifier: Apache-2.0
"""vgpu-proxy --warm: a process keeps the vendors' libraries loaded, and what they cached for it is there for each client's
process, which cannot change it for others."""
import os
import signal

import pytest
from opencl import Holder, Proxy, built, need_pocl
from unixhttp import wait_for

KEEPER = "vgpu-proxy-keep"


@pytest.fixture(autouse=True)
def _pocl(monkeypatch):
    need_pocl()
    monkeypatch.setenv("POCL_DEVICES", "basic")


def started(folder, *options):
    return Proxy(folder, *options, vendor=built("tests/opencl/caching-vendor.so"))


def said(proxy):
    return [line.split("caching-vendor: ")[1] for line in proxy.log.read_text().splitlines() if "caching-vendor: " in line]


def keepers(proxy):
    with open(f"/proc/{proxy.process.pid}/task/{proxy.process.pid}/children", encoding="ascii") as file:
        return [int(pid) for pid in file.read().split() if proxy.name(int(pid)) == KEEPER]


def is_there(pid):
    """Whether it runs: one that nobody has waited for does not."""
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii") as file:
            return file.read().rsplit(")", 1)[1].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


def run_client(proxy):
    with Holder(proxy.environment()) as holder:
        holder.hold(1)


def wait_until_warm(proxy):
    """Clients that come before the keeper's files are complete compile. The number of those that have come."""
    def is_warm():
        run_client(proxy)
        return said(proxy)[-1] == "found"
    wait_for(lambda: said(proxy) == ["compiled"])
    wait_for(is_warm)
    return len(said(proxy))


def test_clients_find_what_the_keeper_cached(tmp_path):
    with started(tmp_path, "--warm") as proxy:
        came = wait_until_warm(proxy)
        [keeper] = keepers(proxy)
        for n in range(1, 4):
            run_client(proxy)
            # Each has spoilt its own copy.
            assert said(proxy)[came:] == ["found"] * n
        assert keepers(proxy) == [keeper]
    wait_for(lambda: not is_there(keeper))


def test_without_it_each_client_compiles(tmp_path):
    with started(tmp_path) as proxy:
        run_client(proxy)
        run_client(proxy)
        assert said(proxy) == ["compiled", "compiled"] and not keepers(proxy)


def test_a_keeper_that_ends(tmp_path):
    """Clients are served as before, with the files that it had."""
    with started(tmp_path, "--warm") as proxy:
        came = wait_until_warm(proxy)
        os.kill(keepers(proxy)[0], signal.SIGKILL)
        wait_for(lambda: "the proxy tries again in a minute" in proxy.log.read_text())
        run_client(proxy)
        assert said(proxy)[came:] == ["found"] and not keepers(proxy)


def test_a_proxy_that_is_killed_leaves_none(tmp_path):
    with started(tmp_path, "--warm") as proxy:
        wait_until_warm(proxy)
        [keeper] = keepers(proxy)
        proxy.process.kill()
        wait_for(lambda: not is_there(keeper))
        proxy.process.wait()
        proxy.process.returncode = 0  # for its end, which is none of its own
