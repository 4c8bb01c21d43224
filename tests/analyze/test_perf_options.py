# SPDX-License-Identifier: Apache-2.0
"""Text of perf script with the options that people use: what these add is no record of a thread.

A vCPU, 5010 of QEMU 5000, and a compiler take turns of 10 ms on a CPU from 100.000 s to 100.190 s.
The vCPU has ten turns, of which all but 12 us are in the guest. It waits for nine turns of the
compiler: run 100 ms, guest 99.88 ms, preempt 90 ms."""
import pytest

from vgpuctl import analyze

CPU = "[000]"
SWITCHES = "PERF_RECORD_SWITCH_CPU_WIDE"


def turns(thread=lambda comm, pid, tid: f"{comm:>16} {pid:>5}/{tid:<5}"):
    """(columns of the thread, time in ns, event)"""
    vcpu, other = thread("CPU 0/KVM", 5000, 5010), thread("cc1", 77, 77)
    names = [("cc1", 77), ("CPU 0/KVM", 5010)]
    for i in range(20):
        ns = 100 * 10**9 + i * 10**7
        (prev, prev_tid), (comm, tid) = names if i % 2 == 0 else names[::-1]
        yield (other if i % 2 == 0 else vcpu, ns,
               f"sched:sched_switch: prev_comm={prev} prev_pid={prev_tid} prev_prio=120 "
               f"prev_state=R ==> next_comm={comm} next_pid={tid} next_prio=120")
        if i % 2 == 0:
            yield vcpu, ns + 2000, "kvm:kvm_entry: vcpu 0, rip 0xffffffff81000000"
            yield (vcpu, ns + 9990000,
                   "kvm:kvm_exit: reason EXTERNAL_INTERRUPT rip 0xffffffff81000000 info 0 800000ec")


def line(thread, ns, event, between=""):
    return f"{thread} {CPU} {between}{ns // 10**9}.{ns % 10**9:09d}: {event}\n"


def check(path, text):
    path.write_text(text)
    doc = analyze(path).doc()
    trace = doc["trace"]
    assert (trace["problems"], trace["discontinuities"], trace["lost"]) == ([], 0, 0)
    assert (trace["begin_ns"], trace["end_ns"]) == (100_000_000_000, 100_190_000_000)
    [vm] = doc["vms"]
    assert (vm["pid"], vm["run_ns"], vm["guest_ns"], vm["preempt_ns"], vm["preemptions"]) == \
        (5000, 100_000_000, 99_880_000, 90_000_000, 10)


@pytest.mark.parametrize("frames", [
    ["ffffffff81f0c2a1 __schedule+0x2a1 ([kernel.kallsyms])",
     "           f8b3b ioctl+0x3b (/usr/lib/libc.so.6)"],
    ["               0 [unknown] ([unknown])", "              1f main (/usr/bin/a (deleted))"],
    ["            beef", "ffffffffffffffff [unknown] ([unknown])"],
])
def test_call_chains(tmp_path, frames):
    """perf record -g: the address within a file may be short."""
    check(tmp_path / "t", "".join(line(*t) + "".join(f"\t{f}\n" for f in frames) + "\n"
                                  for t in turns()))


@pytest.mark.parametrize("between", [
    "K     ", "KU    ", "GgK   ", "      ", "2026-11-28 08:56:34.000000  ", "disabled ",
    "K     2026-11-28 08:56:34.000000  ", "U     disabled "])
def test_misc_and_tod(tmp_path, between):
    """perf script -F +misc,+tod"""
    check(tmp_path / "t", "".join(line(*t, between) for t in turns()))


@pytest.mark.parametrize("between", ["", "K     "])
def test_what_perf_itself_recorded(tmp_path, between):
    """perf script --show-switch-events, --show-task-events, --show-mmap-events and their like. What
    was there before has thread 0 and time 0; switches begin before and end after the tracepoints."""
    zero = f"{'swapper':>16} {0:>5}/{0:<5}"
    unknown = f"{':-1':>16} {-1:>5}/{-1:<5}"
    text = "".join(line(zero, 0, event, between) for event in (
        "PERF_RECORD_MMAP -1/0: [0xffffffff81000000(0x1400000) @ 0xffffffff81000000]: x [kernel]_text",
        "PERF_RECORD_FORK(5000:5010):(1:1)", "PERF_RECORD_COMM: CPU 0/KVM:5000/5010",
        "PERF_RECORD_KSYMBOL addr ffffffffc0000000 len 60 type 1 flags 0x0 name bpf_prog_1",
        "PERF_RECORD_CGROUP cgroup: 1 /"))
    text += line(zero, 0, "PERF_RECORD_NAMESPACES 5000/5010 - nr_namespaces: 7\n"
                 "\t\t[0/net: 4/0xf0000098, 1/uts: 4/0xeffffffe, 2/ipc: 4/0xefffffff, "
                 "3/pid: 4/0xeffffffc, \n\t\t 4/user: 4/0xeffffffd, 5/mnt: 4/0xf0000000, "
                 "6/cgroup: 4/0xeffffffb]", between)
    text += "PERF_RECORD_FINISHED_ROUND\n"
    text += line(zero, 99_500_000_000, f"{SWITCHES} OUT preempt  next pid/tid:  5000/5010 ", between)
    for thread, ns, event in turns():
        text += line(thread, ns, event, between)
        if "sched_switch" in event:
            text += line(thread, ns + 100, f"{SWITCHES} IN           prev pid/tid:    77/77   ", between)
            text += line(unknown, ns + 200, "PERF_RECORD_SWITCH OUT", between)
            text += line(thread, ns + 300, "PERF_RECORD_COMM exec: cc1:77/77", between)
            text += line(thread, ns + 400, "PERF_RECORD_MMAP2 77/77: [0x7f00(0x1000) @ 0 08:01 9 0]: "
                         "r-xp /usr/lib/[1] 1.0: a", between)
            text += line(thread, 0, "PERF_RECORD_COMM: cc1:77/77", between)
    text += line(zero, 105_000_000_000, "PERF_RECORD_EXIT(88:88):(1:1)", between)
    check(tmp_path / "t", text)


def test_task_events_tell_of_processes(tmp_path):
    """perf script of perf record -a prints thread ids alone; FORK and COMM have those of processes."""
    zero = f"{'swapper':>16} {0:>5} "
    text = line(zero, 0, "PERF_RECORD_FORK(5000:5010):(1:1)")
    text += line(zero, 0, "PERF_RECORD_COMM: qemu-system-x86:5000/5000")
    check(tmp_path / "t", text + "".join(
        line(*t) for t in turns(lambda comm, pid, tid: f"{comm:>16} {tid:>5} ")))


def test_what_perf_lost_is_told(tmp_path):
    """Of what perf itself recorded, only losses are read."""
    text = [line(*t) for t in turns()]
    text.insert(8, line(f"{'cc1':>16} {77:>5}/{77:<5}", 100_025_000_000, "PERF_RECORD_LOST lost 17"))
    (tmp_path / "t").write_text("".join(text))
    assert analyze(tmp_path / "t").doc()["trace"]["lost"] == 17


@pytest.mark.parametrize("flags", ["1d..2.", "0dNs6.", "12....."])
def test_latency_columns_are_refused_with_the_option(tmp_path, flags):
    (tmp_path / "t").write_text(
        f"cpus=2\n      cc1-9698   {flags}  3745.376077: sched_switch:         cc1:9698 [125] R ==> "
        "clang:9702 [125]\n")
    told = analyze(tmp_path / "t").err
    assert "trace-cmd report without -l" in told and "perf script -F +cpu" not in told
