# SPDX-License-Identifier: Apache-2.0
"""The program perf of this machine."""
import functools
import shutil
import subprocess


def works(*args):
    return subprocess.run(["perf", *args], stdin=subprocess.DEVNULL, capture_output=True, check=False).returncode == 0


@functools.lru_cache(maxsize=None)
def missing():
    """Why it cannot record here, or None."""
    if not shutil.which("perf"):
        return "perf is not installed (Debian: linux-perf, Ubuntu: linux-tools-generic)"
    # Ubuntu's is a script, which wants the perf of the running kernel.
    if not works("version"):
        return "perf does not run with this kernel (Ubuntu: linux-tools-$(uname -r))"
    if not works("record", "-a", "-e", "sched:sched_switch", "-o", "/dev/null", "true"):
        return "perf cannot record sched:sched_switch of all CPUs here"
    return None
