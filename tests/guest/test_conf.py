# SPDX-License-Identifier: Apache-2.0
"""The configuration file of vgpu-guestd: what is said of a wrong one, and that nothing starts with it. What a
right one sets: tests/unit/test-guest-conf.c."""
import os
import re
import subprocess

import pytest
from guestd import program
from vgpuctl import ROOT

# The line that is wrong, and what is said of it.
WRONG = [
    ("[cuda]\ndriver_faults=no\n", 2, "[cuda] driver_faults: 'no' is neither 'refuse' nor 'allow'"),
    ("[cuda]\nhuge_pages=maybe\n", 2, "[cuda] huge_pages: 'maybe' is neither 'no' nor 'yes'"),
    ("[cuda]\n# yes\n\nunwatched=Allow\n", 4, "'Allow' is neither 'refuse' nor 'allow'"),
    ("[cuda]\nforked=\n", 2, "'' is neither 'refuse' nor 'release'"),
    ("[cuda]\nhold_faults=1\n", 2, "[cuda] hold_faults: '1' is neither 'no' nor 'yes'"),
    ("[cuda]\nhugepages=yes\n", 2,
     "[cuda] has no key 'hugepages'; its keys are: unwatched, forked, huge_pages, hold_faults, "
     "driver_faults"),
    ("[units]\nstart=a.service\n", 2, "[units] has no key 'start'; its keys are: stop"),
    ("[units]\nforked=release\n", 2, "[units] has no key 'forked'"),
    ("[cuda]\nforked=release\n[unit]\nstop=a.service\n", 3,
     "unknown section [unit]; the sections are [cuda] and [units]"),
    ("[CUDA]\n", 1, "unknown section [CUDA]"),
    ("forked=release\n[cuda]\n", 1, "'forked' is not in a section"),
    ("[units]\nstop=a.service nvidia-dcgm\n", 2, "'nvidia-dcgm' is not a systemd unit"),
    ("[units]\nstop=--now.service\n", 2, "'--now.service' is not a systemd unit"),
    ("[units]\nstop=a.service,b.service\n", 2, "'a.service,b.service' is not a systemd unit"),
    ("[units]\nstop=/etc/x.service\n", 2, "'/etc/x.service' is not a systemd unit"),
    ("[units]\n" + "stop=a.service\n" * 33, 34, "more than 32 units are listed"),
    ("[cuda]\nforked\n", 2, "the line is neither [SECTION] nor KEY=VALUE"),
    ("[cuda\nforked=release\n", 1, "the line is neither [SECTION] nor KEY=VALUE"),
    ("[cuda]\n\n# " + "x" * 300 + "\n", 3, "the line is longer than"),
    # The first of them.
    ("[cuda]\nforked=maybe\nhuge_pages=maybe\nx\n", 2, "'maybe' is neither 'refuse' nor 'release'"),
    # Blanks before a line do not make it a part of the one before.
    ("[cuda]\nforked=release\n  huge_pages=maybe\n", 3, "[cuda] huge_pages: 'maybe'"),
]


@pytest.mark.parametrize("command", [[], ["status"]], ids=["agent", "status"])
def test_wrong(tmp_path, command):
    path = tmp_path / "wrong.conf"
    for text, line, said in WRONG:
        path.write_text(text)
        done = subprocess.run([program(), *command, "--config", path, "--listen", tmp_path / "socket"],
                              capture_output=True, text=True)
        assert done.returncode == 2 and done.stdout == "", (text, done)
        assert done.stderr.startswith(f"vgpu-guestd: {path}:{line}: "), (text, done.stderr)
        assert said in done.stderr and done.stderr.count("\n") == 1, (text, done.stderr)
    assert not os.path.exists(tmp_path / "socket")


def test_cannot_be_read(tmp_path):
    for path, why in ((tmp_path / "none.conf", "No such file"), (tmp_path, "Is a directory")):
        done = subprocess.run([program(), "--config", path], capture_output=True, text=True)
        assert done.returncode == 2 and f"{path}: " in done.stderr and why in done.stderr


def test_default_file_is_below_the_root(tmp_path):
    os.makedirs(tmp_path / "etc/vgpud")
    args = [program(), "status", "--sysroot", tmp_path]
    assert subprocess.run(args, capture_output=True).returncode == 0
    (tmp_path / "etc/vgpud/vgpu-guestd.conf").write_text("[cuda]\nx=1\n")
    done = subprocess.run(args, capture_output=True, text=True)
    assert done.returncode == 2 and f"{tmp_path}/etc/vgpud/vgpu-guestd.conf:2: " in done.stderr


def test_example(tmp_path):
    """Its lines are the defaults, and those that the manual has."""
    with open(os.path.join(ROOT, "data", "vgpu-guestd.conf"), encoding="utf-8") as file:
        text = file.read()
    path = tmp_path / "example.conf"
    path.write_text(re.sub(r"(?m)^#(?=\w+=)", "", text))
    assert path.read_text() != text
    args = [program(), "status", "--sysroot", tmp_path, "--config"]
    shown = [subprocess.run([*args, file], capture_output=True, text=True, check=True).stdout
             for file in (path, "/dev/null")]
    assert shown[0] == shown[1]
    with open(os.path.join(ROOT, "docs", "vgpu-guestd.8"), encoding="utf-8") as file:
        page = file.read()
    for name, value in re.findall(r"(?m)^#(\w+)=(.*)$", text):
        if name == "stop":
            assert all(f".Ql {unit}" in page for unit in value.split())
        else:
            assert f".It Cm {name} No = Cm {value}\n" in page
