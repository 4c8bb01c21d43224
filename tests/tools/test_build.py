# SPDX-License-Identifier: Apache-2.0
"""What the demos say of their build (tools/common.sh), with a Makefile of the test's own."""
import os
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
