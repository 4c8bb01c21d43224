# SPDX-License-Identifier: Apache-2.0
"""The collectors in a host with a real libvirtd and a real QEMU (tests/lab/lab.sh)."""
import json
import queue
import subprocess
import threading
import time

import pytest
from labhost import DUMP, ENV, LAB, inside, lab, set_instances, vcpu_threads
from settings import HANG_S

# One after the other: they share the directory of the lab.
pytestmark = [pytest.mark.xdist_group("lab"), pytest.mark.drawn("lab"), pytest.mark.usefixtures("guest0")]


class Dump:
    """collector-dump inside of the host, and what it has printed."""

    def __init__(self, *args):
        self.process = subprocess.Popen(
            ["bash", LAB, "exec", "h1", DUMP, *args], env=ENV,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.reports = queue.Queue()
        self.thread = threading.Thread(target=self.read)
        self.thread.start()

    def read(self):
        for line in self.process.stdout:
            self.reports.put(json.loads(line))

    def wait(self, what, matches):
        until, seen = time.monotonic() + HANG_S, []
        while time.monotonic() < until:
            try:
                report = self.reports.get(timeout=max(until - time.monotonic(), 0.01))
            except queue.Empty:
                break
            if matches(report):
                return report
            seen.append(report if report["kind"] != "window" else report["kind"])
        raise AssertionError(f"{what} did not come; these did: {seen[-10:]}")

    def state(self, state):
        return self.wait(f"state {state}",
                         lambda r: r["kind"] == "status" and r["state"] == state)

    def inventory(self, what, matches=lambda inventory: True):
        report = self.wait(what, lambda r: r["kind"] == "inventory" and matches(r["inventory"]))
        return report["inventory"]

    def lifecycle(self, text):
        return self.wait(text, lambda r: r["kind"] == "lifecycle" and r["text"] == text)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        try:
            status = self.process.wait(timeout=HANG_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            status = None
        self.thread.join()
        self.process.stdout.close()
        assert status == 0


def guest_of(inventory):
    vms = [vm for vm in inventory["vms"] if vm["name"] == "guest0"]
    return vms[0] if vms else None


def guest_is(state):
    return lambda inventory: (guest_of(inventory) or {}).get("state") == state


def test_inventory(host):
    with Dump("libvirt", "qemu:///system") as dump:
        text = dump.state("ok")["text"]
        assert "1 domain, 2 GPUs" in text
        inventory = dump.inventory("the first inventory")
        assert inventory["uuid"] == "00000000-0000-4000-8000-000000000001"
        assert inventory["hypervisor"].startswith("QEMU ")
        assert inventory["memory_free_bytes"] > 0
        guest = guest_of(inventory)
        assert guest["state"] == "running"
        assert guest["cpu_model"] == "qemu64"
        assert guest["memory_bytes"] == 160 << 20
        assert guest["pid"] == int(inside("cat /run/libvirt/qemu/guest0.pid"))
        threads = {t["index"]: t["tid"] for t in guest["threads"]}
        assert threads and threads == vcpu_threads(guest["pid"])

        assert [gpu["device"] for gpu in inventory["gpus"]] == ["0000:41:00.0", "0000:42:00.0"]
        for gpu in inventory["gpus"]:
            assert gpu["driver"] == "nvidia"
            types = [(t["type"], t["name"], t["available"]) for t in gpu["mdev_types"]]
            assert types == [("nvidia-230", "GRID T4-1Q", 16), ("nvidia-231", "GRID T4-2Q", 8)]

        for n in (3, 16):
            set_instances(n)
            dump.inventory("the new number of instances",
                           lambda i, n=n: i["gpus"][1]["mdev_types"][0]["available"] == n)


def test_daemon_dies_and_comes_back(host):
    with Dump("-i", "60", "libvirt", "qemu:///system") as dump:
        dump.inventory("the first inventory")
        lab("daemon", host, "kill")
        text = dump.state("failed")["text"]
        assert "qemu:///system" in text
        # Then it cannot be opened, and what to look at is said.
        text = dump.state("failed")["text"]
        assert "libvirt-sock-ro" in text and "?" in text
        lab("daemon", host, "start")
        dump.state("ok")
        inventory = dump.inventory("the inventory again", guest_is("running"))
        assert guest_of(inventory)["pid"] > 0


def test_lifecycle_and_busy_vcpu(host):
    with Dump("-i", "60", "libvirt", "qemu:///system") as virt, Dump("-i", "0.5", "procfs") as proc:
        virt.inventory("the running guest", guest_is("running"))
        proc.wait("the guest's window", lambda r: r["kind"] == "window" and r["vms"])
        lab("virsh", host, "-q", "destroy", "guest0")
        stopped = virt.lifecycle("stopped: destroyed")
        assert stopped["vm"] == "guest0"
        assert guest_of(virt.inventory("the end", guest_is("shutoff"))).get("pid", 0) == 0
        proc.wait("a window without it", lambda r: r["kind"] == "window" and not r["vms"])

        lab("virsh", host, "-q", "start", "guest0")
        virt.lifecycle("started")
        guest = guest_of(virt.inventory("the new start", guest_is("running")))
        # It boots, for which it wants all of a CPU for two seconds.
        window = proc.wait("a busy vCPU", lambda r: r["kind"] == "window" and any(
            vm["run_ns"] + vm["preempt_ns"] + vm["wake_wait_ns"] > vm["observed_ns"] * 0.3
            for vm in r["vms"]))
        vm = window["vms"][0]
        assert (vm["name"], vm["uuid"], vm["pid"]) == ("guest0", guest["uuid"], guest["pid"])
        assert vm["id"] == 1
        assert {v["index"]: v["tid"] for v in vm["vcpus"]} == vcpu_threads(guest["pid"])
        assert (vm["run_ns"] + vm["wake_wait_ns"] + vm["preempt_ns"] + vm["blocked_ns"] ==
                vm["observed_ns"])
