# SPDX-License-Identifier: Apache-2.0
"""Other releases of Debian, as debootstrap makes them from the mirror of this machine's apt."""
import os
import re
import shutil
import subprocess

import pytest

SUITES = ["bookworm", "trixie"]
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


def mirror(suite):
    """Returns the mirror that apt of this machine uses: the archive of Debian has all releases."""
    found = command("apt-get", "indextargets", "--format", "$(CODENAME) $(REPO_URI)", "Created-By: Packages")
    uris = dict(line.split() for line in reversed(found.stdout.splitlines()) if len(line.split()) == 2)
    return uris.get(suite) or next((uris[name] for name in SUITES if name in uris), None)


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
    if not mirror(suite):
        pytest.skip(f"apt of this machine knows no mirror of {suite}")


def make_root(suite, root, include=()):
    """Makes a minimal root, with these packages, in a directory that is empty or does not exist. Skips the test without
    a network."""
    # debootstrap uses the last of several such options.
    options = [f"--include={','.join(include)}"] if include else []
    done = command("debootstrap", "--variant=minbase", *options, suite, root, mirror(suite))
    if done.returncode != 0 and re.search(r"Invalid Release|Couldn't download|Failed getting", done.stdout + done.stderr):
        pytest.skip(f"debootstrap has no way to {mirror(suite)}: {done.stdout.strip().splitlines()[-1]}")
    assert done.returncode == 0, (done.stdout[-2000:], done.stderr[-2000:])
