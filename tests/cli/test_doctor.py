# SPDX-License-Identifier: Apache-2.0
"""vgpuctl doctor: against the made-up daemon, a real one, and none."""
import json
import os
import pwd
import re
import shutil
import signal
import socket
import subprocess
import tempfile

import pytest
import vgpuctl
import yaml
from ports import free_port
from settings import HANG_S
from unixhttp import ROOT, Server
from vgpud import LTTNG, VM_MAP, Daemon, wait_for


def run(*args, code=0, prefix=(), env=None):
    done = subprocess.run([*prefix, vgpuctl.program(), "doctor", *args], capture_output=True, text=True,
                          timeout=HANG_S, env={**os.environ, **(env or {})})
    assert done.returncode == code, (done.returncode, done.stderr, done.stdout)
    return done


def checks(*args, **kwargs):
    document = json.loads(run(*args, "-o", "json", **kwargs).stdout)
    states = [check["state"] for check in document["checks"]]
    assert {state: document[state] for state in ("ok", "lacks", "broken")} == {
        state: states.count(state) for state in ("ok", "lacks", "broken")}
    return document, {check["what"]: check for check in document["checks"]}


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    running = Server(tmp_path_factory.mktemp("doctor"))
    yield running
    running.stop()


@pytest.mark.smoke
def test_a_peer_that_does_not_answer_is_broken(server):
    document, found = checks("--socket", server.path, code=1)
    assert document["reached"] and document["broken"] == 2  # the peer, and acting without libvirt
    assert found["peer near"]["state"] == "ok" and "near-host" in found["peer near"]["why"]
    assert found["peer far"]["state"] == "broken" and found["peer far"]["mend"]
    assert "no process listens there" in found["peer far"]["why"]
    assert found["host groups"]["state"] == "lacks" and "it also matches [hosts all]" in found["host groups"]["why"]
    for port in 7000, 7001:
        assert found[f"proxy tcp:192.168.122.1:{port}"]["state"] == "lacks"
        assert "traffic, including the token, is not encrypted" in found[f"proxy tcp:192.168.122.1:{port}"]["why"]
    assert found["vgpu-proxy"]["state"] == "lacks" and "it runs with --unconfined" in found["vgpu-proxy"]["why"]
    # What the made-up daemon says of its sources and of its store.
    assert found["CPU bpf"]["state"] == "lacks" and found["CPU bpf"]["mend"] == "systemctl edit vgpud"
    assert found["CPU perf"]["mend"] == "mount -t tracefs none /sys/kernel/tracing"
    assert found["CPU procfs"]["state"] == "ok" and ", since 2026-" in found["CPU procfs"]["why"]
    assert found["GPU nvml"]["state"] == "lacks" and found["GPU fdinfo"]["state"] == "ok"
    assert "5.0 KiB in /var/lib/made-up, 8.0 MiB free" in found["store"]["why"]
    assert "windows for 2 days, minutes for 30, hours for 365" in found["store"]["why"]
    assert found["store"]["state"] == "lacks" and found["store"]["mend"] == "df -h '/var/lib/made-up'"
    assert found["lost_to"]["state"] == "lacks" and found["acting"]["state"] == "broken"
    assert "5 % allowed" in found["vgpud's CPU"]["why"] and "1.0 MiB" in found["vgpud's memory"]["why"]
    # The guest that has a GPU is asked for its driver.
    assert found["guest alpha"]["state"] == "lacks" and "guest beta" not in found
    assert found["guest alpha"]["why"] == "its NVIDIA driver 570.10 has a known fault: it fails (source)"


def test_faults_of_drivers_are_those_of_the_agent():
    """What the agent refuses is what a host is warned of."""
    def versions(path, pattern):
        with open(os.path.join(ROOT, path), encoding="utf-8") as file:
            return sorted(re.findall(pattern, file.read()))

    refused = versions("guest/cuda-drivers.c", r'\{"([\d.]+)", "[\d.]*", VG_CUDA_DRIVER_REFUSE')
    assert refused and refused == versions("cli/doctor-drivers.c", r'\{"([\d.]+)",')


def test_every_format_has_the_same(server):
    args = ("--socket", server.path)
    document = json.loads(run(*args, "-o", "json", code=1).stdout)
    other = yaml.safe_load(run(*args, "-o", "yaml", code=1).stdout)
    assert [check["what"] for check in other["checks"]] == [check["what"] for check in document["checks"]]
    assert run(*args, "--watch", code=2).stderr


def folded(text, document):
    """All that the document says is in the table, in lines of at most 80 columns."""
    lines = text.splitlines()
    # A path that is longer is not broken.
    assert all(len(line) <= 80 or len(max(line.split(), key=len)) > 60 for line in lines), max(lines, key=len)
    words = " ".join(text.split())
    for check in document["checks"]:
        if check["what"] not in ("vgpud's CPU", "vgpud's memory", "clock", "engine", "store"):  # figures that change
            assert " ".join(check["why"].split()) in words, check
        if check["mend"]:
            assert any(line.strip() == "$ " + check["mend"] for line in lines), check
    warnings = "warning" if document["lacks"] == 1 else "warnings"
    assert lines[0] == "{broken} failed, {lacks} {0}, {ok} ok".format(warnings, **document)
    words = {"ok": "OK", "lacks": "WARN", "broken": "FAIL"}
    states = [line.split()[0] for line in lines[2:] if line.strip() and not line.startswith(" ")]
    assert states == [words[check["state"]] for check in document["checks"]]


def test_it_fits_80_columns(server):
    document = json.loads(run("--socket", server.path, "-o", "json", code=1).stdout)
    folded(run("--socket", server.path, code=1).stdout, document)


def test_a_full_disk_is_broken(tmp_path):
    server = Server(tmp_path, "--not-ready")
    try:
        _, found = checks("--socket", server.path, code=1)
        assert found["store"] == {"what": "store", "state": "broken", "why": "the disk is full",
                                  "mend": "df -h"}
    finally:
        server.stop()


def test_a_real_one_that_watches_this_machine(tmp_path):
    config = "[libvirt]\nuri=test:///default\n[live]\nbpf=no\nperf=no\n[gpu]\nenable=no\n"
    with Daemon(tmp_path, config=config) as daemon:
        wait_for(lambda: daemon.part("collector:live")["state"] == "ok")
        wait_for(lambda: daemon.part("collector:libvirt")["state"] == "ok")
        wait_for(lambda: daemon.part("engine")["ready"])
        document, found = checks("--socket", daemon.socket)
        # What is broken of this machine, such as a disk that is full, is no matter here.
        assert document["reached"]
        assert found["CPU procfs"]["state"] == "ok" and "CPU bpf" not in found
        assert "connected to test:///default" in found["libvirt"]["why"]
        assert daemon.state in found["store"]["why"] and "acting" in found
        assert found["gpu"]["state"] == "lacks" and "enable=no" in found["gpu"]["why"]
        assert found["vgpud"]["state"] == "ok" and "clock" in found


def test_a_real_one_that_replays(tmp_path):
    with Daemon(tmp_path, "--speed", "max", "--vm-map", VM_MAP, replay=LTTNG) as daemon:
        daemon.replayed()
        document, found = checks("--socket", daemon.socket)
        assert document["reached"] and "recording it replays" in found["vgpud"]["why"]
        assert found["replay"]["state"] == "ok" and found["store"]["state"] in ("ok", "lacks")


def test_a_configuration_that_the_next_start_refuses(tmp_path):
    """Whether vgpud was asked to read the files or not; and a refusal is told until vgpud takes them."""
    program = os.path.join(os.path.dirname(vgpuctl.program()), "vgpud")
    good = "[live]\nuse=no\n[gpu]\nenable=no\n"
    with Daemon(tmp_path, config=good, binary=program) as daemon:
        def found():
            done = subprocess.run([vgpuctl.program(), "doctor", "--socket", daemon.socket, "-o", "json"], text=True,
                                  capture_output=True, timeout=HANG_S, check=False,
                                  env={**os.environ, "PATH": f"{os.path.dirname(program)}:{os.environ['PATH']}"})
            rows = {row["what"]: row for row in json.loads(done.stdout)["checks"]}
            return rows["configuration"], rows.get("reload"), done.returncode

        configuration, reload, _ = found()
        assert configuration["state"] == "ok" and not reload
        daemon.write_config(good + "[alert two\n")
        configuration, reload, code = found()
        assert configuration["state"] == "broken" and code == 1 and not reload
        assert "vgpud will not start again with the present files" in configuration["why"]
        assert daemon.config_path in configuration["why"]
        daemon.process.send_signal(signal.SIGHUP)
        wait_for(lambda: "configuration remains unchanged" in daemon.log())
        configuration, reload, code = found()
        assert reload["state"] == "broken" and code == 1 and "vgpud refused its configuration" in reload["why"]
        daemon.write_config(good)
        configuration, reload, _ = found()
        assert configuration["state"] == "ok" and reload["state"] == "broken"
        daemon.process.send_signal(signal.SIGHUP)
        wait_for(lambda: "configuration reloaded" in daemon.log())
        configuration, reload, _ = found()
        assert configuration["state"] == "ok" and not reload
        daemon.stop()


# ---- vgpud does not answer ----

def test_nobody_is_there(tmp_path):
    path = str(tmp_path / "sock")
    document, found = checks("--socket", path, code=7)
    assert not document["reached"] and found["socket"]["state"] == "broken"
    assert path in found["socket"]["why"] and "cannot reach vgpud" in found["vgpud"]["why"]
    for what in ("tracefs", "kvm", "libvirt", "clock"):
        assert found[what]["state"] in ("ok", "lacks")
    folded(run("--socket", path, code=7).stdout, document)


def test_a_socket_that_was_left(tmp_path):
    path = str(tmp_path / "sock")
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(path)
    _, found = checks("--socket", path, code=7)
    assert "a vgpud that has exited left it behind" in found["socket"]["why"]
    assert found["socket"]["mend"] == "systemctl enable --now vgpud"


@pytest.mark.skipif(os.getuid() != 0 or not shutil.which("setpriv"), reason="needs root and setpriv")
def test_a_socket_of_others():
    """A copy of the program, for who may not look into this directory."""
    with tempfile.TemporaryDirectory() as directory:
        os.chmod(directory, 0o755)
        program = shutil.copy(vgpuctl.program(), directory)
        server = Server(directory)
        try:
            os.chmod(server.path, 0o660)
            done = subprocess.run(
                ["setpriv", "--reuid", "nobody", "--regid", "nogroup", "--clear-groups", program, "doctor", "--socket", server.path,
                 "-o", "json"], capture_output=True, text=True, timeout=HANG_S, check=False)
            assert done.returncode == 7, (done.stdout, done.stderr)
            found = {check["what"]: check for check in json.loads(done.stdout)["checks"]}
            assert found["socket"]["state"] == "broken"
            assert "user root, group root, mode 0660" in found["socket"]["why"]
            assert found["socket"]["mend"] == f"adduser {pwd.getpwnam('nobody').pw_name} root"
        finally:
            server.stop()


def test_what_programs_of_this_machine_say(tmp_path):
    """A vgpud in PATH that refuses its configuration."""
    program = tmp_path / "vgpud"
    program.write_text("#!/bin/sh\necho \"vgpud.conf:3: [api] sokket: no such key\" >&2\nexit 1\n")
    program.chmod(0o755)
    _, found = checks("--socket", str(tmp_path / "sock"), code=7,
                      env={"PATH": f"{tmp_path}:{os.environ['PATH']}"})
    assert found["configuration"]["state"] == "broken"
    assert "sokket: no such key" in found["configuration"]["why"]


def test_of_another_machine_nothing_here_is_looked_at(tmp_path):
    _, found = checks("--server", f"https://127.0.0.1:{free_port()}", code=7)
    assert set(found) == {"vgpud"} and found["vgpud"]["state"] == "broken"
