# SPDX-License-Identifier: Apache-2.0
"""Network namespaces of a test on one bridge. Each is held by a process that ends with the test's."""
import ctypes
import os
import shutil
import signal
import subprocess

import pytest
from settings import HANG_S
from unixhttp import wait_for


def _ends_with_parent():
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


def skip_without():
    """Where there can be none, the test is skipped."""
    if os.geteuid() != 0:
        pytest.skip("only root can make network namespaces")
    for command in ("ip", "nsenter", "unshare"):
        if not shutil.which(command):
            pytest.skip(f"network namespaces need {command}")
    probe = subprocess.run(["unshare", "--net", "ip", "link", "add", "hub", "type", "bridge"],
                           capture_output=True, text=True, check=False, timeout=HANG_S)
    if probe.returncode:
        pytest.skip(f"there are no network namespaces with bridges here: {probe.stderr.strip()}")


class Network:
    """Namespaces by name; the n-th of them is 10.9.0.n. The bridge is in one of its own."""

    def __init__(self, *names):
        self.holders = {}
        self.address = {}
        hub = self._hold("")
        self._ip("", "link", "add", "hub", "type", "bridge")
        self._ip("", "link", "set", "hub", "up")
        for n, name in enumerate(names, 1):
            self._hold(name)
            self.address[name] = f"10.9.0.{n}"
            self._ip(name, "link", "set", "lo", "up")
            self._ip(name, "link", "add", "eth0", "type", "veth", "peer", "name", f"p{n}", "netns",
                     str(hub.pid))
            self._ip(name, "address", "add", f"10.9.0.{n}/24", "dev", "eth0")
            self._ip(name, "link", "set", "eth0", "up")
            self._ip("", "link", "set", f"p{n}", "master", "hub", "up")

    def _hold(self, name):
        holder = subprocess.Popen(["unshare", "--net", "sleep", "infinity"],
                                  preexec_fn=_ends_with_parent)
        self.holders[name] = holder
        own = os.readlink("/proc/self/ns/net")
        wait_for(lambda: os.readlink(f"/proc/{holder.pid}/ns/net") != own)
        return holder

    def _ip(self, name, *args):
        subprocess.run([*self.prefix(name), "ip", *args], check=True, timeout=HANG_S)

    def prefix(self, name):
        """Before a command that is to run there."""
        return "nsenter", "--target", str(self.holders[name].pid), "--net", "--"

    def plug(self, name, is_in):
        """Pulls its cable, or puts it in again."""
        self._ip(name, "link", "set", "eth0", "up" if is_in else "down")

    def close(self):
        for holder in self.holders.values():
            holder.kill()
            holder.wait()
