# SPDX-License-Identifier: Apache-2.0
"""Text of trace-cmd report with several files or instances: the name of its file stands in front of
each record. Figures were worked out by hand from the times."""
import pytest

from vgpuctl import analyze

HOST = [
    (100.000000, "CPU 0/KVM", 5010, "sched_switch: swapper/0:0 [120] R ==> CPU 0/KVM:5010 [120]"),
    (100.000100, "CPU 0/KVM", 5010, "kvm_entry: vcpu 0, rip 0xffffffff81000000"),
    (100.500000, "CPU 0/KVM", 5010, "kvm_exit: reason HLT rip 0xffffffff81000010 info 0 0"),
    (100.500100, "CPU 0/KVM", 5010, "sched_switch: CPU 0/KVM:5010 [120] S ==> swapper/0:0 [120]"),
    (100.700000, "<idle>", 0, "sched_switch: swapper/0:0 [120] R ==> CPU 0/KVM:5010 [120]"),
    (100.700100, "CPU 0/KVM", 5010, "kvm_entry: vcpu 0, rip 0xffffffff81000010"),
    (100.900000, "CPU 0/KVM", 5010, "kvm_exit: reason HLT rip 0xffffffff81000010 info 0 0"),
    (100.900100, "CPU 0/KVM", 5010, "sched_switch: CPU 0/KVM:5010 [120] S ==> swapper/0:0 [120]"),
]
GUEST = [
    (99.900000, "<idle>", 0, "sched_switch: swapper/0:0 [120] R ==> worker:5010 [120]"),
    (100.200000, "worker", 5010, "sched_wakeup: other:78 [120] success=1 CPU:000"),
    (100.400000, "worker", 5010, "sched_switch: worker:5010 [120] S ==> swapper/0:0 [120]"),
    (100.600000, "<idle>", 0, "sched_switch: swapper/0:0 [120] R ==> worker:5010 [120]"),
]


def lines(*files):
    """files: (name, records); the widths are those of trace-cmd."""
    width = max(len(name) for name, _ in files)
    out = sorted((t, f"{name:>{width}}{': ' if name else '  '}", comm, tid, body)
                 for name, records in files for t, comm, tid, body in records)
    return [f"{front}{comm:>16}-{tid:<5} [000] {t:12.6f}: {body}" for t, front, comm, tid, body in out]


def read(path, text):
    path.write_text("cpus=2\n" + "\n".join(text) + "\n")
    return analyze(path, "--tasks").doc()


def check_host(doc):
    [vm] = doc["vms"]
    assert (vm["vcpus"][0]["tid"], vm["run_ns"], vm["guest_ns"], vm["entries"]) == \
        (5010, 700_200_000, 699_800_000, 2)
    assert [(t["tid"], t["comm"]) for t in doc["tasks"] if t["tid"]] == [(5010, "CPU 0/KVM")]


@pytest.mark.parametrize("names", [("trace.dat", "trace-guest.dat"), ("a b.dat", "x")])
def test_host_and_guest(tmp_path, names):
    """The guest's records come first, and one of its threads has the number of the vCPU's."""
    doc = read(tmp_path / "t.txt", lines((names[0], HOST), (names[1], GUEST)))
    check_host(doc)
    assert (doc["trace"]["begin_ns"], doc["trace"]["events"]) == (100_000_000_000, len(HOST))
    [problem] = doc["trace"]["problems"]
    assert f"4 lines are from '{names[1]}'" in problem["what"] and f"'{names[0]}'" in problem["what"]


def test_what_the_guest_lost(tmp_path):
    """The mark has the name of its file, and the record behind it, which is of the same file, none."""
    text = lines(("trace.dat", HOST), ("guest.dat", GUEST))
    at = next(i for i, line in enumerate(text) if "100.400000" in line)
    text[at:at + 1] = ["guest.dat: CPU:0 [17 EVENTS DROPPED]", text[at][len("guest.dat: "):]]
    doc = read(tmp_path / "t.txt", text)
    check_host(doc)
    assert doc["trace"]["lost"] == 0 and doc["trace"]["late_cpus"] == []
    at = next(i for i, line in enumerate(text) if "100.500100" in line)
    text[at:at + 1] = ["trace.dat: CPU:0 [18 EVENTS DROPPED]", text[at][len("trace.dat: "):]]
    doc = read(tmp_path / "t.txt", text)
    assert doc["trace"]["lost"] == 18


def parts():
    return [r for r in HOST if "sched" in r[3]], [r for r in HOST if "kvm" in r[3]]


@pytest.mark.parametrize("names", [("", "kvm"), ("trace.dat", "kvm")])
def test_instances_are_merged(tmp_path, names):
    """Buffers of one kernel: the main one has no name, or that of the file where there are several."""
    doc = read(tmp_path / "t.txt", lines(*zip(names, parts())))
    check_host(doc)
    assert doc["trace"]["problems"] == []


def test_an_instance_beside_a_guest(tmp_path):
    doc = read(tmp_path / "t.txt", lines(*zip(("trace.dat", "kvm"), parts()), ("guest.dat", GUEST)))
    check_host(doc)
    [problem] = doc["trace"]["problems"]
    assert "4 lines are from 'guest.dat'" in problem["what"]


def test_without_kvm_the_first_is_taken(tmp_path):
    first = [(t, comm.replace("CPU 0/KVM", "program"), tid, body.replace("CPU 0/KVM", "program"))
             for t, comm, tid, body in parts()[0]]
    doc = read(tmp_path / "t.txt", lines(("a.dat", first), ("b.dat", GUEST[1:])))
    assert [(t["tid"], t["comm"], t["run_ns"]) for t in doc["tasks"] if t["tid"]] == \
        [(5010, "program", 700_200_000)]


def test_from_standard_input(tmp_path):
    """It cannot be read twice: the file of the first record is taken."""
    text = "\n".join(lines(("trace.dat", HOST), ("guest.dat", GUEST[1:]))) + "\n"
    doc = analyze("-", "--tasks", stdin=text).doc()
    check_host(doc)
    [problem] = doc["trace"]["problems"]
    assert "lines of 'guest.dat' are ignored" in problem["what"]
    doc = analyze("-", "--tasks", stdin="\n".join(lines(*zip(("", "kvm"), parts()))) + "\n").doc()
    check_host(doc)
    assert doc["trace"]["problems"] == []


@pytest.mark.parametrize("comm", ["a: b", "trace.dat: x", "a: bcdefghijklm"])
def test_a_thread_whose_name_looks_like_a_file(tmp_path, comm):
    doc = read(tmp_path / "t.txt", [line.replace("       CPU 0/KVM-", f"{comm:>16}-") for line in [
        f"{'CPU 0/KVM':>16}-5010  [000] {t:.6f}: {body.replace('CPU 0/KVM:', comm + ':')}"
        for t, _, _, body in parts()[0]]])
    assert [(t["tid"], t["comm"], t["run_ns"]) for t in doc["tasks"] if t["tid"]] == \
        [(5010, comm, 700_200_000)]
    assert doc["trace"]["problems"] == []
