# SPDX-License-Identifier: Apache-2.0
"""GPU memory that vgpu-proxy keeps for programs that will come: only one gets the last of it, and it is free again once
they are there, or in time, or at a word."""
import os

import pytest
from opencl import Holder, Proxy, need_pocl
from unixhttp import wait_for

@pytest.fixture(autouse=True)
def _pocl(monkeypatch):
    need_pocl()
    monkeypatch.setenv("POCL_DEVICES", "basic")


@pytest.fixture(name="proxy")
def _proxy(tmp_path):
    with started(tmp_path) as proxy:
        yield proxy


def started(folder):
    proxy = Proxy(folder, f"--ask={folder}/a.sock.ask", sockets=("a.sock,vm=vm-a", "b.sock,vm=vm-b"))
    wait_for(lambda: os.path.exists(proxy.path + ".ask"))
    return proxy


def holder(proxy, n=0):
    """A program of the n-th socket that has buffers."""
    return Holder(proxy.environment(VGPU_OPENCL="proxy:" + proxy.sockets[n].split(",")[0]))


def free(proxy):
    """MiB that are neither used nor reserved."""
    told = wait_for(lambda: [t for t in [proxy.ask()] if t["devices"]])[0]
    return (told["devices"][0]["memory_bytes"] - sum(s["used_bytes"] + s["reserved_bytes"] for s in told["sockets"])) >> 20


def reserved(proxy, n=0):
    return proxy.ask()["sockets"][n]["reserved_bytes"] >> 20


def reserve(proxy, name, mib, n=0, seconds=600):
    return proxy.ask(f"reserve {name} {seconds} {mib} {proxy.sockets[n].split(',')[0]}")


def test_the_last(proxy):
    """One of two who ask gets it; who asks again for what he has is no other one."""
    with holder(proxy, 1) as other:
        other.hold(64)
        left = free(proxy)
        assert reserve(proxy, "first", left) == "ok"
        said = reserve(proxy, "second", 1, 1)
        assert said.startswith("refused ") and f"programs use 64 and {left} are reserved" in said, said
        assert reserve(proxy, "first", left) == "ok" and free(proxy) == 0
        assert reserve(proxy, "first", left + 1).startswith("refused ") and reserved(proxy) == left
        assert reserve(proxy, "first", left - 1) == "ok"
        assert reserve(proxy, "second", 1, 1) == "ok" and (reserved(proxy), reserved(proxy, 1)) == (left - 1, 1)
        assert proxy.ask("release first") == "ok" and free(proxy) == left - 1
        assert proxy.ask("release first") == "error not-found: there is no such reservation"
        other.hold()
        assert free(proxy) == left + 63


def test_it_comes(proxy):
    """What has come is not kept as well, and by its socket alone; a program that was there before is none that comes."""
    with holder(proxy) as before, holder(proxy, 1) as other:
        before.hold(1)
        other.hold(1)
        left = free(proxy)
        assert reserve(proxy, "it", 100) == "ok"
        before.hold(10)
        other.hold(10)
        assert reserved(proxy) == 100
        with holder(proxy) as there:
            there.hold(40)
            assert reserved(proxy) == 60 and free(proxy) == left - 120
            assert reserve(proxy, "it", 100) == "ok" and reserved(proxy) == 60
            there.hold(70)
            assert reserved(proxy) == 0 and free(proxy) == left - 130
            assert proxy.ask("release it") == "error not-found: there is no such reservation"
        wait_for(lambda: free(proxy) == left - 20)


def test_it_ends(tmp_path, proxy):
    """In time, and with the proxy."""
    left = free(proxy)
    assert reserve(proxy, "short", left, seconds=1) == "ok" and reserve(proxy, "other", 1).startswith("refused ")
    wait_for(lambda: reserve(proxy, "other", 1) == "ok")
    assert proxy.ask("release short") == "error not-found: there is no such reservation"
    assert reserve(proxy, "long", left - 1) == "ok"
    (tmp_path / "again").mkdir()
    with started(tmp_path / "again") as again:
        assert free(again) == left and reserve(again, "another", left) == "ok"
        assert again.ask("release long") == "error not-found: there is no such reservation"


@pytest.mark.parametrize("line", ["", " x", "x", "x 1", "x 0 1 {}", "x 1 0 {}", "x -1 1 {}", "x 1 -1 {}", "x 86401 1 {}",
                                  "x 1 4294967297 {}", "x 1 99999999999999999999 {}", "x 1 1", "x 1 1 ", "x 1 1 /nowhere",
                                  "x" * 64 + " 1 1 {}", "x  1 1 {}", "x 1  1 {}", "x 1 1  {}"])
def test_what_is_no_reservation(proxy, line):
    free(proxy)
    said = proxy.ask("reserve " + line.format(proxy.path))
    assert said.startswith("error "), said
    assert proxy.ask("release ") == "error not-found: there is no such reservation" and reserved(proxy) == 0


def test_too_many(proxy):
    free(proxy)
    said = [reserve(proxy, f"n{n}", 1, seconds=600) for n in range(65)]
    assert said == ["ok"] * 64 + ["error full: it has too many reservations"] and reserved(proxy) == 64
    assert reserve(proxy, "n3", 2) == "ok" and reserved(proxy) == 65


def test_a_memory_that_is_not_known(tmp_path, monkeypatch):
    monkeypatch.setenv("POCL_DEVICES", "basic basic")
    with started(tmp_path) as proxy:
        wait_for(lambda: proxy.ask()["devices"])
        said = reserve(proxy, "it", 1)
        assert said == "error unsupported: it serves several devices, and a program may use any of them", said
