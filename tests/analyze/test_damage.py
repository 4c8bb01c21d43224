# SPDX-License-Identifier: Apache-2.0
"""Every way in which a stream file can be spoilt: the program is exiting, invents nothing, analyses the
rest and says what it could not read."""
import itertools
import json
import os
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor

import pytest

import damage
import oracle
from settings import HANG_S, full, random_of, sample, seed
from ctfgen import Dialect, write_trace
from hostsim import simulate
from vgpuctl import ROOT, analyze, check_identities, differences, program

MADE = {
    "lttng213-le": Dialect(style="lttng213", order="le", packet_bytes=4096, packetised=True),
    "lttng25-be-large": Dialect(style="lttng25", order="be", header="large", packet_bytes=4096),
    "perf-le": Dialect(style="perf", order="le", packet_bytes=8192),
    "perf-be": Dialect(style="perf", order="be", packet_bytes=8192),
    "lttng213-be-noindex": Dialect(style="lttng213", order="be", packet_bytes=2048, index=False),
}
SOME_MADE = sample("damaged traces", MADE, 3)
RECORDED = {"lttng-kernel": "lttng-kernel/kernel", "perf-ctf": "perf-ctf"}
INDEXED = ("lttng213-le", "lttng25-be-large", "lttng-kernel")
# LTTng before 2.11 may record an event after the end of its packet.
LATE_NS = {False: 0, True: 1_000_000_000}
BOUNDED = ("entries", "switches_out", "preemptions", "blocks")


class Scene:
    def __init__(self, name, root, layout, events):
        self.victim = damage.Victim(name, layout, len(events))
        self.events, self.root = events, root
        self.doc = analyze(root, "--tasks").doc()
        self.figures = {(vm["pid"], v["tid"]): v for vm in self.doc["vms"] for v in vm["vcpus"]}


def together(names):
    """Tests of one trace are of one worker, which makes or reads it once."""
    return [pytest.param(name, marks=pytest.mark.xdist_group(f"damage-{name}")) for name in names]


@pytest.fixture(scope="module", params=together([*SOME_MADE, *RECORDED]))
def scene(request, tmp_path_factory):
    if request.param in MADE:
        root = str(tmp_path_factory.mktemp("made") / "t")
        events = simulate(seed=seed(), events=900, statedump="lttng" in request.param)
        layout = write_trace(root, MADE[request.param], events)
        return Scene(request.param, root, layout, events)
    source = os.path.join(ROOT, "data", "demo", "inner-host-3vms", RECORDED[request.param])
    events = oracle.from_babeltrace(source)
    layout = damage.recorded_layout(source, events, request.param.startswith("lttng"))
    return Scene(request.param, source, layout, events)


def copy_with(scene, target, case):
    """A copy of the trace with one file changed; the others are links."""
    for folder, _, files in os.walk(scene.root):
        inside = os.path.join(target, os.path.relpath(folder, scene.root))
        os.makedirs(inside, exist_ok=True)
        for name in files:
            path = os.path.normpath(os.path.join(inside, name))
            if os.path.relpath(path, target) != case.file:
                os.symlink(os.path.join(folder, name), path)
    if case.data is not None:
        with open(os.path.join(target, case.file), "wb") as f:
            f.write(case.data)


def run(target):
    done = subprocess.run([program(), "analyze", target, "--tasks", "-o", "json"],
                          capture_output=True, timeout=HANG_S)
    err = done.stderr.decode("utf-8", "backslashreplace")
    assert done.returncode in (0, 1), f"exit code {done.returncode}\n{err[-2000:]}"
    assert "Sanitizer" not in err and "runtime error" not in err, err[-3000:]
    assert "-addr=" not in err, "an address of babeltrace2's in a message\n" + err[-2000:]
    return done.returncode, done.stdout, err


def named(problem, file):
    return (os.path.basename(problem["file"]) == os.path.basename(file)
            and problem["offset"] is not None and problem["offset"] >= 0)


def judge(scene, case, target):
    code, out, err = run(target)
    if code != 0:
        assert case.least == 0, f"exit code {code}, though {case.least} records are readable\n{err}"
        assert out == b"" and os.path.basename(target) in err
        return
    doc = json.loads(out)
    assert "traces" not in doc
    check_identities(doc)
    trace = doc["trace"]
    assert trace["events"] >= case.least, f"{trace['events']} records, not >= {case.least}"
    assert trace["events"] <= case.most, f"{trace['events']} records, not <= {case.most}"
    late = trace["end_ns"] - scene.victim.t_end
    assert late <= LATE_NS[scene.victim.name.startswith("lttng25")], f"ends {late} ns too late"
    if trace["events"] < scene.victim.total and not case.silent:
        assert any(named(p, case.file) for p in trace["problems"]), \
            f"{scene.victim.total - trace['events']} records lost, problems {trace['problems'][:5]}"
    slack = damage.EXTRA if case.altered else 0
    for vm in doc["vms"]:
        for vcpu in vm["vcpus"]:
            whole = scene.figures.get((vm["pid"], vcpu["tid"]))
            if whole is None:
                # Where the records that join a thread to its process are gone, it stands alone.
                whole = next((f for (_, tid), f in scene.figures.items() if tid == vcpu["tid"]),
                             dict.fromkeys(BOUNDED, 0))
            for key in BOUNDED:
                assert vcpu[key] <= whole[key] + slack, (vcpu["tid"], key, vcpu[key], whole[key])
    if case.intact:
        assert not differences(doc, dict(scene.doc, vms=[
            dict(vm, lost_to={e["aggressor"]: (e["ns"], e["count"]) for e in vm["lost_to"]},
                 vcpus=[dict(v, exits={k: n for k, n in v["exits"].items() if n})
                        for v in vm["vcpus"]]) for vm in scene.doc["vms"]]))


def judge_all(scene, cases, tmp_path):
    def one(numbered):
        number, case = numbered
        target = str(tmp_path / f"case{number}")
        try:
            copy_with(scene, target, case)
            judge(scene, case, target)
            return None
        except subprocess.TimeoutExpired:
            return f"{case.label}: still running after {HANG_S} s"
        except (AssertionError, ValueError, KeyError) as e:
            return f"{case.label}: {str(e)[:600]}"
        finally:
            shutil.rmtree(target, ignore_errors=True)
    with ThreadPoolExecutor(2) as pool:
        failed = [f for f in pool.map(one, enumerate(cases)) if f]
    assert not failed, (f"{len(failed)} of {len(cases)} cases on {scene.victim.name}, "
                        f"VG_TEST_SEED={seed()}:\n" + "\n".join(failed[:25]))


def files(scene):
    return sorted(scene.victim.layout.files)


def name_of(scene, kind):
    return f"{kind} of {scene.victim.name}"


def is_big(scene):
    return scene.victim.name in RECORDED


def test_cut_at_edges(scene, tmp_path):
    cases = []
    for file in files(scene):
        at = sample(name_of(scene, f"edges of {file}"), damage.edges(scene.victim, file), 3)
        cases += [damage.cut(scene.victim, file, k) for k in at]
    judge_all(scene, cases, tmp_path)


def test_cut_anywhere(scene, tmp_path):
    rng = random_of(name_of(scene, "cut"))
    n = (20 if is_big(scene) else 50) if full() else 2
    judge_all(scene, [damage.cut(scene.victim, f, rng.randrange(1, len(scene.victim.bytes[f])))
                      for f in files(scene) for _ in range(n)], tmp_path)


@pytest.mark.parametrize("scene", together(SOME_MADE), indirect=True)  # recorded streams have one packet
def test_cut_at_packet_ends_is_exact(scene, tmp_path):
    """What is left is a whole trace: the figures are those of the records left."""
    for file in files(scene)[:1]:
        packets = scene.victim.layout.files[file]
        for p in sample(name_of(scene, "packets"), packets[1:], 2):
            target = str(tmp_path / f"{p.offset}")
            copy_with(scene, target, damage.cut(scene.victim, file, p.offset))
            gone = {i for q in packets if q.offset >= p.offset for _, i in q.events}
            left = [e for i, e in enumerate(scene.events) if i not in gone]
            _, out, _ = run(target)
            truth = oracle.Oracle([perf_view(scene, e) for e in left])
            found = differences(json.loads(out), truth.measure())
            assert not found, f"{file} cut at {p.offset}\n" + "\n".join(found[:20])


def perf_view(scene, ev):
    if scene.victim.name.startswith("perf"):
        ev.comm = ""
        ev.f.pop("child_pid", None)
    return ev


def test_gone_or_noise(scene, tmp_path):
    rng = random_of(name_of(scene, "noise"))
    cases = [kind for f in files(scene) for kind in (
        damage.emptied(scene.victim, f), damage.removed(scene.victim, f),
        damage.noise(scene.victim, f, rng))]
    judge_all(scene, sample(name_of(scene, "files"), cases, 4), tmp_path)


def test_overwritten(scene, tmp_path):
    name = name_of(scene, "overwritten")
    rng = random_of(name)
    n = (10 if is_big(scene) else 30) if full() else 2
    kinds = (damage.header_overwritten, damage.content_overwritten, damage.some_bytes,
             damage.some_bytes, damage.stream_id, damage.size_field)
    cases = [kind(scene.victim, file, rng)
             for file, kind, _ in itertools.product(files(scene), kinds, range(n))]
    judge_all(scene, sample(name, cases, 6), tmp_path)


@pytest.mark.parametrize("scene", together(n for n in [*SOME_MADE, *RECORDED] if n in INDEXED), indirect=True)
def test_index_is_only_a_help(scene, tmp_path):
    """Index files missing, cut or wrong: every record is still there."""
    folder = os.path.join(scene.root, "index")
    rng, cases, total = random_of(name_of(scene, "index")), [], scene.victim.total
    for name in sorted(os.listdir(folder)):
        data = open(os.path.join(folder, name), "rb").read()
        wrong = bytearray(data)
        at = rng.randrange(16, len(data))
        wrong[at] ^= 1 << rng.randrange(8)
        for label, spoilt in (("missing", None), ("empty", b""), ("cut", data[:len(data) // 2 + 3]),
                              ("noise", rng.randbytes(len(data))), (f"bit at {at}", bytes(wrong))):
            cases.append(damage.Case(f"index of {name} {label}", f"index/{name}", spoilt, total,
                                     total, intact=True))
    judge_all(scene, sample(name_of(scene, "indices"), cases, 4), tmp_path)


def test_stray_file(scene, tmp_path):
    """A file beside the streams that is no stream costs nothing but a message."""
    total = scene.victim.total
    judge_all(scene, [damage.Case("a note beside the streams", "notes.txt",
                                  b"written by hand\n" * 9, total, total)], tmp_path)


def test_metadata_spoilt(scene, tmp_path):
    data = open(os.path.join(scene.root, "metadata"), "rb").read()
    rng = random_of(name_of(scene, "metadata"))
    spoilt = [b"", data[:len(data) // 2 + 3], data[:-1], data[:7], rng.randbytes(len(data))]
    if full():
        spoilt += [data[:rng.randrange(len(data))] for _ in range(30)]
        for _ in range(30):
            wrong = bytearray(data)
            wrong[rng.randrange(len(data))] = rng.randrange(256)
            spoilt.append(bytes(wrong))
    for number, text in enumerate(spoilt):
        target = str(tmp_path / f"m{number}")
        copy_with(scene, target, damage.Case("", "metadata", text))
        try:
            code, out, err = run(target)
        except subprocess.TimeoutExpired:
            pytest.fail(f"{scene.victim.name}: still running after {HANG_S} s with metadata of "
                        f"{len(text)} of {len(data)} bytes")
        if code == 0:
            doc = json.loads(out)
            for part in doc.get("traces", [doc]):
                check_identities(part)
        else:
            assert out == b"" and err.strip()
