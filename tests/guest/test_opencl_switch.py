# SPDX-License-Identifier: Apache-2.0
"""Programs of OpenCL go from proxy to proxy at random moments, as the agent tells them, while others use the same
proxies: the agent, the library, the proxies and PoCL are real."""
import contextlib
import os
import random
import re
import subprocess
import sys
import time

import pytest
from cached import CACHING_AGAIN, LOADED, cached
from certs import Authority
from guestd import LONG_MS, Agent, Connected, Guest
from opencl import FULL, SEED, Beside, Proxy, built, native, need, need_pocl, output, taken
from ports import free_ports
from test_opencl_agent import Program, connected, told
from unixhttp import wait_for


@pytest.fixture(autouse=True)
def _pocl():
    need_pocl()


@pytest.fixture(name="guest")
def a_guest(tmp_path):
    with Guest(tmp_path / "g") as guest:
        os.makedirs(guest.path("run"))
        guest.add_gpu()
        guest.node = guest.path("dev/none")
        yield guest


@contextlib.contextmanager
def four_proxies(tmp_path):
    """The places of two of one host, and of two that are reached as other hosts', by TCP and by TLS with a token; and what
    a program needs to come there."""
    token = tmp_path / "token"
    token.write_text("a token of the tests\n")
    authority = Authority(tmp_path / "ca")
    certificate, key = authority.issue("proxy", 'ip_address = "127.0.0.1"')
    ports = free_ports(2)
    sockets = (["a.sock"], ["b.sock"], [f"tcp:127.0.0.1:{ports[0]},token={token}", "c.sock"],
               [f"tls:127.0.0.1:{ports[1]},token={token}", "d.sock"])
    with contextlib.ExitStack() as stack:
        proxies = []
        for name, its in zip("abcd", sockets):
            os.makedirs(tmp_path / name)
            options = [f"--tls-certificate={certificate}", f"--tls-key={key}"] if name == "d" else []
            proxies.append(stack.enter_context(Proxy(tmp_path / name, "--allow-binaries", *options, sockets=its)))
        yield proxies, {"VGPU_OPENCL_TOKEN": str(token), "VGPU_OPENCL_CA": authority.certificate}


def test_at_random_moments(tmp_path, guest):
    """Results are equal, whoever else uses the proxies gets his, and nothing is left behind."""
    need("certtool")
    moves, chance, stops = 100 if FULL else 2, random.Random(SEED), []
    hammer = [built("tests/opencl/hammer"), "5", "4", "100"]
    calls = [built("tests/opencl/random-calls"), str(SEED), "200", "2"]
    with four_proxies(tmp_path) as (proxies, more), Agent(guest) as agent, agent.host() as host, \
            Program(guest, VGPU_OPENCL="proxy:" + proxies[0].path, **more) as one, \
            contextlib.ExitStack() as stack:
        places = ["proxy:" + proxy.path for proxy in proxies] + ["direct"]
        # Three that stay, and one that is moved as well.
        others = []
        if FULL:
            lines = output(hammer, native())
            others = [Beside(hammer, proxy.environment(**more), lines.__eq__) for proxy in proxies]
            others.append(Beside(calls, proxies[0].environment(VGPU_OPENCL_AGENT=one.reach.path, **more),
                                 output(calls[:3], native()).__eq__, [one.reach.dir]))
        for other in others:
            stack.enter_context(other)
        connected(agent, 1)
        place, before = "direct", None  # as it was started
        while len(stops) < moves:
            # By TLS, and then anywhere.
            place = places[3] if not stops else chance.choice([other for other in places if other != place])
            time.sleep(chance.random() * 0.1)
            done = host.ask("switch", deadline_ms=LONG_MS, opencl_at=place)
            # Others than this one may be stopped at no moment.
            if done["type"] == "error":
                assert done["undone"] and re.search("is mapped|the program is exiting", done["message"]), done
            its = told(done)[one.pid]
            assert its.get("at", "direct") == place, done
            stops.append(its["stop_ms"])
            before = before or (taken(one.pid) if len(stops) > moves // 3 else None)
        after = taken(one.pid)
        print(f"{moves} moves of 16 MiB beside {len(others)} others: stood still for {sorted(stops)[moves // 2]} ms, "
              f"{max(stops)} ms at most; threads, descriptors, MiB {before} -> {after}; "
              f"{[other.runs for other in others]} runs beside")
        assert after[0] <= before[0] + 1 and after[1] <= before[1] + 2 and after[2] < before[2] + 64
        assert one.end() == 0
        stack.close()
        assert not sum((other.wrong for other in others), []) and all(other.runs for other in others)
        wait_for(lambda: not sum((proxy.children() for proxy in proxies), []))


def test_a_program_of_a_cached_binary(tmp_path, guest):
    """It is not stopped for a proxy that does not accept its binary, and the host gets the reason."""
    key, path, proxies = f"--binary-key={tmp_path}/key", tmp_path / "cache", []
    with contextlib.ExitStack() as stack, Agent(guest) as agent, agent.host() as host:
        for name, options in (("a", [key]), ("b", [key]), ("c", [])):
            os.makedirs(tmp_path / name)
            proxies.append(stack.enter_context(Proxy(tmp_path / name, *options, sockets=["x.sock,vm=alpha"])))
        cached(path, proxies[0].environment())
        reach = Connected(guest)
        stack.callback(reach.close)
        argv = [sys.executable, "-c", CACHING_AGAIN, str(path), "-DADD=2"]
        with subprocess.Popen(argv, env=proxies[0].environment(VGPU_OPENCL_AGENT=reach.path), stdin=subprocess.PIPE,
                              stdout=subprocess.PIPE, text=True, pass_fds=[reach.dir]) as one:
            assert [one.stdout.readline().strip() for _ in LOADED] == LOADED
            connected(agent, 1)
            done = host.ask("switch", deadline_ms=LONG_MS, opencl_at=f"proxy:{proxies[2].path}")
            assert done["type"] == "error" and done["undone"] and "--binary-key" in done["message"], done
            assert "stop_ms" not in told(done)[one.pid], done
            done = host.ask("switch", deadline_ms=LONG_MS, opencl_at=f"proxy:{proxies[1].path}")
            assert done["type"] == "switched" and told(done)[one.pid]["at"] == f"proxy:{proxies[1].path}", done
            assert one.communicate("\n")[0] == "0x2468acf135a4\n"
