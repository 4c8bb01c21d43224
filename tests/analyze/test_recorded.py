# SPDX-License-Identifier: Apache-2.0
"""The bundled recordings of real virtual machines, against the figures in their README and
against the oracle."""
import json
import os

import pytest

import oracle
from vgpuctl import ROOT, analyze, assert_matches, check_identities

DEMO = os.path.join(ROOT, "data", "demo")
VM_MAP = os.path.join(DEMO, "vm-map.txt")

# name: entries, switched out, preempted, blocked; and for LTTng guest, on-CPU, waiting in seconds
# without the intervals that are open at an edge of the recording. From data/demo/README.md.
README = {
    "lttng-kernel": {"vm-busy": (2877, 568, 568, 0, 2.553, 2.712, 3.504),
                     "vm-duty": (2682, 565, 561, 4, 2.547, 2.693, 3.475),
                     "vm-idle": (1384, 219, 99, 120, 0.477, 0.548, 0.804)},
    "perf-ctf": {"vm-busy": (2784, 539, 539, 0, 2.447, 2.621, 3.412),
                 "vm-duty": (2448, 545, 541, 4, 2.424, 2.582, 3.390),
                 "vm-idle": (1299, 203, 92, 111, 0.473, 0.546, 0.787)},
}
EVENTS = {"lttng-kernel": 17249, "perf-ctf": 16236}


@pytest.fixture(scope="module", params=sorted(README))
def recording(request):
    path = os.path.join(DEMO, "inner-host-3vms", request.param)
    names = dict((int(a), b) for a, b in (line.split() for line in open(VM_MAP)))
    return request.param, path, oracle.Oracle(oracle.from_babeltrace(path), vm_map=names)


@pytest.fixture(scope="module")
def doc(recording):
    return analyze(recording[1], "--vm-map", VM_MAP, "--tasks").doc()


def test_counts_of_readme(recording, doc):
    assert doc["trace"]["events"] == EVENTS[recording[0]]
    assert doc["trace"]["problems"] == []
    got = {vm["name"]: (vm["entries"], vm["switches_out"], vm["preemptions"], vm["blocks"])
           for vm in doc["vms"]}
    assert got == {name: row[:4] for name, row in README[recording[0]].items()}


def test_times_of_readme(recording, doc):
    """Clipped sums lie between the README's (open intervals left out) and 0.4 % above them."""
    for vm in doc["vms"]:
        got = (vm["guest_ns"], vm["run_ns"], vm["preempt_ns"])
        for ns, seconds in zip(got, README[recording[0]][vm["name"]][4:]):
            # The README prints whole milliseconds.
            low, high = (seconds - 0.0005) * 1e9, (seconds + 0.0005) * 1e9
            assert low * 0.998 <= ns <= high * 1.004, (vm["name"], ns, seconds)


def test_equals_oracle(recording, doc):
    assert_matches(doc, recording[2].measure())


def test_lost_to_explains_the_waits(recording, doc):
    for vm in doc["vms"]:
        waits = vm["preempt_ns"] + vm["wake_wait_ns"]
        assert abs(sum(e["ns"] for e in vm["lost_to"]) - waits) <= waits / 1000
        assert sum(e["count"] for e in vm["lost_to"]) == vm["preemptions"]


def test_every_thread_obeys_the_identity(recording, doc):
    check_identities(doc)
    assert len(doc["tasks"]) > 10


def test_part_of_the_recording(recording):
    truth = recording[2]
    span = truth.last - truth.first
    for begin, end in ((1, 3), (2, 9), (4, 5)):
        b, e = truth.first + span * begin // 10 + 7, truth.first + span * end // 10 + 3
        doc = analyze(recording[1], "--vm-map", VM_MAP, "--begin", b, "--end", e).doc()
        assert (doc["trace"]["begin_ns"], doc["trace"]["end_ns"]) == (b, e)
        assert_matches(doc, truth.measure(b, e))


def test_both_recordings_at_once_are_two_documents():
    doc = analyze(os.path.join(DEMO, "inner-host-3vms"), "--vm-map", VM_MAP).doc()
    assert len(doc["traces"]) == 2
    assert sorted(d["trace"]["events"] for d in doc["traces"]) == sorted(EVENTS.values())


def test_proxy():
    """Requests of VMs at a proxy, recorded by LTTng-UST beside the scheduler's events: to the ns what the proxy counted
    (tests/data/vgpu-proxy/README.md)."""
    data = os.path.join(ROOT, "tests", "data", "vgpu-proxy")
    with open(os.path.join(data, "counted.json"), encoding="ascii") as file:
        counted = json.load(file)
    doc = analyze(os.path.join(data, "trace"), "--vm-map", os.path.join(data, "vm-map.txt")).doc()
    check_identities(doc)
    assert doc["trace"]["problems"] == []
    vms = {vm["name"]: vm for vm in doc["vms"]}
    assert {name: vm["observed_ns"] > 0 for name, vm in vms.items()} == {"vm-a": True, "vm-b": False}
    for name, vm in vms.items():
        gpu, = vm["gpu"]
        assert (gpu["device"], gpu["engine"], gpu["partial"]) == ("vgpu-proxy", "opencl", 0)
        assert {"done": gpu["requests"], "run_ns": gpu["exec_ns"], "wait_ns": gpu["wait_ns"]} == counted[name]
