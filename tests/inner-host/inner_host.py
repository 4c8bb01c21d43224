# SPDX-License-Identifier: Apache-2.0
"""vgpud on a real KVM host, which is emulated (README): its BPF programs against LTTng and
`vgpuctl analyze` for the same seconds of the same VMs, and LTTng live out of that host. Not named
test_*: runs only when it is asked for (tools/check --host)."""
import os
import re
import socket
import subprocess
from collections import Counter

import pytest

from emulator import Emulator, EmulatorFault, Store
from vgpuctl import ROOT, analyze, program as vgpuctl_program
from vgpud import Daemon, program, wait_for

pytestmark = [pytest.mark.host, pytest.mark.xdist_group("inner-host")]

SCRIPT = os.path.join(ROOT, "tests", "inner-host", "inner-host.sh")
NS = 10**9
VMS = ("vm-busy", "vm-duty", "vm-idle")
# Of what two measured independently.
TOLERANCE = 0.03
# What may fall on the other side of the first and the last window's edge: vgpud reads some
# milliseconds after it.
EDGE_NS, EDGE_EVENTS = 50_000_000, 10
TIMES = ("observed_ns", "run_ns", "guest_ns", "preempt_ns", "wake_wait_ns")
COUNTS = ("preemptions", "entries", "wakeups", "blocks", "switches_out")
# With everything that an emulated machine on a busy one may need.
BOOT_S, GUESTS_S, RECORD_S, LIVE_S, END_S = 120, 400, 300, 120, 240
LIVE_WINDOWS = 10
BOOTS = 3


class InnerHost(Emulator):
    """Its port 5344 is one of this machine's."""

    def __init__(self, directory):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        super().__init__(directory, [SCRIPT, "boot", str(directory), str(self.port), program(), vgpuctl_program()])

    def end_live(self):
        self.process.stdin.write(b"enough\n")
        self.process.stdin.flush()

    def url(self):
        return f"net://127.0.0.1:{self.port}/host/inner/live"


def read_live(host, directory):
    """Events that babeltrace2 prints of the live session, by name; those of vCPUs only."""
    path = os.path.join(directory, "babeltrace2.txt")

    def events():
        with open(path, encoding="utf-8", errors="replace") as file:
            return Counter(re.findall(r" (\w+): .*procname = \"CPU 0/KVM\"", file.read()))

    def enough():
        found = events()
        return found if found["kvm_x86_entry"] > 1000 and found["sched_switch"] > 200 else None

    with open(path, "w", encoding="utf-8") as out:
        viewer = subprocess.Popen(["babeltrace2", "--input-format=lttng-live", host.url()],
                                  stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT)
    try:
        return wait_for(enough, LIVE_S, 0.2)
    finally:
        viewer.kill()
        viewer.wait()


def feed_vgpud(host, directory):
    """What a vgpud outside, which reads the session, shows of the host. Its store stays in
    directory/state."""
    with Daemon(directory, config=f"[lttng]\nurl={host.url()}\nhost=other\n") as daemon:
        wait_for(lambda: daemon.get("/v1/host")["measurement"]["windows"] >= LIVE_WINDOWS, LIVE_S,
                 0.2)
        shown = daemon.get("/v1/host")
        daemon.stop()
    return shown


def boot(directory):
    inner = InnerHost(directory)
    try:
        inner.wait("HOST-UP", BOOT_S)
        inner.wait("VGPUD-UP", GUESTS_S)
        inner.wait("LIVE-UP", RECORD_S)
        inner.live_events = read_live(inner, inner.directory)
        os.mkdir(os.path.join(inner.directory, "outside"))
        inner.outside = feed_vgpud(inner, os.path.join(inner.directory, "outside"))
        inner.end_live()
        inner.wait("HANDED-OUT", END_S)
        inner.process.wait(END_S)
    finally:
        inner.kill()
        os.remove(os.path.join(inner.directory, "initramfs"))
    subprocess.run([SCRIPT, "unpack", inner.directory], check=True)
    os.remove(os.path.join(inner.directory, "out.img"))
    return inner


@pytest.fixture(scope="module")
def host(tmp_path_factory):
    """One boot, from which all tests take what they need."""
    built = subprocess.run([SCRIPT, "build"], stdin=subprocess.DEVNULL, capture_output=True,
                           text=True, check=False)
    if built.returncode == 77:
        pytest.skip(built.stderr.strip())
    assert built.returncode == 0, built.stdout[-3000:] + built.stderr[-3000:]
    for i in range(BOOTS):
        try:
            return boot(tmp_path_factory.mktemp("inner-host"))
        except EmulatorFault as fault:
            print(f"boot {i + 1}: {fault}")
    pytest.fail(f"a kernel died in each of {BOOTS} boots")


# ---- both accounts of the same seconds ----

class Both:
    def __init__(self, host):
        recording = host.path("record", "kernel")
        vm_map = host.path("record", "vm-map.txt")
        trace = analyze(recording).doc()["trace"]
        # Whole windows inside of the recording, with one to spare on either side.
        self.begin_ns = (trace["begin_ns"] // NS + 2) * NS
        self.end_ns = (trace["end_ns"] // NS - 1) * NS
        doc = analyze(recording, "--vm-map", vm_map, "--begin", self.begin_ns, "--end",
                      self.end_ns).doc()
        self.trace = doc["trace"]
        self.lttng = {vm["name"]: vm for vm in doc["vms"]}
        store = Store(host.path("store"), trace["clock_offset_ns"])
        self.windows = []
        for db, win in store.windows():
            raw_ns = win["end_ns"] - trace["clock_offset_ns"]
            end_ns = round(raw_ns / NS) * NS
            # LTTng and vgpud asked for the offset of the clock at different times.
            assert abs(raw_ns - end_ns) < NS // 100
            if self.begin_ns < end_ns <= self.end_ns:
                self.windows.append((db, win))
        self.bpf = store.sums(self.windows)


@pytest.fixture(scope="module")
def both(host):
    return Both(host)


def close(got, want, edge):
    return abs(got - want) <= TOLERANCE * want + edge


def test_the_host_measures_by_bpf(host):
    shown = host.document("host.json")
    measurement = shown["measurement"]
    assert measurement["source"] == "bpf" and measurement["confidence"] == 1
    assert {key: m["source"] for key, m in measurement["measures"].items()} == \
           dict.fromkeys(measurement["measures"], "bpf")
    assert measurement["lost_events"] == 0 and measurement["missed"] == 0
    assert {vm["name"]: vm["guest_known"] for vm in host.document("vms.json")} == \
           dict.fromkeys(VMS, True)
    assert "VGPUD-ENDED 0" in host.console()


def test_the_recording_is_whole(host, both):
    shown = host.document("record.json")
    assert shown["with"] == "lttng" and shown["lost"] == 0 and shown["notes"] == []
    assert [vm["name"] for vm in sorted(shown["vms"], key=lambda vm: vm["uuid"])] == list(VMS)
    assert both.trace["problems"] == [] and both.trace["lost"] == 0
    assert both.trace["discontinuities"] == 0


def test_the_same_seconds(both):
    n = (both.end_ns - both.begin_ns) // NS
    assert n >= 20
    assert len(both.windows) == n and sum(win["lost_events"] for _, win in both.windows) == 0
    assert {name: vm["windows"] for name, vm in both.bpf.items()} == dict.fromkeys(VMS, n)
    assert set(both.lttng) == set(VMS)


@pytest.mark.parametrize("name", VMS)
def test_preemptions_and_guest_time_agree(both, name):
    bpf, lttng = both.bpf[name], both.lttng[name]
    for key in ("preemptions", "guest_ns"):
        assert lttng[key] > 0
        assert close(bpf["sums"][key], lttng[key], 0), (key, bpf["sums"][key], lttng[key])
    assert lttng["guest_known"] and all(flags & 1 for flags in bpf["flags"])


@pytest.mark.parametrize("name", VMS)
def test_everything_else_agrees(both, name):
    bpf, lttng = both.bpf[name], both.lttng[name]
    for keys, edge in ((TIMES, EDGE_NS), (COUNTS, EDGE_EVENTS)):
        for key in keys:
            assert close(bpf["sums"][key], lttng[key], edge), (key, bpf["sums"][key], lttng[key])
    for key in set(bpf["exits"]) | set(lttng["exits"]):
        want = lttng["exits"].get(key, 0)
        assert close(bpf["exits"][key], want, EDGE_EVENTS), (key, bpf["exits"][key], want)
    lost = {loss["aggressor"]: loss for loss in lttng["lost_to"]}
    assert "host:unknown" not in lost and "host:unknown" not in bpf["lost"]
    for key in set(lost) | set(bpf["lost"]):
        want = lost.get(key, {"ns": 0, "count": 0})
        ns, count = bpf["lost"].get(key, (0, 0))
        assert close(ns, want["ns"], EDGE_NS), (key, ns, want)
        assert close(count, want["count"], EDGE_EVENTS), (key, count, want)


def test_exits_have_their_class(both):
    """What these guests do: they are interrupted, sleep by HLT and set their timer by an MSR."""
    for name in VMS:
        exits = both.bpf[name]["exits"]
        assert exits["interrupt"] > 0 and exits["msr"] > 0
        assert exits["other"] <= 0.01 * sum(exits.values())
    assert both.bpf["vm-idle"]["exits"]["hlt"] > 0


def test_who_shares_a_cpu_loses_to_the_others(both):
    for name in ("vm-busy", "vm-duty"):
        others = sum(ns for key, (ns, _) in both.bpf[name]["lost"].items() if key in VMS)
        waited = both.bpf[name]["sums"]["preempt_ns"] + both.bpf[name]["sums"]["wake_wait_ns"]
        assert others > 0.8 * waited


# ---- live ----

def test_live_events_reach_babeltrace2(host):
    assert host.live_events["kvm_x86_exit"] > 1000 and host.live_events["sched_wakeup"] > 0


def test_live_session_feeds_vgpud(host):
    """The figures of a vgpud outside are those of the same seconds of what the relay daemon has
    written in there, and so not far from those of the vgpud inside."""
    assert host.outside["name"] == "inner"
    measurement = host.outside["measurement"]
    assert (measurement["source"], measurement["series"]) == ("lttng", "lttng")
    assert measurement["lost_events"] == 0
    relay = host.path("relay")
    offset_ns = analyze(relay).doc()["trace"]["clock_offset_ns"]
    store = Store(os.path.join(host.directory, "outside", "state"), offset_ns)
    windows = store.windows()[-LIVE_WINDOWS + 2:]
    begin_ns, end_ns = windows[0][1]["begin_ns"], windows[-1][1]["end_ns"]
    assert end_ns - begin_ns == len(windows) * NS
    got = store.sums(windows)
    doc = analyze(relay, "--begin", begin_ns - offset_ns, "--end", end_ns - offset_ns).doc()
    assert len(doc["vms"]) == len(VMS)
    for vm in doc["vms"]:
        sums = got[vm["name"]]["sums"]
        assert {key: sums[key] for key in (*TIMES, *COUNTS)} == \
               {key: vm[key] for key in (*TIMES, *COUNTS)}
        assert +got[vm["name"]]["exits"] == Counter(vm["exits"])


# ---- the figures ----

def row(what, bpf, lttng):
    difference = "-" if not lttng else f"{100 * (bpf - lttng) / lttng:+.2f} %"
    if what.endswith(", s"):
        bpf, lttng = (f"{value / NS:.3f}" for value in (bpf, lttng))
    else:
        bpf, lttng = (f"{value:,}" for value in (bpf, lttng))
    return f"{what} | {bpf} | {lttng} | {difference} |"


def rows_of(bpf, lttng):
    for key in ("preemptions", "entries", "wakeups"):
        yield row(key, bpf["sums"][key], lttng[key])
    for what, key in (("guest", "guest_ns"), ("run", "run_ns"),
                      ("wait after preemption", "preempt_ns"),
                      ("wait after wakeup", "wake_wait_ns")):
        yield row(what + ", s", bpf["sums"][key], lttng[key])
    for key in sorted(set(+bpf["exits"]) | set(lttng["exits"])):
        yield row(f"exits: {key}", bpf["exits"][key], lttng["exits"].get(key, 0))
    for loss in sorted(lttng["lost_to"], key=lambda loss: -loss["ns"]):
        yield row(f"lost to {loss['aggressor']}, s",
                  bpf["lost"].get(loss["aggressor"], (0, 0))[0], loss["ns"])


def test_figures_are_shown(host, both):
    lines = [f"Windows of vgpud (BPF) and recording (LTTng, vgpuctl analyze) of the same "
             f"{(both.end_ns - both.begin_ns) // NS} s:", "",
             "| VM | what | BPF | LTTng | difference |", "| --- | --- | --- | --- | --- |"]
    for name in VMS:
        lines += [f"| {name} | {line}" for line in rows_of(both.bpf[name], both.lttng[name])]
    measurement = host.outside["measurement"]
    lines += ["", f"Live: {sum(host.live_events.values()):,} events of vCPUs in babeltrace2, "
              f"{measurement['windows']} windows in a vgpud outside."]
    path = os.path.join(os.environ.get("VG_BUILDDIR", os.path.join(ROOT, "build")),
                        "inner-host-figures.md")
    with open(path, "w", encoding="utf-8") as file:
        file.write("\n".join(lines) + "\n")
    assert len(lines) > 3 * 12
