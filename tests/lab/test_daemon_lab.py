# SPDX-License-Identifier: Apache-2.0
"""vgpud in a host with a real libvirtd and a real QEMU (tests/lab/lab.sh)."""
import json
import subprocess

import pytest
import vgpuctl
from labdaemon import LabDaemon
from labhost import inside, lab, set_instances, vcpu_threads
from settings import HANG_S
from vgpud import Events, wait_for

# One after the other: they share the directory of the lab.
pytestmark = [pytest.mark.xdist_group("lab"), pytest.mark.drawn("lab"), pytest.mark.usefixtures("guest0")]
GUEST = "guest0"
CONFIG = """[daemon]
window=500ms
thread_limit=5s
[libvirt]
use=yes
poll=1s
[live]
use=yes
"""


@pytest.fixture(scope="module")
def daemon(host, tmp_path_factory):
    with LabDaemon(tmp_path_factory.mktemp("vgpud"), config=CONFIG) as running:
        yield running
        running.stop()


def ready(daemon):
    return wait_for(lambda: daemon.request("GET", "/readyz")[0] == 200)


def windows(daemon):
    return daemon.get("/v1/host")["measurement"]["windows"]


def vgpuctl_json(daemon, *args):
    done = subprocess.run([vgpuctl.program(), *args, "--socket", daemon.socket, "-o", "json"],
                          capture_output=True, text=True, timeout=HANG_S)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def told(events, matches):
    """The first of the next events that matches; the connection's time limit ends the wait."""
    data = events.next()[2]
    while not matches(data):
        data = events.next()[2]
    return data


def collector(state, why):
    return lambda data: data["part"] == "collector:libvirt" and data["state"] == state and \
        why in (data["reason"] or "")


def guest_of(daemon):
    vms = [vm for vm in daemon.get("/v1/vms")["items"] if vm["name"] == GUEST]
    return vms[0] if vms else None


def measuring_goes_on(daemon):
    before, figures = windows(daemon), guest_of(daemon)
    wait_for(lambda: windows(daemon) >= before + 3)
    assert guest_of(daemon)["observed_ns"] > figures["observed_ns"]


def libvirt_fails(daemon, *words):
    """Fails, in the end for a reason with all these words: first the connection is only closed."""
    def failed():
        part = daemon.part("collector:libvirt")
        return part["state"] == "failed" and all(w in part["reason"] for w in words) and part

    assert not wait_for(failed)["ready"]
    assert daemon.request("GET", "/readyz")[0] == 503


def test_the_guest_is_shown_and_its_figures_grow(daemon):
    ready(daemon)
    uuid = inside(f"virsh -q domuuid {GUEST}").strip()
    pid = int(inside(f"cat /run/libvirt/qemu/{GUEST}.pid"))
    wait_for(lambda: (vm := guest_of(daemon)) and vm["state"] == "running" and vm["run_ns"] > 0)
    vm = daemon.get(f"/v1/vms/{uuid}")
    assert (vm["name"], vm["uuid"], vm["pid"], vm["state"]) == (GUEST, uuid, pid, "running")
    threads = vcpu_threads(pid)
    assert threads and {t["index"]: t["tid"] for t in vm["domain"]["threads"]} == threads
    assert sorted(vcpu["tid"] for vcpu in vm["vcpus"]) == sorted(threads.values())
    assert vm["domain"]["memory_bytes"] == 160 << 20
    later = wait_for(lambda: (v := daemon.get(f"/v1/vms/{uuid}"))["run_ns"] > vm["run_ns"] and v)
    assert later["observed_ns"] > vm["observed_ns"]
    # Both programs, as somebody on the host would.
    shown = vgpuctl_json(daemon, "vm", "show", GUEST)
    assert (shown["uuid"], shown["pid"], shown["state"]) == (uuid, pid, "running")
    assert GUEST in inside(f"{vgpuctl.program()} vm list --socket {daemon.socket}")


def test_the_gpus_are_listed(daemon):
    ready(daemon)
    host = daemon.get("/v1/host")
    assert host["uuid"] == "00000000-0000-4000-8000-000000000001"
    assert host["libvirt_uri"] == "qemu:///system"
    assert host["hypervisor"].startswith("QEMU ")
    assert [gpu["device"] for gpu in host["gpus"]] == ["0000:41:00.0", "0000:42:00.0"]
    for gpu in host["gpus"]:
        types = [(t["type"], t["name"], t["available"]) for t in gpu["mdev_types"]]
        assert types == [("nvidia-230", "GRID T4-1Q", 16), ("nvidia-231", "GRID T4-2Q", 8)]
    # Somebody takes instances, and gives them back.
    for n in (5, 16):
        set_instances(n)
        wait_for(lambda: daemon.get("/v1/host")["gpus"][1]["mdev_types"][0]["available"] == n)


def test_libvirtd_dies_and_comes_back(daemon, host):
    ready(daemon)
    events = Events(daemon, "?types=collector")
    lab("daemon", host, "kill")
    try:
        told(events, collector("failed", "qemu:///system"))
        libvirt_fails(daemon, "qemu:///system", "virtqemud running")
        measuring_goes_on(daemon)
    finally:
        lab("daemon", host, "start")
    told(events, collector("ok", "connected to qemu:///system"))
    events.close()
    ready(daemon)
    wait_for(lambda: guest_of(daemon)["state"] == "running")


def test_libvirtd_hangs_and_goes_on(daemon, host):
    ready(daemon)
    events = Events(daemon, "?types=collector")
    lab("daemon", host, "hang")
    try:
        told(events, collector("failed", "is unresponsive"))
        libvirt_fails(daemon, "is unresponsive", "col-libvirt")
        assert daemon.request("GET", "/healthz")[0] == 200
        measuring_goes_on(daemon)
    finally:
        lab("daemon", host, "resume")
    told(events, collector("ok", ""))
    events.close()
    ready(daemon)


def test_a_destroyed_guest_is_gone(daemon, host):
    ready(daemon)
    uuid = guest_of(daemon)["uuid"]
    events = Events(daemon, "?types=vm")
    lab("virsh", host, "-q", "destroy", GUEST)
    ours = []
    while {"gone", "stopped: destroyed"} - {event["what"] for event in ours}:
        ours.append(told(events, lambda data: data["uuid"] == uuid))
    events.close()
    assert {(event["what"], event["source"]) for event in ours} >= \
        {("gone", "collector"), ("stopped: destroyed", "libvirt")}
    # libvirt still has it, switched off; nothing of it is measured.
    wait_for(lambda: guest_of(daemon) is None)
    assert daemon.get(f"/v1/vms/{uuid}/samples?step=raw&since=-10min")["items"]
    lab("virsh", host, "-q", "start", GUEST)
    wait_for(lambda: guest_of(daemon))
