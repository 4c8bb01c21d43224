# SPDX-License-Identifier: Apache-2.0
"""What tests cost in CPU time: their own, that of what they start, and that of what runs for them
without being a child of theirs."""
import os

TICK = os.sysconf("SC_CLK_TCK")
# Processes that are no children of this one and run for it, such as those of the lab: callables that
# give pids.
others = []
# What each of them had used when it was seen last.
used = {}


def children(pid):
    try:
        for task in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{task}/children", encoding="ascii") as file:
                yield from map(int, file.read().split())
    except OSError:
        pass


def of_tree(pid):
    """In ticks: what the process, its children that it waited for, and its living children used."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            fields = file.read().rsplit(")", 1)[1].split()
    except OSError:
        return 0
    return sum(map(int, fields[11:15])) + sum(map(of_tree, children(pid)))


def of_this_run():
    """In seconds."""
    for find in others:
        for pid in find():
            used[pid] = max(used.get(pid, 0), of_tree(pid))
    return (of_tree(os.getpid()) + sum(used.values())) / TICK
