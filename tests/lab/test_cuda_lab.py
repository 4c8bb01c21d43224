# SPDX-License-Identifier: Apache-2.0
"""Programs of CUDA go with their VM from host to host: the VM, its move and the agent are real, the GPU
and its driver are made up (tests/lab/guest-cuda)."""
import re

import pytest
from movelab import has_gpu, running_on, tell
from settings import full
from unixhttp import wait_for

# One after the other: they share the directory of the lab.
pytestmark = pytest.mark.xdist_group("lab")
GUEST = "counter"


@pytest.fixture(scope="module")
def guest(guest):
    tell("h1", guest, "cuda on")
    return guest


@pytest.fixture
def way(way, guest):
    tell(way[0], guest, "cuda reset")
    return way


class Program:
    """Counts in the memory of the guest's GPU."""

    def __init__(self, host, guest, mib=64):
        self.guest = guest
        self.pid = int(tell(host, guest, f"cuda start {mib}")[1])

    def fork(self, host):
        """A child that has its files of the GPU, and counts in memory of its own."""
        return int(tell(host, self.guest, f"cuda fork {self.pid}")[1])

    def steps(self, host, pid=None):
        return int(tell(host, self.guest, f"cuda steps {pid or self.pid}")[1])

    def runs(self, host, pid=None):
        before = self.steps(host, pid)
        return wait_for(lambda: self.steps(host, pid) > before, pause=0.1)

    def end(self, host):
        """How many of its numbers were wrong, how often it was taken back, and the number of its GPU."""
        said = " ".join(tell(host, self.guest, f"cuda end {self.pid}"))
        found = re.match(r"ok steps (\d+) bad (\d+) moves (\d+) on (\w+)$", said)
        assert found and int(found[1]) > 0, said
        return int(found[2]), int(found[3]), int(found[4], 16)


def moved(movelab, guest, source, target):
    wait_for(lambda: movelab.nodes[source].daemon.request("GET", f"/v1/vms/{guest}")[0] == 200)
    return movelab.nodes[source].ended(movelab.nodes[source].move(guest, target))


def story(move):
    return move["state"], move["cause"], [(s["verb"], s["ok"], s["answer"]) for s in move["steps"]]


def told(move):
    return {program["pid"]: program for program in move["guest"]["programs"]}


@pytest.mark.drawn("lab")
def test_there_and_back(movelab, guest, way):
    """With two programs, twice (in full ten times): their numbers are right to the last. So are those of
    forked children of one, which give up its files of the GPU."""
    programs = [Program(way[0], guest), Program(way[0], guest, mib=16)]
    first = int(tell(way[0], guest, "cuda gpu")[1])
    turns = 10 if full() else 2
    source, target = way
    children = []
    for _ in range(turns):
        children.append(programs[0].fork(source))
        check = movelab.nodes[source].move(guest, target, status=200, dry_run=True)
        assert check["problems"] == [] and check["guest"]["forked"] == 1, check
        move = moved(movelab, guest, source, target)
        assert move["state"] == "done", story(move)
        assert move["guest"]["gpu_bytes"] == 80 << 20 and move["guest"]["total"] == 2
        for program in programs:
            one = told(move)[program.pid]
            assert one["state"] == "running" and one["stop_ns"] >= one["lock_ns"] + one["restore_ns"]
            assert program.runs(target)
        [quiesce] = [step for step in move["steps"] if step["verb"] == "quiesce"]
        # The node of a GPU with another driver than NVIDIA's is all that leaves with it.
        assert ("2 programs with 80 MiB of GPU memory; 1 forked child released 1 descriptor and 0 maps"
                in quiesce["answer"])
        assert (move["guest"]["forked"], move["guest"]["forked_descriptors"]) == (1, 1)
        assert all(programs[0].runs(target, child) for child in children)
        source, target = target, source
    # Each GPU that came was another one.
    assert [program.end(source) for program in programs] == [(0, turns, first + turns)] * 2


@pytest.mark.drawn("lab")
def test_it_says_that_it_can_be_moved(movelab, guest, way):
    """Or what keeps it, before anything is tried; and how long it takes counts the GPU's memory."""
    source, target = way
    node = movelab.nodes[source]
    program = Program(source, guest, mib=3200)
    answer = node.daemon.get(f"/v1/vms/{guest}/movable")
    assert (answer["movable"], answer["reasons"]) == ("yes", []), answer
    assert [p["pid"] for p in answer["guest"]["programs"]] == [program.pid]
    check = node.move(guest, target, status=200, dry_run=True)
    expected = {step["verb"]: step["expected_s"] for step in check["steps"]}
    assert check["problems"] == [] and check["guest"]["gpu_bytes"] == 3200 << 20
    # 3200 MiB at 2.4 and at 6 GiB/s, and what the rest takes, or took in earlier moves.
    assert 1.30 < expected["quiesce"] < 60 and 0.52 < expected["resume"] < 60
    assert check["standstill_s"] > expected["quiesce"] + expected["resume"]
    tell(source, guest, f"cuda fault state {program.pid} 801")
    answer = node.daemon.get(f"/v1/vms/{guest}/movable")
    assert answer["movable"] == "no" and str(program.pid) in answer["reasons"][0], answer
    check = node.move(guest, target, status=200, dry_run=True)
    assert any("cannot release" in problem for problem in check["problems"]), check
    tell(source, guest, "cuda fault")
    # One that could be released and never be brought back.
    other = Program(source, guest)
    tell(source, guest, f"cuda call {other.pid} cuMemImportFromShareableHandle")
    check = node.move(guest, target, status=200, dry_run=True)
    [problem] = check["problems"]
    assert f"{other.pid} (fake-cuda-worke): it uses memory of another process "\
        "(cuMemImportFromShareableHandle called by fake-cuda-worker)" in problem
    assert {p["pid"]: p["movable"] for p in check["guest"]["programs"]} == {program.pid: "yes", other.pid: "no"}
    move = node.ended(node.move(guest, target))
    assert move["state"] in ("failed", "rolled_back") and "another process" in move["cause"], story(move)
    assert program.end(source)[:2] == (0, 0) and other.end(source)[:2] == (0, 0)


# ---- what goes wrong: see the table in docs/vgpu-guestd.8 ----

STAYS = {
    # Before the VM moves: fault, words of the cause.
    "unreleasable": ("fault state {bad} 801", "cannot release"),
    "tied": ("call {bad} cuMemAllocManaged", "unified memory"),
    "guest-memory": ("memory 64", "memory"),
    "does-not-stop": ("fault lock {bad} 600", "did not finish"),
    "checkpoint-fails": ("fault checkpoint {bad} 999", "error 999"),
    "checkpoint-hangs": ("fault checkpoint {bad} hang", "had not answered"),
    "checkpoint-crashes": ("fault checkpoint {bad} crash", "crashed"),
    "held": ("hold", "sleep"),
}
WAITS = {
    # After it has moved, for another GPU.
    "other-kind": ("next 4 8.0 NVIDIA A100", "NVIDIA A100 (compute capability 8.0)"),
    "too-full": ("next 81540 9.0 NVIDIA H100 80GB HBM3", "of free memory"),
    "not-in-driver": ("next none", "NVIDIA's driver"),
}
IS_LEFT = {
    # Likewise, for somebody who brings it back by hand: fault, words, state.
    "restore-fails": ("fault restore {bad} 999", "error 999", "released"),
    "restore-hangs": ("fault restore {bad} hang", "had not answered", "released"),
    "restore-crashes": ("fault restore {bad} crash", "crashed", "released"),
    "restore-is-final": ("fault restore {bad} final", "OUT_OF_MEMORY", "failed"),
    "unlock-fails": ("fault unlock {bad} 999", "error 999", "locked"),
}
ENDS = {
    # A program ends meanwhile, which is told.
    "dies-before": "fault checkpoint {bad} die",
    "dies-after": "fault restore {bad} die",
}


def it_stays(movelab, guest, way, good, bad, name):
    """The VM is where it was, and all programs go on with the GPU that they had."""
    source, target = way
    fault, words = STAYS[name]
    movelab.nodes[source].reload("[actions]\nguest_deadline=16s\n")
    said = tell(source, guest, "cuda " + fault.format(bad=bad.pid))
    move = moved(movelab, guest, source, target)
    tell(source, guest, "cuda memory 65536")
    tell(source, guest, "cuda fault")
    if name == "held":
        tell(source, guest, f"cuda kill {said[1]}")
    # What the guest sees beforehand is found before anything is stopped.
    is_seen = move["cause"].startswith("precheck: the guest cannot release its GPUs now: ")
    assert is_seen or move["cause"].startswith("quiesce: the guest: "), move["cause"]
    assert is_seen or name not in ("unreleasable", "tied"), move["cause"]
    assert words in move["cause"] and move["state"] == ("failed" if is_seen else "rolled_back"), story(move)
    assert "detach" not in [step["verb"] for step in move["steps"]]
    assert running_on(guest) == [source] and has_gpu(source, guest)
    assert good.runs(source) and bad.runs(source)
    return source, [bad]


def it_waits(movelab, guest, way, good, bad, name):
    """The VM is there, its programs stand still and are told of; they go on when it has moved back."""
    source, target = way
    fault, words = WAITS[name]
    tell(source, guest, "cuda " + fault)
    move = moved(movelab, guest, source, target)
    assert (move["state"], move["vm_on"], move["gpu"]) == ("failed", "target", "attached"), story(move)
    assert move["cause"].startswith("resume: the guest: ") and words in move["cause"], move["cause"]
    assert {told(move)[p.pid]["state"] for p in (good, bad)} == {"released"}, move["guest"]
    tell(target, guest, "cuda next")
    move = moved(movelab, guest, target, source)
    assert move["state"] == "done", story(move)
    assert good.runs(source) and bad.runs(source)
    return source, [bad]


def it_is_left(movelab, guest, way, good, bad, name):
    """One program stands still, the others go on; when the driver obeys again, it is brought back by
    hand."""
    source, target = way
    fault, words, state = IS_LEFT[name]
    movelab.nodes[source].reload("[actions]\nguest_deadline=16s\n")
    tell(source, guest, "cuda " + fault.format(bad=bad.pid))
    move = moved(movelab, guest, source, target)
    assert (move["state"], move["vm_on"], move["gpu"]) == ("failed", "target", "attached"), story(move)
    assert words in move["cause"] and str(bad.pid) in move["cause"], move["cause"]
    assert told(move)[bad.pid]["state"] == state and told(move)[bad.pid]["why"], told(move)[bad.pid]
    assert good.runs(target)
    tell(target, guest, "cuda fault")
    if state == "failed":
        tell(target, guest, f"cuda kill {bad.pid}")
        return target, []
    tell(target, guest, "cuda restore")
    assert bad.runs(target)
    return target, [bad]


def it_ends(movelab, guest, way, good, bad, name):
    source, target = way
    tell(source, guest, "cuda " + ENDS[name].format(bad=bad.pid))
    move = moved(movelab, guest, source, target)
    tell(target, guest, "cuda fault")
    assert move["state"] == "done", story(move)
    assert told(move)[bad.pid]["state"] == "gone" and told(move)[good.pid]["state"] == "running"
    tell(target, guest, f"cuda kill {bad.pid}")
    assert good.runs(target)
    return target, []


def agent_ends(movelab, guest, way, good, bad, _):
    """While the VM moves: the next agent knows what was released."""
    source, target = way
    node = movelab.nodes[source]
    node.reload("[actions]\nbandwidth=4\n")
    move = node.move(guest, target)
    wait_for(lambda: node.migration(move)["progress"]["processed_bytes"] > 0, pause=0.05)
    tell(source, guest, "cuda restart")
    move = node.ended(move)
    assert move["state"] == "done", story(move)
    assert good.runs(target) and bad.runs(target)
    return target, [bad]


FAULTS = ([(it_stays, name) for name in STAYS] + [(it_waits, name) for name in WAITS] +
          [(it_is_left, name) for name in IS_LEFT] + [(it_ends, name) for name in ENDS] +
          [(agent_ends, "agent-ends")])


@pytest.mark.drawn("lab-faults")
@pytest.mark.parametrize("fault, name", FAULTS,
                         ids=lambda v: v if isinstance(v, str) else "")
def test_fault(movelab, guest, way, fault, name):
    good, bad = Program(way[0], guest), Program(way[0], guest)
    where, others = fault(movelab, guest, way, good, bad, name)
    for program in [good, *others]:
        assert program.end(where)[0] == 0
