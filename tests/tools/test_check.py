# SPDX-License-Identifier: Apache-2.0
"""tools/check: its options, how it explains failures, and that Ctrl-C leaves nothing running. Steps are the test's own."""
import os
import re
import signal
import subprocess
import sys
import time

import pytest
from settings import HANG_S
from vgpuctl import ROOT

# Sourced in a tree of the test's own: tools/check without its packages and builds.
STEPS = f"""
cd "$1"; root=$PWD; jobs=1 ccache=''
export VG_TEST_SEED=7 PYTHONPYCACHEPREFIX=$root/pycache
exec 8>&1
seconds_since() {{ echo 0; }}
show_log() {{ :; }}
. {ROOT}/tools/check-steps.sh
do_fixed_job() {{ read_cpu; }}
trap interrupt_run INT TERM HUP
begin_run default
"""


# As tools/check does: processes whose parent has ended become children of the shell.
REAPS = """import ctypes, os, sys
PR_SET_CHILD_SUBREAPER = 36
ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
os.execv("/bin/bash", ["bash", "-c", *sys.argv[1:]])"""


def start(tree, commands):
    return subprocess.Popen([sys.executable, "-c", REAPS, STEPS + commands, "check", tree], stdout=subprocess.PIPE,
                            stderr=subprocess.STDOUT, text=True, start_new_session=True)


def finish(process):
    text, _ = process.communicate(timeout=HANG_S)
    return process.returncode, text


@pytest.mark.parametrize("arguments", [["--sometimes"], ["--quick", "--full"], ["--seed"], ["--seed", "x"],
                                       ["--seed", "-1"], ["--costs", "--quick"]])
def test_usage(arguments):
    done = subprocess.run([os.path.join(ROOT, "tools", "check"), *arguments], capture_output=True, text=True,
                          check=False)
    assert done.returncode == 2 and done.stderr.startswith("usage: tools/check")


def test_counts(tmp_path):
    """Of all steps together; one that fails without a failed test is one failure."""
    status, text = finish(start(tmp_path, """
        good() { step_passed=3 step_skipped=1; }
        bad() { step_failed=2 step_passed=1; return 1; }
        broken() { return 5; }
        step "a good one" good; step "a bad one" bad; step "a broken one" broken; summary"""))
    assert status == 1 and text.splitlines()[-1] == "4 passed, 3 failed, 1 skipped"
    assert "the step ended with status 5" in text


def test_pytest_failure(tmp_path):
    """The test, its assertion in one line, and a command that repeats it."""
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "conftest.py").write_text(
        f"import importlib.util\nspec = importlib.util.spec_from_file_location('real', '{ROOT}/tests/conftest.py')\n"
        "real = importlib.util.module_from_spec(spec)\nspec.loader.exec_module(real)\n"
        "pytest_terminal_summary = real.pytest_terminal_summary\n")
    (tmp_path / "tests" / "test_it.py").write_text(
        "import pytest\n@pytest.mark.parametrize('x', ['a b'])\ndef test_x(x):\n    assert 2 + 2 == 5, 'sums\\nare odd'\n"
        "@pytest.fixture\ndef gone():\n    raise OSError('no such disk')\n"
        "def test_y(gone):\n    pass\ndef test_z():\n    pass\n")
    status, text = finish(start(tmp_path, 'pytest_jobs=2; step "tests" pytest build/vgpuctl tests; summary'))
    assert status == 1
    assert ("tests/test_it.py::test_x[a b]\n    AssertionError: sums\n    repeat: VG_TEST_SEED=7 /usr/bin/python3 -m pytest "
            "'tests/test_it.py::test_x[a b]'\n") in text
    assert "tests/test_it.py::test_y\n    OSError: no such disk\n" in text
    assert text.count("    repeat: ") == 2
    assert text.splitlines()[-1] == "1 passed, 2 failed, 0 skipped"


def test_program_failure(tmp_path):
    """Likewise of a program that prints TAP, and of one that ends too early."""
    (tmp_path / "tests").mkdir()
    (tmp_path / "Makefile").write_text(
        "check-TESTS:\n"
        "\tprintf '1..2\\nok 1 - one\\nnot ok 2 - two\\n# 0x1 != 0x2\\n# t.c:6: error: Failure!\\n' > tests/test-a.log\n"
        "\tprintf ':test-result: PASS one\\n:test-result: FAIL two\\n' > tests/test-a.trs\n"
        "\tprintf '1..2\\nok 1 - one\\n' > tests/test-b.log\n"
        "\tprintf ':test-result: PASS one\\n:test-result: ERROR - missing\\n' > tests/test-b.trs\n"
        "\tfalse\n")
    status, text = finish(start(tmp_path, 'step "units" tap . all; summary'))
    assert status == 1
    assert ("tests/test-a: two\n    0x1 != 0x2\n    t.c:6: error: Failure!\n"
            "    repeat: VG_TEST_SEED=7 make -C . check TESTS=tests/test-a\n") in text
    assert "tests/test-b: ended before all its tests were done\n" in text
    assert text.splitlines()[-1] == "2 passed, 2 failed, 0 skipped"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupted(tmp_path, number):
    """What tests started ends, too: also daemons that no longer descend from them, and those that ignore SIGTERM."""
    daemons = tmp_path / "daemons"
    process = start(tmp_path, f"""
        work()
        {{
            (setsid bash -c 'trap "" TERM INT; echo $$ >> {daemons}; while :; do sleep 1; done' &)
            sleep 1000 &
            echo $! >> {daemons}
            wait
        }}
        step "work" work; echo "went on"; summary""")
    while not daemons.exists() or len(daemons.read_text().split()) < 2:
        assert process.poll() is None
        time.sleep(0.01)
    os.kill(process.pid, number)
    status, text = finish(process)
    assert status == 130 and text.splitlines()[-1] == "interrupted" and "went on" not in text
    for pid in daemons.read_text().split():
        assert not os.path.exists(f"/proc/{pid}") or re.search(r"^State:\tZ", open(f"/proc/{pid}/status").read(), re.M)
