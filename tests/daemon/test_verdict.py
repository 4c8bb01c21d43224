# SPDX-License-Identifier: Apache-2.0
"""The verdict on a move: the real vgpud compares what VMs lost before and after it, on its hosts and on one that
it did not touch. Recordings in which each second is the same fill the stores, so that all figures are known."""
import json
import shutil
import sqlite3
import subprocess
import time

import pytest
import vgpuctl
from certs import Authority
from ctfgen import Dialect, Ev, write_trace
from fakecloud import FakeCloud, Instance
from novalab import UUID, Source, Target
from settings import HANG_S
from vgpud import Daemon, wait_for

pytestmark = [pytest.mark.xdist_group("verdict"),
              pytest.mark.skipif(not shutil.which("certtool"),
                                 reason="certtool (package gnutls-bin) is not installed")]
S = 10**9
LENGTH_S = 60
# For so many ms of each second these have the one CPU, one after the other. Who does not have it waits for it.
VMS = ("CPU 0/KVM", 142, 120), ("CPU 0/KVM", 152, 150)
HOG = ("backup", 900, 900)
CONTENDED = [(VMS[0], 400), (VMS[1], 400), (HOG, 200)]   # the two VMs lose 1.2 cores
DISTURBED = [(VMS[0], 400), (HOG, 600)]                  # the VM loses 0.6 cores
ALONE = [(VMS[0], 1000)]                                 # it loses nothing
EMPTY = [(HOG, 1000)]


def record(directory, name, turns, begin, end):
    """Stores what happened between two times, in seconds since the epoch."""
    epoch = begin - 1000
    events, before, at = [], ("swapper/0", 0, 0), 998 * S
    # Without any record of this kind it would not be known who waited.
    events.append(Ev(at, 0, "sched_wakeup", 0, 0, "swapper/0",
                     {"comm": "backup", "tid": 900, "prio": 20, "target_cpu": 0}))
    while at <= (end - epoch) * S:
        for (comm, tid, pid), ms in turns:
            events.append(Ev(at, 0, "sched_switch", before[1], before[2], before[0], {
                "prev_comm": before[0], "prev_tid": before[1], "prio": 20, "prev_state": 0,
                "next_comm": comm, "next_tid": tid}))
            before = comm, tid, pid
            at += ms * 10**6
    trace = directory / f"trace-{name}-{begin}" / "night"
    trace.parent.mkdir()
    write_trace(str(trace), Dialect(clock_offset_s=epoch), [e for e in events if e.t <= (end - epoch) * S])
    with Daemon(directory, "--speed", "max", replay=trace) as daemon:
        daemon.replayed()
        daemon.stop()


class Site:
    """h1 has moved a VM to h2; h3 has no part in it."""

    def __init__(self, directory):
        self.hosts = {}
        for name in ("h2", "h3"):
            (directory / name).mkdir()
            self.hosts[name] = Target(directory / name)
            if name != "h2":
                self.hosts[name].daemon.stop()
                self.hosts[name].config = self.hosts[name].config.replace("host_name=h2", f"host_name={name}")
                self.hosts[name].start()
        (directory / "h1").mkdir()
        self.cloud = FakeCloud(Instance(UUID, "h1", "h1.example"))
        h3 = self.hosts["h3"].peer().split("[peers]", maxsplit=1)[0].replace("[peer h2]", "[peer h3]")
        self.source = Source(directory / "h1", self.hosts["h2"], self.cloud, peer=h3,
                             actions=f"verdict_time={LENGTH_S}s\n")
        done = self.source.ended(self.source.move())
        assert done["state"] == "done" and done["verdict"] is None
        self.move = done["id"]
        for node in (self.source, *self.hosts.values()):
            node.daemon.stop()
        self.now = int(time.time()) // 10 * 10

    def began(self, case):
        """When the move of a case began; it took five seconds."""
        return self.now - 600 - 300 * case

    def record(self, case, name, before, after):
        began = self.began(case)
        directory = self.source.directory if name == "h1" else self.hosts[name].directory
        record(directory, name, before, began - LENGTH_S - 5, began)
        record(directory, name, after, began + 10, began + 20 + LENGTH_S)

    def add_move(self, case, **members):
        """A move like the real one, at the time of the case."""
        ident = f"move-{case:016x}"
        with sqlite3.connect(f"{self.source.daemon.state}/state.db") as db:
            (text,) = db.execute("SELECT document FROM migration WHERE id = ?", (self.move,)).fetchone()
            document = {**json.loads(text), "id": ident, "made_ns": self.began(case) * S,
                        "ended_ns": (self.began(case) + 5) * S, **members}
            for step in document["steps"]:
                step["began_ns"] = step["ended_ns"] = self.began(case) * S
            db.execute("INSERT INTO migration SELECT ?, uuid, ?, active, NULL, NULL, ? FROM migration WHERE id = ?",
                       (ident, self.began(case) * S, json.dumps(document), self.move))
        db.close()
        return ident

    def add_plan(self):
        plan = {"schema": "vgpud.plan", "version": 1, "id": "plan-0123456789abcdef", "input_hash": "0" * 64,
                "config_hash": "0" * 64, "rule": "complement", "verdict": "nothing-to-do", "actions": [],
                "proxies": [], "skipped": [], "why": [], "notes": []}
        with sqlite3.connect(f"{self.source.daemon.state}/state.db") as db:
            db.execute("INSERT INTO plan VALUES (?, ?, ?, ?)", (plan["id"], 1, plan["verdict"], json.dumps(plan)))
        db.close()
        return plan["id"]

    def start(self):
        for node in (*self.hosts.values(), self.source):
            node.start()
        wait_for(lambda: {p["state"] for p in self.source.daemon.get("/v1/peers")["items"]} == {"reachable"})

    def verdict(self, ident):
        return wait_for(lambda: self.source.now(ident)["verdict"])

    def close(self):
        self.cloud.close()
        for node in (self.source, *self.hosts.values()):
            node.daemon.kill()


@pytest.fixture(name="site", scope="module")
def site_fixture(tmp_path_factory):
    site = Site(tmp_path_factory.mktemp("site"))
    yield site
    site.close()


def cores(ns):
    return pytest.approx(ns * S, abs=S // 100)


def counted(daemon, verdict):
    text = daemon.request("GET", "/metrics")[2].decode()
    (line,) = [line for line in text.splitlines()
               if line.startswith(f'vgpud_move_verdicts_total{{verdict="{verdict}"}}')]
    return float(line.split()[1])


@pytest.mark.smoke
def test_verdicts(site):
    """Each time of each host is a recording that is replayed by itself."""
    # The VM does not disturb the other one any more. On h3, nothing changes.
    site.record(0, "h1", CONTENDED, ALONE)
    site.record(0, "h2", EMPTY, ALONE)
    site.record(0, "h3", DISTURBED, DISTURBED)
    # The same, but h3 has lost less since then, too.
    site.record(1, "h1", CONTENDED, ALONE)
    site.record(1, "h2", EMPTY, ALONE)
    site.record(1, "h3", DISTURBED, ALONE)
    # The other VM of h1 is gone, too.
    site.record(2, "h1", CONTENDED, EMPTY)
    site.record(2, "h2", EMPTY, ALONE)
    plan = {"plan_id": site.add_plan(), "rule": "complement", "predicted": True,
            "predicted_gain_ns_per_s": S, "group": 1, "group_moves": 1}
    helped, in_vain, left = (site.add_move(case, **(plan if case == 0 else {})) for case in range(3))
    never = site.add_move(3)
    site.start()

    verdict = site.verdict(helped)
    assert verdict["result"] == "helped", verdict
    assert (verdict["hosts"], verdict["others"], verdict["seconds"]) == (["h1", "h2"], ["h3"], LENGTH_S)
    assert verdict["before_ns_per_s"] == cores(1.2) and verdict["after_ns_per_s"] == 0
    assert verdict["others_ns_per_s"] == 0 and verdict["gain_ns_per_s"] == cores(1.2)
    assert 0 < verdict["low_ns_per_s"] <= verdict["gain_ns_per_s"] <= verdict["high_ns_per_s"]
    assert (verdict["predicted"], verdict["predicted_ns_per_s"]) == (True, S)
    # No vgpud here tells how long GPU requests wait.
    assert not verdict["gpu_measured"] and verdict["gpu_before_ns_per_s"] is None

    verdict = site.verdict(in_vain)
    assert verdict["result"] == "no-effect", verdict
    assert verdict["before_ns_per_s"] == cores(1.2) and verdict["after_ns_per_s"] == 0
    # Two hosts of which each would have lost 0.6 cores less.
    assert verdict["others_ns_per_s"] == cores(-1.2) and verdict["gain_ns_per_s"] == cores(0)
    assert verdict["predicted"] is False and verdict["predicted_ns_per_s"] is None

    verdict = site.verdict(left)
    assert verdict["result"] == "cannot-tell" and not verdict["measured"], verdict
    assert "host 'h1'" in verdict["why"] and "it had 2 VMs before and 0 after" in verdict["why"]
    assert all(verdict[name] is None for name in ("before_ns_per_s", "after_ns_per_s", "gain_ns_per_s"))

    verdict = site.verdict(never)
    assert verdict["result"] == "cannot-tell", verdict
    assert verdict["why"] == "host 'h1' was measured for only 0 of 60 s before the move"

    daemon = site.source.daemon
    wait_for(lambda: [counted(daemon, v) for v in ("helped", "no-effect", "worse", "cannot-tell")] == [1, 1, 0, 2])
    listed = {m["id"]: m["verdict"] for m in daemon.get("/v1/migrations")["items"]}
    assert listed[helped]["result"] == "helped" and listed[site.move] is None
    shown = site.source.show(helped)
    assert "verdict: helped: the VMs of its hosts lose 1.20 cores less" in shown, shown
    assert "lost 1.20 cores in the 60 s before and 0.00 in the 60 s after" in shown
    assert "the plan predicted +1.00" in shown
    status, _, refused = daemon.request("POST", "/v1/migrations", json.dumps({"vm": "vm-nova", "to": "h2"}), {
        "Content-Type": "application/json", "X-Vgpud-Forecast": '{"plan_id": "plan-1"}'})
    assert status == 400 and b"X-Vgpud-Forecast: rule" in refused, refused
    rows = {row["rule"]: row for row in json.loads(site.source.ctl("policy", "report", "--since=-7d", "-o", "json"))}
    assert {k: rows["complement"][k] for k in ("moves", "helped", "compared", "predicted_ns_per_s")} == {
        "moves": 1, "helped": 1, "compared": 1, "predicted_ns_per_s": S}
    assert rows["complement"]["achieved_ns_per_s"] == cores(1.2)
    assert {k: rows["(no plan)"][k] for k in ("moves", "no-effect", "cannot-tell", "none", "compared")} == {
        "moves": 4, "no-effect": 1, "cannot-tell": 2, "none": 1, "compared": 0}
    # Of moves whose gain is not known there is no sum, which is not 0.
    assert rows["(no plan)"]["achieved_ns_per_s"] is None
    (line,) = [line.split() for line in site.source.ctl("plan", "show", plan["plan_id"]).splitlines() if helped in line]
    assert line[:8] == [helped, "vm-nova", "h1", "h2", "done", "+1.00", "+1.20", "helped"], line


def test_a_host_that_cannot_be_reached(site):
    """It is tried again. A verdict that was given stays, also when vgpud is started anew."""
    known = {m["id"]: m["verdict"] for m in site.source.daemon.get("/v1/migrations")["items"]}
    site.source.daemon.stop()
    late = site.add_move(4)
    site.hosts["h2"].daemon.stop()
    site.source.daemon = Daemon(site.source.directory, config=site.source.config)
    verdict = site.verdict(late)
    assert verdict["result"] == "cannot-tell", verdict
    assert verdict["why"].startswith("the figures of host 'h2' cannot be read: ") or "0 of 60 s" in verdict["why"]
    now = {m["id"]: m["verdict"] for m in site.source.daemon.get("/v1/migrations")["items"]}
    assert {ident: now[ident] for ident in known} == known
