# SPDX-License-Identifier: Apache-2.0
"""Other releases of Debian and Ubuntu, as tools/make-root makes them."""
import os
import re
import shutil
import subprocess
import urllib.request

import pytest
from settings import HANG_S
from vgpuctl import ROOT

DEBIAN = ["bookworm", "trixie"]
UBUNTU = ["jammy", "noble"]
SUITES = DEBIAN + UBUNTU
MAKE_ROOT = os.path.join(ROOT, "tools", "make-root")
# What make-root and tests/lab say with their exit status: this machine has no way to it.
NO_WAY = 77
# The limit of a build, or of apt with a slow mirror.
LIMIT_S = 1800


def command(*args, limit_s=LIMIT_S, **kwargs):
    return subprocess.run(args, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=limit_s,
                          check=False, env={**os.environ, "LC_ALL": "C.UTF-8", "DEBIAN_FRONTEND": "noninteractive"},
                          **kwargs)


def good(*args, **kwargs):
    done = command(*args, **kwargs)
    assert done.returncode == 0, (args, done.stdout[-3000:], done.stderr[-3000:])
    return done.stdout


def own_suite():
    with open("/etc/os-release", encoding="utf-8") as file:
        found = re.search(r"^VERSION_CODENAME=(.*)$", file.read(), re.M)
    return found.group(1) if found else ""


def need(suite, *programs):
    """Skips the test where such a root cannot be made."""
    for program in ("debootstrap", "unshare", *programs):
        if not shutil.which(program):
            pytest.skip(f"there is no {program}")
    if os.getuid() != 0:
        pytest.skip("a chroot needs root")
    done = command(MAKE_ROOT, "--mirror", suite)
    if done.returncode == NO_WAY:
        pytest.skip(done.stderr.strip())
    mirror = done.stdout.strip()
    try:
        urllib.request.urlopen(f"{mirror.rstrip('/')}/dists/{suite}/Release", timeout=HANG_S).close()
    except OSError as err:
        pytest.skip(f"there is no way to {mirror}: {err}")


def make_root(suite, root, include=()):
    """Makes a minimal root, with these packages, in a directory that is empty or does not exist. Skips the test without
    a network."""
    # debootstrap uses the last of several such options.
    options = [f"--include={','.join(include)}"] if include else []
    done = command(MAKE_ROOT, suite, root, *options)
    if done.returncode == NO_WAY:
        pytest.skip(done.stderr.strip())
    if done.returncode != 0 and re.search(r"Invalid Release|Couldn't download|Failed getting", done.stdout + done.stderr):
        pytest.skip(f"debootstrap has no way to {suite}: {done.stdout.strip().splitlines()[-1]}")
    assert done.returncode == 0, (done.stdout[-2000:], done.stderr[-2000:])
