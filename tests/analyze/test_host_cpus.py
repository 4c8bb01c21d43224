# SPDX-License-Identifier: Apache-2.0
"""The CPUs of a host whose recording has records of two of them: those that its head states."""
import json
import subprocess

import pytest

import vgpuctl

PERF = "# ========\n# captured on    : Sat Nov 28 08:10:00 2026\n# nrcpus online : {}\n# nrcpus avail : 99\n# ========\n#\n"
TRACEFS = "# tracer: nop\n#\n# entries-in-buffer/entries-written: 4/4   #P:{}\n#\n"
TRACE_CMD = "CPU 0 is empty\nversion = 7\ncpus={}\n"


def records(begin=100):
    return "".join(
        f"       CPU 0/KVM-{5010 + cpu}    [{cpu:03d}] d..2.  {begin}.{i}0000{cpu}: sched_switch: prev_comm=CPU 0/KVM "
        f"prev_pid={5010 + cpu} prev_prio=120 prev_state=R ==> next_comm=cc1 next_pid=77 next_prio=120\n"
        for i in range(2) for cpu in (3, 5))


def cpus(path, text):
    path.write_text(text)
    done = subprocess.run([vgpuctl.program(), "snapshot", "--host", "h", str(path)], capture_output=True, check=True)
    [host] = json.loads(done.stdout)["hosts"]
    return host["cpus"], vgpuctl.analyze(path).doc()["trace"]["cpus"]


@pytest.mark.parametrize("head", [PERF, TRACEFS, TRACE_CMD])
@pytest.mark.parametrize("number,host", [(8, 8), (8192, 8192), (2, 2), (1, 2), (0, 2), (8193, 2), (10**20, 2)])
def test_what_a_head_states(tmp_path, head, number, host):
    """But no fewer than have records, and no more than a kernel has."""
    assert cpus(tmp_path / "t", head.format(number) + records()) == (host, 2)


def test_without_a_head(tmp_path):
    assert cpus(tmp_path / "t", records()) == (2, 2)


def test_joined_texts(tmp_path):
    text = TRACEFS.format(8) + records() + TRACEFS.format(16) + records(160)
    assert cpus(tmp_path / "t", text) == (16, 2)
