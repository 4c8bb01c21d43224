# SPDX-License-Identifier: Apache-2.0
"""Each of 300 VMs that wait for one CPU loses time to all others. At most 128 of them are listed, those that took the
most; the rest is in host:unknown, and the sums are exact."""
import vgpuctl

VMS, LONG = 300, 150
US = 1000


def turns():
    """Two rounds: each VM runs for 100 us, and LONG for 5 ms."""
    return [(vm, 5000 if vm == LONG else 100) for vm in [*range(VMS), *range(VMS)]]


def record(path):
    lines, at, last = [], 100_000_000, "swapper/0 0"
    for vm, us in [*turns(), (0, 0)]:
        (comm, tid), then = last.rsplit(" ", 1), 10_000 + 2 * vm + 1
        pid = int(tid) and int(tid) - 1
        lines.append(f"{comm:>16}-{tid:<7} ({pid:7}) [000] d..2. {at // 10**6}.{at % 10**6:06}: sched_switch: "
                     f"prev_comm={comm} prev_pid={tid} prev_prio=120 prev_state=R ==> "
                     f"next_comm=CPU 0/KVM next_pid={then} next_prio=120\n")
        last, at = f"CPU 0/KVM {then}", at + us
    path.write_text("".join(lines))
    return path


def test_rows_and_sums(tmp_path):
    vms = vgpuctl.analyze(record(tmp_path / "t")).doc()["vms"]
    assert len(vms) == VMS
    named, name = turns(), f"qemu-{10_000 + 2 * LONG}"
    for vm in vms:
        me = (vm["pid"] - 10_000) // 2
        since = me + 1
        # VM 0 is switched in once more at the end.
        waited = sum(us for other, us in named[since:] if other != me) * US
        assert vm["preempt_ns"] == waited
        assert sum(row["ns"] for row in vm["lost_to"]) == waited
        rows = {row["aggressor"]: row for row in vm["lost_to"]}
        assert len(rows) == len(vm["lost_to"]) <= 129
        if me == LONG:
            continue
        long = sum(us for other, us in named[since:] if other == LONG) * US
        first = vm["lost_to"][0]["aggressor"]
        assert rows[name]["ns"] == rows[name]["vcpu_ns"] == long and first in (name, "host:unknown")
