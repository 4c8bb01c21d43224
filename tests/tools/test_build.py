# SPDX-License-Identifier: Apache-2.0
"""What the demos say of their build (tools/common.sh), with a Makefile of the test's own, and which packages of
tools/packages are for which release."""
import os
import re
import signal
import subprocess

import pytest
from settings import HANG_S
from vgpuctl import ROOT

SCRIPT = f". {ROOT}/tools/common.sh; build_for_demo build/log thing || exit"


@pytest.fixture(name="tree")
def tree_fixture(tmp_path):
    (tmp_path / "build").mkdir()
    (tmp_path / "build" / "source").touch()
    return tmp_path


def begin(tree, recipe):
    (tree / "build" / "Makefile").write_text(f"abs_top_srcdir = {tree}/build/..\nthing: source\n\t{recipe}\n")
    return subprocess.Popen(["bash", "-c", SCRIPT], cwd=tree, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                            text=True, start_new_session=True)


def end(process):
    text, _ = process.communicate(timeout=HANG_S)
    return process.returncode, text


def test_it_is_said_before_it_begins(tree):
    """Whenever there is something to do, and else nothing is said."""
    status, text = end(begin(tree, "touch thing"))
    assert status == 0 and text.startswith("Building thing in build/")
    assert end(begin(tree, "touch thing")) == (0, "")
    os.utime(tree / "build" / "thing", (0, 0))
    status, text = end(begin(tree, "touch thing"))
    assert status == 0 and text.startswith("Building thing in build/")


def test_one_that_fails(tree):
    status, text = end(begin(tree, "echo no such header; false"))
    assert status == 1 and "The build failed:" in text and "no such header" in text


def test_one_that_is_interrupted(tree):
    """By Ctrl-C, which reaches all of the terminal's processes."""
    # A shell whose child ends well goes on after a Ctrl-C: so there is none.
    process = begin(tree, "exec sleep 1000 > begun")
    while not (tree / "build" / "begun").exists():
        assert process.poll() is None
    os.killpg(process.pid, signal.SIGINT)
    status, text = end(process)
    assert status == 130 and "The build was interrupted" in text and "failed" not in text


@pytest.mark.parametrize("text, release", [
    ('ID=debian\nVERSION_ID="12"\n', "debian 12"), ("ID=debian\n", "debian 99"),
    ('ID=raspbian\nID_LIKE=debian\nVERSION_ID="13"\n', "debian 13"),
    ('ID=ubuntu\nID_LIKE=debian\nVERSION_ID="22.04"\n', "ubuntu 22"),
    ('ID=neon\nID_LIKE="ubuntu debian"\nVERSION_ID="24.04"\n', "ubuntu 24")])
def test_this_release(text, release, tmp_path):
    (tmp_path / "os-release").write_text(text)
    done = subprocess.run(["bash", "-euc", f". {ROOT}/tools/common.sh; this_release {tmp_path}/os-release"],
                          capture_output=True, text=True, timeout=HANG_S, check=True)
    assert done.stdout.strip() == release


@pytest.mark.parametrize("release, words, wanted", [
    ("debian 12", "", True), ("ubuntu 22", "", True), ("ubuntu 22", "debian", False), ("debian 12", "debian", True),
    ("debian 12", "debian13", False), ("debian 13", "debian13", True), ("ubuntu 22", "debian ubuntu24", False),
    ("ubuntu 24", "debian ubuntu24", True), ("debian 13", "ubuntu", False), ("debian 99", "debian13", True)])
def test_which_packages(release, words, wanted):
    done = subprocess.run(["bash", "-euc", f". {ROOT}/tools/common.sh; is_for {release} {words}"],
                          timeout=HANG_S, check=False)
    assert done.returncode == (0 if wanted else 1)


def test_words_of_packages():
    """Each line can be read, so that no package is left out everywhere."""
    with open(os.path.join(ROOT, "tools", "packages"), encoding="utf-8") as file:
        lines = [line.split() for line in file if not line.startswith("#")]
    assert lines
    for line in lines:
        assert len(line) >= 2, line
        assert all(re.fullmatch(r"(debian|ubuntu)[0-9]*", word) for word in line[2:]), line
