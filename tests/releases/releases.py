# SPDX-License-Identifier: Apache-2.0
"""Runs the commands of README in a fresh root of each other release in tests/lib/debian.py, and builds without
warnings with the compilers of all of them. This takes hours on two cores. For one release, run:

    VGPUCTL=build/vgpuctl /usr/bin/python3 -m pytest tests/releases/releases.py -k jammy

Minimal roots, the packages that apt fetched, what compilers made, and roots with compilers stay in
$XDG_CACHE_HOME/vgpud/releases (12 GB). Roots are made again after a month, because archives drop old packages."""
import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import time

import pytest
from debian import SUITES, good, make_root, need, own_suite
from vgpuctl import ROOT

CACHE = os.path.join(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "vgpud", "releases")
ENTER = os.path.join(ROOT, "tests", "releases", "enter")
FIGURES = os.path.join(ROOT, "build", "release-figures")
# The place of the tree in a root.
TREE = "/root/vgpud"
OLD_S = 30 * 24 * 3600
# Only a program that hangs takes so long.
LIMIT_S = 2 * 3600
COMPILERS = {"gcc": "gcc_build", "clang": "clang_build"}

pytestmark = pytest.mark.xdist_group("releases")


@pytest.fixture(scope="module", autouse=True)
def lock():
    """Keeps runs in other trees away from the cache."""
    os.makedirs(CACHE, exist_ok=True)
    with open(os.path.join(CACHE, "lock"), "w", encoding="ascii") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def made_from(*words):
    """Identifies what a root with packages is made from."""
    with open(os.path.join(ROOT, "tools", "packages"), "rb") as file:
        packages = file.read()
    return hashlib.sha256(b"\0".join([packages, *(word.encode() for word in words)])).hexdigest()


def kept(name, key, make):
    """The directory of this name in the cache, made by make(directory) if it is missing, old, or made from
    something else."""
    directory, note = os.path.join(CACHE, name), os.path.join(CACHE, f"{name}.made-from")
    if os.path.exists(note) and time.time() - os.path.getmtime(note) < OLD_S:
        with open(note, encoding="ascii") as file:
            if file.read() == key:
                return directory
    if os.path.exists(note):
        os.unlink(note)
    shutil.rmtree(directory, ignore_errors=True)
    make(directory)
    with open(note, "w", encoding="ascii") as file:
        file.write(key)
    return directory


def enter(suite, root, *args):
    """Words that run a program in this root, with what is kept of apt and ccache for this release."""
    binds = []
    for name, place in (("archives", "/var/cache/apt/archives"), ("ccache", "/root/.cache/ccache")):
        kept_there = os.path.join(CACHE, f"{suite}-{name}")
        os.makedirs(kept_there, exist_ok=True)
        binds.append(f"{kept_there}={place}")
    return [ENTER, root, *binds, "--", *args]


def minimal_root(suite):
    need(suite, "setpriv")
    return kept(f"{suite}-minimal", suite, lambda directory: make_root(suite, directory))


def copy_tree(root):
    os.makedirs(root + TREE)
    good("bash", "-c", f'. tools/common.sh && copy_tree "{root}{TREE}"', cwd=ROOT)


@pytest.fixture
def fresh_root():
    """Makes a copy of a root of this name, with the tree in it."""
    made = os.path.join(CACHE, "fresh")

    def make(root):
        shutil.rmtree(made, ignore_errors=True)
        good("cp", "-a", root, made)
        copy_tree(made)
        return made
    yield make
    shutil.rmtree(made, ignore_errors=True)


def record(line):
    with open(FIGURES, "a", encoding="utf-8") as file:
        file.write(line + "\n")


def run(words, log):
    """Runs a command with its output in a file. Returns its status and the output."""
    with open(log, "wb") as file:
        done = subprocess.run(words, stdin=subprocess.DEVNULL, stdout=file, stderr=file, timeout=LIMIT_S, check=False)
    with open(log, encoding="utf-8", errors="replace") as file:
        return done.returncode, file.read()


@pytest.mark.parametrize("suite", [suite for suite in SUITES if suite != own_suite()])
def test_commands_of_readme(suite, fresh_root, tmp_path):
    """The root is minimal. A failure shows the end of the output, as the root is removed."""
    root = fresh_root(minimal_root(suite))
    for program in ("tools/quickstart", "tools/check"):
        began = time.monotonic()
        status, text = run(enter(suite, root, f"{TREE}/{program}"), tmp_path / "log")
        last = text.splitlines()[-1] if text else ""
        record(f"{suite}: {program}: {time.monotonic() - began:.0f} s: {last}")
        assert status == 0, text[-10000:]
    assert re.fullmatch(r"\d+ passed, 0 failed, \d+ skipped", last)


@pytest.fixture
def compiler_root():
    """Makes a root that has the compilers of that release, and all that a build needs."""
    def make(suite):
        def install(directory):
            good("cp", "-a", minimal_root(suite), directory)
            good("mkdir", "-p", directory + TREE)
            good("cp", "-r", os.path.join(ROOT, "tools"), directory + TREE)
            status, text = run(enter(suite, directory, "bash", "-ec", f"cd {TREE}; . tools/common.sh; "
                                     "need_packages /root/packages.log build; apt-get -y install ccache"),
                               os.path.join(CACHE, "packages.log"))
            assert status == 0, text[-3000:]
            shutil.rmtree(directory + TREE)
        return kept(f"{suite}-compilers", made_from(suite), install)
    return make


@pytest.mark.parametrize("compiler", COMPILERS)
@pytest.mark.parametrize("suite", SUITES)
def test_no_warnings(suite, compiler, compiler_root, tmp_path):
    """All programs are built, also those of the tests."""
    root = compiler_root(suite)
    shutil.rmtree(root + TREE, ignore_errors=True)
    copy_tree(root)
    script = (f"cd {TREE}; . tools/common.sh; {compiler} --version; ensure_build build \"${{{COMPILERS[compiler]}[@]}}\"; "
              "make -k -j $jobs -C build all; make -k -j $jobs -C build check TESTS=")
    status, text = run(enter(suite, root, "env", "VG_WERROR=1", "bash", "-ec", script), tmp_path / "log")
    shutil.rmtree(root + TREE)
    found = [line for line in text.splitlines() if re.search(r"(warning|error): ", line)]
    assert status == 0 and not found, "\n".join(found) or text[-3000:]
    record(f"{suite}: {text.splitlines()[0]}: no warnings")
