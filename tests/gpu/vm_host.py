# SPDX-License-Identifier: Apache-2.0
"""The part `host` of try-vm: programs on the host that use the GPU through proxies, compared with the vendor's library in
the same run: the stages of a start, copies, and single calls. It needs no VM."""
import json
import os
import statistics

import vm_lab
from unixhttp import wait_for
from vm_lab import BUILD, Failed, native, on_host, ours, remote, smi

PORT = 7200
TURNS, TURNS_HERE = 5, 2
SINGLE_ROUNDS = 300
# Of native; see docs/benchmarks.md.
START_MS, COPY, SET_ARG = 30, 0.9, 1.2


def socket_of(name):
    return os.path.join(vm_lab.WORK, name + ".sock")


def ways(lab_):
    """The proxies, and the name and environment of each way to the device."""
    address = f"tcp:127.0.0.1:{PORT}"
    proxies = [lab_.proxy("confined", [("vm1", address, ""), ("local", socket_of("confined"), "")]),
               lab_.proxy("bare", [("vm2", socket_of("bare"), "")], "--unconfined")]
    alone = native(lab_.vendor)
    return proxies, {"alone": alone, "alone, no cache": {**alone, "CUDA_CACHE_DISABLE": "1", "POCL_KERNEL_CACHE": "0"},
                     "memory": remote(socket_of("confined")), "memory, unconfined": remote(socket_of("bare"), "vm2"),
                     "TCP": remote(address)}


def probe(lab_, proxies, environment):
    """It ends when its process at a proxy has ended, too: the driver would make the next one wait for that."""
    status, text, _ = on_host(["/usr/bin/python3", ours("tests/gpu/vm_probe.py"), lab_.rounds()], environment)
    if status:
        raise Failed(f"the probe: {text}")
    wait_for(lambda: not any(told["clients"] for proxy in proxies for told in proxy.told()), 60, pause=0.05)
    return json.loads(text.splitlines()[-1])


def table(report, rows):
    def cells(*keys):
        for found in rows.values():
            values = []
            for row in found:
                for key in keys:
                    row = row[key]
                values.append(row)
            yield statistics.median(values)
    first = next(iter(rows.values()))[0]
    report.head("medians", *rows)
    report.row("start to a built program, ms", *(f"{value:.1f}" for value in cells("start_ms")))
    for stage in first["stages_ms"]:
        report.row(f"of that: {stage}", *(f"{value:.1f}" for value in cells("stages_ms", stage)))
    for what, key in (("empty kernel and clFinish, us", "finish_us"), ("queued launch, us", "launch_us")):
        report.row(what, *(f"{value:.1f}" for value in cells(key)))
    for way in ("write", "read"):
        for size in first[way]:
            report.row(f"{way} {int(size) >> 10} KiB, MB/s", *(f"{value:.0f}" for value in cells(way, size)))
    return {key: dict(zip(rows, cells(*keys))) for key, keys in (
        ("start", ("start_ms",)), ("write", ("write", str(4 << 20))), ("read", ("read", str(4 << 20))))}


def goals(report, found):
    for way in ("memory", "memory, warm"):
        more = found["start"][way] - found["start"]["alone"]
        report.goal(more <= START_MS, f"start: {way}, at most {START_MS} ms more than alone", f"{more:.0f} ms")
    for way in ("write", "read"):
        ratio = found[way]["memory"] / found[way]["alone"]
        report.goal(ratio >= COPY, f"{way} of 4 MiB through shared memory, at least {COPY} of the bandwidth alone",
                    f"{ratio:.2f}")


def calls(lab_):
    """The library's own cost, without a proxy."""
    status, text, _ = on_host([os.path.join(BUILD, "tests/opencl/bench-calls"), lab_.vendor,
                               os.path.join(BUILD, "libvgpu-opencl.so"), str(SINGLE_ROUNDS), "transfers"],
                              {**native(lab_.vendor), "VGPU_OPENCL_AGENT": "/nowhere",
                               "VGPU_OPENCL_VENDORS": os.path.join(vm_lab.WORK, "confined", "vendors")})
    if status:
        raise Failed(f"bench-calls: {text}")
    lab_.report.head("the library on top of the vendor's, ns", "alone", "with the library", "ratio")
    for line in text.splitlines():
        cells = line.split()
        lab_.report.row(*cells)
        if cells[0].startswith("clSetKernelArg"):
            lab_.report.goal(float(cells[-1]) <= SET_ARG, f"{cells[0]}, at most {SET_ARG} times", cells[-1])


def part(lab_):
    proxies, environments = ways(lab_)
    turns = TURNS if lab_.is_gpu else TURNS_HERE
    rows = {name: [] for name in environments}
    probe(lab_, proxies, environments["alone"])  # which fills caches
    for _ in range(turns):
        for name, environment in environments.items():
            rows[name].append(probe(lab_, proxies, environment))
    # From now on the driver stays initialized, for programs without a proxy as well.
    warm = {"memory, warm": remote(socket_of("warm")), "alone, beside it": environments["alone"]}
    proxies.append(lab_.proxy("warm", [("vm1", socket_of("warm"), "")], "--warm"))
    rows.update({name: [] for name in warm})
    for _ in range(turns):
        for name, environment in warm.items():
            rows[name].append(probe(lab_, proxies, environment))
    lab_.report.say("memory of the GPU when none of them runs, MiB:", smi("gpu", "memory.used"))
    goals(lab_.report, table(lab_.report, rows))
    digests = {json.dumps(row["digests"]) for found in rows.values() for row in found}
    lab_.report.judge(len(digests) == 1, "results of all runs are equal", digests)
    calls(lab_)
