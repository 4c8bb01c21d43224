#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Compares the CPU time of the last runs of tools/check with tests/costs. Both are in units of a job that
each run did itself, which takes longer on a slower or busier machine."""
import collections
import os
import sys

# A run may cost this many times what tests/costs has: machines differ.
LIMIT = 1.3
# Growth below this is not reported.
LITTLE = 0.5
HEAD = """# What tools/check costs: part, file of the part (-: the part as a whole), CPU time in units of the
# fixed job. Written by tools/check --set-costs, see HACKING.md.
"""


def read_run(path):
    """The seconds of a job, and (part, file) -> units."""
    jobs, seconds = [], collections.Counter()
    with open(path, encoding="utf-8") as file:
        for line in file:
            part, name, value = line.rstrip("\n").split("\t")
            if part == "job":
                jobs.append(float(value))
            else:
                seconds[part, name] += float(value)
    job = sum(jobs) / len(jobs)
    return job, {key: value / job for key, value in seconds.items()}


def read_runs(paths):
    """Of all runs that were made; each has its own job, for the machine may have been busier."""
    jobs, units = [], {}
    for path in paths:
        if os.path.exists(path):
            job, run = read_run(path)
            jobs.append(job)
            units.update(run)
        else:
            print(f"not compared: there is no {path}")
    if not jobs:
        sys.exit("No run has left its costs: run tools/check and tools/check --sanitizers first.")
    return sum(jobs) / len(jobs), units


def read_kept(path):
    """(part, file) -> units."""
    kept = {}
    if not os.path.exists(path):
        return kept
    with open(path, encoding="utf-8") as file:
        for line in file:
            if not line.startswith("#"):
                part, name, value = line.rstrip("\n").split("\t")
                kept[part, name] = float(value)
    return kept


def write_kept(path, kept):
    with open(path, "w", encoding="utf-8") as file:
        file.write(HEAD)
        for (part, name), value in sorted(kept.items()):
            if name == "-" or value >= LITTLE:
                file.write(f"{part}\t{name}\t{value:.2f}\n")


def total(costs, builds):
    """Of the parts that build, or of the others."""
    return sum(value for (part, name), value in costs.items()
               if name == "-" and part.startswith("build ") == builds)


def print_growth(run, kept, job):
    for of_part in (True, False):
        grown = sorted(((value - kept.get(key, 0), key) for key, value in run.items()
                        if (key[1] == "-") == of_part and value - kept.get(key, 0) > LITTLE), reverse=True)
        for more, (part, name) in grown[:20]:
            what = part if of_part else f"{name} ({part})"
            print(f"    {what}: {run[part, name]:.1f}, was {kept.get((part, name), 0):.1f}: "
                  f"about {more * job:.0f} s more here")


def check(run, kept, job):
    parts = {part for part, _ in run}
    for part in sorted({part for part, _ in kept} - parts):
        print(f"not compared: {part} (it was not run, or was built with a compiler cache)")
    kept = {key: value for key, value in kept.items() if key[0] in parts}
    good = True
    for builds, what in (True, "builds"), (False, "tests"):
        now, limit = total(run, builds), LIMIT * total(kept, builds)
        if now or limit:
            print(f"CPU time of the {what}: {now:.1f} fixed jobs of {job:.2f} s; the limit is {limit:.1f}")
        good = good and now <= limit
    if not good:
        print(f"The limit is {LIMIT} times what tests/costs has. These have grown:")
        print_growth(run, kept, job)
        print("Make them cheaper, sample cases, or say in the commit why it is worth it and run "
              "tools/check --set-costs")
    return good


def main():
    verb, *run_paths, kept_path = sys.argv[1:]
    job, run = read_runs(run_paths)
    if verb == "set":
        write_kept(kept_path, run)
    elif not check(run, read_kept(kept_path), job):
        sys.exit(1)


main()
