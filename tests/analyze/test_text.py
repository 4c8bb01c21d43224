# SPDX-License-Identifier: Apache-2.0
"""The same seconds as trace text: babeltrace2 prints the recorded LTTng trace, a few lines of Python
write it again the way tracefs, trace-cmd and perf script would, and the figures must not change."""
import gzip
import json
import os
import re
import subprocess

import pytest

import vgpuctl

LTTNG = os.path.join(vgpuctl.ROOT, "data", "demo", "inner-host-3vms", "lttng-kernel")
VM_MAP = os.path.join(vgpuctl.ROOT, "data", "demo", "vm-map.txt")
STATES = {0: "R", 1: "S", 2: "D", 16: "X", 32: "Z", 128: "I", 256: "R+"}
SVM_WORDS = {96: "interrupt", 100: "vintr", 114: "cpuid", 120: "hlt", 124: "msr"}


def field(line, name):
    found = re.search(rf'\b{name} = (?:"([^"]*)"|(-?\d+))', line)
    return found.group(1) if found.group(1) is not None else int(found.group(2))


def records():
    """(ns, cpu, comm, tid, pid, event, line)"""
    out = subprocess.run(["babeltrace2", "--clock-cycles", "--no-delta", LTTNG],
                         capture_output=True, text=True, check=True).stdout
    for line in out.splitlines():
        head = re.match(r"\[(\d+)\] (?:\S+ )?(\w+): \{ cpu_id = (\d+) \}", line)
        context = line.split("}, {")[1]
        yield (int(head[1]), int(head[3]), field(context, "procname"), field(context, "tid"),
               field(context, "pid"), head[2], line)


def body(event, line, spelling):
    payload = line.split("}, {")[2]
    get = lambda name: field(payload, name)
    if event == "sched_switch":
        if spelling == "trace-cmd":
            return (f"{get('prev_comm')}:{get('prev_tid')} [{get('prev_prio') + 100}] "
                    f"{STATES[get('prev_state')]} ==> {get('next_comm')}:{get('next_tid')} "
                    f"[{get('next_prio') + 100}]")
        return (f"prev_comm={get('prev_comm')} prev_pid={get('prev_tid')} prev_prio=120 "
                f"prev_state={STATES[get('prev_state')]} ==> next_comm={get('next_comm')} "
                f"next_pid={get('next_tid')} next_prio=120")
    if event == "sched_wakeup":
        if spelling == "trace-cmd":
            return f"{get('comm')}:{get('tid')} [120] CPU:{get('target_cpu'):03d}"
        return f"comm={get('comm')} pid={get('tid')} prio=120 target_cpu={get('target_cpu'):03d}"
    if event == "kvm_x86_entry":
        return "vcpu 0, rip 0xffffffff81036706"
    return (f"vcpu 0 reason {SVM_WORDS[get('exit_reason')]} rip 0x{get('guest_rip') % 2**64:x} "
            f"info1 0x{get('info1'):x} info2 0x0 intr_info 0x0 error_code 0x0")


def write(path, spelling):
    lines = []
    if spelling == "tracefs":
        lines.append("# tracer: nop\n#\n#           TASK-PID    TGID   CPU#  |||||  TIMESTAMP  "
                     "FUNCTION\n")
    for ns, cpu, comm, tid, pid, event, line in records():
        comm = comm if tid else ("<idle>" if spelling != "perf" else "swapper")
        name = event.replace("kvm_x86_", "kvm_")
        stamp = f"{ns // 10**9}.{ns % 10**9:09d}"
        text = body(event, line, spelling)
        if spelling == "tracefs":
            lines.append(f"{comm:>16}-{tid:<7} ({pid:7d}) [{cpu:03d}] d.... {stamp}: {name}: {text}\n")
        elif spelling == "trace-cmd":
            lines.append(f"{comm:>16}-{tid:<5} [{cpu:03d}] {stamp}: {name + ':':<21} {text}\n")
        else:
            system = "kvm" if name.startswith("kvm") else "sched"
            lines.append(f"{comm:>16} {pid:6d}/{tid:<6d} [{cpu:03d}] {stamp}: {system}:{name}: {text}\n")
    data = "".join(lines).encode()
    with (gzip.open if str(path).endswith(".gz") else open)(path, "wb") as out:
        out.write(data)


def comparable(doc):
    """What text can tell as well."""
    for vm in doc["vms"]:
        del vm["pid"]
    doc["trace"] = {k: doc["trace"][k] for k in
                    ("begin_ns", "end_ns", "lost", "discontinuities", "events", "cpus", "problems")}
    return doc


@pytest.mark.parametrize("name,spelling", [("trace.txt", "tracefs"), ("trace.txt.gz", "tracefs"),
                                           ("script.txt", "perf")])
def test_text_with_process_ids_gives_the_same_document(tmp_path, name, spelling):
    write(tmp_path / name, spelling)
    want = comparable(vgpuctl.analyze(LTTNG, "--vm-map", VM_MAP).doc())
    got = comparable(vgpuctl.analyze(tmp_path / name, "--vm-map", VM_MAP).doc())
    assert got == want


def test_text_without_process_ids_needs_the_thread_ids_in_the_map(tmp_path):
    write(tmp_path / "report.txt", "trace-cmd")
    threads = {"vm-busy": (120, 128, 142), "vm-duty": (121, 127, 140), "vm-idle": (122, 129, 141)}
    (tmp_path / "map").write_text(
        "".join(f"{tid} {name}\n" for name, tids in threads.items() for tid in tids))
    want = comparable(vgpuctl.analyze(LTTNG, "--vm-map", VM_MAP).doc())
    got = comparable(vgpuctl.analyze(tmp_path / "report.txt", "--vm-map", tmp_path / "map").doc())
    assert got == want
    unnamed = vgpuctl.analyze(tmp_path / "report.txt").doc()
    assert [v["name"] for v in unnamed["vms"]] == ["qemu-140", "qemu-141", "qemu-142"]
    assert [v["run_ns"] for v in unnamed["vms"]] == [
        next(v["run_ns"] for v in want["vms"] if v["name"] == n)
        for n in ("vm-duty", "vm-idle", "vm-busy")]


def test_begin_and_end_are_printed_seconds(tmp_path):
    write(tmp_path / "trace.txt", "tracefs")
    text = vgpuctl.analyze(tmp_path / "trace.txt", "--begin", 62 * 10**9, "--end", 63 * 10**9).doc()
    ctf = vgpuctl.analyze(LTTNG, "--begin", 62 * 10**9, "--end", 63 * 10**9).doc()
    assert comparable(text) == comparable(ctf)
    assert json.dumps(text["vms"]) != "[]"


def test_what_garbage_may_have_told_is_not_observed(tmp_path):
    """The line at 1.020 on which the vCPU left its CPU for another program is scrambled. That it ran
    on until 1.040 is then nobody's word: only the time up to 1.010, the last record before the
    garbage, is run time, and what lies between that and the next record is not observed."""
    (tmp_path / "trace.txt").write_text(
        "# tracer: nop\n"
        "<idle>-0 (-------) [000] d.... 1.000000: sched_switch: prev_comm=swapper/0 prev_pid=0 "
        "prev_prio=120 prev_state=R ==> next_comm=CPU 0/KVM next_pid=11 next_prio=120\n"
        "bash-7 (      7) [001] d.... 1.010000: sched_wakeup: comm=bash pid=7 prio=120 "
        "target_cpu=001\n"
        "CPU 0/KVM-11 (  \x00\x07   10) [0\xb7\xb7 1.02^@ sched_sw prev_comm=CPU 0/K\n"
        "bash-7 (      7) [001] d.... 1.030000: sched_wakeup: comm=bash pid=7 prio=120 "
        "target_cpu=001\n"
        "hog-5 (      5) [000] d.... 1.040000: sched_switch: prev_comm=hog prev_pid=5 "
        "prev_prio=120 prev_state=R ==> next_comm=CPU 0/KVM next_pid=11 next_prio=120\n"
        "CPU 0/KVM-11 (     10) [000] d.... 1.100000: sched_switch: prev_comm=CPU 0/KVM "
        "prev_pid=11 prev_prio=120 prev_state=S ==> next_comm=swapper/0 next_pid=0 "
        "next_prio=120\n", encoding="latin-1")
    doc = vgpuctl.analyze(tmp_path / "trace.txt").doc()
    assert len(doc["trace"]["problems"]) == 1
    (vm,) = doc["vms"]
    assert (vm["run_ns"], vm["observed_ns"]) == (70_000_000, 80_000_000)
