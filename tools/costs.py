#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What a run of tools/check costs in CPU time, held against what tests/costs has. Both are in units of
a job that the same run did, which takes more time where the machine is slower or busier."""
import collections
import os
import sys

# A run may cost so many times what was set. Seeds draw other cases, machines differ.
LIMIT = 1.3
# What has grown by less than this is not told of.
LITTLE = 0.5
HEAD = """# What tools/check costs: part, file of the part (-: the part as a whole), CPU time in units of the
# fixed job. Written by tools/check --set-costs, see HACKING.md.
"""


def read_run(path):
    """(part, file) -> units."""
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


def tell_growth(run, kept, job):
    for of_part in (True, False):
        grown = sorted(((value - kept.get(key, 0), key) for key, value in run.items()
                        if (key[1] == "-") == of_part and value - kept.get(key, 0) > LITTLE), reverse=True)
        for more, (part, name) in grown[:20]:
            what = part if of_part else f"{name} ({part})"
            print(f"    {what}: {run[part, name]:.1f}, was {kept.get((part, name), 0):.1f}: "
                  f"about {more * job:.0f} s more here")


def check(run, kept, job):
    good = True
    for builds, what in (True, "builds"), (False, "tests"):
        now, before = total(run, builds), total(kept, builds)
        print(f"CPU time of the {what}: {now:.1f} times that of the fixed job ({job:.2f} s), of which may be "
              f"{LIMIT * before:.1f}")
        good = good and now <= LIMIT * before
    if not good:
        print(f"That is more than {LIMIT} times what tests/costs has. What grew since that was set:")
        tell_growth(run, kept, job)
        print("Make it cheaper, have cases drawn, or say in the commit why it is worth it, and set it anew: "
              "tools/check --set-costs")
    return good


def main():
    verb, run_path, kept_path = sys.argv[1:]
    job, run = read_run(run_path)
    if verb == "set":
        write_kept(kept_path, run)
    elif not check(run, read_kept(kept_path), job):
        sys.exit(1)


main()
