# SPDX-License-Identifier: Apache-2.0
"""What the hypervisor that a test runs under does to it."""


def stolen_ns(cpu):
    """What it has kept of a CPU so far, counted in ticks of 10 ms. Who ran there meanwhile was on its
    CPU as far as events tell, but schedstat does not count that."""
    with open("/proc/stat", encoding="ascii") as file:
        [line] = [line for line in file if line.startswith(f"cpu{cpu} ")]
    return int(line.split()[8]) * 10_000_000
