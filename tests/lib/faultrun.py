# SPDX-License-Identifier: Apache-2.0
"""Runs cases of tests/lib/faulttable.py one after the other, and leaves the lab as it was for the next one."""
import contextlib
import os
import re
import time
import traceback

import faultcheck
import faulttable as table
import labhost
from faultcase import Case
from faultlab import (CONFIG, HOSTS, LASTS_S, PREVIOUS, SLOW, STAYS_S, FaultLab, kill_at_write, make_old_initrd,
                      start_guest, uuid_of)
from faultnova import METADATA, LabCloud
from movelab import has_gpu, remove_guest, running_on, tell
from unixhttp import wait_for

HEADER = "case\toutcome\tseconds without GPU\tseconds\tnote\n"
GUEST = "subject"
# Outcomes that nothing is wrong with.
CLEAN = ("done", "rolled_back", "aborted", "failed", "VM ended", "not reached")
# How long another VM wants the GPU: longer than the lease.
ASKS_S = 25
# A move has ended so long after its fault, or hangs.
END_S = 420


class Runner:
    def __init__(self, scratch, binary, shared=False):
        self.lab = FaultLab(scratch, binary, shared)
        self.kind = None  # of the guest
        self.is_new = False  # the guest has just booted

    def guest(self, kind):
        """The VM on one host with its GPU, as this kind of case wants it; returns the host."""
        wanted = kind if kind in ("cuda", "old-agent", "nova") else "agent"
        hosts = running_on(GUEST)
        if wanted == self.kind and len(hosts) == 1 and (wanted == "nova" or has_gpu(hosts[0], GUEST) and
                                                        faultcheck.has_gpu_in_guest(hosts[0], GUEST)):
            tell(hosts[0], GUEST, "mend")
            return hosts[0]
        self.discard()
        if wanted == "old-agent":
            make_old_initrd()
        start_guest("h1", GUEST, initrd="initrd-old" if wanted == "old-agent" else "initrd",
                    gpu=wanted not in ("cuda", "nova"), metadata=METADATA % GUEST if wanted == "nova" else "")
        self.kind, self.is_new = wanted, True
        if wanted == "nova":
            return "h1"
        if wanted == "cuda":
            tell("h1", GUEST, "cuda on")
            labhost.lab("gpu", "h1", "attach", GUEST)
            wait_for(lambda: int(tell("h1", GUEST, "cuda gpu")[1]) > 0, pause=0.1)
            tell("h1", GUEST, "cuda start 64")
        wait_for(lambda: faultcheck.has_gpu_in_guest("h1", GUEST), pause=0.1)
        return "h1"

    def discard(self):
        remove_guest(GUEST)
        self.kind = None

    def old_side(self, case):
        side = {"old-source": case.source, "old-target": case.target}.get(case.kind)
        if side:
            self.lab.kill(side)
            self.lab.forget(side)
            self.lab.kill(side)
            self.lab.nodes[side].binary = os.path.join(PREVIOUS, "vgpud")
            self.lab.start(side)
            self.lab.nodes[side].old = True

    def leave_old(self, case):
        side = {"old-source": case.source, "old-target": case.target}.get(case.kind)
        if side:
            self.lab.kill(side)
            self.lab.nodes[side].binary = self.lab.binary
            self.lab.forget(side)

    @staticmethod
    def config(case):
        """It is slow where some of the memory is to be copied, and no more."""
        if case.fault == "stranger-asks":
            return CONFIG + "bandwidth=2\nlease=10s\n"
        return CONFIG + (SLOW if case.phase == "copying" else "")

    def run(self, name):
        """One case: its outcome, times and note."""
        source = self.guest(name.split("/")[0])
        if self.kind == "nova":
            self.lab.use_cloud(self.lab.cloud or LabCloud(GUEST, uuid_of(GUEST)))
        case = Case(self.lab, GUEST, source, name)
        self.old_side(case)
        for node in self.lab.nodes.values():
            node.reload(self.config(case))
        if self.is_new:
            self.lab.known(source, GUEST)
            if case.kind == "nova":
                case.cloud.instance.settle(source)  # the one before may have ended in nova's state ERROR
            # Its agent may not run yet.
            wait_for(case.may_move, pause=0.5)
            self.is_new = False
        boot = faultcheck.boot_id(source, GUEST)
        began = time.monotonic()
        case.prepare()
        self.lab.known(source, GUEST)
        if case.fault == "vgpud-source-killed":
            case.node.reload(self.config(case) + f"[fault]\nmove_writes={case.write()}\n")
        watch = faultcheck.Watch(self.lab, GUEST)
        try:
            note = self.happen(case)
            end = self.ended(case)
            if end and end["state"] == "failed":
                ran = faultcheck.obey(self.lab, case.node, case.move)
                note = "; ".join([*([note] if note else []), *(f"`{command}`" for command in ran)])
        finally:
            watch.end()
            case.lift()
        if not end:
            return "wrong", watch.bare_s(), time.monotonic() - began, f"no end: {case.now()['waits_for']}"
        deadly = case.fault in table.DEADLY
        fault = faultcheck.wrong(self.lab, case, boot, deadly, case.fault in table.REBOOTS)
        took = time.monotonic() - began
        if watch.twice:
            fault = "the VM ran on both hosts"
        outcome = end["state"]
        if deadly and not running_on(GUEST):
            outcome = "VM ended"
        if not case.began and case.fault != "none":
            outcome = "not reached"
        late = watch.late(case.began or began, case.lifted or began, case.stays)
        if late and not fault and (case.fault not in table.LATE or not case.said):
            fault = f"its GPU came {late:.0f} s too late, and the move said of that: {case.said}"
        if fault:
            return "wrong", watch.bare_s(), took, f"{end['state']}: {fault}; {end['cause'] or 'no cause'}"
        if case.spoils or deadly:
            self.discard()
        self.leave_old(case)
        return outcome, watch.bare_s(), took, note or (end["cause"] or "").split(";")[0][:160]

    def happen(self, case):
        """The move begins, and the fault in its phase; a fault that ends has ended on return."""
        if case.is_at_write:
            return self.killed(case)
        case.request()
        if case.fault == "none" or not case.reach():
            if case.phase == "opening":
                case.let_in()
            return ""
        case.inject()
        until = time.monotonic() + (STAYS_S if case.stays else ASKS_S if case.fault == "stranger-asks" else LASTS_S)
        while time.monotonic() < until and case.undo:
            with contextlib.suppress(OSError, AssertionError):
                now = case.now()
                case.said = now["waits_for"] or case.said
                if case.stays and now["ended_ns"] and not self.needs_lift(case):
                    break
            time.sleep(0.2)
        case.lift()
        case.lifted = time.monotonic()
        return ""

    def needs_lift(self, case):
        """Has the VM no GPU, so that something is to come yet?"""
        with contextlib.suppress(OSError, AssertionError):
            return case.kind != "nova" and case.now()["gpu"] != "attached"
        return True

    def killed(self, case):
        """At a write to the journal of the one or the other vgpud."""
        host = case.side()
        if host == case.target:
            kill_at_write(case.peer, case.write())
        try:
            case.request()
        except OSError:
            case.move = None
        until = time.monotonic() + 240
        while self.lab.runs(host) and time.monotonic() < until:
            if case.move:
                with contextlib.suppress(OSError):
                    if case.now()["ended_ns"]:
                        break
            time.sleep(0.02)
        if not self.lab.runs(host):
            case.began = case.lifted = time.monotonic()
            # nova moves a VM that never had a GPU.
            case.unplugged = self.kind != "nova" and host == case.source and running_on(GUEST) == [host] and \
                not has_gpu(host, GUEST)
            case.lift()
            self.lab.start(host)
        if not case.move:
            listed = case.node.daemon.get("/v1/migrations?limit=1")["items"]
            if not listed or listed[0]["vm"] != GUEST or listed[0]["id"] in self.seen:
                case.request()
            case.move = case.move or listed[0]
        return ""

    seen = frozenset()

    def ended(self, case):
        until = time.monotonic() + END_S
        while time.monotonic() < until:
            with contextlib.suppress(OSError):
                now = case.now()
                if now["ended_ns"]:
                    self.seen |= {now["id"]}
                    return now
            time.sleep(0.05)
        return None

    def restore(self, outcome):
        """For the next case; a lab that cannot be mended is made anew."""
        try:
            self.lab.sane()
            if outcome == "wrong":
                self.discard()
                for host in HOSTS:
                    self.lab.forget(host)
            self.lab.moves.meet()
        except Exception:  # pylint: disable=broad-except
            traceback.print_exc()
            self.lab.down()
            self.kind = None
            self.lab.up()


def read(path):
    """The lines of a file of results, by case."""
    if not path or not os.path.exists(path):
        return {}
    with open(path, encoding="utf-8") as file:
        rows = [line.rstrip("\n").split("\t") for line in file.readlines()[1:]]
    return {row[0]: row for row in rows}


def run_all(names, out, scratch, binary):
    runner, results = Runner(scratch, binary), []
    try:
        for name in names:
            began = time.monotonic()
            try:
                outcome, bare, took, note = runner.run(name)
            except Exception as error:  # pylint: disable=broad-except
                traceback.print_exc()
                outcome, bare, took = "broken", 0, time.monotonic() - began
                note = f"{type(error).__name__}: {str(error)[:300]}"
            note = re.sub(re.escape(str(scratch)) + r"/lab\d+", "...", note)
            row = f"{name}\t{outcome}\t{bare:.1f}\t{took:.1f}\t{' '.join(note.split())}\n"
            out.write(row)
            out.flush()
            print(row, end="", flush=True)
            results.append(outcome)
            runner.restore("wrong" if outcome == "broken" else outcome)
    finally:
        runner.lab.down()
    return results
