#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""vgpud's sources of figures on each kernel of Debian's and Ubuntu's archives, in an emulated host with AMD-V: BPF,
perf events and /proc against a recording of the kernel's tracefs for the same seconds of the same VMs. Not named
test_*: only tools/check --kernels runs it. VG_KERNELS names the kernels; without it, all run. As a program, it prints
the table of docs/platforms.md from the results in build/kernels."""
import glob
import json
import os
import subprocess
import sys

import pytest

HERE = os.path.dirname(os.path.abspath(__file__))
if __name__ == "__main__":
    sys.path.insert(0, os.path.join(HERE, "..", "lib"))

from emulator import Emulator, EmulatorFault, Store  # noqa: E402
from vgpuctl import ROOT, analyze, program as vgpuctl_program  # noqa: E402
from vgpud import program  # noqa: E402

pytestmark = [pytest.mark.host, pytest.mark.xdist_group("kernels")]

SCRIPT = os.path.join(HERE, "kernels.sh")
RESULTS = os.path.join(os.environ.get("VG_BUILDDIR", os.path.join(ROOT, "build")), "kernels")
NS = 10**9
VMS = ("vm-busy", "vm-duty", "vm-idle")
SOURCES = ("bpf", "perf", "procfs")
# Figures and their parts in both accounts.
FIGURES = {"run": ("run_ns",), "wait": ("preempt_ns", "wake_wait_ns"), "guest": ("guest_ns",),
           "preemptions": ("preemptions",), "entries": ("entries",)}
# Figures of each source, and their tolerance. By perf events, guest time differs by up to 100 us for each entry here,
# probably because the other tracers run between an entry and its record. /proc has a wait when it ends. It has guest
# time in ticks, which the table shows but nothing asserts.
COMMON = dict.fromkeys(FIGURES, 0.03)
WANTED = {"bpf": {**COMMON, "guest": 0.05}, "perf": {**COMMON, "guest": 0.1},
          "procfs": {"run": 0.03, "wait": 0.15, "guest": None}}
# vgpud may read this late at both ends; windows before and after a later reading do not count. The second limit is
# for a busy machine, where the first one leaves too few windows.
LATE_NS = (NS // 50, NS // 4)
WINDOWS = 10
EDGE_EVENTS = 10
# With everything that an emulated machine on a busy one may need.
BOOT_S, MEASURE_S, RECORD_S, END_S = 600, 1200, 900, 600
BOOTS = 3


def kernels():
    """Names such as 6.12-cloud, newest first."""
    if "VG_KERNELS" in os.environ:
        return os.environ["VG_KERNELS"].split()
    listed = subprocess.run([SCRIPT, "list"], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    return [line.split()[0] for line in reversed(listed.stdout.splitlines())]


class KernelHost(Emulator):
    def __init__(self, name, directory):
        self.name = name
        super().__init__(directory, [SCRIPT, "boot", name, str(directory), program(), vgpuctl_program()])

    def run(self):
        try:
            self.wait("HOST-UP", BOOT_S)
            self.wait("VGPUD-UP", MEASURE_S)
            self.wait("RECORDED", RECORD_S)
            self.wait("HANDED-OUT", END_S)
            self.process.wait(END_S)
        finally:
            self.kill()
            os.remove(os.path.join(self.directory, "initramfs"))
        subprocess.run([SCRIPT, "unpack", self.directory], check=True)
        os.remove(os.path.join(self.directory, "out.img"))


class Comparison:
    """The windows of each vgpud that are wholly inside of the recording, and the recording for these seconds."""

    def __init__(self, host):
        self.host = host
        self.offset_ns = int(host.text("clock_offset_ns"))
        self.trace_path = host.path("record", "trace.txt")
        self.vm_map = host.path("record", "vm-map.txt")
        trace = analyze(self.trace_path).doc()["trace"]
        assert trace["lost"] == 0, trace
        self.begin_ns, self.end_ns = trace["begin_ns"] + NS, trace["end_ns"] - NS

    def reason(self, source):
        """The reason if a source is not used."""
        for part in self.host.document(source, "host.json")["parts"]:
            for shown in part.get("sources", []):
                if part["name"] == "collector:live" and shown["name"] == source and shown["state"] != "used":
                    return shown["reason"] or shown["state"]
        return None

    def on_time(self, store, inside):
        """The windows from the first to the last boundary that was read on time, and the limit for that. An emulated
        vgpud is sometimes half a second late: its window then shows more than its length, and the next one less."""
        late_ns = [0]
        for db, win in inside:
            busy = store.sums([(db, win)])[VMS[0]]["sums"]["observed_ns"]
            late_ns.append(late_ns[-1] + busy - (win["end_ns"] - win["begin_ns"]))
        for limit_ns in LATE_NS:
            good = [i for i, late in enumerate(late_ns) if late - min(late_ns) <= limit_ns]
            if good[-1] - good[0] >= WINDOWS:
                break
        return inside[good[0]:good[-1]], limit_ns

    def errors(self, source):
        """VM -> figure -> (figure of the source, of the recording); the number of seconds; the limit of late
        readings."""
        store = Store(self.host.path(source, "store"), self.offset_ns)
        inside = [(db, win) for db, win in store.windows()
                  if win["begin_ns"] - self.offset_ns >= self.begin_ns and win["end_ns"] - self.offset_ns <= self.end_ns]
        inside, late_ns = self.on_time(store, inside)
        assert len(inside) >= WINDOWS, f"{source} has {len(inside)} windows"
        begin_ns, end_ns = inside[0][1]["begin_ns"], inside[-1][1]["end_ns"]
        got = store.sums(inside)
        doc = analyze(self.trace_path, "--vm-map", self.vm_map, "--begin", begin_ns - self.offset_ns, "--end",
                      end_ns - self.offset_ns).doc()
        pairs = {}
        for vm in doc["vms"]:
            pairs[vm["name"]] = {figure: (sum(got[vm["name"]]["sums"][key] for key in keys), sum(vm[key] for key in keys))
                                 for figure, keys in FIGURES.items() if figure in WANTED[source]}
        return pairs, (end_ns - begin_ns) / NS, late_ns

    def result(self):
        auto = self.host.document("auto", "host.json")["measurement"]
        shown = {"kernel": self.host.name, "release": self.host.text("release").strip(), "auto": auto["source"],
                 "not_measured": {key: measure["reason"] for key, measure in auto["measures"].items()
                                  if measure["source"] is None}, "sources": {}}
        for source in SOURCES:
            reason = self.reason(source)
            if reason:
                shown["sources"][source] = {"reason": reason}
                continue
            pairs, seconds, late_ns = self.errors(source)
            shown["sources"][source] = {"seconds": seconds, "late_ns": late_ns, "pairs": pairs, "lost": self.host.document(
                source, "host.json")["measurement"]["lost_events"]}
        return shown


def relative(got, want):
    return abs(got - want) / want if want else float(got != 0)


@pytest.fixture(name="result", scope="module", params=kernels() if __name__ != "__main__" else [])
def result_fixture(request, tmp_path_factory):
    """The comparison on one kernel, which also goes into a file."""
    name = request.param
    built = subprocess.run([SCRIPT, "build", name], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if built.returncode == 77:
        pytest.skip(built.stderr.strip())
    assert built.returncode == 0, built.stdout[-3000:] + built.stderr[-3000:]
    for i in range(BOOTS):
        host = KernelHost(name, tmp_path_factory.mktemp(name))
        try:
            host.run()
            break
        except EmulatorFault as fault:
            print(f"boot {i + 1}: {fault}")
    else:
        pytest.fail(f"a kernel died in each of {BOOTS} boots")
    shown = Comparison(host).result()
    write(shown)
    return shown


def write(shown):
    os.makedirs(RESULTS, exist_ok=True)
    with open(os.path.join(RESULTS, shown["kernel"] + ".json"), "w", encoding="utf-8") as file:
        json.dump(shown, file, indent=1)


@pytest.mark.parametrize("source", SOURCES)
def test_a_source_agrees_with_the_recording(result, source):
    shown = result["sources"][source]
    if "reason" in shown:
        # What a kernel lacks is reported, and the next source measures.
        assert source != "procfs" and result["auto"] in SOURCES[SOURCES.index(source) + 1:], shown
        return
    assert set(shown["pairs"]) == set(VMS)
    for name, figures in shown["pairs"].items():
        for figure, (got, want) in figures.items():
            if WANTED[source][figure] is None:
                continue
            edge = EDGE_EVENTS if figure in ("preemptions", "entries") else 2 * shown["late_ns"]
            assert abs(got - want) <= WANTED[source][figure] * want + edge, (name, figure, got, want)


def test_the_best_source_is_used(result):
    best = next(source for source in SOURCES if "reason" not in result["sources"][source])
    assert result["auto"] == best


# ---- the table ----

def cell(shown):
    """The largest error of any VM, for each figure."""
    if "reason" in shown:
        return f"not available: {shown['reason']}"
    worst = {figure: max(relative(*figures[figure]) for figures in shown["pairs"].values())
             for figure in next(iter(shown["pairs"].values()))}
    return "ran: " + ", ".join(f"{figure} {100 * error:.1f} %" for figure, error in worst.items())


def table():
    results = []
    for path in glob.glob(os.path.join(RESULTS, "*.json")):
        with open(path, encoding="utf-8") as file:
            results.append(json.load(file))
    yield "| kernel | BPF | perf events | /proc |"
    yield "| --- | --- | --- | --- |"
    for shown in sorted(results, key=lambda shown: [int(part) for part in shown["kernel"].split("-")[0].split(".")]):
        yield f"| {shown['release']} | " + " | ".join(cell(shown["sources"][source]) for source in SOURCES) + " |"


if __name__ == "__main__":
    print("\n".join(table()))
