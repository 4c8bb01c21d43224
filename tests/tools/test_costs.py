# SPDX-License-Identifier: Apache-2.0
"""tools/costs.py: when a run costs too much, and what it reports then."""
import os
import subprocess
import sys

import pytest
from vgpuctl import ROOT

JOBS = ["job\t-\t1.0", "job\t-\t3.0"]
RUN = ["build with gcc\t-\t100", "units\t-\t40", "units\ttests/unit/test-a\t30", "units\ttests/unit/test-b\t10"]


def costs(directory, verb, *lines):
    (directory / "run").write_text("\n".join([*JOBS, *lines]) + "\n")
    return subprocess.run([sys.executable, os.path.join(ROOT, "tools", "costs.py"), verb, directory / "run",
                           directory / "kept"], capture_output=True, text=True, check=False)


@pytest.fixture
def kept(tmp_path):
    assert costs(tmp_path, "set", *RUN).returncode == 0
    return tmp_path


def test_what_is_kept(kept):
    """Seconds over the mean of the jobs, sorted."""
    lines = [line for line in (kept / "kept").read_text().splitlines() if line[0] != "#"]
    assert lines == ["build with gcc\t-\t50.00", "units\t-\t20.00",
                     "units\ttests/unit/test-a\t15.00", "units\ttests/unit/test-b\t5.00"]


@pytest.mark.parametrize("factor, status", [(0.5, 0), (1.29, 0), (1.31, 1)])
@pytest.mark.parametrize("part", ["build with gcc", "units"])
def test_limit(kept, part, factor, status):
    lines = []
    for line in RUN:
        *key, value = line.split("\t")
        lines.append("\t".join([*key, str(float(value) * (factor if key[0] == part else 1))]))
    done = costs(kept, "check", *lines)
    assert done.returncode == status, done.stdout
    assert ("These have grown" in done.stdout) == bool(status)


def test_a_build_that_was_cached_is_not_compared(kept):
    done = costs(kept, "check", *[line for line in RUN if not line.startswith("build")])
    assert done.returncode == 0
    assert "not compared: build with gcc" in done.stdout and "of the builds" not in done.stdout


def test_two_runs(kept):
    """Each is measured by its own job: the second one ran on a machine twice as slow."""
    (kept / "second").write_text("job\t-\t4.0\nsanitized\t-\t80\nsanitized\ttests/unit/test-a\t8\n")
    tool = os.path.join(ROOT, "tools", "costs.py")
    (kept / "run").write_text("\n".join([*JOBS, *RUN]) + "\n")
    subprocess.run([sys.executable, tool, "set", kept / "run", kept / "second", kept / "kept"], check=True)
    assert "sanitized\t-\t20.00" in (kept / "kept").read_text()
    done = subprocess.run([sys.executable, tool, "check", kept / "run", kept / "gone", kept / "kept"],
                          capture_output=True, text=True, check=False)
    assert done.returncode == 0 and "not compared: sanitized" in done.stdout


def test_no_run(kept):
    done = subprocess.run([sys.executable, os.path.join(ROOT, "tools", "costs.py"), "check", kept / "gone",
                           kept / "kept"], capture_output=True, text=True, check=False)
    assert done.returncode == 1 and "run tools/check" in done.stderr


def test_what_grew(kept):
    done = costs(kept, "check", *RUN[:1], "units\t-\t80", "units\ttests/unit/test-a\t31", "units\ttests/unit/test-b\t24",
                 "units\ttests/unit/test-new\t25")
    reported = [line.strip() for line in done.stdout.splitlines() if line.startswith("  ")]
    assert done.returncode == 1
    assert reported == ["units: 40.0, was 20.0: about 40 s more here",
                    "tests/unit/test-new (units): 12.5, was 0.0: about 25 s more here",
                    "tests/unit/test-b (units): 12.0, was 5.0: about 14 s more here"]
