# SPDX-License-Identifier: Apache-2.0
"""tests/gpu/matrix without a GPU: what becomes of a program, its line, and the table. The agent's answers and the bare
calls are made up, the programs are real."""
import csv
import importlib.machinery
import importlib.util
import os
import subprocess
import sys

import pytest
from vgpuctl import ROOT

GPU = os.path.join(ROOT, "tests", "gpu")
# Counts until it is to end, as those of tests/gpu do. A word makes it another one.
PROGRAM = f"""
import os, sys, time
sys.path.insert(0, {GPU!r})
import steps
number, how = int(sys.argv[1]), sys.argv[2]
if how == "ends":
    sys.exit("no such library")
open("pid-" + str(os.getpid() if how != "unseen" else 1), "w").close()
print("ready", flush=True)
for n in steps.turns(number):
    steps.tell(n)
    time.sleep(0.001)
    if how == "dies" and os.path.exists("stopped"):
        os.kill(os.getpid(), 11)
    if how == "stands" and os.path.exists("stopped"):
        time.sleep(10000)
came = b"stopped" if how == "differs" and not number else b"undisturbed"
steps.tell_end(n + 1, [came], *["bad", 1] * (how == "damaged"))
"""
REFUSAL = {"type": "error", "code": "unreleasable", "undone": True,
           "message": "process 12 (python3) has a GPU and cannot be released: it uses memory of process 13"}
PREPARED = {"type": "prepared"}
RESUMED = {"type": "resumed"}


class FakeMachine:
    answers = {"prepare": PREPARED, "resume": RESUMED}

    def __init__(self, gpus):
        self.gpus = gpus

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def bind(self):
        pass

    def ask(self, kind):
        directory = FakeMachine.directory()
        pids = [int(name[4:]) for name in os.listdir(directory) if name.startswith("pid-")]
        # All that a program sees of a stop.
        if kind == "resume":
            with open(os.path.join(directory, "stopped"), "w", encoding="utf-8"):
                pass
        return {"programs": {"list": [{"pid": pid, "comm": "x", "state": "running",
                                       "stop_ms": 700 + 200 * (pid == max(pids)), "held_threads": 2}
                                      for pid in pids]}, **self.answers[kind]}


@pytest.fixture(name="matrix")
def a_matrix(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(GPU)
    loader = importlib.machinery.SourceFileLoader("gpu_matrix", os.path.join(GPU, "matrix"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("gpu_matrix", loader))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    # It is a dataclass's module while that is made.
    monkeypatch.setitem(sys.modules, "gpu_matrix", module)
    loader.exec_module(module)
    monkeypatch.setenv("OUT", str(tmp_path))
    (tmp_path / "program").write_text(PROGRAM)
    said = {"driver_version": [["580.1"]], "memory.used": [["4"]], "mig.mode.current": [["Disabled"]]}
    monkeypatch.setattr(module, "smi", said.get)
    monkeypatch.setattr(module, "Machine", FakeMachine)
    monkeypatch.setattr(module, "PAUSES_S", (0, 0.01))
    monkeypatch.setattr(FakeMachine, "directory", lambda: module.made[-1], raising=False)
    module.made = []
    mkdtemp = module.tempfile.mkdtemp

    def noted(*args, **more):
        module.made.append(mkdtemp(*args, **{**more, "dir": tmp_path}))
        return module.made[-1]

    monkeypatch.setattr(module.tempfile, "mkdtemp", noted)
    monkeypatch.setattr(module, "ROWS", {})
    module.signal.signal(module.signal.SIGALRM, module.on_alarm)
    return module


def run(matrix, monkeypatch, how="", answers=None, n=1, **more):
    """The lines of a row with such programs, and which rows were bad."""
    monkeypatch.setattr(FakeMachine, "answers", {**FakeMachine.answers, **(answers or {})})
    program = os.path.join(os.environ["OUT"], "program")
    matrix.ROWS["row"] = type(next(iter(matrix.real_rows.values())))(
        "a program", n * [[sys.executable, program, "STEPS", how]], **more)
    report = matrix.Report([type("Gpu", (), {"name": "card"})()])
    assert matrix.run_row("row", report.gpus, report, matrix.time.monotonic() + 1000)
    with open(report.path, encoding="utf-8", newline="") as file:
        lines = list(csv.DictReader(file, dialect="excel-tab"))
    return lines, report.bad


@pytest.fixture(autouse=True)
def real_rows(matrix):
    matrix.real_rows = importlib.import_module("matrix_rows").ROWS


@pytest.mark.parametrize("n", [1, 3])
def test_equal(matrix, monkeypatch, n):
    [line], bad = run(matrix, monkeypatch, n=n)
    assert (line["row"], line["program"], line["stops"], line["equal"]) == ("row", "a program", "5", "yes")
    assert (line["longest_s"], line["held"], line["result"]) == ("0.90", str(10 * n), "-")
    assert (line["card"], line["driver"], bad) == ("card", "580.1", [])
    assert not any(os.path.exists(path) for path in matrix.made)


@pytest.mark.parametrize("how, equal, text", [
    ("differs", "NO", "-"), ("damaged", "NO", "bad 1"), ("dies", "LOST", "ended by signal 11"),
    ("stands", "LOST", "stands still; step ")])
def test_lost(matrix, monkeypatch, how, equal, text):
    # Only the one that stands still is waited for in vain.
    monkeypatch.setattr(matrix.Jobs.check, "__defaults__", (1 if how == "stands" else matrix.GO_ON_S,))
    [line], bad = run(matrix, monkeypatch, how)
    assert line["equal"] == equal and text in line["result"] and bad == ["row"]


def test_not_taken_back(matrix, monkeypatch):
    [line], bad = run(matrix, monkeypatch, answers={"resume": {"type": "error", "message": "no memory"}})
    assert line["equal"] == "LOST" and "no memory" in line["result"] and bad == ["row"]


def test_unseen(matrix, monkeypatch):
    """An agent that sees no program has not stopped it."""
    [line], bad = run(matrix, monkeypatch, "unseen")
    assert line["equal"] == "FAILED" and "1 of 1 processes were not released" in line["result"] and bad == ["row"]


def test_not_here(matrix, monkeypatch):
    [line], bad = run(matrix, monkeypatch, "ends")
    assert (line["stops"], line["equal"], bad) == ("0", "-", [])
    assert line["result"].startswith("not run: it does not begin") and "no such library" in line["result"]


def test_missing(matrix, monkeypatch):
    [line], bad = run(matrix, monkeypatch, needs=("sys", "no_such_module", "sh"))
    assert (line["result"], line["equal"], bad) == ("missing: no_such_module", "-", [])


def test_too_late(matrix, monkeypatch):
    [line], bad = run(matrix, monkeypatch, "stands", limit_s=1)
    assert line["equal"] == "late" and bad == ["row"]


# What the bare calls do to a program that was refused, and what that says.
BARE = [("1 lock 0 1 0\n1 checkpoint 1 2 0\n1 restore 2 3 1\n", True, "lost", "restore error 1; ended by signal 9"),
        ("1 checkpoint 1 2 801\n", False, "yes", "refuses it, and it continues: checkpoint error 801"),
        ("", False, "yes", "it need not be refused")]


@pytest.mark.parametrize("said, kills, equal, text", BARE)
def test_refused(matrix, monkeypatch, tmp_path, said, kills, equal, text):
    (tmp_path / "said").write_text(said)
    bare = tmp_path / "cuda-bare"
    bare.write_text(f"#!/bin/sh\ncat {tmp_path}/said\n" + 'shift 2\nkill -9 "$@"\n' * kills)
    bare.chmod(0o755)
    monkeypatch.setattr(matrix, "built", lambda name: str(tmp_path / name))
    monkeypatch.setattr(matrix, "has_nodes", lambda pid: True)
    lines, bad = run(matrix, monkeypatch, answers={"prepare": REFUSAL})
    assert [(line["row"], line["equal"]) for line in lines] == [("row", "yes"), ("row-bare", equal)], lines
    assert lines[0]["result"] == "refused: it uses memory of process N" and lines[0]["stops"] == "0"
    assert text in lines[1]["result"] and lines[1]["program"] == "a program: bare calls" and bad == []


def test_refused_when_it_was_stopped(matrix, monkeypatch):
    monkeypatch.setattr(matrix, "built", lambda name: "true")
    monkeypatch.setattr(matrix, "has_nodes", lambda pid: True)
    refusal = {**REFUSAL, "programs": {"list": [{"pid": 1, "lock_ms": 3}]}}
    lines, _ = run(matrix, monkeypatch, answers={"prepare": refusal})
    assert lines[0]["result"].startswith("failed, and undone: it uses memory") and lines[1]["row"] == "row-bare"


def test_table(tmp_path):
    """Of two lines for the same row and card the later one; what never ran is listed."""
    head = "row\tprogram\tstops\tequal\tlongest_s\theld\tresult\tcard\tdriver\tdate\n"
    one, two = tmp_path / "one.tsv", tmp_path / "two.tsv"
    one.write_text(head + "cupy\tCuPy\t5\tNO\t1.00\t-\t-\tcard\t580\t2026-01-01\n")
    two.write_text(head + "threads\tthreads\t5\tyes\t0.90\t3\ta | b\tcard\t580\t2026-01-02\n"
                   "cupy\tCuPy\t5\tyes\t2.00\t-\t-\tcard\t580\t2026-01-02\n")
    done = subprocess.run([os.path.join(GPU, "matrix"), "--merge", one, two], capture_output=True, text=True, check=True)
    lines = done.stdout.splitlines()
    assert lines[2:4] == ["| threads | 5 | yes | 0.90 | 3 | a / b | card, 580, 2026-01-02 |",
                          "| CuPy | 5 | yes | 2.00 | - | - | card, 580, 2026-01-02 |"]
    assert lines[-1].startswith("Not run: ") and "Triton" in lines[-1] and "CuPy" not in lines[-1]


def test_programs_are_there(matrix):
    """Each row's file exists and can be read by this Python."""
    for row in matrix.real_rows.values():
        for words in row.commands:
            scripts = [word for word in words if word.endswith(".py")]
            for script in scripts:
                with open(script, encoding="utf-8") as file:
                    compile(file.read(), script, "exec")
            assert scripts or os.path.basename(words[0]) == "cuda-worker"
