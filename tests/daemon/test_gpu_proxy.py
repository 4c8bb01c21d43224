# SPDX-License-Identifier: Apache-2.0
"""What programs of VMs do by vgpu-proxy, as vgpud tells it: the proxy and PoCL are real, the VMs are processes that
look like some."""
import contextlib
import os
import re
import signal
import subprocess
import time

import dashboard
import pytest
import vgpuctl
from opencl import Proxy, need_pocl
from settings import HANG_S
from vgpud import BusyVm, Daemon, wait_for

STEPS = 200000
# vgpud sees the VMs of other tests as well.
ALPHA, BETA = f"alpha-{os.getpid()}", f"beta-{os.getpid()}"


@pytest.fixture(name="proxy")
def a_proxy(tmp_path):
    need_pocl()
    path = tmp_path / "proxy"
    path.mkdir()
    with Proxy(path, f"--ask={path}/a.ask", sockets=(f"a,vm={ALPHA}", f"b,vm={BETA},weight=3", "c,vm=nobody")) as proxy:
        yield proxy


def daemon_of(tmp_path, proxy):
    config = f"[daemon]\nwindow=200ms\n[gpu]\nnvml=no\nfdinfo=no\ntracepoints=no\nproxies={proxy.path}.ask\n"
    return Daemon(tmp_path, config=config)


def gpu_of(daemon, vm):
    """The figures of its requests in the newest window, or {}."""
    known = next((v for v in daemon.get("/v1/vms")["items"] if v["uuid"] == vm.uuid), None)
    newest = known and daemon.get(f"/v1/vms/{known['id']}")["newest"]
    return next((gpu for gpu in newest["gpu"] if gpu["engine"] == "opencl"), {}) if newest else {}


def busy_s(daemon, name):
    """Seconds of the VM's requests that vgpud has told of since it began."""
    lines = daemon.request("GET", "/metrics")[2].decode().splitlines()
    return sum(float(line.rsplit(" ", 1)[1]) for line in lines
               if line.startswith("vgpud_vm_gpu_busy_seconds_total{") and f'vm="{name}"' in line)


@contextlib.contextmanager
def backlogged(proxy, *sockets):
    programs = [proxy.backlogged(STEPS, number) for number in sockets]
    try:
        yield
    finally:
        for program in programs:
            program.kill()
            program.wait()
            for pipe in program.stdin, program.stdout, program.stderr:
                pipe.close()


def told_of_both(proxy, daemon, *vms):
    """Waits until the newest windows have all that a proxy tells of two programs."""
    for vm in vms:
        wait_for(lambda v=vm: (g := gpu_of(daemon, v)).get("requests", 0) > 0 and g["exec_ns"] > 0 and
                 g["wait_ns"] > 0 and g["mem_bytes"] > 0 and g["queue_len_avg"] > 0 and
                 0 < g["latency_p50_ns"] <= g["latency_p99_ns"] <= g["latency_max_ns"])
    assert gpu_of(daemon, vms[0])["device"] == proxy.ask()["sockets"][0]["device"] != ""


def both_read(daemon):
    wait_for(lambda: "2 VMs with a socket of vgpu-proxy; no VM here matches 'nobody'" in
             (daemon.part("collector:gpu")["reason"] or ""))


def test_the_dashboard_finds_proxies(tmp_path, proxy):
    """Each of its queries that is about GPUs has samples, with the labels that it wants."""
    with BusyVm(name=ALPHA), BusyVm(name=BETA), daemon_of(tmp_path, proxy) as daemon:
        both_read(daemon)
        with backlogged(proxy, 0, 1):
            wait_for(lambda: not dashboard.missing(daemon.request("GET", "/metrics")[2].decode(), "(gpu|proxy)_"))
        daemon.stop()


def totals(proxy, daemon):
    """Seconds of alpha, seconds of beta: by the proxy, by vgpud."""
    told = proxy.ask()["sockets"]
    return [told[0]["run_ns"] / 1e9, told[1]["run_ns"] / 1e9, busy_s(daemon, ALPHA), busy_s(daemon, BETA)]


def test_what_vms_do_by_a_proxy(tmp_path, proxy):
    """Never more than the proxy counted."""
    with BusyVm(name=ALPHA) as alpha, BusyVm(name=BETA) as beta, daemon_of(tmp_path, proxy) as daemon:
        both_read(daemon)
        with backlogged(proxy, 0, 1):
            told_of_both(proxy, daemon, alpha, beta)
        wait_for(lambda: not proxy.children())
        *ran, alpha_s, beta_s = totals(proxy, daemon)
        assert 0 < alpha_s <= ran[0] and 0 < beta_s <= ran[1]
        for socket in proxy.ask()["sockets"][:2]:
            took = socket["took"]
            # A client's process may end before it has said that the last one is done.
            assert 0 <= sum(t["commands"] for t in took) - socket["done"] <= 1
            assert sum(t["ns"] * t["commands"] for t in took) == pytest.approx(
                socket["wait_ns"] + socket["run_ns"], rel=0.017)
        with BusyVm(name=ALPHA):
            wait_for(lambda: f"1 VM with a socket of vgpu-proxy; several VMs here match '{ALPHA}'" in
                     (daemon.part("collector:gpu")["reason"] or ""))
        daemon.stop()


# What comes more than 4 s too late on a busy machine is not told, but counted.
@pytest.mark.host
def test_what_vms_do_agrees(tmp_path, proxy):
    with BusyVm(name=ALPHA) as alpha, BusyVm(name=BETA) as beta, daemon_of(tmp_path, proxy) as daemon:
        both_read(daemon)

        def agrees():
            before = totals(proxy, daemon)
            with backlogged(proxy, 0, 1):
                told_of_both(proxy, daemon, alpha, beta)
                time.sleep(1)
            wait_for(lambda: not proxy.children())
            time.sleep(1)
            took = [after - begin for after, begin in zip(totals(proxy, daemon), before)]
            return all(abs(took[n] - took[n + 2]) <= 0.01 * took[n] for n in (0, 1)) and min(took) > 0
        wait_for(agrees)
        daemon.stop()


# It stands still for less than windows wait for the use of GPUs.
@pytest.mark.host
def test_nothing_is_lost_while_vgpud_stands_still(tmp_path, proxy):
    """What VMs did meanwhile is in the next windows, which say nothing was missed."""
    with BusyVm(name=ALPHA) as alpha, BusyVm(name=BETA) as beta, daemon_of(tmp_path, proxy) as daemon:
        both_read(daemon)

        def agrees():
            before, missed = totals(proxy, daemon), daemon.get("/v1/host")["measurement"]["missed"]
            with backlogged(proxy, 0, 1):
                told_of_both(proxy, daemon, alpha, beta)
                daemon.process.send_signal(signal.SIGSTOP)
                time.sleep(1.5)
                daemon.process.send_signal(signal.SIGCONT)
                time.sleep(0.5)
            wait_for(lambda: not proxy.children())
            time.sleep(1)
            took = [after - begin for after, begin in zip(totals(proxy, daemon), before)]
            return all(abs(took[n] - took[n + 2]) <= 0.01 * took[n] for n in (0, 1)) and min(took) > 0 and \
                daemon.get("/v1/host")["measurement"]["missed"] == missed
        wait_for(agrees)
        daemon.stop()


def test_vgpuctl(tmp_path, proxy):
    with BusyVm(name=ALPHA) as alpha, daemon_of(tmp_path, proxy) as daemon:
        def ask(*argv):
            done = subprocess.run([vgpuctl.program(), "proxy", *argv, "--socket", daemon.socket], capture_output=True,
                                  text=True, check=False, timeout=HANG_S)
            return done.returncode, done.stdout + done.stderr
        wait_for(lambda: gpu_of(daemon, alpha) is not None and daemon.get("/v1/vms")["items"])
        assert [s["weight"] for s in daemon.get("/v1/proxies")["items"]] == [1, 3, 1]
        code, text = ask("limit", ALPHA, "--weight", "7")
        assert code == 0 and re.search(rf"^{ALPHA} +7 ", text, re.M), text
        assert [s["weight"] for s in proxy.ask()["sockets"]] == [7, 3, 1]
        code, text = ask("list")
        assert code == 0 and len(text.splitlines()) == 4 and re.search(r"^nobody +1 ", text, re.M), text
        code, text = ask("limit", "gamma", "--weight", "7")
        assert code == 3 and "no vgpu-proxy on this host has a socket for 'gamma'" in text, (code, text)
        for bad in ("limit", ALPHA), ("limit", ALPHA, "--weight", "0"), ("list", "--weight", "2"), ("show",):
            assert ask(*bad)[0] == 2, bad
        daemon.stop()


def test_weights_change(proxy):
    assert proxy.ask(f"weight 5 {proxy.sockets[0].split(',')[0]}") == "ok"
    assert proxy.ask()["sockets"][0]["weight"] == 5
    assert proxy.ask("weight 5 nowhere") == "error not-found: there is no such socket"
    for bad in f"weight 0 {proxy.path}", f"weight 1001 {proxy.path}", f"weight x {proxy.path}", f"weight 5{proxy.path}":
        assert proxy.ask(bad) == "error invalid: a weight must be a number from 1 to 1000"
    assert "commands are" in proxy.ask("who are you")


# A proxy has 3 s to answer.
@pytest.mark.host
def test_a_proxy_that_hangs_or_comes_late(tmp_path, proxy):
    """A window has what there is; a proxy that is there again counts from then on."""
    with BusyVm(name=ALPHA), daemon_of(tmp_path, proxy) as daemon:
        def reason():
            return daemon.part("collector:gpu")["reason"] or ""
        wait_for(lambda: "1 VM with a socket of vgpu-proxy" in reason())
        proxy.process.send_signal(signal.SIGSTOP)
        try:
            wait_for(lambda: "it does not answer" in reason())
            assert daemon.part("collector:gpu")["state"] == "degraded"
        finally:
            proxy.process.send_signal(signal.SIGCONT)
        wait_for(lambda: "it does not answer" not in reason() and "1 VM with a socket" in reason())
        daemon.stop()
