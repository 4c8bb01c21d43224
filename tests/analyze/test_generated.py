# SPDX-License-Identifier: Apache-2.0
"""Traces made here, in every dialect, against the oracle: figures must be equal to the last
nanosecond."""
import itertools
import json
import os
import random
import shutil
import subprocess
from dataclasses import replace

import pytest

from settings import HANG_S, full, seed
from ctfgen import Dialect, Ev, write_trace
from hostsim import simulate
from oracle import FIGURES, Oracle
from vgpuctl import analyze, assert_matches, check_identities

ALL = ("pid", "tid", "procname")
DIALECTS = [dict(style=s, order=o, header=h)
            for s, o, h in itertools.product(("lttng25", "lttng213"), ("le", "be"),
                                             ("compact", "large"))]
DIALECTS += [dict(style="perf", order=o) for o in ("le", "be")]


def name_of(options):
    return "-".join(map(str, options.values()))


def seen_by(dialect, events):
    """The events as a reader of this dialect can know them: without what it does not record."""
    out = []
    for ev in events:
        have = ALL if dialect.style == "perf" else dialect.contexts
        ev = Ev(ev.t, ev.cpu, ev.name, ev.tid if "tid" in have else -1,
                ev.pid if "pid" in have else -1,
                ev.comm if "procname" in have and dialect.style != "perf" else "", dict(ev.f))
        if dialect.style == "perf":
            ev.f.pop("child_pid", None)
        # Fixed-size comm fields keep 15 bytes.
        out.append(ev)
    return out


def make(tmp_path, dialect, **spec):
    """LTTng closes all last packets when it stops; else one that is full by chance cannot be told from one that
    others followed."""
    spec.setdefault("seed", seed())
    if dialect.style != "perf":
        spec.setdefault("statedump", True)
    events = simulate(**spec)
    write_trace(str(tmp_path / "t"), dialect, events, t_end=None if dialect.style == "perf" else events[-1].t)
    return Oracle(seen_by(dialect, events), release=dialect.kernel_release)


@pytest.mark.parametrize("options", DIALECTS, ids=name_of)
def test_dialect(tmp_path, options):
    isa = 2 if options["order"] == "be" else 1
    truth = make(tmp_path, Dialect(**options), events=4000, isa=isa)
    doc = analyze(tmp_path / "t", "--tasks").doc()
    assert doc["trace"]["events"] == truth.n_events
    assert doc["trace"]["problems"] == []
    assert (doc["trace"]["lost"], doc["trace"]["lost_packets"]) == (0, 0)
    assert (doc["trace"]["begin_ns"], doc["trace"]["end_ns"]) == (truth.first, truth.last)
    assert truth.contradictions == 0
    assert doc["trace"]["discontinuities"] == 0
    assert_matches(doc, truth.measure())


@pytest.mark.parametrize("n", range(60 if full() else 3))
def test_random_hosts(tmp_path, n):
    rng = random.Random(seed() + n)
    dialect = Dialect(natural_align=rng.random() < 0.4, packetised=rng.random() < 0.4,
                      id_base=rng.choice((0, 0, 28, 400)), index=rng.random() < 0.7,
                      packet_bytes=rng.choice((600, 4096, 16384)), **rng.choice(DIALECTS))
    truth = make(tmp_path, dialect, seed=seed() + n, events=rng.randrange(10, 5000),
                 cpus=rng.randrange(1, 5), vms=rng.randrange(1, 4), vcpus=rng.randrange(1, 4),
                 isa=rng.choice((1, 2)), migrate=rng.random() < 0.7,
                 waking=rng.random() < 0.5, step=rng.choice((2_000, 40_000, 30_000_000)))
    doc = analyze(tmp_path / "t", "--tasks").doc()
    assert doc["trace"]["problems"] == []
    assert_matches(doc, truth.measure())


@pytest.mark.parametrize("contexts", [("pid", "tid"), ("tid",), ("tid", "procname"), ()],
                         ids=lambda c: "+".join(c) or "none")
@pytest.mark.parametrize("statedump", [False, True], ids=["", "statedump"])
def test_contexts_off(tmp_path, contexts, statedump):
    truth = make(tmp_path, Dialect(contexts=contexts), statedump=statedump, events=3000)
    assert_matches(analyze(tmp_path / "t", "--tasks").doc(), truth.measure())


def test_only_waking_recorded(tmp_path):
    truth = make(tmp_path, Dialect(), wakeup=False, waking=True, forks=False, events=3000)
    assert sum(v["wakeups"] for v in truth.measure()["vms"]) > 0
    assert_matches(analyze(tmp_path / "t").doc(), truth.measure())


def test_waking_ignored_beside_wakeup(tmp_path):
    truth = make(tmp_path, Dialect(), wakeup=True, waking=True, events=3000)
    assert_matches(analyze(tmp_path / "t").doc(), truth.measure())


def test_no_kvm_events(tmp_path):
    truth = make(tmp_path, Dialect(), kvm=False, events=2000)
    doc = analyze(tmp_path / "t").doc()
    assert_matches(doc, truth.measure())
    assert doc["vms"] and all(vm["guest_known"] is False for vm in doc["vms"])


def test_guest_known(tmp_path):
    make(tmp_path, Dialect(), events=2000)
    assert all(vm["guest_known"] is True for vm in analyze(tmp_path / "t").doc()["vms"])


# TASK_STATE_MAX of the version: include/linux/sched.h.
@pytest.mark.parametrize("release,bit,dead", [
    ("3.13.0-24-generic", 0x400, 64), ("4.4.0-210-generic", 0x800, 64 + 16),
    ("4.9.0-13-amd64", 0x1000, 64 + 32), ("4.14.0-3-amd64", 0x100, 0x20),
    ("5.10.0-30-amd64", 0x100, 0x10), ("6.1.0-18-amd64", 0x100, 0x10)])
def test_prev_state_of_kernel(tmp_path, release, bit, dead):
    style = "lttng25" if release.startswith("3") else "lttng213"
    truth = make(tmp_path, Dialect(style=style, kernel_release=release), events=3000,
                 preempt_bit=bit, extended_exit_state=dead)
    assert_matches(analyze(tmp_path / "t", "--tasks").doc(), truth.measure())


def shifted(ev):
    """As kernels 4.15 to 4.19 print it: 1 << fls(state) where 1 << (fls(state) - 1) was meant."""
    state = ev.f.get("prev_state", 0x100)
    if state != 0x100:
        ev.f["prev_state"] = 1 << state.bit_length()
    return ev


@pytest.mark.parametrize("style", ["lttng213", "perf"])
def test_prev_state_one_bit_high(tmp_path, style):
    """Every state of the recording is wrong in the same way; the first says so."""
    events = simulate(seed=seed(), events=3000, cpus=1)
    idle_ends = next(i for i, ev in enumerate(events)
                     if ev.name == "sched_switch" and ev.f["prev_tid"] == 0)
    dialect = Dialect(style=style, kernel_release="4.15.0-20-generic")
    truth = Oracle(seen_by(dialect, events[idle_ends:]))
    write_trace(str(tmp_path / "t"), dialect, [shifted(ev) for ev in events[idle_ends:]])
    doc = analyze(tmp_path / "t", "--tasks").doc()
    assert sum(vm["preemptions"] for vm in doc["vms"]) > 0
    assert_matches(doc, truth.measure())


def test_sleeping_idle_task_of_a_kernel_that_has_no_such_fault(tmp_path):
    """One record that cannot be true does not turn the meaning of all others."""
    events = simulate(seed=seed(), events=3000, cpus=1)
    first = next(ev for ev in events if ev.name == "sched_switch" and ev.f["prev_tid"] == 0)
    first.f["prev_state"] = 1
    write_trace(str(tmp_path / "t"), Dialect(kernel_release="6.1.0-18-amd64"), events)
    truth = Oracle(seen_by(Dialect(), events)).measure()
    assert_matches(analyze(tmp_path / "t", "--tasks").doc(), truth)


@pytest.mark.parametrize("freq,quantum", [(500_000_000, 2), (100_000_000, 10)])
def test_clock_frequency(tmp_path, freq, quantum):
    truth = make(tmp_path, Dialect(freq=freq), quantum=quantum, events=2000)
    assert_matches(analyze(tmp_path / "t").doc(), truth.measure())


def test_clock_frequency_that_does_not_divide(tmp_path):
    """2.4 GHz: a time stamp may be off by a nanosecond, an interval by two."""
    truth = make(tmp_path, Dialect(freq=2_400_000_000), events=2000)
    doc = analyze(tmp_path / "t").doc()
    check_identities(doc)
    for got, want in zip(doc["vms"], truth.measure()["vms"]):
        assert got["entries"] == want["entries"]
        for key in ("run_ns", "preempt_ns", "wake_wait_ns", "guest_ns", "observed_ns"):
            assert abs(got[key] - want[key]) <= 2 * 2000, key


@pytest.mark.parametrize("options,want", [
    (dict(clock_offset=1_795_196_741_626_957_730), 1_795_196_741_626_957_730),
    (dict(clock_offset=250_000_000, clock_offset_s=1_700_000_000, freq=500_000_000),
     1_700_000_000_500_000_000),
    (dict(), 0)])
def test_clock_offset_is_reported_not_added(tmp_path, options, want):
    truth = make(tmp_path, Dialect(**options), events=500, quantum=2)
    doc = analyze(tmp_path / "t").doc()
    assert doc["trace"]["clock_offset_ns"] == want
    assert (doc["trace"]["begin_ns"], doc["trace"]["end_ns"]) == (truth.first, truth.last)
    assert_matches(doc, truth.measure())


def test_long_silence(tmp_path):
    """Seconds without a record: compact headers must switch to full time stamps."""
    truth = make(tmp_path, Dialect(), events=400, step=150_000_000)
    assert_matches(analyze(tmp_path / "t").doc(), truth.measure())


def test_part(tmp_path):
    truth = make(tmp_path, Dialect(), events=5000)
    rng = random.Random(seed())
    times = [ev_t for th in truth.threads for a, b, *_ in th.intervals for ev_t in (a, b)]
    for _ in range(40 if full() else 8):
        # Half of the limits fall exactly on a record: begin < t <= end.
        pick = (lambda: rng.choice(times)) if rng.random() < 0.5 else \
            (lambda: rng.randrange(truth.first, truth.last))
        begin, end = sorted((pick(), pick()))
        if begin == end:
            continue
        doc = analyze(tmp_path / "t", "--begin", begin, "--end", end).doc()
        assert (doc["trace"]["begin_ns"], doc["trace"]["end_ns"]) == (begin, end)
        want = truth.measure(begin, end)
        # A VM without any record up to the end of the part need not be there.
        want["vms"] = [v for v in want["vms"] if v["observed_ns"] or v["entries"]]
        doc["vms"] = [v for v in doc["vms"] if v["observed_ns"] or v["entries"]]
        for vm in want["vms"] + doc["vms"]:
            vm["vcpus"] = [v for v in vm["vcpus"] if v["observed_ns"]]
        assert_matches(doc, want)


def windows(result):
    assert result.rc == 0, result.err
    return [json.loads(line) for line in result.out.splitlines() if line.strip()]


def test_windows_sum_up(tmp_path):
    truth = make(tmp_path, Dialect(), events=4000, step=2_000_000)
    lines = windows(analyze(tmp_path / "t", "--per-window"))
    spans = [(w["begin_ns"], w["end_ns"]) for w in lines]
    assert spans[0][0] == truth.first and spans[-1][1] == truth.last
    assert len(spans) >= 3
    for (_, end), (begin, _) in zip(spans, spans[1:]):
        assert end == begin
    for begin, end in spans[:-1]:
        assert end - begin == 1_000_000_000
    totals = {}
    for line in lines:
        for vm in line["vms"]:
            for vcpu in vm["vcpus"]:
                total = totals.setdefault((vm["name"], vcpu["tid"]), dict.fromkeys(FIGURES, 0))
                for key in FIGURES:
                    total[key] += vcpu[key]
            waits = vm["preempt_ns"] + vm["wake_wait_ns"]
            assert sum(e["ns"] for e in vm["lost_to"]) == waits
    for vm in truth.measure()["vms"]:
        for vcpu in vm["vcpus"]:
            got = totals[(vm["name"], vcpu["tid"])]
            assert got == {key: vcpu[key] for key in FIGURES}, (vm["name"], vcpu["tid"])


def test_each_window_equals_the_part(tmp_path):
    truth = make(tmp_path, Dialect(), events=3000, step=2_000_000)
    for line in windows(analyze(tmp_path / "t", "--per-window"))[1:]:
        want = truth.measure(line["begin_ns"], line["end_ns"])
        for vm in line["vms"]:
            other = next(v for v in want["vms"] if v["pid"] == vm["pid"])
            got = {e["aggressor"]: (e["ns"], e["count"]) for e in vm["lost_to"]}
            assert got == other["lost_to"]
            for key in ("run_ns", "guest_ns", "preempt_ns", "wake_wait_ns", "entries", "blocks"):
                assert vm[key] == other[key], (line["begin_ns"], vm["name"], key)


def test_vm_map(tmp_path):
    uuid = "7c1f7a3e-5d0b-4c5e-9f6b-0d6f5d1f2a33"
    (tmp_path / "map").write_text(f"200 web {uuid}\n220 db\n", encoding="utf-8")
    events = simulate(seed=seed(), events=2000)
    write_trace(str(tmp_path / "t"), Dialect(), events)
    truth = Oracle(events, vm_map={200: "web", 220: "db"})
    doc = analyze(tmp_path / "t", "--vm-map", tmp_path / "map").doc()
    assert_matches(doc, truth.measure())
    assert {v["name"]: v["uuid"] for v in doc["vms"]}["web"] == uuid
    aggressors = {e["aggressor"] for vm in doc["vms"] for e in vm["lost_to"]}
    assert aggressors & {"web", "db"}


@pytest.mark.parametrize("text", ["x web\n", "200\n", "99999999999 web\n", "-4 web\n"])
def test_vm_map_malformed(tmp_path, text):
    make(tmp_path, Dialect(), events=100)
    (tmp_path / "map").write_text(text, encoding="utf-8")
    result = analyze(tmp_path / "t", "--vm-map", tmp_path / "map")
    assert result.rc in (1, 2) and "map" in result.err and result.out == ""


NAMED = (("vm_200", "web 1"), ("vm_200_uuid", "7C1F7A3E-5D0B-4C5E-9F6B-0D6F5D1F2A33"),
         ("vm_220", "db"), ("vm_no", "x"))


@pytest.mark.parametrize("style", ["lttng213", "perf"])
def test_vms_that_the_trace_names(tmp_path, style):
    dialect = Dialect(style=style, env=NAMED)
    events = simulate(seed=seed(), events=2000)
    write_trace(str(tmp_path / "t"), dialect, events)
    truth = Oracle(seen_by(dialect, events), vm_map={200: "web 1", 220: "db"})
    doc = analyze(tmp_path / "t").doc()
    assert_matches(doc, truth.measure())
    assert doc["trace"]["problems"] == []
    assert {v["name"]: v["uuid"] for v in doc["vms"]}["web 1"] == NAMED[1][1].lower()


def test_vm_map_goes_before_the_names_of_the_trace(tmp_path):
    make(tmp_path, Dialect(env=NAMED), events=2000)
    (tmp_path / "map").write_text("200 mine\n", encoding="utf-8")
    doc = analyze(tmp_path / "t", "--vm-map", tmp_path / "map").doc()
    by_pid = {v["pid"]: (v["name"], v["uuid"]) for v in doc["vms"]}
    assert by_pid[200] == ("mine", None) and by_pid[220] == ("db", None)


def test_names_of_the_trace_that_no_vm_can_have(tmp_path):
    bad = (("vm_200", "self"), ("vm_0", "x"), ("vm_220", "x" * 256))
    make(tmp_path, Dialect(env=bad), events=2000)
    doc = analyze(tmp_path / "t").doc()
    assert all(v["name"] == f"qemu-{v['pid']}" for v in doc["vms"])
    assert len(doc["trace"]["problems"]) == 3
    for problem in doc["trace"]["problems"]:
        assert problem["file"].endswith("/metadata") and "has no name" in problem["what"]
    check_identities(doc)


def test_names_of_two_traces_of_one_clock(tmp_path):
    two_traces(tmp_path, Dialect(env=(("vm_200", "web"), ("vm_220", "db"))),
               Dialect(env=(("vm_200", "web"), ("vm_220", "other"))))
    doc = analyze(tmp_path / "t").doc()
    by_pid = {v["pid"]: v["name"] for v in doc["vms"]}
    assert (by_pid[200], by_pid[220]) == ("web", "db")
    assert ["'other'" in p["what"] for p in doc["trace"]["problems"]] == [True]


@pytest.mark.skipif(not shutil.which("babeltrace2"), reason="there is no babeltrace2")
@pytest.mark.parametrize("style", ["lttng213", "perf"])
def test_what_babeltrace2_has_written(tmp_path, style):
    """Whoever recorded it: the packets are babeltrace2's own."""
    make(tmp_path, Dialect(style=style), events=4000)
    version = subprocess.run(["babeltrace2", "--version"], stdout=subprocess.PIPE, text=True, check=True).stdout
    ctf = "" if " 2.0." in version else ',ctf-version="1"'
    subprocess.run(["babeltrace2", tmp_path / "t", "--component=sink.ctf.fs",
                    f'--params=path="{tmp_path}/again",assume-single-trace=yes,quiet=yes{ctf}'],
                   check=True, timeout=HANG_S)
    want, got = (analyze(tmp_path / name).doc() for name in ("t", "again"))
    assert got["trace"]["problems"] == []
    assert got["vms"] == want["vms"]


def test_statedump_names_processes(tmp_path):
    """Without contexts only the statedump says which thread belongs to which process."""
    make(tmp_path, Dialect(contexts=()), events=3000, statedump=True, vms=2, vcpus=2)
    doc = analyze(tmp_path / "t").doc()
    assert [(v["name"], v["pid"], len(v["vcpus"])) for v in doc["vms"]] == \
        [("qemu-200", 200, 2), ("qemu-220", 220, 2)]


def backwards(events, rng, how_many):
    """Pairs of neighbours of one CPU, the second of which is written with an earlier stamp.
    Returns the events to write and the events as they must be taken (at the first one's time)."""
    written, taken, changed = [], [], 0
    order = list(range(1, len(events)))
    rng.shuffle(order)
    chosen = set()
    for i in order:
        if (len(chosen) < how_many and events[i].cpu == events[i - 1].cpu
                and not {i - 1, i, i + 1} & chosen):
            chosen.add(i)
    for i, ev in enumerate(events):
        if i in chosen:
            back = rng.choice((1, 1000, 3_000_000))
            written.append(replace(ev, t=events[i - 1].t - back))
            taken.append(replace(ev, t=events[i - 1].t))
            changed += 1
        else:
            written.append(ev)
            taken.append(ev)
    return written, taken, changed


@pytest.mark.parametrize("options", [dict(style="perf"), dict(style="perf", order="be"),
                                     dict(style="lttng213"), dict(header="large", style="lttng25")],
                         ids=name_of)
def test_time_runs_backwards(tmp_path, options):
    dialect = Dialect(backwards=True, **options)
    events = simulate(seed=seed(), events=3000)
    written, taken, changed = backwards(events, random.Random(seed()), 20)
    layout = write_trace(str(tmp_path / "t"), dialect, written)
    doc = analyze(tmp_path / "t").doc()
    assert changed == 20
    assert doc["trace"]["events"] == len(events)
    problems = doc["trace"]["problems"]
    assert problems and {os.path.basename(p["file"]) for p in problems} <= set(layout.files)
    assert_matches(doc, Oracle(seen_by(dialect, taken)).measure())


def test_packets_out_of_order(tmp_path):
    """Two packets of a stream swapped on disk: all its events are there, in file order."""
    dialect = Dialect(style="perf", order="le", packet_bytes=8192)
    events = simulate(seed=seed(), events=1500)
    layout = write_trace(str(tmp_path / "t"), dialect, events)
    path = tmp_path / "t" / "perf_stream_0"
    data, packets = bytearray(path.read_bytes()), layout.files["perf_stream_0"]
    a, b = packets[1], packets[2]
    assert a.size == b.size
    data[a.offset:a.offset + a.size], data[b.offset:b.offset + b.size] = \
        data[b.offset:b.offset + b.size], data[a.offset:a.offset + a.size]
    path.write_bytes(data)
    doc = analyze(tmp_path / "t").doc()
    check_identities(doc)
    assert doc["trace"]["events"] == len(events)


def two_traces(tmp_path, one, two, **spec):
    events = simulate(seed=seed(), events=4000, cpus=4, **spec)
    write_trace(str(tmp_path / "t" / "a"), one, [e for e in events if e.cpu < 2])
    write_trace(str(tmp_path / "t" / "deep" / "b"), two, [e for e in events if e.cpu >= 2])
    return events


def test_traces_of_one_clock_are_merged(tmp_path):
    events = two_traces(tmp_path, Dialect(), Dialect(style="lttng25", order="be"))
    doc = analyze(tmp_path / "t", "--tasks").doc()
    assert "traces" not in doc
    assert doc["trace"]["events"] == len(events)
    assert_matches(doc, Oracle(events).measure())


def test_two_paths_of_one_clock_are_merged(tmp_path):
    events = two_traces(tmp_path, Dialect(), Dialect())
    doc = analyze(tmp_path / "t" / "a", tmp_path / "t" / "deep").doc()
    assert_matches(doc, Oracle(events).measure())


OTHER_CLOCK = Dialect(clock_uuid="11111111-2222-4333-8444-555555555555", clock_offset=77)


def test_traces_of_two_clocks_stay_apart(tmp_path):
    hosts = [simulate(seed=seed() + n, events=2000 + n) for n in (0, 1)]
    for name, dialect, events in zip("ab", (Dialect(), OTHER_CLOCK), hosts):
        write_trace(str(tmp_path / "t" / name), dialect, events)
    doc = analyze(tmp_path / "t").doc()
    assert len(doc["traces"]) == 2
    docs = {d["trace"]["events"]: d for d in doc["traces"]}
    for events in hosts:
        assert_matches(docs[len(events)], Oracle(events).measure())


@pytest.mark.parametrize("option", ["--begin", "--end"])
def test_part_of_two_clocks_is_refused(tmp_path, option):
    two_traces(tmp_path, Dialect(), OTHER_CLOCK)
    result = analyze(tmp_path / "t", option, 5_010_000_000)
    assert result.rc in (1, 2) and result.out == "" and "clock" in result.err


def test_events_discarded_at_the_end_of_a_packet(tmp_path):
    """LTTng's buffer was full from 2 s on; the packet was closed when there was room again."""
    def switch(t, prev, new):
        return Ev(int(t * 1e9), 0, "sched_switch", prev, prev, "", {
            "prev_comm": "", "prev_tid": prev, "prev_state": 0, "next_comm": "", "next_tid": new})
    events = [switch(1, 0, 100), switch(1.5, 100, 101), switch(2, 101, 100), switch(9, 102, 101),
              switch(10, 101, 102)]
    write_trace(str(tmp_path / "t"), Dialect(), events, discard={(0, 1): 50},
                flush=[1_500_000_000, 9_000_000_000])
    doc = analyze(tmp_path / "t", "--tasks").doc()
    assert (doc["trace"]["lost"], doc["trace"]["discontinuities"]) == (50, 0)
    assert {task["tid"]: (task["run_ns"], task["preempt_ns"], task["observed_ns"])
            for task in doc["tasks"]} == {
        100: (5e8, 5e8, 2e9), 101: (1.5e9, 0, 1.5e9), 102: (0, 1e9, 1e9)}


@pytest.mark.parametrize("options", [dict(style="lttng213"), dict(style="lttng25", order="be"),
                                     dict(style="perf")], ids=name_of)
def test_discarded_events(tmp_path, options):
    dialect = Dialect(packet_bytes=8192 if options["style"] == "perf" else 4096, **options)
    events = simulate(seed=seed(), events=4000)
    write_trace(str(tmp_path / "t"), dialect, events, discard={(0, 2): 17, (1, 3): 25})
    doc = analyze(tmp_path / "t", "--tasks").doc()
    assert doc["trace"]["events"] == len(events)
    assert (doc["trace"]["lost"], doc["trace"]["lost_packets"]) == (42, 0)
    check_identities(doc)
    whole = Oracle(seen_by(dialect, events)).measure()
    for vm, want in zip(doc["vms"], whole["vms"]):
        assert vm["entries"] == want["entries"] and vm["switches_out"] == want["switches_out"]
        # A VM that has nothing on a CPU loses nothing with it.
        assert 0 < vm["observed_ns"] <= want["observed_ns"]
    assert (sum(v["observed_ns"] for v in doc["vms"]) <
            sum(v["observed_ns"] for v in whole["vms"]))


def test_lost_packets(tmp_path):
    """A gap in the packet sequence numbers, as a recorder in overwrite mode leaves it."""
    events = simulate(seed=seed(), events=4000)
    layout = write_trace(str(tmp_path / "t"), Dialect(), events, drop_packets={(0, 2), (0, 3)})
    kept = sum(len(p.events) for packets in layout.files.values() for p in packets)
    doc = analyze(tmp_path / "t", "--tasks").doc()
    assert doc["trace"]["events"] == kept < len(events)
    assert doc["trace"]["lost_packets"] == 2
    check_identities(doc)


def test_no_trace(tmp_path):
    for path in (tmp_path / "absent", tmp_path):
        result = analyze(path)
        assert result.rc in (1, 3) and result.out == "" and str(path) in result.err


def test_empty_part_is_refused(tmp_path):
    make(tmp_path, Dialect(), events=100)
    result = analyze(tmp_path / "t", "--begin", 6_000_000_000, "--end", 5_000_000_000)
    assert result.rc == 2 and result.out == ""
