# SPDX-License-Identifier: Apache-2.0
"""Names for VMs, where the recording has process ids and where it has none.

Two VMs, QEMUs 5000 and 6000, have two vCPUs each. On each of two CPUs one of either takes turns of 10 ms
for 400 ms less 10 ms; those of 6000 begin on the CPU and are switched out at 0 ms: 5000's run 2 x 200 ms,
6000's 2 x 190 ms. On CPU 1 all is 100 us later."""
import pytest

from vgpuctl import analyze

THREADS = {5011: 5000, 5012: 5000, 6011: 6000, 6012: 6000}


def line(style, cpu, us, prev, then):
    comm = f"CPU {cpu}/KVM"
    stamp = f"{us // 10**6}.{us % 10**6:06d}"
    fields = (f"prev_comm={comm} prev_pid={prev} prev_prio=120 prev_state=R ==> next_comm={comm} "
              f"next_pid={then} next_prio=120\n")
    if style == "trace-cmd":
        return (f"{comm:>16}-{prev:<5} [{cpu:03d}] d..2. {stamp}: sched_switch:         {comm}:{prev} [120] R ==> "
                f"{comm}:{then} [120]\n")
    if style.startswith("perf"):
        ids = f"{THREADS[prev]:>5}/{prev:<5}" if style == "perf with ids" else f"{prev:>5}"
        return f"{comm:>16} {ids} [{cpu:03d}] {stamp}: sched:sched_switch: {fields}"
    return f"{comm:>16}-{prev:<7} ({THREADS[prev]:7d}) [{cpu:03d}] d..2. {stamp}: sched_switch: {fields}"


def text(style):
    out = []
    for i in range(40):
        for cpu in (0, 1):
            pair = (6011 + cpu, 5011 + cpu)
            out.append(line(style, cpu, 10**8 + i * 10000 + cpu * 100, *(pair if i % 2 == 0 else pair[::-1])))
    return ("cpus=2\n" if style == "trace-cmd" else "") + "".join(out)


def read(path, style, vm_map):
    (path / "t").write_text(text(style))
    (path / "map").write_text(vm_map)
    done = analyze(path / "t", "--vm-map", path / "map")
    return {v["name"]: (len(v["vcpus"]), v["run_ns"]) for v in done.doc()["vms"]}, done.err


def others(err):
    """Warnings, but that of the wakeups, which these texts do not have."""
    return [line for line in err.splitlines() if "was recorded without sched_wakeup, " not in line]


def expect_two(vms):
    # The last switch, of which CPU 0's is 100 us before the end, is to 6000's.
    assert vms == {"web": (2, 400_000_000), "db": (2, 380_100_000)}


ALL = "".join(f"{tid} {name}\n" for name, tids in {
    "web": (5000, 5001, 5011, 5012), "db": (6000, 6001, 6011, 6012)}.items() for tid in tids)


@pytest.mark.parametrize("style", ["trace-cmd", "perf", "perf with ids", "tracefs"])
def test_the_map_of_the_manual(tmp_path, style):
    """It has the ids of all threads, most of which do nothing."""
    vms, err = read(tmp_path, style, ALL)
    expect_two(vms)
    assert others(err) == []


@pytest.mark.parametrize("style", ["perf with ids", "tracefs"])
def test_process_ids_alone(tmp_path, style):
    vms, err = read(tmp_path, style, "5000 web\n6000 db\n")
    expect_two(vms)
    assert others(err) == []


@pytest.mark.parametrize("style", ["trace-cmd", "perf"])
def test_process_ids_where_there_are_none(tmp_path, style):
    vms, err = read(tmp_path, style, "5000 web\n6000 db\n")
    assert sorted(vms) == ["qemu-5011", "qemu-5012", "qemu-6011", "qemu-6012"]
    assert "no record identifies the process of 4 vCPU threads" in err
    assert "no record has an ID that the VM map contains for 'db', 'web'" in err


def test_one_vm_of_two(tmp_path):
    vms, err = read(tmp_path, "trace-cmd", "5011 web\n5012 web\n6000 db\n")
    assert vms["web"] == (2, 400_000_000)
    assert "no record identifies the process of 2 vCPU threads" in err and "contains for 'db'\n" in err


def test_a_vm_that_is_not_recorded(tmp_path):
    vms, err = read(tmp_path, "tracefs", "5000 web\n6000 db\n" + "".join(f"{7000 + i} gone-{i:02d}\n" for i in range(12)))
    expect_two(vms)
    [warning] = others(err)
    assert "contains for 'gone-00', " in warning and warning.endswith("'gone-09' and 2 more")


def test_a_directory_of_vgpuctl_record(tmp_path):
    """Its own map has the VMs that did nothing, too."""
    (tmp_path / "trace.txt").write_text(text("tracefs"))
    (tmp_path / "vm-map.txt").write_text("5000 web\n6000 db\n7000 idle\n")
    done = analyze(tmp_path)
    expect_two({v["name"]: (len(v["vcpus"]), v["run_ns"]) for v in done.doc()["vms"]})
    assert others(done.err) == []
