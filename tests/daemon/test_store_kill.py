# SPDX-License-Identifier: Apache-2.0
"""The store's writer is killed at any moment: what it called committed is on disk, every file is
sound, and the next one goes on."""
import os
import random
import re
import signal
import sqlite3
import subprocess
import time

import vgpuctl
from settings import HANG_S, full, seed
from vgpud import wait_for

DAY_NS = 86400 * 10**9
MIDNIGHT_NS = 20777 * DAY_NS
VMS = 5
# The minute and the day change while it writes.
FIRST_SECOND = 86400 - 200


def writer():
    build = os.environ.get("VG_BUILDDIR", os.path.join(vgpuctl.ROOT, "build"))
    return os.path.join(build, "tests", "tools", "store-writer")


def committed(log):
    return [int(n) for n in re.findall(r"window committed end_ns=(\d+) vms=5$", log, re.M)]


def databases(directory):
    if not directory.exists():  # killed before that
        return []
    return sorted(p for p in directory.iterdir() if p.name.endswith(".db"))


def query(path, sql):
    db = sqlite3.connect(path)
    try:
        return db.execute(sql).fetchall()
    except sqlite3.OperationalError as error:
        # Killed between the making of the file and that of its tables: nothing is committed there.
        if "no such table" not in str(error):
            raise
        return []
    finally:
        db.close()


def check(directory, ends):
    """Every file is sound; every window that was logged is there with all its VMs."""
    found = {}
    for path in databases(directory):
        assert query(path, "PRAGMA integrity_check") == [("ok",)], path
        if path.name.startswith("ts-"):
            found.update(query(path, "SELECT end_ns, count(*) FROM win JOIN sample ON win = id "
                                     "GROUP BY id"))
    missing = [end for end in ends if found.get(end) != VMS]
    assert not missing, missing
    assert not list(directory.glob("*.corrupt-*"))


def run_until_killed(directory, first, rng, at_start):
    """Until a moment: of its start, or after some window; the ends of what it called committed."""
    log_path = directory.parent / "log"
    with open(log_path, "wb") as log:
        process = subprocess.Popen([writer(), directory, str(first)], stderr=log)
        try:
            if at_start:
                time.sleep(rng.uniform(0, 0.1))
            else:
                n = rng.randrange(1, 100)
                wait_for(lambda: len(committed(log_path.read_text())) >= n, pause=0.001)
                time.sleep(rng.uniform(0, 0.01))
        finally:
            process.send_signal(signal.SIGKILL)
            process.wait()
    return committed(log_path.read_text())


def test_kill(tmp_path):
    rng = random.Random(seed())
    directory = tmp_path / "store"
    ends = set()
    first = FIRST_SECOND
    for number in range(50 if full() else 5):
        # The first of all comes to a window, whatever is drawn.
        logged = run_until_killed(directory, first, rng, at_start=number > 0 and rng.random() < 0.3)
        ends.update(logged)
        check(directory, ends)
        # Some of what was written is written again, as after a crash of who feeds it.
        if logged:
            first = (max(logged) - MIDNIGHT_NS) // 10**9 - rng.randrange(3)
    assert ends

    # One more goes on and ends well: the sums are those of the windows, whatever was killed.
    done = subprocess.run([writer(), directory, str(first), "130"], stderr=subprocess.PIPE,
                          timeout=HANG_S)
    assert done.returncode == 0, done.stderr
    ends.update(committed(done.stderr.decode()))
    check(directory, ends)
    sums = {}
    for path in databases(directory):
        if path.name == "state.db":
            continue
        kind = path.name.split("-")[0]
        for key, *row in query(path, "SELECT key, sum(windows), sum(run_ns), sum(exit_hlt) "
                                     "FROM sample JOIN vm ON vm.id = sample.vm GROUP BY key"):
            known = sums.setdefault(kind, {}).setdefault(key, [0] * len(row))
            for i, number in enumerate(row):
                known[i] += number
        lost = query(path, "SELECT sum(ns), sum(count) FROM lost")[0]
        known = sums[kind].setdefault("lost", [0, 0])
        known[0] += lost[0]
        known[1] += lost[1]
    assert sums["ts"] == sums["ts1m"] == sums["ts1h"]
    assert sums["ts"]["vm-1"][0] == len(ends)
