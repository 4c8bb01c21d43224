# SPDX-License-Identifier: Apache-2.0
"""vgpuctl analyze --svg: the pictures are well-formed, and what they show adds up to the figures of
the same analysis."""
import json
import os
import re
import subprocess
import xml.etree.ElementTree as xml

import pytest

import gputext
import vgpuctl
from settings import HANG_S

DEMO = os.path.join(vgpuctl.ROOT, "data", "demo", "inner-host-3vms", "lttng-kernel")
VM_MAP = os.path.join(vgpuctl.ROOT, "data", "demo", "vm-map.txt")
MS = gputext.MS
NS = "{http://www.w3.org/2000/svg}"
HEIGHT, LEFT, WIDTH = 200, 72, 1092             # of a panel


def analyze(tmp_path, *args):
    prefix = tmp_path / "out"
    result = vgpuctl.analyze(*args, "--svg", prefix)
    return result.doc(), result.err


def picture(tmp_path, name):
    return xml.parse(tmp_path / f"out-{name}.svg").getroot()


def texts(root):
    return [t.text for t in root.iter(NS + "text")]


def title(element):
    found = element.find(NS + "title")
    return found.text if found is not None else None


def area(d):
    """What is below the steps of a path, as a share of its panel; and from which x to which."""
    sum_, x, y, bottom, first = 0.0, None, None, None, None
    for command, rest in re.findall(r"([MHVZ])([^MHVZ]*)", d):
        numbers = [float(n) for n in rest.split()]
        if command == "M":
            x, y = numbers
            bottom = y
            first = x if first is None else first
        elif command == "V":
            y = numbers[0]
        elif command == "H":
            sum_ += (bottom - y) * (numbers[0] - x)
            x = numbers[0]
    return sum_ / HEIGHT / WIDTH, first, x


def panels(root):
    """[(title, scale, {name: share of the panel}, mean of "all together")]"""
    out, current = [], None
    for element in root.iter():
        text = element.text or ""
        if element.tag == NS + "text" and re.match(r"(GPU|CPU) .*: share", text):
            current = [text, 1, [], None]
            out.append(current)
        elif element.tag == NS + "text" and re.fullmatch(r"\d+ %", text) and current:
            current[1] = max(current[1], int(text.split()[0]) / 100)
        elif element.tag == NS + "path" and element.get("class") == "total":
            current[3] = title(element)
        elif element.tag == NS + "path" and current and element.get("fill"):
            current[2].append((title(element).split(": ")[0], area(element.get("d"))[0]))
    result = []
    for text, scale, paths, total in out:
        shares = {}
        # From the highest sum to the lowest.
        for (name, sum_), (_, below) in zip(paths, paths[1:] + [(None, 0)]):
            shares[name] = (sum_ - below) * scale
        result.append((text, scale, shares, total))
    return result


def means(root):
    """{name: mean} of what is drawn, as its tooltip says."""
    out = {}
    for path in root.iter(NS + "path"):
        found = re.fullmatch(r"(.*): mean ([\d.]+) %", title(path) or "", re.S)
        if found and path.get("class") == "line":
            out[found[1]] = float(found[2]) / 100
    return out


def check_utilisation(doc, root):
    by_engine = {p[0].split(":")[0]: p for p in panels(root) if p[0].startswith("GPU")}
    assert set(by_engine) == {f"GPU {g['device']} {g['engine']}" for g in doc["gpus"]}
    want = {name: {} for name in by_engine}
    for vm in doc["vms"]:
        for gpu in vm["gpu"]:
            want[f"GPU {gpu['device']} {gpu['engine']}"][vm["name"]] = gpu["share"]
    for gpu in doc["gpu_processes"]:
        name = f"{gpu['comm']} ({gpu['pid']})"
        want[f"GPU {gpu['device']} {gpu['engine']}"][name] = gpu["share"]
    for name, panel in by_engine.items():
        shares = {k: v for k, v in want[name].items() if v > 0}
        assert panel[2] == {k: pytest.approx(v, abs=0.01) for k, v in shares.items()}
    cpu = means(root)
    for vm in doc["vms"]:
        if vm["observed_ns"]:
            assert cpu[vm["name"]] == pytest.approx(vm["cpu_intensity"], abs=0.01)


def rectangles(root):
    """[(what it says, x, width)]"""
    return [(title(r), float(r.get("x")), float(r.get("width"))) for r in root.iter(NS + "rect")
            if re.fullmatch(r"[cp]\d", r.get("class") or "") and title(r)]


def simulate(tmp_path, scenario):
    (tmp_path / "s.json").write_text(json.dumps(scenario))
    subprocess.run([vgpuctl.program(), "simulate", tmp_path / "s.json", "--trace-out",
                    tmp_path / "t"], check=True, capture_output=True, timeout=HANG_S)
    return tmp_path / "t"


def job(engine, mean, depth=1, think=0):
    return {"engine": engine, "depth": depth, "size_us": {"dist": "exponential", "mean": mean},
            "think_us": {"dist": "fixed", "value": think}}


# ---- use of GPUs and CPUs ----

def test_demo(tmp_path):
    doc, err = analyze(tmp_path, DEMO, "--vm-map", VM_MAP)
    check_utilisation(doc, picture(tmp_path, "utilisation"))
    assert "contains no GPU requests, so " in err and "out-requests.svg' is not written" in err
    assert not (tmp_path / "out-requests.svg").exists()
    assert doc == vgpuctl.analyze(DEMO, "--vm-map", VM_MAP).doc()


def test_by_hand(tmp_path):
    path, vm_map = gputext.write(tmp_path / "g.txt")
    doc, err = analyze(tmp_path, path, "--vm-map", vm_map)
    assert err == ""
    utilisation = picture(tmp_path, "utilisation")
    check_utilisation(doc, utilisation)
    panel, = [p for p in panels(utilisation) if p[0].startswith("GPU")]
    assert panel[2] == {k: pytest.approx(v["exec"] / 40, abs=0.001)
                        for k, v in gputext.GPU.items() if k != "glxgears"} | {
                            "glxgears (300)": pytest.approx(2 / 40, abs=0.001)}
    assert "mean 37.5 %" in texts(utilisation)


def test_steps_do_not_depend_on_the_window(tmp_path):
    analyze(tmp_path, DEMO, "--vm-map", VM_MAP)
    one = (tmp_path / "out-utilisation.svg").read_bytes()
    analyze(tmp_path, DEMO, "--vm-map", VM_MAP, "--window", 0.01)
    assert (tmp_path / "out-utilisation.svg").read_bytes() == one
    steps = {float(x) for path in xml.fromstring(one).iter(NS + "path")
             for x in re.findall(r"H([\d.]+)", path.get("d") or "")}
    least = min(b - a for a, b in zip(sorted(steps), sorted(steps)[1:]))
    assert WIDTH / 300 <= least <= WIDTH / 100


@pytest.mark.parametrize("duration_ms", [1, 150, 4000])
def test_simulated(tmp_path, duration_ms):
    trace = simulate(tmp_path, {"duration_ms": duration_ms, "mode": "weighted",
                                "engines": ["rcs0", "vcs0"], "vms": [
        {"name": "a", "jobs": [job("rcs0", 700, 2, 500), job("vcs0", 90, 1, 300)]},
        {"name": "b", "jobs": [job("rcs0", 200)], "start_ms": duration_ms // 3}]})
    doc, _ = analyze(tmp_path, trace)
    check_utilisation(doc, picture(tmp_path, "utilisation"))
    xml.parse(tmp_path / "out-requests.svg")


def test_part(tmp_path):
    begin = 62 * 10**9
    doc, _ = analyze(tmp_path, DEMO, "--vm-map", VM_MAP, "--begin", begin, "--end",
                     begin + 2 * 10**9)
    root = picture(tmp_path, "utilisation")
    check_utilisation(doc, root)
    assert "time in s, starting at 62.000000 s on the trace clock" in texts(root)


def test_many_engines(tmp_path):
    """More than there are panels: the busiest are shown, and how many are not."""
    engines = ["rcs0", "bcs0", "vcs0", "vcs1", "vecs0", "vecs1", "ccs0", "ccs1", "ccs2"]
    trace = simulate(tmp_path, {"duration_ms": 100, "mode": "best-effort", "engines": engines,
                                "vms": [{"name": "a", "jobs": [
                                    job(e, 100, 1, 100 * i) for i, e in enumerate(engines)]}]})
    analyze(tmp_path, trace)
    root = picture(tmp_path, "utilisation")
    shown = [p[0].split()[2].rstrip(":") for p in panels(root)]
    assert shown == sorted(engines[:7])
    assert any("(2 less busy engines are not shown)" in (t or "") for t in texts(root))


# ---- requests ----

def test_requests_by_hand(tmp_path):
    path, vm_map = gputext.write(tmp_path / "g.txt")
    analyze(tmp_path, path, "--vm-map", vm_map)
    root = picture(tmp_path, "requests")
    rows = ["card0 rcs0", "a: card0 rcs0", "b: card0 rcs0", "glxgears (300): card0 rcs0"]
    assert [t for t in texts(root) if t in rows] == rows
    drawn = sorted(r[0] for r in rectangles(root))
    assert drawn == sorted([
        "a: running 6.00 ms, at 0.014000 s", "b: running 2.00 ms, at 0.021000 s",
        "b: running 5.00 ms, at 0.025000 s", "glxgears (300): running 2.00 ms, at 0.023000 s",
        "queued: waiting 2.00 ms, at 0.010000 s", "submitted: waiting 1.00 ms, at 0.012000 s",
        "ready: waiting 1.00 ms, at 0.013000 s", "running 6.00 ms, at 0.014000 s",
        "queued: waiting 10.0 ms, at 0.011000 s",
        "running 2.00 ms, at 0.021000 s", "ready: waiting 2.00 ms, at 0.023000 s",
        "running 5.00 ms, at 0.025000 s", "submitted: waiting 500 \u00b5s, at 0.022000 s",
        "ready: waiting 500 \u00b5s, at 0.022500 s", "running 2.00 ms, at 0.023000 s"])


def covered(root, row_height=28):
    """The share of the time axis that marks of the first row cover."""
    left, right = 220, 1164
    band = next(r for r in root.iter(NS + "rect") if r.get("class") == "band")
    top, bottom = float(band.get("y")), float(band.get("y")) + float(band.get("height"))
    sum_ = sum(width for r, (_, x, width) in zip(
        (r for r in root.iter(NS + "rect") if re.fullmatch(r"[cp]\d", r.get("class") or "")
         and title(r)), rectangles(root)) if top <= float(r.get("y")) < bottom)
    highest = 0.0
    for path in root.iter(NS + "path"):
        d = path.get("d") or ""
        found = re.match(r"M[\d.]+ ([\d.]+)", d)
        if found and top <= float(found[1]) <= bottom and "together" in (title(path) or ""):
            highest = max(highest, area(d)[0] * HEIGHT * WIDTH / (row_height - 1))
    return (sum_ + highest) / (right - left)


def test_too_many_requests(tmp_path):
    """Those that cannot be kept apart are put together: the picture says so, stays small, and the
    engine is still busy for as long as it was."""
    trace = simulate(tmp_path, {"duration_ms": 10000, "mode": "best-effort", "vms": [
        {"name": "a", "jobs": [job("rcs0", 120, 2, 100)]},
        {"name": "b", "jobs": [job("rcs0", 100, 1, 900)]}]})
    doc, _ = analyze(tmp_path, trace)
    root = picture(tmp_path, "requests")
    stages = re.search(r": (\d+) stages, with short ones combined$", texts(root)[0])
    assert int(stages[1]) > 50000
    assert (tmp_path / "out-requests.svg").stat().st_size < 1 << 20
    assert not any("at once" in (t or "") for t in texts(root))
    assert covered(root) == pytest.approx(doc["gpus"][0]["share"], abs=0.02)


# ---- names ----

@pytest.mark.parametrize("name", ['<b>"&\'</text>', "]]><!--", "a\u202e\x07b", "&amp;amp;",
                                  "\U0001f600" * 40])
def test_hostile_names(tmp_path, name):
    path, vm_map = gputext.write(tmp_path / "g.txt", (name, "b"))
    doc, _ = analyze(tmp_path, path, "--vm-map", vm_map, "--host", "<i>&")
    for which in ("utilisation", "requests"):
        root = picture(tmp_path, which)
        assert {e.tag for e in root.iter()} <= {
            NS + t for t in ("svg", "style", "rect", "path", "line", "text", "title", "g", "tspan")}
        assert "<i>&" in texts(root)[0]
        shown = " ".join(t or "" for t in root.itertext())
        assert name[:4].replace("\u202e", "").split("\x07")[0] in shown.replace("?", "")
    assert doc["vms"]
