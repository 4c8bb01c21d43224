# SPDX-License-Identifier: Apache-2.0
"""vgpud is killed at any moment: what it said is stored is there, and the next one goes on."""
import os
import random
import shutil
import sqlite3
import threading
import time

import pytest
from settings import full, seed
from vgpud import Daemon, wait_for, write_text_trace

S = 10**9
WINDOW_NS = S // 10
SECONDS = 600
PERIOD_MS = 20
VMS = ("qemu-142", "qemu-152")
CONFIG = "[daemon]\nwindow=100ms\n[api]\nwrites_per_min=100000\nclient_requests=1000000\n"
# The recording is older than what is kept of live windows: a restart must not remove it.
AGE_S = 100 * 86400


@pytest.fixture
def trace(tmp_path):
    """An old recording in whose middle the day ends; the path, when it begins, the run time per VM.
    """
    path = tmp_path / "trace.txt"
    run_ns = write_text_trace(path, SECONDS, PERIOD_MS)
    midnight = int(time.time()) // 86400 * 86400 - AGE_S
    begin = midnight - SECONDS // 2
    os.utime(path, (begin, begin))
    return path, begin * S, dict(zip(VMS, run_ns))


def day_of(end_ns):
    return time.strftime("ts-%Y%m%d.db", time.gmtime(end_ns // S))


def databases(state):
    return {name: os.path.join(state, name) for name in sorted(os.listdir(state))
            if name.endswith(".db")}


def query(path, sql):
    db = sqlite3.connect(path)
    try:
        return db.execute(sql).fetchall()
    finally:
        db.close()


def check(daemon, scratch, ends):
    """Of a copy, logs and all, so that vgpud itself repairs what it finds."""
    shutil.rmtree(scratch, ignore_errors=True)
    if not os.path.exists(daemon.state):
        assert not ends
        return
    shutil.copytree(daemon.state, scratch)
    found = {}
    for name, path in databases(scratch).items():
        assert query(path, "PRAGMA integrity_check") == [("ok",)], name
        if name.startswith("ts-") and query(path, "SELECT count(*) FROM sqlite_schema") != [(0,)]:
            for end_ns, vms in query(path, "SELECT end_ns, count(*) FROM win JOIN sample ON "
                                           "win = id GROUP BY id"):
                assert end_ns not in found, f"{end_ns} is in {found[end_ns]} and in {name}"
                found[end_ns] = (name, vms)
    missing = [end for end in sorted(ends) if found.get(end) != (day_of(end), len(VMS))]
    assert not missing, (missing[:10], [found.get(end) for end in missing[:10]])
    assert not [name for name in os.listdir(scratch) if "corrupt" in name]


def period(begin_ns):
    return f"since={begin_ns // S - 1}&until={begin_ns // S + SECONDS + 1}"


def check_restart(directory, trace, begin_ns, ends):
    """One that goes so slowly that it does not write again what was there."""
    with Daemon(directory, "--speed", "1", replay=trace, config=CONFIG) as daemon:
        wait_for(lambda: daemon.request("GET", "/readyz")[0] == 200)
        # Without a window ever stored there is nothing to answer from.
        for vm in VMS if ends else ():
            rows = daemon.get(f"/v1/vms/{vm}/samples?{period(begin_ns)}&step=raw")["items"]
            known = [row["end_ns"] for row in rows]
            assert known == sorted(set(known))
            assert ends <= set(known), sorted(ends - set(known))[:10]
            for row in rows:
                assert row["observed_ns"] == WINDOW_NS and row["begin_ns"] == row["end_ns"] - \
                    WINDOW_NS, row
        # Its own first windows count as well, and it ends no better.
        ends.update(daemon.committed())
        daemon.kill()


def run_until_killed(directory, trace, rng, at_start):
    """As fast as it goes, until a moment: of its start, or after some window."""
    with Daemon(directory, "--speed", "max", replay=trace, config=CONFIG, wait=False) as daemon:
        if at_start:
            time.sleep(rng.uniform(0, 0.1))
        else:
            n = rng.randrange(1, SECONDS * S // WINDOW_NS)
            wait_for(lambda: len(daemon.committed()) >= n, pause=0.001)
            time.sleep(rng.uniform(0, 0.01))
        daemon.kill()
        return daemon


@pytest.mark.drawn("long")
def test_a_kill_at_any_moment_loses_nothing_that_was_committed(tmp_path, trace):
    path, begin_ns, run_ns = trace
    rng = random.Random(seed())
    ends = set()
    for number in range(50 if full() else 3):
        # The first of all comes to a window, whatever is drawn.
        daemon = run_until_killed(tmp_path, path, rng, at_start=number > 0 and rng.random() < 0.3)
        ends.update(daemon.committed())
        print(f"seed {seed()} round {number}: {len(daemon.committed())} windows, "
              f"{len(ends)} in all")
        check(daemon, tmp_path / "scratch", ends)
        check_restart(tmp_path, path, begin_ns, ends)
        check(daemon, tmp_path / "scratch", ends)
    assert ends

    with Daemon(tmp_path, "--speed", "max", replay=path, config=CONFIG) as daemon:
        daemon.replayed()
        daemon.stop()
        assert len(daemon.committed()) == SECONDS * S // WINDOW_NS
    check_sums(daemon.state, begin_ns, run_ns)


def check_sums(state, begin_ns, run_ns):
    """Each window once, and the sums of each kind of file are those of the recording."""
    wins, sums = [], {}
    for name, path in databases(state).items():
        if name == "state.db":
            continue
        kind = name.split("-")[0]
        if kind == "ts":
            wins += query(path, "SELECT begin_ns, end_ns FROM win ORDER BY end_ns")
        for vm, *row in query(path, "SELECT key, sum(sample.windows), sum(observed_ns), "
                                    "sum(run_ns) FROM sample JOIN vm ON vm.id = vm GROUP BY key"):
            known = sums.setdefault(kind, {}).setdefault(vm, [0, 0, 0])
            sums[kind][vm] = [a + b for a, b in zip(known, row)]
    assert wins == [(t, t + WINDOW_NS)
                    for t in range(begin_ns, begin_ns + SECONDS * S, WINDOW_NS)]
    want = {vm: [len(wins), SECONDS * S, run_ns[vm]] for vm in VMS}
    assert sums == {"ts": want, "ts1m": want, "ts1h": want}


class Planner(threading.Thread):
    """Has plans made until there is nobody left who makes them."""

    def __init__(self, daemon):
        super().__init__()
        self.daemon_, self.made, self.refused = daemon, [], []

    def run(self):
        try:
            while True:
                status, _, plan = self.daemon_.post("/v1/plans", {"dry_run": True})
                if status == 201:
                    self.made.append(plan["id"])
                elif status != 200:
                    self.refused.append((status, plan))
        except (OSError, ValueError):
            return
        except Exception as error:  # told by the test itself
            self.refused.append(error)


@pytest.mark.drawn("long")
def test_a_plan_that_was_answered_outlives_a_kill(tmp_path, trace):
    path, _, _ = trace
    rng = random.Random(seed())
    made = []
    for number in range(30 if full() else 3):
        # A minute long: plans are new as long as the replay goes on.
        with Daemon(tmp_path, "--speed", "10", replay=path, config=CONFIG) as daemon:
            wait_for(lambda: daemon.get("/v1/host")["measurement"]["windows"])
            for plan in made:
                assert daemon.get(f"/v1/plans/{plan}")["id"] == plan
            planners = [Planner(daemon) for _ in range(2)]
            for planner in planners:
                planner.start()
            n = rng.randrange(20)
            wait_for(lambda: sum(len(planner.made) for planner in planners) > n or
                     any(planner.refused for planner in planners), pause=0.001)
            time.sleep(rng.uniform(0, 0.02))
            daemon.kill()
            for planner in planners:
                planner.join()
                assert not planner.refused, planner.refused[:3]
                made += planner.made
        print(f"seed {seed()} round {number}: {len(made)} plans")
        shutil.rmtree(tmp_path / "scratch", ignore_errors=True)
        shutil.copytree(daemon.state, tmp_path / "scratch")
        state = tmp_path / "scratch" / "state.db"
        assert query(state, "PRAGMA integrity_check") == [("ok",)]
        stored = {row[0] for row in query(state, "SELECT id FROM plan")}
        assert set(made) <= stored, sorted(set(made) - stored)
        # Two that were asked for in the same window are the same plan.
        assert len(made) < 1000
    with Daemon(tmp_path, "--speed", "1", replay=path, config=CONFIG) as daemon:
        listed = {plan["id"] for plan in daemon.get("/v1/plans")["items"]}
        assert set(made) <= listed
        daemon.stop()
