# SPDX-License-Identifier: Apache-2.0
"""The EXAMPLES of vgpuctl(1) and vgpuctl-traces(5): each is a valid command line, and those that need nothing but a
recording work on the bundled recording."""
import json
import os
import shlex
import subprocess

import pytest

import vgpuctl
from settings import HANG_S

DEMO = os.path.join(vgpuctl.ROOT, "data", "demo")
RECORDING = os.path.join(DEMO, "inner-host-3vms", "lttng-kernel")

# What stands in an example for files of the reader, and the bundled file that replaces it.
FILES = {"/tmp/vms": RECORDING, "/tmp/vm-map.txt": os.path.join(DEMO, "vm-map.txt"),
         "b.json": os.path.join(DEMO, "gpu-host.snapshot.json")}


def examples(page):
    """The lines of the literal blocks in EXAMPLES that run vgpuctl, without a redirection."""
    with open(os.path.join(vgpuctl.ROOT, "docs", page), encoding="utf-8") as file:
        text = file.read()
    section = text.split(".Sh EXAMPLES\n")[1].split("\n.Sh ")[0]
    blocks = [part.split("\n.Ed")[0] for part in section.split(".Bd -literal -offset indent\n")[1:]]
    return [line.split(" > ")[0] for block in blocks for line in block.splitlines() if line.startswith("vgpuctl ")]


def environment(home):
    """Without the user's contexts, and with a socket at which no vgpud listens."""
    kept = {name: value for name, value in os.environ.items()
            if not name.startswith("VGPUCTL_") and name != "XDG_CONFIG_HOME"}
    return {**kept, "HOME": str(home), "VGPUCTL_SOCKET": str(home / "no-socket")}


def run(line, home):
    """Runs one line in an empty directory; $(hostname) is the name of the host."""
    words = [os.uname().nodename if word == "$(hostname)" else FILES.get(word, word) for word in shlex.split(line)]
    return subprocess.run([vgpuctl.program(), *words[1:]], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          timeout=HANG_S, cwd=home, env=environment(home))


def needs_vgpud(line):
    return not any(f" {command} " in line for command in ("record", "analyze", "simulate", "snapshot", "--state"))


def test_pages_have_examples():
    assert len(examples("vgpuctl.1")) >= 20 and len(examples("vgpuctl-traces.5")) >= 4


@pytest.mark.parametrize("line", [line for line in examples("vgpuctl.1") if needs_vgpud(line)])
def test_valid_without_vgpud(tmp_path, line):
    """No example is refused as wrong usage: it fails for want of a vgpud, of a file or of a context."""
    # Without a terminal, this is the answer to the question that the command asks.
    done = run(line + " --yes" if " plan apply " in line else line, tmp_path)
    assert done.returncode in (3, 7), (line, done.returncode, done.stderr)
    assert done.stderr and done.stdout == ""


def test_pictures(tmp_path):
    line, = [line for line in examples("vgpuctl.1") if line.startswith("vgpuctl analyze")]
    assert line in examples("vgpuctl-traces.5")
    done = run(line, tmp_path)
    assert done.returncode == 0, done.stderr
    # The recording has no GPU requests to draw.
    assert sorted(os.listdir(tmp_path)) == ["vms-utilisation.svg", "vms.pftrace"]


def test_simulate(tmp_path):
    line, = [line for line in examples("vgpuctl.1") if line.startswith("vgpuctl simulate")]
    done = run(line, tmp_path)
    assert done.returncode == 3 and "no GPU request was recorded" in done.stderr, (done.returncode, done.stderr)


def test_recording_to_plan(tmp_path):
    lines = examples("vgpuctl-traces.5")
    analyze, = [line for line in lines if line.startswith("vgpuctl analyze") and "--vm-map" in line]
    snapshot, = [line for line in lines if line.startswith("vgpuctl snapshot")]
    placement, = [line for line in lines if line.startswith("vgpuctl placement")]
    done = run(analyze, tmp_path)
    assert done.returncode == 0 and "vm-busy" in done.stdout, done.stderr
    done = run(snapshot, tmp_path)
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert [host["name"] for host in document["hosts"]] == [os.uname().nodename]
    (tmp_path / "a.json").write_text(done.stdout, encoding="utf-8")
    done = run(placement, tmp_path)
    assert done.returncode == 0 and done.stdout, done.stderr
