# SPDX-License-Identifier: Apache-2.0
"""An emulated host that a script boots, and the store of a vgpud in it. tests/inner-host and tests/kernels use
both."""
import glob
import json
import os
import sqlite3
import subprocess
import time
from collections import Counter


class EmulatorFault(Exception):
    """A kernel in there, the host's or a guest's, has died of a fault that only the emulator has
    (tests/inner-host/README)."""


class Emulator:
    """Markers on its console show the progress."""

    def __init__(self, directory, command):
        self.directory = str(directory)
        self.console_path = os.path.join(self.directory, "console")
        with open(self.console_path, "wb") as console:
            # The shell becomes the emulator.
            self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=console, stderr=console)

    def console(self):
        with open(self.console_path, "rb") as file:
            return file.read().decode(errors="replace")

    def wait(self, marker, timeout):
        until = time.monotonic() + timeout
        while marker not in self.console():
            text = self.console()
            if "HOST-FAILED a guest died" in text or "Kernel panic" in text:
                raise EmulatorFault(text[-6000:])
            assert "HOST-FAILED" not in text and self.process.poll() is None, text[-6000:]
            assert time.monotonic() < until, f"no {marker} in {timeout} s\n{text[-6000:]}"
            time.sleep(0.2)

    def kill(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self.process.stdin.close()

    def path(self, *names):
        return os.path.join(self.directory, "out", *names)

    def text(self, *names):
        with open(self.path(*names), encoding="utf-8") as file:
            return file.read()

    def document(self, *names):
        return json.loads(self.text(*names))


class Store:
    """Windows of a vgpud, by their end as the raw clock of the measured host has it."""

    def __init__(self, directory, clock_offset_ns):
        self.offset_ns = clock_offset_ns
        self.dbs = []
        for path in sorted(glob.glob(os.path.join(directory, "ts-*.db"))):
            db = sqlite3.connect(path)
            db.row_factory = sqlite3.Row
            self.dbs.append(db)
        assert self.dbs

    def windows(self):
        return [(db, win) for db in self.dbs
                for win in db.execute("SELECT * FROM win ORDER BY end_ns")]

    def sums(self, windows):
        """Of each VM: its sums, exits by class, losses by aggressor."""
        vms = {}
        for db, win in windows:
            names = dict(db.execute("SELECT id, name FROM vm"))
            aggressors = dict(db.execute("SELECT id, name FROM aggressor"))
            for row in db.execute("SELECT * FROM sample WHERE win = ?", [win["id"]]):
                vm = vms.setdefault(names[row["vm"]], {"sums": Counter(), "exits": Counter(),
                                                       "lost": {}, "windows": 0, "flags": []})
                vm["windows"] += 1
                vm["flags"].append(row["flags"])
                for key in row.keys():
                    if key.startswith("exit_"):
                        vm["exits"][key[5:].replace("_", "-")] += row[key]
                    else:
                        vm["sums"][key] += row[key]
            for row in db.execute("SELECT * FROM lost WHERE win = ?", [win["id"]]):
                lost = vms[names[row["vm"]]]["lost"]
                ns, count = lost.get(aggressors[row["aggressor"]], (0, 0))
                lost[aggressors[row["aggressor"]]] = (ns + row["ns"], count + row["count"])
        return vms
