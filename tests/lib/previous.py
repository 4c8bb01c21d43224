# SPDX-License-Identifier: Apache-2.0
"""Programs of the previous version, for tests of old beside new, which are marked drawn("previous"): tools/check
runs them in full runs only. tools/previous builds the programs once."""
import functools
import os
import subprocess

import pytest
from vgpuctl import ROOT

BUILD_S = 3600  # on a machine that is very busy


@functools.cache
def build():
    """Why there is none, or None."""
    done = subprocess.run([os.path.join(ROOT, "tools", "previous")], capture_output=True, text=True, timeout=BUILD_S,
                          check=False)
    assert done.returncode in (0, 77), done.stdout + done.stderr
    return done.stdout.strip() if done.returncode == 77 else None


def program(name):
    """The path of a program of the previous version; the test is skipped where there is none."""
    reason = build()
    if reason:
        pytest.skip(reason)
    return os.path.join(ROOT, "build", "previous", name)
