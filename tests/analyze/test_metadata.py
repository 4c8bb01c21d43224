# SPDX-License-Identifier: Apache-2.0
"""Metadata of CTF in other forms than that of LTTng 2.13."""
import os
import shutil

import pytest

from ctfgen import Dialect, write_trace
from hostsim import simulate
from settings import seed
from vgpuctl import analyze

MARK = b"/* CTF 1.8 */\n"


def without_names(doc):
    return {key: value for key, value in doc.items() if key != "trace"}


@pytest.mark.parametrize("blank", [b"", b"\n  "])
@pytest.mark.parametrize("damaged", [False, True])
def test_no_first_line(tmp_path, damaged, blank):
    """LTTng 2.14 writes text that does not say what it is."""
    layout = write_trace(str(tmp_path / "t"), Dialect(), simulate(seed=seed(), events=900))
    name = sorted(layout.files)[0]
    if damaged:
        with open(tmp_path / "t" / name, "r+b") as file:
            file.truncate(os.path.getsize(file.name) - 5000)
    shutil.copytree(tmp_path / "t", tmp_path / "u")
    text = (tmp_path / "t" / "metadata").read_bytes()
    assert text.startswith(MARK)
    (tmp_path / "u" / "metadata").write_bytes(blank + text[len(MARK):])
    before, after = analyze(tmp_path / "t").doc(), analyze(tmp_path / "u").doc()
    assert without_names(after) == without_names(before) and after["trace"]["events"] > 0
    assert after["trace"]["events"] == before["trace"]["events"]
    assert len(after["trace"]["problems"]) == len(before["trace"]["problems"])


@pytest.mark.parametrize("packets", [False, True])
def test_ctf_2(tmp_path, packets):
    """It is named, with what to do."""
    write_trace(str(tmp_path / "t"), Dialect(packetised=packets), simulate(seed=seed(), events=900))
    path = tmp_path / "t" / "metadata"
    text = b'\x1e{"type": "preamble", "version": 2}\n'
    path.write_bytes(path.read_bytes()[:37] + text if packets else text)
    result = analyze(tmp_path / "t")
    assert result.rc == 1
    assert "CTF 2" in result.err and "ctf-version" in result.err
