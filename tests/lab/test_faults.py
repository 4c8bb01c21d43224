# SPDX-License-Identifier: Apache-2.0
"""Three fixed cases of the matrix of faults; tools/check --faults runs more. And the rules of the matrix itself."""
import os
import subprocess
import sys

import faulttable
import labhost
import pytest
from faultrun import Runner
from settings import HANG_S

FAULTS = os.path.join(labhost.ROOT, "tests", "lab", "faults")


@pytest.fixture(scope="module")
def runner(host, tmp_path_factory):
    made = Runner(tmp_path_factory.mktemp("faults"), None, shared=True)
    yield made
    made.discard()
    made.lab.down()


@pytest.mark.xdist_group("lab")
@pytest.mark.parametrize("case", faulttable.FIXED)
def test_fixed_case(runner, case):
    outcome, _, _, note = runner.run(case)
    runner.restore(outcome)
    assert outcome == "rolled_back", note


def test_every_case_can_be_drawn():
    """By name, once; and a draw of the usual size has each move, each fault and each phase."""
    cases = faulttable.cases()
    assert len(cases) == len(set(cases)) >= 120
    assert set(faulttable.FIXED) <= set(cases)
    moves, faults, phases = map(set, zip(*map(faulttable.parts_of, cases)))
    for seed in range(20):
        drawn = faulttable.draw(60, seed)
        assert len(drawn) == 60
        assert tuple(map(set, zip(*map(faulttable.parts_of, drawn)))) == (moves, faults, phases)
    assert faulttable.draw(20, 1) == faulttable.draw(20, 1) != faulttable.draw(20, 2)


def test_a_document_has_every_row(tmp_path):
    out = tmp_path / "faults.tsv"
    rows = [f"{case}\tdone\t1.0\t2.0\tn{number} | m" for number, case in enumerate(faulttable.cases()[:5])]
    out.write_text("\n".join(["header", *rows[:4], rows[4].replace("done", "wrong")]) + "\n")
    said = subprocess.run([sys.executable, FAULTS, "--docs", out], capture_output=True, text=True, timeout=HANG_S,
                          check=True).stdout
    assert "5 ran, and 4 passed" in said
    assert all(f"| {case} | " in said for case in faulttable.cases()[:5])
