# SPDX-License-Identifier: Apache-2.0
"""vgpuctl vulkan, against tests/tools/api-server, and against a vgpud with libvirt's test driver, which
keeps nothing of what is QEMU's."""
import json
import os
import subprocess

import pytest
import vgpuctl
import yaml
from settings import HANG_S
from terminal import Terminal
from unixhttp import Server, build_dir
from vgpud import Daemon, wait_for

UUID = "5c9e2c3a-0d8f-4f0a-9d64-1f3c1c7c0000"
LINE = "+ <graphics type='egl-headless'/>\n"
RUNS = "alpha is running; the change takes effect at its next start\n"


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    running = Server(tmp_path_factory.mktemp("vulkan"))
    yield running
    running.stop()


def run(server, *args):
    done = subprocess.run([vgpuctl.program(), "vulkan", *args], capture_output=True, text=True,
                          timeout=HANG_S,
                          env={**os.environ, "VGPUCTL_SOCKET": server.path})
    assert done.returncode == 0, (done.returncode, done.stderr, done.stdout)
    return done.stdout


@pytest.mark.smoke
def test_enabled_and_disabled(server):
    assert run(server, "enable", "alpha", "--yes") == \
        "The definition of alpha now has Vulkan. Changes:\n" + LINE + RUNS
    assert run(server, "disable", "alpha", "--yes") == \
        "The definition of alpha no longer has Vulkan. Changes:\n" + LINE + RUNS
    assert run(server, "enable", "alpha", "--dry-run") == \
        "The definition of alpha would change as follows:\n" + LINE + RUNS


def test_documents(server):
    document = json.loads(run(server, "enable", UUID, "--hostmem", "256M", "--dry-run", "-o", "json"))
    assert document == {"vm": "alpha", "uuid": UUID, "enabled": True, "dry_run": True, "changed": True,
                        "running": True, "hostmem_bytes": 256 << 20, "changes": [LINE.strip()],
                        "notes": []}
    document = yaml.safe_load(run(server, "disable", "alpha", "--yes", "-o", "yaml"))
    assert (document["enabled"], document["dry_run"], document["hostmem_bytes"]) == (False, False, 0)


@pytest.mark.parametrize("answer,code", [("y", 0), ("yes", 0), ("n", 4), ("", 4)])
def test_asks_on_a_terminal(server, answer, code):
    with Terminal(vgpuctl.program(), "vulkan", "enable", "alpha", "--socket", server.path) as terminal:
        terminal.wait("Change it? [y/N]")
        terminal.press(answer + "\r")
        assert terminal.end() == code
        assert ("now has Vulkan" in terminal.screen.text()) == (code == 0)


@pytest.mark.parametrize("args,code,words", [
    (["enable"], 2, "specify a VM"),
    (["enable", "alpha"], 2, "without a terminal"),
    (["disable", "alpha", "--yes", "--hostmem", "4G"], 2, "are valid only with `vulkan enable`"),
    (["disable", "alpha", "--yes", "--render-node", "/dev/dri/renderD128"], 2, "are valid only with `vulkan"),
    (["disable", "alpha", "--yes", "--loosen-sandbox"], 2, "are valid only with `vulkan"),
    (["enable", "alpha", "--yes", "-o", "csv"], 2, "in this format"),
    (["enable", "alpha", "--yes", "--hostmem", "0G"], 2, "such as 256M or 4G, not '0G'"),
    (["enable", "alpha", "--yes", "--hostmem=-1G"], 2, "not '-1G'"),
    (["enable", "alpha", "--yes", "--hostmem", "99999999999G"], 2, "not '99999999999G'"),
    (["enable", "alpha", "--yes", "--hostmem", "4K"], 2, "not '4K'"),
    (["enable", "alpha", "--yes", "--hostmem", "4"], 1, "a power of two from 16 MiB"),
    (["enable", "alpha", "--yes", "--hostmem", "2T"], 1, "hostmem_bytes"),
    (["enable", "alpha", "--yes", "--render-node", "/etc/passwd"], 1, "is not one of /dev/dri/renderD128"),
    (["enable", "beta", "--yes"], 4, "OpenStack manages 'beta'"),
    (["enable", "nobody", "--yes"], 3, "no VM 'nobody'"),
])
def test_refused(server, args, code, words):
    done = subprocess.run([vgpuctl.program(), "vulkan", *args, "--socket", server.path],
                          capture_output=True, text=True, timeout=HANG_S, stdin=subprocess.DEVNULL)
    assert words in done.stderr and done.stdout == ""
    assert done.returncode == code, done.stderr


# ---- the emulator ----

LIBVIRT = "on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny"
LOOSE = "on,obsolete=deny,elevateprivileges=allow,spawn=allow,resourcecontrol=deny"


@pytest.mark.parametrize("given,got", [
    (["-name", "a", "-sandbox", LIBVIRT, "-S"], ["-name", "a", "-sandbox", LOOSE, "-S"]),
    (["--sandbox", "spawn=deny"], ["--sandbox", "spawn=allow"]),
    (["-sandbox", "on,elevateprivileges=children,spawned=deny,"],
     ["-sandbox", "on,elevateprivileges=allow,spawned=deny,"]),
    (["-sandbox"], ["-sandbox"]),
    (["-name", "spawn=deny", "-sandbox", ""], ["-name", "spawn=deny", "-sandbox", ""]),
])
def test_emulator_hands_on(tmp_path, given, got):
    emulator = tmp_path / "printf"  # as a QEMU, there is one in /usr/bin
    emulator.symlink_to(os.path.join(build_dir(), "vgpud-qemu-spawn"))
    done = subprocess.run([emulator, "%s\\n", *given], capture_output=True, text=True, timeout=HANG_S, check=True)
    assert done.stdout.split("\n")[:-1] == got


def test_emulator_without_its_qemu(tmp_path):
    emulator = tmp_path / "qemu-system-none"
    emulator.symlink_to(os.path.join(build_dir(), "vgpud-qemu-spawn"))
    done = subprocess.run([emulator], capture_output=True, text=True, timeout=HANG_S)
    assert (done.returncode, done.stderr) == \
        (127, "vgpud-qemu-spawn: there is no qemu-system-none in /usr/bin or /usr/libexec\n")


# ---- a vgpud ----

def post(daemon, body, status):
    answer = daemon.request("POST", "/v1/vms/test/vulkan", body=json.dumps(body),
                            headers={"Content-Type": "application/json"})
    assert answer[0] == status, answer
    return json.loads(answer[2])


def test_what_libvirt_does_not_keep_is_taken_back(tmp_path):
    config = "[libvirt]\nuri=test:///default\n[actions]\nenabled=yes\n"
    with Daemon(tmp_path, config=config) as daemon:
        wait_for(lambda: daemon.request("GET", "/v1/vms/test")[0] == 200)
        would = post(daemon, {"enabled": True, "dry_run": True}, 200)
        assert would["changed"] and "+     <acceleration accel3d='yes'/>" in would["changes"]
        assert would["hostmem_bytes"] == 4 << 30 and would["running"]
        assert "libvirt dropped <qemu:override>" in post(daemon, {"enabled": True}, 502)["detail"]
        # What would be changed is the same again, so that nothing was.
        assert post(daemon, {"enabled": True, "dry_run": True}, 200) == would
        # Its domain has none, as no one of QEMU's.
        assert "no <emulator>" in post(daemon, {"enabled": True, "loosen_sandbox": True, "dry_run": True}, 409)["detail"]
        assert "vgpud has not added Vulkan" in post(daemon, {"enabled": False}, 409)["detail"]
        daemon.stop()


def test_acting_is_off(tmp_path):
    with Daemon(tmp_path, config="[libvirt]\nuri=test:///default\n") as daemon:
        wait_for(lambda: daemon.request("GET", "/v1/vms/test")[0] == 200)
        assert "actions are disabled" in post(daemon, {"enabled": True, "dry_run": True}, 422)["detail"]
        daemon.stop()
