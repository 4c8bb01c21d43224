# SPDX-License-Identifier: Apache-2.0
"""What tests cost in CPU time: their own, that of what they start, and that of what runs for them
without being a child of theirs."""
import os

TICK = os.sysconf("SC_CLK_TCK")
# Processes that others have started for this one, such as those of the lab: callables that give pids.
others = []


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
    pids = [os.getpid()] + [pid for find in others for pid in find()]
    return sum(map(of_tree, pids)) / TICK
