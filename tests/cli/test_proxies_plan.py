# SPDX-License-Identifier: Apache-2.0
"""What a plan says of programs at proxies, of snapshots that are made up: what a move to another GPU wins follows from
what is wanted there window by window, and nothing is won in a window of which nobody knows that."""
import json
import os
import subprocess

import pytest
from settings import HANG_S
from vgpuctl import ROOT, program

WINDOWS = 10


def proxy(name, sockets, known=WINDOWS):
    """Of a GPU of 1 GiB, of whose last windows so many are known, the oldest."""
    return {"at": f"/run/{name}.ask", "gpu": name, "gpus": 1, "memory_bytes": 1 << 30, "window_ns": 10**9,
            "known": [1] * known + [0] * (WINDOWS - known),
            "sockets": [{"socket": address, "address": address, "vm": vm, "weight": 1, "clients": int(run > 0),
                         "run": [run] * WINDOWS, "lacked": [lacked] * WINDOWS} for vm, address, run, lacked in sockets]}


def plan(tmp_path, known):
    """Two VMs each want 0.8 of GPU "full", and get 0.5. One has a socket at GPU "free", which nobody uses."""
    with open(os.path.join(ROOT, "data", "demo", "gpu-host.snapshot.json"), encoding="utf-8") as file:
        snapshot = json.load(file)
    [host] = snapshot["hosts"]
    first, second = (vm["name"] for vm in host["vms"][:2])
    host["proxies"] = [proxy("full", [(first, "tcp:192.0.2.1:1", 0.5, 0.3), (second, "tcp:192.0.2.1:2", 0.5, 0.3)]),
                       proxy("free", [(first, "tcp:192.0.2.1:3", 0, 0)], known)]
    (tmp_path / "snapshot").write_text(json.dumps(snapshot))
    (tmp_path / "config").write_text("[policy]\nhold=10s\n")
    done = subprocess.run([program(), "placement", "--dry-run", "--state", tmp_path / "snapshot", "--config",
                           tmp_path / "config", "-o", "json"], capture_output=True, text=True, timeout=HANG_S)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout), first


# 0.6 is lost each second at "full", and nothing once one of the two has gone. In a window that is not known at "free",
# the 0.8 that come there get nothing.
@pytest.mark.parametrize("known,gain", [(10, 0.6), (8, 0.8 * 0.6 - 0.2 * 0.2), (6, 0.6 * 0.6 - 0.4 * 0.2)])
def test_gain(tmp_path, known, gain):
    found, vm = plan(tmp_path, known)
    [action] = found["proxies"]
    assert (action["kind"], action["vm"], action["to"]) == ("proxy-move", vm, "proxy:tcp:192.0.2.1:3")
    assert action["gain"]["gpu_wait_ns_per_s"] == pytest.approx(gain * 1e9, abs=2)


def test_too_little_is_known(tmp_path):
    found, vm = plan(tmp_path, 4)
    assert not any(action["kind"] == "proxy-move" for action in found.get("proxies", []))
    assert any(f"'{vm}' cannot move to GPU 'free'" in why and "6 of the proxy's last 10 windows are unknown" in why
               for why in found["why"]), found["why"]
