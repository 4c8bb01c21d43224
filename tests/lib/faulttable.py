# SPDX-License-Identifier: Apache-2.0
"""The matrix of faults: which faults happen to which moves, in which phases. A case is called MOVE/FAULT/PHASE."""
from collections import Counter

from settings import random_of

# `opening`: libvirt has begun, and no byte has been copied. `copying`: some memory has been copied.
PHASES = ("prechecking", "reserving", "quiescing", "detaching", "opening", "copying", "attaching", "resuming",
          "verifying")
# From which phase on the VM is on the target.
ARRIVED = ("attaching", "resuming", "verifying")
WITH_GUEST = ("quiescing", "resuming")

# What each move has: a guest with the agent, without it, with programs of CUDA; an older program on one side. nova moves a VM
# without a GPU.
MOVES = ("agent", "plain", "cuda", "old-source", "old-target", "old-agent",
         "nova")

# Every write of a move with the agent to the journal of the source.
WRITES = tuple(f"after-{n:02}" for n in range(1, 23)) + tuple(f"before-{n:02}" for n in range(2, 24))
# Likewise of the target, all of them.
TARGET_WRITES = tuple(f"after-{n:02}" for n in range(1, 11)) + tuple(f"before-{n:02}" for n in range(1, 11))
STATE_PHASES = ("reserving", "quiescing", "copying", "attaching", "resuming")

# fault: phases in which it happens to a move with the agent.
FAULTS = {
    "none": ("whole",),
    "vgpud-source-killed": WRITES,
    "vgpud-target-killed": ("reserving", "quiescing", "detaching", "opening", "copying", "attaching", "resuming",
                            *TARGET_WRITES),
    "vgpud-target-stopped": ("reserving", "copying", "attaching"),
    "libvirtd-source-killed": ("quiescing", "detaching", "opening", "copying", "attaching", "resuming"),
    "libvirtd-target-killed": ("reserving", "quiescing", "opening", "copying", "attaching", "resuming", "verifying"),
    "libvirtd-source-stopped": ("quiescing", "detaching", "opening", "copying", "attaching", "resuming"),
    "libvirtd-target-stopped": ("reserving", "quiescing", "opening", "copying", "attaching", "resuming", "verifying"),
    "libvirtd-source-stays-stopped": ("quiescing", "copying"),
    "libvirtd-target-stays-stopped": ("copying", "attaching"),
    "vm-killed": ("quiescing", "detaching", "copying", "attaching", "resuming"),
    "vm-stopped": ("quiescing", "detaching", "copying", "attaching", "resuming"),
    "arrival-killed": ("opening", "copying"),
    "arrival-stopped": ("copying",),
    "arrival-stays-stopped": ("opening", "copying"),
    "link-cut": ("reserving", "quiescing", "opening", "copying", "attaching", "resuming"),
    "link-stays-cut": ("copying", "attaching"),
    "link-drops": ("quiescing", "copying", "attaching"),
    "link-slow": ("reserving", "copying", "attaching"),
    "agent-silent": WITH_GUEST,
    "agent-lies": ("quiescing",),
    "agent-killed": WITH_GUEST,
    "hook-hangs": WITH_GUEST,
    "hook-fails": WITH_GUEST,
    "attach-refused": ("attaching",),
    "disk-source-full": STATE_PHASES,
    "disk-target-full": ("reserving", "copying"),
    "disk-source-read-only": ("quiescing", "copying", "attaching"),
    "disk-target-read-only": ("reserving", "copying"),
    "disk-source-frozen": STATE_PHASES,
    "disk-target-frozen": ("reserving", "copying", "attaching"),
    "lease-lost": ("quiescing", "copying"),
    "lease-taken": ("quiescing", "copying"),
    "stranger-asks": ("copying",),
    "clock-source-ahead": ("quiescing", "copying"),
    "clock-source-back": ("quiescing", "copying"),
    "clock-target-ahead": ("copying",),
    "clock-target-back": ("copying",),
    "guest-reboots": ("quiescing", "copying", "resuming"),
    "guest-powers-off": ("quiescing", "copying", "resuming"),
    "guest-paused": ("quiescing", "copying", "resuming"),
    "abort": ("prechecking", "reserving", "quiescing", "detaching", "opening", "copying", "attaching", "resuming",
              "verifying"),
    "virsh-destroys": ("quiescing", "copying", "resuming"),
    "virsh-aborts-job": ("copying",),
    "virsh-migrates": ("quiescing", "copying"),
    "virsh-undefines": ("quiescing", "copying"),
    "asked-twice": ("reserving", "copying", "attaching"),
}

# Of other moves: faults with the phases that they have. Writes are those of that move.
PLAIN_WRITES = tuple(f"after-{n:02}" for n in range(1, 17, 2)) + tuple(f"before-{n:02}" for n in range(3, 18, 2))
NOVA_WRITES = tuple(f"after-{n:02}" for n in range(1, 10)) + tuple(f"before-{n:02}" for n in range(2, 11))
OTHERS = {
    "plain": {"none": ("whole",), "vgpud-source-killed": PLAIN_WRITES,
              "libvirtd-source-killed": ("detaching", "copying"), "libvirtd-target-killed": ("copying", "attaching"),
              "libvirtd-source-stopped": ("detaching", "copying"), "libvirtd-target-stopped": ("copying", "attaching"),
              "arrival-killed": ("copying",), "arrival-stays-stopped": ("opening",), "link-cut": ("copying", "attaching"),
              "attach-refused": ("attaching",), "abort": ("detaching", "copying", "attaching"),
              "disk-source-full": ("copying",), "lease-taken": ("copying",), "guest-reboots": ("copying",)},
    "cuda": {"none": ("whole",), "vgpud-source-killed": ("after-08", "after-12", "after-16", "after-20", "before-09",
                                                         "before-13", "before-17"),
             "agent-killed": WITH_GUEST, "agent-silent": WITH_GUEST, "libvirtd-target-killed": ("copying", "resuming"),
             "arrival-killed": ("copying",), "arrival-stays-stopped": ("opening",), "attach-refused": ("attaching",),
             "abort": ("quiescing", "copying", "resuming"), "link-cut": ("copying",)},
    "old-source": {"none": ("whole",), "vgpud-target-killed": ("quiescing", "copying"), "link-cut": ("copying",),
                   "arrival-killed": ("copying",), "attach-refused": ("attaching",), "abort": ("copying",)},
    "old-target": {"none": ("whole",), "vgpud-source-killed": ("after-06", "after-12", "before-07", "before-13"),
                   "vgpud-target-killed": ("quiescing", "copying"), "link-cut": ("copying",),
                   "arrival-killed": ("copying",), "attach-refused": ("attaching",), "abort": ("copying",)},
    "old-agent": {"none": ("whole",), "agent-killed": WITH_GUEST, "agent-silent": ("quiescing",),
                  "hook-hangs": ("quiescing",), "attach-refused": ("attaching",), "abort": ("quiescing", "copying")},
    "nova": {"none": ("whole",), "vgpud-source-killed": NOVA_WRITES, "vgpud-target-killed": ("copying",),
             **{fault: ("copying",) for fault in (
                 "libvirtd-source-killed", "libvirtd-target-killed", "libvirtd-source-stopped", "libvirtd-target-stopped",
                 "vm-killed", "vm-stopped", "arrival-killed", "arrival-stopped", "link-cut", "link-drops",
                 "disk-source-full", "disk-source-read-only", "disk-source-frozen", "clock-source-ahead",
                 "clock-source-back", "guest-reboots", "guest-powers-off", "guest-paused", "virsh-aborts-job",
                 "asked-twice", "nova-forgets-tokens")},
             "abort": ("prechecking", "copying", "verifying"), "nova-silent": ("prechecking", "copying", "verifying"),
             "nova-fails": ("prechecking", "copying", "verifying")},
}

# What tools/check runs by default.
FIXED = ("agent/vgpud-source-killed/after-10", "agent/arrival-killed/copying", "agent/attach-refused/attaching")

# The VM ends by the fault itself.
DEADLY = ("vm-killed", "guest-powers-off", "virsh-destroys")
REBOOTS = ("guest-reboots",)

# Faults after which the VM may be without its GPU for longer, and why.
LATE = {
    "libvirtd-source-stays-stopped": "only the source's libvirtd can plug in the GPU again; the move reports that a "
                                     "restart of libvirtd ends the wait",
    "libvirtd-target-stays-stopped": "after the VM has arrived, only the target's libvirt can plug in the GPU; the move "
                                     "reports the reason for the wait",
    "link-stays-cut": "after the VM has arrived, only the target's libvirt can plug in the GPU, and the source cannot "
                      "reach it",
}


def cases():
    """All, in their order."""
    named = []
    for move in MOVES:
        for fault, phases in (FAULTS if move == "agent" else OTHERS[move]).items():
            named += [f"{move}/{fault}/{phase}" for phase in phases]
    return named


def parts_of(case):
    """Move, fault and phase; a write of the journal is a phase whatever its number."""
    move, fault, phase = case.split("/")
    return move, fault, phase.split("-")[0]


def draw(n, seed):
    """n of them by the seed: those first whose move, fault or phase was drawn least."""
    left, drawn, seen = cases(), set(), Counter()
    random_of(f"faults-{seed}").shuffle(left)
    while left and len(drawn) < n:
        case = min(left, key=lambda case: sorted(seen[part] for part in parts_of(case)))
        left.remove(case)
        drawn.add(case)
        seen.update(parts_of(case))
    return [case for case in cases() if case in drawn]


TEXT = """# Faults while a VM moves

`tools/check --faults` moves a VM with a GPU between two hosts with real libvirtd and QEMU, and causes one fault in one
phase of each move. It then queries both hosts' libvirt and the guest. A case passes if the VM runs on exactly one host,
has not rebooted, and has its GPU. In addition, the move must have ended, and no reservation may remain. If a move has
failed, the tool first runs the commands from the move's error message, and the note lists these commands.

A VM is without its GPU for at most 60 s after a fault has ended. If a fault does not end, the VM is without its GPU for
at most 90 s after the fault has started. The exceptions are:

{late}

The first part of a case's name is the kind of move. `agent` is a VM with a GPU and vgpu-guestd. `plain` has no
agent. `cuda` has CUDA programs and a fake driver. In `old-source`, `old-target` and `old-agent`, one side runs the
previous version. The VM of `nova` has no GPU, and a fake nova moves it through both hosts' libvirt.

In the cases `after-NN` and `before-NN`, vgpud is killed after or before a write to its journal. On the source, NN
counts the writes of the move. On the target, NN counts all writes since the move was requested.

A fault lasts {lasts} s. A fault with `stays` in its name lasts until the move has ended and the VM has its GPU. If a
fault happens while memory is copied, the bandwidth of the migration is limited to 8 MiB/s. `agent/none/whole` is a move
without a fault or a limit. An outcome of `not reached` means that the move ended before the fault could happen. An
outcome of `broken` means that the tool could not cause the fault, and the case shows nothing.

`tests/lab/faults --docs build/faults.tsv > docs/faults.md` writes this page.

{summary}

| case | outcome | s without GPU | s in total | note |
| --- | --- | --- | --- | --- |
{rows}
"""


def document(results, clean, lasts):
    """docs/faults.md, of rows by case."""
    rows = [results[case] for case in cases() if case in results]
    good = sum(row[1] in clean for row in rows)
    left = Counter(case.split("/")[0] for case in cases() if case not in results)
    lacks = ", ".join(f"{left[move]} of `{move}`" for move in MOVES if left[move])
    return TEXT.format(
        late="\n".join(f"- `{fault}`: {why}." for fault, why in LATE.items()), lasts=lasts,
        summary=f"Of {len(cases())} cases, {len(rows)} ran, and {good} passed."
                + (f" These did not run: {lacks}." if lacks else ""),
        rows="\n".join(f"| {' | '.join(cell.replace('|', '/') for cell in row)} |" for row in rows))
