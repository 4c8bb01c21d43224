# SPDX-License-Identifier: Apache-2.0
"""vgpuctl preemptions: the matrix, against the list that it is made of."""
import re
import subprocess

import pytest
import vgpuctl
from settings import HANG_S
from terminal import Terminal
from vgpud import LTTNG, VM_MAP, Daemon, wait_for


@pytest.fixture(scope="module")
def daemon(tmp_path_factory):
    with Daemon(tmp_path_factory.mktemp("matrix"), "--speed", "max", "--vm-map", VM_MAP,
                replay=LTTNG) as running:
        yield running.replayed()


def run(daemon, *args, code=0):
    done = subprocess.run([vgpuctl.program(), "preemptions", "--socket", daemon.socket, *args],
                          capture_output=True, text=True, timeout=HANG_S)
    assert done.returncode == code, (done.returncode, done.stderr)
    return done


def read(text):
    """{(row, column): figure or None} of a printed matrix, below its title."""
    lines = text.splitlines()
    header = lines[1].split()
    assert header[0] == "VM" and header[-1] == "TOTAL"
    return {(line.split()[0], column): None if cell == "-" else float(cell)
            for line in lines[2:] for column, cell in zip(header[1:], line.split()[1:])}


def taker(item):
    """Its own threads are on the diagonal."""
    return item["victim"]["name"] if item["aggressor"] == "self" else item["aggressor"]


@pytest.mark.parametrize("option, member, factor", [("--matrix", "share", 1000),
                                                    ("--matrix=count", "count_per_s", 1)])
def test_the_matrix_has_the_rates_of_the_list(daemon, option, member, factor):
    cells = read(run(daemon, option).stdout)
    items = daemon.get("/v1/preemptions")["items"]
    for item in items:
        got = cells.pop((item["victim"]["name"], taker(item)))
        assert abs(got - item["newest"][member] * factor) <= 0.0051
    for name, pick in (("row", lambda item: item["victim"]["name"]),
                       ("column", taker)):
        for line in {pick(item) for item in items}:
            want = sum(item["newest"][member] * factor for item in items if pick(item) == line)
            key = (line, "TOTAL") if name == "row" else ("TOTAL", line)
            assert abs(cells.pop(key) - want) <= 0.0051
    assert abs(cells.pop(("TOTAL", "TOTAL")) - sum(i["newest"][member] * factor
                                                  for i in items)) <= 0.0051
    assert set(cells.values()) <= {None}


def test_one_victim_and_what_does_not_change(daemon):
    cells = read(run(daemon, "vm-duty", "--matrix").stdout)
    assert {row for row, _ in cells} == {"vm-duty", "TOTAL"}
    assert run(daemon).stdout.startswith("VM ") and "SECONDS" in run(daemon).stdout
    for form in ("json", "yaml", "csv"):
        once = run(daemon, "-o", form).stdout
        assert run(daemon, "-o", form, "--watch=0.1", "-n", "2").stdout == once * 2
        err = run(daemon, "-o", form, "--matrix", code=2).stderr
        assert "--matrix is valid only for tables" in err
    assert "SECONDS" in run(daemon, "-o", "wide", "--watch=0.1", "-n", "1").stdout
    assert "time or count" in run(daemon, "--matrix=size", code=2).stderr


def test_watching_shows_the_matrix(daemon):
    assert run(daemon, "--watch=0.1", "-n", "2").stdout == run(daemon, "--matrix").stdout * 2


def test_a_terminal_gets_what_fits(daemon):
    whole = read(run(daemon, "--matrix").stdout)
    with Terminal(vgpuctl.program(), "preemptions", "--watch=0.1", "--socket", daemon.socket,
                  rows=5, columns=44) as terminal:
        def complete(screen):
            return re.search(r"(?m)^TOTAL .*\d$", screen.text())
        terminal.wait(complete)
        lines = [line for line in terminal.screen.lines() if line]
        # The title takes two lines of the five, and the cursor one.
        start = next(i for i, line in enumerate(lines) if line.startswith("VM "))
        assert "others" in lines[start] and lines[start + 1].startswith("others ")
        shown = read("\n".join(["title", *lines[start:]]))
        # What is left out is summed up.
        for column in {column for _, column in shown} - {"others"}:
            assert shown["TOTAL", column] == whole["TOTAL", column]
        heaviest = sorted((c for _, c in whole if c != "TOTAL"), key=lambda c: -whole["TOTAL", c])
        kept = [column for column in dict.fromkeys(c for _, c in shown)][:-2]
        assert kept and set(kept) == set(list(dict.fromkeys(heaviest))[:len(kept)])
        assert not [line for line in lines if len(line) > 44]
        terminal.set_size(30, 120)
        terminal.wait(lambda screen: complete(screen) and "others" not in screen.text())
        wait_for(lambda: terminal.is_still(0.5) and complete(terminal.screen))
