# SPDX-License-Identifier: Apache-2.0
"""The image of packaging/Containerfile, on the base of packaging/container-base, run by podman with the options of
packaging/README.md. Costs minutes, and the network: only in a full run. Needs tools/package first; makes the packages
if they are missing."""
import glob
import json
import os
import socket

import pytest
from debian import command, good, need, own_suite
from vgpuctl import ROOT
from settings import HANG_S
from unixhttp import wait_for

DEBS = os.path.join(ROOT, "build", "packages")
BASE, IMAGE, NAME = "localhost/vgpud-test-base", "localhost/vgpud-test", "vgpud-test"
# Options with which podman builds and runs, the usual ones first. The others are for machines with control groups of
# both versions, where root may not raise limits.
BUILDS = [[], ["--isolation=chroot"]]
RUNS = [([], []), (["--runtime", "runc"], ["--ulimit", "nofile=4096:4096", "--ulimit", "nproc=4096:4096"])]
RUN = ["--pid=host", "--uts=host", "--network=host", "--cap-drop=ALL", "--cap-add=BPF,PERFMON",
       "--security-opt=seccomp=unconfined", "--security-opt=no-new-privileges", "--read-only", "--tmpfs=/tmp",
       "--volume=/sys/kernel/tracing:/sys/kernel/tracing:ro"]

pytestmark = pytest.mark.xdist_group("package")


@pytest.fixture(scope="module")
def image():
    need(own_suite(), "podman", "dh")
    if not glob.glob(os.path.join(DEBS, "vgpud_*.deb")):
        good(os.path.join(ROOT, "tools", "package"))
    good(os.path.join(ROOT, "packaging", "container-base"), "--suite", own_suite(), BASE)
    said = []
    for options in BUILDS:
        done = command("podman", "build", *options, "--network=host", "--build-arg", f"BASE={BASE}", "-f",
                       os.path.join(ROOT, "packaging", "Containerfile"), "-t", IMAGE, DEBS)
        if done.returncode == 0:
            break
        said.append((done.stdout + done.stderr)[-2000:])
        # Anything but podman's own trouble is a mistake in the Containerfile.
        assert "runc" in said[-1] or "crun" in said[-1] or "cgroup" in said[-1], said[-1]
    else:
        pytest.skip(f"podman cannot build here: {said}")
    yield
    command("podman", "rmi", "-f", IMAGE, BASE)


def start(directory):
    """Starts the container. Skips the test if podman cannot start any container in these ways."""
    for podman, options in RUNS:
        command("podman", "rm", "-f", NAME)
        done = command("podman", *podman, "run", "-d", "--name", NAME, *options, *RUN,
                       f"--volume={directory}/run:/run/vgpud", f"--volume={directory}/state:/var/lib/vgpud", IMAGE)
        if done.returncode == 0:
            return
        assert "OCI" in done.stderr, done.stderr
    pytest.skip(f"podman cannot run containers here: {done.stderr}")


@pytest.fixture
def container(image, tmp_path):
    """Runs vgpuctl in the container, whose vgpud is ready."""
    for name in ("run", "state"):
        (tmp_path / name).mkdir()
    start(tmp_path)

    def run(*args):
        return command("podman", "exec", NAME, *args, limit_s=HANG_S)
    run.socket = tmp_path / "run" / "vgpud.sock"
    yield run
    print(command("podman", "logs", NAME).stderr[-5000:])
    command("podman", "rm", "-f", "-t", "30", NAME)


def test_reports_the_host(container):
    """vgpud measures this machine, not the container."""
    wait_for(lambda: container("vgpuctl", "host", "show").returncode == 0, pause=1)
    host = json.loads(container("vgpuctl", "host", "show", "-o", "json").stdout)
    assert host["name"] == socket.gethostname()
    assert host["cpus"] == os.cpu_count()
    doctor = container("vgpuctl", "doctor")
    assert doctor.returncode == 0, doctor.stdout + doctor.stderr
    assert f"watches '{socket.gethostname()}'" in " ".join(doctor.stdout.split())
    assert container.socket.is_socket()


def test_ends_at_once(container):
    """It stops by itself, not by podman's SIGKILL."""
    wait_for(lambda: container("vgpuctl", "host", "show").returncode == 0, pause=1)
    good("podman", "stop", "-t", str(HANG_S), NAME)
    assert good("podman", "inspect", "--format", "{{.State.ExitCode}}", NAME).strip() == "0"
