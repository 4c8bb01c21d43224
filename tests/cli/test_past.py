# SPDX-License-Identifier: Apache-2.0
"""What happened on the whole host in a time that is past, of a store that the real writer made; and
times as people write them."""
import csv
import datetime
import io
import json
import os
import subprocess
import time
import zoneinfo

import pytest
import vgpuctl
from settings import HANG_S, sample
from unixhttp import Server
from vgpud import Daemon

VMS = 4
HOURS = 26
# One worker makes the store, once.
pytestmark = pytest.mark.xdist_group("past")


def tool(name):
    build = os.environ.get("VG_BUILDDIR", os.path.join(vgpuctl.ROOT, "build"))
    return os.path.join(build, "tests", "tools", name)


@pytest.fixture(scope="module")
def daemon(tmp_path_factory):
    directory = tmp_path_factory.mktemp("past")
    end = int(time.time()) - 5
    subprocess.run([tool("store-history"), str(directory / "state"), str(end), str(HOURS * 3600), str(VMS)],
                   check=True, timeout=HANG_S)
    with Daemon(directory, config="[live]\nuse=no\n[gpu]\nenable=no\n") as running:
        running.end = end
        yield running


def run(daemon, *args, code=0, zone="UTC"):
    done = subprocess.run([vgpuctl.program(), *args], capture_output=True, text=True, timeout=HANG_S,
                          env={**os.environ, "VGPUCTL_SOCKET": daemon.socket if daemon else "/nonexistent",
                               "TZ": zone}, check=False)
    assert done.returncode == code, (done.returncode, done.stderr, done.stdout[:500])
    return done


def doc(daemon, *args, **more):
    return json.loads(run(daemon, *args, "-o", "json", **more).stdout)


def local(seconds, zone):
    return datetime.datetime.fromtimestamp(seconds, zoneinfo.ZoneInfo(zone)).strftime("%Y-%m-%d %H:%M:%S")


@pytest.mark.smoke
def test_what_happened_last_night(daemon):
    past = doc(daemon, "vm", "list", "--since", "-12h")
    # The sums of the host are those of the histories of its VMs.
    assert past["host"]["vms"] == len(past["items"]) == VMS
    asked = (past["until_ns"] - past["since_ns"]) / 1e9
    assert asked == pytest.approx(12 * 3600, abs=5) and past["source"] == "live" and past["left_out"] == []
    lost = [vm["preempt_ns"] + vm["wake_wait_ns"] for vm in past["items"]]
    assert lost == sorted(lost, reverse=True)
    assert sum(lost) == past["host"]["preempt_ns"] + past["host"]["wake_wait_ns"] > 0
    for vm in past["items"]:
        rows = doc(daemon, "vm", "history", vm["id"], "--step", "1min", "--since", str(past["begin_ns"] // 10**9),
                   "--until", str(past["end_ns"] // 10**9))["items"]
        assert sum(row["run_ns"] for row in rows) == vm["run_ns"]
        assert sum(row["windows"] for row in rows) == vm["windows"] == past["windows"]
        assert vm["rates"]["run_share"] == pytest.approx(vm["run_ns"] / past["length_ns"], abs=1e-6)
    takers = {}
    for vm in past["items"]:
        for loss in vm["lost_to"]:
            takers[loss["aggressor"]] = takers.get(loss["aggressor"], 0) + loss["ns"]
    assert {t["aggressor"]: t["ns"] for t in past["host"]["lost_to"]} == takers
    pairs = doc(daemon, "preemptions", "--since", str(past["begin_ns"] // 10**9),
                "--until", str(past["end_ns"] // 10**9))["items"]
    assert sum(p["ns"] for p in pairs) == sum(takers.values())
    only = doc(daemon, "preemptions", "vm-1", "--since", "-12h")["items"]
    assert only and {p["victim"]["name"] for p in only} == {"vm-1"}
    run(daemon, "preemptions", "nobody", "--since", "-12h", code=3)
    first = doc(daemon, "preemptions", "--since", str(past["begin_ns"] // 10**9),
                "--until", str(past["end_ns"] // 10**9), "--limit", "3")["items"]
    assert first == pairs[:3] and len(pairs) > 3


def test_tables_of_the_past(daemon):
    zone = "Asia/Kolkata"
    since = local(daemon.end - 7200, zone)
    until = local(daemon.end, zone)
    text = run(daemon, "vm", "list", "--since", since, "--until", until, zone=zone).stdout
    # The zone is told once; times are local.
    assert text.count("IST, UTC+05:30") == 1
    assert f"{since} to {until}" in text and "is stored" not in text
    more = local(daemon.end - 40 * 86400, zone)
    text_of_more = run(daemon, "vm", "list", "--since", more, zone=zone).stdout.splitlines()
    assert text_of_more[0].startswith(f"Host, {more} to ")
    assert text_of_more[1].startswith("of which ") and text_of_more[1].endswith(until + " is stored")
    assert "TOOK CPU FROM VMs" in text and "host:kernel" in text
    assert max(map(len, text.splitlines())) <= 80
    names = [line.split()[0] for line in text.splitlines() if line.startswith("vm-")]
    assert sorted(set(names)) == [f"vm-{i}" for i in range(VMS)]
    rows = list(csv.DictReader(io.StringIO(run(daemon, "vm", "list", "--since", since, "-o", "csv", zone=zone).stdout)))
    assert len(rows) == VMS and all(int(row["preempt_ns"]) > 0 for row in rows)
    by_name = run(daemon, "vm", "list", "--since", since, "--sort", "name", "-o", "csv", zone=zone).stdout
    assert [row["name"] for row in csv.DictReader(io.StringIO(by_name))] == [f"vm-{i}" for i in range(VMS)]
    pairs = run(daemon, "preemptions", "--since", since, zone=zone).stdout
    assert "IST" in pairs and max(map(len, pairs.splitlines())) <= 80
    history = run(daemon, "vm", "history", "vm-1", "--since", since, "--step", "1h", zone=zone).stdout
    assert history.count("IST, UTC+05:30") == 1 and local(daemon.end, zone) in history
    for command in (["vm", "list"], ["preemptions"]):
        empty = run(daemon, *command, "--since", "2001-01-01", "--until", "2001-01-02").stdout
        assert empty == "nothing is stored for that time\n"


def test_rows_end_with_their_steps(daemon):
    """Windows of this store end anywhere; only the row that goes on ends with its last window."""
    for zone in ("UTC", "Asia/Kolkata"):
        text = run(daemon, "vm", "history", "vm-1", "--since", "-3h", "--step", "5min", zone=zone).stdout
        ends = [line.split()[1] for line in text.splitlines() if line.startswith("20")]
        assert len(ends) >= 36
        assert all(end.endswith(":00") and int(end[3:5]) % 5 == 0 for end in ends[:-1]), ends


def test_a_process_without_a_group_is_no_other_one(tmp_path):
    """One that was gone before its control group could be read joins the only one of its name."""
    fake = Server(tmp_path, "--vms", 3)
    try:
        asked = [vgpuctl.program(), "vm", "show", "alpha", "--socket", fake.path]
        text = subprocess.run(asked, capture_output=True, text=True, timeout=HANG_S, check=True).stdout
        lines = [line.split() for line in text.splitlines() if line.startswith("back?up")]
        vm = json.loads(subprocess.run([*asked, "-o", "json"], capture_output=True, timeout=HANG_S, check=True).stdout)
        told = next(loss for loss in vm["lost_to"] if loss["aggressor"] == "host:user")["processes"]
        both = [process for process in told if (process["comm"] or "").startswith("back")]
        assert [process["cgroup"] is None for process in both] == [False, True] and len(lines) == 1
        assert lines[0][1:3] == ["70", "+1"]
        assert float(lines[0][3]) == pytest.approx(sum(process["ns"] for process in both) / 1e9, abs=0.001)
    finally:
        fake.stop()


def test_who_is_gone_and_only_the_first(tmp_path):
    """Of two VMs of the past one is not measured any more."""
    fake = Server(tmp_path, "--vms", 1)
    try:
        def show(*args, past=("--since", "1795200000", "--until", "1795200100")):
            return subprocess.run([vgpuctl.program(), "vm", "list", *past, "--socket", fake.path, *args],
                                  capture_output=True, text=True, timeout=HANG_S, check=True)

        rows = list(csv.DictReader(io.StringIO(show("-o", "csv").stdout)))
        assert {row["name"]: row["now"] for row in rows} == {"alpha": "", "beta": "gone"}
        lines = [line for line in show().stdout.splitlines() if line.startswith("beta") and line.endswith(" gone")]
        assert len(lines) == 1
        first = show("-o", "csv", "--limit", "1")
        assert list(csv.DictReader(io.StringIO(first.stdout))) == rows[:1] and "more" not in first.stderr
    finally:
        fake.stop()
    many = Server(tmp_path, "--vms", 3)
    try:
        names = subprocess.run([vgpuctl.program(), "vm", "list", "-o", "name", "--limit", "2", "--socket", many.path],
                               capture_output=True, text=True, timeout=HANG_S, check=True).stdout.split()
        assert names == ["alpha", "beta"]
    finally:
        many.stop()


def test_who_took_it(tmp_path):
    """The process behind host:user is named; what is a lower bound has an upper one, and it is said why."""
    fake = Server(tmp_path, "--vms", 3)
    try:
        def show(*args):
            return subprocess.run([vgpuctl.program(), *args, "--since", "1795200000", "--until", "1795200100",
                                   "--socket", fake.path], capture_output=True, text=True, timeout=HANG_S,
                                  check=True).stdout

        for command in (["preemptions"], ["vm", "list"]):
            text = show(*command)
            user = next(line for line in text.splitlines() if "host:user" in line)
            assert user.endswith(" back?up") and "\033" not in text
            assert "AT MOST" in text and "rest: aggressors with too little time" in text
            assert max(map(len, text.splitlines())) <= 100
        rows = {(r["victim.name"], r["aggressor"]): (r["ns"], r["at_most"], r["mostly"])
                for r in csv.DictReader(io.StringIO(show("preemptions", "-o", "csv")))}
        assert rows["alpha", "beta"] == ("1000", "1500", "") and rows["beta", "alpha"] == ("2000", "", "")
        assert rows["alpha", "rest"] == ("500", "", "")
        assert "rest:" not in show("preemptions", "-o", "json")
    finally:
        fake.stop()


def stored(daemon, *args, zone):
    past = doc(daemon, "vm", "list", *args, zone=zone)
    return past["since_ns"] / 1e9, past["until_ns"] / 1e9


@pytest.mark.parametrize("zone", sample("zones", ["Europe/Berlin", "America/St_Johns"], 1))
def test_times_as_people_write_them(daemon, zone):
    tz = zoneinfo.ZoneInfo(zone)

    def at(*args, days=0):
        today = datetime.datetime.now(tz).date() - datetime.timedelta(days=days)
        return datetime.datetime(today.year, today.month, today.day, *args, tzinfo=tz).timestamp()

    def cases():
        day = datetime.datetime.now(tz).date() - datetime.timedelta(days=1)
        return [("yesterday", at(days=1)), ("today", at()), ("yesterday 14:05", at(14, 5, days=1)),
                (f"{day}", at(days=1)), (f"{day} 06:07", at(6, 7, days=1)), (f"{day}T06:07:08", at(6, 7, 8, days=1)),
                ("2026-01-02T03:04:05Z", 1767323045), ("2026-01-02 03:04:05.5+01:00", 1767319445.5),
                ("2026-01-02 03:04 UTC", 1767323040), ("2026-07-02T03:04+0230", 1782952440),
                ("1767323045", 1767323045), ("1767323045.25", 1767323045.25), ("@1767323045", 1767323045),
                ("-2h30m", time.time() - 9000), ("-1d12h", time.time() - 129600), ("-1w", time.time() - 604800),
                ("-90s", time.time() - 90), ("-5min", time.time() - 300), ("00:00", at())]
    for n in range(len(cases())):
        text, want = cases()[n]
        if want > time.time() - 10:
            continue
        got, until = stored(daemon, "--since", text, zone=zone)
        # It may have become midnight meanwhile.
        assert any(got == pytest.approx(each, abs=0.001 if text[0] != "-" else 60) for each in (want, cases()[n][1])), text
        assert until == pytest.approx(time.time(), abs=60)


@pytest.mark.parametrize("args, words", [
    (["--since", "lately"], ["--since", "'lately' is not a time", "yesterday", "2026-11-24"]),
    (["--since", ""], ["--since", "not a time"]),
    (["--since", "-12"], ["not a time"]),
    (["--since", "-1h30"], ["not a time"]),
    (["--since", "2h"], ["not a time"]),
    (["--since", "25:00"], ["not a time"]),
    (["--since", "14:60"], ["not a time"]),
    (["--since", "2026-02-30"], ["not a valid date"]),
    (["--since", "2026-13-01"], ["not a valid date"]),
    (["--since", "2026-01-01T10:00:00+99:00"], ["not a time"]),
    (["--since", "yesterdayx"], ["not a time"]),
    (["--since", "2199-01-01"], ["--since", "in the future", "it is 20"]),
    (["--since", "-2h", "--until", "2199-01-01"], ["--until", "in the future"]),
    (["--since", "-1h", "--until", "-2h"], ["--since", "must be before --until"]),
    (["--since", "today", "--until", "yesterday"], ["--since", "must be before --until"]),
    (["--since", "now"], ["--since", "must be before --until (now)"]),
    (["--since", "9" * 40], ["not a time"]),
])
def test_times_that_are_none(args, words):
    err = run(None, "vm", "list", *args, code=2).stderr
    assert all(word in err for word in words), err


def test_all_commands_read_times_alike():
    for command in (["preemptions"], ["vm", "history", "x"], ["events"], ["gpu", "requests", "x"]):
        assert "'lately' is not a time" in run(None, *command, "--since", "lately", code=2).stderr
        assert "in the future" in run(None, *command, "--until", "2199-01-01", code=2).stderr


def test_a_shift_that_has_not_ended(daemon):
    """The clock alone, of later today, is up to now."""
    ends = "23:59:59.9"
    assert run(daemon, "vm", "list", "--since", "-1h", "--until", ends).returncode == 0
    assert "in the future" in run(None, "vm", "list", "--since", ends, code=2).stderr


def test_an_hour_that_clocks_skip(daemon):
    err = run(None, "vm", "list", "--since", "2026-03-29 02:30", code=2, zone="Europe/Berlin").stderr
    assert "set forward" in err
    since, _ = stored(daemon, "--since", "2026-03-29 03:30", zone="Europe/Berlin")
    assert since == 1774747800


def test_what_does_not_go_together(daemon):
    assert "only to current figures" in run(daemon, "vm", "list", "--since", "-1h", "--class", "cpu", code=2).stderr
    assert "vm list" in run(daemon, "vm", "show", "vm-1", "--since", "-1h", code=2).stderr
    assert "current figures" in run(daemon, "preemptions", "--since", "-1h", "--matrix", code=2).stderr
