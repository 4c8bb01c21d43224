# SPDX-License-Identifier: Apache-2.0
"""What people who use other tools expect of vgpuctl."""
import glob
import json
import os
import re
import shlex
import shutil
import subprocess

import pytest
import vgpuctl
from settings import HANG_S, sample
from terminal import Terminal
from unixhttp import Server
from vgpud import ROOT

ALPHA = "5c9e2c3a-0d8f-4f0a-9d64-1f3c1c7c0000"


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    running = Server(tmp_path_factory.mktemp("habits"))
    yield running
    running.stop()


def run(*args, code=0, where=None):
    place = ["--socket", where.path] if where else []
    done = subprocess.run([vgpuctl.program(), *args, *place], capture_output=True, text=True, timeout=HANG_S)
    assert done.returncode == code, (done.returncode, done.stderr, done.stdout)
    return done


# ---- help ----

@pytest.mark.smoke
def test_help():
    whole = run("--help").stdout
    assert run("-h").stdout == run("help").stdout == run("-?").stdout == whole
    assert run("help", "vm").stdout == run("vm", "--help").stdout == run("vm", "-h").stdout
    assert run("vm", "list", "-h").stdout == run("vm", "--help").stdout
    assert run("help", "vmm", code=2).stderr == "vgpuctl: unknown command 'vmm'; did you mean `vm`?\n"


@pytest.mark.parametrize("wrong,right", [("migraet", "migrate"), ("hosts", "host"), ("evnets", "events"),
                                         ("gpus", "gpu"), ("placment", "placement")])
def test_did_you_mean(wrong, right):
    assert run(wrong, code=2).stderr.endswith(f"did you mean `{right}`?\n")


def test_nothing_is_near():
    for word in ("kubectl", "x", "a" * 1000, "-z"):
        assert "did you mean" not in run(word, code=2).stderr
    assert "(did you mean `list`?)" in run("vm", "lst", code=2).stderr
    assert "did you mean" not in run("vm", "frobnicate", code=2).stderr


# ---- words in the order that people write them ----

def test_list_is_what_is_meant(server):
    for command in ("vm", "gpu", "plan", "migration", "alert", "peer", "token", "context"):
        where = None if command == "context" else server
        assert run(command, where=where).stdout == run(command, "list", where=where).stdout
    # A list of hosts has one line, of the host that is asked.
    assert run("host", where=server).stdout == run("host", "list", where=server).stdout


def test_options_before_the_command(server):
    assert json.loads(run("--socket", server.path, "-o", "json", "vm").stdout)
    assert json.loads(run(f"--socket={server.path}", "--output=json", "vm", "show", "alpha").stdout)
    assert run("-ojson", "--socket", server.path, "vm", "-o", "name").stdout.startswith("alpha\n")
    assert run("--socket", code=2).stderr.startswith("Usage:")
    assert "unknown command '--wait'" in run("--wait", "migrate", code=2).stderr
    assert "reader, operator, admin or peer, not 'king'" in run("token", "create", "x", "--role", "king", code=2).stderr


# ---- what is printed ----

def test_names(server):
    names = run("vm", "-o", "name", where=server).stdout.splitlines()
    assert names[:2] == ["alpha", "beta"] and all(name.isprintable() for name in names)


def test_columns(server):
    table = run("vm", "-c", "lost, VM,newest.cpu_intensity", where=server).stdout.splitlines()
    assert table[0].split("  ")[0].startswith("LOST VM") and table[0].endswith("CPU %")
    assert len(table) > 2
    assert run("vm", "--columns", "UUID,VM", "-o", "csv", where=server).stdout.splitlines()[:2] == [
        "uuid,name", f"{ALPHA},alpha"]
    wrong = run("vm", "-c", "VM,AGE", code=1, where=server)
    assert wrong.stdout == "" and "unknown column 'AGE'; the columns are: VM, UUID," in wrong.stderr
    # Only the first table has them.
    assert "vCPUs, since vgpud started" in run("vm", "show", "alpha", "-c", "VM", where=server).stdout


def test_no_headers(server):
    assert run("vm", "-c", "VM", "--no-headers", where=server).stdout.splitlines()[0] == "alpha"
    assert run("vm", "-c", "VM", "--no-headers", "-o", "csv", where=server).stdout.splitlines()[0] == "alpha"
    assert "since vgpud started" not in run("vm", "show", "alpha", "--no-headers", where=server).stdout


def test_long_reasons_fold(server):
    with Terminal(vgpuctl.program(), "explain", "host:unknown", columns=50, rows=20) as screen:
        assert screen.end() == 0
        lines = [line for line in screen.screen.lines() if line]
    assert len(lines) > 2 and lines[2].startswith(" " * 10)


# ---- names that are not whole ----

def test_beginnings(server):
    whole = run("vm", "show", "alpha", where=server).stdout
    for text in ("alp", "ALPHA", ALPHA.upper()):
        assert run("vm", "show", text, where=server).stdout == whole
    several = run("vm", "show", ALPHA[:8], code=5, where=server).stderr
    assert f"'{ALPHA[:8]}' matches 2" in several and ALPHA in several
    assert "no VM 'omega'" in run("vm", "show", "omega", code=3, where=server).stderr
    # What changes something does not guess.
    assert run("migrate", "alp", "--to", "host-b", code=3, where=server).stdout == ""


def test_request_timeout(server, tmp_path):
    slow = Server(tmp_path, "--job-ms", 3000)
    try:
        done = run("placement", "--dry-run", "--request-timeout", "0.2", code=6, where=slow)
        assert "did not answer within 0.2 s" in done.stderr
    finally:
        slow.stop()
    for wrong in ("0", "x", "4000", "1s"):
        assert "--request-timeout must be" in run("vm", "--request-timeout", wrong, code=2).stderr


# ---- words ----

def headings():
    found = set()
    for path in glob.glob(os.path.join(ROOT, "cli", "*.[ch]")):
        with open(path, encoding="utf-8") as file:
            found |= set(re.findall(r'\{"([^"]+)",\s*"[a-z_.0-9]+",\s*VG_CELL_', file.read()))
    with open(os.path.join(ROOT, "model", "figures.def"), encoding="utf-8") as file:
        found |= set(re.findall(r'(?:NARROW|WIDE), "([^"]+)"', file.read()))
    return found


# Headings are listed without it.
UNIT = re.compile(r"( \(utc\)| s/s| ?/s| s| ms| %| mib| gib| cores)$")


def test_every_heading_is_explained():
    """Those that stand in the list in other letters, too, of which some are asked for."""
    found = headings()
    assert len(found) > 100
    listed = {row["word"] for row in json.loads(run("explain", "-o", "json").stdout)}
    known = {heading for heading in found if {heading.lower(), UNIT.sub("", heading.lower())} & listed}
    missing = [heading for heading in sorted(found - known) + sample("headings", sorted(known), 10)
               if subprocess.run([vgpuctl.program(), "explain", heading, "--socket", "/nonexistent"],
                                 capture_output=True, timeout=HANG_S).returncode != 0]
    assert missing == []


@pytest.mark.parametrize("word", ["LOST", "host:user", "self", "confidence", "infeasible", "degraded"])
def test_words_are_explained(word):
    assert len(run("explain", word).stdout.splitlines()) >= 2


def test_no_word_has_two_meanings_of_one_kind():
    words = [row["word"] for row in json.loads(run("explain", "-o", "json").stdout)]
    assert {word for word in words if words.count(word) > 1} <= {"lost", "open", "requests", "share", "preemptions"}


# ---- completion ----

@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_completion_can_be_read(shell):
    if not shutil.which(shell):
        pytest.skip(f"{shell} is not installed")
    name = {"zsh": "_vgpuctl", "fish": "vgpuctl.fish"}[shell]
    subprocess.run([shell, "-n", os.path.join(ROOT, "data", "completion", name)], check=True, timeout=HANG_S)


HOSTILE_NAMES = ["alpha", "$(touch made)", "`touch made`", "a b;c", 'x"y', "*"]
BASH = """
_init_completion() { words=(%(words)s); cword=$((${#words[@]} - 1)); cur=${words[cword]}; prev=${words[cword - 1]}; split=false; }
_filedir() { :; }
compopt() { :; }
source %(root)s/data/completion/vgpuctl
_vgpuctl
printf '%%s\n' "${COMPREPLY[@]}"
"""


@pytest.mark.parametrize("line", ["vm show", "migrate", "vm list --vm", "migrate alpha --to", "context use", "host drain"])
def test_completion_of_bash_executes_no_name(tmp_path, line):
    """VMs, hosts and peers choose their names. The shell reads each offered word as the name itself."""
    (tmp_path / "names").write_text("".join(name + "\n" for name in HOSTILE_NAMES))
    program = tmp_path / "vgpuctl"
    program.write_text('#!/bin/sh\ncase " $* " in *" -o name "*) cat names ;; esac\n')
    program.chmod(0o755)

    def offered(start):
        script = BASH % {"words": f"{program} {line} {shlex.quote(start)}", "root": ROOT}
        done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, timeout=HANG_S, cwd=tmp_path, check=True)
        return [word for text in done.stdout.splitlines() for word in shlex.split(text)]
    assert offered("") == HOSTILE_NAMES
    assert offered("al") == ["alpha"]
    assert offered("$") == ["$(touch made)"]
    assert sorted(os.listdir(tmp_path)) == ["names", "vgpuctl"]


def test_completion_of_fish(server):
    if not shutil.which("fish"):
        pytest.skip("fish is not installed")
    script = f"source {ROOT}/data/completion/vgpuctl.fish; complete -C '%s'"
    environment = {**os.environ, "VGPUCTL_SOCKET": server.path,
                   "PATH": os.path.dirname(vgpuctl.program()) + ":" + os.environ["PATH"]}

    def complete(line):
        done = subprocess.run(["fish", "-c", script % line], capture_output=True, text=True, timeout=HANG_S,
                              env=environment, check=True)
        return [found.split("\t")[0] for found in done.stdout.splitlines()]
    assert complete("vgpuctl mig") == ["migrate", "migration"]
    assert complete("vgpuctl vm hi") == ["history"]
    assert "alpha" in complete("vgpuctl vm show ")
    assert complete("vgpuctl vm list --no-h") == ["--no-headers"]


def test_empty_arguments(server):
    assert "an argument is empty" in run("vm", "show", "", code=2, where=server).stderr
    assert "unknown column ''; the columns are: VM, " in run("vm", "list", "-c", "", code=1, where=server).stderr


def test_closed_standard_output(server):
    """Fails, and no other file gets its number."""
    for line in ("vm list", "vm show alpha", "host show -o json", "version"):
        done = subprocess.run(["sh", "-c", f"{vgpuctl.program()} {line} >&-"], capture_output=True, text=True, timeout=HANG_S,
                              env={**os.environ, "VGPUCTL_SOCKET": server.path}, check=False)
        assert done.returncode == 1 and "Bad file descriptor" in done.stderr, (line, done)


def test_a_matrix_in_a_pipe(tmp_path):
    """Keeps to 80 columns; -o wide has all."""
    many = Server(tmp_path, "--vms", 40)
    try:
        lines = run("preemptions", "--matrix", where=many).stdout.splitlines()
        assert max(map(len, lines)) <= 80 and "others" in lines[1]
        wide = run("preemptions", "--matrix", "-o", "wide", where=many).stdout.splitlines()
        assert "others" not in wide[1] and len(wide[1]) > 200
    finally:
        many.stop()
