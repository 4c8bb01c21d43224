# SPDX-License-Identifier: Apache-2.0
"""Threads of the kernel that work for a VM (vhost-PID on kernels before 6.4, kvm-pit/PID), and those of
modules.

Each time for 8 of 20 ms, 20 times, such a thread takes the CPU from vCPU 6011 of VM 6000, whose wait is
160 ms. VM 5000 runs once for 1 ms, after the first time or, told to be silent, not at all."""
import pytest

from vgpuctl import analyze

IDS = {"both": lambda tid, pid: f" ({pid:7d})", "threads": lambda tid, pid: ""}


def text(comm, tid, owner_at=0, ids="both", owner=(5011, 5000, "CPU 0/KVM"), pid=None):
    """owner_at: the turn in which the other VM runs; None: never."""
    lines = []
    owner_tid, owner_pid, owner_comm = owner

    def switch(ms, prev, state, then):
        (prev_comm, prev_tid, prev_pid), (next_comm, next_tid, _) = prev, then
        lines.append(
            f"{prev_comm:>16}-{prev_tid:<7}{IDS[ids](prev_tid, prev_pid)} [000] d..2. "
            f"{100 + ms / 1000:.6f}: sched_switch: prev_comm={prev_comm} prev_pid={prev_tid} prev_prio=120 "
            f"prev_state={state} ==> next_comm={next_comm} next_pid={next_tid} next_prio=120\n")

    vcpu, worker = ("CPU 0/KVM", 6011, 6000), (comm, tid, pid or tid)
    other = (owner_comm, owner_tid, owner_pid)
    for i in range(20):
        switch(20 * i, vcpu, "R", worker)
        switch(20 * i + 8, worker, "S", vcpu)
        if i == owner_at:
            switch(20 * i + 9, vcpu, "S", other)
            switch(20 * i + 10, other, "S", vcpu)
    return "# tracer: nop\n" + "".join(lines)


def lost(path, data, *args):
    path.write_text(data)
    doc = analyze(path, *args).doc()
    vm = next(v for v in doc["vms"] if v["name"] in ("qemu-6000", "qemu-6011", "db"))
    assert (vm["preempt_ns"], vm["preemptions"]) == (160_000_000, 20)
    [entry] = vm["lost_to"]
    assert (entry["ns"], entry["count"]) == (160_000_000, 20)
    return entry["aggressor"], entry.get("emulator_ns", 0), [v["name"] for v in doc["vms"]]


@pytest.mark.parametrize("comm", ["vhost-5000", "kvm-pit/5000"])
@pytest.mark.parametrize("owner_at", [0, 19])
def test_it_counts_as_its_vm(tmp_path, comm, owner_at):
    """Also what it did before the VM was seen."""
    assert lost(tmp_path / "t", text(comm, 5055, owner_at)) == \
        ("qemu-5000", 160_000_000, ["qemu-5000", "qemu-6000"])


def test_the_owner_is_named_by_a_vm_map(tmp_path):
    (tmp_path / "map").write_text("5000 web\n6000 db\n")
    assert lost(tmp_path / "t", text("vhost-5000", 5055), "--vm-map", tmp_path / "map") == \
        ("web", 160_000_000, ["db", "web"])


def test_without_process_ids_by_the_main_thread(tmp_path):
    """It has the number of its process."""
    (tmp_path / "map").write_text("5000 web\n5011 web\n6011 db\n")
    assert lost(tmp_path / "t", text("vhost-5000", 5055, 10, "threads", (5000, 5000, "qemu-system-x86")),
                "--vm-map", tmp_path / "map") == ("web", 160_000_000, ["db", "web"])


@pytest.mark.parametrize("comm", ["vhost-5000", "kvm-pit/5000", "vhost-0", "vhost-99999999999"])
def test_of_a_vm_that_is_not_seen(tmp_path, comm):
    assert lost(tmp_path / "t", text(comm, 5055, None)) == ("host:kernel", 0, ["qemu-6000"])


def test_a_thread_of_another_program(tmp_path):
    """A thread of a program with several is none of the kernel, whatever its name."""
    assert lost(tmp_path / "t", text("vhost-5000", 5055, pid=5050))[0] != "qemu-5000"


@pytest.mark.parametrize("comm", ["z_wr_iss", "nv_queue", "gfx_0.0.0", "comp_1.1.0", "sdma0", "txg_sync",
                                  "UVM global queu", "i915/signal:0", "drbd_w_r0", "vcn_unified_0"])
def test_threads_of_modules_are_the_kernel(tmp_path, comm):
    assert lost(tmp_path / "t", text(comm, 5055, None))[0] == "host:kernel"


@pytest.mark.parametrize("comm", ["vhost-user-gpu", "gfxbench", "sdmagick", "zstd", "comp"])
def test_programs_are_not(tmp_path, comm):
    assert lost(tmp_path / "t", text(comm, 5055, None))[0] == "host:user"
