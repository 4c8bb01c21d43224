# SPDX-License-Identifier: Apache-2.0
"""Recordings whose CPUs' records begin at different times, as flight recorders leave them."""
import gzip

import pytest
from ctfgen import Dialect, Ev, write_trace
from vgpuctl import analyze

S = 10**9


def job(cpu, t, number, what):
    """A job of the DRM scheduler: what it prints of kernels before 6.17."""
    fence = f"00000000000000{number:02x}"
    body = {
        "drm_sched_job": f"entity=0000000000000001, id={number}, fence={fence}, ring=gfx, "
                         "job count:0, hw job count:0",
        "drm_run_job": f"entity=0000000000000001, id={number}, fence={fence}, ring=gfx, "
                       "job count:0, hw job count:1",
        "drm_sched_process_job": f"fence={fence} signaled",
    }[what]
    return f"          job-10    [{cpu:03}] d..1. {t:12.6f}: {what}: {body}"


# CPU 0 queues and runs, CPU 2 sees the end; the records of CPU 2 begin at 2.2 s. Job 1 has begun
# before that, jobs 2 and 3 are whole.
LINES = [
    job(0, 1.0, 1, "drm_sched_job"), job(0, 1.1, 1, "drm_run_job"),
    job(2, 2.2, 1, "drm_sched_process_job"),
    job(0, 2.3, 2, "drm_sched_job"), job(0, 2.31, 2, "drm_run_job"),
    job(2, 2.4, 2, "drm_sched_process_job"),
    job(0, 2.5, 3, "drm_sched_job"), job(0, 2.55, 3, "drm_run_job"),
    job(2, 2.65, 3, "drm_sched_process_job"),
    "          idl-7     [001] d..1.     2.700000: sched_wakeup: comm=x pid=5 prio=1 target_cpu=001",
]


def tracefs(kept, written):
    return ["# tracer: nop", "#", f"# entries-in-buffer/entries-written: {kept}/{written}   #P:4", "#"]


def marked(*marks):
    """As trace-cmd report has it: a mark is before the first record of its CPU."""
    lines = ["cpus=4", "CPU 3 is empty"]
    for line in LINES:
        lines += [f"CPU:{cpu} [{n} EVENTS DROPPED]" for cpu, n in marks
                  if f"[{cpu:03}]" in line and not any(f"[{cpu:03}]" in seen for seen in lines)]
        lines.append(line)
    return lines


def read(tmp_path, lines, *args, packed=False):
    path = tmp_path / ("trace.txt.gz" if packed else "trace.txt")
    with (gzip.open if packed else open)(path, "wt", encoding="utf-8") as file:
        file.write("\n".join(lines) + "\n")
    return analyze(path, *args)


def gfx(doc):
    row, = [g for g in doc["gpus"] if g["engine"] == "gfx"]
    return row


@pytest.mark.parametrize("lines, late, packed", [
    (tracefs(10, 5000) + LINES, [2], False),
    (tracefs(10, 5000) + LINES, [2], True),
    (marked((2, 17)), [2], False),
    (marked((2, 17), (1, 3)), [1, 2], False),
], ids=["tracefs", "tracefs-gzip", "trace-cmd", "two"])
def test_text(tmp_path, lines, late, packed):
    """By hand: jobs 2 and 3 are 110 + 110 ms on the engine's queue and 90 + 100 ms on it."""
    done = read(tmp_path, lines, packed=packed)
    trace = done.doc()["trace"]
    covered = 2_700_000_000 if 1 in late else 2_200_000_000
    assert trace["late_cpus"] == late
    assert trace["covered_ns"] == {"begin": covered, "end": 2_700_000_000}
    assert trace["begin_ns"] == covered
    assert f"the records of CPU {', '.join(map(str, late))} start late" in done.err
    if late == [2]:
        row = gfx(done.doc())
        assert (row["requests"], row["busy_ns"], row["exec_ns"], row["wait_ns"]) == \
            (2, 190_000_000, 190_000_000, 60_000_000)
        assert row["share"] == pytest.approx(0.19 / 0.5, abs=1e-5)


@pytest.mark.parametrize("lines", [LINES, tracefs(10, 10) + LINES, marked()],
                         ids=["plain", "nothing overwritten", "no mark"])
def test_a_silent_cpu_was_idle(tmp_path, lines):
    done = read(tmp_path, lines)
    trace = done.doc()["trace"]
    assert trace["late_cpus"] == [] and "start late" not in done.err
    assert trace["begin_ns"] == trace["covered_ns"]["begin"] == 1_000_000_000
    assert gfx(done.doc())["requests"] == 3


def test_confidence(tmp_path):
    """Of the 10 records and the 30 that CPU 0 lost before job 3."""
    lines = LINES[:6] + ["CPU:0 [LOST 30 EVENTS]"] + LINES[6:]
    doc = read(tmp_path, lines).doc()
    assert doc["trace"]["confidence"] == gfx(doc)["confidence"] == 0.25
    [user] = doc["gpu_processes"]
    assert user["confidence"] == 0.25
    assert read(tmp_path, LINES).doc()["trace"]["confidence"] == 1


def test_begin_may_be_asked_for(tmp_path):
    """Then job 1 is in the part; its records are not all there."""
    trace = read(tmp_path, marked((2, 17)), "--begin", 500_000_000).doc()["trace"]
    assert trace["begin_ns"] == 1_000_000_000
    assert trace["covered_ns"] == {"begin": 2_200_000_000, "end": 2_700_000_000}


def test_little_is_not_cut_off(tmp_path):
    """The records of CPU 2 begin 1.2 s late, of 200 s."""
    end = "          idl-7     [000] d..1.   201.000000: sched_wakeup: comm=x pid=5 prio=1 target_cpu=001"
    done = read(tmp_path, marked((2, 17)) + [end])
    trace = done.doc()["trace"]
    assert trace["late_cpus"] == [2] and trace["begin_ns"] == 1_000_000_000
    assert trace["covered_ns"]["begin"] == 2_200_000_000
    assert "start late" not in done.err


def test_lttng(tmp_path):
    """Packets of CPU 1 that were overwritten have left a gap in the numbers. A thread that CPU 1 ran
    before is not known to have run."""
    events = []
    for i in range(400):
        t = S + i * 10**7
        for cpu in (0, 1):
            one, two = 100 + cpu, 0
            prev, next_ = (one, two) if i % 2 else (two, one)
            events.append(Ev(t + cpu, cpu, "sched_switch", prev, prev, "x",
                             {"prev_comm": "x", "prev_tid": prev, "prev_prio": 0, "prev_state": 1,
                              "next_comm": "x", "next_tid": next_, "next_prio": 0}))
    layout = write_trace(str(tmp_path / "whole"), Dialect(), events, t_end=events[-1].t)
    packets = [p for name, p in layout.files.items() if layout.cpu_of[name] == 1][0]
    assert len(packets) > 4, "packets are larger than this test thinks"
    whole = analyze(tmp_path / "whole", "--tasks").doc()
    assert whole["trace"]["late_cpus"] == []
    write_trace(str(tmp_path / "late"), Dialect(), events, t_end=events[-1].t,
                drop_packets={(1, 0), (1, 1)})
    done = analyze(tmp_path / "late", "--tasks")
    trace = done.doc()["trace"]
    assert trace["late_cpus"] == [1] and "CPU 1 start late" in done.err
    begin = trace["covered_ns"]["begin"]
    assert trace["begin_ns"] == begin > whole["trace"]["begin_ns"]
    # The first record of CPU 1 that is there is in the covered span, and the one before is not.
    part = analyze(tmp_path / "whole", "--tasks", "--begin", begin).doc()
    tasks = {t["tid"]: t["run_ns"] for t in done.doc()["tasks"]}
    for task in part["tasks"]:
        if task["tid"] == 100:
            assert tasks[100] == task["run_ns"]
        elif task["tid"] == 101:
            # What it did at the beginning of the span is not recorded: at most one of its turns.
            assert task["run_ns"] - 10**7 <= tasks[101] <= task["run_ns"]
