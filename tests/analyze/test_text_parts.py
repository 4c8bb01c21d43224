# SPDX-License-Identifier: Apache-2.0
"""Texts that were put one behind the other: the files of per_cpu, which are of the same time, and
recordings that follow each other.

On CPU 0 a vCPU, 5001, and a compiler take turns of 10 ms for 400 ms. The last record is 100 us before
the end of that: the vCPU runs 200 ms and waits 199.9 ms. On CPU 1 another one, 5101, runs 5 of every
20 ms and sleeps: 100 ms in 20 turns. It is first seen 3 ms after the first record."""
import gzip
import re

import pytest

from vgpuctl import analyze

HEADS = {
    "tracefs": "# tracer: nop\n#\n# entries-in-buffer/entries-written: 60/60   #P:2\n#\n",
    "trace-cmd": "version = 7\ncpus=2\n",
    "perf": "# ========\n# captured on    : Sat Nov 28 08:10:00 2026\n# nrcpus online : 2\n# ========\n#\n",
}


def switch(cpu, us, prev, state, then):
    def comm(tid):
        return f"swapper/{cpu}" if tid == 0 else "cc1" if tid == 77 else "CPU 0/KVM"
    front = "<idle>" if prev == 0 else comm(prev)
    return us, cpu, (f"{front:>16}-{prev:<7} [{cpu:03d}] d..2. {us // 10**6}.{us % 10**6:06d}: sched_switch: "
                f"prev_comm={comm(prev)} prev_pid={prev} prev_prio=120 prev_state={state} ==> "
                f"next_comm={comm(then)} next_pid={then} next_prio=120\n")


def records(begin=100):
    out = []
    for i in range(20):
        us = begin * 10**6 + i * 20000
        out += [switch(0, us, 0, "R", 5001), switch(0, us + 10000, 5001, "R", 77),
                switch(0, us + 19900, 77, "S", 0),
                switch(1, us + 3000, 0, "R", 5101), switch(1, us + 8000, 5101, "S", 0)]
    return sorted(out)


def text(some, head="tracefs"):
    return HEADS[head] + "".join(line for _, _, line in some)


def per_cpu(some):
    return "".join(text([r for r in some if r[1] == cpu]) for cpu in (0, 1))


def check(path, data, times=1, stdin=None):
    """Who slept at the end of a recording sleeps from the beginning of the next one on."""
    if stdin is None:
        path.write_bytes(data if isinstance(data, bytes) else data.encode())
    doc = analyze(path if stdin is None else "-", stdin=stdin).doc()
    trace = doc["trace"]
    assert (trace["discontinuities"], trace["backwards"], trace["lost"]) == (0, 0, 0)
    vms = {v["name"]: v for v in doc["vms"]}
    assert (vms["qemu-5001"]["run_ns"], vms["qemu-5001"]["preempt_ns"], vms["qemu-5001"]["preemptions"]) \
        == (200_000_000 * times, 199_900_000 * times, 20 * times)
    # Without wakeups, when it slept is not known: what was observed, less when it ran.
    assert (vms["qemu-5101"]["run_ns"], vms["qemu-5101"]["observed_ns"], vms["qemu-5101"]["blocks"]) \
        == (100_000_000 * times, 396_900_000 * times + 3_000_000 * (times - 1), 20 * times)
    assert trace["end_ns"] - trace["begin_ns"] == (times - 1) * 60 * 10**9 + 399_900_000
    return trace


@pytest.mark.parametrize("pack", [str.encode, lambda s: gzip.compress(s.encode())])
def test_files_of_per_cpu(tmp_path, pack):
    some = records()
    assert check(tmp_path / "a", pack(text(some)))["problems"] == []
    trace = check(tmp_path / "b", pack(per_cpu(some)))
    assert (trace["problems"], trace["events"]) == ([], 100)


def test_an_empty_file_of_per_cpu(tmp_path):
    check(tmp_path / "t", HEADS["tracefs"] + per_cpu(records()) + HEADS["tracefs"])


@pytest.mark.parametrize("head", list(HEADS))
def test_recordings_one_after_the_other(tmp_path, head):
    """Nobody looked between them."""
    data = text(records(), head) + text(records(160), head)
    assert check(tmp_path / "t", data, 2)["problems"] == []


def test_from_standard_input(tmp_path):
    check(tmp_path, None, 2, text(records()) + text(records(160)))


def test_the_later_one_comes_first(tmp_path):
    check(tmp_path / "t", text(records(160)) + text(records()), 2)


@pytest.mark.parametrize("order", ["by time", "by CPU"])
def test_files_of_per_cpu_again_and_again(tmp_path, order):
    parts = [text([r for r in records(begin) if r[1] == cpu]) for begin in (100, 160, 220) for cpu in (0, 1)]
    if order == "by CPU":
        parts = parts[::2] + parts[1::2]
    check(tmp_path / "t", "".join(parts), 3)


def test_files_of_per_cpu_of_different_times(tmp_path):
    """That a CPU is silent for long is no end of the recording, as no other head has it."""
    some = records()
    first, other = [r for r in some if r[1] == 0], [r for r in records(101) if r[1] == 1]
    (tmp_path / "t").write_text(text(first) + text(other))
    doc = analyze(tmp_path / "t").doc()
    assert [(v["name"], v["run_ns"], v["observed_ns"]) for v in doc["vms"]] == \
        [("qemu-5001", 200_000_000, 1_388_000_000), ("qemu-5101", 100_000_000, 385_000_000)]


def test_a_trace_that_is_read_again(tmp_path):
    """`cat trace` does not empty the buffer: the second text has the first one's records again."""
    data = text(records()[:60]) + text(records())
    trace = check(tmp_path / "t", data)
    assert trace["events"] == 100
    [problem] = trace["problems"]
    assert "1 of the 2 recordings" in problem["what"]


def test_many_cpus(tmp_path):
    some = [switch(cpu, 10**8 + i * 1000 + cpu, *((0, "R", 6000 + cpu) if i % 2 == 0 else (6000 + cpu, "S", 0)))
            for cpu in range(200) for i in range(10)]
    (tmp_path / "t").write_text("".join(text([r for r in some if r[1] == cpu]) for cpu in range(200)))
    doc = analyze(tmp_path / "t").doc()
    assert (doc["trace"]["events"], doc["trace"]["backwards"], doc["trace"]["problems"]) == (2000, 0, [])
    assert [v["run_ns"] for v in doc["vms"]] == [5_000_000] * 200


def test_what_overlaps_is_refused_from_standard_input():
    done = analyze("-", stdin=per_cpu(records()))
    assert done.rc == 1 and "put the text into a file" in done.err and done.out == ""


@pytest.mark.parametrize("name", ["#w", "# tracer: nop", "cpus=99", "version = 7", "#P:4000", "CPU:1 [EVENTS",
                                  "1 [0] 1.0:x:"])
@pytest.mark.parametrize("call_chains", [False, True])
def test_a_thread_with_the_name_of_a_header(tmp_path, name, call_chains):
    """Every user can choose it. perf script with call chains prints names from column 0 on."""
    renamed = []
    for us, cpu, line in records():
        line = line.replace("cc1", name).replace(f"{name:>16}", f"{'cc1':>16}", 1)
        if "cc1-77" in line:
            line = line.replace(f"{'cc1':>16}", name if call_chains else f"{name:>16}")
        renamed.append((us, cpu, line))
    assert sum(line.lstrip().startswith(name) for _, _, line in renamed) == 20
    assert check(tmp_path / "t", text(renamed))["problems"] == []


def perf_script(begin):
    """perf writes the first record itself."""
    first = f"            perf   900 [001] {begin}.000000: sched:sched_stat_runtime: comm=perf pid=900 runtime=1 [ns]\n"
    lines = [re.sub(r"-(\d+) +\[(.*)\] d..2. ", r" \1 [\2] ", line) for _, _, line in records(begin)]
    return first + "".join(lines).replace(" sched_switch:", " sched:sched_switch:")


@pytest.mark.parametrize("then", [101, 160])
@pytest.mark.parametrize("piped", [False, True])
def test_joined_without_headers(tmp_path, then, piped):
    """perf script prints no header by default. The figures are those with headers."""
    figures = []
    for head in ("", HEADS["perf"]):
        data = head + perf_script(100) + head + perf_script(then)
        (tmp_path / "t").write_text(data)
        doc = analyze("-", stdin=data).doc() if piped else analyze(tmp_path / "t").doc()
        figures.append([(v["name"], v["run_ns"], v["preempt_ns"], v["observed_ns"]) for v in doc["vms"]])
        problems = [problem["what"] for problem in doc["trace"]["problems"]]
        assert len(problems) == (0 if head else 1)
        assert head or "without header lines" in problems[0]
    assert figures[0] == figures[1] and figures[0][0][1] == 400_000_000


def test_an_idle_host_is_silent(tmp_path):
    """The same threads run on after it."""
    some = records() + records(160)
    (tmp_path / "t").write_text("".join(line for _, _, line in some))
    doc = analyze(tmp_path / "t").doc()
    assert doc["trace"]["problems"] == []
    assert {v["name"]: v["observed_ns"] for v in doc["vms"]}["qemu-5001"] == 60_399_900_000
