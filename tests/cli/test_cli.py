# SPDX-License-Identifier: Apache-2.0
"""vgpuctl as its users see it: formats, exit codes, messages, plans."""
import csv
import io
import json
import os
import pty
import re
import select
import shlex
import shutil
import signal
import subprocess
import time
import unicodedata
import urllib.parse

import pytest
import yaml

import vgpuctl
from settings import HANG_S

DEMO = os.path.join(vgpuctl.ROOT, "data", "demo")
LTTNG = os.path.join(DEMO, "inner-host-3vms", "lttng-kernel")
PERF = os.path.join(DEMO, "inner-host-3vms", "perf-ctf")
VM_MAP = os.path.join(DEMO, "vm-map.txt")
GPU_HOST = os.path.join(DEMO, "gpu-host.snapshot.json")


def run(*args, code=0, stdin=None, env=None):
    done = subprocess.run([vgpuctl.program(), *map(str, args)], input=stdin, capture_output=True,
                          text=True, timeout=HANG_S, env={**os.environ, **(env or {})})
    assert done.returncode == code, (done.returncode, done.stderr, done.stdout[:500])
    return done


@pytest.fixture(scope="module")
def demo_snapshot(tmp_path_factory):
    path = tmp_path_factory.mktemp("state") / "demo.json"
    path.write_text(run("snapshot", LTTNG, "--vm-map", VM_MAP, "--host", "demo-host").stdout)
    return path


# ---- the program as a whole ----

@pytest.mark.parametrize("command", ["doctor", "events", "migrate", "nova", "plan", "token", "ui", "vulkan", "context"])
def test_help_has_no_option_that_means_nothing(command):
    text = run(command, "--help").stdout
    refused = ["--watch"] + ["--output", "--columns", "--no-headers"] * (command == "ui") + ["--count"] * (command != "events")
    assert not [option for option in refused if option in text.split("Connection to vgpud")[0]]
    assert "--watch" in run("host", "--help").stdout


@pytest.mark.smoke
def test_help_lists_every_command_and_goes_to_stdout():
    out = run("--help").stdout
    for command in ("host", "vm", "preemptions", "top", "events", "plan", "record", "analyze",
                    "snapshot", "placement", "simulate", "explain", "version"):
        assert command in out
        help_text = run(command, "--help").stdout
        assert help_text.startswith(f"Usage: vgpuctl {command}")


def test_no_command_and_unknown_command_are_usage_errors():
    done = run(code=2)
    assert done.stdout == "" and "Usage" in done.stderr
    done = run("analyse", code=2)
    assert "analyse" in done.stderr and "did you mean `analyze`?" in done.stderr


@pytest.mark.smoke
@pytest.mark.parametrize("args", [["version"], ["--version"]])
def test_version(args):
    assert re.fullmatch(r"vgpuctl \d+\.\d+\.\d+\n", run(*args).stdout)


@pytest.mark.parametrize("args", [
    ["analyze"], ["analyze", LTTNG, "-o", "xml"], ["analyze", LTTNG, "--begin", "soon"],
    ["analyze", LTTNG, "--begin", "2", "--end", "1"], ["analyze", LTTNG, "--window", "0"],
    ["analyze", LTTNG, "--window", "nan"], ["analyze", LTTNG, "--no-such-option"],
    ["snapshot", "--begin", "1"], ["placement"], ["placement", "--state", GPU_HOST],
    ["placement", "--dry-run", "--config", "/dev/null"],
    ["placement", "--dry-run", "--state", GPU_HOST, "--socket", "/x"],
    ["placement", "--dry-run", "--state", GPU_HOST, "stray"],
    ["placement", "--dry-run", "--state", GPU_HOST, "--rule", "coin"],
    ["placement", "--dry-run", "--state", "-", "--state", "-"],
    ["placement", "--explain", "glxgears", "--state", GPU_HOST, "--commands"],
    ["placement", "--dry-run", "--detailed-exitcode", "--explain", "a", "--state", GPU_HOST],
    ["explain", "--state", GPU_HOST], ["explain", "a", "b"], ["version", "now"],
    ["vm", "show"], ["vm", "lost"], ["vm", "list", "a"], ["vm", "show", "a", "b"],
    ["vm", "list", "--sort", "age"], ["vm", "list", "--class", "fat"], ["vm", "show", "a", "--since", "-1h"], ["host", "show", "--step", "1h"],
    ["vm", "show", "a", "--sort", "cpu"], ["vm", "list", "--watch=0"], ["vm", "list", "-n", "0"],
    ["host", "lost"], ["host", "list", "a"], ["host", "show", "a", "b"],
    ["plan", "show"], ["plan", "list", "a"], ["plan", "list", "--watch"],
    ["ui", "-o", "json"], ["ui", "--columns", "a"], ["ui", "--no-headers"], ["events", "--watch"],
    ["preemptions", "a", "b"], ["top", "a"], ["events", "a"], ["events", "-o", "csv"],
])
def test_usage_errors_exit_with_2_and_say_nothing_on_stdout(args):
    done = run(*args, code=2)
    assert done.stdout == "" and done.stderr.startswith("vgpuctl")


@pytest.mark.parametrize("args,code,words", [
    (["analyze", "/no/such/trace"], 3, ["/no/such/trace", "No such file"]),
    (["analyze", DEMO + "/vm-map.txt"], 1, ["vm-map.txt"]),
    (["analyze", LTTNG, "--vm-map", "/no/such/map"], 3, ["/no/such/map"]),
    (["analyze", LTTNG, "--vm-map", GPU_HOST], 1, ["gpu-host.snapshot.json:1"]),
    (["analyze", LTTNG, "--begin", str(2**62)], 1, ["--begin"]),
    (["analyze", LTTNG, "--end", "1"], 1, ["--end"]),
    (["analyze", os.path.dirname(LTTNG), "--begin", "1"], 1, ["--begin", "clock"]),
    (["snapshot", os.path.dirname(LTTNG)], 1, ["2 recordings"]),
    (["placement", "--dry-run", "--state", "/no/such/state"], 3, ["/no/such/state"]),
    (["placement", "--dry-run", "--state", VM_MAP], 1, [VM_MAP]),
    (["placement", "--dry-run", "--state", GPU_HOST, "--state", GPU_HOST], 5, ["gpu-host"]),
    (["placement", "--dry-run", "--state", GPU_HOST, "--config", VM_MAP], 1, [VM_MAP]),
    (["placement", "--explain", "nobody", "--state", GPU_HOST], 3, ["nobody"]),
    (["explain", "no-such-word"], 3, ["no-such-word"]),
])
def test_errors_name_what_and_where(args, code, words):
    done = run(*args, code=code)
    assert done.stdout == ""
    for word in words:
        assert word in done.stderr, done.stderr


def test_a_directory_without_a_trace_says_what_is_missing(tmp_path):
    assert "metadata" in run("analyze", tmp_path, code=3).stderr


def test_wrong_metadata_leads_to_the_line(tmp_path):
    source = os.path.join(LTTNG, "kernel")
    for name in os.listdir(source):
        if name != "metadata":
            os.symlink(os.path.join(source, name), tmp_path / name)
    (tmp_path / "metadata").write_text("/* CTF 1.8 */\ntrace { major = 1;\n  nonsense\n};\n")
    err = run("analyze", tmp_path, code=1).stderr
    assert f"{tmp_path}/metadata" in err and f"'babeltrace2 {tmp_path}'" in err, err


def test_full_disk_is_an_error():
    with open("/dev/full", "w", encoding="ascii") as full:
        done = subprocess.run([vgpuctl.program(), "analyze", LTTNG, "-o", "json"], stdout=full,
                              stderr=subprocess.PIPE, text=True, timeout=HANG_S)
    assert done.returncode == 1 and "No space left" in done.stderr


# ---- analyze ----

@pytest.mark.smoke
def test_formats_agree():
    doc = json.loads(run("analyze", LTTNG, "--vm-map", VM_MAP, "-o", "json").stdout)
    assert yaml.safe_load(run("analyze", LTTNG, "--vm-map", VM_MAP, "-o", "yaml").stdout) == doc
    rows = list(csv.DictReader(io.StringIO(
        run("analyze", LTTNG, "--vm-map", VM_MAP, "-o", "csv").stdout)))
    assert [r["name"] for r in rows] == [v["name"] for v in doc["vms"]]
    for row, vm in zip(rows, doc["vms"]):
        for key in ("run_ns", "preempt_ns", "preemptions", "observed_ns"):
            assert int(row[key]) == vm[key]
    table = run("analyze", LTTNG, "--vm-map", VM_MAP).stdout
    wide = run("analyze", LTTNG, "--vm-map", VM_MAP, "-o", "wide").stdout
    for vm in doc["vms"]:
        line = next(l for l in table.splitlines() if l.startswith(vm["name"]))
        assert f"{vm['run_ns'] / 1e9:.3f}" in line and str(vm["preemptions"]) in line
    assert "UUID" in wide and "UUID" not in table


def test_no_cell_of_csv_is_a_formula(tmp_path):
    """Names that a spreadsheet would carry out; numbers, also as texts, stay what they are."""
    names = ["=1+1|cmd", "@SUM(1)", "-1+2"]
    (tmp_path / "map").write_text("".join(f"{pid} {name}\n" for pid, name in zip((120, 121, 122), names)))
    text = run("analyze", LTTNG, "--vm-map", tmp_path / "map", "-o", "csv").stdout
    assert {row["name"] for row in csv.DictReader(io.StringIO(text))} == {"'" + name for name in names}
    (tmp_path / "map").write_text("120 -12\n121 +a\n122 a=b\n")
    text = run("analyze", LTTNG, "--vm-map", tmp_path / "map", "-o", "csv").stdout
    assert {row["name"] for row in csv.DictReader(io.StringIO(text))} == {"-12", "'+a", "a=b"}


def test_tasks_are_only_there_when_asked_for():
    assert "tasks" not in json.loads(run("analyze", LTTNG, "-o", "json").stdout)
    tasks = json.loads(run("analyze", LTTNG, "-o", "json", "--tasks").stdout)["tasks"]
    assert {142, 140, 141} <= {t["tid"] for t in tasks}
    rows = list(csv.DictReader(io.StringIO(
        run("analyze", LTTNG, "--tasks", "-o", "csv").stdout)))
    assert {r["tid"] for r in rows} == {str(t["tid"]) for t in tasks}


def test_per_window_lines_sum_up_to_the_whole():
    whole = json.loads(run("analyze", LTTNG, "-o", "json").stdout)
    windows = [json.loads(l) for l in
               run("analyze", LTTNG, "--per-window", "--window", "0.5").stdout.splitlines()]
    assert len(windows) == 13
    assert windows[0]["begin_ns"] == whole["trace"]["begin_ns"]
    assert windows[-1]["end_ns"] == whole["trace"]["end_ns"]
    for before, after in zip(windows, windows[1:]):
        assert before["end_ns"] == after["begin_ns"]
        assert before["end_ns"] - before["begin_ns"] == 500_000_000
    for vm in whole["vms"]:
        for key in ("observed_ns", "run_ns", "guest_ns", "preempt_ns", "wake_wait_ns",
                    "blocked_ns", "preemptions", "entries", "wakeups"):
            assert vm[key] == sum(v[key] for w in windows for v in w["vms"]
                                  if v["name"] == vm["name"]), (vm["name"], key)


def test_two_recordings_without_a_common_clock_stay_apart():
    doc = json.loads(run("analyze", LTTNG, PERF, "-o", "json").stdout)
    assert [t["trace"]["events"] for t in doc["traces"]] == [17249, 16236]
    assert len(run("analyze", LTTNG, PERF).stdout.split("Who held")) == 3


def test_begin_and_end_cut_the_part():
    whole = json.loads(run("analyze", LTTNG, "-o", "json").stdout)["trace"]
    begin, end = whole["begin_ns"] + 10**9, whole["begin_ns"] + 3 * 10**9
    part = json.loads(run("analyze", LTTNG, "-o", "json", "--begin", begin, "--end", end).stdout)
    assert (part["trace"]["begin_ns"], part["trace"]["end_ns"]) == (begin, end)
    for vm in part["vms"]:
        assert vm["observed_ns"] == 2 * 10**9


def test_vm_map_from_stdin_names_the_vms_and_gives_them_uuids():
    uuid = "6F1ED002-AB5C-4DD7-9B0C-3AC1B4A1A001"
    vm_map = f"# names\n120 first {uuid}\n\n122 third\n"
    doc = json.loads(run("analyze", LTTNG, "--vm-map", "-", "-o", "json", stdin=vm_map).stdout)
    assert [(v["name"], v["uuid"]) for v in doc["vms"]] == [
        ("first", uuid.lower()), ("qemu-121", None), ("third", None)]


def test_names_cannot_write_to_the_terminal(tmp_path):
    vm_map = tmp_path / "map"
    vm_map.write_text("120 \x1b[2Jevil\n")
    assert "\x1b" not in run("analyze", LTTNG, "--vm-map", vm_map).stdout
    doc = json.loads(run("analyze", LTTNG, "--vm-map", vm_map, "-o", "json").stdout)
    assert "\x1b[2Jevil" in [v["name"] for v in doc["vms"]]


def test_names_of_snapshots_cannot_write_to_the_terminal(tmp_path, demo_snapshot):
    text = demo_snapshot.read_text().replace("vm-busy", "evil\\u001b[2J")
    (tmp_path / "s.json").write_text(text)
    state = ("--state", tmp_path / "s.json", "--state", GPU_HOST)
    assert "evil?[2J" in run("placement", "--dry-run", *state).stdout
    assert "evil?[2J" in run("explain", "evil\x1b[2J", *state).stdout
    assert "\x1b" not in run("explain", "no\x1b[2J", *state, code=3).stderr


# C0 and C1 controls, line separators, controls of the direction of writing.
HOSTILE = "\n2. Move x\r\x1b[2J\x7f\u009b2J\u0085\u2028\u2029\u202a\u202e\u2066\u2069"


def hostile_state(demo_snapshot, tmp_path):
    """The demo with such a name for a VM and for its target."""
    states = []
    for path, name, what in ((demo_snapshot, "vm-busy", "h\u00f6st'e"),
                             (GPU_HOST, "gpu-host", "to")):
        with open(path, encoding="utf-8") as file:
            text = file.read().replace(name, json.dumps(what + HOSTILE)[1:-1])
        states.append(tmp_path / f"{name}.json")
        states[-1].write_text(text)
    return "--state", states[0], "--state", states[1]


def assert_plain(text):
    unicode_controls = [c for c in text if c != "\n" and unicodedata.category(c) in
                        ("Cc", "Cf", "Zl", "Zp")]
    assert not unicode_controls, unicode_controls


def test_names_can_neither_break_lines_nor_turn_them(demo_snapshot, tmp_path):
    state = hostile_state(demo_snapshot, tmp_path)
    plan = json.loads(run("placement", "--dry-run", *state, "-o", "json").stdout)
    assert plan["actions"][0]["vm"] == "h\u00f6st'e" + HOSTILE
    table = run("placement", "--dry-run", "--commands", *state).stdout
    assert_plain(table)
    assert len([line for line in table.splitlines() if line.startswith("2.")]) == len(plan["actions"]) - 1
    assert "Move h\u00f6st'e?2. Move x??[2J??2J??????? from" in table
    vm = "h\u00f6st'e" + HOSTILE
    for done in (run("explain", vm, *state), run("placement", "--explain", vm, *state)):
        assert_plain(done.stdout)
        assert done.stdout.splitlines()[1] == ""


def test_messages_can_neither_break_lines_nor_turn_them(demo_snapshot, tmp_path):
    for args, code in (
            (["explain", HOSTILE, "--state", demo_snapshot], 3), ([HOSTILE], 2),
            (["placement", "--dry-run", "--state", demo_snapshot, HOSTILE], 2),
            (["placement", "--rule", HOSTILE], 2), (["explain", "-o", HOSTILE], 2),
            (["analyze", "--begin", HOSTILE], 2), (["analyze", "--window", HOSTILE], 2),
            (["analyze", tmp_path / ("a" + HOSTILE)], 3)):
        err = run(*args, code=code).stderr
        assert_plain(err)
        assert "?2. Move x??[2J" in err


def test_hostile_names_in_commands_are_the_right_arguments(demo_snapshot, tmp_path):
    state = hostile_state(demo_snapshot, tmp_path)
    for path in state[1::2]:
        doc = json.loads(path.read_text())
        for vm in doc["hosts"][0]["vms"]:
            vm["uuid"] = None
        path.write_text(json.dumps(doc))
    table = run("placement", "--dry-run", "--commands", *state).stdout
    for tool in ("libvirt", "openstack"):
        command = next(l for l in table.splitlines() if l.startswith(f"   {tool}:"))
        command = command.split(":", 1)[1].strip()
        assert command.isascii()
        shown = subprocess.run(["bash", "-c", f"printf '%s\\0' {command}"], capture_output=True,
                               check=True).stdout.decode().split("\0")
        assert "h\u00f6st'e" + HOSTILE in shown
        assert any(urllib.parse.unquote(word).endswith(("to" + HOSTILE, f"to{HOSTILE}/system"))
                   for word in shown)


def test_thresholds_of_classes_are_configurable(tmp_path):
    def classes(*args):
        doc = json.loads(run("analyze", LTTNG, "-o", "json", *args).stdout)
        return [v["class"] for v in doc["vms"]]
    assert classes() == ["cpu", "cpu", "idle"]
    (tmp_path / "c").write_text("[score]\ncpu_enter=0.2\ncpu_leave=0.1\n")
    assert classes("--config", tmp_path / "c") == ["cpu", "cpu", "cpu"]


def test_snapshot_option_does_not_replace_devices_or_links(tmp_path):
    os.mkfifo(tmp_path / "fifo")
    reader = subprocess.Popen(["cat", tmp_path / "fifo"], stdout=subprocess.PIPE, text=True)
    run("analyze", LTTNG, "--snapshot", tmp_path / "fifo")
    assert json.loads(reader.communicate(timeout=HANG_S)[0])["schema"] == "vgpud.snapshot"
    (tmp_path / "real").write_text("old")
    os.chmod(tmp_path / "real", 0o600)
    os.symlink("real", tmp_path / "link")
    run("analyze", LTTNG, "--snapshot", tmp_path / "link")
    assert os.path.islink(tmp_path / "link")
    assert os.stat(tmp_path / "real").st_mode & 0o777 == 0o600
    assert json.loads((tmp_path / "real").read_text())["schema"] == "vgpud.snapshot"
    run("analyze", LTTNG, "--snapshot", "-", code=2)


def test_damage_is_noted_in_the_snapshot(tmp_path):
    shutil.copytree(LTTNG, tmp_path / "t")
    os.truncate(tmp_path / "t" / "kernel" / "ch_0", 500_000)
    snapshot = json.loads(run("snapshot", tmp_path / "t").stdout)
    assert "could not be read in full" in snapshot["note"]


def test_per_window_prints_json_only():
    run("analyze", LTTNG, "--per-window", "-o", "csv", code=2)
    run("analyze", LTTNG, "--per-window", "-o", "json")


def test_reserved_names_are_refused(tmp_path):
    uuid = "2f1c0f6e-0d3b-4c1f-8f0c-0a3b1f2c3d4e"
    for name in ("self", "host:kernel", "rest", uuid):
        (tmp_path / "map").write_text(f"120 {name}\n")
        assert name in run("analyze", LTTNG, "--vm-map", tmp_path / "map", code=1).stderr


def test_csv_is_one_table():
    assert "csv" in run("analyze", LTTNG, PERF, "-o", "csv", code=1).stderr


def test_times_near_the_limit_end_in_time(tmp_path):
    (tmp_path / "t").write_text("CPU 0/KVM-7 [000] d... 4611686017.999999: kvm_entry: vcpu 0\n"
                                "CPU 0/KVM-7 [000] d... 9223372035.999999: kvm_entry: vcpu 0\n")
    doc = json.loads(run("analyze", tmp_path / "t", "-o", "json", "--window", "86400").stdout)
    assert doc["trace"]["begin_ns"] == doc["trace"]["end_ns"] == 4611686017999999000
    assert ["not understood" in p["what"] for p in doc["trace"]["problems"]] == [True, False]
    (tmp_path / "s.json").write_text(run("snapshot", tmp_path / "t").stdout)
    run("placement", "--dry-run", "--state", tmp_path / "s.json")


def test_problems_are_warned_of_and_listed(tmp_path):
    shutil.copytree(LTTNG, tmp_path / "t")
    stream = tmp_path / "t" / "kernel" / "ch_1"
    os.truncate(stream, 5000)
    done = run("analyze", tmp_path / "t", "-o", "json")
    problems = json.loads(done.stdout)["trace"]["problems"]
    assert [(p["file"], p["offset"]) for p in problems if "truncated" in p["what"]] == [
        (str(stream), 5000)]
    assert "warning" in done.stderr and str(stream) in done.stderr and "5000" in done.stderr


def test_private_directories_are_removed(tmp_path):
    shutil.copytree(LTTNG, tmp_path / "t")
    os.truncate(tmp_path / "t" / "kernel" / "ch_0", 500_000)
    (tmp_path / "tmp").mkdir()
    run("analyze", tmp_path / "t", env={"TMPDIR": str(tmp_path / "tmp")})
    assert os.listdir(tmp_path / "tmp") == []


def test_a_repair_that_has_no_room_is_told(tmp_path):
    shutil.copytree(LTTNG, tmp_path / "t")
    os.truncate(tmp_path / "t" / "kernel" / "ch_1", 5000)
    done = run("analyze", tmp_path / "t", "-o", "json", env={"TMPDIR": "/no/such/dir"}, code=1)
    assert "/no/such/dir" in done.stderr


def read_terminal(args, seconds=HANG_S):
    """What the program, which runs for a tenth of the time, writes to a terminal on stderr."""
    leader, follower = pty.openpty()
    child = subprocess.Popen([vgpuctl.program(), *map(str, args)], stdout=subprocess.DEVNULL,
                             stderr=follower)
    os.close(follower)
    seen = b""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        child.send_signal(signal.SIGSTOP)
        time.sleep(0.045)
        child.send_signal(signal.SIGCONT)
        if select.select([leader], [], [], 0.005)[0]:
            try:
                chunk = os.read(leader, 65536)
            except OSError:
                break
            seen += chunk
        elif child.poll() is not None:
            break
    assert child.wait(timeout=seconds) == 0
    os.close(leader)
    return seen.decode()


def test_progress_is_drawn_on_a_terminal_only(tmp_path):
    try:
        for end in os.openpty():
            os.close(end)
    except OSError as error:
        pytest.skip(f"there is no pseudo-terminal to be had: {error}")
    generator = os.path.join(os.path.dirname(vgpuctl.program()), "tests", "tools", "gen-trace")
    subprocess.run([generator, "-n", "400000", "-c", "2", "-o", tmp_path / "long"], check=True)
    drawn = read_terminal(["analyze", tmp_path / "long"])
    assert "reading [" in drawn and "%" in drawn
    assert drawn.endswith("\r\x1b[K")
    assert read_terminal(["analyze", tmp_path / "long", "--no-progress"]) == ""
    assert run("analyze", tmp_path / "long").stderr == ""


# ---- snapshot, placement, explain ----

@pytest.mark.smoke
def test_snapshot_tells_what_analyze_tells(demo_snapshot, tmp_path):
    snapshot = json.loads(demo_snapshot.read_text())
    doc = json.loads(run("analyze", LTTNG, "--vm-map", VM_MAP, "--host", "demo-host", "-o", "json",
                         "--snapshot", tmp_path / "s.json").stdout)
    assert json.loads((tmp_path / "s.json").read_text()) == snapshot
    host = snapshot["hosts"][0]
    assert (snapshot["schema"], snapshot["source"]) == ("vgpud.snapshot", "trace")
    assert (host["name"], host["cpus"]) == ("demo-host", 2)
    seconds = (doc["trace"]["end_ns"] - doc["trace"]["begin_ns"]) / 1e9
    for vm, known in zip(doc["vms"], host["vms"]):
        assert (vm["name"], vm["class"], vm["cpus"]) == (known["name"], known["class"],
                                                         known["cpus"])
        assert known["run_share"] == pytest.approx(vm["run_ns"] / 1e9 / seconds, rel=1e-3)
        assert known["preemptions_per_s"] == pytest.approx(vm["preemptions"] / seconds, rel=1e-3)


@pytest.mark.smoke
@pytest.mark.parametrize("rule", ["complement", "paper-threshold"])
def test_the_demo_has_a_plan(demo_snapshot, rule):
    plan = json.loads(run("placement", "--dry-run", "--state", demo_snapshot, "--state", GPU_HOST,
                          "--rule", rule, "-o", "json").stdout)
    action = plan["actions"][0]
    assert plan["verdict"] == "changes" and plan["rule"] == rule
    assert action["vm"] in ("vm-busy", "vm-duty")
    assert (action["from"], action["to"]) == ("demo-host", "gpu-host")
    # Three VMs want 2.2 of the one CPU they are on; without one of the two busy ones, 1.2.
    assert action["gain"]["lost_cpu_ns_per_s"] == pytest.approx(1e9, rel=0.02)
    assert action["reason"]["rule"] == rule and action["vm"] in action["reason"]["text"]
    text = run("placement", "--dry-run", "--state", demo_snapshot, "--state", GPU_HOST, "--rule",
               rule).stdout
    assert plan["id"] in text and f"Move {action['vm']} from demo-host to gpu-host" in text
    assert "example" in text


def test_the_plan_does_not_depend_on_the_order_of_files(demo_snapshot):
    one = run("placement", "--dry-run", "--state", demo_snapshot, "--state", GPU_HOST, "-o", "json")
    two = run("placement", "--dry-run", "--state", GPU_HOST, "--state", demo_snapshot, "-o", "json")
    assert one.stdout == two.stdout


def test_the_same_host_or_vm_twice_is_a_conflict(demo_snapshot, tmp_path):
    uuid = "6a1f0c52-0d0e-4c53-9d0c-5f1f5a0f0001"
    for what in ("host", "vm", "uuid"):
        doc = json.loads(demo_snapshot.read_text())
        hosts, vms = doc["hosts"], doc["hosts"][0]["vms"]
        if what == "host":
            hosts.append(hosts[0])
        elif what == "vm":
            vms.append(vms[0])
        else:
            vms[0]["uuid"], vms[1]["uuid"] = uuid, uuid.upper()
        (tmp_path / "s.json").write_text(json.dumps(doc))
        done = run("placement", "--dry-run", "--state", tmp_path / "s.json", code=5)
        assert "twice" in done.stderr and "s.json" in done.stderr


def test_detailed_exitcode_tells_changes_from_nothing(demo_snapshot):
    run("placement", "--dry-run", "--state", demo_snapshot, "--state", GPU_HOST,
        "--detailed-exitcode", code=10)
    done = run("placement", "--dry-run", "--state", GPU_HOST, "--detailed-exitcode")
    assert "nothing to do" in done.stdout


def test_commands_are_quoted_for_a_shell(tmp_path, demo_snapshot):
    snapshot = json.loads(demo_snapshot.read_text())
    for vm in snapshot["hosts"][0]["vms"]:
        vm["name"] = vm["name"].replace("vm-busy", "vm; rm -rf $HOME")
    (tmp_path / "s.json").write_text(json.dumps(snapshot))
    plan = json.loads(run("placement", "--dry-run", "--commands", "--state", tmp_path / "s.json",
                          "--state", GPU_HOST, "--rule", "paper-threshold", "-o", "json").stdout)
    action = plan["actions"][0]
    for name in ("virsh", "openstack"):
        shown = subprocess.run(["sh", "-c", f"printf '%s\\n' {action['commands'][name]}"],
                               capture_output=True, text=True, check=True).stdout.splitlines()
        assert action["vm"] in shown


@pytest.mark.parametrize("host,escaped", [
    ("-h2", "-h2"), ("h 2", "h%202"), ("u@h:1/x?y#z%20", "u%40h%3A1%2Fx%3Fy%23z%2520"),
    ("h\u00f6", "h%C3%B6")])
def test_hosts_in_commands_are_names_only(demo_snapshot, tmp_path, host, escaped):
    target = json.loads(open(GPU_HOST, encoding="utf-8").read())
    target["hosts"][0]["name"] = host
    (tmp_path / "to.json").write_text(json.dumps(target))
    plan = json.loads(run("placement", "--dry-run", "--commands", "--state", demo_snapshot,
                          "--state", tmp_path / "to.json", "-o", "json").stdout)
    commands = plan["actions"][0]["commands"]
    assert f"--host={host}" in shlex.split(commands["openstack"])
    virsh = shlex.split(commands["virsh"])
    assert virsh[virsh.index("--desturi") + 1] == f"qemu+ssh://{escaped}/system"
    assert virsh[virsh.index("-c") + 1] == "qemu+ssh://demo-host/system"


@pytest.mark.smoke
def test_explain_judges_every_host(demo_snapshot):
    doc = json.loads(run("placement", "--explain", "vm-busy", "--state", demo_snapshot, "--state",
                         GPU_HOST, "-o", "json").stdout)
    assert doc == json.loads(run("explain", "vm-busy", "--state", demo_snapshot, "--state",
                                 GPU_HOST, "-o", "json").stdout)
    assert {c["host"]: c["verdict"] for c in doc["candidates"]} == {
        "demo-host": "current", "gpu-host": "best"}


def test_a_constraint_stops_the_move_and_says_why(demo_snapshot, tmp_path):
    snapshot = json.loads(demo_snapshot.read_text())
    for vm in snapshot["hosts"][0]["vms"]:
        vm["never_move"] = True
    (tmp_path / "s.json").write_text(json.dumps(snapshot))
    plan = json.loads(run("placement", "--dry-run", "--state", tmp_path / "s.json", "--state",
                          GPU_HOST, "-o", "json").stdout)
    assert plan["verdict"] == "infeasible" and plan["actions"] == []
    assert any("vm-busy" in why for why in plan["why"])


def test_config_changes_the_plan_and_is_dumped(demo_snapshot, tmp_path):
    dump = run("placement", "--dump-config").stdout
    config = tmp_path / "policy.conf"
    config.write_text(dump)
    assert run("placement", "--dump-config", "--config", config).stdout == dump
    key = re.search(r"^(contention_threshold)\s*=", dump, re.M).group(1)
    config.write_text(re.sub(rf"^{key}\s*=.*$", f"{key}=100", dump, flags=re.M))
    done = run("placement", "--dry-run", "--state", demo_snapshot, "--state", GPU_HOST, "--config",
               config, "--detailed-exitcode")
    assert "nothing to do" in done.stdout
    config.write_text("[policy]\nno_such_key=1\n")
    assert "no_such_key" in run("placement", "--dump-config", "--config", config, code=1).stderr


@pytest.mark.smoke
def test_words_are_explained():
    words = json.loads(run("explain", "-o", "json").stdout)
    named = {w["word"] for w in words}
    doc = json.loads(run("analyze", LTTNG, "-o", "json").stdout)
    figures = {k for k in doc["vms"][0] if k.endswith("_ns")}
    assert figures <= named
    assert "switched out" in run("explain", "preempt_ns").stdout


@pytest.mark.parametrize("place,why", [("", "No such file"), ("no/such/dir/x", "No such file"),
                                       (".", "Is a directory"), ("t/x", "Not a directory")])
def test_no_place_for_a_snapshot_is_told_before_the_analysis(tmp_path, place, why):
    (tmp_path / "t").write_text("not even a trace is read" * 1000)
    err = run("analyze", LTTNG, "--snapshot", place and tmp_path / place, code=1).stderr
    assert err.count("\n") == 1 and why in err and "cannot write" in err


def test_trace_text_from_standard_input(tmp_path):
    (tmp_path / "t").write_text("a-1 [000] d... 1.0: sched_switch: a:1 [120] R ==> b:2 [120]\n"
                                "b-2 [000] d... 1.5: sched_switch: b:2 [120] S ==> a:1 [120]\n")
    with open(tmp_path / "t", encoding="ascii") as text:
        done = subprocess.run([vgpuctl.program(), "analyze", "-", "--tasks", "-o", "json"],
                              stdin=text, stdout=subprocess.PIPE, check=True, timeout=HANG_S)
    assert [t["run_ns"] for t in json.loads(done.stdout)["tasks"]] == [0, 500_000_000]
    assert [t["pid"] for t in json.loads(done.stdout)["tasks"]] == [None, None]


def test_events_are_those_of_the_part(tmp_path):
    (tmp_path / "t").write_text("".join(
        f"a-1 [000] d... {n}.0: sched_switch: a:1 [120] R ==> a:1 [120]\n" for n in range(1, 8)))

    def events(begin, end):
        return json.loads(run("analyze", tmp_path / "t", "-o", "json", "--begin", begin * 10**9,
                              "--end", end * 10**9).stdout)["trace"]["events"]
    assert [events(1, 3), events(3, 7), events(1, 7)] == [2, 4, 6]


def test_perf_text_begins_with_its_first_event(tmp_path):
    """perf describes the processes that are there already at time 0."""
    (tmp_path / "t").write_text(
        "qemu  9/9  [000]     0.000000: PERF_RECORD_COMM: CPU 0/KVM:9/10\n"
        "a  1/1  [000]     5.000000: sched:sched_switch: a:1 [120] R ==> CPU 0/KVM:10 [120]\n"
        "a  9/10 [000]     6.000000: sched:sched_switch: CPU 0/KVM:10 [120] S ==> a:1 [120]\n")
    doc = json.loads(run("analyze", tmp_path / "t", "-o", "json").stdout)
    assert doc["trace"]["begin_ns"] == 5_000_000_000
    assert [vm["observed_ns"] for vm in doc["vms"]] == [1_000_000_000]


def test_text_without_sched_switch_says_so(tmp_path):
    (tmp_path / "t").write_text("CPU 0/KVM-7 [000] d... 1.0: kvm_entry: vcpu 0\n"
                                "CPU 0/KVM-7 [000] d... 1.1: kvm_exit: reason hlt\n")
    assert "no sched_switch" in run("analyze", tmp_path / "t").stderr


def test_zeros_in_text_are_told(tmp_path):
    """What a file system leaves of a block that was not written before the machine died."""
    lines = [f"a-1 [000] d... 1.{n}: sched_switch: a:1 [120] R ==> b:2 [120]\n"
             for n in range(100000, 100100)]
    text = "".join(lines)
    (tmp_path / "t").write_text(text[:2500] + "\0" * 1000 + text[3500:])
    doc = json.loads(run("analyze", tmp_path / "t", "-o", "json").stdout)
    assert len([p for p in doc["trace"]["problems"] if "zero" in p["what"]]) == 1
    length = len(lines[0])
    assert doc["trace"]["events"] == 2500 // length + 100 - (3500 + length - 1) // length


def test_records_that_contradict_each_other_are_told(tmp_path):
    """Two recordings of one host in one file, the second one a little later."""
    one = [f"x-1 [000] d... {n // 50 + 1}.{n % 50 * 20000:06}: sched_switch: "
           f"{'a:1' if n % 2 else 'b:2'} [120] R ==> {'b:2' if n % 2 else 'a:1'} [120]\n"
           for n in range(500)]
    (tmp_path / "one").write_text("".join(one))
    (tmp_path / "two").write_text("".join(line + line for line in one))
    assert run("analyze", tmp_path / "one").stderr == ""
    assert "contradict" in run("analyze", tmp_path / "two").stderr


@pytest.mark.parametrize("line, option", [
    ("perf 100/100 12.345678: sched:sched_switch: a:1 [120] S ==> b:2 [120]", "perf script -F +cpu"),
    ("a 1 12.345678901: sched:sched_switch: a:1 [120] S ==> b:2 [120]", "perf script -F +cpu"),
    ("# tracer: nop\n  <idle>-0   0d..2.   12us+: sched_switch: a:1 [120] S ==> b:2 [120]",
     "nolatency-format"),
    ("cpus=1\n    a-1   0d..2 12us : sched_switch: a:1 [120] S ==> b:2 [120]", "without -l"),
])
def test_forms_of_text_that_are_not_read_are_named(tmp_path, line, option):
    (tmp_path / "t").write_text(line + "\n")
    assert option in run("analyze", tmp_path / "t", code=1).stderr


def test_times_that_are_differences_are_told(tmp_path):
    """As `perf script --deltatime` prints them."""
    (tmp_path / "t").write_text("".join(
        f"a 1/1 [000] 0.0000{n % 7 + 10}: sched:sched_switch: a:1 [120] R ==> a:1 [120]\n"
        for n in range(200)))
    assert "absolute times" in run("analyze", tmp_path / "t").stderr
