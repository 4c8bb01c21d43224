# SPDX-License-Identifier: Apache-2.0
"""GPU requests of recordings that lack records, in the ways in which real ones do: each CPU's head is
cut at another time (flight recorder), a ring overran now and then, the last end was not recorded.
What must be told is what an oracle finds in the whole recording of the requests that are whole in
what is left; nothing of it may be more than really was."""
import dataclasses
import math
import os
import random
from collections import defaultdict

import pytest

import gpugen as gen
from ctfgen import Dialect, write_trace
from gpu_oracle import GpuOracle, parse_ctf, union
from settings import full, seed
from test_simulated import closed, load, simulate
from vgpuctl import analyze

MS = 10**6
KERNELS = {"6.17": ("sched",), "6.1": ("sched", "amdgpu", "fence"), "5.10": ("amdgpu", "fence")}


# ---- recordings ----

def drm(rng, kernel):
    # amdgpu does not tell when the kernel queues jobs of its own.
    jobs = gen.jobs(rng.randrange(10**6), n=400, n_processes=4, rings=2, depth=3,
                    kernel=0.1 if "sched" in KERNELS[kernel] else 0)
    events = gen.drm_events(jobs, kernel, KERNELS[kernel])
    return events, gen.drm_classes(kernel)


def simulated(tmp_path, rng):
    jobs = [closed(us, depth) for us, depth in ((300, 2), (2000, 3), (900, 1))]
    _, trace = simulate(tmp_path, {
        "seed": rng.randrange(10**6), "duration_ms": 400, "generation": "old",
        "mode": rng.choice(["gvtg", "no-carry"]),
        "vms": [load(j, name=f"vm{i}") for i, j in enumerate(jobs)]})
    events = [e for e in parse_ctf(trace) if not e.name.startswith("simulation")]
    last = 0
    for event in events:
        event.t = last = max(event.t, last + 1)     # streams keep no order at the same time
        # What the hardware tells is told by whoever is interrupted.
        event.cpu = 2 if event.name.endswith(("_in", "_out", "notify")) else event.tid % 4
        event.f = {k: v for k, v in event.f.items() if k not in ("pid", "tid", "procname", "cpu_id")}
    return events, {**gen.PAPER, **gen.I915_412}


def text(path, events, classes, producer, marks, written):
    """marks: {index of an event: [what stands before it]}; written: records that there once were."""
    with open(path, "w", encoding="utf-8") as out:
        if producer == "tracefs":
            out.write("# tracer: nop\n#\n"
                      f"# entries-in-buffer/entries-written: {len(events)}/{written}   #P:4\n#\n"
                      "#           TASK-PID    TGID   CPU#  |||||  TIMESTAMP  FUNCTION\n")
        elif producer == "trace-cmd":
            out.write("cpus=4\n")
        for i, event in enumerate(events):
            for lost in marks.get(i, ()):
                out.write(mark(event, lost, producer))
            out.write(gen.line(event, classes, producer))


def mark(event, lost, producer):
    """That this many of its CPU are missing before it."""
    if producer == "perf":
        return (f"            perf {event.pid:6d}/{event.tid:<6d} [{event.cpu:03d}] "
                f"{gen.stamp(event.t, producer)}: PERF_RECORD_LOST lost {lost}\n")
    return f"CPU:{event.cpu} [LOST {lost} EVENTS]\n"


def rounded(events, producer):
    """tracefs prints microseconds, trace-cmd no processes."""
    for event in events:
        event.t -= event.t % 1000 if producer == "tracefs" else 0
        event.pid = -1 if producer == "trace-cmd" else event.pid
    return events


# ---- what is true ----

class Truth:
    """Of these jobs."""

    def __init__(self, oracle, jobs):
        done = [j for j in jobs if j.end is not None and not j.cancelled]
        self.requests = len(done)
        self.exec_ns = sum(end - begin for j in jobs for begin, end in j.runs if end is not None)
        self.busy_ns = union([(b, e) for j in jobs for b, e in j.runs if e is not None])
        self.wait_ns = sum(end - begin for j in jobs for _, begin, end in oracle.waits(j))
        self.latencies = sorted(j.end - j.first for j in done)

    def quantile(self, part):
        return self.latencies[math.ceil(part * len(self.latencies)) - 1] if self.latencies else 0


def rows(oracle, jobs):
    """By the program's rows: engine, and engine and pid (a VM by that of its QEMU)."""
    out = defaultdict(list)
    for job in jobs:
        out["all", job.engine].append(job)
        if job.owner and job.owner[0] == "process":
            out[job.owner[1], job.engine].append(job)
    return {key: Truth(oracle, of) for key, of in out.items()}


def told(doc):
    out = {("all", g["engine"]): g for g in doc["gpus"]}
    out.update({(p["pid"], p["engine"]): p for p in doc["gpu_processes"]})
    out.update({(vm["pid"], g["engine"]): g for vm in doc["vms"] for g in vm["gpu"]})
    return out


def near(got, want, part=0.01):
    return abs(got - want) <= part * want + 1000


def check(doc, oracle, whole, nearly=()):
    """Of jobs that are nearly whole, or nearly not, whether they are may be taken either way."""
    got, most, want = told(doc), rows(oracle, oracle.jobs), rows(oracle, whole)
    more = rows(oracle, nearly)
    assert set(want) - set(more) <= set(got)
    for key, row in got.items():
        true = most.get(key)
        if true is None:            # a process that is not known to be the VM's
            continue
        exact, either = want.get(key, Truth(oracle, [])), more.get(key, Truth(oracle, []))
        assert 0 <= row["requests"] - exact.requests <= either.requests, key
        check_times(key, row, exact, true)
        for part in (50, 95, 99) if row["requests"] == exact.requests > 0 else ():
            assert near(row[f"latency_p{part}_ns"], exact.quantile(part / 100)), (key, part)


def check_times(key, row, least, most, part=0):
    """A job runs when the one in front of it is done: if nobody knows of that one, it seems to run
    earlier. Its latency is what it is."""
    both = row["exec_ns"] + row["wait_ns"]
    assert both >= (least.exec_ns + least.wait_ns) * 0.99 - 1000, (key, row)
    assert both <= (most.exec_ns + most.wait_ns) * (1 + part) + 1000, (key, row)
    assert row["exec_ns"] >= least.exec_ns * 0.99 - 1000, (key, row)
    assert row["wait_ns"] <= most.wait_ns * (1 + part) + 1000, (key, row)
    assert least.busy_ns * 0.99 - 1000 <= row["busy_ns"] <= row["exec_ns"], (key, row)


# ---- heads ----

def cut_heads(rng, events):
    """What is left, since when all CPUs are there, and who is late."""
    cpus = sorted({e.cpu for e in events})
    begin, length = events[0].t, events[-1].t - events[0].t
    cuts = {cpu: begin + rng.uniform(0, 0.5) * length for cpu in cpus}
    cuts[rng.choice(cpus)] = 0
    left = [e for e in events if e.t >= cuts[e.cpu]]
    first = {cpu: min(e.t for e in left if e.cpu == cpu) for cpu in cpus}
    return left, max(first.values()), sorted(c for c in cpus if first[c] > left[0].t)


def head_marks(rng, events, late, producer):
    return {next(i for i, e in enumerate(events) if e.cpu == cpu): [rng.randrange(1, 999)]
            for cpu in late}


def check_heads(doc, oracle, since, late):
    assert doc["trace"]["late_cpus"] == late
    assert doc["trace"]["covered_ns"]["begin"] == since
    assert doc["trace"]["begin_ns"] == since
    begun = [j for j in oracle.jobs if j.first is not None]
    whole = [j for j in begun if j.first > since]
    # Two records tell of one step, a microsecond apart: the first may be cut off without the second. What is of
    # the same microsecond as the begin may have been before it.
    nearly = [j for j in begun if since - 5000 <= j.first <= since]
    check(doc, oracle, whole, nearly)
    most = rows(oracle, whole + nearly)
    for key, true in rows(oracle, whole).items():
        row = told(doc)[key]
        check_times(key, row, true, most[key], 0.01)
        assert row["share"] == pytest.approx(row["busy_ns"] / (oracle.end - since), rel=1e-4)
    # Whoever began before is told to be there, and is nothing else.
    before = [j for j in oracle.jobs if j.first is not None and j.first < since <= (j.end or since)]
    assert sum(g["partial"] for g in doc["gpus"]) >= len([j for j in before if j.end is None])


def cases(n):
    """Of 20 all or a few."""
    chosen = range(20) if full() else random.Random(seed()).sample(range(20), n)
    return [pytest.param(i, id=str(i)) for i in chosen]


@pytest.mark.parametrize("number", cases(4))
def test_heads_in_text(tmp_path, number):
    rng = random.Random(seed() + number)
    kernel = rng.choice(list(KERNELS))
    producer = rng.choice(["trace-cmd", "perf"])
    events, classes = drm(rng, kernel)
    rounded(events, producer)
    left, since, late = cut_heads(rng, events)
    text(tmp_path / "t.txt", left, classes, producer, head_marks(rng, left, late, producer),
         len(events))
    result = analyze(tmp_path / "t.txt")
    check_heads(result.doc(), GpuOracle(events), since, late)
    assert f"the records of CPU {', '.join(map(str, late))} start late" in result.err


@pytest.mark.parametrize("number", cases(3))
def test_heads_in_ctf(tmp_path, number):
    """LTTng in overwrite mode: the first packets of each CPU are gone, and are missing in their
    numbers."""
    rng = random.Random(seed() + number)
    events, classes = simulated(tmp_path, rng) if number % 2 else drm(rng, rng.choice(list(KERNELS)))
    ctf, extra = gen.ctf_form(events, classes)
    dialect = Dialect(extra=extra, packet_bytes=1024)
    whole = write_trace(str(tmp_path / "whole"), dialect, ctf)
    drop = set()
    for name, packets in whole.files.items():
        drop |= {(whole.cpu_of[name], i) for i in range(rng.randrange(0, len(packets) // 2))}
    keep = whole.cpu_of[rng.choice(list(whole.files))]
    drop = {d for d in drop if d[0] != keep}
    layout = write_trace(str(tmp_path / "left"), dialect, ctf, drop_packets=drop)
    first = {layout.cpu_of[name]: packets[0].t_begin for name, packets in layout.files.items()}
    begin = min(first.values())
    late = sorted(cpu for cpu in first if first[cpu] > begin and (cpu, 0) in drop)
    since = max([begin] + [first[cpu] for cpu in late])
    if since - begin <= (events[-1].t - begin) * 0.02:
        pytest.skip("hardly anything was cut")
    check_heads(analyze(tmp_path / "left").doc(), GpuOracle(events), since, late)


@pytest.mark.parametrize("number", cases(3))
def test_last_packets_are_missing(tmp_path, number):
    """Nothing is damaged: the file of one CPU ends between two packets, long before the others."""
    rng = random.Random(seed() + number)
    events, classes = drm(rng, rng.choice(list(KERNELS)))
    stretch = 2 * 10**9 // (events[-1].t - events[0].t) + 1
    for event in events:
        event.t = events[0].t + (event.t - events[0].t) * (stretch if event is not events[0] else 1)
    ctf, extra = gen.ctf_form(events, classes)
    dialect = Dialect(extra=extra, packet_bytes=1024)
    whole = write_trace(str(tmp_path / "whole"), dialect, ctf, t_end=events[-1].t)
    name = max(whole.files, key=lambda n: len(whole.files[n]))
    packets = whole.files[name]
    kept = rng.randrange(len(packets) // 3, len(packets) * 2 // 3)
    with open(tmp_path / "whole" / name, "r+b") as file:
        file.truncate(packets[kept].offset)
    os.unlink(tmp_path / "whole" / "index" / f"{name}.idx")
    doc = analyze(tmp_path / "whole").doc()
    [problem] = doc["trace"]["problems"]
    assert "ends here with a full packet" in problem["what"]
    assert problem["offset"] == packets[kept].offset
    oracle, losses = GpuOracle(events), [(packets[kept - 1].t_end, math.inf)]
    sure = whole_jobs(oracle, losses, -5000)
    check(doc, oracle, sure, [j for j in whole_jobs(oracle, losses, 5000) if j not in sure])
    assert doc["trace"]["lost_packets"] == 1


def test_flushed_cpu_was_idle(tmp_path):
    """A timer had its last packet written, which was not full, and then nothing more happened there:
    the job of another CPU that has no end is open 2 s later."""
    events, classes = drm(random.Random(1), "6.17")
    run = [e for e in events if e.name == "drm_sched_job_run"][100]
    at = events.index(run)
    left = [e for e in events[:at] if e.cpu != run.cpu] + [run]
    silent = {e.cpu for e in left} - {run.cpu}
    left.append(dataclasses.replace(run, t=run.t + 2 * 10**9, name="timer_start", f={}))
    ctf, extra = gen.ctf_form(left, {**classes, "timer_start": gen.Event("timer", "", "")})
    write_trace(str(tmp_path / "t"), Dialect(extra=extra), ctf, flush=[run.t + 1])
    doc = analyze(tmp_path / "t").doc()
    assert silent and doc["trace"]["problems"] == []
    assert max(gpu["open_oldest_ns"] for gpu in doc["gpus"]) >= 2 * 10**9
    assert max(gpu["busy_ns"] for gpu in doc["gpus"]) < 10**9


def test_silent_cpu_was_idle(tmp_path):
    """Nobody says that records are missing: then none are."""
    rng = random.Random(seed())
    events, classes = drm(rng, "6.17")
    left, _, _ = cut_heads(rng, events)
    text(tmp_path / "t.txt", left, classes, "trace-cmd", {}, len(left))
    doc = analyze(tmp_path / "t.txt").doc()
    assert doc["trace"]["late_cpus"] == [] and doc["trace"]["begin_ns"] == left[0].t


# ---- bursts ----

def lose_bursts(rng, events, part):
    """Runs of records of single CPUs: what is left, marks, and (CPU, from, to) of each."""
    lost = [False] * len(events)
    last = {event.cpu: i for i, event in enumerate(events)}     # without it nobody tells
    while sum(lost) < part * len(events):
        at, n = rng.randrange(20, len(events)), rng.randrange(3, 30)
        for i in range(at, len(events)):
            if n and events[i].cpu == events[at].cpu and i != last[events[i].cpu]:
                lost[i] = True
                n -= 1
    left, marks, losses, pending, before = [], {}, [], defaultdict(int), {}
    for event, gone in zip(events, lost):
        if gone:
            pending[event.cpu] += 1
            continue
        if pending[event.cpu]:
            marks[len(left)] = [pending.pop(event.cpu)]
            losses.append((before.get(event.cpu, events[0].t), event.t))
        before[event.cpu] = event.t
        left.append(event)
    return left, marks, losses


def whole_jobs(oracle, losses, margin):
    """Records of one step are some microseconds apart: the second may be there without the first."""
    return [j for j in oracle.jobs if j.first is not None and not any(
        j.first + margin < to and (j.end is None or j.end - margin > since) for since, to in losses)]


@pytest.mark.parametrize("part", [0.01, 0.05])
@pytest.mark.parametrize("number", cases(3))
def test_bursts(tmp_path, number, part):
    rng = random.Random(seed() + number)
    producer = rng.choice(["tracefs", "trace-cmd", "perf"])
    events, classes = simulated(tmp_path, rng) if number % 2 else drm(rng, rng.choice(list(KERNELS)))
    rounded(events, producer)
    left, marks, losses = lose_bursts(rng, events, part)
    text(tmp_path / "t.txt", left, classes, producer, marks, len(left))
    doc = analyze(tmp_path / "t.txt").doc()
    oracle = GpuOracle(events)
    whole = whole_jobs(oracle, losses, -5000)
    check(doc, oracle, whole, [j for j in whole_jobs(oracle, losses, 5000) if j not in whole])
    assert abs(doc["trace"]["confidence"] - len(left) / len(events)) < 0.02
    for gpu in doc["gpus"] + [g for vm in doc["vms"] for g in vm["gpu"]]:
        assert gpu["confidence"] == doc["trace"]["confidence"]


# ---- ends ----

def job(name, number):
    return (f"{name}: entity=00000000cc, id={number}, fence=00000000{number:02x}, ring=gfx, "
            "job count:0, hw job count:1")


def run_job(t, number, ends=True):
    out = [(t, 0, "app-7", job("drm_sched_job", number)), (t + 1, 1, "gfx-9", job("drm_run_job", number))]
    return out + ([(t + 4, 2, "<idle>-0", f"drm_sched_process_job: fence=00000000{number:02x} "
                    "signaled")] if ends else [])


def write_ms(path, lines):
    path.write_text("# tracer: nop\n" + "".join(
        f"{who} [{cpu:03d}] d.... {t // 1000}.{t % 1000:03d}000: {body}\n"
        for t, cpu, who, body in sorted(lines)))
    return analyze(path).doc()


def test_one_open_job(tmp_path):
    """It hangs: when the recording ends it is open for 98 s, and in no other figure. Where the recording
    is cut, nobody knows since when it is over."""
    doc = write_ms(tmp_path / "t.txt", run_job(1000, 1) + run_job(2000, 2, ends=False) + [
        (100_000, 3, "app-7", "timer_start: timer=0")])
    [gpu] = doc["gpus"]
    assert (gpu["requests"], gpu["partial"], gpu["busy_ns"], gpu["wait_ns"]) == (1, 0, 3 * MS, 2 * MS)
    assert (gpu["open"], gpu["open_oldest_ns"]) == (1, 98_000 * MS)
    assert gpu["latency_max_ns"] == 4 * MS
    lines = (tmp_path / "t.txt").read_text()
    (tmp_path / "cut.txt").write_text(lines + "<idle>-0 [003] d.... 100.00")
    [gpu] = analyze(tmp_path / "cut.txt").doc()["gpus"]
    assert (gpu["requests"], gpu["partial"], gpu["busy_ns"], gpu["wait_ns"]) == (1, 1, 3 * MS, 2 * MS)
    assert (gpu["open"], gpu["open_oldest_ns"]) == (0, 0)


@pytest.mark.parametrize("told", ["fence=00000000{:02x}", "fence=400:{}"])
def test_ends_that_nobody_saw(tmp_path, told):
    """Every third one, and later ones of the ring are done."""
    lines = []
    for i in range(1, 91):
        for line in run_job(1000 * i, i, ends=i % 3 > 0):
            lines.append(line)
    if "400" in told:       # 6.17: the fence's context and seqno
        def new(body):
            number = int(body.split("id=")[1].split(",")[0]) if "id=" in body else \
                int(body.split("fence=")[1].split()[0], 16)
            name = {"drm_sched_job": "drm_sched_job_queue", "drm_run_job": "drm_sched_job_run",
                    "drm_sched_process_job": "drm_sched_job_done"}[body.split(":")[0]]
            more = "" if "done" in name else (", ring=gfx, job count:0, hw job count:1, client_id:1")
            return (f"{name}: {'' if 'done' in name else 'dev=0000:04:00.0, '}fence=400:{number}"
                    f"{more}{' signaled' if 'done' in name else ''}")
        lines = [(t, cpu, who, new(body)) for t, cpu, who, body in lines]
    [gpu] = write_ms(tmp_path / "t.txt", lines)["gpus"]
    assert (gpu["requests"], gpu["partial"], gpu["coalesced"]) == (60, 29, 0)
    assert (gpu["open"], gpu["open_oldest_ns"]) == (1, 1 * MS)      # the last one: nothing came after it
    assert (gpu["busy_ns"], gpu["exec_ns"], gpu["wait_ns"]) == (180 * MS, 180 * MS, 90 * MS)
    assert gpu["latency_p99_ns"] == pytest.approx(4 * MS, rel=0.01)
